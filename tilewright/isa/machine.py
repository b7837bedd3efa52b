"""What an instruction's meaning may ask of the machine that runs it; the passes that shared memory takes to serve a
warp, on every machine; and what asynchronous families have in common.

Values come as NumPy arrays whose last axis is the 32 lanes of a warp; any axes before it are warps, CTAs, or both, and
broadcast. The simulator implements these protocols; so do small fakes in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.forms import Access

if TYPE_CHECKING:
    from tilewright.isa.forms import Form

__all__ = [
    "SECTOR_BYTES", "Addresses", "Lanes", "Machine", "Memory", "Tensor", "Unit", "first_of", "unit_of",
]  # fmt: skip


if TYPE_CHECKING:
    Ints: TypeAlias = NDArray[np.int64]
    Bools: TypeAlias = NDArray[np.bool_]

SECTOR_BYTES = 32  # of global memory: the least that an access moves

Lanes = NDArray[Any]  # (..., 32): one value per lane; Any, since each instruction knows its dtypes


class Memory(Protocol):
    """Byte-exact memory. Addresses are checked for bounds and alignment before a meaning runs."""

    def rows(self, address: Lanes, nbytes: int) -> NDArray[np.uint8]:
        """The ``nbytes`` from each address on: (..., n) addresses give (..., n, nbytes) bytes, contiguous."""

    def store_rows(self, address: Lanes, data: NDArray[np.uint8]) -> None:
        """Write (..., n, nbytes) bytes at (..., n) addresses; of two lanes with one address, the later wins."""

    def atomic(self, address: Lanes, combine: Callable[..., Lanes], *values: Lanes) -> Lanes:
        """Each active lane in turn, lane 0 first: reads its place, writes ``combine(old, *values)``; returns the olds.

        Places have the dtype of the values. ``combine`` works on arrays: lanes with different addresses may go at once.
        """

    def replicas(self, address: Lanes) -> Sequence[Lanes]:
        """For each GPU the addresses of its places that multicast addresses name."""


class Tensor(Protocol):
    """The allocation of tensor memory in each warp's CTA: 128 lanes by 512 columns of 32-bit cells."""

    def reserve(self, columns: Lanes, requested: Lanes, pair: bool) -> Lanes:
        """Ask for ``columns`` columns of the CTA (of both CTAs of a ``pair``, when a warp of each asks).

        columns: one value per warp, (..., 32), 32 to 512, a power of two. requested: how many of them the kernel may
        touch. True in warps that have got their columns; the others ask again. Raises SimulationError where asking is
        an error.
        """

    def allocate(self, columns: Lanes, requested: Lanes, pair: bool) -> Lanes:
        """The address of the first of the columns that were reserved, one value per warp, (..., 32)."""

    def free(self, address: Lanes, columns: Lanes, pair: bool) -> None:
        """Give back what `allocate` gave. Raises SimulationError where it did not."""

    def relinquish(self, pair: bool) -> None:
        """From now on `allocate` is an error in this CTA."""


class Unit(Protocol):
    """An asynchronous unit, on behalf of the ``n`` threads, warps or warpgroups that issue an instruction together.

    Arrays have those along their first axis. `AsyncMeaning.addresses` may ask it where they are.
    """

    @property
    def rank(self) -> NDArray[np.int64]:
        """(n,): the place of each issuer's CTA in its cluster."""

    @property
    def warp(self) -> NDArray[np.int64]:
        """(n,): the number of each issuer's warp, the first of a warpgroup, in its CTA."""

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster."""

    def read(self, address: NDArray[Any], nbytes: int) -> NDArray[np.uint8]:
        """(n, nbytes): what global memory has from each issuer's generic address on, as the instruction is issued."""

    def kept(self, buffer: str) -> NDArray[np.uint64]:
        """(CTAs of all clusters,): what each CTA's unit keeps in a buffer of its own, 0 for nothing, to be changed in
        place; `cta` has each issuer's.
        """

    @property
    def cta(self) -> NDArray[np.int64]:
        """(n,): the CTA of each issuer among them."""

    def take_clusters(self) -> NDArray[np.uint32]:
        """(n, 4): for each issuer whether it gets a cluster that has not begun, and the numbers of its first CTA."""

    def fault(self, what: str, issuers: NDArray[np.bool_], *, address: int | None = None) -> NoReturn:
        """Stop the kernel because of what the issuers in ``issuers`` issued; raises SimulationError.

        address: that it is about, in shared memory or generic.
        """


