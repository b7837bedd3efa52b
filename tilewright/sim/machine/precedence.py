"""What a run may choose: which threads go first where several may, and how often a wait answers no; and how often each
thread came to a barrier.

The result of a correct kernel does not depend on it. Each choice has a name, by which it is made again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from tilewright.errors import ArgumentError
from tilewright.sim.machine.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tilewright.errors import Span
    from tilewright.sim.machine import BarrierSite, Batch, Bools, CompiledInstruction, Ints, Team, Wave

__all__ = ["NEVER", "Precedence"]

# Waits that answer no though the phase is over, as time allows: a thread may ask before the others have come.
#
# Source: PTX ISA, "mbarrier.test_wait, mbarrier.try_wait": the answer is no where the phase is not over yet, after a
# time that the system decides.


class Refusals:
    """The answers of a wave's waits. asked: by statement, what each thread has asked last, a number of its operands,
    and how often, both (CTAs, warps, 32). count: of the answers that would have been yes: a poll that gets one sees
    something else the next time.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self.asked: dict[int, tuple[Array, Array]] = {}
        self.count = 0

    def answer(self, statement: CompiledInstruction, team: Team, operands: Sequence[Array], answer: Array) -> Array:
        """The answer of a wait: no for the first times that a thread asks for one phase of one m-barrier."""
        compiled = team.wave.run.program.kernel.compiled  # else the scheduler asks, again and again
        asks = compiled or any(site.asks for _, site in statement.accesses)
        if not asks or statement.bound.form.signal_of("wait") is None:
            return answer
        nothing = np.full(self.shape, -1, np.int64), np.zeros(self.shape, np.int64)
        last, times = (table[team.ctas, team.warps] for table in self.asked.setdefault(id(statement), nothing))
        what = np.zeros(team.shape, np.int64)
        for operand in operands[:2]:  # the m-barrier and the phase
            what = what * 31 + np.asarray(operand, np.int64)
        what &= (1 << 62) - 1
        again = team.full & (what == last)
        np.copyto(times, np.where(again, times + 1, 1), where=team.full)
        np.copyto(last, what, where=team.full)
        refused = team.full & (times <= team.wave.run.precedence.refuses)
        for axis in range(3):  # as many answers as there are, the same for all that share one
            if np.shape(answer)[axis] == 1:
                refused = np.asarray(refused.any(axis, keepdims=True))
        self.count += int((answer & refused).any())
        return np.asarray(answer & ~refused)


# How often threads came to a barrier, or to a branch around one, and how often they went on behind it.
#
# Who returns early is not waited for. Who skips a barrier and goes on may be counted at another one, or let it complete
# by ending: that is told. `tilewright.sim.codegen.loops.skips` finds the branches, and the
# numbers that they and the barriers have here.


class Skipping:
    """The counts of a wave's threads, (CTAs, warps, 32).

    came: to a branch or a barrier. behind: which of those times they went on behind the join of the branch, and were
    seen there, the last at ``seen_at``. barriers: those to which threads came.
    """

    def __init__(self, wave: Wave) -> None:
        shape = (wave.ctas, wave.run.warps, 32)
        self.came: dict[int, Ints] = defaultdict(lambda: np.zeros(shape, np.int64))
        self.behind: dict[int, Ints] = defaultdict(lambda: np.zeros(shape, np.int64))
        self.seen_at: dict[int, Span | None] = {}
        self.barriers: dict[int, BarrierSite] = {}

    def comes(self, team: Team, branch: int) -> None:
        """Lanes come to a branch."""
        self.came[branch][team.ctas, team.warps] += team.full

    def arrives(self, batch: Batch, place: BarrierSite) -> None:
        """A batch comes to a barrier."""
        assert place.number is not None
        self.barriers[place.number] = place
        self.came[place.number][batch.ctas, batch.warps] += batch.team.full

    def goes_on(self, team: Team, branches: tuple[int, ...], at: Span | None) -> None:
        """Lanes are behind these branches."""
        where = team.ctas, team.warps
        for branch in branches:
            np.copyto(self.behind[branch][where], self.came[branch][where], where=team.full)
            self.seen_at[branch] = at

    def past_a_branch(self, batch: Batch, gone: Bools, branch: int, ctas: int) -> Bools:
        """The threads that have gone on behind the branch since those came to it that wait, and have ended."""
        return gone & _as_often(self.behind[branch], self.came[branch], batch.team.in_wave(), ctas)

    def as_often(self, batch: Batch, gone: Bools, ctas: int) -> Bools:
        """The threads that came to this barrier as often as those that wait, and have ended."""
        assert batch.place.number is not None
        came = self.came[batch.place.number]
        return gone & _as_often(came, came, batch.team.in_wave(), ctas)

    def left_out(self, batch: Batch, skipped: Bools) -> BarrierSite:
        """A barrier to which the first of these threads came less often than the first of those that wait."""
        first, other = tuple(np.argwhere(skipped)[0]), tuple(np.argwhere(batch.team.in_wave())[0])
        fewer = (place for k, place in self.barriers.items() if self.came[k][first] < self.came[k][other])
        return next(fewer, batch.place)


