"""Kernels of several GPUs: the same bits as on the simulator, and their times beside NCCL's and torch's.

`python -m benchmarks.gpu several` starts a process for each GPU, phase by phase; a phase that fails or hangs loses its
own rows alone. NVLink's multicast stays off.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.measure import Claim, Table

LIMITS_S = {"one_gpu": 30, "gather": 50, "all_reduce": 45, "bits": 55, "scatter": 20}  # of each phase
SIZES = [1 << power for power in range(13, 22)]  # bytes of all-reduces
PRODUCTS = ((8192, 8192, 4096), (16384, 8192, 8192))  # rows of all ranks, K, columns of each rank
SCATTERED = (8192, 8192, 4096)  # rows, columns, K of each rank
QUIET = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
Row = dict[str, Any]


# One process of a group


def group(rank: int, ranks: int, store: str) -> None:
    import torch
    import torch.distributed as distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", f"file://{store}", rank=rank, world_size=ranks,
                                   device_id=torch.device("cuda", rank))  # fmt: skip


def symmetric(shape: tuple[int, ...], kind: Any) -> Any:
    import torch
    from torch.distributed import _symmetric_memory as memory

    made = memory.empty(shape, dtype=kind, device=torch.device("cuda", torch.cuda.current_device()))
    memory.rendezvous(made, torch.distributed.group.WORLD)
    return made


def gathered(x: Any) -> list[Any]:
    """A tensor of all ranks."""
    import torch

    found = [torch.empty_like(x) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(found, x)
    return found


def slowest(seconds: float) -> float:
    """Of all ranks."""
    import torch

    found = torch.tensor([seconds], device="cuda")
    torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
    return float(found)


def graphed(call: Callable[[], object], calls: int) -> Callable[[], object]:
    """So many calls as one CUDA graph."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    torch.distributed.barrier()
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        for _ in range(calls):
            call()
    replay: Callable[[], object] = made.replay
    return replay


def seconds(call: Callable[[], object], *, rounds: int, calls: int = 1) -> float:
    """The median of the slowest rank."""
    import torch

    times = []
    for turn in range(rounds + 3):
        torch.cuda.synchronize()
        torch.distributed.barrier()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        stop.synchronize()
        if turn >= 3:
            times.append(start.elapsed_time(stop) / 1000 / calls)
    return slowest(statistics.median(times))


# Phases: each yields rows, the same on all ranks


def bits(rank: int, ranks: int) -> Iterator[Row]:
    """Results of the GPUs beside those of the simulator, which gets the same arguments."""
    import numpy as np
    import torch

    from tilewright import kernels

    torch.manual_seed(rank)
    for nbytes in (4096, 1 << 16, 1 << 20, 9 << 20, 1000):
        for kind in (torch.bfloat16, torch.float16, torch.float32):
            x = torch.randn(nbytes // kind.itemsize, device="cuda").to(kind)
            parts, found = gathered(x), [kernels.all_reduce(x) for _ in range(3)][-1]
            total = torch.zeros(x.shape, device="cuda")
            for part in parts:
                total = total + part.float()
            yield {"what": f"all_reduce {nbytes} {kind}", "same": bool((found == total.to(kind)).all())}
    for m, n, k in ((256, 512, 512), (128, 128, 192), (1024, 1024, 1024)):
        a = torch.randint(-4, 5, (m, k), device="cuda").bfloat16()
        b = torch.randint(-4, 5, (k, n), device="cuda").bfloat16()
        wanted = (torch.cat(gathered(a)).float() @ b.float()).bfloat16()
        found = [kernels.all_gather_matmul(a, b) for _ in range(3)][-1]
        yield {"what": f"all_gather_matmul {m}x{n}x{k}", "same": bool((found == wanted).all())}
        wide = torch.randint(-4, 5, (m * ranks, k), device="cuda").bfloat16()
        total = sum(part.float() for part in gathered((wide.float() @ b.float()).bfloat16()))
        found = [kernels.matmul_reduce_scatter(wide, b) for _ in range(3)][-1]
        yield {
            "what": f"matmul_reduce_scatter {m}x{n}x{k}",
            "same": bool((found == total[rank * m : rank * m + m].bfloat16()).all()),
        }
    yield from beside_simulator(rank, ranks, np, torch, kernels)


def beside_simulator(rank: int, ranks: int, np: Any, torch: Any, kernels: Any) -> Iterator[Row]:
    """Random floats: the simulator rounds in the same places, in the same order."""
    from tilewright.kernels.shots import MOST_CTAS, PACKETS, one_shot

    x = torch.randn(4096, device="cuda", dtype=torch.float32)
    parts, found = [part.cpu().numpy() for part in gathered(x)], kernels.all_reduce(x)
    outs = [np.zeros_like(part) for part in parts]
    inbox = [np.zeros((2, ranks, MOST_CTAS, PACKETS), np.uint64) for _ in parts]
    calls = [np.zeros(MOST_CTAS, np.uint32) for _ in parts]
    words = [[each.view(np.uint32) for each in arrays] for arrays in (parts, outs)]
    if rank == 0:
        one_shot(ranks, "float32").simulate(*words, calls, inbox, 4, ranks=ranks)
    same = rank > 0 or bool((outs[0].view(np.uint32) == found.cpu().numpy().view(np.uint32)).all())
    yield {"what": "all_reduce beside the simulator, float32", "same": same}


def timed(calls: dict[str, Callable[[], object]], unit: float, time: Callable[[Callable[[], object]], float]) -> Row:
    """A row with the time of each call, or why there is none."""

    def of(call: Callable[[], object]) -> float | str:
        try:
            return round(time(call) * unit, 4)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:300]}"

    return {what: of(call) for what, call in calls.items()}


