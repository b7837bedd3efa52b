"""Step 1: one product. The CTA copies A and B to shared memory, one thread starts the product, all wait for it.

The product takes place in *tensor memory*, 128 lanes of 512 columns that belong to the CTA: it is asked for, and given
back. The tensor cores read shared memory by the async proxy, so each thread fences what it has stored.
"""

import numpy as np

from examples.blackwell.parts import begin, end, store_rows
from tilewright import T, Tx
from tilewright.layout import S, TCol, TLane, mma_shared_layout

M, N, K = 128, 64, 64


@T.prim_func
def kernel(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32")):
    T.cta_id([1])
    warp_id, tid = T.warp_id([4]), T.thread_id([128])
    a = T.alloc_shared((M, K), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (M, K)))
    b = T.alloc_shared((N, K), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (N, K)))
    addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
    begin(addr, N, warp_id, tid, done)
    acc = T.decl_buffer((M, N), "float32", scope="tmem", allocated_addr=addr[0],
                        layout=S[(M, N) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
    Tx.cta.copy(a, A)
    Tx.cta.copy(b, B)
    T.ptx.fence.proxy_async("shared::cta")  # exercise
    T.cuda.cta_sync()
    if warp_id == 0 and T.ptx.elect_sync():
        Tx.gemm_async(acc[:, :], a[:, :], b[:, :], False)
        T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
    store_rows(C, 0, acc, done.ptr_to([0]), 0)
    end(addr, N, warp_id)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.integers(-2, 3, shape).astype("bfloat16") for shape in ((M, K), (N, K))]
