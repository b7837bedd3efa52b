"""What each CTA of a wave has, as one row that stands for all of them until two of them differ.

Most kernels have all CTAs do the same at the same places. What is kept of it (flags of initialised bytes, tags of
accesses, clocks) is then the same in all, and costs as much as that of one. Who reads never notices; who writes asks
`CtaRows.to_store` how, or has the rows part at the first change at which CTAs differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim.machine import Address, Bits, Ints, Look, Mask

__all__ = ["CtaRows"]


class CtaRows:
    """tables: names of the arrays (rows, ...), which have a row for each of ``ctas``, or one for all."""

    tables: ClassVar[tuple[str, ...]] = ("data",)

    def __init__(self, rows: int, ctas: int) -> None:
        self.rows = rows
        self.ctas = ctas
        self.is_one = rows == 1  # is there one row?
        self.is_for_all = rows < ctas  # does it stand for several CTAs?

    def at(self, rows: Ints) -> Ints:
        """Where the rows of CTAs are kept."""
        return np.zeros_like(rows) if self.is_one else rows

    def taken(self, look: Look) -> slice:
        """The rows of a batch's CTAs."""
        return slice(0, 1) if self.is_one else look.ctas

    def part(self) -> None:
        """From now on each CTA has a row of its own."""
        if self.is_for_all:
            for name in self.tables:
                setattr(self, name, np.repeat(getattr(self, name), self.ctas, axis=0))
            self.rows, self.is_one, self.is_for_all = self.ctas, False, False
            self.parted()

    def parted(self) -> None:
        """What was made of the one row is forgotten, or parts, too."""

    def to_store(self, look: Look, mask: Mask, bits: Bits, *at: Address) -> tuple[Look, Mask, Bits]:
        """How to write ``bits`` where one row is for all: there if all CTAs write the same at the same places, else in
        the row of each.
        """
        bits, alike = np.atleast_3d(bits), look.as_one(mask, *at)
        if alike is not None and (len(bits) == 1 or (bits == bits[:1]).all()):
            return *alike, bits[:1]
        self.part()
        return look, mask, bits
