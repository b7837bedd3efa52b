"""Calls of the instruction table as C++, and conversions between dtypes, of which only some are instructions.

A PTX row becomes a function around inline assembly, a C++ row its expression. Registers that an operation still writes
are kept from C++ until its wait.

The rows have all that is needed; nothing here names an instruction.
"""

from __future__ import annotations

from itertools import chain, count
from typing import NamedTuple

from tilewright import ir
from tilewright.cuda.emit_unit import (
    REGISTER_TYPES,
    Cpp,
    Level,
    Scope,
    TranslationUnit,
    assembly,
    carried_as_bits,
    cpp_type,
    function_head,
)
from tilewright.dtypes import VOID, DType, dtype
from tilewright.errors import InstructionError, located
from tilewright.ir import AddressOf, Buffer, Call, Const, Expr, Kernel, Load, Reinterpret, as_expr, const_value
from tilewright.ir.intervals import limits
from tilewright.isa import ANY_LANES, CONSTRAINTS, KINDS, Bound, Operand, Ptx, bind, calls_in, register_kind
from tilewright.isa.arith import APPROXIMATIONS, row_of

# Casts: one helper function for each pair of dtypes that C++ cannot convert as the language means it.
#
# Half, bfloat16 and the narrow floats convert through float32: up is exact, and down rounds once to nearest even,
# because what is wider than float32 is first rounded *to odd* (an inexact value takes the neighbour whose last bit is
# set, so that the second rounding sees on which side it lies). Where an architecture has the ``cvt`` it is used.

FLOAT32 = dtype("float32")
EXACT_IN_TF32 = ("bool", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float6_e2m3fn",
                 "float6_e3m2fn", "float4_e2m1fn", "int8", "uint8")  # fmt: skip


class _Narrow(NamedTuple):
    """A narrow float. limit: the largest magnitude that does not round beyond its range."""

    mantissa: int
    bias: int
    limit: str
    magnitude: str  # mask of all bits but the sign
    nan: str


_NARROW = {
    "float8_e4m3fn": _Narrow(3, 7, "464.0f", "0x7f", "0x7f"),
    "float8_e5m2": _Narrow(2, 15, "61440.0f", "0x7f", "0x7e"),
    "float6_e2m3fn": _Narrow(3, 1, "7.5f", "0x1f", "0x20"),
    "float6_e3m2fn": _Narrow(2, 3, "28.0f", "0x1f", "0x20"),
    "float4_e2m1fn": _Narrow(1, 1, "6.0f", "0x07", "0x08"),
}


def convert(value: Cpp, source: DType, target: DType, unit: TranslationUnit) -> Cpp:
    """``value`` of scalar dtype ``source`` as ``target``."""
    if target == "tf32" and source not in ("tf32", *EXACT_IN_TF32):
        return Cpp(f"{_tf32_rounding(unit)}({_float32_to_odd(value, source, unit).text})")
    if cpp_type(source) == cpp_type(target) and source.kind == target.kind and not carried_as_bits(target):
        return value
    if target.kind == "bool":
        number = to_float32(value, source, unit) if source.is_float and source.bits < 64 else value
        return Cpp(f"{number.at(Level.RELATION)} != 0", Level.EQUALITY)
    if "handle" in (source.kind, target.kind):
        wide = value.cast("long long") if target.is_integer or source.bits < 64 else value
        return wide.cast(cpp_type(target))
    if source.is_float and target.is_integer:
        return _integer(value, source, target, unit)
    if carried_as_bits(target):
        return from_float32(_float32_to_odd(value, source, unit), target, unit)
    if carried_as_bits(source):
        value = to_float32(value, source, unit)
        return value if target.bits == 32 else value.cast(cpp_type(target))
    return value.cast(cpp_type(target))


# Floats to integers: toward zero, saturating, NaN is 0


