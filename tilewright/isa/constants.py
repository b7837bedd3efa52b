"""Constants that instructions get as operands: which of them fit."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import InstructionError
from tilewright.ir import const_value
from tilewright.isa.table import Bound

__all__ = ["constant"]


def constant(
    operand: str, fits: Callable[[int], bool], allowed: str, *, what: str = "", given: str = "{}"
) -> Callable[[Bound], None]:
    """The check of an operand, where it is a constant. what: it is, if its name does not say so; given: with its unit.

    The check raises InstructionError.
    """

    def check(bound: Bound) -> None:
        for value in bound.operands[operand]:
            known = const_value(value)
            if known is not None and not fits(int(known)):
                name = f"T.{bound.instruction.name}: {what or operand}"
                raise InstructionError(name, given=given.format(known), allowed=allowed)

    return check
