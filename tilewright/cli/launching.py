"""How the host code of a .cu file launches its kernels: what it says is taken, what it lacks is asked for by name.

Arrays have the sizes of their allocations, and what simple host code puts into them; where that is not known floats are
random, integers that host code copies small, others zeros.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations, zip_longest
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.argument_spec import (
    ALLOWED,
    FILLS,
    RANDOM,
    SHORT,
    TYPES,
    ZEROS,
    ArgumentSpec,
    ArraySpec,
    Fill,
    MapSpec,
    Null,
    SaidByOptions,
    Same,
    Value,
)
from tilewright.cli.arguments import Request, arguments_of, example, for_number, is_texture, kernel_of, texture
from tilewright.cli.members import INTEGERS, members_lacking, members_unsaid
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, SimulationError, Span, TilewrightError, choices
from tilewright.explain import Finding
from tilewright.load import LoadedKernel, LoadedModule
from tilewright.load.cu_allocations import first_home, variables_set
from tilewright.load.cu_contents import array_of, contents, map_of
from tilewright.load.cu_guards import holds_ranges
from tilewright.load.cu_host import parts_of
from tilewright.load.cu_launches import LaunchShape, launched
from tilewright.load.cu_life import HostAround, by_launches, filled_with, is_copied_to, launch_loop, set_in_part, unset
from tilewright.load.cu_numbers import is_name, type_bytes
from tilewright.load.cu_tensors import is_tensor
from tilewright.load.cu_tree import bare, example_of, split, template_names
from tilewright.load.declared import POINTER, Field, Parameter, number_name
from tilewright.small import Launch, smaller_grid, smallest

if TYPE_CHECKING:
    from tilewright.cli.clock import KernelClock
    from tilewright.load.cu_host import Host
    from tilewright.load.cu_numbers import Number

_POINTEES = {"half": "f16", "__half": "f16", "half2": "f16", "__half2": "f16", "nv_half": "f16", "Half": "f16",
             "BFloat16": "bf16", "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16", "__nv_bfloat162": "bf16",
             "float2": "f32", "float3": "f32", "float4": "f32", "double2": "f64", "int2": "i32", "int3": "i32",
             "int4": "i32", "uint2": "u32", "uint3": "u32", "uint4": "u32"}  # fmt: skip
NULL_WORDS = ("nullptr", "NULL", "0")
_OF_TENSOR = re.compile(r"\.\w+\(-?\d*\)$")  # ``x.size(0)``
SMALL = Fill("ramp", source="*")  # integers that host code copies: 0, 1, ..., below the size of the smallest array
NOTHING_SAID = SaidByOptions()
SOME_THREADS = SaidByOptions(launch={"grid": (4,), "block": (256,)})
THREADS = 128  # of a block, where the text does not say it
SHARED = 48 << 10  # bytes of shared memory, or elements of it, where the text does not say them
RANGES = 1 << 12  # elements of an array that ranges are of, all together
_OF_WINDOWS = re.compile(r"^k(?:ernel)?_?(?:size|[hwds])$|ksize|kernel_|radius|window|filter", re.IGNORECASE)
MADE = {"zeros": "zeros", "ones": "ones", "rand": "uniform"}  # how a tensor was made, and what it holds
_STEPS = re.compile(r"pad|stride|dilat|group", re.IGNORECASE)  # beside windows: 1 is a plain choice
_WINDOW = 3  # elements of a side of a window
_OF_GROUPS = re.compile(r"^(?:n|num)?_?groups?$", re.IGNORECASE)
GROUPS = 4  # into which other sizes are divided
FEW_NAMES = 6  # of parameters that are told with their types
FEW = 32  # elements of an array in which integers of another one are no places
MOST_ELEMENTS = 1 << 24  # of an array that is suggested


@dataclass
class Lacks:
    """What the host code of a file does not say. what: sentences, with the lines where they hold. options: those of
    them that would say it and follow from no size; numbers: names of host code that do, and whether arguments depend on
    them; of_block: those that the threads of a block depend on, of_grid: those that the CTAs do, of_shared: those that
    only the shared memory does; arrays: pointers, and the names of the integers that lack beside each; ranges: those of
    them that hold where ranges begin; rank: the most extents of a tensor that is passed with its sizes, 2 of
    a structure with several.
    """

    what: dict[str, list[int]] = field(default_factory=dict)
    options: SaidByOptions = NOTHING_SAID
    numbers: dict[str, bool] = field(default_factory=dict)
    of_block: set[str] = field(default_factory=set)
    of_shared: set[str] = field(default_factory=set)
    of_grid: set[str] = field(default_factory=set)
    arrays: dict[str, tuple[Parameter, int, set[str]]] = field(default_factory=dict)
    ranges: set[str] = field(default_factory=set)
    rank: int = 0

    def add(self, what: str, line: int = 0, options: SaidByOptions = NOTHING_SAID) -> None:
        lines = self.what.setdefault(what, [])
        lines += [line] * (line not in lines)
        self.options = self.options.joined(options)

    def add_number(self, name: str, *, is_argument: bool) -> None:
        self.numbers[name] = self.numbers.get(name, False) or is_argument

    def add_array(self, param: Parameter, elements: int, beside: set[str]) -> None:
        """A pointer, with the elements that known integers ask for, and the names of those that are not known."""
        if param.name not in self.arrays or len(beside) > len(self.arrays[param.name][2]):
            self.arrays[param.name] = param, elements, beside

    def add_extents(self, kernel: LoadedKernel, shape: LaunchShape, names: Sequence[str]) -> None:
        """A launch whose extents are not said. names: those that say them."""
        needed = {name for names in shape.needs.values() for name in names}
        for name in names:
            self.add_number(name, is_argument=name in needed)
        self.of_block |= shape.of_block
        self.of_shared |= shape.of_shared
        self.of_grid |= shape.of_grid
        is_open = not names and not any("." in name for name in shape.lacks)
        what = f"{kernel.name}<<<...>>>: no value of {', '.join(shape.lacks)}"
        self.add(what, shape.line, SOME_THREADS if is_open else NOTHING_SAID)

    def keep_independent(self, shapes_with: Callable[[Mapping[str, int]], list[LaunchShape | None]]) -> None:
        """Ask for no number that decides on an extent alone and follows from the others."""
        for name in [name for name, is_argument in self.numbers.items() if not is_argument and len(self.numbers) > 1]:
            shapes = shapes_with({other: 64 for other in self.numbers if other != name})
            if not any(shape is None or name in shape.lacks for shape in shapes):
                del self.numbers[name]

    def proposed(self) -> SaidByOptions:
        """Options that would say it: arrays have room for the sizes that are proposed beside them."""
        side = 64 if self.rank or any(len(beside) > 1 for _, _, beside in self.arrays.values()) else 1024
        side = side >> max(0, min(self.rank, 4) - 2)
        arrays = (ArgumentSpec(param.name, self._fitting(param, side)) for param, _, _ in self.arrays.values())
        sizes = {name: self._size(name, side if is_argument else SHARED if name in self.of_shared else 4)
                 for name, is_argument in self.numbers.items()}  # fmt: skip
        return SaidByOptions((*arrays,), sizes).joined(self.options)

    def _fitting(self, param: Parameter, side: int) -> ArraySpec:
        """An array for a pointer, where sizes beside it are ``side``."""
        _, elements, beside = self.arrays[param.name]
        is_windowed = any(_OF_WINDOWS.search(name) for name in beside)
        sides = [name for name in beside if not (is_windowed and _small(name))]
        room = _WINDOW**2 if is_windowed and "const" not in param.type else 1
        many = min(elements * side ** min(len(sides), 3) * room, MOST_ELEMENTS) if beside else elements
        if param.name in self.ranges:
            return replace(sample_of(param, many + 1), fill=Fill("steps", (RANGES // side,)))
        return sample_of(param, max(many, RANGES) if self.ranges else many)

    def _size(self, name: str, most: int) -> int:
        """A value of a name of host code. most: of one that is neither a block nor a window."""
        if name in self.of_block:
            return THREADS
        small = any(map(_OF_WINDOWS.search, self.numbers)) and _small(name)
        return small or (min(most, GROUPS) if _OF_GROUPS.search(name) else most)

    def check(self, file: Path) -> None:
        """Raises ArgumentError if anything is lacking."""
        if self.what:
            said = (f"{_lines(lines)}{what}" for what, lines in self.what.items())
            raise ArgumentError(f"{file.name} does not say all that its launches take", given="\n".join(said),
                                allowed=ALLOWED, hint=self.proposed().hint)  # fmt: skip


def _small(name: str) -> int:
    """A value of what a side of a window is called, or a step of it; 0 of any other number."""
    return _WINDOW if _OF_WINDOWS.search(name) else 1 if _STEPS.search(name) else 0


def is_small(name: str) -> bool:
    """Is a number called as groups are, or a side of a window or a step of it?"""
    return bool(_small(name) or _OF_GROUPS.search(name))


def _lines(lines: Sequence[int]) -> str:
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}, " if any(lines) else ""


@dataclass(frozen=True)
class Launched:
    """A request as host code launches it. asked: what was asked for. said: a line that says what the host code has.
    numbers: of names in it that decide on the launch. around: what it does around the launch. homes: of its arrays, by
    which other launches have the same ones. error: why a GPU refuses it. ways: the same with what neither host code
    nor the request says, the likeliest first. Of such a one proposed: options that say it; coverage: the blocks of code
    that it reaches; is_reach_known: are its arrays as long as it reaches? unguarded: the same with other sizes of those
    that its kernel compares with nothing; multiples: of what these are, as it is. loose: those of its arrays whose
    lengths are how far one run has reached, and follow from no size. uneven: the same where sizes that decide on no CTA
    are no multiples of a warp's lanes; tail: where those that host code rounds up to vectors leave a part of one, or
    rows do; has_rest: is that the first launch which comes to some code? wide: where those of 64 bits are more than 32
    bits count. cut: warnings of sizes for whose last part it has no CTA. last: as the last turn of a loop makes it.
    """

    request: Request
    asked: Request
    said: str
    numbers: Mapping[str, int]
    around: HostAround = HostAround()
    homes: Mapping[str, Any] = field(default_factory=dict)
    error: TilewrightError | None = None
    ways: Callable[[KernelClock], Iterator[Launched]] | None = None
    proposed: SaidByOptions = NOTHING_SAID
    coverage: Mapping[str, Any] = field(default_factory=dict)
    is_reach_known: bool = True
    unguarded: Launched | None = None
    multiples: Mapping[str, int] = field(default_factory=dict)
    loose: frozenset[str] = frozenset()
    uneven: Launched | None = None
    has_rest: bool = False
    last: Launched | None = None
    tail: Launched | None = None
    wide: Launched | None = None
    cut: tuple[Finding, ...] = ()

    def longer(self, names: Collection[str]) -> Launched:
        """The same with arrays that are twice as long."""

        def twice(spec: ArgumentSpec) -> ArgumentSpec:
            return spec.resized(lambda array: 2 * prod(array.extents)) if spec.name in names else spec

        request = replace(self.request, args=tuple(map(twice, self.request.args)))
        proposed = replace(self.proposed, args=tuple(map(twice, self.proposed.args)))
        return replace(self, request=request, proposed=proposed)

    def checked(self) -> Launched:
        """Itself. Raises SimulationError where a GPU refuses it."""
        if self.error is not None:
            raise self.error
        return self


def as_launched(module: LoadedModule, request: Request, file: Path, sizes: Mapping[str, Number]) -> list[Launched]:
    """The request with the launch that the file has, for each kernel that it asks for.

    Without a name it asks for the only kernel, or all that the file launches. sizes: values of names of host code.
    Raises ArgumentError where a launch or an argument is neither in the text nor in the request.
    """
    check_sizes(module, file, sizes)
    launches, lacks = launches_said(module, request, file, sizes)
    lacks.check(file)
    return [launch.checked() for launch in launches] if len(launches) == 1 else launches


Named = tuple[str, LoadedKernel]
"""A kernel, by the name by which its module has it."""


def launches_said(
    module: LoadedModule, request: Request, file: Path, sizes: Mapping[str, Number],
    kernels: Sequence[Named] = (), only: str | None = None,
) -> tuple[list[Launched], Lacks]:  # fmt: skip
    """The same, as far as the text and the request say it, and what they do not say. kernels: those that are asked for,
    where that is known. only: the one of them whose launch is wanted.
    """
    every = kernels or kernels_asked_for(module, request, file, sizes)
    lacks, launches, used = Lacks(), list[Launched](), set[ArgumentSpec]()
    asked_of = dict[str, tuple[Parameter, ...]]()
    for name, kernel in every if only is None else _with_first(every, only):
        shape = _shape(module, name, kernel, request, sizes)
        if shape is None:
            lacks.add(f"{kernel.name} is not launched", options=SOME_THREADS)
            continue
        asked = _own(kernel, shape, request.args)
        used |= {*asked.values()}
        written = {spec for spec in request.args if spec.text}
        by_place = bool(written - {*asked.values()}) and len(every) == 1
        is_open = any(param.is_pointer and param.name not in asked and word not in (*shape.allocated, *NULL_WORDS)
                      for param, word in zip(kernel.written, shape.words, strict=False))  # fmt: skip
        first = asked_of.setdefault(bare(kernel.name), tuple(kernel.written)) if is_open or asked else kernel.written
        if [param.type for param in first] != [param.type for param in kernel.written]:
            if is_open or len(first) != len(kernel.written):
                continue  # the arrays that are asked for are those of the first instance
            asked = _retyped(asked, first, kernel.written)
        filled = {} if by_place else _arguments(kernel.written, shape, asked, lacks)
        if shape.lacks:
            lacks.add_extents(kernel, shape, _asked_names(shape))
        args = request.args if by_place else tuple(filled.values())
        launches.append(_launch(module, (name, kernel), shape, replace(request, args=args), asked, file))
    shapes_with = [partial(_shape, module, name, kernel, request) for name, kernel in every if lacks.what]
    lacks.keep_independent(lambda numbers: [shape({**sizes, **numbers}) for shape in shapes_with])
    unused = [spec for spec in request.args if spec.text and spec not in used and only is None and len(every) > 1]
    if unused and not lacks.what:
        allowed = choices(unused[0].name, [param for _, kernel in every for param in kernel.parameters])
        raise ArgumentError(f"no kernel of {file.name} has this argument", given=f"{unused[0]}", allowed=allowed)
    return [launch for launch in launches if only in (None, launch.request.kernel)], lacks


def _with_first(kernels: Sequence[Named], only: str) -> list[Named]:
    """A kernel, behind the first instance of its template, whose arrays are asked for."""
    wanted = next(kernel for name, kernel in kernels if name == only)
    first = next(named for named in kernels if bare(named[1].name) == bare(wanted.name))
    return [first] if first[0] == only else [first, (only, wanted)]


def _launch(
    module: LoadedModule, named: Named, shape: LaunchShape, filled: Request, asked: Mapping[str, ArgumentSpec],
    file: Path,
) -> Launched:  # fmt: skip
    """A launch as host code has it. filled: with all arguments that are known; asked: those of the request itself."""
    (name, kernel), error = named, None
    launch = replace(filled, kernel=name, grid=shape.grid, block=shape.block, cluster=filled.cluster or shape.cluster,
                   shared_bytes=filled.shared_bytes or shape.shared_bytes,
                   globals=(*_variables(module, shape), *filled.globals))  # fmt: skip
    if not shape.lacks:
        error = _refusal(kernel, launch, Span(str(file), shape.line))
    around = host_around(kernel, shape, asked)
    homes = {word: first_home(shape.host, text) for word, text in around.words.items() if shape.host is not None}
    bare_request = replace(filled, kernel=name, args=tuple(asked.values()))
    return Launched(launch, bare_request, _said(file, shape, launch, asked), shape.numbers, around, homes, error)


def check_sizes(module: LoadedModule, file: Path, sizes: Mapping[str, Number]) -> None:
    """Raises ArgumentError for a size of what the host code has no name for."""
    words = {word for text in module.texts for word in re.findall(r"[^\W\d]\w*", text)} if sizes else set()
    for name, size in sizes.items():
        if not words.issuperset(re.split(r"\.|->|::", re.sub(r"\[\w+\]", "", _OF_TENSOR.sub("", name)))):
            every = dict.fromkeys(chain(*(shape.sizes for shape in launches_of(module, None, {}))))
            there = choices(name, every) or "NAME=1024, a name of its host code"
            raise ArgumentError(f"{file.name} has no name {name!r}", given=f"--size {name}={size}",
                                allowed=f"{there}; --grid and --block for what a call there returns")  # fmt: skip


def _retyped(
    asked: Mapping[str, ArgumentSpec], params: Sequence[Parameter], others: Sequence[Parameter]
) -> dict[str, ArgumentSpec]:
    """Arguments for one instance of a template as another one takes them: ``x:f16[64]`` of ``x:f32[64]``."""
    kinds = {param.name: (_short(param), _short(other)) for param, other in zip(params, others, strict=True)}
    retyped = dict(asked)
    for name, spec in asked.items():
        kind, other = kinds[name]
        if isinstance(spec.value, ArraySpec) and spec.value.kind == kind != other:
            retyped[name] = replace(spec, value=replace(spec.value, kind=other), text="")
    return retyped


def _asked_names(shape: LaunchShape) -> list[str]:
    """The names that say a launch's extents: those that others are made of, where they say all."""
    names, local = [name for name in shape.lacks if is_name(name)], shape.host.local if shape.host else {}
    first = [name for name in names if not isinstance(local.get(name), str)]
    return first if first and len(names) == len(shape.lacks) else names


