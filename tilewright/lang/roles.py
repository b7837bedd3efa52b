"""Warps that hand work to each other through a ring of stages: producers, consumers, and the barriers between them.

A producer fills stages, consumers use them. Each stage has an m-barrier that is *full* once its bytes have come, and
one that is *empty* once every warp that reads it has released it; CTAs that write there all get that arrival. Each side
walks along the ring with a `PipelineState` of its own, which goes on from tile to tile.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from tilewright.dtypes import BOOL
from tilewright.errors import KernelError, choices
from tilewright.ir import AddressOf, Expr, If, Value, as_expr, binary, cast, special
from tilewright.lang.builder import current
from tilewright.lang.forms import arrive, expect_tx, where
from tilewright.lang.instructions import row_call
from tilewright.lang.meta import meta_class
from tilewright.lang.pipelines import MBarrier, PipelineState
from tilewright.lang.pool import SMEMPool
from tilewright.lang.scalars import local_scalar

__all__ = ["EXPORTS"]


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


class OpenRole(AbstractContextManager[None]):
    """``with T.WarpRole(...):`` around what some warps do: a branch; mutable while it is open."""

    def __init__(self, cond: Value, regs: int | None, *, increase: bool) -> None:
        self._builder = current("a role")
        self._at = self._builder.at
        self._cond = self._builder.settled(as_expr(cond))
        self._regs, self._increase, self._stack = regs, increase, ExitStack()

    def __enter__(self) -> None:
        self._stack.enter_context(self._builder.parser.frame(ast.Pass()))
        self._body = self._stack.enter_context(self._builder.block())
        if self._regs is not None:
            row_call("ptx.setmaxnreg", self._increase, self._regs)

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        if error[0] is None:
            self._builder.emit(If(self._cond, tuple(self._body), (), at=self._at))


def warp_role(warp_id: Value, i: int, regs: int | None = None, increase: bool = False) -> OpenRole:
    """``with T.WarpRole(warp_id, i):`` what warp ``i`` does; regs: registers of each of its threads from here on."""
    return OpenRole(binary("==", warp_id, i), regs, increase=increase)


def warpgroup_role(wg: Value, i: int | Sequence[int], regs: int | None = None, increase: bool = False) -> OpenRole:
    """``with T.WarpgroupRole(wg, i):`` what warpgroup ``i`` does, or those from ``i[0]`` up to before ``i[1]``.

    regs: registers of each of its threads from here on; ``increase``: more than it had.
    """
    first, end = (i, i + 1) if isinstance(i, int) else i
    inside: Expr = binary("==", wg, first)
    if end - first > 1:
        inside = binary("and", binary(">=", wg, first), binary("<", wg, end))
    return OpenRole(inside, regs, increase=increase)


EXPORTS: dict[str, object] = {
    **{each.__name__: each for each in (TMABar, TCGen05Bar, Pipeline)},
    "WarpRole": warp_role,
    "WarpgroupRole": warpgroup_role,
}
"""The names of ``T`` that this file defines, with what they stand for."""
