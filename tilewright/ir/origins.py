"""What a pointer can point into, where the kernel chooses it while it runs, and what a view over it then owes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tilewright.dtypes import HANDLE, INT64
from tilewright.errors import KernelError
from tilewright.ir.buffer import Buffer
from tilewright.ir.build import as_expr, binary, select, unary
from tilewright.ir.expr import AddressOf, Binary, Call, Cast, Expr, Reinterpret, Select, Value, Var, Within
from tilewright.ir.stmt import Assign, Bind, Body
from tilewright.ir.walk import statements

if TYPE_CHECKING:
    from tilewright.errors import Span

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
