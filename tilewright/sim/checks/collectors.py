"""Operands that a unit keeps for later operations: they are the same until the last of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.explain import advised
from tilewright.isa import FILL, KEEPING
from tilewright.sim.checks.base import Check, register
from tilewright.terms import told

if TYPE_CHECKING:
    from tilewright.sim.machine import Array, Operation, Subject


class Collectors(Check):
    """Compares what an operation uses of a buffer with what has filled it, in the order in which they take place."""

    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.filled: dict[tuple[str, int], Array] = {}  # by buffer and CTA

    def completing(self, operation: Operation) -> None:
        keeps, wave = operation.form.keeps, operation.batch.wave
        word = str(operation.instruction.bound.mods[keeps.modifier]) if keeps is not None else ""
        buffer, mark, use = word.partition("::")
        if keeps is None or mark + use not in KEEPING:
            return
        source = next(access for access in operation.reads if access.effect.operand == keeps.operand)  # type: ignore[union-attr]  # an access
        for place, matrix in enumerate(source.load(wave)):
            key = buffer, wave.first + int(source.rows[place].flat[0])
            if mark + use == FILL:
                self.filled[key] = np.array(matrix)
            elif key in self.filled and not np.array_equal(self.filled[key], matrix):
                self._fault(operation, word, int(source.issuer[place]))

    @staticmethod
    def _fault(operation: Operation, word: str, issuer: int) -> None:
        raise operation.error(
            "collectors",
            f"{operation.name} uses a collector whose matrix has changed since a product filled it",
            issuer,
            given=f"collector::{word}, issued by {operation.who(issuer)}",
            allowed="a matrix that stays as it is until the last use has taken place",
            hint=advised(
                told("fill the buffer anew after the change: collector::{}::fill", word.partition("::")[0]), "again"
            ),
        )


register("collectors", "operands that change while a unit keeps them for later operations", Collectors)
