"""Random kernels leave the same behind by the simulator, through NVRTC's PTX and back, and by plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.load.random_kernels import Array, random_kernel
from tilewright.cuda import entry_name
from tilewright.lang import parse_script


def alike(a: Array, b: Array) -> bool:
    """The same bits, but for those of a NaN."""
    if a.dtype.kind in "iu":
        return a.tobytes() == b.tobytes()
    wide, other = a.astype(np.float64), b.astype(np.float64)
    same = (wide == other) & (np.signbit(wide) == np.signbit(other))
    return bool((same | (np.isnan(wide) & np.isnan(other))).all())


def compare(seed: int) -> None:
    made = random_kernel(seed)
    exe = tw.compile(parse_script(made.text), "sm_90a")
    here, there = made.arguments(), made.arguments()
    exe.simulate(*here, check="all")
    loaded = tw.load_ptx(exe.source("ptx"))[entry_name(exe.lowered)]
    loaded.simulate(*there, grid=1, block=64, check="all")
    for k, wanted in enumerate(made.wanted, start=2):
        assert alike(here[k], wanted), f"{made.text}\nargument {k}: {here[k]}, and NumPy says {wanted}"
        assert alike(there[k], wanted), f"{made.text}\nargument {k}: {there[k]} by its PTX, and NumPy says {wanted}"


@pytest.mark.parametrize("seed", range(8))
def test_a_random_kernel_is_the_same_three_ways(seed: int) -> None:
    compare(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8, 400))
def test_many_random_kernels_are_the_same_three_ways(seed: int) -> None:
    compare(seed)
