"""What a form makes of values: at once, or as an operation that goes on by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.isa.effects import Mods

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.isa.machine import Addresses, Lanes
    from tilewright.isa.products import Accumulator, MatrixProduct

__all__ = ["NOTHING", "RUNS_ON", "AsyncMeaning", "Meaning", "Undefined"]

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
