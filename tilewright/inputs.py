"""The arguments of a run from the command line: files, numbers, or random data made to fit the parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType
from tilewright.errors import ArgumentError, Span, choices
from tilewright.host import available_bytes, bytes_text
from tilewright.ir import Buffer, Kernel, Var, names_in, walk
from tilewright.ir.numbers import evaluate
from tilewright.ranks import hidden, ranks_of

LIMITS = {  # of a run: the unit, the setting, and how much one of them is
    "": ("limit_s", 1),
    "s": ("limit_s", 1),
    "min": ("limit_s", 60),
    "steps": ("limit_steps", 1),
    "B": ("limit_bytes", 1),
    "KiB": ("limit_bytes", 1 << 10),
    "MiB": ("limit_bytes", 1 << 20),
    "GiB": ("limit_bytes", 1 << 30),
}
MOST = 1e15  # of a unit of a limit
MADE_BYTES = 12  # bytes of temporaries for a random element

LAUNCH = ("grid", "block", "shared_bytes", "cluster", "non_portable_cluster")  # of a kernel that others wrote

Argument = NDArray[np.generic] | int | float


def without_launch(named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The launch among what a call of a kernel of others names, and the arguments that are left."""
    launch = {name: value for name, value in named.items() if name in LAUNCH}
    return launch, {name: value for name, value in named.items() if name not in launch}


def parse_sizes(settings: Mapping[str, object]) -> dict[str, int]:
    """Symbolic extents by name. Raises ArgumentError for what is no size."""
    for name, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            allowed = f"a whole number from 0 on, as in {name}=256"
            raise ArgumentError(f"--size {name} is no size", given=f"{name}={value}", allowed=allowed)
    return {name: int(str(value)) for name, value in settings.items()}


def parse_limits(texts: Iterable[str]) -> dict[str, Any]:
    """Settings of a simulation by name. Raises ArgumentError for what is no number with one of the units.

    >>> parse_limits(["1.5s", "2GiB"])
    {'limit_s': 1.5, 'limit_bytes': 2147483648}
    """
    limits: dict[str, Any] = {}  # float or int, as the setting has it
    for text in texts:
        number = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
        if number is None or number[2] not in LIMITS or not 0 < float(number[1]) < MOST:
            allowed = "30s, 5min, 1000000steps, 512MiB or 2GiB; a number alone is seconds"
            raise ArgumentError("--limit is no limit", given=text, allowed=allowed)
        setting, unit = LIMITS[number[2]]
        much = float(number[1]) * unit
        limits[setting] = much if setting == "limit_s" else max(1, int(much))
    return limits


def make_arguments(
    kernel: Kernel, settings: Mapping[str, object], sizes: Mapping[str, int], seed: int
) -> dict[str, Argument | list[Argument]]:
    """One argument for each parameter, by the parameter's name; of a kernel of several GPUs a list for each array.

    settings: ``.npy`` files or numbers, by the name of a parameter or its buffer. sizes: symbolic extents, but for
    those that the files show. What is left is random, reproducible by ``seed``; symmetric arrays are zeros, as the
    signals among them are to be. Raises ArgumentError for a name that the kernel lacks and a size that is missing.
    """
    if (count := ranks_of(kernel, None)) is None:
        return {**_made(kernel, settings, sizes, seed)}
    of_ranks = [_made(kernel, settings, sizes, seed + rank) for rank in range(count)]
    symmetric = {buffer.data.name for buffer in kernel.buffers if buffer.peers and isinstance(buffer.data, Var)}
    arguments: dict[str, Argument | list[Argument]] = {}
    for name, value in of_ranks[0].items():
        arrays = [values[name] for values in of_ranks]
        if name in symmetric and not {name, name.removesuffix("_ptr")} & settings.keys():
            arrays = [np.zeros_like(array) for array in arrays]
        if name not in hidden(kernel):
            arguments[name] = arrays if isinstance(value, np.ndarray) else value
    return arguments


def _made(kernel: Kernel, settings: Mapping[str, object], sizes: Mapping[str, int], seed: int) -> dict[str, Argument]:
    """The arguments of one GPU."""
    random = np.random.default_rng(seed)
    buffers = {buffer.data.name: buffer for buffer in kernel.buffers if isinstance(buffer.data, Var)}
    names = {param.name: param.name for param in kernel.params} | {b.name: name for name, b in buffers.items()}
    for name in settings:
        if name not in names:
            raise ArgumentError(f"{kernel.name} has no parameter {name!r}", given=name, allowed=choices(name, names))
    arguments = {names[name]: _given(value, buffers.get(names[name])) for name, value in settings.items()}
    extents = _known_sizes(kernel, buffers, arguments, sizes)
    for param in kernel.params:
        if param.name in arguments:
            continue
        if param.name in buffers:
            buffer = buffers[param.name]
            shape = _shape(buffer, extents)
            if min(shape, default=0) < 0:
                raise ArgumentError(
                    f"{param.name} has a negative extent", given=f"shape {shape}", allowed="0 or more", at=kernel.at
                )
            check_room(buffer.name, shape, buffer.dtype, kernel.at)
            arguments[param.name] = _random(random, shape, buffer.dtype)
        else:
            arguments[param.name] = 1.0 if param.dtype.is_float else extents.get(param.name, 1)
    return {param.name: arguments[param.name] for param in kernel.params}


