"""What this machine can do, and what to install for more."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from tilewright.errors import TilewrightError

BASE = ("numpy", "ml_dtypes", "rich", "typer")
EXTRA = ("cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm")
GET_BASE = "pip install --force-reinstall tilewright"
GET_EXTRA = "pip install 'tilewright[cuda]'"
CANARY = 64  # elements on each side of the matrix that the simulator transposes to show that it works


@dataclass(frozen=True, slots=True)
class Examined:
    """One line of the examination. works: False where something is missing; needed: without it nothing works.

    hint: how to get it.
    """

    what: str
    works: bool
    detail: str
    hint: str = ""
    needed: bool = False

    def __str__(self) -> str:
        line = f"{'ok' if self.works else '--'}  {self.what:<21} {self.detail}"
        return f"{line}\n    try: {self.hint}" if self.hint else line


def examine() -> Iterator[Examined]:
    """Python and the base packages, the simulator, the assembler, the disassembler, the GPU."""
    yield Examined("Python", True, platform.python_version(), needed=True)
    yield from (_package(name, GET_BASE, needed=True) for name in BASE)
    yield _simulator()
    yield from (_package(name, GET_EXTRA) for name in EXTRA)
    yield _assembler()
    yield _disassembler()
    yield _gpu()


def _package(name: str, hint: str, *, needed: bool = False) -> Examined:
    try:
        return Examined(name, True, metadata.version(name), needed=needed)
    except metadata.PackageNotFoundError:
        return Examined(name, False, "not installed", hint, needed)


def _simulator() -> Examined:
    """Test the simulator by a small kernel, which is dispatched, lowered, run with every check and compared."""
    try:
        import numpy as np

        from tilewright.compiler import simulate
        from tilewright.demo.kernel import make
        from tilewright.isa import ARCHS

        matrix = np.arange(CANARY * CANARY, dtype=np.uint16).view(np.float16).reshape(CANARY, CANARY)
        result = np.zeros_like(matrix)
        simulate(make(CANARY, swizzled=True), matrix, result)
        works = bool((result.view(np.uint16) == matrix.T.view(np.uint16)).all())
    except (ImportError, TilewrightError) as error:
        return Examined("simulator", False, str(error), GET_BASE, needed=True)
    detail = f"runs kernels for {', '.join(ARCHS)}" if works else "transposes a matrix wrongly"
    return Examined("simulator", works, detail, needed=True)


def _assembler() -> Examined:
    from tilewright.cuda.nvrtc import architectures, version
    from tilewright.isa import ARCHS

    try:
        archs = architectures()
        newer = [name for name in ARCHS if name not in archs]
        lacks = f", not for {', '.join(newer)}" if newer else ""
        return Examined("CUDA to machine code", True, f"{version()} for {', '.join(archs)}{lacks}")
    except TilewrightError as error:
        return Examined("CUDA to machine code", False, f"{error.what}: no stage ptx, no cubin", GET_EXTRA)


def _disassembler() -> Examined:
    """Look for nvdisasm, in the extra or in a CUDA toolkit."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        path = None
    else:
        path = find_nvidia_binary_utility("nvdisasm")
    if path is None:
        return Examined("machine code to text", False, "nvdisasm is not installed: no stage sass", GET_EXTRA)
    return Examined("machine code to text", True, f"nvdisasm at {path}")


def _gpu() -> Examined:
    """The driver's description of the GPU; its absence is no fault, as the simulator needs none."""
    from tilewright.cuda import driver

    try:
        devices = [str(driver.device(ordinal)) for ordinal in range(driver.device_count())]
    except TilewrightError as error:
        return Examined("GPU", False, f"{error.what}; kernels run on the simulator")
    if not devices:
        return Examined("GPU", False, "none found; kernels run on the simulator")
    return Examined("GPU", True, ", ".join(devices))
