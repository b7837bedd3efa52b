"""The arguments of a loaded kernel: arrays with their exact bounds, numbers, structures by their bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright import host
from tilewright.dtypes import HANDLE, DType, dtype
from tilewright.errors import ArgumentError, TilewrightError, described
from tilewright.ir import Buffer, Var
from tilewright.ir.tensor_map import MAP_BYTES, MapFields
from tilewright.ptx.bits import number_dtype
from tilewright.ptx.names import identifier, nbytes
from tilewright.ptx.tree import Function, Variable

__all__ = ["Given", "given"]

ALIGNMENT = 256  # bytes: of what cudaMalloc gives


@dataclass(frozen=True)
class Given:
    """The arguments of one call. names: of the parameters, as reports say them. arrays, numbers, data: by parameter.

    maps: of the parameters that are tensor maps; ``arrays`` has what they map.
    """

    names: Mapping[str, str]
    arrays: Mapping[str, Any]
    kinds: Mapping[str, DType]
    numbers: Mapping[str, int | float]
    data: Mapping[str, bytes]
    maps: Mapping[str, MapFields]

    def buffers(self) -> dict[str, Buffer]:
        """The buffers that parameters point to."""
        return {
            param: Buffer(self.names[param], kind, (_elements(self.arrays[param]),), "global", None,
                          data=Var(identifier(self.names[param], "_ptr"), HANDLE), align=_alignment(self.arrays[param]))
            for param, kind in self.kinds.items()
        }  # fmt: skip

    def with_copies(self) -> tuple[Given, dict[str, Any]]:
        """These arguments with copies of arrays that are read-only; and those arrays, by parameter."""
        passed = {param: array for param, array in self.arrays.items() if host.array_info(array).readonly}
        return replace(self, arrays={**self.arrays, **{param: each.copy() for param, each in passed.items()}}), passed

    def check_unchanged(self, passed: Mapping[str, Any]) -> None:
        """Raise ArgumentError where the kernel has written to the copy of a read-only array."""
        for param, array in passed.items():
            if self.arrays[param].tobytes() != array.tobytes():
                name = self.names[param]
                raise ArgumentError(f"argument {name} is written", given="an array that is read-only",
                                    allowed="an array that may be written", hint=f"{name}.copy()")  # fmt: skip

    @property
    def key(self) -> tuple[object, ...]:
        """The key of the lowered kernel: the facts of the arguments that it depends on."""
        arrays = ((param, str(kind), _elements(self.arrays[param])) for param, kind in self.kinds.items())
        return (*arrays, *sorted(self.numbers), *sorted(self.data))


def _elements(array: Any) -> int:
    info = host.array_info(array)
    span = 1 + sum((extent - 1) * int(step) for extent, step in zip(info.shape, info.steps, strict=True))
    return span if all(info.shape) else 0


def _alignment(array: Any) -> int:
    return ALIGNMENT


def given(
    entry: Function, names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any], elements: Sequence[str] = ()
) -> Given:
    """The arguments, matched with the parameters. names: as the author has them. elements: the dtypes that they point
    to, if known.

    Raises ArgumentError where one is missing, or is no value of its parameter.
    """
    pointees = dict(zip((param.name for param in entry.params), elements, strict=False))
    shown = dict(zip((param.name for param in entry.params), names, strict=True))
    values = _by_parameter(entry, shown, args, named)
    arrays, kinds, numbers, data, maps = {}, {}, {}, {}, {}
    for param in entry.params:
        value, name = values[param.name], shown[param.name]
        if isinstance(value, host.TensorMap):
            if nbytes(param) != MAP_BYTES:
                raise ArgumentError(f"argument {name} is no tensor map", given=described(value), allowed=_kind(param))
            arrays[param.name], maps[param.name] = value.array, value.fields
            kinds[param.name] = dtype(host.array_info(value.array).dtype)
        elif param.extents:
            data[param.name] = _bytes(value, nbytes(param), name)
        elif host.is_array(value):
            _check_strides(value, name)
            kinds[param.name], arrays[param.name] = _element(value, param, name), value
            _check_element(name, kinds[param.name], pointees.get(param.name, ""))
        else:
            numbers[param.name] = _number(value, param, name)
    return Given(shown, arrays, kinds, numbers, data, maps)


def _by_parameter(
    entry: Function, shown: Mapping[str, str], args: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    known = [param.name for param in entry.params]
    allowed = ", ".join(f"{shown[param.name]}: {_kind(param)}" for param in entry.params) or "none"
    values = dict(zip(known, args, strict=False))
    for param in known:
        for name in dict.fromkeys((param, shown[param])):
            if name in named:
                values[param] = named[name]
    unknown = set(named) - set(known) - set(shown.values())
    if len(args) > len(known) or unknown or len(values) < len(known):
        missing = [shown[param] for param in known if param not in values]
        text = f"no {', '.join(missing)}" if missing else ", ".join(sorted(unknown)) or f"{len(args)} arguments"
        raise ArgumentError(f"{entry.name} takes {len(known)} arguments", given=text, allowed=allowed)
    return values


def _kind(param: Variable) -> str:
    return f"{nbytes(param)} bytes" if param.extents else str(number_dtype(param.type))


def _element(value: Any, param: Variable, name: str) -> DType:
    """The dtype of an array's elements; bytes of one that has no name here."""
    if param.type not in ("u64", "b64", "s64"):
        raise ArgumentError(f"argument {name} is a number", given=described(value), allowed=_kind(param))
    try:
        kind = dtype(host.array_info(value).dtype)
    except (TilewrightError, ValueError):
        raise ArgumentError(f"argument {name} has elements of no known type", given=described(value)) from None
    return kind


