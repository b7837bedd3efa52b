"""tcgen05.ld and .st: a warp moves a block of tensor memory to its registers, or back.

A warp reaches a quarter of the lanes, 32 * (warp % 4) and the 31 after it, and all columns. The shape says which cell
each register of each lane is; ``num`` repeats it along the columns. The instructions are asynchronous: registers hold
what was loaded after `wait.ld`, cells what was stored after `wait.st`.

    shape       registers   lane of the cell               column
    32x32b      num         t                              j
    16x64b      num         t/4 + 8 (t%2)                  2j + (t/2)%2
    16x128b     2 num       t/4 + 8 (j%2)                  t%4 + 4 (j/2)
    16x256b     4 num       t/4 + 8 ((j/2)%2)              2 (t%4) + j%2 + 8 (j/4)
    16x32bx2    num         t%16                           j + (t/16) split

for register j of lane t, from the address on. Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.ld, tcgen05.st";
the maps as in CuTe's traits, NVIDIA/cutlass, include/cute/atom/copy_traits_sm100.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.table import (
    GIVEN,
    LEFT_OUT,
    REQUIRED,
    WHOLE_WARP,
    Access,
    AsyncMeaning,
    Form,
    Issue,
    Mods,
    Ptx,
    Spellings,
    instruction,
    reads,
    writes,
)
from tilewright.isa.tcgen05_alloc import PLACE, SOURCE, TMEM_ARCHS

__all__ = ["TMEM_SHAPES", "TmemShape", "cells_of"]

Cells = tuple[NDArray[np.int64], NDArray[np.int64]]


class TmemShape(NamedTuple):
    """How a load or store deals cells out.

    registers: of each lane for num = 1. most: the greatest num. height: lanes of tensor memory that it spans.
    cell: lane and column of register j of lane t, from the address on. splits: lanes 16 and on are ``split`` columns
    further.
    """

    registers: int
    most: int
    height: int
    cell: Callable[[Any, Any], tuple[Any, Any]]
    splits: bool = False


TMEM_SHAPES = {
    "32x32b": TmemShape(1, 128, 32, lambda t, j: (t, j)),
    "16x64b": TmemShape(1, 128, 16, lambda t, j: (t // 4 + 8 * (t % 2), 2 * j + t // 2 % 2)),
    "16x128b": TmemShape(2, 64, 16, lambda t, j: (t // 4 + 8 * (j % 2), t % 4 + 4 * (j // 2))),
    "16x256b": TmemShape(4, 32, 16, lambda t, j: (t // 4 + 8 * (j // 2 % 2), 2 * (t % 4) + j % 2 + 8 * (j // 4))),
    "16x32bx2": TmemShape(1, 128, 16, lambda t, j: (t % 16, j), splits=True),
}


def cells_of(shape: str, num: int, *, split: int = 0, packed: bool = False) -> Cells:
    """Lane and column of the cell of each register, from the address on: two arrays (registers, 32).

    packed: two cells for each register, (registers, 2, 32): those whose low halves are its low and its high half.

    >>> lane, column = cells_of("16x256b", 1)
    >>> [(int(lane[j, 5]), int(column[j, 5])) for j in range(4)]  # the accumulator c0 to c3 of an m16n8 product
    [(1, 2), (1, 3), (9, 2), (9, 3)]
    """
    form = TMEM_SHAPES[shape]
    thread, register = np.arange(32), np.arange(form.registers * num)[:, None]
    lane, column = np.broadcast_arrays(*form.cell(thread, register))
    if packed:
        lane, column = np.stack((lane, lane), axis=1), np.stack((2 * column, 2 * column + 1), axis=1)
    return lane, column + thread // 16 * split if form.splits else column


def addresses(
    unit: Unit, taddr: Lanes, *more: Lanes, shape: str, num: int, pack: bool = False, unpack: bool = False
) -> Mapping[str, Addresses]:
    """The cells of each warp, (n, registers, 32), or with two for each register (n, 2 * registers, 32).

    more: the split of 16x32bx2, and the registers of a store.
    """
    _check_address(unit, taddr, TMEM_SHAPES[shape].height)
    first = taddr[:, None, :].astype(np.int64)
    split = int(more[0].flat[0]) if TMEM_SHAPES[shape].splits else 0
    lane, column = cells_of(shape, num, split=split, packed=pack or unpack)
    return {"taddr": Addresses((first >> 16) + lane.reshape(-1, 32), (first & 0xFFFF) + column.reshape(-1, 32))}


def _check_address(unit: Unit, taddr: Lanes, height: int) -> None:
    differs = (taddr != taddr[:, :1]).any(1)
    if differs.any():
        unit.fault("taddr is the same in all lanes of the warp", differs)
    lane, warp = taddr[:, 0].astype(np.int64) >> 16, unit.warp
    wrong = (lane // 32 != warp % 4) | (lane % height != 0)
    if wrong.any():
        at, who = int(lane[wrong][0]), int(warp[wrong][0])
        first = who % 4 * 32
        allowed = f"lane {first}" if height == 32 else f"lanes {first} and {first + 16}"
        unit.fault(f"taddr is in lane {at}; warp {who} reaches {first}..{first + 31} and begins at {allowed}", wrong)


def load(words: Lanes, *, pack: bool, **shape: object) -> Lanes:
    """Each register gets its cell; with pack the low halves of two, which are neighbours in a row."""
    if not pack:
        return words
    low, high = words[..., 0::2, :], words[..., 1::2, :]
    return low & np.uint32(0xFFFF) | high << np.uint32(16)


def store(registers: Lanes, *, unpack: bool, **shape: object) -> Lanes:
    """Each cell gets its register; with unpack the low halves of two get its halves.

    What is then in the upper halves of those cells is unconfirmed: here it is zero, and uninitialised to the checks.
    """
    if not unpack:
        return registers
    halves = np.stack((registers & np.uint32(0xFFFF), registers >> np.uint32(16)), axis=-2)
    return halves.reshape(*registers.shape[:-2], -1, 32)


def tmem_registers(mods: Mods) -> int:
    """The registers that each lane loads or stores."""
    return TMEM_SHAPES[str(mods["shape"])].registers * int(mods["num"])  # type: ignore[arg-type]  # a key of _num


UNCONFIRMED = {
    "ld": "",
    "st": "; unconfirmed: the upper halves of the cells after unpack, here zero and uninitialised to the checks",
}


def _num(shape: str) -> Spellings:
    return {num: f".x{num}" for num in (1, 2, 4, 8, 16, 32, 64, 128) if num <= TMEM_SHAPES[shape].most}


def _forms(opcode: str, half: Spellings, execute: Callable[..., Lanes], pattern: str) -> Iterator[Form]:
    """A form for each shape; 16x32bx2 says in the instruction how far its two halves are apart."""
    writes = opcode == "st"
    name = "unpack" if writes else "pack"
    for shape in TMEM_SHAPES:
        halves = TMEM_SHAPES[shape].splits
        yield Form(
            Ptx(
                f"tcgen05.{opcode}.sync.aligned{{shape}}{{num}}{{{name}}}.b32",
                {"shape": {shape: f".{shape}"}, "num": _num(shape), name: half, "split": GIVEN if halves else LEFT_OUT},
                pattern=pattern.format(split=", {split}" if halves else ""),
            ),
            TMEM_ARCHS,
            f"{SOURCE.format(f'tcgen05.{opcode}')}{UNCONFIRMED[opcode]}",
            AsyncMeaning(
                execute, addresses=addresses, takes=("r",) if writes else (), passes=("shape", "num", name), moves=True
            ),
            effects=(
                Access("taddr", "tmem", 4, write=writes, proxy="tmem", computed=True),
                Issue("tmem.store") if writes else Issue("tmem.load", stalls=True),
            ),
            registers=tmem_registers,
        )


instruction(
    "ptx.tcgen05.ld",
    params=("taddr", "*r"),
    keywords={"shape": REQUIRED, "num": REQUIRED, "pack": False, "split": None, "row": 0, "col": 0},
    operands=(writes("*r", "b32"), reads("taddr", "tmem"), reads("split", "imm")),
    lanes=WHOLE_WARP,
    folds=PLACE,
    doc="A warp loads cells of its quarter of tensor memory; its registers have them after `wait.ld`.",
    forms=tuple(_forms("ld", {False: "", True: ".pack::16b"}, load, "{{r}}, [{{taddr}}]{split}")),
)
instruction(
    "ptx.tcgen05.st",
    keywords={"shape": REQUIRED, "num": REQUIRED, "unpack": False, "split": None, "row": 0, "col": 0},
    operands=(reads("taddr", "tmem"), reads("split", "imm"), reads("*r", "b32")),
    lanes=WHOLE_WARP,
    folds=PLACE,
    doc="A warp stores its registers to its quarter of tensor memory; the cells have them after `wait.st`.",
    forms=tuple(_forms("st", {False: "", True: ".unpack::16b"}, store, "[{{taddr}}]{split}, {{r}}")),
)
