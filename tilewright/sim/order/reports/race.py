"""Race reports: both lines, the place, the threads, and the missing step between them."""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import SimulationError
from tilewright.explain import (
    Facts,
    OtherAccess,
    Threads,
    advised,
    at_once,
    between,
    either,
    insert,
    joined,
    keyword,
    move,
)
from tilewright.ir import Binary, Body, Cast, For, If, Stmt, Store, While, bodies, const_value, statements
from tilewright.isa import INSTRUCTIONS, Fence, bind
from tilewright.isa.effects import SCOPES
from tilewright.sim.codegen.axes import CTA, LANE, WARP, Axes
from tilewright.sim.codegen.loops import polls
from tilewright.sim.codegen.values import calls_of
from tilewright.sim.machine.batch import numbers, threads_of
from tilewright.sim.machine.places import buffer_name, coordinate_text
from tilewright.sim.order.races.clash import CHECKED, DEPENDENT, LOOSE, NUMBERED
from tilewright.sim.order.races.records import EQUAL, ROUNDED, Record
from tilewright.sim.order.reports.handover import Witness, arrivals_behind, handover_advice, misplaced, name_of
from tilewright.sim.order.reports.mbarrier_phases import let_pass, too_early
from tilewright.sim.order.reports.words import grid_thread_text, not_yet_written
from tilewright.terms import Operand, Term, Told, atomic, barrier, call, only_if, operation, strong, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tilewright.errors import Span
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.engine import WaveOrder
    from tilewright.sim.order.knowledge.locations import Locations
    from tilewright.sim.order.races.clash import Clash
    from tilewright.sim.order.races.places import TaggedPlaces

# How the two accesses of a race belong together: do both threads change one place, guard it, or mean two arrays?


UPDATES = {"+": "add", "-": "sub", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}


def is_update(clash: Clash) -> bool:
    """Do both threads read the place and write it? Then each loses what the other has made of it, in whatever order."""
    other, access = clash.other, clash.access
    if other is None or clash.at_once or clash.site.write == clash.with_writer:
        return False
    address, width = access.address(clash.lane), clash.site.width
    own, theirs = clash.later, clash.earlier
    if clash.site.write:
        now = Record(access.time, access.site, access.batch, access.mask, access.at)
        return other.touched(*own, address, width) and now.touched(*theirs, address, width)
    reads = (one for one in access.places.log.newest_first() if one.site is clash.site and one.time < other.time)
    return clash.site.at == other.site.at and any(one.touched(*theirs, address, width) for one in reads)


def in_one_turn(clash: Clash) -> bool:
    """Is it certain that the earlier access, a read, is of the turn in which its own thread has come to the write?"""
    other = clash.other
    if other is None or clash.with_writer:
        return False
    log = clash.access.places.log.newest_first()
    last = next((one for one in log if one.site is other.site and one.of_thread(*clash.later)), None)
    return last is other


def guards(program: Subject, clash: Clash) -> bool:
    """Does a thread read a place plainly, and then, with no barrier on the way, change it by the atomic of the race?

    ``if (d[0] < x) atomicMax(&d[0], x)``: a barrier between the two would not be reached by all.
    """
    other = clash.other
    if other is None:
        return False
    (read, _, _), (change, thread, time) = sorted(
        ((clash.site, clash.later, clash.access.time), (other.site, clash.earlier, other.time)),
        key=lambda one: one[0].atomic,
    )
    if read.sem != "weak" or read.write or not change.atomic or not change.write or not (read.at and change.at):
        return False
    first, last = read.at.outermost.line, change.at.outermost.line
    if first > last or any(first < line < last for line in _barriers(program)):
        return False
    log = clash.access.places.log.newest_first()
    return (thread == clash.later and clash.site is read) or any(
        one.site is read and one.time <= time and one.of_thread(*thread) for one in log
    )


def _barriers(program: Subject) -> Iterator[int]:
    """The lines of barriers of whole CTAs, or more."""
    for stmt in statements(program.kernel.body):
        wide = (bound.form.sync for bound in map(bind, calls_of(stmt)))
        if stmt.at and any(sync is not None and sync.scope not in ("warp", "poll") for sync in wide):
            yield stmt.at.outermost.line


