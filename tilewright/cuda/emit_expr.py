"""Expressions as C++: the operators on integers, floats and vectors, and one rule per node."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import ir
from tilewright.cuda.emit_call import call, convert, from_float32, to_float32
from tilewright.cuda.emit_unit import (
    LEVELS,
    Cpp,
    Level,
    Scope,
    TranslationUnit,
    address,
    assembly,
    carried_as_bits,
    cpp_type,
    load,
)
from tilewright.dtypes import INT32, DType, dtype
from tilewright.ir.intervals import limits
from tilewright.ir.operators import DIVIDED_BY_ZERO, DIVISIONS, MODULAR, OPERATORS, SHIFTS, UNARY, transfer
from tilewright.isa.arith import extreme_helper, row_of
from tilewright.records import replace

# Integer operators: the language's wrap-around and flooring, in C++ that has neither.
#
# Signed overflow, division by zero and shifts by the width are undefined in C++, and ``/`` and ``%`` truncate. Where
# the ranges of the operands exclude all of that, the plain operator is written; else the operator on unsigned numbers,
# or a helper that does what the hardware does.


def infix(op: str, a: Cpp, b: Cpp) -> Cpp:
    """``a op b``; operands of shifts and bit operators keep their parentheses, for readers."""
    symbol = OPERATORS[op].cuda
    level = LEVELS[symbol]
    left, right = level, level + 1
    if op in ("<<", ">>", "&", "^", "|"):
        left = level if a.level == level and op not in SHIFTS else Level.UNARY
        right = Level.UNARY
    return Cpp(f"{a.at(left)} {symbol} {b.at(right)}", level)


def integer_binary(node: ir.Binary, scope: Scope) -> Cpp:
    """An arithmetic or bit operator on integers of one dtype."""
    if node.op in ("min", "max"):
        return Cpp.call(node.op, scope.cpp(node.a), scope.cpp(node.b))
    if node.op in DIVISIONS:
        return _divided(node, scope)
    if node.op in MODULAR and not _fits(node, scope):
        return _modular(node, scope).cast(cpp_type(node.dtype))
    a, b = scope.cpp(node.a), scope.cpp(node.b)
    return _shifted(node, a, b, scope) if node.op == ">>" and not _counts(node, scope) else infix(node.op, a, b)


def integer_unary(node: ir.Unary, scope: Scope) -> Cpp:
    """``-a`` or ``~a``."""
    a = scope.cpp(node.a)
    if node.op == "-":
        if _negation_fits(node, scope):
            return Cpp(f"-{a.at(Level.ATOM)}", Level.UNARY)
        return _modular(node, scope).cast(cpp_type(node.dtype))
    inverted = Cpp(f"~{a.at(Level.UNARY)}", Level.UNARY)
    return inverted.cast(cpp_type(node.dtype)) if node.dtype.bits < 32 and not node.dtype.is_signed else inverted


def abs_bound(node: ir.Expr, scope: Scope) -> int:
    """The largest magnitude that an integer may have."""
    interval = scope.facts.interval(node)
    return max(abs(interval.low), abs(interval.high))


def _fits(node: ir.Binary, scope: Scope) -> bool:
    """Can the operator neither overflow nor wrap? Unsigned words wrap in C++ as they do in the language."""
    kind = node.dtype
    if node.op == "<<" and not _counts(node, scope):
        return False
    if kind.kind == "uint" and kind.bits >= 32:
        return True
    a, b = scope.facts.interval(node.a), scope.facts.interval(node.b)
    if node.op == "<<" and (a.low < 0 or b.high >= kind.bits):
        return False
    ideal = transfer(node.op, a, b, kind.bits)
    return ideal is not None and ideal.inside(limits(kind))


def _counts(node: ir.Binary, scope: Scope) -> bool:
    """Is the second operand of a shift certainly a count for which C++ defines the result?"""
    count = scope.facts.interval(node.b)
    return count.low >= 0 and count.high < max(32, node.dtype.bits)


def _negation_fits(node: ir.Unary, scope: Scope) -> bool:
    if node.dtype.kind == "uint":
        return node.dtype.bits >= 32
    return scope.facts.interval(node.a).low > limits(node.dtype).low


def _modular(node: ir.Expr, scope: Scope) -> Cpp:
    """The value modulo 2**bits, as an unsigned integer of at least 32 bits: sums of sums stay unsigned in between."""
    bits = max(32, node.dtype.bits)
    if isinstance(node, ir.Const):
        suffix = "u" if bits == 32 else "ull"
        return Cpp(f"{int(node.value) & ((1 << bits) - 1)}{suffix}")
    if isinstance(node, ir.Binary) and node.op in MODULAR and not _fits(node, scope):
        a = _modular(node.a, scope)
        if node.op == "<<":
            b = scope.cpp(node.b)
            return infix(node.op, a, b) if _counts(node, scope) else _shifted(node, a, b, scope)
        return infix(node.op, a, _modular(node.b, scope))
    if isinstance(node, ir.Unary) and node.op == "-":
        return Cpp(f"-{_modular(node.a, scope).at(Level.UNARY)}", Level.UNARY)
    value = scope.cpp(node)
    return value if node.dtype.kind == "uint" and node.dtype.bits >= 32 else value.cast(cpp_type(dtype(f"uint{bits}")))


def _shifted(node: ir.Binary, a: Cpp, b: Cpp, scope: Scope) -> Cpp:
    """A shift by any count: one that is negative or not below the width leaves the sign, and of ``<<`` nothing."""
    bits = max(32, node.dtype.bits)
    count = cpp_type(dtype(f"uint{bits}"))
    keeps_sign = node.op == ">>" and node.dtype.is_signed
    number = cpp_type(dtype(f"int{bits}")) if keeps_sign else count
    name = f"shift_{'left' if node.op == '<<' else 'right'}_{'' if keeps_sign else 'u'}int{bits}"
    result = f"a >> (b < {bits} ? b : {bits - 1})" if keeps_sign else f"b < {bits} ? a {node.op} b : 0"
    comment = "What is shifted by the width or more is gone, where C++ leaves it open."
    scope.unit.function(name, f"{number} ({number} a, {count} b)", f"return {result};", comment=comment)
    return Cpp.call(name, a, b)


def _divided(node: ir.Binary, scope: Scope) -> Cpp:
    """``//`` and ``%`` round down: what C++ does for operands that are not negative, and a shift or mask for 2**k."""
    a, b = scope.cpp(node.a), scope.cpp(node.b)
    left, right = scope.facts.interval(node.a), scope.facts.interval(node.b)
    floors = node.op in ("//", "%")
    overflows = left.low == limits(node.dtype).low and right.low <= -1 <= right.high
    any_divisor = overflows or right.low <= 0 <= right.high
    if not any_divisor and (not floors or (left.low >= 0 and right.low >= 0)):
        return infix(node.op, a, b)
    divisor = ir.const_value(node.b)
    if floors and divisor is not None and divisor > 0 and (int(divisor) & int(divisor) - 1) == 0:
        return _by_power(node, a, int(divisor))
    name = _division_helper(node.op, node.dtype, scope, any_divisor=any_divisor)
    return Cpp.call(name, a, b)


