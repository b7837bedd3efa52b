"""`kernels.attention`, `kernels.sdpa` and `kernels.attention_backward`: the arrays, what a query sees, the choice of
tiles, and the operators.

Arrays are (batch, heads, length, width) or (batch, length, heads, width) as the caller says; sequences of several
lengths are packed, (all lengths, heads, width). Rows of 16 bytes that lie anywhere are read where they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, TargetError, choices
from tilewright.kernels.arrays import (
    SIMULATED,
    Array,
    contiguous,
    expect,
    info_of,
    kind_of,
    like,
    multiprocessors,
    public,
)
from tilewright.kernels.attention import forward
from tilewright.kernels.attention_backward import gradients
from tilewright.kernels.attention_backward_rows import LOG2E, BackwardKind, convert, prepare
from tilewright.kernels.attention_bias_gradient import BiasKind, of_bias
from tilewright.kernels.attention_forms import (
    FLOAT8,
    TURNED_KEYS,
    AttentionKind,
    AttentionTiles,
    slot_of,
    turn,
    turned_start,
)
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.products import filled

KINDS = ("bfloat16", "float16")
WIDTHS = (64, 96, 128, 192, 256)
ORDERS = {"bhsd": "'bhsd'", "bshd": "'bshd'", "packed": "(all lengths, heads, width)"}
LAYOUTS = {"bhsd": 4, "bshd": 4, "packed": 3}  # their dimensions; the last, of sequences one after the other
ALIGNMENTS = ("top-left", "bottom-right")
EITHER = "alike"  # the alignment of as many keys as queries
ALIGNED = 16  # bytes: rows begin at multiples
EVERYWHERE = -1  # of a window: no limit


def upright(array: Array, layout: str) -> Array:
    """An array as (batch, heads, length, width); a packed one is a batch of one."""
    if layout == "packed":
        return array.swapaxes(0, 1)[None]
    return array if layout == "bhsd" else array.swapaxes(1, 2)


def fallen(array: Array, layout: str) -> Array:
    """The way back from `upright`."""
    return array[0].swapaxes(0, 1) if layout == "packed" else upright(array, layout)


def laid_out(array: Array) -> Array:
    """The array itself where a tensor map takes its strides, or a copy."""
    info, nbytes = info_of(array), dtype(kind_of(array)).bits // 8
    *steps, last = (int(step) for step in info.steps)
    aligned = all(step * nbytes % ALIGNED == 0 and step > 0 for step in steps) and (info.address or 0) % ALIGNED == 0
    return array if aligned and last == 1 else contiguous(array)


def alignment_of(causal: bool | str) -> str:
    """``causal`` as operators take it: an alignment, `EITHER` where both are one, "" where a query sees all keys."""
    if isinstance(causal, str):
        if causal not in ALIGNMENTS:
            raise ArgumentError("no such alignment", given=f"causal={causal!r}", allowed=choices(causal, ALIGNMENTS))
        return causal
    return EITHER if causal else ""


def window_of(causal: str, left: int, right: int, *, alike: bool) -> tuple[int, int, bool]:
    """How many keys before and after a query's own it sees, and are the last query and the last key beside each other?

    causal: of `alignment_of`. alike: are there as many keys as queries?
    """
    if causal == EITHER and not alike:
        raise ArgumentError("queries and keys are not as many, and causal does not say which are beside each other",
                            given="causal=True", allowed=choices(None, ALIGNMENTS))  # fmt: skip
    if min(left, right) < EVERYWHERE:
        raise ArgumentError("no such window", given=f"({left}, {right})", allowed="two numbers of keys, -1 for all")
    return left, 0 if causal else right, causal != "top-left"


def check_dimensions(layout: str, kinds: tuple[str, ...], **arrays: Array) -> None:
    """Raises ArgumentError for what are no arrays of the layout's dimensions."""
    for name, array in arrays.items():
        if not hasattr(array, "shape") or len(array.shape) != LAYOUTS[layout]:
            expect(name, array, kinds)
            raise ArgumentError(f"the dimensions of {name} do not fit", given=f"shape {tuple(array.shape)}",
                                allowed=f"{LAYOUTS[layout]}, in the order {ORDERS[layout]}")  # fmt: skip


