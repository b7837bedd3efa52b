"""A problem in the format of the public competitions: a folder with ``task.yml``, ``reference.py``, ``submission.py``.

``task.yml`` lists ``tests`` and ``benchmarks``, the arguments of `generate_input`, and ``files``, from which other
modules come. ``reference.py`` has ``generate_input(**test)`` and ``check_implementation(data, output)``, which returns
"" or what is wrong, or a pair of both kinds; ``submission.py`` has ``custom_kernel(data)``.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.errors import ArgumentError, ToolError, described

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
