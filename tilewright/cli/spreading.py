"""Proposed numbers that lie between elements of arrays, far enough apart that rows do not meet.

A caller's strides are as large as what lies between them. Proposed as small as the extents beside them they make rows
overlap: races and places outside of arrays that no caller has. Which numbers are strides the kernel's code says.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.cli.argument_spec import ArgumentSpec, ArraySpec, Fill, SaidByOptions, Value
from tilewright.cli.arguments import arguments_of
from tilewright.errors import TilewrightError
from tilewright.load.strides import ParameterPlace, Strides, numbers_passed, strides_of

if TYPE_CHECKING:
    from tilewright.cli.launching import Launched
    from tilewright.load import LoadedKernel

FEW_ROWS = 31  # and fewer, where there is no room for more
UNITS = (8, 1)  # bytes of an element, or none where there is no room for so many
ROOM = 1 << 24  # elements, or bytes, within which all rows lie
PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
PARTS = (1, 2, 4, 8, 16)  # of bytes that are counted as elements


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
    options: SaidByOptions,
    kernel: LoadedKernel,
    launched: Callable[[SaidByOptions], Launched],
    kept: Container[str],
    shared: Container[str] = (),
) -> SaidByOptions:
    """The options with numbers for a kernel's strides that let no rows meet, and 1 for the indices of small arrays.

    launched: the kernel's launch with such options; raises TilewrightError where there is none. kept: names of host
    code that decide on the extents of the launch. shared: those of them that decide on its shared memory alone.
    """
    strides, values = strides_of(kernel.entry), _knobs(options)
    places = _places(values, options, kernel, launched, kept) if strides.has_numbers else {}
    read = {knob: moved & strides.read for knob, moved in places.items()}
    for knob in (knob for knob, moved in read.items() if moved and moved <= strides.indices):
        options = knob.turned(options, 1)
    between = {knob: moved for knob, moved in read.items() if moved and moved <= strides.together.keys()}
    most = max((value for knob, value in values.items() if knob not in between and knob.name not in shared),
               default=1)  # fmt: skip
    request = launched(options).request if between else None
    threads, ctas = (prod(request.block or (1,)), max(request.grid or (1,))) if request is not None else (1, 1)
    passed = (value for knob, value in values.items() if knob not in between and read.get(knob))
    for knob, value in _apart(between, strides, most, threads, max(ctas, *passed, 1)).items():
        options = knob.turned(options, value)
    return options


def _places(
    values: Mapping[_Knob, int], options: SaidByOptions, kernel: LoadedKernel,
    launched: Callable[[SaidByOptions], Launched], kept: Container[str],
) -> dict[_Knob, set[ParameterPlace]]:  # fmt: skip
    """Which numbers of parameters have the value of a knob, or a part of it: each is turned by a prime of its own."""
    free = (knob for knob, value in values.items() if value and knob.name not in kept)
    turned = {knob: values[knob] * prime for knob, prime in zip(free, PRIMES, strict=False)}
    for knob, value in turned.items():
        options = knob.turned(options, value)
    try:
        numbers = numbers_passed(kernel.passed(_short(kernel, launched(options))))
    except TilewrightError:
        return {}
    return {knob: {place for place, number in numbers.items() if value in [number * part for part in PARTS]}
            for knob, value in turned.items()}  # fmt: skip


def _short(kernel: LoadedKernel, launch: Launched) -> list[object]:
    """The arguments of a launch, with arrays of one element."""
    args = tuple(spec.resized(lambda _: 1) for spec in launch.request.args)
    return arguments_of(kernel, replace(launch.request, args=args), np.random.default_rng(0))


def _apart(
    between: Mapping[_Knob, set[ParameterPlace]], strides: Strides, most: int, threads: int, turns: int
) -> dict[_Knob, int]:
    """Values of strides. Those that lead to the same addresses are each the room of all rows of the one before: of as
    many as the largest of the other numbers, ``most``, else as there are CTAs along an axis, or turns of a loop.
    """
    levels = dict[_Knob, int]()
    for knob, places in between.items():
        beside = frozenset[ParameterPlace]().union(*(strides.together[place] for place in places))
        taken = {level for other, level in levels.items() if between[other] & beside}
        levels[knob] = next(level for level in range(len(taken) + 1) if level not in taken)
    top = max(levels.values(), default=0)
    rooms = [1 << (extent - 1).bit_length() for extent in (max(most, threads), most)]
    few = 1 << max(FEW_ROWS, turns - 1).bit_length()
    for unit in UNITS:
        for room, rows in (*zip(rooms, rooms, strict=True), *((room, few) for room in rooms)):
            if unit * room * rows ** (top + 1) <= ROOM:
                return {knob: unit * room * rows**level for knob, level in levels.items()}
    return {}
