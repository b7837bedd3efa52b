"""What a CTA leaves behind: tensor memory that it never gave back, and operations that still touch its memory."""

from __future__ import annotations

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import advised
from tilewright.explain.steps import wait_call
from tilewright.sim.checks.base import Check, register
from tilewright.sim.machine import Bools, Operation, Wave, completion_text
from tilewright.terms import Term, told


class Leaks(Check):
    def outlived(self, operation: Operation, ended: Bools) -> None:
        left = ((touched, ended[touched.rows]) for touched in operation.left_in_ctas)
        if (first := next(((touched, np.argwhere(there)[0]) for touched, there in left if there.any()), None)) is None:
            return
        access, place = first
        issuer, home = int(access.issuer[place[0]]), int(access.rows[tuple(place)])
        step = told("{}, before the end of the kernel", completion_text(operation, issuer, home))
        allowed = "an end after all asynchronous operations on its memory are complete, and waited for"
        hint = advised(step, "wait", "cta", code=wait_call(operation.group))
        what = told("the CTA ends while {} is under way", Term("operation", (operation.name,)))
        raise operation.error("leaks", what, issuer, allowed=allowed, hint=hint)

    def ended(self, wave: Wave) -> None:
        if "columns" not in vars(wave):
            return
        for row in range(wave.ctas):
            for taken in wave.columns.held(row):
                what = "the CTA ends with tensor memory that it has not given back"
                shown = f"{taken.columns} columns from column {taken.first}, CTA {wave.cta_name(row)}"
                raise SimulationError(what, given=shown, allowed="a dealloc for every alloc", at=taken.at, kind="leaks")


register("leaks", "asynchronous operations and tensor memory that outlive their CTA", Leaks)
