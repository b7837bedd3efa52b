"""``T.ptx``, ``T.cuda`` and the math functions: every row of the instruction table by its dotted name; and what CUDA,
Triton, CuTe and NumPy call things, for hints. Those tables are `elsewhere.toml`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TypeVar

from tilewright.errors import InstructionError, KernelError, choices
from tilewright.ir import Buffer, Call, Expr, Reinterpret
from tilewright.isa import INSTRUCTIONS, REQUIRED, bind, call, lookup, spoken, usage
from tilewright.lang.builder import UnknownInstruction, building
from tilewright.lang.memory import alloc_local, extents
from tilewright.lang.public import export, public
from tilewright.layout import AXES, tcgen05_atom_layout, wg_local_layout
from tilewright.layout.axes import listed
from tilewright.records import read_tables

# What CUDA, Triton, CuTe and NumPy call things, and what they are here: for hints. The tables are `elsewhere.toml`.


PAGES = ("CUDA", "Triton", "CuTe", "TIRx", "NumPy, torch, TileLang")
"""The tables of names, by their origin; the file has others besides."""


@cache
def tables() -> Mapping[str, Mapping[str, str]]:
    """The tables of the file, read once a hint asks for them."""
    return read_tables(__file__, "elsewhere.toml")


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


# ``T.ptx``, ``T.cuda`` and the math functions: every row of the instruction table by its dotted name.
#
# Beside the rows, a name may have a form of its own (`FORMS`), a function that makes calls of rows: other arguments for
# an instruction, or several instructions under one name. A printed script has rows only, and calls them as they are.
#
# Registers of a warpgroup that hold a tile: a row for each thread, or the fragment of a tensor-memory instruction.


def alloc_tcgen05_ldst_frag(shape_name: str, shape: object, dtype: str = "float32") -> Buffer:
    """Registers for (rows, cols) of tensor memory, in the fragment of tcgen05.ld and st of this shape ("32x32b")."""
    numbers = [extent for extent in extents(shape, "a fragment of tensor memory") if isinstance(extent, int)]
    if len(numbers) != 2:
        raise KernelError(
            "a fragment of tensor memory has rows and columns",
            given=listed(extents(shape, "a fragment of tensor memory")),
            allowed="two Python ints: (128, 64)",
        )
    return alloc_local(numbers, dtype, layout=tcgen05_atom_layout(shape_name, numbers, dtype))


def wg_reg_tile(n: int, dtype: str = "float32") -> Buffer:
    """Registers for 128 rows of ``n`` elements, a row for each thread of a warpgroup."""
    return alloc_local((128, n), dtype, layout=wg_local_layout(n))


def alloc_cast_frag(src: Buffer, dtype: str) -> Buffer:
    """Registers for the elements of ``src`` as another dtype, each where it is in ``src``."""
    if src.space != "local":
        raise KernelError(f"{src.name} is no fragment", given=f"scope {src.space}", allowed="a buffer in registers")
    return alloc_local(src.shape, dtype, layout=src.layout)


Form = TypeVar("Form", bound=Callable[..., Expr | None])

FORMS: dict[str, Callable[..., Expr | None]] = {}
"""Functions by the name under which they are called, in place of a row or beside the rows."""


def form(*names: str) -> Callable[[Form], Form]:
    """Registers a function under these names of ``T``."""

    def register(function: Form) -> Form:
        FORMS.update(dict.fromkeys(names, public(function)))
        return function

    return register


def call_form(name: str, function: Callable[..., Expr | None], /, *args: object, **keywords: object) -> Expr | None:
    """Call a form. Raises InstructionError for arguments that do not fit its parameters."""
    signature = _signature_of(function)
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        raise InstructionError(f"T.{name}: {error}", allowed=", ".join(signature.parameters)) from None
    return function(*args, **keywords)


_signature_of = cache(inspect.signature)


def row_call(name: str, /, *args: object, **kwargs: object) -> Expr:
    """The call of a row as an expression; in a kernel, one without a value is a statement."""
    expr = call(name, *args, **kwargs)
    builder = building()
    inner = expr.a if isinstance(expr, Reinterpret) else expr
    if builder is not None and isinstance(inner, Call):
        builder.made(inner, has_effect=_has_effect(inner))
    return expr


def is_name(name: str) -> bool:
    """Is it a row, a form, or a namespace of some?"""
    return name in INSTRUCTIONS or name in FORMS or any(row.startswith(f"{name}.") for row in _names())


def _is_called(name: str) -> bool:
    return name in INSTRUCTIONS or name in FORMS


def _names() -> Iterator[str]:
    yield from INSTRUCTIONS
    yield from (name for name in FORMS if name not in INSTRUCTIONS)


class Instructions:
    """A dotted name of the table: a row to call, a namespace of rows, or both (``T.ptx.mbarrier.arrive``)."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def __doc__(self) -> str:  # type: ignore[override]  # Python's own is a string
        """What `help` shows: how it is called, then what it does; of a namespace what is in it."""
        name = self._name
        said = (INSTRUCTIONS[name].doc if name in INSTRUCTIONS else FORMS[name].__doc__) if _is_called(name) else ""
        inside = ", ".join(dir(self))
        within = [f"T.{name}.*: {inside}"] if inside else []
        head = [f"T.{name}{self.__signature__}", "", said or ""] if _is_called(name) else []
        return "\n".join([*head, *([""] if head and within else []), *within])

    @property
    def __signature__(self) -> inspect.Signature:
        """What `inspect` shows: the parameters of the row, or of the form."""
        shown = _signature_of(FORMS[self._name]) if self._name in FORMS else None
        takes_all = shown is not None and any(item.kind is item.VAR_POSITIONAL for item in shown.parameters.values())
        if shown is None or (takes_all and self._name in INSTRUCTIONS):
            return signature_of_row(self._name)  # a form that takes whatever the row takes
        return shown

    def __getattr__(self, name: str) -> Instructions:
        if name.startswith("_"):  # Python and its tools ask for these
            raise AttributeError(name)
        return instructions(f"{self._name}.{spoken(name)}")

    def __dir__(self) -> list[str]:
        depth = self._name.count(".") + 1
        return sorted({name.split(".")[depth] for name in _names() if name.startswith(self._name + ".")})

    def __repr__(self) -> str:
        return f"T.{self._name}"

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        """The call as an expression; in a kernel, one without a value is a statement."""
        builder = building()
        if self._name in FORMS and not (builder is not None and builder.exact):
            return call_form(self._name, FORMS[self._name], *args, **kwargs)
        return row_call(self._name, *args, **kwargs)


