"""What each CTA of a wave has, as one row that stands for all of them until two of them differ.

Most kernels have all CTAs do the same at the same places. What is kept of it (flags of initialised bytes, tags of
accesses) is then the same in all, and costs as much as that of one. Who reads never notices; who writes asks
`CtaRows.to_store` how, and the rows part at the first write at which CTAs differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Array, Bits, Ints
    from tilewright.sim.machine.batch import Look, Mask


class CtaRows:
    """data: (rows, ...), a row for each of ``ctas``, or one for all; those of what has a single row are one."""

    def __init__(self, data: Array, ctas: int) -> None:
        self.data = data
        self.ctas = ctas
        self.is_one = len(data) == 1  # is there one row?
        self.is_for_all = len(data) < ctas  # does it stand for several CTAs?

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.data)

    def at(self, rows: Ints) -> Ints:
        """Where the rows of CTAs are kept."""
        return np.zeros_like(rows) if self.is_one else rows

    def taken(self, look: Look) -> slice:
        """The rows of a batch's CTAs."""
        return slice(0, 1) if self.is_one else look.ctas

    def part(self, ctas: int = 0) -> None:
        """From now on each CTA has a row of its own. ctas: where it is not known before how many there are."""
        self.ctas = ctas or self.ctas
        if len(self.data) < self.ctas:
            self.data = np.repeat(self.data, self.ctas, axis=0)
            self.is_one = self.is_for_all = False
            self.parted()

    def parted(self) -> None:
        """Forget what was made of the one row."""

    def to_store(self, look: Look, mask: Mask, bits: Bits, *at: Address) -> tuple[Look, Mask, Bits]:
        """How to write ``bits`` where one row is for all: there if all CTAs write the same at the same places, else in
        the row of each.
        """
        bits, alike = np.atleast_3d(bits), look.as_one(mask, *at)
        if alike is not None and (len(bits) == 1 or (bits == bits[:1]).all()):
            return *alike, bits[:1]
        self.part()
        return look, mask, bits
