"""Forms that are statements or values of parse time: with, T.If in helpers, meta classes, pipelines."""

# ruff: noqa: F841  the names of a kernel are read by its parser
from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tests.lang.test_forms_of_memory import run
from tilewright.errors import KernelError
from tilewright.lang import T, Tx


def count_up(place, cond):
    """A helper without an `if` of run time."""
    with T.If(cond):
        with T.Then():
            T.cuda.atomic_add(place.ptr_to([0]), 1)
        with T.Else():
            T.cuda.atomic_add(place.ptr_to([1]), 1)


def test_a_branch_in_a_helper_is_one_of_run_time() -> None:
    @T.prim_func
    def k(A: T.Buffer((2,), "int32")):
        T.cta_id([1])
        tx = T.thread_id([32])
        with T.hint("count", threads=32):
            count_up(A, tx < 10)

    a = np.zeros(2, np.int32)
    run(k, a)

    assert a.tolist() == [10, 22]
    assert 'T.attr({"hint": "count, threads=32"})' in str(k)


@pytest.mark.parametrize(
    ("misuse", "what"),
    [
        (lambda: T.Then(), "directly in a T.If"),
        (lambda: T.If(True).__enter__() or T.Then().__enter__() or T.Then(), "directly in a T.If"),
    ],
)
def test_an_arm_stands_directly_in_its_branch(misuse, what) -> None:
    with pytest.raises(KernelError, match=what):

        @T.prim_func
        def k():
            misuse()


def test_a_branch_holds_nothing_beside_its_arms() -> None:
    with pytest.raises(KernelError, match="nothing else"):

        @T.prim_func
        def k(A: T.Buffer((2,), "int32")):
            T.cta_id([1])
            with T.If(A[0] == 0):
                A[1] = 2


def test_with_takes_context_managers_only() -> None:
    with pytest.raises(KernelError, match="is no context manager"):

        @T.prim_func
        def k(A: T.Buffer((2,), "int32")):
            with A:
                pass


def test_break_does_not_leave_a_thread_binding() -> None:
    with pytest.raises(KernelError, match="which is no loop"):

        @T.prim_func
        def k():
            for _ in T.thread_binding(32, thread="threadIdx.x"):
                break


@T.meta_class
class Counter:
    """Counts in a scalar of the kernel."""

    def __init__(self, step):
        self.step = step
        self.count = T.local_scalar("int32")

    def reset(self):
        self.count = 0

    @T.inline
    def up(self, times):
        for _ in range(times):
            self.count = self.count + self.step


class Twice(Counter):
    """Counts two steps at once."""

    def __init__(self):
        super().__init__(2)
        self.more = T.local_scalar("int32")


def test_fields_of_a_meta_class_are_scalars_of_the_kernel() -> None:
    @T.prim_func
    def k(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        tx = T.thread_id([32])
        c = Twice()
        c.reset()
        c.up(tx)
        c.count += 1
        c.more = c.count * 10
        c.step = 5
        A[tx] = c.more + c.step

    a = np.zeros(32, np.int32)
    run(k, a)

    assert (a == (2 * np.arange(32) + 1) * 10 + 5).all()


@T.meta_class
class Walk:
    """Each field begins as a value of run time and is assigned later."""

    def __init__(self, start):
        self.row, self.column, self.batch, self.head, self.key = (start + k for k in range(5))

    def step(self):
        self.head = self.key = self.row = self.batch = self.column = 0


def test_scalars_of_fields_stand_in_the_order_of_the_fields() -> None:
    """In the order of a set the text of a kernel would be another one in each process."""

    @T.prim_func
    def k():
        walk = Walk(T.thread_id([32]))
        walk.step()

    names = re.findall(r"(\w+): T.int32 = ", str(k))

    assert [name.partition("_")[0] for name in names] == ["row", "column", "batch", "head", "key"]


def test_a_field_of_python_takes_no_value_of_run_time() -> None:
    with pytest.raises(KernelError, match="step is no scalar"):

        @T.prim_func
        def k():
            tx = T.thread_id([32])
            c = Counter(1)
            c.step = tx + 1


@T.meta_class
class Forgetful:
    """Makes a buffer and keeps it nowhere."""

    def __init__(self):
        T.alloc_shared((4,), "float32")


def test_a_meta_class_keeps_the_buffers_that_it_makes() -> None:
    with pytest.raises(KernelError, match="keeps it in no field"):

        @T.prim_func
        def k():
            f = Forgetful()


def test_a_pipeline_hands_stages_on_and_back() -> None:
    @T.prim_func
    def k(A: T.Buffer((7, 32), "float32"), B: T.Buffer((7, 32), "float32")):
        T.cta_id([1])
        w, lane = T.warp_id([2]), T.lane_id([32])
        pool = T.SMEMPool()
        full, empty = T.MBarrier(pool, 2), T.MBarrier(pool, 2, phase_offset=1)
        box = pool.alloc((2, 32), "float32")
        pool.commit(4096)
        full.init(32)
        empty.init(32)
        T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        state = T.PipelineState(2, 0)
        for i in range(7):
            if w == 0:
                empty.wait(state.stage, state.phase)
                box[state.stage, lane] = A[i, lane]
                full.arrive(state.stage)
            else:
                full.wait(state.stage, state.phase)
                B[i, lane] = box[state.stage, lane] * 2.0
                empty.arrive(state.stage)
            state.advance()

    a = np.random.default_rng(0).random((7, 32), np.float32)
    b = np.zeros_like(a)
    run(k, a, b)

    assert (b == 2 * a).all()


def test_nobody_waits_at_a_barrier_of_another_cta() -> None:
    with pytest.raises(KernelError, match="cannot be waited at"):

        @T.prim_func
        def k():
            full = T.MBarrier(T.SMEMPool(), 2)
            full.remote_view(1).wait(0, 0)


def test_a_persistent_scheduler_deals_out_every_tile_down_first() -> None:
    @T.prim_func
    def k(A: T.Buffer((3, 5), "int32")):
        bx = T.cta_id([4])
        T.thread_id([1])
        tiles = T.ClusterPersistentScheduler2D("tiles", 3, 5, 4, l2_group_size=2)
        tiles.init(bx)
        while tiles.valid():
            A[tiles.m_idx, tiles.n_idx] = tiles.tile
            tiles.next_tile()

    a = np.full((3, 5), -1, np.int32)
    run(k, a)

    assert a.tolist() == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9], [10, 11, 12, 13, 14]]


