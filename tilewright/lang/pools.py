"""``T.TMEMPool``: columns of tensor memory that a kernel asks for once and deals out itself."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dtypes import dtype
from tilewright.dtypes import dtype as element
from tilewright.errors import KernelError, choices
from tilewright.ir import AddressOf, Buffer, Expr, Load, Region, Value, as_expr, const_value, row_major, special
from tilewright.isa import TMEM_COLUMNS
from tilewright.lang.builder import current
from tilewright.lang.forms import where
from tilewright.lang.instructions import row_call
from tilewright.lang.memory import decl_buffer, extents, new_buffer, strided
from tilewright.lang.public import export, public
from tilewright.layout import Layout, S, SwizzleMode, TCol, TLane, mma_shared_layout, tmem_datapath_layout

# ``T.SMEMPool``: one piece of dynamic shared memory that a kernel deals out itself, and may deal out twice.


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
        buffer = new_buffer(self._builder, name, shape, dtype, "shared.dyn", layout, align=max(align, _LEAST_ALIGN))
        swizzle = buffer.layout.parted(buffer.shape)[0] if buffer.layout is not None else None
        if swizzle is not None:  # its pattern begins where its period does
            buffer = replace(buffer, align=max(buffer.align, swizzle.period * buffer.dtype.bits // 8))
        start = -(-self._next // buffer.align) * buffer.align
        self._align = max(self._align, buffer.align)
        self._next = start + buffer.storage_bytes()
        self._size = max(self._size, self._next)
        view = replace(buffer, data=self._start, elem_offset=start * 8 // buffer.dtype.bits)
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


COUNTS = (32, 64, 128, 256, 512)


def _bits(kind: str) -> int:
    return element(str(kind)).bits


@public.methods
class TMEMPool:
    """Deals out columns front to back; mutable. ``commit`` asks for all of them, by one warp, ``dealloc`` gives them
    back. The hardware writes the address to shared memory, and every buffer begins at an offset from it.
    """

    def __init__(
        self,
        pool: SMEMPool,
        total_cols: int = TMEM_COLUMNS,
        *,
        cta_group: int = 1,
        alloc_warp: int = 0,
        dealloc_warp: int | None = None,
        tmem_addr: Buffer | None = None,
    ) -> None:
        current("T.TMEMPool()")
        if total_cols not in COUNTS:
            raise KernelError("T.TMEMPool asks for whole blocks of columns", given=f"total_cols={total_cols}",
                              allowed=", ".join(map(str, COUNTS)))  # fmt: skip
        self._columns, self._group, self._next = total_cols, cta_group, 0
        self._warps = alloc_warp, alloc_warp if dealloc_warp is None else dealloc_warp
        self._address = pool.alloc((1,), "uint32", align=4) if tmem_addr is None else tmem_addr

    def alloc(
        self,
        shape: object,
        dtype: str = "float32",
        *,
        layout: Layout | None = None,
        cols: int | None = None,
        datapath: str | None = None,
    ) -> Buffer:
        """The next buffer: a row in each lane, or as ``layout`` or a datapath ("D", "F", "B") say. cols: of 32 bits."""
        numbers = [extent for extent in extents(shape, "a buffer of tensor memory") if isinstance(extent, int)]
        if layout is None and len(numbers) != 2:
            raise KernelError("a buffer of tensor memory has rows and columns", given=f"{shape}", hint="layout=")
        if layout is None:
            rows, columns = numbers
            plain = S[(rows, columns) : (1 @ TLane, 1 @ TCol)]
            layout = plain if datapath is None else tmem_datapath_layout(datapath, rows, columns)
        span = const_value(layout.cosize("TCol"))
        taken = -(-int(span or 0) * _bits(dtype) // 32) if cols is None else cols
        first = self._next
        if first + taken > self._columns:
            raise KernelError("tensor memory has no such room", given=f"{taken} columns behind {first}",
                              allowed=f"{self._columns}, T.TMEMPool(total_cols=)")  # fmt: skip
        self._next = first + taken
        return decl_buffer(shape, dtype, scope="tmem", layout=layout, allocated_addr=self._base() + first)

    def _base(self) -> Expr:
        return Load(self._address, (as_expr(0),))

    def commit(self) -> None:
        """One warp asks for the columns, and gives up the right to ask for more. Barriers must follow before use."""
        pointer = self._address.ptr_to([0])

        def ask() -> None:
            row_call("ptx.tcgen05.alloc", pointer, n_cols=self._columns, cta_group=self._group)
            row_call("ptx.tcgen05.relinquish_alloc_permit", cta_group=self._group)

        where(special("warpid") == self._warps[0], ask)

    def dealloc(self) -> None:
        """One warp gives the columns back; a barrier must stand before it."""
        where(
            special("warpid") == self._warps[1],
            lambda: row_call("ptx.tcgen05.dealloc", self._base(), n_cols=self._columns, cta_group=self._group),
        )


class TMEMStages:
    """Stages in the columns of a buffer: ``stages[i]`` is ``width`` columns, from ``col + i * stride`` on."""

    def __init__(self, buf: Buffer, col: int, width: int, stages: int, stride: int | None = None) -> None:
        self._buffer, self._first, self._width, self._count = buf, col, width, stages
        self._stride = width if stride is None else stride

    def __getitem__(self, stage: Value) -> Region:
        number = const_value(stage)
        if number is not None and not 0 <= number < self._count:
            raise KernelError("no such stage of tensor memory", given=f"[{number}]", allowed=f"0 to {self._count - 1}")
        start = self._first + stage * self._stride
        return Region.of(self._buffer, (slice(None), slice(start, start + self._width)))


export("Shared and tensor memory, dealt out", SMEMPool, TMEMPool, TMEMStages)
