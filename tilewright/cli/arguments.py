"""How a kernel of a .cu or PTX file is launched: from the command line, or from a TOML file beside it.

[[check]]
kernel = "vadd"
grid = 4
block = 256
args = ["a:f32[1000]=random", "b:f32[1000]=random", "c:f32[1000]", "n=1000"]

[[sequence]]
arrays = ["x:f32[128]"]
launches = [{kernel = "first", block = 128, args = ["x"]}, {kernel = "next", block = 128, args = ["x"], pdl = true}]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, choices
from tilewright.host import TensorMap, zeros
from tilewright.inputs import LAUNCH, check_room, saved
from tilewright.load import LoadedKernel, LoadedModule
from tilewright.load.cu_tree import split
from tilewright.load.declared import POINTER, TENSOR_MAP, Field, Parameter, number_name

if TYPE_CHECKING:
    from tilewright.cli.judging import RunAsked
    from tilewright.cli.verdicts import Asked

TYPES = {
    **{f"{letter}{bits}": f"{name}{bits}" for letter, name in (("i", "int"), ("s", "int"), ("u", "uint"))
       for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "b8": "uint8",
    "bool": "bool",
}  # fmt: skip
SHORT = {name: short for short, name in reversed(TYPES.items())}
"""The first of these words for a type, by its name."""
FILLS = ("zeros", "ones", "ramp", "random")
_ARGUMENT = re.compile(
    r"(?:(?P<name>\w+)\s*:\s*)?(?P<type>\w+)\s*\[(?P<extents>\s*\d+\s*(?:[,x]\s*\d+\s*)*)\]"
    r"\s*(?:\[(?P<first>\d+):\])?\s*(?:=\s*(?P<how>.+))?"
)
_STRUCTURE = re.compile(r"(?:(?P<name>\w+)\s*=\s*)?\{(?P<fields>.*)\}", re.DOTALL)
_MAP = re.compile(r"(?:(?P<name>\w+)\s*=\s*)?map\((?P<parts>.*)\)", re.DOTALL)
_WRAPPED = re.compile(r"ramp\(\s*([1-9]\d*)\s*\)")
_STEPS = re.compile(r"steps\(\s*([1-9]\d*)\s*\)")
_RANGED = re.compile(r"random\(\s*(-?\d+)\s*,\s*(-?\d+)\s*\)")
_SAME = re.compile(r"(\w+)\s*=\s*(?!null$|nan$|inf$|infinity$|true$|false$)([A-Za-z_]\w*)", re.IGNORECASE)
_TYPED = re.compile(r"(?P<type>\w+)\((?P<value>[^()]+)\)")
HELD = re.compile(r"\bhost\(([\w.]+)\)")  # what host code puts into an array, by its name there
_SAMPLE_OF_MAP = "map(f16[128,64]=random, box=64x64)"
MOST_RANDOM = 1 << 22  # numbers that are made of one array
ALLOWED = (
    "NAME:f32[1024]=random, NAME:f32[1024][1:] (from its second on), "
    "NAME:i32[8,16] (zeros), NAME:i32[3]=0,5,9, NAME=FILE.npy, NAME=7, null, NAME=OTHER (the "
    "same array), NAME=map(f16[128,64]=random, box=64x32, swizzle=3) (a tensor map; oob=nan, steps=1x2, strides=72x1 "
    "in elements), or NAME={FIELD, FIELD} of such, where i32(7) has its type"
)


@dataclass(frozen=True)
class Request:
    """One run. grid, block, cluster: along x, y, z. args: as `made_argument` reads them. made_by: the kernel that makes
    the arguments, of its own, which these are then. pdl: may it begin before the launch before it ends? held: the bytes
    of arrays that host code fills.
    """

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
    made_by: str | None = None
    pdl: bool = False
    held: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, asked: RunAsked | Asked, **more: Any) -> Request:
        """What the options of a command ask for. more: fields besides."""
        grid, block, cluster = (numbers(text) if text else None for text in (asked.grid, asked.block, asked.cluster))
        return cls(asked.kernel, grid or (1,), block, asked.smem, cluster, asked.non_portable_cluster,
                   tuple(asked.arg), seed=asked.seed, **more)  # fmt: skip

    @property
    def launch(self) -> dict[str, Any]:
        """What a call of a kernel says of its launch, by name."""
        return {name: getattr(self, name) for name in LAUNCH}

    @property
    def kernels(self) -> list[str]:
        """The kernels that it names."""
        return [name for name in (self.kernel, self.made_by) if name is not None]


def numbers(text: str | int | Sequence[int]) -> tuple[int, ...]:
    """``4``, ``"4,2"`` or ``[4, 2]`` as numbers."""
    if isinstance(text, int):
        return (text,)
    parts = text.replace("x", ",").split(",") if isinstance(text, str) else text
    try:
        return tuple(int(part) for part in parts)
    except ValueError:
        raise ArgumentError("these are no numbers of threads or CTAs", given=str(text), allowed="4 or 4,2,1") from None


@dataclass(frozen=True)
class SequenceRequest:
    """Launches one behind the other. arrays: those that several of them are given, by name, as `made_argument` reads
    them.
    """

    launches: tuple[Request, ...]
    arrays: tuple[str, ...] = ()
    seed: int = 0


def requests_beside(path: Path) -> list[Request]:
    """The runs that the TOML file beside a file asks for; none where there is no such file."""
    return [_request(table, path) for table in _tables(path, "check")]


def sequences_beside(path: Path) -> list[SequenceRequest]:
    """The sequences of launches that the TOML file beside a file asks for."""
    requests, fields = list[SequenceRequest](), SequenceRequest.__dataclass_fields__
    for table in _tables(path, "sequence"):
        _check_keys(table, fields, path)
        launches = tuple(_request(entry, path) for entry in table.get("launches", ()))
        requests.append(SequenceRequest(launches, tuple(map(str, table.get("arrays", ()))), table.get("seed", 0)))
    return requests


@contextmanager
def named_by(path: Path | None) -> Iterator[None]:
    """What is wrong with an argument is told at the line of the TOML file that has it. path: None for no such file."""
    try:
        yield
    except ArgumentError as error:
        if path is not None and error.at is None:
            lines = path.read_text(encoding="utf-8").split("\n")
            words = re.compile(rf"(?<!\w){re.escape(str(error.given))}(?!\w)")
            places = [number for number, line in enumerate(lines, 1) if words.search(line)]
            error.what = f"{path.name}{f':{places[0]}' if places else ''}: {error.what}"
        raise


def _tables(path: Path, kind: str) -> list[Mapping[str, Any]]:
    """The tables of one name in the TOML file beside a file."""
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
        tables = tomllib.loads(beside.read_text(encoding="utf-8")).get(kind, [])
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(f"{beside} is no TOML", given=str(error)) from None
    tables = [tables] if isinstance(tables, dict) else tables
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ArgumentError(f"{beside.name}: {kind} is no table", given=f"{kind} = {tables!r}", allowed=f"[[{kind}]]")
    return tables


def _check_keys(table: Mapping[str, Any], fields: Iterable[str], path: Path) -> None:
    file = path.with_suffix(".toml")
    for key, value in table.items():
        if key not in fields:
            with named_by(file):
                raise ArgumentError(f"unknown key {key}", given=key, allowed=choices(key, fields))
        if key in ("args", "globals", "arrays", "launches") and not isinstance(value, list):
            allowed = f"{key} = [{'{...}' if key == 'launches' else repr(str(value))}]"
            with named_by(file):
                raise ArgumentError(f"{key} is a list", given=f"{key} = ", allowed=allowed)


def _request(table: Mapping[str, Any], path: Path) -> Request:
    _check_keys(table, [key for key in Request.__dataclass_fields__ if key != "held"], path)
    values = dict(table)
    for key in ("grid", "block", "cluster"):
        if key in values:
            with named_by(path.with_suffix(".toml")):
                values[key] = numbers(values[key])
    for key in ("args", "globals"):
        values[key] = tuple(map(str, values.get(key, ())))
    return Request(**values)


_WORDS = {"null": None, "true": 1, "false": 0}


def of_host(word: str) -> str:
    """What stands for the contents of an array, where an argument says them: `HELD`.

    >>> of_host("x"), of_host("raw_pointer_cast(x.data())")
    ('host(x)', 'host(raw_pointer_cast_x.data)')
    """
    name = re.sub(r"[^\w.]+", "_", word).strip("_")
    return f"host({name})"


def made_argument(text: str, random: np.random.Generator, held: Mapping[str, Any] = {}) -> tuple[str | None, Any]:
    """An argument as the command line has it, and the name that it has there. held: the bytes of arrays of host code.

    >>> made_argument("x:f32[2,3]=ramp", np.random.default_rng(0))[1].tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    >>> made_argument("x:i32[5][2:]=ramp", np.random.default_rng(0))[1].tolist()  # a pointer into the middle
    [2, 3, 4]
    """
    structure = _STRUCTURE.fullmatch(text.strip())
    if structure is not None:
        fields = split(structure["fields"]) if structure["fields"].strip() else []
        return structure["name"], tuple(made_argument(field, random, held)[1] for field in fields)
    if (tensor_map := _MAP.fullmatch(text.strip())) is not None:
        return tensor_map["name"], _mapped(text, split(tensor_map["parts"]), random, held)
    array = _ARGUMENT.fullmatch(text.strip())
    if array is not None:
        return array["name"], _filled_array(text, array, random, held)
    name, _, value = text.rpartition("=")
    name = name.partition(":")[0].strip()
    if value.strip() in _WORDS:
        return name or None, _WORDS[value.strip()]
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


def _filled_array(text: str, array: re.Match[str], random: np.random.Generator, held: Mapping[str, Any]) -> Any:
    """``f32[2,3]=ramp``, as `_ARGUMENT` matches it."""
    shape = tuple(int(part) for part in re.split(r"[,x]", array["extents"]))
    how = (array["how"] or "zeros").strip()
    word = HELD.fullmatch(how)
    if word is not None and word[1] in held:
        how, octets = "zeros", held[word[1]]
    whole = _array(text, array["type"], shape, how, random)
    if word is not None and word[1] in held:
        whole.reshape(-1).view(np.uint8)[: octets.size] = octets[: whole.nbytes]
    return whole.reshape(-1)[int(array["first"]) :] if array["first"] else whole


def _mapped(text: str, parts: Sequence[str], random: np.random.Generator, held: Mapping[str, Any]) -> TensorMap:
    """``map(f16[128,64]=random, box=64x32, swizzle=3)``: an array, and the boxes of it that a kernel moves."""
    pairs = [part.partition("=")[::2] for part in parts[1:]]
    fields = {key.strip(): value.strip() for key, value in pairs}
    if other := next((key for key in fields if key not in ("box", "swizzle", "steps", "strides", "oob")), None):
        allowed = "box=64x32, swizzle=0 to 3, steps=1x2, strides=72x1, oob=zero or nan"
        raise ArgumentError(f"a tensor map has no {other}", given=text, allowed=allowed)
    strides = numbers(fields.pop("strides")) if "strides" in fields else None
    head, _, how = parts[0].partition("=")
    whole = _ARGUMENT.fullmatch(head.strip())
    if whole is None or "box" not in fields:
        raise ArgumentError("a tensor map is of an array, by a box", given=text, allowed="map(f16[128,64], box=64x32)")
    shape = numbers(whole["extents"])
    room = 1 + sum((extent - 1) * step for extent, step in zip(shape, strides or (), strict=False))
    extents = str(room) if strides is not None else whole["extents"]
    _, array = made_argument(f"{whole['type']}[{extents}]{f'={how}' * bool(how)}", random, held)
    if strides is not None:
        array = as_strided(array, shape, [step * array.itemsize for step in strides])
    (swizzle,) = numbers(fields.get("swizzle", 0))
    return TensorMap(array, numbers(fields["box"]), swizzle, oob=fields.get("oob", "zero"),
                     steps=numbers(fields["steps"]) if "steps" in fields else ())  # fmt: skip


def _array(text: str, kind: str, shape: tuple[int, ...], fill: str, random: np.random.Generator) -> Any:
    if kind not in TYPES:
        raise ArgumentError(f"unknown type {kind!r}", given=text, allowed=choices(kind, TYPES))
    numpy = dtype(TYPES[kind]).numpy
    if fill == "random" or _RANGED.fullmatch(fill):
        return _random(shape, numpy, _numbers(random, numpy, fill, text), text)
    if fill == "zeros":
        return _zeros(shape, numpy, text)
    check_room("--arg", shape, dtype(TYPES[kind]))
    if "," in fill:
        return _listed(fill, shape, numpy, text)
    wrapped = _WRAPPED.fullmatch(fill)
    steps = _STEPS.fullmatch(fill)
    if fill == "ramp" or wrapped or steps:
        ramp = np.arange(np.prod(shape)).reshape(shape) * (int(steps[1]) if steps else 1)
        return (ramp % int(wrapped[1]) if wrapped else ramp).astype(numpy)
    if fill == "ones":
        return np.ones(shape, numpy)
    if fill.endswith(".npy"):
        return _viewed(saved(fill), numpy, shape, text)
    try:
        value = float(fill)
    except ValueError:
        allowed = f"{', '.join(FILLS)}, ramp(9), steps(100), random(0,50), a number, numbers with commas, FILE.npy"
        raise ArgumentError(f"unknown fill {fill!r}", given=text, allowed=allowed) from None
    if numpy.kind in "iu" and not (held := np.iinfo(TYPES[kind])).min <= value <= held.max:
        raise ArgumentError(f"the fill is no {TYPES[kind]}", given=text, allowed=f"{held.min} to {held.max}")
    with np.errstate(over="ignore"):  # a large float is the infinity of a narrow one
        return np.full(shape, value).astype(numpy)


def _numbers(random: np.random.Generator, kind: np.dtype[Any], fill: str, text: str) -> Callable[[Any], Any]:
    """What makes random numbers of a type, in a range where one is asked for, by their shape."""
    if (ranged := _RANGED.fullmatch(fill)) is None and kind.kind not in "iu":
        return random.standard_normal
    low, high = (int(ranged[1]), int(ranged[2])) if ranged else (0 if kind.kind == "u" else -100, 100)
    if low >= high:
        raise ArgumentError("the fill is no range", given=text, allowed="random(0,50): from 0 to 49")
    return partial(random.integers, low, high)


def _zeros(shape: tuple[int, ...], kind: np.dtype[Any], text: str) -> NDArray[Any]:
    try:
        return zeros(shape, kind)
    except (MemoryError, ValueError):
        allowed = "what this machine has memory for"
        raise ArgumentError("--arg is larger than an array can be", given=text, allowed=allowed) from None


def _random(shape: tuple[int, ...], kind: np.dtype[Any], make: Callable[[Any], Any], text: str) -> NDArray[Any]:
    """Random numbers; in a very large array at its ends, with zeros between them."""
    if prod(shape) <= MOST_RANDOM:
        return np.asarray(make(shape).astype(kind))
    array = _zeros(shape, kind, text)
    for end in (slice(None, MOST_RANDOM // 2), slice(-MOST_RANDOM // 2, None)):
        array.reshape(-1)[end] = make(MOST_RANDOM // 2).astype(kind)
    return array


def _listed(fill: str, shape: tuple[int, ...], kind: np.dtype[Any], text: str) -> NDArray[Any]:
    """The numbers of a list."""
    try:
        values = [float(part) if kind.kind == "f" else int(part, 0) for part in fill.strip("{}").split(",")]
        return np.array(values, kind).reshape(shape)
    except (ValueError, OverflowError):
        allowed = f"{prod(shape):,} numbers of that type, with commas"
        raise ArgumentError("the fill is no list that fits", given=text, allowed=allowed) from None


def _viewed(array: NDArray[Any], kind: np.dtype[Any], shape: tuple[int, ...], text: str) -> NDArray[Any]:
    """The bytes of a file as an array of this type and shape."""
    needed = int(np.prod(shape)) * kind.itemsize
    if array.nbytes != needed:
        raise ArgumentError(
            "the file has another size", given=f"{text}: {array.nbytes} bytes", allowed=f"{needed} bytes"
        )
    return np.frombuffer(bytearray(np.ascontiguousarray(array)), kind).reshape(shape)


def kernel_of(module: LoadedModule, request: Request) -> LoadedKernel:
    """The kernel of a file that is asked for, or its only one."""
    if request.kernel is not None:
        return module[request.kernel]
    names = module.kernels
    if len(names) != 1:
        raise ArgumentError(
            "the file has several kernels" if names else "the file has no kernel", given=", ".join(names) or "none",
            allowed=f"--kernel '{names[0]}'" if names else "a __global__ function; of a template --kernel 'k<128>'",
        )  # fmt: skip
    return module[names[0]]


def arguments_of(
    kernel: LoadedKernel, request: Request, random: np.random.Generator, arrays: Mapping[str, Any] = {}
) -> list[Any]:
    """Arguments by position: those with a name of the kernel's go where it stands, the others where room is left.
    arrays: those that others have, too, by name.

    Where nobody has named the parameters, all go by position, and theirs are the names that reports have.
    """
    rows = _rows_of(request, random, arrays)
    if request.made_by is not None:
        placed = [value for name, value, _ in rows if not name]
        named = {name: value for name, value, _ in rows if name}
        return kernel.arguments_by(kernel.module[request.made_by], *placed, **named)
    if not kernel.has_names and len(rows) == len(kernel.parameters):
        kernel.call_parameters([name or param for (name, _, _), param in zip(rows, kernel.parameters, strict=True)])
    declared = [param.name for param in kernel.entry.params]
    aliases = dict(zip([*declared, *kernel.parameters], kernel.parameters * 2, strict=True))
    values: dict[str, Any] = {}
    for name, value, text in rows:
        if name in aliases:
            if aliases[name] in values:
                raise ArgumentError(f"argument {aliases[name]} is given twice", given=text)
            values[aliases[name]] = value
        elif name is not None and kernel.has_names:
            allowed = choices(name, kernel.parameters)
            raise ArgumentError(f"{kernel.name} has no parameter {name!r}", given=text, allowed=allowed or "none")
    rest = [value for name, value, _ in rows if name not in aliases]
    left = _left(kernel, values, len(rest))
    if len(rest) > len(left):
        what = f"{kernel.name} takes {len(declared)} arguments"
        raise ArgumentError(what, given=f"{len(rows)}", allowed=_spelled(kernel))
    values |= dict(zip(left, rest, strict=False))
    if missing := left[len(rest) :]:
        params = [param for param in kernel.written if param.name in missing]
        hint = " ".join(f"--arg {example(param)}" for param in params)
        if other := next((param for param in params if param.problem), None):
            hint = f"--made-by KERNEL, a kernel of the file that makes {other.name}: {other.problem}"
        raise ArgumentError(f"{kernel.name} lacks arguments", given=f"no {', '.join(missing)}", allowed=ALLOWED,
                            hint=hint)  # fmt: skip
    return [values.get(name, b"\0") for name in kernel.parameters]


def _rows_of(
    request: Request, random: np.random.Generator, arrays: Mapping[str, Any]
) -> list[tuple[str | None, Any, str]]:
    """The arguments of a request: name, value and text."""
    same = {text: match for text in request.args if (match := _SAME.fullmatch(text.strip()))}
    rest = [text for text in request.args if text not in same]
    if other := next((text for text in rest if arrays and text.isidentifier() and text not in arrays), None):
        raise ArgumentError(f"no array of the sequence is called {other}", given=other, allowed=choices(other, arrays))
    rows = [
        (None, arrays[text], text) if text in arrays else (*made_argument(text, random, request.held), text)
        for text in rest
    ]
    named: dict[str | None, Any] = {name: value for name, value, _ in rows if isinstance(value, np.ndarray)}
    named.update(arrays)
    for text, match in same.items():
        if match[2] not in named:
            raise ArgumentError("--arg is no argument", given=text, allowed=ALLOWED)
        rows.append((match[1], named[match[2]], text))
    return rows


def _left(kernel: LoadedKernel, values: Mapping[str, Any], count: int) -> list[str]:
    """The parameters that have no value, without those that need none where ``count`` values are there for them."""
    left = [param for param in kernel.written if param.name not in values]
    needed = [param for param in left if not param.is_empty]
    return [param.name for param in (needed if count <= len(needed) else left)]


def _spelled(kernel: LoadedKernel) -> str:
    return ", ".join(f"{param.type} {param.name}".strip() for param in kernel.written) or "none"


def example(param: Parameter) -> str:
    """An argument that fits a parameter, as the command line has it: floats are random, integers zeros."""
    if param.fields == TENSOR_MAP:
        return f"'{param.name}={_SAMPLE_OF_MAP}'"
    if param.fields:
        return f"'{param.name}={{{', '.join(map(_field, param.fields))}}}'"
    if param.type and not param.is_pointer:
        kind = number_name(param.type)
        return f"{param.name}={'0.5' if kind.startswith('float') else 7}" if kind else f"'{param.name}={{...}}'"
    return f"{param.name}:{_sample(param.element)}"


def _field(field: Field) -> str:
    """A value of a field of a structure, as the command line has it."""
    if field.inner == TENSOR_MAP and not field.count:
        return _SAMPLE_OF_MAP
    if field.inner:
        value = f"{{{', '.join(map(_field, field.inner))}}}"
        return f"{{{', '.join([value] * field.count)}}}" if field.count else value
    if field.kind == POINTER:
        return _sample(field.element)
    value = "0.5" if field.kind.startswith("float") else "7"
    return f"f32[{field.count}]" if field.count else value


def _sample(element: str) -> str:
    short = SHORT.get(element, "f32")
    return f"{short}[1024]{'=random' * ('f' in short)}"
