"""What strong writes publish, and those that atomics have read before they wrote: a chain of releases.

Each link holds what one write has published; whoever observes the last write observes them all. Where many links hold
what threads of one CTA have published with one scope, they become one.

Source: PTX ISA, "Memory Consistency Model: Observation, Release and acquire patterns".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
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
    """The release that was made, or that awaits an acquire. lanes: (32,) of the warp; known: a row of knowledge."""

    lanes: Bools
    scope: str
    cta: int
    known: Known


@dataclass(eq=False, slots=True)
class Release:
    """One link. patterns: what the write has published. passed: what comes before it by way of a fence.sc, with the
    reach of that as scope. before: of the write that an atomic has read. root: the same for all links of a chain.
    """

    patterns: list[Pattern]
    passed: list[Pattern]
    before: Release | None = None
    root: object = field(default_factory=object)
    links: int = 1
    most: int = RELEASE_LINKS
    has_passed: bool = False
    _far: dict[bool, Far] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.has_passed = bool(self.passed) or (self.before is not None and self.before.has_passed)

    def followed_by(self, patterns: list[Pattern], passed: list[Pattern]) -> Release:
        """The chain with a link more."""
        if not patterns and not passed:
            return self
        if self.links < self.most:
            return Release(patterns, passed, self, self.root, self.links + 1, self.most)
        patterns = _merged([*self.each(passed=False), *patterns])
        passed = _merged([*self.each(passed=True), *passed])
        return Release(patterns, passed, None, self.root, 1, RELEASE_LINKS + max(len(patterns), len(passed)))

    def each(self, *, passed: bool) -> Iterator[Pattern]:
        """All patterns, of all links."""
        link: Release | None = self
        while link is not None:
            yield from link.passed if passed else link.patterns
            link = link.before

    def far(self, clocks: Clocks, *, passed: bool) -> Far:
        """What has been published with a scope that holds every thread, as those of other clusters know it."""
        links, link = list[Release](), self
        while passed not in link._far and link.before is not None:
            links.append(link)
            link = link.before
        for one in (link, *reversed(links)):
            if passed not in one._far:
                found = one.before._far[passed] if one.before is not None else {}
                for pattern in one.passed if passed else one.patterns:
                    if pattern.scope in WIDE:
                        found = joined(found, clocks.near_as_far(pattern.known, 0))
                        found = joined(found, pattern.known.far[0]) if pattern.known.far else found
                one._far[passed] = found
        return self._far[passed]


def take(
    clocks: Clocks, who: Actors, scope: str, releases: list[Release], *, passed: bool = False, of_shared: bool = False
) -> bool:
    """Lanes of one CTA, which have observed these, acquire them with a scope; returns whether nothing is left of them.

    passed: a fence.sc takes over what comes after others. of_shared: only as to shared memory.
    """
    size, first = clocks.wave.run.cluster_ctas, clocks.wave.first
    cta, wide, found, is_left = int(who.rows[0]) + first, {*WIDE}, list[Pattern](), False
    for pattern in (each for release in releases for each in release.each(passed=passed)):
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
            flags[: known.parts.shape[-1]] |= known.parts[0]
        if pattern.cta // size == cta // size:
            np.maximum(threads, known.threads[0], out=threads)
            far = joined(far, known.far[0]) if known.far else far
    if not of_shared and any(pattern.cta // size != cta // size for pattern in found):
        for release in releases:
            far = joined(far, release.far(clocks, passed=passed))
    n = len(who)
    known = Known(
        np.tile(threads, (n, 1)), np.tile(flags, (n, 1)), clocks.cluster_of(who.rows), [far] * n if far else []
    )
    clocks.learn(who, known)
    return not is_left


def _hold(pattern: Pattern, scope: str, cta: int, size: int) -> bool:
    """Do a pattern and a thread of a CTA hold each other?"""
    return bool(holds(pattern.scope, pattern.cta, cta, size) and holds(scope, cta, pattern.cta, size))


def _merged(patterns: list[Pattern]) -> list[Pattern]:
    """What threads of one CTA have released with one scope is acquired together."""
    found: dict[tuple[int, str], Pattern] = {}
    for pattern in patterns:
        other = found.get((pattern.cta, pattern.scope))
        if other is not None and other.known is not pattern.known:
            known = Known(
                np.maximum(other.known.threads, pattern.known.threads),
                other.known.parts | pattern.known.parts,
                pattern.known.cluster,
                _far_of(other.known, pattern.known),
            )
            pattern = Pattern(other.lanes | pattern.lanes, pattern.scope, pattern.cta, known)
        found[pattern.cta, pattern.scope] = pattern
    return list(found.values())


def _far_of(a: Known, b: Known) -> list[Far]:
    """What two rows of knowledge hold of other clusters."""
    if not (a.far and b.far):
        return a.far or b.far
    return [joined(a.far[0], b.far[0])]
