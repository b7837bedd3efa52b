"""A kernel on several GPUs: one run, in which each buffer lies once for each of them, and their CTAs one GPU's after
the other's.

The memory of a GPU is a part of each buffer's window, and the parts are ``pitch`` bytes apart; in between is nothing.
So an access of an own array begins where the thread's GPU has it, and a pointer to a peer's leads into another part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright import ir
from tilewright.dtypes import INT64
from tilewright.errors import ArgumentError
from tilewright.ir.tensor_map import MAP_BYTES, MapFields, mapped
from tilewright.records import replace
from tilewright.sim.machine.places import MULTICAST, BufferPlaces, OfRank, Ranks, groups_of

if TYPE_CHECKING:
    from tilewright.ir import Number
    from tilewright.sim.machine.arrays import Array

__all__ = ["Several", "encoded", "over_ranks"]

GAP = 4096  # bytes between what two GPUs have of a buffer, at least


def over_ranks(kernel: ir.Kernel, ranks: Ranks) -> ir.Kernel:
    """A lowered kernel, as each of several GPUs runs it: its own arrays begin where they lie for the thread's GPU, and
    the parameter that tells the rank is a register.
    """
    rank, name, parts = ir.cast(ir.special(ir.RANK), INT64), kernel.attr("rank"), dict(ranks.parts)

    def change(node: ir.Expr) -> ir.Expr | None:
        if isinstance(node, ir.Var) and node.name == name:
            return ir.special(ir.RANK)
        if isinstance(node, ir.Load | ir.AddressOf) and node.buffer.name in parts:
            elements = parts[node.buffer.name].pitch * 8 // node.buffer.dtype.bits
            index = node.indices[0] if node.indices else 0
            return replace(node, indices=(ir.cast(index, INT64) + rank * elements,))
        return None

    return replace(kernel, body=ir.rewrite(kernel.body, change))


@dataclass(frozen=True, slots=True)
class Several:
    """The arrays of several GPUs as one run has them. arrays: by buffer, those of all GPUs."""

    ranks: Ranks
    arrays: Mapping[str, Array]

    @classmethod
    @contextmanager
    def of(
        cls,
        kernel: ir.Kernel,
        given: Sequence[Mapping[str, Array]],
        maps: Sequence[Mapping[str, MapFields]],
        scalars: Mapping[str, Number],
    ) -> Iterator[Several]:
        """Of the arrays of each GPU, by buffer; changed in place at the end. Pointers to peers, and the bytes of tensor
        maps, are made here. maps: those that the caller makes, of each GPU.
        """
        count, symmetric = len(given), [buffer for buffer in kernel.buffers if buffer.peers]
        shared = {buffer.name for buffer in symmetric}
        tables = {buffer.pointers.name: buffer.name for buffer in symmetric}
        sizes = {name: array.nbytes for name, array in given[0].items()}
        sizes |= {table: 8 * (count + 1) for table in tables} | {each.name: MAP_BYTES for each in kernel.maps}
        parts = {name: OfRank(nbytes, (-(-nbytes // GAP) + 1) * GAP, name in shared) for name, nbytes in sizes.items()}
        arrays = {name: np.zeros(count * part.pitch, np.uint8) for name, part in parts.items()}
        bases = {name: place.base for name, place in BufferPlaces(kernel).by_name.items()}
        for rank, own in enumerate(given):
            _check_apart(kernel, own, rank)
            for name, array in own.items():
                _bytes(arrays[name], parts[name], rank)[:] = _octets(array)
            for table, name in tables.items():
                peers = [*(bases[name] + parts[name].pitch * np.arange(count)), bases[name] + MULTICAST]
                _bytes(arrays[table], parts[table], rank)[:] = np.array(peers, np.int64).view(np.uint8)
            starts = {name: base + rank * parts[name].pitch for name, base in bases.items() if name in parts}
            for name, data in encoded(kernel, starts, maps[rank], scalars):
                _bytes(arrays[name], parts[name], rank)[:] = np.frombuffer(data, np.uint8)
        try:
            yield cls(Ranks(count, tuple(parts.items())), arrays)
        finally:
            for rank, own in enumerate(given):
                for name, array in own.items():
                    if array.flags.writeable:
                        _octets(array)[:] = _bytes(arrays[name], parts[name], rank)


def encoded(
    kernel: ir.Kernel, starts: Mapping[str, int], maps: Mapping[str, MapFields], scalars: Mapping[str, Number]
) -> Iterator[tuple[str, bytes]]:
    """The 128 bytes of each tensor map, with the address that its array has here. starts: of the buffers."""
    for each in kernel.maps:
        fields = each.fields(scalars) if each.is_made else maps[each.name]
        base = starts[each.of if each.is_made else mapped(each.name)]
        yield each.name, fields.at(base + (each.start(scalars) if each.is_made else 0)).encode()


def _check_apart(kernel: ir.Kernel, own: Mapping[str, Array], rank: int) -> None:
    if groups := groups_of(own):
        raise ArgumentError(
            f"arguments of {kernel.name} on several GPUs share memory",
            given=f"{' and '.join(name for name, _ in groups[0])} of rank {rank}",
            allowed="arrays that do not overlap",
        )


def _octets(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _bytes(stacked: Array, part: OfRank, rank: int) -> Array:
    return stacked[rank * part.pitch : rank * part.pitch + part.nbytes]
