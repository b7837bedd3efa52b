"""Pointers as numbers: what they convert to and from, and what moves them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lang.kernels import body
from tilewright.errors import KernelError
from tilewright.lang import T

FLOATS = ["float16", "bfloat16", "float32", "float64", "tf32", "float8_e4m3fn", "float4_e2m1fn", "float32x4"]


@pytest.mark.parametrize("kind", FLOATS)
def test_a_pointer_is_no_float(kind: str) -> None:
    with pytest.raises(KernelError, match=f"`A.data` of handle has no conversion to {kind}") as raised:

        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            x = T.cast(A.data, kind)  # noqa: F841  # the conversion is the test

    assert raised.value.hint == 'T.cast(A.data, "int64")'


@pytest.mark.parametrize("value", ["1.5", "A[0]", "T.float16(1)"])
def test_a_float_is_no_pointer(value: str) -> None:
    source = f'@T.prim_func\ndef k(A: T.Buffer((8,), "float32")):\n    p = A.data + {value}\n'
    with pytest.raises(KernelError, match="has no conversion to handle"):
        tw.lang.parse_script(source)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "uint32", "int64", "uint64", "bool"])
def test_the_low_bits_of_a_pointer_assemble(kind: str) -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "uint64")):
        T.cta_id([1])
        T.thread_id([1])
        B[0] = T.cast(T.cast(A.data, kind), "uint64")

    assert tw.compile(k, "sm_90a").cubin


def test_a_shuffle_hands_on_a_pointer() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "int32"), B: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        p = T.cuda.shfl_sync(0xFFFFFFFF, A.ptr_to([lane % 8]), 3)
        B[lane] = T.ptx.ld(p, type="s32")

    a, b = np.arange(8, dtype=np.int32), np.zeros(32, np.int32)
    tw.simulate(k, a, b)
    assert (b == 3).all()
    assert tw.compile(k, "sm_90a").cubin


def test_arithmetic_with_a_pointer_is_that_of_addresses() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "float32")):
        tid = T.thread_id([32])
        p = A.data + 4 * tid  # noqa: F841  # names of the kernel
        q = A.data // 16  # noqa: F841

    assert 'p: T.handle = A.data + T.cast(4 * tid, "handle")' in body(k)
    assert 'q: T.int64 = T.cast(A.data, "int64") // 16' in body(k)


def test_elements_have_bits() -> None:
    with pytest.raises(KernelError, match="s has elements without bits"):

        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            s = T.alloc_local((4,), "void")  # noqa: F841  # the declaration is the test