def overlap(program: Subject, clash: Clash) -> str | None:
    """What to change where two arrays lie over each other, and one is written while the other one is in use; None where
    there is one array, or where what was there has been read, so that the second may take over its place.
    """
    other, place = clash.other, clash.site.place
    if other is None or not clash.with_writer or clash.access.places.is_global or place is None:
        return None
    address, width = clash.access.shown_address(clash.lane), clash.site.width
    one, two = (program.arrays_at(address, at) for at in (other.site.at, clash.site.at))
    log = clash.access.places.log.newest_first()
    low, end = address, address + width
    seen = (each for each in log if not each.site.write and each.time > other.time)
    if not one or not two or one & two or any(each.span[0] < end and each.span[1] > low for each in seen):
        return None
    first, then = sorted(one)[0], sorted(two)[0]
    return f"another place for {then} than for {first}: both hold byte {address} of shared memory, and both are in use"


def atomic_for(program: Subject, name: str, write: Stmt | None) -> Told | None:
    """The atomic that changes an element of a buffer as a store does, in words; None where its type has none.

    write: the store, None where compiled code has no such statement.
    """
    value = write.value if isinstance(write, Store) else None
    while isinstance(value, Cast):
        value = value.a
    op = UPDATES.get(value.op, "") if isinstance(value, Binary) else "" if isinstance(write, Store) else "add"
    row, buffer = INSTRUCTIONS.get(f"cuda.atomic_{op}"), program.authored.get(name)
    kinds = {mods["dtype"] for form in row.forms for mods in form.all_mods()} if row else set()
    if row is None or not (buffer is None or str(buffer.dtype) in kinds):
        return None
    return told("{}{}", "" if write else "an atomic such as ", atomic(op, name))


# What orders two racing accesses: the missing step of a handover, or a barrier where one can stand and helps.
#
# A barrier can stand where all threads that it waits for come by: under no condition in which they differ, and not
# between taking and releasing a lock. It helps where it lies on the way from one access to the other.


BARRIERS = {"warp": LANE, "cta": LANE | WARP, "cluster": LANE | WARP | CTA}
"""By scope: the axes over which the threads that meet there differ."""
ROWS = {"warp": "cuda.warp_sync", "cta": "cuda.cta_sync", "cluster": "cuda.cluster_sync"}
SECOND = "or another array to write to"
_IF = re.compile(r"\s*(?:\}\s*)?(?:else\s+)?if\b")
_ENDS = re.compile(r"[;{}:]\s*(?://.*)?$")  # a statement, or its head


@dataclass(frozen=True, slots=True)
class StepDown:
    """A statement on the way down to an access, and the body that it stands in."""

    body: Body
    stmt: Stmt

    @property
    def index(self) -> int:
        return next(k for k, stmt in enumerate(self.body) if stmt is self.stmt)


def advice(program: Subject, scope: str, first: Span | None, then: Span | None, *, one_turn: bool) -> str | None:
    """What to change so that the access at line ``first`` comes before that at ``then``; None where that is not known.

    scope: a key of `BARRIERS`, of the narrowest that all racing threads meet at. one_turn: is it certain that both
    accesses are of one turn of the loops around them?
    """
    if first is None or then is None:
        return _barrier(told("{}", barrier(scope)), scope)
    body = program.written
    before, after = _way(body, first), _way(body, then)
    if not before or not after:
        return _by_lines(scope, first, then, one_turn=one_turn)
    return _waited_for(before, after) or _between(Axes(program.kernel), scope, before, after, one_turn=one_turn)


def _barrier(text: Told, scope: str, *where: int) -> Told:
    return advised(text, "barrier", scope, where, barrier(scope))


def _in_between(scope: str, first: object, then: object, *where: int) -> Told:
    return _barrier(told("{} between {} and {}", barrier(scope), first, then), scope, *where)


