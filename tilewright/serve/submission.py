"""What a program sends to be judged: a kernel, a declaration of its arguments, and a reference in NumPy; and the cases
that are made of that.

    {"language": "cu", "source": "__global__ void scale(...) {...}",
     "sizes": {"n": {"from": 1, "to": 4096}},
     "arguments": [{"name": "a", "dtype": "float32", "shape": ["n"]},
                   {"name": "b", "dtype": "float32", "shape": ["n"], "role": "out"},
                   {"name": "n", "value": "n"}],
     "launch": {"grid": ["(n + 255) // 256"], "block": [256]},
     "reference": "def reference(a, n): return {'b': 2 * a}"}

Everything is data. Extents are expressions of whole numbers and sizes, evaluated here and never by Python.
"""

from __future__ import annotations

import ast
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType, dtype
from tilewright.errors import ArgumentError, KernelError, choices
from tilewright.explain import Finding
from tilewright.inputs import check_room

LANGUAGES = ("py", "cu", "ptx", "triton")
ROLES = ("in", "out", "inout")
CONTENTS = ("normal", "uniform", "integers", "zeros", "ones", "ramp", "special")
MOST_CASES = 64
MOST_SIZE = (1 << 63) - 1
MOST_DIMENSIONS = 32
MOST_OFF = 1e30  # that a result may be off: whoever asks for infinity asks for nothing
OPERATORS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}
Extent = int | str
"""A whole number, or an expression: ``"(n + 255) // 256"``."""


@dataclass(frozen=True, slots=True)
class Size:
    """A size that cases draw: whole multiples of ``of`` between two ends, or one of ``among``."""

    start: int = 1
    end: int = 1
    of: int = 1
    among: tuple[int, ...] = ()

    @classmethod
    def read(cls, name: str, size: Any) -> Size:
        """From JSON: a number, a list of them, or ``{"from": 1, "to": 4096, "of": 8}``."""
        if isinstance(size, int) and not isinstance(size, bool):
            return cls(among=(size,))
        if isinstance(size, list) and size and all(type(number) is int for number in size):
            return cls(among=tuple(size))
        if (
            isinstance(size, Mapping)
            and {*size} <= {"from", "to", "of"}
            and all(type(number) is int for number in size.values())
        ):
            drawn = cls(size.get("from", 1), size.get("to", 1), size.get("of", 1))
            fits = 0 <= drawn.start <= drawn.end <= MOST_SIZE and drawn.of >= 1
            if fits and drawn.start <= drawn.end // drawn.of * drawn.of:
                return drawn
        raise ArgumentError(
            f"{name} is no size", given=repr(size), allowed='7, [16, 32] or {"from": 1, "to": 4096, "of": 8}'
        )


@dataclass(frozen=True, slots=True)
class Declared:
    """An argument. An array has dtype and shape; a number has value.

    role: may the kernel write it ("out", "inout"), does it read it ("in", "inout")? contents: of an input. pitch: from
    one row to the next, in elements; the gap belongs to nobody.
    """

    name: str
    dtype: DType | None = None
    shape: tuple[Extent, ...] = ()
    role: str = "in"
    contents: str = "normal"
    pitch: Extent | None = None
    value: Extent | float | None = None

    @property
    def is_array(self) -> bool:
        """Is it an array, or a number?"""
        return self.dtype is not None and self.value is None


@dataclass(frozen=True, slots=True)
class DeclaredLaunch:
    """Of a kernel in CUDA or PTX: CTAs and threads along x, y, z, bytes of dynamic shared memory. Of one in Triton:
    programs along x, y, z, its options, and which configuration of an autotuned kernel it is.
    """

    grid: tuple[Extent, ...] = (1,)
    block: tuple[Extent, ...] = (1,)
    shared_bytes: Extent = 0
    cluster: tuple[Extent, ...] | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int | None = None
    config: int = 0


