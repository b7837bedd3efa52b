"""The device code of a .cu file: its top-level chunks, and which of them are for the GPU.

Host functions are blanked, so that every line stays where it was. Of C++ only brackets, strings, comments and a few
words are parsed; NVRTC judges the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

__all__ = [
    "BESIDES", "Chunk", "Field", "Parameter", "blanked", "chunks", "closed", "instances", "kernels", "number_name",
    "parameters", "parted", "without_comments",
]  # fmt: skip

_SKIP = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z)
    |R"(?P<tag>[^()\s\\"]{0,16})\(.*?(?:\)(?P=tag)"|\Z)|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL | re.VERBOSE,
)
_MARK = re.compile(r"[{}();]|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_DEVICE = re.compile(r"\b__(?:global|device|constant|managed|shared)__\b")
_KEPT = re.compile(
    r"^\s*(?:template\s*<.*>\s*)?(?:static\s+|inline\s+)*"
    r"(?:struct|class|union|enum|typedef|using|constexpr|const|static_assert|concept|asm|alignas)\b"
    r"|^\s*namespace\s+\w+\s*=",
    re.DOTALL,
)
_SCOPE = re.compile(r"^\s*(?:inline\s+)?(?:namespace\b[^;={}()]*|extern\s*\"C(?:\+\+)?\"\s*)$")
_TYPE = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:typedef\s+)?(?:struct|class|union|enum)\b[^()]*$", re.DOTALL)
_IN_PARENS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
BESIDES = re.compile(
    rf"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|\b(?:alignas|__align__|__attribute__|__declspec)\s*{_IN_PARENS}", re.MULTILINE
)
"""Directives and alignments, which stand beside a declaration."""
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_ARGUMENTS = r"<[^;<>(){}]*(?:<[^;<>(){}]*>[^;<>(){}]*)*>"
_LAUNCH = re.compile(rf"\b((?:\w+::)*\w+\s*{_ARGUMENTS})\s*<<<")
_INSTANCE = re.compile(rf"\btemplate\b(?!\s*<)[^;{{}}]*?\b((?:\w+::)*(\w+)\s*{_ARGUMENTS})\s*\(")
_OPENING = re.compile(r"[^;{]*?\b([A-Za-z_]\w*)\s*\(")
_NOT_NAMES = ("__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__attribute__", "__align__", "__block_size__")


_NUMBERS = {
    "float": "float32", "double": "float64", "char": "int8", "signed char": "int8", "unsigned char": "uint8",
    "short": "int16", "unsigned short": "uint16", "": "int32", "unsigned": "uint32",
    "long long": "int64", "unsigned long long": "uint64", "long": "int64", "unsigned long": "uint64", "bool": "bool",
    "size_t": "uint64", "ptrdiff_t": "int64", "intptr_t": "int64", "uintptr_t": "uint64", "ushort": "uint16",
    "uint": "uint32", "ulong": "uint64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a structure. kind: a dtype, ``*`` for a pointer, "" for a structure of fields ``inner`` and where that
    is not known. count: of an array; 0 for one alone. align, whole: bytes that its declaration asks for, and that of
    its structure.
    """

    name: str
    kind: str
    count: int = 0
    inner: tuple[Field, ...] = ()
    align: int = 0
    whole: int = 0


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as its author wrote it. element: the dtype that it points to, "" where that is not known. fields:
    those of a structure, with the alignment that it asks for; problem: why they are not known. element_bytes: of the
    structure that it points to; 0 where that is not known.
    """

    name: str
    type: str
    element: str = ""
    fields: tuple[Field, ...] = ()
    align: int = 0
    problem: str = ""
    element_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A top-level piece of a file. start, stop: where it is. device: is it for the GPU? scope: the namespaces around it
    that have names, ``a::b::``.
    """

    start: int
    stop: int
    device: bool
    kernel: bool = False
    scope: str = ""