def _by_lines(scope: str, first: Span, then: Span, *, one_turn: bool) -> Told:
    """The same for compiled code, which has lines and no statements."""
    if first.outer and then.outer and first.file == then.file and first.line > then.line and first.outer != then.outer:
        calls = f"the calls in line {first.outer.line} and line {then.outer.line}, or behind line {first.line}"
        return _barrier(told("{} between {}", barrier(scope), calls), scope, first.outer.line, then.outer.line)
    if (condition := _condition_around(first, then)) is not None:
        text = told("what line {} reads into a variable before the `if` of line {}, {} behind that; {}", first.line,
                    condition, barrier(scope), SECOND)  # fmt: skip
        return _barrier(text, scope, condition)
    if first.line != then.line:
        return _in_between(scope, f"line {first.line}", f"line {then.line}", first.line, then.line)
    if first != then:
        return _in_between(scope, first, then, first.line, then.line)
    if one_turn:
        return _taken_apart(scope, then.line)
    turn = f"at the end of each turn of a loop around line {then.line}, outside of its `if`s"
    text = told("{} {}; where no loop is around it, between the two accesses", barrier(scope), turn)
    return _barrier(text, scope, then.line)


def _condition_around(first: Span, then: Span) -> int | None:
    """The line of the `if` whose condition reads at the first place and whose body writes at the other, as the text is
    indented; None where there is none.
    """
    lines = linecache.getlines(first.file)
    if first.file != then.file or not first.line < then.line <= len(lines):
        return None
    start = first.line
    while start > 1 and lines[start - 2].strip() and not _ENDS.search(lines[start - 2]):
        start -= 1
    if not _IF.match(lines[start - 1]):
        return None
    inside = (line for line in lines[first.line : then.line] if line.strip())
    return start if all(_indent(line) > _indent(lines[start - 1]) for line in inside) else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _taken_apart(scope: str, line: int, branch: Stmt | None = None) -> Told:
    """One line that reads and writes, with a barrier in between."""
    outside = f" behind the `if` of line {_line_of(branch)}" if branch is not None else ""
    then = "then the store under that condition" if branch is not None else "then the rest"
    text = told(
        "line {} as two statements: what it reads into a variable, {}{}, {}; {}",
        *(line, barrier(scope), outside, then, SECOND),
    )
    return _barrier(text, scope, line)


def lock_advice(program: Subject, first: Span | None, then: Span | None) -> str | None:
    """The fence that is missing where accesses are made while a lock is held; None where none is."""
    ways = [_way(program.written, at) for at in (first, then) if at is not None]
    return next((lock for way in ways if (lock := _lock(way)) is not None), None)


def handover(program: Subject, first: Span | None, then: Span | None, scope: str) -> str | None:
    """The missing step of threads that synchronise through memory; None where they do not, or where they use a lock."""
    before, after = (_way(program.written, at) if at is not None else () for at in (first, then))
    if not before or not after or _lock(before) or _lock(after):
        return None
    return handover_advice(Axes(program.kernel), before, after, scope)


def _way(body: Body, at: Span) -> tuple[StepDown, ...]:
    """From the kernel's body down to the last statement of a line's place; empty where there is none.

    Statements that prepare a tile call come before the access itself.
    """
    for stmt in reversed(body):
        if stmt.at == at:
            return (StepDown(body, stmt),)
        for inner in bodies(stmt):
            if way := _way(inner, at):
                return (StepDown(body, stmt), *way)
    return ()


def arrivals_after(program: Subject, at: Span | None) -> Iterator[tuple[str, int]]:
    """The m-barriers that are arrived at behind a line, and where; none in compiled code."""
    return arrivals_behind(_way(program.written, at) if at is not None else ())


def inits(program: Subject, name: str) -> Iterator[tuple[int, int]]:
    """Where an m-barrier of a buffer is made for how many arrivals, 0 where its text does not say it; none in compiled
    code.
    """
    for stmt in statements(program.written):
        for bound in map(bind, calls_of(stmt)):
            signal = bound.form.signal_of("init")
            if signal is not None and stmt.at and name_of(bound, signal.barrier) == name:
                yield stmt.at.line, int(const_value(bound.operands["count"][0]) or 0)


