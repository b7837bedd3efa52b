"""Calls drawn at random, as a user of torch types them: no farther from float64 than torch's own operator, twice.

A draw is of shapes, element types, strides, alignment and options; each call runs with its gradients, some compiled.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from tilewright import kernels

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # what torch warns of is its own affair

# Half a unit in the last place of a number, by element type: where torch happens to be exact, this is what is owed.
# Of float32 wgmma drops the bits behind tf32's ten (PTX ISA, wgmma.mma_async), torch rounds where they are few.
ROUNDING = {"float32": 4e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}
TF32 = 2.0**-10
LENGTHS = (1, 2, 3, 7, 8, 31, 64, 77, 127, 151, 256, 500, 768, 1000, 1024, 1536, 4095, 5120, 8200, 32003, 50257)
EAGER, COMPILED = 24, 2  # draws
ATTENTION = 8  # each of which compiles three kernels


@dataclass(frozen=True)
class Call:
    """Tensors, of which floats have gradients, and what ours and torch's operator make of them."""

    tensors: tuple[Any, ...]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    said: str
    owed: float  # of the largest number, and of 1


@dataclass(frozen=True)
class Draw:
    """What is drawn from: numbers from ``dice``, tensors of ``torch`` on its GPU."""

    torch: Any
    dice: random.Random

    def kind(self) -> str:
        return self.dice.choice(list(ROUNDING))

    def tensor(self, kind: str, *shape: int) -> Any:
        """Normal numbers: whole, the columns from 1 on of a wider one, with gaps behind rows, or turned."""
        whole = self.torch.randn(*shape[:-1], shape[-1] + 9, device="cuda").to(getattr(self.torch, kind))
        match self.dice.randrange(5):
            case 0:
                return whole[..., 1 : 1 + shape[-1]]
            case 1:
                return whole[..., : shape[-1]]
            case 2 if len(shape) > 1:
                return whole[..., : shape[-1]].transpose(0, -2).contiguous().transpose(0, -2)
            case _:
                return whole[..., : shape[-1]].contiguous()

    def rows(self) -> tuple[int, ...]:
        """A shape of one to four dimensions, of at most a few million elements."""
        columns = self.dice.choice(LENGTHS)
        before = [self.dice.choice((1, 2, 3, 5, 17)) for _ in range(self.dice.randrange(3))]
        return (*before, self.dice.choice((1, 2, 9, 33)), columns)


def of_rows(name: str, draw: Draw) -> Call:
    """A kernel of rows, with as many lines and arrays of the same shape as it takes."""
    F, kind, shape = draw.torch.nn.functional, draw.kind(), draw.rows()
    line = shape[-1:]
    by_name: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[..., Any], Callable[..., Any]]] = {
        "softmax": ((shape,), kernels.softmax, lambda x: F.softmax(x, -1)),
        "rms_norm": (
            (shape, line),
            lambda x, w: kernels.rms_norm(x, w, 1e-5),
            lambda x, w: F.rms_norm(x, line, w, 1e-5),
        ),
        "layer_norm": ((shape, line, line), kernels.layer_norm, lambda x, w, b: F.layer_norm(x, line, w, b)),
        "add_rms_norm": (
            (shape, shape, line),
            lambda x, y, w: kernels.add_rms_norm(x, y, w, 1e-5)[0],
            lambda x, y, w: F.rms_norm(x + y, line, w, 1e-5),
        ),
        "silu_mul": ((shape, shape), kernels.silu_mul, lambda x, y: F.silu(x) * y),
    }
    shapes, ours, theirs = by_name[name]
    return Call(
        tuple(draw.tensor(kind, *each) for each in shapes), ours, theirs, f"{name} {kind} {shape}", ROUNDING[kind]
    )


def of_cross_entropy(draw: Draw) -> Call:
    kind, rows, columns = draw.kind(), draw.dice.choice((1, 5, 64)), draw.dice.choice(LENGTHS)
    target = draw.torch.randint(columns, (rows,), device="cuda")
    target[draw.dice.randrange(rows)] = -100
    return Call(
        (draw.tensor(kind, rows, columns),),
        lambda x: kernels.cross_entropy(x, target),
        lambda x: draw.torch.nn.functional.cross_entropy(x, target, reduction="none"),
        f"cross_entropy {kind} {(rows, columns)}",
        ROUNDING[kind],
    )


def of_matmul(draw: Draw) -> Call:
    """With any of a bias, an activation and a residual, of two matrices or a batch, either of them turned."""
    torch, kind = draw.torch, draw.kind()
    m, n, k = (draw.dice.choice((1, 3, 8, 33, 64, 100, 128, 200, 512, 1000)) for _ in range(3))
    batch = draw.dice.choice(((), (), (3,)))
    a, b = draw.tensor(kind, *batch, m, k), draw.tensor(kind, *batch, n, k).transpose(-1, -2)
    b = b.contiguous() if draw.dice.random() < 0.5 else b
    activation = draw.dice.choice((None, None, "relu", "gelu", "silu"))
    bias = draw.tensor(kind, n) if draw.dice.random() < 0.5 else None
    residual = draw.tensor(kind, *batch, m, n) if draw.dice.random() < 0.3 else None
    more = [x for x in (bias, residual) if x is not None]

    def ours(a: Any, b: Any, *more: Any) -> Any:
        options = dict(
            zip([n for n, x in (("bias", bias), ("residual", residual)) if x is not None], more, strict=True)
        )
        return kernels.matmul(a, b, activation=activation, **options)

    def theirs(a: Any, b: Any, *more: Any) -> Any:
        rest = list(more)
        y = a @ b
        y = y if bias is None else y + rest.pop(0)
        F = torch.nn.functional
        y = {None: lambda x: x, "relu": F.relu, "gelu": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}[
            activation
        ](y)
        return y if residual is None else y + rest.pop(0)

    said = f"matmul {kind} {batch} {m}x{n}x{k} {activation} bias={bias is not None} residual={residual is not None}"
    return Call((a, b, *more), ours, theirs, said, TF32 if kind == "float32" else ROUNDING[kind])


