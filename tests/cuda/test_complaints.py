"""Messages of ptxas on kernels with wgmma become errors at the kernel's line, with the remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.cuda.nvrtc import Assembly, check_log, complaints
from tilewright.errors import TargetError
from tilewright.layout import mma_shared_layout, wgmma_fragment

TILE = mma_shared_layout("bfloat16", 3, (64, 64))
FRAGMENT = wgmma_fragment(64, 64)


def two_products(*steps: str) -> Any:
    """Two accumulators; steps: which fences, waits and uses there are besides the first fence and the last wait."""

    @T.prim_func
    def multiply(c: T.Buffer((2, 64, 64), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        A = T.alloc_shared((64, 64), "bfloat16", layout=TILE)
        D = T.alloc_local((64, 64), "float32", layout=FRAGMENT)
        E = T.alloc_local((64, 64), "float32", layout=FRAGMENT)
        T.ptx.wgmma.fence()
        Tx.wg.gemm_async(D, A, A)
        T.ptx.wgmma.commit_group()
        if "use" in steps:
            Tx.wg.copy(c[0, :, :], D)
        if "fence" in steps:
            T.ptx.wgmma.fence()
        Tx.wg.gemm_async(E, A, A)
        T.ptx.wgmma.commit_group()
        if "wait 1" in steps:
            T.ptx.wgmma.wait_group(1)
            Tx.wg.copy(c[0, :, :], D)
        T.ptx.wgmma.wait_group(0)
        Tx.wg.copy(c[0, :, :], D)
        Tx.wg.copy(c[1, :, :], E)

    return multiply


def assembled(kernel: Any) -> None:
    assert tw.compile(kernel, target="sm_90a").assembly


@pytest.mark.parametrize("steps", [(), ("fence",), ("fence", "wait 1")])
def test_right_orders_assemble_silently(steps: tuple[str, ...]) -> None:
    assembled(two_products(*steps))


def test_a_wait_that_ptxas_puts_in_is_an_error_with_the_remedy() -> None:
    with pytest.raises(TargetError, match="a wait is put in") as error:
        assembled(two_products("use"))

    assert "C7517" in str(error.value.given)
    assert "Tx.wg.gemm_async" in str(error.value)
    assert "T.ptx.wgmma.wait_group(0)" in str(error.value.hint)


@pytest.mark.parametrize(
    ("how", "code", "what"),
    [
        ("read", "C7514", "something else reads their accumulators"),
        (
            "written",
            "C751[35]",
            "A in registers changes|something else defines",
        ),  # as ptxas sees it
    ],
)
def test_registers_that_are_used_between_products_are_an_error(how: str, code: str, what: str) -> None:
    @T.prim_func
    def multiply(c: T.Buffer((64, 64), "float32"), n: T.int32):
        T.cta_id([1])
        T.thread_id([128])
        A = T.alloc_local((64, 64), "bfloat16", layout=wgmma_fragment(64, 64, "A", "bfloat16"))
        B = T.alloc_shared((64, 64), "bfloat16", layout=TILE)
        D = T.alloc_local((64, 64), "float32", layout=FRAGMENT)
        Tx.wg.fill(A, 1.0)
        Tx.wg.fill(D, 0.0)
        T.ptx.wgmma.fence()
        for _ in range(n if how == "written" else 1):
            Tx.wg.gemm_async(D, A, B, True)
            if how == "read":
                Tx.wg.copy(c, D)
                Tx.wg.gemm_async(D, A, B, True)
            T.ptx.wgmma.commit_group()
            if how == "written":
                T.ptx.wgmma.wait_group(1)
                Tx.wg.fill(A, 2.0)
                T.ptx.wgmma.fence()
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(0)
        Tx.wg.copy(c, D)

    with pytest.raises(TargetError, match=what) as error:
        assembled(multiply)

    assert re.search(code, str(error.value.given))


def test_a_code_that_nobody_knows_is_told_too() -> None:
    compiled = tw.compile(two_products(), target="sm_90a")
    log = "ptxas info    : (C7599) Potential Performance Loss: something new in function 'multiply' in line 3"

    with pytest.raises(TargetError, match="changes the order of products") as error:
        check_log(Assembly("sm_90a", b"", "\n" * 9, log), compiled.lowered, "multiply")

    assert "something new" in str(error.value.given)


def test_accumulators_that_do_not_fit_are_an_error_with_the_remedy() -> None:
    tiles = [mma_shared_layout("bfloat16", 3, (rows, 64)) for rows in (128, 256)]

    @T.prim_func
    def multiply(c: T.Buffer((128, 256), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        A = T.alloc_shared((128, 64), "bfloat16", layout=tiles[0])
        B = T.alloc_shared((256, 64), "bfloat16", layout=tiles[1])
        D = T.alloc_local((128, 256), "float32", layout=wgmma_fragment(128, 256))
        Tx.wg.gemm_async(D, A, B, sync=True)
        Tx.wg.copy(c, D)

    with pytest.raises(TargetError, match="their registers do not fit") as error:
        assembled(multiply)

    assert "one more warpgroup" in str(error.value.hint)


SPILLS = """\
ptxas info    : Compiling entry function 'multiply' for 'sm_90a'
ptxas info    : Function properties for multiply
ptxas         .     8 bytes stack frame, {stored} bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers
"""


def test_a_spill_is_an_error() -> None:
    compiled = tw.compile(two_products(), target="sm_90a")

    with pytest.raises(TargetError, match="spilled") as error:
        check_log(Assembly("sm_90a", b"", "", SPILLS.format(stored=12)), compiled.lowered, "multiply")

    assert "12 bytes stored" in str(error.value.given)


@pytest.mark.parametrize("code", complaints())
def test_every_code_has_its_remedy(code: str) -> None:
    compiled = tw.compile(two_products(), target="sm_90a")
    log = f"ptxas info    : ({code}) something in function 'multiply' in line 3"

    with pytest.raises(TargetError) as error:
        check_log(Assembly("sm_90a", b"", "\n" * 9, log), compiled.lowered, "multiply")

    assert error.value.what.endswith(complaints()[code].what)
    assert error.value.hint
