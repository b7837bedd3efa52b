"""The functions of ``T`` on tiles: ``T.exp(x)``, ``T.select(x < 0, a, b)``, ``T.max(x, axis=1)``.

They make expressions over tiles, of the primitives of the same names; for values they are the functions of
`tilewright.lang.values`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from tilewright.dtypes import dtype
from tilewright.errors import KernelError, choices
from tilewright.ir import Computed, Reduced, Tiled
from tilewright.isa import INSTRUCTIONS
from tilewright.lang.instructions import form, formula_for, hint_for_keyword, row_call
from tilewright.lang.public import public
from tilewright.lang.values import EXPORTS as OF_VALUES
from tilewright.primitives import PRIMITIVES
from tilewright.primitives.elementwise import CAST, COMPUTE, OPERATORS, SELECT

REDUCTIONS = {
    "sum": "sums",
    "prod": "products",
    "max": "largest elements",
    "min": "smallest elements",
    "any": "answers whether some element is not 0",
    "all": "answers whether no element is 0",
    "argmax": "places of the first largest elements",
    "argmin": "places of the first smallest elements",
}
LARGER = {"max": "maximum", "min": "minimum"}

MASKED = "T.select(cond, x, y), which chooses for each element; regions that leave their buffers need no mask"


def _elementwise(name: str) -> Callable[..., object]:
    """A primitive of the same name as a function of values, if it is one."""
    row = PRIMITIVES[name]
    names = [operand.name for operand in row.operands[1:]]
    parameters = [
        inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                          default=None if row.operands[1:][place].optional and place else inspect.Parameter.empty)
        for place, word in enumerate(names)
    ]  # fmt: skip
    settings = [inspect.Parameter(keyword.name, inspect.Parameter.KEYWORD_ONLY, default=keyword.default)
                for keyword in row.keywords if keyword.name != "vec_len"]  # fmt: skip
    signature = inspect.Signature([*parameters, *settings])

    def apply(*args: object, **keywords: object) -> object:
        if not any(isinstance(value, Tiled) for value in (*args, *keywords.values())):
            if name in INSTRUCTIONS:
                return row_call(name, *args, **keywords)
            texts = list(map(str, args))
            raise KernelError(f"T.{name} is of tiles", given=", ".join(texts), allowed="a buffer or a region",
                              hint=formula_for(name, *texts))  # fmt: skip
        try:
            passed = signature.bind(*args, **keywords).arguments
        except TypeError as error:
            hint = MASKED if any(map(hint_for_keyword, keywords)) else None
            raise KernelError(f"T.{name}: {error}", allowed=", ".join(signature.parameters), hint=hint) from None
        values = [passed.get(word) for word in names]
        sources = [row.operands[1 + n].default if value is None else value for n, value in enumerate(values)]
        while len(sources) > 1 and names[len(sources) - 1] not in passed:
            sources.pop()
        config = tuple((keyword.name, passed[keyword.name]) for keyword in row.keywords if keyword.name in passed)
        return Computed(name, tuple(sources), config)

    apply.__name__, apply.__doc__ = name, row.doc
    return apply


def select(cond: object, a: object, b: object) -> object:
    """``a`` where ``cond`` holds, else ``b``; of tiles, for each element."""
    if any(isinstance(value, Tiled) for value in (cond, a, b)):
        return Computed(SELECT, (a, b, cond))
    return _OF_VALUES["select"](cond, a, b)


def cast(value: object, kind: object) -> object:
    """``value`` converted as C does; float to int truncates and saturates, NaN becomes 0."""
    if isinstance(value, Tiled):
        return Computed(CAST, (value,), (), str(dtype(str(kind))))
    return _OF_VALUES["cast"](value, kind)


def _reduction(name: str) -> Callable[..., object]:
    row = PRIMITIVES[name]
    allowed = [keyword.name for keyword in row.keywords if keyword.name not in ("axes", "accum")]

    def reduce(*values: object, axis: object = None, keepdims: bool = False, **keywords: object) -> object:
        if name in LARGER and not (any(isinstance(value, Tiled) for value in values) and len(values) == 1):
            return _larger(name, *values)
        if len(values) != 1 or not isinstance(values[0], Tiled):
            raise KernelError(f"T.{name} is of one tile", given=", ".join(map(str, values)) or "nothing",
                              allowed=f"a buffer or a region: T.{name}(x, axis=1)")  # fmt: skip
        for key in keywords:
            if key not in allowed:
                raise KernelError(f"T.{name} has no keyword {key!r}", given=f"{key}={keywords[key]}",
                                  allowed=choices(key, ["axis", "keepdims", *allowed]))  # fmt: skip
        axes = axis if axis is None or isinstance(axis, tuple) else (axis,)
        if axes is not None and not all(isinstance(dim, int) for dim in axes):
            raise KernelError(f"the axis of T.{name}", given=str(axis), allowed="an int, or a tuple of ints")
        return Reduced(name, values[0], axes, tuple(keywords.items()), keepdims)

    of_values = f"; of several values ``T.{name}(a, b)`` the {REDUCTIONS[name].split()[0]}" if name in LARGER else ""
    reduce.__name__, reduce.__doc__ = (
        name,
        (
            f"The {REDUCTIONS[name]} of a tile along ``axis``, of the whole tile where it is left out{of_values}. "
            f"`Tx.{name}` has the other keywords."
        ),
    )
    return reduce


def _larger(name: str, *values: object) -> object:
    """``T.max(a, b)``: of values, or of each element."""
    if not any(isinstance(value, Tiled) for value in values):
        return _OF_VALUES[name](*values)
    first, *rest = values
    for value in rest:
        first = Computed(LARGER[name], (first, value))
    return first


for _name, _row in PRIMITIVES.items():
    if _row.formula is not None and _name not in (*OPERATORS, CAST, SELECT, COMPUTE):
        form(_name)(_elementwise(_name))  # type: ignore[type-var]  # of tiles it is no Expr

_OF_VALUES: dict[str, Callable[..., object]] = {name: public(OF_VALUES[name]) for name in ("select", "cast", *LARGER)}  # type: ignore[type-var, misc]  # functions
EXPORTS: dict[str, object] = {
    "select": select,
    "if_then_else": select,
    "cast": cast,
    **{name: _reduction(name) for name in REDUCTIONS},
}
"""The names of ``T`` that this file defines, with what they stand for."""
