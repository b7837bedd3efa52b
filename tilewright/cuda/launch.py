"""Launching a compiled kernel on the GPU where its arguments are.

The first call with arguments of some dtypes, shapes, device and alignment checks them, as the simulator does, and keeps
a `Plan`: the loaded function, its grid, the values of its symbols. Every further call reads a few attributes of each
argument to find that plan, packs pointers and numbers into a prepared buffer, and makes one call of the driver. It
neither waits nor allocates, so it can be captured into a CUDA graph.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from ctypes import addressof, c_char, c_void_p
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tilewright import host
from tilewright.cuda import driver
from tilewright.cuda.driver import Device, LaunchConfig
from tilewright.cuda.emit import dynamic_shared_bytes, entry_name
from tilewright.cuda.tensors import QUICK, Inspected, inspected, stream_of
from tilewright.errors import ArgumentError, TargetError
from tilewright.ir import Expr, Kernel, Launch, Number, Var, walk
from tilewright.ir.arguments import DEFAULT_ALIGNMENT, ArrayInfo, Signature
from tilewright.isa import ARCHS, Arch

__all__ = ["Launcher", "runs_on"]

MOST_PLANS = 1024  # shapes that a process uses at once; beyond that they are checked again

# How `struct` packs a parameter; floats that C has no type for go as their bits.
FORMATS = {
    "bool": "?",
    **dict(zip(("int8", "int16", "int32", "int64"), "bhiq", strict=True)),
    **dict(zip(("uint8", "uint16", "uint32", "uint64"), "BHIQ", strict=True)),
    **{"float16": "e", "bfloat16": "H", "float32": "f", "tf32": "f", "float64": "d", "handle": "Q"},
}


class Launcher:
    """Launches one kernel; remembers which arguments it has checked, and where it is loaded.

    cubin: assembles the kernel, when it is first needed.
    """

    def __init__(self, kernel: Kernel, signature: Signature, target: Arch, cubin: Callable[[], bytes]) -> None:
        assert kernel.launch is not None, f"{kernel.name} has no launch"
        self.kernel = kernel
        self.signature = signature
        self.target = target
        self._launch: Launch = kernel.launch
        self._cubin = cubin
        self._format = _Format.of((*kernel.params, *kernel.symbols))
        deciding = _deciding(signature)
        self._decides = tuple(param.name in deciding for param in kernel.params)
        self._mask = max([DEFAULT_ALIGNMENT, *(buffer.align for buffer in signature.buffers.values())]) - 1
        self._functions: dict[int, int] = {}  # by device
        self._plans: dict[Hashable, Plan] = {}
        self._quick: dict[Hashable, tuple[Plan, Callable[[int], int]]] = {}

    def again(self, args: tuple[Any, ...]) -> bool:
        """Launch, where arguments like these have been checked before. False where they have not: then call `launch`.

        `Any`: arrays of any library, numbers.
        """
        if len(args) != len(self._decides):
            return False
        key, values = [], []
        for value, decides in zip(args, self._decides, strict=True):
            reader = QUICK[type(value)]
            if reader is None:
                return False
            facts, number = reader.read(value, self._mask)
            key.append((facts, number) if decides else facts)
            values.append(number)
        found = self._quick.get(tuple(key))
        if found is None:
            return False
        plan, stream = found
        try:
            plan.launch(values, stream(plan.device.ordinal))
        except (struct.error, OverflowError):  # a number that its parameter does not hold
            return False
        return True

    def launch(self, args: tuple[Any, ...]) -> None:
        """Check the arguments, launch, and remember that these fit. Raises ArgumentError where they do not.

        `Any`: arrays of any library, numbers.
        """
        arrays = [value for value in args if host.is_array(value)]
        streams = [stream_of(value, _ordinal_of(value)) for value in arrays]
        stream = next((one for one in streams if one is not None), 0)
        found = [inspected(value, stream) for value in args]
        device = driver.device(self._ordinal(found))
        plan = self.plan(found, device)
        for value, other in zip(arrays, streams, strict=True):
            if other is not None and other != stream and QUICK[type(value)] is None:
                with device.current():
                    driver.order(stream, after=other)
        plan.launch(plan.exact(found), stream)
        self._remember(args, plan)

    def plan(self, found: Sequence[Inspected], device: Device) -> Plan:
        """The checked call for arguments like these, on a device. Raises ArgumentError where they do not fit."""
        descriptors = [one.descriptor for one in found]
        key = (device.ordinal, self.signature.key(descriptors))
        try:
            if key in self._plans:
                return self._plans[key]
        except TypeError:  # something without a hash: no array and no number, which `bind` refuses
            pass
        bindings = self.signature.bind(descriptors)
        self._check_clusters(bindings.grid)
        symbols = tuple(bindings.values[symbol.name] for symbol in self.kernel.symbols)
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        plan = Plan(self.kernel, device, self._function(device), bindings.grid, self._launch, self._format, symbols)
        self._plans[key] = plan
        return plan

    def _remember(self, args: tuple[Any, ...], plan: Plan) -> None:
        """What `again` finds the plan by, where all arguments are of quickly read types."""
        readers = [QUICK[type(value)] for value in args]
        stream = next((reader.stream for reader in readers if reader and reader.stream), None)
        if stream is None or not all(readers):
            return
        key = []
        for reader, value, decides in zip(readers, args, self._decides, strict=True):
            assert reader is not None
            facts, number = reader.read(value, self._mask)
            key.append((facts, number) if decides else facts)
        if len(self._quick) >= MOST_PLANS:
            self._quick.clear()
        self._quick[tuple(key)] = plan, stream

    def _ordinal(self, found: Sequence[Inspected]) -> int:
        """The one device that all arrays are on; the first where there is no array."""
        devices = {one.descriptor.device for one in found if isinstance(one.descriptor, ArrayInfo)}
        if len(devices) > 1:
            raise host.different_devices(self.kernel.name, devices)
        return int(devices.pop().partition(":")[2] or 0) if devices else 0

    def _check_clusters(self, grid: tuple[int, int, int]) -> None:
        cluster = self._launch.cluster
        if any(extent % size for extent, size in zip(grid, cluster, strict=True)):
            raise ArgumentError(
                f"the grid of {self.kernel.name} must be whole clusters",
                given=f"{grid} CTAs",
                allowed=f"multiples of {cluster}",
            )

    def _function(self, device: Device) -> int:
        if device.ordinal not in self._functions:
            if not runs_on(self.target, device.capability):
                raise _wrong_target(self.kernel, self.target, device)
            self._functions[device.ordinal] = driver.load_function(
                device,
                self._cubin(),
                entry_name(self.kernel),
                dynamic_shared_bytes(self._launch),
                prod(self._launch.cluster),
            )
        return self._functions[device.ordinal]


def runs_on(target: Arch, capability: int) -> bool:
    """Does machine code for ``target`` run on a device of that compute capability (90 for 9.0)?

    Plain code runs on later devices of its major version, code with "f" on those of its family, with "a" on its own.

    >>> runs_on(ARCHS["sm_80"], 86), runs_on(ARCHS["sm_90a"], 100)
    (True, False)
    """
    if target.suffix == "a":
        return target.number == capability
    return target.number // 10 == capability // 10 and target.number <= capability


def _wrong_target(kernel: Kernel, target: Arch, device: Device) -> TargetError:
    own = [str(row) for row in ARCHS.values() if runs_on(row, device.capability)]
    return TargetError(
        f"{kernel.name} is compiled for {target}, which {device} does not run",
        given=str(target),
        allowed=", ".join(own) or "no architecture that tilewright knows",
        hint=f"tw.compile(kernel, target={own[-1]!r})" if own else None,
    )


def _deciding(signature: Signature) -> set[str]:
    """Parameters whose value, beyond its type, decides on a check or on the grid: those are checked by value."""
    conditions = [cond for cond, _ in signature.assumptions]
    extents = [extent for buffer in signature.buffers.values() for extent in (*buffer.shape, buffer.elem_offset)]
    layouts = [buffer.layout.cosize("m") for buffer in signature.buffers.values() if buffer.layout is not None]
    exprs = [*conditions, *extents, *layouts, *signature.grid]
    named = {node.name for expr in exprs if isinstance(expr, Expr) for node in walk(expr) if isinstance(node, Var)}
    return named | {param.name for param in signature.params if param.dtype.kind == "bool"}


def _ordinal_of(value: Any) -> int:
    return int(host.device_of(value).partition(":")[2] or 0)


# What is packed


@dataclass(frozen=True, slots=True)
class _Format:
    """How the values of parameters and symbols lie in one buffer. offsets: in bytes."""

    params: tuple[Var, ...]
    packer: struct.Struct
    offsets: tuple[int, ...]

    @staticmethod
    def of(params: tuple[Var, ...]) -> _Format:
        letters = "".join(FORMATS.get(str(param.dtype), "B") for param in params)
        ends = [struct.calcsize(letters[: i + 1]) for i in range(len(letters))]
        offsets = tuple(end - struct.calcsize(letter) for end, letter in zip(ends, letters, strict=True))
        return _Format(params, struct.Struct(letters), offsets)

    def exact(self, index: int, value: Number) -> Number:
        """A number as the parameter's dtype holds it; the bits, where C has no such type."""
        kind = self.params[index].dtype
        if not kind.is_float:
            return int(value)
        with np.errstate(over="ignore"):
            rounded = np.asarray(value, np.float64).astype(kind.numpy)
        if str(kind) in ("float16", "float32", "tf32", "float64"):
            return float(rounded)
        return int(rounded.view(np.uint16 if kind.bits == 16 else np.uint8))


