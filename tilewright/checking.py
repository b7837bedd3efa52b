"""`tilewright.check`: a kernel compiled, run under every check, and a verdict on it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.compiler import Executable, compile
from tilewright.errors import ArgumentError, TilewrightError, TilewrightWarning, described
from tilewright.inputs import make_arguments
from tilewright.ir import AllocBuffer, Kernel, statements
from tilewright.public import Public
from tilewright.verdict import Finding, Verdict, finding_of, status_of

if TYPE_CHECKING:
    from tilewright.load import LoadedKernel
    from tilewright.sim import Run

__all__ = ["check", "check_loaded"]

public = Public(ArgumentError, {})

ALWAYS_LEFT = (
    "other inputs: the verdict is about those above",
    "outcomes of weak memory that no interleaving has",
    "speed",
)


@public
def check(
    kernel: Any,
    *args: Any,
    expect: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-3,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    checks: str | Iterable[str] = "all",
    target: Any = None,
    limit_s: float | None = None,
    limit_steps: int | None = host.MOST_STEPS,
    limit_bytes: int | None = None,
) -> Verdict:
    """Compile a kernel and run it under ``checks``; errors of the kernel become findings of the verdict, never
    exceptions.

    args: copied before the run; left out, they are random, by ``seed``, with symbolic extents of ``sizes``. expect:
    what arrays hold after it, by the name of the argument, within ``rtol`` and ``atol``. Limits as of `simulate`.

    >>> verdict = check(kernel, a, b, expect={"B": a.T})  # doctest: +SKIP
    >>> verdict.assert_clean()  # doctest: +SKIP
    """
    began = monotonic()
    authored = kernel if isinstance(kernel, Kernel) else getattr(kernel, "kernel", None)
    name = authored.name if isinstance(authored, Kernel) else str(getattr(kernel, "__name__", kernel))
    known: dict[str, Any] = {"inputs": {}, "checks": (), "target": None}
    limits: dict[str, Any] = {"limit_s": limit_s, "limit_steps": limit_steps, "limit_bytes": limit_bytes}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", TilewrightWarning)
        try:
            made = kernel if isinstance(kernel, Executable) else compile(kernel, target)
            known["target"] = str(made.target)
            known["checks"] = tuple(sorted(_parsed(checks)))
            values = _arguments(made, args, sizes or {}, seed)
            known["inputs"] = {name: _described(value) for name, value in values.items()}
            run = made.simulate(*values.values(), check=known["checks"], progress=_silent, **limits)
        except (TilewrightError, MemoryError) as error:
            return _stopped(name, error, _buffers(authored), _warned(heard), known | {"seconds": monotonic() - began})
    differs = [*_differences(values, expect or {}, rtol, atol)]
    return _finished(name, run, [*differs, *_warned(heard)], expect, known | {"seconds": monotonic() - began})


def check_loaded(kernel: LoadedKernel, args: Sequence[Any], checks: str | Iterable[str], launch: Mapping[str, Any]
                 ) -> tuple[Verdict, Run | TilewrightError | MemoryError]:  # fmt: skip
    """Run a kernel that others wrote: a verdict of the same kind, and the run or the error. Arrays are changed in
    place.

    launch: what `LoadedKernel.simulate` takes besides.
    """
    began, names = monotonic(), kernel.parameters
    known: dict[str, Any] = {
        "target": kernel.target, "checks": tuple(sorted(_parsed(checks))),
        "inputs": {name: _described(value) for name, value in zip(names, args, strict=False)},
    }  # fmt: skip
    try:
        run = kernel.simulate(*args, check=known["checks"], progress=_silent, **launch)
    except (TilewrightError, MemoryError) as error:
        return _stopped(kernel.name, error, names, [], known | {"seconds": monotonic() - began}), error
    return _finished(kernel.name, run, [], None, known | {"seconds": monotonic() - began}), run


def _stopped(
    name: str, error: TilewrightError | MemoryError, buffers: Iterable[str], told: Iterable[Finding],
    known: Mapping[str, Any],
) -> Verdict:  # fmt: skip
    """The verdict on a run that an error has ended."""
    if isinstance(error, MemoryError):
        return Verdict(name, "stopped", findings=(Finding("limit", f"not enough memory: {error}"),), **known)
    left = (f"everything after that: {name} stopped there",)
    return Verdict(name, status_of(error), findings=(finding_of(error, buffers), *told), not_covered=left, **known)


def _finished(
    name: str, run: Run, told: Iterable[Finding], expect: Mapping[str, Any] | None, known: Mapping[str, Any]
) -> Verdict:
    """The verdict on a run that came to its end. told: differences from the expected arrays, and warnings."""
    found = (*told, *(Finding("warning", text, "warning") for text in run.warnings))
    return Verdict(
        name, "wrong" if any(one.severity == "error" for one in found) else "clean", findings=found,
        not_covered=tuple(_left(known["checks"], expect)), instructions=run.counts.instructions,
        bank_conflicts=run.counts.bank_conflicts, output=run.output, **known,
    )  # fmt: skip


def _silent(done: int, ctas: int) -> None:
    """A progress report that shows nothing."""


def _parsed(checks: str | Iterable[str]) -> frozenset[str]:
    from tilewright.sim import parse_checks

    return parse_checks(checks)


def _arguments(made: Executable, args: tuple[Any, ...], sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Copies of the arguments by the names of buffers and parameters, or random ones."""
    shown = {buffer.data: buffer.name for buffer in made.kernel.buffers}
    names = [shown.get(param, param.name) for param in made.kernel.params]
    values = args or tuple(make_arguments(made.kernel, {}, sizes, seed).values())
    own = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
    if len(own) != len(names):  # the call itself reports what is missing
        names = [*names, *(f"argument {n}" for n in range(len(names), len(own)))][: len(own)]
    return dict(zip(names, own, strict=True))


