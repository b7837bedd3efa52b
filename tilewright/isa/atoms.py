"""CuTe's copy and mma atoms by name: one instruction with the map from (thread, value) to bits on either side; and
which copy loads which operand of a product.

A name says: the architecture that brought it, the unit that stays together and how many of it a thread gets, the
instruction, and N or T for transposed. ``SM75_U16x8_LDSM_T`` deals 8 units of 16 bits to each thread, transposed.
Without trans a register keeps its two neighbours, so the unit is the 32-bit word (``SM75_U32x4_LDSM_N``), and a matrix
of 32-bit elements passes as well. With trans the two halves of a register come from two rows: a 32-bit element would be
split between two threads, so no transposing 32-bit atom exists.

Source: NVIDIA/cutlass, include/cute/atom/copy_traits_sm75.hpp, ..._sm90.hpp, ..._sm100.hpp.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, choices
from tilewright.isa.arch import Requirement
from tilewright.isa.forms import ELEMENTS, Form, Mods
from tilewright.isa.mma import MMA, mma_fragment, mma_shape
from tilewright.isa.table import Instruction, public
from tilewright.layout import Iter, TileLayout, laneid, m

__all__ = [
    "ATOMS", "BLAS", "Atom", "CopyAtom", "Majorness", "MmaAtom", "OperandCopy", "atom", "copy_atom",
    "from_thread_value", "majorness", "mma_atom", "mma_atoms",
]  # fmt: skip


class Atom:
    """A form of an instruction under CuTe's name, which the instruction and the modifiers choose."""

    __slots__ = ()

    if TYPE_CHECKING:  # what each kind of atom has, as a field or a property

        @property
        def name(self) -> str: ...

        @property
        def instruction(self) -> Instruction: ...

        @property
        def mods(self) -> Mods: ...

    @property
    def form(self) -> Form:
        """The row of the instruction table."""
        return next(form for form in self.instruction.forms if form.fits(self.mods))

    @property
    def mnemonic(self) -> str:
        """The PTX opcode with its modifiers."""
        return self.form.mnemonic(self.mods)

    @property
    def arch(self) -> Requirement:
        """The architectures that have it."""
        return self.form.arch

    def __str__(self) -> str:
        return f"{self.name}: {self.mnemonic} ({self.arch})"


@dataclass(frozen=True, slots=True)
class CopyAtom(Atom):
    """A copy instruction under CuTe's name.

    source_cute, destination_cute: CuTe's thread-value layouts, (thread, value) -> bit of the matrices, 128-bit rows.
    element_bits: of the matrices' elements. recombines: CuTe rearranges bytes between registers after the load, so that
    the bare instruction is not all of it.
    """

    name: str
    instruction: Instruction
    mods: Mods
    element_bits: int
    source_cute: str
    destination_cute: str
    recombines: bool = False

    @property
    def registers(self) -> int:
        """32-bit registers of a lane."""
        vector = next((operand.name for operand in self.instruction.operands if operand.many), "")
        return self.form.registers_of(vector, self.mods) if vector else 1

    @property
    def source(self) -> TileLayout:
        """Where the elements of the matrices, row by row, come from: lane and element within what the lane holds.

        For a load, element e of lane l is the e-th of the 16-byte row whose address lane l gives; lanes that repeat an
        address are replicas.
        """
        return from_thread_value(self.source_cute, self.element_bits)

    @property
    def destination(self) -> TileLayout:
        """Where the elements go, as `source`; for a load, slot e lies in register e * element_bits / 32."""
        return from_thread_value(self.destination_cute, self.element_bits)

    def _repr_html_(self) -> str:
        """What a notebook shows: the thread that holds, and the one that reads, each element of each matrix."""
        from tilewright.view import atom_html  # upwards, and only when a notebook asks

        return atom_html(self)


ATOMS: dict[str, CopyAtom] = {}


def copy_atom(
    name: str,
    instruction: Instruction,
    mods: Mods,
    *,
    element_bits: int,
    source: str,
    destination: str,
    recombines: bool = False,
) -> None:
    """Register an atom; called by the file of its instruction."""
    ATOMS[name] = CopyAtom(name, instruction, mods, element_bits, source, destination, recombines)


