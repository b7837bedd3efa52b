"""Matrix products: ours beside torch.matmul, in tensor operations a second.

    python -m benchmarks.gpu.matmul                     # everything
    python -m benchmarks.gpu.matmul sizes majors        # parts
    python -m benchmarks.gpu matmul --beside gemm.cu    # with a hand-written kernel

Data are normal numbers, as the power that a product takes depends on them. Calls take turns, round by round. Back to
back: a CUDA graph of several launches, each on other inputs, more of them than the second-level cache holds. Cold: a
graph of one launch, before which other memory is read. With ``--beside`` a hand-written kernel ``gemm`` in CUDA takes
part: three tensor maps (boxes of 128 x 64, 128 x 64, 64 x 64), then M, N, K.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from ctypes import addressof, byref, c_uint32, c_void_p, create_string_buffer
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.measure import ARCH, Claim, Table
from benchmarks.gpu.memory_bound import FLUSH_BYTES, Captured
from tilewright import kernels
from tilewright.cuda import driver
from tilewright.cuda.nvrtc import assemble
from tilewright.kernels.arrays import like
from tilewright.kernels.forms import Tiles
from tilewright.kernels.products import HALVES, multiplied

ROUNDS, TURN_SECONDS, MOST_LAUNCHES = 24, 4e-3, 64
CACHED_BYTES = 192 << 20
SIZES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 2048), (16384, 4096, 4096))
WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336))
OURS, CUBLAS, TRITON, BESIDE = "tilewright", "torch.matmul", "Triton", "hand-written CUDA"
PEERS = (CUBLAS, TRITON, BESIDE)

# Claims: the part, the rows of it whose first words are these, the contestant, "mean" or "least", the limit.
WANTED = (
    ("sizes", "bfloat16", CUBLAS, "least", 0.995),
    ("sizes", "bfloat16", CUBLAS, "mean", 1.01),
    ("sizes", "float16", CUBLAS, "least", 0.995),
    ("sizes", "float16", CUBLAS, "mean", 1.01),
    ("sizes", "bfloat16", TRITON, "mean", 1.1),
    ("sizes", "bfloat16", BESIDE, "least", 1.0),
    ("layers", "bfloat16", CUBLAS, "mean", 1.0),
    ("layers", "bfloat16", CUBLAS, "least", 0.95),
    ("few rows", "bfloat16", CUBLAS, "mean", 1.15),
    ("few rows", "bfloat16", CUBLAS, "least", 1.0),
    ("majors", "bfloat16 4096^3", "NT", "least", 0.97),
    ("scaled", "e4m3, per tensor 8192^3", CUBLAS, "least", 1.0),
)

Shape = tuple[int, int, int]
Call = Callable[[Any, Any], object]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one call: medians over the rounds."""

    warm: float
    cold: float


def inputs(shape: Shape, kind: str, count: int) -> list[tuple[Any, Any]]:
    """So many pairs of A, (M, K), and B, (K, N) with K contiguous."""
    import torch

    m, n, k = shape
    made = [(torch.randn(m, k, device="cuda"), torch.randn(n, k, device="cuda")) for _ in range(count)]
    return [(a.to(getattr(torch, kind)), b.to(getattr(torch, kind)).T) for a, b in made]


