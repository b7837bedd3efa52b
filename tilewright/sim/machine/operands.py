"""The operands of an instruction: errors for uninitialised registers, in the words of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import AddressOf, Load, const_value
from tilewright.sim.machine.coordinates import element_text, is_dealt_out

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.isa import Bound
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.subject import Subject

__all__ = ["sound"]


def sound(bound: Bound, batch: Batch, mask: Mask, argument: Any, flags: Any, name: str, at: Span | None) -> Any:
    """The operand ``name``. Raises SimulationError where a bit of it is uninitialised."""
    if flags is None:
        return argument
    what, use = "a value", f"{name}, an operand of {bound.instruction.name}"
    if np.ndim(flags) == 4:  # a register of a vector
        octets = np.ascontiguousarray(flags)[..., None].view(np.uint8)
        if not octets.all():
            number = int((~octets.all(-1) & mask.full[:, :, None, :]).any((0, 1, 3)).argmax())
            what, use = _register(batch.wave.run.program, bound, name, number, at), f"register {number} of {use}"
        flags = np.bitwise_and.reduce(flags, axis=2)
    batch.wave.shadows.require(batch, mask, flags, use, at, what)
    return argument


def _register(program: Subject, bound: Bound, name: str, number: int, at: Span | None) -> str:
    """What the kernel calls a register of an operand."""
    given = bound.operands[name]
    place = given[min(number, len(given) - 1)]
    if not isinstance(place, Load | AddressOf):
        return str(place)
    if (source := program.loaded_from(place.buffer.name, at)) is not None:
        return source
    name, slot = place.buffer.name, const_value(place.indices[0]) if place.indices else 0
    authored, held = program.authored.get(name), program.places.of(place.buffer)
    if slot is None or held is None or authored is None:
        return f"{name}[{', '.join(map(str, place.indices))}]" if place.indices else name
    if is_dealt_out(authored):
        return f"{name}.local()[{slot}]"
    return element_text(program, held, held.start + int(slot) * authored.dtype.bits // 8)
