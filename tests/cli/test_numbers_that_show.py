"""What some numbers alone show: ids in shared memory, rows that bulk copies take, multiples that are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import ran
from tilewright.load.cu_guards import multiple_of, only_reads

COUNTS = """
__global__ void count(int* ids, int* out, int n) {
    __shared__ int counts[33 * 32];
    for (int i = 0; i < 32; i++) counts[threadIdx.x * 33 + i] = 0;
    SYNC
    for (int i = threadIdx.x; i < n; i += 32) counts[(threadIdx.x * 33 + ids[i]) % 1056] = i;
    __syncthreads();
    out[threadIdx.x] = counts[threadIdx.x * 33 + SHIFT];
}
void run(int* ids, int* out, int n) { count<<<1, 32>>>(ids, out, n); }
"""
BULK = """
#include <cstdint>
__device__ uint32_t at(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__global__ void first(const float* x, float* out, int cols) {
    __shared__ alignas(128) float row[128];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%1], %0;" ::"r"(512), "r"(at(&full)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            at(row)), "l"(x + (size_t)blockIdx.x * cols), "r"(512), "r"(at(&full)) : "memory");
    }
    __syncthreads();
    WAIT
    out[(size_t)blockIdx.x * cols + threadIdx.x] = row[threadIdx.x];
}
void run(const float* x, float* out, int rows, int cols) {
    HOST_ASSERT(cols % 128 == 0);
    first<<<rows, 128>>>(x, out, cols);
}
"""
WAIT = """for (int done = 0; !done;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.s32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at(&full)) : "memory");"""


@pytest.mark.parametrize(("wait", "code"), [(WAIT, 0), ("", 1)], ids=["waits", "waits not"])
def test_an_array_that_bulk_copies_read_is_as_long_as_they_reach(wait: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(BULK.replace("WAIT", wait))

    ended, out, error = ran("check", tmp_path / "k.cu", "--no-both")

    assert ended == code, out + error
    assert "reads outside" not in out
    assert "--size cols=128" in out


def test_ids_that_are_all_different_show_a_race_in_shared_memory(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(COUNTS.replace("SYNC", "").replace("SHIFT", "0"))

    ended, out, error = ran("check", tmp_path / "k.cu", "--no-both")

    assert (ended, "k.cu:6: race" in out) == (1, True), out + error


def test_a_multiple_that_is_asked_for_is_that_constant() -> None:
    texts = ["CHECK(x % 48 == 0, 1); const int rows = t.size(0); TORCH_CHECK((rows % kTile) == 0); if (m % 8 == 0) {}",
             "constexpr int kTile = 32;"]  # fmt: skip

    assert [multiple_of(texts, name) for name in ("x", "rows", "t.size(0)", "m", "n")] == [48, 32, 32, 1, 1]


@pytest.mark.parametrize(
    ("body", "is_read"),
    [("y[0] = a[b[1]];", True), ("a[0] = 1;", False), ("a[0] += 1;", False), ("atomicAdd(&a[0], 1);", False),
     ("f(a);", False), ("y[0] = a[0] == 2;", True), ("++a[3];", False)],
)  # fmt: skip
def test_an_array_whose_elements_are_taken_alone_is_read(body: str, is_read: bool) -> None:
    text = f"__global__ void k(int* a, int* b, int* y) {{ {body} }}"

    assert only_reads([text], "k", "a") is is_read
