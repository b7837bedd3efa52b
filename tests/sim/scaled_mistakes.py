"""Products with scales, of pairs, with metadata and with collectors, in which one step is left out or done wrong."""

# ruff: noqa: C901, PLR0915  # kernels with a branch for each mistake, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sim.tmem_kernels import give_back, meet, take
from tilewright import T, Tx
from tilewright.layout import S, TCol, TileLayout, TLane, mma_shared_layout, sf_smem_layout, sf_tmem_layout

Array = NDArray[Any]
E4M3, UE8M0 = "float8_e4m3fn", "float8_e8m0fnu"
K, N = 128, 32  # of a tile
IN_QUARTERS = sf_tmem_layout(128, 4, 1)
ROWS = TileLayout(S[(128, 4) : (1 @ TLane, 1 @ TCol)])


def scaled_inputs(turns: int, rows: int = 128) -> tuple[Array, ...]:
    """A, B, their scales, C."""
    rng = np.random.default_rng(turns)
    a, b = (rng.integers(-2, 3, (n, turns * K)).astype(E4M3) for n in (rows, N))
    sa, sb = (rng.choice([0.5, 1, 2], (n, 4 * turns)).astype(UE8M0) for n in (rows, 128))
    return a, b, sa, sb, np.zeros((rows, N), np.float32)


def scaled_wanted(a: Array, b: Array, sa: Array, sb: Array) -> Array:
    left, right = (x.astype(float) * s[: len(x)].astype(float).repeat(32, 1) for x, s in ((a, sa), (b, sb)))
    return np.asarray(left @ right.T, np.float32)


UNCOPIED = "tcgen05.mma.block_scale touches tensor memory that tcgen05.cp may still not have written"
STEPS = {
    "no copy of SFA": "a value is uninitialised",
    "no copy of SFB": "a value is uninitialised",
    "scales after the product": "tcgen05.cp touches tensor memory that tcgen05.mma.block_scale may still not have read",
    "scales of one quarter": "a value is uninitialised",
    "scales never stored": "a value is uninitialised",
    "scales in another lane": "sfb is in lane 32; scales of blocks begin in lane 0",
    "type of scales": "instruction descriptor: sf_dtype is code 0 in bit 23; it may be 1 (float8_e8m0fnu)",
    "scales beyond the columns": "tensor memory that is not allocated",
    "scales given back": "tensor memory is given back that tcgen05.cp may still not have written",
    "scales overwritten": "tcgen05.cp touches tensor memory that tcgen05.",
    "scales stored over": "tcgen05.st touches tensor memory that tcgen05.",
    "scales by another thread": UNCOPIED,
    "scales by another thread, no before": UNCOPIED,
    "scales by another thread, no after": UNCOPIED,
    "scales by st without a wait": "tcgen05.mma.block_scale touches tensor memory that tcgen05.st may still not have",
    "scales refilled": "overwrites shared memory that tcgen05.cp may still be reading",
    "A refilled": "overwrites shared memory that tcgen05.mma.block_scale may still be reading",
    "no barrier": "race: tcgen05.cp reads",
    "no commit": "deadlock: no thread can go on",
    "no wait": "tcgen05.ld touches tensor memory that tcgen05.mma.block_scale may still not have written",
    "commit before the product": "overwrites shared memory that tcgen05.mma.block_scale may still be reading",
    "dense after scaled": "tcgen05.mma touches tensor memory that tcgen05.mma.block_scale may still not have written",
    "accumulator over scales": "d and sfa overlap in tensor memory: d has 32 columns",
    "D from nowhere": "a value is uninitialised",
    "given back early": "tensor memory that is not allocated",
    "never given back": "the CTA ends with tensor memory that it has not given back",
    "D used before its wait": "words is used while tcgen05.ld may not have filled it",
}
"""What a step that is missing or wrong is told as; without words: by some error."""
WARNED = {
    "no after fence": "tcgen05.ld touches tensor memory that the tcgen05.mma.block_scale at",
}


