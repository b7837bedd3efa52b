"""The value that a call fills a tile with."""

from __future__ import annotations

from tilewright.ir import Buffer, Const, Expr, cast
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall


def filling(call: TileCall, out: Builder) -> Expr:
    """The value, computed once; 0 for a call that names none."""
    value = call.scalars.get("value", cast(0, call.dtype))
    return value if isinstance(value, Const) else out.let("value", value)


def filling_run(call: TileCall, out: Builder, length: int) -> Buffer:
    """Registers that hold the value so many times: what a wide access stores."""
    value, run = filling(call, out), out.local("run", length, str(call.dtype))
    with out.loop("e", length) as e:
        out.store(run.flat(), e, value)
    return run.flat()
