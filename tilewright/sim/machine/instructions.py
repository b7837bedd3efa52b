"""Running rows of the instruction table, the same way for every row: have all lanes come, operands in, the row's
meaning, results out.

A row that only moves bits is run a second time on the shadows, so that uninitialised bits go where the bits go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import dtype
from tilewright.errors import SimulationError
from tilewright.explain import place_of
from tilewright.isa import ALL_LANES, BY_MASK, WARPGROUP, WHOLE_WARP, Bound, Signal, Unlisted
from tilewright.isa.declared import asked, check_values
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.event import MBarrierSignal
from tilewright.sim.machine.facets import Facet, harmless
from tilewright.sim.machine.memory import UNITS, MemoryRows, initialised
from tilewright.sim.machine.places import MULTICAST, OFFSET_BITS, SHARED_WINDOW, WINDOW_BITS, multicast_steps
from tilewright.sim.machine.registers import RegisterAddress, RegisterFile
from tilewright.sim.machine.team import first_warp, lanes_text, numbers, threads_of, where_text
from tilewright.sim.machine.unknown import sound
from tilewright.terms import operation, told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.explain import Threads
    from tilewright.sim.machine import Memories, Place, Site, Team
    from tilewright.sim.machine.arrays import Array, Bits, Bools, Flags, Given, GivenFlags, Results, Value

__all__ = ["CompiledInstruction"]


# Instructions that lanes of a warp execute together: have all of these lanes come?


LANE = np.arange(32)
READS_ENDED = "lanes that read from one that has ended"
READS_OUTSIDE, OUTSIDE_HINT = "lanes that read from one outside the mask", "a mask that names those, too"
ENDED_HINT = "a lane that is there: a narrower width, or a condition around the work in place of a return before it"


def check_lanes(
    bound: Bound, team: Team, values: tuple[Array, ...], at: Span | None, *, leaves_open: bool = False
) -> None:
    """Raises SimulationError where a warp lacks lanes that a row needs together. values: the operands of `execute`.
    leaves_open: may a lane read from one that has ended, or outside of the mask? Its bits are unknown then (`unheard`).
    """
    if bound.instruction.lanes in (WARPGROUP, WHOLE_WARP) and not team.has_whole_warps:
        raise _divergence(bound, team, np.ones((1, 1, 32), np.bool_), at)
    names = [row.name for row in bound.read]
    if bound.instruction.lanes == BY_MASK and "mask" in names:
        masks = values[names.index("mask")].astype(np.int64) & ALL_LANES
        if team.array is None and (masks == ALL_LANES).all():
            return
        wanted = _bits(np.bitwise_or.reduce(np.where(team.full, masks, 0), axis=-1, keepdims=True))
        if (team.full.any(-1, keepdims=True) & wanted & ~team.full & team.look.alive).any():
            raise _divergence(bound, team, wanted, at)
        gone = team.full.any(-1, keepdims=True) & wanted & ~team.full & team.wave.run.exists[:, team.warps]
        if gone.any():
            _warn_of_ended(bound, team, gone, at)
        troubles = _troubles(team, np.broadcast_to(masks, team.shape))
        if bound.form.meaning.source_lane is not None and not leaves_open:
            troubles.append((_outside(bound, team, values), READS_OUTSIDE, OUTSIDE_HINT))
            troubles.append((_silent(bound, team, values, team.full), READS_ENDED, ENDED_HINT))
        for wrong, what, hint in troubles:
            if wrong.any():
                facet = Facet(team, at, team.wave)
                facet.fault(told("{}: {}", operation(bound.instruction.name), what), wrong, hint=hint)


def _warn_of_ended(bound: Bound, team: Team, gone: Bools, at: Span | None) -> None:
    """Sources: PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync": they wait for all threads of the mask
    that have not exited, and only those have a part in the result; what comes from an exited one is unpredictable.
    """
    undefined = ", and what a lane would read from one of them is undefined" if bound.form.meaning.source_lane else ""
    ended = f"its mask names {lanes_text(gone[first_warp(gone)])}, which had ended"
    rest = f"{ended}; the others go on without them{undefined}"
    text = told("{}: {}: {}", at, operation(bound.instruction.name), rest)
    team.wave.run.warn(text, "ended", bound.instruction.name, facts={**place_of(at), "idiom": "ended-lanes"})


def parted_by_mask(bound: Bound, team: Team, values: tuple[Array, ...]) -> list[Team]:
    """The lanes that execute a row together: where masks name several groups of a warp, each group by itself."""
    names = [row.name for row in bound.read]
    if bound.form.meaning.on != "machine" or bound.instruction.lanes != BY_MASK or "mask" not in names:
        return [team]
    return team.parted(values[names.index("mask")])


def _bits(masks: NDArray[np.int64]) -> Bools:
    return np.asarray(masks >> LANE & 1 != 0)


def _troubles(team: Team, masks: NDArray[np.int64]) -> list[tuple[Bools, str, str]]:
    """Violations of: the lanes that a mask names execute the row, and give the same mask; with what to do."""
    named = (masks[..., None] >> LANE & 1 != 0) & team.full[..., None]  # for each lane, the lanes that its mask names
    differs = (masks[..., None, :] != masks[..., None]) & team.full[..., None, :]  # lanes that have ended give none
    return [
        (team.full & ~_bits(masks), "lanes that execute it, and that its mask does not name", "a mask that names them"),
        ((named & differs).any(-1), "masks that differ between the lanes that they name", "one mask for all of them"),
    ]


def _outside(bound: Bound, team: Team, values: tuple[Array, ...]) -> Bools:
    """The lanes that read from one that their mask does not name."""
    names = [row.name for row in bound.read]
    masks = values[names.index("mask")].astype(np.int64) & ALL_LANES if "mask" in names else np.array(ALL_LANES)
    if bound.form.meaning.source_lane is None or (masks == ALL_LANES).all():
        return np.zeros(team.shape, np.bool_)
    outside: Bools = team.full & np.broadcast_to(masks >> bound.form.meaning.source_lane(*values) & 1 == 0, team.shape)
    return outside


def _silent(bound: Bound, team: Team, values: tuple[Array, ...], heard: Bools) -> Bools:
    """The lanes that read from one that is not among those."""
    assert bound.form.meaning.source_lane is not None
    source = np.broadcast_to(bound.form.meaning.source_lane(*values), team.shape)
    silent: Bools = team.full & ~np.take_along_axis(np.broadcast_to(heard, team.shape), source.astype(np.int64), -1)
    return silent


def unheard(bound: Bound, team: Team, values: tuple[Array, ...], at: Span | None, place: object) -> Bools | None:
    """The lanes of compiled code that read from one that has ended, or that their mask does not name, whose bits are
    unknown; kept for a report, which follows where something visible depends on them. None where there are none.
    place: the instruction in the program.

    Source: PTX ISA, "shfl.sync": the value is unpredictable where the source lane is inactive or has exited, or is not
    in the mask.
    """
    if bound.form.meaning.source_lane is None:
        return None
    outside = _outside(bound, team, values)
    silent = _silent(bound, team, values, team.full) if team.array is not None else np.zeros_like(outside)
    lanes: Bools = outside | silent
    if not lanes.any():
        return None
    undefined = team.wave.shadows.undefined
    if place not in undefined:
        is_there = (outside & ~_silent(bound, team, values, team.look.alive)).any()
        text, hint = (READS_OUTSIDE, OUTSIDE_HINT) if is_there else (READS_ENDED, ENDED_HINT)
        what, where = told("{}: {}", operation(bound.instruction.name), text), where_text(team, lanes)
        error = SimulationError(what, given=where, hint=hint, at=at)
        undefined[place] = np.zeros((team.wave.ctas, team.wave.run.warps, 32), bool), error
    undefined[place][0][team.ctas, team.warps] |= lanes
    return lanes


def _divergence(bound: Bound, team: Team, wanted: Bools, at: Span | None) -> SimulationError:
    active = team.full
    wanted = np.broadcast_to(wanted, team.shape)
    missing = active.any(-1, keepdims=True) & wanted & ~active
    missing = missing & team.look.alive if (missing & team.look.alive).any() else missing
    warp = first_warp(missing)
    what = told("divergence: {} without {}", operation(bound.instruction.name), lanes_text(missing[warp]))
    allowed, hint = (
        f"{lanes_text(wanted[warp])} of the warp, together",
        "move it out of the condition that splits the warp",
    )
    return team.error(
        "divergence", what, active, at, given=where_text(team, missing, active), allowed=allowed, hint=hint
    )


# A row with a meaning, run.


ADDRESSES = ("shared", "global", "generic")


def lanes(value: Value) -> Array:
    """A value as an array (CTAs, warps, 32)."""
    array = value if isinstance(value, np.ndarray) and value.ndim > 2 else np.atleast_3d(value)
    if array.shape[2] == 32:
        return array
    if array.size == 1:  # quicker than a view
        return array.repeat(32, 2)
    return np.broadcast_to(array, (*array.shape[:2], 32, *array.shape[3:]))


def to_shared(at: Address) -> Address:
    """A generic address as an offset in the shared window."""
    return at.shifted(-(SHARED_WINDOW << WINDOW_BITS))


def _arguments(values: Given) -> Given:
    """What the functions of a row get: addresses as numbers."""
    return tuple(lanes(value.full()) if isinstance(value, Address) else value for value in values)


class _Kept(MemoryRows):
    """Stands for shared memory, and keeps the bits that are stored there."""

    bits: Bits

    def storage(self, place: Place) -> MemoryRows:
        """Itself: of such memories it is all that there is."""
        return self

    def store(self, team: Team, at: Address, width: int, bits: Bits) -> None:
        self.bits = bits


def _replicas(site: Site, team: Team, at: Address, line: Span | None) -> list[Address]:
    """The addresses of an access: itself, or the places on all GPUs that it names."""
    if not site.how.replicated:
        return [at]
    active = np.broadcast_to(at.full(), team.shape)[team.full]
    return [at.shifted(step) for step in multicast_steps(team.wave.run, active, line)]


@dataclass(frozen=True, eq=False)
class CompiledInstruction:
    """A row with a meaning. accesses: (operand number, site) of memory that it touches; sinks: registers it writes;
    sources: registers that an operation reads until it is complete. homes: by operand, the buffer in shared memory that
    it points into, where that is certain. leaves_open: may its result have unknown bits, as no lane gave them?
    """

    bound: Bound
    at: Span | None
    accesses: tuple[tuple[int, Site], ...]
    sinks: tuple[RegisterFile, ...]
    sources: tuple[RegisterFile, ...]
    with_shadows: bool
    result: str
    homes: Mapping[str, Place | None]
    leaves_open: bool = False

    def __call__(
        self, team: Team, values: Given, sinks: Given, flags: GivenFlags = None, sources: Given = ()
    ) -> Results:
        check_lanes(self.bound, team, values, self.at, leaves_open=self.leaves_open)
        for number, site in self.accesses:
            if site.how.sized:
                continue
            if not self.is_elsewhere(number, values[number].hi):
                moves = site.write and self.bound.form.meaning.moves and self.bound.form.meaning.on == "shared"
                bits = partial(self._about_to_store, team, values) if moves else None
                for there in _replicas(site, team, values[number], self.at):
                    site.touch(team, there, bits)
            elif self.bound.reaches_cluster:
                site.elsewhere(team).touch(team, values[number])
            else:
                offsets = self._own(team, values[number])
                values = (*values[:number], offsets, *values[number + 1 :])
                site.touch(team, offsets)
        arguments = _arguments(values)
        if self.bound.form.begins_operation:
            self._issue(team, arguments, sinks, flags, sources)
            return None
        return self.carry_out(team, arguments, sinks, flags)

    def _about_to_store(self, team: Team, values: Given, at: Address) -> Bits:
        """The rows that lanes name the places of, and that the instruction will store there."""
        kept = _Kept(np.zeros((1, 0), np.uint8), 0)
        self.meaning(team, _arguments(values), kept)  # type: ignore[arg-type]  # `Meaning.on` is "shared"
        rows = np.zeros((*kept.bits.shape[:-1], 32), kept.bits.dtype)
        rows[..., : kept.bits.shape[-1]] = kept.bits
        return rows

    def _issue(self, team: Team, arguments: Given, sinks: Given, flags: GivenFlags, sources: Given) -> None:
        """Begin an operation: operands that give addresses are used now, values are kept with their flags."""
        taken = self.bound.form.async_meaning.takes
        shadows = []
        for row, argument, flag in zip(self.bound.arguments, arguments, flags or (None,) * len(arguments), strict=True):
            if row.name not in taken:
                sound(self.bound, team, argument, flag, row.name, self.at)
            shadows.append(self._flags(argument, flag))
        pending = team.wave.pending
        pending.issuing = self
        for register, at in (*zip(self.sinks, sinks, strict=True), *zip(self.sources, sources, strict=True)):
            register.check(team, at)
        pending.issuing = None
        issued = pending.begin(self, team, arguments, sinks, sources, shadows if self.with_shadows else None)
        for (number, site), access in zip(self.accesses, self.bound.form.accesses, strict=True):
            if site.how.sized:
                (sized,) = (t for t in issued.touched if t.effect is access)
                assert sized.nbytes is not None
                sizes = issued.issuers.spread(sized.nbytes, team.shape)
                site.touch_sized(team, Address(0, Part(arguments[number])), sizes)
        pending.issue(issued)

    def may_go_on(self, team: Team, values: Given) -> Bools:
        """The lanes in which a form that may have to wait can take place now."""
        check_lanes(self.bound, team, values, self.at)
        ready = self.bound.form.meaning.ready
        going: Bools = self.meaning(team, _arguments(values), team.wave, ready)
        return going

    def is_elsewhere(self, number: int, highest: int) -> bool:
        """Does an operand point into the shared memory of another CTA? Then it is no access to this CTA's."""
        return self._read_kinds[number][0] == "shared" and highest >> OFFSET_BITS > 0

    def _own(self, team: Team, address: Address) -> Address:
        """Addresses of the cluster's window as offsets in the own CTA, for a form that reaches no other."""
        wave, full = team.wave, lanes(address.full())
        rank, home = full >> OFFSET_BITS, wave.rank(team.look.rows(1)) + 1
        wrong = team.full & (rank > 0) & (rank != home)
        if wrong.any():
            what = f"{self.bound.mnemonic} reaches the shared memory of its own CTA, and this is an address of another"
            Facet(team, self.at, wave).fault(what, wrong)
        return Address(0, Part(np.broadcast_to(full & (1 << OFFSET_BITS) - 1, team.shape)))

    def carry_out(self, team: Team, arguments: Given, sinks: Given, flags: GivenFlags) -> Results:
        """Execute the row on the active lanes, and deliver its results."""
        results = self.meaning(team, arguments, team.wave)
        if unlisted := self.unlisted(team, arguments):
            lanes = team.full & unlisted.where[..., None]
            if lanes.any():
                self.tell(unlisted, team, where_text(team, lanes), threads_of(team, lanes))
        if team.wave.run.precedence.refuses:
            results = team.wave.refusals.answer(self, team, arguments, results)
        try:
            return self._answer(team, arguments, sinks, flags, results)
        except (TypeError, ValueError):
            check_values(self, results)
            raise

    def unlisted(self, team: Team, values: Given) -> Unlisted | None:
        """What of the values that a row computes with leaves its result open, where a run asks for that."""
        unlisted = self.bound.form.meaning.unlisted
        is_asked = unlisted is not None and "arithmetic" in team.wave.run.program.checks
        return asked(self, "unlisted", unlisted, values) if is_asked and unlisted else None

    def tell(self, unlisted: Unlisted, team: Team, where: str, threads: tuple[Threads, ...]) -> None:
        """A finding, after which the run goes on."""
        what = f"{self.bound.instruction.name.removeprefix('ptx.')} has metadata that leave its result undefined"
        error = SimulationError(
            what, given=f"{unlisted.value}, in {where}", allowed=unlisted.allowed, at=self.at, kind="arithmetic",
            threads=threads,
        )  # fmt: skip
        team.wave.run.tell(error, str(self.at))

    def _answer(self, team: Team, arguments: Given, sinks: Given, flags: GivenFlags, results: Results) -> Results:
        """Deliver what the row's meaning gave."""
        if results is None and (self.sinks or any(signal.kind == "arrive" for signal in self.bound.form.signals)):
            check_values(self, results)
        for signal in self.bound.form.signals:
            self._signal(signal, team, arguments, results)
        for register, at, part in self._delivered(sinks, results):
            register.store(team, at, part)
        if not self.with_shadows or self._moves_sound_bits(team, arguments, sinks):
            return self._typed(results)
        return self._shadowed(team, arguments, sinks, flags, results)

    def _signal(self, signal: Signal, team: Team, arguments: Given, answer: Results) -> None:
        """Report a signal of an m-barrier to the checks; lanes whose wait was not successful acquire nothing."""
        barrier = arguments[[row.name for row in self.bound.read].index(signal.barrier)]
        told = team.narrowed(answer) if signal.kind == "wait" else team
        if told is None or told.lane_count < team.lane_count:
            first = int(np.argmax(team.full & ~np.broadcast_to(answer, team.shape)))
            cta, warp, lane = np.unravel_index(first, team.shape)
            address = int(np.broadcast_to(barrier, team.shape)[cta, warp, lane])
            team.wave.unmet.append((numbers(team.ctas)[cta], address))
        resolved = replace(signal, scope=self.bound.word(signal.scope))
        if told is not None:
            team.wave.run.events.signalled(MBarrierSignal(told, barrier, resolved, answer, self.at))

    def _moves_sound_bits(self, team: Team, arguments: Given, sinks: Given) -> bool:
        """Do initialised bits go from shared memory to initialised registers? Then no flag changes."""
        form = self.bound.form
        if not (form.meaning.moves and form.meaning.on == "shared" and self.sinks) or len(arguments) > 1:
            return False
        (number, site), *_ = self.accesses
        first, end = int(arguments[number].min()), int(arguments[number].max()) + site.width
        return team.wave.shadows.shared.are_set(first, end) and all(
            register.is_initialised(team, at) for register, at in zip(self.sinks, sinks, strict=True)
        )

    def _shadowed(self, team: Team, arguments: Given, sinks: Given, flags: GivenFlags, results: Results) -> Results:
        form = self.bound.form
        shadow: Results = None
        if form.meaning.moves:
            every = zip(arguments, flags or (), self._read_kinds, self.bound.arguments, strict=True)
            operands = tuple(
                self._flags(value, flag) if data else sound(self.bound, team, value, flag, row.name, self.at)
                for value, flag, (_, data), row in every
            )
            shadow = self.meaning(team, operands, team.wave.shadows, form.meaning.validity)
        else:
            for argument, flag, row in zip(arguments, flags or (), self.bound.arguments, strict=False):
                sound(self.bound, team, argument, flag, row.name, self.at)
            for number, site in self.accesses:
                if site.write and self.is_elsewhere(number, int(np.max(arguments[number]))):
                    there = harmless(Address(0, Part(arguments[number])), team)
                    site.elsewhere(team).unseen(team, there).store_flags(None)
                elif site.write:
                    there = harmless(Address(0, Part(arguments[number].astype(np.int64))), team)
                    one_of_all = there.shifted(-MULTICAST) if site.how.replicated else there
                    site.unseen(team, one_of_all).store_flags(None)
        for register, at, part in self._delivered(sinks, shadow):
            register.write(team.wave.shadows, team, at, part)
        if form.meaning.moves and self.result != "void":
            bits = np.asarray(shadow)
            ended = unheard(self.bound, team, arguments, self.at, self) if self.leaves_open else None
            bits = bits if ended is None else np.where(ended, np.zeros((), bits.dtype), bits)
            return self._typed(results), bits.view(UNITS[bits.dtype.itemsize])
        return self._typed(results)

    def _delivered(self, sinks: Given, results: Results) -> Iterator[tuple[RegisterFile, RegisterAddress, Array]]:
        """The results with the register file of each, and the registers' addresses."""
        results = results if len(self.sinks) > 1 and results is not None else [results] * len(self.sinks)
        yield from zip(self.sinks, sinks, results, strict=True)

    @property
    def fills_words(self) -> bool:
        """Do its results go to neighbouring 32-bit registers, and nowhere else?"""
        return self.result == "void" and all(sink.run and sink.many and sink.width == 4 for sink in self.sinks)

    @cached_property
    def keywords(self) -> dict[str, object]:
        """The modifiers that the meaning gets."""
        return {name: self.bound.mods[name] for name in self.bound.form.meaning.passes}

    @cached_property
    def _read_kinds(self) -> tuple[tuple[str, bool], ...]:
        """For each operand that is read: its kind, and whether it is data that moves, not a parameter of the move."""
        read = self.bound.arguments
        movable = [row.kind == "typed" or row.many for row in read]
        if not any(movable):
            movable = [row.kind in ("b16", "b32", "b64") for row in read]
        return tuple((row.kind, moves) for row, moves in zip(read, movable, strict=True))

    def _flags(self, argument: Array, flags: Flags) -> Bits:
        if flags is None:
            return np.broadcast_to(initialised(argument.dtype.itemsize), argument.shape)
        flags = np.atleast_3d(flags)  # the flags of a value that all lanes share come as one item
        return flags if flags.shape[-1] == 32 else np.broadcast_to(flags, np.broadcast_shapes(flags.shape, (1, 1, 32)))

    def meaning(
        self, team: Team, arguments: Given, memories: Memories, meaning: Callable[..., Results] | None = None
    ) -> Results:
        """Apply the row's meaning, or another one, to the bytes or the flags of the memories."""
        form = self.bound.form
        execute = meaning or form.meaning.execute
        assert execute is not None
        results: Results = None
        for some in parted_by_mask(self.bound, team, arguments):
            facets = Facet(some, self.at, memories).given(form.meaning.on)
            part: Results = asked(self, "execute", execute, (*facets, *arguments))
            results = part if some is team else np.where(some.full, part, part if results is None else results)
        return results

    def _typed(self, result: Results) -> Array | None:
        if self.result == "void":
            return None
        return np.asarray(result).astype(dtype(self.result).numpy, copy=False)
