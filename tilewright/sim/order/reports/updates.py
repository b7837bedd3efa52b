"""How the two accesses of a race belong together: do both threads change one place, guard it, or mean two arrays?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir import Binary, Cast, Store, statements
from tilewright.isa import INSTRUCTIONS, bind
from tilewright.sim.codegen.values import calls_of
from tilewright.sim.order.races.records import Record
from tilewright.terms import Told, atomic, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.ir import Stmt
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.order.races.clash import Clash

__all__ = ["atomic_for", "guards", "in_one_turn", "is_update", "overlap"]

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
