"""PTX that Triton made: it computes the kernel's results, every check is silent, and a missing barrier is reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.load.triton_texts import text_of
from tilewright.errors import SimulationError

N = 64
ARRAYS = {name: np.random.default_rng(k).standard_normal((N, N)).astype(np.float16) for k, name in enumerate("ab")}


def run(
    name: str, target: str, kernel: str, *args: Any, grid: Any = 1, without: str = "", **options: Any
) -> tw.sim.Run:
    """Run a text, without the first line that has these words."""
    text, shared = text_of(name, target)
    if without:
        lines = text.split("\n")
        del lines[next(k for k, line in enumerate(lines) if without in line)]
        text = "\n".join(lines)
    return tw.load_ptx(text)[kernel].simulate(*args, None, None, grid=grid, shared_bytes=shared, **options)


def product(target: str, size: int = N, **options: Any) -> list[str]:
    """The warnings of a product, which is right."""
    c = np.zeros((size, size), np.float16)
    a, b = (np.tile(each, (size // N, size // N)) for each in ARRAYS.values())
    found = run("matmul", target, "matmul", a, b, c, size, size, size, grid=(size // N, size // N), **options)
    assert np.allclose(c, a.astype(float) @ b.astype(float), atol=0.05, rtol=2e-3)
    return found.warnings


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_product_by_cp_async_is_right_and_clean(target: str) -> None:
    assert product(target) == []


@pytest.mark.parametrize(
    ("target", "without", "what"),
    [
        ("sm_80", "cp.async.wait_group", "race|not have written|may still"),
        ("sm_80", "bar.sync", "race"),
        ("sm_90a", "wgmma.wait_group.sync.aligned 0", "may still|may not"),
    ],
)
def test_what_a_product_needs_is_told_where_it_is_missing(target: str, without: str, what: str) -> None:
    with pytest.raises(SimulationError, match=what) as raised:
        product(target, 128, without=without)

    assert str(raised.value.at).startswith("triton_ten.py:")


def test_a_fence_between_copies_and_wgmma_that_is_missing_is_told() -> None:
    what = r"wgmma\.mma_async\.ss reads global_smem.*without a proxy fence"
    with pytest.raises(SimulationError, match=what) as raised:
        product("sm_90a", without="fence.proxy.async")

    assert str(raised.value.at).startswith("triton_ten.py:60")


def test_a_product_by_tma_takes_its_tensor_maps_as_arguments() -> None:
    c = np.zeros((N, N), np.float16)
    parts = []
    for array in (*ARRAYS.values(), c):
        parts += [tw.TensorMap(array, (N, N), swizzle=3), N, N, N, 1]

    found = run("matmul TMA", "sm_90a", "matmul_tma", *parts, N)

    assert found.warnings == []
    assert np.allclose(c, ARRAYS["a"].astype(float) @ ARRAYS["b"].astype(float), atol=0.05, rtol=2e-3)


def test_one_array_may_be_behind_several_tensor_maps() -> None:
    a, c = ARRAYS["a"], np.zeros((N, N), np.float16)
    parts = []
    for array in (a, a, c):
        parts += [tw.TensorMap(array, (N, N), swizzle=3), N, N, N, 1]

    run("matmul TMA", "sm_90a", "matmul_tma", *parts, N)

    assert np.allclose(c, a.astype(float) @ a.astype(float), atol=0.05, rtol=2e-3)


def test_attention_keeps_a_factor_in_registers() -> None:
    q, k, v = (np.random.default_rng(i).standard_normal((128, N)).astype(np.float16) for i in range(3))
    out = np.zeros_like(q)

    found = run("attention", "sm_90a", "attention", q, k, v, out, 128, 1 / 8 / np.log(2), grid=(2, 1))

    scores = np.where(np.tri(128, dtype=bool), q.astype(float) @ k.astype(float).T / 8, -np.inf)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    assert found.warnings == []
    assert np.allclose(out, powers / powers.sum(1, keepdims=True) @ v.astype(float), atol=4e-3, rtol=4e-3)


def test_a_histogram_counts_in_shared_memory() -> None:
    x, counts = np.random.default_rng(1).integers(0, 64, 700).astype(np.int32), np.zeros(64, np.int32)

    run("histogram", "sm_80", "histogram", x, counts, 700, grid=2)

    assert (counts == np.bincount(x, minlength=64)).all()


def test_a_layer_norm_reduces_over_warps() -> None:
    x, out = np.random.default_rng(1).standard_normal((2, 1000)).astype(np.float32), np.zeros((2, 1000), np.float32)
    weight, bias = np.ones(1000, np.float32), np.zeros(1000, np.float32)

    found = run("layer norm", "sm_90a", "layer_norm", x, weight, bias, out, 1000, 1e-5, grid=2)

    centred = x - x.mean(1, keepdims=True, dtype=float)
    assert found.warnings == []
    assert np.allclose(out, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5), atol=1e-5)