def _integer(value: Cpp, source: DType, target: DType, unit: TranslationUnit) -> Cpp:
    if carried_as_bits(source):
        value, source = to_float32(value, source, unit), FLOAT32
    kind, number = cpp_type(target), cpp_type(source)
    name = f"{target}_from_{source}"
    if target.bits < 32:
        low, high, *_ = limits(target)
        wide = _integer(Cpp("x"), source, dtype("int32"), unit).text
        unit.function(
            name,
            f"{kind} ({number} x)",
            f"return ({kind})min(max({wide}, {low}), {high});",
            comment="Saturates; NaN is 0.",
        )
        return Cpp.call(name, value)
    row = row_of("float64" if source.bits == 64 else "float32", target, unit.arch)
    assert row is not None, "all targets have it"
    if source.bits == 32 and target.bits == 32:
        unit.number_instruction(name, row, kind, (number,))
        return Cpp.call(name, value)
    inner = unit.number_instruction(f"{name}_or_nan", row, kind, (number,))
    unit.function(name, f"{kind} ({number} x)", f"return x == x ? {inner}(x) : 0;", comment="Saturates; NaN is 0.")
    return Cpp.call(name, value)


# Into float32, so that one more rounding is still right


def _float32_to_odd(value: Cpp, source: DType, unit: TranslationUnit) -> Cpp:
    if source.is_float and source.bits < 64:
        return to_float32(value, source, unit)
    if source.bits < 32:
        return value.cast("float")
    if source.is_float:
        kind, rounded, same = "double", "__double2float_rz(x)", "(double)y == x || x != x"
    elif source.is_signed:
        kind, rounded, same = "long long", "__ll2float_rz(x)", "(long long)y == x"
    else:
        kind, rounded, same = "unsigned long long", "__ull2float_rz(x)", "(unsigned long long)y == x"
    name = f"odd_float32_from_{'float64' if source.is_float else 'int64' if source.is_signed else 'uint64'}"
    unit.function(
        name,
        f"float ({kind} x)",
        f"float y = {rounded};",
        f"return {same} ? y : __uint_as_float(__float_as_uint(y) | 1u);",
        comment="Toward zero; an inexact result gets its last bit set, so that rounding it again rounds x once.",
    )
    return Cpp.call(name, value)


def _tf32_rounding(unit: TranslationUnit) -> str:
    """The function that rounds a float to the ten bits of fraction that matrix instructions look at."""
    if row := row_of("float32", "tf32", unit.arch):
        bits = unit.number_instruction("tf32_bits", row, "unsigned int", ("float",))
        return unit.function("tf32_from_float32", "float (float a)", f"return __uint_as_float({bits}(a));")
    return unit.function(
        "tf32_from_float32",
        "float (float a)",
        "unsigned int x = __float_as_uint(a);",
        "return (x & 0x7f800000u) == 0x7f800000u ? a : __uint_as_float(x + 0x1000u & 0xffffe000u);",
        comment="Ten bits of fraction, nearest, ties away from zero.",
    )


def to_float32(value: Cpp, source: DType, unit: TranslationUnit) -> Cpp:
    """A value of 32 bits or fewer as a float; exact for floats."""
    if not carried_as_bits(source):
        return value if source.is_float else value.cast("float")
    name = f"float32_from_{source}"
    if name not in unit.helpers and (row := row_of(source, "float32", unit.arch)):
        unit.number_instruction(name, row, "float", (cpp_type(source),))
    elif name not in unit.helpers:
        _WIDEN.get(source, _widen_narrow)(name, source, unit)
    return Cpp.call(name, value)


def from_float32(value: Cpp, target: DType, unit: TranslationUnit) -> Cpp:
    """A float rounded to ``target``, to nearest even."""
    if not carried_as_bits(target):
        return value
    name, row = f"{target}_from_float32", row_of("float32", target, unit.arch)
    if name not in unit.helpers and row is not None and len(row.operands) == 1:
        unit.number_instruction(name, row, cpp_type(target), ("float",))
    elif name not in unit.helpers:
        _ROUND.get(target, _round_narrow)(name, target, unit)
    return Cpp.call(name, value)


# The helper functions, by dtype, where no instruction does it


def _widen_bfloat16(name: str, source: DType, unit: TranslationUnit) -> None:
    unit.function(
        name,
        "float (unsigned short a)",
        "float d;",
        *assembly("asm", "mov.b32 %0, {%1, %2};", '"=f"(d)', '"h"((unsigned short)0), "h"(a)'),
        "return d;",
        comment="A bfloat16 is the upper half of a float.",
    )


def _widen_exponent(name: str, source: DType, unit: TranslationUnit) -> None:
    unit.function(
        name,
        "float (unsigned char a)",
        "if (a == 0xff) return __int_as_float(0x7fffffff);",
        "return a ? __uint_as_float((unsigned int)a << 23) : 0x1p-127f;",
        comment="The byte is the exponent of a power of two; 0xff is NaN.",
    )


