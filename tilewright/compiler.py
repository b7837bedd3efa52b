"""The stages in order: compile a kernel, look at any stage of it, run it.

exe = tw.compile(kernel, target="sm_90a")
exe(a, b)                  # NumPy and CPU tensors: the simulator; CUDA tensors: the GPU
exe.source("cuda")         # "tile", "lowered", "cuda", "ptx", "sass"
exe.report                 # why each tile call became what it is

Rooms are imported where they are first asked for: a simulation never loads the CUDA emitter, a check of a .cu file no
variants.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from tilewright import host
from tilewright.dtypes import dtype
from tilewright.errors import (
    ArgumentError,
    KernelError,
    TargetError,
    TilewrightError,
    TilewrightWarning,
    choices,
    described,
    located,
    quoted,
)
from tilewright.inputs import (
    check_one_gpu,
    make_arguments,
    named_arguments,
    of_each_rank,
    of_this_rank,
    ranks_of,
    same_values,
)
from tilewright.ir import Kernel, Number, TileCallStmt, deep_recursion, statements
from tilewright.ir.arguments import Bindings, Signature
from tilewright.ir.launch import NON_PORTABLE_CLUSTER
from tilewright.ir.tensor_map import mapped
from tilewright.ir.verify import verify
from tilewright.isa import ATOMS, Arch, Requirement, arch, calls_in, check_cluster, default_arch, not_run, runs_on
from tilewright.lower import lower
from tilewright.public import ANYTHING, Kind, Public, edge_error, instances, keywords_of
from tilewright.records import NotebookText

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.advise import Advice
    from tilewright.cuda.launch import Launcher, LaunchPlan
    from tilewright.cuda.nvrtc import Assembly, Resources
    from tilewright.ir.tensor_map import MapFields
    from tilewright.profiling import Estimate, Gpu, Profile
    from tilewright.sim import Program, RecordingOptions, Run
    from tilewright.sim.machine.device import GridsMeet
    from tilewright.tile import DispatchReport
    from tilewright.tracing import Trace

public = Public(
    ArgumentError,
    {
        # These refuse in their own words.
        **dict.fromkeys(
            ("target: str | Mapping[str, str] | Arch | None", "stage: str", "check: str | Iterable[str]"), ANYTHING
        ),
        "Kernel": instances("what @T.prim_func made", Kernel),
        "Arch": instances('an architecture, arch("sm_90a")', Arch),
        "host.Limits": instances("host.Limits(...)", host.Limits),
        "RecordingOptions": Kind(
            "a tilewright.RecordingOptions", lambda value: type(value).__name__ == "RecordingOptions"
        ),
        "Program": Kind("what exe.program(check) gives", lambda value: type(value).__name__ == "Program"),
        "GridsMeet": Kind("what tilewright.sequence makes", lambda value: type(value).__name__ == "GridsMeet"),
    },
)

STAGES = ("tile", "lowered", "cuda", "ptx", "sass")
CALLED = "default,races,poison"  # the checks of a call on host arrays
Target = "str | Mapping[str, str] | Arch | None"


@public
@deep_recursion()
def compile(  # the public name is `tilewright.compile`
    kernel: Any, target: str | Mapping[str, str] | Arch | None = None, *, fast_math: bool = False
) -> Executable:
    """Compile a kernel for an architecture ("sm_90a"; left out: the first that has every instruction it names).

    kernel: what ``@T.prim_func`` or ``.specialize()`` made; `Any`, since decorators return wrappers of it.
    fast_math: let CUDA contract a * b + c, approximate quotients, roots and exponentials, and take subnormal numbers
    for zeros: results may differ from the simulator's in the last bits.
    Raises KernelError, DispatchError, InstructionError or TargetError at the kernel's line.
    """
    authored = kernel_of(kernel)
    verify(authored)
    return Executable(authored, target_of(target, authored), fast_math=fast_math)


@public
def simulate(
    kernel: Any,
    *args: Any,
    check: str | Iterable[str] = "all",
    target: str | Mapping[str, str] | Arch | None = None,
    limit_s: float | None = host.MOST_SECONDS,
    limit_steps: int | None = host.MOST_STEPS,
    limit_bytes: int | None = None,
    max_findings: int = host.MOST_FINDINGS,
    explore: int = 0,
    replay: str | None = None,
    ranks: int | None = None,
    record: bool | int | tuple[int, ...] | RecordingOptions = False,
    **named: Any,
) -> Run:
    """Run a kernel on the simulator, arrays changed in place; every check is on unless ``check`` names fewer.

    ranks: on so many GPUs at once, each of which has arrays of its own: an argument is then a list of arrays, one for
    each GPU. Left out, as many as the kernel says in `T.SymmetricBuffer` or `T.rank_id`.

    limit_s: seconds that the run may take. limit_steps: turns of loops, and stretches between waits, that it may take.
    limit_bytes: of shared memory and registers of the CTAs that run together; left out, what this machine has.
    max_findings: as many as a run tells before it stops; 1 stops at the first. explore: of a kernel whose threads see
    which came first, runs in so many orders by chance, besides those that are made anyway. replay: the name of one
    choice, as a finding has it: that run alone.
    record: keep what happened, as ``run.recording``: True, how many CTAs, their numbers, or a `RecordingOptions`.
    Returns counts, warnings and printed text. Raises SimulationError where a check finds something, and at a limit: it
    shows the first finding, and its ``findings`` are all of them.
    """
    exe = kernel if isinstance(kernel, Executable) else compile(kernel, target)
    limits: dict[str, Any] = {"limit_s": limit_s, "limit_steps": limit_steps, "limit_bytes": limit_bytes}
    limits |= {"explore": explore, "replay": replay}
    return exe.simulate(*args, check=check, max_findings=max_findings, ranks=ranks, record=record, **limits, **named)


def unseen(done: int, ctas: int) -> None:
    """A progress report that shows nothing."""


@public
def torch_op(name: str, kernel: Any, *, mutates: str | Iterable[str] | None = None) -> Any:
    """Register a kernel as the torch operator ``name`` ("mine::scale"), also for torch.compile; returns the operator.

    kernel: a kernel or an `Executable`. mutates: the arguments that it writes, which are all that a caller gets back;
    left out, those that its statements store to. `Any`: kernels are wrappers, operators are torch's.
    """
    from tilewright.cuda.tensors import register

    return register(name, kernel if isinstance(kernel, Executable) else compile(kernel), mutates)


@cache
def _warn_of_idle_gpu() -> None:
    """Warn, once, where a GPU could have run the kernel."""
    from tilewright.cuda.driver import is_usable

    if is_usable():
        warnings.warn(
            'CPU tensors run on the simulator, though this machine has a GPU: pass CUDA tensors, or on="sim"',
            TilewrightWarning,
            stacklevel=4,
        )


# The kernel and the architecture that `compile` is called with.


def kernel_of(kernel: Any) -> Kernel:
    """The kernel that a decorator's wrapper has. Raises KernelError for what is none."""
    authored = kernel if isinstance(kernel, Kernel) else getattr(kernel, "kernel", None)
    if not isinstance(authored, Kernel):
        hint = "call .specialize(...) first" if hasattr(kernel, "specialize") else "decorate it with @T.prim_func"
        name = getattr(kernel, "__name__", "")
        text = f"{name}, a {type(kernel).__name__}" if name else described(kernel)
        raise KernelError("this is not a kernel", given=text, allowed="what @T.prim_func made", hint=hint)
    return authored


