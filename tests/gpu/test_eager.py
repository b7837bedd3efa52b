"""Public kernels in torch's eager mode: calls like one before are remembered, and give what the first one gave."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tilewright import kernels
from tilewright.errors import ArgumentError
from tilewright.kernels.operators import OPERATORS

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # what torch warns of is its own affair


def rows_of(torch: Any, how: str, rows: int, columns: int, kind: Any) -> Any:
    """A matrix: whole, with gaps between rows, beginning off 16 bytes, turned, or the right half of another."""
    made = torch.randn(rows + 1, 2 * columns + 8, device="cuda").to(kind)
    if how == "gaps":
        return made[:rows, :columns]
    if how == "odd":
        return made.reshape(-1)[1 : 1 + rows * columns].view(rows, columns)
    if how == "turned":
        return torch.randn(columns, rows, device="cuda").to(kind).t()
    if how == "beside":
        return made[:rows, columns : 2 * columns]
    return made[:rows, :columns].contiguous()


Arguments = tuple[Any, ...]
CALLS: dict[str, Callable[[Any, Any, Any, Any], Arguments]] = {  # of x, another, a line, its targets
    "softmax": lambda x, y, w, t: (x,),
    "rms_norm": lambda x, y, w, t: (x, w, 1e-6),
    "layer_norm": lambda x, y, w, t: (x, w, w, 1e-5),
    "add_rms_norm": lambda x, y, w, t: (x, y, w, 1e-6),
    "silu_mul": lambda x, y, w, t: (x, y),
    "cross_entropy": lambda x, y, w, t: (x, t, -100),
    "transpose": lambda x, y, w, t: (x,),
    "column_sum": lambda x, y, w, t: (x, None),
    "row_sum": lambda x, y, w, t: (x,),
    "row_argmax": lambda x, y, w, t: (x,),
    "quantize": lambda x, y, w, t: (x, "int8"),
    "matmul": lambda x, y, w, t: (x, y.t(), None, None, None, None, "", ""),
}
WAYS = ("whole", "gaps", "odd", "turned", "beside")


@pytest.mark.parametrize("name", CALLS)
def test_a_remembered_call_gives_what_a_first_call_gives(torch: Any, name: str) -> None:
    """Whatever alternates: shapes, strides, alignment, element types, whether the arguments are one tensor."""
    draw, operator = random.Random(0), OPERATORS[name]
    kinds, shapes = (torch.bfloat16, torch.float32), ((7, 64), (64, 7), (16, 72))
    for turn in range(120):
        kind, (rows, columns) = draw.choice(kinds), draw.choice(shapes)
        x, y = (rows_of(torch, draw.choice(WAYS), rows, columns, kind) for _ in range(2))
        y = x if draw.random() < 0.1 else y
        w = torch.randn(columns + 1, device="cuda").to(kind)[draw.randrange(2) :][:columns]
        t = torch.randint(columns, (rows,), device="cuda")
        args = CALLS[name](x, y, w, t)
        found, wanted = operator(*args), operator.direct(*args)
        for one, other in zip(
            *((each if isinstance(each, tuple) else (each,)) for each in (found, wanted)), strict=True
        ):
            same = torch.equal(one.float(), other.float()), one.dtype == other.dtype, one.stride() == other.stride()
            assert all(same), (turn, rows, columns, kind, same)
    before = operator.calls.count
    for _ in range(3):
        operator(*args)
    assert 0 < operator.calls.count == before


def forward_cases(torch: Any) -> dict[str, tuple[Callable[..., Any], Callable[..., Any], int]]:
    """By name: ours, torch's, of a matrix and so many lines."""
    F = torch.nn.functional
    return {
        "softmax": (kernels.softmax, lambda x: F.softmax(x, -1), 0),
        "rms_norm": (kernels.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), 1),
        "layer_norm": (kernels.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), 2),
        "matmul": (lambda x: kernels.matmul(x, x.t()), lambda x: x @ x.t(), 0),
        "transpose": (kernels.transpose, lambda x: x.t().contiguous(), 0),
    }


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm", "matmul", "transpose"])
def test_remembered_calls_have_the_gradients_of_torch(torch: Any, name: str) -> None:
    ours, theirs, lines = forward_cases(torch)[name]
    for turn in range(4):
        args = [
            torch.randn(24, 64, device="cuda", dtype=torch.bfloat16),
            *torch.randn(lines, 64, device="cuda").bfloat16(),
        ]
        args = [arg.detach().requires_grad_(bool(turn % 2) or not i) for i, arg in enumerate(args)]
        exact = [arg.detach().double().requires_grad_(arg.requires_grad) for arg in args]
        found, wanted = ours(*args), theirs(*exact)
        slope = torch.randn_like(found)
        wants, exactly = ([arg for arg in each if arg.requires_grad] for each in (args, exact))
        mine = torch.autograd.grad(found, wants, slope)
        right = torch.autograd.grad(wanted, exactly, slope.double())
        for one, other in zip(mine, right, strict=True):
            assert one.dtype == torch.bfloat16
            assert (one.double() - other).norm() <= 2e-2 * other.norm(), (name, turn)
        with torch.no_grad():
            assert not ours(*args).requires_grad
        with torch.inference_mode():
            assert ours(*args).is_inference()
            assert ours(*args).is_inference()


