"""The fastest of several configurations of a kernel, for each class of arguments; and advice in time: how long a kernel
takes by estimate, how long with other layouts or constants.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_void_p
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from itertools import chain
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.compiler import Executable, compile, kernel_of
from tilewright.cuda import driver
from tilewright.cuda.launch import span_bytes
from tilewright.cuda.tensors import inspected, stream_of
from tilewright.errors import ArgumentError, SimulationError, TilewrightError, ToolError, choices, described
from tilewright.ir import Attr, Kernel
from tilewright.ir.arguments import ArrayInfo
from tilewright.ir.launch import BLOCKS_PER_SM, MAX_REGISTERS
from tilewright.isa import SECTOR_BYTES
from tilewright.profiling.acts import accesses, is_atomic
from tilewright.profiling.bounds import Gpu, occupancy_of
from tilewright.profiling.estimate import Estimate, RecordedLaunch, recorded, spilled_bytes, spilled_wavefronts
from tilewright.public import Public, instances
from tilewright.records import NotebookText, replace

if TYPE_CHECKING:
    from tilewright.errors import Span

# The fastest of several configurations of a kernel, for each class of arguments.
#
#     scale = tw.autotune(kernel, configs=[{"BLOCK": 128}, {"BLOCK": 256}], key=["n"])
#     scale(a, b)  # the first call with an n of this class tries them; the next ones, in other processes too, do not
#
# Configurations that cannot run are left out, with the reason: the compiler refuses them, or they spill registers. The
# time of the others is estimated (`tilewright.profiling`); on a GPU those that are estimated to be the fastest are
# timed, with cold caches, and arrays get their old values back. Without a GPU the estimate decides, and the result says
# so.


ROUNDS = 20
MEASURED = 8  # configurations that are timed on a GPU: the first by estimate
FEW = 4  # configurations that are estimated one after the other; of more, several at a time
USUAL = "H200"  # the GPU of an estimate where none is named

LONGEST = 60  # characters of what an error says is given or allowed, in the line of a trial
MOST_CHOSEN = 1024  # shapes whose choice is found at once

Config = Mapping[str, Any]  # `Any`: values of compile time
Step = Callable[[], None]

public = Public(ArgumentError, {"Config": instances("a dictionary of the kernel's constants", Mapping)})


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one configuration. seconds: measured, None where it was not. estimated: seconds, None where there
    is no estimate. why: what bounds it, by the estimate; waits_for: what threads wait for, if that does. local_bytes: a
    thread's registers that are kept in memory. refused: why it was left out.
    """

    config: Mapping[str, Any]  # `Any`: values of compile time
    seconds: float | None = None
    estimated: float | None = None
    why: str = ""
    local_bytes: int = 0
    refused: str = ""
    waits_for: str = ""

    def __str__(self) -> str:
        return self.said()

    def said(self, *, timed: str = ", not measured") -> str:
        """The configuration with its times. timed: what is said of one that was not measured."""
        words = ", ".join(f"{name}={value!r}" for name, value in self.config.items())
        if self.refused:
            return f"{words}: left out, {self.refused}"
        estimate = "not estimated" if self.estimated is None else f"{self.estimated * 1e6:.1f} us estimated"
        if self.seconds is not None:
            return f"{words}: {self.seconds * 1e6:.1f} us measured, {estimate}"
        return f"{words}: {estimate}{timed}" + (f": {self.why}" if self.why else "")

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The key by which trials are sorted, the best first: measured ones, then estimated ones."""
        if self.seconds is not None:
            return bool(self.refused), False, self.seconds
        return bool(self.refused), True, float("inf") if self.estimated is None else self.estimated


@public
def autotune(
    kernel: Any = None,
    *,
    configs: Iterable[Config] = (),
    key: Iterable[str] | Callable[..., object] | None = None,
    target: Any = None,
    fast_math: bool = False,
    gpu: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """The kernel in the configuration that is fastest for the arguments of a call; without ``kernel`` a decorator.

    kernel: what ``@T.jit`` made, or a function that takes a configuration's values by name and returns a kernel.
    configs: dictionaries of these values. key: names of symbolic extents and integer parameters whose sizes, each
    rounded up to a power of two, make a class of arguments of its own; left out, all of them; or a function of the
    arguments. target, fast_math: as of `tilewright.compile`; where only a gpu is named, the target is that GPU's. gpu:
    for which times are estimated, where the arrays are on none; an H200 if left out. progress: called with the steps
    that are done, and how many there are; left out, a terminal shows them.

    `Any`: a `Tuned`, or a decorator; kernels have wrappers of several types.
    """
    options = [dict(config) for config in configs if isinstance(config, Mapping)]
    if not options:
        raise ArgumentError("autotune has nothing to choose from", given="no configs",
                            allowed="configs=[{...}, ...], dictionaries of the kernel's constants")  # fmt: skip
    how = {"target": target, "fast_math": fast_math}
    if kernel is None:
        return lambda function: Tuned(function, options, key, how, progress, gpu)
    return Tuned(kernel, options, key, how, progress, gpu)


class Tuned(NotebookText):
    """A kernel that chooses its configuration by the arguments. (Mutable: it remembers its choices.)"""

    def __init__(
        self,
        kernel: Any,  # `Any`: of several types, as `autotune` says
        configs: Sequence[Config],
        key: Iterable[str] | Callable[..., object] | None,
        options: Mapping[str, Any],  # `Any`: of `tilewright.compile`
        progress: Callable[[int, int], None] | None,
        gpu: str | None = None,
    ) -> None:
        from tilewright.profiling import gpu as gpu_named

        on = gpu_named(gpu or USUAL)
        self.gpu = on.name
        if gpu is not None and options["target"] is None:
            options = {**options, "target": str(on.arch)}
        self.make: Callable[..., Any] = getattr(kernel, "specialize", kernel)
        if not callable(self.make) or isinstance(kernel, Kernel | Executable):
            raise ArgumentError("autotune needs a kernel with constants", given=described(kernel),
                                allowed="what @T.jit made, or a function of the constants")  # fmt: skip
        self.__name__ = str(getattr(kernel, "__name__", "kernel"))
        if self.make is kernel:
            _check_takes(kernel, self.__name__, configs)
        self.configs, self.options, self.progress = configs, options, progress
        self.key = key if key is None or callable(key) else tuple(key)
        self._made: dict[int, Executable | TilewrightError] = {}
        self._chosen: dict[object, Executable] = {}
        self._trials: dict[object, tuple[Trial, ...]] = {}

    def __repr__(self) -> str:
        return f"<Tuned {self.__name__}: {len(self.configs)} configurations, {len(self._trials)} classes tried>"

    def _notebook_text(self) -> str:
        """What a notebook shows: the trials of each class of arguments, the best first."""
        trials = [str(trial) for tried in self._trials.values() for trial in tried]
        return "\n".join([repr(self), *trials])

    def __call__(self, *args: Any, on: str | None = None) -> None:
        """Run on the arguments, in the configuration for their class; the first call of a class looks for it."""
        self.executable(*args, on=on)(*args, on=on)

    def executable(self, *args: Any, on: str | None = None) -> Executable:
        """The kernel in the configuration for these arguments."""
        quick = (on, self.key(*args)) if callable(self.key) else (on, *map(_quickly, args))
        if quick not in self._chosen:
            best = self.trials(*args, on=on)[0]
            if len(self._chosen) >= MOST_CHOSEN:
                self._chosen.clear()
            self._chosen[quick] = self._executables()[self.configs.index(best.config)]
        return self._chosen[quick]

    def best(self, *args: Any, on: str | None = None) -> dict[str, Any]:
        """The configuration for these arguments."""
        return dict(self.trials(*args, on=on)[0].config)

    def trials(self, *args: Any, on: str | None = None) -> tuple[Trial, ...]:
        """The trial of each configuration for arguments of this class, the best one first.

        Raises ArgumentError where none can run.
        """
        on_gpu = on != "sim" and (on == "gpu" or any(host.is_on_gpu(value) for value in args))
        group = (on_gpu, *self._class_of(args))
        if group not in self._trials:
            self._trials[group] = self._found(args, group, on_gpu=on_gpu)
        return self._trials[group]

    # Configurations and classes of arguments

    def _compiled(self, number: int) -> Executable | TilewrightError:
        """The configuration with this number, or why it is refused."""
        if number not in self._made:
            try:
                kernel = self.make(**self.configs[number])
                exe = kernel if isinstance(kernel, Executable) else compile(kernel, **self.options)
                self._made[number] = exe
            except TilewrightError as error:
                self._made[number] = error
        return self._made[number]

    def _executables(self) -> dict[int, Executable]:
        """The configurations that compile, by number. Raises ArgumentError where there are none."""
        every = {number: self._compiled(number) for number in range(len(self.configs))}
        executables = {number: exe for number, exe in every.items() if isinstance(exe, Executable)}
        if not executables:
            refused = {k: _reason(error) for k, error in every.items() if isinstance(error, TilewrightError)}
            raise self._nothing_runs([Trial(self.configs[k], refused=why) for k, why in refused.items()])
        return executables

    def _nothing_runs(self, trials: Sequence[Trial]) -> ArgumentError:
        return ArgumentError(f"no configuration of {self.__name__} can run", given="; ".join(map(str, trials)),
                             allowed="one that compiles and runs")  # fmt: skip

    def _class_of(self, args: Sequence[Any]) -> tuple[object, ...]:
        if callable(self.key):
            return (self.key(*args),)
        values = next(iter(self._executables().values())).bind(*args).values
        names = sorted(name for name, value in values.items() if isinstance(value, int | np.integer))
        for name in self.key or ():
            if name not in names:
                raise ArgumentError(f"{self.__name__} has no size {name!r}", given=f"key={list(self.key or ())}",
                                    allowed=choices(name, names))  # fmt: skip
        sizes = (abs(int(values[name])) for name in (names if self.key is None else self.key))
        return tuple(1 << max(size - 1, 0).bit_length() for size in sizes)

    # Trying

    def _found(self, args: Sequence[Any], group: tuple[object, ...], *, on_gpu: bool) -> tuple[Trial, ...]:
        """The trials, from the disk or measured now."""
        from tilewright.cuda.cache import Cache

        store, name = Cache.of_environment(), self._entry(args, group, on_gpu=on_gpu)
        trials = _read(store.note(name), self.configs)
        if trials is None:
            trials = self._tried(args, on_gpu=on_gpu)
            store.keep_note(name, _written(trials, self.configs))
        return trials

    def _entry(self, args: Sequence[Any], group: tuple[object, ...], *, on_gpu: bool) -> str:
        """The name under which a choice is kept: where it was made, for which class, from which texts."""
        from tilewright.cuda.cache import emitter_version

        texts = {number: f"{exe.target} {exe.fast_math}\n{exe.kernel}" for number, exe in self._executables().items()}
        where = _gpu_of(args) if on_gpu else f"estimated for {self.gpu}"
        decides = [where, repr(group), texts, [repr(config) for config in self.configs], emitter_version()]
        return hashlib.sha256(json.dumps(decides).encode()).hexdigest()

    def _tried(self, args: Sequence[Any], *, on_gpu: bool) -> tuple[Trial, ...]:
        with _steps(self.__name__, len(self.configs) + ROUNDS * on_gpu, self.progress) as step:
            trials = self._measured(args, step) if on_gpu else self.estimates(args, step)
        ranked = sorted(trials, key=lambda trial: trial.rank)
        if ranked[0].refused:
            raise self._nothing_runs(ranked)
        return tuple(ranked)

    def estimates(self, args: Sequence[Any], step: Step = lambda: None, gpu: str = "") -> list[Trial]:
        """A trial of each configuration without a measurement, in their order. gpu: another than that of `autotune`."""
        from tilewright.profiling import gpu as gpu_named

        job = _Job(self, tuple(args), gpu_named(gpu or self.gpu).name)
        numbers = range(len(self.configs))
        if len(numbers) <= FEW or any(map(host.is_on_gpu, args)) or not hasattr(os, "fork"):
            return [_after(step, job.trial(number)) for number in numbers]
        with job.at_work(), ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as pool:
            return [_after(step, trial) for trial in pool.map(_trial_at_work, numbers)]

    def _measured(self, args: Sequence[Any], step: Step) -> list[Trial]:
        """The trials, those that are not refused and are estimated to be the fastest timed on the GPU."""
        if is_captured(args):
            raise ArgumentError(f"{self.__name__} cannot be tuned while its stream is captured into a graph",
                                given="a first call with arguments of this class",
                                allowed="a call before the capture, which finds the configuration")  # fmt: skip
        with current(args) as device, kept(self._stored(args)):
            trials = _pruned(self.estimates(args, step, _figures_of(device.name)))
            left = [number for number, trial in enumerate(trials) if not trial.refused]
            left = sorted(left, key=lambda number: trials[number].estimated or 0.0)[:MEASURED]
            calls = [partial(self._executables()[number], *args) for number in left]
            seconds_of = cold_seconds(calls, stream_in_use(args), ROUNDS, step)
        for number, seconds in zip(left, seconds_of, strict=True):
            trials[number] = replace(trials[number], seconds=seconds)
        return trials

    def _stored(self, args: Sequence[Any]) -> list[Any]:
        """The arrays that some configuration stores to."""
        from tilewright.cuda.emit_unit import written

        names = {name for exe in self._executables().values() for name in written(exe.lowered)}
        params = next(iter(self._executables().values())).kernel.params
        return [value for param, value in zip(params, args, strict=False) if param.name in names]


def _check_takes(make: Callable[..., Any], name: str, configs: Iterable[Config]) -> None:
    """A function that makes kernels takes each configuration's values: told before it is called."""
    try:
        takes = signature(make)
    except (TypeError, ValueError):  # of what is no Python function; the call itself tells
        return
    config: Config = {}
    try:
        for config in configs:
            takes.bind(**config)
    except TypeError as error:
        raise ArgumentError(
            f"autotune needs what @T.jit made, or a function of the constants: {name} is none for {dict(config)}",
            given=f"{name}{takes}: {error}", allowed=f"def {name}({', '.join(config)}), which returns a kernel",
        ) from None  # fmt: skip


