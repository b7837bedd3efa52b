"""The named checks of the simulator, one file each; see `tilewright.sim.checks.base`."""

import importlib
import pkgutil

from tilewright.sim.checks.base import CHECKS, Check, checks_of, parse_checks

__all__ = ["CHECKS", "Check", "checks_of", "parse_checks"]

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
