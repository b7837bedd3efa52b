"""Estimated times: what a schedule obeys, what makes a kernel slower, and how far it was from an H200."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import ArgumentError, SimulationError, TargetError
from tilewright.profiling import GPUS, gpu
from tilewright.profiling.acts import (
    RUNS,
    ActWriter,
    GroupAct,
    IssueAct,
    Loops,
    MeetAct,
    PhaseAct,
    ReadAct,
    Script,
    SignalAct,
    StoreAct,
    UnitWork,
    UseAct,
    WorkAct,
    issued_late,
    reached_by,
    script_of,
)
from tilewright.profiling.estimate import KEPT, WholeGrid, shares, together
from tilewright.profiling.play import (
    CP_ASYNC_LATE,
    L2_OF_CLUSTERS,
    L2_SHARED,
    LOADED,
    RECEIVED,
    Played,
    clock_of,
    figures_of,
    play,
)
from tilewright.records import replace
from tilewright.sim.record.recording import Moved, Row
from tilewright.tuning import autotune

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
MACHINE = figures_of(gpu("H200"), 132)
ADD = WorkAct(100.0, {"fma": 100.0}, 100.0, 0)


def played(*warps: list[Any], resident: int = 1, total: int = 1, **parts: Any) -> Played:
    """A CTA of warps that do these acts. `Any`: acts, and other parts of a script."""
    script = Script([(0, number, acts) for number, acts in enumerate(warps)], **parts)
    return play([script], MACHINE, resident, total)


def recording_of(rows: list[Row], sites: tuple[Any, ...] = (), *, compiled: bool = False) -> Any:
    """A recording that has these rows and sites. `Any`: as much of a `Recording` as acts are made of."""
    return SimpleNamespace(rows=rows, sites=sites, streams=(), cluster=1, compiled=compiled)


# Schedules


@pytest.mark.parametrize(
    "rows",  # kind; turns, where they are constant; is unrolled; of which loop; times; the turns that it is in
    [
        [("loop", 8, True, None, 8, 1), ("let", None, False, 0, 8, 1)],
        [("loop", 64, False, None, 64, 64), ("let", None, False, 0, 64, 64), ("let", None, False, None, 1, 1)],
        [("loop", 64, False, None, 64, 64), ("let", None, False, 0, 61, 64)],  # a branch leaves some turns out
        [("loop", None, False, None, 62, 62), ("loop", 4, False, 0, 248, 62), ("let", None, False, 1, 245, 62)],
        [("loop", 64, False, None, 64, 64), ("loop", 64, False, 0, 4096, 4096), ("let", None, False, 0, 64, 64)],
        [("loop", 64, False, None, 1, 1), ("let", None, False, 0, 1, 1)],  # threads wait in it, once in each turn
        [("let", None, False, None, 7, 7)],  # of a loop that is cut, and has no row
    ],
)
def test_a_row_is_in_so_many_turns_of_the_loops_around_it(
    rows: list[tuple[str, int | None, bool, int | None, int, int]],
) -> None:
    made = [Row("", kind, None, {}, turns=count, is_unrolled=unrolled, inside=loop)
            for kind, count, unrolled, loop, _, _ in rows]  # fmt: skip
    loops = Loops(made, [(number, times) for number, (*_, times, _) in enumerate(rows)])

    assert [loops.turns(number) for number in range(len(rows))] == [turns for *_, turns in rows]


def test_loops_behind_each_other_are_blocks_of_their_own_though_they_have_as_many_turns() -> None:
    rows = [Row("", kind, None, {}, turns=64, inside=loop)
            for kind, loop in (("loop", None), ("let", 0), ("loop", None), ("let", 2))]  # fmt: skip
    writer = ActWriter(recording_of(rows), {}, frozenset())

    blocks = list(writer.blocks([(0, 64), (1, 64), (2, 64), (3, 64)]))

    assert blocks == [([(0, 1), (1, 1)], 64), ([(2, 1), (3, 1)], 64)]


@pytest.mark.parametrize("columns", [8192 - 4, 8192 - 300])
def test_an_estimate_does_not_jump_where_some_warps_have_a_turn_less(columns: int) -> None:
    """A guard around the load of a sum's last turn does not keep the loads of the other turns apart."""

    @T.prim_func
    def sums(x: T.handle, y: T.handle):
        n = T.int32()
        X, Y = T.match_buffer(x, (64, n), "float32"), T.match_buffer(y, (64,), "float32")
        row = T.cta_id([64])
        T.thread_id([256])
        Tx.cta.sum(Y[row : row + 1], X[row, 0:n])

    exe = tw.compile(sums, "sm_90a")

    def seconds(n: int) -> float:
        return exe.estimate(np.zeros((64, n), np.float32), np.zeros(64, np.float32)).seconds

    assert seconds(columns) == pytest.approx(seconds(8192), rel=0.1)


