"""Registers to registers of any thread, through shared memory, in a layout of it without bank conflicts.

Two copies do it, each by the variant that takes it: vectors, or stmatrix and ldmatrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from tilewright.dtypes import DType
from tilewright.layout import ComposeLayout, Iter, Layout, S, SwizzleLayout, TileLayout
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import by_several, constant_extents, only_in
from tilewright.tile.dispatch import (
    Chosen,
    Decline,
    cheapest,
    matrix_wavefronts,
    meeting_cost,
    told,
    variant,
    vector_wavefronts,
)
from tilewright.tile.distribution import Distribution
from tilewright.tile.matrices import MatrixPlan
from tilewright.tile.owners import owners
from tilewright.tile.partition import places
from tilewright.tile.steps import CallSteps, emit_steps, in_steps, inner_call, staging


@dataclass(frozen=True, slots=True, eq=False)
class ThroughScratch:
    """The copy to scratch memory and the one from there."""

    steps: CallSteps
    cost: int
    others: tuple[tuple[str, int], ...] = ()

    def summary(self) -> str:
        """``through shared memory as S[...]: ...; cost 40``."""
        ways = ", then ".join(f"{step.variant.name} {step.plan.summary()}" for step in self.steps.chosen)
        return f"through shared memory as {self.steps.scratch['memory'].side.buffer.layout}: {ways}; {told(self)}"


@variant("permute_layout", priority=10, when=[only_in("local"), by_several, constant_extents])
def scratch(call: TileCall) -> ThroughScratch:
    """Threads store to shared memory, meet, and load what they need."""
    best: ThroughScratch | None = None
    reason = ""
    shape = tuple(extent for extent in call["dst"].shape if extent != 1) or (1,)
    for layout in _layouts(shape, call.dtype):
        room = staging(call, shape, call.dtype, layout)
        try:
            steps = in_steps(call, _copies, {"memory": room})
            ends = zip(steps.chosen, ("src", "dst"), strict=True)
            cost = sum(_cost(call, room.side, copy, name) for copy, name in ends) + 2 * meeting_cost(call)
        except Decline as declined:
            reason = declined.reason
            continue
        if best is None or cost < best.cost:
            best = ThroughScratch(steps, cost)
    if best is None:
        raise Decline(reason)
    return cheapest(call, "scratch", best)


def _layouts(shape: tuple[int, ...], kind: DType) -> Iterator[Layout]:
    """Row-major and column-major memory, plain, padded and swizzled by 16 bytes."""
    rows, columns = prod(shape[:-1]), shape[-1]
    vector = max(1, 128 // kind.bits)
    yield S[shape]
    for outer, inner, turned in ((rows, columns, False), (columns, rows, True)):
        if min(outer, inner) == 1:
            continue
        pitches = (inner, -(-inner // vector) * vector + vector, inner + max(1, 32 // kind.bits))
        for pitch in pitches:
            yield TileLayout([Iter(rows, 1), Iter(columns, pitch)] if turned else [Iter(rows, pitch), Iter(columns, 1)])
        period = vector.bit_length() - 1
        bits = min(3, (inner // vector).bit_length() - 1)
        if not turned and inner & (inner - 1) == 0 and bits > 0:
            shift = max(bits, (inner // vector).bit_length() - 1)
            yield ComposeLayout(SwizzleLayout(period, bits, shift), S[rows, columns])


def _copies(call: TileCall, scratch: Mapping[str, Side]) -> tuple[TileCall, TileCall]:
    store = inner_call(call, "copy", {"dst": scratch["memory"], "src": call["src"]})
    return store, inner_call(call, "copy", {"dst": call["dst"], "src": scratch["memory"]})


def _cost(call: TileCall, memory: Side, chosen: Chosen, name: str) -> int:
    """The cost of one of the two copies, for a warp."""
    plan = chosen.plan
    held = owners(call, call[name], loading=name == "dst")
    bits = call.dtype.bits
    addresses = places(memory, call.facts).seen[0][held.elements] * bits // 8
    if isinstance(plan, MatrixPlan):
        return plan.rounds + matrix_wavefronts(addresses, 32 // bits)
    assert isinstance(plan, Distribution)
    return plan.rounds + vector_wavefronts(addresses[:, :: plan.vector], plan.nbytes)


scratch.emit(lambda plan, call, out: emit_steps(plan.steps, call, out))