def displaced(program: Subject, first: Span | None, then: Span | None) -> Told | None:
    """What to move where threads tell each other of something, too early or too late; None where they do not."""
    before, after = (_way(program.written, at) if at is not None else () for at in (first, then))
    return misplaced(Axes(program.kernel), before, after) if before and after else None


def statement_at(program: Subject, at: Span | None) -> Stmt | None:
    """The last statement of a line's place; None in compiled code."""
    way = _way(program.written, at) if at is not None else ()
    return way[-1].stmt if way else None


def kept_apart(program: Subject, at: Span | None, among: int) -> Span | None:
    """The innermost branch or loop around a line at which threads diverge, over the axes in ``among``."""
    way = _way(program.written, at) if at is not None else ()
    axes = Axes(program.kernel)
    return next((step.stmt.at for step in reversed(way[:-1]) if _parting(axes, step.stmt) & among), None)


# A barrier between the two


def _between(
    axes: Axes, scope: str, before: tuple[StepDown, ...], after: tuple[StepDown, ...], *, one_turn: bool
) -> str | None:
    depth = _common(before, after)
    around = [step.stmt for step in before[:depth]]
    parting = [stmt for stmt in around if _parting(axes, stmt) & BARRIERS[scope]]
    first, then = before[depth], after[depth]
    if first.body is then.body and first.index < then.index:
        found = _in_order(scope, around, parting, _last_line(first.stmt), _line_of(then.stmt))
        return None if _stands(scope, first.body[first.index + 1 : then.index]) else found
    turns = _each_turn(axes, scope, before, after)
    if first.stmt is not then.stmt or bodies(first.stmt) or not (one_turn or turns is None):
        return turns
    branches = [stmt for stmt in parting if isinstance(stmt, If)]
    if len(branches) < len(parting):
        return f"another array to write to than line {_line_of(first.stmt)} reads"
    apart = _taken_apart(scope, _line_of(first.stmt), branches[0] if branches else None)
    return _barrier(told("{}; and {}", apart, turns), scope, _line_of(first.stmt)) if turns else apart


def _each_turn(axes: Axes, scope: str, before: tuple[StepDown, ...], after: tuple[StepDown, ...]) -> Told | None:
    """A barrier between two turns of the innermost loop around both accesses; None where one stands, or none can."""
    depth, among = _common(before, after), BARRIERS[scope]
    loop = next((k for k in reversed(range(depth)) if isinstance(before[k].stmt, (For, While))), None)
    if loop is None or any(_parting(axes, step.stmt) & among for step in before[: loop + 1]):
        return None
    behind = ""
    for k, step in enumerate(before[loop + 1 : depth + 1], loop + 1):
        until = after[depth].index if k == depth else step.index
        if _stands(scope, (*step.body[:until], *step.body[step.index + 1 :])):
            return None
        if k < depth and _parting(axes, step.stmt) & among:
            behind = f", behind the `if` of line {_line_of(step.stmt)}"
            break
    start, end = _line_of(before[loop].stmt), _last_line(before[loop].stmt)
    text = told("{} at the end of each turn of the loop at line {}{}", barrier(scope), start, behind)
    return _barrier(text, scope, end, start)


def _stands(scope: str, stmts: Sequence[Stmt]) -> bool:
    """Is there a barrier among statements that is as wide?"""
    wide = list(ROWS.values())[list(ROWS).index(scope) :]
    return any(call.op in wide and not call.args for stmt in stmts for call in calls_of(stmt))


def _in_order(scope: str, around: list[Stmt], parting: list[Stmt], start: int, end: int) -> Told | None:
    """Between two lines of one body, or, where threads diverge there, with their `if` cut in two."""
    if not parting:
        return _in_between(scope, f"line {start}", f"line {end}", start, end)
    if len(parting) == 1 and parting[0] is around[-1] and isinstance(parting[0], If):
        twice = f"the `if` of line {_line_of(parting[0])} twice"
        text = told("{}, up to line {} and from line {}, {} between them", twice, start, end, barrier(scope))
        return _barrier(text, scope, start, end)
    return None


