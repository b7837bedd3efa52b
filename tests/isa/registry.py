"""What oracles are: the meaning of each instruction by the manual, lane by lane, in plain Python, in the file of
its family (`*_oracles.py`). Shares no code with the table.

An oracle gets one warp: bytes of memory, which lanes are active, the modifiers, and the operands as lists over lanes (a
vector register operand as a list of lists, register first). It returns what the instruction writes, as such lists;
memory changes in place. Lanes are called 4g+t, as the manual's figures count them. The oracle of a scalar instruction
gets the modifiers and the bits of one lane's registers, and returns the bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Words = list[int]
Oracle = Callable[..., Any]
Registered = TypeVar("Registered", bound=Oracle)
ORACLES: dict[str, Oracle] = {}
SCALAR_ORACLES: dict[str, Oracle] = {}


@dataclass
class Warp:
    memory: bytearray
    active: list[bool]
    mods: dict[str, Any]

    @property
    def lanes(self) -> list[int]:
        return [lane for lane in range(32) if self.active[lane]]


def oracle(*names: str, of: dict[str, Oracle] = ORACLES) -> Callable[[Registered], Registered]:
    def register(function: Registered) -> Registered:
        of.update(dict.fromkeys(names, function))
        return function

    return register


def scalar(*names: str) -> Callable[[Registered], Registered]:
    return oracle(*(f"ptx.{name}" for name in names), of=SCALAR_ORACLES)
