"""The elementwise primitives: a row each, whose formula is the meaning in NumPy and the code in a kernel.

Of every element the formula is computed in the *type of arithmetic* (`elements.arithmetic_dtype`) and converted to the
dtype of `dst` once, at the end. Python numbers take the type of arithmetic. A source is a tile or a value; tiles
broadcast to `dst` as in NumPy. An element that is outside of its buffer in any of the tiles is left alone.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import BOOL, DType, dtype
from tilewright.errors import KernelError, choices
from tilewright.primitives.elements import INTEGRAL, all_of, arithmetic_dtype, broadcasting, computable, whole_vectors
from tilewright.primitives.table import PRIMITIVES, WITHIN_A_CTA, Keyword, Keywords, Primitive, Role, TileOperand
from tilewright.records import replace

DST = Role("out, clipped", written=True, clipped=True)
SOURCE = Role("in, clipped, or a value", clipped=True, value=True)
NOTHING_ADDED, NOTHING_SCALED = -0.0, 1.0  # with these an operand leaves every number as it is, and is skipped
VEC_LEN = Keyword("vec_len", int | None, None)
ROUNDING = Keyword("rounding_mode", Literal["rn", "rz", "rm", "rp"], "rn")
NAN = Keyword("nan", Literal["propagate", "number"], "propagate")
OVERFLOW = Keyword("overflow", Literal["", "saturate"], "")
APPROXIMATE = Keyword("approximate", Literal["none", "tanh"], "none")


@dataclass(frozen=True, slots=True)
class Formula:
    """The value of an element. text: over the names of the sources, as Python. takes: the types that it is computed in:
    "float", "number" or "integer" (a bool counts as 0 or 1), "bits" (of integers and bools) or "any". chosen: other
    texts, by the value of a keyword. rounds: the function that rounds its one operation by ``rounding_mode``, of the
    same sources.
    """

    text: str
    takes: str = "float"
    chosen: Mapping[object, str] | None = None
    rounds: str | None = None

    def by(self, keywords: Keywords) -> str:
        """The text for a call's keywords."""
        if (mode := keywords.get("rounding_mode", "rn")) != "rn":
            return f'{self.rounds}, "{mode}")'
        return next((text for key, text in (self.chosen or {}).items() if key in keywords.values()), self.text)

    def of(self, names: Mapping[str, Callable[..., Any]], values: Mapping[str, Any], keywords: Keywords) -> Any:
        """The value for these sources, on whatever has operators. names: the functions that formulas use."""
        scope = {"__builtins__": {}, "affine": _affine, **names}
        return eval(self.by(keywords), scope, dict(values))  # a text of the table below


def _affine(x: Any, scale: Any, bias: Any) -> Any:
    """x * scale + bias, rounded twice, without what changes nothing."""
    scaled = x if _is(scale, NOTHING_SCALED) else x * scale
    return scaled if _is(bias, NOTHING_ADDED) else scaled + bias


def _is(value: object, number: float) -> bool:
    plain = getattr(value, "value", value)
    return isinstance(plain, float) and plain.hex() == number.hex()


# NumPy's side. Functions of float32 are computed in float64 and rounded once, as the simulator has them.

Array = NDArray[Any]
_ERF = np.vectorize(math.erf, otypes=[np.float64])


def _once(function: Callable[..., Array]) -> Callable[..., Array]:
    def rounded(*values: Array) -> Array:
        return np.asarray(function(*(np.asarray(value, np.float64) for value in values))).astype(values[0].dtype)

    return rounded


def _nearest(name: str) -> Callable[..., Array]:
    def rounded(*values: Any) -> Array:
        raise NotImplementedError(f"NumPy rounds to nearest only: {name}")

    return rounded


