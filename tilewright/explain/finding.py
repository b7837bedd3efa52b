"""A finding, fields from the place where it is found to the person or program that reads it; what would mend it; and
the findings of one run, without what practice has shown to be harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.errors import ArgumentError, Span, TilewrightError, choices
from tilewright.terms import Term, Told, barrier, told

if TYPE_CHECKING:
    from tilewright.errors import SimulationError, Span
    from tilewright.terms import Dialect

__all__ = [
    "BUILDS", "IDIOMS", "WAITING", "Collected", "Edit", "Facts", "Finding", "OtherAccess", "Remedy", "Threads", "Way",
    "advised", "at_once", "between", "either", "insert", "instruction", "joined", "keyword", "move", "numbered",
    "operand", "other_parity", "parse_idioms", "place_of", "replaced", "reworded", "spans_of",
]  # fmt: skip

# What would mend a finding, as data that a program can apply without understanding a kernel.


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
    return Edit("insert", first, _code_text(code), last=first if last is None else last)


def keyword(line: int, name: str, value: object) -> Edit:
    """A keyword of the instruction at a line."""
    return Edit("keyword", line, repr(value), name)


def replaced(line: int, code: Term | str) -> Edit:
    """Another statement in place of that of a line."""
    return Edit("replace", line, _code_text(code))


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


def _code_text(code: Term | str) -> str:
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
    return Told(hint.parts, Remedy(step, scope, where, code=None if code is None else _code_text(code), ways=kept))


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


BUILDS = {"optimised": "only in optimised code", "unoptimised": "hidden by the compiler today"}
"""The builds of a .cu file, and what a finding says that only this one has."""
Facts: TypeAlias = dict[str, Any]
"""Fields of a `Finding` by name, of an error or a warning that is not a finding yet."""


def place_of(at: Span | None) -> Facts:
    """Those that say where something is."""
    return {"file": at.file, "line": at.line} if at is not None else {}


def spans_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Rising numbers as spans of those that follow each other, each with both of its ends."""
    spans = list[tuple[int, int]]()
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], number
        else:
            spans.append((number, number))
    return spans


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """``warp 1`` or ``warps 0..3, 5``, of rising numbers.

    >>> numbered("lane", [1]), numbered("lane", [1, 3, 5]), numbered("warp", [0, 1, 2, 4])
    ('lane 1', 'lanes 1, 3, 5', 'warps 0..2, 4')
    """
    shown = [str(first) if first == last else f"{first}..{last}" for first, last in spans_of(numbers)]
    return f"{noun}{'' if len(shown) == 1 and shown[0].isdecimal() else 's'} {', '.join(shown)}"


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
        named = [numbered(name, range(ends[0], ends[1] + 1)) for name, ends in some if ends is not None]
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
        passed, allowed = (_text(field) for field in (error.given, error.allowed))
        place = {"file": at.file, "line": at.line, "column": at.column} if at else {}
        fields: dict[str, Any] = {**place, **error.facts, **more}
        return cls(error.kind, error.what, given=passed, allowed=allowed, hint=error.hint, **fields)

    def said(self, dialect: Dialect) -> Finding:
        """The same finding in another language."""
        message, passed, allowed, hint = (
            text and dialect.said(text) for text in (self.message, self.given, self.allowed, self.hint)
        )
        remedy = self.remedy and self.remedy.said(dialect)
        return replace(self, message=message or "", given=passed, allowed=allowed, hint=hint, remedy=remedy)

    def as_v1(self) -> dict[str, Any]:
        """Its fields as version 1 of the schema has them; threads: the first of each of the two accesses."""
        fields = {name: value for name, value in asdict(self).items() if name in V1}
        every = (*self.threads[:1], *(self.other.threads[:1] if self.other else ()))
        return fields | {"threads": [threads.as_v1() for threads in every]}

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
    fields = ({name: tuple(value) if isinstance(value, list) else value for name, value in row.items()} for row in rows)
    return tuple(Threads(**row) for row in fields)  # type: ignore[arg-type]  # as many numbers as were written


def _text(field: object) -> str | None:
    """A field of an error, its terms kept."""
    return field if field is None or isinstance(field, str) else str(field)


def reworded(error: TilewrightError, dialect: Dialect) -> TilewrightError:
    """The same error, its fields in another language."""
    findings = tuple(finding.said(dialect) for finding in error.findings) if error.is_told else ()
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


# Benign idioms: what the memory model does not order, and is no finding in kernels of others, since practice does.


@dataclass(frozen=True, slots=True)
class Idiom:
    """what: a sentence of what the kernel does; reason: why it is no mistake. is_told: as a warning, all the same."""

    what: str
    reason: str
    is_told: bool = False


IDIOMS = {
    "equal-values": Idiom(
        "Several threads store one value to one place, unordered.",
        "Whichever comes last, the value is the same, also where sums differ in rounding alone.",
    ),
    "last-block": Idiom(
        "The CTA with a counter's last number reads what others wrote before a fence, with none behind the number.",
        "NVIDIA's sample threadFenceReduction is like that; but L1 may hold old values of what the CTA read before.",
        is_told=True,
    ),
    "checked-read": Idiom(
        "A plain read only decides whether, or by compare-and-swap what, an atomic changes; or that changes nothing.",
        "An old value costs a turn of the loop, or an atomic in vain, and no more.",
    ),
    "shuffled": Idiom(
        "A lane stores to shared memory where another lane of its warp has read, and what it stores depends by "
        "shuffles on what that lane has read, as in the reduction of a block.",
        "The value is not there before the read has taken place.",
    ),
    "narrow-scope": Idiom(
        "A buffer is filled again by another CTA of the cluster after reads that an m-barrier tells of, at a scope "
        "that does not hold both threads.",
        "Compilers, Triton's for Blackwell among them, leave the scope at that of the CTA: reads are over by then.",
    ),
    "ended-mbarrier": Idiom(
        "One lane ends an m-barrier for all that have used it with it.",
        "libcu++'s pipelines and barriers end theirs like that, once the warp has met.",
    ),
    "ended-lanes": Idiom(
        "The mask of a vote, a shuffle or a barrier of a warp names lanes that have returned.",
        "PTX has the others go on without them; to read from such a lane is an error.",
    ),
}
"""By name: `check` leaves their warnings out, unless it is asked to be strict about them."""


