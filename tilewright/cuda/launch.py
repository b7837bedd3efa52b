"""Launching a compiled kernel on the GPU where its arguments are, with the tensor maps that it wants.

The first call with arguments of some dtypes, shapes, device and alignment checks them, as the simulator does, and keeps
a `LaunchPlan`: the loaded function, its grid, the values of its symbols. Every further call reads a few attributes of
each argument to find that plan, packs pointers and numbers into a prepared buffer, and makes one call of the driver. It
neither waits nor allocates, so it can be captured into a CUDA graph. Arrays of the host are copied there and back.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import addressof, c_char, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright import host
from tilewright.cuda import driver
from tilewright.cuda.driver import GpuDevice, LaunchConfig
from tilewright.cuda.emit import dynamic_shared_bytes, entry_name
from tilewright.cuda.emit_unit import begins_early, restricted, written
from tilewright.cuda.tensors import QUICK, TORCH, Inspected, Reader, inspected, stream_of
from tilewright.dtypes import NAMES, DType, dtype
from tilewright.errors import ArgumentError
from tilewright.ir import Kernel, Launch, Number, Var, names_in
from tilewright.ir.arguments import ArrayInfo, Bindings, Signature
from tilewright.ir.buffer import ARGUMENT_ALIGNMENT
from tilewright.ir.numbers import largest_float
from tilewright.ir.tensor_map import FILLS, MAP_ALIGNMENT, MAP_BYTES, MapFields
from tilewright.isa import Arch, not_run, runs_on

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Tensor maps for a launch: the 128 bytes that the driver makes of an array's address, extents and strides.
#
# Source: CUDA Driver API, "Tensor Map Object Management: cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col,
# cuTensorMapEncodeIm2colWide".


L2_PROMOTION = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B
MOST_MAPS = 4096  # that are kept


class Maps:
    """The tensor maps of a checked call. Those of arrays follow the values of the parameters.

    are_any: is there any? are_passed: do callers pass some of them?
    """

    def __init__(
        self, kernel: Kernel, arguments: Sequence[object], values: Mapping[str, Number], device: GpuDevice
    ) -> None:
        self._device = device
        names = [param.name for param in kernel.params]
        self._passed = [(i, fields) for i, fields in enumerate(arguments) if isinstance(fields, MapFields)]
        pointers = {buffer.name: buffer.data.name for buffer in kernel.buffers if isinstance(buffer.data, Var)}
        self._kept: dict[tuple[int, int], bytes] = {}  # a cache
        self.are_passed, self.are_any = bool(self._passed), bool(kernel.maps)
        self._derived = [
            (names.index(pointers[tensor_map.of]), tensor_map.start(values), tensor_map.fields(values))
            for tensor_map in kernel.maps
            if tensor_map.is_made
        ]

    def encoded(self, values: Sequence[Number]) -> Sequence[Any]:
        """The values of the parameters with the bytes of maps in their places, and after them those of made maps."""
        if not self._passed and not self._derived:
            return values
        filled: list[Any] = list(values)
        for i, fields in self._passed:
            with self._device.current():
                filled[i] = encoded(fields, int(values[i]))
        filled += [self._bytes(number, int(values[i]) + start) for number, (i, start, _) in enumerate(self._derived)]
        return filled

    def _bytes(self, number: int, address: int) -> bytes:
        """The made map of that number, at an address."""
        data = self._kept.get((number, address))
        if data is None:
            with self._device.current():
                data = encoded(self._derived[number][2], address)
            if len(self._kept) >= MOST_MAPS:
                self._kept.clear()
            self._kept[number, address] = data
        return data


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
        ends = [c_int(walk.lower[0]), c_int(walk.upper[0])]
        return "cuTensorMapEncodeIm2colWide", [*ends, *sizes], [c_int(int(walk.wide == "w128"))]
    corners = [(c_int * (rank - 2))(*corner) for corner in (walk.lower, walk.upper)]
    return "cuTensorMapEncodeIm2col", [*corners, *sizes], []


# The path of every launch but the first: a function written for the types of the arguments, without a loop.
#
# For ``exe(a, b, 2.0)`` with two tensors of torch and a number it reads
#
#     def again(args):
#         try: a0, a1, a2, = args
#         except ValueError: return False
#         if type(a2) is T2 and alike(a0, a1):
#             p0 = a0.data_ptr()
#             p1 = a1.data_ptr()
#             wanted = stream(ordinal)
#             ...  # pack into a frame, call the driver
#             return True
#         return looked_up(args)
#
# `TensorGuards` are torch's own: ``alike`` compares type, element type, shape, strides and device of all tensors in one
# call into C++, in a third of the time that Python takes to read them; torch.compile uses them before every call of
# compiled code. Values equal to those that a frame was last used with are packed, are aligned and overlap as little as
# then. ``looked_up`` finds a call unlike the last one, by those facts, in a dictionary of checked calls.


MOST_PLANS = 1024  # argument shapes that a process uses at once; beyond that they are checked again

Again = Callable[[tuple[Any, ...]], bool]
Stream = Callable[[int], int]


class QuickCalls:
    """The calls of one kernel that have been checked. A cache.

    decides: for each parameter, does the value of a number (not only its type) decide on a check or on the grid?
    mask: the bits of an address that an alignment may ask to be zero. apart: pairs of parameters whose arrays must not
    overlap, see `LaunchPlan`. largest: for each parameter the largest number that it holds; None
    where packing the number checks it.
    """

    def __init__(
        self,
        decides: Sequence[bool],
        mask: int,
        apart: Sequence[tuple[int, int]] = (),
        largest: Sequence[float | None] | None = None,
    ) -> None:
        self.decides = tuple(decides)
        self.largest = tuple(largest or (None,) * len(self.decides))
        self.mask = mask
        self.apart = tuple(apart)
        self.again: Again = self.of_other_types  # launches what has been checked before; False for anything else
        self._patterns: dict[tuple[type, ...], _Pattern] = {}

    def remember(self, args: tuple[Any, ...], plan: LaunchPlan) -> None:
        """Arguments like these fit ``plan``; where one is of a type without a quick `Reader`, nothing happens."""
        types = tuple(map(type, args))
        readers = [reader for kind in types if (reader := QUICK[kind]) is not None]
        streams = [reader.stream for reader in readers if reader.stream]
        if len(readers) < len(types) or not streams:
            return
        if types not in self._patterns:
            self._patterns[types] = _Pattern(types, readers, streams[0], self)
        self._patterns[types].add(args, plan)
        self.again = self._patterns[types].again

    def of_other_types(self, args: tuple[Any, ...]) -> bool:
        """Arguments of other types than last time."""
        pattern = self._patterns.get(tuple(map(type, args)))
        return pattern is not None and pattern.again(args)


class _Pattern:
    """The calls with arguments of some types, and the functions written for them."""

    def __init__(self, types: tuple[type, ...], readers: Sequence[Reader], stream: Stream, calls: QuickCalls) -> None:
        self._plans: dict[Hashable, LaunchPlan] = {}
        self._arrays = [i for i, reader in enumerate(readers) if reader.pointer]
        whole = not any(calls.decides[i] for i in range(len(types)) if i not in self._arrays)
        self._guards = tensor_guards() if whole and all(readers[i].facts == TORCH[1] for i in self._arrays) else None
        self._mask = calls.mask
        self._names: dict[str, Any] = {
            "plans": self._plans,
            "stream": stream,
            "other": calls.of_other_types,
            "NotHeld": (struct.error, OverflowError),
            **{f"T{i}": kind for i, kind in enumerate(types)},
        }
        again, others = source(readers, calls)
        self._code = compile(again, "<again>", "exec")
        exec(others, self._names)
        self.again: Again = self._names["looked_up"]

    def add(self, args: tuple[Any, ...], plan: LaunchPlan) -> None:
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[self._names["key"](args)] = plan
        if self._guards is not None and plan.is_plain:
            tensors = [args[i] for i in self._arrays]
            guards = self._guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
            if not any(tensor.data_ptr() & self._mask for tensor in tensors):
                of_plan = {"frames": plan.frames, "ordinal": plan.ordinal, "plan": plan, "n": plan.spans}
                exec(self._code, names := {**self._names, **of_plan, "alike": guards.check})
                self.again = names["again"]


def tensor_guards() -> Callable[..., Any] | None:
    """The guards of torch's tensors; None where this torch has none, so that the dictionary answers alone."""
    guards = getattr(sys.modules["torch"]._C, "_dynamo", None)
    return getattr(getattr(guards, "guards", None), "TensorGuards", None)


