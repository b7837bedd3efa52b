"""Warnings for a missing proxy fence: what an operation may not see, who made it, and the fence's place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.isa import ProxyFence
from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.reports.words import fence_name, grid_thread_text

if TYPE_CHECKING:
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.asynchronous.parts import OperationPart
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["unfenced_copy", "unfenced_global", "unfenced_map", "unfenced_shared"]

ASYNC, GLOBAL = ProxyFence("async"), ProxyFence("async", "global")
MAP_RELEASE = ProxyFence("tensormap", side="release", scope="gpu")
MAP_ACQUIRE = ProxyFence("tensormap", side="acquire", scope="gpu", at="ptr")


def _verb(one: Touched) -> str:
    return "overwrites" if one.writes else "reads"


def unfenced_global(wave: Wave, one: Touched, window: int, did: str, last: tuple[int, int], home: int) -> str:
    """An operation of the CTA ``home`` touches what a thread has stored in global memory, or loaded.

    last: the CTA of that thread, and its number there. Both CTAs are counted in the grid.
    """
    where = "between these accesses and the operation"
    if last[0] != home:
        where = "before the operation, in its CTA, after what tells it of these accesses"
    return (
        f"{_verb(one)} {wave.run.places.at(window, 0).name}, {did} by {grid_thread_text(wave, *last)} without a proxy "
        f"fence; {fence_name(GLOBAL)}('global') belongs {where}"
    )


def unfenced_shared(
    clocks: Clocks, one: Touched, where: tuple[int, ...], did: str, writer: int, at: tuple[int, int]
) -> str:
    """An operation touches what a warp has stored in shared memory, or loaded: at ``where`` of ``one``.

    writer: the number of the warp in its cluster. at: the line of that access, 0 where no record is left; and the time.
    """
    wave, fence, row = clocks.wave, fence_name(ASYNC), int(one.rows[where])
    (line, time), (rank, warp) = at, divmod(writer, wave.run.warps)
    what = f"{_verb(one)} {wave.run.places.shared_at(int(one.at[where])).name}, {did} by warp {warp}"
    own = row - int(wave.rank(row)) + rank
    if own != row:
        return (
            f"{what} of CTA {wave.cta_name(own)} without a proxy fence; "
            f"{fence}() belongs after the barrier, in that CTA"
        )
    arrivals = [one for one in clocks.signal_history.of(own, warp, waits=False) if one.time >= time]
    first = f"line {line}" if line else "these accesses"
    then = f"the arrival of line {arrivals[-1].line}" if arrivals else "the barrier"
    return f"{what} without a proxy fence; {fence}() belongs between {first} and {then}"


def unfenced_copy(wave: Wave, one: Touched, byte: int, part: OperationPart) -> str:
    """An operation touches what another one has written through the generic proxy."""
    return (
        f"{_verb(one)} {wave.run.places.shared_at(byte).name}, written by {part.operation.name} of warp {part.warp} "
        f"without a proxy fence; {fence_name(ASYNC)}() belongs after the wait for it"
    )


def unfenced_map(wave: Wave, address: int, last: tuple[int, int]) -> str:
    """An operation uses a tensor map that a thread of a CTA of the grid has changed."""
    return (
        f"uses the tensor map in {wave.run.places.at(address >> WINDOW_BITS, 0).name}, changed by "
        f"{grid_thread_text(wave, *last)} without a proxy fence; {fence_name(MAP_RELEASE)}(scope) belongs "
        f"after the stores, {fence_name(MAP_ACQUIRE)}(map, scope) before the copy"
    )
