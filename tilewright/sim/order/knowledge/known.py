"""Knowledge that is handed on: of each thread the time up to which it is known, and flags of asynchronous operations.

For each operation there are flags:

    SEEN      it is complete, as a thread has seen or learnt from another one
    OFFERED   a fence before a meeting has put it in order for others
    HEARD     other threads have offered it, which any meeting hands on, also a relaxed one
    ORDERED   a fence after a meeting has put it before all that comes now
    FENCED    a proxy fence has come after it
    OVER      it is complete, as relaxed meetings tell, too: enough to end a CTA
    ISSUED    its thread has fenced before a meeting: it comes first for operations that keep the order of issue
    BEHIND    a fence after a meeting has put those that are issued now behind it

Where fences of kind sc are used, the flags have further bytes: of what a thread knows by way of such fences, for each
reach of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import is_, is_not
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.sim.machine import Bools, Ints

if TYPE_CHECKING:
    from tilewright.sim.order.knowledge.clocks import Clocks

FAR_TIMES = 1 << 21  # kept: of threads, of which it is remembered what they make together
FAR_CTAS = 1 << 17  # kept: what is known of whole CTAs

SEEN, OFFERED, HEARD, ORDERED, FENCED, OVER, ISSUED, BEHIND = 1, 2, 4, 8, 16, 32, 64, 128
BEGUN = 1  # a time before all accesses: whoever knows a thread up to then knows that its CTA has begun

Number = TypeVar("Number", bound=np.integer)
Times: TypeAlias = "NDArray[np.int32]"
Flags: TypeAlias = "NDArray[np.unsignedinteger]"
Value = TypeVar("Value")
Others: TypeAlias = "dict[int, Times]"  # CTA of another cluster -> (threads,)
Far: TypeAlias = "tuple[Others, ...]"  # of each block of columns that goes far; () for nothing


def published_flags(flags: Flags) -> Flags:
    """The flags that others get by meeting a thread with these flags: what is complete, fenced, and ordered of it."""
    if flags.shape[-1] == 1:  # where no operations are
        return flags
    own = flags.dtype.type(OFFERED | HEARD | ORDERED | BEHIND)
    return np.asarray(flags & ~own | (flags | flags << 1) & HEARD)


def joined(a: Far, b: Far) -> Far:
    """For each CTA and thread the later of two times: what both together know of other clusters. One of the two where
    that is all; such knowledge never changes, and many threads join the same two.
    """
    return _JOINED.of(_both, a, b) if a and b and a is not b else a or b


def _both(a: Far, b: Far) -> Far:
    both = tuple(map(joined_others, a, b))
    return next((one for one in (b, a) if all(map(is_, both, one))), both)


def joined_others(a: Others, b: Others) -> Others:
    """The same for one block."""
    return _OTHERS.of(_both_others, a, b) if a and b and a is not b else a or b


def _both_others(a: Others, b: Others) -> Others:
    few, many = (a, b) if len(a) < len(b) else (b, a)
    differ = compress(few, map(is_not, few.values(), map(many.get, few)))
    now = {cta: later(few[cta], many[cta]) if cta in many else few[cta] for cta in differ}
    new = {cta: times for cta, times in now.items() if times is not many.get(cta)}
    is_few = len(few) == len(many) and all(times is few[cta] and cta in many for cta, times in now.items())
    return (few if is_few else many | new) if new else many


def later(times: Times, mine: Times) -> Times:
    """The later of two times of each thread."""
    return _LATER.of(_later, times, mine)


def _later(times: Times, mine: Times) -> Times:
    latest = np.maximum(times, mine)
    return times if (latest == times).all() else mine if (latest == mine).all() else same(latest)


def same(times: Times) -> Times:
    """The one array for all equal ones, so that many share it, and what they make together is made once."""
    if len(_SAME) * len(times) >= FAR_TIMES:
        _SAME.clear()
    return _SAME.setdefault(times.tobytes(), times)


class Remembered(Generic[Value]):
    """What was made of two things that never change, by their identity. most: how many parts of it are kept; size: how
    many one has.
    """

    def __init__(self, most: int, size: Callable[[Value], int] = len) -> None:  # type: ignore[assignment]  # of all
        self.most = most
        self.size = size
        self.count = 0
        self._of: dict[tuple[int, int], tuple[Value, object, object]] = {}

    def of(self, make: Callable[..., Value], a: object, b: object) -> Value:
        """What is made of these, which are kept, so that their identities are not used again."""
        if (answer := self._of.get((id(a), id(b)))) is None:
            if self.count >= self.most:
                self._of.clear()
                self.count = 0
            answer = self._of[id(a), id(b)] = make(a, b), a, b
            self.count += self.size(answer[0])
        return answer[0]


def ctas_in(far: Far) -> int:
    """How many CTAs something is known of, each counted in every block."""
    return sum(map(len, far))


_SAME: dict[bytes, Times] = {}
_LATER: Remembered[Times] = Remembered(FAR_TIMES)
_OTHERS: Remembered[Others] = Remembered(FAR_CTAS)
_JOINED: Remembered[Far] = Remembered(FAR_CTAS, ctas_in)


@dataclass(eq=False)
class Known:
    """Knowledge on its way from thread to thread, n rows of it. threads: (n, threads of the cluster). parts: (n,
    numbers), flags.

    cluster: whose threads the columns are. far: of each row, what is known of other clusters; empty for nothing.
    """

    threads: Times
    parts: Flags
    cluster: Ints
    far: list[Far] = field(default_factory=list)

    def __getitem__(self, which: Ints | Bools | slice) -> Known:
        far = self.far
        if far:
            far = far[which] if isinstance(which, slice) else [far[k] for k in np.arange(len(far))[which].tolist()]
        return Known(self.threads[which], self.parts[which], self.cluster[which], far)

    @classmethod
    def nothing(cls, clocks: Clocks, ctas: Sequence[int]) -> Known:
        """Rows for CTAs of the grid, to be added to."""
        shape, flags = (len(ctas), clocks.width), clocks.parts
        cluster = np.array(ctas) // clocks.wave.run.cluster_ctas
        return cls(np.zeros(shape, np.int32), np.zeros((len(ctas), flags.shape[-1]), flags.dtype), cluster)

    def of_execution(self, size: int) -> Known:
        """The part of this knowledge that a relaxed meeting hands on. size: threads of a cluster."""
        parts = self.parts & (HEARD | OVER | ISSUED) | np.where(self.parts & SEEN, OVER, 0)
        return Known(begun(self.threads, size), np.asarray(parts, self.parts.dtype), self.cluster)


def begun(times: Times, size: int) -> Times:
    """Of this knowledge about the threads of a cluster of that size only that they have begun."""
    times_begun = np.zeros_like(times)
    times_begun[:, :size] = np.minimum(times[:, :size], BEGUN)
    return times_begun


def gather_at(combine: np.ufunc, table: NDArray[np.integer], rows: Ints, values: NDArray[np.integer]) -> None:
    """``combine.at(table, rows, values)`` for whole rows, of which some may come several times."""
    if not len(rows):
        return
    if (rows[1:] > rows[:-1]).all():
        table[rows] = combine(table[rows], values)
        return
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        rows, values = rows[order], values[order]
    (first,) = np.nonzero(np.diff(rows, prepend=-1))
    once, each = rows[first], len(rows) // len(first)
    if np.array_equal(first, np.arange(0, len(rows), each)):  # as many of each
        together = combine.reduce(values.reshape(len(once), each, -1), axis=1)
    else:
        together = combine.reduceat(values, first, axis=0)
    table[once] = combine(table[once], together)


class Ledger:
    """Published knowledge that may still be acquired, a row for each CTA of the wave."""

    def __init__(self, clocks: Clocks) -> None:
        rows = clocks.wave.ctas
        self.clocks = clocks
        self.threads: Times = np.zeros((rows, clocks.width), np.int32)
        self.parts: Flags = np.zeros((rows, clocks.parts.shape[-1]), clocks.parts.dtype)
        self.far: dict[int, Far] = {}
        clocks.kept.append(self)

    def add(self, rows: Ints, known: Known) -> None:
        """Publish more knowledge, each row of it at the CTA that ``rows`` says."""
        gather_at(np.maximum, self.threads, rows, known.threads)
        gather_at(np.bitwise_or, self.parts, rows, known.parts)
        for row, far in zip(rows.tolist(), known.far, strict=bool(known.far)):
            self.far[row] = joined(self.far.get(row, ()), far)

    def of(self, rows: Ints) -> Known:
        """What is published in rows."""
        far = [self.far.get(row, ()) for row in rows.tolist()] if self.far else []
        return Known(self.threads[rows], self.parts[rows], self.clocks.cluster_of(rows), far)

    def move_to(self, other: Ledger, rows: Ints) -> None:
        """Move what was published in one ledger to another."""
        other.add(rows, self.of(rows))
        self.clear(rows)

    def clear(self, rows: Ints) -> None:
        """Forget all that was published."""
        self.threads[rows], self.parts[rows] = 0, 0
        for row in rows.tolist() if self.far else ():
            self.far.pop(row, None)


def widened(flags: NDArray[Number], width: int) -> NDArray[Number]:
    """Flags, or what else there is for each number of a part, for more numbers."""
    if flags.shape[-1] == width:
        return flags
    return np.pad(flags, [(0, 0)] * (flags.ndim - 1) + [(0, width - flags.shape[-1])])
