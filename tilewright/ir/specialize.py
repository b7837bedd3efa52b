"""Kernels for one value of some of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.errors import KernelError, choices, described
from tilewright.ir.buffer import Buffer
from tilewright.ir.expr import Const, Expr, Value, Var, const_value
from tilewright.ir.stmt import Kernel
from tilewright.ir.walk import map_buffers, rewrite
from tilewright.layout import ComposeLayout, Layout, TileLayout


def specialized(kernel: Kernel, values: Mapping[str, Value]) -> Kernel:
    """The kernel with numbers in place of scalars that a call passes, and of symbolic extents, which it then lacks.

    Raises KernelError for a name that is none of these, and for what is no number.
    """
    pointers = {buffer.data for buffer in kernel.buffers}
    open_ = {var.name: var for var in (*kernel.params, *kernel.symbols) if var not in pointers}
    for name, value in values.items():
        if name not in open_ or const_value(value) is None:
            what = "a number" if name in open_ else choices(name, open_) or "none: all parameters are arrays"
            raise KernelError(f"{kernel.name}.specialize({name}=...)", given=described(value), allowed=what)

    def number(part: Expr) -> Expr | None:
        if isinstance(part, Var) and part.name in values and part.dtype == open_[part.name].dtype:
            return Const(const_value(values[part.name]), part.dtype)  # type: ignore[arg-type]  # checked above
        return None

    def relaid(buffer: Buffer) -> Buffer:
        return buffer if buffer.layout is None else replace(buffer, layout=_in_layout(buffer.layout, number))

    params, symbols = (tuple(v for v in part if v.name not in values) for part in (kernel.params, kernel.symbols))
    buffers = map_buffers(rewrite(kernel.buffers, number), relaid)
    body = map_buffers(rewrite(kernel.body, number), relaid)
    return replace(kernel, params=params, symbols=symbols, buffers=buffers, body=body)


def _in_layout(layout: Layout, number: Callable[[Expr], Expr | None]) -> Layout:
    """A layout with numbers in place of names in its extents, strides and offsets."""
    if isinstance(layout, ComposeLayout):
        return replace(layout, tile=_in_tile(layout.tile, number))
    return _in_tile(layout, number) if isinstance(layout, TileLayout) else layout


def _in_tile(layout: TileLayout, number: Callable[[Expr], Expr | None]) -> TileLayout:

    def known(value: Value) -> Value:
        made = rewrite(value, number) if isinstance(value, Expr) else value
        return made if const_value(made) is None else const_value(made)  # type: ignore[return-value]  # a number

    shard, replica = (
        tuple(replace(it, extent=known(it.extent), stride=known(it.stride)) for it in part)
        for part in (layout.shard, layout.replica)
    )
    return replace(layout, shard=shard, replica=replica)