def host_around(kernel: LoadedKernel, shape: LaunchShape, asked: Iterable[str] = ()) -> HostAround:
    """What host code does with the arrays of a launch, but those that a request gives."""
    host = shape.host
    if host is None:
        return HostAround(shape.line)
    pairs = [(param, word) for param, word in zip(kernel.written, shape.words, strict=False) if param.name not in asked]
    names = {param.name: word for param, word in pairs if param.is_pointer}
    names |= {f"{param.name}.{member.name}": f"{word}.{member.name}" for param, word in pairs
              for member in param.fields if member.kind == POINTER}  # fmt: skip
    lines = {name: line for name, word in names.items() if (line := unset(host, word)) is not None}
    in_part = {name: part for name, word in names.items() if (part := set_in_part(host, word)) is not None}
    launches = {name: before for name, word in names.items() if (before := by_launches(host, word))}
    around = HostAround(shape.line, lines, in_part, launches, words=names)
    loop = launch_loop(host, [*names.values(), *shape.words])
    if loop is None:
        return around
    kept, looked_at = (
        frozenset(name for name, word in names.items() if word in words) for words in (loop.kept, loop.looked_at)
    )
    return replace(around, loop=loop.line, kept=kept, looked_at=looked_at)


def _refusal(kernel: LoadedKernel, request: Request, at: Span) -> TilewrightError | None:
    """Why a GPU refuses what host code asks for, at the line of the launch; None where it does not."""
    try:
        kernel.machine(request.grid, request.block, request.cluster, request.shared_bytes, non_portable_cluster=True)
        for spec in request.args:
            if any(isinstance(part, MapSpec) for part in spec.parts):
                spec.filled(lambda _: ZEROS).made(np.random.default_rng(0))  # the numbers are made for the run
    except ArgumentError as error:
        what = f"this launch of {kernel.name} fails: {error.what}"
        return SimulationError(what, given=error.given, allowed=error.allowed, hint=error.hint, at=at,
                               kind=error.kind)  # fmt: skip
    return None


