"""gemm_async by wgmma: plans, products, declines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.tile.wgmma_kernels import Case, drawn, multiplied
from tilewright import T, Tx
from tilewright import layout as layouts_of
from tilewright.errors import DispatchError, LayoutError
from tilewright.ir import Kernel
from tilewright.layout import Layout, S, mma_shared_layout, tid_in_wg, wgmma_fragment

CASES = {
    "bf16": Case(64, 64, 64),
    "two blocks of rows": Case(128, 32, 32, modes=(2, 2)),
    "three blocks of columns": Case(64, 264, 16, modes=(1, 1)),
    "64-byte swizzle": Case(64, 24, 64, "float16", modes=(2, 2)),
    "32-byte swizzle, f16 sums": Case(64, 16, 32, "float16", d="float16", modes=(1, 1)),
    "no swizzle": Case(64, 16, 32, "float16", modes=(0, 0)),
    "different swizzles": Case(64, 16, 64, modes=(0, 2)),
    "N-major B": Case(64, 128, 32, trans=(False, True), modes=(2, 3)),
    "M-major A": Case(128, 16, 32, trans=(True, False), modes=(3, 2)),
    "both MN-major, 64 bytes": Case(64, 64, 32, "float16", trans=(True, True), modes=(2, 2)),
    "both MN-major, 32 bytes": Case(64, 32, 32, "float16", trans=(True, True), modes=(1, 1)),
    "both MN-major, no swizzle": Case(64, 16, 32, trans=(True, True), modes=(0, 0)),
    "A in registers": Case(64, 16, 64, registers=True),
    "A in registers, two blocks": Case(128, 8, 32, "float16", modes=(2, 2), registers=True),
    "A of bytes in registers": Case(64, 16, 64, "int8", d="int32", modes=(2, 2), registers=True),
    "tf32": Case(64, 16, 32, "tf32"),
    "tf32, A in registers": Case(64, 16, 16, "tf32", modes=(2, 2), registers=True),
    "s8 by u8": Case(64, 32, 64, "int8", "uint8", d="int32", modes=(2, 2)),
    "e4m3 by e5m2": Case(64, 16, 64, "float8_e4m3fn", "float8_e5m2", modes=(2, 2)),
    "accumulated": Case(64, 32, 32, modes=(2, 2), accum=True),
    "subtracted": Case(64, 32, 32, modes=(2, 2), accum=True, negate=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_product_is_right_and_no_check_speaks(case: Case) -> None:
    a, b, c = case.inputs()
    wanted = case.expected(a, b, c)
    compiled = tw.compile(multiplied(case), target="sm_90a")

    run = compiled.simulate(a, b, c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, wanted)
    assert "gemm_async/wgmma" in str(compiled.report)


def test_steps_of_k_and_blocks_share_one_descriptor_for_each_operand() -> None:
    text = tw.compile(multiplied(CASES["two blocks of rows"]), target="sm_90a").source("cuda")

    assert text.count("= tw_matrix_descriptor(") == 2


def staged(stages: int) -> Any:
    shape = (stages, 64, 64)
    layout = mma_shared_layout("bfloat16", 3, shape)

    @T.prim_func
    def stage_by_stage(a: T.Buffer((64, stages * 64), "bfloat16"), c: T.Buffer((64, 64), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        A = T.alloc_shared(shape, "bfloat16", layout=layout)
        D = T.alloc_local((64, 64), "float32", layout=wgmma_fragment(64, 64))
        for s in range(stages):
            Tx.cta.copy(A[s, :, :], a[:, s * 64 : s * 64 + 64])
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        for s in range(stages):
            Tx.wg.gemm_async(D, A[s, :, :], A[s, :, :], s != 0, sync=True)
        Tx.wg.copy(c, D)

    return stage_by_stage


def test_a_stage_of_run_time_moves_the_descriptor() -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(-2, 3, (64, 192)).astype(np.float32)
    c = np.zeros((64, 64), np.float32)

    run = tw.simulate(staged(3), a.astype("bfloat16"), c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, a @ a.T)


def declined(**changes: Any) -> DispatchError:
    given: dict[str, Any] = {"a": "bfloat16", "d": "float32", "a_layout": 3, "scope": "wg", "k": 64}
    given |= {"fragment": wgmma_fragment(64, 64)} | changes
    layout = mma_shared_layout("bfloat16", 3, (64, 64))
    a_layout = given["a_layout"]
    own = mma_shared_layout(given["a"], a_layout, (64, given["k"])) if a_layout is not None else None
    call = getattr(Tx, given["scope"])

    @T.prim_func
    def one() -> None:
        T.cta_id([1])
        T.thread_id([128])
        A = T.alloc_shared((64, given["k"]), given["a"], layout=own)
        B = T.alloc_shared((64, 64), "bfloat16", layout=layout)
        D = T.alloc_local((64, 64), given["d"], layout=given["fragment"])
        call.gemm_async(D, A, B[:, 0 : given["k"]])

    with pytest.raises(DispatchError) as error:
        tw.compile(one, target=given.get("target", "sm_90a"))
    return error.value


def product_of_tiles(a: Layout | None, b: Layout | None, d: Layout | None) -> Kernel:
    @T.prim_func
    def tiles() -> None:
        T.cta_id([1])
        T.thread_id([128])
        A, B = T.alloc_shared((64, 64), "bfloat16", layout=a), T.alloc_shared((64, 64), "bfloat16", layout=b)
        D = T.alloc_local((64, 64), "float32", layout=d)
        Tx.wg.gemm_async(D, A, B)

    return tiles


def test_the_layouts_that_a_product_of_plain_tiles_is_told_make_it_a_wgmma() -> None:
    with pytest.raises(DispatchError) as error:
        tw.compile(product_of_tiles(None, None, None), target="sm_90a")

    told = re.findall(r"layout=(.+?) for (\w)", str(error.value.hint))
    layouts = {name: eval(text, vars(layouts_of)) for text, name in told}
    made = tw.compile(product_of_tiles(layouts["A"], layouts["B"], layouts["D"]), target="sm_90a")
    assert made.report.entries[0].variant == "wgmma"


@pytest.mark.parametrize(
    ("changes", "given", "hint"),
    [
        ({"a_layout": None}, "no descriptor leads to the blocks of A", "SwizzleMode.SWIZZLE_128B_ATOM"),
        ({"a": "float16"}, "no wgmma multiplies float16 by bfloat16 into float32", ""),
        ({"d": "float16"}, "no wgmma multiplies bfloat16 by bfloat16 into float16", ""),
        ({"scope": "warp"}, "a warp executes the call", ""),
        ({"target": "sm_80"}, "wgmma exists on sm_90a", 'target="sm_90a"'),
        ({"k": 8, "a_layout": 0}, "K 8", ""),
        ({"fragment": S[(2, 32, 64) : (64, 1 @ tid_in_wg, 1)]}, "not dealt out", "wgmma_fragment(64, 64"),
    ],
)
def test_a_call_that_does_not_fit_is_declined_with_what_would_do(changes: Any, given: str, hint: str) -> None:
    error = declined(**changes)

    assert given in str(error.given)
    assert hint in str(error.hint or "")


def test_a_fragment_has_whole_blocks() -> None:
    with pytest.raises(LayoutError, match="a fragment of 32 x 8"):
        wgmma_fragment(32, 8)
    with pytest.raises(LayoutError, match="no fragment of wgmma's B"):
        wgmma_fragment(64, 8, "B")


@pytest.mark.parametrize("seed", range(12))
def test_a_generated_product_is_right_and_silent(seed: int) -> None:
    case = drawn(seed)
    a, b, c = case.inputs(seed)
    wanted = case.expected(a, b, c)

    run = tw.compile(multiplied(case), target="sm_90a").simulate(a, b, c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, wanted)