def _by_power(node: ir.Binary, a: Cpp, divisor: int) -> Cpp:
    if node.op == "//":
        return infix(">>", a, Cpp(str(divisor.bit_length() - 1)))
    return infix("&", a, Cpp(str(divisor - 1) + ("ll" if node.dtype.bits == 64 else "")))


_QUOTIENT = {  # where C++ defines a / b; the first two round down
    "//": ("{number} q = ({number})(a / b);", "return ({number})(q - (a % b != 0 && (a ^ b) < 0));"),
    "%": ("{number} r = ({number})(a % b);", "return ({number})(r + (r != 0 && (r ^ b) < 0 ? b : 0));"),
    "truncdiv": ("return ({number})(a / b);",),
    "truncmod": ("return ({number})(a % b);",),
}
_COMMENTS = {"//": "Rounds down, where C++ rounds toward zero.", "%": "Has the sign of b, where C++ gives it a's."}
_DEFINED = "Says what the hardware does where b is 0, which C++ leaves open."


def _division_helper(op: str, kind: DType, scope: Scope, *, any_divisor: bool) -> str:
    """A function for operands that C++ divides otherwise, and on request for those that it cannot divide."""
    number = cpp_type(kind)
    rounding = op if kind.is_signed else {"//": "truncdiv", "%": "truncmod"}.get(op, op)
    lines = [line.format(number=number) for line in _QUOTIENT[rounding]]
    comments = [_COMMENTS[rounding]] if rounding in _COMMENTS else []
    if any_divisor:
        lines = [f"if (b == 0) return ({number}){DIVIDED_BY_ZERO};", *_by_minus_one(op, kind), *lines]
        comments.append(_DEFINED)
    name = f"{OPERATORS[op].word}_{'any_' if any_divisor else ''}{kind}"
    return scope.unit.function(name, f"{number} ({number} a, {number} b)", *lines, comment="\n".join(comments))


