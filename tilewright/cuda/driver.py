"""The CUDA driver, as much of it as launching a kernel takes, through ctypes.

ctypes rather than cuda-bindings: a launch then costs four prepared pointers instead of eleven converted arguments, and
a kernel from the cache starts without a tenth of a second of imports. The driver is part of the machine, no wheel.

Source: CUDA Driver API, "Error Handling", "Primary Context Management", "Module Management", "Execution Control".
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.errors import ToolError

MULTIPROCESSOR_MAJOR, MULTIPROCESSOR_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
POINTER_DEVICE = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
MAX_DYNAMIC_SHARED, LARGE_CLUSTERS = 8, 14  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, ..._NON_PORTABLE_...
PORTABLE_CLUSTER = 8  # CTAs that every device can put into a cluster
RELAXED_CAPTURE = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
EVENT_WITHOUT_TIME = 2  # CU_EVENT_DISABLE_TIMING

# A launch where the thread has no context, or that of another device.
WRONG_CONTEXT = {201, 400, 709}
# An earlier kernel broke the context: every call fails with the same code until the process ends.
BROKEN_CONTEXT = {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719}


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig: what cuLaunchKernelEx reads beside the function and its arguments."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    )


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: an attribute of a launch by its number, and its value in 64 bytes."""

    _fields_ = (("id", c_int), ("padding", c_int), ("value", c_uint * 16))


OVERLAPPING = LaunchAttribute(6, 0, (1,))
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: the grid begins once all CTAs of the one before allow it."""


@cache
def library() -> Any:
    """libcuda, ready for use. `Any`: its functions are what the machine's driver has.

    Raises ToolError where the machine has no driver.
    """
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        libcuda = ctypes.CDLL(name)
    except OSError as error:
        raise ToolError(
            "this machine has no CUDA driver", given=str(error), hint="the simulator: NumPy arrays, or no --gpu"
        ) from None
    status = libcuda.cuInit(0)
    if status:
        raise ToolError("the CUDA driver does not start", given=_spelled(libcuda, status))
    return libcuda


@cache
def is_usable() -> bool:
    """Has this machine a GPU that kernels can run on?"""
    try:
        return device_count() > 0
    except ToolError:
        return False


def call(name: str, *args: object) -> None:
    """Call a function of the driver; integers of 64 bits and pointers come as ctypes values.

    Raises ToolError with the name and the text of the driver's error.
    """
    status = getattr(library(), name)(*args)
    if status:
        raise failure(status, name)


def failure(status: int, name: str) -> ToolError:
    """The error for a function that returned ``status``."""
    text = _spelled(library(), status)
    if status in BROKEN_CONTEXT:
        return ToolError(
            "a kernel of this process failed on the GPU, which takes no more work from it",
            given=f"{text}, from {name}",
            hint='a new process; tw.simulate(kernel, ..., check="all") says which line of the kernel it is',
        )
    return ToolError(f"{name} fails", given=text)


def _spelled(libcuda: Any, status: int) -> str:
    """ "CUDA_ERROR_INVALID_VALUE (1): invalid argument"; the driver does not know codes that are newer than itself."""
    texts = []
    for function in (libcuda.cuGetErrorName, libcuda.cuGetErrorString):
        text = ctypes.c_char_p()
        function(c_int(status), byref(text))
        texts.append((text.value or b"unknown").decode())
    return f"{texts[0]} ({status}): {texts[1]}"


# The GPUs of this machine, and what the driver says of each.


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A GPU and its primary context, which torch and CuPy use too. capability: 90 for 9.0."""

    ordinal: int
    name: str
    capability: int
    context: int
    multiprocessors: int = 1

    def __str__(self) -> str:
        return f"cuda:{self.ordinal} ({self.name}, sm_{self.capability})"

    def is_current(self) -> bool:
        """Would this thread's calls go to this device now?"""
        context = c_void_p()
        call("cuCtxGetCurrent", byref(context))
        return context.value == self.context

    @contextmanager
    def current(self) -> Iterator[None]:
        """A context in which this thread's calls go to this device; afterwards they go to the one from before."""
        call("cuCtxPushCurrent_v2", c_void_p(self.context))
        try:
            yield
        finally:
            call("cuCtxPopCurrent_v2", byref(c_void_p()))


