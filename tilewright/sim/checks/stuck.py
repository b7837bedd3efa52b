"""What is left at the end: tensor memory that a CTA never gave back, and operations that still touch its memory;
threads that can never go on, which the scheduler finds in every run when nothing else can run.

The signals of a wave's m-barriers are recorded, so that the report of the latter names the cause: bytes that no copy
brings, a thread that announced bytes and did not arrive, fewer arrivals than were asked for, or no signal at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import advised
from tilewright.explain.rules import CAME, PastEvent, Tale, cause_of
from tilewright.explain.steps import wait_call
from tilewright.isa import Signal, phase_of, phase_state
from tilewright.sim.checks.base import Check, hear, register
from tilewright.sim.machine import Bools, Operation, Wave, completion_text, element_text, pointer_to, where_text
from tilewright.terms import Term, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import MBarrierSignal, Subject, Team, Value


class Leaks(Check):
    def outlived(self, operation: Operation, ended: Bools) -> None:
        left = ((touched, ended[touched.rows]) for touched in operation.left_in_ctas)
        if (first := next(((touched, np.argwhere(there)[0]) for touched, there in left if there.any()), None)) is None:
            return
        access, place = first
        issuer, home = int(access.issuer[place[0]]), int(access.rows[tuple(place)])
        step = told("{}, before the end of the kernel", completion_text(operation, issuer, home))
        allowed = "an end after all asynchronous operations on its memory are complete, and waited for"
        hint = advised(step, "wait", "cta", code=wait_call(operation.group))
        what = told("the CTA ends while {} is under way", Term("operation", (operation.name,)))
        raise operation.error("leaks", what, issuer, allowed=allowed, hint=hint)

    def ended(self, wave: Wave) -> None:
        if "columns" not in vars(wave):
            return
        for row in range(wave.ctas):
            for taken in wave.columns.held(row):
                what = "the CTA ends with tensor memory that it has not given back"
                shown = f"{taken.columns} columns from column {taken.first}, CTA {wave.cta_name(row)}"
                raise SimulationError(what, given=shown, allowed="a dealloc for every alloc", at=taken.at, kind="leaks")


register("leaks", "asynchronous operations and tensor memory that outlive their CTA", Leaks)


KEPT = 1024  # events of a wave


class Stuck(Check):
    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.told: dict[Wave, deque[PastEvent]] = {}

    def start(self, wave: Wave) -> None:
        self.told[wave] = deque(maxlen=KEPT)

    def ended(self, wave: Wave) -> None:
        del self.told[wave]

    def signalled(self, event: MBarrierSignal) -> None:
        signals, kind = event.warps, event.effect.kind
        where = signals.home, signals.offset, signals.phase, np.zeros_like(signals.home)
        self.told[event.team.wave].append(PastEvent(kind, kind, event.at, *where))

    def completing(self, operation: Operation) -> None:
        for signal in operation.signals:
            assert isinstance(signal.effect, Signal)
            if not signal.effect.at_issue:
                is_bytes = signal.effect.kind == "bytes"
                nbytes = operation.amounts(signal)[signal.issuer] if is_bytes else np.zeros(len(signal.issuer))
                phase = phase_of(operation.team.wave.shared.view(8)[signal.rows, signal.at >> 3])
                where = signal.rows, signal.at, phase, nbytes.astype(np.int64)
                self.told[operation.team.wave].append(PastEvent(CAME, operation.name, operation.instruction.at, *where))

    def stuck(self, wave: Wave, waited: Sequence[tuple[int, int]]) -> str:
        if not waited:
            return ""
        first = waited[0][0] - int(wave.rank(waited[0][0]))
        cluster = range(first, first + wave.run.cluster_ctas)
        awaited = [where for where in waited if where[0] in cluster]
        told = {(row, address) for event in self.told[wave] for row, address in event.where() if row in cluster}
        tales = [self._tale(wave, *where) for where in dict.fromkeys([*awaited, *sorted(told)])]
        return cause_of(tales, len(awaited))

    def _tale(self, wave: Wave, row: int, address: int) -> Tale:
        state = phase_state(wave.shared.view(8)[row, address >> 3])
        ever, now, came = list[PastEvent](), list[PastEvent](), 0
        for event in self.told[wave]:
            if len(which := event.of(row, address)):
                ever.append(event)
                if state.alive and (event.phase[which] == state.phase).any():
                    now.append(event)
                    came += int(event.nbytes[which][event.phase[which] == state.phase].sum())
        name = element_text(self.program, self.program.places.shared_at(address), address)
        fields = (int(state.pending), int(state.expected), int(state.tx)) if state.alive else (0, 0, 0)
        is_whole = len(self.told[wave]) < KEPT
        pointer, waits = pointer_to(wave, address), [event for event in ever if event.kind == "wait"]
        asked = waits[-1].at if waits else None
        return Tale(name, wave.cta_name(row), address, *fields, now, ever, came, is_whole, pointer, asked)


# Loops that turn on the spot

HOISTED = (
    "a volatile or an atomic load of what it waits for: nothing says that another thread may change that place, and so "
    "the compiler has taken a plain load out of the loop"
)
PATIENCE = 1 << 16  # turns between two looks


class Turns:
    """Counts the turns of a loop that no other thread can end: it is endless if a turn changes none of its variables.

    leaves: does anything end the loop? hoisted: is it a compiled one that touches no memory?
    """

    def __init__(self, at: Span | None, *, leaves: bool, hoisted: bool = False) -> None:
        self.at = at
        self.leaves = leaves
        self.hoisted = hoisted
        self.count = 0
        self.before: tuple[Value, ...] = ()

    def next(self, team: Team, state: tuple[Value, ...]) -> None:
        """Raises SimulationError where nothing will end the loop: the variables are what they were a turn ago."""
        if self.hoisted:
            raise self._livelock(team, "the compiled loop reads nothing from memory, and nothing in it ends it")
        if not self.leaves:
            raise self._livelock(team, "no condition and no `break` ends it")
        self.count += 1
        if self.count % PATIENCE == 0:
            self.before = state
        elif self.count % PATIENCE == 1 and self.count > 1 and _equal(self.before, state):
            raise self._livelock(team, "a turn changes none of its variables")

    def _livelock(self, team: Team, why: str) -> SimulationError:
        shown, hint = f"{where_text(team, team.full)}: {why}", HOISTED if self.hoisted else None
        return team.error("livelock", "livelock: a loop goes on for ever", team.full, self.at, given=shown, hint=hint)


def _equal(before: tuple[Value, ...], state: tuple[Value, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(before, state, strict=True))


register("deadlock", "threads that wait at a barrier for others that never come", Stuck)
hear("", turns=Turns)
register("divergence", "a warp whose lanes can never be together for an instruction that needs them all")
register("livelock", "loops that poll memory which nobody is left to change")
