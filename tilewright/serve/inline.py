"""torch's `load_inline` without a compiler for the host: the kernels of its CUDA text, each called with its launch.

Source: PyTorch, "torch.utils.cpp_extension.load_inline".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import ArgumentError, choices
from tilewright.load import load_cu
from tilewright.serve.host_functions import host_function

TARGET = "sm_90a"


class InlineModule:
    """Kernels by name: ``module.add(a, b, c, n, grid=4, block=256)`` runs one on the simulator."""

    def __init__(self, name: str, source: str, functions: Sequence[str]) -> None:
        self._name, self._functions, self._source = name, functions, source
        self._module = load_cu(source + "\n", TARGET)

    def __getattr__(self, name: str) -> Any:
        if name in self._module.kernels:
            return self._module[name].simulate
        if name in self._functions:
            if (function := host_function(self._module, self._source, name)) is not None:
                return function
            raise ArgumentError(
                f"{self._name}.{name} is a function of the host, which nothing here compiles",
                given=f"functions={list(self._functions)}",
                allowed=choices(name, self._module.kernels),
                hint=f"{self._name}.KERNEL(..., grid=(...), block=(...)), with the kernel's own arguments",
            )
        raise AttributeError(f"{self._name} has no kernel {name}: {', '.join(self._module.kernels)}")


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str] = (),
    cuda_sources: str | Sequence[str] = (),
    functions: Sequence[str] | str | dict[str, str] = (),
    *_: Any,
    **__: Any,
) -> InlineModule:
    """The kernels of ``cuda_sources``; flags for compilers, folders and the host's C++ mean nothing here."""
    sources = [cuda_sources] if isinstance(cuda_sources, str) else [*cuda_sources]
    if not sources:
        raise ArgumentError(f"load_inline({name!r}) has no CUDA text", given="cuda_sources=[]", allowed="a kernel")
    names = [functions] if isinstance(functions, str) else list(functions)
    text = "\n".join(line for line in "\n".join(sources).splitlines() if not _is_of_torch(line))
    return InlineModule(name, text, names)


def _is_of_torch(line: str) -> bool:
    """Does it include a header of torch, which only the host's code needs?"""
    words = line.replace(" ", "")
    return words.startswith("#include") and any(part in words for part in ("torch/", "ATen/", "c10/", "pybind11"))
