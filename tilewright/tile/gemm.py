"""The variants of `gemm`: products by ``mma.sync`` of matrices in registers or in memory, of any sizes.

The product itself comes first; then how alpha and beta scale the sums, sizes that are no whole instructions, and the
changes with which a call would fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

from tilewright import ir, isa
from tilewright.dtypes import DType, dtype
from tilewright.errors import LayoutError
from tilewright.isa.forms import ELEMENTS, WORDS, Form
from tilewright.layout import Axis, Layout, TileLayout, mma_fragment_layout
from tilewright.primitives.gemm import sides_of_matrix
from tilewright.records import replace
from tilewright.tile import staging
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import check_target, only_in, whole_warps
from tilewright.tile.dispatch import Change, Decline, condition, variant
from tilewright.tile.matrices import Held, Products, RegisterBlocks, blocks_of, held_by_warps, products_of
from tilewright.tile.owners import all_hold, end_of
from tilewright.tile.partition import root_of
from tilewright.tile.staging import Staged, allocated, like, staged
from tilewright.tile.steps import Builder, CallSteps, emit_steps, through_memory
from tilewright.tile.walks import Ints, linear, plus, turns_of

# The product by ``mma.sync``: warps multiply matrices that lie in their registers.
#
# Operands in registers are compared with the instruction's fragments block by block (`tilewright.tile.matrices`). Those
# in memory pass through registers made for them, loaded by whatever variant `copy` finds (`tilewright.tile.staging`),
# one step of K ahead of the products.


ROWS = ("ptx.mma", "ptx.mma.f64", "ptx.mma.f8f6f4")
OF_A_AND_B = {"A": staging.fragment_of_a, "B": staging.fragment_of_b}
FITTING = "fragments of mma: tilewright.layout.mma_fragment_layout, or one with rows, columns and K in another order"
ALONG_G = {"A": "M", "B": "N"}  # the dimension that goes along the lanes' g


@dataclass(frozen=True, slots=True, eq=False)
class MmaKind:
    """The instructions for some types. row: that they are forms of. types: of D, A, B and C, as PTX names them. sums:
    the dtype of the sums, which D is converted from. ks: along K of one, the most first. per_register: elements of A or
    B; of_d: of D.
    """

    row: str
    types: str
    sums: DType
    ks: tuple[int, ...]
    per_register: int
    of_d: int

    @property
    def halves(self) -> tuple[int, ...]:
        """Runs of 16 bytes along K, of each."""
        return tuple(k // (4 * self.per_register) for k in self.ks)


@dataclass(frozen=True, slots=True, eq=False)
class RegisterSource:
    """Where registers of A or B come from: the operand's own, or a copy."""

    held: Held
    side: Side
    copy: staging.Staged | None


@dataclass(frozen=True, slots=True, eq=False)
class ProductStep:
    """Products along a part of K. asked: is there such a part, where only the run knows?"""

    sources: Mapping[str, RegisterSource]
    products: Products
    asked: ir.Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MmaPlan:
    """steps: runs along K, of which the copies of the next one are issued before the products of each.

    d, held: the registers that are added to. result: the copy to D where it is in memory. scaling: alpha and beta.
    """

    kind: MmaKind
    k: int
    steps: tuple[ProductStep, ...]
    d: Side
    held: Held
    result: staging.Staged | None
    scaling: Scaling

    def summary(self) -> str:
        """``16 x mma m16n8k16 f32.f16.f16.f32 per warp; A: ldmatrix x4, 1 instruction per warp, 4 times``."""
        count = sum(step.products.count for step in self.steps)
        parts = [f"{count} x mma m16n8k{self.k} {self.kind.types} per warp"]
        repeated = f", {len(self.steps)} times along K" if len(self.steps) > 1 else ""
        for name, source in self.steps[0].sources.items():
            parts.append(f"{name} in registers" if source.copy is None else f"{name} by {source.copy.how}{repeated}")
        parts += [f"C by {self.scaling.copy.how}"] if self.scaling.copy else []
        parts += [f"D by {self.result.how}"] if self.result else []
        return "; ".join(parts)

    @property
    def widened(self) -> str | None:
        """A change with which one of the copies would have a better variant."""
        copies = [source.copy for source in self.steps[0].sources.values()]
        hints = (copy.better for copy in (*copies, self.scaling.copy, self.result) if copy is not None)
        return next((hint for hint in hints if hint), None)


