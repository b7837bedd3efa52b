"""``T.SMEMPool``: one piece of dynamic shared memory that a kernel deals out itself, and may deal out twice."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dtypes import dtype
from tilewright.errors import KernelError, choices
from tilewright.ir import AddressOf, Buffer, Expr, row_major
from tilewright.lang.builder import current
from tilewright.lang.memory import new_buffer, strided
from tilewright.lang.public import public
from tilewright.layout import Layout, SwizzleMode, mma_shared_layout

__all__ = ["EXPORTS", "SMEMPool"]

MODES = {"auto": SwizzleMode.SWIZZLE_128B_ATOM, "none": SwizzleMode.SWIZZLE_NONE}
_LEAST_ALIGN = 16  # bytes: the row of an ldmatrix, the widest vector


@public.methods
@public.constructor
class SMEMPool:
    """Deals out shared memory front to back; mutable. ``move_base_to`` sets where the next buffer goes, in bytes."""

    def __init__(self, ptr: Expr | Buffer | None = None) -> None:
        self._builder = current("T.SMEMPool()")
        self._next = self._size = 0
        self._align = _LEAST_ALIGN
        self._closed = False
        self._name = self._builder.named("smem_pool")
        self._start = ptr.pointer if isinstance(ptr, Buffer) else ptr
        if self._start is None:
            storage = new_buffer(self._builder, self._name, (1,), "uint8", "shared.dyn", None, align=_LEAST_ALIGN)
            self._storage = self._builder.allocate(storage)
            self._start = AddressOf(self._storage)
            self._builder.late.append(self._finished)

    def alloc(
        self, shape: object, dtype: str = "float32", strides: object = None, scope: str = "shared.dyn", *,
        align: int = 0, layout: Layout | None = None,
    ) -> Buffer:  # fmt: skip
        """The next buffer, at a multiple of ``align`` bytes; ``strides`` in elements, as `alloc_buffer` has them."""
        if self._closed:
            raise KernelError(f"{self._name} is committed", hint="allocate before .commit()")
        if scope not in ("shared", "shared.dyn"):
            raise KernelError(f"{self._name} is shared memory", given=f"scope={scope!r}", allowed='"shared.dyn"')
        name = self._builder.named("buffer")
        layout = strided(name, shape, strides, layout)
        made = new_buffer(self._builder, name, shape, dtype, "shared.dyn", layout, align=max(align, _LEAST_ALIGN))
        swizzle = made.layout.parted(made.shape)[0] if made.layout is not None else None
        if swizzle is not None:  # its pattern begins where its period does
            made = replace(made, align=max(made.align, swizzle.period * made.dtype.bits // 8))
        start = -(-self._next // made.align) * made.align
        self._align = max(self._align, made.align)
        self._next = start + made.storage_bytes()
        self._size = max(self._size, self._next)
        view = replace(made, data=self._start, elem_offset=start * 8 // made.dtype.bits)
        return self._builder.declare(view)

    def alloc_mma(
        self,
        shape: tuple[int, ...],
        dtype: str = "float16",
        swizzle_mode: SwizzleMode | int | str = "auto",
        align: int = 1024,
    ) -> Buffer:
        """The next buffer, in the swizzled layout that tensor cores read: of 128 bytes ("auto"), "none", or a mode."""
        mode = MODES.get(swizzle_mode, swizzle_mode) if isinstance(swizzle_mode, str) else swizzle_mode
        if isinstance(mode, str):
            allowed = f"{choices(mode, MODES)}, or a SwizzleMode"
            raise KernelError(f"{self._name}.alloc_mma has no such swizzle", given=repr(mode), allowed=allowed)
        layout = mma_shared_layout(_name(dtype), SwizzleMode(mode), shape)
        return self.alloc(shape, dtype, align=align, layout=layout)

    def move_base_to(self, offset: int) -> None:
        """The next buffer goes ``offset`` bytes from the start, over whatever is there."""
        self._next = int(offset)

    def commit(self, size: int | None = None) -> None:
        """No more buffers follow; ``size``: how many bytes there are, at least what the buffers take."""
        if size is not None and size < self._size:
            raise KernelError(f"{self._name} has no room", given=f"{self._size} bytes in {size}",
                              allowed=f".commit({self._size}) or more")  # fmt: skip
        self._size = max(self._size, size or 0)
        self._closed = True

    def _finished(self) -> Buffer:
        shape = (max(1, self._size),)
        return replace(self._storage, shape=shape, layout=row_major(shape), align=self._align)


def _name(kind: str) -> str:
    return dtype(str(kind))


EXPORTS: dict[str, object] = {"SMEMPool": SMEMPool}
"""The names of ``T`` that this file defines, with what they stand for."""
