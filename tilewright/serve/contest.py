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
import re
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.compiler import Executable
from tilewright.errors import ArgumentError, TilewrightError, ToolError, choices, described
from tilewright.explain import Finding
from tilewright.load import LoadedKernel, LoadedModule, cu_compile, cu_process, load_cu
from tilewright.load.cu_launches import launched
from tilewright.load.cu_numbers import HostNumbers
from tilewright.load.cu_tree import below, tree_of
from tilewright.load.triton import load_triton
from tilewright.serve.confine import TRIED, Died, apart, held, replaced
from tilewright.sim import parse_checks
from tilewright.trials import Wanted, finished
from tilewright.verdict import Report, Verdict, report_from, unjudged, verdict_on

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_tree import Tree

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


# torch on a machine without a GPU, for code that asks for one: CUDA's devices become the host, and what `load_inline`
# would compile runs on the simulator.
#
# Numbers drawn from a seed are then those of the host's generator. Read `redirected` first, then `load_inline`.
#
# Functions of the host in the CUDA text of a `load_inline`, read, not compiled: their launches run on the simulator.
#
# A function is read anew in each call, its questions about tensors (``A.numel()``, ``A.size(0)``) answered with
# numbers; what remains are launches of kernels, tensors that it makes, and what it returns. A function whose launches
# stand under conditions or in loops is refused.
#
# Source: PyTorch, "Custom C++ and CUDA Extensions".


_MADE = re.compile(
    r"\b(?:auto|(?:torch|at)::Tensor)\s+(\w+)\s*=\s*(?:torch|at)::(empty|zeros|ones)_like\(\s*(\w+)[^;]*;"
)
_SIZED = re.compile(
    r"\b(?:auto|(?:torch|at)::Tensor)\s+(\w+)\s*=\s*(?:torch|at)::(empty|zeros|ones)"
    r"\(\s*\{([^{}]*)\}\s*,\s*(\w+)\s*\.\s*options\(\)\s*\)\s*;"
)
_NUMBER = re.compile(r"\b(?:auto|int|int64_t|uint32_t|long|size_t|unsigned)\s+(\w+)\s*=\s*([^;]+);")
_DIM3 = re.compile(r"\bdim3\s+(\w+)\s*[({]([^;]*)[)}]\s*;")
_ALIKE = re.compile(r"\b(?:auto|(?:torch|at)::Tensor)\s+(\w+)\s*=\s*(\w+)\s*\.\s*(?:contiguous|clone)\(\)\s*;")
_DATA = re.compile(r"\b(\w+)\s*\.\s*(?:mutable_|const_)?data_ptr\b")
_BRANCHES = (*(f"{word}_statement" for word in ("if", "for", "while", "do", "switch")), "lambda_expression")


def host_function(module: LoadedModule, source: str, name: str) -> Callable[..., Any] | None:
    """A function of the host as Python calls it; None where the text has none of that name that can be read."""
    tree = tree_of(source)
    node = next(
        (definition for definition in below(tree.root, "function_definition") if _name(definition, tree) == name), None
    )
    if node is None or any(next(_launches(branch), None) is not None for branch in below(node, *_BRANCHES)):
        return None
    names = [match[1] for part in _parameters(node, tree) if (match := re.search(r"(\w+)\s*$", part))]

    def call(*arguments: Any) -> Any:
        if len(arguments) != len(names):
            raise ArgumentError(
                f"{name} takes {len(names)} arguments", given=f"{len(arguments)}", allowed=", ".join(names)
            )
        return HostCall(name, dict(zip(names, arguments, strict=True))).run(module, source, tree.of(node))

    return call


def _name(node: Node, tree: Tree) -> str:
    head = next(below(node, "function_declarator"), None)
    return tree.of(head).partition("(")[0].rpartition("::")[2].strip() if head is not None else ""


def _parameters(node: Node, tree: Tree) -> list[str]:
    head = next(below(node, "parameter_list"), None)
    return [tree.of(parameter).partition("=")[0] for parameter in head.named_children] if head is not None else []


def _launches(node: Node) -> Iterator[Node]:
    return below(node, "kernel_call_syntax")


