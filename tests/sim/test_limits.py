"""A run at its limit is stopped, with the line that was running and how far it came; runs show their progress."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.recording import results_of
from tests.sim.build import Lowered, at, cta, get, tid
from tilewright import T, Tx, host
from tilewright.errors import ArgumentError, SimulationError
from tilewright.host import Limits
from tilewright.ir import as_expr
from tilewright.isa import call
from tilewright.sim import Program, Run
from tilewright.sim.machine import device
from tilewright.sim.run import execution
from tilewright.sim.run.execution import Watch

# An alarm that rings while a callback of the garbage collector runs (hypothesis has one) is dropped there, with this
# warning, before it rings again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def ran(k: Lowered, limits: Limits, check: str = "none", **arrays: Any) -> Run:
    return k.limited(limits, check, **arrays)


def counting(turns: int, *, grid: int = 1) -> tuple[Lowered, dict[str, Any]]:
    """A loop at line 2 whose turns store."""
    k = Lowered(grid=grid)
    a = k.array("a", "int32", 32)
    x = k.bind("x", 0)
    with k.loop("i", 0, turns) as i:
        k.store(a, tid, i)
    k.assign(x, x + 1)
    return k, {"a": np.zeros(32, np.int32)}


def test_a_loop_of_two_billion_turns_stops_at_its_step_limit() -> None:
    k, arrays = counting(2**31 - 1)

    with pytest.raises(SimulationError, match="kernel is stopped at its limit of 5,000 steps") as error:
        ran(k, Limits(steps=5000), **arrays)

    assert error.value.at is not None
    assert error.value.at.line == 2
    assert "turn 4,999 of 2,147,483,647 of the loop; 0 of 1 CTAs done; 5,000 steps" in str(error.value)
    assert arrays["a"][0] == 4998


def storm() -> Any:
    @T.prim_func
    def storm(count: T.Buffer((1,), "uint32")):
        T.cta_id([4096])
        T.thread_id([1024])
        T.ptx.atom.add(count.ptr_to([0]), T.uint32(1), sem="acq_rel", scope="gpu")

    return tw.compile(storm, "sm_90a")


def test_an_alarm_that_a_callback_of_the_garbage_collector_drops_rings_again() -> None:
    made, heard = storm(), list[str]()
    made.program("all")

    def busy(phase: str, info: object) -> None:
        try:
            while not heard:
                time.monotonic()
        except execution.OutOfTime:
            heard.append(phase)
            raise

    began = time.monotonic()
    gc.callbacks.append(busy)
    try:
        with pytest.raises(SimulationError, match=r"storm is stopped at its limit of 0\.3 s"):
            made.simulate(np.zeros(1, np.uint32), check="all", limit_s=0.3)
    finally:
        gc.callbacks.remove(busy)
    assert heard
    assert time.monotonic() - began < 5, "and at once, with room for a busy machine"


@pytest.mark.parametrize("check", ["default", "all"])
def test_a_time_limit_stops_one_statement_that_takes_long(check: str) -> None:
    made = storm()
    made.program(check)
    began = time.monotonic()
    with pytest.raises(SimulationError, match=r"storm is stopped at its limit of 0\.5 s") as error:
        made.simulate(np.zeros(1, np.uint32), check=check, limit_s=0.5)
    assert error.value.at is not None
    assert time.monotonic() - began < 2, "with room for a busy machine"


def test_a_default_limit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "MOST_SECONDS", 0.1)
    k, arrays = counting(2**31 - 1)

    with pytest.raises(SimulationError, match=r"limit_s=0.1, which is the default\n  try:     a larger limit_s"):
        ran(k, Limits(seconds=0.1), **arrays)


def long_tile_call() -> Any:
    @T.prim_func
    def doubled(A: T.Buffer((1 << 24,), "float32"), B: T.Buffer((1 << 24,), "float32")):
        T.cta_id([1])
        T.thread_id([32])
        Tx.cta.add(B[:], A[:], A[:])

    return doubled, np.ones(1 << 24, np.float32), np.zeros(1 << 24, np.float32)


def long_product() -> Any:
    @T.prim_func
    def product(c: T.Buffer((4,), "float32")):
        T.cta_id([1 << 17])
        T.thread_id([1024])
        a, b, d = T.alloc_local((8,), "float16"), T.alloc_local((4,), "float16"), T.alloc_local((4,), "float32")
        for i in range(8):
            a[i] = T.float16(1)
        for i in range(4):
            b[i], d[i] = T.float16(1), T.float32(0)
        T.ptx.mma("m16n8k16", "f32.f16.f16.f32", d[0:4], a[0:8], b[0:4], d[0:4])  # 4,194,304 of them
        c[0] = d[0]

    return product, np.zeros(4, np.float32)


@pytest.mark.parametrize("make", [long_tile_call, long_product], ids=["tile call", "product"])
@pytest.mark.parametrize("check", ["none", "all"])
def test_a_time_limit_is_kept_inside_of(make: Any, check: str) -> None:
    kernel, *arrays = make()
    made = tw.compile(kernel, "sm_90a")
    made.program(check)
    began = time.monotonic()
    with pytest.raises(SimulationError, match=r"is stopped at its limit of 0\.5 s"):
        made.simulate(*arrays, check=check, limit_s=0.5)
    assert time.monotonic() - began < 1.5, "with room for a busy machine"


def test_runs_with_a_limit_of_time_start_one_thread_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    started = results_of(monkeypatch, threading.Thread, "start")
    k, arrays = counting(10)

    for _ in range(5):
        ran(k, Limits(seconds=5), **arrays)
    with pytest.raises(SimulationError, match=r"limit of 0\.1 s"):  # sooner than those that were before
        ran(counting(2**31 - 1)[0], Limits(seconds=0.1), **arrays)

    assert len(started) <= 1


def test_an_alarm_that_comes_late_does_not_ring() -> None:
    k, arrays = counting(10)
    for _ in range(20):
        ran(k, Limits(seconds=0.2), **arrays)
    time.sleep(0.3)


def test_a_time_limit_stops_a_loop() -> None:
    k, arrays = counting(2**31 - 1)

    with pytest.raises(SimulationError, match=r"stopped at its limit of 0.1 s\n  given:   turn .* 0 of 1 CTAs done"):
        ran(k, Limits(seconds=0.1), **arrays)


@pytest.mark.parametrize("varies", ["lane", "uniform"])
def test_a_while_that_never_ends_stops(varies: str) -> None:
    k = Lowered()
    a = k.array("a", "int32", 32)
    x = k.bind("x", tid if varies == "lane" else 0)
    with k.repeat(x >= 0):
        k.assign(x, (x + 1) & 0xFF)
    k.store(a, tid, x)

    with pytest.raises(SimulationError, match="limit of 3,000 steps"):
        ran(k, Limits(steps=3000), a=np.zeros(32, np.int32))


def test_a_loop_that_nothing_ends_is_a_livelock_at_once() -> None:
    k = Lowered()
    x = k.bind("x", tid)
    with k.repeat(as_expr(True)):
        k.assign(x, x + 1)

    with pytest.raises(SimulationError, match="livelock: a loop goes on for ever"):
        ran(k, Limits(steps=None))


def test_nested_loops_of_few_turns_are_watched_where_they_are_many_together() -> None:
    k = Lowered()
    a = k.array("a", "int32", 32)
    with k.loop("i", 0, 300), k.loop("j", 0, 300), k.loop("k", 0, 2):
        k.store(a, tid, 1)

    with pytest.raises(SimulationError, match="limit of 100 steps"):
        ran(k, Limits(steps=100), a=np.zeros(32, np.int32))


def test_a_loop_with_a_barrier_stops() -> None:
    k = Lowered()
    with k.loop("i", 0, 2**31 - 1):
        k.do("cuda.cta_sync")

    with pytest.raises(SimulationError, match="limit of 500 steps"):
        ran(k, Limits(steps=500))


def test_a_grid_of_a_billion_ctas_stops_and_says_how_many_are_done() -> None:
    k = Lowered(grid=10**9)
    k.bind("x", tid + cta)

    with pytest.raises(SimulationError, match=r"limit of 9 steps\n  given:   [1-9][\d,]* of 1,000,000,000 CTAs done"):
        ran(k, Limits(steps=9))


def test_ctas_that_take_turns_stop_at_a_time_limit() -> None:
    k = Lowered(grid=5000)
    flag = k.array("flag", "int32", 1)
    with k.when(tid == 0):
        with k.repeat(call("cuda.atomic_add", at(flag, 0), 0) != cta):
            k.do("cuda.nanosleep", 10)
        k.do("cuda.atomic_add", at(flag, 0), 1)

    with pytest.raises(SimulationError, match=r"limit of 0.3 s"):
        ran(k, Limits(seconds=0.3), "all", flag=np.zeros(1, np.int32))


def test_steps_that_a_broken_loop_did_not_take_do_not_count() -> None:
    k = Lowered()
    a = k.array("a", "int32", 32)
    with k.loop("again", 0, 2000), k.loop("i", 0, 2**20) as i:
        k.store(a, tid, i)
        with k.when(i == 1):
            k.leave(loop=True)

    ran(k, Limits(steps=2000 * 3 + 1), a=np.zeros(32, np.int32))


def test_a_loop_that_ends_leaves_the_one_around_it_under_way() -> None:
    run: Any = SimpleNamespace(steps=0)  # all that is asked of the run
    watch = Watch(run, Limits())
    outer, inner = watch.endless(), watch.endless()
    next(iter(outer))
    around = watch.loops[0]
    next(iter(inner))

    del inner

    assert [loop is around for loop in watch.loops] == [True]


def test_none_is_no_limit() -> None:
    k, arrays = counting(10_000)

    ran(k, Limits(steps=None), **arrays)

    assert arrays["a"][0] == 9999


@pytest.mark.parametrize("bad", [0, -1, "4", True, float("nan"), 1.5])
def test_what_is_no_limit_is_refused(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="limit_steps is no limit"):
        Limits(steps=bad)


@T.prim_func
def storing(A: T.Buffer((32,), "int32")):
    T.device_entry()
    T.cta_id([1])
    lane = T.lane_id([32])
    for i in range(100_000_000):
        A[lane] = i


@pytest.mark.parametrize("run", [tw.simulate, tw.compile(storing).simulate])
def test_limits_are_settings_of_every_simulate(run: Any) -> None:
    args = (storing,) if run is tw.simulate else ()

    with pytest.raises(SimulationError, match="storing is stopped at its limit of 70 steps"):
        run(*args, np.zeros(32, np.int32), check="none", limit_steps=70)
    with pytest.raises(ArgumentError, match="limit_s is no limit"):
        run(*args, np.zeros(32, np.int32), limit_s=0)


# Memory


def test_registers_that_the_machine_cannot_hold_are_refused_at_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    k = Lowered()
    a, x = k.array("a", "int32", 32), k.local("x", "float32", 1 << 26)
    k.store(x, 0, 1.0)
    k.store(a, tid, get(x, 0))
    monkeypatch.setattr(host, "MEMINFO", Path(os.devnull))
    monkeypatch.setattr("tilewright.sim.run.execution.available_bytes", lambda: 1 << 30)

    with pytest.raises(SimulationError, match="kernel needs more memory than there is") as error:
        ran(k, Limits(), a=np.zeros(32, np.int32))

    assert error.value.at is not None
    assert error.value.at.line == 1
    assert "given:   8.0 GiB for a CTA, most of it for x" in str(error.value)


def test_where_memory_is_short_fewer_ctas_run_together() -> None:
    k = Lowered(grid=8)
    a, x = k.array("a", "int32", 8), k.local("x", "int32", 1 << 10)
    k.store(x, 0, cta)
    k.store(a, cta, get(x, 0))
    told: list[tuple[int, int]] = []
    array = np.zeros(8, np.int32)

    Program(k.kernel(), frozenset()).run(
        {"a_ptr": array}, {}, limits=Limits(nbytes=300_000), progress=lambda done, total: told.append((done, total))
    )

    assert array.tolist() == list(range(8))
    assert [done for done, _ in told] == [2, 4, 6, 8]


def test_a_limit_of_bytes_is_named() -> None:
    k = Lowered()
    k.shared("s", "int32", 4096)

    with pytest.raises(SimulationError, match=r"given:   16.0 KiB for a CTA, most of it for s\n  allowed: 100 bytes"):
        ran(k, Limits(nbytes=100))


# Text


def test_what_is_printed_beyond_what_a_gpu_keeps_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "MOST_BYTES", 100)
    k = Lowered(grid=1000)
    k.do("printf", "%d\n", tid)

    run = ran(k, Limits())

    assert run.output.startswith("0\n1\n2\n")
    assert len(run.output) <= 103
    assert run.warnings == ["kernel.py:1: printf: 32,000 lines, of which the first 39 are kept, 100 bytes as on a GPU"]


# Progress and interrupts


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Python's own answer to an interrupt: what a shell runs in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_says_where_the_kernel_was() -> None:
    k, arrays = counting(2**31 - 1, grid=3)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()

    with pytest.raises(KeyboardInterrupt, match=r"kernel was stopped at kernel.py:\d: 0 of 3 CTAs done; [\d,]+ steps"):
        ran(k, Limits(seconds=60), **arrays)  # which ends the test, should the interrupt get lost


class Terminal:
    """Standard error as a terminal has it."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def shown(monkeypatch: pytest.MonkeyPatch, patience: float, seconds: float = 0.4) -> str:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(execution, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    k, arrays = counting(2**31 - 1, grid=3)
    with pytest.raises(SimulationError, match="limit"):
        ran(k, Limits(seconds=seconds), **arrays)
    return terminal.text


def test_a_long_run_shows_its_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 0.0, seconds=0.6)

    assert "simulating kernel" in text
    assert "0 of 3 CTAs, at kernel.py:" in text
    assert text.endswith("\x1b[2K")  # and is taken away


def test_a_short_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not shown(monkeypatch, 60.0)


def test_a_limit_is_looked_at_after_the_first_turn_of_a_loop() -> None:
    """A turn may hold loops of thousands of turns, which are part of it."""

    @T.prim_func
    def k(A: T.Buffer((32,), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        for _i in range(100_000):
            for j in range(3000):
                A[lane] = A[lane] + 1.0 * j

    with pytest.raises(SimulationError, match="stopped at its limit") as raised:
        tw.simulate(k, np.zeros(32, np.float32), limit_s=0.05, check="none")
    turns = str(raised.value.given).removeprefix("turn ").partition(" of 100,000 of the loop")[0]
    assert 1 <= int(turns) < 16
