"""PTX's scalar instructions, as compilers write them: each thread by itself, on registers of bits.

In the order in which to read:

    rows                what such a row is: registers with widths, types, one value
    integers, products, logic, fields
                        the meaning of integer sums, of products and quotients, of shifts and logic, of fields
    floats, rounding, approximate
                        the meaning of float operations, their roundings, and approximations
    arithmetic, comparing, converting, moving
                        the rows
"""

import importlib
import pkgutil

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
