"""Tiles in shared memory that a turn of a loop fills in part, and what the turn before has left in the rest."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.load.cu_idioms import fills_in_part
from tilewright.verdict import Verdict

PRODUCT = """
__global__ void k(const float* a, const float* b, float* c, int n) {
    __shared__ float s[16][16], t[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    float sum = 0;
    for (int begin = 0; begin < n; begin += 16) {
        FILL
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += s[y][k] * t[k][x];
        __syncthreads();
    }
    c[y * 16 + x] = sum;
}
"""
LEFT = "if (begin + x < n) s[y][x] = a[y * n + begin + x];\n"
RIGHT = "if (begin + y < n) t[y][x] = b[(begin + y) * 16 + x];\n"


def product(fill: str, n: int = 40) -> Verdict:
    random = np.random.default_rng(0)
    arrays = [random.random(16 * n, np.float32) for _ in range(2)]
    kernel = tw.load_cu(PRODUCT.replace("FILL", fill))["k"]
    return tw.check(kernel, *arrays, np.zeros(256, np.float32), n, grid=1, block=(16, 16))


def test_a_tile_that_the_last_turn_fills_in_part_is_told_at_the_store() -> None:
    found = product(LEFT + RIGHT)

    assert [(each.kind, each.line) for each in found.findings] == [("poison", 7)]
    assert "a turn of the loop stores to a part of s" in found.findings[0].message


@pytest.mark.parametrize(
    "fill",
    [
        LEFT + "else s[y][x] = 0;\n" + RIGHT + "else t[y][x] = 0;\n",
        LEFT + RIGHT + "else t[y][x] = 0;\n",  # what is left is finite, times zero
        "s[y][x] = 0; t[y][x] = 0; __syncthreads();\n" + LEFT + RIGHT,
        "s[y][x] = begin + x < n ? a[y * n + begin + x] : 0;\n t[y][x] = begin + y < n ? b[(begin + y) * 16 + x] : 0;",
    ],
)
def test_zeros_in_the_rest_are_clean(fill: str) -> None:
    found = product(fill)

    assert (found.status, found.findings) == ("clean", ())


def test_turns_that_fill_the_tile_are_clean() -> None:
    assert product(LEFT + RIGHT, n=48).status == "clean"


LOOPS = {
    "a ring of stages": """
        __shared__ float s[3][64];
        for (int stage = 0; stage < 2; stage++) if (stage * 64 + t < n) s[stage][t] = a[stage * 64 + t];
        for (int i = 0; i * 64 < n; i++) {
            if ((i + 2) * 64 + t < n) s[(i + 2) % 3][t] = a[(i + 2) * 64 + t];
            __syncthreads();
            if (i * 64 + t < n) sum += s[i % 3][63 - t < n - i * 64 ? 63 - t : t];
            __syncthreads();
        }
    """,
    "no more than is there is read": """
        __shared__ float s[64];
        for (int i = 0; i < n; i += 64) {
            if (i + t < n) s[t] = a[i + t];
            __syncthreads();
            for (int k = 0; k < 64 && i + k < n; k++) sum += s[k];
            __syncthreads();
        }
    """,
    "a scan": """
        __shared__ float s[64];
        s[t] = a[t];
        __syncthreads();
        for (int o = 1; o < 64; o *= 2) {
            float other = 0;
            if (t >= o) other = s[t - o];
            __syncthreads();
            if (t >= o) s[t] = s[t] + other;
            __syncthreads();
        }
        sum = s[t];
    """,
    "lanes whose sums nobody stores": """
        __shared__ float s[64];
        for (int i = 0; i < n; i += 32) {
            if (t < 64 - i / 2) s[t] = a[i + t];
            __syncthreads();
            if (t < 64 - n / 2) sum += s[t];
            __syncthreads();
        }
    """,
}


@pytest.mark.parametrize("name", LOOPS)
def test_leftovers_that_change_no_result_are_clean(name: str) -> None:
    text = (
        f"__global__ void k(const float* a, float* c, int n) {{\n int t = threadIdx.x; float sum = 0;\n{LOOPS[name]}\n"
    )
    kernel = tw.load_cu(text + " c[t] = sum;\n}\n")["k"]

    found = tw.check(kernel, np.arange(512, dtype=np.float32), np.zeros(64, np.float32), 100, grid=1, block=64)

    assert (found.status, found.findings) == ("clean", ())


def test_only_guarded_copies_in_loops_with_barriers_count() -> None:
    loop = "for (int i = 0; i < n; i++) {{ {} __syncthreads(); }}"
    head = "__global__ void k(float* a, int n, int* f) {{ __shared__ float s[64]; int t = threadIdx.x; {} }}"

    def counts(step: str, around: str = loop) -> bool:
        return fills_in_part(head.format(around.format(step)))

    assert counts("if (i + t < n) s[t] = a[i + t];")
    assert counts("if (i + t < n) { s[t] = __ldg(&a[i + t]); }")
    assert not counts("s[t] = a[i + t];")
    assert not counts("if (f[i]) s[t] = a[i + t];")
    assert not counts("if (t < i) s[t] = s[t] + a[i];")
    assert not counts("if (i + t < n) s[t] = 0;")
    assert not counts("if (t < n) s[t] = a[t];", "{}")
