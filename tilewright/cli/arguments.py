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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.argument_spec import (
    ALLOWED,
    FILLS,
    RANDOM,
    SHORT,
    ZEROS,
    ArgumentSpec,
    ArraySpec,
    Fill,
    MapSpec,
    SaidByOptions,
    Same,
    TextureSpec,
    Value,
    argument_spec,
    numbers,
)
from tilewright.errors import ArgumentError, choices
from tilewright.inputs import LAUNCH
from tilewright.load import LoadedKernel, LoadedModule
from tilewright.load.cu_textures import OBJECTS, texture_of
from tilewright.load.declared import POINTER, TENSOR_MAP, Field, Parameter, number_name

if TYPE_CHECKING:
    from tilewright.cli.judging import RunAsked
    from tilewright.cli.verdicts import Asked

_SAMPLE_OF_MAP = MapSpec(ArraySpec("f16", (128, 64), RANDOM), (64, 64))


@dataclass(frozen=True)
class Request:
    """One run. grid, block, cluster: along x, y, z. made_by: the kernel that makes the arguments, of its own, which
    these are then. pdl: may it begin before the launch before it ends?
    """

    kernel: str | None = None
    grid: Sequence[int] = (1,)
    block: Sequence[int] | None = None
    shared_bytes: int = 0
    cluster: Sequence[int] | None = None
    non_portable_cluster: bool = False
    args: tuple[ArgumentSpec, ...] = ()
    check: str = "all"
    globals: tuple[ArgumentSpec, ...] = ()
    seed: int = 0
    made_by: str | None = None
    pdl: bool = False

    @classmethod
    def of(cls, asked: RunAsked | Asked, **more: Any) -> Request:
        """What the options of a command ask for. more: fields besides."""
        grid, block, cluster = (numbers(text) if text else None for text in (asked.grid, asked.block, asked.cluster))
        return cls(asked.kernel, grid or (1,), block, asked.smem, cluster, asked.non_portable_cluster,
                   tuple(map(argument_spec, asked.arg)), seed=asked.seed, **more)  # fmt: skip

    @property
    def launch(self) -> dict[str, Any]:
        """What a call of a kernel says of its launch, by name."""
        return {name: getattr(self, name) for name in LAUNCH}

    @property
    def kernels(self) -> list[str]:
        """The kernels that it names."""
        return [name for name in (self.kernel, self.made_by) if name is not None]


@dataclass(frozen=True)
class SequenceRequest:
    """Launches one behind the other. arrays: those that several of them are given, by name."""

    launches: tuple[Request, ...]
    arrays: tuple[ArgumentSpec, ...] = ()
    seed: int = 0


def requests_beside(path: Path) -> list[Request]:
    """The runs that the TOML file beside a file asks for; none where there is no such file."""
    tables = _tables(path, "check")
    with named_by(path.with_suffix(".toml") if tables else None):
        return [*map(_request, tables)]


def sequences_beside(path: Path) -> list[SequenceRequest]:
    """The sequences of launches that the TOML file beside a file asks for."""
    requests, fields = list[SequenceRequest](), SequenceRequest.__dataclass_fields__
    tables = _tables(path, "sequence")
    with named_by(path.with_suffix(".toml") if tables else None):
        for table in tables:
            _check_keys(table, fields)
            launches = tuple(map(_request, table.get("launches", ())))
            requests.append(SequenceRequest(launches, _specs(table, "arrays"), table.get("seed", 0)))
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


def _check_keys(table: Mapping[str, Any], fields: Iterable[str]) -> None:
    for key, value in table.items():
        if key not in fields:
            raise ArgumentError(f"unknown key {key}", given=key, allowed=choices(key, fields))
        if key in ("args", "globals", "arrays", "launches") and not isinstance(value, list):
            allowed = f"{key} = [{'{...}' if key == 'launches' else repr(str(value))}]"
            raise ArgumentError(f"{key} is a list", given=f"{key} = ", allowed=allowed)


def _request(table: Mapping[str, Any]) -> Request:
    _check_keys(table, Request.__dataclass_fields__)
    extents = {key: numbers(table[key]) for key in ("grid", "block", "cluster") if key in table}
    return Request(**{**table, **extents, **{key: _specs(table, key) for key in ("args", "globals")}})


def _specs(table: Mapping[str, Any], key: str) -> tuple[ArgumentSpec, ...]:
    return tuple(argument_spec(str(text)) for text in table.get(key, ()))


