"""Results near the smallest normal number under ``.ftz``: whether they are flushed is seen after they are rounded.

The wanted bits are what an H200 gave.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import isa
from tilewright.ir import Argument

LEAST = 0x00800000  # 2^-126
SIGN = 0x80000000


def fma(rnd: str, a: int, b: int, c: int) -> int:
    row = isa.INSTRUCTIONS["ptx.fma"]
    form = next(one for one in row.forms if "f32" in one.wording.modifiers["type"])
    mods: dict[str, Argument] = {"type": "f32", "rnd": rnd, "ftz": True, "sat": False, "relu": False, "oob": False}
    assert form.meaning.of_lanes is not None
    found = form.meaning.of_lanes(mods)(*(np.array([bits], np.uint32) for bits in (a, b, c)))
    return int(found.view(np.uint32)[0])


def float_bits(value: float) -> int:
    return int(np.array(value, np.float32).view(np.uint32))


@pytest.mark.parametrize(("rnd", "below", "wanted"), [
    ("rn", 25, LEAST), ("rn", 24, 0), ("rn", 40, LEAST),
    ("rp", 25, LEAST), ("rp", 24, 0),
    ("rz", 25, 0), ("rm", 25, 0), ("rm", 40, 0),
])  # fmt: skip
def test_a_sum_just_below_the_smallest_normal_number_is_flushed_if_it_rounds_to_less(
    rnd: str, below: int, wanted: int
) -> None:
    """2^-126 - 2^-(126 + below)."""
    assert fma(rnd, float_bits(2.0**-63), float_bits(-(2.0 ** -(63 + below))), LEAST) == wanted


def test_a_negative_sum_is_rounded_the_other_way() -> None:
    operands = float_bits(2.0**-63), float_bits(2.0**-88), LEAST | SIGN

    assert fma("rm", *operands) == LEAST | SIGN
    assert fma("rp", *operands) == SIGN


@pytest.mark.parametrize(("rnd", "converted"), [("rn", 0), ("rp", LEAST), ("rz", 0)])
def test_a_conversion_and_a_reciprocal_are_flushed_as_sums_are(rnd: str, converted: int) -> None:
    """2^-126 - 2^-150.6, and 1 / (2^126 + 2^103)."""
    assert scalar("ptx.cvt", {"type": "f32", "atype": "f64", "rnd": rnd}, 0x380FFFFFEAB8506C) == converted
    assert scalar("ptx.rcp", {"type": "f32", "rnd": rnd}, 0x7E800001) == 0


def scalar(name: str, mods: dict[str, Any], bits: int) -> int:
    row = isa.INSTRUCTIONS[name]
    form = next(one for one in row.forms if all(value in one.wording.modifiers[key] for key, value in mods.items()))
    assert form.meaning.of_lanes is not None
    every = {key: False for key in form.wording.modifiers} | {"ftz": True} | mods
    found = form.meaning.of_lanes(every)(np.array([bits], np.uint64 if mods.get("atype") == "f64" else np.uint32))
    return int(found.view(np.uint32)[0])
