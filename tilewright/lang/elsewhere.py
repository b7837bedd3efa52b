"""What CUDA, Triton, CuTe and NumPy call things, and what they are here: for hints. The tables are `elsewhere.toml`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tilewright.layout import AXES

PAGES = ("CUDA", "Triton", "CuTe", "TIRx", "NumPy, torch, TileLang")
"""The tables of names, by their origin; the file has others besides."""


@cache
def tables() -> Mapping[str, Mapping[str, str]]:
    """The tables of the file, read once a hint asks for them."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def names() -> Mapping[str, str]:
    """Every name of theirs, with what it is here."""
    return {name: here for page in PAGES for name, here in tables()[page].items()}


def hint_for(name: str) -> str | None:
    """What a name of theirs is here, for a hint: "T.cuda.syncwarp" is looked up whole, then by its last part."""
    bare = name.rpartition(".")[2].strip("_")
    for spelling in (
        name,
        f"cute.{name.rpartition('.')[2]}",
        bare,
        bare.removesuffix("_sync"),
        f"tl.{bare}",
        f"cute.{bare}",
        f"cute.arch.{bare}",
    ):
        if spelling in names():
            return names()[spelling]
    return formula_for(bare)


def hint_for_undefined(name: str, axis: str | None) -> str | None:
    """What defines a name that is nowhere: it is theirs, a thread's place, or one of a layout's axes, the nearest."""
    place, imported = tables()["places"].get(name), axis and f"from tilewright.layout import {axis}"
    hints = [hint for hint in (place, imported and f"{imported}, for a layout" if place else imported) if hint]
    return hint_for(name) or "; ".join(hints) or None


def hint_for_keyword(name: str) -> str | None:
    """What a keyword of theirs is here."""
    return tables()["keywords"].get(name)


SAME = frozenset({"maximum", "minimum", "max", "min", "floor", "ceil", "trunc", "round", "abs", "fabs", "copysign"}) | {
    "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "hypot", "fmod", "fma",
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "erf", "fmax", "fmin", "isinf",
    "isnan", "isfinite",
}  # fmt: skip
"""Functions of `math`, NumPy and torch that `T` has for values by the same name."""


def formula_for(name: str, *args: str) -> str | None:
    """What computes a function of theirs of these arguments, given as text; None for other functions."""
    formula = tables()["formulas"].get(name) or (tables()["methods"].get(name) if args else None)
    if name in SAME:
        return f"T.{name}({', '.join(args) or 'x'})"
    if formula is None:
        return None
    texts = [text if text.replace("_", "").isalnum() or text[-1:] in ")]\"'" else f"({text})" for text in args]
    return formula.format(**dict(zip("xyz", (*texts, *"xyz"[len(texts) :]), strict=False)))


def hint_for_attribute(name: str, buffer: str) -> str | None:
    """What a method or attribute of their arrays is here, of this buffer or a region of it."""
    return tables()["arrays"].get(name, "").format(x=buffer) or None


def hint_for_python(node: ast.AST) -> str | None:
    """What does what Python's own function or operator, or one of NumPy, math or torch, was asked for."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return tables()["python"]["pow"]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and isinstance(node.right, ast.Attribute):
        axis = node.right.attr
        return f"from tilewright.layout import {axis}: an axis, no register" if axis in AXES else None
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        return formula_for(node.func.attr, *map(ast.unparse, node.args))
    return tables()["python"].get(node.func.id) if isinstance(node.func, ast.Name) else None
