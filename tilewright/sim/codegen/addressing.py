"""From indices and pointers to addresses in parts: what is uniform, what varies over CTAs, what over threads.

Sums and products with uniform factors are taken apart; the true total modulo 2**32 is what int32 arithmetic gives, and
a total outside of int32 is outside of every buffer, so that nothing is lost. Everything else is a leaf.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.dtypes import DType, dtype
from tilewright.ir import (
    AddressOf,
    Binary,
    Buffer,
    Call,
    Cast,
    Expr,
    Load,
    Reinterpret,
    Var,
    Within,
    as_expr,
    binary,
    const_value,
    walk,
)
from tilewright.ir.debts import base_of, leaves
from tilewright.isa import Touch
from tilewright.isa.arith import as_arithmetic
from tilewright.sim.codegen.axes import CTA, UNIFORM
from tilewright.sim.codegen.source import Emitter, Operand, wrapper
from tilewright.sim.codegen.values import Given, acts, given_in, is_closed, is_pure, names_in
from tilewright.sim.machine import Address, Place, Site, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Addresses of compiled code taken apart: a number, a part that varies over CTAs, a part that varies over threads.
#
# Registers wrap; sums here are ideal numbers, congruent to the registers. Widening a narrow sum keeps its value only
# while the sum is in its range: the code tests its ends, and otherwise computes the addresses of all lanes as written.


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
    """The name of an `Address`: 64 bits, or the offset in shared memory where it has 32. One that depends on thread
    numbers and parameters alone is made once for a batch.
    """
    before, e.uncounted, nodes = e.uncounted, True, walk(expr)
    if names_in(nodes) <= e.program.fixed and not any(map(acts, nodes)):
        key = e.program.part_ids.setdefault(f"{expr} as an address", len(e.program.part_ids))
        name = e.out.named("a", f"parts.get({key})")
        with e.out.block(f"if {name} is None:"):
            e.out.line(f"{name} = parts[{key}] = {_Lifter(e, mask).address(expr)}")
    else:
        name = _Lifter(e, mask).address(expr)
    e.uncounted = before
    return name


def plain(expr: Expr) -> Expr:
    """The expression without casts that change no bit, and with calls replaced by the arithmetic that they do."""
    while True:
        if isinstance(expr, (Reinterpret, Cast)) and _same_bits(expr):
            expr = expr.a
        elif isinstance(expr, Call) and is_pure(expr) and (arithmetic := as_arithmetic(expr)) is not None:
            expr = arithmetic
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
        number = number_of(expr)
        if number is not None:
            return f"({signed(number)})"
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
    if expr.op == "<<" and (shift := number_of(expr.b)) is not None and 0 <= shift < expr.dtype.bits:
        return [(expr.a, 1 << shift)]
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
    if (number := number_of(expr)) is not None:
        return number & every
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
    number = const_value(expr)
    return None if number is None else int(number)


def _is_integer(expr: Expr) -> bool:
    return expr.dtype.kind in ("int", "uint")


# Registers of compiled code that go on by a fixed step, as compilers make of an index: where they began, and how often
# they have gone on.
#
# A pointer that a loop advances is another one in each turn. Written as its start and a multiple of the step, only a
# number changes from turn to turn, and what depends on threads is computed once.


@dataclass(frozen=True, slots=True)
class Induction:
    """A register, its first value, how often it has gone on, and by how much each time."""

    var: ir.Var
    start: ir.Var
    turn: ir.Var
    step: ir.Expr

    def after(self, start: ir.Expr) -> ir.Expr:
        """Its value, as one of the first."""
        return binary("+", start, binary("*", self.turn, self.step))


def with_turns(body: ir.Body, parameters: frozenset[str]) -> tuple[ir.Body, dict[str, Induction]]:
    """The statements, which also keep start and turns of such registers; and these, by the names of their turns."""
    stmts: dict[str, list[Given]] = defaultdict(list)
    for stmt in given_in(ir.statements(body)):
        stmts[stmt.var.name].append(stmt)
    steps = {name: step for name in stmts if (step := _induction(name, stmts, parameters)) is not None}
    if not steps:
        return body, {}

    def more(stmt: ir.Stmt) -> ir.Body | None:
        if not isinstance(stmt, (ir.Bind, ir.Assign)) or (step := steps.get(stmt.var.name)) is None:
            return None
        zero, turned = as_expr(0, step.turn.dtype), binary("+", step.turn, as_expr(1, step.turn.dtype))
        if isinstance(stmt, ir.Assign):
            return stmt, ir.Assign(step.turn, turned, at=stmt.at)
        first = ir.Bind(step.start, stmt.value, at=stmt.at)
        return first, ir.Bind(step.var, step.start, at=stmt.at), ir.Bind(step.turn, zero, at=stmt.at)

    return ir.map_body(body, more), {step.turn.name: step for step in steps.values()}


def _induction(name: str, values_of: Mapping[str, list[Given]], parameters: frozenset[str]) -> Induction | None:
    """A register that is bound once, and goes on in one place."""
    values = values_of[name]
    var = values[0].var
    if [type(stmt) for stmt in values] != [ir.Bind, ir.Assign] or var.dtype.kind != "uint" or var.dtype.lanes > 1:
        return None
    then = plain(values[1].value)
    if isinstance(then, ir.Var) and len(values_of[then.name]) == 1:  # a copy of what has been computed before
        then = plain(values_of[then.name][0].value)
    if not isinstance(then, ir.Binary) or then.op not in ("+", "-"):
        return None
    before, step = plain(then.a), then.b
    if then.op == "+" and not _is(before, name):
        before, step = plain(then.b), then.a
    if not _is(before, name) or not all(is_closed(node, parameters) for node in ir.walk(step)):
        return None
    if (number := number_of(step)) is not None:
        step = as_expr(number % 2**var.dtype.bits, var.dtype)
    elif step.dtype != var.dtype:
        step = ir.Reinterpret(step, var.dtype)
    step = step if then.op == "+" else binary("-", as_expr(0, var.dtype), step)
    return Induction(var, ir.Var(f"{name}.start", var.dtype), ir.Var(f"{name}.turn", var.dtype), step)


def _is(expr: ir.Expr, name: str) -> bool:
    return isinstance(expr, ir.Var) and expr.name == name


# Sites and addresses of accesses, as text, and the checks of their bounds.


THREADS, CTAS, BOTH = "threads", "ctas", "both"

BEYOND = 1 << 62  # no factor of an address: 64 bits would not hold it


@dataclass(slots=True)
class Terms:
    """A sum: constant + uniform texts + one text per group of axes. leaves: the expressions in each group. made: the
    name of an `Address` with everything but the constant.
    """

    constant: int = 0
    uniform: list[str] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    made: str = ""
    leaves: dict[str, list[Expr]] = field(default_factory=dict)


def access_text(e: Emitter, expr: Load, mask: str, *, write: bool) -> tuple[str, str]:
    """The name of the site of a load or store, and the text of its address."""
    site, text = access(e, expr, mask, write=write)
    return e.out.constant("S", site), text


def access(e: Emitter, expr: Load, mask: str, *, write: bool) -> tuple[Site, str]:
    """The site of a load or store, and the text of its address."""
    op = "store" if write else "load"
    width = width_of(expr.dtype)
    with inside(e, expr, mask, op, width, write=write):
        place, terms = terms_of(e, AddressOf(expr.buffer, expr.indices), mask, nibbles=expr.dtype.bits < 8)
        how = Touch(constant=expr.buffer.constant, moves=True)
        data = expr.buffer.data if place is None and e.program.maps else None
        home = home_of(e, data) if data is not None else None
        site = Site(e.at, op, place, width, write, how, advice=advice_of(expr), home=home)
        return e.program.add_site(site), address_text(e, terms)


@contextmanager
def inside(e: Emitter, expr: Expr, mask: str, op: str, width: int, *, write: bool, lanes: int = 32) -> Iterator[None]:
    """Emit the check of an access's indices; code inside of this context reuses the loads of the check.

    width: bytes of the access, of each lane. op: "" where a unit will read or write: of the indices alone.
    """
    if op and "pointer" in e.program.values:
        _stays(e, expr, mask, Site(e.at, op, None, width, write, Touch(lanes=lanes)))
    start = expr.a if isinstance(expr, Binary) else expr
    owed = owes(expr)
    if not owed or "index" not in e.program.values:
        yield
        return
    assert isinstance(start, (Load, AddressOf)), "it owes something"
    nodes = [node for within in owed for node in walk(within.index) if isinstance(node, Load)]
    for node in nodes:
        if node not in e.known:
            e.known[node] = Operand(e.out.named("v", e.sound(node, mask, "an address")))
    for within in owed:
        terms = Terms()
        _linear(e, within.index, mask, terms, 1)
        span = max(within.span, width * 8 // start.buffer.dtype.bits if within.dim == within.STORAGE else 1)
        check = e.program.hears("index", within, e.at, op, write, lanes, span)
        extent = e.sound(within.extent, mask, "an extent")
        e.out.line(f"{e.out.constant('X', check)}({mask}, {address_text(e, terms)}, {extent})")
    yield
    for node in nodes:
        e.known.pop(node, None)


def _stays(e: Emitter, pointer: Expr, mask: str, site: Site) -> None:
    """Emit the check that an access stays in the buffer that its pointer leads to, where a run chooses the pointer."""
    if e.program.raw or pointer.dtype.kind != "handle" or place_of(e, pointer) is not None:
        return
    places = {place_of(e, leaf): None for leaf in leaves(pointer, e.program.pointers)}
    if places and None not in places:
        check = e.program.hears("pointer", tuple(replace(site, place=place) for place in places))
        base = generic_address_text(e, base_of(pointer), mask)
        e.out.line(f"{e.out.constant('X', check)}({mask}, {base}, {generic_address_text(e, pointer, mask)})")


def owes(expr: Expr) -> list[Within]:
    """The bounds that an address does not certainly keep."""
    return [within for within in _owed(expr.a if isinstance(expr, Binary) else expr) if not within.implied]


def _owed(start: Expr) -> tuple[Within, ...]:
    return start.owed if isinstance(start, (Load, AddressOf)) else ()


def advice_of(expr: Expr) -> tuple[str, str | None]:
    """The tile call that an access belongs to, if it may leave its buffer, and what would let it."""
    start = expr.a if isinstance(expr, Binary) else expr
    return next(((within.by, within.hint) for within in _owed(start) if within.by), ("", None))


def place_of(e: Emitter, pointer: Expr) -> Place | None:
    """The storage that a pointer expression certainly points into."""
    if isinstance(pointer, AddressOf):
        data = pointer.buffer.data
        place = e.places.of(pointer.buffer)
        return place or (place_of(e, data) if isinstance(data, AddressOf) else None)
    return place_of(e, pointer.a) if isinstance(pointer, Binary) and pointer.op in ("+", "-") else None


def home_of(e: Emitter, pointer: Expr) -> Place | None:
    """The bytes of the buffer or view that a pointer certainly points into, in this CTA or another of the cluster."""
    origin = e.program.origins.of(pointer) or ()
    homes = {home.name: home for buffer in origin if (home := e.program.home_of(buffer)) is not None}
    (home, *others) = homes.values() or (None,)
    return home if not others else None


def terms_of(e: Emitter, expr: Expr, mask: str, *, nibbles: bool = False) -> tuple[Place | None, Terms]:
    """The buffer that an address expression certainly points into, and its bytes in that window; else None and a
    generic address.

    nibbles: count half bytes instead, for elements of 4 bits.
    """
    terms = Terms()
    if isinstance(expr, AddressOf):
        return _storage(e, expr.buffer, expr.indices, mask, terms, nibbles=nibbles), terms
    if e.program.raw and is_taken_apart(e, expr):
        terms.made = taken_apart(e, expr, mask)
        return None, terms
    if isinstance(expr, Binary) and expr.op in ("+", "-") and isinstance(expr.a, (AddressOf, Binary)):
        place, terms = terms_of(e, expr.a, mask)
        if place is not None:
            _linear(e, expr.b, mask, terms, 1 if expr.op == "+" else -1)
            return place, terms
        terms = Terms()
    _linear(e, expr, mask, terms, 1)
    return None, terms


def _storage(
    e: Emitter, buffer: Buffer, indices: tuple[Expr, ...], mask: str, terms: Terms, *, nibbles: bool = False
) -> Place | None:
    if indices:
        _offset(e, indices[0], buffer.dtype, mask, terms, nibbles=nibbles)
    place = e.places.of(buffer)
    scale = 2 if nibbles else 1
    if place is not None:
        terms.constant += place.start * scale
        return place
    assert buffer.data is not None, f"{buffer.name} has no storage"
    if isinstance(buffer.data, AddressOf):
        return _storage(e, buffer.data.buffer, buffer.data.indices, mask, terms, nibbles=nibbles)
    if e.program.raw and is_taken_apart(e, buffer.data):
        terms.made = taken_apart(e, buffer.data, mask)
    else:
        _linear(e, buffer.data, mask, terms, scale)
    return e.places.arena if buffer.is_shared and buffer.data.dtype.bits == 32 else None


def _offset(e: Emitter, index: Expr, kind: DType, mask: str, terms: Terms, *, nibbles: bool) -> None:
    """``index`` elements, in bytes."""
    bits = 4 if nibbles else 8
    if kind.bits % bits == 0:
        _linear(e, index, mask, terms, kind.bits // bits)
    else:  # a byte address among 4-bit elements
        _linear(e, index // 2, mask, terms, 1)


def address_text(e: Emitter, terms: Terms) -> str:
    """The text that makes an `Address`."""
    if terms.made:
        return f"{terms.made}.shifted({terms.constant})" if terms.constant else terms.made
    parts = [_part(e, group, terms) for group in (CTAS, THREADS, BOTH) if group in terms.groups]
    if not parts and not terms.uniform:
        return e.out.constant("P", _at(terms.constant))
    start = " + ".join([*([str(terms.constant)] if terms.constant or not terms.uniform else []), *terms.uniform])
    return f"Address({', '.join([start, *parts])})"


@cache
def _at(start: int) -> Address:
    return Address(start)


def _part(e: Emitter, group: str, terms: Terms) -> str:
    """A part, computed once where it can be kept: with the batch's CTAs, or for all runs if it depends on thread
    numbers alone.

    Where it depends on loop counters, it is kept for each of their values.
    """
    text = " + ".join(terms.groups[group])
    nodes = list(walk(tuple(terms.leaves[group])))
    used = {node.name: node for node in nodes if isinstance(node, Var)}
    counters = [var for name, var in sorted(used.items()) if name not in e.program.fixed]
    if any(map(acts, nodes)) or any(e.axes.of(var) != UNIFORM or var.dtype.is_float for var in counters):
        return f"Part({text})"
    kept = "threads" if group == THREADS and used.keys() & e.program.fixed <= e.program.of_threads else "parts"
    number = e.program.part_ids.setdefault(text, len(e.program.part_ids))
    key = f"({', '.join([str(number), *(e.variable(var.name) for var in counters)])})" if counters else str(number)
    name = e.out.fresh("p")
    e.out.line(f"{name} = {kept}.get({key})")
    e.out.line(f"if {name} is None: {name} = keep({kept}, {key}, {text})")
    return name


def generic_address_text(e: Emitter, expr: Expr, mask: str) -> str:
    """The text of an `Address` in the one address space."""
    place, terms = terms_of(e, expr, mask)
    if place is not None:
        terms.constant += place.base - place.start
    return address_text(e, terms)


# Sums, taken apart into terms


def _linear(e: Emitter, expr: Expr, mask: str, terms: Terms, scale: int, factors: tuple[Expr, ...] = ()) -> None:
    """Adds ``scale * factors * expr``; the factors are uniform."""
    if isinstance(expr, Binary) and expr.dtype.kind != "uint" and _split(e, expr, mask, terms, scale, factors):
        pass
    elif e.axes.of(expr) == UNIFORM:
        _uniform(e, expr, mask, terms, scale, factors)
    elif isinstance(expr, Cast) and _widens(expr):
        _linear(e, expr.a, mask, terms, scale, factors)
    elif isinstance(expr, AddressOf) and not factors:
        place = _storage(e, expr.buffer, expr.indices, mask, terms)
        if place is not None:
            terms.constant += (place.base - place.start) * scale
    else:
        _leaf(e, expr, mask, terms, scale, factors)


def _split(e: Emitter, expr: Binary, mask: str, terms: Terms, scale: int, factors: tuple[Expr, ...]) -> bool:
    parts = addends(e, expr)
    for part, number in parts:
        constant = const_value(number) if isinstance(number, Expr) else number
        if isinstance(number, Expr) and constant is None:
            _linear(e, part, mask, terms, scale, (*factors, number))
        elif abs(scale * int(constant or 0)) >= BEYOND:
            return False
        else:
            _linear(e, part, mask, terms, scale * int(constant or 0), factors)
    return bool(parts)


def _product(e: Emitter, text: str, mask: str, scale: int, factors: tuple[Expr, ...]) -> str:
    texts = [] if scale == 1 else [str(scale)]
    return " * ".join([*texts, *(e.sound(factor, mask, "an address") for factor in factors), text])


def _uniform(e: Emitter, expr: Expr, mask: str, terms: Terms, scale: int, factors: tuple[Expr, ...]) -> None:
    number = const_value(expr)
    if number is not None and not factors:
        terms.constant += scale * int(number)
    else:
        terms.uniform.append(_product(e, e.sound(expr, mask, "an address"), mask, scale, factors))


def _leaf(e: Emitter, expr: Expr, mask: str, terms: Terms, scale: int, factors: tuple[Expr, ...]) -> None:
    axes = e.axes.of(expr)
    group = CTAS if axes == CTA else THREADS if not axes & CTA else BOTH
    text = f"int64({e.sound(expr, mask, 'an address')})"
    terms.groups.setdefault(group, []).append(_product(e, text, mask, scale, factors))
    terms.leaves.setdefault(group, []).extend((expr, *factors))


def _widens(expr: Cast) -> bool:
    source = expr.a.dtype
    return source.kind == "int" and source.bits >= 32 and expr.dtype.bits >= source.bits and not expr.dtype.is_float
