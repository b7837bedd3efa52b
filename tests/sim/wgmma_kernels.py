"""A product of one warpgroup, step by step, in which a step can be left out, moved or done wrong."""

from __future__ import annotations

from typing import Any

from tilewright import T, Tx
from tilewright.layout import SwizzleLayout, mma_shared_layout, wgmma_fragment

TILE = mma_shared_layout("bfloat16", 3, (64, 64))
SHIFTED = SwizzleLayout(3, 2, 3).over((64, 64))  # the pattern of 64 bytes on rows of 128
A_FRAGMENT = wgmma_fragment(64, 64, "A", "bfloat16")


def product(*wrong: str, turns: int = 2, in_registers: bool = False, by_cp_async: bool = False) -> Any:  # noqa: C901, PLR0915  # all mistakes
    """C = sum of A[:, turn] * B[:, turn] over the turns; every word of ``wrong`` is a mistake."""
    is_right = {step: step not in wrong for step in MISTAKES}
    layout = SHIFTED if "swizzle of the tile" in wrong else TILE
    mode = 2 if "swizzle of the descriptor" in wrong else 3
    stride = 32 if "stride" in wrong else 64
    step_units = 4 if "step" in wrong else 2
    pending = 1 if "wait too short" in wrong else 0

    @T.prim_func
    def multiply(  # noqa: C901, PLR0915  # as above
        a: T.Buffer((64, turns * 64), "bfloat16"),
        b: T.Buffer((64, turns * 64), "bfloat16"),
        c: T.Buffer((64, 64), "float32"),
    ):
        T.cta_id([1])
        tid = T.thread_id([128])
        A = T.alloc_shared((64, 64), "bfloat16", layout=layout)
        B = T.alloc_shared((64, 64), "bfloat16", layout=TILE)
        R = T.alloc_local((64, 64), "bfloat16", layout=A_FRAGMENT)
        D = T.alloc_local((64, 64), "float32", layout=wgmma_fragment(64, 64))
        acc = D.local()
        own = R.local()
        dA = T.alloc_local((1,), "uint64")
        dB = T.alloc_local((1,), "uint64")
        T.ptx.wgmma.encode_matrix_descriptor(dA.ptr_to([0]), A.ptr_to([0, 0]), 1, stride, mode)
        T.ptx.wgmma.encode_matrix_descriptor(dB.ptr_to([0]), B.ptr_to([0, 0]), 1, 64, 3)
        if not is_right["descriptor per thread"]:
            dB[0] = dB[0] + T.cast(tid // 64, "uint64")
        if not is_right["descriptor field"]:
            dB[0] = dB[0] | T.uint64(1 << 40 << 6)
        if not is_right["start beyond"]:
            dB[0] = dB[0] + T.uint64(1 << 13)
        if not is_right["base"]:
            dA[0] = dA[0] + T.uint64(8)
        if not is_right["first fence only"]:
            T.ptx.wgmma.fence()
        for turn in T.unroll(turns):
            if not is_right["proxy fence too early"]:
                T.ptx.fence.proxy_async("shared::cta")
            if by_cp_async:
                Tx.cta.copy_async(A, a[:, turn * 64 : turn * 64 + 64], dispatch="ldgsts")
                Tx.cta.copy_async(B, b[:, turn * 64 : turn * 64 + 64], dispatch="ldgsts")
                T.ptx.cp_async.wait_all()
            else:
                Tx.cta.copy(A, a[:, turn * 64 : turn * 64 + 64])
                Tx.cta.copy(B, b[:, turn * 64 : turn * 64 + 64])
            if all(is_right[step] for step in FENCES):
                T.ptx.fence.proxy_async("shared::cta")
            if not is_right["proxy fence of one warp"] and tid < 32:
                T.ptx.fence.proxy_async("shared::cta")
            if is_right["barrier"]:
                T.cuda.cta_sync()
            if not is_right["proxy fence of one warp after the barrier"] and tid < 32:
                T.ptx.fence.proxy_async("shared::cta")
            if in_registers:
                Tx.wg.copy(R, A)
            if not is_right["D zeroed after the fence"]:
                T.ptx.wgmma.fence()
                for i in T.unroll(32):
                    acc[i] = acc[i] * T.float32(1.0) if turn else T.float32(0.0)
            elif is_right["fence"] and (is_right["fence of each warp"] or tid < 96) and is_right["first fence only"]:
                T.ptx.wgmma.fence()
            for k in T.unroll(4):
                scale = not (turn == 0 and k == 0) or not is_right["D from nowhere"]
                if in_registers:
                    T.ptx.wgmma.mma_async.rs(
                        T.smem_desc_add_16B_offset(dB[0], k * step_units), own.ptr_to([8 * k]), own.ptr_to([8 * k + 2]),
                        own.ptr_to([8 * k + 4]), own.ptr_to([8 * k + 6]), acc,
                        M=64, N=64, K=16, in_dtype="bfloat16", scaleD=scale,
                    )  # fmt: skip
                elif is_right["half a warpgroup"] or tid < 64:
                    T.ptx.wgmma.mma_async.ss(
                        T.smem_desc_add_16B_offset(dA[0], k * step_units),
                        T.smem_desc_add_16B_offset(dB[0], k * step_units), acc,
                        M=64, N=64, K=16, in_dtype="bfloat16", scaleD=scale,
                    )  # fmt: skip
                if not is_right["D touched between"]:
                    acc[0] = acc[0] + T.float32(1.0)
                if not is_right["another shape between"]:
                    T.ptx.wgmma.mma_async.ss(dA[0], dB[0], D.local()[0:16], M=64, N=32, K=16, in_dtype="bfloat16")
            if is_right["commit"]:
                T.ptx.wgmma.commit_group()
            if not is_right["A reused"]:
                own[0] = T.bfloat16(0.0)
            if not is_right["A read"]:
                c[tid // 64, tid % 64] = T.cast(own[0], "float32")
            if not is_right["B overwritten"]:
                B[tid // 2, tid % 2] = T.bfloat16(0.0)
            if not is_right["D read"]:
                c[tid // 64, tid % 64] = acc[31]
            if is_right["wait"]:
                T.ptx.wgmma.wait_group(pending)
            if is_right["last barrier"]:
                T.cuda.cta_sync()
        Tx.wg.copy(c, D)

    return multiply


FENCES = [
    "proxy fence",
    "proxy fence too early",
    "proxy fence of one warp",
    "proxy fence of one warp after the barrier",
]

# A word for `product` -> a part of what is said, and the keyword arguments with which the mistake can be made.
MISTAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "fence": ("lacks a fence before the first wgmma.mma_async.ss of a warp", {}),
    "fence of each warp": ("lacks a fence", {}),
    "first fence only": ("lacks a fence after R was used", {"in_registers": True}),
    "D zeroed after the fence": ("lacks a fence after D was used", {}),
    "proxy fence": ("stored by warp 0 without a proxy fence", {}),
    "proxy fence too early": ("stored by warp 0 without a proxy fence", {}),
    "proxy fence of one warp": ("without a proxy fence", {}),
    "proxy fence of one warp after the barrier": ("without a proxy fence", {}),
    "barrier": ("race", {}),
    "last barrier": ("overwrites shared memory that wgmma.mma_async.ss may still be reading", {}),
    "commit": ("overwrites shared memory that wgmma.mma_async.ss may still be reading", {}),
    "wait": ("overwrites shared memory that wgmma.mma_async.ss may still be reading", {}),
    "wait too short": ("overwrites shared memory that wgmma.mma_async.ss may still be reading", {}),
    "D read": ("D is used while wgmma.mma_async.ss may not have filled it", {}),
    "D touched between": ("D is used while wgmma.mma_async.ss may not have filled it", {}),
    "another shape between": ("D is used while wgmma.mma_async.ss may not have filled it", {}),
    "D from nowhere": ("a value is uninitialised", {}),
    "A reused": ("R is used while wgmma.mma_async.rs may not have read it", {"in_registers": True}),
    "A read": ("R is used while wgmma.mma_async.rs may not have read it", {"in_registers": True}),
    "B overwritten": ("overwrites shared memory that wgmma.mma_async.ss may still be reading", {}),
    "descriptor per thread": ("dB is the same in all threads of the warpgroup", {}),
    "descriptor field": ("dB: matrix descriptor: constant", {}),
    "start beyond": ("outside of shared memory", {}),
    "half a warpgroup": ("a warpgroup takes part without all of its four warps", {}),
    "swizzle of the tile": ("reads A in another order than its layout", {}),
    "swizzle of the descriptor": ("reads A in another order than its layout", {}),
    "stride": ("reads A in another order than its layout", {}),
    "step": ("ptx.wgmma.mma_async.ss reads outside of A", {}),
    "base": ("ptx.wgmma.mma_async.ss reads outside of A", {}),
}
