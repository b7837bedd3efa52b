"""The parts of benchmarks: medians, processes of their own, tables of ratios, targets."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

PACKAGES = ("tilewright", "numpy", "nvidia-cuda-nvrtc", "apache-tvm", "nvidia-cutlass-dsl", "triton", "torch", "numba")
_RESULTS = Path(__file__).parent / "results"

Times = dict[str, float | None]  # milliseconds by name; None where the thing to measure is not installed


@dataclass(frozen=True, slots=True)
class Time:
    """One median. yardstick: milliseconds of the time that this one is compared with, where each time has its own.
    limit: how many yardsticks it may take.
    """

    name: str
    milliseconds: float | None
    yardstick: float | None = None
    limit: float | None = None

    @property
    def verdict(self) -> Verdict | None:
        """Whether the limit is kept, where there is one."""
        if self.limit is None:
            return None
        known = self.milliseconds and self.yardstick
        ratio = self.milliseconds / self.yardstick if known else None  # type: ignore[operator]  # known
        return Verdict(self.name, self.limit, ratio, "times its yardstick")


@dataclass(frozen=True, slots=True)
class Target:
    """The time called ``name`` takes at most ``limit`` times the one called ``of``, or milliseconds where none is."""

    name: str
    limit: float
    of: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A measurement and its limit, both in ``unit``; None where a peer is not installed."""

    what: str
    limit: float
    measured: float | None
    unit: str

    @property
    def met(self) -> bool | None:
        return None if self.measured is None else self.measured <= self.limit

    @property
    def said(self) -> str:
        return {True: "met", False: "MISSED", None: "not measured"}[self.met]

    def __str__(self) -> str:
        measured = "-" if self.measured is None else f"{self.measured:.3g}"
        return f"  target: {self.what}: {measured} of at most {self.limit:.3g} {self.unit}: {self.said}"


@dataclass(frozen=True, slots=True)
class Table:
    """Our times against those of peers, all from one run. verdicts: on what is no time; `targets` makes the others."""

    title: str
    ours: tuple[Time, ...]
    peers: tuple[Time, ...] = ()
    targets: tuple[Target, ...] = ()
    others: tuple[Verdict, ...] = ()

    @property
    def times(self) -> tuple[Time, ...]:
        return (*self.ours, *self.peers)

    def ratios(self) -> dict[str, float]:
        """Our first time over each other one, by name: 0.2 means a fifth of its time. Or each over its yardstick."""
        own = {t.name: t.milliseconds / t.yardstick for t in self.ours if t.milliseconds and t.yardstick}
        if own:
            return own
        first, *rest = self.ours
        ours = first.milliseconds
        if ours is None:
            return {}
        return {other.name: ours / other.milliseconds for other in (*rest, *self.peers) if other.milliseconds}

    def verdicts(self) -> tuple[Verdict, ...]:
        """Each target, and whether it is met."""
        return (*self._own_verdicts(), *map(self._verdict, self.targets), *self.others)

    def _own_verdicts(self) -> Iterator[Verdict]:
        yield from (time.verdict for time in self.ours if time.verdict is not None)

    def _verdict(self, target: Target) -> Verdict:
        times = {time.name: time.milliseconds for time in self.times}
        measured = times[target.name]
        if not target.of:
            return Verdict(target.name, target.limit, measured, "ms")
        of = times[target.of]
        ratio = measured / of if measured and of else None
        return Verdict(target.name, target.limit, ratio, f"of {target.of}")

    def __str__(self) -> str:
        ratios = self.ratios()
        lines = [self.title]
        for time_ in self.times:
            took = "not installed" if time_.milliseconds is None else f"{time_.milliseconds:.1f} ms"
            of_what = "times its yardstick" if time_.yardstick else "of it"
            ratio = f"{ratios[time_.name]:10.2g} {of_what}" if time_.name in ratios else ""
            verdict = time_.verdict
            target = f", target {verdict.limit:.3g}: {verdict.said}" if verdict else ""
            lines.append(f"  {time_.name:<72}{took:>14}{ratio}{target}")
        return "\n".join([*lines, *map(str, map(self._verdict, self.targets)), *map(str, self.others)])


def median_ms(call: Callable[[], object], *, repeats: int) -> float:
    """The median time of a call in milliseconds, after one that does not count."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def alternately(*measurements: Callable[[], Times], rounds: int = 3) -> tuple[tuple[Time, ...], ...]:
    """Measure by turns, and take the median of each time: a slow minute of the machine then affects all alike."""
    taken = [[measure() for measure in measurements] for _ in range(rounds)]
    return tuple(
        tuple(Time(name, _median([times[name] for times in turns])) for name in turns[0])
        for turns in zip(*taken, strict=True)
    )


def _median(times: list[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return statistics.median(known) if known else None


def peer_times(module: str, **environment: str) -> Times:
    """The times that ``benchmarks.peers.<module>`` prints, measured in a process of its own with these variables set.

    A peer that is not installed has None for each time, so that its rows remain in the table.
    """
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.peers.{module}"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def machine() -> dict[str, str]:
    """Where and with what a run was measured."""
    cpus = Path("/proc/cpuinfo")
    known = cpus.read_text().splitlines() if cpus.exists() else []
    models = [line.split(":")[1].strip() for line in known if line.startswith("model name")]
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "processor": f"{models[0] if models else platform.processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        **{package: version for package in PACKAGES if (version := _version(package))},
    }


def save(name: str, table: Table) -> Path:
    """Write a table, with where it was measured, to benchmarks/results/<name>.json."""
    times = {time.name: time.milliseconds for time in table.times}
    targets = [{**asdict(verdict), "met": verdict.met} for verdict in table.verdicts()]
    result = {"title": table.title, **machine(), "milliseconds": times, "ratios": table.ratios(), "targets": targets}
    path = _RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return path


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
