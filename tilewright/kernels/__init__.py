"""Kernels that people call: each a function on arrays of torch, CuPy or NumPy, each a file that is read as an example.

    from tilewright import kernels

    y = kernels.softmax(x)  # on the GPU of x; of NumPy on the simulator

Read `rows` (how rows are distributed to threads), `softmax` (the smallest kernel with a gradient), then any
other; `operators` registers a kernel with torch, and makes a call like one before cheap, `arrays` handles the arrays of
the libraries. Of several GPUs: `shots`, then `spread_matmul` beside `matmul`; `several` has their calls.
"""

from tilewright.kernels.add_rms_norm import add_rms_norm
from tilewright.kernels.attention_calls import attention, attention_backward, sdpa
from tilewright.kernels.attention_decode import attention_decode
from tilewright.kernels.cross_entropy import cross_entropy
from tilewright.kernels.layer_norm import layer_norm
from tilewright.kernels.products import matmul
from tilewright.kernels.quantize import quantize
from tilewright.kernels.rms_norm import rms_norm
from tilewright.kernels.several import all_gather_matmul, all_reduce, matmul_reduce_scatter
from tilewright.kernels.silu_mul import silu_mul
from tilewright.kernels.softmax import softmax
from tilewright.kernels.sums import column_sum, row_argmax, row_sum
from tilewright.kernels.transpose import transpose

__all__ = [
    "add_rms_norm", "all_gather_matmul", "all_reduce", "attention", "attention_backward", "attention_decode",
    "column_sum", "cross_entropy", "layer_norm", "matmul", "matmul_reduce_scatter", "quantize", "rms_norm",
    "row_argmax", "row_sum", "sdpa", "silu_mul", "softmax", "transpose",
]  # fmt: skip
