"""Every execution of a tiny program: interleavings, with asynchronous operations that complete at any later point.

Polls wait until their value is there. Of executions that differ only in the order of independent steps one is walked
(sleep sets). Findings: "R" a race, "P" a missing proxy fence, "D" a deadlock, "E" a broken protocol (an arrival too
many, a phase that no thread saw over), "V" values that the clean program never leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.model.graph import Event, Graph, Place, Thread, holds
from tests.model.program import BULK, Op, Program, home

# Operations that signal completion at an m-barrier: of their thread's operations, or of themselves alone.
HANDS_ON = {"commit": "cp", "cparr": "cpa", "put": "", "get": "", "g2s": ""}
# By what closes their groups, or waits for them.
GROUPS = {
    **dict.fromkeys(("cpcom", "cpwait"), ("cpa",)),
    **dict.fromkeys(("bcom", "bwait", "bread"), ("s2g", "radd")),
}
MOST_STEPS = 30_000  # beyond, a program is undecided
Values = tuple[tuple[object, int], ...]
Footprint = frozenset[tuple[object, str]]


@dataclass
class Barrier:
    """An m-barrier: phase, missing arrivals, and for each phase the threads that arrived and those that saw it over."""

    count: int
    phase: int = 0
    missing: int = 0
    arrived: dict[int, list[Event]] = field(default_factory=dict)
    seen: dict[int, list[Event]] = field(default_factory=dict)

    def copy(self) -> Barrier:
        arrived = {phase: [*them] for phase, them in self.arrived.items()}
        return replace(self, arrived=arrived, seen={phase: [*them] for phase, them in self.seen.items()})


@dataclass
class Meeting:
    """A barrier of threads: the round that is filling, who came in each round."""

    round: int = 0
    here: float = 0.0
    came: dict[int, list[Event]] = field(default_factory=dict)

    def copy(self) -> Meeting:
        return replace(self, came={number: [*them] for number, them in self.came.items()})


@dataclass
class Flying:
    """An asynchronous operation. after: numbers of those that come first (of a commit). group: its number, from 1 on; 0
    for none.
    """

    number: int
    thread: Thread
    op: Op
    issue: Event
    after: tuple[int, ...] = ()
    done: Event | None = None
    group: int = 0


class Machine:
    """A state of the program, changed in place by `step`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.threads: dict[Thread, tuple[Op, ...]] = {
            (*warp, lane): program.thread(warp, lane) for warp in program.warps for lane in program.lanes(warp)
        }
        self.lanes = {warp: len(program.lanes(warp)) for warp in program.warps}
        self.at = dict.fromkeys(self.threads, 0)
        self.entered: dict[Thread, int] = {}  # the round of the barrier that a thread waits in
        self.cluster: dict[Thread, int] = {}
        self.memory: dict[Place, int] = {}
        self.registers: dict[tuple[Thread, str], int] = {}
        self.results: list[tuple[object, int]] = []
        self.meetings: dict[object, Meeting] = {}
        self.flying: list[Flying] = []
        self.groups: dict[Thread, int] = {}  # of cp.async, that a thread has closed
        self.graph = Graph()
        self.barriers: dict[Place, Barrier] = {
            (name, cta): Barrier(count, missing=count)
            for name, count in program.counts.items()
            for cta in range(program.ctas)
        }
        self.broken: list[str] = []

    def copy(self) -> Machine:
        made = Machine.__new__(Machine)
        made.program, made.threads, made.lanes = self.program, self.threads, self.lanes
        made.at, made.entered, made.cluster = dict(self.at), dict(self.entered), dict(self.cluster)
        made.memory, made.registers, made.results = dict(self.memory), dict(self.registers), [*self.results]
        made.meetings = {key: one.copy() for key, one in self.meetings.items()}
        made.flying = [replace(one) for one in self.flying]
        made.groups = dict(self.groups)
        made.graph = self.graph.copy()
        made.barriers = {place: one.copy() for place, one in self.barriers.items()}
        made.broken = [*self.broken]
        return made

    # The possible steps

    def next(self, thread: Thread) -> Op | None:
        ops = self.threads[thread]
        while self.at[thread] < len(ops):
            op = ops[self.at[thread]]
            if op.guard is None or self.registers.get((thread, op.guard[0]), 0) == op.guard[1]:
                return op
            self.at[thread] += 1
        return None

    def enabled(self) -> Iterator[Step]:
        for thread in self.threads:
            op = self.next(thread)
            if op is not None and ENABLED.get(op.kind, _always)(self, thread, op):
                yield Step(thread, self.at[thread], thread in self.entered, op)
        for one in self.flying:
            if one.done is None and all(self.flying[number].done is not None for number in one.after):
                yield Step(("flying", one.number), 0, False, one.op)

    @property
    def is_over(self) -> bool:
        return all(self.next(thread) is None for thread in self.threads) and all(one.done for one in self.flying)

    # Taking a step

    def step(self, step: Step) -> None:
        if step.who[0] == "flying":
            LANDS[step.op.kind](self, self.flying[step.who[1]])  # type: ignore[call-overload]  # a number
            return
        thread: Thread = step.who  # type: ignore[assignment]
        if DOES[step.op.kind](self, thread, step.op) is not STAYS:
            self.at[thread] += 1

    def place(self, op: Op, thread: Thread) -> Place:
        return home(op.place, thread[0])

    def value(self, op: Op, thread: Thread, text: str) -> int:
        if text.isdigit():
            return int(text)
        register, _, more = text.partition("+")
        return self.registers.get((thread, register), 0) + int(more or 0)

    def kept(self, op: Op, thread: Thread, value: int) -> None:
        if op.into:
            self.registers[thread, op.into] = value
        if op.kind == "use" or (op.kind == "R" and not op.value):  # a poll's value is no outcome
            self.results.append(((thread, op.place), value))

    def outcome(self) -> Values:
        memory = tuple(sorted((place, value) for place, value in self.memory.items() if value))
        return (*memory, *sorted(self.results, key=lambda found: repr(found[0])))

    def meeting(self, key: object) -> Meeting:
        return self.meetings.setdefault(key, Meeting())


