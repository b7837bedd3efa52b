"""Attention on Hopper: one warp copies, two warpgroups take turns at the tensor cores (bfloat16, TMA, wgmma).

Each warpgroup has 64 queries and goes through all keys, the last ones first. While the tensor cores multiply the next
scores, and the last weights by their values, its threads turn scores into weights; meanwhile the other group has its
turn. A key is hidden from queries before it (`CAUSAL`), aligned at the last key.
"""

import numpy as np
from ml_dtypes import bfloat16

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import R, S, TileLayout, tid_in_wg, wgmma_fragment

WIDTH, QUERIES, KEYS, STAGES, CAUSAL = 128, 128, 128, 2, True  # elements of each, a CTA's queries, the keys of a tile
ROW = TileLayout(S[(4, 2, 8) : (32 @ tid_in_wg, 1, 4 @ tid_in_wg)] + R[4 : 1 @ tid_in_wg])  # one number for each row
LANES = TileLayout(S[(4, 2, 8, 4) : (32 @ tid_in_wg, 1, 4 @ tid_in_wg, 1 @ tid_in_wg)])  # one for each lane of a row
TURN = 4  # the first of the named barriers at which the groups hand on the tensor cores


@T.inline
def bring(near, far, put, b, h, first):
    """Issue the copy of a tile of keys or values."""
    put.acquire()
    Tx.copy_async(near[put.stage], far[b, h, first : first + KEYS, :], mbar=put.full)
    put.advance()


@T.inline
def multiply(D, a, b, accum, turned):
    """Issue a product of a warpgroup."""
    T.ptx.wgmma.fence()
    Tx.wg.gemm_async(D, a, b, accum, transB=turned)
    T.ptx.wgmma.commit_group()


@T.inline
def bring_all(near, far, puts, b, heads, first, steps):
    """Issue the copies of a tile of queries, and of all tiles of keys and values, the last ones first."""
    (put_q, put_k, put_v), (head, head_kv) = T.meta_var(puts), T.meta_var(heads)
    put_q.acquire()
    Tx.copy_async(near[0], far[0][b, head, first : first + QUERIES, :], mbar=put_q.full)
    for i in T.serial(steps, unroll=False):
        bring(near[1], far[1], put_k, b, head_kv, (steps - 1 - i) * KEYS)
        bring(near[2], far[2], put_v, b, head_kv, (steps - 1 - i) * KEYS)


@T.inline
def leave(take):
    """The warp has read a stage, and goes on to the next."""
    take.release()
    take.advance()


@T.inline
def hide(scores, row, first, keys, shift):
    """Keys that do not exist, or that come after a query, count nothing."""
    last = T.meta_var((lambda i: row + i + shift) if CAUSAL else lambda i: keys)
    Tx.wg.select(scores, scores, -T.infinity("float32"), lambda i, j: (first + j < keys) & (first + j <= last(i)))


