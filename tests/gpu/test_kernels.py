"""Kernels that people call, on tensors of torch: against float64, with gradients, compiled, captured."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import kernels

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # what torch warns of is its own affair

KINDS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
SHAPES = ((1, 1), (7, 5), (33, 64), (5, 257), (130, 1024), (3, 4095), (9, 8192), (4, 16384), (2, 32768), (2, 70001),
          (3, 131072), (2, 262144), (2, 262145), (601, 151), (300, 1001), (259, 32003), (257, 50257))  # fmt: skip


def spaced(torch: Any, rows: int, columns: int, kind: str, gap: int) -> Any:
    """Rows with a gap behind each."""
    whole = torch.rand(rows, columns + gap, device="cuda", dtype=torch.float32) * 4 - 2
    return whole.to(getattr(torch, kind))[:, :columns]


def normed(x: Any, *, centred: bool) -> Any:
    less = x - x.mean(-1, keepdim=True) if centred else x
    return less / (less.square().mean(-1, keepdim=True) + 1e-5).sqrt()


# By name: the call and what it means, of x and y of one shape and of v and w for the columns.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (lambda x, y, v, w: kernels.softmax(x), lambda x, y, v, w: x.softmax(-1)),
    "rms_norm": (
        lambda x, y, v, w: kernels.rms_norm(x, v, 1e-5), lambda x, y, v, w: normed(x, centred=False) * v,
    ),
    "layer_norm": (
        lambda x, y, v, w: kernels.layer_norm(x, v, w), lambda x, y, v, w: normed(x, centred=True) * v + w,
    ),
    "add_rms_norm": (
        lambda x, y, v, w: kernels.add_rms_norm(x, y, v, 1e-5)[0],
        lambda x, y, v, w: normed(x + y, centred=False) * v,
    ),
    "silu_mul": (lambda x, y, v, w: kernels.silu_mul(x, y), lambda x, y, v, w: x * x.sigmoid() * y),
    "transpose": (lambda x, y, v, w: kernels.transpose(x), lambda x, y, v, w: x.t()),
    "cross_entropy": (
        lambda x, y, v, w: kernels.cross_entropy(x, targets(x)),
        lambda x, y, v, w: x.logsumexp(-1) - x.gather(-1, targets(x)[:, None])[:, 0],
    ),
}  # fmt: skip


def targets(x: Any) -> Any:
    return x.new_zeros(x.shape[0]).long() + x.shape[1] // 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_and_its_gradient_are_those_of_float64(torch: Any, name: str, kind: str) -> None:
    call, meaning = CASES[name]
    for number, (rows, columns) in enumerate(SHAPES):
        args = [spaced(torch, rows, columns, kind, (0, 8, 1)[number % 3]) for _ in range(2)]
        args += [spaced(torch, 1, columns, kind, 0)[0] for _ in range(2)]
        mine, theirs = ([arg.to(to).detach().requires_grad_() for arg in args] for to in (args[0].dtype, torch.float64))

        found, wanted = call(*mine), meaning(*theirs)
        slope = torch.rand_like(wanted)
        found.backward(slope.to(found.dtype))
        wanted.backward(slope)

        close(torch, found, wanted, KINDS[kind], f"{name} of {rows} x {columns}")
        for one, other in zip(mine, theirs, strict=True):
            if other.grad is not None:
                close(torch, one.grad, other.grad, 2 * KINDS[kind], f"gradient of {name} of {rows} x {columns}")


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [262144, 200000, 131080])
def test_clusters_that_stay_take_all_of_the_longest_rows(torch: Any, columns: int, kind: str) -> None:
    x, v, w = (spaced(torch, rows, columns, kind, 0) for rows in (300, 1, 1))
    for name in ("rms_norm", "layer_norm"):
        call, meaning = CASES[name]
        found, wanted = call(x, x, v[0], w[0]), meaning(*(arg.double() for arg in (x, x, v[0], w[0])))
        close(torch, found, wanted, KINDS[kind], f"{name} of {columns}")


def close(torch: Any, found: Any, wanted: Any, gap: float, what: str) -> None:
    size = max(1.0, float(wanted.abs().max()))
    assert float((found.double() - wanted).abs().max()) <= gap * size, what


def test_cross_entropy_ignores_rows_and_marks_targets_that_are_no_columns(torch: Any) -> None:
    x = torch.randn(5, 1000, device="cuda", requires_grad=True)
    target = torch.tensor([3, -100, 999, 1000, 2**32 + 3], device="cuda")

    loss = kernels.cross_entropy(x, target)
    loss.sum().backward()

    assert torch.isnan(loss).tolist() == [False, False, False, True, True]
    assert torch.isnan(x.grad).any(1).tolist() == [False, False, False, True, True]
    assert float(loss[1]) == 0
    assert not x.grad[1].any()
    ignored = torch.nn.functional.cross_entropy(x, target % 1000, ignore_index=3, reduction="none")
    assert torch.allclose(kernels.cross_entropy(x, target % 1000, ignore_index=3), ignored, atol=1e-5)


def test_kernels_are_compiled_and_captured(torch: Any) -> None:
    x, w = torch.randn(64, 512, device="cuda"), torch.randn(512, device="cuda")
    y = torch.compile(lambda x, w: kernels.softmax(kernels.rms_norm(x, w)) * 2, fullgraph=True)(x, w)
    assert torch.allclose(y, kernels.softmax(kernels.rms_norm(x, w)) * 2, atol=1e-6)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernels.softmax(x)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.allclose(y, x.softmax(-1), atol=1e-6)


def test_the_first_call_of_a_kernel_may_be_compiled(torch: Any) -> None:
    """Its operator is not registered with torch then."""
    x = torch.randn(300, 512, device="cuda")
    y = torch.compile(lambda x: kernels.column_sum(x) * 2, fullgraph=True)(x)
    assert torch.allclose(y, x.double().sum(0).float() * 2, atol=1e-3)


def test_quantized_rows_and_sums(torch: Any) -> None:
    x = torch.randn(300, 5000, device="cuda")
    for kind, step in (("int8", 0.51), ("float8_e4m3fn", 16.1)):
        q, scales = kernels.quantize(x, kind)
        assert ((q.float() * scales[:, None] - x).abs() <= step * scales[:, None]).all()
    assert torch.allclose(kernels.column_sum(x), x.double().sum(0).float(), atol=1e-3)
    assert torch.allclose(kernels.row_sum(x), x.double().sum(1).float(), atol=1e-3)
    assert torch.equal(kernels.row_argmax(x).long(), x.argmax(1))


def test_more_than_2_to_the_31_elements_are_addressed(torch: Any) -> None:
    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("needs 24 GB of free memory")
    x = torch.zeros((1 << 20) + 1, 2056, device="cuda", dtype=torch.float16)
    x[-1] = torch.arange(2056, device="cuda") / 256
    y = kernels.softmax(x)
    assert torch.allclose(y[-1].float(), x[-1].float().softmax(-1), atol=1e-4)


def test_arrays_of_cupy_are_taken() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cupy = pytest.importorskip("cupy")
    x = np.random.default_rng(0).standard_normal((5, 100), np.float32)
    powers = np.exp(x)
    assert np.allclose(cupy.asnumpy(kernels.softmax(cupy.asarray(x))), powers / powers.sum(1, keepdims=True), atol=1e-6)