def _by_minus_one(op: str, kind: DType) -> list[str]:
    """Signed numbers, of which the smallest has no positive counterpart: it stays what it is."""
    if not kind.is_signed:
        return []
    zero = "0ull" if kind.bits == 64 else "0u"
    quotient = f"({cpp_type(kind)})({zero} - a)" if op in ("//", "truncdiv") else "0"
    return [f"if (b == -1) return {quotient};"]


# Operators on floats: plain C++ for float and double, one function per operator for dtypes that C++ does not know.


FLOAT32 = dtype("float32")

_EXTREMES = {"min": "minimum", "max": "maximum"}  # a NaN wins


def float_binary(op: str, a: Cpp, b: Cpp, kind: DType, unit: TranslationUnit) -> Cpp:
    """``a op b`` of scalar floats, rounded once to ``kind``."""
    if not carried_as_bits(kind):
        return _plain(op, a, b, kind, unit)
    name = f"{OPERATORS[op].word}_{kind}"
    if name not in unit.helpers:
        _narrow_operator(name, op, kind, unit)
    return Cpp.call(name, a, b)


def float_negated(a: Cpp, kind: DType, unit: TranslationUnit) -> Cpp:
    """``-a``: the sign bit flipped; a dtype of powers of two has none."""
    if kind == "float8_e8m0fnu":
        return from_float32(Cpp(f"-{to_float32(a, kind, unit).text}"), kind, unit)
    if not carried_as_bits(kind):
        return Cpp(f"-{a.at(Level.ATOM)}", Level.UNARY)
    sign = 1 << kind.value_bits - 1
    return Cpp(f"{a.at(Level.UNARY)} ^ 0x{sign:x}", Level.BIT_XOR).cast(cpp_type(kind))


def _plain(op: str, a: Cpp, b: Cpp, kind: DType, unit: TranslationUnit) -> Cpp:
    suffix = "f" if kind.bits == 32 else ""
    if op in ("+", "-", "*", "/"):
        return infix(op, a, b)
    if op in _EXTREMES:
        name, text = extreme_helper(_EXTREMES[op], kind)
        return Cpp.call(unit.helper(name, text.rstrip()), a, b)
    if op == "truncmod":
        return Cpp.call(f"fmod{suffix}", a, b)
    if op == "truncdiv":
        return Cpp.call(f"trunc{suffix}", infix("/", a, b))
    helper = _floor_mod if op == "%" else _floor_div
    return Cpp.call(helper(kind, suffix, unit), a, b)


def _floor_div(kind: DType, suffix: str, unit: TranslationUnit) -> str:
    number = cpp_type(kind)
    return unit.function(
        f"floor_div_{kind}",
        f"{number} ({number} a, {number} b)",
        f"{number} r = fmod{suffix}(a, b);",
        "if (b == 0) return a / b;",
        f"{number} q = rint{suffix}((a - r) / b) - (r != 0 && (r < 0) != (b < 0));",
        f"return q == 0 ? copysign{suffix}(q, a / b) : q;",
        comment="The exact quotient rounded down: a / b might have rounded up before.",
    )