def _described(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else str(value)


def _buffers(kernel: Any) -> list[str]:
    """The names of a kernel's buffers."""
    if not isinstance(kernel, Kernel):
        return []
    own = [stmt.buffer.name for stmt in statements(kernel.body) if isinstance(stmt, AllocBuffer)]
    return [*own, *(buffer.name for buffer in kernel.buffers)]


def _warned(heard: Iterable[warnings.WarningMessage]) -> list[Finding]:
    return [
        Finding("warning", str(each.message), "warning", each.filename, each.lineno)
        for each in heard
        if issubclass(each.category, TilewrightWarning)
    ]


def _differences(values: Mapping[str, Any], expect: Mapping[str, Any], rtol: float, atol: float) -> Iterable[Finding]:
    """Findings for arrays that differ from the expected ones."""
    for name, wanted in expect.items():
        found = values.get(name, values.get(f"{name}_ptr"))
        if not isinstance(found, np.ndarray):
            yield Finding("results", f"there is no array {name} to compare", given=name, allowed=", ".join(values))
            continue
        have = np.asarray(found, np.float64)
        try:
            want = np.asarray(wanted, np.float64)
        except (TypeError, ValueError) as error:
            yield Finding("results", f"{name} cannot be compared", given=f"{described(wanted)}: {error}", buffer=name)
            continue
        if have.shape != want.shape:
            yield Finding("results", f"{name} has another shape", buffer=name, given=f"{want.shape} expected",
                          allowed=f"{have.shape}")  # fmt: skip
            continue
        wrong = ~np.isclose(have, want, rtol=rtol, atol=atol, equal_nan=True)
        if wrong.any():
            first = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
            yield Finding("results", f"{int(wrong.sum()):,} of {wrong.size:,} elements of {name} differ", buffer=name,
                          given=f"{name}{list(first)} = {have[first]}", allowed=f"{want[first]}")  # fmt: skip


def _left(checks: Iterable[str], expect: Mapping[str, Any] | None) -> Iterable[str]:
    from tilewright.sim import CHECKS

    if missing := sorted({*CHECKS} - {*checks}):
        yield f"checks left out: {', '.join(missing)}"
    if not expect:
        yield "results: nothing was expected of them"
    yield from ALWAYS_LEFT
