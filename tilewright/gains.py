"""Advice in time: how long a kernel takes by estimate, how long with other layouts or constants, what else would gain.

Another layout, value of a constant or limit of registers was run, and the run with it is what was played. What begins
with "if" was played, too, but nobody has run it: the recorded accesses were changed, and not the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.errors import TilewrightError
from tilewright.ir import Attr
from tilewright.ir.launch import BLOCKS_PER_SM, MAX_REGISTERS
from tilewright.isa import SECTOR_BYTES
from tilewright.profiling.acts import ATOMICS, accesses
from tilewright.profiling.bounds import Gpu, occupancy_of
from tilewright.profiling.estimate import Estimate, RecordedLaunch, recorded, spilled_bytes, spilled_wavefronts
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.compiler import Executable
    from tilewright.errors import Span

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
    """now: the kernel as it is. gains: the largest first."""

    now: Estimate
    gains: tuple[Gain, ...]

    def __str__(self) -> str:
        head = f"about {self.now.seconds * 1e6:.1f} us on {self.now.gpu}, {self.now.why}"
        lines = [f"  {gain.told(self.now.seconds)}" + ("" if gain.was_run else " (played, not run)")
                 for gain in self.gains[:SHOWN]]  # fmt: skip
        return "\n".join([head, *lines])


def in_time(
    exe: Executable,
    changed: Sequence[tuple[str, Executable]],
    args: Sequence[Any],
    gpu: Gpu,
    variants: Mapping[str, Executable],
) -> InTime:
    """The times of a kernel and of its changed ones, and what else would gain. changed: what is another, and the kernel
    with all changes up to this one, which ran. variants: the kernel in other ways; each is run here, and left out where
    it does not give the same results.
    """
    now = recorded(exe, args, gpu)
    before = now.played(gpu)
    ran = [*changed, *_that_agree(exe, {**variants, **_limited(exe, now, gpu)}, args)]
    gains = [Gain(what, None, recorded(variant, args, gpu).played(gpu).seconds, True) for what, variant in ran]
    gains += [Gain(what, at, other.played(gpu).seconds, False) for what, at, other in _ifs(now)]
    told = [gain for gain in gains if gain.seconds < (1 - LEAST_GAIN) * before.seconds]
    return InTime(before, tuple(sorted(told, key=lambda gain: gain.seconds)))


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


def _that_agree(
    exe: Executable, variants: Mapping[str, Executable], args: Sequence[Any]
) -> Iterator[tuple[str, Executable]]:
    wanted = _results(exe, args) if variants else []
    for what, other in variants.items():
        try:
            results = _results(other, args)
        except TilewrightError:  # it does not fit, or cannot run on these arguments
            continue
        if all(np.allclose(a, b, TOLERANCE, TOLERANCE, equal_nan=True) for a, b in zip(wanted, results, strict=True)):
            yield what, other


def _results(exe: Executable, args: Sequence[Any]) -> list[Any]:
    """The arrays after a run, in double precision. `Any`: arrays."""
    copied = host.copies(args)
    exe.simulate(*copied, check="none", limit_s=SECONDS)
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
        if site.space == "global" and ATOMICS.fullmatch(site.op):
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
