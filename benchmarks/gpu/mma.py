"""A matrix product by mma.sync, 4096^3 in float16, beside a loop of bare `mma`, and cuBLAS, which has wgmma.

python -m benchmarks.gpu mma
"""

from __future__ import annotations

from functools import partial

from benchmarks.gpu.measure import Claim, HandWritten, Table

SIZE = 4096
TIMES = 4000  # rounds of the loop
WARPS = (4, 8, 16)  # of a CTA that does nothing else, one on each multiprocessor
FLOPS = 2 * 16 * 8 * 16 * 8  # of a warp in a round


def run() -> Table:
    import torch

    from benchmarks.gpu.memory_bound import Captured, cold
    from benchmarks.gpu.mma_kernels import BARE, product

    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in "ab")
    d, y = torch.empty_like(a), torch.empty(1, device="cuda")
    made, ctas = product(), torch.cuda.get_device_properties(0).multi_processor_count
    wanted = a @ b.T
    made(a, b, d)
    assert torch.allclose(d, wanted, rtol=1e-2, atol=0.5), "the product is wrong"
    calls = {"tilewright, mma.sync": Captured(partial(made, a, b, d)), "cuBLAS": Captured(lambda: a @ b.T)}
    flops = dict.fromkeys(calls, 2 * SIZE**3)
    for warps in WARPS:
        text = BARE.replace("THREADS", str(32 * warps)).replace("TIMES", str(TIMES))
        name = f"a loop of mma, {warps} warps"
        calls[name] = Captured(partial(HandWritten(text, "bare", 32 * warps), ctas, y))
        flops[name] = ctas * warps * TIMES * FLOPS
    rates = {name: flops[name] / seconds / 1e12 for name, seconds in cold(calls).items()}
    ours, bare = rates["tilewright, mma.sync"], rates["a loop of mma, 8 warps"]
    rows = tuple((name, f"{rate:.0f}", f"{rate / bare:.3f}") for name, rate in rates.items())
    claim = Claim("the product's rate, of the loop's with as many warps", ours / bare, 0.9)
    return Table("A product by mma.sync", ("4096^3, float16", "TFLOP/s", "of the loop"), rows, (claim,))


if __name__ == "__main__":
    print(run().markdown())
