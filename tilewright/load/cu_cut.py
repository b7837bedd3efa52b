"""Pieces of a .cu file taken out of its text: host code, of which every line stays where it was."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from tilewright.load.cu_tree import (
    DIRECTIVE,
    FUNCTION,
    SKIPPED,
    TYPES,
    Chunk,
    Macros,
    Tree,
    below,
    blank,
    defined,
    pieces,
    without_comments,
)


def blanked(text: str, dropped: Sequence[Chunk]) -> str:
    """The text with blanks in the place of pieces, its lines where they were. Directives for the preprocessor stay."""
    directives = [entry.span() for entry in DIRECTIVE.finditer(without_comments(text))] if dropped else []
    kept, plain = [start for start, _ in directives], SKIPPED.sub(_blank_comment, text)
    parts, stop = list[str](), 0
    for piece in sorted(dropped, key=lambda entry: entry.start):
        if piece.stop > stop:
            begin = max(piece.start, stop)
            parts.append(text[stop:begin])
            for start, end in directives[bisect_left(kept, begin) : bisect_left(kept, piece.stop)]:
                parts += [_blank_code(text[begin:start]), plain[start:end]]
                begin = end
            parts.append(_blank_code(text[begin : piece.stop]))
            if text.startswith("{", piece.start):
                parts[-1] = ";" + parts[-1][1:]  # of a function's body, whose declaration stays
            stop = max(begin, piece.stop)
    return "".join([*parts, text[stop:]])


def host_members(piece: Chunk, tree: Tree, *, said: bool = False) -> list[Chunk]:
    """The functions of the types in a piece that no word says to be for the GPU. said: those of which a word says that
    they are the host's.
    """
    members = list[Chunk]()
    for listed in below(piece.node, "field_declaration_list") if piece.node is not None else ():
        for node in listed.named_children:
            body, head = next(below(node, "compound_statement"), None), next(below(node, FUNCTION), None)
            if head is None or node.type in TYPES or node.type == "friend_declaration":
                continue
            words = tree.between(node.start_byte, head.start_byte)
            if tree.macros.device.search(words) or re.search(r"\bconstexpr\b", words):
                continue
            if re.search(r"\b__host__\b", words) or (body is not None and not said):
                members.append(Chunk(node.start_byte, node.end_byte, False, node=node))
    return members


def host_in_macros(text: str, macros: Macros) -> list[Chunk]:
    """The host functions in macros that make functions of the GPU, as a kernel and the function that launches it."""
    found = []
    for name, start, body in defined(text):
        if name in macros.makers:
            plain = body.replace("\\\n", "  ").replace("##", "__")
            inner = [piece for piece in pieces(plain, macros) if not piece.device]
            found += [Chunk(start + entry.start, start + entry.stop, False) for entry in inner]
    return found


def _blank_comment(skipped: re.Match[str]) -> str:
    return blank(skipped[0]) if skipped[0][0] == "/" else skipped[0]


def _blank_code(text: str) -> str:
    """Blanks, but lines that go on stay so: they may be those of a macro."""
    return re.sub(r"\\(?!\n)|[^\n\\]", " ", text)
