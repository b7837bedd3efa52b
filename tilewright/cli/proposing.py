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
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.argument_spec import FILLS, ZEROS, ArgumentSpec, ArraySpec, Fill, SaidByOptions
from tilewright.cli.arguments import Request, arguments_of, kernel_of
from tilewright.cli.branching import in_other_branches
from tilewright.cli.clock import KernelClock
from tilewright.cli.launching import Launched, check_sizes, kernels_asked_for, launches_of, launches_said
from tilewright.cli.lengths import ReachedArray, Sizes, lengths_held
from tilewright.cli.members import INTEGERS
from tilewright.cli.proposals import ADDRESSES, CTAS, Proposals, tensors_of
from tilewright.cli.rounding import ODD, RoundedSizes
from tilewright.errors import SimulationError, TilewrightError
from tilewright.explain import WAITING, Finding
from tilewright.host import Limits
from tilewright.load import LoadedKernel, LoadedModule
from tilewright.load.cu_guards import (
    asks_for_32_bits,
    asks_for_multiples,
    choice_of,
    compares,
    divisor_of,
    first_of,
    guards,
    has_vectors,
    is_count,
    kernel_nodes,
    lets_in,
    only_reads,
)
from tilewright.load.cu_launcher import launcher
from tilewright.load.cu_tree import bare
from tilewright.load.declared import Field, Parameter, number_name
from tilewright.small import coverage_of
from tilewright.terminal import complain
from tilewright.trials import named_arrays

if TYPE_CHECKING:
    from tilewright.load.cu_numbers import Number

ROUNDS = 3  # of proposals: what is known of some arguments may let others be asked for
ROOMS = (1 << 18, 1 << 21, 1 << 24)  # elements of an array whose reach is looked at, more where fewer are not enough
LITTLE, LARGER = 0.25, (256, 1024)  # of the blocks of code; sizes that may reach more than those
LARGER_OF_RINGS = (128, 256, 512, 1024)  # the same where loops have asynchronous copies
_COPIES = re.compile(r"cp\.async|__pipeline_|memcpy_async|cuda::pipeline|cp_async")
NUMBERS = (FILLS["zeros"], FILLS["ramp"])  # of arrays of integers: alike, or all different
TWOS = Fill("value", (2,))  # where both lead out of an array, as a length less one and a place that counts from one
MOST_ELEMENTS = 1 << 28  # of an array: with more sizes become smaller
RESTS = 64  # of which larger sizes leave the same rest
WIDE = 5 << 29  # elements of arrays whose indices have 64 bits: some more than 32 bits count
NO_LENGTHS: Mapping[str, int] = MappingProxyType({})
SECONDS = 1.2  # of the processor, of a run with larger sizes
MANY_CTAS, OF_FEW, OF_MANY = 64, 1.7, 0.3  # times that: of more CTAs than these all checks take far longer, of few not
VECTOR = 4  # elements of most
ODD_VECTORS = 16  # how much less than a multiple a size is where the kernels have vectors
LANES = 32  # of a warp
MANY = 64  # of what is counted, where no size is proposed
MOST_RESTS = 3  # sizes of which a rest of a vector is tried
_MEET = re.compile(r"\b__(?:shfl|ballot|any|all|reduce|match)\w*_sync\b|\b__sync(?:threads|warp)\w*\b|\.sync\(")


def with_proposals(module: LoadedModule, request: Request, file: Path, sizes: Mapping[str, Number]) -> list[Launched]:
    """The launches of a file, as `as_launched` has them; those that lack something have ways to propose it. One that
    cannot be judged says why in its error, where there are others.

    Raises ArgumentError where nothing can be proposed.
    """
    launchers = _launchers(module, request, file, sizes)
    check_sizes(_with_texts(module, launchers.values()), file, sizes)
    if launchers:
        made_up = Proposals(module, request, file, sizes, is_made_up=True)
        alone = {name: _with_texts(module, [text]) for name, text in launchers.items()}
        return _apart([replace(made_up, module=part, request=replace(request, kernel=name), read={})
                       for name, part in alone.items()])  # fmt: skip
    launches, lacks = launches_said(module, request, file, sizes)
    if not lacks.what:
        return [launch.checked() for launch in launches] if len(launches) == 1 else launches
    proposals = Proposals(module, request, file, sizes)
    kernels = kernels_asked_for(module, request, file, sizes)
    try:
        return _with_ways(proposals, in_branches=request.kernel is None)
    except TilewrightError:
        if len(kernels) == 1:
            raise
    return _apart([replace(proposals, request=replace(request, kernel=name), read={}) for name, _ in kernels])


