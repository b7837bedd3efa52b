"""The author's Python, run behind walls, and the kernel that it makes, as data.

A process of its own runs the file, and hands the kernel's IR on as a pickle. Whoever judges reads that with a reader
that knows the IR's own classes and no function: nothing of the author's runs where results are computed and compared.
Memory of a reference, caches, the clock and the simulator are out of its reach; that they were tried is told.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from errno import EACCES, EPERM
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.dtypes import NAMES, dtype
from tilewright.errors import ArgumentError, TilewrightError
from tilewright.explain import Finding
from tilewright.ir import Kernel
from tilewright.serve.apart import Died
from tilewright.serve.confine import TRIED, held, may_replace, replaced, watched
from tilewright.serve.submission import Submission
from tilewright.serve.unaware import Read
from tilewright.verdict import Verdict, verdict_on

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
        raise SubmissionRefused(
            Verdict(name or "submission", "stopped", findings=(finding,), not_covered=("everything",))
        )
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
            raise SubmissionRefused(
                Verdict("submission", told["status"], findings=findings, not_covered=("everything",))
            )
    except UNREADABLE as error:
        raise no_kernel(submission, error) from None
    raise no_kernel(submission)


def _tried(name: str | None, what: str, line: int | None, more: str | None) -> Verdict:
    message = f"refused, {what}: {TRIED[what]}"
    finding = Finding("tampering", message, file="submission.py", line=line, given=more,
                    allowed="a kernel, and Python that makes it: imports, functions, numbers")  # fmt: skip
    return Verdict(name or "submission", "refused", findings=(finding,), not_covered=("everything",))


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
