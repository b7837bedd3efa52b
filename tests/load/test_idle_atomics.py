"""Plain reads beside atomics that change nothing, and beside those that they only make unnecessary."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.verdict import Verdict

TEXT = """
__global__ void k(TYPE* p, TYPE* out) {
    int i = blockIdx.x * 64 + threadIdx.x;
    TYPE x = i % 7;
    STEP
}
"""


def verdict(step: str, kind: str = "int", strict: str = "") -> Verdict:
    numbers = {"int": np.int32, "unsigned": np.uint32, "float": np.float32}[kind]
    arrays = np.full(4, 3, numbers), np.zeros(128, numbers)
    kernel = tw.load_cu(TEXT.replace("STEP", step).replace("TYPE", kind))["k"]
    return tw.check(kernel, *arrays, grid=2, block=64, strict=strict)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("out[i] = p[0] + atomicAdd(p, 0);", "int"),
        ("out[i] = p[0] + atomicAdd(p, 0.f);", "float"),
        ("out[i] = p[0] + atomicOr(p, 0);", "int"),
        ("out[i] = p[0] + atomicAnd(p, -1);", "int"),
        ("out[i] = p[0] + atomicXor(&p[0], 0u);", "unsigned"),
        ("out[i] = atomicAdd(p, 0) + p[0];", "int"),
        ("__shared__ TYPE s; if (threadIdx.x == 0) s = 1; __syncthreads(); out[i] = s + atomicAdd(&s, 0);", "int"),
    ],
)
def test_an_atomic_that_leaves_the_value_races_with_no_plain_read(step: str, kind: str) -> None:
    found = verdict(step, kind)

    assert (found.status, found.findings) == ("clean", ())


@pytest.mark.parametrize(
    "step",
    [
        "out[i] = p[0] + atomicAdd(p, 1);",
        "out[i] = p[0] + atomicAdd(p, i == 100);",
        "out[i] = p[0] + atomicMax(p, 0);",
        "if (i == 0) p[0] = 2; out[i] = atomicAdd(p, 0);",
    ],
)
def test_an_atomic_that_may_change_it_or_meets_a_plain_store_does(step: str) -> None:
    assert "races" in {finding.kind for finding in verdict(step).findings}


GUARDED = [
    "if (x < p[0]) atomicMin(p, x);",
    "if (p[1] != 1) { if (atomicExch(p + 1, 1) != 1) out[0] = 7; }",
    "int old = p[0] + 1; if (old <= x) { atomicMax(p, x); }",
    "if (!(p[2] & 1 << x)) atomicOr(p + 2, 1 << x);",
]


@pytest.mark.parametrize("step", GUARDED)
def test_a_read_that_only_spares_an_atomic_is_an_idiom(step: str) -> None:
    silent, strict = verdict(step), verdict(step, strict="checked-read")

    assert (silent.status, silent.findings) == ("clean", ())
    assert {finding.idiom for finding in strict.findings} == {"checked-read"}


@pytest.mark.parametrize(
    "step",
    [
        "int old = p[0]; if (x < old) atomicMin(p, x); out[i] = old;",
        "if (x < p[0]) { atomicMin(p, x); out[i] = 1; }",
        "if (p[1] == 3) atomicAdd(p + 1, 1);",
        "if (x < p[0]) atomicMin(p, x); else out[i] = 1;",
        "atomicMin(p, x); if (p[0] == 1) out[i] = 1;",
    ],
)
def test_a_read_on_which_more_depends_is_a_race(step: str) -> None:
    assert "races" in {finding.kind for finding in verdict(step).findings}


SWAPS = [
    "int old = *p, seen; do { seen = old; old = atomicCAS(p, seen, seen + x); } while (seen != old);",
    "while (true) { int old = p[1]; if (old == x) break; if (atomicCAS(p + 1, old, x) == old) break; }",
    "__shared__ int s[64]; s[threadIdx.x] = *p; int old = s[threadIdx.x]; atomicCAS(p, old, old + 1);",
]


@pytest.mark.parametrize("step", SWAPS)
def test_a_read_that_leads_to_what_a_compare_and_swap_does_is_an_idiom(step: str) -> None:
    assert verdict(step).status == "clean"


@pytest.mark.parametrize(
    "step",
    [
        "if (blockIdx.x == 0) atomicCAS(p, 3, 7); else out[i] = p[0];",
        "if (i == 127) out[0] = p[1]; else atomicCAS(p + 1, 3, x);",
        "if (i >= 64) { out[i] = *p + 1; }\nelse { int old = p[2], seen; "
        "do { seen = old; old = atomicCAS(p, seen, x + seen); } while (seen != old); }",
    ],
)
def test_a_read_beside_a_compare_and_swap_that_leads_elsewhere_is_a_race(step: str) -> None:
    result = verdict(step)

    assert result.status == "wrong"
    assert "races" in {finding.kind for finding in result.findings}
