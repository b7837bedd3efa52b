"""fill and zero in the language, through the simulator and the assembler."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lang.kernels import body
from tilewright.dtypes import dtype
from tilewright.errors import KernelError
from tilewright.lang import T, Tx

KINDS = ("uint8", "int32", "float16", "bfloat16", "float32", "float64", "int64", "float8_e4m3fn", "bool")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_fills_every_memory(kind: str) -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 48), kind), B: T.Buffer((48,), kind), C: T.Buffer((32, 3), kind)):
        T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_shared((48,), kind)
        R = T.alloc_local((3,), kind)
        Tx.warp.zero(A[1:3, 0:48])
        Tx.warp.fill(tile, 1)
        T.cuda.cta_sync()
        Tx.warp.copy(B, tile)
        Tx.fill(R, 1)
        Tx.copy(C[lane, :], R)

    a, b, c = (np.full(shape, 7).astype(dtype(kind).numpy) for shape in ((4, 48), (48,), (32, 3)))
    made = tw.compile(k, target="sm_90a")
    made.simulate(a, b, c)

    assert made.cubin
    assert (a[1:3] == 0).all()
    assert (a[[0, 3]] == np.asarray(7).astype(a.dtype)).all()
    assert (b == np.asarray(1).astype(b.dtype)).all()
    assert (c == np.asarray(1).astype(c.dtype)).all()


def test_a_tail_of_the_grid_and_of_the_arguments_stays_inside() -> None:
    @T.prim_func
    def k(A: T.Buffer((100, 16), "float32"), n: T.int32, x: T.float32):
        bx = T.cta_id([2])
        T.thread_id([64])
        Tx.cta.fill(A[bx * 64 : bx * 64 + 64, 0:8], x)
        if bx == 0:
            Tx.cta.fill(A[96 + n : 99 + n, 8:16], x + 1.0)

    a = np.zeros((100, 16), np.float32)
    made = tw.compile(k, target="sm_90a")
    made.simulate(a, 2, 5.0)

    assert made.cubin
    assert (a[:, :8] == 5).all()
    assert (a[98:, 8:] == 6).all()
    assert not a[:98, 8:].any()


def test_a_fill_is_printed_as_it_is_read() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "float16"), x: T.float32):
        Tx.warp.fill(A[0:4], 1.5)
        Tx.fill(A, x, vec_len=2)
        Tx.cta.zero(dst=A)

    assert body(k).splitlines() == [
        "Tx.warp.fill(A[0:4], 1.5)",
        'Tx.fill(A[0:8], T.cast(x, "float16"), vec_len=2)',
        "Tx.cta.zero(A[0:8])",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A: Tx.fill(A), "Tx.fill takes dst and value"),  # type: ignore[call-arg]  # wrong on purpose
        (lambda A: Tx.fill(A, A), "fill: value is a number"),
        (lambda A: Tx.fill(A, "1"), "fill: value is a number"),
        (lambda A: Tx.zero(A, 1), "zero: src is a tile"),
        (lambda A: Tx.fill(3, 1), "fill: dst is a tile"),
    ],
)
def test_a_fill_that_is_none(call, message: str) -> None:
    with pytest.raises(KernelError, match=message):

        @T.prim_func
        def k(A: T.Buffer((8,), "float16")):
            call(A)
