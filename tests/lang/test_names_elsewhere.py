"""Names of CUDA, Triton and CuTe: the error says what they are here."""

# ruff: noqa: F821  names that nobody defines
from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.errors import KernelError, TilewrightError
from tilewright.lang import T
from tilewright.lang.elsewhere import NAMES

PAGE = Path(__file__).parents[2] / "docs" / "coming_from.md"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (lambda: T.syncthreads, "T.cuda.cta_sync()"),
        (lambda: T.cuda.syncwarp, "T.cuda.warp_sync()"),
        (lambda: T.cuda.atomicAdd, "T.cuda.atomic_add(A.ptr_to([i]), value)"),
        (lambda: T.ldg, "A[i]"),
    ],
)
def test_an_unknown_name_of_cuda_says_what_it_is_here(name, hint) -> None:
    with pytest.raises(TilewrightError) as refused:
        name()

    assert refused.value.hint == hint
    assert refused.value.allowed is None


def test_a_bare_name_of_another_language_says_what_it_is_here() -> None:
    with pytest.raises(KernelError, match="tl is not defined") as triton:

        @T.prim_func
        def k(A: T.Buffer((4,), "float32")):
            x = tl.load(A)  # noqa: F841

    with pytest.raises(KernelError, match="__syncthreads is not defined") as cuda:

        @T.prim_func
        def other():
            __syncthreads()

    assert triton.value.hint == NAMES["tl.load"]
    assert cuda.value.hint == NAMES["syncthreads"]


def test_a_name_of_ours_that_is_misspelt_gets_the_nearest() -> None:
    with pytest.raises(TilewrightError) as refused:
        T.alloc_sharedd  # noqa: B018

    assert refused.value.hint is None
    assert "alloc_shared" in str(refused.value)


def test_the_page_has_every_name_and_no_other() -> None:
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]

    assert rows == list(NAMES)
