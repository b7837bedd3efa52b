"""CuTe's copy atoms: their strings against a reading of them bit by bit, and against the instruction's execution."""

from __future__ import annotations

from ast import literal_eval
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.forms import executed
from tests.isa.machines import PlainMachine
from tilewright import isa
from tilewright.errors import InstructionError
from tilewright.isa.atoms import ATOMS, CopyAtom, from_thread_value

NAMES = {
    "SM75_U32x1_LDSM_N": "ldmatrix.sync.aligned.m8n8.x1.shared.b16",
    "SM75_U32x2_LDSM_N": "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
    "SM75_U32x4_LDSM_N": "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "SM75_U16x2_LDSM_T": "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16",
    "SM75_U16x4_LDSM_T": "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
    "SM75_U16x8_LDSM_T": "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
    "SM75_U32x1_MOVM_T": "movmatrix.sync.aligned.m8n8.trans.b16",
    "SM90_U32x1_STSM_N": "stmatrix.sync.aligned.m8n8.x1.shared.b16",
    "SM90_U32x2_STSM_N": "stmatrix.sync.aligned.m8n8.x2.shared.b16",
    "SM90_U32x4_STSM_N": "stmatrix.sync.aligned.m8n8.x4.shared.b16",
    "SM90_U16x2_STSM_T": "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16",
    "SM90_U16x4_STSM_T": "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
    "SM90_U16x8_STSM_T": "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
    "SM100_U8x8_LDSM_T": "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
    "SM100_U8x16_LDSM_T": "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8",
    "SM100_U8x4_STSM_T": "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8",
    "SM100_U8x8_STSM_T": "stmatrix.sync.aligned.m16n8.x2.trans.shared.b8",
    "SM100_U8x16_STSM_T": "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8",
    **{
        f"SM100_SU{bits}_DU8x16_x{num}_LDSM_N": f"ldmatrix.sync.aligned.m8n16.x{num}.shared.b8x16.b{bits}x16_p{padding}"
        for bits, padding in ((4, 64), (6, 32))
        for num in (1, 2, 4)
    },
}


def flat(mode: Any) -> list[int]:
    return [entry for part in mode for entry in flat(part)] if isinstance(mode, tuple) else [mode]


def bit(text: str, thread: int, value: int) -> int:
    """CuTe's reading: inside a mode the first extent runs fastest."""
    extents, strides = map(literal_eval, text.split(":"))
    total = 0
    for index, extent_mode, stride_mode in zip((thread, value), extents, strides, strict=True):
        for extent, stride in zip(flat(extent_mode), flat(stride_mode), strict=True):
            total += index % extent * stride
            index //= extent
    return total


@pytest.mark.parametrize("name", NAMES)
def test_an_atom_is_the_instruction_that_cute_means(name: str) -> None:
    assert isa.atom(name).mnemonic == NAMES[name]
    assert isa.atom(name).arch.archs()[0].number == int(name.split("_")[0][2:])


@pytest.mark.parametrize("name", ATOMS)
@pytest.mark.parametrize("side", ["source", "destination"])
def test_the_layout_says_what_the_string_says(name: str, side: str) -> None:
    found = ATOMS[name]
    text: str = getattr(found, f"{side}_cute")
    layout = getattr(found, side)
    (table,) = [layout.table((layout.size(),))]

    for element, lanes, slots in zip(range(layout.size()), table["laneid"], table["m"], strict=True):
        for lane, slot in zip(lanes, slots, strict=True):
            assert bit(text, int(lane), int(slot) * found.element_bits) == element * found.element_bits


def elements_of(atom: CopyAtom, lanes: NDArray[Any], side: str) -> NDArray[Any]:
    """What the lanes hold, (32, slots), as the elements of the matrices in order."""
    layout = getattr(atom, side)
    table = layout.table((layout.size(),))
    elements: NDArray[Any] = lanes[table["laneid"][:, 0], table["m"][:, 0]]
    return elements


