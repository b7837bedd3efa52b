"""Mistakes in the pipelines of attention's gradients: each wait, fence, barrier and order that is removed is told."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.kernels.attention_backward_rows import BackwardKind

SOURCE = Path(tw.__file__).parent.joinpath("kernels", "attention_backward.py").read_text()
FORM = BackwardKind("bfloat16", 64, 64, 128, stages=(1, 1, 2))
TILES = 3

MISTAKES = {
    "keys and values are not waited for": ("    take_kv.wait()\n", "", "reads"),
    "queries are not waited for": ("    take_q.wait()\n", "", "reads"),
    "gradients of results are not waited for": ("    take_do.wait()\n", "", "reads"),
    "queries come before their place is free": ("            put_q.acquire()\n", "", "may still not have written"),
    "products begin without their fence": ("    T.ptx.wgmma.fence()\n", "", "lacks a fence"),
    "products are in no group": ("    T.ptx.wgmma.commit_group()\n", "", "is used while"),
    "a place is left and not gone on from": (
        "    leave(take_do)\n",
        "    take_do.release()\n",
        "may still not have written",
    ),
    "scores are not waited for": (
        "wait_group(1)\n    weigh(",
        "wait_group(2)\n    weigh(",
        "is used while",
    ),
    "slopes of weights are not waited for": (
        "T.ptx.wgmma.wait_group(0)\n    delta_of",
        "T.ptx.wgmma.wait_group(1)\n    delta_of",
        "is used while",
    ),
    "dS is not shown to the tensor cores": (
        'ds)\n    T.ptx.fence.proxy_async("shared::cta")\n',
        "ds)\n",
        "proxy fence",
    ),
    "dS is read before all have written": ("    T.ptx.bar.sync(DS, 256)\n", "", "race"),
    "dQ is not waited for": (
        "True, turn_b=True)\n    T.ptx.wgmma.wait_group(1)\n    if",
        "True, turn_b=True)\n    if",
        "is used while",
    ),
    "dQ is overwritten while it is added": (
        "    if not is_first:\n        T.ptx.bar.sync(EMPTY + who, 160)\n",
        "",
        "race: store writes",
    ),
    "dQ is not shown to the copy engine": (
        '    T.ptx.fence.proxy_async("shared::cta")\n    T.ptx.bar.arrive(FULL',
        "    T.ptx.bar.arrive(FULL",
        "proxy fence",
    ),
    "dQ is added before it is there": ("                T.ptx.bar.sync(FULL + who, 160)\n", "", "race: store writes"),
    "dQ is handed back before it has been read": (
        "                    T.ptx.cp_async.bulk.wait_group(0, read=True)\n",
        "",
        "read",
    ),
    "queries are left while they are read": (
        "    T.ptx.wgmma.wait_group(0)\n    leave(take_q)",
        "    leave(take_q)",
        "may still not have read",
    ),
}


def run(before: str, after: str, folder: Path) -> tw.Executable:
    """One head, one tile of keys and some of queries, by the kernel with one place changed."""
    assert before in SOURCE
    path = folder / "changed_backward.py"
    path.write_text(SOURCE.replace(before, after, 1))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(0)
    q, do = (rng.standard_normal((1, 1, TILES * FORM.queries, FORM.d)).astype("bfloat16") for _ in "qd")
    k, v = (rng.standard_normal((1, 1, FORM.keys, FORM.d)).astype("bfloat16") for _ in "kv")
    level, delta = (np.full((1, 1, TILES, FORM.queries), x, np.float32) for x in (8.0, 0.0))
    sums = np.zeros((1, 1, TILES, *FORM.sums), np.float32)
    done = module.gradients(FORM).simulate(
        q,
        k,
        v,
        do,
        level,
        delta,
        0,
        0,
        0,
        sums,
        0,
        np.zeros_like(k),
        np.zeros_like(v),
        0,
        0.18,
        1.0,
        0.125,
        0,
        0,
        0,
        check="all",
    )
    if done.warnings:
        raise TilewrightError(done.warnings[0])
    return done  # type: ignore[no-any-return]  # of a module that is made here


def test_the_kernel_as_it_is_has_no_finding(tmp_path: Path) -> None:
    run("", "", tmp_path)


SLOW = (
    "products are in no group",  # each product of the run is a finding of its own
    # The same mistake elsewhere in the kernel, told by the same check as a case that is not slow:
    "queries are not waited for",
    "gradients of results are not waited for",
    "slopes of weights are not waited for",
    "dQ is not waited for",
    "dQ is not shown to the copy engine",
    "queries are left while they are read",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in MISTAKES]
)
def test_a_mistake_is_told(name: str, tmp_path: Path) -> None:
    before, after, told = MISTAKES[name]
    with pytest.raises(TilewrightError, match=told):
        run(before, after, tmp_path)
