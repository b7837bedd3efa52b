"""Operands of an instruction, identified by comparing its text with the text that a row of the table prints.

The pattern of ``wgmma.mma_async`` says where its accumulators stand, which of its operands is a predicate that the
pattern makes of a number, and how the modifiers that follow the operands are spelled. So one text serves printing and
reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright import isa
from tilewright.errors import InstructionError
from tilewright.isa import Form
from tilewright.isa import Instruction as Row
from tilewright.ptx.operands import operands
from tilewright.ptx.printer import operand_text
from tilewright.ptx.tree import Address, Immediate, Name, Operand, Pair, Vector

__all__ = ["RESULT", "Written", "text_of_pattern", "written"]

RESULT = "result"
_HOLE = "%hole_"
_BRACES = re.compile(r"\{\{|\}\}|\{(\w+)\}")
_PREDICATES = re.compile(r"setp\.ne\.b32 (\w+), (%hole_\w+), 0;|selp\.b32 (%hole_result), 1, 0, (\w+);")

IsPredicate = Callable[[Operand], bool]


@dataclass(frozen=True, slots=True)
class Written:
    """An instruction as a call of a row. operands: the texts of the row's operands, and of ``result``."""

    row: Row
    form: Form
    mods: Mapping[str, object]
    operands: Mapping[str, Operand]


def written(mnemonic: str, given: tuple[Operand, ...], is_predicate: IsPredicate) -> Written:
    """The row and form whose text this is. Raises InstructionError where no form takes such operands."""
    found = isa.opcodes(mnemonic)
    for one in found:
        places = _places(one.pattern)
        taken = _Taken(one.row, one.form, is_predicate, {}, {})
        if taken.all(places, given) and not taken.lacking(one.mods):
            return Written(one.row, one.form, {**one.mods, **taken.mods}, taken.operands)
    texts = dict.fromkeys(text_of_pattern(one.pattern).replace(_HOLE, "").strip() for one in found)
    allowed = "\n".join(f"{mnemonic} {text}" for text in texts)
    raise InstructionError(f"{mnemonic} has other operands", given=", ".join(map(operand_text, given)), allowed=allowed)


@lru_cache(maxsize=1 << 12)
def text_of_pattern(pattern: str) -> str:
    """The operands of the one instruction that a pattern is about, each hole a name, ``%hole_ptr``."""
    text = _BRACES.sub(lambda found: f"{_HOLE}{found[1]}" if found[1] else found[0][0], pattern)
    before, is_whole, rest = text.partition(f"{_HOLE}mnemonic")
    if not is_whole:
        return text
    own, _, after = rest.partition(";")
    for match in _PREDICATES.finditer(f"{before}{after}"):
        name, hole = (match[1], match[2]) if match[1] else (match[4], match[3])
        own = re.sub(rf"\b{name}\b", hole, own)
    return own


@lru_cache(maxsize=1 << 12)
def _places(pattern: str) -> tuple[Operand, ...]:
    return operands(text_of_pattern(pattern).strip())


@dataclass(frozen=True, slots=True)
class _Taken:
    """The operands and modifiers that have been found so far."""

    row: Row
    form: Form
    is_predicate: IsPredicate
    operands: dict[str, Operand]
    mods: dict[str, object]

    def all(self, places: tuple[Operand, ...], given: tuple[Operand, ...]) -> bool:
        """Does each operand fit its place?"""
        return len(places) == len(given) and all(map(self.one, places, given))

    def one(self, place: Operand, given: Operand) -> bool:
        """Does an operand fit a place of the pattern?"""
        match place:
            case Name(text):
                if text.startswith(_HOLE):
                    return not isinstance(given, Address) and self.hole(text.removeprefix(_HOLE), given)
                return place == given == Name("_")
            case Immediate():
                return isinstance(given, Immediate) and given.value == place.value
            case Vector(parts):
                return isinstance(given, Vector) and self.all(parts, given.parts)
            case Pair(first, second):
                return isinstance(given, Pair) and self.all((first, second), (given.first, given.second))
            case Address(base, _, more):
                if not isinstance(given, Address):
                    return False
                alone = Address(given.base, given.offset)
                inside = isinstance(base, Name) and base.text.startswith(_HOLE)
                return inside and self.hole(base.text.removeprefix(_HOLE), alone) and self.all(more, given.more)  # type: ignore[union-attr]  # a name
        return False

    def lacking(self, mods: Mapping[str, object]) -> list[str]:
        """The operands of the form that nothing was found for."""
        needed = (one.name for one in self.row.operands if one.kind != "note" and mods.get(one.name, one) is not None)
        return [name for name in needed if name not in self.operands]

    def hole(self, name: str, given: Operand) -> bool:
        """Does an operand fit a place that has a name?"""
        operand = self.row.operand(name)
        if operand is None and name != RESULT:
            return self.modifier(name, given)
        if operand is not None:
            is_one = operand.kind == "pred"
            fits = isinstance(given, Immediate) or self.is_predicate(given) == is_one
            parts = len(given.parts) if isinstance(given, Vector) else 0
            if not fits or (parts == 0 if operand.many else parts > 1):
                return False
        self.operands[name] = given
        return True

    def modifier(self, name: str, given: Operand) -> bool:
        """Is it one of the values of a modifier that follows the operands?"""
        spelled = self.form.wording.modifiers.get(name, {}).items()
        text_of = str(given.value) if isinstance(given, Immediate) else None
        values = [value for value, text in spelled if text == text_of]
        self.mods.update(dict.fromkeys([name], *values))
        return len(values) == 1
