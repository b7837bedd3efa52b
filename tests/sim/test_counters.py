"""Counters that threads poll: what one that comes late finds there tells it no more than it had to wait for."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import SimulationError

RACE = "race: (load reads|store writes)"
CTAS = (2, 5, 20)


def to_and_fro(ctas: int, turns: int, again: int):
    """Each CTA reads what its neighbour wrote in the turn before. again: does the target grow with each turn?"""

    @T.prim_func
    def kernel(x: T.Buffer((2, ctas), "int32"), count: T.Buffer((1,), "uint32")):
        cta = T.cta_id([ctas])
        lane = T.lane_id([32])
        if lane == 0:
            for turn in range(turns):
                x[(turn + 1) % 2, cta] = x[turn % 2, (cta + 1) % ctas] + 1
                T.ptx.red.add(count.ptr_to([0]), 1, sem="release", scope="gpu")
                target = T.cast((turn * again + 1) * ctas, "uint32")
                while T.ptx.ld(count.ptr_to([0]), sem="acquire", scope="gpu") < target:
                    pass

    return kernel


def start(ctas: int, turns: int, again: int, count=None):
    x = np.zeros((2, ctas), np.int32)
    tw.simulate(to_and_fro(ctas, turns, again), x, np.zeros(1, np.uint32) if count is None else count, check="all")
    return x


@pytest.mark.parametrize("ctas", CTAS)
@pytest.mark.parametrize("turns", [3, 10])
def test_a_counter_that_stays_at_its_target_holds_nobody_up_in_the_second_turn(ctas, turns):
    assert start(ctas, turns, again=1)[turns % 2].tolist() == [turns] * ctas
    with pytest.raises(SimulationError, match=RACE):
        start(ctas, turns, again=0)


@pytest.mark.parametrize("ctas", CTAS)
def test_a_counter_that_stays_at_its_target_holds_nobody_up_in_the_second_launch(ctas):
    count = np.zeros(1, np.uint32)
    start(ctas, 2, 1, count)
    with pytest.raises(SimulationError, match=RACE):
        start(ctas, 2, 1, count)


@pytest.mark.parametrize("counts", [True, False])
def test_who_has_counted_reads_no_value_from_before_that(counts):  # noqa: C901  # branches of the kernel
    """Another lane has seen that CTA 0 has counted. Only its own count keeps lane 0 from an older value than that."""

    @T.prim_func
    def kernel(x: T.Buffer((1,), "int32"), count: T.Buffer((1,), "uint32"), out: T.Buffer((1,), "int32")):
        cta = T.cta_id([2])
        lane = T.lane_id([32])
        seen = T.alloc_shared((1,), "uint32")
        if cta == 0:
            if lane == 0:
                x[0] = 1
                T.ptx.red.add(count.ptr_to([0]), 1, sem="release", scope="gpu")
        else:
            if lane == 1:
                seen[0] = T.ptx.ld(count.ptr_to([0]), sem="relaxed", scope="gpu")
            T.cuda.warp_sync()
            if lane == 0:
                if counts:
                    T.ptx.red.add(count.ptr_to([0]), 1, sem="relaxed", scope="gpu")
                while T.ptx.ld(count.ptr_to([0]), sem="acquire", scope="gpu") > 100:
                    pass
                if seen[0] == 1 or not counts:
                    out[0] = x[0]

    def run():
        tw.simulate(kernel, np.zeros(1, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32), check="all")

    if counts:
        run()
    else:
        with pytest.raises(SimulationError, match=RACE):
            run()


WAYS = """
#include <cooperative_groups.h>
struct Barrier {
    int* count; volatile int* sense; int turn = 0;
    __device__ void arrive() { atomicAdd(count, 1); }
    __device__ void at_least(int n) { arrive(); while (*(volatile int*)count < n) {} }
    __device__ void by_atomics(int n) { arrive(); while (atomicAdd(count, 0) < n) {} }
    __device__ void equal(int n) { arrive(); while (*(volatile int*)count != n) {} }
    __device__ void last(int n) { if (atomicAdd(count, 1) < n - 1) while (*(volatile int*)count < n) {} }
    __device__ void flipped(int n) {
        int next = ++turn;
        if (atomicAdd(count, 1) == n - 1) { *count = 0; __threadfence(); *sense = next; }
        else while (*sense != next) {}
    }
    __device__ void top_bit(int n) {
        unsigned step = blockIdx.x ? 1u : 0x80000000u - (n - 1), old = atomicAdd((unsigned*)count, step);
        while (((old ^ *(volatile unsigned*)count) & 0x80000000u) == 0) {}
    }
};
#define KERNEL(NAME, WAIT) extern "C" __global__ void NAME(int* state, int* x, int turns, int again) { \\
    int n = gridDim.x; Barrier all{state, state + 1}; \\
    for (int turn = 0; turn < turns; ++turn) { \\
        if (!threadIdx.x) x[((turn + 1) & 1) * n + blockIdx.x] = x[(turn & 1) * n + (blockIdx.x + 1) % n] + 1; \\
        __syncthreads(); \\
        if (!threadIdx.x) { __threadfence(); all.WAIT((turn * again + 1) * n); __threadfence(); } \\
        __syncthreads(); } }