def _as_often(times: Ints, came: Ints, here: Bools, ctas: int) -> Bools:
    """Which threads have a count as high as those of their CTA or cluster, of so many CTAs, that wait here?"""
    needed = np.where(here, came, 0).max((1, 2)).reshape(-1, ctas).max(1).repeat(ctas)[:, None, None]
    enough: Bools = (times >= needed) & (needed > 0)
    return enough


# Which threads go first.


MOST = 8  # strong accesses of a thread before which others overtake it, each in a run of its own
MOST_STEPS = 200  # of one of these runs; shorter ones may take more of them together, by the square of that
PER_STEP = 2  # strong accesses of threads that cost as much as a step
NEVER = 1 << 40
TURN = 16  # steps after which the order by chance is another one
SOME, GROUPS = 3, 3


@dataclass(frozen=True, slots=True)
class Late:
    """A thread that others overtake: before its strong access number ``nth``, and each of the next few, all others go
    as far as they can.

    thread: counted through the grid. together: so many threads begin with it (its CTA, its warp, itself); those before
    them begin earlier, and those behind them later; where none are behind them, they begin first. nth: 0 where they
    begin last, and nobody overtakes them then; `NEVER` where nobody does either.
    """

    thread: int
    together: int
    nth: int

    def lets_pass(self, access: int) -> bool:
        """Do all others go as far as they can before its strong access with this number?"""
        return 0 < self.nth <= access < self.nth + MOST

    @property
    def stops(self) -> bool:
        """Is it overtaken where its warp may go on without it?"""
        return 0 < self.nth < NEVER or self.together < 32

    @property
    def start(self) -> int:
        """The first of the threads that begin with it."""
        return self.thread // self.together * self.together

    def parts(self, first: int, there: Bools) -> list[Bools]:
        """The threads of a wave that begin together, see `Precedence.parts`."""
        number = first * there[0].size + np.arange(there.size).reshape(there.shape)
        behind = number >= self.start + self.together
        before = number < self.start
        parts = [part & there for part in (before, ~before & ~behind, behind)]
        if not self.nth:
            parts = [parts[0] | parts[2], parts[1]]
        elif not parts[2].any():
            parts = [parts[1], parts[0]]
        return [part for part in parts if part.any()]


@dataclass(frozen=True, slots=True)
class Precedence:
    """An order of agents (CTAs, batches). backwards: the last goes first. patient: threads that wait for an m-barrier
    test it only when no other thread can go on, and no operation can complete. late: a thread that others overtake.
    refuses: so often a thread that asks an m-barrier once gets the answer no, whenever it asks for another phase or
    another m-barrier. seed: of an order by chance, in which CTAs begin in groups, warps have their turns by chance, and
    one access of `SOME` by which threads see what others did is made only once all others have gone on.
    """

    backwards: bool = False
    patient: bool = False
    late: Late | None = None
    refuses: int = 0
    seed: int | None = None

    def __str__(self) -> str:
        if self.late is not None:
            nth = "never" if self.late.nth == NEVER else self.late.nth
            return f"late:{self.late.thread}/{self.late.together}@{nth}"
        numbers = {"refuse": self.refuses or None, "seed": self.seed}
        name = next((f"{word}:{number}" for word, number in numbers.items() if number is not None), None)
        return name or ("backwards" if self.backwards else "patient" if self.patient else "forwards")

    @classmethod
    def of(cls, text: str) -> Precedence:
        """The choice with a name. Raises ArgumentError for what is no name of one."""
        word, _, rest = text.strip().partition(":")
        thread, _, place = rest.partition("/")
        together, _, nth = place.partition("@")
        if word == "late" and thread.isdecimal() and together.isdecimal() and (nth == "never" or nth.isdecimal()):
            return cls(late=Late(int(thread), max(1, int(together)), NEVER if nth == "never" else int(nth)))
        if word in ("refuse", "seed") and rest.isdecimal():
            return cls(refuses=int(rest)) if word == "refuse" else cls(seed=int(rest))
        if rest or word not in ("forwards", "backwards", "patient"):
            allowed = "forwards, backwards, patient, refuse:1, seed:7, late:32/32@1: what a finding was shown by"
            raise ArgumentError("this names no choice of a run", given=text, allowed=allowed)
        return cls(backwards=word == "backwards", patient=word == "patient")

    @property
    def is_extra(self) -> bool:
        """Is it made for as long as there is time, beyond what the race check asks for?"""
        return self.seed is not None or self.refuses > 0

    @property
    def stops(self) -> bool:
        """Do threads let others go first at accesses by which they see what these did?"""
        return self.seed is not None or (self.late is not None and self.late.stops)

    def by_chance(self, *what: int) -> int:
        """A number that the seed gives to something."""
        return crc32(repr((self.seed, *what)).encode())

    def taken(self, agents: Ints) -> Ints:
        """The agents in the order in which they have their turn; they are given in the order of their numbers."""
        if self.seed is not None:
            return np.asarray(agents[np.random.default_rng(self.seed).permutation(len(agents))])
        return agents[::-1] if self.backwards else agents

    def key(self, batch: Batch) -> int:
        """The sort key of a batch: the lowest goes first. By chance it is a warp's, so that its lanes come together."""
        if self.seed is not None:
            turn = batch.wave.run.steps // TURN
            return self.by_chance(turn, batch.ctas.start, batch.warps.start) << 16 | batch.segment & 0xFFFF
        return -batch.segment if self.backwards else batch.segment

    def lets_pass(self, access: int) -> bool:
        """By chance: do the others go on first, before an access with this number?"""
        return self.seed is not None and self.by_chance(access) % SOME == 0

    def parts(self, first: int, there: Bools) -> list[Bools]:
        """The threads of a wave that begin together; each part goes as far as it can before the next one begins.

        first: CTA of the wave. there: the threads that it has, (CTAs, warps, 32).
        """
        if self.seed is not None:
            return self._groups(first, there)
        return self.late.parts(first, there) if self.late is not None else [there]

    def _groups(self, first: int, there: Bools) -> list[Bools]:
        """CTAs in up to three groups by chance; of a wave of one CTA, its warps."""
        group_of = [self.by_chance(first, n) % GROUPS for n in range(len(there))]
        group = np.array(group_of).reshape(-1, 1, 1)
        if len(there) == 1:
            group = np.array([self.by_chance(first, n) % GROUPS for n in range(there.shape[1])]).reshape(1, -1, 1)
        groups = [there & (group == number) for number in range(GROUPS)]
        return [part for part in groups if part.any()]

    def next_cta(self, done: int, size: int, ctas: int) -> int:
        """The first of the next ``size`` CTAs of a grid, where so many have begun."""
        return ctas - done - size if self.backwards else done


