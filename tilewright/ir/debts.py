"""What an access owes, and how wide its offset is; from whose addresses a pointer is made, and what one that the run
chooses can point into.

An access owes that each index is inside its dimension, where the facts do not prove it. Such a debt stays with the
access in the lowered stage, where the simulator examines it under the check ``bounds``. CUDA text has no trace of it.

The arithmetic of an offset has 32 bits where the facts prove that they are enough, else 64. It is decided once, in
lowering, so that both back ends compute the same. The sums and products of an index are meant as ideal integers; a
variable keeps its dtype, and what was stored in it has wrapped already.

An address is followed through registers, casts, sums and choices, whatever the distances that are added. A register
that holds an address of one buffer in whichever way control came there leads into that buffer, and an access through it
must stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.dtypes import HANDLE, INT32, INT64
from tilewright.errors import KernelError
from tilewright.ir.buffer import Buffer, Region, row_major
from tilewright.ir.build import as_expr, binary, cast, select, unary
from tilewright.ir.conditions import is_ring
from tilewright.ir.expr import (
    AddressOf,
    Binary,
    Call,
    Cast,
    Expr,
    Load,
    Reinterpret,
    Select,
    Unary,
    Value,
    Var,
    Within,
    const_value,
)
from tilewright.ir.intervals import limits
from tilewright.ir.stmt import Assign, Bind, Body, Stmt
from tilewright.ir.walk import expressions, rewrite, statements, walk
from tilewright.layout import TileLayout

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.ir.ranges import RangeFacts


WIDEST_BITS = 128  # of the accesses of one lane that are most common
MOST_NEAR = limits(INT32).high + 1  # elements of which each has an offset of 32 bits


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


def is_far(buffer: Buffer, facts: RangeFacts) -> bool:
    """May an element of the buffer be 2**31 or more elements from the start of its storage? On a chip none is."""
    if buffer.space != "global":
        return False
    sizes = [buffer.flat().shape[0], buffer.elem_offset]
    return sum(_most(size, facts) for size in sizes) > MOST_NEAR


def has_wide_strides(buffer: Buffer, facts: RangeFacts) -> bool:
    """May an index inside of the buffer times its stride be beyond 32 bits?"""
    if not isinstance(buffer.layout, TileLayout):
        return False
    return sum(_most(it.extent, facts) * abs(_most(it.stride, facts)) for it in buffer.layout.shard) > MOST_NEAR


def _most(value: Value, facts: RangeFacts) -> int:
    return facts.ideal(value).high if isinstance(value, Expr) else int(value)


def widened(value: Value, facts: RangeFacts) -> Expr:
    """The ideal value in 64 bits: sums and products that may not fit 32 are computed in 64."""
    expr = as_expr(value, INT64)
    if isinstance(expr, Cast) and expr.dtype == INT64 and expr.a.dtype == INT32:
        return widened(expr.a, facts)
    if not is_ring(expr) or expr.dtype not in (INT32, INT64) or (expr.dtype == INT32 and facts.exact(expr)):
        return cast(expr, INT64)
    if isinstance(expr, Binary):
        return binary(expr.op, widened(expr.a, facts), widened(expr.b, facts))
    assert isinstance(expr, Unary)
    return unary(expr.op, widened(expr.a, facts))


def joined(a: Value, b: Value, far: bool, facts: RangeFacts) -> Value:
    """``a + b``; where it is ``far``, in 64 bits unless 32 are proven to be enough."""
    if far:
        wide = widened(a, facts) + widened(b, facts)
        if not facts.ideal(wide).inside(limits(INT32)):
            return wide
    return a + b


def settled(offset: Value, facts: RangeFacts) -> Expr:
    """An offset as the lowered stage has it: simplified, a number with the bits that it needs."""
    simple = facts.simplify(offset)
    return as_expr(simple, INT64 if isinstance(simple, int) and simple >= MOST_NEAR else INT32)


# What a pointer can point into, where the kernel chooses it while it runs, and what a view over it then owes.

Pointers = Mapping[str, tuple[Expr, ...]]
"""Of each variable wide enough for a pointer all that some statement gives it."""


def pointers(body: Body) -> Pointers:
    """The pointer variables of a kernel, and the numbers that addresses may have become."""
    values: dict[str, tuple[Expr, ...]] = {}
    for stmt in statements(body):
        if isinstance(stmt, (Bind, Assign)) and stmt.var.dtype.bits == HANDLE.bits:
            values[stmt.var.name] = (*values.get(stmt.var.name, ()), stmt.value)
    return values


def chosen(buffer: Buffer) -> Expr | None:
    """The pointer below a view that a run chooses; None where its place is fixed, or in global memory."""
    data = buffer.data
    if isinstance(data, AddressOf):
        return chosen(data.buffer)
    return data if data is not None and data.dtype == HANDLE and (buffer.is_shared or buffer.space == "local") else None


def check_origins(view: Buffer, pointer: Expr, values: Pointers, at: Span | None) -> None:
    """Raises KernelError for a view that may lie anywhere in shared memory or registers."""
    strange = [leaf for leaf in leaves(pointer, values) if not isinstance(leaf, (AddressOf, Call))]
    if strange:
        raise KernelError(
            f"nothing says which buffer the view {view.name} lies in",
            given=f"data={pointer}, which may be `{strange[0]}`",
            allowed="pointers that .ptr_to(), .data or an instruction made, and a choice of them",
            at=at,
        )


def owed_to_origins(
    pointer: Expr, place: AddressOf, values: Pointers, lowered: Callable[[Expr], Expr]
) -> Iterator[Within]:
    """The debts of an access through a view over the pointer: it stays in the buffer that the pointer leads to.

    The address decides which buffer that is: the last candidate, if it is in none of the others. place: the access,
    lowered.
    """
    origins = leaves(pointer, values)
    if not all(isinstance(leaf, AddressOf) for leaf in origins):
        return
    roots = {leaf.buffer.name: leaf.buffer for leaf in origins if isinstance(leaf, AddressOf)}
    *others, last = sorted(roots.values(), key=lambda root: -root.storage_size() * root.dtype.bits)
    elsewhere: Value = True
    for root in (*others, last):
        start, size = _address(lowered(AddressOf(root))), root.storage_size() * root.dtype.bits
        ahead = _address(lowered(pointer)) - start
        is_here = True if root is last else binary("and", ahead >= 0, ahead < size // 8)
        bits = place.buffer.dtype.bits
        index = (_address(place) - start) * 8 // bits
        owner = binary("and", elsewhere, is_here)
        yield Within(select(owner, index, 0), as_expr(size // bits, INT64), root.name, Within.STORAGE)
        elsewhere = binary("and", elsewhere, unary("not", is_here))


def _address(pointer: Expr) -> Expr:
    return Reinterpret(pointer, INT64)


def base_of(pointer: Expr) -> Expr:
    """The pointer to which arithmetic adds bytes."""
    while isinstance(pointer, (Binary, Cast, Reinterpret)):
        pointer = pointer.a
    return pointer


def leaves(pointer: Expr, values: Pointers) -> tuple[Expr, ...]:
    """The possible origins of a pointer: pointers into buffers, and expressions whose origin is unknown."""
    origins: list[Expr] = []
    seen: set[str] = set()
    todo = [pointer]
    while todo:
        part = todo.pop()
        if isinstance(part, Select):
            todo += (part.b, part.a)
        elif isinstance(part, (Binary, Cast, Reinterpret)):
            todo.append(part.a)
        elif isinstance(part, Var) and part.name in values:
            todo += [] if part.name in seen else values[part.name]
            seen.add(part.name)
        else:
            origins.append(part)
    return tuple(origins)


Origin = frozenset[Buffer]
NONE: Origin = frozenset()


SUMS: Mapping[str, Collection[int]] = {
    **dict.fromkeys(("ptx.add", "ptx.or_", "ptx.selp", "+"), (0, 1)),
    **dict.fromkeys(("ptx.sub", "ptx.cvt", "-"), (0,)),
    "ptx.mad": (2,),
}
"""Operations on addresses, and which of their operands may be one: the others are distances."""

MAPPINGS: Mapping[str, Collection[int]] = {
    **dict.fromkeys(("ptx.mapa", "ptx.map_shared_rank", ">>", "<<"), (0,)),
    "|": (0, 1),
}
"""The same for the address of the same place in another CTA's shared memory, whose upper half is put back by shifts."""


