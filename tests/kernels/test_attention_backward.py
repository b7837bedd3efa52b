"""`kernels.attention_backward` with all checks of the simulator on, beside the gradients in double precision."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.kernels.attention_in_double import Array, seen_with
from tilewright.errors import ArgumentError
from tilewright.kernels.attention_backward import gradients
from tilewright.kernels.attention_backward_rows import BackwardKind, convert, prepare
from tilewright.kernels.attention_bias_gradient import BiasKind, of_bias
from tilewright.kernels.attention_calls import attention_backward

pytestmark = pytest.mark.usefixtures("all_checks")


def in_double(q: Array, k: Array, v: Array, dout: Array, *, sees: Array, cap: float = 0.0,
              dlse: Array | None = None, bias: Array | float = 0.0) -> tuple[Array, ...]:  # fmt: skip
    """The result of attention, its LSE, dq, dk and dv, and what a bias of the scores' shape has for its gradient."""
    heads_kv, group, scale = k.shape[1], q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    q, dout, k, v = (x.astype(float) for x in (q, dout, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    scores = q @ k.swapaxes(2, 3) * scale
    bent = np.tanh(scores / cap) if cap else np.zeros_like(scores)
    scores = np.where(sees, (cap * bent if cap else scores) + bias, -np.inf)
    most = np.maximum(scores.max(-1, keepdims=True), -1e30)
    total = np.exp(scores - most).sum(-1, keepdims=True)
    weights = np.exp(scores - most) / np.where(total > 0, total, 1)
    with np.errstate(divide="ignore"):
        lse = np.where(total > 0, most, 0) + np.log(total)
    out = weights @ v
    slope = weights * (dout @ v.swapaxes(2, 3) - (dout * out).sum(-1, keepdims=True))
    of_bias = slope + (0 if dlse is None else weights * dlse[..., None])
    slope = of_bias * scale * (1 - bent**2)

    def summed(x: Array) -> Array:
        return x.reshape(len(x), heads_kv, group, *x.shape[2:]).sum(2)  # type: ignore[no-any-return]  # NumPy's type

    of_keys = summed(slope.swapaxes(2, 3) @ q), summed(weights.swapaxes(2, 3) @ dout)
    return out, lse[..., 0], slope @ k, *of_keys, of_bias


CASES: dict[str, tuple[tuple[int, ...], dict[str, Any], str]] = {
    "bent scores": ((1, 1, 1, 130, 130, 64), {"causal": True, "softcap": 1.5}, "bfloat16"),
    "padded widths": ((1, 1, 1, 70, 80, 96, 64), {}, "bfloat16"),
    "one tile": ((1, 1, 1, 128, 128, 64), {}, "bfloat16"),
    "groups of heads, the last keys": ((1, 2, 1, 200, 300, 64), {"causal": "bottom-right"}, "bfloat16"),
    "half of the columns each": ((1, 1, 1, 100, 80, 192), {"causal": "top-left"}, "bfloat16"),
    "queries without a key": ((1, 1, 1, 200, 72, 64), {"causal": "bottom-right"}, "float16"),
    "keys without a query": ((1, 1, 1, 72, 200, 64), {"causal": "top-left"}, "bfloat16"),
    "wide": ((2, 2, 2, 100, 130, 128), {}, "float16"),
    "a bias of bent scores": ((1, 2, 2, 70, 90, 64), {"bias": (1, 70, 1), "softcap": 2.0}, "bfloat16"),
    "a window": ((1, 1, 1, 160, 200, 128), {"window": (30, 10)}, "bfloat16"),
    "a bias of bent scores, wide": ((1, 2, 1, 70, 90, 256), {"bias": (2, 70, 1), "softcap": 2.0}, "bfloat16"),
    "a slope of LSE": ((1, 2, 2, 70, 80, 64), {"dlse": True}, "float16"),
    "parts of dQ in order": ((1, 2, 1, 150, 300, 64), {"window": (200, 0), "deterministic": True}, "bfloat16"),
    "a bias": ((2, 2, 1, 70, 150, 64), {"bias": (2, 1, 70, 150)}, "float16"),
    "a bias in a wide tile": ((1, 1, 1, 70, 90, 256), {"bias": (1, 90), "deterministic": True}, "bfloat16"),
    "wide, in order": ((1, 2, 1, 100, 150, 256), {"causal": "bottom-right", "deterministic": True}, "float16"),
}


@pytest.mark.every(4)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_in_double_precision(name: str) -> None:
    (batch, heads, heads_kv, m, n, width, *width_v), how, kind = CASES[name]
    rng = np.random.default_rng(m + n)
    q, dout = (rng.standard_normal((batch, heads, m, w)).astype(kind) for w in (width, *(width_v or [width])))
    k, v = (rng.standard_normal((batch, heads_kv, n, w)).astype(kind) for w in (width, *(width_v or [width])))
    if "dlse" in how:
        how = {**how, "dlse": rng.standard_normal((batch, heads, m)).astype(np.float32)}
    if "bias" in how:
        how = {**how, "bias": rng.standard_normal(how["bias"]).astype(np.float32)}
    out, lse, *wanted = in_double(q, k, v, dout, sees=seen_with(how, m, n), cap=how.get("softcap", 0.0),
                                  dlse=how.get("dlse"), bias=how.get("bias", 0.0))  # fmt: skip
    found = attention_backward(q, k, v, out.astype(kind), lse.astype(np.float32), dout, **how)
    for each, right_one in zip(found, wanted[:3], strict=True):
        error = np.linalg.norm(each.astype(float) - right_one)
        assert error < (6e-3 if kind == "bfloat16" else 8e-4) * np.linalg.norm(right_one)


BIASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "of all sequences, of a query": ((2, 1, 1, 70, 90, 64), (1, 70, 1), {"causal": "bottom-right", "softcap": 2.0}),
    "of each head": ((1, 2, 1, 70, 90, 64), (2, 70, 90), {}),
    "of a key": ((1, 2, 2, 70, 130, 64), (130,), {"causal": "top-left"}),
    "one number, a window": ((2, 1, 1, 70, 66, 64), (2, 1, 1, 1), {"window": (20, 3)}),
    "wide": ((1, 1, 1, 70, 66, 192), (70, 66), {}),
}


@pytest.mark.every(5)
@pytest.mark.parametrize("name", BIASES)
def test_the_gradient_of_a_bias_is_summed_where_it_is_repeated(name: str) -> None:
    (batch, heads, heads_kv, m, n, width), shape, how = BIASES[name]
    rng = np.random.default_rng(m + n)
    q, dout = (rng.standard_normal((batch, heads, m, width)).astype("bfloat16") for _ in "qd")
    k, v = (rng.standard_normal((batch, heads_kv, n, width)).astype("bfloat16") for _ in "kv")
    bias, dlse = rng.standard_normal(shape).astype(np.float32), rng.standard_normal((batch, heads, m)).astype("float32")
    out, lse, *_, slope = in_double(q, k, v, dout, sees=seen_with(how, m, n), cap=how.get("softcap", 0.0), bias=bias,
                                    dlse=dlse)  # fmt: skip
    *_, found = attention_backward(q, k, v, out.astype("bfloat16"), lse.astype(np.float32), dout, bias=bias, dlse=dlse,
                                   of_bias=True, **how)  # fmt: skip
    whole = (*[1] * (4 - len(shape)), *shape)
    wanted = slope.sum(axis=tuple(x for x in range(4) if whole[x] == 1), keepdims=True).reshape(shape)
    assert found.shape == shape
    assert np.linalg.norm(found - wanted) < 8e-3 * max(np.linalg.norm(wanted), np.linalg.norm(slope))


def test_the_gradient_of_a_bias_needs_one() -> None:
    q, lse = np.zeros((1, 1, 8, 64), np.float16), np.zeros((1, 1, 8), np.float32)
    with pytest.raises(ArgumentError, match="no bias has a gradient"):
        attention_backward(q, q, q, q, lse, q, of_bias=True)


PACKED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "sequences of queries and keys": ((70, 0, 20), (70, 0, 20), {"causal": True}),
    "other lengths, parts of dQ in order": (
        (20, 40, 9), (150, 0, 30), {"window": (100, 0), "deterministic": True}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
def test_gradients_of_packed_sequences_are_those_of_each(name: str) -> None:
    """No query touches a key of another sequence, and nobody writes there."""
    lengths_q, lengths_k, how = PACKED[name]
    rng = np.random.default_rng(len(name))
    q, dout = (rng.standard_normal((sum(lengths_q), 2, 64)).astype(np.float16) for _ in "qd")
    k, v = (rng.standard_normal((sum(lengths_k), 1, 64)).astype(np.float16) for _ in "kv")
    out, lse = np.zeros_like(q), np.full((2, len(q)), -np.inf, np.float32)
    starts = [np.cumsum([0, *lengths]).astype(np.int32) for lengths in (lengths_q, lengths_k)]
    wanted = [np.zeros(x.shape) for x in (q, k, v)]
    for (a, b), (c, d) in zip(*(pairwise(each) for each in starts), strict=True):
        if a == b or c == d:
            continue
        sequence = [x[None].swapaxes(1, 2) for x in (q[a:b], k[c:d], v[c:d], dout[a:b])]
        right = in_double(*sequence, sees=seen_with(how, b - a, d - c))[:5]
        out[a:b], lse[:, a:b], *parts = (x[0].swapaxes(0, 1) if x.ndim > 3 else x[0] for x in right)
        for want, first, part in zip(wanted, (a, c, c), parts, strict=True):
            want[first : first + len(part)] = part
    alike = lengths_q == lengths_k
    found = attention_backward(q, k, v, out, lse, dout, cu_seqlens=starts[0] if alike else tuple(starts),
                               longest=max(lengths_q), **how)  # fmt: skip
    for have, want in zip(found, wanted, strict=True):
        assert np.linalg.norm(have.astype(float) - want) < 8e-4 * np.linalg.norm(want)


PACKED_KIND = BackwardKind("bfloat16", 128, 128, 64, first=True, last=True, packed=True, ordered=True)
OTHER_KINDS = {
    "narrow": BackwardKind("bfloat16", 64, 64, 128, last=True),
    "bent": BackwardKind("bfloat16", 128, 128, 64, last=True, softcap=True),
    "wide": BackwardKind("bfloat16", 256, 256, 64, 64, last=True, stages=(2, 1, 1), softcap=True, ordered=True),
    "biased": BackwardKind("bfloat16", 256, 256, 64, 64, last=True, stages=(2, 1, 1), softcap=True, bias="float32"),
}


def check_registers(form: BackwardKind) -> None:
    """ptxas keeps what the sm_90a kernels need in registers, or there is no assembly."""
    for build in (prepare, gradients, convert):
        assert build(form).assembly


def test_no_kernel_spills() -> None:
    check_registers(PACKED_KIND)


@pytest.mark.long
@pytest.mark.parametrize("form", OTHER_KINDS.values(), ids=list(OTHER_KINDS))
def test_no_other_kernel_spills(form: BackwardKind) -> None:
    check_registers(form)


def test_the_gradient_of_a_bias_spills_nothing() -> None:
    assert of_bias(BiasKind("bfloat16", "float32", 256, (True, False, True, False), True, True, True)).assembly


def test_lengths_that_differ_need_an_alignment() -> None:
    q, k, lse = (np.zeros(shape, kind) for shape, kind in (
        ((1, 1, 8, 64), "float16"), ((1, 1, 16, 64), "float16"), ((1, 1, 8), "float32")))  # fmt: skip
    with pytest.raises(ArgumentError, match="does not say which are beside each other"):
        attention_backward(q, k, k, q, lse, q, causal=True)


def test_a_longest_sequence_of_arrays_that_are_not_packed_is_refused() -> None:
    q, lse = np.zeros((1, 1, 8, 64), "float16"), np.zeros((1, 1, 8), "float32")
    with pytest.raises(ArgumentError, match="longest= without cu_seqlens="):
        attention_backward(q, q, q, q, lse, q, longest=8)
