"""Attention's forward on a Blackwell with one step of its pipeline wrong: each barrier, wait, fence and phase is told.

A run of the example takes some seconds; most of these stop in its first turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.examples.compute import EXAMPLES
from tests.texts import changed
from tilewright.errors import SimulationError

MAIN, ROLES = "examples.blackwell_attention", "examples.blackwell.softmax"
SOURCES = {name: (EXAMPLES.parent / f"{name.replace('.', '/')}.py").read_text("utf-8") for name in (ROLES, MAIN)}
SOURCES[MAIN] = SOURCES[MAIN].replace("HEADS, STAGES = 2, 2", "HEADS, STAGES = 1, 2")
UNWRITTEN, UNREAD = "may still not have written", "may still not have read"
BY_MMA = "tcgen05.mma touches tensor memory that tcgen05"
WAIT, FENCE = "T.ptx.mbarrier.try_wait", "T.ptx.tcgen05.fence"
MISTAKES = {
    "scores not waited for": (
        ROLES,
        "try_wait(s_full.ptr_to([t]), j % 2)",
        "try_wait(s_full.ptr_to([t]), 1 - j % 2)",
        "which tcgen05.mma has not written yet",
    ),
    "weights not waited for": (
        MAIN,
        "T.ptx.mbarrier.try_wait(p_ready.ptr_to([t]), j % 2)",
        "pass",
        f"{BY_MMA}.mma {UNWRITTEN}",
    ),
    "weights without wait::st": (
        ROLES,
        "        T.ptx.tcgen05.wait.st()\n        T.ptx.tcgen05.fence",
        "        T.ptx.tcgen05.fence",
        f"{BY_MMA}.st {UNWRITTEN}",
    ),
    "outputs without wait::st": (
        ROLES,
        "                        T.ptx.tcgen05.wait.st()\n",
        "",
        f"{BY_MMA}.st {UNWRITTEN}",
    ),
    "scores over weights that are read": (
        MAIN,
        "T.ptx.mbarrier.try_wait(o_done.ptr_to([t]), 1 - j % 2)",
        "pass",
        f"{BY_MMA}.mma {UNREAD}",
    ),
    "outputs not waited for": (
        ROLES,
        "T.ptx.mbarrier.try_wait(o_done.ptr_to([t]), (j - 1) % 2)",
        "pass",
        f"tcgen05.ld touches tensor memory that tcgen05.mma {UNWRITTEN}",
    ),
    "too few arrivals": (
        MAIN,
        "(p_ready, 256)",
        "(p_ready, 128)",
        "an arrival at p_ready[0] for its next phase, and nobody has seen the last one over",
    ),
    "bytes of the queries": (MAIN, "4 * KEYS * D + 2 * L * D", "4 * KEYS * D", f"cp_async.bulk.tensor.g2c {UNWRITTEN}"),
    "factor stored over": (
        ROLES,
        "        T.ptx.mbarrier.try_wait(alpha_free.ptr_to([t]), 1 - j % 2)\n",
        "",
        "race: store writes alphas",
    ),
    "phase of the factors": (
        ROLES,
        "try_wait(alpha_ready.ptr_to([t]), j % 2)",
        "try_wait(alpha_ready.ptr_to([t]), 1 - j % 2)",
        "deadlock: no thread can go on",
    ),
    "stage handed back early": (
        MAIN,
        "        for t in (0, 1):\n            T.ptx.mbarrier.try_wait(p_ready",
        "        T.ptx.tcgen05.commit(empty.ptr_to([stage]))\n"
        "        for t in (0, 1):\n            T.ptx.mbarrier.try_wait(p_ready",
        f"writes v[0, 0, 0], which tcgen05.mma {UNREAD}",
    ),
    "phase of a stage": (
        MAIN,
        "try_wait(full.ptr_to([stage]), j // STAGES % 2)",
        "try_wait(full.ptr_to([stage]), 1 - j // STAGES % 2)",
        f"cp_async.bulk.tensor.g2c {UNWRITTEN}",
    ),
    "no commit of the scores": (
        MAIN,
        "            T.ptx.tcgen05.commit(s_full.ptr_to([t]))\n",
        "",
        "deadlock: no thread can go on",
    ),
    "loads without wait::ld": (
        ROLES,
        "        T.ptx.tcgen05.wait.ld()\n        before",
        "        before",
        "is used while tcgen05.ld may not have filled it",
    ),
}
"""The file, what it says, what is put there, and what is told."""
WARNED = {
    "weights, no fence before": (
        ROLES,
        "        T.ptx.tcgen05.fence.before_thread_sync()\n        T.ptx.mbarrier.arrive(p_ready",
        "        T.ptx.mbarrier.arrive(p_ready",
    ),
    "scores, no fence after": (
        ROLES,
        "        T.ptx.tcgen05.fence.after_thread_sync()\n        T.ptx.tcgen05.ld(scores",
        "        T.ptx.tcgen05.ld(scores",
    ),
}


def wrong(file: str, old: str, new: str, folder: Path) -> Any:
    """The example, read from a folder, in which one of its files says something else."""
    assert SOURCES[file].count(old) == 1
    return changed(SOURCES, old, new, folder, within=[file])


def simulated(example: Any) -> list[str]:
    """The warnings of a run."""
    rng = np.random.default_rng(0)
    shape = (example.HEADS, example.L, example.D)
    q, k, v = (rng.standard_normal(shape).astype("bfloat16") for _ in range(3))
    out = np.zeros(shape, np.float32)
    return tw.compile(example.blackwell_attention, "sm_100a").simulate(q, k, v, out, check="all").warnings


@pytest.mark.every(3)
@pytest.mark.parametrize(("file", "old", "new", "said"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_wrong_step_is_told(file: str, old: str, new: str, said: str, tmp_path: Path) -> None:
    example = wrong(file, old, new, tmp_path)

    with pytest.raises(SimulationError) as error:
        simulated(example)

    assert said in error.value.what


@pytest.mark.parametrize(("file", "old", "new"), WARNED.values(), ids=list(WARNED))
def test_a_fence_that_is_missing_is_a_warning(file: str, old: str, new: str, tmp_path: Path) -> None:
    said = simulated(wrong(file, old, new, tmp_path))

    assert any("without a fence between their threads" in each for each in said)
