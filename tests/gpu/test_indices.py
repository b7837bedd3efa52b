"""Indices beyond 2**31, and rows further apart than they are long, on hardware as on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.test_widths import COLUMNS, FAR, ROWS, one_dimension
from tests.sim.test_pitches import BASE, add_one, constant, padded, tile

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def far_array() -> np.ndarray[Any, Any]:
    return np.zeros((ROWS, COLUMNS), np.int8)


@pytest.mark.parametrize("kernel", FAR, ids=lambda kernel: kernel.name)
def test_an_element_beyond_two_to_the_31_is_reached(kernel: Any, far_array: np.ndarray[Any, Any]) -> None:
    far_array[-1] = 0

    tw.compile(kernel, "sm_90a")(far_array.reshape(-1) if kernel is one_dimension else far_array, ROWS - 1, on="gpu")

    assert far_array[-1].tolist() == [7] * 32 + [0] * (COLUMNS - 32)


def test_symbolic_strides_take_their_values_from_the_arrays() -> None:
    a, whole = BASE[1:9, 4:54], np.zeros((8, 80), np.float32)

    tw.compile(add_one, "sm_90a")(a, whole[:, 8:58], on="gpu")

    assert np.array_equal(whole[:, 8:58], a + 1)
    assert not whole[:, :8].any()
    assert not whole[:, 58:].any()


def test_constant_strides_are_those_of_the_array() -> None:
    a, b = padded(8, 32, 40), np.zeros((8, 40), np.float32)
    a[...] = BASE[:8, :32]

    tw.compile(constant, "sm_90a")(a, b, on="gpu")

    assert np.array_equal(b[:7, :32], BASE[:7, :32])


def test_a_tile_of_a_pitched_array_is_copied() -> None:
    a, b = np.random.default_rng(0).random((70, 200)).astype(np.float16), np.zeros((64, 64), np.float16)

    tw.compile(tile, "sm_90a")(70, 100, 200, a[:, :100], b, on="gpu")

    assert np.array_equal(b, a[:64, :64])
