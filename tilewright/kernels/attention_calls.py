"""`kernels.attention` and `kernels.sdpa`: the arrays, what a query sees, and the choice of tiles.

Arrays are (batch, heads, length, width) or (batch, length, heads, width) as the caller says; sequences of several
lengths are packed, (all lengths, heads, width). Rows of 16 bytes that lie anywhere are read where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright import host
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, TargetError, choices
from tilewright.kernels.arrays import Array, contiguous, expect, info_of, kind_of, like, multiprocessors, public
from tilewright.kernels.attention import forward
from tilewright.kernels.attention_forms import AttentionKind, AttentionTiles
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.products import filled

__all__ = ["attention", "sdpa"]

KINDS = ("bfloat16", "float16")
WIDTHS = (64, 96, 128, 192, 256)
LAYOUTS = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3)}  # the dimensions in the kernel's order
ALIGNED = 16  # bytes: rows begin at multiples
CACHED_BYTES = 32 << 20  # of keys and values that the L2 cache holds while others work on them
EVERYWHERE = -1  # of a window: no limit


def upright(array: Array, layout: str) -> Array:
    """An array as (batch, heads, length, width); a packed one is a batch of one."""
    if layout == "packed":
        return array.swapaxes(0, 1)[None]
    return array if layout == "bhsd" else array.swapaxes(1, 2)


def laid_out(array: Array) -> Array:
    """The array itself where a tensor map takes its strides, or a copy."""
    info, each = info_of(array), dtype(kind_of(array)).bits // 8
    *steps, last = (int(step) for step in info.steps)
    aligned = all(step * each % ALIGNED == 0 and step > 0 for step in steps) and (info.address or 0) % ALIGNED == 0
    return array if aligned and last == 1 else contiguous(array)


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """batch, heads of queries and of keys, queries and keys of a sequence, the longest if they are packed."""

    batch: int
    heads: int
    heads_kv: int
    m: int
    n: int


@cache
def chosen(form: AttentionKind, sizes: AttentionSizes, processors: int) -> tuple[AttentionTiles, int, int]:
    """Tiles, how many clusters of CTAs, and how many heads are gone through together."""
    tiles = next(each for each in _candidates(form, sizes) if processors < 16 or has_registers(form, each))
    parts = -(-sizes.m // (tiles.queries * tiles.cluster))
    each = sizes.n * (form.width + form.width_v) * dtype(form.kind).bits // 8 * sizes.heads_kv / sizes.heads
    section = max(1, min(sizes.batch * sizes.heads, int(CACHED_BYTES // each))) if form.last or form.packed else 1
    return tiles, max(1, min(parts * sizes.batch * sizes.heads, processors // tiles.cluster)), section


def _candidates(form: AttentionKind, sizes: AttentionSizes) -> list[AttentionTiles]:
    width = max(form.width, form.width_v)
    dynamic = form.last or form.packed
    if width <= 64:
        return [AttentionTiles(3 if sizes.m > 1024 else 2, 128, dynamic=dynamic), AttentionTiles(2, 128, dynamic=dynamic)]
    if width <= 128:
        return [AttentionTiles(2, 128, dynamic=dynamic)]
    return [AttentionTiles(2, 80 if width == 256 else 96, turns=False, dynamic=dynamic)]


@cache
def has_registers(form: AttentionKind, tiles: AttentionTiles) -> bool:
    """Does the kernel assemble without spills?"""
    try:
        return bool(forward(form, tiles).assembly)
    except TargetError:
        return False


# The operator


def outputs(q: Array, k: Array, v: Array, layout: str, left: int, right: int, bottom: bool, scale: float) -> Arrays:
    expect("q", q, KINDS)
    for name, array in (("k", k), ("v", v)):
        expect(name, array, (kind_of(q),))
    for name, array in (("q", q), ("k", k), ("v", v)):
        if len(array.shape) != 4:
            raise ArgumentError(f"{name} has not four dimensions", given=f"shape {tuple(array.shape)}",
                                allowed=f"four, in the order {layout!r}")  # fmt: skip
    queries, keys, values = (upright(array, layout).shape for array in (q, k, v))
    fits = keys[:3] == values[:3] and keys[0] == queries[0] and keys[3] == queries[3] and keys[1] > 0
    if not fits or queries[1] % keys[1]:
        raise ArgumentError("q, k and v do not fit", given=", ".join(f"{tuple(x.shape)}" for x in (q, k, v)),
                            allowed="one batch, as many keys as values, heads of q a multiple of those of k and v,"
                                    " one width of q and k")  # fmt: skip
    if keys[3] not in WIDTHS or values[3] not in WIDTHS or values[3] > keys[3]:
        raise ArgumentError("no kernel for this width", given=f"{keys[3]} of q and k, {values[3]} of v",
                            allowed=f"{choices(None, WIDTHS)}; that of v at most that of q and k")  # fmt: skip
    made = like(q, (*q.shape[:3], v.shape[3]))
    return made, like(q, queries[:3], "float32")


def run(results: Arrays, args: Arrays) -> Launches:
    q, k, v, layout, left, right, bottom, scale = args
    out, lse = results
    if 0 in lse.shape:
        return
    if 0 in k.shape:
        filled(out, 0)
        filled(lse, -math.inf)
        return
    q, k, v = (laid_out(upright(array, layout)) for array in (q, k, v))
    form = AttentionKind(kind_of(q), kind_of(out), q.shape[3], v.shape[3], left != EVERYWHERE, right != EVERYWHERE)
    sizes = AttentionSizes(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2])
    tiles, clusters, section = chosen(form, sizes, multiprocessors(q))
    counter = filled(like(lse, (1,), "int32"), 0) if tiles.dynamic else 0
    yield forward(form, tiles), (q, k, v, upright(out, layout), lse[..., None], counter, clusters, section,
                                 scale * math.log2(math.e), left, right, int(bottom))  # fmt: skip


FORWARD = TorchOperator(
    "attention",
    "(Tensor q, Tensor k, Tensor v, str layout, int left, int right, bool bottom, float scale) -> (Tensor, Tensor)",
    outputs,
    run,
    runs_on_nothing=True,
)


@public.names
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool | str = False,
    window: tuple[int, int] | None = None,
    scale: float | None = None,
    lse: bool = False,
    layout: str = "bhsd",
) -> Any:
    """softmax(q k^T scale) v, row by row; with ``lse`` also the logarithms of the sums of exponentials, float32.

    q: (B, H, S_q, D). k: (B, H_kv, S_k, D). v: (B, H_kv, S_k, D_v). float16 or bfloat16; layout "bshd": heads after
    lengths. H is a multiple of H_kv. causal: "top-left", query i sees the keys up to i; "bottom-right", up to
    i + S_k - S_q; True where both are the same. window: how many keys before and after that one are seen, -1 for all.
    A query that sees no key gets zeros, and -inf. scale: 1 / sqrt(D) if left out.
    """
    if layout not in LAYOUTS:
        raise ArgumentError("no such layout", given=repr(layout), allowed=choices(layout, tuple(LAYOUTS)))
    left, right, bottom = _window(q, k, causal, window, layout)
    scale = _scale(scale, q)
    found = FORWARD(q, k, v, layout, left, right, bottom, scale)
    return found if lse else found[0]


def _window(q: Array, k: Array, causal: bool | str, window: Any, layout: str) -> tuple[int, int, bool]:
    """Of the operator: how many keys before and after, and are the last query and the last key beside each other?"""
    return EVERYWHERE, 0 if causal else EVERYWHERE, causal != "top-left"


def _scale(scale: float | None, q: Array) -> float:
    return float(q.shape[-1] ** -0.5 if scale is None else scale)