@variant("gemm", priority=10, keywords=("transpose_A", "transpose_B"),
         when=[only_in("local", "shared", "global"), whole_warps])  # fmt: skip
def mma(call: TileCall) -> MmaPlan:
    """mma.sync: each warp multiplies 16 x K by K x 8 matrices in registers; operands in memory are loaded first."""
    kind = kind_of(call)
    check_storage(call)
    call = in_whole_pieces(call, kind.ks)
    sizes = sizes_of(call)
    try:
        return planned(call, sizes, kind)
    except Decline as declined:
        changes = chain(declined.changes, other_layouts(call, sizes))
        raise Decline(declined.reason, allowed=declined.allowed or FITTING, changes=changes) from None


@condition("A or B has elements of four bits, two to a byte")
def in_pairs(call: TileCall) -> str | None:
    return None if any("float4" in str(call[name].dtype) for name in "AB") else "no operand has elements of four bits"


@variant("gemm", priority=9, keywords=("transpose_A", "transpose_B"),
         when=[only_in("local", "shared", "global"), whole_warps, in_pairs])  # fmt: skip
def widened(call: TileCall) -> CallSteps:
    """A and B become float16 in shared memory, which holds what they have, and are multiplied from there."""
    return replace(through_memory(call, "A", "B", kind=dtype("float16")), anew=True)


widened.emit(emit_steps)


def planned(call: TileCall, sizes: Mapping[str, int], kind: MmaKind) -> MmaPlan:
    """The plan for sizes and types that fit. Raises Decline where layouts do not."""
    d, result = accumulators(call, sizes, kind.sums)
    held = held_by_warps(call, d)
    total = blocks_of(d, held, held.warps, sizes["N"], 0)
    steps = steps_of(call, d, held, total, sizes["K"], kind)
    k = 4 * kind.per_register * steps[0].products.halves
    return MmaPlan(kind, k, steps, d, held, result, plan_scaling(call, d, held))


