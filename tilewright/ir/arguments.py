"""Binding the arguments of a call: do they fit the parameters, also in their strides, and which sizes do they give the
symbols?

A `Signature` is what a kernel asks for. It never sees an array: the caller describes each as an `ArrayInfo`, wherever
the data lives. Every refusal names the argument, what was given, and what is allowed.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np

from tilewright.errors import ArgumentError, KernelError, Span
from tilewright.ir.buffer import ARGUMENT_ALIGNMENT, Buffer, row_major
from tilewright.ir.expr import AddressOf, Expr, Number, Value, Var, const_value
from tilewright.ir.intervals import limits
from tilewright.ir.launch import launch_of
from tilewright.ir.numbers import evaluate, fits, range_of
from tilewright.ir.ranges import RangeFacts
from tilewright.ir.stmt import Assume, Kernel, Stmt, Store, TileCallStmt
from tilewright.ir.tensor_map import MapFields, MapOf
from tilewright.ir.walk import names_in, statements, walk
from tilewright.layout import INTS, TileLayout, m
from tilewright.layout.axes import listed

# An array that is passed to a kernel, without its data: what a call is checked by, wherever the data lives.


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array that is passed, without its data.

    dtype: its element type by name. strides: in elements, not always whole; None where it is C-contiguous.
    address: in bytes, or any number that is a multiple of the same powers of two; None where it is not known.
    device: "cpu", "cuda:0". is_tensor: of torch's kind, with `.to` in the place of `.astype`.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[float, ...] | None = None
    address: int | None = None
    device: str = "cpu"
    readonly: bool = False
    is_tensor: bool = False

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Row major without gaps; strides of extents of one mean nothing."""
        if self.strides is None or not self.size:
            return True
        pairs = zip(self.shape, self.strides, _row_major(self.shape), strict=True)
        return all(extent == 1 or stride == step for extent, stride, step in pairs)

    @property
    def steps(self) -> tuple[float, ...]:
        """The strides, of a C-contiguous array too."""
        return _row_major(self.shape) if self.strides is None else self.strides

    @property
    def span(self) -> int:
        """Elements from the first to the last in memory."""
        reach = sum((extent - 1) * step for extent, step in zip(self.shape, self.steps, strict=True))
        return int(reach) + 1 if self.size else 0

    @property
    def alignment(self) -> int:
        """The largest power of two, up to 1024 bytes, that the address is a multiple of."""
        return 1024 if not self.address else min(1024, self.address & -self.address)

    def converted(self, dtype: str) -> str:
        """A hint for the caller: how to convert the array to another dtype, or to reinterpret its bits."""
        if self.is_tensor:
            return f".to(torch.{dtype}) on the tensor; .view(torch.{dtype}) where its bits are meant"
        return f".astype({dtype!r}) on the array; .view({dtype!r}) where its bits are meant"

    def __str__(self) -> str:
        return f"{self.dtype} of shape ({', '.join(map(str, self.shape))})"


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


# Arguments whose rows are further apart than they are long: strides that a buffer declares, and those of an array.


def strides_of(buffer: Buffer) -> tuple[Value, ...] | None:
    """Elements from one index of each dimension to the next; None where the layout is more than that."""
    layout = buffer.layout
    if not isinstance(layout, TileLayout) or layout.replica or layout.offset or const_value(buffer.elem_offset) != 0:
        return None
    alike = len(layout.shard) == len(buffer.shape) and all(
        it.axis == m and INTS.equal(it.extent, extent) for it, extent in zip(layout.shard, buffer.shape, strict=True)
    )
    return tuple(it.stride for it in layout.shard) if alike else None


def steps_of(buffer: Buffer, info: ArrayInfo) -> tuple[float, ...] | None:
    """The strides of an array of the buffer's rank, in elements of the buffer; None where its items are no elements."""
    lanes, strides = buffer.dtype.lanes, info.steps
    if lanes > 1 and len(strides) == len(buffer.shape) + 1 and strides[-1] == 1:
        return tuple(stride / lanes for stride in strides[:-1])
    return strides if lanes == 1 and buffer.dtype.bits >= 8 and len(strides) == len(buffer.shape) else None


def symbolic_strides(buffer: Buffer, info: ArrayInfo) -> Iterator[tuple[bool, str, int, float]]:
    """The strides of an array where the buffer declares a symbol: (is the extent 0 or 1, name, dimension, elements).

    The stride of an extent of one is arbitrary. It is used only if no other array gives the symbol a value, and is at
    least as long as its row.
    """
    steps, extents = steps_of(buffer, info) or (), info.shape
    for axis, (stride, step) in enumerate(zip(strides_of(buffer) or (), steps, strict=False)):
        if isinstance(stride, Var):
            idle = extents[axis] <= 1
            yield idle, stride.name, axis, max(step, prod(extents[axis + 1 : len(buffer.shape)])) if idle else step