@dataclass(slots=True)
class Plan:
    """A checked call. A cache of frames besides: one for each call that is under way at the same time."""

    kernel: Kernel
    device: Device
    function: int
    grid: tuple[int, int, int]
    launched: Launch
    format: _Format
    symbols: tuple[Number, ...]
    frames: list[_Frame] = field(default_factory=list)
    several_devices: bool = field(default_factory=lambda: driver.device_count() > 1)

    def exact(self, found: Sequence[Inspected]) -> list[Number]:
        """The values of a call, as the parameters hold them."""
        return [
            one.value if isinstance(one.descriptor, ArrayInfo) else self.format.exact(i, one.value)
            for i, one in enumerate(found)
        ]

    def launch(self, values: Sequence[Number], stream: int) -> None:
        """Put the kernel into a stream. Raises ToolError where the driver refuses."""
        if 0 in self.grid:  # no CTA, no work; the driver would call it an error
            return
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = _Frame(self)
        frame.fill(values, stream)
        if self.several_devices and not self.device.is_current():
            status = self._launched_in_context(frame)
        else:
            status = frame.launch(*frame.arguments)
            if status in driver.WRONG_CONTEXT:  # a thread that has not used the GPU yet has no context
                status = self._launched_in_context(frame)
        if status:
            raise driver.failure(status, f"cuLaunchKernelEx of {self.kernel.name}")
        self.frames.append(frame)

    def _launched_in_context(self, frame: _Frame) -> int:
        with self.device.current():
            return int(frame.launch(*frame.arguments))


class _Frame:
    """A buffer of packed values and the arguments of cuLaunchKernelEx that point to it, made once and filled again."""

    __slots__ = ("_config", "_pack", "_packed", "_pointers", "_stream", "_symbols", "arguments", "launch")

    def __init__(self, plan: Plan) -> None:
        size, offsets = plan.format.packer.size, plan.format.offsets
        self._packed = (c_char * max(size, 1))()
        start = addressof(self._packed)
        self._pointers = (c_void_p * max(len(offsets), 1))(*(start + offset for offset in offsets))
        shared = dynamic_shared_bytes(plan.launched)
        self._config = LaunchConfig(plan.grid, (plan.launched.threads, 1, 1), shared, None, None, 0)
        self._pack = plan.format.packer.pack_into
        self._symbols = plan.symbols
        self._stream = 0
        self.launch = driver.library().cuLaunchKernelEx
        config, pointers = c_void_p(addressof(self._config)), c_void_p(addressof(self._pointers))
        self.arguments = (config, c_void_p(plan.function), pointers, None)

    def fill(self, values: Sequence[Number], stream: int) -> None:
        self._pack(self._packed, 0, *values, *self._symbols)
        if stream != self._stream:
            self._config.stream = self._stream = stream