def kernels_asked_for(
    module: LoadedModule, request: Request, file: Path, sizes: Mapping[str, Number]
) -> list[tuple[str, LoadedKernel]]:
    """The kernels of a request, with the names by which the module has them."""
    if request.kernel is not None:
        return [(request.kernel, module[request.kernel])]
    names = module.kernels
    if len(names) > 1 and (used := launches_of(module, None, sizes)):
        by_symbol = {module[name].entry.name: name for launch in reversed(used)
                     for name in reversed(kernels_of(module, launch))}  # fmt: skip
        return [(name, module[name]) for name in reversed(by_symbol.values())]
    if len(names) == 1:
        return [(names[0], module[names[0]])]
    what = f"{file.name} launches none of its kernels" if names else f"{file.name} has no kernel that can run"
    templates = ", ".join(f"{name}<{', '.join(of)}>" for text in module.texts
                          for name, of in template_names(text).items())  # fmt: skip
    allowed = f"--kernel '{names[0]}' --grid 4 --block 256" if names else "a __global__ function"
    if not names and templates:
        names_of = (shape.kernel for shape in launches_of(module, None, sizes))
        instance = next((name for name in names_of if re.fullmatch(r"[\w:]+\s*(?:<.*>)?", name)), bare(templates))
        instance = instance if "<" in instance else example_of(bare(instance), module.texts)
        allowed = f"an instance by its name, with types of the file: --kernel '{instance}'"
    refused = (f"{name}: {error.given}" for name, error in module.refused.items())
    lines = [", ".join(names) or templates or "none", *refused]
    raise ArgumentError(what, given="\n".join(lines), allowed=allowed)


