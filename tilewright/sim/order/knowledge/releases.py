"""What strong writes publish, and with it what those have published that atomics have read before they wrote.

Whoever observes the last write of such a chain observes all of them.

Source: PTX ISA, "Memory Consistency Model: Observation, Release and acquire patterns".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.machine import Bools, Device, Ints
from tilewright.sim.order.knowledge.known import Far, Known, joined, later

if TYPE_CHECKING:
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.known import Times


Key: TypeAlias = "tuple[int, str, bool]"  # CTA, scope, and is it a fence's?
MOST_APART = 64  # writes whose patterns are joined at once


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
    when its flags were right; of_fence: is it a fence that releases? warp: where later ones of the same lanes hold all
    that earlier ones did. last: what was joined last, of several.
    """

    lanes: int
    scope: str
    cta: int
    known: Known
    time: int
    of_fence: bool = False
    warp: int = -1
    last: Known | None = None

    @property
    def key(self) -> Key:
        """Those with one key are acquired together."""
        return self.cta, self.scope, self.of_fence


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
        patterns, near, far = dict(self.patterns), dict(self.near), self.far
        for pattern in added:
            other = patterns.get(pattern.key)
            patterns[pattern.key] = pattern if other is None else _joined_pattern(clocks, other, pattern)
        wide = [pattern for pattern in added if pattern.scope in run.wide]
        for pattern in wide:
            before, times = near.get(pattern.cta // size), pattern.known.threads[0]
            near[pattern.cta // size] = times if before is None else np.maximum(before, times)
        if run.ctas > size:
            own: Far = tuple({} for _ in clocks.goes_far)
            for pattern in wide:
                for mine, more in zip(own, clocks.near_as_far(pattern.known, 0), strict=True):
                    for cta, times in more.items():
                        mine[cta] = later(times, mine[cta]) if cta in mine else times
            others = {id(pattern.known.far[0]): pattern.known.far[0] for pattern in wide if pattern.known.far}
            for part in (*others.values(), own):
                far = joined(far, part)
        new = dict.fromkeys(pattern.key for pattern in added if pattern.scope not in run.wide)
        return _Whole(patterns, near, far, (*self.narrow, *(key for key in new if key not in self.patterns)))


class Published:
    """What writes have published, joined by CTA, scope and kind of release: once it is asked for, as many write what
    few read. Never changed.
    """

    __slots__ = ("_added", "_base", "_depth", "_last", "_whole")

    def __init__(self, whole: _Whole | None = None) -> None:
        self._whole = whole
        self._base: tuple[Published, Clocks] | None = None  # to which this adds
        self._added: list[Pattern] = []
        self._depth = 0
        self._last: dict[Key, Known] | None = None  # by key, what was published last; its follower takes it over

    def __bool__(self) -> bool:
        return self._base is not None or bool(self.whole.patterns)

    @property
    def whole(self) -> _Whole:
        """All of it."""
        if self._whole is None:
            assert self._base is not None
            (base, clocks), added = self._base, [self._added]
            while base._whole is None:
                assert base._base is not None
                added.append(base._added)
                base, _ = base._base
            patterns = [pattern for several in reversed(added) for pattern in several]
            self._whole = base._whole.followed_by(clocks, patterns)
            self._base, self._added = None, []
        return self._whole

    def followed_by(self, clocks: Clocks, patterns: list[Pattern]) -> Published:
        """This and more. What threads of one CTA have released with one scope is acquired together."""
        if not patterns:
            return self
        last = self._last
        if last is None:
            last = {key: one.last or one.known for key, one in self.whole.patterns.items()}
        patterns = [pattern for pattern in patterns if last.get(pattern.key) is not pattern.known]
        if not patterns:
            self._last = last
            return self
        found = Published()
        found._base, found._added = (self, clocks), patterns
        found._depth = self._depth + 1 if self._whole is None else 1
        self._last, found._last = None, last
        last |= {pattern.key: pattern.known for pattern in patterns}
        if found._depth > MOST_APART:
            found.whole  # noqa: B018  # made now, so that no chain grows
        return found


NOTHING = Published(_Whole())


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

    def followed_by(self, clocks: Clocks, patterns: list[Pattern], by_sc: list[Pattern]) -> Release:
        """This, and what an atomic has published that found it."""
        both = self.patterns.followed_by(clocks, patterns), self.by_sc.followed_by(clocks, by_sc)
        return self if both == (self.patterns, self.by_sc) else Release(*both, self.root)


def gathered(
    clocks: Clocks, given: Published, ctas: list[int], scope: str, *, of_shared: bool = False, only: str = ""
) -> tuple[Known, list[bool], list[bool]]:
    """What threads of CTAs get of this with a scope, a row for each of them; of each, whether that is anything, and
    whether anything is left. only: the scope of what they get.
    """
    run, published, count = clocks.wave.run, given.whole, len(ctas)
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
        far = joined(known.far[k], clocks.near_as_far(more, 0))
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
    known = Known(threads, parts, other.known.cluster, _far_of(one.known, other.known))
    return replace(other, lanes=lanes, known=known, time=clocks.wave.now, warp=-1, last=other.known)


def _far_of(a: Known, b: Known) -> list[Far]:
    """What two rows of knowledge hold of other clusters."""
    if not (a.far and b.far):
        return a.far or b.far
    return [joined(a.far[0], b.far[0])]
