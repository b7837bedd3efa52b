"""Rules on elements: which dtypes go together."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.primitives.table import ElementRule, Mismatch, Tile

__all__ = ["VECTOR_BYTES", "all_of", "lengths_of", "one_dtype", "whole_vectors"]

VECTOR_BYTES = (16, 8, 4, 2, 1)
"""The accesses that there are, the widest first."""


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


def lengths_of(bits: int) -> list[int]:
    """Elements of so many bits in the accesses that there are, the widest first."""
    return [8 * nbytes // bits for nbytes in VECTOR_BYTES if 8 * nbytes >= bits]


def whole_vectors(tiles: Mapping[str, Tile], settings: Mapping[str, object]) -> Mismatch | None:
    """``vec_len=`` is a number of elements that one access may have."""
    asked, kind = settings.get("vec_len"), next(iter(tiles.values())).dtype
    lengths = lengths_of(kind.bits)
    if asked is None or asked in lengths:
        return None
    return Mismatch(
        f"vec_len={asked} is no vector of 8 to 128 bits", f"{asked} elements of {kind}", ", ".join(map(str, lengths))
    )


def all_of(*rules: ElementRule) -> ElementRule:
    """Each of these rules."""

    def rule(tiles: Mapping[str, Tile], settings: Mapping[str, object]) -> Mismatch | None:
        return next(filter(None, (each(tiles, settings) for each in rules)), None)

    return rule
