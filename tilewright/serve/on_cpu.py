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

    class HostGenerator(torch.Generator):  # type: ignore[misc]  # likewise; a class, since annotations name it
        """torch's generator, on the host."""

        def __new__(cls, device: Any = "cpu") -> Any:
            """A generator of the host, whatever device is named."""
            return super().__new__(cls, device=_on_host(device))

    torch.Generator = HostGenerator
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.Tensor.is_cuda = property(lambda self: True)
    for name in ("synchronize", "empty_cache", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, _doing_nothing())
    torch.use_deterministic_algorithms = _doing_nothing()  # torch's own imports a compiler, which walls refuse
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    OnCpu().__enter__()
    with suppress(ImportError):
        import torch.utils.cpp_extension as extensions

        extensions.load_inline = load_inline
    assert "torch" in sys.modules


def _doing_nothing() -> Callable[..., None]:
    """A function without effect, as there is no GPU to wait for. Each is another: torch keeps a table of its own."""

    def nothing(*_: Any, **__: Any) -> None:
        """Do nothing."""

    return nothing


def _on_host(value: Any) -> Any:
    """The host in the place of a GPU; any other value itself."""
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return "cpu" if type(value).__name__ == "device" and str(value).startswith("cuda") else value
