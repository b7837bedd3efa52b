"""What an instruction's meaning may ask of the machine that runs it.

Values come as NumPy arrays whose last axis is the 32 lanes of a warp; any axes before it are warps, CTAs, or both, and
broadcast. The simulator implements these protocols; so do small fakes in tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bulk", "Lanes", "Machine", "Memory", "Tensor"]

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


class Tensor(Protocol):
    """The tensor memory of each warp's CTA: 128 lanes by 512 columns of 32-bit cells.

    Lanes and columns are arrays of one shape (..., 32) or (..., registers, 32), whose last axis is the lanes of a warp.
    """

    def cells(self, lane: Lanes, column: Lanes) -> Lanes:
        """The uint32 in each cell."""
        ...

    def store_cells(self, lane: Lanes, column: Lanes, words: Lanes) -> None:
        """Write uint32 ``words``, one for each cell."""
        ...

    def reserve(self, columns: Lanes, requested: Lanes, pair: bool) -> Lanes:
        """Ask for ``columns`` columns of the CTA (of both CTAs of a ``pair``, when a warp of each asks).

        columns: one value per warp, (..., 32), 32 to 512, a power of two. requested: how many of them the kernel may
        touch. True in warps that have got theirs; the others ask again. Raises SimulationError where none may ask.
        """
        ...

    def allocate(self, columns: Lanes, requested: Lanes, pair: bool) -> Lanes:
        """The address of the first of the columns that were reserved, one value per warp, (..., 32)."""
        ...

    def free(self, address: Lanes, columns: Lanes, pair: bool) -> None:
        """Give back what `allocate` gave. Raises SimulationError where it did not."""
        ...

    def relinquish(self, pair: bool) -> None:
        """From now on `allocate` is an error in this CTA."""
        ...


class Bulk(Protocol):
    """Memory as the asynchronous units see it, on behalf of the ``n`` threads that issue an instruction together.

    Operands come as (n,) arrays, one value for each issuing thread; ``execute`` handles all of them at once. It is run
    twice: when issued, only to find out what will be touched (reads then give zeros), and at completion.
    """

    def pairs(self) -> Bulk:
        """The same for 2n threads: the two CTAs of each issuer's pair, the even rank first, the pairs in order.

        An (n,) operand becomes (2n,) by ``np.repeat(operand, 2)``.
        """
        ...

    def shared(self, address: Lanes, nbytes: int) -> NDArray[np.uint8]:
        """The bytes at (n, ...) shared addresses of each issuer's CTA: (n, ..., nbytes)."""
        ...

    def cells(self, lane: Lanes, column: Lanes) -> Lanes:
        """The uint32 of (n, ...) cells of tensor memory."""
        ...

    def store_cells(self, lane: Lanes, column: Lanes, words: Lanes) -> None:
        """Write (n, ...) cells of tensor memory."""
        ...

    def arrive(self, barrier: Lanes, combine: Callable[..., Lanes], *values: Lanes) -> None:
        """`Memory.atomic` on the 64-bit m-barriers at (n,) shared addresses, and a release into them."""
        ...

    def fault(self, what: str, threads: NDArray[np.bool_]) -> None:
        """Stop the kernel because of what the (n,) ``threads`` issued; raises SimulationError."""
        ...

    def arrive_everywhere(self, barrier: Lanes, ctas: Lanes, combine: Callable[..., Lanes], *values: Lanes) -> None:
        """`arrive` at the same offset in every CTA of the cluster whose bit is set in the (n,) masks ``ctas``."""
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
    def tmem(self) -> Tensor:
        """The tensor memory of each warp's CTA."""
        ...

    @property
    def active(self) -> NDArray[np.bool_]:
        """(..., 32): the lanes that execute the instruction."""
        ...

    @property
    def warp(self) -> Lanes:
        """(..., 1): the number of each warp in its CTA."""
        ...

    def to_shared(self, address: Lanes) -> Lanes:
        """Generic addresses of shared memory as offsets in the CTA's window."""
        ...

    def on_rank(self, address: Lanes, rank: Lanes) -> Lanes:
        """A shared address of the cluster's window: the same offset in the CTA of that rank."""
        ...

    def clock(self) -> int:
        """A count that never falls while a kernel runs."""
        ...

    def write_text(self, count: int, line: Callable[[int], str]) -> None:
        """Output of ``printf``: ``count`` strings, one per active lane in lane order, each made where it is wanted."""
        ...

    def fault(self, what: str, lanes: NDArray[np.bool_]) -> None:
        """Stop the kernel because of what ``lanes`` did; raises SimulationError with the kernel's line."""
        ...