@cache
def device_count() -> int:
    count = c_int()
    call("cuDeviceGetCount", byref(count))
    return count.value


@cache
def device(ordinal: int) -> GpuDevice:
    """The GPU of that number, its primary context retained for as long as the process lives."""
    handle, context, name = c_int(), c_void_p(), (c_char * 256)()
    call("cuDeviceGet", byref(handle), c_int(ordinal))
    call("cuDeviceGetName", name, c_int(len(name)), handle)
    numbers = [c_int(), c_int(), c_int()]
    for number, attribute in zip(numbers, (MULTIPROCESSOR_MAJOR, MULTIPROCESSOR_MINOR, MULTIPROCESSORS), strict=True):
        call("cuDeviceGetAttribute", byref(number), c_int(attribute), handle)
    major, minor, multiprocessors = (number.value for number in numbers)
    call("cuDevicePrimaryCtxRetain", byref(context), handle)
    return GpuDevice(ordinal, name.value.decode(), 10 * major + minor, context.value or 0, multiprocessors)


def device_of_pointer(address: int) -> int:
    """The number of the device whose memory is at ``address``."""
    ordinal = c_int()
    call("cuPointerGetAttribute", byref(ordinal), c_int(POINTER_DEVICE), c_void_p(address))
    return ordinal.value


# Kernels, loaded on a device, and the order of streams.


def load_function(on: GpuDevice, cubin: bytes, entry: str, dynamic_shared_bytes: int, cluster_ctas: int) -> int:
    """The handle of a cubin's kernel on a device, with the attributes for large shared memory and large clusters.

    Loading is allowed while a stream of this thread is being captured into a graph: it is no part of the graph.
    """
    module, function, mode = c_void_p(), c_void_p(), c_int(RELAXED_CAPTURE)
    with on.current():
        call("cuThreadExchangeStreamCaptureMode", byref(mode))
        try:
            call("cuModuleLoadData", byref(module), cubin)
            call("cuModuleGetFunction", byref(function), module, entry.encode())
            if dynamic_shared_bytes:
                call("cuFuncSetAttribute", function, c_int(MAX_DYNAMIC_SHARED), c_int(dynamic_shared_bytes))
            if cluster_ctas > PORTABLE_CLUSTER:
                call("cuFuncSetAttribute", function, c_int(LARGE_CLUSTERS), c_int(1))
        finally:
            call("cuThreadExchangeStreamCaptureMode", byref(mode))
    return function.value or 0


def order(stream: int, after: int) -> None:
    """Work put into ``stream`` from now on waits for the work that is in the stream ``after`` now."""
    event = c_void_p()
    call("cuEventCreate", byref(event), c_uint(EVENT_WITHOUT_TIME))
    try:
        call("cuEventRecord", event, c_void_p(after))
        call("cuStreamWaitEvent", c_void_p(stream), event, c_uint(0))
    finally:
        call("cuEventDestroy_v2", event)


def synchronize() -> None:
    """Wait for everything that was given to the current context."""
    call("cuCtxSynchronize")


# Memory, in the current context


def allocate(nbytes: int) -> int:
    """The address of ``nbytes`` of device memory, a multiple of 256."""
    address = c_void_p()
    call("cuMemAlloc_v2", byref(address), c_size_t(max(nbytes, 1)))
    return address.value or 0


def free(address: int) -> None:
    call("cuMemFree_v2", c_void_p(address))


def copy_to_device(address: int, source: int, nbytes: int) -> None:
    """Copy from host memory at ``source``, when everything before it is done."""
    if nbytes:
        call("cuMemcpyHtoD_v2", c_void_p(address), c_void_p(source), c_size_t(nbytes))


def copy_from_device(target: int, address: int, nbytes: int) -> None:
    """Copy to host memory at ``target``, when everything before it is done."""
    if nbytes:
        call("cuMemcpyDtoH_v2", c_void_p(target), c_void_p(address), c_size_t(nbytes))