def number_name(kind: str) -> str:
    """The dtype of a plain number by C++'s words for its type, in any of their orders; "" of any other type.

    >>> number_name("long unsigned int"), number_name("std::int16_t"), number_name("float4")
    ('uint64', 'int16', '')
    """
    words = [word.rpartition("::")[2] for word in kind.split()]
    kept = [word for word in words if word != "int" and (word != "signed" or "char" in words)]
    ordered = sorted(kept, key=lambda word: word not in ("signed", "unsigned"))
    return _NUMBERS.get(" ".join(ordered), "") if words else ""


def without_comments(text: str) -> str:
    """The text with blanks for comments and quotes for strings, every place where it was."""
    return _SKIP.sub(lambda found: re.sub(r"[^\n]", " " if found[0][0] == "/" else '"', found[0]), text)


def chunks(text: str) -> list[Chunk]:
    """The pieces of a file in order, those inside of namespaces by themselves; directives for the preprocessor in
    between belong to none.
    """
    splitter = _Splitter(without_comments(text))
    for mark in _MARK.finditer(splitter.clean):
        _MARKS[mark[0].lstrip()[:1]](splitter, mark)
    return splitter.found


class _Macros:
    """The macros of a text. device, kernel: the words of a GPU's code, and macros that have them, at first or second
    hand. makers: macros that make whole functions.
    """

    def __init__(self, clean: str) -> None:
        self._bodies = dict(_MACRO.findall(clean))
        self.device, self.kernel = self._having(_DEVICE.pattern), self._having(r"\b__global__\b")
        self.makers = {name for name, body in self._bodies.items() if "{" in body and self.device.search(body)}

    def _having(self, words: str) -> re.Pattern[str]:
        for _ in range(2):
            names = [name for name, body in self._bodies.items() if re.search(words, body)]
            words = "|".join([words, *(rf"\b{name}\b" for name in names)])
        return re.compile(words)


class _Splitter:
    """Goes through a text without comments, bracket by bracket. start: of the piece that it is in."""

    def __init__(self, clean: str) -> None:
        self.clean, self.macros = clean, _Macros(clean)
        self.found: list[Chunk] = []
        self.start = self.depth = self.parens = 0
        self.scopes: list[str] = []
        self.is_body = False  # do the braces around hold the body of a function?

    def directive(self, mark: re.Match[str]) -> None:
        if not self.depth and not self.parens and not self.clean[self.start : mark.start()].strip():
            self.start = mark.end()

    def paren(self, mark: re.Match[str]) -> None:
        self.parens += 1 if mark[0] == "(" else -1
        if (
            self.macros.makers
            and not self.depth
            and not self.parens
            and self._head(mark.end()).partition("(")[0].strip() in self.macros.makers
        ):
            self._piece(mark.end())

    def opens(self, mark: re.Match[str]) -> None:
        if self.depth == 0:
            head = self._head(mark.start())
            if _SCOPE.match(re.sub(r'"+', '"C"', head)):
                self.start = mark.end()  # a scope whose pieces stand for themselves
                self.scopes.append(re.sub(r"\b(?:inline|namespace|extern)\b|[\s\"]", "", head))
                return
            self.is_body = ")" in head and not _TYPE.match(head) and "=" not in head.rsplit(")", 1)[1]
        self.depth += 1

    def closes(self, mark: re.Match[str]) -> None:
        if self.depth == 0:
            self.start = mark.end()  # such a scope ends
            del self.scopes[-1:]
            return
        self.depth -= 1
        if self.depth == 0 and self.is_body:
            self._piece(mark.end())

    def semicolon(self, mark: re.Match[str]) -> None:
        if not self.depth and not self.parens:
            self._piece(mark.end())

    def _head(self, stop: int) -> str:
        """What stands before a bracket, or a whole piece, without directives and alignments."""
        return BESIDES.sub("", self.clean[self.start : stop])

    def _piece(self, stop: int) -> None:
        body = self.clean.find("{", self.start, stop)
        head = self._head(stop if body < 0 else body)
        device = bool(self.macros.device.search(head) or _KEPT.match(head))
        scope = "".join(f"{name}::" for name in self.scopes if name)
        self.found.append(Chunk(self.start, stop, device, bool(self.macros.kernel.search(head)), scope))
        self.start = stop