KERNEL(at_least, at_least) KERNEL(by_atomics, by_atomics) KERNEL(equal, equal) KERNEL(last, last)
KERNEL(flipped, flipped) KERNEL(top_bit, top_bit)
extern "C" __global__ void groups(int* x, int turns) {
    int n = gridDim.x;
    for (int turn = 0; turn < turns; ++turn) {
        if (!threadIdx.x) x[((turn + 1) & 1) * n + blockIdx.x] = x[(turn & 1) * n + (blockIdx.x + 1) % n] + 1;
        cooperative_groups::this_grid().sync();
    }
}
"""


@pytest.fixture(scope="module")
def ways():
    return tw.load_cu(WAYS, "sm_90a")


def meet(ways, name: str, ctas: int, turns: int, again: int):
    x = np.zeros((2, ctas), np.int32)
    ways[name].simulate(np.zeros(2, np.int32), x, turns, again, grid=ctas, block=32, check="all")
    assert x[turns % 2].tolist() == [turns] * ctas


@pytest.mark.parametrize("ctas", [3, 12])
@pytest.mark.parametrize("name", ["at_least", "by_atomics", "last"])
def test_a_barrier_of_at_least_n_is_used_once(ways, name, ctas):
    meet(ways, name, ctas, 5, again=1)
    with pytest.raises(SimulationError, match=RACE):
        meet(ways, name, ctas, 5, again=0)


@pytest.mark.parametrize("name", ["flipped", "top_bit"])
def test_a_barrier_that_turns_over_is_used_again_and_again(ways, name):
    meet(ways, name, 5, 5, again=0)


def test_a_barrier_of_exactly_n_meets_once_and_then_overtakes_itself(ways):
    meet(ways, "equal", 5, 1, again=1)
    with pytest.raises(SimulationError, match="livelock"):
        meet(ways, "equal", 5, 5, again=1)


def test_the_grid_of_cooperative_groups_meets_again_and_again(ways):
    x = np.zeros((2, 5), np.int32)
    ways["groups"].simulate(x, 5, grid=5, block=32, check="all")
    assert x[1].tolist() == [5] * 5


def handed_on(asked: str):
    """A writer counts two steps; a reader waits for the first or the second, and reads what the second one brings."""

    @T.prim_func
    def kernel(x: T.Buffer((1,), "int32"), count: T.Buffer((1,), "uint32"), out: T.Buffer((1,), "int32")):
        cta = T.cta_id([2])
        lane = T.lane_id([32])
        if lane == 0:
            if cta == 0:
                T.ptx.red.add(count.ptr_to([0]), 1, sem="release", scope="gpu")
                x[0] = 7
                T.ptx.red.add(count.ptr_to([0]), 1, sem="release", scope="gpu")
            else:
                while T.ptx.ld(count.ptr_to([0]), sem="acquire", scope="gpu") < T.uint32(1 if asked == "first" else 2):
                    pass
                out[0] = x[0]

    out = np.zeros(1, np.int32)
    tw.simulate(kernel, np.zeros(1, np.int32), np.zeros(1, np.uint32), out, check="all")
    return out[0]


def test_who_waits_for_the_first_of_two_steps_knows_nothing_of_the_second():
    assert handed_on("second") == 7
    with pytest.raises(SimulationError, match=r"race: load reads x\[0\]"):
        handed_on("first")


STEPS = """
__device__ unsigned read(unsigned* p) {
    unsigned v; asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v;
}
__device__ unsigned acquire(unsigned* p) {
    unsigned v; asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v;
}
__device__ void release(unsigned* p) { asm volatile("red.release.gpu.add.u32 [%0], 1;" :: "l"(p) : "memory"); }
__device__ void relaxed(unsigned* p) { asm volatile("red.relaxed.gpu.add.u32 [%0], 1;" :: "l"(p) : "memory"); }
__device__ void two_steps(unsigned* count, int* x) { release(count); x[0] = 7; release(count); }

