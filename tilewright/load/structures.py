"""Structures and tables of pointers as arguments: their bytes, and the arrays that pointers in them lead to.

Fields lie as C lays them out: each at a multiple of its own alignment, the whole a multiple of the largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright import host
from tilewright.errors import ArgumentError, described
from tilewright.load.declared import POINTER, Field
from tilewright.terms import Term, told

__all__ = ["Packed", "is_structure", "packed"]

MAP_ALIGN = 64  # bytes
Pointers = tuple[tuple[int, str, Any], ...]


@dataclass(frozen=True, slots=True)
class Packed:
    """Bytes with their alignment. pointers: where one is, the name of what it leads to, and that array."""

    data: bytes
    align: int
    pointers: Pointers = ()


def is_structure(value: Any) -> bool:
    """Is a value given field by field?"""
    return isinstance(value, (tuple, list, Mapping))


def packed(value: Any, name: str, fields: Sequence[Field] = (), align: int = 1, *, pointer_bytes: int = 8) -> Packed:
    """A structure. value: its fields in order, or by name; arrays stand for pointers. fields: as they are declared;
    where that is not known, numbers are NumPy's. align: bytes that it asks for.

    Raises ArgumentError where a value is none of its field.
    """
    data, align, pointers = b"", max(1, align), list[tuple[int, str, Any]]()
    for field, one in _matched(value, name, fields):
        piece = _piece(one, f"{name}{'' if field.name[:1] == '[' else '.'}{field.name}", field, pointer_bytes)
        piece = replace(piece, align=max(piece.align, field.align))
        data += bytes(-len(data) % piece.align)
        pointers += [(len(data) + at, of, array) for at, of, array in piece.pointers]
        data, align = data + piece.data, max(align, piece.align)
    return Packed(data + bytes(-len(data) % align), align, tuple(pointers))


def _matched(value: Any, name: str, fields: Sequence[Field]) -> Iterator[tuple[Field, Any]]:
    names = [field.name for field in fields]
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise ArgumentError(f"argument {name} has other fields", given=", ".join(map(str, value)),
                                allowed=", ".join(names) or "its fields in order, in a tuple")  # fmt: skip
        value = [value[each] for each in names]
    if fields and len(value) != len(fields):
        raise ArgumentError(f"argument {name} has {len(fields)} fields", given=f"{len(value)}",
                            allowed=", ".join(names))  # fmt: skip
    return zip(fields or [Field(str(k), "") for k in range(len(value))], value, strict=True)


def _piece(value: Any, name: str, field: Field, pointer_bytes: int) -> Packed:
    if field.count:
        return _several(value, name, field, pointer_bytes)
    if isinstance(value, host.TensorMap):  # which begins with the address of its array
        return Packed(value.fields.at(0).encode(), MAP_ALIGN, ((0, name, value.array),))
    if value is None or (field.kind in ("", POINTER) and host.is_array(value)):
        return Packed(bytes(pointer_bytes), pointer_bytes, ((0, name, value),) if value is not None else ())
    if is_structure(value):
        return packed(value, name, field.inner, field.whole, pointer_bytes=pointer_bytes)
    if (
        not isinstance(value, (int, float, np.generic))
        or field.kind == POINTER
        or not (field.kind or isinstance(value, np.generic))
    ):
        fields = f"({', '.join(each.name for each in field.inner)})"
        unknown = fields if field.inner else told("{}", Term("typed number"))
        allowed = {POINTER: "an array or None", "": unknown}.get(field.kind, field.kind)
        raise ArgumentError(f"argument {name} is no value of its field", given=described(value), allowed=allowed)
    number = np.asarray(value, field.kind) if field.kind else np.asarray(value)
    return Packed(number.tobytes(), number.itemsize)


def _several(value: Any, name: str, field: Field, pointer_bytes: int) -> Packed:
    """A field that is an array: so many of its kind."""
    if len(value) != field.count:
        raise ArgumentError(f"argument {name} has {field.count} elements", given=f"{len(value)}")
    each = (Field(f"[{k}]", field.kind, inner=field.inner, whole=field.whole) for k in range(field.count))
    return packed(tuple(value), name, [*each], pointer_bytes=pointer_bytes)
