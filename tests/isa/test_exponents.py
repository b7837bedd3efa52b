"""Powers of two in 8 bits: what lies at the ends of their range."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.isa.scalar.converting import exponents

LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("number", "rounding", "finite", "code"),
    [(np.inf, "rz", True, 254), (np.inf, "rz", False, 255), (np.nan, "rp", True, 255), (LARGEST, "rp", True, 254),
     (LARGEST, "rp", False, 255), (LARGEST, "rz", False, 254), (-8.0, "rz", False, 130), (3.0, "rp", False, 129),
     (3.0, "rz", False, 128)],
)  # fmt: skip
def test_an_exponent_beyond_the_range_is_the_largest_or_nan(number, rounding, finite, code) -> None:
    one = np.full((1, 1, 32), number, np.float32)
    assert exponents(rnd=rounding, finite=finite)(one, one).view(np.uint8).reshape(-1)[0] == code
