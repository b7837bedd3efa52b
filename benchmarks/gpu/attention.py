"""Attention: ours beside cuDNN's, torch's and FlashAttention-3's.

    python -m benchmarks.gpu attention                   # everything, with RESULTS.md
    python -m benchmarks.gpu.attention forward decode    # parts

Data are normal numbers; calls take turns, round by round, eager and by graphs of several calls; a batch has 16k
queries, and 2048 elements over all heads. A causal product counts half, gradients 2.5 times. FlashAttention-3 was
measured once beside the same cuDNN: its figure is cuDNN's of this run times that ratio. Decode: bytes of keys and
values by time, beside those that `copy_` moves (each is read and written) in this run.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from benchmarks.gpu.measure import Claim, Table, host_microseconds, medians, names_of_page
from tilewright import kernels
from tilewright.kernels import attention_calls
from tilewright.kernels.attention import forward as forward_kernel
from tilewright.kernels.attention_backward import gradients
from tilewright.kernels.attention_backward_rows import BackwardKind
from tilewright.kernels.attention_calls import TILES
from tilewright.kernels.attention_forms import AttentionKind

ROUNDS, TOKENS, ELEMENTS, TURN_SECONDS = 20, 16384, 2048, 3e-3
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
PEAK, READ = 5e14, 4e12  # operations and bytes a second, from which the number of calls in a turn is estimated
MOST_BYTES = 36 << 30  # of keys and values
LEAST_BYTES = 64 << 20  # from which on keys and values are read as fast as `copy_` reads
MIXED = (4096, 512, 2048, 6144, 1024, 512, 2048)
WORKERS = 14

# FlashAttention-3 (0251105, CUTLASS 4.3.4, nvcc 13.0) over cuDNN 9.19, both on one H200 in one run, by length.
FA3 = {
    (64, False): (0.843, 0.874, 1.106, 1.125, 1.215, 1.219),
    (64, True): (0.858, 0.902, 1.102, 1.149, 1.221, 1.230),
    (128, False): (0.989, 1.047, 1.071, 1.092, 1.117, 1.117),
    (128, True): (0.979, 1.161, 1.287, 1.355, 1.358, 1.316),
    (256, False): (1.017, 1.122, 1.160, 1.138, 1.139, 1.157),
    (256, True): (1.000, 1.108, 1.271, 1.374, 1.381, 1.399),
}
FA3_BACKWARD = {
    (64, False): (1.170, 1.176, 1.205, 1.226, 1.242, 1.210),
    (64, True): (1.145, 1.214, 1.321, 1.380, 1.392, 1.402),
    (128, False): (1.056, 1.121, 1.107, 1.108, 1.134, 1.135),
    (128, True): (1.060, 1.141, 1.193, 1.223, 1.239, 1.195),
    (256, False): (1.208, 1.238, 1.198, 1.167, 1.267, 1.307),
    (256, True): (1.104, 1.167, 1.188, 1.191, 1.141, 1.226),
}
Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A row. eager, graph: of ours, peer: theirs, in the unit; 0 where not measured. of_wanted: over what is wanted."""

    what: str
    case: str
    unit: str
    eager: float
    graph: float = 0.0
    peer: float = 0.0
    of_wanted: float = 0.0

    def cells(self) -> tuple[str, ...]:
        numbers = (f"{each:.4g}" if each else "-" for each in (self.eager, self.graph, self.peer))
        return (self.what, self.case, self.unit, *numbers, f"{self.of_wanted:.3f}" if self.of_wanted else "-")


# Inputs and peers


def inputs(width: int, length: int, heads_kv: int = 0, *, grad: bool = False) -> list[Any]:
    """Queries, keys and values."""
    import torch

    heads = ELEMENTS // width
    shapes = [(TOKENS // length, many, length, width) for many in (heads, heads_kv or heads, heads_kv or heads)]
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=grad) for shape in shapes]


def decode_inputs(batch: int, keys: int, *, heads: int = 32, heads_kv: int = 8, queries: int = 1,
                  width: int = 128) -> list[Any]:  # fmt: skip
    import torch

    shapes = ((batch, heads, queries, width), *[(batch, heads_kv, keys, width)] * 2)
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]


