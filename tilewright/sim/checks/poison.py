"""Uninitialised values. Memories start poisoned; moves carry poison along; any other use of it is the error.

Flags in the memories' shadows say which bytes are initialised: see `tilewright.sim.machine.shadows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.ir.launch import RESERVED
from tilewright.sim.checks.base import Check, hear, register
from tilewright.sim.machine import Address, Batch, Bits, Hook, Mask, Shadows, Site, Wave
from tilewright.terms import operation, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.ir import Expr


@dataclass(frozen=True, eq=False)
class Need:
    """A place where a value must be initialised. what: its expression; use: for what."""

    what: Expr
    use: str
    at: Span | None

    def __call__(
        self, batch: Batch, mask: Mask, flags: Bits, site: Site | None = None, at: Address | None = None
    ) -> None:
        batch.wave.shadows.require(batch, mask, flags, self.use, self.at, self.what, (site, at))


class Poison(Check):
    def start(self, wave: Wave) -> None:
        wave.shadows = Shadows(wave)
        if (reserved := wave.run.places.by_name.get(RESERVED)) is not None:
            wave.shadows.shared.data[:, reserved.start : reserved.start + reserved.nbytes] = 1

    def watch(self, site: Site) -> Hook | None:
        """Instructions that look at memory, such as atomics, need it initialised."""
        if site.write or site.how.moves or site.how.goes_on or site.place is None or site.place.space == "global":
            return None

        use = told("an operand of {}", operation(site.op))

        def look(batch: Batch, mask: Mask, *every: Address) -> None:
            for at in every:
                flags = site.shadow_bits(batch, mask, at)
                batch.wave.shadows.require(batch, mask, flags, use, site.at, "memory", (site, at))

        return look


register("poison", "uninitialised values that are computed with, branched on, used as an address or returned", Poison)
hear("poison", use=Need)
