"""Operations that touch shared memory: none of the CTAs that have it may end before, neither the issuer's nor others.

Source: PTX ISA, "Cluster: distributed shared memory"; "Asynchronous operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.bounds import REMOTE_OPERATIONS
from tilewright.sim.order.knowledge.known import OVER, SEEN
from tilewright.sim.order.reports.rules import ends_before_operation

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["RemoteOperations"]


class RemoteOperations:
    """Those of a wave, each with the numbers of its parts. read: the numbers of those whose sources have been read."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.issued: list[tuple[Operation, Ints]] = []
        self.read: set[int] = set()
        self._unread: dict[int, Bools] = {}  # by its number, those who issued an operation and have not waited

    def add(self, operation: Operation, own: Ints) -> None:
        """An operation begins."""
        if any(one.space == "shared" for one in operation.touched):
            if len(self.issued) >= REMOTE_OPERATIONS:
                self.issued = [each for each in self.issued if self._unknown(*each) is not None]
            self.issued.append((operation, own))

    def has_read(self, operation: Operation, over: Bools) -> None:
        """Some of those who issued an operation have waited until its sources are read, each in its own time."""
        left = self._unread.pop(operation.number, np.ones_like(over)) & ~over
        if left.any():
            self._unread[operation.number] = left
        else:
            self.read.add(operation.number)

    def renumber(self, operation: Operation, own: Ints) -> None:
        """What an operation writes has other numbers from now on."""
        if any(one.writes for one in operation.in_ctas):
            self.issued = [(each, own if each is operation else numbers) for each, numbers in self.issued]

    def forget(self, gone: list[int]) -> None:
        """Parts whose numbers are used again are known to be complete, or something later is."""
        self.issued = [each for each in self.issued if not set(each[1].tolist()) & set(gone)]

    def _unknown(self, operation: Operation, own: Ints) -> tuple[int, int] | None:
        """The number of an issuer, and the row of a CTA where no thread knows that its part is complete."""
        each, wave = operation.issuers.warps_each, self.clocks.wave
        for one in operation.in_ctas:
            if one.space == "tmem" or (not one.writes and operation.number in self.read):
                continue
            if one.ctas is not None:  # all in the CTAs of their issuers
                issuers = np.unique(one.issuer)
                rows = operation.issuers.rows[issuers]
            else:
                issuer = np.broadcast_to(one.along(one.issuer), one.rows.shape)
                issuers, rows = np.divmod(np.unique(issuer * wave.ctas + one.rows), wave.ctas)
            seen = (self.clocks.parts[rows, :, own[issuers * each]] & (SEEN | OVER)).any(1)
            if not seen.all():
                k = int(np.argmin(seen))
                return int(issuers[k]), int(rows[k])
        return None

    def closed(self) -> None:
        """The CTAs have ended. Raises SimulationError where one of them may have ended before an operation."""
        for operation, own in self.issued:
            if (found := self._unknown(operation, own)) is not None:
                seen = self.clocks.parts[:, :, own[found[0] * operation.issuers.warps_each]] & (SEEN | OVER)
                near = self.clocks.wave.rank(np.array(found[1]))
                cluster = slice(found[1] - int(near), found[1] - int(near) + self.clocks.wave.run.cluster_ctas)
                raise ends_before_operation(operation, *found, is_known=bool(seen[cluster].any()))