def _common(before: tuple[StepDown, ...], after: tuple[StepDown, ...]) -> int:
    """How many steps both ways have in common, before they reach different statements of one body, or the access."""
    depth = 0
    most = min(len(before), len(after)) - 1
    while depth < most and before[depth].stmt is after[depth].stmt and before[depth + 1].body is after[depth + 1].body:
        depth += 1
    return depth


def _parting(axes: Axes, stmt: Stmt) -> int:
    if isinstance(stmt, If):
        return axes.of(stmt.cond)
    return axes.divergence(stmt) if isinstance(stmt, (For, While)) else 0


def _line_of(stmt: Stmt) -> int:
    return stmt.at.line if stmt.at else 0


def _last_line(stmt: Stmt) -> int:
    return max([_line_of(stmt), *(_line_of(inner) for body in bodies(stmt) for inner in statements(body))])


# Other means than a barrier


def _waited_for(before: tuple[StepDown, ...], after: tuple[StepDown, ...]) -> str | None:
    """A wait for an m-barrier, where it is signalled between the first access and the other."""
    for step in reversed(before):
        until = next((other.index for other in after if other.body is step.body), len(step.body))
        for stmt in step.body[step.index + 1 : until]:
            for bound in map(bind, calls_of(stmt)):
                if (signal := bound.form.signal_of("arrive")) is not None:
                    last, pointer = _line_of(after[-1].stmt), Operand(str(bound.operands[signal.barrier][0]))
                    phase = f"the phase of the m-barrier that line {_line_of(stmt)} arrives at"
                    text = told("a wait for {}, before line {}", phase, last)
                    waits = [told("{}", call("ptx.mbarrier.try_wait", pointer, parity)) for parity in (0, 1)]
                    ways = [between(wait, _line_of(step.stmt), last) for wait in waits]
                    return advised(text, "wait", "cta", (_line_of(stmt), last), ways=ways)
    return None


def _lock(way: tuple[StepDown, ...]) -> str | None:
    """A fence, where an access is between a loop that takes a lock by an atomic and the statement that releases it."""
    for step in reversed(way):
        takes = [
            stmt
            for stmt in step.body[: step.index]
            if isinstance(stmt, While) and polls(stmt, compiled=False) and _atomic(stmt)
        ]
        gives = [stmt for stmt in step.body[step.index + 1 :] if _atomic(stmt)]
        if takes and gives:
            return _fences(step, takes[-1], gives[0])
    return None


def _fences(step: StepDown, take: Stmt, give: Stmt) -> str | None:
    """The fences that are missing between a lock's loop, an access, and the release of the lock."""
    first, last = (next(k for k, stmt in enumerate(step.body) if stmt is one) for one in (take, give))
    ends = (f"after the loop at line {_line_of(take)}", _line_of(step.stmt), step.body[first + 1 : step.index])
    others = (f"before line {_line_of(give)}", _line_of(give), step.body[step.index + 1 : last])
    lacks = [(where, line) for where, line, stmts in (ends, others) if not any(_is_fence(stmt) for stmt in stmts)]
    if not lacks:
        return None
    places = ", and again ".join(where for where, _ in lacks)
    text = told("{} {}: no barrier can stand where a lock is held", call("cuda.thread_fence"), places)
    ways = [tuple(insert(told("{}", call("cuda.thread_fence")), line) for _, line in lacks)]
    return advised(text, "fence", "gpu", (lacks[0][1],), call("cuda.thread_fence"), ways)


def _is_fence(stmt: Stmt) -> bool:
    return any(isinstance(bound.fence, Fence) for bound in map(bind, calls_of(stmt)))


def _atomic(stmt: Stmt) -> bool:
    """Does a statement hold an atomic whose spelling has no order?"""
    inner = [bind(call) for part in statements((stmt,)) for call in calls_of(part)]
    return any(access.rmw for bound in inner if "sem" not in bound.mods for access in bound.form.accesses)


