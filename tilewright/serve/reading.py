"""The author's Python, run behind walls, and the kernel that it makes, as data: ours, and further down Triton's.

A process of its own runs the file, and hands the kernel's IR on as a pickle. Whoever judges reads that with a reader
that knows the IR's own classes and no function: nothing of the author's runs where results are computed and compared.
Memory of a reference, caches, the clock and the simulator are out of its reach; that they were tried is told.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from errno import EACCES, EPERM
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dtypes import NAMES, dtype
from tilewright.errors import ArgumentError, TilewrightError, ToolError
from tilewright.explain import Finding
from tilewright.ir import Kernel
from tilewright.load.triton import LoadedTriton, TritonText, load_triton
from tilewright.serve.apart import Died, Read
from tilewright.serve.confine import TRIED, held, may_replace, replaced, watched
from tilewright.serve.submission import Case, Submission
from tilewright.verdict import Verdict, unjudged, verdict_on

Load = Callable[[str, list[str]], Any]
"""The kernel that ``FILE.py:NAME`` names, with constants as the command line has them."""
Loads = Mapping[str, Load]
"""By language: how its Python files are loaded."""

VALUES = ("tilewright.ir.", "tilewright.layout.", "tilewright.dtypes", "tilewright.errors")
NUMBERS = {(kind.__module__, kind.__name__) for kind in (dtype(name).numpy.type for name in NAMES)}
_SETTLED = held()  # before this process has seen any submission
_JUDGING = [name for name in sys.modules if name.startswith("tilewright.serve")]


def settle() -> None:
    """What is held now, after everything has been imported, is what a submission may not replace."""
    _SETTLED[:] = held()
    _JUDGING[:] = [name for name in sys.modules if name.startswith("tilewright.serve")]


class SubmissionRefused(Exception):
    """A submission that is no kernel, with the verdict on it."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.kernel)
        self.verdict = verdict


class _Reader(pickle.Unpickler):
    """Reads values of the IR and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Of the IR, layouts and types the classes, no function; the number types of NumPy."""
        if module.startswith(VALUES) or (module, name) in NUMBERS:
            value = super().find_class(module, name)
            if isinstance(value, type) and "." not in name:
                return value
        raise pickle.UnpicklingError(f"{module}.{name} is no value of a kernel")


def kernel_of(submission: Submission, load: Load, folder: Path, read: Read) -> Kernel:
    """The kernel of a text in our language. Raises SubmissionRefused with a verdict that says why there is none."""
    const = [f"{key}={value}" for key, value in submission.constants.items()]
    data = handed_on(submission, partial(_pickled, load, const), folder, read)
    try:
        if isinstance(kernel := _Reader(io.BytesIO(data)).load(), Kernel):
            return kernel
    except UNREADABLE as error:
        raise no_kernel(submission, error) from None
    raise no_kernel(submission)


def _pickled(load: Load, const: list[str], place: str) -> bytes:
    return pickle.dumps(load(place, const))


UNREADABLE = (pickle.UnpicklingError, ValueError, KeyError, TypeError, AttributeError, EOFError, IndexError)
"""What reading raises where the data are none of ours."""


def no_kernel(submission: Submission, why: object = "") -> SubmissionRefused:
    """The error for data that are no kernel: they were not written by us."""
    more = f"what it hands on is no kernel{why and f': {why}'}"
    return SubmissionRefused(_tried(submission.kernel, "the harness", None, more))


Make = Callable[[str], bytes]
"""What is handed on of ``FILE.py:NAME``, as bytes."""


def handed_on(submission: Submission, make: Make, folder: Path, read: Read, *, more_bytes: int = 0) -> memoryview:
    """What ``make`` says of the submission's file, in a process behind walls.

    more_bytes: of address space. Raises SubmissionRefused with a verdict that says why there is nothing.
    """
    file, name = folder / "submission.py", submission.kernel
    file.write_text(submission.source, encoding="utf-8")
    place = f"{file}:{name}" if name else str(file)
    work = partial(_read, place, str(file), make)
    answer = read(work, submission.seconds, submission.nbytes + more_bytes, str(folder))
    if isinstance(answer, Died):
        finding = Finding("limit", f"the submission's Python code gave no kernel: {answer}", file="submission.py")
        raise SubmissionRefused(unjudged(name or "submission", "stopped", finding))
    if not answer:
        raise SubmissionRefused(_tried(name, "the harness", None, "it ends its own process"))
    kind, data = answer[:1], memoryview(answer)[1:]
    if kind == b"K":
        return data
    try:
        told = json.loads(bytes(data))
        if kind == b"T":
            raise SubmissionRefused(_tried(name, told["name"], told["line"], told["what"]))
        findings = tuple(map(Finding.from_dict, told["findings"]))
        if kind == b"E" and told["status"] in ("wrong", "refused", "stopped"):
            raise SubmissionRefused(unjudged("submission", told["status"], *findings))
    except UNREADABLE as error:
        raise no_kernel(submission, error) from None
    raise no_kernel(submission)


def _tried(name: str | None, what: str, line: int | None, more: str | None) -> Verdict:
    message = f"refused, {what}: {TRIED[what]}"
    finding = Finding("tampering", message, file="submission.py", line=line, given=more,
                    allowed="a kernel, and Python that makes it: imports, functions, numbers")  # fmt: skip
    return unjudged(name or "submission", "refused", finding)