def _widen_narrow(name: str, source: DType, unit: TranslationUnit) -> None:
    if row := row_of(source, "float16x2", unit.arch):
        half = to_float32(Cpp("(unsigned short)pair"), dtype("float16"), unit).text
        pair = unit.number_instruction(f"float16x2_from_{source}x2", row, "unsigned int", ("unsigned short",))
        unit.function(name, "float (unsigned char a)", f"unsigned int pair = {pair}(a);", f"return {half};")
        return
    form = _NARROW[source]
    special = {
        "float8_e4m3fn": ["if ((a & 0x7f) == 0x7f) return __int_as_float(0x7fffffff);"],
        "float8_e5m2": [
            "if ((a & 0x7f) >= 0x7c) return __uint_as_float((a & 0x80u) << 24 | 0x7f800000u | (a & 3u) << 21);"
        ],
    }
    unit.function(
        name,
        "float (unsigned char a)",
        *special.get(source, []),
        f"float x = __uint_as_float((a & {form.magnitude}u) << {23 - form.mantissa}) * 0x1p{127 - form.bias}f;",
        f"return a & {_sign(form)} ? -x : x;",
        comment=f"Where a float has them, the bits are off by the difference of the biases, {127 - form.bias}.",
    )


def _round_bfloat16(name: str, target: DType, unit: TranslationUnit) -> None:
    unit.function(
        name,
        "unsigned short (float a)",
        "unsigned int x = __float_as_uint(a);",
        "if (a != a) return 0x7fff;",
        "return (unsigned short)((x + 0x7fffu + (x >> 16 & 1u)) >> 16);",
        comment="The upper half, rounded to nearest even.",
    )


def _round_exponent(name: str, target: DType, unit: TranslationUnit) -> None:
    unit.function(
        name,
        "unsigned char (float a)",
        "unsigned int x = __float_as_uint(a);",
        "if (!(a > 0.0f)) return 0xff;",
        "if (x < 0x800000u) return x > 0x400000u;",
        "return (unsigned char)min((x + 0x400000u) >> 23, 0xffu);",
        comment="The nearest power of two, halves up; what is not positive has none: NaN.",
    )


def _round_narrow(name: str, target: DType, unit: TranslationUnit) -> None:
    form = _NARROW[target]
    sign = f"(x >> 31 ? {_sign(form)} : 0)"
    special = {
        "float8_e4m3fn": [f"if (!(fabsf(a) <= {form.limit})) return {sign} | {form.nan};"],
        "float8_e5m2": [f"if (!(fabsf(a) < {form.limit})) return {sign} | (a == a ? 0x7c : {form.nan});"],
    }
    lines = ["unsigned int x = __float_as_uint(a);", *special.get(target, [f"if (a != a) return {form.nan};"])]
    if row := row_of("float32", target, unit.arch):
        pair = unit.number_instruction(f"{target}x2_from_float32", row, "unsigned short", ("float", "float"))
        lines += [f"return (unsigned char){pair}(0.0f, a);"]
        comment = "Beyond the range lies NaN or infinity; the instruction would saturate."
    else:
        lines += [
            f"float magnitude = fminf(fabsf(a), {form.limit});",
            f"int exponent = max((int)(__float_as_uint(magnitude) >> 23), {128 - form.bias});",
            f"int steps = (int)rintf(magnitude * __int_as_float(({254 + form.mantissa} - exponent) << 23));",
            f"return (unsigned char)({sign} | (((exponent - {128 - form.bias}) << {form.mantissa}) + steps));",
        ]
        comment = "Counts in steps of the last bit at this exponent; rintf rounds to nearest even."
    unit.function(name, "unsigned char (float a)", *lines, comment=comment)


def _sign(form: _Narrow) -> str:
    return f"0x{int(form.magnitude, 16) + 1:02x}"


_WIDEN = {"bfloat16": _widen_bfloat16, "float8_e8m0fnu": _widen_exponent}
_ROUND = {"bfloat16": _round_bfloat16, "float8_e8m0fnu": _round_exponent}

