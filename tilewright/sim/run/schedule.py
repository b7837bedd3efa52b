"""The scheduler: which batch runs next. Batches are plain data here: they go on, wait, split and merge. What skipped a
barrier, or ended, is told where others wait for it; and the error when no thread can go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import Way, advised, either, insert, move, numbered, operand, other_parity
from tilewright.ir.launch import LANE, WARP
from tilewright.isa import phase_state
from tilewright.sim.machine import NEVER, BarrierSite, Batch, Team, merged
from tilewright.sim.machine.places import element_text, pointer_to, split
from tilewright.sim.machine.sync import Crossing, Polling
from tilewright.sim.machine.team import first_of, first_warp, lanes_text, numbers, threads_of
from tilewright.terms import Operand, Told, barrier, call, meeting, operation, strong, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tilewright.errors import Span
    from tilewright.sim.machine import Address, Bools, Ints, Value, Wave
    from tilewright.sim.run.execution import Execution


# The error when no thread can go on: which threads wait where, for what, and what may be missing.


MOST_LINES = 32


def stuck(run: Execution, kind: str, what: str, batches: list[Batch], others: list[Batch]) -> SimulationError:
    """The error: ``batches`` are to blame, the others wait as well."""
    lines = [*_ended(run, (*batches, *others)), *(line for wait in (*batches, *others) for line in _places(run, wait))]
    first = min(batches, key=lambda batch: batch.segment)
    ordered = [first, *batches]
    missing, hint = next(filter(None, map(_tmem, ordered)), (_missing(ordered), None))
    if hint is None:
        waited = _awaited(ordered + others)  # the check of order knows more than an m-barrier's signals
        ideas = (check.stuck(batch.wave, waited) for batch in batches for check in reversed(run.checks))
        hint = next(filter(None, ideas), None)
        if hint is not None and waited:
            hint = either(
                hint, *[(other_parity(_at_line(batch)),) for batch in ordered if _asked(batch) and _at_line(batch)]
            )
        hint = hint or _apart([*batches, *others]) or _together(run, first) or _told(ordered)
    if run.not_begun and run.room() < run.cluster_ctas:
        most = run.watch.limits.ctas
        missing = (
            f"{most} CTAs at once, as the GPU has room for; {run.not_begun} have not begun, and those wait for them"
        )
        hint = f"a grid of at most {most} CTAs that each do more, or CTAs of fewer threads, registers or shared bytes"
    return SimulationError(
        f"{kind}: {what}",
        given=told("\n".join("{}" for _ in lines[:MOST_LINES]), *lines[:MOST_LINES]),
        allowed=missing,
        hint=hint,
        at=_at(run, first),
        kind=kind,
        threads=tuple(
            thread for batch in _polling(batches, others) for thread in threads_of(batch.team, batch.team.full)
        ),
    )


def _polling(batches: list[Batch], others: list[Batch]) -> list[Batch]:
    """Those that wait for what other threads tell, as the rest may wait for them; all where there are none."""
    return [batch for batch in (*batches, *others) if batch.meeting is None] or batches


def _ended(run: Execution, waiting: Sequence[Batch]) -> Iterator[str]:
    """The GPUs among several whose threads have all ended, so that they tell nobody anything any more."""
    left = {int(rank) for batch in waiting for rank in batch.team.look.ranks[batch.team.full.any((1, 2))].reshape(-1)}
    if run.ranks > 1 and not run.not_begun and (gone := sorted({*range(run.ranks)} - left)):
        yield f"rank{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}: all threads have ended"


def _apart(batches: Sequence[Batch]) -> Told | None:
    """A hint, where threads of a CTA wait at barriers of different numbers."""
    waiting = dict[int, tuple[int, int]]()  # by line, the number and how many threads it is for
    for batch in batches:
        if isinstance(batch.meeting, Crossing) and batch.meeting.barrier is not None and batch.meeting.place.at:
            number = int(batch.meeting.barrier[0, 0])
            expected = int(batch.wave.barriers.expected[batch.ctas.start, number])
            waiting[batch.meeting.place.at.line] = number, expected
    if len({number for number, _ in waiting.values()}) < 2:
        return None
    (first, (here, _)), (then, (other, _)), *_ = waiting.items()
    text = (
        f"one barrier for both: line {first} waits at barrier {here}, line {then} at barrier {other}; or each of them "
        "by all of its threads"
    )
    pairs = [(here, there) for here in waiting for there in waiting if waiting[here][0] != waiting[there][0]]
    ways = [(operand(here, "id", waiting[there][0]),) for here, there in pairs]
    ways += [(insert(told("{}", call("ptx.bar.sync", *waiting[there])), here),) for here, there in pairs]
    return advised(text, "barrier", "cta", tuple(waiting), ways=ways)


def _together(run: Execution, batch: Batch) -> Told | None:
    """A hint: a place where all threads that a barrier waits for come by."""
    if not isinstance(batch.meeting, Crossing):
        return None
    name = batch.meeting.place.name
    parting = run.program.text.kept_apart(batch.meeting.place.at, LANE | WARP)
    if parting is None:
        return None
    counted = ", or the number of threads that come by as its count" if name.startswith("ptx.bar") else ""
    text = told("{} once, outside of the condition of line {}{}", meeting(name), parting.line, counted)
    return advised(text, "barrier", "cta", ways=[(insert(told("{}", barrier("cta")), 0),)] * (name == "cuda.cta_sync"))


def _told(batches: list[Batch]) -> Told | None:
    """A hint: what would end a wait for other threads' signals."""
    for batch in batches:
        if mbarriers := [*_asked(batch), *batch.wave.unmet]:
            return _arrivals(batch.wave, *mbarriers[0], _at_line(batch))
        if batch.meeting is None:
            return told("a store to what the loop reads, by a thread that does not wait: {}", strong("st", "release"))
    return None


