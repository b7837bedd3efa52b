"""Copies between tensor memory and registers: which instruction, in which lanes, and why not.

The oracle is the machine of this room, which distributes cells by the manual's words: the source of each register, and
the contents of each cell, must agree with `table()` on both sides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.isa.tmem_oracles import SHAPES, place, registers_of
from tests.samples import sampled
from tests.tile.kernels import BX, LANE, WARP, buffer, by_one_thread, copy_async, kernel, tensor
from tests.tile.oracle import holders, placed
from tests.tile.tmem_machine import TmemMachine
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import Argument, Buffer, If, Region, Var, binary
from tilewright.layout import (
    Axis,
    Iter,
    Layout,
    R,
    S,
    TCol,
    TileLayout,
    TLane,
    laneid,
    tcgen05_atom_layout,
    tid_in_wg,
    tmem_datapath_layout,
    wg_local_layout,
    wid_in_wg,
)
from tilewright.tile import Entry

NUMS = (128, 64, 32, 16, 8, 4, 2, 1)
WARPX4 = S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]


def rows(columns: int, kind: str = "float32", step: int = 1) -> Buffer:
    """128 rows of tensor memory, one per lane."""
    return tensor("tmem", (128, columns), S[(128, columns) : (1 @ TLane, step @ TCol)], kind)


def registers(shape: tuple[int, ...], layout: Layout, kind: str = "float32") -> Buffer:
    return buffer("R", "local", shape, layout, kind)


def fragment(shape: str, columns: int) -> tuple[TileLayout, str]:
    """Registers of 32-bit elements for 16 lanes of each warp (32 for 32x32b), as the instruction deals them out."""
    if shape == "32x32b":
        return TileLayout([Iter(32, 1, laneid), Iter(columns, 1)]), "32x32b"
    down, right = {
        "16x64b": ((Iter(2, 1, laneid), Iter(8, 4, laneid)), (Iter(columns // 2, 1), Iter(2, 2, laneid))),
        "16x128b": ((Iter(2, 1), Iter(8, 4, laneid)), (Iter(columns // 4, 2), Iter(4, 1, laneid))),
        "16x256b": ((Iter(2, 2), Iter(8, 4, laneid)), (Iter(columns // 8, 4), Iter(4, 1, laneid), Iter(2, 1))),
        "16x32bx2": ((Iter(16, 1, laneid),), (Iter(2, 16, laneid), Iter(columns // 2, 1))),
    }[shape]
    return TileLayout([*down, *right]), shape


def check(
    dst: Buffer | Region, src: Buffer | Region, scope: str = "warpgroup", threads: int = 128, **config: Argument
) -> Entry:
    """Resolve one copy, run it, and compare each register or cell with what the layouts say."""
    call = copy_async(dst, src, scope=scope, **config)
    done, report = tile.resolve(kernel(call, threads=threads), "sm_100a")
    machine = TmemMachine(done, {}, base=96)
    machine.run()
    to, source = (each if isinstance(each, Region) else each.region() for each in (dst, src))
    loads = to.buffer.space == "local"
    local, cells = (placed(to), placed(source)) if loads else (placed(source), placed(to))
    nbytes = to.buffer.dtype.bits // 8
    held = holders(local, threads)
    seen: set[tuple[int, int]] = set()
    for element, replica, thread in np.argwhere(held):
        for byte in range(nbytes):
            slot = (int(thread) << 20) + int(local["m"][element, replica]) * nbytes + byte
            places = {
                (int(lane), 4 * 96 + int(column) * nbytes + byte)
                for lane, column in zip(cells["TLane"][element], cells["TCol"][element], strict=True)
                if int(lane) // 32 == int(thread) // 32 % 4
            }
            assert places, "a thread holds what its warp does not reach"
            if loads:
                assert machine.loaded[slot] in places
            else:
                assert {machine.written[place] for place in places} == {("register", slot)}
            seen |= places
    if not loads:
        assert set(machine.written) == seen
    return report.entries[-1]


@pytest.mark.every(3)
@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("columns", [1, 2, 4, 8, 16, 32, 64, 128])
def test_a_row_per_thread_is_one_instruction_of_the_widest_form(columns: int, loads: bool) -> None:
    sides = registers((128, columns), wg_local_layout(columns)), rows(columns)

    said = check(*(sides if loads else sides[::-1]))

    assert (said.variant, said.plan) == (
        "tcgen05_ldst",
        f"tcgen05.{'ld' if loads else 'st'} 32x32b.x{columns}, 1 instruction per warp",
    )


@pytest.mark.parametrize(("columns", "plan"), [(96, "x32, 3"), (48, "x16, 3"), (3, "x1, 3"), (256, "x128, 2")])
def test_other_numbers_of_columns_take_rounds(columns: int, plan: str) -> None:
    said = check(registers((128, columns), wg_local_layout(columns)), rows(columns))

    assert said.plan == f"tcgen05.ld 32x32b.{plan} instructions per warp"


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "32x32b"])
def test_each_shape_is_known_by_its_registers(shape: str, loads: bool) -> None:
    layout, _ = fragment(shape, 32)
    lanes = TileLayout([Iter(4, 1, wid_in_wg), *layout.shard])
    half = tensor("tmem", (4, 16, 32), S[(4, 16, 32) : (32 @ TLane, 1 @ TLane, 1 @ TCol)], "float32")
    sides = registers((4, 16, 32), lanes), half

    said = check(*(sides if loads else sides[::-1]))

    num = {"16x64b": 16, "16x128b": 8, "16x256b": 4, "16x32bx2": 16}[shape]
    assert said.plan == f"tcgen05.{'ld' if loads else 'st'} {shape}.x{num}, 1 instruction per warp"


def test_both_halves_of_a_quarter_take_two_instructions() -> None:
    layout = S[(4, 2, 2, 8, 4, 4, 2) : (1 @ wid_in_wg, 16, 2, 4 @ laneid, 4, 1 @ laneid, 1)]

    said = check(registers((128, 32), layout), rows(32))

    assert said.plan == "tcgen05.ld 16x256b.x4, 2 instructions per warp"


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "uint8", "float8_e4m3fn", "int32"])
def test_narrow_elements_share_columns_and_registers(kind: str) -> None:
    said = check(registers((128, 64), wg_local_layout(64), kind), rows(64, kind))

    assert said.plan.startswith(
        f"tcgen05.ld 32x32b.x{64 * {'float16': 2, 'bfloat16': 2, 'int32': 4}.get(kind, 1) // 4}, "
    )


@pytest.mark.parametrize("loads", [True, False])
def test_16_bits_alone_in_a_column_are_packed_and_unpacked(loads: bool) -> None:
    sides = registers((128, 32), wg_local_layout(32), "float16"), rows(32, "float16", step=2)

    said = check(*(sides if loads else sides[::-1]))

    assert said.plan == f"tcgen05.{'ld' if loads else 'st'} 32x32b.x16, 16 bits of each column, 1 instruction per warp"


def test_a_slice_of_the_columns() -> None:
    tmem = rows(64)

    said = check(registers((128, 16), wg_local_layout(16)), Region(tmem, ((0, 128), (24, 16))))

    assert said.plan == "tcgen05.ld 32x32b.x16, 1 instruction per warp"


def test_a_slice_of_the_registers() -> None:
    local = registers((128, 64), wg_local_layout(64))

    assert check(Region(local, ((0, 128), (32, 32))), rows(32)).plan.startswith("tcgen05.ld 32x32b.x32")


@pytest.mark.parametrize("loads", [True, False])
def test_each_warp_has_the_copy_in_its_own_lanes(loads: bool) -> None:
    sides = registers((32, 16), S[(32, 16) : (1 @ laneid, 1)], "uint8"), tensor("tmem", (32, 16), WARPX4)

    assert check(*(sides if loads else sides[::-1])).variant == "tcgen05_ldst"


def test_a_warp_reads_the_lanes_it_reaches() -> None:
    local = registers((32, 8), S[(32, 8) : (1 @ laneid, 1)])

    call = copy_async(local, Region(rows(8), ((WARP * 32, 32), (0, 8))), scope="warp")
    done, report = tile.resolve(kernel(call, threads=128), "sm_100a")
    machine = TmemMachine(done, {}).run()

    assert report.entries[-1].plan == "tcgen05.ld 32x32b.x8, 1 instruction per warp"
    assert isinstance(machine, TmemMachine)
    assert {(slot >> 20, slot & 0xFF): place for slot, place in machine.loaded.items()} == {
        (thread, byte): (thread, byte) for thread in range(128) for byte in range(32)
    }


def test_one_warp_of_four_needs_no_arithmetic() -> None:
    local = registers((32, 8), S[(32, 8) : (1 @ laneid, 1)])
    call = copy_async(local, Region(rows(8), ((64, 32), (0, 8))), scope="warp")

    done, _ = tile.resolve(kernel(If(binary("==", WARP, 2), (call,)), threads=128), "sm_100a")

    assert "T.ptx.tcgen05.ld(tmem_addr[0] + 4194304, " in str(done)


def test_half_of_a_warpgroup_is_guarded() -> None:
    local = registers((64, 8), S[(64, 8) : (1 @ tid_in_wg, 1)])

    assert check(local, Region(rows(8), ((0, 64), (0, 8)))).variant == "tcgen05_ldst"


def test_datapath_f_is_half_of_each_quarter() -> None:
    layout = S[(4, 2, 8, 4, 4, 2) : (1 @ wid_in_wg, 2, 4 @ laneid, 4, 1 @ laneid, 1)]

    said = check(registers((64, 32), layout), tensor("tmem", (64, 32), tmem_datapath_layout("F", 64, 32), "float32"))

    assert said.plan == "tcgen05.ld 16x256b.x4, 1 instruction per warp"


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "32x32b"])
@pytest.mark.parametrize("slab", [0, 1])
def test_64_rows_of_datapath_f_are_one_instruction_in_either_half_of_the_quarters(
    shape: str, slab: int, loads: bool
) -> None:
    datapath = tensor("tmem", (64, 32), tmem_datapath_layout("F", 64, 32, sub_slab=slab), "float32")
    sides = registers((64, 32), tcgen05_atom_layout(shape, (64, 32), "float32")), datapath

    assert check(*(sides if loads else sides[::-1])).plan.endswith("1 instruction per warp")


@pytest.mark.parametrize("loads", [True, False])
def test_datapath_b_is_one_instruction_with_a_half_of_the_columns_in_each_pair_of_warps(loads: bool) -> None:
    halves = registers((64, 32), S[(64, 2, 16) : (1 @ tid_in_wg, 64 @ tid_in_wg, 1)])
    sides = halves, tensor("tmem", (64, 32), tmem_datapath_layout("B", 64, 32), "float32")

    said = check(*(sides if loads else sides[::-1]))

    assert said.plan == f"tcgen05.{'ld' if loads else 'st'} 32x32b.x16, 1 instruction per warp"


def test_a_warp_cannot_have_16_of_the_first_64_rows_of_datapath_d() -> None:
    fragment = registers((64, 32), tcgen05_atom_layout("16x256b", (64, 32), "float32"))

    assert "warp 1 reaches lanes 32 to 63" in reason(fragment, Region(rows(32), ((0, 64), (0, 32))))


# Conditions


def reason(dst: Buffer | Region, src: Buffer | Region, scope: str = "warpgroup", threads: int = 128) -> str:
    with pytest.raises(DispatchError, match='dispatch="tcgen05_ldst" does not fit') as raised:
        check(dst, src, scope, threads, dispatch="tcgen05_ldst")
    return str(raised.value.given)


LANES = registers((32, 16), S[(32, 16) : (1 @ laneid, 1)], "uint8")


@pytest.mark.parametrize(
    ("dst", "src", "scope", "text"),
    [
        (LANES, buffer("A", "shared", (32, 16), kind="uint8"), "warp", "not local and tmem"),
        (LANES, replace(tensor("tmem", (32, 16), WARPX4), allocated_addr=None), "warp", "tmem has no allocated_addr"),
        (LANES, tensor("tmem", (32, 16), WARPX4), "cta", "a CTA executes it"),
        (
            LANES,
            tensor("tmem", (32, 16), S[(32, 16) : (1 @ TLane, 1 @ TCol)]),
            "warpgroup",
            "warp 1 reaches lanes 32 to 63 of tensor memory, but holds elements of tmem[0:32, 0:16] in lane 0",
        ),
        (
            tensor("tmem", (32, 16), WARPX4),
            LANES,
            "warp",
            "has elements in lanes that no warp writes which holds them in R",
        ),
        (
            registers((32, 2), S[(32, 2) : (1 @ laneid, 1)], "float64"),
            tensor("tmem", (32, 2), S[(32, 2) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane], "float64"),
            "warp",
            "float64 has 64 bits",
        ),
        (
            registers((32, 16), S[(32, 16) : (1 @ laneid, 2)], "uint8"),
            tensor("tmem", (32, 16), WARPX4),
            "warp",
            "each 32-bit register is slots 4j, 4j+1, 4j+2, 4j+3",
        ),
        (
            registers((32, 16), S[(32, 4, 4) : (1 @ laneid, 1, 4)], "uint8"),
            tensor("tmem", (32, 16), WARPX4),
            "warp",
            "the 4 elements of a register of R are in no column of tmem[0:32, 0:16]",
        ),
        (
            registers((16, 32), S[(16, 32) : (1, 1 @ laneid)]),
            tensor("tmem", (16, 32), S[(16, 32) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane], "float32"),
            "warp",
            "no shape deals them out so",
        ),
    ],
)
def test_what_does_not_fit_says_why(dst: Buffer, src: Buffer, scope: str, text: str) -> None:
    assert text in reason(dst, src, scope)


def test_lanes_of_run_time_are_declined() -> None:
    local = registers((32, 8), S[(32, 8) : (1 @ laneid, 1)])

    assert "depends on bx * 32, a value of run time" in reason(local, Region(rows(8), ((BX * 32, 32), (0, 8))), "warp")


def test_a_column_of_run_time_is_as_good_as_any() -> None:
    local, first = registers((128, 8), wg_local_layout(8)), Var("bx") * 8
    call = copy_async(local, Region(rows(32), ((0, 128), (first, 8))), scope="warpgroup")

    done, _ = tile.resolve(kernel(call, threads=128), "sm_100a")

    assert 'T.cast(bx * 8, "uint32")' in str(done)


def test_one_thread_cannot() -> None:
    call = copy_async(LANES, tensor("tmem", (32, 16), WARPX4))

    with pytest.raises(DispatchError, match="tcgen05_ldst: a thread executes it"):
        tile.resolve(kernel(by_one_thread(call), threads=128), "sm_100a")


# Completeness


def fits(shape: str, table: dict[int, list[tuple[int, int]]]) -> int:
    """The largest num with which registers (number -> the cell of each lane) are made of a shape; 0 for none."""
    for num in NUMS:
        count = registers_of(shape, num)
        if count <= 128 and len(table) % count == 0 and _covered(shape, count, dict(table)):
            return num
    return 0


def _covered(shape: str, count: int, left: dict[int, list[tuple[int, int]]]) -> bool:
    height = 32 if shape == "32x32b" else 16
    while left:
        first = min(left, key=lambda register: left[register][0][::-1])
        (row, column), second = left[first][0], left[first][16]
        split = second[1] - column if shape == "16x32bx2" else 0
        if row % height:
            return False
        for number in range(count):
            cells = [place(shape, lane, number, split) for lane in range(32)]
            wanted = [(row + down, column + across) for down, across in cells]
            found = next((register for register, mine in left.items() if mine == wanted), None)
            if found is None:
                return False
            del left[found]
    return True


@st.composite
def warps(draw: st.DrawFn) -> tuple[Buffer, Buffer]:
    """Registers of a warp that some shape could serve, or nearly so: digits of lanes and registers."""
    layout, shape = fragment(draw(st.sampled_from(SHAPES)), draw(st.sampled_from([8, 16, 24, 32, 40])))
    height = 32 if shape == "32x32b" else 16
    iters = list(layout.shard)
    if height == 16 and draw(st.booleans()):
        size = 1 + max(int(it.stride) * (int(it.extent) - 1) for it in iters if it.axis.name == "m") * 2
        iters.insert(0, Iter(2, size, Axis.get("m")))
    if draw(st.integers(0, 3)) == 0:
        one, two = (draw(st.integers(0, len(iters) - 1)) for _ in range(2))
        iters[one], iters[two] = iters[two], iters[one]
    count = int(np.prod([it.extent for it in iters]))
    lanes = 32 if height == 32 or iters[0].extent * height == 32 else height
    lanes = lanes if count % lanes == 0 else height
    dims = (lanes, count // lanes)
    place = S[dims : (1 @ TLane, draw(st.sampled_from([1, 1, 1, 2])) @ TCol)] + R[4 : 32 @ TLane]
    return registers(dims, TileLayout(iters)), tensor("tmem", dims, place, "float32")


@sampled(80, of=200)
@given(warps())
def test_a_load_fits_exactly_where_registers_are_a_shapes_with_the_largest_number(made: tuple[Buffer, Buffer]) -> None:
    local, tmem = made
    place, cells = placed(local.region()), placed(tmem.region())
    held = holders(place, 32)[:, 0]
    table: dict[int, list[tuple[int, int]]] = {}
    for element, thread in np.argwhere(held):
        cell = (int(cells["TLane"][element, 0]), int(cells["TCol"][element, 0]))
        table.setdefault(int(place["m"][element, 0]), [(-1, -1)] * 32)[thread] = cell
    best = {shape: fits(shape, table) for shape in SHAPES}
    if any(cell == (-1, -1) for lanes in table.values() for cell in lanes) or not any(best.values()):
        assert reason(local, tmem, "warp", 32)
        return

    said = check(local, tmem, "warp", 32)

    assert said.plan.split()[1].rstrip(",") in {f"{shape}.x{num}" for shape, num in best.items() if num}


# Hints


SPREAD = registers((128, 16), wg_local_layout(16))


@pytest.mark.parametrize(("scope", "threads"), [("cta", 128), ("cta", 256), ("thread", 128)])
def test_a_call_by_others_is_told_who_can(scope: str, threads: int) -> None:
    with pytest.raises(DispatchError, match=r"tcgen05_ldst: a (CTA|thread) executes it") as raised:
        check(SPREAD, rows(16), scope, threads)

    assert raised.value.hint == "Tx.wg.copy_async"
    assert check(SPREAD, rows(16), "warpgroup", threads).variant == "tcgen05_ldst"


def test_a_call_by_half_a_warp_is_told_of_no_collective() -> None:
    call = copy_async(SPREAD, rows(16))

    with pytest.raises(DispatchError, match="a thread executes it") as raised:
        tile.resolve(kernel(If(binary("<", LANE, 16), (call,)), threads=128), "sm_100a")

    assert raised.value.hint is None


@pytest.mark.parametrize("layout", [S[128, 16], S[(16, 8, 16) : (1 @ tid_in_wg, 16 @ tid_in_wg, 1)]])
def test_registers_that_no_shape_serves_are_told_of_a_fragment(layout: Layout) -> None:
    local = registers((128, 16), layout)
    with pytest.raises(DispatchError, match="no variant takes") as raised:
        check(local, rows(16))

    assert raised.value.hint == 'layout=tcgen05_atom_layout("32x32b", (128, 16), "float32") for R'
    served = replace(local, layout=tcgen05_atom_layout("32x32b", (128, 16), "float32"))
    assert check(served, rows(16)).plan == "tcgen05.ld 32x32b.x16, 1 instruction per warp"


def test_a_fragment_that_would_not_help_is_not_told() -> None:
    narrow = rows(16, "float16", step=3)

    with pytest.raises(DispatchError, match="are in no column of tmem") as raised:
        check(registers((128, 16), wg_local_layout(16), "float16"), narrow)

    assert raised.value.hint is None
