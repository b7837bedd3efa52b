"""A form: how one shape of an instruction is written, where it exists, what it means, and what it does besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from keyword import iskeyword
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
    Keeps,
    Mods,
    ProxyFence,
    RegisterFence,
    Signal,
    Sync,
    Wait,
    counted,
    worded,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.isa.machine import Addresses, Lanes
    from tilewright.isa.products import Accumulator, MatrixProduct

# How a form is written: a template, with a hole for each modifier, and what the modifiers mean.


Spellings = Mapping[Any, str]  # what a modifier means (a Python value) -> how it is spelled

# Two forms that differ in whether a call gives an operand whose keyword has the default None.
LEFT_OUT: Spellings = {None: ""}
GIVEN: Spellings = {"given": ""}


def spoken(word: str) -> str:
    """A word of PTX as a row's name has it: Python keeps some for itself.

    >>> spoken("or"), spoken("xor")
    ('or_', 'xor')
    """
    return f"{word}_" if iskeyword(word) else word


@dataclass(frozen=True)
class Wording:
    """The words of a form: of `Ptx` or of `Cuda`.

    template: the text, with a ``{hole}`` per modifier. modifiers: for each, what it means -> how it is spelled;
    ``dtype`` is set by the operands of kind "typed".
    """

    template: str
    modifiers: Mapping[str, Spellings] = field(default_factory=dict)


@dataclass(frozen=True)
class Ptx(Wording):
    """A mnemonic of PTX. pattern: instead of the row's, where the operands of this form stand otherwise."""

    pattern: str = ""


@dataclass(frozen=True)
class Cuda(Wording):
    """An expression of C++, with a ``{hole}`` per operand, too.

    helper: C++ functions that the text uses, emitted once; it may be the name of an operand of kind "symbol" that has
    them.
    """

    helper: str = ""


# What a form makes of values: at once, or as an operation that goes on by itself.


