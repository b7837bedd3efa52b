"""fill and zero: one value in every place of a region's elements, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tile.checking import assert_equal, resolved
from tests.tile.kernels import BX, buffer, tensor, tile_call, whole
from tests.tile.machine import Machine
from tests.tile.oracle import filled, fresh_memory
from tests.tile.strategies import KINDS, THREADS, regions, registers
from tilewright import ir
from tilewright.errors import DispatchError
from tilewright.ir import Argument, Buffer, Region, Var, cast, const_value
from tilewright.ir.expr import Value
from tilewright.ir.ranges import RangeFacts
from tilewright.layout import ComposeLayout, R, S, SwizzleLayout, TCol, TileLayout, TLane, laneid, warpid
from tilewright.tile import Entry

N = Var("n")
SWIZZLED = ComposeLayout(SwizzleLayout(3, 3, 3), S[64, 64])


def fill(
    dst: Buffer | Region,
    scope: str = "warp",
    threads: int = 32,
    values: dict[str, int] | None = None,
    **config: Argument,
) -> Entry:
    """Resolve one fill, run it with these values, compare with NumPy; returns the report's entry."""
    region = whole(dst)
    stmt = tile_call("fill", scope, (region, cast(1, region.dtype)), **config)
    done, said = resolved(stmt, threads=threads, symbols=(N,))
    memory = fresh_memory([region.buffer], threads, first=1000)
    numbers = {"n": 0, "bx": 0, **(values or {})}
    expected = filled(_in_numbers(region, numbers), 1, memory, threads)
    Machine(done, memory, numbers).run()
    assert_equal(memory, expected, str(said))
    return said


def _in_numbers(region: Region, values: dict[str, int]) -> Region:
    def number(part: Value) -> int:
        expr = ir.as_expr(part)
        exact = ir.rewrite(expr, lambda node: ir.as_expr(values[node.name]) if isinstance(node, Var) else None)
        return int(const_value(RangeFacts().simplify(exact)) or 0)

    return Region(region.buffer, tuple((number(start), number(extent)) for start, extent in region.box))


