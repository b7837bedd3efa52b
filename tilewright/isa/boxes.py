"""Boxes: which bytes of an array in global memory the copy engine moves, and where in shared memory they lie.

A box is dense in shared memory, dimension 0 fastest, 16 bytes at a time; of a swizzled map, bits 4, 4-5 or 4-6 of a
shared address are XORed with bits 7, 7-8 or 7-9 of it. In global memory a box may leave the array on any side: what is
outside is filled when it is loaded, and not written when it is stored. The map says how (`ir.tensor_map`). Boxes in
im2col mode, of pixels, are below.

Source: PTX ISA, "Tensors: Tensor Access Modes, Swizzling Modes, Bounding box"; CUDA Driver API, "Tensor Map Object
Management".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import ArgumentError
from tilewright.ir.tensor_map import CORNERS, MAP_ALIGNMENT, MAP_BYTES, UNIT, MapFields
from tilewright.isa.forms import OUTSIDE
from tilewright.isa.machine import Addresses, Lanes, Unit, first_of

__all__ = ["Boxes", "asked", "boxes_of", "check_mode", "filled", "rows_of", "shared_alignment", "swizzled"]

Ints: TypeAlias = "NDArray[np.int64]"
Bools: TypeAlias = "NDArray[np.bool_]"

TILE_ALIGNMENT = 128  # bytes; a box in shared memory begins at a multiple
MODES = {"": "im2col", "w": "im2col::w", "w128": "im2col::w::128"}  # words of an instruction by `Im2col.wide`
PATTERN = 1024  # bytes after which every swizzle repeats


def shared_alignment(swizzle: int) -> int:
    """The alignment of a box in shared memory, in bytes: the period of its swizzle pattern, 128 without a swizzle."""
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
    """A box of each of n issuers. maps: one for each. starts: (n, dimensions). tile: (n, units), the shared addresses
    of its 16-byte units, or the first rows of them where the others repeat those; kept: which units are of a box at
    all, None for all.

    array: (n, units, pieces) generic addresses of the pieces that a unit consists of, in global memory; of its low
    end where the map spreads elements. inside: which
    of them are in the array, None for all. width: bytes of a piece. fill: (n, width) bytes.
    """

    maps: list[MapFields]
    starts: Ints
    tile: Ints
    kept: Bools | None
    array: Ints
    inside: Bools | None
    width: int
    fill: NDArray[np.uint8] | None

    @property
    def nbytes(self) -> Ints:
        """Bytes of each box."""
        if self.kept is None:  # all boxes have the same size
            return np.full(len(self.maps), UNIT * self.tile.shape[1])
        return np.array([fields.box_bytes for fields in self.maps])

    @property
    def in_array(self) -> Addresses:
        """The places of the boxes' elements in global memory."""
        nbytes = None if self.inside is None else np.where(self.inside, self.width, 0)
        return Addresses(self.array, nbytes=nbytes, fill=self.fill, width=self.width)


def spread_alike(unit: Unit, maps: list[MapFields]) -> None:
    """Faults where some of the maps spread elements in shared memory, and not all of them alike."""
    kinds = [fields.dtype if fields.element.spread else "" for fields in maps]
    if (wrong := np.array([kind != kinds[0] for kind in kinds])).any():
        unit.fault("threads that copy spread elements together have one type of them", wrong)


@dataclass(frozen=True, slots=True, eq=False)
class BoxRequest:
    """What threads ask of the copy engine. name: of the operand ``tile``, where boxes are in shared memory; address: of
    the tensor maps; coords: (n, coordinates).
    """

    unit: Unit
    name: str
    tile: Lanes
    address: Lanes
    coords: Lanes