class HostCall:
    """A call of a function of the host, as it is read; mutable.

    values: its arguments and the tensors that it makes, by name. numbers: those of them that are numbers, and what else
    it declares, as text or in numbers.
    """

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name, self.values = name, values
        self.numbers: dict[str, Any] = {key: value for key, value in values.items() if not hasattr(value, "shape")}

    def run(self, module: LoadedModule, source: str, text: str) -> Any:
        """Answer what the text asks of tensors, make those that it makes, run its launches; what it returns."""
        text = "".join(map(self._read, re.split(r"(?<=;)", text)))
        numbers = {key: value for key, value in self.numbers.items() if not isinstance(value, str)}
        for shape in launched(text, given=numbers, around=(source,)):
            if shape.lacks:
                raise self._unread(f"a launch of {shape.kernel}, which needs {', '.join(shape.lacks)}")
            module[shape.kernel].simulate(*map(self._argument, shape.arguments), grid=shape.grid, block=shape.block,
                                          shared_bytes=shape.shared_bytes, cluster=shape.cluster)  # fmt: skip
        return self._returned(text)

    def _read(self, statement: str) -> str:
        """A statement with numbers in the place of what it asks of tensors; what it declares is known from here on."""
        for key, value in self.values.items():
            if hasattr(value, "shape"):
                statement = _answered(statement, key, tuple(map(int, value.shape)))
        for pattern, act in _STATEMENTS:
            if match := pattern.search(statement):
                act(self, match)
                break
        return statement

    def _like(self, match: re.Match[str]) -> None:
        tensor = self._tensor(match[3])
        self.values[match[1]] = _new(tensor, match[2], tensor.shape)

    def _sized(self, match: re.Match[str]) -> None:
        extents = [HostNumbers(self.numbers).of(word) for word in match[3].split(",")]
        shape = [int(extent) for extent in extents if extent is not None]
        if len(shape) < len(extents):
            raise self._unread(f"`{match[0].strip()}`")
        self.values[match[1]] = _new(self._tensor(match[4]), match[2], tuple(shape))

    def _alike(self, match: re.Match[str]) -> None:
        tensor = self._tensor(match[2])
        self.values[match[1]] = tensor.clone() if hasattr(tensor, "clone") else tensor.copy()

    def _number(self, match: re.Match[str]) -> None:
        self.numbers.setdefault(match[1], match[2])

    def _dim3(self, match: re.Match[str]) -> None:
        parts = zip("xyz", map(HostNumbers(self.numbers).of, match[2].split(",")), strict=False)
        self.numbers.update({f"{match[1]}.{axis}": value for axis, value in parts if value is not None})

    def _argument(self, word: Any) -> Any:
        """A launch's argument: a number, or the tensor whose data it points to."""
        if not isinstance(word, str):
            return word
        match = _DATA.search(word)
        key = match[1] if match else word.strip()
        if key not in self.values:
            raise self._unread(f"the argument `{word}` of a launch")
        return self.values[key]

    def _tensor(self, key: str) -> Any:
        if not hasattr(self.values.get(key), "shape"):
            raise self._unread(f"the tensor {key}")
        return self.values[key]

    def _returned(self, text: str) -> Any:
        """What the function returns: nothing, a tensor, or several."""
        match = re.search(r"\breturn\b\s*([^;]*);", text)
        words = re.findall(r"\w+", re.sub(r"std::(?:make_tuple|vector<[^>]*>|move)", "", match[1])) if match else []
        tensors = tuple(map(self._tensor, words))
        return None if not tensors else tensors[0] if len(tensors) == 1 else tensors

    def _unread(self, what: str) -> ArgumentError:
        return ArgumentError(
            f"{self.name} is a function of the host, which is read, not compiled", given=what,
            allowed="launches on numbers and tensors: A.numel(), A.size(0), A.data_ptr<float>(), torch::empty_like(A)",
            hint="the module's KERNEL(..., grid=(...), block=(...)), with the kernel's own arguments",
        )  # fmt: skip


_STATEMENTS: tuple[tuple[re.Pattern[str], Callable[[HostCall, re.Match[str]], None]], ...] = (
    (_MADE, HostCall._like),
    (_SIZED, HostCall._sized),
    (_ALIKE, HostCall._alike),
    (_NUMBER, HostCall._number),
    (_DIM3, HostCall._dim3),
)


def _new(tensor: Any, how: str, shape: tuple[int, ...]) -> Any:
    """A tensor of the same elements: of zeros, of ones, or with whatever a new one has."""
    new = tensor.new_empty(shape) if hasattr(tensor, "new_empty") else np.empty(shape, tensor.dtype)
    if how != "empty":
        new[...] = float(how == "ones")
    return new


