"""Matrix descriptors by the manual's formulas, byte by byte. Shares no code with the table."""

from __future__ import annotations

COVERED = {
    "ptx.tcgen05.encode_matrix_descriptor",
    "ptx.wgmma.encode_matrix_descriptor",
    "ptx.tcgen05.smem_desc_add_16B_offset",
    "cuda.smem_desc_add_16B_offset",
    "smem_desc_add_16B_offset",
}

SPAN = {0: 16, 1: 32, 2: 64, 3: 128}  # swizzle mode -> bytes of its rows
CODES = {"sm_90": {0: 0, 1: 3, 2: 2, 3: 1}, "sm_100": {0: 0, 1: 6, 2: 4, 3: 2}}  # mode -> the hardware's number


def encoded(generation: str, start: int, ldo: int, sdo: int, mode: int) -> int:
    """Offsets in units of 16 bytes, start in bytes; tcgen05 has bit 46 set and its swizzle in 61-63, wgmma in 62-63."""
    bits = start // 16 + ldo * 2**16 + sdo * 2**32
    if generation == "sm_90":
        return bits + CODES[generation][mode] * 2**62
    return bits + 2**46 + CODES[generation][mode] * 2**61


def byte_address(start: int, leading: int, stride: int, mode: int, row: int, byte: int, major: str = "K") -> int:
    """Where byte ``byte`` of row ``row`` is: the canonical layouts' offsets, then the swizzle on the address."""
    span = SPAN[mode]
    if mode == 0 and major == "K":
        offset = row % 8 * 16 + row // 8 * stride + byte // 16 * leading + byte % 16
    elif mode == 0:
        offset = byte % 16 + byte // 16 * stride + row % 8 * 16 + row // 8 * leading
    elif major == "K":
        offset = row % 8 * span + row // 8 * stride + byte
    else:
        offset = byte % span + byte // span * leading + row % 8 * span + row // 8 * stride
    address = start + offset
    return address ^ {0: 0, 1: address >> 3 & 0x10, 2: address >> 3 & 0x30, 3: address >> 3 & 0x70}[mode]