VOLATILE = "fences between the data and the flag on both sides: volatile orders no other access"
IN_STEP = "; the lanes of a warp are not in step since sm_70"


def report(
    program: Subject,
    clash: Clash,
    orders: Mapping[Wave, WaveOrder],
    buffers: Mapping[int, TaggedPlaces],
    locations: Locations,
) -> SimulationError:
    """The error for a race. orders, buffers, locations: what the check remembers of the run."""
    site, witness = clash.site, Witness(orders, buffers, locations)
    verb = "writes" if site.write else "reads"
    other = clash.other.site if clash.other is not None else None
    did = "written" if clash.with_writer else "read"
    where = told(" at {}", other.at) if other is not None and other.at else told("")
    if other is not None and other.over:
        where = told("{} by {}, waited for at {}", where, operation(other.op), other.over)
    facts = _facts(program, clash)
    place = facts["place"]
    run = clash.batch.wave.run
    if other is not None and run.unwritten == "sought" and _is_unwritten(clash):
        reader, writer = (operation(other.op), other.at, _other(clash)), (_whose(clash), site.at, _later(clash))
        step, hint = barrier(_barrier_of(clash)), _ordered(program, clash, site.at, other.at)
        return not_yet_written(run, reader, writer, place, step, hint, buffer=facts["buffer"])
    return SimulationError(
        told("race: {} {} {}, which {} has {}", operation(site.op), verb, place, _whose(clash), did),
        given=told("{}: {}\n{}{}: {}", site.at, _later(clash), did, where, _other(clash)),
        allowed=VOLATILE if clash.relaxed else f"accesses that a barrier orders{IN_STEP * clash.is_inside_warp()}",
        hint=_missing(program, clash, other, witness),
        at=site.at,
        kind="races",
        **facts,
    )


def _facts(program: Subject, clash: Clash) -> Facts:
    """The fields of a finding: the later access, and the earlier one."""
    site, address = clash.site, clash.access.shown_address(clash.lane)
    return {
        "buffer": buffer_name(program, site, address),
        "place": coordinate_text(program, site, address),
        "threads": _threads(clash),
        "other": _other_access(clash, "written" if clash.with_writer else "read"),
    }


def warned(program: Subject, clash: Clash) -> Facts:
    """The fields of the warning's finding."""
    at = clash.site.at
    place = {"file": at.file if at else None, "line": at.line if at else None}
    idiom = "ended-mbarrier" if clash.ends and clash.excuse != LOOSE else BENIGN[clash.excuse]
    return {**place, "idiom": idiom, **_facts(program, clash)}


def _threads(clash: Clash) -> tuple[Threads, ...]:
    """The threads of the later access, the reported one first where not all are known."""
    if clash.lanes is None:
        return (clash.batch.wave.thread_at(*clash.later),)
    return threads_of(clash.access.look, clash.lanes)


def _other_access(clash: Clash, did: str) -> OtherAccess:
    """The earlier access as a finding has it."""
    at = clash.other.site.at if clash.other is not None else None
    op, threads = clash.other.site.op if clash.other is not None else "", (clash.batch.wave.thread_at(*clash.earlier),)
    return OtherAccess(op, did, at.file if at else None, at.line if at else None, threads)


def _is_unwritten(clash: Clash) -> bool:
    """Is the later access the first write of its bytes of shared memory?"""
    access, shadows = clash.access, clash.batch.wave.shadows
    if clash.with_writer or not access.places.is_shared:
        return False
    home, offset = divmod(access.address(clash.lane), access.places.pitch)
    row = home if access.places.is_global else numbers(clash.batch.ctas)[clash.lane[0]]
    flags = shadows.shared.view(1)[0 if shadows.is_collapsed else row]
    return not flags[offset : offset + clash.site.width].all()


