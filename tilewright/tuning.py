"""The fastest of several configurations of a kernel, for each class of arguments.

    scale = tw.autotune(kernel, configs=[{"BLOCK": 128}, {"BLOCK": 256}], key=["n"])
    scale(a, b)  # the first call with an n of this class tries them; the next ones, in other processes too, do not

Configurations that cannot run are left out, with the reason: the compiler refuses them, they spill registers, or the
simulator counts much more work than for the best one. The others are timed on the GPU, with cold caches; arrays get
their old values back. Without a GPU the simulator's counts decide, and the result says so.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tilewright import host
from tilewright.compiler import Executable, compile, unseen
from tilewright.errors import ArgumentError, TilewrightError, choices, described
from tilewright.ir import Kernel
from tilewright.public import Public, instances
from tilewright.records import replace

__all__ = ["Trial", "Tuned", "autotune"]

ROUNDS = 20
COUNTED_BYTES = 1 << 22  # of all arrays together: beyond that a GPU is quicker than the simulator
MUCH_MORE = 2.0  # times the counted seconds of the best one
# Seconds for each count, on an H200; the proportions are about the same on every GPU.
MULTIPROCESSORS, HERTZ, BYTES_PER_SECOND, ISSUED_PER_CYCLE = 132, 1.7e9, 4e12, 4

MOST_CHOSEN = 1024  # shapes whose choice is found at once

Config = Mapping[str, Any]  # `Any`: values of compile time
Step = Callable[[], None]

public = Public(ArgumentError, {"Config": instances("a dictionary of the kernel's constants", Mapping)})


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one configuration. seconds: measured, None where it was not. counted: by the simulator's counts.
    local_bytes: a thread's registers that are kept in memory. refused: why it was left out.
    """

    config: Mapping[str, Any]  # `Any`: values of compile time
    seconds: float | None = None
    counted: float | None = None
    local_bytes: int = 0
    refused: str = ""

    def __str__(self) -> str:
        words = ", ".join(f"{name}={value!r}" for name, value in self.config.items())
        if self.refused:
            return f"{words}: left out, {self.refused}"
        if self.seconds is not None:
            return f"{words}: {self.seconds * 1e6:.1f} us measured"
        return f"{words}: {(self.counted or 0) * 1e6:.1f} us by the simulator's counts, not measured"

    @property
    def rank(self) -> tuple[bool, float]:
        """The key by which trials are sorted, the best first."""
        return bool(self.refused), self.seconds if self.seconds is not None else self.counted or 0.0


