"""What a judge's warm worker takes for a submission: processor time of it and of all that it starts, in milliseconds.

A submission of ours is read, compiled and run under every check; of one in CUDA the PTX is kept, as NVRTC's part is not
the judge's. 50 ms are 20 submissions a second and core.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from benchmarks.measure import Table, Target, Times, alternately
from tilewright.serve.server import TURNED, WARMING, Workers

ROUNDS, MANY = 2, 10  # submissions of a kind, one after the other
TWICE = """
from tilewright import T


@T.prim_func
def twice(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    i = T.cta_id([(n + 127) // 128]) * 128 + T.thread_id([128])
    if i < n:
        B[i] = A[i] * T.float32(2)
"""
CUDA = """
__global__ void twice(const float* A, float* B, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) B[i] = 2 * A[i];
}
"""
REFERENCE = "def reference(A, **sizes):\n    return {'B': 2 * A}\n"


def submission(source: str = TWICE, language: str = "py", **fields: Any) -> dict[str, Any]:
    """One that is judged on B = 2 A, with other values in some fields."""
    arguments: list[dict[str, Any]] = [
        {"name": "A", "dtype": "float32", "shape": ["n"]},
        {"name": "B", "dtype": "float32", "shape": ["n"], "role": "out"},
    ]
    launched: dict[str, Any] = {}
    if language == "cu":
        arguments.append({"name": "n", "value": "n"})
        launched = {"launch": {"grid": ["(n + 127) // 128"], "block": [128]}}
    sizes = {"n": {"from": 1, "to": 256}}
    common = {"source": source, "language": language, "arguments": arguments, "sizes": sizes, "reference": REFERENCE}
    return common | launched | fields


SUBMISSIONS: dict[str, dict[str, Any]] = {
    "a row of 32 turned round in shared memory, one case": {**TURNED, "language": "py", "source": WARMING},
    "up to 256 elements scaled, one case": submission(cases=1),
    "up to 256 elements scaled, five cases": submission(),
    "up to 256 elements scaled by CUDA, its PTX kept, one case": submission(CUDA, "cu", cases=1),
}


def processor_ms(process: int) -> float:
    """What a process has taken so far, with its children that have ended. Source: Linux, proc(5), ``stat``."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * 1e3 / os.sysconf("SC_CLK_TCK")


def taken(workers: Workers) -> Times:
    times: Times = {}
    for name, given in SUBMISSIONS.items():
        before = processor_ms(workers.processes[0])
        for seed in range(MANY):
            answer = workers.ask({**given, "seed": seed})
            assert answer["status"] == "clean", answer
        times[name] = (processor_ms(workers.processes[0]) - before) / MANY
    return times


def run() -> Table:
    workers = Workers(1)
    try:
        taken(workers)  # NVRTC's texts are kept, and everything is warm
        (times,) = alternately(lambda: taken(workers), rounds=ROUNDS)
    finally:
        workers.close()
    targets = tuple(Target(each.name, 50) for each in times if "one case" in each.name)
    return Table("a submission to a warm judge, milliseconds of a core", times, targets=targets)
