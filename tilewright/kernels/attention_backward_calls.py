"""`kernels.attention_backward`: the arrays, what a query sees, and the choice of tiles."""

from __future__ import annotations

import math

from tilewright.errors import ArgumentError
from tilewright.kernels.arrays import Array, contiguous, expect, kind_of, like, public
from tilewright.kernels.attention_backward import gradients
from tilewright.kernels.attention_backward_rows import LOG2E, BackwardKind, convert, prepare

__all__ = ["attention_backward"]

KINDS = ("bfloat16", "float16")
WIDTHS = {64: 128, 128: 64}
"""Queries of a tile, for the width of keys and values."""
SHIFTS = {"top-left": 0, "bottom-right": 1}
"""How often S_k - S_q is added to a query's number: the key that is its own."""


@public.names
def attention_backward(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    dout: Array,
    *,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
) -> tuple[Array, Array, Array]:
    """dq, dk and dv: gradients of the sum of ``out * dout``, where attention gave out and lse for q, k and v.

    q, out, dout: (B, H, S_q, D), k, v: (B, H_kv, S_k, D), bfloat16 or float16, D 64 or 128, H a multiple of H_kv. lse:
    (B, H, S_q), float32, natural; -inf where a query sees no key. causal: "top-left", query i sees the keys up to i, or
    "bottom-right", up to i + S_k - S_q; True where both are the same. window: how many keys before and after that one
    are seen, -1 for all. scale: 1 / sqrt(D) if left out.

    Contributions to dq are added as they come: its last bits differ from run to run.

    Raises ArgumentError for arrays that do not fit.
    """
    batch, heads, m, n, width = _sizes(q, k, v, out, lse, dout)
    left, right, shift = _seen(causal, window, n - m)
    q, k, v, out, lse, dout = (contiguous(x) for x in (q, k, v, out, lse, dout))
    dq, dk, dv = like(q), like(k), like(v)
    if 0 in (batch, m, n):
        for array in (dq, dk, dv):
            array[...] = 0
        return dq, dk, dv
    form = BackwardKind(kind_of(q), width, width, WIDTHS[width], first=left >= 0, last=right >= 0)
    tiles = -(-m // form.queries)
    lse2, delta = (like(q, (batch, heads, tiles, form.queries), "float32") for _ in "ld")
    sums = like(q, (batch, heads, tiles, *form.sums), "float32")
    scale = float(width**-0.5 if scale is None else scale)
    prepare(form)(out, dout, lse, lse2, delta, sums.reshape(batch, heads, tiles, math.prod(form.sums)))
    gradients(form)(q, k, v, dout, lse2, delta, sums, dk, dv, scale * LOG2E, scale, shift - left, shift + right)
    convert(form)(sums, dq, scale)
    return dq, dk, dv


def _sizes(q: Array, k: Array, v: Array, out: Array, lse: Array, dout: Array) -> tuple[int, int, int, int, int]:
    """Batch, heads, queries, keys, width. Raises ArgumentError for arrays that do not fit."""
    for name, array in (("q", q), ("k", k), ("v", v), ("out", out), ("dout", dout)):
        expect(name, array, KINDS if name == "q" else (kind_of(q),))
        if len(array.shape) != 4:
            raise ArgumentError(f"the dimensions of {name} do not fit", given=f"shape {tuple(array.shape)}",
                                allowed="(batch, heads, length, width)")  # fmt: skip
    batch, heads, m, width = q.shape
    heads_kv, n = k.shape[1:3]
    if width not in WIDTHS or heads_kv < 1 or heads % heads_kv:
        raise ArgumentError("q and k do not fit", given=f"{tuple(q.shape)}, {tuple(k.shape)}",
                            allowed="a width of 64 or 128; heads of q a multiple of those of k")  # fmt: skip
    for name, array in (("k", k), ("v", v)):
        expect(name, array, shape=(batch, heads_kv, n, width), kinds=KINDS)
    for name, array in (("out", out), ("dout", dout)):
        expect(name, array, shape=q.shape, kinds=KINDS)
    expect("lse", lse, ("float32",), shape=(batch, heads, m))
    return batch, heads, m, n, width


def _seen(causal: bool | str, window: tuple[int, int], more: int) -> tuple[int, int, int]:
    """Keys before and after a query's own one that it sees, and how much higher the number of that key is."""
    left, right = window
    if causal is True and more:
        raise ArgumentError("causal=True means two things for unlike lengths", given=f"S_k - S_q = {more}",
                            allowed=", ".join(map(repr, SHIFTS)))  # fmt: skip
    if isinstance(causal, str) and causal not in SHIFTS:
        raise ArgumentError("no such alignment", given=repr(causal), allowed=", ".join(map(repr, SHIFTS)))
    shift = more * SHIFTS[causal] if isinstance(causal, str) else more
    return left, 0 if causal else right, shift
