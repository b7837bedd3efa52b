"""The 64 bits of an m-barrier: what arrivals and bytes do to them.

A phase ends when as many threads have arrived as `mbarrier.init` said, and all bytes that were announced
(`expect_tx`) have come (`complete_tx`); at that moment the next phase begins with the full count. A wait names a phase
by its parity, or by the state that an arrival returned. PTX leaves the 64 bits opaque; here they are

    bits 0-19    pending    arrivals that the phase still waits for
    bits 20-39   expected   arrivals of each phase
    bits 40-60   tx         bytes announced and not yet come; signed, since they may come first
    bits 61-62   phase      its number modulo 4: the parity is the lowest bit
    bit  63      alive      since `init`

so that memory holds the whole state. Waiting by parity cannot tell a phase from the one two before it: a thread that
falls two phases behind waits for the wrong one, here as on hardware.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine import Lanes
from tilewright.terms import Operand, Term, call, told

__all__ = [
    "INVALIDATED",
    "MBARRIER_LIMIT",
    "PhaseState",
    "announced",
    "announced_and_arrived",
    "announced_and_dropped",
    "arrived",
    "completed",
    "dropped",
    "fresh",
    "is_alive",
    "phase_of",
    "phase_state",
    "trouble",
]

MBARRIER_LIMIT = (1 << 20) - 1  # the most arrivals, and the most bytes either way

_ALIVE = np.uint64(1 << 63)
INVALIDATED, _OVERRUN, _TX_OUT_OF_RANGE = (np.uint64(0x4D62_0000_0000_0000 + code) for code in (1, 2, 3))
_TROUBLE = {  # the 64 bits: what is wrong, and what to do
    int(INVALIDATED): (
        "the m-barrier was invalidated",
        told("{} after its last use, or mbarrier.init again", Term("named", ("ptx.mbarrier.inval",))),
    ),
    int(_OVERRUN): (
        "the m-barrier got more arrivals than its phase waited for",
        "mbarrier.init with the count of all arrivals of a phase; or, where a thread arrives for the next phase, "
        "a wait for the end of this one before",
    ),
    int(_TX_OUT_OF_RANGE): (
        f"the bytes that the m-barrier waits for left -{MBARRIER_LIMIT}..{MBARRIER_LIMIT}",
        told("bytes announced once for each copy, by {}", Term("named", ("ptx.mbarrier.arrive.expect_tx",))),
    ),
}
_NEVER = (
    "the m-barrier was never initialised",
    told(
        "{} by one thread, and a barrier of all that use it behind that",
        call("ptx.mbarrier.init", Operand("bar"), Operand("count")),
    ),
)


class PhaseState(NamedTuple):
    """What the 64 bits of m-barriers say, each field an array; where one is not alive, the others mean nothing."""

    pending: NDArray[np.int64]
    expected: NDArray[np.int64]
    tx: NDArray[np.int64]
    phase: NDArray[np.int64]
    alive: NDArray[np.bool_]


def phase_state(words: Lanes) -> PhaseState:
    """The fields of m-barriers."""
    bits = np.asarray(words, np.uint64)

    def field(first: int, width: int) -> NDArray[np.int64]:
        return (bits >> np.uint64(first) & np.uint64((1 << width) - 1)).astype(np.int64)

    tx = field(40, 21)
    return PhaseState(field(0, 20), field(20, 20), tx - (tx >> 20 << 21), field(61, 2), (bits & _ALIVE) != 0)


def is_alive(words: Lanes) -> NDArray[np.bool_]:
    """Which m-barriers have been initialised, and not ended since?"""
    return np.asarray((words & _ALIVE) != 0)


def phase_of(words: Lanes) -> NDArray[np.int64]:
    """The phases of m-barriers, modulo 4."""
    return (np.asarray(words, np.uint64) >> np.uint64(61) & np.uint64(3)).astype(np.int64)


def trouble(word: int) -> tuple[str, str]:
    """What is wrong with the 64 bits of an m-barrier, and what to do; empty where it is alive."""
    return ("", "") if word >> 63 else _TROUBLE.get(word, _NEVER)


def fresh(count: Lanes) -> Lanes:
    """m-barriers in phase 0, with ``count`` arrivals to wait for and no bytes."""
    return _packed(count, count, 0, 0)


def _packed(pending: Lanes, expected: Lanes, tx: Lanes | int, phase: Lanes | int) -> Lanes:
    """An m-barrier that is alive, with these fields."""
    word: Lanes = np.asarray(_ALIVE)
    for value, first, width in ((pending, 0, 20), (expected, 20, 20), (tx, 40, 21), (phase, 61, 2)):
        word = word | (np.asarray(value) & ((1 << width) - 1)).astype(np.uint64) << np.uint64(first)
    return word


def _counted(word: Lanes, arrivals: Lanes | int, announced: Lanes | int, leaving: Lanes | int = 0) -> Lanes:
    """The m-barrier after so many arrivals and with so many more bytes to wait for; the phase ends if that was all.

    leaving: arrivals that later phases no longer wait for.

    A dead m-barrier stays as it is; one whose count leaves its range becomes dead, so that its next use is an error.
    """
    state = phase_state(word)
    pending, tx, expected = state.pending - arrivals, state.tx + announced, state.expected - leaving
    ends = (pending == 0) & (tx == 0)
    after = _packed(np.where(ends, expected, pending), expected, tx, (state.phase + ends) & 3)
    after = np.where(np.abs(tx) > MBARRIER_LIMIT, _TX_OUT_OF_RANGE, after)
    after = np.where(pending < 0, _OVERRUN, after)
    return np.where(state.alive, after, word)


def arrived(word: Lanes, count: Lanes) -> Lanes:
    """The m-barrier after ``count`` arrivals."""
    return _counted(word, count.astype(np.int64), 0)


def announced(word: Lanes, nbytes: Lanes) -> Lanes:
    """The m-barrier with ``nbytes`` more to wait for."""
    return _counted(word, 0, nbytes.astype(np.int64))


def completed(word: Lanes, nbytes: Lanes) -> Lanes:
    """The m-barrier after ``nbytes`` have come."""
    return _counted(word, 0, -nbytes.astype(np.int64))


def announced_and_arrived(word: Lanes, nbytes: Lanes) -> Lanes:
    """The m-barrier with ``nbytes`` more to wait for and one arrival less."""
    return _counted(word, 1, nbytes.astype(np.int64))


def dropped(word: Lanes, count: Lanes) -> Lanes:
    """The m-barrier after ``count`` arrivals of threads that no later phase waits for."""
    return _counted(word, count.astype(np.int64), 0, count.astype(np.int64))


def announced_and_dropped(word: Lanes, nbytes: Lanes) -> Lanes:
    """The m-barrier with ``nbytes`` more to wait for, and after the last arrival of a thread."""
    return _counted(word, 1, nbytes.astype(np.int64), 1)
