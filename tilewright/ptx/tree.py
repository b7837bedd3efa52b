"""The tree of a PTX text, made of frozen values: modules, functions, scopes, statements, operands.

Nothing is resolved here: names are text, and what an opcode means is for `tilewright.isa` to say. Trees are made of
texts by `tilewright.ptx.parser`, and texts of trees by `tilewright.ptx.printer`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeAlias

from tilewright.errors import Span
from tilewright.ptx.mangled import shown_names

__all__ = [
    "Address",
    "Block",
    "Body",
    "Directive",
    "Function",
    "Immediate",
    "Instruction",
    "Label",
    "Loc",
    "Module",
    "Name",
    "Not",
    "Operand",
    "Pair",
    "Prototype",
    "Registers",
    "Statement",
    "Sum",
    "Targets",
    "Variable",
    "Vector",
    "words_of",
]


# Operands


@dataclass(frozen=True, slots=True)
class Name:
    """A register, a variable, a label, a function or a special register; ``_`` is a sink."""

    text: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number as it is written. bits: 0 for an integer, 32 and 64 for the bits of a float."""

    text: str
    value: int
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    """``symbol+4``: an address of a variable as a value. element: ``symbol[4]``, so many elements on."""

    name: Name
    offset: int
    element: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """``!p``: the opposite of a predicate. sign: ``-a`` instead, the negative of a register."""

    name: Name
    sign: str = "!"


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``: two destinations."""

    first: Name
    second: Name


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b}``, or ``(a, b)`` of a call where ``braces`` says so."""

    parts: tuple[Operand, ...]
    braces: str = "{}"


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``; more: what follows in the brackets, as coordinates of a tensor map do. A base of None is 0."""

    base: Name | None
    offset: int = 0
    more: tuple[Operand, ...] = ()


Operand: TypeAlias = Name | Immediate | Sum | Not | Pair | Vector | Address


# Statements


@dataclass(frozen=True, slots=True)
class Loc:
    """``.loc``: the place in the author's file from which the following instructions were made, and for inlined code
    the call.

    function: the label of its mangled name, with an offset. outer: file, line and column of the call.
    """

    file: int
    line: int
    column: int
    function: tuple[str, int] | None = None
    outer: tuple[int, int, int] | None = None


MEMORIES = ("global", "shared", "local", "const", "param")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. guard: the predicate's name, with ``!`` where it is negated. line, column: in the PTX text."""

    mnemonic: str
    operands: tuple[Operand, ...] = ()
    guard: str = ""
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    @property
    def opcode(self) -> str:
        return words_of(self.mnemonic)[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The words behind the opcode, without their points; ``shared::cta`` is one."""
        return words_of(self.mnemonic)[1:]

    @property
    def space(self) -> str:
        """The modifier that names a memory, such as ``shared::cta``; "" where the address is generic."""
        return next((word for word in self.modifiers if word.partition("::")[0] in MEMORIES), "")


@lru_cache(maxsize=4096)
def words_of(mnemonic: str) -> tuple[str, ...]:
    """The opcode and its modifiers."""
    return tuple(mnemonic.split("."))


@dataclass(frozen=True, slots=True)
class Label:
    """``name:``"""

    name: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Registers:
    """``.reg .b32 %r<9>, %x;`` names: each with its number of registers, None for one of just that name."""

    type: str
    names: tuple[tuple[str, int | None], ...]
    vector: int = 1
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter.

    space: global, const, shared, local or param. type: as written, "f32". extents: of an array; a None is left open.
    attributes: words besides, such as ``.ptr .global``. initial: the text of its initial value.
    """

    space: str
    type: str
    name: str
    extents: tuple[int | None, ...] = ()
    align: int = 0
    vector: int = 1
    linkage: str = ""
    attributes: tuple[str, ...] = ()
    initial: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Targets:
    """``table: .branchtargets L0, L1;`` or ``.calltargets f, g;``: where an indirect branch or call may lead."""

    name: str
    kind: str
    names: tuple[str, ...]
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Prototype:
    """``name: .callprototype (ret) _ (params);``: the results and parameters of an indirect call."""

    name: str
    returns: tuple[Variable, ...] = ()
    params: tuple[Variable, ...] = ()
    attributes: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Directive:
    """A line without effect on values: ``.pragma "nounroll";``, ``.maxntid 128``, ``.section ...``."""

    text: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """``{ ... }``: a scope; registers, variables and labels in it are its own."""

    body: Body
    line: int = field(default=0, compare=False)


Statement: TypeAlias = Instruction | Loc | Label | Registers | Variable | Targets | Prototype | Directive | Block
Body: TypeAlias = tuple[Statement, ...]


# Modules


@dataclass(frozen=True, slots=True)
class Function:
    """An entry or a function. body: None where it is only declared."""

    name: str
    is_entry: bool
    params: tuple[Variable, ...] = ()
    returns: tuple[Variable, ...] = ()
    directives: tuple[Directive, ...] = ()
    linkage: str = ""
    body: Body | None = None
    line: int = field(default=0, compare=False)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """The numbers of a directive, ``.reqntid 128, 1, 1``; None where it is not there."""
        for directive in self.directives:
            word, _, rest = directive.text.partition(" ")
            if word == f".{name}":
                return tuple(int(part, 0) for part in rest.replace(",", " ").split())
        return None


@dataclass(frozen=True)  # no slots: the cached properties need a dict
class Module:
    """A PTX text. target: the architecture and options. files: by the number that `.loc` gives them.

    strings: the bytes of labels in debug sections, in which the names of inlined functions are.
    """

    version: str
    target: tuple[str, ...]
    address_size: int
    variables: tuple[Variable, ...] = ()
    functions: tuple[Function, ...] = ()
    directives: tuple[Directive, ...] = ()
    files: tuple[tuple[int, str], ...] = ()
    strings: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    file: str = field(default="<ptx>", compare=False)

    def span(self, line: int, column: int = 0, end: int = 0) -> Span:
        """A place in this text."""
        return Span(self.file, line, column, end)

    @cached_property
    def variable_of(self) -> dict[str, Variable]:
        """The variables of the module by name; one that is defined stands before its declarations."""
        return {each.name: each for each in sorted(self.variables, key=lambda each: each.linkage != "extern")}

    @cached_property
    def function_of(self) -> dict[str, Function]:
        """The functions by name; one with a body stands before its declarations, and has its aliases' names, too."""
        found = {each.name: each for each in sorted(self.functions, key=lambda each: each.body is not None)}
        aliases = (re.fullmatch(r"\.alias\s+(\S+?)\s*,\s*(\S+?)\s*;", each.text) for each in self.directives)
        return found | {alias[1]: found[alias[2]] for alias in aliases if alias and alias[2] in found}

    @cached_property
    def shown(self) -> dict[str, str]:
        """The names by which users see variables and functions, by symbol."""
        return shown_names(dict.fromkeys([*self.variable_of, *self.function_of]))

    @property
    def entries(self) -> tuple[Function, ...]:
        return tuple(each for each in self.functions if each.is_entry and each.body is not None)
