"""Products with A and metadata in tensor memory, kept columns and collectors, in which a step is wrong."""

# ruff: noqa: C901, PLR0915  # kernels with a branch for each mistake, which Python takes while it parses
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sim.tmem_kernels import give_back, meet, take
from tests.tile.sparse_kernels import compressed
from tilewright import T, Tx
from tilewright.layout import R, S, TCol, TileLayout, TLane, mma_shared_layout, sp_meta_smem_layout, sp_meta_tmem_layout

Array = NDArray[Any]
K = 64  # of A in a turn: 128 bytes
IN_LANES = TileLayout(S[(128, K) : (1 @ TLane, 1 @ TCol)])


@dataclass(frozen=True)
class Kept:
    """C = the sum of A B.T of each turn. through: A goes to tensor memory, "copied" or "stored" there. sparse: A has
    half of K, and metadata. ws: of so many rows, with B's columns kept. collected: A is filled in with one half of B's
    columns, used with the other.
    """

    sparse: bool = False
    through: str = ""
    ws: int = 0
    collected: bool = False
    turns: int = 2

    @property
    def rows(self) -> int:
        return self.ws or 128

    @property
    def n(self) -> int:
        return 64

    @property
    def k(self) -> int:
        return K * (2 if self.sparse else 1)

    def inputs(self) -> tuple[Array, ...]:
        """A, B, metadata, C, and C as it should be."""
        rng = np.random.default_rng(5)
        made = [compressed(rng, self.rows, self.k, 4) for _ in range(self.turns)]
        full, kept, meta = (np.concatenate(each, axis=1) for each in zip(*made, strict=True))
        b = rng.integers(-2, 3, (self.n, self.turns * self.k))
        a = kept if self.sparse else full
        c = np.zeros((self.rows, self.n), np.float32)
        return a.astype("bfloat16"), b.astype("bfloat16"), meta, c, (full @ b.T).astype(np.float32)


