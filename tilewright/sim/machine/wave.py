"""A wave: the CTAs that run together, with their shared memory and registers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from tilewright.explain import Threads
from tilewright.ir.launch import LANE, RANK, SIMULATED, WARP
from tilewright.sim.machine.arrays import Ints
from tilewright.sim.machine.memory import MemoryRows
from tilewright.sim.machine.operation import Pending
from tilewright.sim.machine.precedence import Refusals, Skipping
from tilewright.sim.machine.registers import Registers
from tilewright.sim.machine.sync import Barriers
from tilewright.sim.machine.tmem import Columns, table_of_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.sim.machine import Array, Bools, Device, Place, Shadows, Team, Value

__all__ = ["Memories", "Rows", "Storage", "Wave"]

Storage: TypeAlias = "MemoryRows | Registers"
AXES = ("x", "y", "z")

Rows = TypeVar("Rows", int, Ints)


class Memories:
    """The memories that the CTAs of a wave have: their bytes or, by the same names, the flags of these.

    rows: of shared memory and registers, for each of the CTAs or one for all.
    """

    blank = 0  # of a byte that does not count

    def __init__(self, run: Device, rows: int, ctas: int) -> None:
        self.run = run
        self.ctas = ctas
        self.shared = MemoryRows.zeros(rows, run.shared_bytes, ctas)
        self.registers = {
            place.name: Registers(rows, run.warps, place.nbytes, place.unit, place.start, ctas=ctas)
            for place in run.places.locals
        }

    @cached_property
    def tmem(self) -> Array:
        """Tensor memory, (CTAs, columns, lanes); there from its first use on."""
        return table_of_cells(self.ctas, np.uint32)

    def argument(self, name: str) -> Storage:
        """The buffer in global memory with this name."""
        return self.run.blocks[name]

    def storage(self, place: Place) -> Storage:
        """What holds the bytes of a place."""
        if place.space == "global":
            return self.argument(place.name)
        return self.shared if place.space == "shared" else self.registers[place.name]


class Wave(Memories):
    """CTAs ``first`` to ``first + ctas - 1`` of the grid, in the order in which they are launched.

    now: the time, which each access has its own of. unmet: row and shared address of the m-barriers that were found in
    a running phase in the last round of polls.
    """

    shadows: Shadows  # there where the check of uninitialised values is on

    def __init__(self, run: Device, first: int, ctas: int) -> None:
        super().__init__(run, ctas, ctas)
        self.first = first
        self.now = 0
        self.kept: dict[str, NDArray[np.uint64]] = {}  # by units of their own, see `tilewright.isa.machine.Unit`
        self.barriers = Barriers(self)
        self.pending = Pending(self)
        self.unmet: list[tuple[int, int]] = []

    @cached_property
    def columns(self) -> Columns:
        """The columns of tensor memory that are taken, and their holders."""
        return Columns(self.ctas)

    @cached_property
    def refusals(self) -> Refusals:
        """What threads have asked m-barriers, for runs in which these answer no at first."""
        return Refusals((self.ctas, self.run.warps, 32))

    @cached_property
    def skipping(self) -> Skipping:
        """Who came to barriers and went on behind them, for kernels in which some may skip one."""
        return Skipping(self)

    @cached_property
    def alive(self) -> Bools:
        """The threads that have not ended, (CTAs, warps, 32), for kernels in which some end early."""
        return np.broadcast_to(self.run.exists, (self.ctas, self.run.warps, 32)).copy()

    def tick(self, times: int = 1) -> int:
        """Let so many times pass; the first of them."""
        self.now += times
        return self.now - times + 1

    def ended(self, team: Team | None) -> None:
        """Note that these lanes have ended."""
        if team is not None:
            self.alive[team.ctas, team.warps] &= ~team.full

    def close(self) -> None:
        """Its CTAs have ended: free their memory now, even if others still refer to the wave."""
        self.shared = MemoryRows.zeros(0, 0)
        self.registers = {}
        for part in ("barriers", "shadows", "tmem", "pending"):
            if part in vars(self):  # asking for a cached property would make it
                delattr(self, part)

    def rank(self, row: Rows) -> Rows:
        """The place in its cluster of the CTA in a row, or of each in an array of rows."""
        return (row + self.first) % self.run.cluster_ctas

    @cached_property
    def coordinates(self) -> dict[str, Ints]:
        """``ctaid.x`` and the like of all its CTAs."""
        return self._coordinates_of(np.arange(self.first, self.first + self.ctas))

    def _coordinates_of(self, ctas: Ints) -> dict[str, Ints]:
        """Those of CTAs by their numbers in the grid; those of one cluster follow each other."""
        grid, cluster = self.run.grid, self.run.cluster
        gpu, ctas = divmod(ctas, self.run.reach["gpu"])
        number, rank = divmod(ctas, self.run.cluster_ctas)
        places = {RANK: gpu, "cluster_ctarank": rank}
        for axis, extent, inner in zip(AXES, grid, cluster, strict=True):
            number, outer_at = divmod(number, extent // inner)
            rank, inner_at = divmod(rank, inner)
            places |= {f"clusterid.{axis}": outer_at, f"cluster_ctaid.{axis}": inner_at}
            places[f"ctaid.{axis}"] = outer_at * inner + inner_at
        return places

    def special(self, name: str, ctas: slice, warps: slice) -> Value:
        """A special register in these CTAs and warps, of the smallest shape."""
        if name.startswith("nctaid."):
            return self.run.grid[AXES.index(name[-1])]
        if name == "ntid":
            return self.run.threads
        row = SIMULATED[name]
        if row.axis is not None:
            lane = np.arange(32 if row.varies & LANE else 1, dtype=np.int32)
            warp = np.arange(self.run.warps, dtype=np.int32)[warps] if row.varies & WARP else np.zeros(1, np.int32)
            number: Ints = row.axis.of_thread(np.int32(32) * warp[None, :, None] + lane)
            return number
        return self.coordinates[name][ctas].astype(np.int32).reshape(-1, 1, 1)

    def rank_of(self, cta: int) -> int | None:
        """The GPU of several that a CTA, counted over all of them, is on."""
        return cta // self.run.reach["gpu"] if self.run.ranks > 1 else None

    def cta_at(self, cta: int) -> tuple[int, int, int]:
        """The coordinate of a CTA, counted in the grid."""
        places = self._coordinates_of(np.array([cta]))
        x, y, z = (int(places[f"ctaid.{axis}"][0]) for axis in AXES)
        return x, y, z

    def thread_at(self, cta: int, thread: int) -> Threads:
        """A thread as a finding has it. cta: counted in the grid."""
        warp, lane = divmod(thread, 32)
        return self.threads_of((cta, cta), (warp, warp), (lane, lane))

    def threads_of(self, ctas: tuple[int, int], warps: tuple[int, int], lanes: tuple[int, int]) -> Threads:
        """Threads as a finding has them. ctas: the first and the last, counted over all GPUs."""
        of_one = ctas[0] % self.run.reach["gpu"], ctas[1] % self.run.reach["gpu"]
        return Threads(self.cta_at(ctas[0]), of_one, warps, lanes, self.rank_of(ctas[0]))

    def warp_at(self, row: int, warp: int) -> Threads:
        """A warp of the CTA in a row, all of its lanes."""
        return self.threads_of((row + self.first, row + self.first), (warp, warp), (0, 31))

    def cta_name(self, row: int) -> str:
        """``(3, 0, 0)`` as a kernel counts; also of a CTA of another wave, by its distance from the first one here."""
        rank = self.rank_of(self.first + row)
        return f"({', '.join(map(str, self.cta_at(self.first + row)))})" + (
            f" of rank {rank}" if rank is not None else ""
        )

    def warp_name(self, row: int, warp: int) -> str:
        """``CTA (3, 0, 0), warp 1``."""
        return str(self.warp_at(row, warp))

    def thread_name(self, row: int, thread: int) -> str:
        """``CTA (3, 0, 0), warp 1, lane 2``."""
        return str(self.thread_at(self.first + row, thread))
