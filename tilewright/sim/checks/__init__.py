"""The named checks of the simulator, one file each.

base                what a check is, and the events of a run that it may look at
bounds, alignment   the address of one access
arithmetic          undefined operations of integers
poison              bytes that are not initialised
registers           registers of operations in flight: held, written, or without their fence
descriptors         matrix descriptors of tensor cores
collectors          operands that a unit keeps for later operations
stuck               what a CTA leaves behind; threads that can never go on

Races are looked for in a room of their own, `tilewright.sim.order`.
"""

import importlib
import pkgutil

from tilewright.sim.checks.base import CHECKS, Check, checks_of, parse_checks, values_of

__all__ = ["CHECKS", "Check", "checks_of", "parse_checks", "values_of"]

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
