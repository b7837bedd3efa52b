"""A site: one place of a kernel that touches memory. Every load and store goes through one.

It knows the buffer where that is certain before the kernel runs; a pointer that is only known at run time finds its
buffer by the window it points into. Before memory is touched, bounds are looked at (an address outside is never
followed), the access is counted, and the hooks of the checks see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import Touch
from tilewright.records import replace as counted_as
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Bits
from tilewright.sim.machine.batch import Mask, first_of, numbers, where_text
from tilewright.sim.machine.counts import COUNTED, Line, default_phase, wavefronts
from tilewright.sim.machine.memory import initialised
from tilewright.sim.machine.places import (
    LOCAL_WINDOW,
    MULTICAST,
    OFFSET_BITS,
    SHARED_WINDOW,
    WINDOW_BITS,
    Place,
    across,
)  # fmt: skip
from tilewright.sim.machine.registers import Registers
from tilewright.terms import operation, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import Array, Batch, Bools, Events, Ints, Look, Storage

__all__ = ["FAR", "Hook", "Site", "harmless"]

PLAIN, MOVES = Touch(), Touch(moves=True)
FAR = 1 << WINDOW_BITS - 1  # in a window: no buffer is that long, so a pointer there is below the start of the next one
Hook = Callable[..., None]  # of a batch, a mask and the addresses of accesses that follow each other
Origin = tuple["Site | None", Address | None]  # where bits come from


@dataclass(eq=False)
class Site:
    """op: what the kernel does here. place: None for a pointer of run time. width: bytes. how: it touches them.

    whole: of a narrower access the one that checks see. hooks: of the checks, called before each access; escapes:
    called with lanes outside of the buffer.
    """

    at: Span | None
    op: str
    place: Place | None
    width: int
    write: bool
    how: Touch = PLAIN
    asks: bool = False  # is it an m-barrier that it asks, once, and the kernel goes on whatever the answer?
    polls: bool = False  # does a loop wait until it finds here what another thread has written?
    compared: bool = False  # is what it finds compared with anything?
    over: Span | None = None  # of an operation: where its issuer has waited for it
    advice: tuple[str, str | None] = ("", None)  # the tile call, and what would let its region leave the buffer
    home: Place | None = None  # the shared buffer that an operand certainly points into, in whichever CTA
    checks: Sequence[Events] = ()
    whole: Site | None = None
    line: Line = field(init=False)
    hooks: tuple[Hook, ...] = field(init=False)
    escapes: Callable[..., None] | None = field(init=False)
    pending: Bits | Callable[[Address], Bits] | None = field(init=False, default=None)  # what a store is about to write
    writing: slice | None = field(init=False, default=None)  # the CTAs that do
    _derived: dict[object, Site] = field(init=False, default_factory=dict)  # this site at a place, or of other bytes
    is_remote: ClassVar[bool] = False  # does it touch the shared memory of other CTAs?

    def __post_init__(self) -> None:
        name, space = (self.place.name, self.place.space) if self.place else ("", "")
        self.line = Line(self.at, self.op, name, space, self.write)
        self.subscribe(self.checks)

    def subscribe(self, checks: Sequence[Events]) -> None:
        """Have checks hear of its accesses."""
        self.checks = checks
        seen = self if self.whole is None else replace(self.whole, place=self.place, checks=())
        hooks = [check.watch(seen) for check in checks if not self.is_remote and self.place is not None]
        self.hooks = tuple(hook for hook in hooks if hook is not None)
        self.escapes = next((check.escapes for check in checks if check.escapes), None)

    @property
    def key(self) -> tuple[object, ...]:
        """What the site does: equal for two that nothing tells apart."""
        return tuple(getattr(self, row.name) for row in fields(self) if row.init and row.name != "checks")

    @cached_property
    def element(self) -> int:
        """Bytes of each operation that it consists of."""
        return self.how.element or self.width

    @property
    def shows(self) -> bool:
        """Does the kernel see here what others have written? A reduction reads, too, but gives no value."""
        return self.how.observes and (self.how.atomic or not self.write)

    # Before an access

    def reach(self, batch: Batch, mask: Mask, at: Address) -> tuple[Mask, bool]:
        """The lanes whose access may go on, and whether the other lanes' addresses may be anywhere."""
        place = self.place
        assert place is not None
        guarded = not self.contains(batch, at)
        if guarded:
            mask = self._within(batch, mask, at)
            if not mask.full.any():
                return mask, guarded
        mask = self._counted(mask)
        self.count(batch, mask, at)
        self.writing = batch.ctas
        for hook in self.hooks:
            hook(batch, mask, at)
        return mask, guarded

    def _counted(self, mask: Mask) -> Mask:
        """The lanes whose addresses count."""
        few = self.how.lanes < 32
        return mask.narrowed(np.arange(32).reshape(1, 1, 32) < self.how.lanes) or mask if few else mask

    def contains(self, batch: Batch, at: Address) -> bool:
        """Are all addresses inside of the buffer?"""
        assert self.place is not None
        if self.place.pitch:
            return not self.place.outside(at.full(), self.width, batch.ranks).any()
        return self.place.start <= at.lo and at.hi + self.width <= self.place.start + self._size(batch)

    def _size(self, batch: Batch) -> int:
        """Bytes of the buffer."""
        assert self.place is not None
        return self.place.nbytes if self.place.nbytes >= 0 else batch.wave.run.sizes[self.place.name]

    def _within(self, batch: Batch, mask: Mask, at: Address) -> Mask:
        """``mask`` without the lanes outside of the buffer, which the check of bounds reports."""
        outside = self._outside(batch, mask, at)
        if not outside.any():
            return mask
        if self.escapes is not None:
            self.escapes(self, batch, outside, at)
        return Mask(mask.shape, mask.full & ~outside)

    def _outside(self, batch: Batch, mask: Mask, at: Address) -> Bools:
        """The active lanes that are outside of the buffer."""
        assert self.place is not None
        full, end = at.full(), self.place.start + self._size(batch)
        outside: Bools = mask.full & ((full < self.place.start) | (full + self.width > end))
        if self.place.pitch:
            outside = mask.full & self.place.outside(full, self.width, batch.ranks)
        return outside & (np.arange(32) < self.how.lanes) if self.how.lanes < 32 else outside

    def count(self, batch: Look, mask: Mask, at: Address) -> None:
        """Count an access that is inside of the buffer."""
        line = self.line
        line.accesses += mask.lanes
        line.warps += mask.warps
        if line.space == "shared":
            everyone = mask.array is None or mask.lanes == self.how.lanes * batch.shape[0] * batch.shape[1]
            active = None if everyone else mask.array
            phase, pairs = self.how.phase or default_phase(self.width), not (self.write or self.how.phase)
            passes, ideal = wavefronts(at, self.how.lanes, self.width, phase, active, pairs=pairs)
            shape = at.shape if active is None else np.broadcast_shapes(at.shape, active.shape)
            times = (batch.shape[0] // shape[0]) * (batch.shape[1] // shape[1])
            line.wavefronts += passes * times
            line.ideal_wavefronts += ideal * times

    # Accesses

    def load(self, batch: Batch, mask: Mask, at: Address) -> Bits:
        """What each lane reads; anything in lanes that are not active."""
        if self.place is None:
            parts = self.resolve(batch, mask, at)
            return self._joined((site.load(batch, lanes, there), lanes) for site, lanes, there in parts)
        mask, guarded = self.reach(batch, mask, at)
        return self._read(batch, at, mask if guarded else None)

    def _read(self, batch: Batch, at: Address, mask: Mask | None) -> Bits:
        """The bytes at addresses of this buffer. mask: given where addresses of inactive lanes may be anywhere."""
        assert self.place is not None
        block = batch.wave.storage(self.place)
        return block.load(batch, self._in_block(batch, block, at), self.width, mask)

    def _in_block(self, look: Look, block: Storage, at: Address) -> Address:
        """The address as the storage of a batch counts it."""
        return at

    def to_write(self, at: Address, ctas: slice) -> Bits | None:
        """What lanes of some of the CTAs are about to write at an address; None of what is no plain store."""
        bits = self.pending(at) if callable(self.pending) else self.pending
        taken = numbers(ctas)
        if bits is None or self.writing is None or np.ndim(bits) < 3 or len(bits) in (1, len(taken)):
            return bits
        return bits[np.searchsorted(numbers(self.writing), taken)]

    def store(self, batch: Batch, mask: Mask, at: Address, bits: Bits) -> None:
        """Each active lane writes its ``bits``."""
        if self.place is None:
            for site, lanes, there in self.resolve(batch, mask, at):
                site.store(batch, lanes, there, bits)
            return
        self.pending = bits
        mask, guarded = self.reach(batch, mask, at)
        self.pending = None
        if guarded and mask.lanes == 0:
            return
        block = batch.wave.storage(self.place)
        there = self._in_block(batch, block, harmless(at, mask) if guarded else at)
        block.store(batch, there, self.width, bits, mask)

    def peek(self, batch: Batch, mask: Mask, at: Address) -> Bits:
        """The bytes at an address that is about to be written; no access of the kernel's."""
        return self._joined(
            (site._read(batch, there, site._within(batch, lanes, there)), lanes)
            for site, lanes, there in self._everywhere(batch, mask, at)
        )

    @staticmethod
    def _joined(parts: Iterable[tuple[Bits, Mask]]) -> Bits:
        """One array of what each lane found in the buffer that it points into."""
        (first, _), *others = parts
        bits: Bits = first
        for more, lanes in others:
            bits = np.where(lanes.full, more, bits)
        return bits

    def touch(self, batch: Batch, mask: Mask, at: Address) -> None:
        """The checks and counts before an access whose meaning moves the bytes itself; lanes outside are an error."""
        for site, lanes, there in self._everywhere(batch, mask, at):
            _, guarded = site.reach(batch, lanes, there)
            if guarded and site.escapes is None and site._outside(batch, lanes, there).any():
                what = told("{} outside of {}", operation(self.op), site.line.buffer)
                raise SimulationError(what, given=f"byte {int(there.full().max())}", at=self.at)

    def touch_all(self, batch: Batch, mask: Mask, every: Sequence[Address], of_one: Line) -> None:
        """`touch` for accesses that follow each other, of which nothing is outside of the buffer, or misaligned.

        of_one: what they add to the counts of one CTA.
        """
        self.line.add(of_one, batch.shape[0])
        mask = self._counted(mask)
        for hook in self.hooks:
            hook(batch, mask, *every)

    def counts_of_one(self, batch: Batch, every: Sequence[Address]) -> Line:
        """What accesses by all lanes add to the counts of one CTA, the same in all."""
        counter = replace(self, checks=())
        for at in every:
            counter.count(batch.single, Mask(batch.single.shape), at)
        return counter.line

    def touch_sized(self, batch: Batch, mask: Mask, at: Address, sizes: Array) -> None:
        """`touch` for an access of so many bytes in each lane; a lane with 0 touches nothing."""
        for size in np.unique(np.broadcast_to(sizes, mask.shape)[mask.full]).tolist():
            lanes = mask.narrowed(sizes == size) if size else None
            if lanes is not None:
                if self.place is not None and self.place.space == "shared":
                    self.stay_home(batch, lanes, at.full(), size)
                (self if size == self.width else self._sized(size)).touch(batch, lanes, harmless(at, lanes))

    def stay_home(self, batch: Batch, mask: Mask, offset: Ints, width: int) -> None:
        """Reports lanes that leave the buffer in shared memory which they point into. offset: in that of their CTA."""
        places, at = batch.wave.run.places, np.broadcast_to(offset, mask.shape)
        first, last = int(at[mask.full].min()), int(at[mask.full].max())
        home = self.home or places.shared_at(first)
        if self.escapes is None or (home.start <= first and last + width <= home.start + home.nbytes):
            return
        for start in np.unique(at[mask.full]).tolist():
            home = self.home or places.shared_at(start)
            outside = mask.full & (at == start)
            if not home.start <= start <= home.start + home.nbytes - width:
                site = replace(self, place=home, width=width, checks=())
                self.escapes(site, batch, outside, Address(0, Part(at)))

    def _sized(self, nbytes: int) -> Site:
        """This site for a narrower access."""
        if nbytes not in self._derived:
            self._derived[nbytes] = replace(self, width=nbytes, whole=self)
        return self._derived[nbytes]

    def _everywhere(self, batch: Batch, mask: Mask, at: Address) -> Iterable[tuple[Site, Mask, Address]]:
        return self.resolve(batch, mask, at) if self.place is None else [(self, mask, _in_window(at))]

    # Shadows: one flag per byte, for memories that have one

    def flags(self, batch: Batch, mask: Mask, at: Address) -> Bits:
        """The flags of what `load` just read; the address was looked at by it."""
        return self._joined(
            (site.shadow_bits(batch, lanes, there), lanes) for site, lanes, there in self._everywhere(batch, mask, at)
        )

    def shadow_bits(self, batch: Batch, mask: Mask, at: Address) -> Bits:
        """The flags at addresses of this buffer; arguments of the kernel are initialised."""
        assert self.place is not None
        flags = self._shadow_bits(batch, mask, at)
        dependence = batch.wave.run.dependence
        return flags if dependence is None else dependence.read(self, batch, flags)

    def _shadow_bits(self, batch: Batch, mask: Mask, at: Address) -> Bits:
        assert self.place is not None
        shadows = batch.wave.shadows
        if self.place.space == "global":
            return initialised(self.width)
        if not self.contains(batch, at):  # told by the check of bounds: what a lane finds there counts as initialised
            mask = Mask(mask.shape, mask.full & ~self._outside(batch, mask, at))
            if not mask.full.any():
                return initialised(self.width)
        block, there = shadows.storage(self.place), harmless(at, mask)
        flags = block.load(batch, self._in_block(batch, block, there), self.width)
        if self.at not in shadows.unset:
            shadows.note(self, mask, at, flags)
        return flags

    def store_flags(
        self, batch: Batch, mask: Mask, at: Address, flags: Bits | None, origin: Origin = (None, None)
    ) -> None:
        """Store the flags of what `store` just wrote; None stands for initialised bytes, all that an argument takes."""
        at = harmless(at, mask).shifted(-MULTICAST) if self.how.replicated else at  # one place stands for all
        for site, lanes, there in self._everywhere(batch, mask, at):
            site.put_flags(batch, lanes, there, flags, origin)

    def put_flags(self, batch: Batch, mask: Mask, at: Address, flags: Bits | None, origin: Origin) -> None:
        """Store the flags at addresses of this buffer."""
        assert self.place is not None
        shadows = batch.wave.shadows
        if (dependence := batch.wave.run.dependence) is not None:
            dependence.stored(self, batch, flags)
        if self.place.space == "global":
            if flags is not None:
                use = f"a store to {self.place.name}"
                shadows.require(batch, mask, flags, use, self.at, "a value", origin)
            return
        octets = initialised(self.width) if flags is None else np.atleast_3d(flags)
        block = shadows.storage(self.place)
        block.store(batch, self._in_block(batch, block, harmless(at, mask)), self.width, octets, mask)

    # Pointers of run time

    def resolve(self, batch: Batch, mask: Mask, at: Address) -> Iterator[tuple[Site, Mask, Address]]:
        """For each buffer that lanes point into: a site for it, those lanes, and their addresses in its window."""
        run, buffers = batch.wave.run, batch.wave.run.places.globals
        for window, lanes, there in by_window(mask, at):
            if window == SHARED_WINDOW and there.hi >> OFFSET_BITS and run.cluster_ctas > 1:
                yield from self._in_cluster(batch, lanes, there)
            elif window == LOCAL_WINDOW and len(run.places.local_starts) > 1:
                yield from self._in_locals(batch, lanes, there)
            elif there.hi >= FAR and window + 1 in buffers and not (run.ranks > 1 and window in buffers):
                for near, rest in ((0, lanes.narrowed(there.full() < FAR)), (1, lanes.narrowed(there.full() >= FAR))):
                    if rest is not None:  # those far off are below the start of the next buffer
                        moved = harmless(there.shifted(-near << WINDOW_BITS), rest)
                        yield self.inside(batch, window + near, moved, rest), rest, moved
            else:
                yield self.inside(batch, window, there, lanes), lanes, there

    def _in_cluster(self, batch: Batch, mask: Mask, at: Address) -> Iterator[tuple[Site, Mask, Address]]:
        """The same for lanes that point into the shared memory of CTAs of the cluster: their own one, and others."""
        full = np.broadcast_to(at.full(), batch.shape)
        rank = full >> OFFSET_BITS
        is_own = (rank == 0) | (rank == batch.wave.rank(batch.rows(1)) + 1)
        if (near := mask.narrowed(is_own)) is not None:
            there = harmless(Address(0, Part(full & (1 << OFFSET_BITS) - 1)), near)
            yield self.inside(batch, SHARED_WINDOW, there, near), near, there
        if (far := mask.narrowed(~is_own)) is not None:
            yield self.elsewhere(batch), far, harmless(Address(0, Part(full)), far)

    def _in_locals(self, batch: Batch, mask: Mask, at: Address) -> Iterator[tuple[Site, Mask, Address]]:
        """The same for lanes that point into variables of their threads, each perhaps into another one."""
        starts = batch.wave.run.places.local_starts
        number = np.maximum(np.searchsorted(starts, at.full(), side="right") - 1, 0)
        for place in np.unique(np.broadcast_to(number, mask.shape)[mask.full]).tolist():
            if (lanes := mask.narrowed(number == place)) is not None:
                there = harmless(at, lanes)
                yield self.inside(batch, LOCAL_WINDOW, there, lanes), lanes, there

    def elsewhere(self, batch: Batch) -> Site:
        """This site as it touches the shared memory of other CTAs of the cluster."""
        if Elsewhere not in self._derived:
            kept = {row.name: getattr(self, row.name) for row in fields(self) if row.init}
            self._derived[Elsewhere] = Elsewhere(**kept | {"place": batch.wave.run.places.arena, "checks": ()})
        return self._derived[Elsewhere]

    def inside(self, batch: Batch, window: int, at: Address, mask: Mask) -> Site:
        """This site as it touches the buffer at a window's address."""
        places = batch.wave.run.places
        if at.hi >= FAR and batch.wave.run.ranks > 1 and (place := places.globals.get(window)) is not None:
            raise SimulationError(
                told("{} through an address of all GPUs", operation(self.op)),
                given=f"a pointer into the multicast view of {place.name}",
                allowed="T.multimem.ld_reduce, T.multimem.st, T.multimem.red",
                hint=f"{place.name}.peer(rank), or {place.name} itself",
                at=self.at,
            )
        if not places.has_window(window):
            what, shown = (
                told("{} through a pointer to nowhere", operation(self.op)),
                f"address {(window << WINDOW_BITS) + at.lo:#x}",
            )
            allowed = "a pointer into a buffer of the kernel"
            raise batch.error("bounds", what, mask.full, self.at, given=shown, allowed=allowed)
        several = window == LOCAL_WINDOW
        place = places.at(window, int(np.broadcast_to(at.full(), mask.shape)[mask.full].min()) if several else 0)
        if place.name not in self._derived:
            self._derived[place.name] = replace(self, place=place)
        return self._derived[place.name]

    def lines(self) -> list[Line]:
        """What was counted here since `reset`, as lines that no later run changes."""
        others = [line for site in self._derived.values() for line in site.lines()]
        counted = self.line.accesses
        return [counted_as(self.line, nbytes=counted * self.width), *others] if counted else others

    def reset(self) -> None:
        """Count from zero again: a new run."""
        for name in COUNTED if self.line.accesses else ():
            setattr(self.line, name, 0)
        for site in self._derived.values():
            site.reset()


class Elsewhere(Site):
    """A site as it touches the shared memory of other CTAs; addresses are those of the cluster's window."""

    is_remote = True

    def reach(self, batch: Batch, mask: Mask, at: Address) -> tuple[Mask, bool]:
        mask = self._within(batch, mask, at)
        if not self.how.goes_on:
            if batch.wave.run.program.with_shadows:
                batch.wave.shadows.shared.part()
            batch.wave.run.events.reached(self, batch, mask, at)
        return mask, False

    def _within(self, batch: Batch, mask: Mask, at: Address) -> Mask:
        """Raises SimulationError for lanes beyond the shared memory of a CTA of the cluster, or beyond the cluster."""
        run, full = batch.wave.run, at.full()
        rank, offset = full >> OFFSET_BITS, full & (1 << OFFSET_BITS) - 1
        last = run.shared_bytes - self.width
        wrong = mask.full & ((rank > run.cluster_ctas) | (offset > last) | (offset % self.width != 0))
        if wrong.any():
            byte = first_of(offset, wrong)
            what = told("{} at byte {} of the shared memory of a CTA in the cluster", operation(self.op), byte)
            shown = where_text(batch, wrong)
            raise SimulationError(told("{}: it has {}", what, run.shared_bytes), given=shown, at=self.at)
        self.stay_home(batch, mask, offset, self.width)
        return mask

    def _in_block(self, look: Look, block: Storage, at: Address) -> Address:
        assert not isinstance(block, Registers), "it is shared memory"
        return Address(0, Part(across(look, block, np.broadcast_to(at.full(), look.shape))))


def _in_window(at: Address) -> Address:
    """A generic address as an offset in its window; an offset stays as it is."""
    window = at.lo + FAR >> WINDOW_BITS  # a pointer may be below the start of a buffer
    return at if window <= 0 else at.shifted(-(window << WINDOW_BITS))


def harmless(at: Address, mask: Mask) -> Address:
    """``at`` with the addresses of inactive lanes brought to that of an active one."""
    return at if mask.array is None else Address(0, Part(mask.harmless(at.full())))


def by_window(mask: Mask, at: Address) -> Iterator[tuple[int, Mask, Address]]:
    """For each window that active lanes point into: its number, those lanes, and their addresses in it."""
    first, last = at.lo >> WINDOW_BITS, at.hi >> WINDOW_BITS
    windows = [first]
    if first != last:
        windows = np.unique(np.broadcast_to(at.full(), mask.shape)[mask.full] >> WINDOW_BITS).tolist()
    for window in windows:
        lanes = mask if len(windows) == 1 else mask.narrowed(at.full() >> WINDOW_BITS == window)
        if lanes is not None:
            yield window, lanes, at.shifted(-(window << WINDOW_BITS))
