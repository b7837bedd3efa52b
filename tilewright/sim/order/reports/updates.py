"""How the two accesses of a race belong together: do both threads change one place, in one turn of a loop?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir import Binary, Cast, Store
from tilewright.isa import INSTRUCTIONS
from tilewright.sim.order.races.records import Record

if TYPE_CHECKING:
    from tilewright.ir import Stmt
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.order.races.clash import Clash

__all__ = ["atomic_for", "in_one_turn", "is_update"]

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


def atomic_for(program: Subject, name: str, write: Stmt | None) -> str:
    """The atomic that changes an element of a buffer as a store does, in words; empty where its type has none.

    write: the store, None where compiled code has no such statement.
    """
    value = write.value if isinstance(write, Store) else None
    while isinstance(value, Cast):
        value = value.a
    op = UPDATES.get(value.op, "") if isinstance(value, Binary) else "" if isinstance(write, Store) else "add"
    row, buffer = INSTRUCTIONS.get(f"cuda.atomic_{op}"), program.authored.get(name)
    kinds = {mods["dtype"] for form in row.forms for mods in form.all_mods()} if row else set()
    if row is None or not (buffer is None or str(buffer.dtype) in kinds):
        return ""
    return f"{'' if write else 'an atomic such as '}T.cuda.atomic_{op}({name}.ptr_to([...]), value)"
