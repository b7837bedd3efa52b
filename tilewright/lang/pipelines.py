"""Helpers of kernels in which warps hand work to each other: the position in a pipeline, its barriers, and the order of
tiles. Each is a `meta_class`: an object of parse time with scalars and buffers of the kernel in its fields.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import KernelError
from tilewright.ir import AddressOf, Buffer, Expr, Value, binary, select, special
from tilewright.lang.forms import arrive, where
from tilewright.lang.instructions import row_call
from tilewright.lang.meta import meta_class
from tilewright.lang.pool import SMEMPool
from tilewright.lang.scalars import local_scalar

__all__ = ["EXPORTS"]


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

    def __init__(self, own: MBarrier, rank: Value) -> None:
        self.own, self.rank = own, rank

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
        first = binary("*", binary("//", self.tile, whole), self.group)
        inside, left = binary("%", self.tile, whole), binary("-", self.rows, first)
        height = select(
            binary("<", left, 1), 1, binary("min", left, self.group)
        )  # beyond the last tile, where no value counts
        self.m_idx = binary("+", first, binary("%", inside, height))  # type: ignore[assignment]
        self.n_idx = binary("//", inside, height)  # type: ignore[assignment]


EXPORTS: dict[str, object] = {
    each.__name__: each for each in (PipelineState, MBarrier, SmemDescriptor, ClusterPersistentScheduler2D)
}
"""The names of ``T`` that this file defines, with what they stand for."""
