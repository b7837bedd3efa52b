"""PTX's scalar instructions, as compilers write them: each thread by itself, on registers of bits.

In the order in which to read:

    rows                what such a row is: registers with widths, types, one value
    floats              the meaning of operations on floats, with their roundings
    arithmetic, logic, converting, video
                        the rows of numbers
    memory              loads, stores and moves
"""

import importlib
import pkgutil

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
