"""Copies to tensor memory find a fit whenever there is one, and put every byte where the layouts say.

The oracle is evaluated on `table()` and plain loops, without any of the planner's code. D(lane, byte) is the shared
byte that belongs there. A shape fits when D is made of its instructions, each beginning at a whole column and at a lane
that brings its rows to lanes of their own: all bytes that it writes are in D, copies of a row have one source, and the
sources of all instructions are where one descriptor (leading, stride, swizzle) has them, each from a start of its own.
"""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.isa.descriptor_oracles import SPAN, byte_address
from tests.isa.tma_oracles import swizzled
from tests.isa.tmem_oracles import SIZES, lanes_of_row
from tests.samples import sampled
from tests.tile.kernels import buffer, by_one_thread, copy_async, extents, kernel, tensor
from tests.tile.oracle import placed
from tests.tile.tmem_machine import TmemMachine
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import Buffer, Region
from tilewright.layout import Axis, ComposeLayout, Iter, Layout, SwizzleLayout, TileLayout

Bytes = dict[tuple[int, int], int]
VARIANTS = {
    "tcgen05_cp": [("32x128b", "warpx4")],
    "tcgen05_cp_128": [("128x256b", ""), ("128x128b", "")],
    "tcgen05_cp_64": [("64x128b", "warpx2::02_13"), ("64x128b", "warpx2::01_23")],
    "tcgen05_cp_4": [("4x256b", "")],
}
ARENA = 4096  # where the shared buffer is: a multiple of every swizzle's period


def wanted(dst: Region, src: Region) -> Bytes | None:
    """D, or None where two elements go to one place."""
    to, source = placed(dst), placed(src)["m"][:, 0]
    nbytes = dst.buffer.dtype.bits // 8
    found: Bytes = {}
    for element, lanes in enumerate(to["TLane"].tolist()):
        for lane, column in zip(lanes, to["TCol"][element].tolist(), strict=True):
            for byte in range(nbytes):
                if (lane, column * nbytes + byte) in found:
                    return None
                found[lane, column * nbytes + byte] = ARENA + int(source[element]) * nbytes + byte
    return found


def instructions(needs: Bytes, shape: tuple[str, str]) -> list[list[list[int]]] | None:
    """The sources of the 16-byte units, [instruction][row][unit], if D is made of instructions of this shape."""
    rows, width = SIZES[shape[0]]
    left = dict(needs)
    found = []
    while left:
        byte, lane = min((byte, lane) for lane, byte in left)
        first = lane if shape[0] == "4x256b" else 0
        if byte % 4 or first >= 32:
            return None
        units = []
        for row in range(rows):
            sources = []
            for copy_lane in lanes_of_row(*shape, row):
                places = [(first + copy_lane, byte + step) for step in range(width)]
                if not left.keys() >= set(places):
                    return None
                sources.append([left.pop(place) for place in places])
            if any(each != sources[0] for each in sources):
                return None
            units.append(sources[0][::16])
            for unit in range(0, width, 16):
                start = sources[0][unit]
                if start % 16 or sources[0][unit : unit + 16] != list(range(start, start + 16)):
                    return None
        found.append(units)
    return found


def descriptor(atoms: list[list[list[int]]], width: int) -> tuple[int, int, int] | None:
    """Leading, stride and swizzle of a descriptor that leads to all of them."""
    for mode in SPAN:
        first = [[swizzled(unit, mode) for unit in row] for row in atoms[0][:9]]
        stride = first[8][0] - first[0][0] if len(first) > 8 else 0
        leading = first[0][1] - first[0][0] if width == 32 else 0
        if not 0 <= stride < 1 << 18 or (mode == 0 and not 0 <= leading < 1 << 18):
            continue
        if all(_reaches(units, leading, stride, mode, width) for units in atoms):
            return leading, stride, mode
    return None


def _reaches(units: list[list[int]], leading: int, stride: int, mode: int, width: int) -> bool:
    start = swizzled(units[0][0], mode)
    if mode and start % SPAN[mode] + width > SPAN[mode]:  # a row stays inside the width of the swizzle
        return False
    return all(
        byte_address(start, leading, stride, mode, row, 16 * unit) == source
        for row, sources in enumerate(units)
        for unit, source in enumerate(sources)
    )


def fitting(needs: Bytes | None, variant: str) -> tuple[str, str] | None:
    """The first shape of the variant that fits."""
    if not needs:
        return None
    for shape in VARIANTS[variant]:
        atoms = instructions(needs, shape)
        if atoms is not None and descriptor(atoms, SIZES[shape[0]][1]) is not None:
            return shape
    return None


