"""`tw.autotune` without a GPU: refusals, counts, kept choices; a GPU's part is in tests/gpu."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import ArgumentError
from tilewright.tuning import Trial, Tuned, _pruned


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    return tmp_path


@T.jit
def doubled(a: T.handle, b: T.handle, *, VECTOR: T.constexpr):
    """Elements that lie VECTOR apart are stored one by one: the wider, the worse."""
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    T.assume(n % 1024 == 0)
    bx = T.cta_id([n // 1024])
    tid = T.thread_id([128])
    if VECTOR > 1:
        Tx.cta.mul(B[bx * 1024 : bx * 1024 + 1024], A[bx * 1024 : bx * 1024 + 1024], 2.0)
    else:
        for i in range(8):
            B[bx * 1024 + tid * 8 + i] = A[bx * 1024 + tid * 8 + i] * 2.0


CONFIGS = [{"VECTOR": 1}, {"VECTOR": 4}]


@pytest.mark.parametrize(
    ("configs", "words"),
    [([], "nothing to choose from"), ([{}], "missing a required argument: 'x'"),
     ([{"x": 1, "VECTOR": 4}], "got an unexpected keyword argument"), ([{"x": 1}], "this is not a kernel")],
)  # fmt: skip
def test_a_function_that_makes_no_kernel_is_refused_with_what_it_takes(configs: Any, words: str) -> None:
    def plain(x: Any) -> Any:
        return x

    with pytest.raises(ArgumentError) as refused:
        tw.autotune(plain, configs=configs)(np.ones(4, np.float32))
    assert words in str(refused.value)


def pair(n: int = 2048) -> tuple[Any, Any]:
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def test_the_configuration_with_the_least_work_is_taken_and_runs() -> None:
    tuned = tw.autotune(doubled, configs=CONFIGS, key=["n"])
    a, b = pair()

    tuned(a, b)

    assert (b == 2 * a).all()
    assert tuned.best(a, b) == {"VECTOR": 4}
    best, worse = tuned.trials(a, b)
    assert best.estimated < worse.estimated
    assert re.search(r"us estimated, not measured: (bound by|waits for) ", str(best))


def test_trying_leaves_the_arguments_as_they_were() -> None:
    a, b = pair()

    tw.autotune(doubled, configs=CONFIGS).trials(a, b)

    assert not b.any()


def test_a_choice_is_kept_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair()
    first = tw.autotune(doubled, configs=CONFIGS).trials(a, b)
    monkeypatch.setattr(Tuned, "_tried", lambda *args, **named: pytest.fail("it tries again"))

    assert tw.autotune(doubled, configs=CONFIGS).trials(a, b) == first
    with pytest.raises(pytest.fail.Exception, match="it tries again"):
        tw.autotune(doubled, configs=CONFIGS[::-1]).trials(a, b)


@pytest.mark.parametrize("text", ["", "[]", "[[0, 1, 1, '', 0, '']]", "{", '[[5, null, 1.0, "", 0, ""]]'])
def test_a_note_that_is_none_is_written_anew(text: str, notes: Path) -> None:
    a, b = pair()
    first = tw.autotune(doubled, configs=CONFIGS).trials(a, b)
    (note,) = notes.glob("*.note")
    note.write_text(text)

    assert tw.autotune(doubled, configs=CONFIGS).trials(a, b) == first
    assert note.read_text() != text


def test_sizes_of_one_class_share_a_choice() -> None:
    tuned = tw.autotune(doubled, configs=CONFIGS, key=["n"])

    assert tuned.trials(*pair(3072)) is tuned.trials(*pair(4096))
    assert tuned.trials(*pair(3072)) is not tuned.trials(*pair(2048))


def test_a_key_may_be_a_function() -> None:
    tuned = tw.autotune(doubled, configs=CONFIGS, key=lambda a, b: len(a) > 2048)

    assert tuned.trials(*pair(3072)) is tuned.trials(*pair(8192))
    assert tuned.trials(*pair(1024)) is not tuned.trials(*pair(3072))


def test_a_decorator_and_a_function_of_the_constants_will_do() -> None:
    @tw.autotune(configs=[{"threads": 32}, {"threads": 64}])
    def made(threads: int) -> Any:
        @T.prim_func
        def ones(B: T.Buffer((64,), "float32")):
            T.cta_id([64 // threads])
            B[T.cta_id([64 // threads]) * threads + T.thread_id([threads])] = 1.0

        return ones

    b = np.zeros(64, np.float32)
    made(b)

    assert b.all()
    assert made.best(b)["threads"] in (32, 64)


def test_what_the_compiler_refuses_is_left_out_with_the_reason() -> None:
    def made(kilobytes: int) -> Any:
        @T.prim_func
        def kernel(B: T.Buffer((32,), "float32")):
            T.cta_id([1])
            lane = T.lane_id([32])
            s = T.alloc_shared((kilobytes * 256,), "float32")
            s[lane] = 1.0
            B[lane] = s[lane]

        return kernel

    b = np.zeros(32, np.float32)
    tuned = tw.autotune(made, configs=[{"kilobytes": 400}, {"kilobytes": 4}], target="sm_90a")
    best, refused = tuned.trials(b)

    assert best.config == {"kilobytes": 4}
    assert "the kernel needs more shared memory than a CTA can have; given: 409600 bytes; allowed: " in str(refused)
    with pytest.raises(ArgumentError, match=r"(?s)no configuration of made can run.*more shared memory"):
        tw.autotune(made, configs=[{"kilobytes": 400}], target="sm_90a").trials(b)


def test_what_spills_is_left_out_before_anything_is_timed() -> None:
    fine, spilt = Trial({"a": 1}, estimated=1.0), Trial({"a": 2}, estimated=0.5, local_bytes=8)

    assert [trial.refused for trial in _pruned([fine, spilt])] == ["", "8 bytes of a thread's registers are in memory"]
    assert not _pruned([spilt])[0].refused


def test_a_measured_time_ranks_before_an_estimated_one() -> None:
    measured, estimated = Trial({"a": 1}, seconds=2.0, estimated=3.0), Trial({"a": 2}, estimated=1.0)

    assert sorted([estimated, measured], key=lambda trial: trial.rank) == [measured, estimated]


def test_where_only_a_gpu_is_named_kernels_are_compiled_for_it() -> None:
    for_t4 = tw.autotune(doubled, configs=CONFIGS, gpu="T4")
    assert str(for_t4.executable(*pair()).target) == "sm_75"

    named = tw.autotune(doubled, configs=CONFIGS, gpu="A100", target="sm_75")
    assert str(named.executable(*pair()).target) == "sm_75"


def test_steps_are_told() -> None:
    steps: list[tuple[int, int]] = []
    tw.autotune(doubled, configs=CONFIGS, progress=lambda done, total: steps.append((done, total))).trials(*pair())

    assert steps == [(1, 2), (2, 2)]


def test_what_cannot_be_tuned_is_refused() -> None:
    with pytest.raises(ArgumentError, match="autotune has nothing to choose from"):
        tw.autotune(doubled, configs=[])
    with pytest.raises(ArgumentError, match="autotune needs a kernel with constants"):
        tw.autotune(doubled.specialize(VECTOR=1), configs=CONFIGS)
    with pytest.raises(ArgumentError, match=r"doubled has no size 'm'.*\n.*\n.*n"):
        tw.autotune(doubled, configs=CONFIGS, key=["m"])(*pair())
