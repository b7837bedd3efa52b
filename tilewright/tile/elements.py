"""The value of each element of an elementwise call: its formula as an expression of the language.

The scalar functions are those of ``T``, so that CUDA and the simulator agree as far as they do for ``T``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tilewright import ir, isa
from tilewright.dtypes import BOOL, INT32, DType, dtype
from tilewright.errors import KernelError
from tilewright.ir.numbers import rounded
from tilewright.isa.arith import row_of
from tilewright.isa.scalar.converting import SATURATING
from tilewright.primitives import PRIMITIVES, Mismatch
from tilewright.primitives.elements import INTEGRAL, arithmetic_dtype, narrowed
from tilewright.primitives.elementwise import (
    CAST,
    COMPARISONS,
    COMPUTE,
    FORMULA,
    OVERFLOW,
    PREDICATE,
    ROUNDING,
    Formula,
    FormulaStep,
    formula_of,
)
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import check_target


def _called(name: str) -> Callable[..., ir.Expr]:
    return lambda *values: isa.call(name, *values)


def _of_numbers(op: str) -> Callable[[ir.Expr, ir.Expr], ir.Expr]:
    """The smaller or larger one, of floats the one that is no NaN."""
    return lambda a, b: isa.call(f"f{op}", a, b) if a.dtype.is_float else ir.binary(op, a, b)


def _multiplied(a: ir.Expr, b: ir.Expr, c: ir.Expr) -> ir.Expr:
    return isa.call("fma", a, b, c) if a.dtype.is_float else a * b + c


def _rounded(name: str) -> Callable[..., ir.Expr]:
    return lambda *values: isa.call(name, *values[:-1], rounding=values[-1])


NAMES: Mapping[str, Callable[..., ir.Expr]] = {
    **{name: _called(name) for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "pow")},
    **{name: _called(name) for name in ("sqrt", "rsqrt", "abs", "rint", "floor", "ceil", "trunc")},
    "maximum": partial(ir.binary, "max"),
    "minimum": partial(ir.binary, "min"),
    "fmax": _of_numbers("max"),
    "fmin": _of_numbers("min"),
    "fma": _multiplied,
    "where": ir.select,
    "invert": lambda a: ir.unary("not" if a.dtype == BOOL else "~", a),
    **{f"rounded_{op}": _rounded(f"rounded_{op}") for op in ("add", "sub", "mul", "div", "fma")},
}
"""The functions that formulas use, on expressions."""


PACKED = {"src1 + src2": "+", "src1 - src2": "-", "src1 * src2": "*"}
"""The formulas that are one instruction for two elements, where the target has it."""
FUSED = "fma(src, scale, bias)"
"""The formula that is a row of its own for two float32, which round as one does."""


@dataclass(frozen=True, slots=True)
class Computation:
    """kind: the type of arithmetic. fixed: the values among the sources, as written."""

    formula: Formula
    kind: DType
    dst: DType
    fixed: Mapping[str, ir.Expr]
    keywords: Mapping[str, object]

    def of(self, tiles: Mapping[str, ir.Expr], values: Mapping[str, ir.Expr]) -> ir.Expr:
        """The element of dst, from those of the tiles and from the values, which `typed` has prepared."""
        sources = {**values, **{name: self.typed(name, value) for name, value in tiles.items()}}
        result: ir.Expr = self.formula.of(NAMES, sources, self.keywords)
        if self.keywords.get(OVERFLOW.name):
            return isa.call("saturated", ir.cast(result, dtype("float32")), to=str(self.dst))
        return ir.cast(result, self.dst)

    def packs(self, call: TileCall) -> bool:
        """Has the target an instruction that computes two elements, with the bits of one at a time? It rounds each
        result once, as float32 rounded to the dtype does.
        """
        if self.formula.text == "src":
            if any(side.dtype != self.kind for name, side in call.sides.items() if name != "dst"):
                return False
            return row_of(str(self.kind.with_lanes(2)), str(self.dst.with_lanes(2)), call.arch) is not None
        op = PACKED.get(self.formula.by(self.keywords), "")
        fused = self.fuses and isa.opcode("fma.rn.f32x2").form.arch.admits(call.arch)
        numbers = (getattr(value, "value", None) for value in call.scalars.values())
        return (
            (fused or row_of(op, call.dtype.with_lanes(2), call.arch) is not None)
            and all(side.dtype == call.dtype for side in call.tiles)
            and all(number is not None and rounded(float(number), call.dtype) == number for number in numbers)
        )

    @property
    def fuses(self) -> bool:
        """Is it a fused multiply and add of float32, which one instruction does for two in registers of 64 bits?"""
        return self.formula.by(self.keywords) == FUSED and self.kind == self.dst == "float32"

    def of_pairs(self, sources: Mapping[str, ir.Expr]) -> ir.Expr:
        """Two elements at a time, of vectors of two."""
        kind = self.dst.with_lanes(2)
        if not self.fuses:
            return ir.cast(self.formula.of(NAMES, sources, self.keywords), kind)
        operands = [ir.Reinterpret(sources[name], dtype("uint64")) for name in ("src", "scale", "bias")]
        return ir.Reinterpret(isa.call("ptx.fma", *operands, type="f32x2", rnd="rn"), kind)

    def at(self, values: Mapping[str, ir.Expr], digits: Sequence[ir.Value]) -> dict[str, ir.Expr]:
        """The values of the element with these coordinates in dst."""
        return {name: ir.rewrite(value, lambda node: _placed(node, digits)) for name, value in values.items()}

    def typed(self, name: str, value: ir.Expr) -> ir.Expr:
        """A source in the type of arithmetic."""
        return _truth(value) if name == PREDICATE else ir.cast(value, self.kind)

    def summary(self, *, in_pairs: bool = False) -> str:
        """``in float32``, where that says something."""
        if self.formula.text == "src":
            return f", converted to {self.dst}{', in pairs' * in_pairs}"
        if in_pairs:
            return ", in pairs"
        return f", computed in {self.kind}" if self.kind != self.dst else ""


def value_of(step: FormulaStep, sources: Mapping[str, ir.Expr], dst: DType) -> ir.Expr:
    """What a formula comes to, each step in its own type of arithmetic."""
    kind = step.kinds({name: value.dtype for name, value in sources.items()}, dst)[0]
    converted: dict[str, ir.Expr] = {}
    for place, source in step.named():
        if isinstance(source, FormulaStep):
            value: ir.Value = value_of(source, sources, step.asked(source, place, dst))
        else:
            value = sources[source] if isinstance(source, str) else source
        converted[place] = _truth(value) if place == PREDICATE else ir.cast(value, kind)
    row = PRIMITIVES[step.name]
    keywords = {**{keyword.name: keyword.default for keyword in row.keywords}, **dict(step.keywords)}
    defaults = {part.name: ir.as_expr(part.default, kind) for part in row.operands[1:] if part.default is not None}
    result: ir.Expr = step.formula.of(NAMES, {**defaults, **converted}, keywords)
    return result


@dataclass(frozen=True, slots=True)
class Fused(Computation):
    """The computation of all steps of a `compute`."""

    step: FormulaStep

    def of(self, tiles: Mapping[str, ir.Expr], values: Mapping[str, ir.Expr]) -> ir.Expr:
        """The element of dst: each step in its own type of arithmetic."""
        return ir.cast(value_of(self.step, {**values, **tiles}, self.dst), self.dst)

    def packs(self, call: TileCall) -> bool:
        """No instruction computes several steps."""
        return False

    def typed(self, name: str, value: ir.Expr) -> ir.Expr:
        """Each step converts its sources."""
        return value

    def summary(self, *, in_pairs: bool = False) -> str:
        """``: exp(a - b) * 2.0, computed in float32``."""
        return f": {self.step}{Computation.summary(self)}"


@dataclass(frozen=True, slots=True)
class Moving:
    """The computation of a copy and of a fill, which computes nothing."""

    dst: DType

    def of(self, tiles: Mapping[str, ir.Expr], values: Mapping[str, ir.Expr]) -> ir.Expr:
        """The element of the source, bit by bit; the value where there is none, 0 if there is none either."""
        first = next(iter((*tiles.values(), *values.values())), None)
        return ir.cast(0, self.dst) if first is None else first

    def typed(self, _: str, value: ir.Expr) -> ir.Expr:
        """The value of a fill has the dtype of dst."""
        return value

    def summary(self, *, in_pairs: bool = False) -> str:
        """An empty text: a copy says nothing of its arithmetic."""
        return ""


def _truth(value: ir.Value) -> ir.Expr:
    expr = ir.as_expr(value)
    return expr if expr.dtype == BOOL else ir.as_expr(expr != 0)


def indexed(value: ir.Expr) -> bool:
    """Does the value depend on where the element is?"""
    return any(isinstance(node, ir.Special) and node.name in ir.ELEMENT for node in ir.walk(value))


def _placed(node: ir.Expr, digits: Sequence[ir.Value]) -> ir.Expr | None:
    if not isinstance(node, ir.Special) or node.name not in ir.ELEMENT:
        return None
    return ir.cast(ir.as_expr(digits[ir.ELEMENT.index(node.name)]), INT32)


def computation(call: TileCall) -> Computation | Moving:
    """What is to be computed. Raises DispatchError for types with which it means nothing."""
    formula = call.row.formula or _conversion(call)
    if formula is None:
        return Moving(call.dtype)
    dst, *tiles = ((operand.name, side.dtype) for operand, side in call.operands)
    if not tiles:
        scalars = ", ".join(map(str, call.scalars.values()))
        raise call.invalid(
            Mismatch("no source is a tile", scalars, "at least one tile", f"Tx.fill({call['dst']}, value)")
        )
    if call.stmt.primitive == COMPUTE:
        return _fused(call, dst[1], formula)
    values = {name: value for name, value in call.scalars.items() if name != PREDICATE}
    kind = _kind(call, [kind for name, kind in tiles if name != PREDICATE], values, dst[1], formula)
    config = dict(call.config)
    keywords = {word.name: config.get(word.name, word.default) for word in call.row.keywords if word.name != "vec_len"}
    computed = Computation(formula, kind, dst[1], call.scalars, keywords)
    if call.stmt.primitive not in (CAST, *COMPARISONS):
        _check_kept(call, kind)
    _check_numbers(call, kind, values)
    _check_rounding(call, computed)
    _check_saturating(call, computed)
    return computed


def _fused(call: TileCall, dst: DType, formula: Formula) -> Fused:
    text = str(dict(call.config).get(FORMULA, ""))
    dtypes = {**{name: side.dtype for name, side in call.sides.items() if name != "dst"},
             **{name: value.dtype for name, value in call.scalars.items()}}  # fmt: skip
    try:
        step = formula_of(text)
        if missing := sorted(set(step.names()) - set(dtypes)):
            raise KernelError(f"{text} asks for {', '.join(missing)}", given=f"sources {', '.join(dtypes)}",
                              allowed="a source for each name of the formula")  # fmt: skip
        step = step.filled({name: value.value for name, value in call.scalars.items() if isinstance(value, ir.Const)})
        kind, result = step.kinds(dtypes, dst)
    except KernelError as error:
        raise call.invalid(
            Mismatch(error.what, str(error.given or text), str(error.allowed or "one common dtype"), error.hint)
        ) from None
    if step.name != CAST or step.to:
        _check_kept(call, result)
    return Fused(formula, kind, dst, call.scalars, {FORMULA: text}, step)


def _check_kept(call: TileCall, result: DType) -> None:
    """Raise DispatchError for a result that becomes another value as an element of dst."""
    if why := narrowed(call["dst"].name, call["dst"].dtype, result, f"{call.stmt.primitive} gives {result}"):
        raise call.invalid(why)


def _conversion(call: TileCall) -> Formula | None:
    """The formula of a copy between different dtypes."""
    return PRIMITIVES["cast"].formula if len({side.dtype for side in call.tiles}) > 1 else None


def _kind(call: TileCall, tiles: list[DType], values: Mapping[str, ir.Expr], dst: DType, formula: Formula) -> DType:
    typed = [value.dtype for value in values.values() if not isinstance(value, ir.Const)]
    floats = any(
        isinstance(value, ir.Const) and value.dtype.is_float for value in values.values() if not _neutral(call, value)
    )
    if not tiles and not typed:
        tiles = [dst]
    try:
        kind = arithmetic_dtype([*tiles, *typed], dst, formula.takes, has_float=floats)
    except KernelError as error:
        raise call.invalid(Mismatch(error.what, str(error.given or ""), "one common dtype", error.hint)) from None
    if formula.takes == "float" and not kind.is_float:
        name = call.stmt.primitive
        raise call.invalid(Mismatch(
            f"{name} is of floats", f"sources of {kind}", "at least one source that is a float",
            'Tx.cast into a tile of floats first',
        ))  # fmt: skip
    if formula.takes in INTEGRAL and kind.is_float:
        raise call.invalid(Mismatch(f"{call.stmt.primitive} is of integers", f"sources of {kind}", "integers"))
    return kind


def _neutral(call: TileCall, value: ir.Expr) -> bool:
    return any(call.scalars.get(operand.name) is value for operand in call.row.operands if operand.default is not None
               and ir.const_value(value) == operand.default)  # fmt: skip


def _check_numbers(call: TileCall, kind: DType, values: Mapping[str, ir.Expr]) -> None:
    """Raise DispatchError for a Python number that integer arithmetic would change."""
    for name, value in values.items():
        if isinstance(value, ir.Const) and kind.is_integer and ir.cast(value, kind).value != value.value:  # type: ignore[attr-defined]  # of a Const a Const
            raise call.invalid(Mismatch(f"{name} is computed in {kind}", str(value), f"a number that {kind} holds"))


def _check_saturating(call: TileCall, work: Computation) -> None:
    if not work.keywords.get(OVERFLOW.name):
        return
    if str(work.dst) not in SATURATING or not work.kind.is_float or work.kind.bits > 32:
        raise call.invalid(Mismatch(
            f"overflow={work.keywords[OVERFLOW.name]!r} is of narrow floats", f"{work.kind} becomes {work.dst}",
            f"float32, float16 or bfloat16 to {', '.join(SATURATING)}",
        ))  # fmt: skip
    check_target(call, "saturated", isa.lookup("saturated").forms[SATURATING.index(str(work.dst))])


def _check_rounding(call: TileCall, computed: Computation) -> None:
    mode = computed.keywords.get(ROUNDING.name, "rn")
    if mode == "rn":
        return
    if computed.kind != "float32" or computed.dst != computed.kind:
        raise call.invalid(Mismatch(
            f"rounding_mode={mode!r} is a rounding of float32",
            f"computed in {computed.kind}, converted to {computed.dst}",
            "sources and a dst of float32: other arithmetic and conversions round to nearest",
        ))  # fmt: skip
