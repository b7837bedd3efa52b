"""How a kernel runs on a GPU: CUDA source, NVRTC, cache, launch."""

from tilewright.cuda.emit import *  # noqa: F403  # the room's public names are its modules' __all__
