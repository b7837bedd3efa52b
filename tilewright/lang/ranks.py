"""Several GPUs: arguments that each of them has, and the number of the GPU that a kernel runs on.

A rank is one GPU of a group, as torch.distributed counts them. A kernel runs on every rank, with arguments of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.dtypes import HANDLE, INT32
from tilewright.errors import KernelError, choices
from tilewright.ir import Assume, Buffer, Var, binary, const_value
from tilewright.ir.intervals import Interval
from tilewright.lang.builder import KernelBuilder, current
from tilewright.lang.memory import bind_parameter, new_buffer, strided

if TYPE_CHECKING:
    from tilewright.layout import Layout

MOST_RANKS = 32  # GPUs that reach each other's memory


@dataclass(frozen=True, slots=True)
class SymmetricType:
    """``x: T.SymmetricBuffer((1024,), "float32", ranks=4)``: a parameter that each of four GPUs has, in memory that
    the others reach: ``x.peer(r)`` is the one of rank r, ``x`` itself that of the calling GPU.
    """

    shape: object
    dtype: str = "float32"
    ranks: int = 0
    layout: Layout | None = None
    strides: object = None
    align: int = 0


def bind_symmetric(builder: KernelBuilder, name: str, kind: SymmetricType, pointer: Var | None = None) -> Buffer:
    """The array of this GPU, a parameter; the pointers to those of all GPUs are one more."""
    several(builder, kind.ranks, f"T.SymmetricBuffer {name}")
    if pointer is None:
        pointer = Var(builder.unique(f"{name}_ptr"), HANDLE)
        builder.params.append(pointer)
    layout = strided(name, kind.shape, kind.strides, kind.layout)
    buffer = new_buffer(
        builder, name, kind.shape, kind.dtype, "global", layout, data=pointer, align=kind.align, peers=kind.ranks
    )
    bind_parameter(builder, pointer, buffer)
    table = buffer.pointers
    assert isinstance(table.data, Var)
    for taken in (table.name, table.data.name):
        if builder.unique(taken) != taken:
            raise KernelError(f"{taken} is the name of the pointers to {name}", allowed="another name for the other")
    builder.hidden.append(table.data)
    bind_parameter(builder, table.data, table)
    return buffer


def match_symmetric(
    param: Var,
    shape: object,
    dtype: str = "float32",
    *,
    ranks: int,
    layout: Layout | None = None,
    strides: object = None,
    align: int = 0,
) -> Buffer:
    """`T.match_buffer` of an array that each of several GPUs has, as `T.SymmetricBuffer`, also of symbolic extents."""
    builder = current("T.match_symmetric")
    if not isinstance(param, Var) or param not in builder.params or param.dtype != "handle":
        handles = [var.name for var in builder.params if var.dtype == "handle"]
        allowed = choices(param, handles) or "a T.handle"
        raise KernelError("T.match_symmetric takes a parameter", given=str(param), allowed=allowed)
    kind = SymmetricType(shape, dtype, ranks, layout, strides, align)
    return bind_symmetric(builder, builder.named("buffer"), kind, param)


def several(builder: KernelBuilder, ranks: object, what: str) -> int:
    """The number of GPUs that a kernel is for. Raises KernelError where it is none, or another one than before."""
    count = const_value(ranks)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_RANKS:
        raise KernelError(f"{what} is for several GPUs", given=f"ranks={ranks}", allowed=f"1 to {MOST_RANKS}")
    before = builder.attrs.setdefault("ranks", count)
    if before != count:
        raise KernelError(f"{what} is for {count} GPUs", given=f"{before} GPUs before", allowed="one number of ranks")
    return count


def rank_id(counts: object = None) -> Var:
    """The rank of the GPU that runs the kernel: 0 up to its extent, ``rank = T.rank_id([4])``."""
    builder = current("T.rank_id")
    asked = counts if isinstance(counts, (list, tuple)) else [builder.attrs.get("ranks") if counts is None else counts]
    if len(asked) != 1:
        raise KernelError("T.rank_id has one extent", given=str(counts), allowed="[n], the number of GPUs")
    count = several(builder, asked[0], "T.rank_id")
    if name := builder.attrs.get("rank"):
        return next(var for var in builder.hidden if var.name == name)
    var = Var(builder.named("rank"), INT32)
    builder.attrs["rank"] = var.name
    builder.fresh.add(var.name)
    builder.hidden.append(var)
    builder.ranges[var.name] = Interval(0, count - 1)
    builder.emit(Assume(binary("and", var >= 0, var < count), at=builder.at))
    return var


EXPORTS: dict[str, object] = {"SymmetricBuffer": SymmetricType, "match_symmetric": match_symmetric, "rank_id": rank_id}
"""The names of ``T`` that this file defines, with what they stand for."""