APART = "different places for the lanes of this statement, or atomics"
WRITTEN_TWICE = "{place} is written by {other} and by {later}, unordered, {excuse}"
WARNINGS = {  # by the excuse
    EQUAL: WRITTEN_TWICE,
    ROUNDED: WRITTEN_TWICE,
    LOOSE: "{place} is written by {later}, and was read by {other}, which tells of that at an m-barrier by a scope "
    "that does not hold both; scope='cluster' belongs to the arrival and to the wait",
    NUMBERED: "a CTA {verb} {buffer} once it has taken a number at a counter, and others wrote there before a fence, "
    "with their own number behind it; a fence belongs behind that atomic, too, of kind sc: __threadfence()",
    DEPENDENT: "{place} is written by {later}, and was read by {other}: no barrier orders the two, but what is written "
    "depends by shuffles on what was read",
    CHECKED: "{place} is read plainly and changed by a compare-and-swap, unordered, by {later} and {other}; "
    "a relaxed or volatile read makes that right",
}
BENIGN = {
    EQUAL: "equal-values", ROUNDED: "equal-values", LOOSE: "narrow-scope", NUMBERED: "last-block",
    DEPENDENT: "shuffled", CHECKED: "checked-read",
}  # fmt: skip
"""By the excuse: the name of the idiom, see `tilewright.explain.IDIOMS`."""
ENDS = (
    "an m-barrier, {place}, is ended by {later}, and {other} has used it, unordered; nobody may use it any more by then"
)


def warning(program: Subject, clash: Clash) -> str:
    """The warning in place of an error."""
    site, other = clash.site, clash.other
    text = ENDS if clash.ends and clash.excuse != LOOSE else WARNINGS[clash.excuse]
    cta, thread = (mine != its for mine, its in zip(clash.earlier, clash.later, strict=True))
    said = text.format(
        place=coordinate_text(program, site, clash.access.shown_address(clash.lane)),
        later=_later(clash),
        other=_other(clash),
        buffer=site.line.buffer,
        verb="writes" if site.write else "reads",
        excuse=clash.excuse,
    )
    twice = text is WRITTEN_TWICE and other is not None and other.site.at == site.at
    return told("{}: {}{}", site.at, said, Term("one is enough", (only_if(cta=cta, thread=thread),)) if twice else "")


def _later(clash: Clash) -> str:
    return grid_thread_text(clash.batch.wave, *clash.later)


def _other(clash: Clash) -> str:
    who = grid_thread_text(clash.batch.wave, *clash.earlier)
    together = clash.other is not None and clash.other.site.collective
    return who.rpartition(",")[0] if together else who


def _whose(clash: Clash) -> str:
    if clash.is_inside_warp() and clash.other is not None and clash.other.site.collective:
        return "its warp"
    same = clash.earlier == clash.later
    return "the same thread" if same else "another thread"


def _barrier_of(clash: Clash) -> str:
    """The scope of the narrowest barrier that both threads meet at; beyond a cluster there is none."""
    return tuple(BARRIERS)[min(clash.apart, 2)]


def _ordered(program: Subject, clash: Clash, first: Span | None, then: Span | None) -> str | None:
    """The handover or the barrier that puts the access at line ``first`` before the other."""
    found = handover(program, first, then, _scope(clash))
    return found or advice(program, _barrier_of(clash), first, then, one_turn=in_one_turn(clash))


def _scope(clash: Clash) -> str:
    return ("cta", "cta", "cluster", "gpu", "sys")[clash.apart]


def _missing(program: Subject, clash: Clash, other: Site | None, witness: Witness) -> str | None:
    first, then, scope = (other.over or other.at) if other else None, clash.site.at, _scope(clash)
    far = scope in ("gpu", "sys")
    stronger = _strength(clash.site, other, scope) if other else None
    counts = other is not None and _counts(clash.site, other)
    hint = (
        _paired_up(clash, witness)
        or overlap(program, clash)
        or (stronger if far or not counts or guards(program, clash) else None)
    )
    hint = hint or ((handover(program, first, then, scope) or too_early(clash)) if other else None)
    compiled = program.kernel.compiled
    hint = hint or (witness.missing_step(clash, scope) if compiled else None)
    hint = hint or let_pass(clash, arrivals_after(program, then)) or lock_advice(program, first, then)
    hint = hint or (witness.missing_step(clash, scope) if far and not compiled else None)
    if hint:
        return hint
    if is_update(clash):
        return _update(program, clash)
    moved = displaced(program, first, then)
    if far and moved is not None:
        return moved
    if far:
        kind = "any" if clash.at_once or clash.with_writer is clash.site.write else "between"
        return told("{}", Term("no barrier", (kind,)))
    if clash.at_once:
        return APART
    hint = _ordered(program, clash, first, then) or stronger
    return either(hint, *moved.remedy.ways) if hint and moved is not None and moved.remedy is not None else hint


