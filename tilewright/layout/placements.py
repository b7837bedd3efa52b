"""Arrays that are spread over a mesh of GPUs, as layouts: `Shard`, `Replicate` and `Partial`, as DTensor names them.

A mesh has a number of GPUs along each of its dimensions; the rank of a GPU is row-major in them, a place on the axis
``pid``. `Shard` divides a dimension of the array into equal parts, one for each GPU along a dimension of the mesh;
`Replicate` gives all of them the same; of `Partial` each has an addend of the array's elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from tilewright.errors import LayoutError, described
from tilewright.layout.axes import m, pid
from tilewright.layout.iters import Iter
from tilewright.layout.tile import TileLayout
from tilewright.public import at_the_edge


@dataclass(frozen=True, slots=True)
class Shard:
    """Equal parts of a dimension of the array, in the order of ranks."""

    dim: int


@dataclass(frozen=True, slots=True)
class Replicate:
    """The same on each GPU."""


@dataclass(frozen=True, slots=True)
class Partial:
    """An addend of the elements on each GPU. reduce_op: how they are combined: "sum", "max" and others of torch."""

    reduce_op: str = "sum"


Placement: TypeAlias = "Shard | Replicate | Partial"


@dataclass(frozen=True, slots=True)
class Placed:
    """An array on a mesh. layout: of the whole array, a part of each element's coordinate on ``pid``. partial: for each
    dimension of the mesh along which GPUs have addends, how they are combined; else "".

    >>> whole = placed((8, 6), (4,), [Shard(0)])
    >>> print(whole.layout)
    S[(4, 2, 6):(1@pid, 6, 1)]
    >>> whole.placements((8, 6))
    (Shard(dim=0),)
    """

    layout: TileLayout
    mesh: tuple[int, ...]
    partial: tuple[str, ...]

    def placements(self, shape: Sequence[int]) -> tuple[Placement, ...]:
        """How an array of this shape is spread along each dimension of the mesh. Inverse of `placed`.

        Raises LayoutError for a layout that no placements give.
        """
        placements = tuple(self._along(which, shape) for which in range(len(self.mesh)))
        if placed(shape, self.mesh, placements).layout.canonicalize() != self.layout.canonicalize():
            raise LayoutError("no placements give this layout", given=str(self.layout),
                              allowed="equal parts of whole dimensions, row major on each GPU")  # fmt: skip
        return placements

    def _along(self, which: int, shape: Sequence[int]) -> Placement:
        if self.partial[which]:
            return Partial(self.partial[which])
        step = _steps(self.mesh)[which]
        at, place = 1, prod(shape)
        for it in self.layout.shard:
            place //= int(it.extent)
            if it.axis == pid and it.stride == step:
                at = place * int(it.extent)
                inner = 1
                for dim in reversed(range(len(shape))):
                    inner *= shape[dim]
                    if at <= inner:
                        return Shard(dim)
        return Replicate()


def _extents(what: str, value: Any) -> tuple[int, ...]:
    """Whole numbers from 1 on. Raises LayoutError for anything else."""
    every = tuple(value) if isinstance(value, (tuple, list)) else None
    if every is None or not all(isinstance(extent, int) and extent > 0 for extent in every):
        raise LayoutError(f"the {what} is a list of extents", given=described(value), allowed="(8, 16)")
    return every


@at_the_edge
def placed(shape: Sequence[int], mesh: Sequence[int], placements: Sequence[Any]) -> Placed:
    """The layout of an array of a shape on a mesh, with a placement for each of its dimensions.

    placements: of this file, or torch's (`Any`), as ``tensor.placements`` of a DTensor has them; its mesh is
    ``tensor.device_mesh.shape``. Raises LayoutError for parts that are not equal.
    """
    shape, mesh = _extents("shape", shape), _extents("mesh", mesh)
    if not isinstance(placements, Iterable) or isinstance(placements, str):
        raise LayoutError("placements are a list", given=described(placements), allowed="Shard(0), Replicate(), ...")
    every = [_own(how) for how in placements]
    if len(every) != len(mesh):
        raise LayoutError("a mesh has a placement for each dimension", given=f"{len(every)} for {mesh}",
                          allowed=f"{len(mesh)}")  # fmt: skip
    steps = _steps(mesh)
    parts: list[list[Iter]] = [[] for _ in shape]
    left = [int(extent) for extent in shape]
    for extent, step, how in zip(mesh, steps, every, strict=True):
        if isinstance(how, Shard):
            if not -len(left) <= how.dim < len(left):
                raise LayoutError("there is no such dimension", given=f"{how.dim}", allowed=f"0 to {len(left) - 1}")
            dim = how.dim % len(left)
            if left[dim] % extent:
                raise LayoutError(f"dimension {dim} has no equal parts", given=f"{left[dim]} elements, {extent} GPUs",
                                  allowed=f"a multiple of {extent}")  # fmt: skip
            left[dim] //= extent
            parts[dim].append(Iter(extent, step, pid))
    shard = [it for dim, part in enumerate(parts) for it in (*part, Iter(left[dim], prod(left[dim + 1 :]), m))]
    copies = [Iter(n, step, pid) for n, step, how in zip(mesh, steps, every, strict=True) if not isinstance(how, Shard)]
    partial = tuple(how.reduce_op if isinstance(how, Partial) else "" for how in every)
    return Placed(TileLayout.from_iters(shard, copies), mesh, partial)


def _steps(mesh: Sequence[int]) -> list[int]:
    """How far GPUs that are neighbours along each dimension of a mesh are apart."""
    return [prod(mesh[which + 1 :]) for which in range(len(mesh))]


def _own(placement: Any) -> Placement:
    """A placement of this file, of one that torch names alike. `Any`: torch's."""
    if isinstance(placement, (Shard, Replicate, Partial)):
        return placement
    kind = type(placement).__name__
    if kind == "Shard":
        return Shard(int(placement.dim))
    if kind == "Replicate":
        return Replicate()
    if kind == "Partial":
        return Partial(str(placement.reduce_op))
    raise LayoutError("no placement", given=described(placement), allowed="Shard(dim), Replicate(), Partial()")
