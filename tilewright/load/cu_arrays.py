"""Arrays, numbers and pointers of host code while it is read."""

from __future__ import annotations

import operator
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.load.declared import number_name


class NotSaid(Exception):
    """Something that the text does not say."""


class TooLong(Exception):
    """A loop with more turns than are read."""


class Left(Exception):
    """A turn, a loop or a function ends here: ``break``, ``continue``, ``return``."""

    def __init__(self, how: str, value: Any = None) -> None:
        self.how, self.value = how, value


UNKNOWN = object()
MOST_BYTES = 1 << 26  # of an array whose contents are read
BYTES = np.dtype("V1")  # of room whose elements have no type yet


@dataclass(eq=False)
class HostArray:
    """An array of the host or the device. values: its elements, or its bytes where the text does not say their type.
    is_set: has anything been put there? is_known: is all that has been put there known?
    """

    values: NDArray[Any]
    is_set: bool = False
    is_known: bool = True
    whole: HostArray | None = None  # which it is a part of

    @property
    def root(self) -> HostArray:
        return self if self.whole is None else self.whole.root

    def from_element(self, first: int) -> HostArray:
        if not 0 <= first <= self.values.size or (first and self.values.dtype == BYTES):
            raise NotSaid
        return HostArray(self.values[first:], whole=self)

    def forget(self) -> None:
        self.root.is_known, self.root.is_set = False, True

    def __getitem__(self, place: int) -> Any:
        if not self.root.is_known or not 0 <= place < self.values.size:
            raise NotSaid
        return self.values[place].item()

    def __setitem__(self, place: int, value: Any) -> None:
        if not 0 <= place < self.values.size:
            raise NotSaid
        self.values[place] = as_type(self.values.dtype, value)
        self.root.is_set = True

    def fill(self, octets: NDArray[np.uint8]) -> None:
        """Put bytes to its begin."""
        own_bytes = self.values.view(np.uint8)
        many = min(octets.size, own_bytes.size)
        own_bytes[:many] = octets[:many]
        self.root.is_set = True


class PointerTable(dict[int, Any]):
    """An array of pointers. kind: the dtype that these point to, "" where that is not known."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class HostNames(ChainMap[str, Any]):
    """What names of a function stand for, and those that stand outside of functions, which all share."""

    def __init__(self, shared: MutableMapping[str, Any], outside: frozenset[str]) -> None:
        super().__init__({}, shared)
        self.outside = outside

    def __setitem__(self, name: str, value: Any) -> None:
        inner, shared = self.maps
        is_local = name in inner or name.partition(".")[0] not in self.outside
        (inner if is_local else shared)[name] = value

    def declare(self, name: str) -> None:
        self.maps[0][name] = UNKNOWN

    def parts(self, name: str) -> list[str]:
        """A name, where it is known, and the members of the structure that it is."""
        prefix = f"{name}."
        return [key for names in self.maps for key in names if key == name or key.startswith(prefix)]


@dataclass(frozen=True)
class VariablePlace:
    """A variable of some function, or an element of a table, by its address. kind: its type, in the text's words."""

    names: MutableMapping[Any, Any]
    name: Any
    kind: str = ""

    @property
    def pointee(self) -> str:
        """The dtype that the pointer there points to, "" where the text does not say it."""
        return self.names.kind if isinstance(self.names, PointerTable) else number_name(self.kind.rstrip("*"))

    @property
    def members(self) -> dict[str, Any]:
        """Those of the structure that it is, by their names."""
        prefix = f"{self.name}."
        return {key[len(prefix) :]: part for key, part in self.names.items() if str(key).startswith(prefix)}


def octets(many: int) -> HostArray:
    """So many bytes of which no type is known."""
    if not 0 <= many <= MOST_BYTES:
        raise NotSaid
    return HostArray(np.zeros(int(many), BYTES))


def typed(value: Any, kind: str) -> Any:
    """Room of malloc has elements of the type of the pointer to it."""
    if not isinstance(value, HostArray) or not kind or value.whole is not None or value.values.dtype != BYTES:
        return value
    numpy = dtype(kind).numpy
    whole = value.values[: value.values.size // numpy.itemsize * numpy.itemsize]
    return HostArray(whole.view(numpy), value.is_set, value.is_known)


def as_type(kind: np.dtype[Any], value: Any) -> Any:
    """A number cut to a type, as C++ converts it."""
    if not isinstance(value, (int, float)):
        raise NotSaid
    if kind.kind not in "iu":
        return value
    bits = 8 * kind.itemsize
    whole = int(value) & ((1 << bits) - 1)
    return whole - (1 << bits) if kind.kind == "i" and whole >> (bits - 1) else whole


def combined(act: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Two numbers, or a pointer and how far to go, or one that is held against none."""
    if act in (operator.eq, operator.ne) and None in (left, right):
        return int(act is operator.eq) if left is right else int(act is operator.ne)
    if isinstance(left, HostArray) and isinstance(right, int) and act in (operator.add, operator.sub):
        return left.from_element(right if act is operator.add else -right)
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise NotSaid
    return act(left, right)


def divided(left: Any, right: Any) -> Any:
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    return abs(left) // abs(right) if (left < 0) == (right < 0) else -(abs(left) // abs(right))


def at_place(pointer: Any) -> Any:
    if isinstance(pointer, HostArray):
        return pointer[0]
    if not isinstance(pointer, VariablePlace) or pointer.names.get(pointer.name, UNKNOWN) is UNKNOWN:
        raise NotSaid
    return pointer.names[pointer.name]


def put_at(pointer: Any, value: Any) -> None:
    if isinstance(pointer, HostArray):
        pointer[0] = value
    elif isinstance(pointer, VariablePlace):
        pointer.names[pointer.name] = value
    else:
        raise NotSaid


def grown(array: HostArray, size: int, value: Any = 0) -> NDArray[Any]:
    more = max(0, size - array.values.size)
    filled = np.full(more, as_type(array.values.dtype, value), array.values.dtype)
    return np.concatenate([array.values[:size], filled])


def pushed(array: HostArray, value: Any) -> None:
    """``push_back``: room doubles, so that many are cheap."""
    root = array.root
    size, base = array.values.size, array.values.base
    room = base if isinstance(base, np.ndarray) and base.size > size and base.dtype == array.values.dtype else None
    if room is None:
        room = np.zeros(2 * size + 16, array.values.dtype)
        room[:size] = array.values
    array.values = room[: size + 1]
    root.is_set = True
    array[size] = value


def element_of(array: Any, place: int) -> Any:
    """``a[i]``, and ``p[0]`` of a variable's address."""
    if isinstance(array, PointerTable):
        return at_place(VariablePlace(array, place))
    if isinstance(array, HostArray):
        return array[place]
    raise NotSaid


def place_of(array: Any, place: int) -> Any:
    """``&a[i]``."""
    return VariablePlace(array, place) if isinstance(array, PointerTable) else combined(operator.add, array, place)
