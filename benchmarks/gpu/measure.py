"""Times of kernels on the GPU, tables of measurements, and claims that are checked against them."""

from __future__ import annotations

import linecache
import re
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright.cuda import driver
from tilewright.cuda.nvrtc import assemble, sass

ARCH = "sm_90a"


@dataclass(frozen=True, slots=True)
class Claim:
    """``measured`` is at least (or, ``most``, at most) ``limit``."""

    what: str
    measured: float
    limit: float
    most: bool = False

    @property
    def met(self) -> bool:
        return self.measured <= self.limit if self.most else self.measured >= self.limit

    def __str__(self) -> str:
        sign = "<=" if self.most else ">="
        return f"{self.what}: {self.measured:.3f} (wanted {sign} {self.limit:g}): {'met' if self.met else 'MISSED'}"


@dataclass(frozen=True, slots=True)
class Table:
    """The measurements of one script. rows: cells as they are printed; notes: sentences below them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        lines = [f"| {' | '.join(cells)} |" for cells in (self.head, ("---",) * len(self.head), *self.rows)]
        claims = [f"- {claim}" for claim in self.claims]
        return "\n".join([f"## {self.title}", "", *lines, *([""] if claims else []), *claims,
                          *(f"\n{note}" for note in self.notes)])  # fmt: skip


def medians(calls: Mapping[str, Callable[[], object]], *, launches: int = 10, rounds: int = 30) -> dict[str, float]:
    """Seconds of one call, by name: each is made ``launches`` times between two events, and the calls take turns."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 3):
        for name, call in calls.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(launches):
                call()
            stop.record()
            stop.synchronize()
            if turn >= 3:  # the first ones warm up
                times[name].append(start.elapsed_time(stop) / 1000 / launches)
    return {name: statistics.median(found) for name, found in times.items()}


def host_microseconds(calls: Mapping[str, Callable[[], object]], *, each: int, rounds: int) -> dict[str, float]:
    """Of one call on the host, by name: each is made ``each`` times, the calls take turns, the GPU is idle before."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 5):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(each):
                call()
            passed = time.perf_counter() - start
            if turn >= 5:  # the first ones warm up
                times[name].append(passed / each * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def names_of_page(page: str) -> dict[str, Any]:
    """What the Python blocks of a page of docs/ define, as one program."""
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
        file = f"{page}-{number}.py"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), names)
    return names


class HandWritten:
    """A kernel in CUDA, launched on tensors of torch: as a person would write it without tilewright."""

    def __init__(self, source: str, entry: str, threads: int, shared_bytes: int = 0) -> None:
        self.cubin = assemble(source, ARCH).cubin
        self.threads, self.shared_bytes = threads, shared_bytes
        self._function = driver.load_function(driver.device(0), self.cubin, entry, shared_bytes, 1)

    def __call__(self, grid: int, *tensors: Any) -> None:
        from ctypes import addressof, byref, c_void_p

        import torch

        values = [c_void_p(tensor.data_ptr()) for tensor in tensors]
        pointers = (c_void_p * len(values))(*(addressof(value) for value in values))
        config = driver.LaunchConfig((grid, 1, 1), (self.threads, 1, 1), self.shared_bytes, None, None, 0)
        config.stream = torch.cuda.current_stream().cuda_stream
        driver.call("cuLaunchKernelEx", byref(config), c_void_p(self._function), pointers, None)


def compiled(kernel: Any) -> tw.Executable:
    """For the H200, and without local memory."""
    made = tw.compile(kernel, target=ARCH)
    assert made.resources.local_bytes == 0, f"{made.name} keeps registers in memory"
    return made


def opcodes(cubin: bytes, *names: str) -> dict[str, int]:
    """How often opcodes occur in the machine code: the loads and stores after compilation."""
    lines = [line.split("*/", 1)[1] for line in sass(cubin).splitlines() if "*/" in line and ";" in line]
    return {name: sum(name in line for line in lines) for name in names}