def _check_strides(value: Any, name: str) -> None:
    info = host.array_info(value)
    if any(step < 0 for extent, step in zip(info.shape, info.steps, strict=True) if extent > 1):
        raise ArgumentError(f"argument {name} begins at its last element", given=f"strides of {info.steps} elements",
                            allowed="strides of 0 or more", hint=f"{name}.copy()")  # fmt: skip


def _check_element(name: str, kind: DType, wanted: str) -> None:
    """An array has the elements that the parameter points to, signed or not; arrays of bytes may hold anything."""
    if not wanted or str(kind) == wanted or kind.bits == 8:
        return
    asked = dtype(wanted)
    if kind.bits != asked.bits or not (kind.is_integer and asked.is_integer):
        raise ArgumentError(f"argument {name} points to {wanted}", given=f"an array of {kind}", allowed=wanted,
                            hint=f"{name}.astype({wanted!r})")  # fmt: skip


def _bytes(value: Any, size: int, name: str) -> bytes:
    """The bytes of a structure."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        found = bytes(value)
    elif isinstance(value, np.generic) or host.is_array(value):
        found = np.asarray(value).tobytes()
    else:
        try:
            found = bytes(memoryview(value))  # a structure of ctypes
        except TypeError:
            found = b""
    if len(found) != size:
        more = ", a tilewright.TensorMap" if size == MAP_BYTES else ""
        allowed = f"{size} bytes: bytes, a NumPy record, a ctypes structure{more}"
        raise ArgumentError(f"argument {name} is a structure", given=described(value), allowed=allowed)
    return found


def _number(value: Any, param: Variable, name: str) -> int | float:
    """A number as the parameter has it; None is a null pointer."""
    kind = number_dtype(param.type)
    if value is None and kind.bits == 64:
        return 0
    if isinstance(value, (bool, np.bool_)):
        value = int(value)
    if kind.is_float and isinstance(value, (int, float, np.number)):
        return float(value)
    if isinstance(value, (float, np.floating)) and param.type[0] == "b":
        code = {16: "<e", 32: "<f", 64: "<d"}[kind.bits]
        return int.from_bytes(struct.pack(code, float(value)), "little")
    if not isinstance(value, (int, np.integer)):
        raise ArgumentError(f"argument {name} is a number", given=described(value), allowed=_kind(param))
    low, high = -(1 << kind.bits - 1), 1 << kind.bits
    if not low <= int(value) < high:
        raise ArgumentError(f"argument {name} has {kind.bits} bits", given=f"{value}", allowed=f"{low} to {high - 1}")
    bits = int(value) % high
    return bits - high if kind.is_signed and bits >= high // 2 else bits
