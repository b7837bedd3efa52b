"""Row-pitched arguments: rows further apart than they are long, on the simulator."""

# ruff: noqa: F821  the names of a kernel are read by its parser
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import ArgumentError, KernelError, SimulationError
from tilewright.lang import parse_script
from tilewright.layout import S, TileLayout

BASE = np.arange(1000, dtype=np.float32).reshape(10, 100)


@T.prim_func
def add_one(A_ptr: T.handle, B_ptr: T.handle):
    m = T.int32()
    n = T.int32()
    lda = T.int32()
    ldb = T.int32()
    A = T.match_buffer(A_ptr, (m, n), "float32", strides=(lda, 1))
    B = T.match_buffer(B_ptr, (m, n), "float32", strides=(ldb, 1))
    bx = T.cta_id([m])
    x = T.thread_id([32])
    for k in range((n + 31) // 32):
        if k * 32 + x < n:
            B[bx, k * 32 + x] = A[bx, k * 32 + x] + 1.0


@T.prim_func
def constant(A: T.Buffer((8, 32), "float32", strides=(40, 1)), B: T.Buffer((8, 40), "float32")):
    T.cta_id([1])
    x = T.thread_id([40])
    for y in range(7):
        if x < 32:
            B[y, x] = A[y, x]


@T.prim_func
def tile(
    m: T.int32,
    n: T.int32,
    lda: T.int32,
    A: T.Buffer((m, n), "float16", layout=TileLayout(S[(m, n) : (lda, 1)])),
    B: T.Buffer((64, 64), "float16"),
):
    T.assume(lda % 8 == 0)
    T.cta_id([1])
    T.thread_id([128])
    s = T.alloc_shared((64, 64), "float16")
    Tx.cta.copy(s[:, :], A[0:64, 0:64])
    T.cuda.cta_sync()
    Tx.cta.copy(B[:, :], s[:, :])


def padded(rows: int, columns: int, pitch: int, kind: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.zeros((rows, pitch), kind)[:, :columns]


def test_symbolic_strides_take_their_values_from_the_arrays() -> None:
    a, whole = BASE[1:9, 4:54], np.zeros((8, 80), np.float32)

    tw.simulate(add_one, a, whole[:, 8:58])

    assert np.array_equal(whole[:, 8:58], a + 1)
    assert not whole[:, :8].any()
    assert not whole[:, 58:].any()
    assert tw.compile(add_one).bind(a, whole[:, 8:58]).values == {"m": 8, "n": 50, "lda": 100, "ldb": 80}


@pytest.mark.parametrize("rows", [1, 0])
def test_one_row_and_none_have_any_pitch(rows: int) -> None:
    a, b = BASE[1 : 1 + rows, 4:54], np.zeros((rows, 50), np.float32)

    tw.simulate(add_one, a, b)

    assert np.array_equal(b, a + 1)


def test_a_contiguous_array_has_the_pitch_of_its_rows() -> None:
    b = np.zeros_like(BASE)

    tw.compile(add_one)(BASE, b)

    assert np.array_equal(b, BASE + 1)


def test_constant_strides_are_those_of_the_array() -> None:
    a, b = padded(8, 32, 40), np.zeros((8, 40), np.float32)
    a[...] = BASE[:8, :32]

    tw.compile(constant)(a, b)

    assert np.array_equal(b[:7, :32], BASE[:7, :32])


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (padded(8, 32, 48), r"strides \(48, 1\).*strides \(40, 1\)"),
        (padded(8, 32, 32), r"strides \(32, 1\).*strides \(40, 1\)"),
        (padded(8, 31, 40), r"C-contiguous.*strides \(40, 1\)"),
        (np.asfortranarray(BASE[:8, :32]), r"strides \(1, 8\).*strides \(40, 1\)"),
    ],
)
def test_other_strides_than_declared_are_refused_with_both(array: np.ndarray[Any, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s)argument A of constant.*{said}"):
        tw.compile(constant)(array, np.zeros((8, 40), np.float32))


def test_columns_apart_do_not_fit_rows_apart() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)A of add_one has other strides.*\(1, 8\).*\(lda, 1\)"):
        tw.compile(add_one)(np.asfortranarray(BASE[:8, :50]), BASE[:8, :50].copy())


def test_rows_that_go_backwards_give_no_stride() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)A of add_one gives no lda.*A\.strides\[0\] = -100"):
        tw.compile(add_one)(BASE[::-1], BASE.copy())


def test_the_padding_between_rows_is_outside() -> None:
    @T.prim_func
    def beyond(A: T.Buffer((8, 32), "float32", strides=(40, 1)), B: T.Buffer((8, 40), "float32")):
        T.cta_id([1])
        x = T.thread_id([40])
        for y in range(7):
            B[y, x] = A[y, x]

    with pytest.raises(SimulationError, match=r"(?s)reads outside of A.*index 32 of dimension 1.*lanes 0\.\.7"):
        tw.compile(beyond)(padded(8, 32, 40), np.zeros((8, 40), np.float32))


def test_a_tile_of_a_pitched_array_is_copied_by_16_bytes_where_the_pitch_allows() -> None:
    a, b = np.random.default_rng(0).random((70, 200)).astype(np.float16), np.zeros((64, 64), np.float16)
    made = tw.compile(tile)

    made(70, 100, 200, a[:, :100], b)

    assert np.array_equal(b, a[:64, :64])
    assert "x 16 bytes" in str(made.report)
    with pytest.raises(ArgumentError, match="lda % 8 == 0"):
        made(70, 100, 100, a[:, :100].copy(), b)
    with pytest.raises(ArgumentError, match=r"(?s)A of tile.*strides \(200, 1\).*strides \(192, 1\)"):
        made(70, 100, 192, a[:, :100], b)


def test_the_report_names_the_fact_about_the_pitch_that_is_missing() -> None:
    @T.prim_func
    def unknown(A_ptr: T.handle, B: T.Buffer((64, 64), "float16")):
        m = T.int32()
        lda = T.int32()
        A = T.match_buffer(A_ptr, (m, 64), "float16", strides=(lda, 1))
        T.cta_id([1])
        T.thread_id([128])
        s = T.alloc_shared((64, 64), "float16")
        Tx.cta.copy(s[:, :], A[0:64, :])
        T.cuda.cta_sync()
        Tx.cta.copy(B[:, :], s[:, :])

    assert "T.assume(lda % 8 == 0)" in str(tw.compile(unknown).report)


@pytest.mark.parametrize("kernel", [add_one, constant, tile], ids=lambda kernel: kernel.name)
def test_the_script_of_a_pitched_kernel_parses_back(kernel: Any) -> None:
    authored = tw.compile(kernel).kernel

    assert parse_script(str(authored)) == authored


@pytest.mark.parametrize(
    ("words", "given"),
    [({"strides": (4,)}, r"\(4\)"), ({"strides": (4, 1), "layout": S[8, 4]}, r"\(4, 1\) and the layout S")],
)
def test_strides_are_one_for_each_dimension_and_no_layout(words: dict[str, Any], given: str) -> None:
    with pytest.raises(KernelError, match=f"(?s)the strides of A.*given: +{given}.*one for each of 2 dimensions"):

        @T.prim_func
        def k(A_ptr: T.handle):
            A = T.match_buffer(A_ptr, (8, 4), "float32", **words)  # noqa: F841
            T.cta_id([1])