def parse_idioms(wanted: str | Iterable[str]) -> frozenset[str]:
    """The idioms that are meant: "all", names with commas between them, or several names.

    >>> sorted(parse_idioms("shuffled,last-block"))
    ['last-block', 'shuffled']
    """
    names = wanted.split(",") if isinstance(wanted, str) else [*wanted]
    idioms: set[str] = set()
    for name in filter(None, (name.strip() for name in names)):
        if name != "all" and name not in IDIOMS:
            raise ArgumentError(f"unknown idiom {name!r}", given=name, allowed=choices(name, ("all", *IDIOMS)))
        idioms |= IDIOMS.keys() if name == "all" else {name}
    return frozenset(idioms)


# The findings of one run: alike ones are counted, what follows from another one is not told as a new one.


@dataclass
class _Entry:
    error: SimulationError
    count: int = 1
    follows: int = 0


@dataclass
class Collected:
    """A mutable list of errors after which a run goes on. most: at the last of so many it stops. heard: is called with
    each that is new.
    """

    most: int
    entries: dict[Hashable, _Entry] = field(default_factory=dict)
    heard: Callable[[SimulationError], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.entries)

    def again(self, key: Hashable) -> bool:
        """Has one of this key been told? Then it is counted once more."""
        if (entry := self.entries.get(key)) is None:
            return False
        entry.count += 1
        return True

    def followed(self, key: Hashable) -> None:
        """Something was found that follows from the finding of this key."""
        self.entries[key].follows += 1

    def about(self, buffer: str) -> Hashable | None:
        """The key of a finding about a buffer; None where there is none."""
        return next((key for key, entry in self.entries.items() if entry.error.facts.get("buffer") == buffer), None)

    def tell(self, key: Hashable, error: SimulationError) -> None:
        """A finding. One of the same key was told before: this one is it again, or at another line follows from it.

        Raises the error that is the run's, once there are as many as wanted.
        """
        if (entry := self.entries.get(key)) is not None:
            if _line(entry.error) == _line(error):
                entry.count += 1
            else:
                entry.follows += 1
            return
        self.entries[key] = _Entry(error)
        if self.heard is not None:
            self.heard(error)
        if len(self.entries) >= self.most:
            raise self.error()

    def error(self, last: SimulationError | None = None) -> SimulationError:
        """The first error, with the findings of all. last: the one that has ended the run."""
        if last is not None and all(entry.error is not last for entry in self.entries.values()):
            self._end(last)
        entries = [*self.entries.values()]
        _widen([entry.error for entry in entries])
        first = entries[0].error
        first.findings = tuple(
            replace(Finding.of(entry.error), count=entry.count, follows=entry.follows) for entry in entries
        )
        return first

    def _end(self, last: SimulationError) -> None:
        """The error that ended the run. At a limit, or where threads wait after a conflict of counts, it follows."""
        here = (key for key, entry in self.entries.items() if _line(entry.error) == _line(last) and last.at)
        if (same := next((key for key in here if self.entries[key].error.kind == last.kind), None)) is not None:
            self.followed(same)
            return
        kinds = {entry.error.kind: key for key, entry in self.entries.items()}
        cause = kinds.get("divergence") if last.kind in WAITING else next(iter(kinds.values()), None)
        if cause is not None and last.kind in (*WAITING, "limit"):
            self.followed(cause)
        else:
            self.entries["end"] = _Entry(last)

    def told_as(self, kind: str, error: SimulationError) -> None:
        """Another run has explained the first finding of a kind: its error takes the place."""
        buffer = error.facts.get("buffer")
        same = [entry for entry in self.entries.values() if entry.error.kind == kind]
        there = [entry for entry in same if entry.error.facts.get("buffer") == buffer]
        for entry in (there or same)[:1]:
            entry.error = error


def _widen(errors: Sequence[SimulationError]) -> None:
    """Where a barrier of a warp would mend one race and one of the CTA another, and one place does for both, the latter
    is enough. Of lines around a loop the later one stands first.
    """
    barriers = [(error, hint.remedy) for error in errors if isinstance(hint := error.hint, Told) and hint.remedy]
    barriers = [(error, remedy) for error, remedy in barriers if remedy.step == "barrier" and len(remedy.where) == 2]
    for error, remedy in barriers:
        for other, wide in barriers if remedy.scope == "warp" else ():
            first, then = max(remedy.where[0], wide.where[0]), min(remedy.where[1], wide.where[1])
            turns = [where[0] > where[1] for where in (remedy.where, wide.where, (first, then))]
            if wide.scope == "cta" and first != then and len({*turns}) == 1 and _file(other) == _file(error):
                text = told("{} between line {} and line {}", barrier("cta"), first, then)
                error.hint = hint = advised(text, "barrier", "cta", (first, then), barrier("cta"))
                error.facts = {**error.facts, "remedy": hint.remedy}
                break


WAITING = ("deadlock", "livelock")


def _file(error: SimulationError) -> str | None:
    return error.at.file if error.at else None


def _line(error: SimulationError) -> object:
    return error.at and (error.at.file, error.at.line)
