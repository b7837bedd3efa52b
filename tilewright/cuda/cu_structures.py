"""The structures of a .cu file as far as they are of plain numbers, pointers, arrays of such, and each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.cuda.cu_chunks import NUMBERS, declared, without_comments

__all__ = ["POINTER", "Field", "structures"]

POINTER = "*"
_STRUCTURE = re.compile(r"\b(?P<typedef>typedef\s+)?struct\s*(?P<name>\w*)\s*\{(?P<body>[^{}]*)\}\s*(?P<last>\w*)\s*;")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|struct)\b")
_FIELD = re.compile(r"\s*(?P<type>[\w\s:]+?)\s*(?P<star>\*?)\s*(?P<name>\w+)\s*(?:\[\s*(?P<count>\d+)\s*\])?\s*")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a structure. kind: a dtype, `POINTER`, or "" for a structure of fields ``inner`` and for what is not
    known. count: of an array; 0 for one alone.
    """

    name: str
    kind: str
    count: int = 0
    inner: tuple[Field, ...] = ()


def structures(text: str) -> dict[str, tuple[tuple[Field, ...], ...]]:
    """For each kernel, by its name: the fields of each of its parameters; none for what is no such structure."""
    known = dict[str, tuple[Field, ...]]()
    for found in _STRUCTURE.finditer(without_comments(text)):
        fields = tuple(_fields(found["body"], known))
        if None not in fields:
            known |= dict.fromkeys(filter(None, (found["name"], found["last"])), fields)  # type: ignore[arg-type]  # looked
    return {
        name: tuple(known.get(" ".join(_QUALIFIERS.sub(" ", part).split()[:-1]), ()) for part in parts)
        for name, parts in declared(text)
    }


def _fields(body: str, known: Mapping[str, tuple[Field, ...]]) -> Iterator[Field | None]:
    """The fields of a structure's body; None for one that is something else."""
    for line in filter(str.strip, body.split(";")):
        first, *others = _QUALIFIERS.sub(" ", line).split(",")
        found = _FIELD.fullmatch(first)
        kind = found and (found["type"] if found["type"] in known else NUMBERS.get(" ".join(found["type"].split())))
        for each in (first, *(f"{found['type']} {other}" for other in others)) if found else (first,):
            one = _FIELD.fullmatch(each)
            if one is None or not (kind or one["star"]):
                yield None
                return
            inner = () if one["star"] else known.get(one["type"], ())
            name = POINTER if one["star"] else "" if inner else str(kind)
            yield Field(one["name"], name, int(one["count"] or 0), inner)
