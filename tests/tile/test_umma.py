"""gemm_async by tcgen05.mma: plans, products, declines."""

# ruff: noqa: C901, PLR0915  # kernels with a branch for each case, which Python takes while it parses
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.tmem_kernels import give_back, meet, take
from tests.tile.wgmma_kernels import Case
from tilewright import T, Tx
from tilewright.errors import DispatchError
from tilewright.layout import Layout, S, TCol, TileLayout, TLane, mma_shared_layout, tmem_datapath_layout

TARGET = "sm_100a"


def in_lanes(columns: int) -> TileLayout:
    """128 rows, each in a lane."""
    return TileLayout(S[(128, columns) : (1 @ TLane, 1 @ TCol)])


@dataclass(frozen=True)
class Product(Case):
    """A case of gemm_async into tensor memory. through: A goes there first; warp: a warp executes the call."""

    through: bool = False
    warp: bool = False

    @property
    def d_layout(self) -> Layout:
        if self.m == 64:
            return tmem_datapath_layout("F", 64, self.n)
        step = 2 if self.d == "float16" else 1  # a cell for each
        return TileLayout(S[(self.m // 128, 128, self.n) : (self.n * step @ TCol, 1 @ TLane, step @ TCol)])


CASES = {
    "bf16": Product(128, 64, 64),
    "two blocks of rows": Product(256, 32, 32, modes=(2, 2)),
    "two blocks of columns": Product(128, 272, 16, modes=(1, 1)),
    "64 rows": Product(64, 64, 64),
    "32-byte swizzle, f16": Product(128, 16, 32, "float16", modes=(1, 1)),
    "f16 sums": Product(128, 32, 32, "float16", d="float16", modes=(2, 2)),
    "no swizzle": Product(128, 16, 32, "float16", modes=(0, 0)),
    "N-major B": Product(128, 128, 32, trans=(False, True), modes=(2, 3)),
    "M-major A": Product(128, 16, 32, trans=(True, False), modes=(3, 2)),
    "both MN-major, bytes": Product(128, 64, 64, "float8_e4m3fn", trans=(True, True), modes=(2, 2)),
    "tf32": Product(128, 16, 32, "tf32"),
    "s8 by u8": Product(128, 32, 64, "int8", "uint8", d="int32", modes=(2, 2)),
    "e4m3 by e5m2": Product(64, 16, 64, "float8_e4m3fn", "float8_e5m2", modes=(2, 2)),
    "accumulated": Product(128, 32, 32, modes=(2, 2), accum=True),
    "subtracted": Product(128, 32, 32, modes=(2, 2), accum=True, negate=True),
    "A in tensor memory": Product(128, 32, 64, through=True),
    "a warp elects": Product(128, 32, 64, warp=True),
}


def multiplied(case: Product) -> Any:
    """C = A * B, or C + A * B, of one CTA."""
    (a_shape, b_shape), (a_kind, b_kind) = case.shapes, case.kinds
    layouts = [mma_shared_layout(*each) for each in zip(case.kinds, case.modes, case.shapes, strict=True)]
    halves = max(1, case.m // 128)
    width = case.n * halves
    columns = 1 << (width + 32 - 1).bit_length()
    trans_a, trans_b, negate = *case.trans, case.negate

    @T.prim_func
    def product(a: T.Buffer(a_shape, a_kind), b: T.Buffer(b_shape, b_kind), c: T.Buffer((case.m, case.n), case.d)):
        T.cta_id([1])
        warp, lane, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A = T.alloc_shared(a_shape, a_kind, layout=layouts[0])
        B = T.alloc_shared(b_shape, b_kind, layout=layouts[1])
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        word = T.alloc_local((32,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp, columns)
        D = T.decl_buffer((case.m, case.n), case.d, scope="tmem", allocated_addr=addr[0], layout=case.d_layout)
        P = T.decl_buffer((128, case.k), a_kind, scope="tmem", allocated_addr=addr[0] + width, layout=in_lanes(case.k))
        if case.accum:
            for j in range(case.n):
                word[0] = T.reinterpret("uint32", c[tid, j])
                T.ptx.tcgen05.st(addr[0] + j, word[0], shape="32x32b", num=1, row=warp * 32)
        if case.through:
            for j in T.unroll(32):
                high = T.cast(T.reinterpret("uint16", A[tid, 2 * j + 1]), "uint32") << 16
                word[j] = T.cast(T.reinterpret("uint16", A[tid, 2 * j]), "uint32") | high
            T.ptx.tcgen05.st(addr[0] + width, word, shape="32x32b", num=32, row=warp * 32)
        T.ptx.tcgen05.wait.st()
        meet()
        if warp == 0:
            if case.warp:
                Tx.warp.gemm_async(D[:, :], A[:, :], B[:, :], case.accum, transA=trans_a, transB=trans_b, negate=negate)
            elif case.through and lane == 0:
                Tx.gemm_async(D[:, :], P[:, :], B[:, :], case.accum, transA=trans_a, transB=trans_b, negate=negate)
            elif lane == 0:
                Tx.gemm_async(D[:, :], A[:, :], B[:, :], case.accum, transA=trans_a, transB=trans_b, negate=negate)
            if lane == 0:
                T.ptx.tcgen05.commit(done.ptr_to([0]))
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        for i in range(halves):
            for j in range(case.n):
                T.ptx.tcgen05.ld(addr[0] + (i * case.n + j), word[0], shape="32x32b", num=1, row=warp * 32)
                T.ptx.tcgen05.wait.ld()
                if case.d == "float16":
                    c[i * 128 + tid, j] = T.reinterpret("float16", T.cast(word[0], "uint16"))
                elif case.m > 64:
                    c[i * 128 + tid, j] = T.reinterpret(case.d, word[0])
                elif lane < 16:
                    c[warp * 16 + lane, j] = T.reinterpret(case.d, word[0])
        give_back(addr, warp, columns)

    return product


@pytest.mark.every(2)
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_product_is_right_and_no_check_speaks(case: Product) -> None:
    a, b, c = case.inputs()
    wanted = case.expected(a, b, c)
    compiled = tw.compile(multiplied(case), target=TARGET)

    run = compiled.simulate(a, b, c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, wanted)
    assert "gemm_async/tcgen05" in str(compiled.report)


def test_steps_of_k_and_blocks_share_one_descriptor_for_each_operand() -> None:
    text = tw.compile(multiplied(CASES["two blocks of rows"]), target=TARGET).source("cuda")

    assert text.count("= tw_matrix_descriptor(") == 2
    assert text.count("= tw_instruction_descriptor(") == 1


def declined(**changes: Any) -> DispatchError:
    given: dict[str, Any] = {"a": "bfloat16", "b": "bfloat16", "d": "float32", "shape": (128, 64), "k": 64, "n": 64}
    given |= {"where": "one", "negate": False, "layout": None, "space": "tmem", "target": TARGET} | changes
    b_layout = mma_shared_layout(given["b"], 2, (64, 64))
    a_layout = None if given["layout"] == "rows" else mma_shared_layout(given["a"], 2, (given["shape"][0], 64))
    d_layout = given["layout"] if isinstance(given["layout"], TileLayout) else in_lanes(given["shape"][1])

    @T.prim_func
    def one() -> None:
        T.cta_id([1])
        tid = T.thread_id([128])
        A = T.alloc_shared((given["shape"][0], 64), given["a"], layout=a_layout)
        B = T.alloc_shared((64, 64), given["b"], layout=b_layout)
        addr = T.alloc_shared([1], "uint32")
        D = T.decl_buffer(given["shape"], given["d"], scope="tmem", layout=d_layout, allocated_addr=addr[0])
        R = T.alloc_local(given["shape"], given["d"])
        if given["where"] == "one":
            if tid == 0:
                C = D if given["space"] == "tmem" else R
                Tx.gemm_async(C, A[:, 0 : given["k"]], B[0 : given["n"], 0 : given["k"]], negate=given["negate"])
        elif given["where"] == "warp of four":
            Tx.warp.gemm_async(D, A, B)
        elif given["where"] == "cta":
            Tx.cta.gemm_async(D, A, B)
        elif given["where"] == "all":
            Tx.gemm_async(D, A, B)

    with pytest.raises(DispatchError) as error:
        tw.compile(one, target=given["target"])
    return error.value


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"space": "local"}, "D, R, is in local memory"),
        ({"where": "cta"}, "the threads of a CTA execute the call together"),
        ({"where": "all"}, "128 threads get here, and each would issue the same products"),
        ({"where": "warp of four"}, "4 warps get here, and each would issue the same products"),
        ({"b": "float8_e5m2"}, "no tcgen05.mma multiplies bfloat16 by float8_e5m2 into float32"),
        ({"a": "float6_e2m3fn", "b": "float8_e5m2"}, "float6_e2m3fn has a byte for each element there"),
        ({"d": "float16"}, "no tcgen05.mma multiplies bfloat16 by bfloat16 into float16"),
        ({"a": "int8", "b": "int8", "d": "int32", "negate": True}, "i8 has no signs"),
        ({"shape": (32, 64)}, "M is 32 and K 64"),
        ({"k": 8}, "M is 128 and K 8"),
        ({"n": 12, "shape": (128, 12)}, "N is 12"),
        ({"layout": "rows"}, "no descriptor leads to the blocks of A"),
        ({"layout": TileLayout(S[(128, 64) : (1 @ TLane, 2 @ TCol)])}, "D is not in tensor memory as the instruction"),
        ({"target": "sm_100"}, "tcgen05.mma exists on"),
    ],
)  # fmt: skip
def test_a_call_that_does_not_fit_is_told_why(changes: dict[str, Any], said: str) -> None:
    assert said in str(declined(**changes))


def test_a_layout_that_fits_is_proposed() -> None:
    wide = declined(layout=TileLayout(S[(128, 64) : (1 @ TLane, 2 @ TCol)]))
    half = declined(shape=(64, 64), layout=TileLayout(S[(64, 64) : (1 @ TLane, 1 @ TCol)]))

    assert 'layout=tmem_datapath_layout("D", 128, 64) for D' in str(wide.hint)
    assert 'layout=tmem_datapath_layout("F", 64, 64) for D' in str(half.hint)
