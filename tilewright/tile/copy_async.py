"""The variants of `copy_async` between global and shared memory, and the one of `im2col_async`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product

import numpy as np

from tilewright import isa
from tilewright.dtypes import INT32, dtype
from tilewright.errors import ArgumentError, LayoutError
from tilewright.ir import AddressOf, Expr, Load, Value, as_expr, binary, cast, const_value, select
from tilewright.ir.arguments import strides_of
from tilewright.ir.tensor_map import MOST_BOX, MOST_PIXELS, UNIT, Im2col, MapOf, element_of
from tilewright.isa import lookup
from tilewright.primitives import WITHIN_A_CTA
from tilewright.primitives.copy import ASKED, FILL, Window
from tilewright.tile.boxes import (
    Box,
    BoxPlan,
    StretchPlan,
    argument_of,
    check_alignment,
    emit_stretch,
    plan_boxes,
    plan_stretches,
    swizzle_mode,
)
from tilewright.tile.call import Side, TileCall, own_digits
from tilewright.tile.conditions import (
    alignments,
    between,
    between_in_order,
    check_target,
    constant_extents,
    one_place_each,
    one_way_keywords,
    single_thread,
    wider,
)
from tilewright.tile.dispatch import Change, Decline, condition, variant
from tilewright.tile.distribution import Distribution, by_runs, in_memory_order
from tilewright.tile.owners import all_hold, inside_tests, open_dimensions, splits
from tilewright.tile.partition import places
from tilewright.tile.round_loops import Turn, Writer, emit_runs
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, digits_of, plus

# Global to shared memory by cp.async: the threads of the scope take runs of 16, 8 or 4 bytes in turns, and go on.
#
# Groups, waits and barriers are the caller's. Where a row or a buffer ends inside of a run, its elements are copied one
# by one. With ``fill=0`` a run reads those of its bytes that are inside of the source, and the hardware makes zeros of
# the others.


OP = "ptx.cp_async"
NAME = OP.removeprefix("ptx.")
LEAST = 4  # bytes that one cp.async moves
ALIGNED = "runs of 16, 8 or 4 bytes, aligned to as many, that are contiguous in both memories"


@dataclass(frozen=True, slots=True)
class LdgstsPlan:
    """runs: of each thread. along: the dimension of the source in which runs lie, if it may end
    inside of one and the hardware makes zeros of the rest. widened: what would make runs longer.
    """

    runs: Distribution
    along: int | None
    widened: str | None = None

    def summary(self) -> str:
        """``cp_async.cg of 16 bytes: 2 x 8 elements for each of 128 threads``."""
        zeros = ", zeros for the rest of a run" if self.along is not None else ""
        nbytes = self.runs.nbytes
        return f"{NAME}.{'cg' if nbytes == 16 else 'ca'} of {nbytes} bytes: {self.runs.summary()}{zeros}"


@condition("fill= is 0")
def filled_with_zeros(call: TileCall) -> str | None:
    fill = call.option(FILL)
    return None if fill is None or str(fill) in ("0", "0.0") else f"{NAME} fills with zeros, not with {fill}"


@condition("the call is a thread's, a warp's, a warpgroup's or a CTA's")
def within_a_cta(call: TileCall) -> str | None:
    return None if call.scope.kind in WITHIN_A_CTA else "the CTAs of a cluster do not share their shared memory"


@variant(
    "copy_async",
    priority=20,
    keywords=("vec_len", *ASKED),
    when=[between_in_order("global", "shared"), within_a_cta, one_place_each, filled_with_zeros],
)
def ldgsts(call: TileCall) -> LdgstsPlan:
    """Neighbouring threads have neighbouring runs of global memory copied by cp.async, 16, 8 or 4 bytes at a time."""
    check_target(call, NAME, isa.lookup(OP).forms[0])
    try:
        plan = _plan(call)
    except Decline as declined:
        raise Decline(declined.reason, allowed=ALIGNED, changes=_aligned(call)) from None
    if not plan.runs.limit or plan.runs.rows:
        return plan
    return replace(plan, widened=wider(call, plan.runs, lambda other: _plan(other).runs))


def _plan(call: TileCall) -> LdgstsPlan:
    plan = by_runs(call, lambda order, length: _cut(call, order, length), LEAST)
    if plan.rows is not None:
        return LdgstsPlan(plan, None)
    filled = call.option(FILL) is not None
    return LdgstsPlan(replace(plan, batch=plan.rounds), _along(call, plan.vector) if filled else None)


def _aligned(call: TileCall) -> Iterator[Change]:
    """The call with starts at which even the shortest runs are aligned."""
    length = 8 * LEAST // call.dtype.bits
    for side in call.tiles if length and call["dst"].size is not None else ():
        yield from alignments(call, side, places(side, call.facts), length)


def _cut(call: TileCall, order: Ints, length: int) -> str | None:
    """Why a buffer may end inside of a run in the destination; cp.async can leave out bytes of its source alone."""
    dst, src = call["dst"], call["src"]
    if call.dtype.bits < 8:
        return splits(call, dst, order, length) or splits(call, src, order, length)
    if call.option(FILL) is None:
        return None
    dim = _along(call, length)
    if dim is None or call.facts.less(-1, src.starts[dim]):
        return splits(call, dst, order, length)
    if not call.facts.divides(length, src.starts[dim]):
        return f"{length} elements may begin before {src.name} does, in dimension {dim}"
    return splits(call, dst, order, length)


def _along(call: TileCall, length: int) -> int | None:
    """The dimension in which runs of so many elements lie, if the source may leave its buffer there."""
    src = call["src"]
    runs = np.unravel_index(in_memory_order(src).reshape(-1, length), src.shape)
    return next((dim for dim in open_dimensions(call, src) if (runs[dim] != runs[dim][:, :1]).any()), None)


@ldgsts.emit
def _(plan: LdgstsPlan, call: TileCall, out: Builder) -> None:
    emit_runs(plan.runs, call, out, partial(_issue, plan))


def _issue(plan: LdgstsPlan, writer: Writer, turn: Turn) -> None:
    """The copy of a run; of one that is partly outside, the copies of its elements."""
    call, out = writer.call, writer.out
    dst, src = (call[name].buffer.flat() for name in ("dst", "src"))
    to, source = (writer.at(name, turn) for name in ("dst", "src"))

    def issued(e: Value, nbytes: int, **size: Expr) -> None:
        places = (AddressOf(b, (as_expr(plus(at, e)),)) for b, at in ((dst, to), (src, source)))
        out.call(OP, *places, nbytes, **size)

    def whole() -> None:
        issued(0, plan.runs.nbytes)

    def one(e: Value) -> None:
        if call.dtype.bits // 8 in (4, 8, 16):
            issued(e, call.dtype.bits // 8)
        else:
            out.store(dst, plus(to, e), Load(src, (as_expr(plus(source, e)),)))

    def zero(e: Value) -> None:
        out.store(dst, plus(to, e), cast(0, call.dtype))

    if not turn.asked:
        whole()
    elif writer.fill is None:
        writer.asked(turn, call.tiles, whole, one)
    elif plan.runs.rows is None:
        with out.when(all_hold(writer.tests(turn, [call["dst"]])(0, plan.runs.vector - 1))):
            issued(0, plan.runs.nbytes, src_size=_size(plan, writer, turn))
    else:
        inside = writer.tests(turn, [call["src"]])
        writer.asked(
            turn,
            [call["dst"]],
            lambda: writer.asked(turn, [call["src"]], whole, one, zero),
            lambda e: out.either(all_hold(inside(e, e)), lambda: one(e), lambda: zero(e)),
        )


def _size(plan: LdgstsPlan, writer: Writer, turn: Turn) -> Expr:
    """How many bytes of a run are inside of the source."""
    assert writer.number is not None, "asked first"
    call, src = writer.call, writer.call["src"]
    digits = own_digits(src, digits_of(writer.number(turn.access), call["dst"].extents), call["dst"].extents)
    if plan.along is None:
        size = as_expr(plan.runs.nbytes)
    else:
        left = as_expr(src.buffer.shape[plan.along]) - (src.starts[plan.along] + as_expr(digits[plan.along]))
        size = binary("min", left, plan.runs.vector) * (call.dtype.bits // 8)
    inside = all_hold(inside_tests(call, src, digits, digits))
    return cast(size if inside is None else select(inside, size, 0), dtype("uint32"))


# Between global and shared memory by cp.async.bulk: one thread issues copies of runs of bytes, without a tensor map.
#
# It serves copies that are no box of an argument: buffers that a kernel makes of pointers, strides that no map has,
# flat arrays. Elements outside of the array are not filled in. Waiting is the caller's, as with `tma`: a load completes
# its bytes at ``mbar=``, a store belongs to the thread's bulk group.


@variant(
    "copy_async",
    priority=10,
    keywords=("mbar", "cta_mask", "cache_hint", "use_tma_reduce"),
    when=[between("global", "shared"), single_thread, constant_extents, one_place_each, one_way_keywords],
)
def bulk(call: TileCall) -> StretchPlan:
    """cp.async.bulk: one thread has stretches of bytes moved, as long as they are contiguous in both memories."""
    if call["dst"].space == "global":
        return plan_stretches(call, "s2g")
    return plan_stretches(call, "g2s_cta" if call.option("cta_mask") is None else "g2s_cluster")


@bulk.emit
def _(plan: StretchPlan, call: TileCall, out: Builder) -> None:
    mbar = call.option("mbar")
    modifiers = {key: value for key in ("cta_mask", "cache_hint") if (value := call.option(key)) not in (None, "")}
    more = () if mbar is None else (mbar,)

    def issued(writer: Writer, turn: Turn) -> None:
        emit_stretch(plan, call, out, *writer.pointers(turn, "dst", "src"), *more, **modifiers)

    emit_runs(plan.share, call, out, issued)


# From shared memory to that of another CTA of the cluster: one thread has stretches of bytes moved by cp.async.bulk.
#
# Source and destination are named as the calling CTA has them; the destination is the same place in CTA
# ``remote_cta_id=``, whose m-barrier ``mbar=`` counts the bytes. The threads that wait there announce these bytes.


GIVEN = {"remote_cta_id": "the rank of a CTA of the cluster", "mbar": "mbar=bar.ptr_to([0])"}


@condition("both sides are in shared memory")
def both_shared(call: TileCall) -> str | None:
    outside = next((side for side in call.tiles if side.space != "shared"), None)
    return None if outside is None else f"{outside.name} is in {outside.space} memory, not in shared"


@variant(
    "copy_async",
    priority=10,
    keywords=("mbar", "remote_cta_id", "use_tma_reduce"),
    when=[both_shared, single_thread, constant_extents, one_place_each],
)
def dsmem(call: TileCall) -> StretchPlan:
    """cp.async.bulk: one thread has stretches of bytes moved to the shared memory of another CTA of the cluster."""
    for key, allowed in GIVEN.items():
        if call.option(key) is None:
            raise Decline(f"a copy to another CTA says {key}=", allowed=allowed)
    return plan_stretches(call, "s2c")


@dsmem.emit
def _(plan: StretchPlan, call: TileCall, out: Builder) -> None:
    rank = call.option("remote_cta_id")

    def issued(writer: Writer, turn: Turn) -> None:
        there, src = writer.pointers(turn, "dst", "src")
        dst, mbar = (isa.call("ptx.mapa", place, rank) for place in (there, call.option("mbar")))
        emit_stretch(plan, call, out, dst, src, mbar)

    emit_runs(plan.share, call, out, issued)


# Global memory to shared memory and back by the copy engine: one thread issues copies of boxes of an array.
#
# Box, swizzle and coordinates follow from the two layouts (`tile.boxes`); the tensor map is an argument that the
# compiler adds and every call makes. Waiting is the caller's: a load completes at ``mbar=`` all bytes of the region,
# also those outside of the array; a store belongs to the thread's bulk group, and needs a proxy fence before it.


TENSOR = "ptx.cp_async.bulk.tensor"


@dataclass(frozen=True, slots=True)
class TmaPlan:
    """row: what moves each box."""

    row: str
    boxes: BoxPlan

    def summary(self) -> str:
        return f"{self.row.rpartition('.')[2]}: {self.boxes.summary()}"


@variant(
    "copy_async",
    priority=20,
    keywords=("mbar", "cta_mask", "cta_group", "cache_hint", "oob", "use_tma_reduce"),
    when=[between("global", "shared"), single_thread, constant_extents, one_way_keywords],
)
def tma(call: TileCall) -> TmaPlan:
    """cp.async.bulk.tensor: one thread has the copy engine move boxes of an array."""
    loads = call["dst"].space == "shared"
    row = "g2c" if loads else "s2g_reduce" if call.option("use_tma_reduce") else "s2g"
    check_target(call, f"{TENSOR}.{row}", lookup(f"{TENSOR}.{row}").forms[0])
    return TmaPlan(f"{TENSOR}.{row}", plan_boxes(call, oob=str(call.option("oob") or "zero")))


@tma.emit
def _(plan: TmaPlan, call: TileCall, out: Builder) -> None:
    tensor_map = out.tensor_map(plan.boxes.tensor_map)
    for box in plan.boxes.boxes:
        _issue_box(plan, box, tensor_map.pointer, call, out)


def _issue_box(plan: TmaPlan, box: Box, of: Expr, call: TileCall, out: Builder) -> None:
    boxes = plan.boxes
    tile = AddressOf(call.side("shared").buffer.flat(), (as_expr(plus(boxes.offset, box.offset)),))
    starts = zip(boxes.starts, box.coords, strict=True)
    coords = [cast(as_expr(call.facts.simplify(plus(start, step))), INT32) for start, step in starts]
    hint = str(call.option("cache_hint") or "")
    rank = len(coords)
    if plan.row.endswith("g2c"):
        mask = call.option("cta_mask", 0)
        group = 2 if call.option("cta_group") == 2 else -1
        out.call(plan.row, rank, tile, call.option("mbar"), of, mask, group, hint, *coords)
    elif plan.row.endswith("s2g"):
        out.call(plan.row, rank, tile, of, hint, *coords)
    else:
        out.call(plan.row, rank, tile, of, hint, call.option("use_tma_reduce"), *coords)


# The copy engine's im2col mode: one thread has it bring the pixels that a tap meets, each with its channels.
#
# The corners of the pixels follow from padding, taps and dilation, the offsets of a copy from its tap; pixels that are
# outside of the images are zeros. A tile whose channels are wider than its swizzle is several copies.
#
# Source: PTX ISA, "Tensors: Im2col mode"; what a copy brings: `tilewright.isa.boxes`.


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