@st.composite
def memories(draw: st.DrawFn, kind: str) -> Region:
    """A region of shared or global memory, in one place or several."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 8, 16]), min_size=1, max_size=3)))
    region = draw(regions("A", draw(st.sampled_from(["shared", "global"])), shape, kind))
    return Region(_replicated(region.buffer), region.box) if draw(st.booleans()) else region


def _replicated(memory: Buffer) -> Buffer:
    layout = memory.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    assert isinstance(tile, TileLayout)
    twice = TileLayout(tile + R[2 : int(tile.cosize("m"))])
    swizzled = ComposeLayout(layout.swizzle, twice) if isinstance(layout, ComposeLayout) else twice
    return buffer(memory.name, memory.space, memory.shape, swizzled, str(memory.dtype))


@given(st.data())
def test_memory_holds_what_numpy_says(data: st.DataObject) -> None:
    scope = data.draw(st.sampled_from(list(THREADS)))
    fill(data.draw(memories(data.draw(st.sampled_from(KINDS)))), scope, THREADS[scope])


@given(st.data())
def test_registers_hold_what_numpy_says(data: st.DataObject) -> None:
    scope = data.draw(st.sampled_from(list(THREADS)))
    layout, shape = data.draw(registers(scope))
    fill(buffer("R", "local", shape, layout, data.draw(st.sampled_from(KINDS))), scope, THREADS[scope])


@given(st.data())
def test_nothing_outside_of_the_buffer_is_stored_to(data: st.DataObject) -> None:
    """A region with a start or an extent of run time, in a buffer that it may leave."""
    scope, kind = data.draw(st.sampled_from(list(THREADS))), data.draw(st.sampled_from(KINDS))
    rows, columns = data.draw(st.sampled_from([(8, 16), (5, 8), (16, 32)]))
    layout = data.draw(st.sampled_from([None, ComposeLayout(SwizzleLayout(3, 1, 1), S[rows, columns])]))
    memory = buffer("A", data.draw(st.sampled_from(["shared", "global"])), (rows, columns), layout, kind)
    boxes: list[tuple[tuple[Value, Value], tuple[Value, Value]]] = [
        ((N, 4), (0, columns)),
        ((0, N), (2, 4)),
        ((0, rows), (N * 8, 16)),
        ((BX * 4, 4), (4, 8)),
        ((N, N), (N, 8)),
    ]
    box = data.draw(st.sampled_from(boxes))
    values = {"n": data.draw(st.integers(0, 20)), "bx": data.draw(st.integers(0, 3))}
    fill(Region(memory, box), scope, THREADS[scope], values)


@pytest.mark.parametrize("scope", THREADS)
def test_registers_that_a_region_may_leave_are_looked_at_one_by_one(scope: str) -> None:
    for n in (0, 1, 3, 9, 20):
        said = fill(Region(buffer("R", "local", (8,)), ((N - 2, 4),)), scope, THREADS[scope], {"n": n})
        assert said.variant == "fallback"


# Calls that each variant takes, and calls that it declines.


def test_aligned_runs_are_stored_16_bytes_at_a_time() -> None:
    said = fill(buffer("A", "shared", (64, 64)), "cta", 128)

    assert (said.variant, said.plan) == ("memory", "4 x 8 elements for each of 128 threads")


def test_a_swizzle_keeps_its_runs_together() -> None:
    assert fill(buffer("A", "shared", (64, 64), SWIZZLED), "cta", 128).plan.startswith("4 x 8 elements")


def test_every_replica_is_filled_by_runs() -> None:
    said = fill(buffer("A", "shared", (8, 8), TileLayout(S[8, 8] + R[2:64])), "warp")

    assert said.plan.startswith("1 x 8 elements for each of 32 threads, 16 in all")


def test_a_tail_of_whole_runs_is_guarded_run_by_run() -> None:
    rows = buffer("A", "global", (100, 64))
    part = Region(rows, ((BX * 64, 64), (0, 64)))

    said = [fill(part, "cta", 128, {"bx": bx}) for bx in (0, 1, 2)]

    assert {(one.variant, one.plan) for one in said} == {
        ("memory", "4 x 8 elements for each of 128 threads, those inside of the buffers")
    }


def test_a_run_that_may_be_half_outside_is_asked_element_by_element() -> None:
    said = fill(Region(buffer("A", "global", (100,)), ((BX * 64, 64),)), "warp", values={"bx": 1})

    assert (said.variant, said.plan) == (
        "memory", "1 x 8 elements for each of 32 threads, 8 in all, those inside of the buffers",
    )  # fmt: skip


def test_a_constant_region_is_cut_at_the_end_of_its_buffer() -> None:
    said = fill(Region(buffer("A", "shared", (64,)), ((32, 64),)))

    assert said.plan.startswith("1 x 8 elements for each of 32 threads, 4 in all")


def test_a_region_that_is_all_outside_stores_nothing() -> None:
    assert fill(Region(buffer("A", "shared", (64,)), ((64, 8),))).variant == "memory"


def test_vec_len_asks_for_one_width() -> None:
    assert fill(buffer("A", "shared", (64, 64)), "cta", 128, vec_len=4).plan.startswith("8 x 4 elements")


@pytest.mark.parametrize("length", [3, 0, -1, 16])
@pytest.mark.parametrize("dispatch", [None, "memory"])
def test_a_vector_that_no_access_has_is_refused_by_every_variant(length: int, dispatch: str | None) -> None:
    with pytest.raises(DispatchError, match=f"vec_len={length} is no vector of 8 to 128 bits") as refused:
        fill(buffer("A", "shared", (64, 64)), dispatch=dispatch, vec_len=length)
    assert refused.value.allowed == "8, 4, 2, 1"


def test_the_report_names_what_would_make_runs_wider() -> None:
    said = fill(Region(buffer("A", "shared", (64,), align=4), ((0, 64),)))

    assert said.hints == ("align=16 on A",)


def test_each_holder_of_registers_stores_to_its_own() -> None:
    fragment = buffer("R", "local", (8, 8), S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])

    assert fill(fragment).plan == "2 x 1 elements per thread"
    assert fill(Region(fragment, ((2, 2), (0, 8)))).plan == "2 x 1 elements per thread"


DECLINED: dict[str, tuple[str, Buffer | Region, str]] = {
    "registers in memory": ("registers", buffer("A", "shared", (8,)), "A is in shared memory, not in local"),
    "registers that may be outside": (
        "registers", Region(buffer("R", "local", (8,)), ((N, 4),)), "may leave dimension 0 of R",
    ),
    "memory in registers": ("memory", buffer("R", "local", (8,)), "R is in local memory, not in shared or global"),
    "tensor memory": (
        "fallback", tensor("D", (128, 4), S[(128, 4) : (1 @ TLane, 1 @ TCol)]), "D is in tmem memory",
    ),
    "others' registers": (
        "fallback", buffer("R", "local", (2, 8), S[(2, 8) : (1 @ warpid, 1)]), "wider than one warp",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLINED)
def test_it_declines_with_its_reason(name: str) -> None:
    variant, dst, reason = DECLINED[name]

    with pytest.raises(DispatchError, match="does not fit") as refused:
        fill(dst, dispatch=variant)
    assert reason in str(refused.value)


def test_an_empty_region_is_refused() -> None:
    with pytest.raises(DispatchError, match="the region of A is empty"):
        fill(Region(buffer("A", "shared", (8,)), ((4, 0),)))


@pytest.mark.parametrize(("start", "fit"), [(1, [1]), (2, [1, 2]), (3, [1]), (4, [1, 2, 4])])
@pytest.mark.parametrize("dispatch", [None, "memory"])
def test_a_vector_that_is_misaligned_is_refused_with_the_lengths_that_fit(
    start: int, fit: list[int], dispatch: str | None
) -> None:
    region = Region(buffer("A", "shared", (64,)), ((start, 32),))

    with pytest.raises(DispatchError) as refused:
        fill(region, dispatch=dispatch, vec_len=8)

    assert refused.value.hint == " or ".join(f"vec_len={length}" for length in fit)
    for length in fit:
        fill(region, dispatch=dispatch, vec_len=length)
