"""What this machine can do, and what to install for more."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from tilewright.errors import TilewrightError

__all__ = ["Finding", "examine"]

EXTRA = "pip install 'tilewright[cuda]'"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination. works: False where something is missing. hint: how to get it."""

    what: str
    works: bool
    detail: str
    hint: str = ""

    def __str__(self) -> str:
        line = f"{'ok ' if self.works else '-- '} {self.what:<22} {self.detail}"
        return f"{line}\n    try: {self.hint}" if self.hint else line


def examine() -> Iterator[Finding]:
    """Python and the base packages, the assembler, the disassembler, the GPU."""
    yield Finding("Python", True, platform.python_version())
    for package in ("numpy", "ml_dtypes"):
        yield Finding(package, True, metadata.version(package))
    yield Finding("simulator", True, "every architecture, no GPU needed")
    yield _assembler()
    yield _disassembler()
    yield _gpu()


def _assembler() -> Finding:
    from tilewright.cuda.nvrtc import architectures

    try:
        known = architectures()
    except TilewrightError as error:
        return Finding("NVRTC", False, f"{error.what}: no cubin, no PTX", EXTRA)
    return Finding("NVRTC", True, f"assembles {', '.join(known)}")


def _disassembler() -> Finding:
    try:
        return Finding("nvdisasm", True, metadata.version("nvidia-cuda-nvdisasm"))
    except metadata.PackageNotFoundError:
        return Finding("nvdisasm", False, 'not installed: no stage "sass"', EXTRA)


def _gpu() -> Finding:
    try:
        from cuda.bindings import driver
    except ImportError:
        return Finding("GPU", False, "cuda-bindings is not installed", EXTRA)
    try:
        (status,) = driver.cuInit(0)
        count = driver.cuDeviceGetCount()[1] if int(status) == 0 else 0
    except Exception as error:  # a missing driver library fails in ways of its own
        return Finding("GPU", False, f"no CUDA driver ({error})", "kernels run on the simulator")
    if not count:
        return Finding("GPU", False, "none found", "kernels run on the simulator")
    device = driver.cuDeviceGet(0)[1]
    name = driver.cuDeviceGetName(100, device)[1].decode().rstrip("\0")
    return Finding("GPU", True, f"{count} x {name}")
