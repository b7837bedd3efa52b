"""Register fragments, memory layouts, swizzles and regions, for property tests."""

from __future__ import annotations

from math import prod

from hypothesis import strategies as st

from tests.tile.kernels import buffer
from tilewright.dtypes import dtype
from tilewright.ir import Region
from tilewright.layout import Axis, ComposeLayout, Iter, Layout, R, S, SwizzleLayout, TileLayout

KINDS = ("uint8", "float16", "bfloat16", "float32", "float64", "float4_e2m1fn")
THREADS = {"thread": 1, "warp": 32, "warpgroup": 128, "cta": 64}
AXES: dict[str, list[list[str]]] = {
    "thread": [[]],
    "warp": [["laneid"]],
    "warpgroup": [["laneid"], ["wid_in_wg", "laneid"], ["tid_in_wg"], ["wid_in_wg"]],
    "cta": [["laneid"], ["warpid", "laneid"], ["tx"], ["warpid"]],
}
LENGTH = {"laneid": 32, "wid_in_wg": 4, "tid_in_wg": 128, "warpid": 2, "tx": 64}


@st.composite
def radix(draw: st.DrawFn, total: int) -> list[tuple[int, int]]:
    """Digits (extent, stride) that count to at most ``total``, now and then with gaps."""
    digits, stride = [], 1
    while stride < total and draw(st.integers(0, 4)):
        stride *= draw(st.sampled_from([1, 1, 1, 1, 2])) if stride * 2 <= total else 1
        extent = draw(st.sampled_from([e for e in (2, 4, 8, 16, 32) if stride * e <= total] or [1]))
        digits.append((extent, stride))
        stride *= extent
    return digits


@st.composite
def grouped(draw: st.DrawFn, extents: list[int]) -> tuple[int, ...]:
    """Neighbouring extents joined to a shape of at most three dimensions."""
    cuts = sorted(draw(st.lists(st.integers(0, len(extents)), max_size=2)))
    return tuple(prod(extents[a:b]) for a, b in zip([0, *cuts], [*cuts, len(extents)], strict=True))


