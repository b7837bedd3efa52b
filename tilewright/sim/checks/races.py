"""Races: two accesses to one place, one of them a write, that nothing orders. See `tilewright.sim.order`."""

from tilewright.sim.checks.base import register
from tilewright.sim.order.engine import Order

register("races", "accesses to one place, one of them a write, that nothing orders", Order)
