"""The arguments of a loaded kernel: arrays with their exact bounds, numbers, structures by their bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import host
from tilewright.dtypes import HANDLE, DType, dtype
from tilewright.errors import ArgumentError, TilewrightError, choices, described
from tilewright.ir import Buffer, Var
from tilewright.ir.tensor_map import MAP_BYTES, MapFields
from tilewright.load.declared import POINTER, Field, Parameter, number_name
from tilewright.load.tensors import as_fields
from tilewright.ptx.names import identifier, nbytes, number_dtype
from tilewright.ptx.tree import Variable
from tilewright.terms import Term, told

# Structures and tables of pointers as arguments: their bytes, and the arrays that pointers in them lead to.
#
# Fields lie as C lays them out: each at a multiple of its own alignment, the whole a multiple of the largest.


MAP_ALIGN = 64  # bytes
Pointers = tuple[tuple[int, str, Any], ...]


@dataclass(frozen=True, slots=True)
class Packed:
    """Bytes with their alignment. pointers: where one is, the name of what it leads to, and that array."""

    data: bytes
    align: int
    pointers: Pointers = ()


class WordStructure(dict[str, Any]):
    """A structure by its words of eight bytes, whatever its fields are: numbers, and arrays for their addresses."""


def is_structure(value: Any, fields: Sequence[Field] = ()) -> bool:
    """Is a value given field by field? That of an only field stands for the structure, as of a ``__half``."""
    return isinstance(value, (tuple, list, Mapping)) or (len(fields) == 1 and isinstance(value, (int, float)))


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
    value = (value,) if isinstance(value, (int, float)) else value
    if isinstance(value, Mapping) and not fields:
        fields, value = [Field(name, "") for name in value], [*value.values()]
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise ArgumentError(f"argument {name} has other fields", given=", ".join(map(str, value)),
                                allowed=", ".join(names) or "its fields in order, in a tuple")  # fmt: skip
        value = [value[each] for each in names]
    if names and all(name[:1] == "[" for name in names):  # an array in one
        value = (*value, *map(_zero, fields[len(value) :]))
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
    if is_structure(value, field.inner):
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
    try:
        number = np.asarray(value, dtype(field.kind).numpy if field.kind else None)
    except OverflowError:
        raise ArgumentError(f"argument {name} is no value of its field", given=f"{value}", allowed=field.kind) from None
    return Packed(number.tobytes(), number.itemsize)


def _several(value: Any, name: str, field: Field, pointer_bytes: int) -> Packed:
    """A field that is an array: so many of its kind; where fewer are said, zeros, as in C."""
    if len(value) > field.count:
        raise ArgumentError(f"argument {name} has {field.count} elements", given=f"{len(value)}")
    fields = [Field(f"[{k}]", field.kind, inner=field.inner, whole=field.whole) for k in range(field.count)]
    return packed((*value, *map(_zero, fields[len(value) :])), name, fields, pointer_bytes=pointer_bytes)


def _zero(field: Field) -> Any:
    """The value of a field of which nothing is said."""
    if field.count:
        return ()
    return None if field.kind == POINTER else tuple(map(_zero, field.inner)) if field.inner else 0


ALIGNMENT = 256  # bytes: of what cudaMalloc gives


@dataclass(frozen=True)
class Given:
    """The arguments of one call. names: of the parameters, as reports say them. arrays, numbers, data: by parameter.

    maps: of the parameters that are tensor maps; ``arrays`` has what they map. pointers: of structures and of tables of
    pointers: where each is, and the name of what it leads to, which is among ``arrays``.
    """

    names: Mapping[str, str]
    arrays: Mapping[str, Any]
    kinds: Mapping[str, DType]
    numbers: Mapping[str, int | float]
    data: Mapping[str, bytes]
    maps: Mapping[str, MapFields]
    pointers: Mapping[str, Sequence[tuple[int, str]]]

    def buffers(self) -> dict[str, Buffer]:
        """The buffers that parameters point to."""
        return {
            param: Buffer(self.names[param], kind, (host.array_info(self.arrays[param]).span,), "global", None,
                          data=Var(identifier(self.names[param], "_ptr"), HANDLE), align=ALIGNMENT)
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
        arrays = ((param, str(kind), host.array_info(self.arrays[param]).span) for param, kind in self.kinds.items())
        return (*arrays, *sorted(self.numbers), *sorted(self.data))


def given(
    kernel: str, params: Sequence[Variable], written: Sequence[Parameter], args: Sequence[Any],
    named: Mapping[str, Any], settings: Sequence[str] = (), address_bits: int = 64,
) -> Given:  # fmt: skip
    """The arguments held against the parameters. written: as the author has them. settings: what else has a name.
    address_bits: of a pointer. Raises ArgumentError where one is missing, or is no value of its parameter.
    """
    by_name = dict(zip((param.name for param in params), written, strict=True))
    shown = {name: each.name for name, each in by_name.items()}
    kind_of = {param.name: by_name[param.name].type or _kind(param) for param in params}
    ordered = in_order(kernel, params, written, args, named, settings)
    values = dict(zip(kind_of, ordered, strict=True))
    arrays, pointers = dict[str, Any](), dict[str, list[tuple[int, str]]]()
    kinds, numbers, data, maps = {}, {}, {}, {}
    for param in params:
        name, value = shown[param.name], values[param.name]
        value = _in_memory(value, param, name, number_name(by_name[param.name].type)) if param.extents else value
        fields = by_name[param.name].fields if param.extents else ()
        if is_structure(value, fields) and (param.extents or _may_be_pointer(param, address_bits)):
            value, pointers[param.name] = _opened(value, param, by_name[param.name], arrays, address_bits)
        if isinstance(value, host.DESCRIBED) and not param.extents and _may_be_pointer(param, address_bits):
            arrays[f"{name}.array"], pointers[param.name] = value.array, [(0, f"{name}.array")]
            value = np.frombuffer(bytearray(value.fields.at(0).encode()), np.uint8)  # which lies in global memory
        if isinstance(value, np.ndarray) and value.dtype.names:
            value = _records(value, name, by_name[param.name]) if not param.extents else value
        if isinstance(value, host.TensorMap):
            if nbytes(param) != MAP_BYTES:
                raise ArgumentError(
                    f"argument {name} is no tensor map", given=described(value), allowed=kind_of[param.name]
                )
            arrays[param.name], maps[param.name] = value.array, value.fields
            kinds[param.name] = dtype(host.array_info(value.array).dtype)
        elif param.extents:
            data[param.name] = _bytes(value, nbytes(param), name)
        elif host.is_array(value, f"argument {name}"):
            _check_strides(value, name)
            element = _element(value, param, name, kind_of[param.name], address_bits)
            kinds[param.name], arrays[param.name] = element, value
            _check_element(name, element, by_name[param.name].element)
        else:
            numbers[param.name] = _number(value, param, name, kind_of[param.name])
    for name in arrays.keys() - shown.keys():
        shown[name], kinds[name] = name, dtype(host.array_info(arrays[name]).dtype)
    return Given(shown, arrays, kinds, numbers, data, maps, pointers)


def _opened(
    value: Any, param: Variable, written: Parameter, arrays: dict[str, Any], address_bits: int
) -> tuple[Any, list[tuple[int, str]]]:
    """The bytes of a structure, or a table of pointers; what its pointers lead to goes among the arrays."""
    try:
        fields = () if isinstance(value, WordStructure) else written.fields
        found = packed(value, written.name, fields, written.align, pointer_bytes=address_bits // 8)
    except ArgumentError as error:
        if written.problem:
            why = f"{written.problem}, so that its layout is not known here"
            error.hint = told("{}: {}", Term("bytes of a structure"), why)
        raise
    first = dict[tuple[Any, ...], str]()  # one name for each array
    named = [(at, first.setdefault(_place(array), of), array) for at, of, array in found.pointers]
    arrays |= {of: array for _, of, array in named}
    empty = bytes(nbytes(param)) if param.extents and not found.data else found.data  # a structure without fields
    made = empty if param.extents else np.frombuffer(bytearray(found.data), f"u{address_bits // 8}")
    return made, [(at, of) for at, of, _ in named]


def _place(array: Any) -> tuple[Any, ...]:
    """Where an array is, and what it is."""
    info = host.array_info(array)
    return info.address, info.shape, info.steps, str(info.dtype)


def in_order(
    kernel: str, params: Sequence[Variable], written: Sequence[Parameter], args: Sequence[Any],
    named: Mapping[str, Any], settings: Sequence[str],
) -> tuple[Any, ...]:  # fmt: skip
    """The arguments in the order of the parameters, which are known by their own names and by their author's."""
    values: dict[int, Any] = dict(enumerate(args))
    places = {name: place for place, param in enumerate(params) for name in (param.name, written[place].name)}
    for name, value in named.items():
        if name not in places:
            known = choices(name, [*(each.name for each in written), *settings])
            raise ArgumentError(f"{kernel} has no parameter {name!r}", given=name, allowed=known)
        if places[name] in values:
            raise ArgumentError(f"argument {name} of {kernel} is given twice", given=described(value))
        values[places[name]] = value
    empty = {place: bytes(nbytes(param)) for place, param in enumerate(params) if written[place].is_empty}
    values = empty | values
    if len(values) != len(params):
        missing = [each.name for place, each in enumerate(written) if place not in values]
        raise ArgumentError(
            f"{kernel} takes {len(params)} arguments",
            given=f"no {', '.join(missing)}" if missing else f"{len(values)} arguments",
            allowed=", ".join(f"{mine.name}: {mine.type or _kind(param)}"
                              for param, mine in zip(params, written, strict=True)) or "none",
        )  # fmt: skip
    return tuple(values[place] for place in range(len(params)))