@public
def autotune(
    kernel: Any = None,
    *,
    configs: Iterable[Config],
    key: Iterable[str] | Callable[..., object] | None = None,
    target: Any = None,
    fast_math: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """The kernel in the configuration that is fastest for the arguments of a call; without ``kernel`` a decorator.

    kernel: what ``@T.jit`` made, or a function that takes a configuration's values by name and returns a kernel.
    configs: dictionaries of these values. key: names of symbolic extents and integer parameters whose sizes, each
    rounded up to a power of two, make a class of arguments of its own; left out, all of them; or a function of the
    arguments. target, fast_math: as of `tilewright.compile`. progress: called with the steps that are done, and how
    many there are; left out, a terminal shows them.

    `Any`: a `Tuned`, or a decorator; kernels have wrappers of several types.
    """
    options = [dict(config) for config in configs if isinstance(config, Mapping)]
    if not options:
        raise ArgumentError("autotune has nothing to choose from", given="no configs",
                            allowed="dictionaries of the kernel's constants")  # fmt: skip
    how = {"target": target, "fast_math": fast_math}
    if kernel is None:
        return lambda found: Tuned(found, options, key, how, progress)
    return Tuned(kernel, options, key, how, progress)


class Tuned:
    """A kernel that chooses its configuration by the arguments. (Mutable: it remembers its choices.)"""

    def __init__(
        self,
        kernel: Any,  # `Any`: of several types, as `autotune` says
        configs: Sequence[Config],
        key: Iterable[str] | Callable[..., object] | None,
        options: Mapping[str, Any],  # `Any`: of `tilewright.compile`
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.make: Callable[..., Any] = getattr(kernel, "specialize", kernel)
        if not callable(self.make) or isinstance(kernel, Kernel | Executable):
            raise ArgumentError("autotune needs a kernel with constants", given=described(kernel),
                                allowed="what @T.jit made, or a function of the constants")  # fmt: skip
        self.__name__ = str(getattr(kernel, "__name__", "kernel"))
        self.configs, self.options, self.progress = configs, options, progress
        self.key = key if key is None or callable(key) else tuple(key)
        self._made: dict[int, Executable | TilewrightError] = {}
        self._chosen: dict[object, Executable] = {}
        self._trials: dict[object, tuple[Trial, ...]] = {}

    def __repr__(self) -> str:
        return f"<Tuned {self.__name__}: {len(self.configs)} configurations, {len(self._trials)} classes tried>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the trials of each class of arguments, the best first."""
        from tilewright.view import preformatted  # upwards, and only when a notebook asks

        trials = [str(trial) for tried in self._trials.values() for trial in tried]
        return preformatted("\n".join([repr(self), *trials]))

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
        on_gpu = on != "sim" and (on == "gpu" or any(_is_far(value) for value in args))
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
                made = kernel if isinstance(kernel, Executable) else compile(kernel, **self.options)
                self._made[number] = made
            except TilewrightError as error:
                self._made[number] = error
        return self._made[number]

    def _executables(self) -> dict[int, Executable]:
        """The configurations that compile, by number. Raises ArgumentError where there are none."""
        every = {number: self._compiled(number) for number in range(len(self.configs))}
        found = {number: exe for number, exe in every.items() if isinstance(exe, Executable)}
        if not found:
            refused = {k: error.what for k, error in every.items() if isinstance(error, TilewrightError)}
            raise self._nothing_runs([Trial(self.configs[k], refused=why) for k, why in refused.items()])
        return found

    def _nothing_runs(self, trials: Sequence[Trial]) -> ArgumentError:
        return ArgumentError(f"no configuration of {self.__name__} can run", given="; ".join(map(str, trials)),
                             allowed="one that compiles and runs")  # fmt: skip

    def _class_of(self, args: Sequence[Any]) -> tuple[object, ...]:
        if callable(self.key):
            return (self.key(*args),)
        values = next(iter(self._executables().values())).bind(*args).values
        known = sorted(name for name, value in values.items() if isinstance(value, int | np.integer))
        for name in self.key or ():
            if name not in known:
                raise ArgumentError(f"{self.__name__} has no size {name!r}", given=f"key={list(self.key or ())}",
                                    allowed=choices(name, known))  # fmt: skip
        sizes = (abs(int(values[name])) for name in (known if self.key is None else self.key))
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
        where = _gpu_of(args) if on_gpu else "counts"
        decides = [where, repr(group), texts, [repr(config) for config in self.configs], emitter_version()]
        return hashlib.sha256(json.dumps(decides).encode()).hexdigest()

    def _tried(self, args: Sequence[Any], *, on_gpu: bool) -> tuple[Trial, ...]:
        with _steps(self.__name__, len(self.configs) + ROUNDS * on_gpu, self.progress) as step:
            trials = self._measured(args, step) if on_gpu else self._examined(args, step, on_gpu=False)
        ranked = sorted(trials, key=lambda trial: trial.rank)
        if ranked[0].refused:
            raise self._nothing_runs(ranked)
        return tuple(ranked)

    def _examined(self, args: Sequence[Any], step: Step, *, on_gpu: bool) -> list[Trial]:
        """A trial without a measurement: refused by the compiler, or with spilled bytes and the simulator's counts."""
        trials = []
        for number, config in enumerate(self.configs):
            trial, exe = Trial(config), self._compiled(number)
            try:
                if isinstance(exe, TilewrightError):
                    raise exe
                if on_gpu:
                    trial = replace(trial, local_bytes=exe.resources.local_bytes)
                if not on_gpu or sum(map(_nbytes, args)) <= COUNTED_BYTES:
                    trial = replace(trial, counted=_counted(exe, args))
            except TilewrightError as error:
                trial = replace(trial, refused=error.what)
            trials.append(trial)
            step()
        return trials

    def _measured(self, args: Sequence[Any], step: Step) -> list[Trial]:
        """The trials, those that are not refused timed on the GPU."""
        from tilewright.cuda import timing

        if timing.is_captured(args):
            raise ArgumentError(f"{self.__name__} cannot be tuned while its stream is captured into a graph",
                                given="a first call with arguments of this class",
                                allowed="a call before the capture, which finds the configuration")  # fmt: skip
        with timing.current(args), timing.kept(self._stored(args)):
            trials = _pruned(self._examined(args, step, on_gpu=True))
            left = [number for number, trial in enumerate(trials) if not trial.refused]
            calls = [partial(self._executables()[number], *args) for number in left]
            found = timing.cold_seconds(calls, timing.stream_in_use(args), ROUNDS, step)
        for number, seconds in zip(left, found, strict=True):
            trials[number] = replace(trials[number], seconds=seconds)
        return trials

    def _stored(self, args: Sequence[Any]) -> list[Any]:
        """The arrays that some configuration stores to."""
        from tilewright.cuda.emit_alias import written

        names = {name for exe in self._executables().values() for name in written(exe.lowered)}
        params = next(iter(self._executables().values())).kernel.params
        return [value for param, value in zip(params, args, strict=False) if param.name in names]


# Counting


def _counted(exe: Executable, args: Sequence[Any]) -> float:
    """Seconds that a GPU might take by the simulator's counts: memory, shared memory and instructions, one after the
    other, on as many multiprocessors as there are CTAs for.
    """
    copies = [value if _is_far(value) else host.copied(value) for value in args]
    counts, ctas = exe.simulate(*copies, check="none", progress=unseen).counts, prod(exe.bind(*args).grid)
    moved = counts.bytes_read.get("global", 0) + counts.bytes_written.get("global", 0)
    issued = sum(line.warps for line in counts.lines if line.space != "local")  # local memory is in registers
    accesses = {name for line in counts.lines for name in (line.op, f"{line.op} {line.space}")}
    issued += sum(warps for name, warps in counts.instructions.items() if name not in accesses)
    cycles = counts.wavefronts + issued / ISSUED_PER_CYCLE
    waves = -(-ctas // MULTIPROCESSORS) * MULTIPROCESSORS / max(ctas, 1)
    return (moved / BYTES_PER_SECOND + cycles / MULTIPROCESSORS / HERTZ) * waves


def _pruned(trials: list[Trial]) -> list[Trial]:
    """The trials, of which those that cannot be the best are refused."""
    least = min((trial.counted for trial in trials if trial.counted is not None), default=0.0)
    fits = any(not trial.refused and not trial.local_bytes for trial in trials)
    found = []
    for trial in trials:
        times_more = trial.counted / least if trial.counted and least else 1.0
        if not trial.refused and fits and trial.local_bytes:
            trial = replace(trial, refused=f"{trial.local_bytes} bytes of a thread's registers are in memory")
        elif not trial.refused and times_more > MUCH_MORE:
            trial = replace(trial, refused=f"the simulator counts {times_more:.1f} times the work of another one")
        found.append(trial)
    return found


# Arguments


def _is_far(value: Any) -> bool:
    """Is it an array on a GPU? `Any`: whatever is passed."""
    return host.is_array(value) and host.device_of(value) != "cpu"


def _quickly(value: Any) -> object:
    """A key that differs for arguments of different classes, and perhaps within a class. `Any`: whatever is passed."""
    if host.is_array(value):
        return tuple(value.shape) if hasattr(value, "shape") else host.descriptor(value)
    return value if isinstance(value, int) else type(value)


def _nbytes(value: Any) -> int:
    return int(getattr(value, "nbytes", 0)) if host.is_array(value) else 0


def _gpu_of(args: Sequence[Any]) -> str:
    from tilewright.cuda import timing

    with timing.current(args) as device:
        return device.name


# Notes on the disk


def _written(trials: Sequence[Trial], configs: Sequence[Config]) -> str:
    return json.dumps([[configs.index(one.config), one.seconds, one.counted, one.local_bytes, one.refused]
                       for one in trials])  # fmt: skip


def _read(note: str | None, configs: Sequence[Config]) -> tuple[Trial, ...] | None:
    """The trials of a note; None where it is none."""
    try:
        rows = json.loads(note or "")
        trials = tuple(Trial(configs[int(number)], *rest) for number, *rest in rows)
        return trials if sorted(row[0] for row in rows) == list(range(len(configs))) else None
    except (ValueError, TypeError, IndexError, KeyError):
        return None


# Progress


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
