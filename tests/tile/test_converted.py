"""Copies between different dtypes convert as `cast` does, between any memories, ragged or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import float8_e4m3fn

import tilewright as tw
from tests.tile.elementwise import Operand, judged, numbers
from tests.tile.kernels import buffer
from tests.tile.strategies import THREADS, memory_layouts, registers
from tilewright import T, Tx
from tilewright.dtypes import dtype, keeps
from tilewright.errors import DispatchError, TilewrightError
from tilewright.layout import S, TileLayout, laneid
from tilewright.primitives import PRIMITIVES

KINDS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "int8", "int32", "uint8")
FRAGMENT = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]
ELSEWHERE = S[(2, 4, 8) : (1, 8 @ laneid, 1 @ laneid)]


@settings(max_examples=50)
@given(st.data())
def test_a_copy_converts_as_cast_does(data: st.DataObject) -> None:
    scope = data.draw(st.sampled_from(list(THREADS)))
    layout, shape = data.draw(registers(scope, 256))
    sides = []
    for name in ("D", "S"):
        space, kind = data.draw(st.sampled_from(["local", "shared", "global"])), data.draw(st.sampled_from(KINDS))
        made = data.draw(memory_layouts(shape, dtype(kind).bits)) if space == "shared" else None
        sides.append(Operand(buffer(name, space, shape, layout if space == "local" else made, kind).region()))
    dst, src = sides
    if not keeps(src.region.dtype, dst.region.dtype):
        with pytest.raises(TilewrightError, match="a conversion that is written"):
            judged("copy", dst, [src], scope)
        return

    said = judged("copy", dst, [src], scope)

    assert (said.variant in ("converted", "fallback")) == (dst.region.dtype != src.region.dtype)


def test_the_report_says_what_becomes_of_the_elements() -> None:
    dst, src = (Operand(buffer(n, "global", (1024,), kind=k).region()) for n, k in (("D", "float16"), ("S", "float32")))

    said = judged("copy", dst, [src], "cta", 128)

    assert (said.variant, said.plan) == (
        "converted", "2 x 4 elements for each of 128 threads, 2 at once, converted to float16, in pairs",
    )  # fmt: skip


def test_registers_of_other_threads_are_brought_before_they_are_converted() -> None:
    dst = Operand(buffer("D", "local", (8, 8), ELSEWHERE, "float16").region())
    src = Operand(buffer("S", "local", (8, 8), FRAGMENT, "float32").region())

    said = judged("copy", dst, [src])

    assert said.variant == "permuted_and_converted"
    assert said.plan.startswith("S by permute_layout/")
    assert said.plan.endswith("converted to float16, in pairs")


@pytest.mark.parametrize(("fill", "found"), [(0, 0), (2, 2), (None, 7)])
def test_ragged_tiles_are_converted_and_filled(fill: int | None, found: int) -> None:
    asked = {"clip": True} if fill is None else {"fill": fill}

    @T.prim_func
    def k(a: T.handle, B: T.Buffer((128,), "float32")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float16")
        bx = T.cta_id([2])
        T.thread_id([32])
        tile = T.alloc_shared((64,), "float32")
        Tx.cta.fill(tile, 7)
        T.cuda.cta_sync()
        Tx.cta.copy(tile, A[bx * 64 : bx * 64 + 64], **asked)
        T.cuda.cta_sync()
        Tx.cta.copy(B[bx * 64 : bx * 64 + 64], tile)

    for n in (1, 63, 77, 128):
        a, b = numbers("float16", (n,), n), np.zeros(128, np.float32)
        tw.simulate(k, a, b, check="all")
        assert np.array_equal(b, np.concatenate([a.astype(np.float32), np.full(128 - n, found, np.float32)]))


def test_a_fill_that_the_source_could_not_have_is_refused() -> None:
    @T.prim_func
    def k(a: T.handle, B: T.Buffer((64,), "float32")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float16")
        T.cta_id([1])
        T.thread_id([32])
        Tx.cta.copy(B, A[n - 64 : n], fill=1e6)

    with pytest.raises(DispatchError, match=r"fill=1000000\.0 is no float16"):
        tw.compile(k, target="sm_90a").source("cuda")


@pytest.mark.parametrize("name", ["reg", "rows", "gmem_smem", "ldstmatrix"])
def test_no_variant_that_moves_bits_takes_two_dtypes(name: str) -> None:
    dst, src = buffer("D", "shared", (8, 8), kind="float16"), buffer("S", "local", (8, 8), FRAGMENT, "float32")

    with pytest.raises(DispatchError, match="does not fit"):
        judged("copy", Operand(dst.region()), [Operand(src.region())], dispatch=name)


def test_a_dimension_of_one_may_be_left_out() -> None:
    dst = Operand(buffer("D", "global", (64,), kind="float32").region())
    src = Operand(buffer("S", "local", (64, 1), TileLayout(S[(32, 2, 1) : (1 @ laneid, 1, 1)]), "int8").region())

    assert judged("copy", dst, [src]).variant == "converted"


@T.prim_func
def narrowing(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float8_e4m3fn"),
              C: T.Buffer((4, 64), "float8_e4m3fn")):  # fmt: skip
    T.cta_id([1])
    T.lane_id([32])
    Tx.warp.cast(B, A, overflow="saturate")
    Tx.warp.cast(C, A)


def test_a_cast_saturates_where_the_call_says_so() -> None:
    a = np.linspace(-1000, 1000, 256, dtype=np.float32).reshape(4, 64)
    a[0, :3] = np.nan, np.inf, -np.inf
    kept, lost = (np.zeros(a.shape, float8_e4m3fn) for _ in range(2))
    tw.compile(narrowing, target="sm_90a").simulate(a, kept, lost, check="all")

    wanted = np.clip(a, -448, 448).astype(float8_e4m3fn)
    assert np.array_equal(kept.view(np.uint8) & 0x7F, wanted.view(np.uint8) & 0x7F)
    assert np.array_equal(np.signbit(kept[1:]), np.signbit(a[1:]))
    assert np.isnan(kept.astype(np.float32)).sum() == 1
    assert np.isnan(lost.astype(np.float32)).sum() == np.isnan(a.astype(float8_e4m3fn).astype(np.float32)).sum() > 100
    declared = np.zeros(a.shape, float8_e4m3fn)
    PRIMITIVES["cast"].meaning(declared, a, overflow="saturate")
    assert np.array_equal(declared.view(np.uint8) & 0x7F, kept.view(np.uint8) & 0x7F)


@pytest.mark.parametrize(("kind", "target", "why"), [
    ("float16", "sm_90a", "overflow='saturate' is of narrow floats"),
    ("float8_e5m2", "sm_80", "saturated exists on sm_89 and later, not on sm_80"),
])  # fmt: skip
def test_a_cast_that_cannot_saturate_is_refused(kind: str, target: str, why: str) -> None:
    @T.prim_func
    def refused(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), kind)):
        T.cta_id([1])
        T.lane_id([32])
        Tx.warp.cast(B, A, overflow="saturate")

    with pytest.raises(DispatchError, match=why):
        tw.compile(refused, target=target)


@pytest.mark.parametrize(("target", "wanted"), [("sm_75", 0), ("sm_90a", 1)])
@pytest.mark.parametrize(("kind", "word"), [("float16", "f16x2"), ("bfloat16", "bf16x2")])
def test_two_floats_are_narrowed_by_one_instruction_where_the_target_has_it(kind, word, target, wanted) -> None:
    @T.prim_func
    def narrowed(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), kind)):
        T.cta_id([1])
        T.thread_id([32])
        Tx.cta.cast(B, A)

    made, bits = tw.compile(narrowed, target=target), np.random.default_rng(0).integers(0, 1 << 32, 256, np.uint32)
    a, b = bits.view(np.float32), np.zeros(256, dtype(kind).numpy)
    made.simulate(a, b, check="all")

    assert made.source().count(f"cvt.rn.{word}.f32") == wanted
    with np.errstate(over="ignore", invalid="ignore"):
        one_by_one = a.astype(b.dtype)
    assert np.array_equal(np.isnan(b), np.isnan(one_by_one))
    assert np.array_equal(b[~np.isnan(b)], one_by_one[~np.isnan(b)])
