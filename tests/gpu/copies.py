"""A kernel around one tile copy: both sides are filled from memory first, and put back into memory after it.

Storage is filled and read slot by slot through flat views, so that every byte is judged: those that the copy moves, the
padding between them, and the registers that it must leave alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.tile.kernels import AT, TID, copy, scope_ids, whole_number
from tests.tile.oracle import copied, filled
from tilewright import tile
from tilewright.dtypes import HANDLE, DType, dtype
from tilewright.errors import TilewrightWarning
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Buffer,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Region,
    Stmt,
    Store,
    TileCallStmt,
    Var,
    as_expr,
    cast,
    row_major,
)
from tilewright.isa import call
from tilewright.lower import lower

Array = NDArray[Any]


@dataclass(frozen=True)
class Call:
    """The lowered kernel. oracle: the memory after the call. variant: the one that took it. threads: of its one CTA."""

    regions: tuple[Region, ...]
    oracle: Callable[[dict[str, NDArray[np.int64]]], dict[str, NDArray[np.int64]]]
    threads: int
    kernel: Kernel
    variant: str

    def arrays(self, rng: np.random.Generator) -> dict[str, Array]:
        """Random bytes for every storage; what is to come out holds other ones."""
        return {
            buffer.name: rng.integers(0, 256, size_bytes(buffer), dtype=np.uint8).view(unit(buffer).numpy)
            for buffer in self.kernel.buffers
        }

    def expected(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The bytes after the call by name, element by element, from the tables of the layouts."""
        sides = [region.buffer for region in self.regions]
        before = {side.name: elements(arrays[initial(side)].view(np.uint8), side, self.threads) for side in sides}
        after = self.oracle(before)
        return {final(side): packed(after[side.name], side) for side in sides}


def initial(buffer: Buffer) -> str:
    """The array that holds what a storage holds before the copy."""
    return buffer.name if buffer.space == "global" else f"{buffer.name}_in"


def final(buffer: Buffer) -> str:
    return buffer.name if buffer.space == "global" else f"{buffer.name}_out"


def made_copy(dst: Region, src: Region, scope: str, threads: int) -> Call:
    """Raises DispatchError where no variant takes the copy."""
    stmt = copy(dst, src, scope=scope)
    return made_call(stmt, (dst, src), lambda memory: copied(dst, src, memory, threads), threads)


def made_fill(dst: Region, scope: str, threads: int) -> Call:
    """A fill with ones."""
    value = cast(1, dst.dtype)
    bits = np.asarray(1).astype(dst.dtype.numpy).view(f"u{max(1, dst.dtype.bits // 8)}")
    stmt = TileCallStmt("fill", scope, (dst, value), at=AT)
    return made_call(stmt, (dst,), lambda memory: filled(dst, int(bits), memory, threads), threads)


def made_call(stmt: TileCallStmt, regions: tuple[Region, ...], oracle: Any, threads: int) -> Call:
    before, after, params = [], [], []
    for side in (region.buffer for region in regions):
        if side.space == "global":
            params.append(side)
            continue
        given, taken = (parameter(name, side, threads) for name in (initial(side), final(side)))
        params += [given, taken]
        flat = Buffer(f"{side.name}_flat", unit(side), (units(side),), side.space, row_major((units(side),)),
                      data=AddressOf(side, ()))  # fmt: skip
        before += [AllocBuffer(side), DeclBuffer(flat), *moved(flat, None, given, threads, f"{side.name}_i")]
        after += moved(flat, taken, None, threads, f"{side.name}_j")
    handles = tuple(buffer.data for buffer in params if isinstance(buffer.data, Var))
    body = (*scope_ids(threads), *before, sync(), stmt, sync(), *after)
    authored = Kernel("k", handles, tuple(params), body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)  # of a fallback
        resolved, report = tile.resolve(authored, "sm_90a")
    return Call(regions, oracle, threads, lower(resolved), report.entries[-1].variant)


def sync() -> Stmt:
    return Evaluate(call("cuda.cta_sync"))


def moved(flat: Buffer, to: Buffer | None, source: Buffer | None, threads: int, loop: str) -> list[Stmt]:
    """Every unit of a storage from ``source``, or ``to`` an array: registers by each thread, shared ones in turn."""
    count, i = whole_number(flat.shape[0]), Var(loop)
    local = flat.space == "local"
    inside: Expr = i if local else i * threads + TID
    outside = TID * count + i if local else inside
    here, there = Load(flat, (inside,)), Load(to or source or flat, (outside,))
    one: Stmt = Store(here, there) if source else Store(there, here)
    guarded: Stmt = one if local or count % threads == 0 else If(inside < count, (one,))
    return [For(i, as_expr(0), as_expr(count if local else -(-count // threads)), (guarded,))]


# Storage as arrays. A unit is an element, or a byte of packed ones.


def unit(buffer: Buffer) -> DType:
    return buffer.dtype if buffer.dtype.bits >= 8 else dtype("uint8")


def units(buffer: Buffer) -> int:
    return -(-buffer.storage_size() * buffer.dtype.bits // unit(buffer).bits)


def parameter(name: str, side: Buffer, threads: int) -> Buffer:
    size = units(side) * (threads if side.space == "local" else 1)
    return Buffer(name, unit(side), (size,), "global", row_major((size,)), data=Var(f"{name}_ptr", HANDLE))


def size_bytes(buffer: Buffer) -> int:
    return -(-whole_number(buffer.shape[0]) * buffer.dtype.bits // 8)


def elements(array: Array, side: Buffer, threads: int) -> NDArray[np.int64]:
    """The bits of each element as a number: (slots,), or (threads, slots) of registers; padding of half a byte too."""
    if side.dtype.bits < 8:
        flat = np.stack([array & 15, array >> 4], axis=-1).reshape(-1).astype(np.int64)
    else:
        flat = array.view(f"u{side.dtype.bits // 8}").astype(np.int64)
    return flat if side.space != "local" else flat.reshape(threads, -1)


def packed(numbers: NDArray[np.int64], side: Buffer) -> Array:
    """The bytes of `elements`."""
    if side.dtype.bits >= 8:
        return numbers.astype(f"u{side.dtype.bits // 8}").reshape(-1).view(np.uint8)
    return (numbers[..., 0::2] | numbers[..., 1::2] << 4).reshape(-1).astype(np.uint8)
