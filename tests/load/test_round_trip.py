"""Our own kernels through CUDA text, NVRTC's PTX and back: the same bytes, and the same findings."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.cuda import entry_name
from tilewright.demo.kernel import make
from tilewright.errors import SimulationError

T, Tx = tw.T, tw.Tx


@T.prim_func
def reversed_without_barrier(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    tile = T.alloc_shared((64,), "float32")
    tile[tid] = A[tid]
    B[tid] = tile[63 - tid]


def there_and_back(kernel: object, *args: np.ndarray) -> None:
    """Run the kernel's PTX on the arguments."""
    made = tw.compile(kernel, "sm_90a")
    launch, grid = made.lowered.launch, made.bind(*args).grid
    assert launch is not None
    loaded = tw.load_ptx(made.source("ptx"))[entry_name(made.lowered)]
    loaded.simulate(*args, grid=grid, block=launch.threads, cluster=launch.cluster)


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (make(64, swizzled=True), ((64, 64), (64, 64))),
        (make(64, swizzled=False), ((64, 64), (64, 64))),
    ],
)
def test_a_kernel_gives_the_same_bytes_by_its_ptx(kernel: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    values = [np.random.default_rng(k).standard_normal(shape).astype(np.float16) for k, shape in enumerate(shapes)]
    here, there = ([value.copy() for value in values] for _ in range(2))

    tw.simulate(kernel, *here)
    there_and_back(kernel, *there)

    assert all(np.array_equal(a.view(np.uint16), b.view(np.uint16)) for a, b in zip(here, there, strict=True))


def test_a_race_is_found_on_both_ways() -> None:
    arrays = [np.zeros(64, np.float32) for _ in range(2)]

    with pytest.raises(SimulationError, match="race"):
        tw.simulate(reversed_without_barrier, *arrays)
    with pytest.raises(SimulationError, match="race"):
        there_and_back(reversed_without_barrier, *arrays)
