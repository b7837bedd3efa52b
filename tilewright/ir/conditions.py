"""What a true condition teaches: ``n % 8 == 0 and 4 * i + 3 < n`` gives n a modulus, i a bound, and orders the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from tilewright.dtypes import INT64
from tilewright.ir.buffer import Buffer, Region, row_major
from tilewright.ir.build import as_expr
from tilewright.ir.expr import AddressOf, Binary, Call, Const, Expr, Load, Unary, Value, Var, Within, const_value
from tilewright.ir.intervals import Interval, limits, point, strided
from tilewright.ir.operators import OPERATORS
from tilewright.ir.stmt import Body
from tilewright.ir.sums import Sum
from tilewright.ir.walk import expressions, rewrite, statements, walk
from tilewright.ir.widths import is_far
from tilewright.layout import TileLayout

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

__all__ = [
    "at_most", "below", "disjoint", "exact", "fits", "full_mask", "high", "learn", "low", "lowest_bit", "owed", "owing",
    "power_of_two", "run_of_ones",
]  # fmt: skip


# What the rules of rewriting may ask: short questions to the facts, named as they read in ``when``.


def low(facts: RangeFacts, x: Expr) -> int:
    """The least value of x."""
    return facts.interval(x).low


def high(facts: RangeFacts, x: Expr) -> int:
    """The greatest value of x."""
    return facts.interval(x).high


def exact(facts: RangeFacts, x: Expr) -> bool:
    """No wrap-around reaches x."""
    return facts.exact(x)


def fits(_: RangeFacts, x: Expr, number: int) -> bool:
    """``number`` is a value of x's dtype."""
    whole = limits(x.dtype)
    return whole.low <= number <= whole.high


def power_of_two(_: RangeFacts, number: int) -> bool:
    """1, 2, 4, ..."""
    return number > 0 and number & (number - 1) == 0


def lowest_bit(_: RangeFacts, number: int) -> int:
    """The lowest bit that is set, as a number."""
    return number & -number


def run_of_ones(_: RangeFacts, x: Expr, mask: int) -> bool:
    """The bits of ``mask`` stand side by side, and their number has a power of two in x's dtype."""
    ones = mask // (mask & -mask) + 1 if mask > 0 else 0
    return ones > 0 and ones & (ones - 1) == 0 and ones <= limits(x.dtype).high


def full_mask(_: RangeFacts, x: Expr, mask: int) -> bool:
    """``mask`` has every bit of x's dtype."""
    return mask in (-1, limits(x.dtype).high) and (mask == -1 or x.dtype.kind == "uint")


def below(facts: RangeFacts, x: Expr, y: Expr) -> bool:
    """``0 <= x < y``, be they numbers or ordered by a loop or a condition."""
    return facts.interval(x).low >= 0 and facts.less(x, y)


def at_most(facts: RangeFacts, x: Expr, y: Expr) -> bool:
    """``x <= y``."""
    return facts.at_most(x, y)


def disjoint(facts: RangeFacts, x: Expr, y: Expr) -> bool:
    """No bit is set in both: one is a multiple of a power of two that the other stays below."""
    a, b = facts.interval(x), facts.interval(y)
    return _above(a, b) or _above(b, a)


def _above(a: Interval, b: Interval) -> bool:
    step = 1 << b.high.bit_length()
    return b.low >= 0 and a.modulus % step == 0 and a.residue % step == 0


# What an access owes: that each index is inside its dimension, where the facts do not prove it.
#
# Such a debt stays with the access in the lowered stage, where the simulator examines it under the check ``bounds``.
# CUDA text has no trace of it.


WIDEST_BITS = 128  # of the accesses of one lane that are most common


def owed(node: Load | AddressOf, facts: RangeFacts) -> tuple[Within, ...]:
    """What is not proven of the indices of an access."""
    if node.buffer.layout is None or not node.indices:
        return tuple(_open(node.owed, facts))
    debts = (*_behind(node.buffer, facts), *_of_indices(node, facts))
    return debts if isinstance(node, Load) else (*debts, *_end(node, facts))


def _of_indices(node: Load | AddressOf, facts: RangeFacts) -> tuple[Within, ...]:
    vectors = {debt.dim for debt in node.owed if debt.span > 1}  # dimensions that have several elements of the access
    alone = [(dim, index) for dim, index in enumerate(node.indices) if dim not in vectors]
    return (*_debts(node.buffer, alone, facts), *_open(node.owed, facts))


def _open(debts: Iterable[Within], facts: RangeFacts) -> Iterator[Within]:
    """The debts that the facts do not prove. A check does not repeat a call: of its value only the storage's bounds are
    checked.
    """
    return (
        debt
        for debt in debts
        if not _is_inside(debt.index, debt.extent, facts, debt.span)
        and not any(isinstance(part, Call) for part in walk(debt.index))
    )


