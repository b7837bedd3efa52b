"""Mistakes in attention's pipelines: each wait, fence, barrier, arrival and order of its source, removed or moved.

The kernel's two files are read, one place is changed, and the rest runs as it is, on a few tiles of keys under all
checks: two tiles of queries for one CTA, so that rings, turns and slabs go around.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.texts import changed
from tilewright.errors import TilewrightError
from tilewright.kernels.attention_forms import AttentionKind, AttentionTiles

FILES = ("tilewright.kernels.attention_forms", "tilewright.kernels.attention")
FOLDER = Path(tw.__file__).parent / "kernels"
SOURCES = {name: (FOLDER / f"{name.rpartition('.')[2]}.py").read_text() for name in FILES}
SMALL = AttentionTiles(2, 32)
BFLOAT16 = AttentionKind("bfloat16", "bfloat16", 64, 64)


@dataclass(frozen=True)
class Mistake:
    """told: words of the report. before: the text that is changed, its first place in the two files; after: what stands
    there instead.
    """

    told: str
    before: str
    after: str = ""
    tiles: AttentionTiles = SMALL
    form: AttentionKind = field(default=BFLOAT16)


CLUSTER, SHARED = AttentionTiles(2, 32, cluster=2), AttentionTiles(2, 32, shared_weights=True)
WIDE = (AttentionTiles(2, 80, turns=False), AttentionKind("bfloat16", "bfloat16", 256, 256))

MISTAKES = {
    "keys are not waited for": Mistake(
        "reads keys",
        "    take_k.wait()\n",
    ),
    "values are not waited for": Mistake(
        "reads values",
        "        take_v.wait()\n",
    ),
    "the last values are not waited for": Mistake(
        "reads values",
        "    take_v.wait()\n    multiply",
        "    multiply",
    ),
    "queries are not waited for": Mistake(
        "reads queries",
        "    take_q.wait()\n",
    ),
    "a stage is filled before it is free": Mistake(
        "more arrivals than its phase",
        "    put.acquire()\n    Tx.copy_async(near[(put.stage,",
        "    T.ptx.mbarrier.arrive.expect_tx(put.full, 4096)\n    Tx.copy_async(near[(put.stage,",
    ),
    "products begin without their fence": Mistake(
        "lacks a fence",
        "    T.ptx.wgmma.fence()\n",
    ),
    "products are in no group": Mistake(
        "scores is used while",
        "    T.ptx.wgmma.commit_group()\n",
    ),
    "scores are not waited for": Mistake(
        "scores is used while",
        "wait_group(1 if last else 0)",
        "wait_group(2 if last else 1)",
    ),
    "sums are not waited for": Mistake(
        "sums is used while",
        "            T.ptx.wgmma.wait_group(0)  # the sums\n",
    ),
    "keys are left while they are read": Mistake(
        "writes keys",
        "    T.ptx.wgmma.wait_group(1 if last else 0)\n    leave(take_k)",
        "    leave(take_k)\n    T.ptx.wgmma.wait_group(1 if last else 0)",
    ),
    "values are left while they are read": Mistake(
        "writes values",
        "            T.ptx.wgmma.wait_group(0)  # the sums\n            leave(take_v)",
        "            leave(take_v)\n            T.ptx.wgmma.wait_group(0)",
    ),
    "queries are left before the last scores": Mistake(
        "for its next phase",
        "    take_q.wait()\n",
        "    take_q.wait()\n    take_q.release()\n",
    ),
    "a stage is left and not gone on from": Mistake(
        "for its next phase",
        "    take.advance()\n",
    ),
    "results are not shown to the copy engine": Mistake(
        "without a proxy fence",
        '    Tx.wg.copy(slab, part)\n    T.ptx.fence.proxy_async("shared::cta")',
        "    Tx.wg.copy(slab, part)",
    ),
    "a slab is written while it is read": Mistake(
        "overwrites shared memory",
        "        T.ptx.cp_async.bulk.wait_group(0, read=True)  # the slab has been read\n",
        "        pass\n",
    ),
    "a slab is written before the warp that asks knows": Mistake(
        "race: ptx.stmatrix writes",
        "    T.cuda.warpgroup_sync(STORE + who)\n    Tx.wg.copy",
        "    Tx.wg.copy",
    ),
    "a slab is stored before all have written": Mistake(
        "race: cp_async.bulk.tensor.s2g reads",
        "    T.cuda.warpgroup_sync(STORE + who)\n    if warp",
        "    if warp",
    ),
    "shared memory ends while it is read": Mistake(
        "the CTA may end while",
        "        T.ptx.cp_async.bulk.wait_group(0, read=True)  # shared memory ends with the CTA",
        "        pass",
    ),
    "queries come where results lie": Mistake(
        "writes queries",
        "                T.ptx.cp_async.bulk.wait_group(0, read=True)  # the results",
        "                pass  # the results",
        *WIDE,
    ),
    "nobody has the first turn": Mistake(
        "deadlock",
        "        turns.begin(who)\n",
        "        pass\n",
    ),
    "a turn is not passed on": Mistake(
        "deadlock",
        "        turns.pass_on(who)\n",
        "        pass\n",
    ),
    "a turn is not waited for": Mistake(
        "cannot know that its last meeting is over",
        "        turns.take(who)\n",
        "        pass\n",
    ),
    "barriers are used before they are ready": Mistake(
        "may not have been initialised",
        "        rings[2].ready()\n",
    ),
    "a part comes to one CTA of two": Mistake(
        "deadlock",
        "2**ctas - 1 if",
        "1 if",
        CLUSTER,
    ),
    "a CTA ends before its peer has read": Mistake(
        "which may have ended by then",
        "        puts[2].drain()\n",
        "",
        CLUSTER,
    ),
    "weights are not shown to the tensor cores": Mistake(
        "without a proxy fence",
        '        Tx.wg.copy(weights, part)\n        T.ptx.fence.proxy_async("shared::cta")',
        "        Tx.wg.copy(weights, part)",
        SHARED,
    ),
    "weights are read before all have written": Mistake(
        "race: wgmma",
        "        T.cuda.warpgroup_sync(HAND_OVER + who)\n\n",
        "\n",
        SHARED,
    ),
}


def run(module: ModuleType, mistake: Mistake) -> tuple[Any, Any]:
    """Results, and what they are in double precision."""
    form, tiles = mistake.form, mistake.tiles
    rng = np.random.default_rng(0)
    m, n = 2 * tiles.queries * tiles.cluster - 9, 3 * tiles.keys - 3
    q, k, v = (rng.standard_normal((1, 1, rows, form.width)).astype("bfloat16") for rows in (m, n, n))
    out, lse = np.zeros_like(q), np.zeros((1, 1, m, 1), np.float32)
    scale = form.width**-0.5 * math.log2(math.e)
    arguments = (q, k, v, out, lse, *[0] * 7, 1, 1, scale, 1.0, 0.0, -1, -1, 1)
    done = module.forward(form, tiles).simulate(*arguments, check="all")
    if done.warnings:
        raise TilewrightError(done.warnings[0])
    scores = q.astype(float) @ k.astype(float).swapaxes(2, 3) * form.width**-0.5
    weights = np.exp(scores)
    return out.astype(float), weights / weights.sum(3, keepdims=True) @ v.astype(float)


@pytest.mark.parametrize("tiles", [SMALL, CLUSTER, SHARED], ids=["turns", "cluster", "shared weights"])
def test_the_kernel_as_it_is_has_no_finding(tiles: AttentionTiles, tmp_path: Path) -> None:
    mistake = Mistake("", "", tiles=tiles)
    out, wanted = run(changed(SOURCES, mistake.before, mistake.after, tmp_path, within=FILES[::-1]), mistake)
    assert np.abs(out - wanted).max() < 1e-2


SLOW = (
    "products are in no group",  # each product of the run is a finding of its own
    # The same mistake elsewhere in the kernel, told by the same check as a case that is not slow:
    "values are not waited for",
    "queries are not waited for",
    "scores are not waited for",
    "keys are left while they are read",
    "queries are left before the last scores",
    "a slab is written before the warp that asks knows",
    "a turn is not passed on",
    "weights are read before all have written",
)


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in MISTAKES]
)
def test_a_mistake_is_told(name: str, tmp_path: Path) -> None:
    mistake = MISTAKES[name]
    module = changed(SOURCES, mistake.before, mistake.after, tmp_path, within=FILES[::-1])
    with pytest.raises(TilewrightError, match=mistake.told):
        run(module, mistake)