def _apart(parts: Sequence[Proposals]) -> list[Launched]:
    """The launches of kernels, each with proposals of its own. Raises TilewrightError of the only one."""

    def launches_of(proposals: Proposals) -> list[Launched]:
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


def _with_ways(proposals: Proposals, *, in_branches: bool = False) -> list[Launched]:
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
        options = replace(options, sizes=proposals.in_multiples({**options.sizes, **chosen}))
        proposals = replace(proposals, options=options, of_grid=proposals.of_grid | lacks.of_grid,
                            of_block=proposals.of_block | lacks.of_block,
                            of_shared=proposals.of_shared | lacks.of_shared).with_a_grid().possible()  # fmt: skip
        launches, lacks = proposals.launches()
    if lacks.what:
        asked.check(proposals.file)
    numbers = {**proposals.sizes, **proposals.options.sizes, **proposals.fixed}
    proposals.read["kernels"] = kernels_asked_for(proposals.module, proposals.request, proposals.file, numbers)
    proposals = proposals.with_like_extents()
    launches = proposals.launches()[0]
    launched = [replace(launch, ways=partial(_ways, proposals.of(launch))) for launch in launches]
    return [*launched, *(_in_branches(proposals) if in_branches else ())]


def _in_branches(proposals: Proposals) -> list[Launched]:
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


def _sized(proposals: Proposals) -> list[_Sized]:
    """The launch with each fill, and with strides apart where arrays have room for such rows."""
    spread = proposals.spread()
    apart = [_Sized(spread, fill) for fill in NUMBERS]
    if spread.options == proposals.options or apart[0].look.reach:
        return apart
    return [_Sized(proposals, fill) for fill in NUMBERS]


def _alike(number: int, _: Fill) -> Fill:
    return Fill("value", (number,))


def _begun(proposals: Proposals) -> list[_Sized]:
    """The same with arrays of integers that begin with what the kernel asks their elements for, as ``-1`` of a node
    that nobody has been to, and numbers that another kernel counts, where so much more of the code is reached.
    """
    sized, texts = _sized(proposals), proposals.module.texts
    request = sized[0].launch.request
    text = "\n".join(tree.of(node) for tree, node in kernel_nodes(texts, bare(request.kernel or "")))
    many = min((size for name, size in proposals.options.sizes.items() if name in proposals.extents), default=MANY)

    def first(name: str) -> int | None:
        asked = first_of(texts, name)
        return asked if asked is not None or not is_count(text, name) else many

    firsts = {spec.name: number for spec in proposals.options.args if ZEROS.how in spec.fills and spec.name
              and (number := first(spec.name)) is not None}  # fmt: skip
    if not firsts:
        return sized
    args = (spec.filled(partial(_alike, firsts[spec.name])) if spec.name in firsts else spec
            for spec in proposals.options.args)  # fmt: skip
    begun = _sized(replace(proposals, options=replace(proposals.options, args=tuple(args)), read={}))
    reached = [way[0].look.coverage.get("reached", 0) for way in (begun, sized)]
    return begun if reached[0] > reached[1] else sized


def _reaching_more(proposals: Proposals, sized: list[_Sized]) -> list[_Sized]:
    """The same with larger sizes of those that decide on no extent of the launch, and longer ranges, where little of
    the code is reached and these reach more: a row may be shorter than a group of it. Loops in which threads meet are
    to go round more than once, as the next turn finds what one lacks, and those of asynchronous copies more than that.
    """
    coverage, kept = sized[0].look.coverage, proposals.of_launch
    reached, names = coverage.get("reached", 0), proposals.extents - kept
    is_copying = any(map(_COPIES.search, proposals.module.texts))
    is_little = reached < LITTLE * coverage.get("blocks", 0)
    if not (is_copying or is_little or sized[0].look.turns_once):
        return sized
    best, is_turning = sized, False
    sides = LARGER_OF_RINGS if is_copying else LARGER
    longer = proposals.with_ranges(prod(sized[0].launch.request.block or ()) + MANY)
    with suppress(_TakesLong):
        for way in (longer, *(proposals.with_sizes(names, side).with_ranges(side) for side in sides)):
            with suppress(TilewrightError):
                if way.options == proposals.options:
                    continue
                other = _sized(way)
                reached = other[0].look.coverage.get("reached", 0) - best[0].look.coverage.get("reached", 0)
                if reached > 0 or (is_turning and not reached):  # as many blocks again: rings go round
                    best, is_turning = other, reached > 0
                    if not is_copying:
                        break
    return best


