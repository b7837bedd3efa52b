"""What strong writes publish, and those that atomics have read before they wrote: a chain of releases.

Each link holds what one write has published; whoever observes the last write observes them all. Where many links hold
what threads of one CTA have published with one scope, they become one.

Source: PTX ISA, "Memory Consistency Model: Observation, Release and acquire patterns".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.arrays import Ints
from tilewright.sim.order.bounds import RELEASE_LINKS
from tilewright.sim.order.knowledge.known import Far, Known, joined

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["WIDE", "Pattern", "Release", "holds", "take"]

WIDE = ("gpu", "sys")  # scopes that hold every thread of a grid


def holds(scope: str, cta: Ints | int, other: Ints | int, cluster_ctas: int) -> Bools:
    """Does a scope of a thread of one CTA hold the threads of another? Of numbers, or of arrays of them."""
    reach = {"cta": 1, "cluster": cluster_ctas}.get(scope, 1 << 40)
    return np.asarray(np.floor_divide(cta, reach) == np.floor_divide(other, reach))


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


@dataclass(eq=False, slots=True)
class Release:
    """One link. patterns: what the write has published. by_sc: what comes before it by way of a fence.sc, with the
    reach of that as scope. before: of the write that an atomic has read. root: the same for all links of a chain.
    """

    patterns: list[Pattern]
    by_sc: list[Pattern]
    before: Release | None = None
    root: object = field(default_factory=object)
    links: int = 1
    most: int = RELEASE_LINKS
    has_sc: bool = False
    _far: dict[bool, Far] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.has_sc = bool(self.by_sc) or (self.before is not None and self.before.has_sc)

    def followed_by(self, clocks: Clocks, patterns: list[Pattern], by_sc: list[Pattern]) -> Release:
        """The chain with a link more."""
        if not patterns and not by_sc:
            return self
        if self.links < self.most:
            return Release(patterns, by_sc, self, self.root, self.links + 1, self.most)
        patterns = _merged(clocks, [*self.each(by_sc=False), *patterns])
        by_sc = _merged(clocks, [*self.each(by_sc=True), *by_sc])
        return Release(patterns, by_sc, None, self.root, 1, RELEASE_LINKS + max(len(patterns), len(by_sc)))

    def each(self, *, by_sc: bool) -> Iterator[Pattern]:
        """All patterns, of all links."""
        link: Release | None = self
        while link is not None:
            yield from link.by_sc if by_sc else link.patterns
            link = link.before

    def far(self, clocks: Clocks, *, by_sc: bool) -> Far:
        """What has been published with a scope that holds every thread, as those of other clusters know it."""
        links, link = list[Release](), self
        while by_sc not in link._far and link.before is not None:
            links.append(link)
            link = link.before
        for one in (link, *reversed(links)):
            if by_sc not in one._far:
                found = one.before._far[by_sc] if one.before is not None else {}
                for pattern in one.by_sc if by_sc else one.patterns:
                    if pattern.scope in WIDE:
                        found = joined(found, clocks.near_as_far(pattern.known, 0))
                        found = joined(found, pattern.known.far[0]) if pattern.known.far else found
                one._far[by_sc] = found
        return self._far[by_sc]


def take(
    clocks: Clocks, who: Actors, scope: str, releases: list[Release], *, by_sc: bool = False, of_shared: bool = False
) -> bool:
    """Lanes of one CTA, which have observed these, acquire them with a scope; returns whether nothing is left of them.

    by_sc: a fence.sc takes over what comes after others. of_shared: only as to shared memory.
    """
    size, first = clocks.wave.run.cluster_ctas, clocks.wave.first
    cta, wide, found, is_left = int(who.rows[0]) + first, {*WIDE}, list[Pattern](), False
    for pattern in (each for release in releases for each in release.each(by_sc=by_sc)):
        if {pattern.scope, scope} <= wide or _hold(pattern, scope, cta, size):
            found.append(pattern)
        else:
            is_left = True
    if not found:
        return not is_left
    threads, flags = np.zeros(clocks.width, np.int32), np.zeros(clocks.parts.shape[-1], clocks.parts.dtype)
    far: Far = {}
    for pattern in found:
        known = clocks.about_shared(pattern.known) if of_shared else pattern.known
        if first <= pattern.cta < first + clocks.wave.ctas:  # operations of other waves have numbers of their own
            flags |= clocks.current(known.parts[0], pattern.time)
        if pattern.cta // size == cta // size:
            np.maximum(threads, known.threads[0], out=threads)
            far = joined(far, known.far[0]) if known.far else far
    if not of_shared and any(pattern.cta // size != cta // size for pattern in found):
        for release in releases:
            far = joined(far, release.far(clocks, by_sc=by_sc))
    n = len(who)
    known = Known(
        np.tile(threads, (n, 1)), np.tile(flags, (n, 1)), clocks.cluster_of(who.rows), [far] * n if far else []
    )
    clocks.learn(who, known)
    return not is_left


def _hold(pattern: Pattern, scope: str, cta: int, size: int) -> bool:
    """Do a pattern and a thread of a CTA hold each other?"""
    return bool(holds(pattern.scope, pattern.cta, cta, size) and holds(scope, cta, pattern.cta, size))


def _merged(clocks: Clocks, patterns: list[Pattern]) -> list[Pattern]:
    """What threads of one CTA have released with one scope is acquired together."""
    found: dict[tuple[int, str, bool], Pattern] = {}
    for pattern in patterns:
        key = pattern.cta, pattern.scope, pattern.of_fence
        other = found.get(key)
        if other is not None and other.known is not pattern.known:
            known = Known(
                np.maximum(other.known.threads, pattern.known.threads),
                clocks.current(other.known.parts, other.time) | clocks.current(pattern.known.parts, pattern.time),
                pattern.known.cluster,
                _far_of(other.known, pattern.known),
            )
            pattern = replace(pattern, lanes=other.lanes | pattern.lanes, known=known, time=clocks.now)
        found[key] = pattern
    return list(found.values())


def _far_of(a: Known, b: Known) -> list[Far]:
    """What two rows of knowledge hold of other clusters."""
    if not (a.far and b.far):
        return a.far or b.far
    return [joined(a.far[0], b.far[0])]
