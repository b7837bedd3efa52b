"""What the names of ``T`` mean: those of the files around this one, and of the instruction table.

`T` imports this file when it is first asked for a name.
"""

from __future__ import annotations

from tilewright import layout
from tilewright.isa import INSTRUCTIONS
from tilewright.lang import functions, loops, memory, pool, scopes, settings, values
from tilewright.lang.instructions import instructions
from tilewright.lang.types import constexpr, let

__all__ = ["NAMES", "instruction_names", "instructions_at"]

NAMES: dict[str, object] = {"let": let, "constexpr": constexpr, "Axis": layout.Axis}
for _part in (functions, loops, memory, pool, scopes, settings, values):
    NAMES.update(_part.EXPORTS)
for _name in ("TileLayout", "SwizzleLayout", "ComposeLayout", "S", "R", "SwizzleMode", "Iter"):
    NAMES[_name] = getattr(layout, _name)


def instruction_names() -> set[str]:
    """``ptx``, ``cuda``, ``exp``: what the names of the table begin with."""
    return {name.partition(".")[0] for name in INSTRUCTIONS}


def instructions_at(name: str) -> object:
    """The instruction of this name, or the namespace of those that begin with it; None where there is neither."""
    return instructions(name) if name in instruction_names() else None
