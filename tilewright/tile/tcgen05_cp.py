"""Shared memory to tensor memory: which tcgen05.cp instructions bring a region to the cells that its layout names.

An instruction takes rows of 16 or 32 bytes, found by a matrix descriptor, and writes each row to the columns of one or
several lanes. So a plan answers three questions, in this order:

1. *Rows*: is each lane of the region made of runs of 16 (32) bytes in whole columns, each run from one place of shared
   memory?
2. *Lanes*: do the runs of one column lie in exactly the lanes that an instruction writes, copies of a row from the same
   source?
3. *Descriptor*: are the sources of the rows where a descriptor has them: groups of 8 rows, 16, 32, 64 or 128 bytes
   apart and swizzled over that width, the groups at a constant distance?

Tables of addresses answer all three. What an instruction does with rows, lanes and descriptors is in the instruction
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from tilewright import isa
from tilewright.ir import AddressOf, Expr, Load, Value, as_expr, const_value
from tilewright.layout import Iter, SwizzleMode, TileLayout, TLane
from tilewright.tile import smem_descriptors
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import (
    alignments,
    between_in_order,
    check_target,
    constant_extents,
    single_thread,
    tmem_address,
)
from tilewright.tile.dispatch import Change, Condition, Decline, Variant, by_name, condition, counted, register, relaid
from tilewright.tile.partition import (
    COLUMN_BITS,
    WHOLE_COLUMNS,
    CellPlaces,
    Places,
    misaligned,
    places_in_numbers,
    replicas_of,
    storage_start,
    tmem_cells,
)
from tilewright.tile.smem_descriptors import (
    GROUP,
    UNIT,
    Candidate,
    before_swizzles,
    first_fitting,
    in_fields,
    mode_of,
)
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, LoopTurns, plus, quotient, turns_of, walk_of

# Shared memory as tcgen05.cp can read it: changes to try where a copy to tensor memory finds no descriptor.


def other_layouts(call: TileCall, shape: Shape) -> Iterator[Change]:
    """The layouts of shared memory that descriptors are made for, the widest swizzle first; then the plainest."""
    src = call["src"]
    yield from smem_descriptors.other_layouts(call, src)
    if (plain := _in_order(call, shape)) is not None:
        yield relaid(call, src, plain)


def _in_order(call: TileCall, shape: Shape) -> TileLayout | None:
    """Shared memory as instructions of this shape take it without a swizzle, one after the other: of each the first 16
    bytes of all rows, then the next. None where the region is not all of the buffers, or the lanes follow no pattern.
    """
    tile, sides = call["dst"].tile, (call["dst"], call["src"])
    if tile is None or any(side.extents != side.buffer.shape for side in sides):
        return None
    together, lanes = 8 * UNIT // call["dst"].dtype.bits, shape.lanes[0]
    along = const_value(tile.cosize("TCol"))
    units = -(-int(along or 1) // together)
    shard: list[Iter] = []
    for it in _cut(tile.shard, together):
        at = np.arange(int(it.extent)) * int(it.stride)
        lane, column = (at, 0 * at) if it.axis == TLane else (0 * at, at)
        row = np.searchsorted(lanes, lane - lane % shape.origins)
        block = row + len(lanes) * (column // together + units * (lane % shape.origins))
        walk = walk_of(block * together + column % together, listed=False)
        if walk is None or len(walk.steps) > 1:
            return None
        shard.append(Iter(it.extent, walk.steps[0][1] if walk.steps else 0))
    return TileLayout(shard)


def _cut(shard: Iterable[Iter], together: int) -> Iterator[Iter]:
    """Iters along columns, in two where they cross what stays together."""
    for it in shard:
        extent, stride = int(it.extent), int(it.stride)
        inside = together // stride if stride else 1
        if it.axis != TLane and 1 < inside < extent and not extent % inside:
            yield Iter(extent // inside, together, it.axis)
            yield Iter(inside, stride, it.axis)
        else:
            yield it


FROM_SHARED = (between_in_order("shared", "tmem"), tmem_address, single_thread, constant_extents)
"""What all variants with this instruction ask of a call."""

LANE_STEP = 1 << 16  # what leads from lane to lane in an address of tensor memory
PACKED = {4: "b4x16_p64", 6: "b6x16_p32"}  # 16 values of so many bits at the low end of 16 bytes
ROWS_OF_DESCRIPTOR = "groups of 8 rows, 16 bytes apart, or 32, 64 or 128 with the swizzle over that width"
CP = "ptx.tcgen05.cp"
UNUSED_LEADING = {SwizzleMode.SWIZZLE_NONE: 16}  # units; else 1, the customary value where hardware ignores the field


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of the instruction, with what says which lanes get copies of a row ("" for none)."""

    name: str
    multicast: str = ""

    def __str__(self) -> str:
        return f"{self.name}.{self.multicast}" if self.multicast else self.name

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, which go to one lane."""
        return isa.COPY_SHAPES[self.name].row_bytes

    @property
    def lanes(self) -> Ints:
        """The lane of each copy of each row, (copies, rows), from the lane of the address on."""
        return isa.copied_lanes(self.name, self.multicast)

    @property
    def origins(self) -> int:
        """At how many lanes it may begin: at those that bring its rows to lanes of their own."""
        return isa.TMEM_LANES // self.lanes.size


@dataclass(frozen=True, slots=True)
class Descriptor:
    """How rows follow each other in shared memory, in units of 16 bytes. leading: from the first to the second unit of
    a row, without a swizzle. stride: from 8 rows to the next 8.
    """

    leading: int
    stride: int
    swizzle: SwizzleMode


@dataclass(frozen=True, slots=True)
class TmemCopyPlan:
    """shape, fmt, cta_group: the instruction. column, unit: where all begin, in tensor memory from the buffer's address
    on, in shared memory in units of 16 bytes from the buffer's first element on. runs: instructions, by what each adds
    to both.
    """

    shape: Shape
    fmt: str
    cta_group: int
    descriptor: Descriptor
    column: Value
    unit: Value
    runs: tuple[LoopTurns, ...]

    def summary(self) -> str:
        """``32x128b.warpx4, 1 instruction; no swizzle``."""
        times_ = counted(sum(run.count for run in self.runs))
        swizzle = self.descriptor.swizzle
        how = f"{swizzle.row_bytes}-byte swizzle" if swizzle else "no swizzle"
        return f"{self.shape}{f', {self.fmt}' if self.fmt else ''}, {times_}; {how}"


def packing(call: TileCall) -> str:
    """How the source is packed, "" for as in tensor memory: by the call's keyword, or by the dtypes."""
    asked = call.option("fmt", "")
    if asked or call["src"].dtype == call["dst"].dtype:
        return str(asked)
    return PACKED[call["src"].dtype.value_bits]