def _with_short_steps(proposals: Proposals, sized: list[_Sized]) -> list[_Sized]:
    """The same with ones of the sizes that the kernel compares with nothing, as shifts and levels, where these lead it
    in front of an array and ones do not: they may have to be less than others.
    """
    if not sized[0].look.leads_before:
        return sized
    texts, title = proposals.module.texts, sized[0].launch.request.kernel or ""
    kept = proposals.of_launch
    steps = [name for name in proposals.options.sizes.keys() - kept
             if compares(texts, title, proposals.words(name)) is False]  # fmt: skip
    with suppress(_TakesLong, TilewrightError):
        other = _sized(proposals.with_sizes(steps, 1)) if steps else sized
        if other[0].look.is_known and not other[0].look.leads_before:
            return other
    return sized


def _is_known(ways: Sequence[_Sized]) -> bool:
    return ways[0].look.is_known


class _TakesLong(Exception):
    """A run with the proposed sizes takes longer than it may."""


def _ways(proposals: Proposals, clock: KernelClock) -> Iterator[Launched]:
    """A launch with arrays as long as it reaches: with numbers in them that reach most of the code, and then with
    others. clock: of its kernel.
    """
    proposals = replace(proposals, clock=clock).possible()
    proposals.check_addresses()
    whole = proposals.of_grid - proposals.of_block - RoundedSizes(proposals).rounded().keys()
    proposals = proposals.with_two_ctas(sorted(whole & proposals.options.sizes.keys()))
    while True:
        try:
            sized = _begun(proposals)
            if not sized[0].look.is_known:
                sized = next(filter(_is_known, map(_sized, proposals.of_other_blocks())), sized)
            sized = _with_short_steps(proposals, _reaching_more(proposals, sized))
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
            yield from (way.of_twos() for way in ranked[1:])
        return


@dataclass(frozen=True)
class _Look:
    """What a run shows: how many elements of arrays it reaches, also by each place in the text, and blocks of code.
    leads_before: has it reached in front of an array? turns_once: does a loop in which threads meet?
    """

    reach: Mapping[str, int]
    coverage: Mapping[str, Any]
    arrays: Sequence[ReachedArray] = ()
    leads_before: bool = False
    turns_once: bool = False

    @property
    def accesses(self) -> int:
        """The places of the code that have accesses of arrays."""
        return sum(len(array.places) for array in self.arrays)

    @property
    def is_known(self) -> bool:
        """Was there room enough?"""
        return bool(self.coverage)


