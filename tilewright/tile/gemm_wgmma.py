"""wgmma: a warpgroup multiplies matrices of shared memory, or A in its registers, into its registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright import isa
from tilewright.errors import LayoutError
from tilewright.ir import AddressOf, Expr, Region, Value, as_expr
from tilewright.layout import Layout, wgmma_fragment
from tilewright.tile import near
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import check_target, constant_extents, misplaced
from tilewright.tile.dispatch import Change, Condition, Decline, condition, counted, variant
from tilewright.tile.owners import owners
from tilewright.tile.smem_descriptors import (
    DescribedBlocks,
    blocks_of,
    blocks_text,
    described,
    encoded_blocks,
    long_extents,
    matrix_of,
    other_layouts,
    products_of,
)
from tilewright.tile.walks import Ints, plus

ROWS, THREADS = 64, 128
NAMES = {True: "ptx.wgmma.mma_async.ss", False: "ptx.wgmma.mma_async.rs"}


@dataclass(frozen=True, slots=True, eq=False)
class WgmmaPlan:
    """a: the blocks of A in shared memory, or the slots of its registers, (blocks, steps, 4). d: the slots of D's, (64
    rows, blocks of columns, registers). columns: the first of each block, and the end.
    """

    k: int
    n: int
    a: DescribedBlocks | Ints
    b: DescribedBlocks
    a_base: Value
    d: Ints
    d_base: Value

    @property
    def count(self) -> int:
        """Instructions."""
        steps = self.b.starts.shape[1]
        return len(self.d) * int(self.d.shape[1]) * int(steps)

    def summary(self) -> str:
        """``m64n128k16, 4 instructions; A 128-byte swizzle, B 128-byte swizzle, MN-major``."""
        a = blocks_text(self.a) if isinstance(self.a, DescribedBlocks) else "in registers"
        return f"m64n{self.n}k{self.k}, {counted(self.count)}; A {a}, B {blocks_text(self.b)}"


@condition("D is in registers, B in shared memory, A in either")
def in_their_memories(call: TileCall) -> str | None:
    return misplaced(call, D=("local",), A=("shared", "local"), B=("shared",))


@condition("a warpgroup executes the call together: Tx.wg.gemm_async")
def one_warpgroup(call: TileCall) -> str | None:
    return None if call.scope.kind == "warpgroup" else f"a {call.scope.kind} executes the call"


@condition("A, B and D have types that the instruction multiplies", changes=near.other_types)
def known_types(call: TileCall) -> str | None:
    row = isa.WGMMA_TYPES.get(call["A"].dtype)
    if row and call["B"].dtype in row.partners and call["D"].dtype in row.results:
        return None
    return f"no wgmma multiplies {call['A'].dtype} by {call['B'].dtype} into {call['D'].dtype}"


WHEN: tuple[Condition, ...] = (in_their_memories, one_warpgroup, known_types, constant_extents)
KEYWORDS = ("transA", "transB", "negate", "negateA", "negateB", "sync")


@variant("gemm_async", priority=10, when=WHEN, keywords=KEYWORDS)
def wgmma(call: TileCall) -> WgmmaPlan:
    """wgmma.mma_async: a warpgroup multiplies 64 rows by up to 256 columns, a K of 32 bytes at a time."""
    row = isa.WGMMA_TYPES[call["A"].dtype]
    check_target(call, "wgmma", isa.lookup(NAMES[True]).forms[0])
    a, b = (matrix_of(call[name], trans=bool(call.option(f"trans{name}"))) for name in "AB")
    m, n = len(a), _width(call, len(b))
    if m % ROWS or a.shape[1] % row.k:
        raise Decline(f"M is {m} and K {a.shape[1]}", allowed=f"M a multiple of 64, K of {row.k}")
    right = blocks_of(b, n, row.k)
    d = _registers(call, call["D"], _fragments(matrix_of(call["D"], trans=False), n), "D")
    left: DescribedBlocks | Ints
    a_base: Value
    if call["A"].space == "shared":
        blocks = blocks_of(a, ROWS, row.k)
        left = described(call, call["A"], blocks, may_transpose=row.majors, changes=near.with_numbers(call))
        a_base = 0
    else:
        left, a_base = _registers(call, call["A"], _fragments(a, row.k, operand="A"), "A")
    described_b = described(call, call["B"], right, may_transpose=row.majors, changes=near.with_numbers(call))
    return WgmmaPlan(row.k, n, left, described_b, a_base, *d)


def _width(call: TileCall, columns: int) -> int:
    """Columns of an instruction: the most that divide all."""
    fitting = [n for n in isa.wgmma_widths(call["A"].dtype) if columns % n == 0]
    if not fitting:
        raise Decline(f"N is {columns}", allowed="a multiple of 8")
    return max(fitting)


def _fragments(matrix: Ints, width: int, operand: str = "D") -> Ints:
    """The elements that each thread of the warpgroup holds: (blocks of 64 rows, of columns, threads, elements)."""
    blocks = blocks_of(matrix, ROWS, width)
    element = {8: "float32", 16: "float16", 32: "int8"}.get(width, "int8")
    table = wgmma_fragment(ROWS, width, operand, element).table((ROWS, width))
    thread, slot = (table[axis][..., 0] for axis in ("tid_in_wg", "m"))
    fragments = np.zeros((*blocks.shape[:2], THREADS, ROWS * width // THREADS), np.int64)
    fragments[:, :, thread, slot] = blocks
    return fragments


def _registers(call: TileCall, side: Side, wanted: Ints, operand: str) -> tuple[Ints, Value]:
    """The slot of each register, (..., registers), and what they count from. Raises Decline."""
    held = owners(call, side, loading=True)
    per_register = 32 // side.dtype.bits
    slots = np.full(int(held.elements.max()) + 1, -1)
    fits = len(held.threads) == THREADS
    if fits:
        slots[held.elements[0]] = held.slots
        held_slots = slots[wanted[:, :, 0]]
        fits = bool((held_slots >= 0).all())
    if fits:
        column = np.searchsorted(held.slots, held_slots)
        fits = bool((held.elements[:, column] == np.moveaxis(wanted, 2, 0)).all())
    if fits:
        registers = held_slots.reshape(*held_slots.shape[:2], -1, per_register)
        fits = bool((registers - registers[..., :1] == np.arange(per_register)).all())
        fits = fits and not (registers[..., 0] % per_register).any()
        if fits:
            return registers[..., 0], held.base
    rows, columns = long_extents(side.extents)
    layout = f'wgmma_fragment({rows}, {columns}, "{operand}", "{side.dtype}")'
    raise Decline(
        f"{side.name} is not dealt out as the instruction has it: {side.buffer.layout}",
        allowed=f"the fragment of {operand}: {layout}",
        changes=_refitted(call, side, operand, layout),
    )


def _refitted(call: TileCall, side: Side, operand: str, text: str) -> Iterator[Change]:
    """The same registers in the layout that the instruction has."""
    shape = long_extents(side.buffer.shape)
    if len(shape) != 2:
        return
    try:
        layout: Layout = wgmma_fragment(*shape, operand, side.dtype)
    except LayoutError:
        return
    changed = side_of(Region(replace(side.buffer, layout=layout), side.region.box), call.facts)
    fitted = Change(f"layout={text} for {side.name}", call.with_side(side, changed))
    yield fitted
    yield from _with_operands(fitted, [name for name in "AB" if call[name].space == "shared"])


def _with_operands(change: Change, names: Sequence[str]) -> Iterator[Change]:
    """A change, and other layouts of the operands in shared memory: a first kernel may have rows everywhere."""
    if not names:
        yield change
        return
    for other in other_layouts(change.call, change.call[names[0]]):
        yield from _with_operands(Change(f"{change.text}, and {other.text}", other.call), names[1:])


# Code


@wgmma.emit
def _(plan: WgmmaPlan, call: TileCall, out: Builder) -> None:
    if call.option("sync"):
        out.call("ptx.wgmma.fence")
    encoded = {name: encoded_blocks(call[name], blocks, out, "wgmma") for name, blocks in (("A", plan.a), ("B", plan.b))
               if isinstance(blocks, DescribedBlocks)}  # fmt: skip
    signs = {"scaleA": -1} if bool(call.option("negate")) != bool(call.option("negateA")) else {}
    signs |= {"scaleB": -1} if call.option("negateB") else {}
    majors = {"transB": plan.b.trans, **({"transA": plan.a.trans} if isinstance(plan.a, DescribedBlocks) else {})}
    kinds = {"in_dtype": call["A"].dtype, "out_dtype": call["D"].dtype}
    if call["B"].dtype != call["A"].dtype:
        kinds["b_dtype"] = call["B"].dtype
    sizes = {"M": ROWS, "N": plan.n, "K": plan.k}
    for i, j, step, added in products_of(call, *plan.d.shape[:2], plan.b.starts.shape[1]):
        operands = [encoded["B"](j, step)]
        if isinstance(plan.a, DescribedBlocks):
            operands.insert(0, encoded["A"](i, step))
        else:
            operands += _places(call["A"], plan.a[i, step], plan.a_base)
        acc = _places(call["D"], plan.d[i, j], plan.d_base)
        out.call(NAMES["A" in encoded], *operands, *acc, **sizes, **kinds, **majors, **signs, scaleD=added)
    if call.option("sync"):
        out.call("ptx.wgmma.commit_group")
        out.call("ptx.wgmma.wait_group", 0)


def _places(side: Side, slots: Ints, base: Value) -> list[Expr]:
    """Pointers to registers."""
    storage = side.buffer.flat()
    return [AddressOf(storage, (as_expr(plus(base, int(slot))),)) for slot in slots]
