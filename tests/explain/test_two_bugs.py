"""Kernels of others with two bugs each: one run tells both, with their kind, their buffer and their threads."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError
from tilewright.load import LoadedModule

FILE = Path(__file__).with_name("two_bugs.cu")
MARK = "// bug"


def f32(n: int) -> Any:
    return np.arange(n, dtype=np.float32)


def i32(n: int) -> Any:
    return np.arange(n, dtype=np.int32)


class Launch(NamedTuple):
    args: tuple[Any, ...]
    found: set[tuple[str, str]]  # kind and buffer
    grid: int = 1
    block: int | tuple[int, int] = 64


LAUNCHES = {
    "transpose": Launch((f32(1024), f32(1024)), {("bounds", "in"), ("races", "tile")}, block=(32, 32)),
    "block_sum": Launch((f32(1), f32(128)), {("races", "part"), ("races", "total")}, grid=2),
    "histogram": Launch((i32(8), i32(64)), {("poison", "own"), ("races", "counts")}),
    "stencil": Launch((f32(64), f32(64)), {("bounds", "in"), ("races", "s")}),
    "handover": Launch((f32(64), i32(1), f32(64), f32(64)), {("bounds", "in"), ("races", "data")}, grid=2),
    "scan": Launch((i32(64), i32(64)), {("bounds", "in"), ("races", "s")}),
    "softmax": Launch((f32(64), f32(64)), {("races", "most"), ("races", "sums")}),
    "product": Launch((f32(256), f32(512), f32(512)), {("bounds", "a"), ("races", "y")}, block=(16, 16)),
    "last_block": Launch((f32(4), np.zeros(1, np.uint32), f32(2)), {("races", "last"), ("races", "parts")}, grid=4),
    "counters": Launch((i32(1), i32(1), i32(64)), {("races", "odd"), ("races", "even")}),
}


@cache
def module() -> LoadedModule:
    return tw.load_cu(FILE)


def marked(name: str) -> set[int]:
    """The lines of a kernel that a report has to name."""
    lines = FILE.read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if f" {name}(" in line)
    last = next(number for number, line in enumerate(lines, 1) if number > first and line == "}")
    return {number for number, line in enumerate(lines, 1) if first < number < last and MARK in line}


@pytest.mark.parametrize("name", LAUNCHES)
def test_both_bugs_are_told_in_one_run(name: str) -> None:
    args, wanted, grid, block = LAUNCHES[name]
    with pytest.raises(SimulationError) as raised:
        module()[name].simulate(*map(np.copy, args), grid=grid, block=block)

    found = raised.value.findings
    assert {each.line for each in found} >= marked(name)
    assert {(each.kind, each.buffer) for each in found} >= wanted
    assert all(each.threads for each in found)
    assert all(each.other is not None and each.other.line for each in found if each.kind == "races")
