"""What a tile call becomes: the dispatcher, and a folder per primitive with a file per variant."""

import importlib
import pkgutil

from tilewright.tile.report import Entry, Report
from tilewright.tile.resolve import resolve

__all__ = ["Entry", "Report", "resolve"]

for _folder in sorted(info.name for info in pkgutil.iter_modules(__path__) if info.ispkg):
    importlib.import_module(f"{__name__}.{_folder}")