def sizes_without_host_code(
    module: LoadedModule, requests: Iterable[Request], sizes: Mapping[str, int]
) -> ArgumentError:
    """Why sizes say nothing of launches that are not from host code; those of a kernel's numbers are arguments."""
    kernels = [module[name] for request in requests for name in request.kernels or module.kernels]
    numbers = {param.name for kernel in kernels for param in kernel.written if not (param.is_pointer or param.fields)}
    arguments = " ".join(f"--arg {name}={size}" for name, size in sizes.items() if name in numbers)
    return ArgumentError(
        "--size is of names in host code, and this launch is not from there",
        given=" ".join(f"--size {name}" for name in sizes), allowed="--arg NAME=7, of a kernel's parameter",
        hint=arguments or None,
    )  # fmt: skip


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
    for name, value, spec in rows:
        if name in aliases:
            if aliases[name] in values:
                raise ArgumentError(f"argument {aliases[name]} is given twice", given=f"{spec}")
            values[aliases[name]] = value
        elif name is not None and kernel.has_names:
            allowed = choices(name, kernel.parameters)
            raise ArgumentError(f"{kernel.name} has no parameter {name!r}", given=f"{spec}", allowed=allowed or "none")
    rest = [value for name, value, _ in rows if name not in aliases]
    left = _left(kernel, values, len(rest))
    if len(rest) > len(left):
        what = f"{kernel.name} takes {len(declared)} arguments"
        raise ArgumentError(what, given=f"{len(rows)}", allowed=_spelled(kernel))
    values |= dict(zip(left, rest, strict=False))
    if missing := left[len(rest) :]:
        params = [param for param in kernel.written if param.name in missing]
        hint = SaidByOptions(tuple(map(example, params))).hint
        if other := next((param for param in params if param.problem), None):
            hint = f"--made-by KERNEL, a kernel of the file that makes {other.name}: {other.problem}"
        raise ArgumentError(f"{kernel.name} lacks arguments", given=f"no {', '.join(missing)}", allowed=ALLOWED,
                            hint=hint)  # fmt: skip
    return [values.get(name, b"\0") for name in kernel.parameters]


def _rows_of(
    request: Request, random: np.random.Generator, arrays: Mapping[str, Any]
) -> list[tuple[str | None, Any, ArgumentSpec]]:
    """The arguments of a request, with names and values; those that are arrays of others come last."""
    rows, named = list[tuple[str | None, Any, ArgumentSpec]](), dict(arrays)
    for spec in sorted(request.args, key=lambda spec: spec.name is not None and isinstance(spec.value, Same)):
        if not isinstance(spec.value, Same):
            value = spec.made(random)
            if spec.name is not None and isinstance(value, np.ndarray):
                named.setdefault(spec.name, value)
        elif (other := spec.value) in (arrays if spec.name is None else named):
            value = named[other]
        elif arrays and spec.name is None:
            allowed = choices(other, arrays)
            raise ArgumentError(f"no array of the sequence is called {other}", given=f"{spec}", allowed=allowed)
        else:
            raise ArgumentError("--arg is no argument", given=f"{spec}", allowed=ALLOWED)
        rows.append((spec.name, value, spec))
    return rows


def _left(kernel: LoadedKernel, values: Mapping[str, Any], count: int) -> list[str]:
    """The parameters that have no value, without those that need none where ``count`` values are there for them."""
    left = [param for param in kernel.written if param.name not in values]
    needed = [param for param in left if not param.is_empty]
    return [param.name for param in (needed if count <= len(needed) else left)]


def _spelled(kernel: LoadedKernel) -> str:
    return ", ".join(f"{param.type} {param.name}".strip() for param in kernel.written) or "none"


def for_number(value: Value, param: Parameter) -> Value:
    """A value for a parameter: of a structure around one number that number, where the parameter is a plain one, as
    instances of a template for ``float`` and for ``__half`` share their arguments.
    """
    if isinstance(value, tuple) and len(value) == 1 and number_name(param.type):
        return value[0].value
    return value


def example(param: Parameter) -> ArgumentSpec:
    """An argument that fits a parameter: floats are random, integers zeros. One of no known type has dots."""
    if param.fields == TENSOR_MAP:
        return ArgumentSpec(param.name, _SAMPLE_OF_MAP)
    if param.fields:
        return ArgumentSpec(param.name, tuple(ArgumentSpec(None, _field(field)) for field in param.fields))
    if is_texture(param):
        return ArgumentSpec(param.name, texture(param.name))
    if param.type and not param.is_pointer:
        kind = number_name(param.type)
        number = 0.5 if kind.startswith("float") else 7
        return ArgumentSpec(param.name, number) if kind else ArgumentSpec(param.name, Same("{...}"))
    return ArgumentSpec(param.name, _sample(param.element))


def is_texture(param: Parameter) -> bool:
    """Is it a texture object, or one of a surface?"""
    return param.type.split(" ")[-1] in OBJECTS


def texture(name: str, texts: Sequence[str] = ()) -> TextureSpec:
    """A texture for a kernel that reads it by a name, as these texts fetch from it."""
    fields = texture_of(name, texts)
    extents = (*fields.extents[::-1], *[fields.channels] * (fields.channels > 1))
    kind = SHORT[fields.texel]
    array = ArraySpec(kind, extents, RANDOM if "f" in kind else Fill("ramp", (64,)))
    return TextureSpec(array, fields.filter, fields.address, fields.channels, int(fields.normalized))


def _field(field: Field) -> Value:
    """A value of a field of a structure."""
    if field.inner == TENSOR_MAP and not field.count:
        return _SAMPLE_OF_MAP
    if field.inner:
        value = tuple(ArgumentSpec(None, _field(inner)) for inner in field.inner)
        return (ArgumentSpec(None, value),) * field.count if field.count else value
    if field.kind == POINTER:
        return _sample(field.element)
    if field.count:
        return ArraySpec(SHORT.get(field.kind, "f32"), (field.count,), FILLS["ones"], is_inline=True)
    return 0.5 if field.kind.startswith("float") else 7


def _sample(element: str) -> ArraySpec:
    short = SHORT.get(element, "f32")
    return ArraySpec(short, (1024,), RANDOM if "f" in short else ZEROS)
