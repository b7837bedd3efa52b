"""torch on a machine without a GPU, for code that asks for one: CUDA's devices become the host.

Numbers drawn from a seed are then those of the host's generator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any


def redirected(load_inline: Callable[..., Any]) -> None:
    """From now on, in this process, tensors for a GPU are the host's. load_inline: what torch's shall be.

    Does nothing where torch is not installed.
    """
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        return

    class OnCpu(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
        """Calls of torch with the host in the place of a GPU."""

        def __torch_function__(
            self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            """The call, its devices exchanged."""
            if getattr(function, "__name__", "") in ("cuda", "pin_memory"):
                return args[0]
            named = {name: _on_host(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
            return function(*map(_on_host, args), **named)

    generator = torch.Generator

    def host_generator(device: Any = "cpu") -> Any:
        return generator(device=_on_host(device))

    torch.Generator = host_generator
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.Tensor.is_cuda = property(lambda self: True)
    torch.cuda.synchronize = torch.cuda.empty_cache = torch.cuda.manual_seed = torch.cuda.manual_seed_all = _nothing
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    OnCpu().__enter__()
    with suppress(ImportError):
        import torch.utils.cpp_extension as extensions

        extensions.load_inline = load_inline
    assert "torch" in sys.modules


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: there is no GPU to wait for."""


def _on_host(value: Any) -> Any:
    """The host in the place of a GPU; any other value itself."""
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return "cpu" if type(value).__name__ == "device" and str(value).startswith("cuda") else value
