"""What the estimate of time would choose for the kernels of `tilewright.kernels`, beside what their tables choose.

    make tune        # rows and products, of some shape classes; writes benchmarks/results/tuned.json, and the comments
                     # of kernels/rows.py and products.py that say where the estimate differs from what is taken
    python -m tools.tune products 4096 4096 4096    # M, N, K: all tiles, turned and not, in several bands, ranked

The tables are as measured on an H200 (`benchmarks.gpu.tune_rows`, `tune_products`); this takes no GPU. Each case is
kept as soon as it is there, so that a run that was ended goes on where it was; sources that have changed begin anew.
Tiles that differ in their band, or in whether the product is turned, share what is recorded.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.gpu import tune_rows
from benchmarks.gpu.estimate import FEW, LIMIT_S, TIMES, Recorded, estimated
from benchmarks.gpu.pairs import Maker, clusters_of, matmul_pair, row_label, rows_pair, tile_label
from tilewright.isa import ProductShape
from tilewright.kernels.forms import ROW_BYTES
from tilewright.kernels.product_tiles import candidates, chosen, clusters_at_once
from tilewright.profiling import gpu
from tilewright.profiling.acts import product_cycles
from tilewright.profiling.play import TENSOR_CLOCK, figures_of

ROOT = Path(__file__).parents[1]
OUT = ROOT / "benchmarks" / "results" / "tuned.json"
FILES = {"rows": ROOT / "tilewright/kernels/rows.py", "products": ROOT / "tilewright/kernels/product_tiles.py"}
DECIDING = ("tilewright/**/*.py", "benchmarks/gpu/*.py", "benchmarks/results/figures.json", TIMES.relative_to(ROOT))
PROCESSORS = 132
LENGTHS = (1024, 2048, 4096, 8192)
SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (512, 4096, 4096), (128, 4096, 4096))
NEAR = 12  # tiles of a shape, the first by `tile_choice`
BANDS = (1, 8)
FIRST = 24  # tiles that are played before others are given up
HOPELESS = 1.25  # times the best estimate: no bound that is above it needs to be played
SAME = 0.01  # of a time: what differs by less is the same


def recorded_tiles(shape: tuple[int, int, int], tiles: Any) -> Recorded:
    """What is recorded of tiles: small products. `Any`: `Tiles`."""
    pair = matmul_pair("", "", shape, split=None, quick=True)
    case, args = pair.build(tiles, Maker(on_gpu=False))
    small, whole = pair.small(tiles, case, args)
    exe = case.make()  # type: ignore[union-attr]  # one of ours
    runs = [(one.tiles, one.steps, exe.simulate(*one.args, check="none", record=FEW, limit_s=LIMIT_S).recording)
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
    seconds: dict[int, float] = {}  # by clusters, which are all that differs
    for down, across in ((m, n), (n, m)):
        if (work := clusters_of(tiles, down, across)) not in seconds:
            most = min(work, clusters_at_once(tiles, PROCESSORS))
            whole = replace(record.whole, tiles=1 if tiles.parts > 1 else -(-work // most))
            ctas = tiles.ctas * (work if tiles.parts > 1 else most)
            seconds[work] = estimated(replace(record, whole=whole, ctas=ctas), gpu("H200")).seconds
    return seconds[clusters_of(tiles, m, n)], seconds[clusters_of(tiles, n, m)]


def least_seconds(shape: tuple[int, int, int], tiles: Any, *, turned: bool) -> float:
    """What a product with these tiles is estimated to take at least: tensor cores, or the second-level cache, are busy
    for so long, by the figures that the estimate is made with.
    """
    m, n, k = shape
    down, across = (n, m) if turned else (m, n)
    work, on = clusters_of(tiles, down, across), gpu("H200")
    most = min(work, clusters_at_once(tiles, PROCESSORS))
    rounds = -(-work // most) if tiles.parts == 1 else work / clusters_at_once(tiles, PROCESSORS)
    clock = on.clock * TENSOR_CLOCK
    figures = figures_of(on, tiles.ctas * (most if tiles.parts == 1 else work), clock=clock)
    tensor = tiles.m // 64 * ROW_BYTES // 32 * product_cycles(ProductShape(64, tiles.n, 16, 16)) * figures.tensor_power
    loads = (tiles.m / tiles.beside + min(tiles.n, across) / tiles.cluster) * ROW_BYTES / figures.l2_shared_bytes
    step = max(tensor, loads) * min(tiles.resident, max(1, most * tiles.ctas // PROCESSORS))
    return float(rounds * (k // 64 // tiles.parts) * step / clock)


@dataclass(frozen=True, order=True, slots=True)
class Ranked:
    """A configuration of a product. seconds: estimated, or at least, where that is so much that nothing was played."""

    seconds: float
    tiles: Any = field(compare=False)
    turned: bool = field(compare=False)
    band: int = field(compare=False)
    is_bound: bool = field(compare=False, default=False)


def ranked(shape: tuple[int, int, int], tiles: Iterable[Any]) -> list[Ranked]:
    """The fastest first. What is bound to take `HOPELESS` times as long as the best one is not played."""
    every = [one for one in tiles if one.parts <= shape[2] // 64]
    least = {(one, turned): least_seconds(shape, one, turned=turned) for one in every for turned in (False, True)}
    order = sorted(every, key=lambda one: min(least[one, False], least[one, True]))
    found: dict[Any, tuple[float, float]] = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork"), initializer=gc.disable) as pool:
        for part in (order[:FIRST], order[FIRST:]):
            best = min((min(both) for both in found.values()), default=math.inf)
            hopeful = [one for one in part if min(least[one, False], least[one, True]) < HOPELESS * best]
            found |= zip(hopeful, pool.map(partial(seconds_of, shape), hopeful), strict=True)
    rows = [Ranked(found[one][turned] if one in found else least[one, turned], one, turned, band, one not in found)
            for one in every for turned in (False, True) for band in BANDS]  # fmt: skip
    return sorted(rows)


def products(shape: tuple[int, int, int]) -> dict[str, Any]:
    """The tiles that `tile_choice` takes for a shape, and those that are estimated to be the fastest of its first."""
    plans = chosen(*shape[:2], shape[2] // 64, PROCESSORS, most=4 * NEAR)
    near = [plan for plan in plans if not plan[0].pingpong][:NEAR]
    best = ranked(shape, dict.fromkeys(tiles for tiles, _ in near))
    (taken, turned), *_ = near
    own = next(row for row in best if row.tiles == taken and row.turned == turned)
    labels = [tile_label(each.tiles) + ", turned" * each.turned for each in (own, best[0])]
    return compared("products", product_case(shape), labels, [own.seconds, best[0].seconds])


def product_case(shape: tuple[int, int, int]) -> str:
    """Its name, as pairs have it."""
    m, n, k = shape
    return "matmul " + (f"{m}^3" if m == n == k else f"{m} x {n} x {k}")


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
    return compared("rows", row_case(kernel, columns, kind), [taken, best], [found[taken], found[best]])


def row_case(kernel: str, columns: int, kind: str) -> str:
    """Its name, as pairs have it."""
    return f"{kernel} {kind} {columns}"


def compared(table: str, case: str, labels: Sequence[str], seconds: Sequence[float]) -> dict[str, Any]:
    """What a table takes, and what the estimate would: their times by estimate, and as an H200 had them where both are
    among the pairs that were measured.
    """
    times = json.loads(TIMES.read_text(encoding="utf-8"))["pairs"].get(case, {}).get("seconds", {})
    measured = [round(times[label] * 1e6, 1) for label in labels if label in times]
    return {"table": table, "case": case, "labels": labels, "estimated_us": [round(each * 1e6, 1) for each in seconds],
            "measured_us": measured if len(measured) == len(labels) else None,
            "same": seconds[0] <= (1 + SAME) * seconds[1]}  # fmt: skip


def comment(table: str, results: Sequence[Mapping[str, Any]]) -> str:
    """What the file of a table says of the results."""
    cases = [case for case in results if case["table"] == table]
    lines = [f"# `make tune`: of {len(cases)} cases the estimate has another choice 1 % faster in"]
    for case in (case for case in cases if not case["same"]):
        labels, estimated, measured = case["labels"], case["estimated_us"], case["measured_us"]
        taken, other = (f"{label} {estimated[k]} us" + (f" (measured {measured[k]})" if measured else "")
                        for k, label in enumerate(labels))  # fmt: skip
        lines.append(f"#   {case['case']}: {other}, taken {taken}")
    lines[0] += " none." if len(lines) == 1 else f" {len(lines) - 1}:"
    return "\n".join(lines) + "\n"


def with_comment(text: str, block: str) -> str:
    """A file's text with this comment in the place of the one that is there."""
    return re.sub(r"# `make tune`.*\n(#   .*\n)*", lambda _: block, text, count=1)


