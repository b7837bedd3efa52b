"""Sides of different dtypes: the elements are computed, as `cast` has it."""

from __future__ import annotations

import numpy as np

from tilewright.primitives.copy import ASKED, FILL
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import one_place_each, only_in, registers_inside
from tilewright.tile.dispatch import condition, variant
from tilewright.tile.distribution import Distribution
from tilewright.tile.flow import by_runs
from tilewright.tile.round_loops import emit_runs


@condition("the sides have different dtypes")
def dtypes_differ(call: TileCall) -> str | None:
    return None if call["dst"].dtype != call["src"].dtype else f"both sides are of {call.dtype}"


@condition("fill= is a number that the source could have")
def converted_as_well(call: TileCall) -> str | None:
    fill, kind = call.option(FILL), call["src"].dtype
    if not isinstance(fill, (int, float)):
        return None
    with np.errstate(all="ignore"):
        kept = np.asarray(fill).astype(kind.numpy).astype(np.float64) == fill
    return None if kept else f"fill={fill} is no {kind}"


@variant(
    "copy",
    priority=2,
    keywords=("vec_len", *ASKED),
    when=[dtypes_differ, only_in("local", "shared", "global"), one_place_each, registers_inside, converted_as_well],
)
def converted(call: TileCall) -> Distribution:
    """Runs of up to 128 bits are loaded, converted as by `cast`, and stored."""
    return by_runs(call)


converted.emit(emit_runs)
