"""A verdict as data: what was run, on which inputs, under which checks, what was found, and what was not checked.

The fields are the schema: `Report.as_dict` is what ``tilewright check --json`` prints. A new field leaves `SCHEMA` as
it is; a change of a field's meaning raises it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.errors import SimulationError, TilewrightError
from tilewright.explain import Finding
from tilewright.records import NotebookText

if TYPE_CHECKING:
    from tilewright.terms import Dialect

__all__ = [
    "EXIT_CODES", "SCHEMA", "TRACE", "Finding", "Report", "Verdict", "report_from", "verdict_on",
]  # fmt: skip

TRACE = "tilewright.trace/1"
"""The version of what traces say of themselves: their ``otherData``."""
SCHEMA = "tilewright.verdict/2"
EXIT_CODES = {"clean": 0, "wrong": 1, "refused": 2, "stopped": 3}
WORSE = ("clean", "refused", "stopped", "wrong")  # of several verdicts the last one counts
"""Exit codes by status. wrong: something was found in the kernel. refused: nothing was judged, as it could not be run
as asked, or is no kernel. stopped: at a limit of time or memory, so that nothing is known.
"""


@dataclass(frozen=True, repr=False)
class Verdict(NotebookText):
    """The result of one run of one kernel. inputs: a line for each argument. seconds: the time of the run. builds:
    those that ran, where there are several, see `Finding.builds`. orders: the choices of its runs, by name. coverage:
    where the smallest launch was asked for, or arguments are proposed, how many blocks of code it reaches, of how many,
    and what was chosen.
    proposed: options that say which arguments nobody gave, so that they were made up. times: on a GPU, where they were
    asked for: seconds at least and about, what bounds it, and why.
    """

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
    builds: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    coverage: Mapping[str, Any] = field(default_factory=dict)
    proposed: tuple[str, ...] = ()
    times: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Was nothing wrong found?"""
        return self.status == "clean"

    @property
    def said(self) -> str:
        """The status as a person reads it: clean, or clean but for so many warnings.

        >>> Verdict("k", "clean", findings=(Finding("warning", "no fence", "warning"),)).said
        'clean but for 1 warning'
        """
        warned = sum(finding.severity == "warning" for finding in self.findings)
        return f"clean but for {warned} warning{'s' * (warned > 1)}" if self and warned else self.status

    def __str__(self) -> str:
        return "\n".join([f"{self.kernel}: {self.said}", *map(str, self.findings)])

    def __repr__(self) -> str:
        many = len(self.findings)
        return f"<Verdict: {self.kernel}: {self.status}, {many} finding{'s' * (many != 1)}>"

    def first_findings(self) -> Iterable[Finding]:
        """The first error, and what is no error of the run: differences and warnings."""
        first = next((finding for finding in self.findings if finding.severity == "error"), None)
        return (f for f in self.findings if f is first or f.severity != "error" or f.kind == "results")

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
        """The worst status of its verdicts: wrong, whatever was not judged besides."""
        return max((verdict.status for verdict in self.verdicts), key=WORSE.index, default="refused")

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return EXIT_CODES[self.status]

    def in_dialect(self, dialect: Dialect) -> Report:
        """The same report in another language, or in the words of the command line."""
        said = (
            replace(verdict, findings=tuple(finding.said(dialect) for finding in verdict.findings))
            for verdict in self.verdicts
        )
        return replace(self, verdicts=tuple(said))

    def as_dict(self, version: int = 2) -> dict[str, Any]:
        """The report as JSON has it; in version 1 a run that went on after its first finding has just that one."""
        fields = {"schema": f"{SCHEMA[:-1]}{version}", "status": self.status, **asdict(self)}
        if version == 1:
            for verdict, told in zip(fields["verdicts"], self.verdicts, strict=True):
                verdict["findings"] = [finding.as_v1() for finding in told.first_findings()]
        return fields

    def __str__(self) -> str:
        return "\n".join(map(str, self.verdicts))


def coverage_text(coverage: Mapping[str, Any]) -> str:
    """A line on the blocks of code that a launch reaches, and on the launch that was chosen for them, if one was."""
    lines = ", ".join(map(str, coverage["lines_not_reached"]))
    left = f"; not reached: a branch of line {lines}" if lines else ""
    if "chosen" not in coverage:
        return f"{coverage['reached']} of {coverage['blocks']} blocks of code reached{left}"
    chosen = ", ".join(f"{name} = {value}" for name, value in coverage["chosen"].items())
    whole = ", ".join(f"{name} = {value}" for name, value in coverage["given"].items())
    why = f"; the smallest launch that does: {chosen} for {whole}" if chosen != whole else "; no smaller launch does"
    return f"{coverage['reached']} of {coverage['blocks']} blocks of code reached{left}{why}"


def notes_on(verdict: Verdict) -> Iterator[str]:
    """Lines on the smallest launch, and on arguments that were made up, with what is to be thought of findings then."""
    if verdict.coverage.get("blocks"):
        yield coverage_text(verdict.coverage)
    if verdict.proposed:
        by_size = any(finding.kind == "bounds" for finding in verdict.findings)
        doubt = "; what is outside of an array is so with these sizes" * by_size
        yield f"proposed, as the text does not say it: {' '.join(verdict.proposed)}{doubt}"


def verdict_on(name: str, error: TilewrightError | MemoryError, told: Iterable[Finding] = (), **fields: Any) -> Verdict:
    """On a kernel, or a file, that an error has ended. told: what was found before. fields: of the verdict."""
    left = (f"everything after that: {name} stopped there",)
    if isinstance(error, MemoryError):
        limit = Finding("limit", f"not enough memory: {error}" if str(error) else "not enough memory")
        return Verdict(name, "stopped", findings=(limit, *told), not_covered=left, **fields)
    return Verdict(name, status_of(error), findings=(*error.findings, *told), not_covered=left, **fields)


def unjudged(name: str, status: str, *findings: Finding) -> Verdict:
    """On a kernel of which nothing was judged."""
    return Verdict(name, status, findings=findings, not_covered=("everything",))


def status_of(error: TilewrightError) -> str:
    """The status for an error: wrong where a run or a launch has gone wrong, stopped at a limit, else refused: nothing
    was judged.
    """
    if error.kind == "limit":
        return "stopped"
    return "wrong" if isinstance(error, SimulationError) else "refused"


def report_from(fields: Mapping[str, Any]) -> Report:
    """A report from its fields. Inverse of `Report.as_dict`."""
    verdicts = [
        Verdict(**{
            **verdict,
            "findings": tuple(map(Finding.from_dict, verdict["findings"])),
            "checks": tuple(verdict["checks"]),
            "builds": tuple(verdict.get("builds", ())),
            "orders": tuple(verdict.get("orders", ())),
            "proposed": tuple(verdict.get("proposed", ())),
            "not_covered": tuple(verdict["not_covered"]),
        })
        for verdict in fields["verdicts"]
    ]  # fmt: skip
    return Report(fields["file"], tuple(verdicts), fields["limits"])
