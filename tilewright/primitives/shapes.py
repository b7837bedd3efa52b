"""Rules on extents: which tiles fit each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.layout.facts import Facts, as_int
from tilewright.primitives.table import Mismatch, Shape, ShapeRule, Tile

__all__ = ["broadcasting", "equal", "equal_extents", "shown"]

NO_KEYWORDS: Mapping[str, object] = {}


def equal_extents(
    tiles: Mapping[str, Tile], facts: Facts, keywords: Mapping[str, object] = NO_KEYWORDS
) -> Mapping[str, Shape] | Mismatch:
    """All tiles have equal extents in the same order, those of 1 aside; a number in one of them holds for all."""
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


def broadcasting(
    tiles: Mapping[str, Tile], facts: Facts, keywords: Mapping[str, object] = NO_KEYWORDS
) -> Mapping[str, Shape] | Mismatch:
    """The sources broadcast to the first tile: aligned at the right, each extent is equal or 1, further ones are 1."""
    (first, dst), *sources = tiles.items()
    extents = list(dst.extents)
    for _, tile in sources:
        if not _fits(dst, tile, facts):
            allowed = f"extents of {dst.name}, aligned at the right, or 1 in their place"
            return Mismatch("the extents differ", ", ".join(map(shown, (dst, tile))), allowed)
        for back in range(1, min(len(extents), len(tile.extents)) + 1):
            number = as_int(tile.extents[-back])
            if as_int(extents[-back]) is None and number not in (None, 1):
                extents[-back] = tile.extents[-back]
    shapes: dict[str, Shape] = {first: tuple(extents)}
    for name, tile in sources:
        known = [1] * (len(tile.extents) - len(extents)) + extents[max(0, len(extents) - len(tile.extents)) :]
        shapes[name] = tuple(
            own if as_int(own) == 1 else number for own, number in zip(tile.extents, known, strict=True)
        )
    return shapes


def _fits(dst: Tile, tile: Tile, facts: Facts) -> bool:
    beyond = tile.extents[: max(0, len(tile.extents) - len(dst.extents))]
    pairs = zip(reversed(dst.extents), reversed(tile.extents), strict=False)
    return all(as_int(extent) == 1 for extent in beyond) and all(
        as_int(own) == 1 or equal(whole, own, facts) for whole, own in pairs
    )


def matrices_of(sides_of: Callable[[str, Mapping[str, object]], str]) -> ShapeRule:
    """The rule that tiles have two dimensions each, those of 1 aside, which are the same wherever they occur.

    sides_of: the names of an operand's dimensions in a call with these keywords; "" for what is no matrix.
    """

    def matrices(
        tiles: Mapping[str, Tile], facts: Facts, keywords: Mapping[str, object]
    ) -> Mapping[str, Shape] | Mismatch:
        sizes: dict[str, object] = {}
        for name, tile in tiles.items():
            long = [extent for extent in tile.extents if as_int(extent) != 1]
            names = sides_of(name, keywords)
            if not names:
                return Mismatch(f"{name} is a number", shown(tile), "a number, a scalar or one element: 0.5, x, x[0]")
            if len(long) != 2:
                return Mismatch(f"{tile.name} is no matrix", shown(tile), f"two extents above 1: {', '.join(names)}")
            for dim, extent in zip(names, long, strict=True):
                if not equal(sizes.setdefault(dim, extent), extent, facts):
                    given = ", ".join(f"{key} {shown(each)}" for key, each in tiles.items())
                    wanted = ", ".join(f"{key} ({', '.join(sides_of(key, keywords))})" for key in tiles)
                    return Mismatch(f"the extents of {dim} differ", given, wanted)
        return {name: tile.extents for name, tile in tiles.items()}

    return matrices


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
