"""cp.async.bulk.tensor: at a thread's call the copy engine (TMA) moves a box of an array between global and shared
memory.

A tensor map (`ir.tensor_map`) says what the array is and how large its boxes are; the instruction says where one
begins, in elements, innermost dimension first, and where in shared memory it lies. A load completes its bytes at an
m-barrier: always those of a whole box, also where the box leaves the array and is filled. With a mask the box comes to
the same place of several CTAs of the cluster, and so does the signal. Stores and reductions are counted in bulk groups
of the thread: `wait_group` waits until they are written, or with ``read`` only until their sources have been read.

Data is accessed through the async proxy: what threads have stored in shared memory needs `fence.proxy_async` before it
is stored or reduced from there. Threads that wait at the m-barrier may read the bytes of a load.

Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor,
cp.async.bulk.prefetch.tensor, cp.async.bulk.commit_group, cp.async.bulk.wait_group, prefetch".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from tilewright.dtypes import dtype
from tilewright.ir.tensor_map import ELEMENTS, MAP_BYTES, UNIT
from tilewright.isa.arch import Requirement, since, suffixed
from tilewright.isa.atom_red import decremented, incremented
from tilewright.isa.boxes import Boxes, boxes_of, rows_of
from tilewright.isa.cp_async import HINTS, check_pending
from tilewright.isa.machine import Addresses, Lanes, Machine, Unit
from tilewright.isa.mbarrier_state import completed
from tilewright.isa.operations import access_of_unit, combined_by_unit, in_ctas
from tilewright.isa.table import (
    GIVEN,
    LEFT_OUT,
    AsyncMeaning,
    Commit,
    Consults,
    Count,
    Effect,
    Form,
    Issue,
    Meaning,
    Mods,
    Ptx,
    Signal,
    Spellings,
    Wait,
    counts,
    instruction,
    may_lack,
    reads,
    single,
)
from tilewright.isa.tcgen05_alloc import TMEM_ARCHS

SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: {}"'
GROUP = "cp.async.bulk"
DIMS = {rank: f".{rank}d" for rank in range(1, 6)}


SINCE_HOPPER = since("sm_90")
PAIRED: Spellings = {1: ".cta_group::1", 2: ".cta_group::2"}
MAP = Consults("map", MAP_BYTES, "tensormap")


def rank_of(mods: Mods) -> int:
    """Coordinates that a box has; a column and four rows where those are taken one by one."""
    return int(str(mods["dim"])) if "dim" in mods else 5


def loaded(
    unit: Unit,
    dst: Lanes,
    map: Lanes,
    coords: Lanes,
    bar: Lanes,
    *more: Lanes,
    dim: int,
    cta_mask: str | None,
    rows: bool = False,
) -> Mapping[str, Addresses]:
    """The box, its place in shared memory, and the m-barrier that counts its bytes: in each CTA of the mask."""
    boxes = rows_of(unit, "dst", dst, map, coords) if rows else boxes_of(unit, "dst", dst, map, coords, dim)
    return brought(unit, boxes, dst, bar, more, cta_mask)


def brought(
    unit: Unit, boxes: Boxes, dst: Lanes, bar: Lanes, more: Sequence[Lanes], cta_mask: str | None
) -> Mapping[str, Addresses]:
    """Boxes, and where they and their signals go; with a mask, of which ``more`` has the bits, to each of its CTAs."""
    counted = boxes.maps[0].unit_bytes
    kept = None if boxes.kept is None else np.where(boxes.kept, counted, 0)
    if kept is None and counted < UNIT:
        kept = np.full((len(dst), boxes.tile.shape[1]), counted)
    if cta_mask is None:
        into, told = Addresses(boxes.tile, nbytes=kept), Addresses(bar, nbytes=boxes.nbytes)
    else:
        tile = np.resize(boxes.tile, (len(dst), boxes.tile.shape[1]))
        into, told = in_ctas(unit, tile, more[0]), in_ctas(unit, bar, more[0])
        assert told.issuer is not None
        told = replace(told, nbytes=boxes.nbytes[told.issuer])
        into = into if kept is None else replace(into, nbytes=kept[told.issuer])
    return {"map": boxes.in_array, "dst": into, "bar": told}


def nothing(machine: Machine, *operands: Lanes) -> None:
    """Do nothing: the state of caches has no effect on values."""


def units_of(pieces: Lanes, **mods: object) -> Lanes:
    """16 bytes at a time, of however many pieces; where these are fewer bytes, they are the first of the 16."""
    units = pieces.reshape(*pieces.shape[:2], -1)
    lacking = UNIT - units.shape[2]
    return np.pad(units, ((0, 0), (0, 0), (0, lacking))) if lacking else units


def rows_with_policy(
    text: str, operands: str, meaning: Meaning, *effects: Effect, note: str = "", archs: Requirement = SINCE_HOPPER,
    registers: Count | Mapping[str, Count] = rank_of, **modifiers: Spellings,
) -> Iterator[Form]:  # fmt: skip
    """A form for each policy. text: without the policy; note: what the manual leaves open."""
    for hint in HINTS:
        yield Form(
            Ptx(
                f"{text}{{hint}}",
                {**({"dim": DIMS} if "{dim}" in text else {}), **modifiers, **hint.modifiers("hint")},
                pattern=hint.text % f"{{mnemonic}} {operands}{hint.more};",
            ),
            archs,
            SOURCE.format(text.partition("{")[0]) + note,
            meaning,
            effects,
            registers=registers,
        )


ANY_WINDOW: Spellings = {None: ""}
CLUSTER: Spellings = {"cluster": ""}  # of a copy to the own CTA, by the window of the cluster


def loads(
    words: str, meaning: Meaning, archs: Requirement, *, space: str = "shared::cluster", more: str = "",
    dims: str = "{dim}", note: str = "", **modifiers: Any,
) -> Iterator[Form]:  # fmt: skip
    """The loads of one mode. words: of the mode. more: operands behind the m-barrier. modifiers: ``cta_mask``, and
    ``cta_group`` of a pair, which may tell the m-barrier of either CTA, are among them.
    """
    cast = ".multicast::cluster" if modifiers["cta_mask"] is GIVEN else ""
    return rows_with_policy(
        f"cp.async.bulk.tensor{dims}.{space}.global{words}.mbarrier::complete_tx::bytes{cast}{{cta_group}}",
        "[{dst}], [{map}, {coords}], [{bar}]" + more + (", {cta_mask}" if cast else ""),
        meaning,
        access_of_unit("map", "global", write=False),
        access_of_unit("dst", "shared", write=True),
        Signal("bar", "bytes", "release", "cluster", completed),
        MAP,
        Issue(),
        note=note,
        archs=archs,
        **modifiers,
    )


def stores(text: str, meaning: Meaning, *, note: str = "", **more: Any) -> tuple[Form, ...]:
    """The stores of one mode, and its reductions, whose ``op`` is among the modifiers."""
    reduces = "op" in more
    return tuple(
        rows_with_policy(
            f"cp.{'reduce.' * reduces}async.bulk.tensor{text}.bulk_group",
            "[{map}, {coords}], [{src}]",
            meaning,
            access_of_unit("src", "shared", write=False),
            *(combined_by_unit("map", "global") if reduces else [access_of_unit("map", "global", write=True)]),
            MAP,
            Issue(GROUP),
            note=note,
            **more,
        )
    )


MASK = may_lack(counts("cta_mask", "b16"))
POLICY = counts("cache_policy", "b64")
COORDS = reads("*coords", "b32")
BOX = AsyncMeaning(units_of, addresses=loaded, passes=("dim", "cta_mask"), moves=True)

instruction(
    "ptx.cp_async.bulk.tensor.g2c",
    params=("dim", "dst", "bar", "map", "cta_mask", "cta_group", "hint", "*coords"),
    keywords={"cache_policy": None},
    operands=(reads("dst", "shared"), reads("map", "generic"), COORDS, reads("bar", "shared"), MASK, POLICY),
    doc="A thread has a box of an array brought to shared memory, of each CTA of ``cta_mask`` where there is one; "
    "``bar`` counts its bytes.",
    forms=tuple(
        chain.from_iterable(
            form
            for group, archs in (({-1: ""}, SINCE_HOPPER), (PAIRED, TMEM_ARCHS))
            for form in zip(
                *(loads(".tile", BOX, archs, cta_mask=mask, cta_group=group) for mask in (LEFT_OUT, GIVEN)), strict=True
            )
        )
    ),
    also={"tile": "", "shared::cluster": "shared::cta"},
)


def stored(
    unit: Unit, src: Lanes, map: Lanes, coords: Lanes, *more: Lanes, dim: int, op: str = "", rows: bool = False
) -> Mapping[str, Addresses]:
    """The addresses of the box in shared memory, and of its part inside of the array."""
    boxes = rows_of(unit, "src", src, map, coords) if rows else boxes_of(unit, "src", src, map, coords, dim)
    return taken(unit, boxes, 1 if rows else None, op)


def taken(unit: Unit, boxes: Boxes, checked: int | None = None, op: str = "") -> Mapping[str, Addresses]:
    """Boxes of shared memory and their parts inside of the array. checked: coordinates that cannot be negative."""
    negative = np.any(boxes.starts[:, :checked] < 0, axis=1)
    if negative.any():
        sample = boxes.starts[negative][0].tolist()
        unit.fault(f"a box that is stored begins at coordinates of at least 0, not at {sample}", negative)
    for k, fields in enumerate(boxes.maps):
        if op and fields.dtype not in REDUCED[op]:
            allowed = ", ".join(REDUCED[op])
            unit.fault(f"{op} reduces elements of {allowed}, not {fields.dtype}", np.arange(len(boxes.maps)) == k)
    if boxes.maps[0].element.spread:
        unit.fault(f"stores of {boxes.maps[0].dtype} are not simulated", np.full(len(boxes.maps), True))
    tile = boxes.tile[..., None] + np.arange(0, 16, boxes.width)
    array = boxes.in_array
    kinds = Addresses(np.array([list(ELEMENTS).index(fields.dtype) for fields in boxes.maps]))
    return {"src": Addresses(tile, nbytes=array.nbytes, width=boxes.width), "map": array, "kind": kinds}


instruction(
    "ptx.cp_async.bulk.tensor.s2g",
    params=("dim", "src", "map", "hint", "*coords"),
    keywords={"cache_policy": None},
    operands=(reads("src", "shared"), reads("map", "generic"), COORDS, POLICY),
    doc="A thread has a box in shared memory stored to an array; what lies outside of the array is left out.",
    forms=stores("{dim}.global.shared::cta.tile", AsyncMeaning(addresses=stored, passes=("dim",), moves=True)),
    also={"tile": ""},
)


# Four rows

EXACT_ARCHS = suffixed(100, 103, 110)
FOUR_ROWS = AsyncMeaning(units_of, addresses=partial(loaded, dim=2, rows=True), passes=("cta_mask",), moves=True)
_rows = partial(
    loads, ".tile::gather4", FOUR_ROWS, dims=".2d", note="; the order of the coordinates is that of the manual's figure"
)


instruction(
    "ptx.cp_async.bulk.tensor.g2c_tile_gather4",
    params=("dst", "bar", "map", "cta_mask", "cta_group", "hint", "*coords"),
    keywords={"cache_policy": None, "window": None},
    operands=(reads("dst", "shared"), reads("map", "generic"), COORDS, reads("bar", "shared"), MASK, POLICY),
    doc="A thread has four rows of an array brought to shared memory, one after the other: ``coords`` are a column and "
    "rows.",
    forms=(
        *_rows(since("sm_100"), space="shared::cta", cta_mask=LEFT_OUT, cta_group={-1: ""}, window=ANY_WINDOW),
        *_rows(EXACT_ARCHS, cta_mask=LEFT_OUT, cta_group={-1: ""}, window=CLUSTER),
        *_rows(EXACT_ARCHS, cta_mask=GIVEN, cta_group={-1: ""}, window=ANY_WINDOW),
        *_rows(EXACT_ARCHS, cta_mask=LEFT_OUT, cta_group=PAIRED, window=ANY_WINDOW),
        *_rows(EXACT_ARCHS, cta_mask=GIVEN, cta_group=PAIRED, window=ANY_WINDOW),
    ),
    also={"shared::cluster": "shared::cta"},
)
instruction(
    "ptx.cp_async.bulk.tensor.s2g_tile_scatter4",
    params=("src", "map", "hint", "*coords"),
    keywords={"cache_policy": None},
    operands=(reads("src", "shared"), reads("map", "generic"), COORDS, POLICY),
    doc="A thread has four rows in shared memory stored to an array; ``coords`` are a column and the rows.",
    forms=stores(
        ".2d.global.shared::cta.tile::scatter4",
        AsyncMeaning(addresses=partial(stored, dim=2, rows=True), moves=True),
        archs=EXACT_ARCHS,
    ),
)

INTEGERS = ("uint32", "int32", "uint64", "int64")
REDUCED = {
    "add": ("uint32", "int32", "uint64", "float16", "bfloat16", "float32", "float64"),
    "min": (*INTEGERS, "float16", "bfloat16"),
    "max": (*INTEGERS, "float16", "bfloat16"),
    "inc": ("uint32",),
    "dec": ("uint32",),
    "and": INTEGERS,
    "or": INTEGERS,
    "xor": INTEGERS,
}
"""The element types that each operation combines."""
COMBINED: Mapping[str, Callable[[Lanes, Lanes], Lanes]] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "inc": incremented,
    "dec": decremented,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def combined(op: str, kind: str, old: Lanes, new: Lanes) -> Lanes:
    """The bytes ``old`` reduced with the bytes ``new``, elements of a dtype; floats are rounded once."""
    element = dtype(kind).numpy
    with np.errstate(all="ignore"):
        result = COMBINED[op](np.ascontiguousarray(old).view(element), np.ascontiguousarray(new).view(element))
    return np.ascontiguousarray(result.astype(element)).view(np.uint8)


def reduce_boxes(new: Lanes, old: Lanes, kind: Lanes, *, op: str, dim: int) -> Lanes:
    """The old bytes reduced with those of the box; one issuer at a time."""
    return combined(op, list(ELEMENTS)[int(kind.flat[0])], old, new)


instruction(
    "ptx.cp_async.bulk.tensor.s2g_reduce",
    params=("dim", "src", "map", "hint", "op", "*coords"),
    keywords={"cache_policy": None},
    operands=(reads("src", "shared"), reads("map", "generic"), COORDS, POLICY),
    doc="A thread has a box in shared memory combined with what an array holds, element by element of its type.",
    forms=stores(
        "{dim}.global.shared::cta{op}.tile",
        AsyncMeaning(reduce_boxes, addresses=stored, takes=("kind",), passes=("dim", "op")),
        note="; unconfirmed: which operand min and max take beside a NaN",
        op={op: f".{op}" for op in REDUCED},
    ),
    also={"tile": ""},
)
instruction(
    "ptx.cp_async.bulk.tensor.g2c_prefetch",
    params=("dim", "map", "hint", "*coords"),
    keywords={"cache_policy": None},
    operands=(reads("map", "generic"), COORDS, POLICY),
    doc="Has a box of an array brought to the L2 cache; no value changes.",
    forms=tuple(
        rows_with_policy(
            "cp.async.bulk.prefetch.tensor{dim}.L2.global.tile", "[{map}, {coords}]", Meaning(nothing, on="machine")
        )
    ),
    also={"tile": ""},
)
single(
    "ptx.prefetch_tensormap",
    Ptx("prefetch.tensormap"),
    since("sm_90"),
    SOURCE.format("prefetch"),
    Meaning(nothing, on="machine"),
    operands=(reads("map", "generic"),),
    doc="Has the 128 bytes of a tensor map brought to where the copy engine looks for them; no value changes.",
)
single(
    "ptx.cp_async.bulk.commit_group",
    Ptx("cp.async.bulk.commit_group"),
    since("sm_90"),
    SOURCE.format("cp.async.bulk.commit_group"),
    doc="Makes a group of the bulk stores and reductions that the thread has issued since the last one.",
    effects=(Commit(GROUP),),
)
instruction(
    "ptx.cp_async.bulk.wait_group",
    keywords={"n": 0, "read": True},
    operands=(reads("n", "imm"),),
    check=check_pending,
    doc="Waits until at most the ``n`` newest bulk groups of the thread are under way; with ``read`` until all others "
    "have read their sources, which may then be written again.",
    forms=tuple(
        Form(
            Ptx("cp.async.bulk.wait_group{read}", {"read": {read: ".read" if read else ""}}),
            since("sm_90"),
            SOURCE.format("cp.async.bulk.wait_group"),
            effects=(Wait(GROUP, "n", reads=read),),
        )
        for read in (True, False)
    ),
)
