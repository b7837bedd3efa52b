"""Values that mean nothing: undefined integer arithmetic, a division by zero or a shift by the width or more; and what
is uninitialised, which moves carry along.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.ir import Binary, const_value
from tilewright.ir.launch import RESERVED
from tilewright.ir.operators import DIVISIONS, SHIFTS
from tilewright.isa import bind
from tilewright.isa.forms import TYPES
from tilewright.sim.checks.base import Check, hear, register
from tilewright.sim.machine import (
    AccessEvent,
    Address,
    Array,
    Bits,
    Bools,
    Hook,
    Shadows,
    Site,
    Team,
    Value,
    Wave,
    where_text,
)
from tilewright.terms import operation, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.ir import Call, Expr
    from tilewright.isa.forms import Undefined


# Uninitialised values. Memories start poisoned; moves carry poison along; any other use of it is the error.
#
# Flags in the memories' shadows say which bytes are initialised: see `tilewright.sim.machine.unknown`.


@dataclass(frozen=True, eq=False)
class Need:
    """A place where a value must be initialised. what: its expression; use: for what."""

    what: Expr
    use: str
    at: Span | None

    def __call__(self, team: Team, flags: Bits, site: Site | None = None, at: Address | None = None) -> None:
        team.wave.shadows.require(team, flags, self.use, self.at, self.what, (site, at))


class Poison(Check):
    def start(self, wave: Wave) -> None:
        wave.shadows = Shadows(wave)
        if (reserved := wave.run.places.by_name.get(RESERVED)) is not None:
            wave.shadows.shared.data[:, reserved.start : reserved.start + reserved.nbytes] = 1

    def watch(self, site: Site) -> Hook | None:
        """Instructions that look at memory, such as atomics, need it initialised."""
        if site.write or site.how.moves or site.how.goes_on or site.place is None or site.place.space == "global":
            return None

        use = told("an operand of {}", operation(site.op))

        def look(event: AccessEvent) -> None:
            team = event.team
            for at in event.every:
                flags = site.unseen(team, at).flags()
                team.wave.shadows.require(team, flags, use, site.at, "memory", (site, at))

        return look


register("poison", "uninitialised values that are computed with, branched on, used as an address or returned", Poison)
hear("poison", use=Need)


# Undefined integer arithmetic: a division by zero, a shift by the width or more. The hardware goes on.
#
# Compiled code may divide by zero in lanes that do not use the quotient. Its bits are unknown there, as uninitialised
# ones are, and the division is the error where something visible depends on them.


def _faults(expr: Binary, b: Value) -> Bools | bool:
    return b == 0 if expr.op in DIVISIONS else (b < 0) | (b >= expr.dtype.element.bits)


@dataclass(frozen=True, eq=False)
class Operands:
    """A place where integers are divided or shifted; called with the operands."""

    expr: Binary
    at: Span | None

    @classmethod
    def of(cls, expr: Expr, at: Span | None = None) -> Operands | None:
        """None where the operation is defined for all values of its second operand."""
        if not isinstance(expr, Binary) or expr.op not in (*DIVISIONS, *SHIFTS) or expr.dtype.is_float:
            return None
        number = const_value(expr.b)
        return cls(expr, at) if number is None or _faults(expr, int(number)) else None

    def __call__(self, team: Team, a: Value, b: Value) -> None:
        """Raises SimulationError where an active lane's operation is undefined."""
        faults = np.asarray(_faults(self.expr, b))
        if not faults.any():
            return
        lanes = team.full & (faults.any(-1) if faults.ndim == 4 else faults)
        if lanes.any():
            raise self._error(team, lanes, a, b)

    def _error(self, team: Team, lanes: Bools, a: Value, b: Value) -> SimulationError:
        left, right = (np.broadcast_to(np.atleast_3d(v), (*team.shape, *np.shape(v)[3:])) for v in (a, b))
        values = left[lanes][0], right[lanes][0]
        bits = self.expr.dtype.element.bits
        divides = self.expr.op in DIVISIONS
        holds = f"{self.expr.b} != 0" if divides else f"{self.expr.b} < {bits}"
        if not divides and np.any(values[1] < 0):
            holds = f"{self.expr.b} >= 0"
        return team.error(
            "arithmetic",
            f"`{self.expr}` divides by zero" if divides else f"`{self.expr}` shifts out of range",
            lanes,
            self.at,
            given=f"{values[0]} {self.expr.op} {values[1]} in {where_text(team, lanes)}",
            allowed="a divisor other than 0" if divides else f"a count of 0 to {bits - 1}, for {bits} bits",
            hint=None if const_value(self.expr.b) is not None else f"T.select({holds}, {self.expr}, 0)",
        )


