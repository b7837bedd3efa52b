"""From whose addresses a pointer is made: the buffers that it leads into, whatever the distances that were added.

An address is followed through registers, casts, sums and choices. A register that holds an address of one buffer in
whichever way control came there leads into that buffer, and an access through it must stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tilewright.ir.buffer import Buffer
from tilewright.ir.expr import AddressOf, Binary, Call, Cast, Expr, Reinterpret, Select, Var
from tilewright.ir.stmt import Assign, Bind, Stmt

__all__ = ["MAPPINGS", "SUMS", "Origin", "Origins", "has_window"]

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
