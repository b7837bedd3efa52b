"""Proposed numbers that lie between elements of arrays, far enough apart that rows do not meet.

A caller's strides are as large as what lies between them. Proposed as small as the extents beside them they make rows
overlap: races and places outside of arrays that no caller has. Which numbers are strides the kernel's code says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.cli.argument_spec import ArgumentSpec, ArraySpec, Fill, SaidByOptions, Value
from tilewright.cli.arguments import arguments_of
from tilewright.errors import TilewrightError
from tilewright.load.strides import Place, Strides, differing, strides_of

if TYPE_CHECKING:
    from tilewright.cli.launching import Launched
    from tilewright.load import LoadedKernel

UNITS = (8, 1)  # bytes of an element, or none where there is no room for so many
ROOM = 1 << 24  # elements, or bytes, within which all rows lie


@dataclass(frozen=True)
class _Knob:
    """A proposed number: the value of a name in host code, or an argument, or a field of one, by its ``path``."""

    name: str
    path: tuple[int, ...] | None = None

    def turned(self, options: SaidByOptions, value: int) -> SaidByOptions:
        """The options with this value in its place."""
        if self.path is None:
            return replace(options, sizes={**options.sizes, self.name: value})
        args = (ArgumentSpec(spec.name, _with(spec.value, self.path, value)) if spec.name == self.name else spec
                for spec in options.args)  # fmt: skip
        return replace(options, args=tuple(args))


def _knobs(options: SaidByOptions) -> dict[_Knob, int]:
    """The whole numbers among what is proposed."""
    named = {_Knob(name): value for name, value in options.sizes.items()}
    fields = {_Knob(spec.name, path): number for spec in options.args if spec.name
              for path, number in _numbers(spec.value, ())}  # fmt: skip
    return named | fields


def _numbers(value: Value, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
    if isinstance(value, tuple):
        for at, spec in enumerate(value):
            yield from _numbers(spec.value, (*path, at))
    elif isinstance(number := ArgumentSpec(None, value).number, int):
        yield path, number


def _with(value: Value, path: Sequence[int], number: int) -> Value:
    """The value with a number at a path."""
    if not path:
        return replace(value, fill=Fill("value", (number,))) if isinstance(value, ArraySpec) else number
    assert isinstance(value, tuple)
    at, *inner = path
    spec = ArgumentSpec(value[at].name, _with(value[at].value, inner, number))
    return (*value[:at], spec, *value[at + 1 :])


def spread(
    options: SaidByOptions, kernel: LoadedKernel, launched: Callable[[SaidByOptions], Launched]
) -> SaidByOptions:
    """The options with numbers for a kernel's strides that let no rows meet, and 0 for the indices of small arrays.

    launched: the kernel's launch with such options; raises TilewrightError where there is none.
    """
    strides = strides_of(kernel.entry)
    if not strides.has_numbers:
        return options
    values, launch = _knobs(options), launched(options)
    places = {knob: _moved(kernel, launch, knob.turned(options, 2 * value), launched) & strides.read
              for knob, value in values.items()}  # fmt: skip
    for knob in (knob for knob, moved in places.items() if moved and moved <= strides.indices):
        options = knob.turned(options, 0)
    between = {knob: moved for knob, moved in places.items() if moved and moved <= strides.together.keys()}
    most = max((value for knob, value in values.items() if knob not in between), default=1)
    for knob, value in _apart(between, strides, most, prod(launch.request.block or (1,))).items():
        options = knob.turned(options, value)
    return options


def _moved(
    kernel: LoadedKernel, launch: Launched, turned: SaidByOptions, launched: Callable[[SaidByOptions], Launched]
) -> set[Place]:
    """The numbers of parameters that a knob moves; all of them where the grid depends on it, too."""
    try:
        other = launched(turned)
    except TilewrightError:
        return {Place(-1, 0)}
    if (other.request.grid, other.request.block) != (launch.request.grid, launch.request.block):
        return {Place(-1, 0)}
    return differing(*(kernel.passed(_short(kernel, each)) for each in (launch, other)))


def _short(kernel: LoadedKernel, launch: Launched) -> list[object]:
    """The arguments of a launch, with arrays of one element."""
    args = tuple(spec.resized(lambda _: 1) for spec in launch.request.args)
    return arguments_of(kernel, replace(launch.request, args=args), np.random.default_rng(0))


def _apart(between: Mapping[_Knob, set[Place]], strides: Strides, most: int, threads: int) -> dict[_Knob, int]:
    """Values of strides. Those that lead to the same addresses are each the room of all rows of the one before. most:
    the largest of the other numbers.
    """
    levels = dict[_Knob, int]()
    for knob, places in between.items():
        beside = frozenset[Place]().union(*(strides.together[place] for place in places))
        taken = {level for other, level in levels.items() if between[other] & beside}
        levels[knob] = next(level for level in range(len(taken) + 1) if level not in taken)
    top = max(levels.values(), default=0)
    for rows in (1 << (extent - 1).bit_length() for extent in (max(most, threads), most)):
        for unit in UNITS:
            if unit * rows ** (top + 2) <= ROOM:
                return {knob: unit * rows ** (level + 1) for knob, level in levels.items()}
    return {}
