"""Prefixes over threads: the result for all threads before the caller in its line.

The threads of a line are lanes of a warp, ``step`` apart, or of several warps, which exchange totals through scratch
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright import isa
from tilewright.ir import Expr, Value, as_expr, binary, select, special
from tilewright.isa import ALL_LANES
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.partials import PartialStore, registers_for, scratch_for
from tilewright.tile.reductions import Partial, Reduction
from tilewright.tile.walks import plus, times

__all__ = ["LaneLine", "Prefixes"]


@dataclass(frozen=True, slots=True)
class LaneLine:
    """lanes: of a warp in the same line, ``step`` apart, members of a warp that has so many. lane: where the caller is
    among them. warps: in the same line; warp: where the caller's is. lines: of all threads.
    """

    lanes: int
    step: int
    lane: Value
    members: int = 32
    warps: int = 1
    warp: Value = 0
    lines: int = 1

    @property
    def mask(self) -> int:
        """One bit for each lane of a warp."""
        return (1 << self.members) - 1 if self.members < 32 else ALL_LANES

    def scratch(self, reduction: Reduction, call: TileCall, out: Builder) -> PartialStore | None:
        """Scratch memory for the totals of warps; None where a line is in one warp."""
        return scratch_for(self.warps * self.lines, reduction, call, out) if self.warps > 1 else None

    def steps(self, parts: int) -> list[str]:
        """The shuffles in words, for a report on so many parts."""
        count = parts * (self.lanes.bit_length() + 1) if self.lanes > 1 else 0
        shuffles = [f"{count} shuffles"] if count else []
        exchange = f"{self.lines} x {self.warps} totals through shared memory, two barriers"
        return shuffles + ([exchange] if self.warps > 1 else [])


def _selected(cond: Expr, one: Partial, other: Partial) -> Partial:
    return tuple(select(cond, a, b) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefixes of a call's lines, written by ``out``. scratch: for the totals of warps, None where a line is in one
    warp. number: of the line, for a total, in scratch memory.
    """

    line: LaneLine
    reduction: Reduction
    call: TileCall
    out: Builder
    scratch: PartialStore | None
    number: Callable[[Value], Value]

    def emit(self, totals: PartialStore, count: int) -> tuple[PartialStore, PartialStore]:
        """The result for all threads before the caller, and for the whole line, for each of its ``count`` totals."""
        out, nothing = self.out, self.reduction.nothing
        before, whole = (registers_for(self.reduction, out, count, name) for name in ("before", "whole"))
        if self.line.lanes == 1:
            with out.each("j", count) as j:
                before.set(out, j, nothing)
                whole.set(out, j, totals.get(j))
        else:
            self._by_lanes(totals, before, whole, count)
        if self.scratch is not None:
            self._by_warps(self.scratch, before, whole, count)
        return before, whole

    def _by_lanes(self, totals: PartialStore, before: PartialStore, whole: PartialStore, count: int) -> None:
        line, out = self.line, self.out
        for distance in (1 << bit for bit in range(line.lanes.bit_length() - 1)):
            with out.each("j", count) as j:
                mine = totals.get(j)
                names = [isa.call("cuda.shfl_up_sync", line.mask, value, distance * line.step) for value in mine]
                theirs = tuple(out.let("lower", value) for value in names)
                follows = binary(">=", line.lane, distance)
                totals.set(out, j, _selected(follows, self.reduction.joined(theirs, mine), mine))
        last = plus(special("laneid"), times(plus(line.lanes - 1, times(line.lane, -1)), line.step))
        with out.each("j", count) as j:
            mine = totals.get(j)
            names = [isa.call("cuda.shfl_up_sync", line.mask, value, line.step) for value in mine]
            below = tuple(out.let("lower", value) for value in names)
            before.set(out, j, _selected(binary("==", line.lane, 0), self.reduction.nothing, below))
            whole.set(out, j, tuple(isa.call("cuda.shfl_sync", line.mask, value, as_expr(last)) for value in mine))

    def _by_warps(self, scratch: PartialStore, before: PartialStore, whole: PartialStore, count: int) -> None:
        line, out, reduction = self.line, self.out, self.reduction
        with out.when(binary("==", line.lane, line.lanes - 1) if line.lanes > 1 else None), out.each("j", count) as j:
            scratch.set(out, plus(times(line.warp, line.lines), self.number(j)), whole.get(j))
        out.meet(self.call)
        base = registers_for(reduction, out, 1, "base")
        with out.each("j", count) as j:
            base.set(out, 0, reduction.nothing)
            whole.set(out, j, reduction.nothing)
            with out.each("w", line.warps) as w:
                values = scratch.get(plus(times(w, line.lines), self.number(j)))
                piece = tuple(out.let("piece", value) for value in values)
                with out.when(binary("<", w, line.warp)):
                    base.set(out, 0, reduction.joined(base.get(0), piece))
                whole.set(out, j, reduction.joined(whole.get(j), piece))
            before.set(out, j, reduction.joined(base.get(0), before.get(j)))
        out.meet(self.call)
