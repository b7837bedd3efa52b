"""The arguments of a run from the command line: files, numbers, or random data made to fit the parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType
from tilewright.errors import ArgumentError, Span, choices, described
from tilewright.host import array_info, available_bytes, bytes_text, is_array
from tilewright.ir import Buffer, Kernel, Var, names_in, walk
from tilewright.ir.numbers import evaluate

if TYPE_CHECKING:
    from tilewright.ir import Kernel, Number

# The arguments of a kernel that several GPUs run: what each of them gets, on the simulator and on GPUs.
#
# Callers name the parameters that the kernel's author has written. Behind those a kernel gets the pointers to its
# symmetric arrays, a table for each, and the rank.


@dataclass(frozen=True, slots=True)
class Symmetric:
    """A tensor that each GPU of a group has, in memory that the others reach: the argument for a `T.SymmetricBuffer`.

    array: of this GPU. pointers: on this GPU, the addresses of all of them by rank, and last the multicast address, 0
    without one. rank: of this GPU. `Any`: tensors of torch.
    """

    array: Any
    pointers: Any
    rank: int

    @classmethod
    def of(cls, tensor: Any, group: Any = None) -> Symmetric:
        """A tensor, or a view of one, that `torch.distributed._symmetric_memory.empty` has made; all ranks of a group
        call this alike, in the same order. group: a process group or its name, all ranks if left out.
        """
        import torch.distributed as distributed
        from torch.distributed import _symmetric_memory as memory

        handle = memory.rendezvous(tensor, group if group is not None else distributed.group.WORLD)
        if handle is None:
            allowed = "torch.distributed._symmetric_memory.empty(shape, dtype=, device=), filled afterwards"
            raise ArgumentError("a tensor is not symmetric", given=described(tensor), allowed=allowed)
        offset = tensor.data_ptr() - handle.buffer_ptrs[handle.rank]
        multicast = handle.multicast_ptr
        return cls._at(
            tensor, [at + offset for at in handle.buffer_ptrs], multicast and multicast + offset, handle.rank
        )

    @classmethod
    def on_one_gpu(cls, tensors: Sequence[Any]) -> list[Symmetric]:
        """Tensors of one GPU that stand for those of several, to try kernels whose ranks run there side by side."""
        peers = [tensor.data_ptr() for tensor in tensors]
        return [cls._at(tensor, peers, 0, rank) for rank, tensor in enumerate(tensors)]

    @classmethod
    def _at(cls, tensor: Any, peers: Sequence[int], multicast: int, rank: int) -> Symmetric:
        import torch

        return cls(tensor, torch.tensor([*peers, multicast or 0], dtype=torch.int64, device=tensor.device), rank)


def ranks_of(kernel: Kernel, asked: int | None) -> int | None:
    """How many GPUs a run is on: as asked for, or as the kernel says; None for one that knows nothing of others.

    Raises ArgumentError where the two disagree.
    """
    ranks = kernel.attr("ranks")
    if asked is None or (ranks is not None and ranks != asked):
        if asked is not None:
            raise ArgumentError(f"{kernel.name} is for {ranks} GPUs", given=f"ranks={asked}", allowed=f"ranks={ranks}")
        return None if ranks is None else int(ranks)  # type: ignore[arg-type]  # the language has checked it
    if isinstance(asked, bool) or not asked >= 1:
        raise ArgumentError(f"{kernel.name} runs on GPUs", given=f"ranks={asked}", allowed="a number from 1 on")
    return asked


def hidden(kernel: Kernel) -> tuple[str, ...]:
    """The names of the parameters that callers do not give: tables of pointers, and the rank."""
    tables = [buffer.pointers.data.name for buffer in kernel.buffers if buffer.peers]  # type: ignore[union-attr]  # a Var
    rank = kernel.attr("rank")
    return (*tables, *([] if rank is None else [str(rank)]))


def named_arguments(kernel: Kernel) -> tuple[str, ...]:
    """What callers know the parameters by that they give."""
    unnamed, pairs = hidden(kernel), zip(kernel.params, kernel.arguments, strict=True)
    return tuple(name for param, name in pairs if param.name not in unnamed)


def check_one_gpu(kernel: Kernel, what: str, count: object = None) -> None:
    """Raises ArgumentError for a kernel of several GPUs, where one alone is looked at. count: its GPUs in this call."""
    if (count := count or kernel.attr("ranks")) is not None:
        raise ArgumentError(f"{what} looks at one GPU", given=f"{kernel.name}, for {count} GPUs",
                            allowed="tw.simulate and tw.check, which run all ranks and do not record")  # fmt: skip


def of_each_rank(kernel: Kernel, args: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """The arguments of each GPU: of a list for all of them the one that is its own, numbers as they are.

    An array of one dimension more, as long as there are GPUs, is such a list. Pointers are left for the run to fill.
    """
    unnamed, rank = hidden(kernel), kernel.attr("rank")
    params = [param for param in kernel.params if param.name not in unnamed]
    if len(args) != len(params):
        allowed = ", ".join(named_arguments(kernel)) or "none"
        raise ArgumentError(f"{kernel.name} takes {len(params)} arguments", given=f"{len(args)}", allowed=allowed)
    spread = {param.name: _spread(kernel, param.name, value, count) for param, value in zip(params, args, strict=True)}
    tables = {name: [np.zeros(count + 1, np.int64) for _ in range(count)] for name in unnamed if name != rank}
    every = {**spread, **tables, **({} if rank is None else {str(rank): range(count)})}
    return [tuple(every[param.name][k] for param in kernel.params) for k in range(count)]


def of_this_rank(kernel: Kernel, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a launch on a GPU: with the pointers of those that are `Symmetric`, and the rank.

    Raises ArgumentError where one is not, or they are of different ranks. Those that have all already stay.
    """
    symmetric = [value for value in args if isinstance(value, Symmetric)]
    if not symmetric or len(args) == len(kernel.params):
        return args
    unnamed, rank = hidden(kernel), kernel.attr("rank")
    names = [param.name for param in kernel.params if param.name not in unnamed]
    tables = {buffer.data: buffer.pointers.data for buffer in kernel.buffers if buffer.peers}
    arguments: dict[str, Any] = {} if rank is None else {str(rank): symmetric[0].rank}
    for param, value in zip((param for param in kernel.params if param.name in names), args, strict=False):
        arguments[param.name] = value.array if isinstance(value, Symmetric) else value
        if param in tables:
            if not isinstance(value, Symmetric) or value.rank != symmetric[0].rank:
                raise ArgumentError(
                    f"argument {param.name.removesuffix('_ptr')} of {kernel.name} is on several GPUs",
                    given=f"one of rank {value.rank}" if isinstance(value, Symmetric) else described(value),
                    allowed=f"tw.Symmetric.of(tensor, group), of rank {symmetric[0].rank}",
                )
            arguments[tables[param].name] = value.pointers  # type: ignore[union-attr]  # a Var
    return tuple(arguments[param.name] for param in kernel.params if param.name in arguments)


