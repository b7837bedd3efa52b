"""One cold start, in a process that has imported none of the measured packages; see `benchmarks.gpu.cold`."""

from __future__ import annotations

import json
import sys
import time

SIZE = 1024


def start(which: str) -> dict[str, float]:
    """Seconds of the import, and from there to the end of the first launch."""
    import torch

    a = torch.randn(SIZE, device="cuda")
    b = torch.zeros_like(a)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    if which == "tilewright":
        import tilewright as tw

        imported = time.perf_counter()
        from benchmarks.gpu.scale import kernel

        tw.compile(kernel)(a, b, 2.0)
    else:
        import triton  # noqa: F401  timed by itself

        imported = time.perf_counter()
        from benchmarks.gpu.scale_triton import scale

        scale[(SIZE // 128,)](a, b, 2.0, SIZE, BLOCK=128)
    torch.cuda.synchronize()
    end = time.perf_counter()
    assert torch.equal(b, a * 2)
    return {"import": imported - begin, "first launch": end - imported}


if __name__ == "__main__":
    print(json.dumps(start(sys.argv[1])))
