"""Programs: compiled once, run often, on grids of any size."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.sim.build import Lowered, cta, get, tid
from tilewright.dtypes import INT32, dtype
from tilewright.ir import For, If, Var, cast, special
from tilewright.sim import Program, parse_checks


def scale(ctas: int) -> Lowered:
    k = Lowered(threads=128, grid=ctas)
    a, b, s = k.array("a", "float32", ctas * 128), k.array("b", "float32", ctas * 128), k.shared("s", "float32", 128)
    k.store(s, tid, get(a, cta * 128 + tid))
    k.do("cuda.cta_sync")
    k.store(b, cta * 128 + tid, get(s, 127 - tid) * 2.0)
    return k


@pytest.mark.parametrize("ctas", [1, 63, 64, 65, 1000])
def test_every_cta_of_a_grid_runs_once(ctas: int) -> None:
    a, b = np.random.default_rng(0).random(ctas * 128, np.float32), np.zeros(ctas * 128, np.float32)

    run = scale(ctas).run(a=a, b=b)

    assert (b.reshape(ctas, 128) == 2 * a.reshape(ctas, 128)[:, ::-1]).all()
    assert run.counts.instructions["cuda.cta_sync"] == ctas * 4


def test_a_program_runs_on_other_arrays_and_counts_anew() -> None:
    program = Program(scale(2).kernel(), parse_checks("all"))
    for factor in (1, 3):
        a, b = np.full(256, factor, np.float32), np.zeros(256, np.float32)

        run = program.run({"a_ptr": a, "b_ptr": b}, {})

        assert (b == 2 * factor).all()
        assert run.counts.bytes_read["global"] == 1024


def test_memory_does_not_grow_with_the_grid() -> None:
    peaks = []
    for ctas in (64, 2048):
        program = Program(scale(ctas).kernel(), parse_checks("none"))
        a, b = np.zeros(ctas * 128, np.float32), np.zeros(ctas * 128, np.float32)
        tracemalloc.start()
        program.run({"a_ptr": a, "b_ptr": b}, {})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert max(peaks) < 32 << 20


def test_progress_is_told_in_ctas() -> None:
    told: list[tuple[int, int]] = []
    program = Program(scale(300).kernel(), parse_checks("none"))

    program.run({"a_ptr": np.zeros(38400, np.float32), "b_ptr": np.zeros(38400, np.float32)}, {}, progress=_told(told))

    assert told[-1] == (300, 300)
    assert told == sorted(told)


def _told(into: list[tuple[int, int]]) -> Callable[[int, int], None]:
    return lambda done, total: into.append((done, total))


def test_the_grid_may_follow_from_symbols() -> None:
    n = Var("n", INT32)
    k = Lowered(threads=32, grid=(n + 31) // 32)
    a = k.array("a", "int32", n)
    k.symbols.append(n)
    i = cta * 32 + tid
    with k.when(i < n):
        k.store(a, i, i)
    array = np.zeros(100, np.int32)

    k.run(a=array, n=100)

    assert array.tolist() == list(range(100))


def test_a_grid_has_three_axes() -> None:
    k = Lowered(threads=1, grid=(2, 3, 4))
    a = k.array("a", "int32", 24)
    x, y, z = special("ctaid.x"), special("ctaid.y"), special("ctaid.z")
    k.store(a, (z * 3 + y) * 2 + x, x * 100 + y * 10 + z + special("nctaid.y") * 1000)
    array = np.zeros(24, np.int32)

    k.run(a=array)

    assert array.reshape(4, 3, 2)[3, 2, 1] == 3123


def test_a_cluster_is_a_block_of_neighbouring_ctas() -> None:
    k = Lowered(threads=32, grid=(4, 1, 1), cluster=2)
    a = k.array("a", "int32", 4)
    with k.when(tid == 0):
        k.store(a, cta, special("clusterid.x") * 10 + special("cluster_ctarank"))
    k.do("cuda.cluster_sync")
    array = np.zeros(4, np.int32)

    k.run(a=array)

    assert array.tolist() == [0, 1, 10, 11]


def test_scalars_come_in_their_dtype() -> None:
    k = Lowered()
    a, x, y = k.array("a", "float16", 32), k.scalar("x", "float16"), k.scalar("y", "uint8")
    k.store(a, tid, x * cast(y + 255, dtype("float16")))
    array = np.zeros(32, np.float16)

    k.run(a=array, x=0.1, y=3)

    assert array[0] == np.float16(0.1) * np.float16(2)


def test_loops_stay_loops() -> None:
    k = Lowered()
    a = k.array("a", "int32", 32)
    with k.loop("i", 0, 10000) as i:
        k.store(a, tid, get(a, tid) + i)
    program = Program(k.kernel(), parse_checks("none"))

    assert len(program.compiled.source.splitlines()) < 30


def test_statements_of_one_object_are_told_apart() -> None:
    """The parser may put one statement object in two places, of which only one waits."""
    k = Lowered(threads=64)
    a = k.array("a", "int32", 64)
    with k.loop("i", 0, 3) as i:
        with k.when(i == 1):
            k.leave(loop=True)
        k.do("cuda.cta_sync")
    with k.loop("j", 0, 3) as j:
        with k.when(j == 1):
            k.leave(loop=True)
        k.store(a, tid, get(a, tid) + 1)
    made = k.kernel()
    first, second = made.body[-2], made.body[-1]
    assert isinstance(first, For)
    assert isinstance(second, For)
    leaves, also = first.body[0], second.body[0]
    assert isinstance(leaves, If)
    assert isinstance(also, If)
    shared = replace(second, body=(replace(also, then=leaves.then), *second.body[1:]))
    array = np.zeros(64, np.int32)

    Program(replace(made, body=(*made.body[:-1], shared)), parse_checks("all")).run({"a_ptr": array}, {})

    assert (array == 1).all()


def test_an_empty_grid_and_an_empty_array_are_fine() -> None:
    n = Var("n", INT32)
    k = Lowered(threads=32, grid=(n + 31) // 32)
    a = k.array("a", "int32", n)
    k.symbols.append(n)
    k.store(a, tid, 1)

    k.run(a=np.zeros(0, np.int32), n=0)