def check_widths_and_heads(layout: str, q: Array, k: Array, v: Array, *, paged: bool = False) -> None:
    """Raises ArgumentError for q, k and v that do not go together, or are of widths that have no kernel. paged: is the
    first dimension of k and v that of pages?
    """
    queries, keys, values = (tuple(upright(array, layout).shape) for array in (q, k, v))
    fits = keys[:3] == values[:3] and keys[3] == queries[3] and keys[1] > 0 and queries[1] % keys[1] == 0
    if not fits or (keys[0] != queries[0] and not paged):
        batch = "" if paged else "one batch, "
        raise ArgumentError("q, k and v do not fit", given=", ".join(f"{tuple(x.shape)}" for x in (q, k, v)),
                            allowed=f"{batch}as many keys as values, heads of q a multiple of those of k and v,"
                                    " one width of q and k")  # fmt: skip
    if keys[3] not in WIDTHS or values[3] not in WIDTHS or values[3] > keys[3]:
        raise ArgumentError("no kernel for this width", given=f"{keys[3]} of q and k, {values[3]} of v",
                            allowed=f"{choices(None, WIDTHS)}; that of v at most that of q and k")  # fmt: skip


def check_softcap(softcap: float) -> None:
    """Raises ArgumentError for what bends no scores."""
    if not 0.0 <= softcap < math.inf:
        raise ArgumentError("no such softcap", given=str(softcap), allowed="a number above 0; 0 for none")


def starts_of(cu_seqlens: Array, longest: int | None, layout: str = "bhsd") -> tuple[Array, Array]:
    """Where packed sequences begin in q and in k, None in k where these are the same. Raises ArgumentError for a tuple
    of more or fewer, for a longest sequence of arrays that are not packed, and for a layout of those that are.
    """
    if cu_seqlens is None and longest is not None:
        raise ArgumentError("longest= without cu_seqlens=", given=f"longest={longest}",
                            allowed="both, of packed sequences; or neither")  # fmt: skip
    if cu_seqlens is not None and layout != "bhsd":
        raise ArgumentError("layout= beside cu_seqlens=", given=f"layout={layout!r}",
                            allowed="one of them: packed arrays are (sum of lengths, heads, width)")  # fmt: skip
    if not isinstance(cu_seqlens, tuple):
        return cu_seqlens, None
    if len(cu_seqlens) != 2:
        raise ArgumentError("cu_seqlens is no pair", given=f"a tuple of {len(cu_seqlens)}",
                            allowed="an array of int32, or two: of q and of k")  # fmt: skip
    return cu_seqlens


def check_starts(starts_q: Array, starts_k: Array, bias: Array, rows: tuple[int, int], longest: int) -> None:
    """Raises ArgumentError for what do not say where sequences begin and the last one ends. rows: of q and of k. Only
    NumPy's arrays are read.
    """
    for name, array, count in (("cu_seqlens of q", starts_q, rows[0]), ("cu_seqlens of k", starts_k, rows[1])):
        if array is not None:
            expect(name, array, ("int32",))
            expect(name, array, ("int32",), shape=starts_q.shape[:1])
            _check_places(name, array, count)
    if isinstance(starts_q, np.ndarray) and len(starts_q) > 1 and (most := int(np.diff(starts_q).max())) > longest:
        raise ArgumentError("longest is not the most that a sequence has", given=str(longest),
                            allowed=f"{most}, the queries of the longest one, or more")  # fmt: skip
    if bias is not None or starts_q.shape[0] < 2:
        raise ArgumentError("these packed sequences do not fit", given="a bias" if bias is not None else "no sequence",
                            allowed="one sequence at least, without a bias")  # fmt: skip


def _check_places(name: str, array: Array, rows: int) -> None:
    if not isinstance(array, np.ndarray) or not len(array):
        return
    if array[0] != 0 or array[-1] != rows or (np.diff(array) < 0).any():
        raise ArgumentError(f"{name} are no places of {rows} rows", given=str(array.tolist()),
                            allowed=f"numbers from 0 to {rows}, none less than the one before")  # fmt: skip


