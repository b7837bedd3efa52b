"""Finding the kernel that ``FILE.py:KERNEL`` names."""

from __future__ import annotations

import importlib.util
import sys
from ast import literal_eval
from pathlib import Path
from types import ModuleType

from tilewright.errors import ArgumentError, choices
from tilewright.ir import Kernel
from tilewright.lang import JitKernel

__all__ = ["constants", "kernel_named", "split_place"]


def split_place(place: str) -> tuple[Path, str | None]:
    """``examples/a.py:k`` as the file and the kernel's name, None where the file alone is given.

    Raises ArgumentError where there is no such file.
    """
    file, _, name = place.partition(":") if not Path(place).exists() else (place, "", "")
    path = Path(file)
    if not path.is_file():
        raise ArgumentError(f"there is no file {file}", given=place, allowed="FILE.py or FILE.py:KERNEL")
    return path, name or None


def constants(settings: list[str]) -> dict[str, object]:
    """``N=64`` as a Python value by name: ints, floats, booleans, and strings for the rest."""
    values: dict[str, object] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ArgumentError(f"{setting!r} sets nothing", given=setting, allowed="NAME=VALUE")
        values[name] = _value(text)
    return values


def _value(text: str) -> object:
    try:
        value: object = literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)
    return value


def kernel_named(place: str, const: list[str]) -> Kernel:
    """The kernel of a file: the named one, or its only one. A ``@T.jit`` kernel is specialised with ``const``.

    Raises ArgumentError with the file's kernels where the name fits none, or several could be meant.
    """
    path, name = split_place(place)
    found = _kernels(_imported(path))
    if not found:
        raise ArgumentError(f"{path} has no kernels", hint="decorate a function with @T.prim_func, at the top level")
    if name is None:
        name = next(iter(found)) if len(found) == 1 else path.stem
    if name not in found:
        raise ArgumentError(
            f"{path} has no kernel {name!r}" if ":" in place else f"{path} has several kernels",
            given=place,
            allowed=choices(name, found),
            hint=f"{path}:{next(iter(found))}",
        )
    kernel = found[name]
    return kernel if isinstance(kernel, Kernel) else _specialised(kernel, constants(const), name)


def _specialised(kernel: JitKernel, values: dict[str, object], name: str) -> Kernel:
    missing = [constant for constant in kernel.constants if constant not in {**kernel.defaults, **values}]
    if missing or set(values) - set(kernel.constants):
        raise ArgumentError(
            f"{name} takes its constants on the command line",
            given=", ".join(values) or "none",
            allowed=", ".join(kernel.constants),
            hint=" ".join(f"--const {constant}=64" for constant in kernel.constants),
        )
    return kernel.specialize(**values)


def _kernels(module: ModuleType) -> dict[str, Kernel | JitKernel]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Kernel | JitKernel)}


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
