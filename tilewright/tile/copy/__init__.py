"""copy(dst, src): when the call returns, the calling threads have moved the elements of ``src`` to ``dst``."""

import importlib
import pkgutil

from tilewright.tile.call import checked_copy
from tilewright.tile.dispatch import primitive

primitive("copy", checked_copy, keywords=("vec_len",))

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
