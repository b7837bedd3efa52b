"""The tree of a PTX text, made of frozen values: modules, functions, scopes, statements, operands.

Nothing is resolved here but which functions call which: names are text, and what an opcode means is for
`tilewright.isa` to say. `tilewright.ptx.parser` makes trees of texts, `script` texts of trees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

from tilewright.errors import Span
from tilewright.ptx.mangled import shown_names

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


# Statements, and the bodies that they make.


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


# Functions and modules.


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

    @property
    def statements(self) -> Iterator[Statement]:
        """The statements of its body and of the scopes in it."""
        return all_statements(self.body or ())

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
        return {var.name: var for var in sorted(self.variables, key=lambda var: var.linkage != "extern")}

    @cached_property
    def function_of(self) -> dict[str, Function]:
        """The functions by name; one with a body stands before its declarations, and has its aliases' names, too."""
        functions = {item.name: item for item in sorted(self.functions, key=lambda item: item.body is not None)}
        aliases = (re.fullmatch(r"\.alias\s+(\S+?)\s*,\s*(\S+?)\s*;", directive.text) for directive in self.directives)
        return functions | {alias[1]: functions[alias[2]] for alias in aliases if alias and alias[2] in functions}

    @cached_property
    def shown(self) -> dict[str, str]:
        """The names by which users see variables and functions, by symbol."""
        return shown_names(dict.fromkeys([*self.variable_of, *self.function_of]))

    @cached_property
    def addressed(self) -> tuple[str, ...]:
        """The functions whose address is taken, in code or in variables: a call through a pointer may reach each."""
        used: set[str] = set()
        for variable in self.variables:
            used |= set(variable.initial.translate(str.maketrans("{},()", "     ")).split())
        for function in self.functions:
            for statement in function.statements:
                if isinstance(statement, Instruction) and statement.opcode not in ("call", "bra"):
                    used |= {operand.text for operand in statement.operands if isinstance(operand, Name)}
        return tuple(name for name, of in self.function_of.items() if name in used and of.body is not None)

    @cached_property
    def cycles(self) -> Mapping[str, frozenset[str]]:
        """The functions that may call themselves, directly or through others, each with those of the same cycles."""
        calls = {name: set(self._called(function)) for name, function in self.function_of.items()}
        reached = {name: _reached(calls, name) for name in calls}
        return {
            name: frozenset(other for other in names if name in reached[other])
            for name, names in reached.items()
            if name in names
        }

    def _called(self, function: Function) -> Iterator[str]:
        listed = {label.name: label.names for label in function.statements if isinstance(label, Targets)}
        for statement in function.statements:
            if isinstance(statement, Instruction) and statement.opcode == "call":
                results, callee, arguments = call_parts(statement)
                if callee.text in self.function_of:
                    yield callee.text
                    continue
                last = statement.operands[-1]
                names = listed.get(last.text, self.addressed) if isinstance(last, Name) else self.addressed
                counts = len(results), len(arguments)
                yield from (name for name in names if _counts(self.function_of[name]) == counts)

    @property
    def entries(self) -> tuple[Function, ...]:
        return tuple(function for function in self.functions if function.is_entry and function.body is not None)


def all_statements(body: Body) -> Iterator[Statement]:
    """The statements of a body and of its scopes."""
    for statement in body:
        yield statement
        if isinstance(statement, Block):
            yield from all_statements(statement.body)


def call_parts(ins: Instruction) -> tuple[Sequence[Operand], Name, Sequence[Operand]]:
    """Results, callee and arguments of ``call (results), function, (arguments)``."""
    rest = [_listed(operand) for operand in ins.operands]
    results = rest.pop(0) if isinstance(rest[0], Vector) else None
    callee = rest.pop(0)
    arguments = rest.pop(0) if rest and isinstance(rest[0], Vector) else None
    assert isinstance(callee, Name)
    return (
        (results.parts if isinstance(results, Vector) else ()),
        callee,
        (arguments.parts if isinstance(arguments, Vector) else ()),
    )


def _listed(operand: Operand) -> Operand:
    """The operand as a list: ``(41)`` is a list of one argument here, and a number elsewhere."""
    if isinstance(operand, Immediate) and operand.text.startswith("("):
        return Vector((replace(operand, text=operand.text[1:-1]),), "()")
    return operand


def _counts(function: Function) -> tuple[int, int]:
    return len(function.returns), len(function.params)


