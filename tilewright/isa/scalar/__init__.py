"""PTX's scalar instructions, as compilers write them: each thread by itself, on registers of bits.

In the order in which to read:

    rows                what such a row is: registers with widths, types, one value
    integers, floats, approximate
                        the meaning of operations on integers; of those on floats, with their roundings; approximations
    arithmetic, bitwise, comparing, converting, video
                        the rows of numbers
    memory, lanes       loads, stores and moves; what lanes exchange
"""

import importlib
import pkgutil

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