def _arrivals(wave: Wave, row: int, address: int, line: int) -> Told:
    """The statements that end the phase of an m-barrier."""
    state = phase_state(wave.shared.view(8)[row, address >> 3])
    came = int(state.expected) - int(state.pending)
    if not came and not state.tx:
        text = f"an arrival by each of {int(state.expected)}; or a wait for the other parity, of a phase that is over"
        ways = [*[(other_parity(line),)] * bool(line), *arrival_anywhere(wave, address)]
        return advised(text, "wait", "cta", (line,), ways=ways)
    if not state.pending:
        fewer = call("ptx.mbarrier.arrive.expect_tx", Operand("bar"), Operand("n"))
        return told("a copy that brings the {} bytes; or fewer in {}", int(state.tx), fewer)
    init = call("ptx.mbarrier.init", Operand("bar"), came)
    text = told("{}, as {} arrive; or {} arrivals more", init, came, int(state.pending))
    inits = wave.run.program.text.inits(wave.run.places.shared_at(address).name)
    fewer_ways = [(operand(line_of, "count", count - int(state.pending)),) for line_of, count in inits if count]
    return advised(text, "count", "cta", ways=[*fewer_ways, *arrival_anywhere(wave, address)])


def arrival_anywhere(wave: Wave, address: int) -> list[Way]:
    """One arrival more, wherever it belongs."""
    bar = pointer_to(wave, address)
    return [] if bar is None else [(insert(told("{}", call("ptx.mbarrier.arrive", bar)), 0),)]


def _at_line(batch: Batch) -> int:
    at = batch.meeting.place.at if batch.meeting else None
    return at.line if at else 0


def _at(run: Execution, batch: Batch) -> Span | None:
    return batch.meeting.place.at if batch.meeting else run.program.spans.get(batch.segment)


def _places(run: Execution, batch: Batch) -> list[str]:
    """The places of a batch: one line for all CTAs that have the same lanes there."""
    what = operation(batch.meeting.place.name) if batch.meeting else "a loop that polls memory"
    alike: dict[bytes, list[int]] = {}
    active = batch.team.full
    for cta in np.flatnonzero(active.any((1, 2))):
        alike.setdefault(active[cta].tobytes(), []).append(int(cta))
    at = _at(run, batch) or "somewhere"
    return [told("{}: {}: {}", at, what, _who(batch, ctas[0], len(ctas))) for ctas in alike.values()]