def source(readers: Sequence[Reader], calls: QuickCalls) -> tuple[str, str]:
    """The text of ``again``, and of ``looked_up`` and ``key``, which gives what ``looked_up`` finds plans by."""
    args = [f"a{i}" for i in range(len(readers))]
    pointers = {i: reader.pointer.format(args[i]) for i, reader in enumerate(readers) if reader.pointer}
    facts: list[str] = []
    for i, reader in enumerate(readers):
        facts += [fact.format(args[i]) for fact in reader.facts]
        if i in pointers:
            facts.append(f"p{i} & {calls.mask}")
        elif calls.decides[i]:
            facts.append(args[i])
    values = [f"p{i}" if i in pointers else name for i, name in enumerate(args)]
    parts = {
        "unpack": f"{', '.join(args)}, = args",
        "values": ", ".join(values),
        "tensors": ", ".join(args[i] for i in pointers),
        "numbers": "".join(f"type({name}) is T{i} and " for i, name in enumerate(args) if i not in pointers),
        "unlike": " or ".join(f"type({name}) is not T{i}" for i, name in enumerate(args)),
        "facts": "".join(f"{fact}, " for fact in facts),
        "held": "".join(f"{-most!r} <= a{i} <= {most!r} and " for i, most in enumerate(calls.largest) if most),
    }
    names = {name: name for name in ("plan", "frames")}
    addresses = " | ".join(f"p{i}" for i in pointers)
    overlap = "".join(f" or -n[{j}] < p{j} - p{i} < n[{i}]" for i, j in calls.apart)
    within = "".join(f" or not {-most!r} <= a{i} <= {most!r}" for i, most in enumerate(calls.largest) if most)
    check = f"\n  if ({addresses}) & {calls.mask}{overlap}{within}: frames.append(frame); return looked_up(args)"
    launch = launch_text(True, values, names, check)
    reads = {deep: f"\n{' ' * deep}".join(f"p{i} = {text}" for i, text in pointers.items()) for deep in (4, 8)}
    again = AGAIN.format(**parts, deep_reads=reads[8], launch=f"\n{' ' * 12}".join(launch))
    return again, OTHERS.format(**parts, reads=reads[4])


