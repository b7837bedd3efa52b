"""A submission to a competition's problem, judged without a GPU: every test, every kernel under every check.

A test takes three processes behind walls: the reference's makes the data, the submission's computes, and a third one,
which has never seen the submission, asks the reference whether the results are right. Kernels that `custom_kernel`
calls run on the simulator: tilewright's, those of `load_cu` and of torch's `load_inline`.
"""

from __future__ import annotations

import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import pickle
import struct
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any

import numpy as np

from tilewright.compiler import Executable
from tilewright.errors import ArgumentError, TilewrightError, ToolError, described
from tilewright.explain import Finding
from tilewright.load import LoadedKernel, cu_compile, cu_process
from tilewright.load.triton import load_triton
from tilewright.serve.apart import Died, apart
from tilewright.serve.confine import TRIED, held, replaced
from tilewright.serve.on_cpu import redirected
from tilewright.sim import parse_checks
from tilewright.trials import Wanted, finished
from tilewright.verdict import Report, Verdict, report_from, unjudged, verdict_on

# A problem in the format of the public competitions: a folder with ``task.yml``, ``reference.py``, ``submission.py``.
#
# ``task.yml`` lists ``tests`` and ``benchmarks``, the arguments of `generate_input`, and ``files``, from which other
# modules come. ``reference.py`` has ``generate_input(**test)`` and ``check_implementation(data, output)``, which
# returns "" or what is wrong, or a pair of both kinds; ``submission.py`` has ``custom_kernel(data)``.


NAMES = ("submission.py", "eval.py")  # of `files`, no modules that others import


@dataclass(frozen=True, slots=True)
class Problem:
    """tests: keywords of `generate_input`, by group ("tests", "benchmarks"). modules: files by the name under which the
    others import them.
    """

    folder: Path
    submission: Path
    tests: Mapping[str, Sequence[Mapping[str, Any]]]
    modules: Mapping[str, Path]

    @property
    def reference(self) -> Path:
        """The file with `generate_input` and `check_implementation`."""
        return self.modules.get("reference", self.folder / "reference.py")


def problem_of(folder: Path, submission: Path | None = None, group: str = "tests") -> Problem:
    """The problem in a folder. submission: another file than its ``submission.py``. group: of tests, that will run.

    Raises ArgumentError where a file is missing or says something else; ToolError where nothing here reads YAML.
    """
    task = folder / "task.yml"
    if not task.is_file():
        allowed = "a folder with task.yml, reference.py and submission.py"
        raise ArgumentError("this is no problem of a competition", given=f"no {task}", allowed=allowed)
    fields = _read(task)
    tests = {name: _tests(task, name, fields.get(name) or []) for name in ("tests", "benchmarks")}
    if not tests[group]:
        listed = ", ".join(name for name in tests if tests[name]) or ", ".join(map(str, fields))
        raise ArgumentError(f"{task} has no {group}", given=listed, allowed=f"{group}: a list of {{name: value}}")
    files = {str(entry.get("name")): str(entry.get("source")) for entry in fields.get("files") or []}
    modules = {
        name.removesuffix(".py"): (folder / source).resolve()
        for name, source in files.items()
        if name.endswith(".py") and name not in NAMES and not source.startswith("@")
    }
    problem = Problem(folder, submission or folder / "submission.py", tests, modules)
    _check_files(task, problem, by_option=submission is not None)
    return problem


def _check_files(task: Path, problem: Problem, *, by_option: bool) -> None:
    """Raises ArgumentError for a file that is not there."""
    if not problem.submission.is_file():
        hint = None if by_option else "--submission FILE, or that file"
        allowed = "a file with def custom_kernel(data)"
        raise ArgumentError("there is no submission", given=f"no {problem.submission}", allowed=allowed, hint=hint)
    wanted = {"reference": problem.reference, **problem.modules}
    for name, file in wanted.items():
        if not file.is_file():
            listed = f"the module {name} of files in {task.name}" if name in problem.modules else f"{name}.py"
            raise ArgumentError("a file of the problem is missing", given=f"no {file}", allowed=listed)


