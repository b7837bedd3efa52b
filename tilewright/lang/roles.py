"""Warps that hand work to each other through a ring of stages: producers, consumers, and the barriers between them; and
whose turn it is, and at which tile.

A producer fills stages, consumers use them. Each stage has an m-barrier that is *full* once its bytes have come, and
one that is *empty* once every warp that reads it has released it; CTAs that write there all get that arrival. Each side
walks along the ring with a `PipelineState` of its own, which goes on from tile to tile.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from tilewright.dtypes import BOOL, INT32, dtype
from tilewright.errors import KernelError, choices
from tilewright.ir import AddressOf, Buffer, Expr, If, Value, as_expr, binary, cast, select, special
from tilewright.lang.builder import current
from tilewright.lang.forms import arrive, expect_tx, where
from tilewright.lang.instructions import row_call
from tilewright.lang.memory import local_scalar
from tilewright.lang.meta import meta_class
from tilewright.lang.pools import SMEMPool
from tilewright.lang.public import export

# Helpers of kernels in which warps hand work to each other: the position in a pipeline, its barriers, and the order of
# tiles. Each is a `meta_class`: an object of parse time with scalars and buffers of the kernel in its fields.


@meta_class
class PipelineState:
    """Which of ``depth`` stages comes next, and the parity of its barrier's phase, which flips at each wrap."""

    def __init__(self, depth: int, phase: Value | None = None) -> None:
        self.depth = depth
        self.stage = local_scalar("int32")
        self.phase = local_scalar("int32")
        if phase is not None:
            self.init(phase)

    def init(self, phase: Value) -> None:
        """Begin at stage 0; producers at phase 1, so that their first wait is over at once."""
        self.stage = 0  # type: ignore[assignment]  # a store
        self.phase = phase  # type: ignore[assignment]

    def advance(self) -> None:
        """Go on to the next stage."""
        self.stage = self.stage + 1  # type: ignore[assignment]
        where(binary("==", self.stage, self.depth), self._wrap)

    def _wrap(self) -> None:
        self.stage = 0  # type: ignore[assignment]
        self.phase = binary("^", self.phase, 1)  # type: ignore[assignment]


@meta_class
class MBarrier:
    """An m-barrier for each of ``depth`` stages. phase_offset: added to the parity that a wait names. leader: the
    condition of the thread that makes them, thread 0 of the CTA if left out.
    """

    def __init__(self, pool: SMEMPool, depth: int, phase_offset: int = 0, leader: Value | None = None) -> None:
        self.depth, self.phase_offset = depth, phase_offset
        self.leader = binary("==", special("tid"), 0) if leader is None else leader
        self.bars = pool.alloc((depth,), "uint64", align=8)

    def init(self, count: Value) -> None:
        """Each phase waits for ``count`` arrivals; a fence and a barrier must follow before others use them."""
        where(self.leader, lambda: [row_call("ptx.mbarrier.init", self.ptr_to([i]), count) for i in range(self.depth)])

    def wait(self, stage: Value, phase: Value) -> None:
        """Wait until the phase of this parity is over at a stage."""
        parity = binary("^", phase, self.phase_offset) if self.phase_offset else phase
        row_call("ptx.mbarrier.try_wait", self.ptr_to([stage]), parity)

    def arrive(self, stage: Value, cta_id: Value | None = None, pred: Value | None = None,
               count: Value | None = None) -> None:  # fmt: skip
        """Arrive at a stage; in another CTA of the cluster, only where ``pred`` holds, ``count`` times."""
        arrive(self.ptr_to([stage]), cta_id, pred, count)

    def ptr_to(self, indices: Sequence[Value]) -> AddressOf:
        """A pointer to the m-barrier of a stage."""
        return self.bars.ptr_to(indices)

    def remote_view(self, rank: Value) -> RemoteBarrier:
        """These barriers in the CTA of a rank, at which one can only arrive."""
        return RemoteBarrier(self, rank)


@meta_class
class RemoteBarrier:
    """The barriers of an `MBarrier` in another CTA of the cluster."""

    def __init__(self, local: MBarrier, rank: Value) -> None:
        self.own, self.rank = local, rank

    def arrive(self, stage: Value, pred: Value | None = None, count: Value | None = None) -> None:
        """Arrive at a stage there."""
        self.own.arrive(stage, self.rank, pred, count)

    def wait(self, stage: Value, phase: Value) -> None:
        """Raises KernelError: a thread cannot wait at a barrier of another CTA."""
        raise KernelError("a barrier of another CTA cannot be waited at", given="remote_view(rank).wait",
                          allowed=".arrive(stage)", hint="wait at the MBarrier itself, in its own CTA")  # fmt: skip