def launch_text(is_plain: bool, values: Sequence[str], names: Mapping[str, str], check: str = "") -> list[str]:
    """The lines that launch a checked call in the stream ``wanted``, as `LaunchPlan.launch` does.

    is_plain: of the plan. values: of the parameters, as source. names: of the plan and of its parts. check: what
    is done about values unlike the last.
    """
    if not is_plain:
        return [f"{names['plan']}.launch(({', '.join(values)},), wanted)"]
    return LAUNCH.format(**names, values=", ".join(values), check=check).strip().splitlines()


LAUNCH = """
try: frame = {frames}.pop()
except IndexError: frame = {plan}.new_frame(({values},))  # the first call, or several at the same time
call, held = frame
if held != ({values}, wanted):{check}
  {plan}.fill(frame, ({values}, wanted))
status = call()
if status: {plan}.recover(status, frame)
{frames}.append(frame)
"""

AGAIN = """
def again(args):
    try: {unpack}
    except ValueError: return False
    if {numbers}alike({tensors}):
        {deep_reads}
        wanted = stream(ordinal)
        try:
            {launch}
        except NotHeld: return False  # a number that its parameter does not hold
        return True
    return looked_up(args)
"""

OTHERS = """
def looked_up(args):
    try: {unpack}
    except ValueError: return False
    if {unlike}: return other(args)
    if not ({held}True): return False  # the check says what is wrong
    {reads}
    plan = plans.get(({facts}))
    if plan is None: return False
    try: return plan.launch(({values},), stream(plan.ordinal))
    except NotHeld: return False

def key(args):
    {unpack}
    {reads}
    return ({facts})
"""


