"""The structures of a .cu file as far as C++ lays them out as C does: plain numbers, pointers, arrays and each other.

Functions of a structure change nothing of its layout, ``alignas`` does in a known way; what does otherwise (a base, a
virtual function, a bit-field) is named, so that an error can say why the fields are not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.cuda.cu_chunks import Field, Parameter, closed, number_name, without_comments
from tilewright.dtypes import dtype

__all__ = ["POINTER", "with_fields"]

POINTER = "*"
_HEAD = re.compile(
    r"\b(?P<typedef>typedef\s+)?(?:struct|class)\b(?P<head>(?:[^;{}()]|\((?:[^(){}]|\([^(){}]*\))*\))*)\{"
)
_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|mutable|__restrict__|__restrict|struct|class|final|typename|__grid_constant__)\b"
)
_ALIGN = re.compile(r"\b(?:alignas|__align__|__builtin_align__|aligned)\s*\(\s*(\w+)\s*\)")
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|\[\[.*?\]\]")
_LABEL = re.compile(r"^\s*(?:(?:public|private|protected)\s*:\s*)+")
_NO_FIELD = re.compile(r"^\s*(?:using|typedef|friend|static|template|enum|constexpr|inline\s+static)\b")
_FIELD = re.compile(  # with one blank between words
    r"(?P<type>[\w:]+(?: [\w:]+)*?)(?: | ?(?P<star>\*) ?)(?P<name>\w+)(?: ?\[ ?(?P<count>\d+) ?\])?"
)
_UNKNOWN = {  # what a declaration has that changes the layout
    "virtual functions": re.compile(r"\bvirtual\b"),
    "a pointer to a function": re.compile(r"\(\s*\*"),
    "a union or a structure inside": re.compile(r"\b(?:union|struct|class)\b[^;]*\{"),
    "references": re.compile(r"&"),
    "bit-fields": re.compile(r"\w\s*:\s*\w"),
}
_VECTORS = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "longlong": 8, "ulonglong": 8,
            "float": 4, "double": 8}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Structure:
    """problem: why its fields are not known; empty where they are."""

    fields: tuple[Field, ...] = ()
    align: int = 0
    problem: str = ""

    def nbytes(self) -> tuple[int, int]:
        """Its size and alignment, as C has them."""
        size, most = 0, max(1, self.align)
        for field in self.fields:
            each, align = (8, 8) if field.kind == POINTER else _Structure(field.inner, field.whole).nbytes()
            if field.kind not in ("", POINTER):
                each = align = dtype(field.kind).bits // 8
            align = max(align, field.align)
            size += -size % align + each * max(1, field.count)
            most = max(most, align)
        return size + -size % most, most


def _of_cuda() -> Iterator[tuple[str, _Structure]]:
    """CUDA's own: ``float4``, ``dim3`` and their kin, and tensor maps."""
    for name, size in _VECTORS.items():
        kind = f"{'u' * (name[0] == 'u')}int{8 * size}" if name not in ("float", "double") else f"float{8 * size}"
        for count in range(1, 5):
            align = min(16, count * size) if count != 3 else size
            yield f"{name}{count}", _Structure(tuple(Field(each, kind) for each in "xyzw"[:count]), align)
    yield "dim3", _Structure(tuple(Field(each, "uint32") for each in "xyz"))
    yield "CUtensorMap", _Structure((Field("opaque", "uint64", 16),), 64)


