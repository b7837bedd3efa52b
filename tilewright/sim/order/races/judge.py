"""Races between two accesses of which neither is known to come first.

They race where they overlap, one of them writes, and they are not morally strong: both strong, each scope holding the
other thread, of one size. Source: PTX ISA, "Memory Consistency Model: Morally strong operations, Race".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.batch import numbers
from tilewright.sim.order.knowledge.releases import WIDE, holds
from tilewright.sim.order.races.accesses import CTA, CTA_BITS, EQUAL, MANY, ROUNDED, THREAD, AccessRecord, bound_of
from tilewright.sim.order.races.clash import Clash, Pairs, apart, pairs_of
from tilewright.sim.order.races.observed import StrongRead, finds_out, last_look, went_along
from tilewright.sim.order.races.records import Candidates, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.order.races.places import TaggedPlaces

__all__ = ["clash_of", "clash_with_reads", "farthest_clash", "lost_store"]


SPAN = 1 << 32  # places; more than the shared memory of one CTA has
AT_ONCE = 1 << 18  # pairs of accesses


def clash_with_reads(access: AccessRecord, found: Candidates) -> Clash | None:
    """The race of a write with earlier reads that is reported; loose, where all of them come first in practice."""
    clash, _ = clash_of(access, found, with_writer=False)
    if clash is not None and access.clocks.loose:
        strict, _ = clash_of(replace(access, also=(*access.also, access.clocks.loose)), found, with_writer=False)
        return strict or replace(clash, loose=True)
    return clash


def clash_of(access: AccessRecord, found: Candidates, *, with_writer: bool) -> tuple[Clash | None, Candidates]:
    """The race among candidates that is reported, if there is one, and the candidates that are legal without an order.

    Of all pairs of threads those are told that are farthest apart: what orders them orders the others.
    """
    many = found.tags & MANY != 0
    if with_writer and _is_strong_with_all(access):
        many[~many] = ~_knows(access, pairs_of(access, found[~many]))
        return None, found[many]
    known = _knows(access, pairs := pairs_of(access, found))
    if with_writer and many.any():
        known[many] = _are_known_together(access, _select(pairs, many))
        many &= ~known
    unknown = ~known & ~many
    unordered = found[unknown]
    racing, checked = _racing(access, _select(pairs, unknown), unordered, with_writer=with_writer)
    if access.site.ends:
        racing &= ~went_along(access, _select(pairs, unknown))
    clash = farthest_clash(access, unordered[racing], with_writer=with_writer) if racing.any() else None
    if clash is None or (clash.apart < 2 and not clash.is_benign):
        others = _among_many(access, found[many], with_writer=with_writer) if many.any() else None
        clash = others if clash is None or (others is not None and others.apart > clash.apart) else clash
    if racing.any():
        return clash, unordered
    if clash is None and checked.any():
        clash = replace(
            farthest_clash(access, unordered[checked], with_writer=with_writer), equal_values=False, checked=True
        )
    return clash, found[unknown | many] if clash is None or clash.checked else unordered


def _knows(access: AccessRecord, of: Pairs) -> Bools:
    return access.clocks.knows(of.row, of.knower, of.other_cta, of.other_thread, of.time, also=access.also)


def _is_strong_with_all(access: AccessRecord) -> bool:
    """Is an access morally strong with everything that was written since its threads last met?"""
    seen = _met(access)
    return all(each.time <= seen or _is_surely_strong(access, each) for each in access.places.log.writes.values())


def _met(access: AccessRecord) -> int:
    """The time until which the threads of an access know everyone."""
    return 0 if access.places.is_global else int(bound_of(access.known()).min())


def _select(pairs: Pairs, which: Bools | Ints) -> Pairs:
    return Pairs(*(getattr(pairs, name)[which] for name in Pairs.__slots__))


def _are_known_together(access: AccessRecord, pairs: Pairs) -> Bools:
    """Which earlier writes are known, and of one weak statement that a warp makes together, without another warp's?"""
    known = np.zeros(len(pairs.row), np.bool_)
    for time in np.unique(pairs.time).tolist():
        for record in access.places.log.at(time):
            if record.site.collective and record.site.sem == "weak":
                those = np.flatnonzero((pairs.time == time) & record.is_of(pairs.other_cta))
                one = _select(pairs, those)
                known[those] = _known_of(access, record, one.row, one.knower, one.other_cta, one.other_thread)
    return known


