"""Programs with libcu++, cooperative groups and CUB: clean and exact as they are; with a step less they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import SimulationError
from tilewright.load import load_cu

FOLDER = Path(__file__).parent / "libcu"
has_headers = any(
    (Path(place) / "cu13/include/cccl").is_dir()
    for place in (getattr(find_spec("nvidia"), "submodule_search_locations", None) or ())
)
pytestmark = [pytest.mark.long, pytest.mark.skipif(not has_headers, reason="the wheels of CUDA's headers")]


@dataclass(frozen=True)
class Program:
    """args: made again for each run. right: are the results? mutants: what is replaced by what, the first time."""

    args: Callable[[], list[Any]]
    right: Callable[[list[Any]], Any]
    grid: int = 1
    block: int = 64
    mutants: tuple[tuple[str, str], ...] = ()


def i32(n: int) -> Any:
    return np.arange(n, dtype=np.int32)


def z(n: int) -> Any:
    return np.zeros(n, np.int32)


PROGRAMS = {
    "barrier": Program(
        lambda: [i32(64), z(192)],
        lambda a: (a[1].reshape(3, 64) == a[0][::-1] + np.arange(3)[:, None]).all(),
        1,
        64,
        (
            ("    bar.arrive_and_wait();\n    out", "    out"),
            ("bar.arrive_and_wait();\n  }", "}"),
        ),
    ),
    "barrier_token": Program(
        lambda: [i32(64), z(64)],
        lambda a: (a[1] == a[0][::-1] + 2 * np.arange(64)).all(),
        1,
        64,
        (("bar.wait(std::move(t));", ""),),
    ),
    "barrier_memcpy": Program(
        lambda: [i32(256), z(256)], lambda a: (a[1] == a[0][::-1]).all(), 1, 64, (("bar.arrive_and_wait();", ""),)
    ),
    "thread_pipeline": Program(
        lambda: [i32(256), z(256)],
        lambda a: (a[1].reshape(4, 64) == a[0].reshape(4, 64)[:, ::-1]).all(),
        1,
        64,
        (
            ("    __syncthreads();\n    out", "    out"),
            ("    __syncthreads();\n    pipe", "    pipe"),
        ),
    ),
    "roles": Program(
        lambda: [i32(160), z(160)],
        lambda a: (a[1].reshape(5, 32) == a[0].reshape(5, 32)[:, ::-1]).all(),
        1,
        64,
        (
            ("pipe.producer_acquire(); ", ""),
            ("pipe.consumer_wait(); ", ""),
        ),
    ),
    "atomic_ref": Program(
        lambda: [z(1), z(1), z(1)],
        lambda a: a[2][0] == 7,
        2,
        1,
        (
            ("memory_order_release", "memory_order_relaxed"),
            ("memory_order_acquire", "memory_order_relaxed"),
            ("thread_scope_device", "thread_scope_block"),
        ),
    ),
    "atomic_fence": Program(
        lambda: [z(1), z(1), z(1)],
        lambda a: a[2][0] == 7,
        2,
        1,
        (
            ("cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);", ""),
            ("cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);", ""),
        ),
    ),
    "atomic_ops": Program(lambda: [z(4), z(1)], lambda a: a[0][0] == 2016 and a[0][1] == 64 and a[0][2] == 128, 1, 64),
    "semaphore": Program(
        lambda: [z(1), np.ones(4, np.int32)], lambda a: a[0][0] == 4, 4, 32, (("sem->acquire();", ""),)
    ),
    "tiles": Program(lambda: [i32(64), z(4)], lambda a: (a[1] == a[0].reshape(4, 16).sum(1)).all(), 1, 64),
    "tile_shared": Program(
        lambda: [i32(64), z(64)],
        lambda a: (a[1].reshape(8, 8) == a[0].reshape(8, 8)[:, ::-1]).all(),
        1,
        64,
        (("tile.sync();", ""),),
    ),
    "reduce": Program(
        lambda: [i32(64), z(64)],
        lambda a: (a[1] == np.repeat(a[0].reshape(2, 32).sum(1) * 100 + a[0].reshape(2, 32).max(1), 32)).all(),
        1,
        64,
    ),
    "scan": Program(
        lambda: [i32(64), z(128)], lambda a: (a[1][:64] == np.cumsum(a[0].reshape(2, 32), 1).ravel()).all(), 1, 64
    ),
    "coalesced": Program(lambda: [i32(64), z(64), z(1)], lambda a: sorted(a[1][:22]) == list(range(0, 64, 3)), 1, 64),
    "cg_memcpy": Program(
        lambda: [i32(256), z(256)], lambda a: (a[1] == a[0][::-1]).all(), 1, 64, (("cg::wait(block);", ""),)
    ),
    "grid": Program(
        lambda: [z(256), z(256)], lambda a: (a[1] == np.arange(256)[::-1]).all(), 4, 64, (("g.sync();", ""),)
    ),
    "cluster": Program(lambda: [z(128)], lambda a: a[0][0] == 100 and a[0][64] == 0, 2, 64, (("c.sync();\n", "\n"),)),
    "labeled": Program(lambda: [i32(64), z(64)], lambda a: a[1][0] == 11, 1, 64),
    "invoke_one": Program(lambda: [z(1)], lambda a: a[0][0] == 2, 1, 64),
    "ptx_bulk": Program(
        lambda: [i32(256), z(256)],
        lambda a: (a[1] == a[0] + 1).all(),
        1,
        64,
        (
            ("while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}", ""),
            ("  ptx::fence_proxy_async(ptx::space_shared);\n  __syncthreads", "  __syncthreads"),
            (" ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());", ""),
        ),
    ),
    "ptx_try_wait": Program(
        lambda: [i32(64), z(64)],
        lambda a: (a[1] == a[0][::-1]).all(),
        1,
        64,
        (("while (!ptx::mbarrier_try_wait(ptx::sem_acquire, ptx::scope_cta, &bar, st)) {}", ""),),
    ),
    "barrier_tx": Program(
        lambda: [i32(256), z(256)], lambda a: (a[1] == a[0][::-1]).all(), 1, 64, (("bar.wait(std::move(t));", ""),)
    ),
    "block_reduce": Program(lambda: [i32(128), z(1)], lambda a: a[1][0] == 128 * 127 // 2, 1, 128),
    "block_scan": Program(
        lambda: [i32(512), z(512)], lambda a: (a[1] == np.cumsum(a[0])).all(), 1, 128, (("__syncthreads();", ""),)
    ),
    "radix": Program(
        lambda: [i32(128)[::-1].copy() * 37 % 101, z(128)], lambda a: (a[1] == np.sort(a[0])).all(), 1, 64
    ),
    "latch": Program(
        lambda: [i32(64), z(64)], lambda a: (a[1] == a[0][::-1]).all(), 1, 64, (("l->arrive_and_wait();", ""),)
    ),
    "split_sync": Program(
        lambda: [i32(64), z(64)],
        lambda a: (a[1] == a[0][::-1] + 3 * a[0]).all(),
        1,
        64,
        (("b.barrier_wait(cuda::std::move(t));", ""),),
    ),
    "device_barrier": Program(
        lambda: [z(4), z(8)],
        lambda a: (a[1] == [1, 2, 3, 0, 11, 12, 13, 10]).all(),
        4,
        1,
        (("b->arrive_and_wait(); out", "out"),),
    ),
    "counting": Program(
        lambda: [z(1), np.full(4, 2, np.int32), z(1), z(1)], lambda a: a[0][0] == 6 and a[3][0] <= 2, 6, 32
    ),
    "arrive_drop": Program(
        lambda: [i32(64), z(64)],
        lambda a: (a[1][:32] == a[0][::-1][:32]).all() and not a[1][32:].any(),
        1,
        64,
        (("s[t] = 0; bar.arrive_and_wait();", "s[t] = 0;"),),
    ),
    "completion": Program(lambda: [z(64)], lambda a: (a[0] == 3).all(), 1, 64),
    "spin_lock": Program(
        lambda: [z(1)],
        lambda a: a[0][0] == 5,
        5,
        32,
        (
            ("memory_order_acquire", "memory_order_relaxed"),
            ("memory_order_release", "memory_order_relaxed"),
        ),
    ),
    "wait_notify": Program(lambda: [z(1), z(1), z(1)], lambda a: a[2][0] == 5, 2, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_libraries_is_clean_and_exact(name: str) -> None:
    program = PROGRAMS[name]
    args = program.args()
    module = load_cu(FOLDER / f"{name}.cu", target="sm_90a")

    run = module["k"].simulate(*args, grid=program.grid, block=program.block)

    assert run.warnings == []
    assert program.right(args)


MUTANTS = [(name, old, new) for name, each in PROGRAMS.items() for old, new in each.mutants]


@pytest.mark.parametrize(("name", "old", "new"), MUTANTS)
def test_a_step_less_is_told(name: str, old: str, new: str) -> None:
    program = PROGRAMS[name]
    args, text = program.args(), (FOLDER / f"{name}.cu").read_text()
    assert old in text
    module = load_cu(text.replace(old, new, 1), target="sm_90a")

    try:
        run = module["k"].simulate(*args, grid=program.grid, block=program.block)
    except SimulationError:
        return
    assert run.warnings, "neither told nor warned of"