def boxes_of(request: BoxRequest, dim: int) -> Boxes:
    """The boxes at ``coords``, (n, dim), of the maps at (n,) generic addresses, in shared memory from (n,) addresses
    ``tile`` on, the operand of that name. Faults where there is no such map.
    """
    unit, (maps, starts, first) = request.unit, asked(request, dim)
    check_mode(unit, maps, "")
    if all(fields is maps[0] for fields in maps):
        (low, *others) = (first % PATTERN).tolist()
        if all(other == low for other in others):
            return _alike(maps, starts, first - low, *_tile(maps[0].box_bytes // UNIT, int(maps[0].swizzle), low))
    spread_alike(unit, maps)
    return _of_each(maps, starts, request.tile.astype(np.int64))


def rows_of(request: BoxRequest) -> Boxes:
    """The same for four boxes of one row each, one behind the other in shared memory: ``coords`` are (n, 5), the column
    and the four rows, each of which may be outside.
    """
    unit, (maps, starts, first) = request.unit, asked(request, 2)
    if (wrong := np.array([fields.box[1] != 1 for fields in maps])).any():
        rows = next(fields for fields, bad in zip(maps, wrong, strict=True) if bad).box[1]
        unit.fault(f"the boxes of the tensor map have {rows} rows; four rows are taken by boxes of one", wrong)
    if any(fields is not maps[0] for fields in maps):
        unit.fault(
            "threads that take four rows together have one tensor map",
            np.array([fields is not maps[0] for fields in maps]),
        )
    fields, units = maps[0], maps[0].box_bytes // UNIT
    width = _piece(fields, leaves=True)
    placed = [_placed(fields, starts[:, [0, row]], width, leaves=True) for row in range(1, 5)]
    array, inside = (np.concatenate(part, axis=1) for part in zip(*placed, strict=True))
    there = swizzled(first[:, None] + UNIT * np.arange(4 * units), int(fields.swizzle))
    fill = np.broadcast_to(filled(fields, width), (len(maps), width))
    return Boxes(maps, starts, there, None, array, inside, width, fill)


def check_mode(unit: Unit, maps: list[MapFields], mode: str) -> None:
    """Faults where a map is not for this mode: "" for tiles, or one of `MODES`."""
    modes = ["" if fields.im2col is None else MODES[fields.im2col.wide] for fields in maps]
    if (wrong := np.array([word != mode for word in modes])).any():
        other = modes[int(np.argmax(wrong))] or "tiles"
        unit.fault(f"the tensor map is for {other}; the instruction takes one for {mode or 'tiles'}", wrong)


def asked(request: BoxRequest, dim: int) -> tuple[list[MapFields], Ints, Ints]:
    """The maps, the coordinates, and the shared addresses, of which the first rows may stand for all. Faults."""
    unit, tile, address = request.unit, request.tile, request.address
    if (wrong := address.astype(np.int64) % MAP_ALIGNMENT != 0).any():
        unit.fault(f"the tensor map is at {int(address[wrong][0]):#x}, no multiple of {MAP_ALIGNMENT} bytes", wrong)
    maps = _maps(unit, unit.read(address, MAP_BYTES), dim)
    coords = np.ascontiguousarray(request.coords).astype(np.uint32).view(np.int32)
    starts = coords.astype(np.int64).reshape(len(maps), -1)
    size = np.array([fields.element.nbytes for fields in maps])
    group = np.array([fields.element.group for fields in maps])
    if (wrong := starts[:, 0] * size % (UNIT * group) != 0).any():
        k = int(np.argmax(wrong))
        where = f"element {starts[k, 0]} of the innermost dimension, {starts[k, 0] * size[k] / group[k]:g} bytes"
        unit.fault(f"the box begins at {where}; the copy engine takes multiples of {UNIT} bytes", wrong)
    if (wrong := starts[:, 0] % np.array([fields.element.whole for fields in maps]) != 0).any():
        k = int(np.argmax(wrong))
        what = (
            f"the box begins at element {starts[k, 0]} of the innermost dimension; {maps[k].dtype} takes multiples of"
        )
        unit.fault(f"{what} {maps[k].element.whole}", wrong)
    if (wrong := tile.astype(np.int64) % TILE_ALIGNMENT != 0).any():
        what = f"{request.name} is no multiple of {TILE_ALIGNMENT} bytes, at which a box of a tensor map begins"
        unit.fault(what, wrong, address=int(tile[wrong][0]))
    return maps, starts, first_of(tile.astype(np.int64))


def _alike(maps: list[MapFields], starts: Ints, first: Ints, tile: Ints, order: Ints | None) -> Boxes:
    """Boxes of one map. tile: from ``first`` on, (units,), ascending; order: which unit of the box comes there."""
    fields = maps[0]
    leaves = not _is_inside(fields, starts)
    width = _piece(fields, leaves=leaves)
    array, inside = _placed(fields, starts, width, leaves=leaves)
    if order is not None:
        array, inside = array[:, order], None if inside is None else inside[:, order]
    fill = np.broadcast_to(filled(fields, width), (len(maps), width)) if leaves else None
    return Boxes(maps, starts, first[:, None] + tile, None, array, inside, width, fill)


def _piece(of: MapFields, *, leaves: bool) -> int:
    """Bytes of the pieces of a unit: all that a unit has of the array, or less where a box ends inside of one."""
    if of.element.spread:
        return gcd(UNIT, of.element.nbytes)
    return gcd(UNIT, of.array_bytes(of.dims[0])) if leaves else UNIT


def _of_each(maps: list[MapFields], starts: Ints, first: Ints) -> Boxes:
    """Boxes of several maps, or of different alignment in shared memory."""
    width = gcd(*(_piece(fields, leaves=True) for fields in maps))
    units = max(fields.box_bytes for fields in maps) // UNIT
    pieces = maps[0].unit_bytes // width
    tile, array = np.zeros((len(maps), units), np.int64), np.zeros((len(maps), units, pieces), np.int64)
    inside, kept = np.zeros(array.shape, np.bool_), np.zeros(tile.shape, np.bool_)
    for k, fields in enumerate(maps):
        here = np.s_[k, : fields.box_bytes // UNIT]
        at, there = _placed(fields, starts[k : k + 1], width, leaves=True)
        array[here], inside[here], kept[here] = at[0], there, True
        tile[k] = swizzled(first[k] + UNIT * np.where(kept[k], np.arange(units), -1), int(fields.swizzle))
    fill = np.stack([filled(fields, width) for fields in maps])
    return Boxes(maps, starts, tile, None if kept.all() else kept, array, inside, width, fill)


def _maps(unit: Unit, data: NDArray[np.uint8], dim: int) -> list[MapFields]:
    if (data == data[:1]).all():
        return [_decoded(unit, data[0].tobytes(), np.arange(len(data)) >= 0, dim)] * len(data)
    return [_decoded(unit, row.tobytes(), np.arange(len(data)) == k, dim) for k, row in enumerate(data)]


@lru_cache(maxsize=256)
def _map_of(data: bytes) -> MapFields | str:
    try:
        return MapFields.decode(data)
    except ArgumentError as error:
        return f"{error.what} is {error.given}; allowed: {error.allowed}"


def _decoded(unit: Unit, data: bytes, this: Bools, dim: int) -> MapFields:
    fields = _map_of(data)
    if isinstance(fields, str):
        unit.fault(fields, this)
    if fields.rank != dim:
        unit.fault(f"the tensor map has {fields.rank} dimensions, the instruction {dim}", this)
    return fields


@lru_cache(maxsize=256)
def _tile(units: int, swizzle: int, low: int) -> tuple[Ints, Ints | None]:
    """The units of a box that begins ``low`` bytes into the pattern: their places, ascending, and which is at each."""
    tile = swizzled(low + UNIT * np.arange(units), swizzle)
    order = np.argsort(tile, kind="stable")
    return tile[order], order if swizzle else None


def _is_inside(of: MapFields, starts: Ints) -> bool:
    """Do the boxes from (n, dimensions) on lie in the array?"""
    steps = (1, *of.steps[1:])
    last = starts + [(count - 1) * step for count, step in zip(of.counts, steps, strict=True)]
    return bool((starts >= 0).all() and (last < of.dims).all())


def _placed(of: MapFields, starts: Ints, width: int, *, leaves: bool) -> tuple[Ints, Bools | None]:
    """(n, units, pieces): addresses of the pieces of boxes, and which are in the array where some are not."""
    row = starts[:, 0] * of.element.nbytes // of.element.group
    first = row + starts[:, 1:] @ np.array(of.strides, np.int64)
    at = of.address + first[:, None, None] + _pattern(of, width)
    if not leaves:
        return at, None
    along = row[:, None] + np.arange(0, of.array_bytes(of.box[0]), width)
    inside = (along >= 0) & (along < of.array_bytes(of.dims[0]))
    for d in range(1, of.rank):
        index = starts[:, d : d + 1] + np.arange(of.counts[d]) * of.steps[d]
        inside = (inside[:, None] & ((index >= 0) & (index < of.dims[d]))[..., None]).reshape(len(starts), -1)
    inside = inside.reshape(at.shape)
    return np.where(inside, at, of.address), inside


@lru_cache(maxsize=256)
def _pattern(of: MapFields, width: int) -> Ints:
    """(units, pieces): where the pieces of a box are in global memory, from its first one on."""
    at = np.arange(0, of.array_bytes(of.box[0]), width)
    for count, step, stride in zip(of.counts[1:], of.steps[1:], of.strides, strict=True):
        at = (np.arange(count)[:, None] * step * stride + at).reshape(-1)
    return at.reshape(-1, of.unit_bytes // width)


def filled(of: MapFields, width: int) -> NDArray[np.uint8]:
    """The bytes of ``width`` that stand for what is outside."""
    value = OUTSIDE if of.oob == "nan" else 0
    return np.frombuffer(value.to_bytes(2, "little") * max(width // 2, 1), np.uint8)[:width]


# Pixels: which bytes of an array of images the copy engine moves in im2col mode.
#
# The array has the dimensions C, W, H, D, N or the first and last of them. A box is so many channels of so many
# pixels. The pixels follow one another from where the instruction begins: W goes first, by its step, and where it has
# passed its upper corner it begins again at the lower one while the next dimension goes on; after the last one comes
# the next image. To the place of each pixel the instruction adds offsets; what is then outside of the array is
# filled. In shared memory a pixel is a row of its channels.
#
# Source: PTX ISA, "Tensors: Im2col mode, Im2col::w mode"; CUDA Driver API, "cuTensorMapEncodeIm2col,
# cuTensorMapEncodeIm2colWide". The manuals leave open where a walk along W alone goes after its row: here, to the
# next image.

PART = 32  # pixels of a quarter of a walk of 128


def pixels_of(request: BoxRequest, offsets: Lanes, dim: int, mode: str) -> Boxes:
    """The boxes in im2col ``mode`` of maps, see `boxes_of`. offsets: (n, offsets) of 16 bits, which are added to the
    place of every pixel; of a walk along W alone, the pixels of the halo and what is added.
    """
    unit, (maps, starts, first) = request.unit, asked(request, dim)
    check_mode(unit, maps, mode)
    of = maps[0]
    if any(other != of or other.address != of.address for other in maps):
        other_map = np.array([other != of for other in maps])
        unit.fault("threads that take pixels together have one tensor map", other_map)
    added = np.ascontiguousarray(offsets).astype(np.int64).reshape(len(maps), -1)
    _check_offsets(unit, of, added, dim)
    _check_start(unit, of, starts)
    walked = walked_wide(of, starts, added) if mode.startswith("im2col::w") else walked_pixels(of, starts, added)
    width = gcd(UNIT, of.dims[0] * of.element.nbytes)
    array, inside = _of_pixels(of, starts, walked, width)
    there = swizzled(first[:, None] + UNIT * np.arange(array.shape[1]), int(of.swizzle))
    fill = np.broadcast_to(filled(of, width), (len(maps), width))
    return Boxes(maps, starts, there, None, array, inside, width, fill)


def _check_offsets(unit: Unit, fields: MapFields, added: Ints, dim: int) -> None:
    assert fields.im2col is not None
    most = 1 << (16 if fields.im2col.wide else CORNERS[dim])
    wrong: Bools = np.any(added >= most, axis=1)
    if wrong.any():
        sample = added[wrong][0].tolist()
        unit.fault(f"im2col offsets {sample}: each is 0..{most - 1} in {dim} dimensions", wrong)


def _check_start(unit: Unit, fields: MapFields, starts: Ints) -> None:
    """A walk begins in the box of pixels."""
    assert fields.im2col is not None
    for d, (low, up) in enumerate(zip(fields.im2col.lower, fields.im2col.upper, strict=True), start=1):
        last = fields.dims[d] - 1 + up
        wrong: Bools = (starts[:, d] < low) | (starts[:, d] > last)
        if wrong.any():
            where = f"the walk begins at {int(starts[wrong][0, d])} of {'CWHD'[d]}"
            unit.fault(f"{where}; the pixels of the tensor map go from {low} to {last}", wrong)


def walked_pixels(of: MapFields, starts: Ints, added: Ints) -> Ints:
    """(n, pixels, dimensions but C): where the pixels of im2col boxes are."""
    assert of.im2col is not None
    position = np.empty((len(starts), of.box[1], of.rank - 1), np.int64)
    left = np.broadcast_to(np.arange(of.box[1]), position.shape[:2])  # steps that a dimension has to go
    for d in range(of.rank - 2):
        along, left = _along(of, d, starts[:, d + 1 : d + 2], left)
        position[..., d] = along + added[:, d : d + 1]
    position[..., -1] = starts[:, -1:] + left
    return position


def walked_wide(of: MapFields, starts: Ints, added: Ints) -> Ints:
    """The same for a walk along W alone, with the pixels of a halo after it, or after each quarter of it."""
    assert of.im2col is not None
    part = PART if of.im2col.wide == "w128" else of.box[1]
    number = np.concatenate([begin + np.arange(part + int(added[0, 0])) for begin in range(0, of.box[1], part)])
    along, images = _along(of, 0, starts[:, 1:2], np.broadcast_to(number, (len(starts), len(number))))
    position = np.repeat(starts[:, None, 1:], len(number), axis=1)
    position[..., 0] = along + added[:, 1:2]
    position[..., -1] += images
    return position


def _along(of: MapFields, d: int, start: Ints, steps: Ints) -> tuple[Ints, Ints]:
    """Where so many ``steps`` from ``start`` lead along W (``d`` 0), H or D, and how often the walk began again."""
    assert of.im2col is not None
    low, step = of.im2col.lower[d], of.steps[d + 1]
    extent = of.dims[d + 1] + of.im2col.upper[d] - low
    first = -(-(extent - (start - low)) // step)  # steps of the first turn, which begins at ``start``
    whole = max(-(-extent // step), 1)
    again = steps - first
    along = np.where(again < 0, start + steps * step, low + again % whole * step)
    return along, np.where(again < 0, 0, 1 + again // whole)


def _of_pixels(of: MapFields, starts: Ints, walked: Ints, width: int) -> tuple[Ints, Bools]:
    """(n, units, pieces): addresses of the pieces of pixels, and which are in the array."""
    along = starts[:, :1] * of.element.nbytes + np.arange(0, of.inner_bytes, width)
    pixel = np.all((walked >= 0) & (walked < np.array(of.dims[1:])), axis=-1, keepdims=True)
    channel: Bools = (along >= 0) & (along < of.dims[0] * of.element.nbytes)
    inside = np.asarray(pixel & channel[:, None])
    at = of.address + (walked @ np.array(of.strides))[..., None] + along[:, None]
    shape = (len(starts), -1, UNIT // width)
    return np.where(inside, at, of.address).reshape(shape), inside.reshape(shape)
