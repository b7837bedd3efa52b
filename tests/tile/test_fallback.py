"""fallback: any pair of memories, element by element, with a warning."""

from __future__ import annotations

import pytest

from tests.tile.checking import entry, resolved
from tests.tile.kernels import LANE, buffer, copy, kernel
from tests.tile.machine import Machine
from tests.tile.oracle import fresh_memory
from tilewright import tile
from tilewright.errors import DispatchError, TilewrightWarning
from tilewright.ir import Buffer, For, If, Region, Var, as_expr, statements
from tilewright.layout import ComposeLayout, R, S, SwizzleLayout, laneid, tx, warpid

ROWS = S[(32, 8) : (1 @ laneid, 1)]


def test_a_fallback_warns_with_its_name_and_the_line() -> None:
    with pytest.warns(TilewrightWarning, match=r"stage\.py:21: copy/fallback goes element by element: Tx\.warp\.copy"):
        tile.resolve(
            kernel(copy(buffer("A", "shared", (8,)), buffer("B", "shared", (8,)), dispatch="fallback")), "sm_90a"
        )


@pytest.mark.parametrize("scope", ["thread", "warp", "warpgroup", "cta"])
@pytest.mark.parametrize("spaces", [("shared", "shared"), ("global", "global"), ("shared", "global")])
def test_threads_take_turns_between_memories(scope: str, spaces: tuple[str, str]) -> None:
    threads = {"thread": 1, "warp": 32}.get(scope, 128)
    dst, src = (buffer(name, space, (3, 5), None, "float32") for name, space in zip("AB", spaces, strict=True))

    said = entry(dst, src, scope, threads, dispatch="fallback")

    turns = f", {threads} threads in turns" if threads > 1 else ""
    assert (said.variant, said.plan) == ("fallback", f"element by element{turns}")


@pytest.mark.parametrize(
    ("scope", "cond"), [("warp", "T.laneid == 0"), ("warpgroup", "T.tid % 128 == 0"), ("cta", "T.tid == 0")]
)
def test_the_first_thread_of_the_scope_copies_elements_that_share_bytes(scope: str, cond: str) -> None:
    dst, src = (buffer(name, "shared", (8,), None, "float4_e2m1fn") for name in "AB")

    done, _ = resolved(copy(dst, src, scope=scope, dispatch="fallback"), threads=128)

    assert [str(stmt.cond) for stmt in statements(done.body) if isinstance(stmt, If)] == [cond]


@pytest.mark.parametrize(
    "registers",
    [
        buffer("R", "local", (32, 8), ROWS),
        buffer("R", "local", (16, 8), S[(16, 8) : (2 @ laneid, 1)] + 1 @ laneid),
        buffer("R", "local", (32, 8), ComposeLayout(SwizzleLayout(0, 1, 1), ROWS)),
        buffer("R", "local", (16, 8), S[(16, 8) : (1 @ laneid, 1)] + R[2 : 16 @ laneid]),
        buffer("R", "local", (4, 8), S[(4, 8) : (1 @ warpid, 1)]),
        buffer("R", "local", (128, 8), S[(128, 8) : (1 @ tx, 1)]),
        buffer("R", "local", (8,)),
    ],
    ids=lambda buffer: str(buffer.layout),
)
def test_registers_are_copied_by_the_threads_that_hold_them(registers: Buffer) -> None:
    memory = buffer("A", "shared", registers.shape)

    assert entry(registers, memory, "cta", 128, dispatch="fallback").variant == "fallback"
    assert entry(memory, registers, "cta", 128, dispatch="fallback").variant == "fallback"


def test_a_thread_copies_between_its_own_registers() -> None:
    assert (
        entry(buffer("R", "local", (4, 8)), buffer("Q", "local", (4, 8), S[(4, 8) : (1, 4)]), "thread", 1).variant
        == "rows"
    )