@dataclass(frozen=True, eq=False)
class OpenResult:
    """A place where a row computes whose result may be undefined; called with its operands and their unknown bits."""

    call: Call
    at: Span | None

    @classmethod
    def of(cls, call: Call, at: Span | None = None) -> OpenResult | None:
        """None where the result is defined for all values of the operand that decides: only numbers are known."""
        bound = bind(call)
        if (undefined := bound.form.meaning.undefined) is None:
            return None
        number = const_value(bound.operands[undefined.operand][0])
        return cls(call, at) if number is None or undefined.where(np.asarray(number)) else None

    def __call__(self, team: Team, values: tuple[Value, ...], unknown: tuple[Array | None, ...]) -> Array | None:
        """The bits of the result that are unknown as it is undefined; the lanes are kept for a report."""
        lanes = self._lanes(team, values, unknown[self._number])
        if not lanes.any():
            return None
        shadows = team.wave.shadows
        if self not in shadows.undefined:
            threads = np.zeros((team.wave.ctas, team.wave.run.warps, 32), bool)
            shadows.undefined[self] = threads, self._error(team, lanes, values)
        shadows.undefined[self][0][team.ctas, team.warps] |= lanes
        kind = np.dtype(f"u{self.call.dtype.numpy.itemsize}")
        return np.where(lanes, ~np.zeros((), kind), np.zeros((), kind))

    def refuse(self, team: Team, *values: Value) -> None:
        """Raises SimulationError where the result is undefined in an active lane."""
        lanes = self._lanes(team, values, None)
        if lanes.any():
            raise self._error(team, lanes, values)

    @cached_property
    def _undefined(self) -> Undefined:
        undefined = bind(self.call).form.meaning.undefined
        assert undefined is not None, "only such calls are looked at"
        return undefined

    @cached_property
    def _number(self) -> int:
        """The number of the operand that decides."""
        return [row.name for row in bind(self.call).arguments].index(self._undefined.operand)

    def _lanes(self, team: Team, values: tuple[Value, ...], unknown: Array | None) -> Bools:
        undefined = np.asarray(self._undefined.where(np.asarray(values[self._number])))
        if not undefined.any():
            return undefined
        lanes: Bools = team.full & (undefined if unknown is None else undefined & (unknown == 0))
        return lanes

    def _error(self, team: Team, lanes: Bools, values: tuple[Value, ...]) -> SimulationError:
        bound = bind(self.call)
        shown = []
        for row, value in zip(bound.arguments, values, strict=True):
            register = bound.operands[row.name][0].dtype.numpy
            bits = np.broadcast_to(np.asarray(value, register), team.shape)[lanes][0]
            shown.append(str(bits.view(TYPES[row.type_of(bound.mods)].numpy)))
        what, where = f"{bound.mnemonic} {self._undefined.does}", f"{' and '.join(shown)} in {where_text(team, lanes)}"
        return SimulationError(what, given=where, allowed=self._undefined.allowed, at=self.at, kind="arithmetic")


register("arithmetic", "integers divided by zero or shifted too far; codes of metadata that the manual lacks")
hear("arithmetic", operands=Operands.of, result=OpenResult.of)
