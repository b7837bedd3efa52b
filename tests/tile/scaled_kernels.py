"""Products with scales of blocks by `gemm_async`: kernels of one CTA or a pair, inputs and exact results."""

# ruff: noqa: C901, PLR0915  # kernels with a branch for each case, which Python takes while it parses
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sim.tmem_kernels import give_back, meet, take
from tilewright import T, Tx
from tilewright.layout import (
    S,
    SwizzleLayout,
    TCol,
    TileLayout,
    TLane,
    mma_shared_layout,
    sf_smem_layout,
    sf_tmem_layout,
)

Array = NDArray[Any]
E4M3, E5M2, E2M1, UE8M0 = "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float8_e8m0fnu"


def in_units(codes: Array, bits: int, nbytes: int = 16) -> Array:
    """Each 16 codes of a row at the low end of so many bytes."""
    words = (sum(int(code) << bits * place for place, code in enumerate(unit)) for unit in codes.reshape(-1, 16))
    octets = b"".join(word.to_bytes(nbytes, "little") for word in words)
    return np.frombuffer(octets, np.uint8).reshape(len(codes), -1).copy()


@dataclass(frozen=True)
class ScaledCase:
    """A product of (m, k) by (n, k) with a scale for each ``block`` along K, 0 for none.

    padded: 4-bit elements lie 16 to a unit.
    """

    m: int
    n: int
    k: int
    a: str = E4M3
    b: str = E4M3
    sf: str = UE8M0
    block: int = 32
    padded: bool = False
    accum: bool = False

    @property
    def count(self) -> int:
        return self.k // (self.block or 32)

    @property
    def per_mma(self) -> int:
        """Scales of a row that an instruction takes."""
        return (64 if self.a == self.b == E2M1 and not self.padded else 32) // (self.block or 32)

    def layout(self, kind: str, rows: int) -> Any:
        """Of A or B in shared memory."""
        if kind == E2M1 and self.padded:
            tile = TileLayout(S[(rows, self.k // 16, 16) : (2 * self.k, 32, 1)])
            mode = {32: 1, 64: 2, 128: 3}[self.k]
            return T.ComposeLayout(SwizzleLayout(5, mode, 3), tile)
        row_bits = self.k * {E2M1: 4, "bfloat16": 16}.get(kind, 8)
        return mma_shared_layout(kind, min(3, (row_bits // 128).bit_length() - 1), (rows, self.k))

    def inputs(self, seed: int = 0) -> tuple[Array, Array, Array, Array, Array]:
        """A, B, scales of both, C."""
        rng = np.random.default_rng(seed)
        a, b = (rng.integers(-2, 3, (rows, self.k)).astype(kind) for rows, kind in ((self.m, self.a), (self.n, self.b)))
        scales = np.array([0.25, 0.5, 1, 2, 4]) if self.sf == UE8M0 else np.array([0.5, 1, 1.5, 2, 3])
        sa, sb = (rng.choice(scales, (rows, self.count)).astype(self.sf) for rows in (self.m, self.n))
        return a, b, sa, sb, rng.integers(-4, 5, (self.m, self.n)).astype(np.float32)

    def wanted(self, a: Array, b: Array, sa: Array, sb: Array, c: Array) -> Array:
        """C afterwards: exact, as all numbers have few bits."""
        left, right = a.astype(float), b.astype(float)
        if self.block:
            left, right = left * sa.astype(float).repeat(self.block, 1), right * sb.astype(float).repeat(self.block, 1)
        return np.asarray(left @ right.T + (c if self.accum else 0), np.float32)


def scaled(case: ScaledCase) -> Any:
    """C = (A SA) (B SB).T, or C + that, of one CTA of four warps."""
    layouts = case.layout(case.a, case.m), case.layout(case.b, case.n)
    sfb_rows = -(-case.n // 128) * 128
    sf_width = 4 * -(-case.count // 4)
    scale_columns = (case.m // 32 + sfb_rows // 32) * sf_width // 4
    width = case.n * (case.m // 128)
    columns = 1 << (width + scale_columns - 1).bit_length()

    @T.prim_func
    def product(
        a: T.Buffer((case.m, case.k), case.a), b: T.Buffer((case.n, case.k), case.b),
        sa: T.Buffer((case.m, case.count), case.sf), sb: T.Buffer((case.n, case.count), case.sf),
        c: T.Buffer((case.m, case.n), "float32"),
    ):  # fmt: skip
        T.cta_id([1])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((case.m, case.k), case.a, layout=layouts[0], align=1024)
        B = T.alloc_shared((case.n, case.k), case.b, layout=layouts[1], align=1024)
        SA = T.alloc_shared((case.m, sf_width), case.sf, layout=sf_smem_layout(case.m, sf_width), align=128)
        SB = T.alloc_shared((sfb_rows, sf_width), case.sf, layout=sf_smem_layout(sfb_rows, sf_width), align=128)
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        word = T.alloc_local((32,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        Tx.cta.fill(SA, 1.0)
        Tx.cta.fill(SB, 1.0)
        T.cuda.cta_sync()
        Tx.cta.copy(SA[:, 0 : case.count], sa)
        Tx.cta.copy(SB[0 : case.n, 0 : case.count], sb)
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp, columns)
        D = T.decl_buffer(
            (case.m, case.n),
            "float32",
            scope="tmem",
            allocated_addr=addr[0],
            layout=TileLayout(S[(case.m // 128, 128, case.n) : (case.n @ TCol, 1 @ TLane, 1 @ TCol)]),
        )
        SFA = T.decl_buffer(
            (case.m, sf_width),
            case.sf,
            scope="tmem",
            allocated_addr=addr[0] + width,
            layout=sf_tmem_layout(case.m, sf_width, case.per_mma),
        )
        SFB = T.decl_buffer(
            (sfb_rows, sf_width),
            case.sf,
            scope="tmem",
            allocated_addr=addr[0] + width + case.m // 32 * sf_width // 4,
            layout=sf_tmem_layout(sfb_rows, sf_width, case.per_mma),
        )
        if case.accum:
            for j in range(case.n):
                word[0] = T.reinterpret("uint32", c[tid, j])
                T.ptx.tcgen05.st(addr[0] + j, word[0], shape="32x32b", num=1, row=warp * 32)
        T.ptx.tcgen05.wait.st()
        meet()
        if tid == 0:
            Tx.copy_async(SFA, SA)
            Tx.copy_async(SFB, SB)
            Tx.gemm_async(D, A, B, case.accum, SFA=SFA[:, 0 : case.count], SFB=SFB[0 : case.n, 0 : case.count])
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        for i in range(case.m // 128):
            for j in range(case.n):
                T.ptx.tcgen05.ld(addr[0] + (i * case.n + j), word[0], shape="32x32b", num=1, row=warp * 32)
                T.ptx.tcgen05.wait.ld()
                c[i * 128 + tid, j] = T.reinterpret("float32", word[0])
        give_back(addr, warp, columns)

    return product


def of_a_pair(rows: int, case: ScaledCase, wrong: str = "") -> Any:
    """The same by two CTAs, each with ``rows`` of A's rows and half of B's columns; each has all scales of B.

    wrong: "meeting", without which the other CTA may not be ready; "multicast", so that the other is told nothing;
    "both issue"; "alone": the last meeting is left out; "peer refills" its A too early; "peer fence": it fences
    nothing; "peer scales": it stores none; "early" gives tensor memory back before the pair has met.
    """
    half, n = case.n // 2, case.n
    layouts = case.layout(case.a, rows), case.layout(case.b, half)
    d_layout = (
        S[(128, n) : (1 @ TLane, 1 @ TCol)] if rows == 128 else S[(64, 2, half) : (1 @ TLane, 64 @ TLane, 1 @ TCol)]
    )
    in_quarters = sf_tmem_layout(128, 4, max(1, case.per_mma))
    with_scales = case.block > 0

    @T.prim_func
    def product(
        a: T.Buffer((2 * rows, case.k), case.a), b: T.Buffer((n, case.k), case.b),
        sa: T.Buffer((2 * rows, 4), case.sf), sb: T.Buffer((n, 4), case.sf),
        c: T.Buffer((2 * rows, n), "float32"),
    ):  # fmt: skip
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((rows, case.k), case.a, layout=layouts[0], align=1024)
        B = T.alloc_shared((half, case.k), case.b, layout=layouts[1], align=1024)
        SA = T.alloc_shared((128, 4), case.sf, layout=sf_smem_layout(128, 4), align=128)
        SB = T.alloc_shared((128, 4), case.sf, layout=sf_smem_layout(128, 4), align=128)
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        word = T.alloc_local((1,), "uint32")
        if warp == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=256, cta_group=2)
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a[rank * rows : rank * rows + rows, :])
        Tx.cta.copy(B, b[rank * half : rank * half + half, :])
        if wrong != "peer scales":
            Tx.cta.fill(SA, 1.0)
            Tx.cta.fill(SB, 1.0)
        T.cuda.cta_sync()
        if wrong != "peer scales" or rank == 0:
            Tx.cta.copy(SA[0:rows, :], sa[rank * rows : rank * rows + rows, :])
            Tx.cta.copy(SB[0:n, :], sb)
        if wrong != "peer fence" or rank == 0:
            T.ptx.fence.proxy_async("shared::cta")
        T.ptx.tcgen05.fence.before_thread_sync()
        if wrong == "meeting":
            T.cuda.cta_sync()
        else:
            T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        D = T.decl_buffer((rows, n), "float32", scope="tmem", allocated_addr=addr[0], layout=TileLayout(d_layout))
        SFA = T.decl_buffer((128, 4), case.sf, scope="tmem", allocated_addr=addr[0] + 128, layout=in_quarters)
        SFB = T.decl_buffer((128, 4), case.sf, scope="tmem", allocated_addr=addr[0] + 136, layout=in_quarters)
        if (rank == 0 or wrong == "both issue") and tid == 0:
            if with_scales:
                Tx.copy_async(SFA, SA, cta_group=2)
                Tx.copy_async(SFB, SB, cta_group=2)
                Tx.gemm_async(D, A, B, SFA=SFA[0:rows, :], SFB=SFB[0:n, :], cta_group=2)
            else:
                Tx.gemm_async(D, A, B, cta_group=2)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=2, cta_mask=1 if wrong == "multicast" else 3)
        if wrong == "peer refills" and rank == 1 and tid == 0:
            A[0, 0] = T.cast(1.0, case.a)
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        if wrong == "early" and warp == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=256, cta_group=2)
        for j in range(n if rows == 128 else half):
            T.ptx.tcgen05.ld(addr[0] + j, word[0], shape="32x32b", num=1, row=warp * 32)
            T.ptx.tcgen05.wait.ld()
            if rows == 128:
                c[rank * rows + tid, j] = T.reinterpret("float32", word[0])
            else:
                c[rank * rows + tid % 64, tid // 64 * half + j] = T.reinterpret("float32", word[0])
        T.ptx.tcgen05.fence.before_thread_sync()
        if wrong != "alone":
            T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if wrong != "early" and warp == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=256, cta_group=2)

    return product
