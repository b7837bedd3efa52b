"""Products that tensor cores carry out beside the threads, of matrices in shared memory: wgmma, tcgen05.mma."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np

from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import LayoutError, choices
from tilewright.ir import AddressOf, Argument, Expr, Load, Value, as_expr, const_value
from tilewright.isa.tcgen05 import PATHS, DataPath
from tilewright.layout import Layout, wgmma_fragment
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import check_target, constant_extents, misplaced, several_issuers
from tilewright.tile.dispatch import Change, Condition, Decline, condition, counted, relaid, variant
from tilewright.tile.owners import owners
from tilewright.tile.partition import COLUMN_BITS, tmem_cells
from tilewright.tile.smem_descriptors import (
    DescribedBlocks,
    PlacedScales,
    blocks_of,
    blocks_text,
    described,
    encoded_blocks,
    in_a_datapath,
    instead,
    long_extents,
    matrix_of,
    one_step,
    other_layouts,
    other_types,
    other_words,
    placed_metadata,
    placed_scales,
    products_of,
    scale_blocks,
    with_numbers,
    without_ws,
)
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, plus, quotient

# wgmma: a warpgroup multiplies matrices of shared memory, or A in its registers, into its registers.


ROWS, THREADS = 64, 128


# Products by wgmma, which a warpgroup issues together.


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


@condition("A, B and D have types that the instruction multiplies", changes=other_types)
def known_types(call: TileCall) -> str | None:
    row = isa.WGMMA_TYPES.get(call["A"].dtype)
    if row and call["B"].dtype in row.partners and call["D"].dtype in row.results:
        return None
    return f"no wgmma multiplies {call['A'].dtype} by {call['B'].dtype} into {call['D'].dtype}"


WGMMA_WHEN: tuple[Condition, ...] = (in_their_memories, one_warpgroup, known_types, constant_extents)
WGMMA_KEYWORDS = ("transA", "transB", "negate", "negateA", "negateB", "sync")


@variant("gemm_async", priority=10, when=WGMMA_WHEN, keywords=WGMMA_KEYWORDS)
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
        left = described(call, call["A"], blocks, may_transpose=row.majors, changes=with_numbers(call))
        a_base = 0
    else:
        left, a_base = _registers(call, call["A"], _fragments(a, row.k, operand="A"), "A")
    described_b = described(call, call["B"], right, may_transpose=row.majors, changes=with_numbers(call))
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
    fitted = relaid(call, side, layout, text)
    yield fitted
    yield from _with_operands(fitted, [name for name in "AB" if call[name].space == "shared"])


def _with_operands(change: Change, names: Sequence[str]) -> Iterator[Change]:
    """A change, and other layouts of the operands in shared memory: a first kernel may have rows everywhere."""
    if not names:
        yield change
        return
    for other in other_layouts(change.call, change.call[names[0]]):
        yield from _with_operands(Change(f"{change.text}, and {other.text}", other.call), names[1:])


# The code of a product by wgmma.


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


# Products by tcgen05.mma, which one thread issues.


Fields: TypeAlias = "tuple[tuple[str, int], ...]"
MMA = "ptx.tcgen05.mma"
LANE = 1 << 16  # what leads from lane to lane in an address of tensor memory
PACKED = {4: (2, 1), 8: (16, 16)}
"""Elements of 4 bits, by the bits that each takes along K: so many of them begin so many bytes behind those before."""


@dataclass(frozen=True, slots=True, eq=False)
class CellBlocks:
    """Where blocks of a matrix begin in tensor memory: what is added to the buffer's address, by two indices, and base,
    to all of them.
    """

    starts: Ints
    base: Value


@dataclass(frozen=True, slots=True, eq=False)
class UmmaPlan:
    """descriptor: what each instruction computes, but for the bytes of its scales and the selector of its metadata.
    a, b: the blocks of A and B, d: of D, by rows and columns. scales: of A and of B, where there are any; metadata: of
    a sparse A. elects: a warp executes the call, and one of its threads issues.
    """

    descriptor: isa.InstructionDescriptor
    a: DescribedBlocks | CellBlocks
    b: DescribedBlocks
    d: CellBlocks
    scales: tuple[PlacedScales, ...]
    metadata: PlacedScales | None
    elects: bool

    def summary(self) -> str:
        """``m128n256k16, 4 instructions; A 128-byte swizzle, B 128-byte swizzle``."""
        count = self.d.starts.size * self.b.starts.shape[1]
        a = blocks_text(self.a) if isinstance(self.a, DescribedBlocks) else "in tensor memory"
        kind = f"{self.descriptor.kind} " if self.scales else "sparse " if self.metadata else ""
        pair = ", of a pair" if self.descriptor.cta_group == 2 else ""
        shape = f"{kind}m{self.descriptor.M}n{self.descriptor.N}k{self.descriptor.K}{pair}"
        return f"{shape}, {counted(count)}; A {a}, B {blocks_text(self.b)}"


@condition("D, scales and metadata are in tensor memory, B in shared memory, A in either")
def tmem_operands(call: TileCall) -> str | None:
    scales = dict.fromkeys(call.sides.keys() & {"SFA", "SFB"}, ("tmem",))
    metadata = {"sp_meta": ("tmem",)} if "sp_meta" in call.sides else {}
    return misplaced(call, D=("tmem",), A=("shared", "tmem"), B=("shared",), **scales, **metadata)


@condition("one thread, or a warp for one of its threads, issues the products")
def one_issuer(call: TileCall) -> str | None:
    return several_issuers(call, ("thread", "warp"), "products")


def elements_of(call: TileCall) -> tuple[str, str]:
    """The types of A's and B's elements: what a call says of packed bytes, else those of the buffers."""
    a, b = (str(call.option(f"{name.lower()}_dtype") or call[name].dtype) for name in "AB")
    return a, b


def kinds_of(call: TileCall) -> tuple[str, ...]:
    """The kinds of products that multiply these types, with these scales."""
    (a, b), block = elements_of(call), scale_blocks(call)
    if not block:
        kinds: tuple[str, ...] = (isa.MMA_KIND_OF.get(a, ""),)
    else:
        sf_dtype = str(call["SFA"].dtype)
        with_scales = ((kind, row) for kind, row in isa.PRODUCT_KINDS.items() if sf_dtype in row.scales)
        words = {kind: row.scales[sf_dtype][1] for kind, row in with_scales}
        fitting = [kind for kind, listed in words.items() if block in (isa.WORD_BLOCKS[word] for word in listed)]
        kinds = tuple(sorted(fitting, key=("mxf4", "mxf4nvf4", "mxf8f6f4").index))
    rows = {kind: isa.PRODUCT_KINDS[kind] for kind in kinds if kind}
    d = str(call["D"].dtype)
    return tuple(kind for kind, row in rows.items() if d in row.results and {a, b} <= row.elements_for(d).keys())


@condition("A, B and D have types that the instruction multiplies", changes=other_types)
def types_of_a_kind(call: TileCall) -> str | None:
    a, b = elements_of(call)
    if not kinds_of(call):
        scales = f" with {call['SFA'].dtype} for {scale_blocks(call)} elements" if scale_blocks(call) else ""
        return f"no tcgen05.mma multiplies {a} by {b} into {call['D'].dtype}{scales}"
    for name, element in zip("AB", (a, b), strict=True):
        asked = call.option(f"{name.lower()}_dtype")
        if asked and call[name].dtype.bits != 8:
            return f"{name.lower()}_dtype={asked!r} is for bytes, and {name} has {call[name].dtype}"
        if not asked and dtype(element).value_bits == 6 and call[name].space == "shared":
            return (
                f"{element} has a byte for each element there, and the product takes 16 from 12 bytes: "
                f'bytes, with {name.lower()}_dtype="{element}", are taken as they are'
            )
    return None


@condition("integers are not subtracted")
def signs_fit(call: TileCall) -> str | None:
    kind, negative = kinds_of(call)[0], any(call.option(name) for name in ("negate", "negateA", "negateB"))
    return f"{kind} has no signs" if negative and not isa.PRODUCT_KINDS[kind].signs else None


@condition("what is added to is scaled by 2**-1 to 2**-15, for elements of 16 and 32 bits, without ws")
def d_may_be_scaled(call: TileCall) -> str | None:
    shift, kind = call.option("scale_input_d") or 0, kinds_of(call)[0]
    if not shift:
        return None
    if not isinstance(shift, int) or not 0 < shift < 16:
        return f"scale_input_d is {shift}"
    return f"scale_input_d={shift} and kind {kind}" if kind not in SCALED_KINDS or call.option("ws") else None


@condition("B's columns are kept for one CTA, in products without scales")
def columns_may_be_kept(call: TileCall) -> str | None:
    if not call.option("ws"):
        return None
    return (
        "ws=True and cta_group=2"
        if call.option("cta_group") == 2
        else "ws=True and scales"
        if scale_blocks(call)
        else None
    )


@condition("the collector's word is one that the product has", changes=other_words)
def known_collector(call: TileCall) -> str | None:
    word, ws = call.option("collector") or "", bool(call.option("ws"))
    _, *words = isa.collector_words(keeps_b=ws)
    if not word or word in words:
        return None
    return f"collector is {word!r}; {'with' if ws else 'without'} ws it is {choices(str(word), words)}"


WHEN = (
    tmem_operands, one_issuer, constant_extents, types_of_a_kind, signs_fit, d_may_be_scaled, columns_may_be_kept,
    known_collector,
)  # fmt: skip
KEYWORDS = (
    "transA", "transB", "negate", "negateA", "negateB", "scale_input_d", "ws", "collector", "cta_group", "a_dtype",
    "b_dtype",
)  # fmt: skip
SCALED_KINDS = ("f16", "tf32")  # whose D an instruction scales


@variant("gemm_async", priority=10, when=WHEN, keywords=KEYWORDS)
def tcgen05(call: TileCall) -> UmmaPlan:
    """tcgen05.mma: a thread has 128 or 64 rows multiplied by up to 256 columns, a K of 32 bytes at a time."""
    tried: list[Decline] = []
    for kind in kinds_of(call):
        check_target(call, _opcode(call).removeprefix("ptx."), _form_of(call, kind))
        try:
            return _of_kind(call, kind)
        except Decline as declined:
            tried.append(declined)
    raise tried[0]


def _opcode(call: TileCall) -> str:
    """The row of the instruction table, ``ptx.tcgen05.mma.sp``."""
    words = {"ws": call.option("ws"), "sp": "sp_meta" in call.sides, "block_scale": scale_blocks(call)}
    return ".".join((MMA, *(word for word, is_meant in words.items() if is_meant)))


def _form_of(call: TileCall, kind: str) -> isa.Form:
    """The form that the call takes, for the architectures that have it."""
    block, shift = scale_blocks(call), call.option("scale_input_d") or 0
    wanted = {"scale_vec": f"block{block}"} if block else {} if call.option("ws") else {"scale_input_d": shift}
    return next(
        form
        for form in isa.lookup(_opcode(call)).forms
        for table in (form.wording.modifiers,)
        if kind in next(iter(table["a_dtype"].values())).split("::")
        and all(value in table[name] for name, value in wanted.items())
    )


def _of_kind(call: TileCall, kind: str) -> UmmaPlan:
    k, ctas = isa.PRODUCT_KINDS[kind].k, 2 if call.option("cta_group") == 2 else 1
    a, b = (matrix_of(call[name], trans=bool(call.option(f"trans{name}"))) for name in "AB")
    counts = _row_counts(call, kind, ctas)
    if "sp_meta" in call.sides and len(a) % 128 and len(a) % 64 == 0:
        raise Decline(
            f"M is {len(a) * ctas}, and A is sparse: where metadata of 64 rows are the manual has in figures alone (PTX"
            ' ISA, "Sparse Matrices: Sparsity selector"), which nothing confirms',
            allowed="M a multiple of 128 in each CTA, with metadata",
        )
    if len(a) % (counts[0] // ctas) or a.shape[1] % k:
        raise Decline(f"M is {len(a)} and K {a.shape[1]}", allowed=f"M a multiple of {counts[0] // ctas}, K of {k}")
    right, n = _right(call, b, kind, ctas)
    tried: list[Decline] = []
    for rows in reversed(counts):
        if len(a) % (rows // ctas) == 0:
            try:
                return _plan(call, a, right, (kind, rows, n), ctas)
            except Decline as declined:
                tried.append(declined)
    raise tried[0]


def _row_counts(call: TileCall, kind: str, ctas: int) -> tuple[int, ...]:
    """M that products of a kind have, of both CTAs of a pair together. Where the metadata of fewer rows are is
    unconfirmed.
    """
    sparse = "sp_meta" in call.sides
    rows = isa.product_heights(kind, ctas, keeps_b=bool(call.option("ws")), sparse=sparse)
    return tuple(m for m in rows if m == 128 * ctas) if sparse else rows


def _packed(call: TileCall, name: str, kind: str) -> tuple[int, int] | None:
    return PACKED[isa.PRODUCT_KINDS[kind].element_bits] if call[name].dtype.bits == 4 else None


def _right(call: TileCall, b: Ints, kind: str, ctas: int) -> tuple[DescribedBlocks, int]:
    """The blocks of B in this CTA, and the columns of a product: the most that divide all."""
    row, sparse = isa.PRODUCT_KINDS[kind], "sp_meta" in call.sides
    form = {"keeps_b": bool(call.option("ws")), "sparse": sparse}
    may_transpose = row.element_bits in (8, 16) and not _packed(
        call, "B", kind
    )  # others need atoms of 32 bytes, or bytes
    every = isa.product_widths(kind, ctas, **form)
    widths = [n for n in every if len(b) * ctas % n == 0]
    fitting = widths if ctas == 1 else [n for n in widths if n == len(b) * ctas]
    if not fitting:
        allowed = "a multiple of 8" if ctas == 1 else "a multiple of 16 in both CTAs together, at most 256"
        raise Decline(
            f"N is {len(b) * ctas}",
            allowed=f"a multiple of {every[0]}, with ws" if form["keeps_b"] else allowed,
            changes=without_ws(call),
        )
    for n in sorted(fitting, reverse=True):
        blocks = blocks_of(b, n // ctas, row.k * (2 if sparse else 1))
        right = described(
            call, call["B"], blocks, may_transpose=may_transpose, packed=_packed(call, "B", kind),
            changes=instead(call),
        )  # fmt: skip
        if n in isa.product_widths(kind, ctas, trans_b=right.trans, **form):
            return right, n
    raise Decline(f"N is {len(b) * ctas}, and B is N-major", allowed="a multiple of 16 for elements of a byte")


def _plan(call: TileCall, a: Ints, right: DescribedBlocks, shape: tuple[str, int, int], ctas: int) -> UmmaPlan:
    keeps_b, sparse = bool(call.option("ws")), "sp_meta" in call.sides
    (kind, m, n), path, row = shape, PATHS[ctas, shape[1], keeps_b], isa.PRODUCT_KINDS[shape[0]]
    d = _cells(call, call["D"], blocks_of(matrix_of(call["D"], trans=False), m // ctas, n), path, COLUMN_BITS)
    left: DescribedBlocks | CellBlocks
    blocks = blocks_of(a, m // ctas, row.k)
    if call["A"].space == "shared":
        may_transpose = row.element_bits in (8, 16) and not _packed(call, "A", kind)
        left = described(
            call, call["A"], blocks, may_transpose=may_transpose, packed=_packed(call, "A", kind),
            changes=instead(call),
        )  # fmt: skip
    else:
        left = _cells(call, call["A"], blocks, path, row.element_bits, copies=path.halves)
        if (left.starts // LANE != d.starts[:, :1] // LANE).any():
            raise Decline(f"{call['A'].name} and {call['D'].name} begin in other lanes", allowed="the same lanes")
    (a_dtype, b_dtype), d_dtype = elements_of(call), str(call["D"].dtype)
    trans_a = isinstance(left, DescribedBlocks) and left.trans
    signs = bool(call.option("negate")) != bool(call.option("negateA")), bool(call.option("negateB"))
    descriptor = isa.InstructionDescriptor(
        kind, d_dtype, a_dtype, b_dtype, m, n, trans_a, right.trans, *signs, cta_group=ctas, sparse=sparse,
        keeps_b=keeps_b, sf_dtype=str(call["SFA"].dtype) if row.scales else "",
    )  # fmt: skip
    scales: tuple[PlacedScales, ...] = ()
    if row.scales:
        scales = (placed_scales(call, "SFA", descriptor, m // ctas), placed_scales(call, "SFB", descriptor, n))
    metadata = placed_metadata(call, descriptor) if sparse else None
    plan = UmmaPlan(descriptor, left, right, d, scales, metadata, call.scope.kind == "warp")
    _check_collected(call, plan)
    return plan


def _check_collected(call: TileCall, plan: UmmaPlan) -> None:
    """A buffer of the tensor cores holds one matrix: that of all products of a call with a word for it."""
    if not call.option("collector"):
        return
    (rows, columns), steps = plan.d.starts.shape, plan.b.starts.shape[1]
    name, count = ("B", columns * steps) if call.option("ws") else ("A", rows * steps)
    if count > 1:
        raise Decline(
            f"the products of the call have {count} matrices of {name}, and a buffer of the tensor cores holds one",
            allowed=f"calls with a collector have one block of {name}, and K {plan.descriptor.K}",
            changes=one_step(call, plan.descriptor.K),
        )


def _cells(call: TileCall, side: Side, blocks: Ints, path: DataPath, bits: int, copies: int = 1) -> CellBlocks:
    """Where blocks of elements, (rows, columns), lie as the instruction has them. bits: from a column to the next.
    copies: of each element, in the lanes of each part of D's columns; else the parts lie there one after the other.
    """
    cells, facts = tmem_cells(side), call.facts
    rows, columns = blocks.shape[-2:]
    width = columns // (path.halves if copies == 1 else 1)
    number = np.arange(columns)
    part = np.arange(copies) if copies > 1 else (number // width)[:, None]
    lanes = path.lanes[np.arange(rows)[:, None, None] + rows * part] - path.lanes[0]
    order = np.argsort(cells.lane, axis=1)
    lane, bit = (np.take_along_axis(grid, order, axis=1)[blocks] for grid in (cells.lane, cells.bit))
    first_lane, first_bit = lane[..., :1, :1, :1] - path.lanes[0], bit[..., :1, :1, :1]
    fits = cells.lane.shape[1] == copies and const_value(cells.lane_base) == 0
    fits = fits and bool((lane == first_lane + lanes).all())
    fits = fits and bool((bit == first_bit + (number % width * bits)[:, None]).all())
    fits = fits and bool(np.isin(first_lane, path.origins).all() and not (first_bit % COLUMN_BITS).any())
    if not fits or not facts.divides(COLUMN_BITS, cells.bit_base):
        raise Decline(
            f"{side.name} is not in tensor memory as the instruction has it: {side.buffer.layout}",
            allowed=f"blocks of {rows} rows, {_rows_text(path, copies)}, {bits} bits for each of the other columns",
            changes=chain(in_a_datapath(call, side, path, bits, copies), instead(call)),
        )
    starts = (first_lane * LANE + first_bit // COLUMN_BITS)[..., 0, 0, 0]
    return CellBlocks(starts, facts.simplify(quotient(cells.bit_base, COLUMN_BITS, facts)))


def _rows_text(path: DataPath, copies: int) -> str:
    if path.halves > 1:
        step = len(path.lanes) // path.halves
        lanes = [f"r + {step * part}" for part in range(1, path.halves)]
        if copies > 1:
            return f"row r in lanes r, {', '.join(lanes)}"
        others = "half" if path.halves == 2 else "quarters"
        return f"row r in lane r, and in {', '.join(lanes)} the other {others} of columns"
    return "row r in lane r" if len(path.lanes) == 128 else "row r in lane r % 16 + 32 * (r // 16)"


# The code of a product by tcgen05.mma.


@tcgen05.emit
def _(plan: UmmaPlan, call: TileCall, out: Builder) -> None:
    right = encoded_blocks(call["B"], plan.b, out, "tcgen05")
    left: Callable[[int, int], Value] = (
        encoded_blocks(call["A"], plan.a, out, "tcgen05")
        if isinstance(plan.a, DescribedBlocks)
        else partial(_address, call["A"], plan.a)
    )
    types = {name: getattr(plan.descriptor, name) for name in ("d_dtype", "a_dtype", "b_dtype")}
    types |= {"use_a_tmem": isinstance(plan.a, CellBlocks), "cta_group": plan.descriptor.cta_group}
    if plan.scales:
        types |= dict.fromkeys(("sfa_dtype", "sfb_dtype"), plan.descriptor.sf_dtype)
        types |= {"kind": plan.descriptor.kind, "scale_vec": f"block{scale_blocks(call)}"}
    products = list(products_of(call, *plan.d.starts.shape, plan.b.starts.shape[1]))
    uses = _uses(str(call.option("collector") or ""), len(products))
    words = {fields: _described(_with_fields(plan.descriptor, fields), call, out)
             for fields in sorted({_own_fields(plan, i, j, step) for i, j, step, _ in products})}  # fmt: skip
    with out.when(isa.call("ptx.elect.sync", out="p") if plan.elects else None):
        for (i, j, step, added), use in zip(products, uses, strict=True):
            d = _address(call["D"], plan.d, i, j)
            metadata = () if plan.metadata is None else (_scale_address(call["sp_meta"], plan.metadata, i, step),)
            scales = [
                _scale_address(call[name], placed, at, step)
                for name, placed, at in zip(("SFA", "SFB"), plan.scales, (i, j), strict=False)
            ]
            more: dict[str, Argument] = {"collector": use} if use else {}
            if call.option("scale_input_d") and step == 0:
                more["scale_input_d"] = call.option("scale_input_d")
            word = words[_own_fields(plan, i, j, step)]
            operands = (d, left(i, step), right(j, step), *metadata, *scales, word)
            out.call(_opcode(call), *operands, **types, **more, enable_input_d=added)


def _with_fields(descriptor: isa.InstructionDescriptor, fields: Fields) -> isa.InstructionDescriptor:
    """The descriptor with other numbers in some fields."""
    values = {"sfa_id": descriptor.sfa_id, "sfb_id": descriptor.sfb_id, "selector": descriptor.selector, **dict(fields)}
    return replace(descriptor, sfa_id=values["sfa_id"], sfb_id=values["sfb_id"], selector=values["selector"])


def _uses(word: str, count: int) -> list[str]:
    """The collector's word of each of so many products with one matrix in it: the first fills, the last uses last."""
    buffer, mark, use = word.partition("::")
    use = mark + use
    listed = [isa.USE if use in isa.KEEPING else use] * count
    if use == isa.FILL:
        listed[0] = use
    elif use == isa.LAST_USE:
        listed[-1] = use
    return [buffer + word_use for word_use in listed]


