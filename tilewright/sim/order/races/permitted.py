"""Pairs of accesses that may meet in any order.

Morally strong ones: both strong, each scope holding the other thread, of one size and proxy. Source: PTX ISA, "Memory
Consistency Model: Morally strong operations". The end of an m-barrier by one lane for others. What threads observe by
strong reads: their next access of that place comes after it, and nothing else does. Source: PTX ISA, "Memory
Consistency Model: Observation, Communication order".

And plain reads that a compare-and-swap finds out: what is read leads to what it compares or writes, or to whether it
is. An old value costs such a kernel a turn of its loop. A read that leads anywhere else may see either value.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright import ir
from tilewright.isa.calls import calls_at
from tilewright.sim.order.knowledge.releases import hold_each_other, holds

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import Bools, Ints, Site
    from tilewright.sim.order.knowledge.clocks import Thread
    from tilewright.sim.order.races.records import AccessRecord, Pairs, Record


def are_morally_strong(access: AccessRecord, pairs: Pairs, other: Record) -> Bools:
    """Which pairs of an access with an earlier one are morally strong?"""
    a, b, run = access.site, other.site, access.team.wave.run
    if "weak" in (a.how.sem, b.how.sem) or (a.element, a.how.by_unit) != (b.element, b.how.by_unit):
        return np.zeros(len(pairs), np.bool_)
    fits = hold_each_other(a.how.scope, pairs.cta, b.how.scope, pairs.other_cta, run)
    if _may_rely(access, other):
        together = (pairs.cta == pairs.other_cta) & (pairs.thread >> 5 == pairs.other_thread >> 5)
        fits = fits & ~(together & other.holds(pairs.cta, pairs.thread))
    return fits


def is_surely_strong(access: AccessRecord, other: Record) -> bool:
    """Are the two morally strong, whichever threads they are of?"""
    sites, own = (access.site, other.site), not access.places.is_global or access.team.wave.run.ctas == 1
    wide = all(site.how.sem != "weak" and (own or site.how.scope in access.team.wave.run.wide) for site in sites)
    alike = access.site.element == other.site.element and access.site.how.by_unit == other.site.how.by_unit
    return wide and alike and not _may_rely(access, other)


def is_strong_with_all(access: AccessRecord, *, write: bool) -> bool:
    """Is an access morally strong with everything that was written, or read, since its threads last met?"""
    if access.site.how.sem == "weak":
        return False
    if (found := access.is_strong.get(write)) is None:
        met, every = access.all_known(), access.places.log.newest(write=write)
        found = access.is_strong[write] = all(each.time <= met or is_surely_strong(access, each) for each in every)
    return found


def is_frail(access: AccessRecord, other: Record) -> bool:
    """Was another access less strong than this, so that some thread may race with that one alone?"""
    one, two = access.site, other.site
    kinds = ((site.how.sem == "weak", site.how.scope, site.element, site.how.by_unit) for site in (one, two))
    return len({*kinds}) > 1 and not is_surely_strong(access, other)


def newest_frail(access: AccessRecord, *, write: bool) -> int:
    """The time of the last write at its memory that is less strong than an access, or of the last read."""
    return max((each.time for each in access.places.log.newest(write=write) if is_frail(access, each)), default=0)


def reaches(access: AccessRecord, others: Ints) -> Bools:
    """Where is a thread of another CTA within the scope of an access? others: of the grid, (CTAs, warps, 32)."""
    own = access.team.look.rows(1) + access.team.wave.first
    return holds(access.site.how.scope, own, others, access.team.wave.run)


def _may_rely(access: AccessRecord, other: Record) -> bool:
    """May two lanes of shared memory, which made the earlier volatile access together, rely on lockstep?

    The lanes of a warp went on together until sm_70 let each go its own way; ``volatile`` gives them no order.
    """
    return not access.places.is_global and access.site.how.sem == other.site.how.sem == "volatile"


def finds_out(one: Site, other: Site) -> bool:
    """Is one access a plain read, and the other a compare-and-swap of the same size?"""
    read, swap = (one, other) if other.how.compares else (other, one)
    plain = read.how.sem == "weak" and not (read.write or read.how.collective)
    return swap.how.compares and plain and read.element == swap.element


def is_begun_by(one: Site, other: Site) -> bool:
    """Is one access a signal of an m-barrier that the other one begins? `MBarrierRules` judge whether it may be."""
    begins = other.how.is_signal and other.how.sem == "weak" and not other.how.ends
    return begins and one.how.is_signal and one.how.sem != "weak"


def went_along(access: AccessRecord, pairs: Pairs, record: Record | None = None) -> Bools:
    """Which pairs are with an arrival that a warp made together with a lane that the later thread knows?

    An m-barrier is ended by one lane for all that arrived with it, in libcu++'s pipelines, once the warp has met.
    record: of the arrivals, where all pairs are with one.
    """
    found = np.zeros(len(pairs), np.bool_)
    for k in range(len(found)) if access.site.how.ends else ():
        one = record or access.places.log.find(int(pairs.other_cta[k]), int(pairs.time[k]))
        if one is None or not one.site.how.is_signal:
            continue
        which = np.full(32, k)
        ctas, threads = pairs.other_cta[which], pairs.other_thread[which] & ~31 | np.arange(32)
        known = access.clocks.knows(pairs.row[which], pairs.knower[which], ctas, threads, np.full(32, one.time))
        itself = (threads == pairs.thread[k]) & (ctas == pairs.cta[k])
        found[k] = bool(((known | itself) & one.holds(ctas, threads)).any())
    return found


def last_read(access: AccessRecord, lane: tuple[int, int, int], who: Thread) -> Record | None:
    """The last strong read by a thread, which has this lane, of what it is about to access."""
    address, width = access.address(lane), access.site.width
    for record in access.places.log.newest_first():
        if record.site.how.sem != "weak" and record.site.shows and record.touched(*who, address, width):
            return record
    return None


def has_observed(access: AccessRecord, read: Record | None, who: Thread, write: Record, writer: Thread) -> bool:
    """Has a thread by its strong read seen what another one wrote? Then it comes after that, at this place alone."""
    if read is None or read.time < write.time or read.site.element != write.site.element:
        return False
    run = access.team.wave.run
    if read.time == write.time and not (read is write and read.comes_first(writer, who, run.precedence)):
        return False
    return bool(hold_each_other(read.site.how.scope, who[0], write.site.how.scope, writer[0], run))


_SHARED_BY_ALL = {"global", "generic"}  # memories that no value is followed through


@dataclass(frozen=True, slots=True)
class _Flow:
    """What a statement reads, and what gets its value from that: variables, and the spaces of memories that each thread
    or CTA has to itself. loads: does it read memory, other than by a compare-and-swap? swaps: does it have one?
    """

    read: set[str]
    written: set[str]
    loads: bool
    swaps: bool

    @classmethod
    def of(cls, stmt: ir.Stmt) -> _Flow:
        accesses = [access for call in calls_at(stmt) for access in call.form.accesses]
        held = [part for part in ir.expressions(stmt) if isinstance(part, ir.Load)]
        read = {part.name for part in ir.expressions(stmt) if isinstance(part, ir.Var)}
        read |= {part.buffer.space for part in held} | {access.space for access in accesses if not access.write}
        written = {access.space for access in accesses if access.write}
        if isinstance(stmt, (ir.Bind, ir.Assign, ir.For)):
            written.add(stmt.var.name)
        elif isinstance(stmt, ir.Store):
            written.add(stmt.place.buffer.space)
        elif isinstance(stmt, ir.Evaluate):
            written |= read  # any operand of a call without a result may get one
        loads = bool(held) and not isinstance(stmt, ir.Store)
        loads |= any(not (access.write or access.compares) for access in accesses)
        swaps = any(access.compares for access in accesses)
        return cls(read - _SHARED_BY_ALL, written - _SHARED_BY_ALL, loads, swaps)


class SwapReads:
    """Of one kernel: what leads where, in any order of its statements. Registers in memory go by their space."""

    def __init__(self, body: ir.Body) -> None:
        self.body = body
        self.known: dict[Span, set[str]] = {}

    @cached_property
    def flows(self) -> dict[int, tuple[ir.Stmt, _Flow]]:
        """Of each statement, by its ``id``."""
        return {id(stmt): (stmt, _Flow.of(stmt)) for stmt in ir.statements(self.body)}

    def finds_out(self, read: Span | None, swap: Span | None) -> bool:
        """May what is read at one place decide what a compare-and-swap at another one does?"""
        if read is None or swap is None:
            return False
        if swap not in self.known:
            self.known[swap] = self._leading_to(swap)
        here = (flow for stmt, flow in self.flows.values() if stmt.at == read and flow.loads)
        return any(not self.known[swap].isdisjoint(flow.written) for flow in here)

    def _leading_to(self, swap: Span) -> set[str]:
        """The names on which a compare-and-swap depends: its operands, and the conditions around it."""
        sources, leading, todo = defaultdict[str, set[str]](set), set[str](), list[str]()
        swaps = {number for number, (stmt, flow) in self.flows.items() if flow.swaps and stmt.at == swap}
        for stmt, flow in self.flows.values():
            todo += flow.read if not swaps.isdisjoint(map(id, ir.statements((stmt,)))) else ()
            for name in flow.written:
                sources[name] |= flow.read
        while todo:
            if (name := todo.pop()) not in leading:
                leading.add(name)
                todo += sources[name]
        return leading
