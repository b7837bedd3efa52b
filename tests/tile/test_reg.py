"""reg: each thread copies the elements that the register layout gives it."""

from __future__ import annotations

import pytest

from tests.tile.checking import assert_equal, entry, resolved
from tests.tile.kernels import LANE, TID, WARP, buffer, copy, kernel
from tests.tile.machine import Machine
from tests.tile.oracle import fresh_memory
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import For, If, Region, Var, as_expr, const_value, statements
from tilewright.layout import ComposeLayout, R, S, SwizzleLayout, laneid, tid_in_wg, tx, warpid


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize(
    ("kind", "k", "vector", "rounds"),
    [("float32", 8, 4, 2), ("float32", 16, 4, 4), ("float16", 8, 8, 1), ("float16", 16, 8, 2)],
)
def test_a_row_per_lane_moves_in_128_bit_vectors(kind: str, k: int, vector: int, rounds: int, loads: bool) -> None:
    registers = buffer("R", "local", (32, k), S[(32, k) : (1 @ laneid, 1)], kind)
    shared = buffer("A", "shared", (32, k), None, kind)

    said = entry(*((registers, shared) if loads else (shared, registers)))

    assert (said.variant, said.plan) == ("reg", f"{rounds} x 16 bytes ({vector} elements) per thread")


