"""Proxy fences that release, and wait for a thread that comes after them and passes one that acquires."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.order.knowledge.known import Times

__all__ = ["HalfFence"]


@dataclass(frozen=True, eq=False, slots=True)
class HalfFence:
    """The fence of the thread of a CTA, at a time. until: up to when each warp of the cluster is covered; parts:
    numbers of operations' parts that are. scope: of the fence, empty where it has none.
    """

    row: int
    thread: int
    time: int
    until: Times
    scope: str = ""
    parts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
