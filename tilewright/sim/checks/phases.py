"""What arrivals at m-barriers have published, phase by phase.

A phase that is over publishes what its arrivals knew to whoever finds it over; arrivals at the running phase publish
nothing yet. Each m-barrier is known by the row of its CTA and its offset in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Phases"]

Known = TypeVar("Known")


@dataclass
class _State(Generic[Known]):
    phase: int
    running: Known | None = None
    over: Known | None = None


class Phases(Generic[Known]):
    """join: two pieces of knowledge as one."""

    def __init__(self, join: Callable[[Known, Known], Known]) -> None:
        self._join = join
        self._states: dict[tuple[int, int], _State[Known]] = {}

    def _joined(self, a: Known | None, b: Known | None) -> Known | None:
        if a is None or b is None:
            return b if a is None else a
        return self._join(a, b)

    def _at(self, place: tuple[int, int], phase: int) -> _State[Known]:
        state = self._states.setdefault(place, _State(phase))
        if state.phase != phase:
            state.phase, state.over, state.running = phase, self._joined(state.over, state.running), None
        return state

    def arrived(self, place: tuple[int, int], phase: int, known: Known) -> None:
        """An arrival while ``phase`` was running."""
        state = self._at(place, phase)
        state.running = self._joined(state.running, known)

    def over(self, place: tuple[int, int], phase: int) -> Known | None:
        """What the phases before the running one have published."""
        return self._at(place, phase).over

    def forget(self, place: tuple[int, int]) -> None:
        """A new m-barrier begins here."""
        self._states.pop(place, None)
