"""tcgen05.cp, shift and commit: from the descriptor to the cells, row by row, against the manual's tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.isa.assembling import every_form
from tests.isa.descriptor_oracles import byte_address
from tests.isa.forms import form_of
from tests.isa.tmem_machines import PlainUnit
from tests.isa.tmem_oracles import SIZES, expanded, lanes_of_row
from tests.rows import in_row
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, SimulationError
from tilewright.ir import Buffer, row_major
from tilewright.isa import MatrixDescriptor, arrived, copied_lanes
from tilewright.isa.forms import Signal
from tilewright.isa.table import Bound

FORMS = [bound for bound in every_form() if bound.instruction.name == "ptx.tcgen05.cp"]
SHARED = np.random.default_rng(1).integers(0, 256, (4, 1 << 15), dtype=np.uint8)
ADDR = Buffer("addr", dtype("uint32"), (1,), "shared", row_major((1,)))
DESC = Buffer("desc", dtype("uint64"), (1,), "local", row_major((1,)))
BAR = Buffer("bar", dtype("uint64"), (1,), "shared", row_major((1,)))


def named(bound: Bound) -> str:
    return "-".join([bound.instruction.name, *map(str, bound.mods.values())])


def machine(*ctas: int) -> PlainUnit:
    return PlainUnit(SHARED, np.zeros((4, 128, 512), np.uint32), list(ctas))


def run(bound: Bound, bulk: PlainUnit, *operands: NDArray[Any]) -> None:
    bulk.completed(bound, dict(zip(("taddr", "desc"), operands, strict=False)))


def issued(bound: Bound, bulk: PlainUnit, lane: int, column: int, *made: MatrixDescriptor) -> None:
    where = np.full(len(made), lane << 16 | column, np.uint32)
    run(bound, bulk, where, np.array([one.encode() for one in made], np.uint64))


def expected(bound: Bound, cta: int, lane: int, column: int, made: MatrixDescriptor) -> NDArray[np.uint32]:
    """The cells of one CTA after the copy."""
    shape, multicast = str(bound.mods["shape"]), str(bound.mods["multicast"])
    cells = np.zeros((128, 512), np.uint32)
    rows, nbytes = SIZES[shape]
    for row in range(rows):
        for unit in range(nbytes // 16):
            start = byte_address(made.start, made.leading, made.stride, int(made.swizzle), row, 16 * unit)
            words = np.frombuffer(
                expanded(SHARED[cta, start : start + 16].tobytes(), str(bound.mods["fmt"])), np.uint32
            )
            for target in lanes_of_row(shape, multicast, row):
                cells[lane + target, column + 4 * unit : column + 4 * unit + 4] = words
    return cells


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_a_copy_brings_each_row_to_the_lanes_of_its_shape(mode: int) -> None:
    for bound in FORMS:
        with in_row(named(bound)):
            check_copy(bound, mode)


def check_copy(bound: Bound, mode: int) -> None:
    made = MatrixDescriptor(1024, leading=4096, stride=(128, 512, 512, 2048)[mode], swizzle=mode)
    bulk, lane = machine(1), 31 if bound.mods["shape"] == "4x256b" else 0

    issued(bound, bulk, lane, 40, made)

    for cta in (0, 1) if bound.mods["cta_group"] == 2 else (1,):
        assert np.array_equal(bulk.words[cta], expected(bound, cta, lane, 40, made))
    assert not bulk.words[2:].any()


@given(
    st.sampled_from(FORMS),
    st.lists(
        st.tuples(st.integers(0, 64), st.integers(0, 64), st.integers(1, 64), st.integers(0, 3)), min_size=1, max_size=2
    ),
)
def test_many_issuers_copy_each_for_itself(bound: Bound, fields: list[tuple[int, int, int, int]]) -> None:
    made = [MatrixDescriptor(16 * start, 16 * ldo, 16 * sdo, mode) for start, ldo, sdo, mode in fields]
    ctas = [2 * number for number in range(len(made))]
    bulk = machine(*ctas)

    issued(bound, bulk, 0, 8, *made)

    for cta, one in zip(ctas, made, strict=True):
        assert np.array_equal(bulk.words[cta], expected(bound, cta, 0, 8, one))


@pytest.mark.parametrize(
    ("shape", "multicast", "rows"),
    [(shape, multicast, form.rows) for shape, form in isa.COPY_SHAPES.items() for multicast in form.multicasts],
)
def test_the_lanes_of_a_shape(shape: str, multicast: str, rows: int) -> None:
    lanes = copied_lanes(shape, multicast)

    assert [lanes[:, row].tolist() for row in range(rows)] == [
        lanes_of_row(shape, multicast, row) for row in range(rows)
    ]
    assert len(set(lanes.flat)) == lanes.size  # no lane twice


def form(**mods: Any) -> Bound:
    return next(bound for bound in FORMS if mods.items() <= bound.mods.items())


def test_the_tile_of_32_rows_of_16_bytes_goes_to_all_four_quarters() -> None:
    """32 x 16 bytes without padding: 8 rows are 128 bytes, and a row is one unit, so that `leading` does not count."""
    bulk = machine(0)

    issued(form(shape="32x128b", cta_group=1, fmt=""), bulk, 0, 0, MatrixDescriptor(0, leading=256, stride=128))

    tile = SHARED[0, :512].view(np.uint32).reshape(32, 4)
    assert np.array_equal(bulk.words[0, :, :4], np.tile(tile, (4, 1)))


def test_four_bits_come_to_the_middle_of_a_byte_and_six_to_its_low_end() -> None:
    bulk = machine(0)
    bulk.bytes = np.zeros_like(SHARED)
    bulk.bytes[0, :3] = [0b0011_1111, 0b0000_1010, 0]

    issued(form(shape="32x128b", cta_group=1, fmt="b4x16_p64"), bulk, 0, 0, MatrixDescriptor(0, stride=128))
    issued(form(shape="32x128b", cta_group=1, fmt="b6x16_p32"), bulk, 0, 4, MatrixDescriptor(0, stride=128))

    assert bulk.words[0, 0, :1].view(np.uint8).tolist() == [0b111100, 0b001100, 0b101000, 0]
    assert bulk.words[0, 0, 4:5].view(np.uint8).tolist() == [0b111111, 0b101000, 0, 0]


@pytest.mark.parametrize("fmt", ["", "b6x16_p32", "b4x16_p64"])
def test_a_byte_is_valid_where_all_bits_of_its_element_are(fmt: str) -> None:
    """Validity agrees with what changes when one byte of the source is changed."""
    bound = form(shape="32x128b", cta_group=1, fmt=fmt)
    where, desc = np.zeros(1, np.uint32), np.array([MatrixDescriptor(0, stride=128).encode()], np.uint64)
    for place in range(16):
        changed, valid = SHARED.copy(), np.ones_like(SHARED)
        changed[0, place] ^= 0xFF
        valid[0, place] = 0
        before, after, flags = machine(0), PlainUnit(changed, np.zeros((4, 128, 512), np.uint32), [0]), machine(0)
        flags.bytes = valid
        run(bound, before, where, desc)
        run(bound, after, where, desc)
        assert bound.form.meaning.validity is not None
        flags.completed(bound, {"taddr": where, "desc": desc}, bound.form.meaning.validity)

        differs = (before.words[0, 0, :4] ^ after.words[0, 0, :4]).view(np.uint8) != 0
        assert np.array_equal(flags.words[0, 0, :4].view(np.uint8) == 0, differs)


@pytest.mark.parametrize(
    ("mods", "taddr", "desc", "message"),
    [
        ({"shape": "128x128b"}, 1 << 16, None, "taddr is in lane 1; it is 0, since the copy spans all lanes"),
        ({"shape": "4x256b"}, 32 << 16, None, "taddr is in lane 32; it is 0 to 31"),
        ({"shape": "32x128b"}, 0, 0, "matrix descriptor: constant"),
        ({"shape": "32x128b"}, 0, 1 << 46 | 3 << 61, "matrix descriptor: swizzle is bits 61-63 are 3"),
        ({"shape": "128x256b"}, 0, 1 << 46 | 1 << 61, "matrix descriptor: atom"),
    ],
)
def test_what_cannot_be_copied_stops_the_kernel(
    mods: dict[str, Any], taddr: int, desc: int | None, message: str
) -> None:
    good = MatrixDescriptor(0, stride=128).encode()
    descs = np.array([good, good if desc is None else desc], np.uint64)
    where = np.array([0, taddr], np.uint32)

    with pytest.raises(SimulationError, match=message) as error:
        run(form(**mods, cta_group=1, fmt=""), machine(0, 1), where, descs)
    assert error.value.given == "issuers [1]"


def test_a_shift_moves_rows_up_by_a_lane_and_leaves_the_last() -> None:
    bound = next(b for b in every_form() if b.instruction.name == "ptx.tcgen05.shift")
    bulk = machine(2)
    bulk.words[:] = np.random.default_rng(3).integers(0, 1 << 32, bulk.words.shape, dtype=np.uint32)
    before = bulk.words.copy()

    run(bound, bulk, np.array([32 << 16 | 16], np.uint32))

    after = before.copy()
    for lane in range(32, 63):
        after[2, lane, 16:24] = before[2, lane + 1, 16:24]
    assert np.array_equal(bulk.words, after)


def test_a_shift_of_a_pair_moves_both_and_begins_at_a_quarter() -> None:
    bound = [b for b in every_form() if b.instruction.name == "ptx.tcgen05.shift"][1]
    bulk = machine(3)
    bulk.words[:, 1, 0] = 7

    run(bound, bulk, np.array([0], np.uint32))

    assert bulk.words[:, 0, 0].tolist() == [0, 0, 7, 7]
    with pytest.raises(SimulationError, match="taddr is in lane 8; it is a multiple of 32"):
        run(bound, bulk, np.array([8 << 16], np.uint32))


@pytest.mark.parametrize("group", [1, 2])
def test_a_commit_is_one_arrival(group: int) -> None:
    bound = form_of("ptx.tcgen05.commit", BAR, cta_group=group)

    assert bound.form.signals == (Signal("ptr", "arrive", "release", "cluster", arrived),)
    assert bound.mnemonic == f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64"


def test_a_commit_may_tell_several_ctas() -> None:
    bound = form_of("ptx.tcgen05.commit", BAR, cta_group=2, cta_mask=0b11)
    bulk = machine(0, 1)

    assert bound.form.async_meaning.addresses is not None
    found = bound.form.async_meaning.addresses(bulk, np.array([8, 16]), np.array([0b11, 0b10], np.uint16))["ptr"]

    assert found.issuer is not None
    assert found.rank is not None
    assert (found.at.tolist(), found.issuer.tolist(), found.rank.tolist()) == ([8, 8, 16], [0, 0, 1], [0, 1, 1])
    for mask, what in ((0, "cta_mask has a bit for each CTA"), (0b100, "cta_mask has bit 2, but the ranks")):
        with pytest.raises(SimulationError, match=what):
            bound.form.async_meaning.addresses(bulk, np.array([8, 16]), np.array([0b11, mask], np.uint16))


REFUSED = [
    {"shape": "32x128b"},
    {"shape": "64x128b"},
    {"shape": "128x128b", "multicast": "warpx4"},
    {"shape": "64x128b", "multicast": "warpx2"},
    {"shape": "32x32b"},
    {"shape": "128x256b", "fmt": "b8"},
    {"shape": "128x256b", "cta_group": 4},
]


@pytest.mark.parametrize("mods", REFUSED)
def test_what_the_assembler_would_refuse_is_an_error(mods: dict[str, Any]) -> None:
    with pytest.raises(InstructionError, match="no form with these modifiers"):
        isa.call("ptx.tcgen05.cp", ADDR[0], DESC[0], **mods)


def test_a_copy_is_spelled_as_the_manual_has_it() -> None:
    bound = form_of("ptx.tcgen05.cp", ADDR[0], DESC[0], shape="32x128b", multicast="warpx4")

    assert bound.code({"taddr": "%0", "desc": "%1"}) == "tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;"