def pages_of(k: Any, v: Any, page: int) -> list[Any]:
    """Keys and values in pages, in any order, and the table of pages."""
    import torch

    batch, heads, n, width = k.shape
    each = -(-n // page)
    table = torch.randperm(batch * each, device="cuda").reshape(batch, each)
    found = []
    for array in (k, v):
        padded = torch.nn.functional.pad(array, (0, 0, 0, each * page - n))
        parts = padded.reshape(batch, heads, each, page, width).transpose(1, 2)
        pages = torch.empty(batch * each, heads, page, width, device="cuda", dtype=k.dtype)
        pages[table.flatten()] = parts.reshape(-1, heads, page, width)
        found.append(pages)
    return [*found, table.int()]


def operations(width: int, length: int, *, causal: bool) -> float:
    return 4.0 * TOKENS * ELEMENTS * length / (2 if causal else 1)


def by_backend(name: str, q: Any, k: Any, v: Any, **how: Any) -> Any:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, name)):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **how)


def cudnn(q: Any, k: Any, v: Any, *, causal: bool, enable_gqa: bool = False) -> Any:
    """Torch's attention by cuDNN."""
    return by_backend("CUDNN_ATTENTION", q, k, v, is_causal=causal, enable_gqa=enable_gqa)


def flash(q: Any, k: Any, v: Any) -> Any:
    """Torch's attention by FlashAttention-2, of heads that share keys."""
    return by_backend("FLASH_ATTENTION", q, k, v, enable_gqa=True)


def captured(call: Call, count: int) -> Call:
    """A CUDA graph of so many calls."""
    import torch

    call()
    torch.cuda.synchronize()
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    replay: Call = graph.replay
    return replay


@cache
def copy_rate() -> float:
    """Bytes a second that `copy_` moves: each is read, and written."""
    import torch

    a, b = (torch.empty(1 << 30, device="cuda", dtype=torch.uint8) for _ in "ab")
    return 2 * int(a.numel()) / medians({"copy": partial(b.copy_, a)}, launches=4, rounds=ROUNDS)["copy"]


def seconds(calls: Mapping[str, Call], expected: float, *, graphs: bool = True) -> dict[str, float]:
    """Of one call, eager by its name, by a graph by its name and an asterisk. expected: of one call, about."""
    count = max(1, min(20, round(TURN_SECONDS / expected)))
    found = medians(calls, launches=count, rounds=ROUNDS)
    if graphs:
        whole = medians({f"{name}*": captured(call, count) for name, call in calls.items()}, launches=1, rounds=ROUNDS)
        found |= {name: each / count for name, each in whole.items()}
    return found


# Parts


def forward() -> Iterator[Line]:
    for (width, causal), others in FA3.items():
        for length, other in zip(LENGTHS, others, strict=True):
            arrays, work = inputs(width, length), operations(width, length, causal=causal)
            found = seconds({"ours": partial(kernels.attention, *arrays, causal=causal),
                             "cuDNN": partial(cudnn, *arrays, causal=causal)}, work / PEAK)  # fmt: skip
            rate = {name: work / each / 1e12 for name, each in found.items()}
            yield Line("forward", f"D {width} {'causal' if causal else 'full'}, S {length}", "TFLOP/s", rate["ours"],
                       rate["ours*"], rate["cuDNN*"], rate["ours*"] / (rate["cuDNN*"] * max(1.0, other)))  # fmt: skip


def backward() -> Iterator[Line]:
    import torch

    for (width, causal), others in FA3_BACKWARD.items():
        for length, other in zip(LENGTHS, others, strict=True):
            arrays, work = inputs(width, length, grad=True), 2.5 * operations(width, length, causal=causal)
            slope = torch.randn_like(arrays[0])
            calls = {name: partial(torch.autograd.grad, call(*arrays, causal=causal), arrays, slope, retain_graph=True)
                     for name, call in (("ours", kernels.attention), ("cuDNN", cudnn))}  # fmt: skip
            found = seconds(calls, work / PEAK, graphs=False)
            rate = {name: work / each / 1e12 for name, each in found.items()}
            yield Line("backward", f"D {width} {'causal' if causal else 'full'}, S {length}", "TFLOP/s", rate["ours"],
                       0.0, rate["cuDNN"], rate["ours"] / (rate["cuDNN"] * max(1.0, other)))  # fmt: skip


