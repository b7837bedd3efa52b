"""The tile primitives: what each is called with and what it means, declared once.

In the order in which to read:

    table               Primitive, its operands and their roles, its keywords
    elements            rules that several primitives share: on extents, on dtypes
    copy, copy_async, im2col_async, fill, elementwise, compute, reduce, scan, permute_layout, gemm
                        the primitives, found by discovery; a declaration is a NumPy function
"""

import importlib
import pkgutil

from tilewright.primitives.table import (
    COMMON,
    PRIMITIVES,
    WITHIN_A_CTA,
    Clipped,
    In,
    InOut,
    Keyword,
    Mismatch,
    Out,
    Primitive,
    Role,
    Scalar,
    Seen,
    TileOperand,
    operand_names,
    primitive,
)

__all__ = [
    "COMMON", "PRIMITIVES", "WITHIN_A_CTA", "Clipped", "In", "InOut", "Keyword", "Mismatch", "Out", "Primitive", "Role",
    "Scalar", "Seen", "TileOperand", "operand_names", "primitive",
]  # fmt: skip

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
