"""Errors of rules that hold in every schedule: barriers, m-barriers, proxy fences, operations under way, and the memory
of other CTAs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import OtherAccess, advised, between, move, operand, place_of
from tilewright.explain.rules import LackingFence, broken
from tilewright.explain.steps import fence_call, wait_call
from tilewright.isa import Access, Fence, ProxyFence
from tilewright.sim.machine import INITIALISED, WINDOW_BITS, cells_text, completion_text, coordinate_text, pointer_to
from tilewright.sim.order.asynchronous.scoreboard import may_queue
from tilewright.sim.order.reports.handover import missing_step
from tilewright.sim.order.reports.words import grid_thread_text, not_yet_written, shared_text
from tilewright.terms import Operand, Told, barrier, call, operation, told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.explain import Threads
    from tilewright.sim.machine import Ints, Operation, Site, UnitView, Wave
    from tilewright.sim.order.asynchronous.operations import Operations
    from tilewright.sim.order.asynchronous.scoreboard import OperationPart
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.phases import PastSignal
    from tilewright.sim.order.races.records import Record

# The error and the warning for bytes that are read as constants, and written.


def constant_written(
    wave: Wave, read: Record, write: Record, reader: tuple[int, int], writer: tuple[int, int], address: int
) -> SimulationError:
    """A thread reads as a constant what another one writes. reader, writer: CTA of the grid, and thread."""
    one, other = (grid_thread_text(wave, *who) for who in (reader, writer))
    return broken(
        "constant written",
        _both(wave, read, address),
        at=read.site.at,
        who=wave.thread_at(*reader),
        given=f"{read.site.at}: {one}\nwritten{_at(write)}: {other}",
        buffer=read.site.line.buffer or None,
        place=coordinate_text(wave.run.program, read.site, address),
        other=OtherAccess(write.site.op, "written", **place_of(write.site.at), threads=(wave.thread_at(*writer),)),
    )


def constant_rewritten(wave: Wave, read: Record, write: Record, address: int) -> Told:
    """The same of one thread that reads, and writes later."""
    what = _both(wave, read, address)
    return told(
        "{}: {}{}, the same thread later; another GPU may give it another value", read.site.at, what, _at(write)
    )


def _both(wave: Wave, read: Record, address: int) -> Told:
    place = coordinate_text(wave.run.program, read.site, address)
    what = operation(read.site.op)
    return told("{} reads {} as a constant (__ldg, .nc), and the kernel writes it", what, place)


def _at(write: Record) -> str:
    return f" at {write.site.at}" if write.site.at else ""


# What is said of a missing proxy fence: what an operation may not see, who made it, and the fence's place.
#
# Where a unit reads what threads of its CTA have stored, hardware gives it old bytes, which is an error. What kernels
# are published without is a warning: a fence between loads and a refill, one for another CTA, for global memory, and
# before the operations whose row says so.


ASYNC, GLOBAL = ProxyFence("async"), ProxyFence("async", "global")
MAP_RELEASE = ProxyFence("tensormap", side="release", scope="gpu")
MAP_ACQUIRE = ProxyFence("tensormap", side="acquire", scope="gpu", at="ptr")


def _is_wrong(one: UnitView) -> bool:
    """Does the unit read, and do programs fence before it?"""
    return not one.writes and isinstance(one.effect, Access) and not one.effect.unfenced


def _verb(one: UnitView) -> str:
    return "overwrites" if one.writes else "reads"


def unfenced_global(wave: Wave, one: UnitView, window: int, did: str, last: tuple[int, int], home: int) -> LackingFence:
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
    clocks: Clocks, one: UnitView, where: tuple[int, ...], did: str, writer: int, at: tuple[int, int]
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


def unfenced_copy(wave: Wave, one: UnitView, byte: int, part: OperationPart) -> LackingFence:
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


# Errors of asynchronous operations that may still be under way where others touch what they use.


STATE = {"filled": "loaded", "read": "read"}
PAST = {"reading": "read", "writing": "written"}
KIND = {"reading": "copy", "writing": "write"}


def early_operation(
    operations: Operations, now: Operation, one: UnitView, place: NDArray[np.int64], earlier: OperationPart, did: str
) -> SimulationError:
    """An operation touches bytes of shared memory, ``place`` in ``one``, that an earlier one may not have read, or
    written.
    """
    k, byte = int(one.issuer[place[0]]), int(one.at[tuple(place)])
    name, who = shared_text(operations.wave, byte), earlier.who(int(now.issuers.rows[k]))
    buffer, hint = operations.wave.run.places.shared_at(byte).name, _wait_before(operations, earlier, now, k, did)
    return _early(now, k, one, (earlier.operation, did, who), hint, buffer, name)


def _early(
    now: Operation, k: int, one: UnitView, past: tuple[Operation, str, str], hint: str, buffer: str, name: str = ""
) -> SimulationError:
    """past: the earlier operation, what it did, and who issued it. name: of an element, else the buffer's counts."""
    (earlier, did, who), at, verb = past, now.instruction.at, "writes" if one.writes else "reads"
    given = f"{at}: {now.who(k)}\n{did} at {earlier.instruction.at}: {who}"
    what, who_now = ("early operation", now.name, verb, name or buffer, earlier.name, did), now.issuers.thread_at(k)
    return broken(*what, at=at, who=who_now, given=given, hint=hint, buffer=buffer, place=name or None)