# Estimates of configurations, in several processes.


@dataclass(frozen=True)
class _Job:
    """The estimates of a `Tuned` for arguments, on a GPU."""

    tuned: Tuned
    args: tuple[Any, ...]
    gpu: str

    def trial(self, number: int) -> Trial:
        """Of a configuration: refused by the compiler, or with spilled bytes and an estimate, where one can be made."""
        trial, exe = Trial(self.tuned.configs[number]), self.tuned._compiled(number)
        if isinstance(exe, TilewrightError):
            return replace(trial, refused=_reason(exe))
        try:
            trial = replace(trial, local_bytes=exe.resources.local_bytes)
        except ToolError:  # no assembler here
            pass
        except TilewrightError as error:
            return replace(trial, refused=_reason(error))
        try:
            estimate = exe.estimate(*self.args, gpu=self.gpu)
        except SimulationError as error:
            return trial if any(map(host.is_on_gpu, self.args)) else replace(trial, refused=_reason(error))
        return replace(trial, estimated=estimate.seconds, why=estimate.why, waits_for=estimate.waits_for)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have this be the job of processes that are forked in the context."""
        AT_WORK.append(self)
        try:
            yield
        finally:
            AT_WORK.remove(self)


AT_WORK: list[_Job] = []  # the jobs of forked processes: kernels are no data that could be sent to them


def _trial_at_work(number: int) -> Trial:
    return AT_WORK[-1].trial(number)


def _after(step: Step, trial: Trial) -> Trial:
    step()
    return trial


def _figures_of(device: str) -> str:
    """The GPU of the table whose name is in that of a device, or the usual one."""
    from tilewright.profiling import GPUS

    return next((name for name in sorted(GPUS, key=len, reverse=True) if name in device), USUAL)


def _pruned(trials: list[Trial]) -> list[Trial]:
    """The trials, of which those that spill are refused where others do not."""
    fits = any(not trial.refused and not trial.local_bytes for trial in trials)
    return [replace(trial, refused=f"{trial.local_bytes} bytes of a thread's registers are in memory")
            if fits and trial.local_bytes and not trial.refused else trial for trial in trials]  # fmt: skip


# Arguments, and the GPU that they are on.


def _quickly(value: Any) -> object:
    """A key that differs for arguments of different classes, and perhaps within a class. `Any`: whatever is passed."""
    if host.is_array(value):
        return tuple(value.shape) if hasattr(value, "shape") else host.descriptor(value)
    return value if isinstance(value, int) else type(value)


def _gpu_of(args: Sequence[Any]) -> str:
    with current(args) as device:
        return device.name


# Notes on the disk, for later processes.


def _written(trials: Sequence[Trial], configs: Sequence[Config]) -> str:
    rows = (
        (configs.index(t.config), t.seconds, t.estimated, t.why, t.local_bytes, t.refused, t.waits_for) for t in trials
    )
    return json.dumps([*rows])


def _read(note: str | None, configs: Sequence[Config]) -> tuple[Trial, ...] | None:
    """The trials of a note; None where it is none."""
    try:
        rows = json.loads(note or "")
        trials = tuple(Trial(configs[int(number)], *rest) for number, *rest in rows)
        return trials if sorted(row[0] for row in rows) == list(range(len(configs))) else None
    except (ValueError, TypeError, IndexError, KeyError):
        return None


# Progress, as lines for whoever waits.


@contextmanager
def _steps(name: str, total: int, progress: Callable[[int, int], None] | None) -> Iterator[Step]:
    """A function that is called after each step, and shows the progress."""
    done, shown = 0, progress is None and sys.stderr.isatty()

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)
        elif shown:
            print(f"\rtuning {name}: step {done} of {total}", end="", file=sys.stderr, flush=True)

    yield step
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _reason(error: TilewrightError) -> str:
    """What was refused, in a line: with what was given and what is allowed, where that is short."""
    words = (f"{word}: {value}" for word, value in (("given", error.given), ("allowed", error.allowed)) if value)
    return "; ".join((error.what, *(text for text in words if len(text) <= LONGEST and "\n" not in text)))


# Advice in time: how long a kernel takes by estimate, how long with other layouts or constants, what else would gain.
#
# Another layout, value of a constant or limit of registers was run, and the run with it is what was played. What begins
# with "if" was played, too, but nobody has run it: the recorded accesses were changed, and not the kernel.


LEAST_GAIN = 0.05  # of the time: less is not told
SHOWN = 5
SECONDS = 60.0  # that a run of a variant may take
TOLERANCE = 1e-2  # of results, which may be added up in another order


@dataclass(frozen=True, slots=True)
class Gain:
    """What a change gains. seconds: with it. was_run: did a kernel with it run and give the same results?"""

    what: str
    at: Span | None
    seconds: float
    was_run: bool

    def told(self, before: float) -> str:
        """As a line, beside the time before."""
        where = f"{self.at}: " if self.at else ""
        less = 1 - self.seconds / before
        return f"{where}{self.what}: {before * 1e6:.1f} -> {self.seconds * 1e6:.1f} us, {less:.0%} less"


@dataclass(frozen=True, slots=True)
class InTime:
    """now: the kernel as it is. gains: the largest first. no_gain: what else was tried, in words; refused: why some
    was left out, by what it is.
    """

    now: Estimate
    gains: tuple[Gain, ...]
    no_gain: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        head = f"about {self.now.seconds * 1e6:.1f} us on {self.now.gpu}, {self.now.why}"
        lines = [f"  {gain.told(self.now.seconds)}" + ("" if gain.was_run else " (played, not run)")
                 for gain in self.gains[:SHOWN]]  # fmt: skip
        lines += [f"  tried without gain: {', '.join(self.no_gain)}"] if self.no_gain else []
        lines += [f"  left out: {what}: {why}" for what, why in self.refused.items()]
        return "\n".join([head, *lines])


def in_time(
    exe: Executable,
    changed: Sequence[tuple[str, Executable]],
    args: Sequence[Any],
    gpu: Gpu,
    variants: Mapping[str, Any],
) -> InTime:
    """The times of a kernel and of its changed ones, and what else would gain. changed: what is another, and the kernel
    with all changes up to this one, which ran. variants: the kernel in other ways, compiled or not; each is run here,
    and left out where it does not give the same results.
    """
    now = recorded(exe, args, gpu)
    before = now.played(gpu)
    tried = _tried(exe, {**variants, **_limited(exe, now, gpu)}, args)
    refused = {what: why for what, why in tried.items() if isinstance(why, str)}
    ran = [*changed, *((what, other) for what, other in tried.items() if isinstance(other, Executable))]
    gains = [Gain(what, None, recorded(variant, args, gpu).played(gpu).seconds, True) for what, variant in ran]
    gains += [Gain(what, at, other.played(gpu).seconds, False) for what, at, other in _ifs(now)]
    told = [gain for gain in gains if gain.seconds < (1 - LEAST_GAIN) * before.seconds]
    idle = tuple(gain.what for gain in gains if gain.was_run and gain not in told)
    return InTime(before, tuple(sorted(told, key=lambda gain: gain.seconds)), idle, refused)


def _limited(exe: Executable, now: RecordedLaunch, gpu: Gpu) -> dict[str, Executable]:
    """The kernel with the limit of its registers that makes it fastest, of those that ptxas assembled here: for fewer
    CTAs of an SM or none at least where it spills, for more where registers allow no more. It never spills more.
    """
    from tilewright.compiler import compile

    spilled, ctas = spilled_bytes(exe), now.occupancy.ctas
    more = range(ctas + 1, 2 * ctas + 1) if now.occupancy.limit == "registers" else ()
    best, fastest = (1 - LEAST_GAIN) * now.played(gpu).seconds, dict[str, Any]()
    for blocks in (*(range(ctas) if spilled else ()), *more):
        limits = Attr(((BLOCKS_PER_SM, blocks), (MAX_REGISTERS, 0)))  # the last ones count
        kernel = replace(exe.kernel, body=(*exe.kernel.body, limits))
        try:
            other = compile(kernel, exe.target, fast_math=exe.fast_math)
            used = other.resources
        except TilewrightError:  # nothing assembles it, or not with this limit
            continue
        occupancy, left = occupancy_of(other.lowered.launch, gpu, used.registers), spilled_bytes(other)
        wavefronts = spilled_wavefronts(other, occupancy.warps, now.recording)
        launch = replace(now.launch, resident=occupancy.ctas, spilled=wavefronts)
        seconds = replace(now, launch=launch, occupancy=occupancy).played(gpu).seconds
        if left <= spilled and seconds < best:
            what = f"min_blocks={blocks}" if blocks else "without min_blocks and max_registers"
            before = f"{exe.resources.registers}" + f", {spilled} bytes spilled" * bool(spilled)
            after = f"{used.registers}" + (f", {left} bytes spilled" if left else ", none spilled")
            best, fastest = seconds, {f"{what} (registers of a thread: {before} -> {after})": other}
    return fastest


def _tried(exe: Executable, variants: Mapping[str, Any], args: Sequence[Any]) -> dict[str, Executable | str]:
    """The kernels that run on the arguments with the same results, and of others why they are left out."""
    kernels = {what: other if isinstance(other, Executable) else kernel_of(other) for what, other in variants.items()}
    wanted = _results(exe, args) if kernels else []
    tried: dict[str, Executable | str] = {}
    for what, kernel in kernels.items():
        try:
            other = kernel if isinstance(kernel, Executable) else compile(kernel, exe.target, fast_math=exe.fast_math)
            results = _results(other, args, "all")
        except TilewrightError as error:  # it does not fit, cannot run on these arguments, or a check speaks
            tried[what] = _reason(error)
            continue
        agree = (np.allclose(a, b, TOLERANCE, TOLERANCE, equal_nan=True) for a, b in zip(wanted, results, strict=True))
        tried[what] = other if all(agree) else "it gives other results"
    return tried


def _results(exe: Executable, args: Sequence[Any], check: str = "none") -> list[Any]:
    """The arrays after a run, in double precision. `Any`: arrays."""
    copied = host.copies(args)
    exe.simulate(*copied, check=check, limit_s=SECONDS)
    return [np.asarray(value, np.float64) for value in copied if isinstance(value, np.ndarray)]


def _ifs(now: RecordedLaunch) -> Iterator[tuple[str, Any, RecordedLaunch]]:
    """What might be otherwise: each access as it would be at best, and more CTAs of an SM."""
    totals: dict[int, list[int]] = {}
    for access, _ in accesses(now.recording):
        sums = totals.setdefault(access.site, [0, 0, 0, 0, 0])
        for k, value in enumerate((access.sectors, access.nbytes, access.wavefronts, access.ideal, access.times)):
            sums[k] += value
    for number, (sectors, nbytes, passes, ideal, times) in totals.items():
        site = now.recording.sites[number]
        verb = "writes" if site.write else "reads"
        least = -(-nbytes // SECTOR_BYTES)
        if site.space == "global" and is_atomic(site.op):
            what = f"if a CTA added up what it adds to {site.buffer}, and one lane did so"
            yield what, site.at, _with(now, number, _rare)
        elif site.space == "global" and sectors > 2 * least:
            pieces = f"{sectors / times:.0f} sectors of 32 bytes by a warp, {least / times:.0f} would do"
            what = f"if neighbouring lanes touched neighbouring bytes where it {verb} {site.buffer} ({pieces})"
            yield what, site.at, _with(now, number, _in_order)
        elif site.space == "shared" and passes > ideal:
            yield f"if what {verb} {site.buffer} had no bank conflicts", site.at, _with(now, number, _without_conflicts)
    limit = now.occupancy.limit
    if limit in ("registers", "shared memory", "CTAs") and now.launch.ctas > now.launch.resident:
        more = replace(now.launch, resident=2 * now.launch.resident)
        yield f"if {limit} allowed twice as many CTAs of an SM", None, replace(now, launch=more)


def _in_order(access: Any) -> Any:
    return replace(access, sectors=-(-access.nbytes // SECTOR_BYTES))


def _without_conflicts(access: Any) -> Any:
    return replace(access, wavefronts=access.ideal)


def _rare(access: Any) -> Any:
    return replace(access, times=0, lanes=0, sectors=0)


def _with(now: RecordedLaunch, site: int, change: Callable[[Any], Any]) -> RecordedLaunch:
    """The same with other accesses at one site. `Any`: a `Moved`."""
    streams = []
    for stream in now.recording.streams:
        events = [
            replace(event, moved=tuple(change(access) if access.site == site else access for access in event.moved))
            if getattr(event, "moved", ()) else event
            for event in stream.events
        ]  # fmt: skip
        streams.append(replace(stream, events=tuple(events)))
    return replace(now, recording=replace(now.recording, streams=tuple(streams)))


# Times of launches with a cold cache; arrays that kernels write get their old values back.


FLUSH_BYTES = 1 << 28  # more than any second-level cache

Call = Callable[[], object]


def stream_in_use(args: Sequence[Any]) -> int:
    """The stream that a launch on these arguments goes to."""
    arrays = [array for array in map(host.behind, args) if host.is_array(array)]
    streams = (stream_of(array, host.ordinal(host.device_of(array))) for array in arrays)
    return next((stream for stream in streams if stream is not None), 0)


def is_captured(args: Sequence[Any]) -> bool:
    """Is the stream of these arguments being captured into a graph, where nothing can be timed?"""
    status = c_int()
    driver.call("cuStreamIsCapturing", c_void_p(stream_in_use(args)), byref(status))
    return bool(status.value)


@contextmanager
def current(args: Sequence[Any]) -> Iterator[driver.GpuDevice]:
    """The device of these arguments, to which this thread's calls go."""
    places = [host.device_of(value) for value in map(host.behind, args) if host.is_array(value)]
    device = driver.device(host.ordinal(next(place for place in places if place != "cpu")))
    with device.current():
        yield device


