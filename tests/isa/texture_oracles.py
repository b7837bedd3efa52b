"""Texture fetches by the manual, texel by texel. Shares no code with the table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COVERED = {"ptx.tex", "ptx.tex.level"}


@dataclass
class Sampled:
    """A texture. texels: by (x,), (x, y) or (x, y, z), the layer last, lists of channels."""

    texels: dict[tuple[int, ...], Sequence[float]]
    extents: Sequence[int]
    linear: bool
    address: str
    normalized: bool


def place(texture: Sampled, index: int, extent: int) -> int | None:
    """Source: CUDA C++ Programming Guide, "Texture Memory": the addressing modes."""
    if 0 <= index < extent:
        return index
    if texture.address == "border":
        return None
    if not texture.normalized or texture.address == "clamp":
        return 0 if index < 0 else extent - 1
    if texture.address == "wrap":
        return index - extent * math.floor(index / extent)
    period, rest = math.floor(index / extent), index - extent * math.floor(index / extent)
    return extent - 1 - rest if period % 2 else rest


def fetched(texture: Sampled, numbers: Sequence[float], layer: int | None) -> list[float]:
    """Source: the same, "Nearest-Point Sampling" and "Linear Filtering": weights have 8 bits behind the point."""
    sides: list[list[tuple[int, float]]] = []
    for number, extent in zip(numbers, texture.extents, strict=False):
        scaled = math.floor(number * 2**21) * extent / 2**21 if texture.normalized else number
        if not texture.linear:
            sides.append([(math.floor(scaled), 1.0)])
            continue
        low = math.floor(scaled - 0.5)
        weight = math.floor((scaled - 0.5 - low) * 256 + 0.5) / 256
        sides.append([(low, 1 - weight), (low + 1, weight)])
    total = [0.0] * 4
    for corner in itertools.product(*sides):
        places = [place(texture, index, extent) for (index, _), extent in zip(corner, texture.extents, strict=False)]
        if None in places:
            continue
        at: Any = tuple(places)
        if layer is not None:
            at = (*at, min(max(layer, 0), texture.extents[len(numbers)] - 1))
        for channel, value in enumerate(texture.texels[at]):
            total[channel] += value * math.prod(weight for _, weight in corner)
    return total
