"""CuTe DSL: a product as `kernels.matmul` has it, from Python source to a cubin for sm_90a."""

import importlib
import json

from benchmarks.measure import median_ms

NAME = "CuTe DSL, from source"


def main():
    try:
        import cutlass
        from cutlass import cute
        from cutlass.cute.runtime import make_fake_compact_tensor
    except ImportError:
        return {NAME: None}
    from benchmarks.peers import cute_matmul_kernel

    m, n, k = (cute.sym_int32(divisibility=8) for _ in range(3))
    arrays = [
        make_fake_compact_tensor(cutlass.BFloat16, shape, stride_order=(1, 0), assumed_align=16)
        for shape in ((m, k), (n, k), (m, n))
    ]

    def from_source():
        """CuTe DSL rewrites a function's source once; a function that is defined again is rewritten again."""
        importlib.reload(cute_matmul_kernel)
        return cute.compile(cute_matmul_kernel.matmul, *arrays, cutlass.Int32(66), options="--gpu-arch sm_90a")

    return {NAME: median_ms(from_source, repeats=3)}


if __name__ == "__main__":
    print(json.dumps(main()))
