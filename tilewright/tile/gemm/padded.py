"""Products of any sizes as products of whole instructions: tiles in memory go on behind their ends, where zeros are
loaded and nothing is stored. Where an end is known to the run alone, as far as the largest number that it may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.ir import Region, Value, binary, const_value
from tilewright.primitives.gemm import sides_of_matrix
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Decline
from tilewright.tile.gemm.near import whole_pieces
from tilewright.tile.inside import open_dimensions
from tilewright.tile.staging import warp_shares


def dims_of(call: TileCall, name: str) -> list[tuple[str, int]]:
    """The dimensions of an operand in their order, "M", "N" or "K", with their positions in its region."""
    long = [position for position, extent in enumerate(call[name].extents) if const_value(extent) != 1]
    return list(zip(sides_of_matrix(name, dict(call.config)), long, strict=True))


def sizes_of(call: TileCall) -> dict[str, int]:
    """M, N and K; of one that only the run knows, the most that it may be. Raises Decline where nobody says."""
    sizes: dict[str, int] = {}
    for name, side in call.sides.items():
        for dim, position in dims_of(call, name):
            extent, total = side.extents[position], const_value(side.buffer.shape[position])
            most = call.facts.bounds(extent)[1] if const_value(extent) is None else int(const_value(extent) or 0)
            rooms = [most] if total is None or const_value(extent) is not None else [most, int(total)]
            sizes[dim] = min([room for room in (*rooms, sizes.get(dim)) if room is not None])
    for dim, size in sizes.items():
        if size > MOST:
            raise Decline(f"{dim} may be {size}", allowed=f"T.assume of a number up to {MOST}, or a loop over tiles")
    return sizes


MOST = 1 << 14  # rows, columns or steps along K, for which instructions are written out


def in_whole_pieces(call: TileCall, ks: Sequence[int]) -> TileCall:
    """The call with whole pieces of 16 x 8 x one of ``ks`` for each warp, the most first; itself where it has them.

    Raises Decline where an operand in registers would have to be larger.
    """
    sizes = sizes_of(call)
    whole = next((k for k in ks if sizes["K"] % k == 0), ks[0] if sizes["K"] > ks[-1] else ks[-1])
    pieces = {"M": 16, "N": 8, "K": whole}
    if not any(side.space == "local" for side in call.tiles):
        pieces |= dict(zip("MN", _shares(call, sizes), strict=True))
    padded = {dim: -(-size // pieces[dim]) * pieces[dim] for dim, size in sizes.items()}
    return replace(call, sides={name: _grown(call, name, padded) for name in call.sides})


def _shares(call: TileCall, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The rows and columns of a piece for all warps, with which they multiply, then load, as little as possible."""

    def cost(piece: tuple[int, int]) -> tuple[int, int]:
        m, n = (-(-sizes[dim] // size) for dim, size in zip("MN", piece, strict=True))
        return m * n * piece[0] * piece[1], 16 * m + 8 * n

    return min(((16 * m, 8 * n) for (m, n), _ in warp_shares(call)), key=cost)


def _grown(call: TileCall, name: str, padded: Mapping[str, int]) -> Side:
    """An operand with extents of whole pieces, which ends where it did."""
    side = call[name]
    box = list(side.region.box)
    ends: list[Value | None] = [None] * len(box)
    for dim, position in dims_of(call, name):
        start, extent = box[position]
        if const_value(extent) == padded[dim]:
            continue
        if side.space == "local":
            raise Decline(
                f"{dim} is {extent}, and {side.name} is in registers, which have whole pieces",
                allowed=f"{dim} of {padded[dim]} in registers; tiles in memory may end anywhere",
                changes=whole_pieces(call, padded),
            )
        box[position], ends[position] = (start, padded[dim]), _end(call, side, position)
    if all(end is None for end in ends):
        return side
    return replace(side_of(Region(side.buffer, tuple(box)), call.facts), ends=tuple(ends))


def _end(call: TileCall, side: Side, position: int) -> Value:
    """Where the elements of a dimension end: with the region, or with the buffer if that is before."""
    end: Value = call.facts.simplify(side.starts[position] + side.extents[position])
    outside = position in open_dimensions(call, side)
    return binary("min", end, side.buffer.shape[position]) if outside else end
