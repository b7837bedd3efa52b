"""`tilewright check`: a kernel of a .cu or PTX file on the simulator with every check, and a verdict.

The arguments come from the command line, or from a TOML file of the same name beside the kernel's, with a table
``[[check]]`` for each run:

    [[check]]
    kernel = "vadd"
    grid = 4
    block = 256
    args = ["a:f32[1000]=random", "b:f32[1000]=random", "c:f32[1000]", "n=1000"]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.checking import EXPLORED, LAUNCH, Policy, ran
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, TilewrightError, choices
from tilewright.explain import BUILDS, COMMAND, Finding, parse_idioms, reworded
from tilewright.inputs import check_room, saved
from tilewright.load import LoadedKernel, LoadedModule, load_cu, load_ptx
from tilewright.load.cu_launches import launched
from tilewright.load.declared import Parameter
from tilewright.sequences import launch, sequence
from tilewright.verdict import Report, Verdict
from tilewright.view.terminal import complain, say

if TYPE_CHECKING:
    from tilewright.cli.verdicts import Asked
    from tilewright.sim import Run

__all__ = [
    "Request", "arguments_of", "as_launched", "check_file", "kernel_of", "loaded", "made_argument", "numbers",
    "requests_beside",
]  # fmt: skip

TYPES = {
    **{f"{letter}{bits}": f"{name}{bits}" for letter, name in (("i", "int"), ("s", "int"), ("u", "uint"))
       for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "b8": "uint8",
    "bool": "bool",
}  # fmt: skip
FILLS = ("zeros", "ones", "ramp", "random")
_ARGUMENT = re.compile(
    r"(?:(?P<name>\w+)\s*:\s*)?(?P<type>\w+)\s*\[(?P<extents>\s*\d+\s*(?:[,x]\s*\d+\s*)*)\]\s*(?:=\s*(?P<how>.+))?"
)
_STRUCTURE = re.compile(r"(?:(?P<name>\w+)\s*=\s*)?\{(?P<fields>.+)\}", re.DOTALL)
_TYPED = re.compile(r"(?P<type>\w+)\((?P<value>[^()]+)\)")
ALLOWED = (
    "NAME:f32[1024]=random, NAME:i32[8,16] (zeros), NAME=FILE.npy, NAME=7, null, or NAME={FIELD, FIELD} of such, "
    "where i32(7) has its type"
)


@dataclass(frozen=True)
class Request:
    """One run. grid, block, cluster: along x, y, z. args: as `made_argument` reads them."""

    kernel: str | None = None
    grid: Sequence[int] = (1,)
    block: Sequence[int] | None = None
    shared_bytes: int = 0
    cluster: Sequence[int] | None = None
    non_portable_cluster: bool = False
    args: tuple[str, ...] = ()
    check: str = "all"
    globals: tuple[str, ...] = ()
    seed: int = 0


def numbers(text: str | int | Sequence[int]) -> tuple[int, ...]:
    """``4``, ``"4,2"`` or ``[4, 2]`` as numbers."""
    if isinstance(text, int):
        return (text,)
    parts = text.replace("x", ",").split(",") if isinstance(text, str) else text
    try:
        return tuple(int(part) for part in parts)
    except ValueError:
        raise ArgumentError("these are no numbers of threads or CTAs", given=str(text), allowed="4 or 4,2,1") from None


def requests_beside(path: Path) -> list[Request]:
    """The runs that the TOML file beside a file asks for; none where there is no such file."""
    if not path.is_file():
        return []  # loading it reports the error
    beside = path.with_suffix(".toml")
    if not beside.is_file():
        return []
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        tables = tomllib.loads(beside.read_text(encoding="utf-8")).get("check", [])
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(f"{beside} is no TOML", given=str(error)) from None
    return [_request(table, beside) for table in ([tables] if isinstance(tables, dict) else tables)]


def _request(table: Mapping[str, Any], file: Path) -> Request:
    known = Request.__dataclass_fields__
    for key in table:
        if key not in known:
            raise ArgumentError(f"{file.name}: unknown key {key}", given=key, allowed=choices(key, known))
    values = dict(table)
    for key in ("grid", "block", "cluster"):
        if key in values:
            values[key] = numbers(values[key])
    for key in ("args", "globals"):
        values[key] = tuple(map(str, values.get(key, ())))
    return Request(**values)


def made_argument(text: str, random: np.random.Generator) -> tuple[str | None, Any]:
    """An argument as the command line has it, and the name that it has there.

    >>> made_argument("x:f32[2,3]=ramp", np.random.default_rng(0))[1].tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """
    structure = _STRUCTURE.fullmatch(text.strip())
    if structure is not None:
        fields = re.split(r",(?![^\[{]*[\]}])", structure["fields"])
        return structure["name"], tuple(made_argument(field, random)[1] for field in fields)
    if text.strip() == "null":
        return None, None
    array = _ARGUMENT.fullmatch(text.strip())
    if array is not None:
        shape = tuple(int(part) for part in re.split(r"[,x]", array["extents"]))
        return array["name"], _array(text, array["type"], shape, (array["how"] or "zeros").strip(), random)
    name, _, value = text.rpartition("=")
    name = name.partition(":")[0].strip()
    if value.strip().endswith(".npy"):
        return name or None, saved(value.strip())
    if (typed := _TYPED.fullmatch(value.strip())) is not None and typed["type"] in TYPES:
        return name or None, _array(text, typed["type"], (), typed["value"], random)[()]
    try:
        number: int | float = int(value, 0)
    except ValueError:
        try:
            number = float(value)
        except ValueError:
            raise ArgumentError("--arg is no argument", given=text, allowed=ALLOWED) from None
    return name or None, number


def _array(text: str, kind: str, shape: tuple[int, ...], fill: str, random: np.random.Generator) -> Any:
    if kind not in TYPES:
        raise ArgumentError(f"unknown type {kind!r}", given=text, allowed=choices(kind, TYPES))
    check_room("--arg", shape, dtype(TYPES[kind]))
    numpy = dtype(TYPES[kind]).numpy
    if fill == "random":
        if numpy.kind in "iu":
            return random.integers(0 if numpy.kind == "u" else -100, 100, shape).astype(numpy)
        return random.standard_normal(shape).astype(numpy)
    if fill == "ramp":
        return np.arange(np.prod(shape)).reshape(shape).astype(numpy)
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones", numpy)
    if fill.endswith(".npy"):
        return _viewed(saved(fill), numpy, shape, text)
    try:
        value = float(fill)
    except ValueError:
        allowed = f"{', '.join(FILLS)}, a number, FILE.npy"
        raise ArgumentError(f"unknown fill {fill!r}", given=text, allowed=allowed) from None
    if numpy.kind in "iu" and not (held := np.iinfo(TYPES[kind])).min <= value <= held.max:
        raise ArgumentError(f"the fill is no {TYPES[kind]}", given=text, allowed=f"{held.min} to {held.max}")
    with np.errstate(over="ignore"):  # a large float is the infinity of a narrow one
        return np.full(shape, value).astype(numpy)


def _viewed(found: NDArray[Any], kind: np.dtype[Any], shape: tuple[int, ...], text: str) -> NDArray[Any]:
    """The bytes of a file as an array of this type and shape."""
    needed = int(np.prod(shape)) * kind.itemsize
    if found.nbytes != needed:
        raise ArgumentError(
            "the file has another size", given=f"{text}: {found.nbytes} bytes", allowed=f"{needed} bytes"
        )
    return np.frombuffer(bytearray(np.ascontiguousarray(found)), kind).reshape(shape)


def loaded(
    path: Path,
    arch: str | None,
    defines: Iterable[str],
    include: Iterable[Path],
    kernels: Sequence[str],
    options: Sequence[str] = (),
) -> LoadedModule:
    """The module of a file: PTX by its suffix, else CUDA C++."""
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}", given=str(path), allowed="FILE.py, FILE.cu or FILE.ptx")
    if path.suffix == ".ptx":
        return load_ptx(path)
    pairs = (define.partition("=") for define in defines)
    macros = {name: value if equals else None for name, equals, value in pairs}
    wanted = [kernel for kernel in kernels if "<" in kernel]
    return load_cu(path, arch or "sm_90a", defines=macros, include=list(include), kernels=wanted, options=options)


def check_file(asked: Asked, limits: Mapping[str, Any]) -> Report:
    """Run what is asked for, and say of each run what came of it: as it goes, or under --json in the report alone.

    Raises TilewrightError where there is nothing to run.
    """
    grid, block, cluster = (numbers(text) if text else None for text in (asked.grid, asked.block, asked.cluster))
    one = Request(asked.kernel, grid or (1,), block, asked.smem, cluster, args=tuple(asked.arg), check=asked.checks,
                  globals=tuple(asked.const), seed=asked.seed)  # fmt: skip
    if asked.profile is not None:
        from tilewright.profiling import gpu

        gpu(asked.profile)  # an unknown one is told before the run
    if asked.in_order:
        return _in_order(asked, limits)
    requests = ([] if asked.arg else requests_beside(asked.file)) or [one]
    kernels = [request.kernel for request in requests if request.kernel]
    module = loaded(asked.file, asked.arch, asked.define, asked.include, kernels, asked.option)
    if one.block is None and requests == [one] and asked.file.suffix != ".ptx":
        requests = [as_launched(module, one, asked.file)]
    limits = {**limits, "max_findings": asked.max_findings}
    choices_made = {"explore": EXPLORED if asked.explore is None else asked.explore, "replay": asked.replay}
    policy = Policy(asked.both, parse_idioms(asked.strict or ()))
    verdicts = [
        _checked(module, request, gpu=asked.gpu, quiet=asked.json, limits={**limits, **choices_made}, policy=policy,
                 profile=asked.profile)
        for request in requests
    ]  # fmt: skip
    return Report(str(asked.file), tuple(verdicts), limits)


def _in_order(asked: Asked, limits: Mapping[str, Any]) -> Report:
    """The verdicts on the launches of a file, in their order. Raises ArgumentError for arguments that nobody gives."""
    found = launched(asked.file.read_text(encoding="utf-8", errors="replace"))
    if not found:
        raise ArgumentError(f"{asked.file.name} has no launch in numbers", allowed="kernel<<<4, 256>>>(x, n)")
    names = [each.kernel for each in found]
    module = loaded(asked.file, asked.arch, asked.define, asked.include, names, asked.option)
    random = np.random.default_rng(asked.seed)
    made = dict(made_argument(text, random) for text in asked.arg)
    lacks = sorted({word for each in found for word in each.arguments if isinstance(word, str) and word not in made})
    if lacks:
        hint = " ".join(f"--arg {name}:f32[1024]" for name in lacks)
        raise ArgumentError("the launches take arguments whose values nobody gives", given=", ".join(lacks), hint=hint)
    launches = [
        launch(module[each.kernel], *(made[word] if isinstance(word, str) else word for word in each.arguments),
               grid=each.grid, block=each.block, shared_bytes=each.shared_bytes, pdl=asked.pdl and number > 0)
        for number, each in enumerate(found)
    ]  # fmt: skip
    report = sequence(
        *launches, checks=asked.checks, both=asked.both, strict=asked.strict or (), explore=asked.explore,
        limit_s=limits.get("limit_s"), max_findings=asked.max_findings,
    )  # fmt: skip
    if not asked.json:
        say(str(report))
    return replace(report, file=str(asked.file))


def as_launched(module: LoadedModule, request: Request, file: Path) -> Request:
    """The request with the launch that the file itself has; Raises ArgumentError where it has none in numbers."""
    kernel = kernel_of(module, request)
    found = launched(file.read_text(encoding="utf-8", errors="replace"), kernel.name)
    if not found:
        lacks = f"{file.name} has no launch of {kernel.name} in numbers"
        raise ArgumentError(lacks, given="no --block", allowed="--grid 4 --block 256", hint="--block 256")
    first = found[0]
    complain(f"{file.name}:{first.line}: launched as here: grid {first.grid}, block {first.block}, "
             f"{first.shared_bytes} bytes of dynamic shared memory")  # fmt: skip
    return replace(request, grid=first.grid, block=first.block, shared_bytes=request.shared_bytes or first.shared_bytes)


def kernel_of(module: LoadedModule, request: Request) -> LoadedKernel:
    """The kernel of a file that is asked for, or its only one."""
    if request.kernel is not None:
        return module[request.kernel]
    names = module.kernels
    if len(names) != 1:
        raise ArgumentError(
            "the file has several kernels" if names else "the file has no kernel", given=", ".join(names) or "none",
            allowed=f"--kernel {names[0]}" if names else "a __global__ function; of a template --kernel 'k<128>'",
        )  # fmt: skip
    return module[names[0]]


def _checked(
    module: LoadedModule, request: Request, *, gpu: bool, quiet: bool, limits: Mapping[str, Any], policy: Policy,
    profile: str | None = None,
) -> Verdict:  # fmt: skip
    kernel = kernel_of(module, request)
    random = np.random.default_rng(request.seed)
    for text in request.globals:
        name, values = made_argument(text, random)
        place = module.globals[name or ""]
        if np.size(values) not in (1, place.size):
            raise ArgumentError(
                f"--const {name} has another size", given=text, allowed=f"{place.size} of {place.dtype}"
            )
        place[...] = np.reshape(values, place.shape if np.size(values) > 1 else ())
    args = arguments_of(kernel, request, random)
    kept = gpu or profile is not None
    before = [np.copy(value) if isinstance(value, np.ndarray) else value for value in args] if kept else []
    launch: dict[str, Any] = {name: getattr(request, name) for name in LAUNCH if hasattr(request, name)}
    verdict, outcome = ran(kernel, args, launch, request.check, limits, in_place=True, policy=policy)
    if verdict.status == "refused" and isinstance(outcome, TilewrightError):
        raise outcome
    if gpu and verdict:
        verdict = _compared(kernel, verdict, before, args, launch)
    if not quiet:
        _say(verdict, outcome)
    if profile is not None and not quiet and not isinstance(outcome, TilewrightError | MemoryError):
        _say_times(kernel, before, launch, profile)
    return verdict


def _say_times(kernel: LoadedKernel, args: Sequence[Any], launch: Mapping[str, Any], gpu: str) -> None:
    """Print the least time that a launch takes on a GPU, and about how long it takes."""
    from tilewright.profiling import estimate_loaded, profile_loaded
    from tilewright.profiling import gpu as gpu_named

    for times in (profile_loaded, estimate_loaded):
        say()
        say(str(times(kernel, args, launch, gpu_named(gpu))))


def _compared(
    kernel: LoadedKernel, verdict: Verdict, before: Sequence[Any], args: Sequence[Any], launch: Mapping[str, Any]
) -> Verdict:
    """The verdict, with differences from the same launch on a GPU."""
    from tilewright.load.on_gpu import differences

    apart = tuple(Finding("results", text) for text in differences(kernel, before, args, **launch))
    return replace(verdict, status="wrong" if apart else "clean", findings=(*apart, *verdict.findings))


def _say(verdict: Verdict, outcome: Run | TilewrightError | MemoryError) -> None:
    """The verdict, all of it, to stdout; an error of usage has been raised before."""
    if verdict.output:
        say(verdict.output.rstrip("\n"))
    say(f"{verdict.kernel}: {verdict.said}")
    if isinstance(outcome, TilewrightError):
        say(str(reworded(outcome, COMMAND)))
    shown = len(outcome.findings) if isinstance(outcome, TilewrightError) else 0
    for number, finding in enumerate(verdict.findings):
        if finding.severity == "warning":
            say(f"warning: {finding.message}")
        elif number >= shown:
            say(str(finding))
        elif len(finding.builds) == 1:
            say(f"  line {finding.line}: {BUILDS[finding.builds[0]]}")
    if not isinstance(outcome, TilewrightError | MemoryError):
        say()
        say(str(outcome.counts))


def arguments_of(kernel: LoadedKernel, request: Request, random: np.random.Generator) -> list[Any]:
    """Arguments by position: those with a name of the kernel's go where it stands, the others where room is left.

    Where nobody has named the parameters, all go by position, and theirs are the names that reports have.
    """
    made = [(*made_argument(text, random), text) for text in request.args]
    if not kernel.has_names and len(made) == len(kernel.parameters):
        kernel.call_parameters([name or own for (name, _, _), own in zip(made, kernel.parameters, strict=True)])
    own = [param.name for param in kernel.entry.params]
    aliases = dict(zip([*own, *kernel.parameters], kernel.parameters * 2, strict=True))
    values: dict[str, Any] = {}
    for name, value, text in made:
        if name in aliases:
            if aliases[name] in values:
                raise ArgumentError(f"argument {aliases[name]} is given twice", given=text)
            values[aliases[name]] = value
        elif name is not None and kernel.has_names:
            allowed = choices(name, kernel.parameters)
            raise ArgumentError(f"{kernel.name} has no parameter {name!r}", given=text, allowed=allowed or "none")
    left = [each for each in kernel.parameters if each not in values]
    rest = [value for name, value, _ in made if name not in aliases]
    if len(rest) > len(left):
        raise ArgumentError(f"{kernel.name} takes {len(own)} arguments", given=f"{len(made)}", allowed=_spelled(kernel))
    values |= dict(zip(left, rest, strict=False))
    if missing := left[len(rest) :]:
        hint = " ".join(f"--arg {_example(each)}" for each in kernel.written if each.name in missing)
        raise ArgumentError(f"{kernel.name} lacks arguments", given=f"no {', '.join(missing)}", allowed=ALLOWED,
                            hint=hint)  # fmt: skip
    return [values[each] for each in kernel.parameters]


def _spelled(kernel: LoadedKernel) -> str:
    return ", ".join(f"{each.type} {each.name}".strip() for each in kernel.written) or "none"


def _example(param: Parameter) -> str:
    """An argument that fits a parameter, as the command line has it."""
    if param.type and param.type[-1] != "*":
        return f"{param.name}=7"
    kind = next((short for short, name in TYPES.items() if name == param.element), "f32")
    return f"{param.name}:{kind}[1024]=random"