def scaled_steps(wrong: str = "", turns: int = 2, how: str = "") -> Any:
    """C = (A SA) (B SB).T, a tile of K after the other in the same memory; one thread issues.

    how: "other thread": another one copies the scales; "stored": four warps store them; "twice": scales have columns of
    their own in each turn.
    """
    other = how == "other thread" or wrong.startswith("scales by another thread")
    stored = how == "stored" or wrong in ("scales by st without a wait", "scales of one quarter")
    fences = {"scales by another thread": (False, False), "scales by another thread, no before": (False, True),
              "scales by another thread, no after": (True, False)}.get(wrong, (True, True))  # fmt: skip

    @T.prim_func
    def multiply(
        a: T.Buffer((128, turns * K), E4M3), b: T.Buffer((N, turns * K), E4M3),
        sa: T.Buffer((128, 4 * turns), UE8M0), sb: T.Buffer((128, 4 * turns), UE8M0), c: T.Buffer((128, N), "float32"),
    ):  # fmt: skip
        T.cta_id([1])
        warp, lane, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A = T.alloc_shared((128, K), E4M3, layout=mma_shared_layout(E4M3, 3, (128, K)))
        B = T.alloc_shared((N, K), E4M3, layout=mma_shared_layout(E4M3, 3, (N, K)))
        SA = T.alloc_shared((128, 4), UE8M0, layout=sf_smem_layout(128, 4), align=128)
        SB = T.alloc_shared((128, 4), UE8M0, layout=sf_smem_layout(128, 4), align=128)
        addr, done, copied = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64"), T.alloc_shared([1], "uint64")
        descs, word = T.alloc_local((2,), "uint64"), T.alloc_local((1,), "uint32")
        words = T.alloc_local((N,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
            T.ptx.mbarrier.init(copied.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp, 64)
        base = 30 if wrong == "accumulator over scales" else 62 if wrong == "scales beyond the columns" else 32
        for turn in T.unroll(turns):
            first = base + (8 * turn if how == "twice" else 0)
            FA = T.decl_buffer((128, 4), UE8M0, scope="tmem", allocated_addr=addr[0] + first, layout=IN_QUARTERS)
            FB = T.decl_buffer((128, 4), UE8M0, scope="tmem", allocated_addr=addr[0] + first + 4, layout=IN_QUARTERS)
            Tx.cta.copy(A, a[:, turn * K : turn * K + K])
            Tx.cta.copy(B, b[:, turn * K : turn * K + K])
            if wrong != "scales never stored":
                Tx.cta.copy(SA, sa[:, 4 * turn : 4 * turn + 4])
            Tx.cta.copy(SB, sb[:, 4 * turn : 4 * turn + 4])
            if wrong != "no proxy fence":
                T.ptx.fence.proxy_async("shared::cta")
            if wrong != "no barrier":
                T.cuda.cta_sync()
            if stored:
                for row in T.unroll(4):
                    words[row] = 0
                    words[4 + row] = 0
                    for k in T.unroll(4):
                        words[row] = (
                            words[row] | T.cast(T.reinterpret("uint8", SA[32 * row + lane, k]), "uint32") << 8 * k
                        )
                        words[4 + row] = (
                            words[4 + row] | T.cast(T.reinterpret("uint8", SB[32 * row + lane, k]), "uint32") << 8 * k
                        )
                if wrong != "scales of one quarter" or warp == 0:
                    for row in T.unroll(8):
                        T.ptx.tcgen05.st(addr[0] + first + row, words[row], shape="32x32b", num=1, row=warp * 32)
                if wrong != "scales by st without a wait":
                    T.ptx.tcgen05.wait.st()
                meet()
            if other and tid == 32:
                Tx.copy_async(FA, SA)
                Tx.copy_async(FB, SB)
                if fences[0]:
                    T.ptx.tcgen05.fence.before_thread_sync()
                T.ptx.mbarrier.arrive(copied.ptr_to([0]), sem="relaxed", scope="cta")
            if tid == 0:
                if other:
                    T.ptx.mbarrier.try_wait(copied.ptr_to([0]), turn % 2, sem="relaxed", scope="cta")
                    if fences[1]:
                        T.ptx.tcgen05.fence.after_thread_sync()
                elif not stored and wrong != "scales after the product":
                    if wrong != "no copy of SFA":
                        Tx.copy_async(FA, SA)
                    if wrong != "no copy of SFB":
                        Tx.copy_async(FB, SB)
                    if wrong == "scales refilled" and turn == 0:
                        SA[0, 0] = T.cast(1.0, UE8M0)
                if wrong == "commit before the product":
                    T.ptx.tcgen05.commit(done.ptr_to([0]))
                T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([0]), A.ptr_to([0, 0]), 1, 64, 3)
                T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([1]), B.ptr_to([0, 0]), 1, 64, 3)
                for k in (0, 1, 2, 3):
                    T.ptx.tcgen05.encode_instr_descriptor_block_scaled(
                        word.ptr_to([0]), d_dtype="float32", a_dtype=E4M3, b_dtype=E4M3, sfa_dtype=UE8M0,
                        sfb_dtype=UE8M0, M=128, N=N, K=32, sfa_id=k, sfb_id=k,
                    )  # fmt: skip
                    if wrong == "type of scales":
                        word[0] = word[0] & T.uint32(0xFF7FFFFF)
                    scaled_b = (
                        addr[0] + first + 4 + (T.uint32(32 << 16) if wrong == "scales in another lane" else T.uint32(0))
                    )
                    T.ptx.tcgen05.mma.block_scale(
                        addr[0], T.smem_desc_add_16B_offset(descs[0], 2 * k),
                        T.smem_desc_add_16B_offset(descs[1], 2 * k), addr[0] + first, scaled_b, word[0],
                        d_dtype="float32", a_dtype=E4M3, b_dtype=E4M3, sfa_dtype=UE8M0, sfb_dtype=UE8M0,
                        enable_input_d=turn + k > 0 or wrong == "D from nowhere",
                    )  # fmt: skip
                if wrong == "dense after scaled" and turn == 1:
                    T.ptx.tcgen05.encode_instr_descriptor(
                        word.ptr_to([0]), d_dtype="float32", a_dtype=E4M3, b_dtype=E4M3, M=128, N=N, K=32
                    )
                    T.ptx.tcgen05.mma(
                        addr[0], descs[0], descs[1], word[0], d_dtype="float32", a_dtype=E4M3, b_dtype=E4M3
                    )
                if wrong in ("scales after the product", "scales overwritten"):
                    Tx.copy_async(FA, SA)
                if wrong == "A refilled":
                    A[0, 0] = T.cast(1.0, E4M3)
                if wrong not in ("no commit", "commit before the product"):
                    T.ptx.tcgen05.commit(done.ptr_to([0]))
            if wrong == "scales given back" and turn == 0 and tid < 32:
                T.ptx.tcgen05.dealloc(addr[0], n_cols=64)
            if wrong == "scales stored over" and warp == 0:
                T.ptx.tcgen05.st(addr[0] + first, words[0], shape="32x32b", num=1, row=0)
            if wrong != "no wait" or turn == 0:
                T.ptx.mbarrier.try_wait(done.ptr_to([0]), turn % 2)
            if turn < turns - 1:
                T.ptx.tcgen05.fence.after_thread_sync()
        if wrong != "no after fence":
            T.ptx.tcgen05.fence.after_thread_sync()
        if wrong == "given back early":
            T.cuda.cta_sync()
            if warp == 0:
                T.ptx.tcgen05.dealloc(addr[0], n_cols=64)
            T.cuda.cta_sync()
        T.ptx.tcgen05.ld(addr[0], words, shape="32x32b", num=N, row=warp * 32)
        if wrong != "D used before its wait":
            T.ptx.tcgen05.wait.ld()
        for j in T.unroll(N):
            c[warp * 32 + lane, j] = T.reinterpret("float32", words[j])
        if wrong == "never given back":
            meet()
        elif wrong != "given back early":
            give_back(addr, warp, 64)

    return multiply


