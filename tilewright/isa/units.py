"""What carries asynchronous operations out, for whoever shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.effects import Access
from tilewright.isa.machine import Addresses, Lanes, Unit

if TYPE_CHECKING:
    from tilewright.isa.forms import Form
__all__ = ["unit_of"]

# What families of asynchronous instructions have in common: their accesses, and places in other CTAs.


def access_of_unit(operand: str, space: str, *, write: bool, unfenced: bool = False) -> Access:
    """An access of an asynchronous unit, 16 bytes at a time, at addresses that it computes."""
    return Access(operand, space, 16, write=write, proxy="async", computed=True, unfenced=unfenced)


def combined_by_unit(operand: str, space: str) -> tuple[Access, Access]:
    """The accesses of a reduction: its places are read and written as one."""
    read = replace(access_of_unit(operand, space, write=False), rmw=True, sem="relaxed", scope="gpu")
    return read, replace(read, write=True)


def in_ctas(unit: Unit, address: Lanes, ctas: Lanes) -> Addresses:
    """The same shared addresses, (n, ...), in every CTA of the cluster whose bit is set in the (n,) masks ``ctas``."""
    size, bits = unit.cluster_ctas, ctas.astype(np.int64)
    if (nobody := bits >> size != 0).any():
        first = int(bits[nobody][0]) >> size
        bit = size + (first & -first).bit_length() - 1
        unit.fault(f"cta_mask has bit {bit}, but the ranks of the cluster's CTAs are 0..{size - 1}", nobody)
    issuer, rank = np.nonzero(bits[:, None] >> np.arange(size) & 1)
    return Addresses(address[issuer], issuer=issuer, rank=rank)


def in_pairs(unit: Unit) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``issuer`` and ``rank`` of `Addresses` for both CTAs of each issuer's pair, the even rank first."""
    if unit.cluster_ctas % 2:
        unit.fault("cta_group=2 is for pairs of CTAs: the cluster has an even number of them", unit.rank >= 0)
    issuer = np.repeat(np.arange(len(unit.rank)), 2)
    return issuer, unit.rank[issuer] // 2 * 2 + np.arange(len(issuer)) % 2


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
