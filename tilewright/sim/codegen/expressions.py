"""From expressions to Python source over arrays.

Sides of a `select`, ``and`` and ``or`` that touch memory run under a mask of their own, so that a guarded load is safe.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from tilewright import ir
from tilewright.dtypes import DType
from tilewright.ir.operators import DIVISIONS, MODULAR, OPERATORS
from tilewright.isa.arith import cast
from tilewright.sim.codegen.addressing import access_text, generic_address_text
from tilewright.sim.codegen.axes import UNIFORM
from tilewright.sim.codegen.calls import call_value
from tilewright.sim.codegen.source import Emitter, Operand, is_number, wrapper
from tilewright.sim.machine import from_bits, joined, reinterpret


def _templates(meaning: str) -> dict[str, str]:
    """How a column of operators is written in Python: by its symbol where that is what it means, else as a call."""
    texts = {}
    for op in (*ir.Binary.ARITHMETIC, *ir.Binary.BITS):
        function = getattr(OPERATORS[op], meaning)
        texts[op] = f"{{a}} {op} {{b}}" if function in vars(operator).values() else f"{function.__name__}({{a}}, {{b}})"
    return texts


UNIFORM_INTEGER, ARRAYS = _templates("number"), _templates("array")
WRAPS = (*MODULAR, *DIVISIONS)  # of integers: the result may leave the dtype's range
FLOATS = ARRAYS | {"/": "quotient({a}, {b})", "min": "least({a}, {b})", "max": "greatest({a}, {b})"}


# One rule per node


def _const(e: Emitter, expr: ir.Const, mask: str) -> Operand:
    if is_number(expr.dtype):
        return Operand(repr(expr.value) if expr.value >= 0 else f"({expr.value!r})")
    if not expr.dtype.is_float:
        return Operand(e.out.constant("K", expr.dtype.numpy.type(expr.value)))
    constant = cast(DType("float64"), expr.dtype.element)(np.array(expr.value, np.float64))
    return Operand(e.out.constant("K", constant[()]))


def _var(e: Emitter, expr: ir.Var, mask: str) -> Operand:
    name = e.variable(expr.name)
    return Operand(name, f"{name}_s" if expr.name in e.program.shadowed else None)


def _special(e: Emitter, expr: ir.Special, mask: str) -> Operand:
    return Operand(f"special[{expr.name!r}]")


def _unary(e: Emitter, expr: ir.Unary, mask: str) -> Operand:
    a = e.sound(expr.a, mask)
    uniform = e.axes.of(expr) == UNIFORM and is_number(expr.dtype)
    if expr.op == "not":
        return Operand(f"(not {a})" if uniform else f"~{a}")
    text = f"({expr.op}{a})"
    if uniform and expr.dtype.kind != "bool":
        text = f"{e.out.constant('W', wrapper(expr.dtype))}{text}"
    return Operand(text)


def _binary(e: Emitter, expr: ir.Binary, mask: str) -> Operand:
    if expr.op in ir.Binary.LOGIC:
        return _logic(e, expr, mask)
    a, b = e.sound(expr.a, mask), e.sound(expr.b, mask)
    if (check := e.program.hears("operands", expr, e.at)) is not None:
        a, b = e.out.named("v", a), e.out.named("v", b)
        e.out.line(f"{e.out.constant('O', check)}({mask}, {a}, {b})")
    uniform = e.axes.of(expr) == UNIFORM and is_number(expr.a.dtype)
    if expr.op in ir.Binary.COMPARISONS:
        return Operand(f"({a} {expr.op} {b})" if uniform or e.axes.of(expr) else f"bool({a} {expr.op} {b})")
    if uniform:
        divides = expr.op in ("//", "%") and (ir.const_value(expr.b) or 0) > 0
        text = f"{a} {expr.op} {b}" if divides else UNIFORM_INTEGER[expr.op].format(a=a, b=b)
        wraps = expr.op in WRAPS and not divides
        return Operand(f"{e.out.constant('W', wrapper(expr.dtype))}({text})" if wraps else f"({text})")
    if expr.dtype.is_float:
        return Operand(f"({FLOATS[expr.op].format(a=a, b=b)})")
    return Operand(f"({_by_power_of_two(e, expr, a) or ARRAYS[expr.op].format(a=a, b=b)})")


def _by_power_of_two(e: Emitter, expr: ir.Binary, a: str) -> str | None:
    """Division and remainder that floor, by a power of two, as bit operations: several times faster."""
    divisor = ir.const_value(expr.b)
    if expr.op not in ("//", "%") or not isinstance(divisor, int) or divisor <= 0 or divisor & (divisor - 1):
        return None
    return f"{a} >> {divisor.bit_length() - 1}" if expr.op == "//" else f"{a} & {divisor - 1}"


def _logic(e: Emitter, expr: ir.Binary, mask: str) -> Operand:
    uniform = e.axes.of(expr) == UNIFORM
    a = e.sound(expr.a, mask, "a condition")
    if not e.stays_guarded(expr.b):
        b = e.sound(expr.b, mask, "a condition")
    else:
        first = e.out.named("c", a)
        test = first if expr.op == "and" else f"(not {first})" if e.axes.of(expr.a) == UNIFORM else f"~{first}"
        a, b = first, e.guarded(expr.b, test, mask, "a condition").text
    if uniform:
        return Operand(f"({a} {expr.op} {b})")
    return Operand(f"({a} {'&' if expr.op == 'and' else '|'} {b})")


def _select(e: Emitter, expr: ir.Select, mask: str) -> Operand:
    cond = e.out.named("c", e.sound(expr.cond, mask, "a condition"))
    uniform = e.axes.of(expr.cond) == UNIFORM
    sides = []
    for side, test in ((expr.a, cond), (expr.b, f"(not {cond})" if uniform else f"~{cond}")):
        sides.append(e.guarded(side, test, mask) if e.stays_guarded(side) else e.value(side, mask))
    flags = _chosen_flags(e, expr, cond, uniform, sides)
    texts = [side.text for side in sides]
    if e.axes.of(expr) != UNIFORM:
        texts = [e.array(side, text) for side, text in zip((expr.a, expr.b), texts, strict=True)]
    if uniform:
        return Operand(f"({texts[0]} if {cond} else {texts[1]})", flags)
    test = f"{cond}[..., None]" if expr.dtype.lanes > 1 else cond
    return Operand(f"np.where({test}, {texts[0]}, {texts[1]})", flags)


def _chosen_flags(e: Emitter, expr: ir.Select, cond: str, uniform: bool, sides: list[Operand]) -> str | None:
    if all(side.shadow is None for side in sides):
        return None
    a, b = (side.shadow or e.valid(expr.dtype) for side in sides)
    return e.out.named("s", f"({a} if {cond} else {b})" if uniform else f"np.where({cond}, {a}, {b})")


def _cast(e: Emitter, expr: ir.Cast, mask: str) -> Operand:
    source, kind = expr.a.dtype, expr.dtype
    text = e.sound(expr.a, mask)
    uniform = e.axes.of(expr) == UNIFORM
    if uniform and is_number(source) and is_number(kind):
        if kind.kind == "bool":
            return Operand(f"({text} != 0)")
        return Operand(f"{e.out.constant('W', wrapper(kind))}(int({text}))")
    text = f"{e.out.constant('C', cast(source.element, kind.element))}({text})"
    if source.lanes < kind.lanes:
        return Operand(f"{e.out.constant('J', joined(kind))}(*{kind.lanes} * [{text}])")
    if not uniform:
        return Operand(text)
    number = "bool" if kind.kind == "bool" else "int"
    return Operand(f"{number}({text})" if is_number(kind) else f"{text}[()]")


def _reinterpret(e: Emitter, expr: ir.Reinterpret, mask: str) -> Operand:
    a = e.value(expr.a, mask)
    text = f"{e.out.constant('R', reinterpret(expr.a.dtype, expr.dtype))}({a.text})"
    return Operand(e.unpacked(expr, text), a.shadow)


def _vector(e: Emitter, expr: ir.Vector, mask: str) -> Operand:
    parts = ", ".join(e.sound(part, mask) for part in expr.parts)
    return Operand(f"{e.out.constant('J', joined(expr.dtype))}({parts})")


def _component(e: Emitter, expr: ir.Component, mask: str) -> Operand:
    return Operand(e.unpacked(expr, f"component({e.sound(expr.a, mask)}, {expr.index})"))


def _load(e: Emitter, expr: ir.Load, mask: str) -> Operand:
    site, at = access_text(e, expr, mask, write=False)
    poisoned = e.may_be_poison(expr)
    nibbles = expr.dtype.bits < 8
    at = e.out.named("a", at) if poisoned or nibbles else at
    view = f"view_nibbles({site}, {mask}, {at})" if nibbles else f"{site}.view({mask}, {at})"
    view = e.out.named("w", view) if poisoned else view
    bits = f"from_nibbles({view}.load(), {at}.full())" if nibbles else f"{view}.load()"
    text = e.unpacked(expr, f"{e.out.constant('F', from_bits(expr.dtype))}({bits})")
    if not poisoned:
        return Operand(text)
    text = e.out.named("v", text)
    origin = "" if nibbles or not expr.indices else f", {site}, {at}"  # a register has no memory that bits came from
    return Operand(text, e.shadow(expr.dtype, f"{view}.flags()", mask), origin)


def _address_of(e: Emitter, expr: ir.AddressOf, mask: str) -> Operand:
    at = generic_address_text(e, expr, mask)
    if e.axes.of(expr) == UNIFORM:
        return Operand(f"{at}.start")
    return Operand(f"{at}.full()")


RULES: dict[type[ir.Expr], Callable[..., Operand]] = {
    ir.Const: _const,
    ir.Var: _var,
    ir.Special: _special,
    ir.Unary: _unary,
    ir.Binary: _binary,
    ir.Select: _select,
    ir.Cast: _cast,
    ir.Reinterpret: _reinterpret,
    ir.Vector: _vector,
    ir.Component: _component,
    ir.Load: _load,
    ir.AddressOf: _address_of,
    ir.Call: call_value,
}
