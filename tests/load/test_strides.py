"""Which parameters lie between elements of arrays, and which say how much there is to do."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.load.strides import ParameterPlace, strides_of

TEXT = """
struct Table { int shape[8]; int at[8]; };
struct Params { const float* x; int n; long xs; };
__global__ void k(const float* x, float* y, int n, int s, long t, int u, Table table, Params p) {
    int i = blockIdx.x * 64 + threadIdx.x, r = blockIdx.y, c = blockIdx.z;
    STEP
}
"""
NAMES = ("x", "y", "n", "s", "t", "u", "table", "p")
PLACES = {ParameterPlace(7, 0): "p.x", ParameterPlace(7, 8): "p.n", ParameterPlace(7, 16): "p.xs"}


def named(place: ParameterPlace) -> str:
    return PLACES.get(place, NAMES[place.parameter])


def uses(step: str) -> tuple[dict[str, set[str]], set[str]]:
    """Of a kernel: the numbers between elements, each with all that lead to the same places; and the indices."""
    strides = strides_of(tw.load_cu(TEXT.replace("STEP", step))["k"].entry)
    together = {named(place): set(map(named, others)) for place, others in strides.together.items()}
    numbers = {name: others for name, others in together.items() if name not in ("x", "y", "p.x")}
    return numbers, set(map(named, strides.indices))


@pytest.mark.parametrize(
    ("step", "strides"),
    [
        ("y[i] = x[r * s + i];", {"s": {"x", "s"}}),
        ("y[r * u + i] = x[r * s + c * t + i];", {"s": {"x", "s", "t"}, "t": {"x", "s", "t"}, "u": {"y", "u"}}),
        ("if (i < n) y[i] = x[(size_t)s * i];", {"s": {"x", "s"}}),
        ("float sum = 0; for (int j = 0; j < n; j++) sum += x[j * s + i]; y[i] = sum;", {"s": {"x", "s"}}),
        ("y[i] = *(const float*)((const char*)x + r * t + i * 4);", {"t": {"x", "t"}}),
        ("y[i] = x[i + u];", {"u": {"x", "u"}}),
        ("y[i] = i < p.n ? p.x[i * p.xs] : 0;", {"p.xs": {"p.x", "p.xs"}}),
        ("atomicAdd(&y[r * s], 1.f);", {"s": {"y", "s"}}),
        ("const Params* q = &p; y[i] = i < p.n ? q[i & 0].x[i * q[i & 0].xs] : 0;", {"p.xs": {"p.x", "p.xs"}}),
    ],
)
def test_what_is_multiplied_and_becomes_an_address_is_a_stride(step: str, strides: dict[str, set[str]]) -> None:
    assert uses(step) == (strides, set())


@pytest.mark.parametrize(
    "step",
    [
        "if (i < s) y[i] = x[r * s + i];",
        "for (int j = i; j < s; j += 64) y[r * s + j] = 0;",
        "y[i / s] = x[i * s];",
        "y[i % s] = 1;",
        "y[i * s] = s;",
        "y[i] = i * s;",
        "y[i & s] = 1;",
        "y[i << s] = 1;",
        "y[i * max(s, 3)] = 1;",
        "__shared__ float rows[512]; rows[r * s + threadIdx.x] = x[i]; __syncthreads(); y[i] = rows[63 - threadIdx.x];",
    ],
)
def test_what_is_used_in_another_way_is_none(step: str) -> None:
    assert uses(step) == ({}, set())


def test_what_chooses_an_element_of_a_table_among_the_parameters_is_an_index() -> None:
    assert uses("if (i < table.shape[n]) y[i] = x[i];") == ({}, {"n"})
    assert uses("if (n < 8 && i < table.shape[n]) y[i] = x[i];") == ({}, {"n"})
    assert uses("if (n < 8 && i < table.shape[i % 8]) y[i * n] = x[i];") == ({}, set())
