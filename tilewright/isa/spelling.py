"""From a PTX mnemonic back to its row: the modifiers in any order that assemblers take.

The words of a mnemonic are matched with the holes of a form's text. Order means something among types
(``.f32.e4m3.e5m2.f32``: D, A, B, C) and majornesses; other modifiers are a set.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from string import Formatter

from tilewright.errors import InstructionError, choices
from tilewright.ir import Argument
from tilewright.isa.table import INSTRUCTIONS, Form, Instruction, Ptx, Spellings, public

__all__ = ["Opcode", "opcode", "opcodes", "spelled"]

_ORDERED = re.compile(r"(b|s|u|f|bf|tf|e|ue)\d\w*|row|col|pred")

_SAME = {"shared": "shared::cta", "shared::cta": "shared"}  # what else a word may be written as

Words = tuple[str, ...]


@dataclass(frozen=True)
class Opcode:
    """What a written opcode means: a row, its form and modifiers.

    outs: where it may have several results, the values of the modifier ``out``, in the order in which they are written.
    hints: words that mean nothing to what is computed, and so are in no row.
    """

    row: Instruction
    form: Form
    mods: Mapping[str, Argument]
    outs: tuple[str, ...] = ()
    hints: Words = field(default=())

    @property
    def places(self) -> int:
        """How many operands the form has: those that it does not leave out."""
        return sum(self.mods.get(operand.name, operand) is not None for operand in self.row.operands)

    @property
    def pattern(self) -> str:
        """How its operands stand."""
        return self.row.pattern_of(self.form)


@cache
def _by_opcode() -> dict[str, list[tuple[Instruction, int]]]:
    """The PTX forms by the first word of their text; those as compilers write them, then those of ``T.ptx``, win."""
    rows: dict[str, list[tuple[Instruction, int]]] = {}
    for row in sorted(INSTRUCTIONS.values(), key=_rank):
        for number, form in enumerate(row.forms):
            if isinstance(form.wording, Ptx):
                rows.setdefault(re.split(r"[.{]", form.wording.template)[0], []).append((row, number))
    return rows


def _rank(row: Instruction) -> tuple[bool, bool]:
    return not row.written, not row.name.startswith("ptx.")


@dataclass(frozen=True, slots=True)
class _Hole:
    """A place in a form's text: the words of each value of its modifiers, several of which may make one word."""

    modifiers: Words
    spellings: tuple[tuple[tuple[Argument, ...], Words], ...]

    def before(self, other: _Hole) -> _Hole:
        """This word with what the other one adds to it, ``m64n8k16``."""
        both = itertools.product(self.spellings, other.spellings)
        joined = tuple(((*a, *b), (*first[:-1], f"{first[-1]}{second[0]}")) for (a, first), (b, second) in both)
        return _Hole(self.modifiers + other.modifiers, joined)


@cache
def _template(name: str, number: int) -> tuple[_Hole, ...]:
    """The text of a form: its fixed words (holes without a modifier) and its modifiers, in order.

    Of an access of memory, an order and a scope that are left out are the row's defaults.
    """
    row = INSTRUCTIONS[name]
    form = row.forms[number]
    holes: list[_Hole] = []
    may_lack = ("sem", "scope") if any(operand.kind == "place" for operand in row.operands) else ()
    for fixed, modifier, _, _ in Formatter().parse(form.wording.template):
        holes += [_Hole((), (((), (word,)),)) for word in fixed.split(".")[1 if fixed[:1] != "." else 0 :] if word]
        if modifier:
            table = form.wording.modifiers[modifier]
            default = row.keywords.get(modifier)
            silent: Spellings = {default: ""} if modifier in may_lack and default in table else {}
            spellings = [*table.items(), *silent.items()]
            hole = _Hole((modifier,), tuple(((value,), _words(text)) for value, text in spellings))
            goes_on = not fixed and all(text[:1] not in ("", ".") for text in table.values())
            holes.append(holes.pop().before(hole) if goes_on else hole)
    return tuple(holes)


def _words(text: str) -> Words:
    return tuple(text.removeprefix(".").split(".")) if text else ()


def _taken(words: Words, rest: Words, also: Mapping[str, str]) -> Words | None:
    """``rest`` without ``words``; None where it lacks one, or one of order is not the first of those that are left."""
    left = list(rest)
    for wanted in words:
        other = also.get(wanted)
        if wanted not in left and other == "":
            continue
        word = wanted if wanted in left or other is None else other
        if word not in left:
            return None
        if _ORDERED.fullmatch(word) and next(other for other in left if _ORDERED.fullmatch(other)) != word:
            return None
        left.remove(word)
    return tuple(left)


def _matched(holes: tuple[_Hole, ...], rest: Words, also: Mapping[str, str]) -> dict[str, Argument] | None:
    """The modifiers that use up all words."""
    if not holes:
        return None if rest else {}
    hole, *others = holes
    for values, words in hole.spellings:
        left = _taken(words, rest, also)
        match = _matched(tuple(others), left, also) if left is not None else None
        if match is not None:
            return {**dict(zip(hole.modifiers, values, strict=True)), **match}
    return None


