"""The time that a kernel is estimated to take on a GPU, what bounds it, and what its threads wait for.

A few CTAs run on the simulator and are recorded; what they did is played on one SM (`play`) and extended to the whole
grid (`WholeGrid`). The figures are those of an H200, measured; other GPUs have the rates of their documents and the
H200's latencies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, SimulationError, TilewrightError
from tilewright.isa import clusters_on
from tilewright.profiling.acts import CACHED_BYTES, Loops, Script, accesses, is_atomic, script_of
from tilewright.profiling.bounds import GPUS, Gpu, Occupancy, by_buffer, bytes_of, occupancy_of
from tilewright.profiling.play import MEASURED, STARTS, Played, clock_of, figures_of, play, unmeasured

if TYPE_CHECKING:
    from tilewright.compiler import Executable
    from tilewright.errors import Span

# From one SM to the whole grid: how many CTAs an SM has, what comes from HBM, and when the last one ends.


WAVES = 4  # of CTAs that are played; the others follow at the rate of the last ones
MOST_ACTS = 60_000
KEPT = 0.5  # of the second-level cache: so much of what is written stays there
UNEVEN = 1.6  # by pairs that are fitted: rows, one and four of a CTA
OVERLAP = 5.0  # the larger, the less units get in each other's way; by pairs
# Seconds of an atomic of a warp on a line of 128 bytes, and more for each lane with a place of its own: measured on an
# H200 (pairs, histogram: 10.2 ns for 32 lanes; learners, count: 0.76 ns for one).
LINE_ATOMIC_S, LANE_ATOMIC_S = 0.45e-9, 0.305e-9


@dataclass(frozen=True, slots=True)
class WholeGrid:
    """ctas: of the whole grid. resident: of an SM at a time. nbytes: of the arrays, by buffer. work: how many times as
    much a CTA moves in the whole problem as in the recorded one. spilled: wavefronts of a CTA to and from its spilled
    registers.
    """

    ctas: int
    resident: int
    nbytes: Mapping[str, int] = field(default_factory=dict)
    work: float = 1.0
    spilled: float = 0.0


@dataclass(frozen=True, slots=True)
class Timing:
    """cycles: of the SM that has the most to do, of which a second has ``clock``. used: those that each of its units is
    busy for. waits, units: where warps waited, and which rows used which unit. least_s: seconds that atomics on the
    same places take.
    """

    cycles: float
    seconds: float
    used: Mapping[str, float]
    waits: Mapping[tuple[str, int], float]
    units: Mapping[tuple[str, int], float]
    clock: float
    least_s: float = 0.0

    @property
    def busy(self) -> dict[str, float]:
        """The part of the time that each unit is busy for."""
        return {unit: many / self.cycles for unit, many in self.used.items()}


def played(recording: Any, launch: WholeGrid, gpu: Gpu) -> Timing:
    """How long the whole grid takes. Raises ArgumentError where it has no CTA."""
    if not launch.ctas:
        raise ArgumentError("a launch without CTAs takes no time to estimate", given="0 CTAs", allowed="1 at least")
    cluster = recording.cluster
    clusters = launch.ctas // cluster
    busy_sms = min(gpu.sms, launch.ctas)
    share, written = shares(recording, launch, gpu)
    firsts = [cta for cta in recording.ctas if cta % cluster == 0][:2]
    cached = frozenset(name for name, nbytes in launch.nbytes.items() if nbytes <= CACHED_BYTES)
    scripts = [script_of(recording, share, first, cached) for first in firsts]
    clock = clock_of(gpu, recording)
    machine = figures_of(gpu, busy_sms, written, clock)
    sms = cluster * clusters_on(gpu.sms, cluster)
    slots = max(1, int(sms * launch.resident) // cluster)
    per_sm = clusters / (sms / cluster)  # of an SM, or of a group of as many as a cluster has
    resident = max(1, min(launch.resident, ceil(per_sm)))
    total = total_played(scripts, resident, per_sm)
    schedule = play(scripts, machine, resident, total)
    if launch.spilled:
        schedule.busy = {**schedule.busy, "spills": launch.spilled * total}
    per_sm = per_sm if clusters > slots * WAVES else ceil(per_sm)
    cycles = extended(schedule, resident, total, per_sm)
    if clusters > slots and per_sm > total:  # else the last CTAs of an SM were played, with fewer and fewer beside them
        cycles += uneven(scripts, gpu, schedule, resident)
    used = {name: many * per_sm / total for name, many in schedule.busy.items()}
    cycles = max(cycles, together(many for unit, many in used.items() if unit != STARTS))
    least = contention(recording, launch)
    seconds = machine.launch_s + max(cycles / clock, least)
    return Timing(cycles, seconds, used, schedule.waits, schedule.units, clock, least)


def uneven(scripts: Sequence[Script], gpu: Gpu, schedule: Played, resident: int) -> float:
    """Cycles at the end of the grid, while some SMs have no CTA any more: as long as one takes that is alone, and the
    less, the less it is slowed down by others.
    """
    alone = play(scripts[:1], figures_of(gpu, 1), 1, 1).ends[-1]
    lasts = max(alone, resident * schedule.ends[-1] / len(schedule.ends))
    return UNEVEN * alone * (1 - alone / lasts)


def together(used: Iterable[float]) -> float:
    """Cycles of units that are busy for so many, and get in each other's way where several are for long."""
    return float(sum(many**OVERLAP for many in used) ** (1 / OVERLAP))


