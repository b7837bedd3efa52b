"""ldstmatrix: its code, its conditions, and its reasons when it declines."""

from __future__ import annotations

import pytest

from tests.tile.checking import assert_equal, entry, resolved
from tests.tile.kernels import WARP, buffer, copy, kernel
from tests.tile.machine import Machine
from tests.tile.oracle import copied, fresh_memory
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import Attr, Bind, Buffer, Evaluate, For, If, Kernel, Region, Var, as_expr, const_value, statements
from tilewright.layout import Axis, ComposeLayout, Layout, R, S, SwizzleLayout, laneid, tid_in_wg, warpid, wid_in_wg

SHAPE = (8, 4, 2, 2)
SWIZZLE = SwizzleLayout(3, 3, 3)


def fragment(num: int) -> Buffer:
    return buffer("R", "local", (8, 4, num, 2), S[(8, 4, num, 2) : (4 @ laneid, 1 @ laneid, 2, 1)])


def rows(num: int, *, transposed: bool = False, pitch: int = 0) -> Buffer:
    """Row major, or each matrix column major."""
    if transposed:
        return buffer("A", "shared", (8, 4, num, 2), S[(8, 4, num, 2) : (1, 16, 64, 8)])
    return buffer("A", "shared", (8, 4, num, 2), S[(8, 4, num, 2) : (pitch or num * 8, 2, 8, 1)])


