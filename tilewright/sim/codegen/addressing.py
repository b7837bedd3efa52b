"""From indices and pointers to addresses in parts: what is uniform, what varies over CTAs, what over threads.

Sums and products with uniform factors are taken apart; the true total modulo 2**32 is what int32 arithmetic gives, and
a total outside of int32 is outside of every buffer, so that nothing is lost. Everything else is a leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from tilewright.ir import AddressOf, Binary, Buffer, Call, Cast, Expr, Load, Var, Within, const_value, walk
from tilewright.ir.origins import base_of, leaves
from tilewright.isa import bind
from tilewright.sim.checks.bounds import ChosenPointer, Dimension
from tilewright.sim.codegen.axes import CTA, UNIFORM
from tilewright.sim.codegen.emitter import Emitter, Operand
from tilewright.sim.codegen.lifting import addends, is_taken_apart, taken_apart
from tilewright.sim.codegen.values import acts
from tilewright.sim.machine.address import Address
from tilewright.sim.machine.convert import width_of
from tilewright.sim.machine.places import Place
from tilewright.sim.machine.sites import Site

if TYPE_CHECKING:
    from tilewright.dtypes import DType

__all__ = [
    "Terms",
    "access",
    "access_text",
    "address_text",
    "advice_of",
    "generic_address_text",
    "home_of",
    "inside",
    "owes",
    "place_of",
    "terms_of",
]

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
        site = Site(e.at, op, place, width, write, shifts=True, advice=advice_of(expr), constant=expr.buffer.constant)
        return e.program.add_site(site), address_text(e, terms)


@contextmanager
def inside(e: Emitter, expr: Expr, mask: str, op: str, width: int, *, write: bool, lanes: int = 32) -> Iterator[None]:
    """Emit the check of an access's indices; code inside of this context reuses the loads of the check.

    width: bytes of the access, of each lane.
    """
    if "bounds" in e.program.checks:
        _stays(e, expr, mask, Site(e.at, op, None, width, write, lanes=lanes))
    start = expr.a if isinstance(expr, Binary) else expr
    owed = owes(expr)
    if not owed or "bounds" not in e.program.checks:
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
        check = Dimension(within, e.at, op, write, lanes, span)
        extent = e.sound(within.extent, mask, "an extent")
        e.out.line(f"{e.out.constant('X', check)}(b, {mask}, {address_text(e, terms)}, {extent})")
    yield
    for node in nodes:
        e.known.pop(node, None)


def _stays(e: Emitter, pointer: Expr, mask: str, site: Site) -> None:
    """Emit the check that an access stays in the buffer that its pointer leads to, where a run chooses the pointer."""
    if e.program.raw or pointer.dtype.kind != "handle" or place_of(e, pointer) is not None:
        return
    places = {place_of(e, leaf): None for leaf in leaves(pointer, e.program.pointers)}
    if places and None not in places:
        check = ChosenPointer(tuple(replace(site, place=place) for place in places))
        base = generic_address_text(e, base_of(pointer), mask)
        e.out.line(f"{e.out.constant('X', check)}(b, {mask}, {base}, {generic_address_text(e, pointer, mask)})")


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
        own = e.places.of(pointer.buffer)
        return own or (place_of(e, data) if isinstance(data, AddressOf) else None)
    return place_of(e, pointer.a) if isinstance(pointer, Binary) and pointer.op in ("+", "-") else None


def home_of(e: Emitter, pointer: Expr) -> Place | None:
    """The bytes of the buffer or view that a pointer certainly points into, in this CTA or another of the cluster."""
    start = base_of(pointer)
    if isinstance(start, Call):  # an address of the cluster's window, made of an own one
        bound = bind(start)
        given = [row.name for row in bound.given if row.kind in ("shared", "generic")]
        return home_of(e, bound.operands[given[0]][0]) if len(given) == 1 and not bound.form.accesses else None
    return e.program.home_of(start.buffer) if isinstance(start, AddressOf) else None


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
        known = const_value(number) if isinstance(number, Expr) else number
        if isinstance(number, Expr) and known is None:
            _linear(e, part, mask, terms, scale, (*factors, number))
        elif abs(scale * int(known or 0)) >= BEYOND:
            return False
        else:
            _linear(e, part, mask, terms, scale * int(known or 0), factors)
    return bool(parts)


def _product(e: Emitter, text: str, mask: str, scale: int, factors: tuple[Expr, ...]) -> str:
    texts = [] if scale == 1 else [str(scale)]
    return " * ".join([*texts, *(e.sound(factor, mask, "an address") for factor in factors), text])


def _uniform(e: Emitter, expr: Expr, mask: str, terms: Terms, scale: int, factors: tuple[Expr, ...]) -> None:
    known = const_value(expr)
    if known is not None and not factors:
        terms.constant += scale * int(known)
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