@meta_class
class SmemDescriptor:
    """A descriptor of a matrix in shared memory for the tensor cores of sm_100, in a scalar, ``desc``."""

    def __init__(self) -> None:
        self.desc = local_scalar("uint64")

    def init(self, ptr: object, ldo: Value, sdo: Value, swizzle: Value) -> None:
        """Describe the matrix at ``ptr``; offsets in units of 16 bytes."""
        storage: Buffer = vars(self)["desc"].buffer
        row_call("ptx.tcgen05.encode_matrix_descriptor", storage.ptr_to([0]), ptr, ldo, sdo, swizzle)

    def add_16B_offset(self, k: Value) -> Expr:
        """The descriptor of what begins 16 ``k`` bytes further on."""
        return row_call("cuda.smem_desc_add_16B_offset", self.desc, k)


@meta_class
class ClusterPersistentScheduler2D:
    """The tiles of persistent clusters: groups of ``l2_group_size`` rows of tiles, column by column within a group.

    prefix: the beginning of the names of its scalars.
    """

    def __init__(
        self, prefix: str, num_m_tiles: Value, num_n_tiles: Value, num_clusters: Value, l2_group_size: Value = 8
    ) -> None:
        self.prefix, self.group = prefix, l2_group_size
        self.rows, self.columns, self.clusters = num_m_tiles, num_n_tiles, num_clusters
        self.tile, self.m_idx, self.n_idx = (local_scalar("int32") for _ in range(3))

    def init(self, cluster: Value) -> None:
        """Begin with the tile of this cluster."""
        self.tile = cluster  # type: ignore[assignment]  # a store
        self._place()

    def valid(self) -> Expr:
        """Is there a tile left?"""
        return binary("<", self.tile, binary("*", self.rows, self.columns))

    def next_tile(self) -> None:
        """Go on to the next tile of this cluster."""
        self.tile = binary("+", self.tile, self.clusters)  # type: ignore[assignment]
        self._place()

    def _place(self) -> None:
        whole = binary("*", self.group, self.columns)
        section, inside = _divided(self.tile, whole)
        first = binary("*", section, self.group)
        left = binary("-", self.rows, first)
        height = select(
            binary("<", left, 1), 1, binary("min", left, self.group)
        )  # beyond the last tile, where no value counts
        column, row = _divided(inside, height)
        self.m_idx = binary("+", first, row)  # type: ignore[assignment]
        self.n_idx = column  # type: ignore[assignment]


def _divided(number: Value, by: Value) -> tuple[Expr, Expr]:
    """Quotient and rest of numbers that are not below 0, which takes half of the instructions of signed ones."""
    a, b = cast(number, dtype("uint32")), cast(by, dtype("uint32"))
    return cast(binary("//", a, b), INT32), cast(binary("%", a, b), INT32)


@meta_class
class TMABar(MBarrier):
    """Barriers that count the bytes of copies."""

    def arrive(self, stage: Value, tx_count: Value, cta_id: Value | None = None, pred: Value | None = None) -> None:  # type: ignore[override]  # bytes instead of arrivals
        """Arrive at a stage and announce so many bytes."""
        expect_tx(self.ptr_to([stage]), tx_count, cta_id, pred)


@meta_class
class TCGen05Bar(MBarrier):
    """Barriers that wait for the tensor cores of sm_100."""

    def arrive(self, stage: Value, cta_group: int = 1, cta_mask: Value | None = None) -> None:  # type: ignore[override]  # units arrive, not threads
        """A stage is arrived at once all that the thread has issued to the tensor cores is complete."""
        row_call("ptx.tcgen05.commit", self.ptr_to([stage]), cta_group=cta_group, cta_mask=cta_mask)


KINDS: dict[str, type[MBarrier]] = {"mbar": MBarrier, "tma": TMABar, "tcgen05": TCGen05Bar}


@meta_class
class Pipeline:
    """A ring of stages: the barriers ``full`` and ``empty``, made and initialised, and the positions of both sides.

    full, empty: kinds of barriers, "tma", "tcgen05", "mbar". init_full, init_empty: arrivals of a phase. consumers:
    warps of a CTA that read a stage; ``init_empty`` then follows. cluster: CTAs that write into each other's stages.
    Before the stages are used, all threads call `ready`.
    """

    def __init__(
        self, pool: SMEMPool, stages: int, *, full: str = "tma", empty: str = "mbar", init_full: Value = 1,
        init_empty: Value = 1, empty_phase_offset: int = 0, leader: Value | None = None, consumers: int | None = None,
        cluster: int = 1,
    ) -> None:  # fmt: skip
        for name, kind in (("full", full), ("empty", empty)):
            if kind not in KINDS:
                raise KernelError(f"{name}= is no kind of barrier", given=repr(kind), allowed=choices(kind, KINDS))
        self.stages, self.cluster = stages, cluster
        self.full = KINDS[full](pool, stages, 0, leader)
        self.empty = KINDS[empty](pool, stages, empty_phase_offset, leader)
        self.full.init(init_full)
        self.empty.init(init_empty if consumers is None else consumers * cluster)

    def ready(self) -> None:
        """All threads of the CTA, or of the cluster, wait until the barriers are made."""
        row_call("ptx.fence.mbarrier_init")
        row_call("cuda.cluster_sync" if self.cluster > 1 else "cuda.cta_sync")

    def producer(self, tx_count: Value = 0) -> Producer:
        """The state of the thread that fills the stages, each with ``nbytes``."""
        return Producer(self, tx_count)

    def consumer(self) -> Consumer:
        """The state of a warp that reads the stages."""
        return Consumer(self)