def test_torch_sees_the_operator_wherever_it_has_to(torch: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.autograd import forward_ad
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Seen(TorchDispatchMode):  # type: ignore[misc]  # torch is not installed where types are checked
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.randn(8, 64, device="cuda")
    wanted = x.softmax(-1)
    for _ in range(3):
        assert torch.allclose(kernels.softmax(x), wanted, atol=1e-6)
    with Seen():
        kernels.softmax(x)
    assert "tilewright.softmax.default" in seen
    with torch.autocast("cuda"):
        assert kernels.softmax(x).dtype == torch.float32
    assert torch.allclose(torch.compile(lambda x: kernels.softmax(x) + 0, fullgraph=True)(x), wanted, atol=1e-6)
    with FakeTensorMode() as mode:
        assert kernels.softmax(mode.from_tensor(x)).shape == x.shape
    assert torch.allclose(kernels.softmax(torch._neg_view(x)), (-x).softmax(-1), atol=1e-6)
    several = torch.randn(3, 8, 64, device="cuda")
    assert torch.allclose(torch.vmap(kernels.softmax)(several), several.softmax(-1), atol=1e-6)
    with pytest.raises(ArgumentError, match="softmax has no derivative in forward mode"):
        torch.func.jvp(kernels.softmax, (x,), (x,))
    with forward_ad.dual_level():
        assert torch.allclose(kernels.softmax(x), wanted, atol=1e-6)
        with pytest.raises(ArgumentError, match="softmax has no derivative in forward mode"):
            kernels.softmax(forward_ad.make_dual(x, x))
    torch.set_default_device("cuda")
    try:
        assert torch.allclose(kernels.softmax(x), wanted, atol=1e-6)
    finally:
        torch.set_default_device(None)
    assert kernels.softmax(x[:0]).shape == (0, 64)
    with pytest.raises(ArgumentError, match="different devices"):
        kernels.rms_norm(x, torch.ones(64))


def test_remembered_calls_follow_the_current_stream_and_are_captured(torch: Any) -> None:
    x = torch.randn(512, 4096, device="cuda")
    w = torch.ones(4096, device="cuda")
    kernels.rms_norm(x, w)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        late = x * 2
        found = kernels.rms_norm(late, w)
    torch.cuda.current_stream().wait_stream(side)
    assert torch.allclose(found, torch.nn.functional.rms_norm(x * 2, (4096,), w, 1e-6), atol=1e-4)

    a = torch.randn(64, 128, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(128, 64, device="cuda", dtype=torch.bfloat16)
    kernels.matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernels.rms_norm(x, w)
        c = kernels.matmul(a, b)
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        a.copy_(torch.randn_like(a))
        graph.replay()
        assert torch.allclose(y, torch.nn.functional.rms_norm(x, (4096,), w, 1e-6), atol=1e-4)
        assert torch.allclose(c.float(), a.float() @ b.float(), atol=0.2, rtol=0.02)


def test_threads_share_what_is_remembered(torch: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def many(seed: int) -> bool:
        draw, right = random.Random(seed), True
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(200):
                x = torch.full((draw.choice((8, 16)), 64), float(seed), device="cuda", dtype=torch.bfloat16)
                found = kernels.matmul(x, x.t())
                right &= bool((found == 64 * seed * seed).all())
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(many, range(1, 9)))


def test_calls_go_to_the_device_of_their_tensors(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    for turn in range(6):
        x = torch.randn(8, 64, device=f"cuda:{turn % 2}", dtype=torch.bfloat16)
        for found, wanted in (
            (kernels.softmax(x), x.float().softmax(-1)),
            (kernels.matmul(x, x.t()), x.float() @ x.float().t()),
        ):
            assert found.device == x.device
            assert torch.allclose(found.float(), wanted, atol=0.05, rtol=0.02)
    assert torch.cuda.current_device() == 0
