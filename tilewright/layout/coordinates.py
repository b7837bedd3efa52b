"""Is a logical coordinate inside the extents that it counts in?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import LayoutError
from tilewright.layout.facts import INDEX, Facts, Value, checked, listed

__all__ = ["check_inside"]


def check_inside(coord: Sequence[Value], extents: Sequence[Value] | None, facts: Facts) -> None:
    """Raise LayoutError for a coordinate outside of its extent: an int, any entry of an array, or an expression that is
    proven to be outside. extents: None for no bound. A coordinate of another rank is not checked here.
    """
    if extents is None:
        extents = [None] * len(coord)
    if len(coord) != len(extents):
        return
    for dim, (index, extent) in enumerate(zip(coord, extents, strict=True)):
        low, high = _ends(index, dim)
        if facts.less(low, 0) or (extent is not None and facts.less(extent - 1, high)):
            raise LayoutError(
                f"the coordinate {listed(coord)} is outside of {listed(extents)}" if extent is not None
                else f"the coordinate {listed(coord)} is negative",
                given=f"{low if low is high else f'{low} to {high}'} in dimension {dim}",
                allowed="0 or more" if extent is None else f"0 to {extent - 1}",
            )  # fmt: skip


def _ends(index: Value, dim: int) -> tuple[Value, Value]:
    """The smallest and the largest number of an array; any other value twice."""
    value = checked(index, f"coordinate {dim}", INDEX)
    if not isinstance(value, np.ndarray):
        return value, value
    return (int(value.min()), int(value.max())) if value.size else (0, 0)