def _reached(calls: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    todo = list(calls[start])
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += calls[name]
    return reached


# From the tree back to PTX text, one statement a line; what it prints parses to an equal tree.


def script(module: Module) -> str:
    """A module as PTX text. Debugging information but for lines and files is left out, and so is the target's option
    ``debug``, with which assemblers ask for all of it.
    """
    target = ", ".join(word for word in module.target if word != "debug")
    lines = [f".version {module.version}", f".target {target}", f".address_size {module.address_size}", ""]
    lines += [directive.text for directive in module.directives if not directive.text.startswith(".alias")]
    placed: list[tuple[int, list[str]]] = [(var.line, [variable_text(var) + ";"]) for var in module.variables]
    placed += [(function.line, list(_function(function, module))) for function in module.functions]
    for _, part in sorted(placed, key=lambda pair: pair[0]):  # as they stood: names are declared before they are used
        lines += part
    lines += [directive.text for directive in module.directives if directive.text.startswith(".alias")]
    lines += [f'.file {number} "{path}"' for number, path in module.files]
    used = {label for label, _ in module.strings}
    if used:
        lines += [".section .debug_str", "{"]
        for label, data in module.strings:
            lines += [f"{label}:", f".b8 {','.join(map(str, data))}"]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _function(function: Function, module: Module) -> Iterator[str]:
    linkage = f".{function.linkage} " if function.linkage else ""
    returns = f"{_params(function.returns)} " if function.returns else ""
    before = [line.text for line in function.directives if line.text.split("(")[0] in (".noreturn", ".attribute")]
    words = " ".join([f"{linkage}.{'entry' if function.is_entry else 'func'}", *before])
    yield f"{words} {returns}{function.name}{_params(function.params)}"
    yield from (line.text for line in function.directives if line.text not in before)
    if function.body is None:
        yield ";"
        return
    yield "{"
    yield from _body(function.body, "    ")
    yield "}"


def _params(variables: Iterable[Variable]) -> str:
    return f"({', '.join(map(variable_text, variables))})"


def variable_text(variable: Variable) -> str:
    """The declaration of a variable, without its ``;``."""
    words = [f".{variable.linkage}"] if variable.linkage else []
    words.append(f".{variable.space}")
    words += [f".align {variable.align}"] if variable.align else []
    words += [f".v{variable.vector}"] if variable.vector > 1 else []
    words += [f".{variable.type}", *variable.attributes]
    extents = "".join(f"[{'' if extent is None else extent}]" for extent in variable.extents)
    initial = f" = {variable.initial}" if variable.initial else ""
    return f"{' '.join(words)} {variable.name}{extents}{initial}"


def _body(body: Body, indent: str) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Block):
            yield f"{indent}{{"
            yield from _body(statement.body, indent + "    ")
            yield f"{indent}}}"
        else:
            yield f"{'' if isinstance(statement, Label) else indent}{statement_text(statement)}"


def statement_text(statement: Statement) -> str:
    """One statement as it stands in a line; a scope as its braces."""
    match statement:
        case Instruction(mnemonic, operands, guard):
            text = f"@{guard} {mnemonic}" if guard else mnemonic
            return f"{text} {_operands(operands)};" if operands else f"{text};"
        case Loc():
            return _loc(statement)
        case Label(name):
            return f"{name}:"
        case Registers(kind, names, vector):
            parts = (name if count is None else f"{name}<{count}>" for name, count in names)
            return f".reg {f'.v{vector} ' if vector > 1 else ''}.{kind} {', '.join(parts)};"
        case Variable():
            return variable_text(statement) + ";"
        case Targets(name, kind, names):
            return f"{name}: .{kind} {', '.join(names)};"
        case Prototype():
            return _prototype(statement)
        case Directive(text):
            return text
        case Block():
            return "{ ... }"


def _loc(loc: Loc) -> str:
    text = f".loc {loc.file} {loc.line} {loc.column}"
    if loc.function is None or loc.outer is None:
        return text
    label, offset = loc.function
    named = f"{label}+{offset}" if offset else label
    return f"{text}, function_name {named}, inlined_at {' '.join(map(str, loc.outer))}"


def _prototype(prototype: Prototype) -> str:
    outs = f"{_params(prototype.returns)} " if prototype.returns else ""
    words = " ".join([f"{prototype.name}: .callprototype {outs}_ {_params(prototype.params)}", *prototype.attributes])
    return f"{words};"


def _operands(operands: tuple[Operand, ...]) -> str:
    return ", ".join(map(operand_text, operands))


def operand_text(operand: Operand) -> str:
    """An operand as an instruction has it."""
    match operand:
        case Name(text) | Immediate(text):
            return text
        case Not(name, sign):
            return f"{sign}{name.text}"
        case Pair(first, second):
            return f"{first.text}|{second.text}"
        case Sum(name, offset, element):
            return f"{name.text}[{offset}]" if element else f"{name.text}{offset:+d}"
        case Vector(parts, braces):
            return f"{braces[0]}{_operands(parts)}{braces[1]}"
        case Address(base, offset, more):
            start = f"{base.text}{f'+{offset}' if offset else ''}" if base is not None else str(offset)
            return f"[{', '.join([start, *map(operand_text, more)])}]"
