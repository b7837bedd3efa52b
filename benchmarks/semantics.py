"""The time of each matrix copy's meaning for 4096 warps, against ``np.take`` gathering the same 16-byte rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from benchmarks.kernels.loads import loads
from benchmarks.measure import Table, Time, median_ms
from tilewright.isa import Form, Instruction, Mods, lookup
from tilewright.isa.forms import counted
from tilewright.isa.machine import Lanes

WARPS = 4096
BYTES = 512  # of shared memory for each warp: 32 rows
CHUNK = 1024  # warps at a time, as the simulator takes a grid: what fits into caches
REPEATS = 15
LIMITS = {False: 6, True: 30}  # how many times its yardstick a copy may take, without and with trans
LOOPS = 16  # loads in the kernel that is simulated


class Rows:
    """Shared memory that is nothing but its 16-byte rows."""

    def __init__(self) -> None:
        self.units = np.random.default_rng(0).integers(0, 256, WARPS * BYTES, np.uint8).view("V16")

    def rows(self, address: Lanes, nbytes: int) -> NDArray[np.uint8]:
        return self.units.take(address >> 4)[..., None].view(np.uint8)

    def store_rows(self, address: Lanes, data: NDArray[np.uint8]) -> None:
        self.units[address >> 4] = data.view("V16")[..., 0]


def copies() -> Iterator[tuple[Instruction, Form, Mods]]:
    """Every matrix copy between memory and registers, on shared addresses."""
    for row in (lookup("ptx.ldmatrix"), lookup("ptx.stmatrix")):
        for form in row.forms:
            for mods in form.all_mods():
                if mods["space"] == "shared":
                    yield row, form, mods


def meaning(form: Form, mods: Mods, memory: Rows, address: Lanes) -> Callable[[], object]:
    """A call of the form's meaning for all warps, a chunk of them after the other."""
    assert form.meaning.execute is not None
    passed: dict[str, Any] = {name: mods[name] for name in form.meaning.passes}
    execute = partial(form.meaning.execute, memory, **passed)
    chunks = np.split(address, WARPS // CHUNK)
    if not form.accesses[0].write:
        return lambda: [execute(chunk) for chunk in chunks]
    shape = CHUNK, form.registers_of("r", mods), 32
    registers = np.random.default_rng(1).integers(0, 1 << 32, shape, np.uint32)
    return lambda: [execute(chunk, registers) for chunk in chunks]


def measured() -> Iterator[Time]:
    memory = Rows()
    rows = np.random.default_rng(2).permuted(np.tile(np.arange(32), (WARPS, 1)), axis=1)
    address = np.arange(WARPS)[:, None] * BYTES + rows * 16
    for _, form, mods in copies():
        lanes = counted(form.accesses[0].lanes, mods)
        took = median_ms(meaning(form, mods, memory, address), repeats=REPEATS)
        yield Time(form.mnemonic(mods), took, taken(memory, address[:, :lanes] >> 4), LIMITS[bool(mods["trans"])])
    for trans in (False, True):
        name = f"simulated, ldmatrix x4{' trans' if trans else ''}"
        yield Time(name, simulated(trans), taken(memory, address >> 4), LIMITS[trans])


def taken(memory: Rows, units: Lanes) -> float:
    """The yardstick: ``np.take`` of the same rows."""
    return median_ms(lambda: np.take(memory.units, units), repeats=REPEATS)


def simulated(trans: bool) -> float:
    """Milliseconds of one ldmatrix.x4 in a kernel of 4096 warps without checks: the time that a loop of them adds."""
    short, long = (tw.compile(loads(WARPS, trans, loops)) for loops in (1, 1 + LOOPS))
    times = [median_ms(lambda made=made: made.simulate(check=()), repeats=5) for made in (short, long)]  # type: ignore[misc]
    return (times[1] - times[0]) / LOOPS


def run() -> Table:
    return Table(f"matrix copies of {WARPS} warps, each against np.take of its rows", tuple(measured()), ())
