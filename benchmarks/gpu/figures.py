"""The machine's figures that the model of time plays with: rates and latencies, as small kernels show them.

    python -m benchmarks.gpu figures
    python -m benchmarks.gpu.figures FOLDER     # keeps what there is after each part, in FOLDER/figures.json

Instructions are timed on one SM by its clock: latency with one warp and one chain, rate with many. Memory is timed with
events around a CUDA graph, HBM with nothing of the arrays in the cache. A part that fails leaves the others.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from ctypes import addressof, byref, c_uint64, c_void_p
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.gpu import figures_kernels as texts
from benchmarks.gpu.measure import ARCH, Table
from tilewright.cuda import driver
from tilewright.cuda.nvrtc import assemble

Figures = dict[str, float]
MANY_WARPS, CHAINS = 16, 4
SHARED = 65536
WIDTHS = (8, 16, 32, 64, 96, 128, 192, 256)
BIG, NEAR = 1 << 28, 24 << 20  # bytes of arrays: in HBM, and in the second-level cache
GRIDS = (1, 132, 264, 1056, 4224, 16896, 67584)
ROUNDS = 5


class Probe:
    """A kernel that is launched on tensors and whole numbers. `Any`: tensors."""

    def __init__(
        self, cubin: bytes, threads: int, shared_bytes: int = 0, *, overlaps: bool = False, entry: str = "probe",
        block: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.function = driver.load_function(driver.device(0), cubin, entry, shared_bytes, 1)
        self.block, self.shared_bytes = extents(block or (threads,)), shared_bytes
        self.attributes = (addressof(driver.OVERLAPPING), 1) if overlaps else (None, 0)

    def __call__(self, grid: int | Sequence[int], *args: Any) -> None:
        import torch

        values = [c_uint64(arg if isinstance(arg, int) else arg.data_ptr()) for arg in args]
        pointers = (c_void_p * len(values))(*(addressof(value) for value in values))
        config = driver.LaunchConfig(extents(grid), self.block, self.shared_bytes, None, *self.attributes)
        config.stream = torch.cuda.current_stream().cuda_stream
        driver.call("cuLaunchKernelEx", byref(config), c_void_p(self.function), pointers, None)


def extents(of: int | Sequence[int]) -> tuple[int, int, int]:
    """Along x, y and z."""
    x, y, z, *_ = (*((of,) if isinstance(of, int) else of), 1, 1)
    return x, y, z


def cubin(text: str) -> bytes | str:
    """The machine code, or why there is none."""
    try:
        return assemble(text, ARCH).cubin
    except Exception as error:  # of any compiler
        return f"{type(error).__name__}: {str(error)[:200]}"


def assembled(wanted: Mapping[str, str]) -> dict[str, bytes]:
    """The machine codes of texts, by name, assembled side by side; those that fail are printed and left out."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        made = dict(zip(wanted, pool.map(cubin, wanted.values(), chunksize=4), strict=True))
    for name, code in made.items():
        if isinstance(code, str):
            print(f"{name}: {code}", flush=True)
    return {name: code for name, code in made.items() if isinstance(code, bytes)}


# Instructions, by the clock of an SM


