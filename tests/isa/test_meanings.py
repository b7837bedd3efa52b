"""Every form of the table, with every combination of modifiers, means what its oracle says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa import matrix_oracles, tma_oracles
from tests.isa.assembling import every_form
from tests.isa.forms import executed
from tests.isa.inputs import WARPS, active_lanes, operand
from tests.isa.machines import BYTES, PlainMachine
from tests.isa.oracles import ORACLES, Warp, covered
from tests.rows import by, in_row
from tilewright.dtypes import dtype
from tilewright.isa.arith import ULP
from tilewright.isa.table import Bound

# Their effect is not a value: they have tests of their own.
WITHOUT_VALUES = {
    *(
        "printf",
        "cuda.printf",
        "cuda.vprintf",
        "cuda.assert_fail",
        "cuda.trap",
        "cuda.out_of_stack",
        "cuda.device_assert",
        "cuda.clock",
        "cuda.nanosleep",
        "ptx.bar.warp.sync",
    ),
    "ptx.nanosleep",
    *("cuda.func_call", "cuda.warp_sync"),
    *("ptx.setmaxnreg", "ptx.griddepcontrol.wait", "ptx.griddepcontrol.launch_dependents", *tma_oracles.CACHES),
}

# What they work on is no plain memory: each family has an oracle of its own, which covers every form too.
OWN_ORACLES = covered()

EXECUTED = [
    bound
    for bound in every_form()
    if bound.form.meaning.execute and bound.instruction.name not in WITHOUT_VALUES | OWN_ORACLES
]


def named(bound: Bound) -> str:
    return "-".join([bound.instruction.name, *(f"{value}" for value in bound.mods.values())])


def executed_by(bound: Bound, machine: PlainMachine, operands: list[NDArray[Any]]) -> Any:
    on: dict[str, list[Any]] = {"": [], "machine": [machine], "shared": [machine.shared], "memory": [machine.memory]}
    with np.errstate(all="ignore"):
        return executed(bound.form, bound.mods, *on[bound.form.meaning.on], *operands)


OF_NAMES = by(lambda bound: bound.instruction.name, EXECUTED)


@pytest.mark.parametrize("name", OF_NAMES)
def test_a_form_means_what_its_oracle_says(name: str) -> None:
    for bound in OF_NAMES[name]:
        with in_row(named(bound)):
            check_meaning(bound)


def check_meaning(bound: Bound) -> None:
    rng = np.random.default_rng(len(named(bound)))
    active = active_lanes(bound, rng)
    memory = rng.integers(0, 255, (WARPS, BYTES), dtype=np.uint8)
    memory[:, 1::2] = 60  # so that floats in it are ordinary numbers, whatever their width
    operands = [operand(bound, which, active, rng) for which in bound.read]
    machine = PlainMachine(memory, active)

    result = executed_by(bound, machine, operands)

    for number in range(WARPS):
        warp = Warp(
            bytearray(memory[number].tobytes()), active[number].tolist(), {**bound.mods, "name": bound.instruction.name}
        )
        expected = ORACLES[bound.instruction.name](warp, *(given(one[number]) for one in operands))
        assert machine.memory.data[number].tobytes() == bytes(warp.memory)
        if expected is not None:
            compare(bound, result[min(number, len(result) - 1)], expected, active[number])


def given(operand: NDArray[Any]) -> Any:
    return operand.astype(float).tolist() if operand.dtype.kind == "V" else operand.tolist()


def compare(bound: Bound, result: NDArray[Any], expected: Any, active: NDArray[np.bool_]) -> None:
    if bound.instruction.name.startswith("ptx.mma"):
        matrix_oracles.compare(bound, result, expected)
        return
    result = np.broadcast_to(result, (*result.shape[:-1], 32))[..., active]
    wanted = np.array(expected, object)[..., active]
    if result.dtype.kind in "fV":
        compare_floats(bound, result, wanted.astype(float))
    else:
        modulus = 1 << 8 * result.itemsize
        assert [int(value) % modulus for value in result.flat] == [int(value) % modulus for value in wanted.flat]


def compare_floats(bound: Bound, result: NDArray[Any], wanted: NDArray[np.float64]) -> None:
    """Moved or exact values are equal; others are within one unit in the last place of the true value."""
    with np.errstate(over="ignore"):
        rounded = wanted.astype(result.dtype)
    if bound.form.meaning.moves or not any(ULP.get(bound.instruction.name, (0, 0))):
        np.testing.assert_array_equal(result.astype(float), rounded.astype(float))
    else:
        np.testing.assert_allclose(result, rounded, rtol=2 * float(np.finfo(result.dtype).eps))


def test_every_dtype_of_a_shuffle_keeps_its_bits() -> None:
    shuffles = [bound for bound in EXECUTED if "shfl" in bound.instruction.name]

    assert {dtype(str(bound.mods["dtype"])).bits for bound in shuffles} == {8, 16, 32, 64}
