"""Races between two accesses of which neither is known to come first.

They race where they overlap, one of them writes, and they are not morally strong. Source: PTX ISA, "Memory Consistency
Model: Race".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.machine.batch import numbers
from tilewright.sim.order.races.accesses import CTA, CTA_BITS, EQUAL, THREAD, AccessRecord
from tilewright.sim.order.races.clash import CHECKED, LOOSE, Clash, Pairs, pairs_of
from tilewright.sim.order.races.many import are_known_together, clash_among_many
from tilewright.sim.order.races.observed import has_observed, last_read
from tilewright.sim.order.races.permitted import are_morally_strong, finds_out, is_surely_strong, reaches, went_along
from tilewright.sim.order.races.records import Candidates, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.sim.machine.arrays import Bools, Ints

__all__ = ["are_plain", "clash_of", "clash_with_reads", "farthest_clash", "lost_store"]

Excused: TypeAlias = "Callable[[AccessRecord, Pairs], Bools]"


def clash_with_reads(access: AccessRecord, found: Candidates) -> Clash | None:
    """The race of a write with earlier reads that is reported; loose, where all of them come first in practice."""
    clash, _ = clash_of(access, found, with_writer=False)
    if clash is not None and access.clocks.loose:
        strict, _ = clash_of(replace(access, also=(*access.also, access.clocks.loose)), found, with_writer=False)
        return strict or replace(clash, excuse=LOOSE)
    return clash


def clash_of(
    access: AccessRecord, found: Candidates, *, with_writer: bool, excused: Excused | None = None
) -> tuple[Clash | None, Pairs]:
    """The race among candidates that is reported, if there is one, and the pairs that may meet without an order.

    The pair of threads that are farthest apart is reported: what orders them orders the others. excused: of pairs,
    which need no report.
    """
    pairs = pairs_of(access, found)
    many, known = pairs.of_many, access.knows(pairs)
    if with_writer and _is_strong_with_all(access):
        return None, pairs[many | ~known]
    if with_writer and many.any():
        known[many] = are_known_together(access, pairs[many])
        many &= ~known
    unknown = ~known & ~many
    unordered = pairs[unknown]
    racing, checked = _racing(access, unordered, with_writer=with_writer)
    if excused is not None:
        racing &= ~excused(access, unordered)
    if access.site.ends:
        racing &= ~went_along(access, unordered)
    clash = farthest_clash(access, unordered[racing], with_writer=with_writer) if racing.any() else None
    if clash is None or (clash.apart < 2 and not clash.is_benign):
        others = clash_among_many(access, pairs[many], with_writer=with_writer) if many.any() else None
        clash = others if clash is None or (others is not None and others.apart > clash.apart) else clash
    if racing.any():
        return clash, unordered
    if clash is None and checked.any():
        clash = replace(farthest_clash(access, unordered[checked], with_writer=with_writer), excuse=CHECKED)
    return clash, pairs[unknown | many] if clash is None or clash.excuse == CHECKED else unordered


def _is_strong_with_all(access: AccessRecord) -> bool:
    """Is an access morally strong with everything that was written since its threads last met?"""
    met = access.all_known()
    return all(each.time <= met or is_surely_strong(access, each) for each in access.places.log.writes.values())


def _racing(access: AccessRecord, pairs: Pairs, *, with_writer: bool) -> tuple[Bools, Bools]:
    """Which unordered pairs race, and which would if a compare-and-swap did not find out what has changed?

    Pairs that are morally strong do not race, nor those whose later thread has observed the write.
    """
    racing, checked = np.ones(len(pairs), np.bool_), np.zeros(len(pairs), np.bool_)
    if not (access.places.has_strong or access.site.compares):
        return racing, checked
    left = np.arange(len(pairs))
    while len(left):
        time = int(pairs.time[left[0]])
        other = access.places.log.find(int(pairs.other_cta[left[0]]), time)
        same = left == left[0]
        if other is not None:
            same = (pairs.time[left] == time) & other.is_of(pairs.other_cta[left])
        those, left = left[same], left[~same]
        if other is not None and finds_out(access.site, other.site):
            racing[those], checked[those] = False, True
            continue
        if other is None or other.site.sem == "weak":
            continue
        racing[those] = ~are_morally_strong(access, pairs[those], other)
        for k in those[racing[those]].tolist() if with_writer else ():
            read = last_read(access, pairs.lane(k), pairs.later(k))
            racing[k] = not has_observed(access, read, pairs.later(k), other, pairs.earlier(k))
    return racing, checked


def farthest_clash(access: AccessRecord, racing: Pairs, *, with_writer: bool) -> Clash:
    """The one of these races that is reported: of threads that are farthest apart."""
    k = int(np.argmax(racing.apart(access.batch.wave.run)))
    other = access.places.log.find(int(racing.other_cta[k]), int(racing.time[k]))
    alike = with_writer and access.site.write and bool(are_plain(access, racing).all())
    alike = alike and bool(access.finds_equal()[racing.lanes(access.look.shape)].all())
    lanes, excuse = racing.lanes(access.look.shape), EQUAL if alike else ""
    return Clash(access, racing.lane(k), racing.earlier(k), other, with_writer, excuse, lanes=lanes)


def are_plain(access: AccessRecord, pairs: Pairs) -> Bools:
    """Which of the earlier accesses are surely plain ones of threads?"""
    each = list(zip(pairs.other_cta.tolist(), pairs.time.tolist(), strict=True))
    others = {one: access.places.log.find(*one) for one in set(each)}
    doubtful = access.places.has_strong  # where the record is forgotten
    odd = {k for k, one in others.items() if (doubtful if one is None else not one.is_plain)}
    return np.array([one not in odd for one in each], np.bool_)


def lost_store(access: AccessRecord, lost: Bools, now: Ints) -> Clash | None:
    """The race of two lanes that have stored to one place in one statement. Lanes of one warp may store the same there,
    and strong stores within each other's scope what they like.
    """
    is_global, weak = access.places.is_global, access.site.sem == "weak"
    if not weak:
        if not is_global:
            return None
        lost = lost & ~reaches(access, now[..., 0] >> CTA & (1 << CTA_BITS) - 1)
        if not lost.any():
            return None
    lane: tuple[int, int, int] = tuple(map(int, np.argwhere(lost)[0]))  # type: ignore[assignment]  # three axes
    tag = int(now[lane][0])
    row = numbers(access.look.ctas)[lane[0]] + access.batch.wave.first
    other = tag >> CTA & (1 << CTA_BITS) - 1 if is_global else row, tag & THREAD
    alike = access.wrote_alike() if weak else ""
    if alike == EQUAL and (other[0], other[1] >> 5) == (row, numbers(access.look.warps)[lane[1]]):
        return None
    record = Record(access.time, access.site, access.batch, access.mask, access.at)
    return Clash(access, lane, other, record, with_writer=True, excuse=alike, at_once=True)
