"""Shared and global memory: threads take neighbouring runs of a line, round by round, and pass on their totals."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import AddressOf, Buffer, Expr, Load, Value, as_expr, binary, const_value, special
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall, own_digits
from tilewright.tile.conditions import only_in, whole_bytes
from tilewright.tile.deals import (
    Deal,
    LaneLine,
    Prefixes,
    below,
    ceiling,
    dealt_along,
    end_of_row,
    load_run,
    takes_runs,
    wider_runs,
)
from tilewright.tile.dispatch import Decline, counted, variant
from tilewright.tile.inside import inside
from tilewright.tile.owners import all_hold
from tilewright.tile.reductions import Partial, PartialStore, Reduction, begin_with_nothing, reduction_of, registers_for
from tilewright.tile.walks import plus, times


@dataclass(frozen=True, slots=True)
class MemoryScan:
    """blocks: of lines, one after the other. rounds: of a line's threads along it. together: are runs stored by one
    access? widened: what would make the accesses wider.
    """

    deal: Deal
    line: LaneLine
    blocks: Value
    rounds: Value
    nbytes: int
    together: bool
    widened: str | None = None

    def summary(self) -> str:
        """``32 threads along each line by 16 bytes, 6 shuffles``."""
        first = f"{counted(self.deal.along, 'thread')} along each line by {self.nbytes} bytes, {self.rounds} rounds"
        return ", ".join([first, *self.line.steps(1)])


@variant("scan", priority=10, keywords=("axis", "op", "exclusive"), when=[only_in("shared", "global"), whole_bytes])
def memory(call: TileCall) -> MemoryScan:
    """Threads take neighbouring runs of a line; lanes hand on by shuffles, warps through shared memory."""
    src, facts = call["src"], call.facts
    axis = int(str(call.option("axis", -1))) % len(src.extents)
    deal = dealt_along(call, (axis,), in_order=True)
    if deal.pieces > 1 and deal.workers != call.scope.threads:
        raise Decline(f"{call.scope.threads} threads are no whole warps")
    row = deal.row(call.scope.index)
    members = min(deal.workers, 32)
    lane = special("laneid") % deal.together if deal.together < members else special("laneid")
    line = LaneLine(deal.together, 1, lane, members, deal.pieces, row // 32 if deal.pieces > 1 else 0, deal.across)
    blocks = facts.simplify(ceiling(deal.kept.count, deal.across))
    rounds = facts.simplify(ceiling(deal.reduced.count, deal.along))
    widened = wider_runs(call, deal, lambda other: dealt_along(other, (axis,), in_order=True))
    together = deal.vector > 1 and takes_runs(call, call["dst"], _axis_in(call), deal.vector)
    return MemoryScan(deal, line, blocks, rounds, max(1, deal.vector * src.dtype.bits // 8), together, widened)


@dataclass(frozen=True, slots=True)
class _ScanEmission:
    """The state that parts of the emitted code share. run: elements as they are in memory; sums: their prefixes."""

    plan: MemoryScan
    call: TileCall
    out: Builder
    reduction: Reduction
    run: Buffer
    sums: PartialStore
    totals: PartialStore
    carry: PartialStore
    scratch: PartialStore | None

    def digits(self, column: Value, turn: Value) -> list[Value]:
        """The coordinates of a run."""
        return self.plan.deal.digits(column, turn, len(self.call["src"].extents))


@memory.emit
def _(plan: MemoryScan, call: TileCall, out: Builder) -> None:
    deal, reduction = plan.deal, reduction_of(call, None)
    run = out.local("run", deal.vector, str(call["src"].dtype)).flat()
    sums, totals, carry = (
        registers_for(reduction, out, count, name)
        for name, count in (("sums", deal.vector), ("total", 1), ("carry", 1))
    )
    scratch = plan.line.scratch(reduction, call, out)
    emission = _ScanEmission(plan, call, out, reduction, run, sums, totals, carry, scratch)
    with (
        out.when(None if deal.workers == call.scope.threads else binary("<", call.scope.index, deal.workers)),
        out.each("b", plan.blocks) as block,
    ):
        column = out.let("line", plus(times(block, deal.across), deal.column(call.scope.index)))
        exists = below(column, deal.kept.count, plan.blocks * deal.across)
        begin_with_nothing(reduction, out, carry, 1)
        with out.each("i", plan.rounds) as round:
            _emit_round(emission, column, exists, round)
    if call["dst"].space == "shared":
        out.meet(call)


def _emit_round(emission: _ScanEmission, column: Value, exists: Expr | None, round: Value) -> None:
    plan, call, out, reduction = emission.plan, emission.call, emission.out, emission.reduction
    deal, sums, carry = plan.deal, emission.sums, emission.carry
    turn = out.let("n", plus(times(round, deal.along), deal.row(call.scope.index)))
    digits = emission.digits(column, turn)
    there = all_hold((exists, below(turn, deal.reduced.count, plan.rounds * deal.along)))
    _load(emission, digits, there)
    with out.each("e", deal.vector) as e:
        sums.set(out, e, reduction.of_element(Load(emission.run, (as_expr(e),))))
    if deal.vector > 1:
        with out.loop("e", deal.vector - 1) as e:
            sums.set(out, plus(e, 1), reduction.joined(sums.get(e), sums.get(plus(e, 1))))
    emission.totals.set(out, 0, sums.get(deal.vector - 1))
    lines = deal.column(call.scope.index)
    before, whole = Prefixes(plan.line, reduction, call, out, emission.scratch, lambda _: lines).emit(
        emission.totals, 1
    )
    before.set(out, 0, reduction.joined(carry.get(0), before.get(0)))
    carry.set(out, 0, reduction.joined(carry.get(0), whole.get(0)))
    _store(emission, own_digits(call["dst"], digits, call["src"].extents), there, before.get(0))


def _load(emission: _ScanEmission, digits: list[Value], there: Expr | None) -> None:
    """The elements of a run; those that do not exist become neutral ones."""
    out, src, deal = emission.out, emission.call["src"], emission.plan.deal
    exists = all_hold((there, inside(emission.call, src, digits)))
    run = emission.run, 0, deal.vector
    load_run(emission.call, out, run, digits, exists, emission.reduction.padding, deal.cut)


def _store(emission: _ScanEmission, digits: list[Value], there: Expr | None, before: Partial) -> None:
    """The prefixes of a run's elements: by one access where the destination has such runs, and the line goes on."""
    out, call, deal = emission.out, emission.call, emission.plan.deal
    dst, position, flat = call["dst"], _axis_in(call) if deal.vector > 1 else 0, call["dst"].buffer.flat()
    end = None if deal.cut is None else end_of_row(call, call["src"], deal.cut)

    def each() -> None:
        for e, value in enumerate(_prefixes(emission, before)):
            here = [plus(digit, e) if dim == position else digit for dim, digit in enumerate(digits)]
            exists = None if end is None else binary("<", here[position], end)
            with out.when(all_hold((exists, inside(call, dst, here)))):
                out.store(flat, dst.place(here, call.facts).get("m", 0), value)

    def together() -> None:
        run = out.local("result", deal.vector, str(dst.dtype)).flat()
        for e, value in enumerate(_prefixes(emission, before)):
            out.store(run, e, value)
        pointer = out.pointer("ptr", flat, dst.place(digits, call.facts).get("m", 0))
        nbytes = deal.vector * dst.dtype.bits // 8
        out.call("cuda.copy_bytes", pointer, AddressOf(run, (as_expr(0),)), nbytes)

    with out.when(there):
        if not emission.plan.together:
            each()
        else:
            whole = None if end is None else binary("<=", plus(digits[position], deal.vector), end)
            out.either(whole, together, each)


def _prefixes(emission: _ScanEmission, before: Partial) -> list[Expr]:
    """What the destination gets of a run."""
    reduction, sums = emission.reduction, emission.sums
    joined = [reduction.joined(before, sums.get(e)) for e in range(emission.plan.deal.vector)]
    return list(map(reduction.result, [before, *joined[:-1]] if emission.call.option("exclusive", False) else joined))


def _axis_in(call: TileCall) -> int:
    """The dimension of the destination along which the scan goes."""
    src, dst = call["src"], call["dst"]
    axis = int(str(call.option("axis", -1))) % len(src.extents)
    rank = sum(const_value(extent) != 1 for extent in src.extents[:axis])
    return [dim for dim, extent in enumerate(dst.extents) if const_value(extent) != 1][rank]
