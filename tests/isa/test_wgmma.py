"""wgmma: from descriptors and registers to D, against the manual's formulas, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.assembling import every_form
from tests.isa.tmem_machines import PlainUnit
from tests.isa.wgmma_oracles import DENSE
from tests.isa.wgmma_products import assert_product, descriptor, majors_of, named, small
from tests.tile.kernels import whole_number
from tilewright.errors import SimulationError
from tilewright.isa import wgmma_widths
from tilewright.isa.table import Bound
from tilewright.isa.wgmma import float8_sum

Array = NDArray[Any]
EVERY = [bound for bound in every_form() if bound.instruction.name in DENSE and bound.form.issue]
WIDE = {
    (bound.instruction.name, bound.mods["in_dtype"]): bound for bound in EVERY
}  # the last, and widest, of each type
FORMS = [*(bound for bound in EVERY if int(str(bound.mods["N"])) <= 32), *WIDE.values()]


@pytest.mark.parametrize("bound", FORMS, ids=named)
def test_a_product_is_what_its_oracle_says(bound: Bound) -> None:
    mods, rng = bound.mods, np.random.default_rng(len(named(bound)))
    n, k = whole_number(mods["N"]), whole_number(mods["K"])
    mode = n // 8 % 4
    kinds = str(mods["in_dtype"]), str(mods["b_dtype"] or mods["in_dtype"])
    (a, a_bytes), (b, b_bytes) = small(kinds[0], (64, k), rng), small(kinds[1], (n, k), rng)
    majors = majors_of(bound)
    made = descriptor(1024, mode, 64, majors[0]), descriptor(1 << 16, mode, n, majors[1])

    assert_product(bound, (a, b), (a_bytes, b_bytes), made, rng, scaled=bool(n // 8 % 3))


def test_every_width_of_the_manual_and_the_assembler_is_there() -> None:
    assert wgmma_widths("bfloat16") == tuple(range(8, 257, 8))
    assert wgmma_widths("int8") == (8, 16, 24, *range(32, 257, 16))


@pytest.mark.parametrize(
    ("desc", "what"),
    [(1 << 14, "matrix descriptor: constant"), (np.arange(128), "the same in all threads")],
)
def test_a_descriptor_that_is_none_is_refused(desc: Any, what: str) -> None:
    bound = next(bound for bound in FORMS if bound.mods["in_dtype"] == "bfloat16" and "transA" in bound.mods)
    operands = {name: np.zeros((1, 128), np.uint64) for name in ("dA", "dB", "scaleD")}
    operands["dB"] = operands["dB"] + np.asarray(desc, np.uint64)

    with pytest.raises(SimulationError, match=what):
        PlainUnit(np.zeros((1, 1 << 14), np.uint8), np.zeros((1, 1, 1)), [0]).completed(bound, operands)


def float8(a: list[float], b: list[float], before: float) -> float:
    row, column = (np.array([[part]], np.float32) for part in (a, b))
    return float(float8_sum(row, column, np.array([[[before]]], np.float32))[0, 0, 0])


@pytest.mark.parametrize(
    ("a", "b", "before", "wanted"),
    [
        ([1.0], [1.0], 2.0**-13, 1 + 2.0**-13),  # the last bit that is kept
        ([1.0], [1.0], 2.0**-14, 1.0),  # cut
        ([1.0], [1.0], -(2.0**-14), 1.0),  # cut towards zero, not down
        ([1.0] * 3, [2.0**-14] * 3, 1.0, 1.0),  # each by itself
        ([0.0], [1.0], 1 + 2.0**-23, 1.0),  # the accumulator's low 10 bits
        ([0.0], [0.0], 0.0, 0.0),
        ([448.0, -448.0], [448.0, 448.0], 3.0, 0.0),  # below the largest by more than 13 bits
        ([448.0, -448.0], [448.0, 448.0], 32.0, 32.0),
    ],
)
def test_a_sum_of_float8_keeps_13_bits_below_the_largest_exponent(
    a: list[float], b: list[float], before: float, wanted: float
) -> None:
    assert float8(a, b, before) == wanted
