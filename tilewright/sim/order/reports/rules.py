"""Errors of rules that hold in every schedule: barriers, m-barriers, and the memory of other CTAs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import SimulationError
from tilewright.explain import advised, between, move, operand
from tilewright.isa import Fence
from tilewright.sim.machine.awaiting import completion_text
from tilewright.sim.machine.coordinates import pointer_to
from tilewright.sim.order.reports.advice import inits
from tilewright.sim.order.reports.words import fence_call, shared_text
from tilewright.terms import Term, barrier, call, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.explain import Threads
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.knowledge.signal_history import PastSignal

__all__ = [
    "barrier_reused",
    "cta_may_have_ended",
    "cta_may_not_have_begun",
    "early_arrival",
    "ended_early",
    "ends_before_operation",
    "ends_between",
    "ends_between_signals",
    "initialised_twice",
    "no_data",
    "uninitialised",
]

INIT = Fence("release", "cluster", "mbarrier.init")


def barrier_reused(wave: Wave, barrier: int, row: int, warp: int, at: Span | None) -> SimulationError:
    """A warp arrives again, and may still be counted in the last meeting."""
    return SimulationError(
        f"barrier {barrier} is used again by a warp that cannot know that its last meeting is over",
        given=wave.warp_name(row, warp),
        allowed="an arrival after a thread that has waited there: it may be counted in that meeting else",
        hint="a barrier of another number, or a count of all threads that meet",
        at=at,
        kind="races",
        threads=(wave.warp_at(row, warp),),
    )


def ends_between(wave: Wave, row: int, warp: int) -> SimulationError:
    """A warp ends between its arrival at the cluster's barrier and its wait."""
    return SimulationError(
        "a warp ends that has arrived at the cluster's barrier and not waited there",
        given=wave.warp_name(row, warp),
        allowed="one arrive and one wait, by turns",
        kind="races",
        threads=(wave.warp_at(row, warp),),
    )


def initialised_twice(wave: Wave, row: int, thread: int, offset: int, at: Span | None) -> SimulationError:
    """mbarrier.init of an m-barrier that is alive."""
    return SimulationError(
        f"{shared_text(wave, offset)} is initialised again, and was not ended before",
        given=wave.thread_name(row, thread),
        allowed="mbarrier.init once, or mbarrier.inval before it",
        hint="one m-barrier for all turns, as phases follow each other; or mbarrier.inval before",
        at=at,
        kind="races",
        threads=(wave.thread_at(wave.first + row, thread),),
        buffer=wave.run.places.shared_at(offset).name,
    )


def uninitialised(
    wave: Wave, use: tuple[str, str], who: tuple[int, int], where: tuple[int, int], at: Span | None
) -> SimulationError:
    """A use of an m-barrier that may come before mbarrier.init.

    use: its noun, and the words before the m-barrier: ``("wait", "a wait at")``. who: row and thread. where: row and
    offset of the m-barrier.
    """
    (noun, doing), (home, offset) = use, where
    what, given = f"{doing} {shared_text(wave, offset)}", wave.thread_name(*who)
    article = "an" if noun[0] in "aeiou" else "a"
    made = [line for line, _ in inits(wave.run.program, wave.run.places.shared_at(offset).name)][-1:]
    threads = (wave.thread_at(wave.first + who[0], who[1]),)
    lines = (*made, *at_line(at))
    if home == who[0]:
        return SimulationError(
            f"{what}, which may not have been initialised",
            given=given,
            allowed=f"{article} {noun} after a meeting with the thread of mbarrier.init",
            hint=advised(
                told("{} by all warps between mbarrier.init and the {}", barrier("cta"), noun),
                *("barrier", "cta", lines, barrier("cta")),
            ),
            at=at,
            kind="races",
            threads=threads,
            buffer=wave.run.places.shared_at(offset).name,
        )
    return SimulationError(
        f"{what} of another CTA, which may not have initialised it",
        given=f"{given}, at that of CTA {wave.cta_name(home)}",
        allowed=f"{article} {noun} after the CTAs have met behind mbarrier.init",
        hint=advised(
            told("{} and {} after mbarrier.init, before the {}", fence_call(INIT), barrier("cluster"), noun),
            *("barrier", "cluster", lines, barrier("cluster")),
            ways=[(*between(fence_call(INIT), *lines), *between(barrier("cluster"), *lines))] if lines else (),
        ),
        at=at,
        kind="races",
        threads=threads,
        buffer=wave.run.places.shared_at(offset).name,
    )


def ended_early(
    wave: Wave, who: tuple[int, int], where: tuple[int, int], wait: PastSignal, at: Span | None
) -> SimulationError:
    """mbarrier.inval of an m-barrier, ``where`` is its row and offset, at which a thread may still wait."""
    waiter = wave.thread_name(where[0], 32 * wait.warp + int(wait.lanes.argmax()))
    first, last = (wait.at.line if wait.at else 0), (at.line if at else 0)
    step = told("{} between {} and line {}", barrier("cta"), f"line {first}" if first else "the wait", last)
    return SimulationError(
        f"{shared_text(wave, where[1])} is ended while a thread may still wait there",
        given=f"{at}: {wave.thread_name(*who)}\nwaits at {wait.at}: {waiter}",
        allowed="mbarrier.inval after all threads that use the m-barrier have met",
        hint=advised(step, "barrier", "cta", (first, last), barrier("cta")),
        at=at,
        kind="races",
        threads=(wave.thread_at(wave.first + who[0], who[1]),),
        buffer=wave.run.places.shared_at(where[1]).name,
    )


