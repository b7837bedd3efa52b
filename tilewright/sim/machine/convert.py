"""Between the values of a kernel and the bits that memory holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import DType, dtype
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Bits, Ints, Value
from tilewright.sim.machine.memory import UNITS

if TYPE_CHECKING:
    from tilewright.sim.machine import Site, Team, View

__all__ = ["from_bits", "joined", "reinterpret", "width_of"]


def width_of(kind: DType) -> int:
    """Bytes of an access to one element; 4-bit elements are read with their neighbour."""
    return max(8, kind.bits) // 8


@cache
def from_bits(kind: DType) -> Callable[[Bits], Value]:
    """The function from units of memory to values of ``kind``."""
    target = kind.numpy
    if kind.kind == "bool":
        octets = from_bits(dtype("uint8").with_lanes(kind.lanes))
        return lambda bits: octets(bits) != 0
    if kind.lanes == 1:
        return lambda bits: bits.view(target)
    if kind.element.bits < 8:
        return lambda bits: _nibbles_of(bits).view(target)
    return lambda bits: np.ascontiguousarray(bits)[..., None].view(target)


@cache
def to_bits(kind: DType) -> Callable[[Value], Bits]:
    """The function from values of ``kind`` to units of memory."""
    source, unit = kind.numpy, UNITS[width_of(kind)]
    if kind.lanes == 1:
        return lambda value: np.asarray(value, source).view(unit)

    def convert(value: Value) -> Bits:
        lanes = np.asarray(value, source)
        if lanes.ndim < 4:  # one number for all lanes of the vector
            lanes = np.broadcast_to(np.atleast_3d(lanes)[..., None], (*np.atleast_3d(lanes).shape, kind.lanes))
        lanes = np.ascontiguousarray(lanes)
        return (_packed(lanes.view(np.uint8)) if kind.element.bits < 8 else lanes).view(unit)[..., 0]

    return convert


@cache
def joined(kind: DType) -> Callable[..., Value]:
    """The function from the components of a vector, numbers or arrays, to the vector."""
    element = kind.numpy

    def join(*parts: Value) -> Value:
        arrays = np.broadcast_arrays(*(np.atleast_3d(np.asarray(part, element)) for part in parts))
        return np.stack(arrays, axis=-1)

    return join


def component(value: Value, index: int) -> Value:
    """One component of a vector, which may be a number that stands for all of them."""
    lanes = np.asarray(value)
    return lanes if lanes.ndim < 4 else lanes[..., index].copy()


def _nibbles_of(bits: Bits) -> Bits:
    octets = np.ascontiguousarray(bits)[..., None].view(np.uint8)
    return np.stack([octets & 15, octets >> 4], axis=-1).reshape(*octets.shape[:-1], -1)


def _packed(nibbles: Bits) -> Bits:
    """(..., 2n) 4-bit values as (..., n) bytes, the first in the low half."""
    packed: Bits = nibbles[..., ::2] | nibbles[..., 1::2] << 4
    return packed


def from_nibbles(octets: Bits, offset: Ints) -> Bits:
    """The 4-bit value at element ``offset`` of packed storage, from the byte that holds it."""
    shifted: Bits = octets >> ((offset & 1) * 4).astype(np.uint8)
    return shifted & np.uint8(15)


def to_nibbles(octets: Bits, bits: Bits, offset: Ints) -> Bits:
    """``octets`` with the 4-bit value at element ``offset`` replaced."""
    high = (offset & 1) != 0
    return np.where(high, octets & 15 | bits << 4, octets & 0xF0 | bits & 15).astype(np.uint8)


@cache
def reinterpret(source: DType, kind: DType) -> Callable[[Value], Value]:
    """The function that reads the bits of a ``source`` as a ``kind`` of the same size."""
    out, back = to_bits(source), from_bits(kind)
    return lambda value: back(np.atleast_3d(out(value)))


# Elements of 4 bits, two to a byte: a load picks a half, a store changes one and keeps the other


def _bytes(at: Address) -> Address:
    return Address(0, Part(at.full() >> 1))


def view_nibbles(site: Site, team: Team, at: Address) -> View:
    """The bytes that hold the elements at ``at``, which counts half bytes."""
    return site.view(team, _bytes(at))


def store_nibbles(site: Site, team: Team, at: Address, bits: Bits, flags: Bits | None = None) -> None:
    """Two lanes may own the halves of one byte, so that the low halves are written first, then the high ones."""
    high = (at.full() & 1) != 0
    there = _bytes(at)
    for half in (~high, high):
        lanes = team.narrowed(np.broadcast_to(half, np.broadcast_shapes(half.shape, (1, 1, 1))))
        if lanes is None:
            continue
        octets = to_nibbles(np.array(site.peek(lanes, there)), bits, at.full())
        view = site.view(lanes, there, octets)
        view.store(octets)
        if flags is not None:
            view.store_flags(np.asarray(flags))