def plan_copies(call: TileCall, shapes: Sequence[Shape]) -> TmemCopyPlan:
    """The copy by the first of ``shapes`` that fits. Raises Decline with the reasons of all."""
    check_target(call, "tcgen05.cp", isa.lookup(CP).forms[0])
    cells, where = tmem_cells(call["dst"]), places_in_numbers(call["src"], call.facts)
    tried: list[Decline] = []
    for shape in shapes:
        attempt = _attempt(call, shape, cells, where)
        if isinstance(attempt, TmemCopyPlan):
            return attempt
        tried.append(attempt)
    reasons = dict.fromkeys(decline.reason for decline in tried)
    changes = chain.from_iterable(decline.changes for decline in tried)
    raise Decline("; ".join(reasons), allowed=tried[-1].allowed, changes=changes)


def _attempt(call: TileCall, shape: Shape, cells: CellPlaces, where: Places) -> TmemCopyPlan | Decline:
    try:
        return _plan(call, shape, cells, where)
    except Decline as declined:
        return declined


def _plan(call: TileCall, shape: Shape, cells: CellPlaces, where: Places) -> TmemCopyPlan:
    lane, bit, source = _rows(call, shape, cells, where)
    into, source = _lanes(call, shape, cells, lane, bit, source)
    descriptor, unit, first = _described(call, shape, where, source)
    column = quotient(cells.bit_base, COLUMN_BITS, call.facts)
    return TmemCopyPlan(
        shape,
        packing(call),
        2 if call.option("cta_group") == 2 else 1,
        descriptor,
        call.facts.simplify(plus(cells.lane_base * LANE_STEP, column) + int(into[0])),
        call.facts.simplify(unit + int(first[0])),
        turns_of(into - into[0], first - first[0]),
    )