NUMPY: dict[str, Callable[..., Any]] = {
    **{name: _once(getattr(np, name)) for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh")},
    "erf": _once(_ERF),
    "pow": _once(np.power),
    "rsqrt": _once(lambda x: 1 / np.sqrt(x)),
    **{name: getattr(np, name) for name in ("sqrt", "rint", "floor", "ceil", "trunc")},
    "abs": np.abs,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "where": np.where,
    "invert": np.invert,
    "fma": lambda a, b, c: (a.astype(np.float64) * b + c).astype(a.dtype) if a.dtype == np.float32 else a * b + c,
    **{name: _nearest(name) for name in ("rounded_add", "rounded_sub", "rounded_mul", "rounded_div", "rounded_fma")},
}
"""The functions that formulas use, on arrays."""


def _meaning(name: str, formula: Formula, operands: tuple[TileOperand, ...]) -> Callable[..., None]:
    def meaning(dst: Array, *values_in: Any, **keywords: object) -> None:
        padded = [*values_in, *([None] * (len(operands) - 1 - len(values_in)))]
        named = {operand.name: value for operand, value in zip(operands[1:], padded, strict=True)}
        sources = {key: dst if value is None and key == "src" else value for key, value in named.items()}
        sources |= {operand.name: operand.default for operand in operands[1:] if sources[operand.name] is None}
        types = [value.dtype for value in sources.values() if isinstance(value, (np.ndarray, np.generic))]
        kind = arithmetic_dtype(list(map(dtype, map(str, types))), dtype(str(dst.dtype)), formula.takes,
                                has_float=any(type(value) is float for value in sources.values()))  # fmt: skip
        values = {
            key: value if value is operand.default and operand.default is not None
            else np.asarray(value, bool) if key == "pred" else np.asarray(value).astype(kind.numpy)
            for (key, value), operand in zip(sources.items(), operands[1:], strict=True)
        }  # fmt: skip
        with np.errstate(all="ignore"):
            made_of = np.asarray(formula.of(NUMPY, values, keywords))
            if keywords.get(OVERFLOW.name):
                largest = float(ml_dtypes.finfo(dst.dtype).max)  # type: ignore[no-untyped-call]  # without types
                made_of = np.clip(made_of, -largest, largest)
            dst[...] = made_of.astype(dst.dtype)

    meaning.__name__ = name
    return meaning


def _row(name: str, doc: str, formula: Formula, sources: str, *keywords: Keyword) -> None:
    """A primitive. sources: the names of its operands behind dst, those in brackets may be left out."""
    operands = [TileOperand("dst", DST)]
    for source in sources.split():
        bare = source.strip("[]")
        default = {"bias": NOTHING_ADDED, "scale": NOTHING_SCALED}.get(bare) if bare != source else None
        operands.append(TileOperand(bare, SOURCE, optional=bare != source, default=default))
    every = tuple(operands)
    PRIMITIVES[name] = Primitive(
        name, doc, every, (VEC_LEN, *keywords), WITHIN_A_CTA, _meaning(name, formula, every), broadcasting,
        all_of(computable, whole_vectors), formula,
    )  # fmt: skip


ONE = "[src]"
SCALED = "[src] [bias] [scale]"
TWO = "src1 src2"
_ROWS: dict[str, tuple[str, Formula, str, tuple[Keyword, ...]]] = {
    "cast": ("`src` in the dtype of `dst`: floats to nearest even, floats to integers as C does, saturating.",
             Formula("src", "any"), "src", (OVERFLOW,)),
    "abs": ("The magnitude of `src`.", Formula("abs(src)", "number"), ONE, ()),
    "neg": ("`src` with the other sign.", Formula("-src", "number"), ONE, ()),
    "relu": ("`src` where it is positive, else 0; NaN stays.", Formula("maximum(src, 0)", "number"), ONE, ()),
    "sqrt": ("The square root of `src * scale + bias`.", Formula("sqrt(affine(src, scale, bias))"), SCALED, ()),
    "rsqrt": ("1 / sqrt(src).", Formula("rsqrt(src)"), ONE, ()),
    "reciprocal": ("1 / src, correctly rounded.", Formula("1 / src"), ONE, ()),
    "exp": ("e to the power `src * scale + bias`.", Formula("exp(affine(src, scale, bias))"), SCALED, ()),
    "exp2": ("2 to the power `src * scale + bias`.", Formula("exp2(affine(src, scale, bias))"), SCALED, ()),
    "log": ("The natural logarithm.", Formula("log(src)"), ONE, ()),
    "log2": ("The logarithm to base 2.", Formula("log2(src)"), ONE, ()),
    "rint": ("The nearest integer, halves to even.", Formula("rint(src)"), ONE, ()),
    "floor": ("The largest integer not above `src`.", Formula("floor(src)"), ONE, ()),
    "ceil": ("The smallest integer not below `src`.", Formula("ceil(src)"), ONE, ()),
    "trunc": ("`src` without its fraction.", Formula("trunc(src)"), ONE, ()),
    "sin": ("The sine of radians.", Formula("sin(src)"), ONE, ()),
    "cos": ("The cosine of radians.", Formula("cos(src)"), ONE, ()),
    "tanh": ("The hyperbolic tangent.", Formula("tanh(src)"), ONE, ()),
    "erf": ("The error function.", Formula("erf(src)"), ONE, ()),
    "sigmoid": ("1 / (1 + exp(-src)).", Formula("1 / (1 + exp(-src))"), ONE, ()),
    "silu": ("src / (1 + exp(-src)).", Formula("src / (1 + exp(-src))"), ONE, ()),
    "gelu": (
        "src by the normal distribution below it.",
        Formula("0.5 * src * (1 + erf(src * 0.7071067811865476))", chosen={
            "tanh": "0.5 * src * (1 + tanh(0.7978845608028654 * (src + 0.044715 * (src * src * src))))",
        }), ONE, (APPROXIMATE,)),
    "add": ("The sum.", Formula("src1 + src2", "number", rounds="rounded_add(src1, src2"), TWO, (ROUNDING,)),
    "sub": ("The difference.", Formula("src1 - src2", "number", rounds="rounded_sub(src1, src2"), TWO, (ROUNDING,)),
    "mul": ("The product.", Formula("src1 * src2", "number", rounds="rounded_mul(src1, src2"), TWO, (ROUNDING,)),
    "fdiv": ("The quotient of floats.", Formula("src1 / src2", rounds="rounded_div(src1, src2"), TWO, (ROUNDING,)),
    "pow": ("`src1` to the power `src2`.", Formula("pow(src1, src2)"), TWO, ()),
    "floordiv": ("The quotient of integers, rounded down; of no meaning where `src2` is 0.",
                 Formula("src1 // src2", "integer"), TWO, ()),
    "mod": ("What `floordiv` leaves over, with the sign of `src2`; of no meaning where that is 0.",
            Formula("src1 % src2", "integer"), TWO, ()),
    "shl": ("`src1 * 2**src2` of integers, modulo their range; `src2` is from 0 to their bits - 1.",
            Formula("src1 << src2", "integer"), TWO, ()),
    "shr": ("`src1 / 2**src2` of integers, rounded down; `src2` is from 0 to their bits - 1.",
            Formula("src1 >> src2", "integer"), TWO, ()),
    "bitand": ("The bits that both sides have; of bools, whether both hold.", Formula("src1 & src2", "bits"), TWO, ()),
    "bitor": ("The bits that a side has; of bools, whether one holds.", Formula("src1 | src2", "bits"), TWO, ()),
    "bitxor": ("The bits that differ; of bools, whether they differ.", Formula("src1 ^ src2", "bits"), TWO, ()),
    "invert": ("The bits that `src` has not; of bools, the other one.", Formula("invert(src)", "bits"), ONE, ()),
    "maximum": ("The larger one.", Formula("maximum(src1, src2)", "any", chosen={"number": "fmax(src1, src2)"}),
                TWO, (NAN,)),
    "minimum": ("The smaller one.", Formula("minimum(src1, src2)", "any", chosen={"number": "fmin(src1, src2)"}),
                TWO, (NAN,)),
    "fma": ("src * scale + bias, of floats rounded once.",
            Formula("fma(src, scale, bias)", "number", rounds="rounded_fma(src, scale, bias"),
            "src scale bias", (ROUNDING,)),
    "select": ("`true` where `pred` is not 0, else `false`.", Formula("where(pred, true, false)", "any"),
               "true false pred", ()),
    "eq": ("Whether the sides are equal.", Formula("src1 == src2", "any"), TWO, ()),
    "ne": ("Whether the sides differ.", Formula("src1 != src2", "any"), TWO, ()),
    "lt": ("Whether `src1` is less.", Formula("src1 < src2", "any"), TWO, ()),
    "le": ("Whether `src1` is less or equal.", Formula("src1 <= src2", "any"), TWO, ()),
    "gt": ("Whether `src1` is greater.", Formula("src1 > src2", "any"), TWO, ()),
    "ge": ("Whether `src1` is greater or equal.", Formula("src1 >= src2", "any"), TWO, ()),
}  # fmt: skip
for _name, (_doc, _formula, _sources, _keywords) in _ROWS.items():
    _row(_name, _doc, _formula, _sources, *_keywords)

ELEMENTWISE = tuple(_ROWS)
"""The names of all of them."""


# compute: several elementwise primitives in one call, which loads each element once and stores it once.
#
# Its formula is an expression over the names of its sources, ``exp(a - b) * 2.0``: the operators and functions are the
# other primitives. Each is computed in its own type of arithmetic, where the results of others count as they are; only
# the last one is converted to the dtype of `dst`.


COMPUTE, FORMULA = "compute", "formula"
NAMES = tuple("abcdefghijkl")
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "fdiv": "/", "pow": "**",
             "floordiv": "//", "mod": "%", "shl": "<<", "shr": ">>", "bitand": "&", "bitor": "|", "bitxor": "^",
             "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}  # fmt: skip
"""How formulas write primitives of two sources."""
SIGNS = {"neg": "-", "invert": "~"}
"""How they write those of one."""
_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "fdiv", ast.Pow: "pow", ast.Eq: "eq", ast.NotEq: "ne",
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "bitand",
    ast.BitOr: "bitor", ast.BitXor: "bitxor", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
CAST, SELECT, PREDICATE = "cast", "select", "pred"

Source: TypeAlias = "FormulaStep | str | int | float"


@dataclass(frozen=True, slots=True)
class FormulaStep:
    """One primitive of a formula. sources: further steps, names of operands, and numbers. to: the dtype of a cast."""

    name: str
    sources: tuple[Source, ...]
    keywords: tuple[tuple[str, object], ...] = ()
    to: str = ""

    @property
    def formula(self) -> Formula:
        """The formula of the step's primitive."""
        formula = PRIMITIVES[self.name].formula
        assert formula is not None, "only elementwise primitives are steps"
        return formula

    def named(self) -> Iterator[tuple[str, Source]]:
        """The sources with the names that the primitive has for them."""
        for operand, source in zip(PRIMITIVES[self.name].operands[1:], self.sources, strict=False):
            yield operand.name, source

    def asked(self, source: Source, place: str, dst: DType) -> DType:
        """The dtype to which a source is computed: bool for a comparison or a condition, else that of the result."""
        if place == PREDICATE or (isinstance(source, FormulaStep) and source.compares):
            return BOOL
        return dtype(self.to) if self.to else dst

    @property
    def compares(self) -> bool:
        """Is the result a bool?"""
        return self.name in COMPARISONS

    def kinds(self, of: Mapping[str, DType], dst: DType) -> tuple[DType, DType]:
        """The type of arithmetic, and the dtype of the result, for these dtypes of the operands.

        Raises KernelError for dtypes that have none in common, and for integers where floats are needed.
        """
        if self.to:
            return dtype(self.to), dtype(self.to)
        tiles, floats = [], False
        for place, source in self.named():
            if place == PREDICATE:
                continue
            if isinstance(source, FormulaStep):
                tiles.append(source.kinds(of, self.asked(source, place, dst))[1])
            elif isinstance(source, str):
                tiles.append(of[source])
            else:
                floats |= isinstance(source, float)
        kind = arithmetic_dtype(tiles or [dst], dst, self.formula.takes, has_float=floats)
        if self.formula.takes == "float" and not kind.is_float:
            raise KernelError(f"{self.name} is of floats", given=f"sources of {kind}",
                              allowed="at least one source that is a float", hint='T.cast(x, "float32")')  # fmt: skip
        if self.formula.takes in INTEGRAL and kind.is_float:
            raise KernelError(f"{self.name} is of integers", given=f"sources of {kind}", allowed="integers")
        return kind, BOOL if self.compares else kind

    def filled(self, numbers: Mapping[str, float]) -> FormulaStep:
        """The step with numbers, which have no type of their own, in the place of these operands."""
        sources = (
            source.filled(numbers) if isinstance(source, FormulaStep)
            else numbers.get(source, source) if isinstance(source, str) else source
            for source in self.sources
        )  # fmt: skip
        return replace(self, sources=tuple(sources))

    def names(self) -> Iterator[str]:
        """The names of the operands that the step reads."""
        for source in self.sources:
            if isinstance(source, FormulaStep):
                yield from source.names()
            elif isinstance(source, str):
                yield source

    def __str__(self) -> str:
        return ast.unparse(ast.parse(self._text(), mode="eval"))

    def _text(self) -> str:
        texts = [source._text() if isinstance(source, FormulaStep) else _shown(source) for source in self.sources]
        if self.name in OPERATORS and not self.keywords:
            return f"({texts[0]} {OPERATORS[self.name]} {texts[1]})"
        if self.name in SIGNS:
            return f"({SIGNS[self.name]}{texts[0]})"
        if self.name == SELECT:
            true, false, pred = texts
            return f"({true} if {pred} else {false})"
        texts += [repr(self.to)] if self.to else []
        return f"{self.name}({', '.join([*texts, *(f'{key}={value!r}' for key, value in self.keywords)])})"


def _shown(source: str | int | float) -> str:
    if isinstance(source, float) and not np.isfinite(source):
        return f"float('{source}')"
    return source if isinstance(source, str) else repr(source)


@lru_cache(maxsize=1024)
def formula_of(text: str) -> FormulaStep:
    """The steps of a formula. Raises KernelError for what is none."""
    try:
        step = _step(ast.parse(text, mode="eval").body)
    except SyntaxError:
        step = None
    if isinstance(step, str):
        return FormulaStep(CAST, (step,))
    if not isinstance(step, FormulaStep):
        raise KernelError("a formula is an expression over sources", given=repr(text), allowed="exp(a - b) * 2.0")
    return step


def _step(node: ast.expr) -> Source:
    if isinstance(node, ast.Name) and node.id in NAMES:
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _step(node.operand)
        return -inner if isinstance(inner, (int, float)) else FormulaStep("neg", (inner,))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return FormulaStep("invert", (_step(node.operand),))
    if isinstance(node, ast.BinOp) and type(node.op) in _SYMBOLS:
        return FormulaStep(_SYMBOLS[type(node.op)], (_step(node.left), _step(node.right)))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SYMBOLS:
        return FormulaStep(_SYMBOLS[type(node.ops[0])], (_step(node.left), _step(node.comparators[0])))
    if isinstance(node, ast.IfExp):
        return FormulaStep(SELECT, (_step(node.body), _step(node.orelse), _step(node.test)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _called(node.func.id, node)
    raise KernelError(
        "a formula is made of elementwise primitives",
        given=ast.unparse(node),
        allowed=f"operators, names of primitives, numbers, and the sources {NAMES[0]} to {NAMES[-1]}",
    )


OF_TWO = {"max": "maximum", "min": "minimum"}  # as Python spells them


def _called(name: str, node: ast.Call) -> Source:
    name = OF_TWO.get(name, name)
    if name == "float":  # of a number that has no other text: inf, nan
        return float(ast.literal_eval(node.args[0]))
    row = PRIMITIVES.get(name)
    if row is None or row.formula is None or name == COMPUTE:
        names = [entry.name for entry in PRIMITIVES.values() if entry.formula is not None and entry.name != COMPUTE]
        raise KernelError(f"{name} is no elementwise primitive", given=name, allowed=choices(name, names))
    arguments, to = list(node.args), ""
    if name == CAST and len(arguments) == 2:
        to = str(dtype(ast.literal_eval(arguments.pop())))
    least = sum(entry.default is None for entry in row.operands[1:])
    if not least <= len(arguments) <= len(row.operands) - 1:
        sources = ", ".join(entry.name for entry in row.operands[1:])
        raise KernelError(f"{name} takes {sources}", given=ast.unparse(node))
    keywords = tuple((str(entry.arg), ast.literal_eval(entry.value)) for entry in node.keywords)
    for key, value in keywords:
        keyword = row.keyword(key)
        if keyword is None or key == VEC_LEN.name or not keyword.admits(value):
            allowed = keyword.allowed if keyword else choices(key, [entry.name for entry in row.keywords])
            raise KernelError(f"{name} has no {key}={value!r}", given=ast.unparse(node), allowed=allowed)
    return FormulaStep(name, tuple(map(_step, arguments)), keywords, to)


class Composed(Formula):
    """The formula that a call brings along."""

    __slots__ = ()

    def by(self, keywords: Keywords) -> str:
        """The text for a call's keywords."""
        return str(keywords.get(FORMULA, ""))


def _computed_by(dst: Array, *sources: Any, formula: str, **_: object) -> None:
    by_numpy(formula_of(formula), dict(zip(NAMES, sources, strict=False)), dst)


def by_numpy(step: FormulaStep, values: Mapping[str, Any], dst: Array) -> None:
    """By NumPy, ``dst`` gets what a formula makes of arrays and numbers."""
    numbers = {name: value for name, value in values.items() if isinstance(value, (int, float))}
    kinds = {name: dtype(str(value.dtype)) for name, value in values.items() if name not in numbers}

    def result(step: FormulaStep, to: DType) -> Array:
        inner, kind = step.kinds(kinds, to)
        values_in = [
            result(source, step.asked(source, place, to)) if isinstance(source, FormulaStep)
            else values[source] if isinstance(source, str) else source
            for place, source in step.named()
        ]  # fmt: skip
        if not any(isinstance(value, np.ndarray) for value in values_in):
            values_in = [np.asarray(value, inner.numpy) for value in values_in]
        shape = np.broadcast_shapes(*(np.shape(value) for value in values_in))
        out = np.empty(shape, kind.numpy)
        PRIMITIVES[step.name].meaning(out, *values_in, **dict(step.keywords))
        return out

    with np.errstate(all="ignore"):
        dst[...] = result(step.filled(numbers), dtype(str(dst.dtype))).astype(dst.dtype)


PRIMITIVES[COMPUTE] = Primitive(
    COMPUTE,
    "Each element of `dst` gets what `formula`, an expression over the sources `a`, `b`, `c` ..., comes to.",
    (TileOperand("dst", DST), TileOperand(NAMES[0], SOURCE),
     *(TileOperand(name, SOURCE, optional=True, absent=True) for name in NAMES[1:])),
    (VEC_LEN, Keyword(FORMULA, str, "")),
    WITHIN_A_CTA, _computed_by, broadcasting, all_of(computable, whole_vectors), Composed("formula", "any"),
)  # fmt: skip
