"""Changes that might let a better variant take a call. The dispatcher tries them, and shows only one that works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tilewright.ir import Binary, Const, Expr, Region, Var, const_value, walk
from tilewright.layout import ComposeLayout, Iter, Layout, TileLayout
from tilewright.primitives.elements import VECTOR_BYTES
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Change, Decline
from tilewright.tile.partition import missing_fact, places, storage_start

if TYPE_CHECKING:
    from tilewright.isa import Form
    from tilewright.tile.partition import Places

__all__ = ["alignments", "check_target", "stated", "wider"]


def check_target(call: TileCall, name: str, form: Form) -> None:
    """A form that the target lacks is no error here: another variant may take the call. Raises Decline."""
    if not form.arch.admits(call.arch):
        first = form.arch.archs()[0]
        raise Decline(
            f"{name} exists on {form.arch}, not on {call.arch}",
            allowed=str(form.arch),
            changes=[Change(f'target="{first}"', replace(call, arch=first))],
        )


def alignments(call: TileCall, side: Side, where: Places, length: int, *, run: int | None = None) -> Iterator[Change]:
    """Changes that might make each start in ``side`` a multiple of ``length`` elements, the smallest first.

    run: how many elements stay together from such a start on, if not all.
    """
    nbytes = length * side.dtype.bits // 8
    yield from _promises(call, side, where, length)
    if (moved := _moved(side, length)) is not None:
        yield Change(f"{moved}, which begins at a multiple of {length}", _with_region(call, side, moved))
    if (padded := _padded(side.buffer.layout, length, run or length)) is not None:
        buffer = replace(side.buffer, layout=padded)
        text = f"{padded} for {side.name}, which makes its strides multiples of {nbytes} bytes"
        yield Change(text, _with_region(call, side, Region(buffer, side.region.box)))


def _promises(call: TileCall, side: Side, where: Places, length: int) -> Iterator[Change]:
    """Promises that a kernel can make without other changes: facts about its values, the alignment of a buffer."""
    nbytes, facts = length * side.dtype.bits // 8, call.facts
    before = storage_start(side.buffer, facts)[1]
    start = facts.simplify(before + where.seen_base * side.dtype.bits)
    strides = zip(where.units[1:], np.gcd.reduce(where.steps[1:], axis=1).tolist(), strict=True)
    missing = [missing_fact(facts, start, 8 * nbytes)]
    missing += [missing_fact(facts, unit * times, length) for unit, times in strides]
    wanted = {str(fact): fact for fact in missing if isinstance(fact, Expr) and call.scope.keeps_together(fact)}
    if wanted:
        for fact in wanted.values():
            facts = facts.with_condition(fact)
        yield Change(" and ".join(stated(call, fact) for fact in wanted.values()), replace(call, facts=facts))
    if side.buffer.align:
        aligned = replace(side.buffer, align=nbytes)
        yield Change(f"align={nbytes} on {side.name}", _with_region(call, side, Region(aligned, side.region.box)))


class PlannedAccesses(Protocol):
    """A plan of accesses of so many bytes each."""

    @property
    def nbytes(self) -> int: ...


def wider(call: TileCall, plan: PlannedAccesses, planner: Callable[[TileCall], PlannedAccesses]) -> str | None:
    """A promise of the kernel for wider accesses: the one with which ``planner`` plans the widest."""
    if call.option("vec_len") is not None:
        return None
    for nbytes in VECTOR_BYTES:
        for side in call.tiles:
            length = 8 * nbytes // side.dtype.bits
            if nbytes <= plan.nbytes or side.space == "local" or not length:
                continue
            for change in _promises(call, side, places(side, call.facts), length):
                if _planned(planner, change.call) >= nbytes:
                    return change.text
    return None


def _planned(planner: Callable[[TileCall], PlannedAccesses], call: TileCall) -> int:
    """The bytes of an access of the plan; 0 where there is none."""
    try:
        return planner(call).nbytes
    except Decline:
        return 0


def stated(call: TileCall, fact: Expr) -> str:
    """How a kernel says so: a fact about the arguments once and for all, any other by a condition."""
    spelled_out = call.scope.control.spelled_out(fact)
    if {type(node) for node in walk(spelled_out)} <= {Binary, Const, Var} and all(
        node.name in call.arguments for node in walk(spelled_out) if isinstance(node, Var)
    ):
        return f"T.assume({spelled_out})"
    return f"`if {fact}:` around the call"


def _with_region(call: TileCall, side: Side, region: Region) -> TileCall:
    return call.with_side(side, side_of(region, call.facts))


def _moved(side: Side, length: int) -> Region | None:
    """The region moved back to a start that ``length`` divides along its last dimension; None where it has one."""
    *before, (start, extent) = side.region.box
    known = const_value(start)
    if known is None or not known % length:
        return None
    return Region(side.buffer, (*before, (int(known) - int(known) % length, extent)))


def _padded(layout: Layout | None, length: int, run: int) -> Layout | None:
    """The layout with each stride beyond a run of elements rounded up to a multiple of ``length``; None if all are."""
    if isinstance(layout, ComposeLayout):
        tile = _padded(layout.tile, length, run)
        return ComposeLayout(layout.swizzle, tile) if isinstance(tile, TileLayout) else None
    if not isinstance(layout, TileLayout) or any(const_value(it.stride) is None for it in layout.shard):
        return None
    strides: dict[int, int] = {}
    end = 1
    for stride, extent in sorted((int(it.stride), int(it.extent)) for it in layout.shard if int(it.extent) > 1):
        wanted = stride if stride < run else -(-max(stride, end) // length) * length
        strides[stride] = wanted
        end = max(end, (extent - 1) * wanted + end)
    shard = [Iter(it.extent, strides.get(int(it.stride), it.stride), it.axis) for it in layout.shard]
    return None if strides == {old: old for old in strides} else replace(layout, shard=tuple(shard))