LAUNCHES = {
    "py": ((), ""),
    **dict.fromkeys(("cu", "ptx"), (("grid", "block", "shared_bytes", "cluster"), "block")),
    "triton": (("grid", "num_warps", "num_stages", "num_ctas", "config"), "grid"),
}
"""By language: what a launch may say, and what it must; a kernel of ours has its launch in itself."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One kernel to judge.

    kernel: its name, where the source has several. constants: of a ``@T.jit`` or ``@triton.jit`` kernel, macros of
    CUDA; extents may name whole numbers among them, too. cases: sets of arguments. seconds, nbytes: what all of them
    may take together. gpu: whose least time is wanted, such as "H200".
    """

    language: str
    source: str
    arguments: tuple[Declared, ...]
    sizes: Mapping[str, Size] = field(default_factory=dict)
    launch: DeclaredLaunch = field(default_factory=DeclaredLaunch)
    kernel: str | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    reference: str | None = None
    rtol: float = 1e-3
    atol: float = 1e-3
    target: str | None = None
    checks: str = "all"
    cases: int = 5
    seed: int = 0
    seconds: float = 20.0
    nbytes: int = 2 << 30
    max_findings: int = 20
    gpu: str | None = None

    @property
    def arrays(self) -> tuple[Declared, ...]:
        """The arguments that are arrays."""
        return tuple(argument for argument in self.arguments if argument.is_array)

    def names(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """What extents may name, by these sizes."""
        return {**{name: value for name, value in self.constants.items() if type(value) is int}, **sizes}


def read_json(text: str | bytes) -> Any:
    """A request. Raises ValueError where it is no JSON: that has no NaN and no infinity, however it is written."""

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError(f"{number} is no number of JSON")
        return value

    return json.loads(text, parse_float=finite, parse_constant=finite)


def submission_of(request: Any) -> Submission:
    """A submission from JSON. Raises ArgumentError that names the field, what was given and what is allowed."""
    if not isinstance(request, Mapping):
        raise ArgumentError(
            "a submission is an object", given=type(request).__name__, allowed='{"language": "py", ...}'
        )
    values = dict(request)
    values.pop("id", None)
    _check_names("a submission", values, Submission)
    _check_kinds(values)
    _check_constants(values["language"], values.get("constants", {}))
    if not isinstance(values["arguments"], list):
        raise ArgumentError("arguments are a list", given=repr(values["arguments"]), allowed='[{"name": "a", ...}]')
    values["arguments"] = tuple(map(_declared, values["arguments"]))
    names = [argument.name for argument in values["arguments"]]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ArgumentError(f"two arguments are called {twice[0]}", given=", ".join(names), allowed="a name for each")
    values["sizes"] = {name: Size.read(f"size {name}", size) for name, size in values.get("sizes", {}).items()}
    values["launch"] = _launch(values["language"], values.get("launch", {}))
    submission = Submission(**values)
    _check_extents(submission)
    return submission


KINDS: dict[str, tuple[type, ...]] = {
    "language": (str,), "source": (str,), "kernel": (str, type(None)), "reference": (str, type(None)),
    "target": (str, type(None)), "checks": (str,), "gpu": (str, type(None)), "sizes": (dict,), "constants": (dict,),
    "rtol": (int, float), "atol": (int, float), "seconds": (int, float), "cases": (int,), "seed": (int,),
    "nbytes": (int,), "max_findings": (int,),
}  # fmt: skip


def _check_kinds(values: Mapping[str, Any]) -> None:
    for name, kinds in KINDS.items():
        if name in values and (not isinstance(values[name], kinds) or isinstance(values[name], bool)):
            allowed = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise ArgumentError(f"{name} has another type", given=repr(values[name])[:80], allowed=allowed)
        if isinstance(text := values.get(name), str) and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ArgumentError(f"{name} is no text", given="half a letter of UTF-16", allowed="Unicode")
    _choice("language", values["language"], LANGUAGES)
    for name, least, most in (("cases", 1, MOST_CASES), ("seconds", 0.1, 3600), ("nbytes", 1 << 20, 1 << 40),
                              ("max_findings", 1, 1000), ("seed", 0, 1 << 63), ("rtol", 0, MOST_OFF),
                              ("atol", 0, MOST_OFF)):  # fmt: skip
        if name in values and not least <= values[name] <= most:
            raise ArgumentError(f"{name} is out of range", given=f"{values[name]}", allowed=f"{least} to {most}")
    if values.get("gpu") is not None:
        from tilewright.profiling import gpu

        gpu(values["gpu"])  # an unknown one is told now, not after the last case


def _check_constants(language: str, constants: Mapping[str, Any]) -> None:
    if constants and language == "ptx":
        raise ArgumentError("PTX has no constants", given=", ".join(constants), allowed="arguments with a value")
    for name, value in constants.items():
        if not name.isidentifier():
            raise ArgumentError(
                "the name of a constant is no name", given=repr(name)[:80], allowed="letters, digits, _"
            )
        if not isinstance(value, (int, float, str)) or (isinstance(value, float) and not math.isfinite(value)):
            raise ArgumentError(f"constant {name} has another type", given=repr(value)[:80],
                                allowed="a number, a text, true or false")  # fmt: skip


def _choice(what: str, choice: Any, allowed: Sequence[str]) -> None:
    if choice not in allowed:
        raise ArgumentError(f"unknown {what} {choice!r}", given=str(choice), allowed=choices(str(choice), allowed))


def _check_names(what: str, values: Mapping[str, Any], kind: type) -> None:
    names = [row.name for row in fields(kind)]
    for name in values:
        if name not in names:
            raise ArgumentError(f"{what} has no {name!r}", given=str(name), allowed=choices(str(name), names))
    needed = [row.name for row in fields(kind) if row.default is MISSING and row.default_factory is MISSING]
    if lacking := [name for name in needed if name not in values]:
        raise ArgumentError(
            f"{what} lacks {lacking[0]!r}", given=", ".join(values) or "nothing", allowed=", ".join(names)
        )


def _declared(argument: Any) -> Declared:
    """One argument from JSON."""
    if not isinstance(argument, Mapping):
        raise ArgumentError("an argument is an object", given=repr(argument)[:80], allowed='{"name": "a", ...}')
    values = dict(argument)
    _check_names("an argument", values, Declared)
    name = values["name"]
    if not isinstance(name, str) or not name.isidentifier():
        raise ArgumentError("the name of an argument is no name", given=repr(name)[:80], allowed="letters, digits, _")
    if ("dtype" in values and "shape" in values) == ("value" in values):
        raise ArgumentError(f"argument {name} is neither an array nor a number", given=", ".join(values),
                            allowed="dtype and shape, or value")  # fmt: skip
    if "dtype" in values:
        values["dtype"] = _dtype(name, values["dtype"])
    _check_number(f"value of {name}", values.get("value"), (int, float, str))
    _check_number(f"pitch of {name}", values.get("pitch"), (int, str))
    values["shape"] = _extents(f"shape of {name}", values.get("shape", []))
    if len(values["shape"]) > MOST_DIMENSIONS:
        raise ArgumentError(f"{name} has too many dimensions", given=f"{len(values['shape'])}",
                            allowed=f"{MOST_DIMENSIONS} at most")  # fmt: skip
    _choice("role", values.get("role", "in"), ROLES)
    _choice("contents", values.get("contents", "normal"), CONTENTS)
    return Declared(**values)


def _dtype(name: str, kind: Any) -> DType:
    """A dtype; an unknown one is the declaration's mistake, and not the kernel's."""
    try:
        return dtype(kind)
    except KernelError as error:
        raise ArgumentError(f"the dtype of {name}: {error.what}", given=error.given, allowed=error.allowed) from None


def _check_number(what: str, number: Any, kinds: tuple[type, ...]) -> None:
    if number is not None and (not isinstance(number, kinds) or isinstance(number, bool)):
        raise ArgumentError(f"{what} is no number", given=repr(number)[:80], allowed='64 or "(n + 255) // 256"')


def _launch(language: str, launch: Any) -> DeclaredLaunch:
    """It says what this language needs, and nothing that it has not."""
    allowed, needed = LAUNCHES[language]
    shown = '"launch": {"grid": [4], "block": [256]}' if needed == "block" else '"launch": {"grid": [4]}'
    if not isinstance(launch, Mapping):
        raise ArgumentError("launch is an object", given=repr(launch)[:80], allowed=shown)
    if needed and needed not in launch:
        raise ArgumentError(f"a submission in {language!r} lacks a launch", given=f"no {needed}", allowed=shown)
    _check_names("a launch", launch, DeclaredLaunch)
    if unfit := [name for name in launch if name not in allowed]:
        raise ArgumentError(f"a launch of {language!r} has no {unfit[0]!r}", given=unfit[0],
                            allowed=", ".join(allowed) or "none: a kernel of ours holds its launch")  # fmt: skip
    values = {name: value for name, value in launch.items() if value is not None}
    for name in ("grid", "block", "cluster"):
        if values.get(name) is not None:
            values[name] = _extents(name, values[name])
    _check_number("shared_bytes of a launch", values.get("shared_bytes"), (int, str))
    for name in ("num_warps", "num_stages", "num_ctas", "config"):
        _check_number(f"{name} of a launch", values.get(name), (int,))
    return DeclaredLaunch(**values)


def _extents(what: str, extents: Any) -> tuple[Extent, ...]:
    every = extents if isinstance(extents, list) else [extents]
    if unfit := [extent for extent in every if not isinstance(extent, (int, str)) or isinstance(extent, bool)]:
        raise ArgumentError(f"{what} is no extent", given=repr(unfit[0])[:80], allowed='64 or "(n + 255) // 256"')
    return tuple(every)


def _check_extents(submission: Submission) -> None:
    """Every expression names sizes that are declared: found out now, not at the third case."""
    sizes = {name: size.among[0] if size.among else max(size.start, 1) for name, size in submission.sizes.items()}
    least = submission.names(sizes)
    launch = submission.launch
    written: list[Iterable[Any]] = [launch.block, launch.cluster or (), [launch.shared_bytes]]
    if submission.language != "triton":  # whose grids may name constants that its own configurations set
        written.append(launch.grid)
    for argument in submission.arguments:
        written += [argument.shape, [argument.pitch or 0], [argument.value if isinstance(argument.value, str) else 0]]
    for text in (text for texts in written for text in texts):
        evaluated(text, least)


def evaluated(text: Extent, sizes: Mapping[str, int]) -> int:
    """An extent as a number.

    >>> evaluated("(n + 255) // 256", {"n": 1000})
    4

    Raises ArgumentError for anything but whole numbers, sizes, ``+ - * // %``, ``min`` and ``max``.
    """
    if isinstance(text, int):
        return text

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                if name not in sizes:
                    raise ArgumentError(f"an extent names {name}, which is no size", given=text,
                                        allowed=choices(name, sizes) or "names among sizes")  # fmt: skip
                return sizes[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS and args:
                return FUNCTIONS[name](*map(value, args))
        raise ArgumentError(
            "this is no extent", given=text, allowed=f"numbers, {', '.join(sizes) or 'sizes'}, + - * // %, min, max"
        )

    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        raise ArgumentError("this is no extent", given=text[:80], allowed="such as (n + 255) // 256") from None


# The cases that a submission is judged on: sizes drawn from its declaration, and arrays of these sizes.
#
# Ragged sizes come first, then the least ones, the largest, each size at its least with the others ragged, then drawn
# ones. What a kernel is to write holds random bits before, so that an element that it leaves out cannot be right by
# luck.


MOST_ELEMENTS = 1 << 18  # of a case whose sizes are drawn: a simulated kernel of so many takes a second at most
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -3e38, 1.0)


@dataclass(frozen=True)
class Case:
    """One set of arguments. memory: of each array all bytes, ``arrays`` what the kernel shall see of it."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, NDArray[Any]]
    memory: Mapping[str, NDArray[Any]]
    before: Mapping[str, bytes]
    numbers: Mapping[str, int | float]

    def inputs(self, submission: Submission) -> dict[str, Any]:
        """What a reference gets: what the kernel was to read, before it ran, and the numbers."""
        read = [argument.name for argument in submission.arrays if argument.role != "out"]
        return {**{name: self._at_first(name) for name in read}, **self.numbers}

    def _at_first(self, name: str) -> NDArray[Any]:
        memory, seen = self.memory[name], self.arrays[name]
        whole = np.frombuffer(self.before[name], memory.dtype).reshape(memory.shape)
        return (whole[..., : seen.shape[-1]] if seen.ndim else whole).copy()

    def touched(self, submission: Submission) -> Iterator[Finding]:
        """Findings for bytes that no kernel may change: inputs, and the gaps between rows."""
        for argument in submission.arrays:
            now = self.memory[argument.name].view(np.uint8).reshape(-1)
            then = np.frombuffer(self.before[argument.name], np.uint8)
            changed = now != then
            if argument.role != "in" and argument.pitch is not None:
                itemsize = self.memory[argument.name].itemsize
                used = np.zeros(self.memory[argument.name].shape, bool)
                used[..., : self.arrays[argument.name].shape[-1]] = True
                changed &= ~np.repeat(used.reshape(-1), itemsize)
            elif argument.role != "in":
                continue
            if changed.any():
                what = "changes its input" if argument.role == "in" else "writes between the rows of"
                at = f"{argument.name}, byte {int(np.argmax(changed))}"
                yield Finding("results", f"the kernel {what} {argument.name}", buffer=argument.name, given=at,
                              allowed=f"role {argument.role!r}")  # fmt: skip

    def unwritten(self, name: str, wrong: NDArray[np.bool_]) -> int:
        """How many of these wrong elements still hold what was there before the run."""
        memory = self.memory[name]
        now = memory.view(np.uint8).reshape(*memory.shape, -1)
        then = np.frombuffer(self.before[name], np.uint8).reshape(now.shape)
        kept = (now == then).all(axis=-1)
        return int(((kept[..., : wrong.shape[-1]] if wrong.ndim else kept) & wrong).sum())


def cases_of(submission: Submission) -> Iterator[Case]:
    """As many cases as asked for, the same ones for the same seed."""
    for number, sizes in enumerate(_sizes(submission)):
        random = np.random.default_rng([submission.seed, number])
        names = submission.names(sizes)
        memory = {argument.name: _memory(argument, names, submission, random) for argument in submission.arrays}
        arrays = {argument.name: _seen(memory[argument.name], argument, names) for argument in submission.arrays}
        before = {name: array.tobytes() for name, array in memory.items()}
        others = (argument for argument in submission.arguments if not argument.is_array)
        numbers = {argument.name: _number(argument, names) for argument in others}
        yield Case(sizes, arrays, memory, before, numbers)


# The sizes of the cases.


def _sizes(submission: Submission) -> list[dict[str, int]]:
    """Distinct sets of sizes; fewer than asked for where the declaration has no more, but one at least."""
    random = np.random.default_rng([submission.seed, 1 << 20])
    declared = submission.sizes

    def drawn(how: Mapping[str, str]) -> dict[str, int]:
        return _fitting(
            submission, {name: _drawn(size, how.get(name, "ragged"), random) for name, size in declared.items()}
        )

    ways: list[dict[str, str]] = [{}, dict.fromkeys(declared, "least"), dict.fromkeys(declared, "most")]
    ways += [{name: "least"} for name in declared]
    ways += [dict.fromkeys(declared, "any") for _ in range(4 * submission.cases)]
    every = {tuple(sizes.items()): sizes for sizes in map(drawn, ways)}
    wanted = submission.cases if declared else 1
    return [*every.values()][:wanted]


def _drawn(size: Size, how: str, random: np.random.Generator) -> int:
    if size.among:
        return {"least": min(size.among), "most": max(size.among)}.get(how) or int(random.choice(size.among))
    least, most = -(-size.start // size.of), size.end // size.of
    if how == "least":
        return max(least, min(1, most)) * size.of
    if how == "most":
        return most * size.of
    low = max(least, 1)
    count = int(np.exp(random.uniform(np.log(low), np.log(max(most, low) + 1)))) if most > low else most
    count = min(max(count, least), most)
    return (count - 1 if how == "ragged" and count % 2 == 0 and count > least else count) * size.of


def _fitting(submission: Submission, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes, the largest of them halved until the case is small enough to simulate."""
    fitted = dict(sizes)

    def elements() -> int:
        names = submission.names(fitted)
        shapes = ([evaluated(extent, names) for extent in argument.shape] for argument in submission.arrays)
        return sum(int(np.prod(shape, dtype=object)) for shape in shapes)

    free = [name for name, size in submission.sizes.items() if not size.among]
    while free and elements() > MOST_ELEMENTS:
        name = max(free, key=lambda size_name: fitted[size_name])
        size = submission.sizes[name]
        smaller = max(fitted[name] // 2 // size.of * size.of, -(-size.start // size.of) * size.of)
        if smaller >= fitted[name]:
            free.remove(name)
        fitted[name] = min(fitted[name], smaller)
    return fitted


# The arrays of a case.


def _memory(
    argument: Declared, sizes: Mapping[str, int], submission: Submission, random: np.random.Generator
) -> NDArray[Any]:
    assert argument.dtype is not None, "it is an array"
    shape = [evaluated(extent, sizes) for extent in argument.shape]
    if min(shape, default=0) < 0:
        raise ArgumentError(
            f"{argument.name} has a negative extent", given=f"{shape} for {dict(sizes)}", allowed="0 or more"
        )
    if argument.pitch is not None:
        pitch = evaluated(argument.pitch, sizes)
        if not shape or pitch < shape[-1]:
            raise ArgumentError(
                f"the rows of {argument.name} overlap", given=f"pitch {pitch}", allowed=f"{shape[-1:]} or more"
            )
        shape[-1] = pitch
    check_room(argument.name, tuple(shape), argument.dtype)
    if sum(shape) and int(np.prod(shape)) * argument.dtype.numpy.itemsize * 8 > submission.nbytes:
        raise ArgumentError(
            f"{argument.name} is larger than the limit",
            given=f"shape {shape}",
            allowed=f"{submission.nbytes} bytes in all",
        )
    return _filled(argument, tuple(shape), argument.dtype, random)


def _filled(argument: Declared, shape: tuple[int, ...], kind: DType, random: np.random.Generator) -> NDArray[Any]:
    count = int(np.prod(shape))
    if argument.role == "out":
        return _bits(count, kind, random).reshape(shape)
    if not kind.is_float:
        ends = {"zeros": (0, 1), "ones": (1, 2)}.get(
            argument.contents, (0 if kind.numpy.kind in "ub" else -100, 2 if kind.numpy.kind == "b" else 100)
        )
        values: NDArray[Any] = np.arange(count) if argument.contents == "ramp" else random.integers(*ends, count)
        return values.astype(kind.numpy).reshape(shape)
    normal = random.standard_normal
    makers: dict[str, Callable[[], NDArray[Any]]] = {
        "normal": lambda: normal(count), "uniform": lambda: random.random(count),
        "integers": lambda: random.integers(-8, 9, count), "zeros": lambda: np.zeros(count),
        "ones": lambda: np.ones(count), "ramp": lambda: np.arange(count),
        "special": lambda: np.where(random.random(count) < 0.2, random.choice(SPECIAL, count), normal(count)),
    }  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        return makers[argument.contents]().astype(kind.numpy).reshape(shape)


def _bits(count: int, kind: DType, random: np.random.Generator) -> NDArray[Any]:
    """Elements of random bits; booleans, and floats of less than a byte, hold values that they have."""
    if kind.numpy.kind == "b" or kind.bits < 8:
        return random.integers(0, 2, count).astype(kind.numpy)
    return np.frombuffer(random.bytes(count * kind.numpy.itemsize), kind.numpy).copy()


def _seen(memory: NDArray[Any], argument: Declared, sizes: Mapping[str, int]) -> NDArray[Any]:
    return memory if argument.pitch is None else memory[..., : evaluated(argument.shape[-1], sizes)]


def _number(argument: Declared, sizes: Mapping[str, int]) -> int | float:
    if isinstance(argument.value, float):
        return argument.value
    if argument.value is None:
        raise ArgumentError(f"argument {argument.name} has no value", given="null", allowed='7, 0.5 or "n"')
    return evaluated(argument.value, sizes)
