"""Tensor memory: 128 lanes by 512 columns of 32 bits per CTA, which warps take and give back by the column.

An address has its lane in bits 16 to 31 and its column in bits 0 to 15. One warp takes columns, all 128 lanes of them,
and finds their address in shared memory; with ``cta_group=2`` a warp of each CTA of a pair does. All must be given back
before the kernel ends. Source: PTX ISA, "TensorCore 5th Generation: Tensor Memory Allocation".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.isa.arch import suffixed
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.registers import constant
from tilewright.isa.table import WHOLE_WARP, Access, Form, Meaning, Ptx, Spellings, counts, instruction, reads

__all__ = ["CTA_GROUP", "PLACE", "TMEM_ARCHS", "TMEM_COLUMNS", "TMEM_LANES"]

TMEM_LANES, TMEM_COLUMNS = 128, 512
LEAST_COLUMNS = 32
TMEM_ARCHS = suffixed(100, 103, 110)
CTA_GROUP: Spellings = {1: ".cta_group::1", 2: ".cta_group::2"}
SOURCE = 'PTX ISA, "TensorCore 5th Generation: {}"'
PLACE = {"row": ("taddr", 16), "col": ("taddr", 0)}  # keywords that move an address of tensor memory


def _uniform(machine: Machine, name: str, value: Lanes) -> None:
    differs = machine.active & (value != value[..., :1])
    if differs.any():
        machine.fault(f"{name} is the same in all lanes of the warp", differs)


def _check_columns(machine: Machine, columns: Lanes) -> None:
    _uniform(machine, "n_cols", columns)
    wrong = machine.active & ((columns < LEAST_COLUMNS) | (columns > TMEM_COLUMNS) | (columns & (columns - 1) != 0))
    if wrong.any():
        sample = np.broadcast_to(columns, wrong.shape)[wrong][0]
        machine.fault(f"n_cols is a power of two from {LEAST_COLUMNS} to {TMEM_COLUMNS}, not {sample}", wrong)


def reserve(machine: Machine, ptr: Lanes, n_cols: Lanes, requested: Lanes, *, cta_group: int) -> Lanes:
    """Asks for columns; true in warps that have got them. The others wait until a warp gives some back."""
    _check_columns(machine, n_cols)
    return machine.tmem.reserve(n_cols, np.where(requested == 0, n_cols, requested), cta_group == 2)


def allocate(machine: Machine, ptr: Lanes, n_cols: Lanes, requested: Lanes, *, cta_group: int) -> None:
    """Takes columns, once there are so many, and writes the address of the first to shared memory.

    requested: how many the kernel asked for, where the number was rounded up; the others are out of bounds.
    """
    _uniform(machine, "ptr", ptr)
    _check_columns(machine, n_cols)
    asked = np.where(requested == 0, n_cols, requested)
    address = machine.tmem.allocate(n_cols, asked, cta_group == 2)
    words = np.ascontiguousarray(address[..., :1].astype(np.uint32))
    machine.shared.store_rows(ptr[..., :1], words[..., None].view(np.uint8))


def deallocate(machine: Machine, addr: Lanes, n_cols: Lanes, *, cta_group: int) -> None:
    """Gives back what one `alloc` took, all of it."""
    _uniform(machine, "addr", addr)
    _check_columns(machine, n_cols)
    machine.tmem.free(addr, n_cols, cta_group == 2)


def relinquish(machine: Machine, *, cta_group: int) -> None:
    """The CTA will take no more columns, so that another CTA on the same processor may."""
    machine.tmem.relinquish(cta_group == 2)


_check_constant = constant(  # other sizes are rounded up later
    "n_cols",
    lambda columns: 0 < columns <= TMEM_COLUMNS,
    f"a power of two from {LEAST_COLUMNS} to {TMEM_COLUMNS}",
    pattern="{} columns",
)


def _form(
    text: str, execute: Callable[..., object], *accesses: Access, ready: Callable[..., object] | None = None
) -> Form:
    return Form(
        Ptx(text, {"cta_group": CTA_GROUP}),
        TMEM_ARCHS,
        SOURCE.format("Tensor Memory Allocation and Management Instructions"),
        Meaning(execute, on="machine", passes=("cta_group",), ready=ready),
        effects=(*accesses,),
    )


instruction(
    "ptx.tcgen05.alloc",
    keywords={"cta_group": 1, "requested": 0},
    operands=(reads("ptr", "shared"), counts("n_cols"), reads("requested", "note")),
    lanes=WHOLE_WARP,
    check=_check_constant,
    agrees="cta_group",
    doc="A warp takes ``n_cols`` columns of tensor memory and finds their address, 32 bits, at ``ptr``.",
    forms=(
        _form(
            "tcgen05.alloc{cta_group}.sync.aligned.shared::cta.b32",
            allocate,
            Access("ptr", "shared", 4, write=True, lanes=1),
            ready=reserve,
        ),
    ),
)
instruction(
    "ptx.tcgen05.dealloc",
    keywords={"cta_group": 1},
    operands=(reads("addr", "tmem"), counts("n_cols")),
    pattern="{addr}, {n_cols}",
    lanes=WHOLE_WARP,
    check=_check_constant,
    agrees="cta_group",
    doc="A warp gives back the columns that `alloc` took.",
    forms=(_form("tcgen05.dealloc{cta_group}.sync.aligned.b32", deallocate),),
)
instruction(
    "ptx.tcgen05.relinquish_alloc_permit",
    keywords={"cta_group": 1},
    lanes=WHOLE_WARP,
    agrees="cta_group",
    doc="The CTA takes no more tensor memory; what it has it may still give back.",
    forms=(_form("tcgen05.relinquish_alloc_permit{cta_group}.sync.aligned", relinquish),),
)