def all_reduce(rank: int, ranks: int) -> Iterator[Row]:
    for nbytes in SIZES:
        yield {"bytes": nbytes} | all_reduce_of(nbytes)


def all_reduce_of(nbytes: int) -> Row:
    """Microseconds of one size, in a CUDA graph."""
    import torch

    from tilewright import kernels

    name, memory = torch.distributed.group.WORLD.group_name, torch.ops.symm_mem
    x = symmetric((nbytes // 2,), torch.bfloat16).normal_()
    y, z = x.clone(), torch.empty_like(x)
    calls: dict[str, Callable[[], object]] = {
        "tilewright": lambda: kernels.all_reduce(y),
        "torch one shot": lambda: memory.one_shot_all_reduce(x, "sum", name),
        "torch one shot, out": lambda: memory.one_shot_all_reduce_out(x, "sum", name, z),
        "torch two shot": lambda: memory.two_shot_all_reduce_(x, "sum", name),
        "NCCL": lambda: torch.distributed.all_reduce(y),
    }
    return timed(calls, 1e6, lambda call: seconds(graphed(call, 20), rounds=15, calls=20))


def five_times(call: Callable[[], object]) -> float:
    return seconds(lambda: [call() for _ in range(5)], rounds=12, calls=5)


def gather(rank: int, ranks: int) -> Iterator[Row]:
    for rows, k, n in PRODUCTS:
        yield {"M, K, N": f"{rows}, {k}, {n}"} | gather_of(rows, k, n, ranks)


def gather_of(rows: int, k: int, n: int, ranks: int) -> Row:
    """Milliseconds of an all-gather product."""
    import torch

    from tilewright import kernels

    name = torch.distributed.group.WORLD.group_name
    a = symmetric((rows // ranks, k), torch.bfloat16).normal_()
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
    near = torch.empty(rows, k, device="cuda", dtype=torch.bfloat16)
    plain = a.clone()

    def nccl() -> Any:
        torch.distributed.all_gather_into_tensor(near, plain)
        return near @ b

    calls: dict[str, Callable[[], object]] = {
        "tilewright": lambda: kernels.all_gather_matmul(a, b),
        "NCCL, then matmul": nccl,
        "torch fused": lambda: torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, name),
        "NCCL by streams": overlapped(plain, b, 4),
        "matmul alone": lambda: near @ b,
        "kernels.matmul alone": lambda: kernels.matmul(near, b),
    }
    wanted, ours = nccl().float(), kernels.all_gather_matmul(a, b).float()
    return timed(calls, 1e3, five_times) | {"apart": float((wanted - ours).abs().max() / wanted.abs().max())}


def overlapped(a: Any, b: Any, parts: int) -> Callable[[], object]:
    """NCCL's all-gather of parts of the rows on a stream, and their products on another."""
    import torch

    ranks, high = torch.distributed.get_world_size(), a.shape[0] // parts
    side = torch.cuda.Stream()
    near = [torch.empty(high * ranks, a.shape[1], device="cuda", dtype=a.dtype) for _ in range(parts)]
    out = torch.empty(parts, high * ranks, b.shape[1], device="cuda", dtype=a.dtype)

    def call() -> None:
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        for i in range(parts):
            with torch.cuda.stream(side):
                torch.distributed.all_gather_into_tensor(near[i], a[i * high : i * high + high])
                done = side.record_event()
            here.wait_event(done)
            torch.mm(near[i], b, out=out[i])

    return call


def scatter(rank: int, ranks: int) -> Iterator[Row]:
    """Milliseconds of a product with reduce-scatter."""
    import torch

    from tilewright import kernels

    name, (rows, n, k) = torch.distributed.group.WORLD.group_name, SCATTERED
    a = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
    out = torch.empty(rows // ranks, n, device="cuda", dtype=torch.bfloat16)
    calls: dict[str, Callable[[], object]] = {
        "tilewright": lambda: kernels.matmul_reduce_scatter(a, b),
        "matmul, then NCCL": lambda: torch.distributed.reduce_scatter_tensor(out, a @ b),
        "torch fused": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, name),
        "matmul alone": lambda: a @ b,
    }
    yield {"M, N, K": f"{rows}, {n}, {k}"} | timed(calls, 1e3, five_times)


def one_gpu(rank: int, ranks: int) -> Iterator[Row]:
    """Several ranks on one GPU, each on a stream of its own, their peers' memory its own."""
    import torch

    import tilewright as tw
    from tilewright.kernels.shots import MOST_CTAS, PACKETS, SHARE, one_shot, two_shot

    count, words = 4, 8192
    torch.manual_seed(0)
    xs = [torch.randn(words, device="cuda") for _ in range(count)]
    outs = [torch.empty_like(x) for x in xs]
    streams = [torch.cuda.Stream() for _ in xs]
    total = torch.zeros_like(xs[0])
    for x in xs:
        total = total + x

    def zeros(*shape: int, kind: Any = torch.int32) -> list[Any]:
        return [torch.zeros(shape, dtype=kind, device="cuda") for _ in range(count)]

    def unsigned(arrays: list[Any], kind: Any) -> list[Any]:
        return tw.Symmetric.on_one_gpu([each.view(kind) for each in arrays])

    calls = [each.view(torch.uint32) for each in zeros(MOST_CTAS)]
    inbox = unsigned(zeros(2, count, MOST_CTAS, PACKETS, kind=torch.int64), torch.uint64)
    boxes = [unsigned(zeros(count, MOST_CTAS, SHARE), torch.uint32) for _ in range(2)]
    signals = unsigned(zeros(2, MOST_CTAS, count), torch.uint32)
    again = [each.view(torch.uint32) for each in zeros(MOST_CTAS)]
    torch.cuda.synchronize()
    for what, make in {"one_shot": one_shot, "two_shot": two_shot}.items():
        made = make(count, "float32")
        assert made.assembly
        for _ in range(3):
            for r, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    given = (xs[r].view(torch.uint32), outs[r].view(torch.uint32))
                    if what == "one_shot":
                        made(*given, calls[r], inbox[r], 4)
                    else:
                        made(*given, again[r], boxes[0][r], boxes[1][r], signals[r], 4)
            torch.cuda.synchronize()
        yield {"what": f"{what}, 4 ranks on one GPU", "same": all(bool((out == total).all()) for out in outs)}
        for out in outs:
            out.zero_()
        torch.cuda.synchronize()


PHASES = {each.__name__: each for each in (one_gpu, gather, all_reduce, bits, scatter)}


def phase(name: str, rank: int, ranks: int, store: str, into: str) -> None:
    """One process of a phase."""
    import torch

    if name != "one_gpu":
        group(rank, ranks, store)
    lines = open(into, "a")  # noqa: SIM115  # until the process ends
    try:
        for row in PHASES[name](rank, ranks):
            print(json.dumps(row), file=lines, flush=True)
    except Exception as error:
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:2000]}), file=lines, flush=True)
        raise
    if name != "one_gpu":
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


