"""The structures of a .cu file as far as they are of plain numbers, pointers, arrays of such, and each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilewright.cuda.cu_chunks import NUMBERS, Field, Parameter, without_comments

__all__ = ["POINTER", "with_fields"]

POINTER = "*"
_STRUCTURE = re.compile(r"\b(?P<typedef>typedef\s+)?struct\s*(?P<name>\w*)\s*\{(?P<body>[^{}]*)\}\s*(?P<last>\w*)\s*;")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|struct)\b")
_FIELD = re.compile(r"\s*(?P<type>[\w\s:]+?)\s*(?P<star>\*?)\s*(?P<name>\w+)\s*(?:\[\s*(?P<count>\d+)\s*\])?\s*")


def with_fields(parameters: Mapping[str, tuple[Parameter, ...]], text: str) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each kernel, with the fields of those that are structures which a text declares."""
    known = dict[str, tuple[Field, ...]]()
    for found in _STRUCTURE.finditer(without_comments(text)):
        fields = tuple(_fields(found["body"], known))
        if None not in fields:
            known |= dict.fromkeys(filter(None, (found["name"], found["last"])), fields)  # type: ignore[arg-type]  # looked
    return {
        kernel: tuple(replace(each, fields=known.get(_QUALIFIERS.sub(" ", each.type).strip(), ())) for each in own)
        for kernel, own in parameters.items()
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