def _racing(access: AccessRecord, pairs: Pairs, found: Candidates, *, with_writer: bool) -> tuple[Bools, Bools]:
    """Which unordered pairs are neither morally strong nor come after what they have observed? And those of them that a
    compare-and-swap finds out.
    """
    racing, checked = np.ones(len(found), np.bool_), np.zeros(len(found), np.bool_)
    if not (access.places.has_strong or access.site.compares):
        return racing, checked
    left = np.arange(len(found))
    while len(left):
        time = pairs.time[left[0]]
        other = access.places.log.find(int(pairs.other_cta[left[0]]), int(time))
        theirs = pairs.other_cta[left]
        same = left == left[0]
        if other is not None:
            same = (pairs.time[left] == time) & (theirs >= other.first) & (theirs < other.first + other.whole)
        those, left = left[same], left[~same]
        if other is not None and finds_out(access.site, other.site):
            racing[those], checked[those] = False, True
            continue
        if other is None or other.site.sem == "weak":
            continue
        racing[those] = ~_are_morally_strong(access, _select(pairs, those), other)
        for k in those[racing[those]].tolist() if with_writer else ():
            lane = (int(found.cta[k]), int(found.warp[k]), int(found.lane[k]))
            look = last_look(access, lane, int(pairs.thread[k]))
            who = (int(pairs.other_cta[k]), int(pairs.other_thread[k]))
            racing[k] = look is None or not look.has_seen(access, other, who)
    return racing, checked


def _are_morally_strong(access: AccessRecord, pairs: Pairs, other: Record) -> Bools:
    a, b, size = access.site, other.site, access.batch.wave.run.cluster_ctas
    if "weak" in (a.sem, b.sem) or a.element != b.element:
        return np.zeros(pairs.cta.shape, np.bool_)
    fits = holds(a.scope, pairs.cta, pairs.other_cta, size) & holds(b.scope, pairs.cta, pairs.other_cta, size)
    strong: Bools = fits & ~_relies_on_lockstep(access, pairs, other) if _may_rely(access, other) else fits
    return strong


def _may_rely(access: AccessRecord, other: Record) -> bool:
    return not access.places.is_global and access.site.sem == other.site.sem == "volatile"


def _relies_on_lockstep(access: AccessRecord, pairs: Pairs, other: Record) -> Bools:
    """Which volatile accesses of shared memory are of two lanes that made the earlier one together?

    The lanes of a warp went on together until sm_70 let each go its own way; ``volatile`` gives them no order.
    """
    together = (pairs.cta == pairs.other_cta) & (pairs.thread >> 5 == pairs.other_thread >> 5)
    both: Bools = together & other.holds(pairs.cta, pairs.thread)
    return both


def _among_many(access: AccessRecord, found: Candidates, *, with_writer: bool) -> Clash | None:
    """Of places that several threads have touched unordered, look at each of their accesses."""
    places = access.places
    at = np.broadcast_to(access.at.full(), access.look.shape)[found.cta, found.warp, found.lane]
    place = at // places.grain + found.unit
    pairs = pairs_of(access, found)
    key = place if places.is_global else place + pairs.cta * SPAN
    order = np.lexsort((pairs.knower, pairs.row, key))
    order = order[_two_of_each(key[order], pairs.row[order], pairs.knower[order])]
    low, high = int(place.min()), int(place.max())
    seen = _met(access)
    farthest: Clash | None = None
    doubt: Clash | None = None
    mine, key = _select(pairs, order), key[order]
    for record in places.log.newest_first():
        if record.time <= seen or (farthest and (farthest.apart > 1 or not _is_of_line(record, farthest))):
            break
        first, last = record.at.lo // places.grain, (record.at.hi + record.site.width) // places.grain
        if record.site.write != with_writer or last < low or first > high or _is_surely_strong(access, record):
            continue
        checked = finds_out(access.site, record.site)
        looks: dict[int, StrongRead | None] = {}
        for k, cta, thread in _unordered_in(access, record, mine, key):
            lane = (int(found.cta[order[k]]), int(found.warp[order[k]]), int(found.lane[order[k]]))
            if with_writer and record.site.sem != "weak" and k not in looks:
                looks[k] = last_look(access, lane, int(mine.thread[k]))
            look = looks.get(k)
            if look is None or not look.has_seen(access, record, (cta, thread)):
                clash = Clash(access, lane, cta, thread, record, with_writer, equal_values=False, checked=checked)
                if checked:
                    doubt = doubt or clash
                elif farthest is None or clash.apart > farthest.apart:
                    farthest = clash
                break
    return farthest or doubt


def _is_of_line(record: Record, clash: Clash) -> bool:
    return clash.other is not None and record.site.at == clash.other.site.at


def _two_of_each(*keys: Ints) -> Bools:
    """The first two of those that are alike, as sorted: a warp's lane at a place, and one that is another thread."""
    kept = np.ones(len(keys[0]), np.bool_)
    kept[2:] = np.any([key[2:] != key[:-2] for key in keys], axis=0)
    return kept


def _is_surely_strong(access: AccessRecord, record: Record) -> bool:
    """Are the two morally strong, whichever threads they are of?"""
    sites, own = (access.site, record.site), not access.places.is_global
    wide = all(site.sem != "weak" and (own or site.scope in WIDE) for site in sites)
    return wide and access.site.element == record.site.element and not _may_rely(access, record)


