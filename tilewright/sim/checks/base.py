"""What a check is: a name, and what it does at each event of a run.

Some are always on, since a machine that cannot go on has to report it; their rows here give them a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from tilewright.errors import ArgumentError, choices, described
from tilewright.sim.machine import Events, Ints, Subject

CHECKS: dict[str, str] = {}
"""What each check finds, by its name."""

_CLASSES: dict[str, tuple[type[Check], ...]] = {}
Heard: TypeAlias = Callable[..., object]
"""What looks at values of one kind, made for a place of a kernel; None where that place needs no look."""
_VALUES: dict[str, tuple[str, Heard]] = {}  # by the kind of values, the check that hears of them; "" for always
DEFAULT = ("bounds", "alignment", "deadlock")


class Check(Events):
    """A check of one program: it looks at accesses and events of the program's runs."""

    def __init__(self, program: Subject) -> None:
        self.program = program
        self.doubtful = False  # may threads that waited in this run deadlock in another run?
        self.strong: dict[int, Ints] = {}  # by the wave's first CTA, how many strong accesses each thread has made


def register(name: str, finds: str, *parts: type[Check]) -> None:
    """Add a row to `CHECKS`, with the classes that carry the check out, if it has any."""
    CHECKS[name] = finds
    _CLASSES[name] = parts


def hear(check: str, **values: Heard) -> None:
    """Have a check look at values, by their kinds: a use, the operands of an operation, an index and the like."""
    _VALUES.update((kind, (check, maker)) for kind, maker in values.items())


def checks_of(names: Iterable[str], program: Subject) -> list[Check]:
    """The parts of the checks with these names, made for a program."""
    return [part(program) for name in sorted(names) for part in _CLASSES[name]]


def values_of(names: Iterable[str]) -> dict[str, Heard]:
    """What the checks with these names look at, and those that are always on."""
    return {kind: maker for kind, (name, maker) in _VALUES.items() if name in ("", *names)}


def parse_checks(wanted: str | Iterable[str]) -> frozenset[str]:
    """The checks that are meant: "all", "none", "default", names with commas between them, or several names.

    >>> sorted(parse_checks("default"))
    ['alignment', 'bounds', 'deadlock']

    Raises ArgumentError with the choices for a name that is none.
    """
    several = isinstance(wanted, Iterable) and not isinstance(wanted, str | np.ndarray)
    every: list[object] = [*wanted] if several else [wanted]
    if odd := [name for name in every if not isinstance(name, str)]:
        raise ArgumentError(
            "a check is a name", given=described(odd[0]), allowed=choices("", ("all", "none", "default", *CHECKS))
        )
    names = wanted.split(",") if isinstance(wanted, str) else [str(name) for name in every]
    chosen: set[str] = set()
    groups = {"all": tuple(CHECKS), "none": (), "default": DEFAULT}
    for name in (name.strip() for name in names):
        if name not in groups and name not in CHECKS:
            raise ArgumentError(f"unknown check {name!r}", given=repr(name), allowed=choices(name, (*groups, *CHECKS)))
        chosen.update(groups.get(name, (name,)))
    return frozenset(chosen)