_OMITTED = ("aligned", "shared", "sync")  # words that every helper's name would have
_RESULT = "d"
_BITS = {kind.ctype: 8 * kind.nbytes for kind in KINDS.values() if kind.nbytes}


def call(node: Call, scope: Scope) -> Cpp:
    """The call as C++. Raises TargetError where the architecture lacks the instruction."""
    bound = bind(node)
    with located(scope.at):
        bound.check_arch(scope.unit.arch)
    return _assembly(bound, scope) if isinstance(bound.form.wording, Ptx) else _expression(bound, scope)


# Rows in C++


def _expression(bound: Bound, scope: Scope) -> Cpp:
    values = {
        operand.name: [_as_operand(operand, node, scope) for node in bound.operands.get(operand.name, ())]
        for operand in bound.given
        if operand.name not in bound.texts
    }
    many = {operand.name for operand in bound.instruction.operands if operand.many}
    code = bound.code(
        {name: [v.text for v in of] if name in many else _hole(bound, name, of[0]) for name, of in values.items()}
    )
    if bound.helper:
        _include(bound, scope)
    scope.unit.mention(bound.form.wording.template + " ".join(bound.form.spellings(bound.mods).values()))
    if scope.unit.fast_math:
        stem, bracket, rest = code.partition("(")
        code = APPROXIMATIONS.get(stem, stem) + bracket + rest
    result = Cpp(code, _level(code))
    return result.cast("void*") if bound.result.kind == "handle" else result


def _include(bound: Bound, scope: Scope) -> None:
    """The functions that a row's text uses, once: under the name of the first, or of the one that the call names."""
    name, text = bound.texts.get("name") or bound.helper.split("(")[0].split()[-1], bound.helper.rstrip()
    if scope.unit.helpers.setdefault(name, text) != text:
        raise InstructionError(
            f"two texts for the C++ function {name}", given=text.partition("\n")[0], allowed="one text for each name",
            at=scope.at,
        )  # fmt: skip


def _as_operand(operand: Operand, node: Expr, scope: Scope) -> Cpp:
    """The operand as C++: a value (of a pointer its number), or a place for one that is written."""
    place = _place(operand, node) if operand.written else None
    if place is not None:
        return Cpp(register(REGISTER_TYPES[operand.kind], *place, scope))
    if operand.kind == "shared":
        return Cpp(_shared_address(node, scope))
    if operand.kind == "typed" and node.dtype.kind == "handle":
        return scope.cpp(node).cast(cpp_type(dtype("uint64")))
    bits = dtype(f"uint{node.dtype.bits}") if node.dtype.is_float and node.dtype.lanes == 1 else None
    if bits is not None and REGISTER_TYPES.get(operand.kind) == cpp_type(bits):
        return scope.cpp(Reinterpret(node, bits))  # the register holds the float's bits, not a number made of it
    return scope.cpp(node)


def _hole(bound: Bound, name: str, value: Cpp) -> str:
    """An operand for its hole: bare where the template puts it between commas and parentheses, else as an atom."""
    hole = f"{{{name}}}"
    before, _, after = bound.form.wording.template.partition(hole)
    return value.text if before.endswith(("(", ", ")) and after.startswith((")", ",")) else value.at(Level.ATOM)


def _level(code: str) -> int:
    if code.startswith(("(", "*")) or " = " in code:
        return Level.ANY if " = " in code else Level.UNARY
    return Level.ATOM


# Rows in PTX


def _assembly(bound: Bound, scope: Scope) -> Cpp:
    name = _declared(bound, scope)
    arguments: list[str] = []
    for operand in bound.given:
        kind, nodes = _kind(operand, bound), bound.operands[operand.name] if operand.in_register else ()
        if _is_run(operand, bound):
            arguments.append(scope.cpp(AddressOf(nodes[0].buffer, nodes[0].indices)).text)  # type: ignore[attr-defined]  # as of all of a run
        else:
            arguments += [_argument(operand, node, kind, scope) for node in nodes]
    return Cpp(f"{name}({', '.join(arguments)})")


