"""Many small matrix products as few large ones.

A kernel multiplies a tile by dozens of ``mma`` in nested loops, each 16 x 8. One by one, each costs a dozen NumPy calls
on small matrices, and widens fragments to float32 that its neighbours widen too. But products whose accumulators are
distinct and whose operands are not written in between may be done in any order. Each accumulator of such a run has a
*chain*, the pairs of fragments that are added to it. Accumulators with the same left fragments are one row of a large
matrix, those with the same right fragments in one column, and a chain is a longer K: the 32 calls of a loop nest become
one product of 64 x 32 by 32 x 32 for each warp, a single ``np.matmul`` over all warps. Which registers make up which
matrix is found once; each operand is then one gather, widened once. Where warps are known to hold the same fragments,
and likewise CTAs, they are gathered and widened for one of them (`tilewright.sim.machine.uniform`).

The sums stay matrices after that. Most accumulators are next read by the same run, a turn of the loop later; only
another reader puts them back into registers (`Registers.hold`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.mma import widened
from tilewright.sim.machine import UNITS, Alike, Bools, Grid, Look, NewerMatrix, Place, Spread, Team, grid_of

if TYPE_CHECKING:
    from tilewright.isa.mma import Floats, Patterns, Spots

# The sums of a run of products: matrices to which products are added late.
#
# One turn of a kernel's loop multiplies along a short K, and BLAS is slow at that. So the factors of some turns are
# kept, as bits, until they are one long product, or until somebody reads a sum. Where the warps of a CTA stand in a
# grid whose rows have one left factor, and whose columns one right factor, their sums are one matrix; where the CTAs
# stand in such a grid, these are one, too.


Grids = tuple["Grid | None", "Grid | None"]  # of CTAs, only with one of the warps of each

# The least K of a product that is done, and the least bytes of its left factor; so that widened matrices fit the cache.
DEPTH, LATE_BYTES, ROWS_AT_ONCE = 256, 1 << 21, 1024


class Sums(NewerMatrix):
    """kinds: the dtypes of left and right factors. `matrix` is what the sums are with all products."""

    def __init__(
        self, look: Look, spread: Spread, registers: frozenset[int], sums: Floats, kinds: tuple[str, str]
    ) -> None:
        super().__init__(look, spread, registers, sums)
        self._kinds = kinds
        self._sums = sums  # (CTAs, warps, rows, columns), or, in grids, (CTAs or 1, 1, all rows, all columns)
        self._grids: Grids = (None, None)
        self._late: list[tuple[Patterns, Patterns]] = []

    @property
    def matrix(self) -> Floats:
        """The sums of each warp, (CTAs, warps, rows, columns)."""
        self._multiply(None)
        self._arrange((None, None))
        return self._sums

    def add(self, left: Patterns, right: Patterns, grids: Grids, active: Bools | None) -> None:
        """Add a product, of CTAs and warps that stand in a grid, or of each warp its own, if it is active.

        left: (CTAs or 1, warps or 1, rows, K), right: (CTAs or 1, warps or 1, columns, K); 1 of those in a grid.
        """
        self._arrange(grids)
        if active is not None:
            self._multiply(None)
        self._late.append((left, right))
        depth = sum(one.shape[-1] for one, _ in self._late)
        if active is not None or (depth >= DEPTH and depth * left.itemsize * left[..., 0].size >= LATE_BYTES):
            self._multiply(active)

    def _arrange(self, grids: Grids) -> None:
        """Let the sums be one matrix for a grid of warps, or of CTAs and their warps, or one for each warp."""
        if self._grids == grids:
            return
        self._multiply(None)
        if self._grids[1] is not None:
            self._sums = _parted(self._sums, self._grids)
        if grids[1] is not None:
            self._sums = _joined(self._sums, grids)
        self._grids = grids

    def _multiply(self, active: Bools | None) -> None:
        """Do the products that are late."""
        late, self._late = self._late, []
        ctas, groups, rows, _ = self._sums.shape
        step = max(ROWS_AT_ONCE // (groups * rows), 1)
        for first in range(0, ctas, step) if late else ():
            some = slice(first, first + step)
            left, right = (
                widened(np.concatenate([one[some] for one in each], axis=-1), kind)
                for each, kind in zip(zip(*late, strict=True), self._kinds, strict=True)
            )
            total = self._sums[some]
            np.add(total, left @ right.swapaxes(-1, -2), out=total, where=True if active is None else active[some])


def _joined(sums: Floats, grids: Grids) -> Floats:
    """(CTAs, warps, rows, columns) as (CTAs or 1, 1, all rows, all columns)."""
    (down, across), (lower, right) = (grid or (1, 1) for grid in grids)
    rows, columns = sums.shape[2:]
    parts = sums.reshape(-1, down, across, lower, right, rows, columns).transpose(0, 1, 3, 5, 2, 4, 6)
    return parts.reshape(len(parts), 1, down * lower * rows, across * right * columns)


def _parted(sums: Floats, grids: Grids) -> Floats:
    """The inverse of `_joined`."""
    (down, across), (lower, right) = (grid or (1, 1) for grid in grids)
    rows, columns = sums.shape[2] // (down * lower), sums.shape[3] // (across * right)
    parts = sums.reshape(-1, down, lower, rows, across, right, columns).transpose(0, 1, 4, 2, 5, 3, 6)
    return parts.reshape(-1, lower * right, rows, columns)


Starts = tuple[int, int, int, int]  # the local addresses of the first registers of A, B, C and D of one product
Chain = tuple[int, ...]  # fragments, by their first registers

MOST_PLANS = 64


@dataclass(frozen=True, eq=False, slots=True)
class Fragments:
    """One operand of all products of a run: the buffer of its registers, and the lane of each element of a fragment."""

    place: Place
    spots: Spots
    kind: str

    @property
    def _per_register(self) -> int:
        return 32 // dtype(self.kind).bits

    def registers(self, first: int) -> range:
        """The numbers of a fragment's registers in the buffer, ``first`` the local address of its first one."""
        start = (first - self.place.start) // 4
        return range(start, start + int(self.spots.max()) // (32 * self._per_register) + 1)

    def is_there(self, first: int) -> bool:
        """Is the whole fragment inside of the buffer, and in whole registers?"""
        end = first + 4 * len(self.registers(first))
        return first % 4 == 0 and self.place.start <= first and end <= self.place.start + self.place.nbytes

    def at(self, first: int) -> Spots:
        """The spots of one fragment among all that a warp has in the buffer."""
        per_unit = self.place.unit // 4
        register, lane = np.divmod(self.spots // self._per_register, 32)
        register = register + self.registers(first)[0]
        words = (register // per_unit * 32 + lane) * per_unit + register % per_unit
        found: Spots = words * self._per_register + self.spots % self._per_register
        return found

    def matrix(self, firsts: list[Chain]) -> Spots:
        """Fragments side by side: the chains one below the other."""
        return np.block([[self.at(first) for first in chain] for chain in firsts])


class Gather:
    """How fragments become one float32 matrix: the units of registers to gather, as wide as the rows' steps allow."""

    def __init__(self, fragments: Fragments, firsts: list[Chain]) -> None:
        spots = fragments.matrix(firsts)
        self.registers = frozenset(k for chain in firsts for first in chain for k in fragments.registers(first))
        self.name = fragments.place.name
        self.kind = fragments.kind
        self.itemsize = dtype(self.kind).bits // 8
        self.shape = spots.shape
        self.width = next(width for width in (16, 8, 4, 2, 1) if self._climbs(spots, width // self.itemsize))
        self.units = spots[:, :: self.width // self.itemsize] * self.itemsize // self.width

    @staticmethod
    def _climbs(spots: Spots, count: int) -> bool:
        packs = spots.reshape(-1, count)
        return not (packs[:, 0] % count).any() and bool((packs == packs[:, :1] + np.arange(count)).all())

    def alike(self, team: Team) -> Alike:
        """Which CTAs and warps hold the same fragments."""
        return team.wave.registers[self.name].alike(team.look, self.registers)

    def __call__(self, team: Team, ctas: range, warps: range) -> Patterns:
        """The bits of the matrices of some warps, (CTAs, warps, rows, K)."""
        words, first = team.wave.registers[self.name].uniform(team.look, self.registers, ctas, warps)
        items = words.view(UNITS[self.width]).take(self.units - 4 * first // self.width, axis=-1)
        return items.view(UNITS[self.itemsize]).reshape(*words.shape[:2], *self.shape)


@dataclass(frozen=True, eq=False, slots=True)
class LargeProduct:
    """One large product. registers: the numbers of those that hold its sums."""

    left: Gather
    right: Gather
    total: Spread
    registers: frozenset[int]


@dataclass(frozen=True, eq=False, slots=True)
class ProductPlan:
    """The large products of a run. products: how many small ones. used: the registers of each place that it reads."""

    blocks: tuple[LargeProduct, ...]
    products: int
    used: tuple[tuple[Place, tuple[int, ...]], ...]


@dataclass(eq=False)
class ProductRun:
    """A run of products that stand side by side in a kernel. tally: where they are counted."""

    left: Fragments
    right: Fragments
    total: Fragments
    with_shadows: bool
    tally: int
    plans: dict[tuple[int, ...], ProductPlan | None] = field(default_factory=dict)  # by what the starts depend on
    known: dict[tuple[Starts, ...], ProductPlan | None] = field(default_factory=dict)  # by the starts themselves

    def __call__(self, team: Team, key: tuple[int, ...], starts: Callable[[], tuple[Starts, ...]]) -> bool:
        """Do the whole run; False, and nothing done, where it has to go product by product.

        key: what the starts depend on.
        """
        if not team.has_whole_warps:
            return False
        plan = self.plans[key] if key in self.plans else self._planned(key, starts())
        if plan is None or (self.with_shadows and not self._is_initialised(plan, team)):
            return False
        for block in plan.blocks:
            self._multiply(block, team)
        team.wave.run.tally[self.tally] += plan.products * team.warp_count
        return True

    # The products of a run as few

    @staticmethod
    def _is_initialised(plan: ProductPlan, team: Team) -> bool:
        shadows = team.wave.shadows
        return all(shadows.registers[place.name].all_set(team.look, which) for place, which in plan.used)

    def _multiply(self, block: LargeProduct, team: Team) -> None:
        left, right = block.left.alike(team), block.right.alike(team)
        warps = grid_of(team.shape[1], left[1], right[1]) if team.array is None else None
        ctas = grid_of(team.shape[0], left[0], right[0]) if warps else None
        rows, columns = zip(_firsts(team.shape[0], ctas), _firsts(team.shape[1], warps), strict=True)
        a, b = block.left(team, *rows), block.right(team, *columns)
        if warps:
            a, b = (one.reshape(1 if ctas else len(one), 1, -1, one.shape[-1]) for one in (a, b))
        active = None if team.array is None else team.full[..., :1, None]
        self._sums(block, team).add(a, b, (ctas, warps), active)

    def _sums(self, block: LargeProduct, team: Team) -> Sums:
        """The accumulators as matrices: those that this run has left, or made from the registers."""
        registers = team.wave.registers[self.total.place.name]
        key = (block, team.look.key)
        held = registers.held(key)
        if not isinstance(held, Sums):
            words = block.total.matrix(registers.flat(team.ctas, team.warps)).view(np.float32)
            held = Sums(team.look, block.total, block.registers, words, (self.left.kind, self.right.kind))
            registers.hold(key, held)
        return held

    # Plans

    def _planned(self, key: tuple[int, ...], starts: tuple[Starts, ...]) -> ProductPlan | None:
        if len(self.plans) >= MOST_PLANS:
            self.plans.clear()
        if starts not in self.known:
            self.known[starts] = self.plan(starts)
        self.plans[key] = self.known[starts]
        return self.known[starts]

    def plan(self, every: tuple[Starts, ...]) -> ProductPlan | None:
        """The large products of a run; None where some product needs what another one has written."""
        chains: dict[int, list[tuple[int, int]]] = {}
        for left, right, before, after in every:
            if before != after:
                return None
            chains.setdefault(after, []).append((left, right))
        rows: dict[Chain, dict[Chain, int]] = {}  # the accumulator of each row and column
        for total, pairs in chains.items():
            lefts, rights = zip(*pairs, strict=True)
            rows.setdefault(lefts, {})[rights] = total
        if sum(map(len, rows.values())) < len(chains) or not self._is_free(every):
            return None
        return ProductPlan(tuple(self._blocks(rows)), len(every), self._used(every))

    def _firsts(self, starts: tuple[Starts, ...]) -> tuple[tuple[Fragments, set[int]], ...]:
        lefts, rights, _, totals = map(set, zip(*starts, strict=True))
        return (self.left, lefts), (self.right, rights), (self.total, totals)

    def _is_free(self, starts: tuple[Starts, ...]) -> bool:
        """Are accumulators distinct, operands no accumulators, and all of them inside of their buffers?"""
        operands = self._firsts(starts)
        if not all(fragments.is_there(first) for fragments, firsts in operands for first in firsts):
            return False
        written = [number for first in operands[2][1] for number in self.total.registers(first)]
        there = [(part, first) for part, firsts in operands[:2] for first in firsts if part.place == self.total.place]
        read = {number for fragments, first in there for number in fragments.registers(first)}
        return len(written) == len(set(written)) and read.isdisjoint(written)

    def _blocks(self, rows: dict[Chain, dict[Chain, int]]) -> Iterator[LargeProduct]:
        """Rows that have the same columns make one block."""
        alike: dict[frozenset[Chain], list[Chain]] = {}
        for lefts, columns in rows.items():
            alike.setdefault(frozenset(columns), []).append(lefts)
        for down in alike.values():
            across = list(rows[down[0]])
            totals = [tuple(rows[lefts][rights] for rights in across) for lefts in down]
            held = frozenset(number for row in totals for first in row for number in self.total.registers(first))
            yield LargeProduct(
                Gather(self.left, down), Gather(self.right, across), Spread(self.total.matrix(totals)), held
            )

    def _used(self, starts: tuple[Starts, ...]) -> tuple[tuple[Place, tuple[int, ...]], ...]:
        found: dict[Place, set[int]] = {}
        for fragments, firsts in self._firsts(starts):
            for first in firsts:
                found.setdefault(fragments.place, set()).update(fragments.registers(first))
        return tuple((place, tuple(sorted(which))) for place, which in found.items())


def _firsts(count: int, grid: Grid | None) -> tuple[range, range]:
    """The first of each row of a grid, and of each column; everybody where there is none."""
    return (range(0, count, grid[1]), range(grid[1])) if grid else (range(count), range(count))