def _kind(param: Variable) -> str:
    return f"{nbytes(param)} bytes" if param.extents else str(number_dtype(param.type))


def _may_be_pointer(param: Variable, address_bits: int) -> bool:
    return param.type in {f"{kind}{address_bits}" for kind in "ubs"}


def _element(value: Any, param: Variable, name: str, allowed: str, address_bits: int) -> DType:
    """The dtype of an array's elements; bytes of one that has no name here."""
    if not _may_be_pointer(param, address_bits):
        raise ArgumentError(f"argument {name} is a number", given=described(value), allowed=allowed)
    try:
        kind = dtype(host.array_info(value).dtype)
    except (TilewrightError, ValueError):
        raise ArgumentError(f"argument {name} has elements of no known type", given=described(value)) from None
    return kind


def _records(value: NDArray[Any], name: str, written: Parameter) -> NDArray[np.uint8]:
    """The bytes of an array of NumPy records, for a pointer to structures."""
    size = written.element_bytes
    if size not in (0, value.itemsize):
        raise ArgumentError(
            f"argument {name} points to structures of {size} bytes",
            given=f"records of {value.itemsize}",
            allowed=f"an itemsize of {size}",
            hint="np.dtype([...], align=True)",
        )
    if not value.flags.c_contiguous:
        raise ArgumentError(
            f"argument {name} has gaps between its records", given=described(value), hint=f"{name}.copy()"
        )
    return value.reshape(-1).view(np.uint8)


