"""What carries asynchronous operations out, for whoever shows them or counts their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.isa.forms import Form

__all__ = ["UNIT_LATENCY", "unit_of"]

UNITS = {
    "cp.async": "cp.async", "cp.async.bulk": "TMA", "wgmma": "tensor core", "tmem": "tcgen05",
    "tmem.load": "tensor memory", "tmem.store": "tensor memory",
}  # fmt: skip
"""By the group with which operations are counted."""

UNIT_LATENCY = {"TMA": 650.0, "cp.async": 550.0, "memory": 250.0, "tensor core": 32.0, "tcgen05": 40.0,
                "tensor memory": 30.0}  # fmt: skip
"""Cycles between the last byte or product of an operation and its completion: round numbers of the right size for
Hopper, for a picture of who waits for whom. No measurement of this project."""


def unit_of(form: Form) -> str:
    """What carries an operation out: TMA, tensor core, cp.async, tcgen05, tensor memory, or memory for the rest."""
    effect = form.issue or form.commit
    by_engine = any(access.proxy == "async" for access in form.touched)
    return UNITS.get(effect.group if effect else "") or ("TMA" if by_engine else "memory")