def differing(
    buffer: Buffer, steps: tuple[float, ...], shape: tuple[int, ...], values: Mapping[str, Number]
) -> tuple[int, ...] | None:
    """The strides that the buffer declares, where the array has others; those of extents of one mean nothing."""
    wanted = tuple(int(evaluate(stride, values)) for stride in strides_of(buffer) or ())
    same = all(n == 1 or a == b for n, a, b in zip(shape, steps, wanted, strict=True))
    return None if same or 0 in shape else wanted


MOST_CTAS = {"x": 2**31 - 1, "y": 65535, "z": 65535}

# What else than its own name an array of this dtype may be called, and how many elements one of its items holds.
# bytes: 4-bit elements come packed, 6-bit ones in 8-bit containers, both of which NumPy has no name for.
ALSO: Mapping[str, Mapping[str, int]] = {
    "tf32": {"float32": 1},
    "float4_e2m1fn": {"float4_e2m1fn_x2": 2, "uint8": 2, "int8": 2},
    "float6_e2m3fn": {"uint8": 1},
    "float6_e3m2fn": {"uint8": 1},
    "handle": {"int64": 1, "uint64": 1},
}

NO_ARRAYS = ("tf32", "handle")  # dtypes that no library of arrays has


Descriptor: TypeAlias = "ArrayInfo | MapFields | Number"


