"""The gradients of attention, on Hopper: three kernels, of which the second does the products.

`prepare` computes what each query needs, Delta = sum(dO * O) and its LSE in base 2, and clears the sums of dQ. In
`gradients` a CTA has a tile of keys and their values, and goes through all tiles of queries that see them:

    S.T = K Q.T,  dP.T = V dO.T,  P = exp2(S * c - LSE),  dS = P * (dP - Delta)
    dV += P.T dO,  dK += dS.T Q,  dQ += dS K

Two warpgroups have half of the keys each. Scores are computed turned, so that P.T and dS.T are in registers as the
products want them; dS goes through shared memory for dQ alone. Sums of dQ over tiles of keys are in memory: a warp of
its own has the copy engine add to them. `convert` scales and rounds these.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels.attention_backward_rows import (
    DS,
    EMPTY,
    FULL,
    BackwardKind,
    BackwardPlace,
    hand_over,
    multiply,
    put,
    show,
    slopes,
    store,
    weigh,
)
from tilewright.kernels.attention_forms import leave
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment


class Near:
    """What a CTA has in shared memory, and the rings."""

    def __init__(self, form: BackwardKind) -> None:
        pool = T.SMEMPool()
        of_q, of_do, ds = form.stages
        self.k, self.v = (pool.alloc_mma((form.keys, wide), form.kind) for wide in (form.d, form.dv))
        self.q = pool.alloc_mma((of_q, form.queries, form.d), form.kind)
        self.do = pool.alloc_mma((of_do, form.queries, form.dv), form.kind)
        self.ds = pool.alloc_mma((ds, form.keys, form.queries), form.kind)
        self.p, self.bent = (pool.alloc((form.queries // 16, 128, 8), form.kind, align=16) if has_it else None
                             for has_it in (form.is_wide, form.is_wide and form.softcap))  # fmt: skip
        self.dq = pool.alloc((2, form.part[1] // 8, 128, 4), "float32", align=128)
        self.lse, self.delta = (pool.alloc((many, form.queries), "float32", align=128) for many in (of_q, of_do))
        self.ring_kv, self.ring_q, self.ring_do = (T.Pipeline(pool, many, consumers=8) for many in (1, of_q, of_do))


@T.inline
def load(form, near, far, place, part):
    """Issue the copies of the keys, the values, and all tiles of queries that see them."""
    Q, K, V, DO, LSE, DELTA = T.meta_var(far)
    mine, head, group = T.meta_var(place)
    number, begin, end = T.meta_var(part)
    first: T.let = mine.start_k + number * form.keys
    put_kv = near.ring_kv.producer(form.keys * (form.d + form.dv) * 2)
    put_q = near.ring_q.producer(form.queries * (form.d * 2 + 4))
    put_do = near.ring_do.producer(form.queries * (form.dv * 2 + 4))
    put_kv.acquire()
    Tx.copy_async(near.k, K[mine.at, head, first : first + form.keys, 0 : form.d], mbar=put_kv.full)
    Tx.copy_async(near.v, V[mine.at, head, first : first + form.keys, 0 : form.dv], mbar=put_kv.full)
    for h in T.serial(head * group, head * group + group, unroll=False):
        for i in T.serial(begin, end, unroll=False):
            row: T.let = mine.start_q + i * form.queries
            put_q.acquire()
            Tx.copy_async(near.q[put_q.stage], Q[mine.at, h, row : row + form.queries, 0 : form.d], mbar=put_q.full)
            Tx.copy_async(near.lse[put_q.stage], LSE[mine.batch, h, i, :], mbar=put_q.full)
            put_q.advance()
            put_do.acquire()
            Tx.copy_async(
                near.do[put_do.stage], DO[mine.at, h, row : row + form.queries, 0 : form.dv], mbar=put_do.full
            )
            Tx.copy_async(near.delta[put_do.stage], DELTA[mine.batch, h, i, :], mbar=put_do.full)
            put_do.advance()


@T.inline
def add(form, near, far, place, part, low, who):
    """A warp has the copy engine add a warpgroup's parts of dQ to the sums, as they come, or when it is their turn."""
    (SUMS, TURNS), (mine, head, group), (number, begin, end) = T.meta_var(far), T.meta_var(place), T.meta_var(part)
    b, runs = T.meta_var((mine.batch, form.part[1] // 8))
    for h in T.serial(head * group, head * group + group, unroll=False):
        for i in T.serial(begin, end, unroll=False):
            for piece in T.unroll(form.pieces):
                T.ptx.bar.sync(FULL + who, 160)
                if T.ptx.elect_sync():
                    if form.ordered and piece == 0:
                        turn: T.let = number - mine.first_of(i, low)
                        while T.ptx.ld(TURNS.ptr_to([b, h, i, who]), sem="acquire", scope="gpu") != turn:
                            pass
                        T.ptx.fence.proxy_async("global")
                    Tx.copy_async(SUMS[b, h, i, who, piece * runs : piece * runs + runs], near.dq[who],
                                  use_tma_reduce="add")  # fmt: skip
                    T.ptx.cp_async.bulk.commit_group()
                    T.ptx.cp_async.bulk.wait_group(0, read=True)
                T.cuda.warp_sync()
                T.ptx.bar.arrive(EMPTY + who, 160)
            if form.ordered and T.ptx.elect_sync():
                T.ptx.cp_async.bulk.wait_group(0)
                T.ptx.fence.proxy_async("global")
                T.ptx.st(TURNS.ptr_to([b, h, i, who]), number - mine.first_of(i, low) + 1, sem="release", scope="gpu")
    if T.ptx.elect_sync():
        T.ptx.cp_async.bulk.wait_group(0)


@T.inline
def differentiate(form, near, keys, takes, turn, state, seen, who, thread, numbers, is_first):
    """One tile of queries: its parts of dK and dV to the sums of a warpgroup, its part of dQ to shared memory."""
    (take_q, take_do), (rows, columns) = T.meta_var(takes), T.meta_var(form.place(who))
    (s, dp, p, ds), (level, delta_of), (dq, dk_sum, dv_sum) = T.meta_var(state)
    take_q.wait()
    level[:] = near.lse[take_q.stage : take_q.stage + 1, :]
    multiply(s, near.k[keys, :], near.q[take_q.stage], False)
    if not is_first:
        show(who)  # the last tile's part of dQ: here nothing waits for the fence
    take_do.wait()
    multiply(dp, near.v[keys, :], near.do[take_do.stage], False)
    T.ptx.wgmma.wait_group(1)
    weigh(form, s, level, seen, numbers)
    if not form.softcap:
        delta_of[:] = near.delta[take_do.stage : take_do.stage + 1, :]
    T.ptx.wgmma.wait_group(0)
    if form.softcap:  # registers are scarce
        delta_of[:] = near.delta[take_do.stage : take_do.stage + 1, :]
    slopes(form, ds, s, dp, delta_of, level, seen, numbers[0])
    p[:] = s
    Tx.wg.copy(near.ds[turn.stage, keys, :], ds)
    T.ptx.fence.proxy_async("shared::cta")
    multiply(dv_sum, p, near.do[take_do.stage], True, turn_b=True)
    T.ptx.bar.sync(DS, 256)
    multiply(dq, near.ds[turn.stage, :, rows], near.k[:, columns], False, turn_a=True, turn_b=True)
    T.ptx.wgmma.wait_group(1)
    leave(take_do)
    multiply(dk_sum, ds, near.q[take_q.stage], True, turn_b=True)
    T.ptx.wgmma.wait_group(1)
    put(form, near, dq, who, thread, is_first)
    T.ptx.wgmma.wait_group(0)
    leave(take_q)
    turn.advance()


@T.inline
def work(form, near, far, place, part, who, thread, numbers):
    """A warpgroup adds up dK and dV of its keys over all tiles of queries that see them."""
    (DK, DV, BIAS), (mine, head, group), (number, begin, end) = T.meta_var(far), T.meta_var(place), T.meta_var(part)
    (c, bend, scale, low, high), shape = T.meta_var(numbers), (64, form.queries)
    key = T.meta_var(number * form.keys + who * 64)
    take_kv, take_q, take_do = near.ring_kv.consumer(), near.ring_q.consumer(), near.ring_do.consumer()
    s, dp = [T.alloc_local(shape, "float32", layout=wgmma_fragment(*shape)) for _ in "sp"]
    p, ds = [T.alloc_local(shape, form.kind, layout=wgmma_fragment(*shape, "A", form.kind)) for _ in "ps"]
    level, delta_of = [T.alloc_local((1, form.queries), "float32", layout=form.by_columns) for _ in "ld"]
    dk_sum, dv_sum = [T.alloc_local((64, w), "float32", layout=wgmma_fragment(64, w)) for w in (form.d, form.dv)]
    dq = T.alloc_local(form.part, "float32", layout=wgmma_fragment(*form.part))
    state = T.meta_var(((s, dp, p, ds), (level, delta_of), (dq, dk_sum, dv_sum)))
    turn = T.PipelineState(form.stages[2], 0)
    dk_sum[:] = 0
    dv_sum[:] = 0
    keys = T.meta_var(slice(who * 64, who * 64 + 64))
    take_kv.wait()
    for h in T.serial(group, unroll=False):
        for i in T.serial(begin, end, unroll=False):
            bias = T.meta_var((BIAS, head * group + h))
            seen, is_first = T.meta_var(((mine, bias, key, i * form.queries, low, high), (i == begin) & (h == 0)))
            differentiate(form, near, keys, (take_q, take_do), turn, state, seen, who, thread, (c, bend), is_first)
    if begin < end:
        show(who)
    dk_sum[:] *= scale
    store(form, mine, DK, head, key, dk_sum, near.k[keys, :], who, thread)
    store(form, mine, DV, head, key, dv_sum, near.v[keys, :], who, thread)


@cache
def gradients(form: BackwardKind) -> tw.Executable:
    """dK, dV and the sums of dQ."""

    @T.prim_func
    def attention_gradients(q: T.handle, k: T.handle, v: T.handle, do: T.handle, lse: T.handle, delta: T.handle,
                            bias: T.handle, starts_q: T.handle, starts_k: T.handle, sums: T.handle, turns: T.handle,
                            dk: T.handle, dv: T.handle, longest: T.int32, c: T.float32, bend: T.float32,
                            scale: T.float32, left: T.int32, right: T.int32, bottom: T.int32):  # fmt: skip
        batch, heads, heads_kv, m, n, d, d_v, tiles = [T.int32() for _ in range(8)]
        Q, DO = form.array(q, batch, heads, m, d), form.array(do, batch, heads, m, d_v)
        K, V = form.array(k, batch, heads_kv, n, d), form.array(v, batch, heads_kv, n, d_v)
        DK, DV = form.result(dk, batch, heads_kv, n, d), form.result(dv, batch, heads_kv, n, d_v)
        LSE, DELTA = [T.match_buffer(x, (batch, heads, tiles, form.queries), "float32") for x in (lse, delta)]
        BIAS = form.added(bias, batch, heads, n, m)
        starts = T.meta_var(form.starts((starts_q, starts_k), batch))
        SUMS = T.match_buffer(sums, (batch, heads, tiles, *form.sums), "float32")
        TURNS = T.match_buffer(turns, (batch, heads, tiles, 2), "int32") if form.ordered else None
        T.assume(d % 8 == 0)
        T.assume(d_v % 8 == 0)
        T.func_attr({"min_blocks": 1})
        part, head, b = T.cta_id([T.ceildiv(longest if form.packed else n, form.keys), heads_kv, batch])
        role, warp, thread = T.warpgroup_id([3]), T.warp_id_in_wg([4]), T.thread_id_in_wg([128])
        near = T.meta_var(Near(form))
        near.ring_do.ready()
        mine = BackwardPlace(form, starts, b, m, n)
        place, first = T.meta_var(((mine, head, heads // heads_kv), part * form.keys))
        low: T.let = (mine.n - mine.m) * bottom - left
        high: T.let = (mine.n - mine.m) * bottom + right
        begin: T.let = T.max(first - high, 0) // form.queries if form.last else 0
        last: T.let = T.ceildiv(mine.m, form.queries)
        seen: T.let = T.min(T.ceildiv(T.max(first + form.keys - low, 0), form.queries), last) if form.first else last
        end: T.let = T.select(first < mine.n, seen, begin) if form.packed else seen

        with T.WarpgroupRole(role, 0, 24):
            if warp == 0 and T.ptx.elect_sync():
                load(form, near, (Q, K, V, DO, LSE, DELTA), place, (part, begin, end))
            if (warp == 1) | (warp == 2):
                add(form, near, (SUMS, TURNS), place, (part, begin, end), low, warp - 1)

        numbers = T.meta_var((c, bend, scale, low, high))
        if form.is_wide:
            with T.WarpgroupRole(role, 1, 240, increase=True):
                of_values(form, near, (DV, BIAS), place, (part, begin, end), thread, numbers)
            with T.WarpgroupRole(role, 2, 240, increase=True):
                of_keys(form, near, DK, place, (part, begin, end), thread, scale)
        else:
            with T.WarpgroupRole(role, (1, 3), 240, increase=True):
                work(form, near, (DK, DV, BIAS), place, (part, begin, end), role - 1, thread, numbers)

    return tw.compile(attention_gradients, target="sm_90a", fast_math=True)


# Gradients of attention to wide keys: the two warpgroups of a CTA have different products.
#
# Sums of dK and dV of 64 keys of 256 elements are all that the registers of two warpgroups hold. So one has S.T and dV,
# the other dP.T and dK, and each half of the columns of dQ; no product is computed twice. The first hands the weights
# over through shared memory, each thread to the one that has the same place in the other warpgroup, and the second
# gives both dS. While one computes weights, the other has the tensor cores.


HANDED = 6  # the named barrier of weights: one group arrives, the other waits


@T.inline
def part_of_dq(form, near, dq, piece, who):
    """Issue the product of a piece of dQ."""
    rows, columns = T.meta_var(form.place(who, piece))
    multiply(dq, near.ds[0, :, rows], near.k[:, columns], False, turn_a=True, turn_b=True)


@T.inline
def give(form, place, fragment, thread):
    """A thread's part of a fragment goes to shared memory."""
    mine = T.meta_var(fragment.local())
    for j in T.unroll(form.queries // 16):
        for x in T.vectorized(8):
            place[j, thread, x] = mine[8 * j + x]


@T.inline
def get(form, place, fragment, thread):
    """The part of the thread that has this place in the other warpgroup."""
    mine = T.meta_var(fragment.local())
    for j in T.unroll(form.queries // 16):
        for x in T.vectorized(8):
            mine[8 * j + x] = place[j, thread, x]


@T.inline
def of_values(form, near, far, place, part, thread, numbers):
    """The first warpgroup: weights of all tiles of queries, dV, and its half of dQ."""
    (DV, BIAS), (mine, head, group), (number, begin, end) = T.meta_var(far), T.meta_var(place), T.meta_var(part)
    (c, bend, _, low, high), shape = T.meta_var(numbers), (64, form.queries)
    key = T.meta_var(number * form.keys)
    take_kv, take_q, take_do = near.ring_kv.consumer(), near.ring_q.consumer(), near.ring_do.consumer()
    s = T.alloc_local(shape, "float32", layout=wgmma_fragment(*shape))
    p = T.alloc_local(shape, form.kind, layout=wgmma_fragment(*shape, "A", form.kind))
    level = T.alloc_local((1, form.queries), "float32", layout=form.by_columns)
    dv_sum = T.alloc_local((64, form.dv), "float32", layout=wgmma_fragment(64, form.dv))
    dq = T.alloc_local(form.part, "float32", layout=wgmma_fragment(*form.part))
    dv_sum[:] = 0
    take_kv.wait()
    for h in T.serial(group, unroll=False):
        for i in T.serial(begin, end, unroll=False):
            seen = T.meta_var((mine, (BIAS, head * group + h), key, i * form.queries, low, high))
            is_first = T.meta_var((i == begin) & (h == 0))
            take_q.wait()
            multiply(s, near.k, near.q[take_q.stage], False)
            level[:] = near.lse[take_q.stage : take_q.stage + 1, :]
            T.ptx.wgmma.wait_group(0)
            leave(take_q)
            if form.softcap:
                p[:] = 1.0 - T.tanh(s * bend) * T.tanh(s * bend)
                give(form, near.bent, p, thread)
            weigh(form, s, level, seen, (c, bend))
            p[:] = s
            give(form, near.p, p, thread)
            T.ptx.bar.arrive(HANDED, 256)
            take_do.wait()
            multiply(dv_sum, p, near.do[take_do.stage], True, turn_b=True)
            T.ptx.bar.sync(DS, 256)
            part_of_dq(form, near, dq, 0, 0)
            T.ptx.wgmma.wait_group(1)
            leave(take_do)
            T.ptx.wgmma.wait_group(0)
            hand_over(form, near, dq, 0, thread, is_first)
            for piece in tuple(range(1, form.pieces)):
                part_of_dq(form, near, dq, piece, 0)
                T.ptx.wgmma.wait_group(0)
                hand_over(form, near, dq, 0, thread, False)
    store(form, mine, DV, head, key, dv_sum, near.v, 0, thread)


@T.inline
def of_keys(form, near, DK, place, part, thread, scale):
    """The second warpgroup: slopes of the scores of all tiles of queries, dK, and its half of dQ."""
    (mine, head, group), (number, begin, end) = T.meta_var(place), T.meta_var(part)
    shape, key = (64, form.queries), T.meta_var(number * form.keys)
    take_kv, take_q, take_do = near.ring_kv.consumer(), near.ring_q.consumer(), near.ring_do.consumer()
    dp = T.alloc_local(shape, "float32", layout=wgmma_fragment(*shape))
    p, ds = [T.alloc_local(shape, form.kind, layout=wgmma_fragment(*shape, "A", form.kind)) for _ in "ps"]
    delta_of = T.alloc_local((1, form.queries), "float32", layout=form.by_columns)
    dk_sum = T.alloc_local((64, form.d), "float32", layout=wgmma_fragment(64, form.d))
    dq = T.alloc_local(form.part, "float32", layout=wgmma_fragment(*form.part))
    dk_sum[:] = 0
    take_kv.wait()
    for h in T.serial(group, unroll=False):
        for i in T.serial(begin, end, unroll=False):
            is_first = T.meta_var((i == begin) & (h == 0))
            take_do.wait()
            multiply(dp, near.v, near.do[take_do.stage], False)
            delta_of[:] = near.delta[take_do.stage : take_do.stage + 1, :]
            T.ptx.wgmma.wait_group(0)
            leave(take_do)
            dp[:] = dp - delta_of
            T.ptx.bar.sync(HANDED, 256)
            get(form, near.p, p, thread)
            dp[:] = dp * p
            if form.softcap:
                get(form, near.bent, p, thread)
                dp[:] = dp * p  # the slope of bent scores
            ds[:] = dp
            Tx.wg.copy(near.ds[0], ds)
            T.ptx.fence.proxy_async("shared::cta")
            T.ptx.bar.sync(DS, 256)
            part_of_dq(form, near, dq, 0, 1)
            take_q.wait()
            multiply(dk_sum, ds, near.q[take_q.stage], True, turn_b=True)
            T.ptx.wgmma.wait_group(1)
            hand_over(form, near, dq, 1, thread, is_first)
            for piece in tuple(range(1, form.pieces)):
                part_of_dq(form, near, dq, piece, 1)
                T.ptx.wgmma.wait_group(0)
                hand_over(form, near, dq, 1, thread, False)
            T.ptx.wgmma.wait_group(0)
            leave(take_q)
    dk_sum[:] *= scale
    store(form, mine, DK, head, key, dk_sum, near.k, 1, thread)
