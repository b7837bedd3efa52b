"""Recursive functions, and calls through pointers: each call has its own registers and variables."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError

FIB = "__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n"
ACKERMANN = """
__device__ __noinline__ int f(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return f(m - 1, 1);
    return f(m - 1, f(m, n - 1));
}
"""
QUICKSORT = """
__device__ __noinline__ void quicksort(int* a, int low, int high) {
    if (low >= high) return;
    int pivot = a[high], i = low;
    for (int j = low; j < high; j++)
        if (a[j] < pivot) { int t = a[i]; a[i] = a[j]; a[j] = t; i++; }
    a[high] = a[i]; a[i] = pivot;
    quicksort(a, low, i - 1);
    quicksort(a, i + 1, high);
}
extern "C" __global__ void k(int* data) { quicksort(data + 16 * threadIdx.x, 0, 15); }
"""
FRAMES = """
__device__ __noinline__ int f(int depth, int* above) {
    int own[4];
    for (int i = 0; i < 4; i++) own[i] = above[i] + depth;
    if (depth == 0) return own[0] + own[3];
    int below = f(depth - 1, own);
    return below + own[depth & 3];
}
extern "C" __global__ void k(const int* in, int* out) {
    int first[4] = {1, 2, 3, 4};
    out[threadIdx.x] = f(in[threadIdx.x], first);
}
"""
MUTUAL = """
__device__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : 2 * even(n - 1); }
extern "C" __global__ void k(const int* in, int* out) {
    int n = in[threadIdx.x];
    out[threadIdx.x] = n % 3 ? even(n) : odd(n);
}
"""
POINTERS = """
typedef int (*Operation)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int power(int a, int b);
__device__ Operation table[3] = {add, power, add};
__device__ __noinline__ int power(int a, int b) { return b == 0 ? 1 : a * table[1](a, b - 1) + table[0](0, 0); }
extern "C" __global__ void k(const int* in, int* out) {
    out[threadIdx.x] = table[in[threadIdx.x] % 3](3, in[threadIdx.x]);
}
"""


def entry(call: str) -> str:
    head = 'extern "C" __global__ void k(const int* in, int* out)'
    return f"{head} {{ int n = in[threadIdx.x]; out[threadIdx.x] = {call}; }}\n"


def ran(text: str, given: np.ndarray, **options: object) -> list[int]:
    out = np.zeros(len(given), np.int32)
    tw.load_cu(text)["k"].simulate(given.astype(np.int32), out, grid=1, block=len(given), check="all", **options)  # type: ignore[arg-type]
    return out.tolist()


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def test_lanes_of_a_warp_recurse_to_depths_of_their_own() -> None:
    given = np.arange(33) % 7

    assert ran(FIB + entry("fib(n)"), given) == [fib(n) for n in given.tolist()]


def test_a_result_is_the_argument_of_the_same_function() -> None:
    def ackermann(m: int, n: int) -> int:
        return n + 1 if m == 0 else ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))

    given = np.array([0, 1, 2, 3])

    assert ran(ACKERMANN + entry("f(2, n) + f(n, 1)"), given) == [ackermann(2, n) + ackermann(n, 1) for n in given]


def test_threads_sort_arrays_by_recursion() -> None:
    data = np.random.default_rng(2).integers(0, 99, (4, 16)).astype(np.int32)
    expected = np.sort(data, axis=1)

    tw.load_cu(QUICKSORT)["k"].simulate(data.reshape(-1), grid=1, block=4, check="all")

    assert (data == expected).all()


def test_each_call_has_variables_of_its_own_and_pointers_to_them_lead_there() -> None:
    def f(depth: int, above: list[int]) -> int:
        own = [each + depth for each in above]
        return own[0] + own[3] if depth == 0 else f(depth - 1, own) + own[depth & 3]

    given = np.array([0, 3, 1, 5])

    assert ran(FRAMES, given) == [f(n, [1, 2, 3, 4]) for n in given]


def test_functions_call_each_other_in_turn() -> None:
    def even(n: int, odd: bool) -> int:
        return int(not odd) if n == 0 else (2 if odd else 1) * even(n - 1, not odd)

    given = np.arange(8)

    assert ran(MUTUAL, given) == [even(int(n), n % 3 == 0) for n in given]


def test_a_function_calls_itself_through_a_table_of_pointers() -> None:
    given = np.arange(6)

    assert ran(POINTERS, given) == [3**n if n % 3 == 1 else 3 + n for n in given]


REGISTERS = """
.version 7.0
.target sm_80
.address_size 64
.func (.reg .b32 %result) factorial(.reg .b32 %n) {
    .reg .pred %p; .reg .b32 %m, %f;
    setp.le.s32 %p, %n, 1;
    mov.b32 %result, 1;
    @%p ret;
    sub.s32 %m, %n, 1;
    call (%f), factorial, (%m);
    mul.lo.s32 %result, %f, %n;
    ret;
}
.visible .entry k(.param .u64 in, .param .u64 out) {
    .reg .b64 %i, %o, %d; .reg .b32 %t, %n, %f;
    ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %d, %t, 4;
    add.s64 %i, %i, %d; add.s64 %o, %o, %d;
    ld.global.b32 %n, [%i];
    call (%f), factorial, (%n);
    call (%f), factorial, (%f);
    st.global.b32 [%o], %f;
    ret;
}
"""


def test_parameters_may_be_registers() -> None:
    given, out = np.array([1, 3, 2, 0], np.int32), np.zeros(4, np.int32)

    tw.load_ptx(REGISTERS)["k"].simulate(given, out, grid=1, block=4, check="all")

    assert out.tolist() == [1, 720, 2, 1]


def test_an_endless_recursion_is_an_error_that_says_how_deep_it_is() -> None:
    text = """
__device__ __noinline__ int f(volatile int* a, int n) {
    volatile int own[250];
    own[n & 127] = n;
    return *a == 77 ? own[0] : n + 3 * f(a, n + 1);
}
"""
    words = r"stack of 32768 bytes .* is full: \d\d calls .* the last of .*f"

    with pytest.raises(SimulationError, match=words) as raised:
        ran(text + entry("f(out, n)"), np.arange(2))

    assert raised.value.at is not None


STATES = """
extern "C" __global__ void k(const int* in, int* out) {
    int state = in[threadIdx.x], sum = 0, value = 1;
    for (int turn = 0; turn < 9; turn++) {
        switch (state) {
            case 0: value = value * 3 + sum; state = value & 1 ? 2 : 1; break;
            case 1: sum += value; state = 3; continue;
            case 2: sum ^= value; value++; state = sum % 4; break;
            default: value += turn; state = turn & 1;
        }
        sum += state;
    }
    out[threadIdx.x] = sum + 1000 * value;
}
"""


def test_lanes_in_different_states_of_a_loop_keep_their_values() -> None:
    def run(state: int) -> int:
        total, value = 0, 1
        for turn in range(9):
            if state == 0:
                value = value * 3 + total
                state = 2 if value & 1 else 1
            elif state == 1:
                total, state = total + value, 3
                continue
            elif state == 2:
                total ^= value
                value, state = value + 1, total % 4
            else:
                value, state = value + turn, turn & 1
            total += state
        return total + 1000 * value

    given = np.arange(12) % 5

    assert ran(STATES, given) == [run(int(n)) for n in given]
