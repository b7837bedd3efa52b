"""The costs of variants, of which the cheapest takes a call.

The unit is an issue slot of a warp: a plain instruction or a register move is 1, a shuffle 2, as it passes half as many
lanes in a cycle; an access to shared memory is as many as it needs wavefronts, and one for itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, TypeVar, cast

import numpy as np

from tilewright.tile.call import TileCall
from tilewright.tile.dispatch import VARIANTS, Decline
from tilewright.tile.walks import Ints

__all__ = ["SHUFFLE", "Costed", "cheapest", "matrix_wavefronts", "meeting_cost", "told", "vector_wavefronts"]

SHUFFLE = 2
BANKS, BANK_BYTES = 32, 4


class Costed(Protocol):
    """A plan with its cost, and the costs of other variants."""

    @property
    def cost(self) -> int: ...
    @property
    def others(self) -> tuple[tuple[str, int], ...]: ...


Made = TypeVar("Made", bound=Costed)


def meeting_cost(call: TileCall) -> int:
    """The cost of a barrier: about as long as a warp waits for the others."""
    return {"thread": 0, "warp": 4, "warpgroup": 20, "cta": 30}[call.scope.kind]


def cheapest(call: TileCall, name: str, plan: Made) -> Made:
    """The plan, with the costs of the other variants of the primitive. Raises Decline if one of them costs less.

    A call that names its variant has no other.
    """
    if call.stmt.dispatch is not None:
        return plan
    others: list[tuple[str, int]] = []
    for other in VARIANTS[call.stmt.primitive].variants:
        if other.name == name:
            continue
        try:
            rival = other.plan(replace(call, stmt=replace(call.stmt, dispatch=other.name)))
        except Decline:
            continue
        others.append((other.name, cast(Costed, rival).cost))
    if (least := min(others, key=lambda pair: pair[1], default=None)) is not None and least[1] < plan.cost:
        raise Decline(f"it costs {plan.cost} issue slots of a warp, {least[0]} {least[1]}")
    return replace(plan, others=tuple(others))  # type: ignore[type-var]  # a dataclass


def told(plan: Costed) -> str:
    """``cost 3, scratch 12, shuffles 22``."""
    return ", ".join([f"cost {plan.cost}", *(f"{name} {cost}" for name, cost in plan.others)])


def wavefronts(addresses: Ints, nbytes: int, lanes: int) -> int:
    """Wavefronts of a warp's accesses to these byte addresses, (threads, rounds), of ``nbytes`` each.

    The lanes of a phase go at a time, and each bank gives one word at a time. The mean over several warps.
    """
    inside = np.arange(max(1, nbytes // BANK_BYTES))
    total = 0
    for first in range(0, len(addresses), lanes):
        words = addresses[first : first + lanes] // BANK_BYTES
        total += sum(_busiest(np.unique(np.add.outer(column, inside))) for column in words.T)
    return -(-total // max(1, len(addresses) // 32))


def vector_wavefronts(addresses: Ints, nbytes: int) -> int:
    """Wavefronts of vector accesses: those of 8 or 16 bytes go in two or four turns."""
    return wavefronts(addresses, nbytes, max(1, min(32, BANKS * BANK_BYTES // nbytes)))


def matrix_wavefronts(addresses: Ints, elements: int) -> int:
    """Wavefronts of matrix copies: ``elements`` of each lane make a register, the registers of all lanes a matrix."""
    threads, count = addresses.shape
    each = addresses.reshape(-1, 32, count // elements, elements).swapaxes(1, 2)
    total = sum(_busiest(np.unique(one // BANK_BYTES)) for one in each.reshape(-1, 32 * elements))
    return -(-total * 32 // int(threads))


def _busiest(words: Ints) -> int:
    """The number of words in the bank that has the most of them."""
    most: int = np.bincount(words % BANKS).max().item()
    return most
