"""Arguments that neither host code nor the command line has, proposed: sizes, and arrays as long as the kernel reaches.

An array has the length that runs with more room than enough show, which look at bounds alone. A size that host code
rounds up to whole CTAs is no multiple of their threads; arrays then have the part of their length that the size has of
the multiple with which their reach was looked at. So a proposal leads to no access outside of an array, but where
the kernel lacks the guard that such a size needs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.arguments import Request, arguments_of, kernel_of, numbers
from tilewright.cli.launching import Lacks, Launched, launches_said
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
ODD, ODD_VECTORS = 3, 16  # how much less than a multiple a size is; where the kernels have vectors
_VECTORS = re.compile(r"\b(?:u?(?:char|short|int|long)[248]|float[24]|double2|(?:__)?half2|\w*bfloat162)\b|/\s*[48]\b")
_LISTED = re.compile(r"\]=-?[\d.]+,")  # of an array whose elements are said one by one
_EXTENT = re.compile(r"(?<=[a-z0-9]\[)\d+(?=\])")


@dataclass(frozen=True)
class _Options:
    """Options of a command line that say what host code does not."""

    args: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    launch: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Iterable[str]) -> _Options:
        words = shlex.split(" ".join(options))
        pairs = [*zip(words[::2], words[1::2], strict=True)]
        sizes = parse_sizes(constants([text for word, text in pairs if word == "--size"]))
        return cls(tuple(text for word, text in pairs if word == "--arg"), sizes,
                   {word[2:]: numbers(text) for word, text in pairs if word in ("--grid", "--block")})  # fmt: skip

    def joined(self, other: _Options) -> _Options:
        return _Options((*self.args, *other.args), {**self.sizes, **other.sizes}, {**self.launch, **other.launch})


@dataclass(frozen=True)
class _Proposals:
    """The launches of a file with what is proposed for them."""

    module: LoadedModule
    request: Request
    file: Path
    sizes: Mapping[str, Number]
    options: _Options

    def launches(self, **sizes: int) -> tuple[list[Launched], Lacks]:
        """The launches, with other sizes than the proposed ones, too."""
        request = replace(self.request, args=(*self.request.args, *self.options.args), **self.options.launch)
        return launches_said(self.module, request, self.file, {**self.sizes, **self.options.sizes, **sizes})

    def grids(self, **sizes: int) -> list[Sequence[int]]:
        return [launch.request.grid for launch in self.launches(**sizes)[0]]

    def rounded(self) -> dict[str, int]:
        """The sizes that host code rounds up to whole CTAs, with multiples of their threads."""
        multiples = dict[str, int]()
        for name, size in self.options.sizes.items():
            if (multiple := self._multiple(name, size)) and not _is_divided(name, self.module.texts):
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
    launches, lacks = launches_said(module, request, file, sizes)
    asked, proposals = lacks, _Proposals(module, request, file, sizes, _Options())
    for _ in range(ROUNDS):
        if not lacks.what:
            break
        proposals = replace(proposals, options=proposals.options.joined(_Options.of(lacks.proposed())))
        launches, lacks = proposals.launches()
    else:
        if lacks.what:
            asked.check(file)
    return _reaching(proposals, launches) if asked.what else launches


def _reaching(proposals: _Proposals, launches: list[Launched]) -> list[Launched]:
    """The launches with arrays as long as they reach."""
    multiples = proposals.rounded()
    rooms = _Rooms(proposals)
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
    launch: Launched, lengths: Mapping[str, int], sizes: Mapping[str, int], args: Sequence[str]
) -> Launched:
    """A launch whose arrays have other lengths, which says what of it is proposed."""
    names = {re.split("[:=]", text)[0] for text in args}
    request = replace(launch.request, args=tuple(_resized(text, lengths) for text in launch.request.args))
    arrays = [text for text in request.args if re.split("[:=]", text)[0] in {*lengths, *names}]
    said = [f"--size {shlex.quote(f'{name}={size}')}" for name, size in sizes.items()]
    return replace(launch, request=request, proposed=(*said, *(f"--arg {shlex.quote(text)}" for text in arrays)))


def _resized(text: str, lengths: Mapping[str, int]) -> str:
    """An argument with arrays of these lengths, those of a structure by ``g.0``."""
    name = re.split("[:=]", text)[0]
    places = [place for place in lengths if place.partition(".")[0] == name]
    if "{" not in text:
        return _EXTENT.sub(str(lengths[name]), text, count=1) if name in lengths else text
    every = iter(places)
    return _EXTENT.sub(lambda extent: str(lengths[place]) if (place := next(every, "")) else extent[0], text)


class _Rooms:
    """Looks how far the proposed arrays of launches are reached."""

    def __init__(self, proposals: _Proposals) -> None:
        self.proposals = proposals
        self.names = {re.split("[:=]", text)[0] for text in proposals.options.args}

    def reaches(self, sizes: Mapping[str, int]) -> list[dict[str, int]]:
        """By launches and names of arrays: how many elements the kernels reach with these sizes."""
        return [self._reach(launch) for launch in self.proposals.launches(**sizes)[0]]

    def _reach(self, launch: Launched) -> dict[str, int]:
        reaches = (self._reach_within(launch, room) for room in ROOMS)
        return next((reach for reach in reaches if reach is not None), {})

    def _reach_within(self, launch: Launched, room: int) -> dict[str, int] | None:
        """The reach of arrays of so many elements; None where these are too few."""
        kernel = kernel_of(self.proposals.module, launch.request)
        args = tuple(text if _LISTED.search(text) else _EXTENT.sub(str(room), text) for text in launch.request.args)
        request = replace(launch.request, args=args)
        values = arguments_of(kernel, request, np.random.default_rng(request.seed))
        arrays = named_arrays(kernel, dict(zip(kernel.parameters, values, strict=True)))
        proposed = {re.split("[:=]", text)[0] for text in launch.request.args if self._is_proposed(text, launch)}
        asked = {name: array for name, array in arrays.items() if name.partition(".")[0] in proposed
                 and isinstance(array, np.ndarray) and array.size == room}  # fmt: skip
        reach = ArrayReach()
        try:
            kernel._run_watched(values, request.launch, frozenset({"bounds"}), reach.subscribe)
        except (TilewrightError, MemoryError):
            return None
        return {name: -(-reach.ends.get(name, 0) // array.itemsize) for name, array in asked.items()}

    def _is_proposed(self, text: str, launch: Launched) -> bool:
        name = re.split("[:=]", text)[0]
        return name in self.names or launch.around.words.get(name, "") in self.names


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
