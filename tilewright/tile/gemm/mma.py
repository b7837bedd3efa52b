"""The product by ``mma.sync``: warps multiply matrices that lie in their registers.

Operands in registers are compared with the instruction's fragments block by block (`tilewright.tile.matrices`).
Those in memory pass through registers made for them, loaded by whatever variant `copy` finds
(`tilewright.tile.staging`), one step of K ahead of the products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, product

from tilewright import isa
from tilewright.dtypes import DType, dtype
from tilewright.ir import AddressOf, Buffer, Expr, Region, Value, as_expr, binary, const_value, same
from tilewright.isa.operands import ELEMENTS, WORDS
from tilewright.isa.table import Form
from tilewright.layout import TileLayout
from tilewright.primitives.gemm import sides_of_matrix
from tilewright.records import replace
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import check_target, only_in, whole_warps
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.gemm.near import other_layouts, other_types
from tilewright.tile.gemm.padded import dims_of, in_whole_pieces, sizes_of
from tilewright.tile.matrices import Held, Products, RegisterBlocks, blocks_of, held_by_warps, products_of
from tilewright.tile.owners import all_hold
from tilewright.tile.partition import root_of
from tilewright.tile.scaling import Scaling, plan_scaling
from tilewright.tile.staging import (
    Staged,
    allocated,
    as_in,
    fragment_of_a,
    fragment_of_b,
    fragment_of_d,
    in_order,
    like,
    staged,
)
from tilewright.tile.walks import Ints, linear, plus

ROWS = ("ptx.mma", "ptx.mma.f64", "ptx.mma.f8f6f4")
OF_A_AND_B = {"A": fragment_of_a, "B": fragment_of_b}
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
    copy: Staged | None


@dataclass(frozen=True, slots=True, eq=False)
class ProductStep:
    """Products along a part of K. asked: is there such a part, where only the run knows?"""

    sources: Mapping[str, RegisterSource]
    products: Products
    asked: Expr | None = None


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
    result: Staged | None
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


# Sizes


def check_storage(call: TileCall) -> None:
    """Raises Decline where D lies where A or B is read, or over a part of C."""
    d = call["D"]
    for name in "ABC":
        side = call[name]
        if root_of(side.buffer) != root_of(d.buffer) or (name == "C" and same(side.region, d.region)):
            continue
        if side.buffer != d.buffer or not boxes_apart(side, d):
            allowed = "C is D, or has storage of its own" if name == "C" else f"{name} in storage of its own"
            raise Decline(f"{side} may lie where {d} is written", allowed=allowed)


def boxes_apart(side: Side, other: Side) -> bool:
    """Does one region of a buffer end before the other begins, in some dimension?"""
    for (a, a_size), (b, b_size) in zip(side.region.box, other.region.box, strict=True):
        first, second = (const_value(as_expr(a + a_size) <= b), const_value(as_expr(b + b_size) <= a))
        if first or second:
            return True
    return False


# Operands


def accumulators(call: TileCall, sizes: Mapping[str, int], sums: DType) -> tuple[Side, Staged | None]:
    """The registers that are added to: D's own, or some made for it and the copy to it."""
    if call["D"].space == "local":
        if call["D"].dtype == sums:
            return call["D"], None
        copy = staged(call, call["D"], like(call, call["D"]), loading=False, kind=sums)
        return copy.local, copy
    for name in "AB":
        if call[name].space == "local":  # D gets its layout from them
            held = held_by_warps(call, call[name])
            own_blocks(call, name, call[name], held, held.warps)
    copy = staged(call, call["D"], fragment_of_d(call, sizes), loading=False, kind=sums)
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
        copy = None if side.space == "local" else staged(call, side, registers_for(call, name, d, parts, k, kind))
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


def begins_inside(part: Side, position: int) -> Expr | None:
    """Does a part along K begin before the tile's end? None where that is a number."""
    end = part.ends[position] if part.ends else None
    return None if end is None or const_value(end) is not None else binary("<", part.starts[position], end)