def _who(batch: Batch, cta: int, ctas: int) -> str:
    row = numbers(batch.ctas)[cta]
    active = batch.team.full[cta]
    warps = numbered("warp", np.array(numbers(batch.warps))[active.any(-1)].tolist())
    more = f" and {ctas - 1} more CTAs" if ctas > 1 else ""
    return f"CTA {batch.wave.cta_name(row)}{more}, {warps}, {lanes_text(active[active.any(-1)][0])}"


def _missing(batches: list[Batch]) -> str | None:
    """The hint for the first batch for which there is one."""
    for batch in batches:
        if isinstance(batch.meeting, Crossing) and batch.meeting.barrier is not None:
            number = int(batch.meeting.barrier[0, 0])
            row = batch.ctas.start
            state = batch.wave.barriers
            expected, arrived = int(state.expected[row, number]), int(state.arrived[row, number])
            return f"{expected} threads at barrier {number}; {arrived} have arrived"
        if mbarriers := [*_asked(batch), *batch.wave.unmet]:
            return _phase_text(batch.wave, *mbarriers[0])
    return None


def _tmem(batch: Batch) -> tuple[str, str] | None:
    """What a batch that asks for tensor memory waits for, and what to do about it."""
    asks = isinstance(batch.meeting, Polling) and batch.meeting.mbarrier is None
    return batch.wave.columns.waited_for() if asks else None


def _awaited(batches: list[Batch]) -> list[tuple[int, int]]:
    """Rows and addresses of the m-barriers that threads of the first one's wave wait for."""
    places = [where for batch in batches if batch.wave is batches[0].wave for where in _asked(batch)]
    return list(dict.fromkeys([*places, *batches[0].wave.unmet]))


def _asked(batch: Batch) -> list[tuple[int, int]]:
    """Row and shared address of the m-barrier that the first lane waits for, if it waits for one."""
    polling = batch.meeting
    if not isinstance(polling, Polling) or polling.mbarrier is None:
        return []
    waiting = batch.team.full & ~polling.passed
    row, address = numbers(batch.ctas)[first_warp(waiting)[0]], first_of(polling.mbarrier.full(), waiting)
    rows, offsets = split(batch.wave, np.array([row]), np.array([address]))  # of another CTA, where the address says so
    return [(int(rows[0]), int(offsets[0]))]


def _phase_text(wave: Wave, row: int, address: int) -> str:
    """What an m-barrier still waits for."""
    program = wave.run.program
    name = element_text(program, program.places.shared_at(address), address)
    state = phase_state(wave.shared.view(8)[row, address >> 3])
    bytes_too = f", {int(state.tx)} bytes to come" if state.tx else ""
    return (
        f"the end of a phase of the m-barrier {name} of CTA {wave.cta_name(row)}: "
        f"{int(state.pending)} of {int(state.expected)} arrivals are missing"
        f"{bytes_too}; the running phase has parity {int(state.phase) % 2}"
    )


# The scheduler: which batch runs next. Batches are plain data here: they go on, wait, split and merge. What skipped a
# barrier, or ended, is told where others wait for it.
#
# The batch at the lowest segment goes first, so that diverged lanes reconverge where their ways join; batches that
# arrive at one segment with equal uniform values become one. A batch of which only some warps may pass a barrier stays
# whole while anything else can run. A poll (a loop that reads memory until another thread changes it) yields at each
# turn; when only polls are left and a full round of them changes nothing, it is a livelock.
#
# Threads that begin, or go on, only when all others have gone as far as they can: a late one, or some by chance.


MOST_LOOKS = 16  # of those that poll what changes all the time


