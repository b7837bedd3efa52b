"""Other distributions of rows, so that the choice of `tilewright.kernels.rows` can be seen.

    python -m benchmarks.gpu.tune_rows                       # all kernels, all lengths
    python -m benchmarks.gpu.tune_rows softmax 4096,131072   # some of them
    python -m benchmarks.gpu.tune_rows softmax 4096 bfloat16

Each line: rate of `copy_` of the same bytes, threads of a CTA x runs x elements of an access, CTAs of a cluster (c),
rows that it takes (t), or clusters that stay for all rows, and rows that are ahead (a), whether weights are read early,
CTAs that a multiprocessor must have room for (r), registers. A star marks what is chosen. Ways that spill are left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.kernels.meeting import for_shifts, shifted
from tilewright.kernels.rows import BIASED, LINE, MOST_STAGED, PLAIN, READ, WEIGHTED, Rows, at_once, chosen
from tilewright.kernels.rows import shifted as shifted_rows
from tilewright.kernels.rows import staged as staged_rows

KINDS = {"float32": 4, "bfloat16": 2}
LENGTHS = (1024, 4096, 16384, 131072)
MOST_HELD, LEAST_HELD = 64, 8  # elements of a thread
SHOWN = 14
TOGETHER = 14  # ways in one process
TURN: list[Any] = []  # the lock of the GPU
SHARED_BYTES = 227 << 10
BYTES, PROCESSORS = 2**28, 132
EPS = 1e-6
# The constants of a kernel beside the rows, and its arguments: x, weights, results, a number.
EXTRA = {"softmax": "", "rms_norm": "w", "layer_norm": "ww", "cross_entropy": "t"}
USES = {"": PLAIN, "w": WEIGHTED, "ww": BIASED, "t": READ}


def usual(name: str, columns: int, item_bytes: int) -> Rows:
    """The distribution that the kernel chooses for rows without gaps."""
    vector, use = 16 // item_bytes, USES[EXTRA[name]]
    if columns % vector == 0:
        return chosen(columns, vector, item_bytes, clusters=True, use=use, many=PROCESSORS)
    if columns <= MOST_STAGED:
        return staged_rows(columns, vector, use)
    return shifted_rows(columns, vector, True, use, PROCESSORS)


def ways(columns: int, item_bytes: int, weights: int) -> Iterator[Rows]:
    """Some distributions that may be good."""
    vector = 16 // item_bytes
    if columns % vector:
        yield from shifted_ways(columns, vector, item_bytes, weights)
        yield from staying_ways(columns, item_bytes, weights) if columns > 16384 else ()
    elif columns > 16384:
        yield from shared_ways(columns, item_bytes)
        yield from staying_ways(columns, item_bytes, weights)
        yield from () if weights else part_by_part(vector, anywhere=False)
    else:
        yield from alone_ways(columns, vector, item_bytes)


def alone_ways(columns: int, vector: int, item_bytes: int) -> Iterator[Rows]:
    """For whole rows, of a warp or a CTA."""
    for cluster in (1,) if columns <= 8192 else (1, 2):
        share = columns // cluster
        for threads in (4, 8, 16, *range(32, 1025, 32)):
            held = share // threads
            if (
                not LEAST_HELD <= held <= MOST_HELD
                or share % threads
                or held % vector
                or (threads <= 32 and cluster > 1)
            ):
                continue
            full = 2048 // max(threads, 128)
            for resident in sorted({0, full} - {1}):
                if resident * max(threads, 128) * (held * item_bytes // 4 + 16) <= 65536:
                    yield Rows(threads, held // vector, vector, True, resident=resident, cluster=cluster, exact=True)
            if cluster == 1 and threads > 32:
                yield Rows(threads, held // vector, vector, True, turns=4, ahead=1, exact=True)
                yield Rows(threads, held // vector, vector, True, turns=4, ahead=1, early=True, exact=True)


def shared_ways(columns: int, item_bytes: int) -> Iterator[Rows]:
    """The same for rows that the CTAs of a cluster share."""
    vector = 16 // item_bytes
    turns = ((1, 0), (4, 1), (4, 2), (8, 1), (8, 2))
    for cluster, threads, (many, ahead), early in product((4, 8, 16), (128, 256, 512, 1024), turns, (False, True)):
        share = columns // cluster
        held, stages = share // threads, share * item_bytes * ahead + 1024
        if LEAST_HELD <= held <= MOST_HELD and held % vector == 0 and stages <= SHARED_BYTES and (early or many == 1):
            yield Rows(threads, held // vector, vector, True, cluster=cluster, turns=many, ahead=ahead, early=early,
                       exact=True)  # fmt: skip


def shifted_ways(columns: int, vector: int, item_bytes: int, weights: int) -> Iterator[Rows]:
    """For rows that begin anywhere."""
    taken = columns + LINE * vector - 1
    for cluster, threads in product((1, 2, 4, 8), (128, 160, 192, 256, 320, 384, 416, 512, 640, 768, 1024)):
        runs = -(-taken // (cluster * threads * vector))
        held = runs * vector
        if not 12 <= held <= 64 or cluster * threads * held > taken * 1.12 or taken < 2000 * cluster:
            continue
        for many, ahead, near in ((1, 0, False), (4, 1, False), (8, 1, False), (4, 1, True), (8, 1, True)):
            near_bytes = threads * held * item_bytes * (ahead + near * weights)
            if near_bytes <= SHARED_BYTES - 1024 and (weights or not near):
                yield Rows(threads, runs, vector, False, cluster=cluster, turns=many, ahead=ahead, grain=LINE,
                           early=many > 1 and weights > 0, near=near, shifted=True)  # fmt: skip
    yield from () if weights else part_by_part(vector, anywhere=True)
    for threads in (4, 8, 16, 32):
        if 4 <= (held := -(-columns // threads)) <= 40:
            for turns in {max(vector * threads // 32, 1)}:
                for resident in (0, 8, 12):
                    yield Rows(threads, held, 1, True, turns=turns, staged=columns, resident=resident)


def staying_ways(columns: int, item_bytes: int, weights: int) -> Iterator[Rows]:
    """For long rows that clusters take in turns which stay for all of them."""
    vector = 16 // item_bytes
    anywhere = columns % vector > 0
    taken = columns + (LINE * vector - 1) * anywhere
    for cluster, threads, resident in product((4, 8, 16), range(96, 1025, 32), (1, 2, 3, 4)):
        runs = -(-taken // (cluster * threads * vector))
        held, clusters = runs * vector, at_once(cluster, PROCESSORS) * resident
        stays = clusters // vector * vector if anywhere else clusters
        if not (8 <= held <= 64 and cluster * threads * held <= taken * 1.12 and stays and threads * resident <= 1024):
            continue
        for ahead, near, early in product((1, 2), (False, True), (True,)):
            nbytes = threads * held * item_bytes * (ahead + near * weights) + 1024
            if nbytes * resident <= SHARED_BYTES and (weights or not near):
                yield Rows(threads, runs, vector, not anywhere, cluster=cluster, stays=stays, ahead=ahead, near=near,
                           early=early and weights > 0, resident=resident, shifted=anywhere,
                           grain=LINE if anywhere else 1,
                           exact=not anywhere and columns % (cluster * threads * held) == 0)  # fmt: skip


def part_by_part(vector: int, *, anywhere: bool) -> Iterator[Rows]:
    """For rows that a CTA goes through, beginning anywhere or on 16 bytes."""
    for threads, runs in product((128, 192, 256, 512), (1, 2, 3, 4)):
        yield Rows(threads, runs, vector, not anywhere, long=True, shifted=anywhere)


def made(name: str, rows: Rows, kind: str) -> Any:
    """The kernel. `Any`: an `Executable`."""
    extra = {"": (), "w": (kind,), "ww": (kind,), "t": ("int64",)}[EXTRA[name]]
    return import_module(f"tilewright.kernels.{name}").forward(rows, kind, *extra)


def registers(name: str, rows: Rows, kind: str) -> int:
    """Registers of a thread; 0 where some are kept in memory. Leaves the cubin in the cache."""
    try:
        found = made(name, rows, kind).resources
    except TilewrightError as error:
        print(f"{name}, {kind}, {rows}: {error.what}", flush=True)
        return 0
    return 0 if found.local_bytes else found.registers


def arguments(name: str, columns: int, kind: str) -> tuple[Any, ...]:
    import torch

    dtype = getattr(torch, kind)
    x = torch.randn(BYTES // dtype.itemsize // columns, columns, device="cuda", dtype=dtype)
    if name == "cross_entropy":
        return x, torch.randint(columns, (len(x),), device="cuda"), torch.empty(len(x), device="cuda"), -100
    weights = tuple(torch.randn(columns, device="cuda", dtype=dtype) for _ in EXTRA[name])
    return (x, *weights, torch.empty_like(x), *((EPS,) if weights else ()))


def measure(name: str, columns: int, kind: str, found: dict[Rows, int]) -> str:
    import torch

    from benchmarks.gpu.memory_bound import Captured

    args = arguments(name, columns, kind)
    taken = usual(name, columns, KINDS[kind])
    calls = {}
    for rows, used in found.items():
        star = "*" if rows == taken else " "
        turns = f" t{rows.turns} a{rows.ahead}" if rows.turns > 1 else ""
        turns += f" stays{rows.stays} a{rows.ahead}" if rows.stays else ""
        turns += " early" if rows.early else ""
        turns += " near" if rows.near else ""
        turns += " shifted" if rows.shifted else ""
        turns += " long" if rows.long else ""
        label = f"{star}{rows.threads}x{rows.runs}x{rows.vector} c{rows.cluster}{turns} r{rows.resident} {used} regs"
        call = Captured(partial(made(name, rows, kind), *for_rows(rows, name, args)))
        gap = apart(name, args, call)
        calls[f"{label} WRONG by {gap:.2g}" if not gap < 0.03 else label] = call
    shown = show(f"{name}, {kind}, rows of {columns}", BYTES if name == "cross_entropy" else 2 * BYTES, calls)
    calls.clear()
    torch.cuda.empty_cache()
    return shown


def for_rows(rows: Rows, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments as a kernel of these rows takes them."""
    x, *others = args
    lines, rest = others[: weights_of(name)], others[weights_of(name) :]
    copies = for_shifts(rows, *lines)
    for compiled, arguments in shifted(rows, lines, copies):
        compiled(*arguments)
    return (x, *copies, *rest)


