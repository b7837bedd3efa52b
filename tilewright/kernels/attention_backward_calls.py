"""`kernels.attention_backward`: the arrays, what a query sees, and the choice of tiles."""

from __future__ import annotations

import math
from typing import Any

from tilewright.errors import ArgumentError, choices
from tilewright.kernels.arrays import Array, contiguous, expect, kind_of, like, public
from tilewright.kernels.attention_arrays import (
    EVERYWHERE,
    KINDS,
    WIDTHS,
    alignment_of,
    broadcast,
    check_dimensions,
    check_softcap,
    check_starts,
    fallen,
    laid_out,
    starts_of,
    upright,
    window_of,
)  # fmt: skip
from tilewright.kernels.attention_backward import gradients
from tilewright.kernels.attention_backward_rows import LOG2E, BackwardKind, convert, prepare
from tilewright.kernels.attention_bias_gradient import BiasKind, of_bias
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.products import filled

TILES = {64: (128, 128, (2, 2, 2)), 128: (64, 128, (2, 2, 2)), 256: (64, 64, (2, 1, 1))}
"""Queries and keys of a tile, and stages, for the width of keys and values, to which others are padded."""
BENT = 128  # the least width of what needs registers: bent scores, a bias, turns of packed sequences


def outputs(
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


def run(results: Arrays, *args: Any) -> Launches:
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
    outputs,
    run,
    runs_on_nothing=True,
)


def bias_outputs(*args: Any) -> Arrays:
    outputs(*args)
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
