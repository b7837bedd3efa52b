"""Arguments that neither host code nor the command line has, proposed: sizes, and arrays as long as the kernel reaches.

An array has the length that runs with more room than enough show, which look at bounds alone. A size that host code
rounds up to whole CTAs, and that the kernel compares with anything, is no multiple of their threads; arrays then have
the part of their length that the size has of the multiple with which their reach was looked at. So a proposal leads to
no access outside of an array, but where the kernel lacks a guard that it has elsewhere. Of a kernel without any the
size is a multiple, and what such a one does with any other size is looked at besides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.argument_spec import FILLS, ZEROS, ArgumentSpec, ArraySpec, Fill, SaidByOptions
from tilewright.cli.arguments import Request, arguments_of, kernel_of
from tilewright.cli.branching import in_other_branches
from tilewright.cli.clock import KernelClock
from tilewright.cli.launching import (
    INTEGERS,
    Lacks,
    Launched,
    Named,
    check_sizes,
    kernels_asked_for,
    launches_of,
    launches_said,
)
from tilewright.cli.lengths import ReachedArray, Sizes, lengths_held
from tilewright.cli.spreading import spread
from tilewright.errors import ArgumentError, SimulationError, TilewrightError
from tilewright.host import Limits
from tilewright.load import LoadedKernel, LoadedModule
from tilewright.load.cu_guards import choice_of, compares, holds_addresses, kernel_nodes, lets_in, shares
from tilewright.load.cu_launcher import launcher
from tilewright.load.cu_tensors import is_tensor
from tilewright.load.cu_tree import bare
from tilewright.load.declared import Field, Parameter, number_name
from tilewright.load.reach import MemoryReach
from tilewright.small import coverage_of
from tilewright.terminal import complain
from tilewright.trials import named_arrays

if TYPE_CHECKING:
    from tilewright.load.cu_numbers import Number

ROUNDS = 3  # of proposals: what is known of some arguments may let others be asked for
ROOMS = (1 << 18, 1 << 21, 1 << 24)  # elements of an array whose reach is looked at, more where fewer are not enough
MOST_ELEMENTS = 1 << 28  # of an array: with more sizes become smaller
MANY = 1024  # times a size, by which the CTAs of a launch grow that depend on it
BLOCKS = (32, 64, 256, 16, 512, 8)  # threads along an axis, where those that are proposed leave shared memory
SIDES = (32, 128, 256, 16, 512)  # of all sizes, where a launch with the first ones fails
LITTLE, LARGER = 0.25, (256, 1024)  # of the blocks of code; sizes that may reach more than those
ADDRESSES = ("int64", "uint64")  # of elements that may be addresses
NUMBERS = (FILLS["zeros"], FILLS["ramp"])  # of arrays of integers: alike, or all different
SECONDS, LEAST = 1.5, 16  # of the processor, of a run with larger sizes; and the least that sizes become
FEWEST = 4  # what a size becomes where a run takes long, of one that decides on no extent of a launch before others
MOST_SIZE = 1 << 14  # of a size that is made a multiple of the threads of a CTA
NO_LENGTHS: Mapping[str, int] = MappingProxyType({})
PARTS = 10  # halves of the threads of a CTA: where elements of several sizes are numbered by one index
ODD, ODD_VECTORS = 3, 16  # how much less than a multiple a size is; where the kernels have vectors
LANES = 32  # of a warp
_MEET = re.compile(r"\b__(?:shfl|ballot|any|all|reduce|match)\w*_sync\b|\b__sync(?:threads|warp)\w*\b|\.sync\(")
_TYPES = r"\b(?:u?(?:char|short|int|long)[248]|float[24]|double2|(?:__)?half2|\w*bfloat162)\b"  # of vectors
_EXTENT = re.compile(r"\.size\(\d+\)$")  # of a tensor, by its place
_VECTORS = re.compile(rf"{_TYPES}|/\s*[48]\b")


@dataclass(frozen=True)
class _Proposals:
    """The launches of a file with what is proposed for them. of_grid, of_block, of_shared: names that their CTAs
    depend on, the threads of these, and their shared memory alone. only: the kernel whose launch is wanted, of all;
    clock: of that. has_smaller: are there smaller sizes, where runs with these take long? is_made_up: does no text
    launch it? fixed: sizes with which host code comes to it. read: launches that were read, by their sizes.
    """

    module: LoadedModule
    request: Request
    file: Path
    sizes: Mapping[str, Number]
    options: SaidByOptions = SaidByOptions()
    of_grid: frozenset[str] = frozenset()
    of_block: frozenset[str] = frozenset()
    of_shared: frozenset[str] = frozenset()
    only: str | None = None
    clock: KernelClock | None = None
    has_smaller: bool = True
    is_made_up: bool = False
    fixed: Mapping[str, int] = field(default_factory=dict)
    read: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def has_vectors(self) -> bool:
        return any(map(_VECTORS.search, self.module.texts))

    def launches(self, **sizes: int) -> tuple[list[Launched], Lacks]:
        """The launches, with other sizes than the proposed ones, too."""
        launch: dict[str, Any] = {**self.options.launch}
        request = replace(self.request, args=(*self.request.args, *self.options.args), **launch)
        numbers = {**self.sizes, **self.options.sizes, **sizes, **self.fixed}
        if self.clock is not None:
            self.clock.left()
        key = self.only, request.args, *sorted(numbers.items())
        if key not in self.read:
            self.read[key] = launches_said(self.module, request, self.file, numbers, self.kernels, self.only)
        read: tuple[list[Launched], Lacks] = self.read[key]
        return read

    @property
    def kernels(self) -> Sequence[Named]:
        """Those that are asked for, once that is known."""
        named: Sequence[Named] = self.read.get("kernels", ())
        return named

    def launch(self, **sizes: int) -> Launched:
        """The only one. Raises SimulationError where a GPU refuses it."""
        launches = self.launches(**sizes)[0]
        if not launches:
            raise ArgumentError(f"{self.only} is not launched with these sizes", given=self.options.hint,
                                allowed="other ones, by --size")  # fmt: skip
        if self.is_made_up and launches[0].error is not None:
            raise ArgumentError(f"no launch of {launches[0].request.kernel} is known", given=f"{launches[0].error}",
                                allowed="--grid 4 --block 256")  # fmt: skip
        return launches[0].checked()

    def grid(self, **sizes: int) -> Sequence[int]:
        """The CTAs of the only launch; none where a GPU would refuse it."""
        try:
            return self.launch(**sizes).request.grid
        except TilewrightError:
            return ()

    def possible(self) -> _Proposals:
        """The same with sizes for which no launch fails, if there are some: of threads alone, or of all."""
        others = (self._with_sizes(self.options.sizes, side) for side in SIDES)
        return next((way for way in chain([self], self.of_other_blocks(), others) if way._is_possible()), self)

    def of_other_blocks(self) -> Iterator[_Proposals]:
        """The same with other numbers of threads, where these are proposed, and GPUs take them."""
        names = self.of_block & self.options.sizes.keys()
        ways = (self._with_sizes(names, threads) for threads in BLOCKS if names)
        return (way for way in ways if way._is_possible())

    def _with_sizes(self, names: Iterable[str], size: int) -> _Proposals:
        sizes = {**self.options.sizes, **dict.fromkeys(self._with_extents(names), size)}
        return replace(self, options=replace(self.options, sizes=sizes))

    def _with_extents(self, names: Iterable[str]) -> set[str]:
        """The names and, of an extent of a tensor that goes along with its sizes, those of the other tensors there."""
        every = {*names}
        if any(is_tensor(param.type) for _, kernel in self.kernels for param in kernel.written):
            places = {place[0] for name in every if (place := _EXTENT.search(name))}
            every |= {name for name in self.options.sizes if (place := _EXTENT.search(name)) and place[0] in places}
        return every

    def with_like_extents(self) -> _Proposals:
        """The same with tensors of one shape where they go along with their sizes, if that can be launched."""
        first = self.of_block | self.of_shared
        way = self
        for name in sorted(self.options.sizes, key=lambda name: name in first):
            if len(self._with_extents([name])) > 1:
                way = way._with_sizes([name], self.options.sizes[name])
        return way if way._is_possible() else self

    def _is_possible(self) -> bool:
        return not any(launch.error for launch in self.launches()[0])

    def of(self, launch: Launched) -> _Proposals:
        """The same for one launch alone."""
        return replace(self, only=launch.request.kernel)

    def smaller(self) -> _Proposals:
        """The same with smaller sizes, first those that decide on no extent of a launch, at last those that do; and
        shorter ranges.
        """
        kept = self._with_extents(self.of_block | self.of_shared)
        of_grid = self._with_extents(filter(self._decides_grid, self.options.sizes))
        inner = {name: FEWEST for name, size in self.options.sizes.items()
                 if size > FEWEST and name not in kept | of_grid}  # fmt: skip
        quarters = {name: size if name in self.of_shared else max(size // 4, min(size, LEAST))
                    for name, size in self.options.sizes.items()}  # fmt: skip
        fewest = {name: min(size, FEWEST) if name in of_grid - kept else size
                  for name, size in self.options.sizes.items()}  # fmt: skip
        steps = {**self.options.sizes, **inner}, quarters, fewest
        sizes = next((step for step in steps if step != self.options.sizes), quarters)
        args = (spec.filled(_quartered) for spec in self.options.args)
        options = replace(self.options, sizes=sizes, args=tuple(args))
        return replace(self, options=options, has_smaller=options != self.options).possible()

    def check_addresses(self) -> None:
        """Raises ArgumentError where the only kernel takes addresses from an array of integers that is proposed."""
        launch = self.launch()
        kernel, names = kernel_of(self.module, launch.request), self.names_of(launch)
        for param in kernel.written:
            is_cast = param.element in ADDRESSES and holds_addresses(
                self.module.texts, launch.request.kernel or "", param.name)  # fmt: skip
            if param.name in names and (is_cast or param.type.count("*") > 1):
                what = f"not judged: {kernel.name} takes addresses from {param.name}, and nobody says of what"
                allowed = f"--arg '{param.name}={{f32[1024], f32[1024]}}' for a list of pointers, as float* const*"
                raise ArgumentError(what, given=f"{param.type} {param.name}", allowed=allowed)

    def spread(self) -> _Proposals:
        """The same with strides that let no rows meet."""
        kernel = kernel_of(self.module, self.launch().request)
        kept = self.of_grid | self.of_block | self.of_shared
        options = spread(self.options, kernel, lambda options: replace(self, options=options).launch(), kept)
        return replace(self, options=options)

    def names_of(self, launch: Launched) -> set[str]:
        """The parameters of a launch that are proposed."""
        proposed = {spec.name for spec in self.options.args}
        names = (spec.name for spec in launch.request.args if spec.name)
        return {name for name in names if name in proposed or launch.around.words.get(name, "") in proposed}

    def rounded(self) -> dict[str, tuple[int, int]]:
        """The sizes that host code rounds up to whole CTAs, each with a multiple of what it is rounded to, and that; 0
        of sizes whose product alone it rounds up.
        """
        if any(is_tensor(param.type) for param in kernel_of(self.module, self.launch().request).written):
            return {}  # the extents of several may have to be equal, and a thread behind them is outside in any case
        sizes = {name: size for name, size in self.options.sizes.items() if name in self.of_grid - self.of_block
                 and not _is_divided(name, self.module.texts) and not self.is_shared_out(name)}  # fmt: skip
        multiples = {name: self._multiple(name, size) for name, size in sizes.items()}
        alone = {name: multiple for name, multiple in multiples.items() if multiple is not None}
        return alone or {name: (size, 0) for name, size in self._together(sizes).items()}

    def _together(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Two sizes of which host code rounds up the product with others, where a CTA has less than one of them."""
        whole = prod(self.grid())
        pair = [name for name, size in sizes.items() if prod(self.grid(**{name: 2 * size})) == 2 * whole > 0][:2]
        exact = whole * prod((sizes[name] - ODD) / sizes[name] for name in pair)
        least = prod(self.grid(**{name: sizes[name] - ODD for name in pair}))
        is_rounded = len(pair) == 2 and exact != int(exact) and least == int(exact) + 1
        return {name: sizes[name] for name in pair} if is_rounded else {}

    def _multiple(self, name: str, size: int) -> tuple[int, int] | None:
        """A number from ``size`` on with which one more takes more CTAs, where a CTA has a thread for each, or for a
        few, and how many; None of any other size, as that of a tile, whose kernels are rarely meant for a part of one.
        """
        block = tuple(self.launch().request.block or ())
        place = self.only, name, block
        if place not in self.read:
            self.read[place] = next(self._widths(name, size, block), None)
        width: int | None = self.read[place]
        return None if width is None else (_multiple(size, width), width)

    def is_shared_out(self, name: str) -> bool:
        """Do texts divide a size by another one, as channels by groups, which is then to divide it?"""
        texts = self.module.texts
        others = {word for other in self.options.sizes if other != name for word in self.words(other)}
        return any(shares(texts, word, others - self.words(name)) for word in self.words(name))

    def words(self, name: str) -> set[str]:
        """What a size is called: by the host code, and by the only kernel, whose numbers it alone decides."""
        place = "words", self.only, name
        if place not in self.read:
            try:
                args, size = self.launch().request.args, self.options.sizes[name]
                larger = self.launch(**{name: 2 * size}).request.args
                names = {spec.name for spec, other in zip(args, larger, strict=True)
                         if (spec.number, other.number) == (size, 2 * size) and spec.name}  # fmt: skip
            except TilewrightError:
                names = set()
            self.read[place] = {name, *names}
        words: set[str] = self.read[place]
        return words

    def _decides_grid(self, name: str) -> bool:
        """Does a size decide how many CTAs the only launch has?"""
        if name not in self.of_grid:
            return False
        place = self.only, name
        if place not in self.read:
            self.read[place] = self.grid() != self.grid(**{name: self.options.sizes[name] * MANY})
        return bool(self.read[place])

    def _widths(self, name: str, size: int, block: Sequence[int]) -> Iterator[int]:
        if not self._decides_grid(name):
            return
        threads = sorted({prod(block), *block} - {1})
        vectors = (1, 2, 4, 8) if self.has_vectors else (1, 2) if self.is_made_up else (1,)  # 2: turns of a loop
        wholes = [vector * many for vector in vectors for many in threads]
        parts = [prod(block) >> shift for shift in range(1, PARTS) if not prod(block) % (1 << shift)]
        for width in dict.fromkeys([*wholes, *(part for part in parts if part > 1)]):
            multiple = _multiple(size, width)
            if multiple > MOST_SIZE:
                break
            whole = self.grid(**{name: multiple})
            if (whole != self.grid(**{name: multiple + 1}) and whole == self.grid(**{name: multiple + 1 - width})
                    and whole != self.grid(**{name: multiple - width})):  # fmt: skip
                yield width


