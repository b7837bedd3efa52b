"""Copies of tiles that lie on several GPUs: to the one that has a tile, to all that do, by the switch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import DispatchError
from tilewright.layout import Replicate, Shard, placed

RANKS, ROWS, WIDTH = 4, 16, 8
ROWWISE = (Shard(0),)


def spread(*placements):
    mesh = (RANKS,) if len(placements) == 1 else (2, 2)
    rows = ROWS * RANKS if placements == (Shard(0),) else ROWS * 2 if Shard(0) in placements else ROWS
    return (rows, WIDTH), placed((rows, WIDTH), mesh, placements).layout


def handed_on(how, placements=ROWWISE, *, rows=ROWS, first=None, dtype="float32", dispatch=None):
    """Each rank fills a tile with its number, and copies it to a region; ``how`` names the copy."""
    shape, layout = spread(*placements)

    @T.prim_func
    def kernel(x: T.SymmetricBuffer(shape, dtype, ranks=RANKS, layout=layout)):
        T.cta_id([1])
        thread, rank = T.thread_id([64]), T.rank_id([RANKS])
        tile = T.alloc_shared((rows, WIDTH), dtype, align=128)
        Tx.cta.fill(tile, T.cast(rank + 1, dtype))
        T.cuda.cta_sync()
        to: T.let = (rank + 1) % RANKS
        start = T.meta_var(to * ROWS if first is None else first)
        if how == "copy":
            if rank == 2 or placements == (Shard(0),):
                Tx.cta.copy(x[start : start + rows, :], tile, dispatch=dispatch)
        elif how == "copy_async":
            T.ptx.fence.proxy_async("shared::cta")
            T.cuda.cta_sync()
            if thread == 0:
                Tx.copy_async(x[start : start + rows, :], tile)
                T.ptx.cp_async.bulk.commit_group()
                T.ptx.cp_async.bulk.wait_group(0, read=False)
        else:
            Tx.cta.fill(x[start : start + rows, :], T.cast(0, dtype))

    return tw.compile(kernel, target="sm_90a")


def results(exe, dtype="float32"):
    rows = exe.kernel.buffers[0].layout.storage().cosize("m") // WIDTH
    x = [np.zeros((rows, WIDTH), dtype) for _ in range(RANKS)]
    exe.simulate(x, ranks=RANKS)
    return [set(part.reshape(-1).tolist()) for part in x]


@pytest.mark.parametrize("how", ["copy", "copy_async"])
def test_a_tile_goes_to_the_gpu_that_has_it(how):
    exe = handed_on(how)
    assert exe.report.entries[-1].variant == "peer"
    assert results(exe) == [{4.0}, {1.0}, {2.0}, {3.0}]


def test_a_tile_that_all_have_goes_to_each():
    exe = handed_on("copy", (Replicate(),), first=0)
    assert exe.report.entries[-1].variant == "replicas"
    assert results(exe) == [{3.0}] * RANKS


def test_a_tile_that_some_have_goes_to_those():
    exe = handed_on("copy", (Shard(0), Replicate()), first=ROWS)
    assert exe.report.entries[-1].variant == "replicas"
    assert results(exe) == [{0.0}, {0.0}, {3.0}, {3.0}]


def test_the_switch_stores_to_all_where_it_is_asked_for():
    exe = handed_on("copy", (Replicate(),), first=0, dispatch="multimem")
    assert exe.report.entries[-1].variant == "multimem"
    assert results(exe) == [{3.0}] * RANKS


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a region of two GPUs": ({"rows": 32, "first": 0}, "lies on 2 GPUs"),
    "a region across a border": ({"first": 8}, "in a way that no layout describes"),
    "multimem of one GPU": ({"dispatch": "multimem"}, "is not on all GPUs alike"),
    "multimem of halves": (
        {"placements": (Replicate(),), "first": 0, "dtype": "float16", "dispatch": "multimem"}, "has 16 bits",
    ),
    "replicas of one GPU": ({"dispatch": "replicas"}, "is on one GPU"),
    "peer of all": ({"placements": (Replicate(),), "first": 0, "dispatch": "peer"}, "4 GPUs have x"),
    "a variant of one GPU": ({"dispatch": "gmem_smem"}, "has no variant 'gmem_smem' for x"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_variant_takes_is_refused_with_the_reason(case):
    changed, words = REFUSED[case]
    with pytest.raises(DispatchError) as caught:
        handed_on("copy", **changed)
    assert words in str(caught.value)


def test_other_primitives_work_on_memory_of_one_gpu():
    with pytest.raises(DispatchError, match="works on memory of one GPU"):
        handed_on("fill")


def test_a_source_that_all_have_is_read_on_the_own_gpu():
    shape, layout = spread(Replicate())

    @T.prim_func
    def kernel(x: T.SymmetricBuffer(shape, "float32", ranks=RANKS, layout=layout), out: T.Buffer(shape, "float32")):
        T.cta_id([1])
        T.thread_id([64])
        tile = T.alloc_shared(shape, "float32")
        Tx.cta.copy(tile, x)
        T.cuda.cta_sync()
        Tx.cta.copy(out, tile)

    x, out = ([np.full(shape, own * rank, np.float32) for rank in range(RANKS)] for own in (1, 0))
    tw.simulate(kernel, x, out, ranks=RANKS)
    assert [part[0, 0] for part in out] == [0, 1, 2, 3]
