"""Registers that operations write until the wait: C++ must not read them before."""

from __future__ import annotations

from tilewright.cuda.emit_call import register
from tilewright.cuda.emit_unit import Scope, assembly
from tilewright.ir import AddressOf, Buffer, Call, Kernel, Load, as_expr, const_value
from tilewright.isa import bind, calls_in

__all__ = ["in_flight", "settled"]


def in_flight(kernel: Kernel) -> dict[str, tuple[Buffer, ...]]:
    """The local buffers that fenced operations write, by their group."""
    found: dict[str, dict[str, Buffer]] = {}
    for _, bound in calls_in(kernel.body):
        issue = bound.form.issue
        if issue is None or not issue.fenced:
            continue
        for place in (place for one in bound.given if one.written for place in bound.operands[one.name]):
            assert isinstance(place, (AddressOf, Load))
            own = place.buffer.root
            found.setdefault(issue.group, {})[own.name] = own
    return {group: tuple(buffers.values()) for group, buffers in found.items()}


def settled(node: Call, scope: Scope) -> list[str]:
    """After a wait: an empty statement that changes the registers, so that no use of them moves up before it."""
    wait = bind(node).form.wait
    lines: list[str] = []
    for buffer in scope.unit.in_flight.get(wait.group, ()) if wait else ():
        letter, kind = ("f", "float") if buffer.dtype == "float32" else ("r", "unsigned int")
        count = int(const_value(buffer.shape[0]) or 0)
        slots = range(0, count, 32 // buffer.dtype.bits)
        places = (register(kind, buffer, (as_expr(slot),), scope) for slot in slots)
        held = ", ".join(f'"+{letter}"({place})' for place in places)
        lines += assembly("asm volatile", "", held, "", '"memory"')
    return lines
