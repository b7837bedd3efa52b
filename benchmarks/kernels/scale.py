"""Each thread multiplies one element."""

from tilewright import T

BLOCK = 256


def scale(n: int):
    """y = x * factor for n float32 elements, n a multiple of 256."""

    @T.prim_func
    def scaled(x_ptr: T.handle, y_ptr: T.handle, factor: T.float32):
        x = T.match_buffer(x_ptr, (n,), "float32")
        y = T.match_buffer(y_ptr, (n,), "float32")
        T.device_entry()
        block = T.cta_id([n // BLOCK])
        thread = T.thread_id([BLOCK])
        i = block * BLOCK + thread
        y[i] = x[i] * factor

    return scaled