@pytest.mark.parametrize("k", [8, 4])
def test_the_body_is_a_serial_loop_of_copy_bytes_even_for_one_round(k: int) -> None:
    registers, shared = (
        buffer("R", "local", (32, k), S[(32, k) : (1 @ laneid, 1)], "float32"),
        buffer("A", "shared", (32, k), None, "float32"),
    )

    done, _ = resolved(copy(registers, shared))

    (loop,) = [stmt for stmt in statements(done.body) if isinstance(stmt, For)]
    assert (loop.kind, const_value(loop.stop), loop.var.name) == ("serial", k // 4, "f")
    assert [str(stmt.var.name) for stmt in loop.body[:2]] == ["s_ptr", "r_ptr"]  # type: ignore[union-attr]
    assert str(loop.body[2].value) == "T.cuda.copy_bytes(r_ptr, s_ptr, 16)"  # type: ignore[union-attr]


@pytest.mark.parametrize("space", ["shared", "shared.dyn", "global"])
@pytest.mark.parametrize(
    ("scope", "threads", "axis"),
    [("thread", 1, None), ("warp", 32, laneid), ("warpgroup", 128, tid_in_wg), ("cta", 256, tx)],
)
def test_each_scope_and_each_pair_of_memories(scope: str, threads: int, axis: object, space: str) -> None:
    layout = S[(threads, 16) : (1 @ axis, 1)] if axis else None  # type: ignore[operator]
    registers = buffer("R", "local", (threads, 16), layout, "float16")
    memory = buffer("A", space, (threads, 16), None, "float16")

    assert [entry(*pair, scope, threads).variant for pair in ((registers, memory), (memory, registers))] == [
        "reg",
        "reg",
    ]


@pytest.mark.parametrize(
    ("layout", "plan"),
    [
        (S[(32, 4, 2) : (1 @ laneid, 2, 1)], "1 x 16 bytes (8 elements)"),  # a row of 8 per lane
        (S[(8, 32) : (1, 1 @ laneid)], "8 x 2 bytes (1 elements)"),  # strided: lane i has column i
        (S[(2, 32, 4) : (4, 1 @ laneid, 1)], "2 x 8 bytes (4 elements)"),  # rows i and i + 32
        (S[(16, 16) : (1 @ laneid, 1)], "2 x 16 bytes (8 elements)"),  # half of the lanes
        (S[(16, 16) : (2 @ laneid, 1)], "2 x 16 bytes (8 elements)"),  # every other lane
        (S[(16, 16) : (1 @ laneid, 1)] + 16 @ laneid, "2 x 16 bytes (8 elements)"),  # the upper lanes
        (S[(32, 8) : (-1 @ laneid, 1)] + 31 @ laneid, "1 x 16 bytes (8 elements)"),  # the lanes backwards
        (S[(4, 8, 8) : (1 @ laneid, 4 @ laneid, 1)], "1 x 16 bytes (8 elements)"),  # the lanes permuted
    ],
)
@pytest.mark.parametrize("loads", [True, False])
def test_ownership_decides_what_a_thread_copies(layout: object, plan: str, loads: bool) -> None:
    shape = layout.extents  # type: ignore[attr-defined]
    registers, shared = buffer("R", "local", shape, layout), buffer("A", "shared", (256,), None).view(*shape, name="A")  # type: ignore[arg-type]
    shared = buffer("A", "shared", shape)

    said = entry(*((registers, shared) if loads else (shared, registers)))

    assert said.variant == "reg"
    assert said.plan.startswith(f"{plan} per thread")


def test_every_replica_loads_and_the_first_one_stores() -> None:
    registers = buffer("R", "local", (16, 8), S[(16, 8) : (1 @ laneid, 1)] + R[2 : 16 @ laneid])
    shared = buffer("A", "shared", (16, 8))

    loading, storing = resolved(copy(registers, shared))[0], resolved(copy(shared, registers))[0]

    assert entry(registers, shared).variant == entry(shared, registers).variant == "reg"
    assert "if" not in [type(stmt).__name__.lower() for stmt in statements(loading.body)]
    assert [str(stmt.cond) for stmt in statements(storing.body) if hasattr(stmt, "cond")] == ["T.laneid < 16"]


def test_of_warps_that_hold_the_same_the_first_one_stores() -> None:
    registers, shared = buffer("R", "local", (32, 8), S[(32, 8) : (1 @ laneid, 1)]), buffer("A", "shared", (32, 8))

    done, _ = resolved(copy(shared, registers, scope="cta"), threads=128)

    assert [str(stmt.cond) for stmt in statements(done.body) if hasattr(stmt, "cond")] == ["T.tid < 32"]
    assert entry(shared, registers, "cta", 128).variant == "reg"


@pytest.mark.parametrize(
    ("kind", "nbytes", "vector"),
    [("uint8", 16, 16), ("float4_e2m1fn", 16, 32), ("float64", 16, 2), ("float6_e2m3fn", 16, 16)],
)
def test_vectors_have_whole_bytes_of_any_element_type(kind: str, nbytes: int, vector: int) -> None:
    registers = buffer("R", "local", (32, 64), S[(32, 64) : (1 @ laneid, 1)], kind)

    said = entry(registers, buffer("A", "shared", (32, 64), None, kind))

    assert said.plan.startswith(f"{64 // vector} x {nbytes} bytes ({vector} elements)")


@pytest.mark.parametrize(
    ("pitch", "start", "align", "nbytes"),
    [
        (16, 0, 0, 16),
        (24, 8, 0, 16),
        (20, 0, 0, 8),
        (18, 0, 0, 4),
        (17, 0, 0, 2),
        (16, 4, 0, 8),
        (16, 2, 0, 4),
        (16, 0, 8, 8),
        (16, 0, 4, 4),
    ],
)
def test_the_vector_is_as_wide_as_pitch_start_and_alignment_allow(
    pitch: int, start: int, align: int, nbytes: int
) -> None:
    registers = buffer("R", "local", (32, 8), S[(32, 8) : (1 @ laneid, 1)])
    memory = Region(buffer("A", "global", (32, 16), S[(32, 16) : (pitch, 1)], align=align), ((0, 32), (start, 8)))

    assert entry(registers, memory).plan.startswith(f"{16 // nbytes} x {nbytes} bytes")


def test_a_swizzle_bounds_the_vector_by_the_run_that_stays_together() -> None:
    registers = buffer("R", "local", (32, 64), S[(32, 64) : (1 @ laneid, 1)])
    for run in (8, 4, 2, 1):
        layout = ComposeLayout(SwizzleLayout(run.bit_length() - 1, 3, 3), S[32, 64])
        said = entry(registers, buffer("A", "shared", (32, 64), layout))
        assert said.plan.startswith(f"{64 // run} x {2 * run} bytes")


def test_vec_len_asks_for_one_width() -> None:
    registers, shared = buffer("R", "local", (32, 8), S[(32, 8) : (1 @ laneid, 1)]), buffer("A", "shared", (32, 8))

    assert entry(registers, shared, vec_len=2).plan.startswith("4 x 4 bytes (2 elements)")
    with pytest.raises(DispatchError, match="vec_len=3 is no vector") as refused:
        entry(registers, shared, vec_len=3, dispatch="reg")
    assert refused.value.allowed == "8, 4, 2, 1"


def test_a_region_may_begin_at_a_loop_variable_on_either_side() -> None:
    k = Var("k")
    registers = buffer("R", "local", (32, 16), S[(32, 16) : (1 @ laneid, 1)])
    shared = buffer("A", "shared", (32, 16))
    dst, src = (Region(b, ((0, 32), (k * 8, 8))) for b in (registers, shared))

    done, said = resolved(For(k, as_expr(0), as_expr(2), (copy(dst, src),)))
    memory = fresh_memory([registers, shared], 32)
    Machine(done, memory).run()

    assert said.plan == "1 x 16 bytes (8 elements) per thread"
    assert_equal(memory, {"R": memory["A"].reshape(32, 16)})


def test_a_warp_copies_its_own_part_of_registers_spread_over_the_cta() -> None:
    registers = buffer("R", "local", (4, 32, 8), S[(4, 32, 8) : (1 @ warpid, 1 @ laneid, 1)])
    shared = buffer("A", "shared", (4, 32, 8))
    mine = [Region(b, ((WARP, 1), (0, 32), (0, 8))) for b in (registers, shared)]

    done, said = resolved(copy(*mine), threads=128)
    memory = fresh_memory([registers, shared], 128)
    Machine(done, memory).run()

    assert said.variant == "reg"
    assert_equal(memory, {"R": memory["A"].reshape(128, 8)})
    with pytest.raises(DispatchError, match="does not fit"):
        tile.resolve(kernel(copy(registers, shared, dispatch="reg"), threads=128), "sm_90a")


def test_a_thread_copies_its_own_row() -> None:
    registers, shared = buffer("R", "local", (32, 8), S[(32, 8) : (1 @ laneid, 1)]), buffer("A", "shared", (32, 8))
    mine = [Region(b, ((LANE, 1), (0, 8))) for b in (registers, shared)]

    done, said = resolved(copy(*mine, scope="thread"))
    memory = fresh_memory([registers, shared], 32)
    Machine(done, memory).run()

    assert said.plan == "1 x 16 bytes (8 elements) per thread"
    assert_equal(memory, {"R": memory["A"].reshape(32, 8)})


@pytest.mark.parametrize(
    ("registers", "reason"),
    [
        (
            buffer("R", "local", (32, 8), ComposeLayout(SwizzleLayout(0, 1, 1), S[(32, 8) : (1 @ laneid, 1)])),
            "R is swizzled",
        ),
        (buffer("R", "local", (32, 8), S[(32, 8) : (1 @ laneid, 0)]), "two elements share a register"),
        (buffer("R", "local", (32, 8), S[(32, 8) : (2 @ laneid, 1)]), "spread over 63 threads, more than the 32"),
        (buffer("R", "local", (32, 8), S[(32, 8) : (1 @ warpid, 1)]), "spreads over axis warpid"),
        (buffer("R", "shared", (32, 8)), "exactly one side must be in registers"),
    ],
)
def test_reg_declines_with_its_reason(registers: object, reason: str) -> None:
    made = kernel(copy(registers, buffer("A", "shared", (32, 8)), dispatch="reg"))  # type: ignore[arg-type]

    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(made, "sm_90a")

    assert reason in str(refused.value.given)


def test_another_warps_part_of_a_register_layout_is_named_as_such() -> None:
    registers = buffer("R", "local", (64, 8), S[(2, 32, 8) : (1 @ warpid, 1 @ laneid, 1)])
    first = copy(Region(registers, ((0, 32), (0, 8))), buffer("A", "shared", (32, 8)), dispatch="reg")

    assert resolved(If(WARP == 0, (first,)), threads=64)[1].variant == "reg"
    with pytest.raises(DispatchError, match="does not fit") as refused:
        resolved(first, threads=64)
    assert refused.value.given == ("R[0:32, 0:8] lies in the warp with warpid 0; others may execute the call, too")


def test_reg_declines_a_memory_that_holds_each_element_twice() -> None:
    registers = buffer("R", "local", (32, 8), S[(32, 8) : (1 @ laneid, 1)])
    twice = buffer("A", "shared", (32, 8), S[32, 8] + R[2:256])

    assert entry(twice, registers).variant == "fallback"
    assert entry(registers, twice).variant == "reg"


def test_a_symbolic_extent_is_left_to_rows() -> None:
    n = Var("n")
    registers, memory = (
        Region(buffer(name, space, (8,)), ((0, n),)) for name, space in (("R", "local"), ("A", "shared"))
    )

    _, said = resolved(copy(registers, memory, scope="thread"), threads=1, symbols=(n,))

    assert said.variant == "rows"
    assert [each.reason for each in said.tried if each.variant == "reg"] == ["the extent n of R is no constant"]


def test_a_cluster_has_no_registers_in_common() -> None:
    with pytest.raises(DispatchError, match="no variant takes") as refused:
        entry(buffer("R", "local", (32, 8), S[(32, 8) : (1 @ laneid, 1)]), buffer("A", "shared", (32, 8)), "cluster")
    assert "reg, rows, fallback: the CTAs of a cluster" in str(refused.value)


def test_thread_ids_other_than_the_lane_are_used_where_the_layout_names_them() -> None:
    registers, shared = buffer("R", "local", (256, 8), S[(256, 8) : (1 @ tx, 1)]), buffer("A", "shared", (256, 8))

    done, _ = resolved(copy(registers, shared, scope="cta"), threads=256)

    assert "T.tid * 8" in "\n".join(str(stmt.value) for stmt in statements(done.body) if hasattr(stmt, "value"))
    assert TID.name == "thread_id"
