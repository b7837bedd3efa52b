"""Rows of the instruction table as the simulator runs them: operands, results, memory, text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tilewright.dtypes import HANDLE, dtype
from tilewright.errors import SimulationError
from tilewright.ir import Var, cast
from tilewright.isa import call


def test_printf_writes_one_line_per_lane_in_order() -> None:
    k = Lowered(threads=32)
    with k.when(lane < 2):
        k.do("printf", "lane %d of %.1f\n", lane, cast(lane, dtype("float32")) * 0.5)

    assert k.run().output == "lane 0 of 0.0\nlane 1 of 0.5\n"


def test_a_shuffle_exchanges_values() -> None:
    k = Lowered(threads=64)
    out = k.array("out", "float32", 64)
    x = k.bind("x", cast(tid, dtype("float32")), "float32")
    k.store(out, tid, x + call("cuda.shfl_xor_sync", 0xFFFFFFFF, x, 1))
    array = np.zeros(64, np.float32)

    k.run(out=array)

    assert array[:4].tolist() == [1, 1, 5, 5]


def test_a_vote_sees_the_active_lanes() -> None:
    k = Lowered()
    out = k.array("out", "uint32", 1)
    votes = k.bind("votes", call("cuda.ballot_sync", 0xFFFFFFFF, lane % 2 == 0), "uint32")
    with k.when(call("ptx.elect.sync", out="p")):
        k.store(out, 0, votes)
    array = np.zeros(1, np.uint32)

    k.run(out=array)

    assert array[0] == 0x55555555


@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_return_the_old_value_lane_by_lane(space: str) -> None:
    k = Lowered(threads=64, grid=3)
    out = k.array("out", "int32", 192)
    place = k.array("a", "int32", 3) if space == "global" else k.shared("a", "int32", 1)
    index = cta if space == "global" else 0
    if space == "shared":
        with k.when(tid == 0):
            k.store(place, 0, 0)
        k.do("cuda.cta_sync")
    k.store(out, cta * 64 + tid, call("cuda.atomic_add", at(place, index), 2))
    array = np.zeros(192, np.int32)
    given = {"a": np.zeros(3, np.int32)} if space == "global" else {}

    k.run(out=array, **given)

    assert array.reshape(3, 64).tolist() == [list(range(0, 128, 2))] * 3


def test_an_atomic_on_registers_is_each_lanes_own() -> None:
    k = Lowered(threads=64)
    out, own = k.array("out", "int32", 128), k.local("own", "int32", 2)
    for j in range(2):
        k.store(own, j, tid * 2 + j)
    k.store(out, tid, call("cuda.atomic_add", at(own, lane % 2), 100))
    k.store(out, 64 + tid, get(own, lane % 2))
    array = np.zeros(128, np.int32)

    k.run(out=array)

    before = 2 * np.arange(64) + np.arange(64) % 2
    assert array.tolist() == [*before, *(before + 100)]


def test_an_atomic_on_unwritten_shared_memory_is_an_error() -> None:
    k = Lowered()
    s = k.shared("s", "int32", 1)
    k.do("cuda.atomic_add", at(s, 0), 1)

    with pytest.raises(SimulationError, match="uninitialised"):
        k.run()


def test_math_functions_keep_uniform_values_uniform() -> None:
    k = Lowered()
    out, x = k.array("out", "float32", 32), k.scalar("x", "float32")
    y = k.bind("y", call("sqrt", x), "float32")
    k.store(out, tid, call("fmax", y, cast(lane, dtype("float32"))))
    array = np.zeros(32, np.float32)

    k.run(out=array, x=16.0)

    assert array.tolist() == [4, 4, 4, 4, *range(4, 32)]


def test_pointers_are_numbers() -> None:
    """A pointer in a variable, moved by bytes, into a buffer that only run time knows."""
    k = Lowered(threads=32)
    a, b = k.array("a", "float32", 64), k.array("b", "float32", 32)
    which = k.scalar("which")
    pointer = k.bind("pointer", at(a, 0), "handle")
    with k.when(which == 1):
        k.assign(pointer, at(b, 0))
    k.do("cuda.copy_bytes", at(b, tid), pointer + cast(tid * 4, HANDLE), 4)
    x, y = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)

    k.run(a=x, b=y, which=0)

    assert y.tolist() == list(range(32))


def test_a_pointer_outside_of_everything_is_an_error() -> None:
    k = Lowered()
    a = k.array("a", "float32", 32)
    pointer = k.bind("pointer", at(a, 0) + cast(1 << 20, HANDLE), "handle")
    k.do("cuda.copy_bytes", at(a, tid), pointer, 4)

    with pytest.raises(SimulationError, match="outside of a"):
        k.run(a=np.zeros(32, np.float32))


def test_a_shared_address_is_an_offset_in_the_window() -> None:
    k = Lowered()
    k.shared("pad", "float16", 64)
    s, r = k.shared("s", "float16", 64), k.local("r", "float16", 2)
    out = k.array("out", "float16", 64)
    k.store(s, tid * 2, cast(tid * 2, dtype("float16")))
    k.store(s, tid * 2 + 1, cast(tid * 2 + 1, dtype("float16")))
    k.do("cuda.cta_sync")
    address = k.bind("address", call("cuda.cast_smem_ptr_to_uint", at(s, lane % 8 * 8)), "uint32")
    k.do("ptx.ldmatrix", False, 1, ".b16", address, get(r, 0))
    k.store(out, tid * 2, get(r, 0))
    k.store(out, tid * 2 + 1, get(r, 1))
    array = np.zeros(64, np.float16)

    k.run(out=array)

    assert array.tolist() == list(range(64))


def test_a_pointer_of_run_time_leads_into_shared_memory_and_registers() -> None:
    k = Lowered(threads=64)
    out, s, r = k.array("out", "int32", 64), k.shared("s", "int32", 64), k.local("r", "int32", 4)
    k.store(s, tid, tid * 3)
    with k.loop("i", 0, 4) as i:
        k.store(r, i, tid + i)
    pointer = k.bind("pointer", at(s, tid), "handle")
    with k.when(warp == 1):
        k.assign(pointer, at(r, tid % 4))
    k.do("cuda.copy_bytes", at(out, tid), pointer, 4)
    array = np.zeros(64, np.int32)

    k.run(out=array)

    assert array[:32].tolist() == list(range(0, 96, 3))
    assert array[32:].tolist() == [t + t % 4 for t in range(32, 64)]


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_copies_of_every_width_go_through_registers(width: int) -> None:
    k = Lowered(threads=32, grid=2)
    a, b, r = k.array("a", "uint8", 1024), k.array("b", "uint8", 1024), k.local("r", "uint8", 16)
    with k.loop("i", 0, 16 // width) as i:
        k.do("cuda.copy_bytes", at(r, i * width), at(a, cta * 512 + tid * 16 + i * width), width)
    with k.loop("j", 0, 16) as j:
        k.store(b, cta * 512 + tid * 16 + j, get(r, j))
    x, y = np.random.default_rng(0).integers(0, 256, 1024, np.uint8), np.zeros(1024, np.uint8)

    k.run(a=x, b=y)

    assert (x == y).all()


def test_a_register_array_is_indexed_at_run_time() -> None:
    k = Lowered(threads=32)
    out, r = k.array("out", "int64", 32), k.local("r", "int64", 5)
    with k.loop("i", 0, 5) as i:
        k.store(r, i, i * 10)
    k.store(r, tid % 5, get(r, tid % 5) + 1)
    k.store(out, tid, get(r, tid % 5))
    array = np.zeros(32, np.int64)

    k.run(out=array)

    assert array[:5].tolist() == [1, 11, 21, 31, 41]


def test_a_view_reads_the_same_bytes_as_another_dtype() -> None:
    k = Lowered()
    out = k.array("out", "uint16", 64)
    s = k.shared("s", "float32", 32)
    halves = k.view("halves", "uint16", 64, at(s, 0), "shared")
    k.store(s, tid, 1.0)
    k.store(out, tid * 2, get(halves, tid * 2))
    k.store(out, tid * 2 + 1, get(halves, tid * 2 + 1))
    array = np.zeros(64, np.uint16)

    k.run(out=array)

    assert array[:2].tolist() == [0, 0x3F80]


def test_a_view_over_a_raw_pointer_reads_where_it_points() -> None:
    k = Lowered()
    _, out = k.array("a", "float32", 64), k.array("out", "uint32", 32)
    raw = k.view("raw", "uint32", 32, Var("a_ptr", HANDLE) + cast(128, HANDLE), "global")
    k.store(out, tid, get(raw, tid))
    array = np.zeros(32, np.uint32)

    k.run(a=np.arange(64, dtype=np.float32), out=array)

    assert array[1] == np.float32(33).view(np.uint32)


def test_vectors_are_loaded_computed_and_stored_at_once() -> None:
    k = Lowered()
    k.array("a", "float32", 128)
    wide = k.view("wide", "float32x4", 32, Var("a_ptr", HANDLE), "global")
    x = k.bind("x", get(wide, tid), "float32x4")
    k.store(wide, tid, x + x)
    array = np.arange(128, dtype=np.float32)

    run = k.run("default", a=array)

    assert array.tolist() == [2 * i for i in range(128)]
    assert run.counts.bytes_read["global"] == 512


def test_four_bit_elements_share_a_byte() -> None:
    k = Lowered()
    a, out = k.array("a", "float4_e2m1fn", 32), k.array("out", "float32", 32)
    k.store(out, tid, cast(get(a, tid), dtype("float32")))
    array = np.zeros(32, np.float32)

    k.run(a=np.full(16, 0x42, np.uint8), out=array)  # 2 -> 1.0, 4 -> 2.0

    assert array[:4].tolist() == [1, 2, 1, 2]


def test_a_device_assert_names_the_lanes() -> None:
    k = Lowered()
    k.do("cuda.device_assert", lane < 30)

    with pytest.raises(SimulationError, match="device_assert failed") as raised:
        k.run()

    assert "lanes 30..31" in str(raised.value)
