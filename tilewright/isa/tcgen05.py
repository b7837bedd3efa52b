"""Tensor memory: 128 lanes by 512 columns of 32 bits per CTA, which warps take and give back by the column.

An address has its lane in bits 16 to 31 and its column in bits 0 to 15. One warp takes columns, all 128 lanes of them,
and finds their address in shared memory; with ``cta_group=2`` a warp of each CTA of a pair does. All must be given back
before the kernel ends. Source: PTX ISA, "TensorCore 5th Generation: Tensor Memory Allocation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arch import only, suffixed
from tilewright.isa.descriptors import InstructionDescriptor, descriptor_addresses, descriptor_trouble
from tilewright.isa.forms import (
    GIVEN,
    LEFT_OUT,
    Access,
    AsyncMeaning,
    Commit,
    Form,
    Issue,
    Meaning,
    Mods,
    ProxyFence,
    Ptx,
    Signal,
    Spellings,
    Wait,
    counts,
    read_and_written,
    reads,
    writes,
)
from tilewright.isa.ldmatrix import FOUR_BITS, SIX_BITS, UNPACK, VALID, Unpack
from tilewright.isa.machine import Addresses, Lanes, Machine, Unit, access_of_unit, in_ctas, in_pairs
from tilewright.isa.mbarrier import arrived
from tilewright.isa.places import constant
from tilewright.isa.table import REQUIRED, WHOLE_WARP, instruction, single

__all__ = [
    "COPY_SHAPES", "CTA_GROUP", "EVERY_LANE", "EXPAND", "LEAST_COLUMNS", "PATHS", "PLACE", "TMEM_ARCHS", "TMEM_COLUMNS",
    "TMEM_LANES", "TMEM_SHAPES", "CopyShape", "DataPath", "TmemShape", "cells_of", "copied_lanes", "path_of",
]  # fmt: skip

TMEM_LANES, TMEM_COLUMNS = 128, 512
LEAST_COLUMNS = 32  # an allocation takes 32, 64, 128, 256 or 512 columns
TMEM_ARCHS = suffixed(100, 103, 110)
CTA_GROUP: Spellings = {1: ".cta_group::1", 2: ".cta_group::2"}
SOURCE = 'PTX ISA, "TensorCore 5th Generation: {}"'
PLACE = {"row": ("taddr", 16), "col": ("taddr", 0)}  # keywords that move an address of tensor memory


class DataPath(NamedTuple):
    """Where D is in a CTA. lanes: of tensor memory, those of its rows. halves: into how many parts its columns are cut,
    each in lanes of its own. origins: the lanes at which d may be.
    """

    lanes: NDArray[Any]
    halves: int = 1
    origins: tuple[int, ...] = (0,)


EVERY_LANE = np.arange(128)
PATHS = {
    (1, 64, False): DataPath(np.arange(64) % 16 + np.arange(64) // 16 * 32, origins=(0, 16)),
    (1, 128, False): DataPath(EVERY_LANE),
    (2, 128, False): DataPath(EVERY_LANE, halves=2),
    (2, 256, False): DataPath(EVERY_LANE),
    (1, 32, True): DataPath(EVERY_LANE, halves=4),
    (1, 64, True): DataPath(EVERY_LANE, halves=2),
    (1, 128, True): DataPath(EVERY_LANE),
}
"""By CTAs, M, and whether B's columns are kept."""


def path_of(product: InstructionDescriptor) -> DataPath:
    """Where a product's D is."""
    return PATHS[product.cta_group, product.M, product.keeps_b]


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

# tcgen05.ld and .st: a warp moves a block of tensor memory to its registers, or back.
#
# A warp reaches a quarter of the lanes, 32 * (warp % 4) and the 31 after it, and all columns. The shape says which
# cell each register of each lane is; ``num`` repeats it along the columns. The instructions are asynchronous:
# registers hold what was loaded after `wait.ld`, cells what was stored after `wait.st`.
#
#     shape       registers   lane of the cell               column
#     32x32b      num         t                              j
#     16x64b      num         t/4 + 8 (t%2)                  2j + (t/2)%2
#     16x128b     2 num       t/4 + 8 (j%2)                  t%4 + 4 (j/2)
#     16x256b     4 num       t/4 + 8 ((j/2)%2)              2 (t%4) + j%2 + 8 (j/4)
#     16x32bx2    num         t%16                           j + (t/16) split
#
# for register j of lane t, from the address on. Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.ld,
# tcgen05.st"; the maps as in CuTe's traits, NVIDIA/cutlass, include/cute/atom/copy_traits_sm100.hpp.

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