def _floor_mod(kind: DType, suffix: str, unit: TranslationUnit) -> str:
    number = cpp_type(kind)
    return unit.function(
        f"floor_mod_{kind}",
        f"{number} ({number} a, {number} b)",
        f"{number} r = fmod{suffix}(a, b);",
        f"return r == 0 ? copysign{suffix}(r, b) : (r < 0) != (b < 0) ? r + b : r;",
        comment="Has the sign of b, where C's fmod gives it a's.",
    )


def _narrow_operator(name: str, op: str, kind: DType, unit: TranslationUnit) -> None:
    """The target's own instruction, or the same in float32, so wide that rounding twice is rounding once."""
    number = cpp_type(kind)
    if row := row_of(op, kind, unit.arch):
        unit.number_instruction(name, row, number, (number, number))
        return
    a, b = (to_float32(Cpp(side), kind, unit) for side in "ab")
    result = from_float32(_plain(op, a, b, FLOAT32, unit), kind, unit)
    unit.function(name, f"{number} ({number} a, {number} b)", f"return {result.text};")


# Vectors of 2, 4 or 8 elements: a struct each, and operators that go element by element.


def broadcast(element: Cpp, kind: DType, unit: TranslationUnit) -> Cpp:
    """A vector of equal elements."""
    name = f"broadcast_{kind}"
    if name not in unit.helpers:
        unit.vector(kind)
        _loop(name, f"{cpp_type(kind.element)} a", "a", kind, unit)
    return Cpp.call(name, element)


def joined(node: ir.Vector, scope: Scope) -> Cpp:
    """A vector of components."""
    parts, kind, unit = [scope.cpp(part) for part in node.parts], node.dtype, scope.unit
    unit.vector(kind)
    element = cpp_type(kind.element)
    names = [f"e{i}" for i in range(kind.lanes)]
    held = names
    if kind.element.bits < 8:
        held = [f"({element})({low} & 0xf | {high} << 4)" for low, high in zip(names[::2], names[1::2], strict=True)]
    params = ", ".join(f"{element} {name}" for name in names)
    name = unit.function(f"vector_{kind}", f"{kind} ({params})", f"return {{{{{', '.join(held)}}}}};")
    return Cpp.call(name, *parts)


def component(node: ir.Component, scope: Scope) -> Cpp:
    """One component of a vector."""
    value, index = scope.cpp(node.a).at(Level.ATOM), node.index
    if node.dtype.bits < 8:
        return Cpp(f"{value}.x[{index // 2}] >> {4 * (index % 2)} & 0xf", Level.BIT_AND)
    return Cpp(f"{value}.x[{index}]")


def elementwise(node: ir.Unary | ir.Binary | ir.Cast, scope: Scope) -> Cpp:
    """An operator on vectors: a function that does to each element what the operator does to a scalar."""
    sides = (node.a, node.b) if isinstance(node, ir.Binary) else (node.a,)
    operands = [scope.cpp(side) for side in sides]
    kind, unit = node.dtype, scope.unit
    source = node.a.dtype
    name = f"{kind}_from_{source}" if isinstance(node, ir.Cast) else f"{_word(node)}_{kind}"
    if name not in unit.helpers:
        for vector in (source, kind):
            unit.vector(vector)
        first = node.op if isinstance(node, ir.Binary) else str(source)
        if not isinstance(node, ir.Unary) and (row := row_of(first, str(kind), unit.arch)) is not None:
            _packed(node, name, row.text, unit)
        else:
            params = ", ".join(f"{source} {letter}" for letter in "ab"[: len(operands)])
            _loop(name, params, _on_elements(node, scope).text, kind, unit)
    return Cpp.call(name, *operands)


def _word(node: ir.Unary | ir.Binary) -> str:
    return (UNARY if isinstance(node, ir.Unary) else OPERATORS)[node.op].word


def _on_elements(node: ir.Unary | ir.Binary | ir.Cast, scope: Scope) -> Cpp:
    """The operator on element i; the variables stand for C++ that is no name of the kernel."""
    source = node.a.dtype.element
    text = "({}.x[i / 2] >> 4 * (i % 2) & 0xf)" if source.bits < 8 else "{}.x[i]"
    sides = [ir.Var(f"{letter}@element", source) for letter in "ab"]
    for side in sides:
        scope.unit.names.spellings[side.name] = text.format(side.name[0])
    scalar = replace(node, a=sides[0], dtype=node.dtype.element)
    return scope.cpp(replace(scalar, b=sides[1]) if isinstance(scalar, ir.Binary) else scalar)


