"""Lower bounds of a kernel's time: the counts of a run, divided by the peak rates of a GPU.

A bound is a time that no run is faster than: each unit does the work that was counted at its highest rate, with every
SM busy that has a CTA. The kernel takes at least as long as its slowest unit. Where all CTAs run the same instructions,
they come in whole waves: of 133 CTAs on 132 SMs one SM has two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.advise.accesses import Sectors, record
from tilewright.dtypes import VOID
from tilewright.errors import ArgumentError, choices
from tilewright.inputs import make_arguments
from tilewright.ir import Call, For, If, Launch, While, as_expr, expressions, statements
from tilewright.ir.launch import CTA
from tilewright.isa import (
    ARCHS,
    GPU_ARCHS,
    SECTOR_BYTES,
    WARPGROUP,
    Arch,
    bind,
    calls_in,
    ctas_of_an_sm,
    gpu_named,
    product_of,
)
from tilewright.public import Public
from tilewright.records import NotebookText

if TYPE_CHECKING:
    from tilewright.compiler import Executable
    from tilewright.sim.machine.sites import Counts

# Peak rates of GPUs, from datasheets and programming guides: no kernel runs faster.
#
# Clocks are the highest that the board boosts to. Tensor-core rates are dense flops of an SM in a cycle.


SECTOR_RATE = 128
"""Bytes that an SM exchanges with the second-level cache in a cycle, at most: bulk copies of an H200 bring 122 (`python
-m benchmarks.gpu figures`, bursts, 2026-11-29), loads by registers 64."""


@dataclass(frozen=True)
class Gpu:
    """hbm: bytes a second. tensor: flops of an SM in a cycle, by the bits of an operand. source: of these figures."""

    name: str
    sms: int
    clock: float
    hbm: float
    l2_bytes: int
    tensor: Mapping[int, int] = field(default_factory=dict)
    source: str = ""
    issue: int = 4
    """Instructions of warps that an SM issues in a cycle: one for each of its four schedulers."""

    @property
    def arch(self) -> Arch:
        """Its architecture, which says what an SM has room for."""
        return ARCHS[GPU_ARCHS[self.name]]


MIB = 1 << 20
HOPPER = {8: 8192, 16: 4096, 32: 2048, 64: 128 * 2}
GEFORCE = {4: 4096, 8: 2048, 16: 1024, 32: 256}
GPUS = {
    each.name: each
    for each in (
        Gpu("T4", 40, 1.59e9, 0.32e12, 4 * MIB, {4: 4096, 8: 2048, 16: 1024},
            "NVIDIA T4 datasheet: 65 TFLOP/s f16, 130 TOP/s int8, 260 int4, 320 GB/s; Turing whitepaper: 40 SMs"),
        Gpu("A100", 108, 1.41e9, 2.039e12, 40 * MIB, {8: 4096, 16: 2048, 32: 1024, 64: 128},
            "NVIDIA A100 80GB SXM datasheet: 312 TFLOP/s f16, 156 tf32, 624 TOP/s int8, 2039 GB/s; 108 SMs"),
        Gpu("A10", 72, 1.695e9, 0.6e12, 6 * MIB, {4: 4096, 8: 2048, 16: 1024, 32: 512},
            "NVIDIA A10 datasheet: 125 TFLOP/s f16, 62.5 tf32, 250 TOP/s int8, 500 int4, 600 GB/s; 72 SMs"),
        Gpu("RTX 3090", 82, 1.695e9, 0.936e12, 6 * MIB, GEFORCE,
            "NVIDIA GA102 whitepaper: 142 TFLOP/s f16 (sums in f16), 35.6 tf32, 284 TOP/s int8, 936 GB/s; 82 SMs"),
        Gpu("L40S", 142, 2.52e9, 0.864e12, 96 * MIB, {8: 2048, 16: 1024, 32: 512},
            "NVIDIA L40S datasheet: 362 TFLOP/s f16, 183 tf32, 733 fp8, 864 GB/s; 142 SMs"),
        Gpu("L4", 58, 2.04e9, 0.3e12, 48 * MIB, {8: 2048, 16: 1024, 32: 512},
            "NVIDIA L4 datasheet: 242 TFLOP/s f16 and 120 tf32 with sparsity, half of it dense, 300 GB/s; 7424 cores"),
        Gpu("RTX 4090", 128, 2.52e9, 1.008e12, 72 * MIB, GEFORCE,
            "NVIDIA Ada whitepaper: 330 TFLOP/s f16 (sums in f16), 82.6 tf32, 661 fp8, 1008 GB/s; 128 SMs"),
        Gpu("H100", 132, 1.98e9, 3.35e12, 50 * MIB, HOPPER,
            "NVIDIA H100 SXM datasheet: 989 TFLOP/s f16, 1979 fp8, 494 tf32, 3.35 TB/s; Hopper whitepaper: 132 SMs"),
        Gpu("H200", 132, 1.98e9, 4.8e12, 60 * MIB, HOPPER,
            "NVIDIA H200 SXM datasheet: 989 TFLOP/s f16, 1979 fp8, 494 tf32, 4.8 TB/s; 60 MB of L2 as torch reports"),
        Gpu("B200", 148, 1.965e9, 8.0e12, 126 * MIB, {4: 32768, 8: 16384, 16: 8192, 32: 4096},
            "NVIDIA B200 datasheet: 2250 TFLOP/s f16, 4500 fp8, 9000 fp4, 1125 tf32, 8 TB/s; 148 SMs as torch reports"),
        Gpu("RTX 5090", 170, 2.407e9, 1.792e12, 96 * MIB, GEFORCE,
            "NVIDIA RTX Blackwell whitepaper: 419 TFLOP/s f16 (sums in f16), 104.8 tf32, 838 fp8, 1676 fp4, 1792 GB/s"),
    )
}  # fmt: skip


def gpu(name: str) -> Gpu:
    """The GPU of that name. Raises ArgumentError with the names."""
    entry = GPUS.get(gpu_named(name) or "")
    if entry is None:
        raise ArgumentError(f"unknown GPU {name!r}", given=name, allowed=choices(name, GPUS))
    return entry


public = Public(ArgumentError, {})


@dataclass(frozen=True)
class Occupancy:
    """CTAs of an SM at once, and what allows so many: the smallest entry of ``by``."""

    by: Mapping[str, int]
    warps: int

    @property
    def ctas(self) -> int:
        """The CTAs at once on one SM."""
        return min(self.by.values())

    @property
    def limit(self) -> str:
        """The limit that allows the fewest."""
        return min(self.by, key=lambda name: self.by[name])

    def __str__(self) -> str:
        entry = ", ".join(f"{count} by {name}" for name, count in self.by.items())
        return f"{self.ctas} CTAs ({self.ctas * self.warps} warps) of an SM, by {self.limit} ({entry})"


@dataclass(frozen=True, repr=False)
class Profile(NotebookText):
    """The work of a run, and the least time that it takes on a GPU.

    ctas: of the grid. sectors: of global memory, by line. traffic: bytes that must come from and go to HBM: each once.
    flops: of tensor cores, by the bits of an operand. alike: do all CTAs run the same instructions?
    """

    name: str
    gpu: Gpu
    ctas: int
    occupancy: Occupancy
    counts: Counts
    sectors: tuple[Sectors, ...]
    read_bytes: int
    written_bytes: int
    l2_bytes: int
    flops: Mapping[int, int]
    alike: bool = False
    scale: float = 1.0

    @public
    def scaled(self, times: float) -> Profile:
        """The bounds of ``times`` as many CTAs that each do the same, on as many times the data."""
        return replace(self, scale=self.scale * times)

    @property
    def bounds(self) -> dict[str, float]:
        """Seconds, by unit."""
        gpu, ctas = self.gpu, self.ctas * self.scale
        cycles = min(gpu.sms, max(1, ctas)) * gpu.clock
        hbm = self.read_bytes * self.scale + max(0, self.written_bytes * self.scale - gpu.l2_bytes)
        counted = self.counts.instructions.items()
        instructions = sum(many for name, many in counted if not name.endswith(" local"))  # which are registers
        seconds = {
            "HBM": hbm / gpu.hbm,
            "L2": self.l2_bytes * self.scale / (SECTOR_RATE * cycles),
            "shared memory": self.counts.wavefronts * self.scale / cycles,
        }
        if self.alike:  # the busiest SM has whole CTAs
            share, most = 1 / max(1, self.ctas), ceil(ctas / gpu.sms)
            rounds = ceil(most / max(1, self.occupancy.ctas))
            seconds["latency"] = rounds * instructions * share / self.occupancy.warps / gpu.clock
        else:
            share, most = self.scale / cycles * gpu.clock, 1
        seconds["issue"] = most * instructions * share / (gpu.issue * gpu.clock)
        if self.flops:
            work = sum(many / gpu.tensor[bits] for bits, many in self.flops.items() if bits in gpu.tensor)
            seconds["tensor cores"] = most * work * share / gpu.clock
        return seconds

    @property
    def bound(self) -> float:
        """Seconds that it takes at least."""
        return max(self.bounds.values())

    @property
    def unit(self) -> str:
        """The unit that needs the most time."""
        return max(self.bounds, key=lambda unit: self.bounds[unit])

    def __repr__(self) -> str:
        return f"<Profile: {self.name} on {self.gpu.name}: at least {self.bound * 1e6:.3f} us, bound by {self.unit}>"

    def __str__(self) -> str:
        rows = sorted(self.bounds.items(), key=lambda row: -row[1])
        lines = [f"  {unit:<14}{seconds * 1e6:12.3f} us" for unit, seconds in rows]
        sectors = [
            f"  {site.at}  {site.op} {'writes' if site.write else 'reads'} {site.place}: {site.touched:,} sectors, "
            f"{site.ideal:,} ideal"
            for site in self.sectors
        ]
        head = f"{self.name} on {self.gpu.name}: at least {self.bound * 1e6:.3f} us, bound by {self.unit}"
        cold = "(arrays come from HBM once; what is written may stay in the L2 cache)"
        return "\n".join([head, *lines, f"  {cold}", str(self.occupancy), "", str(self.counts), "", *sectors])


def profile(exe: Executable, args: tuple[Any, ...], gpu: Gpu, sizes: Mapping[str, int], seed: int) -> Profile:
    """Run a kernel on copies of its arguments, and bound its time."""
    from tilewright.sim import Program, parse_checks

    args = args or tuple(make_arguments(exe.kernel, {}, sizes, seed).values())
    copied = tuple(host.copies(args))
    program = Program(exe.lowered, parse_checks("default"))
    _, sectors = record(program)
    counts = exe.run_program(program, copied).counts
    launch = exe.lowered.launch
    nbytes = bytes_of(by_buffer(exe, copied))
    ctas = prod(exe.bind(*args).grid)
    moved = _moved(sectors, counts, nbytes)
    occupancy = occupancy_of(launch, gpu, exe.registers_of_a_thread())
    return Profile(exe.name, gpu, ctas, occupancy, counts, *moved, _flops(exe, counts), _is_alike(exe))


def by_buffer(exe: Executable, args: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The buffers that parameters point to, with their arguments. `Any`: whatever is passed."""
    for param, value in zip(exe.kernel.params, args, strict=False):
        yield from ((buffer.name, value) for buffer in exe.kernel.buffers if buffer.data == param)