def _read(place: str, file: str, make: Make) -> bytes:
    """In the process behind walls: the kernel, what was tried, or why there is none."""
    sys.dont_write_bytecode = True
    told: list[tuple[str, int | None]] = []

    def tell(name: str, line: int | None) -> None:
        told.append((name, line))

    reaches = may_replace(Path(file).read_text(encoding="utf-8"))
    _forget_the_judge()
    watched(file, tell)
    try:
        kind, data = _made(make, place, tell)
    except Exception:  # of what the author has left of this process
        kind, data = b"K", b""
    if not told and (changed := replaced(_SETTLED if reaches else ())) is None:
        return kind + data
    name, line = told[0] if told else ("the harness", None)
    return b"T" + json.dumps({"name": name, "line": line, "what": None if told else changed}).encode()


def _forget_the_judge() -> None:
    """Whoever imports these rooms gets others, and is seen."""
    for name in _JUDGING:
        sys.modules.pop(name, None)
    vars(sys.modules["tilewright"]).pop("serve", None)


def _made(make: Make, place: str, tell: Callable[[str, int | None], None]) -> tuple[bytes, bytes]:
    """What is made of the file, or why it is no kernel."""
    try:
        return b"K", make(place)
    except (TilewrightError, MemoryError, RecursionError) as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in (EPERM, EACCES):
            tell("the walls", error.at.line if isinstance(error, TilewrightError) and error.at else None)
        cause = error.__cause__ if isinstance(error.__cause__, MemoryError) else error
        if isinstance(cause, RecursionError):
            cause = ArgumentError("the submission nests too deep", given="RecursionError", allowed="less nesting")
        return b"E", json.dumps(asdict(verdict_on("submission", cause)), default=str).encode()


# A submission in Triton: its compiler runs behind walls, as it runs the author's Python, and hands on PTX as data.


ROOM = 4 << 30  # bytes of address space that its libraries and threads reserve without using it
OPTIONS = ("num_warps", "num_stages", "num_ctas")


def is_at_hand() -> bool:
    """Is Triton installed?"""
    return find_spec("triton") is not None


@dataclass(frozen=True, slots=True)
class Jitted:
    """The kernel of a case. names: what its grid may name: sizes, and constants that are whole numbers."""

    loaded: LoadedTriton
    names: Mapping[str, int]


def jitted(submission: Submission, cases: Sequence[Case], load: Load, folder: Path, read: Read) -> list[Jitted]:
    """What Triton makes of the kernel for each case. Raises SubmissionRefused where there is none, ToolError where
    Triton is not installed.
    """
    if not is_at_hand():
        raise ToolError("Triton is not installed", hint="pip install triton")
    options = {name: value for name in OPTIONS if (value := getattr(submission.launch, name)) is not None}
    options |= {"target": submission.target or "sm_90a", "config": submission.launch.config}
    types = [({name: (array.shape, array.dtype) for name, array in case.memory.items()}, case.numbers)
             for case in cases]  # fmt: skip
    make = partial(_texts, types, {**submission.constants, **options}, load)
    data = handed_on(submission, make, folder, read, more_bytes=ROOM)
    try:
        told = json.loads(bytes(data))
        texts = [_text(text) for text in told["texts"]]
        rows = [(texts[int(number)], list(map(str, passed)), _numbers(more)) for number, passed, more in told["cases"]]
        return [_jitted(submission, case, *row) for case, row in zip(cases, rows, strict=True)]
    except UNREADABLE as error:
        raise no_kernel(submission, error) from None


Types = tuple[Mapping[str, tuple[tuple[int, ...], "np.dtype[Any]"]], Mapping[str, "int | float"]]
"""Of a case: shape and type of each array, and the numbers."""


def _texts(cases: Sequence[Types], options: Mapping[str, Any], load: Load, place: str) -> bytes:
    """In the process behind walls: the texts, and of each case its text, the arguments that are passed, and the numbers
    that are none of the submission's arguments.
    """
    kernel = load(place, [])
    texts, rows = list[TritonText](), list[Any]()
    for arrays, numbers in cases:
        declared = {**{name: np.zeros(*of) for name, of in arrays.items()}, **numbers}
        loaded = load_triton(kernel, **{**declared, **options})
        if loaded.metadata not in texts:
            texts.append(loaded.metadata)
        more = {name: value for name, value in loaded.values.items()
                if name not in declared and isinstance(value, (int, float))}  # fmt: skip
        rows.append([texts.index(loaded.metadata), loaded.passed, more])
    return json.dumps({"texts": list(map(asdict, texts)), "cases": rows}).encode()


def _text(fields: Mapping[str, Any]) -> TritonText:
    """From JSON, in which nothing is taken for granted. No argument of a submission is a descriptor, with a map."""
    text = TritonText(**{**fields, "tensordesc_meta": ()})
    numbers = (text.shared, text.num_ctas, text.global_scratch_size, text.profile_scratch_size)
    if type(text.ptx) is type(text.name) is str and all(type(number) is int and number >= 0 for number in numbers):
        return text
    raise ValueError("a field of another type")


def _numbers(numbers: Mapping[str, Any]) -> dict[str, int | float]:
    if unfit := [name for name, value in numbers.items() if not isinstance(value, (int, float))]:
        raise ValueError(f"{unfit[0]} is no number")
    return dict(numbers)


def _jitted(
    submission: Submission, case: Case, text: TritonText, passed: Sequence[str], more: Mapping[str, int | float]
) -> Jitted:
    numbers = {name: value for name, value in more.items() if type(value) is int}
    loaded = LoadedTriton(text, {**more, **case.memory, **case.numbers}, passed)
    return Jitted(loaded, {**numbers, **submission.names(case.sizes)})
