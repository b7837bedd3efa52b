"""CuTe DSL: from Python source to a cubin."""

import importlib
import json

from benchmarks.measure import median_ms

NAMES = ("CuTe DSL, from source", "CuTe DSL, compile again")


def main():
    try:
        import cutlass
        from cutlass import cute
        from cutlass.cute.runtime import make_fake_compact_tensor
    except ImportError:
        return dict.fromkeys(NAMES)
    from benchmarks.peers import cute_kernel

    a, b = (make_fake_compact_tensor(cutlass.Float16, (8, 16), stride_order=(1, 0)) for _ in range(2))

    def again():
        return cute.compile(cute_kernel.copy_tile, a, b, options="--gpu-arch sm_90a")

    def from_source():
        """CuTe DSL rewrites a function's source once; a function that is defined again is rewritten again."""
        importlib.reload(cute_kernel)
        return again()

    return {name: median_ms(call, repeats=15) for name, call in zip(NAMES, (from_source, again), strict=True)}


if __name__ == "__main__":
    print(json.dumps(main()))
