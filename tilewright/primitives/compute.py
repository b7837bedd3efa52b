"""compute: several elementwise primitives in one call, which loads each element once and stores it once.

Its formula is an expression over the names of its sources, ``exp(a - b) * 2.0``: the operators and functions are the
other primitives. Each is computed in its own type of arithmetic, where the results of others count as they are; only
the last one is converted to the dtype of `dst`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from tilewright.dtypes import BOOL, DType, dtype
from tilewright.errors import KernelError, choices
from tilewright.primitives.elements import INTEGRAL, all_of, arithmetic_dtype, broadcasting, computable, whole_vectors
from tilewright.primitives.elementwise import DST, SOURCE, VEC_LEN, Array, Formula
from tilewright.primitives.table import PRIMITIVES, WITHIN_A_CTA, Keyword, Primitive, TileOperand
from tilewright.records import replace

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


def _called(name: str, node: ast.Call) -> Source:
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

    def by(self, keywords: Mapping[str, object]) -> str:
        """The text for a call's keywords."""
        return str(keywords.get(FORMULA, ""))


def _meaning(dst: Array, *sources: Any, formula: str, **_: object) -> None:
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
    WITHIN_A_CTA, _meaning, broadcasting, all_of(computable, whole_vectors), Composed("formula", "any"),
)  # fmt: skip