RUNS_ON = {
    "": "nothing but its operands",
    "shared": "`Machine.shared`, the shared memory of the CTA",
    "memory": "`Machine.memory`, generic addresses",
    "machine": "the whole `Machine`",
}
"""What `Meaning.on` may be, and what `execute` then gets first."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """The values of ``operand`` with which an instruction ``does`` what leaves its result open; allowed: the others."""

    operand: str
    where: Callable[[Lanes], Lanes]
    does: str
    allowed: str


@dataclass(frozen=True, slots=True, eq=False)
class Unlisted:
    """Values of matrices that leave the result open. where: in which of the first axes; value: the first of them, in
    words; allowed: the others.
    """

    where: Lanes
    value: str
    allowed: str


@dataclass(frozen=True)
class Meaning:
    """What a form does with values, in arrays over the lanes of warps. Without `execute` it copies bytes, or nothing.

    on: a key of `RUNS_ON`. `execute` gets that first, see `tilewright.isa.machine`; then the operands it reads, in the
    order of the row's operands, as arrays (..., 32), vectors as (..., registers, 32); then the modifiers named in
    ``passes`` as keywords. It returns what it writes: the value of the call where there is a result, else the written
    operands, a tuple where there are several; arrays of 1 instead of 32 are equal in all lanes. Where each lane
    computes by itself (`ANY_LANES`) and ``on`` is "", arrays of any shapes that broadcast will do.

    moves: copies bits without looking at them, so that uninitialised bits travel along; with a read and a write access
    and no `execute`, the bytes of the first go to the second. Run on memory and registers whose bytes say 1 for valid
    and 0 for not, `execute` then gives the validity of what it writes; where bits do not stay in bytes of their own,
    `validity` does.
    blind: an operand that the result does not depend on.
    undefined: of a form that only computes, for which values of an operand its result is any.
    unlisted: gets what `execute` gets, returns which of it leaves the result open, or None.
    source_lane: where other lanes' values are read: gets what `execute` gets, returns the lane that each reads.
    ready: where a form may have to wait for others: gets what `execute` gets, returns in which lanes the form may run,
    and reserves for them what they waited for.

    Two faster ways to the same values, by the modifiers. of_lanes: of a form that only computes, each lane for itself,
    `execute` as a function of the operands alone. product: of a form that only multiplies matrices in registers, what
    `tilewright.isa.products` says of it.
    """

    execute: Callable[..., object] | None = None
    on: str = ""
    passes: tuple[str, ...] = ()
    moves: bool = False
    validity: Callable[..., object] | None = None
    blind: str = ""
    undefined: Undefined | None = None
    unlisted: Callable[..., Unlisted | None] | None = None
    source_lane: Callable[..., Lanes] | None = None
    ready: Callable[..., object] | None = None
    of_lanes: Callable[[Mods], Callable[..., Lanes]] | None = None
    product: Callable[[Mods], MatrixProduct | None] | None = None


@dataclass(frozen=True)
class AsyncMeaning(Meaning):
    """What an operation (`Issue`) does: it computes its addresses when it is issued, and executes when it completes.

    addresses: ``addresses(unit, *operands, **passes)`` gives the `Addresses` of computed and sized accesses by their
    operands' names. At completion `execute` gets what the read accesses found, in their order (uint8, an access's bytes
    along the last axis; cells of tensor memory as uint32), then the operands named in ``takes``, then registers that
    are read and written. It returns what goes to the written accesses, then what goes to the written registers. The
    first axis of all counts issuers: threads, whose operands are (n,) or (n, registers); warps, (n, 32) or (n,
    registers, 32); warpgroups, the same with 128. Without `execute`, the bytes of the one read access go to the one
    written.

    accumulator: of an operation of all lanes that updates one vector, the matrix in that vector and how the operation
    adds to it; None where only `execute` does it.
    joined: of several operations in a row that update the same registers, the sources of one operation that does the
    same, made from the list of their sources and the modifiers in ``passes``; None if there is none.
    """

    addresses: Callable[..., Mapping[str, Addresses]] | None = None
    takes: tuple[str, ...] = ()
    accumulator: Callable[[Mods], Accumulator | None] | None = None
    joined: Callable[..., list[NDArray[Any]] | None] | None = None


NOTHING = Meaning()  # of a form that has effects alone


_E = TypeVar("_E")


def _all(kind: type[_E]) -> cached_property[tuple[_E, ...]]:
    """The effects of one kind that a form declares."""
    return cached_property(lambda form: tuple(effect for effect in form.effects if isinstance(effect, kind)))


def _only(kind: type[_E]) -> cached_property[_E | None]:
    """The one effect of a kind that a form declares, None where it declares none."""
    return cached_property(lambda form: next((effect for effect in form.effects if isinstance(effect, kind)), None))


@dataclass(frozen=True)  # no slots: the cached properties need a dict
class Form:
    """One form of an instruction. Where it only has effects, it has no meaning of its own.

    source: the section of the manual.
    effects: what it does besides computing, see `tilewright.isa.effects`.
    registers: length of the vector operand, or of each by name.
    result: the dtype of the call's value, or the operand whose dtype it has, or the modifier that names it, or what
    tells PTX's word for its type from the modifiers.
    """

    wording: Ptx | Cuda
    arch: Requirement
    source: str
    meaning: Meaning = NOTHING
    effects: tuple[Effect, ...] = ()
    registers: Count | Mapping[str, Count] = 1
    result: DType | str | Callable[[Mods], str] = VOID

    touched = _all(Access)
    signals = _all(Signal)
    consults = _all(Consults)
    sync = _only(Sync)
    register_fence = _only(RegisterFence)
    issue = _only(Issue)
    commit = _only(Commit)
    wait = _only(Wait)
    keeps = _only(Keeps)

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """The accesses whose addresses are operands."""
        return tuple(access for access in self.touched if not access.computed)

    @cached_property
    def fence(self) -> Fence | ProxyFence | None:
        """The fence that the form is, if it is one; `fence_of` has its words."""
        return next((effect for effect in self.effects if isinstance(effect, Fence | ProxyFence)), None)

    def signal_of(self, *kinds: str) -> Signal | None:
        """The first signal of one of these kinds, if the form sends any."""
        return next((signal for signal in self.signals if signal.kind in kinds), None)

    @cached_property
    def begins_operation(self) -> bool:
        """Does something take place after the form was issued: an operation, or the signals of a commit?"""
        return self.issue is not None or (self.commit is not None and bool(self.signals))

    @cached_property
    def async_meaning(self) -> AsyncMeaning:
        """What takes place then; of a form without one the effects say all of it."""
        return self.meaning if isinstance(self.meaning, AsyncMeaning) else AsyncMeaning()

    @cached_property
    def concerns_operations(self) -> bool:
        """Does the form issue operations, commit them or wait for them?"""
        return bool(self.issue or self.commit or self.wait)

    @property
    def is_copy(self) -> bool:
        """Do bytes go as they are from the access that it reads to the one that it writes?"""
        return self.meaning.moves and self.meaning.execute is None

    @cached_property
    def does_more_than_compute(self) -> bool:
        """Does the form run on memory or on the machine, or have effects? The others may be repeated or left out."""
        return bool(self.meaning.on or self.effects)

    def fits(self, mods: Mods) -> bool:
        """True where every modifier has a spelling here."""
        try:
            return all(name in mods and mods[name] in table for name, table in self.wording.modifiers.items())
        except TypeError:  # unhashable, so no modifier
            return False

    def spellings(self, mods: Mods) -> dict[str, str]:
        """How each modifier is spelled."""
        return {name: table[mods[name]] for name, table in self.wording.modifiers.items()}

    def mnemonic(self, mods: Mods) -> str:
        """The opcode with its modifiers, ``ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16``."""
        return self.wording.template.format(**self.spellings(mods))

    def all_mods(self) -> Iterator[dict[str, Argument]]:
        """Every combination of modifiers, for tests and pages that walk the table."""
        combinations: list[dict[str, Argument]] = [{}]
        for name, table in self.wording.modifiers.items():
            combinations = [{**mods, name: value} for mods in combinations for value in table]
        yield from combinations

    def fence_of(self, mods: Mods) -> Fence | ProxyFence | None:
        """The fence that it is with these modifiers: all words are strings."""
        fence = self.fence
        if isinstance(fence, Fence):
            return Fence(worded(fence.sem, mods), worded(fence.scope, mods), fence.only)
        if isinstance(fence, ProxyFence):
            space, side, scope = (worded(word, mods) for word in (fence.space, fence.side, fence.scope))
            return ProxyFence(fence.proxy, space, side, scope, fence.at)
        return None

    def registers_of(self, operand: str, mods: Mods) -> int:
        """The length of the vector ``operand``."""
        counts = self.registers
        return counted(counts.get(operand, 1) if isinstance(counts, Mapping) else counts, mods)