class Origins:
    """body: all statements. sums: operations on addresses, as `SUMS`. of_buffer: the origin that a buffer's address
    has; None where another buffer may be there.
    """

    def __init__(
        self, body: Iterable[Stmt], sums: Mapping[str, Collection[int]], of_buffer: Callable[[Buffer], Origin | None]
    ) -> None:
        self.sums, self.of_buffer = sums, of_buffer
        self.assigned: dict[str, list[Expr]] = {}
        for stmt in body:
            if isinstance(stmt, (Assign, Bind)) and isinstance(stmt.var, Var):
                self.assigned.setdefault(stmt.var.name, []).append(stmt.value)
        self.origins: dict[str, Origin | None] = {}

    def of(self, expr: Expr) -> Origin | None:
        """The buffers; none for a number that is no address; None where it is also made from something else."""
        if isinstance(expr, AddressOf):
            return self.of_buffer(expr.buffer)
        if isinstance(expr, Var):
            return self._of_register(expr.name)
        if isinstance(expr, (Cast, Reinterpret)) or (isinstance(expr, Binary) and has_window(expr)):
            return self.of(expr.a)
        if isinstance(expr, Select):
            return self._joined((expr.a, expr.b), (0, 1))
        if isinstance(expr, Binary):
            return self._joined((expr.a, expr.b), self.sums.get(expr.op, ()))
        if isinstance(expr, Call):
            return self._joined([arg for arg in expr.args if isinstance(arg, Expr)], self.sums.get(expr.op, ()))
        return NONE

    def _joined(self, parts: Sequence[Expr], places: Collection[int]) -> Origin | None:
        """Of what is made of these parts; None where one of them has other origins, or one at no place of these any."""
        origins = [*map(self.of, parts)]
        if None in origins or any(origin for place, origin in enumerate(origins) if place not in places):
            return None
        return NONE.union(*filter(None, origins))

    def _of_register(self, name: str) -> Origin | None:
        if name not in self.origins:
            self.origins[name] = NONE  # during the search: a loop that adds to a register gives it no new origin
            values = self.assigned.get(name, ())
            self.origins[name] = self._joined(values, range(len(values)))
        return self.origins[name]


def has_window(at: Binary) -> bool:
    """Is it an offset and the start of its window, as an access of one memory and a generic address have it?"""
    return at.op in ("+", "|") and isinstance(at.b, Binary) and at.b.op == "&"
