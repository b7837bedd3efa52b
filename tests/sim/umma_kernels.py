"""Products into tensor memory, step by step, in which a step can be left out or done wrong."""

# ruff: noqa: C901  # kernels with a branch for each mistake, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sim.tmem_kernels import give_back, meet, take
from tilewright import T, Tx
from tilewright.layout import SwizzleMode, mma_shared_layout

K = 64  # of a tile: the width of its swizzle
TILE = mma_shared_layout("bfloat16", SwizzleMode.SWIZZLE_128B_ATOM, (128, K))
NARROW = mma_shared_layout("bfloat16", SwizzleMode.SWIZZLE_128B_ATOM, (32, K))


def operands(turns: int, n: int = 32, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32]]:
    """A, B, and D = A * B."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-2, 3, (rows, turns * K)).astype(np.float32) for rows in (128, n))
    return a.astype("bfloat16"), b.astype("bfloat16"), a @ b.T


def storage() -> tuple[Any, ...]:
    """An address of tensor memory, an m-barrier, two matrix descriptors, one of a product, and registers for D."""
    shared = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
    return *shared, *(T.alloc_local((n,), kind) for n, kind in ((2, "uint64"), (1, "uint32"), (32, "uint32")))


@T.inline
def encode(descs, word, A, B):
    """The descriptors of a tile of A, and of B, and of their product."""
    T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([0]), A, 1, 64, 3)
    T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([1]), B, 1, 64, 3)
    T.ptx.tcgen05.encode_instr_descriptor(
        word.ptr_to([0]), d_dtype="float32", a_dtype="bfloat16", b_dtype="bfloat16", M=128, N=32, K=16
    )


@T.inline
def load_row(c, words, addr, warp, lane):
    """Each thread loads its row of D and stores it."""
    T.ptx.tcgen05.ld(addr, words, shape="32x32b", num=32, row=warp % 4 * 32)  # loads D
    T.ptx.tcgen05.wait.ld()
    for j in T.unroll(32):
        c[warp % 4 * 32 + lane, j] = T.reinterpret("float32", words[j])


BF16 = {"d_dtype": "float32", "a_dtype": "bfloat16", "b_dtype": "bfloat16"}

MISTAKES = (
    "no proxy fence", "proxy fence too early", "no barrier", "no commit", "no wait", "no fence after the wait",
    "no wait for the sources", "proxy fence of one warp", "D from nowhere", "given back too early",
    "another accumulator overlaps", "another shape", "wrong descriptor",
)  # fmt: skip


def product(wrong: str = "", turns: int = 2, *, parted: bool = False) -> Any:
    """C = A * B, a tile of K after the other in the same shared memory; one thread issues, four warps store C.

    parted: lane 0 of each warp waits for itself.
    """
    assert wrong in ("", *MISTAKES)

    @T.prim_func
    def multiply(
        a: T.Buffer((128, turns * K), "bfloat16"),
        b: T.Buffer((32, turns * K), "bfloat16"),
        c: T.Buffer((128, 32), "float32"),
    ):
        T.cta_id([1])
        warp, lane, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A = T.alloc_shared((128, K), "bfloat16", layout=TILE)
        B = T.alloc_shared((32, K), "bfloat16", layout=NARROW)
        addr, done, descs, word, words = storage()
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp, 64)
        encode(descs, word, A.ptr_to([0, 0]), B.ptr_to([0, 0]))
        for turn in T.unroll(turns):
            if wrong == "proxy fence too early":
                T.ptx.fence.proxy_async("shared::cta")
            Tx.cta.copy(A, a[:, turn * K : turn * K + K])  # stages A
            Tx.cta.copy(B, b[:, turn * K : turn * K + K])
            if wrong not in ("no proxy fence", "proxy fence too early") and (
                tid < 32 or wrong != "proxy fence of one warp"
            ):
                T.ptx.fence.proxy_async("shared::cta")
            if wrong != "no barrier":
                T.cuda.cta_sync()
            if tid == 0:
                for k in T.unroll(4):
                    d = addr[0] + (16 if wrong == "another accumulator overlaps" and k == 2 else 0)
                    if wrong == "another shape" and k == 2:
                        T.ptx.tcgen05.encode_instr_descriptor(word.ptr_to([0]), M=128, N=16, K=16, **BF16)
                    if wrong == "wrong descriptor":
                        word[0] = word[0] | T.uint32(1 << 23)
                    T.ptx.tcgen05.mma(
                        d, T.smem_desc_add_16B_offset(descs[0], 2 * k), T.smem_desc_add_16B_offset(descs[1], 2 * k),
                        word[0], **BF16, enable_input_d=turn + k > 0 or wrong == "D from nowhere",
                    )  # fmt: skip  # multiplies
                if wrong != "no commit":
                    T.ptx.tcgen05.commit(done.ptr_to([0]))
            if (parted and lane == 0) or parted:
                T.ptx.mbarrier.try_wait(done.ptr_to([0]), turn % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
            elif wrong != "no wait" and (wrong != "no wait for the sources" or turn == turns - 1):
                T.ptx.mbarrier.try_wait(done.ptr_to([0]), turn % 2)
        if wrong == "given back too early":
            T.cuda.cta_sync()
            if warp == 0:
                T.ptx.tcgen05.dealloc(addr[0], n_cols=64)
        if wrong != "no fence after the wait":
            T.ptx.tcgen05.fence.after_thread_sync()
        load_row(c, words, addr[0], warp, lane)
        if wrong != "given back too early":
            give_back(addr, warp, 64)

    return multiply


def two_accumulators(wrong: str = "", turns: int = 4) -> Any:
    """Warp 4 multiplies into two accumulators in turn; warps 0 to 3 load one while the other is computed.

    wrong: what is left out: "wait::ld", "before", "after", or "empty", the wait for a free accumulator.
    """

    @T.prim_func
    def multiply(
        a: T.Buffer((128, turns * K), "bfloat16"), b: T.Buffer((32, turns * K), "bfloat16"),
        c: T.Buffer((turns, 128, 32), "float32"),
    ):  # fmt: skip
        T.cta_id([1])
        warp, lane, tid = T.warp_id([5]), T.lane_id([32]), T.thread_id([160])
        A = T.alloc_shared((turns, 128, K), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (turns, 128, K)))
        B = T.alloc_shared((turns, 32, K), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (turns, 32, K)))
        addr = T.alloc_shared([1], "uint32")
        full, empty = T.alloc_shared([2], "uint64"), T.alloc_shared([2], "uint64")
        descs, word = T.alloc_local((2,), "uint64"), T.alloc_local((1,), "uint32")
        words = T.alloc_local((32,), "uint32")
        if tid == 0:
            for place in T.unroll(2):
                T.ptx.mbarrier.init(full.ptr_to([place]), 1)
                T.ptx.mbarrier.init(empty.ptr_to([place]), 128)
        T.ptx.fence.mbarrier_init()
        for turn in T.unroll(turns):
            Tx.cta.copy(A[turn, :, :], a[:, turn * K : turn * K + K])
            Tx.cta.copy(B[turn, :, :], b[:, turn * K : turn * K + K])
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp, 64)
        if warp == 4:
            if T.ptx.elect_sync():
                for turn in T.unroll(turns):
                    if wrong != "empty":
                        T.ptx.mbarrier.try_wait(empty.ptr_to([turn % 2]), 1 - turn // 2 % 2)
                    if wrong != "after":
                        T.ptx.tcgen05.fence.after_thread_sync()
                    encode(descs, word, A.ptr_to([turn, 0, 0]), B.ptr_to([turn, 0, 0]))
                    for k in T.unroll(4):
                        T.ptx.tcgen05.mma(
                            addr[0] + 32 * (turn % 2), T.smem_desc_add_16B_offset(descs[0], 2 * k),
                            T.smem_desc_add_16B_offset(descs[1], 2 * k), word[0], **BF16, enable_input_d=k > 0,
                        )  # fmt: skip
                    T.ptx.tcgen05.commit(full.ptr_to([turn % 2]))
        else:
            for turn in T.unroll(turns):
                T.ptx.mbarrier.try_wait(full.ptr_to([turn % 2]), turn // 2 % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                T.ptx.tcgen05.ld(addr[0] + 32 * (turn % 2), words, shape="32x32b", num=32, row=warp % 4 * 32)
                if wrong != "wait::ld":
                    T.ptx.tcgen05.wait.ld()
                if wrong != "before":
                    T.ptx.tcgen05.fence.before_thread_sync()
                T.ptx.mbarrier.arrive(empty.ptr_to([turn % 2]))
                if wrong == "wait::ld":
                    T.ptx.tcgen05.wait.ld()
                for j in T.unroll(32):
                    c[turn, warp % 4 * 32 + lane, j] = T.reinterpret("float32", words[j])
        give_back(addr, warp, 64)

    return multiply


def ring(wrong: str = "", turns: int = 4, stages: int = 2) -> Any:
    """TMA brings tiles to a ring of stages, one thread multiplies, and a commit hands each stage back.

    wrong: "no wait for TMA", "stage handed back too early", "stage never waited for", "few bytes".
    """
    tiles = mma_shared_layout("bfloat16", 3, (stages, 128, K)), mma_shared_layout("bfloat16", 3, (stages, 32, K))
    nbytes = 2 * K * (128 + 32) - 16 * (wrong == "few bytes")

    @T.prim_func
    def multiply(
        a: T.Buffer((128, turns * K), "bfloat16"),
        b: T.Buffer((32, turns * K), "bfloat16"),
        c: T.Buffer((128, 32), "float32"),
    ):
        T.cta_id([1])
        warp, lane, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A = T.alloc_shared((stages, 128, K), "bfloat16", layout=tiles[0], align=1024)
        B = T.alloc_shared((stages, 32, K), "bfloat16", layout=tiles[1], align=1024)
        addr, done, descs, word, words = storage()
        full, empty = T.alloc_shared([stages], "uint64"), T.alloc_shared([stages], "uint64")
        if tid == 0:
            for stage in T.unroll(stages):
                T.ptx.mbarrier.init(full.ptr_to([stage]), 1)
                T.ptx.mbarrier.init(empty.ptr_to([stage]), 1)
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp, 32)
        if warp == 0:
            if T.ptx.elect_sync():
                for turn in T.unroll(turns):
                    slot = turn % stages
                    if wrong != "stage never waited for":
                        T.ptx.mbarrier.try_wait(empty.ptr_to([slot]), 1 - turn // stages % 2)
                    T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([slot]), nbytes)
                    Tx.copy_async(A[slot, :, :], a[:, turn * K : turn * K + K], mbar=full.ptr_to([slot]))  # brings A
                    Tx.copy_async(B[slot, :, :], b[:, turn * K : turn * K + K], mbar=full.ptr_to([slot]))
        elif warp == 1 and T.ptx.elect_sync():
            for turn in T.unroll(turns):
                slot = turn % stages
                if wrong != "no wait for TMA":
                    T.ptx.mbarrier.try_wait(full.ptr_to([slot]), turn // stages % 2)
                encode(descs, word, A.ptr_to([slot, 0, 0]), B.ptr_to([slot, 0, 0]))
                if wrong == "stage handed back too early":
                    T.ptx.tcgen05.commit(empty.ptr_to([slot]))
                for k in T.unroll(4):
                    T.ptx.tcgen05.mma(
                        addr[0], T.smem_desc_add_16B_offset(descs[0], 2 * k),
                        T.smem_desc_add_16B_offset(descs[1], 2 * k), word[0], **BF16, enable_input_d=turn + k > 0,
                    )  # fmt: skip  # reads the stage
                if wrong != "stage handed back too early":
                    T.ptx.tcgen05.commit(empty.ptr_to([slot]))
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        load_row(c, words, addr[0], warp, lane)
        give_back(addr, warp, 32)

    return multiply


def through_tmem(how: str = "copied", wrong: str = "") -> Any:
    """A goes to tensor memory first. how: "copied" by the thread that multiplies, "crosses" from a thread to another
    one, or "stored" by four warps. wrong: "before", "after", "wait::st" is left out.
    """

    @T.prim_func
    def multiply(
        a: T.Buffer((128, K), "bfloat16"), b: T.Buffer((32, K), "bfloat16"), c: T.Buffer((128, 32), "float32")
    ):
        T.cta_id([1])
        warp, lane, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A = T.alloc_shared((128, K), "bfloat16", layout=TILE)
        B = T.alloc_shared((32, K), "bfloat16", layout=NARROW)
        addr, done, descs, word, words = storage()
        copied = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
            T.ptx.mbarrier.init(copied.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp, 64)
        encode(descs, word, A.ptr_to([0, 0]), B.ptr_to([0, 0]))
        if how == "stored":
            for j in T.unroll(32):
                low = T.cast(T.reinterpret("uint16", A[tid, 2 * j]), "uint32")
                words[j] = low | T.cast(T.reinterpret("uint16", A[tid, 2 * j + 1]), "uint32") << 16
            T.ptx.tcgen05.st(addr[0], words, shape="32x32b", num=32, row=warp * 32, col=32)
            if wrong != "wait::st":
                T.ptx.tcgen05.wait.st()
            meet()
        if tid == 32 and how == "crosses":
            for k in T.unroll(4):
                T.ptx.tcgen05.cp(
                    addr[0] + 32 + 8 * k, T.smem_desc_add_16B_offset(descs[0], 2 * k), shape="128x256b", cta_group=1
                )
            if wrong != "before":
                T.ptx.tcgen05.fence.before_thread_sync()
            T.ptx.mbarrier.arrive(copied.ptr_to([0]), sem="relaxed", scope="cta")
        if tid == 0:
            if how == "copied":
                for k in T.unroll(4):
                    T.ptx.tcgen05.cp(
                        addr[0] + 32 + 8 * k, T.smem_desc_add_16B_offset(descs[0], 2 * k), shape="128x256b", cta_group=1
                    )
            if how == "crosses":
                T.ptx.mbarrier.try_wait(copied.ptr_to([0]), 0, sem="relaxed", scope="cta")
                if wrong != "after":
                    T.ptx.tcgen05.fence.after_thread_sync()
            for k in T.unroll(4):
                T.ptx.tcgen05.mma(
                    addr[0], addr[0] + 32 + 8 * k, T.smem_desc_add_16B_offset(descs[1], 2 * k), word[0], **BF16,
                    use_a_tmem=True, enable_input_d=k > 0,
                )  # fmt: skip
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        load_row(c, words, addr[0], warp, lane)
        give_back(addr, warp, 64)

    return multiply


def pair(rows: int = 256, wrong: str = "") -> Any:
    """A product of two CTAs, each with half of A's rows and half of B's columns; rank 0 issues, both store their rows.

    rows: M, 128 or 256. wrong: "meeting", "proxy fence" of rank 1, or "multicast", so that rank 1 is told nothing.
    """
    half = rows // 2
    layouts = [mma_shared_layout("bfloat16", 3, (n, K)) for n in (half, 16)]

    @T.prim_func
    def multiply(
        a: T.Buffer((rows, K), "bfloat16"), b: T.Buffer((32, K), "bfloat16"), c: T.Buffer((rows, 32), "float32")
    ):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((half, K), "bfloat16", layout=layouts[0])
        B = T.alloc_shared((16, K), "bfloat16", layout=layouts[1])
        addr, done, descs, word, words = storage()
        if warp == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=2)
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a[rank * half : rank * half + half, :])
        Tx.cta.copy(B, b[rank * 16 : rank * 16 + 16, :])
        if wrong != "proxy fence" or rank == 0:
            T.ptx.fence.proxy_async("shared::cta")
        T.ptx.tcgen05.fence.before_thread_sync()
        if wrong == "meeting":
            T.cuda.cta_sync()
        else:
            T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if rank == 0 and tid == 0:
            T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([0]), A.ptr_to([0, 0]), 1, 64, 3)
            T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([1]), B.ptr_to([0, 0]), 1, 64, 3)
            T.ptx.tcgen05.encode_instr_descriptor(word.ptr_to([0]), M=rows, N=32, K=16, n_cta_groups=2, **BF16)
            for k in T.unroll(4):
                T.ptx.tcgen05.mma(
                    addr[0], T.smem_desc_add_16B_offset(descs[0], 2 * k), T.smem_desc_add_16B_offset(descs[1], 2 * k),
                    word[0], **BF16, cta_group=2, enable_input_d=k > 0,
                )  # fmt: skip
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=2, cta_mask=1 if wrong == "multicast" else 3)
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(addr[0], words, shape="32x32b", num=32, row=warp * 32)
        T.ptx.tcgen05.wait.ld()
        for j in T.unroll(32):
            if rows == 256:
                c[rank * 128 + tid, j] = T.reinterpret("float32", words[j])
            elif j < 16:  # lanes 64 to 127 have the second half of the columns
                c[rank * 64 + tid % 64, tid // 64 * 16 + j] = T.reinterpret("float32", words[j])
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if warp == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=2)

    return multiply


def two_pairs(lazy: int) -> Any:
    """Two pairs of CTAs, each of which begins a product; the CTA ``lazy`` has stored nothing into its half of A."""
    layouts = [mma_shared_layout("bfloat16", 3, (n, K)) for n in (128, 16)]

    @T.prim_func
    def multiply(a: T.Buffer((128, K), "bfloat16"), b: T.Buffer((16, K), "bfloat16")):
        rank = T.cta_id_in_cluster([2])
        cta, warp, tid = T.cta_id([4]), T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((128, K), "bfloat16", layout=layouts[0])
        B = T.alloc_shared((16, K), "bfloat16", layout=layouts[1])
        addr, done, descs, word, _ = storage()
        if warp == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=2)
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        if cta != lazy:
            Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if rank == 0 and tid == 0:
            T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([0]), A.ptr_to([0, 0]), 1, 64, 3)
            T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([1]), B.ptr_to([0, 0]), 1, 64, 3)
            T.ptx.tcgen05.encode_instr_descriptor(word.ptr_to([0]), M=256, N=32, K=16, n_cta_groups=2, **BF16)
            T.ptx.tcgen05.mma(addr[0], descs[0], descs[1], word[0], **BF16, cta_group=2, enable_input_d=False)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=2, cta_mask=3)
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)

    return multiply
