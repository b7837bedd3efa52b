"""Changes with which a product would be one by ``mma.sync``: other types, layouts that fit, sizes of whole pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.ir import row_major, same
from tilewright.layout import Axis, Layout, TileLayout, mma_fragment_layout
from tilewright.primitives.gemm import sides_of_matrix
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Change, Decline
from tilewright.tile.staging import fragment_of_a, fragment_of_b, in_order, like, warp_shares

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
    """The same call with one operand's registers laid out to fit the others; or with new layouts for all of them."""
    local = [name for name in _own(call) if call[name].space == "local"]
    for name in local:
        if name != "D":
            yield from _with(call, [name], sizes)
    yield from _with(call, local, sizes)


def whole_pieces(call: TileCall, sizes: Sizes) -> Iterator[Change]:
    """The same call with larger tiles, of these sizes."""
    spoken = " x ".join(str(sizes[dim]) for dim in "MNK")
    return _with(call, _own(call), sizes, f"M x N x K = {spoken}, with zeros in what is added")


def _own(call: TileCall) -> list[str]:
    """The operands, D first; C only if it is not D."""
    return ["D", "A", "B"] + ([] if same(call["C"].region, call["D"].region) else ["C"])


def _with(call: TileCall, names: list[str], sizes: Sizes, head: str = "") -> Iterator[Change]:
    """The call with new register buffers for these operands, laid out by `mma_fragment_layout` or as D asks."""
    for share, axis in (*warp_shares(call), (None, Axis.warpid)):
        words, changed = [head] if head else [], call
        try:
            for name in names:
                side, text = _remade(changed, name, sizes, share, axis)
                words += [text] if text else []
                changed = replace(changed, sides={**changed.sides, name: side})
        except (Decline, LayoutError):
            continue
        if "D" in names and "C" not in names and same(call["C"].region, call["D"].region):
            changed = replace(changed, sides={**changed.sides, "C": changed["D"]})
        yield Change("; ".join(words), changed)


def _remade(call: TileCall, name: str, sizes: Sizes, share: tuple[int, int] | None, axis: Axis) -> tuple[Side, str]:
    """An operand in a new buffer, and the text with which a user declares it, "" for row-major memory."""
    old, dims = call[name], sides_of_matrix(name, dict(call.config))
    turned = bool(call.option(f"transpose_{name}"))
    shape = tuple(sizes[dim] for dim in (dims[::-1] if turned else dims))
    layout = row_major(shape) if old.space != "local" else _fragment(call, name, shape, share, axis)
    text = (
        f"{_spelled(name, layout, shape, str(old.dtype), share, axis)} for {old.name}" if old.space == "local" else ""
    )
    if turned:
        assert isinstance(layout, TileLayout)
        grouped, separators = layout.group(shape)
        layout, shape = grouped.permute_by_groups(separators, (1, 0)), shape[::-1]
        text = f"{layout} for {old.name}" if text else ""
    buffer = replace(old.buffer, shape=shape, layout=layout, elem_offset=0)
    return side_of(buffer.region(), call.facts), text


def _fragment(
    call: TileCall, name: str, shape: tuple[int, ...], share: tuple[int, int] | None, axis: Axis
) -> TileLayout:
    kind = call[name].dtype
    if share is not None:
        return mma_fragment_layout(name, shape, str(kind), share, axis)
    if name == "C":
        return like(call, call["D"])
    if name == "D" or call["D"].space != "local":
        raise Decline("there is no D in registers after which others could be made")
    k = in_order(shape[1 if name == "A" else 0], max(1, 32 // kind.bits))
    return (fragment_of_a if name == "A" else fragment_of_b)(call, call["D"], k)


def _spelled(
    name: str, layout: Layout, shape: tuple[int, ...], kind: str, share: tuple[int, int] | None, axis: Axis
) -> str:
    """A layout by the name of its maker, where it is one of those."""
    if share is None:
        return str(layout)
    warps = f", warps={share}" if share != (1, 1) else ""
    where = f", axis={axis}" if axis.name != "warpid" and warps else ""
    return f'mma_fragment_layout("{name}", {shape}, "{kind}"{warps}{where})'
