"""Kernels that people call: each a function on arrays of torch, CuPy or NumPy, each a file that is read as an example.

    from tilewright import kernels

    y = kernels.softmax(x)  # on the GPU of x; for NumPy on the simulator

Read `rows.py` (how rows are dealt out to threads), `softmax.py` (the smallest whole kernel), then any other;
`operators.py` makes a kernel known to torch, `arrays.py` knows the libraries' arrays.
"""

from tilewright.kernels.layer_norm import layer_norm
from tilewright.kernels.rms_norm import rms_norm
from tilewright.kernels.softmax import softmax

__all__ = ["layer_norm", "rms_norm", "softmax"]
