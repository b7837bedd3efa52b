"""The variables of a .cu file in global and constant memory, with the dtypes of their elements.

PTX knows no signs of integers, and has arrays of structures as bytes: the author's declaration says what the bits mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tilewright.cuda.cu_chunks import BESIDES, chunks, number_name, parted, without_comments

__all__ = ["variables"]

_ALIAS = re.compile(r"\busing\s+(\w+)\s*=([^=;{}()]*);|\btypedef\b([^=;{}()]*?)\b(\w+)\s*;")
_QUALIFIERS = re.compile(r"\b(?:static|const|volatile|extern|inline|constexpr|__\w+__)\b|\"")
_VALUE = re.compile(r"\{[^{}]*\}|\(\s*[-+.\d'][^()]*\)|=[^,{}]*")
_NAMED = re.compile(r"(?:([\w:]+(?: [\w:]+)*?) )?(\w+)(?: ?\[[^\[\]]*\])*")
_MOST_WORDS = 4  # unsigned long long int
_MOST_ALIASES = 8  # one of the other


def variables(text: str) -> dict[str, str]:
    """The dtypes of ``__constant__`` and ``__device__`` variables of plain numbers, by their names with namespaces."""
    clean = without_comments(text)
    aliases = {each[1] or each[4]: each[2] or each[3] for each in _ALIAS.finditer(clean)}
    found = {
        f"{piece.scope}{name}": _number(kind, aliases)
        for piece in chunks(text)
        if piece.device and not piece.kernel
        for kind, name in _declared(BESIDES.sub(" ", clean[piece.start : piece.stop]))
    }
    return {name: kind for name, kind in found.items() if kind}


def _declared(piece: str) -> Iterator[tuple[str, str]]:
    """The type and the name of each variable of a declaration; nothing of one of functions or types."""
    line = piece.strip().removesuffix(";")
    while (shorter := _VALUE.sub("", line)) != line:  # values in braces nest
        line = shorter
    if "(" in line or line.startswith(("template", "struct", "class", "union", "enum", "using", "typedef")):
        return
    kind = ""
    for each in parted(_QUALIFIERS.sub(" ", line)):
        named = _NAMED.fullmatch(" ".join(each.split()))
        if named is None:
            return
        kind = named[1] or kind
        yield kind, named[2]


def _number(kind: str, aliases: Mapping[str, str]) -> str:
    """The dtype of a type; "" of one that is no number. Words before it are macros of its author's."""
    for _ in range(_MOST_ALIASES):
        words = kind.split()[-_MOST_WORDS:]
        known = (number_name(" ".join(words[start:])) for start in range(len(words)))
        if name := next(filter(None, known), ""):
            return name
        kind = aliases.get(words[-1].rpartition(":")[2], "") if words else ""
    return ""