def with_fields(parameters: Mapping[str, tuple[Parameter, ...]], text: str) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each kernel, with the fields of those that are structures which a text declares."""
    known = dict(_of_cuda())
    clean = without_comments(text)
    for found in _HEAD.finditer(clean):
        names, structure = _declared(clean, found, known)
        known |= dict.fromkeys(names, structure)
    return {kernel: tuple(_described(each, known) for each in own) for kernel, own in parameters.items()}


def _described(each: Parameter, known: Mapping[str, _Structure]) -> Parameter:
    name = _QUALIFIERS.sub(" ", each.type).strip()
    if name.endswith("*"):
        pointed = known.get(name[:-1].strip())
        return replace(each, element_bytes=pointed.nbytes()[0]) if pointed and not pointed.problem else each
    found = known.get(name.split("<")[0], _Structure())
    problem = "it is an instance of a template" if "<" in name else found.problem
    return replace(each, fields=() if problem else found.fields, align=found.align, problem=problem)


def _declared(text: str, found: re.Match[str], known: Mapping[str, _Structure]) -> tuple[list[str], _Structure]:
    """The names of a structure, and what is in it."""
    head = _ATTRIBUTE.sub(lambda each: " ".join(_spelled(each[0])), found["head"])
    aligns, (name, _, base) = _ALIGN.findall(head), _ALIGN.sub(" ", head).partition(":")
    stop = closed(text, found.end(), "{}")
    last = re.match(r"\s*(\w+)\s*;", text[stop:]) if found["typedef"] else None
    names = [each for each in (_QUALIFIERS.sub(" ", name).strip(), last[1] if last else "") if each]
    title = names[0] if names else "the structure"
    if base.strip():
        return names, _Structure(problem=f"{title} has a base, {base.strip()}")
    fields, problem = list[Field](), ""
    for line in _lines(text[found.end() : stop - 1]):
        problem = problem or _read(line, known, fields)
    align = max([0, *(int(each) for each in aligns if each.isdigit())])
    problem = problem or ("" if all(map(str.isdigit, aligns)) else "an alignment that is no number")
    return names, _Structure(problem=f"{title} has {problem}") if problem else _Structure(tuple(fields), align)


def _spelled(attribute: str) -> list[str]:
    return [each[0] for each in _ALIGN.finditer(attribute)]


def _lines(body: str) -> Iterator[str]:
    """The declarations in a body without those of functions; of values in braces the name alone."""
    line, at = "", 0
    for mark in re.compile(r"[{;]").finditer(body):
        if mark.start() < at:
            continue
        line += body[at : mark.start()]
        at = mark.end()
        if mark[0] == "{":
            at = closed(body, at, "{}")
            is_type = re.search(r"\b(?:struct|class|union|virtual)\b", line)
            line = f"{line} {{;" if is_type else "" if ")" in _ALIGN.sub("", line) else line
            if not is_type:
                continue
        line, done = "", line
        if (done := _LABEL.sub("", done)).strip() and not _NO_FIELD.match(done):
            yield done


def _read(line: str, known: Mapping[str, _Structure], fields: list[Field]) -> str:
    """Add the fields of a declaration; returns what is in the way of that, empty for nothing."""
    line = _ATTRIBUTE.sub(lambda each: " ".join(_spelled(each[0])), line)
    align = max([0, *(int(each) for each in _ALIGN.findall(line) if each.isdigit())])
    line = _ALIGN.sub(" ", line)
    problem = next((what for what, pattern in _UNKNOWN.items() if pattern.search(line.replace("::", ""))), "")
    if problem:
        return problem
    if "(" in line:
        return ""  # a function
    plain = re.sub(r"=[^,]*", "", _QUALIFIERS.sub(" ", line))
    first, *others = (" ".join(each.split()) for each in plain.split(","))
    found = _FIELD.fullmatch(first)
    for each in (first, *(f"{found['type']} {other}" for other in others)) if found else (first,):
        one = _FIELD.fullmatch(each)
        kind = number_name(one["type"]) if one else ""
        inner = known.get(one["type"].strip(), _Structure()) if one else _Structure()
        if one is None or not (kind or one["star"] or inner.fields):
            return f"a field of another kind, `{each}`"
        if one["star"]:
            kind, inner = POINTER, _Structure()
        fields.append(Field(one["name"], kind, int(one["count"] or 0), inner.fields, align, inner.align))
    return ""
