"""Fragments of tensor memory against the instructions that fill them, scale factors against the manual's formula."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import in_row
from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.isa import TMEM_SHAPES, cells_of
from tilewright.layout import (
    R,
    S,
    TCol,
    TLane,
    laneid,
    sf_smem_layout,
    sf_tmem_layout,
    sp_meta_smem_layout,
    sp_meta_tmem_layout,
    tcgen05_atom_layout,
    wg_local_layout,
)

ROWS = {"32x32b": (32, 128), **dict.fromkeys(("16x64b", "16x128b", "16x256b", "16x32bx2"), (16, 32, 64, 128))}


def expected(shape: str, rows: int, cells: int, per_cell: int) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Row and column of each element -> warp, lane, slot of its register, by the cells that instructions reach."""
    one = int(cells_of(shape, 1, split=1)[1].max()) + 1  # columns of num = 1
    lane, column = cells_of(shape, cells // one, split=cells // 2 if shape == "16x32bx2" else 0)
    height = TMEM_SHAPES[shape].height
    warps = 4 if rows in (64, 128) else 1
    found = {}
    for warp in range(warps):
        for block in range(rows // warps // height):
            for j, thread in np.ndindex(lane.shape):
                row = warp * (rows // warps) + block * height + int(lane[j, thread])
                for part in range(per_cell):
                    place = (row, int(column[j, thread]) * per_cell + part)
                    found[place] = (warp, thread, (block * len(lane) + j) * per_cell + part)
    return found


@pytest.mark.parametrize("cells", [8, 32])
@pytest.mark.parametrize(("shape", "rows"), [(shape, rows) for shape, all_rows in ROWS.items() for rows in all_rows])
def test_an_element_is_in_the_register_that_the_instruction_loads_it_to(shape: str, rows: int, cells: int) -> None:
    for element in ("float32", "bfloat16", "uint8", "float4_e2m1fn"):
        with in_row(element):
            check_registers(shape, rows, cells, element)


def check_registers(shape: str, rows: int, cells: int, element: str) -> None:
    per_cell = 32 // dtype(element).bits
    size = (rows, cells * per_cell)

    table = {name: values[..., 0] for name, values in tcgen05_atom_layout(shape, size, element).table(size).items()}
    warps = table.get("wid_in_wg", 0 * table["m"])
    threads = table["tid_in_wg"] if "tid_in_wg" in table else 32 * warps + table["laneid"]
    found = np.stack(np.broadcast_arrays(threads, table["m"]), -1).tolist()

    for (row, column), (warp, thread, slot) in expected(shape, rows, cells, per_cell).items():
        assert found[row][column] == [32 * warp + thread, slot]


def test_the_widest_shape_is_a_row_in_each_thread() -> None:
    assert tcgen05_atom_layout("32x32b", (128, 64), "float32") == wg_local_layout(64)


def test_a_number_of_columns_that_takes_several_instructions() -> None:
    assert tcgen05_atom_layout("16x128b", (16, 12), "float32") == S[(2, 8, 3, 4) : (1, 4 @ laneid, 2, 1 @ laneid)]


@pytest.mark.parametrize(
    ("shape_name", "shape", "element", "message"),
    [
        ("8x8b", (32, 8), "float32", "unknown shape '8x8b'"),
        ("32x32b", (64, 8), "float32", "64 rows with 32x32b"),
        ("16x64b", (48, 8), "float32", "48 rows with 16x64b"),
        ("16x256b", (16, 12), "float32", "12 columns of float32 with 16x256b"),
        ("16x256b", (16, 8), "float16", "8 columns of float16 with 16x256b"),
        ("16x32bx2", (16, 0), "float32", "0 columns"),
        ("32x32b", (32, 8), "float64", "float64 in tensor memory"),
        ("32x32b", (32, 3), "uint8", "3 columns of uint8 with 32x32b"),
        ("32x32b", (32, 0), "float32", "0 columns"),
        ("32x32b", (4, 32, 8), "float32", "a fragment has rows and columns"),
    ],
)
def test_what_no_instruction_loads_is_refused(
    shape_name: str, shape: tuple[int, ...], element: str, message: str
) -> None:
    with pytest.raises(LayoutError, match=message):
        tcgen05_atom_layout(shape_name, shape, element)


@pytest.mark.parametrize("rows", [32, 64, 128, 256])
@pytest.mark.parametrize("sf_k", [1, 2, 4, 8, 16])
def test_scale_factors_are_once_in_each_quarter(rows: int, sf_k: int) -> None:
    table = sf_tmem_layout(rows, SF_K=sf_k, sf_per_mma=1).table((rows, sf_k))

    for row, k in np.ndindex(rows, sf_k):
        assert table["TLane"][row, k].tolist() == [row % 32 + 32 * quarter for quarter in range(4)]
        cell = row // 32 + rows // 32 * (k // 4)
        assert set(table["TCol"][row, k].tolist()) == {4 * cell + k % 4}


def test_512_bytes_of_scale_factors_are_one_copy_of_32_rows() -> None:
    """As tcgen05.cp 32x128b.warpx4 brings them: byte 16 * (row % 32) + 4 * (row // 32) + k of shared memory."""
    table = sf_tmem_layout(128, SF_K=4, sf_per_mma=4).table((128, 4))

    shared = 16 * table["TLane"][..., 0] + table["TCol"][..., 0]

    row, k = np.indices((128, 4))
    assert np.array_equal(shared, 16 * (row % 32) + 4 * (row // 32) + k)
    assert sf_tmem_layout(32, SF_K=4) == S[(32, 4) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (48, {"SF_K": 4}, "scale factors of 48 rows"),
        (128, {"SF_K": 4, "sf_per_mma": 3}, "3 scale factors for a product"),
        (128, {"SF_K": 2}, "2 scale factors along K, 4 for a product"),
        (128, {"SF_K": 4, "sf_reuse": 0}, "sf_reuse=0"),
        (128, {"SF_K": 4, "pipe_depth": 0}, "pipe_depth=0"),
    ],
)
def test_scale_factors_that_fit_no_product_are_refused(rows: int, more: dict[str, int], message: str) -> None:
    for layout in (sf_tmem_layout, sf_smem_layout):
        with pytest.raises(LayoutError, match=message):
            layout(rows, **more)


def test_scale_factors_of_shared_memory_are_whole_words_of_128_rows() -> None:
    with pytest.raises(LayoutError, match="6 scale factors along K"):
        sf_smem_layout(128, SF_K=6, sf_per_mma=2)
    with pytest.raises(LayoutError, match="scale factors of 64 rows"):
        sf_smem_layout(64, SF_K=4)


@pytest.mark.parametrize("stages", [None, 3])
@pytest.mark.parametrize("reuse", [1, 2])
@pytest.mark.parametrize(("rows", "sf_k", "each"), [(32, 3, 1), (64, 6, 2), (128, 6, 1), (128, 12, 4), (256, 8, 2)])
def test_a_cell_has_the_factors_of_as_many_products_as_divide_all(
    rows: int, sf_k: int, each: int, reuse: int, stages: int | None
) -> None:
    layout = sf_tmem_layout(rows, sf_k, each, sf_reuse=reuse, pipe_depth=stages)

    table = layout.table((stages or 1, rows, sf_k, reuse))

    together = max(power for power in (1, 2, 4) if power * each <= 4 and sf_k // each % power == 0)
    stage, row, k, _ = np.indices((stages or 1, rows, sf_k, reuse))
    product = k // each
    place = 4 * (row // 32) + k % each + each * (product % together) + rows // 8 * (product // together)
    expected = place + stage * (rows // 8) * (sf_k // each // together)
    assert np.array_equal(table["TCol"][..., 0], expected)
    assert np.array_equal(table["TLane"], (row % 32)[..., None] + 32 * np.arange(4))


@pytest.mark.parametrize(("rows", "sf_k", "reuse", "stages"), [(128, 4, 1, None), (256, 16, 2, None), (384, 8, 1, 2)])
def test_shared_memory_has_scale_factors_as_one_copy_takes_them(
    rows: int, sf_k: int, reuse: int, stages: int | None
) -> None:
    shape = (stages or 1, rows, sf_k, reuse)

    table = sf_smem_layout(rows, sf_k, sf_reuse=reuse, pipe_depth=stages).table(shape)

    stage, r, c, _ = np.indices(shape)
    block = 512 * (sf_k // 4) * (r // 128) + 512 * (c // 4)
    assert np.array_equal(table["m"][..., 0], stage * rows * sf_k + block + 16 * (r % 32) + 4 * (r % 128 // 32) + c % 4)


@pytest.mark.parametrize(("element", "nbytes"), [("bfloat16", 4), ("bfloat16", 16), ("float32", 12), ("int8", 8),
                                                 ("float8_e4m3fn", 32), ("float4_e2m1fn", 16)])  # fmt: skip
@pytest.mark.parametrize("rows", [128, 256])
def test_metadata_are_where_a_sparse_product_looks_for_them(rows: int, element: str, nbytes: int) -> None:
    """Chunk by chunk: PTX ISA, "Sparse matrices", as CuTe has it; two chunks are a byte."""
    table = sp_meta_tmem_layout(rows, nbytes, element).table((rows, nbytes))

    wide = element in ("bfloat16", "float32")
    for row, byte in np.ndindex(rows, nbytes):
        block, r = divmod(row, 128)
        product, chunk = divmod(2 * byte, 8 if wide else 16)
        if wide:
            lane = 32 * (r // 32) + r % 8 + 16 * ((r % 32) // 16) + 8 * (chunk // 4)
            column, nibble = product, 4 * ((r % 16) // 8) + chunk % 4
            column += block * 2 * -(-nbytes // 8)
        else:
            lane, column, nibble = r, 2 * product + chunk // 8 + block * nbytes // 4, chunk % 8
        assert table["TLane"][row, byte].tolist() == [lane]
        assert table["TCol"][row, byte].tolist() == [4 * column + nibble // 2]


@pytest.mark.parametrize("element", ["float16", "float32", "uint8", "float4_e2m1fn"])
@pytest.mark.parametrize("nbytes", [16, 32])
def test_metadata_of_shared_memory_are_16_bytes_of_each_lane_at_a_time(element: str, nbytes: int) -> None:
    there = sp_meta_tmem_layout(256, nbytes, element).table((256, nbytes))
    shared = sp_meta_smem_layout(256, nbytes, element).table((256, nbytes))["m"][..., 0]

    lane, byte = there["TLane"][..., 0], there["TCol"][..., 0]
    block, byte = np.divmod(byte, nbytes)
    assert np.array_equal(shared, 128 * nbytes * block + 2048 * (byte // 16) + 16 * lane + byte % 16)


@pytest.mark.parametrize(
    ("rows", "nbytes", "element", "message"),
    [
        (64, 16, "bfloat16", "metadata of 64 rows"),
        (128, 6, "bfloat16", "6 bytes of metadata"),
        (128, 12, "int8", "12 bytes of metadata"),
    ],
)
def test_metadata_of_no_product_are_refused(rows: int, nbytes: int, element: str, message: str) -> None:
    for layout in (sp_meta_tmem_layout, sp_meta_smem_layout):
        with pytest.raises(LayoutError, match=message):
            layout(rows, nbytes, element)
    with pytest.raises(LayoutError, match="8 bytes of metadata"):
        sp_meta_smem_layout(128, 8, "int8")
