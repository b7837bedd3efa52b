"""CuTe's copy atoms by name: one copy instruction with the map from (thread, value) to bits on either side.

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

from tilewright.errors import InstructionError, choices
from tilewright.isa.arch import Requirement
from tilewright.isa.table import Form, Instruction, Mods, public
from tilewright.layout import Iter, TileLayout, laneid, m

__all__ = ["ATOMS", "Atom", "CopyAtom", "atom", "copy_atom", "from_thread_value"]


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
