"""Textures of host code: how coordinates reach them. Source: CUDA Runtime API, "Texture Object Management"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilewright.ir.tensor_map import ADDRESSES, FILTERS, TextureFields

REFERENCE = re.compile(r"\btexture\s*<")  # which CUDA 12 lacks
OBJECTS = ("cudaTextureObject_t", "cudaSurfaceObject_t", "CUtexObject")
_MODES = {"Wrap": "wrap", "Clamp": "clamp", "Mirror": "mirror", "Border": "border"}
_FETCH = r"\btex(\d)D(Layered|fetch|Lod)?\s*(?:<\s*([\w:]+?)(\d)?\s*>)?\s*\(\s*(?:\([\w\s]*\)\s*)?{name}\b"
SIDES = {1: (1 << 12,), 2: (64, 64), 3: (16, 16, 16)}
"""Texels along the dimensions of a texture of which the text does not say them."""
_TEXELS = {"uchar": "uint8", "char": "int8", "ushort": "uint16", "short": "int16", "uint": "uint32", "int": "int32",
           "unsigned": "uint32", "float": "float32"}  # fmt: skip


def settings(texts: Sequence[str]) -> dict[str, str | bool]:
    """How the textures of a file are read, where its host code says the same of all."""
    text = "\n".join(texts)
    modes = {mode for mode in re.findall(r"\bcudaAddressMode(Wrap|Clamp|Mirror|Border)\b", text)}
    return {
        "filter": "linear" if "cudaFilterModeLinear" in text else "point",
        "address": _MODES[modes.pop()] if len(modes) == 1 else "clamp",
        "normalized": bool(re.search(r"\bnormalized(?:Coords)?\s*=\s*(?:1|true)\b", text)),
    }


def texture_options(texts: Sequence[str]) -> Iterator[str]:
    """The same as options of NVRTC, for the header of texture references; none where no text has one."""
    if not any(map(REFERENCE.search, texts)):
        return
    said = settings(texts)
    yield "--pre-include=tilewright/textures.h"
    yield f"-DTILEWRIGHT_FILTER={FILTERS.index(str(said['filter']))}"
    yield f"-DTILEWRIGHT_ADDRESS={ADDRESSES.index(str(said['address']))}"
    yield f"-DTILEWRIGHT_NORMALIZED={int(bool(said['normalized']))}"


def texture_of(name: str, texts: Sequence[str]) -> TextureFields:
    """A texture object that device code reads by a name: its fetches say the dimensions and the texel."""
    words = (re.escape(name), r"\w+")  # functions that it is handed to have names of their own
    fetches = (re.search(_FETCH.format(name=word), text) for word in words for text in texts)
    dims, way, kind, channels = next((fetch.groups() for fetch in fetches if fetch), ("1", None, "float", None))
    extents = SIDES[min(int(dims) + (way == "Layered"), 3)]
    said = settings(texts)
    texel = _TEXELS.get((kind or "float").rpartition("::")[2], "float32")
    is_mean = said["filter"] == "linear" and texel == "float32"
    return TextureFields(extents, texel, int(channels or 1), "linear" if is_mean else "point",
                         str(said["address"]), bool(said["normalized"]))  # fmt: skip