@dataclass(frozen=True)
class Step:
    """A possible next step: of a thread at an operation (waiting: inside of a barrier), or of one in flight."""

    who: tuple[object, ...]
    at: int
    waiting: bool
    op: Op

    def touches(self, program: Program) -> Footprint:
        """The places that it reads ("r"), writes ("w") or adds to in any order ("c")."""
        thread = self.who if self.who[0] != "flying" else None
        cta = int(str(thread[0])) if thread else 0
        return frozenset(FOOTPRINTS.get(self.op.kind, _none)(self.op, cta, self.waiting))


STAYS = object()


def _always(machine: Machine, thread: Thread, op: Op) -> bool:
    return True


# Memory


def _expected(machine: Machine, thread: Thread, op: Op) -> bool:
    if not op.value or op.kind == "W":
        return True
    wanted = op.value.split(">")[0]
    return machine.memory.get(machine.place(op, thread), 0) == machine.value(op, thread, wanted)


def _memory(machine: Machine, thread: Thread, op: Op) -> object:
    place, event = machine.place(op, thread), machine.graph.begin(thread, op)
    old = machine.memory.get(place, 0)
    if op.writes:
        text = op.value.split(">")[-1]
        value = machine.value(op, thread, text)
        machine.memory[place] = old + value if op.kind in ("add", "red") else value
    machine.graph.access(event, place, reads=op.reads, writes=op.writes)
    if op.reads:
        machine.kept(op, thread, old)
    return None


def _init(machine: Machine, thread: Thread, op: Op) -> object:
    place, event = machine.place(op, thread), machine.graph.begin(thread, op)
    machine.graph.access(event, place, reads=False, writes=True)
    machine.barriers[place] = Barrier(int(op.value), missing=int(op.value))
    return None


def _fence(machine: Machine, thread: Thread, op: Op) -> object:
    machine.graph.fence(machine.graph.begin(thread, op))
    return None


def _proxy_fence(machine: Machine, thread: Thread, op: Op) -> object:
    event = machine.graph.begin(thread, op)
    machine.graph.fence(event)
    machine.graph.proxy_fence(event)
    return None


def _nothing(machine: Machine, thread: Thread, op: Op) -> object:
    machine.graph.begin(thread, op)
    return None


# m-barriers


def _arrived(machine: Machine, event: Event, place: Place, told: Event) -> None:
    """One arrival. event: the arrival itself; told: who must have seen the phase before over (M5)."""
    barrier = machine.barriers.get(place)
    if barrier is None:
        machine.broken.append("arrival before init")
        return
    phase = barrier.phase
    if phase and not any(told.before & seen.bit or told is seen for seen in barrier.seen.get(phase - 1, ())):
        machine.broken.append("phase not seen over")
    barrier.arrived.setdefault(phase, []).append(event)
    barrier.missing -= 1
    if barrier.missing == 0:
        barrier.phase, barrier.missing = phase + 1, barrier.count


