"""One grid, drawn in every way."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.layout import R, S, TLane, laneid, mma_shared_layout, tid_in_wg
from tilewright.view import as_json, atom_grids, html, layout_grid, plain, svg

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
