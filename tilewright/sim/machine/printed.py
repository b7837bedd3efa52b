"""What kernels print, as far as a GPU would keep it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.host import bytes_text

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = ["Printed"]

MOST_BYTES = 1 << 20  # CUDA C++ Programming Guide, "Formatted Output": the default size of printf's buffer


@dataclass(slots=True)
class Printed:
    """The output of a run. lost: lines beyond `MOST_BYTES`, which are not even made; at: the first that lost some."""

    lines: list[str] = field(default_factory=list)
    nbytes: int = 0
    lost: int = 0
    at: Span | None = None

    def add(self, count: int, line: Callable[[int], str], at: Span | None) -> None:
        """``count`` lines that the kernel's line ``at`` prints."""
        for number in range(count):
            if self.nbytes >= MOST_BYTES:
                self.at = self.at or at
                self.lost += count - number
                return
            self.lines.append(line(number))
            self.nbytes += len(self.lines[-1])

    def warnings(self) -> list[str]:
        """What is missing."""
        kept = f"the first {len(self.lines):,} are kept, {bytes_text(MOST_BYTES)} as on a GPU"
        return [f"{self.at}: printf: {len(self.lines) + self.lost:,} lines, of which {kept}"] if self.lost else []
