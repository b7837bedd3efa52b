"""Kernels at the speed of memory: ours, torch's, torch.compile's and Triton's, beside `copy_` of the same bytes.

    python -m benchmarks.gpu memory_bound              # everything, as RESULTS.md has it
    python -m benchmarks.gpu.memory_bound rows long    # parts: blocks, rows, long, reductions, small

Each call is captured in a CUDA graph, so that the host's time does not count; calls take turns; before each one other
memory is read, so that the second-level cache has nothing of its arrays.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.gpu.measure import Claim, Table

ROUNDS = 20
BYTES = 2**28  # of an input
LENGTHS = (1024, 4096, 16384)
LONG = (65536, 131072, 262144)
KINDS = ("float32", "bfloat16")
FLUSH_BYTES = 2**27
PIECE_BYTES = 2**28
LAUNCHES = 20  # of one graph, where the work is small
OURS, COPY, TORCH, COMPILED, TRITON = "tilewright", "copy_", "torch", "torch.compile", "Triton"

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Work:
    """One thing to compute on tensors. arguments: made for (rows, columns, dtype). of_copy: the rate to reach, of
    `copy_`'s. `Any`: torch's types.
    """

    name: str
    arguments: Callable[[int, int, Any], tuple[Any, ...]]
    torch: Callable[..., Any]
    of_copy: float


def normal(rows: int, columns: int, kind: Any) -> Any:
    import torch

    return torch.randn(rows, columns, device="cuda", dtype=kind)


def works() -> dict[str, Work]:
    """The measurements over rows."""
    import torch
    from torch.nn import functional

    def weighted(rows: int, columns: int, kind: Any) -> tuple[Any, ...]:
        return normal(rows, columns, kind), normal(1, columns, kind)[0]

    def biased(rows: int, columns: int, kind: Any) -> tuple[Any, ...]:
        return *weighted(rows, columns, kind), normal(1, columns, kind)[0]

    def targeted(rows: int, columns: int, kind: Any) -> tuple[Any, ...]:
        return normal(rows, columns, kind), torch.randint(columns, (rows,), device="cuda")

    def rms(x: Any, w: Any) -> Any:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)

    found = [
        Work("softmax", lambda *shape: (normal(*shape),), lambda x: torch.softmax(x, -1), 0.95),
        Work("rms_norm", weighted, rms, 0.95),
        Work("layer_norm", biased, lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b), 0.95),
        Work("cross_entropy", targeted, lambda x, t: functional.cross_entropy(x.float(), t, reduction="none"), 0.95),
    ]
    return {work.name: work for work in found}


def passes() -> dict[str, Work]:
    """The measurements at one shape: a block of rows in, a block out."""
    import torch
    from torch.nn import functional

    def added(x: Any, r: Any, w: Any) -> Any:
        total = x + r
        wide = total.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype), total

    def quantized(x: Any) -> Any:
        wide = x.float()
        scale = wide.abs().amax(-1) / 127
        return torch.round(wide / scale[:, None]).to(torch.int8), scale

    found = [
        Work("add", lambda *shape: (normal(*shape), normal(*shape)), lambda a, b: a + b, 0.98),
        Work("silu_mul", lambda *shape: (normal(*shape), normal(*shape)), lambda g, u: functional.silu(g) * u, 0.98),
        Work("add_rms_norm", lambda *shape: (normal(*shape), normal(*shape), normal(1, *shape[1:])[0]), added, 0.98),
        Work("quantize", lambda *shape: (normal(*shape),), quantized, 0.98),
    ]
    return {work.name: work for work in found}


# Measuring


class Captured:
    """A call as a CUDA graph."""

    def __init__(self, call: Call, launches: int = 1) -> None:
        import torch

        self.call = call  # and with it what it works on
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):  # what is compiled or allocated once is so before the capture
            for _ in range(2):
                call()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(launches):
                self.result = call()

    def __call__(self) -> None:
        self.graph.replay()


def cold(calls: Mapping[str, Call], rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of one call, by name: the median of rounds in which the calls take turns, nothing in the cache."""
    import torch

    other = torch.ones(FLUSH_BYTES // 4, device="cuda")
    flush = Captured(lambda: other.sum())
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in calls}
    for _ in range(rounds + 2):  # the first ones warm up
        for name, call in calls.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush()
            start.record()
            call()
            stop.record()
            events[name].append((start, stop))
    torch.cuda.synchronize()
    return {
        name: statistics.median(start.elapsed_time(stop) / 1000 for start, stop in pairs[2:])
        for name, pairs in events.items()
    }