# The process that starts the others


def started(name: str, ranks: int) -> list[Row]:
    """The rows of a phase: of rank 0, and what other ranks say that differs."""
    out = Path(tempfile.mkdtemp())
    count = 1 if name == "one_gpu" else ranks
    command = [sys.executable, "-m", "benchmarks.gpu.several", name]
    logs = [(out / f"{rank}.log").open("w") for rank in range(count)]
    members = [
        subprocess.Popen([*command, str(rank), str(ranks), str(out / "store"), str(out / f"{rank}.rows")],
                         env={**os.environ, **QUIET}, stdout=logs[rank], stderr=subprocess.STDOUT)
        for rank in range(count)
    ]  # fmt: skip
    end = time.monotonic() + LIMITS_S[name]
    while time.monotonic() < end and any(member.poll() is None for member in members):
        if any(member.poll() not in (None, 0) for member in members):
            end = min(end, time.monotonic() + 5)
        time.sleep(0.2)
    for member in members:
        member.kill()
    codes, rows = [member.wait() for member in members], []
    for rank in range(count):
        kept = out / f"{rank}.rows"
        found = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        rows += [row | {"rank": rank} for row in found if rank == 0 or row.get("same") is False or "failed" in row]
    if any(codes):
        tail = "".join((out / f"{rank}.log").read_text()[-600:] for rank in range(count) if codes[rank])
        rows.append({"failed": f"phase {name}: exit codes {codes}", "log": tail[-1500:]})
    return rows


