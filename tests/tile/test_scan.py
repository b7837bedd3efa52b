"""scan agrees with NumPy, over random layouts, dtypes, scopes, axes and memories; calls that each variant takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tile.kernels import buffer, extents, kernel, tile_call, whole
from tests.tile.running import meant, run
from tests.tile.strategies import THREADS, memory_layouts, registers
from tests.tile.test_reduce import numbers
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import Argument, Buffer
from tilewright.layout import Layout, S, laneid, tx
from tilewright.tile import Entry

OPS = ("sum", "prod", "max", "min")
KINDS = ("float32", "float16", "int32", "int8", "uint16", "float64")


def held(dst: Buffer, src: Buffer, scope: str, threads: int, **config: Argument) -> Entry:
    """Run one call and compare with NumPy."""
    data = numbers(str(config.get("op", "sum")), extents(src), src.dtype.numpy)
    before = np.zeros(extents(dst), dst.dtype.numpy)
    got, said = run("scan", dst, src, data, scope, threads, before, "sm_90a", **config)
    wanted = meant("scan", whole(dst), whole(src), data, before, **config)
    assert np.array_equal(got.astype(np.float64), wanted.astype(np.float64)), str(said)
    return said


def alike(
    layout: Layout | None, shape: tuple[int, ...], space: str = "local", kind: str = "int32"
) -> tuple[Buffer, Buffer]:
    return buffer("D", space, shape, layout, kind), buffer("S", space, shape, layout, kind)


@settings(max_examples=25)
@given(st.data())
def test_a_scan_is_what_numpy_says(data: st.DataObject) -> None:
    scope, op, kind = (data.draw(st.sampled_from(list(each))) for each in (THREADS, OPS, KINDS))
    if data.draw(st.booleans()):
        layout, shape = data.draw(registers(scope, 128))
        into = data.draw(st.sampled_from(["local", "shared"]))
        dst, src = (
            buffer("D", into, shape, layout if into == "local" else None, kind),
            buffer("S", "local", shape, layout, kind),
        )
    else:
        shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 8, 40]), min_size=1, max_size=2)))
        spaces = [data.draw(st.sampled_from(["shared", "global"])) for _ in range(2)]
        layouts = [data.draw(memory_layouts(shape, 16)) if space == "shared" else None for space in spaces]
        dst, src = (buffer(n, space, shape, at, kind) for n, space, at in zip("DS", spaces, layouts, strict=True))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    held(dst, src, scope, THREADS[scope], axis=axis, op=op, exclusive=data.draw(st.booleans()))


@pytest.mark.parametrize("exclusive", [False, True])
def test_lanes_hand_on_by_shuffles(exclusive: bool) -> None:
    said = held(*alike(S[(32, 4) : (1 @ laneid, 1)], (128,)), "warp", 64, exclusive=exclusive)

    assert (said.variant, said.plan) == ("registers", "1 x 4 elements per thread, 7 shuffles")


def test_lanes_of_a_line_may_be_some_apart() -> None:
    said = held(*alike(S[(8, 4, 4) : (4 @ laneid, 1, 1 @ laneid)], (32, 4)), "warp", 32, axis=0)

    assert said.plan == "1 x 4 elements per thread, 5 shuffles"


@pytest.mark.parametrize("exclusive", [False, True])
def test_warps_hand_on_through_shared_memory(exclusive: bool) -> None:
    said = held(*alike(S[(256, 4) : (1 @ tx, 1)], (1024,)), "cta", 256, exclusive=exclusive)

    assert said.plan == "1 x 4 elements per thread, 7 shuffles, 1 x 8 totals through shared memory, two barriers"


@pytest.mark.parametrize(("threads", "length"), [(64, 1), (64, 300), (48, 70), (256, 1027)])
def test_lines_of_any_length_are_scanned_round_by_round(threads: int, length: int) -> None:
    for space in ("shared", "global"):
        assert held(*alike(None, (2, length), space), "cta", threads, exclusive=True).variant == "memory"


def test_registers_without_runs_go_through_shared_memory() -> None:
    said = held(*alike(S[(2, 32) : (1, 1 @ laneid)], (64,)), "warp", 32)

    assert (said.variant, said.plan.partition(":")[0]) == ("staged", "through shared memory")


def test_an_axis_that_is_not_there_is_refused() -> None:
    dst, src = alike(None, (4, 8), "shared")

    with pytest.raises(DispatchError, match="has 2 dimensions"):
        tile.resolve(kernel(tile_call("scan", "warp", (dst, src), axis=2)), "sm_90a")
