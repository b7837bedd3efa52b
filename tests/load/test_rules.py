"""Rules for reports on a .cu file: one kernel of ``rules.cu`` for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.load.programs import FOLDER
from tilewright.errors import SimulationError
from tilewright.load import LoadedModule, load_cu, load_ptx
from tilewright.sim import Run


@pytest.fixture(scope="module")
def rules() -> LoadedModule:
    return load_cu(FOLDER / "rules.cu")


def zeros(n: int, kind: Any = np.int32) -> np.ndarray:
    return np.zeros(n, kind)


def clean(run: Run) -> bool:
    return not run.warnings


def test_shared_memory_of_the_file_is_device_code(rules: LoadedModule) -> None:
    out = zeros(64)

    assert clean(rules["shared_of_the_file"].simulate(out, block=64))

    assert (out == 63 - np.arange(64)).all()


def test_atomics_of_one_statement_race_where_their_scope_does_not_hold_both(rules: LoadedModule) -> None:
    assert clean(rules["counted_by_block"].simulate(zeros(1, np.uint32), grid=1, block=64))
    with pytest.raises(SimulationError, match="race"):
        rules["counted_by_block"].simulate(zeros(1, np.uint32), grid=2, block=64)


def test_a_plain_store_comes_after_the_atomics_that_its_thread_has_observed(rules: LoadedModule) -> None:
    out = zeros(1)

    assert clean(rules["last_one_clears"].simulate(zeros(8), out, grid=8, block=1))

    assert out[0] == 28
    with pytest.raises(SimulationError, match="race: store writes element 0 of count"):
        rules["first_one_clears"].simulate(zeros(1, np.uint32), grid=8, block=1)


def test_a_barrier_without_some_lanes_of_a_warp_is_divergence(rules: LoadedModule) -> None:
    assert clean(rules["barrier_of_some_lanes"].simulate(zeros(40), block=40))
    with pytest.raises(SimulationError, match=r"divergence.*without lanes 8\.\.31"):
        rules["barrier_of_some_lanes"].simulate(zeros(64), block=64)


def test_a_barrier_without_whole_warps_that_have_ended_is_right(rules: LoadedModule) -> None:
    out = zeros(32)

    assert clean(rules["barrier_of_the_first"].simulate(out, 32, block=96))

    assert out.all()


def test_a_warning_tells_of_a_mask_that_names_lanes_which_had_ended_and_of_no_barrier(rules: LoadedModule) -> None:
    run = rules["barrier_of_the_first"].simulate(zeros(40), 40, block=96)

    (masked,) = run.warnings
    assert "__syncwarp: its mask names lanes 8..31, which had ended" in masked


def test_a_mask_may_name_lanes_that_a_block_does_not_have(rules: LoadedModule) -> None:
    assert clean(rules["barrier_of_the_first"].simulate(zeros(40), 40, block=40))


def test_a_shuffle_from_a_lane_that_has_ended_is_told(rules: LoadedModule) -> None:
    assert clean(rules["shuffle_from_ended"].simulate(zeros(32), 32, block=32))
    with pytest.raises(SimulationError, match="read from one that has ended"):
        rules["shuffle_from_ended"].simulate(zeros(32), 16, block=32)


NEXT = """
__global__ void k(const float* x, const int* id, float* out, int n) {
    int i = threadIdx.x;
    if (i < n) {
        int next = __shfl_down_sync(0xffffffffu, id[i], 1);
        if (i + ASKED == n || next != id[i]) out[i] = x[i];
    }
}
"""


@pytest.mark.parametrize("build", ["optimised", "unoptimised"])
def test_what_a_shuffle_reads_from_an_ended_lane_may_go_unused(build: str) -> None:
    """Lane 11 is the last one: what it reads does not decide where its own number does."""
    args = zeros(12, np.float32), np.arange(12, dtype=np.int32), zeros(12, np.float32), 12
    kernels = [load_cu(NEXT, defines={"ASKED": asked})["k"] for asked in (1, 20)]
    unused, used = (each.built(build) if build == "unoptimised" else each for each in kernels)

    unused.simulate(*args, block=32)

    with pytest.raises(SimulationError, match="read from one that has ended"):
        used.simulate(*args, block=32)


UNNAMED = """
struct Rows { const float* first; __device__ float at(int i) const { return first[i]; } };
__device__ __forceinline__ float one(Rows rows, int i) { return rows.at(i); }
__global__ void k(const float* x, float* y) {
    float sum[1] = {x[threadIdx.x]};
    for (int i = 0; i < N; ++i) sum[i] += one(Rows{x}, i);
    y[threadIdx.x] = sum[0];
}
"""


def test_what_follows_a_local_array_keeps_its_alignment_as_it_is_written() -> None:
    """Behind the four bytes of ``sum`` the text that is not optimised has structures without a name."""
    right, past = (load_cu(UNNAMED, defines={"N": n})["k"].built("unoptimised") for n in (1, 12))
    args = np.arange(32, dtype=np.float32), zeros(32, np.float32)

    right.simulate(*args, block=32)

    with pytest.raises(SimulationError, match="outside of sum"):
        past.simulate(*args, block=32)


def test_a_load_wider_than_its_array_is_told() -> None:
    kernel = load_cu("__global__ void k(const unsigned char* x, int* y) { *y = *(const unsigned*)x; }\n")["k"]

    with pytest.raises(SimulationError, match="load reads outside of x"):
        kernel.simulate(np.zeros(3, np.uint8), zeros(1), block=1)


def test_fences_by_every_thread_order_what_the_last_cta_reads(rules: LoadedModule) -> None:
    out = zeros(64)

    assert clean(rules["last_of_all"].simulate(zeros(40 * 64), out, 0, grid=40, block=64))

    assert (out == 40 * np.arange(64)).all()


def test_without_the_fences_before_the_atomics_the_last_cta_races(rules: LoadedModule) -> None:
    with pytest.raises(SimulationError, match=r"race: load reads element .* of partial"):
        rules["last_of_all"].simulate(zeros(4 * 64), zeros(64), 1, grid=4, block=64)


def test_without_the_fence_behind_its_atomic_the_last_cta_is_warned(rules: LoadedModule) -> None:
    run = rules["last_of_all"].simulate(zeros(4 * 64), zeros(64), 2, grid=4, block=64)

    assert ["behind that atomic" in each for each in run.warnings] == [True]


def test_what_is_read_as_a_constant_is_not_written(rules: LoadedModule) -> None:
    both = np.arange(64, dtype=np.int32)

    assert clean(rules["cached"].simulate(zeros(32), zeros(32), zeros(32), 1, block=32))
    assert clean(rules["cached"].simulate(both[:32], both[32:], zeros(32), 1, block=32))  # other bytes of one array
    with pytest.raises(SimulationError, match=r"reads .* as a constant \(__ldg, .nc\)") as raised:
        rules["cached"].simulate(both[:32], both[:32], zeros(32), 1, block=32)

    assert "__restrict__" in str(raised.value)


def test_a_thread_that_overwrites_what_it_alone_has_read_as_a_constant_is_warned_of(rules: LoadedModule) -> None:
    values = np.arange(32, dtype=np.int32)

    run = rules["cached"].simulate(values, values, zeros(32), 0, block=32)

    assert ["the same thread later" in text for text in run.warnings] == [True]
    assert (values == 2 * np.arange(32)).all()


def test_an_m_barrier_that_ends_unordered_with_its_arrivals_is_a_warning(rules: LoadedModule) -> None:
    run = rules["ended_by_another"].simulate(zeros(1), block=32)

    assert ["an m-barrier" in text and "unordered" in text for text in run.warnings] == [True]


def test_an_m_barrier_that_one_lane_ends_for_those_that_arrived_with_it_is_right(rules: LoadedModule) -> None:
    assert clean(rules["ended_for_all"].simulate(zeros(1), block=32))


def test_volatile_accesses_that_rely_on_lockstep_race(rules: LoadedModule) -> None:
    with pytest.raises(SimulationError, match="race") as raised:
        rules["lockstep"].simulate(zeros(1), block=32)

    assert "sm_70" in str(raised.value)


def test_a_lane_may_tell_another_by_a_volatile_flag(rules: LoadedModule) -> None:
    out = zeros(1)

    assert clean(rules["lane_tells_lane"].simulate(out, block=32))

    assert out[0] == 7


def test_a_plain_read_that_a_compare_and_swap_checks_is_a_warning(rules: LoadedModule) -> None:
    values = np.arange(32, dtype=np.float32)
    out = zeros(1, np.float32)

    run = rules["largest"].simulate(values, out, block=32)

    assert out[0] == 31
    assert ["read plainly" in text for text in run.warnings] == [True]


def test_a_plain_read_beside_other_atomics_races(rules: LoadedModule) -> None:
    with pytest.raises(SimulationError, match="race"):
        rules["peeks"].simulate(zeros(1), zeros(1), grid=2, block=32)


def test_groups_of_a_warp_with_masks_of_their_own_talk_among_themselves(rules: LoadedModule) -> None:
    values = np.arange(32, dtype=np.int32)
    sums, votes = zeros(32), zeros(32, np.uint32)

    assert clean(rules["halves"].simulate(values, sums, votes, block=32))

    assert sums.tolist() == [120] * 16 + [376] * 16
    bits = sum(1 << k for k in range(0, 32, 3))
    assert votes.tolist() == [bits & 0xFFFF] * 16 + [bits & 0xFFFF0000] * 16


def test_an_atomic_whose_result_nothing_reads_shows_its_thread_nothing(rules: LoadedModule) -> None:
    with pytest.raises(SimulationError, match=r"race: .*data"):
        rules["counts_and_reads"].simulate(zeros(1), zeros(2), zeros(2), grid=2, block=1)


def test_atomics_race_with_a_plain_store_among_them(rules: LoadedModule) -> None:
    with pytest.raises(SimulationError, match=r"race: atomic add writes bins\[0\]"):
        rules["bins_without_barrier"].simulate(np.arange(64, dtype=np.int32), zeros(4), block=64)


def test_masks_of_lanes_that_stay_out_do_not_count(rules: LoadedModule) -> None:
    sums = zeros(32)

    assert clean(rules["odd_ones"].simulate(np.arange(32, dtype=np.int32), sums, block=32))

    assert sums.tolist() == [0, 256] * 16


def test_lanes_need_no_value_that_nobody_shuffles_from(rules: LoadedModule) -> None:
    out = zeros(32)

    assert clean(rules["told_by_one_lane"].simulate(np.full(1, 7, np.int32), out, block=32))

    assert (out == 7 + np.arange(32)).all()
    with pytest.raises(SimulationError, match="uninitialised"):
        rules["asks_another_lane"].simulate(out, block=32)


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_index_below_0_is_told_by_the_name_of_its_array(rules: LoadedModule, name: str) -> None:
    steps = {"a": (-1, 0), "b": (0, -3)}[name]

    with pytest.raises(SimulationError, match=f"outside of {name}") as raised:
        rules["shifted"].simulate(zeros(64), zeros(64), *steps, block=64)

    assert f"{-4 * min(steps)} bytes before {name}, in CTA (0, 0, 0), warp 0, lane" in str(raised.value.given)


def test_a_read_below_an_array_hides_no_race_behind_it() -> None:
    text = """
