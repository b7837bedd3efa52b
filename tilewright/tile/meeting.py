"""Scratch in shared memory, and barriers, for the threads of one tile call alone.

All CTA-wide calls share one place for their scratch: each ends with a barrier, so that the next one may write there.
Warps and warpgroups may be in different calls at a time; each of their calls has scratch of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from tilewright import isa
from tilewright.errors import DispatchError, Span
from tilewright.ir import AllocBuffer, Body, Buffer, Call, DeviceEntry, Kernel, ScopeId, Value, statements
from tilewright.ir.launch import special
from tilewright.ir.walk import expressions
from tilewright.records import replace
from tilewright.tile.walks import plus

if TYPE_CHECKING:
    from tilewright.ir import AddressOf
    from tilewright.tile.call import TileCall
    from tilewright.tile.scope import ControlFlow, ExecScope

LEAST_ALIGNMENT = 16  # bytes, of each part of a workspace
NAMED = range(1, 16)  # barrier 0 is that of the whole CTA

_OF_ITS_KIND: dict[str, Value] = {
    "warp": special("warpid"),
    "warpgroup": special("warpid") // 4,
    "cta": 0,
    "thread": special("tid"),
}


def which_of_its_kind(scope: ExecScope) -> Value:
    """The number of the calling warp or warpgroup in its CTA; 0 where there is one."""
    return _OF_ITS_KIND[scope.kind] if scope.cta_threads > scope.threads else 0


def in_workspace(call: TileCall, scratch: Buffer, taken: int) -> tuple[Buffer, int]:
    """``scratch`` as a view of the shared memory that the caller offers, and the bytes of it that are then in use.

    Raises DispatchError where ``workspace=`` offers none, or too little.
    """
    pairs = cast("tuple[tuple[str, AddressOf], ...]", call.option("workspace"))
    offered = [address.buffer for _, address in pairs]
    shared = next((buffer for buffer in offered if buffer.is_shared), None)
    if shared is None:
        raise DispatchError(
            f"{call.stmt.primitive} needs scratch memory, and workspace= offers none",
            given=", ".join(f"{buffer.name} in {buffer.space} memory" for buffer in offered),
            allowed="a buffer of shared memory; without workspace=, the compiler finds it",
        )
    begin = -(-taken // LEAST_ALIGNMENT) * LEAST_ALIGNMENT
    end = begin + scratch.storage_bytes()
    has = shared.storage_bytes()
    if end > has:
        raise DispatchError(
            f"workspace= is too small for {call.stmt.primitive}",
            given=f"{shared.name} of {has} bytes",
            allowed=f"at least {end} bytes of shared memory; without workspace=, the compiler finds it",
        )
    return replace(scratch, data=shared.pointer, elem_offset=begin * 8 // scratch.dtype.bits, align=0), end


class MeetingPlaces:
    """The scratch memory and the barriers of a kernel's tile calls. (Mutable.)"""

    def __init__(self, kernel: Kernel, control: ControlFlow) -> None:
        self.kernel, self.control = kernel, control
        self._scratch: list[AllocBuffer] = []

    def reserve(self, buffer: Buffer, scope: ExecScope, turn: int, at: Span | None) -> None:
        """Allocate shared memory for a call of this scope: the turn-th buffer of the call."""
        self._scratch.append(AllocBuffer(buffer, at=at, lies_with=f"cta {turn}" if scope.kind == "cta" else ""))

    @cached_property
    def barrier(self) -> Value:
        """The number of the calling warpgroup's barrier. Raises DispatchError where the kernel leaves none free."""
        groups = self.control.threads // 128
        taken = set(self._taken())
        starts = range(NAMED.start, NAMED.stop - groups + 1)
        free = [start for start in starts if not taken & set(range(start, start + groups))]
        if not free:
            raise DispatchError(
                "no barriers are left for the warpgroups",
                given=f"the kernel uses {', '.join(map(str, sorted(taken)))}",
                allowed=f"{groups} numbers in a row, of 1 to 15, that it does not use",
            )
        return plus(_OF_ITS_KIND["warpgroup"], free[-1]) if groups > 1 else free[-1]

    def _taken(self) -> Iterable[int]:
        """The barriers that the kernel names. Raises DispatchError where that depends on more than the thread."""
        for stmt in statements(self.kernel.body):
            for node in expressions(stmt):
                if not isinstance(node, Call):
                    continue
                bound = isa.bind(node)
                sync = bound.form.sync
                if sync is None or not sync.barrier:
                    continue
                value = self.control.value(bound.operands[sync.barrier][0])
                if value is None:
                    raise DispatchError(
                        "which barriers are free is not known",
                        given=f"`{node}`",
                        allowed="constants or arithmetic on scope ids, where tile calls need barriers of their own",
                        at=getattr(stmt, "at", None),
                    )
                yield from np.unique(np.asarray(value)).tolist()

    def placed(self, body: Body) -> Body:
        """``body`` with the scratch memory allocated at its start."""
        heads = [position for position, stmt in enumerate(body) if isinstance(stmt, (DeviceEntry, ScopeId))]
        start = heads[-1] + 1 if heads else 0
        return (*body[:start], *self._scratch, *body[start:])
