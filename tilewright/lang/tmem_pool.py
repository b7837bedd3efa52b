"""``T.TMEMPool``: columns of tensor memory that a kernel asks for once and deals out itself."""

from __future__ import annotations

from tilewright.dtypes import dtype as element
from tilewright.errors import KernelError
from tilewright.ir import Buffer, Expr, Load, Region, Value, as_expr, const_value, special
from tilewright.lang.builder import current
from tilewright.lang.forms import where
from tilewright.lang.instructions import row_call
from tilewright.lang.memory import TMEM_COLUMNS, decl_buffer, extents
from tilewright.lang.pool import SMEMPool
from tilewright.lang.public import public
from tilewright.layout import Layout, S, TCol, TLane, tmem_datapath_layout

__all__ = ["EXPORTS", "TMEMPool", "TMEMStages"]

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
        known = [extent for extent in extents(shape, "a buffer of tensor memory") if isinstance(extent, int)]
        if layout is None and len(known) != 2:
            raise KernelError("a buffer of tensor memory has rows and columns", given=f"{shape}", hint="layout=")
        if layout is None:
            rows, columns = known
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
        known = const_value(stage)
        if known is not None and not 0 <= known < self._count:
            raise KernelError("no such stage of tensor memory", given=f"[{known}]", allowed=f"0 to {self._count - 1}")
        start = self._first + stage * self._stride
        return Region.of(self._buffer, (slice(None), slice(start, start + self._width)))


EXPORTS: dict[str, object] = {"TMEMPool": TMEMPool, "TMEMStages": TMEMStages}
"""The names of ``T`` that this file defines, with what they stand for."""
