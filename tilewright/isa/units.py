"""What carries asynchronous operations out, for whoever shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.isa.forms import Form

__all__ = ["unit_of"]

UNITS = {
    "cp.async": "cp.async", "cp.async.bulk": "TMA", "wgmma": "tensor core", "tmem": "tcgen05",
    "tmem.load": "tensor memory", "tmem.store": "tensor memory",
}  # fmt: skip
"""By the group with which operations are counted."""


def unit_of(form: Form) -> str:
    """What carries an operation out: TMA, tensor core, cp.async, tcgen05, tensor memory, or memory for the rest."""
    effect = form.issue or form.commit
    by_engine = any(access.proxy == "async" for access in form.touched)
    return UNITS.get(effect.group if effect else "") or ("TMA" if by_engine else "memory")
