"""A recorded run tells the same as its counts, and who waited for whom."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import ArgumentError, SimulationError
from tilewright.sim import Run
from tilewright.sim.record import Recording, RecordingOptions
from tilewright.sim.record.recording import Committed, Event, Issued, Met, Signalled, Stretch, Waited
from tools.runs import recorded as recorded_runs

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXAMPLES))


def recorded(name: str, **options: Any) -> Any:
    """The run of an example's main, recorded."""
    runs = []
    example(name).main(
        run=lambda *args, **named: runs.append(tw.simulate(*args, **(named | {"record": True} | options)))
    )
    return runs[-1]


def recording_of(run: Run) -> Recording:
    assert run.recording is not None
    return run.recording


def events(recording: Recording, kind: type) -> list[Any]:
    return [event for stream in recording.streams for event in stream.events if isinstance(event, kind)]


STAGES, BYTES, TURNS = 2, 512, 5
ring = example("ring").ring  # warp 0 has rows copied into a ring of two stages; warp 1 adds them up


@pytest.fixture(scope="module")
def run() -> Run:
    a, b = np.arange(TURNS * 128, dtype=np.float32).reshape(TURNS, 128), np.zeros(128, np.float32)
    made = tw.simulate(ring, a, b, record=True)
    assert (b == a.sum(0)).all()
    return made


def test_a_run_that_is_not_recorded_knows_nothing_of_it() -> None:
    exe = tw.compile(ring)
    made = exe.simulate(np.zeros((TURNS, 128), np.float32), np.zeros(128, np.float32))
    assert made.recording is None
    assert "executed(" not in exe.program("all").compiled.source


@pytest.mark.parametrize("name", ["matmul_ring", "stencil", "softmax", "scan"])
def test_the_statements_of_all_warps_count_what_the_run_counts(name: str) -> None:
    made = recorded(name)
    total = sum((Counter(made.recording.counts(one.cta, one.warp)) for one in made.recording.streams), Counter[str]())
    counted = {kind: n for kind, n in made.counts.instructions.items() if not kind.startswith(("load", "store"))}
    assert counted
    assert {kind: total[kind] for kind in counted} == counted


@pytest.mark.parametrize("name", ["matmul_ring", "stencil", "softmax"])
def test_accesses_add_up_to_the_counts_of_their_lines(name: str) -> None:
    made = recorded(name)
    rec, total = made.recording, Counter[tuple[Any, ...]]()
    for stretch in events(rec, Stretch):
        for one in stretch.moved:
            site = rec.sites[one.site]
            key = str(site.at), site.op, site.buffer, site.write
            for name, value in (("accesses", one.lanes), ("nbytes", one.nbytes), ("wavefronts", one.wavefronts),
                                ("ideal_wavefronts", one.ideal)):  # fmt: skip
                total[(*key, name)] += value
    lines = [line for line in made.counts.lines if line.space in ("shared", "global")]
    assert lines
    for line in lines:
        for name in ("accesses", "nbytes", "wavefronts", "ideal_wavefronts"):
            assert total[(str(line.at), line.op, line.buffer, line.write, name)] == getattr(line, name), (line, name)


def test_an_operation_says_what_it_moves_and_who_is_told(run: Run) -> None:
    rec = recording_of(run)
    copies = [one for one in rec.operations if one.unit == "TMA"]
    assert [(one.reads, one.writes) for one in copies] == [({"global": BYTES}, {"shared": BYTES})] * TURNS
    assert [(one.warp, one.lanes, one.buffers) for one in copies] == [(0, 1, ("A", "stages"))] * TURNS
    bars = {(phase.cta, phase.address) for phase in rec.phases if phase.name.startswith("full")}
    assert all(set(one.signals) <= bars for one in copies)
    assert all(one.completed is not None and one.issued < one.completed for one in copies)


