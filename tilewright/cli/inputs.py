"""The arguments of a run from the command line: files, numbers, or random data made to fit the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType
from tilewright.errors import ArgumentError, choices
from tilewright.ir import Buffer, Kernel, Var, as_expr, walk
from tilewright.ir.evaluate import evaluate

__all__ = ["Argument", "make_arguments"]

Argument = NDArray[np.generic] | int | float


def make_arguments(
    kernel: Kernel, given: Mapping[str, object], sizes: Mapping[str, int], seed: int
) -> dict[str, Argument]:
    """One argument for each parameter, by the parameter's name.

    given: ``.npy`` files or numbers, by the name of a parameter or its buffer. sizes: symbolic extents. What is left is
    random, reproducible by ``seed``. Raises ArgumentError for a name that the kernel lacks and a size that is missing.
    """
    random = np.random.default_rng(seed)
    buffers = {buffer.data.name: buffer for buffer in kernel.buffers if isinstance(buffer.data, Var)}
    names = {param.name: param.name for param in kernel.params} | {b.name: name for name, b in buffers.items()}
    for name in given:
        if name not in names:
            raise ArgumentError(f"{kernel.name} has no parameter {name!r}", given=name, allowed=choices(name, names))
    chosen = {names[name]: value for name, value in given.items()}
    made: dict[str, Argument] = {}
    for param in kernel.params:
        if param.name in chosen:
            made[param.name] = _given(chosen[param.name])
        elif param.name in buffers:
            made[param.name] = _random(random, _shape(buffers[param.name], sizes), buffers[param.name].dtype)
        else:
            made[param.name] = 1.0 if param.dtype.is_float else 1
    return made


def _given(value: object) -> Argument:
    if isinstance(value, int | float):
        return value
    path = Path(str(value))
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}", given=str(value), allowed="a number or a .npy file")
    loaded: NDArray[np.generic] = np.load(path)
    return loaded


def _shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Raises ArgumentError where an extent depends on a size that was not given."""
    unknown = {node.name for node in walk(buffer.shape) if isinstance(node, Var)} - set(sizes)
    if unknown:
        raise ArgumentError(
            f"{buffer.name} has a symbolic shape",
            given=f"no size for {', '.join(sorted(unknown))}",
            hint=" ".join(f"--size {name}=256" for name in sorted(unknown)),
        )
    return tuple(int(evaluate(as_expr(extent), sizes)) for extent in buffer.shape)


def _random(random: np.random.Generator, shape: tuple[int, ...], kind: DType) -> NDArray[np.generic]:
    element = kind.element
    extents = (*shape, kind.lanes) if kind.lanes > 1 else shape
    if element.kind == "bool":
        return random.integers(0, 2, extents).astype(np.bool_)
    if element.is_float:
        return random.standard_normal(extents).astype(np.float32).astype(element.numpy)
    low = -100 if element.is_signed else 0
    return random.integers(low, 100, extents).astype(element.numpy)
