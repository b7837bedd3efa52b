"""tex: a thread reads a texel of an array, or the mean of those around a place, by coordinates that need not be inside.

The texture is described in memory (`ir.tensor_map`), where its object points to. Source: PTX ISA, "Texture
Instructions: tex"; CUDA C++ Programming Guide, "Texture Fetching".
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.ir.tensor_map import ADDRESSES, RECORD, TEXELS, TEXTURE_BYTES
from tilewright.isa.arch import since
from tilewright.isa.forms import Access, Form, Meaning, Mods, Ptx, reads, writes
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.scalar.rows import words
from tilewright.isa.table import instruction

SHAPES = {"1d": (0, 1, 0), "2d": (0, 2, 0), "3d": (0, 3, 1), "a1d": (1, 1, 0), "a2d": (1, 2, 1)}
"""By the word for it: layers are counted first, so many dimensions, so many coordinates that nobody reads."""
WRAP, CLAMP, MIRROR, BORDER = range(len(ADDRESSES))
STEPS = 256  # of a weight between two texels: it has 8 bits behind the point, rounded to the nearest on an H200
UNITS = 1 << 21  # of a normalised coordinate, cut before it is multiplied: measured on an H200 (2026-12-01)
FAR = 1 << 24  # no texture has so many texels along a dimension


def coordinates(mods: Mods) -> int:
    """How many registers the coordinates of a fetch take."""
    return sum(SHAPES[str(mods["dim"])])


def fetched(
    memory: Memory, tex: Lanes, coords: Lanes, lod: Lanes | None = None, *, dim: str, type: str, coord: str
) -> Lanes:
    """The four channels of a texel: those that it lacks are 0. All textures have one level, whatever ``lod`` asks for.

    tex: addresses of descriptions; coords: (..., coordinates, 32) bits. Returns bits, (..., 4, 32).
    """
    first, dims, _ = SHAPES[dim]
    texture = np.ascontiguousarray(memory.rows(tex, TEXTURE_BYTES)).view(RECORD)[..., 0].copy()
    texture["start"] = np.where(texture["start"] == 0, tex.astype(np.uint64) + TEXTURE_BYTES, texture["start"])
    numbers = [coords[..., place, :] for place in range(first, first + dims)]
    axes = [_along(texture, axis, bits, coord) for axis, bits in enumerate(numbers)]
    layer = np.clip(coords[..., 0, :].astype(np.int64), 0, _extent(texture, dims) - 1) if first else None
    total: Any = 0
    for corner in product(*(range(len(axis)) for axis in axes)):
        ways = [axis[side] for axis, side in zip(axes, corner, strict=True)]
        inside = np.all([way[1] for way in ways], axis=0)
        weight = np.prod([way[2] for way in ways], axis=0)
        place: Any = 0 if layer is None else layer
        for axis in reversed(range(dims)):
            place = place * _extent(texture, axis) + ways[axis][0]
        texel = _texels(memory, texture, np.asarray(place))
        total = total + np.where((inside & (weight > 0))[..., None], texel * weight[..., None], 0)
    return np.moveaxis(_bits(total, texture, type), -1, -2)


def _extent(texture: NDArray[Any], axis: int) -> NDArray[np.int64]:
    return np.maximum(texture["extents"][..., min(axis, 2)].astype(np.int64), 1)


Way = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]  # a place, is it inside, its weight


def _along(texture: NDArray[Any], axis: int, bits: Lanes, coord: str) -> list[Way]:
    """The texels along a dimension that a coordinate reaches: one, or two with their weights."""
    extent, mode = _extent(texture, axis), texture["address"][..., axis]
    if coord == "s32":  # of linear memory, if there is one dimension: nothing is read outside of it
        index = bits.astype(np.uint32).view(np.int32).astype(np.int64)
        where = np.clip(index, 0, extent - 1)
        is_open = mode != BORDER if axis or texture["extents"][..., 1].any() else np.False_
        return [(where, (where == index) | is_open, np.ones(where.shape))]
    number = np.ascontiguousarray(bits.astype(np.uint32)).view(np.float32).astype(np.float64)
    is_normal = texture["normalized"] > 0
    number = np.clip(np.nan_to_num(np.where(is_normal, np.floor(number * UNITS) / UNITS * extent, number)), -FAR, FAR)
    is_linear = texture["filter"] > 0
    low = np.floor(number - 0.5 * is_linear)
    part = np.where(is_linear, np.floor((number - 0.5 - low) * STEPS + 0.5) / STEPS, 0.0)
    sides = [(low, 1 - part), (low + 1, part)] if is_linear.any() else [(low, 1 - part)]
    return [(*_inside(place.astype(np.int64), extent, mode, is_normal), weight) for place, weight in sides]


def _inside(
    index: NDArray[np.int64], extent: NDArray[np.int64], mode: NDArray[Any], is_normal: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The place that stands for an index, and whether there is one. Only normalised coordinates go round."""
    clamped = np.clip(index, 0, extent - 1)
    again = index % (2 * extent)
    mirrored = np.where(again < extent, again, 2 * extent - 1 - again)
    turned = np.where(mode == WRAP, index % extent, mirrored)
    goes_round = is_normal & ((mode == WRAP) | (mode == MIRROR))
    return np.where(goes_round, turned, clamped), (mode != BORDER) | (clamped == index)


