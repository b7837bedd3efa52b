"""Every scalar row, with every modifier, means what its oracle says, on random bits and on the corners of its types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from tests.isa.numbers import decoded, flushed, value_of
from tests.isa.oracles import SCALAR_ORACLES
from tests.isa.scalar_inputs import covering, registers
from tests.isa.scalar_oracles import APPROXIMATE, true_value
from tilewright import isa
from tilewright.isa.forms import TYPES, Form
from tilewright.isa.table import Instruction

ROWS = [row for row in isa.INSTRUCTIONS.values() if row.forms[0].meaning.of_lanes is not None]


def scalars() -> Iterator[tuple[Instruction, Form, dict[str, Any]]]:
    for row in ROWS:
        for form in row.forms:
            for mods in covering(form):
                yield row, form, mods


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in SCALAR_ORACLES], ids=lambda row: row.name)
def test_a_scalar_row_means_what_its_oracle_says(row: Instruction) -> None:
    rng = np.random.default_rng(crc32(row.name.encode()))
    for form in row.forms:
        for mods in covering(form):
            given = registers(row, form, mods, 60, rng)
            assert form.meaning.of_lanes is not None
            with np.errstate(all="ignore"):
                found = np.broadcast_to(np.asarray(form.meaning.of_lanes(mods)(*given)), 60)
            bits = found.view(f"u{found.dtype.itemsize}") if found.dtype != bool else found
            named = {**mods, "name": row.name.partition(".")[2]}
            for place in range(60) if mods.get("rnd") not in ("approx", "full") else ():
                operands = [int(one[place]) for one in given]
                wanted = SCALAR_ORACLES[row.name](named, *operands)
                shown = f"{form.mnemonic(mods)} {list(map(hex, operands))}"
                assert hex(int(bits[place])) == hex(int(wanted)) or both_nan(found.dtype, int(bits[place]), wanted), (
                    shown
                )


def both_nan(kind: np.dtype[Any], ours: int, wanted: int) -> bool:
    """Which of the many a NaN is, the hardware says: tests/gpu/test_scalar_rows.py."""
    word = {np.dtype(np.float16): "f16", np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}.get(kind)
    word = "bf16" if str(kind) == "bfloat16" else word
    return word is not None and decoded(word, ours) == decoded(word, wanted) == "nan"


def test_every_scalar_row_has_an_oracle() -> None:
    assert {row.name for row in ROWS} == {*SCALAR_ORACLES, *APPROXIMATE}


NEAR = [
    (row, form, mods)
    for row, form, mods in scalars()
    if row.name in APPROXIMATE or mods.get("rnd") in ("approx", "full")
]


@pytest.mark.parametrize(("row", "form", "mods"), NEAR, ids=[form.mnemonic(mods) for _, form, mods in NEAR])
def test_an_approximation_is_the_true_value_rounded_once(row: Instruction, form: Form, mods: dict[str, Any]) -> None:
    name, word = row.name.partition(".")[2], str(mods["type"]).removesuffix("x2")
    given = registers(row, form, {**mods, "type": word}, 300, np.random.default_rng(1))
    kind = TYPES[word].numpy
    assert form.meaning.of_lanes is not None
    with np.errstate(all="ignore"):
        found = form.meaning.of_lanes(mods)(
            *(np.concatenate([one, one]).view(TYPES[str(mods["type"])].unsigned) for one in given)
        )
    values = found.view(kind)[:300].astype(np.float64)
    if word == "f64":  # of which the upper half counts
        given = [one & np.uint64(0xFFFFFFFF00000000) for one in given]
    for place, value in enumerate(values):
        operands = [
            value_of(word, flushed(word, int(one[place])) if mods.get("ftz") else int(one[place])) for one in given
        ]
        wanted = true_value(name, *operands)
        if name == "div" and mods["rnd"] == "approx" and 2.0**126 < abs(operands[1]) < np.inf:
            wanted = operands[0] * 0.0
        with np.errstate(over="ignore"):
            near = np.array(wanted).astype(np.float32 if kind.itemsize == 2 else kind).astype(kind)
        shown = (operands, value, float(near))
        if np.isnan(near):
            assert np.isnan(value), shown
        elif mods.get("ftz") and 0 < abs(float(near)) < float(
            np.finfo(np.float64 if kind.itemsize == 8 else np.float32).tiny
        ):
            assert value == 0, shown
        else:
            assert value == near or abs(value - float(near)) <= abs(float(near)) * 2.0 ** -(
                7 if kind.itemsize == 2 else 22
            ), shown


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_a_number_and_zero_is_that_number_however_it_is_rounded(rounding: str) -> None:
    small = np.array([1e-300, -1e-300, 5e-324, 1e300])
    zero = np.zeros(4)
    for mnemonic in (f"add.{rounding}.f64", f"fma.{rounding}.f64"):
        found = isa.opcode(mnemonic)
        assert found.form.meaning.of_lanes is not None
        ones = (np.ones(4),) if mnemonic.startswith("fma") else ()
        given = [
            one.view(np.uint64) for one in ((small, *ones, zero), (zero, *ones, small))[mnemonic.startswith("add")]
        ]

        assert found.form.meaning.of_lanes(found.mods)(*given).tolist() == small.tolist()


def test_a_product_beyond_all_numbers_does_not_meet_an_infinite_addend() -> None:
    found = isa.opcode("fma.rn.f64")
    assert found.form.meaning.of_lanes is not None
    large, end = np.array([1e300]).view(np.uint64), np.array([-np.inf]).view(np.uint64)

    with np.errstate(all="ignore"):
        assert found.form.meaning.of_lanes(found.mods)(large, large, end).tolist() == [-np.inf]