def _paired_up(clash: Clash, witness: Witness) -> str | None:
    """The cause, where the two warps have met last at the barriers of two lines."""
    wave, warps = clash.batch.wave, (clash.earlier[1] // 32, clash.later[1] // 32)
    if clash.apart != 1:
        return None
    lines = witness.orders[wave].barriers.paired_up(clash.later[0] - wave.first, warps)
    if lines is None:
        return None
    text = (f"one barrier for both warps, as often by each: those of line {lines[0]} and line {lines[1]} pair up by "
            f"accident, as warp {warps[0]} comes to the one and warp {warps[1]} to the other")  # fmt: skip
    ways = [(insert(told("{}", barrier("cta")), line),) for line in lines] + [(move(line),) for line in lines]
    return advised(text, "barrier", "cta", lines, barrier("cta"), ways)


def _counts(one: Site, other: Site) -> bool:
    """Do atomics count in a place that the other access makes or reads plainly, so that a barrier belongs between?"""
    weak, strong = sorted((one, other), key=lambda site: site.sem != "weak")
    counts = strong.atomic or strong.by_unit
    return weak.sem == "weak" and counts and not (weak.polls or strong.polls or strong.compared)


def _update(program: Subject, clash: Clash) -> str:
    """What to change where several threads change one place."""
    sites = [clash.site, *([clash.other.site] if clash.other else [])]
    at = next(site.at for site in sites if site.write)
    address, place = clash.access.shown_address(clash.lane), clash.site.place
    assert place is not None
    name = (program.places.shared_at(address) if place is program.places.arena else place).name
    atomic = atomic_for(program, name, statement_at(program, at))
    if not atomic:
        return "a place of its own for each thread, and one that combines them: no barrier ties a read to its write"
    lines = sorted({site.at.line for site in sites if site.at})
    where = f"line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}"
    text = told(
        "{} in place of {}: it reads and writes at once; a barrier would not keep two threads apart", atomic, where
    )
    return advised(text, "atomic", "gpu", tuple(lines), atomic, [(at_once(line),) for line in lines])


def _strength(one: Site, other: Site, scope: str) -> str | None:
    """The missing strength of two accesses of which at least one is strong; None where neither is, or one is plain and
    the other of a unit, whose proxy no strength leaves.
    """
    weak = [site for site in (one, other) if site.sem == "weak"]
    if len(weak) == 2 or (weak and (one.by_unit or other.by_unit)):
        return None
    if one.by_unit != other.by_unit:
        return "atomics of threads alone at one place, or reductions of units alone"
    if weak:
        op = {"store": "st", "load": "ld"}.get(weak[0].op)
        return op and told("{} at {}", strong(op, "relaxed", scope), _line(weak[0]))
    if one.element != other.element:
        return "accesses of one size"
    narrow = [site for site in (other, one) if site.scope in SCOPES[: SCOPES.index(scope)]]
    lines = dict.fromkeys(site.at.line if site.at else 0 for site in narrow)
    return joined(_scoped(scope, line) for line in lines) or None


def _scoped(scope: str, line: int) -> Told:
    """A wider scope of an access."""
    where = f"line {line}" if line else "that access"
    ways = [(keyword(line, "scope", scope),)] * bool(line)
    return advised(f"scope={scope!r} at {where}", "order", scope, (line,) * bool(line), ways=ways)


def _line(site: Site) -> str:
    return f"line {site.at.line}" if site.at else "that access"
