"""Accesses of operations as accesses of their issuers: when they are issued, and once they are waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.batch import numbers
from tilewright.sim.machine.masks import Mask
from tilewright.sim.machine.memory import WIDEST
from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.machine.sites import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.pending import Waiting
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.order.asynchronous.operations import Operations
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.detector import RaceDetector
    from tilewright.sim.order.races.places import TaggedPlaces

__all__ = ["awaited", "places_of"]


def places_of(
    races: RaceDetector, operation: Operation, one: Touched, which: Bools | None = None
) -> Iterator[AccessRecord]:
    """The accesses of an operation as if its actors, or some of them, made them now."""
    if one.space == "tmem" or not one.count:
        return
    batch, clocks = operation.batch, races.orders[operation.batch.wave].clocks
    chosen = np.ones(len(operation.issuers.actors[0]), np.bool_) if which is None else which
    for place, places, part in _memories(races, batch, one):
        pitch = places.pitch if one.space == "shared" and places.is_global else 0
        if which is None and not pitch and places.is_untouched(part.reach, place.name, write=one.writes):
            continue
        for mask, address, nbytes in _accesses(operation, part, chosen, places, pitch):
            together = operation.issuers.lanes > 1
            site = Site(operation.instruction.at, operation.name, place, nbytes, one.writes, collective=together)
            site.by_unit = one.proxy == "async"
            if one.combines:  # in any order with operations that combine, too
                site.sem, site.scope, site.element = "relaxed", "gpu", one.width
            yield places.access(clocks, site, batch, mask, address)


def _memories(races: RaceDetector, batch: Batch, one: Touched) -> Iterator[tuple[Place, TaggedPlaces, Touched]]:
    """The buffers that an operation touches, and its places in each."""
    if one.space == "shared":
        shared = races.program.places
        low, high = one.reach
        place = shared.shared_at(low)
        yield place if high <= place.start + place.nbytes else shared.arena, races.orders[batch.wave].shared, one
        return
    for window, there in one.windows():
        if races.is_written(window):
            place = races.program.places.at(window, 0)
            nbytes = np.where(there, one.width if one.nbytes is None else one.nbytes, 0)
            at = one.at & (1 << WINDOW_BITS) - 1
            yield place, races.buffer(place, batch), replace(one, places=at, nbytes=None if there.all() else nbytes)


def awaited(races: RaceDetector, operations: Operations, waiting: Waiting) -> None:
    """An operation that a thread has waited for counts as its own access from now on, and the warp remembers it."""
    reads = waiting.effect.reads
    alone = [each for each in operations.awaited(waiting) if each[0].issuers.lanes == 1]
    for operation, own, over in alone:
        operations.scoreboard.retire(operation, own, over, reads=reads)
        read_now = over & ~operations.have_read.get(operation.number, np.zeros_like(over))
        for one in operation.reads if reads else operation.touched:
            _did(races, operation, one, read_now if reads or not one.writes else over, waiting.at)
        if reads:
            operations.noted_read(operation, over)
        if not reads and operation.is_remote:
            races.orders[operation.batch.wave].remote.awaited(operation, over)
    if not reads:
        operations.retired((own, over) for _, own, over in alone)


def _did(races: RaceDetector, operation: Operation, one: Touched, over: Bools, at: Span | None) -> None:
    stores = races.orders[operation.batch.wave].stores
    for access in places_of(races, operation, one, over):
        access.site.over = at
        access.places.remember(access, reads=not one.writes)
        if one.writes:
            access.places.write(access)
        if one.writes and one.space == "shared" and stores is not None and one.proxy == "generic":
            stores.accessed(access.site, access.batch, access.mask, access.at)


def _accesses(
    operation: Operation, one: Touched, which: Bools, places: TaggedPlaces, pitch: int
) -> Iterator[tuple[Mask, Address, int]]:
    """The places of an operation as accesses of its issuers: lanes, addresses, and bytes of each.

    which: of the actors. A warp that acts as one does so by its first lane. pitch: from the shared memory of one CTA of
    a wave to that of the next.
    """
    number, rows, threads = operation.issuers.actors
    batch, nth = operation.batch, np.zeros(len(one.issuer), np.int64)
    order = np.argsort(one.issuer, kind="stable")
    first = np.searchsorted(one.issuer[order], one.issuer[order], "left")
    nth[order] = np.arange(len(order)) - first
    where = (
        np.searchsorted(numbers(batch.ctas), rows),
        np.searchsorted(numbers(batch.warps), threads // 32),
        threads % 32,
    )
    for turn in range(int(nth.max(initial=-1)) + 1):
        chosen = np.full(len(operation.issuers.rows), -1)
        chosen[one.issuer[nth == turn]] = np.flatnonzero(nth == turn)
        actors = np.flatnonzero(which & (chosen[number] >= 0))
        if not len(actors):
            continue
        counts = one.touches[chosen[number[actors]]].reshape(len(actors), -1)
        alike = _alike(counts)
        for kind in range(int(alike.max()) + 1):
            those = actors[alike == kind]
            flat = (one.at + one.rows * pitch)[chosen[number[those]]].reshape(len(those), -1)
            most = WIDEST * places.grain // places.tag.itemsize
            flat, width = in_runs(flat[:, counts[alike == kind][0]], one.width, most)
            if width < places.grain:
                places.refine(width)
            for column in range(flat.shape[1])[
                ::-1
            ]:  # the last first: often one of another warp, so that the report names the wider barrier
                active, full = np.zeros(batch.shape, np.bool_), np.zeros(batch.shape, np.int64)
                there = tuple(axis[those] for axis in where)
                active[there] = True
                full[there] = flat[:, column]
                yield Mask(batch.shape, None if active.all() else active), Address(0, Part(full)), width


def _alike(flags: Bools) -> Ints:
    """A number for each row of flags, the same for equal rows; mostly all are."""
    if (flags == flags[:1]).all():
        return np.zeros(len(flags), np.int64)
    packed = np.packbits(flags, axis=1)
    words = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
    return np.asarray(np.unique(words, axis=0 if words.shape[1] > 1 else None, return_inverse=True)[1].reshape(-1))


def in_runs(address: Ints, nbytes: int, most: int) -> tuple[Ints, int]:
    """Reads of ``nbytes`` at (threads, n) addresses, as fewer and wider ones where they are neighbours."""
    address = np.sort(address, axis=1)
    while 2 * nbytes <= most and address.shape[1] and address.shape[1] % 2 == 0:
        first, then = address[:, ::2], address[:, 1::2]
        if (first % (2 * nbytes)).any() or (then != first + nbytes).any():
            break
        address, nbytes = first, 2 * nbytes
    return address, nbytes
