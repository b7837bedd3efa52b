"""The passes that shared memory needs to serve a warp.

Shared memory has 32 banks of 4 bytes; in one pass (wavefront) each serves one word, which any number of lanes may
read. Lanes are served in phases: 32 of them for up to 4 bytes each, 16 for 8 bytes, 8 for 16 bytes; twice as many in a
load of 8 or 16 bytes where partner lanes read the same place; a matrix instruction serves the 8 rows of one matrix at a
time. Source: CUDA C++ Programming Guide, "Shared Memory"; phases: ncu's counts on an H200 (benchmarks/gpu/counters.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Bools: TypeAlias = NDArray[np.bool_]

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
