"""The arguments of a launch: an array's address, the facts for its checks, and the stream on which it is used.

Two ways of reading. `QUICK` has, for the types that most calls pass, the few attributes by which checked calls differ
(`tilewright.cuda.launch` reads them in every launch).
`inspected` reads any array, through whichever protocol it speaks.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterable
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import host
from tilewright.cuda import driver
from tilewright.errors import ArgumentError, ToolError, choices
from tilewright.ir import AddressOf, Number, Var, walk
from tilewright.ir.arguments import ArrayInfo, Signature
from tilewright.ir.tensor_map import MapFields
from tilewright.isa import Bound, calls_in

# A reader of DLPack capsules: bfloat16 and the 8-bit floats, which NumPy cannot read, come by the same way as others.
#
# Source: dlpack.h of DLPack 1.1, "DLTensor", "DLManagedTensor", "DLManagedTensorVersioned".


MAJOR_VERSION = 1
READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
LEGACY_STREAM = 1  # how the protocol spells the default stream

# (kind of number, bits) -> our name. Kinds: DLDataTypeCode.
INT, UINT, FLOAT, BFLOAT, BOOLEAN = 0, 1, 2, 4, 6
NAMES = {
    **{(INT, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(UINT, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(FLOAT, bits): f"float{bits}" for bits in (16, 32, 64)},
    (BFLOAT, 16): "bfloat16",
    (BOOLEAN, 8): "bool",
    (10, 8): "float8_e4m3fn",
    (12, 8): "float8_e5m2",
    (14, 8): "float8_e8m0fnu",
    (17, 4): "float4_e2m1fn",  # two in a byte
}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


def read_capsule(value: Any, stream: int | None = None) -> ArrayInfo:
    """The description of an array with ``__dlpack__``; its owner makes it ready on ``stream`` (0: the default one).

    stream: None for an array of the host. `Any`: whatever library made it. The capsule is dropped again: the caller
    holds the array for as long as it uses the address.
    """
    capsule = _capsule(value, {} if stream is None else {"stream": stream or LEGACY_STREAM})
    readonly = False
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _ManagedVersioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != MAJOR_VERSION:
            raise ArgumentError(
                "an argument comes in a version of DLPack that is not known",
                given=f"{versioned.major}.{versioned.minor}",
                allowed=f"{MAJOR_VERSION}.0 and later, or before versions were told",
            )
        tensor, readonly = versioned.tensor, bool(versioned.flags & READ_ONLY)
    else:
        tensor = _Managed.from_address(_pointer(capsule, b"dltensor")).tensor
    axes = range(tensor.ndim)
    shape = tuple(tensor.shape[axis] for axis in axes)
    strides = tuple(tensor.strides[axis] for axis in axes) if tensor.strides else None
    device = f"cuda:{tensor.device_id}" if tensor.device_type in (2, 13) else "cpu"
    return ArrayInfo(shape, _dtype(tensor), strides, (tensor.data or 0) + tensor.byte_offset, device, readonly)


def _capsule(value: Any, options: dict[str, int]) -> object:
    """Ask for a capsule of the version in which arrays say that they are read-only, from libraries that know it."""
    try:
        return value.__dlpack__(**options, max_version=(1, 1))
    except TypeError:
        return value.__dlpack__(**options)


def _dtype(tensor: _Tensor) -> str:
    name = NAMES.get((tensor.code, tensor.bits))
    if name is None:
        raise ArgumentError(
            "an argument has elements of a type that no kernel knows",
            given=f"DLPack type code {tensor.code}, {tensor.bits} bits",
            allowed=", ".join(NAMES.values()),
        )
    if tensor.lanes == 1:
        return name
    return f"{name}_x{tensor.lanes}" if name == "float4_e2m1fn" else f"{name}x{tensor.lanes}"


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), c_void_p


TORCH = "{}.data_ptr()", ("{}.dtype", "{}.shape", "{}.get_device()", "{}.is_contiguous()")
CUPY = "{}.data.ptr", ("{}.dtype", "{}.shape", "{}.data.device_id", "{}.flags.c_contiguous")


@dataclass(frozen=True, slots=True)
class Inspected:
    """An argument: a number, or an array without its data. value: what the kernel is given."""

    descriptor: ArrayInfo | MapFields | Number
    value: Number


@dataclass(frozen=True, slots=True)
class Reader:
    """How arguments of one type are read quickly, as Python source; ``{}`` is the argument.

    pointer: the address of an array; empty for a number. facts: what else a check reads. stream: the stream that the
    caller works on, on a device; None for numbers.
    """

    pointer: str = ""
    facts: tuple[str, ...] = ()
    stream: Callable[[int], int] | None = None


def _cupy_stream(ordinal: int) -> int:
    return int(sys.modules["cupy"].cuda.get_current_stream(ordinal).ptr)


def torch_stream() -> Callable[[int], int]:
    """A function that gives torch's current stream of a device."""
    torch = sys.modules["torch"]
    # This takes a tenth of the time of torch.cuda.current_stream, which makes an object; torch's own generated code
    # calls it too.
    quick: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return quick or (lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream))


