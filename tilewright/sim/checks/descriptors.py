"""What the tensor cores are told: matrix descriptors against the tiles that they lead into, and operands that a unit
keeps for later operations.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tilewright.explain import Remedy, advised, operand, place_of
from tilewright.ir import AddressOf, Call, Evaluate, const_value, statements, walk
from tilewright.isa import FILL, KEEPING, bind
from tilewright.layout import ComposeLayout, SwizzleLayout, SwizzleMode
from tilewright.sim.checks.base import Check, register
from tilewright.terms import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.explain import Way
    from tilewright.ir import Buffer
    from tilewright.sim.machine import Array, Device, Ints, Operation, Subject, UnitView


# Matrix descriptors against the tiles that they lead into: is a matrix read in the order that the layout gives it?


UNIT = 16  # bytes that a swizzle moves together
GROUP = 8  # rows of a matrix that a descriptor counts together


class Descriptors(Check):
    """The check of matrix descriptors into swizzled buffers; the order of other buffers is up to the kernel."""

    def begin(self, run: Device) -> None:
        self.warned: set[tuple[str, str]] = set()

    def issued(self, operation: Operation) -> None:
        issue = operation.form.issue
        for access in operation.reads if issue is not None and issue.fenced else ():
            place = self.program.places.shared_at(access.reach[0])
            buffer = self.program.authored.get(place.name)
            key = (str(operation.instruction.at), place.name)
            if buffer is None or key in self.warned or not isinstance(buffer.layout, ComposeLayout):
                continue
            numbers = _numbers(buffer)
            if numbers is not None and (what := _disorder(access, buffer, numbers, place.start)):
                self.warned.add(key)
                at = operation.instruction.at
                facts = {
                    **place_of(at),
                    "buffer": place.name,
                    "operation": operation.name,
                    "threads": (operation.issuers.thread_at(0),),
                    "remedy": Remedy("swizzle", ways=tuple(_ways(self.program, buffer))),
                }
                text = f"{at}: {operation.name} {what}"
                operation.team.wave.run.warn(text, "descriptor", operation.name, place.name, facts=facts)


def _disorder(access: UnitView, buffer: Buffer, numbers: Ints, start: int) -> str:
    """In words, the first unit of 16 bytes that is not where the units before it imply; empty if every unit is."""
    place = (access.places - start) * 8 // buffer.dtype.bits
    elements = numbers[np.clip(place, 0, len(numbers) - 1)]  # (n, rows, units): the elements' numbers
    down, along = np.arange(elements.shape[1])[:, None], np.arange(elements.shape[2])
    first = elements[:, :1, :1]
    wanted = first + down * (elements[:, 1:2, :1] - first) + along * (elements[:, :1, 1:2] - first)
    wrong = (elements != wanted) | (place < 0) | (place >= len(numbers))
    if not wrong.any():
        return ""
    issuer, row, unit = map(int, np.argwhere(wrong)[0])
    shown, meant = (
        _element(buffer, int(table[issuer, row, unit])) for table in (elements, np.broadcast_to(wanted, elements.shape))
    )
    return (
        f"reads {buffer.name} in another order than its layout: {shown} where {meant} should be, at unit {unit} of row "
        f"{row}; swizzle, offsets or start of its descriptor are not those of {buffer.layout}"
    )


def _ways(program: Subject, buffer: Buffer) -> Iterator[Way]:
    """The swizzle, and the bytes from eight rows to the next in units of 16, that a buffer's layout asks for, where a
    descriptor into it is made.
    """
    assert isinstance(buffer.layout, ComposeLayout), "it is swizzled"
    unit = (8 * UNIT // buffer.dtype.bits).bit_length() - 1
    swizzles = (kind for kind in SwizzleMode if kind and buffer.layout.swizzle == SwizzleLayout(unit, int(kind), 3))
    if (mode := next(swizzles, None)) is None:
        return
    for stmt in statements(program.written):
        bound = bind(stmt.value) if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) else None
        if bound is None or not stmt.at or not {"swizzle", "sdo"} <= {*bound.instruction.params}:
            continue
        if any(
            isinstance(part, AddressOf) and part.buffer.name == buffer.name for part in walk(bound.operands["ptr"][0])
        ):
            line, rows = stmt.at.line, GROUP * mode.row_bytes // UNIT
            swizzle, stride = operand(line, "swizzle", int(mode)), operand(line, "sdo", rows)
            yield from ((swizzle,), (stride,), (swizzle, stride))


def _element(buffer: Buffer, number: int) -> str:
    shape = tuple(int(const_value(extent) or 1) for extent in buffer.shape)
    inside = 0 <= number < int(np.prod(shape))
    place = np.unravel_index(number, shape) if inside else (number,)
    return f"{buffer.name}[{', '.join(map(str, map(int, place)))}]"


@lru_cache(maxsize=64)
def _numbers(buffer: Buffer) -> Ints | None:
    """The number, in row-major order, of the element at each place of a buffer; None where its shape is not known."""
    shape = [const_value(extent) for extent in buffer.shape]
    if None in shape or buffer.layout is None:
        return None
    at = buffer.layout.table([int(extent or 0) for extent in shape])["m"].reshape(-1)
    numbers = np.full(int(at.max()) + 1, -1, np.int64)
    numbers[at] = np.arange(len(at))
    return numbers


register(
    "descriptors", "matrix descriptors that read a swizzled tile in another order than its layout has", Descriptors
)


# Operands that a unit keeps for later operations: they are the same until the last of these.


class Collectors(Check):
    """Compares what an operation uses of a buffer with what has filled it, in the order in which they take place."""

    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.filled: dict[tuple[str, int], Array] = {}  # by buffer and CTA

    def completing(self, operation: Operation) -> None:
        keeps, wave = operation.form.keeps, operation.team.wave
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
