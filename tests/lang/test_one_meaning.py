"""What has one meaning wherever it is written: conversions, regions that leave, vector lengths, views, pointers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.errors import TilewrightError
from tilewright.lang import T, Tx
from tilewright.layout import S, laneid

KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint32", "float16", "bfloat16", "float32", "float64")


def refused(make) -> bool:
    """Does making or compiling the kernel fail?"""
    try:
        tw.compile(make(), target="sm_80")
    except TilewrightError as error:
        return error.hint is not None
    return False


def element(to: str, source: str):
    @T.prim_func
    def k(A: T.Buffer((64,), source), B: T.Buffer((64,), to)):
        T.cta_id([1])
        t = T.thread_id([64])
        B[t] = A[t]

    return k


def assigned(to: str, source: str):
    @T.prim_func
    def k(A: T.Buffer((64,), source), B: T.Buffer((64,), to)):
        T.cta_id([1])
        T.thread_id([64])
        with Tx.cta:
            B[:] = A

    return k


def copied(to: str, source: str):
    @T.prim_func
    def k(A: T.Buffer((64,), source), B: T.Buffer((64,), to)):
        T.cta_id([1])
        T.thread_id([64])
        Tx.cta.copy(B, A)

    return k


def computed(to: str, source: str):
    @T.prim_func
    def k(A: T.Buffer((64,), source), B: T.Buffer((64,), to)):
        T.cta_id([1])
        T.thread_id([64])
        Tx.cta.abs(B, A)

    return k


def test_i8_from_f32_is_refused_of_tiles_as_of_scalars() -> None:
    for to, source in product(KINDS, KINDS):
        wanted = dtype(source).is_float and not dtype(to).is_float
        wanted |= dtype(source).is_integer and dtype(to).is_integer and dtype(source).bits > dtype(to).bits
        for make in (element, assigned, copied, computed):
            assert refused(lambda make=make, to=to, source=source: make(to, source)) == wanted, (make, to, source)


@pytest.mark.parametrize("form", range(4))
def test_a_region_of_16_in_ten_elements_is_refused_in_every_tile_call(form: int) -> None:
    def make():
        @T.prim_func
        def k(A: T.Buffer((10,), "float32"), B: T.Buffer((16,), "float32")):
            T.cta_id([1])
            T.thread_id([32])
            with Tx.cta:
                if form == 0:
                    B[:] = A[0:16] * 2
                elif form == 1:
                    B[:] = A[0:16]
                elif form == 2:
                    Tx.cta.mul(B, A[0:16], 2.0)
                else:
                    Tx.cta.sum(B[0:1], A[0:16])

        return k

    with pytest.raises(TilewrightError, match="outside of A"):
        tw.compile(make(), target="sm_80")


@pytest.mark.parametrize("length", [3, 8, 32])
@pytest.mark.parametrize("name", ["mul", "copy", "fill"])
def test_a_vec_len_that_is_no_vector_is_refused_with_those_that_are(name: str, length: int) -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.cta_id([1])
        T.thread_id([32])
        if name == "mul":
            Tx.cta.mul(B, A, 2.0, vec_len=length)
        elif name == "copy":
            Tx.cta.copy(B, A, vec_len=length)
        else:
            Tx.cta.fill(B, 2.0, vec_len=length)

    with pytest.raises(TilewrightError, match=f"vec_len={length}") as raised:
        tw.compile(k, target="sm_80")

    assert raised.value.allowed == "4, 2, 1"


def test_local_of_a_shape_has_the_elements_in_their_own_order() -> None:
    @T.prim_func
    def k(A: T.Buffer((32, 2, 2), "int32"), B: T.Buffer((32, 2, 2), "int32"), C: T.Buffer((32, 4), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        x = T.alloc_buffer((32, 2, 2), "int32", scope="local", layout=S[(32, 2, 2) : (1 @ laneid, 1, 2)])
        Tx.warp.copy(x, A)
        mine, slots = x.local(2, 2), x.local()
        for i, j in T.grid(2, 2):
            B[lane, i, j] = mine[i, j]
        for k in range(4):
            C[lane, k] = slots[k]

    a = np.arange(128, dtype=np.int32).reshape(32, 2, 2)
    b, c = np.zeros_like(a), np.zeros((32, 4), np.int32)
    tw.simulate(k, a, b, c)

    assert np.array_equal(b, a)
    assert np.array_equal(c, a.transpose(0, 2, 1).reshape(32, 4))


def test_a_tensor_map_made_in_the_kernel_is_in_scope() -> None:
    @T.prim_func
    def k(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 32), "float16")):
        T.cta_id([1])
        tid = T.thread_id([128])
        m = T.tensor_map(A, box=(32, 64))
        s = T.alloc_shared((64, 32), "float16", align=128)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64 * 32 * 2)
            T.ptx.cp_async.bulk.tensor.g2c(2, s.ptr_to([0, 0]), bar.ptr_to([0]), T.address_of(m), 0, -1, "", 32, 0)
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        for i in range(16):
            B[i * 4 + tid // 32, tid % 32] = s[i * 4 + tid // 32, tid % 32]

    a = np.arange(4096).reshape(64, 64).astype(np.float16)
    b = np.zeros((64, 32), np.float16)
    tw.simulate(k, a, b, target="sm_90a", check="all")

    assert np.array_equal(b, a[:, 32:])
    assert "cp.async.bulk.tensor" in tw.compile(k, target="sm_90a").source("ptx")


def test_access_ptr_of_elem_offset_of_is_ptr_to() -> None:
    @T.prim_func
    def k(B: T.Buffer((4,), "int32")):
        T.cta_id([1])
        t = T.thread_id([32])
        s = T.alloc_shared((64,), "int32")
        s[t], s[t + 32] = t, t + 32
        T.cuda.cta_sync()
        v = T.decl_buffer((8, 4), "int32", data=s.data, elem_offset=16, scope="shared")
        if t == 0:
            places = (v.ptr_to([1, 1]), v.access_ptr("r", offset=v.elem_offset_of([1, 1])))
            for place, pointer in enumerate(places):
                B[place] = T.decl_buffer((1,), "int32", data=pointer, scope="shared")[0]
            B[2] = T.decl_buffer((1,), "int32", data=v.data, elem_offset=v.elem_offset_of([1, 1]), scope="shared")[0]
            B[3] = T.decl_buffer((1,), "int32", data=v.access_ptr("r"), scope="shared")[0]

    b = np.zeros(4, np.int32)
    tw.simulate(k, b)

    assert b.tolist() == [21, 21, 21, 16]


def test_bool_counts_in_sums_and_scans_and_has_an_argmax() -> None:
    @T.prim_func
    def k(
        a: T.Buffer((4, 64), "bool"),
        s: T.Buffer((4,), "int32"),
        m: T.Buffer((4,), "int32"),
        c: T.Buffer((4, 64), "int32"),
    ):
        T.cta_id([1])
        T.thread_id([64])
        Tx.cta.sum(s, a, axes=1)
        Tx.cta.argmax(m, a, axes=1)
        Tx.cta.scan(c, a, axis=1)

    a = np.random.default_rng(0).random((4, 64)) < 0.1
    a[1], a[2] = True, False
    s, m, c = np.zeros(4, np.int32), np.zeros(4, np.int32), np.zeros((4, 64), np.int32)
    tw.simulate(k, a, s, m, c)

    assert s.tolist() == a.sum(1).tolist()
    assert m.tolist() == a.argmax(1).tolist()
    assert np.array_equal(c, a.cumsum(1))


def test_the_first_of_several_nan_is_the_largest() -> None:
    @T.prim_func
    def k(a: T.Buffer((4, 64), "float32"), m: T.Buffer((4,), "int32"), n: T.Buffer((4,), "int32")):
        T.cta_id([1])
        T.thread_id([64])
        Tx.cta.argmax(m, a, axes=1)
        Tx.cta.argmin(n, a, axes=1)

    a = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    a[0, [5, 9, 40]] = a[1, [63, 62]] = a[2, [0, 33]] = np.nan
    m, n = np.zeros(4, np.int32), np.zeros(4, np.int32)
    tw.simulate(k, a, m, n)

    assert m.tolist() == a.argmax(1).tolist()
    assert n.tolist() == a.argmin(1).tolist()
