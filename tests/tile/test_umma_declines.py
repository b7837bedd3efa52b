"""Products that tcgen05.mma does not take: what the error suggests has been planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import DispatchError
from tilewright.layout import S, TCol, TLane, mma_shared_layout, sp_meta_tmem_layout

TARGET = "sm_100a"
E4M3, E2M1, E2M3 = "float8_e4m3fn", "float4_e2m1fn", "float6_e2m3fn"
ROWS = S[(64, 64) : (1 @ TLane, 1 @ TCol)]


def hint(
    a: str = "float16", b: str = "", *, m: int = 128, n: int = 64, k: int = 64, mode: int = 3, in_lanes: Any = None,
    sparse: int = 0, **keywords: Any,
) -> DispatchError:  # fmt: skip
    """The error of D = A B.T. in_lanes: the layout of an A in tensor memory. sparse: bytes of metadata for a row."""
    b, whole = b or a, 2 * k if sparse else k
    layouts = [mma_shared_layout(kind, mode, shape) for kind, shape in ((a, (m, k)), (b, (n, whole)))]

    @T.prim_func
    def product():
        T.cta_id([1])
        tid = T.thread_id([128])
        A = T.alloc_shared((m, k), a, layout=layouts[0], align=1024)
        B = T.alloc_shared((n, whole), b, layout=layouts[1], align=1024)
        addr = T.alloc_shared([1], "uint32")
        D = T.decl_buffer((m, n), "float32", scope="tmem", allocated_addr=addr[0],
                          layout=S[(m, n) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
        if in_lanes is not None:
            A = T.decl_buffer((m, k), a, scope="tmem", allocated_addr=addr[0] + 128, layout=in_lanes)
        if sparse:
            E = T.decl_buffer((128, sparse), "uint8", scope="tmem", allocated_addr=addr[0] + 256,
                              layout=sp_meta_tmem_layout(128, sparse, a))  # fmt: skip
        if tid == 0:
            if sparse:
                Tx.gemm_async(D, A, B, sp_meta=E[0:m])
            else:
                Tx.gemm_async(D, A, B, **keywords)

    with pytest.raises(DispatchError) as error:
        tw.compile(product, TARGET)
    return error.value


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: hint("float32", k=32), 'dtype "tf32" for A and B'),
        (lambda: hint("uint8", E4M3, k=128), f'a_dtype="{E2M1}"'),
        (lambda: hint("uint8", k=128, a_dtype=E2M1), f'b_dtype="{E2M1}"'),
        (lambda: hint(E2M1, E4M3, k=128, mode=2), f'"{E2M1}" and dtype "uint8", layout=mma_shared_layout("uint8"'),
        (lambda: hint(E2M1, k=128, mode=2), f'and b_dtype="{E2M1}" and dtype "uint8"'),
        (lambda: hint(E2M3, E4M3, k=128), f'a_dtype="{E2M3}" and dtype "uint8"'),
        (lambda: hint(in_lanes=S[(128, 64) : (1 @ TLane, 2 @ TCol)]), "layout=S[(128, 64):(1@TLane, 1@TCol)] for A"),
        (lambda: hint(E2M1, E4M3, k=128, mode=2, in_lanes=S[(128, 128) : (1 @ TLane, 1 @ TCol)]), f'a_dtype="{E2M1}"'),
        (lambda: hint(k=16, mode=1, collector="a::fil"), 'collector="a::fill"'),
        (lambda: hint(k=16, mode=1, collector="b0::fill"), "ws=True, by which columns of B are kept"),
        (lambda: hint(k=16, mode=1, collector="a::fill", ws=True), "without ws=True"),
        (lambda: hint(collector="a::fill"), "a call for each 16 along K: k to k + 16 of A and B, for k in (0, 16, 32"),
        (lambda: hint(n=96, ws=True), "without ws=True"),
    ],
)  # fmt: skip
def test_what_is_suggested_would_be_taken(made: Callable[[], DispatchError], said: str) -> None:
    assert said in str(made().hint)


@pytest.mark.parametrize("loop", [T.unroll, T.serial])
def test_slices_of_k_by_a_counter_are_numbers_in_a_loop_of_python(loop: Any) -> None:
    layout = mma_shared_layout("float16", 3, (128, 64))

    def product(counted: bool) -> Any:
        @T.prim_func
        def kernel():
            T.cta_id([1])
            tid = T.thread_id([128])
            A, B = (
                T.alloc_shared((128, 64), "float16", layout=layout),
                T.alloc_shared((128, 64), "float16", layout=layout),
            )
            addr = T.alloc_shared([1], "uint32")
            D = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=addr[0],
                              layout=S[(128, 128) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
            if tid == 0:
                for k in loop(4) if counted else (0, 1, 2, 3):
                    Tx.gemm_async(D, A[:, k * 16 : k * 16 + 16], B[:, k * 16 : k * 16 + 16], k > 0)

        return kernel

    with pytest.raises(DispatchError) as error:
        tw.compile(product(counted=True), TARGET)
    assert str(error.value.hint).startswith("for k in (0, 1, 2, 3)")
    tw.compile(product(counted=False), TARGET)


def test_sparse_products_of_64_rows_name_the_rule() -> None:
    error = hint(m=64, k=32, mode=2, sparse=8)
    assert "Sparse Matrices: Sparsity selector" in str(error.given)
    assert "figures alone" in str(error.given)


def test_an_operand_in_the_wrong_memory_is_named_once() -> None:
    assert "wgmma: D is in tmem memory" in str(hint("float32", k=32).given)
