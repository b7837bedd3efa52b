"""m-barriers as the manual describes them, one at a time, in plain Python. Shares nothing with the table but the layout
of the 64 bits, which is ours: `Barrier.word` writes it down once more.
"""

from __future__ import annotations

from dataclasses import dataclass

COVERED = {
    f"ptx.mbarrier.{name}"
    for name in (
        "init",
        "inval",
        "arrive",
        "arrive.expect_tx",
        "arrive.no_complete",
        "arrive_drop",
        "arrive_drop.expect_tx",
        "arrive_drop.no_complete",
        "pending_count",
        "expect_tx",
        "complete_tx",
        "test_wait",
        "test_wait.parity",
        "try_wait",
        "try_wait.state",
        "try_wait_once",
        "try_wait_once.state",
    )
}


@dataclass
class Barrier:
    """A phase is complete at the instant at which no arrival and no byte is pending."""

    expected: int
    pending: int = 0
    tx: int = 0
    phase: int = 0

    def __post_init__(self) -> None:
        self.pending = self.pending or self.expected

    def arrive(self, count: int = 1) -> None:
        self.pending -= count
        self._settle()

    def drop(self, count: int = 1) -> None:
        self.expected -= count
        self.arrive(count)

    def drop_expecting(self, nbytes: int) -> None:
        self.tx += nbytes
        self.drop()

    def expect(self, nbytes: int) -> None:
        self.tx += nbytes
        self._settle()

    def complete(self, nbytes: int) -> None:
        self.expect(-nbytes)

    def arrive_expecting(self, nbytes: int) -> None:
        self.tx += nbytes
        self.arrive()

    def is_over(self, parity: int) -> bool:
        return self.phase % 2 != parity

    def _settle(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected

    @property
    def word(self) -> int:
        """Bits 0-19 pending, 20-39 expected, 40-60 bytes, 61-62 phase, 63 alive."""
        return 1 << 63 | self.phase % 4 << 61 | self.tx % (1 << 21) << 40 | self.expected << 20 | self.pending
