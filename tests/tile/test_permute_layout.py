"""permute_layout: the same elements in any other layout, by the cheapest way."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tile.kernels import buffer, extents
from tests.tile.running import run
from tests.tile.strategies import THREADS, memory_layouts, registers
from tilewright.ir import Argument, Buffer
from tilewright.layout import ComposeLayout, Layout, S, SwizzleLayout, TileLayout, laneid, tid_in_wg, wid_in_wg
from tilewright.tile import Entry


def held(
    dst: Buffer, src: Buffer, scope: str, threads: int, primitive: str = "permute_layout", **config: Argument
) -> Entry:
    """Run one call: the destination has the elements of the source."""
    shape = extents(src)
    data = (np.arange(prod(shape)) % 251).reshape(shape).astype(src.dtype.numpy)
    got, said = run(primitive, dst, src, data, scope, threads, None, "sm_90a", **config)
    assert np.array_equal(got, data), str(said)
    return said


def between(dst: Layout, src: Layout, shape: tuple[int, ...], kind: str = "float32") -> tuple[Buffer, Buffer]:
    return buffer("D", "local", shape, dst, kind), buffer("S", "local", shape, src, kind)


@settings(max_examples=25)
@given(st.data())
def test_registers_get_what_numpy_says(data: st.DataObject) -> None:
    scope, kind = data.draw(st.sampled_from(list(THREADS))), data.draw(st.sampled_from(["float32", "float16", "uint8"]))
    layout, shape = data.draw(registers(scope, 256))
    other = TileLayout(data.draw(st.permutations(list(layout.shard))))
    held(*between(other, layout, shape, kind), scope, THREADS[scope])


@settings(max_examples=20)
@given(st.data())
def test_memories_get_what_numpy_says(data: st.DataObject) -> None:
    scope = data.draw(st.sampled_from(list(THREADS)))
    shape = tuple(data.draw(st.lists(st.sampled_from([2, 3, 4, 8]), min_size=1, max_size=3)))
    dst, src = (
        buffer(name, space, shape, data.draw(memory_layouts(shape, 16)) if space == "shared" else None)
        for name in "DS"
        for space in [data.draw(st.sampled_from(["shared", "global"]))]
    )
    held(dst, src, scope, THREADS[scope])


FRAGMENT = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]


@pytest.mark.parametrize(
    ("dst", "src", "shape", "kind", "way"),
    [
        (S[(32, 2, 4) : (1 @ laneid, 1, 2)], S[(32, 2, 4) : (1 @ laneid, 4, 1)], (32, 8), "float32", "moves"),
        (FRAGMENT, S[(4, 2, 8) : (1 @ laneid, 1, 4 @ laneid)], (8, 8), "float16", "movmatrix"),
        (S[(32,) : (1 @ laneid,)], S[(4, 8) : (1 @ laneid, 4 @ laneid)], (32,), "float32", "shuffles"),
        (S[(32, 32) : (1 @ laneid, 1)], S[(32, 32) : (1, 1 @ laneid)], (32, 32), "float32", "scratch"),
    ],
)
def test_the_cheapest_way_takes_a_call(dst: Layout, src: Layout, shape: tuple[int, ...], kind: str, way: str) -> None:
    said = held(*between(dst, src, shape, kind), "warp", 32)

    assert said.variant == way
    assert "cost" in said.plan


@pytest.mark.parametrize("way", ["shuffles", "scratch"])
def test_a_call_may_name_another_way(way: str) -> None:
    layouts = (S[(32,) : (1 @ laneid,)], S[(4, 8) : (1 @ laneid, 4 @ laneid)])

    assert held(*between(*layouts, (32,)), "warp", 64, dispatch=way).variant == way


def test_the_report_has_the_costs_of_all_ways() -> None:
    said = held(*between(FRAGMENT, S[(4, 2, 8) : (1 @ laneid, 1, 4 @ laneid)], (8, 8), "float16"), "warp", 32)

    assert said.plan == "1 movmatrix; cost 3, scratch 12, shuffles 14"


def test_a_way_that_costs_more_says_so() -> None:
    said = held(*between(S[(32,) : (1 @ laneid,)], S[(4, 8) : (1 @ laneid, 4 @ laneid)], (32,)), "warp", 32)

    reasons = {each.variant: each.reason for each in said.tried}
    assert reasons["scratch"].startswith("it costs")


def test_scratch_memory_of_a_transpose_has_no_bank_conflicts() -> None:
    said = held(*between(S[(32, 32) : (1 @ laneid, 1)], S[(32, 32) : (1, 1 @ laneid)], (32, 32)), "warp", 32)

    assert "as S[(32, 32):(36, 1)]" in said.plan


def test_warps_of_a_warpgroup_exchange() -> None:
    rows = S[(128, 16) : (1 @ tid_in_wg, 1)]
    columns = S[(32, 4, 16) : (1 @ laneid, 1 @ wid_in_wg, 1)]

    assert held(*between(rows, columns, (128, 16)), "warpgroup", 256).variant == "scratch"


def test_a_copy_between_registers_of_other_threads_is_a_permutation() -> None:
    dst, src = between(S[(32,) : (1 @ laneid,)], S[(4, 8) : (1 @ laneid, 4 @ laneid)], (32,))

    said = held(dst, src, "warp", 32, primitive="copy")

    assert said.plan.startswith("permute_layout/shuffles")


def test_memories_of_one_size_change_their_swizzle() -> None:
    swizzled = ComposeLayout(SwizzleLayout(3, 3, 3), S[32, 64])

    said = held(buffer("D", "shared", (32, 64), swizzled), buffer("S", "shared", (32, 64)), "cta", 128)

    assert said.plan.startswith("2 x 16 bytes (8 elements) for each of 128 threads")
