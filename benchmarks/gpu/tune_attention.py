"""Attention on this GPU: is it right, and which tiles and how many parts of the keys are the fastest.

    python -m benchmarks.gpu.tune_attention                 # everything
    python -m benchmarks.gpu.tune_attention right decode    # parts
    python -m benchmarks.gpu.tune_attention decode table    # then the table, with the costs that were chosen

A case that fails is printed, and the others go on.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

from benchmarks.gpu.__main__ import main as table
from benchmarks.gpu.attention import (
    captured,
    copy_rate,
    cudnn,
    decode_inputs,
    flash,
    operations,
    pages_of,
    warm,
)  # fmt: skip
from benchmarks.gpu.measure import medians
from tilewright import kernels
from tilewright.cuda import driver
from tilewright.kernels import attention_calls
from tilewright.kernels.attention import forward
from tilewright.kernels.attention_backward import gradients
from tilewright.kernels.attention_backward_rows import BackwardKind
from tilewright.kernels.attention_calls import TILES
from tilewright.kernels.attention_decode import DecodeKind, decode
from tilewright.kernels.attention_forms import FLOAT8, AttentionKind, AttentionTiles

ROUNDS = 6
DECODE: Any = import_module("tilewright.kernels.attention_decode")  # the package has a function of this name
Case = Callable[[], str]


def tried(name: str, case: Case) -> None:
    try:
        print(f"{name}: {case()}", flush=True)
    except Exception as error:
        print(f"{name}: FAILED {type(error).__name__}: {str(error)[:400]}", flush=True)
        traceback.print_exc(limit=-2)


# Right


def in_double(q: Any, k: Any, v: Any, sees: Any = None, *, cap: float = 0.0) -> Any:
    """Attention in float64, by torch."""
    import torch

    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    scores = cap * torch.tanh(scores / cap) if cap else scores
    if sees is not None:
        scores = scores.masked_fill(~sees, float("-inf"))
    return torch.softmax(scores, -1) @ v


def shown(found: Any, wanted: Any, peer: Any = None) -> str:
    """The largest error, and that of a peer."""
    error = float((found.double() - wanted).abs().max())
    beside = "" if peer is None else f", torch {float((peer.double() - wanted).abs().max()):.2e}"
    return f"error {error:.2e}{beside}"


def right_decode(batch: int, heads: int, heads_kv: int, queries: int, keys: int, width: int, page: int) -> str:
    import torch

    q, k, v = decode_inputs(batch, keys, heads=heads, heads_kv=heads_kv, queries=queries, width=width)
    lengths = torch.randint(queries, keys + 1, (batch,), device="cuda", dtype=torch.int32)
    lengths[0] = keys
    sees = (
        torch.arange(keys, device="cuda")
        <= (lengths[:, None] - queries + torch.arange(queries, device="cuda"))[..., None]
    )
    wanted = in_double(q, k, v, sees[:, None])
    how = {"lengths": lengths, "causal": True}
    for b in range(batch):
        k[b, :, int(lengths[b]) :] = v[b, :, int(lengths[b]) :] = float("nan")
    if page:
        k, v, how["pages"] = pages_of(k, v, page)
    found = [kernels.attention_decode(q, k, v, splits=splits, **how) for splits in (0, 1, 3)]
    return ", ".join(shown(each, wanted) for each in found)


def right_graph() -> str:
    """A graph whose lengths and cache change between replays, with keys that are appended."""
    import torch

    q, k, v = decode_inputs(2, 512)
    new = [torch.randn(2, 8, 1, 128, device="cuda", dtype=torch.bfloat16) for _ in "kv"]
    lengths = torch.tensor([100, 300], device="cuda", dtype=torch.int32)

    def call() -> Any:
        return kernels.attention_decode(q, k, v, lengths=lengths, new_k=new[0], new_v=new[1])

    call()
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    worst = 0.0
    for _ in range(3):
        for each in (*new, q):
            each.normal_()
        graph.replay()
        lengths += 1
        sees = torch.arange(512, device="cuda") < lengths[:, None]
        worst = max(worst, float((found.double() - in_double(q, k, v, sees[:, None, None])).abs().max()))
        assert torch.equal(k[0, :, int(lengths[0]) - 1], new[0][0, :, 0])
    return f"error {worst:.2e}"


def right_float8(width: int, *, causal: bool) -> str:
    import torch

    q, k, v = (torch.randn(2, 4, 1000, width, device="cuda").to(torch.float8_e4m3fn) for _ in "qkv")
    scale = torch.rand(2, 4, device="cuda") + 0.5
    found = kernels.attention(q, k, v, causal=causal, descale_q=scale, descale_k=scale, descale_v=scale)
    sees = torch.ones(1000, 1000, device="cuda", dtype=torch.bool).tril() if causal else None
    by = scale[..., None, None]
    wanted = in_double(q.float() * by, k.float() * by, v.float() * by, sees)
    return f"{shown(found, wanted)} of {float(wanted.abs().max()):.2f}"


def right_backward(width: int, width_v: int, how: dict[str, Any]) -> str:
    """Gradients by autograd, beside torch's own of bfloat16; twice the same bits?"""
    import torch

    q, k, v = (torch.randn(2, heads, 700, w, device="cuda", dtype=torch.bfloat16, requires_grad=True)
               for heads, w in ((4, width), (2, width), (2, width_v)))  # fmt: skip
    slope = torch.randn(2, 4, 700, width_v, device="cuda", dtype=torch.bfloat16)
    both = [torch.autograd.grad(kernels.attention(q, k, v, **how), (q, k, v), slope) for _ in range(2)]
    sees = torch.ones(700, 700, device="cuda", dtype=torch.bool).tril() if how.get("causal") else None
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(
        in_double(wide[0], wide[1], wide[2], sees, cap=how.get("softcap", 0.0)), wide, slope.double()
    )
    off = [float((a.double() - b).norm() / b.norm()) for a, b in zip(both[0], wanted, strict=True)]
    same = all(torch.equal(a, b) for a, b in zip(*both, strict=True))
    return f"errors {', '.join(f'{each:.1e}' for each in off)}; the same bits twice: {same}"


