"""Registers as matrix instructions see them: which block of an operand of a product each holds; which of them one
``ldmatrix`` or ``stmatrix`` fills or empties, and from which rows.

A `MatrixKind` distributes the bytes of 16-byte rows to lanes and registers, as its fragment in the instruction table
says. A register can be served if its bytes lie in shared memory as the kind has them, each row from a multiple of 16
bytes on; where the rows are, and in what order registers and matrices are, does not matter. The fit is decided on the
table of addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.errors import LayoutError
from tilewright.ir import AddressOf, Buffer, Expr, Load, Value, as_expr, coordinate, special
from tilewright.ir.ranges import RangeFacts
from tilewright.isa import Form, Mods, lookup, matrix_fragment
from tilewright.layout import Layout, SwizzleMode, mma_shared_layout
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import alignments, check_target
from tilewright.tile.dispatch import Decline, counted
from tilewright.tile.owners import Owners, owners, rank_among, registers_of
from tilewright.tile.partition import Places, misaligned, places, tracked
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, Offset, plus, times

# The layouts of mma operands that a buffer in shared memory may have: the proposals of a report.


def mma_layouts(buffer: Buffer, facts: RangeFacts) -> Iterator[tuple[str, Layout, SwizzleMode]]:
    """Each with the keyword that asks for it, the widest swizzle first."""
    for mode in reversed(SwizzleMode):
        try:
            layout = mma_shared_layout(buffer.dtype, mode, buffer.shape, facts)
        except LayoutError:
            continue
        yield f'layout=mma_shared_layout("{buffer.dtype}", SwizzleMode.{mode.name}, {buffer.shape})', layout, mode


# Registers as a matrix product sees them: which register holds which block of which matrix.
#
# In an operand of ``mma`` lane 4g+t of a warp has neighbours of one row (or column): what lies along g, and what lies
# along t and inside of a register, are two runs of numbers, the *block*. Products do not care in which order rows,
# columns and steps along K come, only that the operands have the same ones: a layout fits if each of its registers is
# such a block, and if for any two blocks that meet the operands have the registers.


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The part of a register region that each warp holds. elements: (warps, 32 lanes, registers, elements of a
    register), row-major numbers, -1 in warps that hold nothing. slots: where each register begins, to be added to
    ``base``. guard: holds in the warps that hold something; None where all do.
    """

    elements: Ints
    slots: Ints
    base: Value
    guard: Expr | None

    @property
    def warps(self) -> Ints:
        """The numbers of the warps that hold something."""
        return np.flatnonzero(self.elements[:, 0, 0, 0] >= 0)