def kernels_of(module: LoadedModule, shape: LaunchShape) -> list[str]:
    """The kernels that a launch may mean: those that share its name, ``k(float*, int)``, where there are several."""
    try:
        return [shape.kernel] if module[shape.kernel] else []
    except ArgumentError:
        return [name for name in module.kernels if name.partition("(")[0] == shape.kernel]


def launches_of(module: LoadedModule, kernel: str | None, sizes: Mapping[str, Number]) -> list[LaunchShape]:
    """The launches of a kernel, or of all, in the file and then in its headers."""
    return [shape for text in module.texts for shape in launched(text, kernel, given=sizes, around=module.texts)]


def _shape(
    module: LoadedModule, name: str, kernel: LoadedKernel, request: Request, sizes: Mapping[str, Number]
) -> LaunchShape | None:
    """The launch of a kernel, numbers of the request known: the first one that is complete."""
    specs = {spec.name: spec for spec in request.args if spec.name}
    numbers = {**sizes, **{name: number for name, spec in specs.items() if (number := spec.number) is not None}}
    shapes, asked = launches_of(module, kernel.name, numbers), dict(numbers)
    for shape in shapes:
        for param, word in zip(kernel.written, shape.words, strict=False):
            if (spec := specs.get(param.name)) is None:
                continue
            members = spec.value if isinstance(spec.value, tuple) else ()
            said = {f"{word}.{member.name}": part.number for member, part in zip(param.fields, members, strict=False)}
            said |= {word: spec.number} if word.isidentifier() else {}
            numbers |= {name: number for name, number in said.items() if number is not None and name not in sizes}
    shapes = launches_of(module, kernel.name, numbers) if numbers != asked else shapes
    wanted = re.sub(r"\s", "", name)
    alike = [shape for shape in shapes if len(shape.arguments) == len(kernel.written)] or shapes
    exact = [shape for shape in alike if re.sub(r"\s", "", shape.kernel) == wanted]
    exact = exact or [shape for shape in alike if _may_be(shape.kernel, name)] or alike
    return min(exact, key=lambda shape: len(shape.lacks), default=None)


