"""gemm_async with scales of blocks, with packed elements, and by pairs of CTAs: plans, products, declines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.keywords import NarrowFloat
from tests.sim.tmem_kernels import bring_back, refusal, take
from tests.tile.scaled_kernels import E2M1, E4M3, E5M2, UE8M0, ScaledCase, in_units, of_a_pair, scaled
from tilewright import T, Tx
from tilewright.errors import DispatchError
from tilewright.layout import S, TCol, TileLayout, TLane, mma_shared_layout, sf_tmem_layout

TARGET = "sm_100a"
CASES = {
    "mxfp8": (ScaledCase(128, 32, 128, E4M3, E5M2), "mxf8f6f4 m128n32k32, 4 instructions"),
    "one scale in a row": (ScaledCase(128, 32, 32), "mxf8f6f4 m128n32k32, 1 instruction"),
    "two scales in a row": (ScaledCase(128, 32, 64), "mxf8f6f4 m128n32k32, 2 instructions"),
    "two blocks of rows, two cells of scales": (ScaledCase(256, 32, 256), "m128n32k32, 16 instructions"),
    "mxfp4": (ScaledCase(128, 32, 256, E2M1, E2M1), "mxf4 m128n32k64, 4 instructions"),
    "nvfp4": (ScaledCase(128, 40, 128, E2M1, E2M1, E4M3, 16), "mxf4nvf4 m128n40k64, 2 instructions"),
    "ue8m0 for 16 elements": (ScaledCase(128, 16, 128, E2M1, E2M1, UE8M0, 16), "mxf4nvf4 m128n16k64"),
    "4 bits in units": (ScaledCase(128, 16, 128, E2M1, E2M1, padded=True), "mxf8f6f4 m128n16k32, 4 instructions"),
    "4 bits beside 8": (ScaledCase(128, 16, 128, E2M1, E4M3, padded=True), "mxf8f6f4 m128n16k32"),
    "more columns than 128": (ScaledCase(128, 144, 128), "mxf8f6f4 m128n144k32"),
    "accumulated": (ScaledCase(128, 16, 64, accum=True), "mxf8f6f4"),
}  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize(("case", "plan"), CASES.values(), ids=list(CASES))
def test_a_product_with_scales_is_right_and_no_check_speaks(case: ScaledCase, plan: str) -> None:
    a, b, sa, sb, c = case.inputs()
    wanted = case.wanted(a, b, sa, sb, c)
    compiled = tw.compile(scaled(case), target=TARGET)

    run = compiled.simulate(a, b, sa, sb, c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, wanted)
    assert plan in str(compiled.report)


PAIRS = {
    "bf16, 256 rows": (128, ScaledCase(256, 64, 128, "bfloat16", "bfloat16", block=0), "m256n64k16, of a pair"),
    "bf16, 128 rows": (64, ScaledCase(128, 64, 128, "bfloat16", "bfloat16", block=0), "m128n64k16, of a pair"),
    "mxfp8": (128, ScaledCase(256, 64, 128), "mxf8f6f4 m256n64k32, of a pair"),
    "nvfp4": (128, ScaledCase(256, 64, 64, E2M1, E2M1, E4M3, 16), "mxf4nvf4 m256n64k64, of a pair"),
}


@pytest.mark.parametrize(("rows", "case", "plan"), PAIRS.values(), ids=list(PAIRS))
def test_a_pair_of_ctas_multiplies_together(rows: int, case: ScaledCase, plan: str) -> None:
    a, b, sa, sb, c = case.inputs()
    compiled = tw.compile(of_a_pair(rows, case), target=TARGET)

    run = compiled.simulate(a, b, sa, sb, c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, case.wanted(a, b, sa, sb, c))
    assert plan in str(compiled.report)


@pytest.mark.parametrize(
    ("wrong", "what"), [("meeting", "race: tcgen05."), ("multicast", "deadlock: no thread can go")]
)
def test_a_pair_with_scales_needs_to_meet_and_to_be_told(wrong: str, what: str) -> None:
    case = PAIRS["mxfp8"][1]

    assert what in refusal(of_a_pair(128, case, wrong), *case.inputs()).what


@pytest.mark.parametrize("kind", ["float6_e2m3fn", "float6_e3m2fn", E2M1])
def test_packed_bytes_are_taken_as_tma_lays_them(kind: NarrowFloat) -> None:
    """16 elements of 6 or 4 bits at the low end of 16 bytes, the others unwritten."""
    rng = np.random.default_rng(1)
    bits, k = (4 if kind == E2M1 else 6), 64
    values = [rng.integers(-2, 3, (rows, k)).astype(kind) for rows in (128, 16)]
    packed = [in_units(matrix.view(np.uint8), bits) for matrix in values]
    nbytes = 2 * bits
    layout = mma_shared_layout("uint8", 2, (128, k))

    @T.prim_func
    def product(a: T.Buffer((128, k), "uint8"), b: T.Buffer((16, k), "uint8"), c: T.Buffer((128, 16), "float32")):
        T.cta_id([1])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((128, k), "uint8", layout=layout, align=1024)
        B = T.alloc_shared((16, k), "uint8", layout=mma_shared_layout("uint8", 2, (16, k)), align=1024)
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        for unit in T.unroll(k // 16):
            for byte in T.unroll(nbytes):
                A[tid, 16 * unit + byte] = a[tid, 16 * unit + byte]
                if tid < 16:
                    B[tid, 16 * unit + byte] = b[tid, 16 * unit + byte]
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp)
        D = T.decl_buffer((128, 16), "float32", scope="tmem", allocated_addr=addr[0],
                          layout=S[(128, 16) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
        if tid == 0:
            Tx.gemm_async(D, A, B, a_dtype=kind, b_dtype=kind)
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        bring_back(c, addr, done, warp, tid, 16)

    c = np.zeros((128, 16), np.float32)
    run = tw.compile(product, target=TARGET).simulate(*packed, c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, values[0].astype(np.float32) @ values[1].astype(np.float32).T)


def declined(case: ScaledCase, **changes: Any) -> DispatchError:
    """Why a call with scales does not fit."""
    given: dict[str, Any] = {
        "layout": sf_tmem_layout(128, case.count, max(1, case.per_mma)),
        "sb": case.sf,
        "keywords": {},
    }
    given |= {"space": "tmem", "count": case.count} | changes

    @T.prim_func
    def one() -> None:
        T.cta_id([1])
        tid = T.thread_id([128])
        A = T.alloc_shared((case.m, case.k), case.a, layout=case.layout(case.a, case.m), align=1024)
        B = T.alloc_shared((case.n, case.k), case.b, layout=case.layout(case.b, case.n), align=1024)
        addr = T.alloc_shared([1], "uint32")
        D = T.decl_buffer((128, case.n), "float32", scope="tmem", allocated_addr=addr[0],
                          layout=S[(128, case.n) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
        SFA = T.decl_buffer(
            (128, case.count), case.sf, scope="tmem", allocated_addr=addr[0] + 128, layout=given["layout"]
        )
        SFB = T.decl_buffer((128, given["count"]), given["sb"], scope="tmem", allocated_addr=addr[0] + 160,
                            layout=sf_tmem_layout(128, given["count"], 1))  # fmt: skip
        SL = T.alloc_shared((128, case.count), case.sf)
        if tid == 0:
            if given["space"] == "shared":
                Tx.gemm_async(D, A, B, SFA=SL, SFB=SFB[0 : case.n, :], **given["keywords"])
            elif given["space"] == "none":
                Tx.gemm_async(D, A, B, SFA=SFA)
            else:
                Tx.gemm_async(D, A, B, SFA=SFA, SFB=SFB[0 : case.n, :], **given["keywords"])

    with pytest.raises(DispatchError) as error:
        tw.compile(one, target=TARGET)
    return error.value


MXFP8 = ScaledCase(128, 32, 128)
ROWS = TileLayout(S[(128, 4) : (1 @ TLane, 1 @ TCol)])


@pytest.mark.parametrize(
    ("case", "changes", "said"),
    [
        (MXFP8, {"layout": ROWS}, "SFA is not in tensor memory as the product takes scales"),
        (MXFP8, {"space": "shared"}, "SFA, SL, is in shared memory"),
        (MXFP8, {"space": "none"}, "one side has scales"),
        (MXFP8, {"sb": E4M3}, "scales have other types"),
        (MXFP8, {"count": 2}, "the extents of SFB differ from those of the product"),
        (replace(MXFP8, sf=E4M3), {}, "by float8_e4m3fn into float32 with float8_e4m3fn for 32"),
        (replace(MXFP8, sf="uint8"), {}, "both float8_e8m0fnu or both float8_e4m3fn"),
        (replace(MXFP8, block=64), {}, "a scale for 16 or 32 elements along K"),
        (replace(MXFP8, block=16), {}, "with float8_e8m0fnu for 16 elements"),
        (replace(MXFP8, a="bfloat16", b="bfloat16"), {}, "no tcgen05.mma multiplies bfloat16 by bfloat16"),
        (MXFP8, {"keywords": {"a_dtype": E2M1, "b_dtype": "float4_e2m1"}}, "unknown b_dtype"),
        (MXFP8, {"keywords": {"cta_group": 2}}, "B of a pair has half of D's columns in each CTA"),
    ],
)  # fmt: skip
def test_a_call_with_scales_that_does_not_fit_is_told_why(case: ScaledCase, changes: dict[str, Any], said: str) -> None:
    assert said in str(declined(case, **changes))


def test_the_layout_in_which_a_product_takes_scales_is_proposed() -> None:
    error = declined(MXFP8, layout=ROWS)

    assert "layout=sf_tmem_layout(128, SF_K=4, sf_per_mma=1) for SFA" in str(error.hint)
