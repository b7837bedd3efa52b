"""Which batch goes first where several may. The result of a correct kernel does not depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Ints

__all__ = ["FORWARDS", "OTHERS", "PATIENT", "Precedence"]

MOST_PARTS = 4  # each is a batch of its own: a run takes as many times as long


@dataclass(frozen=True, slots=True)
class Precedence:
    """An order of agents (CTAs, batches). halved: those from the middle on go before the others, and each part of a
    wave goes as far as it can before the next one begins. backwards: the last of that order goes first. patient:
    threads that wait for an m-barrier test it only when no other thread can go on, and no operation can complete.
    """

    halved: bool = False
    backwards: bool = False
    patient: bool = False

    def taken(self, agents: Ints) -> Ints:
        """The agents in the order in which they have their turn; they are given in the order of their numbers."""
        if self.halved:
            agents = np.roll(agents, -(len(agents) // 2))
        return agents[::-1] if self.backwards else agents

    def key(self, agent: int, agents: int, segment: int) -> int:
        """The sort key of a batch: the lowest goes first. agent: its first one, of so many in the grid."""
        rank = (agent - agents // 2) % agents << 32 if self.halved else 0
        return -(rank + segment) if self.backwards else rank + segment

    def parts(self, ctas: int, warps: int) -> list[tuple[slice, slice]]:
        """The CTAs and warps of a wave that begin together: up to four parts where agents go one after the other."""
        if not self.halved:
            return [(slice(0, ctas), slice(0, warps))]
        by_cta = _cut(ctas)
        by_warp = _cut(warps) if ctas * min(warps, MOST_PARTS) <= MOST_PARTS else [slice(0, warps)]
        return [(cta, warp) for cta in by_cta for warp in by_warp]

    def next_ctas(self, done: int, size: int, ctas: int, cluster_ctas: int) -> tuple[int, int]:
        """The first of the next ``size`` CTAs of a grid, where so many have begun, and how many there are in a row."""
        shift = ctas // cluster_ctas // 2 * cluster_ctas if self.halved and size < ctas else 0
        wrap = ctas - shift  # from here on those of the first half follow
        if self.backwards:
            end = ctas - done
            start = max(end - size, wrap if end > wrap else 0)
        else:
            start = done
            end = min(start + size, wrap if start < wrap else ctas)
        return (start + shift) % ctas, end - start


def _cut(agents: int) -> list[slice]:
    """Each agent by itself; of many, the two in the middle, one of which goes first and one last, and the others."""
    middle = agents // 2
    bounds = range(agents + 1) if agents <= MOST_PARTS else (0, middle - 1, middle, middle + 1, agents)
    return list(starmap(slice, pairwise(bounds)))


FORWARDS = Precedence()
OTHERS = (Precedence(backwards=True), Precedence(halved=True), Precedence(halved=True, backwards=True))
PATIENT = Precedence(patient=True)
