"""Matrix products against NumPy: types, ragged sizes, tiles; and the assembled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright import kernels
from tilewright.kernels.matmul import Tiles, product

Array = NDArray[Any]
SMALL = Tiles(m=64, n=64, groups=1, stages=2)


def operands(m: int, n: int, k: int, kind: str = "bfloat16") -> tuple[Array, Array]:
    """A and B of integers, whose sums are exact in any order."""
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.integers(-2, 3, shape).astype(np.float32).astype(kind) for shape in ((m, k), (n, k)))
    return a, b


def exact(a: Array, b: Array) -> Array:
    found: Array = (a.astype(np.float32) @ b.astype(np.float32).T).astype(a.dtype)
    return found


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(128, 256, 64), (72, 264, 136)])
def test_products_are_numpys(shape: tuple[int, int, int], kind: str) -> None:
    a, b = operands(*shape, kind)
    assert np.array_equal(kernels.matmul(a, b.T), exact(a, b))


@pytest.mark.parametrize("tiles", [SMALL, Tiles(m=128, n=64, stages=2, cluster=1)])
def test_the_ring_passes_every_check(tiles: Tiles) -> None:
    a, b = operands(136, 72, 200)
    c = np.zeros((136, 72), a.dtype)
    run = product(tiles, "bfloat16", "bfloat16").simulate(a, b, c, 1, check="all")
    assert run.warnings == []
    assert np.array_equal(c, exact(a, b))


def test_the_kernel_assembles_without_spills_or_complaints() -> None:
    resources = product(Tiles(), "bfloat16", "bfloat16").resources
    assert (resources.registers, resources.spill_store_bytes, resources.local_bytes) == (168, 0, 0)
