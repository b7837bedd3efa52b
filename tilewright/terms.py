"""Sentences that hold terms: what each language names in its own way stays data until a person reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from string import Formatter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from tilewright.explain.finding import Remedy

Spelling: TypeAlias = "str | Callable[..., str]"
"""What stands for a term: a format that its fields fill, or a function of them."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a call as a kernel writes it: ``bar.ptr_to([0])``."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Term:
    """Something with a name of its own in each language. kind: of the tables of `OURS` and
    `tilewright.explain.rules`, which have a row for the kind, or for the kind and its first field: ``barrier cta``.
    """

    kind: str
    fields: tuple[object, ...] = ()

    def __str__(self) -> str:
        return OURS.of(self) or ""


@dataclass(frozen=True)
class Dialect:
    """One language. spellings: by the kind of a term. end: what ends a statement."""

    spellings: Mapping[str, Spelling]
    end: str = ""

    def of(self, term: Term) -> str | None:
        """What a term is called here; None where it has no name."""
        spelling = self.spellings.get(f"{term.kind} {term.fields[0]}") if term.fields else None
        spelling = self.spellings.get(term.kind) if spelling is None else spelling
        fields = [self.said(field) if isinstance(field, Told) else self._named(field) for field in term.fields]
        if spelling is None:
            return None
        return spelling.format(*fields) if isinstance(spelling, str) else spelling(*fields)

    def with_names(self, shown: Callable[[str], str]) -> Dialect:
        """The same, with the names that the symbols of a program have for its author."""
        return replace(self, spellings={**self.spellings, "symbol": shown})

    def said(self, text: str) -> str:
        """A text with its terms as they are called here; those of other tables stay terms."""
        if not isinstance(text, Told):
            return text
        return Told([self._named(part) for part in text.parts], text.remedy)

    def _named(self, part: Any) -> Any:
        """A term as it is called here; anything else, and a term without a name, stays."""
        named = self.of(part) if isinstance(part, Term) else None
        return part if named is None else named


class Told(str):
    """A sentence in our own language, and what it consists of: pieces of text, and terms. remedy: what a hint says."""

    __slots__ = ("parts", "remedy")
    parts: tuple[str | Term, ...]
    remedy: Remedy | None

    def __new__(cls, parts: Iterable[str | Term], remedy: Remedy | None = None) -> Told:
        kept = tuple(parts)
        sentence = super().__new__(cls, "".join(map(str, kept)))
        sentence.parts, sentence.remedy = kept, remedy
        return sentence

    def __reduce__(self) -> tuple[type[Told], tuple[tuple[str | Term, ...], Remedy | None]]:
        return Told, (self.parts, self.remedy)


def told(sentence: str, *fields: object) -> Told:
    """A sentence with ``{}`` for each field; terms among them, and in sentences among them, stay terms.

    >>> told("{} between line {} and line {}", barrier("cta"), 3, 4)
    'T.cuda.cta_sync() between line 3 and line 4'
    """
    parts: list[str | Term] = []
    values = iter(fields)
    for text, name, _, _ in Formatter().parse(sentence):
        parts.append(text)
        if name is not None:
            value = next(values)
            parts += value.parts if isinstance(value, Told) else [value if isinstance(value, Term) else str(value)]
    return Told(part for part in parts if part != "")


def is_named(text: str | None) -> bool:
    """Has a language a name for all terms of a text that was said in it?"""
    return not isinstance(text, Told) or all(isinstance(part, str) for part in text.parts)


# The kinds of terms


def barrier(scope: str) -> Term:
    """The barrier of a warp, a CTA or a cluster."""
    return Term("barrier", (scope,))


def fence(scope: str, where: str = "", line: int = 0) -> Term:
    """A fence of both sides, for threads of a scope; where: "before" or "after" a line."""
    return Term("fence at", (where, line, Term("fence", (scope,)))) if where else Term("fence", (scope,))


def call(name: str, *operands: object, **keywords: object) -> Term:
    """A call of an instruction, ``ptx.mbarrier.init``. operands: numbers, modifiers, places, or ``...``."""
    return Term("call", (name, operands, tuple(keywords.items())))