def _behind(buffer: Buffer, facts: RangeFacts) -> tuple[Within, ...]:
    """The debts of the indices at which a view begins, such as those of `Buffer.vload`."""
    if not isinstance(buffer.data, AddressOf):
        return ()
    return (*_behind(buffer.data.buffer, facts), *_of_indices(buffer.data, facts))


def owing(body: Body, region: Region, facts: RangeFacts, by: str, hint: str | None, *, leaves: bool = False) -> Body:
    """``body``, whose accesses stay inside the region, with the debts of that region: that its ends are in the buffer,
    and in the region that it is a part of.

    by: the tile call. hint: what would let the region leave its buffer. leaves: it may.
    """
    ends = (
        (dim, end)
        for dim, ((start, size), extent) in enumerate(zip(region.box, region.buffer.shape, strict=True))
        for end in _open_ends(start, size, extent, facts)
        if not leaves
    )
    debts = tuple(
        replace(debt, by=by, hint=hint or _assumption(region, debt.dim, facts), dim=debt.dim - region.rests,
                name=region.written or debt.name)
        for debt in _debts(region.buffer, ends, facts, keep=True)
    )  # fmt: skip
    lies = tuple(replace(debt, by=by) for debt in _open(region.owed, facts))
    if not debts and not lies:
        return body
    nodes = [node for stmt in statements(body) for node in expressions(stmt) if isinstance(node, (Load, AddressOf))]
    is_named = any(node.indices and node.buffer.name == region.buffer.name for node in nodes)

    def indebted(node: Expr) -> Expr | None:
        if not isinstance(node, (Load, AddressOf)) or not node.indices:
            return None
        if node.buffer.name == region.buffer.name:
            return replace(node, owed=(*node.owed, *lies, *debts))
        return replace(node, owed=(*node.owed, *lies)) if lies and not is_named else None  # of what a unit copies

    return rewrite(body, indebted)


def _assumption(region: Region, dim: int, facts: RangeFacts) -> str | None:
    """The fact by which all regions of this extent are inside."""
    extent, size = region.buffer.shape[dim], const_value(region.box[dim][1])
    if size is None or size == 1 or not isinstance(extent, Var) or facts.divides(int(size), extent):
        return None
    return f"T.assume({extent} % {size} == 0), which calls then keep to; or a copy of the tile with fill=0, and that"


def _open_ends(start: Value, size: Value, extent: Value, facts: RangeFacts) -> Iterator[Value]:
    """The first and the last index in a dimension, where they are not known to be inside."""
    if size is extent and const_value(start) == 0:
        return
    if not facts.less(-1, start):
        yield start
    if not facts.less(start + size - 1, extent):
        yield start + size - 1


def _debts(
    buffer: Buffer, indices: Iterable[tuple[int, Value]], facts: RangeFacts, *, keep: bool = False
) -> tuple[Within, ...]:
    """The debts of the indices. keep: those that the bounds of the storage imply are kept, too, for their wording."""
    debts = []
    for dim, index in indices:
        place = as_expr(index)
        end = as_expr(buffer.shape[dim], INT64)
        # A check does not repeat a call: of its value only the storage's bounds are checked.
        if not _is_inside(place, end, facts) and not any(isinstance(part, Call) for part in walk(place)):
            debts.append(Within(as_expr(facts.simplify(place), place.dtype), end, buffer.name, dim))
    if {debt.dim for debt in debts} == {0} and _is_whole(buffer, facts):
        return tuple(replace(debt, implied=True) for debt in debts if keep)
    return tuple(debts)


def _end(node: AddressOf, facts: RangeFacts) -> Iterator[Within]:
    """The debt of a pointer: an access through it, up to 128 bits wide, ends inside the storage of its view."""
    buffer = node.buffer
    if not isinstance(buffer.layout, TileLayout) or _fills(buffer, facts) or is_far(buffer, facts):
        return
    offset = as_expr(buffer.layout.place(*node.indices, shape=buffer.shape, facts=facts).get("m", 0))
    end = as_expr(buffer.layout.cosize("m"), INT64)
    widest = WIDEST_BITS // buffer.dtype.bits
    if not _is_inside(offset + (widest - 1), end, facts) and not any(isinstance(part, Call) for part in walk(offset)):
        yield Within(offset, end, buffer.name, Within.STORAGE)


def _is_inside(index: Expr, extent: Expr, facts: RangeFacts, span: int = 1) -> bool:
    return facts.interval(index).low >= 0 and facts.less(index if span == 1 else index + (span - 1), extent)


def _is_whole(buffer: Buffer, facts: RangeFacts) -> bool:
    """Does the buffer cover all of its storage, in row-major order?"""
    layout = buffer.layout
    is_dense = layout is not None and (layout == row_major(buffer.shape) or layout.is_trivial(facts))
    return is_dense and _fills(buffer, facts)


