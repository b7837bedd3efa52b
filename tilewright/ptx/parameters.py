"""Parameters that lie in memory: each has an address as wide as all, and one of 32 bits among parameters alone.

Triton takes the latter, and makes the former of it by ``cvta.param``.
"""

from __future__ import annotations

from tilewright.ir import Expr, binary, const, select
from tilewright.ptx.bits import start_of
from tilewright.ptx.names import Memory, Scope, nbytes
from tilewright.ptx.state import UINT64, Lowering

FIRST, STEP = 64, 64  # bytes: no parameter is at 0, as a null pointer is


def place_of(low: Lowering, name: str) -> int | None:
    """The address of a parameter among parameters; None of what is no parameter in memory."""
    if name not in low.in_bytes:
        return None
    before = list(low.in_bytes.values())[: list(low.in_bytes).index(name)]
    return FIRST + sum(-(-nbytes(param) // STEP) * STEP for param in before)


def generic_address(low: Lowering, scope: Scope, address: Expr) -> Expr:
    """The address that an address among parameters stands for; one that is as wide as all stays as it is."""
    generic = address
    for name, declared in low.in_bytes.items():
        memory, place = scope.find(name), place_of(low, name)
        assert isinstance(memory, Memory)
        assert place is not None
        inside = address - const(place, UINT64)
        fits = binary("<", inside, const(nbytes(declared), UINT64))
        generic = select(fits, start_of(memory.buffer) + inside, generic)
    return generic
