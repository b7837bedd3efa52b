"""Changes with which a product would be one by ``mma.sync``: other types, layouts that fit, sizes of whole pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.ir import row_major
from tilewright.layout import Layout, TileLayout, mma_fragment_layout
from tilewright.primitives.gemm import sides_of_matrix
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Change, Decline
from tilewright.tile.staging import fragment_of_a, fragment_of_b, in_order, like, shared_out, warp_shares

__all__ = ["other_layouts", "other_types", "whole_pieces"]

Sizes = Mapping[str, int]


def other_types(call: TileCall, sums: Iterable[str]) -> Iterator[Change]:
    """The same call with tf32 for float32, or with sums of another type."""
    if call["A"].dtype == call["B"].dtype == "float32":
        text = 'dtype "tf32" for A and B: of float32 mma reads the 19 bits of that'
        yield Change(text, _typed(call, "AB", "tf32"))
    for kind in sums:
        yield Change(f'dtype "{kind}" for {call["D"].name}', _typed(call, "DC", kind))


def _typed(call: TileCall, names: str, kind: str) -> TileCall:
    sides = {name: _retyped(call, side, kind) if name in names else side for name, side in call.sides.items()}
    return replace(call, sides=sides)


def _retyped(call: TileCall, side: Side, kind: str) -> Side:
    region = replace(side.region, buffer=replace(side.buffer, dtype=dtype(kind)))
    return side_of(region, call.facts)


def other_layouts(call: TileCall, sizes: Sizes) -> Iterator[Change]:
    """The same call with one operand in registers as the others ask for it; or with all of them made anew."""
    local = [name for name in "ABC" if call[name].space == "local" and call[name] is not call["D"]]
    for name in local:
        yield from _with(call, [name], sizes)
    if call["D"].space == "local":
        yield from _with(call, ["D", *local], sizes)


def whole_pieces(call: TileCall, sizes: Sizes) -> Iterator[Change]:
    """The same call with larger tiles, of these sizes."""
    spoken = " x ".join(str(sizes[dim]) for dim in "MNK")
    yield from _with(call, list(call.sides), sizes, f"M x N x K = {spoken}, with zeros in what is added")


def _with(call: TileCall, names: list[str], sizes: Sizes, head: str = "") -> Iterator[Change]:
    """The call with these operands as they should be, D first."""
    words = [head] if head else []
    aliased = [name for name in names if name != "D" and call[name] is call["D"]]
    try:
        for name in sorted(set(names) - set(aliased), key="DABC".index):
            layout = _wanted(call, name, sizes)
            words += (
                [f"{_spelled(call, name, layout, sizes)} for {call[name].name}"] if call[name].space == "local" else []
            )
            call = replace(call, sides={**call.sides, name: _remade(call, name, layout, sizes)})
    except (Decline, LayoutError):
        return
    call = replace(call, sides={**call.sides, **{name: call["D"] for name in aliased}})
    yield Change("; ".join(words), call)


def _extents(call: TileCall, name: str, sizes: Sizes) -> tuple[int, ...]:
    return tuple(sizes[dim] for dim in sides_of_matrix(name, dict(call.config)))


def _wanted(call: TileCall, name: str, sizes: Sizes) -> Layout:
    """The layout for an operand that goes with D."""
    if call[name].space != "local":
        return row_major(_extents(call, name, sizes))
    if name == "D":
        return shared_out(call, sizes)
    d = call["D"] if call["D"].space == "local" else _remade(call, "D", shared_out(call, sizes), sizes)
    if name == "C":
        return like(call, d)
    k = in_order(sizes["K"], 32 // call[name].dtype.bits)
    layout = (fragment_of_a if name == "A" else fragment_of_b)(call, d, k)
    if not call.option(f"transpose_{name}"):
        return layout
    grouped, separators = layout.group(_extents(call, name, sizes)[::-1])
    return grouped.permute_by_groups(separators, (1, 0))


def _remade(call: TileCall, name: str, layout: Layout, sizes: Sizes) -> Side:
    """An operand in a buffer of its own."""
    old = call[name]
    space = (
        "local"
        if isinstance(layout, TileLayout) and any(axis.is_thread() for axis in layout.axes)
        else old.buffer.space
    )
    data = old.buffer.data if space == "global" else None
    buffer = replace(
        old.buffer, shape=_extents(call, name, sizes), layout=layout, space=space, data=data, elem_offset=0
    )
    return side_of(buffer.region(), call.facts)


def _spelled(call: TileCall, name: str, layout: Layout, sizes: Sizes) -> str:
    """A layout by the name of its maker, where it is one of those."""
    extents = _extents(call, name, sizes)
    for share, axis in warp_shares(call):
        try:
            made = mma_fragment_layout(name, extents, str(call[name].dtype), share, axis)
        except LayoutError:
            continue
        if made == layout and not call.option(f"transpose_{name}"):
            warps = f", warps={share}" if share != (1, 1) else ""
            where = f", axis={axis}" if axis.name != "warpid" and warps else ""
            return f'mma_fragment_layout("{name}", {extents}, "{call[name].dtype}"{warps}{where})'
    return str(layout)
