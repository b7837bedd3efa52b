"""Kernels that host code launches in branches which proposed sizes do not take, ``if (n < 1024) k<32><<<...>>>(...);
else k<1024><<<...>>>(...);``, and sizes with which it comes to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.launching import kernels_of
from tilewright.load import LoadedModule
from tilewright.load.cu_conditions import constants_of
from tilewright.load.cu_launches import LaunchShape, launched, unreached
from tilewright.load.cu_tree import bare

if TYPE_CHECKING:
    from tilewright.load.cu_numbers import Number

MOST_KERNELS = 4  # that are launched in branches
MOST_SIZE = 1 << 14  # with which a branch is taken


def in_other_branches(
    module: LoadedModule, numbers: Mapping[str, Number], names: Collection[str], kernels: Collection[str]
) -> dict[str, dict[str, int]]:
    """Kernels by the names by which the module has them, with the sizes that lead to them: of each template the
    instance with most threads. numbers: those with which host code launches others, the ``kernels``. names: of sizes
    that may be other ones.
    """
    asked = {module[name].entry.name for name in kernels}
    chosen = dict[str, tuple[int, str, dict[str, int]]]()
    for shape in (shape for text in module.texts for shape in unreached(text, numbers, module.texts)):
        for name in kernels_of(module, shape)[:1]:
            if module[name].entry.name in asked:
                continue
            sizes, threads = _leading_to(module, shape, numbers, names)
            if sizes and threads > chosen.get(bare(name), (0, "", {}))[0]:
                chosen[bare(name)] = threads, name, sizes
    return {name: sizes for _, name, sizes in [*chosen.values()][:MOST_KERNELS]}


def _leading_to(
    module: LoadedModule, shape: LaunchShape, numbers: Mapping[str, Number], names: Collection[str]
) -> tuple[dict[str, int], int]:
    """A size with which host code comes to a launch, and the threads of a CTA of that; none where no size does."""
    for name, size in _ways(shape, numbers, names):
        for text in module.texts:
            for other in launched(text, shape.kernel, given={**numbers, name: size}, around=module.texts):
                if other.line == shape.line and other.kernel == shape.kernel and not (other.unless or other.lacks):
                    return {name: size}, prod(other.block)
    return {}, 0


def _ways(shape: LaunchShape, numbers: Mapping[str, Number], names: Collection[str]) -> Iterator[tuple[str, int]]:
    """Sizes beside the constants of the condition by which host code does not come to a launch."""
    constants = constants_of(shape.host, shape.unless, numbers) if shape.host is not None else []
    for name in sorted(names, key=lambda name: name not in shape.unless):
        for constant in dict.fromkeys(constants):
            for size in (constant, 2 * constant, constant + 1, constant - 1, constant // 2):
                if 0 < size <= MOST_SIZE and size != numbers.get(name):
                    yield name, size


def left_out(module: LoadedModule, file: Path, sizes: Mapping[str, Number]) -> list[str]:
    """The launches that host code does not come to with these numbers, in words."""
    shapes = [shape for text in module.texts for shape in unreached(text, sizes, module.texts)]
    return list(dict.fromkeys(
        f"{file.name}:{shape.line}: not launched with these numbers: {' '.join(shape.unless.split())} decides otherwise"
        for shape in shapes if kernels_of(module, shape)))  # fmt: skip
