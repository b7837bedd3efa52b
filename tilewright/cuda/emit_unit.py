"""The parts of a translation unit while its kernel is emitted: names, helper functions, special registers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING

from tilewright.cuda.emit_types import Names, identifiers
from tilewright.ir import Buffer, Special
from tilewright.ir.ranges import RangeFacts
from tilewright.isa import CONSTRAINTS, KINDS, Arch
from tilewright.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tilewright.cuda.emit_types import Cpp
    from tilewright.errors import Span
    from tilewright.ir import Expr
    from tilewright.isa.arith import NumberRow

LINE_LENGTH = 116

# The C++ type of each kind of register, as inline assembly wants it.
REGISTER_TYPES = {name: kind.ctype for name, kind in KINDS.items() if kind.nbytes}


@dataclass(slots=True)
class TranslationUnit:
    """One translation unit that is being written. Mutable: helpers and names are added as they are used.

    expression: writes an expression of the kernel. foreign: identifiers of the instruction table's own C++. declared:
    names of buffers that have a variable.
    read_only: names of global buffers and views that the kernel never writes. restricted: parameters that no other
    argument overlaps. in_flight: the local buffers that fenced operations write, by group. fast_math: may functions
    approximate?
    """

    arch: Arch
    names: Names
    expression: Callable[[Expr, Scope], Cpp]
    read_only: frozenset[str] = frozenset()
    restricted: frozenset[str] = frozenset()
    in_flight: Mapping[str, tuple[Buffer, ...]] = field(default_factory=dict)
    fast_math: bool = False
    helpers: dict[str, str] = field(default_factory=dict)
    specials: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)

    def special(self, node: Special) -> str:
        """The variable that holds a special register, declared at the kernel's top."""
        if node.name not in self.specials:
            self.specials[node.name] = self.names.fresh(node.name.replace(".", "_"))
        return self.specials[node.name]

    def buffer(self, buffer: Buffer) -> str:
        """The pointer or array that a buffer is."""
        return self.names.of(buffer.name)

    def helper(self, name: str, text: str) -> str:
        """Put ``text``, which defines ``name``, once into the unit, after the helpers so far."""
        self.helpers.setdefault(name, text)
        return name

    def function(self, name: str, signature: str, *lines: str, comment: str = "") -> str:
        """A helper function: ``signature`` without its name (``int (float x)``), and the lines of its body."""
        if name not in self.helpers:
            result, _, params = signature.partition("(")
            head = function_head(result.strip(), name, params.removesuffix(")"))
            self.helpers[name] = "\n".join([*_comment(comment), head, *(f"  {line}" for line in lines), "}"])
        return name

    def number_instruction(self, name: str, row: NumberRow, result: str, operands: tuple[str, ...]) -> str:
        """A function of one instruction on numbers; result and operands: their C++ types."""
        params = ", ".join(map("{} {}".format, operands, "abc"))
        inputs = ", ".join(map('"{}"({})'.format, map(CONSTRAINTS.get, row.operands), "abc"))
        return self.function(
            name,
            f"{result} ({params})",
            f"{REGISTER_TYPES[row.result]} d;",
            *assembly("asm", row.text, f'"={CONSTRAINTS[row.result]}"(d)', inputs),
            "return d;",
        )

    def mention(self, text: str) -> None:
        """The unit contains a C++ template of a row: the kernel's names must stay clear of its identifiers."""
        self.foreign |= identifiers(re.sub(r"\{\w+\}", " ", text))

    def clashes(self) -> set[str]:
        """Names of the kernel that hide a helper or something that the instruction table's C++ uses."""
        return (self.helpers.keys() | self.foreign) & {*self.names.given.values(), *self.specials.values()}


def function_head(result: str, name: str, params: str) -> str:
    """The first line of a device function, its parameters on lines of their own where it is long."""
    start, end = f"__device__ __forceinline__ {result} {name}(", f"{params}) {{"
    if len(start + end) <= LINE_LENGTH:
        return start + end
    return "\n".join([start, *wrap(end, LINE_LENGTH, initial_indent="    ", subsequent_indent="    ")])


def assembly(keyword: str, text: str, *parts: str) -> list[str]:
    """An ``asm`` statement: outputs, inputs and clobbers after the text, on a line of their own where they are long."""
    while parts and not parts[-1]:
        parts = parts[:-1]
    constraints = "".join(f" : {part}" if part else " :" for part in parts)
    line = f'{keyword}("{text}"{constraints});'
    if len(line) <= LINE_LENGTH:
        return [line]
    return [f'{keyword}("{text}"', f"{' ' * len(keyword)}{constraints});"]


def _comment(text: str) -> list[str]:
    return [f"// {line}" for line in text.splitlines()]


class KnownFacts:
    """The facts at a place: those of the place around it and those that ``learn`` adds at the first use. (Mutable.)"""

    __slots__ = ("_around", "_facts", "_learn")

    def __init__(self, around: KnownFacts | None, learn: Callable[[RangeFacts], RangeFacts]) -> None:
        self._around, self._learn = around, learn
        self._facts: RangeFacts | None = None

    @property
    def facts(self) -> RangeFacts:
        """The facts."""
        todo: list[KnownFacts] = []
        place: KnownFacts | None = self
        while place is not None and place._facts is None:
            todo.append(place)
            place = place._around
        facts = RangeFacts() if place is None or place._facts is None else place._facts
        for place in reversed(todo):
            facts = place._facts = place._learn(facts)
        return facts


@dataclass(frozen=True, slots=True)
class Scope:
    """A place in the kernel: the unit, and what is known of the values there. at: the kernel's line."""

    unit: TranslationUnit
    known: KnownFacts
    at: Span | None = None

    @property
    def facts(self) -> RangeFacts:
        """The facts at this place."""
        return self.known.facts

    def cpp(self, node: Expr) -> Cpp:
        """An expression of the kernel as C++."""
        return self.unit.expression(node, self)

    def knowing(self, learn: Callable[[RangeFacts], RangeFacts]) -> Scope:
        """The same place with what ``learn`` adds."""
        return replace(self, known=KnownFacts(self.known, learn))