def claims(found: dict[str, list[Row]]) -> Iterator[Claim]:
    for name in ("one_gpu", "bits"):
        rows = [row for row in found.get(name, ()) if "same" in row]
        yield Claim(
            f"{name}: results with the bits of the reference", sum(row["same"] for row in rows) / max(1, len(rows)), 1
        )
    for row in found.get("all_reduce", ()):
        others = [row[what] for what in row if what.startswith("torch") and not isinstance(row[what], str)]
        if others and not isinstance(row["tilewright"], str):
            yield Claim(f"all-reduce of {row['bytes']} bytes, of torch's", min(others) / row["tilewright"], 1.0)
    for row in found.get("gather", ()):
        if "tilewright" not in row or isinstance(row["tilewright"], str):
            continue
        better = [row[what] for what in ("torch fused", "NCCL by streams") if not isinstance(row[what], str)]
        yield Claim(
            f"all-gather product {row['M, K, N']}, of NCCL, then matmul",
            row["NCCL, then matmul"] / row["tilewright"],
            1.2,
        )
        if better:
            yield Claim(f"all-gather product {row['M, K, N']}, of the better", min(better) / row["tilewright"], 0.95)


def run(phases: Iterable[str] = ()) -> Table:
    """All phases, or some, on the GPUs that there are."""
    import torch

    ranks = torch.cuda.device_count()
    found: dict[str, list[Row]] = {}
    for name in (phases or PHASES) if ranks > 1 else ("one_gpu",):
        found[name] = started(name, ranks)
        for row in found[name]:
            print(name, json.dumps(row), flush=True)
    rows = tuple((name, json.dumps(row)) for name, each in found.items() for row in each)
    table = Table(
        f"Several GPUs: {ranks} of them",
        ("phase", "found (all-reduce in us, products in ms)"),
        rows,
        tuple(claims(found)),
    )
    print("\n".join(map(str, table.claims)), flush=True)
    if out := os.environ.get("OUT"):
        Path(out, "several.json").write_text(json.dumps(found, indent=1))
    return table


if __name__ == "__main__":
    if len(sys.argv) == 6:
        phase(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        run(sys.argv[1:])
