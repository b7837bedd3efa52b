"""What is said of a missing proxy fence: what an operation may not see, who made it, and the fence's place.

Where a unit reads what threads of its CTA have stored, hardware gives it old bytes, which is an error. What kernels
are published without is a warning: a fence between loads and a refill, one for another CTA, for global memory, and
before the operations whose row says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import SimulationError
from tilewright.explain import Facts, advised
from tilewright.isa import Access, ProxyFence
from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.reports.words import fence_call, grid_thread_text
from tilewright.terms import Operand, Term, Told, told

if TYPE_CHECKING:
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.asynchronous.parts import OperationPart
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["LackingFence", "unfenced_copy", "unfenced_global", "unfenced_map", "unfenced_shared"]

ASYNC, GLOBAL = ProxyFence("async"), ProxyFence("async", "global")
MAP_RELEASE = ProxyFence("tensormap", side="release", scope="gpu")
MAP_ACQUIRE = ProxyFence("tensormap", side="acquire", scope="gpu", at="ptr")


@dataclass(frozen=True, slots=True)
class LackingFence:
    """What an operation may not see, ``reads s, stored by warp 0 without a proxy fence``, and the place of the fence.

    fence: what is missing, and where it belongs, in words. lines: behind which that is, or between which; else right
    before the operation. is_wrong: does hardware give wrong data, so that a warning is not enough? buffer: the one that
    is touched.
    """

    what: str
    fence: Told
    lines: tuple[int, ...] = ()
    is_wrong: bool = False
    buffer: str | None = None

    def warning(self, operation: Operation) -> Told:
        """The sentence, with the line of the operation."""
        advice = Term("advice", (self.fence,))
        return told("{}: {} {}{}", operation.instruction.at, operation.name, self.what, advice)

    def remedy(self, operation: Operation) -> Told:
        """The hint."""
        at = operation.instruction.at
        lines = self.lines if len(self.lines) > 1 or at is None else (*self.lines, at.line)
        code = next(part for part in self.fence.parts if isinstance(part, Term))
        return advised(self.fence, "proxy_fence", "cta", lines, code)

    def facts(self, operation: Operation) -> Facts:
        """The fields of the warning's finding."""
        at = operation.instruction.at
        return {
            "file": at.file if at else None,
            "line": at.line if at else None,
            "operation": operation.name,
            "buffer": self.buffer,
            "remedy": self.remedy(operation).remedy,
            "threads": (operation.issuers.thread_at(0),),
        }

    def error(self, operation: Operation) -> SimulationError:
        """The finding."""
        return SimulationError(
            f"{operation.name} {self.what}",
            given=f"issued by {operation.issuers.name(0)}",
            allowed="reads of an asynchronous unit after a proxy fence that comes after the stores",
            hint=self.remedy(operation),
            at=operation.instruction.at,
            kind="races",
            threads=(operation.issuers.thread_at(0),),
            buffer=self.buffer,
        )


def _is_wrong(one: Touched) -> bool:
    """Does the unit read, and do programs fence before it?"""
    return not one.writes and isinstance(one.effect, Access) and not one.effect.unfenced


def _verb(one: Touched) -> str:
    return "overwrites" if one.writes else "reads"


def unfenced_global(wave: Wave, one: Touched, window: int, did: str, last: tuple[int, int], home: int) -> LackingFence:
    """An operation of the CTA ``home`` touches what a thread has stored in global memory, or loaded.

    last: the CTA of that thread, and its number there. Both CTAs are counted in the grid.
    """
    where = "between these accesses and the operation"
    if last[0] != home:
        where = "before the operation, in its CTA, after what tells it of these accesses"
    name = wave.run.places.at(window, 0).name
    return LackingFence(
        f"{_verb(one)} {name}, {did} by {grid_thread_text(wave, *last)} without a proxy fence",
        told("{} belongs {}", fence_call(GLOBAL, "global"), where),
        buffer=name,
    )


def unfenced_shared(
    clocks: Clocks, one: Touched, where: tuple[int, ...], did: str, writer: int, at: tuple[int, int]
) -> LackingFence:
    """An operation touches what a warp has stored in shared memory, or loaded: at ``where`` of ``one``.

    writer: the number of the warp in its cluster. at: the line of that access, 0 where no record is left; and the time.
    """
    wave, fence, row = clocks.wave, fence_call(ASYNC), int(one.rows[where])
    (line, time), (rank, warp) = at, divmod(writer, wave.run.warps)
    name = wave.run.places.shared_at(int(one.at[where])).name
    what = f"{_verb(one)} {name}, {did} by warp {warp}"
    own = row - int(wave.rank(row)) + rank
    if own != row:
        who = f"{what} of CTA {wave.cta_name(own)} without a proxy fence"
        return LackingFence(who, told("{} belongs after the barrier, in that CTA", fence), buffer=name)
    arrivals = [one for one in clocks.signal_history.of(own, warp, waits=False) if one.time >= time]
    first = f"line {line}" if line else "these accesses"
    then = f"the arrival of line {arrivals[-1].line}" if arrivals else "the barrier"
    remedy = told("{} belongs between {} and {}", fence, first, then)
    lines = tuple(each for each in (line, arrivals[-1].line if arrivals else 0) if each)
    return LackingFence(f"{what} without a proxy fence", remedy, lines, did == "stored" and _is_wrong(one), name)


def unfenced_copy(wave: Wave, one: Touched, byte: int, part: OperationPart) -> LackingFence:
    """An operation touches what another one has written through the generic proxy."""
    name = wave.run.places.shared_at(byte).name
    what = f"{_verb(one)} {name}, written by {part.operation.name} of warp {part.warp} without a proxy fence"
    remedy = told("{} belongs after the wait for it", fence_call(ASYNC))
    return LackingFence(what, remedy, (part.at.line,) if part.at else (), _is_wrong(one), name)


def unfenced_map(wave: Wave, address: int, last: tuple[int, int]) -> LackingFence:
    """An operation uses a tensor map that a thread of a CTA of the grid has changed."""
    return LackingFence(
        f"uses the tensor map in {wave.run.places.at(address >> WINDOW_BITS, 0).name}, changed by "
        f"{grid_thread_text(wave, *last)} without a proxy fence",
        told(
            "{} belongs after the stores, {} before the copy",
            fence_call(MAP_RELEASE, Operand("scope")), fence_call(MAP_ACQUIRE, Operand("map"), Operand("scope")),
        ),
    )  # fmt: skip