def _may_be(launched: str, instance: str) -> bool:
    """May what a text launches, ``k<THREADS, true>``, be this instance, as far as both have words for constants?"""
    pairs = [*zip_longest(*(split(name.partition("<")[2].rpartition(">")[0]) for name in (launched, instance)))]
    return all(word == constant or not (_is_constant(word) and _is_constant(constant)) for word, constant in pairs)


def _is_constant(word: str | None) -> bool:
    """Is a template's argument a number or a truth value? So is one that is not there."""
    return word is None or word.strip().isdigit() or word.strip() in ("true", "false")


def _own(kernel: LoadedKernel, shape: LaunchShape, args: Sequence[ArgumentSpec]) -> dict[str, ArgumentSpec]:
    """The arguments that a request has for parameters, by name: they go by the kernel's words, or by the host's."""
    asked = dict[str, ArgumentSpec]()
    for spec in args:
        for param, word in zip(kernel.parameters, [*shape.words, *[""] * len(kernel.parameters)], strict=False):
            if spec.name and param not in asked and spec.name in (param, word):
                asked[param] = spec
    return asked


def _arguments(
    params: Sequence[Parameter], shape: LaunchShape, asked: Mapping[str, ArgumentSpec], lacks: Lacks
) -> dict[str, ArgumentSpec]:
    """An argument for each parameter."""
    specs, missing, arrays = dict[str, ArgumentSpec](), list[tuple[Parameter, str]](), dict[str, str]()
    for place, param in enumerate(params):
        number = shape.arguments[place] if place < len(shape.arguments) else ""
        word = shape.words[place] if place < len(shape.words) else ""
        first = arrays.get(word, "") if param.is_pointer else ""
        if first and asked.get(param.name) == asked.get(first):
            specs[param.name] = ArgumentSpec(param.name, Same(first))  # host code passes one array twice
        elif param.name in asked:
            handed = _with_members(param, word, asked[param.name], shape.host)
            specs[param.name] = ArgumentSpec(param.name, for_number(handed, param))
        elif (value := _argument(param, word, number, shape)) is not None:
            specs[param.name] = ArgumentSpec(param.name, value)
        elif not param.is_empty:
            missing.append((param, word))
        if word.isidentifier() and param.name in specs and isinstance(specs[param.name].value, ArraySpec):
            arrays[word] = param.name
    shapes = [spec.value.extents for spec in specs.values() if isinstance(spec.value, ArraySpec)]
    extents = [min(extents) for extents in shapes if len(extents) > 1 and min(extents) > 1]  # of tensors
    sizes = [size for extents in shapes if (size := prod(extents)) >= FEW]
    below = Fill("ramp", (min(extents or sizes, default=FEW),))
    if missing:
        _ask(missing, params, shape, lacks)
    return {name: spec.filled(lambda fill: below if fill == SMALL else fill) for name, spec in specs.items()}


