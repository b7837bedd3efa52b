"""Registers to registers of other threads, by a variant of `permute_layout`."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.tile.builder import Builder, inner_call, planned
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, constant_extents, only_in
from tilewright.tile.dispatch import Chosen, variant


@dataclass(frozen=True, slots=True)
class PermutedPlan:
    """chosen: the variant of `permute_layout`."""

    chosen: Chosen

    def summary(self) -> str:
        """``permute_layout/shuffles: 8 shuffles; cost 24``."""
        return f"permute_layout/{self.chosen.variant.name}: {self.chosen.plan.summary()}"


@variant("copy", priority=3, when=[only_in("local"), bits_only, constant_extents])
def permuted(call: TileCall) -> PermutedPlan:
    """The threads hand elements to those that hold them in the destination."""
    return PermutedPlan(planned(_permutation(call)))


def _permutation(call: TileCall) -> TileCall:
    return inner_call(call, "permute_layout", dict(call.sides))


@permuted.emit
def _(plan: PermutedPlan, call: TileCall, out: Builder) -> None:
    plan.chosen.write(_permutation(call), out)
