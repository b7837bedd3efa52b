"""tcgen05.mma: one thread has matrices of shared memory, or A in tensor memory, multiplied into tensor memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.ir import Expr, Load, Region, Value, as_expr, const_value
from tilewright.isa.tcgen05_mma_values import PATHS, DataPath
from tilewright.layout import tmem_datapath_layout
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.cells import COLUMN_BITS, tmem_cells
from tilewright.tile.conditions import constant_extents, misplaced, several_issuers
from tilewright.tile.dispatch import Change, Decline, condition, counted, variant
from tilewright.tile.hints import check_target
from tilewright.tile.smem_descriptors import (
    DescribedBlocks,
    blocks_of,
    blocks_text,
    described,
    encoded_blocks,
    long_extents,
    matrix_of,
    products_of,
)
from tilewright.tile.walks import Ints, plus, quotient

__all__ = ["UmmaPlan"]

MMA = "ptx.tcgen05.mma"
LANE = 1 << 16  # what leads from lane to lane in an address of tensor memory


@dataclass(frozen=True, slots=True, eq=False)
class CellBlocks:
    """Where blocks of a matrix begin in tensor memory: what is added to the buffer's address, by two indices, and base,
    to all of them.
    """

    starts: Ints
    base: Value


@dataclass(frozen=True, slots=True, eq=False)
class UmmaPlan:
    """made: what each instruction computes. a, b: the blocks of A and B, d: of D, by rows and columns. elects: a warp
    executes the call, and one of its threads issues.
    """

    made: isa.InstructionDescriptor
    a: DescribedBlocks | CellBlocks
    b: DescribedBlocks
    d: CellBlocks
    elects: bool

    def summary(self) -> str:
        """``m128n256k16, 4 instructions; A 128-byte swizzle, B 128-byte swizzle``."""
        count = self.d.starts.size * self.b.starts.shape[1]
        a = blocks_text(self.a) if isinstance(self.a, DescribedBlocks) else "in tensor memory"
        k = isa.PRODUCT_KINDS[self.made.kind].k
        return f"m{self.made.M}n{self.made.N}k{k}, {counted(count)}; A {a}, B {blocks_text(self.b)}"


@condition("D is in tensor memory, B in shared memory, A in either")
def tmem_operands(call: TileCall) -> str | None:
    return misplaced(call, D=("tmem",), A=("shared", "tmem"), B=("shared",))


@condition("one thread, or a warp for one of its threads, issues the products")
def one_issuer(call: TileCall) -> str | None:
    return several_issuers(call, ("thread", "warp"), "products")


@condition("A, B and D have types that the instruction multiplies")
def types_of_a_kind(call: TileCall) -> str | None:
    a, b, d = (str(call[name].dtype) for name in "ABD")
    row = isa.PRODUCT_KINDS.get(isa.MMA_KIND_OF.get(a, ""))
    if row and d in row.results and {a, b} <= row.elements_for(d).keys():
        narrow = [each for each in (a, b) if dtype(each).value_bits < 8 * row.element_bytes]
        return f"{narrow[0]} has a byte for each element there, and no layout says so" if narrow else None
    return f"no tcgen05.mma multiplies {a} by {b} into {d}"


@condition("integers are not subtracted")
def signs_fit(call: TileCall) -> str | None:
    kind = isa.MMA_KIND_OF[str(call["A"].dtype)]
    return f"{kind} has no signs" if call.option("negate") and not isa.PRODUCT_KINDS[kind].signs else None


WHEN = (tmem_operands, one_issuer, types_of_a_kind, signs_fit, constant_extents)


@variant("gemm_async", priority=10, when=WHEN, keywords=("transA", "transB", "negate"))
def tcgen05(call: TileCall) -> UmmaPlan:
    """tcgen05.mma: a thread has 128 or 64 rows multiplied by up to 256 columns, a K of 32 bytes at a time."""
    kind = isa.MMA_KIND_OF[str(call["A"].dtype)]
    k = isa.PRODUCT_KINDS[kind].k
    check_target(call, "tcgen05.mma", _first_form(kind))
    a, b = (matrix_of(call[name], trans=bool(call.option(f"trans{name}"))) for name in "AB")
    if len(a) % 64 or a.shape[1] % k:
        raise Decline(f"M is {len(a)} and K {a.shape[1]}", allowed=f"M a multiple of 64, K of {k}")
    right, n = _right(call, b, kind)
    tried: list[Decline] = []
    for rows in (128, 64):
        if len(a) % rows == 0:
            try:
                return _plan(call, a, right, (kind, rows, n))
            except Decline as declined:
                tried.append(declined)
    raise tried[0]


def _first_form(kind: str) -> isa.Form:
    forms = isa.lookup(MMA).forms
    return next(form for form in forms if kind in next(iter(form.wording.modifiers["a_dtype"].values())))


def _right(call: TileCall, b: Ints, kind: str) -> tuple[DescribedBlocks, int]:
    """The blocks of B, and their columns: the most that divide all."""
    may_transpose = kind != "tf32"  # which needs atoms of 32 bytes, and no layout has them
    fitting = [n for n in isa.product_widths(kind) if len(b) % n == 0]
    if not fitting:
        raise Decline(f"N is {len(b)}", allowed="a multiple of 8")
    for n in sorted(fitting, reverse=True):
        right = described(call, call["B"], blocks_of(b, n, isa.PRODUCT_KINDS[kind].k), may_transpose=may_transpose)
        if n in isa.product_widths(kind, trans_b=right.trans):
            return right, n
    raise Decline(f"N is {len(b)}, and B is N-major", allowed="a multiple of 16 for elements of a byte")


def _plan(call: TileCall, a: Ints, right: DescribedBlocks, shape: tuple[str, int, int]) -> UmmaPlan:
    (kind, rows, n), path = shape, PATHS[1, shape[1]]
    d = _cells(call, call["D"], blocks_of(matrix_of(call["D"], trans=False), rows, n), path, COLUMN_BITS)
    left: DescribedBlocks | CellBlocks
    blocks = blocks_of(a, rows, isa.PRODUCT_KINDS[kind].k)
    if call["A"].space == "shared":
        left = described(call, call["A"], blocks, may_transpose=kind != "tf32")
    else:
        left = _cells(call, call["A"], blocks, path, call["A"].dtype.bits)
        if (left.starts // LANE != d.starts[:, :1] // LANE).any():
            raise Decline(f"{call['A'].name} and {call['D'].name} begin in other lanes", allowed="the same lanes")
    types = [str(call[name].dtype) for name in "DAB"]
    trans_a = isinstance(left, DescribedBlocks) and left.trans
    majors = {"trans_a": trans_a, "trans_b": right.trans, "neg_a": bool(call.option("negate"))}
    made = isa.InstructionDescriptor(kind, types[0], types[1], types[2], rows, n, **majors)
    return UmmaPlan(made, left, right, d, call.scope.kind == "warp")


def _cells(call: TileCall, side: Side, blocks: Ints, path: DataPath, bits: int) -> CellBlocks:
    """Where blocks of elements, (rows, columns), lie as the instruction has them. bits: from a column to the next."""
    cells, facts = tmem_cells(side), call.facts
    lane, bit = (part[:, 0][blocks] for part in (cells.lane, cells.bit))
    first_lane, first_bit = lane[..., :1, :1] - path.lanes[0], bit[..., :1, :1]
    fits = cells.lane.shape[1] == 1 and const_value(cells.lane_base) == 0
    fits = fits and bool((lane == first_lane + path.lanes[:, None]).all())
    fits = fits and bool((bit == first_bit + np.arange(blocks.shape[-1]) * bits).all())
    fits = fits and bool(np.isin(first_lane, path.origins).all() and not (first_bit % COLUMN_BITS).any())
    if not fits or not facts.divides(COLUMN_BITS, cells.bit_base):
        rows = "row r in lane r" if len(path.lanes) == 128 else "row r in lane r % 16 + 32 * (r // 16)"
        raise Decline(
            f"{side.name} is not in tensor memory as the instruction has it: {side.buffer.layout}",
            allowed=f"blocks of {len(path.lanes)} rows, {rows}, a column of {bits} bits for each of the others",
            changes=_in_a_datapath(call, side),
        )
    starts = (first_lane * LANE + first_bit // COLUMN_BITS)[..., 0, 0]
    return CellBlocks(starts, facts.simplify(quotient(cells.bit_base, COLUMN_BITS, facts)))


def _in_a_datapath(call: TileCall, side: Side) -> Iterator[Change]:
    """The same buffer in the layout that the instruction has for so many rows."""
    shape = long_extents(side.buffer.shape)
    names = {128: "D", 64: "F"}
    if len(shape) == 2 and shape[0] in names and side.dtype.bits == COLUMN_BITS:
        name = names[shape[0]]
        layout = tmem_datapath_layout(name, *shape)
        changed = side_of(Region(replace(side.buffer, layout=layout), side.region.box), call.facts)
        text = f'layout=tmem_datapath_layout("{name}", {shape[0]}, {shape[1]}) for {side.name}'
        yield Change(text, call.with_side(side, changed))


# Code


@tcgen05.emit
def _(plan: UmmaPlan, call: TileCall, out: Builder) -> None:
    right = encoded_blocks(call["B"], plan.b, out, "tcgen05")
    left: Callable[[int, int], Value] = (
        encoded_blocks(call["A"], plan.a, out, "tcgen05")
        if isinstance(plan.a, DescribedBlocks)
        else partial(_address, call["A"], plan.a)
    )
    word = _described(plan.made, call, out)
    types = {name: getattr(plan.made, name) for name in ("d_dtype", "a_dtype", "b_dtype")}
    types["use_a_tmem"] = isinstance(plan.a, CellBlocks)
    with out.when(isa.call("ptx.elect_sync") if plan.elects else None):
        for i, j, step, added in products_of(call, *plan.d.starts.shape, plan.b.starts.shape[1]):
            d = _address(call["D"], plan.d, i, j)
            out.call(MMA, d, left(i, step), right(j, step), word, **types, enable_input_d=added)


def _described(made: isa.InstructionDescriptor, call: TileCall, out: Builder) -> Expr:
    """The instruction descriptor in a register, behind the shared buffer of B, once for all calls with this product."""

    def encode(before: Builder) -> Expr:
        register = before.local("mma_product", 1, "uint32")
        names = ("d_dtype", "a_dtype", "b_dtype", "M", "N", "trans_a", "trans_b", "neg_a")
        fields = {name: getattr(made, name) for name in names}
        k = isa.PRODUCT_KINDS[made.kind].k
        before.call("ptx.tcgen05.encode_instr_descriptor", register.pointer, **fields, K=k)
        return Load(register, (as_expr(0),))

    return out.once_behind(call["B"].buffer, made, encode)


def _address(side: Side, blocks: CellBlocks, row: int, column: int) -> Value:
    address = side.buffer.allocated_addr
    assert address is not None
    found: Value = plus(address, plus(blocks.base, int(blocks.starts[row, column])))
    return found