def no_data(wave: Wave, site: Site, who: tuple[int, int], offset: int) -> SimulationError:
    """An ordinary access of bytes that are an m-barrier."""
    verb = "overwrites" if site.write else "reads"
    return SimulationError(
        told("{} {} {}, which is an m-barrier", Term("operation", (site.op,)), verb, shared_text(wave, offset)),
        given=wave.thread_name(*who),
        allowed="mbarrier instructions, until mbarrier.inval has ended it",
        hint=told("{} by one thread before it, after the last use", call("ptx.mbarrier.inval", ...)),
        at=site.at,
        kind="races",
        threads=(wave.thread_at(wave.first + who[0], who[1]),),
        buffer=wave.run.places.shared_at(offset).name,
    )


def early_arrival(wave: Wave, who: str, threads: tuple[Threads, ...], offset: int, at: Span | None) -> SimulationError:
    """An arrival for the next phase, though no thread has found the last one over."""
    text = "a wait for the last phase before it; or mbarrier.init with the count of all that arrive"
    bar, lines = pointer_to(wave, offset), at_line(at)
    waits = [call("ptx.mbarrier.try_wait", bar, parity) for parity in (0, 1) if bar is not None]
    name = wave.run.places.shared_at(offset).name
    more = [(operand(line, "count", count + 1),) for line, count in inits(wave.run.program, name) if count]
    ways = [*(between(wait, *lines) for wait in waits if lines), *more, *((move(*lines),) for _ in lines)]
    return SimulationError(
        f"an arrival at {shared_text(wave, offset)} for its next phase, and nobody has seen the last one over",
        given=who,
        allowed="as many arrivals as mbarrier.init counts, then a wait, then those for the next phase",
        hint=advised(text, "wait", "cta", lines, ways=ways),
        at=at,
        kind="races",
        threads=threads,
        buffer=wave.run.places.shared_at(offset).name,
    )


def ends_between_signals(wave: Wave, operation: Operation, issuer: int, offset: int) -> SimulationError:
    """A phase ends before all that one statement issues has come."""
    return SimulationError(
        f"the phase of {shared_text(wave, offset)} may end before {operation.name} of some of its threads is complete",
        given=f"{operation.who(issuer)}, which comes for the next phase",
        allowed="a phase that waits for all arrivals and bytes of the operations that begin together",
        hint="mbarrier.init with the count of all that arrive, and as many bytes announced as come",
        at=operation.instruction.at,
        kind="races",
        threads=(operation.issuers.thread_at(issuer),),
        buffer=wave.run.places.shared_at(offset).name,
    )


def _far(wave: Wave, who: tuple[int, int], where: tuple[int, int]) -> str:
    return f"{wave.thread_name(*who)}: {wave.run.places.shared_at(where[1]).name} of CTA {wave.cta_name(where[0])}"


def cta_may_have_ended(wave: Wave, who: tuple[int, int], where: tuple[int, int], at: Span | None) -> SimulationError:
    """A thread touches the shared memory of a CTA, which does not wait for that. who: row and thread. where: the row of
    that CTA, and the byte.
    """
    return SimulationError(
        "the shared memory of another CTA is touched, which may have ended by then",
        given=_far(wave, who, where),
        allowed="a CTA that ends after all that others do in its shared memory",
        hint=told("{} before the end of the kernel", barrier("cluster")),
        at=at,
        kind="races",
        buffer=wave.run.places.shared_at(where[1]).name,
        threads=(wave.thread_at(wave.first + who[0], who[1]),),
    )


def cta_may_not_have_begun(
    wave: Wave, who: tuple[int, int], where: tuple[int, int], at: Span | None
) -> SimulationError:
    """A thread touches the shared memory of a CTA, and comes after nothing there. who, where: as before."""
    return SimulationError(
        "the shared memory of another CTA is touched, which may not have begun by then",
        given=_far(wave, who, where),
        allowed="an access after the CTAs of the cluster have met, as all of them have begun then",
        hint=advised(
            told("{} by all threads before it", barrier("cluster")),
            "barrier",
            "cluster",
            at_line(at),
            barrier("cluster"),
        ),
        at=at,
        kind="races",
        buffer=wave.run.places.shared_at(where[1]).name,
        threads=(wave.thread_at(wave.first + who[0], who[1]),),
    )


def at_line(at: Span | None) -> tuple[int, ...]:
    """The line, where there is one."""
    return (at.line,) if at else ()


def ends_before_operation(operation: Operation, issuer: int, home: int, *, is_known: bool) -> SimulationError:
    """An operation touches the memory of CTA ``home``, where no thread knows that it is complete.

    is_known: does a thread of the cluster know?
    """
    hint = told("{} before the end of the kernel, after the wait", barrier("cluster"))
    if not is_known:
        hint = told("{}, before the end of the kernel", completion_text(operation, issuer, home))
    return SimulationError(
        f"the CTA may end while {operation.name} is under way",
        given=f"issued by {operation.who(issuer)}\nmemory of CTA {operation.batch.wave.cta_name(home)}",
        allowed="an end after a thread of the CTA has waited for the operation, or met one that has",
        hint=hint,
        at=operation.instruction.at,
        kind="races",
        threads=(operation.issuers.thread_at(issuer),),
    )