SIZES = ((1, 32, 8, 1, 1000, 128), (3, 8, 2, 4, 777, 128), (2, 16, 2, 16, 300, 64), (2, 6, 2, 2, 300, 256),
         (2, 8, 8, 1, 300, 96), (1, 8, 1, 3, 300, 192))  # fmt: skip
"""Of decode: batch, heads, heads of keys, queries, keys, width."""
PAGES = (0, 64, 16, 1, 5)
OPTIONS: tuple[tuple[int, int, dict[str, Any]], ...] = (
    (64, 64, {"causal": True}), (128, 128, {}), (96, 96, {"causal": True}), (192, 128, {}),
    (256, 256, {"causal": True}), (64, 64, {"softcap": 2.0}), (128, 128, {"softcap": 2.0, "causal": True}),
    (256, 256, {"softcap": 5.0}), (64, 64, {"causal": True, "deterministic": True}),
    (128, 128, {"deterministic": True}),
)  # fmt: skip
"""Of gradients."""


def right() -> Iterator[tuple[str, Case]]:
    for sizes in SIZES:
        for page in PAGES if sizes is SIZES[1] else PAGES[::2]:
            yield f"decode {sizes}, pages of {page}", partial(right_decode, *sizes, page)
    yield "decode by a graph", right_graph
    for width in (64, 128, 256):
        for causal in (False, True):
            yield f"float8 {width} {causal}", partial(right_float8, width, causal=causal)
    for width, width_v, how in OPTIONS:
        yield f"gradients {width} {width_v} {how}", partial(right_backward, width, width_v, how)