# Collectors

BF16 = {"d_dtype": "float32", "a_dtype": "bfloat16", "b_dtype": "bfloat16"}
COLLECTED = {
    "use of nothing": ("", ("0 a::use",), "collector::a::use of a buffer that holds nothing"),
    "use of another matrix": ("", ("0 a::fill", "1 a::use"), "collector::a::use of a buffer that holds another matrix"),
    "use after lastuse": ("", ("0 a::fill", "0 a::lastuse", "0 a::use"), "of a buffer that holds nothing"),
    "use after discard": ("", ("0 a::fill", "0 a::discard", "0 a::use"), "of a buffer that holds nothing"),
    "use after a product without a word": ("", ("0 a::fill", "1", "0 a::use"), "of a buffer that holds nothing"),
    "lastuse of nothing": ("", ("0 a::lastuse",), "collector::a::lastuse of a buffer that holds nothing"),
    "B's buffer that nobody filled": (
        "ws",
        ("0 b0::fill", "0 b1::use"),
        "collector::b1::use of a buffer that holds noth",
    ),
    "B's buffer filled anew": ("ws", ("0 b2::fill", "1 b2::fill", "0 b2::lastuse"), "holds another matrix"),
    "kept columns used once too often": ("ws", ("0 b3::fill", "0 b3::lastuse", "0 b3::use"), "holds nothing"),
}
"""The matrix and the collector of each product, and what is told."""
COLLECTED_RIGHT = {
    "filled and used": ("", ("0 a::fill", "0 a::use", "0 a::lastuse")),
    "filled anew": ("", ("0 a::fill", "0 a::lastuse", "1 a::fill", "1 a::use")),
    "two matrices without words": ("", ("0", "1", "0")),
    "four buffers": ("ws", ("0 b0::fill", "1 b1::fill", "0 b0::use", "1 b1::lastuse", "0 b0::lastuse")),
    "discarded": ("ws", ("0 b3::discard", "1 b3::fill", "1 b3::use")),
}


