"""Marks: free in every run that does not ask for them; stamped in each warp's own order where one does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import ArgumentError, KernelError
from tilewright.lang import parse_script
from tilewright.tracing import traced


@T.prim_func
def marked(a: T.handle):
    A = T.match_buffer(a, (3, 64), "float32")
    bx, t = T.cta_id([3]), T.thread_id([64])
    T.trace("begin")
    for _ in range(2):
        if t % 32 == 0:
            T.trace("leader")
        A[bx, t] = A[bx, t] + 1.0
        T.trace("turn")
    T.cuda.cta_sync()
    T.trace("end")


ORDER = ("begin", "leader", "turn", "leader", "turn", "end")


def plain() -> tw.Executable:
    @T.prim_func
    def marked(a: T.handle):
        A = T.match_buffer(a, (3, 64), "float32")
        bx, t = T.cta_id([3]), T.thread_id([64])
        for _ in range(2):
            A[bx, t] = A[bx, t] + 1.0
        T.cuda.cta_sync()

    return tw.compile(marked)


def statements_of(exe: tw.Executable) -> str:
    return exe.source("cuda").partition("{")[2]


def test_marks_are_no_code_unless_they_are_asked_for() -> None:
    text = statements_of(tw.compile(marked))
    assert "clock" not in text
    assert "trace" not in text


def test_marks_are_stamped_in_the_order_of_each_warp() -> None:
    exe, a = tw.compile(marked), np.zeros((3, 64), np.float32)
    found = exe.trace(a)
    assert found.warps == tuple((cta, warp) for cta in range(3) for warp in range(2))
    assert all(found.order(*warp) == ORDER for warp in found.warps)
    assert (a == 2).all()
    assert found.unit == "steps"
    assert all(
        x.cycle <= y.cycle for warp in found.warps for x, y in zip(found.of(*warp), found.of(*warp)[1:], strict=False)
    )
    assert found.of(0, 0)[0].line == found.of(2, 1)[0].line > 0


def test_a_whole_warp_stores_32_marks_at_once_and_a_mark_of_some_lanes_keeps_no_register() -> None:
    text = traced(tw.compile(marked))[0].source("cuda")
    kept = [line for line in text.splitlines() if "trace_held = (trace_whole & 31) == laneid" in line]
    assert len(kept) == len(ORDER) - 3  # begin, turn, end: not leader, and each line once

    @T.prim_func
    def long(a: T.handle):
        A = T.match_buffer(a, (64,), "float32")
        t = T.thread_id([64])
        for i in range(45):
            T.trace("turn")
            if t % 32 < 16 and i % 3 == 0:
                T.trace("half")
            A[t] = A[t] + 1.0

    found = tw.compile(long).trace(np.zeros(64, np.float32))
    wanted = tuple(name for i in range(45) for name in ("turn", *["half"] * (i % 3 == 0)))
    assert [found.order(0, warp) for warp in range(2)] == [wanted] * 2
    assert found.lost == 0


def test_marks_of_a_recorded_run_come_in_the_same_order() -> None:
    exe, a = tw.compile(marked), np.zeros((3, 64), np.float32)
    recording = exe.simulate(a, record=True).recording
    assert recording is not None
    assert tuple(mark.name for mark in recording.marks(1, 1)) == ORDER
    assert [mark.lanes for mark in recording.marks(0, 0)] == [32, 1, 32, 1, 32, 32]
    found = exe.trace(a)
    assert found.differs_from(recording) == ()
    other = tw.simulate(marked, np.zeros((3, 64), np.float32), record=True, check="none").recording
    assert other is not None
    assert found.differs_from(other) == ()


def test_marks_in_another_order_are_told() -> None:
    @T.prim_func
    def backwards(a: T.handle):
        A = T.match_buffer(a, (3, 64), "float32")
        bx, t = T.cta_id([3]), T.thread_id([64])
        T.trace("end")
        A[bx, t] = 1.0
        T.trace("begin")

    a = np.zeros((3, 64), np.float32)
    recording = tw.simulate(backwards, a, record=True).recording
    assert recording is not None
    assert len(tw.compile(marked).trace(a).differs_from(recording)) == 6


def test_more_marks_than_are_kept_are_told() -> None:
    found = tw.compile(marked).trace(np.zeros((3, 64), np.float32), marks=4)
    assert found.order(0, 0) == ORDER[:4]
    assert found.lost == 6
    with pytest.raises(ArgumentError, match="no marks to keep"):
        tw.compile(marked).trace(np.zeros((3, 64), np.float32), marks=0)


def test_a_kernel_without_marks_is_not_traced() -> None:
    with pytest.raises(ArgumentError, match="has no marks"):
        plain().trace(np.zeros((3, 64), np.float32))


def test_a_mark_has_a_name() -> None:
    with pytest.raises(KernelError, match="the name of a mark is a word"):

        @T.prim_func
        def unnamed(a: T.handle):
            A = T.match_buffer(a, (32,), "float32")
            T.trace("")
            A[T.lane_id([32])] = 1.0


def test_the_traced_kernel_assembles_and_reads_the_clock() -> None:
    made, names = traced(tw.compile(marked))
    assert [name for name, _ in names] == ["begin", "leader", "turn", "end"]
    assert made.source("cuda").count("clock64()") == 4
    assert made.cubin


def test_marks_survive_printing() -> None:
    exe = tw.compile(marked)
    for stage in ("tile", "lowered"):
        assert 'T.attr({"trace": "begin"})' in exe.source(stage)
        again = parse_script(exe.source(stage))
        assert again == (exe.kernel if stage == "tile" else exe.lowered)


def test_times_between_marks_become_bars(tmp_path: Path) -> None:
    exe, a = tw.compile(marked), np.zeros((3, 64), np.float32)
    found, run = exe.trace(a), exe.simulate(a, record=True)
    found.timeline(tmp_path / "marks.json")
    events = json.loads((tmp_path / "marks.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if (event["pid"], event["tid"]) == (0, 0)] == list(ORDER)
    assert {(a, b) for a, b, _, _ in found.waits()} >= {("begin", "leader"), ("turn", "end")}
    assert run.recording is not None
    assert found.page(run.recording, tmp_path / "run.html") == (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "turn" in str(found)
