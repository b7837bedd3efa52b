"""Litmus tests of the memory model: two or three threads, a few accesses each, and whether one is ordered.

A program is a line for each thread: ``0.0: Wx; W.release.gpu f=1`` is the first thread of warp 0 of CTA 0. ``W`` and
``R`` are weak; with an order and a scope they are strong, and a strong ``R f=1`` polls until it reads 1. ``F.gpu`` is
a fence; ``bar 1 64`` lets whole warps meet. x, y, f and g are global, s is shared, each CTA's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tilewright.errors import SimulationError
from tilewright.ir import Buffer, Expr
from tilewright.isa import call

MEMORIES = ("x", "y", "f", "g")
Buffers = dict[str, Buffer]


def _write(k: Lowered, where: Buffer, order: list[str], value: str) -> None:
    if order:
        scope = order[1] if len(order) > 1 else None
        k.do("ptx.st", at(where), int(value or 1), sem=order[0], scope=scope)
    else:
        k.store(where, 0, int(value or 1))


def _read(k: Lowered, where: Buffer, order: list[str], value: str) -> None:
    if order:
        scope = order[1] if len(order) > 1 else None
        seen = call("ptx.ld", at(where), sem=order[0], scope=scope)
        if value:
            with k.repeat(seen != int(value)):
                pass
        else:
            k.bind(f"v{k.line}", seen)
    else:
        k.bind(f"v{k.line}", get(where, 0))


def _atom(k: Lowered, where: Buffer, order: list[str], value: str) -> None:
    k.bind(f"v{k.line}", call("ptx.atom.add", at(where), 1, sem=order[0], scope=order[1]))


def _red(k: Lowered, where: Buffer, order: list[str], value: str) -> None:
    k.do("ptx.red.add", at(where), 1, sem=order[0], scope=order[1])


ACCESSES: dict[str, Callable[..., None]] = {"W": _write, "R": _read, "atom": _atom, "red": _red}


def _step(k: Lowered, buffers: Buffers, step: str) -> None:
    """A step of one thread."""
    if step.startswith("F."):
        *sem, scope = step.split(".")[1:]
        k.do("ptx.fence", sem[0] if sem else "acq_rel", scope)
        return
    parts = re.fullmatch(r"(W|R|atom|red)([.a-z_]*?) ?([xyfgs])(?:=(\d+))?", step)
    assert parts, step
    name, order, where, value = parts.groups()
    ACCESSES[name](k, buffers[where], [word for word in order.split(".") if word], value)


def outcome(program: str, *, cluster: int = 1) -> str:
    """ "ordered", or the kind of the report."""
    k = Lowered(threads=96, grid=3 if cluster == 1 else cluster, cluster=cluster)
    buffers = {name: k.array(name, "int32", 1) for name in MEMORIES} | {"s": k.shared("s", "int32", 1)}
    for line in program.strip().splitlines():
        agent, steps = line.split(":")
        own_cta, own_warp = map(int, agent.split("."))
        for step in map(str.strip, steps.split(";")):
            with k.when(cta == own_cta), k.when(warp == own_warp):
                if not _meet(k, *step.split()):
                    with k.when(tid == 32 * own_warp):
                        _step(k, buffers, step)
    try:
        run = k.run("races", **{name: np.zeros(1, np.int32) for name in MEMORIES})
    except SimulationError as error:
        return error.what.split(":")[0]
    return "ordered" if not run.warnings else "warned"


def _meet(k: Lowered, name: str, *numbers: str) -> bool:
    """A step of a whole warp, if it is one."""
    if name in ("bar", "arrive"):
        k.do("ptx.bar.sync" if name == "bar" else "ptx.bar.arrive", *map(int, numbers))
    elif name == "cluster.wait":
        k.do("ptx.barrier.cluster.wait")
    elif name.startswith("cluster.arrive"):
        k.do("ptx.barrier.cluster.arrive", sem="relaxed" if name.endswith("relaxed") else "release")
    else:
        return False
    return True


ORDERED = {
    "release and acquire": "0.0: Wx; W.release.gpu f=1\n1.0: R.acquire.gpu f=1; Rx",
    "fences": "0.0: Wx; F.gpu; W.relaxed.gpu f=1\n1.0: R.relaxed.gpu f=1; F.gpu; Rx",
    "fences of either kind": "0.0: Wx; F.sc.gpu; W.relaxed.gpu f=1\n1.0: R.acquire.gpu f=1; Rx",
    "volatile between full fences": "0.0: Wx; F.sc.gpu; W.volatile f=1\n1.0: R.volatile f=1; F.sc.gpu; Rx",
    "a release in one CTA": "0.0: Wx; W.release.cta f=1\n0.1: R.acquire.cta f=1; Rx",
    "a release of shared memory": "0.0: Ws; W.release.cta f=1\n0.1: R.acquire.cta f=1; Rs",
    "a later relaxed write": "0.0: Wx; W.release.gpu f=1; W.relaxed.gpu f=2\n1.0: R.acquire.gpu f=2; Rx",
    "through an atomic": "0.0: Wx; W.release.gpu f=1\n1.0: R.relaxed.gpu f=1; atom.relaxed.gpu f\n"
    "2.0: R.acquire.gpu f=2; Rx",
    "from thread to thread": "0.0: Wx; W.release.cta f=1\n0.1: R.acquire.cta f=1; W.release.gpu g=1\n"
    "1.0: R.acquire.gpu g=1; Rx",
    "relaxed data": "0.0: W.relaxed.gpu x; W.relaxed.gpu f=1\n1.0: R.relaxed.gpu f=1; R.relaxed.gpu x",
    "a weak write after what was read": "0.0: W.relaxed.gpu f=1\n1.0: R.relaxed.gpu f=1; Wf",
    "a barrier, then a fence": "0.0: Wx; bar 1 64\n0.1: bar 1 64; F.gpu; W.relaxed.gpu f=1\n1.0: R.acquire.gpu f=1; Rx",
    "a barrier": "0.0: Wx; bar 1 64\n0.1: bar 1 64; Rx",
    "an arrival": "0.0: Wx; arrive 1 64\n0.1: bar 1 64; Rx",
    "the last one": "0.0: Wx; F.gpu; atom.relaxed.gpu f\n1.0: R.relaxed.gpu f=1; atom.relaxed.gpu f; F.gpu; Rx",
    "two flags behind one fence": "0.0: Wx; F.gpu; W.relaxed.gpu f=1; W.relaxed.gpu g=1\n1.0: R.acquire.gpu g=1; Rx",
    "an acquire after a relaxed read": "0.0: Wx; W.release.gpu f=1\n1.0: R.relaxed.gpu f=1; R.acquire.gpu f; Rx",
    "a flag of the system": "0.0: Wx; W.release.sys f=1\n1.0: R.acquire.sys f=1; Rx",
    "reading before another writes": "0.0: Rx; W.release.gpu f=1\n1.0: R.acquire.gpu f=1; Wx",
}

RACES = {
    "a volatile flag": "0.0: Wx; W.volatile f=1\n1.0: R.volatile f=1; Rx",
    "no acquire": "0.0: Wx; W.release.gpu f=1\n1.0: R.relaxed.gpu f=1; Rx",
    "no release": "0.0: Wx; W.relaxed.gpu f=1\n1.0: R.acquire.gpu f=1; Rx",
    "a scope too narrow": "0.0: Wx; W.release.cta f=1\n1.0: R.acquire.gpu f=1; Rx",
    "an acquire too narrow": "0.0: Wx; W.release.gpu f=1\n1.0: R.acquire.cta f=1; Rx",
    "a fence too narrow": "0.0: Wx; F.cta; W.relaxed.gpu f=1\n1.0: R.relaxed.gpu f=1; F.gpu; Rx",
    "another flag": "0.0: Wx; W.release.gpu f=1; W.relaxed.gpu g=1\n1.0: R.acquire.gpu g=1; Rx",
    "a flag that is overwritten": "0.0: Wx; W.release.gpu f=1\n1.0: R.relaxed.gpu f=1; W.relaxed.gpu f=2\n"
    "2.0: R.acquire.gpu f=2; Rx",
    "an atomic too narrow": "0.0: Wx; W.release.gpu f=1\n1.0: R.relaxed.gpu f=1; atom.relaxed.cta f\n"
    "2.0: R.acquire.gpu f=2; Rx",
    "red takes nothing over": "0.0: Wx; W.release.gpu f=1\n1.0: R.relaxed.gpu g=0; red.relaxed.gpu f; F.gpu; Rx",
    "a fence before the barrier": "0.0: Wx; F.gpu; bar 1 64\n0.1: F.gpu; bar 1 64; W.relaxed.gpu f=1\n"
    "1.0: R.acquire.gpu f=1; Rx",
    "a fence by another than the reader": "0.0: R.relaxed.gpu f=1; bar 1 64\n0.1: bar 1 64; F.gpu; Rx\n"
    "1.0: Wx; W.release.gpu f=1",
    "a fence before the store": "0.0: F.gpu; Wx; W.relaxed.gpu f=1\n1.0: R.acquire.gpu f=1; Rx",
    "the last one without its fence": "0.0: Wx; F.gpu; atom.relaxed.gpu f\n1.0: R.relaxed.gpu f=1; Rx",
    "a weak flag": "0.0: Wx; F.gpu; Wf\n1.0: F.gpu; Rx",
    "a barrier of another number": "0.0: Wx; bar 1 32\n0.1: bar 2 32; Rx",
    "after the arrival": "0.0: arrive 1 64; Wx\n0.1: bar 1 64; Rx",
    "before the barrier": "0.0: Wx; arrive 1 64\n0.1: Rx; bar 1 64",
    "atomics of two scopes": "0.0: atom.relaxed.cta x\n1.0: atom.relaxed.gpu x",
    "a weak and a strong write": "0.0: W.relaxed.gpu x=1\n1.0: Wx=2",
    "fences with no flag": "0.0: Wx; F.sc.gpu\n1.0: F.sc.gpu; Rx",
    "nothing at all": "0.0: Wx\n1.0: Rx",
}


@pytest.mark.parametrize("name", ORDERED)
def test_ordered(name: str) -> None:
    assert outcome(ORDERED[name]) == "ordered"


@pytest.mark.parametrize("name", RACES)
def test_racing(name: str) -> None:
    assert outcome(RACES[name]) == "race"


CLUSTERS = {
    "arrive and wait": ("0.0: Wx; cluster.arrive; cluster.wait\n1.0: cluster.arrive; cluster.wait; Rx", "ordered"),
    "arrive relaxed": ("0.0: Wx; cluster.arrive.relaxed; cluster.wait\n1.0: cluster.arrive; cluster.wait; Rx", "race"),
}


def test_wide_scopes_hold_a_cluster() -> None:
    flag = "0.0: Wx; W.release.cluster f=1\n1.0: R.acquire.cluster f=1; Rx"

    assert outcome(flag, cluster=2) == "ordered"
    assert outcome(flag) == "race"


def test_a_vector_is_as_many_accesses_as_it_has_elements() -> None:
    wide = Lowered(threads=32, grid=2)
    x = wide.array("x", "uint64", 1)
    assert x.data is not None
    half = wide.view("half", "uint32", 2, x.data, "global")
    for number, buffer in enumerate((x, half)):
        with wide.when(cta == number), wide.when(tid == 0):
            wide.do("ptx.st", at(buffer), 1, sem="relaxed", scope="gpu")

    with pytest.raises(SimulationError, match="race"):
        wide.run("races", x=np.zeros(1, np.uint64))


def met(*steps: str) -> str:
    """What both CTAs of a cluster do, line by line: init, fence, relaxed, sync, tell (the other's m-barrier), own
    (another lane tells that of its CTA), wait.
    """
    k = Lowered(threads=32, grid=2, cluster=2)
    bar = k.shared("bar", "uint64", 1)
    for step in steps:
        if step == "init":
            with k.when(tid == 0):
                k.do("ptx.mbarrier.init", at(bar), 1)
        elif step == "fence":
            k.do("ptx.fence.mbarrier_init")
        elif step == "sync":
            k.do("cuda.cluster_sync")
        elif step.startswith("arrive"):
            k.do("ptx.barrier.cluster.arrive", sem=step.partition(" ")[2] or "release")
        elif step == "wait":
            k.do("ptx.barrier.cluster.wait")
        elif step == "own":
            with k.when(tid == 1):
                k.do("ptx.mbarrier.arrive", at(bar))
        elif step == "tell":
            with k.when(tid == 0):
                far = k.bind("far", call("ptx.mapa", at(bar), 1 - cta), "uint32")
                k.do("ptx.mbarrier.arrive", far, scope="cluster", space="shared::cluster")
        else:
            with k.when(tid == 0):
                k.do("ptx.mbarrier.try_wait", at(bar), 0)
    try:
        k.run("races")
    except SimulationError as error:
        return error.what
    return ""


@pytest.mark.parametrize("meeting", [("sync",), ("fence", "arrive relaxed", "wait"), ("fence", "sync")])
def test_a_cluster_meets_between_mbarrier_init_and_the_arrivals_of_others(
    meeting: tuple[str, ...],
) -> None:
    assert met("init", *meeting, "tell", "seen") == ""
    assert "may not have initialised" in met("init", "tell", "seen")
    assert "may not have initialised" in met("init", "arrive relaxed", "wait", "tell", "seen")


@pytest.mark.parametrize("meeting", [("sync",), ("fence", "arrive relaxed", "wait")])
def test_a_cluster_meets_between_mbarrier_init_and_arrivals_of_the_same_warp(meeting: tuple[str, ...]) -> None:
    assert met("init", *meeting, "own", "seen") == ""
    assert "may not have been initialised" in met("init", "arrive relaxed", "wait", "own", "seen")
    assert "may not have been initialised" in met("init", "own", "seen")


def test_a_cta_ends_after_all_that_others_do_in_its_memory() -> None:
    assert "may have ended" in met("init", "sync", "tell")
    assert met("init", "sync", "tell", "sync") == ""
    assert met("init", "sync", "tell", "arrive relaxed", "wait") == ""


def test_at_the_barrier_of_a_cluster_arrivals_and_waits_take_turns() -> None:
    assert "arrives again before it has waited" in met("arrive", "arrive", "wait")
    assert "waits and has not arrived" in met("wait")


def test_an_m_barrier_is_made_once() -> None:
    assert "is initialised again" in met("init", "init")


def told_by(issuer: int, *, meeting: bool) -> str:
    """A thread issues a bulk copy that signals the m-barrier which thread 0 of its CTA has made."""
    k = Lowered(threads=64)
    x, s, bar = k.array("x", "int32", 4), k.shared("s", "int32", 4), k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar), 1)
        k.do("ptx.mbarrier.arrive.expect_tx", at(bar), 16)
    if meeting:
        k.do("cuda.cta_sync")
    with k.when(tid == issuer):
        k.do("ptx.cp_async.bulk.g2s_cta", at(s), at(x), 16, at(bar))
    with k.when(tid == 0):
        k.do("ptx.mbarrier.try_wait", at(bar), 0)
    try:
        k.run("races", x=np.zeros(4, np.int32))
    except SimulationError as error:
        return error.what
    return ""


def test_an_operation_tells_an_m_barrier_of_its_cta_after_a_meeting_with_who_made_it() -> None:
    assert told_by(0, meeting=False) == ""
    assert told_by(32, meeting=True) == ""
    assert "tells bar[0], which may not have been initialised" in told_by(32, meeting=False)


def test_a_count_is_that_of_all_who_arrive() -> None:
    k = Lowered(threads=64)
    bar = k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar), 32)
    k.do("cuda.cta_sync")
    k.do("ptx.mbarrier.arrive", at(bar))

    with pytest.raises(SimulationError, match="for its next phase, and nobody has seen the last one over"):
        k.run("races")


def test_warps_of_a_barrier_that_is_over_leave_it_before_others_come() -> None:
    k = Lowered(threads=64)
    k.do("ptx.bar.sync", warp + 1, 32)
    k.run("races")
    late = Lowered(threads=64)
    for number in range(2):
        with late.when(warp == number):
            late.do("ptx.bar.sync", 1, 32)

    with pytest.raises(SimulationError, match="used again by a warp that cannot know that its last meeting is over"):
        late.run("races")


HANDED = {
    "to its warp first": ("warp_sync", True),
    "at once": ("", False),
}


@pytest.mark.parametrize("how", HANDED)
@pytest.mark.parametrize("by", ["m-barrier", "flag", "atomic flag"])
def test_one_lane_publishes_for_its_warp_only_what_it_has_heard(how: str, by: str) -> None:
    step, is_right = HANDED[how]
    k = Lowered(threads=64)
    s, bar, f = k.shared("s", "int32", 32), k.shared("bar", "uint64", 1), k.shared("f", "int32", 1)
    with k.when(tid == 32):
        k.do("ptx.mbarrier.init", at(bar), 1)
        k.store(f, 0, 0)
    k.do("cuda.cta_sync")
    with k.when(warp == 0):
        k.store(s, tid, tid)
        if step:
            k.do(f"cuda.{step}")
        with k.when(tid == 0):
            if by == "m-barrier":
                k.do("ptx.mbarrier.arrive", at(bar))
            elif by == "flag":
                k.do("ptx.st", at(f), 1, sem="release", scope="cta")
            else:
                k.do("cuda.thread_fence_block")
                k.bind("old", call("cuda.atomic_exch", at(f), 1))
    with k.when(warp == 1):
        if by == "m-barrier":
            k.do("ptx.mbarrier.try_wait", at(bar), 0)
        elif by == "flag":
            with k.repeat(call("ptx.ld", at(f), sem="acquire", scope="cta") != 1):
                pass
        else:
            with k.repeat(call("cuda.atomic_add", at(f), 0) != 1):
                pass
            k.do("cuda.thread_fence_block")
        k.bind("v", get(s, 63 - tid))

    if is_right:
        assert not k.run().warnings
        return
    with pytest.raises(SimulationError, match="race: load reads s"):
        k.run()


@pytest.mark.parametrize("met_after", [True, False])
def test_one_lane_waits_for_itself_until_it_meets_its_warp(met_after: bool) -> None:
    k = Lowered(threads=64)
    s, bar = k.shared("s", "int32", 32), k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar), 32)
    k.do("cuda.cta_sync")
    with k.when(warp == 0):
        k.store(s, tid, tid)
        k.do("ptx.mbarrier.arrive", at(bar))
    with k.when(warp == 1):
        with k.when(lane == 0):
            k.do("ptx.mbarrier.try_wait", at(bar), 0)
            k.bind("own", get(s, 31))
        if met_after:
            k.do("cuda.warp_sync")
        k.bind("v", get(s, lane))

    if met_after:
        assert not k.run().warnings
        return
    with pytest.raises(SimulationError, match="race: load reads s"):
        k.run()


@pytest.mark.parametrize(
    ("mask", "source", "what"),
    [
        (0xFFFFFFFF, 1, ""),
        (0xFFFF, 1, "lanes that execute it, and that its mask does not name"),
        (lane * 0 + (0xFFFF << (lane // 16 * 16)), 1, ""),
        (lane * 0 + (0xFFFF << (lane // 16 * 16)), 16, "lanes that read from one outside the mask"),
        (0xFFFFFFFF - (lane // 31), 1, "masks that differ between the lanes that they name"),
    ],
)
def test_a_shuffle_names_all_who_execute_it_and_reads_from_those(mask: Expr | int, source: int, what: str) -> None:
    k = Lowered()
    k.bind("v", call("cuda.shfl_xor_sync", mask, lane, source))
    if not what:
        k.run()
        return
    with pytest.raises(SimulationError, match=what):
        k.run()
