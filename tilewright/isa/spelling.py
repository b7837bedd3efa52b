"""From a PTX mnemonic back to its row: the modifiers in any order that assemblers take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tilewright.errors import InstructionError, choices
from tilewright.ir import Argument
from tilewright.isa.table import INSTRUCTIONS, Form, Instruction, Mods, public

__all__ = ["mnemonics", "spelled"]

# Order means something among types (`.f32.e4m3.e5m2.f32`: D, A, B, C) and majornesses; other modifiers are a set.
_ORDERED = re.compile(r"(b|s|u|f|bf|tf|e|ue)\d\w*|row|col")

Spelling = tuple[str, tuple[str, ...], tuple[str, ...]]


def _spelling(mnemonic: str) -> Spelling:
    opcode, *words = mnemonic.split(".")
    ordered = tuple(word for word in words if _ORDERED.fullmatch(word))
    return opcode, tuple(sorted(word for word in words if word not in ordered)), ordered


def mnemonics() -> Iterator[tuple[str, Instruction, Form, Mods]]:
    """Every PTX spelling of the table, with what it spells."""
    for row in INSTRUCTIONS.values():
        for form in row.forms:
            if form.language == "ptx":
                for mods in form.all_mods():
                    yield form.mnemonic(mods), row, form, mods


@cache
def _by_spelling() -> dict[Spelling, tuple[Instruction, Form, Mods]]:
    rows = sorted(mnemonics(), key=lambda found: found[1].name.startswith("ptx."))  # these last: they win
    return {_spelling(name): (row, form, mods) for name, row, form, mods in rows}


@public
def spelled(mnemonic: str) -> tuple[Instruction, Form, dict[str, Argument]]:
    """The form that ``mnemonic`` spells, its modifiers in any order that assemblers take.

    >>> spelled("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16")[2]["num"]
    4

    Raises InstructionError where no form has this spelling.
    """
    found = _by_spelling().get(_spelling(mnemonic))
    if found is None:
        raise InstructionError(f"no instruction is spelled {mnemonic}", given=mnemonic, allowed=_near(mnemonic))
    row, form, mods = found
    return row, form, dict(mods)


def _near(mnemonic: str) -> str:
    """The spellings that begin with the same two words; else the beginnings, or the opcodes."""
    names = [name.split(".") for name, *_ in mnemonics()]
    for words in (2, 1):
        begin = mnemonic.split(".")[:words]
        same = [name for name in names if name[:words] == begin]
        beginnings = dict.fromkeys(".".join(name[: words + 1]) for name in same)
        if same:
            return "\n".join(map(".".join, same)) if words == 2 else choices(mnemonic, beginnings)
    return choices(mnemonic.split(".")[0], dict.fromkeys(name[0] for name in names))
