"""Rules on elements: which dtypes go together, and in which type tiles compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from tilewright.dtypes import INT32, DType, common_dtype, dtype, keeps
from tilewright.primitives.table import ElementRule, Mismatch, Tile

__all__ = ["INTEGRAL", "VECTOR_BYTES", "all_of", "arithmetic_dtype", "computable", "convertible", "lengths_of", "narrowed", "one_dtype",  # noqa: E501
           "whole_vectors"]  # fmt: skip

FLOAT32 = dtype("float32")
INTEGRAL = ("integer", "bits")
"""What formulas take that mean nothing for floats; a bool is an integer, or a bit."""
VECTOR_BYTES = (16, 8, 4, 2, 1)
"""The accesses that there are, the widest first."""


def one_dtype(tiles: Mapping[str, Tile], _: Mapping[str, object]) -> Mismatch | None:
    """All tiles have elements of one type."""
    first, *others = tiles.values()
    if all(other.dtype == first.dtype for other in others):
        return None
    moves = "tmem" in {tile.space for tile in tiles.values()}
    return Mismatch(
        "the dtypes differ",
        ", ".join(f"{tile.name} is {tile.dtype}" for tile in tiles.values()),
        "one dtype on both sides",
        None if moves else "Tx.cast(dst, src) converts",
    )


def computable(tiles: Mapping[str, Tile], _: Mapping[str, object]) -> Mismatch | None:
    """All tiles have numbers as elements."""
    for tile in tiles.values():
        if tile.dtype.lanes > 1 or tile.dtype.kind not in ("bool", "int", "uint", "float"):
            return Mismatch("elements are numbers", f"{tile.name} is {tile.dtype}", "a scalar dtype")
    return None


def convertible(tiles: Mapping[str, Tile], keywords: Mapping[str, object]) -> Mismatch | None:
    """All tiles have elements of one type, whatever it is, or all have numbers, outside of tensor memory."""
    differ = one_dtype(tiles, keywords)
    in_tmem = "tmem" in {tile.space for tile in tiles.values()}
    if differ is None or in_tmem:
        return differ
    dst, src = tiles["dst"], tiles["src"]
    return computable(tiles, keywords) or narrowed(dst.name, dst.dtype, src.dtype, f"{src.name} is {src.dtype}")


def narrowed(name: str, to: DType, kind: DType, given: str) -> Mismatch | None:
    """Why elements of dtype ``kind`` do not become those of a tile by themselves, as no scalar would. name, to: its."""
    if keeps(kind, to):
        return None
    allowed = f"values that {to} holds, or a conversion that is written"
    return Mismatch(
        f"an element of {name} is {to}", given, allowed, f'Tx.cast(dst, src), or x[:] = T.cast(..., "{to}")'
    )


def _computed(kind: DType) -> DType:
    return FLOAT32 if kind.is_float and (kind.bits < 32 or kind == "tf32") else kind


def arithmetic_dtype(sources: Iterable[DType], dst: DType, takes: str = "any", *, has_float: bool = False) -> DType:
    """The type in which an element is computed: the common dtype of the sources, where dst is of the same kind (float,
    integer) at least as wide as dst's. Floats narrower than float32 count as float32, and so do integers next to a
    Python float; of "numbers" a bool counts as the int32 0 or 1.

    Raises KernelError where two sources have no common dtype.
    """
    kind = reduce(common_dtype, map(_computed, sources))
    if has_float and not kind.is_float:
        kind = FLOAT32
    if takes not in ("any", "bits") and kind.kind == "bool":
        kind = INT32
    to = _computed(dst)
    if kind.is_float and to.is_float and to.bits > kind.bits:
        return to
    if kind.is_integer and to.is_integer and to.bits > kind.bits:
        return dtype(f"{kind.kind}{to.bits}")
    return kind


def lengths_of(bits: int) -> list[int]:
    """Elements of so many bits in the accesses that there are, the widest first."""
    return [8 * nbytes // bits for nbytes in VECTOR_BYTES if 8 * nbytes >= bits]


def whole_vectors(tiles: Mapping[str, Tile], settings: Mapping[str, object]) -> Mismatch | None:
    """``vec_len=`` is a number of elements that one access may have."""
    asked, kind = settings.get("vec_len"), max((tile.dtype for tile in tiles.values()), key=lambda kind: kind.bits)
    lengths = lengths_of(kind.bits)
    if asked is None or asked in lengths:
        return None
    return Mismatch(
        f"vec_len={asked} is no vector of 8 to 128 bits", f"{asked} elements of {kind}", ", ".join(map(str, lengths))
    )


def all_of(*rules: ElementRule) -> ElementRule:
    """A rule that asks for all of these rules."""

    def rule(tiles: Mapping[str, Tile], settings: Mapping[str, object]) -> Mismatch | None:
        return next(filter(None, (each(tiles, settings) for each in rules)), None)

    return rule