def _argument(param: Parameter, word: str, number: str | int | float, shape: LaunchShape) -> Value | None:
    """An argument as host code passes it; None where it does not say it."""
    if param.is_pointer:
        return Null.NULL if word in NULL_WORDS else _allocated(param, shape, word)
    if (tensor_map := _mapped(shape.host, word)) is not None:
        return tensor_map
    if is_tensor(param.type):
        return _tensor(param, word, shape)
    if is_texture(param):
        return texture(param.name, (shape.host.tree.text, *shape.host.around) if shape.host is not None else ())
    if isinstance(number, (int, float)) and not param.fields:  # ``Grid g(64)`` is what a constructor makes of it
        is_float = "float" in param.type or "double" in param.type
        return number if is_float else int(number)
    return _structure(param, word, shape.host) if param.fields else None


def _tensor(param: Parameter, word: str, shape: LaunchShape) -> ArraySpec | None:
    """The array of a tensor that is passed with its sizes, where these are known."""
    tensor = shape.host.tensors.handed(param.type, word) if shape.host is not None else None
    if tensor is None or shape.host is None:
        return None
    extents = [shape.host.number(extent) for extent in tensor.shape]
    if None in extents:
        return None
    sample = _array_of_bytes_like(tensor.kind)
    is_read_only = "const" in param.type.partition("<")[0].split()
    handed = SMALL if is_read_only and sample.fill == ZEROS else sample.fill
    fill = FILLS[MADE[tensor.how]] if tensor.how in MADE else handed
    return ArraySpec(sample.kind, tuple(int(extent or 0) for extent in extents), fill)


def _array_of_bytes_like(kind: str) -> ArraySpec:
    """An array of one element of a type, in the text's words."""
    element = number_name(kind)
    return array_of_bytes(Parameter("", f"{kind}*", element), 8)


def _ask_extents(param: Parameter, word: str, shape: LaunchShape, lacks: Lacks) -> bool:
    """Ask for the extents of a tensor that is passed with its sizes; is it one?"""
    tensor = shape.host.tensors.handed(param.type, word) if shape.host is not None else None
    if tensor is None or shape.host is None:
        return False
    numbers = replace(shape.host.numbers, lacks=set())
    for extent in tensor.shape:
        numbers.of(extent)
    for name in sorted(numbers.lacks):
        lacks.add_number(name, is_argument=True)
    lacks.rank = max(lacks.rank, len(tensor.shape))
    return bool(numbers.lacks)


def _ask(
    missing: Sequence[tuple[Parameter, str]], params: Sequence[Parameter], shape: LaunchShape, lacks: Lacks
) -> None:
    """Ask for the arguments that host code does not say, by their names or by those of the numbers they are made of."""
    names = [param.name for param, _ in missing]
    declared = [f"{param.type} {param.name}".strip() for param, _ in missing] if len(names) <= FEW_NAMES else names
    lacks.add(f"{bare(shape.kernel)}: no value of {', '.join(declared)}", shape.line)
    missing = [pair for pair in missing if not (is_tensor(pair[0].type) and _ask_extents(*pair, shape, lacks))]
    asked = {param.name: _named(param, word, shape) for param, word in missing}
    beside = {name for names in asked.values() for name in names} | {
        param.name for param, _ in missing if not asked[param.name] and number_name(param.type) in INTEGERS
    }
    beside |= set(shape.lacks)
    for param, word in missing:
        for name in asked[param.name]:
            lacks.add_number(name, is_argument=True)
        if asked[param.name]:
            continue
        if word in shape.allocated:
            array = ArgumentSpec(param.name, array_of_bytes(param, shape.allocated[word]))
            lacks.options = lacks.options.joined(SaidByOptions((array,)))
        elif param.is_pointer or not param.type:
            lacks.add_array(param, elements_asked(params, shape, by_largest=bool(beside)), beside)
            lacks.ranges |= {param.name} if _holds_ranges(param, shape.host) else set()
        else:
            lacking = members_lacking(param, word, shape.host) or members_unsaid(param, word, shape.host)
            for name in sorted(lacking):
                lacks.add_number(name, is_argument=True)
            lacks.rank = max(lacks.rank, min(len(lacking), 2))
            lacks.options = lacks.options.joined(SaidByOptions((example(param),)))


def _holds_ranges(param: Parameter, host: Host | None) -> bool:
    """Are a pointer's elements where ranges begin?"""
    texts = (host.tree.text, *host.around) if host is not None and param.element in INTEGERS else ()
    return any(holds_ranges(text, param.name) for text in texts)


def _named(param: Parameter, word: str, shape: LaunchShape) -> list[str]:
    """The names of host code that decide an argument, where they decide it alone."""
    needs = shape.needs.get(word, ())
    names = [name for name in needs if is_name(name)]
    is_array = param.is_pointer or not param.type
    if is_array:
        return names if word in shape.sized and len(names) == len(needs) and param.name not in needs else []
    if param.fields or number_name(param.type).startswith("float"):
        return []
    return names if len(names) == len(needs) or not word.isidentifier() else [word]