def _own_fields(plan: UmmaPlan, block: int, column: int, step: int) -> Fields:
    """The fields of an instruction descriptor in which the products of a call differ."""
    fields = [
        (name, int(scales.first[at, step]))
        for name, scales, at in zip(("sfa_id", "sfb_id"), plan.scales, (block, column), strict=False)
    ]
    if plan.metadata is not None:
        fields.append(("selector", int(plan.metadata.first[block, step])))
    return tuple(fields)


def _described(word: isa.InstructionDescriptor, call: TileCall, out: Builder) -> Expr:
    """The instruction descriptor in a register, behind the shared buffer of B, once for all calls with this product."""

    def encode(before: Builder) -> Expr:
        register = before.local("mma_product", 1, "uint32")
        names = ["d_dtype", "a_dtype", "b_dtype", "M", "N", "trans_a", "trans_b", "neg_a", "neg_b"]
        names += ["sfa_id", "sfb_id"] if word.sf_dtype else ["selector"]
        fields = {name: getattr(word, name) for name in names} | {"K": word.K, "n_cta_groups": word.cta_group}
        fields["is_sparse"] = word.sparse
        if not word.sf_dtype:
            fields["ws"] = word.keeps_b
        else:
            fields |= dict.fromkeys(("sfa_dtype", "sfb_dtype"), word.sf_dtype)
        encoder = "encode_instr_descriptor_block_scaled" if word.sf_dtype else "encode_instr_descriptor"
        before.call(f"ptx.tcgen05.{encoder}", register.pointer, **fields)
        return Load(register, (as_expr(0),))

    return out.once_behind(call["B"].buffer, word, encode)


def _address(side: Side, blocks: CellBlocks, row: int, column: int) -> Value:
    return _plus(side, plus(blocks.base, int(blocks.starts[row, column])))


def _scale_address(side: Side, scales: PlacedScales, block: int, step: int) -> Value:
    return _plus(side, plus(scales.base, int(scales.columns[block, step])))


def _plus(side: Side, columns: Value) -> Value:
    address = side.buffer.allocated_addr
    assert address is not None
    total: Value = plus(address, columns)
    return total
