"""Mistakes in the pipeline of attention to a long cache: each wait, fence, barrier and order left out is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.texts import changed
from tilewright.errors import TilewrightError

NAME = "tilewright.kernels.attention_decode"
SOURCE = Path(tw.__file__).parent.joinpath("kernels", "attention_decode.py").read_text()
for operator in ("attention_append", "attention_decode"):  # the changed module has some of its own names
    SOURCE = SOURCE.replace(f'"{operator}"', f'"changed_{operator}"')
KEYS = 64 * 7 + 20  # more tiles than stages, the last of them not whole

SHOWN = '    T.ptx.fence.proxy_async("shared::cta")\n'
MET = "    T.cuda.warpgroup_sync(CLEARED)\n"
MISTAKES = {
    "queries are not shown to the tensor cores": (f"fill=0)\n{SHOWN}{MET}", f"fill=0)\n{MET}", "proxy fence"),
    "queries are multiplied before all are there": (f"fill=0)\n{SHOWN}{MET}", f"fill=0)\n{SHOWN}", "race"),
    "the first keys are not waited for": (
        "    take_k.wait()\n    multiply(scores, queries",
        "    multiply(scores, queries",
        "reads",
    ),
    "the next keys are not waited for": (
        "        take_k.wait()\n        multiply(scores",
        "        multiply(scores",
        "reads",
    ),
    "values are not waited for": ("        take_v.wait()\n        multiply(sums", "        multiply(sums", "reads"),
    "the last values are not waited for": ("    take_v.wait()\n    if place.end", "    if place.end", "reads|writes"),
    "copies come before their place is free": (
        "            if lane == 0:\n                put.acquire()\n",
        "",
        "may still not have",
    ),
    "scores are not waited for": (
        "wait_group(1)\n        leave(take_k)",
        "wait_group(2)\n        leave(take_k)",
        "is used while|may still not have read",
    ),
    "a place of keys is left while they are read": (
        "        T.ptx.wgmma.wait_group(1)\n        leave(take_k)\n",
        "        leave(take_k)\n        T.ptx.wgmma.wait_group(1)\n",
        "may still not have read",
    ),
    "sums are scaled while products add to them": (
        "        T.ptx.wgmma.wait_group(0)\n        leave(take_v)\n        sums",
        "        leave(take_v)\n        sums",
        "is used while|may still not have read",
    ),
    "a place is left and not gone on from": (
        "        leave(take_v)\n",
        "        take_v.release()\n",
        "may still not have|reads",
    ),
    "cleared values are not shown to the tensor cores": (f"0.0)\n    {SHOWN}", "0.0)\n", "proxy fence"),
    "values are multiplied before all are cleared": (
        f'"shared::cta")\n    {MET}    multiply',
        '"shared::cta")\n    multiply',
        "race",
    ),
    "the last sums are not waited for": (
        "True, True)\n    T.ptx.wgmma.wait_group(0)\n\n",
        "True, True)\n\n",
        "is used while",
    ),
}


def run(before: str, after: str, folder: Path) -> tw.Executable:
    """One sequence, one head of keys for two of queries, by the kernel with one place changed."""
    module: Any = changed({NAME: SOURCE}, before, after, folder)
    form = module.DecodeKind("bfloat16", "bfloat16", 64, 64, 2, 64)
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, 1, 1, 2, 64)).astype("bfloat16")
    k, v = (rng.standard_normal((1, 1, KEYS, 64)).astype("bfloat16") for _ in "kv")
    out, lse = np.zeros((1, 1, 1, 1, 2, 64), "bfloat16"), np.zeros((1, 1, 1, 1, 2, 1), np.float32)
    done = module.decode(form).simulate(
        q, k, v, out, lse, 0, 0, 1, 1, 0.18, 1.0, 0.0, -1, -1, check="all"
    )  # fmt: skip
    if done.warnings:
        raise TilewrightError(done.warnings[0])
    return done  # type: ignore[no-any-return]  # of a module that is made here


def test_the_kernel_as_it_is_has_no_finding(tmp_path: Path) -> None:
    run("", "", tmp_path)


@pytest.mark.every(5)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str, tmp_path: Path) -> None:
    before, after, told = MISTAKES[name]
    with pytest.raises(TilewrightError, match=told):
        run(before, after, tmp_path)
