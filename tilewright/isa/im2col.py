"""cp.async.bulk.tensor in im2col mode: the copy engine brings the pixels of images that a tap of a convolution meets.

A row of the product's matrix is a pixel, its columns are channels: `pixels` says which pixels. The map is made for the
mode (`tw.TensorMap.im2col`, ``T.tensor_map(..., im2col=)``). A tap at (r, s) of a filter is the offsets (s, r) times
the dilation, with a lower corner of minus the padding.

Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor,
cp.async.bulk.prefetch.tensor".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, starmap

import numpy as np

from tilewright.isa.arch import Requirement, since, suffixed
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.pixels import pixels_of
from tilewright.isa.table import (
    GIVEN,
    LEFT_OUT,
    AsyncMeaning,
    Form,
    Meaning,
    Mods,
    Spellings,
    counts,
    instruction,
    may_lack,
    reads,
)
from tilewright.isa.tcgen05_alloc import TMEM_ARCHS
from tilewright.isa.tma import (
    ANY_WINDOW,
    CLUSTER,
    PAIRED,
    REDUCED,
    SINCE_HOPPER,
    brought,
    loads,
    nothing,
    reduce_boxes,
    rows_with_policy,
    stores,
    taken,
    units_of,
)

DIMS: Spellings = {rank: f".{rank}d" for rank in (3, 4, 5)}
EXACT_ARCHS = suffixed(100, 103, 110)
MODES: tuple[tuple[str, Requirement, str, Requirement], ...] = (
    # the mode, and who has it; where the pixels go without a mask of CTAs, and who has that
    ("im2col", SINCE_HOPPER, "shared::cluster", SINCE_HOPPER),
    ("im2col::w", EXACT_ARCHS, "shared::cta", since("sm_100")),
    ("im2col::w::128", EXACT_ARCHS, "shared::cluster", EXACT_ARCHS),
)
MASK = may_lack(counts("cta_mask", "b16"))
POLICY = counts("cache_policy", "b64")
COORDS, OFFSETS = reads("*coords", "b32"), reads("*offsets", "b16")


def _rank(mods: Mods) -> int:
    return int(str(mods["dim"]))


def _offsets(mods: Mods) -> int:
    """One for each of W, H and D; of a walk along W alone the halo and the offset of W."""
    return 2 if str(mods["mode"]).startswith("im2col::w") else _rank(mods) - 2


VECTORS = {"coords": _rank, "offsets": _offsets}


def loaded(
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
    return brought(unit, pixels_of(unit, "dst", dst, map, coords, offsets, dim, mode), dst, bar, more, cta_mask)


def stored(
    unit: Unit, src: Lanes, map: Lanes, coords: Lanes, *more: Lanes, dim: int, op: str = ""
) -> Mapping[str, Addresses]:
    """Pixels in shared memory and their places in the array, those that lie inside: such stores have no offsets.

    Seen on an H200: it stops with an illegal instruction where the map's pixels leave the images.
    """
    none = np.zeros((len(coords), dim - 2), np.int64)
    boxes = pixels_of(unit, "src", src, map, coords, none, dim, "im2col")
    walk = boxes.maps[0].im2col
    assert walk is not None
    if min(walk.lower) < 0 or max(walk.upper) > 0:
        corners = f"lower {walk.lower}, upper {walk.upper}"
        what = "the pixels of a map for stores stay in its images: lower corners of at least 0, upper ones of at most 0"
        unit.fault(f"{what}, not {corners}", np.full(len(boxes.maps), True))
    return taken(unit, boxes, 0, op)


PIXELS = AsyncMeaning(units_of, addresses=loaded, passes=("dim", "mode", "cta_mask"), moves=True)


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
            "{mode}", PIXELS, who, space=there, more=", {offsets}", registers=VECTORS, dim=DIMS,
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
        AsyncMeaning(addresses=stored, passes=("dim",), moves=True),
        dim=DIMS,
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
        AsyncMeaning(reduce_boxes, addresses=stored, takes=("kind",), passes=("dim", "op")),
        dim=DIMS,
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
            dim=DIMS,
            mode={mode: f".{mode}"},
        )
    ),
)
