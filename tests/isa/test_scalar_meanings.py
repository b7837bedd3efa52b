"""Every scalar row, with every modifier, means what its oracle says, on random bits and on the corners of its types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from tests.isa.scalar_inputs import covering, registers
from tests.isa.scalar_oracles import ORACLES
from tilewright import isa
from tilewright.isa.table import Form, Instruction

ROWS = [row for row in isa.INSTRUCTIONS.values() if row.forms[0].meaning is not None]


def scalars() -> Iterator[tuple[Instruction, Form, dict[str, Any]]]:
    for row in ROWS:
        for form in row.forms:
            for mods in covering(form):
                yield row, form, mods


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in ORACLES], ids=lambda row: row.name)
def test_a_scalar_row_means_what_its_oracle_says(row: Instruction) -> None:
    rng = np.random.default_rng(crc32(row.name.encode()))
    for form in row.forms:
        for mods in covering(form):
            given = registers(row, form, mods, 60, rng)
            assert form.meaning is not None
            with np.errstate(all="ignore"):
                found = np.broadcast_to(np.asarray(form.meaning(mods)(*given)), 60)
            bits = found.view(f"u{found.dtype.itemsize}") if found.dtype != bool else found
            named = {**mods, "name": row.name.partition(".")[2]}
            for place in range(60):
                operands = [int(one[place]) for one in given]
                wanted = ORACLES[row.name](named, *operands)
                shown = f"{form.mnemonic(mods)} {list(map(hex, operands))}"
                assert hex(int(bits[place])) == hex(int(wanted)), shown


def test_every_scalar_row_has_an_oracle() -> None:
    assert {row.name for row in ROWS} == set(ORACLES)
