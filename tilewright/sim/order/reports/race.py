"""Race reports: both lines, the place, the threads, and the missing step between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import SimulationError
from tilewright.explain import (
    Facts,
    OtherAccess,
    Threads,
    advised,
    at_once,
    either,
    insert,
    joined,
    keyword,
    move,
    place_of,
)  # fmt: skip
from tilewright.explain.steps import BARRIERS, SourceText
from tilewright.ir import Binary, Cast, Stmt, Store
from tilewright.isa import INSTRUCTIONS
from tilewright.isa.calls import calls_in
from tilewright.isa.forms import SCOPES
from tilewright.sim.machine import Site, Subject, Wave, buffer_name, coordinate_text, numbers, threads_of
from tilewright.sim.order.races.records import CHECKED, DEPENDENT, EQUAL, LOOSE, NUMBERED, ROUNDED
from tilewright.sim.order.reports.handover import Witness, let_pass, too_early
from tilewright.sim.order.reports.words import grid_thread_text, not_yet_written
from tilewright.terms import Term, Told, atomic, barrier, only_if, operation, strong, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.errors import Span
    from tilewright.sim.order.engine import WaveOrder
    from tilewright.sim.order.knowledge.locations import Locations
    from tilewright.sim.order.races.places import TaggedPlaces
    from tilewright.sim.order.races.records import Clash

# How the two accesses of a race belong together: do both threads change one place, guard it, or mean two arrays?


UPDATES = {"+": "add", "-": "sub", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}


def is_update(clash: Clash) -> bool:
    """Do both threads read the place and write it? Then each loses what the other has made of it, in whatever order."""
    other, access = clash.other, clash.access
    if other is None or clash.at_once or clash.site.write == clash.with_writer:
        return False
    own, theirs, place = clash.later, clash.earlier, (access.address(clash.lane), clash.site.width)
    if clash.site.write:
        return other.touched(*own, *place) and access.record.touched(*theirs, *place)
    reads = [record for record in access.places.log.newest_first() if record.site is clash.site]
    # A thread that reads other places there, too, uses what others have made: it does not change this one.
    is_only = all(record.touched(*own, *place) for record in reads if record.of_thread(*own))
    have_read = any(record.touched(*theirs, *place) for record in reads if record.time < other.time)
    return clash.site.at == other.site.at and is_only and have_read


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
        key=lambda one: one[0].how.atomic,
    )
    if read.how.sem != "weak" or read.write or not change.how.atomic or not change.write or not (read.at and change.at):
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
    for stmt, bound in calls_in(program.kernel.body):
        sync = bound.form.sync
        if stmt.at and sync is not None and sync.scope not in ("warp", "poll"):
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
    row, buffer = INSTRUCTIONS.get(f"cuda.atomic_{op}"), program.authored.get(name) if write else None
    kinds = {mods["dtype"] for form in row.forms for mods in form.all_mods()} if row else set()
    if row is None or not (buffer is None or str(buffer.dtype) in kinds):
        return None
    return told("{}{}", "" if write else "an atomic such as ", atomic(op, name))


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
    run = clash.team.wave.run
    if other is not None and run.unwritten == "sought" and _is_unwritten(clash):
        reader, writer = (operation(other.op), other.at, _other(clash)), (_whose(clash), site.at, _later(clash))
        step, hint = barrier(_barrier_of(clash)), _ordered(program, clash, site.at, other.at)
        return not_yet_written(run, reader, writer, place, step, hint, buffer=facts["buffer"])
    return SimulationError(
        told("race: {} {} {}, which {} has {}", operation(site.op), verb, place, _whose(clash), did),
        given=told("{}: {}\n{}{}: {}", site.at, _later(clash), did, where, _other(clash)),
        allowed=VOLATILE if clash.relaxed else f"accesses that a barrier orders{IN_STEP * (clash.apart == 0)}",
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
    idiom = "ended-mbarrier" if clash.ends and clash.excuse != LOOSE else BENIGN[clash.excuse]
    return {**place_of(clash.site.at), "idiom": idiom, **_facts(program, clash)}


def _threads(clash: Clash) -> tuple[Threads, ...]:
    """The threads of the later access, the reported one first where not all are known."""
    if clash.lanes is None:
        return (clash.team.wave.thread_at(*clash.later),)
    return threads_of(clash.access.seen, clash.lanes)


def _other_access(clash: Clash, did: str) -> OtherAccess:
    """The earlier access as a finding has it."""
    op, at = (clash.other.site.op, clash.other.site.at) if clash.other is not None else ("", None)
    return OtherAccess(op, did, **place_of(at), threads=(clash.team.wave.thread_at(*clash.earlier),))


def _is_unwritten(clash: Clash) -> bool:
    """Is the later access the first write of its bytes of shared memory?"""
    access, shadows = clash.access, clash.team.wave.shadows
    if clash.with_writer or not access.places.is_shared:
        return False
    home, offset = divmod(access.address(clash.lane), access.places.pitch)
    row = home if access.places.is_global else numbers(clash.team.ctas)[clash.lane[0]]
    flags = shadows.shared.view(1)[shadows.shared.row(row)]
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
    return grid_thread_text(clash.team.wave, *clash.later)


def _other(clash: Clash) -> str:
    who = grid_thread_text(clash.team.wave, *clash.earlier)
    together = clash.other is not None and clash.other.site.how.collective
    return who.rpartition(",")[0] if together else who


def _whose(clash: Clash) -> str:
    if clash.apart == 0 and clash.other is not None and clash.other.site.how.collective:
        return "its warp"
    same = clash.earlier == clash.later
    return "the same thread" if same else "another thread"


def _barrier_of(clash: Clash) -> str:
    """The scope of the narrowest barrier that both threads meet at; beyond a cluster there is none."""
    return tuple(BARRIERS)[min(clash.apart, 2)]


def _ordered(program: Subject, clash: Clash, first: Span | None, then: Span | None) -> str | None:
    """The handover or the barrier that puts the access at line ``first`` before the other."""
    found = program.text.handover(first, then, _scope(clash))
    return found or program.text.advice(_barrier_of(clash), first, then, one_turn=in_one_turn(clash))


def _scope(clash: Clash) -> str:
    return ("cta", "cta", "cluster", "gpu", "sys")[clash.apart]


def _missing(program: Subject, clash: Clash, other: Site | None, witness: Witness) -> str | None:
    first, then, scope = (other.over or other.at) if other else None, clash.site.at, _scope(clash)
    far, text, compiled = scope in ("gpu", "sys"), program.text, program.kernel.compiled
    stronger = _strength(clash.site, other, scope) if other else None
    counts = other is not None and _counts(clash.site, other)
    hint = (
        _paired_up(clash, witness)
        or overlap(program, clash)
        or (witness.missing_step(clash, scope) if compiled and stronger and far else None)
        or (
            stronger
            if (far and not (compiled and _adds(clash, other))) or not counts or guards(program, clash)
            else None
        )
    )
    hint = hint or ((text.handover(first, then, scope) or too_early(clash)) if other else None)
    hint = hint or (witness.missing_step(clash, scope) if compiled else None)
    hint = hint or let_pass(clash, text.arrivals_after(then)) or text.lock_advice(first, then)
    hint = hint or (witness.missing_step(clash, scope) if far and not compiled else None)
    if hint:
        return hint
    if is_update(clash):
        return _update(program, clash)
    moved = text.displaced(first, then)
    if far and moved is not None:
        return moved
    if far:
        kind = "any" if clash.at_once or clash.with_writer is clash.site.write else "between"
        return told("{}", Term("no barrier", (kind,)))
    if clash.at_once:
        return told("{}", only_if(cta=False, thread=True)) if clash.site.op == "ptx.mbarrier.init" else APART
    hint = _with_places(program, clash, _ordered(program, clash, first, then) or stronger)
    return either(hint, *moved.remedy.ways) if hint and moved is not None and moved.remedy is not None else hint


def _with_places(program: Subject, clash: Clash, hint: str | None) -> str | None:
    """The hint, and another place for one of two parts of an array, where the text takes them for different ones."""
    first, then = clash.other.site.at if clash.other is not None else None, clash.site.at
    if not hint or first is None or then is None or not program.kernel.compiled or clash.access.places.is_global:
        return hint
    array = buffer_name(program, clash.site, clash.access.shown_address(clash.lane)) or ""
    text = SourceText.around(first, then)
    parts = [text.parts_of(array, at.line) for at in (first, then)] if text is not None else []
    if [len(names) for names in parts] != [1, 1] or parts[0] == parts[1]:
        return hint
    (earlier,), (later,) = parts
    other = "another place in {} for one of them"
    both = told("{}; or, where {} and {} are not to share it, " + other, hint, earlier, later, array)
    return Told(both.parts, hint.remedy if isinstance(hint, Told) else None)


def _paired_up(clash: Clash, witness: Witness) -> str | None:
    """The cause, where the two warps have met last at the barriers of two lines."""
    wave, warps = clash.team.wave, (clash.earlier[1] // 32, clash.later[1] // 32)
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
    weak, strong = sorted((one, other), key=lambda site: site.how.sem != "weak")
    counts = strong.how.atomic or strong.how.by_unit
    return weak.how.sem == "weak" and counts and not (weak.polls or strong.polls or strong.compared)


def _adds(clash: Clash, other: Site | None) -> bool:
    """Do other threads still add to what is read plainly, which no strength of the read waits for?"""
    pair = sorted((clash.site, other), key=lambda site: site.how.atomic) if other is not None else []
    return bool(pair) and _counts(*pair) and not pair[0].write and not pair[1].shows


def _update(program: Subject, clash: Clash) -> str:
    """What to change where several threads change one place."""
    sites = [clash.site, *([clash.other.site] if clash.other else [])]
    at = next(site.at for site in sites if site.write)
    address, place = clash.access.shown_address(clash.lane), clash.site.place
    assert place is not None
    name = (program.places.shared_at(address) if place is program.places.arena else place).name
    atomic = atomic_for(program, name, program.text.statement_at(at))
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
    weak = [site for site in (one, other) if site.how.sem == "weak"]
    if len(weak) == 2 or (weak and (one.how.by_unit or other.how.by_unit)):
        return None
    if one.how.by_unit != other.how.by_unit:
        return "atomics of threads alone at one place, or reductions of units alone"
    if weak:
        op = {"store": "st", "load": "ld"}.get(weak[0].op)
        return op and told("{} at {}", strong(op, "relaxed", scope), _line(weak[0]))
    if one.element != other.element:
        return "accesses of one size"
    narrow = [site for site in (other, one) if site.how.scope in SCOPES[: SCOPES.index(scope)]]
    lines = dict.fromkeys(site.at.line if site.at else 0 for site in narrow)
    return joined(_scoped(scope, line) for line in lines) or None


def _scoped(scope: str, line: int) -> Told:
    """A wider scope of an access."""
    where = f"line {line}" if line else "that access"
    ways = [(keyword(line, "scope", scope),)] * bool(line)
    return advised(f"scope={scope!r} at {where}", "order", scope, (line,) * bool(line), ways=ways)


def _line(site: Site) -> str:
    return f"line {site.at.line}" if site.at else "that access"
