"""Pipelines of the copy engine, right ones, and each with a mistake where ``wrong`` names one."""

# ruff: noqa: C901, PLR0915, SIM102  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

from tilewright import T, Tx

ROWS, COLS = 8, 32  # of a tile of float32: 1024 bytes


def ring(wrong: str = "", stages: int = 2, turns: int = 5) -> Any:
    """One thread loads tiles into a ring of stages, two warps add them up."""

    def has(mistake: str) -> bool:
        return wrong == mistake

    nbytes = 4 * ROWS * COLS + {"few bytes": -16, "many bytes": 16}.get(wrong, 0)
    arrivals = {"empty count 1": 1, "empty count 3": 3}.get(wrong, 2)
    reading = turns - has("last one not awaited")

    @T.prim_func
    def run(a: T.Buffer((turns * ROWS, COLS), "float32"), out: T.Buffer((ROWS, COLS), "float32")):
        T.cta_id([1])
        warp = T.warp_id([3])
        lane = T.lane_id([32])
        tile = T.alloc_shared((stages + 1, ROWS, COLS), "float32", align=1024)
        full = T.alloc_shared((stages,), "uint64")
        empty = T.alloc_shared((stages,), "uint64")
        acc = T.alloc_local((4,), "float32")
        if warp == 0 and lane == 0:
            for s in range(stages):
                T.ptx.mbarrier.init(full.ptr_to([s]), 2 if has("full count 2") else 1)
                T.ptx.mbarrier.init(empty.ptr_to([s]), arrivals)
                if has("made twice"):
                    T.ptx.mbarrier.init(empty.ptr_to([s]), arrivals)
            if not has("no fence after init"):
                T.ptx.fence.mbarrier_init()
        if not has("no barrier after init"):
            T.cuda.cta_sync()
        if warp == 0:
            if T.ptx.elect_sync():
                for i in range(turns):
                    slot = i % stages
                    parity = i // stages % 2
                    into = stages if has("another place") else (i + 1) % stages if has("another stage") else slot
                    told = (i + 1) % stages if has("another barrier") else slot
                    if not has("producer does not wait"):
                        T.ptx.mbarrier.try_wait(empty.ptr_to([slot]), parity if has("producer's phase") else 1 - parity)
                    if has("no bytes"):
                        T.ptx.mbarrier.arrive(full.ptr_to([slot]))
                    elif has("no arrival"):
                        T.ptx.mbarrier.expect_tx(full.ptr_to([slot]), nbytes)
                    else:
                        T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([slot]), nbytes)
                    if not has("no copy"):
                        Tx.copy_async(tile[into, :, :], a[i * ROWS : i * ROWS + ROWS, :], mbar=full.ptr_to([told]))
        else:
            for j in range(4):
                acc[j] = T.float32(0)
            for i in range(reading):
                slot = i % stages
                parity = i // stages % 2
                if has("one lane waits"):
                    if lane == 0:
                        T.ptx.mbarrier.try_wait(full.ptr_to([slot]), parity)
                elif not has("consumer does not wait"):
                    T.ptx.mbarrier.try_wait(full.ptr_to([slot]), 1 - parity if has("consumer's phase") else parity)
                if has("arrives before it reads"):
                    if lane == 0:
                        T.ptx.mbarrier.arrive(empty.ptr_to([slot]))
                for j in range(4):
                    acc[j] = acc[j] + tile[slot, (warp - 1) * 4 + j, lane]
                if not has("no fence of readers"):
                    T.ptx.fence.proxy_async("shared::cta")
                if not has("lanes not together"):
                    T.cuda.warp_sync()
                if lane == 0:
                    if has("arrives twice"):
                        T.ptx.mbarrier.arrive(empty.ptr_to([slot]))
                    if not (has("no arrival of consumers") or has("arrives before it reads")):
                        T.ptx.mbarrier.arrive(empty.ptr_to([slot]))
            for j in range(4):
                out[(warp - 1) * 4 + j, lane] = acc[j]

    return run


def storing(wrong: str = "", turns: int = 3) -> Any:
    """A warp writes a tile, one lane issues its store, and again: the tile is used again once it has been read."""

    def has(mistake: str) -> bool:
        return wrong == mistake

    @T.prim_func
    def run(out: T.Buffer((turns * ROWS, COLS), "float32"), back: T.Buffer((ROWS, COLS), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_shared((ROWS, COLS), "float32", align=1024)
        for i in range(turns):
            for j in range(ROWS):
                tile[j, lane] = T.cast(i * 100 + j, "float32")
            if not has("no proxy fence"):
                T.ptx.fence.proxy_async("global" if has("fence of other memory") else "shared::cta")
            if not has("no barrier before the store"):
                T.cuda.warp_sync()
            if lane == 0:
                Tx.copy_async(out[i * ROWS : i * ROWS + ROWS, :], tile)
                if not has("no commit"):
                    T.ptx.cp_async.bulk.commit_group()
            if lane == (1 if has("another thread waits") else 0):
                if not has("no wait"):
                    T.ptx.cp_async.bulk.wait_group(1 if has("one group too few") else 0)
            if not has("no barrier after the wait"):
                T.cuda.warp_sync()
        if lane == 0:
            if not has("written to the end"):
                T.ptx.cp_async.bulk.wait_group(0, read=False)
            for j in range(ROWS):
                back[j, 0] = out[(turns - 1) * ROWS + j, 0]

    return run


def casting(wrong: str = "") -> Any:
    """CTA 0 of two loads a tile to both; each waits for its own bytes."""

    def has(mistake: str) -> bool:
        return wrong == mistake

    mask = {"mask beyond the cluster": 7, "mask without the peer": 1}.get(wrong, 3)
    nbytes = 4 * ROWS * COLS

    @T.prim_func
    def run(a: T.Buffer((ROWS, COLS), "float32"), out: T.Buffer((2, ROWS, COLS), "float32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        lane = T.lane_id([32])
        tile = T.alloc_shared((ROWS, COLS), "float32", align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            if not has("no fence after init"):
                T.ptx.fence.mbarrier_init()
            if not (has("peer expects nothing") and rank == 1):
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes // 2 if has("half of the bytes") else nbytes)
        if has("peer not ready"):
            T.cuda.cta_sync()
        else:
            T.cuda.cluster_sync()
        leader = T.ptx.elect_sync()
        if leader and (rank == 0 or has("both cast")):
            Tx.copy_async(tile, a, mbar=bar.ptr_to([0]), cta_mask=mask)
        if not (has("peer does not wait") and rank == 1):
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        for j in range(ROWS):
            out[rank, j, lane] = tile[j, lane]
        if not has("peer leaves early"):
            T.cuda.cluster_sync()

    return run