def tiles(rows: int, columns: int) -> Layout:
    """A warp's rows x columns as m8n8 fragments, registers in row-major order of the matrices."""
    across = columns // 8
    return S[(rows // 8, 8, across, 4, 2) : (2 * across, 4 @ laneid, 2, 1 @ laneid, 1)]


def instruction(done: Kernel) -> str:
    (call,) = [str(stmt.value) for stmt in statements(done.body) if isinstance(stmt, Evaluate)]
    return call


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_load_is_one_ldmatrix_of_the_widest_form(num: int, transposed: bool) -> None:
    done, said = resolved(copy(fragment(num), rows(num, transposed=transposed)))

    places = ", ".join(f"T.address_of(R[{2 * k}])" for k in range(num))
    assert instruction(done) == f'T.ptx.ldmatrix(T.bool({transposed}), {num}, ".b16", smem_ptr, {places})'
    assert said.plan == f"ldmatrix x{num}{', transposed' if transposed else ''}, 1 instruction per warp"
    entry(fragment(num), rows(num, transposed=transposed))


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_store_is_one_stmatrix_of_the_widest_form(num: int, transposed: bool) -> None:
    done, said = resolved(copy(rows(num, transposed=transposed), fragment(num)))

    assert instruction(done).startswith(f'T.ptx.stmatrix(T.bool({transposed}), {num}, ".b16", smem_ptr, ')
    assert said.plan == f"stmatrix x{num}{', transposed' if transposed else ''}, 1 instruction per warp"
    entry(rows(num, transposed=transposed), fragment(num))


def test_the_body_is_an_unrolled_loop_with_a_pointer_and_the_instruction() -> None:
    done, _ = resolved(copy(fragment(2), rows(2)))

    comment, loop = done.body[-2:]
    assert isinstance(comment, Attr)
    assert comment.settings == (("comment", "copy/ldstmatrix (stage.py:21)"),)
    assert isinstance(loop, For)
    assert (loop.var.name, loop.kind, const_value(loop.stop)) == ("mm", "unroll", 1)
    pointer, call = loop.body
    assert isinstance(pointer, Bind)
    assert (pointer.var.name, pointer.mutable) == ("smem_ptr", False)
    assert str(pointer.value) == "T.address_of(A[T.laneid // 8 % 2 * 8 + T.laneid % 8 * 16])"
    assert {stmt.at for stmt in (comment, loop, pointer, call)} == {comment.at}


def test_a_larger_tile_takes_more_rounds_of_the_same_instruction() -> None:
    registers, shared = buffer("R", "local", (16, 64), tiles(16, 64)), buffer("A", "shared", (16, 64))

    assert entry(registers, shared).plan == "ldmatrix x4, 4 instructions per warp"
    assert entry(shared, registers).plan == "stmatrix x4, 4 instructions per warp"


@pytest.mark.parametrize(("columns", "plan"), [(24, "x2, 3"), (40, "x2, 5"), (48, "x4, 3"), (8, "x2, 1")])
def test_extents_need_not_be_powers_of_two(columns: int, plan: str) -> None:
    registers, shared = buffer("R", "local", (16, columns), tiles(16, columns)), buffer("A", "shared", (16, columns))

    assert entry(registers, shared).plan.startswith(f"ldmatrix {plan} instruction")


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize(
    ("scope", "threads", "axis"),
    [("warpgroup", 128, wid_in_wg), ("cta", 128, warpid), ("cta", 64, warpid), ("warpgroup", 256, wid_in_wg)],
)
def test_each_warp_of_a_wider_scope_has_its_own_tile(scope: str, threads: int, axis: Axis, loads: bool) -> None:
    warps = min(4, threads // 32)
    registers = buffer(
        "R", "local", (warps * 16, 16), S[(warps, 2, 8, 2, 4, 2) : (1 @ axis, 4, 4 @ laneid, 2, 1 @ laneid, 1)]
    )
    shared = buffer("A", "shared", (warps * 16, 16), ComposeLayout(SwizzleLayout(3, 1, 3), S[warps * 16, 16]))
    pair = (registers, shared) if loads else (shared, registers)

    if loads or threads <= 128:
        assert entry(*pair, scope, threads).variant == "ldstmatrix"


def test_a_layout_on_the_threads_of_a_warpgroup_counts_as_warps_and_lanes() -> None:
    layout = S[(4, 2, 8, 2, 4, 2) : (32 @ tid_in_wg, 4, 4 @ tid_in_wg, 2, 1 @ tid_in_wg, 1)]
    registers, shared = buffer("R", "local", (64, 16), layout), buffer("A", "shared", (64, 16))

    assert entry(registers, shared, "warpgroup", 128).variant == "ldstmatrix"


def test_two_of_four_warps_are_guarded() -> None:
    registers = buffer("R", "local", (2, 16, 16), S[(2, 2, 8, 2, 4, 2) : (1 @ warpid, 4, 4 @ laneid, 2, 1 @ laneid, 1)])

    done, said = resolved(copy(registers, buffer("A", "shared", (2, 16, 16)), scope="cta"), threads=128)

    assert said.variant == "ldstmatrix"
    assert [str(stmt.cond) for stmt in statements(done.body) if isinstance(stmt, If)] == ["T.tid < 64"]
    assert entry(registers, buffer("A", "shared", (2, 16, 16)), "cta", 128).variant == "ldstmatrix"


@pytest.mark.parametrize(("part", "plan"), [((0, 4), "x4, 1"), ((1, 2), "x2, 1"), ((1, 3), "x1, 3"), ((3, 1), "x1, 1")])
def test_a_region_may_take_some_of_the_registers(part: tuple[int, int], plan: str) -> None:
    box = ((0, 8), (0, 4), part, (0, 2))

    assert entry(Region(fragment(4), box), Region(rows(4), box)).plan.startswith(f"ldmatrix {plan} instruction")


def test_the_swizzled_part_of_the_address_stays_outside_the_loop() -> None:
    registers = buffer("R", "local", (16, 64), tiles(16, 64))

    done, _ = resolved(copy(registers, buffer("A", "shared", (16, 64), ComposeLayout(SWIZZLE, S[16, 64]))))

    linear, start, loop = done.body[-3:]
    assert [stmt.var.name for stmt in (linear, start)] == ["smem_linear", "smem_start"]  # type: ignore[union-attr]
    assert isinstance(loop, For)
    assert str(loop.body[0].value) == "T.address_of(A[smem_start ^ mm // 2 * 512 + mm % 2 * 32])"  # type: ignore[union-attr]
    assert entry(registers, buffer("A", "shared", (16, 64), ComposeLayout(SWIZZLE, S[16, 64]))).variant == "ldstmatrix"


@pytest.mark.parametrize("step", [16, 8])
@pytest.mark.parametrize("swizzled", [False, True])
def test_a_region_may_begin_at_loop_variables(step: int, swizzled: bool) -> None:
    stage, k = Var("stage"), Var("k")
    layout = ComposeLayout(SWIZZLE, S[2, 64, 64]) if swizzled else S[2, 64, 64]
    registers, shared = buffer("R", "local", (16, 16), tiles(16, 16)), buffer("A", "shared", (2, 64, 64), layout)
    part = Region(shared, ((stage, 1), (WARP * 16, 16), (k * step, 16)))
    last = For(k, as_expr(0), as_expr(3), (copy(registers, part),))

    done, said = resolved(For(stage, as_expr(0), as_expr(2), (last,)), threads=128)
    memory = fresh_memory([registers, shared], 128)
    Machine(done, memory).run()

    assert said.variant == "ldstmatrix"
    for warp in range(4):
        ends = Region(shared, ((1, 1), (warp * 16, 16), (2 * step, 16)))
        expected = copied(registers.region(), ends, memory, 32)["R"]
        lanes = slice(32 * warp, 32 * warp + 32)
        assert_equal({"R": memory["R"][lanes]}, {"R": expected[:32]})


def test_stmatrix_before_sm_90_leaves_the_copy_to_reg() -> None:
    said = entry(rows(2), fragment(2), arch="sm_89")

    assert said.variant == "reg"
    assert [(each.reason, each.hint) for each in said.tried if each.variant == "ldstmatrix"] == [
        ("stmatrix exists on sm_90 and later, not on sm_89", 'target="sm_90"')
    ]
    assert entry(fragment(2), rows(2), arch="sm_75").variant == "ldstmatrix"


@pytest.mark.parametrize(
    ("registers", "shared", "scope", "reason"),
    [
        (fragment(2), rows(2, pitch=20), "warp", "start 40 bytes apart, which is no multiple of 16"),
        (buffer("R", "local", SHAPE, None), rows(2), "thread", "a thread has 1 of the 32 lanes"),
        (fragment(2), rows(2), "cta", "a cta has 16 of the 32 lanes"),
        (
            buffer("R", "local", (32, 8), S[(32, 8) : (1 @ laneid, 1)]),
            buffer("A", "shared", (32, 8)),
            "warp",
            "no 8 neighbours",
        ),
        (
            buffer("R", "local", (16, 8), S[(16, 8) : (1 @ laneid, 1)]),
            buffer("A", "shared", (16, 8)),
            "warp",
            "not all lanes",
        ),
        (
            buffer("R", "local", SHAPE, fragment(2).layout, "float32"),
            buffer("A", "shared", SHAPE, rows(2).layout, "float32"),
            "warp",
            "float32 has 32 bits, not 16",
        ),
        (fragment(2), buffer("A", "global", SHAPE, rows(2).layout), "warp", "not local and shared"),
        (
            buffer("R", "local", (8, 4), S[(8, 4) : (4 @ laneid, 1 @ laneid)]),
            buffer("A", "shared", (8, 4)),
            "warp",
            "slots 2j, 2j+1",
        ),
        (fragment(2), buffer("A", "shared", SHAPE, rows(2).layout, align=8), "warp", "A is not aligned to 16 bytes"),
        (
            fragment(2),
            buffer("A", "shared", SHAPE, ComposeLayout(SwizzleLayout(2, 1, 1), S[SHAPE])),
            "warp",
            "no 8 neighbours",
        ),
    ],
)
def test_it_declines_with_its_reason(registers: Buffer, shared: Buffer, scope: str, reason: str) -> None:
    threads = 48 if scope == "cta" else 32

    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(kernel(copy(registers, shared, scope=scope, dispatch="ldstmatrix"), threads=threads), "sm_90a")

    assert reason in str(refused.value.given)


def test_a_store_of_two_elements_to_one_place_is_declined() -> None:
    registers = buffer("R", "local", (2, 8, 4, 2), S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)])
    shared = buffer("A", "shared", (2, 8, 4, 2), S[(2, 8, 4, 2) : (0, 8, 2, 1)])

    assert entry(registers, shared).variant == "ldstmatrix"
    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(kernel(copy(shared, registers, dispatch="ldstmatrix")), "sm_90a")
    assert "go to one place" in str(refused.value.given)


def test_a_store_to_replicas_is_declined() -> None:
    twice = buffer("A", "shared", SHAPE, rows(2).layout + R[2:256])

    (reason,) = [each.reason for each in entry(twice, fragment(2)).tried if each.variant == "ldstmatrix"]
    assert reason.startswith("A holds each element in several places")


def test_a_cluster_is_declined() -> None:
    with pytest.raises(DispatchError, match="no variant takes") as refused:
        tile.resolve(kernel(copy(fragment(2), rows(2), scope="cluster")), "sm_90a")
    assert "ldstmatrix, ldstmatrix_bits, reg, rows, fallback: the CTAs of a cluster" in str(refused.value)


def test_a_symbolic_extent_is_declined() -> None:
    n = Var("n")
    sides = [Region(b, ((0, n), (0, 4), (0, 2), (0, 2))) for b in (fragment(2), rows(2))]

    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(kernel(copy(*sides, dispatch="ldstmatrix"), symbols=(n,)), "sm_90a")
    assert "the extent n of" in str(refused.value.given)
