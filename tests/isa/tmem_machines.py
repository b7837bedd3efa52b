"""Machines with tensor memory, small enough to be obviously right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.isa.machines import PlainMachine
from tilewright.errors import SimulationError

Array = NDArray[Any]


class PlainTmem:
    """128 lanes by some columns, shared by all warps; allocations are only written down."""

    def __init__(self, words: Array) -> None:
        self.words = words.copy()
        self.asked: list[tuple[Any, ...]] = []

    def cells(self, lane: Array, column: Array) -> Array:
        return self.words[lane, column]

    def store_cells(self, lane: Array, column: Array, words: Array) -> None:
        self.words[lane, column] = words

    def reserve(self, columns: Array, requested: Array, pair: bool) -> Array:
        return np.ones(columns.shape, np.bool_)

    def allocate(self, columns: Array, requested: Array, pair: bool) -> Array:
        self.asked.append(("allocate", columns[0, 0], requested[0, 0], pair))
        return np.full(columns.shape, 64, np.uint32)

    def free(self, address: Array, columns: Array, pair: bool) -> None:
        self.asked.append(("free", address[0, 0], columns[0, 0], pair))

    def relinquish(self, pair: bool) -> None:
        self.asked.append(("relinquish", pair))


class TmemMachine(PlainMachine):
    """A machine whose warps are all of one CTA, the first of them number ``warp``."""

    def __init__(self, words: Array, *, warp: int = 0, warps: int = 1, active: Array | None = None) -> None:
        super().__init__(np.zeros((warps, 64), np.uint8), np.ones((warps, 32), bool) if active is None else active)
        self.tmem = PlainTmem(words)
        self.warp = warp + np.arange(warps)[:, None]

    def on_rank(self, address: Array, rank: Array) -> Array:
        return address + (rank + 1 << 24)


class PlainBulk:
    """What `tilewright.isa.machine.Bulk` asks for: issuer i is the only thread of CTA ``ctas[i]``."""

    def __init__(self, shared: Array, words: Array, ctas: list[int]) -> None:
        self.bytes = shared  # (CTAs, bytes)
        self.words = words  # (CTAs, 128, 512)
        self.ctas = np.array(ctas)
        self.arrivals: list[tuple[Any, ...]] = []

    def _cta(self, like: Array) -> Array:
        return self.ctas.reshape(-1, *[1] * (like.ndim - 1))

    def pairs(self) -> PlainBulk:
        both = [cta for one in self.ctas for cta in (one // 2 * 2, one // 2 * 2 + 1)]
        return PlainBulk(self.bytes, self.words, both)

    def shared(self, address: Array, nbytes: int) -> NDArray[np.uint8]:
        return self.bytes[self._cta(address)[..., None], address[..., None] + np.arange(nbytes)]

    def cells(self, lane: Array, column: Array) -> Array:
        return self.words[self._cta(lane), lane, column]

    def store_cells(self, lane: Array, column: Array, words: Array) -> None:
        self.words[np.broadcast_to(self._cta(lane), lane.shape), lane, column] = words

    def arrive(self, barrier: Array, combine: Callable[..., Array], *values: Array) -> None:
        self.arrivals.append((barrier, combine, values))

    def arrive_everywhere(self, barrier: Array, ctas: Array, combine: Callable[..., Array], *values: Array) -> None:
        self.arrivals.append((barrier, ctas, combine, values))

    def fault(self, what: str, threads: NDArray[np.bool_]) -> None:
        raise SimulationError(what, given=f"issuers {np.flatnonzero(threads).tolist()}")