def clocked(code: bytes, threads: int, shared: int = SHARED) -> float:
    """Cycles from the first warp's beginning to the last one's end; the least of some runs."""
    import torch

    times, out = (torch.zeros(128, dtype=torch.int64, device="cuda") for _ in "to")
    data = torch.zeros(1 << 16, dtype=torch.int64, device="cuda")
    call, found = Probe(code, threads, shared), []
    for _ in range(3):
        call(1, times, out, data)
        torch.cuda.synchronize()
        begins, ends = times[: threads // 16].view(-1, 2).T.tolist()
        found.append(max(ends) - min(begins))
    return float(min(found))


def instructions() -> Iterator[tuple[str, float]]:
    wanted = {}
    for row in texts.INSTRUCTIONS:
        wanted[f"{row.name}|1"] = texts.instruction_text(row, 1)
        wanted[f"{row.name}|{CHAINS}"] = texts.instruction_text(row, CHAINS)
    codes = assembled(wanted)
    each = texts.ROUNDS * texts.REPEATED
    for row in texts.INSTRUCTIONS:
        if f"{row.name}|1" in codes and row.waits:
            yield f"{row.name}: latency", clocked(codes[f"{row.name}|1"], 32) / each / row.many
        for warps in (4, MANY_WARPS, 32):
            if f"{row.name}|{CHAINS}" in codes:
                cycles = clocked(codes[f"{row.name}|{CHAINS}"], 32 * warps) / each / row.many
                yield f"{row.name}: cycles, {warps} warps", cycles / warps


def products() -> Iterator[tuple[str, float]]:
    cases = [(kind, n, False) for kind in ("bf16", "e4m3") for n in WIDTHS] + [("bf16", n, True) for n in (64, 128)]
    wanted = {f"{kind} {n} {own}": texts.wgmma_text(n, kind, from_registers=own) for kind, n, own in cases}
    codes = assembled(wanted)
    for kind, n, own in cases:
        for groups in (1, 2):
            if f"{kind} {n} {own}" in codes:
                cycles = clocked(codes[f"{kind} {n} {own}"], 128 * groups)
                what = f"wgmma m64n{n} {kind}{', A in registers' if own else ''}: cycles, {groups} warpgroups"
                yield what, cycles / texts.ROUNDS / 4 / groups


# Memory, by events


def timed(calls: Mapping[str, Callable[[], object]], *, cold: bool) -> dict[str, float]:
    """Seconds of each call, captured: medians."""
    import torch

    from benchmarks.gpu.memory_bound import FLUSH_BYTES, Captured

    other = torch.ones(FLUSH_BYTES // 4, device="cuda")
    flush, found = Captured(lambda: other.sum()), {}
    for name, call in calls.items():
        graph, times = Captured(call), []
        for turn in range(ROUNDS + 1):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush() if cold else graph()
            start.record()
            graph()
            stop.record()
            stop.synchronize()
            times += [start.elapsed_time(stop) / 1000] * (turn > 0)
        found[name] = statistics.median(times)
    return found


def memory() -> Iterator[tuple[str, float]]:
    """Bytes a second, read and written ones both, by what is on its way."""
    import torch

    ways = [(mode, threads, many, width) for mode in ("read", "write", "copy") for threads in (128, 256, 1024)
            for many, width in ((1, 16), (4, 16), (8, 16), (4, 4))]  # fmt: skip
    wanted = {f"{way} far": texts.memory_text(*way[:3], width=way[3]) for way in ways}
    wanted |= {f"{way} near": texts.memory_text(*way[:3], width=way[3], again=8) for way in ways}
    codes = assembled(wanted)
    a, b = (torch.ones(BIG // 4, dtype=torch.int32, device="cuda") for _ in "ab")
    for far, size in (("far", BIG), ("near", NEAR)):
        for way in ways:
            mode, threads, many, width = way
            if f"{way} {far}" not in codes:
                continue
            probe, calls = Probe(codes[f"{way} {far}"], threads), {}
            room = 2048 // threads
            grids = {f"{ctas} CTAs of an SM": 132 * ctas for ctas in (1, 2, 4, 8, 16) if ctas <= room}
            if (many, width) == (8, 16) and threads == 1024:
                grids |= {f"{ctas} CTAs in all": ctas for ctas in (1, 2, 4, 8, 16, 33, 66, 99)}
            if far == "far" and threads == 256:
                grids["CTAs of one turn"] = BIG // (threads * many * width)
            for name, grid in grids.items():
                calls[name] = partial(probe, grid, a, b, size // width)
            moved = size * (2 if mode == "copy" else 1) * (8 if far == "near" else 1)
            where = "HBM" if far == "far" else "L2"
            for name, seconds in timed(calls, cold=far == "far").items():
                what = f"{mode} {where}, {threads} threads, {many} x {width} bytes, {name}"
                yield what + ": bytes a second", moved / seconds


def narrow() -> Iterator[tuple[str, float]]:
    """Bytes a second of accesses of 1, 2 and 4 bytes of a lane, of CTAs that go on."""
    import torch

    ways = [(mode, many, width) for mode in ("read", "write", "copy") for width in (1, 2, 4, 16) for many in (1, 8)]
    codes = assembled({f"{way} {again}": texts.memory_text(way[0], 256, way[1], width=way[2], again=again)
                       for way in ways for again in (1, 8)})  # fmt: skip
    a, b = (torch.ones(BIG // 4, dtype=torch.int32, device="cuda") for _ in "ab")
    for where, size, again in (("HBM", BIG, 1), ("L2", NEAR, 8)):
        calls = {str(way): partial(Probe(codes[f"{way} {again}"], 256), 132 * 8, a, b, size // way[2]) for way in ways}
        for (mode, many, width), seconds in zip(ways, timed(calls, cold=where == "HBM").values(), strict=True):
            moved = size * (2 if mode == "copy" else 1) * again
            yield f"{mode} {where}, {many} x {width} bytes of a lane: bytes a second", moved / seconds


def latencies() -> Iterator[tuple[str, float]]:
    """Cycles of a load that waits for the one before, by where it hits."""
    import torch

    probe = Probe(assembled({"chase": texts.CHASED})["chase"], 1)
    times = torch.zeros(4, dtype=torch.int64, device="cuda")
    for where, size, stride in (("L2", 1 << 20, 128), ("L2, 24 MB", NEAR, 4096 + 128), ("HBM", 1 << 30, 1 << 16)):
        count = size // 8
        order = (torch.arange(count // (stride // 8)) * (stride // 8)).tolist()
        order = order[:: max(1, len(order) // 4096)]
        chain = torch.zeros(count, dtype=torch.int64, device="cuda")
        at = torch.tensor(order, device="cuda")
        at = at[torch.randperm(len(at), device="cuda")]
        chain[at] = chain.data_ptr() + 8 * torch.roll(at, -1)
        start = chain[int(at[0]) :]
        steps = len(order) if where != "HBM" else len(order) // 2
        if where != "HBM":
            probe(1, times, start, steps)
        torch.cuda.synchronize()
        probe(1, times, start, steps)
        torch.cuda.synchronize()
        yield f"load, {where}: latency", float(times[1] - times[0]) / steps


# Copies by units, launches, clusters


def bulk_copies() -> Iterator[tuple[str, float]]:
    import torch

    pieces, depths = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8)
    cases = [(piece << 10, stages) for piece in pieces for stages in depths if piece * stages <= 208]
    codes = assembled({f"{piece} {stages}": texts.bulk_text(piece, stages) for piece, stages in cases})
    a, times = torch.ones(BIG // 4, dtype=torch.int32, device="cuda"), torch.zeros(4, dtype=torch.int64, device="cuda")
    for piece, stages in cases:
        if f"{piece} {stages}" not in codes:
            continue
        probe = Probe(codes[f"{piece} {stages}"], 128, piece * stages + 1024)
        for where, size, grid in (("L2, one SM", 1 << 20, 1), ("L2", NEAR, 132), ("HBM", BIG, 132)):
            turns = 64 if size == 1 << 20 else max(stages, size // piece // 132 // (1 if where == "L2" else 4))
            found = []
            for _ in range(3):
                probe(grid, times, a, size, turns)
                torch.cuda.synchronize()
                found.append((times[:3] - times[0]).tolist())
            _, first, last = min(found, key=lambda row: row[2])
            what = f"bulk copy, {where}, {piece} bytes, {stages} on their way"
            yield f"{what}: cycles of one, with others before", last / turns
            yield f"{what}: cycles to the first", float(first)


# What makes memory slower: short pieces of rows, CTAs that come and go, many bytes at once; and how the clock falls


def pieces() -> Iterator[tuple[str, float]]:
    """Bytes a second, read and written ones both, of an array that is moved by pieces of its rows."""
    import torch

    pitch, lengths = 32768, (32, 64, 128, 256, 512, 1024)
    ways = [("along", ""), ("down", ""), ("", "along"), ("", "down"), ("along", "along"), ("along", "down"),
            ("down", "along")]  # fmt: skip
    rows, cases = BIG // pitch, [(length, *way) for length in lengths for way in ways]
    codes = assembled({str(case): texts.pieces_text(*case, pitch=pitch, rows=rows) for case in cases})
    a, b = (torch.ones(BIG // 4, dtype=torch.int32, device="cuda") for _ in "ab")
    calls = {str(case): partial(Probe(codes[str(case)], 256), BIG // 4096, a, b) for case in cases
             if str(case) in codes}  # fmt: skip
    found = timed(calls, cold=True)
    for length, reads, writes in cases:
        if (seconds := found.get(str((length, reads, writes)))) is not None:
            how = " and ".join([f"reads {reads}"] * bool(reads) + [f"writes {writes}"] * bool(writes))
            yield f"HBM, pieces of {length} bytes, {how}: bytes a second", BIG * how.count("s ") / seconds


def short_ctas() -> Iterator[tuple[str, float]]:
    """Seconds of CTAs that load once and store once, with and without a barrier between, by their threads."""
    import torch

    cases = {
        f"{threads} threads, 1 x {width} bytes{', a barrier' * barrier}": (threads, width, barrier)
        for threads in (64, 128, 256, 512, 1024) for width in (4, 16) for barrier in (False, True)
    }  # fmt: skip
    begin, wanted = "#pragma unroll\n    for (int k = 0; k < 1; ++k) {\n      if (1) b[", {}
    for name, (threads, width, barrier) in cases.items():
        text = texts.memory_text("copy", threads, 1, width=width)
        assert begin in text
        wanted[name] = text.replace(begin, "__syncthreads();\n    " * barrier + begin)
    a, b = (torch.ones(BIG // 4, dtype=torch.int32, device="cuda") for _ in "ab")
    calls = {}
    for name, code in assembled(wanted).items():
        threads, width, _ = cases[name]
        calls[name] = partial(Probe(code, threads), BIG // threads // width, a, b, BIG // width)
    for name, seconds in timed(calls, cold=True).items():
        yield f"copy HBM, CTAs of one turn, {name}: bytes a second", 2 * BIG / seconds


def bursts() -> Iterator[tuple[str, float]]:
    """Cycles until all of so many bytes are there, by cp.async, where nothing else is on its way of this SM."""
    import torch

    sizes = (4, 8, 16, 32, 48, 64)
    codes = assembled({str(size): texts.BURST.replace("BYTES", str(size << 10)) for size in sizes})
    a, times = (
        torch.ones(BIG // 4, dtype=torch.int32, device="cuda"),
        torch.zeros(132, dtype=torch.int64, device="cuda"),
    )
    for size in sizes:
        probe = Probe(codes[str(size)], 256, size << 10)
        for where, grid, same in (("one SM", 1, 1), ("all SMs", 132, 1), ("all SMs, 12 have the same", 132, 12)):
            for memory, nbytes in (("L2", NEAR), ("HBM", BIG)):
                for _ in range(2):
                    probe(grid, times, a, nbytes, same)
                    torch.cuda.synchronize()
                yield f"burst of {size} KB, {memory}, {where}: cycles", float(times[:grid].float().mean()) / 32


def clocks() -> Iterator[tuple[str, float]]:
    """Cycles a second while many SMs keep one unit busy for about 20 ms, with data that differ."""
    import torch

    rounds = {"fma": 300_000, "mma": 100_000, "wgmma": 60_000}
    codes = assembled({kind: texts.busy_text(kind, many) for kind, many in rounds.items()})
    times, out = (torch.zeros(128, dtype=torch.int64, device="cuda") for _ in "to")
    data = torch.zeros(1 << 16, dtype=torch.int64, device="cuda")
    for kind, code in codes.items():
        probe = Probe(code, 256, SHARED)
        for sms in (1, 33, 66, 99, 132):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            probe(sms, times, out, data)
            stop.record()
            stop.synchronize()
            begins, ends = times[:16].view(-1, 2).T.tolist()
            cycles = max(ends) - min(begins)
            yield f"clock, {kind} on {sms} SMs: cycles a second", cycles / start.elapsed_time(stop) * 1000
            yield f"clock, {kind} on {sms} SMs: cycles of a turn", cycles / rounds[kind]


def starts() -> Iterator[tuple[str, float]]:
    """Seconds of an empty kernel: in a graph alone, by events; of one more in a graph, with and without overlap."""
    import torch

    codes = assembled({"plain": texts.EMPTY.replace("PDL", ""), "PDL": texts.EMPTY.replace("PDL", texts.OVERLAPPED)})
    out = torch.zeros(64, dtype=torch.int64, device="cuda")
    for shared, threads in ((0, 32), (0, 128), (0, 256), (0, 1024), (65536, 128), (230000, 384)):
        probe = Probe(codes["plain"], threads, shared)
        grids = GRIDS if threads < 1024 and not shared else GRIDS[:4]
        calls = {str(grid): partial(probe, grid, out) for grid in grids}
        for name, seconds in timed(calls, cold=False).items():
            yield f"empty kernel, {name} CTAs of {threads} threads, {shared} bytes: seconds", seconds
    for name, overlaps in (("plain", False), ("PDL", True)):
        probe = Probe(codes[name], 128, 0, overlaps=overlaps)

        def calls_of(many: int, probe: Probe = probe) -> None:
            for _ in range(many):
                probe(132, out)

        found = timed({str(many): partial(calls_of, many) for many in (10, 110)}, cold=False)
        yield f"one more kernel of a graph, {name}: seconds", (found["110"] - found["10"]) / 100


def clusters() -> Iterator[tuple[str, float]]:
    import torch

    codes = assembled({str(ctas): texts.CLUSTERED.replace("CTAS", str(ctas)) for ctas in (2, 4, 8)})
    times = torch.zeros(4, dtype=torch.int64, device="cuda")
    for ctas, code in codes.items():
        Probe(code, 128, 1024)(int(ctas), times)
        torch.cuda.synchronize()
        t0, t1, t2 = times[:3].tolist()
        yield f"cluster of {ctas}: cycles of a barrier", (t1 - t0) / 64
        yield f"cluster of {ctas}: cycles of a load from another CTA", (t2 - t1) / 64


def sent() -> Iterator[tuple[str, float]]:
    """Cycles in which the CTAs of a cluster each send 16 bytes a thread to each other one, and have got as many."""
    import torch

    cases = [(ctas, threads) for ctas in (2, 4, 8) for threads in (128, 256, 512)]
    codes = assembled({f"{ctas} {threads}": texts.SENT.replace("CTAS", str(ctas)).replace("THREADS", str(threads))
                       for ctas, threads in cases})  # fmt: skip
    times = torch.zeros(4, dtype=torch.int64, device="cuda")
    for ctas, threads in cases:
        for where, clusters in (("one cluster", 1), ("all SMs", 132 // ctas)):
            probe, found = Probe(codes[f"{ctas} {threads}"], threads, 16 * ctas * threads + 16), {}
            for rounds in (1, 1, 2, 10):
                probe(clusters * ctas, times, rounds)
                torch.cuda.synchronize()
                found[rounds] = int(times[1] - times[0])
            what = f"cluster of {ctas}, {threads} threads, {where}"
            yield f"{what}: cycles of 16 bytes to each other", (found[10] - found[2]) / 8
            yield f"{what}: cycles until the first 16 bytes are there", found[1]


RING = {"loads": (True, False), "products": (False, True), "both": (True, True)}
RING_TILES = ((64, 64), (64, 128), (64, 256), (128, 32), (128, 64), (128, 96), (128, 128), (128, 256), (192, 64),
              (256, 64), (256, 128))  # fmt: skip
RING_STEPS, FEW_TURNS, MANY_TURNS = 16, 8, 40  # along K; how often all of them


def ring_code(case: tuple[str, Any, str]) -> Any:
    """The `Executable` of a case, assembled, in a process of its own."""
    from benchmarks.gpu.ring_kernels import ring

    _, tiles, way = case
    exe = ring(tiles, loads=RING[way][0], multiplies=RING[way][1])
    assert exe.resources.local_bytes == 0, "spills"
    return exe


def ring_cases() -> Iterator[tuple[str, Any, str]]:
    from tilewright.kernels.forms import Tiles

    for m, n in RING_TILES:
        for cluster in (1, 2, 4) if m < 192 and n > 32 else (1, 2) if n > 32 else (1,):
            for way in RING if cluster == 1 else ("loads", "both"):
                yield f"ring of {m}x{n}, clusters of {cluster}, {way}", Tiles(m, n, cluster=cluster), way


def rings() -> Iterator[tuple[str, float]]:
    """Seconds of a step of the ring of a product: copies of tiles, products of them, or both."""
    import torch

    from benchmarks.gpu.ring_kernels import ACROSS, DOWN

    calls = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        codes = list(pool.map(ring_code, ring_cases()))
    out = torch.zeros(1, device="cuda")
    for (name, tiles, _), code in zip(ring_cases(), codes, strict=True):
        extents = DOWN * tiles.m, ACROSS[1] * tiles.n
        a, b = (torch.randn(rows, 64 * RING_STEPS, device="cuda").bfloat16() for rows in extents)
        for turns in (FEW_TURNS, MANY_TURNS):
            calls[f"{name}|{turns}"] = partial(code, a, b, out, turns)
    found = timed(calls, cold=False)
    for name, _, _ in ring_cases():
        seconds = found[f"{name}|{MANY_TURNS}"] - found[f"{name}|{FEW_TURNS}"]
        yield f"{name}: seconds of a step", seconds / RING_STEPS / (MANY_TURNS - FEW_TURNS)


def clock() -> Iterator[tuple[str, float]]:
    import torch

    times = torch.zeros(4, dtype=torch.int64, device="cuda")
    probe = Probe(assembled({"clock": texts.TIMED})["clock"], 1)
    probe(1, times)
    torch.cuda.synchronize()
    yield "clock: cycles a second", float(times[1]) / float(times[0]) * 1e9


PARTS: Sequence[Callable[[], Iterator[tuple[str, float]]]] = (
    clock, instructions, products, memory, narrow, latencies, starts, clusters, sent, rings, bulk_copies, pieces,
    short_ctas, bursts, clocks
)  # fmt: skip


def measured(folder: Path | None = None, parts: Sequence[str] = ()) -> Figures:
    """All figures; those of a part are kept as soon as they are there."""
    found: Figures = {}
    for part in PARTS:
        if parts and part.__name__ not in parts:
            continue
        begun = time.time()
        try:
            for name, value in part():
                found[name] = value
        except Exception:  # of one part: the others stay
            print(f"{part.__name__} failed:\n{traceback.format_exc()}", flush=True)
        print(f"{part.__name__}: {len(found)} figures after {time.time() - begun:.1f} s", flush=True)
        if folder is not None:
            (folder / "figures.json").write_text(json.dumps(found, indent=1))
    return found


def run() -> Table:
    rows = tuple((name, f"{value:.4g}") for name, value in measured().items())
    return Table("Figures of the machine", ("what", "measured"), rows)


if __name__ == "__main__":
    measured(Path(sys.argv[1]), sys.argv[2:])
