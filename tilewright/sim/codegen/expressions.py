"""From expressions to Python source over arrays.

A value is text plus, where it may hold uninitialised bits, the text of its shadow: flags that travel with it and stand
in the same places (see `tilewright.sim.checks.poison`). Whatever looks at a value rather than moving it asks for
`Expressions.sound`, which emits the test of the shadow. Sides of a `select`, ``and`` and ``or`` that touch memory run
under a mask of their own, so that a guarded load is safe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir import (
    AddressOf,
    Binary,
    Call,
    Cast,
    Component,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Special,
    Unary,
    Var,
    Vector,
    const_value,
    walk,
)
from tilewright.ir.fold import DIVISIONS
from tilewright.sim.checks.arithmetic import Operands, may_fault
from tilewright.sim.checks.poison import Need
from tilewright.sim.codegen.axes import UNIFORM
from tilewright.sim.codegen.calls import CallEmitter
from tilewright.sim.codegen.emitter import Operand
from tilewright.sim.machine.arithmetic import caster, wrapper
from tilewright.sim.machine.convert import from_bits, joined, reinterpret, width_of
from tilewright.sim.machine.memory import UNITS

__all__ = ["Expressions", "is_number"]


UNIFORM_INTEGER = {  # templates; those of WRAPS may leave the dtype's range
    "+": "{a} + {b}",
    "-": "{a} - {b}",
    "*": "{a} * {b}",
    "//": "floor_div({a}, {b})",
    "%": "floor_mod({a}, {b})",
    "truncdiv": "trunc_div({a}, {b})",
    "truncmod": "trunc_mod({a}, {b})",
    "min": "min({a}, {b})",
    "max": "max({a}, {b})",
    "&": "{a} & {b}",
    "|": "{a} | {b}",
    "^": "{a} ^ {b}",
    "<<": "shift_left({a}, {b})",
    ">>": "shift_right({a}, {b})",
}
WRAPS = ("+", "-", "*", *DIVISIONS, "<<")
ARRAYS = UNIFORM_INTEGER | {
    "min": "np.minimum({a}, {b})",
    "max": "np.maximum({a}, {b})",
    "<<": "({a} << {b})",
    ">>": "({a} >> {b})",
}
FLOATS = ARRAYS | {"/": "quotient({a}, {b})", "min": "float_min({a}, {b})", "max": "float_max({a}, {b})"}


LONGEST = 800  # letters of an expression, as Python reads 200 brackets in one another


def is_number(kind: DType) -> bool:
    """Is a uniform value of this dtype a Python int or bool?"""
    return not kind.is_float and kind.lanes == 1


class Expressions(CallEmitter):
    """Emits expressions."""

    def value(self, expr: Expr, mask: str) -> Operand:
        """The value of ``expr`` in the lanes of ``mask``."""
        if self.known and (known := self.known.get(expr)) is not None:
            return known
        operand = _RULES[type(expr)](self, expr, mask)
        if len(operand.text) > LONGEST:
            return replace(operand, text=self.out.named("v", operand.text))
        return operand

    def sound(self, expr: Expr, mask: str, use: str = "arithmetic") -> str:
        """The text of a value that is looked at: uninitialised bits in it are an error under checks."""
        operand = self.value(expr, mask)
        if operand.shadow is not None:
            text = self.out.named("v", operand.text)
            need = self.out.constant("N", Need(f"`{expr}`", use, self.at))
            self.out.line(f"{need}(b, {mask}, {operand.shadow}{operand.origin})")
            return text
        return operand.text

    def array(self, expr: Expr, text: str) -> str:
        """``text`` as something with the dtype of ``expr``, even where it is a Python number."""
        if self.axes.of(expr) == UNIFORM and is_number(expr.dtype):
            return f"{self.out.constant('D', expr.dtype.numpy.type)}({text})"
        return text

    def stays_guarded(self, expr: Expr) -> bool:
        """Must it be left alone in lanes that do not ask for it?"""
        return any(isinstance(node, (Load, Call)) or self.is_checked(node) for node in walk(expr))

    def is_checked(self, expr: Expr) -> bool:
        """Is it an operation whose operands a check looks at?"""
        return "arithmetic" in self.program.checks and may_fault(expr)

    # One rule per node

    def _const(self, expr: Const, mask: str) -> Operand:
        if is_number(expr.dtype):
            return Operand(repr(expr.value) if expr.value >= 0 else f"({expr.value!r})")
        if not expr.dtype.is_float:
            return Operand(self.out.constant("K", expr.dtype.numpy.type(expr.value)))
        made = caster(DType("float64"), expr.dtype.element)(np.array(expr.value, np.float64))
        return Operand(self.out.constant("K", made[()]))

    def _var(self, expr: Var, mask: str) -> Operand:
        name = self.variable(expr)
        return Operand(name, f"{name}_s" if expr.name in self.program.shadowed else None)

    def _special(self, expr: Special, mask: str) -> Operand:
        return Operand(f"special[{expr.name!r}]")

    def _unary(self, expr: Unary, mask: str) -> Operand:
        a = self.sound(expr.a, mask)
        uniform = self.axes.of(expr) == UNIFORM and is_number(expr.dtype)
        if expr.op == "not":
            return Operand(f"(not {a})" if uniform else f"~{a}")
        text = f"({expr.op}{a})"
        if uniform and expr.dtype.kind != "bool":
            text = f"{self.out.constant('W', wrapper(expr.dtype))}{text}"
        return Operand(text)

    def _binary(self, expr: Binary, mask: str) -> Operand:
        if expr.op in Binary.LOGIC:
            return self._logic(expr, mask)
        a, b = self.sound(expr.a, mask), self.sound(expr.b, mask)
        if self.is_checked(expr):
            a, b = self.out.named("v", a), self.out.named("v", b)
            self.out.line(f"{self.out.constant('O', Operands(expr, self.at))}(b, {mask}, {a}, {b})")
        uniform = self.axes.of(expr) == UNIFORM and is_number(expr.a.dtype)
        if expr.op in Binary.COMPARISONS:
            return Operand(f"({a} {expr.op} {b})" if uniform or self.axes.of(expr) else f"bool({a} {expr.op} {b})")
        if uniform:
            divides = expr.op in ("//", "%") and (const_value(expr.b) or 0) > 0
            text = f"{a} {expr.op} {b}" if divides else UNIFORM_INTEGER[expr.op].format(a=a, b=b)
            wraps = expr.op in WRAPS and not divides
            return Operand(f"{self.out.constant('W', wrapper(expr.dtype))}({text})" if wraps else f"({text})")
        if expr.dtype.is_float:
            return Operand(f"({FLOATS[expr.op].format(a=a, b=b)})")
        return Operand(f"({self._by_power_of_two(expr, a) or ARRAYS[expr.op].format(a=a, b=b)})")

    def _by_power_of_two(self, expr: Binary, a: str) -> str | None:
        """Division and remainder that floor, by a power of two, as bit operations: several times faster."""
        divisor = const_value(expr.b)
        if expr.op not in ("//", "%") or not isinstance(divisor, int) or divisor <= 0 or divisor & (divisor - 1):
            return None
        return f"{a} >> {divisor.bit_length() - 1}" if expr.op == "//" else f"{a} & {divisor - 1}"

    def _logic(self, expr: Binary, mask: str) -> Operand:
        uniform = self.axes.of(expr) == UNIFORM
        a = self.sound(expr.a, mask, "a condition")
        if not self.stays_guarded(expr.b):
            b = self.sound(expr.b, mask, "a condition")
        else:
            first = self.out.named("c", a)
            test = first if expr.op == "and" else f"(not {first})" if self.axes.of(expr.a) == UNIFORM else f"~{first}"
            a, b = first, self.guarded(expr.b, test, mask, "a condition").text
        if uniform:
            return Operand(f"({a} {expr.op} {b})")
        return Operand(f"({a} {'&' if expr.op == 'and' else '|'} {b})")

    def guarded(self, expr: Expr, test: str, mask: str, use: str = "") -> Operand:
        """The value of ``expr`` in the lanes where ``test`` holds; anything of its dtype in the others."""
        inner, name = self.out.fresh("m"), self.out.fresh("v")
        self.out.line(f"{inner} = {mask}.narrowed({test})")
        self.out.line(f"if {inner} is None: {name} = {self._zero(expr)}")
        flags = f"{name}_s" if not use and self.may_be_poison(expr) else None
        if flags:
            self.out.line(f"if {inner} is None: {flags} = {self.valid(expr.dtype)}")
        with self.out.block(f"if {inner} is not None:"):
            if flags:
                operand = self.value(expr, inner)
                self.out.line(f"{name}, {flags} = {operand.text}, {operand.shadow or self.valid(expr.dtype)}")
            else:
                self.out.line(f"{name} = {self.sound(expr, inner, use or 'arithmetic')}")
        return Operand(name, flags)

    def _zero(self, expr: Expr) -> str:
        if self.axes.of(expr) == UNIFORM and is_number(expr.dtype):
            return "False" if expr.dtype.kind == "bool" else "0"
        return self.out.constant("K", np.zeros((), expr.dtype.numpy)[()])

    def _select(self, expr: Select, mask: str) -> Operand:
        cond = self.out.named("c", self.sound(expr.cond, mask, "a condition"))
        uniform = self.axes.of(expr.cond) == UNIFORM
        sides = []
        for side, test in ((expr.a, cond), (expr.b, f"(not {cond})" if uniform else f"~{cond}")):
            sides.append(self.guarded(side, test, mask) if self.stays_guarded(side) else self.value(side, mask))
        flags = self._chosen_flags(expr, cond, uniform, sides)
        if uniform:
            return Operand(f"({sides[0].text} if {cond} else {sides[1].text})", flags)
        test = f"{cond}[..., None]" if expr.dtype.lanes > 1 else cond
        texts = [self.array(side, operand.text) for side, operand in zip((expr.a, expr.b), sides, strict=True)]
        return Operand(f"np.where({test}, {texts[0]}, {texts[1]})", flags)

    def _chosen_flags(self, expr: Select, cond: str, uniform: bool, sides: list[Operand]) -> str | None:
        if all(side.shadow is None for side in sides):
            return None
        a, b = (side.shadow or self.valid(expr.dtype) for side in sides)
        return self.out.named("s", f"({a} if {cond} else {b})" if uniform else f"np.where({cond}, {a}, {b})")

    def _cast(self, expr: Cast, mask: str) -> Operand:
        source, kind = expr.a.dtype, expr.dtype
        text = self.sound(expr.a, mask)
        uniform = self.axes.of(expr) == UNIFORM
        if uniform and is_number(source) and is_number(kind):
            if kind.kind == "bool":
                return Operand(f"({text} != 0)")
            return Operand(f"{self.out.constant('W', wrapper(kind))}(int({text}))")
        text = f"{self.out.constant('C', caster(source.element, kind.element))}({text})"
        if source.lanes < kind.lanes:
            return Operand(f"{self.out.constant('J', joined(kind))}(*{kind.lanes} * [{text}])")
        if not uniform:
            return Operand(text)
        number = "bool" if kind.kind == "bool" else "int"
        return Operand(f"{number}({text})" if is_number(kind) else f"{text}[()]")

    def _reinterpret(self, expr: Reinterpret, mask: str) -> Operand:
        a = self.value(expr.a, mask)
        text = f"{self.out.constant('R', reinterpret(expr.a.dtype, expr.dtype))}({a.text})"
        return Operand(self.unpacked(expr, text), a.shadow)

    def _vector(self, expr: Vector, mask: str) -> Operand:
        parts = ", ".join(self.sound(part, mask) for part in expr.parts)
        return Operand(f"{self.out.constant('J', joined(expr.dtype))}({parts})")

    def _component(self, expr: Component, mask: str) -> Operand:
        return Operand(self.unpacked(expr, f"component({self.sound(expr.a, mask)}, {expr.index})"))

    def unpacked(self, expr: Expr, text: str) -> str:
        """An array whose elements are all the same as the number that uniform values are."""
        if self.axes.of(expr) != UNIFORM:
            return text
        if expr.dtype.lanes > 1:
            return f"{text}.copy()"
        return f"{text}.item(0)" if is_number(expr.dtype) else f"{text}.reshape(-1)[0]"

    def _load(self, expr: Load, mask: str) -> Operand:
        site, at = self.access(expr, mask, write=False)
        poisoned = self.may_be_poison(expr)
        at = self.out.named("a", at) if poisoned else at
        nibbles = expr.dtype.bits < 8
        bits = f"load_nibbles({site}, b, {mask}, {at})" if nibbles else f"{site}.load(b, {mask}, {at})"
        text = self.unpacked(expr, f"{self.out.constant('F', from_bits(expr.dtype))}({bits})")
        if not poisoned:
            return Operand(text)
        text = self.out.named("v", text)
        flags = f"nibble_flags({site}, b, {mask}, {at})" if nibbles else f"{site}.flags(b, {mask}, {at})"
        return Operand(text, self.out.named("s", flags), "" if nibbles else f", {site}, {at}")

    def _address_of(self, expr: AddressOf, mask: str) -> Operand:
        at = self.generic_address(expr, mask)
        if self.axes.of(expr) == UNIFORM:
            return Operand(f"{at}.start")
        return Operand(f"{at}.full()")

    def _call(self, expr: Call, mask: str) -> Operand:
        return self.call(expr, mask)

    # Shadows

    def valid(self, kind: DType) -> str:
        """The flags of an initialised value."""
        width = width_of(kind)
        return self.out.constant("V", np.frombuffer(b"\x01" * width, UNITS[width])[0])


_RULES: dict[type[Expr], Callable[..., Operand]] = {
    Const: Expressions._const,
    Var: Expressions._var,
    Special: Expressions._special,
    Unary: Expressions._unary,
    Binary: Expressions._binary,
    Select: Expressions._select,
    Cast: Expressions._cast,
    Reinterpret: Expressions._reinterpret,
    Vector: Expressions._vector,
    Component: Expressions._component,
    Load: Expressions._load,
    AddressOf: Expressions._address_of,
    Call: Expressions._call,
}
