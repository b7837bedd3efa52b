"""What is not known of bits: which bytes are uninitialised, and in compiled code which bits of values.

Shadows have for each byte of shared memory, tensor memory and registers a flag, 1 once it is initialised. A shadow is
memory of the same kind as what it stands for, so that what copies bits copies flags in the same way, by the same code.
One row of flags stands for all CTAs until they differ. Arrays from the host are initialised.

Compiled code may move and compute with uninitialised bits as long as no result depends on them. With a value goes None
while all of its bits are known, else an array of its shape with the unknown bits set (of a bool, a bool). An operation
is done again with other values of an operand, which its unknown bits allow: result bits that differ are unknown. So
bits that are masked away, overwritten or not chosen no longer count, and no value is unknown that does not depend on an
unknown bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain.steps import for_all
from tilewright.ir import AddressOf, Expr, Load, const_value, walk
from tilewright.ir.buffer import is_dealt_out
from tilewright.isa import INSTRUCTIONS
from tilewright.sim.machine.convert import width_of
from tilewright.sim.machine.memory import UNITS, MemoryRows, initialised
from tilewright.sim.machine.places import authored_text, buffer_name, coordinate_text, element_text
from tilewright.sim.machine.team import first_of, threads_of, where_text
from tilewright.sim.machine.wave import Memories
from tilewright.terms import barrier, call, operation, register, told

if TYPE_CHECKING:
    from tilewright.dtypes import DType
    from tilewright.errors import Span
    from tilewright.explain import Facts
    from tilewright.isa import Bound
    from tilewright.sim.machine import (
        Address,
        Array,
        Bits,
        Bools,
        Flags,
        Look,
        Site,
        Storage,
        Subject,
        Team,
        Value,
        Wave,
    )
    from tilewright.sim.machine.facets import Origin


__all__ = ["Doubt", "Moment", "Shadows", "flags_of", "unknown_of"]


T = TypeVar("T")
DECIDES = ("an address", "an extent", "a condition", "a barrier", "a loop bound")  # uses that say how a run goes on


class _Argument(MemoryRows):
    """The flags of an argument of the kernel, all of which is initialised."""

    def load(self, look: Look, at: Address, width: int, only: Team | None = None) -> Bits:
        return initialised(width)

    def store(self, team: Team, at: Address, width: int, bits: Bits) -> None:
        """Keep the flags: a store to an argument was checked to be initialised before."""


_ARGUMENT = _Argument.zeros(1, 0)


class Shadows(Memories):
    """The flags of a wave's memories.

    undefined: for each place that gave undefined results the threads to which it did, and what to say of it.
    """

    blank = 1

    def __init__(self, wave: Wave) -> None:
        super().__init__(wave.run, 1, wave.ctas)
        self.undefined: dict[object, tuple[Bools, SimulationError]] = {}
        self.unset: dict[Span | None, tuple[str | None, str]] = {}  # by line: a buffer, and a sentence

    def argument(self, name: str) -> Storage:
        return _ARGUMENT

    def note(self, site: Site, team: Team, at: Address, flags: Bits) -> None:
        """Remember a read of shared memory without its flag: in compiled code the value may be used far from there."""
        octets = np.ascontiguousarray(np.atleast_3d(flags))[..., None].view(np.uint8)
        if octets.all():
            return
        bad = team.full & ~octets.all(-1)
        if bad.any() and site.place is not None and site.place.space == "shared":
            program, first = self.run.program, first_of(at.full(), bad)
            line = f"in line {site.at.line}" if site.at else ""
            text = told("{}, read {}, has no value", coordinate_text(program, site, first), line)
            self.unset[site.at] = buffer_name(program, site, first), text

    def require(
        self, team: Team, flags: Bits, use: str, at: Span | None, what: Expr | str, origin: Origin = (None, None)
    ) -> None:
        """Raises SimulationError where an active lane's value has a byte without its flag.

        origin: the site and the address of the load that it comes from, where that is known.
        """
        octets = np.ascontiguousarray(np.atleast_3d(flags))[..., None].view(np.uint8)
        if octets.all() or team.wave.run.unwritten == "sought" or team.wave.run.dependence is not None:
            return
        bad = team.full & ~octets.all(-1)
        if bad.any():
            self._tell(team, bad, use, at, what, origin)

    def _tell(self, team: Team, bad: Bools, use: str, at: Span | None, what: Expr | str, origin: Origin) -> None:
        """One finding for each buffer; a value that comes from a read outside of it, or from a race, follows from that.

        Raises it where the value decides or is an address: nothing after that would mean anything.
        """
        run, (site, address) = team.wave.run, origin
        name = site.place.name if site is not None and site.place is not None else None
        if site is not None and address is not None:
            name = buffer_name(run.program, site, first_of(address.full(), bad))
        cause = run.findings.about(name) if name is not None else None
        if cause is not None and use not in DECIDES:
            run.findings.followed(cause)
            return
        run.unwritten = "used"
        error = self._undefined(team, bad, use, at) or self._error(team, bad, use, at, what, origin)
        is_one = site is None and len({buffer for buffer, _ in self.unset.values()}) == 1
        for _, text in [*self.unset.values()][:is_one]:
            error.given = told("{}; {}", error.given, text)
        for at_barrier, meeting in [*run.met_without.items()][:1]:
            error.given = told("{}; {}", error.given, meeting.text)
            error.hint = error.hint or for_all(at_barrier, meeting.barrier)
        branches = {"branching_lanes": int(bad.sum())} if use == "a condition" and self.unset else {}
        error.facts |= {"threads": threads_of(team, bad), "buffer": name, "numbers": branches}
        if use in DECIDES:
            raise error
        run.tell(error, name if name is not None else str(at))

    def _undefined(self, team: Team, bad: Bools, use: str, at: Span | None) -> SimulationError | None:
        """The error for a value that is unknown since an operation left it open: of these lanes, if they had one."""
        threads = np.zeros((self.ctas, self.run.warps, 32), bool)
        threads[team.ctas, team.warps] = bad
        causes = sorted(self.undefined.values(), key=lambda cause: not (cause[0] & threads).any())
        if not causes:
            return None
        _, error = causes[0]
        line = f" in line {at.line}" if at else ""
        error.given = f"{error.given}; {use}{line} depends on the result"
        return error

    @staticmethod
    def _error(team: Team, bad: Bools, use: str, at: Span | None, what: Expr | str, origin: Origin) -> SimulationError:
        site, address = origin
        if not isinstance(what, str):
            what = told("{}", register(f"`{authored_text(team.wave.run.program, what)}`"))
        if site is not None and site.place is not None and address is not None:
            what = coordinate_text(team.wave.run.program, site, first_of(address.full(), bad))
        return SimulationError(
            told("{} is uninitialised", what),
            given=told("{}, in {}", use, where_text(team, bad)),
            allowed="moving it; what is computed with, branched on, used as an address or stored to an argument "
            "must have been written",
            hint=_maker(site) or _writer(team.wave.run.program, site, what, at),
            at=at,
            kind="poison",
        )


def _writer(program: Subject, site: Site | None, what: str, at: Span | None) -> str | None:
    """A hint: the statement that would initialise a place of memory."""
    held = site.place if site is not None else None
    name = held.name if held is not None else what.partition("[")[0].removesuffix(".local()")
    buffer = program.authored.get(name)
    if buffer is None or at is None:
        return None
    loop = program.loop_around(at)
    before = (
        f"before the loop of line {loop.line}" if loop is not None and loop.line < at.line else f"before line {at.line}"
    )
    if buffer.space.startswith("shared") and _is_address(program, head := what.partition("[")[0]):
        alloc = told("{}, or {}.commit() of a T.TMEMPool", call("ptx.tcgen05.alloc", ...), head)
        return told("{}, and {} behind it, {}: they write {}", alloc, barrier("cta"), before, what)
    if buffer.space.startswith("shared"):
        return told("a store to {} {}, and {} in between", what, before, barrier("cta"))
    if buffer.space != "local":
        return None
    return f"{name}[:] = 0, or what it is to begin with, {before}" if is_dealt_out(buffer) else f"{what} = 0 {before}"


def _is_address(program: Subject, name: str) -> bool:
    """Does a buffer hold an address of tensor memory?"""
    held = (buffer.allocated_addr for buffer in program.authored.values() if isinstance(buffer.allocated_addr, Expr))
    return any(isinstance(part, Load) and part.buffer.name == name for addr in held for part in walk(addr))


def _maker(site: Site | None) -> str | None:
    """The instruction that initialises m-barriers, for an access that needs one."""
    row = INSTRUCTIONS.get(site.op) if site is not None else None
    if site is None or row is None or not row.forms[0].signals:
        return None
    names = (name for name, row in INSTRUCTIONS.items() if row.forms[0].signal_of("init"))
    init = call(next(names), ...)
    return told("{} by one thread, and a barrier, before line {}", init, site.at.line) if site.at else None


# Operands of an instruction, in the words of the kernel


def sound(bound: Bound, team: Team, argument: T, flags: Flags, name: str, at: Span | None) -> T:
    """The operand ``name``. Raises SimulationError where a bit of it is uninitialised."""
    if flags is None:
        return argument
    what, use = "a value", told("{}, an operand of {}", name, operation(bound.instruction.name))
    if np.ndim(flags) == 4:  # a register of a vector
        octets = np.ascontiguousarray(flags)[..., None].view(np.uint8)
        if not octets.all():
            number = int((~octets.all(-1) & team.full[:, :, None, :]).any((0, 1, 3)).argmax())
            what = _register(team.wave.run.program, bound, name, number, at)
            use = told("register {} of {}", number, use)
        flags = np.bitwise_and.reduce(flags, axis=2)
    team.wave.shadows.require(team, flags, use, at, what)
    return argument


def _register(program: Subject, bound: Bound, name: str, number: int, at: Span | None) -> str:
    """What the kernel calls a register of an operand."""
    places = bound.operands[name]
    place = places[min(number, len(places) - 1)]
    if not isinstance(place, Load | AddressOf):
        return told("{}", register(str(place)))
    if (source := program.loaded_from(place.buffer.name, at)) is not None:
        return source
    name, slot = place.buffer.name, const_value(place.indices[0]) if place.indices else 0
    authored, held = program.authored.get(name), program.places.of(place.buffer)
    if slot is None or held is None or authored is None:
        named = f"{name}[{', '.join(map(str, place.indices))}]" if place.indices else name
        return told("{}", register(named))
    if is_dealt_out(authored):
        return f"{name}.local()[{slot}]"
    return element_text(program, held, held.start + int(slot) * authored.dtype.bits // 8)


# Does what a thread stores depend on what another thread has read? A run that marks the one value as unknown tells.
#
# Lanes of a warp that hand values on by shuffles are in order where data depend on them: a lane cannot store a sum
# before the other lanes have read what is in it. The memory model knows no such order. So the simulator asks of each
# store that only this may excuse: the run is made again, the bits that the other lane reads are unknown there, and
# those that the store writes say whether they depend on them.


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """One access of a thread, counted through the grid: its site, and the time of the record in its wave."""

    site: Site
    time: int
    thread: int


@dataclass(frozen=True, eq=False, slots=True)
class Doubt:
    """A store of a thread, after a read of the same place by another one of its warp. key: of the finding. excuse: what
    is said where it depends on that, and what is known of it.
    """

    key: Hashable
    read: Moment
    store: Moment
    excuse: tuple[str, Facts]


class Dependence:
    """Finds out which stores depend on the reads. holds: the keys of those that do; times: of each site's last
    record.
    """

    def __init__(self, doubts: Iterable[Doubt]) -> None:
        self.doubts = tuple(doubts)
        self.holds: set[Hashable] = set()
        self.times: dict[Site, int] = {}

    def comes(self, site: Site, time: int) -> None:
        """An access is about to take place."""
        self.times[site] = time

    def read(self, site: Site, team: Team, flags: Bits) -> Bits:
        """The flags of what lanes have read, without those of the lanes in question."""
        for doubt in self.doubts:
            if (lane := self._lane(doubt.read, site, team)) is not None:
                flags = np.array(np.broadcast_to(flags, team.shape))
                flags[lane] = 0
        return flags

    def stored(self, site: Site, team: Team, flags: Bits | None) -> None:
        """Lanes have stored values with these flags."""
        for doubt in self.doubts if flags is not None else ():
            lane = self._lane(doubt.store, site, team)
            if lane is not None and flags is not None:
                octets = np.broadcast_to(flags, team.shape)[lane].tobytes()
                if 0 in octets:
                    self.holds.add(doubt.key)

    def _lane(self, moment: Moment, site: Site, team: Team) -> tuple[int, int, int] | None:
        """The place of the thread in a batch, if this is the moment."""
        is_now = moment.site is site and self.times.get(site) == moment.time
        return team.lane_of(moment.thread) if is_now else None


_WHOLE = ContextVar("whole", default=False)


@contextmanager
def as_a_whole() -> Iterator[None]:
    """Meanwhile a result is unknown where any operand has an unknown bit, whatever its value is."""
    token = _WHOLE.set(True)
    try:
        yield
    finally:
        _WHOLE.reset(token)


def _unsigned(kind: DType) -> np.dtype[Any]:
    """The unsigned dtype as wide as one element."""
    numpy = kind.element.numpy
    return numpy if numpy.kind == "b" else np.dtype(f"u{numpy.itemsize}")


@dataclass(frozen=True, eq=False)
class ArrayOperation:
    """An operation on arrays. kinds: the dtypes of its operands; result: of what it gives."""

    function: Callable[..., Array]
    kinds: tuple[DType, ...]
    result: DType

    def __call__(self, values: tuple[Value, ...], unknown: tuple[Array | None, ...]) -> Array | None:
        """The unknown bits of the result."""
        terms = [np.asarray(value, kind.element.numpy) for value, kind in zip(values, self.kinds, strict=True)]
        unsigned = _unsigned(self.result)
        if _WHOLE.get():
            some = [bits.any(-1) if bits.ndim > 3 else bits != 0 for bits in unknown if bits is not None]
            whole = np.asarray(np.logical_or.reduce(np.broadcast_arrays(*some)))
            if self.result.lanes > 1:
                whole = np.repeat(whole[..., None], self.result.lanes, -1)
            return np.where(whole, ~np.zeros((), unsigned), 0).astype(unsigned)
        open_bits: Array | None = None
        for k, bits in enumerate(unknown):
            if bits is None:
                continue
            kind = _unsigned(self.kinds[k])
            arg = terms[k].view(kind)
            others = [arg.view(kind) for n, arg in enumerate(terms) if n != k and arg.dtype.itemsize == kind.itemsize]
            first, *more = (
                np.asarray(self.function(*terms[:k], end, *terms[k + 1 :])).view(unsigned)
                for end in _tried(arg, bits, others, terms[k].dtype)
            )
            for result in more:
                open_bits = first ^ result if open_bits is None else open_bits | (first ^ result)
        return open_bits if open_bits is not None and open_bits.any() else None


def _tried(arg: Array, bits: Array, others: list[Array], kind: np.dtype[Any]) -> Iterator[Array]:
    """Values that an operand may have: the least, the greatest, and those near the other operands, for comparisons."""
    near = (end for other in others for end in (other, other + 1, other - 1)) if arg.dtype.kind == "u" else ()
    for end in (np.zeros_like(arg), ~np.zeros_like(arg), *near):
        yield np.asarray((arg & ~bits) | (end & bits), arg.dtype).view(kind)


def either(first: Array | None, other: Array | None) -> Array | None:
    """The bits that are unknown for one reason or the other."""
    return first if other is None else other if first is None else first | other


def blended(team: Team, new: Array | None, old: Array | None) -> Array | None:
    """The unknown bits of a variable that the lanes of a mask assign."""
    if team.array is None or (new is None and old is None):
        return new
    first = new if new is not None else old
    assert first is not None
    none = np.zeros((), first.dtype)
    where = team.array if first.ndim < 4 else team.array[..., None]
    both: Array = np.where(where, none if new is None else new, none if old is None else old)
    return both


def nothing_known(kind: DType) -> Array:
    """The unknown bits of a register that has not been written: all of them."""
    return np.array(~np.zeros((1, 1, 1), _unsigned(kind)))


@cache
def unknown_of(kind: DType) -> Callable[[Bits, Team], Array | None]:
    """From the flags of memory's bytes to the unknown bits of a value."""
    unsigned = _unsigned(kind)

    def convert(flags: Bits, team: Team) -> Array | None:
        octets = np.ascontiguousarray(np.atleast_3d(flags))[..., None].view(np.uint8)
        if octets.all():
            return None
        bad: Array = np.where(team.full[..., None], (octets ^ 1) * np.uint8(255), np.uint8(0))
        if not bad.any():
            return None
        open_bits: Array = bad.view(np.uint8 if unsigned.kind == "b" else unsigned)
        open_bits = open_bits if kind.lanes > 1 else open_bits[..., 0]
        return open_bits != 0 if unsigned.kind == "b" else open_bits

    return convert


@cache
def flags_of(kind: DType) -> Callable[[Array | None], Bits]:
    """From the unknown bits of a value to flags of its bytes."""
    width = width_of(kind)

    def convert(unknown: Array | None) -> Bits:
        if unknown is None:
            return initialised(width)
        bits = np.ascontiguousarray(unknown)
        octets = bits.view(np.uint8).reshape(*bits.shape[:3], width)
        flags: Bits = (octets == 0).view(UNITS[width])[..., 0]
        return flags

    return convert
