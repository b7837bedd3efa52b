"""The meaning of loads, stores and atomics of a warp by the manual, byte by byte."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.isa.machines import WINDOW
from tests.isa.numbers import encoded, value_of
from tests.isa.registry import Warp, Words, oracle

CODES = {
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "float16": "e",
    "bfloat16": "bf16",
}
COMBINE: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "min": min,
    "max": max,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "exch": lambda old, value: value,
    "cas": lambda old, compare, value: value if old == compare else old,
    "inc": lambda old, bound: 0 if old >= bound else old + 1,
    "dec": lambda old, bound: bound if old == 0 or old > bound else old - 1,
}
NAMES = {"and": "and_", "or": "or_"}  # what Python can say
ROWS_OF_ATOMICS = (
    *(f"cuda.atomic_{name}" for name in ("add", "sub", "min", "max", "and", "or", "xor", "exch", "cas")),
    *(f"ptx.atom.{NAMES.get(name, name)}" for name in COMBINE if name != "sub"),
    *(f"ptx.red.{NAMES.get(name, name)}" for name in COMBINE if name not in ("sub", "exch", "cas")),
)


def unpacked(data: bytes, code: str) -> Any:
    if code == "bf16":
        return value_of("bf16", int.from_bytes(data, "little"))
    return struct.unpack("<" + code, data)[0]


def packed(value: Any, code: str) -> bytes:
    """Floats rounded to nearest even, integers wrapped."""
    if code == "bf16":
        return encoded("bf16", Fraction(value)).to_bytes(2, "little")
    if code in "efd":
        return struct.pack("<" + code, value)
    size = struct.calcsize("<" + code)
    return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")


def size_of(code: str) -> int:
    return 2 if code == "bf16" else struct.calcsize("<" + code)


@oracle("multimem.st")
def st(warp: Warp, address: Words, value: list[Any]) -> None:
    code = CODES[warp.mods["dtype"]]
    for lane in warp.lanes:
        warp.memory[address[lane] : address[lane] + size_of(code)] = packed(value[lane], code)


REGISTERS = {"b128": (2, 8)}  # how many, of how many bytes


@oracle("ptx.ld.b128")
def ld_vector(warp: Warp, address: Words) -> list[Words]:
    count, size = REGISTERS[warp.mods["name"].rpartition(".")[2]]
    return [
        [int.from_bytes(warp.memory[start + size * i : start + size * (i + 1)], "little") for start in address]
        for i in range(count)
    ]


@oracle("ptx.st.b128")
def st_vector(warp: Warp, address: Words, registers: list[Words]) -> None:
    _, size = REGISTERS[warp.mods["name"].rpartition(".")[2]]
    for lane in warp.lanes:
        words = b"".join(register[lane].to_bytes(size, "little") for register in registers)
        warp.memory[address[lane] : address[lane] + len(words)] = words


@oracle(*(f"ptx.{name}.add.{kind}x2" for name in ("atom", "red") for kind in ("f16", "bf16")))
def packed_add(warp: Warp, address: Words, value: Words) -> Words | None:
    code = "bf16" if "bf16" in warp.mods["name"] else "e"
    olds = [0] * 32
    for lane in warp.lanes:
        for half in (0, 2):
            start = address[lane] + half
            old = bytes(warp.memory[start : start + 2])
            added = unpacked(old, code) + unpacked(value[lane].to_bytes(4, "little")[half : half + 2], code)
            warp.memory[start : start + 2] = packed(added, code)
            olds[lane] |= int.from_bytes(old, "little") << 8 * half
    return olds if "atom" in warp.mods["name"] else None


@oracle(*ROWS_OF_ATOMICS)
def atomic(warp: Warp, address: Words, *values: list[Any]) -> list[Any] | None:
    code, size = CODES[warp.mods["dtype"]], size_of(CODES[warp.mods["dtype"]])
    olds: list[Any] = [0] * 32
    for lane in warp.lanes:
        start = address[lane]
        old = unpacked(bytes(warp.memory[start : start + size]), code)
        new = COMBINE[re.split("[._]", warp.mods["name"].rstrip("_"))[-1]](old, *(value[lane] for value in values))
        warp.memory[start : start + size] = packed(new, code)
        olds[lane] = old
    return None if ".red." in warp.mods["name"] else olds


@oracle("multimem.ld_reduce", "multimem.red")
def multimem_of_one_gpu(warp: Warp, address: Words, *values: list[Any]) -> list[Any] | None:
    code, size, olds = CODES[warp.mods["dtype"]], size_of(CODES[warp.mods["dtype"]]), []
    for lane in range(32):
        start = address[lane]
        olds.append(unpacked(bytes(warp.memory[start : start + size]), code))
        if values and lane in warp.lanes:
            new = COMBINE[warp.mods["op"]](olds[-1], values[0][lane])
            warp.memory[start : start + size] = packed(new, code)
    return None if values else olds


@oracle("ptx.atom.exch.b128", "ptx.atom.cas.b128")
def atomic_of_16_bytes(warp: Warp, address: Words, *halves: Words) -> tuple[Words, Words]:
    olds: tuple[Words, Words] = ([0] * 32, [0] * 32)
    for lane in warp.lanes:
        place = slice(address[lane], address[lane] + 16)
        old, given = bytes(warp.memory[place]), b"".join(half[lane].to_bytes(8, "little") for half in halves)
        if len(halves) == 2 or given[:16] == old:
            warp.memory[place] = given[-16:]
        olds[0][lane], olds[1][lane] = struct.unpack("<QQ", old)
    return olds


@oracle("cuda.cvta_generic_to_shared", "ptx.cvta.to.shared.u64", "cuda.cast_smem_ptr_to_uint")
def to_shared(warp: Warp, address: Words) -> Words:
    return [a - WINDOW for a in address]