_SYNONYMS = tuple((re.compile(pattern), meant) for pattern, meant in (
    (r"(mbarrier\.(?:init|inval|arrive\w*|test_wait|try_wait|\w+_tx)\b.*)\.b64", r"\1.shared.b64"),
    (r"^(mbarrier\.(?:expect|complete)_tx)(?!\.relaxed)", r"\1.relaxed.cta"),
    (r"^((?:st|red)\.async\S*?)(?=\.mbarrier)(?<!::cluster)", r"\1.shared::cluster"),
    (r"^(tcgen05\.commit\S*one)(?!\.shared)", r"\1.shared::cluster"),
    (r"^(tcgen05\.alloc\S*aligned)\.b32", r"\1.shared::cta.b32"),
    (r"^(wgmma\.\w+(?:\.sp)?\.sync)(?!\.aligned)", r"\1.aligned"),
    (r"(barrier\.cluster\.arrive)(?!.*re(?:lease|laxed))", r"\1.release"),
    (r"(barrier\.cluster\.wait)(?!.*acquire)", r"\1.acquire"),
    (r"^ldu\.(?!global)", "ldu.global."),
    (r"getctarank\.u(?:32|64)", "getctarank.shared::cluster.u32"),
    (r"(bar|barrier)\.cta", r"\1"),
    (r"membar\.proxy", "fence.proxy"),
    (r"^(mbarrier\.\w+(?:\.\w+)?)\.(?:release|acquire)\.cta\b", r"\1"),
    (r"^st\.async\.shared", "st.async.weak.shared"),
    (r"^(st\.async\S*)\.b(32|64)$", r"\1.u\2"),
    (r"fence\.(?=cta|cluster|gpu|sys)", "fence.acq_rel."),
))  # fmt: skip
"""Other ways to write one instruction: each is tried where no form has the spelling as it stands."""


@public
@cache
def opcode(mnemonic: str) -> Opcode:
    """The row that a written opcode means, its modifiers in any order that assemblers take, without what is a hint.

    >>> opcode("add.sat.s32").mods["sat"]
    True

    Raises InstructionError where no form has this spelling.
    """
    return opcodes(mnemonic)[0]


@cache
def opcodes(mnemonic: str) -> Sequence[Opcode]:
    """All forms that have a spelling, which their operands tell apart; those that compilers write stand alone."""
    tried = [mnemonic]
    for pattern, meant in _SYNONYMS:
        tried += [pattern.sub(meant, text) for text in tried if pattern.search(text)]
    match = next(filter(None, (tuple(_opcodes(text)) for text in dict.fromkeys(tried))), ())
    if not match:
        raise InstructionError(f"no instruction is spelled {mnemonic}", given=mnemonic, allowed=_near(mnemonic))
    return match


def _opcodes(mnemonic: str) -> Iterator[Opcode]:
    name, *written = mnemonic.split(".")
    compilers = False
    for row, number in _by_opcode().get(name, ()):
        form = row.forms[number]
        hints = tuple(word for word in written if _is_hint(row, word))
        words = tuple(word for word in written if word not in hints)
        free = {key: value for key, table in form.wording.modifiers.items() for value in list(table)[:1]}
        holes = _template(row.name, number)
        match = _matched(holes, words, row.also)
        if match is None:
            match = _matched(holes, words, {**_SAME, **row.also})
        if match is not None:
            compilers |= row.written
            if row.written or not compilers:
                yield Opcode(row, form, {**free, **match}, _outs(row, form, {**free, **match}), hints)


def _is_hint(row: Instruction, word: str) -> bool:
    return any(re.fullmatch(hint, word) for hint in row.hints)


def _outs(row: Instruction, form: Form, mods: Mapping[str, Argument]) -> tuple[str, ...]:
    """The results of a row that may have several: forms with the same spelling but for ``out``."""
    if "out" not in form.wording.modifiers:
        return ()
    values = dict.fromkeys(str(out) for form in row.forms for out in form.wording.modifiers["out"])
    alike = (out for out in values if any(form.fits({**mods, "out": out}) for form in row.forms))
    return tuple(alike)


@public
def spelled(mnemonic: str) -> tuple[Instruction, Form, dict[str, Argument]]:
    """The form that ``mnemonic`` spells, its modifiers in any order that assemblers take.

    >>> spelled("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16")[2]["num"]
    4

    Raises InstructionError where no form has this spelling.
    """
    row = opcode(mnemonic)
    return row.row, row.form, dict(row.mods)


def _near(mnemonic: str) -> str:
    """The spellings that begin with the same two words; else the beginnings, or the opcodes."""
    name = mnemonic.split(".")[0]
    if name not in _by_opcode():
        return choices(name, _by_opcode())
    names = [spelling.split(".") for spelling in dict.fromkeys(_spellings(name))]
    for words in (2, 1):
        begin = mnemonic.split(".")[:words]
        same = [name for name in names if name[:words] == begin]
        beginnings = dict.fromkeys(".".join(name[: words + 1]) for name in same)
        if same:
            return "\n".join(map(".".join, same[:_MOST])) if words == 2 else choices(mnemonic, beginnings)
    return choices(name, _by_opcode())


_MOST = 40  # spellings that an error lists


def _spellings(name: str) -> Iterator[str]:
    for row, number in _by_opcode()[name]:
        yield from (row.forms[number].mnemonic(mods) for mods in row.forms[number].all_mods())
