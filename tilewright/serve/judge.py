"""One submission, from JSON to a verdict on every case."""

from __future__ import annotations

import builtins
import io
import json
import pickle
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from errno import EACCES, EPERM
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.checking import ran
from tilewright.compiler import Executable, compile
from tilewright.dtypes import NAMES, dtype
from tilewright.errors import ArgumentError, TilewrightError, ToolError, choices
from tilewright.explain import Finding
from tilewright.ir import Kernel
from tilewright.load import LoadedKernel, LoadedModule, load_cu, load_ptx
from tilewright.load.cu import DEFAULT
from tilewright.load.triton import LoadedTriton, TritonText, load_triton
from tilewright.serve.confine import TRIED, Died, Read, Walls, apart, held, may_replace, read_here, replaced, watched
from tilewright.serve.submission import Case, Extent, Submission, cases_of, evaluated, submission_of
from tilewright.trials import differing
from tilewright.verdict import Report, Verdict, unjudged, verdict_on

# The author's Python, run behind walls, and the kernel that it makes, as data: ours, and further down Triton's.
#
# A process of its own runs the file, and hands the kernel's IR on as a pickle. Whoever judges reads that with a reader
# that knows the IR's own classes and no function: nothing of the author's runs where results are computed and compared.
# Memory of a reference, caches, the clock and the simulator are out of its reach; that they were tried is told.


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


ANSWER = "tilewright.answer/1"
"""The version of what a judge answers: a report of `tilewright.verdict/2`, and the fields of `answer`."""
_TEXT = re.compile(r"/text-\d+/(?=submission\.cu)")  # of the path that a text of CUDA has without a file


Refer = Callable[[Callable[[], bytes], Submission], "bytes | Died"]
"""How a reference is run behind walls: a function that returns its results as bytes."""


def refer_apart(work: Callable[[], bytes], submission: Submission) -> bytes | Died:
    """In a child of this process."""
    return apart(work, seconds=submission.seconds, nbytes=submission.nbytes, walls=True)


def answer(
    request: Any, loads: Loads, walls: Walls, read: Read = read_here, refer: Refer = refer_apart
) -> dict[str, Any]:
    """The verdicts on a submission, as JSON has them.

    Besides the fields of a report: ``answer`` (the version), ``id`` (as given), ``cases`` (the sizes of each verdict),
    ``walls`` (what no wall of this system keeps a submission from), ``seconds``, ``least_ms`` (on the GPU asked for).
    read: how the author's Python is run. refer: how the reference is, after every kernel.
    """
    began = monotonic()
    verdicts: list[Verdict] = []
    sizes: list[Mapping[str, int]] = []
    least: float | None = None
    folder = Path(tempfile.mkdtemp())
    try:
        submission = submission_of(request)
        cases = list(cases_of(submission))
        calls = _calls(submission, cases, loads, folder, read)
        for case, call in zip(cases, calls, strict=True):
            left = submission.seconds - (monotonic() - began)
            verdicts.append(_run(call, submission, max(left, 0.1)))
            sizes.append(case.sizes)
            if verdicts[-1].status == "stopped":
                break
        least = _least_ms(calls[0].kernel, submission, cases) if all(verdicts) else None
        shutil.rmtree(folder, ignore_errors=True)  # a reference may leave this process behind walls
        wanted = _references(submission, cases, refer)
        verdicts = [_compared(*judged, submission) for judged in zip(verdicts, cases, wanted, strict=False)]
    except SubmissionRefused as refused:
        verdicts, sizes = [refused.verdict], []
    except (TilewrightError, MemoryError) as error:
        verdicts, sizes = [verdict_on("submission", error)], []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(Report("submission", tuple(verdicts)).as_dict()).replace(f"{folder}/", "")
    fields = json.loads(_TEXT.sub("", text))
    return {**fields, "answer": ANSWER, "id": _identity(request), "cases": sizes, "walls": [*walls.missing()],
            "least_ms": least if all(verdicts) else None, "seconds": round(monotonic() - began, 4)}  # fmt: skip


def _identity(request: Any) -> Any:
    return request.get("id") if isinstance(request, Mapping) else None


def refusal(request: Any, message: str, status: str = "stopped", details: str | None = None) -> dict[str, Any]:
    """An answer where there is no verdict: the process that judges has ended, or the request is none."""
    finding = Finding("limit" if status == "stopped" else "argument", message, given=details)
    fields = Report("submission", (unjudged("submission", status, finding),)).as_dict()
    return {**fields, "answer": ANSWER, "id": _identity(request), "cases": [], "walls": [], "least_ms": None,
            "seconds": 0.0}  # fmt: skip


