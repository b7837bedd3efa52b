"""What an author's CUDA text declares: parameters of kernels, fields of structures, and the dtypes of plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

POINTER = "*"
_NUMBERS = {
    "float": "float32", "double": "float64", "char": "int8", "signed char": "int8", "unsigned char": "uint8",
    "short": "int16", "unsigned short": "uint16", "": "int32", "unsigned": "uint32",
    "long long": "int64", "unsigned long long": "uint64", "long": "int64", "unsigned long": "uint64", "bool": "bool",
    "size_t": "uint64", "ptrdiff_t": "int64", "intptr_t": "int64", "uintptr_t": "uint64", "ushort": "uint16",
    "uint": "uint32", "ulong": "uint64", "cuuint32_t": "uint32", "cuuint64_t": "uint64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a structure. kind: a dtype, ``*`` for a pointer, "" for a structure of fields ``inner`` and where that
    is not known. count: of an array; 0 for one alone. align, whole: bytes that its declaration asks for, and that of
    its structure. element: the dtype that a pointer points to, "" where that is not known.
    """

    name: str
    kind: str
    count: int = 0
    inner: tuple[Field, ...] = ()
    align: int = 0
    whole: int = 0
    element: str = ""


TENSOR_MAP = (Field("opaque", "uint64", 16),)
"""The fields of a ``CUtensorMap``."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as its author wrote it. element: the dtype that it points to, "" where that is not known. fields:
    those of a structure, with the alignment that it asks for; problem: why they are not known. element_bytes: of the
    structure that it points to; 0 where that is not known. is_empty: a structure without fields, as functors are.
    """

    name: str
    type: str
    element: str = ""
    fields: tuple[Field, ...] = ()
    align: int = 0
    problem: str = ""
    element_bytes: int = 0
    is_empty: bool = False

    @property
    def is_pointer(self) -> bool:
        """Does it point to elements? A parameter of PTX, which has no type, may."""
        return self.type.endswith("*")


def number_name(kind: str) -> str:
    """The dtype of a plain number by C++'s words for its type, in any of their orders; "" of any other type.

    >>> number_name("long unsigned int"), number_name("const std::int16_t"), number_name("float4")
    ('uint64', 'int16', '')
    """
    words = [
        word.rpartition("::")[2] for word in kind.split() if word not in ("const", "volatile", "__grid_constant__")
    ]
    kept = [word for word in words if word != "int" and (word != "signed" or "char" in words)]
    ordered = sorted(kept, key=lambda word: word not in ("signed", "unsigned"))
    return _NUMBERS.get(" ".join(ordered), "") if words else ""
