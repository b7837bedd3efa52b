"""How long a file and each of its kernels may take: in seconds of the processor, whatever else the machine does."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic, process_time

from tilewright.errors import SimulationError

KERNEL_SECONDS = 60.0  # of a kernel, where nobody has named a limit
FEWEST_SECONDS = 15.0  # of a kernel, as long as its file has them left
MOST_STRETCH = 8.0  # seconds that pass for one of the processor
SURE = 0.5  # seconds of the processor after which that is known
_BEGAN = monotonic(), process_time()


def on_the_wall(seconds: float) -> float:
    """Seconds that pass while the processor works so many for this process."""
    passed, worked = monotonic() - _BEGAN[0], process_time() - _BEGAN[1]
    return seconds * (min(max(1.0, passed / worked), MOST_STRETCH) if worked > SURE else 1.0)


@dataclass(frozen=True)
class KernelClock:
    """The time of one kernel. seconds: all of it, None where nothing bounds it."""

    seconds: float | None = None
    began: float = field(default_factory=process_time)

    def left(self) -> float | None:
        """Seconds of the processor. Raises SimulationError where none are left."""
        if self.seconds is None:
            return None
        left = self.began + self.seconds - process_time()
        if left <= 0:
            raise self.spent()
        return left

    def within(self, seconds: float | None) -> float | None:
        """Seconds that may pass until so many of the processor, or those that are left, are spent."""
        most = [several for several in (seconds, self.left()) if several is not None]
        return on_the_wall(min(most)) if most else None

    def spent(self) -> SimulationError:
        """The error of a kernel that takes longer."""
        seconds = f"{self.seconds:.0f} s of the processor"
        return SimulationError(f"not judged: it takes longer than {seconds}",
                               allowed="--limit 300s for more, --kernel NAME for one alone, or smaller sizes",
                               kind="limit")  # fmt: skip


@dataclass(frozen=True)
class FileClock:
    """The time of a file. most: seconds of one kernel."""

    seconds: float
    most: float = KERNEL_SECONDS
    began: float = field(default_factory=process_time)

    def share(self, kernels: int) -> KernelClock:
        """The time of the next one of so many kernels: what is left is divided among them."""
        left = max(self.began + self.seconds - process_time(), 0.0)
        return KernelClock(min(left, self.most, max(left / kernels, FEWEST_SECONDS)))
