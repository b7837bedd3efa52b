"""Textures: descriptions, for the texture unit, of an array of texels and of how coordinates reach them.

A texture object is a number of 64 bits that only the driver knows; here it is the address of a description in memory,
as this room lays it out. Source: CUDA Runtime API, "Texture Object Management"; CUDA C++ Programming Guide, "Texture
Fetching".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import ArgumentError, choices

TEXTURE_BYTES = 64
TEXELS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32")
"""Types of a channel, by their numbers."""
ADDRESSES = ("wrap", "clamp", "mirror", "border")
"""What stands for coordinates outside of the array, by their numbers in CUDA."""
FILTERS = ("point", "linear")
CHANNELS = (1, 2, 4)
RECORD = np.dtype(
    {
        "names": ["start", "extents", "channels", "texel", "filter", "normalized", "floats", "address"],
        "formats": ["<u8", ("<u4", (3,)), "u1", "u1", "u1", "u1", "u1", ("u1", (3,))],
        "offsets": [0, 8, 20, 21, 22, 23, 24, 25],
        "itemsize": TEXTURE_BYTES,
    }
)
"""The bytes of a description."""


@dataclass(frozen=True, slots=True)
class TextureFields:
    """A texture. extents: along x, y and z, or layers, as many as there are. texel: of `TEXELS`. filter: of `FILTERS`.
    address: of `ADDRESSES`. normalized: coordinates from 0 to 1 reach all of it. floats: integers are read as numbers
    from 0 to 1, or -1 to 1. start: the address of the first texel; 0 of texels that lie behind the description.

    Raises ArgumentError for what no texture has.
    """

    extents: Sequence[int]
    texel: str
    channels: int = 1
    filter: str = "point"
    address: str = "clamp"
    normalized: bool = False
    floats: bool = False
    start: int = 0

    def __post_init__(self) -> None:
        allowed: Mapping[str, Sequence[object]] = {
            "texel": TEXELS, "channels": CHANNELS, "filter": FILTERS, "address": ADDRESSES,
        }  # fmt: skip
        for name, every in allowed.items():
            if (value := getattr(self, name)) not in every:
                said = choices(str(value), [*map(str, every)])
                raise ArgumentError(f"a texture has no such {name}", given=f"{value}", allowed=said)
        if not 1 <= len(self.extents) <= 3 or min(self.extents) < 1:
            raise ArgumentError("a texture has 1 to 3 dimensions", given=f"{tuple(self.extents)}")

    def at(self, start: int) -> TextureFields:
        """The same of an array elsewhere."""
        return replace(self, start=start)

    def encode(self) -> bytes:
        """The description as it lies in memory."""
        record = np.zeros((), RECORD)
        record["start"], record["channels"], record["texel"] = self.start, self.channels, TEXELS.index(self.texel)
        record["extents"] = (*self.extents, *[0] * (3 - len(self.extents)))
        record["filter"], record["address"] = FILTERS.index(self.filter), ADDRESSES.index(self.address)
        record["normalized"], record["floats"] = self.normalized, self.floats
        return record.tobytes()
