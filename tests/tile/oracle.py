"""The oracle of copies, element by element, from `table()` alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.tile.kernels import extents
from tests.tile.machine import Ints
from tilewright.ir import Buffer, Region
from tilewright.primitives import PRIMITIVES

OWN = {
    "laneid": lambda tid: tid % 32,
    "warpid": lambda tid: tid // 32,
    "wid_in_wg": lambda tid: tid // 32 % 4,
    "wgid": lambda tid: tid // 128,
    "tid_in_wg": lambda tid: tid % 128,
    "tx": lambda tid: tid,
}


def fresh_memory(buffers: list[Buffer], threads: int, first: int = 0) -> dict[str, Ints]:
    """Tags that are all different."""
    memory: dict[str, Ints] = {}
    for buffer in buffers:
        size = buffer.storage_size()
        shape = (threads, size) if buffer.space == "local" else (size,)
        memory[buffer.name] = np.arange(first, first + int(np.prod(shape))).reshape(shape)
        first += memory[buffer.name].size
    return memory


def placed(region: Region) -> dict[str, Ints]:
    """For each axis the coordinates of the region's elements, (elements, replicas), in row-major order."""
    assert region.buffer.layout is not None
    part = tuple(slice(start, start + extent) for start, extent in region.box)
    table = region.buffer.layout.table(extents(region.buffer))
    cut = {axis: values[part].reshape(-1, values.shape[-1]) for axis, values in table.items()}
    return cut | ({} if "m" in cut else {"m": np.zeros(next(iter(cut.values())).shape, np.int64)})


def holders(place: dict[str, Ints], threads: int) -> NDArray[np.bool_]:
    """(elements, replicas, threads): does the thread hold the element? An absent axis tells no threads apart."""
    held = np.ones((*place["m"].shape, threads), np.bool_)
    tid = np.arange(threads)
    for axis, values in place.items():
        if axis != "m":
            held &= values[:, :, None] == OWN[axis](tid)
    return held


def filled(dst: Region, tag: int, memory: dict[str, Ints], threads: int) -> dict[str, Ints]:
    """The memory after ``dst`` got one tag, in every place of each element."""
    after = {name: tags.copy() for name, tags in memory.items()}
    buffer, array = dst.buffer, np.zeros(extents(dst.buffer), np.int64)
    inside = tuple(slice(max(start, 0), max(start + extent, 0)) for start, extent in dst.box)
    PRIMITIVES["fill"].meaning(array[inside], 1)
    place = placed(buffer.region())
    for element in np.flatnonzero(array):
        for replica, slot in enumerate(place["m"][element]):
            if buffer.space == "local":
                here = holders({a: v[element : element + 1] for a, v in place.items()}, threads)[0, replica]
                after[buffer.name][here, slot] = tag
            else:
                after[buffer.name][slot] = tag
    return after


def copied(dst: Region, src: Region, memory: dict[str, Ints], threads: int) -> dict[str, Ints]:
    """The memory after the copy by one scope of ``threads`` threads, the first ones of the CTA."""
    after = {name: tags.copy() for name, tags in memory.items()}
    to, source = placed(dst), placed(src)
    if src.buffer.space == "local":
        first = holders(source, threads)[:, 0].argmax(axis=1)
        tags = memory[src.buffer.name][first, source["m"][:, 0]]
    else:
        tags = memory[src.buffer.name][source["m"][:, 0]]
    for element, replica in np.ndindex(to["m"].shape):
        slot = to["m"][element, replica]
        if dst.buffer.space == "local":
            here = np.flatnonzero(holders({a: v[element : element + 1] for a, v in to.items()}, threads)[0, replica])
            after[dst.buffer.name][here, slot] = tags[element]
        else:
            after[dst.buffer.name][slot] = tags[element]
    return after


MISSING = -1


def addresses(local: Region, shared: Region, threads: int, unit: int, *, store: bool) -> list[Ints]:
    """The shared address of each slot, (32, slots) for each warp that holds something; MISSING where it holds no
    element. unit: from an element to the next.
    """
    place, memory = placed(local), placed(shared)["m"][:, 0]
    held = holders(place, threads)
    tables = np.full((threads, local.buffer.storage_size()), MISSING)
    for element, replica in np.ndindex(place["m"].shape):
        who = np.flatnonzero(held[element, replica])
        if store:
            who = who[:1] if replica == 0 else who[:0]
        tables[who, place["m"][element, replica]] = unit * memory[element]
    warps = tables.reshape(-1, 32, tables.shape[1])
    return [warp for warp in warps if (warp != MISSING).any()]


def covered_registers(tables: list[Ints], bits: int) -> Ints | None:
    """The numbers of the registers that every lane holds, if it holds no parts of others."""
    covered = {tuple(lane != MISSING) for f in tables for lane in f}
    if len(covered) != 1:
        return None
    slots = np.flatnonzero(covered.pop())
    numbers = np.unique(slots * bits // 32)
    each = np.arange(32 // bits)
    return numbers if np.array_equal(slots, np.add.outer(numbers * 32 // bits, each).reshape(-1)) else None


def is_injective(tables: list[Ints]) -> bool:
    """Have all slots that hold an element addresses of their own?"""
    used = np.concatenate([f[f != MISSING] for f in tables])
    return len(np.unique(used)) == len(used)
