"""Loads, stores and atomics as compilers write them: every type, vectors, and their declared effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.isa.forms import executed
from tests.isa.machines import PlainMachine
from tests.isa.scalar_inputs import covering
from tilewright import isa
from tilewright.isa.forms import TYPES, Form, value_dtype
from tilewright.isa.table import Bound, Instruction

WIDTHS = {"b": 0, "u": 0, "s": 0, "f": 0}


def machine() -> PlainMachine:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (2, 2048), dtype=np.uint8)
    data[:, 1::2] = 60  # ordinary floats
    return PlainMachine(data, rng.random((2, 32)) < 0.7)


def all_of(*names: str) -> list[tuple[Instruction, Form, dict[str, Any]]]:
    return [(row, form, mods) for row in map(isa.lookup, names) for form in row.forms for mods in covering(form)]


def identified(value: object) -> str:
    return value.name if isinstance(value, Instruction) else value.wording.template if isinstance(value, Form) else ""


@pytest.mark.parametrize("name", ["ptx.ld", "ptx.ldu"])
def test_a_load_gives_the_bytes_from_its_address_on(name: str) -> None:
    places = np.arange(32)[None] * 32 + np.zeros((2, 1), np.int64)
    for row, form, mods in all_of(name):
        made = machine()
        found = executed(form, mods, made.memory, places)

        assert found.dtype == value_dtype(str(mods["type"])).numpy
        bits = TYPES[str(mods["type"])].bits
        for lane in range(32):
            for part in range(int(mods["vec"])):
                start = 32 * lane + part * bits // 8
                wanted = int.from_bytes(made.memory.data[1, start : start + bits // 8].tobytes(), "little")
                one = found[1, lane, part] if mods["vec"] > 1 else found[1, lane]
                assert int(one.view(f"u{bits // 8}")) == wanted, (row.name, mods)


@pytest.mark.parametrize("name", ["ptx.st", "ptx.st.vec"])
def test_a_store_leaves_the_bytes_of_its_registers(name: str) -> None:
    places = np.arange(32)[None] * 32 + np.zeros((2, 1), np.int64)
    rng = np.random.default_rng(1)
    for _, form, mods in all_of(name):
        made, bits, vec = machine(), TYPES[str(mods["type"])].bits, int(mods["vec"])
        before = made.memory.data.copy()
        value = rng.integers(0, 256, (2, vec, 32 * bits // 8), dtype=np.uint8).view(f"u{bits // 8}")
        executed(form, mods, made.memory, places, value if vec > 1 else value[:, 0])

        for lane in range(32):
            octets = b"".join(int(value[0, part, lane]).to_bytes(bits // 8, "little") for part in range(vec))
            wanted = octets if made.active[0, lane] else before[0, 32 * lane : 32 * lane + len(octets)].tobytes()
            assert made.memory.data[0, 32 * lane : 32 * lane + len(octets)].tobytes() == wanted


def test_an_atomic_on_a_vector_combines_each_number() -> None:
    places = np.arange(32)[None] % 4 * 32 + np.zeros((2, 1), np.int64)
    for row, form, mods in all_of("ptx.atom.vec", "ptx.red.vec"):
        made, kind, vec = machine(), TYPES[str(mods["type"])], int(mods["vec"])
        value = np.full((2, vec, 32), 0, kind.unsigned)
        value[:] = np.array([1.5] * kind.lanes, kind.numpy).view(kind.unsigned)[0]
        before = made.memory.data.copy()
        found = executed(form, mods, made.memory, places, value)

        words = slice(0, kind.bits // 8 * vec)
        numbers = before[1, words].view(kind.numpy).astype(float)
        turns = int(made.active[1, ::4].sum())
        after = made.memory.data[1, words].view(kind.numpy).astype(float)
        if mods["op"] == "add":
            for _ in range(turns):
                numbers = (numbers + 1.5).astype(kind.numpy).astype(float)
        elif turns:
            numbers = (np.minimum if mods["op"] == "min" else np.maximum)(numbers, 1.5)
        assert after.tolist() == numbers.tolist(), mods
        assert (found is None) == (row.name == "ptx.red.vec")


def test_a_load_of_what_nobody_writes_says_so() -> None:
    access = isa.opcode("ld.global.nc.f32").form.accesses[0]

    assert access.constant
    assert not isa.opcode("ld.global.f32").form.accesses[0].constant


@pytest.mark.parametrize(
    ("written", "sem", "scope"),
    [
        ("ld.volatile.shared.u32", "volatile", "sys"),
        ("ld.acquire.cta.global.b64", "acquire", "cta"),
        ("st.release.gpu.global.b32", "release", "gpu"),
        ("st.mmio.relaxed.sys.global.u32", "relaxed", "sys"),
        ("ld.global.u32", "weak", ""),
    ],
)
def test_a_strong_access_is_told_to_the_checks(written: str, sem: str, scope: str) -> None:
    found = isa.opcode(written)
    bound, access = Bound(found.row, found.form, found.mods, {}), found.form.accesses[0]

    assert (bound.word(access.sem), bound.word(access.scope)) == (sem, scope)


def test_a_vector_is_one_access_of_all_its_bytes() -> None:
    found = isa.opcode("ld.global.v4.f32")
    bound = Bound(found.row, found.form, found.mods, {})

    assert bound.count(found.form.accesses[0].nbytes) == 16
    assert str(bound.result) == "float32x4"
