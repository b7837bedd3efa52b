"""Between memories: threads read all elements, meet, and write them; the same memory may be both."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import AddressOf, as_expr
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, one_place_each, only_in
from tilewright.tile.dispatch import Decline, meeting_cost, told, variant, vector_wavefronts
from tilewright.tile.distribution import Distribution, dealt_out, emit_copies, in_memory_order
from tilewright.tile.partition import one_storage, places
from tilewright.tile.walks import Ints, times

MOST_BYTES = 256  # bytes of a thread's registers


@dataclass(frozen=True, slots=True)
class ReadAndWrite:
    """share: the elements of each thread. cost: of a warp. at_once: all is read before anything is written."""

    share: Distribution
    cost: int
    at_once: bool
    others: tuple[tuple[str, int], ...] = ()

    def summary(self) -> str:
        """``2 x 16 bytes ..., all read before any is written; cost 20``."""
        return f"{self.share.summary()}{', all read before any is written' if self.at_once else ''}; {told(self)}"


@variant("permute_layout", priority=10, when=[only_in("shared", "global"), constant_extents, one_place_each])
def memory(call: TileCall) -> ReadAndWrite:
    """The threads read everything into registers, meet, and write it."""
    at_once = one_storage(call)
    plans = [
        ReadAndWrite(share, _cost(call, share, order), at_once)
        for order in map(in_memory_order, call.tiles)
        for share in [dealt_out(call, order)]
    ]
    plan = min(plans, key=lambda candidate: candidate.cost)
    nbytes = plan.share.rounds * plan.share.nbytes
    if at_once and nbytes > MOST_BYTES:
        raise Decline(f"each thread would hold {nbytes} bytes at a time, at most {MOST_BYTES}")
    return plan


def _cost(call: TileCall, share: Distribution, order: Ints) -> int:
    """Accesses of a warp with the turns that banks need for them; global memory is counted as if it had banks, too."""
    total, threads = 2 * share.rounds + 2 * meeting_cost(call), call.scope.threads
    for side in call.tiles:
        first = places(side, call.facts).seen[0][order][:: share.vector] * side.dtype.bits // 8
        whole = len(first) // threads * threads
        total += vector_wavefronts(first[:whole].reshape(-1, threads).T, share.nbytes) if whole else 1
    return total


@memory.emit
def _(plan: ReadAndWrite, call: TileCall, out: Builder) -> None:
    share = plan.share
    if not plan.at_once:
        emit_copies(share, call, out)
        out.meet(call)
        return
    run = out.local("run", share.rounds * share.vector, str(call.dtype)).flat()
    for name, reads in (("src", True), ("dst", False)):
        with share.counted(call, out) as (round, offsets):
            there = out.pointer("ptr", call[name].buffer.flat(), offsets[name])
            here = AddressOf(run, (as_expr(times(round, share.vector)),))
            out.call("cuda.copy_bytes", *((here, there) if reads else (there, here)), share.nbytes)
        out.meet(call)
