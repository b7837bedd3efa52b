"""Tensor maps in a kernel: those that are parameters, and those that every call makes of its array arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import HANDLE
from tilewright.errors import KernelError
from tilewright.ir import Buffer, Value, Var, as_index, const_value
from tilewright.ir.arguments import strides_of
from tilewright.ir.buffer import map_buffer
from tilewright.ir.tensor_map import Im2col, MapOf, element_of
from tilewright.lang.builder import KernelBuilder, current
from tilewright.records import replace


def bind_map(builder: KernelBuilder, pointer: Var, made: MapOf) -> Buffer:
    """The 128 bytes of a tensor map that the kernel gets."""
    buffer = replace(map_buffer(made.name, flat=builder.stage == "lowered"), data=pointer)
    builder.maps.append(made)
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
    steps: every how many elements of a dimension a box has one. im2col: the lower and the upper corner of the pixels,
    (W, H, D) each, perhaps with "w" or "w128" for a walk along W alone; the box is then (channels, pixels).
    """
    builder = current("T.tensor_map")
    if not isinstance(buffer, Buffer) or not any(buffer is each for each in builder.buffers):
        raise KernelError("T.tensor_map takes an array that is an argument", given=str(buffer), allowed="a T.Buffer")
    extents_, own = _strided(buffer) if dims is None or strides is None else ((), ())
    made = MapOf(
        builder.named("map"),
        buffer.name,
        str(dtype or element_of(str(buffer.dtype), buffer.dtype.bits)),
        tuple(map(number, extents_ if dims is None else dims)),
        tuple(map(number, own if strides is None else strides)),
        tuple(int(const_value(extent) or 0) for extent in box),
        int(swizzle),
        oob,
        number(offset),
        tuple(map(int, steps)),
        None if im2col is None else _walk(*im2col),
    )
    return bind_map(builder, Var(made.name, HANDLE), made)


def _walk(lower: Sequence[int], upper: Sequence[int], wide: str = "") -> Im2col:
    return Im2col(tuple(map(int, lower)), tuple(map(int, upper)), wide)


def _strided(buffer: Buffer) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Extents, and strides in bytes but the innermost, from the innermost dimension on."""
    layout = buffer.layout
    steps = strides_of(buffer) if layout is not None else None
    if steps is None or const_value(steps[-1]) != 1:
        raise KernelError(
            f"{buffer.name} has no tensor map of its own",
            given=str(layout),
            allowed="one stride for each dimension, 1 for the innermost",
            hint="T.tensor_map(..., dims=(...), strides=(...))",
        )
    return buffer.shape[::-1], tuple(step * (buffer.dtype.bits // 8) for step in steps[-2::-1])


def number(value: Value) -> Value:
    """A number where it is known."""
    known = const_value(value)
    return as_index(value) if known is None else int(known)


EXPORTS: dict[str, object] = {"tensor_map": tensor_map}
"""The names of ``T`` that this file defines, with what they stand for."""
