"""Kernels in texts that lie in no file: their source is found all the same."""

from __future__ import annotations

import linecache
from typing import Any

__all__ = ["executed", "readable"]


def readable(text: str, file: str) -> str:
    """The name of a file of this text, which kernels and errors find there."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return file


def executed(text: str, file: str, **names: Any) -> dict[str, Any]:
    """What a text defines, as a file of that name; names: what it may use."""
    exec(compile(text, readable(text, file), "exec"), names)
    return names