@dataclass(frozen=True, slots=True)
class Bindings:
    """What a call means. values: scalar parameters and symbolic extents by name. grid: CTAs along x, y, z."""

    values: Mapping[str, Number]
    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel's call takes: its parameters in order, each with the buffer it is matched to, if any."""

    name: str
    params: tuple[Var, ...]
    buffers: Mapping[str, Buffer]  # by the name of the handle parameter
    symbols: tuple[Var, ...]
    assumptions: tuple[tuple[Expr, Span | None], ...]
    grid: tuple[Value, Value, Value]
    written: frozenset[str]  # names of the buffers that the kernel stores to
    dense: frozenset[str]  # names of the buffers that are row major
    maps: tuple[MapOf, ...] = ()
    at: Span | None = field(default=None, compare=False)

    @staticmethod
    def of(kernel: Kernel) -> Signature:
        """The signature of a kernel, as authored or lowered (authored, its buffers have their shapes and layouts)."""
        maps = {tensor_map.name for tensor_map in kernel.maps}
        buffers = {b.data.name: b for b in kernel.buffers if isinstance(b.data, Var) and b.name not in maps}
        body = list(statements(kernel.body))
        return Signature(
            kernel.name,
            kernel.params,
            buffers,
            kernel.symbols,
            tuple((stmt.cond, stmt.at) for stmt in body if isinstance(stmt, Assume)),
            (kernel.launch or launch_of(kernel)).grid,
            frozenset(name for stmt in body for name in _written(stmt)),
            frozenset(buffer.name for buffer in buffers.values() if _is_dense(buffer)),
            kernel.maps,
            kernel.at,
        )

    def key(self, arguments: Sequence[Descriptor]) -> Hashable:
        """Equal for calls that `bind` treats alike: what a caller may remember its answer under."""
        return tuple(
            (a.shape, a.dtype, a.strides, a.alignment, a.device, a.readonly, a.address == 0)
            if isinstance(a, ArrayInfo)
            else (type(a), a)
            for a in arguments
        )

    def bind(self, arguments: Sequence[Descriptor]) -> Bindings:
        """The values of scalars and symbols, and the grid. Raises ArgumentError where an argument does not fit."""
        if len(arguments) != len(self.params):
            raise ArgumentError(
                f"{self.name} takes {len(self.params)} arguments",
                given=f"{len(arguments)}",
                allowed=", ".join(map(self._spelled, self.params)) or "none",
            )
        pairs = [pair for pair in zip(self.params, arguments, strict=True) if not self._is_map(*pair)]
        values = {p.name: self._scalar(p, a) for p, a in pairs if p.name not in self.buffers}
        arrays = [(self.buffers[p.name], self._array(p, a)) for p, a in pairs if p.name in self.buffers]
        shapes = [(buffer, self._logical(buffer, info)) for buffer, info in arrays]
        self._solve(shapes, values)
        self._solve_strides(arrays, shapes, values)
        self._check_symbols(values)
        for buffer, logical in shapes:
            self._check_extents(buffer, logical, values)
        for (buffer, info), (_, shape) in zip(arrays, shapes, strict=True):
            self._check_storage(buffer, info, shape, values)
        self._check_assumptions(values)
        return Bindings(values, self._evaluated_grid(values))

    def _is_map(self, param: Var, value: Descriptor) -> bool:
        """Is the parameter a tensor map? Raises ArgumentError where only one of parameter and argument is."""
        declared = next((tensor_map for tensor_map in self.maps if tensor_map.name == param.name), None)
        wanted = declared is not None
        if wanted != isinstance(value, MapFields):
            raise ArgumentError(
                f"argument {param.name} of {self.name} is {'a' if wanted else 'no'} tensor map",
                given=_given(value),
                allowed="tw.TensorMap(array, box, swizzle)" if wanted else self._spelled(param),
            )
        for tile, mode in declared.tiles if declared is not None else ():
            if isinstance(value, MapFields) and value.swizzle != mode:
                raise ArgumentError(
                    f"argument {param.name} of {self.name} and the layout of {tile} have different swizzles",
                    given=f"swizzle={int(value.swizzle)}",
                    allowed=f"swizzle={mode}, which the layout of {tile} has",
                )
        return wanted

    def _spelled(self, param: Var) -> str:
        buffer = self.buffers.get(param.name)
        if any(tensor_map.name == param.name for tensor_map in self.maps):
            return f"{param.name}: a tensor map"
        return f"{param.name}: {param.dtype}" if buffer is None else f"{buffer.name}: {_shown(buffer)}"

    def _refuse(
        self, buffer: Buffer, what: str, passed: object, allowed: object, hint: str | None = None
    ) -> ArgumentError:
        return ArgumentError(f"argument {buffer.name} of {self.name} {what}", given=passed, allowed=allowed, hint=hint)

    # Scalars

    def _scalar(self, param: Var, value: Descriptor) -> Number:
        """A Python number of the parameter's dtype."""
        kind = param.dtype
        number: Number | None = None
        if isinstance(value, np.generic):  # its own conversions lose what does not fit, such as an imaginary part
            value = value.item()
        if isinstance(value, ArrayInfo):
            number = value.address if kind == "handle" else None
        elif kind.is_float:
            number = _as_float(value)
        elif hasattr(type(value), "__index__"):
            with suppress(Exception):  # foreign code
                number = operator.index(value)  # type: ignore[arg-type]  # mypy: hasattr
        if number is None:
            raise ArgumentError(
                f"argument {param.name} of {self.name} is {'a number' if kind.is_float else 'an integer'}",
                given=_given(value),
                allowed=f"a Python or NumPy {'number' if kind.is_float else 'integer'} ({kind})",
            )
        if not fits(number, kind) or (kind.kind == "bool" and number not in (0, 1)):
            raise ArgumentError(
                f"argument {param.name} of {self.name} does not fit {kind}",
                given=reprlib.repr(number),
                allowed="True or False" if kind.kind == "bool" else range_of(kind),
            )
        return bool(number) if kind.kind == "bool" else number

    # Arrays

    def _array(self, param: Var, value: Descriptor) -> ArrayInfo:
        """The description of an array whose dtype, alignment and writability fit."""
        buffer = self.buffers[param.name]
        if not isinstance(value, ArrayInfo):
            listed = isinstance(value, (list, tuple))
            hint = f"numpy.array(..., {str(buffer.dtype.element)!r})" if listed else None
            raise self._refuse(buffer, "is an array", _given(value), _shown(buffer), hint)
        names = [str(buffer.dtype.element), *ALSO.get(buffer.dtype.element, ())]
        if value.dtype not in names:
            hint = value.converted(next(name for name in names if name not in NO_ARRAYS))
            raise self._refuse(buffer, f"has dtype {buffer.dtype}", value.dtype, " or ".join(names), hint)
        if value.readonly and buffer.name in self.written:
            raise self._refuse(buffer, "is written by the kernel", "a read-only array", "a writable one")
        if value.size and value.address == 0:
            raise self._refuse(buffer, "has no memory", "the address 0", "an array whose elements are stored")
        needed = buffer.align or ARGUMENT_ALIGNMENT
        if value.size and value.alignment < needed:
            raise self._refuse(
                buffer,
                f"must be aligned to {needed} bytes",
                f"an address that is a multiple of {value.alignment}",
                f"a multiple of {needed}",
                f"a copy of the array, or align={value.alignment} in T.match_buffer",
            )
        return value

    def _logical(self, buffer: Buffer, info: ArrayInfo) -> tuple[int, ...] | None:
        """The shape of the array in elements of the buffer; None where it is the storage of another layout."""
        per_item = ALSO.get(buffer.dtype.element, {}).get(info.dtype, 1)
        lanes, shape = buffer.dtype.lanes, info.shape
        if lanes > 1 and len(shape) == len(buffer.shape) + 1 and shape[-1] == lanes:
            shape, lanes = shape[:-1], 1
        if shape and (per_item > 1 or lanes > 1):
            shape = (*shape[:-1], shape[-1] * per_item // lanes)
        if len(shape) == len(buffer.shape):
            return shape
        if buffer.name not in self.dense:
            return None
        raise self._refuse(buffer, f"has {len(buffer.shape)} dimensions", str(info), _shown(buffer))

    def _solve(self, shapes: Sequence[tuple[Buffer, tuple[int, ...] | None]], values: dict[str, Number]) -> None:
        """Symbolic extents from the shapes; then every extent must be what the array has."""
        origins: dict[str, str] = {}  # symbol -> what it was taken from
        for buffer, shape in shapes:
            for axis, extent in enumerate(buffer.shape):
                if shape is None or not isinstance(extent, Var):
                    continue
                place = f"{buffer.name}.shape[{axis}]"
                if extent.name not in values:
                    values[extent.name], origins[extent.name] = shape[axis], place
                elif values[extent.name] != shape[axis]:
                    other = origins.get(extent.name, f"the argument {extent.name}")
                    raise ArgumentError(
                        f"arguments of {self.name} disagree on {extent.name}",
                        given=f"{values[extent.name]} from {other}, {shape[axis]} from {place}",
                        allowed=f"one value: {_shown(buffer)}",
                    )

    def _solve_strides(
        self,
        arrays: Sequence[tuple[Buffer, ArrayInfo]],
        shapes: Sequence[tuple[Buffer, object]],
        values: dict[str, Number],
    ) -> None:
        """The values of symbolic strides, from those of the arrays. `_check_storage` finds arrays that disagree."""
        asked = [pair for pair, (_, shape) in zip(arrays, shapes, strict=True) if shape and self._is_strided(pair[0])]
        strides = [(buffer, entry) for buffer, info in asked for entry in symbolic_strides(buffer, info)]
        for buffer, (_, name, axis, step) in sorted(strides, key=lambda entry: entry[1][0]):
            if name not in values and not (step >= 0 and step == int(step)):
                text = f"{buffer.name}.strides[{axis}] = {step}"
                raise self._refuse(buffer, f"gives no {name}", text, "a stride of 0 or more whole elements")
            values.setdefault(name, int(step))

    def _is_strided(self, buffer: Buffer) -> bool:
        """Does the buffer declare strides other than the row-major ones?"""
        return buffer.name not in self.dense and strides_of(buffer) is not None

    def _check_symbols(self, values: Mapping[str, Number]) -> None:
        """Raises ArgumentError unless every symbol has a value that its dtype holds."""
        for symbol in self.symbols:
            if symbol.name not in values:
                raise ArgumentError(
                    f"the value of {symbol.name} does not follow from the arguments of {self.name}",
                    given=", ".join(f"{b.name}: {_shown(b)}" for b in self.buffers.values()),
                    allowed=f"an extent or a stride that is {symbol.name} alone",
                    hint=f"make {symbol.name} a parameter",
                )
            if values[symbol.name] > limits(symbol.dtype).high:
                raise ArgumentError(
                    f"the value of {symbol.name} does not fit {symbol.dtype}",
                    given=f"{values[symbol.name]}",
                    allowed=f"0 to {limits(symbol.dtype).high}",
                    hint=f"{symbol.name} = T.int64()" if symbol.dtype.bits < 64 else None,
                )

    def _check_extents(self, buffer: Buffer, shape: tuple[int, ...] | None, values: Mapping[str, Number]) -> None:
        if shape is None or buffer.name not in self.dense:
            return
        wanted = self._extents(buffer, values)
        if wanted != shape:
            where = ", ".join(f"{name} = {values[name]}" for name in sorted(names_in(buffer.shape)))
            allowed = f"{wanted}" + (f": {_shown(buffer)} with {where}" if where else "")
            raise self._refuse(buffer, "has another shape", str(shape), allowed)

    @staticmethod
    def _extents(buffer: Buffer, values: Mapping[str, Number]) -> tuple[int, ...]:
        return tuple(int(evaluate(extent, values)) for extent in buffer.shape)

    def _check_storage(
        self, buffer: Buffer, info: ArrayInfo, shape: tuple[int, ...] | None, values: Mapping[str, Number]
    ) -> None:
        """The array lies in memory as the kernel will address it."""
        steps = steps_of(buffer, info) if self._is_strided(buffer) else None
        if steps is not None and shape == self._extents(buffer, values):
            return self._check_strides(buffer, steps, shape, values)
        if not info.is_contiguous:
            hint = ".contiguous() on the tensor" if info.is_tensor else "numpy.ascontiguousarray(array)"
            back = f", copied back after the call; or strides= where {buffer.name} is declared"
            hint, strides = hint + back * (buffer.name in self.written), f"strides {info.strides}"
            raise self._refuse(buffer, "must be C-contiguous", strides, "row major without gaps", hint)
        if buffer.name not in self.dense:
            per_item = ALSO.get(buffer.dtype.element, {}).get(info.dtype, 1)
            self._check_size(buffer, prod(shape) if shape else info.size * per_item // buffer.dtype.lanes, values)
        return None

    def _check_strides(
        self, buffer: Buffer, steps: tuple[float, ...], shape: tuple[int, ...], values: Mapping[str, Number]
    ) -> None:
        """An array of the buffer's shape has the strides that it declares."""
        wanted = differing(buffer, steps, shape, values)
        if wanted is not None:
            self._check_size(buffer, prod(shape), values, f", strides {steps}", f", or strides {wanted}")
            raise self._refuse(buffer, "has other strides", f"strides {steps}", f"strides {wanted}: {buffer.layout}")

    def _check_size(
        self, buffer: Buffer, has: int, values: Mapping[str, Number], how: str = "", otherwise: str = ""
    ) -> None:
        needs = int(evaluate(buffer.layout.cosize("m"), values)) if buffer.layout is not None else 0
        needs += int(evaluate(buffer.elem_offset, values))
        if has < needs:
            what = f"is too small for its layout {buffer.layout}"
            raise self._refuse(buffer, what, f"{has} elements{how}", f"{needs} elements of storage{otherwise}")

    # The rest of the kernel

    def _check_assumptions(self, values: Mapping[str, Number]) -> None:
        for cond, at in self.assumptions:
            if not _holds(cond, values):
                raise ArgumentError(
                    f"an assumption of {self.name} does not hold: {cond}",
                    given=", ".join(f"{name} = {values[name]}" for name in sorted(names_in(cond))),
                    allowed=str(cond),
                    at=at,
                )

    def _evaluated_grid(self, values: Mapping[str, Number]) -> tuple[int, int, int]:
        grid = []
        for (axis, most), extent in zip(MOST_CTAS.items(), self.grid, strict=True):
            try:
                count = int(evaluate(extent, values))
            except KernelError as error:
                raise ArgumentError(
                    f"the grid of {self.name} does not follow from its arguments", given=error.what
                ) from None
            if not 0 <= count <= most:
                raise ArgumentError(
                    f"the grid of {self.name} has {count} CTAs along {axis}",
                    given=f"{extent} = {count}",
                    allowed=f"0 to {most}",
                )
            grid.append(count)
        return grid[0], grid[1], grid[2]


def _holds(cond: Expr, values: Mapping[str, Number]) -> bool:
    """Is an assumption true? One that divides by zero is not."""
    try:
        return bool(evaluate(cond, values))
    except KernelError:
        return False


def _as_float(value: Descriptor) -> Number | None:
    """The value as a float, or None where it is no number; an integer beyond every float stays one."""
    if isinstance(value, (ArrayInfo, MapFields)):
        return None
    try:
        return float(value) if hasattr(type(value), "__float__") else None
    except OverflowError:
        return value


def _given(value: Descriptor) -> str:
    """What was passed, in a line."""
    return str(value) if isinstance(value, (ArrayInfo, MapFields)) else f"{type(value).__name__} {reprlib.repr(value)}"


def _shown(buffer: Buffer) -> str:
    return f"{buffer.dtype} of shape {listed(buffer.shape)}"


def _is_dense(buffer: Buffer) -> bool:
    """Is element i of the array element i of the storage?"""
    if const_value(buffer.elem_offset) != 0:
        return False
    if buffer.layout is None or buffer.layout == row_major(buffer.shape):
        return True
    return buffer.layout.is_trivial(RangeFacts())


def _written(stmt: Stmt) -> Iterator[str]:
    """The names of the buffers whose storage a statement stores to."""
    if isinstance(stmt, Store):
        yield from _storage(stmt.place.buffer)
    elif isinstance(stmt, TileCallStmt):
        for region in stmt.written:
            yield from _storage(region.buffer)


def _storage(buffer: Buffer) -> Iterator[str]:
    yield buffer.name
    for node in walk(buffer.data):
        if isinstance(node, AddressOf):
            yield node.buffer.name
