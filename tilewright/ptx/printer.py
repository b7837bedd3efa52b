"""From the tree back to PTX text, one statement a line; what it prints parses to an equal tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.ptx.tree import (
    Address,
    Block,
    Body,
    Directive,
    Function,
    Immediate,
    Instruction,
    Label,
    Loc,
    Module,
    Name,
    Not,
    Operand,
    Pair,
    Prototype,
    Registers,
    Statement,
    Sum,
    Targets,
    Variable,
    Vector,
)

__all__ = ["operand_text", "script", "statement_text"]


def script(module: Module) -> str:
    """A module as PTX text. Debugging information but for lines and files is left out, and so is the target's option
    ``debug``, with which assemblers ask for all of it.
    """
    target = ", ".join(word for word in module.target if word != "debug")
    lines = [f".version {module.version}", f".target {target}", f".address_size {module.address_size}", ""]
    lines += [directive.text for directive in module.directives if not directive.text.startswith(".alias")]
    placed: list[tuple[int, list[str]]] = [(each.line, [variable_text(each) + ";"]) for each in module.variables]
    placed += [(each.line, list(_function(each, module))) for each in module.functions]
    for _, part in sorted(placed, key=lambda each: each[0]):  # as they stood: names are declared before they are used
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
    before = [each.text for each in function.directives if each.text.split("(")[0] in (".noreturn", ".attribute")]
    words = " ".join([f"{linkage}.{'entry' if function.is_entry else 'func'}", *before])
    yield f"{words} {returns}{function.name}{_params(function.params)}"
    yield from (each.text for each in function.directives if each.text not in before)
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
    given = f"{_params(prototype.returns)} " if prototype.returns else ""
    words = " ".join([f"{prototype.name}: .callprototype {given}_ {_params(prototype.params)}", *prototype.attributes])
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
