"""Addresses that are no multiple of the access's width, at which hardware faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.checks.base import Check, register
from tilewright.sim.machine import buffer_name, coordinate_text, first_of, where_text
from tilewright.terms import operation, told

if TYPE_CHECKING:
    from tilewright.sim.machine import Address, Batch, Bools, Hook, Mask, Site, Subject


class Alignment(Check):
    def watch(self, site: Site) -> Hook | None:
        if site.width == 1:
            return None
        low = site.width - 1

        def look(batch: Batch, mask: Mask, *every: Address) -> None:
            for at in every:
                if at.bits & low:
                    misaligned(self.program, site, batch, mask.full, at)

        return look


def misaligned(program: Subject, site: Site, batch: Batch, lanes: Bools, at: Address) -> None:
    """Raise SimulationError for the first of some lanes whose address is misaligned."""
    full = np.broadcast_to(at.full(), batch.shape)
    bad = np.broadcast_to(lanes & (full & (site.width - 1) != 0), batch.shape)
    if not bad.any() or site.place is None:
        return
    address = first_of(full, bad)
    what, place = told("{}: a misaligned address in {}", operation(site.op), site.place.name), site.place
    element, allowed = coordinate_text(program, site, address), f"a multiple of {site.width} bytes"
    number = f"byte {address - place.start * (place.space != 'global')}"
    is_named = element != f"{buffer_name(program, site, address)}, {number}"
    shown = f"{element}{f', {number}' * is_named}, in {where_text(batch, bad)}"
    raise batch.error("alignment", what, bad, site.at, given=shown, allowed=allowed, buffer=place.name, place=element)


register("alignment", "addresses that are no multiple of the access's width", Alignment)
