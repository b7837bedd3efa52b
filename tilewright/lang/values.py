"""The functions of ``T`` that compute: conversions, choices, C's division, addresses, unfolded nodes of scripts; and
those of tiles.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from tilewright import ir
from tilewright.dtypes import BOOL, DType, dtype
from tilewright.errors import KernelError, choices
from tilewright.ir import Computed, Reduced, Tiled
from tilewright.ir import cast as convert
from tilewright.ir.intervals import limits
from tilewright.ir.numbers import largest_float
from tilewright.isa import INSTRUCTIONS, call
from tilewright.lang.instructions import form, formula_for, hint_for_keyword, row_call
from tilewright.lang.memory import OpenMap
from tilewright.lang.public import export, public
from tilewright.primitives import PRIMITIVES
from tilewright.primitives.elementwise import CAST, COMPUTE, OPERATORS, SELECT


@dataclass(frozen=True, slots=True)
class MetaValue:
    """What ``T.meta_var`` gives to the assignment around it."""

    value: object


def meta_var(value: object) -> MetaValue:
    """Bind a name to a Python value or an expression itself: no scalar is made."""
    return MetaValue(value)


def cast(value: ir.Value, kind: str) -> ir.Expr:
    """``value`` converted as C does; float to int truncates and saturates, NaN becomes 0."""
    return convert(value, _dtype(kind))


def typed(kind: str, value: ir.Value) -> ir.Expr:
    """`T.cast` with the dtype first."""
    return cast(value, kind)


def complement(value: ir.Value) -> ir.Expr:
    """``~value``."""
    return ir.unary("~", value)


def reinterpret(kind: str, value: ir.Value) -> ir.Expr:
    """The bits of ``value`` as another dtype of the same size."""
    expr, target = ir.as_expr(value), _dtype(kind)
    if expr.dtype.bits != target.bits:
        raise KernelError(
            f"T.reinterpret keeps the bits of `{expr}`",
            given=f"{expr.dtype.bits} bits as {target}",
            allowed=f"a dtype of {expr.dtype.bits} bits",
            hint="T.cast converts the value",
        )
    return expr if expr.dtype == target else ir.Reinterpret(expr, target)


def _dtype(kind: object) -> DType:
    if not isinstance(kind, str):
        raise KernelError("not a dtype", given=f"`{kind}`", allowed='a name such as "float16", or T.float16')
    return dtype(str(kind))


def _operator(op: str) -> Callable[[ir.Value, ir.Value], ir.Expr]:
    """A function of two operands for an operator without a symbol in Python, or with another meaning there."""

    def apply(a: ir.Value, b: ir.Value) -> ir.Expr:
        return ir.binary(op, a, b)

    apply.__name__ = op
    apply.__doc__ = f"``a {op} b``"
    return apply


def minimum(*values: ir.Value) -> ir.Expr:
    """The smallest of the values, NaN where one of them is; ``T.fmin`` takes the number."""
    return _least("min", values)


def maximum(*values: ir.Value) -> ir.Expr:
    """The largest of the values, NaN where one of them is; ``T.fmax`` takes the number."""
    return _least("max", values)


def _least(op: str, values: tuple[ir.Value, ...]) -> ir.Expr:
    if not values:
        raise KernelError(f"T.{op} of no values", given="nothing", allowed=f"T.{op}(a, b, ...)")
    first, *rest = values
    return (
        reduce(lambda a, b: ir.binary(op, a, b), rest[1:], ir.binary(op, first, rest[0])) if rest else ir.as_expr(first)
    )


def absolute(value: ir.Value) -> ir.Expr:
    """The value without its sign."""
    return abs(value) if isinstance(value, ir.Tiled) else call("abs", value)


def ceildiv(a: ir.Value, b: ir.Value) -> ir.Expr:
    """How many times ``b`` it takes to cover ``a``, for a positive ``b``."""
    return ir.binary("//", ir.binary("-", ir.binary("+", a, b), 1), b)


def address_of(place: ir.Buffer | ir.Load | ir.Region | OpenMap) -> ir.AddressOf:
    """A pointer to an element; to the first one of a buffer or region; to a tensor map."""
    if isinstance(place, OpenMap):
        place = place.filled()
    if isinstance(place, ir.Buffer):
        return ir.AddressOf(place, tuple(ir.as_expr(0) for _ in place.shape))
    if isinstance(place, ir.Region):
        return ir.AddressOf(place.buffer, tuple(ir.as_expr(start) for start, _ in place.box), place.owed)
    if isinstance(place, ir.Load):
        return ir.AddressOf(place.buffer, place.indices, place.owed)
    raise KernelError(
        f"`{place}` has no address",
        given=type(place).__name__,
        allowed="a buffer, or an element of one",
        hint="a scalar has an address as an array of one: x: T.int32[1]",
    )


def infinity(kind: str) -> ir.Const:
    """The positive infinity of a float dtype."""
    return ir.Const(float("inf"), _dtype(kind))


def least_of(kind: str) -> ir.Const:
    """The smallest finite number of a dtype."""
    return _last_of(kind, -1)


def largest_of(kind: str) -> ir.Const:
    """The largest finite number of a dtype."""
    return _last_of(kind, 1)


def _last_of(kind: str, sign: int) -> ir.Const:
    element = _dtype(kind)
    if element.is_float:
        return ir.Const(sign * largest_float(element), element)
    low, high, *_ = limits(element)
    return ir.Const(high if sign > 0 else low, element)


def broadcast(value: ir.Value, lanes: int) -> ir.Expr:
    """A vector of so many times the same value."""
    expr = ir.as_expr(value)
    return convert(expr, dtype(f"{expr.dtype}x{lanes}"))


def likely(cond: ir.Value) -> ir.Value:
    """The condition itself: how often it holds changes nothing here."""
    return cond


def special_register(name: str) -> ir.Special:
    """A special register by its name, as the lowered stage has them: ``T.special("ctaid.x")`` or ``T.ctaid.x``."""
    if name not in ir.SPECIALS:
        raise KernelError(f"unknown special register {name!r}", given=name, allowed=choices(name, ir.SPECIALS))
    return ir.special(name)


def exactly(op: str, *operands: ir.Value, kind: str | None = None) -> ir.Expr:
    """The node itself, unfolded: how a printed script writes what building it again would simplify."""
    values = tuple(ir.as_expr(value) for value in operands)
    operators = EXACT.get(len(values), ())
    if op not in operators:
        allowed = ", ".join(operators) or "one to three operands"
        raise KernelError(f"T.exactly has no {op!r} of {len(values)} operands", given=op, allowed=allowed)
    if op == "cast":
        return ir.Cast(values[0], _dtype(kind))
    if op == "select":
        return ir.Select(values[0], values[1], values[2], values[1].dtype)
    if len(values) == 1:
        return ir.Unary(op, values[0], values[0].dtype)
    compares = op in (*ir.Binary.COMPARISONS, *ir.Binary.LOGIC)
    return ir.Binary(op, values[0], values[1], BOOL if compares else values[0].dtype)


EXACT: dict[int, tuple[str, ...]] = {
    1: ("cast", "-", "~", "not"),
    2: (*ir.Binary.ARITHMETIC, *ir.Binary.BITS, *ir.Binary.COMPARISONS, *ir.Binary.LOGIC),
    3: ("select",),
}
"""The nodes that `exactly` makes, by their number of operands."""


def region(buffer: ir.Buffer, *box: tuple[ir.Value, ir.Value]) -> ir.Region:
    """The box of a buffer with (start, extent) for each dimension: where slices would simplify the extent."""
    fits = isinstance(buffer, ir.Buffer) and len(box) == len(buffer.shape)
    if not fits or not all(isinstance(pair, tuple) and len(pair) == 2 and all(map(_counts, pair)) for pair in box):
        raise KernelError(
            "T.region takes a buffer and a box of it",
            given=", ".join(map(str, (getattr(buffer, "name", buffer), *box))),
            allowed="(start, extent) of integers for each dimension: T.region(A, (0, 8), (i, 16))",
        )
    return ir.Region(buffer, box)


def _counts(value: object) -> bool:
    """Is the value an integer, known to Python or of run time?"""
    if isinstance(value, ir.Expr):
        return value.dtype.is_integer
    return hasattr(value, "__index__") and not isinstance(value, bool)


export(
    "Values",
    meta_var,
    cast,
    reinterpret,
    select=ir.select,
    if_then_else=ir.select,
    min=minimum,
    max=maximum,
    floordiv=_operator("//"),
    floormod=_operator("%"),
    truncdiv=_operator("truncdiv"),
    truncmod=_operator("truncmod"),
    shift_left=_operator("<<"),
    shift_right=_operator(">>"),
    bitwise_and=_operator("&"),
    bitwise_or=_operator("|"),
    bitwise_xor=_operator("^"),
    And=_operator("and"),
    Or=_operator("or"),
    ceildiv=ceildiv,
    address_of=address_of,
    infinity=infinity,
    min_value=least_of,
    max_value=largest_of,
    likely=likely,
    Broadcast=broadcast,
    Select=ir.select,
    Cast=typed,
    bitwise_not=complement,
    special=special_register,
    exactly=exactly,
    region=region,
)


# The functions of ``T`` on tiles: ``T.exp(x)``, ``T.select(x < 0, a, b)``, ``T.max(x, axis=1)``.
#
# They make expressions over tiles, of the primitives of the same names; for values they are the functions above.


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


def tile_select(cond: object, a: object, b: object) -> object:
    """``a`` where ``cond`` holds, else ``b``; of tiles, for each element."""
    if any(isinstance(value, Tiled) for value in (cond, a, b)):
        return Computed(SELECT, (a, b, cond))
    return _OF_VALUES["select"](cond, a, b)


def tile_cast(value: object, kind: object) -> object:
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

_OF_VALUES: dict[str, Callable[..., object]] = {
    "select": public(ir.select),
    "cast": public(cast),
    "min": public(minimum),
    "max": public(maximum),
}
REDUCTION_FUNCTIONS = {name: _reduction(name) for name in REDUCTIONS}
export("Tiles", select=tile_select, if_then_else=tile_select, cast=tile_cast, **REDUCTION_FUNCTIONS)
