"""Which functions of a module call which: a call through a pointer may reach each function whose address is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tilewright.ptx.names import all_statements
from tilewright.ptx.tree import Function, Immediate, Instruction, Module, Name, Operand, Targets, Vector


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


def addressed(module: Module) -> list[str]:
    """The functions whose address the module takes, in code or in variables."""
    used: set[str] = set()
    for variable in module.variables:
        used |= set(variable.initial.translate(str.maketrans("{},()", "     ")).split()) if variable.initial else set()
    for function in module.functions:
        for statement in all_statements(function.body or ()):
            if isinstance(statement, Instruction) and statement.opcode not in ("call", "bra"):
                used |= {operand.text for operand in statement.operands if isinstance(operand, Name)}
    return [name for name, function in module.function_of.items() if name in used and function.body is not None]


def cycles(module: Module) -> Mapping[str, frozenset[str]]:
    """For each function that may call itself, directly or through others: the functions of the same cycles of calls."""
    pointed = addressed(module)
    calls = {name: set(_called(module, function, pointed)) for name, function in module.function_of.items()}
    reached = {name: _reached(calls, name) for name in calls}
    return {
        name: frozenset(other for other in names if name in reached[other])
        for name, names in reached.items()
        if name in names
    }


def _called(module: Module, function: Function, pointed: Sequence[str]) -> Iterator[str]:
    listed = {label.name: label.names for label in all_statements(function.body or ()) if isinstance(label, Targets)}
    for statement in all_statements(function.body or ()):
        if isinstance(statement, Instruction) and statement.opcode == "call":
            results, callee, arguments = call_parts(statement)
            if callee.text in module.function_of:
                yield callee.text
                continue
            last = statement.operands[-1]
            names = listed.get(last.text, pointed) if isinstance(last, Name) else pointed
            counts = len(results), len(arguments)
            yield from (name for name in names if _counts(module.function_of[name]) == counts)


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