def test_a_phase_counts_its_arrivals_and_bytes(run: Run) -> None:
    full = [phase for phase in recording_of(run).phases if phase.name == "full[0]"]
    assert [(one.number, one.arrivals, one.announced, one.nbytes, one.ended) for one in full] == [
        (n, 1, BYTES, BYTES, True) for n in range(3)
    ]
    empty = [phase for phase in recording_of(run).phases if phase.name == "empty[0]"]
    assert [one.arrivals for one in empty] == [32, 32, 32]


def test_a_wait_for_bytes_was_let_go_by_the_copy(run: Run) -> None:
    rec = recording_of(run)
    waits = [one for one in rec.stream(0, 1).events if isinstance(one, Waited)]
    assert [one.phase for one in waits] == [i // STAGES for i in range(TURNS)]
    completed = {one.completed for one in rec.operations}
    for one in waits:
        assert one.cause in completed
        assert one.cause is not None
        assert one.until is not None
        assert one.cause <= one.until


def test_a_warp_that_is_not_recorded_is_refused_with_ranges_of_those_that_are() -> None:
    @T.prim_func
    def ones(Y: T.Buffer((12, 64), "int32")):
        cta = T.cta_id([12])
        t = T.thread_id([64])
        Y[cta, t] = 1

    rec = recording_of(tw.simulate(ones, np.zeros((12, 64), np.int32), record=RecordingOptions(ctas=(0, 4, 5, 6))))

    with pytest.raises(ArgumentError, match=r"CTAs 0, 4\.\.6; warps 0\.\.1"):
        rec.stream(11, 0)


def test_a_wait_for_a_free_stage_was_let_go_by_the_reader(run: Run) -> None:
    rec = recording_of(run)
    waits = [one for one in rec.stream(0, 0).events if isinstance(one, Waited)]
    assert [one.phase for one in waits] == [-1, -1, 0, 0, 1]
    arrived = {one.seq for one in rec.stream(0, 1).events if isinstance(one, Signalled)}
    assert [one.cause in arrived for one in waits] == [False, False, True, True, True]
    assert [one.blocked for one in waits[:2]] == [False, False]


def test_the_events_of_a_warp_are_in_order(run: Run) -> None:
    for stream in recording_of(run).streams:
        numbers = [event.seq for event in stream.events]
        assert numbers == sorted(numbers)


def test_warps_that_meet_are_in_one_meeting(run: Run) -> None:
    met = [event for event in events(recording_of(run), Met)]
    assert [one.meeting for one in met] == [0, 0]
    assert recording_of(run).meetings[0].arrivals == tuple(one.seq for one in met)
    assert {one.cause for one in met} == {max(one.seq for one in met)}


def test_a_wait_for_a_group_names_the_operations_that_it_closed() -> None:
    rec = recorded("matmul_ring").recording
    warp: tuple[Event, ...] = rec.stream(0, 0).events
    closed = [one.operations for one in warp if isinstance(one, Committed)]
    waits = [one for one in warp if isinstance(one, Waited)]
    assert waits[0].operations == closed[0]
    assert {one.operation for one in warp if isinstance(one, Issued)} == {n for group in closed for n in group}


def test_results_are_those_of_a_run_that_is_not_recorded() -> None:
    kernel, rng = example("matmul_ring").matmul, np.random.default_rng(0)
    a, b = rng.standard_normal((128, 96)).astype(np.float16), rng.standard_normal((64, 96)).astype(np.float16)
    plain, of_record = np.zeros((128, 64), np.float16), np.zeros((128, 64), np.float16)
    tw.simulate(kernel, a, b, plain)
    tw.simulate(kernel, a, b, of_record, record=True)
    np.testing.assert_array_max_ulp(
        plain, of_record, maxulp=1
    )  # sums of products in float32, taken in pieces of other sizes


def test_a_recording_is_bounded_and_says_what_it_lacks() -> None:
    rec = recorded("matmul_ring", record=(1,)).recording
    assert rec.ctas == (1,)
    assert rec.left_out.ctas == 1
    rec = recorded("matmul_ring", record=RecordingOptions(events=50)).recording
    assert 50 <= sum(len(stream.events) for stream in rec.streams) < 70
    assert "all events after number" in str(rec.left_out)


def test_a_run_that_a_finding_ends_has_its_recording() -> None:
    @T.prim_func
    def stuck(a: T.handle):
        A = T.match_buffer(a, (32,), "float32")
        lane = T.lane_id([32])
        bar = T.alloc_buffer((1,), "uint64", scope="shared")
        if lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 2)
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        A[lane] = T.float32(1)

    with pytest.raises(SimulationError, match="deadlock") as caught:
        tw.simulate(stuck, np.zeros(32, np.float32), record=True)
    (wait,) = (one for one in events(caught.value.recording, Waited))
    assert wait.until is None


