"""Rules on extents: which tiles fit each other."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.layout.facts import Facts, as_int
from tilewright.primitives.table import Mismatch, Shape, Tile

__all__ = ["equal", "equal_extents", "shown"]

NO_KEYWORDS: Mapping[str, object] = {}


def equal_extents(
    tiles: Mapping[str, Tile], facts: Facts, _: Mapping[str, object] = NO_KEYWORDS
) -> Mapping[str, Shape] | Mismatch:
    """All tiles have equal extents in the same order, those of 1 aside; a number that one of them knows, all know."""
    long = [[extent for extent in tile.extents if as_int(extent) != 1] for tile in tiles.values()]
    first = long[0]
    for other in long[1:]:
        if len(first) != len(other) or not all(equal(a, b, facts) for a, b in zip(first, other, strict=True)):
            allowed = "equal extents in the same order; only extents of 1 are ignored"
            return Mismatch("the extents differ", ", ".join(map(shown, tiles.values())), allowed)
    known = [
        next((extent for extent in column if as_int(extent) is not None), None) for column in zip(*long, strict=True)
    ]
    return {name: _numbered(tile.extents, known) for name, tile in tiles.items()}


def shown(tile: Tile) -> str:
    """``A (64, 8)``."""
    return f"{tile.name} ({', '.join(map(str, tile.extents))})"


def equal(a: object, b: object, facts: Facts) -> bool:
    """Are two extents known to be equal?"""
    return facts.equal(a, b) or as_int(facts.simplify(a - b)) == 0  # type: ignore[operator]  # extents subtract


def _numbered(shape: Shape, known: list[object]) -> Shape:
    rest = iter(known)
    return tuple(
        extent if as_int(extent) == 1 else extent if (number := next(rest)) is None else number for extent in shape
    )