@T.inline
def weigh(scores, most, total, shrunk, scale):
    """Scores become weights; what was summed up so far counts ``shrunk``, as the largest score may have grown."""
    larger = T.max(most, T.max(scores, axis=1, keepdims=True))
    base = T.select(larger > -T.infinity("float32"), larger, 0.0)  # a query may have seen no key so far
    shrunk[:] = T.exp2((most - base) * scale)
    most[:] = larger
    scores[:] = T.exp2(scores * scale - base * scale)
    of_lanes = T.meta_var(scores.view(64, KEYS // 8, 4, 2))  # a row is in four lanes, each of which sums its own
    total[:] = total * shrunk.view(64, 1, 1, 1) + T.sum(of_lanes, axis=(1, 3), keepdims=True)


@T.inline
def score(scores, mine, keys, take_k, last, take_v, who, begun):
    """In the group's turn the next scores begin, and ``last``: weights times values. Then the scores are there."""
    take_k.wait()
    T.ptx.bar.sync(TURN + who, 256)
    multiply(scores, mine, keys[take_k.stage], False, False)
    if last:
        take_v.wait()
        multiply(last[0], last[1], last[2][take_v.stage], begun, True)
    T.ptx.bar.arrive(TURN + 1 - who, 256)
    T.ptx.wgmma.wait_group(1 if last else 0)
    leave(take_k)


@T.inline
def store(out, sums, total):
    """A query that has seen no key gets zeros."""
    whole = T.sum(total, axis=2, keepdims=True)
    share = T.select(whole > 0.0, 1.0 / whole, 0.0)
    sums[:] *= share.view(64, 1)
    Tx.wg.copy(out, sums, clip=True)


@T.prim_func
def attention(q: T.handle, k: T.handle, v: T.handle, out: T.handle, scale: T.float32):
    batch, heads, heads_kv, m, n = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
    Q, OUT = [T.match_buffer(each, (batch, heads, m, WIDTH), "bfloat16") for each in (q, out)]
    K, V = [T.match_buffer(each, (batch, heads_kv, n, WIDTH), "bfloat16") for each in (k, v)]
    T.func_attr({"min_blocks": 1})  # so that the registers at entry are known
    head, part, b = T.cta_id([heads, T.ceildiv(m, QUERIES), batch])
    group, warp = T.warpgroup_id([3]), T.warp_id_in_wg([4])
    T.thread_id_in_wg([128])
    pool = T.SMEMPool()
    queries = pool.alloc_mma((QUERIES, WIDTH), "bfloat16")
    keys, values = [pool.alloc_mma((STAGES, KEYS, WIDTH), "bfloat16") for _ in "kv"]
    rings = T.meta_var([T.Pipeline(pool, stages, consumers=8) for stages in (1, STAGES, STAGES)])
    rings[2].ready()
    first: T.let = (T.ceildiv(m, QUERIES) - 1 - part) * QUERIES  # those with most keys begin first
    shift: T.let = n - m
    steps: T.let = T.max(T.ceildiv(T.min(n, first + QUERIES + shift) if CAUSAL else n, KEYS), 1)

    with T.WarpgroupRole(group, 0, 40):
        if warp == 0 and T.ptx.elect_sync():
            each = T.meta_var((QUERIES, KEYS, KEYS))
            puts = T.meta_var([ring.producer(rows * WIDTH * 2) for ring, rows in zip(rings, each, strict=True)])
            bring_all((queries, keys, values), (Q, K, V), puts, b, (head, head // (heads // heads_kv)), first, steps)

    with T.WarpgroupRole(group, (1, 3), 232, increase=True):
        who: T.let = group - 1
        row = T.meta_var(first + who * 64)
        take_q, take_k, take_v = [ring.consumer() for ring in rings]
        mine = T.meta_var(queries[who * 64 : who * 64 + 64, :])
        scores = T.alloc_local((64, KEYS), "float32", layout=wgmma_fragment(64, KEYS))
        weights = T.alloc_local((64, KEYS), "bfloat16", layout=wgmma_fragment(64, KEYS, "A", "bfloat16"))
        sums = T.alloc_local((64, WIDTH), "float32", layout=wgmma_fragment(64, WIDTH))
        most, shrunk = [T.alloc_local((64, 1), "float32", layout=ROW) for _ in "ms"]
        total = T.alloc_local((64, 1, 4, 1), "float32", layout=LANES)
        most[:], total[:] = -T.infinity("float32"), 0.0
        if who == 0:
            T.ptx.bar.arrive(TURN, 256)

        take_q.wait()
        score(scores, mine, keys, take_k, (), take_v, who, False)
        hide(scores, row, (steps - 1) * KEYS, n, shift)
        weigh(scores, most, total, shrunk, scale)
        weights[:] = scores
        for i in T.serial(steps - 1, unroll=False):
            score(scores, mine, keys, take_k, (sums, weights, values), take_v, who, i != 0)
            if (steps - 1 - i) * KEYS > row + shift + 1 if CAUSAL else False:
                hide(scores, row, (steps - 2 - i) * KEYS, n, shift)
            weigh(scores, most, total, shrunk, scale)
            T.ptx.wgmma.wait_group(0)  # the sums
            leave(take_v)
            sums[:] *= shrunk
            weights[:] = scores

        take_v.wait()
        multiply(sums, weights, values[take_v.stage], steps > 1, True)
        T.ptx.wgmma.wait_group(0)
        store(OUT[b, head, row : row + 64, :], sums, total)


def wanted(q, k, v):
    k, v = (np.repeat(each.astype(np.float64), q.shape[1] // k.shape[1], axis=1) for each in (k, v))
    s = q.astype(np.float64) @ k.swapaxes(2, 3) * WIDTH**-0.5
    seen = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    p = np.exp(np.where(seen | (not CAUSAL), s, -np.inf))
    return p / p.sum(3, keepdims=True) @ v


def main(run=tw.simulate) -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, 2, 200, WIDTH)).astype(bfloat16)  # two heads of queries for one of keys
    k, v = rng.standard_normal((2, 1, 1, 333, WIDTH)).astype(bfloat16)
    run(attention, q, k, v, out := np.zeros_like(q), WIDTH**-0.5 * np.log2(np.e))
    assert np.allclose(out.astype(np.float64), wanted(q, k, v), atol=1e-2)
    print("two warpgroups took turns at the tensor cores: as float64 has it, but for the rounding of bfloat16")


if __name__ == "__main__":
    main()
