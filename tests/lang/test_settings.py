"""Every accepted setting has an effect: in the CUDA text, in the launch, or as a comment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright as tw
from tilewright import T
from tilewright.cuda.nvrtc import assemble
from tilewright.errors import KernelError, TargetError


def loop(**how: object) -> str:
    """The line before the loop in the CUDA text."""

    @T.prim_func
    def k(A: T.Buffer((64,), "float32")):
        tid = T.thread_id([32])
        for i in T.serial(64, **how):
            A[i] = A[i] + tid

    text = tw.compile(k, "sm_90a").source("cuda")
    assert assemble(text, "sm_90a").cubin
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if "for (" in line) - 1].strip()


@pytest.mark.parametrize(
    ("how", "pragma"),
    [
        ({"unroll": 4}, "#pragma unroll 4"),
        ({"annotations": {"unroll": 4}}, "#pragma unroll 4"),
        ({"unroll": 4, "annotations": {"unroll": 4}}, "#pragma unroll 4"),
        ({"unroll": True}, "#pragma unroll"),
        ({"unroll": False}, "#pragma unroll 1"),
        ({"unroll": 1}, "#pragma unroll 1"),
        ({}, "k(float* A) {"),
    ],
)
def test_unroll_says_how_a_serial_loop_unrolls(how: dict[str, object], pragma: str) -> None:
    assert loop(**how).replace(" __restrict__", "") == pragma or not how


def test_an_unrolled_loop_may_say_how_far() -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32")):
        for i in T.unroll(64, annotations={"unroll": 8}):
            A[i] = 0

    assert "#pragma unroll 8\n" in tw.compile(k).source("cuda")


@pytest.mark.parametrize("key", ["min_blocks", "tirx.launch_bounds_min_blocks_per_sm"])
@pytest.mark.parametrize("where", ["attr", "func_attr"])
def test_min_blocks_is_a_launch_bound(where: str, key: str) -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32")):
        getattr(T, where)({key: 2})
        tid = T.thread_id([64])
        A[tid] = 0

    text = tw.compile(k, "sm_90a").source("cuda")

    assert "__launch_bounds__(64, 2)" in text
    assert ".minnctapersm 2" in assemble(text, "sm_90a").ptx


def test_a_hint_is_a_comment() -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32")):
        T.hint("coalesced", level=3)
        A[0] = 0

    assert "// hint: coalesced, level=3\n" in tw.compile(k).source("cuda")


def of_parameter() -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32", scope="shared")):
        A[0] = 0


def of_handle() -> None:
    @T.prim_func
    def k(a: T.handle):
        A = T.match_buffer(a, (64,), "float32", scope="shared")
        A[0] = 0


@pytest.mark.parametrize("define", [of_parameter, of_handle])
def test_an_argument_is_in_global_memory(define: Callable[[], None]) -> None:
    with pytest.raises(KernelError, match="the argument A is in global memory"):
        define()


def test_a_target_with_a_key_that_means_nothing_is_refused() -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32")):
        A[0] = 0

    with pytest.raises(TargetError, match="unknown kind of target"):
        tw.compile(k, {"kind": "cuda", "arch": "sm_90a", "threads": 3})  # type: ignore[dict-item]  # no such key


def test_what_the_decorators_accept_for_other_compilers_changes_nothing() -> None:
    def make(*, check_well_formed: bool = True, private: bool = False) -> str:
        @T.prim_func(check_well_formed=check_well_formed, private=private)
        def k(A: T.Buffer((64,), "float32")):
            A[0] = 0

        return str(k)

    assert make(check_well_formed=False, private=True) == make()
