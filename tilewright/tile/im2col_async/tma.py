"""The copy engine's im2col mode: one thread has it bring the pixels that a tap meets, each with its channels.

The corners of the pixels follow from padding, taps and dilation, the offsets of a copy from its tap; pixels that are
outside of the images are zeros. A tile whose channels are wider than its swizzle is several copies.

Source: PTX ISA, "Tensors: Im2col mode"; what a copy brings: `tilewright.isa.boxes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from tilewright.dtypes import INT32, dtype
from tilewright.errors import ArgumentError, LayoutError
from tilewright.ir import AddressOf, Expr, Value, as_expr, cast, const_value
from tilewright.ir.arguments import strides_of
from tilewright.ir.tensor_map import MOST_BOX, MOST_PIXELS, UNIT, Im2col, MapOf, element_of
from tilewright.isa import lookup
from tilewright.primitives.im2col_async import Window
from tilewright.tile.boxes import argument_of, check_alignment, swizzle_mode
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import between_in_order, check_target, constant_extents, one_way_keywords, single_thread
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.walks import plus

ROW = "ptx.cp_async.bulk.tensor.g2c_im2col"
MODE = "im2col"


@dataclass(frozen=True, slots=True)
class PixelPlan:
    """tensor_map: without a name. window: of the convolution. offset: of the tile in shared memory, in elements before
    the swizzle. blocks: for each copy, elements of shared memory from there on, and channels.
    """

    tensor_map: MapOf
    window: Window
    offset: Value
    blocks: tuple[tuple[int, int], ...]

    def summary(self) -> str:
        """``2 copies of 128 pixels x 64 channels``."""
        channels, pixels = self.tensor_map.box
        many = f"{len(self.blocks)} copies" if len(self.blocks) > 1 else "a copy"
        return f"{many} of {pixels} pixels x {channels} channels"


@variant(
    "im2col_async",
    priority=10,
    keywords=("pixel", "channel", "tap", "taps", "padding", "stride", "dilation", "mbar", "cta_mask", "cta_group",
              "cache_hint"),
    when=[between_in_order("global", "shared"), single_thread, constant_extents, one_way_keywords],
)  # fmt: skip
def im2col(call: TileCall) -> PixelPlan:
    """cp.async.bulk.tensor in im2col mode: one thread has the copy engine bring pixels of images."""
    shared, images = call["dst"], call["src"]
    check_target(call, ROW, next(form for form in lookup(ROW).forms if MODE in form.wording.modifiers["mode"]))
    mode = swizzle_mode(shared)
    check_alignment(call, shared, mode)
    pixels, channels = (extent for extent in shared.shape if extent != 1)
    width, blocks = _blocks(call, shared, pixels, channels)
    size = shared.dtype.bits // 8
    row = width * size
    if row % UNIT or (mode and row != mode.row_bytes):
        allowed = f"rows of {mode.row_bytes} bytes with {mode.name}" if mode else "a multiple of 16 bytes"
        raise Decline(f"a pixel of {shared.name} has {row} bytes side by side", allowed=allowed)
    window = Window(len(images.extents) - 2, dict(call.config))
    tensor_map = _map(call, images, window, (width, pixels), int(mode))
    assert shared.tile is not None
    return PixelPlan(tensor_map, window, shared.tile.offset_on("m"), blocks)


def _blocks(call: TileCall, shared: Side, pixels: int, channels: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Channels that are side by side; and where each such block begins, in elements of the tile and in channels."""
    assert shared.tile is not None
    try:
        layout, separators = shared.tile.group([pixels, channels], call.facts)
    except LayoutError as error:
        raise Decline(f"{shared.name}: {error.what}", allowed="rows of pixels, channels side by side") from None
    rows, columns = (
        [(int(const_value(it.extent) or 0), int(const_value(it.stride) or 0)) for it in reversed(layout.shard[a:b])]
        for a, b in pairwise(separators)
    )
    width, joined = 1, 1
    outer: list[tuple[int, int]] = []
    for extent, stride in columns:
        if stride == width and not outer:
            width *= extent
        elif extent > 1:
            outer.append((extent, stride))
    for extent, stride in rows:
        if extent > 1 and stride != width * joined:
            allowed = f"pixels one after the other, {width} elements each"
            raise Decline(f"pixels of {shared.name} are {stride} elements apart", allowed=allowed)
        joined *= extent
    if width > MOST_BOX or pixels > MOST_PIXELS:
        shown = f"{pixels} pixels x {width} channels of {shared.name} side by side"
        raise Decline(shown, allowed=f"{MOST_PIXELS} pixels x {MOST_BOX} channels")
    places = product(*(range(extent) for extent, _ in reversed(outer)))
    strides = [stride for _, stride in reversed(outer)]
    offsets = [sum(i * stride for i, stride in zip(place, strides, strict=True)) for place in places]
    return width, tuple((offset, k * width) for k, offset in enumerate(offsets))


