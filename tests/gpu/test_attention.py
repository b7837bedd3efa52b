"""Attention on tensors of torch: against float64, with gradients, compiled, captured."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import kernels

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # what torch warns of is its own affair


def in_double(torch: Any, q: Any, k: Any, v: Any, *, sees: Any = None, cap: float = 0.0) -> Any:
    """Attention in float64. sees: which keys each query sees, (..., queries, keys)."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    scores = cap * torch.tanh(scores / cap) if cap else scores
    return torch.softmax(scores if sees is None else scores.masked_fill(~sees, float("-inf")), -1) @ v


def drawn(torch: Any, *shapes: tuple[int, ...], kind: str = "bfloat16") -> list[Any]:
    return [torch.randn(shape, device="cuda").to(getattr(torch, kind)) for shape in shapes]


def off(found: Any, wanted: Any) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("width", [64, 96, 128, 192, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_results_are_those_of_float64(torch: Any, width: int, causal: bool) -> None:
    q, k, v = drawn(torch, (2, 4, 333, width), *[(2, 2, 333, width)] * 2)
    sees = torch.ones(333, 333, device="cuda", dtype=torch.bool).tril() if causal else None
    assert off(kernels.attention(q, k, v, causal=causal), in_double(torch, q, k, v, sees=sees)) < 5e-3


@pytest.mark.parametrize("width", [64, 128, 256])
def test_float8_is_descaled(torch: Any, width: int) -> None:
    q, k, v = drawn(torch, *[(2, 4, 500, width)] * 3, kind="float8_e4m3fn")
    by = torch.rand(2, 4, device="cuda") + 0.5
    wanted = in_double(torch, q.float() * by[..., None, None], k.float(), v.float() * by[..., None, None])
    assert off(kernels.attention(q, k, v, descale_q=by, descale_v=by), wanted) < 5e-2


@pytest.mark.parametrize(
    ("width", "width_v", "how"),
    [
        (64, 64, {"causal": True}),
        (128, 64, {}),
        (256, 256, {"causal": True}),
        (128, 128, {"softcap": 2.0}),
        (64, 64, {"deterministic": True}),
    ],
)
def test_gradients_are_those_of_float64(torch: Any, width: int, width_v: int, how: dict[str, Any]) -> None:
    given = drawn(torch, (2, 4, 300, width), (2, 2, 300, width), (2, 2, 300, width_v), (2, 4, 300, width_v))
    q, k, v, slope = [x.requires_grad_() for x in given]
    arrays = [q, k, v]
    found = [torch.autograd.grad(kernels.attention(*arrays, **how), arrays, slope) for _ in range(2)]
    wide = [x.detach().double().requires_grad_() for x in arrays]
    sees = torch.ones(300, 300, device="cuda", dtype=torch.bool).tril() if how.get("causal") else None
    out = in_double(torch, *wide, sees=sees, cap=how.get("softcap", 0.0))
    for one, wanted in zip(found[0], torch.autograd.grad(out, wide, slope.double()), strict=True):
        assert off(one, wanted) < 6e-3
    assert "deterministic" not in how or all(map(torch.equal, *found))


@pytest.mark.parametrize("shape", [(4, 1, 333), (300, 1), (2, 1, 300, 333)])
@pytest.mark.parametrize(("width", "softcap"), [(64, 0.0), (128, 2.0), (256, 0.0), (256, 2.0)])
def test_gradients_with_a_bias_and_of_it_are_those_of_float64(
    torch: Any, width: int, softcap: float, shape: tuple[int, ...]
) -> None:
    *arrays, slope = drawn(torch, (2, 4, 300, width), (2, 2, 333, width), (2, 2, 333, width), (2, 4, 300, width))
    arrays = [x.requires_grad_() for x in (*arrays, torch.randn(shape, device="cuda"))]
    slope_lse = torch.randn(2, 4, 300, device="cuda")  # without it the gradient of one number for a query is 0
    *given, bias = arrays
    out, lse = kernels.attention(*given, bias=bias, softcap=softcap, lse=True)
    found = torch.autograd.grad((out, lse), arrays, (slope, slope_lse))
    q, k, v, bias = wide = [x.detach().double().requires_grad_() for x in arrays]
    scores = q @ k.repeat_interleave(2, 1).transpose(2, 3) * width**-0.5
    scores = (softcap * torch.tanh(scores / softcap) if softcap else scores) + bias
    out = torch.softmax(scores, -1) @ v.repeat_interleave(2, 1)
    wanted = torch.autograd.grad((out, scores.logsumexp(-1)), wide, (slope.double(), slope_lse.double()))
    for each, right in zip(found, wanted, strict=True):
        assert off(each, right) < 6e-3


def test_packed_float8_is_descaled_by_sequences(torch: Any) -> None:
    lengths = (300, 1, 64, 515, 128)
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    q, k, v = drawn(torch, *[(sum(lengths), heads, 128) for heads in (4, 2, 2)], kind="float8_e4m3fn")
    by = torch.rand(len(lengths), 2, device="cuda") + 0.5
    for _ in range(3):  # the second call is remembered
        out = kernels.attention(q, k, v, cu_seqlens=starts, longest=max(lengths), causal=True, descale_k=by,
                                descale_v=by)  # fmt: skip
    for begin, many, scales in zip(starts.tolist(), lengths, by, strict=False):
        own = [x[begin : begin + many].float().transpose(0, 1)[None] for x in (q, k, v)]
        sees = torch.ones(many, many, device="cuda", dtype=torch.bool).tril()
        wanted = in_double(torch, own[0], *(x * scales[:, None, None] for x in own[1:]), sees=sees)
        assert off(out[begin : begin + many].transpose(0, 1)[None], wanted) < 5e-2


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("width", [64, 128, 256])
def test_gradients_of_packed_sequences_are_those_of_each(torch: Any, width: int, deterministic: bool) -> None:
    lengths = (300, 1, 64, 515, 128)
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    q, k, v, slope = drawn(torch, *[(sum(lengths), heads, width) for heads in (4, 2, 2, 4)])
    arrays = [x.requires_grad_() for x in (q, k, v)]
    for _ in range(3):  # the second call is remembered
        out = kernels.attention(*arrays, cu_seqlens=starts, longest=max(lengths), causal=True,
                                deterministic=deterministic)  # fmt: skip
        found = torch.autograd.grad(out, arrays, slope)
    wide = [x.detach().double().requires_grad_() for x in arrays]
    for begin, many in zip(starts.tolist(), lengths, strict=False):
        own = [x[begin : begin + many].transpose(0, 1)[None] for x in wide]
        sees = torch.ones(many, many, device="cuda", dtype=torch.bool).tril()
        in_double(torch, *own, sees=sees).backward(slope[begin : begin + many].transpose(0, 1)[None].double())
    for one, wanted in zip(found, wide, strict=True):
        assert off(one, wanted.grad) < 6e-3


def test_it_is_compiled_with_its_gradient(torch: Any) -> None:
    arrays = [x.requires_grad_() for x in drawn(torch, *[(1, 2, 128, 64)] * 3)]
    whole = torch.compile(lambda q, k, v: kernels.attention(q * 1, k, v, causal=True) * 2, fullgraph=True)
    found = torch.autograd.grad(whole(*arrays).sum(), arrays)
    wanted = torch.autograd.grad((kernels.attention(*arrays, causal=True) * 2).sum(), arrays)
    assert all(off(one, other.double()) < 1e-2 for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("page", [0, 64, 16, 5, 1])
@pytest.mark.parametrize("splits", [0, 1, 3])
def test_a_cache_is_read_by_pages_of_any_size(torch: Any, page: int, splits: int) -> None:
    q, k, v = drawn(torch, (3, 8, 4, 128), *[(3, 2, 555, 128)] * 2)
    lengths = torch.tensor([555, 64, 7], device="cuda", dtype=torch.int32)
    own = lengths[:, None] - 4 + torch.arange(4, device="cuda")
    wanted = in_double(torch, q, k, v, sees=(torch.arange(555, device="cuda") <= own[..., None])[:, None])
    how: dict[str, Any] = {"lengths": lengths, "causal": True, "splits": splits}
    if page:
        each = -(-555 // page)
        table = torch.randperm(3 * each, device="cuda").reshape(3, each)
        how["pages"] = table.int()
        k, v = (paged(torch, x, table, page) for x in (k, v))
    assert off(kernels.attention_decode(q, k, v, **how), wanted) < 6e-3


def paged(torch: Any, array: Any, table: Any, page: int) -> Any:
    """The rows of each sequence in its pages."""
    batch, heads, n, width = array.shape
    padded = torch.nn.functional.pad(array, (0, 0, 0, table.shape[1] * page - n))
    pages = torch.empty(table.numel(), heads, page, width, device="cuda", dtype=array.dtype)
    pages[table.flatten()] = padded.reshape(batch, heads, -1, page, width).transpose(1, 2).flatten(0, 1)
    return pages


def test_a_graph_goes_on_with_a_growing_cache(torch: Any) -> None:
    q, k, v, new_k, new_v = drawn(torch, (2, 4, 1, 64), *[(2, 2, 96, 64)] * 2, *[(2, 2, 1, 64)] * 2)
    lengths = torch.tensor([10, 90], device="cuda", dtype=torch.int32)

    def call() -> Any:
        return kernels.attention_decode(q, k, v, lengths=lengths, new_k=new_k, new_v=new_v)

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    for _ in range(4):
        for each in (q, new_k, new_v):
            each.normal_()
        graph.replay()
        lengths += 1
        sees = (torch.arange(96, device="cuda") < lengths[:, None])[:, None, None]
        assert off(found, in_double(torch, q, k, v, sees=sees)) < 6e-3
        assert torch.equal(k[1, :, int(lengths[1]) - 1], new_k[1, :, 0])
