"""How the copy engine moves a tile: its tensor map, its boxes, and where in shared memory each 16 bytes land."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright import compiler, isa
from tilewright.ir import AddressOf, Kernel, const_value
from tilewright.ir.tensor_map import ELEMENTS
from tilewright.lang import T, Tx
from tilewright.layout import Layout
from tilewright.view.grid import Grid, cells, picture_table, row_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.dtypes import DType
    from tilewright.ir.tensor_map import MapOf

# The kernel whose one copy is drawn: it loads a tile from an array of the same size.


def loading(layout: Layout, shape: tuple[int, ...], kind: str) -> Kernel:
    """A load by the copy engine of a tile with this layout."""

    @T.prim_func
    def load(A_ptr: T.handle):
        A = T.match_buffer(A_ptr, shape, kind)
        T.cta_id([1])
        T.thread_id([32])
        tile = T.alloc_shared(shape, kind, layout=layout, align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if T.ptx.elect_sync():
            Tx.copy_async(tile, A, mbar=bar.ptr_to([0]), dispatch="tma")

    return load


UNIT = 16  # bytes that every swizzle keeps together


@dataclass(frozen=True, slots=True)
class BoxPicture:
    """plan: in a few words. tensor_map: of an array as large as the tile. boxes: coordinates, the innermost first, and
    the first element in shared memory, of each.
    """

    plan: str
    tensor_map: MapOf
    boxes: tuple[tuple[tuple[int, ...], int], ...]

    @property
    def facts(self) -> dict[str, str]:
        """The plan, the map, and each box, in words."""
        of, kind = self.tensor_map, ELEMENTS[self.tensor_map.dtype].nbytes
        nbytes = prod(of.box) * kind
        strides = f"; {_listed(of.strides)} bytes apart" if of.strides else ""
        return {
            "plan": self.plan,
            "map": f"{_listed(of.dims)} elements, innermost first{strides}; box {_listed(of.box)}",
        } | {
            f"box {k}": f"at ({_listed(at)}), to bytes {start * kind} to {start * kind + nbytes - 1}"
            for k, (at, start) in enumerate(self.boxes)
        }


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


def boxes_of(layout: Layout, shape: Sequence[int], kind: DType) -> BoxPicture:
    """The boxes of a tile of an array. Raises DispatchError, with a layout that would do, where there are none."""
    exe = compiler.compile(loading(layout, tuple(shape), str(kind)), target="sm_90a")
    (tensor_map,) = exe.lowered.maps
    return BoxPicture(exe.report.entries[0].plan, tensor_map, tuple(_issued(exe.lowered)))


def _issued(kernel: Kernel) -> Iterator[tuple[tuple[int, ...], int]]:
    """Coordinates and first element of each box that is loaded."""
    for _, bound in isa.calls_in(kernel.body):
        if bound.form.issue is not None:
            (dst,) = bound.operands["dst"]
            assert isinstance(dst, AddressOf)
            coords = tuple(int(const_value(coord) or 0) for coord in bound.operands["coords"])
            yield coords, int(const_value(dst.indices[0]) or 0)


def tma_grid(layout: Layout, shape: Sequence[int], kind: DType, boxes: BoxPicture) -> Grid:
    """A cell for each 16 bytes of a row where they lie side by side, else for each element: the 16 bytes of shared
    memory where they land, coloured by box.
    """
    extents = (1, *shape) if len(shape) == 1 else tuple(shape)
    final = picture_table(layout, extents)["m"][..., 0].reshape(-1, extents[-1])
    linear = picture_table(layout.parted(extents)[1], extents)["m"][..., 0].reshape(-1, extents[-1])
    unit = max(1, 8 * UNIT // kind.bits)
    steps = final[:, : extents[-1] // unit * unit].reshape(len(final), -1, unit)
    side_by_side = extents[-1] % unit == 0 and bool((steps - steps[..., :1] == np.arange(unit)).all())
    every = unit if side_by_side else 1
    starts = np.array([start for _, start in boxes.boxes])
    order = np.argsort(starts)
    which = order[np.searchsorted(starts[order], linear, "right") - 1][:, ::every]
    units = (final * kind.bits // 8 // UNIT)[:, ::every]
    columns = tuple(str(k) if every == 1 else f"{k}..{k + every - 1}" for k in range(0, extents[-1], every))
    title = f"{layout}: the {UNIT} bytes of shared memory where each of the tile's lies"
    return Grid(title, cells(units, which), columns, row_names(extents), key_name="box")