def main(words: list[str]) -> None:
    if words[:1] == ["products"]:
        begun, used = time.time(), sum(os.times()[:4])
        m, n, k = map(int, words[1:])
        every = ranked((m, n, k), [tiles for tiles in candidates() if not tiles.pingpong])
        for row in every[:20]:
            tile = row.tiles
            print(f"{row.seconds * 1e6:9.1f} us  {tile.m}x{tile.n} cluster {tile.cluster} parts {tile.parts} "
                  f"resident {tile.resident} band {row.band}{', turned' * row.turned}")  # fmt: skip
        print(f"{len(every)} configurations, {sum(row.is_bound for row in every)} of them by their bound, in "
              f"{time.time() - begun:.1f} s, {sum(os.times()[:4]) - used:.1f} s of processors")  # fmt: skip
        return
    results = all_cases()
    for table, file in FILES.items():
        file.write_text(with_comment(file.read_text(encoding="utf-8"), comment(table, results)), encoding="utf-8")


def all_cases() -> list[dict[str, Any]]:
    """What came of each case, of this run or of one before with the same sources."""
    row_cases = list(product(("softmax", "rms_norm"), LENGTHS, tune_rows.KINDS))
    names, version = [*(row_case(*case) for case in row_cases), *map(product_case, SHAPES)], sources_version()
    before = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    found = dict(before["cases"]) if before.get("version") == version else {}

    def keep(results: Iterable[dict[str, Any]]) -> None:
        for result in results:
            found[result["case"]] = result
            kept = {"version": version, "cases": {name: found[name] for name in names if name in found}}
            OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            print(json.dumps(result), flush=True)

    left = [case for case in row_cases if row_case(*case) not in found]
    if left:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            keep(pool.map(rows, *zip(*left, strict=True)))
    keep(map(products, (shape for shape in SHAPES if product_case(shape) not in found)))
    return [found[name] for name in names]


def sources_version() -> str:
    """A hash of what decides: sources, without the comments that are written here, figures, and measured times."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in DECIDING for path in ROOT.glob(str(pattern))):
        digest.update(with_comment(path.read_text(encoding="utf-8"), "").encode())
    return digest.hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