def _arrive(machine: Machine, thread: Thread, op: Op) -> object:
    place, graph = machine.place(op, thread), machine.graph
    event = graph.begin(thread, op)
    event.place, event.writes, event.reads = place, True, True
    graph._release(event, place)
    graph.judge(event, place)
    graph.accesses.setdefault(place, []).append(event)
    _arrived(machine, event, place, event)
    return None


def _phase_over(machine: Machine, thread: Thread, op: Op) -> bool:
    barrier = machine.barriers.get(machine.place(op, thread))
    return barrier is not None and barrier.phase % 2 != int(op.value)


def _wait(machine: Machine, thread: Thread, op: Op) -> object:
    place, graph = machine.place(op, thread), machine.graph
    event = graph.begin(thread, op)
    event.place, event.reads = place, True
    barrier = machine.barriers[place]
    for arrival in barrier.arrived.get(barrier.phase - 1, ()):
        event.offered |= arrival.offered  # T2: whatever the order of arrival and wait
        if (
            arrival.op.kind in HANDS_ON
        ):  # a completion: to each acquire waiter, any scope; or to a fence behind the wait
            if op.sem == "acquire":
                graph.join(event, arrival)
            arrival.firsts = [(arrival, "cluster")]
            event.sources.append(arrival)
        elif holds(arrival.op.scope, arrival.thread, thread) and holds(op.scope, arrival.thread, thread):
            event.sources.append(arrival)
    barrier.seen.setdefault(barrier.phase - 1, []).append(event)
    graph.judge(event, place)
    graph.accesses.setdefault(place, []).append(event)
    graph.taking(event)
    return None


# Meetings of threads


def _key(op: Op, thread: Thread) -> object:
    return {"sync": ("sync", thread[0]), "ws": ("ws", thread[:2])}.get(op.kind, ("bar", thread[0], op.place))


def _size(machine: Machine, op: Op, thread: Thread) -> float:
    if op.kind == "ws":
        return 1.0
    if op.kind == "bar" or op.kind == "bararr":
        return float(op.value)
    others = {other[1] for other in machine.threads if other[0] == thread[0] and machine.next(other) is not None}
    return float(len(others | {thread[1]}))  # a barrier without a count waits for no thread that is over


def _meet(machine: Machine, thread: Thread, op: Op) -> object:
    """S1b: enter, and go on when the round is full; `bararr` goes on at once."""
    meeting, event = machine.meeting(_key(op, thread)), machine.graph.begin(thread, op)
    if thread in machine.entered:
        entered = machine.entered.pop(thread)
        if entered == meeting.round:  # the missing threads have ended
            meeting.round, meeting.here = meeting.round + 1, 0.0
        for other in meeting.came[entered]:
            machine.graph.join(event, other)
        return None
    meeting.came.setdefault(meeting.round, []).append(event)
    if op.kind != "bararr":
        machine.entered[thread] = meeting.round
    meeting.here += 1 / machine.lanes[thread[:2]]
    if meeting.here >= _size(machine, op, thread) - 1e-6:
        meeting.round, meeting.here = meeting.round + 1, 0.0
    return None if op.kind == "bararr" else STAYS


def _may_meet(machine: Machine, thread: Thread, op: Op) -> bool:
    if thread not in machine.entered:
        return True
    meeting = machine.meeting(_key(op, thread))
    return meeting.round > machine.entered[thread] or meeting.here >= _size(machine, op, thread) - 1e-6


def _cluster_arrive(machine: Machine, thread: Thread, op: Op) -> object:
    meeting, event = machine.meeting("cluster"), machine.graph.begin(thread, op)
    if thread in machine.cluster:
        machine.broken.append("two arrivals at the cluster's barrier without a wait")
        return None
    event.firsts = [(event, "cluster")] if op.sem == "release" else []
    event.firsts += [(fence, fence.op.scope) for fence in machine.graph.fences.get(thread, ())]
    meeting.came.setdefault(meeting.round, []).append(event)
    machine.cluster[thread] = meeting.round
    meeting.here += 1
    if meeting.here == len(machine.threads):
        meeting.round, meeting.here = meeting.round + 1, 0.0
    return None