def _loop(name: str, params: str, value: str, kind: DType, unit: TranslationUnit) -> None:
    packed = kind.element.bits < 8
    place = f"d.x[i / 2] |= ({value} & 0xf) << 4 * (i % 2);" if packed else f"d.x[i] = {value};"
    lines = [
        f"{kind} d{' = {}' if packed else ''};",
        "#pragma unroll",
        f"for (int i = 0; i < {kind.lanes}; ++i) {place}",
    ]
    unit.function(name, f"{kind} ({params})", *lines, "return d;")


def _packed(node: ir.Binary | ir.Cast, name: str, text: str, unit: TranslationUnit) -> None:
    """Define an operator or a conversion as one instruction for both halves of a register."""
    kind = node.dtype
    register, letter = ("unsigned long long", "l") if kind.bits == 64 else ("unsigned int", "r")
    if isinstance(node, ir.Cast):
        params, inputs = f"{node.a.dtype} a", '"f"(a.x[1]), "f"(a.x[0])'
    else:
        params = f"{kind} a, {kind} b"
        inputs = ", ".join(f'"{letter}"(__builtin_bit_cast({register}, {side}))' for side in "ab")
    unit.function(
        name,
        f"{kind} ({params})",
        f"{register} d;",
        *assembly("asm", text, f'"={letter}"(d)', inputs),
        f"return __builtin_bit_cast({kind}, d);",
    )


# One rule per node.


EXACT_IN_FLOAT32 = 1 << 24
INT16 = dtype("int16")


def expression(node: ir.Expr, scope: Scope) -> Cpp:
    """``node`` as C++, of the type that `cpp_type` gives its dtype (narrow integers may be ints of the same value)."""
    if node.dtype.lanes > 1 and isinstance(node, (ir.Const, ir.Unary, ir.Binary, ir.Cast)):
        return _vector(node, scope)
    return _RULES[type(node)](node, scope)


def _vector(node: ir.Const | ir.Unary | ir.Binary | ir.Cast, scope: Scope) -> Cpp:
    if isinstance(node, ir.Const):
        return broadcast(Cpp.literal(ir.Const(node.value, node.dtype.element)), node.dtype, scope.unit)
    if isinstance(node, ir.Cast) and node.a.dtype.lanes == 1:
        return broadcast(_converted(node.a, node.dtype.element, scope), node.dtype, scope.unit)
    return elementwise(node, scope)


def _unary(node: ir.Unary, scope: Scope) -> Cpp:
    if node.op == "not" or node.dtype.kind == "bool":
        return Cpp(f"!{expression(node.a, scope).at(Level.UNARY)}", Level.UNARY)
    if node.dtype.is_float:
        return float_negated(expression(node.a, scope), node.dtype, scope.unit)
    return integer_unary(node, scope)


def _binary(node: ir.Binary, scope: Scope) -> Cpp:
    if node.op in ir.Binary.COMPARISONS:
        return _comparison(node, scope)
    if node.op in ir.Binary.LOGIC:
        symbol = OPERATORS[node.op].cuda
        level = LEVELS[symbol]
        sides = (expression(side, scope) for side in (node.a, node.b))
        return Cpp(f" {symbol} ".join(side.at(level if side.level == level else Level.BIT_OR) for side in sides), level)
    if node.dtype.kind == "handle":
        return _pointer_arithmetic(node, scope)
    if node.dtype.is_float:
        return float_binary(node.op, expression(node.a, scope), expression(node.b, scope), node.dtype, scope.unit)
    result = integer_binary(node, scope)
    return convert(result, INT32, node.dtype, scope.unit) if node.dtype.kind == "bool" else result


