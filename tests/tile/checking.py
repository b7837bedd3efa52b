"""Resolving, running and judging one copy."""

from __future__ import annotations

import warnings

import numpy as np

from tests.tile.kernels import copy, kernel, whole
from tests.tile.machine import Ints, Machine
from tests.tile.oracle import copied, fresh_memory
from tilewright import tile
from tilewright.errors import TilewrightWarning
from tilewright.ir import Argument, Buffer, Kernel, Region, Stmt, Var
from tilewright.tile import Entry


def resolved(
    *statements: Stmt, arch: str = "sm_90a", threads: int = 32, symbols: tuple[Var, ...] = ()
) -> tuple[Kernel, Entry]:
    """The resolved kernel and the entry of its last tile call; another test checks the fallback's warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)
        done, report = tile.resolve(kernel(*statements, threads=threads, symbols=symbols), arch)
    return done, report.entries[-1]


def entry(
    dst: Buffer | Region,
    src: Buffer | Region,
    scope: str = "warp",
    threads: int = 32,
    arch: str = "sm_90a",
    **config: Argument,
) -> Entry:
    """Resolve one copy, run it, compare with the element-wise oracle; what the report says about it."""
    done, said = resolved(copy(dst, src, scope=scope, **config), arch=arch, threads=threads)
    to, source = whole(dst), whole(src)
    memory = fresh_memory([to.buffer, source.buffer], threads)
    expected = copied(to, source, memory, threads)
    Machine(done, memory).run()
    assert_equal(memory, expected, str(said))
    return said


def assert_equal(memory: dict[str, Ints], expected: dict[str, Ints], note: str = "") -> None:
    for name, tags in expected.items():
        assert np.array_equal(memory[name], tags), f"{name} differs\n{note}"