def test_a_chain_of_instructions_waits_for_their_results() -> None:
    @T.prim_func
    def chain(A: T.Buffer((64,), "float32")):
        T.cta_id([1])
        t = T.thread_id([64])
        v = T.local_scalar("float32")
        v = A[t]
        for _ in range(5000):
            v = v * 1.0001 + 0.5
        A[t] = v

    estimate = tw.compile(chain, "sm_90a").estimate(np.zeros(64, np.float32))

    assert estimate.waits_for == "results of instructions before"
    assert "waits for results of instructions before at test_estimate.py" in estimate.why


def test_a_row_says_what_its_statement_defines_and_uses() -> None:
    @T.prim_func
    def stored(A: T.Buffer((32,), "float32")):
        lane = T.thread_id([32])
        sums = T.alloc_local((2,), "float32")
        for i in T.unroll(2, 8, 3):
            sums[i // 3] = A[lane] * T.float32(2)
        x: T.let = sums[0] + sums[1]
        A[lane] = x

    recording = tw.compile(stored, "sm_90a").simulate(np.zeros(32, np.float32), record=True).recording
    assert recording is not None
    rows = {(row.kind, row.defines): row for row in recording.rows}

    assert rows["store", "sums"].uses >= {"A", "i"}
    assert "sums" not in rows["store", "sums"].uses
    assert rows["let", "x"].uses == {"sums"}
    assert [(row.turns, row.is_unrolled) for row in recording.rows if row.kind == "loop"] == [(2, True)]


def test_units_that_are_busy_for_long_get_in_each_others_way() -> None:
    assert together([100.0, 10.0]) == pytest.approx(100, rel=1e-3)
    assert together([100.0, 90.0]) > 109


@pytest.mark.parametrize(("waits", "cycles"), [(False, 63 * 8 + 17), (True, 64 * 4 + 63 * 8 + 17)])
def test_what_needs_a_whole_sum_waits_for_its_end_and_a_unit_takes_its_turns(waits: bool, cycles: float) -> None:
    most, s = frozenset({"most"}), frozenset({"s", "i"})
    rows = [
        Row("", "store", None, {"float32 max": 1}, defines="most", uses=most | s),
        Row("", "store", None, {"ptx.ex2.approx.f32": 1}, defines="e", uses=s | (most if waits else set())),
    ]
    writer = ActWriter(recording_of(rows), {}, frozenset())

    assert writer.longest([(0, 64), (1, 64)]) == cycles


def test_arithmetic_of_a_kernel_counts_though_it_writes_an_instruction_with_a_type() -> None:
    @T.prim_func
    def stored(A: T.Buffer((32,), "float32")):
        lane = T.thread_id([32])
        held = T.alloc_shared((32,), "float32")
        x: T.let = T.exp2(A[lane])
        T.ptx.st(held.ptr_to([lane]), x, space="shared", type="f32")
        A[lane] = held[lane]

    recording = tw.compile(stored, "sm_90a").simulate(np.zeros(32, np.float32), record=True).recording
    assert recording is not None
    script = script_of(recording, {})

    assert not recording.compiled
    assert sum(act.units.get("mufu", 0) for act in script.warps[0][2] if isinstance(act, WorkAct)) > 0


@pytest.mark.parametrize(("is_used", "rounds"), [(True, 2), (False, 1)])
def test_loads_of_compiled_code_wait_for_registers_where_each_is_used_at_once(is_used: bool, rounds: int) -> None:
    rows = [
        row
        for at in range(8)
        for row in (
            Row("", "let", None, {"load global": 1}, defines=f"v{at}", uses=frozenset({"x"})),
            Row("", "let", None, {"ptx.add": 1}, defines=f"y{at}", uses=frozenset({f"{'v' if is_used else 'z'}{at}"})),
        )
    ]
    site = SimpleNamespace(run_bytes=0.0, space="global", buffer="x", op="load", issues=False, write=False)
    stretch: Any = SimpleNamespace(
        executed=tuple((at, 1) for at in range(16)), moved=(Moved(0, 1, 32, 512, 4, 4, 16),) * 8
    )
    acts = list(ActWriter(recording_of(rows, (site,), compiled=True), {}, frozenset()).stretch(stretch))

    assert [type(act) for act in acts].count(UseAct) == rounds


def test_short_pieces_take_hbm_longer() -> None:
    rates = [reached_by(nbytes, RUNS) for nbytes in (32, 64, 128, 256, 512)]

    assert rates == sorted(set(rates))
    assert rates[-1] == reached_by(0, RUNS) == 1


@pytest.mark.parametrize("width", [32, 64, 128])
def test_pieces_of_a_strip_are_as_long_as_its_ctas_touch_and_no_longer_than_its_rows(width: int) -> None:
    @T.prim_func
    def strip(A: T.Buffer((256, 1024), "float32")):
        cta, thread = T.cta_id([256 // 32]), T.thread_id([128])
        for i in range(32 * width // 128):  # an access of a warp has 128 bytes
            at: T.let = i * 128 + thread
            A[cta * 32 + at // width, at % width] = 1.0

    run = tw.compile(strip, "sm_90a").simulate(
        np.zeros((256, 1024), np.float32), record=tw.RecordingOptions(2, alone=True)
    )

    assert run.recording is not None
    assert [site.run_bytes for site in run.recording.sites] == [4 * width]


def test_the_cache_keeps_what_was_written_last_among_what_was_read() -> None:
    site = SimpleNamespace(space="global", buffer="y", op="store", issues=False, write=True)
    moved = Moved(0, 1, 32, 128, 1, 1, 4)
    stream = SimpleNamespace(events=[SimpleNamespace(moved=(moved,))])
    recording: Any = SimpleNamespace(sites=(site,), streams=(stream,), operations=(), ctas=(0,))
    kept = KEPT * gpu("H200").l2_bytes
    grids = (WholeGrid(10**9, 1, {"y": int(kept * part)}) for part in (0.5, 4))
    few, many = (shares(recording, grid, gpu("H200"))[0]["y", True] * 10**9 * 128 for grid in grids)

    assert few == 0
    assert many == pytest.approx(3 * kept)


@pytest.mark.parametrize(("name", "falls"), [("ptx.mma", True), ("ptx.wgmma.mma_async", True), ("float32 *", False)])
def test_the_clock_falls_where_tensor_cores_are_used(name: str, falls: bool) -> None:
    clock = clock_of(gpu("H200"), recording_of([Row("", "call", None, {name: 1})]))

    assert (clock < 0.95 * gpu("H200").clock) == falls


def test_short_ctas_are_bound_by_their_starts_and_many_warps_take_longer_to_start() -> None:
    short: Any = WorkAct(4.0, {}, 4.0, 0)
    found = played([short], resident=32, total=320)

    assert max(found.ends) == pytest.approx(found.busy["starts"], rel=0.1)
    one, many = (max(played(*[[ADD]] * warps, total=2).ends) for warps in (1, 4))
    assert many - one == pytest.approx(3 * MACHINE.warp_start)


def test_warps_of_one_scheduler_take_turns_and_of_four_do_not() -> None:
    idle: list[Any] = []

    assert played([ADD]).ends == [100.0]
    assert played([ADD], [ADD], [ADD], [ADD]).ends == [100.0]
    assert played([ADD], idle, idle, idle, [ADD]).ends == [200.0]  # warps 0 and 4 share a scheduler


def test_a_load_takes_its_latency_and_others_go_on_meanwhile() -> None:
    load = [ReadAct(512.0, 512.0, 4.0, 0), UseAct(0)]
    alone = played(load).ends[0]

    assert MACHINE.hbm_latency < alone < MACHINE.hbm_latency + MACHINE.hbm_spread + 100
    assert played(load, [ADD]).ends[0] == alone


def test_hbm_reaches_more_of_its_rate_the_more_bytes_wait() -> None:
    def reached(nbytes: float) -> float:
        found = played([ReadAct(nbytes, nbytes, 1.0, 0), UseAct(0)], resident=8, total=64)
        return found.busy["HBM"] / max(found.ends)

    few, more, most = map(reached, (2048.0, 4096.0, 32768.0))

    assert few < more < most
    assert 0.95 < most < 1


def test_stores_wait_for_the_port_of_their_multiprocessor() -> None:
    def ended(nbytes: float) -> float:
        return played([StoreAct(nbytes / 8, 0.0, 1.0, 0)] * 8).ends[0]

    assert ended(4096.0) < 100
    assert ended(32768.0) > (32768.0 - 2 * MACHINE.store_bytes) / MACHINE.l2_write_bytes


def test_copies_by_cp_async_are_late_where_there_are_products_to_issue_before_them() -> None:
    copy = Script([(0, 0, [IssueAct(0), GroupAct((0,), False, 0)])], {0: UnitWork("cp.async", 512.0)})
    on = gpu("H200")
    alone, beside = (
        play([copy], figures_of(on, 132, clock=clock), 1, 1).ends[0] for clock in (on.clock, 0.9 * on.clock)
    )

    assert beside == pytest.approx(alone + CP_ASYNC_LATE, rel=0.05)


PRODUCTS: Any = WorkAct(64.0, {"tensor": 64.0}, 24.0, 0)


@pytest.mark.parametrize(
    ("acts", "order"),
    [
        ([IssueAct(0), ADD, IssueAct(0), *[PRODUCTS] * 4, GroupAct((0,), False, 0)], "appccppg"),
        ([IssueAct(0), GroupAct((0,), False, 0), *[PRODUCTS] * 4], "cgpppp"),  # a wait between: they stay apart
        ([IssueAct(1), *[PRODUCTS] * 4], "tpppp"),  # by TMA: another thread's, not moved
        ([IssueAct(0), *[ADD] * 4], "caaaa"),
    ],
)
def test_ptxas_issues_copies_by_cp_async_among_the_products_behind_them(acts: list[Any], order: str) -> None:
    operations = {0: UnitWork("cp.async", 512.0), 1: UnitWork("TMA", 512.0)}
    names: dict[Any, str] = {IssueAct(0): "c", IssueAct(1): "t", GroupAct((0,), False, 0): "g"}

    assert "".join("p" if act is PRODUCTS else "a" if act is ADD else names[act]
                   for act in issued_late(acts, operations)) == order  # fmt: skip


def test_products_of_one_warpgroup_leave_gaps_that_those_of_another_fill() -> None:
    operations = {number: UnitWork("tensor", cycles=64.0) for number in range(16)}
    some, others = ([*map(IssueAct, numbers)] for numbers in (range(8), range(8, 16)))
    warps: list[Any] = [(0, 0, some), (0, 4, others)]
    alone = played([*some, *others], operations=operations)
    script = Script(warps, operations)
    together = play([script], MACHINE, 1, 1)

    assert alone.busy["tensor"] == pytest.approx(16 * (64 + MACHINE.product_gap))  # which needs less power
    assert together.busy["tensor"] < 16 * 64 * MACHINE.tensor_power + 2 * MACHINE.product_gap


@pytest.mark.parametrize(("unit", "rate"), [("TMA", L2_SHARED), ("cp.async", LOADED)])
def test_bytes_that_several_sms_read_come_faster_and_by_cp_async_no_faster_than_an_sm_loads(
    unit: str, rate: float
) -> None:
    found = played([IssueAct(0)], operations={0: UnitWork(unit, 65600.0)})

    assert found.busy["L2"] == pytest.approx(65600 / rate)


def test_loads_that_are_begun_together_wait_once() -> None:
    load, use = ReadAct(512.0, 512.0, 4.0, 0), UseAct(0)
    at_once, apart = played([load, load, use]).ends[0], played([load, use, load, use]).ends[0]

    assert apart > 1.8 * at_once


def test_more_resident_ctas_hide_latency() -> None:
    acts = [ReadAct(512.0, 512.0, 4.0, 0), UseAct(0), ADD]
    one, four = (max(played(acts, resident=many, total=8).ends) for many in (1, 4))

    assert four < one / 2


def test_memory_gives_no_more_than_its_rate() -> None:
    nbytes, many = 65536.0, 16
    found = played([ReadAct(nbytes, nbytes, 4.0, 0), UseAct(0)], resident=8, total=many)

    assert max(found.ends) > many * nbytes / MACHINE.hbm_bytes
    assert found.busy["HBM"] == pytest.approx(many * nbytes / MACHINE.hbm_bytes)


def test_a_barrier_lets_nobody_on_before_the_last_one() -> None:
    meet = MeetAct(0, True, True, 7)
    found = played([meet], [ADD, ADD, meet], meetings={0: 2})

    assert found.ends[0] > 200
    assert found.waits["barrier", 7] > 100


def test_a_phase_waits_for_the_copy_that_ends_it_and_a_group_for_its_product() -> None:
    copy = UnitWork("TMA", nbytes=8192.0, far=8192.0)
    product = UnitWork("tensor", cycles=128.0)
    wait = played([IssueAct(0)], [PhaseAct(0, 3)], operations={0: copy}, needs={0: 1}, ended={0: [0]})
    multiply = played([IssueAct(0), GroupAct((0,), False, 4)], operations={0: product})

    assert wait.ends[0] > MACHINE.hbm_latency + MACHINE.tma_latency
    assert multiply.ends[0] >= 128 + MACHINE.tensor_latency


def test_an_arrival_ends_a_phase() -> None:
    found = played([ADD, SignalAct(5)], [PhaseAct(0, 3)], needs={0: 1}, phases_of={5: [0]})

    assert found.ends[0] > 100
    assert found.waits["m-barrier", 3] > 50


# Kernels


def cluster(first: list[Any], second: list[Any], **parts: Any) -> Played:
    """A cluster of two CTAs of a warp each, where nothing waits in the queues of memory."""
    return play([Script([(0, 0, first), (1, 0, second)], ctas=2, **parts)], replace(MACHINE, l2_queue=0.0), 1, 1)


def test_ctas_of_clusters_get_bytes_of_the_second_level_cache_slower_than_others() -> None:
    copies = {number: UnitWork("TMA", nbytes=24576.0) for number in range(100)}
    acts: list[Any] = [*map(IssueAct, range(100)), GroupAct((99,), False, 0)]
    alone, beside = (play([Script([(0, 0, acts)], copies, ctas=ctas)], MACHINE, 1, 1).ends[0] for ctas in (1, 2))

    assert alone > 100 * 24576 / L2_SHARED
    assert 100 * 24576 / L2_OF_CLUSTERS < beside < 1.2 * 100 * 24576 / L2_OF_CLUSTERS
    assert beside > 1.2 * alone


def test_bytes_for_several_ctas_take_the_port_of_each() -> None:
    load: list[Any] = [ReadAct(4300, 0.0, 0.0, 0), UseAct(0)]
    own, both = (
        cluster([IssueAct(0)], load, operations={0: UnitWork("TMA", 64000, into=into)}) for into in ((), (0, 1))
    )
    assert both.ends[-1] > own.ends[-1], "the other CTA's own load waits"
    assert both.busy["L2"] - own.busy["L2"] == pytest.approx(64000 / RECEIVED / 2), "of one SM in two"


def test_an_arrival_in_another_cta_takes_the_way_there() -> None:
    here, there = ({"needs": {0: 1}, "phases_of": {7: [0]}, "homes": {0: home}} for home in (0, 1))
    ends = [cluster([SignalAct(7)], [PhaseAct(0, 0)], **one).ends[-1] for one in (here, there)]
    assert ends[1] - ends[0] == pytest.approx(MACHINE.remote_latency, abs=MACHINE.signal)


def columns(pitch: int) -> Any:
    """A kernel whose lanes read a column of a tile with rows of that many elements."""

    @T.prim_func
    def kernel(A: T.Buffer((4096, 32, 32), "float32"), B: T.Buffer((4096, 32, 32), "float32")):
        cta, lane = T.cta_id([4096]), T.lane_id([32])
        tile = T.alloc_shared((32, pitch), "float32")
        for i in T.unroll(32):
            tile[i, lane] = A[cta, i, lane]
        T.cuda.warp_sync()
        for i in T.unroll(32):
            B[cta, i, lane] = tile[lane, i]

    return tw.compile(kernel, "sm_90a")


def test_bank_conflicts_take_time_and_the_unit_and_line_say_so() -> None:
    args = [np.zeros((4096, 32, 32), np.float32) for _ in "ab"]
    slow, fast = (columns(pitch).estimate(*args) for pitch in (32, 33))

    assert slow.seconds > 1.5 * fast.seconds
    assert slow.unit == "shared memory"
    assert slow.at is not None
    assert "tile[lane, i]" in Path(__file__).read_text().splitlines()[slow.at.line - 1]
    assert "bound by shared memory" in slow.why
    assert slow.waits_for == ""
    assert replace(slow, busy={}).why.startswith(f"waits for {replace(slow, busy={}).waits_for} at ")


@pytest.mark.parametrize(("kind", "runs"), [("limit", 1), ("deadlock", 2)])
def test_a_run_at_its_limit_is_not_tried_with_the_other_ctas(
    kind: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def simulate(*_: Any, **options: Any) -> None:
        asked.append(options["record"].alone)
        raise SimulationError("no more", kind=kind)

    monkeypatch.setattr(tw.Executable, "simulate", simulate)
    with pytest.raises(SimulationError, match="no more"):
        columns(32).estimate(*(np.zeros((4096, 32, 32), np.float32) for _ in "ab"))

    assert asked == [True, False][:runs]


def test_an_estimate_is_not_below_the_bound() -> None:
    args = [np.zeros((4096, 32, 32), np.float32) for _ in "ab"]
    for pitch in (32, 33):
        exe = columns(pitch)
        assert exe.estimate(*args).seconds >= exe.profile(*args).bound


def test_only_the_first_ctas_run() -> None:
    a, b = (np.ones((4096, 32, 32), np.float32) for _ in "ab")
    columns(33).estimate(a, b)

    assert (b == 1).all()  # the estimate has worked on copies
    run = columns(33).simulate(a, b, check="none", record=tw.RecordingOptions(3, alone=True))
    assert (b[:3] == a[:3]).all()
    assert run.recording.ctas == (0, 1, 2)


def test_a_slower_memory_takes_longer_and_says_that_nothing_is_measured() -> None:
    args = [np.zeros((4096, 32, 32), np.float32) for _ in "ab"]
    exe = tw.compile(columns(33).kernel, "sm_75")
    fast, slow = (exe.estimate(*args, gpu=name) for name in ("H200", "T4"))

    assert slow.seconds > 5 * fast.seconds
    assert "measured" in str(slow)
    assert "measured" not in str(fast)


def test_every_gpu_has_its_source() -> None:
    assert {"T4", "A10", "A100", "L4", "L40S", "RTX 3090", "RTX 4090", "RTX 5090", "H100", "H200", "B200"} <= set(GPUS)
    assert all(each.source and each.arch.number for each in GPUS.values())


# What an H200 showed


@pytest.mark.parametrize(
    ("pair", "label"),
    [
        ("softmax float32 4096", "512x2x4 c1 r0"),
        ("transpose float32 8192", "32 t256 v1 pitch 32"),
        ("transpose float32 8192", "64 t256 v4 pitch 65"),
        ("histogram", "part 4096 t512 v4"),
    ],
)
def test_the_estimate_is_near_the_time_on_an_h200(pair: str, label: str) -> None:
    from benchmarks.gpu.estimate import estimated, recorded
    from benchmarks.gpu.pairs import pairs

    one = next(each for each in pairs() if each.name == pair)
    measured = json.loads((RESULTS / "pair_times.json").read_text())["pairs"][pair]["seconds"][label]
    found = estimated(recorded(one, label, gpu("H200")), gpu("H200"))

    assert 1 / 1.4 < found.seconds / measured < 1.4


def test_many_configurations_are_ranked_by_processes_as_one_after_the_other() -> None:
    @T.jit
    def scaled(a: T.handle, b: T.handle, *, THREADS: T.constexpr):
        n = T.int32()
        A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, (n,), "float32")
        T.assume(n % THREADS == 0)
        i: T.let = T.cta_id([n // THREADS]) * THREADS + T.thread_id([THREADS])
        B[i] = A[i] * 2.0

    args = [np.zeros(1 << 20, np.float32) for _ in "ab"]
    several = autotune(scaled, configs=[{"THREADS": 32 << k} for k in range(6)]).estimates(args)
    alone = [autotune(scaled, configs=[{"THREADS": 32 << k}]).estimates(args)[0] for k in range(6)]

    assert [one.estimated for one in several] == [one.estimated for one in alone]
    assert several[0].estimated > several[3].estimated  # CTAs of one warp: few of them fit on an SM


@pytest.mark.parametrize("number", [20, 110, 188])
def test_no_product_is_estimated_below_the_bound_that_rules_it_out(number: int) -> None:
    from tilewright.kernels.product_tiles import candidates
    from tools.tune import least_seconds, seconds_of

    shape, tiles = (1024, 2048, 1024), candidates()[number]
    least = [least_seconds(shape, tiles, turned=turned) for turned in (False, True)]

    assert all(0 < bound <= seconds for bound, seconds in zip(least, seconds_of(shape, tiles), strict=True))


def test_where_the_estimate_has_another_choice_the_comment_of_the_table_says_so_and_replaces_the_one_before() -> None:
    from tools.tune import comment, compared, with_comment

    labels = ["128x256 c1 p1 r1", "128x128 c2 p1 r1"]
    slower, same = (compared("products", "matmul 2048^3", labels, seconds) for seconds in ((2e-5, 1e-5), (1e-5, 1e-5)))
    block = comment("products", [slower, same])

    assert block.splitlines()[0] == "# `make tune`: of 2 cases the estimate has another choice 1 % faster in 1:"
    assert "128x128 c2 p1 r1 10.0 us (measured " in block
    assert (
        with_comment(f"a = 1\n{comment('products', [slower])}# What follows\n", block)
        == f"a = 1\n{block}# What follows\n"
    )


@pytest.mark.parametrize("table", ["rows", "products"])
def test_the_file_of_each_table_has_one_comment_that_make_tune_writes(table: str) -> None:
    from tools.tune import FILES, with_comment

    text = FILES[table].read_text(encoding="utf-8")

    assert with_comment(text, "") != text
    assert "make tune" not in with_comment(text, "")


def test_an_estimate_of_too_few_arguments_says_so() -> None:
    with pytest.raises(ArgumentError, match="kernel takes 2 arguments"):
        columns(32).estimate(np.zeros((4096, 32, 32), np.float32))


@pytest.mark.parametrize(
    ("target", "name"), [("sm_90a", "T4"), ("sm_90a", "B200"), ("sm_100f", "H200"), ("sm_86", "A100")]
)
@pytest.mark.parametrize("verb", ["estimate", "profile", "advise"])
def test_a_gpu_that_does_not_run_the_code_is_refused_by_name_before_it_runs(
    target: str, name: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exe = tw.compile(columns(33).kernel, target)
    monkeypatch.delattr(tw.Executable, "run_program")

    with pytest.raises(TargetError, match=f"compiled for {target}, which the {name} does not run"):
        getattr(exe, verb)(*[np.zeros((4096, 32, 32), np.float32) for _ in "ab"], gpu=name)


@pytest.mark.parametrize(
    ("target", "name"), [("sm_80", "RTX 3090"), ("sm_90", "B200"), ("sm_90a", "H100"), ("sm_75", "T4")]
)
def test_a_gpu_of_a_later_architecture_runs_plain_code(target: str, name: str) -> None:
    exe = tw.compile(columns(33).kernel, target)

    assert exe.estimate(*[np.zeros((4096, 32, 32), np.float32) for _ in "ab"], gpu=name).seconds > 0


def test_what_is_read_of_an_array_that_stays_in_the_cache_once_written_comes_from_memory() -> None:
    @T.prim_func
    def doubled(A: T.Buffer((1 << 22,), "float32")):
        i = T.cta_id([4096]) * 256 + T.thread_id([256])
        for k in T.unroll(4):
            A[i * 4 + k] = A[i * 4 + k] * T.float32(2)

    exe, array = tw.compile(doubled, "sm_89"), np.zeros(1 << 22, np.float32)

    for name in ("L40S", "RTX 4090"):
        assert exe.estimate(array, gpu=name).seconds >= array.nbytes / gpu(name).hbm


def test_a_launch_without_ctas_has_no_estimate() -> None:
    @T.prim_func
    def ones(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "float32")
        i = T.cta_id([(n + 255) // 256]) * 256 + T.thread_id([256])
        if i < n:
            A[i] = 1

    with pytest.raises(ArgumentError, match="without CTAs"):
        tw.compile(ones, "sm_90a").estimate(np.zeros(0, np.float32), 0, gpu="H200")