@dataclass(frozen=True, eq=False, slots=True)
class Addresses:
    """Where an operation touches memory or signals: ``m`` rows of places, (m, ...).

    at: bytes of shared memory, generic addresses, or lanes of tensor memory, where ``column`` has the columns; of
    shared memory fewer rows are enough where the others repeat them in turn. issuer:
    (m,), on whose behalf each row is; None for one row for each of the n. rank: (m,), in whose CTA of the cluster; None
    for the issuer's own, unless an address of the cluster's window says another. nbytes: (m, ...), how many of an
    access's bytes are touched from each address on; None for all. What is then not read counts as zeros, or as
    ``fill``, (n, width) bytes of each issuer. width: bytes of each place where they depend on the call; None for the
    access's own. Of a signal, nbytes is its amount. Under a name of `AsyncMeaning.takes`, ``at`` is what it gets.
    """

    at: NDArray[Any]
    column: NDArray[Any] | None = None
    issuer: NDArray[np.int64] | None = None
    rank: NDArray[np.int64] | None = None
    nbytes: NDArray[np.int64] | None = None
    fill: NDArray[np.uint8] | None = None
    width: int | None = None


class Machine(Protocol):
    """The machine as one instruction sees it."""

    @property
    def shared(self) -> Memory:
        """The shared memory of each warp's CTA; addresses are offsets in its window."""

    @property
    def memory(self) -> Memory:
        """Everything in one address space: generic addresses."""

    @property
    def tmem(self) -> Tensor:
        """The tensor memory of each warp's CTA."""

    @property
    def active(self) -> NDArray[np.bool_]:
        """(..., 32): the lanes that execute the instruction."""

    @property
    def warp(self) -> Lanes:
        """(..., 1): the number of each warp in its CTA."""

    def to_shared(self, address: Lanes) -> Lanes:
        """Generic addresses of shared memory as offsets in the CTA's window."""

    def with_rank(self, address: Lanes) -> Lanes:
        """A shared address as a kernel sees it: in a cluster its upper bits say whose shared memory that is."""

    def on_rank(self, address: Lanes, rank: Lanes) -> Lanes:
        """A shared address of the cluster's window: the same offset in the CTA of that rank."""

    def rank_of(self, address: Lanes) -> Lanes:
        """The rank of the CTA that a shared address of the cluster's window leads into."""

    def clock(self) -> int:
        """A count that never falls while a kernel runs."""

    def write_text(self, count: int, line: Callable[[int], str]) -> None:
        """Output of ``printf``: ``count`` strings, one per active lane in lane order, each made where it is wanted."""

    def depends(self, word: str) -> None:
        """Threads wait for the grids that theirs depends on ("wait"), or let dependent ones begin ("launch")."""

    def done_by_warpgroup(self, value: Lanes) -> None:
        """Each warp does what all four of its warpgroup have to do, as often and with the same values, perhaps in other
        places: that is judged when the CTA has ended.
        """

    def line(self) -> str:
        """The line of the author's text; empty where nobody knows it."""

    def fault(self, what: str, lanes: NDArray[np.bool_], *, hint: str | None = None) -> None:
        """Stop the kernel because of what ``lanes`` did; raises SimulationError with the kernel's line."""


def first_of(values: Lanes) -> Lanes:
    """The first of (n,) values that the others repeat in turn; all of them where that is not so.

    >>> first_of(np.array([8, 24, 8, 24, 8, 24]))
    array([ 8, 24])
    """
    again = np.flatnonzero(values[1:] == values[0])
    count = int(again[0]) + 1 if len(again) else len(values)
    alike = len(values) % count == 0 and bool((values.reshape(-1, count) == values[:count]).all())
    return values[:count] if alike else values


# The passes that shared memory needs to serve a warp.
#
# Shared memory has 32 banks of 4 bytes; in one pass (wavefront) each serves one word, which any number of lanes may
# read. Lanes are served in phases: 32 of them for up to 4 bytes each, 16 for 8 bytes, 8 for 16 bytes; twice as many in
# a load of 8 or 16 bytes where partner lanes read the same place; a matrix instruction serves the 8 rows of one matrix
# at a time. Source: CUDA C++ Programming Guide, "Shared Memory"; phases: ncu's counts on an H200
# (benchmarks/gpu/counters.py).


BANK_BYTES, BANKS = 4, 32
EVERY = BANK_BYTES * BANKS