def kind_of(call: TileCall) -> MmaKind:
    """The instructions for the call's types. Raises Decline where there are none, or none on the target."""
    names = [WORDS.get(str(call[name].dtype), "") for name in "AB"]
    result = call["D"].dtype
    narrow = [dtype("float32")] if result.is_float and result.bits < 32 else []
    for sums, row in product((result, *narrow), ROWS):
        types = ".".join([WORDS.get(str(sums), ""), *names, WORDS.get(str(sums), "")])
        forms = [form for form in isa.lookup(row).forms if types in form.wording.modifiers["types"]]
        forms = [form for form in forms if any(shape.startswith("m16n8") for shape in shapes_of(form))]
        if forms and "e2m1" not in types:  # a byte for each, where tiles have two in one
            break
    else:
        dtypes = ", ".join(f"{name} is {call[name].dtype}" for name in "DAB")
        changes = other_types(call, ("float32", "int32", "float16"))
        raise Decline(f"no mma has these types: {dtypes}", allowed=allowed_types(), changes=changes)
    fitting = [form for form in forms if form.arch.admits(call.arch)]
    if not fitting:
        check_target(call, f"mma {types}", forms[0])
    ks = sorted((isa.mma_shape(shape)[2] for form in fitting for shape in shapes_of(form)), reverse=True)
    return MmaKind(row, types, sums, tuple(ks), *(max(1, 32 // kind.bits) for kind in (call["A"].dtype, sums)))


def shapes_of(form: Form) -> list[str]:
    """The shapes of a form, ``m16n8k16``."""
    return [str(shape) for shape in form.wording.modifiers["shape"]]


def allowed_types() -> str:
    """``D float32: A, B float16; ...``."""
    pairs: dict[str, list[str]] = {}
    for form in chain.from_iterable(isa.lookup(row).forms for row in ROWS):
        for types in form.wording.modifiers["types"]:
            d, a, b, _ = (ELEMENTS[name] for name in str(types).split("."))
            if "float4" in a + b or ("float6" in a + b and a != b):  # of floats of 6 and 8 bits any two
                continue
            both = a if a == b else f"{a} and {b}"
            if both not in pairs.setdefault(d, []):
                pairs[d].append(both)
    return "; ".join(f"D {d}: A and B {', '.join(both)}" for d, both in pairs.items())


# Where D lies, beside A, B and C.


def check_storage(call: TileCall) -> None:
    """Raises Decline where D lies where A or B is read, or over a part of C."""
    d = call["D"]
    for name in "ABC":
        side = call[name]
        if root_of(side.buffer) != root_of(d.buffer) or (name == "C" and ir.same(side.region, d.region)):
            continue
        if side.buffer != d.buffer or not boxes_apart(side, d):
            allowed = "C is D, or has storage of its own" if name == "C" else f"{name} in storage of its own"
            raise Decline(f"{side} may lie where {d} is written", allowed=allowed)


def boxes_apart(side: Side, other: Side) -> bool:
    """Does one region of a buffer end before the other begins, in some dimension?"""
    for (a, a_size), (b, b_size) in zip(side.region.box, other.region.box, strict=True):
        first, second = (ir.const_value(ir.as_expr(a + a_size) <= b), ir.const_value(ir.as_expr(b + b_size) <= a))
        if first or second:
            return True
    return False


# The registers of the operands, and the steps along K.


def accumulators(call: TileCall, sizes: Mapping[str, int], sums: DType) -> tuple[Side, staging.Staged | None]:
    """The registers that are added to: D's own, or some made for it and the copy to it."""
    if call["D"].space == "local":
        if call["D"].dtype == sums:
            return call["D"], None
        copy = staging.staged(call, call["D"], staging.like(call, call["D"]), loading=False, kind=sums)
        return copy.local, copy
    for name in "AB":
        if call[name].space == "local":  # D gets its layout from them
            held = held_by_warps(call, call[name])
            own_blocks(call, name, call[name], held, held.warps)
    copy = staging.staged(call, call["D"], staging.fragment_of_d(call, sizes), loading=False, kind=sums)
    return copy.local, copy


def steps_of(
    call: TileCall, d: Side, held: Held, total: RegisterBlocks, k: int, kind: MmaKind
) -> tuple[ProductStep, ...]:
    """The products, cut along K where an operand comes from memory, so that few registers have to wait for it."""
    first = kind.ks[next(n for n, step in enumerate(kind.ks) if k % step == 0)]
    if any(call[name].space != "local" for name in "AB") and first < k:
        try:
            return tuple(step_of(call, d, held, total, start, first, kind) for start in range(0, k, first))
        except Decline:  # K in registers may have another order: then at once
            pass
    return (step_of(call, d, held, total, 0, k, kind),)


def step_of(
    call: TileCall, d: Side, held: Held, total: RegisterBlocks, start: int, k: int, kind: MmaKind
) -> ProductStep:
    """The products of ``k`` steps along K. Raises Decline where operands do not fit each other."""
    parts = {name: part_of(call, name, start, k) for name in "AB"}
    asked = [begins_inside(side, dict(dims_of(call, name))["K"]) for name, side in parts.items() if start]
    sources, blocks = dict[str, RegisterSource](), dict[str, RegisterBlocks]()
    for name, side in parts.items():
        copy = (
            None if side.space == "local" else staging.staged(call, side, registers_for(call, name, d, parts, k, kind))
        )
        local = side if copy is None else copy.local
        mine = held_by_warps(call, local)
        if missing := sorted(set(held.warps.tolist()) - set(mine.warps.tolist())):
            raise Decline(f"warp {missing[0]} has a part of {d.name} and nothing of {local.name}")
        blocks[name] = own_blocks(call, name, local, mine, held.warps)
        if (depth := 4 * kind.per_register * len(blocks[name].inside)) != k:
            raise Decline(
                f"a warp has {depth} of the {k} steps along K of {local.name}", allowed="all of K in each warp"
            )
        sources[name] = RegisterSource(mine, local, copy)
    products = products_of(blocks["A"], blocks["B"], total, kind.of_d, kind.halves)
    return ProductStep(sources, products, next((size for size in asked if size is not None), None))


def begins_inside(part: Side, position: int) -> ir.Expr | None:
    """Does a part along K begin before the tile's end? None where that is a number."""
    end = part.ends[position] if part.ends else None
    return None if end is None or ir.const_value(end) is not None else ir.binary("<", part.starts[position], end)


def own_blocks(call: TileCall, name: str, side: Side, held: Held, warps: Ints) -> RegisterBlocks:
    """The blocks of A or B. Raises Decline where a register is none."""
    (first, _), (_, last) = dims_of(call, name)
    columns = int(ir.const_value(side.extents[last]) or 0)
    return blocks_of(side, held, warps, columns, 0 if first == ALONG_G[name] else 1)


def part_of(call: TileCall, name: str, start: int, k: int) -> Side:
    """The part of A or B along K."""
    side, position = call[name], dict(dims_of(call, name))["K"]
    if ir.const_value(side.extents[position]) == k:
        return side
    box = list(side.region.box)
    box[position] = (box[position][0] + start, k)
    return replace(side_of(ir.Region(side.buffer, tuple(box)), call.facts), ends=side.ends)


def registers_for(call: TileCall, name: str, d: Side, parts: Mapping[str, Side], k: int, kind: MmaKind) -> TileLayout:
    """The layout of registers for A or B from memory, its dimensions in the operand's order."""
    other = "B" if name == "A" else "A"
    if parts[other].space == "local":
        along_k = staging.as_in(
            call, parts[other], sides_of_matrix(other, dict(call.config)).index("K"), kind.per_register
        )
    else:
        along_k = staging.in_order(k, kind.per_register)
    layout = OF_A_AND_B[name](call, d, along_k)
    if not call.option(f"transpose_{name}"):
        return layout
    sizes = [int(ir.const_value(parts[name].extents[position]) or 0) for _, position in reversed(dims_of(call, name))]
    grouped, separators = layout.group(sizes)
    return grouped.permute_by_groups(separators, (1, 0))


# The code of a product by ``mma.sync``.


@mma.emit
def _(plan: MmaPlan, call: TileCall, out: Builder) -> None:
    total = plan.d.buffer if plan.result is None else staging.allocated(plan.d.buffer, out)
    kept = plan.scaling.begin(out, total)
    turns = [registers_of_step(plan.steps[0], out) for _ in plan.steps[:2]]
    load(plan.steps[0], turns[0], out)
    for number, step in enumerate(plan.steps):
        if number + 1 < len(plan.steps):
            with out.when(plan.steps[number + 1].asked):
                load(plan.steps[number + 1], turns[(number + 1) % 2], out)
        with out.when(all_hold((plan.held.guard, step.asked))):
            multiply(plan, step, total, turns[number % 2], out)
    plan.scaling.end(out, total, kept)
    if plan.result is not None:
        if plan.scaling.copy is not None:
            out.call("cuda.warp_sync")  # where C is D, other lanes may have read what is stored now
        plan.result.emit(out, total)


def registers_of_step(step: ProductStep, out: Builder) -> dict[str, ir.Buffer]:
    """The registers of A and B; new ones for those from memory."""
    return {
        name: source.side.buffer if source.copy is None else staging.allocated(source.side.buffer, out)
        for name, source in step.sources.items()
    }


def load(step: ProductStep, registers: Mapping[str, ir.Buffer], out: Builder) -> None:
    """The copies of a step."""
    for name, source in step.sources.items():
        if source.copy is not None:
            source.copy.emit(out, registers[name])


def multiply(
    plan: MmaPlan, step: ProductStep, total: ir.Buffer, registers: Mapping[str, ir.Buffer], out: Builder
) -> None:
    """The products of a step: of each tile of D one after the other, so that none waits for the one before it."""
    products, sources = step.products, step.sources
    operands = [
        (total, plan.held.base, products.d),
        (registers["A"], sources["A"].held.base, products.a),
        (registers["B"], sources["B"].held.base, products.b),
    ]
    shape = f"m16n8k{plan.k}"
    for at in rounds(products, out):
        d, a, b = (
            [ir.AddressOf(buffer.flat(), (ir.as_expr(plus(base, slot)),)) for slot in slots]
            for (buffer, base, _), slots in zip(operands, at, strict=True)
        )
        out.call(plan.kind.row, shape, plan.kind.types, d, a, b, d)


def rounds(products: Products, out: Builder) -> Iterator[list[list[ir.Value]]]:
    """For each product the slots of D, A and B: in loops where they follow patterns, else one by one."""
    counts = {"k": products.a.shape[1], "m": len(products.a), "n": len(products.b)}
    if not all(map(follows_digits, (products.d, products.a, products.b))):
        for k, m, n in product(*map(range, counts.values())):
            yield [table.tolist() for table in (products.d[m, n], products.a[m, k], products.b[n, k])]
        return
    with ExitStack() as loops:
        counters = {name: loops.enter_context(out.loop(name, count, "unroll")) for name, count in counts.items()}
        yield [
            slots_at(table, counters[row], counters[column])
            for table, row, column in ((products.d, "m", "n"), (products.a, "m", "k"), (products.b, "n", "k"))
        ]


def slots_at(table: Ints, first: ir.Value, other: ir.Value) -> list[ir.Value]:
    """The slots of each register for two counters. Once `follows_digits` says so, each is a sum of walks."""
    slots = [linear(table[..., register], [first, other], listed=False) for register in range(table.shape[2])]
    return [slot for slot in slots if slot is not None]


def follows_digits(table: Ints) -> bool:
    """Are the slots of each register arithmetic in both counters?"""
    return len(slots_at(table, 0, 0)) == int(table.shape[2])


# alpha and beta of a product: the initial values of the sums, and their scaling at the end.


@dataclass(frozen=True, slots=True, eq=False)
class Addend:
    """C in registers. slots: of the elements that D has in its own, in their order, to be added to ``base``. copy: to
    these registers, where C is in memory.
    """

    registers: ir.Buffer
    base: ir.Value
    slots: Ints
    copy: Staged | None = None

    def filled(self, out: Builder) -> Addend:
        """The addend once the copy has filled its registers."""
        if self.copy is None:
            return self
        registers = allocated(self.registers, out)
        self.copy.emit(out, registers)
        return replace(self, registers=registers)


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """alpha: what the sums are multiplied by, None for 1. beta: what C is multiplied by, None where C is not read.

    held, slots: the registers of D. c: None where C is D, or not read.
    """

    alpha: ir.Expr | None
    beta: ir.Expr | None
    held: Held
    slots: Ints
    c: Addend | None = None

    @property
    def copy(self) -> Staged | None:
        """The copy of C, where C is in memory."""
        return self.c.copy if self.c else None

    def begin(self, out: Builder, total: ir.Buffer) -> Addend | None:
        """Set the initial values of the sums. Returns the values that are added to them at the end."""
        mine = Addend(total, self.held.base, self.slots)
        if self.beta is None:
            self._set(out, total, None, None)
            return None
        if self.alpha is None:
            if self.c is not None or ir.const_value(self.beta) != 1:
                self._set(out, total, (self.c or mine).filled(out), self.beta)
            return None
        if self.c is None:
            numbers = np.arange(len(self.slots))
            mine = Addend(out.local("kept", len(self.slots), str(total.dtype)), 0, numbers)
            with out.when(self.held.guard):
                for slot, number in out.turns("e", turns_of(self.slots, numbers)):
                    out.store(mine.registers.flat(), number, ir.Load(total.flat(), (self._place(slot),)))
        self._set(out, total, None, None)
        return self.c or mine

    def end(self, out: Builder, total: ir.Buffer, c: Addend | None) -> None:
        """Multiply the sums, and add C."""
        if self.alpha is not None:
            self._set(out, total, c and c.filled(out), self.beta, self.alpha)

    def _set(
        self, out: Builder, total: ir.Buffer, c: Addend | None, beta: ir.Expr | None, alpha: ir.Expr | None = None
    ) -> None:
        """Every sum becomes ``alpha * sum + beta * C``; the first term is 0 without alpha, the second without C."""
        wide = dtype("float32") if total.dtype.is_float and total.dtype.bits < 32 else total.dtype
        factors = [
            None if factor is None or ir.const_value(factor) == 1 else out.let(name, ir.cast(factor, wide))
            for name, factor in (("alpha", alpha), ("beta", beta))
        ]
        with out.when(self.held.guard):
            for slot, other in out.turns("e", turns_of(self.slots, self.slots if c is None else c.slots)):
                terms = [] if alpha is None else [_times(ir.Load(total.flat(), (self._place(slot),)), factors[0], wide)]
                if c is not None:
                    element = ir.Load(c.registers.flat(), (ir.as_expr(plus(c.base, other)),))
                    terms.append(_times(element, factors[1], wide))
                value = terms[0] + terms[1] if len(terms) > 1 else terms[0] if terms else ir.as_expr(0)
                out.store(total.flat(), self._place(slot), ir.cast(value, total.dtype))

    def _place(self, slot: ir.Value) -> ir.Expr:
        return ir.as_expr(plus(self.held.base, slot))


def _times(element: ir.Expr, factor: ir.Expr | None, wide: str) -> ir.Expr:
    return ir.cast(element, dtype(wide)) if factor is None else ir.cast(element, dtype(wide)) * factor


def plan_scaling(call: TileCall, d: Side, held: Held) -> Scaling:
    """The scaling of a call. Raises Decline where C has other elements in its registers than D."""
    alpha, beta = (call.scalars[name] for name in ("alpha", "beta"))
    for name, factor in (("alpha", alpha), ("beta", beta)):
        number = ir.const_value(factor)
        if factor.dtype.is_float and not d.dtype.is_float and (number is None or not float(number).is_integer()):
            raise Decline(
                f"{name} is {factor}, {factor.dtype}, and {call['D'].name} is {d.dtype}", allowed="an integer"
            )
    elements, slots = _places(held, held.warps)
    scaling = Scaling(
        None if ir.const_value(alpha) == 1 else alpha, None if ir.const_value(beta) == 0 else beta, held, slots
    )
    c = call["C"]
    if scaling.beta is None or (d is call["D"] and ir.same(c.region, d.region)):
        return scaling
    copy = None if c.space == "local" else staged(call, c, like(call, d))
    side = c if copy is None else copy.local
    mine = held_by_warps(call, side)
    where = {element.tobytes(): slot for element, slot in zip(*_places(mine, held.warps), strict=True)}
    missing = [slot for element, slot in zip(elements, slots.tolist(), strict=True) if element.tobytes() not in where]
    if missing:
        raise Decline(
            f"slot {missing[0]} of {d.name} has elements that no slot of {c.name} has in the same lanes",
            allowed=f"the layout of {d.name} for {c.name}: {d.tile}",
        )
    c_slots = np.array([where[element.tobytes()] for element in elements])
    return replace(scaling, c=Addend(side.buffer, mine.base, c_slots, copy))


def _places(held: Held, warps: Ints) -> tuple[list[Ints], Ints]:
    """For each slot the elements that the lanes of these warps have there, and the slots."""
    elements = held.elements[warps].reshape(len(warps), 32, -1)
    slots = np.add.outer(held.slots, np.arange(held.elements.shape[3])).reshape(-1)
    return [np.ascontiguousarray(elements[..., number]) for number in range(len(slots))], slots


# Products of any sizes as products of whole instructions: tiles in memory go on behind their ends, where zeros are
# loaded and nothing is stored. Where an end is known to the run alone, as far as the largest number that it may be.


def dims_of(call: TileCall, name: str) -> list[tuple[str, int]]:
    """The dimensions of an operand in their order, "M", "N" or "K", with their positions in its region."""
    long = [position for position, extent in enumerate(call[name].extents) if ir.const_value(extent) != 1]
    return list(zip(sides_of_matrix(name, dict(call.config)), long, strict=True))


def sizes_of(call: TileCall) -> dict[str, int]:
    """M, N and K; of one that only the run knows, the most that it may be. Raises Decline where nobody says."""
    sizes: dict[str, int] = {}
    for name, side in call.sides.items():
        for dim, position in dims_of(call, name):
            extent, total = side.extents[position], ir.const_value(side.buffer.shape[position])
            most = call.facts.bounds(extent)[1] if ir.const_value(extent) is None else int(ir.const_value(extent) or 0)
            rooms = [most] if total is None or ir.const_value(extent) is not None else [most, int(total)]
            sizes[dim] = min([room for room in (*rooms, sizes.get(dim)) if room is not None])
    for dim, size in sizes.items():
        if size > MOST:
            raise Decline(f"{dim} may be {size}", allowed=f"T.assume of a number up to {MOST}, or a loop over tiles")
    return sizes


MOST = 1 << 14  # rows, columns or steps along K, for which instructions are written out


def in_whole_pieces(call: TileCall, ks: Sequence[int]) -> TileCall:
    """The call with whole pieces of 16 x 8 x one of ``ks`` for each warp, the most first; itself where it has them.

    Raises Decline where an operand in registers would have to be larger.
    """
    sizes = sizes_of(call)
    whole = next((k for k in ks if sizes["K"] % k == 0), ks[0] if sizes["K"] > ks[-1] else ks[-1])
    pieces = {"M": 16, "N": 8, "K": whole}
    if not any(side.space == "local" for side in call.tiles):
        pieces |= dict(zip("MN", _shares(call, sizes), strict=True))
    padded = {dim: -(-size // pieces[dim]) * pieces[dim] for dim, size in sizes.items()}
    return replace(call, sides={name: _grown(call, name, padded) for name in call.sides})


def _shares(call: TileCall, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The rows and columns of a piece for all warps, with which they multiply, then load, as little as possible."""

    def cost(piece: tuple[int, int]) -> tuple[int, int]:
        m, n = (-(-sizes[dim] // size) for dim, size in zip("MN", piece, strict=True))
        return m * n * piece[0] * piece[1], 16 * m + 8 * n

    return min(((16 * m, 8 * n) for (m, n), _ in staging.warp_shares(call)), key=cost)


def _grown(call: TileCall, name: str, padded: Mapping[str, int]) -> Side:
    """An operand with extents of whole pieces, which ends where it did."""
    side = call[name]
    box = list(side.region.box)
    ends: list[ir.Value | None] = [None] * len(box)
    for dim, position in dims_of(call, name):
        start, extent = box[position]
        if ir.const_value(extent) == padded[dim]:
            continue
        if side.space == "local":
            raise Decline(
                f"{dim} is {extent}, and {side.name} is in registers, which have whole pieces",
                allowed=f"{dim} of {padded[dim]} in registers; tiles in memory may end anywhere",
                changes=whole_pieces(call, padded),
            )
        box[position], ends[position] = (start, padded[dim]), end_of(call, side, position)
    if all(end is None for end in ends):
        return side
    return replace(side_of(ir.Region(side.buffer, tuple(box)), call.facts), ends=tuple(ends))


# Changes with which a product would be one by ``mma.sync``: other types, layouts that fit, sizes of whole pieces.


Sizes = Mapping[str, int]


def other_types(call: TileCall, sums: Iterable[str]) -> Iterator[Change]:
    """The same call with tf32 for float32, or with sums of another type."""
    if call["A"].dtype == call["B"].dtype == "float32":
        text = 'dtype "tf32" for A and B: of float32 mma reads the 19 bits of that'
        yield Change(text, _typed(call, "AB", "tf32"))
    for kind in sums:
        yield Change(f'dtype "{kind}" for {call["D"].name}', _typed(call, "DC", kind))


def _typed(call: TileCall, names: str, kind: str) -> TileCall:
    sides = {name: _retyped(call, side, kind) if name in names else side for name, side in call.sides.items()}
    return replace(call, sides=sides)


def _retyped(call: TileCall, side: Side, kind: str) -> Side:
    region = replace(side.region, buffer=replace(side.buffer, dtype=dtype(kind)))
    return side_of(region, call.facts)


def other_layouts(call: TileCall, sizes: Sizes) -> Iterator[Change]:
    """The same call with one operand's registers laid out to fit the others; or with new layouts for all of them."""
    local = [name for name in _own(call) if call[name].space == "local"]
    for name in local:
        if name != "D":
            yield from _with(call, [name], sizes)
    yield from _with(call, local, sizes)


def whole_pieces(call: TileCall, sizes: Sizes) -> Iterator[Change]:
    """The same call with larger tiles, of these sizes."""
    spoken = " x ".join(str(sizes[dim]) for dim in "MNK")
    return _with(call, _own(call), sizes, f"M x N x K = {spoken}, with zeros in what is added")


def _own(call: TileCall) -> list[str]:
    """The operands, D first; C only if it is not D."""
    return ["D", "A", "B"] + ([] if ir.same(call["C"].region, call["D"].region) else ["C"])


def _with(call: TileCall, names: list[str], sizes: Sizes, head: str = "") -> Iterator[Change]:
    """The call with new register buffers for these operands, laid out by `mma_fragment_layout` or as D asks."""
    for share, axis in (*staging.warp_shares(call), (None, Axis.warpid)):
        words, changed = [head] if head else [], call
        try:
            for name in names:
                side, text = _remade(changed, name, sizes, share, axis)
                words += [text] if text else []
                changed = replace(changed, sides={**changed.sides, name: side})
        except (Decline, LayoutError):
            continue
        if "D" in names and "C" not in names and ir.same(call["C"].region, call["D"].region):
            changed = replace(changed, sides={**changed.sides, "C": changed["D"]})
        yield Change("; ".join(words), changed)


def _remade(call: TileCall, name: str, sizes: Sizes, share: tuple[int, int] | None, axis: Axis) -> tuple[Side, str]:
    """An operand in a new buffer, and the text with which a user declares it, "" for row-major memory."""
    old, dims = call[name], sides_of_matrix(name, dict(call.config))
    turned = bool(call.option(f"transpose_{name}"))
    shape = tuple(sizes[dim] for dim in (dims[::-1] if turned else dims))
    layout = ir.row_major(shape) if old.space != "local" else _fragment(call, name, shape, share, axis)
    text = (
        f"{_spelled(name, layout, shape, str(old.dtype), share, axis)} for {old.name}" if old.space == "local" else ""
    )
    if turned:
        assert isinstance(layout, TileLayout)
        grouped, separators = layout.group(shape)
        layout, shape = grouped.permute_by_groups(separators, (1, 0)), shape[::-1]
        text = f"{layout} for {old.name}" if text else ""
    buffer = replace(old.buffer, shape=shape, layout=layout, elem_offset=0)
    return side_of(buffer.region(), call.facts), text


def _fragment(
    call: TileCall, name: str, shape: tuple[int, ...], share: tuple[int, int] | None, axis: Axis
) -> TileLayout:
    kind = call[name].dtype
    if share is not None:
        return mma_fragment_layout(name, shape, str(kind), share, axis)
    if name == "C":
        return staging.like(call, call["D"])
    if name == "D" or call["D"].space != "local":
        raise Decline("there is no D in registers after which others could be made")
    k = staging.in_order(shape[1 if name == "A" else 0], max(1, 32 // kind.bits))
    return (staging.fragment_of_a if name == "A" else staging.fragment_of_b)(call, call["D"], k)


def _spelled(
    name: str, layout: Layout, shape: tuple[int, ...], kind: str, share: tuple[int, int] | None, axis: Axis
) -> str:
    """A layout by the name of its maker, where it is one of those."""
    if share is None:
        return str(layout)
    warps = f", warps={share}" if share != (1, 1) else ""
    where = f", axis={axis}" if axis.name != "warpid" and warps else ""
    return f'mma_fragment_layout("{name}", {shape}, "{kind}"{warps}{where})'
