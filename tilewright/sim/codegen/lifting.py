"""Addresses of compiled code taken apart: a number, a part that varies over CTAs, a part that varies over threads.

Registers wrap; sums here are ideal numbers, congruent to the registers. Widening a narrow sum keeps its value only
while the sum is in its range: the code tests its ends, and otherwise computes the addresses of all lanes as written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, dtype
from tilewright.ir import Binary, Call, Cast, Expr, Reinterpret, as_expr, binary, const_value, walk
from tilewright.isa.linear import as_arithmetic
from tilewright.sim.codegen.axes import CTA, UNIFORM
from tilewright.sim.codegen.emitter import wrapper
from tilewright.sim.codegen.values import acts, is_pure, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.sim.codegen.emitter import Emitter

__all__ = ["addends", "is_taken_apart", "number_of", "plain", "taken_apart"]

Leaf = tuple[str, Expr]  # a factor, and what it multiplies


@dataclass(slots=True)
class _Sum:
    """start: texts of uniform terms. groups: by the axes, leaves with their factors. wider: addresses with theirs."""

    start: list[str] = field(default_factory=list)
    groups: dict[str, list[Leaf]] = field(default_factory=dict)
    wider: list[tuple[str, str]] = field(default_factory=list)


def is_taken_apart(e: Emitter, expr: Expr) -> bool:
    """Is it worth while to take apart an address that only the run knows?"""
    whole = plain(expr)
    is_sum = isinstance(whole, Binary) or (isinstance(whole, Cast) and isinstance(plain(whole.a), Binary))
    return is_sum and e.axes.of(expr) != UNIFORM and expr.dtype.bits in (32, 64)


def taken_apart(e: Emitter, expr: Expr, mask: str) -> str:
    """The name of an `Address`: 64 bits, or the offset in shared memory where it has 32."""
    before, e.uncounted = e.uncounted, True
    made = _kept(e, expr, mask) or _Lifter(e, mask).address(expr)
    e.uncounted = before
    return made


def _kept(e: Emitter, expr: Expr, mask: str) -> str | None:
    """The same where all but numbers depends on thread numbers and parameters alone: that is made once for a batch.

    It is 0 where a run has none of those numbers. None where something else varies over threads.
    """
    fixed, shift, moving = list[tuple[int, Expr]](), 0, list[str]()
    for factor, term in _terms(e, expr) if expr.dtype.bits == 64 else [(1, expr)]:
        nodes = walk(term)
        if (known := number_of(term)) is not None:
            shift += factor * wrapper(dtype("int64"))(known)
        elif names_in(nodes) <= e.program.fixed and not any(map(acts, nodes)):
            fixed.append((factor, term))
        elif expr.dtype.bits == 64 and e.axes.of(term) == UNIFORM:
            moving.append(f"{factor} * {_Lifter(e, mask).uniform(term, 64)}")
        else:
            return None
    if not fixed:
        return None
    text = " + ".join(f"{factor} * {term}" for factor, term in fixed)
    key = e.program.part_ids.setdefault(f"{text} as an address", len(e.program.part_ids))
    name = e.out.named("a", f"parts.get({key})")
    with e.out.block(f"if {name} is None:"):
        e.out.line(f"{name} = parts[{key}] = {_Lifter(e, mask).address(_sum(fixed, expr.dtype))}")
    steps = [*moving, *([str(shift)] if shift else [])]
    return e.out.named("a", f"{name}.shifted({' + '.join(steps)})") if steps else name


def _terms(e: Emitter, expr: Expr, factor: int = 1) -> Iterator[tuple[int, Expr]]:
    """What a sum of 64 bits consists of, each with its factor."""
    expr = plain(expr)
    parts = addends(e, expr) if isinstance(expr, Binary) and expr.dtype.bits == 64 else ()
    factors = [number_of(number) if isinstance(number, Expr) else number for _, number in parts]
    if not parts or None in factors:
        yield factor, expr
        return
    for (part, _), number in zip(parts, factors, strict=True):
        yield from _terms(e, part, factor * (number or 0))


def _sum(terms: Sequence[tuple[int, Expr]], kind: DType) -> Expr:
    """The same as one expression."""
    found: Expr | None = None
    for factor, term in terms:
        one = (
            term if term.dtype == kind else Cast(term, kind) if term.dtype.kind == "handle" else Reinterpret(term, kind)
        )
        one = one if factor == 1 else binary("*", one, as_expr(factor % 2**kind.bits, kind))
        found = one if found is None else binary("+", found, one)
    assert found is not None
    return found


def plain(expr: Expr) -> Expr:
    """The expression without casts that change no bit, and with calls replaced by the arithmetic that they do."""
    while True:
        if isinstance(expr, (Reinterpret, Cast)) and _same_bits(expr):
            expr = expr.a
        elif isinstance(expr, Call) and is_pure(expr) and (known := as_arithmetic(expr)) is not None:
            expr = known
        else:
            return expr


def _same_bits(expr: Reinterpret | Cast) -> bool:
    kinds = (expr.a.dtype, expr.dtype)
    return kinds[0].bits == kinds[1].bits and all(kind.kind in ("int", "uint", "handle") for kind in kinds)


class _Lifter:
    def __init__(self, e: Emitter, mask: str) -> None:
        self.e = e
        self.out = e.out
        self.mask = mask
        self.conditions: list[str] = []
        self.loose = False  # does a factor depend on more than parameters?

    def address(self, expr: Expr) -> str:
        name = self.out.fresh("a")
        total = _Sum()
        self.gather(expr, expr.dtype.bits, "1", total)
        if expr.dtype.bits == 32:
            self.widened(total, "1", whole := _Sum(), signed=False)
            total = whole
        text = self.text(total)
        if not self.conditions:
            self.out.line(f"{name} = {text}")
            return name
        with self.out.block(f"if {' and '.join(self.conditions)}:"):
            self.out.line(f"{name} = {text}")
        with self.out.block("else:"):
            self.out.line(f"{name} = Address(0, Part(int64({self.e.sound(expr, self.mask, 'an address')})))")
        return name

    def gather(self, expr: Expr, bits: int, factor: str, total: _Sum) -> None:
        """Adds ``factor * expr``, modulo 2 ** bits."""
        expr = plain(expr)
        if self.e.axes.of(expr) == UNIFORM:
            total.start.append(f"{factor} * {self.uniform(expr, bits)}")
        elif isinstance(expr, Binary) and expr.dtype.bits == bits and self.split(expr, bits, factor, total):
            pass
        elif isinstance(expr, Cast) and _is_integer(expr.a) and expr.a.dtype.bits < bits:
            inner = plain(expr.a)
            if isinstance(inner, Binary) and expr.a.dtype.bits == 32:
                narrow = _Sum()
                self.gather(inner, 32, "1", narrow)
                self.widened(narrow, factor, total, signed=expr.a.dtype.is_signed)
            else:
                self.leaf(expr, factor, total)
        else:
            self.leaf(expr, factor, total)

    def split(self, expr: Binary, bits: int, factor: str, total: _Sum) -> bool:
        parts = addends(self.e, expr)
        for part, number in parts:
            if isinstance(number, Expr):
                text = f"{self.uniform(plain(number), bits)} * {factor}"
            else:
                text = {1: factor, -1: f"-{factor}"}.get(number, f"{number} * {factor}")
            self.gather(part, bits, text, total)
        return bool(parts)

    def uniform(self, expr: Expr, bits: int) -> str:
        """A number as the nearest to zero that it is congruent to."""
        signed = wrapper(dtype(f"int{bits}"))
        known = number_of(expr)
        if known is not None:
            return f"({signed(known)})"
        self.loose |= not names_in(walk(expr)) <= self.e.program.fixed
        text = self.e.sound(expr, self.mask, "an address")
        return self.out.named("n", f"{self.out.constant('W', signed)}(int({text}))")

    def leaf(self, expr: Expr, factor: str, total: _Sum) -> None:
        axes = self.e.axes.of(expr)
        group = "ctas" if axes == CTA else "threads" if not axes & CTA else "both"
        total.groups.setdefault(group, []).append((factor, expr))

    def widened(self, narrow: _Sum, factor: str, total: _Sum, *, signed: bool) -> None:
        """Adds a sum of 32 bits, which must be in their range."""
        name = self.out.named("a", self.text(narrow))
        low, high = (-(1 << 31), 1 << 31) if signed else (0, 1 << 32)
        self.conditions.append(f"{low} <= {name}.lo and {name}.hi < {high}")
        total.wider.append((factor, name))

    # Text

    def text(self, total: _Sum) -> str:
        parts = [self.part(group, leaves) for group, leaves in total.groups.items()]
        start = [*total.start, *(f"{factor} * {name}.start" for factor, name in total.wider)]
        parts += [f"*{name}.scaled({factor})" for factor, name in total.wider]
        return f"Address({', '.join([' + '.join(start) or '0', *parts])})"

    def part(self, group: str, leaves: list[Leaf]) -> str:
        """The text of one part of an address, made once if it depends on thread numbers and parameters alone."""
        nodes = [node for _, expr in leaves for node in walk(expr)]
        read = names_in(nodes)
        constant = read <= self.e.program.of_threads and all(
            set(factor) <= set("-()*1234567890 ") for factor, _ in leaves
        )
        if any(map(acts, nodes)) or not read <= self.e.program.fixed or (self.loose and not constant):
            return f"Part({self.terms(leaves)})"
        kept = "threads" if group == "threads" and constant else "parts"
        key = self.e.program.part_ids.setdefault(
            " + ".join(f"{factor} * {expr}" for factor, expr in leaves), len(self.e.program.part_ids)
        )
        name = self.out.fresh("p")
        self.out.line(f"{name} = {kept}.get({key})")
        with self.out.block(f"if {name} is None:"):
            self.out.line(f"{name} = keep({kept}, {key}, {self.terms(leaves)})")
        return name

    def terms(self, leaves: list[Leaf]) -> str:
        texts = []
        for factor, expr in leaves:
            value = self.e.sound(expr, self.mask, "an address")
            signed = f"({value}).view(np.int{expr.dtype.bits})" if expr.dtype.kind == "uint" else value
            texts.append(f"{factor} * int64({signed})" if factor != "1" else f"int64({signed})")
        return " + ".join(texts)


def addends(e: Emitter, expr: Binary) -> Sequence[tuple[Expr, int | Expr]]:
    """The parts of a sum, or of a product with a uniform number, each with its factor; none of anything else."""
    if expr.op in ("+", "-"):
        return [(expr.a, 1), (expr.b, 1 if expr.op == "+" else -1)]
    if expr.op == "<<" and (known := number_of(expr.b)) is not None and 0 <= known < expr.dtype.bits:
        return [(expr.a, 1 << known)]
    if expr.op in ("|", "^") and not _bits(expr.a) & _bits(expr.b):
        return [(expr.a, 1), (expr.b, 1)]
    if expr.op == "*":
        both = ((expr.a, expr.b), (expr.b, expr.a))
        return [(varying, number) for varying, number in both if e.axes.of(number) == UNIFORM][:1]
    return []


def _bits(expr: Expr) -> int:
    """The bits that may be set in an integer."""
    expr = plain(expr)
    every = (1 << expr.dtype.bits) - 1
    if (known := number_of(expr)) is not None:
        return known & every
    if isinstance(expr, Cast) and expr.a.dtype.kind == "uint":
        return _bits(expr.a) & every
    if not isinstance(expr, Binary) or expr.op not in ("&", "|", "^", "<<", "+", "-"):
        return every
    if expr.op == "<<":
        step = number_of(expr.b)
        return every if step is None or step < 0 else _bits(expr.a) << step & every
    a, b = _bits(expr.a), _bits(expr.b)
    if expr.op in ("+", "-"):
        return -((a | b) & -(a | b)) & every  # from the lowest bit on
    return a & b if expr.op == "&" else a | b


def number_of(expr: Expr) -> int | None:
    """The integer that an expression is known to be."""
    if isinstance(expr, (Cast, Reinterpret)) and _is_integer(expr) and _is_integer(expr.a):
        inner = number_of(expr.a)
        return None if inner is None else wrapper(expr.dtype)(inner)
    known = const_value(expr)
    return None if known is None else int(known)


def _is_integer(expr: Expr) -> bool:
    return expr.dtype.kind in ("int", "uint")