def held_by_warps(call: TileCall, side: Side) -> Held:
    """The registers of each warp of the scope. Raises Decline unless whole warps hold whole 32-bit registers."""
    held = owners(call, side, loading=True)
    if held.space == "thread":
        raise Decline(f"each thread has all of {side.name}; a warp's registers share a matrix out")
    registers = registers_of(call, side, held, side.dtype.bits)
    warps_in = held.space_threads // 32
    full = np.full((held.shared_by, warps_in, *registers.shape[1:]), -1, np.int64)
    full[:, held.threads[::32] // 32] = registers
    per_register = registers.shape[3]
    return Held(
        full.reshape(-1, *registers.shape[1:]), held.slots[::per_register], held.base, held.guard(storing=False)
    )


@dataclass(frozen=True, slots=True, eq=False)
class RegisterBlocks:
    """The registers of an operand by their blocks. first: the slot of each by its block: numbers along g, and along t
    and inside of a register, of all warps, as bytes. along_g, inside: these numbers, in the order of the slots.
    warps: that hold the matrix. pairs: for each register of a lane its two runs.
    """

    side: Side
    warps: Ints
    pairs: tuple[tuple[Ints, Ints], ...]
    first: Mapping[tuple[bytes, bytes], int]
    along_g: Mapping[bytes, Ints]
    inside: Mapping[bytes, Ints]

    def slot(self, along_g: Ints, inside: Ints) -> int:
        """Where the register with this block begins. Raises Decline where there is none."""
        register = self.first.get((along_g.tobytes(), inside.tobytes()))
        if register is None:
            raise Decline(self._lacks(along_g, inside))
        return register

    def _lacks(self, along_g: Ints, inside: Ints) -> str:
        """The refusal that names the warp in which no register has these numbers."""
        for warp in range(len(along_g)):
            mine = {(rows[warp].tobytes(), others[warp].tobytes()) for rows, others in self.pairs}
            if (along_g[warp].tobytes(), inside[warp].tobytes()) not in mine:
                break
        rows, columns = (_spoken(places[warp]) for places in (along_g, inside))
        where = f" in warp {self.warps[warp]}" if len(self.warps) > 1 else ""
        return f"no register of {self.side.name} has {rows} for g and {columns} for t{where}, as the others have"


def _spoken(numbers: Ints) -> str:
    return ", ".join(map(str, numbers.tolist()))


def blocks_of(side: Side, held: Held, warps: Ints, columns: int, g: int) -> RegisterBlocks:
    """The blocks of a matrix with so many ``columns``, in these warps; dimension ``g`` of it goes along the lanes' g.

    Raises Decline where a register is no block.
    """
    count = len(held.slots)
    coordinates = np.stack(np.divmod(held.elements[warps], columns)).reshape(2, len(warps), 8, 4, count, -1)
    outer, inner = coordinates[g], coordinates[1 - g]
    strays = (outer != outer[:, :, :1, :, :1]) | (inner != inner[:, :1])
    if strays.any():
        raise Decline(_astray(side, held, coordinates, strays, warps, g))
    first: dict[tuple[bytes, bytes], int] = {}
    pairs, along_g, inside = list[tuple[Ints, Ints]](), dict[bytes, Ints](), dict[bytes, Ints]()
    for register, slot in enumerate(held.slots.tolist()):
        rows = np.ascontiguousarray(outer[:, :, 0, register, 0])
        others = np.ascontiguousarray(inner[:, 0, :, register, :]).reshape(len(warps), -1)
        pairs.append((rows, others))
        first.setdefault((rows.tobytes(), others.tobytes()), slot)
        along_g.setdefault(rows.tobytes(), rows)
        inside.setdefault(others.tobytes(), others)
    return RegisterBlocks(side, warps, tuple(pairs), first, along_g, inside)


def _astray(side: Side, held: Held, coordinates: Ints, strays: Ints, warps: Ints, g: int) -> str:
    """The refusal that names a lane whose register is no block."""
    warp, lane_g, lane_t, register, part = np.argwhere(strays)[0].tolist()
    row, column = coordinates[:, warp, lane_g, lane_t, register, part].tolist()
    first = coordinates[:, warp, lane_g, 0, register, 0][g], coordinates[:, warp, 0, lane_t, register, part][1 - g]
    wanted = first if g == 0 else first[::-1]
    slot = int(held.slots[register]) + part
    lane = f"lane {4 * lane_g + lane_t}" + (f" of warp {warps[warp]}" if len(held.elements) > 1 else "")
    return (
        f"slot {slot} of {side.name} is element ({row}, {column}) in {lane}; mma has ({wanted[0]}, {wanted[1]}) there"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """The slots of each operand's registers. a: (tiles of M, steps of K, registers); b: (tiles of N, steps of K,
    registers), d: (tiles of M, tiles of N, registers). halves: runs of 16 bytes along K in a step.
    """

    a: Ints
    b: Ints
    d: Ints
    halves: int

    @property
    def count(self) -> int:
        """Instructions of a warp."""
        m, k, _ = self.a.shape
        return int(m * k * len(self.b))


def products_of(
    a: RegisterBlocks, b: RegisterBlocks, d: RegisterBlocks, per_register: int, halves: Sequence[int]
) -> Products:
    """How the registers of A, B and D meet. per_register: elements of D in one. halves: that an instruction may have.

    Raises Decline where one of them lacks a block that the others have.
    """
    rows, columns, along_k = list(a.along_g.values()), list(b.along_g.values()), list(a.inside.values())
    if len(rows) % 2:
        raise Decline(f"a warp has {8 * len(rows)} rows of {a.side.name}", allowed="a multiple of 16 rows")
    half = next(size for size in halves if len(along_k) % size == 0)
    left = np.array([[a.slot(row, k) for k in along_k] for row in rows])
    right = np.array([[b.slot(column, k) for k in along_k] for column in columns])
    parts = 2 // per_register
    total = np.array([
        [[d.slot(row, np.ascontiguousarray(column[:, part::parts])) for part in range(parts)] for column in columns]
        for row in rows
    ])  # fmt: skip
    for blocks, slots in ((a, left), (b, right), (d, total)):
        if len(blocks.pairs) != slots.size:
            name, count = blocks.side.name, len(blocks.pairs)
            raise Decline(f"a warp has {count} registers of {name}, and the other operands meet {slots.size}")
    steps = len(along_k) // half
    m, n = len(rows) // 2, len(columns)
    left = left.reshape(m, 2, steps, half).transpose(0, 2, 3, 1).reshape(m, steps, -1)  # rows toggle first
    total = total.reshape(m, 2, n, parts).transpose(0, 2, 1, 3).reshape(m, n, -1)
    return Products(left, right.reshape(n, steps, half), total, half)


# Matrix copies, and the plan of one.


ROW_BITS = 128
LANE = special("laneid")
WARP: dict[str, Value] = {"thread": 0, **{kind: coordinate(kind, "warp") for kind in ("warp", "warpgroup", "cta")}}


@dataclass(frozen=True, slots=True)
class MatrixKind:
    """A kind of matrix: an instruction with its modifiers, all but the number of matrices.

    recombines: after the load, halves of two registers change places, so that each holds one matrix of ``m16n8``.
    """

    op: str
    shape: str
    trans: bool
    type: str
    recombines: bool = False

    @property
    def form(self) -> Form:
        """The row of the instruction table."""
        mods: Mods = {"shape": self.shape, "trans": self.trans, "type": self.type, "num": 1, "space": "shared"}
        return next(form for form in lookup(self.op).forms if form.fits(mods))

    @property
    def nums(self) -> list[int]:
        """How many matrices an instruction may move, the most first."""
        return sorted(self.form.wording.modifiers["num"], reverse=True)

    @property
    def name(self) -> str:
        """``ldmatrix``, with the shape where it is not the first."""
        return self.op.partition(".")[2] + ("" if self.shape == "m8n8" else f" {self.shape}")

    @property
    def dealt(self) -> Dealt:
        """Where the parts of a register come from."""
        return _dealt("m16n8" if self.recombines else self.shape, self.trans)

    @property
    def height(self) -> int:
        """Rows of a matrix, each with the address of a lane."""
        return 16 if self.shape == "m16n16" else 8

    @property
    def unit_bits(self) -> int:
        """What stays together in a row and in a register."""
        return 16 if self.shape == "m8n8" else 8

    @property
    def packed_bits(self) -> int:
        """Bits of the elements in memory, where each gets a byte of a register: 6 of ``.b8x16.b6x16_p32``; else 0."""
        return int(self.type.rpartition(".b")[2][0]) if self.unpacks else 0

    @property
    def unpacks(self) -> bool:
        """Do elements narrower than a byte get a byte each?"""
        return self.type not in (".b16", ".b8")

    def row_sources(self) -> tuple[Ints, Ints]:
        """For each address of a matrix: which of its registers, and which of that one's rows, it belongs to."""
        lane = np.arange(self.height)
        if self.recombines:
            return lane // 2 % 2, lane // 4 * 2 + lane % 2
        return np.zeros_like(lane), lane


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """row, column: (32 lanes, units of a register), of its first register. steps: units from the row's start to what
    the same lane's further registers of the matrix hold, 0 for the first.
    """

    row: Ints
    column: Ints
    steps: tuple[int, ...]


@lru_cache
def _dealt(shape: str, trans: bool) -> Dealt:
    layout = matrix_fragment(shape, 1, trans=trans)
    bits = 16 if shape == "m8n8" else 8
    columns, units = ROW_BITS // bits, 32 // bits
    table = layout.table([layout.size()])
    lane, slot = table["laneid"][:, 0], table["m"][:, 0]
    number = np.zeros((layout.size() // (32 * units), 32, units), np.int64)
    number[slot // units, lane, slot % units] = np.arange(layout.size())
    row, column = number // columns, number % columns
    return Dealt(row[0], column[0], tuple((column[:, 0, 0] - column[0, 0, 0]).tolist()))


@dataclass(frozen=True, slots=True)
class MatrixPlan:
    """kind, num: the instruction. rounds: how often it is executed.

    slots: the place of each register operand, round by round. rows: the address that a lane supplies; by round, or
    where ``by_matrix``, by number of the matrix. guard: holds in the warps that take part.
    """

    kind: MatrixKind
    num: int
    rounds: int
    slots: tuple[Offset, ...]
    rows: Offset
    by_matrix: bool
    guard: Expr | None

    def summary(self) -> str:
        """``ldmatrix x4, transposed, 2 instructions per warp``."""
        how = f"{', transposed' if self.kind.trans else ''}{', halves exchanged' if self.kind.recombines else ''}"
        return f"{self.kind.name} x{self.num}{how}, {counted(self.rounds)} per warp"

    def index(self, round: Value) -> Value:
        """What the row addresses count."""
        return plus(times(round, self.num), LANE // self.kind.height % self.num) if self.by_matrix else round


def plan_matrices(call: TileCall, kinds: Sequence[MatrixKind], num: int | None = None) -> MatrixPlan:
    """The copy by the first of ``kinds`` that serves all registers, as many matrices at a time as divide them.

    num: exactly so many. Raises Decline.
    """
    local, shared = call.side("local"), call.side("shared")
    loading = local is call["dst"]
    held = owners(call, local, loading=loading)
    registers = registers_of(call, local, held, 8 if kinds[0].unpacks else local.dtype.bits)
    where = places(shared, call.facts)
    kind, members, rows = served(call, shared, where, registers, kinds)
    check_target(call, kind.name, kind.form)
    if not loading and len(np.unique(where.seen[0, registers])) < registers.size:
        raise Decline(f"several elements of {local.name} go to one place in {shared.name}")
    count = len(members)
    width = num or next(count_of for count_of in kind.nums if count % count_of == 0)
    if count % width:
        raise Decline(
            f"{count} {kind.shape} matrices for each warp", allowed=f"a multiple of the {width} that it moves at a time"
        )
    offset, by_matrix = row_addresses(call, shared, where, rows, width, held)
    starts = held.slots[:: len(held.slots) // registers.shape[2]]
    slots = tuple(
        slots_of(held, starts[members[matrix::width, column]])
        for matrix in range(width)
        for column in range(members.shape[1])
    )
    return MatrixPlan(kind, width, count // width, slots, offset, by_matrix, held.guard(storing=not loading))


# The registers that a kind of matrix serves, and the rows of each.


def served(
    call: TileCall, shared: Side, where: Places, registers: Ints, kinds: Sequence[MatrixKind]
) -> tuple[MatrixKind, Ints, Ints]:
    """The kind that serves all registers, the registers of each matrix (matrices, registers of one), and the first
    element of each of its rows (warps, rows of a matrix, matrices).

    Raises Decline unless every row of every matrix is made of 16 aligned bytes, all of one kind.
    """
    if len(where.units) > 1:
        raise Decline(f"{shared.name} has symbolic strides", allowed="strides that are numbers")
    bits = shared.dtype.bits
    neighbours = 16 if kinds[0].unpacks else ROW_BITS // bits
    if where.longest_run is not None and where.longest_run < neighbours:
        raise Decline(f"the swizzle of {shared.name} keeps only {where.longest_run} elements together")
    at = where.seen[0, registers]
    for kind in kinds:
        if fit := _fit(kind, at, registers, bits):
            rows = fit[1]
            problem = misaligned(call, shared, where, where.seen[:, rows.reshape(-1)], ROW_BITS // bits)
            if problem:
                changes = alignments(call, shared, where, ROW_BITS // bits)
                raise Decline(problem, allowed="rows that start at multiples of 16 bytes", changes=changes)
            return kind, *fit
    raise Decline(_no_rows(shared, at, neighbours, kinds), allowed=fitting(kinds))


def _fit(kind: MatrixKind, at: Ints, registers: Ints, bits: int) -> tuple[Ints, Ints] | None:
    """The registers of each matrix and the elements that begin its rows, if addresses ``at`` (elements) lie so."""
    grain = bits if kind.unpacks else min(bits, kind.unit_bits)  # addresses are compared in such units
    cuts, joins = bits // grain, 1 if kind.unpacks else kind.unit_bits // grain
    dealt = kind.dealt
    row = dealt.row.repeat(joins, axis=1)
    column = (dealt.column[..., None] * joins + np.arange(joins)).reshape(row.shape)
    fine = (at[..., None] * cuts + np.arange(cuts)).reshape(*at.shape[:3], -1)
    lane, unit = np.argwhere(column == 0)[np.argsort(row[column == 0], kind="stable")].T
    starts = fine[:, lane, :, unit]  # (rows, warps, registers)
    if (np.moveaxis(fine, (1, 3), (0, 1)) != starts[row] + column[..., None, None]).any() or (unit % cuts).any():
        return None
    members = _members(kind, starts, dealt.steps[-1] * joins)
    if members is None:
        return None
    which, source = kind.row_sources()
    first = registers[:, lane, :, unit // cuts]
    return members, first[source[:, None], :, members[:, which].T].transpose(2, 0, 1)


def _members(kind: MatrixKind, starts: Ints, step: int) -> Ints | None:
    """The registers of each matrix, (matrices, registers of one); None where one is without its partner.

    starts: (rows, warps, registers). step: from a matrix's first register to its second, along every row.
    """
    count = starts.shape[-1]
    if kind.recombines:
        return None if count % 2 else np.arange(count).reshape(-1, 2)
    if not step:
        return np.arange(count)[:, None]
    pairs, waiting = [], dict[bytes, list[int]]()
    for register in np.argsort(starts[0, 0], kind="stable").tolist():
        mine = starts[..., register]
        if partners := waiting.get((mine - step).tobytes()):
            pairs.append((partners.pop(0), register))
        else:
            waiting.setdefault(mine.tobytes(), []).append(register)
    return None if any(waiting.values()) else np.array(sorted(pairs))


def fitting(kinds: Sequence[MatrixKind]) -> str:
    """Which layouts fit."""
    dealt = (matrix_fragment("m16n8" if kind.recombines else kind.shape, 1, trans=kind.trans) for kind in kinds)
    parts = (f"elements of {kind.unit_bits} bits as {layout}" for kind, layout in zip(kinds, dealt, strict=True))
    return f"rows of 16 aligned bytes in shared memory; in registers each matrix of {', or of '.join(parts)}"


def _no_rows(shared: Side, at: Ints, neighbours: int, kinds: Sequence[MatrixKind]) -> str:
    origin, count = at[0, 0, 0, 0], at.shape[-1]
    along_g, along_t = (int(at[0, lane, 0, 0] - origin) for lane in (4, 1))
    inside = f"elements of a register lie {int(at[0, 0, 0, 1] - origin)} apart, " if count > 1 else ""
    needed = {False: f"{'1 and ' if count > 1 else ''}{count}", True: "with trans 1 along g"}
    return (
        f"no {neighbours} neighbours in {shared.name} form a row: {inside}lanes 4g+t {along_t} along t"
        f" and {along_g} along g; needed are {', or '.join(needed[kind.trans] for kind in kinds)}, in every register"
    )


# The addresses of rows and the slots of registers, round by round.


def row_addresses(
    call: TileCall, shared: Side, where: Places, rows: Ints, num: int, held: Owners
) -> tuple[Offset, bool]:
    """The address that each lane supplies in each round; True where it is counted by matrix instead.

    With matrices of 8 rows, lane 8i+r names row r of the round's matrix i; lanes beyond repeat them, as sm_75 wants an
    address from each.
    """
    warps, height, count = rows.shape
    by_lane = rows.reshape(warps, height, count // num, num).transpose(0, 3, 1, 2).reshape(warps, height * num, -1)
    by_lane = np.tile(by_lane, (1, 32 // (height * num), 1))
    warp = rank_among(held.threads[::32] // 32, WARP[held.space])
    for listed in (False, True):
        if offset := tracked(call, shared, where, by_lane, [warp, LANE], listed=listed):
            return offset, False
        if offset := tracked(call, shared, where, rows, [warp, LANE % height], listed=listed):
            return offset, True
    groups = [
        tracked(call, shared, where, by_lane[..., g : g + 1], [warp, LANE], listed=True) for g in range(count // num)
    ]
    if None in groups:
        raise Decline(f"the rows of {shared.name} follow no pattern from warp to warp")
    return Offset(0, rounds=tuple(offset for offset in groups if offset)), False


def slots_of(held: Owners, starts: Ints) -> Offset:
    """The first slot of one register operand, round by round."""
    slots = held.offset_of(starts)
    if slots is None:
        raise Decline(f"the registers follow no pattern: slots {held.slots.tolist()}")
    return slots


# The code of a matrix copy.


def emit_matrices(plan: MatrixPlan, call: TileCall, out: Builder) -> None:
    """A loop over the rounds: a pointer to the lane's row, and the instruction."""
    local, shared = call.side("local"), call.side("shared")
    registers, storage, kind = local.buffer.flat(), shared.buffer.flat(), plan.kind
    with out.when(plan.guard):
        address = out.offsets(plan.rows, "smem")
        slots = [out.offsets(slot, "r") for slot in plan.slots]
        with out.loop("mm", plan.rounds, "unroll", always=True) as mm:
            smem_ptr = out.pointer("smem_ptr", storage, address(plan.index(mm)))
            at = [slot(mm) for slot in slots]
            pointers = [AddressOf(registers, (as_expr(slot),)) for slot in at]
            out.call(kind.op, kind.trans, plan.num, kind.type, smem_ptr, *pointers, shape=kind.shape, space="shared")
            if kind.recombines:
                for first, second in _pairs(at):
                    _exchange_halves(out, registers, first, second)


def _pairs(slots: list[Value]) -> Iterator[tuple[Value, Value]]:
    return zip(slots[::2], slots[1::2], strict=True)


def _exchange_halves(out: Builder, registers: Buffer, first: Value, second: Value) -> None:
    """The upper half of one register of bytes and the lower half of another change places."""
    for byte in range(2):
        upper, lower = (Load(registers, (as_expr(slot),)) for slot in (plus(first, byte + 2), plus(second, byte)))
        kept = out.let("upper", upper)
        out.store(registers, upper.indices[0], lower)
        out.store(registers, lower.indices[0], kept)
