"""alpha and beta of a matrix product: what registers begin with, and what is done to the sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import dtype
from tilewright.ir import Buffer, Expr, Load, Value, as_expr, cast, const_value
from tilewright.tile.blocks import Held, held_by_warps
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.dispatch import Decline
from tilewright.tile.partition import root_of
from tilewright.tile.staging import Staged, allocated, like, staged
from tilewright.tile.walks import Ints, plus, walk_of

__all__ = ["Scaling", "plan_scaling"]


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """alpha: what to multiply the sums by, None for 1. beta: what to multiply C by, None where nobody looks at C.

    slots, c_slots: of the same elements in the registers of D and of C, to be added to their bases. copy: to the
    registers of C, where it is in memory. in_place: C is D. guard: holds in the warps that have a part.
    """

    alpha: Expr | None
    beta: Expr | None
    d: Held
    slots: Ints
    c: Held | None = None
    c_side: Side | None = None
    c_slots: Ints | None = None
    copy: Staged | None = None
    in_place: bool = False

    def begin(self, out: Builder, total: Buffer) -> Buffer | None:
        """Give the sums what they begin with. Returns what is left of C where it is still needed."""
        if self.alpha is None and self.beta is not None:
            self._start_from_c(out, total)
            return None
        kept = None
        with out.when(self.d.guard):
            if self.in_place and self.beta is not None:
                kept = out.local("kept", len(self.slots), str(total.dtype))
                for number, slot in self._each(out, np.arange(len(self.slots)), self.slots):
                    out.store(kept.flat(), number, Load(total.flat(), (self._of_d(slot),)))
            for (slot,) in self._each(out, self.slots):
                out.store(total.flat(), self._of_d(slot), cast(0, total.dtype))
        return kept

    def _start_from_c(self, out: Builder, total: Buffer) -> None:
        if self.in_place and const_value(self.beta) == 1:
            return
        c, base = self._c(out, total)
        with out.when(self.d.guard):
            beta = self._named("beta", self.beta, total, out)
            for slot, c_slot in self._each(out, self.slots, self.c_slots):
                value = self._wide(Load(c.flat(), (as_expr(plus(base, c_slot)),)), total)
                out.store(total.flat(), self._of_d(slot), cast(value if beta is None else value * beta, total.dtype))

    def end(self, out: Builder, total: Buffer, kept: Buffer | None) -> None:
        """Multiply the sums, and add C."""
        if self.alpha is None:
            return
        c, base, c_slots = None, 0, self.slots
        if kept is not None:
            c, c_slots = kept, np.arange(len(self.slots))
        elif self.beta is not None:
            (c, base), c_slots = self._c(out, total), self.c_slots
        with out.when(self.d.guard):
            alpha, beta = (self._named(name, value, total, out) for name, value in (("alpha", self.alpha), ("beta", self.beta)))
            for slot, c_slot in self._each(out, self.slots, c_slots):
                value = self._wide(Load(total.flat(), (self._of_d(slot),)), total)
                value = value if alpha is None else value * alpha
                if c is not None:
                    term = self._wide(Load(c.flat(), (as_expr(plus(base, c_slot)),)), total)
                    value = value + (term if beta is None else term * beta)
                out.store(total.flat(), self._of_d(slot), cast(value, total.dtype))

    def _c(self, out: Builder, total: Buffer) -> tuple[Buffer, Value]:
        """The registers of C, filled, and where they begin."""
        if self.in_place:
            return total, self.d.base
        assert self.c is not None
        assert self.c_side is not None
        if self.copy is None:
            return self.c_side.buffer, self.c.base
        registers = allocated(self.c_side.buffer, out)
        self.copy.emit(out, registers)
        return registers, self.c.base

    def _of_d(self, slot: Value) -> Expr:
        return as_expr(plus(self.d.base, slot))

    def _each(self, out: Builder, *tables: Ints) -> Iterator[tuple[Value, ...]]:
        """The entries of tables of one length: in a loop where they follow patterns."""
        walks = [walk_of(table, listed=False) for table in tables]
        if None in walks:
            yield from zip(*(table.tolist() for table in tables), strict=True)
            return
        with out.loop("e", len(tables[0]), "unroll") as e:
            yield tuple(walk.at(e) for walk in walks if walk is not None)

    @staticmethod
    def _wide(value: Expr, total: Buffer) -> Expr:
        """As what is computed with: float32 for the sums of float16."""
        return cast(value, dtype("float32") if total.dtype.is_float else total.dtype)

    def _named(self, name: str, value: Expr | None, total: Buffer, out: Builder) -> Expr | None:
        """A factor, computed once; None for 1."""
        return None if value is None or const_value(value) == 1 else out.let(name, self._wide(value, total))


def plan_scaling(call: TileCall, d: Side, held: Held) -> Scaling:
    """What alpha and beta make of the call. Raises Decline where C has other elements in its registers than D."""
    alpha, beta = (call.scalars.get(name) for name in ("alpha", "beta"))
    alpha = None if alpha is None or const_value(alpha) == 1 else alpha
    beta = None if beta is None or const_value(beta) == 0 else beta
    elements, slots = _flat(held)
    c = call.sides.get("C", call["D"])
    if beta is None:
        return Scaling(alpha, beta, held, slots)
    if c.space != "local":
        copy = staged(call, c, like(call, d))
        return _with_c(Scaling(alpha, beta, held, slots), elements, copy.local, held_by_warps(call, copy.local), copy)
    return _with_c(Scaling(alpha, beta, held, slots), elements, c, held_by_warps(call, c), None)
