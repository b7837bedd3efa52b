"""ldmatrix, stmatrix and movmatrix, by the figures of the manual: cells T<lane>V<value>:R<register>."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.forms import executed
from tests.isa.machines import PlainMachine
from tilewright import isa
from tilewright.ir import Argument
from tilewright.isa.ldmatrix import VALID, load_m8n8, load_m8n16, load_m16n16, store_m8n8, store_m16n8, transpose

ALL = np.ones((1, 32), bool)
ROWS = np.arange(32)[None] * 16  # lane l gives row l


def memory_of(data: NDArray[Any]) -> PlainMachine:
    return PlainMachine(np.ascontiguousarray(data).view(np.uint8).reshape(1, -1), ALL)


def halves(registers: NDArray[Any]) -> NDArray[np.uint16]:
    """(lane, value): value 2r+h is half h of register r."""
    return np.ascontiguousarray(registers[0].T).view(np.uint16)


# (row, column) of an 8x8 matrix -> its cell in the figures of m8n8 without and with trans.
@pytest.mark.parametrize(
    ("place", "trans", "cell"),
    [
        ((0, 0), False, "T0V0:R0"),
        ((0, 7), False, "T3V1:R0"),
        ((3, 4), False, "T14V0:R0"),
        ((7, 7), False, "T31V1:R0"),
        ((0, 1), True, "T4V0:R0"),
        ((1, 0), True, "T0V1:R0"),
        ((5, 6), True, "T26V1:R0"),
        ((7, 0), True, "T3V1:R0"),
    ],
)
@pytest.mark.parametrize("matrix", range(4))
def test_a_cell_of_the_figure(place: tuple[int, int], trans: bool, cell: str, matrix: int) -> None:
    machine = memory_of(np.arange(4 * 64, dtype=np.uint16))
    number = 64 * matrix + 8 * place[0] + place[1]

    values = halves(load_m8n8(machine.shared, ROWS, num=4, trans=trans))

    ((lane, value),) = np.argwhere(values == number)
    assert f"T{lane}V{value % 2}:R{value // 2 - matrix}" == cell
    assert value // 2 == matrix


def test_rows_may_repeat_and_lanes_beyond_the_rows_do_not_count() -> None:
    machine = memory_of(np.arange(64, dtype=np.uint16))
    address = np.where(np.arange(32) < 8, 32, 1 << 40)[None]  # wild addresses in lanes 8 and on

    values = halves(load_m8n8(machine.shared, address, num=1, trans=False))

    assert values[:, 0].tolist() == [16 + 2 * (lane % 4) for lane in range(32)]


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_a_store_undoes_a_load(num: int, trans: bool) -> None:
    before = memory_of(np.random.default_rng(0).integers(0, 1 << 16, 256, dtype=np.uint16))
    after = memory_of(np.zeros(256, np.uint16))

    store_m8n8(after.shared, ROWS, load_m8n8(before.shared, ROWS, num=num, trans=trans), num=num, trans=trans)

    assert np.array_equal(after.shared.data[:, : 128 * num], before.shared.data[:, : 128 * num])
    assert not after.shared.data[:, 128 * num :].any()


def test_movmatrix_is_a_store_and_a_transposing_load() -> None:
    register = np.random.default_rng(1).integers(0, 1 << 32, (1, 1, 32), dtype=np.uint32)
    machine = memory_of(np.zeros(64, np.uint16))
    store_m8n8(machine.shared, ROWS, register, num=1, trans=False)

    assert np.array_equal(transpose(register[:, 0]), load_m8n8(machine.shared, ROWS, num=1, trans=True)[:, 0])
    assert np.array_equal(transpose(transpose(register)), register)


def test_a_stored_byte_matrix_is_an_accumulator_read_by_columns() -> None:
    """Bytes c0 to c3 of lane 4g+t are rows g and g+8 of columns 2t and 2t+1, stored column by column."""
    matrix = np.arange(128, dtype=np.uint8).reshape(16, 8)
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    c = np.stack([matrix[g + 8 * (i // 2), 2 * t + i % 2] for i in range(4)], axis=-1)
    machine = memory_of(np.zeros(128, np.uint8))

    store_m16n8(machine.shared, ROWS, np.ascontiguousarray(c).view(np.uint32).reshape(1, 1, 32), num=1)

    assert np.array_equal(machine.shared.data[0].reshape(8, 16), matrix.T)


@pytest.mark.parametrize(("type", "padding"), [(".b8x16.b6x16_p32", 12), (".b8x16.b4x16_p64", 8)])
def test_the_padding_of_a_row_is_not_looked_at(type: str, padding: int) -> None:
    rows = np.random.default_rng(2).integers(0, 256, (32, 16), dtype=np.uint8)
    other = rows.copy()
    other[:, padding:] ^= 0xFF

    for load in (load_m16n16, load_m8n16):
        loaded, with_padding = (load(memory_of(data).shared, ROWS, num=2, type=type) for data in (rows, other))
        assert np.array_equal(loaded, with_padding)


def test_an_unpacked_element_lies_in_the_low_bits_of_its_byte() -> None:
    row = np.zeros((32, 16), np.uint8)
    row[0, :3] = [0b10_000001, 0b0100_1111, 0b111111_01]  # six bits each: 1, 62 (0b111110), 20, 63

    words = load_m8n16(memory_of(row).shared, ROWS, num=1, type=".b8x16.b6x16_p32")

    assert words[0, 0, :1].view(np.uint8).tolist() == [1, 0b111110, 0b010100, 63]


@pytest.mark.parametrize("type", list(VALID))
def test_validity_follows_the_bits(type: str) -> None:
    """A destination byte is valid exactly if changing any invalid source byte does not change it."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 256, (32, 16), dtype=np.uint8)
    valid = rng.random((32, 16)) < 0.8
    form = next(
        f
        for f in isa.lookup("ptx.ldmatrix").forms
        if f.fits({"shape": "m16n16", "num": 2, "trans": True, "type": type, "space": "shared"})
    )
    assert form.meaning.validity is not None

    flags: Any = form.meaning.validity(memory_of(valid.astype(np.uint8)).shared, ROWS, num=2, type=type)
    spoilt = [np.where(valid, rows, rows ^ np.uint8(1 << bit)) for bit in range(8)]
    mods: dict[str, Argument] = {"num": 2, "type": type}
    loaded = [executed(form, mods, memory_of(data).shared, ROWS) for data in (rows, *spoilt)]

    changes = np.any([(other ^ loaded[0]).view(np.uint8) != 0 for other in loaded[1:]], axis=0)
    assert np.array_equal(flags.view(np.uint8) != 0, ~changes)
