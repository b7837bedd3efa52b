"""Two roles of attention's forward on a Blackwell: the softmax of a tile of queries, and the correction of outputs.

A thread has a row. The softmax reads its scores from tensor memory and puts the weights in their place; the factor by
which a new maximum shrinks what was summed before goes to the correcting warps through shared memory.
"""

from examples.blackwell.parts import exp2_by_polynomial, pair_of_bf16
from tilewright import T

L, D, KEYS = 256, 64, 64  # a CTA has the 256 queries of a head, and KEYS of its keys at a time
TURNS, SCALE = L // KEYS, 1.4426950408889634 / D**0.5  # of exponents to the base 2


@T.inline
def softmax(t, row, scores, s_full, p_ready, alphas, alpha_ready, alpha_free, sums):
    """The softmax of a tile of queries, a row for each thread."""
    s, p = T.alloc_local((KEYS,), "float32"), T.alloc_local((KEYS // 2,), "uint32")
    words, top, total = s.view("uint32"), T.float32(-1e30), T.float32(0.0)
    for j in T.serial(TURNS):
        T.ptx.mbarrier.try_wait(s_full.ptr_to([t]), j % 2)
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(scores, words, shape="32x32b", num=KEYS, row=row // 32 * 32)
        T.ptx.tcgen05.wait.ld()
        before = top
        for k in T.unroll(KEYS):
            top = T.max(top, s[k])
        alpha = T.exp2((before - top) * SCALE)
        T.ptx.mbarrier.try_wait(alpha_free.ptr_to([t]), 1 - j % 2)
        alphas[t, row] = alpha
        T.ptx.mbarrier.arrive(alpha_ready.ptr_to([t]))
        total = total * alpha
        for k in [*range(KEYS)]:
            exponent = (s[k] - top) * SCALE
            s[k] = exp2_by_polynomial(exponent) if k % 4 == 0 else T.exp2(exponent)
            total = total + s[k]
        for k in T.unroll(KEYS // 2):
            p[k] = pair_of_bf16(s[2 * k], s[2 * k + 1])
        T.ptx.tcgen05.st(scores, p, shape="32x32b", num=KEYS // 2, row=row // 32 * 32)
        T.ptx.tcgen05.wait.st()
        T.ptx.tcgen05.fence.before_thread_sync()
        T.ptx.mbarrier.arrive(p_ready.ptr_to([t]))
    T.ptx.mbarrier.try_wait(alpha_free.ptr_to([t]), 1 - TURNS % 2)
    sums[t, row] = total
    T.ptx.mbarrier.arrive(alpha_ready.ptr_to([t]))


@T.inline
def correct(out, head, row, addr, alphas, alpha_ready, alpha_free, sums, p_ready, o_done):
    """Outputs are rescaled where a maximum has grown, and in the last turn divided by the sums."""
    o = T.alloc_local((D,), "float32")
    for j in T.serial(TURNS + 1):
        for t in (0, 1):
            T.ptx.mbarrier.try_wait(alpha_ready.ptr_to([t]), j % 2)
            factor = alphas[t, row]
            if j == TURNS:
                factor = 1.0 / sums[t, row]
            T.ptx.mbarrier.arrive(alpha_free.ptr_to([t]))
            if j > 0:
                T.ptx.mbarrier.try_wait(o_done.ptr_to([t]), (j - 1) % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                if j == TURNS or T.cuda.any_sync(0xFFFFFFFF, factor != 1.0):  # a maximum of the warp's rows has grown
                    T.ptx.tcgen05.ld(addr + 64 * t, o.view("uint32"), shape="32x32b", num=D, row=row // 32 * 32)
                    T.ptx.tcgen05.wait.ld()
                    for d in T.unroll(D):
                        o[d] = o[d] * factor
                    if j < TURNS:
                        T.ptx.tcgen05.st(addr + 64 * t, o.view("uint32"), shape="32x32b", num=D, row=row // 32 * 32)
                        T.ptx.tcgen05.wait.st()
            T.ptx.tcgen05.fence.before_thread_sync()
            if j < TURNS:
                T.ptx.mbarrier.arrive(p_ready.ptr_to([t]))
            else:
                for d in T.unroll(D):
                    out[head, 128 * t + row, d] = o[d]