def _wait_before(operations: Operations, earlier: OperationPart, now: Operation, k: int, did: str) -> Told:
    """The step that is missing before an issuer of an operation."""
    place = int(now.issuers.rows[k]), int(operations.parts.knowers(now)[k * now.issuers.warps_each])
    return missing_step(operations, earlier, place, now.instruction.at, fences=False, reads=did == "read")


def early_write(
    operations: Operations, now: Operation, one: UnitView, found: tuple[int, Operation, int, int, str]
) -> SimulationError:
    """An operation touches bytes of a buffer that another one may not have read, or written: see `GlobalWrites`."""
    k, earlier, whose, window, did = found
    hint, thread = "bytes of its own for each of the two operations", int(earlier.issuers.threads[whose])
    if earlier is not now and earlier.issuers.rows[whose] == now.issuers.rows[k]:
        part = next(each for each in operations.parts.values() if (each.operation, each.thread) == (earlier, thread))
        hint = _wait_before(operations, part, now, k, did)
    buffer = operations.wave.run.places.at(window, 0).name
    return _early(now, k, one, (earlier, did, earlier.who(whose)), hint, buffer)


def copied_twice(now: Operation, k: int, whose: int) -> Told:
    """Two lanes begin the same copy at once."""
    return told("{} and {} begin the same {}, unordered; one is enough", now.who(k), now.who(whose), now.name)


def early_tmem_operation(
    operations: Operations, earlier: OperationPart, now: Operation, actor: int, cells: tuple[Ints, Ints], did: str
) -> SimulationError:
    """An actor of an operation touches cells, given by lane and column, that an earlier one may not have read,
    or written.
    """
    row, knower, at = int(now.issuers.rows[actor]), int(operations.parts.knowers(now)[actor]), now.instruction.at
    run, (lane, column) = operations.wave.run, cells
    sought = did == "read" and run.unwritten == "sought"
    if sought and (operations.wave.shadows.tmem[row, column, lane] != INITIALISED).any():
        reader, writer = (earlier.operation.name, earlier.at, earlier.who(row)), (now.name, at, now.who(actor))
        step = told("a barrier after {}", completion_text(now, actor, row))
        return not_yet_written(run, reader, writer, f"tensor memory ({cells_text(*cells)})", step)
    return broken(
        *("early tmem", now.name, earlier.operation.name, did),
        at=at,
        who=now.issuers.thread_at(int(now.issuers.actors[0][actor])),
        given=f"{cells_text(*cells)}\n{at}: {now.who(actor)}\n{did} at {earlier.at}: {earlier.who(row)}",
        hint=missing_step(operations, earlier, (row, knower), at, queues=_may_queue(operations, earlier, now, actor)),
    )


def _may_queue(operations: Operations, earlier: OperationPart, now: Operation, actor: int) -> bool:
    """Would the order of issue be enough, if the actor knew of it?"""
    alone = earlier.is_alone and now.issuers.lanes == 1
    return alone and bool(may_queue(earlier, now, operations.parts.ranks)[actor])


