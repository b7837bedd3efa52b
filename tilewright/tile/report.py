"""The report: for each tile call of a kernel the variant that took it, and why others did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import Span
from tilewright.tile.dispatch import Chosen, Tried, Widens, alike

if TYPE_CHECKING:
    from tilewright.tile.call import TileCall

__all__ = ["DispatchReport", "Entry", "entry_of"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One tile call. call: as the kernel has it. variant: the chosen one; plan: its decision in a few words. tried: the
    variants before it, each with its reason and, for a near miss, a change of the call that makes it fit. widened: a
    change of the call that makes the chosen variant move more at a time.
    """

    at: Span | None
    primitive: str
    call: str
    scope: str
    variant: str
    plan: str
    tried: tuple[Tried, ...] = ()
    widened: str | None = None

    @property
    def line(self) -> int:
        """The kernel's line, 0 if it is not known."""
        return self.at.line if self.at else 0

    @property
    def hints(self) -> tuple[str, ...]:
        """Changes with which a better variant would have taken the call; if there are none, the chosen one's."""
        better = tuple(each.hint for each in self.tried if each.hint)
        return better or ((self.widened,) if self.widened else ())

    def __str__(self) -> str:
        head = f"{self.at}: {self.call}" if self.at else self.call
        lines = [head, f"  {self.primitive}/{self.variant}: {self.plan}"]
        lines += [f"    try: {self.widened}"] if self.widened else []
        for names, each in alike(self.tried, "reason", "hint"):
            lines.append(f"  not {names}: {each.reason}")
            lines += [f"    try: {each.hint}"] if each.hint else []
        return "\n".join(lines)

    __repr__ = __str__


def entry_of(call: TileCall, chosen: Chosen) -> Entry:
    """The entry of one call."""
    stmt, plan = call.stmt, chosen.plan
    widened = plan.widened if isinstance(plan, Widens) else None
    return Entry(
        stmt.at, stmt.primitive, call.text, stmt.scope, chosen.variant.name, plan.summary(), chosen.tried, widened
    )


@dataclass(frozen=True, slots=True)
class DispatchReport:
    """The entries of a kernel's tile calls, in the order of the kernel, for a target."""

    entries: tuple[Entry, ...] = ()
    kernel: str = ""
    target: str = ""

    def __str__(self) -> str:
        title = [f"{self.kernel} for {self.target}"] if self.kernel else []
        return "\n".join([*title, *(map(str, self.entries) if self.entries else ["no tile calls"])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from tilewright.view import preformatted  # upwards, and only when a notebook asks

        return preformatted(str(self))
