"""Tiles as stretches of bytes: the longest that are contiguous in both memories, for copies of any number of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from tilewright.isa import lookup
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.dispatch import Decline
from tilewright.tile.distribution import Distribution, all_found, in_memory_order
from tilewright.tile.hints import alignments, check_target
from tilewright.tile.partition import Places, places, run_problem, tracked
from tilewright.tile.walks import Ints

__all__ = ["StretchPlan", "emit_stretch", "plan_stretches"]

UNIT = 16  # bytes; the addresses and the length of a stretch are multiples of it
COPY, REDUCE = "ptx.cp_async.bulk", "ptx.cp_reduce_async.bulk"


@dataclass(frozen=True, slots=True)
class StretchPlan:
    """row: of the instruction that moves each stretch. share: where they are, for one thread. op: how the elements are
    combined with what is there, if they are.
    """

    row: str
    share: Distribution
    op: str = ""

    def summary(self) -> str:
        """``g2s_cta: 4 stretches of 512 bytes``."""
        count, nbytes = self.share.rounds, self.share.nbytes
        many = f"{count} stretches of {nbytes} bytes" if count > 1 else f"a stretch of {nbytes} bytes"
        return f"{self.row.rpartition('.')[2]}: {many}{f', {self.op}' if self.op else ''}"


def plan_stretches(call: TileCall, way: str) -> StretchPlan:
    """The fewest stretches that move the tile this way, see `tilewright.isa.bulk`. Raises Decline."""
    op = str(call.option("use_tma_reduce") or "")
    row = f"{REDUCE if op else COPY}.{way}"
    forms = lookup(row).forms
    check_target(call, row.removeprefix("ptx."), forms[0])
    kinds = [
        kind for form in forms if op in form.wording.modifiers.get("op", ()) for kind in form.wording.modifiers["kind"]
    ]
    if op and str(call.dtype) not in kinds:
        raise Decline(f"no bulk copy combines {call.dtype} by {op} there", allowed=", ".join(map(str, kinds)))
    if op and call.option("cache_hint"):
        raise Decline("a bulk copy that combines has no cache_hint", allowed="one of cache_hint= and use_tma_reduce=")
    return StretchPlan(row, _stretches(call), op)


def emit_stretch(plan: StretchPlan, call: TileCall, out: Builder, *operands: object, **modifiers: object) -> None:
    """The copy of one of them. operands: destination and source, and what follows the number of bytes."""
    dst, src, *more = operands
    combined = (plan.op, str(call.dtype)) if plan.op else ()
    out.call(plan.row, dst, src, plan.share.nbytes, *more, *combined, **modifiers)


def _stretches(call: TileCall) -> Distribution:
    """The fewest in the order of the destination's addresses, or if that follows no pattern before its swizzle."""
    found = [(name, side, places(side, call.facts)) for name, side in call.sides.items()]
    before, where = in_memory_order(call["dst"]), dict((name, where) for name, _, where in found)["dst"]
    known = len(where.units) == 1 and where.longest_run is None
    orders = [np.argsort(where.seen[0], kind="stable"), before] if known and where.swizzle else [before]
    made = [_in_order(call, found, order) for order in orders]
    share = next((one for one in made if one is not None), None)
    if share is None:
        raise Decline(f"the stretches of {call['dst'].name} and {call['src'].name} follow no common pattern")
    return share


def _in_order(call: TileCall, found: Sequence[tuple[str, Side, Places]], order: Ints) -> Distribution | None:
    """The stretches of elements in this order; None where they follow no pattern. Raises Decline."""
    unit = 8 * UNIT // call.dtype.bits
    for _, side, where in found:
        if trouble := run_problem(call, side, where, order, unit):
            allowed = f"stretches of a multiple of {UNIT} bytes, aligned to {UNIT}, contiguous in both memories"
            changes = (change for _, side, where in found for change in alignments(call, side, where, unit))
            raise Decline(trouble, allowed=allowed, changes=changes)
    length = gcd(len(order), *(_unbroken(where, order) for _, _, where in found))
    starts = order[::length]
    offsets = all_found((name, tracked(call, side, where, starts, [])) for name, side, where in found)
    nbytes = length * call.dtype.bits // 8
    return None if offsets is None else Distribution(length, nbytes, len(starts), offsets)


def _unbroken(where: Places, order: Ints) -> int:
    """The most elements after multiples of which all gaps in one memory come."""
    steps = np.diff(where.seen[:, order], axis=1)
    gaps = np.flatnonzero((steps[0] != 1) | steps[1:].any(0)) + 1
    return gcd(where.longest_run or 0, *gaps.tolist())
