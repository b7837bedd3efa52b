"""Causality in one execution of a tiny program, built edge by edge from the manual's definitions.

Events come in the order of the execution; all events that happen before one are known when it comes, so that its
ancestors, a set of bits, are the transitive closure. With them are kept the events that a proxy fence has passed (for
the CTA that executed it), and those of tensor memory that `before`, and then `after`, has passed. Shares no code with
the simulator. The rules' names: PTX ISA, "Memory Consistency Model", in the words of the table in litmus.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.model.program import Op

Thread = tuple[int, int, int]  # CTA, warp, lane
Place = tuple[str, int]
TENSOR = "t"
RELEASES, ACQUIRES = ("release", "acq_rel", "sc"), ("acquire", "acq_rel", "sc")


def holds(scope: str, one: Thread, other: Thread) -> bool:
    """Is each thread in the other's scope? All CTAs of these programs are in one cluster, or in none."""
    return one == other or scope in ("cluster", "gpu", "sys") or one[0] == other[0]


@dataclass
class Event:
    """number: its bit. proxy: generic, async (shared operands of asynchronous units) or tmem. sources: the writes that
    it observes, the nearest first. first: what a release pattern that ends here may begin with, with its scope."""

    number: int
    thread: Thread
    op: Op
    place: Place | None = None
    reads: bool = False
    writes: bool = False
    proxy: str = "generic"
    before: int = 0  # ancestors
    narrow: int = 0  # ancestors as to shared memory alone
    # CTA, and whether of global memory -> ancestors that a proxy fence there has passed
    fenced: dict[tuple[int, bool], int] = field(default_factory=dict)
    halved: int = 0  # a releasing half of a proxy fence has passed
    offered: int = 0  # of tensor memory: `before` has passed
    ordered: int = 0  # and `after`
    own: int = 0  # of tensor memory: the thread itself has waited for them
    sources: list[Event] = field(default_factory=list)
    firsts: list[tuple[Event, str]] = field(default_factory=list)
    atomic: bool = False
    is_copy: bool = False  # by cp.async: of the generic proxy, and outside of its thread's program order

    @property
    def bit(self) -> int:
        return 1 << self.number

    @property
    def is_of_shared(self) -> bool:
        """A fence of shared memory alone?"""
        return self.op.kind == "Fs" or (self.op.kind == "fpa" and self.op.sem in ("release", "acquire"))

    @property
    def is_strong(self) -> bool:
        return self.op.sem != "weak"


def morally_strong(one: Event, other: Event) -> bool:
    """O6: of the same thread, or both strong, and each scope holds the other's thread; of one proxy and size."""
    in_order = not (one.is_copy or other.is_copy)
    if one.thread == other.thread and one.proxy == other.proxy == "generic" and in_order:
        return True
    same = one.proxy == other.proxy and one.op.nbytes == other.op.nbytes
    mutual = holds(one.op.scope, one.thread, other.thread) and holds(other.op.scope, one.thread, other.thread)
    return same and one.is_strong and other.is_strong and mutual


