"""A tile whose K is divided among the CTAs of a cluster, used while the kernel is parsed.

Each sends the others their share of its sums, by stores that an m-barrier there counts, and adds up its own share, part
after part: the same bits every time. Sums travel as threads hold them, so that nothing is moved about within a CTA.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.lang import T
from tilewright.layout import wgmma_fragment


@T.meta_class
class Split:
    """The part of K of a CTA, and the columns of the tile that it stores. All CTAs make one before any `exchange`.

    rank: of the CTA in its cluster. `Any`: values of the language.
    """

    def __init__(self, pool: Any, tiles: Tiles, form: MatmulKind, rank: Any) -> None:
        self.parts = tiles.parts
        self.part: Any = rank if self.parts > 1 else 0
        self.rank: Any = 0 if self.parts > 1 else rank  # of the CTA among those that share A or B
        (beside, _), (self.below, _) = tiles.sharers(self.rank)
        self.right = beside * tiles.n  # columns of the cluster's tiles before this one's
        self.share = tiles.share(form.unit(tiles))  # columns
        self.stores = self.part * self.share < tiles.n
        self.rows = tiles.rows
        if self.parts == 1:
            return
        assert (tiles.cluster, tiles.beside, self.rows) == (1, 1, 64), "a cluster shares A and B, or it shares K"
        vector = min(4, self.share // 2)
        self.arrived, self.is_lent, self.lent = T.TMABar(pool, 1), tiles.lends, T.MBarrier(pool, 1)
        self.arrived.init(1)
        if self.is_lent:
            self.lent.init(4 * tiles.groups * self.parts)  # all warps that multiply
            pool.move_base_to(0)
        self.inbox = pool.alloc((tiles.groups, self.parts, self.share // 2 // vector, 128, vector), "float32", align=16)

    def ready(self, ring: Any) -> None:
        """All threads wait until the barriers are made, those of the ring and of the other CTAs."""
        ring.ready()
        if self.parts > 1:
            T.cuda.cluster_sync()

    def steps(self, place: Any, number: Any) -> tuple[Any, Any]:
        """Where the CTA's part of a tile begins, and where it ends, of so many steps along K."""
        first, end = place.steps(number)
        many = end - first
        return first + self.part * many // self.parts, first + (self.part + 1) * many // self.parts

    def count(self, place: Any, number: Any) -> Any:
        """How many steps that are."""
        first, end = self.steps(place, number)
        return end - first

    def expect(self) -> None:
        """One thread announces the sums that will come."""
        if self.parts > 1:
            with T.If(self.stores), T.Then():
                self.arrived.arrive(0, 4 * math.prod(self.inbox.shape))

    def added(self, sums: Any, who: Any, thread: Any) -> Any:
        """A warpgroup's sums over all of K, of the columns that the CTA stores."""
        if self.parts == 1:
            return sums
        total = T.alloc_local((self.rows, self.share), "float32", layout=wgmma_fragment(self.rows, self.share))
        self.exchange(sums.local(), total.local(), who, thread, sums.shape[1] // self.share)
        return total

    @T.inline
    def exchange(self, mine, total, who, thread, shares):  # type: ignore[no-untyped-def]  # kernel text
        """Send every CTA its share; then wait for one's own, and add it up."""
        runs, vector = T.meta_var((self.inbox.shape[2], self.inbox.shape[4]))
        if self.is_lent:
            if T.ptx.elect_sync():
                for to in T.unroll(self.parts):
                    self.lent.arrive(0, to)
            self.lent.wait(0, 0)
        for to in T.unroll(shares):
            told = T.ptx.mapa(self.arrived.ptr_to([0]), to)
            for i in T.unroll(runs):
                there = T.ptx.mapa(self.inbox.ptr_to([who, self.part, i, thread, 0]), to)
                values = T.meta_var([mine[(to * runs + i) * vector + j] for j in range(vector)])
                T.ptx.st_async.vec(vector, there, told, *values)
        if self.stores:
            self.arrived.wait(0, 0)
            for i in T.unroll(runs):
                for j in T.unroll(vector):
                    total[i * vector + j] = self.inbox[who, 0, i, thread, j]
                    for part in range(1, self.parts):
                        total[i * vector + j] = total[i * vector + j] + self.inbox[who, part, i, thread, j]
