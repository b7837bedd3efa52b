"""Host arrays on a GPU for one launch, and GPU arrays on the host for one simulation: copied there and back.

Arrays that overlap, such as one array passed twice, stay one memory: the `host.HostStretch` that they cover is copied.
"""

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
from tilewright.dtypes import DType, dtype
from tilewright.ir.arguments import ArrayInfo
from tilewright.ir.tensor_map import MapFields

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _stretch_at(address: int, stretches: Sequence[host.HostStretch]) -> host.HostStretch:
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
    stretches = host.stretches_of(
        host.HostStretch(array.ctypes.data, array.ctypes.data + array.nbytes, not array.flags.writeable)
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
def _copied(stretch: host.HostStretch) -> Iterator[int]:
    """Copy a stretch to the GPU, and back at the end. Gives the bytes from the stretch to its copy."""
    lead = stretch.first % host.ALLOCATED  # modulo this, a copy has its original's address
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
    spans: dict[str, host.HostStretch] = {}
    for name, value in arrays.items():
        info = inspected(value, 0).descriptor
        assert isinstance(info, ArrayInfo)
        item_bytes = max(1, kinds[name].element.bits // 8)  # 4-bit elements come two in an item
        first = info.address or 0
        spans[name] = host.HostStretch(first, first + info.span * item_bytes, info.readonly)
        ordinal = host.ordinal(info.device)
    stretches = host.stretches_of(spans.values())
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
    array: host.HostStretch, stretch: host.HostStretch, copies: Mapping[host.HostStretch, NDArray[np.uint8]]
) -> NDArray[np.uint8]:
    """The bytes of an array, in the copy of the stretch that it is part of."""
    start = array.first - stretch.first
    return copies[stretch][start : start + array.nbytes]