def apart(name: str, args: tuple[Any, ...], call: Any) -> float:
    """How far the first and the last results are from those in double precision."""
    import torch

    result = args[-1] if torch.is_tensor(args[-1]) else args[-2]
    result.fill_(float("nan"))
    call()
    if torch.isnan(result).any():
        return float("inf")
    gaps = []
    for part in (slice(0, 40), slice(len(result) - 40, None)):
        given = args[1][part] if name == "cross_entropy" else None
        wanted = meaning(name, args[0][part].double(), given, *(w.double() for w in args[1 : 1 + weights_of(name)]))
        gaps.append(float((result[part].double() - wanted).norm() / wanted.norm()))
    return max(gaps)


def meaning(name: str, x: Any, target: Any, *weights: Any) -> Any:
    """What the kernel computes, by torch."""
    import torch
    from torch.nn import functional

    meanings = {
        "softmax": lambda: torch.softmax(x, -1),
        "rms_norm": lambda: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weights[0],
        "layer_norm": lambda: functional.layer_norm(x, x.shape[-1:], *weights, EPS),
        "cross_entropy": lambda: functional.cross_entropy(x, target, reduction="none"),
    }
    return meanings[name]()


def weights_of(name: str) -> int:
    """How many arguments have one element for each column."""
    return EXTRA[name].count("w")


