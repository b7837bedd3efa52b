"""A race: the later access, and what is known of the earlier one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.batch import numbers
from tilewright.sim.order.races.accesses import CTA, CTA_BITS, THREAD, AccessRecord
from tilewright.sim.order.races.records import Candidates, Record

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.sites import Site


__all__ = ["Clash", "Pairs", "apart", "pairs_of"]


@dataclass(frozen=True, eq=False, slots=True)
class Clash:
    """A race. lane: (CTA, warp, lane) in the batch of the access. other_cta, other_thread: of the grid, of its CTA.

    other: the earlier access, where it is remembered; with_writer: has that written? equal_values: the same, both, or
    where they are ``rounded`` nearly so?
    at_once: are both of one execution of a statement? loose: does the earlier one, a read, always come first in
    practice? checked: is one a plain read, the other a compare-and-swap, which finds out what changed in between?
    relaxed: are both volatile, and is an order relied on that they have not got? numbered: is the earlier one, a write,
    of a thread that has passed a fence and taken a number before the reader's CTA took its own?
    """

    access: AccessRecord
    lane: tuple[int, int, int]
    other_cta: int
    other_thread: int
    other: Record | None
    with_writer: bool
    equal_values: bool
    at_once: bool = False
    loose: bool = False
    rounded: bool = False
    checked: bool = False
    relaxed: bool = False
    numbered: bool = False

    @property
    def is_benign(self) -> bool:
        """Is a warning enough?"""
        return self.equal_values or self.loose or self.checked or self.numbered or self.ends

    @property
    def ends(self) -> bool:
        """Does it end an m-barrier that others have arrived at? An elected thread does so in libcu++'s pipelines."""
        return self.site.ends and self.other is not None and self.other.site.is_signal

    @property
    def site(self) -> Site:
        """The place of the kernel that makes the later access."""
        return self.access.site

    @property
    def batch(self) -> Batch:
        """The batch that makes the later access."""
        return self.access.batch

    @property
    def cta(self) -> int:
        """The CTA that makes the later access, counted in the grid."""
        return self.batch.wave.first + numbers(self.batch.ctas)[self.lane[0]]

    @property
    def thread(self) -> int:
        """The thread that makes the later access, counted in its CTA."""
        return numbers(self.batch.warps)[self.lane[1]] * 32 + self.lane[2]

    @property
    def apart(self) -> int:
        """How far the two threads are apart, see `_apart`."""
        one, other = (np.array([[self.cta], [self.thread]]), np.array([[self.other_cta], [self.other_thread]]))
        return int(apart(*one, *other, cluster=self.batch.wave.run.cluster_ctas)[0])

    def is_inside_warp(self) -> bool:
        """Are both accesses of one warp?"""
        return self.apart == 0


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Candidates in the words of the clocks, n of them. row, thread, knower, cta: of the later access; the rest of the
    earlier one.
    """

    row: Ints
    thread: Ints
    knower: Ints
    cta: Ints
    time: Ints
    other_thread: Ints
    other_cta: Ints


def apart(cta: Ints, thread: Ints, other_cta: Ints, other_thread: Ints, *, cluster: int) -> Ints:
    """How far threads are apart: 0 of one warp, 1 of one CTA, 2 of one cluster, 3 beyond."""
    warps = np.where(thread >> 5 != other_thread >> 5, 1, 0)
    return np.where(cta // cluster != other_cta // cluster, 3, np.where(cta != other_cta, 2, warps))


def pairs_of(access: AccessRecord, found: Candidates) -> Pairs:
    """The candidates in the words of the clocks."""
    places, clocks = access.places, access.clocks
    row = np.array(numbers(access.look.ctas))[found.cta]
    warp = np.array(numbers(access.look.warps))[found.warp]
    thread = warp * 32 + found.lane
    cta = row + access.batch.wave.first
    other = found.tags >> CTA & (1 << CTA_BITS) - 1 if places.is_global else cta
    knower = warp if access.site.collective else clocks.knower[thread]
    return Pairs(row, thread, knower, cta, found.tags >> places.shift, found.tags & THREAD, other)
