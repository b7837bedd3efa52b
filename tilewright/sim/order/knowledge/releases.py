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
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.known import Times

__all__ = ["NOTHING", "Pattern", "Release", "hold_each_other", "holds", "take"]


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
    when its flags were right; of_fence: is it a fence that releases?
    """

    lanes: Bools
    scope: str
    cta: int
    known: Known
    time: int
    of_fence: bool = False


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


NOTHING = Published()


@dataclass(frozen=True, eq=False, slots=True)
class Release:
    """What may be acquired at a location. patterns: what writes there have published. by_sc: what comes before them by
    way of a fence.sc, with the reach of that as scope.

    root: the same for all writes that follow one another as atomics; depth: how many of these have published more.
    """

    patterns: Published
    by_sc: Published
    root: object = field(default_factory=object)
    depth: int = 0

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
        if not patterns and not by_sc:
            return self
        return Release(
            self.patterns.followed_by(clocks, patterns),
            self.by_sc.followed_by(clocks, by_sc),
            self.root,
            self.depth + 1,
        )


def take(
    clocks: Clocks, who: Actors, scope: str, releases: list[Release], *, by_sc: bool = False, of_shared: bool = False
) -> bool:
    """Lanes of one CTA, which have observed these, acquire them with a scope; returns whether nothing is left of them.

    by_sc: a fence.sc takes over what comes after others. of_shared: only as to shared memory.
    """
    run, first = clocks.wave.run, clocks.wave.first
    size = run.cluster_ctas
    cta, has_parts = int(who.rows[0]) + first, clocks.parts.shape[-1] > 1
    joins = (
        scope in run.wide and not of_shared and not has_parts
    )  # then what is joined already need not be joined again
    threads, flags = np.zeros(clocks.width, np.int32), np.zeros(clocks.parts.shape[-1], clocks.parts.dtype)
    is_any = is_left = False
    far: Far = {}
    for published in (release.by_sc if by_sc else release.patterns for release in releases):
        keys = published.narrow if joins else published.patterns
        if joins and (near := published.near.get(cta // size)) is not None:
            np.maximum(threads, near, out=threads)
        reaches = joins and bool(published.near)
        for pattern in (published.patterns[key] for key in keys):
            if not hold_each_other(pattern.scope, pattern.cta, scope, cta, run):
                is_left = True
                continue
            is_any = True
            known = clocks.about_shared(pattern.known) if of_shared else pattern.known
            if has_parts and first <= pattern.cta < first + clocks.wave.ctas:  # others' operations have other numbers
                flags |= clocks.current(known.parts[0], pattern.time)
            if pattern.cta // size == cta // size:
                np.maximum(threads, known.threads[0], out=threads)
                far = joined(far, known.far[0]) if known.far else far
            elif scope in run.wide and pattern.scope in run.wide:
                reaches = True
            elif not of_shared:  # of threads of one GPU among several
                far = joined(far, clocks.near_as_far(known, 0))
                far = joined(far, known.far[0]) if known.far else far
        is_any |= reaches
        far = joined(far, published.far) if reaches and not of_shared else far
    if is_any:
        n = len(who)
        each = np.tile(threads, (n, 1)), np.tile(flags, (n, 1)), clocks.cluster_of(who.rows)
        clocks.learn(who, Known(*each, [far] * n if far else []))
    return not is_left


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
    return replace(other, lanes=one.lanes | other.lanes, known=known, time=clocks.now)


def _far_of(a: Known, b: Known) -> list[Far]:
    """What two rows of knowledge hold of other clusters."""
    if not (a.far and b.far):
        return a.far or b.far
    return [joined(a.far[0], b.far[0])]