def _cluster_over(machine: Machine, thread: Thread, op: Op) -> bool:
    return thread not in machine.cluster or machine.meeting("cluster").round > machine.cluster[thread]


def _cluster_wait(machine: Machine, thread: Thread, op: Op) -> object:
    event = machine.graph.begin(thread, op)
    if thread not in machine.cluster:
        machine.broken.append("a wait at the cluster's barrier without an arrival")
        return None
    for other in machine.meeting("cluster").came[machine.cluster.pop(thread)]:
        for first, scope in other.firsts:
            if holds(scope, first.thread, thread):
                machine.graph.take(event, first)
    return None


# Tensor memory


def _issue(machine: Machine, thread: Thread, op: Op) -> object:
    event = machine.graph.begin(thread, op)
    after = tuple(one.number for one in _own(machine, thread, HANDS_ON.get(op.kind, "")))
    machine.flying.append(Flying(len(machine.flying), thread, op, event, after))
    return None


def _operation(machine: Machine, one: Flying, proxy: str) -> Event:
    """S8: it starts after what its thread did before, and lies outside of program order."""
    event = Event(len(machine.graph.events), one.thread, one.op, proxy=proxy)
    machine.graph.events.append(event)
    Graph.join(event, one.issue)
    event.own = one.issue.own
    one.done = event
    return event


def _copied(machine: Machine, one: Flying) -> None:
    source = home(one.op.source, one.thread[0])
    reading, writing = _operation(machine, one, "async"), _operation(machine, one, "tmem")
    machine.graph.access(reading, source, reads=True, writes=False)
    machine.graph.access(writing, home(one.op.place, one.thread[0]), reads=False, writes=True)
    machine.memory[home(one.op.place, one.thread[0])] = machine.memory.get(source, 0)
    Graph.complete(writing, reading)


def _committed(machine: Machine, one: Flying) -> None:
    """The arrival hands on the copies, and implies `before` (T3)."""
    copies = 0
    for number in one.after:
        copy = machine.flying[number].done
        assert copy is not None
        copies |= copy.bit | 1 << copy.number - 1  # its write, and its read just before
    _tell(machine, one, copies, one.op.place)


def _tell(machine: Machine, one: Flying, operations: int, barrier: str) -> None:
    """P7: an arrival that hands on these operations alone."""
    event = _operation(machine, one, "tmem" if one.op.kind == "commit" else "generic")
    event.before, event.fenced, event.offered, event.ordered, event.own = operations, {}, operations, 0, 0
    event.place, event.writes, event.op = home(barrier, one.thread[0]), True, replace(one.op, sem="release")
    _arrived(machine, event, event.place, one.issue)


def _by_unit(machine: Machine, one: Flying) -> None:
    """The access of an asynchronous unit, and its completion."""
    event, place = _operation(machine, one, "async"), home(one.op.place, one.thread[0])
    writes = one.op.kind == "put"
    machine.graph.access(event, place, reads=not writes, writes=writes)
    if writes:
        machine.memory[place] = int(one.op.value or 1)
    _tell(machine, one, event.bit, one.op.source)


def _copied_in_bulk(machine: Machine, one: Flying) -> None:
    source, place = home(one.op.source, one.thread[0]), home(one.op.place, one.thread[0])
    reading, writing = _operation(machine, one, "async"), _operation(machine, one, "async")
    machine.graph.access(reading, source, reads=True, writes=False)
    machine.graph.access(writing, place, reads=one.op.kind == "radd", writes=True)
    before = machine.memory.get(place, 0) if one.op.kind == "radd" else 0
    machine.memory[place] = before + machine.memory.get(source, 0)
    if one.op.kind == "g2s":
        _tell(machine, one, writing.bit | reading.bit, one.op.value)


def _copied_by_thread(machine: Machine, one: Flying) -> None:
    """P7: cp.async, of the generic proxy."""
    source, place = home(one.op.source, one.thread[0]), home(one.op.place, one.thread[0])
    for where, writes in ((source, False), (place, True)):
        event = _operation(machine, one, "generic")
        event.is_copy = True
        machine.graph.access(event, where, reads=not writes, writes=writes)
    machine.memory[place] = machine.memory.get(source, 0)


def _grouped(machine: Machine, thread: Thread, op: Op) -> object:
    machine.graph.begin(thread, op)
    machine.groups[thread] = machine.groups.get(thread, 0) + 1
    for one in _own(machine, thread, *GROUPS[op.kind]):
        one.group = one.group or machine.groups[thread]
    return None


