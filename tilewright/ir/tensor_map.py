"""Tensor maps: descriptions, for the copy engine (TMA), of an array in global memory and of the boxes that it moves.

A map has 128 bytes, which the driver makes (`cuTensorMapEncodeTiled`) from the fields of a `MapFields`. Dimension 0 is
the innermost; its elements follow one another, the other dimensions have strides in bytes. A box of the array is dense
in shared memory, dimension 0 fastest, and its 16-byte units are swizzled there by the bits of their address. In im2col
mode (`cuTensorMapEncodeIm2col`) the array has the dimensions C, W, H, D, N or the first and last of them, and a box is
so many channels of so many pixels, which follow one another through the images; `Im2col` says where.

Sources: CUDA Driver API, "Tensor Map Object Management"; PTX ISA, "Tensors". The places of the fields in the 128 bytes
are those that the machine code of `tensormap.replace` shows (sm_90a); those of the im2col mode were read off the maps
that a driver makes on an H200, which do not tell the walks apart.

Textures: descriptions, for the texture unit, of an array of texels and of how coordinates reach them.

A texture object is a number of 64 bits that only the driver knows; here it is the address of a description in memory,
as this room lays it out. Source: CUDA Runtime API, "Texture Object Management"; CUDA C++ Programming Guide, "Texture
Fetching".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np

from tilewright.errors import ArgumentError, choices
from tilewright.ir.expr import Number, Value
from tilewright.ir.numbers import evaluate
from tilewright.layout import SwizzleMode

MAP_BYTES = 128
MAP_ALIGNMENT = 64
MOST_BOX = 256  # elements of a box along a dimension
WALK = 24  # the word in which maps of ours say which walk they are for
UNIT = 16  # bytes that a swizzle moves together, and that strides and inner boxes are multiples of


class Element(NamedTuple):
    """An element type. driver, ptx: its number there; the two count differently. nbytes: of an element, or of a
    ``group`` of them, which lies together in the array. spread: the bytes that a group takes in shared memory, where
    these are more: the others, behind it, are undefined.
    """

    driver: int
    ptx: int
    nbytes: int
    is_float: bool = False
    group: int = 1
    spread: int = 0

    @property
    def whole(self) -> int:
        """Elements of which the extent and the coordinates of dimension 0 are multiples, where they are spread; and a
        box has so many.
        """
        return 128 if self.spread else 1


ELEMENTS: Mapping[str, Element] = {
    "uint8": Element(0, 0, 1),
    "uint16": Element(1, 1, 2),
    "uint32": Element(2, 2, 4),
    "int32": Element(3, 3, 4),
    "uint64": Element(4, 4, 8),
    "int64": Element(5, 5, 8),
    "float16": Element(6, 6, 2, True),
    "float32": Element(7, 7, 4, True),
    "float64": Element(8, 9, 8, True),
    "bfloat16": Element(9, 10, 2, True),
    "16U4_ALIGN8B": Element(13, 13, 8, group=16),
    "16U4_ALIGN16B": Element(14, 14, 8, group=16, spread=16),
    "16U6_ALIGN16B": Element(15, 15, 12, group=16, spread=16),
}
FILLS = ("zero", "nan")
MOST_PIXELS = 1024
CORNERS = {3: 16, 4: 8, 5: 5}  # by rank: bits of a corner, and of an offset that an instruction adds to a pixel
PIXELS = 0x3FF  # the bits of their number, less one
WIDE = ("", "w", "w128")  # walks: through W, H and D; along W alone; along W in four parts of 32


def element_of(dtype: str, bits: int) -> str:
    """The element type of a map for elements of this dtype: its own, or unsigned integers of as many bytes.

    >>> element_of("float16", 16), element_of("float8_e4m3fn", 8)
    ('float16', 'uint8')
    """
    return dtype if dtype in ELEMENTS else f"uint{max(8, bits)}"


Ints: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True, slots=True)
class Im2col:
    """Which pixels the walk of an im2col box takes. lower, upper: of W, H, D as far as there are any; along each of
    them the pixels go from ``lower`` to ``extent - 1 + upper``, by the map's step. wide: of `WIDE`, the walk; of one
    along W alone lower and upper have one number.
    """

    lower: Ints
    upper: Ints
    wide: str = ""

    def check(self, dims: Sequence[Value]) -> None:
        """Raises ArgumentError where a map of such an array cannot have it; extents may be known at run time only."""
        rank = len(dims)
        if rank not in CORNERS:
            raise _refused("dims", f"{rank} dimensions", "3 to 5 dimensions, in im2col mode")
        if self.wide not in WIDE:
            raise _refused("wide", repr(self.wide), choices(self.wide, WIDE))
        wanted = 1 if self.wide else rank - 2
        most = 1 << CORNERS[rank] - 1
        for name, corner in (("lower", self.lower), ("upper", self.upper)):
            if len(corner) != wanted:
                raise _refused(name, f"{len(corner)} numbers", f"{wanted}, for an array of {rank} dimensions")
            for i, value in enumerate(corner):
                if not -most <= value < most:
                    raise _refused(f"{name}[{i}]", f"{value}", f"{-most}..{most - 1}")
        for i, (extent, low, up) in enumerate(zip(dims[1:], self.lower, self.upper, strict=False)):
            if isinstance(extent, int) and extent + up <= low:
                empty = f"{up}: no pixel of {'WHD'[i]} from {low} to {extent - 1 + up}"
                raise _refused(f"upper[{i}]", empty, f"{low - extent + 1} or more")

    def encode(self, rank: int) -> int:
        """The word that has the corners, the lower ones in its low half."""
        bits, word = CORNERS[rank], 0
        for start, corner in ((0, self.lower), (16, self.upper)):
            for i, place in enumerate(corner):
                word |= (place & (1 << bits) - 1) << start + i * bits
        return word

    @classmethod
    def decode(cls, word: int, rank: int, wide: str) -> Im2col:
        """The walk whose corners are in that word."""
        bits, count = CORNERS[rank], 1 if wide else rank - 2
        sign = 1 << bits - 1
        lower, upper = (
            tuple(((word >> start + i * bits & 2 * sign - 1) ^ sign) - sign for i in range(count)) for start in (0, 16)
        )
        return cls(lower, upper, wide)


@dataclass(frozen=True, slots=True)
class MapFields:
    """The fields of a tensor map. dims, box: elements, dimension 0 first. strides: bytes, of dimensions 1 and on.

    steps: every how many elements of a dimension the box has one (``elementStrides``). oob: what an element outside of
    the array reads as, "zero" or "nan". address: of the array's first byte. im2col: of a map in im2col mode, whose box
    is (channels, pixels).

    Raises ArgumentError, naming the field, for what no map can say.
    """

    dtype: str
    dims: Ints
    strides: Ints
    box: Ints
    swizzle: SwizzleMode | int = SwizzleMode.SWIZZLE_NONE
    steps: Ints = ()
    oob: str = "zero"
    address: int = field(default=0, compare=False)
    im2col: Im2col | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps) or (1,) * len(self.dims))
        if self.dtype not in ELEMENTS:
            raise _refused("dtype", self.dtype, choices(self.dtype, ELEMENTS))
        if self.swizzle not in list(SwizzleMode):
            modes = ", ".join(f"{int(mode)} ({mode.name})" for mode in SwizzleMode)
            raise _refused("swizzle", self.swizzle, modes)
        object.__setattr__(self, "swizzle", SwizzleMode(self.swizzle))
        self._check_ranks()
        for name, low, high, unit in (
            ("dims", 1, 1 << 32, ""),
            ("strides", 0, (1 << 40) - 1, " bytes"),
            ("box", 1, MOST_BOX, ""),
            ("steps", 1, 8, ""),
        ):
            for i, value in enumerate(getattr(self, name)):
                most = MOST_PIXELS if self.im2col and (name, i) == ("box", 1) else high
                if not low <= value <= most:
                    raise _refused(f"{name}[{i}]", f"{value}{unit}", f"{low}..{most}{unit}")
        self._check_bytes()

    def _check_ranks(self) -> None:
        rank = len(self.dims)
        if not 1 <= rank <= 5:
            raise _refused("dims", f"{rank} dimensions", "1 to 5 dimensions")
        if self.im2col:
            self.im2col.check(self.dims)
        for name, wanted in (("strides", rank - 1), ("box", 2 if self.im2col else rank), ("steps", rank)):
            values = getattr(self, name)
            if len(values) != wanted:
                raise _refused(name, f"{len(values)} numbers", f"{wanted}, for an array of {rank} dimensions")

    def _check_bytes(self) -> None:
        for i, stride in enumerate(self.strides):
            if stride % UNIT:
                raise _refused(f"strides[{i}]", f"{stride} bytes", "a multiple of 16 bytes")
        if self.inner_bytes % UNIT:
            of = self.element
            whole = f"a multiple of 16 bytes, {UNIT * of.group // (of.spread or of.nbytes)} elements"
            raise _refused("box[0]", f"{self.box[0]} elements, {self.inner_bytes} bytes", whole)
        span = SwizzleMode(self.swizzle).row_bytes
        if self.swizzle and self.inner_bytes > span:
            allowed = f"at most {span} bytes, which {SwizzleMode(self.swizzle).name} permutes"
            raise _refused("box[0]", f"{self.box[0]} elements, {self.inner_bytes} bytes", allowed)
        self._check_groups()
        if self.oob not in FILLS:
            raise _refused("oob", repr(self.oob), choices(self.oob, FILLS))
        if self.oob == "nan" and not self.element.is_float:
            raise _refused("oob", f"nan for {self.dtype}", "zero, or elements that are floats")
        if self.address % UNIT:
            raise _refused("address", f"{self.address:#x}", "a multiple of 16 bytes")

    def _check_groups(self) -> None:
        """The rules of elements that lie in groups: CUDA Driver API, "cuTensorMapEncodeTiled"."""
        of = self.element
        if of.group == 1:
            return
        if self.im2col:
            raise _refused("dtype", f"{self.dtype} in im2col mode", "whole bytes in that mode, in what is simulated")
        if self.dims[0] % (of.whole if of.spread else 2):
            raise _refused("dims[0]", f"{self.dims[0]} elements", f"a multiple of {of.whole if of.spread else 2}")
        if not of.spread:
            return
        if self.box[0] != of.whole:
            raise _refused("box[0]", f"{self.box[0]} elements", f"{of.whole} of {self.dtype}")
        for i, value in enumerate(self.strides):
            if value % (2 * UNIT):
                raise _refused(f"strides[{i}]", f"{value} bytes", "a multiple of 32 bytes")

    def array_bytes(self, count: int) -> int:
        """Bytes that so many elements along dimension 0 take in the array."""
        return count * self.element.nbytes // self.element.group

    @property
    def element(self) -> Element:
        """Its element type."""
        return ELEMENTS[self.dtype]

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit in shared memory that have elements, at its low end."""
        return self.element.nbytes if self.element.spread else UNIT

    @property
    def storage(self) -> str:
        """The dtype of the array: bytes where elements lie in groups."""
        return "uint8" if self.element.group > 1 else self.dtype

    @property
    def rank(self) -> int:
        """Dimensions."""
        return len(self.dims)

    @property
    def counts(self) -> Ints:
        """Elements that a box holds along each dimension; the step of dimension 0 does not count. In im2col mode:
        channels and pixels.
        """
        if self.im2col:
            return self.box
        return (self.box[0], *(-(-extent // step) for extent, step in zip(self.box[1:], self.steps[1:], strict=True)))

    @property
    def inner_bytes(self) -> int:
        """Bytes of a box along dimension 0, in shared memory."""
        of = self.element
        return self.box[0] * (of.spread or of.nbytes) // of.group

    @property
    def box_bytes(self) -> int:
        """Bytes of a box: what it takes in shared memory, and what an m-barrier counts, wherever the box lies; of a
        walk along W without its halo.
        """
        return prod(self.counts[1:]) * self.inner_bytes

    def at(self, address: int) -> MapFields:
        """The same map of an array that begins at another address."""
        return replace(self, address=address)

    def encode(self) -> bytes:
        """The 128 bytes, but for what only the driver knows: version, L2 promotion, the words from 16 on, in one of
        which ours say which walk an im2col map is for.
        """
        words = [0] * (MAP_BYTES // 4)
        words[0:2] = struct.unpack("<2I", struct.pack("<Q", self.address))
        words[2] = self.rank - 1 << 4 | self.element.ptx << 7 | int(self.swizzle) << 13 | FILLS.index(self.oob) << 15
        for i, stride in enumerate(self.strides):
            words[3 + i] = stride >> 4 & 0xFFFFFFFF
            words[7] |= stride >> 36 << 4 * i
        words[13] = self.box[0] - 1 << 24
        for i, (extent, step) in enumerate(zip(self.dims, self.steps, strict=True)):
            words[8 + i] = extent - 1
            words[13] |= step - 1 << 3 * i
        if self.im2col:
            words[2] |= 1
            words[14:16] = self.im2col.encode(self.rank), self.box[1] - 1
            words[WALK] = WIDE.index(self.im2col.wide)
        else:
            words[14] = sum(box - 1 << 8 * i for i, box in enumerate(self.box[1:]))
        return struct.pack(f"<{len(words)}I", *words)

    @classmethod
    def decode(cls, data: bytes) -> MapFields:
        """The fields of 128 bytes that `encode` made. Raises ArgumentError for bytes that are no map."""
        words = struct.unpack(f"<{MAP_BYTES // 4}I", data)
        rank = (words[2] >> 4 & 7) + 1
        kinds = {element.ptx: name for name, element in ELEMENTS.items()}
        bits = sum(1 << bit for bit in (0, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15))
        if rank > 5 or words[2] >> 7 & 15 not in kinds or words[2] & ~bits or words[WALK] >= len(WIDE):
            raise _refused("bytes", f"word 2 is {words[2]:#x}", "the 128 bytes that a tensor map has")
        inner = (words[13] >> 24) + 1
        walk = Im2col.decode(words[14], rank, WIDE[words[WALK]]) if words[2] & 1 and rank in CORNERS else None
        outer = [words[15] & PIXELS] if walk else [words[14] >> 8 * i & 255 for i in range(rank - 1)]
        return cls(
            kinds[words[2] >> 7 & 15],
            tuple(word + 1 for word in words[8 : 8 + rank]),
            tuple(words[3 + i] << 4 | (words[7] >> 4 * i & 15) << 36 for i in range(rank - 1)),
            (inner, *(extent + 1 for extent in outer)),
            words[2] >> 13 & 3,
            tuple((words[13] >> 3 * i & 7) + 1 for i in range(rank)),
            FILLS[words[2] >> 15 & 1],
            words[1] << 32 | words[0],
            walk,
        )

    def __str__(self) -> str:
        swizzle = f", {SwizzleMode(self.swizzle).row_bytes}-byte swizzle" if self.swizzle else ""
        box, dims = (" x ".join(map(str, reversed(part))) for part in (self.box, self.dims))
        boxes = f"im2col boxes of {self.box[1]} pixels x {self.box[0]} channels" if self.im2col else f"boxes of {box}"
        return f"{boxes} in {dims} {self.dtype}{swizzle}"


def _refused(name: str, value: object, allowed: str) -> ArgumentError:
    return ArgumentError(f"tensor map: {name}", given=str(value), allowed=allowed)


def mapped(name: str) -> str:
    """What a run calls the array of a tensor map that is an argument; a kernel knows nothing of it."""
    return f"the array of {name}"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A tensor map among the arguments of a kernel: its 128 bytes are the buffer ``name``.

    of: the buffer of the array that it describes, from element ``offset`` on; "" for a map that the caller makes, of
    which the kernel knows nothing. The other fields are those of `MapFields`, over the kernel's arguments. tiles: the
    swizzles that the layouts of the tiles have which its boxes come from and go to.
    """

    name: str
    of: str = ""
    dtype: str = ""
    dims: tuple[Value, ...] = ()
    strides: tuple[Value, ...] = ()
    box: Ints = ()
    swizzle: int = 0
    oob: str = "zero"
    offset: Value = 0
    steps: Ints = ()
    im2col: Im2col | None = None
    tiles: tuple[tuple[str, int], ...] = field(default=(), compare=False)

    def fields(self, values: Mapping[str, Number]) -> MapFields:
        """The fields of the map in a call with these arguments. Raises ArgumentError where no map can have them."""
        dims, strides = (tuple(self._numbers(part, values)) for part in (self.dims, self.strides))
        try:
            return MapFields(
                self.dtype, dims, strides, self.box, self.swizzle, self.steps, self.oob, im2col=self.im2col
            )
        except ArgumentError as error:
            error.what = f"{self.of} has no {error.what}"
            raise

    @property
    def is_made(self) -> bool:
        """Is it made of an array that the kernel gets?"""
        return bool(self.of)

    def start(self, values: Mapping[str, Number]) -> int:
        """Bytes from the array's first element to that of the map."""
        of = ELEMENTS[self.dtype]
        return int(evaluate(self.offset, values)) * of.nbytes // of.group

    @staticmethod
    def _numbers(part: tuple[Value, ...], values: Mapping[str, Number]) -> Iterator[int]:
        return (int(evaluate(value, values)) for value in part)


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
