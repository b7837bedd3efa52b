"""Mistakes in the pipelines of attention's gradients: each wait, fence, barrier and order that is removed is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.texts import changed
from tilewright.errors import TilewrightError
from tilewright.kernels.attention_backward_rows import BackwardKind

FILES = tuple(f"tilewright.kernels.attention_backward{part}" for part in ("_rows", ""))
FOLDER = Path(tw.__file__).parent / "kernels"
SOURCES = {name: (FOLDER / f"{name.rpartition('.')[2]}.py").read_text() for name in FILES}
FORM = BackwardKind("bfloat16", 64, 64, 128, stages=(1, 1, 2))
WIDE = BackwardKind("bfloat16", 64, 64, 64, 64, stages=(2, 1, 1))
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
        "T.ptx.wgmma.wait_group(0)\n    if form.softcap:  # registers are scarce",
        "T.ptx.wgmma.wait_group(1)\n    if form.softcap:  # registers are scarce",
        "is used while",
    ),
    "dS is not shown to the tensor cores": (
        'ds)\n    T.ptx.fence.proxy_async("shared::cta")\n',
        "ds)\n",
        "proxy fence",
    ),
    "dS is read before all have written": ("    T.ptx.bar.sync(DS, 256)\n", "", "race"),
    "dQ is not waited for": (
        "True, turn_b=True)\n    T.ptx.wgmma.wait_group(1)\n    put",
        "True, turn_b=True)\n    put",
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


WIDE_MISTAKES = {
    "weights are read before they are there": ("            T.ptx.bar.sync(HANDED, 256)\n", "", "race"),
    "dS is not shown to the tensor cores": (
        'ds)\n            T.ptx.fence.proxy_async("shared::cta")\n',
        "ds)\n",
        "proxy fence",
    ),
    "dP is not waited for": (
        "            T.ptx.wgmma.wait_group(0)\n            leave(take_do)\n            dp",
        "            leave(take_do)\n            dp",
        "is used while|may still not have read",
    ),
    "gradients of results are left while dV reads them": (
        "            T.ptx.wgmma.wait_group(1)\n            leave(take_do)\n",
        "            leave(take_do)\n",
        "may still not have read",
    ),
    "queries are left while dK reads them": (
        "            T.ptx.wgmma.wait_group(0)\n            leave(take_q)\n    dk_sum",
        "            leave(take_q)\n    dk_sum",
        "may still not have read|is used while",
    ),
}


def run(form: BackwardKind, before: str, after: str, folder: Path) -> tw.Executable:
    """One head, one tile of keys and some of queries, by the kernel with one place of one of its files changed."""
    module: Any = changed(SOURCES, before, after, folder, within=FILES[::-1])
    rng = np.random.default_rng(0)
    q, do = (rng.standard_normal((1, 1, TILES * form.queries, form.d)).astype("bfloat16") for _ in "qd")
    k, v = (rng.standard_normal((1, 1, form.keys, form.d)).astype("bfloat16") for _ in "kv")
    level, delta = (np.full((1, 1, TILES, form.queries), x, np.float32) for x in (8.0, 0.0))
    sums = np.zeros((1, 1, TILES, *form.sums), np.float32)
    done = module.gradients(form).simulate(
        q, k, v, do, level, delta, 0, 0, 0, sums, 0, np.zeros_like(k), np.zeros_like(v), 0, 0.18, 1.0, 0.125, 0, 0, 0,
        check="all",
    )  # fmt: skip
    if done.warnings:
        raise TilewrightError(done.warnings[0])
    return done  # type: ignore[no-any-return]  # of a module that is made here


@pytest.mark.parametrize("form", [FORM, WIDE], ids=["by keys", "by products"])
def test_the_kernel_as_it_is_has_no_finding(form: BackwardKind, tmp_path: Path) -> None:
    run(form, "", "", tmp_path)


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


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in MISTAKES]
)
def test_a_mistake_is_told(name: str, tmp_path: Path) -> None:
    before, after, told = MISTAKES[name]
    with pytest.raises(TilewrightError, match=told):
        run(FORM, before, after, tmp_path)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", WIDE_MISTAKES)
def test_a_mistake_with_wide_keys_is_told(name: str, tmp_path: Path) -> None:
    before, after, told = WIDE_MISTAKES[name]
    with pytest.raises(TilewrightError, match=told):
        run(WIDE, before, after, tmp_path)
