"""How time and memory grow: compiling with the tile calls of a kernel, simulating with the CTAs of a grid."""

from __future__ import annotations

import tracemalloc

import numpy as np

import tilewright as tw
from benchmarks.kernels.many_copies import many_copies
from benchmarks.measure import Table, Target, Time, Times, Verdict, alternately, median_ms
from tilewright.demo.kernel import TILE, make
from tilewright.isa import Arch, arch
from tilewright.lower import lower
from tilewright.tile import resolve

CALLS = (1, 4, 16, 64, 256)
SIDES = {1: 1, 64: 8, 256: 16, 1024: 32, 4096: 64}  # tiles along an edge of the matrix, by CTAs
PEAK_MB = 32
SLACK = 1.25  # what linear growth may exceed its factor by: caches fill, and machines are noisy


def compiling() -> Times:
    """Dispatch and lowering of kernels with 1 to 256 tile calls."""
    target = arch("sm_90a")
    return {compiled(calls): dispatched(calls, target) for calls in CALLS}


def dispatched(calls: int, target: Arch) -> float:
    kernel = many_copies(calls)
    return median_ms(lambda: lower(resolve(kernel, target)[0]), repeats=5)


def compiled(calls: int) -> str:
    return f"dispatch and lowering, {calls} tile calls"


def simulating() -> Times:
    """The demo's transpose without checks, with 1 to 4096 CTAs."""
    return {simulated(ctas): Transposition(tiles).milliseconds() for ctas, tiles in SIDES.items()}


def simulated(ctas: int) -> str:
    return f"transpose without checks, {ctas} CTAs"


class Transposition:
    """A matrix of so many tiles along each edge, and the compiled kernel that transposes it."""

    def __init__(self, tiles: int) -> None:
        self.a = np.ones((tiles * TILE, tiles * TILE), np.float16)
        self.b = np.zeros_like(self.a)
        self.made = tw.compile(make(tiles * TILE, swizzled=True))

    def milliseconds(self) -> float:
        return median_ms(lambda: self.made.simulate(self.a, self.b, check=()), repeats=5)

    def peak_mb(self, check: tuple[str, ...] | str) -> float:
        """Memory beyond the arguments at the worst moment of a second call; NumPy reports its arrays to tracemalloc."""
        self.made.simulate(self.a, self.b, check=check)
        tracemalloc.start()
        try:
            self.made.simulate(self.a, self.b, check=check)
            return tracemalloc.get_traced_memory()[1] / 2**20
        finally:
            tracemalloc.stop()


def peaks() -> tuple[Verdict, ...]:
    checks: dict[str, tuple[str, ...] | str] = {"without checks": (), "with all checks": "all"}
    return tuple(
        Verdict(f"peak beyond the arguments {name}, {ctas} CTAs", PEAK_MB, Transposition(tiles).peak_mb(check), "MB")
        for ctas, tiles in SIDES.items()
        if ctas >= 64
        for name, check in checks.items()
    )


def linear(name: str, of: str, factor: float) -> Target:
    return Target(name, factor * SLACK, of=of)


def run() -> Table:
    compile_times, simulation_times = alternately(compiling, simulating)
    targets = (
        *(linear(compiled(256), compiled(calls), 256 / calls) for calls in (1, 16, 64)),
        Target(simulated(64), 8, of=simulated(1)),
        *(linear(simulated(ctas), simulated(64), ctas / 64) for ctas in (256, 1024, 4096)),
    )
    times: tuple[Time, ...] = (*compile_times, *simulation_times)
    return Table("growth", times, targets=targets, others=peaks())