class _Quick(dict[type, Reader | None]):
    """Readers by exact type, found when a type is first seen: no library is imported here that the caller has not."""

    def __missing__(self, kind: type) -> Reader | None:
        library = kind.__module__.partition(".")[0]
        reader = None
        if library == "torch" and kind in (sys.modules["torch"].Tensor, sys.modules["torch"].nn.Parameter):
            reader = Reader(*TORCH, torch_stream())
        elif library == "cupy" and kind is sys.modules["cupy"].ndarray:
            reader = Reader(*CUPY, _cupy_stream)
        self[kind] = reader
        return reader


QUICK = _Quick({kind: Reader() for kind in (int, float, bool)})


# Any argument


def stream_of(value: Any, ordinal: int) -> int | None:
    """The stream that work on this array belongs to; None where the array names none. `Any`: whatever is passed."""
    reader = QUICK[type(value)]
    if reader is not None:
        return reader.stream(ordinal) if reader.stream else None
    if type(value).__module__.partition(".")[0] == "torch" or hasattr(value, "data_ptr"):
        return torch_stream()(ordinal) if "torch" in sys.modules else None
    interface = getattr(value, "__cuda_array_interface__", None)
    stream = interface.get("stream") if interface else None
    return None if stream is None else int(stream)


def inspected(value: Any, stream: int) -> Inspected:
    """The argument, ready to be used on ``stream``. `Any`: whatever is passed."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, host.TensorMap):
        return Inspected(value.fields, value.fields.address)
    if not host.is_array(value):
        return Inspected(value, value)
    if hasattr(value, "data_ptr") or isinstance(value, np.ndarray):
        info = host.array_info(value)
    else:
        with host.protocol("an argument cannot be read as an array", "an array of the host or of a GPU"):
            info = _read(value, stream)
    return Inspected(info, info.address or 0)


def _read(value: Any, stream: int) -> ArrayInfo:
    """Read an array through the protocol with the most information."""
    if getattr(value, "__cuda_array_interface__", None):
        return _interface_info(value)
    if hasattr(value, "__dlpack__"):
        return read_capsule(value, stream if host.device_of(value) != "cpu" else None)
    return host.array_info(value)


def _interface_info(value: Any) -> ArrayInfo:
    """Source: "CUDA Array Interface (Version 3)", Numba's manual."""
    interface = value.__cuda_array_interface__
    address, readonly = interface.get("data") or (0, False)
    kind = np.dtype(interface["typestr"])
    if kind.kind == "V":  # a type without a code of the interface, such as bfloat16
        kind = np.dtype(getattr(value, "dtype", kind))
    if interface.get("mask") is not None:
        raise ArgumentError(
            "an argument has a mask, which a kernel would not see",
            given="a masked array",
            allowed="an array without one",
        )
    if kind.name == "float4_e2m1fn":
        raise ArgumentError(
            "an argument holds one 4-bit element a byte; on the GPU two share one",
            given=f"{kind.name} of shape {tuple(interface['shape'])}",
            allowed="uint8 with two elements in each, the first in the low half",
        )
    steps = interface.get("strides")
    strides = None if steps is None else host.in_elements(steps, kind)
    ordinal = driver.device_of_pointer(address) if address else 0
    return ArrayInfo(
        tuple(interface["shape"]), host.element_name(kind), strides, address, f"cuda:{ordinal}", bool(readonly)
    )


