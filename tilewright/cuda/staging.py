"""Host arrays on a GPU for one launch, and GPU arrays on the host for one simulation: copied there and back.

Arrays that overlap, such as one array passed twice, stay one memory: the `HostStretch` that they cover is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.cuda import driver
from tilewright.cuda.launch import Launcher
from tilewright.cuda.tensors import Inspected, inspected
from tilewright.dtypes import DType, dtype
from tilewright.ir.arguments import ArrayInfo
from tilewright.ir.tensor_map import MapFields

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALLOCATED_AT = 256  # the alignment of allocations: modulo this, a copy has its original's address


@dataclass(frozen=True, slots=True)
class HostStretch:
    """Memory from the address ``first`` up to ``end``. readonly: no array in it may be written."""

    first: int
    end: int
    readonly: bool = False

    @property
    def nbytes(self) -> int:
        return self.end - self.first


def stretches_of(arrays: Iterable[HostStretch]) -> list[HostStretch]:
    """The memory of some arrays, those that overlap as one stretch.

    >>> arrays = [HostStretch(8, 16), HostStretch(4, 9), HostStretch(16, 20)]
    >>> [(stretch.first, stretch.end) for stretch in stretches_of(arrays)]
    [(4, 16), (16, 20)]
    """
    merged: list[HostStretch] = []
    for stretch in sorted(arrays, key=lambda array: (array.first, array.end)):
        if merged and stretch.first < merged[-1].end:
            last = merged.pop()
            stretch = HostStretch(last.first, max(last.end, stretch.end), last.readonly and stretch.readonly)
        merged.append(stretch)
    return merged


def _stretch_at(address: int, stretches: Sequence[HostStretch]) -> HostStretch:
    return next(stretch for stretch in reversed(stretches) if stretch.first <= address)


# Host arrays on a GPU


def launch_from_host(launcher: Launcher, args: Sequence[Any]) -> None:
    """Launch on the first GPU with copies of host arrays, wait, and copy back those that the kernel may have changed.

    `Any`: arrays of the host, of any library, and numbers.
    """
    arguments = [inspected(value, 0) for value in args]
    launcher.signature.bind([arg.descriptor for arg in arguments])  # before anything is copied
    buffers = [launcher.signature.buffers.get(param.name) for param in launcher.kernel.params]
    kinds = {i: buffer.dtype for i, buffer in enumerate(buffers) if buffer is not None}
    maps = {i: arg.descriptor for i, arg in enumerate(arguments) if isinstance(arg.descriptor, MapFields)}
    kinds |= {i: dtype(fields.dtype) for i, fields in maps.items()}
    arrays = {i: host.opened(host.behind(args[i]), kind) for i, kind in kinds.items()}
    stretches = stretches_of(
        HostStretch(array.ctypes.data, array.ctypes.data + array.nbytes, not array.flags.writeable)
        for array in arrays.values()
    )
    device = driver.device(0)
    with device.current(), ExitStack() as copies:
        distances = {stretch: copies.enter_context(_copied(stretch)) for stretch in stretches}
        for i, array in arrays.items():
            address = array.ctypes.data + distances[_stretch_at(array.ctypes.data, stretches)]
            arguments[i] = Inspected(maps[i], address) if i in maps else _placed(arguments[i], address)
        plan = launcher.plan(arguments, device)
        plan.launch(plan.exact(arguments), 0)
        driver.synchronize()  # what the kernel prints comes out now, also where no array is copied back
    for i, kind in kinds.items():
        host.closed(host.behind(args[i]), arrays[i], kind)


def _placed(argument: Inspected, address: int) -> Inspected:
    assert isinstance(argument.descriptor, ArrayInfo)
    return Inspected(replace(argument.descriptor, address=address, device="cuda:0"), address)


@contextmanager
def _copied(stretch: HostStretch) -> Iterator[int]:
    """Copy a stretch to the GPU, and back at the end. Gives the bytes from the stretch to its copy."""
    lead = stretch.first % ALLOCATED_AT
    allocated = driver.allocate(lead + stretch.nbytes)  # not a byte behind the end, where compute-sanitizer watches
    address = allocated + lead
    try:
        driver.copy_to_device(address, stretch.first, stretch.nbytes)
        yield address - stretch.first
        if not stretch.readonly:
            driver.copy_from_device(stretch.first, address, stretch.nbytes)
    finally:
        driver.free(allocated)


# GPU arrays on the host


@contextmanager
def lent(arrays: Mapping[str, Any], kinds: Mapping[str, DType]) -> Iterator[dict[str, NDArray[np.generic]]]:
    """The bytes of GPU arrays as NumPy arrays, copied back at the end.

    `Any`: arrays of one GPU, of any library.
    """
    spans: dict[str, HostStretch] = {}
    for name, value in arrays.items():
        info = inspected(value, 0).descriptor
        assert isinstance(info, ArrayInfo)
        item_bytes = max(1, kinds[name].element.bits // 8)  # 4-bit elements come two in an item
        first = info.address or 0
        spans[name] = HostStretch(first, first + info.span * item_bytes, info.readonly)
        ordinal = host.ordinal(info.device)
    stretches = stretches_of(spans.values())
    copies = {stretch: np.empty(stretch.nbytes, np.uint8) for stretch in stretches}
    with driver.device(ordinal).current():
        for stretch, copy in copies.items():
            driver.copy_from_device(copy.ctypes.data, stretch.first, stretch.nbytes)
    yield {name: _part(stretch, _stretch_at(stretch.first, stretches), copies) for name, stretch in spans.items()}
    with driver.device(ordinal).current():
        for stretch, copy in copies.items():
            if not stretch.readonly:
                driver.copy_to_device(stretch.first, copy.ctypes.data, stretch.nbytes)


def _part(
    array: HostStretch, stretch: HostStretch, copies: Mapping[HostStretch, NDArray[np.uint8]]
) -> NDArray[np.uint8]:
    """The bytes of an array, in the copy of the stretch that it is part of."""
    start = array.first - stretch.first
    return copies[stretch][start : start + array.nbytes]