def _comparison(node: ir.Binary, scope: Scope) -> Cpp:
    a, b = (_comparable(side, scope) for side in (node.a, node.b))
    return Cpp(f"{a.at(Level.SHIFT)} {node.op} {b.at(Level.SHIFT)}", LEVELS[node.op])


def _comparable(node: ir.Expr, scope: Scope) -> Cpp:
    value = expression(node, scope)
    return to_float32(value, node.dtype, scope.unit) if carried_as_bits(node.dtype) else value


def _pointer_arithmetic(node: ir.Binary, scope: Scope) -> Cpp:
    """Pointer arithmetic in bytes, with the pointer on either side; other operators take a pointer as an integer."""
    pointer, offset = (node.b, node.a) if isinstance(node.a, ir.Cast) and node.op == "+" else (node.a, node.b)
    if node.op in ("+", "-"):
        start = expression(pointer, scope).cast("char*")
        return Cpp(f"{start.text} {node.op} {_as_number(offset, scope).at(Level.PRODUCT)}", Level.SUM)
    numbers = (Cpp(_as_number(side, scope).at(Level.UNARY)) for side in (node.a, node.b))
    a, b = (number.text for number in numbers)
    return Cpp(f"{a} {node.op} {b}", Level.BIT_OR).cast("void*")


def _as_number(node: ir.Expr, scope: Scope) -> Cpp:
    if isinstance(node, ir.Const):
        return Cpp(f"{int(node.value)}", Level.UNARY if node.value < 0 else Level.ATOM)
    if isinstance(node, ir.Cast) and node.a.dtype.is_integer:
        return expression(node.a, scope)
    return expression(node, scope).cast("long long")


def _select(node: ir.Select, scope: Scope) -> Cpp:
    cond, a, b = (expression(part, scope) for part in (node.cond, node.a, node.b))
    if node.dtype.kind == "handle":
        a, b = a.cast("void*"), b.cast("void*")
    return Cpp(f"{cond.at(Level.OR)} ? {a.at(Level.OR)} : {b.at(Level.CONDITIONAL)}", Level.CONDITIONAL)


def _converted(node: ir.Expr, kind: DType, scope: Scope) -> Cpp:
    source = node.dtype
    if source.is_integer and source.bits > 16 and kind.is_float and abs_bound(node, scope) <= EXACT_IN_FLOAT32:
        source = INT16  # small enough that float32 holds it: no detour through a rounding to odd
    return convert(expression(node, scope), source, kind, scope.unit)


_BIT_CASTS = {
    ("float", "int"): "__float_as_int",
    ("float", "unsigned int"): "__float_as_uint",
    ("int", "float"): "__int_as_float",
    ("unsigned int", "float"): "__uint_as_float",
    ("double", "long long"): "__double_as_longlong",
    ("long long", "double"): "__longlong_as_double",
}
_INTEGRAL = ("char", "short", "int", "long long")


def _reinterpret(node: ir.Reinterpret, scope: Scope) -> Cpp:
    value = expression(node.a, scope)
    source, target = cpp_type(node.a.dtype), cpp_type(node.dtype)
    if source == target:
        return value
    if (source, target) in _BIT_CASTS:
        return Cpp.call(_BIT_CASTS[source, target], value)
    if "void*" in (source, target) or (source.endswith(_INTEGRAL) and target.endswith(_INTEGRAL)):
        return value.cast(target)
    if node.a.dtype.is_integer:
        value = value.cast(source)  # an operator on narrow integers gives an int
    return Cpp(f"__builtin_bit_cast({target}, {value.text})")


_RULES: dict[type, Callable[..., Cpp]] = {  # each takes its own node
    ir.Const: lambda node, scope: Cpp.literal(node),
    ir.Var: lambda node, scope: Cpp(scope.unit.names.of(node.name)),
    ir.Special: lambda node, scope: Cpp(scope.unit.special(node)),
    ir.Unary: _unary,
    ir.Binary: _binary,
    ir.Select: _select,
    ir.Cast: lambda node, scope: _converted(node.a, node.dtype, scope),
    ir.Reinterpret: _reinterpret,
    ir.Vector: joined,
    ir.Component: component,
    ir.Load: load,
    ir.AddressOf: address,
    ir.Call: call,
}