def _multiple(size: int, width: int) -> int:
    """A multiple of ``width`` of about a size: two CTAs at least."""
    return 2 * width if size <= width else -(-size // width) * width


def _quartered(fill: Fill) -> Fill:
    """A fill that says where ranges begin, with a quarter of the elements in each; any other fill itself."""
    return replace(fill, numbers=(max(int(fill.numbers[0]) // 4, LEAST),)) if fill.how == "steps" else fill


def _is_divided(name: str, texts: Sequence[str]) -> bool:
    """Do texts ask whether a size is a multiple of something?"""
    asks = re.compile(rf"(?<![\w.]){re.escape(name)}\s*\)?\s*%\s*\w+\s*\)?\s*[!=]=\s*0|!\s*\(\s*{re.escape(name)}\s*%")
    return any(asks.search(text) for text in texts)


def with_proposals(module: LoadedModule, request: Request, file: Path, sizes: Mapping[str, Number]) -> list[Launched]:
    """The launches of a file, as `as_launched` has them; those that lack something have ways to propose it. One that
    cannot be judged says why in its error, where there are others.

    Raises ArgumentError where nothing can be proposed.
    """
    launchers = _launchers(module, request, file, sizes)
    check_sizes(_with_texts(module, launchers.values()), file, sizes)
    if launchers:
        made_up = _Proposals(module, request, file, sizes, is_made_up=True)
        alone = {name: _with_texts(module, [text]) for name, text in launchers.items()}
        return _apart([replace(made_up, module=part, request=replace(request, kernel=name), read={})
                       for name, part in alone.items()])  # fmt: skip
    launches, lacks = launches_said(module, request, file, sizes)
    if not lacks.what:
        return [launch.checked() for launch in launches] if len(launches) == 1 else launches
    proposals = _Proposals(module, request, file, sizes)
    kernels = kernels_asked_for(module, request, file, sizes)
    try:
        return _with_ways(proposals, in_branches=request.kernel is None)
    except TilewrightError:
        if len(kernels) == 1:
            raise
    return _apart([replace(proposals, request=replace(request, kernel=name), read={}) for name, _ in kernels])


def _apart(parts: Sequence[_Proposals]) -> list[Launched]:
    """The launches of kernels, each with proposals of its own. Raises TilewrightError of the only one."""

    def launches_of(proposals: _Proposals) -> list[Launched]:
        try:
            return _with_ways(proposals)
        except TilewrightError as error:
            if len(parts) == 1:
                raise
            return [Launched(proposals.request, proposals.request, "", {}, error=error)]

    return [launch for part in parts for launch in launches_of(part)]


def _launchers(module: LoadedModule, request: Request, file: Path, sizes: Mapping[str, Number]) -> dict[str, str]:
    """Host functions that launch the kernels which a request asks for, where the text launches none of them."""
    kernels = {name: module[name] for name in (module.kernels if request.kernel is None else [request.kernel])}
    if any(launches_of(module, name, sizes) for name in {bare(kernel.name) for kernel in kernels.values()}):
        return {}
    launchers = {name: text for name in kernels if (text := launcher(module.texts, name))}
    if launchers:
        said = f"{next(iter(kernels))} is not launched" if len(kernels) == 1 else "no kernel is launched"
        complain(f"{file.name}: {said} there: a launch is proposed; --grid 4 --block 256 says another one")
    return launchers


def _with_texts(module: LoadedModule, texts: Iterable[str]) -> LoadedModule:
    """The module of a file that has more texts."""
    other = copy(module)
    other.texts = (*module.texts, *texts)
    return other


def _with_ways(proposals: _Proposals, *, in_branches: bool = False) -> list[Launched]:
    """The launches, which share what is proposed. in_branches: and those to which host code comes with other sizes
    alone? Raises ArgumentError where something lacks all the same.
    """
    launches, lacks = proposals.launches()
    asked = lacks
    for _ in range(ROUNDS):
        if not lacks.what:
            break
        options = proposals.options.joined(lacks.proposed())
        choices = {name: choice_of(proposals.module.texts, name) for name in options.sizes}
        chosen = {name: choice for name, choice in choices.items() if choice is not None}
        options = replace(options, sizes={**options.sizes, **chosen})
        proposals = replace(proposals, options=options, of_grid=proposals.of_grid | lacks.of_grid,
                            of_block=proposals.of_block | lacks.of_block,
                            of_shared=proposals.of_shared | lacks.of_shared).possible()  # fmt: skip
        launches, lacks = proposals.launches()
    if lacks.what:
        asked.check(proposals.file)
    numbers = {**proposals.sizes, **proposals.options.sizes, **proposals.fixed}
    proposals.read["kernels"] = kernels_asked_for(proposals.module, proposals.request, proposals.file, numbers)
    proposals = proposals.with_like_extents()
    launches = proposals.launches()[0]
    launched = [replace(launch, ways=partial(_ways, proposals.of(launch))) for launch in launches]
    return [*launched, *(_in_branches(proposals) if in_branches else ())]


def _in_branches(proposals: _Proposals) -> list[Launched]:
    """The launches to which host code comes with other sizes than the proposed ones alone."""
    options = proposals.options
    kernels = in_other_branches(proposals.module, {**proposals.sizes, **options.sizes}, options.sizes.keys(),
                                [name for name, _ in proposals.kernels])  # fmt: skip
    launches = list[Launched]()
    for name, sizes in kernels.items():
        request = replace(proposals.request, kernel=name)
        with suppress(TilewrightError):
            launches += _with_ways(replace(proposals, request=request, options=SaidByOptions(), fixed=sizes, read={}))
    return launches


def _sized(proposals: _Proposals) -> list[_Sized]:
    """The launch with each fill, and with strides apart where arrays have room for such rows."""
    spread = proposals.spread()
    apart = [_Sized(spread, fill) for fill in NUMBERS]
    if spread.options == proposals.options or apart[0].look.reach:
        return apart
    return [_Sized(proposals, fill) for fill in NUMBERS]


def _reaching_more(proposals: _Proposals, sized: list[_Sized]) -> list[_Sized]:
    """The same with larger sizes of those that decide on no extent of the launch, where little of the code is reached
    and these reach more: a row may be shorter than a group of it.
    """
    coverage, kept = sized[0].look.coverage, proposals.of_grid | proposals.of_block | proposals.of_shared
    reached, names = coverage.get("reached", 0), proposals.options.sizes.keys() - kept
    if not names or reached >= LITTLE * coverage.get("blocks", 0):
        return sized
    for side in LARGER:
        with suppress(_TakesLong, TilewrightError):
            other = _sized(proposals._with_sizes(names, side))
            if other[0].look.coverage.get("reached", 0) > reached:
                return other
    return sized


def _is_known(ways: Sequence[_Sized]) -> bool:
    return ways[0].look.is_known


class _TakesLong(Exception):
    """A run with the proposed sizes takes longer than it may."""


def _ways(proposals: _Proposals, clock: KernelClock) -> Iterator[Launched]:
    """A launch with arrays as long as it reaches: with numbers in them that reach most of the code, and then with
    others. clock: of its kernel.
    """
    proposals = replace(proposals, clock=clock).possible()
    proposals.check_addresses()
    while True:
        try:
            sized = _sized(proposals)
            if not sized[0].look.is_known:
                sized = next(filter(_is_known, map(_sized, proposals.of_other_blocks())), sized)
            sized = _reaching_more(proposals, sized)
            if not sized[0].look.is_known and proposals.has_smaller and sized[0].has_loose_arrays:
                raise _TakesLong  # no room suffices for so large sizes
            alike = sized[0].launch.request.args == sized[1].launch.request.args
            is_whole = not sized[0].look.coverage.get("lines_not_reached", ["?"])
            ranked = sized[: 1 + (not alike)]
            ranked.sort(key=lambda way: 0 if alike or is_whole else -way.look.coverage.get("reached", 0))
            first = ranked[0].proposed()
        except _TakesLong:
            proposals = proposals.smaller()
            continue
        yield first
        with suppress(_TakesLong):
            yield from (way.proposed() for way in ranked[1:])
        return


@dataclass(frozen=True)
class _Look:
    """What a run shows: how many elements of arrays it reaches, also by each place in the text, and blocks of code."""

    reach: Mapping[str, int]
    coverage: Mapping[str, Any]
    arrays: Sequence[ReachedArray] = ()

    @property
    def is_known(self) -> bool:
        """Was there room enough?"""
        return bool(self.coverage)


@dataclass(frozen=True)
class _Sized:
    """A launch whose arrays are to be as long as it reaches. fill: of proposed arrays of integers that are only read.
    looks: what runs have shown, by their grids and arguments.
    """

    proposals: _Proposals
    fill: Fill
    looks: dict[Any, _Look] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def rounded(self) -> dict[str, tuple[int, int]]:
        return self.proposals.rounded()

    @cached_property
    def multiples(self) -> dict[str, int]:
        """The sizes that host code rounds up, as multiples."""
        return {name: multiple for name, (multiple, _) in self.rounded.items()}

    @cached_property
    def odd(self) -> dict[str, int]:
        """The same, a little less, and no two of them by as much: what takes one for the other is told. Where kernels
        have vectors, rows are odd of which a CTA has few, and what lies in a row is not.
        """
        less = ODD_VECTORS if self.proposals.has_vectors else ODD
        odd, few = dict[str, int](), dict[str, int]()
        for name, (size, rounded) in self.rounded.items():
            width = rounded or ODD + 1
            step = ODD if width < ODD_VECTORS and not few else less
            few |= {name: width} if width < ODD_VECTORS else {}
            by = step * (1 + len(odd)) if step * (1 + len(odd)) < min(width, size // 2) else min(step, width - 1)
            odd[name] = size - by
        return odd

    @cached_property
    def unguarded(self) -> dict[str, int]:
        """Those that the kernel is handed and compares with nothing, and what they are multiples of."""
        return {name: width for name, (_, width) in self.rounded.items() if width and self._is_unguarded(name)}

    def _is_unguarded(self, name: str) -> bool:
        """Does neither the kernel compare this size, nor another one what it is called? One that is handed in vain is
        forgotten.
        """
        module, whole, words = self.proposals.module, self.whole, self._words(name)
        return not words or not (compares(module.texts, whole.request.kernel or "", words) is not False
                                 or self._is_compared_elsewhere(words))  # fmt: skip

    def _words(self, name: str) -> list[str]:
        """The kernel's names of what a size decides on."""
        return self._differing(self.whole, self.grown[name])

    def _differing(self, launch: Launched, other: Launched) -> list[str]:
        """The kernel's names of the numbers that differ between two launches."""
        params = {param.name: param for param in kernel_of(self.proposals.module, launch.request).written}
        pairs = zip(launch.request.args, other.request.args, strict=True)
        return [word for spec, like in pairs if spec.name in params
                for word in _differing(spec, like, params[spec.name])]  # fmt: skip

    def _is_compared_elsewhere(self, words: Collection[str]) -> bool:
        """Does another kernel of the file that takes a size of this name compare it?"""
        module = self.proposals.module
        others = {bare(kernel.name): {*words} & {param.name for param in kernel.written}
                  for _, kernel in self.proposals.kernels}  # fmt: skip
        return any(compares(module.texts, name, alike) for name, alike in others.items() if alike)

    @cached_property
    def beyond(self) -> dict[str, int]:
        """The lengths of arrays of floats that the launch reaches further than a size says which decides on the grid:
        by one place, where a guard lets an index be as large as the size and nothing speaks of one more; or by a whole
        CTA, where there is always one more than are needed, ``n / 256 + 1``, and no guard at all.
        """
        proposals, lengths = self.proposals, dict[str, int]()
        names = proposals.of_grid - proposals.of_block - self.rounded.keys()
        for name, size in proposals.options.sizes.items():
            larger = {**self.sizes, name: 2 * size}
            if name not in names or not proposals.grid(**larger):
                continue
            grown = self._filled(proposals.launch(**larger))
            words = self._differing(self.launch, grown)
            texts, title = proposals.module.texts, self.launch.request.kernel or ""
            by = 1 if lets_in(texts, title, {*words, name}) else prod(self.launch.request.block or ())
            if by > 1 and (not words or compares(texts, title, words)):
                continue
            reach, wider = self.look.reach, self._look(grown).reach
            for array, length in reach.items():
                more = wider.get(array, 0) - length
                if more >= size and not more % size and length == more + more // size * by:
                    lengths[array] = more
        return lengths if lengths and lengths.keys() <= self._floats else {}

    def _held(self, launch: Launched) -> dict[str, int]:
        """The lengths of arrays that the kernel's own accesses say, and one of them reaches beyond in a launch,
        whatever integers are in arrays.
        """
        request, texts, look = launch.request, self.proposals.module.texts, self._look(launch)
        title = request.kernel or ""
        numbers = {*map(int, _integers(request.args)), *request.grid}
        lets = lets_in(texts, title, {*_names_of_integers(kernel_of(self.proposals.module, request))})
        text = "\n".join(tree.of(node) for tree, node in kernel_nodes(texts, bare(title)))
        sizes = Sizes(frozenset(numbers), frozenset((*(request.block or ()), prod(request.block or ()))))
        lengths = lengths_held(look.arrays, sizes, text, lets_in=lets)
        other = _Sized(self.proposals, next(fill for fill in NUMBERS if fill != self.fill))
        if lengths and (filled := other._filled(launch)).request.args != request.args:
            pairs = zip(look.arrays, other._look(filled).arrays, strict=False)
            apart = {array.name for array, like in pairs if array.ends != like.ends}
            lengths = {name: length for name, length in lengths.items() if name not in apart}
        return lengths

    @property
    def _floats(self) -> set[str]:
        """The arrays of floats."""
        kernel = kernel_of(self.proposals.module, self.launch.request)
        return {param.name for param in kernel.written if param.is_pointer and "f" in _kind(self.launch, param.name)}

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that host code rounds up: multiples where no guard is."""
        kept = {name for name, (_, width) in self.rounded.items() if not width and self._is_unguarded(name)}
        return {**self.odd, **{name: self.multiples[name] for name in kept | self.unguarded.keys()}}

    @cached_property
    def whole(self) -> Launched:
        return self._filled(self.proposals.launch(**self.multiples))

    @cached_property
    def grown(self) -> dict[str, Launched]:
        """The launch with twice each size."""
        return {name: self._filled(self.proposals.launch(**{**self.multiples, name: 2 * size}))
                for name, size in self.multiples.items()}  # fmt: skip

    @cached_property
    def launch(self) -> Launched:
        return self._filled(self.proposals.launch(**self.sizes))

    @cached_property
    def look(self) -> _Look:
        return self._look(self.launch)

    @property
    def has_loose_arrays(self) -> bool:
        """Is the length of an array proposed? Those of tensors that go along with their sizes follow from these."""
        return any(isinstance(part, ArraySpec) for spec in self.launch.request.args
                   if spec.name in self._loose for part in spec.parts)  # fmt: skip

    @cached_property
    def _loose(self) -> set[str]:
        kernel, proposed = kernel_of(self.proposals.module, self.launch.request), self.proposals.names_of(self.launch)
        return proposed - {param.name for param in kernel.written if is_tensor(param.type)}

    @cached_property
    def _reaches(self) -> tuple[Mapping[str, int], dict[str, Mapping[str, int]]]:
        """How far the launch reaches with multiples, and with twice each."""
        return self._look(self.whole).reach, {name: self._look(launch).reach for name, launch in self.grown.items()}

    def proposed(self) -> Launched:
        """The launch with such arrays, which says what of it is proposed."""
        held = self._held(self.launch)
        launch = self._with_lengths(self.launch, {**self.look.reach, **self.beyond}, self.sizes, held)
        if not held and self.multiples and (held := self._held(self.whole)):
            return self._with_lengths(self.whole, self._look(self.whole).reach, self.multiples, held)
        if self.look.is_known and (uneven := self._uneven_sizes()):
            other = self._filled(self.proposals.launch(**{**self.sizes, **uneven}))
            launch = replace(launch, uneven=self._with_lengths(other, self.look.reach, {**self.sizes, **uneven}))
        if not self.unguarded or not self.look.is_known:
            return launch
        other = self._filled(self.proposals.launch(**self.odd))
        widths = {name: width for name, width in self.unguarded.items()}
        return replace(launch, unguarded=self._with_lengths(other, self.look.reach, self.odd), multiples=widths)

    def _uneven_sizes(self) -> dict[str, int]:
        """Sizes that decide on no CTA, as no multiples of a warp's lanes, where these meet and nothing divides them."""
        proposals, texts = self.proposals, self.proposals.module.texts
        if any(re.search(_TYPES, text) for text in texts) or not any(map(_MEET.search, texts)):
            return {}
        kept = proposals.of_grid | proposals.of_block | proposals.of_shared | self.multiples.keys()
        sizes = {name: size for name, size in proposals.options.sizes.items() if name not in kept and not size % LANES
                 and size > 0 and not _is_divided(name, texts) and not proposals.is_shared_out(name)
                 and not any(_is_cut(word, text) for word in proposals.words(name) for text in texts)}  # fmt: skip
        uneven = {name: size - ODD for name, size in sizes.items()}
        grid = self.launch.request.grid, self.launch.request.block
        if not uneven or not proposals.grid(**{**self.sizes, **uneven}):
            return {}
        other = proposals.launch(**{**self.sizes, **uneven}).request
        return uneven if (other.grid, other.block) == grid else {}

    def _with_lengths(
        self, launch: Launched, reach: Mapping[str, int], sizes: Mapping[str, int], held: Mapping[str, int] = NO_LENGTHS
    ) -> Launched:
        scaled = {**self._scaled(sizes), **held}
        lengths = {**reach, **scaled}
        loose = frozenset(name.partition(".")[0] for name in lengths.keys() - scaled.keys() - self.beyond.keys())
        names = {*lengths, *(spec.name for spec in self.proposals.options.args)}
        request = replace(launch.request, args=tuple(_resized(spec, lengths) for spec in launch.request.args))
        parts = (part for spec in request.args for part in spec.parts)
        many = max((prod(part.extents) for part in parts if isinstance(part, ArraySpec)), default=0)
        if self.proposals.has_smaller and many > MOST_ELEMENTS:
            raise _TakesLong
        arrays = tuple(spec for spec in request.args if spec.name in names)
        said = SaidByOptions(arrays, {**self.proposals.options.sizes, **sizes, **self.proposals.fixed})
        return replace(launch, request=request, coverage=self.look.coverage, proposed=said,
                       is_reach_known=self.look.is_known, loose=loose)  # fmt: skip

    def _scaled(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The lengths of arrays that sizes decide, in the proportion of a size to its multiple where they grow so."""
        if not self.multiples:
            return {}
        reaches, grown = self._reaches
        lengths = dict[str, int]()
        for name, length in reaches.items():
            for size in self._let_in if name in self._floats and length > 1 else ():  # one place more than the size
                if (grown[size].get(name, 0) - 1, (length - 1) % self.multiples[size]) == (2 * (length - 1), 0):
                    length -= 1
            factors = {size: (grown[size].get(name, 0) - (length < reaches[name])) / length for size in self.multiples}
            if all(factor == 1 or (factor == 2 and not length % self.multiples[size])
                   for size, factor in factors.items()):  # fmt: skip
                for size in (size for size, factor in factors.items() if factor == 2):
                    length = length * sizes[size] // self.multiples[size]
                lengths[name] = length
        return lengths

    @cached_property
    def _let_in(self) -> list[str]:
        """The sizes that the kernel lets an index be as large as."""
        texts, title = self.proposals.module.texts, self.launch.request.kernel or ""
        return [name for name in self.multiples if lets_in(texts, title, {*self._words(name), name})]

    def _filled(self, launch: Launched) -> Launched:
        kernel, proposed = kernel_of(self.proposals.module, launch.request), self.proposals.names_of(launch)
        read = {param.name for param in kernel.written if param.name in proposed and (param.fields or (
                param.element in INTEGERS and "const" in param.type.partition("*")[0]))}  # fmt: skip
        args = (spec.filled(lambda fill: self.fill if fill == ZEROS else fill) if spec.name in read else spec
                for spec in launch.request.args)  # fmt: skip
        return replace(launch, request=replace(launch.request, args=tuple(args)))

    def _look(self, launch: Launched) -> _Look:
        place = tuple(launch.request.grid), launch.request.args
        if place not in self.looks:
            looks = (self._look_within(launch, room) for room in (ROOMS if self.has_loose_arrays else ROOMS[:1]))
            self.looks[place] = next((look for look in looks if look is not None), _Look({}, {}))
        return self.looks[place]

    def _look_within(self, launch: Launched, room: int) -> _Look | None:
        """What a run with arrays of so many elements shows; None where these are too few."""
        kernel, proposed = kernel_of(self.proposals.module, launch.request), self.proposals.names_of(launch)
        whole = {param.name for param in kernel.written if is_tensor(param.type)}  # the kernel sees their extents
        args = (spec if spec.name in whole else spec.resized(_with_room(room)) for spec in launch.request.args)
        request = replace(launch.request, args=tuple(args))
        values = arguments_of(kernel, request, np.random.default_rng(request.seed))
        arrays = named_arrays(kernel, dict(zip(kernel.parameters, values, strict=True)))
        asked = {name: array for name, array in arrays.items() if name.partition(".")[0] in proposed
                 and isinstance(array, np.ndarray) and array.size == room}  # fmt: skip
        reach = MemoryReach("global")
        clock = self.proposals.clock or KernelClock()
        limits = Limits(clock.within(SECONDS if self.proposals.has_smaller else None))
        try:
            coverage = coverage_of((kernel, values, request.launch), reach.subscribe, limits, _is_before)
        except (TilewrightError, MemoryError) as error:
            if getattr(error, "kind", "") != "limit":
                return None
            if self.proposals.has_smaller:
                raise _TakesLong from None
            raise clock.spent() from None
        lengths = {name: max(1, -(-reach.ends.get(name, 0) // array.itemsize)) for name, array in asked.items()}
        places = (ReachedArray(name, array.itemsize, array.dtype.kind in "iu", (*reach.places.get(name, {}).values(),))
                  for name, array in asked.items())  # fmt: skip
        return _Look(lengths, coverage.as_data, tuple(places))


def _integers(args: Iterable[ArgumentSpec]) -> Iterator[int]:
    """The whole numbers among arguments, and in structures."""
    for spec in args:
        if isinstance(spec.value, tuple):
            yield from _integers(spec.value)
        elif (number := spec.number) is not None and number == int(number):
            yield int(number)


def _names_of_integers(kernel: LoadedKernel) -> Iterator[str]:
    """What the whole numbers among a kernel's parameters are called, and in structures."""
    for param in kernel.written:
        yield from (member.name for member in param.fields if member.kind in INTEGERS)
        if not (param.is_pointer or param.fields) and number_name(param.type) in INTEGERS:
            yield param.name


def _kind(launch: Launched, name: str) -> str:
    """The type of the elements of an argument's array, "" of any other argument."""
    values = (spec.value for spec in launch.request.args if spec.name == name)
    return next((value.kind for value in values if isinstance(value, ArraySpec)), "")


def _is_before(error: SimulationError) -> bool:
    """Does it tell of nothing but accesses in front of arrays, which no room makes right?"""
    return all(finding.kind == "bounds" and finding.numbers.get("last", 0) < 0 for finding in error.findings)


def _is_cut(word: str, text: str) -> bool:
    """Does a text divide a size by a constant, or shift it, as vectors or lanes do?"""
    return bool(re.search(rf"(?<![\w.]){re.escape(word)}\s*(?:/|%|>>)\s*[\dA-Z]", text))


def _differing(spec: ArgumentSpec, other: ArgumentSpec, param: Parameter | Field) -> Iterator[str]:
    """The parameter, or the members of a structure, whose numbers differ."""
    if isinstance(spec.value, tuple) and isinstance(other.value, tuple):
        inner = param.fields if isinstance(param, Parameter) else param.inner
        for part, like, member in zip(spec.value, other.value, inner, strict=False):
            yield from _differing(part, like, member)
    elif spec.number != other.number:
        yield param.name


def _resized(spec: ArgumentSpec, lengths: Mapping[str, int]) -> ArgumentSpec:
    """An argument with arrays of these lengths: those of a structure are ``g.0``, ``g.1``, in their order."""
    if not isinstance(spec.value, tuple):
        return spec.resized(lambda _: lengths.get(spec.name or ""))
    every = iter([length for place, length in lengths.items() if place.partition(".")[0] == spec.name])
    return spec.resized(lambda _: next(every, None))


def _with_room(room: int) -> Callable[[ArraySpec], int | None]:
    """The length of an array of which nobody has said the elements one by one."""
    return lambda array: None if array.fill.how == "list" else room