def _allocated(param: Parameter, shape: LaunchShape, word: str) -> ArraySpec | None:
    """An array that host code allocates, with what it sets it to; None of any other."""
    if word not in shape.allocated or shape.host is None:
        return None
    array = _as_set(param, shape.allocated[word], word, shape.host)
    if array is None or array.fill != SMALL or not _holds_ranges(param, shape.host):
        return array
    return replace(array, fill=Fill("ramp"))


def _as_set(param: Parameter, nbytes: int, word: str, host: Host) -> ArraySpec | None:
    """An array of so many bytes, with what host code sets it to; None of structures that it does not."""
    array = array_of_bytes(param, nbytes)
    if (begin := host.tensors.begun(word)) in MADE:
        return replace(array, fill=FILLS[MADE[begin]])
    if (fill := _held(array.kind, word, host)) is not None:
        return replace(array, fill=fill)
    if byte := filled_with(host, word):
        return replace(array, fill=_alike(array.kind, byte))
    allocated = array_of(host, word)
    is_copied = is_copied_to(host, word) or (allocated is not None and not allocated.root.is_known)
    if array.kind == "b8":  # structures, which a launch before may have to set, and no small numbers
        is_member = not param.name  # which nobody can be asked for alone
        return array if is_copied or (is_member and unset(host, word) is not None) else None
    return replace(array, fill=SMALL) if is_copied and array.fill == ZEROS else array


def _mapped(host: Host | None, word: str) -> MapSpec | None:
    """A tensor map of host code, with what its array holds; None of what is none."""
    tensor_map = map_of(host, word) if host is not None else None
    if host is None or tensor_map is None:
        return None
    extents, kind, strides = tensor_map.extents, SHORT[tensor_map.dtype], tuple(tensor_map.strides)
    side_by_side = tuple(prod(extents[dim + 1 :]) for dim in range(len(extents)))
    fill = RANDOM if tensor_map.dtype.startswith(("float", "bfloat")) else SMALL
    return MapSpec(
        ArraySpec(kind, tuple(extents), _held(kind, word, host) or fill), tuple(tensor_map.box), tensor_map.swizzle,
        tuple(tensor_map.steps) if max(tensor_map.steps) > 1 else (), strides if strides != side_by_side else (),
        tensor_map.oob,
    )  # fmt: skip


