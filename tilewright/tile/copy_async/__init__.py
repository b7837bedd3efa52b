"""copy_async(dst, src): the call issues the copy; waiting for its completion is the caller's."""

import importlib
import pkgutil

from tilewright.tile.call import ASYNC_OPTIONS, checked_async_copy
from tilewright.tile.dispatch import primitive

primitive("copy_async", checked_async_copy, keywords=tuple(ASYNC_OPTIONS))

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
