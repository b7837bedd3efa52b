"""The kernels of several GPUs as functions on torch's tensors, one process for each GPU of a group.

All ranks of a group make the same calls in the same order, on one stream. What a kernel needs beside its arguments
(packets, signals, counts) is memory of the group, symmetric by torch's means, made at the first call with some extents
and kept. Nothing here moves data between hosts: the GPUs of a group reach each other's memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, described
from tilewright.inputs import Symmetric
from tilewright.kernels.arrays import Array, contiguous, expect, kind_of, like, multiprocessors, public
from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.kernels.product_tiles import clusters_at_once
from tilewright.kernels.products import laid_out
from tilewright.kernels.shots import HALF, MOST_CTAS, PACKETS, SHARE, THREADS, one_shot, two_shot, two_shot_packets
from tilewright.kernels.spread_matmul import gathered_product, scattered_product

KINDS, HALVES = ("float32", "float16", "bfloat16"), ("float16", "bfloat16")
ONE_SHOT_BYTES = 512 << 10  # below, arrays go to all GPUs as a whole
PACKED_BYTES = 1 << 20  # below, shares of arrays go as packets
WIDE_BYTES = 2 << 20  # from there on, CTAs of a two-shot sum have all their threads
WORDS = {"uint32": "int32", "uint64": "int64"}  # types that torch fills, of those that it only views
Shape = tuple[tuple[int, ...], str]


@dataclass(frozen=True, slots=True)
class Room:
    """What a kernel needs beside its arguments, by name, all zero before the first call. `Any`: tensors."""

    symmetric: Mapping[str, Symmetric]
    local: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """This process in a group: the group's name and size, and the GPU."""

    group: str
    ranks: int
    device: Any

    @classmethod
    def of(cls, x: Array, group: str) -> Member:
        """Of the process that has a tensor, in a group of that name."""
        if not str(getattr(x, "device", "")).startswith("cuda"):
            raise ArgumentError("an array is on no GPU", given=described(x), allowed="a tensor of torch on a GPU",
                                hint="on the simulator, kernels run as tw.simulate(kernel, ..., ranks=n)")  # fmt: skip
        return cls(group, _size(group), x.device)

    def room(self, key: object, symmetric: Mapping[str, Shape], local: Mapping[str, Shape]) -> Room:
        """The room for calls of one kind, which all ranks ask for alike."""
        room = ROOMS.get((self, key))
        if room is None:
            room = ROOMS[self, key] = Room(
                {name: self._symmetric(*shape) for name, shape in symmetric.items()},
                {name: _zeros(shape, kind, self.device) for name, (shape, kind) in local.items()},
            )
        return room

    def _symmetric(self, shape: tuple[int, ...], kind: str) -> Symmetric:
        import torch
        from torch.distributed import _symmetric_memory as memory

        array = memory.empty(prod(shape), dtype=getattr(torch, WORDS.get(kind, kind)), device=self.device)
        array.zero_()
        symmetric = Symmetric.of(array, self.group)
        memory.rendezvous(array, self.group).barrier()  # all are zero
        return Symmetric(array.view(getattr(torch, kind)).view(shape), symmetric.pointers, symmetric.rank)


ROOMS: dict[tuple[Member, object], Room] = {}


def _zeros(shape: tuple[int, ...], kind: str, device: Any) -> Any:
    import torch

    return torch.zeros(shape, dtype=getattr(torch, WORDS.get(kind, kind)), device=device).view(getattr(torch, kind))


# The sum of all GPUs' arrays, on every GPU.


