"""``@T.meta_class``: classes whose instances are values of parse time, and whose fields may be scalars of the kernel.

Reading a field that is a scalar reads the scalar at that point; assigning to it stores. Methods are Python, run while
the kernel is parsed, or ``@T.inline``.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar

from tilewright.errors import KernelError
from tilewright.ir import AddressOf, Assign, Buffer, Expr, Load, Var
from tilewright.lang.builder import KernelBuilder, building, current
from tilewright.lang.public import export
from tilewright.layout.axes import listed

C = TypeVar("C", bound=type)
_DEEPEST = 4  # levels of objects in objects in which a buffer is looked for


def is_meta(value: object) -> bool:
    """Is it a meta class, or an instance of one?"""
    return hasattr(value if isinstance(value, type) else type(value), "__meta_fields__")


def meta_class(cls: C) -> C:
    """A class of parse-time values whose fields hold buffers, scalars of the kernel and Python values."""
    cls.__meta_fields__ = True  # type: ignore[attr-defined]  # the mark of it
    cls.__getattribute__ = _read  # type: ignore[assignment]
    cls.__setattr__ = _assign  # type: ignore[assignment]
    cls.__init_subclass__ = classmethod(_watch)  # type: ignore[assignment, arg-type]
    _watch(cls)
    return cls


def _watch(cls: type, **_: object) -> None:
    if "__init__" in vars(cls):
        cls.__init__ = _keeping(cls.__init__)  # type: ignore[misc]


def _read(self: Any, name: str) -> Any:
    value = object.__getattribute__(self, name)
    builder = building()
    if builder is None or not (isinstance(value, Load) or _varies(builder, value)):
        return value
    return builder.read(replace(value))


def _varies(builder: KernelBuilder, value: object) -> bool:
    """Is it a scalar of the kernel that may be assigned again?"""
    return isinstance(value, Var) and value.name in builder.varying


def _assign(self: Any, name: str, value: object) -> None:
    old = vars(self).get(name)
    builder = building()
    if builder is not None and isinstance(old, Var) and _varies(builder, old):
        if not (isinstance(value, Var) and value.name == old.name):
            new = builder.converted(value, old.dtype, name)  # type: ignore[arg-type]  # it refuses what is no value
            builder.emit(Assign(Var(old.name, old.dtype), new, at=builder.at))
        return
    if builder is None or not isinstance(old, Load) or (isinstance(value, Load) and value.buffer is old.buffer):
        if isinstance(value, Expr) and not isinstance(value, Load) and old is not None:
            raise KernelError(
                f"the field {name} is no scalar of the kernel",
                given=f"{name} = {value}, a value of run time",
                allowed="a scalar, made where the object is",
                hint=f'self.{name} = T.local_scalar("{value.dtype}") in __init__',
            )
        object.__setattr__(self, name, value)
        return
    builder.write(replace(old), value)  # type: ignore[arg-type]  # it refuses what is no value


@cache
def _assigned_later(cls: Any) -> frozenset[str]:
    """The fields that methods of a class assign, `__init__` aside."""
    names: set[str] = set()
    for base in cls.__mro__:
        for name, method in vars(base).items():
            if name != "__init__" and not name.startswith("__meta"):
                names |= _stored(method)
    return frozenset(names)


def _stored(method: object) -> set[str]:
    """The attributes that a method stores to; of an inline one its text says so."""
    if isinstance(method, FunctionType):
        return {str(step.argval) for step in dis.get_instructions(method) if step.opname == "STORE_ATTR"}
    return set(getattr(method, "stored_attributes", ()))


def _scalars_of_its_own(self: Any, builder: KernelBuilder) -> None:
    """Values of run time in fields that methods assign become scalars, which begin as these."""
    later = _assigned_later(type(self))  # type: ignore[arg-type]  # classes hash
    for name, value in [item for item in vars(self).items() if item[0] in later]:
        if _varies(builder, value):
            object.__setattr__(self, name, Var(value.name, value.dtype))  # read where it is used, not here
        elif isinstance(value, Expr) and not isinstance(value, (Load, AddressOf)):
            object.__setattr__(self, name, builder.bind(name, value, mutable=True))


def _keeping(init: Callable[..., None]) -> Callable[..., None]:
    """``init``, followed by a check that every buffer which it made is in a field."""

    @wraps(init)
    def kept(self: Any, *args: object, **kwargs: object) -> None:
        builder = current(f"{type(self).__name__}(...)")
        before = dict(builder.known)
        builder.hints = builder.awaited = ()  # an object's name is that of several things: `name_fields`
        init(self, *args, **kwargs)
        buffers = [buffer for name, buffer in builder.known.items() if name not in before]
        held = {buffer.name for buffer in _buffers(vars(self), _DEEPEST)}
        lost = next((buffer for buffer in buffers if buffer.name not in held), None)
        _scalars_of_its_own(self, builder)
        if lost is not None:
            raise KernelError(
                f"{type(self).__name__} makes a buffer and keeps it in no field",
                given=f"{lost.name}, {lost.dtype} of {listed(lost.shape)}",
                allowed="self.name = the buffer",
            )

    return kept


def name_fields(builder: KernelBuilder, name: str, value: object) -> None:
    """Call the memory that the fields of an object hold by its name and theirs, ``ring_full``, where nothing has named
    it so far; what is the only such memory of an object by the object's name.
    """
    for path, buffer in _nameless(builder, value, _DEEPEST) if builder.nameless else ():
        builder.rename(buffer, "_".join((name, *path)))


def _nameless(builder: KernelBuilder, value: object, depth: int) -> list[tuple[tuple[str, ...], str]]:
    """The buffers of an object that have no name, each with the fields that lead to it."""
    if isinstance(value, Load):
        value = value.buffer
    if isinstance(value, Buffer):
        return [((), value.name)] if value.name in builder.nameless else []
    below = {field: _nameless(builder, part, depth - 1) for field, part in _fields_of(value).items()} if depth else {}
    leading = [(field, inner) for field, inner in below.items() if inner]
    is_alone = len(leading) == 1
    return [(path if is_alone else (field, *path), name) for field, inner in leading for path, name in inner]


def _fields_of(value: object) -> Mapping[str, object]:
    """The fields of an object of parse time; none of anything else."""
    if is_meta(value):
        return vars(value)
    if is_dataclass(value) and not isinstance(value, (type, Expr)):
        return {part.name: getattr(value, part.name) for part in fields(value)}
    return {}


def _buffers(value: object, depth: int) -> Iterator[Buffer]:
    """The buffers that a field leads to, and what they are views of."""
    if isinstance(value, (Load, AddressOf)):
        value = value.buffer
    if isinstance(value, Buffer):
        yield value
        if value.data is not None:
            yield from _buffers(value.data, depth)
    elif depth and isinstance(value, Mapping):
        for part in value.values():
            yield from _buffers(part, depth - 1)
    elif depth and isinstance(value, (tuple, list)):
        for part in value:
            yield from _buffers(part, depth - 1)
    elif depth and not isinstance(value, Expr) and hasattr(value, "__dict__"):
        yield from _buffers(vars(value), depth)


export("Facts and settings", meta_class)
