"""Regions of constant shape that leave their buffers, parts of register tiles that end anywhere, and other orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from ml_dtypes import float4_e2m1fn
from numpy.typing import NDArray

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import DispatchError, KernelError
from tilewright.layout import S, TileLayout, laneid, tx

EIGHT_EACH = TileLayout(S[(128, 8) : (1 @ tx, 1)])
STRIDED = TileLayout(S[(4, 64, 4) : (4, 1 @ tx, 1)])
TWENTY_LANES = TileLayout(S[(20, 8) : (1 @ laneid, 1)])
THREE_A_ROW = TileLayout(S[(8, 3, 4) : (4 @ laneid, 1 @ laneid, 1)])
NUMBERS = np.random.default_rng(0).standard_normal(1024).astype(np.float32)


def test_a_constant_region_past_the_end_is_filled_by_loads_and_clipped_by_stores() -> None:
    @T.prim_func
    def double(X: T.Buffer((2, 1000), "float32"), Y: T.Buffer((2, 1000), "float32"), Z: T.Buffer((2,), "float32")):
        row = T.cta_id([2])
        T.thread_id([128])
        x = T.alloc_buffer((1024,), "float32", scope="local", layout=EIGHT_EACH)
        Tx.cta.copy(x, X[row, 0:1024], fill=1)
        Tx.cta.sum(Z[row], x)
        x[:] += x
        Tx.cta.copy(Y[row, 0:1024], x, clip=True)

    x = np.stack([NUMBERS[:1000], NUMBERS[24:]])
    y, z = np.zeros_like(x), np.zeros(2, np.float32)

    tw.simulate(double, x, y, z, check="all")

    assert (y == 2 * x).all()
    assert np.allclose(z, x.sum(1) + 24, atol=1e-3)


@pytest.mark.parametrize(("store", "hint"), [(False, "fill=0"), (True, "clip=True")])
def test_a_constant_region_past_the_end_without_a_word_says_which_keyword_lets_it(store: bool, hint: str) -> None:
    with pytest.raises(KernelError, match="lies outside of X") as refused:

        @T.prim_func
        def outside(X: T.Buffer((1000,), "float32")):
            T.cta_id([1])
            T.thread_id([128])
            x = T.alloc_buffer((1024,), "float32", scope="local", layout=EIGHT_EACH)
            if store:
                Tx.cta.copy(X[0:1024], x)
            else:
                Tx.cta.copy(x, X[0:1024])

    assert refused.value.hint is not None
    assert refused.value.hint.startswith(hint)


def test_a_region_that_begins_before_its_buffer_is_refused_where_it_is_written() -> None:
    with pytest.raises(KernelError, match="index -8 is outside X") as refused:

        @T.prim_func
        def negative(X: T.Buffer((1000,), "float32")):
            T.cta_id([1])
            Tx.warp.fill(X[-8:], 0.0)

    assert refused.value.hint == "992, which counts from the end"


@pytest.mark.parametrize("layout", [EIGHT_EACH, STRIDED], ids=["runs", "strided"])
@pytest.mark.parametrize(("begin", "end"), [(0, 1000), (0, 1001), (3, 1021), (5, 7), (511, 513), (6, 8), (0, 3)])
def test_any_part_of_a_register_tile_is_loaded_computed_filled_and_stored(
    layout: TileLayout, begin: int, end: int
) -> None:
    threads = 128 if layout is EIGHT_EACH else 64

    @T.prim_func
    def part(X: T.Buffer((1024,), "float32"), Y: T.Buffer((1024,), "float32")):
        T.cta_id([1])
        T.thread_id([threads])
        x = T.alloc_buffer((1024,), "float32", scope="local", layout=layout)
        Tx.cta.fill(x, 7.0)
        x[begin:end] = X[begin:end]
        x[begin:end] = x[begin:end] * X[0] + 1.0
        Tx.cta.fill(x[begin : begin + 1], 3.0)
        Y[:] = x

    y, wanted = np.zeros_like(NUMBERS), np.full(1024, 7, np.float32)
    wanted[begin:end] = NUMBERS[begin:end] * NUMBERS[0] + np.float32(1)
    wanted[begin] = 3

    tw.simulate(part, NUMBERS, y, check="all")

    assert (y == wanted).all()


def test_values_of_a_part_know_their_place_and_are_read_before_it_changes() -> None:
    @T.prim_func
    def placed(X: T.Buffer((1024,), "float32")):
        T.cta_id([1])
        T.thread_id([64])
        x = T.alloc_buffer((1024,), "float32", scope="local", layout=STRIDED)
        x[:] = X
        Tx.cta.select(x[1:1001], x[1:1001], X[0], lambda i: i % 2 == 0)
        Tx.cta.copy(X[1:1001], x[1:1001])

    x, wanted = NUMBERS.copy(), NUMBERS.copy()
    wanted[2:1001:2] = NUMBERS[0]

    tw.simulate(placed, x, check="all")

    assert (x == wanted).all()


def test_a_part_that_a_layout_describes_is_not_cut() -> None:
    @T.prim_func
    def whole(X: T.Buffer((1024,), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        x = T.alloc_buffer((1024,), "float32", scope="local", layout=EIGHT_EACH)
        Tx.cta.fill(x[0:512], 0.0, dispatch="parts")

    with pytest.raises(DispatchError, match="does not fit") as refused:
        tw.compile(whole, target="sm_90a")

    assert refused.value.given == "the region makes 1 boxes of registers, not 2 to 16"


Reduction: TypeAlias = Callable[[NDArray[np.float32]], Any]
REDUCED: dict[str, Reduction] = {"sum": np.sum, "max": np.max, "min": np.min, "argmax": np.argmax, "prod": np.prod}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("count", [160, 159, 1])
def test_a_reduction_of_lanes_that_end_inside_of_a_warp_goes_by_shuffles(name: str, count: int) -> None:
    kind = "int32" if name == "argmax" else "float32"

    @T.prim_func
    def reduced(X: T.Buffer((160,), "float32"), Y: T.Buffer((1,), kind)):
        T.cta_id([1])
        T.lane_id([32])
        x = T.alloc_buffer((160,), "float32", scope="local", layout=TWENTY_LANES)
        x[:] = X
        getattr(Tx.warp, name)(Y, x[0:count], axes=0)

    x, y = NUMBERS[:160], np.zeros(1, kind)

    tw.simulate(reduced, x, y, check="all")

    assert np.allclose(y[0], REDUCED[name](x[:count]), atol=1e-4)
    if count > 1:
        (said,) = [entry for entry in tw.compile(reduced, target="sm_90a").report.entries if entry.primitive == name]
        assert said.variant == "padded"
        assert "5 shuffles" in said.plan or name == "argmax"


def test_rows_of_three_lanes_are_padded_along_the_rows_only() -> None:
    @T.prim_func
    def rows(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        T.cta_id([1])
        T.lane_id([32])
        x = T.alloc_buffer((8, 12), "float32", scope="local", layout=THREE_A_ROW)
        x[:] = X
        Tx.warp.sum(Y, x, axes=1)

    x, y = NUMBERS[:96].reshape(8, 12), np.zeros(8, np.float32)

    tw.simulate(rows, x, y, check="all")

    assert np.allclose(y, x.sum(1), atol=1e-5)
    said = tw.compile(rows, target="sm_90a").report.entries[-1]
    assert (said.variant, said.plan) == (
        "padded",
        "128 elements with neutral ones: 1 x 4 elements per thread, 2 shuffles",
    )


def test_whole_warps_are_not_padded() -> None:
    @T.prim_func
    def whole(X: T.Buffer((1024,), "float32"), Y: T.Buffer((1,), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        x = T.alloc_buffer((1024,), "float32", scope="local", layout=EIGHT_EACH)
        x[:] = X
        Tx.cta.sum(Y, x[0:512])

    assert tw.compile(whole, target="sm_90a").report.entries[-1].variant == "registers"


def test_what_is_known_to_be_inside_is_not_clipped() -> None:
    @T.prim_func
    def blocks(X: T.Buffer((4096,), "float32"), Y: T.Buffer((4096,), "float32")):
        bx = T.cta_id([4])
        T.thread_id([128])
        x = T.alloc_buffer((1024,), "float32", scope="local", layout=EIGHT_EACH)
        x[:] = X[bx * 1024 : bx * 1024 + 1024]
        begin = bx * 1024
        Tx.cta.copy(Y[begin : begin + 1024], x, clip=True)

    assert str(blocks).count("clip=True") == 1
    assert [entry.variant for entry in tw.compile(blocks, target="sm_90a").report.entries] == ["reg", "reg"]


APART = S[(128, 32, 2) : (1 @ tx, 1, 32)]  # the halves of each pair lie apart in the registers


@T.prim_func
def apart(A: T.Buffer((128, 64), "float4_e2m1fn"), B: T.Buffer((128, 64), "float4_e2m1fn"),
          F: T.Buffer((128, 64), "float32"), G: T.Buffer((128, 64), "float32")):  # fmt: skip
    T.cta_id([1])
    T.thread_id([128])
    x = T.alloc_buffer((128, 64), "float4_e2m1fn", scope="local", layout=APART)
    y = T.alloc_buffer((128, 64), "float32", scope="local", layout=APART)
    Tx.cta.copy(x, A)
    Tx.cta.copy(B, x)
    Tx.cta.copy(y, F)
    Tx.cta.add(y, y, F)
    Tx.cta.copy(G, y)


def test_registers_in_another_order_than_the_memory_go_by_16_bytes_and_nibbles_lie_apart() -> None:
    rng = np.random.default_rng(0)
    a, f = rng.integers(-4, 4, (128, 64)).astype(float4_e2m1fn), rng.standard_normal((128, 64)).astype(np.float32)
    b, g = np.zeros_like(a), np.zeros_like(f)
    exe = tw.compile(apart, target="sm_100a")
    exe.simulate(a, b, f, g, check="all")

    assert np.array_equal(a.view(np.uint8), b.view(np.uint8))
    assert np.array_equal(g, 2 * f)
    runs = ["2 x 32 elements", "2 x 32 elements", *["16 x 4 elements"] * 3]
    assert [entry.plan.partition(" per")[0] for entry in exe.report.entries] == runs