def bytes_of(named: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """The bytes of the arrays among arguments, by name. `Any`: whatever is passed."""
    return {name: int(value.nbytes) for name, value in named if isinstance(value, np.ndarray)}


def _moved(
    sectors: Sequence[Sectors], counts: Counts, nbytes: Mapping[str, int]
) -> tuple[tuple[Sectors, ...], int, int, int]:
    """The sectors that were touched; bytes that come from HBM and go there, each once; bytes of the second level."""
    read, written = (_once(sectors, counts, nbytes, write=write) for write in (False, True))
    units = sum(line.nbytes for line in counts.lines if line.space == "global" and not _is_at_a_site(line, sectors))
    touched = tuple(access for access in sectors if access.touched)
    stored = sum(access.touched for access in touched if access.write)
    return touched, read, written, (stored + _kept(touched)) * SECTOR_BYTES + units


def profile_loaded(kernel: Any, args: Sequence[Any], launched: Mapping[str, Any], gpu: Gpu) -> Profile:
    """The same of a kernel that others wrote (`Any`: a `LoadedKernel`), which names no flops of tensor cores.

    launched: grid, block, shared_bytes and cluster, as of its `simulate`.
    """
    from tilewright.sim import parse_checks

    lowered = kernel.lowered(*args, **launched)
    sectors: list[Sectors] = []
    counts = kernel._run_watched(
        args, launched, parse_checks("default"), lambda program: sectors.extend(record(program)[1])
    ).counts
    nbytes, launch = bytes_of(zip(kernel.parameters, args, strict=False)), lowered.launch
    ctas = prod(int(extent) for extent in launched["grid"])
    moved = _moved(sectors, counts, nbytes)
    return Profile(kernel.name, gpu, ctas, occupancy_of(launch, gpu), counts, *moved, {})


def _is_alike(exe: Executable) -> bool:
    """Do all CTAs run the same instructions?

    They do where no branch and no loop depends on which one it is, nor on what one of them tells others.
    """
    from tilewright.sim.codegen.axes import Axes

    axes, body = Axes(exe.lowered), list(statements(exe.lowered.body))
    calls = (node for stmt in body for node in expressions(stmt) if isinstance(node, Call) and node.dtype is not VOID)
    if any(isinstance(stmt, While) for stmt in body) or any(bind(call).form.accesses for call in calls):
        return False
    asked = [stmt.cond for stmt in body if isinstance(stmt, If)]
    asked += [as_expr(end) for stmt in body if isinstance(stmt, For) for end in (stmt.start, stmt.stop)]
    return not any(axes.of(expr) & CTA for expr in asked)


def _kept(sectors: Sequence[Sectors]) -> int:
    """Sectors that are read, each once: an SM keeps in its first-level cache what it has read."""
    by_place: dict[str, set[int]] = {}
    for access in sectors:
        if not access.write:
            by_place.setdefault(access.place, set()).update(access.which)
    return sum(map(len, by_place.values()))


def _is_at_a_site(line: Any, sectors: Sequence[Sectors]) -> bool:
    return any(row.place == line.buffer and row.op == line.op and str(row.at) == str(line.at) for row in sectors)


def _once(sectors: Sequence[Sectors], counts: Counts, sizes: Mapping[str, int], *, write: bool) -> int:
    """Bytes of global memory that are read or written, each once."""
    total = 0
    for name, size in sizes.items():
        touched = [row.which for row in sectors if row.place == name and row.write == write and row.which]
        at_sites = len(set().union(*touched)) * SECTOR_BYTES if touched else 0
        by_units = sum(
            line.nbytes
            for line in counts.lines
            if line.buffer == name and line.write == write and not _is_at_a_site(line, sectors)
        )
        total += min(size, max(at_sites, by_units))
    return total


def _flops(exe: Executable, counts: Counts) -> dict[int, int]:
    """The flops of the matrix instructions that ran; where a kernel has several shapes of one, the smallest counts."""
    least: dict[str, tuple[int, int]] = {}
    for name, bits, work in _products(exe):
        least[name] = min(least.get(name, (work, bits)), (work, bits))
    flops: dict[int, int] = {}
    for name, (work, bits) in least.items():
        flops[bits] = flops.get(bits, 0) + work * counts.instructions.get(name, 0)
    return {bits: work for bits, work in flops.items() if work}


def _products(exe: Executable) -> Iterator[tuple[str, int, int]]:
    """(instruction, bits of an operand, flops of one warp) of each matrix product that the kernel names."""
    for _, bound in calls_in(exe.lowered.body):
        name, product = bound.instruction.name, product_of(bound)
        if product is not None and "sp" not in name.split("."):
            share = 4 if bound.instruction.lanes == WARPGROUP else 1  # of a warpgroup's product each warp has a quarter
            yield name, max(8, product.bits), 2 * product.m * product.n * product.k // share


def occupancy_of(launch: Launch | None, gpu: Gpu, registers: int = 0) -> Occupancy:
    """The occupancy by threads, by shared memory, and by the registers of a thread where these are known."""
    threads, shared = (launch.threads, launch.shared_bytes) if launch else (1, 0)
    return Occupancy(ctas_of_an_sm(gpu.arch, threads, shared, registers), -(-threads // 32))
