"""Tile calls: each thread makes a ``Tx.copy`` by itself; ``Tx.warp``, ``Tx.wg`` and ``Tx.cta`` are collectives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, cast

from tilewright.dtypes import INT32, INT64, dtype
from tilewright.errors import KernelError, choices, described
from tilewright.ir import ELEMENT, Buffer, Expr, Load, Region, TileCallStmt, as_expr, const_value, special
from tilewright.ir.expr import truth_is_an_error
from tilewright.ir.verify_places import check_regions
from tilewright.lang.builder import building, current
from tilewright.lang.elsewhere import hint_for, hint_for_keyword
from tilewright.lang.settings import argument
from tilewright.lang.types import UnknownName
from tilewright.primitives import COMMON, PRIMITIVES, Primitive, TileOperand

__all__ = ["SCOPES", "TileNamespace", "region_of"]

FLOAT64 = dtype("float64")
SCOPES = {
    "thread": "thread",
    "warp": "warp",
    "wg": "warpgroup",
    "warpgroup": "warpgroup",
    "cta": "cta",
    "cluster": "cluster",
}
"""The execution scopes, as written and as the IR has them."""


class TileFunction(Protocol):
    """What ``Tx.warp.copy`` is: a function with the primitive's signature."""

    __signature__: object

    def __call__(self, *args: object, dispatch: str | None = None, **config: object) -> None: ...


@cache
def tile_function(name: str, scope: str, prefix: str) -> Callable[..., None]:
    """A primitive of one scope, as a function for kernels: a call of it adds a statement."""
    row = PRIMITIVES[name]

    def call(*args: object, dispatch: str | None = None, **config: object) -> None:
        builder = current(f"Tx.{name}")
        _check_keywords(row, config)
        if not isinstance(dispatch, str | None):
            given = described(dispatch)
            raise KernelError(f"Tx.{name}: dispatch is the name of a variant", given=given, allowed="a string")
        operands = _operands(row, args, config)
        first = operands[0]
        assert isinstance(first, Region), "a primitive writes its first operand"
        settings = tuple(
            (key, argument(value)) for key, value in config.items() if value is not None and value is not False
        )
        made = TileCallStmt(name, scope, operands, dispatch, settings, at=builder.at)
        check_regions(made)
        builder.emit(made)

    call.__name__, call.__qualname__, call.__doc__ = name, f"{prefix}.{name}", row.help
    cast(TileFunction, call).__signature__ = row.signature
    return call


def _check_keywords(row: Primitive, config: dict[str, object]) -> None:
    """Raises KernelError for a keyword of another language; others are looked at when the call is resolved."""
    for key in config:
        if (hint := hint_for_keyword(key)) and key not in row.signature.parameters:
            known = ", ".join(("dispatch", *(each.name for each in (*row.keywords, *COMMON))))
            raise KernelError(f"Tx.{row.name} has no keyword {key!r}", given=f"{key}=...", allowed=known, hint=hint)


def _operands(row: Primitive, args: tuple[object, ...], config: dict[str, object]) -> tuple[Region | Expr, ...]:
    """The operands in the order of the declaration; those given by name leave ``config``.

    Keywords that are given by position go there.
    """
    names = [operand.name for operand in row.operands]
    values = dict(zip(row.positional, args, strict=False))
    values |= {name: config.pop(name) for name in row.positional[len(args) :] if name in config}
    config |= {name: values.pop(name) for name in row.positional if name in values and name not in names}
    given = {name: value for name, value in values.items() if value is not None}
    missing = [each.name for each in row.operands if not each.optional and each.name not in given]
    if missing or len(args) > len(row.positional):
        raise KernelError(
            f"Tx.{row.name} takes {' and '.join(names)}", given=f"{max(len(args), len(values))} arguments"
        )
    made: list[Region | Expr] = []
    for operand in row.operands[: max(names.index(name) for name in given) + 1]:
        what = f"{row.name}: {operand.name}"
        value = given.get(operand.name, operand.default)
        if value is None:
            made.append(made[0])
        elif operand.role.value:
            made.append(_either(what, value, made))
        else:
            made.append(_region(what, value) if operand.role.tile else _scalar(row, operand, value, made))
    return tuple(made)


