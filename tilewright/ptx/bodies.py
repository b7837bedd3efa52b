"""The statements of a function: most are one match of `STATEMENT`; declarations are read token by token."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tilewright.errors import KernelError
from tilewright.ptx.declarations import SPACES, prototype, registers, variables
from tilewright.ptx.lexer import NAME, STATEMENT, Scanner, Text
from tilewright.ptx.operands import Unreadable, operands
from tilewright.ptx.tree import Block, Body, Directive, Instruction, Label, Loc, Statement, Targets

if TYPE_CHECKING:
    from tilewright.ptx.tree import Operand

__all__ = ["body"]

_INLINED = re.compile(rf"\s*,\s*function_name\s+({NAME})\s*(?:\+\s*(\d+))?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+)\s*")
MOST_NESTED = 100
_STATEMENT = "an instruction that ends in `;`, a label, a directive or `}`"


def body(scan: Scanner) -> Body:
    """The statements up to the ``}`` that closes the scope; its ``{`` has been read."""
    text, clean = scan.text, scan.text.clean
    found: list[Statement] = []
    outer: list[tuple[list[Statement], int]] = []  # the scopes around, and the lines where they open
    position, counted, line = scan.position, scan.position, text.line(scan.position)
    while True:
        match = STATEMENT.match(clean, position)
        if match is None:
            raise text.expected(_STATEMENT, position)
        kind = match.lastgroup
        start, position = match.start(_FIRST.get(kind, kind)), match.end()  # type: ignore[arg-type]  # never None
        line += clean.count("\n", counted, start)
        counted = start
        if kind == "operands":
            found.append(_instruction(text, match, line))
        elif kind == "inlined":
            found.append(_loc(text, match))
        elif kind == "open":
            if len(outer) == MOST_NESTED:
                raise KernelError("scopes are nested too deeply", allowed=f"{MOST_NESTED}", at=text.span(start))
            outer.append((found, line))
            found = []
        elif kind != "close":
            position = _MORE[kind](text, match, line, found) if kind in _MORE else position
        elif outer:
            (found, at), inner = outer.pop(), found
            found.append(Block(tuple(inner), at))
        else:
            scan.position = position
            return tuple(found)


_FIRST = {"operands": "mnemonic", "inlined": "file"}  # the group in which a statement begins


def _instruction(text: Text, match: re.Match[str], line: int) -> Instruction:
    guard, mnemonic, given = match["guard"], match["mnemonic"], match["operands"]
    return Instruction(
        mnemonic, _operands(text, match, given), guard.replace(" ", "") if guard else "", line,
        text.column(match.start("guard" if guard else "mnemonic")),
    )  # fmt: skip


def _operands(text: Text, match: re.Match[str], given: str) -> tuple[Operand, ...]:
    try:
        return operands(given)
    except Unreadable:
        pass
    position = match.start("operands")  # which of them is it?
    for part in re.split(r"(,)(?![^{\[(]*[}\])])", given):
        try:
            if part != ",":
                operands(part)
        except Unreadable as stop:
            raise text.expected(f"{stop.what}, then `,` or `;`", position + stop.offset) from None
        position += len(part)
    raise text.expected("operands, then `;`", match.start("operands"))


def _loc(text: Text, match: re.Match[str]) -> Loc:
    place = int(match["file"]), int(match["line"]), int(match["column"])
    rest = match["inlined"]
    if not rest or rest.isspace():
        return Loc(*place)
    inlined = _INLINED.fullmatch(rest)
    if inlined is None:
        raise text.expected("`, function_name LABEL, inlined_at FILE LINE COLUMN`", match.start("inlined"))
    label, offset, *outer = inlined.groups()
    return Loc(*place, (label, int(offset or 0)), (int(outer[0]), int(outer[1]), int(outer[2])))


def _label(text: Text, match: re.Match[str], line: int, found: list[Statement]) -> int:
    """A label, or a list of targets under a name; the position behind it."""
    name = match["label"]
    scan = Scanner(text, match.end())
    word = scan.peek()
    if word in (".branchtargets", ".calltargets"):
        scan.next()
        names = tuple(re.split(r"\s*,\s*", scan.until(";")))
        found.append(Targets(name, word[1:], names, line))
        return scan.position
    if word == ".callprototype":
        scan.next()
        found.append(prototype(scan, name, line))
        return scan.position
    found.append(Label(name, line))
    return match.end()


def _directive(text: Text, match: re.Match[str], line: int, found: list[Statement]) -> int:
    """A declaration, a hint; the position behind it."""
    word = match["directive"][1:]
    scan = Scanner(text, match.end())
    linkage = ""
    while word in ("extern", "visible", "weak", "common"):
        linkage, word = word, scan.next()[1:]
    if word == "reg":
        found.append(registers(scan, line))
    elif word in SPACES:
        found += variables(scan, word, linkage, line)
    elif word in ("pragma", "section", "file"):
        found.append(Directive(f".{word} {scan.until(';')};" if word == "pragma" else f".{word}", line))
    else:
        raise text.expected(
            "a directive of a body: .reg, .local, .shared, .param, .loc, .pragma", match.start("directive")
        )
    return scan.position


_MORE = {"label": _label, "directive": _directive}
