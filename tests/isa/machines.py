"""A machine small enough to be obviously right: 32 lanes a warp, a few kilobytes, one operation after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import SimulationError

WINDOW = 0x7F00_0000_0000  # where shared memory begins among generic addresses
BYTES = 4096


class PlainMemory:
    """One array of bytes per warp; warps do not share."""

    def __init__(self, data: NDArray[np.uint8], active: NDArray[np.bool_]) -> None:
        self.data = data.copy()  # (warps, bytes)
        self.active = active

    def rows(self, address: NDArray[Any], nbytes: int) -> NDArray[np.uint8]:
        warp = np.arange(len(self.data))[:, None, None]
        octets: NDArray[np.uint8] = self.data[warp, address[..., None].astype(np.int64) + np.arange(nbytes)]
        return octets

    def store_rows(self, address: NDArray[Any], data: NDArray[np.uint8]) -> None:
        for warp, lane in np.argwhere(self.active[:, : address.shape[1]]):
            start = int(address[warp, lane])
            self.data[warp, start : start + data.shape[-1]] = data[warp, lane]

    def replicas(self, address: NDArray[Any]) -> list[NDArray[Any]]:
        return [address]  # a group of one GPU

    def atomic(self, address: NDArray[Any], combine: Callable[..., Any], *values: NDArray[Any]) -> NDArray[Any]:
        old = np.zeros_like(values[0])
        for warp, lane in np.argwhere(self.active):
            start, size = int(address[warp, lane]), old.itemsize
            place = self.data[warp, start : start + size].view(old.dtype)
            old[warp, lane] = place[0]
            place[:] = combine(place.copy(), *(value[warp, lane : lane + 1] for value in values))
        return old


class PlainMachine:
    """An implementation of `tilewright.isa.machine.Machine`."""

    def __init__(self, data: NDArray[np.uint8], active: NDArray[np.bool_]) -> None:
        self.active = active
        self.shared = self.memory = PlainMemory(data, active)
        self.lines: list[str] = []

    def with_rank(self, address: NDArray[Any]) -> NDArray[Any]:
        return address

    def to_shared(self, address: NDArray[Any]) -> NDArray[Any]:
        return address - WINDOW

    def clock(self) -> int:
        return 7

    def write_text(self, count: int, line: Callable[[int], str]) -> None:
        self.lines += map(line, range(count))

    def line(self) -> str:
        return ""

    def fault(self, what: str, lanes: NDArray[np.bool_], *, hint: str | None = None) -> None:
        raise SimulationError(what, given=f"lanes {np.flatnonzero(lanes.reshape(-1)).tolist()}")
