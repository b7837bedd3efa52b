"""A reader of DLPack capsules: bfloat16 and the 8-bit floats, which NumPy cannot read, come by the same way as others.

Source: dlpack.h of DLPack 1.1, "DLTensor", "DLManagedTensor", "DLManagedTensorVersioned".
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

from tilewright.errors import ArgumentError
from tilewright.ir.arguments import ArrayInfo

__all__ = ["read_capsule"]

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
