"""`compile`, `simulate` and `Executable`: the surface that users call."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.cuda import driver
from tilewright.errors import ArgumentError, InstructionError, KernelError, SimulationError, TargetError, ToolError
from tilewright.layout import S, laneid

FRAGMENT = S[(8, 2, 4, 2) : (4 @ laneid, 2, 1 @ laneid, 1)]


@T.prim_func
def stage(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (8, 16), "float16")
    B = T.match_buffer(B_ptr, (8, 16), "float16")
    T.cta_id([1])
    T.lane_id([32])
    tile = T.alloc_shared((8, 16), "float16")
    R = T.alloc_buffer((8, 16), "float16", scope="local", layout=FRAGMENT)
    Tx.warp.copy(tile[:, :], A[:, :])
    T.cuda.cta_sync()
    Tx.warp.copy(R[:, :], tile[:, :])
    Tx.warp.copy(B[:, :], R[:, :])


@T.prim_func
def by_hand(A: T.Buffer((8, 8), "float16")):
    T.cta_id([1])
    lane = T.lane_id([32])
    tile = T.alloc_shared((8, 8), "float16")
    R = T.alloc_local((2,), "float16")
    R[0] = A[lane // 4, lane % 4 * 2]
    R[1] = A[lane // 4, lane % 4 * 2 + 1]
    T.ptx.stmatrix(False, 1, ".b16", tile.ptr_to([lane % 8, 0]), R.ptr_to([0]))


@T.prim_func
def scaled(A_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    T.assume(n % 32 == 0)
    bx = T.cta_id([n // 32])
    lane = T.lane_id([32])
    A[bx * 32 + lane] = A[bx * 32 + lane] * s


@T.prim_func
def nibbles(A: T.Buffer((64,), "float4_e2m1fn"), B: T.Buffer((64,), "float4_e2m1fn")):
    T.cta_id([1])
    lane = T.lane_id([32])
    B[lane * 2] = A[lane * 2 + 1]
    B[lane * 2 + 1] = A[lane * 2]


def halves() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(128, dtype=np.float16).reshape(8, 16), np.zeros((8, 16), np.float16)


def test_numpy_arrays_run_on_the_simulator_and_are_changed_in_place() -> None:
    a, b = halves()

    tw.compile(stage)(a, b)

    assert np.array_equal(a, b)


def test_a_call_on_host_arrays_tells_of_races_and_of_what_nobody_wrote() -> None:
    @T.prim_func
    def racing(A: T.Buffer((64,), "float32")):
        T.cta_id([1])
        i = T.thread_id([64])
        near = T.alloc_shared((64,), "float32")
        near[i] = A[i]
        A[i] = near[63 - i]

    @T.prim_func
    def unwritten(A: T.Buffer((64,), "float32")):
        T.cta_id([1])
        i = T.thread_id([64])
        near = T.alloc_shared((64,), "float32")
        A[i] = near[i]

    for kernel, told in ((racing, "race"), (unwritten, "uninitialised")):
        with pytest.raises(SimulationError, match=told):
            tw.compile(kernel)(np.zeros(64, np.float32))


def test_arguments_may_be_named() -> None:
    a, b = halves()

    tw.compile(stage)(a, B=b)

    assert np.array_equal(a, b)


def test_simulate_returns_counts_and_warnings() -> None:
    run = tw.simulate(stage, *halves())

    assert run.counts.instructions["ptx.ldmatrix"] == 1
    assert run.warnings == []


@pytest.mark.parametrize(
    ("stage_name", "words"),
    [
        ("tile", "Tx.warp.copy(R[0:8, 0:16], tile[0:8, 0:16])"),
        ("lowered", "T.ptx.ldmatrix(T.bool(False), 2"),
        ("cuda", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"),
        ("ptx", ".target sm_90a"),
        ("sass", "LDSM"),
    ],
)
def test_each_stage_can_be_read(stage_name: str, words: str) -> None:
    assert words in tw.compile(stage, target="sm_90a").source(stage_name)


def test_an_unknown_stage_lists_the_stages() -> None:
    with pytest.raises(ArgumentError, match="unknown stage 'asm'") as raised:
        tw.compile(stage).source("asm")

    assert "tile, lowered, cuda, ptx, sass" in str(raised.value)


def test_without_a_target_the_first_that_fits_is_taken() -> None:
    assert str(tw.compile(stage).target) == "sm_90a"
    assert str(tw.compile(by_hand).target) == "sm_90a"


@pytest.mark.parametrize("target", ["sm_80", {"kind": "cuda", "arch": "sm_80"}])
def test_a_target_may_be_a_name_or_a_dict(target: str | dict[str, str]) -> None:
    assert str(tw.compile(stage, target=target).target) == "sm_80"


def test_an_unknown_target_lists_what_is_near() -> None:
    with pytest.raises(TargetError, match="unknown architecture 'sm_91'") as raised:
        tw.compile(stage, target="sm_91")

    assert "sm_90" in str(raised.value)


def test_an_instruction_that_the_target_lacks_is_an_error_at_its_line() -> None:
    with pytest.raises((TargetError, InstructionError), match="does not exist on sm_80") as raised:
        tw.compile(by_hand, target="sm_80")

    assert "T.ptx.stmatrix" in str(raised.value)
    assert "sm_90" in str(raised.value)


def test_what_is_no_kernel_is_refused_by_name() -> None:
    with pytest.raises(KernelError, match="this is not a kernel") as raised:
        tw.compile(halves)

    assert "halves, a function" in str(raised.value)


def test_symbolic_extents_come_from_the_arguments() -> None:
    a = np.ones(96, np.float32)

    tw.compile(scaled)(a, 2.5)

    assert (a == 2.5).all()


def test_an_assumption_is_checked_at_the_call() -> None:
    with pytest.raises(ArgumentError, match=r"n % 32 == 0"):
        tw.compile(scaled)(np.ones(33, np.float32), 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: (a,), "takes 2 arguments"),
        (lambda a, b: (a, b.astype(np.float32)), "dtype float16"),
        (lambda a, b: (a, b[:4]), "another shape"),
        (lambda a, b: (a, 3), "B"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(change, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        tw.compile(stage)(*change(*halves()))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ArgumentError, match="has no parameter 'C'"):
        tw.compile(stage)(*halves(), C=1)


def test_4_bit_elements_may_come_one_to_a_byte() -> None:
    from ml_dtypes import float4_e2m1fn

    a = np.array([0.5, 1, 2, 3] * 16).astype(float4_e2m1fn)
    b = np.zeros_like(a)

    tw.compile(nibbles)(a, b)

    assert b.astype(np.float32)[:4].tolist() == [1.0, 0.5, 3.0, 2.0]


def test_4_bit_elements_may_come_packed() -> None:
    a = np.arange(32, dtype=np.uint8)
    b = np.zeros_like(a)

    tw.compile(nibbles)(a, b)

    assert (b == (a >> 4 | a << 4)).all()


def test_resources_tell_that_registers_stayed_registers() -> None:
    used = tw.compile(stage, target="sm_90a").resources

    assert (used.local_bytes, used.spill_store_bytes) == (0, 0)


def test_the_gpu_is_refused_plainly_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setattr(driver, "library", driver.library.__wrapped__)

    with pytest.raises(ToolError, match="this machine has no CUDA driver"):
        tw.compile(stage)(*halves(), on="gpu")


def test_where_to_run_has_two_answers() -> None:
    with pytest.raises(ArgumentError, match="unknown place 'tpu'"):
        tw.compile(stage)(*halves(), on="tpu")


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16"])
def test_an_index_of_few_bits_reaches_far_elements(kind: str) -> None:
    @T.prim_func
    def far(A: T.Buffer((64, 512), "float32"), row: T.Buffer((1,), kind), B: T.Buffer((4, 512), "float32")):
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([32])
        rows = T.alloc_shared((64, 512), "float32")
        Tx.cta.copy(rows[:, :], A[:, :])
        T.cuda.cta_sync()
        i = row[0]
        Tx.cta.copy(B[1:3, :], rows[i : i + 2, :])
        B[0, tid] = rows[i, tid]
        B[3, tid] = rows.permute(1, 0)[tid, i]

    a = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
    b = np.zeros((4, 512), np.float32)
    tw.compile(far, "sm_90a").simulate(a, np.array([60], kind), b)

    assert np.array_equal(b[1:3], a[60:62])
    assert np.array_equal(b[[0, 3], :32], a[[60, 60], :32])


def test_a_view_may_begin_at_an_offset_of_few_bits() -> None:
    @T.prim_func
    def second_half(A: T.Buffer((1024,), "float32"), at: T.Buffer((1,), "uint8"), B: T.Buffer((32,), "float32")):
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([32])
        staged = T.alloc_shared((1024,), "float32")
        Tx.cta.copy(staged[:], A[:])
        T.cuda.cta_sync()
        view = T.decl_buffer((32,), "float32", data=staged.data, elem_offset=at[0])
        B[tid] = view[tid]

    a, b = np.arange(1024, dtype=np.float32), np.zeros(32, np.float32)
    tw.compile(second_half, "sm_90a").simulate(a, np.array([250], np.uint8), b)

    assert np.array_equal(b, a[250:282])


def test_an_executable_goes_to_another_process_as_bytes() -> None:
    a, b = np.arange(128, dtype=np.float16).reshape(8, 16), np.zeros((8, 16), np.float16)

    pickle.loads(pickle.dumps(tw.compile(stage, target="sm_90a")))(a, b)

    assert (a == b).all()


def test_a_number_that_is_no_kernel_is_called_an_int() -> None:
    with pytest.raises(KernelError, match=r"given: *3, an int"):
        tw.compile(3)