@public
def atom(name: str) -> CopyAtom:
    """The copy atom that CuTe calls ``name``.

    >>> atom("SM75_U16x8_LDSM_T").mnemonic
    'ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16'

    Raises InstructionError; for a name that the naming rule excludes, with the reason and the atom to use instead.
    """
    if name in ATOMS:
        return ATOMS[name]
    parts = re.fullmatch(r"SM\d+_U(?P<bits>\d+)x(?P<count>\d+)_(?P<op>LDSM|STSM)_(?P<kind>[NT])", name)
    reason, instead = _excluded(parts) if parts else (_PACKED if _PACKED_NAME.fullmatch(name) else "", None)
    like = [name for name in ATOMS if parts is None or parts["op"] in name]
    allowed = ", ".join(like) if instead else choices(name, like)  # the nearest name is not the nearest meaning
    raise InstructionError(f"no copy atom is called {name}{reason}", given=name, allowed=allowed, hint=instead)


_WORD = ": without trans a register stays together, so the unit is 32 bits"
_SPLIT = ": .trans deals out 16-bit units, so a {bits}-bit element would be split between two threads"
_PACKED = ": CuTe has none that transposes packed elements; T.ptx.ldmatrix does, with shape='m16n16'"
_PACKED_NAME = re.compile(r"SM\d+_SU[46]_DU8x\d+_(x\d_)?LDSM_T")
_FIRST = {("LDSM", 8): 100, ("STSM", 8): 100, ("LDSM", 16): 75, ("STSM", 16): 90}


def _excluded(name: re.Match[str]) -> tuple[str, str | None]:
    """Why the naming rule has no such atom, and the one that moves as many bits."""
    bits, count, op, kind = int(name["bits"]), int(name["count"]), name["op"], name["kind"]
    unit = 32 if kind == "N" else 8 if bits <= 8 else 16
    first = _FIRST[op, min(unit, 16)]
    instead = f"SM{first}_U{unit}x{bits * count // unit}_{op}_{kind}"
    if bits > unit and kind == "T":
        instead += f" for 16-bit elements; plain {bits}-bit accesses for {bits}-bit elements"
        return _SPLIT.format(bits=bits), instead if instead.split()[0] in ATOMS else None
    if bits != unit:
        reason = _WORD if kind == "N" else ": .trans deals out units of 16 or 8 bits"
        return reason, instead if instead in ATOMS else None
    if instead in ATOMS:
        return f": {op} of {unit}-bit units came with sm_{first}", instead
    counts = [count for count in (1, 2, 4, 8, 16) if f"SM{first}_U{unit}x{count}_{op}_{kind}" in ATOMS]
    return f": a thread has {', '.join(map(str, counts[:-1]))} or {counts[-1]} units of {unit} bits, not {count}", None


def _modes(extents: object, strides: object) -> Iterator[tuple[int, int]]:
    """The (extent, stride) pairs of a CuTe mode, flat."""
    if isinstance(extents, tuple) and isinstance(strides, tuple):
        for extent, stride in zip(extents, strides, strict=True):
            yield from _modes(extent, stride)
    elif isinstance(extents, int) and isinstance(strides, int):
        yield extents, strides


def from_thread_value(text: str, element_bits: int) -> TileLayout:
    """A thread-value layout, read the other way: from the element to the lane and the element within its values.

    CuTe maps (thread, value) to a bit; strides that are 0 are threads that hold the same.

    >>> print(from_thread_value("(32,(32,2)):(32,(1,1024))", 16))
    S[(2, 32, 2):(2, 1@laneid, 1)]
    """
    extents, strides = map(literal_eval, text.split(":"))
    iters: list[tuple[int, Iter]] = []
    replica: list[Iter] = []
    for axis, extent_mode, stride_mode in zip((laneid, m), extents, strides, strict=True):
        step = 1
        for extent, stride in _modes(extent_mode, stride_mode):
            if stride:
                iters.append((stride, Iter(extent, step, axis)))
            else:
                replica.append(Iter(extent, step, axis))
            step *= extent
    shard = [it for _, it in sorted(iters, key=lambda pair: -pair[0])]
    packed = TileLayout(shard).pack(element_bits)
    return TileLayout([it for it in packed.shard if it.extent != 1], replica)


# Majorness: which operand of an mma needs a transposing copy, and which copy atom loads it into its registers.
#
# ``mma.sync`` takes both operands with K running along a register. A matrix in shared memory has K contiguous
# (K-major), or M for A, N for B. Where it is not K, the copy must transpose. BLAS and CuTe say it in two letters,
# first A, then B: T for K-major A and N for M-major A; N for K-major B and T for N-major B. Source: NVIDIA/cutlass,
# include/cute/arch/mma_sm80.hpp (the names of the mma atoms).

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