def race(
    shape: Shape, kind: str, calls: Mapping[str, Call], rounds: int = ROUNDS, pairs: list[tuple[Any, Any]] | None = None
) -> dict[str, Times]:
    """The calls in turns, on the same inputs."""
    import torch

    m, n, k = shape
    pairs = pairs or inputs(shape, kind, max(1, min(8, -(-CACHED_BYTES // (2 * k * (m + n))))))
    guess = 2 * m * n * k / 6e14 + 5e-6
    launches = max(2, min(MOST_LAUNCHES, int(TURN_SECONDS / guess)))
    flush = torch.ones(FLUSH_BYTES // 4, device="cuda")
    other = Captured(lambda: flush.sum())
    single = {name: Captured(partial(call, *pairs[0])) for name, call in calls.items()}
    many = {name: Captured(in_turns(call, pairs), launches) for name, call in calls.items()}
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in calls}
    for turn in range(rounds + 2):  # the first ones warm up
        for name in calls:
            warm = timed(many[name]) / launches
            other()
            cold = timed(single[name])
            if turn >= 2:
                found[name][0].append(warm)
                found[name][1].append(cold)
    return {name: Times(*map(statistics.median, pair)) for name, pair in found.items()}


def in_turns(call: Call, pairs: list[tuple[Any, Any]]) -> Callable[[], object]:
    """A call on the next pair each time."""
    at = iter(range(1 << 30))
    return lambda: call(*pairs[next(at) % len(pairs)])


def timed(call: Callable[[], object]) -> float:
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) / 1000


def checked(shape: Shape, kind: str, call: Call) -> None:
    """AssertionError where a product is wrong."""
    (pair,) = inputs(shape, kind, 1)
    checked_on(pair, call)


def checked_on(pair: tuple[Any, Any], call: Call) -> None:
    a, b = pair
    exact = a.float() @ b.float()
    error = ((call(a, b).float() - exact).norm() / exact.norm()).item()  # type: ignore[attr-defined]  # a tensor
    assert error < 8e-3, f"{tuple(exact.shape)}: off by {error}"


# A hand-written kernel


class HandWritten:
    """A kernel ``gemm`` in CUDA: C = A @ B with K contiguous in both, bfloat16."""

    def __init__(self, path: str) -> None:
        self.shared_bytes = 4 * 49152 + 32768 + 64 + 1024
        cubin = assemble(Path(path).read_text(), ARCH).cubin
        self.function = driver.load_function(driver.device(0), cubin, "gemm", self.shared_bytes, 2)

    def __call__(self, a: Any, b: Any) -> Any:
        import torch

        from tilewright.cuda.launch import encoded

        (m, k), n = a.shape, b.shape[1]
        c = torch.empty(m, n, device="cuda", dtype=a.dtype)
        maps = [create_string_buffer(encoded(_map(array, rows), array.data_ptr()), 128)
                for array, rows in ((a, 128), (b.T, 128), (c, 64))]  # fmt: skip
        values = [*maps, *(c_uint32(size) for size in (m, n, k))]
        pointers = (c_void_p * len(values))(*(addressof(value) for value in values))
        clusters = min(-(-m // 256) * -(-n // 256), driver.device(0).multiprocessors // 2)
        config = driver.LaunchConfig((2 * clusters, 1, 1), (384, 1, 1), self.shared_bytes, None, None, 0)
        config.stream = torch.cuda.current_stream().cuda_stream
        driver.call("cuLaunchKernelEx", byref(config), c_void_p(self.function), pointers, None)
        return c


def _map(array: Any, rows: int) -> Any:
    import tilewright as tw

    return tw.TensorMap(array, box=(rows, 64), swizzle=3).fields


# Parts


@cache
def configured(tiles: Tiles, turned: bool = False) -> Call:
    """The kernel with these tiles."""

    def call(a: Any, b: Any) -> Any:
        c = like(a, (a.shape[0], b.shape[1]))
        multiplied(c, a, b.T, plan=(tiles, turned))
        return c

    return call


def torch_matmul(a: Any, b: Any) -> Any:
    return a @ b


@cache
def hand_written() -> HandWritten | None:
    return HandWritten(sys.argv[sys.argv.index("--beside") + 1]) if "--beside" in sys.argv else None


def triton_matmul(shape: Shape, kind: str) -> Call:
    """Triton's product in the configuration that is the fastest here."""
    from benchmarks.gpu import matmul_triton

    made: dict[str, Call] = {str(config): matmul_triton.configured(config) for config in matmul_triton.CONFIGS}
    calls = {name: call for name, call in made.items() if launches(call, kind)}
    times = race(shape, kind, calls, rounds=4)
    return calls[min(times, key=lambda name: times[name].warm)]


def launches(call: Call, kind: str) -> bool:
    """Is a small product right? Not every configuration compiles for every GPU."""
    try:
        checked((512, 768, 512), kind, call)
    except AssertionError:
        raise
    except Exception as error:  # Triton's own, of many types
        print(f"left out: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return False
    return True


@dataclass(frozen=True, slots=True)
class Line:
    """A row: of which elements, of what size, the times by who took them, and theirs over ours."""

    kind: str
    size: str
    operations: float  # in units of 1e12
    times: Mapping[str, Times]
    ratios: Mapping[str, float]

    def cells(self) -> tuple[str, ...]:
        found = [getattr(self.times.get(name), how, 0) for name in (OURS, *PEERS) for how in ("warm", "cold")]
        rates = [
            f"{self.operations / time:.{0 if self.operations > 100 * time else 1}f}" if time else "-" for time in found
        ]
        ratios = [f"{self.ratios[name]:.3f}" if name in self.ratios else "-" for name in ("NT", *PEERS)]
        return (self.kind, self.size, *rates, *ratios)


def line(kind: str, shape: Shape, times: Mapping[str, Times], size: str = "") -> Line:
    ratios = {name: times[name].warm / times[OURS].warm for name in PEERS if name in times}
    return Line(kind, size or " x ".join(map(str, shape)), 2 * math.prod(shape) / 1e12, times, ratios)


def compared(shape: Shape, kind: str, more: Mapping[str, Call] | None = None) -> Line:
    calls: dict[str, Call] = {OURS: kernels.matmul, CUBLAS: torch_matmul, **(more or {})}
    for name, call in calls.items():
        if name != CUBLAS:
            checked(shape, kind, call)
    return line(kind, shape, race(shape, kind, calls))


def geometric(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def sizes() -> Iterator[Line]:
    """The five sizes."""
    for kind in HALVES:
        for shape in SIZES:
            more = {TRITON: triton_matmul(shape, kind)} if kind == "bfloat16" else {}
            if kind == "bfloat16" and (other := hand_written()):
                more[BESIDE] = other
            yield compared(shape, kind, more)


def layers() -> Iterator[Line]:
    """Rows of a transformer by its weights."""
    for m in (128, 512, 2048, 8192):
        for n, k in WEIGHTS:
            yield compared((m, n, k), "bfloat16")


def few_rows() -> Iterator[Line]:
    """Few rows, where reading the weights takes the time."""
    for m in (1, 16):
        for n, k in WEIGHTS:
            yield compared((m, n, k), "bfloat16")


def majors() -> Iterator[Line]:
    """Operands that lie either way, beside those with K contiguous."""
    shape = (4096, 4096, 4096)
    pairs = inputs(shape, "bfloat16", 4)
    kept = {a.data_ptr(): (a, b, a.T.contiguous().T, b.contiguous()) for a, b in pairs}
    which = {"NT": (0, 1), "NN": (0, 3), "TT": (2, 1), "TN": (2, 3)}

    def call(places: tuple[int, int], product: Call) -> Call:
        return lambda a, b: product(*(kept[a.data_ptr()][place] for place in places))

    ours = {name: call(places, kernels.matmul) for name, places in which.items()}
    theirs = {f"{CUBLAS} {name}": call(places, torch_matmul) for name, places in which.items()}
    for each in ours.values():
        checked_on(pairs[0], each)
    times = race(shape, "bfloat16", {**ours, **theirs}, pairs=pairs)
    for name in which:
        found = line("bfloat16", shape, {OURS: times[name], CUBLAS: times[f"{CUBLAS} {name}"]}, f"4096^3, {name}")
        yield replace(found, ratios={**found.ratios, "NT": times["NT"].warm / times[name].warm})


def scaled() -> Iterator[Line]:
    """float8 with scales, beside `torch._scaled_mm`."""
    import torch

    for m in (8192, 4096):
        shape = (m, m, m)
        one, rows = torch.full((1,), 0.5, device="cuda"), torch.rand(m, 1, device="cuda")
        for what, a_scale, b_scale in (("per tensor", one, one), ("rows", rows, rows.T.contiguous())):

            def ours(a: Any, b: Any, left: Any = a_scale, right: Any = b_scale) -> Any:
                return kernels.matmul(a, b, scale_a=left, scale_b=right)

            def theirs(a: Any, b: Any, left: Any = a_scale, right: Any = b_scale) -> Any:
                left, right = (scale[0] if scale.numel() == 1 else scale for scale in (left, right))
                return torch._scaled_mm(a, b, left, right, out_dtype=torch.bfloat16, use_fast_accum=True)

            times = race(shape, "float8_e4m3fn", {OURS: ours, CUBLAS: theirs})
            yield line(f"e4m3, {what}", shape, times, f"{m}^3")


def steps() -> Iterator[Line]:
    """The kernels of docs/matmul.md, one after the other."""
    from benchmarks.gpu.measure import compiled, names_of_page

    names = names_of_page("matmul")
    for shape in (SIZES[1], SIZES[2]):
        calls: dict[str, Call] = {}
        for name in ("tensor_cores", "copy_engine", "roles", "persistent"):
            more = (driver.device(0).multiprocessors,) if name == "persistent" else ()
            calls[name] = stored_by(compiled(names[name]), more)
            checked((512, 768, 512), "bfloat16", calls[name])
        times = race(shape, "bfloat16", {**calls, OURS: kernels.matmul, CUBLAS: torch_matmul})
        for name in (*calls, OURS):
            yield line(name, shape, {OURS: times[name], CUBLAS: times[CUBLAS]})


def stored_by(exe: Any, more: tuple[int, ...]) -> Call:
    def call(a: Any, b: Any) -> Any:
        c = like(a, (a.shape[0], b.shape[1]))
        exe(a, b.T, c, *more)
        return c

    return call


PARTS = {"steps": steps, "sizes": sizes, "layers": layers, "few rows": few_rows, "majors": majors, "scaled": scaled}


def claims(part: str, lines: list[Line]) -> Iterator[Claim]:
    """The claims of a part, as far as it was measured."""
    for wanted, rows, peer, which, limit in WANTED:
        found = [each.ratios[peer] for each in lines if f"{each.kind} {each.size}".startswith(rows)
                 and peer in each.ratios]  # fmt: skip
        if wanted == part and found:
            how, reduced = ("geometric mean", geometric(found)) if which == "mean" else ("least", min(found))
            what = "speed of NT" if peer == "NT" else f"time of {peer} by ours"
            yield Claim(f"{part}, {rows}: {how} of the {what}", reduced, limit)


def run(wanted: tuple[str, ...] = tuple(PARTS)) -> Table:
    rows: list[tuple[str, ...]] = []
    held: list[Claim] = []
    for part in wanted:
        lines = []
        for each in PARTS[part]():
            print(*each.cells(), sep=" | ", flush=True)
            lines.append(each)
        rows += [each.cells() for each in lines]
        held += claims(part, lines)
    rates = [f"{name}, {how}" for name in (OURS, *PEERS) for how in ("back to back", "cold")]
    head = ("elements", "M x N x K", *rates, "of NT", *(f"by {peer}" for peer in PEERS))
    return Table("Matrix products, TFLOP/s", head, tuple(rows), tuple(held))


if __name__ == "__main__":
    asked = tuple(word for word in sys.argv[1:] if word in PARTS)
    print(run(asked or tuple(PARTS)).markdown())