# How `struct` packs a parameter; floats that C has no type for go as their bits.
FORMATS = {
    "bool": "?",
    **dict(zip(("int8", "int16", "int32", "int64"), "bhiq", strict=True)),
    **dict(zip(("uint8", "uint16", "uint32", "uint64"), "BHIQ", strict=True)),
    **{"float16": "e", "bfloat16": "H", "float32": "f", "tf32": "f", "float64": "d", "handle": "Q"},
}


MAP = f"{MAP_BYTES}s"
WIDEST_ITEM = 8  # bytes of an element of a type that only a library has
Cubin = Callable[..., bytes]


class Launcher:
    """A launcher of one kernel, which remembers the arguments that it has checked, and where the kernel is loaded.

    cubin: assembles the kernel, when it is first needed; ``cubin(may_alias=True)`` for calls whose arguments overlap.
    quick: launches where arguments have been checked before.
    """

    def __init__(self, kernel: Kernel, signature: Signature, target: Arch, cubin: Cubin) -> None:
        assert kernel.launch is not None, f"{kernel.name} has no launch"
        self.kernel = kernel
        self.signature = signature
        self.target = target
        self._launch: Launch = kernel.launch
        self._cubin = cubin
        self.format = _Format.of(kernel)
        takes_maps = any(not tensor_map.is_made for tensor_map in kernel.maps)  # maps that callers pass
        self._is_quick = not takes_maps and not any(_goes_as_bits(param) for param in kernel.params)
        deciding = _deciding(signature)
        alignment = max([ARGUMENT_ALIGNMENT, *(buffer.align for buffer in signature.buffers.values())])
        self._apart = _apart(kernel)
        largest = [largest_float(p.dtype) if p.dtype.is_float and p.dtype.bits < 64 else None for p in kernel.params]
        decides = [param.name in deciding for param in kernel.params]
        self.quick = QuickCalls(decides, alignment - 1, self._apart, largest)
        self._functions: dict[tuple[int, bool], int] = {}  # by device, and whether arguments may overlap
        self._plans: dict[Hashable, LaunchPlan] = {}

    def launch(self, args: tuple[Any, ...]) -> None:
        """Check the arguments, launch, and remember that these fit. Raises ArgumentError where they do not.

        `Any`: arrays of any library, numbers.
        """
        plan, values, stream = self.prepared(args)
        plan.launch(values, stream)
        if self._is_quick:
            self.quick.remember(args, plan)

    def prepared(self, args: tuple[Any, ...]) -> tuple[LaunchPlan, tuple[Number, ...], int]:
        """The checked call, the values of its parameters, and the stream. Raises ArgumentError, see `launch`."""
        arrays = [array for array in map(host.behind, args) if host.is_on_gpu(array)]
        streams = [stream_of(value, host.ordinal(host.device_of(value))) for value in arrays]
        stream = next((number for number in streams if number is not None), 0)
        arguments = [inspected(value, stream) for value in args]
        device = driver.device(self._ordinal(arguments))
        plan = self.plan(arguments, device)
        for value, other in zip(arrays, streams, strict=True):
            if other is not None and other != stream and QUICK[type(value)] is None:
                with device.current():
                    driver.order(stream, after=other)
        return plan, plan.exact(arguments), stream

    def plan(self, arguments: Sequence[Inspected], device: GpuDevice) -> LaunchPlan:
        """The checked call for arguments like these, on a device. Raises ArgumentError where they do not fit."""
        descriptors = [arg.descriptor for arg in arguments]
        key = (device.ordinal, self.signature.key(descriptors))
        try:
            if key in self._plans:
                return self._plans[key]
        except TypeError:  # something without a hash: no array and no number, which `bind` refuses
            pass
        bindings = self.signature.bind(descriptors)
        self._check_clusters(bindings.grid)
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        extents = tuple(map(span_bytes, descriptors)) if self._apart else ()

        def plan_for(*, may_alias: bool) -> LaunchPlan:
            function = self._function(device, may_alias=may_alias)
            apart = () if may_alias else self._apart
            disjoint = Disjoint(apart, extents, lambda: plan_for(may_alias=True))
            maps = Maps(self.kernel, descriptors, bindings.values, device)
            return LaunchPlan(self, device, function, bindings, disjoint, maps)

        plan = plan_for(may_alias=False)
        self._plans[key] = plan
        return plan

    def _ordinal(self, arguments: Sequence[Inspected]) -> int:
        """The one device that all arrays are on; the first where there is no array."""
        pairs = zip(arguments, self.kernel.params, strict=False)
        places = [arg.descriptor for arg, param in pairs if param.dtype == "handle"]
        devices = {place.device for place in places if isinstance(place, ArrayInfo)}
        if len(devices) > 1:
            raise host.different_devices(self.kernel.name, devices)
        return host.ordinal(devices.pop()) if devices else 0

    def _check_clusters(self, grid: tuple[int, int, int]) -> None:
        cluster = self._launch.cluster
        if any(extent % size for extent, size in zip(grid, cluster, strict=True)):
            raise ArgumentError(
                f"the grid of {self.kernel.name} must be whole clusters",
                given=f"{grid} CTAs",
                allowed=f"multiples of {cluster}",
            )

    def _function(self, device: GpuDevice, *, may_alias: bool) -> int:
        key = device.ordinal, may_alias
        if key not in self._functions:
            if not runs_on(self.target, device.capability):
                raise not_run(self.kernel.name, self.target, device.capability, device)
            self._functions[key] = driver.load_function(
                device,
                self._cubin(may_alias=may_alias),
                entry_name(self.kernel),
                dynamic_shared_bytes(self._launch),
                prod(self._launch.cluster),
            )
        return self._functions[key]


