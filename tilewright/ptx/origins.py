"""Addresses of variables: an access by a register that only ever holds addresses in one variable must stay in that
variable.

Variables lie side by side in shared and in local memory. An access by a register that was made from the address of one
of them, in whichever way control came there, has the bounds of that variable; of all others the whole memory is the
bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tilewright import ir
from tilewright.dtypes import dtype
from tilewright.ir import as_expr, binary, cast, rewrite, statements
from tilewright.isa import bind

__all__ = ["bounded"]

Origin = frozenset[ir.Buffer]
NONE: Origin = frozenset()
INT32, INT64, UINT64 = dtype("int32"), dtype("int64"), dtype("uint64")
SUMS: Mapping[str, Callable[[tuple[Origin, ...]], Origin | None]]


def _only(*places: int) -> Callable[[tuple[Origin, ...]], Origin | None]:
    """The origins of the operands at these places; None where another one has some."""

    def found(given: tuple[Origin, ...]) -> Origin | None:
        others = any(one for place, one in enumerate(given) if place not in places)
        return None if others else frozenset().union(*(given[place] for place in places if place < len(given)))

    return found


SUMS = {
    "ptx.add": _only(0, 1),
    "ptx.or_": _only(0, 1),
    "ptx.sub": _only(0),
    "ptx.mad": _only(2),
    "ptx.cvt": _only(0),
    "ptx.selp": _only(0, 1),
    "+": _only(0, 1),
    "-": _only(0),
}


class _Origins:
    """The variables from whose addresses each register is made; None: also from something else."""

    def __init__(self, body: Iterable[ir.Stmt]) -> None:
        self.assigned: dict[ir.Var, list[ir.Expr]] = {}
        for stmt in body:
            if isinstance(stmt, (ir.Assign, ir.Bind)) and isinstance(stmt.var, ir.Var):
                self.assigned.setdefault(stmt.var, []).append(stmt.value)
        self.known: dict[ir.Var, Origin | None] = {}

    def of(self, expr: ir.Expr) -> Origin | None:
        """The variables; none for a number that is no address."""
        if isinstance(expr, ir.AddressOf):
            return frozenset((expr.buffer,)) if expr.buffer.data is None else NONE
        if isinstance(expr, ir.Var):
            return self._of_register(expr)
        if isinstance(expr, (ir.Cast, ir.Reinterpret)):
            return self.of(expr.a)
        if isinstance(expr, ir.Select):
            return self._joined((expr.a, expr.b), _only(0, 1))
        if isinstance(expr, ir.Binary) and _has_window(expr):
            return self.of(expr.a)
        if isinstance(expr, ir.Binary):
            return self._joined((expr.a, expr.b), SUMS.get(expr.op, _only()))
        if isinstance(expr, ir.Call):
            return self._joined([arg for arg in expr.args if isinstance(arg, ir.Expr)], SUMS.get(expr.op, _only()))
        return NONE

    def _joined(self, parts: Iterable[ir.Expr], join: Callable[[tuple[Origin, ...]], Origin | None]) -> Origin | None:
        found = tuple(map(self.of, parts))
        known = tuple(one for one in found if one is not None)
        return join(known) if len(known) == len(found) else None

    def _of_register(self, var: ir.Var) -> Origin | None:
        if var not in self.known:
            self.known[var] = NONE  # during the search: a loop that adds to a register gives it no new origin
            found = [self.of(value) for value in self.assigned.get(var, ())]
            known = [one for one in found if one is not None]
            self.known[var] = frozenset().union(*known) if len(known) == len(found) else None
        return self.known[var]


def bounded(blocks: Iterable[ir.Block], statics: Iterable[ir.Buffer]) -> Iterator[ir.Block]:
    """The blocks with accesses of one shared or local variable held to it. statics: the variables."""
    blocks, own = tuple(blocks), frozenset(statics)
    origins = _Origins(stmt for block in blocks for stmt in statements(block.body)) if len(own) > 1 else None

    def held(at: ir.Expr) -> ir.Expr | None:
        found = origins.of(_offset(at)) if origins is not None else None
        if not found or len(found) != 1 or not found <= own:
            return None
        (variable,) = found
        start = cast(ir.AddressOf(variable, (as_expr(0),)), UINT64)
        ahead = binary("-", at, cast(start, at.dtype))  # of 32 bits, where the window's start is left out
        return ir.AddressOf(variable, (cast(cast(ahead, INT32) if at.dtype.bits == 32 else ahead, INT64),))

    def operand(call: ir.Call) -> ir.Expr | None:
        bound = bind(call)
        pointers = [bound.operands[row.name][0] for row in bound.given if row.kind == "shared"]
        found = {id(one): inside for one in pointers if (inside := held(one)) is not None}
        return replace(call, args=tuple(found.get(id(arg), arg) for arg in call.args)) if found else None

    def place(expr: ir.Expr) -> ir.Expr | None:
        if isinstance(expr, ir.Call):
            return operand(expr)
        at = expr.buffer.data if isinstance(expr, ir.Load) else None
        if at is None or isinstance(at, ir.AddressOf) or not isinstance(expr, ir.Load):
            return None
        inside = held(at)
        return None if inside is None else replace(expr, buffer=replace(expr.buffer, data=inside))

    for block in blocks:
        yield replace(block, body=rewrite(block.body, place)) if origins is not None else block


def _offset(at: ir.Expr) -> ir.Expr:
    """An address in shared memory without the start of its window, which stands before it."""
    return at.a if isinstance(at, ir.Binary) and _has_window(at) else at


def _has_window(at: ir.Binary) -> bool:
    """Is it an offset and the start of its window, as an access of one memory and a generic address have it?"""
    return at.op in ("+", "|") and isinstance(at.b, ir.Binary) and at.b.op == "&"
