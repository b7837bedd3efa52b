"""ldgsts: tiles of global memory come to shared memory by cp.async, whatever their layouts and wherever they end."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import tilewright as tw
from tests.samples import sampled
from tests.tile.kernels import AT, buffer, kernel
from tests.tile.running import MEET
from tests.tile.strategies import KINDS, THREADS, regions
from tilewright import T, Tx, ir
from tilewright.dtypes import dtype
from tilewright.errors import DispatchError, SimulationError
from tilewright.ir import Buffer, Evaluate, Region
from tilewright.isa import call as instruction
from tilewright.layout import ComposeLayout, S, SwizzleLayout
from tilewright.tile import Entry

WAIT = Evaluate(instruction("ptx.cp_async.wait_all"))


def begun(dst: Buffer | Region, src: Buffer | Region, scope: str, **config: Any) -> ir.TileCallStmt:
    parts = tuple(each.region() if isinstance(each, Buffer) else each for each in (dst, src))
    dispatch = config.pop("dispatch", "ldgsts")
    return ir.TileCallStmt("copy_async", scope, parts, dispatch, tuple(config.items()), at=AT)


def planned(
    dst: Buffer | Region, src: Buffer | Region, scope: str = "cta", arch: str = "sm_90a", **config: Any
) -> Entry:
    made = kernel(begun(dst, src, scope, **config), threads=THREADS.get(scope, 64))
    return tw.compile(made, target=arch).report.entries[0]


def refusal(dst: Buffer | Region, src: Buffer | Region, scope: str = "cta", **config: Any) -> DispatchError:
    with pytest.raises(DispatchError) as error:
        planned(dst, src, scope, **config)
    return error.value


@sampled(25, of=60)
@given(st.data())
def test_every_element_arrives_once_it_was_waited_for(data: st.DataObject) -> None:
    scope, kind = data.draw(st.sampled_from(list(THREADS))), data.draw(st.sampled_from(KINDS))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 8, 16, 24]), min_size=1, max_size=3)))
    shared = data.draw(regions("A", "shared", shape, kind))
    before = [data.draw(st.sampled_from([0, extent])) for extent in shape]
    outer = tuple(start + extent for start, extent in zip(before, shape, strict=True))
    there = Region(buffer("G", "global", outer, kind=kind), tuple(zip(before, shape, strict=True)))
    back = buffer("B", "global", shape, kind=kind)
    copied = ir.TileCallStmt("copy", scope, (back.region(), shared), None, (), at=AT)
    made = kernel(begun(shared, there, scope), WAIT, MEET, copied, threads=THREADS[scope], grid=1)
    try:
        exe = tw.compile(made, target="sm_90a")
    except DispatchError as refused:
        note(str(refused.given))  # no run of 4 bytes is in line
        return
    random = np.random.default_rng(len(shape))
    a = random.integers(0, 2 if dtype(kind).bits < 8 else 100, outer).astype(dtype(kind).numpy)
    b = np.zeros(shape, a.dtype)
    arrays = {"G": a, "B": b}

    exe.simulate(*[arrays[each.name] for each in made.buffers], check="all")

    assert np.array_equal(b, a[tuple(slice(start, None) for start in before)])


# Regions that leave their buffers

WIDTHS = (1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)


@cache
def ragged(kind: str, swizzled: bool) -> Any:
    """Tiles of 8 x 64 that begin a row before the source; rows and columns behind its end are outside."""
    layout = ComposeLayout(SwizzleLayout(3, 2, 3), S[8, 64]) if swizzled else None

    @T.prim_func
    def made(a: T.handle, B: T.Buffer((16, 320), kind)):
        rows, n = T.int32(), T.int32()
        A = T.match_buffer(a, (rows, n), kind)
        T.assume(n % (4 if kind == "float16" else 1) == 0)
        bx, by = T.cta_id([5, 2])
        T.thread_id([64])
        tile = T.alloc_buffer((8, 64), kind, scope="shared", layout=layout)
        Tx.cta.copy_async(tile, A[by * 8 - 1 : by * 8 + 7, bx * 64 : bx * 64 + 64], fill=0)
        T.ptx.cp_async.wait_all()
        T.cuda.cta_sync()
        Tx.cta.copy(B[by * 8 : by * 8 + 8, bx * 64 : bx * 64 + 64], tile)

    return tw.compile(made, target="sm_90a")


@pytest.mark.parametrize(("kind", "swizzled"), [("float16", False), ("float16", True), ("float32", False)])
def test_what_is_outside_of_the_source_becomes_zero(kind: str, swizzled: bool) -> None:
    exe = ragged(kind, swizzled)
    for width in WIDTHS:
        n = -(-width // 4) * 4 if kind == "float16" else width
        a = np.arange(1, 5 * n + 1).reshape(5, n).astype(kind)
        b, expected = np.ones((16, 320), kind), np.zeros((16, 320), kind)
        expected[1:6, :n] = a

        exe.simulate(a, b, check="all")

        assert np.array_equal(b, expected), width


@pytest.mark.long
def test_every_width_is_filled_up() -> None:
    for n in range(1, 258):
        a, b = np.arange(1, 5 * n + 1).reshape(5, n).astype("float32"), np.ones((16, 320), "float32")
        ragged("float32", False).simulate(a, b, check="all")
        assert np.array_equal(b[1:6, :n], a)
        assert not b[:, n:].any()


def test_a_run_ends_where_the_source_does() -> None:
    @T.prim_func
    def made(a: T.handle, B: T.Buffer((4, 64), "float16")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float16")
        T.cta_id([1])
        T.thread_id([32])
        tile = T.alloc_shared((4, 64), "float16")
        for i in range(4):
            Tx.cta.copy_async(tile[i], A[i * 64 - 16 : i * 64 + 48], fill=0)
        T.ptx.cp_async.wait_all()
        T.cuda.cta_sync()
        Tx.cta.copy(B, tile)

    exe = tw.compile(made, target="sm_90a")
    assert exe.report.entries[0].plan.startswith("cp_async.cg of 16 bytes")
    for n in (1, 15, 16, 17, 100, 201, 240):
        a, b, expected = np.arange(1, n + 1).astype("float16"), np.ones((4, 64), "float16"), np.zeros(256, "float16")
        expected[16 : 16 + n] = a
        exe.simulate(a, b, check="all")
        assert np.array_equal(b.reshape(-1), expected)


def test_clip_leaves_alone_what_is_outside() -> None:
    @T.prim_func
    def made(A: T.Buffer((100,), "float32"), B: T.Buffer((128,), "float32")):
        bx = T.cta_id([2])
        T.thread_id([32])
        tile = T.alloc_shared((64,), "float32")
        Tx.cta.fill(tile, 7)
        T.cuda.cta_sync()
        Tx.cta.copy_async(tile, A[bx * 64 : bx * 64 + 64], clip=True)
        T.ptx.cp_async.wait_all()
        T.cuda.cta_sync()
        Tx.cta.copy(B[bx * 64 : bx * 64 + 64], tile)

    a, b = np.arange(100, dtype=np.float32), np.zeros(128, np.float32)
    tw.simulate(made, a, b, check="all")

    assert np.array_equal(b, np.concatenate([a, np.full(28, 7, np.float32)]))


# The caller's waits


@pytest.mark.parametrize(("wait", "meet"), [(False, True), (True, False)])
def test_a_missing_wait_and_a_missing_barrier_are_told(wait: bool, meet: bool) -> None:
    @T.prim_func
    def made(A: T.Buffer((64, 8), "float16"), B: T.Buffer((64, 8), "float16")):
        T.cta_id([1])
        tid = T.thread_id([64])
        tile = T.alloc_shared((64, 8), "float16")
        Tx.cta.copy_async(tile, A)
        if wait:
            T.ptx.cp_async.wait_all()
        if meet:
            T.cuda.cta_sync()
        B[tid, 0] = tile[63 - tid, 0]

    with pytest.raises(SimulationError, match=r"still be writing|race"):
        tw.simulate(made, np.zeros((64, 8), np.float16), np.zeros((64, 8), np.float16), check="all")


# Reports

G, A = buffer("G", "global", (64, 64)), buffer("A", "shared", (64, 64))


@pytest.mark.parametrize(
    ("scope", "runs"),
    [("cta", "8 x 8 elements for each of 64"), ("warpgroup", "4 x 8 elements for each of 128"),
     ("warp", "16 x 8 elements for each of 32"), ("thread", "512 x 8 elements per")],
)  # fmt: skip
def test_each_scope_shares_the_runs_out(scope: str, runs: str) -> None:
    assert planned(A, G, scope).plan.startswith(f"cp_async.cg of 16 bytes: {runs} thread")


def test_narrower_runs_go_through_the_l1_cache() -> None:
    odd = Region(buffer("G", "global", (64, 68)), ((0, 64), (4, 64)))

    assert planned(A, odd).plan.startswith("cp_async.ca of 8 bytes")
    assert planned(A, G, vec_len=2).plan.startswith("cp_async.ca of 4 bytes")


@pytest.mark.parametrize(
    ("dst", "src", "config", "reason"),
    [
        (G, A, {}, "copies from shared to global memory, not from global to shared"),
        (A, Region(buffer("G", "global", (64, 65)), ((0, 64), (0, 64))), {}, "no multiple of 4"),
        (A, G, {"fill": 1}, "cp_async fills with zeros, not with 1"),
        (A, G, {"vec_len": 1}, "vec_len=1 is no vector of 32 to 128 bits"),
        (A, G, {"scope": "cluster"}, "the CTAs of a cluster do not share their shared memory"),
        (A, G, {"arch": "sm_75"}, "cp_async exists on sm_80 and later, not on sm_75"),
    ],
)
def test_it_declines_with_its_reason(dst: Buffer, src: Buffer, config: dict[str, Any], reason: str) -> None:
    assert reason in str(refusal(dst, src, **config).given)


def test_a_near_miss_says_what_would_bring_runs_into_line() -> None:
    padded = buffer("A", "shared", (64, 64), S[(64, 64) : (65, 1)])

    assert refusal(padded, G).hint == "S[(64, 64):(66, 1)] for A, which makes its strides multiples of 4 bytes"


def test_it_takes_a_copy_that_names_no_variant() -> None:
    assert planned(A, G, dispatch=None).variant == "ldgsts"


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("word", ["", "fill", "clip"])
def test_extents_of_the_run_go_by_16_bytes_and_rows_end_anywhere(kind: str, word: str) -> None:
    words = {} if not word else {"fill": 0} if word == "fill" else {"clip": True}

    @T.prim_func
    def partly(A: T.Buffer((36, 144), kind), B: T.Buffer((40, 144), kind), n: T.int32, m: T.int32):
        T.cta_id([1])
        T.thread_id([64])
        s = T.alloc_shared((40, 144), kind)
        Tx.cta.fill(s, 3)
        T.cuda.cta_sync()
        Tx.cta.copy_async(s[0:n, 0:m], A[8 : 8 + n, 16 : 16 + m], **words)
        T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(0)
        T.cuda.cta_sync()
        Tx.cta.copy(B, s)

    exe = tw.compile(partly, target="sm_90a")
    a = np.random.default_rng(0).integers(-9, 9, (36, 144)).astype(kind)
    for n, m in [(0, 9), (28, 128), (5, 121), (13, 1), *([(40, 135)] if word else [])]:
        found, wanted, there = np.zeros((40, 144), kind), np.full((40, 144), 3, kind), a[8 : 8 + n, 16 : 16 + m]
        exe.simulate(a, found, n, m, check="all")
        wanted[:n, :m] = 0 if word == "fill" else 3
        wanted[: len(there), : there.shape[1]] = there
        assert np.array_equal(found, wanted)
    assert exe.report.entries[1].plan.startswith("cp_async.cg of 16 bytes")


def test_a_number_that_is_no_multiple_of_an_access_goes_by_16_bytes_as_well() -> None:
    @T.prim_func
    def odd(A: T.Buffer((1001,), "float16"), B: T.Buffer((1001,), "float16")):
        T.cta_id([1])
        T.thread_id([64])
        s = T.alloc_shared((1001,), "float16")
        Tx.cta.copy_async(s, A)
        T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(0)
        T.cuda.cta_sync()
        Tx.cta.copy(B, s)

    exe, a = tw.compile(odd, target="sm_90a"), np.arange(1001).astype(np.float16)
    found = np.zeros_like(a)
    exe.simulate(a, found, check="all")

    assert np.array_equal(found, a)
    assert exe.report.entries[0].plan.startswith("cp_async.cg of 16 bytes: 126 x 8 elements")
