"""What an instruction's meaning may ask of the machine that runs it.

Values come as NumPy arrays whose last axis is the 32 lanes of a warp; any axes before it are warps, CTAs, or both, and
broadcast. The simulator implements these protocols; so do small fakes in tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lanes", "Machine", "Memory"]

Lanes = NDArray[Any]  # (..., 32): one value per lane; Any because each instruction knows the dtype of its own


class Memory(Protocol):
    """Byte-exact memory. Addresses are checked for bounds and alignment before a meaning runs."""

    def rows(self, address: Lanes, nbytes: int) -> NDArray[np.uint8]:
        """The ``nbytes`` from each address on: (..., n) addresses give (..., n, nbytes) bytes, contiguous."""
        ...

    def store_rows(self, address: Lanes, data: NDArray[np.uint8]) -> None:
        """Write (..., n, nbytes) bytes at (..., n) addresses; of two lanes with one address, the later wins."""
        ...

    def atomic(self, address: Lanes, combine: Callable[..., Lanes], *values: Lanes) -> Lanes:
        """Each active lane in turn, lane 0 first: reads its place, writes ``combine(old, *values)``; returns the olds.

        Places have the dtype of the values. ``combine`` works on arrays: lanes with different addresses may go at once.
        """
        ...


class Machine(Protocol):
    """The machine as one instruction sees it."""

    @property
    def shared(self) -> Memory:
        """The shared memory of each warp's CTA; addresses are offsets in its window."""
        ...

    @property
    def memory(self) -> Memory:
        """Everything in one address space: generic addresses."""
        ...

    @property
    def active(self) -> NDArray[np.bool_]:
        """(..., 32): the lanes that execute the instruction."""
        ...

    def to_shared(self, address: Lanes) -> Lanes:
        """Generic addresses of shared memory as offsets in the CTA's window."""
        ...

    def clock(self) -> int:
        """A count that never falls while a kernel runs."""
        ...

    def write_text(self, lines: list[str]) -> None:
        """Output of ``printf``, one string per active lane in lane order."""
        ...

    def fault(self, what: str, lanes: NDArray[np.bool_]) -> None:
        """Stop the kernel because of what ``lanes`` did; raises SimulationError with the kernel's line."""
        ...