def _answered(text: str, name: str, shape: tuple[int, ...]) -> str:
    """The text with numbers in the place of what it asks of a tensor."""
    tensor = rf"\b{name}\s*\.\s*"
    text = re.sub(tensor + r"(?:numel\(\)|sizes\(\)\.numel\(\))", str(prod(shape)), text)
    text = re.sub(tensor + r"dim\(\)", str(len(shape)), text)
    asked = tensor + r"(?:size\(\s*(-?\d+)\s*\)|sizes\(\)\s*\[\s*(\d+)\s*\])"
    return re.sub(asked, lambda match: str(shape[int(match[1] or match[2])]), text)


# torch's `load_inline` without a compiler for the host: the kernels of its CUDA text, each called with its launch.
#
# Source: PyTorch, "torch.utils.cpp_extension.load_inline".


TARGET = "sm_90a"


class InlineModule:
    """Kernels by name: ``module.add(a, b, c, n, grid=4, block=256)`` runs one on the simulator."""

    def __init__(self, name: str, source: str, functions: Sequence[str]) -> None:
        self._name, self._functions, self._source = name, functions, source
        self._module = load_cu(source + "\n", TARGET)

    def __getattr__(self, name: str) -> Any:
        if name in self._module.kernels:
            return self._module[name].simulate
        if name in self._functions:
            if (function := host_function(self._module, self._source, name)) is not None:
                return function
            raise ArgumentError(
                f"{self._name}.{name} is a function of the host, which nothing here compiles",
                given=f"functions={list(self._functions)}",
                allowed=choices(name, self._module.kernels),
                hint=f"{self._name}.KERNEL(..., grid=(...), block=(...)), with the kernel's own arguments",
            )
        raise AttributeError(f"{self._name} has no kernel {name}: {', '.join(self._module.kernels)}")


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str] = (),
    cuda_sources: str | Sequence[str] = (),
    functions: Sequence[str] | str | dict[str, str] = (),
    *_: Any,
    **__: Any,
) -> InlineModule:
    """The kernels of ``cuda_sources``; flags for compilers, folders and the host's C++ mean nothing here."""
    sources = [cuda_sources] if isinstance(cuda_sources, str) else [*cuda_sources]
    if not sources:
        raise ArgumentError(f"load_inline({name!r}) has no CUDA text", given="cuda_sources=[]", allowed="a kernel")
    names = [functions] if isinstance(functions, str) else list(functions)
    text = "\n".join(line for line in "\n".join(sources).splitlines() if not _is_of_torch(line))
    return InlineModule(name, text, names)


def _is_of_torch(line: str) -> bool:
    """Does it include a header of torch, which only the host's code needs?"""
    words = line.replace(" ", "")
    return words.startswith("#include") and any(part in words for part in ("torch/", "ATen/", "c10/", "pybind11"))


# CUDA's devices are the host.


def redirected() -> None:
    """From now on, in this process, tensors for a GPU are the host's, and `load_inline` is that of this file.

    Does nothing where torch is not installed.
    """
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        return

    class OnCpu(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
        """Calls of torch with the host in the place of a GPU."""

        def __torch_function__(
            self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            """The call, its devices exchanged."""
            if getattr(function, "__name__", "") in ("cuda", "pin_memory"):
                return args[0]
            named = {name: _on_host(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
            return function(*map(_on_host, args), **named)

    class HostGenerator(torch.Generator):  # type: ignore[misc]  # likewise; a class, since annotations name it
        """torch's generator, on the host."""

        def __new__(cls, device: Any = "cpu") -> Any:
            """A generator of the host, whatever device is named."""
            return super().__new__(cls, device=_on_host(device))

    torch.Generator = HostGenerator
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.Tensor.is_cuda = property(lambda self: True)
    for name in ("synchronize", "empty_cache", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, _doing_nothing())
    torch.use_deterministic_algorithms = _doing_nothing()  # torch's own imports a compiler, which walls refuse
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    OnCpu().__enter__()
    with suppress(ImportError):
        import torch.utils.cpp_extension as extensions

        extensions.load_inline = load_inline


def _doing_nothing() -> Callable[..., None]:
    """A function without effect, as there is no GPU to wait for. Each is another: torch keeps a table of its own."""

    def nothing(*_: Any, **__: Any) -> None:
        """Do nothing."""

    return nothing


def _on_host(value: Any) -> Any:
    """The host in the place of a GPU; any other value itself."""
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return "cpu" if type(value).__name__ == "device" and str(value).startswith("cuda") else value