def collected(family: str, steps: tuple[str, ...], changed: str = "") -> Any:
    """D = the sum of the products of each step's matrix of A (of B, where it is kept) by the other operand.

    changed: "while used", where A is stored to before the products that use it are over.
    """
    kept = family == "ws"
    mma = T.ptx.tcgen05.mma.ws if kept else T.ptx.tcgen05.mma
    n = 64 if kept else 32
    taken = [(int(step[0]), step[2:]) for step in steps]

    @T.prim_func
    def multiply(
        a: T.Buffer((2, 128, 64), "bfloat16"), b: T.Buffer((2, n, 64), "bfloat16"), c: T.Buffer((128, n), "float32")
    ):
        T.cta_id([1])
        warp, lane, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A = T.alloc_shared((2, 128, 64), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (2, 128, 64)))
        B = T.alloc_shared((2, n, 64), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (2, n, 64)))
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        descs, word = T.alloc_local((4,), "uint64"), T.alloc_local((1,), "uint32")
        words = T.alloc_local((n,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp, 64)
        if tid == 0:
            for number in (0, 1):
                T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([number]), A.ptr_to([number, 0, 0]), 1, 64, 3)
                T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([2 + number]), B.ptr_to([number, 0, 0]), 1, 64, 3)
            T.ptx.tcgen05.encode_instr_descriptor(word.ptr_to([0]), M=128, N=n, K=16, ws=kept, **BF16)
            for place, (number, collector) in enumerate(taken):
                mma(addr[0], descs[0 if kept else number], descs[2 + number if kept else 2], word[0], **BF16,
                    collector=collector, enable_input_d=place > 0)  # fmt: skip
            if changed == "while used":
                A[0, 0, 0] = T.cast(1.0, "bfloat16")
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(addr[0], words, shape="32x32b", num=n, row=warp * 32)
        T.ptx.tcgen05.wait.ld()
        for j in T.unroll(n):
            c[warp * 32 + lane, j] = T.reinterpret("float32", words[j])
        give_back(addr, warp, 64)

    return multiply


def collected_inputs(family: str, steps: tuple[str, ...]) -> tuple[Array, Array, Array, Array]:
    """A, B, C, and C as it should be."""
    rng = np.random.default_rng(len(steps))
    n = 64 if family == "ws" else 32
    a, b = (rng.integers(-2, 3, (2, rows, 64)).astype(np.float32) for rows in (128, n))
    numbers = [int(step[0]) for step in steps]
    pairs = [(a[0], b[k]) if family == "ws" else (a[k], b[0]) for k in numbers]
    wanted = sum(x[:, :16] @ y[:, :16].T for x, y in pairs)
    return a.astype("bfloat16"), b.astype("bfloat16"), np.zeros((128, n), np.float32), np.asarray(wanted, np.float32)


