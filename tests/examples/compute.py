"""The examples that compute, for the tests of both sides: ``main(run)`` of each calls ``run(kernel, *arrays)``."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tests.texts import imported
from tilewright.ir import Kernel

__all__ = ["COMPUTE", "EXAMPLES", "kernels", "module"]

EXAMPLES = Path(__file__).parents[2] / "examples"
COMPUTE = (
    "elementwise", "bias_gelu", "row_sum", "softmax", "layer_norm", "layer_norm_backward", "rms_norm", "cross_entropy",
    "quantize", "scan", "histogram", "stencil", "embedding", "matmul_ring", "flash_attention",
)  # fmt: skip


def module(name: str) -> ModuleType:
    """An example, imported."""
    return imported(EXAMPLES / f"{name}.py")


def kernels(name: str) -> list[Kernel]:
    """The kernels of an example."""
    return [value for value in vars(module(name)).values() if isinstance(value, Kernel)]
