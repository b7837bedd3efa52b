"""Random copies in im2col mode, dimension C first, and by maps that threads change: for CPU and GPU tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from tilewright.dtypes import dtype

KINDS = ("uint8", "uint16", "float16", "bfloat16", "float32", "int64")


@dataclass(frozen=True)
class Images:
    """Extents, the box (channels, pixels), the corners, and where a copy begins: coordinates and offsets."""

    rank: int
    kind: str
    mode: int
    dims: tuple[int, ...]
    channels: int
    pixels: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    coords: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return self.pixels * self.channels * dtype(self.kind).bits // 8

    def array(self, seed: int) -> NDArray[Any]:
        kind = dtype(self.kind).numpy
        shape = (*reversed(self.dims), kind.itemsize)
        octets = np.random.default_rng([seed, 1]).integers(0, 256, shape, dtype=np.uint8)
        return np.ascontiguousarray(octets.view(kind)[..., 0])

    def map_of(self, array: NDArray[Any]) -> tw.TensorMap:
        return tw.TensorMap.im2col(
            array, self.pixels, self.channels, self.lower[::-1], self.upper[::-1], self.mode, steps=self.steps[::-1]
        )


def images(rank: int, seed: int, kind: str = "", *, store: bool = False) -> Images:
    """A random one. store: a copy the other way, whose coordinates are not negative."""
    rng = np.random.default_rng([seed, rank, store])

    def integers(*bounds: tuple[int, int]) -> tuple[int, ...]:
        return tuple(int(rng.integers(low, high + 1)) for low, high in bounds)

    kind = kind or KINDS[int(rng.integers(len(KINDS)))]
    size, mode, spatial = dtype(kind).bits // 8, int(rng.integers(4)), rank - 2
    channels = (16 << mode if mode else 16 * int(rng.integers(1, 4))) // size
    unit = 16 // size
    dims = (unit * int(rng.integers(1, 10)), *integers(*[(2, 9)] * spatial), int(rng.integers(1, 4)))
    lower = integers(*[(0 if store else -3, 1)] * spatial)
    upper = tuple(
        max(int(rng.integers(-3, 1 if store else 3)), low - extent + 1)
        for low, extent in zip(lower, dims[1:-1], strict=True)
    )
    ends = [extent - 1 + up for extent, up in zip(dims[1:-1], upper, strict=True)]
    starts = integers(*zip(lower, ends, strict=True))
    first = unit * int(rng.integers(0 if store else -1, dims[0] // unit))
    steps = integers(*[(1, 3)] * spatial)
    coords = (first, *starts, int(rng.integers(0 if store else -1, dims[-1] + 1)))
    return Images(
        rank, kind, mode, dims, channels, 8 * int(rng.integers(1, 9)), lower, upper, steps, coords,
        integers(*[(0, 0 if store else 3)] * spatial),
    )  # fmt: skip


Change = tuple[str, int, int]


def changes(seed: int) -> tuple[tw.TensorMap, int, tuple[int, ...], tuple[Change, ...], int]:
    """A map of tiles, its rank, where a box begins, what is changed of it, and the bytes of a box after that."""
    rng = np.random.default_rng([seed, 77])
    rank = int(rng.integers(2, 6))
    dims = (32, *(int(extent) for extent in rng.integers(3, 9, rank - 1)))
    array = rng.integers(0, 1 << 16, dims[::-1], dtype=np.uint16)
    box = [16, *(int(extent) for extent in rng.integers(1, 3, rank - 1))]
    source = tw.TensorMap(array, box[::-1], 0)
    edits: list[Change] = []
    for _ in range(int(rng.integers(1, 4))):
        d = int(rng.integers(1, rank))
        which = int(rng.integers(5))
        if which == 0:
            box[d] = int(rng.integers(1, 6))
            edits.append(("box_dim", d, box[d]))
        elif which == 1:
            edits.append(("global_dim", d, int(rng.integers(1, dims[d]))))
        elif which == 2:
            edits += [("global_address", 0, source.fields.strides[-1]), ("global_dim", rank - 1, dims[-1] - 1)]
        elif which == 3:
            edits.append(("swizzle_mode", 0, int(rng.integers(0, 2))))
        else:
            edits.append(("global_dim", 0, 8 * int(rng.integers(1, 5))))
    names = [(field, ordinal) for field, ordinal, _ in edits]
    edits = [edit for k, edit in enumerate(edits) if edit[:2] not in names[:k]]
    kept = {ordinal: value for field, ordinal, value in edits if field == "box_dim"}
    extents = [kept.get(d, extent) for d, extent in enumerate(source.fields.box)]
    coords = (8 * int(rng.integers(-1, 3)), *(int(rng.integers(-1, extent)) for extent in dims[1:]))
    return source, rank, coords, tuple(edits), 2 * int(np.prod(extents))