@st.composite
def registers(draw: st.DrawFn, scope: str, most: int = 512) -> tuple[TileLayout, tuple[int, ...]]:
    """A layout of registers for a scope, its digits in any order, and a shape for it."""
    iters = [
        Iter(extent, stride, Axis.get(axis))
        for axis in draw(st.sampled_from(AXES[scope]))
        for extent, stride in draw(radix(LENGTH[axis]))
    ]
    room = max(1, most // prod([it.extent for it in iters]))
    stride = 1
    for extent in draw(st.lists(st.sampled_from([2, 2, 3, 4, 8]), max_size=4)):
        if stride * extent > min(room, 64):
            break
        iters.append(Iter(extent, stride))
        stride *= extent * draw(st.sampled_from([1, 1, 1, 2]))
    ordered = draw(st.permutations(iters)) if draw(st.booleans()) else iters
    layout = TileLayout(ordered or [Iter(1, 1)])
    if draw(st.integers(0, 9)) == 0 and scope == "cta" and "warpid" not in [a.name for a in layout.axes]:
        layout = TileLayout(layout + R[2 : 1 @ Axis.warpid]) if "tx" not in [a.name for a in layout.axes] else layout
    return layout, draw(grouped([it.extent for it in layout.shard]))


@st.composite
def memory_layouts(draw: st.DrawFn, shape: tuple[int, ...], bits: int) -> Layout:
    """A layout of a memory for a shape: its dimensions split, in any order, padded, swizzled."""
    digits: list[list[int]] = []
    for extent in shape:
        parts = []
        while extent > 1 and draw(st.booleans()):
            part = draw(st.sampled_from([p for p in range(2, extent + 1) if extent % p == 0]))
            parts.append(part)
            extent //= part
        digits.append([*parts, extent])
    flat = [extent for parts in digits for extent in parts]
    order = list(range(len(flat)))
    if draw(st.integers(0, 2)) == 0:
        order = draw(st.permutations(order))
    strides, stride = {}, 1
    for position in reversed(order):
        strides[position] = stride
        stride *= flat[position]
        if flat[position] > 1 and draw(st.integers(0, 5)) == 0:
            stride += draw(st.sampled_from([1, 2, 4, 8, 16]))
    tile = TileLayout([Iter(extent, strides[position]) for position, extent in enumerate(flat)])
    if draw(st.integers(0, 2)):
        return tile
    low = draw(st.sampled_from([m for m in (0, 1, 2, 3, 4) if 1 << m >= (2 if bits < 8 else 1)]))
    length = draw(st.integers(1, 3))
    return ComposeLayout(SwizzleLayout(low, length, length + draw(st.integers(0, 1))), tile)


Digits = dict[str, tuple[int, int, str]]  # extent, stride and axis of each


@st.composite
def fragments(
    draw: st.DrawFn, base: Digits, near: list[str], gaps: list[int], keep: int
) -> tuple[str, TileLayout, Layout, tuple[int, ...]]:
    """A register fragment and a shared layout over the same digits: rows of 16 bytes, or nearly so.

    base: the digits of a register or a few; near: those of a row, the innermost first. gaps: between rows. keep: bits
    of an element's number that a swizzle leaves alone.
    """
    scope = draw(st.sampled_from(["warp", "warpgroup", "cta"]))
    digits, stride = dict(base), prod(extent for extent, _, axis in base.values() if axis == "m")
    if scope == "warpgroup":
        digits["w"] = (4, 1, "wid_in_wg")
    elif scope == "cta" and draw(st.booleans()):
        digits["w"] = (2, 1, "warpid")
    outers = draw(st.lists(st.sampled_from([2, 2, 3, 4, 5]), max_size=3))
    for number, extent in enumerate(draw(st.permutations(outers))):
        digits[f"o{number}"] = (extent, stride, "m")
        stride *= extent * draw(st.sampled_from([1, 1, 1, 2]))
    order = draw(st.permutations(list(digits)))
    near = draw(st.sampled_from([near, near, near, near[:1], near[::-1], []]))
    far = draw(st.permutations([name for name in digits if name not in near]))
    strides, step = {}, 1
    for name in [*near, *far]:
        strides[name] = step
        step *= digits[name][0]
        if draw(st.integers(0, 11)) == 0:
            step += draw(st.sampled_from(gaps))
    if draw(st.integers(0, 15)) == 0:
        strides[draw(st.sampled_from(list(digits)))] = 0
    local = TileLayout([Iter(digits[n][0], digits[n][1], Axis.get(digits[n][2])) for n in order])
    shared = TileLayout([Iter(digits[n][0], strides[n]) for n in order])
    if draw(st.integers(0, 2)) == 0:
        length = draw(st.integers(1, 3))
        low = draw(st.sampled_from([keep, keep, keep, keep + 1, keep - 1]))
        swizzled = ComposeLayout(SwizzleLayout(low, length, length + draw(st.integers(0, 1))), shared)
        return scope, local, swizzled, tuple(digits[n][0] for n in order)
    return scope, local, shared, tuple(digits[n][0] for n in order)


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """All of a shape, or a part: of the registers, of the lanes, or of the warps."""
    box = tuple((0, extent) for extent in shape)
    if draw(st.integers(0, 3)):
        return box
    dim = draw(st.integers(0, len(shape) - 1))
    start = draw(st.integers(0, shape[dim] - 1))
    return (*box[:dim], (start, draw(st.integers(1, shape[dim] - start))), *box[dim + 1 :])


@st.composite
def regions(draw: st.DrawFn, name: str, space: str, shape: tuple[int, ...], kind: str) -> Region:
    """A region of this shape in a memory: the whole buffer, or a part of a larger one."""
    bits = dtype(kind).bits
    if draw(st.integers(0, 2)):
        return buffer(name, space, shape, draw(memory_layouts(shape, bits)), kind).region()
    before = [extent * draw(st.integers(0, 1)) for extent in shape]
    outer = tuple(
        start + extent + draw(st.sampled_from([0, 8, extent])) for start, extent in zip(before, shape, strict=True)
    )
    layout = draw(memory_layouts(outer, bits)) if draw(st.booleans()) else S[outer]
    return Region(buffer(name, space, outer, layout, kind), tuple(zip(before, shape, strict=True)))