def default_phase(width: int) -> int:
    """Lanes that are served together."""
    return max(1, min(32, EVERY // max(width, BANK_BYTES)))


def at_one_place(lanes: int, phase: int, active: Bools | None) -> tuple[int, int]:
    """The same where all lanes name one address: a pass for each phase that anybody takes part in."""
    phase = min(phase, lanes)
    if active is None:
        return lanes // phase, lanes // phase
    taking_part = np.broadcast_to(active, (*active.shape[:-1], 32))[..., :lanes]
    some = int(np.count_nonzero(taking_part.reshape(-1, phase).any(1)))
    return some, some


def passes(address: Ints, lanes: int, width: int, phase: int, active: Bools | None, *, pairs: bool) -> tuple[int, int]:
    """What the warps of addresses (..., 32) or (..., 1) need, and the fewest there could be.

    lanes: how many of each warp count; active: which of them. phase: so many are served together; pairs: twice as many
    where partners ask for the same.
    """
    shape = address.shape if active is None else np.broadcast_shapes(address.shape, active.shape)
    warps = np.broadcast_to(address, (*shape[:-1], 32)).reshape(-1, 32)
    taking_part = None if active is None else np.broadcast_to(active, (*shape[:-1], 32)).reshape(-1, 32)
    if pairs and phase < 32:
        alike = _partners_ask_alike(warps, taking_part)
        if alike.any():
            sides = [(alike, 2 * phase), (~alike, phase)]
            turns = [
                _of_warps(warps[of], lanes, width, side, None if taking_part is None else taking_part[of])
                for of, side in sides
            ]
            return turns[0][0] + turns[1][0], turns[0][1] + turns[1][1]
    return _of_warps(warps, lanes, width, phase, taking_part)


def _partners_ask_alike(warps: Ints, active: Bools | None) -> Bools:
    """For each warp: does every lane i that takes part read the place of lane i ^ 1, or every lane that of i ^ 2?

    A partner that takes no part counts as agreeing. Not in any manual: these are ncu's counts on an H200, which
    hundreds of patterns agree with (benchmarks/gpu/counters.py); stores have no such rule.
    """
    lane = np.arange(32)
    alike = np.zeros(len(warps), np.bool_)
    for step in (1, 2):
        same = warps == warps[:, lane ^ step]
        if active is not None:
            same |= ~(active & active[:, lane ^ step])
        alike |= same.all(1)
    return alike


def _of_warps(warps: Ints, lanes: int, width: int, phase: int, active: Bools | None) -> tuple[int, int]:
    """The passes of whole warps, (n, 32); each phase takes as many as its busiest bank has different words."""
    unit = max(width, BANK_BYTES)
    banks = max(1, EVERY // unit)
    units = (warps // unit)[:, :lanes].reshape(-1, min(phase, lanes))
    if active is None:
        served = np.bitwise_or.reduce(1 << (units % banks), axis=1)
        if banks == units.shape[1] and (served == (1 << banks) - 1).all():
            return len(units), len(units)
        some = len(units)
    else:
        taking_part = active[:, :lanes].reshape(units.shape)
        units = np.where(taking_part, units, -1)
        some = int(taking_part.any(1).sum())
    ordered = np.sort(units, axis=1)
    distinct = ordered >= 0
    distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    where = (np.arange(len(units))[:, None] * banks + ordered % banks)[distinct]
    per_bank = np.bincount(where, minlength=len(units) * banks).reshape(-1, banks)
    return int(per_bank.max(1).sum()), some


# What families of asynchronous instructions have in common: their accesses, and places in other CTAs.


def access_of_unit(operand: str, space: str, *, write: bool, unfenced: bool = False) -> Access:
    """An access of an asynchronous unit, 16 bytes at a time, at addresses that it computes."""
    return Access(operand, space, 16, write=write, proxy="async", computed=True, unfenced=unfenced)


def combined_by_unit(operand: str, space: str) -> tuple[Access, Access]:
    """The accesses of a reduction: its places are read and written as one."""
    read = replace(access_of_unit(operand, space, write=False), rmw=True, sem="relaxed", scope="gpu")
    return read, replace(read, write=True)


def in_ctas(unit: Unit, address: Lanes, ctas: Lanes) -> Addresses:
    """The same shared addresses, (n, ...), in every CTA of the cluster whose bit is set in the (n,) masks ``ctas``."""
    size, bits = unit.cluster_ctas, ctas.astype(np.int64)
    if (nobody := bits >> size != 0).any():
        first = int(bits[nobody][0]) >> size
        bit = size + (first & -first).bit_length() - 1
        unit.fault(f"cta_mask has bit {bit}, but the ranks of the cluster's CTAs are 0..{size - 1}", nobody)
    issuer, rank = np.nonzero(bits[:, None] >> np.arange(size) & 1)
    return Addresses(address[issuer], issuer=issuer, rank=rank)


def in_pairs(unit: Unit) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``issuer`` and ``rank`` of `Addresses` for both CTAs of each issuer's pair, the even rank first."""
    if unit.cluster_ctas % 2:
        unit.fault("cta_group=2 is for pairs of CTAs: the cluster has an even number of them", unit.rank >= 0)
    issuer = np.repeat(np.arange(len(unit.rank)), 2)
    return issuer, unit.rank[issuer] // 2 * 2 + np.arange(len(issuer)) % 2


UNITS = {
    "cp.async": "cp.async", "cp.async.bulk": "TMA", "wgmma": "tensor core", "tmem": "tcgen05",
    "tmem.load": "tensor memory", "tmem.store": "tensor memory",
}  # fmt: skip
"""By the group with which operations are counted."""


def unit_of(form: Form) -> str:
    """What carries an operation out: TMA, tensor core, cp.async, tcgen05, tensor memory, or memory for the rest."""
    effect = form.issue or form.commit
    by_engine = any(access.proxy == "async" for access in form.touched)
    return UNITS.get(effect.group if effect else "") or ("TMA" if by_engine else "memory")