# The kernel


@dataclass(frozen=True, slots=True)
class CaseCall:
    """What runs for a case: the kernel, its arguments in order or by name, and its launch by name."""

    kernel: Executable | LoadedKernel
    args: Sequence[Any] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


def _calls(submission: Submission, cases: Sequence[Case], loads: Loads, folder: Path, read: Read) -> list[CaseCall]:
    """The call of each case. Raises SubmissionRefused or TilewrightError where there is none."""
    try:
        if submission.language == "triton":
            compiled = jitted(submission, cases, loads["triton"], folder, read)
            grids = (_extents(submission.launch.grid, call.names) for call in compiled)
            return [CaseCall(*call.loaded.call(grid)) for call, grid in zip(compiled, grids, strict=True)]
        kernel = _compiled(submission, loads, folder, read)
    except SubmissionRefused as refused:
        raise SubmissionRefused(uncompiled(refused.verdict)) from None
    except TilewrightError as error:
        raise SubmissionRefused(uncompiled(verdict_on("submission", error))) from None
    if isinstance(kernel, Executable):
        return [CaseCall(kernel, named={**case.arrays, **case.numbers}) for case in cases]
    return [CaseCall(kernel, _ordered(submission, case), _launch(submission, case.sizes)) for case in cases]


def uncompiled(verdict: Verdict) -> Verdict:
    """The verdict on what is no kernel: it is refused, and what a compiler says of a line is a finding of its own."""
    if verdict.status == "stopped":
        return verdict
    findings = [replace(finding, kind="compile") if finding.line and finding.kind in COMPILING else finding
                for finding in verdict.findings]  # fmt: skip
    return replace(verdict, status="refused", findings=tuple(findings))


COMPILING = ("kernel", "unsupported", "dispatch", "instruction", "layout", "tool", "target")
"""The kinds of errors that are told as one: ``compile``."""


def _compiled(submission: Submission, loads: Loads, folder: Path, read: Read) -> Executable | LoadedKernel:
    if submission.language == "py":
        return compile(kernel_of(submission, loads["py"], folder, read), submission.target)
    if submission.language == "ptx":
        file = folder / "submission.ptx"
        file.write_text(submission.source, encoding="utf-8")
        return _only(load_ptx(file), submission)
    instance = [submission.kernel] if submission.kernel and "<" in submission.kernel else []
    defines = {name: int(value) if isinstance(value, bool) else value for name, value in submission.constants.items()}
    module = load_cu(submission.source + "\n", submission.target or DEFAULT, kernels=instance, defines=defines,
                     name="submission.cu")  # fmt: skip
    return _only(module, submission)


def _ordered(submission: Submission, case: Case) -> list[Any]:
    memory = {**case.memory, **case.numbers}
    return [memory[argument.name] for argument in submission.arguments]


def _only(module: LoadedModule, submission: Submission) -> LoadedKernel:
    if submission.kernel is not None:
        return module[submission.kernel]
    if len(module.kernels) != 1:
        names = ", ".join(module.kernels) or "none"
        raise ArgumentError(
            "the source has several kernels, or none", given=names, allowed=choices("", module.kernels) or "one"
        )
    return module[module.kernels[0]]


# The reference


def _references(submission: Submission, cases: Sequence[Case], refer: Refer) -> list[dict[str, NDArray[Any]]]:
    """What each case's arrays hold afterwards by the reference, which runs behind walls as well; none without one."""
    if submission.reference is None:
        return [{} for _ in cases]
    result = refer(partial(_referred, submission, cases), submission)
    if isinstance(result, Died):
        raise no_results(str(result))
    try:
        held = np.load(io.BytesIO(result), allow_pickle=False)
    except (ValueError, OSError, EOFError):
        raise no_results("its process ended by itself") from None
    if "error" in held:
        raise ArgumentError("the reference failed", given=str(held["error"]), allowed="a dictionary of arrays by name")
    results: list[dict[str, NDArray[Any]]] = [{} for _ in cases]
    for key in held.files:
        number, _, name = key.partition(":")
        results[int(number)][name] = held[key]
    return results


def no_results(why: str) -> ArgumentError:
    """The error for a reference that ends, or takes too long."""
    return ArgumentError("the reference gave no results", given=why, allowed="a function `reference` in NumPy")