def float8() -> Iterator[Line]:
    import torch

    for width in (64, 128, 256):
        for causal in (False, True):
            arrays, work = inputs(width, 16384), operations(width, 16384, causal=causal)
            narrow = [x.to(torch.float8_e4m3fn) for x in arrays]
            found = seconds({"ours": partial(kernels.attention, *narrow, causal=causal),
                             "bfloat16": partial(kernels.attention, *arrays, causal=causal)}, work / PEAK)  # fmt: skip
            rate = {name: work / each / 1e12 for name, each in found.items()}
            yield Line("float8", f"D {width} {'causal' if causal else 'full'}, S 16384", "TFLOP/s", rate["ours"],
                       rate["ours*"], rate["bfloat16*"], rate["ours*"] / 1000 if width == 128 else 0.0)  # fmt: skip


def shared() -> Iterator[Line]:
    """32 heads of queries for 8 of keys; packed sequences of mixed lengths: beside the same work in equal parts."""
    import torch

    for causal in (False, True):
        name = "causal" if causal else "full"
        for length in (2048, 8192):
            shapes = [(TOKENS // length, many, length, 128) for many in (32, 8, 8, 32, 32)]
            q, k, v, *equal = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
            work = 2 * operations(128, length, causal=causal)
            found = seconds({"ours": partial(kernels.attention, q, k, v, causal=causal),
                             "equal": partial(kernels.attention, q, *equal, causal=causal)}, work / PEAK)  # fmt: skip
            rate = {who: work / each / 1e12 for who, each in found.items()}
            yield Line("32/8 heads", f"D 128 {name}, S {length}", "TFLOP/s", rate["ours"], rate["ours*"],
                       rate["equal*"], rate["ours*"] / rate["equal*"])  # fmt: skip
        starts = torch.tensor([sum(MIXED[:i]) for i in range(len(MIXED) + 1)], device="cuda", dtype=torch.int32)
        packed = [torch.randn(TOKENS, 16, 128, device="cuda", dtype=torch.bfloat16) for _ in "qkv"]
        each = sum(n * n for n in MIXED) / TOKENS  # the length of equal sequences with as much work for a token
        equal = [torch.randn(round(TOKENS / each), 16, round(each), 128, device="cuda", dtype=torch.bfloat16)
                 for _ in "qkv"]  # fmt: skip
        works = [4 * ELEMENTS * sum(n * n for n in many) / (2 if causal else 1)
                 for many in (MIXED, [equal[0].shape[2]] * equal[0].shape[0])]  # fmt: skip
        calls = {"ours": partial(kernels.attention, *packed, causal=causal, cu_seqlens=starts, longest=max(MIXED)),
                 "equal": partial(kernels.attention, *equal, causal=causal)}  # fmt: skip
        found = seconds(calls, works[0] / PEAK)
        rate = {who: works[who.startswith("equal")] / each / 1e12 for who, each in found.items()}
        yield Line("packed", f"D 128 {name}, {len(MIXED)} lengths", "TFLOP/s", rate["ours"], rate["ours*"],
                   rate["equal*"], rate["ours*"] / rate["equal*"])  # fmt: skip


def decode() -> Iterator[Line]:
    for batch in (1, 16, 128):
        for keys in (1024, 4096, 16384, 65536, 131072):
            nbytes = batch * 8 * keys * 128 * 2 * 2
            if nbytes > MOST_BYTES:
                continue
            arrays = decode_inputs(batch, keys)
            calls = {"ours": partial(kernels.attention_decode, *arrays), "flash": partial(flash, *arrays),
                     "cuDNN": partial(cudnn, *arrays, causal=False, enable_gqa=True)}  # fmt: skip
            found = seconds({name: call for name, call in calls.items() if runs(call)}, nbytes / READ + 1e-5)
            rate = {name: nbytes / each / 1e9 for name, each in found.items()}
            peer = max((rate[name] for name in ("flash*", "cuDNN*") if name in rate), default=0.0)
            yield Line("decode", f"batch {batch}, {keys} keys, {nbytes >> 20} MB", "GB/s", rate["ours"], rate["ours*"],
                       peer, rate["ours*"] * 1e9 / copy_rate())  # fmt: skip


def runs(call: Call) -> bool:
    try:
        call()
    except RuntimeError as error:
        print(f"left out: {str(error)[:100]}", flush=True)
        return False
    return True


def steps() -> Iterator[Line]:
    """The kernels of docs/attention.md, one after the other."""
    import torch

    names, length = names_of_page("attention"), 8192
    q, k, v = (each.flatten(0, 1) for each in inputs(128, length))
    work, out = operations(128, length, causal=True), torch.empty_like(q)
    calls: dict[str, Call] = {name: partial(names["attention"](step), q, k, v, out, 128**-0.5 * math.log2(math.e))
                              for name, step in names["STEPS"].items()}  # fmt: skip
    wanted = kernels.attention(q[None], k[None], v[None], causal=True)[0]
    for name, call in calls.items():
        call()
        assert (out - wanted).abs().max() < 2e-2, name
    calls["kernels.attention"] = partial(kernels.attention, q[None], k[None], v[None], causal=True)
    found = seconds(calls, work / PEAK, graphs=False)
    last = 0.0
    for name in calls:
        rate = work / found[name] / 1e12
        yield Line("steps", f"{name}, D 128 causal, S {length}", "TFLOP/s", rate, 0.0, last)
        last = rate


def errors() -> Iterator[Line]:
    """Beside torch's own bfloat16 result, both against float64; "of what is wanted" is theirs over ours."""
    import torch

    for width, causal in FA3:
        q, k, v = (x[:1, :4] for x in inputs(width, 1024))
        wide = [x.double() for x in (q, k, v)]
        scores = wide[0] @ wide[1].transpose(2, 3) * width**-0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), float("-inf"))
        wanted = torch.softmax(scores, -1) @ wide[2]
        mine, theirs = (float((each.double() - wanted).abs().max()) for each in (
            kernels.attention(q, k, v, causal=causal),
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)))  # fmt: skip
        yield Line("error", f"D {width} {'causal' if causal else 'full'}", "largest", mine, 0.0, theirs, theirs / mine)


