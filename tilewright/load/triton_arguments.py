"""The arguments of a Triton kernel: their types as Triton names them, and the parameters that its PTX has for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright import host
from tilewright.errors import ArgumentError, described
from tilewright.ir.tensor_map import ELEMENTS, MapFields

__all__ = ["Typed", "laid_out", "typed"]

POINTERS = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    **{f"{name}int{bits}": f"{letter}{bits}" for name, letter in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Triton's names of the element types."""
DIVISIBLE = [["tt.divisibility", 16]]  # Triton's word for a multiple of 16
CONSTANT = "constexpr"
FLAGS: dict[str, object] = {"padding": "nan", "round_f32_to_tf32": True}
"""Parameters for fields of a descriptor, with the value that sets each. Triton 3.6 has the first one only."""


@dataclass(frozen=True, slots=True)
class Typed:
    """An argument as Triton specialises a kernel to it. name: of its type. attributes: such as divisibility."""

    name: str
    attributes: list[list[object]]

    @property
    def is_constant(self) -> bool:
        """Is it part of the code?"""
        return self.name == CONSTANT


def typed(param: Any, value: Any) -> Typed:
    """The type of an argument. Constants are arguments that are declared so, None, and the number 1."""
    fixed = getattr(param, "annotation_type", "")
    is_one = type(value) is int and value == 1 and not (param.do_not_specialize or fixed)
    if param.is_constexpr or value is None or is_one:
        return Typed(CONSTANT, [])
    if param.do_not_specialize or getattr(param, "do_not_specialize_on_alignment", False):
        return Typed(fixed or _type(param.name, value), [])
    address = host.array_info(value).address if host.is_array(value) else value
    even = (type(address) is int and address % 16 == 0) or address is None
    return Typed(fixed or _type(param.name, value), DIVISIBLE if even else [])


def _type(name: str, value: Any) -> str:
    if _is_descriptor(value):
        return f"tensordesc<{_pointed(name, value.base)}{list(value.block_shape)}>"
    if host.is_array(value):
        return f"*{_pointed(name, value)}"
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, int):
        return "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if value < 1 << 63 else "u64"
    if isinstance(value, float):
        return "fp32"
    raise _unknown(name, value)


def _pointed(name: str, array: Any) -> str:
    element = host.array_info(array).dtype
    if element not in POINTERS:
        raise _unknown(name, array)
    return POINTERS[element]


def _unknown(name: str, value: Any) -> ArgumentError:
    return ArgumentError(
        f"argument {name} has a type that Triton lacks",
        given=described(value),
        allowed="arrays and tensors of the CPU, triton.tools.tensor_descriptor.TensorDescriptor, numbers, None",
    )


def _is_descriptor(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("base", "shape", "strides", "block_shape"))


# The parameters of the PTX


def laid_out(values: Iterable[tuple[str, Any]], maps: Iterable[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """The parameters of the PTX, with the names that reports have for them.

    maps: what Triton says of the tensor map of each descriptor; empty where it makes pointers of descriptors.
    """
    by_map = iter(maps)
    found: list[tuple[str, Any]] = []
    for name, value in values:
        if _is_descriptor(value):
            found += _of_descriptor(name, value, next(by_map, None))
        else:
            found.append((name, value))
    return found


def _of_descriptor(name: str, value: Any, map_: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """A descriptor as a tensor map, or as a pointer with the map's other fields; then its shape and strides."""
    sizes = [(f"{name}.{what}[{k}]", int(size)) for what in ("shape", "strides")
             for k, size in enumerate(getattr(value, what))]  # fmt: skip
    if map_ is not None:
        yield name, host.TensorMap.of(value.base, _fields(name, value, map_))
    else:
        yield name, value.base
        yield from sizes
        for flag, set_by in FLAGS.items():
            if hasattr(value, flag):
                yield f"{name}.{flag}", getattr(value, flag) == set_by
    yield from sizes


def _fields(name: str, value: Any, map_: Mapping[str, Any]) -> MapFields:
    if map_["fp4_padded"] or map_.get("is_im2col"):
        what = "padded elements of 4 bits" if map_["fp4_padded"] else "im2col"
        raise ArgumentError(f"argument {name}: its tensor map", given=what, allowed="boxes of whole bytes")
    kind, element = next((kind, element) for kind, element in ELEMENTS.items() if element.ptx == map_["elem_type"])
    strides = tuple(int(stride) * element.nbytes for stride in value.strides[-2::-1])
    oob = getattr(value, "padding", "zero")
    box = tuple(map_["block_size"][::-1])
    return MapFields(kind, tuple(map(int, value.shape[::-1])), strides, box, map_["swizzle"], (), oob)
