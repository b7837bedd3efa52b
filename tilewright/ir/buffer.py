"""Buffers: named storage with a shape, a dtype, a layout and a memory space, and the views and regions of it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import HANDLE, INT32, INT64, DType, dtype
from tilewright.errors import KernelError, choices
from tilewright.ir.build import as_expr, cast
from tilewright.ir.expr import AddressOf, Expr, Load, Value, Var, Within, const_value
from tilewright.ir.sums import Sum
from tilewright.ir.tensor_map import MAP_ALIGNMENT, MAP_BYTES
from tilewright.layout import Layout, S, SwizzleLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["SPACES", "Buffer", "Region", "Span1D", "as_index", "reader", "row_major"]

reader: ContextVar[Callable[[Load], object] | None] = ContextVar("reader", default=None)
"""Who wants to hear of elements that are read: the kernel being parsed."""

SPACES = ("global", "shared", "shared.dyn", "local", "tmem")

Index = "Value | slice"
Span1D = tuple[Value, Value]  # start, extent


@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage that a kernel names. Frozen: a view is another `Buffer` whose ``data`` points into this one.

    shape: logical extents, ints or expressions. layout: where the element at a logical coordinate lives; None in the
    lowered stage, where storage is flat and the one index is the element offset. space: one of `SPACES`.
    data: what it views: None for storage of its own, a pointer parameter (`Var` of dtype handle) for global memory, or
    an `AddressOf`/pointer expression. elem_offset: elements from ``data`` to logical zero. align: bytes, 0 for the
    natural alignment. allocated_addr: the tensor-memory address, for space ``tmem``.
    """

    name: str
    dtype: DType
    shape: tuple[Value, ...]
    space: str
    layout: Layout | None
    data: Expr | None = None
    elem_offset: Value = 0
    align: int = 0
    allocated_addr: Expr | None = None

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise KernelError(
                f"unknown memory scope {self.space!r} of buffer {self.name}",
                given=self.space,
                allowed=choices(self.space, SPACES),
            )
        if isinstance(self.layout, SwizzleLayout):  # which has no extents of its own
            object.__setattr__(self, "layout", self.layout.over(self.shape))

    # What a kernel may write on a buffer.

    def scope(self) -> str:
        """The memory space by its name in the language: global, shared, shared.dyn, local or tmem."""
        return self.space

    @property
    def is_shared(self) -> bool:
        return self.space.startswith("shared")

    @property
    def is_flat(self) -> bool:
        """True in the lowered stage: one index, the element offset in storage."""
        return self.layout is None

    def __getitem__(self, index: object) -> Load | Region:
        """``buf[i, j]`` is the element, ``buf[a:b, :]`` a `Region`; slices may come as a tuple of slice objects."""
        indices = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, slice) for part in indices):
            return Region.of(self, indices)
        self._check_rank(len(indices))
        element = Load(self, tuple(as_expr(as_index(part)) for part in indices))
        hear = reader.get()
        if hear is not None:
            hear(element)
        return element

    def ptr_to(self, indices: Sequence[Value]) -> AddressOf:
        """A pointer to the element at ``indices``."""
        self._check_rank(len(indices))
        return AddressOf(self, tuple(as_expr(as_index(part)) for part in indices))

    def access_ptr(self, mode: str = "rw", offset: Value = 0) -> Expr:
        """A pointer ``offset`` elements past the start of storage; ``mode`` (r, w or rw) is a promise to readers."""
        if mode not in ("r", "w", "rw"):
            raise KernelError(f"unknown access mode {mode!r}", given=mode, allowed="r, w, rw")
        if const_value(offset) == 0:
            return AddressOf(self)
        elements, bits = as_expr(as_index(offset)), self.dtype.bits
        size = self.shape[0] if self.layout is None else _collected(self.layout.storage().cosize("m"))
        start = AddressOf(self, owed=(Within(elements, as_expr(size, INT64), self.name, Within.STORAGE),))
        return start + (elements * (bits // 8) if bits % 8 == 0 else elements * bits // 8)

    def elem_offset_of(self, indices: Sequence[Value]) -> Value:
        """How many elements past ``data`` the element at ``indices`` is: what the layout says, plus `elem_offset`."""
        self._check_rank(len(indices))
        if self.layout is None:
            return indices[0]
        place = self.layout.place(*map(as_index, indices), shape=self.shape)
        return place.get("m", 0) + self.elem_offset  # type: ignore[no-any-return]  # a Value of either room

    @property
    def pointer(self) -> AddressOf:
        """``buf.data``: a pointer to the start of the storage."""
        return AddressOf(self)

    def region(self) -> Region:
        """The whole buffer."""
        return Region(self, tuple((0, extent) for extent in self.shape))

    def view(self, *how: object, layout: Layout | None = None, name: str | None = None) -> Buffer:
        """The same storage read otherwise: ``view("uint16")`` reinterprets bytes, ``view(4, 8, layout=...)`` the shape.

        A reinterpretation rescales the innermost extent and packs or unpacks the layout.
        """
        if len(how) == 1 and isinstance(how[0], str):
            return self._reinterpreted(dtype(how[0]), name)
        shape: tuple[Value, ...] = tuple(how) or self.shape  # type: ignore[arg-type]  # extents
        return self._viewed(name or f"{self.name}_view", shape, layout)

    def _viewed(self, name: str, shape: tuple[Value, ...], layout: Layout | None, kind: DType | None = None) -> Buffer:
        """This storage under another name. Raises KernelError where it is too small, or the layout not the shape's."""
        view = replace(
            self, name=name, dtype=kind or self.dtype, shape=shape, layout=layout or row_major(shape),
            data=AddressOf(self), elem_offset=0,
        )  # fmt: skip
        view.check_size()
        needs, has = view.known_storage(), self.known_storage()
        if needs is not None and has is not None and needs * view.dtype.bits > has * self.dtype.bits:
            raise KernelError(
                f"a view of {self.name} reaches beyond it",
                given=f"{needs} elements of storage, for ({', '.join(map(str, shape))}) in {view.layout}",
                allowed=f"{has * self.dtype.bits // view.dtype.bits} elements: what {self.name} has"
                + (" in each thread" if self.space == "local" else ""),
            )
        return view

    def _reinterpreted(self, kind: DType, name: str | None) -> Buffer:
        *outer, inner = self.shape
        if self.layout is None:
            raise KernelError(f"{self.name} is flat already", hint="reinterpret before lowering")
        if kind.bits >= self.dtype.bits:
            ratio = kind.bits // self.dtype.bits
            if (cut := const_value(inner % ratio)) not in (0, None):
                raise KernelError(
                    f"{self.name} as {kind} would end inside an element",
                    given=f"{inner} elements of {self.dtype} in the innermost dimension, {cut} too many",
                    allowed=f"a multiple of {ratio}",
                )
            layout, extent = self.layout.pack(ratio), inner // ratio
        else:
            ratio = self.dtype.bits // kind.bits
            layout, extent = self.layout.unpack(ratio), inner * ratio
        shape = (*outer, extent)
        if self.layout == row_major(self.shape):
            layout = row_major(shape)
        return self._viewed(name or f"{self.name}_{kind}", shape, layout, kind)

    def local(self, *shape: Value, layout: Layout | None = None, name: str | None = None) -> Buffer:
        """This thread's own part of a local buffer: its storage slots as a flat array, or as ``shape``."""
        if self.space != "local":
            given = f"{self.name} in {self.space}"
            raise KernelError(f"{self.name}.local() is for registers", given=given, allowed="scope local")
        return self._viewed(name or f"{self.name}_local", shape or (self.storage_size(),), layout)

    def permute(self, *dims: int, name: str | None = None) -> Buffer:
        """The same storage with its dimensions in another order."""
        if sorted(dims) != list(range(len(self.shape))):
            allowed = f"each of 0..{len(self.shape) - 1} once"
            raise KernelError(f"{self.name}.permute{dims}", given=str(dims), allowed=allowed)
        if self.layout is None:
            raise KernelError(f"{self.name} is flat already")
        grouped, separators = self.layout.group(self.shape)
        layout = grouped.permute_by_groups(separators, dims)
        return self._viewed(name or f"{self.name}_permuted", tuple(self.shape[d] for d in dims), layout)

    # What passes ask.

    def storage_size(self) -> int:
        """Elements of storage: per thread for local buffers (thread axes dropped), else of the whole buffer.

        Raises KernelError where it is symbolic.
        """
        size = self._storage()
        known = const_value(size)
        if known is None:
            raise KernelError(f"the storage of {self.name} must have a constant size", given=f"{size} elements")
        return int(known)

    def known_storage(self) -> int | None:
        """`storage_size`, None where it is symbolic."""
        known = const_value(self._storage())
        return None if known is None else int(known)

    def _storage(self) -> Value:
        if self.layout is None:
            return self.shape[0]
        size: Value = self.layout.size() if self.space == "tmem" else self.layout.storage().cosize("m")
        return size

    def check_size(self) -> None:
        """Raises KernelError where the layout has more or fewer elements than the shape."""
        if self.layout is None:
            return
        size, count = const_value(self.layout.size()), const_value(prod(self.shape))
        if size is not None and count is not None and size != count:
            raise KernelError(
                f"the layout of {self.name} does not fit its shape",
                given=f"{count} elements in ({', '.join(map(str, self.shape))}), {size} in {self.layout}",
                allowed="as many elements in both",
            )

    def flat(self) -> Buffer:
        """This buffer as the lowered stage sees it: same name, one dimension over its storage, no layout."""
        if self.layout is None:
            return self
        size = _collected(self.layout.storage().cosize("m")) if self.space == "global" else self.storage_size()
        return replace(self, shape=(size,), layout=None)

    def _check_rank(self, rank: int) -> None:
        if rank != len(self.shape):
            what = f"{self.name} has {len(self.shape)} dimensions"
            raise KernelError(what, given=f"{rank} indices", allowed=f"shape ({', '.join(map(str, self.shape))})")


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a buffer: one (start, extent) per dimension, in elements."""

    buffer: Buffer
    box: tuple[Span1D, ...]

    @property
    def extents(self) -> tuple[Value, ...]:
        return tuple(extent for _, extent in self.box)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @staticmethod
    def of(buffer: Buffer, indices: tuple[object, ...]) -> Region:
        """The region of ``buffer[indices]``; a plain index counts as a slice of one.

        Raises KernelError for a step, or where the rank differs.
        """
        buffer._check_rank(len(indices))
        box: list[tuple[Value, Value]] = []
        for part, extent in zip(indices, buffer.shape, strict=True):
            if not isinstance(part, slice):
                box.append((as_index(part), 1))
                continue
            if part.step not in (None, 1):
                given = f"step {part.step}"
                raise KernelError(f"a region of {buffer.name} has no steps", given=given, allowed="start:stop")
            start = 0 if part.start is None else part.start
            stop = extent if part.stop is None else part.stop
            box.append((as_index(start), as_index(_distance(start, stop))))
        return Region(buffer, tuple(box))

    def __str__(self) -> str:
        parts = (f"{start}:{start + extent}" for start, extent in self.box)
        return f"{self.buffer.name}[{', '.join(parts)}]"


def as_index(value: object) -> Value:
    """An index, with at least the bits of an int32: what strides make of it must not wrap where it did not."""
    if isinstance(value, Expr) and value.dtype.is_integer and value.dtype.bits < 32:
        return cast(value, INT32)
    return value  # type: ignore[return-value]  # as_expr refuses what is no value


def _distance(start: Value, stop: Value) -> Value:
    """``stop - start``, with what cancels out gone: from ``k * 16`` to ``(k + 1) * 16`` it is 16."""
    if not isinstance(start, Expr) and not isinstance(stop, Expr):
        return stop - start
    total = Sum.of(as_expr(stop)).minus(Sum.of(as_expr(start)))
    return total.build((as_expr(stop) - as_expr(start)).dtype) if total.terms else total.const


def _collected(value: Value) -> Value:
    """The same value with its terms collected: ``n - 1 + 1`` is ``n``."""
    return Sum.of(value).build(value.dtype) if isinstance(value, Expr) else value


def row_major(shape: Sequence[Value]) -> Layout:
    """The layout of a buffer without ``layout=``."""
    return S[tuple(shape)]


def map_buffer(name: str, *, flat: bool = False) -> Buffer:
    """The 128 bytes of a tensor map that a kernel gets, under this name."""
    shape = (MAP_BYTES,)
    layout = None if flat else row_major(shape)
    return Buffer(name, dtype("uint8"), shape, "global", layout, data=Var(name, HANDLE), align=MAP_ALIGNMENT)
