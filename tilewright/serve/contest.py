"""A submission to a competition's problem, judged without a GPU: every test, every kernel under every check.

A test takes three processes behind walls: the reference's makes the data, the submission's computes, and a third one,
which has never seen the submission, asks the reference whether the results are right. Kernels that `custom_kernel`
calls run on the simulator: tilewright's, those of `load_cu` and of torch's `load_inline`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import struct
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from tilewright.compiler import Executable
from tilewright.errors import TilewrightError
from tilewright.explain import Finding
from tilewright.load import LoadedKernel, cu_compile, cu_process
from tilewright.load.triton import load_triton
from tilewright.serve.apart import Died, apart
from tilewright.serve.arrays import packed, unpacked
from tilewright.serve.confine import TRIED, held, replaced
from tilewright.serve.inline import load_inline
from tilewright.serve.on_cpu import redirected
from tilewright.serve.problem import Problem, function_of
from tilewright.sim import parse_checks
from tilewright.trials import Wanted, finished
from tilewright.verdict import Report, Verdict, report_from, verdict_on

NO_KERNEL = "kernels: the submission launched none; its results are what Python computed"


@dataclasses.dataclass(frozen=True, slots=True)
class Allowance:
    """What each process of a test may take: seconds, and bytes of address space. walls: is it kept from files, the
    network and other processes?
    """

    seconds: float
    nbytes: int
    walls: bool = True


def contest(problem: Problem, *, group: str = "tests", checks: str = "all", bounds: Allowance) -> Report:
    """A verdict for each test of a group, "tests" or "benchmarks"."""
    with suppress(ImportError, RuntimeError):  # a library that is found by processes and files, which walls refuse
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    verdicts = [_judged(problem, test, checks, bounds) for test in problem.tests[group]]
    return Report(str(problem.submission), tuple(verdicts), {"limit_s": bounds.seconds, "limit_bytes": bounds.nbytes})


def _judged(problem: Problem, test: Mapping[str, Any], checks: str, bounds: Allowance) -> Verdict:
    began = monotonic()
    name = ", ".join(f"{key}={value}" for key, value in test.items())
    inputs = {key: str(value) for key, value in test.items()}

    def verdict(status: str, *findings: Finding) -> Verdict:
        took = monotonic() - began
        return Verdict(name, status, inputs=inputs, findings=findings, not_covered=("everything",), seconds=took)

    data = _apart(problem, partial(_generated, problem, test), bounds)
    if isinstance(data, Finding):
        return verdict("refused", dataclasses.replace(data, message=f"generate_input: {data.message}"))
    computed = _apart(problem, partial(_computed, problem, data, checks), bounds)
    if isinstance(computed, Finding):
        return verdict({"limit": "stopped", "tampering": "refused"}.get(computed.kind, "wrong"), computed)
    try:
        (length,) = struct.unpack_from("<Q", computed)
        kernels = report_from(json.loads(computed[8 : 8 + length])).verdicts
    except (struct.error, ValueError, KeyError, TypeError) as error:
        return verdict("refused", Finding("tampering", f"what the submission's process hands on is no result: {error}"))
    told = _together(name, inputs, kernels)
    if told.status == "clean":
        message = _apart(problem, partial(_checked, problem, data, computed[8 + length :]), bounds)
        if isinstance(message, Finding):
            return verdict("refused", dataclasses.replace(message, message=f"check_implementation: {message.message}"))
        if text := message.decode():
            told = dataclasses.replace(told, status="wrong", findings=(*told.findings, Finding("results", text)))
    return dataclasses.replace(told, seconds=monotonic() - began)


def _together(name: str, inputs: Mapping[str, str], kernels: tuple[Verdict, ...]) -> Verdict:
    """One verdict on all launches of a test."""
    status = Report("", kernels).status if kernels else "clean"
    left = dict.fromkeys(text for kernel in kernels for text in kernel.not_covered if not text.startswith("results"))
    return Verdict(
        name,
        status,
        target=next((kernel.target for kernel in kernels), None),
        inputs=inputs,
        checks=tuple(dict.fromkeys(check for kernel in kernels for check in kernel.checks)),
        findings=tuple(finding for kernel in kernels for finding in kernel.findings),
        not_covered=tuple(left) if kernels else (NO_KERNEL,),
        output="".join(kernel.output for kernel in kernels),
    )


# In a process of its own


def _apart(problem: Problem, work: Callable[[], bytes], bounds: Allowance) -> bytes | Finding:
    """The bytes, or why there are none: the author's own error, with the line, or a limit."""
    files = {file.resolve() for file in (problem.submission, problem.reference, *problem.modules.values())}

    def told() -> bytes:
        if bounds.walls:
            os.environ["TILEWRIGHT_CACHE_BYTES"] = "0"  # nothing is written behind walls
        try:
            return b"B" + work()
        except Exception as error:  # whatever an author's code raises is the author's to see
            frames = traceback.extract_tb(error.__traceback__)
            where = [frame for frame in frames if Path(frame.filename).resolve() in files]
            at = (Path(where[-1].filename).name, where[-1].lineno) if where else (None, None)
            return b"E" + json.dumps([f"{type(error).__name__}: {error}", *at]).encode()

    folders = [str(file.parent) for file in files]
    answer = apart(told, seconds=bounds.seconds, nbytes=bounds.nbytes, walls=bounds.walls, reads=folders)
    if isinstance(answer, Died):
        return Finding("limit" if answer.seconds else "tampering", f"no result: {answer}")
    if answer[:1] == b"B":
        return answer[1:]
    try:
        message, file, line = json.loads(answer[1:])
    except ValueError:
        return Finding("tampering", "no result: the process wrote something else")
    return Finding("argument", str(message), file=file, line=line)


