"""The work of the race check grows with what a kernel does, not with what came before: function calls are counted."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.recording import results_of
from tests.sim.build import Lowered, at, cta, get, lane, tid
from tilewright.isa import call
from tilewright.sim import Program, parse_checks
from tilewright.sim.order.knowledge.known import joined
from tilewright.sim.run import program as running
from tilewright.sim.run.execution import Execution

Made = tuple[Lowered, dict[str, Any]]
ONE = np.zeros(1, np.int32)


def atomics(n: int, *, sem: str, threads: int = 32, alone: bool = False) -> Made:
    """n atomics of a thread, or of each, on one place that was written plainly before."""
    k = Lowered(threads=threads)
    a = k.array("a", "int32", 1)
    with k.when(tid == 0):
        k.store(a, 0, 5)
    k.do("cuda.cta_sync")
    with k.when(tid == 0 if alone else tid >= 0), k.loop("i", 0, n):
        k.bind("old", call("ptx.atom.add", at(a), 1, sem=sem, scope="gpu"))
    return k, {"a": ONE}


def table(n: int, *, sem: str) -> Made:
    """n atomics of each lane, all lanes at places that others come to later."""
    k = Lowered(threads=32)
    a = k.array("a", "int32", 32)
    with k.loop("i", 0, n) as i:
        k.bind("old", call("ptx.atom.add", at(a, (lane + i) % 32), 1, sem=sem, scope="gpu"))
    return k, {"a": np.zeros(32, np.int32)}


def lock(n: int) -> Made:
    """n CTAs that change one place by turns, behind a lock and fences."""
    k = Lowered(grid=n)
    a, x = k.array("a", "int32", 1), k.array("x", "int32", 1)
    with k.when(tid == 0):
        with k.repeat(call("cuda.atomic_cas", at(a), 0, 1) != 0):
            pass
        k.do("cuda.thread_fence")
        k.store(x, 0, get(x, 0) + 1)
        k.do("cuda.thread_fence")
        k.do("cuda.atomic_exch", at(a), 0)
    return k, {"a": ONE, "x": ONE}


def ticket(n: int) -> Made:
    """n CTAs that change one place by turns, in the order of their numbers at a counter."""
    k = Lowered(grid=n)
    a, b, x = k.array("a", "int32", 1), k.array("b", "int32", 1), k.array("x", "int32", 1)
    with k.when(tid == 0):
        own = k.bind("own", call("cuda.atomic_add", at(a), 1))
        with k.repeat(call("ptx.ld", at(b), sem="acquire", scope="gpu") != own):
            pass
        k.store(x, 0, get(x, 0) + 1)
        k.do("ptx.red.add", at(b), 1, sem="release", scope="gpu")
    return k, {"a": ONE, "b": ONE, "x": ONE}


def one_flag(n: int) -> Made:
    """n CTAs of which all lanes poll what the last one writes."""
    k = Lowered(grid=n)
    f, x, y = k.array("f", "int32", 1), k.array("x", "int32", 1), k.array("y", "int32", 32 * n)
    with k.when(cta == n - 1), k.when(tid == 0):
        k.store(x, 0, 5)
        k.do("ptx.st", at(f), 1, sem="release", scope="gpu")
    with k.when(cta < n - 1):
        with k.repeat(call("ptx.ld", at(f), sem="acquire", scope="gpu") == 0):
            pass
        k.store(y, cta * 32 + tid, get(x, 0))
    return k, {"f": ONE, "x": ONE, "y": np.zeros(32 * n, np.int32)}


def grid_barrier(n: int) -> Made:
    """n CTAs that wait for each other at a counter, between fences."""
    k = Lowered(grid=n)
    a = k.array("a", "int32", 1)
    with k.when(tid == 0):
        k.do("cuda.thread_fence")
        k.do("cuda.atomic_add", at(a), 1)
        with k.repeat(call("cuda.atomic_add", at(a), 0) < n):
            pass
        k.do("cuda.thread_fence")
    return k, {"a": ONE}


GROWING: dict[str, tuple[Callable[[int], Made], int]] = {
    **{f"{sem}, a warp": (partial(atomics, sem=sem), 10) for sem in ("relaxed", "release", "acq_rel")},
    "acq_rel, a lane": (lambda n: atomics(n, sem="acq_rel", alone=True), 10),
    "acq_rel, a CTA": (lambda n: atomics(n, sem="acq_rel", threads=128), 4),
    "acq_rel, a table": (lambda n: table(n, sem="acq_rel"), 4),
    "a lock": (lock, 4),
    "tickets": (ticket, 4),
    "one flag": (one_flag, 8),
    "a grid's barrier": (grid_barrier, 8),
}


def calls_of(made: Made) -> int:
    """How many functions one run under every check calls."""
    k, given = made
    program, profile = Program(k.kernel(), parse_checks("all")), Profile()
    arrays = {f"{name}_ptr": value.copy() for name, value in given.items()}
    program.run({name: value.copy() for name, value in arrays.items()}, {})  # what is remembered from run to run
    profile.runcall(program.run, arrays, {})
    return sum(each.callcount for each in profile.getstats())


@pytest.mark.parametrize("name", GROWING)
def test_twice_the_work_takes_at_most_twice_the_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, n = GROWING[name]
    monkeypatch.setattr(running, "_other_orders", lambda *_: ())

    few, many = calls_of(make(n)), calls_of(make(4 * n))

    assert many < 5 * few


def runs_of(made: Made, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many runs a kernel gets."""
    k, arrays = made
    runs = results_of(monkeypatch, Execution, "run")
    Program(k.kernel(), parse_checks("all")).run({f"{name}_ptr": value.copy() for name, value in arrays.items()}, {})
    return len(runs)


def test_a_short_run_is_made_again_for_late_threads_a_long_one_only_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_of(lock(3), monkeypatch) > 4
    assert runs_of(lock(48), monkeypatch) == 2


def test_what_ctas_know_alike_is_kept_once() -> None:
    """Whoever learns of times that are later throughout keeps the array that others keep, and makes none of its own."""
    early, late = np.array([1, 2], np.int32), np.array([3, 2], np.int32)
    (crossed,) = joined(({7: np.array([4, 1], np.int32)},), ({7: late},))

    assert joined(({7: early},), ({7: late},))[0][7] is late
    assert joined(({7: late},), ({7: early},))[0][7] is late
    assert crossed[7].tolist() == [4, 2]
