"""What strong writes publish, and with it what those have published that atomics have read before they wrote.

Whoever observes the last write of such a chain observes all of them.

Source: PTX ISA, "Memory Consistency Model: Observation, Release and acquire patterns".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.arrays import Ints
from tilewright.sim.order.knowledge.known import Far, Known, joined

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.machine.device import Device
    from tilewright.sim.order.knowledge.clocks import Actors, Clocks
    from tilewright.sim.order.knowledge.known import Times


def holds(scope: str, cta: Ints | int, other: Ints | int, run: Device) -> Bools:
    """Does a scope of a thread of one CTA hold the threads of another? Of numbers, or of arrays of them."""
    reach = run.reach.get(scope, run.ctas)
    return np.asarray(np.floor_divide(cta, reach) == np.floor_divide(other, reach))


def hold_each_other(scope: str, cta: Ints | int, other_scope: str, other: Ints | int, run: Device) -> Bools:
    """Does each scope hold the thread of the other CTA?"""
    return holds(scope, cta, other, run) & holds(other_scope, other, cta, run)


@dataclass(eq=False, slots=True)
class Pattern:
    """The release that was made, or that awaits an acquire. lanes: (32,) of the warp; known: a row of knowledge; time:
    when its flags were right; of_fence: is it a fence that releases? last: what was joined last, of several.
    """

    lanes: Bools
    scope: str
    cta: int
    known: Known
    time: int
    of_fence: bool = False
    last: Known | None = None


class Published:
    """What writes have published, joined by CTA, scope and kind of release. That with a scope of every thread is joined
    once more: near, by cluster, as its own threads know it; far, as those of other clusters do. Never changed.
    """

    __slots__ = ("far", "narrow", "near", "patterns")

    def __init__(self) -> None:
        self.patterns: dict[tuple[int, str, bool], Pattern] = {}
        self.narrow: tuple[tuple[int, str, bool], ...] = ()  # the keys of those that do not hold every thread
        self.near: dict[int, Times] = {}
        self.far: Far = {}

    def followed_by(self, clocks: Clocks, patterns: list[Pattern]) -> Published:
        """This and more. What threads of one CTA have released with one scope is acquired together."""
        patterns = [pattern for pattern in patterns if not self._holds(pattern)]
        if not patterns:
            return self
        found = Published()
        found.patterns, found.near, found.far = dict(self.patterns), dict(self.near), self.far
        size, run = clocks.wave.run.cluster_ctas, clocks.wave.run
        for pattern in patterns:
            key, known = (pattern.cta, pattern.scope, pattern.of_fence), pattern.known
            other = found.patterns.get(key)
            found.patterns[key] = pattern if other is None else _joined_pattern(clocks, other, pattern)
            if pattern.scope not in run.wide:
                continue
            near, times = found.near.get(pattern.cta // size), known.threads[0]
            found.near[pattern.cta // size] = times if near is None else np.maximum(near, times)
            if run.ctas > size:
                found.far = joined(found.far, clocks.near_as_far(known, 0))
                found.far = joined(found.far, known.far[0]) if known.far else found.far
        found.narrow = tuple(key for key in found.patterns if key[1] not in run.wide)
        return found

    def _holds(self, pattern: Pattern) -> bool:
        """Is it that which was published last by threads of its CTA?"""
        found = self.patterns.get((pattern.cta, pattern.scope, pattern.of_fence))
        return found is not None and pattern.known in (found.known, found.last)


NOTHING = Published()


@dataclass(frozen=True, eq=False, slots=True)
class Release:
    """What may be acquired at a location. patterns: what writes there have published. by_sc: what comes before them by
    way of a fence.sc, with the reach of that as scope.

    root: the same for all writes that follow one another as atomics.
    """

    patterns: Published
    by_sc: Published
    root: object = field(default_factory=object)

    @classmethod
    def of(cls, clocks: Clocks, patterns: list[Pattern], by_sc: list[Pattern]) -> Release:
        """What one write publishes."""
        return cls(NOTHING.followed_by(clocks, patterns), NOTHING.followed_by(clocks, by_sc))

    @property
    def has_sc(self) -> bool:
        """Does anything come before it by way of a fence.sc?"""
        return bool(self.by_sc.patterns)

    def followed_by(self, clocks: Clocks, patterns: list[Pattern], by_sc: list[Pattern]) -> Release:
        """This, and what an atomic has published that found it."""
        both = self.patterns.followed_by(clocks, patterns), self.by_sc.followed_by(clocks, by_sc)
        return self if both == (self.patterns, self.by_sc) else Release(*both, self.root)


def take(clocks: Clocks, who: Actors, scope: str, release: Release, *, of_shared: bool = False) -> bool:
    """Lanes of one CTA, which have observed it, acquire it with a scope; returns whether nothing is left of it.

    of_shared: only as to shared memory.
    """
    cta = int(who.rows[0]) + clocks.wave.first
    known, is_left = gathered(clocks, release.patterns, cta, scope, of_shared=of_shared)
    if known is not None:
        clocks.learn(who, known)
    return not is_left


def gathered(
    clocks: Clocks, published: Published, cta: int, scope: str, *, of_shared: bool = False, only: str = ""
) -> tuple[Known | None, bool]:
    """What threads of a CTA get of this with a scope, a row for all of them, None for nothing; and whether anything is
    left of it. only: the scope of what they get.
    """
    run, first = clocks.wave.run, clocks.wave.first
    size = run.cluster_ctas
    has_parts = clocks.parts.shape[-1] > 1
    joins = scope in run.wide and not of_shared and not has_parts  # then it is joined already
    threads, flags = np.zeros((1, clocks.width), np.int32), np.zeros((1, clocks.parts.shape[-1]), clocks.parts.dtype)
    is_left, reaches = False, joins and bool(published.near)
    is_any = reaches
    far: Far = {}
    if joins and (near := published.near.get(cta // size)) is not None:
        np.maximum(threads[0], near, out=threads[0])
    for key in published.narrow if joins else published.patterns:
        pattern = published.patterns[key]
        if only and pattern.scope != only:
            continue
        if not hold_each_other(pattern.scope, pattern.cta, scope, cta, run):
            is_left = True
            continue
        is_any = True
        known = clocks.about_shared(pattern.known) if of_shared else pattern.known
        if has_parts and first <= pattern.cta < first + clocks.wave.ctas:  # others' operations have other numbers
            flags[0] |= clocks.current(known.parts[0], pattern.time)
        if pattern.cta // size == cta // size:
            np.maximum(threads[0], known.threads[0], out=threads[0])
            far = joined(far, known.far[0]) if known.far else far
        elif scope in run.wide and pattern.scope in run.wide:
            reaches = True
        elif not of_shared:  # of threads of one GPU among several
            far = joined(far, clocks.near_as_far(known, 0))
            far = joined(far, known.far[0]) if known.far else far
    far = joined(far, published.far) if reaches and not of_shared else far
    own = np.array([cta // size])
    return (Known(threads, flags, own, [far] if far else []) if is_any else None), is_left


def _joined_pattern(clocks: Clocks, one: Pattern, other: Pattern) -> Pattern:
    """What two patterns of one CTA and scope tell together."""
    if one.known is other.known:
        return other
    known = Known(
        np.maximum(one.known.threads, other.known.threads),
        clocks.current(one.known.parts, one.time) | clocks.current(other.known.parts, other.time),
        other.known.cluster,
        _far_of(one.known, other.known),
    )
    return replace(other, lanes=one.lanes | other.lanes, known=known, time=clocks.now, last=other.known)


def _far_of(a: Known, b: Known) -> list[Far]:
    """What two rows of knowledge hold of other clusters."""
    if not (a.far and b.far):
        return a.far or b.far
    return [joined(a.far[0], b.far[0])]
