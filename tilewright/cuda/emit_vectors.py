"""Vectors of 2, 4 or 8 elements: a struct each, and operators that go element by element."""

from __future__ import annotations

from dataclasses import replace

from tilewright.cuda.emit_types import Cpp, Level, called, cpp_type
from tilewright.cuda.emit_unit import Scope, TranslationUnit, assembly
from tilewright.dtypes import DType
from tilewright.ir import Binary, Cast, Component, Unary, Var, Vector
from tilewright.ir.operators import OPERATORS, UNARY
from tilewright.isa.arith import ARITHMETIC


def declare_vector(kind: DType, unit: TranslationUnit) -> str:
    """The struct of a vector dtype, named after it; 4-bit elements lie two in a byte."""
    element = cpp_type(kind.element)
    count = kind.lanes if kind.element.bits >= 8 else kind.lanes * kind.element.bits // 8
    alignment = min(16, kind.bits // 8)
    return unit.helper(str(kind), f"struct alignas({alignment}) {kind} {{ {element} x[{count}]; }};")


def broadcast(element: Cpp, kind: DType, unit: TranslationUnit) -> Cpp:
    """A vector of equal elements."""
    name = f"broadcast_{kind}"
    if name not in unit.helpers:
        declare_vector(kind, unit)
        _loop(name, f"{cpp_type(kind.element)} a", "a", kind, unit)
    return called(name, element)


def joined(node: Vector, scope: Scope) -> Cpp:
    """A vector of components."""
    parts, kind, unit = [scope.cpp(part) for part in node.parts], node.dtype, scope.unit
    declare_vector(kind, unit)
    element = cpp_type(kind.element)
    names = [f"e{i}" for i in range(kind.lanes)]
    held = names
    if kind.element.bits < 8:
        held = [f"({element})({low} & 0xf | {high} << 4)" for low, high in zip(names[::2], names[1::2], strict=True)]
    params = ", ".join(f"{element} {name}" for name in names)
    name = unit.function(f"vector_{kind}", f"{kind} ({params})", f"return {{{{{', '.join(held)}}}}};")
    return called(name, *parts)


def component(node: Component, scope: Scope) -> Cpp:
    """One component of a vector."""
    value, index = scope.cpp(node.a).at(Level.ATOM), node.index
    if node.dtype.bits < 8:
        return Cpp(f"{value}.x[{index // 2}] >> {4 * (index % 2)} & 0xf", Level.BIT_AND)
    return Cpp(f"{value}.x[{index}]")


def elementwise(node: Unary | Binary | Cast, scope: Scope) -> Cpp:
    """An operator on vectors: a function that does to each element what the operator does to a scalar."""
    sides = (node.a, node.b) if isinstance(node, Binary) else (node.a,)
    operands = [scope.cpp(side) for side in sides]
    kind, unit = node.dtype, scope.unit
    source = node.a.dtype
    name = f"{kind}_from_{source}" if isinstance(node, Cast) else f"{_word(node)}_{kind}"
    if name not in unit.helpers:
        for vector in (source, kind):
            declare_vector(vector, unit)
        row = ARITHMETIC.get((node.op, kind)) if isinstance(node, Binary) else None
        if row is not None and row.arch.admits(unit.arch):
            _packed(name, row.text, kind, unit)
        else:
            params = ", ".join(f"{source} {letter}" for letter in "ab"[: len(operands)])
            _loop(name, params, _on_elements(node, scope).text, kind, unit)
    return called(name, *operands)


def _word(node: Unary | Binary) -> str:
    return (UNARY if isinstance(node, Unary) else OPERATORS)[node.op].word


def _on_elements(node: Unary | Binary | Cast, scope: Scope) -> Cpp:
    """The operator on element i; the variables stand for C++ that is no name of the kernel."""
    source = node.a.dtype.element
    text = "({}.x[i / 2] >> 4 * (i % 2) & 0xf)" if source.bits < 8 else "{}.x[i]"
    sides = [Var(f"{letter}@element", source) for letter in "ab"]
    for side in sides:
        scope.unit.names.given[side.name] = text.format(side.name[0])
    scalar = replace(node, a=sides[0], dtype=node.dtype.element)
    return scope.cpp(replace(scalar, b=sides[1]) if isinstance(scalar, Binary) else scalar)


def _loop(name: str, params: str, value: str, kind: DType, unit: TranslationUnit) -> None:
    packed = kind.element.bits < 8
    place = f"d.x[i / 2] |= ({value} & 0xf) << 4 * (i % 2);" if packed else f"d.x[i] = {value};"
    lines = [
        f"{kind} d{' = {}' if packed else ''};",
        "#pragma unroll",
        f"for (int i = 0; i < {kind.lanes}; ++i) {place}",
    ]
    unit.function(name, f"{kind} ({params})", *lines, "return d;")


def _packed(name: str, text: str, kind: DType, unit: TranslationUnit) -> None:
    """Define an operator as one instruction for both halves of a register."""
    register, letter = ("unsigned long long", "l") if kind.bits == 64 else ("unsigned int", "r")
    operands = ", ".join(f'"{letter}"(__builtin_bit_cast({register}, {side}))' for side in "ab")
    unit.function(
        name,
        f"{kind} ({kind} a, {kind} b)",
        f"{register} d;",
        *assembly("asm", text, f'"={letter}"(d)', operands),
        f"return __builtin_bit_cast({kind}, d);",
    )
