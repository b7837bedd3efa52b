"""One kernel in Numba's CUDA; the simulator replaces this module's ``cuda`` while it runs."""

from numba import cuda


@cuda.jit
def scale(x, y, factor):
    i = cuda.grid(1)
    y[i] = x[i] * factor
