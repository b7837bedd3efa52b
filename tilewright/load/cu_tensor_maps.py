"""Tensor maps that host code makes with ``cuTensorMapEncodeTiled`` (CUDA Driver API, Tensor Map Object Management)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import dtype as dtype_of
from tilewright.load.cu_arrays import HostArray, NotSaid, put_at

ENUMERATORS = "CU_TENSOR_MAP_"  # with which the names of its constants begin
ENCODES = "cuTensorMapEncodeTiled"
ARGUMENTS = 12  # of that function
_TYPES = {
    "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "INT32": "int32", "UINT64": "uint64", "INT64": "int64",
    "FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64", "BFLOAT16": "bfloat16",
    "FLOAT32_FTZ": "float32", "TFLOAT32": "float32", "TFLOAT32_FTZ": "float32",
}  # fmt: skip
_SWIZZLES = ("NONE", "32B", "64B", "128B")  # by the number of a `SwizzleMode`


@dataclass(frozen=True)
class HostMap:
    """A tensor map of host code. array: in whose memory it lies; None where the text does not say it. Extents, strides
    in elements, box and steps are in the order of the array's dimensions, the outermost first.
    """

    array: HostArray | None
    dtype: str
    extents: Sequence[int]
    strides: Sequence[int]
    box: Sequence[int]
    steps: Sequence[int]
    swizzle: int
    oob: str


def encodes(name: str, words: Sequence[str]) -> bool:
    """Is it a call of ``cuTensorMapEncodeTiled``, perhaps through a pointer to it?"""
    return len(words) == ARGUMENTS and (ENCODES in name or any(ENUMERATORS in word for word in words))


def encode(place: Any, *values: Any) -> int:
    """Put the map that the arguments of a call describe to its place.

    Raises NotSaid where the text does not say one of them.
    """
    kind, rank, address, extents, strides, box, steps, _, swizzle, _, oob = values
    name = _TYPES.get(_of(kind, "DATA_TYPE_"), "")
    if not name or not isinstance(rank, int):
        raise NotSaid
    nbytes = dtype_of(name).numpy.itemsize
    put_at(place, HostMap(
        address if isinstance(address, HostArray) else None, name, _listed(extents, rank),
        (*(step // nbytes for step in _listed(strides, rank - 1)), 1), _listed(box, rank), _listed(steps, rank),
        _SWIZZLES.index(_of(swizzle, "SWIZZLE_")), "nan" if "NAN" in _of(oob, "FLOAT_OOB_FILL_") else "zero",
    ))  # fmt: skip
    return 0


def _of(name: Any, kind: str) -> str:
    """What a constant says: ``128B`` of ``CU_TENSOR_MAP_SWIZZLE_128B``; of a number the first of its kind."""
    if name == 0 and kind != "DATA_TYPE_":
        return "NONE"
    if not isinstance(name, str) or not name.startswith(f"{ENUMERATORS}{kind}"):
        raise NotSaid
    return name[len(ENUMERATORS) + len(kind) :]


def _listed(array: Any, count: int) -> tuple[int, ...]:
    """The numbers of an array of the host, the last first."""
    if not isinstance(array, HostArray):
        raise NotSaid
    return tuple(int(array[place]) for place in reversed(range(count)))