def _check_strides(value: Any, name: str) -> None:
    info = host.array_info(value)
    if any(step < 0 for extent, step in zip(info.shape, info.steps, strict=True) if extent > 1):
        raise ArgumentError(f"argument {name} begins at its last element", given=f"strides of {info.steps} elements",
                            allowed="strides of 0 or more", hint=f"{name}.copy()")  # fmt: skip


def _check_element(name: str, kind: DType, wanted: str) -> None:
    """An array has the elements that the parameter points to, signed or not; arrays of bytes may hold anything, and
    a pointer to bytes may point to anything.
    """
    if wanted in ("", "int8", "uint8", str(kind)) or kind.bits == 8:
        return
    asked = dtype(wanted)
    if kind.bits != asked.bits or not (kind.is_integer and asked.is_integer):
        change = "view" if kind.bits == asked.bits else "astype"
        made = told("{}", Term("array as", (name, change, wanted)))
        raise ArgumentError(f"argument {name} points to {wanted}", given=f"an array of {kind}",
                            allowed=f"an array of {wanted}", hint=made)  # fmt: skip


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


def _in_memory(value: Any, param: Variable, name: str, kind: str) -> Any:
    """What a parameter that is memory takes: of a number, as one of ``__grid_constant__`` is, its bytes. kind: its
    dtype, "" of a structure.
    """
    if not kind:
        return as_fields(value, nbytes(param), name)
    letter = "f" if dtype(kind).is_float else "s" if dtype(kind).is_signed else "u"
    plain = replace(param, type=f"{letter}{8 * nbytes(param)}", extents=())
    return np.array(_number(value, plain, name, kind), dtype(kind).numpy).tobytes()


def _number(value: Any, param: Variable, name: str, allowed: str) -> int | float:
    """A number as the parameter has it; None is a null pointer."""
    kind = number_dtype(param.type)
    if allowed.endswith("*") and value is not None and not (isinstance(value, (int, np.integer)) and value == 0):
        raise ArgumentError(f"argument {name} is a pointer", given=described(value), allowed=f"an array ({allowed})")
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
        raise ArgumentError(f"argument {name} is a number", given=described(value), allowed=allowed)
    low, high = -(1 << kind.bits - 1), 1 << kind.bits
    if not low <= int(value) < high:
        raise ArgumentError(f"argument {name} has {kind.bits} bits", given=f"{value}", allowed=f"{low} to {high - 1}")
    bits = int(value) % high
    return bits - high if kind.is_signed and bits >= high // 2 else bits
