"""A form: how one shape of an instruction is spelled, where it exists, what it does besides, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tilewright.dtypes import VOID, DType
from tilewright.ir import Argument
from tilewright.isa.arch import Requirement
from tilewright.isa.effects import (
    Access,
    Commit,
    Consults,
    Count,
    Effect,
    Fence,
    Issue,
    Mods,
    ProxyFence,
    RegisterFence,
    Signal,
    Sync,
    Wait,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.isa.machine import Addresses, Lanes
    from tilewright.isa.products import Accumulator, MatrixProduct

__all__ = ["GIVEN", "LEFT_OUT", "RUNS_ON", "Form", "Spellings", "Undefined"]

Spellings = Mapping[Any, str]  # what a modifier means (a Python value) -> how it is spelled

RUNS_ON = {
    "": "nothing but its operands",
    "shared": "`Machine.shared`, the shared memory of the CTA",
    "memory": "`Machine.memory`, generic addresses",
    "machine": "the whole `Machine`",
}
"""What `Form.on` may be, and what `execute` then gets first."""

# Two forms that differ in whether a call gives an operand whose keyword has the default None.
LEFT_OUT: Spellings = {None: ""}
GIVEN: Spellings = {"given": ""}


_E = TypeVar("_E")


@dataclass(frozen=True, slots=True)
class Undefined:
    """The values of ``operand`` with which an instruction ``does`` what leaves its result open; allowed: the others."""

    operand: str
    where: Callable[[Lanes], Lanes]
    does: str
    allowed: str


@dataclass(frozen=True)  # no slots: the cached properties need a dict
class Form:
    """One form of an instruction. Its meaning is one of: `execute`, a plain copy of bytes, or effects alone.

    text: the PTX mnemonic with a ``{hole}`` per modifier, or a C++ expression with a ``{hole}`` per operand and
    modifier when ``language`` is "cuda".
    modifiers: for each, what it means -> how it is spelled; ``dtype`` is set by the operands of kind "typed".
    helper: C++ functions that the text uses, emitted once; it may be the name of an operand of kind "symbol" that has
    them.
    registers: length of the vector operand, or of each by name.

    on: a key of `RUNS_ON`. `execute` gets that first, see `tilewright.isa.machine`; then the operands it reads, in the
    order of the row's operands, as arrays (..., 32), vectors as (..., registers, 32); then the modifiers named in
    ``passes`` as keywords. It returns what it writes: the value of the call where there is a ``result``, else the
    written operands, a tuple where there are several; arrays of 1 instead of 32 are equal in all lanes. Where each lane
    computes by itself (`ANY_LANES`) and ``on`` is "", arrays of any shapes that broadcast will do.
    result: the dtype of the call's value, or the operand whose dtype it has, or the modifier that names it, or what
    tells PTX's word for its type from the modifiers.
    undefined: of a form that only computes, for which values of an operand its result is any.
    meaning: of a form that only computes, each lane for itself: the function of its operands that these modifiers make
    of `execute`, for callers that run it often.
    effects: what it does besides computing, see `tilewright.isa.effects`.
    moves: copies bits without looking at them, so that uninitialised bits travel along; with a read and a write access
    and no `execute`, the bytes of the first go to the second. Run on memory and registers whose bytes say 1 for valid
    and 0 for not, `execute` then gives the validity of what it writes; where bits do not stay in bytes of their own,
    `validity` does.
    blind: an operand that its result does not depend on.
    source_lane: of a form that reads other lanes' values: gets what `execute` gets, returns the lane that each reads.
    pattern: instead of the row's, where this form's operands stand otherwise.
    product: of a form that only multiplies matrices in registers, what `tilewright.isa.products` says of it.
    accumulator: of an operation of all lanes that updates one vector, the matrix in that vector and how the operation
    adds to it; None where only `execute` does it.
    ready: of a form that may have to wait for others: gets what `execute` gets, returns in which lanes the form may
    run, and reserves for them what they waited for.
    addresses, takes: of an operation (`Issue`), whose `execute` has other arguments: ``addresses(unit, *operands,
    **passes)`` gives the `Addresses` of computed and sized accesses by their operands' names when it is issued. At
    completion ``execute`` gets what the read accesses found, in their order (uint8, an access's bytes along the last
    axis; cells of tensor memory as uint32), then the operands named in ``takes``, then registers that are read and
    written. It returns what goes to the written accesses, then what goes to the written registers. The first axis of
    all counts issuers: threads, whose operands are (n,) or (n, registers); warps, (n, 32) or (n, registers, 32);
    warpgroups, the same with 128. Without `execute`, the bytes of the one read access go to the one written.
    joined: of several operations in a row that update the same registers, the sources of one operation that does the
    same, made from the list of their sources and the modifiers in ``passes``; None if there is none.
    source: the section of the manual.
    """

    text: str
    arch: Requirement
    source: str
    modifiers: Mapping[str, Spellings] = field(default_factory=dict)
    execute: Callable[..., object] | None = None
    on: str = ""
    passes: tuple[str, ...] = ()
    registers: Count | Mapping[str, Count] = 1
    effects: tuple[Effect, ...] = ()
    moves: bool = False
    blind: str = ""
    validity: Callable[..., object] | None = None
    addresses: Callable[..., Mapping[str, Addresses]] | None = None
    joined: Callable[..., list[NDArray[Any]] | None] | None = None
    takes: tuple[str, ...] = ()
    product: Callable[[Mods], MatrixProduct | None] | None = None
    accumulator: Callable[[Mods], Accumulator | None] | None = None
    ready: Callable[..., object] | None = None
    source_lane: Callable[..., Lanes] | None = None
    language: str = "ptx"
    helper: str = ""
    pattern: str = ""
    result: DType | str | Callable[[Mods], str] = VOID
    meaning: Callable[[Mods], Callable[..., Lanes]] | None = None
    undefined: Undefined | None = None

    def __post_init__(self) -> None:
        if self.on not in RUNS_ON:
            raise ValueError(f"{self.text} cannot run on {self.on!r}")

    def _all(self, kind: type[_E]) -> tuple[_E, ...]:
        return tuple(effect for effect in self.effects if isinstance(effect, kind))

    def _only(self, kind: type[_E]) -> _E | None:
        return next(iter(self._all(kind)), None)

    @cached_property
    def touched(self) -> tuple[Access, ...]:
        """The accesses that the form declares."""
        return self._all(Access)

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """The accesses whose addresses are operands."""
        return tuple(access for access in self.touched if not access.computed)

    @cached_property
    def sync(self) -> Sync | None:
        """The meeting of threads that the form declares, if any."""
        return self._only(Sync)

    @cached_property
    def fence(self) -> Fence | ProxyFence | None:
        """The fence that the form is, if it is one."""
        return self._only(Fence) or self._only(ProxyFence)

    @cached_property
    def register_fence(self) -> RegisterFence | None:
        """The register fence that the form is, if it is one."""
        return self._only(RegisterFence)

    @cached_property
    def signals(self) -> tuple[Signal, ...]:
        """The signals that the form sends to m-barriers."""
        return self._all(Signal)

    @cached_property
    def signal(self) -> Signal | None:
        """The last signal that the form sends to an m-barrier."""
        return self.signals[-1] if self.signals else None

    @cached_property
    def issue(self) -> Issue | None:
        """The operation that the form begins, if it does."""
        return self._only(Issue)

    @cached_property
    def consults(self) -> tuple[Consults, ...]:
        """What an operation reads as it begins."""
        return self._all(Consults)

    @cached_property
    def commit(self) -> Commit | None:
        """The commit that the form declares, if any."""
        return self._only(Commit)

    @cached_property
    def wait(self) -> Wait | None:
        """The wait for operations that the form declares, if any."""
        return self._only(Wait)

    @cached_property
    def goes_on(self) -> bool:
        """Does the form begin, commit or signal something that takes place after it was issued?"""
        return self.issue is not None or (self.commit is not None and bool(self.signals))

    @cached_property
    def asynchronous(self) -> bool:
        """Does the form issue, commit or wait for operations?"""
        return bool(self.issue or self.commit or self.wait)

    @cached_property
    def acts(self) -> bool:
        """Does the form do anything besides computing?"""
        return bool(self.on or self.effects)

    def fits(self, mods: Mods) -> bool:
        """True where every modifier has a spelling here."""
        try:
            return all(name in mods and mods[name] in table for name, table in self.modifiers.items())
        except TypeError:  # unhashable, so no modifier
            return False

    def spellings(self, mods: Mods) -> dict[str, str]:
        """How each modifier is spelled."""
        return {name: table[mods[name]] for name, table in self.modifiers.items()}

    def mnemonic(self, mods: Mods) -> str:
        """The opcode with its modifiers, ``ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16``."""
        return self.text.format(**self.spellings(mods))

    def all_mods(self) -> Iterator[dict[str, Argument]]:
        """Every combination of modifiers, for tests and pages that walk the table."""
        combinations: list[dict[str, Argument]] = [{}]
        for name, table in self.modifiers.items():
            combinations = [{**mods, name: value} for mods in combinations for value in table]
        yield from combinations

    def count(self, what: Count, mods: Mods) -> int:
        """A number that may depend on the modifiers."""
        return what(mods) if callable(what) else what

    def word(self, what: Word, mods: Mods) -> str:
        """A word that may depend on the modifiers."""
        return what(mods) if callable(what) else what

    def fence_of(self, mods: Mods) -> Fence | ProxyFence | None:
        """The fence that it is with these modifiers: all words are strings."""
        fence = self.fence
        if isinstance(fence, Fence):
            return Fence(self.word(fence.sem, mods), self.word(fence.scope, mods), fence.only)
        if isinstance(fence, ProxyFence):
            space, side, scope = (self.word(one, mods) for one in (fence.space, fence.side, fence.scope))
            return ProxyFence(fence.proxy, space, side, scope, fence.at)
        return None

    def registers_of(self, operand: str, mods: Mods) -> int:
        """The length of the vector ``operand``."""
        counts = self.registers
        return self.count(counts[operand] if isinstance(counts, Mapping) else counts, mods)