def _fills(buffer: Buffer, facts: RangeFacts) -> bool:
    """Does the buffer begin and end where its storage does?"""
    root = _root(buffer)
    return root is not None and (root is buffer or facts.equal(_bits(buffer), _bits(root)))


def _bits(buffer: Buffer) -> Value:
    return buffer.flat().shape[0] * buffer.dtype.bits


def _root(buffer: Buffer) -> Buffer | None:
    """The storage that starts where the buffer does; None where it is not known to."""
    if const_value(buffer.elem_offset) != 0:
        return None
    data = buffer.data
    if isinstance(data, AddressOf):
        return _root(data.buffer) if all(const_value(index) == 0 for index in data.indices) else None
    return buffer if data is None or (isinstance(data, Var) and buffer.space == "global") else None


def learn(facts: RangeFacts, cond: Expr, truth: bool = True) -> RangeFacts:
    """``facts`` with the additional fact that ``cond`` is true (or false)."""
    if isinstance(cond, Unary) and cond.op == "not":
        return learn(facts, cond.a, not truth)
    if isinstance(cond, Binary) and cond.op == ("and" if truth else "or"):
        return learn(learn(facts, cond.a, truth), cond.b, truth)
    if isinstance(cond, Const):
        return facts
    if isinstance(cond, Binary) and cond.op in Binary.COMPARISONS and cond.a.dtype.is_integer:
        facts = _compared(facts, cond.op if truth else OPERATORS[cond.op].negated, cond.a, cond.b)
    return facts.narrowed(cond, point(int(truth)))


def _compared(facts: RangeFacts, op: str, a: Expr, b: Expr) -> RangeFacts:
    if op in (">", ">="):
        op, a, b = OPERATORS[op].mirrored, b, a
    gap = facts.terms(b).minus(facts.terms(a))
    if op == "!=":
        return _apart(facts, gap)
    if op == "==":
        return _congruent(_equal(facts, gap), a, b)
    gap.const -= op == "<"
    return _at_least_zero(facts, gap)


def _at_least_zero(facts: RangeFacts, total: Sum) -> RangeFacts:
    """Each term is bounded by what the others can reach at most."""
    for _, (times, term) in list(total.terms.items()):
        rest = _without(facts, total, term).high
        whole = limits(term.dtype)
        low, high = (-(rest // times), whole.high) if times > 0 else (whole.low, rest // -times)
        facts = _narrowed(facts, term, Interval(low, high))
    return facts.ordered(total) if len(total.terms) > 1 else facts


def _equal(facts: RangeFacts, gap: Sum) -> RangeFacts:
    facts = _at_least_zero(_at_least_zero(facts, gap), Sum().minus(gap))
    for times, term in list(gap.terms.values()):
        if abs(times) == 1:
            facts = _narrowed(facts, term, _without(facts, gap, term).scaled(-times))
    return facts


def _apart(facts: RangeFacts, gap: Sum) -> RangeFacts:
    """Learn that two sides differ: an end of a range that is excluded moves by one."""
    if len(gap.terms) != 1:
        return facts
    ((times, term),) = gap.terms.values()
    values = facts.interval(term)
    if abs(times) != 1 or values.is_point:
        return facts
    hole = -gap.const * times
    step = values.modulus
    low, high = values.low + step * (values.low == hole), values.high - step * (values.high == hole)
    return _narrowed(facts, term, Interval(low, high))


def _congruent(facts: RangeFacts, a: Expr, b: Expr) -> RangeFacts:
    """``(x + 4) % 8 == 0``: the modulus of each plain term of x."""
    if not (isinstance(a, Binary) and a.op == "%" and isinstance(a.b, Const) and isinstance(b, Const)):
        return facts
    modulus, residue = int(a.b.value), int(b.value)
    power_of_two = modulus > 0 and modulus & (modulus - 1) == 0
    if modulus <= 0 or not (power_of_two or facts.exact(a.a)):
        return facts
    total = Sum.of(a.a)
    for times, term in list(total.terms.values()):
        if abs(times) == 1:
            rest = point(residue).plus(_without(facts, total, term).scaled(-1)).scaled(times)
            whole = limits(term.dtype)
            common = gcd(modulus, rest.modulus)
            facts = _narrowed(facts, term, strided(whole.low, whole.high, common, rest.residue))
    return facts


def _narrowed(facts: RangeFacts, term: Expr, values: Interval) -> RangeFacts:
    """Facts with a narrower range of a term. Nothing is learnt of a term that may wrap: the sum has its ideal value."""
    return facts.narrowed(term, values) if facts.exact(term) else facts


def _without(facts: RangeFacts, total: Sum, term: Expr) -> Interval:
    """The sum of all terms but one."""
    rest = point(total.const)
    for times, other in total.terms.values():
        if other is not term:
            rest = rest.plus(facts.ideal(other).scaled(times))
    return rest
