"""`kernels.attention` and `kernels.sdpa` with all checks of the simulator on, beside attention in double precision."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.kernels.attention_in_double import CLOSE, agrees, drawn, expected, seen
from tilewright import kernels
from tilewright.errors import ArgumentError
from tilewright.kernels import attention_calls
from tilewright.kernels.attention import forward
from tilewright.kernels.attention_calls import AttentionSizes, chosen
from tilewright.kernels.attention_forms import AttentionKind

pytestmark = pytest.mark.usefixtures("all_checks")


@pytest.mark.every(3)
@pytest.mark.parametrize(("width", "width_v"), [(96, 64), (64, 64), (96, 96), (256, 256), (128, 128), (192, 128)])
def test_every_width_of_queries_and_of_values(width: int, width_v: int) -> None:
    q, k, v = drawn(1, 1, 70, width), drawn(1, 1, 90, width), drawn(1, 1, 90, width_v)
    agrees(kernels.attention(q, k, v, lse=True), expected(q, k, v))


@pytest.mark.every(3)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (129, 1), (3, 260), (128, 128)])
@pytest.mark.parametrize("causal", ["top-left", "bottom-right"])
def test_any_lengths_with_either_alignment(m: int, n: int, causal: str) -> None:
    q, k, v = (drawn(2, 1, rows, 64, kind="float16") for rows in (m, n, n))
    sees = seen(m, n, right=0, shift=n - m if causal == "bottom-right" else 0)
    agrees(kernels.attention(q, k, v, causal=causal, lse=True), expected(q, k, v, sees=sees))


@pytest.mark.every(2)
@pytest.mark.parametrize("window", [(20, 5), (0, 0), (140, -1), (-1, 3)])
def test_a_window_is_aligned_at_the_last_key(window: tuple[int, int]) -> None:
    q, k, v = drawn(1, 1, 70, 64), drawn(1, 1, 300, 64), drawn(1, 1, 300, 64)
    wanted = expected(q, k, v, sees=seen(70, 300, *window, shift=230))
    agrees(kernels.attention(q, k, v, window=window, lse=True), wanted)


def test_several_heads_share_one_of_keys_and_heads_come_after_lengths() -> None:
    q, k, v = drawn(2, 4, 70, 64), drawn(2, 2, 90, 64), drawn(2, 2, 90, 64)
    out, lse = kernels.attention(*(x.swapaxes(1, 2) for x in (q, k, v)), layout="bshd", lse=True)
    agrees((out.swapaxes(1, 2), lse), expected(q, k, v))


def test_a_soft_cap_bends_scores_before_they_are_hidden() -> None:
    q, k, v = (drawn(1, 1, 70, 64) for _ in range(3))
    wanted = expected(q, k, v, sees=seen(70, 70, right=0), cap=2.0)
    agrees(kernels.attention(q, k, v, causal=True, softcap=2.0, lse=True), wanted)


@pytest.mark.every(4)
@pytest.mark.parametrize("shape", [(70, 90), (2, 1, 90), (1, 1, 70, 1)])
@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
def test_a_bias_is_repeated_and_hides_where_it_is_minus_infinity(shape: tuple[int, ...], kind: str) -> None:
    q, k, v = drawn(1, 2, 70, 64), drawn(1, 2, 90, 64), drawn(1, 2, 90, 64)
    bias = drawn(*shape, kind=kind)
    bias[..., 1:4, :] = -np.inf  # of one row: of none
    agrees(kernels.attention(q, k, v, bias=bias, lse=True), expected(q, k, v, bias=bias.astype(float)))


@pytest.mark.parametrize("scale", [0.0, -0.5, 2.0])
def test_any_scale(scale: float) -> None:
    q, k, v = (drawn(1, 1, 70, 64) for _ in range(3))
    agrees(kernels.attention(q, k, v, scale=scale, lse=True), expected(q, k, v, scale=scale))


@pytest.mark.every(2)
@pytest.mark.parametrize("causal", [False, True])
def test_float8_is_descaled_by_heads_of_keys(causal: bool) -> None:
    q, k, v = (drawn(1, heads, n, 64, kind="float8_e4m3fn") for heads, n in ((4, 100), (2, 100), (2, 100)))
    by = [np.array([[1.5, 0.5]], np.float32), np.array([[0.75]], np.float32), np.array([[1.0, 3.0]], np.float32)]
    out, lse = kernels.attention(q, k, v, causal=causal, descale_q=by[0], descale_k=by[1], descale_v=by[2], lse=True)
    scaled = [x.astype(float) * b[..., None, None] for x, b in zip((k, v), (by[0] * by[1], by[2]), strict=True)]
    wanted = expected(q, *scaled, sees=seen(100, 100, right=0) if causal else True)
    assert str(out.dtype) == "bfloat16"
    assert np.abs(out.astype(float) - wanted[0]).max() < 0.03 * np.abs(wanted[0]).max()  # weights of 4 bits
    assert np.allclose(lse, wanted[1], atol=2e-2)


def test_packed_sequences_do_not_touch_each_other() -> None:
    lengths = [(5, 9), (70, 0), (0, 3), (130, 140)]
    starts_q, starts_k = (np.cumsum([0, *each]).astype(np.int32) for each in zip(*lengths, strict=True))
    q, k, v = drawn(int(starts_q[-1]), 2, 64), drawn(int(starts_k[-1]), 1, 64), drawn(int(starts_k[-1]), 1, 64)
    out, lse = kernels.attention(q, k, v, causal="bottom-right", cu_seqlens=(starts_q, starts_k), longest=130, lse=True)
    for (m, n), a, b in zip(lengths, starts_q, starts_k, strict=False):
        if m:
            sequence = [x.swapaxes(0, 1) for x in (q[a : a + m], k[b : b + n], v[b : b + n])]
            found = out[a : a + m].swapaxes(0, 1), lse[:, a : a + m]
            agrees(found, expected(*sequence, sees=seen(m, n, right=0, shift=n - m)))


def test_packed_sequences_of_float8_have_descales_of_their_own() -> None:
    lengths = (70, 9, 64)
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    q, k, v = (drawn(sum(lengths), heads, 64, kind="float8_e4m3fn") for heads in (2, 1, 1))
    by = np.array([[1.5], [0.5], [1.0]], np.float32)
    out, lse = kernels.attention(
        q, k, v, causal=True, cu_seqlens=starts, longest=70, descale_q=by, descale_v=by, lse=True
    )
    for (a, b), (scale,) in zip(pairwise(starts), by, strict=True):
        one = [x[a:b].swapaxes(0, 1).astype(float) for x in (q, k, v)]
        wanted = expected(one[0], one[1] * scale, one[2] * scale, sees=seen(b - a, b - a, right=0))
        assert np.abs(out[a:b].swapaxes(0, 1).astype(float) - wanted[0]).max() < 0.03 * np.abs(wanted[0]).max()
        assert np.allclose(lse[:, a:b], wanted[1], atol=2e-2)


def test_rows_of_any_strides_are_taken() -> None:
    q, k, v = drawn(1, 70, 3, 2, 64).transpose(2, 0, 3, 1, 4)  # one array for all, as of one product
    odd = drawn(1, 2, 70, 65)[..., 1:]  # rows that begin anywhere are copied
    agrees(kernels.attention(q, k, v, lse=True), expected(q, k, v))
    agrees(kernels.attention(q, odd, v, lse=True), expected(q, odd, v))


def test_without_keys_every_row_is_zero() -> None:
    q, k = drawn(1, 1, 3, 64), drawn(1, 1, 0, 64)
    out, lse = kernels.attention(q, k, k, lse=True)
    assert not out.any()
    assert np.isneginf(lse).all()


def test_sdpa_takes_a_mask_and_aligns_at_the_first_key() -> None:
    q, k, v = drawn(1, 2, 70, 64), drawn(1, 1, 90, 64), drawn(1, 1, 90, 64)
    mask = np.random.default_rng(0).random((70, 90)) < 0.5
    mask[3] = False
    found = kernels.sdpa(q, k, v, mask, enable_gqa=True)
    assert np.abs(found.astype(float) - expected(q, k, v, sees=mask)[0]).max() < CLOSE["bfloat16"]
    found = kernels.sdpa(q, k, v, is_causal=True, enable_gqa=True)
    assert np.abs(found.astype(float) - expected(q, k, v, sees=seen(70, 90, right=0))[0]).max() < CLOSE["bfloat16"]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"dropout": 0.1}, "attention has no dropout"),
        ({"causal": True}, "does not say which are beside each other"),
        ({"causal": "left"}, "no such alignment"),
        ({"descale_v": np.ones((1, 1), np.float32)}, "descale_v does not fit"),
        ({"layout": "sbhd"}, "no such layout"),
        ({"longest": 70}, "longest= without cu_seqlens="),
        ({"cu_seqlens": np.array([0, 70], np.int32), "layout": "bshd"}, "layout= beside cu_seqlens="),
        ({"window": (-2, 0)}, "no such window"),
        ({"window": (1, 2, 3)}, "does not take this window"),
        ({"window": 3}, "does not take this window"),
        ({"softcap": -1.0}, "no such softcap"),
        ({"bias": np.zeros((2, 70, 90), np.float32)}, "the shape of bias does not fit"),
        ({"cu_seqlens": np.array([0, 70], np.int32)}, r"the dimensions of q(?s:.*)\(all lengths, heads, width\)"),
    ],
)
def test_what_it_does_not_take_is_refused_by_name(how: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        kernels.attention(drawn(1, 1, 70, 64), drawn(1, 1, 90, 64), drawn(1, 1, 90, 64), **how)


@pytest.mark.parametrize(
    ("starts", "longest", "told"),
    [
        ([0, 5, 3, 20], 20, "cu_seqlens of q are no places of 20 rows"),
        ([3, 5, 20], 20, "cu_seqlens of q are no places of 20 rows"),
        ([0, 5, 10], 20, "cu_seqlens of q are no places of 20 rows"),
        ([0, 5, 30], 30, "cu_seqlens of q are no places of 20 rows"),
        ([0, 5, 20], 10, "longest is not the most that a sequence has"),
    ],
)
def test_places_of_packed_sequences_that_do_not_fit_are_refused(starts: list[int], longest: int, told: str) -> None:
    q, k, v = (drawn(20, 1, 64) for _ in range(3))

    with pytest.raises(ArgumentError, match=told):
        kernels.attention(q, k, v, cu_seqlens=np.array(starts, np.int32), longest=longest)


def test_places_of_more_than_queries_and_keys_are_refused() -> None:
    starts = np.array([0, 20], np.int32)

    with pytest.raises(ArgumentError, match="cu_seqlens is no pair"):
        kernels.attention(*(drawn(20, 1, 64) for _ in range(3)), cu_seqlens=(starts, starts, starts))


def test_places_of_another_dtype_are_refused() -> None:
    with pytest.raises(ArgumentError, match="cu_seqlens of q has a dtype"):
        kernels.attention(*(drawn(20, 1, 64) for _ in range(3)), cu_seqlens=np.array([0, 20], np.int64))


@pytest.mark.parametrize(
    ("q", "k", "v", "told"),
    [
        ((1, 1, 8, 80), (1, 1, 8, 80), (1, 1, 8, 80), "no kernel for this width"),
        ((1, 1, 8, 64), (1, 1, 8, 64), (1, 1, 8, 128), "no kernel for this width"),
        ((1, 3, 8, 64), (1, 2, 8, 64), (1, 2, 8, 64), "do not fit"),
        ((1, 1, 8, 64), (1, 1, 8, 64), (1, 1, 9, 64), "do not fit"),
        ((8, 64), (8, 64), (8, 64), "the dimensions of q do not fit"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(q: Any, k: Any, v: Any, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        kernels.attention(drawn(*q), drawn(*k), drawn(*v))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"dropout_p": 0.1}, "attention has no dropout"),
        ({"attn_mask": np.ones((8, 8), bool), "is_causal": True}, "a mask beside is_causal"),
        ({}, "different heads"),
    ],
)
def test_sdpa_says_what_it_does_not_take(how: dict[str, Any], told: str) -> None:
    heads = 1 if how else 2
    with pytest.raises(ArgumentError, match=told):
        kernels.sdpa(drawn(1, heads, 8, 64), drawn(1, 1, 8, 64), drawn(1, 1, 8, 64), **how)


WIDEST = AttentionSizes(4, 8, 8, 2048, 2048)


@pytest.mark.parametrize("most", [64, 16, 8])
def test_the_first_tiles_that_need_no_more_registers_than_there_are_have_the_kernel(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_calls, "has_registers", lambda form, tiles: tiles.keys <= most)
    form = AttentionKind("float16", "float16", 256, 256, bias="float32", softcap=True)

    tiles, *_ = chosen.__wrapped__(form, WIDEST, processors=132)  # what is chosen here is not remembered

    assert tiles.keys == max(most, 16), "the last ones where none fit"


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    [{"bias": "bfloat16", "last": True}, {"bias": "float32", "softcap": True}, {"packed": True, "last": True}],
    ids=["a bias, causal", "a bias of bent scores", "packed, causal"],
)
def test_the_widest_keys_have_a_kernel_that_does_not_spill(how: dict[str, Any]) -> None:
    form = AttentionKind("float16", "float16", 256, 256, **how)
    tiles, *_ = chosen(form, WIDEST, processors=132)
    assert forward(form, tiles).resources.local_bytes == 0
