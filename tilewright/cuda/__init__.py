"""How a kernel runs on a GPU: CUDA source, NVRTC, cache, launch.

Read `emit` first: the text of a kernel and its statements. It writes expressions by `emit_expr`, casts and calls of the
instruction table by `emit_call`; `emit_unit` has what all of them write on, and places in memory. `nvrtc`
assembles the text, `cache` keeps the result. `launch` runs it through the `driver`, on the arguments that `tensors`
reads, and makes an operator of torch.
"""

from tilewright.cuda.emit import *  # noqa: F403  # the room's public names are its modules' __all__
