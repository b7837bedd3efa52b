"""A module of kernels that others wrote: its kernels by name, its variables, and runs on the simulator.

    module = tw.load_ptx(text)
    module.globals["table"][:] = values
    run = module["kernel"].simulate(a, b, 1000, grid=4, block=256)

PTX is data: it is parsed and interpreted, and nothing of it runs on the host.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.errors import ArgumentError, SimulationError, Span, TilewrightError, choices, described
from tilewright.explain import PTX, Finding, reworded
from tilewright.ir import AllocBuffer, For, If, Indexed, Kernel, Launch, Var, While, statements
from tilewright.isa import ARCHS, check_cluster, nearest
from tilewright.load.arguments import Given, given, in_order
from tilewright.load.cu_tree import overload
from tilewright.load.declared import Parameter
from tilewright.ptx import Lowered, Machine, initial_bytes, lower, parse
from tilewright.ptx.mangled import plain_name, qualified_name, signature
from tilewright.ptx.names import number_dtype
from tilewright.ptx.tree import Function, Module, Variable
from tilewright.public import Public, at_the_edge, instances, keywords_of
from tilewright.records import NotebookText
from tilewright.terms import Dialect, option, told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.sim import Program, RecordingOptions, Run
    from tilewright.sim.machine.device import GridsMeet

__all__ = ["Dimensions", "LoadedKernel", "LoadedModule", "load_ptx", "public", "text_of"]


public = Public(ArgumentError, {"Path": instances("a path", Path)})

BRANCHES = (If, For, While)
MOST_THREADS = 1024
MOST_CTAS, MOST_ALONG = ((1 << 31) - 1, 65535, 65535), (1024, 1024, 64)  # along x, y, z
PATIENCE = 5.0  # seconds for a run that finds out how much shared memory a kernel touches
WIDE = told("{}, as cudaFuncAttributeNonPortableClusterSizeAllowed says in a file's host code",
            option("non_portable_cluster", True))  # fmt: skip
ARENA = "shared memory"  # the buffer of a finding in shared memory that has none
MADE_NAME = re.compile(r"_param_\d+$")
Dimensions = "int | Sequence[int]"


@public
def load_ptx(text: str | Path) -> LoadedModule:
    """A module of a PTX text, or of the file with that name.

    Raises KernelError, at the line and column, for what is no PTX; ArgumentError for a file that cannot be read.
    """
    path = Path(text) if isinstance(text, Path) or ("\n" not in text and text.endswith(".ptx")) else None
    if path is None:
        return LoadedModule(parse(str(text)))
    return LoadedModule(parse(text_of(path), str(path)))


def text_of(path: Path) -> str:
    """The text of a file. Raises ArgumentError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise ArgumentError(f"cannot read {path}", given=str(error), allowed="a file of text") from None


def _is_overload(name: str, function: str) -> bool:
    """Does a name with the types of its parameters, ``k(float*, int)``, say which function it is?"""
    (wanted, *kinds), (whole, *taken) = overload(name), overload(function)
    return kinds == taken and "(" in wanted and f"::{whole}".endswith(f"::{wanted}")


