"""What would mend a finding, as data that a program can apply without understanding a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.terms import Term, Told, told

if TYPE_CHECKING:
    from tilewright.terms import Dialect


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a kernel's text.

    how: insert, ``text`` as a statement of its own before a line from ``line`` to ``last``, the last the likeliest, or
    anywhere for line 0; replace, the statement of ``line`` becomes ``text``; keyword, of the instruction at ``line``,
    ``name`` becomes ``text``; operand, the same of the operand ``name``, which ``{}`` in ``text`` stands for; atomic,
    ``x[i] = x[i] + y`` at ``line`` becomes the atomic of its operator; instruction, that at ``line`` becomes the one
    called ``name``, with one operand more if there is a ``text``; move, the statement of ``line`` before a line from
    ``first`` to ``last``, or anywhere for none.
    """

    how: str
    line: int
    text: str = ""
    name: str | None = None
    first: int | None = None
    last: int | None = None

    def said(self, dialect: Dialect) -> Edit:
        """The same in another language."""
        return replace(self, text=dialect.said(self.text) + dialect.end * (self.how in ("insert", "replace")))


BEHIND = 3  # lines that follow an access in its turn of a loop
Way = tuple[Edit, ...]
"""Changes that belong together."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would mend it. step: barrier, fence, proxy_fence, atomic, wait, commit, arrival, order, count, swizzle,
    initialise, other. scope: warp, cta, cluster, gpu or sys. where: lines between which the step belongs; of one line,
    right before it. why: a sentence. code: the statement, in the words of the kernel's language. ways: each is a list
    of changes that may mend it by itself, the likeliest first; none where it takes a person.
    """

    step: str
    scope: str | None = None
    where: tuple[int, ...] = ()
    why: str | None = None
    code: str | None = None
    ways: tuple[Way, ...] = ()

    def said(self, dialect: Dialect) -> Remedy:
        """The same in another language."""
        ways = tuple(tuple(edit.said(dialect) for edit in way) for way in self.ways)
        why, code = (text and dialect.said(text) for text in (self.why, self.code))
        return replace(self, why=why, code=code and code + dialect.end, ways=ways)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Remedy:
        """Inverse of ``dataclasses.asdict``, also after JSON has made lists of tuples."""
        ways = tuple(tuple(Edit(**edit) for edit in way) for way in fields.get("ways", ()))
        return cls(**{**fields, "where": tuple(fields["where"]), "ways": ways})


def between(code: Term | str, *where: int) -> Way:
    """A statement between two lines, or right before one; around a loop, whose later line stands first, also in the
    lines that follow the other one.
    """
    first, last = (where[0] + 1, where[-1]) if len(where) > 1 else (where[0], where[0])
    return (insert(code, first, last) if first <= last else insert(code, last, first + BEHIND),)


def insert(code: Term | str, first: int, last: int | None = None) -> Edit:
    """A statement in front of a line of these."""
    return Edit("insert", first, _text(code), last=first if last is None else last)


def keyword(line: int, name: str, value: object) -> Edit:
    """A keyword of the instruction at a line."""
    return Edit("keyword", line, repr(value), name)


def replaced(line: int, code: Term | str) -> Edit:
    """Another statement in place of that of a line."""
    return Edit("replace", line, _text(code))


def operand(line: int, name: str, value: object) -> Edit:
    """An operand of the instruction at a line."""
    return Edit("operand", line, str(value), name)


def instruction(line: int, name: str, more: object = "") -> Edit:
    """Another instruction in place of that of a line, with the same operands, and perhaps one more."""
    return Edit("instruction", line, str(more), name)


def other_parity(line: int) -> Edit:
    """The other phase for a wait of a line."""
    return Edit("operand", line, "1 - {}", "phase")


def at_once(line: int) -> Edit:
    """A store of what it has read from the same place, as one atomic."""
    return Edit("atomic", line)


def move(line: int, first: int | None = None, last: int | None = None) -> Edit:
    """A statement to another place: in front of a line from ``first`` to ``last``, or anywhere."""
    return Edit("move", line, first=first, last=last)


def _text(code: Term | str) -> str:
    return told("{}", code) if isinstance(code, Term) else code


def advised(
    text: str,
    step: str,
    scope: str | None = None,
    where: tuple[int, ...] = (),
    code: Term | str | None = None,
    ways: Iterable[Way] | None = None,
) -> Told:
    """A hint and the fields of its remedy. ways: left out, the code between the lines."""
    if ways is None:
        ways = [between(code, *where)] if code is not None and where else []
    hint = told("{}", text)
    kept = tuple(way for way in ways if way)
    return Told(hint.parts, Remedy(step, scope, where, code=None if code is None else _text(code), ways=kept))


def either(text: str, *ways: Way, step: str = "other") -> Told:
    """The same hint, whose remedy has some ways more."""
    hint = text if isinstance(text, Told) else told("{}", text)
    remedy = hint.remedy or Remedy(step)
    return Told(hint.parts, replace(remedy, ways=(*remedy.ways, *(way for way in ways if way))))


def joined(texts: Iterable[str | None]) -> Told:
    """Hints one after the other, as one: its remedy does what all of them say, the first names its step."""
    hints = [text for text in texts if text]
    remedies = [hint.remedy for hint in hints if isinstance(hint, Told) and hint.remedy is not None]
    every = told("; ".join("{}" for _ in hints), *hints)
    if not remedies:
        return every
    whole = tuple(edit for remedy in remedies for edit in (remedy.ways[0] if remedy.ways else ()))
    return Told(every.parts, replace(remedies[0], ways=(whole,) if whole else ()))