def _generated(problem: Problem, test: Mapping[str, Any]) -> bytes:
    redirected(load_inline)
    return pickle.dumps(function_of(problem, problem.reference, "generate_input")(**test))


def _computed(problem: Problem, data: bytes, checks: str) -> bytes:
    """The launches' verdicts as JSON, behind their length; then the results."""
    redirected(load_inline)
    told: list[Verdict] = []
    _watch(told, tuple(sorted(parse_checks(checks))))
    before = held()
    result: Any = None
    try:
        result = function_of(problem, problem.submission, "custom_kernel")(pickle.loads(data))
    except TilewrightError as error:
        if not told or told[-1].status == "clean":
            told.append(verdict_on("custom_kernel", error))
    if changed := replaced(before):
        finding = Finding("tampering", f"refused, the harness: {TRIED['the harness']}", given=changed)
        told.append(Verdict("custom_kernel", "refused", findings=(finding,), not_covered=("everything",)))
    fields = json.dumps(Report("submission", tuple(told)).as_dict(), default=str).encode()
    return struct.pack("<Q", len(fields)) + fields + (packed(result) if all(told) else b"")


def _checked(problem: Problem, data: bytes, result: bytes) -> bytes:
    """What the reference says of the results, "" where they are right."""
    redirected(load_inline)
    output = unpacked(result)
    try:
        said = function_of(problem, problem.reference, "check_implementation")(pickle.loads(data), output)
    except Exception as error:
        if output is not None:
            raise
        return (
            f"custom_kernel returned None, of which check_implementation says: {type(error).__name__}: {error}".encode()
        )
    if isinstance(said, tuple):
        good, message = said
        return b"" if good else (str(message) or "the results are wrong").encode()
    return b"" if said is True or (not said and said is not False) else str(said or "the results are wrong").encode()


def _watch(told: list[Verdict], checks: tuple[str, ...]) -> None:
    """From now on every launch runs under these checks, and leaves its verdict; NVRTC works in this process."""
    cu_compile.answered = cu_process.answer
    for kind in (Executable, LoadedKernel):
        kind.simulate = _watched(kind.simulate, told, checks)  # type: ignore[method-assign]  # of this process
    with suppress(ImportError):
        from triton.runtime.jit import KernelInterface

        KernelInterface.__getitem__ = _by_triton


def _by_triton(kernel: Any, grid: Any) -> Callable[..., Any]:
    """``kernel[grid]``, which runs on the simulator."""
    return lambda *args, **named: load_triton(kernel, *args, **named).simulate(grid)


def _watched(simulate: Callable[..., Any], told: list[Verdict], checks: tuple[str, ...]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **named: Any) -> Any:
        began = monotonic()
        settings: dict[str, Any] = {"checks": checks, "target": str(self.target)}
        try:
            outcome = simulate(self, *args, **{**named, "check": checks})
        except TilewrightError as error:
            told.append(verdict_on(self.name, error, seconds=monotonic() - began, **settings))
            raise
        told.append(
            finished(self.name, outcome, (), Wanted(), {**settings, "inputs": {}, "seconds": monotonic() - began})
        )
        return outcome

    return run
