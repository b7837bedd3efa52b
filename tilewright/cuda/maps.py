"""Tensor maps for a launch: the 128 bytes that the driver makes of an array's address, extents and strides.

Source: CUDA Driver API, "Tensor Map Object Management: cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col,
cuTensorMapEncodeIm2colWide".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import addressof, c_char, c_int, c_uint32, c_uint64, c_void_p
from functools import lru_cache
from typing import Any

from tilewright.cuda import driver
from tilewright.cuda.driver import GpuDevice
from tilewright.ir import Kernel, Number, Var
from tilewright.ir.tensor_map import FILLS, MAP_ALIGNMENT, MAP_BYTES, MapFields

__all__ = ["Maps", "encoded"]

L2_PROMOTION = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B
MOST_MAPS = 4096  # that are kept


class Maps:
    """The tensor maps of a checked call. Those of arrays follow the values of the parameters.

    are_any: is there any? are_given: do callers pass some of them?
    """

    def __init__(
        self, kernel: Kernel, arguments: Sequence[object], values: Mapping[str, Number], device: GpuDevice
    ) -> None:
        self._device = device
        names = [param.name for param in kernel.params]
        self._given = [(i, one) for i, one in enumerate(arguments) if isinstance(one, MapFields)]
        pointers = {buffer.name: buffer.data.name for buffer in kernel.buffers if isinstance(buffer.data, Var)}
        made = [each for each in kernel.maps if each.is_made]
        self._kept: dict[tuple[int, int], bytes] = {}  # a cache
        self.are_given, self.are_any = bool(self._given), bool(kernel.maps)
        self._made = [(names.index(pointers[each.of]), each.start(values), each.fields(values)) for each in made]

    def encoded(self, values: Sequence[Number]) -> Sequence[Any]:
        """The values of the parameters with the bytes of maps in their places, and after them those of made maps."""
        if not self._given and not self._made:
            return values
        found: list[Any] = list(values)
        for i, fields in self._given:
            with self._device.current():
                found[i] = encoded(fields, int(values[i]))
        found += [self._bytes(number, int(values[i]) + start) for number, (i, start, _) in enumerate(self._made)]
        return found

    def _bytes(self, number: int, address: int) -> bytes:
        """The made map of that number, at an address."""
        known = self._kept.get((number, address))
        if known is None:
            with self._device.current():
                known = encoded(self._made[number][2], address)
            if len(self._kept) >= MOST_MAPS:
                self._kept.clear()
            self._kept[number, address] = known
        return known


@lru_cache(maxsize=MOST_MAPS)
def encoded(fields: MapFields, address: int) -> bytes:
    """The driver's map of an array at an address; kept. Raises ArgumentError for an address that no map can have."""
    at = fields.at(address)
    room = (c_char * (MAP_BYTES + MAP_ALIGNMENT))()
    start = -addressof(room) % MAP_ALIGNMENT
    rank = at.rank
    call, boxes, mode = _of_boxes(at)
    driver.call(
        call,
        c_void_p(addressof(room) + start),
        c_int(at.element.driver),
        c_uint32(rank),
        c_void_p(address),
        (c_uint64 * rank)(*at.dims),
        (c_uint64 * max(rank - 1, 1))(*at.strides),
        *boxes,
        (c_uint32 * rank)(*at.steps),
        c_int(0),
        *mode,
        c_int(int(at.swizzle)),
        c_int(L2_PROMOTION),
        c_int(FILLS.index(at.oob)),
    )
    return bytes(room)[start : start + MAP_BYTES]


def _of_boxes(fields: MapFields) -> tuple[str, Sequence[Any], Sequence[Any]]:
    """The driver's function for the mode of a map, what it takes in the place of a box, and after the interleave."""
    walk, rank = fields.im2col, fields.rank
    if walk is None:
        return "cuTensorMapEncodeTiled", [(c_uint32 * rank)(*fields.box)], []
    sizes = [c_uint32(extent) for extent in fields.box]
    if walk.wide:
        corners = [c_int(walk.lower[0]), c_int(walk.upper[0])]
        return "cuTensorMapEncodeIm2colWide", [*corners, *sizes], [c_int(int(walk.wide == "w128"))]
    return "cuTensorMapEncodeIm2col", [*((c_int * (rank - 2))(*one) for one in (walk.lower, walk.upper)), *sizes], []
