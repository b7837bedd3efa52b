"""Copies by the copy engine (TMA), at a thread's call: cp.async.bulk.tensor moves a box of an array between global and
shared memory, cp.async.bulk a run of bytes; st.async and red.async store in another CTA.

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
from itertools import chain, starmap
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import dtype
from tilewright.ir.tensor_map import ELEMENTS, MAP_BYTES, UNIT
from tilewright.isa.arch import Requirement, only, since
from tilewright.isa.atomics import OPERATIONS
from tilewright.isa.boxes import Boxes, BoxRequest, boxes_of, pixels_of, rows_of
from tilewright.isa.cp_async import HINTS, Hint, check_pending
from tilewright.isa.forms import (
    GIVEN,
    LEFT_OUT,
    Access,
    AsyncMeaning,
    Commit,
    Consults,
    Count,
    Effect,
    Form,
    Issue,
    Meaning,
    Mods,
    Operand,
    Ptx,
    Signal,
    Spellings,
    Wait,
    counts,
    may_lack,
    read_and_written,
    reads,
    spoken,
)
from tilewright.isa.machine import Addresses, Lanes, Machine, Memory, Unit, access_of_unit, combined_by_unit, in_ctas
from tilewright.isa.mbarrier import completed
from tilewright.isa.places import nbytes
from tilewright.isa.table import REQUIRED, instruction, single
from tilewright.isa.tcgen05 import TMEM_ARCHS

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
    unit: Unit, dst: Lanes, map: Lanes, coords: Lanes, bar: Lanes, *more: Lanes, dim: int, cta_mask: str | None
) -> Mapping[str, Addresses]:
    """The box, its place in shared memory, and the m-barrier that counts its bytes: in each CTA of the mask."""
    boxes = boxes_of(BoxRequest(unit, "dst", dst, map, coords), dim)
    return brought(unit, boxes, dst, bar, more, cta_mask)


def rows_loaded(
    unit: Unit, dst: Lanes, map: Lanes, coords: Lanes, bar: Lanes, *more: Lanes, cta_mask: str | None
) -> Mapping[str, Addresses]:
    """The same for four rows."""
    return brought(unit, rows_of(BoxRequest(unit, "dst", dst, map, coords)), dst, bar, more, cta_mask)


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
    request = BoxRequest(unit, "src", src, map, coords)
    boxes = rows_of(request) if rows else boxes_of(request, dim)
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


# Boxes of four rows of an array, each named by itself.

FOUR_ROWS = AsyncMeaning(units_of, addresses=rows_loaded, passes=("cta_mask",), moves=True)
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
        *_rows(TMEM_ARCHS, cta_mask=LEFT_OUT, cta_group={-1: ""}, window=CLUSTER),
        *_rows(TMEM_ARCHS, cta_mask=GIVEN, cta_group={-1: ""}, window=ANY_WINDOW),
        *_rows(TMEM_ARCHS, cta_mask=LEFT_OUT, cta_group=PAIRED, window=ANY_WINDOW),
        *_rows(TMEM_ARCHS, cta_mask=GIVEN, cta_group=PAIRED, window=ANY_WINDOW),
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
        archs=TMEM_ARCHS,
    ),
)

INTEGERS = {"uint32": ".u32", "int32": ".s32", "uint64": ".u64", "int64": ".s64"}
ORDERED = {**INTEGERS, "float16": ".f16", "bfloat16": ".bf16"}
INTO_GLOBAL: Mapping[str, Spellings] = {
    "add": {
        "uint32": ".u32", "int32": ".s32", "uint64": ".u64", "float16": ".noftz.f16", "bfloat16": ".noftz.bf16",
        "float32": ".f32", "float64": ".f64",
    },
    **dict.fromkeys(("min", "max"), ORDERED),
    **{op: {"uint32": ".u32"} for op in ("inc", "dec")},
    **{op: {"uint32": ".b32", "uint64": ".b64"} for op in ("and", "or", "xor")},
}  # fmt: skip
"""The elements that each operation combines with a run of bytes, and how they are spelled."""
INTO_CTA: Mapping[str, Spellings] = {
    op: {kind: text for kind, text in kinds.items() if kind in ("uint32", "int32") or (op, kind) == ("add", "uint64")}
    for op, kinds in INTO_GLOBAL.items()
}
"""The same where the bytes are in the shared memory of a CTA of the cluster."""
REDUCED = {op: tuple(kinds if op not in ("and", "or", "xor") else INTEGERS) for op, kinds in INTO_GLOBAL.items()}
"""The element types that each operation combines with a box."""
COMBINED: Mapping[str, Callable[[Lanes, Lanes], Lanes]] = {
    **{op: OPERATIONS[op].does.combine for op in INTO_GLOBAL},
    "min": np.fmin,
    "max": np.fmax,
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

# cp.async.bulk.tensor in im2col mode: the copy engine brings the pixels of images that a tap of a convolution meets.
#
# A row of the product's matrix is a pixel, its columns are channels: `boxes` says which pixels. The map is made for
# the mode (`tw.TensorMap.im2col`, ``T.tensor_map(..., im2col=)``). A tap at (r, s) of a filter is the offsets (s, r)
# times the dilation, with a lower corner of minus the padding.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor,
# cp.async.bulk.prefetch.tensor".

IM2COL_DIMS: Spellings = {rank: f".{rank}d" for rank in (3, 4, 5)}
MODES: tuple[tuple[str, Requirement, str, Requirement], ...] = (
    # the mode, and who has it; where the pixels go without a mask of CTAs, and who has that
    ("im2col", SINCE_HOPPER, "shared::cluster", SINCE_HOPPER),
    ("im2col::w", TMEM_ARCHS, "shared::cta", since("sm_100")),
    ("im2col::w::128", TMEM_ARCHS, "shared::cluster", TMEM_ARCHS),
)
OFFSETS = reads("*offsets", "b16")


def _offsets(mods: Mods) -> int:
    """One for each of W, H and D; of a walk along W alone the halo and the offset of W."""
    return 2 if str(mods["mode"]).startswith("im2col::w") else rank_of(mods) - 2


VECTORS = {"coords": rank_of, "offsets": _offsets}


def im2col_loaded(
    unit: Unit,
    dst: Lanes,
    map: Lanes,
    coords: Lanes,
    bar: Lanes,
    offsets: Lanes,
    *more: Lanes,
    dim: int,
    mode: str,
    cta_mask: str | None,
) -> Mapping[str, Addresses]:
    """The pixels, their place in shared memory, and the m-barrier that counts their bytes: in each CTA of the mask."""
    pixels = pixels_of(BoxRequest(unit, "dst", dst, map, coords), offsets, dim, mode)
    return brought(unit, pixels, dst, bar, more, cta_mask)


def im2col_stored(
    unit: Unit, src: Lanes, map: Lanes, coords: Lanes, *more: Lanes, dim: int, op: str = ""
) -> Mapping[str, Addresses]:
    """Pixels in shared memory and their places in the array, those that lie inside: such stores have no offsets.

    Seen on an H200: it stops with an illegal instruction where the map's pixels leave the images.
    """
    none = np.zeros((len(coords), dim - 2), np.int64)
    boxes = pixels_of(BoxRequest(unit, "src", src, map, coords), none, dim, "im2col")
    walk = boxes.maps[0].im2col
    assert walk is not None
    if min(walk.lower) < 0 or max(walk.upper) > 0:
        corners = f"lower {walk.lower}, upper {walk.upper}"
        what = "the pixels of a map for stores stay in its images: lower corners of at least 0, upper ones of at most 0"
        unit.fault(f"{what}, not {corners}", np.full(len(boxes.maps), True))
    return taken(unit, boxes, 0, op)


PIXELS = AsyncMeaning(units_of, addresses=im2col_loaded, passes=("dim", "mode", "cta_mask"), moves=True)


def _ways(mode: str, archs: Requirement, space: str, alone: Requirement) -> Iterator[Form]:
    """Forms of a mode: without a mask of CTAs, and with one; then those that tell an m-barrier of a pair."""
    ways: list[tuple[Requirement, Spellings, Spellings, str, Spellings]] = [
        (alone, LEFT_OUT, {-1: ""}, space, ANY_WINDOW),
        *([(archs, LEFT_OUT, {-1: ""}, "shared::cluster", CLUSTER)] if space == "shared::cta" else []),
        (archs, GIVEN, {-1: ""}, "shared::cluster", ANY_WINDOW),
        (TMEM_ARCHS, LEFT_OUT, PAIRED, "shared::cluster", ANY_WINDOW),
        (TMEM_ARCHS, GIVEN, PAIRED, "shared::cluster", ANY_WINDOW),
    ]
    for who, mask, group, there, window in ways:
        yield from loads(
            "{mode}", PIXELS, who, space=there, more=", {offsets}", registers=VECTORS, dim=IM2COL_DIMS,
            mode={mode: f".{mode}"}, cta_mask=mask, cta_group=group, window=window,
        )  # fmt: skip


instruction(
    "ptx.cp_async.bulk.tensor.g2c_im2col",
    params=("dim", "dst", "bar", "map", "cta_mask", "cta_group", "hint", "coords", "offsets"),
    keywords={"cache_policy": None, "mode": "im2col", "window": None},
    operands=(reads("dst", "shared"), reads("map", "generic"), COORDS, reads("bar", "shared"), OFFSETS, MASK, POLICY),
    doc="A thread has pixels of images brought to shared memory, each with its channels: those from ``coords`` (C, W, "
    "H, D, N) on, at ``offsets`` (W, H, D) from them. ``bar`` counts the bytes.",
    forms=tuple(chain.from_iterable(starmap(_ways, MODES))),
    also={"shared::cluster": "shared::cta"},
)
instruction(
    "ptx.cp_async.bulk.tensor.s2g_im2col",
    params=("dim", "src", "map", "hint", "*coords"),
    keywords={"cache_policy": None},
    operands=(reads("src", "shared"), reads("map", "generic"), COORDS, POLICY),
    doc="A thread has pixels in shared memory stored to images; what lies outside of them is left out.",
    forms=stores(
        "{dim}.global.shared::cta.im2col_no_offs",
        AsyncMeaning(addresses=im2col_stored, passes=("dim",), moves=True),
        dim=IM2COL_DIMS,
    ),
)
instruction(
    "ptx.cp_async.bulk.tensor.s2g_reduce_im2col",
    params=("dim", "src", "map", "hint", "op", "*coords"),
    keywords={"cache_policy": None},
    operands=(reads("src", "shared"), reads("map", "generic"), COORDS, POLICY),
    doc="A thread has pixels in shared memory combined with what images hold, element by element of their type.",
    forms=stores(
        "{dim}.global.shared::cta{op}.im2col_no_offs",
        AsyncMeaning(reduce_boxes, addresses=im2col_stored, takes=("kind",), passes=("dim", "op")),
        dim=IM2COL_DIMS,
        op={op: f".{op}" for op in REDUCED},
    ),
)
instruction(
    "ptx.cp_async.bulk.tensor.g2c_prefetch_im2col",
    params=("dim", "map", "hint", "coords", "offsets"),
    keywords={"cache_policy": None, "mode": "im2col"},
    operands=(reads("map", "generic"), COORDS, OFFSETS, POLICY),
    doc="Has pixels of images brought to the L2 cache; no value changes.",
    forms=tuple(
        form
        for mode, archs, _, _ in MODES
        for form in rows_with_policy(
            "cp.async.bulk.prefetch.tensor{dim}.L2.global{mode}",
            "[{map}, {coords}], {offsets}",
            Meaning(nothing, on="machine"),
            archs=archs,
            registers=VECTORS,
            dim=IM2COL_DIMS,
            mode={mode: f".{mode}"},
        )
    ),
)

# tensormap.replace: a thread changes a field of a tensor map, in shared or in global memory.
#
# A map that was changed is handed on before the copy engine reads it: `fence.proxy_tensormap.release` by the thread
# that changed it, `fence.proxy_tensormap.acquire` by the one that has it used. `ir.tensor_map` has the fields, too.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace".

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
            'PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace"',
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


# cp.async.bulk: a thread issues the copy of a run of bytes, or a reduction into its destination, without a tensor map.
#
# From global memory to shared memory of the own CTA or of several of the cluster, and from shared memory to that of
# another CTA, an m-barrier at the destination counts the bytes. To global memory the copies of a thread are bulk
# groups. Addresses and sizes are multiples of 16 bytes. All data is accessed through the async proxy.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk, cp.reduce.async.bulk,
# cp.async.bulk.prefetch".


def stretches(
    unit: Unit, dst: Lanes, src: Lanes, n: Lanes, *more: Lanes, cta_mask: str | None = None, **mods: object
) -> Mapping[str, Addresses]:
    """16 bytes at a time, from both addresses on; in each CTA of the mask, as the bytes that its m-barrier counts."""
    nbytes = n.astype(np.int64)
    for name, value in (("dst", dst), ("src", src), ("n", nbytes)):
        wrong = value.astype(np.int64) % UNIT != 0
        if wrong.any() and name == "n":
            unit.fault(f"n of a bulk copy is a multiple of {UNIT} bytes, not {int(value[wrong][0])}", wrong)
        if wrong.any():
            what = f"{name} of a bulk copy is at no multiple of {UNIT} bytes"
            unit.fault(what, wrong, address=int(value[wrong][0]))
    offset = UNIT * np.arange(int(nbytes.max()) // UNIT)
    kept = np.where(offset < nbytes[:, None], UNIT, 0)
    into, source = (where.astype(np.int64)[:, None] + offset for where in (dst, src))
    places = {"src": Addresses(source, nbytes=kept), "dst": Addresses(into, nbytes=kept)}
    if more and cta_mask is None:
        places["bar"] = Addresses(more[0], nbytes=nbytes)
    elif more:
        there, bars = in_ctas(unit, into, more[1]), in_ctas(unit, more[0], more[1])
        assert there.issuer is not None
        places["dst"] = Addresses(there.at, issuer=there.issuer, rank=there.rank, nbytes=kept[there.issuer])
        places["bar"] = Addresses(bars.at, issuer=bars.issuer, rank=bars.rank, nbytes=nbytes[there.issuer])
    return places


def chosen_bytes(unit: Unit, dst: Lanes, src: Lanes, n: Lanes, *more: Lanes) -> Mapping[str, Addresses]:
    """The same with a mask, the last operand: byte i of each 16 is copied where bit i is set. One byte at a time."""
    whole = stretches(unit, dst, src, n)
    byte = np.arange(UNIT)
    chosen = more[-1].astype(np.int64)[:, None, None] >> byte & 1
    kept = np.where(np.asarray(whole["src"].nbytes)[..., None] > 0, chosen, 0)
    return {name: Addresses(place.at[..., None] + byte, nbytes=kept, width=1) for name, place in whole.items()}


class Way(NamedTuple):
    """From where to where. source, target: memories, and how they are spelled. counted: by an m-barrier. masked: may
    bytes be left out?
    """

    name: str
    target: str
    source: str
    text: str
    doc: str
    counted: bool = True
    masks: tuple[Spellings, ...] = ()
    hints: tuple[Hint, ...] = ()
    masked: bool = False


WAYS = (
    Way("g2s_cta", "shared", "global", ".shared::cta.global", "global memory to the CTA's shared memory", hints=HINTS),
    Way(
        "g2s_cluster",
        "shared",
        "global",
        ".shared::cluster.global",
        "global memory to shared memory of the cluster",
        masks=(LEFT_OUT, GIVEN),
        hints=HINTS,
    ),
    Way("s2c", "shared", "shared", ".shared::cluster.shared::cta", "shared memory to that of a CTA of the cluster"),
    Way(
        "s2g",
        "global",
        "shared",
        ".global.shared::cta",
        "shared memory to global memory",
        counted=False,
        hints=HINTS,
        masked=True,
    ),
)
COMPLETION = {True: ".mbarrier::complete_tx::bytes", False: ".bulk_group"}
NO_HINT = Hint(spelling="", more="")


def _effects(way: Way, *, rmw: bool = False) -> tuple[Effect, ...]:
    source = access_of_unit("src", way.source, write=False)
    target = combined_by_unit("dst", way.target) if rmw else (access_of_unit("dst", way.target, write=True),)
    told = (Signal("bar", "bytes", "release", "cluster", completed), Issue()) if way.counted else (Issue(GROUP),)
    return (source, *target, *told)


def _copy_form(way: Way, hint: Hint, mask: Spellings | None, *, chosen: bool = False) -> Form:
    cast = ".multicast::cluster" if mask is GIVEN else ""
    operands = "[{dst}], [{src}], {n}" + (", [{bar}]" if way.counted else "") + (", {cta_mask}" if cast else "")
    mods: dict[str, Spellings] = {"cta_mask": mask} if mask is not None else {}
    if way.hints:
        mods |= hint.modifiers()
    if way.masked:
        mods["byte_mask"] = GIVEN if chosen else LEFT_OUT
    last, places = (", {byte_mask}", chosen_bytes) if chosen else ("", stretches)
    return Form(
        Ptx(
            f"cp.async.bulk{way.text}{COMPLETION[way.counted]}{cast}"
            + ("{cache_hint}" if way.hints else "")
            + ".cp_mask" * chosen,
            mods,
            pattern=hint.text % f"{{mnemonic}} {operands}{hint.more}{last};",
        ),
        since("sm_100" if chosen else "sm_90"),
        SOURCE.format("cp.async.bulk"),
        AsyncMeaning(addresses=places, passes=("cta_mask",) if mask is not None else (), moves=True),
        effects=_effects(way),
    )


for _way in WAYS:
    _bar = (reads("bar", "shared"),) if _way.counted else ()
    _keywords = {"cta_mask": None} if _way.masks else {}
    instruction(
        f"ptx.cp_async.bulk.{_way.name}",
        keywords={
            **_keywords,
            **({"cache_hint": "", "cache_policy": None} if _way.hints else {}),
            **({"byte_mask": None} if _way.masked else {}),
        },
        operands=(
            reads("dst", _way.target),
            reads("src", _way.source),
            counts("n"),
            *_bar,
            *((counts("cta_mask", "b16"),) if _way.masks else ()),
            *((counts("cache_policy", "b64"),) if _way.hints else ()),
            *((may_lack(counts("byte_mask", "b16")),) if _way.masked else ()),
        ),
        doc=f"A thread has ``n`` bytes copied from {_way.doc}"
        + ("; with ``byte_mask`` of each 16 bytes those whose bits are set." if _way.masked else "."),
        forms=tuple(
            _copy_form(_way, hint, mask, chosen=chosen)
            for chosen in ((False, True) if _way.masked else (False,))
            for hint in _way.hints or (NO_HINT,)
            for mask in _way.masks or (None,)
        ),
    )


def reduce_stretch(new: Lanes, old: Lanes, *, op: str, kind: str) -> Lanes:
    """The old bytes reduced with those of the source; one issuer at a time."""
    return combined(op, str(dtype(kind)), old, new)


for _way, _kinds in ((WAYS[3], INTO_GLOBAL), (WAYS[2], INTO_CTA)):
    _bar = (reads("bar", "shared"),) if _way.counted else ()
    instruction(
        f"ptx.cp_reduce_async.bulk.{_way.name}",
        params=("dst", "src", "n", *(operand.name for operand in _bar), "op", "kind"),
        operands=(reads("dst", _way.target), reads("src", _way.source), counts("n"), *_bar),
        doc=f"A thread has ``n`` bytes combined, as elements of a dtype, from {_way.doc}.",
        hints=("L2::cache_hint",),
        forms=tuple(
            Form(
                Ptx(
                    f"cp.reduce.async.bulk{_way.text}{COMPLETION[_way.counted]}{{op}}{{kind}}",
                    {"op": {op: f".{op}"}, "kind": kinds},
                ),
                since("sm_90"),
                SOURCE.format("cp.reduce.async.bulk"),
                AsyncMeaning(reduce_stretch, addresses=stretches, passes=("op", "kind")),
                effects=_effects(_way, rmw=True),
            )
            for op, kinds in _kinds.items()
        ),
    )

single(
    "ptx.cp_async.bulk.prefetch",
    Ptx("cp.async.bulk.prefetch.L2.global"),
    since("sm_90"),
    SOURCE.format("cp.async.bulk.prefetch"),
    Meaning(nothing, on="machine"),
    operands=(reads("src", "global"), counts("n")),
    doc="Has ``n`` bytes of global memory brought to the L2 cache; no value changes.",
    hints=("L2::cache_hint",),
)

# st.async and red.async: a thread stores to, or combines with, shared memory of another CTA of the cluster.
#
# An m-barrier of that CTA counts the bytes once they are there; threads that wait at it may read them. Both are
# accesses of the generic proxy. The address and the m-barrier are addresses of the cluster's window, of one CTA;
# `mapa` makes them.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: st.async, red.async".

WHERE = ".shared::cluster.mbarrier::complete_tx::bytes"
STORED = {**INTEGERS, "float32": ".f32", "float64": ".f64"}


def registers(mods: Mods) -> int:
    """Registers of a vector."""
    return int(str(mods["vec"]))


def vector_bytes(mods: Mods) -> int:
    """Bytes of a vector."""
    return 4 * registers(mods)


def as_bytes(value: Lanes, **mods: object) -> Lanes:
    """(n,) numbers as (n, bytes)."""
    return np.ascontiguousarray(value).reshape(len(value), -1).view(np.uint8)


def _told(amount: object) -> tuple[Signal, Issue]:
    return Signal("bar", "bytes", "release", "cluster", completed, amount=amount), Issue()  # type: ignore[arg-type]  # a Count


single(
    "ptx.st_async",
    Ptx(f"st.async.weak{WHERE}{{dtype}}", {"dtype": STORED}),
    since("sm_90"),
    SOURCE.format("st.async"),
    AsyncMeaning(as_bytes, takes=("value",)),
    operands=(reads("ptr", "shared"), reads("value", "typed"), reads("bar", "shared")),
    doc="A thread has ``value`` stored in the shared memory of a CTA of the cluster; ``bar`` there counts its bytes.",
    effects=(Access("ptr", "shared", nbytes, write=True), *_told(nbytes)),
)
single(
    "ptx.st_async.vec",
    Ptx(f"st.async.weak{WHERE}{{vec}}.b32", {"vec": {2: ".v2", 4: ".v4"}}),
    since("sm_90"),
    SOURCE.format("st.async"),
    AsyncMeaning(as_bytes, takes=("values",)),
    params=("vec", "ptr", "bar", "*values"),
    operands=(reads("ptr", "shared"), reads("*values", "b32"), reads("bar", "shared")),
    doc="A thread has 2 or 4 registers stored in the shared memory of a CTA of the cluster; ``bar`` counts the bytes.",
    effects=(Access("ptr", "shared", vector_bytes, write=True, element_bytes=4), *_told(vector_bytes)),
    registers=registers,
)


def _reducing(op: str, kinds: Spellings) -> Form:
    def execute(old: Lanes, value: Lanes) -> Lanes:
        return combined(op, value.dtype.name, old, as_bytes(value))

    return Form(
        Ptx(f"red.async.relaxed.cluster{WHERE}.{op}{{dtype}}", {"dtype": kinds}),
        since("sm_90"),
        SOURCE.format("red.async"),
        AsyncMeaning(execute, takes=("value",)),
        effects=(*read_and_written("ptr", "shared", nbytes, scope="cluster"), *_told(nbytes)),
    )


for _op, _dtypes in INTO_CTA.items():
    instruction(
        f"ptx.red_async.{spoken(_op)}",
        operands=(reads("ptr", "shared"), reads("value", "typed"), reads("bar", "shared")),
        doc="A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes.",
        forms=(_reducing(_op, _dtypes),),
    )
