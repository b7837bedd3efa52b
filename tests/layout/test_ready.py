"""Ready-made layouts against the formulas of the manuals."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.layout import (
    S,
    SwizzleMode,
    TCol,
    TLane,
    mma_atom_layout,
    mma_shared_layout,
    parse_layout,
    tid_in_wg,
    tma_shared_layout,
    tmem_datapath_layout,
    wg_local_layout,
)

TYPES = ["uint8", "float16", "float32", "float4_e2m1fn", "float64"]


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("mode", list(SwizzleMode))
def test_shared_layout_is_the_xor_of_byte_addresses(element, mode):
    bits, span = dtype(element).bits, 16 << mode
    width = span * 8 // bits
    rows, cols = 16, 3 * width
    table = mma_shared_layout(element, mode, (2, rows, cols)).table((2, rows, cols))["m"][..., 0]
    batch, row, col = np.indices((2, rows, cols))
    linear = (batch * 3 + col // width) * rows * span + row * span + col % width * bits // 8
    swizzled = linear ^ ((linear >> 3) & (span - 16))
    assert np.array_equal(table * bits // 8, swizzled)
    assert np.array_equal(np.sort(table.ravel()), np.arange(table.size))


@pytest.mark.parametrize("mode", list(SwizzleMode))
def test_atom_is_the_canonical_layout_of_the_manual(mode):
    """K-major: row mn, byte kb at ``(mn % 8) * S + kb``, then the XOR."""
    table = mma_atom_layout("bfloat16", mode).table((8, 8 << mode))["m"][..., 0] * 2
    row, byte = np.indices(table.shape) * np.array([1, 2])[:, None, None]
    linear = row * (16 << mode) + byte
    assert np.array_equal(table, linear ^ ((linear >> 3) & ((16 << mode) - 16)))


def test_unswizzled_stripes_are_core_matrices():
    assert mma_shared_layout("float16", SwizzleMode.SWIZZLE_NONE, (64, 32)) == S[(64, 4, 8) : (8, 512, 1)]
    assert mma_shared_layout("uint8", 0, (32, 16)).is_trivial()


def test_tma_writes_what_mma_reads():
    assert tma_shared_layout("float16", 2, (64, 64)) == mma_shared_layout("float16", 2, (64, 64))


@pytest.mark.parametrize("shape", [(64, 48), (12, 64), (64,)])
def test_shared_layout_refuses_partial_atoms(shape):
    with pytest.raises(LayoutError, match="of float16 does not admit SWIZZLE_128B_ATOM"):
        mma_shared_layout("float16", 3, shape)


def test_shared_layout_refuses_an_unknown_mode():
    with pytest.raises(LayoutError, match="unknown swizzle mode 5"):
        mma_shared_layout("float16", 5, (64, 64))


def test_warpgroup_rows():
    assert wg_local_layout(8) == S[(128, 8) : (1 @ tid_in_wg, 1)]
    assert wg_local_layout(8, rows=64) == S[(64, 8) : (1 @ tid_in_wg, 1)]
    tall = wg_local_layout(8, rows=256).table((256, 8))
    rows, cols = np.indices((256, 8))
    assert np.array_equal(tall["tid_in_wg"][..., 0], rows % 128)
    assert np.array_equal(tall["m"][..., 0], rows // 128 * 8 + cols)
    with pytest.raises(LayoutError, match="200 rows for a warpgroup"):
        wg_local_layout(8, rows=200)


def test_datapaths_of_tensor_memory():
    assert tmem_datapath_layout("D", 128, 64) == S[(128, 64) : (1 @ TLane, 1 @ TCol)]
    row = np.arange(64)
    lanes = tmem_datapath_layout("F", 64, 4).table((64, 4))["TLane"][:, 0, 0]
    assert np.array_equal(lanes, row % 16 + 32 * (row // 16))


def test_datapaths_refuse_another_height_and_name():
    with pytest.raises(LayoutError, match="datapath F with 128 rows"):
        tmem_datapath_layout("F", 128, 4)
    with pytest.raises(LayoutError, match="unknown datapath 'Z'"):
        tmem_datapath_layout("Z", 128, 4)


@pytest.mark.parametrize(
    ("element", "mode", "shape", "hint"),
    [
        ("float16", 3, (64, 24), 'mma_shared_layout("float16", SwizzleMode.SWIZZLE_NONE, (64, 24))'),
        ("float32", 3, (2, 8, 16), 'mma_shared_layout("float32", SwizzleMode.SWIZZLE_64B_ATOM, (2, 8, 16))'),
        ("float16", 3, (60, 24), "a tile of (64, 64), of which (60, 24) is used"),
        ("float16", 0, (8, 4), "a tile of (8, 8), of which (8, 4) is used"),
    ],
)
def test_a_tile_without_this_mode_gets_the_mode_or_the_tile_that_fits(
    element: str, mode: int, shape: tuple[int, ...], hint: str
) -> None:
    with pytest.raises(LayoutError, match="does not admit") as refused:
        mma_shared_layout(element, mode, shape)

    assert refused.value.hint == hint
    if hint.startswith("a tile"):
        mma_shared_layout(element, mode, tuple(map(int, hint[11 : hint.index(")")].split(","))))
    else:
        parse_layout(hint)
