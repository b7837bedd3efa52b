"""The error for a unit that leaves a buffer: which element it comes to, and what there is room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import Signal
from tilewright.sim.machine.coordinates import element_text
from tilewright.terms import Term, told

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.units import Touched

__all__ = ["escaped"]


def escaped(operation: Operation, one: Touched, place: Place, first: int, size: int, outside: Bools) -> SimulationError:
    """The first row with a place outside. first: the buffer's first byte, as ``one`` counts. outside: (m, places)."""
    row = int(outside.any(1).argmax())
    issuers, name = operation.issuers, place.name
    program = issuers.wave.run.program
    at = one.at.reshape(len(outside), -1)[row]
    counts = np.broadcast_to(one.width if one.nbytes is None else one.nbytes, one.shape)[row].reshape(-1)
    start, wrong = int(at[0]), int(at[outside[row]][0])
    base = place.base - place.start if place.pitch else first - place.start
    shown = [element_text(program, place, byte - base) for byte in (wrong, start)]
    room = first + size - start
    is_run = bool((np.diff(at) == one.width).all())
    much = f"{int(counts.sum())} bytes " + (f"from {shown[1]} on" if is_run else f"that begin at {shown[1]}")
    verb = "signals" if isinstance(one.effect, Signal) else "writes" if one.writes else "reads"
    return SimulationError(
        told("{} {} outside of {}", Term("operation", (operation.instruction.bound.instruction.name,)), verb, name),
        given=f"{shown[0]}, of {much}, in {issuers.name(int(one.issuer[row]))}",
        allowed=program.extent_text(place, size, issuers.wave.run.scalars),
        hint=f"at most {room} bytes from {shown[1]} on, or a larger {name}" if is_run and room > 0 else None,
        at=issuers.at,
        kind="bounds",
        buffer=name,
        operation=operation.name,
        threads=(issuers.thread_at(int(one.issuer[row])),),
    )