# A kernel as an operator of torch: in torch.ops, in torch.compile, with fake tensors.


SCALARS = {"float": "float", "int": "int", "uint": "int", "bool": "bool", "handle": "int"}


def register(name: str, exe: Any, mutates: Iterable[str] | None = None) -> Any:
    """Register the executable as the operator ``name`` ("namespace::operator"), and return it.

    `Any`: an `Executable`, which this room does not know; operators are torch's.
    """
    try:
        import torch
    except ImportError as error:
        raise ToolError("torch is not installed", given=str(error), hint="pip install torch") from None
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", name, re.ASCII)):
        raise ArgumentError(
            "the name of an operator is a namespace and a name", given=repr(name), allowed='such as "mine::scale"'
        )
    written = _mutated(exe.signature, _stored(exe), mutates)

    def run(*args: Any) -> None:
        exe(*args)

    operator = torch.library.custom_op(name, run, mutates_args=written, schema=schema(exe.signature, written))
    operator.register_fake(_nothing)  # results are the arrays that are written, whose shapes are known
    return operator


def schema(signature: Signature, written: Iterable[str]) -> str:
    """The operator's arguments as torch spells them: ``(Tensor A, Tensor(a0!) B, int n) -> ()``."""
    marks = {name: f"(a{number}!)" for number, name in enumerate(written)}
    parts = []
    for param in signature.params:
        name = _argument_name(signature, param)
        is_tensor = param.name in signature.buffers
        parts.append(f"{f'Tensor{marks.get(name, str())}' if is_tensor else SCALARS[param.dtype.kind]} {name}")
    return f"({', '.join(parts)}) -> ()"


def _argument_name(signature: Signature, param: Var) -> str:
    return signature.buffers[param.name].name if param.name in signature.buffers else param.name


def _stored(exe: Any) -> frozenset[str]:
    """Names of the arrays that the kernel stores to, by statements and by instructions; all where a pointer hides it.

    `Any`: an `Executable`.
    """
    names = set(exe.signature.written)
    for _, bound in calls_in(exe.lowered.body):
        names |= _stored_by(bound, exe.signature)
    return frozenset(names)


def _stored_by(bound: Bound, signature: Signature) -> set[str]:
    """Through each address that an instruction writes to: the array that it points into."""
    names: set[str] = set()
    for access in bound.form.accesses:
        if access.write:
            nodes = [node for value in bound.operands[access.operand] for node in walk(value)]
            roots = {node.buffer.root.name for node in nodes if isinstance(node, AddressOf)}
            names |= roots or {buffer.name for buffer in signature.buffers.values()}
    return names


def _mutated(signature: Signature, stored: frozenset[str], mutates: Iterable[str] | None) -> tuple[str, ...]:
    """Names of the arguments that the operator changes, in the order of the parameters."""
    names = [_argument_name(signature, param) for param in signature.params if param.name in signature.buffers]
    seen = [name for name in names if name in stored]
    if mutates is None:
        return tuple(seen)
    asked = (mutates,) if isinstance(mutates, str) else tuple(mutates)
    for name in asked:
        if name not in names:
            raise ArgumentError(f"{signature.name} has no array {name!r}", given=name, allowed=choices(name, names))
    forgotten = [name for name in names if name in signature.written and name not in asked]
    if forgotten:
        raise ArgumentError(
            f"{signature.name} writes what mutates does not name",
            given=", ".join(asked) or "nothing",
            allowed=", ".join([*asked, *forgotten]),
        )
    return tuple(name for name in names if name in asked)


def _nothing(*args: object) -> None:
    """What the operator returns."""