class Graph:
    """The events of an execution so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.last: dict[Thread, Event] = {}
        self.writers: dict[Place, Event] = {}
        self.accesses: dict[Place, list[Event]] = {}
        self.fences: dict[Thread, list[Event]] = {}  # that release
        self.releases: dict[tuple[Thread, Place], list[Event]] = {}
        self.strong_reads: dict[Thread, list[Event]] = {}
        self.sc_fences: list[Event] = []
        self.found: list[tuple[str, Event, Event]] = []  # (kind, earlier, later)

    def copy(self) -> Graph:
        made = Graph.__new__(Graph)
        made.events, made.last, made.writers = [*self.events], dict(self.last), dict(self.writers)
        made.accesses = {place: [*them] for place, them in self.accesses.items()}
        made.fences = {thread: [*them] for thread, them in self.fences.items()}
        made.releases = {key: [*them] for key, them in self.releases.items()}
        made.strong_reads = {thread: [*them] for thread, them in self.strong_reads.items()}
        made.sc_fences, made.found = [*self.sc_fences], [*self.found]
        return made

    # Edges

    @staticmethod
    def join(event: Event, earlier: Event) -> None:
        """An edge of causality."""
        event.before |= earlier.before | earlier.bit
        Graph._hand_on(event, earlier)

    @staticmethod
    def _hand_on(event: Event, earlier: Event) -> None:
        event.narrow |= earlier.narrow
        for where, passed in earlier.fenced.items():
            event.fenced[where] = event.fenced.get(where, 0) | passed
        event.halved |= earlier.halved
        event.offered |= earlier.offered
        event.ordered |= earlier.ordered

    @staticmethod
    def complete(event: Event, operation: Event) -> None:
        """P7: a completion hands on the operation, not its issuer's past."""
        event.before |= operation.bit
        event.fenced = {where: passed | operation.bit for where, passed in event.fenced.items()}

    def begin(self, thread: Thread, op: Op) -> Event:
        """The next event of a thread, after what it did before (program order)."""
        event = Event(len(self.events), thread, op)
        if (last := self.last.get(thread)) is not None:
            self.join(event, last)
            event.own |= last.own
        self.events.append(event)
        self.last[thread] = event
        return event

    def fence(self, event: Event) -> None:
        """S1a, S2: a fence takes over by earlier strong reads of its thread, and begins release patterns."""
        if event.op.sem in ACQUIRES:
            for read in self.strong_reads.get(event.thread, ()):
                self._take(event, read)
        if event.op.sem == "sc":
            for other in self.sc_fences:
                mutual = holds(event.op.scope, event.thread, other.thread)
                if mutual and holds(other.op.scope, other.thread, event.thread) and self._comes_first(other, event):
                    self.join(event, other)
            self.sc_fences.append(event)
        if event.op.sem in RELEASES:
            self.fences.setdefault(event.thread, []).append(event)

    def _comes_first(self, one: Event, other: Event) -> bool:
        """Must one fence.sc precede the other in Fence-SC order, in whichever way this execution orders its fences?

        So it is where communication (observed, coherence, from-reads) leads from an access after the one to an access
        before the other: if the other preceded, causality would lead back, and the two may not contradict each other.
        """
        for accesses in self.accesses.values():
            for k, later in enumerate(accesses):
                if other.before & later.bit and any(
                    earlier.before & one.bit and self._communicate(earlier, later) for earlier in accesses[:k]
                ):
                    return True
        return False

    @staticmethod
    def _communicate(one: Event, other: Event) -> bool:
        """Do strong accesses of one place, the other of which came later, come in this order for all?"""
        if not (one.is_strong and other.is_strong and (one.writes or other.writes)):
            return False
        return one in other.sources or morally_strong(one, other)

    def proxy_fence(self, event: Event) -> None:
        """P1: the asynchronous units of this CTA come after all that is known here, and the other way round. P2, for a
        pair: after all that was known at the releasing half, which is also a fence.
        """
        where = event.thread[0], event.op.kind == "fpag"
        known = event.before if where[1] else event.before | event.narrow
        passed = {"release": 0, "acquire": event.halved}.get(event.op.sem, known)
        if event.op.sem == "release":
            event.halved |= known
        event.fenced[where] = event.fenced.get(where, 0) | passed

    @staticmethod
    def take(last: Event, first: Event) -> None:
        """Two patterns meet at these ends: all that comes before, or what concerns shared memory."""
        if last.is_of_shared or first.is_of_shared:
            last.narrow |= first.before | first.bit
            Graph._hand_on(last, first)
        else:
            Graph.join(last, first)

    def _take(self, last: Event, read: Event) -> None:
        """S1d: the acquire pattern from ``read`` to ``last`` meets the release patterns of what was observed."""
        for write in read.sources:
            for first, scope in write.firsts:
                if holds(scope, first.thread, last.thread) and holds(last.op.scope, first.thread, last.thread):
                    self.take(last, first)

    # Accesses

    def access(self, event: Event, place: Place, *, reads: bool, writes: bool) -> None:
        """The event touches a place: the writes that it observes, the patterns that it ends, and its races."""
        event.place, event.reads, event.writes = place, reads, writes
        event.atomic = reads and writes
        if reads and event.is_strong and event.proxy == "generic":
            self._observe(event, self.writers.get(place))
        if writes and event.is_strong:
            self._release(event, place)
        self.judge(event, place)
        if writes:
            self.writers[place] = event
        self.accesses.setdefault(place, []).append(event)

    def observed(self, event: Event, write: Event | None) -> None:
        """S3: through read-modify-writes, each link morally strong. T2: tensor memory needs only the reading."""
        link = event
        if write is not None and write.is_strong:
            event.offered |= write.offered
        while write is not None and write.proxy == "generic" and morally_strong(link, write):
            event.sources.append(write)
            if not write.atomic:
                break
            link, write = write, (write.sources[0] if write.sources else None)

    def _observe(self, event: Event, write: Event | None) -> None:
        self.observed(event, write)
        if event.op.kind != "red":  # red never observes
            self.taking(event)

    def taking(self, event: Event) -> None:
        """A strong read: an acquire takes over at once, also by earlier strong reads of the place."""
        reads = self.strong_reads.setdefault(event.thread, [])
        reads.append(event)
        if event.op.sem in ACQUIRES:
            for read in reads:
                if read.place == event.place:
                    self._take(event, read)

    def _release(self, event: Event, place: Place) -> None:
        earlier = self.releases.setdefault((event.thread, place), [])
        if event.op.sem in RELEASES:
            earlier.append(event)
        event.firsts = [(one, one.op.scope) for one in (*earlier, *self.fences.get(event.thread, ()))]

    # Order of two accesses

    def judge(self, event: Event, place: Place) -> None:
        for other in self.accesses.get(place, ()):
            if (event.writes or other.writes) and not morally_strong(event, other):
                kind = self.missing(other, event)
                if kind:
                    self.found.append((kind, other, event))

    def missing(self, one: Event, other: Event) -> str:
        """The missing step between two conflicting accesses: "" none, "P" a proxy fence, "T" the fences of tensor
        memory around a meeting that makes the one known to be complete, "R" order.
        """
        if one.proxy == "tmem":
            if (other.ordered | other.own) & one.bit:
                return ""
            return "T" if (other.before | other.offered) & one.bit else "R"
        is_shared = one.place is not None and one.place[1] >= 0
        base = (other.before | (other.narrow if is_shared else 0)) & one.bit
        if not base and not self._seen_first(one, other):
            return "R"
        where = other.thread[0], not is_shared
        apart = one.proxy == "generic" or one.thread[0] != other.thread[0]
        if apart and other.proxy == "async" and not other.fenced.get(where, 0) & one.bit:
            return "P"
        return ""

    def _seen_first(self, one: Event, other: Event) -> bool:
        """S6: one observation may come first, at its own location."""
        if not one.writes or one.proxy != "generic":
            return False
        reads = (each for each in self.accesses.get(one.place or ("", 0), ()) if each.reads and one in each.sources)
        return any(read is other or other.before & read.bit for read in reads) or one in other.sources
