"""``T.SMEMPool``: one piece of dynamic shared memory that a kernel deals out itself, and may deal out twice."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dtypes import dtype
from tilewright.errors import KernelError
from tilewright.ir import AddressOf, Buffer, row_major
from tilewright.lang.builder import current
from tilewright.lang.memory import new_buffer
from tilewright.lang.public import public
from tilewright.layout import Layout, SwizzleMode, mma_shared_layout

__all__ = ["EXPORTS", "SMEMPool"]

_LEAST_ALIGN = 16  # bytes: the row of an ldmatrix, the widest vector


@public.methods
class SMEMPool:
    """Deals out shared memory front to back; mutable. ``move_base_to`` sets where the next buffer goes, in bytes."""

    def __init__(self) -> None:
        self._builder = current("T.SMEMPool()")
        self._next = self._size = 0
        self._align = _LEAST_ALIGN
        self._closed = False
        name = self._builder.named("smem_pool")
        storage = new_buffer(self._builder, name, (1,), "uint8", "shared.dyn", None, align=_LEAST_ALIGN)
        self._storage = self._builder.allocate(storage)
        self._builder.late.append(self._finished)

    def alloc(self, shape: object, dtype: str = "float32", *, align: int = 0, layout: Layout | None = None) -> Buffer:
        """The next buffer, at a multiple of ``align`` bytes."""
        if self._closed:
            raise KernelError(f"{self._storage.name} is committed", hint="allocate before .commit()")
        name = self._builder.named("buffer")
        made = new_buffer(self._builder, name, shape, dtype, "shared.dyn", layout, align=max(align, _LEAST_ALIGN))
        start = -(-self._next // made.align) * made.align
        self._align = max(self._align, made.align)
        self._next = start + -(-made.storage_size() * made.dtype.bits // 8)
        self._size = max(self._size, self._next)
        view = replace(made, data=AddressOf(self._storage), elem_offset=start * 8 // made.dtype.bits)
        return self._builder.declare(view)

    def alloc_mma(
        self, shape: tuple[int, ...], dtype: str = "float16", *, swizzle_mode: SwizzleMode | int = 3, align: int = 1024
    ) -> Buffer:
        """The next buffer, in the swizzled layout that tensor cores read."""
        layout = mma_shared_layout(_name(dtype), SwizzleMode(swizzle_mode), shape)
        return self.alloc(shape, dtype, align=align, layout=layout)

    def move_base_to(self, offset: int) -> None:
        """The next buffer goes ``offset`` bytes from the start, over whatever is there."""
        self._next = int(offset)

    def commit(self) -> None:
        """No more buffers follow."""
        self._closed = True

    def _finished(self) -> Buffer:
        shape = (max(1, self._size),)
        return replace(self._storage, shape=shape, layout=row_major(shape), align=self._align)


def _name(kind: str) -> str:
    return dtype(str(kind))


EXPORTS: dict[str, object] = {"SMEMPool": SMEMPool}
"""What ``T`` has of this file, by its name there."""
