"""scan: each element becomes the sum, product, minimum or maximum of the elements up to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tilewright.layout.facts import Facts
from tilewright.primitives.elements import equal_extents, shown
from tilewright.primitives.reduce import of_one_kind, ordered
from tilewright.primitives.table import Clipped, Mismatch, Seen, Shape, Tile, primitive

_MEANINGS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def equal_with_axis(
    tiles: Mapping[str, Tile], facts: Facts, keywords: Mapping[str, object]
) -> Mapping[str, Shape] | Mismatch:
    """Equal extents, one of which ``axis=`` names."""
    src, axis = tiles["src"], keywords.get("axis", -1)
    rank = len(src.extents)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return Mismatch(f"{shown(src)} has {rank} dimensions", f"axis={axis}", f"a number from {-rank} to {rank - 1}")
    return equal_extents(tiles, facts)


def joinable(tiles: Mapping[str, Tile], keywords: Mapping[str, object]) -> Mismatch | None:
    """Both floats, or both integers; bools for the larger or the smaller one."""
    return (ordered if keywords.get("op") in ("max", "min") else of_one_kind)(tiles, keywords)


@primitive(shapes=equal_with_axis, elements=joinable)
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