def host() -> Iterator[Line]:
    """Microseconds of the host for an eager call."""
    import torch

    q, k, v = (torch.randn(1, 8, 128, 128, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
    calls = {"full": partial(kernels.attention, q, k, v), "causal": partial(kernels.attention, q, k, v, causal=True),
             "decode": partial(kernels.attention_decode, *decode_inputs(1, 4096)),
             "torch": partial(torch.nn.functional.scaled_dot_product_attention, q, k, v)}  # fmt: skip
    found = host_microseconds(calls, each=50, rounds=ROUNDS)
    for name in calls:
        yield Line("host time", name, "us", found[name], 0.0, found["torch"])


PARTS: dict[str, Callable[[], Iterator[Line]]] = {
    "errors": errors, "host": host, "steps": steps, "forward": forward, "float8": float8, "shared": shared,
    "decode": decode, "backward": backward,
}  # fmt: skip

# Claims: the beginning of the rows' words, which of them, the number, is it a most?
WANTED = (
    ("error", "least", 1 / 1.5, "torch's error over ours"),
    ("forward", "least", 0.97, "of the better of cuDNN and FA3"),
    ("forward", "mean", 1.0, "of the better of cuDNN and FA3"),
    ("float8 D 128", "least", 1.0, "of 1000 TFLOP/s"),
    ("backward", "least", 0.92, "of the better of cuDNN and FA3"),
    ("backward", "mean", 0.97, "of the better of cuDNN and FA3"),
    ("backward D 256", "mean", 1.05, "of the better of cuDNN and FA3"),
    ("32/8 heads", "least", 0.95, "of as many heads of keys"),
    ("packed", "least", 0.95, "of equal lengths"),
)


def claims(lines: list[Line]) -> Iterator[Claim]:
    """Those of the parts that were measured."""
    for words, which, limit, of_what in WANTED:
        found = [each.of_wanted for each in lines if f"{each.what} {each.case}".startswith(words)]
        if found:
            reduced = statistics.geometric_mean(found) if which == "mean" else min(found)
            yield Claim(f"{words}, {'geometric mean' if which == 'mean' else 'least'} {of_what}", reduced, limit)
    for mask in ("full", "causal"):
        for each in (line for line in lines if (line.what, line.case) == ("forward", f"D 128 {mask}, S 16384")):
            yield Claim(f"forward, D 128 {mask} at 16k, TFLOP/s", each.graph, 700)
    large = [each for each in lines if each.what == "decode" and int(each.case.split()[-2]) >= LEAST_BYTES >> 20]
    if large:
        yield Claim("decode of 64 MB and more, least of copy_'s rate", min(each.of_wanted for each in large), 0.85)
    if peers := [each.graph / each.peer for each in lines if each.what == "decode" and each.peer]:
        yield Claim("decode, least of the faster of cuDNN and torch's flash", min(peers), 1.0)
    if times := [each.eager for each in lines if each.what == "host time" and each.case in ("full", "causal")]:
        yield Claim("host time of an eager call, us", max(times), 15, most=True)


# Kernels are assembled beforehand, in several processes: the cache on disk then has them.


def assembled(job: tuple[Callable[..., Any], tuple[Any, ...]]) -> str:
    """What went wrong, if anything."""
    build, args = job
    try:
        return "" if build(*args).assembly else "nothing"
    except Exception as error:  # of any kind: other kernels go on
        return f"{args}: {str(error)[-300:]}"


def warm(jobs: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
    with ProcessPoolExecutor(WORKERS) as pool:
        for found in filter(None, pool.map(assembled, jobs)):
            print(found, flush=True)


def usual() -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Kernels of the parts, with their tiles."""
    jobs: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
    for width, causal in FA3:
        for kind in ("bfloat16", "float8_e4m3fn"):
            form = AttentionKind(kind, "bfloat16", width, width, last=causal)
            sizes = [
                attention_calls.AttentionSizes(TOKENS // n, ELEMENTS // width, ELEMENTS // width, n, n) for n in LENGTHS
            ]
            tiles = {attention_calls._candidates(form, each)[0] for each in sizes}
            jobs += [(forward_kernel, (form, each)) for each in tiles]
        queries, keys, stages = TILES[width]
        jobs.append((gradients, (BackwardKind("bfloat16", width, width, queries, keys, False, causal, stages),)))
    return jobs


def measured(part: str) -> Iterator[Line]:
    """The rows of a part, up to one that fails: other parts go on."""
    try:
        for line in PARTS[part]():
            print(*line.cells(), sep=" | ", flush=True)
            yield line
    except Exception as error:  # of any kind
        print(f"{part}: {type(error).__name__}: {str(error)[:500]}", flush=True)


def table(lines: list[Line]) -> Table:
    head = ("what", "case", "unit", "eager", "by a graph", "beside", "of what is wanted")
    notes = (
        "Beside: cuDNN, by a graph as well (of gradients eager); of float8 our bfloat16; of 32/8 heads and of packed"
        " sequences the same work in equal parts; of decode the faster of cuDNN and torch's flash; of a step the last.",
    )
    return Table("Attention", head, tuple(line.cells() for line in lines), tuple(claims(lines)), notes)


def run(wanted: tuple[str, ...] = tuple(PARTS)) -> Table:
    """The table, which is kept row by row: a run that is cut short leaves what it has measured."""
    from benchmarks.gpu.__main__ import machine, save

    made_on = machine()
    warm(usual())
    lines: list[Line] = []
    for part in wanted:
        for line in measured(part):
            lines.append(line)
            save("attention", table(lines), made_on)
    return table(lines)


if __name__ == "__main__":
    print(run(tuple(word for word in sys.argv[1:] if word in PARTS) or tuple(PARTS)).markdown())
