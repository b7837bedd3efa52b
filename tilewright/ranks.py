"""The arguments of a kernel that several GPUs run: what each of them gets, on the simulator and on GPUs.

Callers name the parameters that the kernel's author has written. Behind those a kernel gets the pointers to its
symmetric arrays, a table for each, and the rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import ArgumentError, described
from tilewright.host import array_info, is_array

if TYPE_CHECKING:
    from tilewright.ir import Kernel, Number


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
