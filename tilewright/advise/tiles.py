"""A tile of shared memory as its kernel allocates it, and the kernel with another layout in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType
from tilewright.errors import Span
from tilewright.ir import AddressOf, AllocBuffer, Buffer, DeclBuffer, Kernel, const_value, map_buffers, statements
from tilewright.layout import ComposeLayout, Iter, Layout, SwizzleLayout, TileLayout
from tilewright.lower import storage_bytes
from tilewright.records import replace

__all__ = ["Cannot", "SharedTile", "tiles_of", "with_layout"]


class Cannot(Exception):
    """A buffer cannot take another layout, for this reason."""


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A buffer of shared memory.

    place, start: the storage that it lies in, and from which byte. growing: may it take more bytes?
    """

    buffer: Buffer
    place: str
    start: int
    growing: bool
    at: Span | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, as numbers."""
        return tuple(int(str(const_value(extent))) for extent in self.buffer.shape)

    @property
    def swizzle(self) -> SwizzleLayout:
        """The swizzle of its layout; one that moves nothing where it has none."""
        return self.buffer.layout.swizzle if isinstance(self.buffer.layout, ComposeLayout) else SwizzleLayout(0, 0, 0)

    @property
    def tile(self) -> TileLayout:
        """Its layout before the swizzle."""
        layout = self.buffer.layout
        found = layout.tile if isinstance(layout, ComposeLayout) else layout
        if not isinstance(found, TileLayout):
            raise Cannot(f"{self.buffer.name} has the layout {layout}")
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of its storage."""
        return storage_bytes(self.buffer)

    def before_swizzle(self) -> NDArray[np.int64]:
        """The place of each element in elements, before the swizzle."""
        table = self.tile.table(self.shape)["m"]
        if table.shape[-1] != 1:
            raise Cannot(f"{self.buffer.name} has its elements in several places")
        return table.reshape(-1)


def tiles_of(kernel: Kernel) -> Iterator[SharedTile]:
    """The buffers of shared memory that are no views of others, but for the bytes of a pool."""
    for stmt in statements(kernel.body):
        if not isinstance(stmt, (AllocBuffer, DeclBuffer)):
            continue
        buffer = stmt.buffer
        known = all(isinstance(const_value(extent), int) for extent in buffer.shape)
        if not buffer.is_shared or buffer.layout is None or not known or len(buffer.shape) < 1:
            continue
        if isinstance(stmt, AllocBuffer):
            yield SharedTile(buffer, buffer.name, 0, growing=True, at=stmt.at)
        elif (pool := _pool(buffer)) and isinstance(offset := const_value(buffer.elem_offset), int):
            yield SharedTile(buffer, pool.name, offset * buffer.dtype.bits // 8, growing=False, at=stmt.at)


def _pool(buffer: Buffer) -> Buffer | None:
    """The bytes out of which a pool dealt this buffer."""
    parent = buffer.data.buffer if isinstance(buffer.data, AddressOf) and not buffer.data.indices else None
    is_pool = parent is not None and parent.data is None and parent.dtype == "uint8" and len(parent.shape) == 1
    return parent if is_pool else None


def with_layout(kernel: Kernel, tile: SharedTile, layout: Layout) -> Kernel:
    """The kernel whose ``tile`` has another layout, and whose views of it follow.

    Raises Cannot where a view cannot.
    """
    follow = _following(tile, layout)

    def change(buffer: Buffer) -> Buffer:
        if buffer.name == tile.buffer.name:
            return replace(buffer, layout=layout)
        if not _views(buffer, tile):
            return buffer
        data = buffer.data
        assert isinstance(data, AddressOf)
        if data.indices and all(const_value(extent) == 1 for extent in buffer.shape):
            return buffer  # a vector at an element: it follows the element
        if data.indices or const_value(buffer.elem_offset) != 0 or buffer.layout is None:
            raise Cannot(f"{buffer.name} views a part of {tile.buffer.name}")
        return replace(buffer, layout=follow(buffer))

    return replace(kernel, body=tuple(map_buffers(stmt, change) for stmt in kernel.body))


def _views(buffer: Buffer, tile: SharedTile) -> bool:
    while isinstance(buffer.data, AddressOf):
        buffer = buffer.data.buffer
        if buffer.name == tile.buffer.name:
            return True
    return False


def _following(tile: SharedTile, layout: Layout) -> Callable[[Buffer], Layout]:
    """The new layout of a view."""
    new = layout.tile if isinstance(layout, ComposeLayout) else layout
    assert isinstance(new, TileLayout)
    swizzle = layout.swizzle if isinstance(layout, ComposeLayout) else SwizzleLayout(0, 0, 0)

    def follow(view: Buffer) -> Layout:
        own = view.layout.tile if isinstance(view.layout, ComposeLayout) else view.layout
        if not isinstance(own, TileLayout):
            raise Cannot(f"the view {view.name} has the layout {view.layout}")
        if new != tile.tile:
            own = _restrided(own, tile, new, view)
        return _in_units_of(swizzle, tile.buffer.dtype, view.dtype).after(own) if swizzle.swizzle_len else own

    return follow


def _in_units_of(swizzle: SwizzleLayout, kind: DType, view: DType) -> SwizzleLayout:
    return swizzle.pack(view.bits // kind.bits) if view.bits >= kind.bits else swizzle.unpack(kind.bits // view.bits)


def _restrided(own: TileLayout, tile: SharedTile, new: TileLayout, view: Buffer) -> TileLayout:
    """A view's iters with the strides that the iters of the tile have now."""
    strides = {
        old.stride: it.stride for old, it in zip(tile.tile.shard, new.shard, strict=False) if old.extent == it.extent
    }
    sizes = {old.stride: old.extent for old in tile.tile.shard}
    if len(tile.tile.shard) != len(new.shard) or view.dtype != tile.buffer.dtype or own.replica or own.offset:
        raise Cannot(f"the view {view.name} of {tile.buffer.name} does not follow")
    if any(sizes.get(it.stride) != it.extent or it.stride not in strides for it in own.shard if it.extent != 1):
        raise Cannot(f"the view {view.name} of {tile.buffer.name} cuts its rows otherwise")
    return TileLayout([Iter(it.extent, strides.get(it.stride, it.stride), it.axis) for it in own.shard])