class LoadedModule(NotebookText):
    """Kernels and variables of a text. names: of kernels as their author wrote them, by which they are found too.

    parameters: a kernel's parameters as its author wrote them, by its symbol or its plain name. types: the dtypes of
    variables as their author wrote them, by their names with namespaces. dialect: what reports call things. builds:
    what compiles its source in another way, by name: "unoptimised", "exact" (without fused products and sums).
    most_branches: that a kernel may have, once functions are in the place of their calls.
    """

    def __init__(
        self,
        module: Module,
        names: Mapping[str, str] = {},
        parameters: Mapping[str, Sequence[Parameter]] = {},
        types: Mapping[str, str] = {},
        dialect: Dialect = PTX,
    ) -> None:
        self.module, self.types = module, types
        self.dialect = dialect
        self.names = dict(names)
        self.parameters = dict(parameters)
        self.builds: Mapping[str, Callable[[], LoadedModule]] = {}
        self.most_branches: int | None = None
        self._loaded: dict[str, LoadedKernel] = {}
        self._built: dict[str, LoadedModule] = {}
        self.registers_of: Callable[[str], int] | None = None  # of a thread of a kernel, by its symbol
        self.non_portable_cluster = False  # does its host code ask for clusters of such sizes?
        self.refused: Mapping[str, TilewrightError] = {}  # kernels of a .cu file that do not compile, where others do
        self.texts: tuple[str, ...] = ()  # of a .cu file: its own, and those of its own headers
        self.indexed: Callable[[Kernel, Mapping[str, str]], Mapping[str, Indexed]] | None = None  # of `Kernel`
        self.spares: Callable[[Span | None, Span | None], bool] | None = None  # of `Kernel`
        self.in_its_words: Callable[[Sequence[Finding]], list[Finding]] = list  # with what the lines of a source say

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels, as their author wrote them where that is known."""
        written = {symbol: name for name, symbol in self.names.items()}
        return [written.get(entry.name, self.module.shown[entry.name]) for entry in self.module.entries]

    def __repr__(self) -> str:
        return f"<LoadedModule: {len(self.module.entries)} kernels, {len(self.globals)} variables>"

    def _notebook_text(self) -> str:
        """What a notebook shows: its kernels and variables."""
        return "\n".join([repr(self), *self.kernels, *self.globals])

    @cached_property
    def globals(self) -> Mapping[str, NDArray[Any]]:
        """The module's variables in global and constant memory, as arrays, which keep their values between kernels."""
        return _Globals(self.module, self.types)

    def set_globals(self) -> Mapping[str, NDArray[np.uint8]]:
        """The bytes of the variables that have been accessed, by symbol."""
        return dict(self.globals.made)  # type: ignore[attr-defined]  # a _Globals

    def _put_globals(self, values: Mapping[str, NDArray[np.uint8]]) -> None:
        """Set the bytes of variables, by symbol, of those that are there; all others are as in the beginning."""
        made = self.globals.made  # type: ignore[attr-defined]  # a _Globals
        made.clear()
        for symbol in values.keys() & {*self.globals.variables}:  # type: ignore[attr-defined]  # a _Globals
            place = self.globals.raw(symbol)  # type: ignore[attr-defined]  # a _Globals
            if place.size == values[symbol].size:
                place[...] = values[symbol]

    @at_the_edge
    def built(self, build: str) -> LoadedModule:
        """The module of the same source, compiled in another way. Raises ArgumentError for a build that it lacks."""
        if not isinstance(build, str) or build not in self.builds:
            allowed = choices(str(build), self.builds) or "none, for PTX"
            raise ArgumentError("there is no such build", given=described(build), allowed=allowed)
        if build not in self._built:
            self._built[build] = self.builds[build]()
        return self._built[build]

    @at_the_edge
    def __getitem__(self, name: str) -> LoadedKernel:
        """A kernel by its symbol, by the name in its source, or by what its author launches: ``k<128>``."""
        symbol = self.names.get(name, name)
        found = [entry for entry in self.module.entries if entry.name == symbol]
        wanted = re.sub(r"\s+", "", name)
        found = found or [entry for key, value in self.names.items() if re.sub(r"\s+", "", key) == wanted
                          for entry in self.module.entries if entry.name == value]  # fmt: skip
        for spelled, last in ((qualified_name, wanted), (plain_name, wanted.rpartition("::")[2])):
            found = found or [each for each in self.module.entries if spelled(each.name).replace(" ", "") == last]
        found = found or [each for each in self.module.entries if _is_overload(name, signature(each.name))]
        if len(found) != 1:
            raise ArgumentError(
                f"{name} is {'the name of several kernels' if found else 'no kernel of this module'}",
                given=name, allowed=choices(name, self.kernels),
            )  # fmt: skip
        entry = found[0]
        if entry.name not in self._loaded:  # a kernel keeps the programs that were made for it
            self._loaded[entry.name] = LoadedKernel(
                self, entry, self.parameters.get(entry.name, ()) or self.parameters.get(plain_name(entry.name), ())
            )
        return self._loaded[entry.name]

    def __iter__(self) -> Iterator[LoadedKernel]:
        return (self[entry.name] for entry in self.module.entries)


