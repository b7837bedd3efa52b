"""The page, the timeline and the trace of a recorded run say what the recording says."""

from __future__ import annotations

import base64
import json
import linecache
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.test_recording import TURNS, example, recorded, ring
from tilewright import T
from tilewright.errors import ArgumentError, SimulationError
from tilewright.profiling.acts import script_of
from tilewright.profiling.play import figures_of, play
from tilewright.sim import Run
from tilewright.sim.record.recording import Stretch, Waited
from tilewright.view.look import Timeline, page_of
from tilewright.view.look.page import steps_of
from tilewright.view.look.schedule import bars_of_warp, gpu_of, role_of, scheduled


@T.prim_func
def racing(a: T.handle):
    """Half of the threads read what the others write, without a barrier in between."""
    A = T.match_buffer(a, (64,), "float32")
    t = T.thread_id([64])
    shared = T.alloc_buffer((64,), "float32", scope="shared")
    shared[t] = A[t]
    A[t] = shared[63 - t]


@pytest.fixture(scope="module")
def run() -> Run:
    a, b = np.ones((TURNS, 128), np.float32), np.zeros(128, np.float32)
    return tw.simulate(ring, a, b, record=True)


def data_in(page: str) -> dict[str, Any]:
    found = re.search(r'start\("([^"]+)", ', page)
    assert found is not None
    made: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    return made


def test_a_page_needs_nothing_else(run: Run, tmp_path: Path) -> None:
    page = run.page(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text(encoding="utf-8") == page
    outside = re.sub(r'start\("[^"]+", .*\);', "", page)
    assert not re.search(r"<link[^>]+href=\"(?!data:)|<script[^>]+src=|@import|fetch\(|XMLHttpRequest", outside)
    assert not [url for url in re.findall(r"https?://[^\"'\s)]+", outside) if "w3.org" not in url]


def test_a_page_has_every_event_of_the_recording(run: Run) -> None:
    data = data_in(run.page())
    assert run.recording is not None
    assert [len(one["kind"]) for one in data["streams"]] == [len(one.events) for one in run.recording.streams]
    assert sum(len(one["a"]) for one in data["units"] if one["unit"] == "unit") == len(run.recording.operations)
    (file,) = (one for one in data["files"] if one["name"] == "ring.py")
    assert "cp_async.bulk.g2s_cta" in "\n".join(file["lines"])


def test_the_statements_of_a_page_end_with_the_values_that_the_run_has(run: Run) -> None:
    assert run.recording is not None
    steps = next(one for one in run.recording.stepped if one.warp == 1)
    held: dict[tuple[int, int], Any] = {}
    for step in steps.steps:
        held |= {(buffer, word): lanes for buffer, word, lanes in step.registers}
    total = steps.buffers.index("total")
    np.testing.assert_array_equal(held[total, 0].view(np.float32), np.full(32, float(TURNS), np.float32))


def test_a_page_of_16_ctas_of_a_product_is_below_two_megabytes() -> None:
    a, b = np.ones((256, 64), np.float16), np.ones((256, 64), np.float16)
    made = tw.simulate(example("matmul_ring").matmul, a, b, np.zeros((256, 256), np.float16), record=16)
    assert made.recording is not None
    assert len(made.recording.ctas) == 16
    assert len(made.page()) < 2_000_000


def test_estimated_cycles_keep_the_order_of_causes(run: Run) -> None:
    assert run.recording is not None
    schedule = scheduled(run.recording)
    for stream, times in zip(run.recording.streams, schedule.events, strict=True):
        assert all(times[k].end <= times[k + 1].begin + 1e-6 for k in range(len(times) - 1))
        for event, one in zip(stream.events, times, strict=True):
            if isinstance(event, Waited) and event.cause in {op.completed for op in run.recording.operations}:
                assert one.end >= min(each.end for each in schedule.operations) - 1e-6


def test_the_schedule_is_that_of_the_estimate(run: Run) -> None:
    assert run.recording is not None
    schedule, machine = scheduled(run.recording), figures_of(gpu_of("sm_90a"), 1)
    first = schedule.operations[0]
    assert first.end - first.begin > machine.tma_latency + machine.l2_latency
    assert schedule.end == max(play([script_of(run.recording, {})], machine, 1, 1).ends)
    assert gpu_of("sm_90a").name == "H200"
    assert gpu_of("sm_100a").name == "B200"


def test_the_critical_path_leads_from_the_end_to_the_begin(run: Run) -> None:
    assert run.recording is not None
    schedule = scheduled(run.recording)
    ends = [(schedule.operations if one < 0 else schedule.events[one])[place].end for one, place in schedule.critical]
    assert ends == sorted(ends, reverse=True)
    assert ends[0] == max(one.end for each in schedule.events for one in each)
    assert any(one < 0 for one, _ in schedule.critical)  # the copies are what it waits for


def test_roles_are_named_by_what_warps_do(run: Run) -> None:
    assert run.recording is not None
    assert [role_of(run.recording, n) for n in range(2)] == ["loads", "stores"]
    words = [bar.words for bar in bars_of_warp(run.recording, 1)]
    assert "waits for phase 0 of full[0]" in words
    assert any("empty[0], phase 0: 32 arrivals" in each for each in words)


@pytest.mark.parametrize("units", ["cycles", "order"])
def test_a_trace_is_what_perfetto_reads(run: Run, tmp_path: Path, units: str) -> None:
    made = run.timeline(tmp_path / "trace.json", units=units)
    assert isinstance(made, Timeline)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["ph"] for event in events} <= {"M", "X", "b", "e", "s", "f"}
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
    assert all("ts" in event for event in events if event["ph"] != "M")
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"warp 0: loads", "TMA", "full[0]"} <= names
    begun, over = (sorted((e["id"], e["cat"]) for e in events if e["ph"] == kind) for kind in "be")
    assert begun == over


