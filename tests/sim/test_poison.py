"""The check of uninitialised values: moving them is fine, using them is not."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.sim.build import Lowered, at, get, lane, tid
from tilewright import T
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError
from tilewright.ir import Reinterpret, cast, select


def test_arithmetic_on_an_unwritten_register_is_an_error() -> None:
    k = Lowered()
    a, r = k.array("a", "float32", 32), k.local("r", "float32", 2)
    k.store(a, tid, get(r, 0) + 1.0)

    with pytest.raises(SimulationError, match="is uninitialised") as raised:
        k.run(a=np.zeros(32, np.float32))

    assert "arithmetic" in str(raised.value)
    assert "all lanes" in str(raised.value)


def test_a_written_register_is_fine() -> None:
    k = Lowered()
    a, r = k.array("a", "float32", 32), k.local("r", "float32", 2)
    k.store(r, 0, 2.0)
    k.store(a, tid, get(r, 0) + 1.0)
    array = np.zeros(32, np.float32)

    k.run(a=array)

    assert (array == 3).all()


def test_moves_carry_poison_along() -> None:
    k = Lowered()
    s, r = k.shared("s", "float32", 32), k.local("r", "float32", 1)
    x = k.bind("x", get(r, 0), "float32")
    k.store(s, tid, select(tid < 16, x, 1.0))
    y = k.bind("y", Reinterpret(get(s, tid), dtype("uint32")), "uint32")
    with k.when(tid >= 16):
        k.bind("z", y + 1, "uint32")

    k.run()


def test_the_poison_shows_where_it_is_looked_at() -> None:
    k = Lowered()
    s, r = k.shared("s", "float32", 32), k.local("r", "float32", 1)
    k.store(s, tid, select(tid < 16, get(r, 0), 1.0))
    k.bind("y", get(s, tid) * 2.0, "float32")

    with pytest.raises(SimulationError, match="is uninitialised") as raised:
        k.run()

    assert "lanes 0..15" in str(raised.value)
    assert raised.value.at is not None
    assert raised.value.at.line == k.line


@pytest.mark.parametrize("use", ["index", "condition", "argument", "cast", "copy"])
def test_looking_is_indexing_branching_converting_and_returning(use: str) -> None:
    k = Lowered()
    a, r = k.array("a", "int32", 32), k.local("r", "int32", 4)
    bad = get(r, 0)
    if use == "index":
        k.store(a, bad, 0)
    elif use == "condition":
        with k.when(bad > 0):
            k.store(a, tid, 0)
    elif use == "argument":
        k.store(a, tid, bad)
    elif use == "cast":
        k.bind("x", cast(bad, dtype("int64")), "int64")
    else:
        k.do("cuda.copy_bytes", at(a, tid), at(r, 0), 4)

    with pytest.raises(SimulationError, match="uninitialised"):
        k.run("poison", a=np.zeros(32, np.int32))


def test_matrix_loads_carry_the_flags_of_each_half() -> None:
    """Rows 0..3 are written; the lanes that get rows 4..7 may hold them, not compute with them."""
    k = Lowered()
    s, r = k.shared("s", "uint16", 64), k.local("r", "uint16", 2)
    with k.when(lane < 4):
        k.do("cuda.copy_bytes", at(s, lane * 8), at(k.array("a", "uint16", 32), lane * 8), 16)
    k.do("cuda.warp_sync")
    k.do("ptx.ldmatrix", False, 1, ".b16", at(s, lane % 8 * 8), get(r, 0))
    out = k.array("out", "uint16", 64)
    with k.when(lane < 16):
        k.store(out, lane * 2, get(r, 0))
        k.store(out, lane * 2 + 1, get(r, 1))
    array = np.zeros(64, np.uint16)

    k.run(a=np.arange(32, dtype=np.uint16), out=array)

    assert array[:32].tolist() == list(range(32))
    k.bind("x", get(r, 0) + 1, "uint16")
    with pytest.raises(SimulationError, match="uninitialised") as raised:
        k.run(a=np.arange(32, dtype=np.uint16), out=array)
    assert "lanes 16..31" in str(raised.value)


def test_a_shuffle_carries_poison_from_lane_to_lane() -> None:
    from tilewright.isa import call

    k = Lowered()
    r, out = k.local("r", "int32", 1), k.array("out", "int32", 32)
    with k.when(lane >= 16):
        k.store(r, 0, lane)
    x = k.bind("x", call("cuda.shfl_xor_sync", 0xFFFFFFFF, get(r, 0), 16), "int32")
    with k.when(lane < 16):
        k.store(out, lane, x)
    array = np.zeros(32, np.int32)

    k.run(out=array)

    assert array[:16].tolist() == list(range(16, 32))
    k.store(out, lane, x)
    with pytest.raises(SimulationError, match="uninitialised") as raised:
        k.run(out=array)
    assert "lanes 16..31" in str(raised.value)


def test_ctas_that_differ_keep_their_own_flags() -> None:
    from tests.sim.build import cta

    k = Lowered(grid=4)
    s, out = k.shared("s", "int32", 32), k.array("out", "int32", 128)
    with k.when(cta % 2 == 0):
        k.store(s, tid, cta)
    with k.when(cta == 2):
        k.store(out, cta * 32 + tid, get(s, tid))
    array = np.zeros(128, np.int32)

    k.run(out=array)

    assert (array[64:96] == 2).all()
    with k.when(cta == 3):
        k.store(out, cta * 32 + tid, get(s, tid))
    with pytest.raises(SimulationError, match="uninitialised") as raised:
        k.run(out=array)
    assert "CTA (3, 0, 0)" in str(raised.value)


def test_arrays_from_the_host_are_initialised() -> None:
    k = Lowered()
    a = k.array("a", "float32", 32)
    k.store(a, tid, get(a, tid) * 2.0)

    k.run(a=np.ones(32, np.float32))


@pytest.mark.parametrize("kind", ["int64", "uint64", "float64", "uint32", "uint8"])
def test_a_stored_constant_initialises_all_bytes_of_its_place(kind: str) -> None:
    @T.prim_func
    def constant(B: T.Buffer((1,), kind)):
        T.thread_id([1])
        s = T.alloc_shared([1], kind)
        s[0] = T.cast(0, kind)
        B[0] = s[0] + T.cast(3, kind)

    b = np.zeros(1, kind)
    tw.simulate(constant, b)

    assert b[0] == 3


# A value that another thread writes later


def read_first(split: int, *, meets: bool) -> str:
    """Threads below ``split`` read what the others store, before a barrier, or with nothing between the two."""

    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.cta_id([2])
        thread = T.thread_id([64])
        s = T.alloc_shared((64,), "float32")
        if thread < split:
            B[thread] = s[thread + split]
        if meets:
            T.cuda.cta_sync()
        if thread >= split:
            s[thread] = A[thread]

    with pytest.raises(SimulationError) as raised:
        tw.simulate(kernel, np.ones(64, np.float32), np.zeros(64, np.float32))
    return str(raised.value)


@pytest.mark.parametrize(("split", "barrier"), [(32, "cta_sync"), (16, "warp_sync")])
def test_a_value_that_another_thread_writes_later_is_told_as_their_race(split: int, barrier: str) -> None:
    said = read_first(split, meets=False)

    assert f"race: load reads s[{split}], which another thread has not written yet" in said
    assert "written at " in said
    assert f", and T.cuda.{barrier}() between them" in said


def test_a_value_that_is_written_after_a_barrier_is_uninitialised_before_it() -> None:
    assert "s[32] is uninitialised" in read_first(32, meets=True)