# Sparse matrices

SPARSE = {
    "metadata never stored": "a value is uninitialised",
    "metadata of half the lanes": "a value is uninitialised",
    "metadata without a wait": "tcgen05.mma.sp touches tensor memory that tcgen05.st may still not have written",
    "metadata without a meeting": "tcgen05.mma.sp touches tensor memory that tcgen05.st may still not have written",
    "metadata overwritten": "tcgen05.st touches tensor memory that tcgen05.mma.sp may still not have read",
    "metadata in an odd column": "sp_meta is in column 41; it begins in an even one",
    "a dense descriptor": "sparse is clear, and the instruction has metadata",
    "accumulator over metadata": "d and sp_meta overlap",
    "no wait": "tcgen05.ld touches tensor memory that tcgen05.mma.sp may still not have written",
}


def sparse(wrong: str = "") -> Any:
    """C = A * B.T of a sparse A with 32 elements in a row, of which every other one is stored: codes 0b1000."""
    is_sparse = wrong != "a dense descriptor"
    k = 32 if is_sparse else 16

    @T.prim_func
    def multiply(
        a: T.Buffer((128, 16), "bfloat16"), b: T.Buffer((32, 32), "bfloat16"), c: T.Buffer((128, 32), "float32")
    ):
        T.cta_id([1])
        warp, lane, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A = T.alloc_shared((128, 16), "bfloat16", layout=mma_shared_layout("bfloat16", 1, (128, 16)))
        B = T.alloc_shared((32, 32), "bfloat16", layout=mma_shared_layout("bfloat16", 2, (32, 32)))
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        descs, word = T.alloc_local((2,), "uint64"), T.alloc_local((1,), "uint32")
        words, codes = T.alloc_local((32,), "uint32"), T.alloc_local((1,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp, 64)
        meta = 30 if wrong == "accumulator over metadata" else 41 if wrong == "metadata in an odd column" else 40
        codes[0] = T.uint32(0x88888888)
        if wrong != "metadata never stored" and (wrong != "metadata of half the lanes" or warp < 2):
            for column in T.unroll(2):
                T.ptx.tcgen05.st(addr[0] + 40 + column, codes[0], shape="32x32b", num=1, row=warp * 32)
        if wrong != "metadata without a wait":
            T.ptx.tcgen05.wait.st()
        if wrong != "metadata without a meeting":
            meet()
        if tid == 0:
            T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([0]), A.ptr_to([0, 0]), 1, 16, 1)
            T.ptx.tcgen05.encode_matrix_descriptor(descs.ptr_to([1]), B.ptr_to([0, 0]), 1, 32, 2)
            T.ptx.tcgen05.encode_instr_descriptor(word.ptr_to([0]), M=128, N=32, K=k, is_sparse=is_sparse, **BF16)
            T.ptx.tcgen05.mma.sp(addr[0], descs[0], descs[1], addr[0] + meta, word[0], **BF16, enable_input_d=False)
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        if wrong == "metadata overwritten":
            T.ptx.tcgen05.st(addr[0] + 40, codes[0], shape="32x32b", num=1, row=warp * 32)
            T.ptx.tcgen05.wait.st()
        if wrong != "no wait":
            T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(addr[0], words, shape="32x32b", num=32, row=warp * 32)
        T.ptx.tcgen05.wait.ld()
        for j in T.unroll(32):
            c[warp * 32 + lane, j] = T.reinterpret("float32", words[j])
        give_back(addr, warp, 64)

    return multiply


def sparse_inputs() -> tuple[Array, Array, Array, Array]:
    """A, B, C, and C as it should be."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((128, 16), (32, 32)))
    full = np.zeros((128, 8, 4), np.float32)
    full[:, :, [0, 2]] = a.reshape(128, 8, 2)
    return a.astype("bfloat16"), b.astype("bfloat16"), np.zeros((128, 32), np.float32), full.reshape(128, 32) @ b.T
