"""The reductions and scan: elements of a tile are joined, along some of its dimensions."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.errors import KernelError
from tilewright.layout.axes import Facts, as_int
from tilewright.primitives.elements import equal, equal_extents, narrowed, shown
from tilewright.primitives.elementwise import FormulaStep, by_numpy, formula_of
from tilewright.primitives.table import Array, Clipped, Keywords, Mismatch, Seen, Shapes, Tile, Tiles, primitive

# sum, prod, max, min, any, all, argmax, argmin, and reduce by a formula of the caller's: a tile is reduced along some
# of its dimensions.


ACCUMULATES = {"add": "sum", "mul": "prod", "maximum": "max", "minimum": "min"}
"""The reductions that join two elements by an elementwise primitive, by its name."""


def axes_of(keywords: Keywords, rank: int) -> tuple[int, ...] | None:
    """The dimensions that ``axes=`` names, ascending, from 0 on; None where it names none or one twice."""
    asked = keywords.get("axes", -1)
    listed = asked if isinstance(asked, tuple) else (asked,)
    numbers = [axis for axis in listed if isinstance(axis, int) and -rank <= axis < rank]
    axes = tuple(sorted({axis % rank for axis in numbers}))
    return axes if len(axes) == len(listed) and axes else None


def reduced(tiles: Tiles, facts: Facts, keywords: Keywords) -> Shapes:
    """`dst` has the dimensions of `src` that are kept, in their order; dimensions of 1 may be there or not."""
    dst, src = tiles["dst"], tiles["src"]
    rank = len(src.extents)
    axes = axes_of(keywords, rank)
    if axes is None:
        text, allowed = f"axes={keywords.get('axes')!r}", f"numbers from {-rank} to {rank - 1}, each dimension once"
        return Mismatch(f"{shown(src)} has {rank} dimensions", text, allowed)
    shared = bool(keywords.get("thread_reduce")) and len(dst.extents) == rank
    if _takes(dst, src, axes, shared, facts):
        return {"dst": dst.extents, "src": src.extents}
    others = combinations(range(rank), len(axes))
    hint = next((f"axes={_setting(other)}" for other in others if _takes(dst, src, other, shared, facts)), None)
    kept = [extent for dim, extent in enumerate(src.extents) if dim not in axes and as_int(extent) != 1]
    wanted = f"({', '.join(map(str, kept)) or 1}), the dimensions that are kept; those of 1 may be there or not"
    return Mismatch("the extents differ", f"{shown(dst)}, {shown(src)} over axes {_spoken(axes)}", wanted, hint)


def _takes(dst: Tile, src: Tile, axes: tuple[int, ...], shared: bool, facts: Facts) -> bool:
    """Are the dimensions of ``src`` beside these axes those of ``dst``? shared: ``dst`` has the axes, too."""
    kept = [extent for dim, extent in enumerate(src.extents) if dim not in axes and as_int(extent) != 1]
    rest = [extent for dim, extent in enumerate(dst.extents) if not (shared and dim in axes)]
    into = [extent for extent in rest if as_int(extent) != 1]
    return len(kept) == len(into) and bool(np.all([equal(a, b, facts) for a, b in zip(kept, into, strict=True)]))


def _setting(axes: tuple[int, ...]) -> str:
    return str(axes[0]) if len(axes) == 1 else str(axes)


def _spoken(axes: tuple[int, ...]) -> str:
    return " and ".join(map(str, axes))


def of_one_kind(tiles: Tiles, _: Keywords) -> Mismatch | None:
    """Both floats, or both integers; a bool of the source counts as 0 or 1."""
    dst, src = tiles["dst"], tiles["src"]
    if dst.dtype.is_float == src.dtype.is_float and dst.dtype != "bool":
        return narrowed(dst.name, dst.dtype, src.dtype, f"{src.name} is {src.dtype}")
    text = f"{dst.name} is {dst.dtype}, {src.name} is {src.dtype}"
    return Mismatch(
        "the dtypes differ", text, "two float types or two integer types; bool counts into an integer", None
    )


def ordered(tiles: Tiles, keywords: Keywords) -> Mismatch | None:
    """As `of_one_kind`, or both bools, of which true is the larger one."""
    return None if {tile.dtype for tile in tiles.values()} == {BOOL} else of_one_kind(tiles, keywords)


def truths(tiles: Tiles, _: Keywords) -> Mismatch | None:
    """`dst` has elements of type bool."""
    dst = tiles["dst"]
    return None if dst.dtype == "bool" else Mismatch("the result is a bool", f"{dst.name} is {dst.dtype}", "bool")


def positions(tiles: Tiles, _: Keywords) -> Mismatch | None:
    """`dst` has elements of an integer type, which holds an index."""
    dst = tiles["dst"]
    if dst.dtype.kind in ("int", "uint") and dst.dtype.bits >= 32:
        return None
    return Mismatch("the result is an index", f"{dst.name} is {dst.dtype}", "int32, uint32, int64, uint64")


def _reduce(meaning: Any, dst: Array, src: Array, axes: object, accum: bool = False, spread: bool = False) -> None:
    """``meaning`` over the axes, in float32 at least, rounded once into ``dst``; joined with what is there."""
    wide = (
        src.astype(np.float64)
        if src.dtype.kind not in "iub"
        else src.astype(np.int64)
        if src.dtype.kind == "b"
        else src
    )
    numbers = axes_of({"axes": axes}, src.ndim) or ()
    result = meaning.reduce(wide, axis=numbers, keepdims=spread and dst.ndim == src.ndim)
    result = np.broadcast_to(result, dst.shape) if spread and dst.ndim == src.ndim else result.reshape(dst.shape)
    if accum:
        result = meaning(dst.astype(result.dtype), result)
    dst[...] = result.astype(dst.dtype)


def _find(meaning: Any, dst: Array, src: Array, axes: object) -> None:
    numbers = axes_of({"axes": axes}, src.ndim) or ()
    kept = [dim for dim in range(src.ndim) if dim not in numbers]
    rows = src.transpose(*kept, *numbers).reshape(dst.size, -1)
    dst[...] = meaning(rows, axis=1).reshape(dst.shape)


@primitive(shapes=reduced, elements=of_one_kind)
def sum(
    dst: Clipped, src: Seen, *, axes: int | tuple[int, ...] = -1, accum: bool = False, thread_reduce: bool = False
) -> None:
    """`dst` gets the sums of `src` along `axes`; what is outside of its buffer counts nothing.

    axes: one dimension or several, also counted from the end. accum: the sum is added to what `dst` has. thread_reduce:
    `dst` may have several elements along `axes`, and all of them get the sum.
    """
    _reduce(np.add, dst, src, axes, accum, thread_reduce)


@primitive(shapes=reduced, elements=of_one_kind)
def prod(dst: Clipped, src: Seen, *, axes: int | tuple[int, ...] = -1, accum: bool = False) -> None:
    """`dst` gets the products of `src` along `axes`; what is outside of its buffer counts nothing.

    axes: one dimension or several, also counted from the end. accum: the product is multiplied by what `dst` has.
    """
    _reduce(np.multiply, dst, src, axes, accum)


@primitive(shapes=reduced, elements=ordered)
def max(
    dst: Clipped,
    src: Seen,
    *,
    axes: int | tuple[int, ...] = -1,
    accum: bool = False,
    nan: Literal["propagate", "number"] = "propagate",
    thread_reduce: bool = False,
) -> None:
    """`dst` gets the largest elements of `src` along `axes`; what is outside of its buffer counts nothing.

    axes: one dimension or several, also counted from the end. accum: what `dst` has counts, too. nan: what wins where
    there is a NaN, it or the number. thread_reduce: `dst` may have several elements along
    `axes`, and all of them get the result.
    """
    _reduce(np.maximum if nan == "propagate" else np.fmax, dst, src, axes, accum, thread_reduce)


@primitive(shapes=reduced, elements=ordered)
def min(
    dst: Clipped,
    src: Seen,
    *,
    axes: int | tuple[int, ...] = -1,
    accum: bool = False,
    nan: Literal["propagate", "number"] = "propagate",
    thread_reduce: bool = False,
) -> None:
    """`dst` gets the smallest elements of `src` along `axes`; what is outside of its buffer counts nothing.

    axes: one dimension or several, also counted from the end. accum: what `dst` has counts, too. nan: what wins where
    there is a NaN, it or the number. thread_reduce: `dst` may have several elements along
    `axes`, and all of them get the result.
    """
    _reduce(np.minimum if nan == "propagate" else np.fmin, dst, src, axes, accum, thread_reduce)


@primitive(shapes=reduced, elements=truths)
def any(dst: Clipped, src: Seen, *, axes: int | tuple[int, ...] = -1, accum: bool = False) -> None:
    """`dst` becomes true where some element of `src` along `axes` is not 0.

    axes: one dimension or several, also counted from the end. accum: what `dst` has counts, too.
    """
    _reduce(np.logical_or, dst, src != 0, axes, accum)


@primitive(shapes=reduced, elements=truths)
def all(dst: Clipped, src: Seen, *, axes: int | tuple[int, ...] = -1, accum: bool = False) -> None:
    """`dst` becomes true where no element of `src` along `axes` is 0.

    axes: one dimension or several, also counted from the end. accum: what `dst` has counts, too.
    """
    _reduce(np.logical_and, dst, src != 0, axes, accum)


@primitive(shapes=reduced, elements=positions)
def argmax(dst: Clipped, src: Seen, *, axes: int | tuple[int, ...] = -1) -> None:
    """`dst` gets the position of the first largest element of `src` along `axes`; a NaN is the largest.

    axes: one dimension or several, also counted from the end; of several, elements are counted in row-major order.
    """
    _find(np.argmax, dst, src, axes)


@primitive(shapes=reduced, elements=positions)
def argmin(dst: Clipped, src: Seen, *, axes: int | tuple[int, ...] = -1) -> None:
    """`dst` gets the position of the first smallest element of `src` along `axes`; a NaN is the smallest.

    axes: one dimension or several, also counted from the end; of several, elements are counted in row-major order.
    """
    _find(np.argmin, dst, src, axes)


def joining_of(formula: str) -> FormulaStep:
    """The steps of a formula that joins ``a`` and ``b``. Raises KernelError for one that reads anything else."""
    step = formula_of(formula)
    if set(step.names()) != {"a", "b"}:
        text = ", ".join(sorted(set(step.names()))) or "none"
        raise KernelError("a formula that joins two elements reads a and b", given=text, allowed="maximum(a, b)")
    return step


def joinable(tiles: Tiles, keywords: Keywords) -> Mismatch | None:
    """As `of_one_kind`, and a formula of two elements."""
    try:
        joining_of(str(keywords.get("formula", "")))
    except KernelError as error:
        return Mismatch(error.what, str(error.given), str(error.allowed), error.hint)
    return of_one_kind(tiles, keywords)


@primitive(shapes=reduced, elements=joinable)
def reduce(
    dst: Clipped,
    src: Seen,
    *,
    formula: str = "",
    identity: float | int = 0,
    axes: int | tuple[int, ...] = -1,
    accum: bool = False,
) -> None:
    """`dst` gets the elements of `src` along `axes` joined by `formula`, an expression over `a` and `b`.

    formula: as of `compute`; the order of `a` and `b`, and which elements are joined first, must not matter. identity:
    the element that changes nothing. axes: one dimension or several, also counted from the end. accum: what `dst` has
    counts, too.
    """
    numbers = axes_of({"axes": axes}, src.ndim) or ()
    wide = np.dtype(f"{'f' if src.dtype.kind not in 'iub' else 'i'}{np.maximum(4, src.dtype.itemsize)}")
    kept = [dim for dim in range(src.ndim) if dim not in numbers]
    rows = src.transpose(*kept, *numbers).reshape(dst.size, -1).astype(wide)
    result = np.full(dst.size, identity, wide) if not accum else dst.reshape(-1).astype(wide)
    for column in rows.T:
        by_numpy(joining_of(formula), {"a": result.copy(), "b": column}, result)
    dst[...] = result.reshape(dst.shape).astype(dst.dtype)


# scan: each element becomes the sum, product, minimum or maximum of the elements up to it.


_MEANINGS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def equal_with_axis(tiles: Tiles, facts: Facts, keywords: Keywords) -> Shapes:
    """Equal extents, one of which ``axis=`` names."""
    src, axis = tiles["src"], keywords.get("axis", -1)
    rank = len(src.extents)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return Mismatch(f"{shown(src)} has {rank} dimensions", f"axis={axis}", f"a number from {-rank} to {rank - 1}")
    return equal_extents(tiles, facts, keywords)


def scannable(tiles: Tiles, keywords: Keywords) -> Mismatch | None:
    """Both floats, or both integers; bools for the larger or the smaller one."""
    return (ordered if keywords.get("op") in ("max", "min") else of_one_kind)(tiles, keywords)


@primitive(shapes=equal_with_axis, elements=scannable)
def scan(
    dst: Clipped,
    src: Seen,
    *,
    axis: int = -1,
    op: Literal["sum", "prod", "max", "min"] = "sum",
    exclusive: bool = False,
) -> None:
    """Each element of `dst` gets the sum, or `op`, of the elements of `src` along `axis` up to its own.

    axis: a dimension of `src`, also counted from the end. op: how the elements are joined. exclusive: its own element
    is left out; the first result is 0, 1, or the lowest or highest value of the dtype.
    """
    wide = src.astype(np.float64) if src.dtype.kind not in "iub" else src.astype(np.int64)
    result = _MEANINGS[op].accumulate(wide, axis=axis)
    if exclusive:
        result = np.roll(result, 1, axis)
        np.moveaxis(result, axis, 0)[0] = _nothing(op, src.dtype)
    dst[...] = result.astype(dst.dtype).reshape(dst.shape)


def _nothing(op: str, kind: np.dtype[Any]) -> float:
    """The result for no elements."""
    if op in ("sum", "prod"):
        return float(op == "prod")
    if kind.kind == "b":
        return float(op == "min")
    if kind.kind not in "iu":
        return -np.inf if op == "max" else np.inf
    return int(np.iinfo(kind).min if op == "max" else np.iinfo(kind).max)
