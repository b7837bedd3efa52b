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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.argument_spec import ArgumentSpec, ArraySpec, Fill, argument_spec, numbers
from tilewright.cli.arguments import Request, arguments_of, kernel_of
from tilewright.cli.launching import Lacks, Launched, check_sizes, launches_said
from tilewright.cli.options import constants
from tilewright.errors import TilewrightError
from tilewright.inputs import parse_sizes
from tilewright.load import LoadedModule
from tilewright.sim.machine.device import Events
from tilewright.trials import named_arrays

if TYPE_CHECKING:
    from tilewright.load.cu_numbers import Number
    from tilewright.sim import Program
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch, Mask
    from tilewright.sim.machine.sites import Hook, Site

ROUNDS = 3  # of proposals: what is known of some arguments may let others be asked for
ROOMS = (1 << 20, 1 << 24)  # elements of an array whose reach is looked at, the more where fewer are not enough
FACTORS = (2, 4, 16, 64, 256, 1024)  # of a size, by which the CTAs of a launch grow with it
MOST_SIZE = 1 << 14  # of a size that is made a multiple of the threads of a CTA
LONG = Fill("steps", (100,))  # elements of a range: those of three warps, and four more
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
    """The launches of a file with what is proposed for them. of_block: sizes that the threads of a CTA depend on.
    ranges: arrays that hold where ranges begin.
    """

    module: LoadedModule
    request: Request
    file: Path
    sizes: Mapping[str, Number]
    options: _Options
    of_block: frozenset[str] = frozenset()
    ranges: frozenset[str] = frozenset()

    def joined(self, lacks: Lacks) -> _Proposals:
        """With what is proposed for more that lacks."""
        options = self.options.joined(_Options.of(lacks.proposed()))
        return replace(
            self, options=options, of_block=self.of_block | lacks.of_block, ranges=self.ranges | lacks.ranges
        )

    def with_long_ranges(self) -> _Proposals:
        """With ranges that keep several warps busy; by themselves they have one element each."""
        args = [spec.filled(lambda _: LONG) if spec.name in self.ranges else spec for spec in self.options.args]
        return replace(self, options=replace(self.options, args=tuple(args)))

    def launches(self, **sizes: int) -> tuple[list[Launched], Lacks]:
        """The launches, with other sizes than the proposed ones, too."""
        request = replace(self.request, args=(*self.request.args, *self.options.args), **self.options.launch)
        return launches_said(self.module, request, self.file, {**self.sizes, **self.options.sizes, **sizes})

    def grids(self, **sizes: int) -> list[Sequence[int]]:
        """The CTAs of the launches; none where one is too large for any GPU."""
        try:
            return [launch.request.grid for launch in self.launches(**sizes)[0]]
        except TilewrightError:
            return []

    def rounded(self) -> dict[str, int]:
        """The sizes that host code rounds up to whole CTAs, with multiples of their threads."""
        multiples = dict[str, int]()
        for name, size in self.options.sizes.items():
            is_free = name not in self.of_block and not _is_divided(name, self.module.texts)
            if is_free and (multiple := self._multiple(name, size)):
                multiples[name] = multiple
        return multiples

    def _multiple(self, name: str, size: int) -> int | None:
        """A number from ``size`` on with which one more takes more CTAs; None where the same holds of all sizes, or
        of none.
        """
        here = self.grids(**{name: size})
        above = next((size * factor for factor in FACTORS if self.grids(**{name: size * factor}) != here), 0)
        if not above or above > MOST_SIZE:
            return None
        low, high = size, above  # the grid of low is that here, that of high another
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.grids(**{name: middle}) == here else (low, middle)
        doubled = 2 * low
        is_multiple = self.grids(**{name: doubled}) != self.grids(**{name: doubled + 1})
        return (doubled if is_multiple else low) if self.grids(**{name: low - 1}) == here else None


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
    if not lacks.what:
        return launches
    asked, proposals = lacks, _Proposals(module, request, file, sizes, _Options())
    for _ in range(ROUNDS):
        if lacks.what:
            proposals = proposals.joined(lacks)
            lacks = proposals.launches()[1]
    if lacks.what:
        asked.check(file)
    for ways in (proposals.with_long_ranges(), proposals):
        rooms = _Rooms(ways)
        launches = _reaching(ways, rooms)
        if rooms.are_enough:
            break
    return launches


