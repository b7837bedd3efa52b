"""Matrix descriptors: the bits, the addresses they reach, the rows that make them, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.isa.assembling import every_form
from tests.isa.descriptor_oracles import COVERED, byte_address, encoded
from tests.isa.forms import executed
from tests.isa.machines import PlainMachine
from tests.tile.kernels import whole_number
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, SimulationError
from tilewright.ir import Buffer, Var, row_major
from tilewright.isa import MatrixDescriptor, descriptor_addresses
from tilewright.isa.table import Bound
from tilewright.layout import SwizzleMode, mma_shared_layout

MODES = list(SwizzleMode)
UNITS = st.integers(0, (1 << 14) - 1)
ALL = np.ones((1, 32), bool)


@st.composite
def descriptors(draw: st.DrawFn) -> MatrixDescriptor:
    generation = draw(st.sampled_from(["sm_90", "sm_100"]))
    mode = draw(st.sampled_from(MODES))
    absolute = generation == "sm_100" and mode == 3 and draw(st.booleans())
    wide_atoms = generation == "sm_100" and mode == 3 and not absolute and draw(st.booleans())
    return MatrixDescriptor(
        start=16 * draw(UNITS),
        leading=16 * draw(UNITS),
        stride=16 * draw(UNITS),
        swizzle=mode,
        generation=generation,
        atom=32 if wide_atoms else 16,
        base_offset=0 if absolute else draw(st.integers(0, 7)),
        leading_is_absolute=absolute,
    )


@given(descriptors())
def test_decoding_undoes_encoding(one: MatrixDescriptor) -> None:
    assert MatrixDescriptor.decode(one.encode(), one.generation) == one
    assert 0 <= one.encode() < 1 << 64


@given(UNITS, UNITS, UNITS, st.sampled_from(MODES), st.sampled_from(["sm_90", "sm_100"]))
def test_the_bits_are_those_of_the_manual(start: int, ldo: int, sdo: int, mode: SwizzleMode, generation: str) -> None:
    made = MatrixDescriptor(16 * start, 16 * ldo, 16 * sdo, mode, generation)

    assert made.encode() == encoded(generation, 16 * start, ldo, sdo, mode)


@pytest.mark.parametrize(
    ("made", "bits"),
    [
        (MatrixDescriptor(0, 16, 1024, 3), 0x4000_4040_0001_0000),
        (MatrixDescriptor(0x400, 256, 128), 0x0000_4008_0010_0040),
        (MatrixDescriptor(0, 16, 1024, 3, "sm_90"), 0x4000_0040_0001_0000),
        (MatrixDescriptor(0, 0, 0, 1, "sm_90"), 0xC000_0000_0000_0000),
        (MatrixDescriptor(0, 0, 0, 3, atom=32), 0x2000_4000_0000_0000),
        (MatrixDescriptor(0, 0x300, 0, 3, leading_is_absolute=True), 0x4010_4000_0030_0000),
        (MatrixDescriptor(0, 0, 0, 3, base_offset=5), 0x400A_4000_0000_0000),
    ],
)
def test_a_worked_descriptor(made: MatrixDescriptor, bits: int) -> None:
    assert hex(made.encode()) == hex(bits)


@given(st.sampled_from(MODES), st.sampled_from(["K", "MN"]), st.integers(1, 40), st.integers(1, 8), UNITS, UNITS, UNITS)
def test_it_reaches_the_addresses_of_the_canonical_layout(
    mode: SwizzleMode, major: str, rows: int, units: int, start: int, ldo: int, sdo: int
) -> None:
    if major == "K" and mode:
        units = min(units, 1 << mode)
    made = MatrixDescriptor(16 * start, 16 * ldo, 16 * sdo, mode)

    found = made.addresses(rows, 16 * units, major)

    assert found.tolist() == [
        [byte_address(16 * start, 16 * ldo, 16 * sdo, mode, row, 16 * unit, major) for unit in range(units)]
        for row in range(rows)
    ]


@pytest.mark.parametrize("element", ["uint8", "bfloat16", "float32"])
@pytest.mark.parametrize("mode", MODES)
def test_a_tile_laid_out_for_mma_is_what_its_descriptor_reaches(element: str, mode: SwizzleMode) -> None:
    size = dtype(element).bits // 8
    shape = (32, mode.row_bytes // size)
    offsets = mma_shared_layout(element, mode, shape).table(shape)["m"][..., 0] * size

    reached = MatrixDescriptor(2048, stride=8 * mode.row_bytes, swizzle=mode).addresses(32, mode.row_bytes)

    assert (reached - 2048).tolist() == offsets[:, :: 16 // size].tolist()


def test_a_pattern_of_wide_atoms_moves_32_bytes_together() -> None:
    made = MatrixDescriptor(0, 512, 1024, SwizzleMode.SWIZZLE_128B_ATOM, atom=32)

    found = made.addresses(8, 256, "MN")

    for row in range(8):
        for unit in range(16):
            address = row % 4 * 128 + row // 4 * 1024 + unit // 8 * 512 + unit % 8 * 16
            assert found[row, unit] == address ^ (address >> 2 & 0x60)


def test_a_base_offset_tells_where_the_pattern_begins() -> None:
    """A tile whose pattern begins at 0x80 instead of at a multiple of 1024 is the same tile, 128 bytes later."""
    aligned = MatrixDescriptor(0, stride=1024, swizzle=3).addresses(7, 128)
    moved = MatrixDescriptor(0x80, stride=1024, swizzle=3, base_offset=1).addresses(7, 128)

    assert (moved - 0x80).tolist() == aligned.tolist()


def test_moving_the_start_inside_a_pattern_moves_along_its_rows() -> None:
    whole = MatrixDescriptor(0, stride=1024, swizzle=3).addresses(16, 128)
    half = MatrixDescriptor(32, stride=1024, swizzle=3).addresses(16, 32)

    assert half.tolist() == whole[:, 2:4].tolist()


def test_many_descriptors_at_once() -> None:
    made = [MatrixDescriptor(16 * n % 64, 16, 128, n % 4) for n in range(7)]
    bits = np.array([one.encode() for one in made], np.uint64)

    assert descriptor_addresses(bits, 32, 16).tolist() == [one.addresses(32, 16).tolist() for one in made]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a start between units": ({"start": 8}, "matrix descriptor: start"),
    "a start beyond 18 bits": ({"start": 1 << 18}, "matrix descriptor: start"),
    "a leading offset between units": ({"leading": 24}, "matrix descriptor: leading"),
    "a negative stride": ({"stride": -16}, "matrix descriptor: stride"),
    "an unknown swizzle": ({"swizzle": 4}, "matrix descriptor: swizzle"),
    "a base offset of four bits": ({"base_offset": 8}, "matrix descriptor: base_offset"),
    "wide atoms in a narrow pattern": ({"swizzle": 2, "atom": 32}, "matrix descriptor: atom"),
    "wide atoms for wgmma": ({"swizzle": 3, "atom": 32, "generation": "sm_90"}, "matrix descriptor: atom"),
    "an absolute offset for wgmma": (
        {"swizzle": 3, "leading_is_absolute": True, "generation": "sm_90"},
        "matrix descriptor: leading_is_absolute",
    ),
    "an absolute offset without a swizzle": ({"leading_is_absolute": True}, "matrix descriptor: leading_is_absolute"),
    "a start that is no number": ({"start": "0"}, "matrix descriptor: start"),
    "a start between two numbers": ({"start": 16.0}, "matrix descriptor: start"),
    "no stride": ({"stride": None}, "matrix descriptor: stride"),
    "another generation": ({"generation": "sm_120"}, "matrix descriptor: generation"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_field_is_named(case: str) -> None:
    fields, message = REFUSED[case]

    with pytest.raises(InstructionError, match=message):
        MatrixDescriptor(**{"start": 0, **fields})


@pytest.mark.parametrize(
    ("bits", "generation", "message"),
    [
        (0, "sm_100", "constant"),
        (1 << 46 | 1 << 14, "sm_100", "constant"),
        (1 << 46 | 3 << 61, "sm_100", "swizzle"),
        (1 << 46, "sm_90", "constant"),
        (0, "sm_80", "generation"),
        (1 << 64 | 1 << 46, "sm_100", "bits"),
        (-1, "sm_100", "bits"),
        ("0x400000000000", "sm_100", "bits"),
    ],
)
def test_bits_that_are_no_descriptor_are_refused(bits: int, generation: str, message: str) -> None:
    with pytest.raises(InstructionError, match=f"matrix descriptor: {message}"):
        MatrixDescriptor.decode(bits, generation)


@pytest.mark.parametrize(
    ("made", "rows", "major", "message"),
    [
        (MatrixDescriptor(0, swizzle=1), 48, "K", "row_bytes"),
        (MatrixDescriptor(0), 24, "K", "row_bytes"),
        (MatrixDescriptor(0), 0, "K", "row_bytes"),
        (MatrixDescriptor(0), 16, "N", "major"),
        (MatrixDescriptor(0, swizzle=3, atom=32), 16, "K", "atom"),
        (MatrixDescriptor(0, swizzle=3, leading_is_absolute=True), 16, "K", "leading_is_absolute"),
    ],
)
def test_addresses_that_nobody_can_tell_are_refused(
    made: MatrixDescriptor, rows: int, major: str, message: str
) -> None:
    with pytest.raises(InstructionError, match=f"matrix descriptor: {message}"):
        made.addresses(8, rows, major)


@pytest.mark.parametrize("rows", [0, -8])
def test_a_matrix_has_rows(rows: int) -> None:
    with pytest.raises(InstructionError, match="matrix descriptor: rows"):
        MatrixDescriptor(0).addresses(rows, 16)

    assert MatrixDescriptor(0).addresses(1, 16).tolist() == [[0]]


def test_a_descriptor_is_readable() -> None:
    assert str(MatrixDescriptor(0x400, 256, 1024, 3)).splitlines() == [
        "0x4000404000100040, a matrix descriptor of tcgen05 (sm_100)",
        "  bits 0-13   start                   64  0x400",
        "  bits 16-29  leading                 16  256 bytes",
        "  bits 32-45  stride                  64  1024 bytes",
        "  bits 49-51  base_offset              0",
        "  bit 52      leading_is_absolute      0",
        "  bits 61-63  swizzle                  2  SWIZZLE_128B_ATOM",
    ]


# The rows.

A = Buffer("A", dtype("uint8"), (512,), "shared", row_major((512,)))
DESC = Buffer("desc", dtype("uint64"), (1,), "local", row_major((1,)))
FORMS = [bound for bound in every_form() if bound.instruction.name in COVERED]


def named(bound: Bound) -> str:
    return "-".join([bound.instruction.name, *map(str, bound.mods.values())])


def operands(*values: int) -> list[Any]:
    return [np.full((1, 32), value, np.uint64 if value >> 32 else np.uint32) for value in values]


@pytest.mark.parametrize("bound", [one for one in FORMS if "encode" in one.instruction.name], ids=named)
def test_encoding_in_a_kernel_gives_the_bits_of_the_manual(bound: Bound) -> None:
    generation = "sm_90" if "wgmma" in bound.instruction.name else "sm_100"
    machine = PlainMachine(np.zeros((1, 8), np.uint8), ALL)
    swizzle = whole_number(bound.mods["swizzle"])

    words = executed(bound.form, bound.mods, machine, *operands(0x1230, 17, 0x3FFF))

    assert set(words.flat) == {encoded(generation, 0x1230, 17, 0x3FFF, swizzle)}


@pytest.mark.parametrize("bound", [one for one in FORMS if "add" in one.instruction.name], ids=named)
@pytest.mark.parametrize(
    ("desc", "units", "moved"),
    [
        (0x4000_4040_0001_0000, 5, 0x4000_4040_0001_0005),
        (0x4000_4040_0001_3FFD, 2, 0x4000_4040_0001_3FFF),  # the last address that there is
        (0x4000_4040_0001_0005, 0xFFFF_FFFE, 0x4000_4040_0001_0003),  # -2
    ],
)
def test_adding_to_a_descriptor_moves_its_start_and_nothing_else(
    bound: Bound, desc: int, units: int, moved: int
) -> None:
    assert set(executed(bound.form, bound.mods, *operands(desc, units)).flat) == {moved}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((8, 1, 1), "the start address of a matrix descriptor is a multiple of 16"),
        ((0, 1 << 14, 1), "ldo of a matrix descriptor is 0..16383, in units of 16 bytes; it is 16384"),
        ((0, 1, 0xFFFF_FFFF), "sdo of a matrix descriptor"),
    ],
)
def test_a_bad_field_stops_the_kernel(values: tuple[int, int, int], message: str) -> None:
    bound = next(one for one in FORMS if "tcgen05.encode" in one.instruction.name)

    with pytest.raises(SimulationError, match=message):
        executed(bound.form, {"swizzle": 0}, PlainMachine(np.zeros((1, 8), np.uint8), ALL), *operands(*values))


@pytest.mark.parametrize("format_name", ["tcgen05", "wgmma"])
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((DESC, A, 1 << 14, 8, 0), "ldo"),
        ((DESC, A, 16, -1, 0), "sdo"),
        ((DESC, 8, 16, 8, 0), "the start address"),
        ((DESC, A, 16, 8, 4), "swizzle in "),
        ((DESC, A, 16, 8, Var("mode")), "swizzle is a modifier, a constant"),
    ],
)
def test_a_bad_constant_is_an_error_that_names_the_field(format_name: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InstructionError) as error:
        isa.call(f"ptx.{format_name}.encode_matrix_descriptor", *args)
    assert message in str(error.value)


def test_a_descriptor_is_made_by_position_or_by_name() -> None:
    by_position = isa.call("ptx.tcgen05.encode_matrix_descriptor", DESC.ptr_to([0]), A, 16, 8, 0)

    assert isa.call("ptx.tcgen05.encode_matrix_descriptor", DESC, A, ldo=16, sdo=8, swizzle=MODES[0]) == by_position
