"""`tw.autotune` on a GPU: what it times, what it leaves as it was, what it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tests.test_tuning import CONFIGS, doubled
from tilewright import T
from tilewright.errors import ArgumentError
from tilewright.tuning import Tuned

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))


def test_every_configuration_is_timed_and_the_choice_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(1 << 22, device="cuda")
    b = torch.zeros_like(a)
    tuned = tw.autotune(doubled, configs=CONFIGS)

    tuned(a, b)

    assert torch.equal(b, 2 * a)
    assert all(trial.seconds is not None and trial.seconds > 0 for trial in tuned.trials(a, b))
    monkeypatch.setattr(Tuned, "_tried", lambda *args, **named: pytest.fail("it tries again"))
    assert tw.autotune(doubled, configs=CONFIGS).trials(a, b) == tuned.trials(a, b)


def test_a_kernel_that_adds_to_its_argument_runs_once() -> None:
    torch = pytest.importorskip("torch")

    def made(threads: int) -> Any:
        @T.prim_func
        def increase(B: T.Buffer((1024,), "float32")):
            i = T.cta_id([1024 // threads]) * threads + T.thread_id([threads])
            B[i] = B[i] + 1.0

        return increase

    b = torch.zeros(1024, device="cuda")
    tw.autotune(made, configs=[{"threads": 64}, {"threads": 128}])(b)

    assert (b == 1).all()


def test_a_stream_that_is_captured_is_no_place_to_try() -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(2048, device="cuda")
    b = torch.zeros_like(a)
    tuned = tw.autotune(doubled, configs=CONFIGS)

    with pytest.raises(ArgumentError, match="cannot be tuned while"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        tuned(a, b)
