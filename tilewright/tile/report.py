"""What was decided, and why: one entry for each tile call of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import Span
from tilewright.tile.dispatch import Tried

__all__ = ["Entry", "Report"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One tile call. call: as the kernel has it. variant: the chosen one; plan: its decision in a few words. tried: the
    variants before it, each with its reason and, for a near miss, a change of the call that makes it fit.
    """

    at: Span | None
    primitive: str
    call: str
    scope: str
    variant: str
    plan: str
    tried: tuple[Tried, ...] = ()

    @property
    def line(self) -> int:
        """The kernel's line, 0 if it is not known."""
        return self.at.line if self.at else 0

    @property
    def hints(self) -> tuple[str, ...]:
        """Changes with which a better variant would have taken the call."""
        return tuple(each.hint for each in self.tried if each.hint)

    def __str__(self) -> str:
        head = f"{self.at}: {self.call}" if self.at else self.call
        lines = [head, f"  {self.primitive}/{self.variant}: {self.plan}"]
        for each in self.tried:
            lines.append(f"  not {each.variant}: {each.reason}")
            lines += [f"    try: {each.hint}"] if each.hint else []
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Report:
    """The entries of a kernel's tile calls, in the order of the kernel."""

    entries: tuple[Entry, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries)) or "no tile calls"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from tilewright.view import preformatted  # upwards, and only when a notebook asks

        return preformatted(str(self))
