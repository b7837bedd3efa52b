"""The layouts that are tried for a tile of shared memory: swizzles, padded rows, and those that hardware units read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.advise.tiles import SharedTile
from tilewright.errors import LayoutError
from tilewright.layout import ComposeLayout, Iter, Layout, SwizzleLayout, SwizzleMode, TileLayout, mma_shared_layout

__all__ = ["Candidate", "candidates"]

BANK_BITS = 7  # of an address, that say the byte in the 128 bytes that all banks have together
MOST_PADDING = 128  # bytes of a row: as many again lead to the same banks


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout to try. extra: bytes that it takes beyond those of the tile. rank: simpler ones have less."""

    layout: Layout
    extra: int
    rank: tuple[int, ...]

    def places(self, tile: SharedTile, plain: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each element, row major, in elements. plain: those of the tile without a swizzle."""
        if isinstance(self.layout, ComposeLayout) and self.layout.tile == tile.tile:
            swizzled: NDArray[np.int64] = self.layout.swizzle.address(plain)
            return swizzled
        return self.layout.table(tile.shape)["m"].reshape(-1)


def candidates(tile: SharedTile, *, for_units: bool) -> Iterator[Candidate]:
    """Every layout that is tried. for_units: only those that the copy engine and wgmma read."""
    if for_units:
        yield from _of_hardware(tile)
        return
    size = tile.buffer.storage_bytes()
    yield Candidate(tile.tile, 0, (0,))
    for bits, first, distance in _swizzles(tile):
        swizzle = SwizzleLayout(first, bits, distance)
        extra = -size % (swizzle.block * tile.buffer.dtype.bits // 8)
        if tile.growing or not extra:
            is_hardware = first + _element_bits(tile) == 4 and distance == 3
            yield Candidate(swizzle.after(tile.tile), extra, (1, not is_hardware, bits, abs(distance - 3), -first))
    if tile.growing:
        yield from _padded(tile)


def _element_bits(tile: SharedTile) -> int:
    """The logarithm of an element's bytes; -1 of half a byte."""
    return tile.buffer.dtype.bits.bit_length() - 4


def _swizzles(tile: SharedTile) -> Iterator[tuple[int, int, int]]:
    """(swizzle_len, per_element, atom_len) of every swizzle that changes banks, by bits that the tile has."""
    unit = _element_bits(tile)
    address_bits = max(1, (tile.buffer.storage_size() - 1)).bit_length()
    for first in range(max(0, -unit), BANK_BITS - unit):
        for bits in range(1, BANK_BITS - unit - first + 1):
            for distance in range(bits, address_bits - first):
                yield bits, first, distance


def _padded(tile: SharedTile) -> Iterator[Candidate]:
    """Layouts with padded rows: for each stride that divides all longer ones, longer by some elements."""
    own, bits = tile.tile, tile.buffer.dtype.bits
    strides = sorted({int(str(it.stride)) for it in own.shard if it.extent != 1})
    for row in strides[1:]:
        if any(stride > row and stride % row for stride in strides) or own.replica or own.offset:
            continue
        for elements in range(1, MOST_PADDING * 8 // bits + 1):
            yield _with_padding(tile, row, elements)


def _with_padding(tile: SharedTile, row: int, elements: int) -> Candidate:
    def moved(stride: int) -> int:
        return stride // row * (row + elements) if stride % row == 0 else stride

    layout = TileLayout([Iter(it.extent, moved(int(str(it.stride))), it.axis) for it in tile.tile.shard])
    extra = (int(str(layout.cosize("m"))) - tile.buffer.storage_size()) * tile.buffer.dtype.bits // 8
    nbytes = elements * tile.buffer.dtype.bits // 8
    return Candidate(layout, extra, (2, nbytes & -nbytes != nbytes, elements))


def _of_hardware(tile: SharedTile) -> Iterator[Candidate]:
    """The swizzles of 32, 64 and 128 bytes, over the tile as it is and over stripes as wide as they are."""
    unit = _element_bits(tile)
    yield Candidate(tile.tile, 0, (0,))
    for mode in SwizzleMode:
        bits = int(mode)
        if not 0 <= bits <= 3:
            continue
        if bits and unit <= 4:
            yield Candidate(SwizzleLayout(4 - unit, bits, 3).after(tile.tile), 0, (1, 3 - bits))
        try:
            yield Candidate(mma_shared_layout(str(tile.buffer.dtype), mode, tile.shape), 0, (2, 3 - bits))
        except LayoutError:
            continue  # this tile has no such stripes