def broadcast(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """Raises ArgumentError for an array that is not of this shape when its ones are repeated."""
    extents = tuple(array.shape)
    if len(extents) > len(shape) or any(a not in (1, b) for a, b in zip(extents[::-1], shape[::-1], strict=False)):
        raise ArgumentError(f"the shape of {name} does not fit", given=f"shape {extents}",
                            allowed=f"shape {tuple(shape)}, any of them 1")  # fmt: skip
    return array.expand(shape) if hasattr(array, "expand") else np.broadcast_to(array, shape)


TILES = {64: (128, 128, (2, 2, 2)), 128: (64, 128, (2, 2, 2)), 256: (64, 64, (2, 1, 1))}
"""Queries and keys of a tile, and stages, for the width of keys and values, to which others are padded."""
BENT = 128  # the least width of what needs registers: bent scores, a bias, turns of packed sequences


def outputs_backward(
    q: Array, k: Array, v: Array, out: Array, lse: Array, dout: Array, dlse: Array, bias: Array, starts_q: Array,
    starts_k: Array, longest: int, causal: str, left: int, right: int, scale: float | None, softcap: float,
    deterministic: bool,
) -> Arrays:  # fmt: skip
    for name, array in (("q", q), ("k", k), ("v", v), ("out", out), ("dout", dout)):
        expect(name, array, KINDS if name == "q" else (kind_of(q),))
    batch, heads, m, width = q.shape
    heads_kv, n, width_v = k.shape[1], k.shape[2], v.shape[3]
    window_of(causal, left, right, alike=m == n if starts_q is None else starts_k is None)
    check_softcap(softcap)
    if starts_q is not None:
        check_starts(starts_q, starts_k, bias, (m, n), longest)
    if bias is not None:
        expect("bias", bias, ("float32", *KINDS))
        broadcast("bias", bias, (batch, heads, m, n))
    if max(width, width_v) not in WIDTHS or heads_kv < 1 or heads % heads_kv:
        raise ArgumentError("q and k do not fit", given=f"{tuple(q.shape)}, {tuple(k.shape)}",
                            allowed=f"widths of {choices(None, WIDTHS)}; heads of k divide those of q")  # fmt: skip
    expect("k", k, KINDS, shape=(batch, heads_kv, n, width))
    expect("v", v, KINDS, shape=(batch, heads_kv, n, width_v))
    for name, array in (("out", out), ("dout", dout)):
        expect(name, array, KINDS, shape=(batch, heads, m, width_v))
    for name, array in (("lse", lse), ("dlse", dlse)):
        if array is not None or name == "lse":
            expect(name, array, ("float32",), shape=(batch, heads, m))
    return like(q), like(k), like(v)


def run_backward(results: Arrays, *args: Any) -> Launches:
    (q, k, v, out, lse, dout, dlse, bias, starts_q, starts_k, longest, causal, left, right, scale, softcap,
     ordered) = args  # fmt: skip
    dq, dk, dv = results
    (batch, heads, m, width), n = q.shape, k.shape[2]
    packed, scale = starts_q is not None, width**-0.5 if scale is None else scale
    left, right, bottom = window_of(causal, left, right, alike=m == n if starts_q is None else starts_k is None)
    if 0 in (batch, m, n):
        for array in results:
            filled(array, 0)
        return
    q, k, v, out, dout = (laid_out(x) for x in (q, k, v, out, dout))
    lse, dlse = contiguous(lse), None if dlse is None else contiguous(dlse)
    least = max(width, v.shape[3], BENT if softcap or bias is not None or (packed and ordered) else 0)
    padded = next(size for size in TILES if least <= size)
    queries, keys, stages = TILES[padded]
    if softcap and bias is not None:
        keys, stages = 64, (2, 1, 1)  # registers are scarce
    form = BackwardKind(kind_of(q), padded, padded, queries, keys, left != EVERYWHERE, right != EVERYWHERE, stages,
                        softcap != 0, ordered, "" if bias is None else kind_of(bias), packed)  # fmt: skip
    if packed:
        batch, m, n = starts_q.shape[0] - 1, longest, longest if starts_k is None else n
    tiles = -(-m // form.queries)
    lse2, delta = (like(q, (batch, heads, tiles, form.queries), "float32") for _ in "ld")
    sums = like(q, (batch, heads, tiles, *form.sums), "float32")
    turns = like(q, (batch, heads, tiles, 2), "int32") if ordered else 0
    of_q, of_k = (starts_q, starts_q if starts_k is None else starts_k) if packed else (0, 0)
    if bias is not None:
        bias = broadcast("bias", bias, (batch, heads, m, n)).swapaxes(2, 3)
    yield prepare(form, dlse is not None), (
        out, dout, lse, dlse if dlse is not None else 0, of_q, lse2, delta,
        sums.reshape(batch, heads, tiles, math.prod(form.sums)), turns,
    )  # fmt: skip
    yield gradients(form), (
        q, k, v, dout, lse2, delta, 0 if bias is None else bias, of_q, of_k, sums, turns, dk, dv, n,
        (softcap or scale) * LOG2E, scale / (softcap or 1.0), scale, left, right, int(bottom),
    )  # fmt: skip
    yield convert(form), (sums, dq, of_q, scale)


BACKWARD = TorchOperator(
    "attention_backward",
    "(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor dout, Tensor? dlse, Tensor? bias,"
    " Tensor? starts_q, Tensor? starts_k, int longest, str causal, int left, int right, float? scale, float softcap,"
    " bool deterministic) -> (Tensor, Tensor, Tensor)",
    outputs_backward,
    run_backward,
    runs_on_nothing=True,
)


def bias_outputs(*args: Any) -> Arrays:
    outputs_backward(*args)
    if args[7] is None:
        raise ArgumentError("no bias has a gradient", given="bias=None", allowed="a bias")
    return (like(args[7], (*(1 for _ in range(4 - len(args[7].shape))), *args[7].shape)),)


def run_bias(results: Arrays, *args: Any) -> Launches:
    (q, k, v, out, lse, dout, dlse, bias, _, _, _, causal, left, right, scale, softcap, _) = args
    (batch, heads, m, width), n = q.shape, k.shape[2]
    if 0 in (batch, m, n):
        filled(results[0], 0)
        return
    left, right, bottom = window_of(causal, left, right, alike=m == n)
    scale, shift = width**-0.5 if scale is None else scale, (n - m) * bottom
    q, k, v, out, dout = (laid_out(x) for x in (q, k, v, out, dout))
    shared = results[0].shape
    d = next(size for size in TILES if max(width, v.shape[3]) <= size)
    form = BiasKind(kind_of(q), kind_of(bias), d, tuple(x == 1 for x in shared), left != EVERYWHERE,
                    right != EVERYWHERE, softcap != 0)  # fmt: skip
    queries, keys, stages = TILES[d]
    rows = BackwardKind(kind_of(q), d, d, queries, keys, stages=stages)
    tiles = -(-m // rows.queries)
    lse2, delta = (like(q, (batch, heads, tiles, rows.queries), "float32") for _ in "ld")
    yield prepare(rows, dlse is not None, clears=False), (
        out, dout, contiguous(lse), 0 if dlse is None else contiguous(dlse), 0, lse2, delta, 0, 0,
    )  # fmt: skip
    by_rows = (batch, heads, tiles * rows.queries)
    yield of_bias(form), (
        q, k, v, dout, lse2.reshape(by_rows), delta.reshape(by_rows), broadcast("bias", bias, (batch, heads, m, n)),
        results[0], (softcap or scale) * LOG2E, scale / (softcap or 1.0), shift - left, shift + right,
    )  # fmt: skip


OF_BIAS = TorchOperator(
    "attention_of_bias", BACKWARD.schema.partition("->")[0] + "-> Tensor", bias_outputs, run_bias, runs_on_nothing=True
)


@public.names
def attention_backward(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    dout: Array,
    *,
    dlse: Array = None,
    causal: bool | str = False,
    window: tuple[int, int] | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: Array = None,
    cu_seqlens: Array = None,
    longest: int | None = None,
    deterministic: bool = False,
    of_bias: bool = False,
) -> tuple[Array, ...]:
    """dq, dk and dv: gradients of the sum of ``out * dout``, where `attention` gave out and lse for q, k and v.

    q: (B, H, S_q, D), k: (B, H_kv, S_k, D), v: (B, H_kv, S_k, D_v), out, dout: (B, H, S_q, D_v), bfloat16 or float16, H
    a multiple of H_kv. lse: (B, H, S_q), float32, natural; -inf where a query sees no key. dlse:
    that of lse, if it has one. causal, window, scale, softcap, bias: as of `attention`. cu_seqlens, longest: likewise,
    with arrays of (sum of lengths, heads, width), and lse and dlse of (H, sum of lengths).

    Contributions to dq are added as they come, so that its last bits differ from run to run; deterministic: in the
    order of the keys, which takes longer. of_bias: is the gradient of the bias wanted, too, as a fourth array, of its
    shape and dtype? It is the same in each run: each element is a sum in one order, over all that the bias is repeated
    for.

    Raises ArgumentError for arrays that do not fit.
    """
    starts_q, starts_k = starts_of(cu_seqlens, longest)
    layout = "bhsd" if starts_q is None else "packed"
    check_dimensions(layout, KINDS, q=q, k=k, v=v, out=out, dout=dout)
    if starts_q is not None:
        longest = q.shape[0] if longest is None else longest
        lse, dlse = lse[None], None if dlse is None else dlse[None]
    q, k, v, out, dout = (upright(array, layout) for array in (q, k, v, out, dout))
    left, right = (EVERYWHERE, EVERYWHERE) if window is None else window
    values = (q, k, v, out, lse, dout, dlse, bias, starts_q, starts_k, longest or 0, alignment_of(causal), left, right,
             scale, softcap, deterministic)  # fmt: skip
    gradients = tuple(fallen(array, layout) for array in BACKWARD(*values))
    return (*gradients, OF_BIAS(*values).reshape(bias.shape)) if of_bias else gradients


CACHED_BYTES = 32 << 20  # of keys and values that the L2 cache holds while others work on them
MUCH, CROWD = 4096, 256  # queries from which on the simulator has so many CTAs: what many do at once is done once


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """batch, heads of queries and of keys, queries and keys of a sequence, of all if they are packed."""

    batch: int
    heads: int
    heads_kv: int
    m: int
    n: int


@cache
def chosen(form: AttentionKind, sizes: AttentionSizes, processors: int) -> tuple[AttentionTiles, int, int]:
    """Tiles, how many clusters of CTAs, and how many heads are gone through together."""
    candidates, is_simulated = _candidates(form, sizes), processors == SIMULATED
    if is_simulated and sizes.batch * sizes.heads * sizes.m >= MUCH:
        candidates, processors = [replace(candidates[:2][-1], groups=1, turns=False, dynamic=False)], CROWD
    if not is_simulated and _works(form, candidates[0], sizes) <= processors:  # each CTA has one: none is drawn
        candidates = [*(replace(candidate, dynamic=False) for candidate in candidates), *candidates]
    fitting = (candidate for candidate in candidates if is_simulated or has_registers(form, candidate))
    tiles = next(fitting, candidates[-1])
    nbytes = max(sizes.n, 1) * (form.width + form.width_v) * dtype(form.kind).bits // 8 * sizes.heads_kv / sizes.heads
    section = max(1, min(sizes.batch * sizes.heads, int(CACHED_BYTES // nbytes))) if form.last or form.packed else 1
    return tiles, max(1, min(_works(form, tiles, sizes), processors // tiles.cluster)), section


def _works(form: AttentionKind, tiles: AttentionTiles, sizes: AttentionSizes) -> int:
    """Tiles of queries, or clusters that have some."""
    if form.packed:
        return int(slot_of(sizes.m, sizes.batch, tiles.queries)) * sizes.heads
    return -(-sizes.m // (tiles.queries * tiles.cluster)) * sizes.batch * sizes.heads


def _candidates(form: AttentionKind, sizes: AttentionSizes) -> list[AttentionTiles]:
    """The tiles that were fastest on an H200, then some with fewer registers."""
    width = max(form.width, form.width_v)
    dynamic = form.last or form.packed
    if form.narrow:
        return _narrow_candidates(width, sizes, dynamic=dynamic)
    if form.is_bent:
        return [AttentionTiles(2, keys, turns=width <= 128, dynamic=dynamic) for keys in (64, 32, 16)]
    small = AttentionTiles(2, 128, turns=dynamic or sizes.n > 1024, dynamic=dynamic)
    if width <= 64:
        return [*([AttentionTiles(3, 128, dynamic=dynamic)] if sizes.m > 1024 else []), small]
    if width <= 128:
        is_long = sizes.n >= (16384 if dynamic else 4096)
        return [*([AttentionTiles(2, 160, dynamic=dynamic)] if is_long else []), small]
    most = 80 if width == 256 else 96
    turns = dynamic and width == 256
    return [AttentionTiles(2, keys, turns=turns, dynamic=dynamic or width == 256) for keys in (most, 64, 32)]


def _narrow_candidates(width: int, sizes: AttentionSizes, *, dynamic: bool) -> list[AttentionTiles]:
    """Of 8-bit elements."""
    if width <= 64 and not dynamic and sizes.m > 1024:
        return [AttentionTiles(3, 128), AttentionTiles(2, 128)]
    keys = {64: 256 if sizes.n >= 8192 else 128, 128: 192 if sizes.n >= 2048 else 128}
    wide = next((many for most, many in keys.items() if width <= most), 96)
    return [AttentionTiles(2, many, dynamic=dynamic) for many in (wide, 64)]


@cache
def has_registers(form: AttentionKind, tiles: AttentionTiles) -> bool:
    """Does the kernel assemble without spills?"""
    try:
        return bool(forward(form, tiles).assembly)
    except TargetError:
        return False


# The operator


def outputs(
    q: Array, k: Array, v: Array, bias: Array, starts_q: Array, starts_k: Array, descale_q: Array, descale_k: Array,
    descale_v: Array, layout: str, longest: int, causal: str, left: int, right: int, scale: float | None,
    softcap: float, deterministic: bool,
) -> Arrays:  # fmt: skip
    check_dimensions(layout, (*KINDS, FLOAT8), q=q, k=k, v=v)
    if layout == "packed":
        check_starts(starts_q, starts_k, bias, (q.shape[0], k.shape[0]), longest)
    check_softcap(softcap)
    expect("q", q, (*KINDS, FLOAT8))
    for name, array in (("q", q), ("k", k), ("v", v)):
        expect(name, array, (kind_of(q),))
    queries, keys = (tuple(upright(array, layout).shape) for array in (q, k))
    _seen(causal, left, right, layout, starts_k, queries, keys)
    check_widths_and_heads(layout, q, k, v)
    if bias is not None:
        expect("bias", bias, ("float32", *KINDS))
        broadcast("bias", bias, (*queries[:3], keys[2]))
    narrow = kind_of(q) == FLOAT8
    for name, array in (("descale_q", descale_q), ("descale_k", descale_k), ("descale_v", descale_v)):
        if array is not None and not narrow:
            raise ArgumentError(f"{name} does not fit", given=f"q of {kind_of(q)}", allowed=f"q of {FLOAT8}")
        if array is not None:
            expect(name, array, ("float32",))
            broadcast(name, array, (keys[0] if starts_q is None else starts_q.shape[0] - 1, keys[1]))
    return like(q, (*q.shape[:-1], v.shape[-1]), "bfloat16" if narrow else None), like(
        q, queries[1:3] if layout == "packed" else queries[:3], "float32"
    )


def _seen(
    causal: str, left: int, right: int, layout: str, starts_k: Array, queries: Sequence[int], keys: Sequence[int]
) -> tuple[int, int, bool]:
    """`window_of`, of queries and keys of these upright shapes."""
    alike = starts_k is None if layout == "packed" else queries[2] == keys[2]
    return window_of(causal, left, right, alike=alike)


def run(results: Arrays, *args: Any) -> Launches:
    (q, k, v, bias, starts_q, starts_k, *descales, layout, _, causal, left, right, scale, softcap, _) = args
    out, lse = results
    if 0 in lse.shape:
        return
    if 0 in k.shape:
        filled(out, 0)
        filled(lse, -math.inf)
        return
    q, k, v = (laid_out(upright(array, layout)) for array in (q, k, v))
    left, right, bottom = _seen(causal, left, right, layout, starts_k, q.shape, k.shape)
    packed, scale = layout == "packed", q.shape[3] ** -0.5 if scale is None else scale
    form = AttentionKind(
        kind_of(q), kind_of(out), q.shape[3], v.shape[3], left != EVERYWHERE, right != EVERYWHERE, softcap != 0,
        "" if bias is None else kind_of(bias), shaped=scale <= 0, packed=packed,
    )  # fmt: skip
    batch = starts_q.shape[0] - 1 if packed else q.shape[0]
    sizes = AttentionSizes(batch, q.shape[1], k.shape[1], q.shape[2], k.shape[2])
    tiles, clusters, section = chosen(form, sizes, multiprocessors(q))
    counter = filled(like(lse, (1,), "int32"), 0) if tiles.dynamic else 0
    of_q, of_k = (starts_q, starts_q if starts_k is None else starts_k) if packed else (0, 0)
    if form.narrow:
        columns = turned_start(v.shape[2], batch) if packed else -(-v.shape[2] // TURNED_KEYS) * TURNED_KEYS
        turned = like(v, (*v.shape[:2], v.shape[3], columns))
        yield turn(v.shape[3], packed=packed), (v, turned, of_k)
        v = turned
        each_one = (filled(like(lse, (1,)), 1) if factor is None else factor for factor in descales)
        descales = [broadcast("a descale", descale, (batch, k.shape[1])) for descale in each_one]
    bend = 1.0
    if form.is_bent:
        bend, scale = scale / (softcap or 1.0), 1.0
    yield forward(form, tiles), (
        q, k, v, upright(out, layout), (lse[None] if packed else lse)[..., None], counter,
        0 if bias is None else broadcast("bias", bias, (*q.shape[:3], k.shape[2])),
        of_q, of_k,
        *(0 if descale is None else descale for descale in descales), clusters, section,
        scale * math.log2(math.e), bend, softcap or 1.0, left, right, int(bottom),  # a launch packs floats of 0 anew
    )  # fmt: skip


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    (q, k, v, bias, starts_q, starts_k, *_, layout, longest, causal, left, right, scale, softcap,
     deterministic) = args  # fmt: skip
    (out, lse), (slope, slope_lse) = results, gradients
    if kind_of(q) == FLOAT8:
        raise ArgumentError("attention has no gradient of 8-bit floats", given=FLOAT8, allowed=choices(None, KINDS))
    turned = (upright(array, layout) for array in (q, k, v, out))
    if slope is None:
        slope = filled(like(out), 0)
    if layout == "packed":
        lse, slope_lse = lse[None], None if slope_lse is None else slope_lse[None]
    values = (*turned, lse, upright(slope, layout), slope_lse, bias, starts_q, starts_k, longest, causal, left, right,
             scale, softcap, deterministic)  # fmt: skip
    slopes = (fallen(array, layout) for array in BACKWARD(*values))
    of_bias = OF_BIAS(*values).reshape(bias.shape) if getattr(bias, "requires_grad", False) else None
    return (*slopes, of_bias, *(None for _ in args[4:]))


FORWARD = TorchOperator(
    "attention",
    "(Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? starts_q, Tensor? starts_k, Tensor? descale_q,"
    " Tensor? descale_k, Tensor? descale_v, str layout, int longest, str causal, int left, int right, float? scale,"
    " float softcap, bool deterministic) -> (Tensor, Tensor)",
    outputs,
    run,
    gradient,
    runs_on_nothing=True,
)


@public
def attention(
    q: Array, k: Array, v: Array, *, causal: bool | str = False, window: tuple[int, int] | None = None,
    scale: float | None = None, softcap: float = 0.0, bias: Array = None, lse: bool = False, layout: str = "bhsd",
    cu_seqlens: Array = None, longest: int | None = None, descale_q: Array = None, descale_k: Array = None,
    descale_v: Array = None, dropout: float = 0.0, deterministic: bool = False,
) -> Any:  # fmt: skip
    """softmax(q k^T scale + bias) v, row by row; with ``lse`` also the logarithms of the sums, natural, float32.

    q: (B, H, S_q, D). k: (B, H_kv, S_k, D). v: (B, H_kv, S_k, D_v). float16 or bfloat16; layout "bshd": (B, S, H, D).
    H is a multiple of H_kv, D and D_v are 64, 96, 128, 192 or 256, D_v at most D. A query that sees no key gets zeros,
    and -inf. scale: 1 / sqrt(D) if left out. softcap: c of c tanh(x / c), to which scores are bent. bias: as many
    dimensions as the scores, (B, H, S_q, S_k), each of them or 1; -inf hides a key.

    causal: "top-left", query i sees the keys up to i; "bottom-right", up to i + S_k - S_q; True where both are one.
    window: how many keys before and after that one are seen, -1 for all; "bottom-right" unless causal says otherwise.
    cu_seqlens: int32, where sequences begin and the last one ends in q, k and v, (sum of lengths, heads, D); a pair of
    these for q and for k. longest: no sequence has more queries; the sum if left out, which takes gradients time.
    float8_e4m3fn: numbers are multiplied with descale_q, descale_k, descale_v, each (B, H_kv), or 1 for either or both
    of these, B of packed ones the number of sequences; with 1 where left out. The result is bfloat16.

    In torch it has a gradient for q, k, v and the bias, as `attention_backward` says, but of 8 bits. deterministic: is
    dq the same, bit by bit, in each run?

    Raises ArgumentError for a dropout, which this kernel does not have, and for arrays that do not fit.
    """
    if dropout:
        raise ArgumentError("attention has no dropout", given=f"dropout={dropout}", allowed="dropout=0.0")
    starts_q, starts_k = starts_of(cu_seqlens, longest, layout)
    if starts_q is not None:
        layout = "packed"
        if longest is None:
            expect("q", q, (*KINDS, FLOAT8))
            longest = q.shape[0]
    elif layout not in ("bhsd", "bshd"):
        raise ArgumentError("no such layout", given=repr(layout), allowed=choices(layout, ("bhsd", "bshd")))
    left, right = (EVERYWHERE, EVERYWHERE) if window is None else window
    results = FORWARD(q, k, v, bias, starts_q, starts_k, descale_q, descale_k, descale_v, layout, longest or 0,
                    alignment_of(causal), left, right, scale, softcap, deterministic)  # fmt: skip
    return results if lse else results[0]


@public
def sdpa(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """`torch.nn.functional.scaled_dot_product_attention`, with its arguments; causal is aligned top-left.

    Raises ArgumentError for what it does not take: a dropout, other than four dimensions, a mask and is_causal at once,
    heads that are not as many without enable_gqa, and what `attention` does not take.
    """
    check_dimensions("bhsd", KINDS, query=query, key=key, value=value)
    if attn_mask is not None:
        expect("attn_mask", attn_mask, ("bool", "float32", *KINDS))
    if attn_mask is not None and is_causal:
        raise ArgumentError("a mask beside is_causal", given="both", allowed="one of them")
    if not enable_gqa and query.shape[:-2] != key.shape[:-2]:
        raise ArgumentError("query and key have different heads", given=f"{tuple(query.shape)}, {tuple(key.shape)}",
                            allowed="as many of both, or enable_gqa=True")  # fmt: skip
    if attn_mask is not None and kind_of(attn_mask) == "bool":
        hidden = filled(like(query, attn_mask.shape), 0)
        hidden[~attn_mask] = -math.inf
        attn_mask = hidden
    return attention(query, key, value, causal="top-left" if is_causal else False, scale=scale, bias=attn_mask,
                     dropout=dropout_p)  # fmt: skip
