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

    def __post_init__(self) -> None:
        if self.meaning is not NOTHING and isinstance(self.meaning, AsyncMeaning) != self.goes_on:
            raise ValueError(f"{self.wording.template}: an AsyncMeaning is that of a form that begins an operation")

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
    def operation(self) -> AsyncMeaning:
        """What the operation means that it begins: its bytes come from its effects alone where it says nothing."""
        return self.meaning if isinstance(self.meaning, AsyncMeaning) else AsyncMeaning()

    @cached_property
    def asynchronous(self) -> bool:
        """Does the form issue, commit or wait for operations?"""
        return bool(self.issue or self.commit or self.wait)

    @property
    def is_copy(self) -> bool:
        """Do bytes go as they are from the access that it reads to the one that it writes?"""
        return self.meaning.moves and self.meaning.execute is None

    @cached_property
    def acts(self) -> bool:
        """Does the form do anything besides computing?"""
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