def _apart(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    """Positions of the parameters that must not overlap in the text with ``__restrict__``: one read, one written."""
    names = [param.name for param in kernel.params]
    reads, writes = restricted(kernel), written(kernel)
    return tuple((names.index(a), names.index(b)) for a in names if a in reads for b in names if b in writes)


def span_bytes(info: ArrayInfo | MapFields | Number) -> int:
    """Bytes from the first element of an array to the end of its last; 0 for a number."""
    if not isinstance(info, ArrayInfo):
        return 0
    return info.span * (max(1, dtype(info.dtype).bits // 8) if info.dtype in NAMES else WIDEST_ITEM)


def _deciding(signature: Signature) -> set[str]:
    """Parameters whose value, beyond its type, decides on a check or on the grid: those are checked by value."""
    conditions = [cond for cond, _ in signature.assumptions]
    extents = [extent for buffer in signature.buffers.values() for extent in (*buffer.shape, buffer.elem_offset)]
    layouts = [buffer.layout.cosize("m") for buffer in signature.buffers.values() if buffer.layout is not None]
    named = names_in((*conditions, *extents, *layouts, *signature.grid))
    return named | {param.name for param in signature.params if param.dtype.kind == "bool"}


# Packed values


@dataclass(frozen=True, slots=True)
class _Format:
    """How the values of parameters, then of tensor maps, then of symbols lie in one buffer. offsets: in bytes."""

    params: tuple[Var, ...]
    packer: struct.Struct  # of the parameters
    mapped: struct.Struct  # and of the tensor maps
    whole: struct.Struct
    offsets: tuple[int, ...]
    floats: tuple[int, ...]  # positions of the parameters that are floats

    @staticmethod
    def of(kernel: Kernel) -> _Format:
        passed = {tensor_map.name for tensor_map in kernel.maps if not tensor_map.is_made}
        params = [MAP if var.name in passed else FORMATS.get(str(var.dtype), "B") for var in kernel.params]
        each_call = [*params, *(MAP for tensor_map in kernel.maps if tensor_map.is_made)]
        letters = [*each_call, *(FORMATS.get(str(var.dtype), "B") for var in kernel.symbols)]
        ends = [struct.calcsize("".join(letters[: i + 1])) for i in range(len(letters))]
        offsets = tuple(end - struct.calcsize(letter) for end, letter in zip(ends, letters, strict=True))
        packer, mapped, whole = (struct.Struct("".join(some)) for some in (params, each_call, letters))
        floats = tuple(i for i, var in enumerate(kernel.params) if var.dtype.is_float)
        return _Format(kernel.params, packer, mapped, whole, offsets, floats)

    def exact(self, index: int, value: Number) -> Number:
        """A number as the parameter's dtype holds it; the bits, where C has no such type."""
        kind = self.params[index].dtype
        if not kind.is_float:
            return int(value)
        with np.errstate(over="ignore"):
            rounded = np.asarray(value, np.float64).astype(kind.numpy)
        if _goes_as_bits(self.params[index]):
            return int(rounded.view(np.uint16 if kind.bits == 16 else np.uint8))
        return float(rounded)


def _goes_as_bits(param: Var) -> bool:
    """Is it a float that C has no type for? `struct` would take an integer given for it as its bits."""
    return param.dtype.is_float and FORMATS.get(str(param.dtype), "B") not in "efd"


# The driver's call, whose arguments are as ctypes passes them, so that a launch converts nothing, and which keeps what
# they point to; and the values that it has, with the stream. `LAUNCH` unpacks it.
Frame = list[Any]
CALL, HELD = 0, 1


class Disjoint(NamedTuple):
    """The assumptions of a launch about its arrays.

    pairs: of parameters whose arrays do not overlap. spans: the bytes of each parameter's array. otherwise: makes the
    plan of a launch that assumes nothing.
    """

    pairs: tuple[tuple[int, int], ...]
    spans: tuple[int, ...]
    otherwise: Callable[[], LaunchPlan]


class LaunchPlan:
    """A checked call. frames: a cache, one frame for each call that is under way at the same time.

    is_plain: the machine has one GPU and the grid is not empty, so that a launch need not look at anything else.
    disjoint: where two of its arrays overlap all the same, another plan launches. A kernel that waits for the grids
    before it (``T.ptx.griddepcontrol.wait``) is launched so that it may begin before they end.
    """

    __slots__ = ("_aliased", "_attributes", "_device", "_format", "_function", "_grid", "_launched", "_name",
                 "_otherwise", "_several", "_symbols", "apart", "frames", "is_plain", "maps", "mask", "ordinal",
                 "spans")  # fmt: skip

    def __init__(
        self, launcher: Launcher, device: GpuDevice, function: int, bindings: Bindings, disjoint: Disjoint, maps: Maps
    ) -> None:
        kernel = launcher.kernel
        assert kernel.launch is not None
        self._name, self._launched, self._format = kernel.name, kernel.launch, launcher.format
        self._symbols = tuple(bindings.values[symbol.name] for symbol in kernel.symbols)
        self.ordinal, self._device, self._function, self._grid = device.ordinal, device, function, bindings.grid
        self.apart, self.spans, self._otherwise = disjoint
        self.maps, self.mask = maps, launcher.quick.mask
        self._aliased: LaunchPlan | None = None  # the same call where arguments overlap
        self.frames: list[Frame] = []
        self._attributes = (addressof(driver.OVERLAPPING), 1) if begins_early(kernel) else (None, 0)
        self._several = driver.device_count() > 1
        self.is_plain = not self._several and 0 not in bindings.grid

    def exact(self, arguments: Sequence[Inspected]) -> tuple[Number, ...]:
        """The values of a call, as the parameters hold them."""
        return tuple(
            arg.value if isinstance(arg.descriptor, (ArrayInfo, MapFields)) else self._format.exact(i, arg.value)
            for i, arg in enumerate(arguments)
        )

    def launch(self, values: tuple[Number, ...], stream: int) -> bool:
        """Put the kernel into a stream; True. Raises ToolError where the driver refuses."""
        if 0 in self._grid:  # no CTA, no work; the driver would call it an error
            return True
        for i, j in self.apart:
            if -self.spans[j] < values[j] - values[i] < self.spans[i]:
                self._aliased = self._aliased or self._otherwise()
                return self._aliased.launch(values, stream)
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = self.new_frame(values)
        if frame[HELD] != (*values, stream):
            self.fill(frame, (*values, stream))
        is_current = not self._several or self._device.is_current()
        status = frame[CALL]() if is_current else self._launched_in_context(frame)
        if status:
            self.recover(status, frame)
        self.frames.append(frame)
        return True

    def fill(self, frame: Frame, held: tuple[Number, ...]) -> None:
        """Pack these values, and set the stream, which is the last of them.

        They are not compared later if a float is zero: a negative one equals it in other bits.
        """
        call, values = frame[CALL], held[:-1]
        if self.maps.are_any:
            self._format.mapped.pack_into(call.packed, 0, *self.maps.encoded(values))
        else:
            self._format.packer.pack_into(call.packed, 0, *values)
        call.config.stream = held[-1]
        floats = self._format.floats
        differs = self.maps.are_passed or (floats and not all([values[i] for i in floats]))
        frame[HELD] = None if differs else held

    def new_frame(self, values: tuple[Number, ...]) -> Frame:
        """A frame for one more call at the same time."""
        format = self._format
        packed = (c_char * max(format.whole.size, 1))()
        format.whole.pack_into(packed, 0, *self.maps.encoded(values), *self._symbols)
        starts = [addressof(packed) + offset for offset in format.offsets]
        pointers = (c_void_p * max(len(starts), 1))(*starts)
        shared = dynamic_shared_bytes(self._launched)
        config = LaunchConfig(self._grid, (self._launched.threads, 1, 1), shared, None, *self._attributes)
        prepared = map(c_void_p.from_param, (addressof(config), self._function, addressof(pointers)))
        call: Any = partial(driver.library().cuLaunchKernelEx, *prepared, None)
        call.config, call.packed, call.kept = config, packed, pointers
        return [call, None]

    def recover(self, status: int, frame: Frame) -> None:
        """Set the context of a thread that has not used the GPU yet. Raises ToolError for any other refusal."""
        if status in driver.WRONG_CONTEXT:
            status = self._launched_in_context(frame)
        if status:
            raise driver.failure(status, f"cuLaunchKernelEx of {self._name}")

    def _launched_in_context(self, frame: Frame) -> int:
        with self._device.current():
            return int(frame[CALL]())


# Host arrays on a GPU for one launch, and GPU arrays on the host for one simulation: copied there and back.
#
# Arrays that overlap, such as one array passed twice, stay one memory: the `host.HostStretch` that they cover is
# copied.


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
