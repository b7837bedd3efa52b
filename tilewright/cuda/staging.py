"""Host arrays on a GPU for one launch, and GPU arrays on the host for one simulation: copied there and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.cuda import driver
from tilewright.cuda.launch import Launcher
from tilewright.cuda.tensors import Inspected, inspected
from tilewright.dtypes import DType
from tilewright.ir import Buffer
from tilewright.ir.arguments import ArrayInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["launch_from_host", "lent"]


def launch_from_host(launcher: Launcher, args: Sequence[Any], ordinal: int = 0) -> None:
    """Launch on a GPU with copies of host arrays, wait, and copy back what it may have changed.

    `Any`: arrays of the host, of any library, and numbers.
    """
    found = [inspected(value, 0) for value in args]
    launcher.signature.bind([one.descriptor for one in found])  # before anything is copied
    device = driver.device(ordinal)
    buffers = [launcher.signature.buffers.get(param.name) for param in launcher.kernel.params]
    with device.current(), ExitStack() as copies:
        staged = [
            copies.enter_context(_copied(one, value, buffer, ordinal))
            for one, value, buffer in zip(found, args, buffers, strict=True)
        ]
        plan = launcher.plan(staged, device)
        plan.launch(plan.exact(staged), 0)
        driver.synchronize()  # what the kernel prints comes out now, also where no array is copied back


@contextmanager
def _copied(one: Inspected, value: Any, buffer: Buffer | None, ordinal: int) -> Iterator[Inspected]:
    """The argument with its data on the GPU, copied back at the end."""
    if buffer is None or not isinstance(one.descriptor, ArrayInfo):
        yield one
        return
    array = host.opened(value, buffer.dtype)
    address = driver.allocate(array.nbytes)
    try:
        driver.copy_to_device(address, array.ctypes.data, array.nbytes)
        yield Inspected(replace(one.descriptor, address=address, device=f"cuda:{ordinal}"), address)
        if not one.descriptor.readonly:
            driver.copy_from_device(array.ctypes.data, address, array.nbytes)
            host.closed(value, array, buffer.dtype)
    finally:
        driver.free(address)


@contextmanager
def lent(arrays: Mapping[str, Any], kinds: Mapping[str, DType]) -> Iterator[dict[str, NDArray[np.generic]]]:
    """The bytes of GPU arrays as NumPy arrays, copied back at the end.

    `Any`: arrays of one GPU, of any library.
    """
    found = {name: inspected(value, 0).descriptor for name, value in arrays.items()}
    copies: dict[str, NDArray[np.generic]] = {}
    for name, info in found.items():
        assert isinstance(info, ArrayInfo)
        kind = kinds[name]
        item_bytes = max(1, kind.element.bits // 8)  # 4-bit elements come two in an item
        copies[name] = np.empty(info.size * item_bytes, np.uint8)
        _move(info, copies[name], to_device=False)
    yield copies
    for name, info in found.items():
        assert isinstance(info, ArrayInfo)
        if not info.readonly:
            _move(info, copies[name], to_device=True)


def _move(info: ArrayInfo, array: NDArray[np.generic], *, to_device: bool) -> None:
    with driver.device(int(info.device.partition(":")[2])).current():
        if to_device:
            driver.copy_to_device(info.address or 0, array.ctypes.data, array.nbytes)
        else:
            driver.copy_from_device(array.ctypes.data, info.address or 0, array.nbytes)
