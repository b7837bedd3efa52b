"""Attention without the matrix of scores: 64 queries go through all keys, and keep only sums (float16, mma.sync).

Scores stay in the registers in which mma leaves them; as float16 they are the left side of the next product as is.
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import mma_fragment_layout, mma_shared_layout

TILE, WIDTH = 64, 64  # queries and keys of a tile, elements of each
HELD = mma_fragment_layout("D", (TILE, TILE), "float32", warps=(4, 1))  # 16 queries for each warp
SHARED = mma_shared_layout("float16", 3, (TILE, WIDTH))


@T.prim_func
def attention(q: T.handle, k: T.handle, v: T.handle, out: T.handle, scale: T.float32):
    heads, n = T.int32(), T.int32()
    Q, K, V, OUT = [T.match_buffer(each, (heads, n, WIDTH), "float16") for each in (q, k, v, out)]
    T.assume(n % TILE == 0)
    head, part = T.cta_id([heads, n // TILE])
    T.thread_id([128])
    queries, keys, values = [T.alloc_buffer((TILE, WIDTH), "float16", scope="shared", layout=SHARED) for _ in range(3)]
    scores, sums = [T.alloc_buffer((TILE, TILE), scope="local", layout=HELD) for _ in range(2)]
    weights = T.alloc_buffer((TILE, TILE), "float16", scope="local", layout=HELD)
    scores[:], sums[:] = 0, 0
    total = T.sum(scores, axis=1, keepdims=True)  # 0 for each query, where its scores are
    most = total - T.infinity("float32")
    with Tx.cta:
        queries[:] = Q[head, part * TILE : part * TILE + TILE]
    for step in range(n // TILE):
        T.cuda.cta_sync()
        with Tx.cta:
            keys[:] = K[head, step * TILE : step * TILE + TILE]
            values[:] = V[head, step * TILE : step * TILE + TILE]
        T.cuda.cta_sync()
        Tx.cta.gemm(scores, queries, keys, transpose_B=True, alpha=scale)
        larger = T.max(most, T.max(scores, axis=1, keepdims=True))
        scores[:] = T.exp(scores - larger)
        shrunk = T.exp(most - larger)
        total[:] = total * shrunk + T.sum(scores, axis=1, keepdims=True)
        most[:], weights[:] = larger, scores
        sums[:] *= shrunk
        Tx.cta.gemm(sums, weights, values, sums, beta=1.0)
    OUT[head, part * TILE : part * TILE + TILE] = sums / total


def main(run=tw.simulate) -> None:
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 128, WIDTH)).astype(np.float16)
    run(attention, q, k, v, out := np.zeros_like(q), 0.125)
    p = np.exp(q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) * 0.125)
    assert np.allclose(out, p / p.sum(2, keepdims=True) @ v.astype(np.float64), rtol=1e-2, atol=1e-3)
    print(tw.compile(attention).report)


if __name__ == "__main__":
    main()
