"""gmem_smem: neighbouring threads copy neighbouring runs of global memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.tile.checking import assert_equal, entry, resolved
from tests.tile.kernels import BX, buffer, copy, kernel
from tests.tile.machine import Machine
from tests.tile.oracle import fresh_memory
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import Argument, Assume, Bind, Buffer, For, If, Region, Var, const_value, statements
from tilewright.layout import ComposeLayout, R, S, SwizzleLayout
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import PlannedAccesses, wider
from tilewright.tile.dispatch import Decline

SWIZZLED = ComposeLayout(SwizzleLayout(3, 3, 3), S[64, 64])
N = Var("n")


@pytest.mark.parametrize(
    ("scope", "threads", "rounds"), [("cta", 128, 4), ("warpgroup", 128, 4), ("warp", 32, 16), ("thread", 1, 512)]
)
@pytest.mark.parametrize("layout", [None, SWIZZLED])
def test_each_scope_shares_the_elements_out(scope: str, threads: int, rounds: int, layout: object) -> None:
    there, shared = buffer("G", "global", (64, 64)), buffer("A", "shared", (64, 64), layout)  # type: ignore[arg-type]

    for pair in ((shared, there), (there, shared)):
        said = entry(*pair, scope, threads)
        who = f"for each of {threads} threads" if threads > 1 else "per thread"
        assert said.plan == f"{rounds} x 16 bytes (8 elements) {who}"


def test_neighbouring_threads_have_neighbouring_addresses_in_global_memory() -> None:
    columns = buffer("G", "global", (64, 64), S[(64, 64) : (1, 64)])  # column major: the first index is the near one

    done, said = resolved(
        copy(buffer("A", "shared", (64, 64), S[(64, 64) : (1, 64)]), columns, scope="cta"), threads=64
    )

    (pointer,) = [
        str(stmt.value) for stmt in statements(done.body) if isinstance(stmt, Bind) and stmt.var.name == "g_ptr"
    ]
    assert pointer == "T.address_of(G[T.tid * 8 + f * 512])"
    assert said.plan.startswith("8 x 16 bytes")


def test_a_transposing_copy_follows_the_global_side() -> None:
    said = entry(buffer("A", "shared", (64, 64), S[(64, 64) : (1, 64)]), buffer("G", "global", (64, 64)), "cta", 128)

    assert said.plan == (
        "32 x 2 bytes (1 elements) for each of 128 threads; not by 16 bytes, as 8 neighbours are not contiguous in A"
    )


@pytest.mark.parametrize(
    ("elements", "threads", "plan"), [(48 * 8, 32, "2 x 16 bytes"), (8, 32, "1 x 16 bytes"), (12, 8, "1 x 8 bytes")]
)
def test_a_round_that_is_not_full_is_guarded(elements: int, threads: int, plan: str) -> None:
    shared, there = buffer("A", "shared", (elements,)), buffer("G", "global", (elements,))

    done, said = resolved(copy(shared, there, scope="cta"), threads=threads)

    assert said.plan.startswith(plan)
    assert len([stmt for stmt in statements(done.body) if isinstance(stmt, If)]) == 1
    entry(shared, there, "cta", threads)


def symbolic(facts: tuple[Assume, ...]) -> tuple[object, str]:
    there, shared = buffer("G", "global", (256, N)), buffer("A", "shared", (64, 64), SWIZZLED)
    part = Region(there, ((BX * 64, 64), (64, 64)))
    done, said = resolved(*facts, copy(shared, part, scope="cta"), threads=128, symbols=(N,))
    # Run it for one n: the shape of the flat buffer becomes a number.
    memory = fresh_memory([shared, buffer("G", "global", (256, 128))], 128)
    Machine(done, memory, {"n": 128, "bx": 2}).run()
    expected = memory["A"].copy()
    expected[SWIZZLED.table((64, 64))["m"][..., 0]] = memory["G"].reshape(256, 128)[128:192, 64:128]
    assert_equal(memory, {"A": expected})
    return done, said.plan


def test_a_symbolic_pitch_takes_the_width_that_a_fact_proves() -> None:
    assert symbolic((Assume(N % 8 == 0),))[1] == "4 x 16 bytes (8 elements) for each of 128 threads"
    assert symbolic((Assume(N % 4 == 0),))[1].startswith("8 x 8 bytes")
    assert symbolic(())[1].startswith("32 x 2 bytes")
    assert symbolic(())[1].endswith("; not by 16 bytes, as n % 8 == 0 is not proven, for a stride of G")


def hints(shared: Buffer, there: Buffer | Region, *facts: Assume, **config: Argument) -> tuple[str, ...]:
    return resolved(*facts, copy(shared, there, scope="cta", **config), threads=128, symbols=(N,))[1].hints


def test_the_report_names_the_fact_that_would_make_accesses_wider() -> None:
    shared, pitch = buffer("A", "shared", (64, 64)), buffer("G", "global", (256, N))
    start = Region(buffer("G", "global", (64, 256)), ((0, 64), (N, 64)))
    both = Region(pitch, ((BX * 64, 64), (BX * 4, 64)))

    assert hints(shared, Region(pitch, ((0, 64), (0, 64)))) == ("T.assume(n % 8 == 0)",)
    assert hints(shared, start) == ("T.assume(n % 8 == 0)",)
    assert hints(shared, both) == ("`if bx % 2 == 0:` around the call and T.assume(n % 8 == 0)",)
    assert hints(shared, start, Assume(N % 8 == 0)) == ()


def test_a_narrower_fact_is_told_where_none_leads_to_16_bytes() -> None:
    narrow = Region(buffer("G", "global", (64, 256), align=8), ((0, 64), (N, 64)))

    assert hints(buffer("A", "shared", (64, 64)), narrow) == ("T.assume(n % 4 == 0)",)


def test_no_fact_is_told_where_none_helps_or_the_width_is_asked_for() -> None:
    start = Region(buffer("G", "global", (64, 256)), ((0, 64), (N, 64)))
    columns = buffer("A", "shared", (64, 64), S[(64, 64) : (1, 64)])

    assert hints(columns, start) == ()
    assert hints(buffer("A", "shared", (64, 64)), start, vec_len=1) == ()


def test_a_fact_with_which_nothing_could_be_planned_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[TileCall, PlannedAccesses]] = []
    monkeypatch.setattr("tilewright.tile.distribution.wider", lambda call, plan, _: asked.append((call, plan)))
    hints(buffer("A", "shared", (64, 64)), Region(buffer("G", "global", (64, 256)), ((0, 64), (N, 64))))

    def declines(_: TileCall) -> PlannedAccesses:
        raise Decline("no common pattern")

    ((call, plan),) = asked
    assert wider(call, plan, declines) is None
    assert wider(call, plan, lambda _: SimpleNamespace(nbytes=16)) == "T.assume(n % 8 == 0)"


def test_the_alignment_of_a_parameter_is_what_align_says() -> None:
    shared = buffer("A", "shared", (64, 64))

    assert entry(shared, buffer("G", "global", (64, 64), align=4), "cta", 128).plan.startswith("16 x 4 bytes")
    assert entry(shared, buffer("G", "global", (64, 64), align=32), "cta", 128).plan.startswith("4 x 16 bytes")


def test_vec_len_asks_for_one_width() -> None:
    said = entry(buffer("A", "shared", (64, 64)), buffer("G", "global", (64, 64)), "cta", 128, vec_len=4)

    assert said.plan.startswith("8 x 8 bytes (4 elements)")


@pytest.mark.parametrize(
    ("dst", "src", "scope", "reason"),
    [
        (buffer("A", "shared", (64,)), buffer("B", "shared", (64,)), "cta", "not global and shared"),
        (buffer("G", "global", (64,)), buffer("B", "global", (64,)), "cta", "not global and shared"),
        (
            buffer("A", "shared", (64,), S[64:1] + R[2:64]),
            buffer("G", "global", (64,)),
            "cta",
            "A holds each element in several",
        ),
        (buffer("A", "shared", (64,)), buffer("G", "global", (64,)), "cluster", "the CTAs of a cluster"),
        (
            buffer("A", "shared", (63,), None, "float4_e2m1fn"),
            buffer("G", "global", (63,), None, "float4_e2m1fn"),
            "cta",
            "no multiple of 2",
        ),
        (
            Region(buffer("A", "shared", (64,)), ((0, N),)),
            Region(buffer("G", "global", (64,)), ((0, N),)),
            "cta",
            "no constant",
        ),
    ],
)
def test_it_declines_with_its_reason(dst: Buffer, src: Buffer, scope: str, reason: str) -> None:
    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(kernel(copy(dst, src, scope=scope, dispatch="gmem_smem"), symbols=(N,)), "sm_90a")

    assert reason in str(refused.value.given)


def test_the_loop_is_serial_even_for_one_round() -> None:
    done, _ = resolved(copy(buffer("A", "shared", (256,)), buffer("G", "global", (256,)), scope="cta"))

    assert [(loop.kind, const_value(loop.stop)) for loop in statements(done.body) if isinstance(loop, For)] == [
        ("serial", 1)
    ]
