"""setmaxnreg: warpgroups can take only registers that others give back; an error comes before ptxas runs."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import DispatchError, KernelError


def roles(*counts: tuple[bool, int] | None, promised: int = 1, lanes: int = 128) -> Any:
    """A warpgroup for each of the counts, which it takes (True) or gives back down to; None leaves it as it is."""

    @T.prim_func
    def k(a: T.Buffer((1024,), "float32")):
        if promised:
            T.func_attr({"min_blocks": promised})
        T.cta_id([1])
        tid = T.thread_id([128 * len(counts)])
        group = T.warpgroup_id([len(counts)])
        for number, one in enumerate(counts):
            if one and group == number and tid % 128 < lanes:
                T.ptx.setmaxnreg(*one)
        a[tid] = T.float32(1)

    return k


def refused(kernel: Any, error: type[Exception] = KernelError) -> str:
    with pytest.raises(error) as raised:
        tw.compile(kernel, target="sm_90a")
    assert "test_register_pool.py:" in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    "counts",
    [
        [(False, 40), (True, 232), (True, 232)],
        [(False, 24), (True, 240), (True, 240)],
        [(False, 32), (True, 160), (True, 160), (True, 160)],
        [(False, 40), (True, 232)],
        [(False, 160), None, None],
        [(False, 24), (False, 40), None],
    ],
)
def test_budgets_of_known_kernels_are_right(counts: list[Any]) -> None:
    assert tw.compile(roles(*counts), target="sm_90a").assembly


@pytest.mark.parametrize(
    ("counts", "said", "hint"),
    [
        ([(False, 40), (True, 240), (True, 240)], "40 + 240 + 240 = 520 for each thread of 3 warpgroups", "True, 232)"),
        ([None, (True, 232), (True, 232)], "168 + 232 + 232 = 632", "True, 168)"),
        ([(False, 40), (True, 160), (True, 160), (True, 160)], "40 + 160 + 160 + 160 = 520", "True, 152)"),
    ],
)
def test_a_pool_that_is_too_small_is_told_with_the_most_that_fits(counts: list[Any], said: str, hint: str) -> None:
    text = refused(roles(*counts))

    assert said in text
    assert hint in text


def test_the_hint_compiles() -> None:
    assert tw.compile(roles((False, 40), (True, 152), (True, 152), (True, 152)), target="sm_90a")


def test_who_gives_back_has_more_and_who_takes_has_less() -> None:
    assert "176 where each thread of warpgroup 0 has 168" in refused(roles((False, 176), (True, 232), (True, 232)))
    assert "40 where each thread of warpgroup 1 has 168" in refused(roles((False, 24), (True, 40), (True, 232)))


def test_a_kernel_without_a_promise_gets_the_one_that_always_holds() -> None:
    text = tw.compile(roles((False, 40), (True, 232), promised=0), target="sm_90a").source("cuda")

    assert "__launch_bounds__(256, 1)" in text
    assert "40 + 240 + 240 = 520" in refused(roles((False, 40), (True, 240), (True, 240), promised=0))


def test_a_kernel_that_hands_nothing_over_gets_none() -> None:
    assert "__launch_bounds__(256)" in tw.compile(roles(None, None, promised=0), target="sm_90a").source("cuda")


def test_a_promise_of_more_ctas_leaves_fewer_registers() -> None:
    assert "128 + 136 = 264" in refused(roles(None, (True, 136), promised=2))


def test_all_warps_of_a_warpgroup_hand_over_together() -> None:
    assert "leaves 64 of the 128 threads of a warpgroup" in refused(roles((False, 40), None, lanes=64), DispatchError)
