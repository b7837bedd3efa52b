"""Products with metadata, kept columns and collectors by `gemm_async`: kernels, inputs and exact results."""

# ruff: noqa: C901, PLR0915  # kernels with a branch for each case, which Python takes while it parses
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sim.tmem_kernels import give_back, meet, take
from tilewright import T, Tx
from tilewright.layout import (
    R,
    S,
    TCol,
    TileLayout,
    TLane,
    mma_shared_layout,
    sf_smem_layout,
    sf_tmem_layout,
    sp_meta_smem_layout,
    sp_meta_tmem_layout,
)

Array = NDArray[Any]
BITS = {"tf32": 32, "bfloat16": 16, "float16": 16, "float4_e2m1fn": 4}


def compressed(rng: np.random.Generator, rows: int, k: int, chunk: int, low: int = 1) -> tuple[Array, Array, Array]:
    """A matrix (rows, k) of which half is zero, the other half (rows, k/2), and which it is, as bytes of two codes.

    Of each chunk of 2 along K one is kept (0b0100 the first, 0b1110 the second); of 4 two, whose places are the two
    halves of a code, the lower one first; of 8 two pairs. Source: PTX ISA, "Sparse matrices".
    """
    full, stored = np.zeros((rows, k)), np.zeros((rows, k // 2))
    codes = np.zeros((rows, k // chunk), np.uint8)
    for row in range(rows):
        for number in range(k // chunk):
            if chunk == 2:
                first = int(rng.integers(2))
                codes[row, number], kept = (0b1110 if first else 0b0100), [first]
            else:
                one, other = sorted(rng.choice(4, 2, replace=False).tolist())
                codes[row, number] = one | other << 2
                kept = [one, other] if chunk == 4 else [2 * one, 2 * one + 1, 2 * other, 2 * other + 1]
            for place, at in enumerate(kept):
                value = int(rng.integers(low, 4))
                full[row, chunk * number + at] = stored[row, chunk // 2 * number + place] = value
    return full, stored, codes[:, ::2] | codes[:, 1::2] << np.uint8(4)


@dataclass(frozen=True)
class SparseCase:
    """D = A B.T of (m, k) by (n, k). through: A goes to tensor memory first. stored: metadata come there by stores of
    warps, not by a copy. block: elements of the stored A that share a scale, 0 for none.
    """

    kind: str = "bfloat16"
    m: int = 128
    n: int = 32
    k: int = 128
    sparse: bool = True
    ws: bool = False
    through: bool = False
    stored: bool = False
    accum: bool = False
    block: int = 0
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def chunk(self) -> int:
        return {32: 2, 4: 8}.get(self.bits, 4)

    @property
    def bits(self) -> int:
        return BITS.get(self.kind, 8)

    @property
    def kept(self) -> int:
        """Elements of a row of A."""
        return self.k // 2 if self.sparse else self.k

    @property
    def parts(self) -> int:
        """Parts of N that have lanes of their own."""
        return 128 // self.m if self.ws else 1

    @property
    def nbytes(self) -> int:
        """Of metadata for a row."""
        return self.k // self.chunk // 2

    def layout(self, rows: int, k: int) -> Any:
        return mma_shared_layout(self.kind, min(3, (k * self.bits // 128).bit_length() - 1), (rows, k))

    def inputs(self) -> tuple[Array, ...]:
        """A as it is stored, B, metadata, scales of A and B, C."""
        rng = np.random.default_rng(1)
        full, a, meta = compressed(rng, self.m, self.k, self.chunk, low=1)
        if not self.sparse:
            a = full
        numpy = "float32" if self.kind == "tf32" else self.kind
        b = rng.integers(0 if self.kind == "uint8" else -2, 3, (self.n, self.k))
        count = max(1, self.kept // (self.block or self.kept))
        sa, sb = (rng.choice([0.5, 1, 2], (rows, count)).astype("float8_e8m0fnu") for rows in (self.m, self.n))
        c = rng.integers(-4, 5, (self.m, self.n)).astype("int32" if "int" in self.kind else "float32")
        return full, a.astype(numpy), b.astype(numpy), meta, sa, sb, c

    def wanted(self, full: Array, b: Array, sa: Array, sb: Array, c: Array) -> Array:
        """C afterwards."""
        left, right = full.astype(float), b.astype(float)
        if self.block:
            span = self.block * (2 if self.sparse else 1)
            left, right = (x * s.astype(float).repeat(span, 1) for x, s in ((left, sa), (right, sb)))
        said = dict(self.keywords)
        sign = -1 if sum(bool(said.get(name)) for name in ("negate", "negateA", "negateB")) % 2 else 1
        return np.asarray(sign * (left @ right.T) + (c / 2.0 ** said.get("scale_input_d", 0) if self.accum else 0))


def multiplied(case: SparseCase) -> Any:
    """C = A B.T, or C + that, of one CTA of four warps."""
    m, n, parts, kept, kind = case.m, case.n, case.parts, case.kept, case.kind
    d = "int32" if "int" in kind else "float32"
    layouts = case.layout(m, kept), case.layout(n, case.k)
    d_layout = TileLayout(S[(m, parts, n // parts) : (1 @ TLane, m @ TLane, 1 @ TCol)])
    in_lanes = TileLayout(S[(m, kept) : (1 @ TLane, 1 @ TCol)])
    in_lanes = in_lanes + R[parts : m @ TLane] if parts > 1 else in_lanes
    width, count = n // parts, max(1, kept // (case.block or kept))
    per_mma = {4: 64, 8: 32}.get(case.bits, 32) // (case.block or 32)
    nbytes = case.nbytes if case.sparse else 16
    keywords = dict(case.keywords)

    @T.prim_func
    def product(
        a: T.Buffer((m, kept), kind), b: T.Buffer((n, case.k), kind), e: T.Buffer((m, case.nbytes), "uint8"),
        sa: T.Buffer((m, count), "float8_e8m0fnu"), sb: T.Buffer((n, count), "float8_e8m0fnu"), c: T.Buffer((m, n), d),
    ):  # fmt: skip
        T.cta_id([1])
        warp, lane, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A = T.alloc_shared((m, kept), kind, layout=layouts[0], align=1024)
        B = T.alloc_shared((n, case.k), kind, layout=layouts[1], align=1024)
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        word = T.alloc_local((32,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        if case.sparse and not case.stored:
            E = T.alloc_shared((m, nbytes), "uint8", layout=sp_meta_smem_layout(m, nbytes, kind), align=128)
            Tx.cta.copy(E, e)
        if case.block:
            SA = T.alloc_shared((128, 4), "float8_e8m0fnu", layout=sf_smem_layout(128, 4), align=128)
            SB = T.alloc_shared((128, 4), "float8_e8m0fnu", layout=sf_smem_layout(128, 4), align=128)
            Tx.cta.fill(SA, 1.0)
            Tx.cta.fill(SB, 1.0)
            T.cuda.cta_sync()
            Tx.cta.copy(SA[:, 0:count], sa)
            Tx.cta.copy(SB[0:n, 0:count], sb)
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp, 256)
        D = T.decl_buffer((m, n), d, scope="tmem", allocated_addr=addr[0], layout=d_layout)
        P = T.decl_buffer((m, kept), kind, scope="tmem", allocated_addr=addr[0] + 128, layout=in_lanes)
        if case.sparse:
            M = T.decl_buffer((m, nbytes), "uint8", scope="tmem", allocated_addr=addr[0] + 192,
                              layout=sp_meta_tmem_layout(m, nbytes, kind))  # fmt: skip
        if case.block:
            FA, FB = [
                T.decl_buffer((128, 4), "float8_e8m0fnu", scope="tmem", allocated_addr=addr[0] + 224 + 8 * at,
                              layout=sf_tmem_layout(128, 4, per_mma)) for at in (0, 1)
            ]  # fmt: skip
        if case.accum:
            for j in range(width):
                word[0] = T.reinterpret("uint32", c[tid % m, tid // m * width + j])
                T.ptx.tcgen05.st(addr[0] + j, word[0], shape="32x32b", num=1, row=warp * 32)
        if case.through:
            for j in range(kept // 2):
                high = T.cast(T.reinterpret("uint16", A[tid % m, 2 * j + 1]), "uint32") << 16
                word[0] = T.cast(T.reinterpret("uint16", A[tid % m, 2 * j]), "uint32") | high
                T.ptx.tcgen05.st(addr[0] + (128 + j), word[0], shape="32x32b", num=1, row=warp * 32)
        if (
            case.stored
        ):  # of 16-bit elements: a lane has two bytes of one row and two of that 8 further, of each product
            row, half = warp * 32 + lane // 16 * 16 + lane % 8, lane // 8 % 2
            for j in range(nbytes // 4):
                low = T.cast(e[row, 4 * j + 2 * half], "uint32") | T.cast(e[row, 4 * j + 2 * half + 1], "uint32") << 8
                far = T.cast(e[row + 8, 4 * j + 2 * half], "uint32")
                word[0] = low | far << 16 | T.cast(e[row + 8, 4 * j + 2 * half + 1], "uint32") << 24
                T.ptx.tcgen05.st(addr[0] + (192 + j), word[0], shape="32x32b", num=1, row=warp * 32)
        T.ptx.tcgen05.wait.st()
        meet()
        if tid == 0:
            if case.sparse and not case.stored:
                Tx.copy_async(M, E)
            if case.block:
                Tx.copy_async(FA, SA)
                Tx.copy_async(FB, SB)
            more = T.meta_var(
                keywords
                | ({"sp_meta": M} if case.sparse else {})
                | ({"SFA": FA[:, 0:count], "SFB": FB[0:n, 0:count]} if case.block else {})
                | ({"ws": True} if case.ws else {})
            )
            Tx.gemm_async(D, P if case.through else A, B, case.accum, **more)
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        for j in range(width):
            T.ptx.tcgen05.ld(addr[0] + j, word[0], shape="32x32b", num=1, row=warp * 32)
            T.ptx.tcgen05.wait.ld()
            c[tid % m, tid // m * width + j] = T.reinterpret(d, word[0])
        give_back(addr, warp, 256)

    return product