def kept(case: Kept, wrong: str = "") -> Any:
    """The kernel, with one step left out or done wrong."""
    rows, n, k, turns, parts = case.rows, case.n, case.k, case.turns, 128 // case.rows
    bank = IN_LANES if parts == 1 else TileLayout(S[(rows, K) : (1 @ TLane, 1 @ TCol)]) + R[parts : rows @ TLane]
    d_layout = TileLayout(S[(rows, parts, n // parts) : (1 @ TLane, rows @ TLane, 1 @ TCol)])
    place = {"d over a": 0, "d over metadata": 0, "beyond the columns": 120}.get(wrong, 64)
    meta_at = {"d over metadata": 32, "odd column": 97}.get(wrong, 96)
    width = n // parts

    @T.prim_func
    def multiply(
        a: T.Buffer((rows, turns * K), "bfloat16"), b: T.Buffer((n, turns * k), "bfloat16"),
        e: T.Buffer((rows, turns * k // 8), "uint8"), c: T.Buffer((rows, n), "float32"),
    ):  # fmt: skip
        T.cta_id([1])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((rows, K), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (rows, K)), align=1024)
        B = T.alloc_shared((n, k), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (n, k)), align=1024)
        addr, word = T.alloc_shared([1], "uint32"), T.alloc_local((1,), "uint32")
        done, brought = T.alloc_shared([1], "uint64"), T.alloc_shared([1], "uint64")
        if case.sparse:
            E = T.alloc_shared((rows, 16), "uint8", layout=sp_meta_smem_layout(rows, 16, "bfloat16"), align=128)
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
            T.ptx.mbarrier.init(brought.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp, 128)
        base = addr[0]
        d_at = base + (T.uint32(32 << 16) if wrong == "another lane" else T.uint32(0))
        D = T.decl_buffer((rows, n), "float32", scope="tmem", allocated_addr=d_at, layout=d_layout)
        P = T.decl_buffer((rows, K), "bfloat16", scope="tmem", allocated_addr=base + place, layout=bank)
        if case.sparse:
            M = T.decl_buffer((rows, 16), "uint8", scope="tmem", allocated_addr=base + meta_at,
                              layout=sp_meta_tmem_layout(rows, 16, "bfloat16"))  # fmt: skip
        for turn in T.unroll(turns):
            Tx.cta.copy(A, a[:, turn * K : turn * K + K])
            Tx.cta.copy(B, b[:, turn * k : turn * k + k])
            if case.sparse and wrong != "metadata never copied to shared memory":
                Tx.cta.copy(E, e[:, turn * 16 : turn * 16 + 16])
            if wrong != "no proxy fence":
                T.ptx.fence.proxy_async("shared::cta")
            if wrong != "no barrier":
                meet()
            if (
                case.through == "stored"
                and (wrong != "A of one warp" or warp == 0)
                and (wrong != "one bank" or warp < 2)
            ):
                for j in range(K // 2):
                    high = T.cast(T.reinterpret("uint16", A[tid % rows, 2 * j + 1]), "uint32") << 16
                    word[0] = T.cast(T.reinterpret("uint16", A[tid % rows, 2 * j]), "uint32") | high
                    if wrong != "A never stored":
                        T.ptx.tcgen05.st(base + (place + j), word[0], shape="32x32b", num=1, row=warp * 32)
            if case.through == "stored":
                if wrong != "no wait::st":
                    T.ptx.tcgen05.wait.st()
                if wrong == "no meeting":
                    T.ptx.tcgen05.fence.after_thread_sync()
                else:
                    meet()
            if wrong.startswith("another thread") and tid == 32:
                if case.sparse:
                    Tx.copy_async(M, E)
                else:
                    Tx.copy_async(P, A)
                if wrong != "another thread, no before":
                    T.ptx.tcgen05.fence.before_thread_sync()
                T.ptx.mbarrier.arrive(brought.ptr_to([0]), sem="relaxed", scope="cta")
            if tid == 0:
                if wrong.startswith("another thread"):
                    T.ptx.mbarrier.try_wait(brought.ptr_to([0]), turn % 2, sem="relaxed", scope="cta")
                    if wrong != "another thread, no after":
                        T.ptx.tcgen05.fence.after_thread_sync()
                else:
                    if case.through == "copied" and wrong != "A copied behind the product":
                        Tx.copy_async(P, A)
                    if case.sparse and wrong not in ("no metadata", "metadata copied behind the product"):
                        Tx.copy_async(M, E)
                if wrong == "metadata refilled":
                    E[0, 0] = T.uint8(0x44)
                if wrong == "commit before the product":
                    T.ptx.tcgen05.commit(done.ptr_to([0]))
                left = P if case.through else A
                if case.collected:
                    for s in (0, 16, 32, 48):
                        first, then = ("a::fill", "a::lastuse")
                        Tx.gemm_async(
                            D[:, 0:32], left[:, s : s + 16], B[0:32, s : s + 16], turn + s > 0, collector=first
                        )
                        Tx.gemm_async(
                            D[:, 32:64], left[:, s : s + 16], B[32:64, s : s + 16], turn + s > 0, collector=then
                        )
                elif case.sparse:
                    Tx.gemm_async(D, left, B, turn > 0 or wrong == "D from nowhere", sp_meta=M)
                else:
                    Tx.gemm_async(D, left, B, turn > 0 or wrong == "D from nowhere", ws=case.ws > 0)
                if wrong == "metadata copied behind the product":
                    Tx.copy_async(M, E)
                if wrong == "A copied behind the product":
                    Tx.copy_async(P, A)
                if wrong == "B refilled":
                    B[0, 0] = T.cast(1.0, "bfloat16")
                if wrong not in ("no commit", "commit before the product"):
                    T.ptx.tcgen05.commit(done.ptr_to([0]))
            if wrong == "A stored over" and turn == 0:
                T.ptx.tcgen05.st(base + place, word[0], shape="32x32b", num=1, row=warp * 32)
            if wrong == "metadata stored over" and turn == 0:
                T.ptx.tcgen05.st(base + meta_at, word[0], shape="32x32b", num=1, row=warp * 32)
            if wrong == "given back" and turn == 0 and warp == 0:
                T.ptx.tcgen05.dealloc(base, n_cols=128)
            if wrong != "no wait" or turn < turns - 1:
                T.ptx.mbarrier.try_wait(done.ptr_to([0]), turn % 2)
            T.ptx.tcgen05.fence.after_thread_sync()
            if turn < turns - 1:
                meet()
        for j in range(width):
            T.ptx.tcgen05.ld(base + j, word[0], shape="32x32b", num=1, row=warp * 32)
            if wrong != "no wait::ld":
                T.ptx.tcgen05.wait.ld()
            c[tid % rows, tid // rows * width + j] = T.reinterpret("float32", word[0])
        give_back(addr, warp, 128)

    return multiply


SPARSE, STORED, COPIED = Kept(sparse=True), Kept(through="stored"), Kept(through="copied")
RIGHT = {
    "sparse": SPARSE,
    "sparse, three turns": Kept(sparse=True, turns=3),
    "sparse, A stored in tensor memory": Kept(sparse=True, through="stored"),
    "sparse, A copied to tensor memory": Kept(sparse=True, through="copied"),
    "A stored in tensor memory": STORED,
    "A copied to tensor memory": COPIED,
    "128 rows, columns kept": Kept(ws=128),
    "64 rows, columns kept": Kept(ws=64),
    "32 rows, columns kept": Kept(ws=32),
    "64 rows in both banks": Kept(ws=64, through="stored"),
    "32 rows in four banks": Kept(ws=32, through="stored"),
    "a collector": Kept(collected=True),
    "a collector of cells": Kept(collected=True, through="stored"),
    "a collector of copied cells": Kept(collected=True, through="copied"),
}
BY_ANOTHER = {
    "metadata by another thread": SPARSE,
    "A by another thread": COPIED,
}
UNREAD = "may still not have read"
UNWRITTEN = "may still not have written"
MISTAKES = {
    "metadata never copied to shared memory": (SPARSE, "a value is uninitialised"),
    "no metadata": (SPARSE, "a value is uninitialised"),
    "metadata copied behind the product": (SPARSE, f"tcgen05.cp touches tensor memory that tcgen05.mma.sp {UNREAD}"),
    "metadata refilled": (SPARSE, "overwrites shared memory that tcgen05.cp may still be reading"),
    "metadata stored over": (SPARSE, "tcgen05.st touches tensor memory that tcgen05."),
    "odd column": (SPARSE, "sp_meta is in column 97; it begins in an even one"),
    "d over metadata": (SPARSE, "d and sp_meta overlap in tensor memory: d has 64 columns"),
    "another thread, no before": (SPARSE, f"tcgen05.mma.sp touches tensor memory that tcgen05.cp {UNWRITTEN}"),
    "another thread, no after": (SPARSE, f"tcgen05.mma.sp touches tensor memory that tcgen05.cp {UNWRITTEN}"),
    "given back": (SPARSE, "tensor memory is given back that tcgen05."),
    "no barrier": (SPARSE, "race: tcgen05.cp reads"),
    "A never stored": (STORED, "a value is uninitialised"),
    "A of one warp": (STORED, "a value is uninitialised"),
    "no wait::st": (STORED, f"tcgen05.mma touches tensor memory that tcgen05.st {UNWRITTEN}"),
    "no meeting": (STORED, f"tcgen05.mma touches tensor memory that tcgen05.st {UNWRITTEN}"),
    "A stored over": (STORED, f"tcgen05.st touches tensor memory that tcgen05.mma {UNREAD}"),
    "A copied behind the product": (COPIED, f"tcgen05.cp touches tensor memory that tcgen05.mma {UNREAD}"),
    "another lane": (STORED, "d is in lane 32; with M 128 it is 0"),
    "d over a": (STORED, "d and a overlap in tensor memory: d has 64 columns"),
    "beyond the columns": (STORED, "tensor memory that is not allocated"),
    "one bank": (Kept(ws=64, through="stored"), "a value is uninitialised"),
    "B refilled": (Kept(ws=64), "overwrites shared memory that tcgen05.mma.ws may still be reading"),
    "no wait": (Kept(ws=32), f"tcgen05.ld touches tensor memory that tcgen05.mma.ws {UNWRITTEN}"),
    "no commit": (Kept(ws=128), "deadlock: no thread can go on"),
    "commit before the product": (Kept(ws=128), ""),
    "D from nowhere": (Kept(ws=32), "a value is uninitialised"),
    "no wait::ld": (Kept(ws=64), "word is used while tcgen05.ld may not have filled it"),
    "no proxy fence": (Kept(collected=True), "tcgen05.mma reads A, stored by warp 0 without a proxy fence"),
}
"""The kernel in which a step is wrong, and what is told."""
SAME = {
    "A copied by another thread, no before": (COPIED, "another thread, no before"),
    "A copied by another thread, no after": (COPIED, "another thread, no after"),
    "D of a sparse product not waited for": (SPARSE, "no wait"),
    "sparse A given back": (Kept(sparse=True, through="stored"), "given back"),
}
"""The same mistakes in other kernels, which are told, too."""


# What a collector holds changes


def changed(how: str, *, again: bool = False) -> Any:
    """A product fills a collector; when it is over A changes, and a product uses the collector, or fills it ``again``.

    how: "shared", "tmem" (A's memory), or "b1" (B, whose columns are kept). D is computed anew by the second product.
    """
    ws = how == "b1"
    buffer = "b1" if ws else "a"
    second = f"{buffer}::{'fill' if again else 'lastuse'}"

    @T.prim_func
    def multiply(
        a: T.Buffer((128, 16), "bfloat16"), b: T.Buffer((64, 16), "bfloat16"), c: T.Buffer((128, 64), "float32")
    ):
        T.cta_id([1])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((128, 16), "bfloat16", layout=mma_shared_layout("bfloat16", 1, (128, 16)), align=1024)
        B = T.alloc_shared((64, 16), "bfloat16", layout=mma_shared_layout("bfloat16", 1, (64, 16)), align=1024)
        addr, done, word = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64"), T.alloc_local((8,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp, 128)
        D = T.decl_buffer((128, 64), "float32", scope="tmem", allocated_addr=addr[0],
                          layout=TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)]))  # fmt: skip
        P = T.decl_buffer((128, 16), "bfloat16", scope="tmem", allocated_addr=addr[0] + 64,
                          layout=TileLayout(S[(128, 16) : (1 @ TLane, 1 @ TCol)]))  # fmt: skip
        Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        for turn in T.unroll(2):
            if turn == 1 and how == "shared":
                A[tid, 0] = T.cast(7.0, "bfloat16")
            if turn == 1 and how == "b1" and tid < 64:
                B[tid, 0] = T.cast(7.0, "bfloat16")
            if how == "tmem":
                for j in range(8):
                    word[j] = T.uint32(0x3F803F80) if turn == 0 else T.uint32(0x40004000)
                T.ptx.tcgen05.st(addr[0] + 64, word, shape="32x32b", num=8, row=warp * 32)
                T.ptx.tcgen05.wait.st()
            T.ptx.fence.proxy_async("shared::cta")
            meet()
            if tid == 0:
                left = P if how == "tmem" else A
                if turn == 0:
                    Tx.gemm_async(D, left, B, ws=ws, collector=f"{buffer}::fill")
                else:
                    Tx.gemm_async(D, left, B, ws=ws, collector=second)
                T.ptx.tcgen05.commit(done.ptr_to([0]))
            T.ptx.mbarrier.try_wait(done.ptr_to([0]), turn)
            T.ptx.tcgen05.fence.after_thread_sync()
            if turn == 0:
                meet()
        for j in range(64):
            T.ptx.tcgen05.ld(addr[0] + j, word[0], shape="32x32b", num=1, row=warp * 32)
            T.ptx.tcgen05.wait.ld()
            c[tid, j] = T.reinterpret("float32", word[0])
        give_back(addr, warp, 128)

    return multiply
