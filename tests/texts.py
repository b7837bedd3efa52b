"""Kernels in texts: of files that are imported by their path, and of none, whose source is found all the same."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["changed", "executed", "imported", "readable"]


def readable(text: str, file: str) -> str:
    """The name of a file of this text, which kernels and errors find there."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return file


def executed(text: str, file: str, **names: Any) -> dict[str, Any]:
    """What a text defines, as a file of that name; names: what it may use."""
    exec(compile(text, readable(text, file), "exec"), names)
    return names


def imported(file: Path, *, listed: bool = False) -> ModuleType:
    """The module of a file, made anew. listed: others find it by the file's name."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if listed:
        sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def changed(
    texts: Mapping[str, str], before: str, after: str, folder: Path, *, within: Sequence[str] = ()
) -> ModuleType:
    """Modules read anew as ``changed_<name>``, where the first place of a text in the first file that has it is another
    text; the last of them. texts: by the full name of each, which may import those before it. within: which may change.
    """
    place = next(name for name in within or texts if before in texts[name])
    for name, text in texts.items():
        own = text.replace(before, after, 1) if name == place else text
        for other in texts:
            own = own.replace(f"from {other} import", f"from changed_{other.rpartition('.')[2]} import")
        path = folder / f"changed_{name.rpartition('.')[2]}.py"
        path.write_text(own, "utf-8")
        module = imported(path, listed=True)
    return module
