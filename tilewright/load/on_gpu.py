"""The same launch on a GPU, and where its results differ from the simulator's.

The driver assembles the PTX text itself; arrays are copied there and back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cuda import driver
from tilewright.errors import ArgumentError
from tilewright.load.arguments import given
from tilewright.ptx import script
from tilewright.ptx.names import number_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.load.arguments import Given
    from tilewright.load.module import LoadedKernel
    from tilewright.ptx import Machine

CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
SHOWN = 3


def differences(kernel: LoadedKernel, before: Sequence[Any], after: Sequence[Any], **launched: Any) -> list[str]:
    """Launch on the GPU with the arguments ``before``, and compare the results with ``after``, a line an array."""
    found = [np.copy(value) if isinstance(value, np.ndarray) else value for value in before]
    launch(kernel, found, **launched)
    texts = []
    for name, ours, theirs in zip(kernel.parameters, after, found, strict=True):
        if not isinstance(ours, np.ndarray):
            continue
        apart = np.flatnonzero(~_alike(ours, theirs))
        if len(apart):
            first = ", ".join(
                f"{at}: {ours.flat[at]} and {theirs.flat[at]} on the GPU" for at in apart[:SHOWN].tolist()
            )
            texts.append(f"{name}: {len(apart)} of {ours.size} elements differ, {first}")
    return texts


def _alike(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = np.equal(a, b).reshape(-1)
    return same | ((a != a) & (b != b)).reshape(-1) if a.dtype.kind == "f" else same  # NaN


def launch(
    kernel: LoadedKernel,
    args: Sequence[Any],
    *,
    grid: Sequence[int],
    block: Sequence[int] | None,
    shared_bytes: int = 0,
    cluster: Sequence[int] | None = None,
    non_portable_cluster: bool = False,
) -> None:
    """Launch on the first GPU; arrays are changed in place. Raises ArgumentError where the module reads textures."""
    _refuse_textures(kernel)
    machine = kernel.machine(grid, block, cluster, shared_bytes, non_portable_cluster=non_portable_cluster)
    on = driver.device(0)
    with on.current():
        module, function = _loaded(kernel, machine)
        _put_globals(kernel, module)
        bound = given(kernel.name, kernel.entry.params, kernel.written, args, {})
        held: dict[str, int] = {}
        try:
            for name, array in bound.arrays.items():
                held[name] = driver.allocate(array.nbytes)
            data = _with_addresses(bound, held)
            for name, array in bound.arrays.items():
                driver.copy_to_device(held[name], array.ctypes.data, array.nbytes)
            values = [_value(param, bound, held, data) for param in kernel.entry.params]
            _start(function, machine, values)
            driver.synchronize()
            for name, array in bound.arrays.items():
                driver.copy_from_device(array.ctypes.data, held[name], array.nbytes)
        finally:
            for address in held.values():
                driver.free(address)


def _refuse_textures(kernel: LoadedKernel) -> None:
    """What is a texture here, a description in memory, is none to the driver."""
    lines = script(kernel.module.module).splitlines()
    if any(word.startswith("tex.") for line in lines for word in line.split()[:2]):  # behind a guard, or first
        raise ArgumentError(
            f"{kernel.name} is compared with no GPU: its file reads textures", given="tex",
            allowed="kernels that read arrays", hint="the same check without --gpu",
        )  # fmt: skip


def _loaded(kernel: LoadedKernel, machine: Machine) -> tuple[c_void_p, c_void_p]:
    module, function = c_void_p(), c_void_p()
    driver.call("cuModuleLoadData", byref(module), script(kernel.module.module).encode() + b"\0")
    driver.call("cuModuleGetFunction", byref(function), module, kernel.entry.name.encode())
    if machine.dynamic_bytes:
        driver.call("cuFuncSetAttribute", function, c_int(driver.MAX_DYNAMIC_SHARED), c_int(machine.dynamic_bytes))
    if machine.launch.non_portable_cluster:
        driver.call("cuFuncSetAttribute", function, c_int(driver.LARGE_CLUSTERS), c_int(1))
    return module, function


def _put_globals(kernel: LoadedKernel, module: c_void_p) -> None:
    """The variables that the caller has set."""
    for name, array in kernel.module.set_globals().items():
        address, size = c_void_p(), c_size_t()
        driver.call("cuModuleGetGlobal_v2", byref(address), byref(size), module, name.encode())
        driver.copy_to_device(address.value or 0, array.ctypes.data, min(array.nbytes, size.value))


def _with_addresses(bound: Given, held: Mapping[str, int]) -> dict[str, bytes]:
    """The bytes of structures, with the addresses on the GPU in their pointers; tables of pointers get theirs too."""
    data = {name: bytearray(octets) for name, octets in bound.data.items()}
    for param, pointers in bound.pointers.items():
        whole = memoryview(data[param]) if param in data else bound.arrays[param].view(np.uint8).data
        for at, of in pointers:
            whole[at : at + 8] = held[of].to_bytes(8, "little")
    return {name: bytes(octets) for name, octets in data.items()}


def _value(param: Any, bound: Given, held: Mapping[str, int], data: Mapping[str, bytes]) -> Any:
    """An argument's bytes as the driver reads them."""
    if param.name in held:
        return ctypes.c_uint64(held[param.name])
    if param.name in data:
        return ctypes.create_string_buffer(data[param.name], len(data[param.name]))
    number = np.array(bound.numbers[param.name], number_dtype(param.type).numpy).tobytes()
    return ctypes.create_string_buffer(number, len(number))


def _start(function: c_void_p, machine: Machine, values: list[Any]) -> None:
    cluster = machine.launch.cluster
    attribute, wanted = driver.LaunchAttribute(CLUSTER, 0, cluster), cluster != (1, 1, 1)
    config = driver.LaunchConfig(
        grid=(c_uint * 3)(*machine.grid), block=(c_uint * 3)(*machine.block), shared_bytes=machine.dynamic_bytes,
        stream=None,
        attributes=ctypes.addressof(attribute) if wanted else None, attribute_count=int(wanted),
    )  # fmt: skip
    pointers = (c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
    driver.call("cuLaunchKernelEx", byref(config), function, pointers, None)
