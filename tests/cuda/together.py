"""Texts of kernels as one translation unit: to begin one takes NVRTC twenty times as long as a small kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cuda.nvrtc import Assembly, assemble
from tilewright.errors import ToolError

__all__ = ["together"]


def together(texts: Sequence[str], arch: str) -> Assembly:
    """All texts assembled, each in a namespace of its own; their kernels have different names.

    Raises ToolError of the text that is refused alone, too.
    """
    try:
        return assemble("".join(f"namespace n{k} {{\n{text}\n}}\n" for k, text in enumerate(texts)), arch)
    except ToolError:
        for text in texts:
            assemble(text, arch)
        raise
