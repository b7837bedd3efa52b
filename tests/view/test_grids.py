"""One grid, drawn in every way."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

import tilewright as tw
from tilewright import T, Tx, isa
from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.layout import R, S, TCol, TLane, laneid, mma_shared_layout, tid_in_wg
from tilewright.view import (
    as_json,
    atom_grids,
    fitting,
    html,
    layout_grid,
    memory_grid,
    mma_grids,
    opposite_grid,
    picture_shape,
    plain,
    preformatted,
    svg,
)

FRAGMENT = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]


def words(grid) -> list[list[str]]:
    return [[cell.words for cell in row] for row in grid.rows]


def test_a_register_layout_names_thread_value_and_register() -> None:
    grid = layout_grid(S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)], (8, 16), dtype("float16"))

    assert words(grid)[1][:5] == ["T4V0:R0", "T4V1:R0", "T4V2:R1", "T4V3:R1", "T5V0:R0"]


def test_registers_are_32_bits_wide() -> None:
    grid = layout_grid(S[(4, 8) : (1 @ laneid, 1)], (4, 8), dtype("uint8"))

    assert words(grid)[0] == [f"T0V{v}:R{v // 4}" for v in range(8)]


def test_a_memory_layout_shows_offsets_after_the_swizzle() -> None:
    grid = layout_grid(mma_shared_layout("float16", 3, (8, 64)), (8, 64), dtype("float16"))

    assert words(grid)[1][:9] == [*map(str, range(72, 80)), "64"]


def test_replicas_are_all_named() -> None:
    grid = layout_grid(S[(2,) : (1 @ TLane,)] + R[2 : 32 @ TLane], (2,))

    assert words(grid) == [["TLane0 TLane32", "TLane1 TLane33"]]


def test_a_warpgroup_counts_128_threads() -> None:
    grid = layout_grid(S[(128, 1) : (1 @ tid_in_wg, 1)], (128, 1), dtype("float32"))

    assert words(grid)[127] == ["T127V0:R0"]


@pytest.mark.parametrize(("by", "keys"), [("lane", 32), ("register", 1), ("bank", 1)])
def test_colours_tell_lanes_registers_or_banks_apart(by: str, keys: int) -> None:
    assert len(layout_grid(FRAGMENT, (8, 8), dtype("float16"), by=by).keys) == keys


def test_too_large_a_tile_is_refused() -> None:
    with pytest.raises(LayoutError, match="too large for a picture"):
        layout_grid(S[(1024, 1024)], (1024, 1024))


def test_every_drawing_has_every_cell(golden) -> None:
    grid = layout_grid(FRAGMENT, (8, 8), dtype("float16"))
    cells = [word for row in words(grid) for word in row]

    assert all(cell in plain(grid) for cell in cells)
    assert all(cell in html(grid) for cell in cells)
    texts = [node.text for node in ElementTree.fromstring(svg(grid)).iter() if node.tag.endswith("text")]
    assert set(cells) <= set(texts)
    assert [c["words"] for row in json.loads(as_json(grid))["rows"] for c in row["cells"]] == cells
    golden("view/fragment.svg", svg(grid))


def test_an_atom_is_drawn_matrix_by_matrix() -> None:
    grids = atom_grids(isa.atom("SM75_U16x8_LDSM_T"))

    assert len(grids) == 4
    assert words(grids[0])[1][:3] == ["T0V1:R0", "T4V1:R0", "T8V1:R0"]
    assert words(grids[3])[0][0] == "T0V6:R3"


def test_every_atom_can_be_drawn() -> None:
    for name in isa.ATOMS:
        assert all(grid.rows for grid in atom_grids(isa.atom(name)))


def test_several_pictures_are_stacked_in_one_drawing() -> None:
    grids = atom_grids(isa.atom("SM75_U16x8_LDSM_T"))
    drawn = ElementTree.fromstring(svg(*grids))
    texts = [node.text for node in drawn.iter() if node.tag.endswith("text")]
    groups = [node for node in drawn if node.tag.endswith("}g")]

    assert [text for text in texts if text in {grid.title for grid in grids}] == [grid.title for grid in grids]
    assert len({group.attrib["transform"] for group in groups}) == len(grids), "each below the one before"


def test_a_tall_picture_folds_into_panels_side_by_side_that_fit_a_screen() -> None:
    tall = memory_grid(S[(128, 4) : (1 @ TLane, 1 @ TCol)], (128, 4), dtype("uint32"))

    drawn = ElementTree.fromstring(svg(tall))

    assert float(drawn.get("height", 0)) < 800 < float(drawn.get("width", 0))
    texts = [node.text for node in drawn.iter() if node.tag.endswith("text")]
    assert texts.count(tall.title) == 1
    assert [texts.count(str(lane)) for lane in range(4, 128)] == [1] * 124


def test_the_other_side_of_an_atom_names_the_thread_whose_address_gives_a_row() -> None:
    grid = opposite_grid(isa.atom("SM75_U32x2_LDSM_N"))

    assert len(grid.rows) == 16, "lanes 16 to 31 only repeat addresses"
    assert words(grid)[9] == [f"T9V{v}" for v in range(8)]


def test_an_atom_without_addresses_shows_its_source_registers() -> None:
    names = [name for name in isa.ATOMS if "movmatrix" in isa.atom(name).mnemonic]
    for name in names:
        assert words(opposite_grid(isa.atom(name)))[0][0].startswith("T0V0:R0")


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (FRAGMENT, (8, 8)),
        (S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)], (8, 16)),
        (S[(4, 8) : (8, 1)], (4, 8)),
        (S[(6,) : (1,)], (6,)),
        (S[(4096,) : (1,)], (64, 64)),
    ],
)
def test_a_layout_without_a_shape_is_drawn_as_near_to_a_square_as_its_iters_allow(layout, shape) -> None:
    assert picture_shape(layout) == shape


@pytest.mark.parametrize("width", [20, 40, 64, 1000])
def test_a_table_too_wide_for_a_terminal_comes_in_pieces_that_fit(width: int) -> None:
    grid = layout_grid(FRAGMENT, (8, 8), dtype("float16"))
    pieces = list(fitting(grid, width))

    assert [name for piece in pieces for name in piece.columns] == list(grid.columns)
    assert [cell for piece in pieces for cell in words(piece)[3]] == words(grid)[3]
    narrowest = len(grid.corner) + 1 + max(len(cell) for cell in words(grid)[7]) + 1
    for piece in pieces:
        longest = max(len(line) for line in plain(piece).splitlines()[1:])
        assert longest - len(piece.columns) <= max(width, narrowest)


def test_the_pieces_of_a_table_have_as_many_columns_each() -> None:
    grid = layout_grid(FRAGMENT, (8, 8), dtype("float16"))
    seven_fit = len(grid.corner) + 1 + 7 * 9  # 8 columns of 8 characters and a space

    assert [len(piece.columns) for piece in fitting(grid, seven_fit)] == [4, 4]
    assert [len(piece.columns) for piece in fitting(grid, seven_fit + 9)] == [8]


def test_an_mma_shows_the_fragments_of_its_operands() -> None:
    mma = isa.mma_atom("SM80_16x8x16_F32F16F16F32_TN")
    a, b, c = mma_grids(mma)

    assert words(a)[8][8] == "T0V6:R3"  # a3: rows 8-15, the high half of K
    assert words(b)[9][1] == "T4V3:R1"
    assert words(c)[8][3] == "T1V3:R3"
    assert (a.corner, b.corner, c.corner) == ("M / K", "K / N", "M / N")
    assert mma_grids(mma, by="register")[0].key_name == "register"
    assert mma.name in mma._repr_html_()
    assert mma._repr_html_().count("<table") == 3


def test_a_notebook_shows_layouts_atoms_and_reports() -> None:
    @T.prim_func
    def moved(A: T.Buffer((32, 8), "float16"), B: T.Buffer((32, 8), "float16")):
        T.cta_id([1])
        T.lane_id([32])
        R_tile = T.alloc_buffer((32, 8), "float16", scope="local", layout=S[(32, 8) : (1 @ laneid, 1)])
        Tx.warp.copy(R_tile[:, :], A[:, :])
        Tx.warp.copy(B[:, :], R_tile[:, :])

    report = tw.compile(moved, target="sm_90a").report
    assert "T4V1:R0" in FRAGMENT._repr_html_()
    assert mma_shared_layout("float16", 3, (8, 64))._repr_html_().count("<td") == 8 * 64
    assert "ldmatrix.sync.aligned" in isa.atom("SM75_U32x4_LDSM_N")._repr_html_()
    assert isa.atom("SM75_U32x4_LDSM_N")._repr_html_().count("<table") == 5
    assert "copy/reg" in report._repr_html_()


def test_a_notebook_is_not_flooded_and_not_fooled() -> None:
    large = S[(512, 512) : (512, 1)]._repr_html_()
    assert "Not drawn: 262144 elements" in large
    assert "<td" not in large
    assert "&lt;" in preformatted("a < b")
