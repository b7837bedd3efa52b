"""Kernels that move boxes and stretches of bytes: for the simulator's tests, and for the comparison with hardware."""

# ruff: noqa: C901  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import T, Tx


def loaded(rank: int, coords: tuple[int, ...], nbytes: int, *, mask: int = 0) -> Any:
    """A box of a tensor map, and the bytes of shared memory where it has come to; with a mask, to both of two CTAs."""
    ctas = 2 if mask else 1

    @T.prim_func
    def load(m: T.TensorMap, out: T.Buffer((ctas, nbytes), "uint8")):
        rank_in_cluster = T.cta_id_in_cluster([ctas])
        T.cta_id([ctas])
        tid = T.thread_id([32])
        tile = T.alloc_shared((nbytes,), "uint8", align=1024)
        bar = T.alloc_shared((1,), "uint64")
        for i in range(-(-nbytes // 32)):
            if i * 32 + tid < nbytes:
                tile[i * 32 + tid] = T.uint8(0x55)
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cluster_sync()
        leader = T.ptx.elect_sync()
        if leader and rank_in_cluster == 0:
            T.ptx.cp_async.bulk.tensor.g2c(rank, tile.ptr_to([0]), bar.ptr_to([0]), m, mask, -1, "", *coords)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        for i in range(-(-nbytes // 32)):
            if i * 32 + tid < nbytes:
                out[rank_in_cluster, i * 32 + tid] = tile[i * 32 + tid]
        T.cuda.cluster_sync()

    return load


def pixels_loaded(
    rank: int, coords: tuple[int, ...], offsets: tuple[int, ...], nbytes: int, *, mask: int = 0, mode: str = "im2col",
    announced: int | None = None,
) -> Any:  # fmt: skip
    """Pixels of an im2col map, and the bytes of shared memory where they have come to; with a mask, to several CTAs.
    announced: bytes, if not those that come.
    """
    ctas = mask.bit_length() or 1

    @T.prim_func
    def load(m: T.TensorMap, out: T.Buffer((ctas, nbytes), "uint8")):
        if ctas > 8:
            T.func_attr({"non_portable_cluster": True})
        rank_in_cluster = T.cta_id_in_cluster([ctas])
        T.cta_id([ctas])
        tid = T.thread_id([32])
        tile = T.alloc_shared((nbytes,), "uint8", align=1024)
        bar = T.alloc_shared((1,), "uint64")
        for i in range(nbytes // 16):
            if tid < 16:
                tile[i * 16 + tid] = T.uint8(0x55)
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes if announced is None else announced)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cluster_sync()
        leader = T.ptx.elect_sync()
        if leader and rank_in_cluster == 0:
            T.ptx.cp_async.bulk.tensor.g2c_im2col(
                rank, tile.ptr_to([0]), bar.ptr_to([0]), m, mask, -1, "", list(coords),
                [T.uint16(one) for one in offsets], mode=mode,
            )  # fmt: skip
        if not mask or (mask >> rank_in_cluster) % 2:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        for i in range(nbytes // 16):
            if tid < 16:
                out[rank_in_cluster, i * 16 + tid] = tile[i * 16 + tid]
        T.cuda.cluster_sync()

    return load


def pixels_stored(rank: int, coords: tuple[int, ...], nbytes: int, op: str = "") -> Any:
    """Bytes of shared memory, stored to the pixels of an im2col map or combined with them."""

    @T.prim_func
    def store(m: T.TensorMap, source: T.Buffer((nbytes,), "uint8")):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile = T.alloc_shared((nbytes,), "uint8", align=1024)
        for i in range(nbytes // 16):
            if tid < 16:
                tile[i * 16 + tid] = source[i * 16 + tid]
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if T.ptx.elect_sync():
            if op:
                T.ptx.cp_async.bulk.tensor.s2g_reduce_im2col(rank, tile.ptr_to([0]), m, "", op, *coords)
            else:
                T.ptx.cp_async.bulk.tensor.s2g_im2col(rank, tile.ptr_to([0]), m, "", *coords)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0, False)

    return store


def stored(rank: int, coords: tuple[int, ...], nbytes: int, op: str = "") -> Any:
    """Bytes of shared memory, stored to a box of a tensor map or combined with it."""

    @T.prim_func
    def store(m: T.TensorMap, source: T.Buffer((nbytes,), "uint8")):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile = T.alloc_shared((nbytes,), "uint8", align=1024)
        for i in range(nbytes // 32):
            tile[i * 32 + tid] = source[i * 32 + tid]
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if T.ptx.elect_sync():
            if op:
                T.ptx.cp_async.bulk.tensor.s2g_reduce(rank, tile.ptr_to([0]), m, "", op, *coords)
            else:
                T.ptx.cp_async.bulk.tensor.s2g(rank, tile.ptr_to([0]), m, "", *coords)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0, False)

    return store


def there_and_back(shape: tuple[int, int], tile: tuple[int, int], layout: Any, dtype: str, multiple: int = 1) -> Any:
    """A tile by `Tx.copy_async`, from one array into another; columns begin at a multiple of so many."""
    rows, cols = tile
    nbytes = tw.dtypes.dtype(dtype).bits // 8

    @T.prim_func
    def copied(a: T.Buffer(shape, dtype), b: T.Buffer(shape, dtype), r: T.int32, c: T.int32):
        T.assume(c % multiple == 0)
        T.cta_id([1])
        tid = T.thread_id([32])
        held = T.alloc_shared((rows, cols), dtype, layout=layout, align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if T.ptx.elect_sync():
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), rows * cols * nbytes)
            Tx.copy_async(held, a[r : r + rows, c : c + cols], mbar=bar.ptr_to([0]))
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            Tx.copy_async(b[r : r + rows, c : c + cols], held)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    return copied


def sent(how: str, kind: str = "uint32", op: str = "add") -> Any:
    """128 bytes from each of two CTAs to the other one's shared memory, in one of several ways; and what is there."""
    width = tw.dtypes.dtype(kind).bits // 8
    nbytes = 32 * width

    @T.prim_func
    def send(a: T.Buffer((2, 32), kind), out: T.Buffer((2, 32), kind)):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        tid = T.thread_id([32])
        mine = T.alloc_shared((32,), kind, align=128)
        theirs = T.alloc_shared((32,), kind, align=128)
        bar = T.alloc_shared((1,), "uint64")
        mine[tid] = a[rank, tid]
        theirs[tid] = T.cast(tid * 3 + 1, kind)
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
        T.ptx.fence.sync_restrict("release")
        T.ptx.fence.proxy_async.sync_restrict("release")
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cluster_sync()
        T.ptx.fence.sync_restrict("acquire")
        T.ptx.fence.proxy_async.sync_restrict("acquire")
        there = T.ptx.mapa(theirs.ptr_to([0]), 1 - rank)
        told = T.ptx.mapa(bar.ptr_to([0]), 1 - rank)
        if how == "st":
            T.ptx.st_async(there + tid * width, mine[tid], told)
        elif how == "red":
            getattr(T.ptx.red_async, op)(there + tid * width, mine[tid], told)
        elif tid == 0:
            if how == "s2c":
                T.ptx.cp_async.bulk.s2c(there, mine.ptr_to([0]), nbytes, told)
            elif how == "pointer":
                far = T.ptx.map_shared_rank(theirs.ptr_to([0]), 1 - rank)
                T.ptx.cp_async.bulk.s2c(far, mine.ptr_to([0]), nbytes, T.ptx.map_shared_rank(bar.ptr_to([0]), 1 - rank))
            elif how == "beyond":
                T.ptx.cp_async.bulk.s2c(there + T.uint32(4 << 24) + rank * (1 << 24), mine.ptr_to([0]), nbytes, told)
            elif how == "reduce":
                T.ptx.cp_reduce_async.bulk.s2c(there, mine.ptr_to([0]), nbytes, told, op, kind)
            elif how == "vec":
                for i in range(8):
                    at = there + i * 16
                    T.ptx.st_async.vec(4, at, told, mine[4 * i], mine[4 * i + 1], mine[4 * i + 2], mine[4 * i + 3])
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        out[rank, tid] = theirs[tid]
        if tid == 0 and T.ptx.getctarank(there) != 1 - rank:
            out[rank, tid] = T.cast(77, kind)
        T.cuda.cluster_sync()

    return send


def streamed(how: str, kind: str = "uint32", op: str = "add") -> Any:
    """256 elements through shared memory by bulk copies: to the CTA, to both CTAs of a cluster, and back, combined."""
    ctas = 2 if how == "g2s_cluster" else 1
    nbytes = 256 * tw.dtypes.dtype(kind).bits // 8

    @T.prim_func
    def stream(a: T.Buffer((256,), kind), out: T.Buffer((ctas, 256), kind)):
        rank = T.cta_id_in_cluster([ctas])
        T.cta_id([ctas])
        tid = T.thread_id([32])
        tile = T.alloc_shared((256,), kind, align=128)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
        T.cuda.cluster_sync()
        if tid == 0:
            if how == "g2s_cluster":
                if rank == 1:
                    T.ptx.cp_async.bulk.g2s_cluster(
                        tile.ptr_to([0]), a.ptr_to([0]), nbytes, bar.ptr_to([0]), cta_mask=3
                    )
            else:
                T.ptx.cp_async.bulk.g2s_cta(tile.ptr_to([0]), a.ptr_to([0]), nbytes, bar.ptr_to([0]))
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            if how == "reduce":
                T.ptx.cp_reduce_async.bulk.s2g(out.ptr_to([rank, 0]), tile.ptr_to([0]), nbytes, op, kind)
            else:
                T.ptx.cp_async.bulk.s2g(out.ptr_to([rank, 0]), tile.ptr_to([0]), nbytes)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0, read=False)
        T.cuda.cluster_sync()

    return stream


def summed(way: str, *, read: bool) -> Any:
    """Two CTAs add two tiles each to one array; a tile is made again once it has been read."""

    @T.prim_func
    def add(total: T.Buffer((8, 32), "float32")):
        T.cta_id([2])
        tid = T.thread_id([32])
        tile = T.alloc_shared((8, 32), "float32", align=128)
        for turn in range(2):
            for i in range(8):
                tile[i, tid] = T.cast(i + turn, "float32")
            T.ptx.fence.proxy_async("shared::cta")
            T.cuda.cta_sync()
            if tid == 0:
                Tx.copy_async(total, tile, dispatch=way, use_tma_reduce="add")
                T.ptx.cp_async.bulk.commit_group()
                T.ptx.cp_async.bulk.wait_group(0, read=read)
            T.cuda.cta_sync()

    return add


def changed(
    rank: int,
    coords: tuple[int, ...],
    changes: tuple[tuple[str, int, int], ...],
    nbytes: int,
    *,
    by_one: bool = True,
) -> Any:
    """A box of a map, some fields of which a thread has changed. changes: field, ordinal, and the value, which of an
    address is added to the array's own. by_one: does one thread write the map, or each its bytes?
    """
    constants = ("swizzle_mode", "fill_mode")

    @T.prim_func
    def change(m: T.TensorMap, room: T.Buffer((256,), "uint8"), out: T.Buffer((nbytes,), "uint8")):
        T.cta_id([1])
        tid = T.thread_id([32])
        own = T.alloc_shared((128,), "uint8", align=128)
        begin = T.cast(T.reinterpret("uint64", room.ptr_to([0])) % 128, "int32")
        first = (128 - begin) % 128  # of the map, which begins at a multiple of 128 bytes
        tile = T.alloc_shared((nbytes,), "uint8", align=1024)
        bar = T.alloc_shared((1,), "uint64")
        for i in range(4):
            own[i * 32 + tid] = m[i * 32 + tid]  # type: ignore[index]  # in a kernel it is bytes
        T.cuda.warp_sync()
        if tid == 0:
            for field, ordinal, value in changes:
                if field in constants:
                    T.ptx.tensormap.replace_constant(own.ptr_to([0]), value, field=field, space="shared")
                elif field == "global_address":
                    words = own.view("uint64")
                    moved = words[0] + T.uint64(value)
                    T.ptx.tensormap.replace(own.ptr_to([0]), moved, field=field, space="shared")
                elif field == "global_stride":
                    T.ptx.tensormap.replace(
                        own.ptr_to([0]), T.uint64(value), field=field, ordinal=ordinal, space="shared"
                    )
                else:
                    T.ptx.tensormap.replace(
                        own.ptr_to([0]), T.uint32(value), field=field, ordinal=ordinal, space="shared"
                    )
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
        T.cuda.warp_sync()
        if by_one:
            if tid == 0:
                for i in range(128):
                    room[first + i] = own[i]
                T.ptx.fence.proxy_tensormap.release("gpu")
        else:
            for i in range(4):
                room[first + i * 32 + tid] = own[i * 32 + tid]
            T.ptx.fence.proxy_tensormap.release("gpu")
        for i in range(nbytes // 32):
            tile[i * 32 + tid] = T.uint8(0x55)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.fence.proxy_tensormap.acquire(room.ptr_to([first]), "gpu")
            T.ptx.cp_async.bulk.tensor.g2c(
                rank, tile.ptr_to([0]), bar.ptr_to([0]), room.ptr_to([first]), 0, -1, "", *coords
            )
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        for i in range(nbytes // 32):
            out[i * 32 + tid] = tile[i * 32 + tid]
        for i in range(4):
            room[first + i * 32 + tid] = T.uint8(0)

    return change


def passed_on(ctas: int, hop: int, how: str) -> Any:
    """Each CTA of a cluster passes 128 bytes to the one ``hop`` further, in one of several ways."""

    @T.prim_func
    def passes(a: T.Buffer((ctas, 32), "uint32"), out: T.Buffer((ctas, 32), "uint32")):
        if ctas > 8:
            T.func_attr({"non_portable_cluster": True})
        rank = T.cta_id_in_cluster([ctas])
        T.cta_id([ctas])
        tid = T.thread_id([32])
        mine = T.alloc_shared((32,), "uint32", align=128)
        theirs = T.alloc_shared((32,), "uint32", align=128)
        bar = T.alloc_shared((1,), "uint64")
        mine[tid] = a[rank, tid]
        theirs[tid] = T.cast(tid * 3 + 1, "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 128)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cluster_sync()
        there = T.ptx.mapa(theirs.ptr_to([0]), (rank + hop) % ctas)
        told = T.ptx.mapa(bar.ptr_to([0]), (rank + hop) % ctas)
        if how == "st":
            T.ptx.st_async(there + tid * 4, mine[tid], told)
        elif how == "red":
            T.ptx.red_async.add(there + tid * 4, mine[tid], told)
        elif tid == 0:
            T.ptx.cp_async.bulk.s2c(there, mine.ptr_to([0]), 128, told)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        out[rank, tid] = theirs[tid]
        T.cuda.cluster_sync()

    return passes


def roles(counts: tuple[int, ...], terms: int) -> Any:
    """Warpgroups with so many registers each, of which each thread sums polynomials of as many ``terms``."""
    threads = 128 * len(counts)

    @T.prim_func
    def summed_up(a: T.Buffer((terms, threads), "float32"), out: T.Buffer((threads,), "float32")):
        T.func_attr({"min_blocks": 1})
        T.cta_id([1])
        tid = T.thread_id([threads])
        group = T.warpgroup_id([len(counts)])
        kept = T.alloc_local((terms,), "float32")
        given = T.alloc_local((1,), "float32")
        for number, registers in enumerate(counts):
            if group == number:
                T.ptx.setmaxnreg(registers > 65536 // threads, registers)
        for i in T.unroll(terms):
            kept[i] = a[i, tid]
        given[0] = T.float32(0)
        for i in T.unroll(terms):
            given[0] = given[0] * T.float32(0.5) + kept[i] * kept[terms - 1 - i]
        out[tid] = given[0]

    return summed_up
