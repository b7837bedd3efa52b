"""NT, TN, NN and TT: the chosen atoms bring A and B to the mma's registers, and the product is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.forms import executed
from tests.isa.machines import PlainMachine
from tests.rows import in_row
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError
from tilewright.isa.atoms import BLAS, OperandCopy

TRANSPOSABLE = [(mma.name, name) for mma in isa.mma_atoms() for name in BLAS if name == "TN" or "tf32" not in mma.types]


def numbers(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[Any]:
    """Small integers: every product and sum is exact in every type."""
    return rng.integers(0 if kind == "uint8" else -3, 4, shape).astype(dtype(kind).numpy)


def loaded(copy: OperandCopy, matrix: NDArray[Any]) -> NDArray[np.uint32]:
    """``matrix``, (M or N, K), stored as ``copy`` wants it, and brought to registers by its atom."""
    stored = np.ascontiguousarray(matrix if copy.major == "K" else matrix.T)
    machine = PlainMachine(stored.view(np.uint8).reshape(1, -1), np.ones((1, 32), bool))
    across, along = copy.row_starts().T
    row, column = (across, along) if copy.major == "K" else (along, across)
    address = (row * stored.shape[1] + column) * stored.itemsize
    form = copy.atom.form
    registers: NDArray[np.uint32] = executed(form, copy.atom.mods, machine.shared, address[None])
    return registers


@pytest.mark.parametrize("blas", sorted({blas for _, blas in TRANSPOSABLE}))
def test_the_chosen_atoms_feed_the_mma(blas: str) -> None:
    for name in (name for name, other in TRANSPOSABLE if other == blas):
        with in_row(name):
            check_atoms(name, blas)


def check_atoms(name: str, blas: str) -> None:
    mma = isa.mma_atom(name)
    chosen = isa.majorness(mma, blas)
    _, n, k = isa.mma_shape(mma.shape)
    rng = np.random.default_rng(0)
    a = numbers(mma.element("A"), (16, k), rng)
    b = numbers(mma.element("B"), (n * chosen.b.tiles, k), rng)
    a_registers, b_registers = loaded(chosen.a, a), loaded(chosen.b, b)

    for tile in range(chosen.b.tiles):
        c = np.zeros((1, mma.form.registers_of("c", mma.mods), 32), np.uint32)
        d = executed(mma.form, mma.mods, a_registers, b_registers[:, tile :: chosen.b.tiles], c)

        table = mma.fragment("D").table((16, n))
        held = np.ascontiguousarray(d[0].T).view(dtype(mma.element("D")).numpy)
        result = held[table["laneid"][..., 0], table["m"][..., 0]]
        assert np.array_equal(result.astype(float), a.astype(float) @ b[n * tile : n * (tile + 1)].astype(float).T)


@pytest.mark.parametrize(
    ("blas", "a", "b"),
    [
        ("TN", "SM75_U32x4_LDSM_N", "SM75_U32x2_LDSM_N"),
        ("NT", "SM75_U16x8_LDSM_T", "SM75_U16x4_LDSM_T"),
        ("NN", "SM75_U16x8_LDSM_T", "SM75_U32x2_LDSM_N"),
        ("TT", "SM75_U32x4_LDSM_N", "SM75_U16x4_LDSM_T"),
    ],
)
def test_an_operand_is_transposed_where_k_is_not_contiguous(blas: str, a: str, b: str) -> None:
    by_name = isa.majorness("SM80_16x8x16_F16F16F16F16_TN", blas)

    assert (by_name.a.atom.name, by_name.b.atom.name) == (a, b)
    assert (by_name.a.trans, by_name.b.trans) == (by_name.a.major != "K", by_name.b.major != "K")
    assert isa.majorness("SM80_16x8x16_F16F16F16F16_TN", *BLAS[blas]) == by_name


def test_bytes_are_transposed_from_sm_100a_on_two_tiles_of_b_at_a_time() -> None:
    chosen = isa.majorness("SM89_16x8x32_F32E4M3E4M3F32_TN", "NT")

    assert chosen.b.tiles == 2
    assert str(chosen.b.atom.arch.archs()[0]) == "sm_100a"
    assert not chosen.b.atom.recombines


def test_no_copy_transposes_32_bit_elements() -> None:
    with pytest.raises(InstructionError, match="no matrix copy transposes A, M-major, of tf32") as raised:
        isa.majorness("SM80_16x8x8_F32TF32TF32F32_TN", "M", "K")
    assert "split between two threads" in str(raised.value.given)


def test_an_mma_is_found_under_any_architecture_that_has_it() -> None:
    assert isa.mma_atom("SM80_16x8x8_F32F16F16F32_TN").mnemonic == isa.mma_atom("SM75_16x8x8_F32F16F16F32_TN").mnemonic
    with pytest.raises(InstructionError, match="no mma atom is called SM75_16x8x16"):
        isa.mma_atom("SM75_16x8x16_F32F16F16F32_TN")


def test_an_mma_of_another_majorness_is_the_copies_business() -> None:
    with pytest.raises(InstructionError, match=r"mma\.sync takes both operands K-major") as raised:
        isa.mma_atom("SM80_16x8x16_F32F16F16F32_NT")
    assert raised.value.allowed == "SM80_16x8x16_F32F16F16F32_TN"
    assert raised.value.hint == "majorness('SM80_16x8x16_F32F16F16F32_TN', 'NT') names those copies"


def test_a_misspelt_mma_gets_the_nearest_name() -> None:
    with pytest.raises(InstructionError, match="no mma atom is called SM80_16x8x16_F32F16F16F32") as raised:
        isa.mma_atom("SM80_16x8x16_F32F16F16F32")
    assert "did you mean 'SM80_16x8x16_F32F16F16F32_TN'" in str(raised.value.allowed)


@pytest.mark.parametrize("names", [("XY",), ("K", "M"), ("N", "K"), ("K", "Q")])
def test_an_unknown_majorness_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InstructionError, match="unknown majorness"):
        isa.majorness("SM80_16x8x16_F16F16F16F16_TN", *names)


@pytest.mark.parametrize("given", [([], []), (3, "K"), ("SM80_16x8x16_F32F16F16F32_TN", ["NT"]), ({}, 2.5)], ids=str)
def test_a_majorness_of_other_types_is_an_error_of_the_field(given: tuple[Any, ...]) -> None:
    with pytest.raises(InstructionError, match=r"majorness|mma"):
        isa.majorness(*given)
