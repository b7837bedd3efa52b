"""The oracle of copies, element by element, from `table()` alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    table = region.buffer.layout.table(region.buffer.shape)
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
    buffer, array = dst.buffer, np.zeros(dst.buffer.shape, np.int64)
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
