"""Functions of C, C++ and CUDA, by what they do to the arrays and numbers of host code that is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from tilewright.dtypes import dtype
from tilewright.load.cu_allocations import ALLOCATES
from tilewright.load.cu_arrays import HostArray, NotSaid, VariablePlace, as_type, at_place, grown, octets, pushed, typed
from tilewright.load.declared import number_name

LARGEST = 2**31 - 1  # of rand()
_COPIES = ("cudaMemcpy", "cudaMemcpyAsync", "memcpy", "cuMemcpyHtoD")
_FILLS = ("cudaMemset", "cudaMemsetAsync", "memset")


def _allocate(random: Random, place: Any, nbytes: Any) -> None:
    """Room on the device for a pointer at a place."""
    if not isinstance(place, VariablePlace):
        raise NotSaid
    value = place.names.get(place.name)
    target = value if isinstance(value, VariablePlace) else place  # ``T** p``
    target.names[target.name] = typed(octets(nbytes), target.pointee)


def _copy(random: Random, target: Any, source: Any, nbytes: Any) -> None:
    """``cudaMemcpy``: of an array, or of a number by its address."""
    if isinstance(source, VariablePlace):
        if not (kind := number_name(source.kind)):
            raise NotSaid
        number = as_type(dtype(kind).numpy, at_place(source))
        source = HostArray(np.array([number], dtype(kind).numpy), is_set=True)
    if not isinstance(target, HostArray) or not isinstance(source, HostArray):
        raise NotSaid
    if not source.root.is_known or not source.root.is_set:
        target.forget()
    target.fill(source.values.view(np.uint8)[: int(nbytes)])


def _fill_bytes(random: Random, target: Any, value: Any, nbytes: Any) -> None:
    if not isinstance(target, HostArray):
        raise NotSaid
    target.fill(np.full(min(int(nbytes), target.values.nbytes), int(value) & 0xFF, np.uint8))


def _filled(random: Random, begin: Any, end: Any, value: Any) -> None:
    """``std::fill`` and ``std::fill_n``: up to an iterator, or so many."""
    if not isinstance(begin, HostArray):
        raise NotSaid
    many = end if isinstance(end, int) else begin.values.size - end.values.size
    begin.values[:many] = as_type(begin.values.dtype, value)
    begin.root.is_set = True


def _numbered(random: Random, begin: Any, end: Any, value: Any) -> None:
    """``std::iota``."""
    if not isinstance(begin, HostArray):
        raise NotSaid
    begin.values[:] = np.arange(begin.values.size) + value
    begin.root.is_set = True


METHODS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("data", "begin", "get"), lambda array: array),
    "end": lambda array: array.from_element(array.values.size),
    "size": lambda array: array.values.size,
    **dict.fromkeys(("push_back", "emplace_back"), pushed),
    "resize": grown,
    "assign": lambda array, size, value: grown(HostArray(array.values[:0]), size, value),
    "reserve": lambda array, size: None,
    "clear": lambda array: array.values[:0].copy(),
    "back": lambda array: array[array.values.size - 1],
    "at": lambda array, place: array[place],
}
_OF_ONE: Sequence[Callable[[Any], Any]] = (
    math.sqrt,
    math.sin,
    math.cos,
    math.exp,
    math.log,
    math.floor,
    math.ceil,
    abs,
)
_Function = tuple[int, Callable[..., Any]]  # how many of its arguments are read, and what it does with them
FUNCTIONS: Mapping[str, _Function] = {
    **dict.fromkeys(ALLOCATES, (2, _allocate)),
    **dict.fromkeys(_COPIES, (3, _copy)),
    **dict.fromkeys(_FILLS, (3, _fill_bytes)),
    "malloc": (1, lambda random, nbytes: octets(nbytes)),
    "calloc": (2, lambda random, many, nbytes: octets(many * nbytes)),
    **dict.fromkeys(("std::fill", "fill_n"), (3, _filled)),
    "iota": (3, _numbered),
    **dict.fromkeys(("rand", "random", "lrand48"), (0, lambda random: random.randint(0, LARGEST))),
    "drand48": (0, lambda random: random.random()),
    **{name: (2, lambda random, a, b, act=act: act(a, b))
       for name, act in {"min": min, "max": max, "pow": math.pow}.items()},
    **{name: (1, lambda random, a, act=act: act(a)) for act in _OF_ONE
       for name in (act.__name__, f"{act.__name__}f", f"f{act.__name__}")},
    "raw_pointer_cast": (1, lambda random, array: array),
}  # fmt: skip
