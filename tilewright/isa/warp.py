"""Exchange between the lanes of a warp without memory: shuffles, votes, and the election of one lane.

The lanes that ``mask`` names must all be there. Sources: CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp
Vote Functions"; PTX ISA, "shfl.sync", "vote.sync", "elect.sync".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.registers import constant
from tilewright.isa.table import BY_MASK, Cuda, Meaning, counts, reads, single

__all__ = ["activemask", "all_of", "any_of", "ballot", "elect", "of_lanes", "voters"]

LANE = np.arange(32)
WIDTHS = (1, 2, 4, 8, 16, 32)
SHUFFLE = 'PTX ISA, "Data Movement and Conversion Instructions: shfl.sync"'
VOTE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: vote.sync"'
ELECT = 'PTX ISA, "Parallel Synchronization and Communication Instructions: elect.sync"'

# The C type that carries a dtype through a shuffle: what CUDA has an overload for. Narrow ones travel as an int's bits.
CARRIERS = {
    **{name: dtype(name).cuda for name in ("int32", "uint32", "int64", "uint64", "float32", "float64")},
    **{name: dtype(name).cuda for name in ("bool", "int8", "int16", "uint8", "uint16")},
    **{name: dtype(name).storage for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "handle")},
}


def _segment(width: Lanes) -> tuple[Lanes, Lanes]:
    """First and last lane of each lane's segment of ``width`` lanes."""
    first = LANE & ~(width.astype(np.int64) - 1)
    return first, first + width.astype(np.int64) - 1


def _from_lane(lane: Lanes, first: Lanes, last: Lanes) -> Lanes:
    source: Lanes = first + (lane & (last - first))
    return source


def _from_above(delta: Lanes, first: Lanes, last: Lanes) -> Lanes:
    return np.where(LANE + delta <= last, LANE + delta, LANE)


def _from_below(delta: Lanes, first: Lanes, last: Lanes) -> Lanes:
    return np.where(LANE - delta >= first, LANE - delta, LANE)


def _from_partner(mask: Lanes, first: Lanes, last: Lanes) -> Lanes:
    return np.where((LANE ^ mask) <= last, LANE ^ mask, LANE)


def _origins(source: Callable[[Lanes, Lanes, Lanes], Lanes]) -> Callable[[Lanes, Lanes, Lanes, Lanes], Lanes]:
    """The lane whose value each lane gets."""

    def origins(mask: Lanes, value: Lanes, lane: Lanes, width: Lanes) -> Lanes:
        return source(lane.astype(np.int64) & 31, *_segment(width))

    return origins


def _shuffle(source: Callable[[Lanes, Lanes, Lanes], Lanes]) -> Callable[[Lanes, Lanes, Lanes, Lanes], Lanes]:
    """The meaning of a shuffle that reads each lane's value from lane ``source(operand, first, last)``."""

    origins = _origins(source)

    def execute(mask: Lanes, value: Lanes, lane: Lanes, width: Lanes) -> Lanes:
        return of_lanes(value, origins(mask, value, lane, width))

    return execute


def of_lanes(value: Lanes, origin: Lanes) -> Lanes:
    """For each lane the value of the lane ``origin``."""
    value = np.broadcast_to(value, (*value.shape[:-1], 32))
    if origin.size == 32:  # the same in every warp
        return value.take(origin.reshape(32), axis=-1)
    shape = np.broadcast_shapes(value.shape, origin.shape)
    return np.take_along_axis(np.broadcast_to(value, shape), np.broadcast_to(origin, shape), axis=-1)


def _shuffle_row(name: str, lane: str, source: Callable[[Lanes, Lanes, Lanes], Lanes], doc: str) -> None:
    single(
        f"cuda.{name}",
        Cuda(f"({{dtype}})__{name}({{mask}}, {{value}}, {{{lane}}}, {{width}})", {"dtype": CARRIERS}),
        since("sm_75"),
        SHUFFLE,
        Meaning(_shuffle(source), moves=True, source_lane=_origins(source)),
        keywords={"width": 32},
        operands=(counts("mask"), reads("value", "typed"), counts(lane), counts("width")),
        check=constant(
            "width", WIDTHS.__contains__, ", ".join(map(str, WIDTHS)), what="width of a segment", pattern="{} lanes"
        ),
        lanes=BY_MASK,
        doc=doc,
        result="value",
    )


_shuffle_row("shfl_sync", "lane", _from_lane, "The value of lane ``lane`` of the caller's segment of ``width`` lanes.")
_shuffle_row("shfl_down_sync", "delta", _from_above, "The value ``delta`` lanes above; one's own past the segment.")
_shuffle_row("shfl_up_sync", "delta", _from_below, "The value ``delta`` lanes below; one's own before the segment.")
_shuffle_row("shfl_xor_sync", "lane_mask", _from_partner, "The value of the lane whose number differs in these bits.")


def voters(machine: Machine, mask: Lanes) -> NDArray[np.bool_]:
    """The lanes that take part: those that ``mask`` names."""
    votes: NDArray[np.bool_] = machine.active & ((mask.astype(np.int64) >> LANE & 1) != 0)
    return votes


