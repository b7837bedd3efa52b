"""Majorness: which operand of an mma needs a transposing copy, and which copy atom loads it into its registers.

``mma.sync`` takes both operands with K running along a register. A matrix in shared memory has K contiguous (K-major),
or M for A, N for B. Where it is not K, the copy must transpose. BLAS and CuTe say it in two letters, first A, then B:
T for K-major A and N for M-major A; N for K-major B and T for N-major B.
Source: NVIDIA/cutlass, include/cute/arch/mma_sm80.hpp (the names of the mma atoms).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, choices
from tilewright.isa.atoms import ATOMS, Atom, CopyAtom
from tilewright.isa.mma import MMA
from tilewright.isa.products import mma_fragment, mma_shape
from tilewright.isa.table import Form, Instruction, public
from tilewright.isa.types import ELEMENTS
from tilewright.layout import TileLayout

__all__ = ["BLAS", "Majorness", "MmaAtom", "OperandCopy", "majorness", "mma_atom", "mma_atoms"]

BLAS = {"TN": ("K", "K"), "NT": ("M", "N"), "NN": ("M", "K"), "TT": ("K", "N")}  # what is contiguous in A and in B


@public.kind_of("what isa.mma_atom gives")
@dataclass(frozen=True, slots=True)
class MmaAtom(Atom):
    """One form of ``mma.sync`` under CuTe's name. types: PTX's names of the elements of D, A, B and C."""

    name: str
    shape: str
    types: tuple[str, ...]

    @property
    def mods(self) -> dict[str, str | bool]:
        """The modifiers of ``T.ptx.mma``."""
        return {"shape": self.shape, "types": ".".join(self.types), "saturate": False}

    @property
    def instruction(self) -> Instruction:
        """``mma.sync``."""
        return MMA

    @property
    def shapes(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """The names and the extents of the dimensions of A, B and C."""
        m, n, k = mma_shape(self.shape)
        return {"A": ("M / K", (m, k)), "B": ("K / N", (k, n)), "C": ("M / N", (m, n))}

    def element(self, operand: str) -> str:
        """The dtype of operand "D", "A", "B" or "C"."""
        return ELEMENTS[self.types["DABC".index(operand)]]

    def fragment(self, operand: str) -> TileLayout:
        """The lane that holds each element of an operand; see `mma_fragment`."""
        return mma_fragment(self.shape, operand, self.element(operand))

    def _repr_html_(self) -> str:
        """What a notebook shows: the lane that holds each element of A, B and C."""
        from tilewright.view import mma_html  # upwards, and only when a notebook asks

        return mma_html(self)


def _cute_name(form: Form, shape: str, types: str) -> str:
    m, n, k = mma_shape(shape)
    return f"SM{form.arch.archs()[0].number}_{m}x{n}x{k}_{types.replace('.', '').upper()}_TN"


def mma_atoms() -> tuple[MmaAtom, ...]:
    """All of them, each under the architecture that brought it."""
    return tuple(
        MmaAtom(_cute_name(form, str(shape), str(types)), str(shape), tuple(str(types).split(".")))
        for form in MMA.forms
        for shape in form.wording.modifiers["shape"]
        for types in form.wording.modifiers["types"]
    )


@public
def mma_atom(name: str) -> MmaAtom:
    """The mma that CuTe calls ``name``; a later architecture in the name is as good as the first one.

    >>> mma_atom("SM80_16x8x16_F32F16F16F32_TN").mnemonic
    'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32'

    Raises InstructionError with the nearest name.
    """
    atoms = {atom.name.split("_", 1)[1]: atom for atom in mma_atoms()}
    match = re.fullmatch(r"SM(\d+)_(.+)", name)
    if match and match[2] in atoms and int(match[1]) >= atoms[match[2]].arch.archs()[0].number:
        row = atoms[match[2]]
        return MmaAtom(name, row.shape, row.types)
    names = [atom.name for atom in mma_atoms()]
    stem, _, letters = name.rpartition("_")
    if letters in BLAS and f"{stem}_TN" in names:
        why = ": mma.sync takes both operands K-major, TN; the copies of other operands transpose"
        hint = f"majorness({f'{stem}_TN'!r}, {letters!r}) names those copies"
        raise InstructionError(f"no mma atom is called {name}{why}", given=name, allowed=f"{stem}_TN", hint=hint)
    raise InstructionError(f"no mma atom is called {name}", given=name, allowed=choices(name, names))


@dataclass(frozen=True, slots=True)
class OperandCopy:
    """How one operand is loaded from shared memory into its registers.

    major: what is contiguous there. atom: the instruction; its registers are the mma's, in order. element_bits: of the
    operand. tiles: how many B side by side along N one instruction brings: 2 where its matrices are 16 wide, and then
    they take turns in the registers.
    """

    operand: str
    major: str
    trans: bool
    atom: CopyAtom
    element_bits: int
    tiles: int = 1

    def row_starts(self) -> NDArray[np.int64]:
        """Where the 16-byte row begins whose address each lane gives: (32, 2), first along M or N, then along K.

        Lanes beyond the rows repeat those of the first.
        """
        per_row = 128 // self.element_bits  # elements of 16 bytes
        height = 16 if self.atom.mods["shape"] == "m16n16" else 8
        rows = height * int(self.atom.mods["num"])  # type: ignore[arg-type]  # 1, 2 or 4
        lane = np.arange(32) % rows
        matrix, row = lane // height, lane % height
        halves = 2 if self.operand == "A" and height == 8 else 1  # A has 16 rows of M, and they come first
        across, along = matrix % halves, matrix // halves
        if self.trans:
            return np.stack((across * per_row, along * height + row), axis=-1)
        return np.stack((across * height + row, along * per_row), axis=-1)


@dataclass(frozen=True, slots=True)
class Majorness:
    """Both operands of an mma. name: "TN", "NT", "NN" or "TT"."""

    name: str
    mma: MmaAtom
    a: OperandCopy
    b: OperandCopy


@public
def majorness(mma: MmaAtom | str, a: str, b: str = "") -> Majorness:
    """Which operand needs ``trans`` and which copy atom, by what is contiguous in shared memory.

    a: "K" or "M"; b: "K" or "N". Or the pair as BLAS names it, in one word.

    >>> majorness("SM80_16x8x16_F32F16F16F32_TN", "NT").a.atom.name
    'SM75_U16x8_LDSM_T'

    Raises InstructionError for an unknown majorness, and where no instruction transposes elements of that size.
    """
    mma = mma_atom(mma) if isinstance(mma, str) else mma
    majors = BLAS.get(a) if not b else (a, b)
    name = next((name for name, pair in BLAS.items() if pair == majors), None)
    if majors is None or name is None:
        text = f"A {a}, B {b}" if b else a
        raise InstructionError("unknown majorness", given=text, allowed="A K or M, B K or N; or TN, NT, NN, TT")
    return Majorness(name, mma, _copy(mma, "A", majors[0]), _copy(mma, "B", majors[1]))


def _copy(mma: MmaAtom, operand: str, major: str) -> OperandCopy:
    element = mma.element(operand)
    bits = dtype(element).bits
    registers = mma.form.registers_of(operand.lower(), mma.mods)
    if major == "K":
        return OperandCopy(operand, major, False, ATOMS[f"SM75_U32x{registers}_LDSM_N"], bits)
    if bits == 16:
        return OperandCopy(operand, major, True, ATOMS[f"SM75_U16x{2 * registers}_LDSM_T"], bits)
    if bits == 8:
        steps = mma_shape(mma.shape)[2] // 16
        atom = ATOMS[f"SM100_U8x{8 * steps}_LDSM_T_RAW"]
        return OperandCopy(operand, major, True, atom, bits, tiles=1 if operand == "A" else 2)
    raise InstructionError(
        f"no matrix copy transposes {operand}, {major}-major, of {element}",
        given=f"elements of {bits} bits; .trans deals out units of 16 bits, so each would be split between two threads",
        allowed=f"K-major {operand}",
        hint="plain 32-bit loads of the fragment",
    )