def _waited_for(machine: Machine, thread: Thread, op: Op) -> list[Flying]:
    """All copies of the thread but those of its newest groups, and of none."""
    last = machine.groups.get(thread, 0) - int(op.value)
    return [one for one in _own(machine, thread, *GROUPS[op.kind]) if 0 < one.group <= last]


def _copies_over(machine: Machine, thread: Thread, op: Op) -> bool:
    return all(one.done is not None for one in _waited_for(machine, thread, op))


def _copies_seen(machine: Machine, thread: Thread, op: Op) -> object:
    event = machine.graph.begin(thread, op)
    for one in _waited_for(machine, thread, op):
        assert one.done is not None
        event.before |= 1 << one.done.number - 1  # its read, just before its write
        if op.kind != "bread":
            event.before |= one.done.bit
    return None


def _loaded(machine: Machine, one: Flying) -> None:
    event = _operation(machine, one, "tmem")
    machine.graph.access(event, home(one.op.place, one.thread[0]), reads=True, writes=False)
    machine.registers[one.thread, "words"] = machine.memory.get(home(one.op.place, one.thread[0]), 0)


def _stored(machine: Machine, one: Flying) -> None:
    event = _operation(machine, one, "tmem")
    place = home(one.op.place, one.thread[0])
    machine.graph.access(event, place, reads=False, writes=True)
    machine.memory[place] = int(one.op.value or 1)


def _own(machine: Machine, thread: Thread, *kinds: str) -> list[Flying]:
    return [one for one in machine.flying if one.thread == thread and one.op.kind in kinds]


def _landed(machine: Machine, thread: Thread, op: Op) -> bool:
    kind = {"wld": "tld", "wst": "tst"}[op.kind]
    return all(one.done is not None for one in _own(machine, thread, kind))


def _landing(machine: Machine, thread: Thread, op: Op) -> object:
    event = machine.graph.begin(thread, op)
    for one in _own(machine, thread, {"wld": "tld", "wst": "tst"}[op.kind]):
        assert one.done is not None
        Graph.complete(event, one.done)
        event.own |= one.done.bit
    return None


def _use(machine: Machine, thread: Thread, op: Op) -> object:
    event = machine.graph.begin(thread, op)
    if any(one.done is None or not event.own & one.done.bit for one in _own(machine, thread, "tld")):
        machine.graph.found.append(("R", event, event))
    machine.kept(op, thread, machine.registers.get((thread, "words"), 0))
    return None


def _before(machine: Machine, thread: Thread, op: Op) -> object:
    event = machine.graph.begin(thread, op)
    event.offered |= event.own
    return None


def _after(machine: Machine, thread: Thread, op: Op) -> object:
    event = machine.graph.begin(thread, op)
    event.ordered |= event.offered
    return None


# The tables: when an operation is possible, its effect, its places


ENABLED = {
    **dict.fromkeys(("R", "cas"), _expected),
    "wait": _phase_over,
    **dict.fromkeys(("sync", "bar", "ws"), _may_meet),
    "cwait": _cluster_over,
    **dict.fromkeys(("wld", "wst"), _landed),
    **dict.fromkeys(("cpwait", "bwait", "bread"), _copies_over),
}
DOES = {
    **dict.fromkeys(("W", "R", "add", "exch", "cas", "red"), _memory),
    "init": _init,
    **dict.fromkeys(("F", "Fs"), _fence),
    **dict.fromkeys(("fpa", "fpag"), _proxy_fence),
    **dict.fromkeys(("shfl", "initf"), _nothing),
    "arr": _arrive,
    "wait": _wait,
    **dict.fromkeys(("sync", "bar", "bararr", "ws"), _meet),
    "carr": _cluster_arrive,
    "cwait": _cluster_wait,
    **dict.fromkeys(("cp", "commit", "tld", "tst", "cpa", "cparr", "put", "get", *BULK), _issue),
    **dict.fromkeys(("cpcom", "bcom"), _grouped),
    **dict.fromkeys(("cpwait", "bwait", "bread"), _copies_seen),
    **dict.fromkeys(("wld", "wst"), _landing),
    "use": _use,
    "before": _before,
    "after": _after,
}
LANDS = {
    "cp": _copied,
    "tld": _loaded,
    "tst": _stored,
    "cpa": _copied_by_thread,
    **dict.fromkeys(("commit", "cparr"), _committed),
    **dict.fromkeys(("put", "get"), _by_unit),
    **dict.fromkeys(BULK, _copied_in_bulk),
}