def total_played(scripts: Sequence[Script], resident: int, per_sm: float) -> int:
    acts = max(1, sum(len(warp) for script in scripts for _, _, warp in script.warps) // len(scripts))
    most = max(resident, min(WAVES * resident, MOST_ACTS // acts))
    return max(1, min(ceil(per_sm), most))


def extended(schedule: Played, resident: int, total: int, per_sm: float) -> float:
    """Cycles until so many clusters have ended, of which the first ``total`` were played."""
    ends = sorted(schedule.ends)
    if per_sm <= total:
        return max(ends[-1], *schedule.busy.values())
    before = max(0, total - 1 - max(resident, total // 2))
    rate = (ends[-1] - ends[before]) / max(1, total - 1 - before) if total > 1 else ends[-1]
    rate = max(rate, *(cycles / total for cycles in schedule.busy.values()))
    least = max(schedule.busy.values(), default=0.0) * per_sm / total  # what is on its way at the end has to arrive
    return max(least, ends[-1] + (per_sm - total) * rate)


def contention(recording: Any, launch: WholeGrid) -> float:
    """Seconds that atomics on the same line of memory take at least, one after the other."""
    seconds = defaultdict[str, float](float)
    for access, site in accesses(recording):
        if site.space == "global" and site.write and is_atomic(site.op):
            # lanes of one place are added up
            at_once = access.lanes if access.lanes <= access.sectors * 8 else access.times
            seconds[site.buffer] += access.times * LINE_ATOMIC_S + at_once * LANE_ATOMIC_S
    many = launch.ctas / max(1, len(recording.ctas))
    lines = {name: max(1, launch.nbytes.get(name, 0) // 128) for name in seconds}
    return max((taken * many / lines[name] for name, taken in seconds.items()), default=0.0)


def shares(recording: Any, launch: WholeGrid, gpu: Gpu) -> tuple[dict[tuple[str, bool], float], float]:
    """Of each buffer the part of what CTAs move that comes from HBM or goes there: each byte of an array once, and of
    what is written what the cache does not keep; and the part of all these bytes that is written.
    """
    read, written = Counter[str](), Counter[str]()
    for access, site in accesses(recording):
        if site.space == "global" and not site.issues:
            (written if site.write else read)[site.buffer] += access.sectors * 32
    for move in recording.operations:
        for name in launch.nbytes.keys() & set(move.buffers):
            read[name] += move.reads.get("global", 0)
            written[name] += move.writes.get("global", 0)
    many = launch.ctas / max(1, len(recording.ctas)) * launch.work
    far_read = {name: min(nbytes * many, launch.nbytes.get(name, 0)) for name, nbytes in read.items() if nbytes}
    far_written = {name: min(nbytes * many, launch.nbytes.get(name, 0)) for name, nbytes in written.items() if nbytes}
    passed = sum(far_read.values()) + sum(far_written.values())
    kept = max(0.0, 1 - KEPT * gpu.l2_bytes / max(1.0, passed))  # the rest of what is written is among the last bytes
    parts = {(name, False): nbytes / (read[name] * many) for name, nbytes in far_read.items()}
    parts |= {(name, True): kept * nbytes / (written[name] * many) for name, nbytes in far_written.items()}
    out, total = kept * sum(far_written.values()), sum(far_read.values())
    return parts, out / max(1.0, out + total)


CTAS = 2  # that are recorded
LEAST = 0.02  # of the time, or of all waiting: less is not told
SECONDS = 120.0  # by the clock, that the simulator may take for them: an idle core needs 0.1 to 4 (examples, products)
BOUND = 0.6  # of the time: a unit that is busy for so much bounds the kernel, else waiting does
UNITS = {"tensor": "tensor cores", "alu": "integer units", "fma": "float units", "mufu": "special functions",
         "TMA": "copy engine", "spills": "spilled registers", "starts": "starts of CTAs"}  # fmt: skip
WAITS = {"memory": "loads of global memory", "operations": "asynchronous operations", "m-barrier": "an m-barrier",
         "barrier": "a barrier", "results": "results of instructions before",
         "issue": "their turn at the schedulers and units"}  # fmt: skip


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
    def waits_for(self) -> str:
        """What threads wait for most; "" where a unit bounds it."""
        return "" if not self.waits or self.busy.get(self.unit, 0.0) >= BOUND else self.waits[0][0]

    @property
    def why(self) -> str:
        """What bounds it, in a sentence without its end."""
        most, idle = self.busy.get(self.unit, 0.0), GPUS[self.gpu].sms - self.ctas
        few = f"; {idle} of {GPUS[self.gpu].sms} SMs have no CTA" if idle > 0 else ""
        if not self.waits_for:
            return f"bound by {self.unit} ({min(most, 1.0):.0%} busy){_line(self.at)}{few}"
        return f"waits for {self.waits_for}{_line(self.waits[0][1])}; {self.unit} {most:.0%} busy{few}"

    def __repr__(self) -> str:
        return f"<Estimate: {self.name} on {self.gpu}: {self.seconds * 1e6:.1f} us, {self.why}>"

    def __str__(self) -> str:
        rows = sorted(self.busy.items(), key=lambda row: -row[1])
        busy = [f"  {unit:<18}{min(part, 1.0):6.0%} of the time" for unit, part in rows if part >= LEAST]
        most = [wait for wait in self.waits[:3] if wait[2] >= LEAST]
        waits = [f"  {part:6.0%} of waiting: for {what}{_line(at)}" for what, at, part in most]
        head = f"{self.name} on {self.gpu}: about {self.seconds * 1e6:.1f} us, {self.why}{unmeasured(self.gpu)}"
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
        """The estimate of it on a GPU: a timing with its unit, its lines, and its waits in words."""
        timing, at = played(self.recording, self.launch, gpu), [row.at for row in self.recording.rows]
        unit = max(timing.busy, key=lambda used: timing.busy[used], default="issue")
        lines, waits = defaultdict[Any, float](float), defaultdict[Any, float](float)
        for (used, row), turns in timing.units.items():
            lines[at[row]] += turns * (used == unit)
        whole = sum(timing.waits.values())
        for (what, row), cycles in timing.waits.items() if whole else ():
            waits[WAITS[what], at[row]] += cycles / whole
        line = max(lines, key=lambda where: lines[where], default=None)
        busy = {UNITS.get(used, used): part for used, part in timing.busy.items()}
        most = sorted(((*wait, part) for wait, part in waits.items()), key=lambda wait: -wait[2])
        return Estimate(self.name, gpu.name, timing.seconds, UNITS.get(unit, unit), line, busy, tuple(most),
                        self.launch.ctas, self.occupancy, gpu.name == MEASURED)  # fmt: skip


def recorded(exe: Executable, args: Sequence[Any], gpu: Gpu) -> RecordedLaunch:
    """Run the first CTAs of a launch on copies of its arguments; of arrays on a GPU only the shapes are used."""
    from tilewright.cuda.emit_unit import written
    from tilewright.sim import RecordingOptions

    if len(args) != len(exe.kernel.params):
        exe.bind(*args)  # raises, and names them
    stored = written(exe.lowered)
    values = tuple(_stand_in(value, copied=param.name in stored) for param, value in
                zip(exe.kernel.params, args, strict=True))  # fmt: skip
    try:
        run = exe.simulate(*values, check="none", record=RecordingOptions(CTAS, stepped=0, alone=True), limit_s=SECONDS)
    except SimulationError as alone:  # CTAs that wait for others, which do not run
        if alone.kind == "limit":
            raise
        run = exe.simulate(*values, check="none", record=RecordingOptions(CTAS, stepped=0), limit_s=SECONDS)
    nbytes = bytes_of(by_buffer(exe, values))
    occupancy, ctas = occupancy_of(exe.lowered.launch, gpu, exe.registers_of_a_thread()), prod(exe.bind(*values).grid)
    launch = WholeGrid(ctas, occupancy.ctas, nbytes, spilled=spilled_wavefronts(exe, occupancy.warps, run.recording))
    return RecordedLaunch(exe.name, run.recording, launch, occupancy)


def spilled_bytes(exe: Executable) -> int:
    """Of a thread, by the instructions that store and load them; 0 where nothing here assembles the kernel."""
    try:
        return exe.resources.spill_store_bytes + exe.resources.spill_load_bytes
    except TilewrightError:
        return 0


def spilled_wavefronts(exe: Executable, warps: int, recording: Any) -> float:
    """Of a CTA: each access of a warp to a spilled register is one, of 32 times 4 bytes, and runs as often as the mean
    instruction. ptxas says how many there are, and not where. `Any`: a `Recording`.
    """
    if not (nbytes := spilled_bytes(exe)):
        return 0.0
    ran, copies = Counter[int](), dict[int, float]()
    for event in recording.streams[0].events:
        loops = Loops(recording.rows, executed := getattr(event, "executed", ()))
        for row, times in executed:
            ran[row] += times
            copies[row] = max(copies.get(row, 0.0), times / loops.turns(row))
    issued = {row: sum(recording.rows[row].counts.values()) for row in ran}
    static = sum(copies[row] * many for row, many in issued.items())
    turns = sum(ran[row] * many for row, many in issued.items()) / max(1.0, static)
    return nbytes / 4 * warps * float(turns)


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
    few = RecordingOptions(CTAS, stepped=0, alone=True)
    run = kernel.simulate(*copies, check="none", record=few, limit_s=SECONDS, **named)
    occupancy = occupancy_of(kernel.lowered(*args, **named).launch, gpu)
    nbytes, ctas = bytes_of(zip(kernel.parameters, args, strict=False)), prod(map(int, launched["grid"]))
    return RecordedLaunch(kernel.name, run.recording, WholeGrid(ctas, occupancy.ctas, nbytes), occupancy).played(gpu)


def _stand_in(value: Any, *, copied: bool) -> Any:
    """What the simulator gets for an argument. `Any`: whatever is passed."""
    if not host.is_array(value):
        return value
    if host.device_of(value) == "cpu":
        return host.copies([value])[0] if copied else value
    name = str(value.dtype).removeprefix("torch.")
    return np.zeros(tuple(value.shape), dtype(name).numpy)