def _has_effect(instruction: Call) -> bool:
    bound = bind(instruction)
    form = bound.form
    strong = (access.write or bound.word(access.sem) != "weak" for access in form.accesses)
    return form.sync is not None or any(strong)


@cache
def instructions(name: str) -> Instructions:
    """The row or namespace ``name`` ("ptx.ldmatrix", "ptx"). Raises InstructionError with the nearest name."""
    if is_name(name):
        return Instructions(name)
    space, _, last = name.rpartition(".")
    names = dir(Instructions(space)) or [row for row in _names() if row.rpartition(".")[2] == last]
    hint = hint_for(name)
    raise UnknownInstruction(
        f"T.{name} is not an instruction",
        given=f"T.{name}",
        allowed=None if hint else choices(last, names) or usage(lookup(space)),
        hint=hint,
    )


def signature_of_row(name: str) -> inspect.Signature:
    """The signature of a row; a namespace without a row takes nothing."""
    row = INSTRUCTIONS.get(name)
    if row is None:
        return inspect.Signature()
    plain, starred = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    listed = [inspect.Parameter(p.lstrip("*"), starred if p.startswith("*") else plain) for p in row.params]
    left_out = [default is not REQUIRED for default in row.keywords.values()]
    by_name = left_out != sorted(left_out) or any(p.startswith("*") for p in row.params)
    kind = inspect.Parameter.KEYWORD_ONLY if by_name else plain
    named = [
        inspect.Parameter(key, kind, default=inspect.Parameter.empty if default is REQUIRED else default)
        for key, default in row.keywords.items()
    ]
    return inspect.Signature([*listed, *named], return_annotation="Expr")


export("Memory", alloc_tcgen05_ldst_frag, wg_reg_tile, alloc_cast_frag)