def test_no_ctas_cannot_be_recorded() -> None:
    with pytest.raises(ArgumentError, match="no CTAs to record"):
        RecordingOptions(ctas=0)
    with pytest.raises(ArgumentError, match="events is how many"):
        RecordingOptions(events=0)


def test_recorded_ctas_may_run_alone() -> None:
    kernel = example("matmul_ring").matmul
    a, b = np.ones((256, 32), np.float16), np.ones((64, 32), np.float16)
    made = tw.simulate(kernel, a, b, d := np.zeros((256, 64), np.float16), record=RecordingOptions(ctas=2, alone=True))
    assert made.recording is not None
    assert made.recording.ctas == (0, 1)
    assert (d[:128] == 32).all()
    assert (d[128:] == 0).all()


def test_a_row_has_the_mnemonic_of_its_instruction() -> None:
    rows = recorded("matmul_ring").recording.rows
    named = {next(iter(row.counts), ""): row.mnemonic for row in rows}
    assert named["ptx.mma"].startswith("mma.sync.aligned.m16n8k16")
    assert named["ptx.cp_async"].startswith("cp.async.cg")


def test_steps_show_where_tensor_memory_changes() -> None:
    with recorded_runs(RecordingOptions(ctas=1)) as runs:
        example("blackwell_matmul").main()
    boxes = [step.tmem for steps in runs[-1].stepped for step in steps.steps if step.tmem is not None]
    assert boxes
    lanes, columns = max((words.shape for _, _, words in boxes), key=prod)
    assert (lanes, columns >= 32) == (128, True)


def test_a_run_that_is_recorded_is_compiled_for_that_alone() -> None:
    exe = tw.compile(ring)
    exe.simulate(np.zeros((TURNS, 128), np.float32), np.zeros(128, np.float32), check="none", record=True)

    (code,) = exe.program("none")._by_groups.values()
    assert code.recorder is not None


@pytest.mark.parametrize("waits", [True, False])
def test_operations_that_all_have_waited_for_are_not_looked_at_again(waits: bool) -> None:
    @T.prim_func
    def copied(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
        lane = T.thread_id([32])
        held = T.alloc_shared((8, 32), "float32")
        for i in T.serial(8):
            T.ptx.cp_async(held.ptr_to([i, lane]), A.ptr_to([i, lane]), 4)
            T.ptx.cp_async.commit_group()
            T.ptx.cp_async.wait_group(0 if waits else 7)
        T.ptx.cp_async.wait_group(0)
        B[0, lane] = held[0, lane]

    exe = tw.compile(copied, "sm_80")
    run = exe.simulate(*(np.zeros((8, 32), np.float32) for _ in "AB"), check="none", record=True)
    waited = [len(event.operations) for event in events(recording_of(run), Waited)]

    assert waited == ([1] * 8 + [0] if waits else [0] * 7 + [1, 7])
    (code,) = exe.program("none")._by_groups.values()
    assert code.recorder is not None
    assert not any(code.recorder.of_group.values())
