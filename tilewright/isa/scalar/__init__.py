"""PTX's scalar instructions, as compilers write them: each thread by itself, on registers of bits.

In the order in which to read:

    rows                what such a row is: registers with widths, types, one value
    integers, products, logic, fields
                        what integers come to; of products and quotients; shifts and logic; fields of bits
    floats, rounding, approximate
                        what floats come to, however they are rounded; and what is near to it
    arithmetic, comparing, converting, moving
                        the rows
"""

import importlib
import pkgutil

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
