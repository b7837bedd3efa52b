"""Tiles in registers whose extents only the run knows: each thread has what its registers hold, and tests it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import TilewrightError
from tilewright.layout import S, tx

ROWS, COLUMNS = 64, 24
BY_ROWS = S[(ROWS, COLUMNS) : (1 @ tx, 1)]


@T.prim_func
def chain(a: T.handle, o: T.handle, n: T.int32):
    A, Out = T.match_buffer(a, (ROWS, COLUMNS), "float32"), T.match_buffer(o, (ROWS, COLUMNS), "float32")
    T.cta_id([1])
    T.thread_id([ROWS])
    x = T.alloc_buffer((ROWS, COLUMNS), "float32", scope="local", layout=BY_ROWS)
    y = T.alloc_buffer((ROWS, COLUMNS), "float32", scope="local", layout=BY_ROWS)
    Tx.cta.fill(x, -1.0)
    Tx.cta.copy(x[0:n, :], A[0:n, :])
    Tx.cta.fill(y, 7.0)
    Tx.cta.exp(y[0:n, :], x[0:n, :])
    Tx.cta.add(y[0:n, :], y[0:n, :], A[0:n, :])
    Tx.cta.fill(x[0:n, 0:8], 3.0)
    Tx.cta.add(y[:, 0:8], y[:, 0:8], x[:, 0:8])
    Tx.cta.copy(Out[0:n, :], y[0:n, :])


@pytest.mark.parametrize("n", [0, 1, 33, ROWS])
def test_elements_before_the_end_are_computed_and_no_others(n: int) -> None:
    exe = tw.compile(chain, target="sm_90a")
    a = np.random.default_rng(n).uniform(-1, 1, (ROWS, COLUMNS)).astype(np.float32)
    found = np.full((ROWS, COLUMNS), 5, np.float32)
    exe.simulate(a, found, n, check="all")

    expected = np.exp(a) + a
    expected[:, :8] += 3
    expected[n:] = 5
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_row_a_thread_is_guarded_vector_accesses() -> None:
    report = tw.compile(chain, target="sm_90a").report.entries
    copy = next(entry for entry in report if entry.call.startswith("Tx.cta.copy(x"))

    assert (copy.variant, copy.plan.split(" per")[0]) == ("rows", "6 x 4 elements")


@T.prim_func
def folded(a: T.handle, s: T.handle, m: T.handle, c: T.handle, n: T.int32, k: T.int32):
    A, C = T.match_buffer(a, (ROWS, COLUMNS), "float32"), T.match_buffer(c, (ROWS, COLUMNS), "float32")
    R, M = T.match_buffer(s, (ROWS, 1), "float32"), T.match_buffer(m, (1, COLUMNS), "float32")
    T.cta_id([1])
    T.thread_id([ROWS])
    x = T.alloc_buffer((ROWS, COLUMNS), "float32", scope="local", layout=BY_ROWS)
    y = T.alloc_buffer((ROWS, COLUMNS), "float32", scope="local", layout=BY_ROWS)
    r = T.alloc_buffer((ROWS, 1), "float32", scope="local", layout=S[(ROWS, 1) : (1 @ tx, 1)])
    p = T.alloc_buffer((1, COLUMNS), "float32", scope="local")
    Tx.cta.copy(x, A)
    Tx.cta.fill(r, 1.0)
    Tx.cta.fill(y, 9.0)
    Tx.cta.sum(r[0:n, :], x[0:n, 0:k], axes=1, accum=True)
    Tx.cta.max(p, x[0:n, :], axes=0)
    Tx.cta.scan(y[0:n, :], x[0:n, :], axis=0)
    Tx.cta.copy(R, r)
    Tx.cta.copy(C, y)
    Tx.cta.copy(M, p)


@pytest.mark.parametrize(("n", "k"), [(1, 24), (33, 5), (ROWS, 1)])
def test_what_is_behind_the_end_counts_nothing(n: int, k: int) -> None:
    exe = tw.compile(folded, target="sm_90a")
    a = np.random.default_rng(n).integers(-9, -1, (ROWS, COLUMNS)).astype(np.float32)
    sums, most, up = (np.zeros(shape, np.float32) for shape in ((ROWS, 1), (1, COLUMNS), (ROWS, COLUMNS)))
    exe.simulate(a, sums, most, up, n, k, check="all")

    expected = np.ones((ROWS, 1), np.float32)
    expected[:n] += a[:n, :k].sum(1, keepdims=True)
    assert np.array_equal(sums, expected)
    assert np.array_equal(most, a[:n].max(0, keepdims=True))
    assert np.array_equal(up[:n], a[:n].cumsum(0))
    assert (up[n:] == 9).all()


@T.prim_func
def odd(a: T.handle, s: T.handle, p: T.handle, b: T.handle, c: T.handle):
    A, B = T.match_buffer(a, (5, 8, 64), "float32"), T.match_buffer(b, (8191,), "float32")
    R, P, C = (
        T.match_buffer(s, (5, 8), "float32"),
        T.match_buffer(p, (5,), "int32"),
        T.match_buffer(c, (8191,), "float32"),
    )
    T.cta_id([1])
    T.thread_id([128])
    Tx.cta.sum(R, A[:, :, 0:63])
    Tx.cta.argmax(P, A[:, :, 0:63], axes=(1, 2))
    Tx.cta.exp(C, B)


def test_rows_of_odd_lengths_are_read_by_16_bytes_where_they_begin_there() -> None:
    exe = tw.compile(odd, target="sm_90a")
    a = np.random.default_rng(0).integers(-20, -1, (5, 8, 64)).astype(np.float32)
    a[:, :, 63], a[2] = 100, -np.inf
    b = np.random.default_rng(1).uniform(-1, 1, 8191).astype(np.float32)
    sums, found, c = np.zeros((5, 8), np.float32), np.zeros(5, np.int32), np.zeros_like(b)
    exe.simulate(a, sums, found, b, c, check="all")

    assert np.array_equal(sums, a[:, :, :63].sum(2))
    assert np.array_equal(found, a[:, :, :63].reshape(5, -1).argmax(1))
    np.testing.assert_allclose(c, np.exp(b), rtol=1e-5)
    plans = [entry.plan for entry in exe.report.entries]
    assert all(what in plan for what, plan in zip(("16 bytes", "16 bytes", "x 4 elements"), plans, strict=True))


@T.prim_func
def folded_into_memory(a: T.handle, r: T.handle, q: T.handle, c: T.handle, o: T.handle, n: T.int32, m: T.int32):
    A, C = T.match_buffer(a, (ROWS, COLUMNS), "float32"), T.match_buffer(c, (ROWS, COLUMNS), "float32")
    R, Q = T.match_buffer(r, (ROWS,), "float32"), T.match_buffer(q, (COLUMNS,), "float32")
    One = T.match_buffer(o, (1,), "float32")
    T.cta_id([1])
    T.thread_id([ROWS])
    x = T.alloc_buffer((ROWS, COLUMNS), "float32", scope="local", layout=BY_ROWS)
    s = T.alloc_shared((COLUMNS,), "float32")
    Tx.cta.copy(x, A)
    Tx.cta.sum(R[0:n], x[0:n, 0:m])
    Tx.cta.sum(R[0:n], x[0:n, 0:m], accum=True)
    Tx.cta.fill(s, 0.0)
    T.cuda.cta_sync()
    Tx.cta.max(s[0:m], x[0:n, 0:m], axes=0)
    Tx.cta.copy(Q, s)
    Tx.cta.scan(C[0:n, 0:m], x[0:n, 0:m])
    Tx.cta.sum(One, x[0:n, 0:m], axes=(0, 1))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (33, 7), (ROWS, COLUMNS)])
def test_results_of_registers_go_to_memory_up_to_an_end_of_the_run(n: int, m: int) -> None:
    a = np.random.default_rng(n).integers(-9, 9, (ROWS, COLUMNS)).astype(np.float32)
    r, q, one = np.zeros(ROWS, np.float32), np.zeros(COLUMNS, np.float32), np.zeros(1, np.float32)
    c, part = np.zeros_like(a), a[:n, :m]
    exe = tw.compile(folded_into_memory, target="sm_90a")
    exe.simulate(a, r, q, c, one, n, m, check="all")

    assert np.array_equal(r[:n], 2 * part.sum(1))
    assert np.array_equal(q[:m], part.max(0))
    assert np.array_equal(c[:n, :m], part.cumsum(1))
    assert one == part.sum()
    assert not any(rest.any() for rest in (r[n:], q[m:], c[n:], c[:, m:]))
    assert exe.report.entries[1].plan.endswith("elements with neutral ones: 1 x 24 elements per thread")


@T.prim_func
def lines(a: T.handle, b: T.handle, c: T.handle):
    A, B = T.match_buffer(a, (32, 128), "float32"), T.match_buffer(b, (32, 128), "float32")
    C = T.match_buffer(c, (32, 128), "float16")
    T.cta_id([1])
    T.thread_id([32])
    x = T.alloc_buffer((32, 127), "float32", scope="local", layout=S[(32, 127) : (1 @ tx, 1)])
    y = T.alloc_buffer((32, 128), "float32", scope="local", layout=S[(32, 128) : (1 @ tx, 1)])
    Tx.cta.copy(x, A[:, 0:127])
    Tx.cta.exp(y[:, 3:127], A[:, 3:127])
    Tx.cta.copy(B[:, 3:127], y[:, 3:127])
    Tx.cta.cast(C[:, 0:127], x)


def test_registers_of_an_odd_line_go_by_runs_and_what_is_left_of_them() -> None:
    a = np.random.default_rng(0).uniform(-1, 1, (32, 128)).astype(np.float32)
    b, c = np.zeros_like(a), np.zeros(a.shape, np.float16)
    exe = tw.compile(lines, target="sm_90a")
    exe.simulate(a, b, c, check="all")

    np.testing.assert_allclose(b[:, 3:127], np.exp(a[:, 3:127]), rtol=1e-5)
    assert np.array_equal(c[:, :127], a[:, :127].astype(np.float16))
    assert not b[:, :3].any()
    assert not b[:, 127:].any()
    assert not c[:, 127:].any()
    plans = [entry.plan for entry in exe.report.entries]
    assert plans[0].startswith("in 3 parts: reg, 31 x 16 bytes (4 elements) per thread; reg, 1 x 8 bytes")
    assert all("31 x 4 elements" in plan or "30 x" in plan or "15 x 8 elements" in plan for plan in plans[1:])


def test_registers_that_are_neighbours_nowhere_else_are_not_cut() -> None:
    @T.prim_func
    def apart(A: T.Buffer((32, 256), "float32")):
        T.cta_id([1])
        T.thread_id([32])
        x = T.alloc_buffer((32, 127), "float32", scope="local", layout=S[(32, 127) : (1 @ tx, 1)])
        Tx.cta.copy(x, A[:, 1:128])

    assert tw.compile(apart, target="sm_90a").report.entries[0].variant == "reg"


@T.prim_func
def folded_in_memory(a: T.handle, s: T.handle, p: T.handle, c: T.handle, n: T.int32, m: T.int32):
    A, C = T.match_buffer(a, (6, 256), "float32"), T.match_buffer(c, (6, 256), "float32")
    R, P = T.match_buffer(s, (2, 6), "float32"), T.match_buffer(p, (6,), "int32")
    T.cta_id([1])
    T.thread_id([64])
    Tx.cta.sum(R[0], A[:, 0:n])
    Tx.cta.sum(R[1], A[:, m : m + 128])
    Tx.cta.argmax(P, A[:, 0:n])
    Tx.cta.scan(C[:, 0:n], A[:, 0:n])


@pytest.mark.parametrize("n", [1, 3, 130, 253, 256])
def test_reductions_and_scans_up_to_an_end_of_the_run_read_and_store_by_16_bytes(n: int) -> None:
    exe = tw.compile(folded_in_memory, target="sm_90a")
    a = np.random.default_rng(n).integers(-9, 9, (6, 256)).astype(np.float32)
    sums, found, c = np.zeros((2, 6), np.float32), np.zeros(6, np.int32), np.zeros_like(a)
    exe.simulate(a, sums, found, c, n, 200, check="all")

    assert np.array_equal(sums, [a[:, :n].sum(1), a[:, 200:].sum(1)])
    assert np.array_equal(found, a[:, :n].argmax(1))
    assert np.array_equal(c[:, :n], a[:, :n].cumsum(1))
    assert not c[:, n:].any()
    plans = [entry.plan for entry in exe.report.entries]
    assert ["16 bytes" in plan for plan in plans] == [True, False, True, True], "nobody knows where m begins"


@T.prim_func
def clipping(a: T.handle, q: T.handle, h: T.handle, n: T.int32, m: T.int32):
    A, Q = T.match_buffer(a, (40, COLUMNS), "float32"), T.match_buffer(q, (ROWS, COLUMNS), "float32")
    H = T.match_buffer(h, (50, COLUMNS), "float16")
    T.cta_id([1])
    T.thread_id([ROWS])
    x = T.alloc_buffer((ROWS, COLUMNS), "float32", scope="local", layout=BY_ROWS)
    Tx.cta.fill(x, -1.0)
    Tx.cta.copy(x[8 : 8 + n, :], A[m : m + n, :], fill=3.0)
    Tx.cta.copy(Q, x)
    Tx.cta.copy(x[0:n, 4:20], A[m : m + n, 4:20], clip=True)
    Tx.cta.cast(H[0:n, :], x[0:n, :])


@pytest.mark.parametrize(("n", "m"), [(5, 38), (50, 2), (56, 0)])
def test_an_end_of_the_run_and_the_end_of_a_buffer_hold_both(n: int, m: int) -> None:
    a = np.random.default_rng(n).integers(0, 9, (40, COLUMNS)).astype(np.float32)
    kept, halves = np.zeros((ROWS, COLUMNS), np.float32), np.zeros((50, COLUMNS), np.float16)
    tw.compile(clipping, target="sm_90a").simulate(a, kept, halves, n, m, check="all")

    x, there = np.full((ROWS, COLUMNS), -1, np.float32), a[m : m + n]
    x[8 : 8 + n] = 3
    x[8 : 8 + len(there)] = there
    assert np.array_equal(kept, x)
    x[: len(there), 4:20] = there[:, 4:20]
    assert np.array_equal(halves[:n], x[: min(n, 50)])
    assert not halves[n:].any()


def test_a_copy_behind_the_end_of_its_registers_is_an_error_of_bounds() -> None:
    a, found = np.zeros((ROWS, COLUMNS), np.float32), np.zeros((ROWS, COLUMNS), np.float32)
    with pytest.raises(TilewrightError, match=r"outside|bounds"):
        tw.compile(chain, target="sm_90a").simulate(a, found, ROWS + 1, check="all")
