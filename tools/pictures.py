"""The pictures of the tutorial, one for each step: what the step is about, drawn from the layouts that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tilewright.layout import Layout, S, TileLayout, laneid, mma_fragment_layout, mma_shared_layout
from tilewright.view import Cell, Grid, layout_grid, svg
from tools.size import ROOT

__all__ = ["STEPS", "step_pictures"]

FOLDER = ROOT / "docs" / "pictures"
FRAGMENT = TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])  # step 3
ROWS = TileLayout(S[(8, 4, 8) : (4 @ laneid, 1 @ laneid, 1)])  # step 4


def step_pictures() -> Mapping[Path, str]:
    """Every picture, with its text."""
    return {FOLDER / f"step_{name}.svg": svg(*draw()) + "\n" for name, draw in STEPS.items()}


def _grid(title: str, corner: str, heads: Iterable[object], rows: Mapping[str, Sequence[Cell]]) -> Grid:
    return Grid(title, tuple(map(tuple, rows.values())), tuple(map(str, heads)), tuple(rows), corner)


def lane() -> list[Grid]:
    """Which lane runs the line for which element."""
    rows = {f"B[{first}..{first + 7}]": [Cell(f"lane {first + k}", first + k) for k in range(8)]
            for first in range(0, 32, 8)}  # fmt: skip
    return [_grid("B[lane] = 2 * A[lane]: an element for each lane", "element", (f"+{k}" for k in range(8)), rows)]


def warps(n: int = 1000, threads: int = 128) -> list[Grid]:
    """Which elements each warp of each CTA has; the last CTA has more threads than elements."""
    rows = {}
    for first in range(0, n, threads):
        parts = [(i, min(i + 32, n) - 1) for i in range(first, first + threads, 32)]
        rows[f"CTA {first // threads}"] = [Cell(f"{a}..{b}" if b - a == 31 else f"{a}..{b}, then none", a // threads)
                                           for a, b in parts]  # fmt: skip
    return [_grid("1000 elements: 8 CTAs of 4 warps", "", (f"warp {k}" for k in range(4)), rows)]


def fragment() -> list[Grid]:
    """The lane and the register of every element."""
    return [layout_grid(FRAGMENT, (8, 8))]


def tile_call() -> list[Grid]:
    """Which lane copies which 16 bytes."""
    lanes = ROWS.table((8, 32))["laneid"].reshape(8, 4, 8)
    rows = {f"row {i}": [Cell(f"lane {runs[0]}", int(runs[0])) for runs in row] for i, row in enumerate(lanes)}
    heads = (f"columns {k}..{k + 7}" for k in range(0, 32, 8))
    return [_grid("Tx.warp.copy(tile, A[:, :]): 16 bytes for each lane", "", heads, rows)]


def barrier() -> list[Grid]:
    """What the two warps do, from left to right."""
    rows = {
        "warp 0": [Cell("writes row[0..31]", 0), Cell("waits", -1), Cell("reads row[63..32]", 1)],
        "warp 1": [Cell("writes row[32..63]", 1), Cell("waits", -1), Cell("reads row[31..0]", 0)],
    }
    return [_grid("each warp reads what the other has written", "", ("before", "cta_sync", "after"), rows)]


def banks() -> list[Grid]:
    """The banks of the first rows, with 32 words a row and with 33."""
    return [
        _grid(f"{pitch} words a row: the banks of a column (down) are {told}", "row", (f"[{j}]" for j in range(8)),
              {f"tile[{i}]": [Cell(f"bank {(i * pitch + j) % 32}", (i * pitch + j) % 32) for j in range(8)]
               for i in range(5)})
        for pitch, told in ((32, "one: a conflict"), (33, "different"))
    ]  # fmt: skip


def swizzle() -> list[Grid]:
    """Where each row keeps its 16-byte units; the eight of one colour are what `ldmatrix` reads at once."""
    layouts = {"plain": TileLayout(S[(16, 64)]), "swizzled": mma_shared_layout("float16", 3, (16, 64))}
    return [_units(name, layout) for name, layout in layouts.items()]


def _units(name: str, layout: Layout) -> Grid:
    rows = {}
    for row in range(8):
        places = {int(layout.apply(row, 8 * unit, shape=(16, 64))["m"]) % 64 // 8: unit for unit in range(8)}
        rows[f"row {row}"] = [Cell(f"unit {places[place]}", places[place]) for place in range(8)]
    heads = (f"banks {k}..{k + 3}" for k in range(0, 32, 4))
    return _grid(f"{name}: one colour is one matrix, read at once", "", heads, rows)


def reduction() -> list[Grid]:
    """What the four lanes of a row have after each shuffle."""
    rows = {}
    for k in range(4):
        pair, other = sorted((k, k ^ 1)), sorted((k ^ 2, k ^ 3))
        own = "+".join(f"s{j}" for j in pair)
        whole = "+".join(f"s{j}" for j in sorted((*pair, *other)))
        rows[f"lane {k}"] = [Cell(f"16 elements, sum s{k}", k), Cell(own, 8 + k // 2), Cell(whole, 16)]
    heads = ("in its registers", "shuffle with lane ^ 1", "shuffle with lane ^ 2")
    return [_grid("the sum of a row that four lanes hold", "", heads, rows)]


def product() -> list[Grid]:
    """Which warp computes which part of the sums."""
    sums = mma_fragment_layout("D", (64, 64), "float32", warps=(2, 2))
    warp = sums.table((64, 64))["warpid"].reshape(64, 64)
    rows = {f"rows {i}..{i + 15}": [Cell(f"warp {warp[i, j]}", int(warp[i, j])) for j in range(0, 64, 16)]
            for i in range(0, 64, 16)}  # fmt: skip
    heads = (f"columns {k}..{k + 15}" for k in range(0, 64, 16))
    return [_grid("64 x 64 sums, divided among four warps", "", heads, rows)]


def pipeline(stages: int = 3, steps: int = 5) -> list[Grid]:
    """What each stage of the ring is for, step by step."""
    rows = {}
    for stage in range(stages):
        cells = []
        for step in range(steps):
            tile = step + (stage - step) % stages  # the tile that the stage has in this step
            cells.append(Cell(f"tile {tile}: {'computed' if tile == step else 'on its way'}", tile))
        rows[f"stage {stage}"] = cells
    return [_grid("a ring of three stages", "", (f"step {k}" for k in range(steps)), rows)]


STEPS: Mapping[str, Callable[[], list[Grid]]] = {
    draw.__name__: draw
    for draw in (lane, warps, fragment, tile_call, barrier, banks, swizzle, reduction, product, pipeline)
}
"""What draws the picture of each step, in their order."""
