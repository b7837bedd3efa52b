"""Special registers: where a thread stands in the grid. One row each; those that count threads are rows of axes.

The lowered stage has only these; scope ids of a kernel and coordinates of layouts become arithmetic on them. ``varies``
says over what a value differs, so that it is born with the smallest shape: per lane, per warp, per CTA, or one for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.ir.build import as_expr
from tilewright.ir.expr import Expr, Special
from tilewright.layout import AXES, SCOPES, THREADS_IN, Axis

__all__ = [
    "COARSER",
    "COORDINATES",
    "ELEMENT",
    "MAX_THREADS",
    "NARROWER",
    "RANK",
    "RESERVED",
    "SIMULATED",
    "SPECIALS",
    "SpecialRow",
    "coordinate",
    "special",
]

UNIFORM, LANE, WARP, CTA, WARPGROUP = 0, 1, 2, 4, 8  # over what a value varies: a sum of these
ALL = CTA | WARP | LANE
RESERVED = "reserved shared memory"  # which CUDA sets to 0, and gives to cooperative groups
MAX_THREADS = 1024  # of a CTA
_LAST_GPU = 31  # of those that reach each other's memory
_LAST_RANK = 15  # in the largest cluster


@dataclass(frozen=True, slots=True)
class SpecialRow:
    """A special register.

    name: as in ``T.laneid``. cuda: the C++ expression, an int. low, high: its values in any launch. axis: of layouts,
    where it is the number on one.
    """

    name: str
    cuda: str
    varies: int
    meaning: str
    high: int
    low: int = 0
    axis: Axis | None = None


def _of_axis(axis: Axis) -> SpecialRow:
    """The register with a thread's number on an axis: the arithmetic of `Axis.of_thread`, in C++."""
    last = (axis.bound or MAX_THREADS // axis.each) - 1
    text = f"threadIdx.x{f' / {axis.each}' * (axis.each > 1)}{f' % {axis.bound}' if axis.bound else ''}"
    return SpecialRow(
        axis.register,
        f"(int)({text})" if " " in text else f"(int){text}",
        LANE * (axis.each < 32) | WARP * (last * axis.each >= 32),
        f"{axis.subscope} of its {axis.scope}",
        last,
        axis=axis,
    )


def _along(name: str, cuda: str, varies: int, meaning: str, low: int = 0, most: int | None = None) -> list[SpecialRow]:
    """A register for each axis of the grid: at most ``most`` values, or as many as a grid has CTAs along that axis.

    Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
    """
    return [
        SpecialRow(f"{name}.{x}", cuda.format(x), varies, f"{meaning}, {which} axis", low + (most or ctas) - 1, low)
        for x, which, ctas in (("x", "first", 2**31 - 1), ("y", "second", 65535), ("z", "third", 65535))
    ]


SPECIALS = {
    row.name: row
    for row in (
        *(_of_axis(axis) for axis in AXES.values() if axis.register),
        *_along("ctaid", "(int)blockIdx.{}", CTA, "CTA of the grid"),
        *_along("nctaid", "(int)gridDim.{}", UNIFORM, "CTAs of the grid", low=1),
        SpecialRow("ntid", "(int)blockDim.x", UNIFORM, "threads of a CTA", MAX_THREADS, low=1),
        *_along("cluster_ctaid", "tw_cluster_ctaid_{}()", CTA, "CTA in its cluster", most=_LAST_RANK + 1),
        SpecialRow("cluster_ctarank", "tw_cluster_ctarank()", CTA, "rank of the CTA in its cluster", _LAST_RANK),
        *_along("clusterid", "tw_clusterid_{}()", CTA, "cluster of the grid"),
    )
}

RANK = "rank"
SIMULATED = SPECIALS | {RANK: SpecialRow(RANK, "", CTA, "GPU among several", _LAST_GPU)}
"""Those of the simulator, which runs the CTAs of several GPUs: there a parameter for the rank is one."""

ELEMENT = ("element.i", "element.j", "element.k", "element.l")
"""The coordinates of an element in the region that a tile call writes; only values of tile calls contain them."""


def special(name: str) -> Special:
    """The special register ``name``, an int32."""
    return Special(name if name in ELEMENT else SIMULATED[name].name)


def coordinate(scope: str, subscope: str, threads_in: Mapping[str, int] = THREADS_IN) -> Expr:
    """Which ``subscope`` of its ``scope`` the calling thread is in: a register, or arithmetic on a finer one.

    threads_in: the threads of each scope.
    """
    if scope == subscope:
        return as_expr(0)
    each, rank = threads_in[subscope], SCOPES.index
    registers = [row.axis for row in SPECIALS.values() if row.axis is not None and each % row.axis.each == 0]
    wide = [axis for axis in registers if rank(scope) <= rank(axis.scope)]
    axis = min(wide, key=lambda axis: (rank(axis.scope), -axis.each))
    number = special(axis.register) // (each // axis.each)
    return number if axis.scope == scope else number % (threads_in[scope] // each)


_REGISTERS = [row.axis for row in SPECIALS.values() if row.axis is not None]
COARSER = [
    (fine.register, coarse.register, coarse.each // fine.each)
    for fine in _REGISTERS
    for coarse in _REGISTERS
    if fine.scope == coarse.scope and coarse.each > fine.each and coarse.each % fine.each == 0
]
"""Registers that count in one scope: the finer one, the coarser one, and how many of the one are one of the other."""
NARROWER = [
    (wide.register, narrow.register, narrow.bound)
    for wide in _REGISTERS
    for narrow in _REGISTERS
    if wide.each == narrow.each and narrow.bound and SCOPES.index(narrow.scope) < SCOPES.index(wide.scope)
]
"""Registers that count the same: in a wider scope, in a narrower one, and how many the narrower one has."""

COORDINATES = {axis.name: coordinate(axis.scope, axis.subscope) for axis in AXES.values() if axis.is_thread()}
"""What the calling thread is on each thread axis of layouts."""
