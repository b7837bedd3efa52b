"""Places that several threads have touched which do not know each other: there each of their accesses is examined.

A tag names one thread. At such a place it says "many", and the records tell who they were.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.masks import spread
from tilewright.sim.order.races.accesses import CTA, CTA_BITS, EQUAL, MANY, THREAD, UNIT
from tilewright.sim.order.races.clash import CHECKED, Clash, Pairs
from tilewright.sim.order.races.observed import has_observed, last_read
from tilewright.sim.order.races.permitted import are_morally_strong, finds_out, is_surely_strong, went_along

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.order.knowledge.actors import Thread
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.records import Record

__all__ = ["are_known_together", "clash_among_many"]

SPAN = 1 << 32  # places; more than the shared memory of one CTA has
AT_ONCE = 1 << 18  # pairs of accesses


def are_known_together(access: AccessRecord, pairs: Pairs) -> Bools:
    """Which pairs are with a weak write that a warp made together, which the later thread knows?"""
    known = np.zeros(len(pairs), np.bool_)
    for time in np.unique(pairs.time).tolist():
        for record in access.places.log.at(time):
            if record.site.collective and record.site.sem == "weak":
                those = np.flatnonzero((pairs.time == time) & record.is_of(pairs.other_cta))
                known[those] = access.knows_record(record, pairs[those])
    return known


def clash_among_many(access: AccessRecord, pairs: Pairs, *, with_writer: bool) -> Clash | None:
    """The race with one of the accesses that several threads have made there; of threads that are farthest apart."""
    places, found = access.places, pairs.candidates
    at = spread(access.at.full(), access.look.shape)[found.cta, found.warp, found.lane]
    place = (at // places.grain + found.unit)[pairs.number]
    key = place if places.is_global else place + pairs.cta * SPAN
    order = np.lexsort((pairs.knower, pairs.row, key))
    order = order[_two_of_each(key[order], pairs.row[order], pairs.knower[order])]
    low, high = int(place.min()), int(place.max())
    met = access.all_known()
    farthest: Clash | None = None
    doubt: Clash | None = None
    mine, key = pairs[order], key[order]
    equal: Bools | None = None  # where memory holds what is about to be written
    ends = set() if with_writer else _behind(access, pairs, place)
    for record in places.log.newest_first():
        if record in ends:
            ends.remove(record)
            if not ends:
                break
        if record.time <= met or (farthest and (farthest.apart > 1 or not _is_of_line(record, farthest))):
            break
        if record.site.write != with_writer or is_surely_strong(access, record):
            continue
        first, last = (byte // places.grain for byte in record.span)
        if last < low or first > high:
            continue
        if with_writer and access.site.write and record.is_plain:
            equal = access.finds_equal()[found.cta, found.warp, found.lane][mine.number] if equal is None else equal
            clash = _clash_with(access, record, mine[~equal], key[~equal])
            alike = None if clash else _clash_with(access, record, mine[equal], key[equal])
            clash = replace(alike, excuse=EQUAL) if alike else clash
        else:
            clash = _clash_with(access, record, mine, key)
        if clash is not None and clash.excuse:
            doubt = doubt or clash
        elif clash is not None and (farthest is None or clash.apart > farthest.apart):
            farthest = clash
    return farthest or doubt


def _behind(access: AccessRecord, pairs: Pairs, place: Ints) -> set[Record]:
    """The last writes at these places, if all of them are plain ones that the threads come after: what is older than
    these came before them, as nothing else was told.
    """
    places, run = access.places, access.batch.wave.run
    if not places.is_global or run.warnings:
        return set()
    tags = np.asarray(places.writers.view(places.tag.itemsize)[0, place], np.int64)
    if not tags.all() or (tags & (MANY | UNIT)).any():
        return set()
    ctas, threads, times = tags >> CTA & (1 << CTA_BITS) - 1, tags & THREAD, tags >> places.shift
    known = access.clocks.knows(pairs.row, pairs.knower, ctas, threads, times, also=access.also)
    if not (known | (ctas == pairs.cta) & (threads == pairs.thread)).all():
        return set()
    last = {places.log.find(*each) for each in set(zip(ctas.tolist(), times.tolist(), strict=True))}
    found = {record for record in last if record is not None and record.site.sem == "weak"}
    return found if len(found) == len(last) else set()


def _clash_with(access: AccessRecord, record: Record, mine: Pairs, key: Ints) -> Clash | None:
    """The race with a thread of a record, of those that are farthest apart the first that has not observed it."""
    reads: dict[int, Record | None] = {}
    strong = record.site.write and record.site.sem != "weak"
    for k, other in _unordered_in(access, record, mine, key):
        if strong and k not in reads:
            reads[k] = last_read(access, mine.lane(k), mine.later(k))
        if not has_observed(access, reads.get(k), mine.later(k), record, other):
            excuse = CHECKED if finds_out(access.site, record.site) else ""
            return Clash(access, mine.lane(k), other, record, record.site.write, excuse)
    return None


def _is_of_line(record: Record, clash: Clash) -> bool:
    return clash.other is not None and record.site.at == clash.other.site.at


def _two_of_each(*keys: Ints) -> Bools:
    """Which are the first two of equal neighbours? One of them is another thread than any third one."""
    kept = np.ones(len(keys[0]), np.bool_)
    kept[2:] = np.any([key[2:] != key[:-2] for key in keys], axis=0)
    return kept


def _unordered_in(access: AccessRecord, record: Record, mine: Pairs, key: Ints) -> Iterator[tuple[int, Thread]]:
    """Yield numbers of pairs and threads of a record that may race with them, the farthest apart first.

    mine: the pairs of the access, in the order of ``key``, their places.
    """
    grain, collective = access.places.grain, access.site.collective or record.site.collective
    run = access.batch.wave.run
    ctas, threads, address = record.threads()
    units = (address // grain)[:, None] + np.arange(max(record.site.width // grain, 1))
    if not access.places.is_global:
        units = units + ctas[:, None] * SPAN
    first, last = np.searchsorted(key, units), np.searchsorted(key, units, "right")
    hit = np.nonzero(first < last)
    for which, start, count in _portions(hit[0], first[hit], (last - first)[hit]):
        each = np.repeat(np.arange(len(which)), count)
        k = start[each] + np.arange(len(each)) - (np.cumsum(count) - count)[each]
        pairs = replace(mine[k], other_cta=ctas[which][each], other_thread=threads[which][each])
        right = (pairs.other_cta == pairs.cta) & (pairs.other_thread == pairs.thread) & (not collective)
        right |= are_morally_strong(access, pairs, record)
        right |= access.knows_record(record, pairs)
        right |= went_along(access, pairs, record)
        bad = np.flatnonzero(~right)
        for one in bad[np.lexsort((pairs.knower[bad], pairs.row[bad], -pairs[bad].apart(run)))].tolist():
            yield int(k[one]), pairs.earlier(one)


def _portions(*found: Ints) -> Iterator[list[Ints]]:
    """Parts of what was found, of about `AT_ONCE` pairs each. The last of the arrays: how many pairs each is."""
    parts = int(found[-1].sum()) // AT_ONCE + 1
    if len(found[-1]):
        yield from zip(*(np.array_split(each, parts) for each in found), strict=True)
