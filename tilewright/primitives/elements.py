"""Rules on elements: which dtypes go together, and in which type tiles compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

from tilewright.dtypes import INT32, DType, common_dtype, dtype, keeps
from tilewright.layout.axes import Facts, as_int, listed
from tilewright.primitives.table import ElementRule, Keywords, Mismatch, Shape, ShapeRule, Shapes, Tile, Tiles

# Rules on extents: which tiles fit each other.


def equal_extents(tiles: Tiles, facts: Facts, keywords: Keywords) -> Shapes:
    """All tiles have equal extents in the same order, those of 1 aside; a number in one of them holds for all."""
    long = [[extent for extent in tile.extents if as_int(extent) != 1] for tile in tiles.values()]
    first = long[0]
    for other in long[1:]:
        if len(first) != len(other) or not all(equal(a, b, facts) for a, b in zip(first, other, strict=True)):
            allowed = "equal extents in the same order; only extents of 1 are ignored"
            return Mismatch("the extents differ", ", ".join(map(shown, tiles.values())), allowed)
    numbers = [
        next((extent for extent in column if as_int(extent) is not None), None) for column in zip(*long, strict=True)
    ]
    return {name: _numbered(tile.extents, numbers) for name, tile in tiles.items()}


def broadcasting(tiles: Tiles, facts: Facts, keywords: Keywords) -> Shapes:
    """The sources broadcast to the first tile: aligned at the right, each extent is equal or 1, further ones are 1."""
    (first, dst), *sources = tiles.items()
    extents = list(dst.extents)
    for _, tile in sources:
        if not _fits(dst.extents, tile.extents, facts):
            allowed = f"extents of {dst.name}, aligned at the right, or 1 in their place"
            return Mismatch(
                "the extents differ", ", ".join(map(shown, (dst, tile))), allowed, _spread(dst, tile, facts)
            )
        for back in range(1, min(len(extents), len(tile.extents)) + 1):
            number = as_int(tile.extents[-back])
            if as_int(extents[-back]) is None and number not in (None, 1):
                extents[-back] = tile.extents[-back]
    shapes: dict[str, Shape] = {first: tuple(extents)}
    for name, tile in sources:
        aligned = [1] * (len(tile.extents) - len(extents)) + extents[max(0, len(extents) - len(tile.extents)) :]
        shapes[name] = tuple(
            extent if as_int(extent) == 1 else number for extent, number in zip(tile.extents, aligned, strict=True)
        )
    return shapes


def _spread(dst: Tile, tile: Tile, facts: Facts) -> str | None:
    """The tile with dimensions of 1 at the right, where it broadcasts with those: ``m[:, None]``."""
    for more in range(1, len(dst.extents) - len(tile.extents) + 1):
        if _fits(dst.extents, (*tile.extents, *[1] * more), facts):
            return f"{tile.name}[{', '.join([':'] * len(tile.extents) + ['None'] * more)}]"
    return None


def _fits(dst: Shape, extents: Shape, facts: Facts) -> bool:
    beyond = extents[: max(0, len(extents) - len(dst))]
    pairs = zip(reversed(dst), reversed(extents), strict=False)
    return all(as_int(extent) == 1 for extent in beyond) and all(
        as_int(extent) == 1 or equal(whole, extent, facts) for whole, extent in pairs
    )


def matrices_of(sides_of: Callable[[str, Mapping[str, object]], str], *turns: str) -> ShapeRule:
    """The rule that tiles have two dimensions each, those of 1 aside, which are the same wherever they occur.

    sides_of: the names of an operand's dimensions in a call with these keywords; "" for what is no matrix. turns: the
    keywords that exchange the dimensions of an operand; an error proposes the one with which the tiles fit.
    """

    def matrices(tiles: Tiles, facts: Facts, keywords: Keywords) -> Shapes:
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
                    text = ", ".join(
                        shown(side) if side.name == key else f"{key} {shown(side)}" for key, side in tiles.items()
                    )
                    wanted = ", ".join(f"{key} ({', '.join(sides_of(key, keywords))})" for key in tiles)
                    return Mismatch(f"the extents of {dim} differ", text, wanted, turned(tiles, facts, keywords))
        return {name: tile.extents for name, tile in tiles.items()}

    def turned(tiles: Tiles, facts: Facts, keywords: Keywords) -> str | None:
        without_turns = matrices_of(sides_of)
        for turn in turns:
            other = not keywords.get(turn)
            if not isinstance(without_turns(tiles, facts, {**keywords, turn: other}), Mismatch):
                return f"{turn}={other}"
        return None

    return matrices


def shown(tile: Tile) -> str:
    """``A (64, 8)``."""
    return f"{tile.name} {listed(tile.extents)}"


def equal(a: object, b: object, facts: Facts) -> bool:
    """Are two extents known to be equal?"""
    return facts.equal(a, b) or as_int(facts.simplify(a - b)) == 0  # type: ignore[operator]  # extents subtract


def _numbered(shape: Shape, numbers: list[object]) -> Shape:
    rest = iter(numbers)
    return tuple(
        extent if as_int(extent) == 1 else extent if (number := next(rest)) is None else number for extent in shape
    )


FLOAT32 = dtype("float32")
INTEGRAL = ("integer", "bits")
"""What formulas take that mean nothing for floats; a bool is an integer, or a bit."""
VECTOR_BYTES = (16, 8, 4, 2, 1)
"""The accesses that there are, the widest first."""


def one_dtype(tiles: Tiles, _: Keywords) -> Mismatch | None:
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


def computable(tiles: Tiles, _: Keywords) -> Mismatch | None:
    """All tiles have numbers as elements."""
    for tile in tiles.values():
        if tile.dtype.lanes > 1 or tile.dtype.kind not in ("bool", "int", "uint", "float"):
            return Mismatch("elements are numbers", f"{tile.name} is {tile.dtype}", "a scalar dtype")
    return None


def convertible(tiles: Tiles, keywords: Keywords) -> Mismatch | None:
    """All tiles have elements of one type, whatever it is, or all have numbers, outside of tensor memory."""
    differ = one_dtype(tiles, keywords)
    in_tmem = "tmem" in {tile.space for tile in tiles.values()}
    if differ is None or in_tmem:
        return differ
    dst, src = tiles["dst"], tiles["src"]
    return computable(tiles, keywords) or narrowed(dst.name, dst.dtype, src.dtype, f"{src.name} is {src.dtype}")


def narrowed(name: str, to: DType, kind: DType, text: str) -> Mismatch | None:
    """Why elements of dtype ``kind`` do not become those of a tile by themselves, as no scalar would. name, to: its."""
    if keeps(kind, to):
        return None
    allowed = f"values that {to} holds, or a conversion that is written"
    return Mismatch(f"an element of {name} is {to}", text, allowed, f'Tx.cast(dst, src), or x[:] = T.cast(..., "{to}")')


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


def whole_vectors(tiles: Tiles, settings: Mapping[str, object]) -> Mismatch | None:
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

    def rule(tiles: Tiles, settings: Mapping[str, object]) -> Mismatch | None:
        return next(filter(None, (part(tiles, settings) for part in rules)), None)

    return rule