class Overtaking:
    """The batches that are overtaken, in the order in which they will go on.

    first: the number of the first of the late thread's strong accesses before which others did anything.
    """

    def __init__(self, run: Execution) -> None:
        self.run = run
        self.batches: list[Batch] = []
        self.first = NEVER
        self._come = 0  # to how many strong accesses the late thread has come
        self._left_at = 0  # the step at which it let the others go
        self._looks = 0  # of those that poll, since then
        self._seen = 0  # by them

    def stops(self, batch: Batch) -> list[Batch] | None:
        """The batch comes to a strong access: the others of it, if the late thread is in it and lets them go first."""
        late = self.run.precedence.late
        if self.run.precedence.seed is not None:
            return self._by_chance(batch)
        lane = batch.team.lane_of(late.thread) if late is not None else None
        if late is None or lane is None:
            return None
        self._come += 1
        if not late.lets_pass(self._come):
            return None
        lanes = np.zeros(batch.shape, np.bool_)
        lanes[lane] = True
        stopped, others = batch.parting(lanes)
        self.batches.append(stopped)
        self._left_at = self.run.steps
        return others

    def _by_chance(self, batch: Batch) -> list[Batch] | None:
        """The whole batch waits, or goes on."""
        self._come += 1
        if not self.run.precedence.lets_pass(self._come):
            return None
        self.batches.append(batch)
        self._left_at = self.run.steps
        return []

    def due(self, polling: list[Batch]) -> Batch | None:
        """No other can go on but those that poll: the batch that does; None where these have to look first."""
        late, seen = self.run.precedence.late, self._seen
        self._seen = self.run.fingerprint(polling) if polling else seen
        moved = self._seen != seen if self._looks else self.run.steps > self._left_at
        if late is not None and late.lets_pass(self._come) and moved:
            self.first = min(self.first, self._come)
        self._looks += 1
        if self._seen != seen and self._looks <= MOST_LOOKS:
            return None
        self._looks = self._seen = 0
        chosen = self.run.precedence.by_chance(self._come) if self.run.precedence.seed is not None else 0
        return self.batches.pop(chosen % len(self.batches))


# Which warps are whole where lanes meet, and what of lanes and warps that have ended without coming.


LANES = 1 << np.arange(32, dtype=np.int64)  # the bit of each lane in a mask


