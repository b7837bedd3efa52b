"""What names mean while a kernel is parsed: its own definitions, block by block, then those of the Python around it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType

from tilewright.errors import KernelError, choices
from tilewright.lang.elsewhere import hint_for
from tilewright.layout.axes import AXES

__all__ = ["Environment", "NameEntry", "around"]

Outer = Callable[[str], object]
"""Finds a name of the Python around a kernel; raises KeyError."""


@dataclass(frozen=True, slots=True)
class NameEntry:
    """What a name stands for. kind says what an assignment to it means:

    scalar (a variable: assign), place (an element of memory: store), and those that stay as they are: let, loop, scope,
    parameter, buffer, python.
    """

    value: object
    kind: str


@dataclass(slots=True)
class Environment:
    """Names by block, innermost last; mutable. ``ended`` remembers where names of finished blocks were defined."""

    outer: Outer
    frames: list[dict[str, NameEntry]] = field(default_factory=lambda: [{}])
    ended: dict[str, int] = field(default_factory=dict)

    def define(self, name: str, value: object, kind: str) -> None:
        self.frames[-1][name] = NameEntry(value, kind)

    def find(self, name: str) -> NameEntry | None:
        """The kernel's own definition of a name, the innermost one."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        return None

    def is_outside(self, name: str) -> bool:
        """Is the name defined by the kernel, but in a block around the current one?"""
        return name not in self.frames[-1] and any(name in frame for frame in self.frames)

    def leave(self, line: int) -> None:
        """Forget the innermost block, which began at ``line``."""
        self.ended.update(dict.fromkeys(self.frames.pop(), line))

    def lookup(self, name: str) -> object:
        """The value of a name. Raises KernelError with the nearest one where there is none."""
        entry = self.find(name)
        if entry is not None:
            return entry.value
        try:
            return self.outer(name)
        except KeyError:
            pass
        known = [known for frame in self.frames for known in frame]
        if name in self.ended:
            hint = f"it was defined in a block that has ended (line {self.ended[name]}): define it before that block"
            raise KernelError(f"{name} is not defined here", hint=hint)
        from difflib import get_close_matches  # slow to import, and only errors need it

        axis = next(iter(get_close_matches(name, AXES, n=1)), None)
        raise KernelError(
            f"{name} is not defined",
            given=name,
            allowed=choices(name, known) if known else None,
            hint=hint_for(name) or (f"from tilewright.layout import {axis}" if axis else None),
        )


def around(function: FunctionType, frame: Mapping[str, object]) -> Outer:
    """The names that ``function`` sees: its closure, its globals, the locals of the frame that defines it, builtins.

    The frame is for names that only annotations mention: Python puts those into no closure.
    """
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    spaces = (function.__globals__, frame, vars(builtins))

    def find(name: str) -> object:
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:  # a closure cell that is still empty
                raise KeyError(name) from None
        for space in spaces:
            if name in space:
                return space[name]
        raise KeyError(name)

    return find
