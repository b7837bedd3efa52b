"""The checks of bounds and alignment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError
from tilewright.host import Limits
from tilewright.ir import Assume, binary, select
from tilewright.lang import T, parse_script
from tilewright.layout import ComposeLayout, Layout, S, SwizzleLayout


def guarded(limit: int) -> Lowered:
    k = Lowered(threads=64, grid=2)
    a = k.array("a", "float32", 100, (10, 10))
    i = cta * 64 + tid
    with k.when(i < limit):
        k.store(a, i, get(a, i) + 1.0)
    return k


def test_a_guarded_access_is_inside() -> None:
    a = np.zeros(100, np.float32)

    guarded(100).run(a=a)

    assert (a == 1).all()


def test_an_access_outside_names_line_buffer_coordinate_and_lanes() -> None:
    with pytest.raises(SimulationError, match="load reads outside of a") as raised:
        guarded(103).run(a=np.zeros(100, np.float32))

    text = str(raised.value)
    assert "kernel.py:2" in text
    assert "a[10, 0]" in text
    assert "CTA (1, 0, 0), warp 1, lanes 4..6" in text
    assert "shape 10 x 10 of float32" in text


def test_a_negative_index_is_outside() -> None:
    k = Lowered()
    a = k.array("a", "int32", 32)
    k.store(a, tid - 1, 0)

    with pytest.raises(SimulationError, match="store writes outside of a"):
        k.run(a=np.zeros(32, np.int32))


def test_a_shared_buffer_ends_before_its_neighbour() -> None:
    k = Lowered()
    s, _ = k.shared("s", "int32", 32), k.shared("t", "int32", 32)
    k.store(s, tid + 1, 0)

    with pytest.raises(SimulationError, match="outside of s") as raised:
        k.run()

    assert "s[32]" in str(raised.value)


def test_a_register_array_has_its_length() -> None:
    k = Lowered()
    r = k.local("r", "float32", 4)
    with k.loop("i", 0, 5) as i:
        k.store(r, i, 0.0)

    with pytest.raises(SimulationError, match="store writes outside of r"):
        k.run()


def test_without_the_check_lanes_outside_do_nothing() -> None:
    a = np.zeros(100, np.float32)

    guarded(103).run("none", a=a)

    assert (a == 1).all()


def test_the_side_of_a_select_that_is_not_chosen_is_not_read() -> None:
    k = Lowered()
    a, b = k.array("a", "int32", 16), k.array("b", "int32", 32)
    k.store(b, tid, select(tid < 16, get(a, tid), 7))
    b_array = np.zeros(32, np.int32)

    k.run(a=np.arange(16, dtype=np.int32), b=b_array)

    assert b_array.tolist() == [*range(16), *[7] * 16]


def test_a_condition_guards_the_load_behind_its_and() -> None:
    k = Lowered()
    a, b = k.array("a", "int32", 16), k.array("b", "int32", 32)
    with k.when(binary("and", tid < 16, get(a, tid) > 3)):
        k.store(b, tid, 1)
    b_array = np.zeros(32, np.int32)

    k.run(a=np.arange(16, dtype=np.int32), b=b_array)

    assert b_array.sum() == 12


def test_a_matrix_row_must_lie_inside() -> None:
    k = Lowered()
    s, r = k.shared("s", "float16", 31 * 8), k.local("r", "float16", 8)
    k.do("ptx.ldmatrix", False, 4, ".b16", at(s, lane * 8), *(get(r, 2 * m) for m in range(4)))

    with pytest.raises(SimulationError, match=r"ptx\.ldmatrix reads outside of s") as raised:
        k.run("bounds")

    assert "lane 31" in str(raised.value)


@pytest.mark.parametrize("of_matrix", [False, True])
def test_a_run_goes_on_behind_a_load_that_is_outside_and_stops_at_a_matrix(of_matrix: bool) -> None:
    """A matrix gives lanes parts of each other's rows: what follows would be about numbers that nobody has."""
    k = Lowered()
    s, r, a = k.shared("s", "float16", 31 * 8), k.local("r", "float16", 8), k.array("a", "float32", 32)
    if of_matrix:
        k.do("ptx.ldmatrix", False, 4, ".b16", at(s, lane * 8), *(get(r, 2 * m) for m in range(4)))
    else:
        k.store(r, 0, get(s, lane * 8))
    k.store(a, tid, 1.0)
    array = np.zeros(32, np.float32)

    with pytest.raises(SimulationError, match="reads outside of s"):
        k.limited(Limits(findings=2), "bounds", a=array)

    assert array.any() != of_matrix


def test_lanes_whose_row_does_not_count_may_point_anywhere() -> None:
    k = Lowered()
    s, r = k.shared("s", "float16", 64), k.local("r", "float16", 2)
    k.do("ptx.ldmatrix", False, 1, ".b16", at(s, lane * 8), get(r, 0))

    k.run("bounds")


def misaligned(offset: int) -> Lowered:
    k = Lowered()
    a, s = k.array("a", "float16", 512), k.shared("s", "float16", 512)
    k.do("cuda.copy_bytes", at(s, tid * 8 + offset), at(a, tid * 8), 16)
    return k


