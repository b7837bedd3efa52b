"""A verdict as data: what was run, on which inputs, under which checks, what was found, and what was not checked.

The fields are the schema: `Report.as_dict` is what ``tilewright check --json`` prints. A new field leaves `SCHEMA` as
it is; a change of a field's meaning raises it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright.errors import ArgumentError, TargetError, TilewrightError

__all__ = [
    "EXIT_CODES",
    "SCHEMA",
    "Finding",
    "Report",
    "Verdict",
    "finding_of",
    "report_from",
    "verdict_on",
    "warning_of",
]

SCHEMA = "tilewright.verdict/1"
EXIT_CODES = {"clean": 0, "wrong": 1, "refused": 2, "stopped": 3}
"""Exit codes by status. wrong: something was found in the kernel. refused: it could not be run as asked. stopped: at a
limit of time or memory, so that nothing is known.
"""

_CHECK_OF = {  # the file of the simulator that found it
    "alignment": "alignment", "arithmetic": "arithmetic", "bounds": "bounds", "descriptors": "descriptors",
    "leaks": "leaks", "shadows": "poison", "poison": "poison", "registers": "registers", "stuck": "deadlock",
    "turns": "livelock", "sync": "divergence", "limits": "limit",
}  # fmt: skip
_PLACE = re.compile(r"\S+:\d+:?")
_THREADS = re.compile(
    r"CTA \((\d+), (\d+), (\d+)\)(?: and \d+ more CTAs)?(?:, warp (\d+))?(?:, lanes? (\d+(?:\.\.\d+)?))?"
)


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    kind: the check that found it, or for a kernel that does not compile what refused it: kernel, dispatch, instruction,
    target, argument, layout, tool; results: other values than expected; limit; warning. threads: the threads involved,
    the first few: "cta" (x, y, z), "warp", "lanes" ("3" or "16..31"). given, allowed, hint: what a report prints beside
    them.
    """

    kind: str
    message: str
    severity: str = "error"
    file: str | None = None
    line: int | None = None
    column: int | None = None
    buffer: str | None = None
    threads: tuple[Mapping[str, Any], ...] = ()
    given: str | None = None
    allowed: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.file.rsplit('/', 1)[-1]}:{self.line}: " if self.file and self.line else ""
        fields = [("given", self.given), ("allowed", self.allowed), ("try", self.hint)]
        more = [f"  {name + ':':<9}" + text.replace("\n", "\n" + " " * 11) for name, text in fields if text]
        return "\n".join([f"{place}{self.message} [{self.kind}]", *more])


@dataclass(frozen=True)
class Verdict:
    """The result of one run of one kernel. inputs: a line for each argument. seconds: the time of the run."""

    kernel: str
    status: str
    target: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_covered: tuple[str, ...] = ()
    instructions: Mapping[str, int] = field(default_factory=dict)
    bank_conflicts: int | None = None
    output: str = ""
    seconds: float = 0.0

    def __bool__(self) -> bool:
        """Was nothing wrong found?"""
        return self.status == "clean"

    def __str__(self) -> str:
        return "\n".join([f"{self.kernel}: {self.status}", *map(str, self.findings)])

    def assert_clean(self) -> None:
        """Raises AssertionError with every finding, if there is one: for tests."""
        assert self, str(self)


@dataclass(frozen=True)
class Report:
    """The verdicts on the kernels of one file. limits: what each run might take."""

    file: str
    verdicts: tuple[Verdict, ...]
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The worst status of its verdicts."""
        return max((each.status for each in self.verdicts), key=lambda status: EXIT_CODES[status], default="refused")

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return EXIT_CODES[self.status]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {"schema": SCHEMA, "status": self.status, **asdict(self)}

    def __str__(self) -> str:
        return "\n".join(map(str, self.verdicts))


def finding_of(error: TilewrightError, buffers: Iterable[str] = ()) -> Finding:
    """An error as fields. buffers: the names among which its buffer is looked for."""
    given = _text(error.given)
    return Finding(
        kind=_kind(error),
        message=error.what,
        file=error.at.file if error.at else None,
        line=error.at.line if error.at else None,
        column=error.at.column if error.at else None,
        buffer=_named(f"{error.what} {given or ''}", buffers),
        threads=tuple(_threads(given or "")),
        given=given,
        allowed=_text(error.allowed),
        hint=error.hint,
    )


def warning_of(text: str, buffers: Iterable[str]) -> Finding:
    """A warning of a run. buffers: as of `finding_of`."""
    return Finding("warning", text, "warning", buffer=_named(text, buffers), threads=tuple(_threads(text)))


def verdict_on(
    name: str,
    error: TilewrightError | MemoryError,
    told: Iterable[Finding] = (),
    buffers: Iterable[str] = (),
    **known: Any,
) -> Verdict:
    """On a kernel, or a file, that an error has ended. told: what was found before; known: fields of the verdict."""
    left = (f"everything after that: {name} stopped there",)
    if isinstance(error, MemoryError):
        found = Finding("limit", f"not enough memory: {error}" if str(error) else "not enough memory")
        return Verdict(name, "stopped", findings=(found, *told), not_covered=left, **known)
    return Verdict(name, status_of(error), findings=(finding_of(error, buffers), *told), not_covered=left, **known)


def status_of(error: TilewrightError) -> str:
    """The status for an error: wrong, refused where the call is to blame, or stopped."""
    if _kind(error) == "limit":
        return "stopped"
    return "refused" if isinstance(error, (ArgumentError, TargetError)) and error.at is None else "wrong"


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _kind(error: TilewrightError) -> str:
    """The check that found it, by the file of the simulator that raised it; else the name of the error's class."""
    trace, files = error.__traceback__, []
    while trace is not None:
        files.append(str(trace.tb_frame.f_globals.get("__name__", "")))
        trace = trace.tb_next
    if type(error).__name__ != "SimulationError":
        return type(error).__name__.removesuffix("Error").lower()
    if (said := error.what.partition(":")[0]) in ("deadlock", "divergence", "livelock"):
        return said
    for name in reversed(files):
        if name.startswith("tilewright.sim.order."):
            return "races"
        if name.startswith("tilewright.sim.") and (found := _CHECK_OF.get(name.rpartition(".")[2])):
            return found
    return "simulation"


def _named(text: str, buffers: Iterable[str]) -> str | None:
    """The buffer whose name comes first in a text, places in files aside: ``a.py:7``."""
    text = _PLACE.sub("", text)
    places = {name: re.search(rf"\b{re.escape(name)}\b", text) for name in buffers}
    found = {name: match.start() for name, match in places.items() if match}
    return min(found, key=lambda name: (found[name], -len(name)), default=None)


def _threads(text: str) -> Iterable[Mapping[str, Any]]:
    for match in _THREADS.finditer(text):
        x, y, z, warp, lanes = match.groups()
        yield {"cta": (int(x), int(y), int(z)), "warp": int(warp) if warp else None, "lanes": lanes}


def report_from(fields: Mapping[str, Any]) -> Report:
    """A report from its fields. Inverse of `Report.as_dict`."""
    verdicts = [
        Verdict(**{
            **each,
            "findings": tuple(Finding(**{**one, "threads": tuple(one["threads"])}) for one in each["findings"]),
            "checks": tuple(each["checks"]),
            "not_covered": tuple(each["not_covered"]),
        })
        for each in fields["verdicts"]
    ]  # fmt: skip
    return Report(fields["file"], tuple(verdicts), fields["limits"])