def _declared(bound: Bound, scope: Scope) -> str:
    """The function of this instruction, named after all of its mnemonic where the short name is taken."""
    if bound.result_registers > 1:
        scope.unit.vector(bound.result)
    words = bound.mnemonic.replace("::", "_").split(".")
    short = [word for word in words if word not in _OMITTED]
    names = ["_".join(short if len(short) > 1 else words), "_".join(words)]
    if bound.instruction.name.startswith("cuda."):
        names.insert(0, bound.instruction.name.removeprefix("cuda."))
    numbered = (f"{names[0]}_{number}" for number in count(2))  # one mnemonic may take operands in several ways
    for name in chain(names, numbered):
        text = _function(name, bound)
        if scope.unit.helpers.setdefault(name, text) == text:
            return name
    raise AssertionError("no end of numbers")


def _function(name: str, bound: Bound) -> str:
    registers = _registers(bound)
    outputs, inputs = list[str](), list[str]()
    letters = {operand.name: CONSTRAINTS[_kind(operand, bound)] for operand in bound.given if operand.in_register}
    for _, parameter, operand in registers:
        mark = "" if not operand.written else "+" if operand.read else "="
        (outputs if operand.written else inputs).append(f'"{mark}{letters[operand.name]}"({parameter})')
    result = bound.result
    if result != VOID:
        outputs = [f'"={CONSTRAINTS[_result_kind(bound)]}"({place})' for place in _result_places(bound)] + outputs
    code = _numbered(bound, registers, result).replace('"', '\\"')
    keyword, clobbers = ("asm", "") if _is_pure(bound) else ("asm volatile", '"memory"')
    statement = assembly(keyword, code, ", ".join(outputs), ", ".join(inputs), clobbers)
    params = ", ".join(dict.fromkeys(f"{kind} {parameter.partition('[')[0]}" for kind, parameter, _ in registers))
    kind, lines = _body(statement, bound)
    head = function_head(kind, name, params)
    return "\n".join([f"// {bound.instruction.doc.replace('`', '')}", head, *(f"  {line}" for line in lines), "}"])


def _is_pure(bound: Bound) -> bool:
    """Does the instruction only compute, from registers? NVVM keeps inline assembly convergent, so that a matrix
    product needs no ``volatile`` either; other collectives of a warp may order memory or read a clock.
    """
    form = bound.form
    if form.does_more_than_compute:
        return False
    return bound.instruction.lanes == ANY_LANES or form.meaning.product is not None


def _registers(bound: Bound) -> list[tuple[str, str, Operand]]:
    """The function's registers: C++ type of the parameter, the parameter or its element, operand."""
    parameters = []
    for operand in bound.given:
        is_run = _is_run(operand, bound)
        kind = REGISTER_TYPES.get(_kind(operand, bound), "const void*") + ("*" if is_run else "&" * operand.written)
        for index in range(len(bound.operands[operand.name]) if operand.in_register else 0):
            name = f"{operand.name}[{index}]" if is_run else f"{operand.name}{index}" if operand.many else operand.name
            parameters.append((kind, f"{name}_" if name == _RESULT else name, operand))
    return parameters


LONG_RUN = 8  # registers of an operand that are one pointer: the references of a product take a ninth of NVRTC's time


def _is_run(operand: Operand, bound: Bound) -> bool:
    """Are the registers of an operand so many neighbours in one array of their type?"""
    nodes = bound.operands[operand.name] if operand.many and operand.in_register else ()
    places = [place for node in nodes if (place := _place(operand, node)) is not None]
    slots = [const_value(index) for _, indices in places for index in indices]
    return (
        len(slots) == len(nodes) >= LONG_RUN
        and cpp_type(places[0][0].dtype) == REGISTER_TYPES.get(_kind(operand, bound))
        and all(buffer is places[0][0] for buffer, _ in places)
        and slots[0] is not None
        and slots == list(range(int(slots[0]), int(slots[0]) + len(slots)))
    )


def _kind(operand: Operand, bound: Bound) -> str:
    """The kind of register that carries it: shared and tensor addresses have 32 bits, a condition is a number.

    Registers that an operation writes after its issue keep the type of their buffer, so that no copy is made.
    """
    if operand.written and bound.form.issue is not None and _holds_floats(bound.operands[operand.name]):
        return "f32"
    if operand.kind == "typed":
        return register_kind(dtype(str(bound.mods["dtype"])))
    return {"shared": "b32", "tmem": "b32", "pred": "b32"}.get(operand.kind, operand.kind)


def _holds_floats(places: tuple[Expr, ...]) -> bool:
    buffers = (place.buffer for place in places if isinstance(place, (AddressOf, Load)))
    return all(buffer.dtype == "float32" for buffer in buffers)


