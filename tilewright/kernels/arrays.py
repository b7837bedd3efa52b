"""The arrays that are passed to kernels, of torch, CuPy or NumPy: as matrices of rows, and new ones like them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tilewright import host
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, described
from tilewright.ir.arguments import ArrayInfo
from tilewright.public import Kind, Public, plain_number


def _is_window(value: object) -> bool:
    return value is None or (
        isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(keys, int) for keys in value)
    )


public = Public(
    ArgumentError,
    {
        "window: tuple[int, int] | None": Kind(
            "None, or two ints, (before, after), -1 for all", _is_window, plain_number
        )
    },
)

Array: TypeAlias = Any
"""`Any`: a tensor of torch, an array of CuPy or NumPy."""

FLOATS = ("float32", "float16", "bfloat16")
SIMULATED = 4  # multiprocessors
INTEGERS = ("int32", "int64")


def multiprocessors(array: Array) -> int:
    """Multiprocessors of the GPU that has the array; a small number on the simulator, so that CTAs still take turns."""
    device = host.device_of(array)
    if device == "cpu":
        return SIMULATED
    from tilewright.cuda import driver

    return driver.device(int(device.removeprefix("cuda:"))).multiprocessors


SEEN: list[Any] = []  # torch, once it is imported


def seen_torch() -> Any:
    """torch, or None where it is not imported.

    Where torch.compile follows a look into `sys.modules`, it goes through all modules there, and fails where one of
    these imports another.
    """
    if not SEEN and "torch" in sys.modules:
        SEEN.append(sys.modules["torch"])
    return SEEN[0] if SEEN else None


seen_torch()


def kind_of(array: Array) -> str:
    """The dtype's name, "float32", whatever the library calls it."""
    name = str(array.dtype)
    return name.removeprefix("torch.")


def has_clusters(array: Array) -> bool:
    """Does the GPU of this array launch clusters? The simulator does."""
    device = host.device_of(array)
    if device == "cpu":
        return True
    from tilewright.cuda import driver

    return driver.device(int(device.partition(":")[2])).capability >= 90


def info_of(array: Array) -> ArrayInfo:
    """Strides, address and the rest of an array anywhere."""
    if hasattr(array, "data_ptr") or isinstance(array, np.ndarray):
        return host.array_info(array)
    from tilewright.cuda.tensors import inspected

    info = inspected(array, 0).descriptor
    assert isinstance(info, ArrayInfo)
    return info


def like(array: Array, shape: Sequence[int] | None = None, kind: str | None = None) -> Array:
    """A new array on the same device, of the same library; of the same shape and dtype where nothing else is said."""
    shape, kind = tuple(array.shape if shape is None else shape), kind or kind_of(array)
    if host.is_torch(array):
        return array.new_empty(shape, dtype=getattr(seen_torch(), kind))
    library = np if isinstance(array, np.ndarray) else sys.modules[type(array).__module__.partition(".")[0]]
    return library.empty(shape, dtype(kind).numpy)


def matrix(array: Array) -> Array:
    """The array with its last dimension as rows: where it is, or a copy if neighbours in a row are apart."""
    columns = array.shape[-1]
    rows = array.reshape(prod(array.shape[:-1]), columns)
    pitch, step = info_of(rows).steps
    if (step == 1 or columns == 1) and pitch >= columns:
        return rows
    return contiguous(rows).reshape(-1).reshape(rows.shape)  # which gives a single row its pitch, whatever it had


def contiguous(array: Array) -> Array:
    """A copy, row major and without gaps; the array itself if it is so already."""
    if info_of(array).is_contiguous:
        return array
    if not host.is_torch(array):
        return array.copy(order="C")
    return array.clone(memory_format=seen_torch().contiguous_format)


def expect(name: str, array: Array, kinds: Sequence[str] = FLOATS, shape: Sequence[int] | None = None) -> None:
    """Raises ArgumentError for what is no array, or one of another dtype or shape."""
    if not host.is_array(array):
        raise ArgumentError(f"{name} is no array", given=described(array), allowed="an array of torch, CuPy or NumPy")
    if kind_of(array) not in kinds:
        raise ArgumentError(f"{name} has a dtype that this kernel does not take", given=kind_of(array),
                            allowed=", ".join(kinds))  # fmt: skip
    if len(array.shape) == 0 and shape != ():
        raise ArgumentError(f"{name} has no dimension", given="shape ()", allowed="one dimension at least")
    if shape is not None and tuple(array.shape) != tuple(shape):
        text = f"shape {tuple(array.shape)}"
        raise ArgumentError(f"the shape of {name} does not fit", given=text, allowed=f"shape {tuple(shape)}")


def expect_columns(x: Array) -> None:
    """Raises ArgumentError for rows without an element, of which there may still be some."""
    if x.shape[-1] == 0 and prod(x.shape[:-1]):
        raise ArgumentError(
            "x has no columns", given=f"shape {tuple(x.shape)}", allowed="one element in each row at least"
        )


def same_shape(**arrays: Array) -> None:
    """Raises ArgumentError unless all are arrays of floats, of one dtype and one shape."""
    (first, wanted), *_ = arrays.items()
    for name, array in arrays.items():
        expect(name, array, shape=getattr(wanted, "shape", None) if name != first else None)
        if kind_of(array) != kind_of(wanted):
            raise ArgumentError(f"{name} and {first} have different dtypes", given=kind_of(array),
                                allowed=kind_of(wanted))  # fmt: skip
