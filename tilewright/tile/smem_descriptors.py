"""Matrices in shared memory as products of the tensor cores read them: a descriptor, and the starts of blocks; their
scales and metadata in tensor memory; and the changes with which tensor cores would take a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, product
from typing import TypeAlias, TypeVar

import numpy as np

from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.ir import AddressOf, Const, Expr, Load, Value, Var, as_expr, const_value, rewrite, walk
from tilewright.isa.tcgen05 import DataPath, path_of
from tilewright.isa.tcgen05_mma import metadata_places, scale_places
from tilewright.layout import (
    R,
    S,
    SwizzleLayout,
    SwizzleMode,
    TCol,
    TileLayout,
    TLane,
    sf_tmem_layout,
    sp_meta_tmem_layout,
    tmem_datapath_layout,
)
from tilewright.primitives.gemm import scale_extents
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Change, Decline, relaid
from tilewright.tile.matrices import mma_layouts
from tilewright.tile.partition import COLUMN_BITS, Places, places_in_numbers, storage_start, tmem_cells
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, plus, quotient

# Changes with which tensor cores would take a product: other types, words, places, numbers in place of counters.


PACKED = ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
MOST_ROUNDS = 16  # of a loop that a hint writes out


def with_option(call: TileCall, **options: object) -> TileCall:
    """The call with these keywords, None for one that is left out."""
    config = {**dict(call.config), **options}
    return replace(call, config=tuple((key, value) for key, value in config.items() if value is not None))


def other_types(call: TileCall) -> Iterator[Change]:
    """tf32 for float32; what bytes hold, where the call says that of one side alone or of none."""
    sides = call["A"], call["B"]
    if all(side.dtype == "float32" for side in sides):
        changed = call
        for name in "AB":
            changed = changed.with_buffer(changed[name], dtype=dtype("tf32"))
        yield Change(f'dtype "tf32" for {sides[0].name} and {sides[1].name}: float32, of which 19 bits count', changed)
    yield from in_bytes(call)
    silent = [name for name in "AB" if call[name].dtype == "uint8" and not call.option(f"{name.lower()}_dtype")]
    for kind in PACKED if silent else ():
        words = [f"{name.lower()}_dtype" for name in silent]
        text = " and ".join(f'{word}="{kind}"' for word in words)
        yield Change(
            f"{text}, or another of {', '.join(PACKED)}: what bytes hold, 16 elements at the low end of 16",
            with_option(call, **dict.fromkeys(words, kind)),
        )


def instead(call: TileCall) -> Iterator[Change]:
    """Changes of where matrices begin, and of what their elements are."""
    return chain(with_numbers(call), in_bytes(call))


def in_bytes(call: TileCall) -> Iterator[Change]:
    """Operands of 4 or 6 bits as bytes: in shared memory packed as TMA lays them, in tensor memory one for each."""
    narrow = [name for name in "AB" if str(call[name].dtype) in PACKED]
    for names in (*([name] for name in narrow), narrow):
        changed: TileCall | None = call
        texts = []
        for name in names:
            changed, text = _in_bytes(changed, name) if changed is not None else (None, "")
            texts.append(text)
        if changed is not None and texts:
            yield Change(" and ".join(texts), changed)


def _in_bytes(call: TileCall, name: str) -> tuple[TileCall | None, str]:
    side, word = call[name], f"{name.lower()}_dtype"
    changed, layout = with_option(call, **{word: str(side.dtype)}), side.buffer.layout
    text = f'{word}="{side.dtype}" and dtype "uint8"'
    if side.space == "shared":
        buffer = replace(side.buffer, dtype=dtype("uint8"))
        spelled, layout, _ = next(mma_layouts(buffer, call.facts), ("", None, None))
        text = f"{text}, {spelled}"
    if layout is None:
        return None, ""
    return changed.with_buffer(changed[name], dtype=dtype("uint8"), layout=layout), f"{text} for {side.name}"


def other_words(call: TileCall) -> Iterator[Change]:
    """The collector's word that is nearest, with ws or without."""
    word, keeps_b = str(call.option("collector") or ""), bool(call.option("ws"))
    if word in isa.collector_words(keeps_b=not keeps_b):
        text = (
            "without ws=True, by which columns of B are kept" if keeps_b else "ws=True, by which columns of B are kept"
        )
        yield Change(text, with_option(call, ws=None if keeps_b else True))
    for near in get_close_matches(word, isa.collector_words(keeps_b=keeps_b)[1:], 1):
        yield Change(f'collector="{near}"', with_option(call, collector=near))


