"""Tensor memory by the manual's tables, one lane, row or bit at a time. Shares no code with the table.

Cells are a dict: (lane, column) -> 32 bits.
"""

from __future__ import annotations

COVERED = {
    f"ptx.tcgen05.{name}"
    for name in ("alloc", "dealloc", "relinquish_alloc_permit", "ld", "st", "cp", "shift", "commit")
} | {"ptx.mapa", "ptx.map_shared_rank"}

SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
Cells = dict[tuple[int, int], int]


def place(shape: str, lane: int, register: int, split: int) -> tuple[int, int]:
    """Lane and column of a register, from the address on, as the figures of tcgen05.ld have them."""
    g, t = lane // 4, lane % 4
    if shape == "32x32b":
        return lane, register
    if shape == "16x64b":  # 64 bits of a row are in two lanes; odd lanes have the lower 8 rows
        return g + (8 if lane % 2 else 0), 2 * register + (1 if t >= 2 else 0)
    if shape == "16x128b":  # pairs of registers: the upper and the lower 8 rows, 4 columns
        return g + 8 * (register % 2), 4 * (register // 2) + t
    if shape == "16x256b":  # fours of registers: two neighbours in the upper rows, two in the lower ones
        block, c = divmod(register, 4)
        return g + 8 * (c // 2), 8 * block + 2 * t + c % 2
    return lane % 16, register + (split if lane >= 16 else 0)


def registers_of(shape: str, num: int) -> int:
    return num * {"16x128b": 2, "16x256b": 4}.get(shape, 1)


def loaded(cells: Cells, first: tuple[int, int], shape: str, num: int, split: int, packed: bool) -> list[list[int]]:
    """The registers of a warp, register first."""
    return [
        [fetched(cells, first, *reached(shape, lane, register, split, packed)) for lane in range(32)]
        for register in range(registers_of(shape, num))
    ]


def reached(shape: str, lane: int, register: int, split: int, packed: bool) -> tuple[int, list[int]]:
    """The lane and the column, or with packed the two columns, that a register is."""
    row, column = place(shape, lane, register, 0)
    shift = split if shape == "16x32bx2" and lane >= 16 else 0
    return row, [2 * column + shift, 2 * column + 1 + shift] if packed else [column + shift]


def fetched(cells: Cells, first: tuple[int, int], row: int, columns: list[int]) -> int:
    words = [cells[first[0] + row, first[1] + column] for column in columns]
    return words[0] if len(words) == 1 else words[0] % 2**16 + words[1] % 2**16 * 2**16


def stored(
    cells: Cells, first: tuple[int, int], shape: str, num: int, split: int, packed: bool, registers: list[list[int]]
) -> None:
    for register, lane in ((r, lane) for r in range(registers_of(shape, num)) for lane in range(32)):
        row, columns = reached(shape, lane, register, split, packed)
        word = registers[register][lane]
        for column, part in zip(columns, [word % 2**16, word >> 16] if packed else [word], strict=True):
            cells[first[0] + row, first[1] + column] = part


# Copies.

SIZES = {"128x256b": (128, 32), "4x256b": (4, 32), "128x128b": (128, 16), "64x128b": (64, 16), "32x128b": (32, 16)}


def lanes_of_row(shape: str, multicast: str, row: int) -> list[int]:
    """Where row ``row`` of the source goes: the warps of a pair get the same rows."""
    if multicast == "warpx4":
        return [row, row + 32, row + 64, row + 96]
    if multicast == "warpx2::02_13":  # warps 0 and 2 the first 32 rows, 1 and 3 the others
        return [row, row + 64]
    if multicast == "warpx2::01_23":  # warps 0 and 1 the first 32 rows, 2 and 3 the others
        return [row, row + 32] if row < 32 else [row + 32, row + 64]
    return [32 * row] if shape == "4x256b" else [row]


def expanded(unit: bytes, fmt: str) -> bytes:
    """16 bytes as they come to tensor memory: packed elements of 6 or 4 bits get a byte each."""
    if not fmt:
        return unit
    bits, up = (6, 0) if fmt == "b6x16_p32" else (4, 2)
    number = int.from_bytes(unit, "little")
    return bytes((number >> bits * i & (1 << bits) - 1) << up for i in range(16))