def _numbered(bound: Bound, registers: list[tuple[str, str, Operand]], result: DType) -> str:
    """The assembly with ``%0``, ``%1`` ... in it: outputs are counted first."""
    first = 0 if result == VOID else bound.result_registers
    order = sorted(range(len(registers)), key=lambda i: not registers[i][2].written)
    number = {place: f"%{first + position}" for position, place in enumerate(order)}
    holes: dict[str, list[str]] = {operand.name: [] for operand in bound.given if operand.in_register}
    for place, (_, _, operand) in enumerate(registers):
        holes[operand.name].append(number[place])
    many = {operand.name for operand in bound.instruction.operands if operand.many}
    filled: dict[str, str | list[str]] = {name: of if name in many else of[0] for name, of in holes.items()}
    constants = (operand.name for operand in bound.given if operand.kind == "imm")
    filled.update((name, str(const_value(bound.operands[name][0]))) for name in constants)
    if first > 1:
        filled["result"] = [f"%{place}" for place in range(first)]
    elif first:
        filled["result"] = "%0"
    return bound.code(filled)


def _result_kind(bound: Bound) -> str:
    kind = bound.result.element if bound.result_registers > 1 else bound.result
    return "b32" if kind.kind == "bool" else register_kind(kind)


def _result_places(bound: Bound) -> list[str]:
    """Where the value goes: a vector to registers of its own."""
    count = bound.result_registers
    return [f"{_RESULT}{place}" for place in range(count)] if count > 1 else [_RESULT]


def _body(statement: list[str], bound: Bound) -> tuple[str, list[str]]:
    result = bound.result
    if result == VOID:
        return "void", statement
    if result.kind == "bool":
        return "bool", [f"unsigned int {_RESULT};", *statement, f"return {_RESULT} != 0;"]
    places = _result_places(bound)
    if len(places) > 1:
        kind = REGISTER_TYPES[register_kind(result.element)]
        parts = ", ".join(f"({cpp_type(result.element)}){place}" for place in places)
        return cpp_type(result), [f"{kind} {', '.join(places)};", *statement, f"return {{{{{parts}}}}};"]
    register = cpp_type(result) if result.bits >= 16 else REGISTER_TYPES[register_kind(result)]
    return cpp_type(result), [f"{register} {_RESULT};", *statement, f"return {_RESULT};"]


# The arguments of calls.


def _argument(operand: Operand, node: Expr, register_of: str, scope: Scope) -> str:
    if operand.kind == "shared":
        return _shared_address(node, scope)
    kind = REGISTER_TYPES.get(register_of)
    if kind is None:
        value = scope.cpp(node)
        if operand.kind in ("global", "generic") and node.dtype.kind != "handle":
            value = value.cast("const void*")
        return value.text
    place = _place(operand, node)
    if place is not None:
        return register(kind, *place, scope)
    return _value(kind, node, scope)


def _shared_address(node: Expr, scope: Scope) -> str:
    value = scope.cpp(node)
    if node.dtype.kind != "handle":
        return value.text if node.dtype.bits == 32 else value.cast("unsigned int").text
    name = scope.unit.function(
        "shared_address",
        "unsigned int (const void* pointer)",
        "return (unsigned int)__cvta_generic_to_shared(pointer);",
        comment="Where a pointer points in the shared memory of the CTA: the 32-bit address that instructions take.",
    )
    return f"{name}({value.text})"


def _place(operand: Operand, node: Expr) -> tuple[Buffer, tuple[Expr, ...]] | None:
    """The register that an operand names, as a place in a local buffer; None for a value."""
    if operand.kind == "b8" and isinstance(node, Load):
        return None  # a register has two bytes: the value is widened
    if isinstance(node, AddressOf) and node.buffer.space == "local":
        return node.buffer, node.indices
    if isinstance(node, Load) and node.buffer.space == "local" and (operand.many or operand.written):
        return node.buffer, node.indices
    return None