def freed_early(
    operations: Operations, earlier: OperationPart, place: tuple[int, int], at: Span | None, did: str
) -> SimulationError:
    """A warp, ``place`` is its row and number, gives back columns that an operation may not have read, or written."""
    who = operations.wave.warp_at(*place)
    return broken(
        *("freed early", earlier.operation.name, did),
        at=at,
        who=who,
        given=f"{at}: {who}\n{did} at {earlier.at}: {earlier.who(place[0])}",
        hint=missing_step(operations, earlier, place, at, fences=False),
    )


def used_unwaited(name: str, earlier: OperationPart) -> Told:
    """A warp reads registers before the wait for the load that fills them."""
    wait = wait_call(earlier.operation.group)
    where = f"between the {earlier.operation.name} at {earlier.at} and here"
    return told("{} is used before {}, which belongs {}", name, wait, where)


def unfenced_tmem(operations: Operations, earlier: OperationPart, now: Operation, actor: int, did: str) -> Told:
    """An operation touches tensor memory after an earlier one, known to be complete, without fences between them."""
    place, at = (int(now.issuers.rows[actor]), int(operations.parts.knowers(now)[actor])), now.instruction.at
    what = f"{now.name} touches tensor memory that the {earlier.operation.name} at {earlier.at} has {did}, without a"
    step = missing_step(operations, earlier, place, at, known=True)
    return Told(told("{} fence between their threads: {}", what, step).parts, step.remedy)


def early_use(
    operations: Operations,
    name: str,
    earlier: OperationPart,
    warp: tuple[int, int],
    at: Span | None,
    did: str,
    *,
    stored: Span | None = None,
) -> SimulationError:
    """A warp, given by its row and number, uses registers that an operation may not have filled, or read. stored: where
    it then stores, without a wait in between.
    """
    then, who = f"\nstored at {stored}" if stored else "", operations.wave.warp_at(*warp)
    return broken(
        *("early use", name, earlier.operation.name, did),
        at=at,
        who=who,
        given=f"{at}: {who}\n{STATE[did]} at {earlier.at}{then}",
        hint=missing_step(operations, earlier, warp, at),
        buffer=name,
    )


def early_access(
    operations: Operations, site: Site, earlier: OperationPart, place: tuple[int, int], warp: int, doing: str
) -> SimulationError:
    """A thread, of the warp and the knower at ``place`` (row and number), touches memory that an operation may still be
    reading, or writing.
    """
    verb = "overwrites" if site.write else "reads"
    memory = f"{site.place.space} memory" if site.place is not None else "shared memory"
    who = operations.wave.warp_at(place[0], warp)
    return broken(
        *("early access", operation(site.op), verb, memory, operation(earlier.operation.name), doing),
        at=site.at,
        who=who,
        given=f"{site.at}: {who}\n{PAST[doing]} at {earlier.at}: {earlier.who(place[0])}",
        instead=("a store" if site.write else "a load", KIND[doing]),
        hint=missing_step(operations, earlier, place, site.at, fences=False, reads=doing == "reading"),
        buffer=site.line.buffer or None,
    )


INIT = Fence("release", "cluster", "mbarrier.init")


def uninitialised(
    wave: Wave, use: tuple[str, str], who: tuple[int, int], where: tuple[int, int], at: Span | None
) -> SimulationError:
    """A use of an m-barrier that may come before mbarrier.init.

    use: its noun, and the words before the m-barrier: ``("wait", "a wait at")``. who: row and thread. where: row and
    offset of the m-barrier.
    """
    (noun, doing), (home, offset) = use, where
    name, one = shared_text(wave, offset), wave.thread_at(wave.first + who[0], who[1])
    article, buffer = "an" if noun[0] in "aeiou" else "a", wave.run.places.shared_at(offset).name
    made = [line for line, _ in wave.run.program.text.inits(buffer)][-1:]
    lines = (*made, *at_line(at))
    hint = advised(
        told("{} by all warps between mbarrier.init and the {}", barrier("cta"), noun),
        *("barrier", "cta", lines, barrier("cta")),
    )
    given = str(one)
    if home != who[0]:
        given = f"{one}, at that of CTA {wave.cta_name(home)}"
        hint = advised(
            told("{} and {} after mbarrier.init, before the {}", fence_call(INIT), barrier("cluster"), noun),
            *("barrier", "cluster", lines, barrier("cluster")),
            ways=[(*between(fence_call(INIT), *lines), *between(barrier("cluster"), *lines))] if lines else (),
        )
    rule, instead = "uninitialised" if home == who[0] else "uninitialised far", (f"{article} {noun}",)
    return broken(rule, doing, name, at=at, who=one, given=given, instead=instead, hint=hint, buffer=buffer)


