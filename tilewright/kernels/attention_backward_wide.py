"""Gradients of attention to wide keys: the two warpgroups of a CTA have different products.

Sums of dK and dV of 64 keys of 256 elements are all that the registers of two warpgroups hold. So one has S.T and dV,
the other dP.T and dK, and each half of the columns of dQ; no product is computed twice. The first hands the weights
over through shared memory, each thread to the one that has the same place in the other warpgroup, and the second
gives both dS. While one computes weights, the other has the tensor cores.
"""

from __future__ import annotations

from tilewright.kernels.attention_backward_rows import DS, hand_over, multiply, store, weigh
from tilewright.kernels.attention_forms import leave
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment

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
