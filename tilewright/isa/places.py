"""What ld, st, atom and red have in common: the memory that an address leads into, the scope of threads, and the
dtypes.

Source: PTX ISA, "State Spaces" and "Memory Consistency Model: Scope".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError
from tilewright.ir import AddressOf
from tilewright.isa.arch import ARCHS, Requirement, since
from tilewright.isa.table import Bound, Mods, Spellings

__all__ = [
    "DEVICE",
    "EVERYWHERE",
    "GENERIC",
    "NO_SCOPE",
    "OWN",
    "SCOPES",
    "SHARED",
    "Scopes",
    "SpaceReach",
    "check_place",
    "everywhere",
    "nbytes",
    "newer",
    "scope_of",
    "sem_of",
]


class SpaceReach(NamedTuple):
    """A memory by its modifier ``space``: how it is spelled, what an `Access` calls it, what `execute` runs on."""

    spellings: Spellings
    space: str
    on: str
    first: str = "sm_75"


class Scopes(NamedTuple):
    """Values of the modifier ``scope`` that came with the same architecture."""

    spellings: Spellings
    first: str = "sm_75"


GENERIC = SpaceReach({None: ""}, "generic", "memory")
DEVICE = SpaceReach({"global": ".global"}, "global", "memory")
OWN: Spellings = {"shared": ".shared", "shared::cta": ".shared::cta"}  # the CTA's own shared memory
SHARED = (
    SpaceReach(OWN, "shared", "shared"),
    SpaceReach({"shared::cluster": ".shared::cluster"}, "shared", "shared", "sm_90"),
)
EVERYWHERE = (GENERIC, DEVICE, *SHARED)
NO_SCOPE = (Scopes({None: ""}),)
SCOPES = (Scopes({"cta": ".cta", "gpu": ".gpu", "sys": ".sys"}), Scopes({"cluster": ".cluster"}, "sm_90"))


def newer(*firsts: str) -> Requirement:
    """The requirement of the newest of these architectures."""
    return since(max(firsts, key=list(ARCHS).index))


def nbytes(mods: Mods) -> int:
    """The bytes of one element of the modifier ``dtype``."""
    return dtype(str(mods["dtype"])).bits // 8


def sem_of(mods: Mods) -> str:
    """The modifier ``sem`` as an `Access` has it."""
    return "relaxed" if mods["sem"] == "mmio" else str(mods["sem"])


def scope_of(mods: Mods) -> str:
    """The scope of a strong access; what names none is of the system."""
    return "" if mods["sem"] == "weak" else str(mods["scope"] or "sys")


def everywhere(
    scopes: tuple[Scopes, ...], reaches: tuple[SpaceReach, ...] = EVERYWHERE
) -> Iterator[tuple[SpaceReach, Scopes]]:
    """Each memory with each group of scopes."""
    for reach in reaches:
        for some in scopes:
            yield reach, some


def check_place(bound: Bound) -> None:
    """Raises InstructionError for a pointer into another memory than ``space`` names, or a short address there."""
    space, (pointer,) = bound.mods["space"], bound.operands["ptr"]
    shared = str(space).startswith("shared")
    if isinstance(pointer, AddressOf) and space is not None and (pointer.buffer.space == "shared") != shared:
        raise InstructionError(
            f"T.{bound.instruction.name}: space={space!r} and a pointer into {pointer.buffer.space} memory",
            given=str(pointer),
            allowed="space=None for any pointer",
        )
    if pointer.dtype.bits < 64 and not shared:
        raise InstructionError(
            f"T.{bound.instruction.name}: ptr is an address of 64 bits",
            given=f"{pointer}, {pointer.dtype}",
            allowed="a pointer; space='shared::cta' or 'shared::cluster' for an address in shared memory",
        )
