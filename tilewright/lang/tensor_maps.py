"""Tensor maps in a kernel: those that are parameters, and those that every call makes of its array arguments, in our
words and as TIRx's host code writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from tilewright.dtypes import HANDLE, dtype
from tilewright.errors import KernelError
from tilewright.ir import AddressOf, Buffer, Value, Var, as_index, const_value
from tilewright.ir.arguments import strides_of
from tilewright.ir.buffer import map_buffer
from tilewright.ir.tensor_map import ELEMENTS, FILLS, Im2col, MapOf, element_of
from tilewright.lang.builder import KernelBuilder, current
from tilewright.records import replace


def bind_map(builder: KernelBuilder, pointer: Var, tensor_map: MapOf) -> Buffer:
    """The 128 bytes of a tensor map that the kernel gets."""
    buffer = replace(map_buffer(tensor_map.name, flat=builder.stage == "lowered"), data=pointer)
    builder.maps.append(tensor_map)
    builder.buffers.append(builder.register(buffer))
    return buffer


def tensor_map(
    buffer: Buffer,
    *,
    box: tuple[int, ...],
    swizzle: int = 0,
    dtype: str | None = None,
    dims: tuple[Value, ...] | None = None,
    strides: tuple[Value, ...] | None = None,
    oob: str = "zero",
    offset: Value = 0,
    steps: tuple[int, ...] = (),
    im2col: tuple[Any, ...] | None = None,
) -> Buffer:
    """A tensor map of an argument, which every call makes: ``T.ptx.cp_async.bulk.tensor`` takes it.

    All is counted from the innermost dimension, as the instructions count. box: elements. strides: bytes, of the
    dimensions but the innermost; dims and strides are the argument's own, if left out. offset: elements to its start.
    dtype: of the elements, where it is not the argument's: "16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B" of packed
    ones. steps: every how many elements of a dimension a box has one. im2col: the lower and the upper corner of the
    pixels, (W, H, D) each, perhaps with "w" or "w128" for a walk along W alone; the box is then (channels, pixels).
    """
    builder = current("T.tensor_map")
    if not isinstance(buffer, Buffer) or not any(buffer is array for array in builder.buffers):
        raise KernelError("T.tensor_map takes an array that is an argument", given=str(buffer), allowed="a T.Buffer")
    if dtype is None and buffer.dtype.bits < 8:
        raise KernelError(
            "a tensor map has no elements of 4 bits by themselves", given=f"{buffer.name} of {buffer.dtype}",
            allowed='dtype="uint8" for its bytes, "16U4_ALIGN8B" or "16U4_ALIGN16B"',
        )  # fmt: skip
    kind = str(dtype or element_of(str(buffer.dtype), buffer.dtype.bits))
    extents_, own_strides = _strided(buffer, kind) if dims is None or strides is None else ((), ())
    spec = MapOf(
        builder.named("map"),
        buffer.name,
        kind,
        tuple(map(number, extents_ if dims is None else dims)),
        tuple(map(number, own_strides if strides is None else strides)),
        tuple(int(const_value(extent) or 0) for extent in box),
        int(swizzle),
        oob,
        number(offset),
        tuple(map(int, steps)),
        None if im2col is None else _walk(*im2col),
    )
    return bind_map(builder, Var(spec.name, HANDLE), spec)


def _walk(lower: Sequence[int], upper: Sequence[int], wide: str = "") -> Im2col:
    return Im2col(tuple(map(int, lower)), tuple(map(int, upper)), wide)


def _strided(buffer: Buffer, kind: str) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Extents in elements of that kind, and strides in bytes but the innermost, from the innermost dimension on."""
    layout = buffer.layout
    steps = strides_of(buffer) if layout is not None else None
    if steps is None or const_value(steps[-1]) != 1:
        raise KernelError(
            f"{buffer.name} has no tensor map of its own",
            given=str(layout),
            allowed="one stride for each dimension, 1 for the innermost",
            hint="T.tensor_map(..., dims=(...), strides=(...))",
        )
    bits, of = buffer.dtype.bits, ELEMENTS.get(kind, ELEMENTS["uint8"])
    of_buffer = 1 if of.group == 1 and bits >= 8 else Fraction(bits * of.group, 8 * of.nbytes)
    inner = buffer.shape[-1] * of_buffer.numerator // of_buffer.denominator
    return (inner, *buffer.shape[-2::-1]), tuple(step * bits // 8 for step in steps[-2::-1])


def number(value: Value) -> Value:
    """A number where it is known."""
    constant = const_value(value)
    return as_index(value) if constant is None else int(constant)


# The same as TIRx's host code writes it: room for a map, and a call of the driver's function with the fields.


ENCODE = "runtime.cuTensorMapEncodeTiled"
ROOM = "tensormap"


class OpenMap:
    """Room for a tensor map, which `call_packed` fills; mutable. buffer: its 128 bytes, once it is filled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.buffer: Buffer | None = None

    def __str__(self) -> str:
        return self.name

    def filled(self) -> Buffer:
        """Its buffer. Raises KernelError where it has none yet."""
        if self.buffer is None:
            raise KernelError(f"{self.name} is no tensor map yet", given="T.tvm_stack_alloca",
                              allowed=f'T.call_packed("{ENCODE}", {self.name}, ...) before it')  # fmt: skip
        return self.buffer


def tvm_stack_alloca(kind: str, count: int = 1) -> OpenMap:
    """Room for a tensor map: ``m = T.tvm_stack_alloca("tensormap", 1)``, which `T.call_packed` then fills."""
    builder = current("T.tvm_stack_alloca")
    if kind != ROOM or const_value(count) != 1:
        raise KernelError("T.tvm_stack_alloca has room for tensor maps", given=f'"{kind}", {count}',
                          allowed='"tensormap", 1')  # fmt: skip
    return OpenMap(builder.named("map"))


def call_packed(name: str, *fields: object) -> None:
    """Makes a tensor map of an argument: ``T.call_packed("runtime.cuTensorMapEncodeTiled", m, dtype, rank, A.data,
    *sizes, *strides, *box, *element_strides, interleave, swizzle, l2, oob)``, the innermost dimension first, its stride
    left out, strides in bytes.
    """
    builder = current("T.call_packed")
    if name != ENCODE:
        raise KernelError("T.call_packed calls the host", given=repr(name), allowed=f'"{ENCODE}"')
    room, kind, rank, data, *rest = (*fields, *[None] * 4)[: max(4, len(fields))]
    count = const_value(rank)
    if not isinstance(room, OpenMap) or not isinstance(count, int) or not 0 <= len(rest) - 4 * count - 3 <= 1:
        raise KernelError(f'T.call_packed("{ENCODE}") takes the fields of a map', given=f"{len(fields)} values",
                          allowed="m, dtype, rank, A.data, sizes, strides, box, element_strides, interleave, swizzle, "
                          "l2, oob; m of T.tvm_stack_alloca")  # fmt: skip
    sizes, strides, box, steps, modes = _parted(rest, count)
    interleave, swizzle, _, oob, *_ = map(const_value, modes)
    if interleave != 0:
        raise KernelError("a tensor map has no interleave here", given=f"{interleave}", allowed="0")
    element = dtype(str(kind))
    if element.bits < 8:
        raise KernelError(f"a tensor map of {element}, whose elements share bytes", given=str(kind),
                          allowed='"uint8", with sizes and box in bytes')  # fmt: skip
    array = next((candidate for candidate in builder.buffers if _is_data_of(candidate, data)), None)
    if array is None:
        raise KernelError("a tensor map is of an argument", given=f"{data}", allowed="A.data of a T.match_buffer")
    spec = MapOf(
        room.name,
        array.name,
        element_of(str(element), element.bits),
        tuple(map(number, sizes)),
        tuple(map(number, strides)),
        tuple(map(_constant, box)),
        _constant(swizzle),
        FILLS[_constant(oob)],
        0,
        tuple(map(_constant, steps)),
    )
    room.buffer = bind_map(builder, Var(spec.name, HANDLE), spec)


def _parted(values: Sequence[Any], rank: int) -> Iterator[list[Any]]:
    """The values of each list of a map's fields, and what is left."""
    rest = list(values)
    for count in (rank, rank - 1, rank, rank):
        yield rest[:count]
        rest = rest[count:]
    yield rest


def _is_data_of(buffer: Buffer, data: object) -> bool:
    pointed = data.buffer if isinstance(data, AddressOf) else data
    return pointed is buffer or (isinstance(pointed, Var) and pointed is buffer.data)


def _constant(value: Any) -> int:
    number = const_value(value)
    if not isinstance(number, int):
        raise KernelError("this field of a tensor map is a number", given=f"{value}", allowed="a Python int")
    return number


EXPORTS: dict[str, object] = {
    "tensor_map": tensor_map,
    "tvm_stack_alloca": tvm_stack_alloca,
    "call_packed": call_packed,
}
"""The names of ``T`` that this file defines, with what they stand for."""
