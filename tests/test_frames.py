"""The traceback of an error: the user's own frames, and the kernel's line at its end."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, kernels
from tilewright.errors import TilewrightError
from tilewright.layout import S
from tilewright.public import shortened

OURS = Path(tw.__file__).parent


@T.prim_func
def past_the_end(A: T.Buffer((32,), "float32")):
    t = T.thread_id([64])
    A[t] = 1.0


def simulated() -> None:
    tw.simulate(past_the_end, np.zeros(32, np.float32))


def called() -> None:
    tw.compile(past_the_end, target="sm_90a")(np.zeros(32, np.float32))


def with_a_wrong_array() -> None:
    tw.compile(past_the_end, target="sm_90a")(np.zeros(32, np.float64))


def parsed() -> None:
    @T.prim_func
    def wrong(A: T.Buffer((32,), "float32")):
        A[-1] = 1.0


def parsed_with_settings() -> None:
    @T.prim_func(private=True)
    def wrong(A: T.Buffer((32,), "float32")):
        A[-1] = 1.0


def specialized() -> None:
    @T.jit
    def wrong(A: T.Buffer((32,), "float32"), *, N: T.constexpr):
        A[N] = 1.0

    wrong.specialize(N=40)


def of_a_layout() -> None:
    S[8:1].pack(3)


def of_a_public_kernel() -> None:
    kernels.rms_norm(np.zeros((2, 8), np.float32), np.zeros(4, np.float32))


def of_a_public_kernel_s_keyword() -> None:
    kernels.matmul(np.zeros((8, 8), np.float16), np.zeros((8, 8), np.float16), offset=3)  # type: ignore[call-arg]  # what it is about


CAUSES = [simulated, called, with_a_wrong_array, parsed, parsed_with_settings, specialized, of_a_layout,
          of_a_public_kernel, of_a_public_kernel_s_keyword]  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_a_traceback_has_one_frame_of_ours_at_most(cause: Callable[[], None]) -> None:
    with pytest.raises(TilewrightError, match=r".") as raised:
        cause()

    files = [Path(frame.filename) for frame in traceback.extract_tb(raised.tb)]
    assert sum(OURS in file.parents for file in files) <= 1
    assert OURS not in files[0].parents


@pytest.mark.parametrize("cause", CAUSES)
def test_pytest_shows_the_users_frames_alone(cause: Callable[[], None]) -> None:
    with pytest.raises(TilewrightError, match=r".") as raised:
        cause()

    shown = raised.traceback.filter(raised)

    assert [entry.path for entry in shown if OURS in Path(entry.path).parents] == []


@pytest.mark.parametrize("cause", [simulated, called, parsed, parsed_with_settings, specialized])
def test_a_traceback_ends_with_the_line_of_the_kernel(cause: Callable[[], None]) -> None:
    with pytest.raises(TilewrightError, match=r".") as raised:
        cause()

    last = traceback.extract_tb(raised.tb)[-1]

    assert raised.value.at is not None
    assert (last.filename, last.lineno) == (__file__, raised.value.at.line)
    assert last.line == raised.value.at.excerpt()[0].partition("|")[2].strip()


def test_what_the_user_s_own_code_raised_is_kept_with_its_frames() -> None:
    def helper(x):
        raise ValueError("mine")

    with pytest.raises(TilewrightError, match="mine") as raised:

        @T.prim_func
        def wrong(A: T.Buffer((32,), "float32")):
            A[0] = helper(A[1])

    cause = raised.value.__cause__
    assert isinstance(cause, ValueError)
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["helper"]


def test_errors_inside_of_the_package_keep_their_frames() -> None:
    from tilewright.ir.verify import verify

    with pytest.raises(TilewrightError, match=r".") as raised:
        verify(tw.ir.Kernel("k", (), (), (tw.ir.Break(),)))

    assert len(raised.traceback) > 2


def test_frames_of_torch_between_ours_are_left_out() -> None:
    """An operator of ours that torch carries out: user, ours, torch's, ours."""
    torch: dict[str, object] = {"__name__": "torch._ops"}
    exec("def carried_out(function): function()", torch)

    def edge() -> None:
        try:
            torch["carried_out"](of_a_public_kernel)  # type: ignore[operator]  # made by exec
        except TilewrightError as error:
            raise shortened(error) from None

    with pytest.raises(TilewrightError, match="the shape of weight") as raised:
        edge()

    names = [frame.name for frame in traceback.extract_tb(raised.tb)]
    assert "carried_out" not in names
    assert names[-1] in ("of_a_public_kernel", "checked")