def target_of(target: str | Mapping[str, str] | Arch | None, kernel: Kernel) -> Arch:
    """The architecture that is named; left out, the first that has the kernel's explicit instructions."""
    if isinstance(target, Arch):
        return target
    if isinstance(target, Mapping):
        if not {*target} <= {"kind", "arch"} or target.get("kind", "cuda") != "cuda":
            raise TargetError(
                "unknown kind of target", given=repr(dict(target)), allowed='{"kind": "cuda", "arch": "sm_90a"}'
            )
        target = target.get("arch", "cuda")
    if target is None or (isinstance(target, str) and target == "cuda"):
        return default_arch(tuple(_written(kernel)))
    return arch(target)


def _written(kernel: Kernel) -> Iterator[Requirement]:
    """The requirements of the instructions that a kernel names, copy atoms among them."""
    yield from (bound.form.arch for _, bound in calls_in(kernel.body))
    for stmt in statements(kernel.body):
        if isinstance(stmt, TileCallStmt) and stmt.dispatch in ATOMS:
            yield ATOMS[stmt.dispatch].arch


def check_target(lowered: Kernel, target: Arch) -> None:
    """Raises TargetError where an architecture lacks what a lowered kernel needs."""
    for stmt, bound in calls_in(lowered.body):
        with located(stmt.at):
            bound.check_arch(target)
    if (launch := lowered.launch) is None:
        return
    with located(lowered.at):
        hint = f'T.func_attr({{"{NON_PORTABLE_CLUSTER}": True}})'
        check_cluster(lowered.name, launch.cluster, target, non_portable=launch.non_portable_cluster, hint=hint)
        if launch.shared_bytes > target.shared_bytes:
            raise TargetError(f"{lowered.name} needs more shared memory than a CTA of {target} can have",
                              given=f"{launch.shared_bytes} bytes", allowed=f"{target.shared_bytes} bytes")  # fmt: skip