class _Globals(Mapping[str, "NDArray[Any]"]):
    """Arrays of a module's variables, made when they are first asked for; C++'s are found by their names there."""

    def __init__(self, module: Module, types: Mapping[str, str]) -> None:
        self.types = types
        self.variables = {name: each for name, each in module.variable_of.items() if each.space in ("global", "const")}
        self.shown = module.shown
        self.made: dict[str, NDArray[Any]] = {}

    def __iter__(self) -> Iterator[str]:
        return (self.shown[symbol] for symbol in self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __repr__(self) -> str:
        return f"<variables: {', '.join(self) or 'none'}>"

    @at_the_edge
    def __getitem__(self, name: str) -> NDArray[Any]:
        spelled = [each for each in self.variables if name in (each, qualified_name(each))]
        symbol, *more = spelled or [each for each in self.variables if plain_name(each) == name] or [""]
        if more or not symbol:
            what = "the name of several variables" if more else "no variable of this module"
            raise ArgumentError(f"{name} is {what}", given=name, allowed=choices(name, self))
        declared = self.variables[symbol]
        if symbol not in self.made:
            self.made[symbol] = np.frombuffer(initial_bytes(declared)[0], np.uint8)
        kind = number_dtype(declared.type).numpy
        title = qualified_name(symbol)
        written = np.dtype(self.types.get(title.partition("<")[0] if title.endswith(">") else title, kind))
        if kind.itemsize in (1, written.itemsize):
            kind = written
        whole = self.made[symbol]
        return whole if whole.size % kind.itemsize else whole.view(kind)

    def raw(self, name: str) -> NDArray[np.uint8]:
        return self[name].view(np.uint8)


class LoadedKernel:
    """One kernel of a module, ready to run. written: its parameters as its author has them, or as the PTX has them."""

    def __init__(self, module: LoadedModule, entry: Function, written: Sequence[Parameter] = ()) -> None:
        self.module, self.entry = module, entry
        own = tuple(Parameter(self._shown(param.name), "") for param in entry.params)
        self.written = tuple(written) if len(written) == len(own) else own
        self._programs: dict[object, tuple[Lowered, Program]] = {}
        self._change: Callable[[Kernel], Kernel] | None = None
        self.looks: Any = None  # of `tilewright.small`: what it has made of the kernel

    def __repr__(self) -> str:
        return f"<LoadedKernel: {self.title}, of {', '.join(self.parameters) or 'no parameters'}>"

    def _shown(self, parameter: str) -> str:
        """A parameter's name: of those that a compiler has made, the kernel's is the one in its source."""
        made = parameter.removeprefix(self.entry.name)
        return f"{self.name}{made}" if MADE_NAME.fullmatch(made) else parameter

    @property
    def name(self) -> str:
        """The kernel's name in its source."""
        return plain_name(self.entry.name)

    @property
    def title(self) -> str:
        """Its name in reports: ``scale<float, 4>``, or ``scale(float*, int)``, where others of the module share it."""
        alike = [entry for entry in self.module.module.entries if plain_name(entry.name) == self.name]
        titles = {symbol: name for name, symbol in self.module.names.items()}
        return titles.get(self.entry.name, self.module.module.shown[self.entry.name]) if len(alike) > 1 else self.name

    @at_the_edge
    def built(self, build: str) -> LoadedKernel:
        """The same kernel, compiled in another way: see `LoadedModule`."""
        made = self.module.built(build)[self.entry.name]
        made.written = self.written
        return made

    @property
    def variables(self) -> list[str]:
        """The names of the kernel's own variables in memory, and of the module's."""
        own = [each.name for each in self.entry.statements if isinstance(each, Variable)]
        shown = self.module.module.shown
        return [shown.get(name, plain_name(name)) for name in (*own, *self.module.module.variable_of)]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters, as reports say them."""
        return tuple(each.name for each in self.written)

    @public
    def call_parameters(self, names: Sequence[str]) -> None:
        """Other names for its parameters, in their order."""
        called = [replace(each, name=name) for each, name in zip(self.written, names, strict=False)]
        self.written = (*called, *self.written[len(called) :])

    @property
    def has_names(self) -> bool:
        """Has somebody named its parameters? Compilers call them ``kernel_param_0``."""
        return not all(MADE_NAME.search(name) for name in self.parameters)

    @at_the_edge
    def simulate(
        self,
        *args: Any,
        grid: int | Sequence[int] = 1,
        block: int | Sequence[int] | None = None,
        shared_bytes: int = 0,
        cluster: int | Sequence[int] | None = None,
        non_portable_cluster: bool = False,
        check: str | Iterable[str] = "all",
        progress: Callable[[int, int], None] | None = None,
        limit_s: float | None = host.MOST_SECONDS,
        limit_steps: int | None = host.MOST_STEPS,
        limit_bytes: int | None = None,
        max_findings: int = host.MOST_FINDINGS,
        explore: int = 0,
        replay: str | None = None,
        sample: int | None = None,
        passes: bool = True,
        grids: GridsMeet | None = None,
        record: bool | int | tuple[int, ...] | RecordingOptions = False,
        **named: Any,
    ) -> Run:
        """Run on the simulator; arrays are changed in place, and an access outside of an array is an error.

        args: arrays for pointers, numbers, bytes of structures. block: what the kernel asks for, where it does.
        shared_bytes: of dynamic shared memory. cluster: CTAs of a cluster, more than 8 only where the host asks for a
        size that is not portable. check, limits, explore, replay, record: as of `tilewright.simulate`. sample:
        of a grid that takes more than so many instructions of warps, and whose CTAs do not wait for each other, only
        CTAs that are spread over it run; `Run.left_out` says how many do not. passes: are those of shared memory
        counted? grids: of a launch among several, see
        `tilewright.sequence`.
        Raises SimulationError, at the author's line, where a check finds something.
        """
        from tilewright.sim import RecordingOptions

        limits = host.Limits(limit_s, limit_steps, limit_bytes, findings=max_findings, explore=explore, replay=replay,
                             sample=sample, passes=passes)  # fmt: skip
        with self._worded():
            bound, passed = self._given(args, named).with_copies()
            machine = self.machine(grid, block, cluster, shared_bytes, non_portable_cluster=non_portable_cluster)
            lowered, program = self._program(bound, machine, check)
            with _about_shared(machine, lowered, partial(self._touched, bound, limits)):
                run = self._run(lowered, program, bound, progress, limits, RecordingOptions.of(record), grids)
            bound.check_unchanged(passed)
        if run.recording is not None:
            run = replace(run, recording=replace(run.recording, kernel=self.name))
        run.warnings[:] = map(self.dialect.said, run.warnings)
        run.findings[:] = self.module.in_its_words([each.said(self.dialect) for each in run.findings])
        return run

    @cached_property
    def dialect(self) -> Dialect:
        """What its reports call things: symbols have the names that their author gave them."""
        shown = {**self.module.module.shown, self.entry.name: self.name}
        return self.module.dialect.with_names(lambda symbol: shown.get(symbol) or qualified_name(symbol))

    @contextmanager
    def _worded(self) -> Iterator[None]:
        """Errors are in its dialect."""
        try:
            yield
        except TilewrightError as error:
            if (seen := error.recording) is not None:
                error.recording = replace(seen, kernel=self.name)
            raise self._retold(reworded(error, self.dialect)) from None

    def _retold(self, error: TilewrightError) -> TilewrightError:
        """The same error, with what the lines of the source say of its findings."""
        if not isinstance(error, SimulationError):
            return error
        first, *more = self.module.in_its_words(error.findings)
        error.what, error.given, error.allowed, error.hint = first.message, first.given, first.allowed, first.hint
        error.args = (error.what,)
        if error.at is None or (first.file, first.line) != (error.at.file, error.at.line):
            error.at, error.kind = Span.from_column(first.file, first.line, first.column), first.kind
            error.facts = {name: getattr(first, name) for name in ("buffer", "threads", "other", "place")}
        error.facts |= {"remedy": first.remedy} if first.remedy is not None else {}
        if error.is_told:
            error.findings = (first, *more)
        return error

    def _run(
        self, lowered: Lowered, program: Program, bound: Given, progress: Callable[[int, int], None] | None,
        limits: host.Limits, record: RecordingOptions | None = None, grids: GridsMeet | None = None,
    ) -> Run:  # fmt: skip
        kinds = {bound.names[param]: kind for param, kind in bound.kinds.items()}
        with host.lent({bound.names[param]: array for param, array in bound.arrays.items()}, kinds) as lent:
            arrays = lent | self._memory(lowered, program, bound, lent)
            handles = {buffer.data.name: arrays[buffer.name] for buffer in lowered.kernel.buffers
                       if isinstance(buffer.data, Var)}  # fmt: skip
            if (found := self.module.registers_of) is not None:
                limits = replace(limits, registers=partial(found, self.entry.name))
            return program.run(handles, bound.numbers, progress=progress, limits=limits, record=record, grids=grids)

    def _run_watched(
        self, args: Sequence[Any], launched: Mapping[str, Any], checks: frozenset[str],
        watch: Callable[[Program], object], limits: host.Limits | None = None,
        kept: MutableMapping[object, tuple[Lowered, Program]] | None = None,
    ) -> Run:  # fmt: skip
        """Run a launch on copies of its arguments, by a program of its own that ``watch`` gets before.

        launched: grid, block, shared_bytes and cluster, as of `simulate`. limits: of the run; none where left out.
        kept: programs of such runs, which serve again where a launch differs in numbers and contents alone.
        """
        from tilewright.sim import Program

        bound, _ = self._given(args, {}).with_copies()
        wide = bool(launched.get("non_portable_cluster"))
        machine = self.machine(launched["grid"], launched.get("block"), launched.get("cluster"),
                               launched.get("shared_bytes") or 0, non_portable_cluster=wide)  # fmt: skip
        programs, key = {} if kept is None else kept, (bound.key, machine, checks)
        if key not in programs:
            lowered = self._lowered(bound, machine)
            programs[key] = lowered, Program(lowered.kernel, checks, nearest(self.target))
        made, program = programs[key]
        watch(program)
        copied = replace(bound, arrays=dict(zip(bound.arrays, host.copies(bound.arrays.values()), strict=True)))
        return self._run(made, program, copied, lambda done, ctas: None, limits or host.Limits())

    @public
    def arguments_by(self, maker: Any, *args: Any, **named: Any) -> list[Any]:
        """The arguments that a kernel of the same text makes: one thread of it runs, and writes each argument of this
        kernel through a pointer, its first parameters. args, named: for its other ones.

        So host code makes the structures of a library's kernels, with tensor maps in them, of plain arguments.
        """
        from tilewright.load.made_arguments import arguments_by

        return arguments_by(self, maker, args, named)

    @public
    def run_by_one_thread(self, args: Sequence[Any]) -> dict[str, tuple[int, Any]]:
        """Run one thread of it; the address and the array of each argument that is one, by its name."""
        with self._worded():
            bound = self._given(args, {})
            lowered, program = self._program(bound, self.machine(1, 1, None, 0), "bounds")
            self._run(lowered, program, bound, None, host.Limits())
            arrays = {bound.names[param]: array for param, array in bound.arrays.items()}
            with host.lent(arrays, {bound.names[param]: kind for param, kind in bound.kinds.items()}) as lent:
                return {name: (program.base_of(name, arrays=lent), array) for name, array in arrays.items()}

    def _touched(self, bound: Given, limits: host.Limits, machine: Machine) -> int | None:
        """The bytes of shared memory that a run with so much of it touches; None where it does not come to its end."""
        from tilewright.load.reach import MemoryReach
        from tilewright.sim import Program, parse_checks

        try:
            made = self._lowered(bound, machine)
            program = Program(made.kernel, parse_checks("bounds"))
            reach = MemoryReach("shared")
            reach.subscribe(program)
            copied = dict(zip(bound.arrays, host.copies(bound.arrays.values()), strict=True))
            limits = replace(limits, seconds=min(PATIENCE, limits.seconds or PATIENCE))
            self._run(made, program, replace(bound, arrays=copied), lambda done, ctas: None, limits)
        except (TilewrightError, MemoryError):
            return None
        return reach.ends.get("shared", 0)

    @public
    def ordered(self, args: Sequence[Any], named: Mapping[str, Any], settings: Sequence[str]) -> tuple[Any, ...]:
        """Arguments in the order of the parameters. settings: what else has a name, for an error that lists all."""
        return in_order(self.name, self.entry.params, self.written, args, named, settings)

    @public
    def passed(self, args: Sequence[Any]) -> list[bytes]:
        """What a launch passes for each parameter: the bytes of a structure, 8 of a number; zeros for pointers."""
        bound = self._given(args, {})
        numbers = {name: struct.pack("<d", value) if isinstance(value, float) else struct.pack("<Q", value % (1 << 64))
                   for name, value in bound.numbers.items()}  # fmt: skip
        return [bound.data.get(param.name, numbers.get(param.name, bytes(8))) for param in self.entry.params]

    def _given(self, args: Sequence[Any], named: Mapping[str, Any]) -> Given:
        """The arguments of a launch, matched with the parameters."""
        settings, bits = keywords_of(LoadedKernel.simulate), self.module.module.address_size
        return given(self.name, self.entry.params, self.written, args, named, settings, bits)

    @at_the_edge
    def lowered(self, *args: Any, grid: int | Sequence[int] = 1, block: int | Sequence[int] | None = None,
                shared_bytes: int = 0, cluster: int | Sequence[int] | None = None,
                non_portable_cluster: bool = False, **named: Any) -> Kernel:  # fmt: skip
        """The kernel as the simulator gets it, for these arguments."""
        machine = self.machine(grid, block, cluster, shared_bytes, non_portable_cluster=non_portable_cluster)
        return self._lowered(self._given(args, named), machine).kernel

    def _lowered(self, bound: Given, machine: Machine) -> Lowered:
        made = lower(self.module.module, self.entry, bound.buffers(), machine, bound.names)
        kernel, most = made.kernel, self.module.most_branches
        if most is not None and (many := sum(isinstance(each, BRANCHES) for each in statements(kernel.body))) > most:
            given = f"{many} branches and loops"
            raise SimulationError("its text is too long to run", given=given, allowed=f"{most}", kind="limit")
        if self.module.indexed is not None:
            kernel = replace(kernel, indexed=self.module.indexed(kernel, made.names), spares=self.module.spares)
        return replace(made, kernel=kernel if self._change is None else self._change(kernel))

    def changed(self, change: Callable[[Kernel], Kernel]) -> LoadedKernel:
        """This kernel, changed before it runs."""
        made = LoadedKernel(self.module, self.entry, self.written)
        made._change = change
        return made

    def _program(self, bound: Given, machine: Machine, check: str | Iterable[str]) -> tuple[Lowered, Program]:
        from tilewright.sim import Program, parse_checks

        checks = parse_checks(check)
        key = (bound.key, machine, checks)
        if key not in self._programs:
            made = self._lowered(bound, machine)
            self._programs[key] = made, Program(made.kernel, checks, nearest(self.target))
        return self._programs[key]

    def _memory(
        self, lowered: Lowered, program: Program, bound: Given, lent: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """The arrays of memory besides arguments: variables of the module, the bytes of parameters."""
        base = partial(program.base_of, arrays=lent)

        def address(of: str) -> bytes:
            return lowered.short[of].to_bytes(4, "little") if lowered.short else base(of).to_bytes(8, "little")

        found: dict[str, NDArray[Any]] = {}
        raw = self.module.globals.raw  # type: ignore[attr-defined]  # a _Globals
        for name, declared in lowered.globals.items():
            own = name in self.module.module.variable_of  # else a variable of a body, or what the driver provides
            array = raw(name) if own else np.frombuffer(initial_bytes(declared)[0], np.uint8)
            found[lowered.names.get(name, name)] = array
            for pointer in initial_bytes(declared)[1]:
                number = lowered.functions.get(pointer.of)
                to = lowered.names.get(pointer.of, pointer.of)
                pointer.put(array, base(to) if number is None else number)
        for name in lowered.in_bytes:
            data = bound.data.get(name)
            if name in bound.maps:
                data = bound.maps[name].at(base(bound.names[name])).encode()
            elif name in bound.arrays:
                data = address(bound.names[name])
            elif data is None:
                kind = number_dtype(lowered.in_bytes[name].type)
                data = np.array(bound.numbers[name], kind.numpy).tobytes()
            found[lowered.places[name]] = np.frombuffer(bytearray(data), np.uint8)
        for param, pointers in bound.pointers.items():
            place = lowered.places.get(param) if param in bound.data else None
            table = found[place] if place is not None else lent[bound.names[param]].view(np.uint8)
            for at, of in pointers:
                table[at : at + len(address(of))] = np.frombuffer(address(of), np.uint8)
        return found

    # The launch

    @at_the_edge
    def machine(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int] | None,
        cluster: int | Sequence[int] | None,
        shared_bytes: int,
        *,
        non_portable_cluster: bool = False,
    ) -> Machine:
        """The launch. Raises ArgumentError for sizes that contradict the kernel's directives."""
        required = self.entry.numbers("reqntid")
        if block is None:
            if required is None:
                raise ArgumentError(
                    f"{self.name} does not say how many threads a CTA has", hint=told("{}", option("block", 256))
                )
            block = required
        threads, ctas = _triple("block", block), _triple("grid", grid)
        together = _triple("cluster", cluster or self.entry.numbers("reqnctapercluster") or 1)
        self._check_block(threads, required)
        for what, sizes, most in (("grid", ctas, MOST_CTAS), ("block", threads, MOST_ALONG)):
            if any(each > limit for each, limit in zip(sizes, most, strict=True)):
                raise ArgumentError(f"{what} is larger than a launch takes", given=f"{sizes}", allowed=f"{most}")
        if any(many % each for many, each in zip(ctas, together, strict=True)):
            raise ArgumentError("the grid is whole clusters", given=f"grid {ctas}, cluster {together}")
        if not isinstance(shared_bytes, int) or shared_bytes < 0:
            raise ArgumentError("shared_bytes is a number of bytes", given=repr(shared_bytes), allowed="0 or more")
        wide = non_portable_cluster or self.module.non_portable_cluster
        check_cluster(self.name, together, nearest(self.target), non_portable=wide, hint=WIDE)
        return Machine(Launch(ctas, prod(threads), together, non_portable_cluster=wide), threads, shared_bytes)

    def _check_block(self, threads: tuple[int, int, int], required: tuple[int, ...] | None) -> None:
        most = prod(self.entry.numbers("maxntid") or (MOST_THREADS,))
        if required is not None and threads != _triple("reqntid", required):
            raise ArgumentError(f"{self.name} is for one size of CTA", given=f"block {threads}", allowed=f"{required}")
        if prod(threads) > most:
            raise ArgumentError(f"{self.name}: too many threads", given=f"block {threads}", allowed=f"{most} threads")

    @property
    def target(self) -> str:
        """The architecture that the text is for; "" where it does not say."""
        return next(iter(self.module.module.target), "")


@contextmanager
def _about_shared(machine: Machine, lowered: Lowered, touched: Callable[[Machine], int | None]) -> Iterator[None]:
    """An error about an access beyond dynamic shared memory says how much of it the launch has, and should have.

    touched: the bytes that the kernel touches with another launch.
    """
    try:
        yield
    except SimulationError as error:
        launch, is_beyond = lowered.kernel.launch, error.kind == "bounds" and error.facts.get("buffer") == ARENA
        if not is_beyond or launch is None or not _has_dynamic(lowered.kernel):
            raise
        start = launch.shared_bytes - max(1, machine.dynamic_bytes)
        needed = int(error.facts["numbers"]["last"]) + 1 - start
        error.allowed = f"{machine.dynamic_bytes} bytes of dynamic shared memory, from byte {start} on"
        most = ARCHS["sm_90"].shared_bytes - start
        if 0 < needed <= most:
            end = touched(replace(machine, dynamic_bytes=most))
            room = option("shared_bytes", needed if end is None else max(needed, end - start))
            error.hint = told("{}{}", room, ", or more" if end is None else "")
        raise


def _has_dynamic(kernel: Kernel) -> bool:
    return any(isinstance(stmt, AllocBuffer) and stmt.lies_with == "dynamic" for stmt in kernel.body)


def _triple(what: str, value: int | Sequence[int]) -> tuple[int, int, int]:
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(numbers) <= 3 or any(not isinstance(n, (int, np.integer)) or n < 1 for n in numbers):
        raise ArgumentError(f"{what} is one to three numbers from 1 on", given=repr(value), allowed=f"{what}=(4, 2)")
    x, y, z = (*map(int, numbers), 1, 1)[:3]
    return x, y, z