def shown(value: object) -> str:
    """An argument in a report: a number itself, of an array what it is."""
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(shown, value))})"
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else str(value)


def _given(value: object, buffer: Buffer | None) -> Argument:
    """A number as it is, a file as its array."""
    if isinstance(value, int | float):
        return value
    loaded = saved(str(value))
    if buffer is None and loaded.ndim == 0:
        number: int | float = loaded.item()
        return number
    return _as_kernels_take_it(loaded, buffer)


def saved(file: str) -> NDArray[Any]:
    """The array that np.save wrote to a file. Raises ArgumentError where there is none, and where it has no numbers."""
    path = Path(file)
    if "\0" in file or not path.is_file():
        raise ArgumentError(f"there is no file {file}", given=file, allowed="a number or a .npy file")
    try:
        loaded = np.load(path)
    except (ValueError, EOFError):  # no array at all, or one of Python objects
        raise ArgumentError(f"{path} holds no numbers", given=str(path), allowed="what np.save wrote") from None
    if not isinstance(loaded, np.ndarray):
        raise ArgumentError(f"{path} holds several arrays", given=", ".join(loaded), allowed="what np.save wrote")
    return loaded


def _as_kernels_take_it(loaded: NDArray[np.generic], buffer: Buffer | None) -> NDArray[np.generic]:
    """The same numbers row major and in this machine's order of bytes.

    np.save does not know the names of bfloat16 and the narrow floats and writes raw bytes: they get them back.
    """
    kind = buffer.dtype.element.numpy if buffer is not None else loaded.dtype
    if loaded.dtype.kind == "V" and loaded.dtype.itemsize == kind.itemsize:
        return np.ascontiguousarray(loaded).view(kind)
    return loaded.astype(loaded.dtype.newbyteorder("="), order="C", copy=False)


def _known_sizes(
    kernel: Kernel, buffers: Mapping[str, Buffer], arguments: Mapping[str, Argument], sizes: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that were named, and those that given arrays and numbers show.

    Raises ArgumentError for the name of a size that no shape has.
    """
    variables = (node for buffer in buffers.values() for node in walk(buffer.shape) if isinstance(node, Var))
    symbols = {var.name: var.dtype for var in variables}
    for name, size in sizes.items():
        if name not in symbols:
            allowed = choices(name, sorted(symbols)) or "none: every shape is constant"
            raise ArgumentError(f"{kernel.name} has no symbolic extent {name!r}", given=name, allowed=allowed)
        if size >= 1 << (symbols[name].bits - symbols[name].is_signed):
            raise ArgumentError(f"--size {name} does not fit", given=f"{name}={size}", allowed=str(symbols[name]))
    extents = {name: value for name, value in arguments.items() if isinstance(value, int)}
    for name, value in arguments.items():
        if isinstance(value, np.ndarray) and name in buffers:
            pairs = zip(buffers[name].shape, value.shape, strict=False)  # their lengths are compared at the call
            extents |= {extent.name: size for extent, size in pairs if isinstance(extent, Var)}
    return {**extents, **sizes}


def _shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Raises ArgumentError where an extent depends on a size that is not known."""
    unknown = names_in(buffer.shape) - set(sizes)
    if unknown:
        raise ArgumentError(
            f"{buffer.name} has a symbolic shape",
            given=f"no size for {', '.join(sorted(unknown))}",
            hint=" ".join(f"--size {name}=256" for name in sorted(unknown)),
        )
    return tuple(extent if isinstance(extent, int) else int(evaluate(extent, sizes)) for extent in buffer.shape)


def check_room(name: str, shape: tuple[int, ...], kind: DType, at: Span | None = None) -> None:
    """Raises ArgumentError where this machine cannot hold the array that is asked for."""
    elements, room = prod(shape), available_bytes()
    nbytes, needed = elements * kind.bits // 8, elements * (MADE_BYTES + -(-kind.bits // 8))
    if needed > room:
        raise ArgumentError(
            f"{name} is larger than the memory that this machine has left",
            given=f"shape {shape} of {kind}: {bytes_text(nbytes)}, {bytes_text(needed)} while it is made",
            allowed=bytes_text(room),
            at=at,
        )


def _random(random: np.random.Generator, shape: tuple[int, ...], kind: DType) -> NDArray[np.generic]:
    element = kind.element
    extents = (*shape, kind.lanes) if kind.lanes > 1 else shape
    if element.kind == "bool":
        return random.integers(0, 2, extents).astype(np.bool_)
    if element.is_float:
        values = random.standard_normal(extents).astype(np.float32)
        has_signs = element != "float8_e8m0fnu"  # a scale: an exponent and nothing else
        return (values if has_signs else np.abs(values)).astype(element.numpy)
    low = -100 if element.is_signed else 0
    return random.integers(low, 100, extents).astype(element.numpy)
