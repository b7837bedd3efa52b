"""What is proposed for the launches of a file, sizes and arguments that follow from none, and the ways to change it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.argument_spec import ArraySpec, Fill, SaidByOptions
from tilewright.cli.arguments import Request, kernel_of
from tilewright.cli.clock import KernelClock
from tilewright.cli.launching import Lacks, Launched, Named, is_small, launches_said
from tilewright.cli.spreading import spread
from tilewright.errors import ArgumentError, TilewrightError
from tilewright.load import LoadedKernel, LoadedModule
from tilewright.load.cu_guards import choice_of, has_vectors, holds_addresses, multiple_of
from tilewright.load.cu_tensors import is_tensor

if TYPE_CHECKING:
    from tilewright.load.cu_numbers import Number

MANY = 1024  # times a size, by which the CTAs of a launch grow that depend on it
BLOCKS = (32, 64, 256, 16, 512, 8)  # threads along an axis, where those that are proposed leave shared memory
SIDES = (32, 128, 256, 16, 512)  # of all sizes, where a launch with the first ones fails
ADDRESSES = ("int64", "uint64")  # of elements that may be addresses
FEWEST = 4  # what a size becomes where a run takes long, of one that decides on no extent of a launch before others
LEAST = 16  # that sizes become
CTAS = 16  # of a launch whose run takes long, before loops in it become short
_EXTENT = re.compile(r"\.size\(\d+\)$")  # of a tensor, by its place


@dataclass(frozen=True)
class Proposals:
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
    def of_launch(self) -> frozenset[str]:
        """The names that decide on an extent of a launch."""
        return self.of_grid | self.of_block | self.of_shared

    @property
    def has_vectors(self) -> bool:
        return has_vectors(self.module.texts, divided=True)

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

    def with_a_grid(self) -> Proposals:
        """The same with larger sizes of those that the CTAs depend on, where these leave none, as of an image."""
        if not self.launches()[1].what:
            return self
        ways = (self.with_sizes(self.of_grid & self.options.sizes.keys(), side) for side in SIDES)
        return next((way for way in ways if not way.launches()[1].what), self)

    def possible(self) -> Proposals:
        """The same with sizes for which no launch fails, if there are some: of threads alone, or of all."""
        others = (self.with_sizes(self.extents, side) for side in SIDES)
        return next((way for way in chain([self], self.of_other_blocks(), others) if way._is_possible()), self)

    def of_other_blocks(self) -> Iterator[Proposals]:
        """The same with other numbers of threads, where these are proposed, and GPUs take them."""
        names = self.of_block & self.options.sizes.keys()
        ways = (self.with_sizes(names, threads) for threads in BLOCKS if names)
        return (way for way in ways if way._is_possible())

    @property
    def extents(self) -> set[str]:
        """The names of proposed sizes but those of an axis, a group or a window, which stay as they are."""
        texts = self.module.texts
        return {name for name in self.options.sizes if not is_small(name) and choice_of(texts, name) is None}

    def in_multiples(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes, rounded up to what host code asks them to be multiples of."""
        place = "multiples", *sorted(sizes)
        if place not in self.read:
            self.read[place] = {name: multiple_of(self.module.texts, name) for name in sizes}
        return {name: -(-size // self.read[place][name]) * self.read[place][name] for name, size in sizes.items()}

    def with_sizes(self, names: Iterable[str], size: int) -> Proposals:
        sizes = {**self.options.sizes, **dict.fromkeys(self._with_extents(names), size)}
        return replace(self, options=replace(self.options, sizes=self.in_multiples(sizes)))

    def with_two_ctas(self, names: Iterable[str]) -> Proposals:
        """The same with twice as much of the sizes that give an axis of the grid its only CTA and then a second one."""
        way = self
        for name in names:
            twice = way.with_sizes([name], 2 * self.options.sizes[name])
            if any(ctas == 1 < more for ctas, more in zip(way.grid(), twice.grid(), strict=False)):
                way = twice
        return way

    def with_ranges(self, length: int) -> Proposals:
        """The same with ranges of so many elements, where these are proposed."""
        args = tuple(spec.filled(lambda fill: replace(fill, numbers=(length,)) if fill.how == "steps" else fill)
                     for spec in self.options.args)  # fmt: skip
        return replace(self, options=replace(self.options, args=args))

    def _with_extents(self, names: Iterable[str]) -> set[str]:
        """The names and, of an extent of a tensor that goes along with its sizes, those of the other tensors there."""
        every = {*names}
        if any(tensors_of(kernel) for _, kernel in self.kernels):
            places = {place[0] for name in every if (place := _EXTENT.search(name))}
            every |= {name for name in self.options.sizes if (place := _EXTENT.search(name)) and place[0] in places}
        return every

    def with_like_extents(self) -> Proposals:
        """The same with tensors of one shape where they go along with their sizes, if that can be launched."""
        first = self.of_block | self.of_shared
        way = self
        for name in sorted(self.options.sizes, key=lambda name: name in first):
            if len(self._with_extents([name])) > 1:
                way = way.with_sizes([name], self.options.sizes[name])
        return way if way._is_possible() else self

    def _is_possible(self) -> bool:
        launches, lacks = self.launches()
        return not lacks.what and not any(launch.error for launch in launches)

    def of(self, launch: Launched) -> Proposals:
        """The same for one launch alone."""
        return replace(self, only=launch.request.kernel)

    def smaller(self) -> Proposals:
        """The same with smaller sizes, first with few CTAs, then those that decide on no extent of a launch, at last
        those that do; and, but with few CTAs, shorter ranges.
        """
        kept = self._with_extents(self.of_block | self.of_shared)
        of_grid = self._with_extents(filter(self.decides_grid, self.options.sizes))
        less = max(1.0, prod(self.grid()) / CTAS) ** (1 / max(1, len(of_grid - kept)))
        few = {name: max(int(size / less), min(size, FEWEST)) if name in of_grid - kept else size
               for name, size in self.options.sizes.items()}  # fmt: skip
        inner = {name: FEWEST for name, size in self.options.sizes.items()
                 if size > FEWEST and name not in kept | of_grid}  # fmt: skip
        quarters = {name: size if name in self.of_shared else max(size // 4, min(size, LEAST))
                    for name, size in self.options.sizes.items()}  # fmt: skip
        fewest = {name: min(size, FEWEST) if name in of_grid - kept else size
                  for name, size in self.options.sizes.items()}  # fmt: skip
        few, quarters, fewest = map(self.in_multiples, (few, quarters, fewest))
        steps = few, self.in_multiples({**self.options.sizes, **inner}), quarters, fewest
        sizes = next((step for step in steps if step != self.options.sizes), quarters)
        args = (spec.filled(_quartered) if sizes != few else spec for spec in self.options.args)
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

    def spread(self) -> Proposals:
        """The same with strides that let no rows meet."""
        kernel = kernel_of(self.module, self.launch().request)
        options = spread(self.options, kernel, lambda options: replace(self, options=options).launch(), self.of_launch,
                         self.of_shared)  # fmt: skip
        return replace(self, options=options)

    def names_of(self, launch: Launched) -> set[str]:
        """The parameters of a launch that are proposed."""
        proposed = {spec.name for spec in self.options.args} | self._loosely_allocated
        names = (spec.name for spec in launch.request.args if spec.name)
        return {name for name in names if name in proposed or launch.around.words.get(name, "") in proposed}

    @property
    def _loosely_allocated(self) -> set[str]:
        """The arrays that host code allocates by proposed sizes which decide on nothing else of the only launch."""
        place = "allocated", self.only, *self.options.sizes.items()
        if place not in self.read:
            try:
                launch = self.launch()
                names = {name for size in self.options.sizes for name in self._longer_alone(launch, size)}
                self.read[place] = names - tensors_of(kernel_of(self.module, launch.request))
            except TilewrightError:
                self.read[place] = set[str]()
        loose: set[str] = self.read[place]
        return loose

    def _longer_alone(self, launch: Launched, size: str) -> set[str]:
        """The arrays that are longer with twice a size, if nothing else is other with it."""
        base, twice = launch.request, self.launch(**{size: 2 * self.options.sizes[size]}).request
        pairs = [(spec, other) for spec, other in zip(base.args, twice.args, strict=True) if spec != other]
        is_alike = base.launch == twice.launch
        arrays = {spec.name for spec, _ in pairs if isinstance(spec.value, ArraySpec) and spec.name}
        return arrays if is_alike and len(arrays) == len(pairs) else set()

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

    def decides_grid(self, name: str) -> bool:
        """Does a size decide how many CTAs the only launch has?"""
        if name not in self.of_grid:
            return False
        place = self.only, name
        if place not in self.read:
            self.read[place] = self.grid() != self.grid(**{name: self.options.sizes[name] * MANY})
        return bool(self.read[place])


def tensors_of(kernel: LoadedKernel) -> set[str]:
    """The parameters of a kernel that are tensors whose sizes go along, which it sees."""
    return {param.name for param in kernel.written if is_tensor(param.type)}


def _quartered(fill: Fill) -> Fill:
    """A fill that says where ranges begin, with a quarter of the elements in each; any other fill itself."""
    return replace(fill, numbers=(max(int(fill.numbers[0]) // 4, LEAST),)) if fill.how == "steps" else fill