def test_an_aligned_copy_passes() -> None:
    misaligned(8).run(a=np.zeros(512, np.float16))


def test_a_misaligned_copy_names_the_byte() -> None:
    with pytest.raises(SimulationError, match="misaligned address in s") as raised:
        misaligned(4).run(a=np.zeros(512, np.float16))

    assert "byte 8" in str(raised.value)
    assert "a multiple of 16 bytes" in str(raised.value)


def test_a_matrix_row_starts_at_a_multiple_of_16_bytes() -> None:
    k = Lowered()
    s, r = k.shared("s", "float16", 32 * 20), k.local("r", "float16", 8)
    k.do("ptx.ldmatrix", False, 4, ".b16", at(s, lane * 20), *(get(r, 2 * m) for m in range(4)))

    with pytest.raises(SimulationError, match="misaligned address in s"):
        k.run("default")


def test_a_32_bit_register_at_an_odd_16_bit_slot_is_refused() -> None:
    k = Lowered()
    s, r = k.shared("s", "float16", 64), k.local("r", "float16", 4)
    k.do("ptx.ldmatrix", False, 1, ".b16", at(s, lane % 8 * 8), get(r, 1))

    with pytest.raises(SimulationError, match="misaligned address in r"):
        k.run("default")


def test_an_assumption_that_a_thread_breaks_is_an_error() -> None:
    k = Lowered(threads=64)
    k.add(Assume(warp == 0))

    with pytest.raises(SimulationError, match="does not hold") as raised:
        k.run()

    assert "warp 1" in str(raised.value)


@pytest.mark.parametrize(
    ("layout", "index", "said"),
    [
        (S[(4, 8) : (10, 1)], 33, "s[3, 3]"),
        (S[(4, 8) : (10, 1)], 40, "s[4, 0]"),
        (S[(4, 8) : (10, 1)], -10, "s[-1, 0]"),
        (S[(4, 8) : (10, 1)], 39, "element 39 of s"),
        (S[(4, 8) : (1, 4)], 9, "s[1, 2]"),
        (ComposeLayout(SwizzleLayout(0, 2, 3), S[(4, 8) : (8, 1)]), 9, "s[1, 0]"),
    ],
)
def test_a_place_in_storage_is_told_as_the_layouts_coordinate(layout: Layout, index: int, said: str) -> None:
    k = Lowered()
    s = k.shared("s", "int32", 40)
    k.authored[-1] = replace(k.authored[-1], shape=(4, 8), layout=layout)
    k.bind("x", get(s, index) + 1)

    with pytest.raises(SimulationError) as raised:
        k.run()

    assert said in str(raised.value)


def said_of(lines: str, kind: str = "float32") -> str:
    """What a kernel with these lines is refused with."""
    head = f"""
@T.prim_func
def k(A: T.Buffer((64,), "{kind}")):
    T.cta_id([1])
    lane = T.lane_id([32])
    s = T.alloc_shared((64,), "{kind}")
"""
    kernel = parse_script(head + "".join(f"    {line}\n" for line in lines.splitlines()))
    with pytest.raises(SimulationError) as raised:
        tw.simulate(kernel, np.zeros(64, dtype(kind).numpy))
    return str(raised.value)


@pytest.mark.parametrize("index", ["lane * 2 + 256", "lane * 2 - 2", "lane * 3"])
@pytest.mark.parametrize("buffer", ["A", "s"])
def test_half_a_byte_outside_is_an_error(buffer: str, index: str) -> None:
    value = "T.cast(1.0, 'float4_e2m1fn')"
    assert f"store writes outside of {buffer}" in said_of(f"{buffer}[{index}] = {value}", "float4_e2m1fn")


@pytest.mark.parametrize("call", ["T.cuda.vprintf(3, 5)", "T.cuda.assert_fail(3, A.ptr_to([0]), 1, A.ptr_to([0]))"])
def test_a_pointer_to_nowhere_is_an_error_at_its_line(call: str) -> None:
    said = said_of(call)
    assert "a pointer to nowhere" in said
    assert call in said


def test_a_unit_that_reads_global_memory_refuses_an_address_in_shared_memory() -> None:
    said = said_of("p = s.ptr_to([0])\np = p + 16\nT.ptx.cp_async(s.ptr_to([32]), p, 16)")
    assert "an address that is not in global memory" in said


@pytest.mark.parametrize("call", ["x = T.ptx.ld(A.ptr_to([lane - 1]))", "T.cuda.atomic_add(A.ptr_to([lane - 1]), 1.0)"])
def test_a_pointer_below_an_array_is_told_as_a_negative_index(call: str) -> None:
    assert "given:   A[-1] in CTA (0, 0, 0), warp 0, lane 0" in said_of(call)


def test_an_index_that_no_address_holds_is_told_as_hardware_takes_it() -> None:
    @T.prim_func
    def far(A: T.Buffer((32,), "float32")):
        i = T.thread_id([32])
        A[i] = A[T.int64(i) << 62]

    with pytest.raises(SimulationError, match="race: "):  # of 64 bits the lowest are left: all lanes read A[0]
        tw.simulate(far, np.zeros(32, np.float32))