def recombined(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """CuTe's byte shuffle: the low halves of two registers, then their high halves."""
    pairs = words.reshape(-1, 2, 32)
    low = (pairs[:, 0] & 0xFFFF) | pairs[:, 1] << 16
    high = pairs[:, 0] >> 16 | pairs[:, 1] & 0xFFFF0000
    return np.stack((low, high), axis=1).reshape(-1, 32)


def is_load(atom: CopyAtom) -> bool:
    return "LDSM" in atom.name


@pytest.mark.parametrize("name", [name for name in ATOMS if "LDSM" in name and "_SU" not in name])
def test_a_load_brings_each_element_from_its_source_to_its_destination(name: str) -> None:
    atom = ATOMS[name]
    rows = np.random.default_rng(0).integers(0, 256, (32, 16), dtype=np.uint8)  # lane l names row l
    machine = PlainMachine(rows.reshape(1, -1), np.ones((1, 32), bool))

    words = executed(atom.form, atom.mods, machine.shared, np.arange(32)[None] * 16)[0]
    words = recombined(words) if atom.recombines else words

    unsigned = f"u{atom.element_bits // 8}"
    received = elements_of(atom, np.ascontiguousarray(words.T).view(unsigned), "destination")
    assert np.array_equal(received, elements_of(atom, rows.view(unsigned), "source"))


@pytest.mark.parametrize("name", [name for name in ATOMS if "STSM" in name])
def test_a_store_brings_each_element_from_its_source_to_its_destination(name: str) -> None:
    atom = ATOMS[name]
    words = np.random.default_rng(0).integers(0, 1 << 32, (1, atom.registers, 32), dtype=np.uint32)
    machine = PlainMachine(np.zeros((1, 512), np.uint8), np.ones((1, 32), bool))

    executed(atom.form, atom.mods, machine.shared, np.arange(32)[None] * 16, words)

    unsigned = f"u{atom.element_bits // 8}"
    sent = elements_of(atom, np.ascontiguousarray(words[0].T).view(unsigned), "source")
    assert np.array_equal(elements_of(atom, machine.shared.data.reshape(32, 16).view(unsigned), "destination"), sent)


EXCLUDED = {
    "SM75_U32x1_LDSM_T": ("split between two threads", "SM75_U16x2_LDSM_T"),
    "SM75_U32x2_LDSM_T": ("split between two threads", "SM75_U16x4_LDSM_T"),
    "SM75_U32x4_LDSM_T": ("split between two threads", "SM75_U16x8_LDSM_T"),
    "SM90_U32x4_STSM_T": ("split between two threads", "SM90_U16x8_STSM_T"),
    "SM75_U16x8_LDSM_N": ("so the unit is 32 bits", "SM75_U32x4_LDSM_N"),
    "SM75_U8x16_LDSM_T": ("8-bit units came with sm_100", "SM100_U8x16_LDSM_T"),
    "SM75_U16x8_STSM_T": ("16-bit units came with sm_90", "SM90_U16x8_STSM_T"),
    "SM75_U64x2_LDSM_T": ("a 64-bit element would be split between two threads", "SM75_U16x8_LDSM_T"),
    "SM75_U64x2_LDSM_N": ("so the unit is 32 bits", "SM75_U32x4_LDSM_N"),
    "SM100_U4x32_STSM_T": ("units of 16 or 8 bits", "SM100_U8x16_STSM_T"),
}


@pytest.mark.parametrize("name", EXCLUDED)
def test_a_name_that_the_rule_excludes_says_why_and_what_to_use(name: str) -> None:
    reason, instead = EXCLUDED[name]

    with pytest.raises(InstructionError, match=reason) as raised:
        isa.atom(name)
    assert str(raised.value.hint).split()[0] == instead
    assert "did you mean" not in str(raised.value.allowed)  # one advice, not two


WITHOUT_A_SUBSTITUTE = {
    "SM75_U16x1_LDSM_T": "a thread has 2, 4 or 8 units of 16 bits, not 1",
    "SM75_U32x8_LDSM_N": "a thread has 1, 2 or 4 units of 32 bits, not 8",
    "SM100_U8x4_LDSM_T": "a thread has 8 or 16 units of 8 bits, not 4",
    "SM100_SU4_DU8x16_x4_LDSM_T": "CuTe has none that transposes packed elements; T.ptx.ldmatrix does",
}


@pytest.mark.parametrize("name", WITHOUT_A_SUBSTITUTE)
def test_a_name_that_nothing_replaces_says_what_there_is(name: str) -> None:
    with pytest.raises(InstructionError, match=WITHOUT_A_SUBSTITUTE[name]) as raised:
        isa.atom(name)
    assert raised.value.hint is None
    assert "did you mean 'SM" in str(raised.value.allowed)


def test_a_misspelt_atom_gets_the_nearest_name() -> None:
    with pytest.raises(InstructionError, match="no copy atom is called SM75_U16x8_LDSMT") as raised:
        isa.atom("SM75_U16x8_LDSMT")
    assert "did you mean 'SM75_U16x8_LDSM_T'" in str(raised.value.allowed)


def test_threads_that_hold_the_same_are_replicas() -> None:
    assert str(from_thread_value("((8,4),128):((128,0),1)", 16)) == "S[(8, 8):(1@laneid, 1)] + R[4:8@laneid]"


def test_every_thread_and_value_of_a_string_is_a_bit_of_the_matrices() -> None:
    for atom, side in product(ATOMS.values(), ("source_cute", "destination_cute")):
        values = [bit(getattr(atom, side), lane, value) for lane in range(32) for value in (0, 1)]

        assert max(values) < atom.source.size() * atom.element_bits