def moved_bytes(tensors: Any) -> int:
    """Of a tensor, or of some."""
    return sum(one.nbytes for one in tensors) if isinstance(tensors, (tuple, list)) else int(tensors.nbytes)


def copying(nbytes: int) -> Call:
    """`copy_` that moves so many bytes, read and written together, to the next MiB; in pieces of 256 MiB at most.

    A larger one is slow in a graph: 512 MiB ran at 2.7 TB/s on an H200 where 384 MiB ran at 4.2.
    """
    import torch

    source = torch.ones((nbytes + (1 << 20)) // (1 << 21) * (1 << 18), device="cuda")
    target = torch.empty_like(source)
    pieces = list(zip(source.split(PIECE_BYTES // 4), target.split(PIECE_BYTES // 4), strict=True))

    def copy() -> None:
        for one, to in pieces:
            to.copy_(one)

    return copy


def ways(name: str, by_torch: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """The contestants of one computation."""
    import torch

    from benchmarks.gpu import memory_bound_kernels, memory_bound_triton
    from tilewright import kernels

    torch._dynamo.reset()
    ours = memory_bound_kernels.add if name == "add" else getattr(kernels, name)
    return {OURS: ours, TORCH: by_torch, COMPILED: torch.compile(by_torch, dynamic=False),
            TRITON: getattr(memory_bound_triton, name)}  # fmt: skip


def compared(name: str, by_torch: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, float]:
    """Seconds of each contestant, and of `copy_`; the results are compared first."""
    import torch

    calls = {}
    wanted = by_torch(*args)
    for who, way in ways(name, by_torch).items():
        if who == TRITON and args[0].shape[-1] >= min(LONG):
            continue
        graph = Captured(partial(way, *args))
        graph()
        torch.cuda.synchronize()
        check(f"{name} by {who}", graph.result, wanted)
        calls[who] = graph
    nbytes = moved_bytes(args) + moved_bytes(wanted)
    return cold({COPY: Captured(copying(nbytes)), **calls})


def check(what: str, found: Any, wanted: Any) -> None:
    """Raises AssertionError where results are apart."""
    import torch

    found, wanted = (value if isinstance(value, tuple) else (value,) for value in (found, wanted))
    for mine, theirs in zip(found, wanted, strict=True):
        gap = {torch.bfloat16: 0.02, torch.int8: 1.01}.get(theirs.dtype, 1e-3)
        close = torch.isclose(mine[:64].float(), theirs[:64].float(), rtol=gap, atol=gap)
        assert close.float().mean() > 0.999, f"{what}: {(mine[:64].float() - theirs[:64].float()).abs().max()} apart"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. least: of the rate of `copy_`; beside: of the best peer's."""

    what: str
    seconds: Mapping[str, float]
    least: float
    beside: float = 0.99

    @property
    def best(self) -> float | None:
        return min((time for who, time in self.seconds.items() if who in (COMPILED, TRITON)), default=None)

    def cells(self) -> tuple[str, ...]:
        copied = self.seconds[COPY]
        rates = (f"{copied / self.seconds[who]:.3f}" if who in self.seconds else "-"
                 for who in (OURS, TORCH, COMPILED, TRITON))  # fmt: skip
        return self.what, f"{copied * 1e6:.1f}", *rates

    def claims(self) -> Iterator[Claim]:
        mine = self.seconds[OURS]
        if self.least:
            yield Claim(f"{self.what}: of copy_'s rate", self.seconds[COPY] / mine, self.least)
        if self.best is not None:
            yield Claim(f"{self.what}: of the best of torch.compile and Triton", self.best / mine, self.beside)


def rows(lengths: tuple[int, ...] = LENGTHS) -> Iterator[Row]:
    """Whole rows, 256 MiB of them."""
    import torch

    for work in works().values():
        for kind in KINDS:
            dtype = getattr(torch, kind)
            for columns in lengths:
                args = work.arguments(BYTES // dtype.itemsize // columns, columns, dtype)
                what = f"{work.name}, rows of {columns}, {kind}"
                least = work.of_copy if columns < min(LONG) else 0.9
                yield Row(what, compared(work.name, work.torch, args), least)


def long_rows() -> Iterator[Row]:
    """Rows that CTAs of a cluster share. Triton's tutorial kernels keep a row in one CTA: they are left out."""
    yield from rows(LONG)


def blocks() -> Iterator[Row]:
    """One shape of each of the others, 256 MiB of an input."""
    import torch

    for work in passes().values():
        for kind in KINDS:
            dtype = getattr(torch, kind)
            args = work.arguments(BYTES // dtype.itemsize // 4096, 4096, dtype)
            yield Row(f"{work.name}, {kind}", compared(work.name, work.torch, args), work.of_copy)


def reductions() -> Iterator[Row]:
    """1 GiB that is only read, against a kernel by hand that does nothing else."""
    import torch

    from benchmarks.gpu import memory_bound_kernels
    from tilewright import kernels

    x = normal(1 << 14, 1 << 14, torch.float32)
    reader = Captured(memory_bound_kernels.reading(x))
    wanted = {"row_sum": x.sum(-1), "column_sum": x.sum(0), "row_argmax": x.argmax(-1).int()}
    calls: dict[str, Captured] = {}
    for name in wanted:
        calls[name] = Captured(partial(getattr(kernels, name), x))
        calls[name]()
        torch.cuda.synchronize()
        check(name, calls[name].result, wanted[name])
    peers = {"row_sum": lambda: x.sum(-1), "column_sum": lambda: x.sum(0), "row_argmax": lambda: x.argmax(-1)}
    graphs = {f"torch {name}": Captured(call) for name, call in peers.items()}
    found = cold({COPY: reader, **calls, **graphs})
    for name in wanted:
        times = {COPY: found[COPY], OURS: found[name], TORCH: found[f"torch {name}"]}
        yield Row(f"{name}, 1 GiB of float32, of reading by hand", times, 0.97)


def small() -> Iterator[Row]:
    """Little work, again and again in one graph: what a launch and a short kernel cost."""
    import torch

    for name, columns in (("add", 1024), ("silu_mul", 1024), ("softmax", 1024), ("rms_norm", 1024)):
        work = (works() | passes())[name]
        for nbytes in (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24):
            args = work.arguments(nbytes // 2 // columns, columns, torch.bfloat16)
            graphs = {who: Captured(partial(way, *args), LAUNCHES) for who, way in ways(name, work.torch).items()}
            graphs[COPY] = Captured(copying(moved_bytes(args)), launches=LAUNCHES)
            times = {who: time / LAUNCHES for who, time in cold(graphs).items()}
            yield Row(f"{name}, {nbytes >> 10} KiB, bfloat16, replayed", times, 0, 0.97)


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "blocks": blocks, "rows": rows, "long": long_rows, "reductions": reductions, "small": small,
}  # fmt: skip
SHOWN = ("blocks", "rows", "long", "reductions", "small")


def run(parts: tuple[str, ...] = SHOWN) -> Table:
    found = []
    for part in parts:
        for row in PARTS[part]():
            print(" | ".join(row.cells()), flush=True)
            found.append(row)
    head = ("what", "copy_ us", *(f"{who}, of copy_" for who in (OURS, TORCH, COMPILED, TRITON)))
    claims = tuple(claim for row in found for claim in row.claims())
    return Table("Kernels at the speed of memory", head, tuple(row.cells() for row in found), claims)


if __name__ == "__main__":
    print(run(tuple(sys.argv[1:]) or SHOWN).markdown())