def _none(op: Op, cta: int, waiting: bool) -> set[tuple[object, str]]:
    return set()


def _touched(op: Op, cta: int, waiting: bool) -> set[tuple[object, str]]:
    return {(home(op.place, cta), "w" if op.writes else "r")}


def _counted(op: Op, cta: int, waiting: bool) -> set[tuple[object, str]]:
    return {(home(op.place, cta), "c" if op.kind != "wait" else "r")}


def _met(op: Op, cta: int, waiting: bool) -> set[tuple[object, str]]:
    return {(("met", cta, op.place or op.kind), "r" if waiting else "c")}


def _of_cluster(op: Op, cta: int, waiting: bool) -> set[tuple[object, str]]:
    return {("cluster", "c" if op.kind == "carr" else "r")}


def _in_flight(op: Op, cta: int, waiting: bool) -> set[tuple[object, str]]:
    return {("tensor", "w")}


def _fenced(op: Op, cta: int, waiting: bool) -> set[tuple[object, str]]:
    return {("sc", "w")} if op.sem == "sc" else set()


FOOTPRINTS = {
    **dict.fromkeys(("W", "R", "add", "exch", "cas", "red", "init"), _touched),
    **dict.fromkeys(("arr", "wait"), _counted),
    **dict.fromkeys(("sync", "bar", "bararr", "ws"), _met),
    **dict.fromkeys(("carr", "cwait"), _of_cluster),
    "F": _fenced,
}


def independent(one: Step, other: Step, program: Program) -> bool:
    """May the steps be swapped? A step in flight counts as dependent on all others but plain steps of one thread."""
    if one.who == other.who:
        return False
    if "flying" in (one.who[0], other.who[0]):
        return False
    modes: dict[object, set[str]] = {}
    for place, mode in (*one.touches(program), *other.touches(program)):
        modes.setdefault(place, set()).add(mode)
    shared = {place for place, _ in one.touches(program)} & {place for place, _ in other.touches(program)}
    return all(modes[place] in ({"r"}, {"c"}) for place in shared)


@dataclass
class Verdict:
    """kinds: of the findings, see the module. outcomes: final values. steps: how many were walked."""

    kinds: set[str] = field(default_factory=set)
    outcomes: set[Values] = field(default_factory=set)
    executions: int = 0
    steps: int = 0
    is_complete: bool = True

    @property
    def kind(self) -> str:
        """The first of R, E, D, P, T; "" for none."""
        return next((kind for kind in "REDPT" if kind in self.kinds), "")


def explore(program: Program, *, cut: str = "RE", most: int = MOST_STEPS) -> Verdict:
    """Walks all executions, until one of the kinds in ``cut`` is found."""
    verdict = Verdict()
    stack: list[tuple[Machine, frozenset[Step]]] = [(Machine(program), frozenset())]
    while stack:
        machine, sleep = stack.pop()
        steps = sorted(machine.enabled(), key=_order)
        if not steps:
            _end(machine, verdict)
            continue
        awake = [step for step in steps if step not in sleep]
        asleep = set(sleep)
        for step in awake:
            verdict.steps += 1
            if verdict.steps > most:
                verdict.is_complete = False
                return verdict
            then = machine.copy()
            then.step(step)
            verdict.kinds |= {kind for kind, *_ in then.graph.found} | ({"E"} if then.broken else set())
            if verdict.kinds & set(cut):
                return verdict
            stack.append((then, frozenset(other for other in asleep if independent(step, other, program))))
            asleep.add(step)
    return verdict


def _order(step: Step) -> tuple[bool, str]:
    return (step.who[0] == "flying", repr(step.who))


def _left_alone(machine: Machine) -> bool:
    """Is there an operation on tensor memory that no thread knows to be complete when the kernel ends?"""
    known = 0
    for last in machine.graph.last.values():
        known |= last.own | last.offered | last.ordered
    done = [one.done for one in machine.flying if one.op.kind in ("cp", "tld", "tst")]
    return any(event is not None and not known & event.bit for event in done)


def _end(machine: Machine, verdict: Verdict) -> None:
    verdict.executions += 1
    if machine.is_over and (machine.cluster or _left_alone(machine)):  # the kernel's end meets at that barrier too
        verdict.kinds.add("E")
    elif machine.is_over:
        verdict.outcomes.add(machine.outcome())
    else:
        verdict.kinds.add("D")
