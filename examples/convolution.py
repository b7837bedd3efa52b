"""A convolution on Hopper's tensor cores: the copy engine brings what each tap of the filter meets (im2col mode).

Row i of the product's left side is output pixel i, its columns are channels; each tap of the filter and each block of
channels is one step along K. Nothing is copied in between: zeros around the images come from the tensor map, and a tile
of 64 pixels goes on through the rows of one image and into the next.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import mma_shared_layout, wgmma_fragment

N, H, W, C, FILTERS = 2, 9, 10, 128, 64
TAPS, PADDING, STRIDE, DILATION = (3, 3), (1, 1), (2, 1), (1, 2)
P, Q = (
    (extent + 2 * pad - (taps - 1) * dilation - 1) // stride + 1
    for extent, taps, pad, stride, dilation in zip((H, W), TAPS, PADDING, STRIDE, DILATION, strict=True)
)
PIXELS, STEP, STAGES = 64, 64, 3
ROWS = -(-N * P * Q // PIXELS) * PIXELS
STEPS = TAPS[0] * TAPS[1] * (C // STEP)
BYTES = 2 * STEP * (PIXELS + FILTERS)


@T.prim_func
def convolution(
    X: T.Buffer((N, H, W, C), "bfloat16"),
    F: T.Buffer((FILTERS, TAPS[0] * TAPS[1] * C), "bfloat16"),
    Y: T.Buffer((ROWS, FILTERS), "float32"),
):
    first = T.cta_id([ROWS // PIXELS]) * PIXELS
    tid = T.thread_id([128])
    x = T.alloc_shared((STAGES, PIXELS, STEP), "bfloat16", align=1024,
                       layout=mma_shared_layout("bfloat16", 3, (STAGES, PIXELS, STEP)))  # fmt: skip
    f = T.alloc_shared((STAGES, FILTERS, STEP), "bfloat16", align=1024,
                       layout=mma_shared_layout("bfloat16", 3, (STAGES, FILTERS, STEP)))  # fmt: skip
    full = T.alloc_shared([STAGES], "uint64")
    sums = T.alloc_buffer((PIXELS, FILTERS), "float32", scope="local", layout=wgmma_fragment(PIXELS, FILTERS))
    if tid == 0:
        for stage in T.unroll(STAGES):
            T.ptx.mbarrier.init(full.ptr_to([stage]), 1)
        T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()

    @T.inline
    def fetch(step):
        stage, tap = step % STAGES, step // (C // STEP)
        pixel = (first // (P * Q), first // Q % P, first % Q)
        bar = full.ptr_to([stage])
        T.ptx.mbarrier.arrive.expect_tx(bar, BYTES)
        Tx.im2col_async(x[stage, :, :], X, pixel=pixel, channel=step % (C // STEP) * STEP, tap=(tap // 3, tap % 3),
                        taps=TAPS, padding=PADDING, stride=STRIDE, dilation=DILATION, mbar=bar)  # fmt: skip
        Tx.copy_async(f[stage, :, :], F[:, step * STEP : step * STEP + STEP], mbar=bar)

    if tid == 0:
        for step in T.serial(STAGES - 1):
            fetch(step)
    for step in T.serial(STEPS):
        T.ptx.mbarrier.try_wait(full.ptr_to([step % STAGES]), step // STAGES % 2)
        T.ptx.wgmma.fence()
        Tx.wg.gemm_async(sums, x[step % STAGES, :, :], f[step % STAGES, :, :], step != 0)
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(0)
        T.cuda.cta_sync()  # all warps are done with the stage of the step before
        if tid == 0 and step + STAGES - 1 < STEPS:
            fetch(step + STAGES - 1)
    Tx.wg.copy(Y[first : first + PIXELS, :], sums)


def by_loops(x: np.ndarray, f: np.ndarray) -> np.ndarray:
    """The same, a tap at a time."""
    padded = np.pad(x, ((0, 0), (PADDING[0],) * 2, (PADDING[1],) * 2, (0, 0)))
    y = np.zeros((N, P, Q, FILTERS), np.float32)
    for r in range(TAPS[0]):
        for s in range(TAPS[1]):
            met = padded[:, r * DILATION[0] :: STRIDE[0], s * DILATION[1] :: STRIDE[1]][:, :P, :Q]
            y += met @ f.reshape(FILTERS, *TAPS, C)[:, r, s].T
    return y.reshape(-1, FILTERS)


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (N, H, W, C)).astype(np.float32)
    f = rng.integers(-2, 3, (FILTERS, TAPS[0] * TAPS[1] * C)).astype(np.float32)
    y = np.zeros((ROWS, FILTERS), np.float32)
    exe = tw.compile(convolution, target="sm_90a")
    run = exe.simulate(x.astype("bfloat16"), f.astype("bfloat16"), y, check="all")
    assert np.array_equal(y[: N * P * Q], by_loops(x, f))
    assert not y[N * P * Q :].any()
    print(exe.report)
    print(f"{N * P * Q} pixels of {FILTERS} filters, exact; {len(run.warnings)} warnings")


if __name__ == "__main__":
    main()
