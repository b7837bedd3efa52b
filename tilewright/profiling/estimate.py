"""The time that a kernel is estimated to take on a GPU, what bounds it, and what its threads wait for.

A few CTAs run on the simulator and are recorded; what they did is played on one SM (`play`) and extended to the whole
grid (`whole`). The figures are those of an H200, measured; other GPUs have the rates of their documents and the H200's
latencies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError
from tilewright.isa import ctas_of_an_sm
from tilewright.profiling.bounds import Occupancy, _occupancy
from tilewright.profiling.gpus import Gpu
from tilewright.profiling.whole import Timing, WholeGrid, played

if TYPE_CHECKING:
    from tilewright.compiler import Executable
    from tilewright.errors import Span

__all__ = ["Estimate", "RecordedLaunch", "estimate", "estimate_loaded", "recorded"]

CTAS = 2  # that are recorded
LEAST = 0.02  # of the time, or of all waiting: less is not told
SECONDS = 20.0  # that the simulator may take for them
BOUND = 0.6  # of the time: a unit that is busy for so much bounds the kernel, else waiting does
UNITS = {"tensor": "tensor cores", "alu": "integer units", "fma": "float units", "mufu": "special functions",
         "TMA": "copy engine"}  # fmt: skip
WAITS = {"memory": "loads of global memory", "operations": "asynchronous operations", "m-barrier": "an m-barrier",
         "barrier": "a barrier", "issue": "their turn at the schedulers and units"}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Estimate:
    """seconds: of a launch, with nothing of its arrays in the cache. unit: that is busy for most of the time; at: the
    line that uses it most. busy: the part of the time, by unit. waits: by what for and at which line, the part of all
    waiting, the most first. measured: are the figures those of this GPU?
    """

    name: str
    gpu: str
    seconds: float
    unit: str
    at: Span | None
    busy: Mapping[str, float]
    waits: tuple[tuple[str, Span | None, float], ...]
    ctas: int
    occupancy: Occupancy
    measured: bool

    @property
    def why(self) -> str:
        """What bounds it, in a sentence without its end."""
        most = self.busy.get(self.unit, 0.0)
        if most >= BOUND or not self.waits:
            return f"bound by {self.unit} ({min(most, 1.0):.0%} busy){_line(self.at)}"
        what, at, _ = self.waits[0]
        return f"waits for {what}{_line(at)}; {self.unit} {most:.0%} busy"

    def __repr__(self) -> str:
        return f"<Estimate: {self.name} on {self.gpu}: {self.seconds * 1e6:.1f} us, {self.why}>"

    def __str__(self) -> str:
        said = "" if self.measured else f" (no figure of {self.gpu} is measured: rates of its documents)"
        rows = sorted(self.busy.items(), key=lambda row: -row[1])
        busy = [f"  {unit:<18}{min(part, 1.0):6.0%} of the time" for unit, part in rows if part >= LEAST]
        waits = [
            f"  {part:6.0%} of waiting: for {what}{_line(at)}" for what, at, part in self.waits[:3] if part >= LEAST
        ]
        head = f"{self.name} on {self.gpu}: about {self.seconds * 1e6:.1f} us, {self.why}{said}"
        return "\n".join([head, *busy, *waits, f"  {self.ctas:,} CTAs; {self.occupancy}"])


def _line(at: Span | None) -> str:
    return f" at {at}" if at else ""


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """What was recorded of a kernel, and how the whole grid is launched. `Any`: a `Recording`."""

    name: str
    recording: Any
    launch: WholeGrid
    occupancy: Occupancy

    def played(self, gpu: Gpu) -> Estimate:
        """The estimate of it on a GPU."""
        timing = played(self.recording, self.launch, gpu)
        return explained(self.name, self.recording, timing, self.launch.ctas, self.occupancy, gpu)


def recorded(exe: Executable, args: Sequence[Any], gpu: Gpu) -> RecordedLaunch:
    """Run the first CTAs of a launch on copies of its arguments; of arrays on a GPU only the shapes are used."""
    from tilewright.cuda.emit_alias import written
    from tilewright.sim import RecordingOptions

    if len(args) != len(exe.kernel.params):
        exe.bind(*args)  # raises, and names them
    stored = written(exe.lowered)
    own = tuple(_stand_in(value, copied=param.name in stored) for param, value in
                zip(exe.kernel.params, args, strict=True))  # fmt: skip
    try:
        run = exe.simulate(*own, check="none", record=RecordingOptions(CTAS, alone=True), limit_s=SECONDS)
    except SimulationError as alone:  # CTAs that wait for others, which do not run
        if "limit" in alone.what:
            raise
        run = exe.simulate(*own, check="none", record=RecordingOptions(CTAS), limit_s=SECONDS)
    nbytes = {buffer.name: int(value.nbytes) for param, value in zip(exe.kernel.params, own, strict=True)
              for buffer in exe.kernel.buffers if buffer.data == param and isinstance(value, np.ndarray)}  # fmt: skip
    occupancy, ctas = _occupancy(exe, gpu), prod(exe.bind(*own).grid)
    return RecordedLaunch(exe.name, run.recording, WholeGrid(ctas, occupancy.ctas, nbytes), occupancy)


def estimate(exe: Executable, args: Sequence[Any], gpu: Gpu) -> Estimate:
    """Estimate a launch with these arguments, which stay as they are."""
    return recorded(exe, args, gpu).played(gpu)


def estimate_loaded(kernel: Any, args: Sequence[Any], launched: Mapping[str, Any], gpu: Gpu) -> Estimate:
    """The same of a kernel that others wrote (`Any`: a `LoadedKernel`); its registers are not known.

    launched: grid, block, shared_bytes and cluster, as of its `simulate`.
    """
    from tilewright.sim import RecordingOptions

    copies = [np.copy(value) if isinstance(value, np.ndarray) else value for value in args]
    named = {name: value for name, value in launched.items() if value is not None}
    run = kernel.simulate(*copies, check="none", record=RecordingOptions(CTAS, alone=True), limit_s=SECONDS, **named)
    own = kernel.lowered(*args, **named).launch
    occupancy = Occupancy(ctas_of_an_sm(gpu.arch, own.threads, own.shared_bytes, 0), -(-own.threads // 32))
    nbytes = {name: int(value.nbytes) for name, value in zip(kernel.parameters, args, strict=False)
              if isinstance(value, np.ndarray)}  # fmt: skip
    ctas = prod(int(extent) for extent in launched["grid"])
    return RecordedLaunch(kernel.name, run.recording, WholeGrid(ctas, occupancy.ctas, nbytes), occupancy).played(gpu)


def _stand_in(value: Any, *, copied: bool) -> Any:
    """What the simulator gets for an argument. `Any`: whatever is passed."""
    if not host.is_array(value):
        return value
    if host.device_of(value) == "cpu":
        return host.copied(value) if copied else value
    name = str(value.dtype).removeprefix("torch.")
    return np.zeros(tuple(value.shape), dtype(name).numpy)


def explained(
    name: str, recording: Any, timing: Timing, ctas: int, occupancy: Occupancy, gpu: Gpu
) -> Estimate:  # fmt: skip
    """A timing with its unit, its lines, and its waits in words."""
    busy = {UNITS.get(unit, unit): part for unit, part in timing.busy.items()}
    unit = max(timing.busy, key=lambda one: timing.busy[one], default="issue")
    rows = defaultdict[Any, float](float)
    for (one, row), turns in timing.units.items():
        if one == unit:
            rows[recording.rows[row].at] += turns
    total = sum(timing.waits.values()) or 1.0
    waits: dict[tuple[str, Any], float] = {}
    for (what, row), cycles in timing.waits.items():
        key = WAITS[what], recording.rows[row].at
        waits[key] = waits.get(key, 0.0) + cycles / total
    ordered = sorted(waits.items(), key=lambda item: -item[1])
    at = max(rows, key=lambda where: rows[where], default=None)
    return Estimate(name, gpu.name, timing.seconds, UNITS.get(unit, unit), at, busy,
                    tuple((what, where, part) for (what, where), part in ordered), ctas, occupancy,
                    gpu.name == "H200")  # fmt: skip
