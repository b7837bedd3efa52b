"""m-barriers, clusters and matrix descriptors, on hardware and on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.gpu.hardware import ARCH, Bench
from tests.gpu.rows import DESCRIBING, M_BARRIERS, MAPPING, admitted, named
from tests.isa.assembling import result_dtype
from tests.sim.build import Lowered, at, cta, get, lane, tid
from tests.sim.test_clusters import relayed
from tests.sim.test_mbarriers import pipeline, rounds
from tilewright import T
from tilewright.dtypes import HANDLE, INT32, VOID
from tilewright.ir import Expr, Kernel, Reinterpret, as_expr, cast
from tilewright.isa import call
from tilewright.isa.table import Bound

pytestmark = pytest.mark.gpu

FORMS = [bound for bound in admitted() if bound.instruction.name.removeprefix("ptx.mbarrier.") in M_BARRIERS]
WAITS = [bound for bound in FORMS if "wait" in bound.instruction.name]
CHANGES = [bound for bound in FORMS if "arrive" in bound.instruction.name or "_tx" in bound.instruction.name]
MOST = 64  # answers of a script
UNORDERED = "bounds"  # a script goes on whatever the answer was, which the rules of phases do not allow
OPERANDS = {"count": 2, "bytes": 32, "ns": 20}


# One thread and one m-barrier: after each step both tests of its phase are made, and their results compared


class Script:
    """A kernel of one thread that changes an m-barrier and records the results of its tests."""

    def __init__(self, expected: int) -> None:
        self.k = Lowered("script")
        self.bar = self.k.shared("bar", "uint64", 1)
        self.out = self.k.array("out", "int32", MOST)
        self.answers = 0
        self.do("init", count=as_expr(expected))

    def do(self, name: str, **arguments: Any) -> None:
        self.k.do(f"ptx.mbarrier.{name}", at(self.bar, 0), **arguments)

    def form(self, bound: Bound, **known: Expr) -> Expr | None:
        """The form itself; its result, where it has one."""
        address: Expr = at(self.bar, 0)
        if bound.mods.get("space") == "shared::cluster":
            address = self.k.bind(f"far_{self.k.line}", call("ptx.mapa", address, as_expr(0)), "uint32")
        values = {"ptr": address, **{name: as_expr(value) for name, value in OPERANDS.items()}, **known}
        arguments = {operand.name: values[operand.name] for operand in bound.given}
        modifiers = {name: value for name, value in bound.mods.items() if name not in OPERANDS}
        made = call(bound.instruction.name, **arguments, **modifiers)
        if result_dtype(bound) == VOID:
            self.k.do(bound.instruction.name, **arguments, **modifiers)
            return None
        return self.k.bind(f"result_{self.k.line}", made, str(made.dtype))

    def note(self, answer: Expr) -> None:
        """Use the answer at once: until the answer of a try_wait is used, later arrivals may change it on the GPU."""
        self.k.store(self.out, self.answers, cast(answer, INT32))
        self.answers += 1

    def ask(self) -> None:
        for parity in range(2):
            self.note(call("ptx.mbarrier.test_wait.parity", at(self.bar, 0), as_expr(parity)))

    def kernel(self) -> tuple[Kernel, dict[str, np.ndarray]]:
        assert self.answers <= MOST
        body = self.k.bodies[0]
        self.k.bodies[0] = []
        with self.k.when(lane == 0):
            self.k.bodies[-1] += body
        return self.k.kernel(), {"out": np.full(MOST, -1, np.int32)}


@pytest.mark.parametrize("expected", [2, 4])
@pytest.mark.parametrize("bound", CHANGES, ids=named)
def test_every_arrival_and_every_announcement_counts_as_the_simulator_says(
    bound: Bound, expected: int, bench: Bench
) -> None:
    if "drop" in bound.instruction.name or "no_complete" in bound.instruction.name:
        expected *= 4  # so that later phases have arrivals left
    script = Script(expected)
    script.ask()
    for _ in range(2):
        state = script.form(bound)
        script.ask()
        if state is not None:
            script.note(call("ptx.mbarrier.test_wait", at(script.bar, 0), state))
    if "_tx" in bound.instruction.name:  # before a phase ends, its bytes must have come
        script.do("expect_tx" if "complete" in bound.instruction.name else "complete_tx", bytes=as_expr(64))
        script.ask()
    for _ in range(min(3 * expected, 12)):
        script.do("arrive")
        script.ask()

    bench.run(*script.kernel(), check=UNORDERED)


@pytest.mark.parametrize("bound", WAITS, ids=named)
def test_every_wait_answers_as_the_simulator_says(bound: Bound, bench: Bench) -> None:
    blocking, by_state = bound.form.sync is not None, "state" in bound.instruction.params
    script = Script(2)
    for phase in range(3):
        for arrival in range(2):
            state = script.k.bind(f"state_{phase}_{arrival}", call("ptx.mbarrier.arrive", at(script.bar, 0)), "uint64")
            if blocking and not arrival:
                continue
            for parity in [phase % 2] if blocking or by_state else [0, 1]:
                answer = script.form(bound, phase=as_expr(parity), state=state)
                script.ask() if answer is None else script.note(answer)

    bench.run(*script.kernel(), check=UNORDERED)


def test_an_m_barrier_that_ended_may_begin_anew(bench: Bench) -> None:
    script = Script(1)
    script.do("arrive")
    script.ask()
    script.do("inval")
    script.do("init", count=as_expr(2))
    script.ask()
    script.do("arrive")
    script.ask()

    bench.run(*script.kernel(), check=UNORDERED)


@pytest.mark.parametrize("row", MAPPING)
def test_every_way_to_an_m_barrier_of_the_cluster(row: str, bench: Bench) -> None:
    script = Script(1)
    script.ask()
    mapped = call(row, at(script.bar, 0), as_expr(0))
    pointer = mapped.dtype == "uint64"
    far = script.k.bind("far", Reinterpret(mapped, HANDLE) if pointer else mapped, "handle" if pointer else "uint32")
    script.k.do("ptx.mbarrier.arrive", far, space="shared::cluster")
    script.ask()

    bench.run(*script.kernel(), check=UNORDERED)


# Threads of a CTA, and CTAs of a cluster


def both(kernel: Any, bench: Bench, *arrays: np.ndarray, check: str = "all") -> list[np.ndarray]:
    """What the GPU writes, equal to what the simulator does."""
    exe = tw.compile(kernel, target=str(ARCH))
    ours, theirs = [one.copy() for one in arrays], [one.copy() for one in arrays]
    exe(*ours, on="gpu")
    run = exe.simulate(*theirs, check=check)
    bench.tally["kernels"] += 1
    bench.tally["instructions of warps"] += sum(run.counts.instructions.values())
    for mine, other in zip(ours, theirs, strict=True):
        bench.judge(exe.name, mine, other)
    return ours


@pytest.mark.parametrize("everyone", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_ring_of_buffers(stages: int, everyone: bool, bench: Bench) -> None:
    a, b = rounds(64)

    _, found = both(pipeline(stages=stages, ctas=64, everyone=everyone), bench, a, b)

    assert all(np.array_equal(found[one], a[:, ::-1] + one) for one in range(64))


def test_arriving_at_the_barrier_of_a_cluster_and_waiting_there(bench: Bench) -> None:
    zeros = np.zeros((2, 64), np.int32)

    _, found = both(relayed(), bench, zeros, zeros.copy())

    assert found.any()


def told_from_afar(size: int, expecting: bool) -> Any:
    """Around a cluster: each CTA writes for the next one, signals its m-barrier, and waits at its own."""

    @T.prim_func
    def tell(A: T.Buffer((12, 64), "int32"), B: T.Buffer((12, 64), "int32")):
        cta_id = T.cta_id([12])
        T.cluster_id([12 // size])
        rank = T.cta_id_in_cluster([size])
        tid = T.thread_id([64])
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 64)
            if expecting:
                T.ptx.mbarrier.expect_tx(bar.ptr_to([0]), 64 * 4)
        T.ptx.fence.mbarrier_init()
        T.ptx.barrier.cluster.arrive()
        T.ptx.barrier.cluster.wait()
        A[cta_id, tid] = cta_id * 100 + tid
        next: T.let = T.ptx.mapa(bar.ptr_to([0]), (rank + 1) % size)
        if expecting:
            T.ptx.mbarrier.complete_tx(next, 4, scope="cluster", space="shared::cluster")
        T.ptx.mbarrier.arrive(next, scope="cluster", space="shared::cluster")
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0, scope="cluster")
        B[cta_id, tid] = A[cta_id - rank + (rank + size - 1) % size, 63 - tid]
        T.cuda.cluster_sync()  # no CTA ends while others may signal it

    return tell


@pytest.mark.parametrize("expecting", [False, True])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_m_barriers_of_other_ctas(size: int, expecting: bool, bench: Bench) -> None:
    zeros = np.zeros((12, 64), np.int32)

    _, found = both(told_from_afar(size, expecting), bench, zeros, zeros.copy())

    ctas = np.arange(12)
    before = ctas - ctas % size + (ctas - 1) % size
    assert np.array_equal(found, before[:, None] * 100 + np.arange(64)[::-1])


# Descriptors


@pytest.mark.parametrize("swizzle", range(4))
@pytest.mark.parametrize("row", DESCRIBING)
def test_matrix_descriptors(row: str, swizzle: int, bench: Bench) -> None:
    """The address of shared memory is the GPU's own: the descriptor of its beginning is subtracted."""
    rng = np.random.default_rng(swizzle)
    k = Lowered("describe", threads=32, grid=3)
    fields = {name: k.array(name, "uint32", 96) for name in ("start", "ldo", "sdo", "units")}
    out, tile = k.array("out", "uint64", 96 * 2), k.shared("tile", "uint8", 16384)
    made = k.local("made", "uint64", 2)
    me = cta * 32 + tid
    place = at(tile, cast(get(fields["start"], me), INT32) * 16)
    k.do(row, get(made, 0), place, get(fields["ldo"], me), get(fields["sdo"], me), swizzle=swizzle)
    k.do(row, get(made, 1), at(tile, 0), 0, 0, swizzle=0)
    k.store(out, me * 2, get(made, 0) - get(made, 1))
    moved = call("cuda.smem_desc_add_16B_offset", get(made, 0), get(fields["units"], me))
    k.store(out, me * 2 + 1, k.bind("moved", moved, "uint64") - get(made, 1))
    high = {"start": 1024, "ldo": 1 << 14, "sdo": 1 << 14, "units": 512}
    arrays = {field: rng.integers(0, most, 96).astype(np.uint32) for field, most in high.items()}

    bench.run(k.kernel(), {**arrays, "out": np.zeros(192, np.uint64)})
