"""Triton: a persistent matrix product by tensor descriptors, from Python source to a cubin; nothing is kept."""

import importlib
import json
import os

from benchmarks.measure import median_ms

NAME = "Triton, from source"
TILE = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "PROGRAMS": 132, "HALVES": True, "SPECIAL": False}
BOXES = {"a": (128, 64), "b": (256, 64), "c": (128, 128)}


def main():
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        from benchmarks.gpu import matmul_triton
    except ImportError:
        return {NAME: None}
    types = {name: f"tensordesc<bf16[{rows}, {columns}]>" for name, (rows, columns) in BOXES.items()}
    types |= dict.fromkeys(("m", "n", "k"), "i32") | dict.fromkeys(TILE, "constexpr")

    def compiled():
        """A function that is defined again is read again."""
        importlib.reload(matmul_triton)
        source = ASTSource(matmul_triton.matmul_kernel, types, TILE)
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})
        assert "wgmma" in made.asm["ptx"]
        assert "cp.async.bulk.tensor" in made.asm["ptx"]
        return made.asm["cubin"]

    return {NAME: median_ms(compiled, repeats=3)}


if __name__ == "__main__":
    print(json.dumps(main()))
