"""alpha and beta of a matrix product: the initial values of the sums, and their scaling at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import dtype
from tilewright.ir import Buffer, Expr, Load, Value, as_expr, cast, const_value, same
from tilewright.records import replace
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.dispatch import Decline
from tilewright.tile.matrices import Held, held_by_warps
from tilewright.tile.staging import Staged, allocated, like, staged
from tilewright.tile.walks import Ints, plus, walk_of


@dataclass(frozen=True, slots=True, eq=False)
class Addend:
    """C in registers. slots: of the elements that D has in its own, in their order, to be added to ``base``. copy: to
    these registers, where C is in memory.
    """

    registers: Buffer
    base: Value
    slots: Ints
    copy: Staged | None = None

    def filled(self, out: Builder) -> Addend:
        """The addend once the copy has filled its registers."""
        if self.copy is None:
            return self
        registers = allocated(self.registers, out)
        self.copy.emit(out, registers)
        return replace(self, registers=registers)


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """alpha: what the sums are multiplied by, None for 1. beta: what C is multiplied by, None where C is not read.

    held, slots: the registers of D. c: None where C is D, or not read.
    """

    alpha: Expr | None
    beta: Expr | None
    held: Held
    slots: Ints
    c: Addend | None = None

    @property
    def copy(self) -> Staged | None:
        """The copy of C, where C is in memory."""
        return self.c.copy if self.c else None

    def begin(self, out: Builder, total: Buffer) -> Addend | None:
        """Set the initial values of the sums. Returns the values that are added to them at the end."""
        mine = Addend(total, self.held.base, self.slots)
        if self.beta is None:
            self._set(out, total, None, None)
            return None
        if self.alpha is None:
            if self.c is not None or const_value(self.beta) != 1:
                self._set(out, total, (self.c or mine).filled(out), self.beta)
            return None
        if self.c is None:
            numbers = np.arange(len(self.slots))
            mine = Addend(out.local("kept", len(self.slots), str(total.dtype)), 0, numbers)
            with out.when(self.held.guard):
                for slot, number in _each(out, self.slots, numbers):
                    out.store(mine.registers.flat(), number, Load(total.flat(), (self._place(slot),)))
        self._set(out, total, None, None)
        return self.c or mine

    def end(self, out: Builder, total: Buffer, c: Addend | None) -> None:
        """Multiply the sums, and add C."""
        if self.alpha is not None:
            self._set(out, total, c and c.filled(out), self.beta, self.alpha)

    def _set(self, out: Builder, total: Buffer, c: Addend | None, beta: Expr | None, alpha: Expr | None = None) -> None:
        """Every sum becomes ``alpha * sum + beta * C``; the first term is 0 without alpha, the second without C."""
        wide = dtype("float32") if total.dtype.is_float and total.dtype.bits < 32 else total.dtype
        factors = [
            None if factor is None or const_value(factor) == 1 else out.let(name, cast(factor, wide))
            for name, factor in (("alpha", alpha), ("beta", beta))
        ]
        with out.when(self.held.guard):
            for slot, other in _each(out, self.slots, self.slots if c is None else c.slots):
                terms = [] if alpha is None else [_times(Load(total.flat(), (self._place(slot),)), factors[0], wide)]
                if c is not None:
                    element = Load(c.registers.flat(), (as_expr(plus(c.base, other)),))
                    terms.append(_times(element, factors[1], wide))
                value = terms[0] + terms[1] if len(terms) > 1 else terms[0] if terms else as_expr(0)
                out.store(total.flat(), self._place(slot), cast(value, total.dtype))

    def _place(self, slot: Value) -> Expr:
        return as_expr(plus(self.held.base, slot))


def _times(element: Expr, factor: Expr | None, wide: str) -> Expr:
    return cast(element, dtype(wide)) if factor is None else cast(element, dtype(wide)) * factor


def _each(out: Builder, first: Ints, other: Ints) -> Iterator[tuple[Value, Value]]:
    """Go through the entries of two tables, in a loop where both follow digits."""
    walks = walk_of(first, listed=False), walk_of(other, listed=False)
    if walks[0] is None or walks[1] is None:
        yield from zip(first.tolist(), other.tolist(), strict=True)
        return
    with out.loop("e", len(first), "unroll") as e:
        yield walks[0].at(e), walks[1].at(e)


def plan_scaling(call: TileCall, d: Side, held: Held) -> Scaling:
    """The scaling of a call. Raises Decline where C has other elements in its registers than D."""
    alpha, beta = (call.scalars[name] for name in ("alpha", "beta"))
    for name, factor in (("alpha", alpha), ("beta", beta)):
        number = const_value(factor)
        if factor.dtype.is_float and not d.dtype.is_float and (number is None or not float(number).is_integer()):
            raise Decline(
                f"{name} is {factor}, {factor.dtype}, and {call['D'].name} is {d.dtype}", allowed="an integer"
            )
    elements, slots = _places(held, held.warps)
    scaling = Scaling(None if const_value(alpha) == 1 else alpha, None if const_value(beta) == 0 else beta, held, slots)
    c = call["C"]
    if scaling.beta is None or (d is call["D"] and same(c.region, d.region)):
        return scaling
    copy = None if c.space == "local" else staged(call, c, like(call, d))
    side = c if copy is None else copy.local
    mine = held_by_warps(call, side)
    where = {element.tobytes(): slot for element, slot in zip(*_places(mine, held.warps), strict=True)}
    missing = [slot for element, slot in zip(elements, slots.tolist(), strict=True) if element.tobytes() not in where]
    if missing:
        raise Decline(
            f"slot {missing[0]} of {d.name} has elements that no slot of {c.name} has in the same lanes",
            allowed=f"the layout of {d.name} for {c.name}: {d.tile}",
        )
    c_slots = np.array([where[element.tobytes()] for element in elements])
    return replace(scaling, c=Addend(side.buffer, mine.base, c_slots, copy))


def _places(held: Held, warps: Ints) -> tuple[list[Ints], Ints]:
    """For each slot the elements that the lanes of these warps have there, and the slots."""
    elements = held.elements[warps].reshape(len(warps), 32, -1)
    slots = np.add.outer(held.slots, np.arange(held.elements.shape[3])).reshape(-1)
    return [np.ascontiguousarray(elements[..., number]) for number in range(len(slots))], slots
