"""Buffers: named storage with a shape, a dtype, a layout and a memory space; the views and regions of it; and the
element that is at a place of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tilewright.dtypes import HANDLE, INT32, INT64, DType, dtype
from tilewright.errors import KernelError, LayoutError, choices, described
from tilewright.ir.build import as_expr, cast
from tilewright.ir.conditions import collected, distance
from tilewright.ir.expr import AddressOf, Expr, Load, Node, Value, Var, Within, const_value, unproven
from tilewright.ir.tensor_map import MAP_ALIGNMENT, MAP_BYTES
from tilewright.ir.tiles import Tiled
from tilewright.layout import ComposeLayout, Layout, S, SwizzleLayout
from tilewright.layout.axes import listed
from tilewright.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "SPACES", "Buffer", "Region", "Span1D", "as_index", "owed_of_row", "reached", "reader", "row_major", "spread",
    "step_of", "whole_indices", "writer",
]  # fmt: skip

# What stands in the brackets of a buffer: ``...``, None and steps, as regions of views have them.


def whole_indices(indices: tuple[object, ...], rank: int) -> tuple[object, ...]:
    """The indices with whole dimensions in the place of ``...``, or at the end."""
    count = sum(part is not None and part is not Ellipsis for part in indices)
    rest = [slice(None)] * (rank - count)
    place = next((k for k, part in enumerate(indices) if part is Ellipsis), len(indices))
    after = indices[place + 1 :]
    if Ellipsis in [part for part in after if part is Ellipsis]:
        raise KernelError("an index has one `...`", given="two", allowed="A[..., 0]")
    return (*indices[:place], *rest, *after)


def step_of(part: object) -> int:
    """The step of an index. Raises KernelError for one that is no positive number."""
    step = const_value(part.step) if isinstance(part, slice) and part.step is not None else 1
    if not isinstance(step, int) or step < 1:
        raise KernelError("the step of a region", given=str(part.step), allowed="a positive Python int")  # type: ignore[attr-defined]  # a slice
    return step


def spread(buffer: Buffer, indices: tuple[object, ...]) -> tuple[Buffer, tuple[object, ...]]:
    """A view with a dimension of 1 for each None, and two for each step: the remainder first, then the quotient."""
    rests: list[tuple[int, object]] = []
    shape: list[Value] = []
    entries: list[object] = []
    order: list[int] = []
    split: list[Value] = []
    extents = iter(buffer.shape)
    for part in indices:
        if part is None:
            order.append(len(split))
            split.append(1)
            shape.append(1)
            entries.append(slice(None))
            continue
        extent, step = next(extents), step_of(part)
        order.append(len(split))
        if step == 1:
            split.append(extent)
            shape.append(extent)
            entries.append(part)
            continue
        assert isinstance(part, slice), "numbers have no step"
        if const_value(extent) is None or int(const_value(extent) or 0) % step:
            raise KernelError(f"a region of {buffer.name} with step {step}", given=f"a dimension of {extent}",
                              allowed=f"a number that is a multiple of {step}")  # fmt: skip
        start: Value = 0 if part.start is None else part.start
        stop: Value = extent if part.stop is None else part.stop
        rests.append((len(split) + 1, start % step))
        split += [extent // step, step]
        shape.append(extent // step)
        entries.append(slice(start // step, start // step + (distance(start, stop) + (step - 1)) // step))
    if not rests:
        return buffer.view(*shape), tuple(entries)
    assert buffer.layout is not None, "asked"
    swizzle, tile = buffer.layout.parted(buffer.shape)
    grouped, separators = tile.group(split)
    permuted = grouped.permute_by_groups(separators, [*(place for place, _ in rests), *order])
    layout = permuted if swizzle is None else ComposeLayout(swizzle, permuted)
    fronts = [split[place] for place, _ in rests]
    view = buffer._viewed(f"{buffer.name}_steps", (*fronts, *shape), layout)
    return view, (*(rest for _, rest in rests), *entries)


def as_index(value: object, of: str = "") -> Value:
    """An index, with at least the bits of an int32: what strides make of it must not wrap where it did not."""
    if isinstance(value, Expr):
        return cast(value, INT32) if value.dtype.is_integer and value.dtype.bits < 32 else value
    if isinstance(value, np.integer):  # which wraps where Python's do not
        return int(value)
    if isinstance(value, int) and value.bit_length() > 64:
        text = described(value)
        raise KernelError(
            f"an index{of and f' of {of}'} has {value.bit_length():,} bits", given=text, allowed="at most 64 bits"
        )
    if not hasattr(type(value), "__index__"):
        allowed = "an int or an integer expression"
        raise KernelError(f"an index{of and f' of {of}'} is an integer", given=described(value), allowed=allowed)
    return value  # type: ignore[return-value]  # it has an index


def owed_of_row(buffer: Buffer, first: Value, count: int) -> Iterator[Within]:
    """That the elements of a vector do not run into the next row, where they are neighbours of one row."""
    extent, start, dim = const_value(buffer.shape[-1]), const_value(first), len(buffer.shape) - 1
    if extent != 1 and buffer.layout is not None:
        second = buffer.layout.place(*(0 for _ in range(dim)), 1, shape=buffer.shape)
        if const_value(second.get("m", 0)) != 1:
            return
    if extent is not None and start is not None and start + count > extent:
        raise KernelError(
            f"a vector of {count} elements runs over the end of its row of {buffer.name}",
            given=f"{max(int(start), int(extent))} is outside, of {start}..{start + count - 1}",
            allowed=f"0 to {extent - 1} in dimension {dim}",
            hint=f"{buffer.name}.view(...) of longer rows, where the next one is meant",
        )
    yield Within(as_expr(as_index(first)), as_expr(buffer.shape[-1], INT64), buffer.name, dim, span=count)


reader: ContextVar[Callable[[Load], object] | None] = ContextVar("reader", default=None)
"""Called with each element that a kernel reads; set by the parser."""

writer: ContextVar[Callable[[Load, Value], None] | None] = ContextVar("writer", default=None)
"""Called for each element that a method of a buffer stores; set by the parser."""

SPACES = ("global", "shared", "shared.dyn", "local", "tmem")
ARGUMENT_ALIGNMENT = 16  # bytes: what a 128-bit access of an argument needs

_OF_REGIONS = (slice, NoneType, EllipsisType)
Span1D = tuple[Value, Value]  # start, extent


class _Remembered(Node):
    """What a buffer computes once."""

    __slots__ = ("_flat", "_size")
    _flat: Buffer
    _size: Value


@dataclass(frozen=True, slots=True)
class Buffer(_Remembered, Tiled):
    """Storage that a kernel names. Frozen: a view is another `Buffer` whose ``data`` points into this one.

    shape: logical extents, ints or expressions. layout: where the element at a logical coordinate lives; None in the
    lowered stage, where storage is flat and the one index is the element offset. space: one of `SPACES`. data: None for
    storage of its own; else a pointer to what it views. elem_offset: elements from ``data`` to logical zero. align:
    bytes, 0 for the natural alignment. allocated_addr: the tensor-memory address, for space ``tmem``. constant: nobody
    writes meanwhile. peers: of an argument that each of several GPUs has, how many they are; 0 for all others.
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
    constant: bool = False
    peers: int = 0

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

    __iter__ = None  # else Python would ask for elements without end

    def __getitem__(self, index: object) -> Load | Region:
        """``buf[i, j]`` is the element, ``buf[a:b, :]`` a `Region`; slices may come as a tuple of slice objects.

        Of fewer indices than dimensions the rest is whole: ``buf[i]`` of two dimensions is row ``i``.
        """
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) < len(self.shape) or any(isinstance(part, _OF_REGIONS) for part in indices):
            return Region.of(self, indices)
        self.check_rank(len(indices))
        element = Load(self, tuple(as_expr(as_index(part, self.name)) for part in indices))
        if (hear := reader.get()) is not None:
            hear(element)
        return element

    def ptr_to(self, indices: Sequence[Value]) -> AddressOf:
        """A pointer to the element at ``indices``."""
        self.check_rank(len(indices))
        return AddressOf(self, tuple(as_expr(as_index(part, self.name)) for part in indices))

    def access_ptr(self, mode: str = "rw", offset: Value = 0) -> Expr:
        """A pointer ``offset`` elements past ``buf.data``; ``mode`` (r, w or rw) is a promise to readers."""
        if mode not in ("r", "w", "rw"):
            raise KernelError(f"unknown access mode {mode!r}", given=mode, allowed="r, w, rw")
        if const_value(offset) == 0:
            return AddressOf(self)
        elements, bits = as_expr(as_index(offset, self.name)), self.dtype.bits
        size = self.shape[0] if self.layout is None else collected(self.layout.storage().cosize("m"))
        start = AddressOf(self, owed=(Within(elements, as_expr(size, INT64), self.name, Within.STORAGE),))
        return start + (elements * (bits // 8) if bits % 8 == 0 else elements * bits // 8)

    def elem_offset_of(self, indices: Sequence[Value]) -> Value:
        """How many elements past ``buf.data`` the element at ``indices`` is, as `access_ptr` counts.

        The pointer ``buf.data`` of a view has its ``elem_offset=`` already.
        """
        self.check_rank(len(indices))
        if self.layout is None:
            return indices[0]
        place: dict[str, Value] = self.layout.place(*map(as_index, indices), shape=self.shape)
        return place.get("m", 0)

    @property
    def root(self) -> Buffer:
        """The buffer whose storage it shows: itself, unless it is a view of another one."""
        return self.data.buffer.root if isinstance(self.data, AddressOf) else self

    @property
    def pointer(self) -> AddressOf:
        """``buf.data``: a pointer to the start of the storage."""
        return AddressOf(self)

    @property
    def pointers(self) -> Buffer:
        """Of a symmetric argument: the array of pointers to it, one for each GPU, and last the multicast address."""
        if not self.peers:
            raise KernelError(
                f"{self.name} is on this GPU alone",
                given=f"an array in {self.space} memory",
                allowed="a parameter that each GPU has: T.SymmetricBuffer(shape, dtype, ranks=n)",
            )
        shape, data = (self.peers + 1,), Var(f"{self.name}_peers_ptr", HANDLE)
        return Buffer(f"{self.name}_peers", HANDLE, shape, "global", row_major(shape), data=data)

    def peer(self, rank: Value) -> Buffer:
        """The same argument in the memory of another GPU, by its rank: a view, written and read as this one."""
        if (number := const_value(rank)) is not None and not 0 <= number < self.peers and self.pointers:
            raise KernelError(f"{self.name} has no rank {number}", given=number, allowed=f"0..{self.peers - 1}")
        return self._on(rank, "peer")

    def multicast(self) -> Buffer:
        """The same argument on all GPUs at once: an address for ``T.multimem`` alone."""
        return self._on(self.peers, "multicast")

    def _on(self, number: Value, name: str) -> Buffer:
        data = self.pointers[number]
        align = self.align or ARGUMENT_ALIGNMENT
        return replace(self, name=f"{self.name}_{name}", data=data, peers=0, align=align)

    def region(self) -> Region:
        """The whole buffer."""
        return Region(self, tuple((0, extent) for extent in self.shape))

    def view(self, *how: object, layout: Layout | Literal["default"] | None = None, name: str | None = None) -> Buffer:
        """The same storage read otherwise: ``view("uint16")`` reinterprets bytes, ``view(4, -1)`` changes the shape.

        A reinterpretation rescales the innermost extent and packs or unpacks the layout. Another shape keeps the layout
        and its row-major order of elements, unless ``layout=`` gives another one. One extent may be -1.
        """
        if len(how) == 1 and isinstance(how[0], str):
            return self._reinterpreted(dtype(how[0]), name)
        shape = self._inferred(how or self.shape)
        if isinstance(layout, str):
            layout = row_major(shape)
        return self._viewed(name or f"{self.name}_view", shape, layout or self._kept(shape))

    def _inferred(self, shape: tuple[object, ...]) -> tuple[Value, ...]:
        """The shape, its one -1, if any, replaced by this buffer's elements divided by the other extents."""
        extents: list[Value] = [extent for extent in shape if const_value(extent) != -1]  # type: ignore[misc]  # extents
        if len(extents) == len(shape):
            return tuple(extents)
        count, rest = prod(self.shape), prod(extents)
        if len(extents) < len(shape) - 1 or const_value(count % rest) not in (0, None):
            raise KernelError(
                f"{self.name}.view{listed(shape)}",
                given=f"{count} elements, by {rest}" if len(extents) == len(shape) - 1 else "two extents of -1",
                allowed="one -1, where the other extents divide the elements",
            )
        return tuple(count // rest if const_value(extent) == -1 else extent for extent in shape)  # type: ignore[misc]

    def _kept(self, shape: tuple[Value, ...]) -> Layout | None:
        """This layout, for another shape of as many elements; None for a row-major one, whose views may have fewer."""
        if self.layout is None or self.layout == row_major(self.shape):
            return None
        count, has = const_value(prod(shape)), const_value(prod(self.shape))
        if count is not None and has is not None and count != has:
            raise KernelError(
                f"a view of {self.name} keeps its layout, {self.layout}",
                given=f"{count} elements in {listed(shape)}",
                allowed=f"{has} elements, as many as {self.name} has",
                hint="layout=, which reads the storage anew",
            )
        return self.layout

    def vload(self, indices: Sequence[Value], dtype: str | None = None) -> Load:
        """The elements from ``indices`` on as one vector of ``dtype``, "float32x4"; without it the element."""
        return self._vector(indices, self.dtype if dtype is None else _of(dtype))

    def vstore(self, indices: Sequence[Value], value: Value) -> None:
        """Store a vector to the elements from ``indices`` on, by one access."""
        if (store := writer.get()) is None:
            raise KernelError(f"{self.name}.vstore belongs in a kernel", allowed="inside a function with @T.prim_func")
        kind = value.dtype if isinstance(value, Expr) and value.dtype.lanes > 1 else self.dtype
        store(self._vector(indices, kind), value)

    def _vector(self, indices: Sequence[Value], kind: DType) -> Load:
        place = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
        if kind.element != self.dtype.element or kind.lanes % self.dtype.lanes:
            allowed = f"{self.dtype.element}x2, x4, x8"
            raise KernelError(f"{self.name} holds {self.dtype}", given=f"a vector of {kind}", allowed=allowed)
        start = self.ptr_to(place)
        if kind == self.dtype:
            return self[place]  # type: ignore[return-value]  # the ranks agree
        start = replace(start, owed=tuple(owed_of_row(self, place[-1], kind.lanes // self.dtype.lanes)))
        view = replace(self, name=f"{self.name}_{kind}", dtype=kind, shape=(1,), layout=row_major((1,)), data=start,
                       elem_offset=0, align=0)  # fmt: skip
        return view[0]  # type: ignore[return-value]  # one dimension

    def _viewed(self, name: str, shape: tuple[Value, ...], layout: Layout | None, kind: DType | None = None) -> Buffer:
        """This storage under another name. Raises KernelError where it is too small, or layout and shape do not fit."""
        layout = row_major(shape) if layout is None else reached(name, shape, layout)
        view = replace(
            self, name=name, dtype=kind or self.dtype, shape=shape, layout=layout,
            data=AddressOf(self), elem_offset=0,
        )  # fmt: skip
        view.check_size()
        needs, has = view.known_storage(), self.known_storage()
        if needs is not None and has is not None and needs * view.dtype.bits > has * self.dtype.bits:
            raise KernelError(
                f"a view of {self.name} reaches beyond it",
                given=f"{needs} elements of storage, for {listed(shape)} in {view.layout}",
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
        """This thread's own part of a local buffer: its slots as a flat array; as ``shape`` its elements, in
        the row-major order that they have in this buffer, each where the layout without its thread axes has it.
        """
        if self.space != "local":
            place = f"{self.name} in {self.space}"
            raise KernelError(f"{self.name}.local() is for registers", given=place, allowed="scope local")
        if shape and layout is None and self.layout is not None:
            layout = self._own(shape)
        return self._viewed(name or f"{self.name}_local", shape or (self.storage_size(),), layout)

    def _own(self, shape: tuple[Value, ...]) -> Layout | None:
        """The layout of this thread's elements, in another shape; None for slots in row-major order."""
        assert self.layout is not None, "flat buffers have none"
        layout = self.layout.storage()
        if layout.canonicalize() == row_major((layout.size(),)).canonicalize():
            return None
        count, has = const_value(prod(shape)), const_value(layout.size())
        if count == has:
            return layout
        raise KernelError(
            f"{self.name}.local{listed(shape)}",
            given=f"{count} elements",
            allowed=f"{has}, as many as each thread has in {layout}",
            hint=f"{self.name}.local(), its slots in the order of storage",
        )

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
        size = self.known_storage()
        if size is None:
            text = f"{self._storage()} elements"
            raise KernelError(f"the storage of {self.name} must have a constant size", given=text)
        return size

    def storage_bytes(self) -> int:
        """`storage_size` in bytes, 4-bit elements packed two to a byte."""
        return -(-self.storage_size() * self.dtype.bits // 8)

    def known_storage(self) -> int | None:
        """`storage_size`, None where it is symbolic."""
        size = const_value(self._storage())
        return None if size is None else int(size)

    def _storage(self) -> Value:
        if self.layout is None:
            return self.shape[0]
        try:
            return self._size
        except AttributeError:
            size = self.layout.size() if self.space == "tmem" else self.layout.storage().cosize("m")
            object.__setattr__(self, "_size", size)
            return self._size

    def check_size(self) -> None:
        """Raises KernelError where the layout has fewer elements than the shape, or is not cut down to it."""
        if self.layout is None:
            return
        size, count = const_value(self.layout.size()), const_value(prod(self.shape))
        if size is not None and count is not None and size != count:
            raise KernelError(
                f"the layout of {self.name} does not fit its shape",
                given=f"{count} elements in {listed(self.shape)}, {size} in {self.layout}",
                allowed="as many elements in both, or more in the layout",
            )

    def flat(self) -> Buffer:
        """This buffer as the lowered stage sees it: same name, one dimension over its storage, no layout."""
        if self.layout is None:
            return self
        try:
            return self._flat
        except AttributeError:
            plain = self.space == "global" or (self.is_shared and self.data is not None)  # a view may have any size
            size = collected(self._storage()) if plain else self.storage_size()
            object.__setattr__(self, "_flat", replace(self, shape=(size,), layout=None))
            return self._flat

    def check_rank(self, rank: int) -> None:
        """Raises KernelError for another number of indices than dimensions."""
        if rank != len(self.shape):
            what = f"{self.name} has {len(self.shape)} dimensions"
            raise KernelError(what, given=f"{rank} indices", allowed=f"shape {listed(self.shape)}")


@dataclass(frozen=True, slots=True)
class Region(Tiled):
    """A box of a buffer: one (start, extent) per dimension, in elements.

    owed: of a part of another region, that it lies in that one. written: of one with steps, ``A[::2]``; the first
    ``rests`` dimensions are then those of remainders, which the kernel does not count.
    """

    buffer: Buffer
    box: tuple[Span1D, ...]
    owed: tuple[Within, ...] = unproven()
    written: str = field(default="", compare=False)
    rests: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """The name of the buffer, as the kernel knows it."""
        return self.written.partition("[")[0] or self.buffer.name

    @property
    def extents(self) -> tuple[Value, ...]:
        return tuple(extent for _, extent in self.box)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @staticmethod
    def of(buffer: Buffer, indices: tuple[object, ...]) -> Region:
        """The region of ``buffer[indices]``; a plain index counts as a slice of one, a missing one as the whole.

        None is a dimension of 1 that the buffer does not have, ``...`` the dimensions that are left. Both, and steps,
        make a region of a view. Raises KernelError for more indices than dimensions.
        """
        indices, written, rests = whole_indices(indices, len(buffer.shape)), "", 0
        buffer.check_rank(sum(part is not None for part in indices))
        if any(part is None or step_of(part) != 1 for part in indices):
            if any(part is not None and step_of(part) != 1 for part in indices):
                written = f"{buffer.name}[{', '.join(map(_as_written, indices))}]"
            asked = len(indices)
            buffer, indices = spread(buffer, indices)
            rests = len(indices) - asked
        box: list[tuple[Value, Value]] = []
        for part, extent in zip(indices, buffer.shape, strict=True):
            if not isinstance(part, slice):
                box.append((as_index(part, buffer.name), 1))
                continue
            start = 0 if part.start is None else part.start
            stop = extent if part.stop is None else part.stop
            box.append((as_index(start, buffer.name), as_index(distance(start, stop), buffer.name)))
        return Region(buffer, tuple(box), written=written, rests=rests)

    __iter__ = None  # as of a buffer

    def __getitem__(self, index: object) -> Load | Region:
        """A part of the region, or an element, counted from where the region begins."""
        return self.part(index, self.buffer.__getitem__)

    def part(self, index: object, of_buffer: Callable[[tuple[object, ...]], Load | Region]) -> Load | Region:
        """``region[index]``, by what stands in the brackets of its buffer; it owes that it lies in the region.

        Raises KernelError for a step, more indices than dimensions, and a part that is known to lie outside.
        """
        indices = index if isinstance(index, tuple) else (index,)
        rank = len(self.box) - self.rests
        if len(indices) > rank or any(part is None or part is Ellipsis for part in indices):
            raise KernelError(f"`{self}` has {rank} dimensions", given=f"{len(indices)} indices",
                              allowed="one for each, or fewer: the rest is whole")  # fmt: skip
        parts: list[object] = [slice(start, start + extent) for start, extent in self.box]
        parts[: self.rests] = [start for start, _ in self.box[: self.rests]]
        debts = list(self.owed)
        for dim, part in enumerate(indices, self.rests):
            start, extent = self.box[dim]
            places: list[Any] = [part]  # the first and the last one, unless the part ends where the region does
            if isinstance(part, slice):
                if part.step is not None:
                    raise KernelError(f"a part of `{self}` has no step", given=f"{part.step}", allowed="start:stop")
                first, stop = 0 if part.start is None else part.start, extent if part.stop is None else part.stop
                parts[dim] = slice(start + first, start + stop)
                places = [first, *(() if part.stop is None else (stop - 1,))]
            else:
                parts[dim] = start + part
            self._check_inside(dim, places)
            end = as_expr(as_index(extent), INT64)
            debts += [
                Within(as_expr(as_index(place, self.name)), end, str(self), dim - self.rests)
                for place in places
                if const_value(place) is None or const_value(extent) is None
            ]
        part = of_buffer(tuple(parts))
        part = replace(part, owed=(*part.owed, *debts)) if debts else part
        if not self.rests or isinstance(part, Load):
            return part
        return replace(part, rests=self.rests, written=f"{self}[{', '.join(map(_as_written, indices))}]")

    def _check_inside(self, dim: int, places: Sequence[Value]) -> None:
        """Raises KernelError for a part that is known to leave the region: ``A[2]`` has one row, not its elements."""
        extent = self.box[dim][1]
        numbers, limit = [number for number in map(const_value, places) if number is not None], const_value(extent)
        if numbers and (min(numbers) < 0 or (limit is not None and max(numbers) >= limit)):
            part = f"{places[0]}:{places[1] + 1}" if len(places) > 1 else places[0]
            hint = "all indices in one pair of brackets: A[i, a:b]" if limit == 1 else None
            raise KernelError(f"a part of `{self}` lies outside of it", given=f"{part} in dimension {dim - self.rests}",
                              allowed=f"within 0:{extent}", hint=hint)  # fmt: skip

    def __str__(self) -> str:
        if self.written:
            return self.written
        parts = (f"{start}:{collected(start + extent)}" for start, extent in self.box)
        return f"{self.buffer.name}[{', '.join(parts)}]"


def _as_written(part: object) -> str:
    """An index as it stands in brackets."""
    if not isinstance(part, slice):
        return str(part)
    ends = ":".join("" if end is None else str(end) for end in (part.start, part.stop))
    return ends if part.step is None else f"{ends}:{part.step}"


def _of(kind: str) -> DType:
    return dtype(kind)


def reached(name: str, shape: Sequence[Value], layout: Layout) -> Layout:
    """The part of a layout that the elements of a shape reach: of a larger one its first places, in row-major order.

    Raises KernelError where no layout describes that part.
    """
    count, size = const_value(prod(shape)), None if isinstance(layout, SwizzleLayout) else const_value(layout.size())
    if count is None or size is None or not 0 < count < size:
        return layout
    try:
        return layout.part((size,), [(0, count)])
    except LayoutError as error:
        raise KernelError(
            f"the layout of {name} is larger than its shape, and cut within an iter",
            given=f"{count} elements in {listed(shape)}, {size} in {layout}: {error.given}",
            allowed="whole rounds of the layout's inner iters",
        ) from None


def row_major(shape: Sequence[Value]) -> Layout:
    """The layout of a buffer without ``layout=``."""
    return S[tuple(shape)]


def map_buffer(name: str, *, flat: bool = False) -> Buffer:
    """The 128 bytes of a tensor map that a kernel gets, under this name."""
    shape = (MAP_BYTES,)
    layout = None if flat else row_major(shape)
    return Buffer(name, dtype("uint8"), shape, "global", layout, data=Var(name, HANDLE), align=MAP_ALIGNMENT)


# From a place in a buffer's storage back to the logical element that a kernel's author thinks in.

MOST_ELEMENTS = 1 << 22


def is_dealt_out(buffer: Buffer) -> bool:
    """Does its layout deal the elements out to threads, so that each has a part?"""
    return buffer.layout is not None and any(axis.is_thread() for axis in buffer.layout.parted(buffer.shape)[1].axes)


def index_at(buffer: Buffer, element: int) -> tuple[int, ...] | None:
    """The coordinate of the element at storage offset ``element``; None where there is none, as in padding."""
    extents = [const_value(extent) for extent in buffer.shape]
    if buffer.layout is None or None in extents[1:]:
        return None
    shape = tuple(int(extent or 1) for extent in extents)  # one row stands for a symbolic number of rows
    if prod(shape) > MOST_ELEMENTS:
        shape = (1, *shape[1:])
    try:
        memory = buffer.layout.table(shape).get("m")
    except LayoutError:  # symbolic strides, or a layout that has no such shape
        return _row_major(shape, element) if buffer.layout.is_trivial() else None
    if memory is None:
        return None
    first = memory[..., 0]
    places = np.argwhere(memory == element)
    return tuple(map(int, places[0][:-1])) if len(places) else _continued(first, element)


def _row_major(shape: tuple[int, ...], element: int) -> tuple[int, ...]:
    inner = np.cumprod((1, *shape[:0:-1]))[::-1]
    return _digits([int(stride) for stride in inner], element)


def _digits(strides: list[int], element: int) -> tuple[int, ...]:
    coordinate = []
    for stride in strides:
        digit, element = divmod(element, stride)
        coordinate.append(digit)
    return tuple(coordinate)


def _continued(memory: NDArray[np.int64], element: int) -> tuple[int, ...] | None:
    """The coordinate outside of the shape where the layout, gone on with along its first dimension, has the element."""
    origin = memory[(0,) * memory.ndim]
    one_on = [
        tuple(min(step, n - 1) for step, n in zip(unit, memory.shape, strict=True))
        for unit in np.eye(memory.ndim, dtype=int)
    ]
    steps = [int(memory[place] - origin) for place in one_on]
    even = origin + np.tensordot(steps, np.indices(memory.shape), 1)
    if not (even == memory).all() or 0 in steps[1:] or steps != sorted(steps, reverse=True):
        return None
    steps[0] = steps[0] or int(memory.max()) + 1
    coordinate = _digits(steps, element - int(origin))
    inside = all(digit < n for digit, n in zip(coordinate[1:], memory.shape[1:], strict=True))
    return coordinate if inside else None
