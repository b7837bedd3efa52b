"""A finding: fields from the place where it is found to the person or program that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.errors import Span, TilewrightError
from tilewright.explain.remedy import Remedy

if TYPE_CHECKING:
    from tilewright.terms import Dialect

BUILDS = {"optimised": "only in optimised code", "unoptimised": "hidden by the compiler today"}
"""The builds of a .cu file, and what a finding says that only this one has."""
Facts: TypeAlias = dict[str, Any]
"""Fields of a `Finding` by name, of an error or a warning that is not a finding yet."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads of CTAs that follow each other: the same warps and lanes of each.

    cta: the first of them, (x, y, z). ctas: their numbers in the grid, x fastest. warps, lanes: of a CTA, of a warp.
    All ranges hold both ends; None: all that there are. rank: of several GPUs the one that runs them.
    """

    cta: tuple[int, int, int]
    ctas: tuple[int, int]
    warps: tuple[int, int] | None = None
    lanes: tuple[int, int] | None = None
    rank: int | None = None

    def __str__(self) -> str:
        """``CTA (3, 0, 0), warp 1, lane 2``; of several CTAs the first."""
        rank = f" of rank {self.rank}" if self.rank is not None else ""
        some = (("warp", self.warps), ("lane", None if self.lanes == (0, 31) else self.lanes))
        named = [f"{name} {each[0]}" if each[0] == each[1] else f"{name}s {each[0]}..{each[1]}"
                 for name, each in some if each is not None]  # fmt: skip
        return ", ".join([f"CTA ({', '.join(map(str, self.cta))}){rank}", *named])

    def as_v1(self) -> dict[str, Any]:
        """The first CTA and warp, as version 1 of the schema has them."""
        lanes = self.lanes and "..".join(str(lane) for lane in dict.fromkeys(self.lanes))
        return {"cta": self.cta, "warp": self.warps and self.warps[0], "lanes": lanes}


@dataclass(frozen=True, slots=True)
class OtherAccess:
    """The other one of two accesses. op: what makes it; did: "written" or "read"."""

    op: str
    did: str
    file: str | None = None
    line: int | None = None
    threads: tuple[Threads, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    kind: the check that found it, or for a kernel that does not compile what refused it: kernel, dispatch, instruction,
    target, argument, layout, tool; results: other values than expected; limit; warning. place: the element of
    ``buffer``, as the kernel names it. threads: all of them. other: the access that it clashes with. operation: an
    asynchronous one that takes part. phase: parity of an m-barrier's phase. numbers: such as bytes announced and
    wanted. count: how often it was found at these lines. follows: how many more were found that come from this one.
    builds: of `BUILDS`, those that have it, where both ran. idiom: what is benign by policy, see `IDIOMS`. choice: of
    what a run may choose, what shows it.
    given, allowed, hint: what a report prints beside them.
    """

    kind: str
    message: str
    severity: str = "error"
    file: str | None = None
    line: int | None = None
    column: int | None = None
    buffer: str | None = None
    threads: tuple[Threads, ...] = ()
    given: str | None = None
    allowed: str | None = None
    hint: str | None = None
    place: str | None = None
    other: OtherAccess | None = None
    operation: str | None = None
    phase: int | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    remedy: Remedy | None = None
    count: int = 1
    follows: int = 0
    builds: tuple[str, ...] = ()
    idiom: str | None = None
    choice: str | None = None

    @classmethod
    def of(cls, error: TilewrightError, **more: Any) -> Finding:
        """An error as a finding. more: fields that the error does not know."""
        at: Span | None = error.at
        given, allowed = (_text(field) for field in (error.given, error.allowed))
        place = {"file": at.file, "line": at.line, "column": at.column} if at else {}
        fields: dict[str, Any] = {**place, **error.facts, **more}
        return cls(error.kind, error.what, given=given, allowed=allowed, hint=error.hint, **fields)

    def said(self, dialect: Dialect) -> Finding:
        """The same finding in another language."""
        message, given, allowed, hint = (
            text and dialect.said(text) for text in (self.message, self.given, self.allowed, self.hint)
        )
        remedy = self.remedy and self.remedy.said(dialect)
        return replace(self, message=message or "", given=given, allowed=allowed, hint=hint, remedy=remedy)

    def as_v1(self) -> dict[str, Any]:
        """Its fields as version 1 of the schema has them; threads: the first of each of the two accesses."""
        fields = {name: value for name, value in asdict(self).items() if name in V1}
        every = (*self.threads[:1], *(self.other.threads[:1] if self.other else ()))
        return fields | {"threads": [each.as_v1() for each in every]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Finding:
        """Inverse of ``dataclasses.asdict``, also after JSON has made lists of tuples."""
        other, remedy = fields["other"], fields["remedy"]
        return cls(**{
            **fields,
            "threads": _threads(fields["threads"]),
            "builds": tuple(fields.get("builds", ())),
            "other": other and OtherAccess(**{**other, "threads": _threads(other["threads"])}),
            "remedy": remedy and Remedy.from_dict(remedy),
        })  # fmt: skip

    def __str__(self) -> str:
        place = f"{self.file.rsplit('/', 1)[-1]}:{self.line}: " if self.file and self.line else ""
        place = "" if place and self.message.startswith(place) else place  # a warning's text has it
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        times += f" ({self.follows:,} more follow{'s' * (self.follows == 1)} from it)" if self.follows else ""
        times += f" ({BUILDS[self.builds[0]]})" if len(self.builds) == 1 else ""
        shown = self.choice and f"--replay {self.choice}"
        fields = [("given", self.given), ("allowed", self.allowed), ("try", self.hint), ("shown by", shown)]
        more = [f"  {name + ':':<9}" + text.replace("\n", "\n" + " " * 11) for name, text in fields if text]
        return "\n".join([f"{place}{self.message} [{self.kind}]{times}", *more])


V1 = ("kind", "message", "severity", "file", "line", "column", "buffer", "given", "allowed", "hint")


def _threads(rows: Iterable[Mapping[str, Any]]) -> tuple[Threads, ...]:
    made = ({name: tuple(value) if isinstance(value, list) else value for name, value in row.items()} for row in rows)
    return tuple(Threads(**row) for row in made)  # type: ignore[arg-type]  # as many numbers as were written


def _text(field: object) -> str | None:
    """A field of an error, its terms kept."""
    return field if field is None or isinstance(field, str) else str(field)


def reworded(error: TilewrightError, dialect: Dialect) -> TilewrightError:
    """The same error, its fields in another language."""
    findings = tuple(each.said(dialect) for each in error.findings) if error.is_told else ()
    error.what = dialect.said(error.what)
    error.args = (error.what,)
    error.given, error.allowed = (
        dialect.said(value) if isinstance(value, str) else value for value in (error.given, error.allowed)
    )
    error.hint = error.hint and dialect.said(error.hint)
    if (remedy := error.facts.get("remedy")) is not None:
        error.facts["remedy"] = remedy.said(dialect)
    if findings:
        error.findings = findings
    if (seen := error.recording) is not None:
        error.recording = replace(seen, findings=error.findings)
    return error
