"""wgmma under CuTe's names: ``SM90_64x128x16_F32BF16BF16_SS``, or ``_RS`` with A in registers.

Source: NVIDIA/cutlass, include/cute/arch/mma_sm90_gmma.hpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.errors import InstructionError, choices
from tilewright.isa.atoms import Atom
from tilewright.isa.table import Instruction, Mods, lookup, public
from tilewright.isa.wgmma import NAMES, WGMMA_TYPES, wgmma_widths
from tilewright.layout import TileLayout, wgmma_fragment

__all__ = ["WgmmaAtom", "wgmma_atom"]

SHORT = {"float32": "F32", "float16": "F16", "int32": "S32"}


@public.kind_of("what isa.wgmma_atom gives")
@dataclass(frozen=True, slots=True)
class WgmmaAtom(Atom):
    """One form of ``wgmma.mma_async`` under CuTe's name. in_registers: is A in registers?"""

    name: str
    n: int
    a: str
    b: str
    d: str
    in_registers: bool

    @property
    def mods(self) -> Mods:
        """The modifiers of ``T.ptx.wgmma.mma_async``."""
        row = WGMMA_TYPES[self.a]
        mods: dict[str, object] = {"M": 64, "N": self.n, "K": row.k, "in_dtype": self.a, "out_dtype": self.d}
        mods |= {"b_dtype": None if self.a == self.b else self.b, "saturate": False, "scaleA": 1, "scaleB": 1}
        return {**mods, "transB": False, **({} if self.in_registers else {"transA": False})}  # type: ignore[dict-item]  # plain values

    @property
    def instruction(self) -> Instruction:
        """``wgmma.mma_async`` with A in registers or in shared memory."""
        return lookup(NAMES[self.in_registers])

    @property
    def shapes(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """What is in registers, with the names and the extents of its dimensions."""
        k = WGMMA_TYPES[self.a].k
        return {**({"A": ("M / K", (64, k))} if self.in_registers else {}), "D": ("M / N", (64, self.n))}

    def element(self, operand: str) -> str:
        """The dtype of operand "A", "B" or "D"."""
        return {"A": self.a, "B": self.b, "D": self.d}[operand]

    def fragment(self, operand: str) -> TileLayout:
        """Which thread of the warpgroup holds which element of A or D; see `wgmma_fragment`."""
        return wgmma_fragment(*self.shapes[operand][1], operand, self.element(operand))


def _atoms() -> Iterator[WgmmaAtom]:
    for a, row in WGMMA_TYPES.items():
        for d, b, n, registers in (
            (d, b, n, registers)
            for d in row.results
            for b in row.partners
            for n in wgmma_widths(a)
            for registers in (0, 1)
        ):
            if a == "b1":
                continue  # CuTe has no name for it
            types = SHORT[d] + row.name.upper() + row.partners[b].upper()
            suffix = "" if row.majors else "_TN"
            name = f"SM90_64x{n}x{row.k}_{types}_{'RS' if registers else 'SS'}{suffix}"
            yield WgmmaAtom(name, n, a, b, d, bool(registers))


@public
def wgmma_atom(name: str) -> WgmmaAtom:
    """The wgmma that CuTe calls ``name``.

    >>> wgmma_atom("SM90_64x128x16_F32BF16BF16_SS").mnemonic
    'wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16'

    Raises InstructionError with the nearest name.
    """
    atoms = {atom.name: atom for atom in _atoms()}
    if re.sub("_TN$", "", name) not in atoms and name not in atoms:
        raise InstructionError(f"no wgmma atom is called {name}", given=name, allowed=choices(name, atoms))
    return atoms.get(name) or atoms[re.sub("_TN$", "", name)]