def own_blocks(call: TileCall, name: str, side: Side, held: Held, warps: Ints) -> RegisterBlocks:
    """The blocks of A or B. Raises Decline where a register is none."""
    (first, _), (_, last) = dims_of(call, name)
    columns = int(const_value(side.extents[last]) or 0)
    return blocks_of(side, held, warps, columns, 0 if first == ALONG_G[name] else 1)


def part_of(call: TileCall, name: str, start: int, k: int) -> Side:
    """The part of A or B along K."""
    side, position = call[name], dict(dims_of(call, name))["K"]
    if const_value(side.extents[position]) == k:
        return side
    box = list(side.region.box)
    box[position] = (box[position][0] + start, k)
    return replace(side_of(Region(side.buffer, tuple(box)), call.facts), ends=side.ends)


def registers_for(call: TileCall, name: str, d: Side, parts: Mapping[str, Side], k: int, kind: MmaKind) -> TileLayout:
    """The layout of registers for A or B from memory, its dimensions in the operand's order."""
    other = "B" if name == "A" else "A"
    if parts[other].space == "local":
        along_k = as_in(call, parts[other], sides_of_matrix(other, dict(call.config)).index("K"), kind.per_register)
    else:
        along_k = in_order(k, kind.per_register)
    layout = OF_A_AND_B[name](call, d, along_k)
    if not call.option(f"transpose_{name}"):
        return layout
    sizes = [int(const_value(parts[name].extents[position]) or 0) for _, position in reversed(dims_of(call, name))]
    grouped, separators = layout.group(sizes)
    return grouped.permute_by_groups(separators, (1, 0))


# Code


@mma.emit
def _(plan: MmaPlan, call: TileCall, out: Builder) -> None:
    total = plan.d.buffer if plan.result is None else allocated(plan.d.buffer, out)
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


def registers_of_step(step: ProductStep, out: Builder) -> dict[str, Buffer]:
    """The registers of A and B; new ones for those from memory."""
    return {
        name: source.side.buffer if source.copy is None else allocated(source.side.buffer, out)
        for name, source in step.sources.items()
    }


def load(step: ProductStep, registers: Mapping[str, Buffer], out: Builder) -> None:
    """The copies of a step."""
    for name, source in step.sources.items():
        if source.copy is not None:
            source.copy.emit(out, registers[name])


def multiply(plan: MmaPlan, step: ProductStep, total: Buffer, registers: Mapping[str, Buffer], out: Builder) -> None:
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
            [AddressOf(buffer.flat(), (as_expr(plus(base, slot)),)) for slot in slots]
            for (buffer, base, _), slots in zip(operands, at, strict=True)
        )
        out.call(plan.kind.row, shape, plan.kind.types, d, a, b, d)


def rounds(products: Products, out: Builder) -> Iterator[list[list[Value]]]:
    """For each product the slots of D, A and B: in loops where they follow patterns, else one by one."""
    counts = {"k": products.a.shape[1], "m": len(products.a), "n": len(products.b)}
    if not all(map(follows_digits, (products.d, products.a, products.b))):
        for k, m, n in product(*map(range, counts.values())):
            yield [table.tolist() for table in (products.d[m, n], products.a[m, k], products.b[n, k])]
        return
    with ExitStack() as loops:
        counters: dict[str, Value] = {
            name: loops.enter_context(out.loop(name, count, "unroll")) if count > 1 else 0
            for name, count in counts.items()
        }
        yield [
            slots_at(table, counters[row], counters[column])
            for table, row, column in ((products.d, "m", "n"), (products.a, "m", "k"), (products.b, "n", "k"))
        ]


def slots_at(table: Ints, first: Value, other: Value) -> list[Value]:
    """The slots of each register for two counters. Once `follows_digits` says so, each is a sum of walks."""
    slots = [linear(table[..., register], [first, other], listed=False) for register in range(table.shape[2])]
    return [slot for slot in slots if slot is not None]


def follows_digits(table: Ints) -> bool:
    """Are the slots of each register arithmetic in both counters?"""
    return len(slots_at(table, 0, 0)) == int(table.shape[2])