FORWARDS = Precedence()
PATIENT = Precedence(patient=True)
REFUSING = (Precedence(refuses=1), Precedence(refuses=2))


@dataclass(frozen=True, slots=True)
class Made:
    """A run in which others overtook a thread. first: the number of the first of its accesses before which they did
    anything: to let them go later, up to there, changes nothing. steps: that the run has taken.
    """

    late: Late
    first: int
    steps: int


def others(strong: Mapping[int, Ints], runs: Sequence[Made], steps: int, *, asks: bool = False) -> Iterator[Precedence]:
    """The orders in which threads that see which came first may do something else.

    strong: by the first CTA of each wave, how many strong accesses its threads have made, (CTAs, warps, 32). runs: the
    runs with late threads so far. steps: of the run that went forwards; after a long one there are none with late
    threads. asks: are these accesses of m-barriers, too, which threads ask once?
    """
    of_cta = next(iter(strong.values()))[0].size if strong else 0
    counts = {
        first * of_cta + thread: int(table.reshape(-1)[thread])
        for first, table in sorted(strong.items())
        for thread in np.flatnonzero(table).tolist()
    }
    if len(counts) < 2:
        return
    yield Precedence(backwards=True)
    threads = [*counts]
    together = next(size for size in (of_cta, 32, 1) if threads[0] // size != threads[-1] // size)
    most, price = max(counts.values()) + asks, steps + sum(counts.values()) // PER_STEP
    for thread, nth in _overtaken(threads, most):
        if most > 1 and price * (price + sum(max(price, run.steps) for run in runs)) > MOST_STEPS**2:
            return
        shown = any(run.late.thread == thread and run.late.nth < nth <= run.first for run in runs)
        if not shown and (nth <= counts[thread] or nth == NEVER):
            yield Precedence(late=Late(thread, together, nth))


def seeded(number: int, first: int = 0) -> Iterator[Precedence]:
    """So many orders by chance."""
    return (Precedence(seed=first + n) for n in range(number))


def _overtaken(agents: list[int], most: int) -> list[tuple[int, int]]:
    """Threads, and from which of their accesses on others overtake them; those first that show most.

    most: accesses of one thread. Where it is 1, their order is all that counts.
    """
    first, middle, last = agents[0], agents[len(agents) // 2], agents[-1]
    if most == 1:  # backwards the first one is the last
        return [(middle, 0)] if len(agents) > 2 else []
    every = [(thread, nth) for nth in (2, NEVER, 1, *range(3, MOST + 1)) for thread in (first, middle, last)]
    return list(dict.fromkeys([(first, 2), (middle, 1), *every]))