def _bits(lanes: NDArray[np.bool_]) -> Lanes:
    """One bit per lane: (..., 32) bools as (..., 1) uint32."""
    return np.packbits(lanes, axis=-1, bitorder="little").view("<u4")


def ballot(machine: Machine, mask: Lanes, cond: Lanes) -> Lanes:
    """Bit ``l`` is set where lane ``l`` takes part and its condition holds."""
    return _bits(cond & voters(machine, mask))


def any_of(machine: Machine, mask: Lanes, cond: Lanes) -> Lanes:
    """True where the condition holds in a lane that takes part."""
    return np.logical_or.reduce(cond & voters(machine, mask), axis=-1, keepdims=True)


def all_of(machine: Machine, mask: Lanes, cond: Lanes) -> Lanes:
    """True where the condition holds in all lanes that take part."""
    return np.logical_and.reduce(cond | ~voters(machine, mask), axis=-1, keepdims=True)


def activemask(machine: Machine) -> Lanes:
    """Bit ``l`` is set where lane ``l`` executes this together with the caller."""
    return _bits(machine.active)


def elect(machine: Machine, mask: Lanes) -> Lanes:
    """True in one lane: the lowest that takes part (the manual leaves open which, but it is always the same)."""
    there = voters(machine, mask)
    first: Lanes = there.argmax(-1)[..., None] == LANE
    return first & there


def _vote_row(name: str, execute: Callable[[Machine, Lanes, Lanes], Lanes], result: str, doc: str) -> None:
    single(
        f"cuda.{name}",
        Cuda(f"__{name}({{mask}}, {{cond}})"),
        since("sm_75"),
        VOTE,
        Meaning(execute, on="machine"),
        operands=(counts("mask"), reads("cond", "pred")),
        lanes=BY_MASK,
        doc=doc,
        result=dtype(result),
    )


_vote_row("ballot_sync", ballot, "uint32", "One bit per lane of ``mask``: whether ``cond`` holds there.")
_vote_row("any_sync", any_of, "bool", "Whether ``cond`` holds in some lane of ``mask``.")
_vote_row("all_sync", all_of, "bool", "Whether ``cond`` holds in every lane of ``mask``.")

single(
    "cuda.activemask",
    Cuda("__activemask()"),
    since("sm_75"),
    'PTX ISA, "Parallel Synchronization and Communication Instructions: activemask"',
    Meaning(activemask, on="machine"),
    doc="One bit per lane of the warp that executes this together with the caller.",
    result=dtype("uint32"),
)

# redux.sync: one instruction joins a 32-bit integer of every lane of a warp.
#
# Source: CUDA C++ Programming Guide, "Warp Reduce Functions".

NUMBERS = {"int32": "int", "uint32": "unsigned int"}


class Join(NamedTuple):
    """How values of lanes are joined. nothing: the number of a dtype that changes no other."""

    join: np.ufunc
    nothing: Callable[[np.dtype[Any]], int]
    doc: str


def _zero(kind: np.dtype[Any]) -> int:
    return 0


JOINS = {
    "add": Join(np.add, _zero, "The sum, modulo 2^32, over the lanes of ``mask``."),
    "min": Join(np.minimum, lambda kind: int(np.iinfo(kind).max), "The smallest of the lanes of ``mask``."),
    "max": Join(np.maximum, lambda kind: int(np.iinfo(kind).min), "The largest of the lanes of ``mask``."),
    "and": Join(np.bitwise_and, lambda kind: int(~kind.type(0)), "The bits that all lanes of ``mask`` have."),
    "or": Join(np.bitwise_or, _zero, "The bits that some lane of ``mask`` has."),
    "xor": Join(np.bitwise_xor, _zero, "The bits that an odd number of lanes of ``mask`` have."),
}


def reduced_by(name: str) -> Callable[[Machine, Lanes, Lanes], Lanes]:
    """The values of all lanes that ``mask`` names, joined; each of these lanes gets the result."""
    join, nothing, _ = JOINS[name]

    def execute(machine: Machine, mask: Lanes, value: Lanes) -> Lanes:
        votes = np.where(voters(machine, mask), value, value.dtype.type(nothing(value.dtype)))
        with np.errstate(over="ignore"):
            total: Lanes = join.reduce(votes, axis=-1, keepdims=True, dtype=value.dtype)
        return np.broadcast_to(total, votes.shape)

    return execute


for _name, _join in JOINS.items():
    single(
        f"cuda.reduce_{_name}_sync",
        Cuda(f"({{dtype}})__reduce_{_name}_sync({{mask}}, {{value}})", {"dtype": NUMBERS}),
        since("sm_80"),
        'CUDA C++ Programming Guide, "Warp Reduce Functions"',
        Meaning(reduced_by(_name), on="machine"),
        operands=(counts("mask"), reads("value", "typed")),
        lanes=BY_MASK,
        doc=_join.doc,
        result="value",
    )