def _referred(submission: Submission, cases: Sequence[Case]) -> bytes:
    """In the process behind walls: all results as one .npz."""
    results: dict[str, NDArray[Any]] = {}
    try:
        names: dict[str, Any] = {"np": np, "numpy": np}
        exec(builtins.compile(submission.reference or "", "reference.py", "exec"), names)
        if not callable(function := names.get("reference")):
            raise NameError("it defines no function `reference`")
        for number, case in enumerate(cases):
            for name, array in _named(function(**case.inputs(submission)), submission).items():
                results[f"{number}:{name}"] = array
    except Exception as error:  # whatever a caller's own code raises is the caller's to see
        results = {"error": np.array(f"{type(error).__name__}: {error}")}
    into = io.BytesIO()
    np.savez(into, **results)  # type: ignore[arg-type]  # names are ours
    return into.getvalue()


def _named(result: Any, submission: Submission) -> dict[str, NDArray[Any]]:
    """Results by the names of the arguments that the kernel writes."""
    outputs = [argument.name for argument in submission.arrays if argument.role != "in"]
    named = result if isinstance(result, Mapping) else {outputs[0]: result} if len(outputs) == 1 else None
    if named is None or {*named} != {*outputs}:
        raise ValueError(f"it returns {[*named] if named is not None else type(result).__name__}, not {outputs}")
    kinds = {name: np.asarray(array) for name, array in named.items()}
    if unfit := [name for name, array in kinds.items() if array.dtype.kind in "cmM"]:
        raise ValueError(f"{unfit[0]} holds {kinds[unfit[0]].dtype}, no numbers that a kernel has")
    return {name: array if array.dtype.kind in "biuf" else array.astype(np.float64) for name, array in kinds.items()}


# One case


def _run(call: CaseCall, submission: Submission, seconds: float) -> Verdict:
    """The verdict on a run of one case, which leaves its results in memory."""
    limits = {"limit_s": seconds, "limit_bytes": submission.nbytes, "max_findings": submission.max_findings}
    verdict, _ = ran(call.kernel, call.args, call.named, submission.checks, limits, in_place=True)
    return verdict


def _compared(verdict: Verdict, case: Case, wanted: Mapping[str, NDArray[Any]], submission: Submission) -> Verdict:
    """The verdict with what memory holds wrongly after the run; results come from nowhere else."""
    if verdict.status not in ("clean", "wrong"):
        return verdict
    differences = [*_differences(case, wanted, submission), *case.touched(submission)]
    findings = (*verdict.findings, *differences)[: submission.max_findings]
    not_covered = tuple(text for text in verdict.not_covered if not (wanted and text.startswith("results")))
    return replace(
        verdict, status="wrong" if differences else verdict.status, findings=findings, not_covered=not_covered
    )


def _launch(submission: Submission, sizes: Mapping[str, int]) -> dict[str, Any]:
    launch, names = submission.launch, submission.names(sizes)
    launched: dict[str, Any] = {
        "grid": _extents(launch.grid, names),
        "block": _extents(launch.block, names),
        "shared_bytes": evaluated(launch.shared_bytes, names),
    }
    if launch.cluster is not None:
        launched["cluster"] = _extents(launch.cluster, names)
    return launched


def _extents(extents: Sequence[Extent], names: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluated(extent, names) for extent in extents)


def _differences(case: Case, wanted: Mapping[str, NDArray[Any]], submission: Submission) -> Iterator[Finding]:
    """Findings for arrays that are not what the reference says."""
    for name, expected in wanted.items():
        have = case.arrays[name]
        if have.shape != expected.shape:
            raise ArgumentError(
                f"the reference's {name} has another shape", given=f"{expected.shape}", allowed=f"{have.shape}"
            )
        exact = have.dtype.kind in "biu" and expected.dtype.kind in "biu"
        difference = differing(name, have, expected, submission.rtol, submission.atol, exact=exact,
                          kept=partial(case.unwritten, name))  # fmt: skip
        if difference is not None:
            yield difference


def _least_ms(kernel: Executable | LoadedKernel, submission: Submission, cases: Sequence[Case]) -> float | None:
    """The least time of the largest case on the GPU asked for, in milliseconds."""
    if submission.gpu is None or not isinstance(kernel, Executable):
        return None
    case = max(cases, key=lambda candidate: sum(array.size for array in candidate.arrays.values()))
    named: dict[str, Any] = {**case.arrays, **case.numbers}
    return float(kernel.profile(gpu=submission.gpu, **named).bound * 1e3)