def of_sdpa(draw: Draw) -> Call:
    torch, dice = draw.torch, draw.dice
    kind, width = dice.choice(("float16", "bfloat16")), dice.choice((64, 96, 128, 192, 256))
    m, n = dice.choice((1, 5, 64, 77, 130)), dice.choice((1, 30, 77, 128, 200))
    heads = dice.choice((1, 2))
    q = draw.tensor(kind, 2, heads * 2, m, width)
    k, v = (draw.tensor(kind, 2, heads, n, width) for _ in "kv")
    options: dict[str, Any] = {"is_causal": dice.random() < 0.4, "enable_gqa": True}
    if not options["is_causal"] and dice.random() < 0.5:
        mask = torch.rand(1, 1, m, n, device="cuda") < 0.7
        mask[..., 0] = True
        options["attn_mask"] = mask
    said = f"sdpa {kind} {m}x{n}x{width} causal={options['is_causal']} mask={'attn_mask' in options}"
    return Call(
        (q, k, v),
        lambda q, k, v: kernels.sdpa(q, k, v, **options),
        # Of arrays that begin off 16 bytes, with a mask, torch 2.11's kernel ends in a misaligned address.
        lambda *qkv: torch.nn.functional.scaled_dot_product_attention(*(x.contiguous() for x in qkv), **options),
        said,
        ROUNDING[kind],
    )


def of_sums(draw: Draw) -> Call:
    kind, rows, columns = draw.kind(), draw.dice.choice((1, 7, 300, 2000)), draw.dice.choice(LENGTHS[:-2])
    along = draw.dice.randrange(2)
    ours = (kernels.column_sum, kernels.row_sum)[along]
    said = f"{('column_sum', 'row_sum')[along]} {kind} {(rows, columns)}"
    wide = draw.torch.promote_types

    def theirs(x: Any) -> Any:
        return x.sum(along, dtype=wide(x.dtype, draw.torch.float32))

    return Call((draw.tensor(kind, rows, columns),), ours, theirs, said, ROUNDING[kind])


ROWS = ("softmax", "rms_norm", "layer_norm", "add_rms_norm", "silu_mul")
DRAWS: dict[str, Callable[[Draw], Call]] = {
    **{name: partial(of_rows, name) for name in ROWS},
    "cross_entropy": of_cross_entropy,
    "matmul": of_matmul,
    "sdpa": of_sdpa,
}


def results(torch: Any, call: Callable[..., Any], tensors: tuple[Any, ...], kind: Any = None) -> list[Any]:
    """What a call gives, and its gradients, in float64. kind: the element type in which it is computed.

    The gradient that arrives is the same for all results of one shape.
    """
    leaves = [tensor.detach().to(kind or tensor.dtype).requires_grad_() for tensor in tensors]
    y = call(*leaves)
    numbers = torch.Generator("cuda").manual_seed(0)
    slope = torch.randn(y.shape, device="cuda", generator=numbers).to(tensors[0].dtype)
    return [x.double() for x in (y.detach(), *torch.autograd.grad(y, leaves, slope.to(y.dtype)))]


def beyond(torch: Any, call: Call) -> list[str]:
    """Which results are farther from float64 than twice what torch's are, and by how much."""
    exact = results(torch, call.theirs, call.tensors, torch.float64)
    theirs = results(torch, call.theirs, call.tensors)
    mine = results(torch, call.ours, call.tensors)
    told = []
    for number, (one, other, right) in enumerate(zip(mine, theirs, exact, strict=True)):
        if not right.numel():
            continue
        error, allowed = ((x - right).abs().max().item() for x in (one, other))
        allowed = 2 * allowed + 2 * call.owed * max(1, right.abs().max().item())
        if not error <= allowed:  # NaN is beyond, too
            told.append(f"{call.said}: {f'gradient {number}' if number else 'result'} {error:.3g} of {allowed:.3g}")
    return told


@pytest.mark.parametrize("name", DRAWS)
def test_drawn_calls_are_as_close_to_float64_as_those_of_torch(torch: Any, name: str) -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(0)
    draw = Draw(torch, random.Random(name))
    told = [line for _ in range(ATTENTION if name == "sdpa" else EAGER) for line in beyond(torch, DRAWS[name](draw))]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("name", DRAWS)
def test_drawn_calls_are_compiled_whole(torch: Any, name: str) -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(1)
    draw = Draw(torch, random.Random(name + " compiled"))
    for _ in range(COMPILED):
        call = DRAWS[name](draw)
        torch._dynamo.reset()
        told = beyond(torch, replace(call, ours=torch.compile(call.ours, fullgraph=True)))
        assert not told, "\n".join(told)


def test_drawn_sums_are_as_close_to_float64_as_those_of_torch(torch: Any) -> None:
    torch.manual_seed(2)
    draw = Draw(torch, random.Random("sums"))
    for _ in range(EAGER):
        call = of_sums(draw)
        exact = call.theirs(call.tensors[0].double())
        mine, theirs = (function(call.tensors[0]) for function in (call.ours, call.theirs))
        error, allowed = ((x.double() - exact).abs().max().item() for x in (mine, theirs))
        owed = ROUNDING[str(mine.dtype).removeprefix("torch.")]
        assert error <= 2 * allowed + 2 * owed * exact.abs().max().item() + 1e-6, call.said
