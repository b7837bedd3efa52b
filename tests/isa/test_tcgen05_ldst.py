"""tcgen05.ld and .st: every shape, number and packing against the manual's figures, one lane after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.isa.assembling import every_form
from tests.isa.forms import form_of
from tests.isa.tmem_machines import PlainUnit
from tests.isa.tmem_oracles import Cells, loaded, registers_of, stored
from tests.rows import in_row
from tests.tile.kernels import whole_number
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, SimulationError
from tilewright.ir import Buffer, Var, row_major
from tilewright.isa.table import Bound

FORMS = [bound for bound in every_form() if bound.instruction.name in ("ptx.tcgen05.ld", "ptx.tcgen05.st")]
LOADS = [bound for bound in FORMS if bound.instruction.name.endswith("ld")]
STORES = [bound for bound in FORMS if bound.instruction.name.endswith("st")]
WORDS = np.random.default_rng(0).integers(0, 1 << 32, (128, 640), dtype=np.uint32)  # wide enough for every shape
ADDR = Buffer("addr", dtype("uint32"), (1,), "shared", row_major((1,)))
REGS = Buffer("regs", dtype("uint32"), (128,), "local", row_major((128,)))


def named(bound: Bound) -> str:
    return "-".join([bound.instruction.name, *map(str, bound.mods.values())])


def address(lane: int, column: int, warps: int = 1) -> Any:
    return np.full((warps, 32), lane << 16 | column, np.uint32)


def unit(words: Any, *warps: int) -> PlainUnit:
    """Warps of one CTA, and its tensor memory."""
    return PlainUnit(np.zeros((1, 0), np.uint8), words[None].copy(), [0] * len(warps), [*warps])


def run(bound: Bound, machine: PlainUnit, taddr: Any, split: int, *registers: Any) -> Any:
    operands = {"taddr": taddr, **({"split": np.full((1, 32), split, np.uint32)} if bound.mods["split"] else {})}
    return machine.completed(bound, {**operands, **dict(zip("r", registers, strict=False))})


def cells(words: Any) -> Cells:
    return {(int(lane), int(column)): int(words[lane, column]) for lane, column in np.ndindex(words.shape)}


def details(bound: Bound, split: int) -> tuple[str, int, int, bool]:
    packed = bound.mods.get("pack", bound.mods.get("unpack"))
    return str(bound.mods["shape"]), whole_number(bound.mods["num"]), split, bool(packed)


SHAPES = ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"]
PLACES = [(0, 0, 1), (3, 100, 7)]  # warp, column, split


@pytest.mark.parametrize(("warp", "column", "split"), PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_load_gives_each_lane_the_cells_of_the_figure(shape: str, warp: int, column: int, split: int) -> None:
    lane = 32 * warp + (0 if shape == "32x32b" else 16)
    for bound in (bound for bound in LOADS if bound.mods["shape"] == shape):
        registers = run(bound, unit(WORDS, warp), address(lane, column), split)

        assert registers[0].tolist() == loaded(CELLS, (lane, column), *details(bound, split)), named(bound)


@pytest.mark.parametrize(("warp", "column", "split"), PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_store_gives_the_cells_of_the_figure_each_lanes_registers(
    shape: str, warp: int, column: int, split: int
) -> None:
    for bound in (bound for bound in STORES if bound.mods["shape"] == shape):
        with in_row(named(bound)):
            check_store(bound, warp, column, split)


def check_store(bound: Bound, warp: int, column: int, split: int) -> None:
    shape, num, _, packed = details(bound, split)
    registers = np.random.default_rng(num).integers(0, 1 << 32, (1, registers_of(shape, num), 32), dtype=np.uint32)
    machine, written, expected = unit(WORDS, warp), dict[tuple[int, int], int](), WORDS.copy()
    split = max(split, num * (2 if packed else 1))  # so that the halves do not meet

    run(bound, machine, address(32 * warp, column), split, registers)

    stored(written, (32 * warp, column), shape, num, split, packed, registers[0].tolist())
    for cell, word in written.items():
        expected[cell] = word
    assert np.array_equal(machine.words[0], expected)


CELLS = cells(WORDS)


@given(st.sampled_from(SHAPES), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.integers(0, 3))
def test_a_store_undoes_a_load(shape: str, num: int, packed: bool, warp: int) -> None:
    split = num * (2 if packed else 1)
    load, store = (
        next(b for b in forms if details(b, split) == (shape, num, split, packed)) for forms in (LOADS, STORES)
    )
    machine = unit(np.zeros_like(WORDS), warp)
    where = address(32 * warp, 8)

    registers = run(load, unit(WORDS, warp), where, split)
    run(store, machine, where, split, registers)

    assert np.array_equal(run(load, machine, where, split), registers)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("num", [1, 4, 32])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_reaches_every_cell_of_its_block_once(shape: str, num: int, packed: bool) -> None:
    form = isa.TMEM_SHAPES[shape]
    lane, column = isa.cells_of(shape, num, split=num * (2 if packed else 1), packed=packed)

    reached = set(zip(lane.reshape(-1).tolist(), column.reshape(-1).tolist(), strict=True))

    width = lane.size // form.height
    assert reached == {(row, place) for row in range(form.height) for place in range(width)}
    assert len(reached) == lane.size


def test_warps_load_from_their_own_quarters_at_once() -> None:
    bound = next(b for b in LOADS if details(b, 0) == ("32x32b", 2, 0, False))
    quarters = (np.arange(4, dtype=np.uint32)[:, None] * 32 << 16).repeat(32, axis=1)

    registers = run(bound, unit(WORDS, 0, 1, 2, 3), quarters, 0)

    assert np.array_equal(registers, WORDS[:, :2].reshape(4, 32, 2).swapaxes(1, 2))


def test_the_upper_half_that_an_unpacking_store_leaves_is_not_valid() -> None:
    """The same function, run on validity: bytes of 1 are initialised, of 0 are not."""
    bound = next(b for b in STORES if details(b, 0) == ("32x32b", 1, 0, True))
    machine = unit(np.zeros_like(WORDS), 0)

    run(bound, machine, address(0, 0), 0, np.full((1, 1, 32), 0x01010101, np.uint32))

    assert set(machine.words[0][:32, :2].flat) == {0x00000101}


@pytest.mark.parametrize(
    ("shape", "warp", "lane", "message"),
    [
        ("32x32b", 0, 32, r"taddr is in lane 32; warp 0 reaches 0\.\.31 and begins at lane 0"),
        ("32x32b", 5, 0, r"taddr is in lane 0; warp 5 reaches 32\.\.63"),
        ("32x32b", 1, 48, r"taddr is in lane 48; warp 1 reaches 32\.\.63 and begins at lane 32"),
        ("16x64b", 2, 72, r"taddr is in lane 72; warp 2 reaches 64\.\.95 and begins at lanes 64 and 80"),
    ],
)
@pytest.mark.parametrize("forms", [LOADS, STORES], ids=["ld", "st"])
def test_a_warp_stays_in_its_quarter(forms: list[Bound], shape: str, warp: int, lane: int, message: str) -> None:
    bound = next(b for b in forms if details(b, 0) == (shape, 1, 0, False))
    registers = [np.zeros((1, 1, 32), np.uint32)] if forms is STORES else []

    with pytest.raises(SimulationError, match=message):
        run(bound, unit(WORDS, warp), address(lane, 0), 0, *registers)


def test_the_address_is_one_for_all_lanes() -> None:
    taddr = address(0, 0)
    taddr[0, 7] += 1

    with pytest.raises(SimulationError, match="taddr is the same in all lanes of the warp") as error:
        run(LOADS[0], unit(WORDS, 0), taddr, 0)
    assert error.value.given == "issuers [0]"


# Calls.


def test_rows_and_columns_are_added_to_the_address() -> None:
    plain = isa.call("ptx.tcgen05.ld", ADDR[0] + (32 << 16) + 4, REGS[0], shape="32x32b", num=1)

    assert isa.call("ptx.tcgen05.ld", ADDR[0] + (32 << 16), REGS[0], shape="32x32b", num=1, col=4) == plain
    moved = isa.call("ptx.tcgen05.ld", ADDR[0], REGS[0], shape="32x32b", num=1, row=Var("w"), col=Var("c"))
    assert str(moved.args[0]) == 'addr[0] + (T.cast(w, "uint32") << 16) + T.cast(c, "uint32")'  # type: ignore[attr-defined]


def test_the_split_stands_in_the_instruction() -> None:
    bound = form_of("ptx.tcgen05.ld", ADDR[0], REGS[0:2], shape="16x32bx2", num=2, split=2)

    code = bound.code({"r": ["%0", "%1"], "taddr": "%2", "split": "2"})

    assert code == "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%0, %1}, [%2], 2;"


@pytest.mark.parametrize(
    ("mods", "count", "message"),
    [
        ({"shape": "16x256b", "num": 64}, 128, "no form with these modifiers"),
        ({"shape": "32x32b", "num": 3}, 3, "no form with these modifiers"),
        ({"shape": "32x32b", "num": 4}, 3, "takes 4 registers for r"),
        ({"shape": "16x32bx2", "num": 1}, 1, "no form with these modifiers"),
        ({"shape": "32x32b", "num": 1, "split": 1}, 1, "no form with these modifiers"),
        ({"shape": "16x32bx2", "num": 1, "split": Var("n")}, 1, "split is part of the instruction"),
    ],
)
@pytest.mark.parametrize("name", ["ld", "st"])
def test_what_the_assembler_would_refuse_is_an_error(name: str, mods: dict[str, Any], count: int, message: str) -> None:
    with pytest.raises(InstructionError, match=message):
        isa.call(f"ptx.tcgen05.{name}", ADDR[0], *(REGS[i] for i in range(count)), **mods)


@pytest.mark.parametrize(
    ("mods", "given", "allowed"),
    [
        ({"shape": "16x32bx2"}, "without split=", "shape='16x32bx2', with split="),
        ({"shape": "32x32b", "split": 2}, "with split=", "shape='32x32b', without split="),
    ],
)
def test_the_error_tells_of_the_shape_that_was_asked_for(mods: dict[str, Any], given: str, allowed: str) -> None:
    with pytest.raises(InstructionError, match="no form with these modifiers") as error:
        isa.call("ptx.tcgen05.ld", ADDR[0], REGS[0], num=1, **mods)

    assert given in str(error.value.given).split(", ")
    assert str(error.value.allowed).startswith(allowed)
    assert "\n" not in str(error.value.allowed)


def test_the_error_tells_of_all_shapes_where_the_one_asked_for_is_none() -> None:
    with pytest.raises(InstructionError, match="no form with these modifiers") as error:
        isa.call("ptx.tcgen05.ld", ADDR[0], REGS[0], num=1, shape="32x32")

    assert error.value.allowed == f"shape in {tuple(isa.TMEM_SHAPES)}"


@pytest.mark.parametrize("wrong", [ADDR, ADDR.ptr_to([0]), Var("p", dtype("handle")), Var("x", dtype("float32"))])
def test_an_address_of_tensor_memory_is_a_number_not_a_pointer(wrong: Any) -> None:
    with pytest.raises(InstructionError, match="taddr is an address of tensor memory") as error:
        isa.call("ptx.tcgen05.ld", wrong, REGS[0], shape="32x32b", num=1)
    assert (error.value.hint == "addr[0]") == (wrong is ADDR or "addr" in str(wrong))