def test_unknown_units_are_refused(run: Run) -> None:
    with pytest.raises(ArgumentError, match="unknown units 'seconds'"):
        run.timeline().trace("seconds")


def test_a_timeline_is_readable_as_text(run: Run) -> None:
    text = str(run.timeline())
    assert "full[0]" in text
    assert "as the figures of an H200 say" in text
    assert "<iframe" in run.timeline()._repr_html_()
    assert "<iframe" in run._repr_html_()


def test_a_run_that_is_not_recorded_has_no_page() -> None:
    made = tw.simulate(ring, np.ones((TURNS, 128), np.float32), np.zeros(128, np.float32))
    for call in (made.page, made.timeline):
        with pytest.raises(ArgumentError, match="this run is not recorded"):
            call()
    assert "<iframe" not in made._repr_html_()


def test_a_finding_is_on_the_page_with_both_accesses() -> None:
    with pytest.raises(SimulationError, match="race") as caught:
        tw.simulate(racing, np.zeros(64, np.float32), record=True)
    data = data_in(page_of(caught.value.recording))
    (finding,) = data["findings"]
    assert finding["kind"] == "races"
    assert finding["other"]["did"] == "written"
    assert finding["threads"][0]["warps"] != finding["other"]["threads"][0]["warps"]


def test_a_finding_knows_the_moment_of_both_accesses() -> None:
    with pytest.raises(SimulationError, match="race") as caught:
        tw.simulate(racing, np.zeros(64, np.float32), record=True)
    recording = caught.value.recording
    assert recording is not None
    (moment,) = recording.moments
    assert moment.here is not None
    assert moment.other is not None
    for (stream, event, step), line in ((moment.here, "A[t] = shared"), (moment.other, "shared[t] = A")):
        steps = next(one for one in recording.stepped if one.warp == recording.streams[stream].warp)
        at = recording.rows[steps.steps[step].row].at
        assert at is not None
        assert line in linecache.getline(at.file, at.line)
        assert isinstance(recording.streams[stream].events[event], Stretch)
    assert moment.here[0] != moment.other[0]


def test_a_run_without_findings_has_no_moments(run: Run) -> None:
    assert run.recording is not None
    assert run.recording.moments == ()


def test_the_last_statements_begin_with_what_registers_held(run: Run) -> None:
    assert run.recording is not None
    steps = next(one for one in run.recording.stepped if one.warp == 1)
    made = steps_of(steps, 20, last=True)
    assert made["start"] == len(steps.steps) - 20
    held = {tuple(each) for changed in steps_of(steps, len(steps.steps))["changed"] for each in changed}
    assert {tuple(each) for changed in made["changed"] for each in changed} == held


@pytest.mark.parametrize("name", ["page", "timeline"])
def test_a_folder_that_is_not_there_is_told(run: Run, name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no file can be written there"):
        getattr(run, name)(tmp_path / "no" / "folder")
    assert getattr(run, name)(tmp_path / "run")


def test_stretches_without_statements_are_no_bars() -> None:
    recording = recorded("matmul_ring").recording
    assert all(event.executed or event.moved for stream in recording.streams for event in stream.events
               if isinstance(event, Stretch))  # fmt: skip
