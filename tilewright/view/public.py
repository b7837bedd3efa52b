"""The arguments of public functions that draw, checked by their annotations."""

from __future__ import annotations

from tilewright.dtypes import DType
from tilewright.errors import ArgumentError
from tilewright.isa import CopyAtom, MmaAtom, WgmmaAtom
from tilewright.layout import Layout
from tilewright.public import Public, instances

__all__ = ["public"]

public = Public(
    ArgumentError,
    {
        "Layout": instances("a layout", Layout),
        "DType": instances("a dtype of tilewright", DType),
        "CopyAtom": instances("a copy atom", CopyAtom),
        "MmaAtom": instances("an mma", MmaAtom),
        "WgmmaAtom": instances("a wgmma", WgmmaAtom),
    },
)