def whole_warps(batch: Batch) -> Bools:
    """(CTAs, warps, 1): the warps of which all lanes are there, and all warps that they go on with. Where lanes meet by
    masks, (CTAs, warps, 32): those that see all whom they name.
    """
    if batch.place.by_mask:
        there = (batch.team.full * LANES).sum(-1, keepdims=True)
        named = np.asarray(batch.env["meeting.0"], np.int64) & (batch.team.look.alive * LANES).sum(-1, keepdims=True)
        return np.broadcast_to((named & ~there) == 0, batch.shape)
    whole = np.asarray((batch.team.full == batch.team.look.alive).all(-1))
    if (size := batch.place.warps) > 1:
        every = np.zeros((len(whole), -(-batch.wave.run.warps // size) * size), np.bool_)
        every[:, batch.warps] = whole
        together = every.reshape(len(whole), -1, size).all(-1).repeat(size, axis=1)
        whole = whole & together[:, batch.warps]
    return whole[..., None]


def is_whole(batch: Batch) -> bool:
    """Are all lanes of its warps there, and all warps that they go on with?"""
    if batch.place.warps > 1 or batch.place.by_mask:
        return not (batch.team.full & ~whole_warps(batch)).any()
    return batch.team.has_all_alive


def look_for_lanes(batch: Batch) -> None:
    """Raises SimulationError where lanes skipped a barrier to which others of their warp come, and have ended.

    Source: CUDA C++ Programming Guide, "Synchronization Functions"; PTX ISA, "bar, barrier", "exit": from sm_70 on a
    barrier of all threads waits for those that have not ended; it may be conditional where all of them go one way.
    """
    if batch.team.has_whole_warps:
        return
    here = batch.team.full
    gone = np.zeros((batch.wave.ctas, batch.wave.run.warps, 32), np.bool_)
    missing = batch.wave.run.exists[:, batch.warps] & here.any(-1, keepdims=True) & ~here
    gone[batch.ctas, batch.warps] = missing
    _look_for(batch, gone, 1)


def look_for_warps(batch: Batch, ended: Bools, rows: Ints) -> None:
    """The same for warps, (CTAs, warps), without which meetings of these rows are complete."""
    assert batch.place.sync is not None
    ctas = batch.wave.run.cluster_ctas if batch.place.sync.scope == "cluster" else 1
    theirs = np.isin(np.arange(batch.wave.ctas) // ctas * ctas, rows)
    _look_for(batch, (theirs[:, None] & ended)[..., None] & batch.wave.run.exists, ctas)


def _look_for(batch: Batch, gone: Bools, ctas: int) -> None:
    place, skipping = batch.place, batch.wave.skipping
    if place.number is None:
        return
    for branch, at in place.branches.items():
        if (skipped := skipping.past_a_branch(batch, gone, branch, ctas)).any():
            why = f"skipped it, went on at {skipping.seen_at[branch]}, and ended"
            raise _without(batch, place, skipped, why, at)
    if (skipped := skipping.as_often(batch, gone, ctas)).any():
        other = skipping.left_out(batch, skipped)
        raise _without(batch, other, skipped, f"skipped it, came to the barrier at {place.at} instead, and ended", None)


def _ways(place: BarrierSite) -> list[Way]:
    """The barrier once more, where the others may lack it; or this one elsewhere."""
    once_more = [(insert(told("{}", barrier("cta")), 0),)] if place.name == "cuda.cta_sync" else []
    return [*once_more, *([(move(place.at.line),)] if place.at else [])]


def _without(batch: Batch, place: BarrierSite, skipped: Bools, why: str, parting: Span | None) -> SimulationError:
    cta, warp = first_warp(skipped)
    lanes = lanes_text(skipped[cta, warp])
    who = f"warp {warp}" if skipped[cta, warp].sum() == batch.wave.run.exists[0, warp].sum() else lanes
    where = f"the condition of line {parting.line}" if parting else "the condition that splits the CTA"
    return SimulationError(
        told("divergence: {} without {}", operation(place.name), who),
        given=f"{batch.wave.warp_name(cta, warp)}: {lanes} {why}",
        allowed="a barrier that all threads of the CTA come to, but for those that have returned",
        hint=either(f"move it out of {where}", *_ways(place)),
        at=place.at,
        kind="divergence",
        threads=(batch.wave.warp_at(cta, warp),),
    )


# The scheduler of a run.


STUCK = {
    "livelock": "every thread that is left polls, and nothing changes",
    "divergence": "a warp cannot meet, its lanes are apart",
    "deadlock": "no thread can go on",
}


class Scheduler:
    """The batches of a run. segments: the generated functions; live: for each the axes of its live variables."""

    def __init__(
        self, run: Execution, segments: list[Callable[[Batch], int | None]], live: list[dict[str, int]]
    ) -> None:
        self.run = run
        self.segments = segments
        self.live = live
        self.ready: list[Batch] = []
        self.waiting: list[Batch] = []  # arrived at a barrier
        self.gathering: list[Batch] = []  # lanes of warps that wait for the rest of their warp
        self.polling: list[Batch] = []
        self.asking: list[Batch] = []  # some of their lanes got the answer no
        self.refused = 0  # how many answers changed nothing
        self.asked_at = -1  # the count of progress when all were asked last
        self.rounds = 0
        self.last_round: int | None = None
        self.looking = 0  # how many lanes polled when they had a turn last
        self.overtaking = Overtaking(run)
        self.current: Batch | None = None  # that runs
        first = (self._ask_again, self._gather, self._complete, self._split)
        if run.precedence.patient:
            first = (self._gather, self._split, self._complete, self._ask_again)
        self._ways = (
            self._release, *first, self._split_asking, self._begin_next, self._release_without_the_ended, self._poll,
            self._force_gathering,
        )  # fmt: skip

    def begin(self, parts: list[Batch]) -> None:
        """Let a wave begin, in parts that go one after the other."""
        self.ready.append(parts[0])
        self.overtaking.batches += parts[1:]

    def run_all(self) -> None:
        """Run every batch to its end. Raises SimulationError where no batch can go on."""
        while True:
            if self.ready:
                self._step(self._next())
            elif not any(way() for way in self._ways):
                break
        self._check_finished()

    # Going on

    def _next(self) -> Batch:
        if len(self.ready) == 1:
            return self.ready.pop()
        first = min(self.ready, key=self.run.precedence.key)
        self.ready.remove(first)
        lowest = first.segment
        for other in [batch for batch in self.ready if batch.segment == lowest]:
            alike = other.wave is first.wave and other.part == first.part
            if alike and (both := merged(first, other, self.live[lowest])) is not None:
                self.ready.remove(other)
                first = both
        return first

    def _step(self, batch: Batch) -> None:
        """Runs segments until the batch waits, splits, ends, or another one is further behind."""
        run, self.current = self.run, batch
        while True:
            if run.steps >= run.watch.next_step:
                run.watch.stepped()
            run.steps += 1
            to = self.segments[batch.segment](batch)
            if to is None:
                return
            batch.segment = to
            if self.ready:
                self.ready.append(batch)
                return

    # Calls at the end of segments

    def branch(self, batch: Batch, cond: Bools, then: int, orelse: int) -> int | None:
        """Send each lane to its side; the batch goes on as a whole where all lanes agree."""
        holds = batch.team.narrowed(cond)
        if holds is None:
            return orelse
        fails = batch.team.narrowed(~cond)
        if fails is None:
            return then
        self.ready += [batch.narrowed(holds, then), batch.narrowed(fails, orelse)]
        return None

    def poll(self, batch: Batch, to: int) -> int | None:
        """The back edge of a loop that may be waiting for another thread's store."""
        batch.segment = to
        self.polling.append(batch)
        return None

    def pause(self, batch: Batch, to: int) -> int | None:
        """The batch comes to a strong access, before which a late thread lets all others go as far as they can."""
        batch.segment = to
        others = self.overtaking.stops(batch)
        self.ready += others or []
        return to if others is None else None

    def ask(
        self,
        batch: Batch,
        passed: bool | Bools,
        place: BarrierSite,
        mbarrier: Address | None,
        tally: int | None,
        to: int,
        again: int,
    ) -> int | None:
        """Each lane goes on with segment ``to`` once it gets the answer yes, the others ask again at ``again``; the
        batch stays whole for as long as that can be. See `Polling` for the rest.
        """
        if not batch.again and self.run.precedence.patient:
            passed = False
        batch.again = False
        yes = batch.team.narrowed(passed)
        if yes is not None and yes.lane_count == batch.team.lane_count:
            self._count(tally, yes)
            return to
        batch.segment = again
        batch.meeting = Polling(place, np.broadcast_to(passed, batch.shape), to, mbarrier, tally)
        self.asking.append(batch)
        self.refused += 1
        return None

    def _count(self, tally: int | None, team: Team) -> None:
        if tally is not None:
            self.run.tally[tally] += team.warp_count

    def meet(self, batch: Batch, place: BarrierSite, to: int, *operands: Value) -> int | None:
        """Let the batch arrive where lanes meet, whole warps at a time."""
        batch.segment = to
        batch.env |= {f"meeting.{k}": operand for k, operand in enumerate(operands)}
        batch.meeting = Crossing(place)
        if place.number is not None:
            batch.wave.skipping.arrives(batch, place)
        if is_whole(batch):
            return self._arrive(batch)
        self.gathering.append(batch)
        return None

    def _arrive(self, batch: Batch) -> int | None:
        place = batch.place
        operands = [batch.env.pop(f"meeting.{k}", 0) for k in range(2)]
        if place.is_barrier:
            look_for_lanes(batch)
        batch.meeting = None
        if not place.is_barrier:
            if place.sync is not None:
                self.run.events.warps_met(batch.team)
            return batch.segment
        crossing = batch.wave.barriers.arrive(batch, place, *operands)
        if crossing is None:
            return batch.segment
        batch.meeting = crossing
        if not batch.wave.barriers.ready(batch)[batch.team.full.any(-1)].all():
            self.waiting.append(batch)
            return None
        batch.meeting = None
        return batch.segment

    # When nothing is ready

    @property
    def held(self) -> list[Batch]:
        """The batches that wait, for whatever it is."""
        return [*self.waiting, *self.gathering, *self.polling, *self.asking]

    def warps_in(self, wave: Wave, batches: list[Batch]) -> Bools:
        """(CTAs, warps): the warps of a wave that have a lane in one of these batches."""
        warps = np.zeros((wave.ctas, self.run.warps), np.bool_)
        for batch in batches:
            if batch.wave is wave:
                warps[batch.ctas, batch.warps] |= batch.team.full.any(-1)
        return warps

    def _release(self) -> bool:
        """Let batches go on whose barriers are complete for all of their warps."""
        passed = [b for b in self.waiting if b.wave.barriers.ready(b)[b.team.full.any(-1)].all()]
        for batch in passed:
            self.waiting.remove(batch)
            batch.meeting = None
        self.ready += passed
        return bool(passed)

    def _ask_again(self) -> bool:
        """Ask those again that got the answer no, if anything has happened since."""
        progress = self.run.steps - self.refused
        if not self.asking or progress == self.asked_at:
            return False
        self.asked_at = progress
        for batch in self.asking:
            batch.meeting, batch.again = None, True
        self.ready += self.asking
        self.asking = []
        return True

    def _begin_next(self) -> bool:
        """Let threads begin or go on that were overtaken, once those that poll have looked at what the others did."""
        if not self.overtaking.batches:
            return False
        if (batch := self.overtaking.due(self.polling)) is not None:
            self.ready.append(batch)
        else:
            self._look_again()
        return True

    def _complete(self) -> bool:
        """Complete the oldest asynchronous operation of a wave."""
        for wave in self.run.open:
            if not wave.pending.queue:
                continue
            if (ended := np.asarray(~self.warps_in(wave, self.held).any(1))).any():
                self.run.events.outlived(wave.pending.queue[0], ended)
            wave.pending.complete(wave.pending.queue[0])
            self.run.steps += 1
            return True
        return False

    def _split_asking(self) -> bool:
        """Let the lanes go on that got the answer yes, without the others of their batch."""
        for batch in self.asking:
            answer = batch.meeting
            assert isinstance(answer, Polling)
            yes = batch.team.narrowed(answer.passed)
            if yes is None:
                continue
            self.asking.remove(batch)
            self._count(answer.tally, yes)
            going, rest = batch.parted(yes.full, answer.to)
            self.ready.append(going)
            self.asking.append(rest)
            return True
        return False

    def _gather(self) -> bool:
        """Merge batches of lanes that gather at one place, and let warps go on that are whole then."""
        for k, batch in enumerate(self.gathering):
            for other in self.gathering[k + 1 :]:
                if other.wave is batch.wave and other.place is batch.place:
                    axes = self.live[batch.segment] | batch.place.axes
                    both = merged(batch, other, axes)
                    if both is not None:
                        self.gathering.remove(batch)
                        self.gathering.remove(other)
                        self._gathered(both)
                        return True
        return self._part_whole_warps()

    def _gathered(self, batch: Batch) -> None:
        if not is_whole(batch):
            self.gathering.append(batch)
        elif (to := self._arrive(batch)) is not None:
            batch.segment = to
            self.ready.append(batch)

    def _part_whole_warps(self) -> bool:
        """Of a gathering batch, the warps that are whole need not wait for the others."""
        for batch in self.gathering:
            active = batch.team.full
            whole = whole_warps(batch) & active
            if whole.any():
                self.gathering.remove(batch)
                if not (active & ~whole).any():  # the others have ended meanwhile
                    self._gathered(batch)
                    return True
                for lanes in (whole, active & ~whole):
                    self._gathered(batch.narrowed(Team(batch.team.look, lanes), batch.segment, waits=True))
                return True
        return False

    def _split(self) -> bool:
        """Let the warps of a waiting batch go on that may, without the others."""
        for batch in self.waiting:
            free = batch.wave.barriers.ready(batch)[..., None] & batch.team.full
            if free.any():
                self.waiting.remove(batch)
                going, rest = batch.parted(free, batch.segment)
                self.ready.append(going)
                self.waiting.append(rest)
                return True
        return False

    def _release_without_the_ended(self) -> bool:
        """Release barriers without a count for which only warps are missing that have ended: PTX ISA, "exit"."""
        for batch in self.waiting:
            ended = ~self.warps_in(batch.wave, self.held)
            if len(rows := batch.wave.barriers.held_up(batch, ended)):
                look_for_warps(batch, ended, rows)
                batch.wave.barriers.release_without(batch, rows, ended)
                return True
        return False

    def _poll(self) -> bool:
        """One round of polls; False where there are none, or where a round changes nothing and only a warp can gather.

        Looking at everything that could change takes time, so that only three rounds in 16 are compared: memory where
        the polling threads themselves hold what they have held the round before.
        """
        if not self.polling:
            return False
        if self._look_alone():
            return True
        self.rounds += 1
        if self.rounds % 16 == 0:
            self.last_round = self.run.registers_of(self.polling)
        elif self.rounds % 16 == 1:
            is_same = self.last_round == self.run.registers_of(self.polling)
            self.last_round = self.run.fingerprint(self.polling) if is_same else None
        elif (
            self.rounds % 16 == 2
            and self.last_round is not None
            and self.last_round == self.run.fingerprint(self.polling)
        ):
            if self.run.admit():
                return True
            if self.gathering:
                return False
            self._stuck("livelock", self.polling)
        self._look_again()
        return True

    def _look_alone(self) -> bool:
        """Where one lane alone has found what it polls for, as a lock is handed on, the next one looks alone."""
        lanes = sum(batch.team.lane_count for batch in self.polling)
        before, self.looking = self.looking, lanes
        if before - lanes != 1:
            return False
        batch = min(self.polling, key=self.run.precedence.key)
        self.polling.remove(batch)
        lane_alone = np.zeros(batch.team.full.size, np.bool_)
        lane_alone[self.run.precedence.taken(batch.team.flat)[0]] = True
        going, others = batch.parting(lane_alone.reshape(batch.shape))
        self.ready.append(going)
        self.polling += others
        return True

    def _look_again(self) -> None:
        self.ready, self.polling = self.polling, []
        for wave in self.run.open:
            wave.unmet.clear()

    def _force_gathering(self) -> bool:
        """Let lanes go on whose warp never becomes whole: a collective by mask checks itself whether that is legal."""
        for batch in self.gathering:
            if batch.place.sync is None:
                self.gathering.remove(batch)
                batch.meeting = None
                self.ready.append(batch)
                return True
        return False

    # The end

    def _check_finished(self) -> None:
        apart = [batch for batch in self.gathering if not self._waits_for_lanes_that_wait(batch)]
        if apart:
            self._stuck("divergence", [*apart, *self.waiting, *self.polling])
        if self.waiting or self.asking:
            self._stuck("deadlock", [*self.waiting, *self.asking])
        if self.polling:
            self._stuck("livelock", self.polling)

    def _waits_for_lanes_that_wait(self, batch: Batch) -> bool:
        """Are the other lanes of each of its warps at an m-barrier, or polling? Otherwise they would come."""
        coming = self.warps_in(batch.wave, [*self.asking, *self.polling])
        return bool(coming[batch.ctas, batch.warps][batch.team.full.any(-1)].all())

    def _stuck(self, kind: str, batches: list[Batch]) -> None:
        raise stuck(self.run, kind, STUCK[kind], batches, [batch for batch in self.held if batch not in batches])