def _map(call: TileCall, images: Side, window: Window, box: tuple[int, int], mode: int) -> MapOf:
    """The tensor map of the images."""
    buffer = images.buffer
    origin, strides = argument_of(buffer), strides_of(buffer)
    if origin is None or strides is None or const_value(strides[-1]) != 1:
        raise Decline(f"{buffer.name} is no argument with plain strides", allowed="a T.Buffer, channels side by side")
    whole = all(const_value(start) == 0 and call.facts.equal(extent, total)
                for (start, extent), total in zip(images.region.box, buffer.shape, strict=True))  # fmt: skip
    if not whole:
        raise Decline(
            f"{images} is a part of {buffer.name}", allowed="all of the images; pixel= and channel= say where"
        )
    dims = tuple(call.facts.simplify(extent) for extent in reversed(buffer.shape))
    walk = Im2col(window.lower[::-1], window.upper[::-1])
    try:
        walk.check([int(number) if (number := const_value(extent)) is not None else extent for extent in dims])
    except ArgumentError as error:
        raise Decline(f"{error.what} is {error.given}", allowed=str(error.allowed)) from None
    argument, offset = origin
    size = buffer.dtype.bits // 8
    return MapOf(
        "",
        argument.name,
        element_of(str(buffer.dtype), buffer.dtype.bits),
        dims,
        tuple(call.facts.simplify(stride * size) for stride in strides[-2::-1]),
        box,
        mode,
        "zero",
        offset,
        (1, *window.stride[::-1], 1),
        walk,
    )


@im2col.emit
def _(plan: PixelPlan, call: TileCall, out: Builder) -> None:
    pointer = out.tensor_map(plan.tensor_map).pointer
    rank = len(call["src"].extents)
    window = plan.window
    image, *outputs = _entries(call, "pixel", rank - 1)
    taps = _entries(call, "tap", rank - 2)
    starts = [
        plus(place * stride, -pad) for place, stride, pad in zip(outputs, window.stride, window.padding, strict=True)
    ]
    offsets = [_number(call, tap * dilation, "uint16") for tap, dilation in zip(taps, window.dilation, strict=True)]
    places = [_number(call, value, "int32") for value in (*reversed(starts), image)]
    begin = call.option("channel", 0)
    for offset, channel in plan.blocks:
        tile = AddressOf(call["dst"].buffer.flat(), (as_expr(plus(plan.offset, offset)),))
        first = _number(call, plus(begin, channel), "int32")
        group = 2 if call.option("cta_group") == 2 else -1
        mask, hint = call.option("cta_mask", 0), str(call.option("cache_hint") or "")
        out.call(ROW, rank, tile, call.option("mbar"), pointer, mask, group, hint, [first, *places], offsets[::-1])


def _entries(call: TileCall, name: str, count: int) -> Sequence[Value]:
    entries = call.option(name)
    return entries if isinstance(entries, tuple) else (0,) * count  # type: ignore[return-value]  # numbers and expressions


def _number(call: TileCall, value: Value, kind: str) -> Expr:
    return cast(as_expr(call.facts.simplify(value), INT32), dtype(kind))
