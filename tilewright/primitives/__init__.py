"""The tile primitives: what each is called with and what it means, declared once.

In the order in which to read:

    table               Primitive, its operands and their roles, its keywords
    elements            rules that several primitives share: on extents, on dtypes
    copy, elementwise, reduce, gemm
                        the primitives, found by discovery; a declaration is a NumPy function
"""

import importlib
import pkgutil

from tilewright.primitives.table import *  # noqa: F403  # the room's public names are its __all__

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):  # noqa: F405
    importlib.import_module(f"{__name__}.{_module}")