def reduced(x: Array, group: str) -> Array:
    expect("x", x, KINDS)
    torch, member = sys.modules["torch"], Member.of(x, group)
    run = 16 // (dtype(kind_of(x)).bits // 8)
    flat = contiguous(x).reshape(-1)
    if flat.numel() % run or flat.data_ptr() % 16:
        padded = torch.zeros(-(-flat.numel() // run) * run, dtype=x.dtype, device=x.device)
        padded[: flat.numel()] = flat
        return reduced(padded, group)[: flat.numel()].view(x.shape)
    out = torch.empty_like(flat)
    words, sums = flat.view(torch.uint32), out.view(torch.uint32)
    if 4 * words.numel() < ONE_SHOT_BYTES:
        _one_shot(member, words, sums, kind_of(x))
    elif words.numel() <= member.ranks * MOST_CTAS * PACKETS and 4 * words.numel() < PACKED_BYTES:
        _packed(member, words, sums, kind_of(x))
    else:
        most = member.ranks * MOST_CTAS * SHARE
        for first in range(0, words.numel(), most):
            part, threads = slice(first, first + most), THREADS if 4 * words.numel() >= WIDE_BYTES else HALF
            _two_shot(member, words[part], sums[part], kind_of(x), threads)
    return out.view(x.shape)


def _one_shot(member: Member, words: Array, sums: Array, kind: str) -> None:
    ranks, ctas = member.ranks, min(MOST_CTAS, max(1, -(-words.numel() // (2 * THREADS))))
    inbox = {"inbox": ((2, ranks, MOST_CTAS, PACKETS), "uint64")}
    room = member.room("one shot", inbox, {"calls": ((MOST_CTAS,), "uint32")})
    one_shot(ranks, kind)(words, sums, room.local["calls"], room.symmetric["inbox"], ctas)


def _packed(member: Member, words: Array, sums: Array, kind: str, threads: int = THREADS) -> None:
    ranks = member.ranks
    ctas = min(MOST_CTAS, max(1, -(-words.numel() // (2 * threads * ranks))))
    box = ((2, ranks, MOST_CTAS, PACKETS), "uint64")
    room = member.room(("packed", threads), {"inbox": box, "outbox": box}, {"calls": ((MOST_CTAS,), "uint32")})
    two_shot_packets(ranks, kind, threads)(words, sums, room.local["calls"], *room.symmetric.values(), ctas)


def _two_shot(member: Member, words: Array, sums: Array, kind: str, threads: int = THREADS) -> None:
    ranks = member.ranks
    ctas = min(MOST_CTAS, max(1, -(-words.numel() // (4 * threads * ranks))))
    box = ((ranks, MOST_CTAS, SHARE), "uint32")
    shapes = {"inbox": box, "sums": box, "signals": ((2, MOST_CTAS, ranks), "uint32")}
    room = member.room(("two shot", threads), shapes, {"calls": ((MOST_CTAS,), "uint32")})
    two_shot(ranks, kind, threads)(words, sums, room.local["calls"], *room.symmetric.values(), ctas)


# Products of matrices whose parts the GPUs have.


def _tiles(rows: int, columns: int, what: str) -> Tiles:
    """The tiles for so many rows of each rank, of which blocks are whole."""
    for high, cluster in ((128, 2), (128, 1), (64, 1)):
        if rows % (high * cluster) == 0:
            return Tiles(high, 256 if columns > 128 else 128 if columns > 64 else 64, cluster)
    raise ArgumentError(f"{what} has {rows} rows for each rank", given=f"{rows}", allowed="a multiple of 64")


def _clusters(tiles: Tiles, rows: int, columns: int, a: Array) -> int:
    work = -(-rows // (tiles.m * tiles.cluster)) * -(-columns // tiles.n)
    return min(work, clusters_at_once(tiles, multiprocessors(a)))


def _check_factors(a: Array, b: Array) -> None:
    expect("a", a, HALVES)
    expect("b", b, (kind_of(a),))
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0] or a.shape[1] % 8:
        raise ArgumentError("a and b have no product", given=f"shapes {tuple(a.shape)} and {tuple(b.shape)}",
                            allowed="(M, K) and (K, N), K a multiple of 8")  # fmt: skip


def gathered(a: Array, b: Array, group: str) -> Array:
    _check_factors(a, b)
    member, (m, k), n, kind = Member.of(a, group), a.shape, b.shape[1], kind_of(a)
    tiles, ranks = _tiles(m, n, "a"), member.ranks
    right, turned = laid_out(b.swapaxes(-1, -2), may_turn=True)
    clusters = _clusters(tiles, m * ranks, n, a)
    signals = {"ready": ((ranks,), "uint32"), "finished": ((1,), "uint32")}
    local = {"near": ((m * ranks, k), kind), "counts": ((m * ranks // (tiles.m * tiles.cluster),), "uint32"),
           "calls": ((1,), "uint32")}  # fmt: skip
    room = member.room(("gathered", m, n, k, kind, tiles, turned), signals, local)
    c = like(a, (m * ranks, n))
    form = MatmulKind(kind, kind, kind, (False, turned, False))
    gathered_product(tiles, form, ranks)(
        _as_symmetric(a, member), right, c, room.local["near"], room.local["counts"], room.local["calls"],
        *room.symmetric.values(), clusters,
    )  # fmt: skip
    return c


def _as_symmetric(a: Array, member: Member) -> Symmetric:
    """The tensor itself where it is symmetric, else a copy in memory of the group, which nobody reads any more."""
    from torch.distributed import _symmetric_memory as memory

    knows = getattr(memory, "is_symm_mem_tensor", lambda tensor: True)  # older versions of torch ask by trying
    handle = memory.rendezvous(a, member.group) if a.is_contiguous() and knows(a) else None
    if handle is None:
        shape = {"a": (tuple(a.shape), kind_of(a))}
        symmetric = member.room(("copy", tuple(a.shape), kind_of(a)), shape, {}).symmetric["a"]
        symmetric.array.copy_(a)
        return symmetric
    key = member, tuple(handle.buffer_ptrs), a.data_ptr()
    if key not in POINTERS:
        POINTERS[key] = Symmetric.of(a, member.group).pointers
    return Symmetric(a, POINTERS[key], handle.rank)


POINTERS: dict[tuple[Member, tuple[int, ...], int], Any] = {}


def scattered(a: Array, b: Array, group: str) -> Array:
    _check_factors(a, b)
    member, (m, k), n, kind = Member.of(a, group), a.shape, b.shape[1], kind_of(a)
    ranks = member.ranks
    if m % ranks or n % 8:
        raise ArgumentError("rows of a are shared out", given=f"{m} rows, {n} columns of b",
                            allowed=f"a multiple of {ranks} rows, of 8 columns")  # fmt: skip
    tiles = _tiles(m // ranks, n, "a")
    (left, a_turned), (right, b_turned) = laid_out(a, may_turn=True), laid_out(b.swapaxes(-1, -2), may_turn=True)
    symmetric = {"room": ((m, n), kind), "counts": ((m // ranks // (tiles.m * tiles.cluster),), "uint32"),
                 "finished": ((1,), "uint32")}  # fmt: skip
    room = member.room(("scattered", m, n, k, kind, tiles, a_turned, b_turned), symmetric, {"calls": ((1,), "uint32")})
    c = like(a, (m // ranks, n))
    partial, counts, finished = room.symmetric.values()
    form = MatmulKind(kind, kind, kind, (a_turned, b_turned, False))
    scattered_product(tiles, form, ranks)(
        left, right, c, partial, counts, room.local["calls"], finished, _clusters(tiles, m, n, a)
    )
    return c


# Operators of torch


@cache
def operator(name: str) -> Callable[..., Any]:
    """A function as an operator of torch, so that torch.compile knows it. `Any`: torch's."""
    import torch

    schema, function, shape = OPERATORS[name]
    operator = torch.library.custom_op(f"tilewright::{name}", function, mutates_args=(), schema=schema)
    operator.register_fake(lambda *args: args[0].new_empty(shape(*args)))
    return getattr(torch.ops.tilewright, name).default  # type: ignore[no-any-return]  # torch's


def _size(group: str) -> int:
    import torch.distributed as distributed

    return distributed.get_world_size(distributed.distributed_c10d._resolve_process_group(group))  # type: ignore[no-any-return]


OPERATORS: dict[str, tuple[str, Callable[..., Any], Callable[..., Sequence[int]]]] = {
    "all_reduce": ("(Tensor x, str group) -> Tensor", reduced, lambda x, group: x.shape),
    "all_gather_matmul": (
        "(Tensor a, Tensor b, str group) -> Tensor", gathered,
        lambda a, b, group: (a.shape[0] * _size(group), b.shape[1]),
    ),
    "matmul_reduce_scatter": (
        "(Tensor a, Tensor b, str group) -> Tensor", scattered,
        lambda a, b, group: (a.shape[0] // _size(group), b.shape[1]),
    ),
}  # fmt: skip


def _called(name: str, *args: Any, group: Any) -> Any:
    try:
        import torch
        import torch.distributed as distributed
    except ModuleNotFoundError:
        raise ArgumentError(f"{name} is of the GPUs of a group of torch's", given="no torch", allowed="torch") from None
    label = group if isinstance(group, str) else getattr(group or distributed.group.WORLD, "group_name", None)
    if label is None:
        text = repr(group) if group is not None else "none, and no process group was begun"
        raise ArgumentError(f"{name} is of the GPUs of a group of torch's", given=text,
                            allowed="a group of torch.distributed, or its name",
                            hint="torch.distributed.init_process_group()")  # fmt: skip
    if torch.compiler.is_dynamo_compiling():
        return operator(name)(*args, label)
    return OPERATORS[name][1](*args, label)


@public.names
def all_reduce(x: Array, group: Any = None) -> Array:
    """The sum of x over the GPUs of a group, in the order of ranks, in float32; the same bits on all of them.

    x: float32, float16 or bfloat16, of the same shape on all. group: of torch.distributed; all ranks if left out.
    """
    return _called("all_reduce", x, group=group)


@public.names
def all_gather_matmul(a: Array, b: Array, group: Any = None) -> Array:
    """(the a of all ranks, one below the other) @ b: rows of other GPUs arrive while the own ones are multiplied.

    a: (M, K), float16 or bfloat16, M a multiple of 64; where it is symmetric memory it is not copied. b: (K, N).
    """
    return _called("all_gather_matmul", a, b, group=group)


@public.names
def matmul_reduce_scatter(a: Array, b: Array, group: Any = None) -> Array:
    """The own rows of the sum over all ranks of a @ b: blocks of rows are exchanged while others are multiplied.

    a: (M, K), float16 or bfloat16, M a multiple of 64 for each rank. b: (K, N). Sums of ranks are rounded before they
    are added in float32, in the order of ranks.
    """
    return _called("matmul_reduce_scatter", a, b, group=group)