def operation(name: str) -> Term:
    """What accesses memory: the name of an instruction, "load" or "store"."""
    return Term("operation", (name,))


def meeting(name: str) -> Term:
    """A statement at which threads meet, by the name of its instruction, its operands left out."""
    return Term("meeting", (name,))


def atomic(op: str, buffer: str) -> Term:
    """The atomic that changes an element of a buffer."""
    return Term("atomic", (op, buffer))


def strong(op: str, sem: str, scope: str = "") -> Term:
    """A store or a load, ``st`` or ``ld``, with an order."""
    return Term("strong", (op, sem, scope))


def only_if(*, cta: bool, thread: bool) -> Term:
    """The condition that leaves one CTA, one thread of each CTA, or one thread of all."""
    return Term("only if", (" ".join(["cta"] * cta + ["thread"] * thread),))


def symbol(name: str) -> Term:
    """A name that a program has for a linker."""
    return Term("symbol", (name,))


def register(name: str) -> Term:
    """What is in a register, or in an expression of them: only those who write PTX know these by their names."""
    return Term("register", (name,))


def option(name: str, *values: object) -> Term:
    """An argument of a function of ours, which the command line has as an option."""
    return Term("option", (name, *values))


# Our own language

Operands: TypeAlias = tuple[object, ...]
Keywords: TypeAlias = tuple[tuple[str, object], ...]
NO_BARRIER = {
    "between": "no barrier orders CTAs: write to a second array, which nobody reads, or split the kernel in two",
    "any": "no barrier orders CTAs: write different places, use atomics, or split the kernel in two",
}
"""No barrier of a kernel is between the two accesses; or none would help them at all."""


def _written(value: object) -> str:
    return "..." if value is ... else repr(value)


def listed(operands: Operands, keywords: Keywords) -> str:
    """The operands of a call as we write them."""
    return ", ".join([*map(_written, operands), *(f"{name}={_written(value)}" for name, value in keywords)])


def _ours(name: str, operands: Operands, keywords: Keywords) -> str:
    return f"T.{name}({listed(operands, keywords)})"


OURS = Dialect({
    "fence at": "{2} {0} line {1}",
    "barrier warp": "T.cuda.warp_sync()",
    "barrier cta": "T.cuda.cta_sync()",
    "barrier cluster": "T.cuda.cluster_sync()",
    "fence": "T.ptx.fence('acq_rel', {0!r})",
    "call": _ours,
    "operation": "{0}",
    "meeting": "T.{0}(...)",
    "atomic": "T.cuda.atomic_{0}({1}.ptr_to([...]), value)",
    "strong": lambda op, sem, scope: f"T.ptx.{op}(..., sem={sem!r}, scope={scope!r}), or stronger,",
    "strong st": lambda op, sem, scope: (
        f"T.ptx.st(..., sem={sem!r}, scope={scope!r}), or stronger," if scope else f'T.ptx.st(ptr, value, sem="{sem}")'
    ),
    "only if cta": "if T.cta_id() == 0: ...",
    "only if thread": "if T.thread_id() == 0: ...",
    "only if cta thread": "if T.cta_id() == 0 and T.thread_id() == 0: ...",
    "one is enough": "; one of them is enough: {0}",
    "advice": "; {0}",
    "no barrier between": NO_BARRIER["between"],
    "no barrier any": NO_BARRIER["any"],
    "trap": "T.cuda.trap()",
    "named": "T.{0}",
    "symbol": "{0}",
    "register": "{0}",
    "option": lambda name, *values: f"{name}={values[0] if len(values) == 1 else values}",
    "option target": "target={1!r}",
    "array as": "{0}.{1}({2!r})",
    "bytes of a structure": "bytes, or NumPy numbers",
    "typed number": "a NumPy number such as np.int32(7)",
    "layout": "layout={0}, align={1} for {2}",
})  # fmt: skip
"""The language of `tilewright`."""
