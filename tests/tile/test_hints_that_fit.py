"""A call whose tiles do not fit is told the call that they fit: with the hint followed, the kernel is taken."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.lang import parse_script

KERNEL = """
@T.prim_func
def k():
    T.cta_id([1])
    T.thread_id([128])
    w = T.warp_id([4])
    s = T.alloc_shared((32, 64))
    m = T.alloc_shared((32,))
    a = T.alloc_shared((64, 16), "float16")
    b = T.alloc_shared((8, 16), "float16")
    c = T.alloc_shared((64, 8))
    {}
"""
"""A kernel of one call; the other tiles are there for it."""

CALLS = {
    "Tx.cta.max(m[:], s[:, :], axes=0)": ("axes=1", "Tx.cta.max(m[:], s[:, :], axes=1)"),
    "Tx.cta.sub(s[:, :], s[:, :], m[:])": ("m[:, None]", "Tx.cta.sub(s[:, :], s[:, :], m[:, None])"),
    "Tx.cta.gemm(c[:, :], a[:, :], b[:, :])": (
        "transpose_B=True",
        "Tx.cta.gemm(c[:, :], a[:, :], b[:, :], transpose_B=True)",
    ),
    "Tx.cta.gemm(c[:, :], a[:, :], b[:, :], transpose_A=True, transpose_B=True)": (
        "transpose_A=False",
        "Tx.cta.gemm(c[:, :], a[:, :], b[:, :], transpose_A=False, transpose_B=True)",
    ),
    "if w == 0: Tx.cta.fill(s[:, :], 0)": ("Tx.warp.fill", "if w == 0: Tx.warp.fill(s[:, :], 0)"),
    "if w == 0: Tx.wg.fill(s[:, :], 0)": ("Tx.warp.fill", "if w == 0: Tx.warp.fill(s[:, :], 0)"),
}
"""Each call: what the error proposes, and the call that follows it."""

WITHOUT = [
    "Tx.cta.max(m[0:5], s[:, 0:8], axes=0)",
    "Tx.cta.sub(s[:, :], s[:, :], m[0:8])",
    "Tx.cta.gemm(c[:, :], a[:, :], s[:, :])",
    "if w < 2: Tx.cta.fill(s[:, :], 0)",
]
"""Calls that no such change makes fit; of two warps each would do the whole."""


def compiled(call: str) -> Any:
    return tw.compile(parse_script(KERNEL.format(call)), target="sm_90a")


@pytest.mark.parametrize("call", CALLS)
def test_an_error_proposes_what_makes_the_call_fit(call: str) -> None:
    hint, followed = CALLS[call]

    with pytest.raises(TilewrightError) as raised:
        compiled(call)
    assert raised.value.hint == hint
    assert compiled(followed).report


@pytest.mark.parametrize("call", WITHOUT)
def test_nothing_is_proposed_where_no_change_fits(call: str) -> None:
    with pytest.raises(TilewrightError) as raised:
        compiled(call)
    assert raised.value.hint is None


def test_an_axis_that_is_taken_for_a_register_is_told_where_it_is() -> None:
    with pytest.raises(TilewrightError) as raised:
        parse_script(KERNEL.format("T.alloc_local((32,), layout=T.TileLayout(T.S[(32,) : (1 @ T.laneid,)]))"))
    assert raised.value.hint == "from tilewright.layout import laneid: an axis, no register"
