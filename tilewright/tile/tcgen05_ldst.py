"""Tensor memory to or from registers: a warp moves columns of its quarter of the lanes.

Warp ``w`` of a CTA reaches lanes ``32 * (w % 4)`` to ``+31``. An instruction has a shape, which distributes its cells
to the lanes and registers of the warp, and a number ``num``, which repeats it along the columns. A register of the
layout fits a shape if its 32 lanes find their cells where the shape has them; registers then join to the widest
instruction whose cells they fill. The copy is complete after ``T.ptx.tcgen05.wait.ld()`` or ``wait.st()``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright import isa
from tilewright.errors import LayoutError
from tilewright.ir import AddressOf, Expr, Value, as_expr, const_value, coordinate
from tilewright.isa import TMEM_SHAPES, cells_of
from tilewright.layout import THREADS_IN, tcgen05_atom_layout
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import (
    between,
    check_target,
    constant_extents,
    element_bits,
    plain_registers,
    tmem_address,
)
from tilewright.tile.dispatch import Change, Decline, condition, counted, relaid, variant
from tilewright.tile.owners import Owners, owners, registers_of
from tilewright.tile.partition import COLUMN_BITS, WHOLE_COLUMNS, CellPlaces, tmem_cells
from tilewright.tile.scope import SPOKEN
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, LoopTurns, plus, quotient, turns_of

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
        return _plan(call)
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


def _plan(call: TileCall) -> LdstPlan:
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
            _issue(plan, row, column, slots, call, out)


def _issue(plan: LdstPlan, row: Value, column: Value, slots: Sequence[Value], call: TileCall, out: Builder) -> None:
    address, registers = call.side("tmem").buffer.allocated_addr, call.side("local").buffer.flat()
    places = [AddressOf(registers, (as_expr(plus(plan.slot, slot)),)) for slot in slots]
    words: dict[str, object] = {"pack" if plan.op.endswith("ld") else "unpack": True} if plan.halves else {}
    if plan.split is not None:
        words["split"] = plan.split
    row, col = plus(plan.quarter, row), plus(plan.column, column)
    out.call(plan.op, address, *places, shape=plan.shape, num=plan.num, row=row, col=col, **words)