# tcgen05.cp and .shift: one thread issues a copy of shared memory to tensor memory, or a move of tensor memory by a
# lane.
#
# The source is a matrix of rows of 16 or 32 bytes, which a matrix descriptor names, K-major. Byte c of row r goes to
# byte c%4 of column c/4 from the address on, in the lanes that the shape and its multicast say:
#
#     shape      rows x bytes   multicast        lanes of row r
#     128x256b   128 x 32                        r
#     128x128b   128 x 16                        r
#     4x256b       4 x 32                        32 r, from the address's lane on
#     64x128b     64 x 16       warpx2::02_13    r, r + 64
#     64x128b     64 x 16       warpx2::01_23    r%32 + 64 (r/32), and that + 32
#     32x128b     32 x 16       warpx4           r, r + 32, r + 64, r + 96
#
# The copy reads shared memory as the asynchronous units see it, and is complete when a commit after it has arrived.
# With ``cta_group=2`` both CTAs of a pair copy, each from its own shared memory; that the descriptor names the same
# addresses in both is unconfirmed.
#
# Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.cp, tcgen05.shift"; the lanes as in CuTe's traits,
# NVIDIA/cutlass, include/cute/atom/copy_traits_sm100.hpp.

PRODUCTS = tuple(f"ptx.tcgen05.{name}" for name in ("mma", "mma.block_scale", "mma.sp", "mma.sp.block_scale"))


class CopyShape(NamedTuple):
    """The source matrix of a copy, and for each multicast the lane at which each copy begins."""

    rows: int
    row_bytes: int
    multicasts: Mapping[str, tuple[int, ...]]


COPY_SHAPES = {
    "128x256b": CopyShape(128, 32, {"": (0,)}),
    "128x128b": CopyShape(128, 16, {"": (0,)}),
    "4x256b": CopyShape(4, 32, {"": (0,)}),
    "64x128b": CopyShape(64, 16, {"warpx2::02_13": (0, 64), "warpx2::01_23": (0, 32)}),
    "32x128b": CopyShape(32, 16, {"warpx4": (0, 32, 64, 96)}),
}


def copied_lanes(shape: str, multicast: str = "") -> NDArray[np.int64]:
    """The lanes of tensor memory that each row is copied to, (copies, rows), from the address's lane on.

    >>> copied_lanes("64x128b", "warpx2::01_23")[:, [0, 31, 32, 63]]
    array([[  0,  31,  64,  95],
           [ 32,  63,  96, 127]])
    """
    form = COPY_SHAPES[shape]
    rows = np.arange(form.rows)
    if shape == "4x256b":
        rows = 32 * rows
    elif multicast == "warpx2::01_23":
        rows = rows + rows // 32 * 32
    lanes: NDArray[np.int64] = rows + np.array(form.multicasts[multicast])[:, None]
    return lanes


def _as_they_are(units: Lanes) -> Lanes:
    return units


def _four_bits(units: Lanes) -> Lanes:
    """Four bits go to bits 2 to 5 of a byte, where the matrix product looks for them; ldmatrix puts them lower."""
    return UNPACK[FOUR_BITS](units) << np.uint8(2)


FORMATS = {"": "", "b6x16_p32": SIX_BITS, "b4x16_p64": FOUR_BITS}
EXPAND: Mapping[str, Unpack] = {"": _as_they_are, "b6x16_p32": UNPACK[SIX_BITS], "b4x16_p64": _four_bits}
VALID_AFTER: Mapping[str, Unpack] = {"": _as_they_are, "b6x16_p32": VALID[SIX_BITS], "b4x16_p64": VALID[FOUR_BITS]}