def register(kind: str, buffer: Buffer, indices: tuple[Expr, ...], scope: Scope) -> str:
    """An array element as a register of the C++ type ``kind``; a narrow one together with those after it."""
    index = indices[0] if indices else None
    slot = const_value(index) if index is not None else 0
    per_register = _BITS[kind] // buffer.dtype.bits
    if per_register > 1 and slot is not None and int(slot) % per_register:
        raise InstructionError(
            f"a register of {per_register} elements begins at {buffer.name}[{slot}]",
            given=f"element {slot} of {buffer.dtype}",
            allowed=f"a multiple of {per_register}",
            at=scope.at,
        )
    if buffer.dtype.bits < 8:
        return f"*({kind}*)({scope.cpp(AddressOf(buffer, indices)).text})"
    element = scope.cpp(Load(buffer, indices or (as_expr(0),))).text
    return element if cpp_type(buffer.dtype) == kind else f"({kind}&){element}"


def _value(kind: str, node: Expr, scope: Scope) -> str:
    """A value in a register: numbers as they are, floats by their bits where the register holds bits."""
    if isinstance(node, Const) and node.dtype.is_integer and kind == "unsigned int":
        node = Const(int(node.value) & 0xFFFFFFFF, dtype("uint32")) if node.value < 0 else node
    value = scope.cpp(node)
    source = cpp_type(node.dtype)
    if node.dtype.kind == "handle":
        if kind != "unsigned long long":
            return f"*({kind}*){value.at(Level.UNARY)}"  # a pointer to the register
        return value.cast(kind).text
    if node.dtype.lanes > 1 or (source in ("float", "double") and not kind.startswith(("float", "double"))):
        return f"__builtin_bit_cast({kind}, {value.text})"
    return value.text


# Registers that operations write until the wait: C++ must not read them before.


def in_flight(kernel: Kernel) -> dict[int, tuple[Buffer, ...]]:
    """ir.For each wait, by the identity of its call, the local buffers that fenced operations write; none where nothing
    else may use any of them before the next wait.
    """
    groups: dict[str, dict[str, Buffer]] = {}
    for _, bound in calls_in(kernel.body):
        for root in (place.buffer.root for place in _written_later(bound)):
            groups.setdefault(bound.form.issue.group if bound.form.issue else "", {})[root.name] = root
    waits: dict[int, tuple[Buffer, ...]] = {}

    def used_from(body: ir.Body, group: str, used: bool) -> bool:
        """May a buffer be used before the next wait, from where a body begins? used: from where it ends."""
        for stmt in reversed(body):
            node = stmt.value if isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, Call) else None
            bound = None if node is None else bind(node)
            if bound is not None and bound.form.wait and bound.form.wait.group == group:
                waits[id(node)] = tuple(groups[group].values()) if used else ()
                used = False
            elif isinstance(stmt, ir.If):
                used = used_from(stmt.then, group, used) | used_from(stmt.orelse, group, used)
            elif isinstance(stmt, (ir.For, ir.While)):  # from behind its body to its end, or to its begin
                used |= used_from(stmt.body, group, used | used_from(stmt.body, group, used))
            written = [id(place) for place in _written_later(bound)] if bound is not None else []
            names = {node.buffer.root.name for node in ir.expressions(stmt)
                     if isinstance(node, (AddressOf, Load)) and id(node) not in written}  # fmt: skip
            used |= isinstance(stmt, (ir.Break, ir.Continue)) or not names.isdisjoint(groups[group])
        return used

    for group in groups:
        used_from(kernel.body, group, used=False)
    return waits


def _written_later(bound: Bound) -> list[AddressOf | Load]:
    """The registers that a fenced operation writes until the wait; none of other calls."""
    if bound.form.issue is None or not bound.form.issue.fenced:
        return []
    places = (place for operand in bound.given if operand.written for place in bound.operands[operand.name])
    return [place for place in places if isinstance(place, (AddressOf, Load))]


def settled(node: Call, scope: Scope) -> list[str]:
    """After a wait: an empty statement that changes the registers, so that no use of them moves up before it."""
    lines: list[str] = []
    for buffer in scope.unit.in_flight.get(id(node), ()):
        letter, kind = ("f", "float") if buffer.dtype == "float32" else ("r", "unsigned int")
        count = int(const_value(buffer.shape[0]) or 0)
        slots = range(0, count, 32 // buffer.dtype.bits)
        places = (register(kind, buffer, (as_expr(slot),), scope) for slot in slots)
        held = ", ".join(f'"+{letter}"({place})' for place in places)
        lines += assembly("asm volatile", "", held, "", '"memory"')
    return lines