@meta_class
class Producer(PipelineState):
    """The position in a ring of the thread that fills its stages. ``full``: the barrier at which copies complete."""

    def __init__(self, ring: Pipeline, tx_count: Value) -> None:
        self.ring, self.tx_count = ring, tx_count
        PipelineState.__init__(self, ring.stages, 1)

    @property
    def full(self) -> AddressOf:
        """The barrier of the stage, for ``mbar=``."""
        return self.ring.full.ptr_to([self.stage])

    def acquire(self) -> None:
        """Wait until every CTA that gets the bytes of this stage has released it, and announce the bytes."""
        self.ring.empty.wait(self.stage, self.phase)
        expect_tx(self.full, self.tx_count)

    def drain(self) -> None:
        """Wait until all stages have been read: no other CTA arrives here afterwards, and this one may end."""
        for _ in range(self.depth):
            self.ring.empty.wait(self.stage, self.phase)
            self.advance()


@meta_class
class Consumer(PipelineState):
    """The position in a ring of a warp that reads its stages. last: the stage before this one."""

    def __init__(self, ring: Pipeline) -> None:
        self.ring = ring
        self.last = local_scalar("int32")
        self.last = 0  # type: ignore[assignment]  # a store
        PipelineState.__init__(self, ring.stages, 0)

    def advance(self) -> None:
        """Go on to the next stage."""
        self.last = self.stage
        PipelineState.advance(self)

    def wait(self) -> None:
        """Wait until the stage has its bytes."""
        self.ring.full.wait(self.stage, self.phase)

    def release(self, stage: Value | None = None, pred: Value = True) -> None:
        """The warp has read a stage, this one if none is named: one lane arrives at each CTA of the cluster.

        The arrival has the cheap form, without a scope, which is enough for reads of tensor cores: their wait covers
        those.
        """
        lane, cluster = special("laneid"), self.ring.cluster
        far: dict[str, Any] = {"cta_id": lane, "scope": "cta"} if cluster > 1 else {}
        bar = self.ring.empty.ptr_to([self.stage if stage is None else stage])
        where(binary("and", cast(pred, BOOL), binary("<", lane, cluster)), lambda: arrive(bar, **far))


Role: TypeAlias = AbstractContextManager[None]


@contextmanager
def _role(cond: Value, regs: int | None, *, increase: bool) -> Iterator[None]:
    """``with T.WarpRole(...):`` around what some warps do: a branch."""
    builder = current("a role")
    at, test = builder.at, builder.settled(as_expr(cond))
    with builder.parser.frame(ast.Pass()), builder.block() as body:
        if regs is not None:
            row_call("ptx.setmaxnreg", increase, regs)
        yield
    builder.emit(If(test, tuple(body), (), at=at))


def warp_role(warp_id: Value, i: int, regs: int | None = None, increase: bool = False) -> Role:
    """``with T.WarpRole(warp_id, i):`` what warp ``i`` does; regs: registers of each of its threads from here on."""
    return _role(binary("==", warp_id, i), regs, increase=increase)


def warpgroup_role(wg: Value, i: int | Sequence[int], regs: int | None = None, increase: bool = False) -> Role:
    """``with T.WarpgroupRole(wg, i):`` what warpgroup ``i`` does, or those from ``i[0]`` up to before ``i[1]``.

    regs: registers of each of its threads from here on; ``increase``: more than it had.
    """
    first, end = (i, i + 1) if isinstance(i, int) else i
    inside: Expr = binary("==", wg, first)
    if end - first > 1:
        inside = binary("and", binary(">=", wg, first), binary("<", wg, end))
    return _role(inside, regs, increase=increase)


# Who works next: tiles that CTAs draw from a counter, longest first or in any order, and turns of warpgroups.
#
# Each is a `meta_class`: an object of parse time with scalars and buffers of the kernel in its fields.


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


BARRIERS = "Barriers, pipelines, roles of warps"
export(BARRIERS, PipelineState, MBarrier, SmemDescriptor, ClusterPersistentScheduler2D, TMABar, TCGen05Bar, Pipeline)
export(BARRIERS, WarpRole=warp_role, WarpgroupRole=warpgroup_role)
export(BARRIERS, TileQueue, DynamicScheduler2D, WarpgroupTurns)
