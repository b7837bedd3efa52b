"""Registers: each thread has runs of lines; lanes hand on by shuffles, warps through shared memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.ir import Buffer, Expr, Load, Value, as_expr
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, kept_inside, only_in
from tilewright.tile.deals import LaneLine, Prefixes
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.owners import Owners, owners
from tilewright.tile.partition import element_numbers
from tilewright.tile.reductions import Partial, Reduction, parts_of, reduction_of, registers_for, spread
from tilewright.tile.walks import Ints, Offset, linear, plus, times


@dataclass(frozen=True, slots=True)
class RegisterScan:
    """parts: runs of a thread, each of ``length`` elements. dst, src: their slots, one run after the other. guard:
    holds in threads that hold some. numbers: of the lines of a thread's runs.
    """

    parts: int
    length: int
    dst: Offset
    src: Offset
    guard: Expr | None
    line: LaneLine
    numbers: Offset

    def summary(self) -> str:
        """``2 x 4 elements per thread, 12 shuffles``."""
        return ", ".join([f"{self.parts} x {self.length} elements per thread", *self.line.steps(self.parts)])


@variant(
    "scan",
    priority=10,
    keywords=("axis", "op", "exclusive"),
    when=[only_in("local"), constant_extents, kept_inside],
)
def registers(call: TileCall) -> RegisterScan:
    """Each thread scans the runs that it holds; lanes hand on by shuffles, warps through shared memory."""
    dst, src = call["dst"], call["src"]
    held, into = owners(call, src, loading=True), owners(call, dst, loading=True)
    lines, positions, extent = _numbers(call)
    order = _runs(lines[held.elements], positions[held.elements])
    elements = held.elements[:, order]
    chunks = _chunks(positions[elements], extent)
    line = _line(call, held, chunks, lines[elements[:, :, 0]], extent // order.shape[1])
    mine = np.array_equal(held.threads, into.threads) and held.space == into.space
    fits = (into.elements[:, None, :] == elements.reshape(len(elements), -1)[:, :, None]).all(axis=0) if mine else None
    if fits is None or not fits.any(axis=1).all():
        raise Decline(f"elements of {src.name} are held by other threads in {dst.name}")
    slots, to = held.offset_of(held.slots[order].reshape(-1)), into.offset_of(into.slots[fits.argmax(axis=1)])
    numbers = element_numbers(lines[elements[:, :, 0]], [held.rank])
    if slots is None or to is None or numbers is None:
        raise Decline(f"the slots of {src.name} follow no pattern")
    parts, length = order.shape
    return RegisterScan(parts, length, to, slots, held.guard(storing=False), line, numbers)


def _numbers(call: TileCall) -> tuple[Ints, Ints, int]:
    """For each element of the source the number of its line and its position there; and how long a line is."""
    extents = call["src"].shape
    axis = int(str(call.option("axis", -1))) % len(extents)
    coordinates = np.indices(extents)
    others = [extent for dim, extent in enumerate(extents) if dim != axis]
    lines = np.zeros(extents, np.int64)
    for dim, extent in enumerate(extents):
        lines = lines if dim == axis else lines * extent + coordinates[dim]
    assert int(np.prod(others)) == int(lines.max()) + 1
    return lines.reshape(-1), coordinates[axis].reshape(-1), extents[axis]


def _runs(lines: Ints, positions: Ints) -> Ints:
    """The slots of each line's elements in their order: (parts, elements). lines, positions: (threads, slots).

    Raises Decline where threads have them in different orders.
    """
    parts = parts_of(lines, "lines")
    order = np.take_along_axis(parts, np.argsort(positions[0, parts], axis=1), axis=1)
    if (np.diff(positions[:, order], axis=-1) != 1).any():
        raise Decline("a thread has no runs of a line")
    return order


def _chunks(positions: Ints, extent: int) -> Ints:
    """Which run of its lines each thread has. positions: (threads, parts, elements)."""
    length = positions.shape[-1]
    starts = positions[:, :, 0]
    if (starts != starts[:, :1]).any() or (starts % length).any() or extent % length:
        raise Decline("the runs of a thread begin at different positions of their lines")
    return np.asarray(starts[:, 0] // length)


def _line(call: TileCall, held: Owners, chunks: Ints, lines: Ints, count: int) -> LaneLine:
    """How the runs of a line are dealt out. Raises Decline where its threads do not follow one another."""
    scope = call.scope
    if count == 1:
        return LaneLine(1, 1, 0)
    which, numbers = spread(call, held, chunks[:, None])[:, 0], spread(call, held, lines)
    threads = np.arange(scope.threads)
    members = min(32, scope.threads)
    if (which < 0).any() or scope.threads % members or members & (members - 1):
        raise Decline("lanes that hold nothing are among the others")
    of_lanes = which[:members] if scope.threads > members else which
    together = len(np.unique(of_lanes))
    step = next((lane for lane in range(1, members) if of_lanes[lane] != of_lanes[0]), members)
    lane, warp = threads % members // step % together, which // together
    alone = together & (together - 1) == 0 and step * together <= members and count % together == 0
    if not alone or not np.array_equal(which, warp * together + lane) or (warp[threads // 32 * 32] != warp).any():
        raise Decline("the runs of a line do not go from lane to lane")
    partner = threads - lane * step
    if not np.array_equal(numbers[partner], numbers):
        raise Decline("the lanes of a line are apart")
    first = linear(warp[::32], [scope.index // 32]) if scope.threads > 32 else 0
    if first is None or not _is_whole(which, numbers, count):
        raise Decline("the warps of a line follow no pattern")
    within: Value = scope.index % 32 if scope.threads > 32 else scope.index
    mine: Value = within // step % together if together > 1 else 0
    return LaneLine(together, step, mine, members, count // together, first, int(lines.max()) + 1)


def _is_whole(which: Ints, lines: Ints, count: int) -> bool:
    """Has each line of the first parts all of its runs, each once among the warps?"""
    pairs = np.unique(np.stack([lines[:, 0], which]), axis=1)
    return bool((np.bincount(pairs[0])[np.unique(pairs[0])] == count).all())


@registers.emit
def _(plan: RegisterScan, call: TileCall, out: Builder) -> None:
    dst, src, reduction = call["dst"].buffer.flat(), call["src"].buffer.flat(), reduction_of(call, None)
    count = plan.parts * plan.length
    sums, totals = (
        registers_for(reduction, out, size, name) for size, name in ((count, "sums"), (plan.parts, "total"))
    )
    slot = out.offsets(plan.src, "r")
    with out.each("j", count) as j:
        sums.set(out, j, reduction.nothing if plan.guard is not None else _element(reduction, src, slot(j)))
    if plan.guard is not None:
        with out.when(plan.guard), out.each("j", count) as j:
            sums.set(out, j, _element(reduction, src, slot(j)))
    with out.each("j", plan.parts) as j:
        if plan.length > 1:
            with out.loop("e", plan.length - 1) as e:
                here = plus(times(j, plan.length), e)
                sums.set(out, plus(here, 1), reduction.joined(sums.get(here), sums.get(plus(here, 1))))
        totals.set(out, j, sums.get(plus(times(j, plan.length), plan.length - 1)))
    scratch = plan.line.scratch(reduction, call, out)
    number = out.offsets(plan.numbers, "k")
    before, _ = Prefixes(plan.line, reduction, call, out, scratch, number).emit(totals, plan.parts)
    to, exclusive = out.offsets(plan.dst, "r"), bool(call.option("exclusive", False))
    with out.when(plan.guard), out.each("j", plan.parts) as j:
        start = times(j, plan.length)
        if exclusive:
            out.store(dst, to(start), reduction.result(before.get(j)))
        moved = plan.length - 1 if exclusive else plan.length
        if moved:
            with out.each("e", moved) as e:
                result = reduction.joined(before.get(j), sums.get(plus(start, e)))
                out.store(dst, to(plus(plus(start, e), 1) if exclusive else plus(start, e)), reduction.result(result))


def _element(reduction: Reduction, src: Buffer, slot: Value) -> Partial:
    return reduction.of_element(Load(src, (as_expr(slot),)))
