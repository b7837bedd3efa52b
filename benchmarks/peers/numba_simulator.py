"""Numba's CUDA simulator (NUMBA_ENABLE_CUDASIM=1)."""

import json

import numpy as np

from benchmarks.measure import median_ms
from benchmarks.triton_interpreter import NUMBA, SMALL

NAME = f"{SMALL}: {NUMBA}"


def main():
    try:
        from benchmarks.peers.numba_kernels import scale
    except ImportError:
        return {NAME: None}
    x = np.arange(2048, dtype=np.float32)
    y = np.zeros_like(x)
    milliseconds = median_ms(lambda: scale[8, 256](x, y, np.float32(3)), repeats=3)
    assert np.array_equal(y, x * 3)
    return {NAME: milliseconds}


if __name__ == "__main__":
    print(json.dumps(main()))
