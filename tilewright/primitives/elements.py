"""Rules on elements: which dtypes go together."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.primitives.table import Mismatch, Tile

__all__ = ["one_dtype"]


def one_dtype(tiles: Mapping[str, Tile], _: Mapping[str, object]) -> Mismatch | None:
    """All tiles have elements of one type."""
    first, *others = tiles.values()
    if all(other.dtype == first.dtype for other in others):
        return None
    converts = None if "tmem" in {tile.space for tile in tiles.values()} else first.dtype
    return Mismatch(
        "the dtypes differ",
        ", ".join(f"{tile.name} is {tile.dtype}" for tile in tiles.values()),
        "one dtype on both sides",
        f'a loop with T.cast(x, "{converts}") converts' if converts else None,
    )
