"""Between global and shared memory: the threads of the scope share the elements out in the order of the global side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.ir import Expr, Value, binary, const_value
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import between, constant_extents, one_place_each
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.hints import wider
from tilewright.tile.partition import places, tracked, widest_vector
from tilewright.tile.walks import Ints, Offset, plus, times

__all__ = ["gmem_smem"]


@dataclass(frozen=True, slots=True)
class CoalescedPlan:
    """vector: elements of one access. rounds: accesses of a thread. there, shared: where each access starts.

    spread: the offsets follow a thread and its rounds; else the number of the access, ``round * threads + thread``.
    accesses: how many there are, where the last round is not full (0: all rounds are). limit: why not by 16 bytes;
    widened: what would make accesses wider.
    """

    vector: int
    nbytes: int
    threads: int
    rounds: int
    there: Offset
    shared: Offset
    spread: bool
    accesses: int
    limit: str
    widened: str | None = None

    def summary(self) -> str:
        """``2 x 16 bytes (8 elements) for each of 128 threads``, and why not fewer and wider."""
        why = f"; not by 16 bytes, as {self.limit}" if self.limit else ""
        partial = f", {self.accesses} in all" if self.accesses else ""
        each = f"{self.rounds} x {self.nbytes} bytes ({self.vector} elements)"
        return f"{each} for each of {self.threads} threads{partial}{why}"

    def access(self, thread: Value, round: Value) -> Value:
        """What the offsets count: the round, or the number of the access."""
        return round if self.spread else plus(times(round, self.threads), thread)

    def guard(self, thread: Value, round: Value) -> Expr | None:
        """Is there such an access? None where there always is."""
        return binary("<", plus(times(round, self.threads), thread), self.accesses) if self.accesses else None


@variant(
    "copy", priority=10, keywords=("vec_len",), when=[between("global", "shared"), constant_extents, one_place_each]
)
def gmem_smem(call: TileCall) -> CoalescedPlan:
    """Neighbouring threads copy neighbouring runs of global memory, in accesses of up to 128 bits."""
    plan = _plan(call)
    return replace(plan, widened=wider(call, plan, _plan)) if plan.limit else plan


def _plan(call: TileCall) -> CoalescedPlan:
    there, shared = call.side("global"), call.side("shared")
    sides = ((there, places(there, call.facts)), (shared, places(shared, call.facts)))
    order = in_memory_order(there)
    vector, limit = widest_vector(call, [(side, where, order) for side, where in sides])
    starts = order[::vector]
    threads = call.scope.threads
    rounds = -(-len(starts) // threads)
    for spread in (True, False) if len(starts) == rounds * threads else (False,):
        elements = starts.reshape(rounds, threads).T if spread else starts
        found = [tracked(call, side, where, elements, [call.scope.index] if spread else []) for side, where in sides]
        if found[0] is not None and found[1] is not None:
            partial = len(starts) if len(starts) < rounds * threads else 0
            nbytes = vector * call.dtype.bits // 8
            return CoalescedPlan(vector, nbytes, threads, rounds, found[0], found[1], spread, partial, limit)
    raise Decline(f"the addresses of {there.name} and {shared.name} follow no common pattern")


def in_memory_order(side: Side) -> Ints:
    """The region's element numbers in the order of their addresses: symbolic strides outside, then from far to near."""
    numbers = np.arange(int(side.size or 0))
    if side.tile is None:
        return numbers
    strides = [const_value(it.stride) for it in side.tile.shard]
    axes = sorted(range(len(strides)), key=lambda k: (strides[k] is not None, -abs(int(strides[k] or 0))))
    return numbers.reshape([int(it.extent) for it in side.tile.shard]).transpose(axes).reshape(-1)


@gmem_smem.emit
def _(plan: CoalescedPlan, call: TileCall, out: Builder) -> None:
    there, shared = call.side("global"), call.side("shared")
    thread = call.scope.index
    g_storage, s_storage = there.buffer.flat(), shared.buffer.flat()
    g_offset, s_offset = out.offsets(plan.there, "g"), out.offsets(plan.shared, "s")
    with out.loop("f", plan.rounds) as f, out.when(plan.guard(thread, f)):
        access = plan.access(thread, f)
        g_ptr = out.pointer("g_ptr", g_storage, g_offset(access))
        s_ptr = out.pointer("s_ptr", s_storage, s_offset(access))
        out.call("cuda.copy_bytes", *((g_ptr, s_ptr) if there is call["dst"] else (s_ptr, g_ptr)), plan.nbytes)