def _read(task: Path) -> Mapping[str, Any]:
    try:
        import yaml  # type: ignore[import-untyped]  # it has no types of its own
    except ImportError as error:
        raise ToolError("nothing here reads task.yml", given=str(error), hint="pip install pyyaml") from None
    try:
        fields = yaml.safe_load(task.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        lines = task.read_text(encoding="utf-8").splitlines()
        text = f"\n{lines[mark.line]}" if mark is not None and mark.line < len(lines) else ""
        raise ArgumentError(f"{task} is no YAML", given=f"{at}{what}{text}", allowed="tests: [...]") from None
    if not isinstance(fields, Mapping):
        raise ArgumentError(f"{task} has no fields", given=described(fields), allowed="files, tests, benchmarks")
    return fields


def _tests(task: Path, group: str, listed: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(listed, list) or not all(isinstance(test, Mapping) for test in listed):
        raise ArgumentError(f"{task}: {group}", given=described(listed), allowed="a list of {name: value}")
    return [{str(name): value for name, value in test.items()} for test in listed]


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of a problem: those of its list, then those of its folder."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The file with that name, if there is one."""
        file = self._problem.modules.get(name, self._problem.folder / f"{name}.py")
        return importlib.util.spec_from_file_location(name, file) if path is None and file.is_file() else None


def function_of(problem: Problem, file: Path, name: str) -> Callable[..., Any]:
    """A function of one of the problem's files, which is imported here, with the modules that it asks for.

    Raises ArgumentError where it has none of that name.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(problem))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        functions = [
            member for member, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__
        ]
        instead = described(function) if hasattr(module, name) else ", ".join(functions) or "no function"
        raise ArgumentError(f"{file.name} defines no {name}", given=instead, allowed=f"def {name}(...)")
    return function  # type: ignore[no-any-return]  # a function of others


# Results of a submission as bytes: arrays, tensors and numbers in tuples, lists and dictionaries, read by no pickle.
#
# What a stranger's process hands on is read where results are judged; so the format holds numbers and names alone.


PLAIN = (bool, int, float, str, type(None))


def packed(value: Any) -> bytes:
    """The value as bytes. Raises ArgumentError for what is no array, tensor or number."""
    arrays: list[Any] = []
    text = json.dumps(_shape(value, arrays)).encode()
    into = io.BytesIO()
    np.savez(into, text=np.frombuffer(text, np.uint8), **{f"a{n}": array for n, array in enumerate(arrays)})
    return into.getvalue()


def unpacked(data: bytes) -> Any:
    """The value. Inverse of `packed`; tensors are tensors of the host."""
    held = np.load(io.BytesIO(data), allow_pickle=False)
    return _value(json.loads(held["text"].tobytes()), held)


def _shape(value: Any, arrays: list[Any]) -> dict[str, Any]:
    if isinstance(value, PLAIN):
        return {"plain": value}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [_shape(part, arrays) for part in value]}
    if isinstance(value, Mapping):
        return {"dict": [[str(name), _shape(part, arrays)] for name, part in value.items()]}
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        tensor = value.detach().cpu().contiguous()
        arrays.append(_octets_of(tensor))
        return {"torch": len(arrays) - 1, "dtype": str(tensor.dtype).partition(".")[2], "shape": list(tensor.shape)}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.names is None and value.dtype != np.dtype(object):
        arrays.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
        return {"numpy": len(arrays) - 1, "dtype": value.dtype.name, "shape": list(value.shape)}
    raise ArgumentError("a result of custom_kernel", given=described(value), allowed="arrays, tensors, numbers, tuples")


def _octets_of(tensor: Any) -> Any:
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy()


def _value(shape: Any, held: Any) -> Any:
    ((kind, what), *_) = shape.items()
    if kind == "plain":
        return what
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(_value(part, held) for part in what)
    if kind == "dict":
        return {name: _value(part, held) for name, part in what}
    octets = held[f"a{int(what)}"]
    if kind == "numpy":
        return octets.view(np.dtype(shape["dtype"])).reshape(shape["shape"])
    import torch

    return torch.from_numpy(octets.copy()).view(getattr(torch, shape["dtype"])).reshape(shape["shape"])


# The tests of a problem, and one verdict on each.


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
        return dataclasses.replace(unjudged(name, status, *findings), inputs=inputs, seconds=monotonic() - began)

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


# What each of the three processes of a test does.


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
    redirected()
    return pickle.dumps(function_of(problem, problem.reference, "generate_input")(**test))


def _computed(problem: Problem, data: bytes, checks: str) -> bytes:
    """The launches' verdicts as JSON, behind their length; then the results."""
    redirected()
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
        told.append(unjudged("custom_kernel", "refused", finding))
    fields = json.dumps(Report("submission", tuple(told)).as_dict(), default=str).encode()
    return struct.pack("<Q", len(fields)) + fields + (packed(result) if all(told) else b"")


def _checked(problem: Problem, data: bytes, result: bytes) -> bytes:
    """What the reference says of the results, "" where they are right."""
    redirected()
    output = unpacked(result)
    try:
        said = function_of(problem, problem.reference, "check_implementation")(pickle.loads(data), output)
    except Exception as error:
        if output is not None:
            raise
        said = f"custom_kernel returned None, of which check_implementation says: {type(error).__name__}: {error}"
    good, message = said if isinstance(said, tuple) else (said is True or (not said and said is not False), said)
    return b"" if good else (str(message or "") or "the results are wrong").encode()


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
