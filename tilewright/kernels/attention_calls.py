"""`kernels.attention` and `kernels.sdpa`: the arrays, what a query sees, the choice of tiles, and the operators.

Arrays are (batch, heads, length, width) or (batch, length, heads, width) as the caller says; sequences of several
lengths are packed, (all lengths, heads, width). Rows of 16 bytes that lie anywhere are read where they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, TargetError, choices
from tilewright.kernels.arrays import SIMULATED, Array, expect, kind_of, like, multiprocessors, public
from tilewright.kernels.attention import forward
from tilewright.kernels.attention_arrays import (
    EVERYWHERE,
    KINDS,
    alignment_of,
    broadcast,
    check_dimensions,
    check_softcap,
    check_starts,
    check_widths_and_heads,
    fallen,
    laid_out,
    starts_of,
    upright,
    window_of,
)  # fmt: skip
from tilewright.kernels.attention_backward_calls import BACKWARD, OF_BIAS
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
