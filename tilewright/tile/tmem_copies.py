"""Copies to and from tensor memory: registers by tcgen05.ld and st, further down shared memory by tcgen05.cp.

To or from registers a warp moves columns of its quarter of the lanes.

Warp ``w`` of a CTA reaches lanes ``32 * (w % 4)`` to ``+31``. An instruction has a shape, which distributes its cells
to the lanes and registers of the warp, and a number ``num``, which repeats it along the columns. A register of the
layout fits a shape if its 32 lanes find their cells where the shape has them; registers then join to the widest
instruction whose cells they fill. The copy is complete after ``T.ptx.tcgen05.wait.ld()`` or ``wait.st()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from tilewright import isa
from tilewright.errors import LayoutError
from tilewright.ir import AddressOf, Expr, Value, as_expr, const_value, coordinate
from tilewright.isa import TMEM_SHAPES, cells_of
from tilewright.layout import THREADS_IN, Iter, SwizzleMode, TileLayout, TLane, tcgen05_atom_layout
from tilewright.tile import smem_descriptors
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import (
    alignments,
    between,
    between_in_order,
    check_target,
    constant_extents,
    element_bits,
    plain_registers,
    single_thread,
    tmem_address,
)
from tilewright.tile.dispatch import (
    Change,
    Condition,
    Decline,
    Variant,
    by_name,
    condition,
    counted,
    register,
    relaid,
    variant,
)
from tilewright.tile.owners import Owners, owners, registers_of
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
from tilewright.tile.scope import SPOKEN
from tilewright.tile.smem_descriptors import GROUP, UNIT, Candidate, before_swizzles, first_fitting, in_fields, mode_of
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, LoopTurns, plus, quotient, turns_of, walk_of

QUARTER = 32  # lanes that a warp reaches
SPLIT_SHAPE = "16x32bx2"  # the two halves of a warp have columns at any distance from each other
NUMS = (128, 64, 32, 16, 8, 4, 2, 1)
FRAGMENTS = f"registers as tcgen05_atom_layout has them for {', '.join(TMEM_SHAPES)}"
OWN_LANES = "warp w of a warpgroup holds what is in lanes 32w to 32w + 31"


@dataclass(frozen=True, slots=True)
class LdstPlan:
    """shape, num, split: the instruction. halves: it has two columns' low halves in each register. quarter: the first
    lane that the warp reaches. column, slot: where columns and slots count from. guard: holds in the warps that take
    part. runs: instructions, by the row and the column in the quarter where each begins, and the slot of each register.
    """

    op: str
    shape: str
    num: int
    split: int | None
    halves: bool
    quarter: Value
    column: Value
    slot: Value
    guard: Expr | None
    runs: tuple[LoopTurns, ...]

    def summary(self) -> str:
        """``tcgen05.ld 32x32b.x16, 1 instruction per warp``."""
        times_ = counted(sum(run.count for run in self.runs))
        halves = ", 16 bits of each column" if self.halves else ""
        return f"{self.op.removeprefix('ptx.')} {self.shape}.x{self.num}{halves}, {times_} per warp"


COLLECTIVES = {"warpgroup": "Tx.wg", "warp": "Tx.warp"}


def _by_whole_warps(call: TileCall) -> Iterator[Change]:
    """The same call made by a warpgroup or a warp, where whole ones get here."""
    for kind, spelled in COLLECTIVES.items():
        active = call.scope.active.reshape(-1, min(THREADS_IN[kind], call.scope.cta_threads))
        if (active == active[:, :1]).all():
            scope = replace(call.scope, kind=kind, threads=active.shape[1])
            yield Change(f"{spelled}.{call.stmt.primitive}", replace(call, scope=scope))


@condition("a warp or a warpgroup executes the call together", changes=_by_whole_warps)
def warps_of_a_group(call: TileCall) -> str | None:
    if call.scope.kind in COLLECTIVES:
        return None
    who = SPOKEN.get(call.scope.kind, "thread")
    return f"a {who} executes it; each warp of a warpgroup reaches its quarter of tensor memory"


@variant(
    "copy_async",
    priority=10,
    when=[
        between("local", "tmem"),
        tmem_address,
        warps_of_a_group,
        element_bits(4, 8, 16, 32),
        constant_extents,
        plain_registers,
    ],
)
def tcgen05_ldst(call: TileCall) -> LdstPlan:
    """tcgen05.ld or tcgen05.st: each warp moves columns of the 32 lanes of tensor memory that it reaches."""
    try:
        return _plan_ldst(call)
    except Decline as declined:
        changes = (*declined.changes, *_fragments(call))
        raise Decline(declined.reason, allowed=declined.allowed or FRAGMENTS, changes=changes) from None


def _fragments(call: TileCall) -> Iterator[Change]:
    """The same call with registers in a fragment of the instruction."""
    local = call.side("local")
    numbers = [const_value(extent) for extent in local.buffer.shape]
    shape = [extent for extent in numbers if isinstance(extent, int)]
    for name in TMEM_SHAPES:
        try:
            layout = tcgen05_atom_layout(name, shape, local.dtype)
        except LayoutError:
            continue
        yield relaid(call, local, layout, f'tcgen05_atom_layout("{name}", {tuple(shape)}, "{local.dtype}")')


def _plan_ldst(call: TileCall) -> LdstPlan:
    local, tensor = call.side("local"), call.side("tmem")
    op = "ptx.tcgen05.ld" if call["dst"] is local else "ptx.tcgen05.st"
    check_target(call, op.removeprefix("ptx."), isa.lookup(op).forms[0])
    held = owners(call, local, loading=True)
    registers = registers_of(call, local, held, local.dtype.bits)
    cells = tmem_cells(tensor)
    lane, bit = _of_warps(call, cells, held, registers)
    column, halves = _columns(call, cells, lane, bit)
    shape, num, split, places = _served(call, lane[..., 0], column, halves)
    members = held.slots[:: registers.shape[3]][np.stack([start[2] for start in places])]
    rows, columns = (np.array([start[place] for start in places]) for place in (0, 1))
    base = quotient(cells.bit_base, COLUMN_BITS, call.facts)
    guard = held.guard(storing=False)
    return LdstPlan(op, shape, num, split, halves, _quarter(call), base, held.base, guard,
                    turns_of(rows, columns, *members.T))  # fmt: skip


# Cells of registers


def _of_warps(call: TileCall, cells: CellPlaces, held: Owners, registers: Ints) -> tuple[Ints, Ints]:
    """The lane in its quarter and the first bit of each element of each register: (32, registers, elements of one).

    Raises Decline unless every warp finds what it holds in the lanes that it reaches, all in the same places there.
    """
    tensor = call.side("tmem")
    places: list[tuple[Ints, Ints]] = []
    written: dict[int, list[Ints]] = {}
    for warp, mine, base in _warps(call, cells, held, registers):
        first = QUARTER * (warp % 4)
        lane = cells.lane[mine] + base - first
        inside = (lane >= 0) & (lane < QUARTER)
        if not inside.any(axis=-1).all():
            raise Decline(
                f"warp {warp} reaches lanes {first} to {first + QUARTER - 1} of tensor memory, but holds elements of"
                f" {tensor} in lane {int((lane + first)[~inside.any(axis=-1)].flat[0])}",
                allowed=OWN_LANES,
            )
        which = inside.argmax(axis=-1)[..., None]
        here = tuple(np.take_along_axis(part, which, axis=-1)[..., 0] for part in (lane, cells.bit[mine]))
        places.append((here[0], here[1]))
        written.setdefault(warp * 32 // call.scope.threads, []).append(((here[0] + first - base) << 20) + here[1])
    if any((lane != places[0][0]).any() or (bit != places[0][1]).any() for lane, bit in places):
        raise Decline(
            f"the warps hold elements from different places of their quarters of {tensor}",
            allowed="one instruction for all warps: the same lanes and columns in each quarter",
        )
    if call["dst"] is tensor:
        _check_all_written(call, cells, list(written.values()))
    return places[0]


def _warps(call: TileCall, cells: CellPlaces, held: Owners, registers: Ints) -> Iterator[tuple[int, Ints, int]]:
    """The warps of the CTA that may get here; with each the elements it holds, and the lane that cells count from."""
    bases = call.scope.control.value(as_expr(cells.lane_base))
    if bases is None:
        raise Decline(
            f"which lanes {call.side('tmem')} is in depends on {cells.lane_base}, a value of run time",
            allowed="rows that follow from numbers and scope ids inside the CTA",
        )
    bases = np.broadcast_to(bases, call.scope.active.shape)
    ranks = {int(thread) // 32: position for position, thread in enumerate(held.threads[::32])}
    for warp in np.unique(np.flatnonzero(call.scope.active) // 32).tolist():
        position = ranks.get(warp % 4 if held.space == "warpgroup" else 0)
        if position is not None:
            yield warp, registers[position], int(bases[32 * warp])


def _check_all_written(call: TileCall, cells: CellPlaces, written: Sequence[Sequence[Ints]]) -> None:
    """A store writes every replica: each warp those in its own lanes."""
    wanted = np.unique((cells.lane << 20) + cells.bit)
    for places in written:
        if not np.array_equal(np.unique(np.concatenate([bits.reshape(-1) for bits in places])), wanted):
            tensor = call.side("tmem")
            raise Decline(
                f"{tensor} has elements in lanes that no warp writes which holds them in {call['src'].name}",
                allowed=OWN_LANES,
            )


def _columns(call: TileCall, cells: CellPlaces, lane: Ints, bit: Ints) -> tuple[Ints, bool]:
    """The column of each register (32, registers), and whether its two halves are in a column each."""
    tensor, bits = call.side("tmem"), call.dtype.bits
    inside = np.arange(bit.shape[-1])
    whole = (lane == lane[..., :1]).all() and not (bit[..., 0] % COLUMN_BITS).any()
    if not call.facts.divides(COLUMN_BITS, cells.bit_base):
        raise Decline(f"{tensor} begins inside a 32-bit column", allowed=WHOLE_COLUMNS)
    for halves, step in ((False, bits), (True, COLUMN_BITS)):
        if whole and (bit == bit[..., :1] + inside * step).all() and (not halves or bits == 16):
            return bit[..., 0] // COLUMN_BITS, halves
    raise Decline(
        f"the {len(inside)} elements of a register of {call.side('local').name} are in no column of {tensor}",
        allowed="a register and a column have the same elements, in the same order",
    )


def _quarter(call: TileCall) -> Value:
    """The first lane that the warp reaches: a number where all that get here reach the same."""
    quarters = np.unique(np.flatnonzero(call.scope.active) // 32 % 4)
    return QUARTER * int(quarters[0]) if len(quarters) == 1 else coordinate("warpgroup", "warp") * QUARTER


# The shapes of instructions that serve registers.


Found = list[tuple[int, int, Ints]]  # row, column, and the registers of one instruction


def _served(call: TileCall, lane: Ints, column: Ints, halves: bool) -> tuple[str, int, int | None, Found]:
    """The shape and number of the instruction, and where each begins: the most columns at a time."""
    for shape, form in TMEM_SHAPES.items():
        split = int(column[16, 0] - column[0, 0]) if shape == SPLIT_SHAPE else None
        for num in NUMS:
            if num <= form.most and (places := _tiled(shape, num, split, halves, lane, column)):
                return shape, num, split, places
    local, tensor = call.side("local"), call.side("tmem")
    raise Decline(
        f"lanes of a warp find the first register of {local.name} in lanes {lane[:, 0].tolist()}, columns"
        f" {column[:, 0].tolist()} of {tensor}: no shape deals them out so",
        allowed=FRAGMENTS,
    )


def _tiled(shape: str, num: int, split: int | None, halves: bool, lane: Ints, column: Ints) -> Found:
    """Registers joined to instructions of this shape and number; nothing where they are not made of such."""
    own_lane, own_column = cells_of(shape, num, split=split or 0, packed=halves)
    if halves:
        own_lane, own_column = own_lane[:, 0], own_column[:, 0]
    if lane.shape[1] % len(own_lane):
        return []
    for mine, its in ((lane, own_lane), (column, own_column)):
        pattern = (its[0] - its[0, 0])[:, None]  # the same for all registers of a shape
        if (mine - mine[0] != pattern).any():
            return []
    steps = list(zip((own_lane[:, 0]).tolist(), own_column[:, 0].tolist(), strict=True))
    rows = range(0, QUARTER, TMEM_SHAPES[shape].height)
    left = {place: register for register, place in enumerate(zip(column[0].tolist(), lane[0].tolist(), strict=True))}
    places: Found = []
    for first_column, row in sorted(left):
        if (first_column, row) not in left:
            continue
        members = [left.pop((first_column + across, row + down), None) for down, across in steps]
        if None in members or row not in rows:
            return []
        places.append((row, first_column, np.array(members)))
    return sorted(places, key=lambda start: start[:2]) if not left else []


# The code of a copy.


@tcgen05_ldst.emit
def _(plan: LdstPlan, call: TileCall, out: Builder) -> None:
    with out.when(plan.guard):
        for row, column, *slots in out.turns("group", plan.runs):
            _issue_ldst(plan, row, column, slots, call, out)


def _issue_ldst(
    plan: LdstPlan, row: Value, column: Value, slots: Sequence[Value], call: TileCall, out: Builder
) -> None:
    address, registers = call.side("tmem").buffer.allocated_addr, call.side("local").buffer.flat()
    places = [AddressOf(registers, (as_expr(plus(plan.slot, slot)),)) for slot in slots]
    words: dict[str, object] = {"pack" if plan.op.endswith("ld") else "unpack": True} if plan.halves else {}
    if plan.split is not None:
        words["split"] = plan.split
    row, col = plus(plan.quarter, row), plus(plan.column, column)
    out.call(plan.op, address, *places, shape=plan.shape, num=plan.num, row=row, col=col, **words)


# Shared memory to tensor memory: which tcgen05.cp instructions bring a region to the cells that its layout names.
#
# An instruction takes rows of 16 or 32 bytes, found by a matrix descriptor, and writes each row to the columns of one
# or several lanes. So a plan answers three questions, in this order:
#
# 1. *Rows*: is each lane of the region made of runs of 16 (32) bytes in whole columns, each run from one place of
#    shared memory?
# 2. *Lanes*: do the runs of one column lie in exactly the lanes that an instruction writes, copies of a row from the
#    same source?
# 3. *Descriptor*: are the sources of the rows where a descriptor has them: groups of 8 rows, 16, 32, 64 or 128 bytes
#    apart and swizzled over that width, the groups at a constant distance?
#
# Tables of addresses answer all three. What an instruction does with rows, lanes and descriptors is in the instruction
# table.
#
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
    fields = plan.descriptor
    key = fields.leading, fields.stride, int(fields.swizzle)
    encoded = smem_descriptors.encoded_first(call["src"], key, out, "tcgen05", "cp_desc")
    for column, unit in out.turns("tile", plan.runs):
        _issue(plan, column, unit, encoded, call, out)


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