def without_ws(call: TileCall) -> Iterator[Change]:
    """The same product whose columns of B are not kept."""
    if call.option("ws"):
        yield Change("without ws=True", with_option(call, ws=None))


def in_a_datapath(call: TileCall, side: Side, path: DataPath, bits: int, copies: int) -> Iterator[Change]:
    """The same buffer of tensor memory in the layout that the instruction has for so many rows. bits: of a column.
    copies: how often each row is there.
    """
    shape = long_extents(side.buffer.shape)
    parts = path.halves
    rows = len(path.lanes) if copies == 1 and parts == 1 else len(path.lanes) // parts
    if len(shape) != 2 or shape[0] != rows or side.dtype.bits != bits:
        return
    text = ""
    if parts > 1 and copies == 1:
        if shape[1] % parts:
            return
        layout = TileLayout(S[(rows, parts, shape[1] // parts) : (1 @ TLane, rows @ TLane, 1 @ TCol)])
    elif bits == COLUMN_BITS and parts == 1:
        name = {128: "D", 64: "F"}[rows]
        layout, text = tmem_datapath_layout(name, *shape), f'tmem_datapath_layout("{name}", {rows}, {shape[1]})'
    else:
        layout = TileLayout(
            S[shape : (1 @ TLane, 1 @ TCol)]
            if len(path.lanes) == 128
            else S[(rows // 16, 16, shape[1]) : (32 @ TLane, 1 @ TLane, 1 @ TCol)]
        )
        layout = layout + R[copies : rows @ TLane] if copies > 1 else layout
    yield relaid(call, side, layout, text)


def one_step(call: TileCall, k: int) -> Iterator[Change]:
    """The first of several calls with a step of K each."""
    sides, whole = dict(call.sides), 0
    for name in "AB":
        side = call[name]
        along = next(dim for dim in range(len(side.extents) - 1, -1, -1) if const_value(side.extents[dim]) != 1)
        along = along if not call.option(f"trans{name}") else next(
            dim for dim, extent in enumerate(side.extents) if const_value(extent) != 1)  # fmt: skip
        box = list(side.region.box)
        whole, box[along] = int(const_value(box[along][1]) or 0), (box[along][0], k)
        sides[name] = side_of(replace(side.region, box=tuple(box)), call.facts)
    starts = ", ".join(map(str, range(0, whole, k)))
    yield Change(
        f"a call for each {k} along K: k to k + {k} of A and B, for k in ({starts})", replace(call, sides=sides)
    )


def with_numbers(call: TileCall) -> Iterator[Change]:
    """The same call in a loop over Python's numbers, whose counter is one of them, where a tile begins at a counter."""
    control = call.scope.control
    starts = [start for side in call.tiles for start in side.starts if isinstance(start, Expr)]
    names = {*control.ids, *call.arguments}
    counters = {node.name: node for start in starts for node in walk(start) if isinstance(node, Var)}
    for name, var in counters.items():
        values = call.facts.interval(var)
        if name in names or const_value(control.spelled_out(var)) is not None:
            continue
        count = values.high - values.low + 1
        if not 1 < count <= MOST_ROUNDS:
            continue
        number = Const(values.low, var.dtype)

        def written(node: Expr, name: str = name, number: Const = number) -> Expr | None:
            return number if isinstance(node, Var) and node.name == name else None

        sides = {
            key: side_of(replace(side.region, box=rewrite(side.region.box, written)), call.facts)
            for key, side in call.sides.items()
        }
        listed = ", ".join(map(str, range(values.low, values.high + 1)))
        yield Change(
            f"for {name} in ({listed}): a loop over Python's numbers, which starts of tiles may come from",
            replace(call, sides=sides),
        )


# Matrices in shared memory as products of the tensor cores read them: a descriptor, and the starts of blocks; and their
# scales and metadata in tensor memory.
#
# A block has some rows along M or N and as much of K as an instruction takes. In K-major memory the groups of 8 rows
# are a ``stride`` apart; in MN-major memory stripes along the rows are a ``leading`` apart and groups of 8 along K a
# ``stride``. Without a swizzle the two change places as `tilewright.isa.descriptors` says. All of this is decided on
# the table of addresses before the swizzle, in bytes.


UNIT, GROUP = 16, 8
FIELD_BYTES = 1 << 18  # leading and stride offsets have 14 bits, in units of 16 bytes


def mode_of(layout: SwizzleLayout, bits: int) -> SwizzleMode | None:
    """The mode of the hardware that is this swizzle, of elements of so many bits; None for another permutation."""
    unit = (8 * UNIT // bits).bit_length() - 1
    return next((mode for mode in SwizzleMode if mode and layout == SwizzleLayout(unit, int(mode), 3)), None)


def pattern_bytes(swizzle: SwizzleMode) -> int:
    """Bytes after which the pattern of a swizzle repeats."""
    return GROUP * swizzle.row_bytes if swizzle else UNIT


def unswizzled(swizzle: SwizzleMode, address: Ints) -> Ints:
    """Byte addresses before the swizzle, which undoes itself. Source: PTX ISA, "Swizzling Modes"."""
    return address ^ ((address >> 3) & (swizzle.row_bytes - UNIT))


def in_fields(*offsets: int) -> bool:
    """Do the fields of a descriptor hold these leading and stride offsets, in bytes?"""
    return all(0 <= offset < FIELD_BYTES and offset % UNIT == 0 for offset in offsets)


def check_aligned(call: TileCall, side: Side, swizzle: SwizzleMode, align: int) -> None:
    """Raises Decline, with the alignment that would do, where the buffer is not aligned to the swizzle's pattern."""
    period = pattern_bytes(swizzle)
    if align % period:
        raise Decline(
            f"{side.name} is aligned to {align} bytes, and its swizzle repeats every {period}",
            allowed=f"a multiple of {period} bytes",
            changes=[Change(f"align={period} on {side.name}", call.with_buffer(side, align=period))],
        )


Candidate: TypeAlias = tuple[SwizzleMode, Ints, Value]
"""A swizzle that may be the hardware's; byte addresses before it; the bits that they count from."""
Fit = TypeVar("Fit")


def before_swizzles(
    call: TileCall, side: Side, where: Places, address: Ints, modes: Iterable[SwizzleMode] = SwizzleMode
) -> Iterator[Candidate]:
    """The swizzles in whose pattern it is known where a region begins. address: in bytes, after the swizzle."""
    facts, base = call.facts, where.seen_base * side.dtype.bits
    start = plus(base, storage_start(side.buffer, facts)[1])
    for swizzle in modes:
        low = const_value(facts.simplify(start % (8 * pattern_bytes(swizzle))))
        if low is not None:
            yield swizzle, unswizzled(swizzle, address + int(low) // 8), base - int(low)


def first_fitting(
    call: TileCall, side: Side, candidates: Iterable[Candidate], fit: Callable[[SwizzleMode, Ints], Fit | None]
) -> tuple[SwizzleMode, Fit, Ints, Value] | None:
    """The first candidate that fits a descriptor, with what fits; its addresses, and where they count from in units
    of 16 bytes from the buffer's first element on. Raises Decline where the buffer is not aligned to its pattern.
    """
    facts, (align, behind) = call.facts, storage_start(side.buffer, call.facts)
    for swizzle, linear, base in candidates if facts.divides(8 * UNIT, facts.simplify(behind)) else ():
        if (fitting := fit(swizzle, linear)) is not None:
            check_aligned(call, side, swizzle, align)
            return swizzle, fitting, linear, facts.simplify(quotient(facts.simplify(base), 8 * UNIT, facts))
    return None


@dataclass(frozen=True, slots=True, eq=False)
class DescribedBlocks:
    """What a descriptor says, and where blocks start. trans: is it MN-major? leading, stride: in units of 16 bytes.

    base, starts: where a block begins, in units from the buffer's first element on; starts is (blocks, steps of K).
    """

    trans: bool
    swizzle: SwizzleMode
    leading: int
    stride: int
    base: Value
    starts: Ints

    @property
    def key(self) -> tuple[int, int, int]:
        """The fields but the start."""
        return self.leading, self.stride, int(self.swizzle)


def described(
    call: TileCall, side: Side, elements: Ints, *, may_transpose: bool, packed: tuple[int, int] | None = None,
    changes: Iterable[Change] = (),
) -> DescribedBlocks:  # fmt: skip
    """The descriptor of blocks, given as element numbers of the region: (blocks, steps, rows, elements along K).

    packed: so many neighbours begin so many bytes behind those before, where not each element has bytes of its own.
    changes: that might help, besides other layouts.
    Raises Decline where there is none.
    """
    where, bits = places_in_numbers(side, call.facts), side.dtype.bits
    together, nbytes = packed or (1, bits // 8)

    def fit(swizzle: SwizzleMode, linear: Ints) -> tuple[bool, tuple[int, int]] | None:
        ways = ((trans, _fields(swizzle, linear, nbytes, trans=trans)) for trans in (False, True)[: 1 + may_transpose])
        return next(((trans, fields) for trans, fields in ways if fields is not None), None)

    if where.longest_run is None and _are_neighbours(where.seen[0][elements], together):
        address = where.seen[0][elements[..., ::together]] * bits // 8
        candidates = before_swizzles(call, side, where, address, reversed(SwizzleMode))
        if (fitting := first_fitting(call, side, candidates, fit)) is not None:
            swizzle, (trans, fields), linear, begin = fitting
            return DescribedBlocks(trans, swizzle, *fields, begin, linear[:, :, 0, 0] // UNIT)
    raise Decline(
        f"no descriptor leads to the blocks of {side.name} in {side.buffer.layout or 'rows'}",
        allowed=f"{'K-major or MN-major' if may_transpose else 'K-major'} tiles, as mma_shared_layout makes them, at a "
        "start that is a known number of bytes behind a whole pattern of its swizzle",
        changes=chain(changes, other_layouts(call, side)),
    )


def _are_neighbours(places: Ints, count: int) -> bool:
    """Is each run of so many elements in places that follow each other?"""
    runs = places.reshape(*places.shape[:-1], -1, count)
    return bool((runs == runs[..., :1] + np.arange(count)).all())


def _fields(swizzle: SwizzleMode, linear: Ints, size: int, *, trans: bool) -> tuple[int, int] | None:
    """Leading and stride offset of the blocks at these addresses; None where they are in no such order."""
    width, start = swizzle.row_bytes, linear[:, :, :1, :1]
    along, down = np.arange(linear.shape[3]), np.arange(linear.shape[2])[:, None]
    column, line = (down * size, along) if trans else (along * size, down)
    near, far = (linear[0, 0, :, 0], linear[0, 0, 0]) if trans else (linear[0, 0, 0], linear[0, 0, :, 0])
    across = int(near[width // size] - near[0]) if len(near) > width // size else UNIT
    onward = int(far[GROUP] - far[0]) if len(far) > GROUP else GROUP * width
    wanted = column % width + column // width * across + line % GROUP * width + line // GROUP * onward
    if (linear != start + wanted).any() or (start % UNIT).any():
        return None
    leading, stride = (onward, across) if trans and not swizzle else (across, onward)
    return (leading // UNIT, stride // UNIT) if in_fields(leading, stride) else None


def other_layouts(call: TileCall, side: Side) -> Iterator[Change]:
    """The layouts that descriptors are made for."""
    for text, layout, _ in mma_layouts(side.buffer, call.facts):
        yield Change(f"{text} for {side.name}", call.with_buffer(side, layout=layout))


# Matrices, their blocks, and the code of descriptors


def blocks_text(blocks: DescribedBlocks) -> str:
    """``128-byte swizzle, MN-major``."""
    swizzle = f"{blocks.swizzle.row_bytes}-byte swizzle" if blocks.swizzle else "no swizzle"
    return f"{swizzle}, MN-major" if blocks.trans else swizzle


def matrix_of(side: Side, *, trans: bool) -> Ints:
    """The numbers of a matrix's elements in its region, rows along M or N first."""
    shape = long_extents(side.extents)
    numbers = np.arange(np.prod(shape)).reshape(shape)
    return numbers.T if trans else numbers


def long_extents(shape: Sequence[Value]) -> tuple[int, ...]:
    """Constant extents as numbers, those of 1 aside."""
    numbers = (int(const_value(extent) or 1) for extent in shape)
    return tuple(extent for extent in numbers if extent != 1)


def blocks_of(matrix: Ints, rows: int, k: int) -> Ints:
    """(blocks, steps, rows, k) of a matrix."""
    return matrix.reshape(-1, rows, matrix.shape[1] // k, k).swapaxes(1, 2)


def encoded_first(side: Side, key: tuple[int, int, int], out: Builder, family: str, name: str) -> Expr:
    """The matrix descriptor of a shared buffer's beginning, in a register. key: leading, stride and swizzle."""

    def encode(before: Builder) -> Expr:
        before.comment(f"the matrix descriptor of {side.name}")
        register = before.local(name, 1, "uint64")
        start = AddressOf(side.buffer.flat(), (as_expr(0),))
        before.call(f"ptx.{family}.encode_matrix_descriptor", register.pointer, start, *key)
        return Load(register, (as_expr(0),))

    return out.once_behind(side.buffer, (name, family, *key), encode)


def encoded_blocks(side: Side, blocks: DescribedBlocks, out: Builder, family: str) -> Callable[[int, int], Expr]:
    """The descriptor of each block and step of K, as "wgmma" or "tcgen05" has it: that of the shared buffer's beginning
    is in a register.
    """
    first = encoded_first(side, blocks.key, out, family, "mma_desc")

    def at(block: int, step: int) -> Expr:
        return isa.call("smem_desc_add_16B_offset", first, plus(blocks.base, int(blocks.starts[block, step])))

    return at


def products_of(call: TileCall, *counts: int) -> Iterator[tuple[int, int, int, Value]]:
    """The block of rows, the block of columns and the step of K of each instruction, and whether it adds to D.

    counts: of these three.
    """
    for row, column, step in product(*map(range, counts)):
        yield row, column, step, call.scalars.get("accum", as_expr(False)) if step == 0 else True


# Scales of blocks in tensor memory, as a product takes them: for each instruction a column, and the first one's byte.
#
# Where a product looks for them is in `tilewright.isa.tcgen05_mma`. A layout that `sf_tmem_layout` makes has
# them there; others do, too, if each instruction finds its own together.


@dataclass(frozen=True, slots=True, eq=False)
class PlacedScales:
    """Of each block of rows and step of K the column of its scales, from ``base`` on, and the byte of the first."""

    columns: Ints
    first: Ints
    base: Value


def scale_blocks(call: TileCall) -> int:
    """Elements along K that share a scale; 0 in a call without scales."""
    if "SFA" not in call.sides:
        return 0
    k = long_extents(call["A"].extents)[0 if call.option("transA") else 1]
    return k // _extents(call["SFA"])[1]


def _extents(side: Side) -> tuple[int, ...]:
    """Rows, and scales of each."""
    return tuple(int(const_value(extent) or 1) for extent in scale_extents(side.extents))


def placed_scales(call: TileCall, name: str, descriptor: isa.InstructionDescriptor, rows: int) -> PlacedScales:
    """The scales of A or B ("SFA", "SFB") for instructions of so many rows or columns each.

    Raises Decline, with the layout that would do, where a product does not find them.
    """
    side, block = call[name], scale_blocks(call)
    cells, shape = tmem_cells(side), _extents(side)
    count = descriptor.K // (2 if descriptor.sparse else 1) // block
    numbers = np.arange(shape[0] * shape[1]).reshape(-1, rows, shape[1] // count, count).swapaxes(1, 2)
    order = np.argsort(cells.lane, axis=1)
    lane, bit = (np.take_along_axis(part, order, axis=1)[numbers] for part in (cells.lane, cells.bit))
    parts = path_of(descriptor).halves if name == "SFB" else 1
    row, part = np.arange(rows)[:, None, None] % (rows // parts), np.arange(rows)[:, None, None] // (rows // parts)
    lanes = row % 32 + 32 * (4 // parts * part + np.arange(4 // parts))
    places = np.zeros((*numbers.shape[:2], 2), np.int64)
    fits = const_value(cells.lane_base) == 0 and lane.shape[-1] == 4 // parts and bool((lane == lanes).all())
    fits = fits and call.facts.divides(COLUMN_BITS, cells.bit_base) and not (bit[:, :, 0, 0, 0] % 8).any()
    for at in np.ndindex(*numbers.shape[:2]) if fits else ():
        first = int(bit[at][0, 0, 0]) % COLUMN_BITS // 8
        column, byte = _wanted(descriptor, name, first, block, rows)
        start = int(bit[at][0, 0, 0]) // COLUMN_BITS
        fits = fits and bool((bit[at] == ((start + column) * COLUMN_BITS + 8 * byte)[..., None]).all())
        places[at] = start, first
    steps = {1: 1, 2: 2, 3: 1, 6: 2}
    if not fits or (places[..., 1] % steps.get(count, 4)).any():
        raise Decline(
            f"{side.name} is not in tensor memory as the product takes scales: {side.buffer.layout}",
            allowed=f"row r in lane r % 32 of {4 // parts} quarters, its {count} scales in a cell of column r // 32",
            changes=_as_taken(call, side, count),
        )
    base = call.facts.simplify(quotient(cells.bit_base, COLUMN_BITS, call.facts))
    return PlacedScales(places[..., 0], places[..., 1], base)


def _wanted(descriptor: isa.InstructionDescriptor, name: str, first: int, block: int, rows: int) -> tuple[Ints, Ints]:
    if name == "SFA":
        column, byte = scale_places(replace(descriptor, sfa_id=first), "a", block)
    else:
        column, byte = scale_places(replace(descriptor, sfb_id=first), "b_desc", block)
    parts = rows // len(column)
    return (column, byte) if parts == 1 else (np.tile(column, (parts, 1)), np.tile(byte, (parts, 1)))


def _as_taken(call: TileCall, side: Side, count: int) -> Iterator[Change]:
    """The same scales where a product takes them."""
    shape = long_extents(side.buffer.shape)
    if len(shape) != 2:
        return
    try:
        layout = sf_tmem_layout(*shape, sf_per_mma=count)
    except LayoutError:
        return
    yield relaid(call, side, layout, f"sf_tmem_layout({shape[0]}, SF_K={shape[1]}, sf_per_mma={count})")


# Metadata of a sparse A: for each instruction a column, an even one, and which of two is meant.


def placed_metadata(call: TileCall, descriptor: isa.InstructionDescriptor) -> PlacedScales:
    """The column of the metadata of each block of rows and step of K, and the selector in the place of a first byte.

    Raises Decline, with the layout that would do, where a product does not find them.
    """
    side, (lane, column, shift) = call["sp_meta"], metadata_places(descriptor)
    cells, (rows, nbytes) = tmem_cells(side), _extents(side)
    count = lane.shape[1] // 2  # bytes of a row that an instruction takes
    chunk = descriptor.K // lane.shape[1]
    if nbytes % count or _chunk(call, nbytes) != chunk:
        shown = f"{nbytes} bytes of {side.name} for each row"
        raise Decline(
            shown, allowed=f"a code for each {chunk} elements along K, kind {descriptor.kind}, {count} bytes a time"
        )
    numbers = np.arange(rows * nbytes).reshape(-1, len(lane), nbytes // count, count).swapaxes(1, 2)
    there, bit = (part[numbers] for part in (cells.lane[:, 0], cells.bit))
    bit = bit[..., 0]
    first = bit[..., :1, :1] // COLUMN_BITS
    odd = first % 2 if descriptor.selectors > 1 else np.zeros_like(first)
    wanted = (first - odd + (odd if descriptor.selectors > 1 else column[:, ::2])) * COLUMN_BITS + shift[:, ::2]
    fits = cells.lane.shape[1] == 1 and const_value(cells.lane_base) == 0 and bool((there == lane[:, ::2]).all())
    fits = fits and bool((bit == wanted).all()) and not ((first - odd) % 2).any()
    if not fits or not call.facts.divides(2 * COLUMN_BITS, cells.bit_base):
        raise Decline(
            f"{side.name} is not in tensor memory as the product takes metadata: {side.buffer.layout}",
            allowed=f"{count} bytes of a row at a time, from an even column on, as sp_meta_tmem_layout has them",
            changes=_as_metadata(call, side),
        )
    base = call.facts.simplify(quotient(cells.bit_base, COLUMN_BITS, call.facts))
    return PlacedScales((first - odd)[..., 0, 0], odd[..., 0, 0], base)


def _chunk(call: TileCall, nbytes: int) -> int:
    """Elements along K for which the call has a code."""
    k = long_extents(call["B"].extents)[0 if call.option("transB") else 1]
    return k // (2 * nbytes)


def _as_metadata(call: TileCall, side: Side) -> Iterator[Change]:
    """The same metadata where a product takes them."""
    shape, element = long_extents(side.buffer.shape), str(call["A"].dtype)
    if len(shape) != 2:
        return
    try:
        layout = sp_meta_tmem_layout(*shape, element)
    except LayoutError:
        return
    yield relaid(call, side, layout, f'sp_meta_tmem_layout({shape[0]}, {shape[1]}, "{element}")')