@public.methods
@public.constructor
class Executable(NotebookText):
    """A compiled kernel. Stages are made when they are first asked for, and kept.

    kernel: as authored. target: the architecture. report: one entry per tile call.
    """

    def __init__(self, kernel: Kernel, target: Arch, *, fast_math: bool = False) -> None:
        from tilewright.tile import check_registers, promised, resolve, with_swizzles

        self.kernel = kernel = with_swizzles(kernel)
        self.target = target
        self.fast_math = fast_math
        self._has_ranks = kernel.attr("ranks") is not None
        check_registers(kernel)
        resolved, self.report = resolve(promised(kernel), target)
        self.lowered = lower(resolved)
        check_target(self.lowered, target)
        self._forget_runs()

    def _forget_runs(self) -> None:
        self._programs: dict[frozenset[str], Program] = {}
        self._launcher: Launcher | None = None
        self._again: Callable[[tuple[Any, ...]], bool] | None = None  # launches what has been checked before

    def changed(self, change: Callable[[Kernel], Kernel]) -> Executable:
        """The same, with what is made of its lowered kernel in that one's place."""
        other = copy(self)
        for name in ("signature", "assembly", "_cuda"):
            vars(other).pop(name, None)
        other.lowered = change(self.lowered)
        other._forget_runs()
        return other

    report: DispatchReport

    @property
    def name(self) -> str:
        return self.kernel.name

    def __repr__(self) -> str:
        launch = self.lowered.launch
        shape = f", {launch.threads} threads a CTA, {launch.shared_bytes} bytes of shared memory" if launch else ""
        calls = len(self.report.entries)
        return f"<Executable {self.name} for {self.target}: {calls} tile call{'s' * (calls != 1)}{shape}>"

    def _notebook_text(self) -> str:
        """What a notebook shows: what it is, and how each tile call is carried out."""
        return "\n".join([repr(self), *map(str, self.report.entries)])

    # Stages

    @deep_recursion()
    def source(self, stage: str = "cuda") -> str:
        """The kernel at a stage, as text: "tile", "lowered", "cuda", "ptx" or "sass"."""
        if not isinstance(stage, str) or stage not in STAGES:
            shown = quoted(stage)
            raise ArgumentError(f"unknown stage {shown}", given=shown, allowed=choices(stage, STAGES))
        return str(getattr(self, f"_{stage}"))

    @property
    def _tile(self) -> str:
        return str(self.kernel)

    @property
    def _lowered(self) -> str:
        return str(self.lowered)

    @cached_property
    @deep_recursion()
    def _cuda(self) -> str:
        return self._emitted(may_alias=False)

    def _emitted(self, *, may_alias: bool) -> str:
        from tilewright.cuda import emit

        return emit(self.lowered, self.target, fast_math=self.fast_math, may_alias=may_alias)

    @property
    def _ptx(self) -> str:
        return self.assembly.ptx

    @property
    def _sass(self) -> str:
        from tilewright.cuda.nvrtc import sass

        return sass(self.cubin)

    @cached_property
    def assembly(self) -> Assembly:
        """The machine code of the CUDA text, kept on disk; needs the extra ``tilewright[cuda]``, no GPU."""
        return self._assembled(self._cuda)

    def _assembled(self, text: str) -> Assembly:
        from tilewright.cuda import entry_name
        from tilewright.cuda.cache import assemble
        from tilewright.cuda.nvrtc import check_log

        assembly = assemble(text, str(self.target), fast_math=self.fast_math)
        check_log(assembly, self.lowered, entry_name(self.lowered))
        return assembly

    def _cubin(self, *, may_alias: bool) -> bytes:
        """The kernel for calls whose arguments do not overlap, or for those where they may."""
        return self._assembled(self._emitted(may_alias=True)).cubin if may_alias else self.cubin

    @property
    def cubin(self) -> bytes:
        """The assembled kernel."""
        return self.assembly.cubin

    @property
    def resources(self) -> Resources:
        """Registers, local, spilled and shared bytes of the assembled kernel; dynamic shared memory is among them."""
        from tilewright.cuda import entry_name

        resources = self.assembly.resources(entry_name(self.lowered))
        launch = self.lowered.launch
        if launch is None:
            return resources
        return replace(resources, shared_bytes=max(resources.shared_bytes, launch.shared_bytes))

    def registers_of_a_thread(self) -> int:
        """As ptxas has them; 0 where there is nothing here that assembles the kernel."""
        try:
            return self.resources.registers
        except TilewrightError:
            return 0

    # Running

    @cached_property
    def signature(self) -> Signature:
        """The parameters of a call."""
        return Signature.of(self.kernel)

    def __call__(self, *args: Any, on: str | None = None, **named: Any) -> None:
        """Run on the arguments where they are: the simulator for host arrays, the GPU for CUDA tensors.

        on: "sim" or "gpu" to choose explicitly. Arrays are changed in place.
        """
        if self._has_ranks:
            args = of_this_rank(self.kernel, args)
        if self._again and on is None and not named and self._again(args):
            return
        __tracebackhide__ = True
        try:
            self._run(args, on, named)
        except TilewrightError as error:
            raise edge_error(error, sys._getframe(1)) from error.__cause__

    def _run(self, args: tuple[Any, ...], on: str | None, named: Mapping[str, Any]) -> None:
        if on is not None and (not isinstance(on, str) or on not in ("sim", "gpu")):
            shown = quoted(on)
            raise ArgumentError(f"unknown place {shown} to run {self.name}", given=shown, allowed='"sim", "gpu"')
        args = self.ordered(args, named, Executable.__call__)
        on_gpu = self._is_on_gpu(args)
        if on == "gpu" or (on_gpu and on is None):
            self._launch(args, from_host=not on_gpu)
        else:
            if on is None and any(host.is_torch(value) for value in args):
                _warn_of_idle_gpu()
            self.simulate(*args, check=CALLED)

    def _is_on_gpu(self, args: tuple[Any, ...]) -> bool:
        """Are the arrays on GPUs? Raises ArgumentError where only some are."""
        # An array passed for a number decides nothing here: it is refused later.
        places = [pair for pair in zip(self.kernel.params, args, strict=False) if pair[0].dtype == "handle"]
        arrays = (
            array for param, value in places if host.is_array(array := host.behind(value), f"argument {param.name}")
        )
        devices = set(map(host.device_of, arrays))
        on_gpu = {device.startswith("cuda") for device in devices}
        if len(on_gpu) > 1:
            raise host.different_devices(self.name, devices)
        return True in on_gpu

    def ordered(self, args: tuple[Any, ...], named: Mapping[str, Any], asked: Callable[..., Any]) -> tuple[Any, ...]:
        """Arguments in the order of the parameters; ``a`` and ``a_ptr`` both name the parameter a_ptr, and so does the
        buffer that is matched with it.

        asked: the function that was called with them, for an error that lists its keywords, too.
        """
        if not named:
            return args
        rest = dict(named)
        ordered = list(args)
        for index, (param, shown) in enumerate(zip(self.kernel.params, self.kernel.arguments, strict=True)):
            spellings = {param.name, param.name.removesuffix("_ptr"), param.name.removesuffix("_handle"), shown}
            names = spellings & rest.keys()
            free = 0 if index < len(args) else 1
            if len(names) > free:
                raise ArgumentError(f"argument {shown} of {self.name} is given twice", given=", ".join(sorted(names)))
            ordered += [rest.pop(name) for name in names]
        if rest:
            unknown = next(iter(rest))
            allowed = choices(unknown, [*named_arguments(self.kernel), *keywords_of(asked)])
            raise ArgumentError(f"{self.name} has no parameter {unknown!r}", given=unknown, allowed=allowed)
        return tuple(ordered)

    def _launch(self, args: tuple[Any, ...], *, from_host: bool) -> None:
        from tilewright.cuda.launch import launch_from_host

        if from_host:
            launch_from_host(self._ready_launcher(), args)
        else:
            launcher = self._ready_launcher()
            launcher.launch(args)
            self._again = launcher.quick.again

    def _ready_launcher(self) -> Launcher:
        from tilewright.cuda.launch import Launcher

        if self._launcher is None:
            self._launcher = Launcher(self.lowered, self.signature, self.target, self._cubin)
        return self._launcher

    def prepared(self, args: tuple[Any, ...]) -> tuple[LaunchPlan, tuple[Number, ...], int]:
        """A call on the GPU that is checked but not made: its plan, the values of its parameters, the stream."""
        return self._ready_launcher().prepared(args)

    def bind(self, *args: Any) -> Bindings:
        """The arguments checked against the signature: sizes, dtypes, alignment, assumptions."""
        if not self._is_on_gpu(args):
            return self.signature.bind([host.descriptor(value) for value in args])
        from tilewright.cuda.tensors import inspected

        return self.signature.bind([inspected(value, 0).descriptor for value in args])

    @deep_recursion()
    def program(self, check: str | Iterable[str] = "default") -> Program:
        """The simulator's program with these checks, made once."""
        from tilewright.sim import Program, parse_checks

        checks = parse_checks(check)
        if checks not in self._programs:
            self._programs[checks] = Program(self.lowered, checks, self.target)
        return self._programs[checks]

    def simulate(
        self,
        *args: Any,
        check: str | Iterable[str] = "all",
        progress: Callable[[int, int], None] | None = None,
        limit_s: float | None = host.MOST_SECONDS,
        limit_steps: int | None = host.MOST_STEPS,
        limit_bytes: int | None = None,
        max_findings: int = host.MOST_FINDINGS,
        explore: int = 0,
        replay: str | None = None,
        ranks: int | None = None,
        grids: GridsMeet | None = None,
        record: bool | int | tuple[int, ...] | RecordingOptions = False,
        **named: Any,
    ) -> Run:
        """Run on the simulator with these checks and limits, on ``ranks`` GPUs; see `tilewright.simulate`.

        progress: called with the CTAs that are done, and how many there are; left out, a terminal shows it. grids: of a
        launch among several, see `tilewright.sequence`.
        """
        limits = host.Limits(limit_s, limit_steps, limit_bytes, findings=max_findings, explore=explore, replay=replay)
        ordered = self.ordered(args, named, Executable.simulate)
        from tilewright.sim import RecordingOptions

        kept = RecordingOptions.of(record)
        if (count := ranks_of(self.kernel, ranks)) is not None:
            if kept is not None:
                check_one_gpu(self.kernel, "a recording", count)
            of_ranks = of_each_rank(self.kernel, ordered, count)
            return self._run_on_ranks(self.program(check), of_ranks, progress, limits)
        return self.run_program(
            self.program(check), ordered, progress=progress, limits=limits, record=kept, grids=grids
        )

    def run_program(
        self,
        program: Program,
        args: tuple[Any, ...],
        *,
        progress: Callable[[int, int], None] | None = None,
        limits: host.Limits | None = None,
        record: RecordingOptions | None = None,
        grids: GridsMeet | None = None,
    ) -> Run:
        """Run a program of this kernel on arguments in the order of its parameters."""
        values = self.bind(*args).values
        limits = replace(limits or host.Limits(), registers=self.registers_of_a_thread)
        with self._lent(args) as (arrays, maps):
            return program.run(arrays, values, maps, progress=progress, limits=limits, record=record, grids=grids)

    def _run_on_ranks(
        self,
        program: Program,
        of_ranks: Sequence[tuple[Any, ...]],
        progress: Callable[[int, int], None] | None,
        limits: host.Limits,
    ) -> Run:
        """Run a program on several GPUs. of_ranks: the arguments of each, those that callers do not name too."""
        values = same_values(self.kernel, [self.bind(*args).values for args in of_ranks])
        limits = replace(limits, registers=self.registers_of_a_thread)
        with ExitStack() as lent:
            arrays, maps = zip(*(lent.enter_context(self._lent(args)) for args in of_ranks), strict=True)
            return program.run_on_ranks(arrays, values, maps, progress=progress, limits=limits)

    def trace(self, *args: Any, marks: int = 1024, **named: Any) -> Trace:
        """Run with the marks of `T.trace` stamped: by the clock of the GPU that has the arrays, or by the simulator's
        steps. The kernel is assembled once more for it; other calls know nothing of marks.

        marks: of each warp, that are kept. Raises ArgumentError for a kernel without marks.
        """
        from tilewright.tracing import traced_run

        return traced_run(self, self.ordered(args, named, Executable.trace), marks)

    def advise(
        self, *args: Any, sizes: Mapping[str, int] | None = None, seed: int = 0, gpu: str | None = None,
        variants: Mapping[str, Any] | None = None, **named: Any
    ) -> Advice:  # fmt: skip
        """The accesses that cause bank conflicts and extra sectors, and layouts without them, each proved by a run.

        The arguments are copied; left out, they are random, by ``seed``. sizes: symbolic extents by name. gpu: on which
        the kernel's time is estimated, and what each change gains; left out, no time is. variants: the kernel with
        other constants, by what is other, compiled or not; what those gain that give the same results is told, too, and
        why others are left out. Raises KernelError where one is no kernel. `Any`: as of `compile`.
        """
        from tilewright.advise import advise

        check_one_gpu(self.kernel, "advise")
        on = None if gpu is None else self._on(gpu)
        values = self.ordered(args, named, Executable.advise)
        advice = advise(self, values, sizes or {}, seed)
        if on is None:
            return advice
        from tilewright.tuning import in_time

        arguments = self._or_random(values, sizes, seed)
        return replace(advice, times=in_time(self, advice.ran, arguments, on, variants or {}))

    def profile(
        self, *args: Any, gpu: str = "H200", sizes: Mapping[str, int] | None = None, seed: int = 0, **named: Any
    ) -> Profile:
        """The work of a run, and the least time that it takes on a GPU, such as "H200" (`tilewright.profiling.GPUS`).

        The arguments are copied; left out, they are random, by ``seed``. sizes: symbolic extents by name.
        """
        from tilewright.profiling import profile

        check_one_gpu(self.kernel, "profile")
        return profile(self, self.ordered(args, named, Executable.profile), self._on(gpu), sizes or {}, seed)

    def estimate(
        self, *args: Any, gpu: str = "H200", sizes: Mapping[str, int] | None = None, seed: int = 0, **named: Any
    ) -> Estimate:
        """The time that a run is estimated to take on a GPU, what bounds it, and what its threads wait for.

        Only the first CTAs run. The arguments stay as they are; left out, they are random, by ``seed``. sizes: symbolic
        extents by name.
        """
        from tilewright.profiling import estimate

        check_one_gpu(self.kernel, "estimate")
        arguments = self._or_random(self.ordered(args, named, Executable.estimate), sizes, seed)
        return estimate(self, arguments, self._on(gpu))

    def _on(self, name: str) -> Gpu:
        """The GPU of that name. Raises TargetError where it does not run this code."""
        from tilewright.profiling import gpu

        if not runs_on(self.target, (found := gpu(name)).arch.number, as_ptx=True):
            raise not_run(self.name, self.target, found.arch.number, f"the {found.name}")
        return found

    def _or_random(self, args: tuple[Any, ...], sizes: Mapping[str, int] | None, seed: int) -> tuple[Any, ...]:
        return args or tuple(make_arguments(self.kernel, {}, sizes or {}, seed).values())

    @contextmanager
    def _lent(self, args: tuple[Any, ...]) -> Iterator[tuple[Mapping[str, NDArray[Any]], Mapping[str, MapFields]]]:
        """The arguments of a run: NumPy arrays, copies of those on a GPU, else views; and the fields of tensor maps."""
        if self._is_on_gpu(args):
            from tilewright.cuda.launch import lent
        else:
            lent = host.lent
        maps = {name: value for name, value in self._named(args) if isinstance(value, host.TensorMap)}
        kinds = {name: buffer.dtype for name, buffer in self.signature.buffers.items()}
        buffers = {name: value for name, value in self._named(args) if name in kinds}
        buffers |= {mapped(name): value.array for name, value in maps.items()}
        kinds |= {mapped(name): dtype(value.fields.storage) for name, value in maps.items()}
        with lent(buffers, kinds) as arrays:
            yield arrays, {name: value.fields for name, value in maps.items()}

    def _named(self, args: tuple[Any, ...]) -> Iterable[tuple[str, Any]]:
        return ((param.name, value) for param, value in zip(self.kernel.params, args, strict=True))