def test_pools_deal_out_columns_from_the_address_that_was_handed_out() -> None:
    @T.prim_func
    def k(A: T.Buffer((128, 16), "float32"), B: T.Buffer((128, 16), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        pool = T.SMEMPool()
        columns = T.TMEMPool(pool, 64)
        first = columns.alloc((128, 16), "float32")
        second = columns.alloc((128, 32), "float32")
        pool.commit()
        columns.commit()
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        r = T.wg_reg_tile(16)
        Tx.wg.copy(r, A)
        Tx.wg.copy_async(T.TMEMStages(second, 0, 16, 2)[1], r)
        T.ptx.tcgen05.wait.st()
        Tx.wg.copy_async(r, second[:, 16:32])
        T.ptx.tcgen05.wait.ld()
        Tx.wg.copy(B, r)
        T.cuda.cta_sync()
        columns.dealloc()

    a = np.random.default_rng(0).random((128, 16), np.float32)
    b = np.zeros_like(a)
    run(k, a, b)

    assert (a == b).all()


@pytest.mark.parametrize(
    ("misuse", "what"),
    [
        (lambda pool: T.TMEMPool(pool, 48), "whole blocks of columns"),
        (lambda pool: T.TMEMPool(pool, 32).alloc((128, 64)), "no such room"),
        (lambda pool: pool.alloc_mma((8, 64), swizzle_mode="32"), "no such swizzle"),
        (lambda pool: (pool.alloc((64,)), pool.commit(128)), "has no room"),
        (lambda pool: pool.alloc((4,), "float32", None, "local"), "is shared memory"),
    ],
)
def test_a_pool_refuses_what_it_has_not(misuse, what) -> None:
    with pytest.raises(KernelError, match=what):

        @T.prim_func
        def k():
            misuse(T.SMEMPool())


def test_a_descriptor_moves_by_units_of_16_bytes() -> None:
    @T.prim_func
    def k(A: T.Buffer((2,), "uint64")):
        T.cta_id([1])
        T.thread_id([1])
        tile = T.SMEMPool().alloc_mma((64, 64), "float16")
        d = T.SmemDescriptor()
        d.init(tile.data, 1, 64, 3)
        A[0] = d.desc
        A[1] = d.add_16B_offset(2)

    a = np.zeros(2, np.uint64)
    run(k, a)

    assert int(a[1]) - int(a[0]) == 2
    assert tw.compile(k).source("cuda")


@T.inline
def clamped(A, i, x, low):
    if x < low:
        x = low
    for _ in range(2):
        x += 1
        low = low + 1
    A[i] = x + low


def test_a_parameter_of_an_inline_function_may_change_under_control_flow() -> None:
    @T.prim_func
    def k(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        tx = T.thread_id([32])
        clamped(A, tx, tx, 5)
        y = tx * 2
        clamped(A, tx, y, 5)
        A[tx] = A[tx] + y

    a = np.zeros(32, np.int32)
    run(k, a)

    assert (a == np.maximum(2 * np.arange(32), 5) + 2 + 7 + 2 * np.arange(32)).all()


def test_a_buffer_that_is_a_parameter_does_not_become_a_number() -> None:
    @T.inline
    def wrong(A, c):
        if c:
            A = 3

    with pytest.raises(KernelError, match="A"):

        @T.prim_func
        def k(A: T.Buffer((2,), "int32")):
            tx = T.thread_id([32])
            wrong(A, tx < 3)


def test_a_kernel_may_return_early() -> None:
    @T.prim_func
    def k(A: T.Buffer((40,), "int32")):
        T.cta_id([1])
        tx = T.thread_id([64])
        if tx >= 40:
            return
        x = tx * 2
        if tx < 4:
            A[tx] = -1
            return
        A[tx] = x

    a = np.zeros(40, np.int32)
    run(k, a)

    assert a.tolist() == [-1] * 4 + [2 * i for i in range(4, 40)]