# The three questions: rows, lanes, descriptor


def _rows(call: TileCall, shape: Shape, cells: CellPlaces, where: Places) -> tuple[Ints, Ints, Ints]:
    """The lane and the first bit of each row, and where its 16-byte units are in shared memory: bytes (rows, units)."""
    tensor, shared, bits = call["dst"], call["src"], call["dst"].dtype.bits
    flat_lane, flat_bit = cells.lane.reshape(-1), cells.bit.reshape(-1)
    order = np.lexsort((flat_bit, flat_lane))
    width = 8 * shape.row_bytes // bits
    whole = not len(order) % width
    if whole:
        lane, bit = (part[order].reshape(-1, width) for part in (flat_lane, flat_bit))
        whole = bool((lane == lane[:, :1]).all() and (bit == bit[:, :1] + np.arange(width) * bits).all())
    if not whole:
        raise Decline(
            f"{shape.name} fills {shape.row_bytes} bytes of a lane at a time, but {tensor} has shorter runs",
            allowed=f"runs of {shape.row_bytes} bytes in each lane",
        )
    if (bit[:, 0] % COLUMN_BITS).any() or not call.facts.divides(COLUMN_BITS, cells.bit_base):
        raise Decline(f"{tensor} begins inside a 32-bit column", allowed=WHOLE_COLUMNS)
    element = order // cells.lane.shape[1]
    source = where.seen[0, element].reshape(len(lane), shape.row_bytes // UNIT, -1)
    run, length = source.shape[-1], 8 * UNIT // shared.dtype.bits
    if (source != source[..., :1] + np.arange(run)).any():
        raise Decline(
            f"the {run} elements of 16 bytes of a lane are no neighbours in {shared.name}",
            allowed="16 bytes of a lane from one place in shared memory, in the same order",
            changes=other_layouts(call, shape),
        )
    problem = misaligned(call, shared, where, source[..., 0].reshape(1, -1), length)
    if problem:
        changes = chain(alignments(call, shared, where, length, run=run), other_layouts(call, shape))
        raise Decline(problem, allowed="rows that start at multiples of 16 bytes", changes=changes)
    return lane[:, 0], bit[:, 0], source[..., 0] * shared.dtype.bits // 8


def _lanes(call: TileCall, shape: Shape, cells: CellPlaces, lane: Ints, bit: Ints, source: Ints) -> tuple[Ints, Ints]:
    """What each instruction adds to the address in tensor memory, and the sources of its rows: (instructions, rows,
    units).
    """
    origin = lane % shape.origins
    order = np.lexsort((lane, bit, origin))
    covered = np.sort(shape.lanes.reshape(-1))
    whole = not len(order) % len(covered)
    if whole:
        lanes, bit, origin = (part[order].reshape(-1, len(covered)) for part in (lane, bit, origin))
        whole = bool((lanes == origin[:, :1] + covered).all() and (bit == bit[:, :1]).all())
    if not whole:
        written = f"lanes {_ranges(covered)}" + ("" if shape.origins == 1 else f", from lane 0..{shape.origins - 1} on")
        raise Decline(
            f"{shape.name} writes {written}, but {call['dst']} is in lanes {_ranges(lane)}",
            allowed=f"the same columns of {written}",
        )
    _check_base(call, shape, cells, int(origin.max()))
    copies = source[order].reshape(*lanes.shape, -1)[:, np.searchsorted(covered, shape.lanes)]
    if (copies != copies[:, :1]).any():
        raise Decline(
            f"{shape} writes {copies.shape[1]} copies of each row, but those of {call['dst'].name} differ",
            allowed=f"one row in lanes {', '.join(map(str, shape.lanes[:, 0]))}, and so on",
        )
    return origin[:, 0] * LANE_STEP + bit[:, 0] // COLUMN_BITS, copies[:, 0]


def _check_base(call: TileCall, shape: Shape, cells: CellPlaces, last: int) -> None:
    """A first lane that is known at run time only must be proven to be one at which the instruction may begin."""
    base, facts = cells.lane_base, call.facts
    if const_value(base) == 0:
        return
    if not facts.less(-1, base) or not facts.less(facts.simplify(base + last), shape.origins):
        allowed = "0" if shape.origins == 1 else f"one of 0..{shape.origins - 1}"
        raise Decline(f"{call['dst']} begins at lane {base}", allowed=f"{shape} begins at lane {allowed}")


def _described(call: TileCall, shape: Shape, where: Places, source: Ints) -> tuple[Descriptor, Value, Ints]:
    """The descriptor; where it begins in units of 16 bytes from the buffer's first element on, as the part that all
    instructions share and each one's own.
    """
    if where.longest_run is None:
        candidates = before_swizzles(call, call["src"], where, source)
    else:
        candidates = _in_a_pattern(call, shape, where, source)
    if (fit := first_fitting(call, call["src"], candidates, partial(_fit, shape))) is None:
        raise Decline(_no_descriptor(call, source), allowed=ROWS_OF_DESCRIPTOR, changes=other_layouts(call, shape))
    _, descriptor, linear, begin = fit
    return descriptor, begin, linear[:, 0, 0] // UNIT


def _in_a_pattern(call: TileCall, shape: Shape, where: Places, source: Ints) -> Iterator[Candidate]:
    """Rows that begin at a place of a swizzle's pattern which is not known: they are whole before it, too."""
    facts, bits = call.facts, call["src"].dtype.bits
    assert where.swizzle is not None
    swizzle, base = mode_of(where.swizzle, bits), where.seen_base * bits
    start = plus(base, storage_start(call["src"].buffer, facts)[1])
    if swizzle and not (source[..., 0] % shape.row_bytes).any() and facts.divides(8 * shape.row_bytes, start):
        yield swizzle, source, base


def _fit(shape: Shape, swizzle: SwizzleMode, linear: Ints) -> Descriptor | None:
    """The descriptor that leads to the rows of each instruction, at (instructions, rows, units) bytes before the
    swizzle; None if there is none.
    """
    start, pitch = linear[:, :1, :1], swizzle.row_bytes
    row, unit = np.arange(linear.shape[1])[:, None], np.arange(linear.shape[2])
    stride = int(linear[0, GROUP, 0] - start[0, 0, 0]) if len(row) > GROUP else GROUP * pitch
    leading = UNIT * UNUSED_LEADING.get(swizzle, 1)
    if not swizzle and len(unit) > 1:
        leading = int(linear[0, 0, 1] - start[0, 0, 0])
    apart = UNIT if swizzle else leading
    if (linear != start + row % GROUP * pitch + row // GROUP * stride + unit * apart).any():
        return None
    if swizzle and (start % pitch + shape.row_bytes > pitch).any():
        return None
    return Descriptor(leading // UNIT, stride // UNIT, swizzle) if in_fields(leading, stride) else None


# Reports of what does not fit.


def _ranges(lanes: Ints) -> str:
    """``0-31, 64-95``."""
    distinct = np.unique(lanes)
    runs = np.split(distinct, np.flatnonzero(np.diff(distinct) != 1) + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _no_descriptor(call: TileCall, source: Ints) -> str:
    first = source[0, :, 0]
    step = int(first[1] - first[0]) if len(first) > 1 else 0
    even = bool((np.diff(first[:GROUP]) == step).all())
    return (
        f"no descriptor leads to the rows of {call['src'].name}: the first ones start {step} bytes apart"
        f"{'' if even else ', further ones not'}"
    )


# The code of a copy to tensor memory.


def emit_copies(plan: TmemCopyPlan, call: TileCall, out: Builder) -> None:
    """The instruction, or unrolled loops of it that move on in columns and in units of shared memory."""
    shared = call["src"].buffer
    encoded = out.once_behind(shared, plan.descriptor, lambda before: _encode(plan.descriptor, call["src"], before))
    for column, unit in out.turns("tile", plan.runs):
        _issue(plan, column, unit, encoded, call, out)


def _encode(descriptor: Descriptor, shared: Side, out: Builder) -> Expr:
    """The matrix descriptor of a shared buffer, in a register."""
    out.comment(f"the matrix descriptor of {shared.name}")
    register = out.local("cp_desc", 1, "uint64")
    start = AddressOf(shared.buffer.flat(), (as_expr(0),))
    fields = (descriptor.leading, descriptor.stride, int(descriptor.swizzle))
    out.call("ptx.tcgen05.encode_matrix_descriptor", register.pointer, start, *fields)
    return Load(register, (as_expr(0),))


def _issue(plan: TmemCopyPlan, column: Value, unit: Value, encoded: Expr, call: TileCall, out: Builder) -> None:
    address = call["dst"].buffer.allocated_addr
    assert address is not None
    out.call(
        CP,
        plus(address, plus(plan.column, column)),
        isa.call("smem_desc_add_16B_offset", encoded, plus(plan.unit, unit)),
        shape=plan.shape.name,
        cta_group=plan.cta_group,
        multicast=plan.shape.multicast,
        fmt=plan.fmt,
    )


# Shared memory to tensor memory: a row for each way in which tcgen05.cp distributes rows to lanes.
#
# 32 rows to all four warps is how block scales reach the tensor cores: an mma reads the scale of a row in each quarter
# of the 128 lanes, so that tensor memory holds every element four times, 32 lanes apart: ``R[4 : 32 @ TLane]``.


ROUTER = (Iter(4, 32, TLane),)


def _with_router(call: TileCall) -> Iterator[Change]:
    """The same call on a layout with the replicas that it lacks."""
    layout = call["dst"].buffer.layout
    if isinstance(layout, TileLayout) and not layout.replica:
        yield relaid(call, call["dst"], replace(layout, replica=ROUTER))


@condition(
    "the tensor memory holds each element in all four warps' lanes: exactly R[4 : 32 @ TLane]", changes=_with_router
)
def one_copy_per_warp(call: TileCall) -> str | None:
    replicas = replicas_of(call["dst"])
    if replicas == ROUTER:
        return None
    text = " + ".join(f"R[{it}]" for it in replicas) or "no replica"
    return f"needs R[4:32@TLane] on {call['dst'].name}, which has {text}"


@dataclass(frozen=True, slots=True)
class CopyVariant:
    """A variant: what it is called, the shapes of the instruction that it tries, what it asks beside the others."""

    name: str
    doc: str
    shapes: tuple[Shape, ...]
    priority: int = 10
    when: tuple[Condition, ...] = ()


ROWS = (
    CopyVariant(
        "tcgen05_cp",
        "tcgen05.cp 32x128b.warpx4: one thread copies 32 rows of 16 bytes to the lanes of all four warps.",
        (Shape("32x128b", "warpx4"),),
        when=(one_copy_per_warp,),
    ),
    CopyVariant(
        "tcgen05_cp_128",
        "tcgen05.cp 128x256b or 128x128b: one thread copies 128 rows, each to a lane of its own.",
        (Shape("128x256b"), Shape("128x128b")),
    ),
    CopyVariant(  # 02_13 has rows 0 to 31 in warps 0 and 2 (R[2 : 64 @ TLane]), 01_23 in neighbours (R[2 : 32 @ TLane])
        "tcgen05_cp_64",
        "tcgen05.cp 64x128b.warpx2: one thread copies 64 rows of 16 bytes, each to a lane of two warps.",
        (Shape("64x128b", "warpx2::02_13"), Shape("64x128b", "warpx2::01_23")),
    ),
    CopyVariant(  # fills lanes that a shift leaves free, or 64 rows one after the other: needs the most instructions
        "tcgen05_cp_4",
        "tcgen05.cp 4x256b: one thread copies 4 rows of 32 bytes, one to a lane of each warp.",
        (Shape("4x256b"),),
        priority=9,
    ),
)
ALIASES = {"smem->tmem": "tcgen05_cp"}  # as kernels written for TIRx call it


def made(row: CopyVariant, name: str) -> Variant:
    """The variant of a row."""

    def plan(call: TileCall) -> TmemCopyPlan:
        return plan_copies(call, row.shapes)

    variant = Variant(name, row.priority, (*FROM_SHARED, *row.when), plan, row.doc, ("cta_group", "fmt"))
    variant.emit(emit_copies)
    return variant


VARIANTS = {row.name: register(made(row, row.name), "copy_async") for row in ROWS}


@by_name("copy_async")
def smem_to_tmem(name: str) -> Variant | None:
    """The same under another name, which only ``dispatch=`` may say."""
    return next((made(row, name) for row in ROWS if row.name == ALIASES.get(name)), None)
