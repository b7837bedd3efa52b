"""A progress bar for a run, on the user's terminal."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tilewright.errors import Span

__all__ = ["Display"]

PATIENCE = 2.0  # seconds that a run may take before it shows a bar
TICK = 0.25  # seconds between two looks


class Display:
    """A bar on standard error, there from `PATIENCE` on until `close`. total: CTAs."""

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total
        self.due = monotonic() + PATIENCE
        self.bar: tuple[Progress, TaskID] | None = None

    def show(self, done: float, at: Span | None) -> None:
        """Show how many CTAs are done, counting parts of those that run; ``at`` is the line that runs."""
        now = monotonic()
        if now < self.due:
            return
        self.due = now + TICK
        words = f"{int(done):,} of {self.total:,} CTAs" + (f", at {at}" if at else "")
        bar, task = self.bar = self.bar or self._begun(words)
        bar.update(task, completed=done, words=words)
        bar.refresh()

    def _begun(self, words: str) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[words]}", markup=False),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
        )
        task = bar.add_task(f"simulating {self.name}", total=self.total, words=words)
        bar.start()
        return bar, task

    def close(self) -> None:
        """Takes the bar away."""
        if self.bar is not None:
            self.bar[0].stop()