@contextmanager
def kept(arrays: Sequence[Any]) -> Iterator[None]:
    """A context at whose end these arrays get their old values back."""
    descriptors = [inspected(array, 0).descriptor for array in arrays]
    spans = [(info.address or 0, span_bytes(info)) for info in descriptors if isinstance(info, ArrayInfo)]
    driver.synchronize()
    copies = [driver.allocate(nbytes) for _, nbytes in spans]
    try:
        for (address, nbytes), copy in zip(spans, copies, strict=True):
            _copy(copy, address, nbytes)
        yield
        driver.synchronize()
        for (address, nbytes), copy in zip(spans, copies, strict=True):
            _copy(address, copy, nbytes)
    finally:
        driver.synchronize()
        for copy in copies:
            driver.free(copy)


def _copy(target: int, source: int, nbytes: int) -> None:
    driver.call("cuMemcpyDtoD_v2", c_void_p(target), c_void_p(source), c_size_t(nbytes))


def cold_seconds(calls: Sequence[Call], stream: int, rounds: int, done: Call) -> list[float]:
    """The median time of each call over rounds in which they take turns; before each, the cache is filled with other
    memory.

    done: called after each round. Raises ToolError where a call fails.
    """
    flushed = driver.allocate(FLUSH_BYTES)
    events = [[(_event(), _event()) for _ in range(rounds)] for _ in calls]
    try:
        for call in calls:  # load the kernel outside of the timing
            call()
        for turn in range(rounds):
            for call, pairs in zip(calls, events, strict=True):
                begin, end = pairs[turn]
                driver.call("cuMemsetD32Async", c_void_p(flushed), c_uint(turn), c_size_t(FLUSH_BYTES // 4),
                            c_void_p(stream))  # fmt: skip
                driver.call("cuEventRecord", begin, c_void_p(stream))
                call()
                driver.call("cuEventRecord", end, c_void_p(stream))
            driver.synchronize()
            done()
        return [statistics.median(_seconds(*pair) for pair in pairs) for pairs in events]
    finally:
        for event in chain.from_iterable(chain.from_iterable(events)):
            driver.call("cuEventDestroy_v2", event)
        driver.free(flushed)


def _event() -> c_void_p:
    event = c_void_p()
    driver.call("cuEventCreate", byref(event), c_uint(0))
    return event


def _seconds(begin: c_void_p, end: c_void_p) -> float:
    passed = c_float()
    driver.call("cuEventElapsedTime", byref(passed), begin, end)
    if passed.value <= 0:
        raise ToolError("a launch took no time", given=f"{passed.value} ms between two events")
    return passed.value / 1000
