"""A report of the simulator is understandable at first sight: it has the place, the value, and a hint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.house import first_errors
from tilewright import T, Tx
from tilewright.errors import DispatchError, KernelError, SimulationError, TilewrightWarning
from tilewright.layout import S, TileLayout, laneid, tx


def refused(name: str) -> SimulationError:
    with pytest.raises(SimulationError, match=r".") as raised:
        first_errors.RUN[name]()
    return raised.value


def test_an_element_of_another_lane_is_said_to_be_there_and_how_it_is_read() -> None:
    error = refused("reads_another_lane")

    assert error.what == "tile[0, lane % 8] lies in the registers of another lane"
    assert "T.cuda.shfl_sync" in str(error.hint)


def test_an_access_that_overruns_names_all_of_its_elements_and_the_value_of_the_symbol() -> None:
    error = refused("overruns")

    assert error.given == "A[28] to A[31], 16 bytes, of which A[30] is outside, in CTA (0, 0, 0), warp 0, lane 7"
    assert "n = 30" in str(error.allowed)


def test_the_end_of_a_region_is_no_lane_s_own() -> None:
    error = refused("leaves_rows")

    assert error.what == "Tx.cta.copy reads outside of A"
    assert error.given == "index 63 of dimension 1, where the region ends, in CTA (0, 0, 0), warp 0"
    assert str(error.hint).startswith("fill=0")


def test_poison_in_a_product_names_the_register() -> None:
    error = refused("multiplies_nothing")

    assert error.what == "a[3] is uninitialised"
    assert str(error.given).startswith("register 3 of a, an operand of ptx.mma")


def test_the_report_of_a_tile_copy_names_the_thread_and_the_element() -> None:
    @T.prim_func
    def blocks(X: T.handle, Y: T.Buffer((1024,), "float32")):
        n = T.int32()
        A = T.match_buffer(X, (n,), "float32")
        bx = T.cta_id([T.ceildiv(n, 256)])
        T.thread_id([64])
        tile = T.alloc_buffer((256,), "float32", scope="local", layout=TileLayout(S[(64, 4) : (1 @ tx, 1)]))
        Tx.cta.copy(tile, A[bx * 256 : bx * 256 + 256])
        Tx.cta.copy(Y[bx * 256 : bx * 256 + 256], tile)

    with pytest.raises(SimulationError, match=r"Tx\.cta\.copy reads outside of A") as raised:
        tw.simulate(blocks, np.zeros(1001, np.float32), np.zeros(1024, np.float32))

    assert raised.value.given == (
        "A[1000] to A[1003], 16 bytes, of which A[1001] is outside, in CTA (3, 0, 0), warp 1, lanes 26..31"
    )
    assert str(raised.value.hint).startswith("fill=0")


def test_a_region_of_a_product_may_leave_its_arrays() -> None:
    @T.prim_func
    def ragged(a: T.handle, B: T.Buffer((16, 8), "float16"), c: T.handle):
        m = T.int32()
        A = T.match_buffer(a, (m, 16), "float16")
        C = T.match_buffer(c, (m, 8), "float32")
        bx = T.cta_id([T.ceildiv(m, 16)])
        T.lane_id([32])
        Tx.warp.gemm(C[bx * 16 : bx * 16 + 16], A[bx * 16 : bx * 16 + 16], B)

    a, b = np.ones((20, 16), np.float16), np.ones((16, 8), np.float16)
    c = np.zeros((20, 8), np.float32)
    tw.simulate(ragged, a, b, c, check="all")

    assert (c == 16).all()


@pytest.mark.parametrize("name", ["adds_to_nothing", "multiplies_nothing", "meets_in_two_places", "waits_for_one_more"])
def test_uninitialised_reads_divergence_and_deadlocks_say_what_to_try(name: str) -> None:
    assert refused(name).hint


def test_uninitialised_shared_memory_asks_for_a_store_and_a_barrier() -> None:
    @T.prim_func
    def unwritten(X: T.Buffer((64,), "float32")):
        t = T.thread_id([64])
        tile = T.alloc_shared((64,), "float32")
        X[t] = tile[t] + 1.0

    with pytest.raises(SimulationError, match=r"tile\[0\] is uninitialised") as raised:
        tw.simulate(unwritten, np.zeros(64, np.float32))

    assert raised.value.at is not None
    line = raised.value.at.line
    assert raised.value.hint == f"a store to tile[0] before line {line}, and T.cuda.cta_sync() in between"


def test_a_livelock_asks_for_a_store_by_another_thread() -> None:
    @T.prim_func
    def polls(X: T.Buffer((1,), "int32")):
        T.thread_id([64])
        while T.ptx.ld(X.ptr_to([0]), sem="acquire", scope="gpu") == 0:
            pass

    with pytest.raises(SimulationError, match="livelock") as raised:
        tw.simulate(polls, np.zeros(1, np.int32))

    assert "T.ptx.st" in str(raised.value.hint)


def test_a_result_that_all_threads_store_says_that_one_is_enough() -> None:
    @T.prim_func
    def total(X: T.Buffer((1024,), "float32"), Y: T.Buffer((1,), "float32")):
        T.thread_id([128])
        with Tx.cta:
            x = T.alloc_buffer((1024,), "float32", scope="local", layout=TileLayout(S[(128, 8) : (1 @ tx, 1)]))
            x[:] = X
            s = T.sum(x)
        Y[0] = s[0]

    run = tw.simulate(total, np.ones(1024, np.float32), np.zeros(1, np.float32))

    assert "one of them is enough: if T.thread_id() == 0: ..." in run.warnings[0]


@pytest.mark.parametrize("name", ["copy", "fill", "add"])
def test_a_bare_call_that_every_thread_repeats_says_what_may_be_meant(name: str) -> None:
    @T.prim_func
    def repeated(X: T.Buffer((32,), "float32"), Y: T.Buffer((32,), "float32")):
        T.thread_id([64])
        getattr(Tx, name)(Y, *{"copy": [X], "fill": [1.0], "add": [X, 1.0]}[name])

    with pytest.warns(TilewrightWarning, match=f"Tx.{name} is one thread's, and 64 threads each do all of it"):
        tw.compile(repeated, target="sm_90a")


def test_a_bare_call_on_a_thread_s_own_part_is_quiet() -> None:
    @T.prim_func
    def own(X: T.Buffer((32, 4), "float32"), Y: T.Buffer((32, 4), "float32")):
        t = T.thread_id([32])
        Tx.copy(Y[t], X[t])
        if t == 0:
            Tx.copy(Y[0], X[1])

    tw.compile(own, target="sm_90a")


def test_a_copy_that_no_unit_makes_by_itself_is_one_of_threads() -> None:
    @T.prim_func
    def shared_to_shared(X: T.Buffer((1024,), "float32")):
        T.thread_id([128])
        a, b = T.alloc_shared((1024,), "float32"), T.alloc_shared((1024,), "float32")
        Tx.warp.copy_async(a, b)

    with pytest.raises(DispatchError, match="no variant takes") as raised:
        tw.compile(shared_to_shared, target="sm_80")

    assert str(raised.value.hint).startswith("Tx.warp.copy(...)")


def test_a_reduction_into_registers_without_a_layout_broadcasts_over_its_rows() -> None:
    rows = TileLayout(S[(32, 4, 16) : (4 @ tx, 1 @ tx, 1)])

    @T.prim_func
    def shifted(X: T.Buffer((32, 64), "float32"), Y: T.Buffer((32, 64), "float32")):
        T.thread_id([128])
        x = T.alloc_buffer((32, 64), "float32", scope="local", layout=rows)
        m = T.alloc_local((32,), "float32")
        x[:] = X
        m[:] = T.max(x, axis=1)
        Y[:] = x - m[:, None]

    x, y = np.random.default_rng(0).random((32, 64), np.float32), np.zeros((32, 64), np.float32)

    tw.simulate(shifted, x, y)

    assert (y == x - x.max(1, keepdims=True)).all()


def test_the_hint_of_an_assertion_at_run_time_works() -> None:
    @T.prim_func
    def checked(X: T.Buffer((64,), "float32")):
        t = T.thread_id([64])
        T.cuda.device_assert(t < 64)
        X[t] = 1.0

    tw.simulate(checked, np.zeros(64, np.float32))
    with pytest.raises(KernelError, match="`assert` checks while the kernel is parsed") as raised:

        @T.prim_func
        def refused_one(X: T.Buffer((64,), "float32")):
            t = T.thread_id([64])
            assert t < 64
            X[t] = 1.0

    assert str(raised.value.hint).startswith("T.cuda.device_assert(t < 64)")


def test_a_product_of_symbolic_extents_asks_for_tiles_of_numbers() -> None:
    @T.prim_func
    def symbolic(a: T.handle, B: T.Buffer((16, 8), "float16"), c: T.handle):
        m = T.int32()
        A = T.match_buffer(a, (m, 16), "float16")
        C = T.match_buffer(c, (m, 8), "float32")
        T.lane_id([32])
        Tx.warp.gemm(C, A, B)

    with pytest.raises(DispatchError, match="no variant takes") as raised:
        tw.compile(symbolic, target="sm_90a")

    assert raised.value.hint == "tiles of numbers, C[i * 16 : i * 16 + 16]; T.assume(m % 16 == 0) where they fill it"


FRAGMENT = TileLayout(S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)])


@T.prim_func
def from_a_pool(out: T.Buffer((32,), "float32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    pool = T.SMEMPool()
    first = pool.alloc((2, 32), "float32")
    second = pool.alloc((2, 32), "float32")
    first[1, lane] = 1.0
    out[lane] = first[1, lane] + second[1, lane]


@T.prim_func
def product(a: T.Buffer((16, 16), "float16"), out: T.Buffer((16, 8), "float32")):
    T.cta_id([1])
    T.lane_id([32])
    left, right = T.alloc_shared((16, 16), "float16"), T.alloc_shared((8, 16), "float16")
    acc = T.alloc_buffer((16, 8), "float32", scope="local", layout=FRAGMENT)
    Tx.warp.copy(left, a)
    T.cuda.warp_sync()
    Tx.warp.zero(acc)
    Tx.warp.gemm(acc, left, right, transpose_B=True)
    Tx.warp.copy(out, acc)


@T.prim_func
def register_of_a_tile(out: T.Buffer((32,), "float32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    words = T.alloc_local((2, 2), "uint32")
    out[lane] = T.reinterpret("float32", words[1, 1]) + 1.0


@pytest.mark.parametrize(
    ("kernel", "what", "hint"),
    [
        (from_a_pool, "second[1, 0]", "a store to second[1, 0] before line"),
        (product, "right", "a store to right before line"),
        (register_of_a_tile, '`T.reinterpret("float32", words[1, 1])`', "None"),
    ],
)
def test_what_is_uninitialised_has_the_name_and_the_index_that_the_author_gave_it(
    kernel: Any, what: str, hint: str
) -> None:
    (found,) = tw.check(kernel).findings

    assert found.message == f"{what} is uninitialised"
    assert str(found.hint).startswith(hint)