def _unordered_in(access: AccessRecord, record: Record, mine: Pairs, key: Ints) -> Iterator[tuple[int, int, int]]:
    """The accesses of a record that may race with this one: number among mine, CTA and thread. key: ascending."""
    grain, collective = access.places.grain, access.site.collective or record.site.collective
    ctas, threads, address = record.threads()
    units = (address // grain)[:, None] + np.arange(max(record.site.width // grain, 1))
    if not access.places.is_global:
        units = units + ctas[:, None] * SPAN
    first, last = np.searchsorted(key, units), np.searchsorted(key, units, "right")
    hit = np.nonzero(first < last)
    for which, start, count in _portions(hit[0], first[hit], (last - first)[hit]):
        each = np.repeat(np.arange(len(which)), count)
        k = start[each] + np.arange(len(each)) - (np.cumsum(count) - count)[each]
        theirs, thread, own = ctas[which][each], threads[which][each], mine.cta[k]
        right = (theirs == own) & (thread == mine.thread[k]) & (not collective)
        each_pair = replace(_select(mine, k), other_cta=theirs, other_thread=thread)
        right |= _are_morally_strong(access, each_pair, record)
        right |= _known_of(access, record, mine.row[k], mine.knower[k], theirs, thread)
        right |= went_along(access, each_pair, record)
        bad = np.flatnonzero(~right)
        near = -_apart_in(access, _select(each_pair, bad))
        for told in bad[np.lexsort((mine.knower[k[bad]], mine.row[k[bad]], near))].tolist():
            yield int(k[told]), int(theirs[told]), int(thread[told])


def _portions(*found: Ints) -> Iterator[list[Ints]]:
    """Parts of what was found, of about `AT_ONCE` pairs each. The last of the arrays: how many pairs each is."""
    parts = int(found[-1].sum()) // AT_ONCE + 1
    if len(found[-1]):
        yield from zip(*(np.array_split(each, parts) for each in found), strict=True)


def _known_of(access: AccessRecord, record: Record, rows: Ints, knowers: Ints, ctas: Ints, threads: Ints) -> Bools:
    """Is what these threads did in a record known? What a warp did together, all of its lanes did."""
    time = np.full(len(rows), record.time)
    if not record.site.collective:
        return access.clocks.knows(rows, knowers, ctas, threads, time, also=access.also)
    known = np.ones(len(rows), np.bool_)
    for lane in range(32):
        known &= access.clocks.knows(rows, knowers, ctas, threads & ~31 | lane, time, also=access.also)
    return known


def _apart_in(access: AccessRecord, pairs: Pairs) -> Ints:
    size = access.batch.wave.run.cluster_ctas
    return apart(pairs.cta, pairs.thread, pairs.other_cta, pairs.other_thread, cluster=size)


def farthest_clash(access: AccessRecord, racing: Candidates, *, with_writer: bool) -> Clash:
    """The one of these races that is reported: of threads that are farthest apart."""
    pairs = pairs_of(access, racing)
    k = int(np.argmax(_apart_in(access, pairs)))
    other = access.places.log.find(int(pairs.other_cta[k]), int(pairs.time[k]))
    return Clash(
        access,
        (int(racing.cta[k]), int(racing.warp[k]), int(racing.lane[k])),
        int(pairs.other_cta[k]),
        int(pairs.other_thread[k]),
        other,
        with_writer,
        equal_values=with_writer and access.site.write and access.finds_equal(racing.lanes(access.look.shape)),
    )


def lost_store(access: AccessRecord, lost: Bools, now: Ints) -> Clash | None:
    """Two lanes of one statement have stored to one place; those of one warp may store the same, and strong ones what
    they like within their scope.
    """
    places: TaggedPlaces = access.places
    weak = access.site.sem == "weak"
    if not weak:
        if not places.is_global:
            return None
        lost = lost & ~_is_held(access, now[..., 0] >> CTA & (1 << CTA_BITS) - 1)
        if not lost.any():
            return None
    lane: tuple[int, int, int] = tuple(map(int, np.argwhere(lost)[0]))  # type: ignore[assignment]  # three axes
    tag = int(now[lane][0])
    row = numbers(access.look.ctas)[lane[0]] + access.batch.wave.first
    other_cta = tag >> CTA & (1 << CTA_BITS) - 1 if places.is_global else row
    alike = access.wrote_alike() if weak else ""
    own_warp = numbers(access.look.warps)[lane[1]]
    if alike == EQUAL and (other_cta, (tag & THREAD) >> 5) == (row, own_warp):
        return None
    other = Record(access.time, access.site, access.batch, access.mask, access.at)
    return Clash(access, lane, other_cta, tag & THREAD, other, with_writer=True, equal_values=bool(alike), at_once=True,
                 rounded=alike == ROUNDED)  # fmt: skip


def _is_held(access: AccessRecord, others: Ints) -> Bools:
    """Where is a thread of another CTA within the scope of an access? others: of the grid, (CTAs, warps, 32)."""
    own = access.batch.rows(1) + access.batch.wave.first
    held: Bools = holds(access.site.scope, own, others, access.batch.wave.run.cluster_ctas)
    return held