def _texels(memory: Memory, texture: NDArray[Any], place: NDArray[np.int64]) -> NDArray[np.float64]:
    """The channels of the texels at places, (..., 32, 4), as numbers."""
    formats = texture["texel"].astype(np.int64) * 8 + texture["channels"]
    shape = np.broadcast_shapes(place.shape, formats.shape)
    texels = np.zeros((*shape, 4))
    for kind in np.unique(formats):
        here = np.broadcast_to(formats == kind, shape)
        numpy, channels = dtype(TEXELS[min(kind // 8, len(TEXELS) - 1)]).numpy, max(1, int(kind % 8))
        size = numpy.itemsize * channels
        address = np.broadcast_to(texture["start"].astype(np.int64) + place * size, shape)
        octets = memory.rows(np.where(here, address, address[here][0]), size)
        values = np.ascontiguousarray(octets).view(numpy).astype(np.float64)
        if numpy.kind in "iu":
            top = (1 << numpy.itemsize * 8 - (numpy.kind == "i")) - 1
            values = np.where(texture["floats"][..., None] > 0, np.maximum(values / top, -1.0), values)
        texels[..., :channels] = np.where(here[..., None], values, texels[..., :channels])
    return texels


def _bits(values: NDArray[np.float64], texture: NDArray[Any], type: str) -> NDArray[np.uint32]:
    """Numbers as registers of a type have them; integers that are read as floats are their bits."""
    kinds = np.array([dtype(name).numpy.kind for name in TEXELS])
    is_float = (kinds[np.minimum(texture["texel"], len(TEXELS) - 1)] == "f") | (texture["floats"] > 0)
    with np.errstate(over="ignore", invalid="ignore"):
        floats = values.astype(np.float32).view(np.uint32)
        integers = values.astype(np.int64).astype(np.uint32)
    return np.where(is_float[..., None], floats, integers)


def _form(name: str, more: str = "") -> Form:
    types = {"dim": words(*SHAPES), "type": words("f32", "u32", "s32"), "coord": words("f32", "s32")}
    return Form(
        Ptx(f"{name}{{dim}}.v4{{type}}{{coord}}", types, f"{{mnemonic}} {{r}}, [{{tex}}, {{coords}}]{more};"),
        since("sm_75"),
        'PTX ISA, "Texture Instructions: tex"',
        Meaning(fetched, "memory", ("dim", "type", "coord")),
        (Access("tex", "global", TEXTURE_BYTES, write=False, constant=True),),
        registers={"r": 4, "coords": coordinates},
    )


OPERANDS = (writes("*r", "b32"), reads("tex", "generic"), reads("*coords", "b32"))

instruction(
    "ptx.tex",
    params=("dim", "type", "coord", "tex", "r", "*coords"),
    operands=OPERANDS,
    doc="The four channels of the texel of ``tex`` at the coordinates, or of the mean of those around.",
    forms=(_form("tex"),),
)
instruction(
    "ptx.tex.level",
    params=("dim", "type", "coord", "tex", "lod", "r", "*coords"),
    operands=(*OPERANDS, reads("lod", "b32")),
    doc="The same at a level of detail: there is one.",
    forms=(_form("tex.level", ", {lod}"),),
)
