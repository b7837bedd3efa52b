"""Which numbers among a kernel's parameters lie between elements of its arrays, by where they lead to in its PTX.

A stride is multiplied, added up and used as an address, and nothing else: what is compared, divided, stored or
computed with in another way says how much there is to do. Values are followed without regard to order: a register
has what any instruction puts into it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.ptx.names import element_bytes, type_word
from tilewright.ptx.tree import Address, Function, Immediate, Instruction, Name, Not, Operand, Pair, Vector

# Instructions whose result is an address as far as their operands are: from there on, how many of these count.
LINEAR = (
    dict.fromkeys(("mov", "cvt", "cvta", "neg", "shl"), 1)
    | dict.fromkeys(("add", "sub", "mul", "mul24"), 2)
    | dict.fromkeys(("mad", "mad24"), 3)
)
MOST_SHIFT = 4  # to the right, of bytes between elements of up to 16: so many elements
OF_TABLES = {"local", "param"}  # memories of small arrays, as those in structures
OF_ELEMENTS = {"", "global"}  # memories of arrays; an address without a word for its memory is as good as one of these


class ParameterPlace(NamedTuple):
    """A number of a kernel's parameters: which parameter, and its first byte there."""

    parameter: int
    offset: int

    def behind(self, offset: int) -> ParameterPlace:
        """So many bytes on."""
        return ParameterPlace(self.parameter, self.offset + offset)


@dataclass(frozen=True, slots=True)
class Strides:
    """together: the numbers that lie between elements, each with all that lead to the same addresses, pointers among
    them. indices: those that say which element of a small array is meant, whatever else they are used for. read: all
    numbers.
    """

    together: Mapping[ParameterPlace, frozenset[ParameterPlace]]
    indices: frozenset[ParameterPlace]
    read: frozenset[ParameterPlace]

    @property
    def has_numbers(self) -> bool:
        """Is there more than pointers?"""
        return bool(self.indices) or any(len(others) > 1 for others in self.together.values())


def strides_of(entry: Function) -> Strides:
    """What parameters of a kernel are used for. entry: as its optimised PTX has it."""
    flow = _Flow(entry)
    together, spaces = defaultdict[ParameterPlace, set[ParameterPlace]](set), defaultdict[ParameterPlace, set[str]](set)
    for register, space in flow.addresses:
        for place in flow.places[register]:
            together[place] |= flow.places[register]
            spaces[place].add(space)
    asked = {place for register in flow.asked for place in flow.places[register]}
    left = {place: used for place, used in spaces.items() if place not in asked}
    return Strides(
        {place: frozenset(together[place]) for place, used in left.items() if used <= OF_ELEMENTS},
        frozenset(place for place, used in spaces.items() if used <= OF_TABLES),
        frozenset(place for places in flow.places.values() for place in places),
    )


def numbers_passed(parameters: Sequence[bytes]) -> dict[ParameterPlace, int]:
    """The whole numbers of 4 bytes that a launch passes, as `LoadedKernel.passed` has its parameters."""
    return {ParameterPlace(parameter, at): int.from_bytes(octets[at : at + 4], "little")
            for parameter, octets in enumerate(parameters) for at in range(0, len(octets), 4)}  # fmt: skip


class _Flow:
    """places: the numbers of parameters that flow into each register. asked: registers that are used for anything but
    an address. addresses: registers that are one, with the memory's word. (Mutable while it is made.)
    """

    def __init__(self, entry: Function) -> None:
        self.places = defaultdict[str, set[ParameterPlace]](set)
        self.asked, self.addresses = set[str](), set[tuple[str, str]]()
        self._leads = defaultdict[str, set[str]](set)
        self._homes = {param.name: ParameterPlace(at, 0) for at, param in enumerate(entry.params)}  # and of registers
        for statement in entry.statements:
            if isinstance(statement, Instruction):
                self._read(statement)
        self._spread()

    def _read(self, step: Instruction) -> None:
        result, operands = step.operands[:1], step.operands[1:]
        match operands:
            case (Address(base=Name(text=name), offset=offset),) if step.opcode == "ld" and name in self._homes:
                size = element_bytes(type_word(step.modifiers))
                for at, register in enumerate(_registers(result)):
                    self.places[register].add(self._homes[name].behind(offset + at * size))
                return
            case (Name(text=name),) if step.opcode in ("mov", "cvta") and name in self._homes:
                self._homes |= dict.fromkeys(_registers(result), self._homes[name])
                return
            case (Name(text=name), Immediate(value=offset)) if step.opcode == "add" and name in self._homes:
                self._homes |= dict.fromkeys(_registers(result), self._homes[name].behind(offset))
                return
        for operand in step.operands:
            if isinstance(operand, Address):
                space = step.space.partition("::")[0]
                self.addresses |= {(register, space) for register in _registers((operand.base,))}
                self.asked |= set(_registers(operand.more))
        is_bytes = step.opcode == "shr" and isinstance(operands[-1], Immediate) and operands[-1].value <= MOST_SHIFT
        many = 1 if is_bytes else LINEAR.get(step.opcode, 0)
        for source in _registers(operands[:many]):
            self._leads[source] |= set(_registers(result))
        self.asked |= set(_registers(operands[many:] if many else step.operands))

    def _spread(self) -> None:
        waiting = list(self.places)
        while waiting:
            register = waiting.pop()
            for result in self._leads[register]:
                if not self.places[register] <= self.places[result]:
                    self.places[result] |= self.places[register]
                    waiting.append(result)


def _registers(operands: Iterable[Operand | None]) -> Iterator[str]:
    """The registers that operands name, but for those of addresses."""
    for operand in operands:
        match operand:
            case Name(text=text) | Not(name=Name(text=text)):
                yield text
            case Vector(parts=parts):
                yield from _registers(parts)
            case Pair(first=first, second=second):
                yield from _registers((first, second))
