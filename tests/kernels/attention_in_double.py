"""Attention in double precision, one number after the other: what tests of its kernels compare with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CLOSE = {"bfloat16": 1.5e-2, "float16": 2e-3}


def drawn(*shape: int, kind: str = "bfloat16") -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


def seen(m: int, n: int, left: int = -1, right: int = -1, *, shift: int = 0) -> Array:
    """Which keys, (n,), each of m queries sees."""
    i, j = np.arange(m)[:, None] + shift, np.arange(n)
    return ((left < 0) | (j >= i - left)) & ((right < 0) | (j <= i + right))


def seen_with(how: Mapping[str, Any], m: int, n: int) -> Array:
    """`seen` with the options of a call: m queries stand at the last of n keys, or at the first ones."""
    left, right = how.get("window", (-1, -1))
    shift = 0 if how.get("causal") == "top-left" else n - m
    return seen(m, n, left, 0 if how.get("causal") else right, shift=shift)


def expected(q: Array, k: Array, v: Array, *, sees: Array | bool = True, scale: float | None = None, cap: float = 0.0,
             bias: Array | float = 0.0) -> tuple[Array, Array]:  # fmt: skip
    """The results and the logarithms of sums, one number after the other in double precision."""
    many = q.shape[-3] // k.shape[-3]
    q, k, v = q.astype(float), np.repeat(k.astype(float), many, -3), np.repeat(v.astype(float), many, -3)
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = np.where(sees, (cap * np.tanh(scores / cap) if cap else scores) + bias, -np.inf)
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(most), 0, most))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return weights @ v / np.where(total > 0, total, 1), (np.where(np.isinf(most), 0, most) + np.log(total))[..., 0]


def agrees(found: tuple[Array, Array], wanted: tuple[Array, Array]) -> None:
    kind = str(found[0].dtype)
    assert np.abs(found[0].astype(float) - wanted[0]).max() < CLOSE[kind]
    assert np.array_equal(np.isinf(found[1]), np.isinf(wanted[1]))
    finite = np.isfinite(wanted[1])
    assert np.allclose(found[1][finite], wanted[1][finite], atol=1e-3)
