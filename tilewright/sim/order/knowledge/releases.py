"""What strong writes publish, and with it what those have published that atomics have read before they wrote.

Whoever observes the last write of such a chain observes all of them.

Source: PTX ISA, "Memory Consistency Model: Observation, Release and acquire patterns".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.machine import Bools, Device, Ints
from tilewright.sim.order.knowledge.known import Far, Known, joined

if TYPE_CHECKING:
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.known import Times


Key: TypeAlias = "tuple[int, str, str]"  # CTA, scope and kind
RELEASE, FENCE, SC_FENCE, BY_SC = "release", "fence", "fence.sc", "by sc"  # kinds of patterns
MOST_APART = 256  # writes whose patterns are joined at once


def holds(scope: str, cta: Ints | int, other: Ints | int, run: Device) -> Bools:
    """Does a scope of a thread of one CTA hold the threads of another? Of numbers, or of arrays of them."""
    reach = run.reach.get(scope, run.ctas)
    return np.asarray(cta // reach == other // reach)


def hold_each_other(scope: str, cta: Ints | int, other_scope: str, other: Ints | int, run: Device) -> Bools:
    """Does each scope hold the thread of the other CTA? The narrower one does."""
    reach = min(run.reach.get(scope, run.ctas), run.reach.get(other_scope, run.ctas))
    return np.asarray(cta // reach == other // reach)


@dataclass(eq=False, slots=True)
class Pattern:
    """The release that was made, or that awaits an acquire. lanes: bits, of the warp; known: a row of knowledge; time:
    when its flags were right; kind: of a release, of a fence, or what comes before by way of others' fences, with the
    reach of these as scope. warp: where later ones of the same lanes hold all that earlier ones did. last: what was
    joined last, of several.
    """

    lanes: int
    scope: str
    cta: int
    known: Known
    time: int
    kind: str = RELEASE
    warp: int = -1
    last: Known | None = None

    @property
    def key(self) -> Key:
        """Those with one key are acquired together."""
        return self.cta, self.scope, self.kind


@dataclass(frozen=True, eq=False, slots=True)
class _Whole:
    """All that was published, joined. That with a scope of every thread is joined once more: near, by cluster, as its
    own threads know it; far, as those of other clusters do. narrow: the keys of that with other scopes.
    """

    patterns: dict[Key, Pattern] = field(default_factory=dict)
    near: dict[int, Times] = field(default_factory=dict)
    far: Far = ()
    narrow: tuple[Key, ...] = ()

    def followed_by(self, clocks: Clocks, added: list[Pattern]) -> _Whole:
        """This and more."""
        size, run = clocks.wave.run.cluster_ctas, clocks.wave.run
        patterns, near, far, narrow = dict(self.patterns), dict(self.near), self.far, self.narrow
        latest = {(this.key, this.warp, this.lanes if this.warp >= 0 else id(this)): this for this in added}
        more: dict[int, Times] = {}
        for pattern in latest.values():
            other = patterns.get(pattern.key)
            patterns[pattern.key] = pattern if other is None else _joined_pattern(clocks, other, pattern)
            if pattern.scope in run.wide:
                cluster, times = pattern.cta // size, pattern.known.threads[0]
                more[cluster] = np.maximum(more[cluster], times) if cluster in more else times
                far = joined(far, pattern.known.far[0]) if pattern.known.far else far
            elif other is None:
                narrow = (*narrow, pattern.key)
        for cluster, times in more.items():
            near[cluster] = np.maximum(near[cluster], times) if cluster in near else times
        if more and run.ctas > size:
            blocks = zip(*(clocks.near_as_far(cluster, times) for cluster, times in more.items()), strict=True)
            far = joined(far, tuple(dict(chain(*map(dict.items, block))) for block in blocks))
        return _Whole(patterns, near, far, narrow)


class Release:
    """What may be acquired at a location: what writes there have published; and what comes before them by way of a
    fence.sc, with the reach of that as scope. Each is joined by CTA, scope and kind once it is asked for, as many write
    what few read. Never changed.

    root: the same for all writes that follow one another as atomics. has_sc: does anything come by way of a fence.sc?
    has_more: anything that the patterns do not tell?
    """

    __slots__ = ("_added", "_base", "_depth", "_last", "_wholes", "has_more", "has_sc", "root")

    def __init__(self, wholes: dict[bool, _Whole], base: Release | None = None) -> None:
        self._wholes = wholes  # those that were asked for; of fences of kind sc?
        self._base = base  # to which this adds
        self._added: list[Pattern] = []
        self._depth = 0
        self._last: dict[Key, Known] | None = None  # by key, what was published last; its follower takes it over
        self.root: object = self
        self.has_sc = self.has_more = base is None and bool(wholes[True].patterns)

    @classmethod
    def of(cls, clocks: Clocks, patterns: list[Pattern]) -> Release:
        """What one write publishes."""
        return cls({False: NOTHING, True: NOTHING}).followed_by(clocks, patterns)

    def whole(self, clocks: Clocks, *, by_sc: bool = False) -> _Whole:
        """All that was published; or what comes before by way of fences of kind sc."""
        if by_sc not in self._wholes:
            base, added = self, []
            while by_sc not in base._wholes:
                assert base._base is not None
                added.append(base._added)
                base = base._base
            every = [pattern for several in reversed(added) for pattern in several]
            if by_sc:
                every = [clocks.by_sc.told_by(pattern) for pattern in every if pattern.kind in (SC_FENCE, BY_SC)]
            else:
                every = [pattern for pattern in every if pattern.kind != BY_SC]
            self._wholes[by_sc] = base._wholes[by_sc].followed_by(clocks, every)
        return self._wholes[by_sc]

    def behind_fences(self, clocks: Clocks) -> Release:
        """The part that comes by way of fences of kind sc."""
        return Release({False: NOTHING, True: self.whole(clocks, by_sc=True)})

    def followed_by(self, clocks: Clocks, patterns: list[Pattern]) -> Release:
        """This, and what another write has published: an atomic that found it. What threads of one CTA have released
        with one scope is acquired together.
        """
        if (last := self._last) is None:
            every = (self.whole(clocks, by_sc=by_sc).patterns.items() for by_sc in (True, False))
            last = {key: pattern.last or pattern.known for some in every for key, pattern in some}
        patterns = [pattern for pattern in patterns if last.get(pattern.key) is not pattern.known]
        if not patterns:
            self._last = last
            return self
        after = Release({}, self)
        after.root, after._added, after._depth = self.root, patterns, self._depth + 1
        after.has_sc, after.has_more = self.has_sc, self.has_more
        self._last, after._last = None, last
        for pattern in patterns:
            last[pattern.key] = pattern.known
            after.has_more |= pattern.kind == BY_SC
            after.has_sc |= pattern.kind in (SC_FENCE, BY_SC)
        if after._depth > MOST_APART:  # made now, so that no chain grows
            after._wholes = {by_sc: after.whole(clocks, by_sc=by_sc) for by_sc in (True, False)}
            after._base, after._added, after._depth = None, [], 0
        return after


NOTHING = _Whole()


def gathered(
    clocks: Clocks, published: _Whole, ctas: list[int], scope: str, *, of_shared: bool = False, only: str = ""
) -> tuple[Known, list[bool], list[bool]]:
    """What threads of CTAs get of this with a scope, a row for each of them; of each, whether that is anything, and
    whether anything is left. only: the scope of what they get.
    """
    run, count = clocks.wave.run, len(ctas)
    size = run.cluster_ctas
    joins = scope in run.wide and not of_shared and clocks.parts.shape[-1] == 1  # then it is joined already
    known = Known.nothing(clocks, ctas)
    known.far = [()] * count
    reaches, is_left = [joins and bool(published.near)] * count, [False] * count
    for k, cta in enumerate(ctas) if joins else ():
        if (near := published.near.get(cta // size)) is not None:
            known.threads[k] = near
    is_any = [*reaches]
    for key in published.narrow if joins else published.patterns:
        pattern = published.patterns[key]
        if only and pattern.scope != only:
            continue
        for k, cta in enumerate(ctas):
            if not hold_each_other(pattern.scope, pattern.cta, scope, cta, run):
                is_left[k] = True
                continue
            is_any[k] = True
            reaches[k] |= _take_over(clocks, known, k, pattern, is_wide=scope in run.wide, of_shared=of_shared)
    if published.far and not of_shared:
        known.far = [joined(far, published.far) if goes else far for far, goes in zip(known.far, reaches, strict=True)]
    if not any(known.far):
        known.far = []
    return known, is_any, is_left


def _take_over(clocks: Clocks, known: Known, k: int, pattern: Pattern, *, is_wide: bool, of_shared: bool) -> bool:
    """Add to a row of knowledge what a pattern tells; True where it tells of all other clusters."""
    wave, size = clocks.wave, clocks.wave.run.cluster_ctas
    more = clocks.about_shared(pattern.known) if of_shared else pattern.known
    if known.parts.shape[-1] > 1 and wave.first <= pattern.cta < wave.first + wave.ctas:  # others' have other numbers
        known.parts[k] |= clocks.current(more.parts[0], pattern.time)
    if pattern.cta // size == int(known.cluster[k]):
        np.maximum(known.threads[k], more.threads[0], out=known.threads[k])
        known.far[k] = joined(known.far[k], more.far[0]) if more.far else known.far[k]
        return False
    if is_wide and pattern.scope in wave.run.wide:
        return True
    if not of_shared:  # of threads of one GPU among several
        far = joined(known.far[k], clocks.near_as_far(pattern.cta // size, more.threads[0]))
        known.far[k] = joined(far, more.far[0]) if more.far else far
    return False


def _joined_pattern(clocks: Clocks, one: Pattern, other: Pattern) -> Pattern:
    """What two patterns of one CTA and scope tell together."""
    if one.known is other.known:
        return other
    if one.warp == other.warp >= 0 and one.time <= other.time and one.lanes == other.lanes:
        return other
    parts = clocks.current(one.known.parts, one.time) | clocks.current(other.known.parts, other.time)
    threads, lanes = np.maximum(one.known.threads, other.known.threads), one.lanes | other.lanes
    far = [*map(joined, one.known.far, other.known.far)] or one.known.far or other.known.far
    known = Known(threads, parts, other.known.cluster, far)
    return Pattern(lanes, other.scope, other.cta, known, clocks.wave.now, other.kind, last=other.known)
