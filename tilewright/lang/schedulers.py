"""Who works next: tiles that CTAs draw from a counter, longest first or in any order, and turns of warpgroups.

Each is a `meta_class`: an object of parse time with scalars and buffers of the kernel in its fields.
"""

from __future__ import annotations

from tilewright.ir import Buffer, Value, binary
from tilewright.lang.builder import current
from tilewright.lang.forms import where
from tilewright.lang.instructions import row_call
from tilewright.lang.meta import meta_class
from tilewright.lang.pipelines import ClusterPersistentScheduler2D
from tilewright.lang.pool import SMEMPool
from tilewright.lang.roles import Consumer, Pipeline

__all__ = ["EXPORTS"]

DRAWN = 2  # numbers on their way from the thread that draws to the warps that work


@meta_class
class TileQueue:
    """Numbers of tiles, on their way from the thread of a CTA that draws them to the warps that work on the tiles.

    counter: one int32 in global memory, 0 before the kernel and 0 after it. warps: those that read the numbers. As for
    other rings, all threads call `Pipeline.ready`, of this ring or of another made later, before the first use.
    """

    def __init__(self, pool: SMEMPool, counter: Buffer, warps: int) -> None:
        self.counter = counter
        self.ring = Pipeline(pool, DRAWN, full="mbar", consumers=warps)
        self.numbers = pool.alloc((DRAWN,), "int32")


@meta_class
class DynamicScheduler2D(ClusterPersistentScheduler2D):
    """The tiles of `ClusterPersistentScheduler2D`, in its order, each for the CTA that is the first to be free.

    The first tile of a CTA has its own number; `next_tile` takes the next number of a `TileQueue`. draws: is this the
    one thread of the CTA that draws the numbers, or a warp that works on the tiles? num_ctas: at most as many as there
    are tiles, so that the counter is 0 again at the end.
    """

    def __init__(
        self, prefix: str, num_m_tiles: Value, num_n_tiles: Value, num_ctas: Value, l2_group_size: Value = 8, *,
        queue: TileQueue, draws: bool,
    ) -> None:  # fmt: skip
        ClusterPersistentScheduler2D.__init__(self, prefix, num_m_tiles, num_n_tiles, num_ctas, l2_group_size)
        self.queue = queue
        self.place = queue.ring.producer() if draws else queue.ring.consumer()

    def next_tile(self) -> None:
        """Go on to the tile whose number is the next that nobody has."""
        if not isinstance(self.place, Consumer):
            self._draw()
        else:
            self.place.wait()
            self.tile = self.queue.numbers[self.place.stage]  # type: ignore[assignment]  # one element: a load
            row_call("cuda.warp_sync")  # all lanes have read it
            self.place.release()
        self.place.advance()
        self._place()

    def _draw(self) -> None:
        ring, stage, counter = self.queue.ring, self.place.stage, self.queue.counter.ptr_to([0])
        self.tile = binary("+", self.clusters, row_call("cuda.atomic_add", counter, 1))  # type: ignore[assignment]
        last = binary("-", binary("+", binary("*", self.rows, self.columns), self.clusters), 1)
        where(binary("==", self.tile, last), lambda: row_call("cuda.atomic_exch", counter, 0))
        ring.empty.wait(stage, self.place.phase)
        current("a tile that is drawn").write(self.queue.numbers[stage], self.tile)  # type: ignore[arg-type]  # likewise
        ring.full.arrive(stage)


@meta_class
class WarpgroupTurns:
    """Warpgroups take turns at the tensor cores: each waits at a named barrier of its own for the one before it.

    first: the number of the first group's barrier; the others follow. All groups take equally many turns.
    """

    def __init__(self, groups: int, first: int = 1) -> None:
        self.groups, self.first = groups, first

    def begin(self, who: Value) -> None:
        """Before the first turn: it is that of group 0."""
        where(binary("==", who, 0), lambda: row_call("ptx.bar.arrive", self.first, 256))

    def take(self, who: Value) -> None:
        """A group waits for its turn."""
        row_call("ptx.bar.sync", binary("+", who, self.first), 256)

    def pass_on(self, who: Value) -> None:
        """It is the next group's turn."""
        after = binary("%", binary("+", who, 1), self.groups)
        row_call("ptx.bar.arrive", binary("+", after, self.first), 256)


EXPORTS: dict[str, object] = {each.__name__: each for each in (TileQueue, DynamicScheduler2D, WarpgroupTurns)}
"""The names of ``T`` that this file defines, with what they stand for."""
