"""`tilewright.needed`: is a barrier, a wait or a fence needed? The kernel is run without it, under every check."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.compiler import Executable, compile, unseen
from tilewright.errors import ArgumentError, TilewrightError, TilewrightWarning
from tilewright.inputs import check_one_gpu, make_arguments, without_launch
from tilewright.ir import Call, Evaluate, Kernel, Stmt, statements
from tilewright.ir.walk import map_body
from tilewright.isa import Bound, bind
from tilewright.load import LoadedKernel
from tilewright.public import at_the_edge

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim import Run

__all__ = ["Needed", "needed"]

PATIENCE = 10.0  # times as long as the whole kernel, and as many seconds, may a kernel without one line run


@dataclass(frozen=True, slots=True)
class Needed:
    """What follows if a line is deleted. text: the line. instruction: that it becomes. finding: what the checks then
    find, or how the results differ; None where nothing follows: the line is redundant, for these arguments.
    """

    file: str
    line: int
    text: str
    instruction: str
    finding: str | None
    kind: str = ""

    @property
    def needed(self) -> bool:
        """Does anything follow?"""
        return self.finding is not None

    def as_dict(self) -> dict[str, Any]:
        """Its fields, and whether it is needed, as JSON and pages have them."""
        return {**asdict(self), "needed": self.needed}

    def __str__(self) -> str:
        follows = (
            f"needed, else {self.finding} [{self.kind}]" if self.needed else "redundant: nothing is found without it"
        )
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}: {self.text}\n  {follows}"


@at_the_edge
def needed(
    kernel: Any, *args: Any, target: Any = None, sizes: Mapping[str, int] | None = None, seed: int = 0, **named: Any
) -> tuple[Needed, ...]:
    """For each barrier, wait and fence of a kernel: what follows if its line is deleted? One run each, by every check.

    kernel, args, sizes, seed, named: as of `tilewright.check`; the arguments are copied. The answer is about these
    arguments: a line that nothing follows from may be needed for others.
    Raises the error of the kernel where it has a finding with all of its lines: that comes first.
    """
    subject = kernel if isinstance(kernel, Executable | LoadedKernel) else compile(kernel, target)
    trial = _Trial.of(subject, args, named, sizes or {}, seed)
    began = monotonic()
    first = trial.run(lambda whole: whole)
    trial.settings["limit_s"] = PATIENCE * (1 + monotonic() - began)
    return tuple(trial.without(place, name, first) for place, name in _lines(trial.kernel))


def _orders(stmt: Stmt) -> Bound | None:
    """The instruction of a statement that is a barrier, a wait or a fence."""
    if not (isinstance(stmt, Evaluate) and isinstance(stmt.value, Call)):
        return None
    bound = bind(stmt.value)
    form = bound.form
    waits = form.wait is not None or form.meaning.ready is not None
    return bound if form.sync or form.fence or form.register_fence or waits else None


def _place(at: Span) -> tuple[str, int]:
    return at.file, at.line


def _lines(kernel: Kernel) -> Iterator[tuple[tuple[str, int], str]]:
    """File and line of each such statement, in their order, with the name of the instruction."""
    lines = {(_place(stmt.at), bound.instruction.name): None for stmt in statements(kernel.body)
             if stmt.at and (bound := _orders(stmt))}  # fmt: skip
    yield from sorted(lines)


def _without(kernel: Kernel, place: tuple[str, int], name: str) -> Kernel:
    """The kernel without the statements that a line has become."""

    def change(stmt: Stmt) -> tuple[Stmt, ...] | None:
        bound = _orders(stmt)
        gone = bound is not None and stmt.at is not None and _place(stmt.at) == place and bound.instruction.name == name
        return () if gone else None

    return replace(kernel, body=map_body(kernel.body, change))


@dataclass
class _Trial:
    """Runs of a kernel with statements taken out. kernel: lowered. settings: of each run."""

    subject: Executable | LoadedKernel
    kernel: Kernel
    args: tuple[Any, ...]
    settings: dict[str, Any]

    @classmethod
    def of(
        cls, subject: Executable | LoadedKernel, args: tuple[Any, ...], named: Mapping[str, Any],
        sizes: Mapping[str, int], seed: int,
    ) -> _Trial:  # fmt: skip
        if isinstance(subject, LoadedKernel):
            launch, rest = without_launch(named)
            values = subject.ordered(args, rest, [*launch])
            return cls(subject, subject.lowered(*values, **launch), values, launch)
        check_one_gpu(subject.kernel, "needed")
        values = subject.ordered(args, named, needed) or tuple(make_arguments(subject.kernel, {}, sizes, seed).values())
        return cls(subject, subject.lowered, values, {"limit_s": None, "max_findings": 1})

    def run(self, change: Callable[[Kernel], Kernel]) -> tuple[Run, tuple[Any, ...]]:
        """A run, and its arguments as it left them."""
        copies = tuple(host.copies(self.args))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TilewrightWarning)
            return self.subject.changed(change).simulate(*copies, progress=unseen, **self.settings), copies

    def without(self, place: tuple[str, int], name: str, whole: tuple[Run, tuple[Any, ...]]) -> Needed:
        """What follows if a line is deleted."""
        file, line = place
        text = linecache.getline(file, line).strip() or f"T.{name}"
        row = Needed(file, line, text, name, None)
        run, before = whole
        try:
            other, after = self.run(lambda kernel: _without(kernel, place, name))
        except TilewrightError as error:
            if isinstance(error, ArgumentError):
                raise
            return replace(row, finding=error.what, kind=error.kind)
        if (new := next((text for text in other.warnings if text not in run.warnings), None)) is not None:
            return replace(row, finding=new, kind="warning")
        differ = any(
            isinstance(a, np.ndarray) and a.tobytes() != b.tobytes() for a, b in zip(before, after, strict=True)
        )
        return replace(row, finding="other results", kind="results") if differ else row
