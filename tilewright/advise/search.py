"""The cost of each candidate: the passes of shared memory that the accesses of a run would take with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.advise.accesses import IDLE, Accesses
from tilewright.advise.candidates import Candidate, candidates
from tilewright.advise.tiles import SharedTile
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.counts import default_phase, wavefronts

__all__ = ["Choice", "cost_now", "search"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate and the passes that it costs each access, in their order. splits: would some be cut?"""

    candidate: Candidate
    passes: tuple[int, ...]
    splits: bool

    @property
    def total(self) -> int:
        """Passes of all accesses."""
        return sum(self.passes)

    @property
    def key(self) -> tuple[object, ...]:
        """Less is better: fewer passes, no narrower accesses, less memory, then what is simpler."""
        return self.total, self.splits, self.candidate.extra, self.candidate.rank


def search(tile: SharedTile, accesses: Sequence[Accesses], *, for_units: bool = False) -> list[Choice]:
    """The candidates that every access can use, the best first."""
    asked = [_Asked(tile, each) for each in accesses]
    found: list[Choice] = []
    plain = tile.before_swizzle()
    for candidate in candidates(tile, for_units=for_units):
        costs = _costs(candidate.places(tile, plain), asked)
        if costs is not None:
            found.append(Choice(candidate, tuple(passes for passes, _ in costs), any(cut for _, cut in costs)))
    return sorted(found, key=lambda choice: choice.key)


def cost_now(tile: SharedTile, accesses: Accesses) -> int:
    """Passes that the accesses take with the layout that the tile has."""
    cost = _Asked(tile, accesses).cost(_swizzled(tile))
    assert cost is not None, "the kernel has run with this layout"
    return cost[0]


def _costs(places: NDArray[np.int64], asked: Iterable[_Asked]) -> list[tuple[int, bool]] | None:
    """The passes of each access, and whether it is cut; None where one does not fit."""
    costs = []
    for each in asked:
        if (cost := each.cost(places)) is None:
            return None
        costs.append(cost)
    return costs


class _Asked:
    """One site's patterns as elements of the tile, so that any layout can say where they are."""

    def __init__(self, tile: SharedTile, accesses: Accesses) -> None:
        self.accesses = accesses
        self.bits = tile.buffer.dtype.bits
        old = _swizzled(tile)
        element_at = np.full(int(old.max()) + 1, -1, np.int64)
        element_at[old] = np.arange(len(old))
        rows = accesses.rows
        self.active = rows != IDLE
        first = np.where(self.active, rows - tile.start, 0)
        # An idle lane gets the address of the first active one.
        at = np.where(self.active, first, first[np.arange(len(rows)), self.active.argmax(1)][:, None])
        self.each = max(1, accesses.width * 8 // self.bits)  # elements of a lane
        places = at[..., None] * 8 // self.bits + np.arange(self.each)
        self.elements = element_at[np.clip(places, 0, len(element_at) - 1)]
        self.partial = not self.active[:, : accesses.lanes].all()
        self.times = accesses.times

    def cost(self, places: NDArray[np.int64]) -> tuple[int, bool] | None:
        """(passes, is it cut?), or None where a matrix row or a narrow element would not stay together."""
        now = places[self.elements]
        run = self._run(now)
        nbytes = run * self.bits // 8
        if nbytes * 8 != run * self.bits or nbytes == 0 or (run < self.each and self.accesses.is_matrix):
            return None
        return self._passes(now[..., ::run] * self.bits // 8, nbytes), run < self.each

    def _run(self, now: NDArray[np.int64]) -> int:
        """Elements that are neighbours and start at a multiple of their number."""
        run = self.each
        while run > 1:
            runs = now.reshape(*now.shape[:-1], -1, run)
            if (runs[..., 0] % run == 0).all() and (np.diff(runs, axis=-1) == 1).all():
                break
            run //= 2
        return run

    def _passes(self, at: NDArray[np.int64], nbytes: int) -> int:
        """The passes of accesses of that many bytes; the last axis of ``at`` has the pieces of a lane's access."""
        a = self.accesses
        phase = a.phase if nbytes == a.width else default_phase(nbytes)
        total = 0
        for times in np.unique(self.times).tolist():
            which = self.times == times
            rows = np.moveaxis(at[which], -1, 0).reshape(-1, 1, 32)
            active = np.tile(self.active[which], (at.shape[-1], 1))[:, None, :] if self.partial else None
            total += times * wavefronts(Address(0, Part(rows)), a.lanes, nbytes, phase, active, pairs=a.pairs)[0]
        return total


def _swizzled(tile: SharedTile) -> NDArray[np.int64]:
    """The place of each element as the kernel has it."""
    tile.before_swizzle()  # raises Cannot where elements have several places
    layout = tile.buffer.layout
    assert layout is not None
    return layout.table(tile.shape)["m"].reshape(-1)