__global__ void k(const int* x, int* out) {
    __shared__ int s[66];
    s[threadIdx.x + 2] = x[threadIdx.x];
    if (threadIdx.x < 2) s[threadIdx.x] = x[(int)threadIdx.x - 2];
    out[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 2];
}
"""
    with pytest.raises(SimulationError) as raised:
        load_cu(text)["k"].simulate(zeros(64), zeros(64), grid=1, block=64)

    assert [(each.kind, each.line) for each in raised.value.findings][:2] == [("bounds", 5), ("races", 6)]
    assert raised.value.given == "8 bytes before x, in CTA (0, 0, 0), warp 0, lanes 0..1"


def test_an_alias_of_a_namespace_is_kept_where_host_code_is_left_out() -> None:
    text = (
        "#include <vector>\nnamespace deep { __device__ int seven() { return 7; } }\nnamespace d = deep;\n"
        "__global__ void k(int* out) { *out = d::seven(); }\n"
        "int main() { std::vector<int> v(1); k<<<1, 1>>>(v.data()); }\n"
    )
    out = zeros(1)

    load_cu(text)["k"].simulate(out, block=1)

    assert out[0] == 7


def test_what_nvcc_includes_by_itself_is_there_and_aligned_types_stay_whole() -> None:
    text = (
        "struct alignas(8) Pair { float m, d; };\ntypedef struct __attribute__((aligned(4))) { int q; } Single;\n"
        "__global__ void k(Pair* out, Single* in) { uint n = in->q; *out = {-INFINITY, std::abs(-2.0f) * n}; }\n"
        "int main() { std::vector<int> v(1); k<<<1, 1>>>(nullptr, nullptr); }\n"
    )
    out = zeros(2, np.float32)

    load_cu(text)["k"].simulate(out, np.full(1, 3, np.int32), block=1)

    assert out.tolist() == [-np.inf, 6.0]


DIVISIONS = """
extern "C" __global__ void quotient(const int* a, const int* b, int* out) { *out = *a / *b; }
extern "C" __global__ void of_64_bits(const long long* a, const long long* b, long long* out) { *out = *a % *b; }
extern "C" __global__ void branch(const unsigned* a, const unsigned* b, int* out) { if (*a % *b == 1) *out = 1; }
extern "C" __global__ void address(const int* a, const int* b, int* out) { *out = a[*a / *b & 1]; }
extern "C" __global__ void handed_on(const int* a, const int* b, int* out) {
    __shared__ int s[32];
    s[threadIdx.x] = *a / *b;
    __syncthreads();
    *out = s[31 - threadIdx.x];
}
extern "C" __global__ void guarded(const int* a, const int* b, int* out) { *out = *b ? *a / *b : 3; }
extern "C" __global__ void not_chosen(const int* a, const int* b, int* out) {
    int q = *a / *b;
    *out = *b ? q : 3;
}
extern "C" __global__ void shifted(const int* a, const int* b, int* out) { *out = *a << (*b + 40); }
"""


@pytest.fixture(scope="module")
def divisions() -> LoadedModule:
    return load_cu(DIVISIONS)


@pytest.mark.parametrize("kernel", ["quotient", "of_64_bits", "branch", "address", "handed_on"])
def test_a_division_by_zero_that_something_depends_on_is_told_at_its_line(divisions: LoadedModule, kernel: str) -> None:
    a, b, out = (np.array([n, n], np.int64 if "64" in kernel else np.int32) for n in (7, 3, 0))
    line = next(n for n, text in enumerate(DIVISIONS.splitlines(), 1) if f" {kernel}(" in text)

    assert clean(divisions[kernel].simulate(a, b, out, block=1 + 31 * (kernel == "handed_on")))
    with pytest.raises(SimulationError, match="divides by zero") as raised:
        divisions[kernel].simulate(a, 0 * b, out, block=1 + 31 * (kernel == "handed_on"))

    assert raised.value.at is not None
    assert raised.value.at.line == line + 2 * (kernel == "handed_on")
    assert "7 and 0 in CTA (0, 0, 0)" in str(raised.value.given)


@pytest.mark.parametrize("kernel", ["guarded", "not_chosen", "shifted"])
def test_a_division_by_zero_that_nothing_depends_on_is_none(divisions: LoadedModule, kernel: str) -> None:
    a, b, out = (np.array([n], np.int32) for n in (7, 0, 1))

    assert clean(divisions[kernel].simulate(a, b, out, block=1))

    assert out[0] == (0 if kernel == "shifted" else 3)


def test_a_run_that_is_begun_again_starts_from_the_same_arguments() -> None:
    text = """extern "C" __global__ void k(int* a, int* b) { *b += 1; int q = *a / (*b - 1); *a = *b == 1 ? 5 : q; }"""
    a, b = np.array([7], np.int32), np.zeros(1, np.int32)

    assert clean(load_cu(text)["k"].simulate(a, b, block=1))

    assert (a[0], b[0]) == (5, 1)


@pytest.mark.parametrize(
    "test", ["s[0] == 5", "s[0] != 5", "s[0] > 5", "s[0] < 5", "(unsigned)s[0] >= 5", "f[0] > 5.0f"]
)
def test_a_branch_on_an_uninitialised_value_is_told_whatever_it_is_compared_with(test: str) -> None:
    body = f"__shared__ int s[1]; __shared__ float f[1]; if (*out) *s = *out, *f = *out; if ({test}) *out = 1;"

    with pytest.raises(SimulationError, match="uninitialised"):
        load_cu(f'extern "C" __global__ void k(int* out) {{ {body} }}')["k"].simulate(zeros(1), block=1)


SCALAR = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry count(.param .u64 .ptr .global p, .param .u64 .ptr .global out)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.b64 %rd1, [p];
    ld.param.b64 %rd2, [out];
    mov.u32 %r3, %tid.x;
    mad.wide.u32 %rd3, %r3, 4, %rd2;
    mov.u32 %r1, 0;
    ld.global.b32 {{ %r1 }}, [ %rd1 + 0 ];
    add.s32 %r2, %r1, 1;
    setp.eq.b32 %p1, %r3, 0;
    @%p1 st.global.b32 [ %rd1 + 0 ], {{ %r2 }};
    {more}
    ret;
}}
"""


