"""tensormap.replace: each field against the map that has it from the beginning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.isa.machines import PlainMachine
from tilewright import isa
from tilewright.ir.tensor_map import MapFields
from tilewright.isa.table import Bound

BEFORE = tw.TensorMap(np.zeros((5, 7, 64), np.float32), (2, 3, 8), 1, steps=(1, 2, 1)).fields.at(1 << 36 | 4096)
CHANGES: dict[str, tuple[str, int, int, MapFields]] = {
    "address": ("global_address", 0, 0xABCD0 << 16, replace(BEFORE, address=0xABCD0 << 16)),
    "extent 0": ("global_dim", 0, 32, replace(BEFORE, dims=(32, 7, 5))),
    "extent 2": ("global_dim", 2, 4, replace(BEFORE, dims=(64, 7, 4))),
    "stride 1": ("global_stride", 1, 1 << 37 | 4096, replace(BEFORE, strides=(256, 1 << 37 | 4096))),
    "box 0": ("box_dim", 0, 4, replace(BEFORE, box=(4, 3, 2))),
    "box 2": ("box_dim", 2, 5, replace(BEFORE, box=(8, 3, 5))),
    "step 1": ("element_stride", 1, 3, replace(BEFORE, steps=(1, 3, 1))),
    "swizzle": ("swizzle_mode", 0, 2, replace(BEFORE, swizzle=2)),
    "fill": ("fill_mode", 0, 1, replace(BEFORE, oob="nan")),
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("field", "ordinal", "value", "wanted"), CHANGES.values(), ids=list(CHANGES))
def test_a_field_that_is_replaced_is_as_if_it_had_been_there(
    field: str, ordinal: int, value: int, wanted: MapFields, space: str
) -> None:
    constant = field in ("swizzle_mode", "fill_mode")
    row = isa.lookup("ptx.tensormap.replace_constant" if constant else "ptx.tensormap.replace")
    mods: dict[str, Any] = {"field": field, "ordinal": ordinal, "space": space} | (
        {"constant": value} if constant else {}
    )
    form = next(form for form in row.forms if form.fits(mods))
    active = np.zeros((1, 32), np.bool_)
    active[0, 3] = True
    octets = np.zeros((1, 256), np.uint8)
    octets[0, 64:192] = np.frombuffer(BEFORE.encode(), np.uint8)
    machine = PlainMachine(octets, active)
    execute: Any = form.meaning.execute
    on = machine.shared if form.meaning.on == "shared" else machine.memory
    given = () if constant else (np.full((1, 32), value, np.uint64),)

    execute(on, np.full((1, 32), 64, np.uint64), *given, **{name: mods[name] for name in form.meaning.passes})

    assert machine.memory.data[0, 64:192].tobytes() == wanted.encode()
    assert MapFields.decode(machine.memory.data[0, 64:192].tobytes()) == MapFields.decode(wanted.encode())
    assert Bound(row, form, mods, {}).mnemonic.startswith(f"tensormap.replace.tile.{field}")
