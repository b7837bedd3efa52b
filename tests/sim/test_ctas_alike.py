"""CTAs that copy, load and multiply the same tiles do so once, and every result is that of each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.test_sharing import CTAS, EIGHT, LOOK, TEAM
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, laneid, mma_shared_layout
from tilewright.sim.fast.products import Sums
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.memory import MemoryRows
from tilewright.sim.machine.uniform import Uniform

DOWN, ACROSS, TURNS = 2, 3, 3  # CTAs, and turns along K
TILE, STEP = 64, 32  # of 2 x 2 warps, each 32 x 32
ROWS = mma_shared_layout("float16", 2, (TILE, STEP))
A_FRAGMENT = TileLayout(S[(2, 2, 8, 2, 2, 4, 2) : (16, 2, 4 @ laneid, 8, 4, 1 @ laneid, 1)])
B_FRAGMENT = TileLayout(S[(4, 8, 2, 2, 4, 2) : (8, 4 @ laneid, 4, 2, 1 @ laneid, 1)])
D_FRAGMENT = TileLayout(S[(2, 2, 8, 4, 4, 2) : (16, 2, 4 @ laneid, 4, 1 @ laneid, 1)])


def product(turn: int, cta: int) -> Any:
    """D = A * B transposed by a grid of CTAs, which change their tile of A from a turn and a column on."""

    @T.prim_func
    def kernel(A_ptr: T.handle, B_ptr: T.handle, D_ptr: T.handle):
        A = T.match_buffer(A_ptr, (DOWN * TILE, TURNS * STEP), "float16")
        B = T.match_buffer(B_ptr, (ACROSS * TILE, TURNS * STEP), "float16")
        D = T.match_buffer(D_ptr, (DOWN * TILE, ACROSS * TILE), "float32")
        T.device_entry()
        bx, by = T.cta_id([ACROSS, DOWN])
        warp = T.warp_id([4])
        lane = T.lane_id([32])
        a_tile = T.alloc_buffer((TILE, STEP), "float16", scope="shared", layout=ROWS)
        b_tile = T.alloc_buffer((TILE, STEP), "float16", scope="shared", layout=ROWS)
        a = T.alloc_buffer((32, STEP), "float16", scope="local", layout=A_FRAGMENT)
        b = T.alloc_buffer((32, STEP), "float16", scope="local", layout=B_FRAGMENT)
        d = T.alloc_buffer((32, 32), "float32", scope="local", layout=D_FRAGMENT)
        a_at, b_at, d_at = a.local(), b.local(), d.local()
        row: T.let = warp // 2 * 32
        column: T.let = warp % 2 * 32
        for i in T.unroll(32):
            d_at[i] = T.float32(0)
        for step in range(TURNS):
            Tx.cta.copy(a_tile[:, :], A[by * TILE : (by + 1) * TILE, step * STEP : (step + 1) * STEP])
            Tx.cta.copy(b_tile[:, :], B[bx * TILE : (bx + 1) * TILE, step * STEP : (step + 1) * STEP])
            T.cuda.cta_sync()
            if step >= turn and bx >= cta and warp * 32 + lane == 5:
                a_tile[9, 3] = T.cast(bx + 4, "float16")
            T.cuda.cta_sync()
            Tx.warp.copy(a[:, :], a_tile[row : row + 32, :])
            Tx.warp.copy(b[:, :], b_tile[column : column + 32, :])
            for i, j, half in T.grid(2, 4, 2):
                sums = d_at[16 * i + 4 * j : 16 * i + 4 * j + 4]
                left = a_at[16 * i + 8 * half : 16 * i + 8 * half + 8]
                right = b_at[8 * j + 4 * half : 8 * j + 4 * half + 4]
                T.ptx.mma("m16n8k16", "f32.f16.f16.f32", sums, left, right, sums)
            T.cuda.cta_sync()
        Tx.warp.copy(D[by * TILE + row : by * TILE + row + 32, bx * TILE + column : bx * TILE + column + 32], d[:, :])

    return kernel


def expected(a: np.ndarray, b: np.ndarray, turn: int, cta: int) -> np.ndarray:
    """CTA by CTA."""
    found = np.empty((DOWN * TILE, ACROSS * TILE), np.float32)
    for by, bx in np.ndindex(DOWN, ACROSS):
        left = a[by * TILE : (by + 1) * TILE].astype(np.float32)
        if bx >= cta:
            left[9, turn * STEP + 3 :: STEP] = bx + 4
        right = b[bx * TILE : (bx + 1) * TILE].astype(np.float32)
        found[by * TILE : (by + 1) * TILE, bx * TILE : (bx + 1) * TILE] = left @ right.T
    return found


@pytest.mark.parametrize(("turn", "cta"), [(TURNS, 0), (0, 0), (0, 2), (1, 0)])
@pytest.mark.parametrize(("alike", "check"), [(False, "all"), (True, "none")])
def test_ctas_in_a_grid_find_what_each_finds_by_itself(
    *, alike: bool, check: str, turn: int, cta: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    grids: list[tuple[int, int] | None] = []
    add = Sums.add

    def added(self: Sums, *args: Any) -> None:
        grids.append(args[2][0])
        add(self, *args)

    monkeypatch.setattr(Sums, "add", added)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (n * TILE, TURNS * STEP)).astype(np.float16) for n in (DOWN, ACROSS))
    if alike:
        a[:], b[:] = np.tile(a[:TILE], (DOWN, 1)), np.tile(b[:TILE], (ACROSS, 1))
    d = np.zeros((DOWN * TILE, ACROSS * TILE), np.float32)

    tw.compile(product(turn, cta)).simulate(a, b, d, check=check)

    np.testing.assert_array_equal(d, expected(a, b, turn, cta))
    assert grids == [(DOWN, ACROSS)] * turn + [None] * (TURNS - turn)


# What shared memory knows


@pytest.fixture
def filled() -> MemoryRows:
    """Three rows of which all have the same bytes 256 to 511."""
    block = MemoryRows.zeros(CTAS, 1024)
    block.fill(LOOK.ctas, 256, np.arange(64, dtype=np.uint32)[None], Uniform(1, CTAS, 1))
    return block


def test_memory_knows_who_has_the_same(filled: MemoryRows) -> None:
    np.testing.assert_array_equal(filled.view(4)[:, 64:128], np.tile(np.arange(64), (CTAS, 1)))
    assert filled.alike(LOOK.ctas, 256, 512) == filled.alike(LOOK.ctas, 300, 400) == Uniform(1, CTAS, 1)
    assert filled.alike(LOOK.ctas, 255, 512) is filled.alike(LOOK.ctas, 256, 513) is None
    assert filled.alike(slice(0, 2, 1), 256, 512) is None


def test_what_neighbours_have_is_known_together(filled: MemoryRows) -> None:
    filled.fill(LOOK.ctas, 512, np.zeros((1, 8), np.uint32), Uniform(1, CTAS, 1))

    assert filled.alike(LOOK.ctas, 260, 540) == Uniform(1, CTAS, 1)


@pytest.mark.parametrize("first", [252, 256, 508, 128])
def test_a_store_makes_memory_forget_who_has_the_same(filled: MemoryRows, first: int) -> None:
    lanes = Part(np.arange(32, dtype=np.int64).reshape(1, 1, 32) * 4)
    filled.store(TEAM, Address(first, lanes), 4, np.zeros((1, 1, 1), np.uint32))

    assert (filled.alike(LOOK.ctas, 256, 512) is None) == (first > 128)


def test_memory_that_is_about_to_change_knows_nothing(filled: MemoryRows) -> None:
    filled.to_change(8)

    assert filled.alike(LOOK.ctas, 256, 512) is None


def test_a_view_of_memory_is_not_written(filled: MemoryRows) -> None:
    with pytest.raises(ValueError, match="read-only"):
        filled.view(4)[0, 0] = 1


@pytest.mark.parametrize("alike", EIGHT, ids=str)
def test_a_fill_gives_each_row_its_bytes(alike: Uniform) -> None:
    block = MemoryRows.zeros(8, 256)
    once = np.arange(alike.outer * alike.inner * 4, dtype=np.uint64).reshape(-1, 4)

    block.fill(slice(0, 8, 1), 64, once, alike)

    for row in range(8):
        np.testing.assert_array_equal(block.view(8)[row, 8:12], once[alike.number(row)])