def _held(kind: str, word: str, host: Host) -> Fill | None:
    """What host code puts into an array of a type; None where that is not known. Random floats are better than many
    that are equal.
    """
    if (octets := contents(host, word)) is None:
        return None
    numpy = dtype(TYPES[kind]).numpy
    values = octets[: octets.size // numpy.itemsize * numpy.itemsize].view(numpy)
    is_one = numpy.kind not in "iub" and not np.ptp(values.astype(np.float64)) > 0
    if is_one or not values.size:
        return None
    return Fill("host", source=word, octets=octets) if values.any() else ZEROS


def zeros_for_ramps(spec: ArgumentSpec) -> ArgumentSpec:
    """An argument with zeros in the arrays that are ramps below a number."""
    return spec.filled(lambda fill: ZEROS if fill.how == "ramp" and fill.numbers else fill)


def _alike(kind: str, byte: int) -> Fill:
    """Elements whose bytes are all alike."""
    numpy = dtype(TYPES[kind]).numpy
    value = np.frombuffer(bytes([byte]) * numpy.itemsize, numpy)[0]
    return Fill("value", (int(value) if numpy.kind in "iu" else float(value),))


def _structure(param: Parameter, word: str, host: Host | None) -> tuple[ArgumentSpec, ...] | None:
    """A structure as host code fills its members, with arrays of the sizes that it allocates; None where it does not
    say all of them.
    """
    if host is None:
        return None
    values = _members(param, word, host)
    said = tuple(ArgumentSpec(None, value) for value in values if value is not None)
    return said if len(said) == len(values) else None


def _members(param: Parameter, word: str, host: Host) -> list[Value | None]:
    """What host code puts into the members of a structure."""
    words = host.members(word)
    said = ((member, "" if member.kind == POINTER else f"{word}.{member.name}") for member in param.fields)
    return [_member(member, word, words.get(member.name, place), host) for member, place in said]


def _with_members(param: Parameter, word: str, spec: ArgumentSpec, host: Host | None) -> Value:
    """An argument that is asked for; of a structure that nobody has written with the numbers that host code has."""
    if host is None or spec.text or not (param.fields and isinstance(spec.value, tuple)):
        return spec.value
    pairs = zip(spec.value, _members(param, word, host), strict=False)
    return tuple(ArgumentSpec(part.name, value) if isinstance(value, (int, float)) else part for part, value in pairs)


def _member(member: Field, word: str, value: str, host: Host) -> Value | None:
    """A member of a structure, which is called ``word`` in host code. value: what it is there, in the code's words."""
    if member.kind == POINTER:
        place = f"{word}.{member.name}"
        ways = [place] * word.isidentifier() + [value] * bool(value)
        for way in ways:
            size = host.number(allocated) if (allocated := host.allocation(way)) is not None else None
            if size is not None:
                return _as_set(Parameter("", f"{member.element}*", member.element), int(size), way, host)
        return Null.NULL if value in NULL_WORDS else None
    if (tensor_map := _mapped(host, f"{word}.{member.name}")) is not None:
        return tensor_map
    number = host.number(value) if member.kind and not member.count else None
    return None if number is None else number if member.kind.startswith("float") else int(number)


def elements_asked(params: Sequence[Parameter], shape: LaunchShape, *, by_largest: bool = False) -> int:
    """How many elements an array needs, by what bounds the kernel: its integers, or the threads that there are.
    by_largest: by the largest integer alone, as others are asked for.
    """
    pairs = zip(params, shape.arguments, strict=False)
    sizes = [int(value) for param, value in pairs if number_name(param.type) in INTEGERS and isinstance(value, int)]
    most = [size for size in sizes if 1 < size < MOST_ELEMENTS]
    if by_largest:
        return max(most, default=1)
    many = max([*most, *(a * b for a, b in combinations(most, 2))], default=0)
    threads = prod(shape.grid) * prod(shape.block) if shape.grid else 1024
    return many if 0 < many < MOST_ELEMENTS else min(threads, MOST_ELEMENTS)


def _variables(module: LoadedModule, shape: LaunchShape) -> Iterator[ArgumentSpec]:
    """What host code copies to variables of the device; random floats where the text does not say the numbers."""
    host = shape.host
    for name, source in variables_set(host) if host is not None else ():
        if host is None or name not in module.globals:
            continue
        place = module.globals[name]
        short = SHORT.get(str(place.dtype), "")
        words = [source[1:]] if source[:1] == "&" else parts_of(host.word(source), "")
        values = [host.number(word) for word in words or ()]
        if short and values and None not in values and len(values) <= place.size:
            said = [value for value in values if value is not None]
            listed = Fill("list", (*said, *[0] * (place.size - len(said))))
            yield ArgumentSpec(name, ArraySpec(short, (place.size,), listed) if place.size > 1 else said[0])
        elif short.startswith(("f", "bf")):
            yield ArgumentSpec(name, ArraySpec(short, (place.size,), RANDOM))


def _pointee(param: Parameter) -> str:
    """What a pointer points to, in the author's words."""
    return re.sub(r"\b(?:const|volatile|struct)\b|[*&\s]", "", param.type)


def sample_of(param: Parameter, elements: int) -> ArraySpec:
    """An array of so many elements for a pointer."""
    return array_of_bytes(param, elements * (type_bytes(_pointee(param)) or param.element_bytes or 4))


def _short(param: Parameter) -> str:
    """The type of the elements that a pointer points to, as the command line has it."""
    by_word = _POINTEES.get(_pointee(param).rpartition(":")[2], "b8")
    return next((short for short, name in TYPES.items() if name == param.element), by_word)


def array_of_bytes(param: Parameter, nbytes: int) -> ArraySpec:
    """An array of so many bytes for a pointer: floats are random."""
    short = SHORT.get(param.element) or _POINTEES.get(_pointee(param), "b8")
    many = ceil(nbytes * 8 / dtype(TYPES[short]).bits)
    return ArraySpec(short, (many,), RANDOM if "f" in short else ZEROS)


def _said(file: Path, shape: LaunchShape, request: Request, asked: Mapping[str, Any]) -> str:
    """A line that says how a kernel is launched, and what stands for its arguments."""
    where = f"{file.name}:{shape.line}: launched as here: grid {shape.grid}, block {shape.block}, "
    rest = [str(spec) for spec in (*request.args, *request.globals) if spec.name not in asked]
    more = f"; {' '.join(rest)}" if rest else ""
    return f"{where}{request.shared_bytes} bytes of dynamic shared memory{more}"


def smaller(
    module: LoadedModule, launch: Launched, file: Path, sizes: Mapping[str, Number]
) -> tuple[Request, dict[str, Any]]:
    """The request with the smallest launch that reaches the same code, and what a verdict says of it.

    HostNumbers of the host code become smaller, so that arrays do, too; or, where it has none, the grid.
    """
    request, kernel = launch.request, kernel_of(module, launch.request)

    def remade(numbers: Mapping[str, int]) -> Request:
        other = as_launched(module, launch.asked, file, {**sizes, **numbers})[0].request
        if other.block != request.block:
            raise ArgumentError("another block is another kernel", given=f"{other.block}", allowed=f"{request.block}")
        return other

    def launch_of(request: Request) -> Launch:
        values = arguments_of(kernel, request, np.random.default_rng(request.seed))
        return kernel, values, request.launch

    start = {name: value for name, value in launch.numbers.items() if value > 1}
    try:
        if not start:
            (_, _, chosen), whole = smaller_grid(launch_of(request))
            grids = {"chosen": {"grid": chosen["grid"]}, "given": {"grid": request.grid}}
            return replace(request, grid=chosen["grid"]), {**whole.as_data, **grids}
        least, whole = smallest(lambda numbers: launch_of(remade(numbers)), start)
    except (TilewrightError, MemoryError):  # the run itself tells of it
        return request, {}
    return remade(least), {**whole.as_data, "chosen": least, "given": start}
