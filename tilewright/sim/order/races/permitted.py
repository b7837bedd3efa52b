"""Pairs of accesses that may meet in any order.

Morally strong ones: both strong, each scope holding the other thread, of one size and proxy. Source: PTX ISA, "Memory
Consistency Model: Morally strong operations". A compare-and-swap and a plain read; the end of an m-barrier by one lane
for others. And what threads observe by strong reads: their next access of that place comes after it, and nothing else
does. Source: PTX ISA, "Memory Consistency Model: Observation, Communication order".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.knowledge.releases import hold_each_other, holds

if TYPE_CHECKING:
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
