"""A form: how one shape of an instruction is written, where it exists, what it means, and what it does besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

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
    counted,
    worded,
)
from tilewright.isa.meanings import NOTHING, AsyncMeaning, Meaning
from tilewright.isa.wording import Cuda, Ptx

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Form"]

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

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """The accesses whose addresses are operands."""
        return tuple(access for access in self.touched if not access.computed)

    @cached_property
    def fence(self) -> Fence | ProxyFence | None:
        """The fence that the form is, if it is one; `fence_of` has its words."""
        return next((one for one in self.effects if isinstance(one, Fence | ProxyFence)), None)

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
            space, side, scope = (worded(one, mods) for one in (fence.space, fence.side, fence.scope))
            return ProxyFence(fence.proxy, space, side, scope, fence.at)
        return None

    def registers_of(self, operand: str, mods: Mods) -> int:
        """The length of the vector ``operand``."""
        counts = self.registers
        return counted(counts[operand] if isinstance(counts, Mapping) else counts, mods)
