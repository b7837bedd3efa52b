"""A kernel as an operator of torch: in torch.ops, in torch.compile, with fake tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tilewright.errors import ArgumentError, ToolError, choices
from tilewright.ir import AddressOf, Var, walk
from tilewright.ir.arguments import Signature
from tilewright.isa import Bound, calls_in

SCALARS = {"float": "float", "int": "int", "uint": "int", "bool": "bool", "handle": "int"}


def register(name: str, exe: Any, mutates: Iterable[str] | None = None) -> Any:
    """Register the executable as the operator ``name`` ("namespace::operator"), and return it.

    `Any`: an `Executable`, which this room does not know; operators are torch's.
    """
    try:
        import torch
    except ImportError as error:
        raise ToolError("torch is not installed", given=str(error), hint="pip install torch") from None
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", name, re.ASCII)):
        raise ArgumentError(
            "the name of an operator is a namespace and a name", given=repr(name), allowed='such as "mine::scale"'
        )
    written = _mutated(exe.signature, _stored(exe), mutates)

    def run(*args: Any) -> None:
        exe(*args)

    operator = torch.library.custom_op(name, run, mutates_args=written, schema=schema(exe.signature, written))
    operator.register_fake(_nothing)  # results are the arrays that are written, whose shapes are known
    return operator


def schema(signature: Signature, written: Iterable[str]) -> str:
    """The operator's arguments as torch spells them: ``(Tensor A, Tensor(a0!) B, int n) -> ()``."""
    marks = {name: f"(a{number}!)" for number, name in enumerate(written)}
    parts = []
    for param in signature.params:
        name = _argument_name(signature, param)
        is_tensor = param.name in signature.buffers
        parts.append(f"{f'Tensor{marks.get(name, str())}' if is_tensor else SCALARS[param.dtype.kind]} {name}")
    return f"({', '.join(parts)}) -> ()"


def _argument_name(signature: Signature, param: Var) -> str:
    return signature.buffers[param.name].name if param.name in signature.buffers else param.name


def _stored(exe: Any) -> frozenset[str]:
    """Names of the arrays that the kernel stores to, by statements and by instructions; all where a pointer hides it.

    `Any`: an `Executable`.
    """
    names = set(exe.signature.written)
    for _, bound in calls_in(exe.lowered.body):
        names |= _stored_by(bound, exe.signature)
    return frozenset(names)


def _stored_by(bound: Bound, signature: Signature) -> set[str]:
    """Through each address that an instruction writes to: the array that it points into."""
    names: set[str] = set()
    for access in bound.form.accesses:
        if access.write:
            nodes = [node for value in bound.operands[access.operand] for node in walk(value)]
            roots = {node.buffer.root.name for node in nodes if isinstance(node, AddressOf)}
            names |= roots or {buffer.name for buffer in signature.buffers.values()}
    return names


def _mutated(signature: Signature, stored: frozenset[str], mutates: Iterable[str] | None) -> tuple[str, ...]:
    """Names of the arguments that the operator changes, in the order of the parameters."""
    names = [_argument_name(signature, param) for param in signature.params if param.name in signature.buffers]
    seen = [name for name in names if name in stored]
    if mutates is None:
        return tuple(seen)
    asked = (mutates,) if isinstance(mutates, str) else tuple(mutates)
    for name in asked:
        if name not in names:
            raise ArgumentError(f"{signature.name} has no array {name!r}", given=name, allowed=choices(name, names))
    forgotten = [name for name in names if name in signature.written and name not in asked]
    if forgotten:
        raise ArgumentError(
            f"{signature.name} writes what mutates does not name",
            given=", ".join(asked) or "nothing",
            allowed=", ".join([*asked, *forgotten]),
        )
    return tuple(name for name in names if name in asked)


def _nothing(*args: object) -> None:
    """What the operator returns."""
