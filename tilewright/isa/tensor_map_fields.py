"""tensormap.replace: a thread changes a field of a tensor map, in shared or in global memory.

A map that was changed is handed on before the copy engine reads it: `fence.proxy_tensormap.release` by the thread that
changed it, `fence.proxy_tensormap.acquire` by the one that has it used. `ir.tensor_map` has the fields, too.

Source: PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tilewright.isa.arch import only
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.table import REQUIRED, Access, Form, Meaning, Mods, Operand, Ptx, Spellings, instruction, reads

SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace"'
REPLACING = only("sm_90a", *(f"sm_{number}{suffix}" for number in (100, 103, 110, 120, 121) for suffix in "af"))
NBYTES = 64  # of a map's 128, all that fields are in


class MapPlace(NamedTuple):
    """Bits of a word of the map. after: the bits of the value that stand in other words, or nowhere."""

    word: int
    shift: int = 0
    bits: int = 32
    after: int = 0


class MapField(NamedTuple):
    """A field of a map. less: what is subtracted from a value before it is stored. ordinals: how many there are.
    wide: has the value 64 bits? constant: is it part of the instruction?
    """

    places: Callable[[int], Sequence[MapPlace]]
    less: int = 0
    ordinals: int = 0
    wide: bool = False
    constant: bool = False


MAP_FIELDS: Mapping[str, MapField] = {
    "global_address": MapField(lambda _: (MapPlace(0), MapPlace(1, after=32)), wide=True),
    "rank": MapField(lambda _: (MapPlace(2, 4, 3),)),
    "elemtype": MapField(lambda _: (MapPlace(2, 7, 4),), constant=True),
    "interleave_layout": MapField(lambda _: (MapPlace(2, 11, 2),), constant=True),
    "swizzle_mode": MapField(lambda _: (MapPlace(2, 13, 2),), constant=True),
    "fill_mode": MapField(lambda _: (MapPlace(2, 15, 1),), constant=True),
    "global_dim": MapField(lambda i: (MapPlace(8 + i),), less=1, ordinals=5),
    "global_stride": MapField(
        lambda i: (MapPlace(3 + i, after=4), MapPlace(7, 4 * i, 4, after=36)), ordinals=4, wide=True
    ),
    "element_stride": MapField(lambda i: (MapPlace(13, 3 * i, 3),), less=1, ordinals=5),
    "box_dim": MapField(lambda i: (MapPlace(14, 8 * i - 8, 8) if i else MapPlace(13, 24, 8),), less=1, ordinals=5),
}


def _put(old: Lanes, new: Lanes, *, place: MapPlace) -> Lanes:
    mask = np.uint32((1 << place.bits) - 1)
    kept = old & ~np.uint32(int(mask) << place.shift)
    return np.asarray(kept | (new & mask) << np.uint32(place.shift))


def replaced(memory: Memory, ptr: Lanes, *value: Lanes, field: str, ordinal: int, constant: int | None = None) -> None:
    """The words of the map that have the field, with the value in them."""
    row = MAP_FIELDS[field]
    values = np.full(ptr.shape, constant) if constant is not None else value[0]
    stored = values.astype(np.uint64) - np.uint64(row.less)
    for place in row.places(ordinal):
        part = np.broadcast_to(stored >> np.uint64(place.after), ptr.shape).astype(np.uint32)
        memory.atomic(ptr + np.asarray(4 * place.word, ptr.dtype), partial(_put, place=place), part)


MOST = {"elemtype": 13, "interleave_layout": 3, "swizzle_mode": 4, "fill_mode": 2}  # values of constant fields


def _forms(space: str, *, constant: bool) -> Iterator[Form]:
    words = {"global": ".global", "shared": ".shared::cta"}[space]
    for field, row in MAP_FIELDS.items():
        if row.constant != constant:
            continue
        ordinals: Spellings = {number: f"{number}" for number in range(row.ordinals)} if row.ordinals else {0: ""}
        mods: dict[str, Spellings] = {"field": {field: f".{field}"}, "ordinal": ordinals, "space": {space: words}}
        if constant:
            mods["constant"] = {number: f"{number}" for number in range(MOST[field])}
        value = "{constant}" if constant else "{value}"
        yield Form(
            Ptx(
                f"tensormap.replace.tile{{field}}{{space}}.b1024.{'b64' if row.wide else 'b32'}",
                mods,
                pattern="{mnemonic} [{ptr}], " + ("{ordinal}, " if row.ordinals else "") + f"{value};",
            ),
            REPLACING,
            SOURCE,
            Meaning(
                replaced,
                on="shared" if space == "shared" else "memory",
                passes=("field", "ordinal", *(("constant",) if constant else ())),
            ),
            effects=(
                Access("ptr", space, NBYTES, write=False, element_bytes=4),
                Access("ptr", space, NBYTES, write=True, element_bytes=4),
            ),
        )


def _width(mods: Mods) -> str:
    return "u64" if MAP_FIELDS[str(mods["field"])].wide else "u32"


instruction(
    "ptx.tensormap.replace",
    params=("ptr", "value"),
    keywords={"field": REQUIRED, "ordinal": 0, "space": "global"},
    operands=(reads("ptr", "place"), Operand("value", "bits", of=_width)),
    doc="A thread changes a field of the tensor map at ``ptr``: an address, a rank, or the ``ordinal``-th extent, "
    "stride or box.",
    forms=tuple(form for space in ("global", "shared") for form in _forms(space, constant=False)),
)
instruction(
    "ptx.tensormap.replace_constant",
    params=("ptr", "constant"),
    keywords={"field": REQUIRED, "ordinal": 0, "space": "global"},
    operands=(reads("ptr", "place"),),
    doc="A thread changes the type, interleave, swizzle or fill mode of the tensor map at ``ptr``, by PTX's codes.",
    forms=tuple(form for space in ("global", "shared") for form in _forms(space, constant=True)),
)