# Decode


MEASURED: dict[tuple[int, int], dict[int, float]] = {}
"""By batch and keys, and the number of parts: microseconds."""


def decode_case(batch: int, keys: int) -> str:
    """Microseconds by the number of parts, beside torch's, and of reading keys and values at copy_'s rate."""
    q, k, v = decode_inputs(batch, keys)
    splits = [n for n in DECODE.SPLITS if n <= max(1, keys // 64) and n * batch * 8 <= 4200]
    calls: dict[str, Any] = {f"{n}": partial(kernels.attention_decode, q, k, v, splits=n) for n in splits}
    calls |= {"flash": partial(flash, q, k, v), "cuDNN": partial(cudnn, q, k, v, causal=False, enable_gqa=True)}
    found = times(calls, 2 * k.numel() * 2)
    MEASURED[batch, keys] = {n: found[f"{n}"] for n in splits if f"{n}" in found}
    return shown_times(found, 2 * k.numel() * 2)


def choose_costs() -> str:
    """The costs whose choices are the closest to the fastest numbers of parts; they are used from here on."""
    processors = driver.device(0).multiprocessors
    grid = [DECODE.DecodeCosts(*each) for each in product((0.4, 0.6, 0.8), (0.3, 0.5, 0.7), (0.5, 1.0, 2.0),
                                                          (1.0, 2.0, 3.0, 5.0), (0.0, 0.05, 0.1, 0.2))]  # fmt: skip

    def loss(costs: Any) -> float:
        total = 0.0
        for (batch, keys), found in MEASURED.items():
            best = min(found, key=lambda n: costs.of(n, 8 * batch, -(-keys // 64), processors, 2))
            total += math.log(found[best] / min(found.values()))
        return total / len(MEASURED)

    best = min(grid, key=loss)
    before, DECODE.COSTS = loss(DECODE.COSTS), best
    forget(DECODE.FORWARD.calls)
    return f"{best}: {math.exp(loss(best)):.3f} of the fastest, {math.exp(before):.3f} before"


def times(calls: dict[str, Callable[[], Any]], nbytes: int) -> dict[str, float]:
    """Microseconds of one call, by a graph of several."""
    count = max(1, min(20, int(2e-3 / (nbytes / 4e12 + 5e-6))))
    graphs: dict[str, Callable[[], Any]] = {}
    for name, call in calls.items():
        graphs |= captured_if_it_runs(name, call, count)
    found = medians(graphs, launches=1, rounds=ROUNDS)
    return {name: seconds / count * 1e6 for name, seconds in found.items()}


def shown_times(found: dict[str, float], nbytes: int) -> str:
    cells = [f"{name} {microseconds:.1f}" for name, microseconds in found.items()]
    return f"{nbytes >> 20} MB, at copy_'s rate {nbytes / copy_rate() * 1e6:.1f} us; {'; '.join(cells)}"


def timed(calls: dict[str, Callable[[], Any]], nbytes: int) -> str:
    return shown_times(times(calls, nbytes), nbytes)


def captured_if_it_runs(name: str, call: Callable[[], Any], count: int) -> dict[str, Callable[[], Any]]:
    try:
        return {name: captured(call, count)}
    except Exception as error:
        print(f"  {name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return {}


def paged_case(page: int) -> str:
    import torch

    q, k, v = decode_inputs(16, 8192)
    calls: dict[str, Any] = {"no pages": partial(kernels.attention_decode, q, k, v)}
    lengths = torch.full((16,), 8192, device="cuda", dtype=torch.int32)
    paged = pages_of(k, v, page)
    calls["pages"] = partial(kernels.attention_decode, q, *paged[:2], lengths=lengths, pages=paged[2])
    return timed(calls, 2 * k.numel() * 2)


def queries_case(queries: int) -> str:
    q, k, v = decode_inputs(16, 8192, queries=queries)
    return timed({"ours": partial(kernels.attention_decode, q, k, v, causal=True)}, 2 * k.numel() * 2)


def tiles_case(batch: int, keys: int) -> str:
    """Microseconds by the keys of a tile, the CTAs of a multiprocessor and the number of parts."""
    q, k, v = decode_inputs(batch, keys)
    kept = dict(DECODE.TILES)
    calls: dict[str, Callable[[], Any]] = {}
    try:
        for tiles in ((64, 2), (32, 2), (64, 1), (96, 1)):
            DECODE.TILES[320] = tiles
            for splits in (1, 2, 4, 8, 16, 32):
                if 128 <= batch * 8 * splits <= 1100:
                    forget(DECODE.FORWARD.calls)
                    name = f"{tiles[0]} keys, {tiles[1]} CTAs, {splits} parts"
                    call = partial(kernels.attention_decode, q, k, v, splits=splits)
                    calls |= captured_if_it_runs(name, call, 4)
    finally:
        DECODE.TILES.update(kept)
        forget(DECODE.FORWARD.calls)
    found = medians(calls, launches=1, rounds=ROUNDS)
    return "; ".join(f"{name} {seconds / 4 * 1e6:.1f}" for name, seconds in found.items())


def forget(calls: Any) -> None:
    """Calls are decided anew."""
    calls._calls.clear()
    calls.again = lambda args, other: other(args)


def decodes() -> Iterator[tuple[str, Case]]:
    for batch, lengths in ((1, (1024, 4096, 16384, 65536, 131072)), (16, (1024, 4096, 16384, 65536)),
                           (128, (1024, 4096, 16384))):  # fmt: skip
        for keys in lengths:
            yield f"decode, batch {batch}, {keys} keys", partial(decode_case, batch, keys)
    yield "costs", choose_costs
    for batch, keys in ((1, 65536), (16, 8192), (128, 2048)):
        yield f"tiles of decode, batch {batch}, {keys} keys", partial(tiles_case, batch, keys)
    for page in (256, 64, 16, 8, 1):
        yield f"pages of {page}, batch 16, 8192 keys", partial(paged_case, page)
    for queries in (2, 4, 16):
        yield f"{queries} queries, batch 16, 8192 keys", partial(queries_case, queries)


# 8-bit floats


def float8_tiles(width: int) -> list[AttentionTiles]:
    each = {64: ((2, 256), (3, 128)), 128: ((2, 192), (2, 224)), 256: ((2, 96), (2, 64))}
    return [AttentionTiles(groups, keys, turns=turns) for groups, keys in each[width] for turns in (True, False)]


def only(tiles: AttentionTiles, form: Any, sizes: Any) -> list[AttentionTiles]:
    """In the place of the choice of tiles."""
    return [tiles]


def float8_case(width: int, length: int, *, causal: bool) -> str:
    """TFLOP/s by tiles."""
    import torch

    heads, work = 2048 // width, operations(width, length, causal=causal)
    q, k, v = (torch.randn(16384 // length, heads, length, width, device="cuda").to(torch.float8_e4m3fn) for _ in "qkv")
    kept, count = attention_calls._candidates, max(1, int(3e-3 * 8e14 / work))
    calls: dict[str, Callable[[], Any]] = {}
    try:
        for tiles in float8_tiles(width):
            tiles = replace(tiles, dynamic=causal)
            attention_calls._candidates = partial(only, tiles)
            attention_calls.chosen.cache_clear()
            forget(attention_calls.FORWARD.calls)
            name = f"{tiles.groups}x64 by {tiles.keys}{', turns' if tiles.turns else ''}"
            calls |= captured_if_it_runs(name, partial(kernels.attention, q, k, v, causal=causal), count)
    finally:
        attention_calls._candidates = kept
        attention_calls.chosen.cache_clear()
        forget(attention_calls.FORWARD.calls)
    found = medians(calls, launches=1, rounds=ROUNDS)
    return "; ".join(f"{name} {work * count / seconds / 1e12:.0f}" for name, seconds in found.items())


def float8s() -> Iterator[tuple[str, Case]]:
    for width in (64, 128, 256):
        for length, causal in ((2048, False), (16384, False), (16384, True)):
            yield f"float8 {width}, {length}, causal {causal}", partial(float8_case, width, length, causal=causal)


# Gradients


def backward_case(width: int, length: int, how: dict[str, Any]) -> str:
    import torch

    q, k, v = (torch.randn(16384 // length, 2048 // width, length, width, device="cuda", dtype=torch.bfloat16,
                           requires_grad=True) for _ in "qkv")  # fmt: skip
    slope, work = torch.randn_like(q), 2.5 * operations(width, length, causal="causal" in how)
    calls = {}
    for name, call in (("ours", partial(kernels.attention, q, k, v, **how)),
                       ("in order", partial(kernels.attention, q, k, v, deterministic=True, **how)),
                       ("cuDNN", partial(cudnn, q, k, v, causal="causal" in how))):  # fmt: skip
        out = call()
        calls[name] = partial(torch.autograd.grad, out, (q, k, v), slope, retain_graph=True)
    found = medians(calls, launches=max(1, int(3e-3 * 4e14 / work)), rounds=ROUNDS)
    return "; ".join(f"{name} {work / seconds / 1e12:.0f}" for name, seconds in found.items())


def backwards() -> Iterator[tuple[str, Case]]:
    for width in (64, 128, 256):
        for length, how in ((2048, {}), (8192, {}), (8192, {"causal": True})):
            yield f"gradients {width}, {length}, {how}", partial(backward_case, width, length, how)


PARTS = {"right": right, "decode": decodes, "float8": float8s, "gradients": backwards}


Jobs = Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]


def jobs() -> Jobs:
    """The kernels that take the longest to assemble."""
    for width in (64, 128, 256):
        for causal in (False, True):
            kind = AttentionKind(FLOAT8, "bfloat16", width, width, last=causal)
            yield from ((forward, (kind, replace(tiles, dynamic=causal))) for tiles in float8_tiles(width))
            queries, keys, stages = TILES[width]
            for ordered in (False, True):
                form = BackwardKind("bfloat16", width, width, queries, keys, False, causal, stages, False, ordered)
                yield gradients, (form,)
    for result in ("bfloat16", "float32"):
        yield from decode_jobs(result)
    for width, width_v, how in OPTIONS:
        kind = AttentionKind("bfloat16", "bfloat16", width, width_v, last="causal" in how, softcap="softcap" in how)
        sizes = attention_calls.AttentionSizes(2, 4, 2, 700, 700)
        yield forward, (kind, attention_calls._candidates(kind, sizes)[0])


def decode_jobs(result: str) -> Jobs:
    for keys, resident in ((64, 2), (32, 2), (64, 1), (96, 1)):
        yield decode, (DecodeKind("bfloat16", result, 128, 128, 4, keys, keys, resident),)
    for chunk in (64, 16, 8, 1):
        yield decode, (DecodeKind("bfloat16", result, 128, 128, 4, chunk, paged=True, lengths=True),)
    for _, heads, heads_kv, _, _, width in SIZES:
        keys, resident = next(each for most, each in DECODE.TILES.items() if 2 * width <= most)
        group = 1 << (heads // heads_kv - 1).bit_length()
        for page in PAGES:
            chunk = math.gcd(page, keys) if page else keys
            form = DecodeKind("bfloat16", result, width, width, group, chunk, keys, resident)
            yield decode, (replace(form, paged=page > 0, lengths=True, last=True),)


def main(words: list[str]) -> int:
    warm(list(jobs()))
    for part in [word for word in words if word in PARTS] or list(PARTS):
        for name, case in PARTS[part]():
            tried(name, case)
    return table(["attention"]) if "table" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