def show(what: str, nbytes: int, calls: dict[str, Any]) -> str:
    from benchmarks.gpu.memory_bound import COPY, Captured, cold, copying

    times = cold({COPY: Captured(copying(nbytes)), **calls})
    copied = times.pop(COPY)
    ranked = sorted(times.items(), key=lambda item: item[1])
    shown = [item for k, item in enumerate(ranked) if k < SHOWN or item[0][0] == "*"]
    lines = (f"{what} | {copied / time:.3f} | {label}" for label, time in shown)
    return "\n".join((f"{what}: copy_ {nbytes / copied / 1e12:.2f} TB/s", *lines))


def elementwise() -> None:
    """silu_mul, in parts of other sizes; and add_rms_norm beside `copy_` of several sizes."""
    import torch

    from benchmarks.gpu.memory_bound import Captured
    from tilewright import kernels

    silu_mul = import_module("tilewright.kernels.silu_mul")
    for kind, item_bytes in KINDS.items():
        dtype, vector = getattr(torch, kind), 16 // item_bytes
        gate, up = (torch.randn(BYTES // item_bytes, device="cuda", dtype=dtype) for _ in range(2))
        y, calls = torch.empty_like(gate), {}
        for threads in (128, 256, 512):
            for runs in (1, 2, 4):
                rows = Rows(threads, runs, vector, True, exact=True)
                views = [array.view(-1, rows.part) for array in (gate, up, y)]
                calls[f" {threads}x{runs}x{vector}"] = Captured(partial(silu_mul.forward(rows, kind), *views))
        print(show(f"silu_mul, {kind}", 3 * BYTES, calls))
        x, added, w = gate.view(-1, 4096), up.view(-1, 4096), torch.randn(4096, device="cuda", dtype=dtype)
        both = {" add_rms_norm": Captured(partial(kernels.add_rms_norm, x, added, w))}
        for times in (2, 3, 4):
            print(show(f"add_rms_norm, {kind}, beside copy_ of {times} x 256 MiB", times * BYTES, both))


def groups(names: list[str], lengths: list[int]) -> Iterator[tuple[str, int, str, list[Rows]]]:
    """Ways to measure together: the usual one, and some others."""
    for name, columns, (kind, item_bytes) in product(names, lengths, KINDS.items()):
        taken = usual(name, columns, item_bytes)
        others = [rows for rows in dict.fromkeys(ways(columns, item_bytes, weights_of(name))) if rows != taken]
        for begin in range(0, len(others), TOGETHER):
            yield name, columns, kind, [taken, *others[begin : begin + TOGETHER]]


def compile_and_measure(group: tuple[str, int, str, list[Rows]]) -> str:
    """In a process of its own: processes compile side by side, and take turns at the GPU."""
    name, columns, kind, tried = group
    found: dict[Rows, int] = {}
    for rows in tried:
        used = registers(name, rows, kind)
        if used:
            found[rows] = used
    with TURN[0]:
        try:
            return measure(name, columns, kind, found)
        except Exception as error:
            return f"{name}, {kind}, rows of {columns}: {type(error).__name__}: {error}"


def remember(lock: Any) -> None:
    TURN.append(lock)


def main(wanted: list[tuple[str, int, str, list[Rows]]]) -> None:
    context = get_context("spawn")
    with context.Pool(os.cpu_count(), remember, (context.Lock(),)) as pool:
        for text in pool.imap_unordered(compile_and_measure, wanted):
            print(text, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        KINDS = {kind: KINDS[kind] for kind in sys.argv[3].split(",")}
    chosen_names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(EXTRA)
    wanted_lengths = [int(n) for n in sys.argv[2].split(",")] if len(sys.argv) > 2 else list(LENGTHS)
    main(list(groups(chosen_names, wanted_lengths)))
    if len(wanted_lengths) > 1:
        elementwise()
