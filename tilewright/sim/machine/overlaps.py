"""Arguments that share memory: which do, and the bytes that they have together."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from tilewright.sim.machine.arrays import Array
from tilewright.sim.machine.memory import MemoryRows

__all__ = ["Group", "blocks_of", "groups_of", "name_of"]

Group: TypeAlias = tuple[tuple[str, int], ...]
"""Buffers whose memory overlaps, from low to high: name, and bytes from the first one's beginning."""

Arrays = Mapping[str, Array]


def groups_of(arrays: Arrays) -> tuple[Group, ...]:
    """The buffers that overlap others, by name; C-contiguous arrays.

    >>> a = np.zeros(10, np.int32)
    >>> groups_of({"A": a[:6], "B": a[4:], "C": np.zeros(3)})
    ((('A', 0), ('B', 16)),)
    """
    ordered = sorted((_address(array), name) for name, array in arrays.items() if array.nbytes)
    groups: list[list[tuple[str, int]]] = []
    first = end = 0
    for address, name in ordered:
        if not groups or address >= end:
            groups.append([])
            first = address
        groups[-1].append((name, address - first))
        end = max(end, address + arrays[name].nbytes)
    return tuple(tuple(group) for group in groups if len(group) > 1)


def name_of(group: Group) -> str:
    """What a report calls the memory of all of them."""
    return " and ".join(name for name, _ in group)


def blocks_of(arrays: Arrays, groups: tuple[Group, ...]) -> dict[str, MemoryRows]:
    """The block with each buffer's bytes, by name; the buffers of a group have one together, as has the group."""
    found = {name: MemoryRows.of(array) for name, array in arrays.items()}
    for group in groups:
        start = _address(arrays[group[0][0]])
        nbytes = max(offset + arrays[name].nbytes for name, offset in group)
        together = memoryview((ctypes.c_uint8 * nbytes).from_address(start))
        block = MemoryRows.of(np.frombuffer(together, np.uint8))
        found |= {name_of(group): block} | {name: block for name, _ in group}
    return found


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