extern "C" __global__ void has_read_the_second(unsigned* count, unsigned* flag, int* x, int* out) {
    if (!blockIdx.x) { two_steps(count, x); return; }
    while (read(count) < 2) {}
    while (acquire(count) < 1) {}
    out[0] = x[0];
}
extern "C" __global__ void knows_of_the_second(unsigned* count, unsigned* flag, int* x, int* out) {
    if (blockIdx.x == 0) { x[0] = 7; release(count); }
    else if (blockIdx.x == 1) { while (read(count) < 1) {} relaxed(count); release(flag); }
    else { while (acquire(flag) < 1) {} while (acquire(count) == 99) {} out[0] = x[0]; }
}
extern "C" __global__ void looks_at_the_value(unsigned* count, unsigned* flag, int* x, int* out) {
    if (!blockIdx.x) { two_steps(count, x); return; }
    unsigned v;
    do v = acquire(count); while (v < 1);
    if (v == 2) out[0] = x[0];
}
extern "C" __global__ void two_warps_release(unsigned* count, unsigned* flag, int* x, int* out) {
    if (threadIdx.x % 32 || blockIdx.x) return;
    if (threadIdx.x < 64) { x[threadIdx.x / 32] = 7; release(count); }
    else { while (acquire(count) < 2) {} out[0] = x[0] + x[1] - 7; }
}
extern "C" __global__ void others_are_ahead(unsigned* count, unsigned* flag, int* x, int* out) {
    if (blockIdx.x == 0) { x[threadIdx.x] = 7; __threadfence(); __syncthreads(); if (!threadIdx.x) relaxed(count); }
    else if (blockIdx.x == 1) {
        if (!threadIdx.x) { while (read(count) < 1) {} relaxed(flag); while (read(count) < 2) {} }
        __syncthreads(); __threadfence(); if (threadIdx.x == 1) out[1] = x[5];
    } else {
        if (!threadIdx.x) { while (read(flag) < 1) {} relaxed(count); while (read(count) < 2) {} }
        __syncthreads(); __threadfence(); if (threadIdx.x == 1) out[0] = x[5];
    }
}
"""


@pytest.fixture(scope="module")
def steps():
    return tw.load_cu(STEPS, "sm_90a")


@pytest.mark.parametrize(
    ("name", "block"),
    [("has_read_the_second", 1), ("knows_of_the_second", 1), ("looks_at_the_value", 1), ("two_warps_release", 96),
     ("others_are_ahead", 32)],
)  # fmt: skip
def test_who_has_come_to_a_later_step_knows_what_came_before_it(steps, name, block):
    out = np.zeros(2, np.int32)
    count, flag = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    ctas = 3 if name in ("knows_of_the_second", "others_are_ahead") else 2
    steps[name].simulate(count, flag, np.zeros(32, np.int32), out, grid=ctas, block=block, check="all")
    assert out[0] == 7


def test_a_counter_that_is_never_set_back_gets_no_fence_as_advice():
    with pytest.raises(SimulationError, match=r"try: +a counter that is set back, or a higher goal at each use"):
        start(4, 3, again=0)