def check(dst: Region, src: Region, variant: str) -> bool:
    """The variant takes the copy exactly if the oracle says so, by the right shape, and moves the right bytes."""
    needs = wanted(dst, src)
    shape = fitting(needs, variant)
    call = copy_async(dst, src, dispatch=variant)
    made = kernel(by_one_thread(call), threads=128)
    note = f"{dst} of {dst.buffer.layout}, {src} of {src.buffer.layout}"
    if shape is None:
        with pytest.raises(DispatchError, match="does not fit"):
            pytest.fail(f"{note}: took it: {tile.resolve(made, 'sm_100a')[1]}")
        return False
    resolved, _ = tile.resolve(made, "sm_100a")
    base = 64
    machine = TmemMachine(resolved, {src.buffer.name: None}, base=base, arena={src.buffer.name: ARENA})  # type: ignore[dict-item]
    machine.run()
    got = {(lane, byte - 4 * base): where for (lane, byte), (_, where) in machine.written.items()}
    assert got == needs, note
    mods = [mods for name, mods in machine.issued if name.endswith(".cp")]
    assert {(each["shape"], each["multicast"]) for each in mods} == {shape}, note
    return True


@st.composite
def tiles(draw: st.DrawFn, variant: str) -> tuple[Buffer, Buffer]:
    """A region of tensor memory that a shape could fill, and shared memory that could feed it, or nearly so.

    Both are strides for the same digits: lanes in groups of eight, further columns, and what is in 16 bytes.
    """
    shape = draw(st.sampled_from(VARIANTS[variant]))
    kind = draw(st.sampled_from(["uint8", "float16", "float32"]))
    nbytes = {"uint8": 1, "float16": 2, "float32": 4}[kind]
    lane, col = Axis.get("TLane"), Axis.get("TCol")
    digits = _lanes(shape, lane)
    digits["unit"] = (16 // nbytes, 1, col)
    most = 2 if variant == "tcgen05_cp_128" else 4
    extents = draw(st.lists(st.sampled_from([2, 2, 3]), max_size=2).filter(lambda extents: prod(extents) <= most))
    if SIZES[shape[0]][1] == 32:
        extents.append(2)
    stride = 16 // nbytes
    for number, extent in enumerate(extents):
        digits[f"c{number}"] = (extent, stride, col)
        stride *= extent * draw(st.sampled_from([1, 1, 1, 1, 2]))
    across = [name for name in digits if name.startswith("c")]
    inside = draw(st.permutations(across))[: draw(st.integers(0, len(across)))]
    far = draw(st.permutations([name for name in digits if name not in ("unit", "row", *inside)]))
    strides, step = {}, 1
    for name in ["unit", *inside, "row", *far]:
        strides[name] = step
        step *= digits[name][0]
        if draw(st.integers(0, 19)) == 0:
            step += draw(st.sampled_from([16 // nbytes, 32 // nbytes, 4]))
    order = draw(st.permutations(list(digits)))
    replica = _replicas(draw, shape, lane)
    tmem = TileLayout([Iter(*digits[name]) for name in order], replica)
    shared = TileLayout([Iter(digits[name][0], strides[name]) for name in order])
    swizzled: Layout = shared
    width = prod([digits[name][0] for name in inside])
    if draw(st.integers(0, 4)) and width in (2, 4, 8):
        length = width.bit_length() - 1 if draw(st.integers(0, 5)) else draw(st.integers(1, 3))
        swizzled = ComposeLayout(SwizzleLayout((16 // nbytes).bit_length() - 1, length, 3), shared)
    sizes = tuple(digits[name][0] for name in order)
    return tensor("C", sizes, tmem, kind), buffer("A", "shared", sizes, swizzled, kind, align=1024)


def _lanes(shape: tuple[str, str], lane: Axis) -> dict[str, tuple[int, int, Axis]]:
    if shape[0] == "4x256b":
        return {"row": (4, 32, lane), "lane": (2, 1, lane)}
    if shape[1] == "warpx2::01_23":
        return {"row": (8, 1, lane), "group": (4, 8, lane), "half": (2, 64, lane)}
    return {"row": (8, 1, lane), "group": (SIZES[shape[0]][0] // 8, 8, lane)}


def _replicas(draw: st.DrawFn, shape: tuple[str, str], lane: Axis) -> list[Iter]:
    wanted = {"warpx4": [Iter(4, 32, lane)], "warpx2::02_13": [Iter(2, 64, lane)], "warpx2::01_23": [Iter(2, 32, lane)]}
    if draw(st.integers(0, 15)) == 0:
        return draw(st.sampled_from(list(wanted.values())))
    return wanted.get(shape[1], [])


@sampled(25, of=60)
@given(st.data())
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_takes_a_copy_exactly_where_the_oracle_says_so(variant: str, data: st.DataObject) -> None:
    dst, src = data.draw(tiles(variant))
    shape = extents(dst)
    box = tuple((0, extent) for extent in shape)
    if data.draw(st.integers(0, 3)) == 0:  # a part of the columns, of the rows, or of both
        dim = data.draw(st.integers(0, len(box) - 1))
        start = data.draw(st.integers(0, shape[dim] - 1))
        box = (*box[:dim], (start, data.draw(st.integers(1, shape[dim] - start))), *box[dim + 1 :])

    check(Region(dst, box), Region(src, box), variant)