def copy_addresses(
    unit: Unit, taddr: Lanes, desc: Lanes, *, shape: str, multicast: str, cta_group: int, fmt: str
) -> Mapping[str, Addresses]:
    """From where the descriptor says, 16 bytes at a time, to the lanes of the shape; of both CTAs of a pair."""
    form = COPY_SHAPES[shape]
    _check_lane(unit, taddr, 32 if shape == "4x256b" else 1)
    for word in np.unique(desc):
        if trouble := descriptor_trouble(int(word), form.rows, form.row_bytes):
            unit.fault(trouble, desc == word)
    issuer, rank = _issuers(unit, cta_group)
    first = taddr.astype(np.int64)[issuer, None, None, None]
    lane = (first >> 16) + copied_lanes(shape, multicast)[None, :, :, None]
    column = (first & 0xFFFF) + np.arange(form.row_bytes // 4)
    lane, column = np.broadcast_arrays(lane, column)  # (m, copies, rows, columns)
    source = descriptor_addresses(desc[issuer], form.rows, form.row_bytes)  # (m, rows, units)
    return {"desc": Addresses(source, None, issuer, rank), "taddr": Addresses(lane, column, issuer, rank)}


def _issuers(unit: Unit, cta_group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return in_pairs(unit) if cta_group == 2 else (np.arange(len(unit.rank)), unit.rank)


def copy(units: Lanes, *, fmt: str, expand: Mapping[str, Unpack] = EXPAND, **shape: object) -> Lanes:
    """Row by row, 16 bytes at a time, from where the descriptor says to the lanes of the shape.

    With a format, 16 elements of 6 or 4 bits, packed at the low end of each 16 bytes, become a byte each: 6 bits its
    low ones, 4 bits its bits 2 to 5. Where in the byte they come is unconfirmed.
    """
    rows: Lanes = np.ascontiguousarray(expand[fmt](units)).view(np.uint32)  # (m, rows, units, 4)
    return rows.reshape(len(rows), 1, rows.shape[1], -1)


def copy_valid(units: Lanes, **mods: str) -> Lanes:
    """The same on validity: a byte is valid where all bits of its element are."""
    return copy(units, **mods, expand=VALID_AFTER)


def _check_lane(unit: Unit, taddr: Lanes, lanes: int) -> None:
    wrong = taddr >> 16 >= lanes
    if wrong.any():
        allowed = "0 to 31" if lanes == 32 else "0, since the copy spans all lanes"
        unit.fault(f"taddr is in lane {int(taddr[wrong][0]) >> 16}; it is {allowed}", wrong)


def shifted(unit: Unit, taddr: Lanes, *, cta_group: int) -> Mapping[str, Addresses]:
    """8 columns of 32 lanes: each lane but the last, and where it gets its cells from.

    That the last lane stays, and that `cp` with 4x256b is what fills it, is unconfirmed.
    """
    wrong = taddr >> 16 & 31 != 0
    if wrong.any():
        unit.fault(f"taddr is in lane {int(taddr[wrong][0]) >> 16}; it is a multiple of 32", wrong)
    issuer, rank = _issuers(unit, cta_group)
    first = taddr.astype(np.int64)[issuer, None, None]
    lane, column = np.broadcast_arrays((first >> 16) + np.arange(31)[:, None], (first & 0xFFFF) + np.arange(8))
    return {"from": Addresses(lane + 1, column, issuer, rank), "taddr": Addresses(lane, column, issuer, rank)}


def shift(cells: Lanes, **mods: object) -> Lanes:
    """In 8 columns of 32 lanes, each lane but the last gets what is in the lane after it."""
    return cells


COPY_UNCONFIRMED = (
    "where 4 and 6 bits come in their byte, what cta_group 2 reads in the second CTA, and that taddr is in lane 0 "
    "(4x256b: in 0 to 31)"
)

instruction(
    "ptx.tcgen05.cp",
    keywords={"shape": REQUIRED, "cta_group": 1, "multicast": "", "fmt": "", "row": 0, "col": 0},
    operands=(reads("taddr", "tmem"), counts("desc", "b64")),
    folds=PLACE,
    agrees="cta_group",
    doc="A thread has a matrix of shared memory copied to tensor memory; `commit` tells when that is done.",
    forms=tuple(
        Form(
            Ptx(
                "tcgen05.cp{cta_group}{shape}{multicast}{fmt}",
                {
                    "shape": {shape: f".{shape}"},
                    "cta_group": CTA_GROUP,
                    "multicast": {name: f".{name}" if name else "" for name in form.multicasts},
                    "fmt": FORMATS,
                },
            ),
            TMEM_ARCHS,
            f"{SOURCE.format('tcgen05.cp')}; unconfirmed: {COPY_UNCONFIRMED}",
            AsyncMeaning(
                copy,
                addresses=copy_addresses,
                passes=("shape", "multicast", "cta_group", "fmt"),
                moves=True,
                validity=copy_valid,
            ),
            effects=(
                access_of_unit("desc", "shared", write=False, unfenced=True),
                Access("taddr", "tmem", 4, write=True, proxy="tmem", computed=True),
                Issue("tmem", in_order_after=("ptx.tcgen05.shift",) if shape == "4x256b" else ()),
            ),
        )
        for shape, form in COPY_SHAPES.items()
    ),
)
single(
    "ptx.tcgen05.shift",
    Ptx("tcgen05.shift{cta_group}.down", {"cta_group": CTA_GROUP}),
    only("sm_100a", "sm_103a", "sm_110a"),
    f"{SOURCE.format('tcgen05.shift')}; unconfirmed: which way is down, and that the last lane stays as it is",
    AsyncMeaning(shift, addresses=shifted, passes=("cta_group",), moves=True),
    keywords={"cta_group": 1, "row": 0, "col": 0},
    operands=(reads("taddr", "tmem"),),
    folds=PLACE,
    agrees="cta_group",
    doc="A thread has 8 columns of 32 lanes moved up by one lane; `commit` tells when that is done.",
    effects=(
        Access("from", "tmem", 4, write=False, proxy="tmem", computed=True),
        Access("taddr", "tmem", 4, write=True, proxy="tmem", computed=True),
        Issue("tmem", in_order_after=PRODUCTS),
    ),
)

# Completion of operations on tensor memory, and its order among threads.
#
# Copies and products of a thread report to an m-barrier through a commit; loads and stores of a warp are waited for
# by the warp. With the two fences, a barrier between threads orders operations on tensor memory, too.
#
# Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model, tcgen05.commit, tcgen05.wait, tcgen05.fence".


def _everywhere(unit: Unit, ptr: Lanes, cta_mask: Lanes) -> Mapping[str, Addresses]:
    """The same place in each CTA of the cluster whose bit is set."""
    if (nowhere := cta_mask == 0).any():
        unit.fault("cta_mask has a bit for each CTA of the cluster that is told, and none is set", nowhere)
    return {"ptr": in_ctas(unit, ptr, cta_mask)}


instruction(
    "ptx.tcgen05.commit",
    keywords={"cta_group": 1, "cta_mask": None},
    operands=(reads("ptr", "shared"), counts("cta_mask", "b16")),
    agrees="cta_group",
    check=constant("cta_mask", lambda mask: 0 < mask < 1 << 16, "a bit for each CTA of the cluster: 1..0xffff"),
    doc="Arrives at an m-barrier once all copies and products that the thread issued before are complete.",
    forms=tuple(
        Form(
            Ptx(
                f"tcgen05.commit{{cta_group}}.mbarrier::arrive::one.shared::cluster{multicast}.b64",
                {"cta_group": CTA_GROUP, "cta_mask": presence},
                pattern=pattern,
            ),
            TMEM_ARCHS,
            SOURCE.format("tcgen05.commit"),
            AsyncMeaning(addresses=addresses),
            effects=(
                *read_and_written("ptr", "shared", 8, scope="cluster"),
                Signal("ptr", "arrive", "release", "cluster", arrived),
                Commit("tmem"),
            ),
        )
        for multicast, presence, addresses, pattern in (
            ("", LEFT_OUT, None, "[{ptr}]"),
            (".multicast::cluster", GIVEN, _everywhere, "[{ptr}], {cta_mask}"),
        )
    ),
)

for _name, _group, _doc in (
    ("ld", "tmem.load", "Waits until the warp's loads from tensor memory are in its registers."),
    ("st", "tmem.store", "Waits until the warp's stores to tensor memory are in its cells."),
):
    single(
        f"ptx.tcgen05.wait.{_name}",
        Ptx(f"tcgen05.wait::{_name}.sync.aligned"),
        TMEM_ARCHS,
        SOURCE.format("tcgen05.wait"),
        lanes=WHOLE_WARP,
        doc=_doc,
        effects=(Wait(_group),),
    )

for _name, _side, _doc in (
    (
        "before",
        "release",
        "What the thread did to tensor memory before comes before what others do after they meet it.",
    ),
    (
        "after",
        "acquire",
        "What the thread does to tensor memory from now on comes after what others did before it met them.",
    ),
):
    single(
        f"ptx.tcgen05.fence.{_name}_thread_sync",
        Ptx(f"tcgen05.fence::{_name}_thread_sync"),
        TMEM_ARCHS,
        SOURCE.format("tcgen05.fence"),
        doc=_doc,
        effects=(ProxyFence("tmem", side=_side),),
    )