def test_each_lane_copies_between_its_own_registers() -> None:
    assert (
        entry(buffer("R", "local", (32, 8), ROWS), buffer("Q", "local", (32, 8), S[(32, 8) : (1 @ laneid, 2)])).variant
        == "rows"
    )


def test_all_replicas_of_the_destination_are_written() -> None:
    twice = buffer("A", "shared", (32, 8), S[32, 8] + R[2:256])
    swizzled = buffer("A", "shared", (32, 8), ComposeLayout(SwizzleLayout(3, 3, 3), S[32, 8] + R[2:256]))

    for memory in (twice, swizzled):
        assert entry(memory, buffer("R", "local", (32, 8), ROWS)).variant == "fallback"
        assert entry(memory, buffer("G", "global", (32, 8))).variant == "fallback"


def test_an_extent_of_run_time_is_a_loop_of_run_time() -> None:
    n = Var("n")
    dst, src = (Region(buffer(name, "shared", (16,)), ((0, n),)) for name in "AB")

    done, said = resolved(copy(dst, src, scope="thread", dispatch="fallback"), threads=1, symbols=(n,))
    memory = fresh_memory([dst.buffer, src.buffer], 1)
    Machine(done, memory, {"n": 5}).run()

    assert said.plan == "element by element"
    assert memory["A"].tolist() == [*range(16, 21), *range(5, 16)]


def test_which_lane_holds_a_row_may_be_a_loop_variable() -> None:
    k = Var("k")
    registers, shared = buffer("R", "local", (32, 8), ROWS), buffer("A", "shared", (32, 8))

    done, said = resolved(
        For(k, as_expr(0), as_expr(32), (copy(*(Region(b, ((k, 1), (0, 8))) for b in (registers, shared))),))
    )
    memory = fresh_memory([registers, shared], 32)
    Machine(done, memory).run()

    assert said.variant == "fallback"
    assert (memory["R"] == memory["A"].reshape(32, 8)).all()


@pytest.mark.parametrize(
    ("dst", "src", "scope", "reason"),
    [
        (
            buffer("R", "local", (32, 8), ROWS),
            buffer("T", "tmem", (32, 8)),
            "warp",
            "tensor memory has no element-wise access",
        ),
        (
            buffer("R", "local", (32, 8), ROWS),
            buffer("Q", "local", (32, 8), S[(32, 8) : (-1 @ laneid, 1)] + 31 @ laneid),
            "warp",
            "held by other threads",
        ),
        (
            buffer("R", "local", (32, 8), S[(32, 8) : (1 @ warpid, 1)]),
            buffer("A", "shared", (32, 8)),
            "cta",
            "32 places on axis warpid",
        ),
        (
            buffer("R", "local", (4, 8), S[(4, 8) : (1 @ warpid, 1)]),
            buffer("A", "shared", (4, 8)),
            "warp",
            "wider than one warp",
        ),
        (
            buffer("A", "shared", (32,), None, "float4_e2m1fn"),
            buffer("R", "local", (32,), S[32 : 1 @ laneid], "float4_e2m1fn"),
            "warp",
            "share bytes of A",
        ),
        (buffer("A", "shared", (8,)), buffer("B", "shared", (8,)), "cluster", "the CTAs of a cluster"),
    ],
)
def test_it_declines_with_its_reason(dst: Buffer, src: Buffer, scope: str, reason: str) -> None:
    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(kernel(copy(dst, src, scope=scope, dispatch="fallback"), threads=128), "sm_90a")

    assert reason in str(refused.value.given)


def test_a_single_lane_may_copy_what_only_it_holds() -> None:
    registers, shared = buffer("R", "local", (32, 8), ROWS), buffer("A", "shared", (32, 8))
    mine = [Region(b, ((3, 1), (0, 8))) for b in (registers, shared)]

    done, said = resolved(If(LANE == 3, (copy(*mine, scope="thread"),)))
    memory = fresh_memory([registers, shared], 32)
    Machine(done, memory).run()

    assert said.variant == "reg"
    assert (memory["R"][3] == memory["A"][24:32]).all()
