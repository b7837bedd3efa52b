"""A program of the documents' language, tried in every way at once; and what its results are compared with."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tilewright as tw
from tilewright.ir import Kernel
from tilewright.lang import parse_script

__all__ = ["close", "data", "eq", "multiplied", "rng", "run"]

rng = np.random.default_rng(0)


def run(kernel: Kernel, *args: Any, target: str = "sm_90a", warns: bool = False) -> None:
    """Under every check; its script reads back, and its CUDA text becomes machine code of the target.

    warns: it has fallbacks or the like, and only its results count.
    """
    exe = tw.compile(kernel, target=target)
    said = exe.simulate(*args, check="all").warnings
    assert warns or not said, said
    assert parse_script(kernel.script()) == kernel
    assert exe.cubin


def data(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small integers of any dtype."""
    made = rng.integers(0, 100, shape)
    return made.astype("f4").astype(ml_dtypes.bfloat16) if dtype == "bfloat16" else made.astype(dtype)


def multiplied(kernel: Kernel, m: int, n: int, k: int, *, sign: int = 1, **how: Any) -> None:
    """It makes A B.T, of two float16 matrices of rows along K, in float32."""
    a, b = (rng.integers(-3, 4, (rows, k)).astype("f2") for rows in (m, n))
    c = np.zeros((m, n), "f4")
    run(kernel, a, b, c, **how)
    eq(c, sign * (a.astype("f4") @ b.astype("f4").T))


def eq(found: Any, wanted: Any) -> None:
    """Equal in every bit that counts; NaN is NaN."""
    np.testing.assert_array_equal(found, np.broadcast_to(wanted, np.shape(found)))


def close(found: Any, wanted: Any, rtol: float = 1e-3) -> None:
    """Equal but for the rounding of single operations."""
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=rtol, atol=1e-3)
