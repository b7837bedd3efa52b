"""The named checks of the simulator, one file each.

base                what a check is, and the events of a run that it may look at
bounds, alignment   the address of one access
arithmetic          operands that mean nothing
poison              what nobody has written
leaks, stuck        what is left behind; who can never go on

Races are looked for in a room of their own, `tilewright.sim.order`.
"""

import importlib
import pkgutil

from tilewright.sim.checks.base import CHECKS, Check, checks_of, parse_checks

__all__ = ["CHECKS", "Check", "checks_of", "parse_checks"]

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
