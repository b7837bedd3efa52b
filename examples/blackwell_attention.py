"""Attention's forward as FlashAttention-4 divides it: two tiles of queries, warps that correct, polynomials.

Warpgroups 0 and 1 have the softmax of one tile of queries each: one computes while the tensor cores have the other's
product. Warpgroup 2 rescales outputs in tensor memory where a maximum has grown. A quarter of the exponentials are
polynomials, as their unit would be the slowest. One warp brings K and V, one thread multiplies: S = Q K^T, and O += P V
with P in tensor memory, where S was. Run it as a module of this folder: `python -m examples.blackwell_attention`.
"""

import numpy as np

import tilewright as tw
from examples.blackwell.parts import begin, end
from examples.blackwell.softmax import KEYS, TURNS, D, L, correct, softmax
from tilewright import T, Tx
from tilewright.layout import S, TCol, TileLayout, TLane, mma_shared_layout

HEADS, STAGES = 2, 2
ROWS = TileLayout(S[(128, D) : (1 @ TLane, 1 @ TCol)])
TILE = mma_shared_layout("bfloat16", 3, (2, 128, D)), mma_shared_layout("bfloat16", 3, (STAGES, KEYS, D))
OPERAND = T.Buffer((HEADS, L, D), "bfloat16")


@T.inline
def bring(sources, tiles, head, full, empty):
    """Keys and values stage by stage, queries with the first."""
    for j in T.serial(TURNS):
        stage, first = j % STAGES, j * KEYS
        T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - j // STAGES % 2)
        if j == 0:
            T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([0]), 4 * KEYS * D + 2 * L * D)
            for t in (0, 1):
                Tx.copy_async(tiles[0][t, :, :], sources[0][head, 128 * t : 128 * t + 128, :], mbar=full.ptr_to([0]))
        else:
            T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([stage]), 4 * KEYS * D)
        for tile, source in zip(tiles[1:], sources[1:], strict=True):
            Tx.copy_async(tile[stage, :, :], source[head, first : first + KEYS, :], mbar=full.ptr_to([stage]))


@T.inline
def multiply(q, k, v, addr, full, empty, s_full, p_ready, o_done):
    """S = Q K^T of both tiles, then O += P V of both, keys after keys."""
    places = T.meta_var((("float32", 0), ("bfloat16", 0), ("float32", 128)))  # P is where S was
    scores, weights, out = [
        [T.decl_buffer((128, D), kind, scope="tmem", allocated_addr=addr + first + 64 * t, layout=ROWS) for t in (0, 1)]
        for kind, first in places
    ]
    for j in T.serial(TURNS):
        stage = j % STAGES
        T.ptx.mbarrier.try_wait(full.ptr_to([stage]), j // STAGES % 2)
        for t in (0, 1):
            T.ptx.mbarrier.try_wait(o_done.ptr_to([t]), 1 - j % 2)
            T.ptx.tcgen05.fence.after_thread_sync()
            Tx.gemm_async(scores[t], q[t, :, :], k[stage, :, :])
            T.ptx.tcgen05.commit(s_full.ptr_to([t]))
        for t in (0, 1):
            T.ptx.mbarrier.try_wait(p_ready.ptr_to([t]), j % 2)
            T.ptx.tcgen05.fence.after_thread_sync()
            Tx.gemm_async(out[t], weights[t], v[stage, :, :], j > 0, transB=True)
            T.ptx.tcgen05.commit(o_done.ptr_to([t]))
        T.ptx.tcgen05.commit(empty.ptr_to([stage]))


@T.prim_func
def blackwell_attention(Q: OPERAND, K: OPERAND, V: OPERAND, out: T.Buffer((HEADS, L, D), "float32")):
    head, warp, tid = T.cta_id([HEADS]), T.warp_id([16]), T.thread_id([512])
    q = T.alloc_shared((2, 128, D), "bfloat16", layout=TILE[0])
    k, v = [T.alloc_shared((STAGES, KEYS, D), "bfloat16", layout=TILE[1]) for _ in (0, 1)]
    alphas, sums = [T.alloc_shared((2, 128), "float32") for _ in (0, 1)]
    addr, row = T.alloc_shared([1], "uint32"), tid % 128
    full, empty, s_full, o_done, p_ready, alpha_ready, alpha_free = [T.alloc_shared([2], "uint64") for _ in range(7)]
    others = T.meta_var([(p_ready, 256), (alpha_ready, 128), (alpha_free, 128)])  # P is there, and O is rescaled
    begin(addr, 256, warp, tid, full, empty, s_full, o_done, *others)
    if warp < 8:
        softmax(warp // 4, row, addr[0] + warp // 4 * 64, s_full, p_ready, alphas, alpha_ready, alpha_free, sums)
    elif warp < 12:
        correct(out, head, row, addr[0] + 128, alphas, alpha_ready, alpha_free, sums, p_ready, o_done)
    elif warp == 12 and T.ptx.elect_sync():
        bring((Q, K, V), (q, k, v), head, full, empty)
    elif warp == 13 and T.ptx.elect_sync():
        multiply(q, k, v, addr[0], full, empty, s_full, p_ready, o_done)
    end(addr, 256, warp)


def main() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((HEADS, L, D)).astype("bfloat16") for _ in range(3))
    o = np.zeros((HEADS, L, D), np.float32)
    run = tw.compile(blackwell_attention, target="sm_100a").simulate(q, k, v, o, check="all")
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / D**0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    error = np.abs(o - p / p.sum(-1, keepdims=True) @ v.astype(np.float64)).max()
    assert error < 0.01, error
    print(f"{HEADS} heads of {L} queries, largest error {error:.4f}; {len(run.warnings)} warnings")


if __name__ == "__main__":
    main()
