"""Matrix products on tensors of torch: exact ones bit for bit, gradients, compiled, captured, beside the simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright import kernels
from tilewright.kernels.arrays import multiprocessors
from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.kernels.matmul import product
from tilewright.kernels.product_tiles import candidates, chosen
from tilewright.kernels.products import After, multiplied

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # what torch warns of is its own affair

SHAPES = ((8, 8, 8), (128, 256, 64), (72, 136, 200), (300, 520, 1000), (2304, 1280, 448), (1, 4096, 512),
          (33, 264, 4096))  # fmt: skip
KINDS = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")


def integers(torch: Any, rows: int, columns: int, kind: str) -> Any:
    """Numbers whose sums of products are exact in any order."""
    return torch.randint(-2, 3, (rows, columns), device="cuda").to(getattr(torch, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_integers_are_exact(torch: Any, shape: tuple[int, int, int], kind: str) -> None:
    m, n, k = shape
    a, b = integers(torch, m, k, kind), integers(torch, n, k, kind).T
    assert torch.equal(kernels.matmul(a, b, dtype="float32"), (a.double() @ b.double()).float())


@pytest.mark.parametrize("turned", [(True, False), (False, True), (True, True)])
def test_operands_of_16_bits_may_lie_either_way(torch: Any, turned: tuple[bool, bool]) -> None:
    for m, n, k in SHAPES:
        a = integers(torch, k, m, "bfloat16").T if turned[0] else integers(torch, m, k, "bfloat16")
        b = integers(torch, k, n, "bfloat16") if turned[1] else integers(torch, n, k, "bfloat16").T
        assert torch.equal(kernels.matmul(a, b), (a.double() @ b.double()).to(a.dtype))


@pytest.mark.parametrize("tiles", [Tiles(), Tiles(cluster=1), Tiles(n=160, slabs=4), Tiles(256, 192), Tiles(192, 96),
                                   Tiles(64, 72, cluster=1), Tiles(128, 200, cluster=1)])  # fmt: skip
def test_all_tiles_give_the_same(torch: Any, tiles: Tiles) -> None:
    a, b = integers(torch, 712, 1024, "bfloat16"), integers(torch, 520, 1024, "bfloat16")
    c = torch.empty(712, 520, device="cuda", dtype=torch.bfloat16)
    multiplied(c, a, b, plan=(tiles, False))
    assert torch.equal(c, (a.double() @ b.double().T).to(c.dtype))


@pytest.mark.parametrize(
    "tiles",
    [Tiles(128, 192, cluster=1), Tiles(64, 96, cluster=2, beside=2), Tiles(128, 128, cluster=1, beside=2, apart=2)],
)
def test_tiles_that_warpgroups_take_in_turns_give_the_same(torch: Any, tiles: Tiles) -> None:
    tiles = replace(tiles, pingpong=True)
    for k in (128, 1024, 3208):
        a, b = integers(torch, 3000, k, "bfloat16"), integers(torch, 4104, k, "bfloat16")
        for turned in (False, True):
            c = torch.full((3000, 4104), torch.nan, device="cuda", dtype=torch.bfloat16)
            multiplied(c, a, b, plan=(tiles, turned))
            assert torch.equal(c, (a.double() @ b.double().T).to(c.dtype))


@pytest.mark.parametrize("rows", [1, 16, 33, 64, 128, 300])
def test_parts_of_k_give_the_same_every_time(torch: Any, rows: int) -> None:
    a, b = integers(torch, rows, 2056, "bfloat16"), integers(torch, 520, 2056, "bfloat16")
    x, w = torch.randn(rows, 2056, device="cuda").bfloat16(), torch.randn(520, 2056, device="cuda").bfloat16()
    for tiles in (tiles for tiles in candidates() if tiles.parts > 1 and rows <= 4 * tiles.n <= 8 * rows):
        c, again = (torch.empty(rows, 520, device="cuda", dtype=torch.bfloat16) for _ in "ab")
        multiplied(c, a, b, plan=(tiles, True))
        assert torch.equal(c, (a.double() @ b.double().T).to(c.dtype))
        for each in (c, again):
            multiplied(each, x, w, plan=(tiles, True))
        assert torch.equal(c, again)


@pytest.mark.parametrize(
    "tiles",
    [
        Tiles(128, 208, cluster=1, apart=4),
        Tiles(256, 144, cluster=2, beside=2, apart=3),
        Tiles(128, 96, cluster=1, beside=2, apart=2),
        Tiles(64, 96, cluster=1, parts=3, apart=5),
    ],
)
def test_parts_of_k_anywhere_give_the_same_every_time(torch: Any, tiles: Tiles) -> None:
    a, b, bias = (
        integers(torch, 200, 2056, "bfloat16"),
        integers(torch, 520, 2056, "bfloat16"),
        torch.randn(520, device="cuda"),
    )
    x, w = torch.randn(200, 2056, device="cuda").bfloat16(), torch.randn(520, 2056, device="cuda").bfloat16()
    c, again = (torch.empty(200, 520, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    multiplied(c, a, b, After(bias), (tiles, True))
    assert torch.equal(c, ((a.double() @ b.double().T).float() + bias).to(c.dtype))
    for each in (c, again):
        multiplied(each, x, w, plan=(tiles, True))
    assert torch.equal(c, again)


def test_products_in_parts_are_remembered_compiled_and_captured(torch: Any) -> None:
    m, n, k = 200, 4096, 14336
    assert chosen(m, n, k // 64, multiprocessors(torch.empty(1, device="cuda")))[0][0].apart > 1
    a, b = integers(torch, m, k, "bfloat16"), integers(torch, n, k, "bfloat16").T
    bias = integers(torch, 1, n, "bfloat16")[0]
    wanted = (a.double() @ b.double() + bias).bfloat16()
    for _ in range(3):
        assert torch.equal(kernels.matmul(a, b, bias=bias), wanted)
    assert torch.equal(torch.compile(lambda a, b: kernels.matmul(a, b, bias=bias), fullgraph=True)(a, b), wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernels.matmul(a, b, bias=bias)
    for _ in range(2):
        y.zero_()
        graph.replay()
        assert torch.equal(y, wanted)


def test_a_product_waits_for_the_one_before_it(torch: Any) -> None:
    x, w = torch.randn(16, 1024, device="cuda").bfloat16(), torch.randn(1024, 1024, device="cuda").bfloat16() / 32
    ours, theirs = x, x
    graph = torch.cuda.CUDAGraph()
    kernels.matmul(x, w)
    with torch.cuda.graph(graph):
        for _ in range(50):
            ours = kernels.matmul(ours, w)
    graph.replay()
    eager = x
    for _ in range(50):
        eager, theirs = kernels.matmul(eager, w), torch.matmul(theirs, w)
    assert torch.equal(ours, eager)
    assert torch.allclose(ours.float(), theirs.float(), rtol=0.2, atol=0.2 * theirs.float().abs().max().item())


def test_the_simulator_has_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 136)).astype("bfloat16") for rows in (200, 264))
    exe = product(Tiles(n=128, cluster=2), MatmulKind("bfloat16", "bfloat16", "bfloat16"))
    ours, theirs = np.zeros((200, 264), a.dtype), np.zeros((200, 264), a.dtype)
    exe(a, b, ours, 0, 0, 0, 0, 3, on="gpu")
    exe.simulate(a, b, theirs, 0, 0, 0, 0, 3)
    assert np.allclose(ours.astype(np.float32), theirs.astype(np.float32), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
@pytest.mark.parametrize("m", [16, 200])
def test_gradients_are_those_of_float64(torch: Any, activation: str | None, m: int) -> None:
    args = [torch.randn(*shape, device="cuda") for shape in ((m, 264), (264, 136), (136,), (m, 136))]
    mine, theirs = (
        [arg.bfloat16().to(to).detach().requires_grad_() for arg in args] for to in (torch.bfloat16, torch.float64)
    )
    means = {None: lambda x: x, "relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
    found = kernels.matmul(mine[0], mine[1], bias=mine[2], activation=activation, residual=mine[3])
    wanted = means[activation](theirs[0] @ theirs[1] + theirs[2]) + theirs[3]
    slope = torch.randn_like(wanted)
    found.backward(slope.to(found.dtype))
    wanted.backward(slope)
    for one, other in zip((found, *(x.grad for x in mine)), (wanted, *(x.grad for x in theirs)), strict=True):
        assert float((one.double() - other).norm() / other.norm()) < 2e-2


def test_products_are_compiled_and_captured(torch: Any) -> None:
    a, b = torch.randn(256, 512, device="cuda").half(), torch.randn(512, 128, device="cuda").half()
    y = torch.compile(lambda a, b: kernels.matmul(a, b, activation="relu") * 2, fullgraph=True)(a, b)
    assert torch.equal(y, kernels.matmul(a, b, activation="relu") * 2)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernels.matmul(a, b)
    a.copy_(torch.randn_like(a))
    graph.replay()
    assert torch.equal(y, kernels.matmul(a, b))


def test_batches_and_scales(torch: Any) -> None:
    a, b = torch.randn(3, 5, 72, 128, device="cuda").bfloat16(), torch.randn(3, 5, 128, 264, device="cuda").bfloat16()
    assert torch.allclose(kernels.matmul(a, b).float(), a.float() @ b.float(), rtol=1e-2, atol=0.1)
    left, right = (integers(torch, rows, 256, "float8_e4m3fn") for rows in (200, 136))
    rows, columns = (2.0 ** torch.randint(-3, 4, (size,), device="cuda") for size in (200, 136))
    c = kernels.matmul(left, right.T, scale_a=rows[:, None], scale_b=columns[None], dtype="float32")
    assert torch.equal(c, (left.double() @ right.double().T).float() * rows[:, None] * columns)