@dataclass(frozen=True)
class _Sized:
    """A launch whose arrays are to be as long as it reaches. fill: of proposed arrays of integers that are only read.
    looks: what runs have shown, by their grids and arguments.
    """

    proposals: Proposals
    fill: Fill
    looks: dict[Any, _Look] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def rounded(self) -> dict[str, tuple[int, int]]:
        return RoundedSizes(self.proposals).rounded()

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
            divisor = divisor_of(self.proposals.module.texts, name)
            odd[name] = size - by // divisor * divisor if by >= divisor else size - divisor % width
        return odd

    @cached_property
    def tails(self) -> dict[str, int]:
        """The sizes that host code rounds up to vectors, ``(n / 4 + 255) / 256`` with one vector more for a rest, as no
        multiples of these: there is a part of a vector.
        """
        threads = prod(self.launch.request.block or ())
        vectors = {name: size for name, (size, width) in self.rounded.items()
                   if width in (2 * threads, 4 * threads, 8 * threads) and name not in self.unguarded}  # fmt: skip
        alone = self.proposals.has_vectors and {*vectors.values()} and not self.proposals.is_made_up
        return {name: size - ODD for name, size in vectors.items() if divisor_of(self.proposals.module.texts, name) == 1
                } if alone else {}  # fmt: skip

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
        return proposed - tensors_of(kernel)

    @cached_property
    def _reaches(self) -> tuple[Mapping[str, int], dict[str, Mapping[str, int]]]:
        """How far the launch reaches with multiples, and with twice each."""
        return self._look(self.whole).reach, {name: self._look(launch).reach for name, launch in self.grown.items()}

    @cached_property
    def wide(self) -> Launched | None:
        """The launch with more elements than 32 bits count, where host code rounds up sizes that the kernel takes as
        numbers of 64 bits, no text asks whether they are less, and the lengths of all arrays follow from sizes.
        """
        proposals = self.proposals
        kernel = kernel_of(proposals.module, self.launch.request)
        of_64_bits = {param.name for param in kernel.written if number_name(param.type) in ADDRESSES}
        names = [name for name, (_, width) in self.rounded.items() if width and of_64_bits & {*self._words(name)}]
        if not names or self.unguarded or asks_for_32_bits(proposals.module.texts):
            return None
        request = self.launch.request
        values = [int(spec.number or 0) for spec in request.args if spec.name in of_64_bits]
        larger = (WIDE / max(*values, prod(request.grid) * prod(request.block or ()))) ** (1 / len(names))
        more = {name: int(self.sizes[name] * (larger - 1)) // RESTS * RESTS for name in names}  # as even, too
        sizes = {**self.sizes, **{name: self.sizes[name] + many for name, many in more.items()}}
        arrays = proposals.names_of(self.launch)
        if not arrays & {name for name, kind in self._kinds.items() if kind} <= self._scaled(self.sizes).keys():
            return None
        with suppress(TilewrightError):
            return self._with_lengths(self._filled(proposals.launch(**sizes)), self.look.reach, sizes)
        return None

    @property
    def cut(self) -> Iterator[Finding]:
        """A warning of a size that host code rounds down to whole CTAs, though the kernel has a guard for the rest."""
        proposals, title = self.proposals, self.launch.request.kernel or ""
        sizes = RoundedSizes(proposals).cut() if not proposals.is_made_up else {}
        for name, (size, ctas) in sizes.items():
            if guards(proposals.module.texts, title, proposals.words(name)):
                what = (
                    f"this launch of {title} leaves out the last part of {name}, as host code rounds down to whole CTAs"
                )
                yield Finding("results", what, "warning", str(proposals.file), self.launch.around.line,
                              given=f"{ctas} CTAs where {name} is {size}, and a guard in the kernel for a part of one",
                              hint="rounded up: (n + threads - 1) / threads")  # fmt: skip
                return

    @property
    def _kinds(self) -> dict[str, str]:
        """The types of the elements of arrays."""
        return {spec.name: _kind(self.launch, spec.name) for spec in self.launch.request.args if spec.name}

    def proposed(self) -> Launched:
        """The launch with such arrays, which says what of it is proposed."""
        held = self._held(self.launch)
        launch = self._with_lengths(self.launch, {**self.look.reach, **self.beyond}, self.sizes, held)
        parts = (part for spec in launch.request.args for part in spec.parts)
        many = max((prod(part.extents) for part in parts if isinstance(part, ArraySpec)), default=0)
        if self.proposals.has_smaller and many > MOST_ELEMENTS:
            raise _TakesLong
        if not held and self.multiples and (held := self._held(self.whole)):
            return self._with_lengths(self.whole, self._look(self.whole).reach, self.multiples, held)
        if self.look.is_known and (uneven := self._uneven_sizes()):
            other = self._filled(self.proposals.launch(**{**self.sizes, **uneven}))
            launch = replace(launch, uneven=self._with_lengths(other, self.look.reach, {**self.sizes, **uneven}))
        if self.look.is_known:
            launch = replace(launch, wide=self.wide, cut=(*self.cut,))
        if self.look.is_known and (rests := {**self.tails, **self.rests}):
            other = self._filled(self.proposals.launch(**{**self.sizes, **rests}))
            tail = self._with_lengths(other, self.look.reach, {**self.sizes, **rests})
            launch = replace(launch, tail=replace(tail, has_rest=self._reaches_more(rests)))
        if not self.unguarded or not self.look.is_known:
            return launch
        other = self._filled(self.proposals.launch(**self.odd))
        widths = {name: width for name, width in self.unguarded.items()}
        return replace(launch, unguarded=self._with_lengths(other, self.look.reach, self.odd), multiples=widths)

    def of_twos(self) -> Launched:
        """The launch with twos in its arrays of integers, and with no other sizes beside."""
        return replace(replace(self, fill=TWOS, looks={}).proposed(), wide=None, uneven=None, tail=None)

    @cached_property
    def rests(self) -> dict[str, int]:
        """The sizes that decide on no CTA and have vectors, as no multiples of these, where the kernel has code for a
        rest that is reached then alone.
        """
        proposals, texts = self.proposals, self.proposals.module.texts
        if not has_vectors(texts):
            return {}
        kept, is_shared_out = proposals.of_launch | self.multiples.keys(), RoundedSizes(proposals).is_shared_out
        names = [name for name, size in proposals.options.sizes.items() if name in proposals.extents - kept
                 and not size % VECTOR and size > VECTOR and not asks_for_multiples(texts, name)
                 and divisor_of(texts, name) == 1 and not is_shared_out(name)]  # fmt: skip
        less = {name: proposals.options.sizes[name] - ODD for name in names[:MOST_RESTS]}
        return {name: size for name, size in less.items() if self._reaches_more({name: size})}

    def _reaches_more(self, sizes: Mapping[str, int]) -> bool:
        """Does the launch come to more accesses of its arrays with other sizes?"""
        with suppress(_TakesLong, TilewrightError):
            look = self._look(self._filled(self.proposals.launch(**{**self.sizes, **sizes})))
            return look.is_known and look.accesses > self.look.accesses
        return False

    def _uneven_sizes(self) -> dict[str, int]:
        """Sizes that decide on no CTA, as no multiples of a warp's lanes, where these meet and nothing divides them."""
        proposals, texts = self.proposals, self.proposals.module.texts
        if has_vectors(texts) or not meets(texts):
            return {}
        kept = proposals.of_launch | self.multiples.keys()
        is_shared_out = RoundedSizes(proposals).is_shared_out
        sizes = {name: size for name, size in proposals.options.sizes.items() if name not in kept and not size % LANES
                 and size > 0 and not asks_for_multiples(texts, name) and not is_shared_out(name)
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
        texts, title = self.proposals.module.texts, launch.request.kernel or ""
        read = {param.name for param in kernel.written if param.name in proposed and (param.fields or (
                param.element in INTEGERS and ("const" in param.type.partition("*")[0]
                                               or only_reads(texts, title, param.name))))}  # fmt: skip
        args = (spec.filled(lambda fill: self.fill if fill in NUMBERS else fill) if spec.name in read else spec
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
        whole = tensors_of(kernel)
        args = (spec if spec.name in whole else spec.resized(_with_room(room)) for spec in launch.request.args)
        request = replace(launch.request, args=tuple(args))
        values = arguments_of(kernel, request, np.random.default_rng(request.seed))
        arrays = named_arrays(kernel, dict(zip(kernel.parameters, values, strict=True)))
        asked = {name: array for name, array in arrays.items() if name.partition(".")[0] in proposed
                 and isinstance(array, np.ndarray) and array.size == room}  # fmt: skip
        clock = self.proposals.clock or KernelClock()
        ctas = prod(launch.request.grid)
        seconds = SECONDS * (OF_FEW if ctas <= 2 * CTAS else OF_MANY if ctas > MANY_CTAS else 1)
        limits = Limits(clock.within(seconds if self.proposals.has_smaller else None))
        before = list[bool]()

        def spares(error: SimulationError) -> bool:
            before.append(_is_before(error))
            return before[-1]

        try:
            reach = coverage_of((kernel, values, request.launch), limits, spares)
        except (TilewrightError, MemoryError) as error:
            if getattr(error, "kind", "") != "limit":
                return None
            if self.proposals.has_smaller:
                raise _TakesLong from None
            raise clock.spent() from None
        lengths = {name: max(1, -(-reach.ends.get(name, 0) // array.itemsize)) for name, array in asked.items()}
        places = (ReachedArray(name, array.itemsize, array.dtype.kind in "iu", reach.places.get(name, ()))
                  for name, array in asked.items())  # fmt: skip
        return _Look(lengths, reach.as_data, tuple(places), any(before), reach.turns_once)


def _integers(args: Iterable[ArgumentSpec]) -> Iterator[int]:
    """The whole numbers among arguments, and in structures."""
    for spec in args:
        if isinstance(spec.value, tuple):
            yield from _integers(spec.value)
        elif (number := spec.number) is not None and number == int(number):
            yield int(number)


def meets(texts: Sequence[str]) -> bool:
    """Do threads or lanes of the texts' kernels meet?"""
    return any(map(_MEET.search, texts))


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
    """Does it tell of nothing but accesses in front of arrays, which no room makes right, or of threads that wait?"""
    return error.kind in WAITING or all(
        finding.kind == "bounds" and finding.numbers.get("last", 0) < 0 for finding in error.findings
    )


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
