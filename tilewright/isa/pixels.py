"""Pixels: which bytes of an array of images the copy engine moves in im2col mode.

The array has the dimensions C, W, H, D, N or the first and last of them. A box is so many channels of so many pixels.
The pixels follow one another from where the instruction begins: W goes first, by its step, and where it has passed its
upper corner it begins again at the lower one while the next dimension goes on; after the last one comes the next image.
To the place of each pixel the instruction adds offsets; what is then outside of the array is filled. In shared memory
a pixel is a row of its channels.

Source: PTX ISA, "Tensors: Im2col mode, Im2col::w mode"; CUDA Driver API, "cuTensorMapEncodeIm2col,
cuTensorMapEncodeIm2colWide". The manuals leave open where a walk along W alone goes after its row: here, to the next
image.
"""

from __future__ import annotations

from math import gcd
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.ir.tensor_map import CORNERS, UNIT, MapFields
from tilewright.isa.boxes import Boxes, asked, check_mode, filled, swizzled
from tilewright.isa.machine import Lanes, Unit

Ints: TypeAlias = "NDArray[np.int64]"
Bools: TypeAlias = "NDArray[np.bool_]"
PART = 32  # pixels of a quarter of a walk of 128


def pixels_of(
    unit: Unit, name: str, tile: Lanes, address: Lanes, coords: Lanes, offsets: Lanes, dim: int, mode: str
) -> Boxes:
    """The boxes in im2col ``mode`` of maps, see `boxes_of`. offsets: (n, offsets) of 16 bits, which are added to the
    place of every pixel; of a walk along W alone, the pixels of the halo and what is added.
    """
    maps, starts, first = asked(unit, name, tile, address, coords, dim)
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
