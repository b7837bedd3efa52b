"""mov, cvta, isspacep: bits from register to register, and addresses from window to window.

Source: PTX ISA, "Data Movement and Conversion Instructions: mov, cvta, isspacep".
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.isa.operands import Operand
from tilewright.isa.scalar.rows import registers, scalar, words
from tilewright.isa.table import Mods
from tilewright.isa.types import TYPES, Numbers

CHAPTER = "Data Movement and Conversion Instructions"
MOVED = words("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")


def _moved(**_: object) -> Callable[[Numbers], Numbers]:
    return lambda a: a


scalar(
    "mov",
    "a",
    ("mov{type}", {"type": MOVED}, _moved),
    ("mov{type}", {"type": words("pred")}, _moved),
    doc="The bits of a.",
    chapter=CHAPTER,
)
PARTS = {"pack2": {"b32": "b16", "b64": "b32"}, "pack4": {"b32": "b8", "b64": "b16"}}
"""The type of each part by that of the whole."""


def _joined(*, type: str, **_: object) -> Callable[..., Numbers]:
    """Registers side by side, the first in the low bits."""
    kind = TYPES[type].unsigned.type

    def execute(*parts: Numbers) -> Numbers:
        width = TYPES[type].bits // len(parts)
        total = parts[0].astype(kind)
        for place, part in enumerate(parts[1:], 1):
            total = total | part.astype(kind) << kind(width * place)
        return total

    return execute


def _part(*, type: str, out: int, inner: str, **_: object) -> Callable[[Numbers], Numbers]:
    """One of the equal parts of a register; part 0 is in its low bits."""
    kind, width = TYPES[type].unsigned.type, TYPES[inner].bits
    return lambda a: (a >> kind(width * out)).astype(TYPES[inner].unsigned)


def pack_text(part: str, names: str) -> str:
    """Inline assembly has no registers of 8 bits: the text makes its own."""
    listed = ", ".join(f"{{{name}}}" if part != "b8" else f"b_{name}" for name in names)
    if part != "b8":
        return f"{{result}}, {{{{{listed}}}}}"
    text = " ".join(f"cvt.u8.u16 b_{name}, {{{name}}};" for name in names)
    return f"{{{{ .reg .b8 {listed}; {text} {{mnemonic}} {{result}}, {{{{{listed}}}}}; }}}}"


def unpack_text(part: str, places: list[str]) -> str:
    """The text of a call that keeps one part of a register."""
    listed = f"{{{{{', '.join(places)}}}}}, {{a}}"
    if part != "b8":
        return listed
    return f"{{{{ .reg .b8 d_; {{mnemonic}} {listed}; cvt.u16.u8 {{result}}, d_; }}}}"


def _rows_of_parts(name: str, parts: dict[str, str]) -> None:
    count = int(name[-1])
    names = "abcd"[:count]

    def inner(mods: Mods) -> str:
        return parts[str(mods["type"])]

    scalar(
        f"mov.{name}",
        tuple(Operand(name, "bits", of=inner) for name in names),
        *(
            ("mov{type}", {"type": words(whole)}, _joined, "sm_75", pack_text(part, names))
            for whole, part in parts.items()
        ),
        doc=f"{count} registers side by side in one, the first in its low bits.",
        chapter=CHAPTER,
    )
    shapes = []
    for whole, part in parts.items():
        for out in range(count):
            places = ["_"] * count
            places[out] = "{result}" if part != "b8" else "d_"
            table = {"type": words(whole), "out": {out: ""}, "inner": {part: ""}}
            shapes.append(("mov{type}", table, _part, "sm_75", unpack_text(part, places)))
    scalar(
        f"mov.un{name}",
        registers("a"),
        *shapes,
        doc=f"One of the {count} equal parts of a register; part 0 is in its low bits.",
        chapter=CHAPTER,
        result=lambda mods: str(mods["inner"]),
    )


for _name, _parts in PARTS.items():
    _rows_of_parts(_name, _parts)
