"""A driver that runs nothing and remembers everything, and arrays that say they are on its GPUs."""

from __future__ import annotations

from ctypes import c_char, c_int, c_void_p, cast, memmove
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tilewright.cuda.driver import LaunchAttribute, LaunchConfig

CONTEXTS = (0xC0, 0xC1)
NAMES = {1: "CUDA_ERROR_INVALID_VALUE", 201: "CUDA_ERROR_INVALID_CONTEXT", 700: "CUDA_ERROR_ILLEGAL_ADDRESS"}


@dataclass
class Launched:
    """One launch, as the driver saw it. context: the current one. values: by the kinds in `FakeDriver`."""

    function: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    stream: int | None
    context: int
    values: list[Any]
    asked: list[tuple[int, int]] = field(default_factory=list)  # attributes, and the first word of their values


@dataclass
class FakeDriver:
    """The functions of libcuda that tilewright calls. devices: capabilities. kinds: ctypes of a kernel's parameters."""

    devices: tuple[int, ...] = (90,)
    kinds: tuple[Any, ...] = ()
    current: list[int] = field(default_factory=lambda: [CONTEXTS[0]])
    launches: list[Launched] = field(default_factory=list)
    loaded: list[tuple[int, bytes, str]] = field(default_factory=list)  # (context, cubin, entry)
    attributes: list[tuple[int, int]] = field(default_factory=list)
    waits: list[tuple[int | None, int | None]] = field(default_factory=list)  # (stream, event's stream)
    memory: dict[int, Any] = field(default_factory=dict)

    def cuGetErrorName(self, status: c_int, text: Any) -> int:
        text._obj.value = NAMES.get(status.value, "CUDA_ERROR_OTHER").encode()
        return 0

    def cuGetErrorString(self, status: c_int, text: Any) -> int:
        text._obj.value = b"what it means"
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.devices)
        return 0

    def cuDeviceGet(self, handle: Any, ordinal: c_int) -> int:
        handle._obj.value = ordinal.value
        return 0

    def cuDeviceGetName(self, name: Any, size: c_int, handle: c_int) -> int:
        name.value = b"Fake GPU"
        return 0

    def cuDeviceGetAttribute(self, found: Any, attribute: c_int, handle: c_int) -> int:
        numbers = {16: 132, **dict(zip((75, 76), divmod(self.devices[handle.value], 10), strict=True))}
        found._obj.value = numbers[attribute.value]
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, handle: c_int) -> int:
        context._obj.value = CONTEXTS[handle.value]
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = self.current[-1]
        return 0

    def cuCtxPushCurrent_v2(self, context: c_void_p) -> int:
        self.current.append(context.value or 0)
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        self.current.pop()
        return 0

    def cuCtxSynchronize(self) -> int:
        return 0

    def cuPointerGetAttribute(self, found: Any, attribute: c_int, address: c_void_p) -> int:
        found._obj.value = (address.value or 0) >> 40 & 1
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:
        return 0

    def cuModuleLoadData(self, module: Any, cubin: bytes) -> int:
        self.loaded.append((self.current[-1], cubin, ""))
        module._obj.value = len(self.loaded)
        return 0

    def cuModuleGetFunction(self, function: Any, module: c_void_p, entry: bytes) -> int:
        context, cubin, _ = self.loaded.pop()
        self.loaded.append((context, cubin, entry.decode()))
        function._obj.value = 0xF0 + len(self.loaded)
        return 0

    def cuFuncSetAttribute(self, function: c_void_p, attribute: c_int, value: c_int) -> int:
        self.attributes.append((attribute.value, value.value))
        return 0

    def cuEventCreate(self, event: Any, flags: Any) -> int:
        event._obj.value = 0xE
        return 0

    def cuEventRecord(self, event: c_void_p, stream: c_void_p) -> int:
        self.waits.append((None, stream.value))
        return 0

    def cuStreamWaitEvent(self, stream: c_void_p, event: c_void_p, flags: Any) -> int:
        self.waits[-1] = (stream.value, self.waits[-1][1])
        return 0

    def cuEventDestroy_v2(self, event: c_void_p) -> int:
        return 0

    def cuMemAlloc_v2(self, address: Any, nbytes: Any) -> int:
        block = (c_char * (nbytes.value + 256))()
        where = cast(block, c_void_p).value or 0
        address._obj.value = -(-where // 256) * 256
        self.memory[address._obj.value] = block
        return 0

    def cuMemFree_v2(self, address: c_void_p) -> int:
        del self.memory[address.value or 0]
        return 0

    def cuMemcpyHtoD_v2(self, target: c_void_p, source: c_void_p, nbytes: Any) -> int:
        memmove(target, source, nbytes.value)
        return 0

    cuMemcpyDtoH_v2 = cuMemcpyHtoD_v2

    def cuLaunchKernelEx(self, *prepared: Any) -> int:
        if self.current[-1] not in CONTEXTS:
            return 201
        config, function, params = (address_in(argument) for argument in prepared[:3])
        seen = LaunchConfig.from_address(config)
        pointers = (c_void_p * max(1, len(self.kinds))).from_address(params)
        values = [kind.from_address(at).value for kind, at in zip(self.kinds, pointers, strict=False)]
        attributes = (LaunchAttribute * seen.attribute_count).from_address(seen.attributes or config)
        self.launches.append(
            Launched(
                function,
                tuple(seen.grid),
                tuple(seen.block),
                seen.shared_bytes,
                seen.stream,
                self.current[-1],
                values,
                [(each.id, each.value[0]) for each in attributes],
            )
        )
        return 0


def address_in(prepared: object) -> int:
    """The address that ctypes would pass on, which only the argument's text shows: <cparam 'P' (0x...)>."""
    return int(str(prepared).split("(")[1].strip(")>"), 16)


class GpuArray:
    """An array of the fake GPU that speaks the CUDA array interface; its memory is never touched."""

    def __init__(
        self,
        shape: tuple[int, ...],
        kind: str = "float32",
        *,
        address: int = 0x1000,
        stream: int | None = None,
        readonly: bool = False,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.dtype = np.dtype(kind)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": self.dtype.str,
            "data": (address, readonly),
            "strides": strides,
            "stream": stream,
            "version": 3,
        }


class Tensor:
    """A tensor of the fake torch, on the device of that number, -1 for the host."""

    def __init__(
        self, shape: tuple[int, ...], *, address: int = 0x1000, index: int = 0, contiguous: bool = True
    ) -> None:
        self.shape, self.dtype, self.address, self.index, self.contiguous = (
            shape,
            "torch.float32",
            address,
            index,
            contiguous,
        )

    def data_ptr(self) -> int:
        return self.address

    def get_device(self) -> int:
        return self.index

    def is_contiguous(self) -> bool:
        return self.contiguous

    def stride(self) -> tuple[int, ...]:
        steps = np.cumprod((1, *self.shape[:0:-1]))[::-1]
        return tuple(int(step) * (1 if self.contiguous else 2) for step in steps)

    def __dlpack__(self, **options: int) -> object:
        raise AssertionError("a tensor is read by its attributes")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self.index < 0 else (2, self.index)


class TensorGuards:
    """Tells whether tensors are like those it was made of."""

    def __init__(self, *tensors: Tensor, dynamic_dims_sizes: None, dynamic_dims_strides: None) -> None:
        self.seen = [self.facts(tensor) for tensor in tensors]

    @staticmethod
    def facts(tensor: Tensor) -> tuple[object, ...]:
        return tensor.dtype, tensor.shape, tensor.index, tensor.contiguous

    def check(self, *tensors: object) -> bool:
        return self.seen == [self.facts(one) if isinstance(one, Tensor) else None for one in tensors]


def torch_module(streams: tuple[int, ...] = (0x51, 0x52), *, guards: bool) -> ModuleType:
    """A module with the functions of torch that a launch calls. guards: has this torch `TensorGuards`?"""
    module = ModuleType("torch")
    Tensor.__module__ = "torch"
    module.Tensor = Tensor  # type: ignore[attr-defined]
    module.nn = SimpleNamespace(Parameter=None)  # type: ignore[attr-defined]
    module._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: streams[ordinal])  # type: ignore[attr-defined]
    if guards:
        module._C._dynamo = SimpleNamespace(guards=SimpleNamespace(TensorGuards=TensorGuards))
    return module