def _spread(kernel: Kernel, name: str, value: Any, count: int) -> Sequence[Any]:
    buffer = next((buffer for buffer in kernel.buffers if getattr(buffer.data, "name", "") == name), None)
    if buffer is None and not isinstance(value, (list, tuple)):
        return [value] * count
    if isinstance(value, (list, tuple)) and len(value) == count:
        return value
    if buffer is not None and is_array(value, f"argument {buffer.name}"):
        shape = array_info(value).shape
        if len(shape) == len(buffer.shape) + 1 and shape[0] == count:
            return value  # type: ignore[no-any-return]  # an array is a sequence of its parts
    shown = buffer.name if buffer is not None else name
    what = f"a list of {len(value)}" if isinstance(value, (list, tuple)) else described(value)
    raise ArgumentError(
        f"argument {shown} of {kernel.name} is for {count} GPUs",
        given=what,
        allowed=f"a list of {count} arrays, one for each rank",
        hint=f"[{shown}] * {count} is one array in {count} places; [{shown}.copy() for _ in range({count})] has each"
        if buffer is not None and not isinstance(value, (list, tuple))
        else None,
    )


def same_values(kernel: Kernel, values: Sequence[Mapping[str, Number]]) -> Mapping[str, Number]:
    """The values of numbers and symbolic extents, which all GPUs have in common. Raises ArgumentError otherwise."""
    rank = kernel.attr("rank")
    for k, of_rank in enumerate(values):
        for name, value in of_rank.items():
            if name != rank and value != values[0][name]:
                raise ArgumentError(
                    f"the GPUs that run {kernel.name} disagree on {name}",
                    given=f"{values[0][name]} of rank 0, {value} of rank {k}",
                    allowed="one value: all ranks run the same grid",
                )
    return values[0]


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