def _reaching(proposals: _Proposals, rooms: _Rooms) -> list[Launched]:
    """The launches with arrays as long as they reach."""
    multiples = proposals.rounded()
    by = ODD_VECTORS if any(map(_VECTORS.search, proposals.module.texts)) else ODD
    odd = {name: size - by for name, size in multiples.items()}
    reaches = rooms.reaches(multiples)
    grown = {name: rooms.reaches({**multiples, name: 2 * size}) for name, size in multiples.items()}
    chosen = proposals.launches(**odd)[0]
    at_odd = rooms.reaches(odd) if odd else reaches
    sized = list[Launched]()
    for number, launch in enumerate(chosen):
        lengths = dict[str, int]()
        for name, reach in reaches[number].items():
            factors = {size: grown[size][number].get(name, 0) / reach for size in multiples if reach}
            if all(factor in (1, 2) for factor in factors.values()):
                for size, factor in factors.items():
                    reach = reach * odd[size] // multiples[size] if factor == 2 else reach
            else:
                reach = max(reach, at_odd[number].get(name, 0))
            lengths[name] = max(reach, 1)
        sized.append(_with_lengths(launch, lengths, {**proposals.options.sizes, **odd}, proposals.options.args))
    return sized


def _with_lengths(
    launch: Launched, lengths: Mapping[str, int], sizes: Mapping[str, int], args: Sequence[ArgumentSpec]
) -> Launched:
    """A launch whose arrays have other lengths, which says what of it is proposed."""
    names = {*lengths, *(spec.name for spec in args)}
    request = replace(launch.request, args=tuple(_resized(spec, lengths) for spec in launch.request.args))
    arrays = [f"--arg {shlex.quote(str(spec))}" for spec in request.args if spec.name in names]
    said = [f"--size {shlex.quote(f'{name}={size}')}" for name, size in sizes.items()]
    return replace(launch, request=request, proposed=(*said, *arrays))


def _resized(spec: ArgumentSpec, lengths: Mapping[str, int]) -> ArgumentSpec:
    """An argument with arrays of these lengths: those of a structure are ``g.0``, ``g.1``, in their order."""
    if not isinstance(spec.value, tuple):
        return spec.resized(lambda _: lengths.get(spec.name or ""))
    every = iter([length for place, length in lengths.items() if place.partition(".")[0] == spec.name])
    return spec.resized(lambda _: next(every, None))


class _Rooms:
    """Looks how far the proposed arrays of launches are reached. are_enough: has no run left what it has?"""

    def __init__(self, proposals: _Proposals) -> None:
        self.proposals = proposals
        self.are_enough = True
        self.names = {spec.name for spec in proposals.options.args}

    def reaches(self, sizes: Mapping[str, int]) -> list[dict[str, int]]:
        """By launches and names of arrays: how many elements the kernels reach with these sizes."""
        return [self._reach(launch) for launch in self.proposals.launches(**sizes)[0]]

    def _reach(self, launch: Launched) -> dict[str, int]:
        for room in ROOMS:
            if (reach := self._reach_within(launch, room)) is not None:
                return reach
        self.are_enough = False
        return {}

    def _reach_within(self, launch: Launched, room: int) -> dict[str, int] | None:
        """The reach of arrays of so many elements; None where these are too few."""
        kernel = kernel_of(self.proposals.module, launch.request)
        request = replace(launch.request, args=tuple(spec.resized(_with_room(room)) for spec in launch.request.args))
        values = arguments_of(kernel, request, np.random.default_rng(request.seed))
        arrays = named_arrays(kernel, dict(zip(kernel.parameters, values, strict=True)))
        proposed = {spec.name for spec in launch.request.args if self._is_proposed(spec.name or "", launch)}
        asked = {name: array for name, array in arrays.items() if name.partition(".")[0] in proposed
                 and isinstance(array, np.ndarray) and array.size == room}  # fmt: skip
        reach = ArrayReach()
        try:
            kernel._run_watched(values, request.launch, frozenset({"bounds"}), reach.subscribe)
        except (TilewrightError, MemoryError):
            return None
        return {name: -(-reach.ends.get(name, 0) // array.itemsize) for name, array in asked.items()}

    def _is_proposed(self, name: str, launch: Launched) -> bool:
        return name in self.names or launch.around.words.get(name, "") in self.names


def _with_room(room: int) -> Callable[[ArraySpec], int | None]:
    """The length of an array of which nobody has said the elements one by one."""
    return lambda array: None if array.fill.how == "list" else room


class ArrayReach(Events):
    """The ends of the bytes of arrays that a run touches, by their names."""

    def __init__(self) -> None:
        self.ends = dict[str, int]()

    def subscribe(self, program: Program) -> None:
        """Hear of the runs of a program."""
        program.compiled.subscribe(self)

    def watch(self, site: Site) -> Hook | None:
        """Looks how far the site goes."""
        place = site.place
        if place is None or place.space != "global":
            return None

        def note(batch: Batch, mask: Mask, *every: Address) -> None:
            for at in (
                address for address in every if address.hi + site.width - place.start > self.ends.get(place.name, 0)
            ):
                active = np.broadcast_to(at.full(), mask.shape)[mask.full]
                end = int(active.max(initial=0)) + site.width - place.start
                self.ends[place.name] = max(self.ends.get(place.name, 0), end)

        return note
