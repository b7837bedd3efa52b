"""Boxes: which bytes of an array in global memory the copy engine moves, and where in shared memory they lie.

A box is dense in shared memory, dimension 0 fastest, 16 bytes at a time; of a swizzled map, bits 4, 4-5 or 4-6 of a
shared address are XORed with bits 7, 7-8 or 7-9 of it. In global memory a box may leave the array on any side: what is
outside is filled when it is loaded, and not written when it is stored. The map says how (`ir.tensor_map`).

Source: PTX ISA, "Tensors: Tensor Access Modes, Swizzling Modes, Bounding box"; CUDA Driver API, "Tensor Map Object
Management".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import ArgumentError
from tilewright.ir.tensor_map import MAP_ALIGNMENT, MAP_BYTES, UNIT, MapFields
from tilewright.isa.machine import Addresses, Lanes, Unit

__all__ = ["Boxes", "boxes_of", "shared_alignment", "swizzled"]

TILE_ALIGNMENT = 128  # bytes; a box in shared memory begins at a multiple
QUIET_NAN = {2: {"float16": 0x7FFF, "bfloat16": 0x7FFF}, 4: {"float32": 0x7FFFFFFF}, 8: {"float64": (1 << 63) - 1}}


def shared_alignment(swizzle: int) -> int:
    """Bytes of which a box begins at a multiple, for its pattern to begin with it: 128 without a swizzle."""
    return max(TILE_ALIGNMENT, 128 << swizzle if swizzle else 0)


def swizzled(address: Lanes, swizzle: int) -> Lanes:
    """The shared address to which a swizzle moves an address.

    >>> [hex(int(swizzled(np.array(0x380), mode))) for mode in range(4)]
    ['0x380', '0x390', '0x3b0', '0x3f0']
    """
    moved: Lanes = address ^ (address >> 3 & ((1 << swizzle) - 1 << 4))
    return moved


@dataclass(frozen=True, eq=False)
class Boxes:
    """A box of each of n issuers. maps: theirs. starts: (n, dimensions). shared: (n, units), where 16-byte units are.

    array: (n, units, pieces) generic addresses of the pieces that a unit consists of, in global memory. inside: which
    of them are in the array, and belong to a box at all. width: bytes of a piece. fill: (n, width) bytes.
    """

    maps: list[MapFields]
    starts: NDArray[np.int64]
    shared: NDArray[np.int64]
    array: NDArray[np.int64]
    inside: NDArray[np.bool_]
    width: int
    fill: NDArray[np.uint8]

    @property
    def nbytes(self) -> NDArray[np.int64]:
        """Bytes of each box."""
        return np.array([one.box_bytes for one in self.maps])

    @property
    def in_array(self) -> Addresses:
        """The places of the boxes' elements in global memory."""
        return Addresses(self.array, nbytes=np.where(self.inside, self.width, 0), fill=self.fill, width=self.width)

    def in_tile(self, address: Lanes) -> NDArray[np.int64]:
        """(n, units): the places of boxes from these (n,) shared addresses on."""
        start = address.astype(np.int64)[:, None]
        return np.stack(
            [
                swizzled(at + where, int(one.swizzle))
                for at, where, one in zip(start, self.shared, self.maps, strict=True)
            ]
        )

    def check_tile(self, unit: Unit, address: Lanes, name: str) -> None:
        """A box begins at a multiple of 128 bytes; then the swizzle is that of the address's own bits."""
        wrong = address.astype(np.int64) % TILE_ALIGNMENT != 0
        if wrong.any():
            unit.fault(f"{name} is the shared address {int(address[wrong][0]):#x}; a box of a tensor map begins at a "
                       f"multiple of {TILE_ALIGNMENT} bytes", wrong)  # fmt: skip


def boxes_of(unit: Unit, address: Lanes, coords: Lanes, dim: int) -> Boxes:
    """The boxes at ``coords``, (n, dim), of the maps at (n,) generic addresses. Faults where there is no such map."""
    if (wrong := address.astype(np.int64) % MAP_ALIGNMENT != 0).any():
        unit.fault(f"the tensor map is at {int(address[wrong][0]):#x}, no multiple of {MAP_ALIGNMENT} bytes", wrong)
    data = unit.read(address, MAP_BYTES)
    maps = [_decoded(unit, row.tobytes(), k, dim) for k, row in enumerate(data)]
    starts = np.ascontiguousarray(coords).astype(np.uint32).view(np.int32).astype(np.int64).reshape(len(maps), -1)
    size = np.array([one.element.nbytes for one in maps])
    if (wrong := starts[:, 0] * size % UNIT != 0).any():
        k = int(np.argmax(wrong))
        where = f"element {starts[k, 0]} of the innermost dimension, {starts[k, 0] * size[k]} bytes"
        unit.fault(f"the box begins at {where}; the copy engine takes multiples of {UNIT} bytes", wrong)
    width = gcd(UNIT, *(one.dims[0] * one.element.nbytes for one in maps))
    found = [_placed(one, one.address, start, width) for one, start in zip(maps, starts, strict=True)]
    units = max(one.box_bytes for one in maps) // UNIT
    shared, array = np.zeros((len(maps), units), np.int64), np.zeros((len(maps), units, UNIT // width), np.int64)
    inside = np.zeros(array.shape, np.bool_)
    for k, (at, there) in enumerate(found):
        shared[k, : len(at)] = UNIT * np.arange(len(at))
        shared[k, len(at) :] = -1  # a box smaller than the largest has no more units
        array[k, : len(at)], inside[k, : len(at)] = at, there
    fill = np.stack([_fill(one, width) for one in maps])
    return Boxes(maps, starts, shared, array, inside, width, fill)


@lru_cache(maxsize=256)
def _map_of(data: bytes) -> MapFields | str:
    try:
        return MapFields.decode(data)
    except ArgumentError as error:
        return f"{error.what} is {error.given}; allowed: {error.allowed}"


def _decoded(unit: Unit, data: bytes, k: int, dim: int) -> MapFields:
    found = _map_of(data)
    this = np.arange(len(unit.rank)) == k
    if isinstance(found, str):
        unit.fault(found, this)
    if found.rank != dim:
        unit.fault(f"the tensor map has {found.rank} dimensions, the instruction {dim}", this)
    return found


def _placed(
    of: MapFields, base: int, start: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(units, pieces): addresses of the pieces of a box, and which are in the array."""
    size, counts = of.element.nbytes, of.counts
    at = start[0] * size + np.arange(0, of.inner_bytes, width).reshape(-1, UNIT // width)
    inside = (at >= 0) & (at < of.dims[0] * size)
    for d in range(1, of.rank):
        index = (start[d] + np.arange(counts[d]) * of.steps[d]).reshape(-1, *[1] * at.ndim)
        at = at + index * of.strides[d - 1]
        inside = inside & (index >= 0) & (index < of.dims[d])
    at, inside = (part.reshape(-1, UNIT // width) for part in (at, inside))
    return np.where(inside, base + at, base), inside


def _fill(of: MapFields, width: int) -> NDArray[np.uint8]:
    """The bytes of ``width`` that stand for what is outside. Which NaN the hardware takes is unconfirmed."""
    nbytes = of.element.nbytes
    value = QUIET_NAN[nbytes][of.dtype] if of.oob == "nan" else 0
    return np.frombuffer(value.to_bytes(nbytes, "little") * (max(width, nbytes) // nbytes), np.uint8)[:width]
