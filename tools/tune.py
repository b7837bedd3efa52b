"""What the estimate of time would choose for the kernels of `tilewright.kernels`, beside what their tables choose.

    make tune        # rows and products, of some shape classes; writes benchmarks/results/tuned.json
    python -m tools.tune products 4096 4096 4096    # M, N, K: all tiles, turned and not, in several bands, ranked

The tables are as measured on an H200 (`benchmarks.gpu.tune_rows`, `tune_products`); this takes no GPU. Tiles that
differ in their band, or in whether the product is turned, share what is recorded.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.gpu import tune_rows
from benchmarks.gpu.estimate import Recorded, estimated
from benchmarks.gpu.pairs import Maker, matmul_pair, row_label, rows_pair
from tilewright.kernels.products import candidates, chosen, clusters_at_once
from tilewright.profiling import gpu

OUT = Path(__file__).parents[1] / "benchmarks" / "results" / "tuned.json"
PROCESSORS = 132
LENGTHS = (1024, 2048, 4096, 8192)
SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (512, 4096, 4096), (128, 4096, 4096))
NEAR = 12  # tiles of a shape, the first by `tile_choice`
BANDS = (1, 8)
SAME = 0.01  # of a time: what differs by less is the same


def recorded_tiles(shape: tuple[int, int, int], tiles: Any) -> Recorded:
    """What is recorded of tiles: small products. `Any`: `Tiles`."""
    pair = matmul_pair("", "", shape, split=None, quick=True)
    case, args = pair.build(tiles, Maker(on_gpu=False))
    small, whole = pair.small(tiles, case, args)
    exe = case.make()  # type: ignore[union-attr]  # one of ours
    runs = [(one.tiles, one.steps, exe.simulate(*one.args, check="none", record=2, limit_s=100).recording)
            for one in small]  # fmt: skip
    nbytes = {name: int(array.nbytes) for name, array in zip("ABC", args[:3], strict=True)}
    names = [buffer.name for param in exe.kernel.params[:3] for buffer in exe.kernel.buffers if buffer.data == param]
    sizes = dict(zip(names, nbytes.values(), strict=True))
    grid = exe.bind(*args).grid
    return Recorded(tuple(runs), whole, grid[0] * grid[1] * grid[2], tiles.resident, sizes)


def seconds_of(shape: tuple[int, int, int], tiles: Any) -> tuple[float, float]:
    """Of a product with these tiles: as it is, and turned."""
    m, n, _ = shape
    record = recorded_tiles(shape, tiles)
    found = []
    for down, across in ((m, n), (n, m)):
        work = -(-down // (tiles.m * tiles.cluster)) * -(-across // tiles.n)
        most = min(work, clusters_at_once(tiles, PROCESSORS))
        whole = replace(record.whole, tiles=1 if tiles.parts > 1 else -(-work // most))
        ctas = tiles.cluster * (work * tiles.parts if tiles.parts > 1 else most)
        found.append(estimated(replace(record, whole=whole, ctas=ctas), gpu("H200")).seconds)
    return found[0], found[1]


def ranked(shape: tuple[int, int, int], tiles: Iterable[Any]) -> list[tuple[float, Any, bool, int]]:
    """(seconds, tiles, turned, band), the fastest first."""
    every = [one for one in tiles if one.parts <= shape[2] // 64]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        found = list(pool.map(partial(seconds_of, shape), every))
    rows = [(each, one, turned, band) for one, both in zip(every, found, strict=True)
            for turned, each in zip((False, True), both, strict=True) for band in BANDS]  # fmt: skip
    return sorted(rows, key=lambda row: row[0])


def products(shape: tuple[int, int, int]) -> dict[str, Any]:
    """The tiles that `tile_choice` takes for a shape, and those that are estimated to be the fastest of its first."""
    near = chosen(*shape[:2], shape[2] // 64, PROCESSORS, most=NEAR)
    best = ranked(shape, dict.fromkeys(tiles for tiles, _ in near))
    (taken, turned), *_ = near
    own = next(row for row in best if row[1] == taken and row[2] == turned)
    return {"shape": shape, "table": str(taken), "table_us": own[0] * 1e6, "estimate": str(best[0][1]),
            "estimate_us": best[0][0] * 1e6, "same": own[0] <= (1 + SAME) * best[0][0]}  # fmt: skip


def rows(kernel: str, columns: int, kind: str) -> dict[str, Any]:
    """The same for rows of a length."""
    from benchmarks.gpu.estimate import recorded

    pair, on = rows_pair("", "", kernel, columns, kind), gpu("H200")
    found = {}
    for label, way in pair.configs.items():
        if way.turns == 1:
            found[label] = estimated(recorded(pair, label, on), on).seconds
    taken = row_label(tune_rows.usual(kernel, columns, tune_rows.KINDS[kind]))
    best = min(found, key=lambda label: found[label])
    same = found[taken] <= (1 + SAME) * found[best]
    return {"kernel": kernel, "columns": columns, "kind": kind, "table": taken, "table_us": found[taken] * 1e6,
            "estimate": best, "estimate_us": found[best] * 1e6, "same": same}  # fmt: skip


def main(words: list[str]) -> None:
    if words[:1] == ["products"]:
        begun = time.time()
        m, n, k = map(int, words[1:])
        every = ranked((m, n, k), candidates())
        for seconds, tiles, turned, band in every[:20]:
            print(f"{seconds * 1e6:9.1f} us  {tiles.m}x{tiles.n} cluster {tiles.cluster} parts {tiles.parts} "
                  f"resident {tiles.resident} band {band}{', turned' * turned}")  # fmt: skip
        print(f"{len(every)} configurations in {time.time() - begun:.1f} s")
        return
    found = [rows(*each) for each in product(("softmax", "rms_norm"), LENGTHS, tune_rows.KINDS)]
    found += [products(shape) for shape in SHAPES]
    OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for one in found:
        print(json.dumps(one))


if __name__ == "__main__":
    main(sys.argv[1:])