def _either(what: str, value: object, before: list[Region | Expr]) -> Region | Expr:
    """A tile, or a value: a number keeps Python's precision, and a function is called with the coordinates of an
    element in the region that is written.
    """
    if isinstance(value, (Region, Buffer)):
        return _region(what, value)
    if isinstance(value, Expr):
        return value
    if callable(value):
        with truth_is_an_error():
            value = value(*_places(what, value, before[0]))
        if isinstance(value, Expr):
            return value
    kind = FLOAT64 if isinstance(value, float) else INT64 if _is_long(value) else INT32
    return as_expr(value, kind)  # type: ignore[arg-type]  # it refuses what is no number


def _places(what: str, function: Callable[..., object], dst: Region | Expr) -> list[Expr]:
    """Where an element is in the region that is written; dimensions of 1 in front count if they are asked for."""
    extents = dst.extents if isinstance(dst, Region) else ()
    if len(extents) > len(ELEMENT):
        raise KernelError(f"{what} is a function of at most {len(ELEMENT)} places", given=f"{len(extents)} dimensions")
    asked, skipped = len(inspect.signature(function).parameters), 0
    while len(extents) - skipped > asked and const_value(extents[skipped]) == 1:
        skipped += 1
    return [special(name) for name in ELEMENT[skipped : len(extents)]]


def _is_long(value: object) -> bool:
    return isinstance(value, int) and not -(1 << 31) <= value < 1 << 31


def _scalar(row: Primitive, operand: TileOperand, value: object, before: list[Region | Expr]) -> Expr:
    """A value, converted to the dtype of the first tile."""
    what = f"{row.name}: {operand.name}"
    if isinstance(value, (Region, Buffer)) or not isinstance(value, (Expr, int, float)):
        given = value.name if isinstance(value, Buffer) else str(value)
        raise KernelError(f"{what} is a number", given=given, allowed="a number, a scalar or one element: 0, x, A[0]")
    return current(f"Tx.{row.name}").converted(value, before[0].dtype, what)


def _region(what: str, value: object) -> Region:
    """A tile: a region, a whole buffer, or one element."""
    tile = region_of(value)
    if tile is None:
        given = f"`{as_expr(value)}`" if isinstance(value, Expr) else repr(value)
        raise KernelError(f"{what} is a tile", given=given, allowed="a buffer or a region of one: A, A[0:8, :]")
    return tile


def region_of(place: object) -> Region | None:
    """A tile as a region; of an element the region that is only it. None for anything else."""
    if isinstance(place, Region):
        return place
    if isinstance(place, Buffer):
        return place.region()
    if isinstance(place, Load):
        return Region.of(place.buffer, tuple(slice(index, index + 1) for index in place.indices))
    return None


def _check_not_within(prefix: str, name: str) -> None:
    """Raises KernelError for a bare ``Tx`` call, which is one thread's, inside of ``with Tx.cta:``."""
    builder = building()
    if prefix == "Tx" and builder is not None and builder.tile_scopes and builder.tile_scopes[-1][0] != "thread":
        around = builder.tile_scopes[-1][1]
        raise KernelError(f"Tx.{name} is one thread's, inside of `with {around}:`", given=f"Tx.{name}(...)",
                          allowed=f"{around}.{name}, or Tx.thread.{name} for each thread by itself")  # fmt: skip


class TileNamespace:
    """``Tx`` and its scopes."""

    def __init__(self, scope: str, prefix: str) -> None:
        self._scope, self._prefix = scope, prefix

    def __getattr__(self, name: str) -> Any:  # `tx.pyi` tells type checkers more
        if name.startswith("__") and name.endswith("__"):  # Python's own protocols ask for these
            raise AttributeError(name)
        if name in PRIMITIVES:
            _check_not_within(self._prefix, name)
            return tile_function(name, self._scope, self._prefix)
        if name in SCOPES and self._prefix == "Tx":
            return TileNamespace(SCOPES[name], f"Tx.{name}")
        hint = hint_for(name)
        allowed = None if hint else choices(name, dir(self))
        raise UnknownName(f"{self._prefix}.{name} is not a tile primitive", given=name, allowed=allowed, hint=hint)

    def __enter__(self) -> None:
        """``with Tx.cta:``: the CTA's threads carry out the assignments to tiles in the block."""
        current(f"with {self._prefix}").tile_scopes.append((self._scope, self._prefix))

    def __exit__(self, *_: object) -> None:
        current(f"with {self._prefix}").tile_scopes.pop()

    def __dir__(self) -> list[str]:
        return [*PRIMITIVES, *(SCOPES if self._prefix == "Tx" else ())]

    def __repr__(self) -> str:
        return self._prefix