def test_a_scalar_that_threads_read_without_using_it_does_not_race_with_its_store() -> None:
    """Triton reads scalars in every thread, and stores them in the first."""
    count = zeros(1)

    run = load_ptx(SCALAR.format(more=""))["count"].simulate(count, zeros(128), grid=1, block=128)

    assert run.warnings == []
    assert count[0] == 1


def test_a_scalar_that_all_threads_use_races_with_its_store() -> None:
    kernel = load_ptx(SCALAR.format(more="st.global.b32 [%rd3], %r1;"))["count"]

    with pytest.raises(SimulationError, match="race: store writes element 0 of p, which another thread has read"):
        kernel.simulate(zeros(1), zeros(128), grid=1, block=128)


def test_a_scalar_outside_of_its_array_is_told_though_one_thread_alone_uses_it() -> None:
    kernel = load_ptx(SCALAR.format(more="").replace("[ %rd1 + 0 ];", "[ %rd1 + 8 ];"))["count"]

    with pytest.raises(SimulationError, match="load reads outside of p"):
        kernel.simulate(zeros(1), zeros(128), grid=1, block=128)


def test_fences_of_a_cta_order_what_its_lanes_did_in_clusters_too(rules: LoadedModule) -> None:
    out = zeros(2)

    assert clean(rules["last_warp"].simulate(out, zeros(256), grid=2, block=128))

    assert out.tolist() == [128 * 127 // 2] * 2


def test_fences_of_a_cta_order_nothing_between_ctas_of_a_cluster(rules: LoadedModule) -> None:
    out = zeros(1)

    assert clean(rules["told_by_another_lane"].simulate(out, zeros(1), zeros(1), 1, grid=2, block=32))

    assert out[0] == 7
    with pytest.raises(SimulationError, match="race: load reads element 0 of data"):
        rules["told_by_another_lane"].simulate(out, zeros(1), zeros(1), 0, grid=2, block=32)


HALF = """
__global__ void k(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x < 16) {
        for (int step = FIRST; step; step /= 2) v += __shfl_down_sync(0xffff, v, step);
        if (threadIdx.x == 0) *y = v;
    } else {
        y[threadIdx.x] = v;
    }
}
"""


def test_what_a_shuffle_reads_outside_of_its_mask_counts_where_it_is_used() -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)

    load_cu(HALF.replace("FIRST", "8"))["k"].simulate(x, y, grid=1, block=32)

    assert y[0] == sum(range(16))  # what lanes 8 to 15 read comes to no lane that stores
    with pytest.raises(SimulationError, match="lanes that read from one outside the mask"):
        load_cu(HALF.replace("FIRST", "16"))["k"].simulate(x, y, grid=1, block=32)


def test_infinity_is_a_constant_expression() -> None:
    body = "constexpr T a = -INFINITY, b = NAN; x[0] = a; x[1] = b;"
    text = f"#include <cmath>\ntemplate <typename T> __global__ void k(T* x) {{ {body} }}\n"
    out = zeros(2, np.float32)

    load_cu(text, kernels=["k<float>"])["k<float>"].simulate(out, block=1)

    assert out[0] == -np.inf
    assert np.isnan(out[1])