def ended_early(
    wave: Wave, who: tuple[int, int], where: tuple[int, int], wait: PastSignal, at: Span | None
) -> SimulationError:
    """mbarrier.inval of an m-barrier, ``where`` is its row and offset, at which a thread may still wait."""
    waiter = wave.thread_name(where[0], 32 * wait.warp + int(wait.lanes.argmax()))
    first, last = (wait.at.line if wait.at else 0), (at.line if at else 0)
    step = told("{} between {} and line {}", barrier("cta"), f"line {first}" if first else "the wait", last)
    return broken(
        *("ended early", shared_text(wave, where[1])),
        at=at,
        who=wave.thread_at(wave.first + who[0], who[1]),
        given=f"{at}: {wave.thread_name(*who)}\nwaits at {wait.at}: {waiter}",
        hint=advised(step, "barrier", "cta", (first, last), barrier("cta")),
        buffer=wave.run.places.shared_at(where[1]).name,
    )


def early_arrival(wave: Wave, who: Threads, offset: int, at: Span | None, given: str | None) -> SimulationError:
    """An arrival for the next phase, though no thread has found the last one over."""
    text = "a wait for the last phase before it; or mbarrier.init with the count of all that arrive"
    bar, lines = pointer_to(wave, offset), at_line(at)
    waits = [call("ptx.mbarrier.try_wait", bar, parity) for parity in (0, 1) if bar is not None]
    name = wave.run.places.shared_at(offset).name
    more = [(operand(line, "count", count + 1),) for line, count in wave.run.program.text.inits(name) if count]
    ways = [*(between(wait, *lines) for wait in waits if lines), *more, *((move(*lines),) for _ in lines)]
    hint = advised(text, "wait", "cta", lines, ways=ways)
    return broken("early arrival", shared_text(wave, offset), at=at, who=who, given=given, hint=hint, buffer=name)


def ends_between_signals(wave: Wave, operation: Operation, issuer: int, offset: int) -> SimulationError:
    """A phase ends before all that one statement issues has come."""
    name = shared_text(wave, offset)
    return operation.error(
        "races",
        f"the phase of {name} may end before {operation.name} of some of its threads is complete",
        issuer,
        given=f"{operation.who(issuer)}, which comes for the next phase",
        allowed="a phase that waits for all arrivals and bytes of the operations that begin together",
        hint="mbarrier.init with the count of all that arrive, and as many bytes announced as come",
        buffer=wave.run.places.shared_at(offset).name,
    )


def wrong_time(rule: str, wave: Wave, who: tuple[int, int], where: tuple[int, int], at: Span | None) -> SimulationError:
    """A thread touches the shared memory of a CTA, which has perhaps ended, or not begun. who: row and thread. where:
    the row of that CTA, and the byte.
    """
    one, buffer, hint = wave.thread_at(wave.first + who[0], who[1]), wave.run.places.shared_at(where[1]).name, None
    if rule == "cta not begun":
        step = told("{} by all threads before it", barrier("cluster"))
        hint = advised(step, "barrier", "cluster", at_line(at), barrier("cluster"))
    given = f"{one}: {buffer} of CTA {wave.cta_name(where[0])}"
    return broken(rule, at=at, who=one, given=given, hint=hint, buffer=buffer)


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
    return operation.error(
        "races",
        f"the CTA may end while {operation.name} is under way",
        issuer,
        given=f"issued by {operation.who(issuer)}\nmemory of CTA {operation.team.wave.cta_name(home)}",
        allowed="an end after a thread of the CTA has waited for the operation, or met one that has",
        hint=hint,
    )
