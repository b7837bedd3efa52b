"""The errors that users see: fields, and the only code that puts them into words.

An error carries *what* went wrong, what was *given*, what is *allowed*, a *hint* that has been tried, and the place in
the kernel (*at*). Raise fields, never prose; the lines a user reads are put together here and nowhere else.
"""

from __future__ import annotations

import linecache
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from tilewright.explain import Finding

__all__ = [
    "ArgumentError", "DispatchError", "InstructionError", "KernelError", "LayoutError", "SimulationError", "Span",
    "TargetError", "TilewrightError", "TilewrightWarning", "ToolError", "choices", "described", "located", "warn",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a user's source file: 1-based line, 0-based columns as in Python's ``ast``.

    outer: where its function was called, if that function has been inlined.
    """

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    outer: Span | None = None

    @classmethod
    def from_column(cls, file: str | None, line: int | None, column: int | None) -> Span | None:
        """A line from a column on, 0 if left out; None where file or line is."""
        return cls(file, line, column or 0, 1 << 16) if file and line else None

    def __str__(self) -> str:
        here = f"{self.file.rsplit('/', 1)[-1]}:{self.line}"
        return here if self.outer is None else f"{here}, called from {self.outer}"

    @property
    def outermost(self) -> Span:
        """The place where the function was called that is not inlined itself; the own place where there is none."""
        return self if self.outer is None else self.outer.outermost

    def excerpt(self) -> list[str]:
        """The source line and a line of carets under it; nothing where the source cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text.strip():
            return []
        number = str(self.line)
        first = max(self.column, len(text) - len(text.lstrip()))
        width = max(1, min(self.end_column, len(text)) - first)
        return [f"   {number} | {text}", f"   {' ' * len(number)} | {' ' * first}{'^' * width}"]


class TilewrightError(Exception):
    """The base of every error that a user can cause.

    what: one line, small first letter, no full stop, in the user's own names. given, allowed, hint: one line each, or
    several; numbers carry units. at: the kernel's line.
    """

    KIND = "tilewright"

    def __init__(
        self,
        what: str,
        *,
        given: object = None,
        allowed: object = None,
        hint: str | None = None,
        at: Span | None = None,
        kind: str | None = None,
        **facts: Any,
    ) -> None:
        """kind: of the finding; left out, the name of the class. facts: fields of the finding besides these."""
        super().__init__(what)
        self.what = what
        self.kind = kind or self.KIND
        self.facts = facts if (remedy := getattr(hint, "remedy", None)) is None else {"remedy": remedy, **facts}
        self._findings: tuple[Finding, ...] = ()
        self.recording: Any = None
        self.given = given
        self.allowed = allowed
        self.hint = hint
        self.at = at

    def advise(self, hint: str | None) -> None:
        """Give it another hint, with the remedy that this carries."""
        self.hint, self.facts = hint, {**self.facts, "remedy": getattr(hint, "remedy", None)}

    def __init_subclass__(cls) -> None:
        cls.KIND = cls.__name__.removesuffix("Error").lower()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was found, this error first: of a run that went on after it, more than one."""
        from tilewright.explain import Finding  # upwards, and only when somebody asks

        return self._findings or (Finding.of(self),)

    @findings.setter
    def findings(self, findings: tuple[Finding, ...]) -> None:
        self._findings = findings

    @property
    def is_told(self) -> bool:
        """Has a run given it findings of its own?"""
        return bool(self._findings)

    def located(self, at: Span | None) -> TilewrightError:
        """This error with a place, unless it has a more precise one already."""
        if self.at is None:
            self.at = at
        return self

    def __str__(self) -> str:
        head = f"{self.at}: {self.what}" if self.at else self.what
        excerpt = self.at.excerpt() if self.at else []
        fields = [("given:", self.given), ("allowed:", self.allowed), ("try:", self.hint)]
        lines = [head, *excerpt, *(_field(label, value) for label, value in fields if value is not None)]
        return "\n".join([*lines, *_others(self._findings[1:])])


def _others(findings: tuple[Finding, ...]) -> list[str]:
    """How many findings follow, and where."""
    if not findings:
        return []
    many = f"{len(findings)} more finding{'s' * (len(findings) > 1)} (`error.findings` in Python):"
    return [_field("then:", "\n".join([many, *(str(finding).splitlines()[0] for finding in findings)]))]


def _field(label: str, value: object) -> str:
    try:
        text = str(value)
    except Exception:  # the __str__ of a user's own value fails
        text = described(value)
    first, *rest = text.splitlines() or [""]
    return "\n".join([f"  {label:<9}{first}", *(f"  {'':<9}{line}" for line in rest)])


@contextmanager
def located(at: Span | None) -> Iterator[None]:
    """A context whose errors get a place, unless they have a more precise one already."""
    try:
        yield
    except TilewrightError as error:
        raise error.located(at) from None


class LayoutError(TilewrightError):
    """A layout that cannot be built, or an operation that its iters do not admit."""


class KernelError(TilewrightError):
    """A kernel that cannot be parsed, typed or verified."""


class UnsupportedError(KernelError):
    """A kernel of others with something that is no mistake, and that the simulator does not have."""


class DispatchError(TilewrightError):
    """A tile call that no variant takes, or a forced variant that does not fit."""


class InstructionError(TilewrightError):
    """An instruction form that does not exist, or is used against its rules."""


class TargetError(TilewrightError):
    """An architecture that does not exist, or lacks what the kernel asks for."""


class ArgumentError(TilewrightError):
    """A call whose arguments do not fit the kernel's parameters."""


class SimulationError(TilewrightError):
    """A fault, race, deadlock or poisoned value found while a kernel ran."""


class ToolError(TilewrightError):
    """A tool that is not installed or failed: NVRTC, the disassembler, a driver."""


class TilewrightWarning(UserWarning):
    """Something that works, but not as well as it could."""


def described(value: object, most: int = 80) -> str:
    """A value of a user's as an error shows it: what Python writes for it, cut where it is long, and its type.

    >>> described([1, 2])
    '[1, 2], a list'
    """
    kind = type(value).__name__
    try:
        ours = type(value).__module__.startswith("tilewright.")  # these print as in a kernel
        text = " ".join((str if ours else repr)(value).split())
    except Exception:  # their own __repr__, or an int of more digits than Python writes
        return f"a value of type {kind}"
    shown = text if len(text) <= most else text[: most - 3] + "..."
    return shown if value is None else f"{shown}, {'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def quoted(name: object) -> str:
    """What should be a name, as an error shows it: in quotes; another value with its type."""
    return repr(name) if isinstance(name, str) else described(name)


def warn(what: str, at: Span | None = None) -> None:
    """Issue a `TilewrightWarning` at the kernel's line, as if that line had issued it."""
    if at is None:
        warnings.warn(what, TilewrightWarning, stacklevel=3)
    else:
        warnings.warn_explicit(f"{at}: {what}", TilewrightWarning, at.file, at.line)


MOST_NAMES = 60  # in a line that lists what is allowed


def choices(word: object, allowed: Iterable[object]) -> str:
    """The allowed names as one line, with the nearest to ``word``; of more than `MOST_NAMES` the nearest few.

    >>> choices("laneed", ["laneid", "warpid"])
    "laneid, warpid (did you mean 'laneid'?)"
    """
    names = [str(name) for name in allowed]
    if not names:
        return ""
    from difflib import get_close_matches  # slow to import, and only errors need it

    folded = {name.casefold(): name for name in names}
    near = get_close_matches(str(word), names, n=1)
    near = near or [folded[name] for name in get_close_matches(str(word).casefold(), folded, n=1)]
    shown = names
    if len(names) > MOST_NAMES:
        shown = get_close_matches(str(word), names, n=8, cutoff=0)
        shown.append(f"and {len(names) - len(shown)} more")
    return ", ".join(shown) + (f" (did you mean {near[0]!r}?)" if near else "")
