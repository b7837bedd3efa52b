"""Arguments that neither host code nor the command line has, proposed: sizes, and arrays as long as the kernel reaches.

An array has the length that runs with more room than enough show, which look at bounds alone. A size that host code
rounds up to whole CTAs is no multiple of their threads; arrays then have the part of their length that the size has of
the multiple with which their reach was looked at. So a proposal leads to no access outside of an array, but where
the kernel lacks the guard that such a size needs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.argument_spec import FILLS, ZEROS, ArgumentSpec, ArraySpec, Fill, argument_spec, numbers
from tilewright.cli.arguments import Request, arguments_of, kernel_of
from tilewright.cli.launching import INTEGERS, Lacks, Launched, check_sizes, launches_said
from tilewright.cli.options import constants
from tilewright.errors import TilewrightError
from tilewright.host import Limits
from tilewright.inputs import parse_sizes
from tilewright.load import LoadedModule
from tilewright.load.reach import MemoryReach
from tilewright.small import coverage_of
from tilewright.trials import named_arrays

if TYPE_CHECKING:
    from tilewright.load.cu_numbers import Number

ROUNDS = 3  # of proposals: what is known of some arguments may let others be asked for
ROOMS = (1 << 20, 1 << 24)  # elements of an array whose reach is looked at, the more where fewer are not enough
MANY = 1024  # times a size, by which the CTAs of a launch grow that depend on it
SIDES = (32, 128, 256, 16, 512)  # of all sizes, where a launch with the first ones fails
NUMBERS = (FILLS["zeros"], FILLS["ramp"])  # of arrays of integers: alike, or all different
SECONDS, LEAST = 4.0, 16  # of a run with larger sizes, and the least that sizes become
MOST_SIZE = 1 << 14  # of a size that is made a multiple of the threads of a CTA
ODD, ODD_VECTORS = 3, 16  # how much less than a multiple a size is; where the kernels have vectors
_VECTORS = re.compile(r"\b(?:u?(?:char|short|int|long)[248]|float[24]|double2|(?:__)?half2|\w*bfloat162)\b|/\s*[48]\b")


@dataclass(frozen=True)
class _Options:
    """Options of a command line that say what host code does not."""

    args: tuple[ArgumentSpec, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    launch: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Iterable[str]) -> _Options:
        words = shlex.split(" ".join(options))
        pairs = [*zip(words[::2], words[1::2], strict=True)]
        sizes = parse_sizes(constants([text for word, text in pairs if word == "--size"]))
        return cls(tuple(argument_spec(text) for word, text in pairs if word == "--arg"), sizes,
                   {word[2:]: numbers(text) for word, text in pairs if word in ("--grid", "--block")})  # fmt: skip

    def joined(self, other: _Options) -> _Options:
        return _Options((*self.args, *other.args), {**self.sizes, **other.sizes}, {**self.launch, **other.launch})


@dataclass(frozen=True)
class _Proposals:
    """The launches of a file with what is proposed for them. of_grid: names that their CTAs depend on. has_smaller: are
    there smaller sizes, where runs with these take long?
    """

    module: LoadedModule
    request: Request
    file: Path
    sizes: Mapping[str, Number]
    options: _Options
    of_grid: frozenset[str] = frozenset()
    has_smaller: bool = True

    @property
    def has_vectors(self) -> bool:
        return any(map(_VECTORS.search, self.module.texts))

    def launches(self, **sizes: int) -> tuple[list[Launched], Lacks]:
        """The launches, with other sizes than the proposed ones, too."""
        request = replace(self.request, args=(*self.request.args, *self.options.args), **self.options.launch)
        return launches_said(self.module, request, self.file, {**self.sizes, **self.options.sizes, **sizes})

    def grids(self, **sizes: int) -> list[Sequence[int]]:
        """The CTAs of the launches; none where a GPU would refuse one."""
        try:
            return [launch.request.grid for launch in self.launches(**sizes)[0]]
        except TilewrightError:
            return []

    def possible(self) -> _Proposals:
        """The same with sizes for which no launch fails, if there are some."""
        for side in (0, *SIDES):
            sizes = dict.fromkeys(self.options.sizes, side) if side else self.options.sizes
            other = replace(self, options=replace(self.options, sizes=sizes))
            try:
                other.launches()
            except TilewrightError:
                continue
            return other
        return self

    def smaller(self) -> _Proposals:
        """The same with smaller sizes, and ranges of fewer elements."""
        sizes = {name: max(size // 4, min(size, LEAST)) for name, size in self.options.sizes.items()}
        args = (spec.filled(_quartered) for spec in self.options.args)
        options = replace(self.options, sizes=sizes, args=tuple(args))
        return replace(self, options=options, has_smaller=options != self.options).possible()

    def names_of(self, launch: Launched) -> set[str]:
        """The parameters of a launch that are proposed."""
        proposed = {spec.name for spec in self.options.args}
        names = (spec.name for spec in launch.request.args if spec.name)
        return {name for name in names if name in proposed or launch.around.words.get(name, "") in proposed}

    def rounded(self) -> dict[str, int]:
        """The sizes that host code rounds up to whole CTAs, with multiples of their threads."""
        sizes = {name: size for name, size in self.options.sizes.items()
                 if name in self.of_grid and not _is_divided(name, self.module.texts)}  # fmt: skip
        multiples = {name: self._multiple(name, size) for name, size in sizes.items()}
        return {name: multiple for name, multiple in multiples.items() if multiple}

    def _multiple(self, name: str, size: int) -> int:
        """A number from ``size`` on with which one more takes more CTAs, where a CTA has a thread for each, or for a
        few; 0 of any other size, as that of a tile, whose kernels are rarely meant for a part of one.
        """
        here = self.launches()[0]
        if [launch.request.grid for launch in here] == self.grids(**{name: size * MANY}):
            return 0
        blocks = {tuple(launch.request.block or ()) for launch in here}
        threads = sorted({*map(prod, blocks), *(extent for block in blocks for extent in block)} - {1})
        vectors = (1, 2, 4, 8) if self.has_vectors else (1,)
        for width in dict.fromkeys(vector * many for vector in vectors for many in threads):
            multiple = 2 * width if size <= width else -(-size // width) * width
            if multiple > MOST_SIZE:
                break
            before, least, whole, more = (self.grids(**{name: multiple + step}) for step in (-width, 1 - width, 0, 1))
            if before != least == whole != more:
                return multiple
        return 0


def _quartered(fill: Fill) -> Fill:
    """A fill that says where ranges begin, with a quarter of the elements in each; any other fill itself."""
    return replace(fill, numbers=(max(int(fill.numbers[0]) // 4, LEAST),)) if fill.how == "steps" else fill


def _is_divided(name: str, texts: Sequence[str]) -> bool:
    """Do texts ask whether a size is a multiple of something?"""
    asks = re.compile(rf"(?<![\w.]){re.escape(name)}\s*\)?\s*%\s*\w+\s*\)?\s*[!=]=\s*0|!\s*\(\s*{re.escape(name)}\s*%")
    return any(asks.search(text) for text in texts)


def with_proposals(module: LoadedModule, request: Request, file: Path, sizes: Mapping[str, Number]) -> list[Launched]:
    """The launches of a file, as `as_launched` has them; what is lacking is proposed, and the launches say so.

    Raises ArgumentError where nothing can be proposed.
    """
    check_sizes(module, file, sizes)
    launches, lacks = launches_said(module, request, file, sizes)
    asked, proposals = lacks, _Proposals(module, request, file, sizes, _Options())
    for _ in range(ROUNDS):
        if not lacks.what:
            break
        options = proposals.options.joined(_Options.of(lacks.proposed()))
        proposals = replace(proposals, options=options, of_grid=proposals.of_grid | lacks.of_grid).possible()
        launches, lacks = proposals.launches()
    else:
        if lacks.what:
            asked.check(file)
    return _in_time(proposals) if asked.what else launches


class _TakesLong(Exception):
    """A run with the proposed sizes takes longer than it may."""


def _in_time(proposals: _Proposals) -> list[Launched]:
    try:
        return _reaching(proposals)
    except _TakesLong:
        return _in_time(proposals.smaller())


def _reaching(proposals: _Proposals) -> list[Launched]:
    """The launches with arrays as long as they reach, and numbers in them that reach most of the code."""
    multiples = proposals.rounded()
    by = ODD_VECTORS if proposals.has_vectors else ODD
    odd = {name: size - by for name, size in multiples.items()}
    chosen, whole = proposals.launches(**odd)[0], proposals.launches(**multiples)[0]
    grown = {name: proposals.launches(**{**multiples, name: 2 * size})[0] for name, size in multiples.items()}
    ways = list[Launched]()
    for number, launch in enumerate(chosen):
        others = {name: launches[number] for name, launches in grown.items()}
        sized = [_Sized(proposals, fill, multiples, odd, whole[number], others, launch) for fill in NUMBERS]
        sized = sized if sized[0].launch.request.args != sized[1].launch.request.args else sized[:1]
        best, *rest = sorted((way.proposed() for way in sized), key=lambda way: -way.coverage.get("reached", 0))
        ways.append(replace(best, instead=next(iter(rest), None)))
    return ways


@dataclass(frozen=True)
class _Look:
    """What a run shows: how many elements of arrays it reaches, and blocks of code."""

    reach: Mapping[str, int]
    coverage: Mapping[str, Any]


@dataclass(frozen=True)
class _Sized:
    """A launch whose arrays are to be as long as it reaches. fill: of proposed arrays of integers that are only read.
    multiples, odd: sizes that host code rounds up. whole, grown: the launch with those, and with twice each.
    """

    proposals: _Proposals
    fill: Fill
    multiples: Mapping[str, int]
    odd: Mapping[str, int]
    whole: Launched
    grown: Mapping[str, Launched]
    chosen: Launched

    @property
    def launch(self) -> Launched:
        return self._filled(self.chosen)

    def proposed(self) -> Launched:
        """The launch with such arrays, which says what of it is proposed."""
        look = self._look(self.launch)
        lengths = self._lengths(look.reach) if self.multiples else look.reach
        names = {*lengths, *(spec.name for spec in self.proposals.options.args)}
        request = self.launch.request
        request = replace(request, args=tuple(_resized(spec, lengths) for spec in request.args))
        arrays = [f"--arg {shlex.quote(str(spec))}" for spec in request.args if spec.name in names]
        sizes = {**self.proposals.options.sizes, **self.odd}
        told = [f"--size {shlex.quote(f'{name}={size}')}" for name, size in sizes.items()]
        return replace(self.launch, request=request, coverage=look.coverage, proposed=(*told, *arrays))

    def _lengths(self, at_odd: Mapping[str, int]) -> dict[str, int]:
        """The lengths of arrays, in the proportion of a size to its multiple where they grow with it."""
        reaches = self._look(self._filled(self.whole)).reach
        grown = {name: self._look(self._filled(launch)).reach for name, launch in self.grown.items()}
        lengths = dict(at_odd)
        for name, reach in reaches.items():
            factors = {size: grown[size].get(name, 0) / reach for size in self.multiples}
            if all(factor == 1 or (factor == 2 and not reach % self.multiples[size])
                   for size, factor in factors.items()):  # fmt: skip
                for size in (size for size, factor in factors.items() if factor == 2):
                    reach = reach * self.odd[size] // self.multiples[size]
                lengths[name] = reach
        return lengths

    def _filled(self, launch: Launched) -> Launched:
        kernel, proposed = kernel_of(self.proposals.module, launch.request), self.proposals.names_of(launch)
        read = {param.name for param in kernel.written if param.name in proposed and param.element in INTEGERS
                and "const" in param.type.partition("*")[0]}  # fmt: skip
        args = (spec.filled(lambda fill: self.fill if fill == ZEROS else fill) if spec.name in read else spec
                for spec in launch.request.args)  # fmt: skip
        return replace(launch, request=replace(launch.request, args=tuple(args)))

    def _look(self, launch: Launched) -> _Look:
        looks = (self._look_within(launch, room) for room in ROOMS)
        return next((look for look in looks if look is not None), _Look({}, {}))

    def _look_within(self, launch: Launched, room: int) -> _Look | None:
        """What a run with arrays of so many elements shows; None where these are too few."""
        kernel, proposed = kernel_of(self.proposals.module, launch.request), self.proposals.names_of(launch)
        request = replace(launch.request, args=tuple(spec.resized(_with_room(room)) for spec in launch.request.args))
        values = arguments_of(kernel, request, np.random.default_rng(request.seed))
        arrays = named_arrays(kernel, dict(zip(kernel.parameters, values, strict=True)))
        asked = {name: array for name, array in arrays.items() if name.partition(".")[0] in proposed
                 and isinstance(array, np.ndarray) and array.size == room}  # fmt: skip
        reach = MemoryReach("global")
        limits = Limits(SECONDS if self.proposals.has_smaller else None)
        try:
            coverage = coverage_of((kernel, values, request.launch), reach.subscribe, limits)
        except (TilewrightError, MemoryError) as error:
            if getattr(error, "kind", "") == "limit" and self.proposals.has_smaller:
                raise _TakesLong from None
            return None
        lengths = {name: max(1, -(-reach.ends.get(name, 0) // array.itemsize)) for name, array in asked.items()}
        return _Look(lengths, coverage.as_data)


def _resized(spec: ArgumentSpec, lengths: Mapping[str, int]) -> ArgumentSpec:
    """An argument with arrays of these lengths: those of a structure are ``g.0``, ``g.1``, in their order."""
    if not isinstance(spec.value, tuple):
        return spec.resized(lambda _: lengths.get(spec.name or ""))
    every = iter([length for place, length in lengths.items() if place.partition(".")[0] == spec.name])
    return spec.resized(lambda _: next(every, None))


def _with_room(room: int) -> Callable[[ArraySpec], int | None]:
    """The length of an array of which nobody has said the elements one by one."""
    return lambda array: None if array.fill.how == "list" else room