_MARKS: Mapping[str, Callable[[_Splitter, re.Match[str]], None]] = {
    "#": _Splitter.directive, "(": _Splitter.paren, ")": _Splitter.paren, "{": _Splitter.opens,
    "}": _Splitter.closes, ";": _Splitter.semicolon,
}  # fmt: skip


def blanked(text: str, dropped: list[Chunk]) -> str:
    """The text with blanks in the place of chunks, its lines where they were."""
    for chunk in dropped:
        inside = re.sub(r"[^\n]", " ", text[chunk.start : chunk.stop])
        text = text[: chunk.start] + inside + text[chunk.stop :]
    return text


def kernels(text: str) -> list[str]:
    """The names of the ``__global__`` functions, as they are written."""
    return list(dict.fromkeys(name for name, _ in _declared(text)))


def parameters(text: str) -> dict[str, tuple[Parameter, ...]]:
    """Each kernel's parameters, by its name. Of several kernels of one name: the names that the first one has."""
    found = dict[str, tuple[Parameter, ...]]()
    for name, parts in _declared(text):
        written = [_parameter(part) for part in parts]
        own = tuple(each for each in written if each)
        if len(own) == len(parts):
            other = found.setdefault(name, own)
            if [(each.type, each.element) for each in other] != [(each.type, each.element) for each in own]:
                found[name] = tuple(Parameter(each.name, "") for each in other)
    return found


def _parameter(text: str) -> Parameter | None:
    """One parameter out of its text; None where it has no name."""
    found = re.search(r"^(.*?)\b(\w+)\s*((?:\[[^\]]*\]\s*)*)(?:=.*)?$", text, re.DOTALL)
    if found is None or not found[1].strip():
        return None
    plain = re.sub(r"\b(?:__restrict__|__restrict)\b", " ", found[1])
    kind = re.sub(r"\s*([*&])\s*", r"\1", " ".join(plain.split())) + "*" * bool(found[3])
    pointee = re.sub(r"\b(?:const|volatile)\b", " ", kind)
    return Parameter(found[2], kind, number_name(pointee[:-1]) if pointee[-1] == "*" else "")


def _declared(text: str) -> Iterator[tuple[str, list[str]]]:
    """The name of each ``__global__`` function, with the text of each of its parameters."""
    clean = without_comments(text)
    for word in re.finditer(r"\b__global__\b", clean):
        found = _OPENING.match(clean, word.end())
        while found and found[1] in _NOT_NAMES:
            found = _OPENING.match(clean, closed(clean, found.end()))
        if found:
            inside = clean[found.end() : closed(clean, found.end()) - 1]
            yield found[1], [part.strip() for part in parted(inside)]


def closed(text: str, start: int, brackets: str = "()") -> int:
    """Behind the bracket that closes the one before ``start``."""
    depth = 1
    for mark in re.compile(f"[{brackets}]").finditer(text, start):
        depth += 1 if mark[0] == brackets[0] else -1
        if not depth:
            return mark.end()
    return len(text)


def parted(text: str) -> list[str]:
    """What commas part that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def instances(text: str) -> list[str]:
    """The instances of templates that the file itself launches, ``k<128>`` of ``k<128><<<...>>>``, or makes by
    ``template __global__ void k<128>(...)``.
    """
    clean, own = without_comments(text), kernels(text)
    made = [match[1] for match in _INSTANCE.finditer(clean) if match[2] in own]
    found = [match[1] for match in _LAUNCH.finditer(clean)] + made
    return list(dict.fromkeys(re.sub(r"\s+", " ", each) for each in found))
