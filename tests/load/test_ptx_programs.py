"""PTX programs by hand, in old dialects and new ones: they store the values that the manual gives."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.load.ptx_cases import PROGRAMS, Program, ran, words
from tilewright.errors import TilewrightError
from tilewright.ptx import parse, script


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name.replace(" ", "_"))
def test_ptx_by_hand(program: Program) -> None:
    assert ran(program) == list(program.wanted)
    assert parse(script(parse(program.text))) == parse(program.text)


@pytest.mark.parametrize("lane", [4, -1])
def test_an_access_does_not_leave_the_shared_variable_that_its_address_came_from(lane: int) -> None:
    body = (
        ".shared .u32 before[4]; .shared .u32 own[4]; .shared .u32 behind[4]; mov.u32 r5, 1;"
        "st.shared.u32 [behind], r5; st.shared.u32 [before+12], r5; mov.u32 r1, own; ld.s32 r2, [ai];"
        "mad.lo.s32 r1, r2, 4, r1; ld.shared.u32 r0, [r1]; st.u32 [ao], r0;"
    )

    with pytest.raises(TilewrightError, match="outside of own"):
        ran(Program("", body, (lane,), (1,)))


def test_rows_of_stmatrix_may_go_to_one_place_where_they_are_equal() -> None:
    body = (
        "ld.u32 r2, [ai]; mov.u32 r3, %laneid; mul.lo.u32 r2, r2, r3; mov.u32 r0, dyn;"
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [r0], {r2}; bar.sync 0; ld.shared.u32 r1, [dyn]; st.u32 [ao], r1;"
    )

    def store(factor: int) -> list[int]:
        before = ".extern .shared .align 16 .b8 dyn[];"
        return ran(Program("", body, (factor,), (0,), before, block=32))

    assert store(0) == [0]
    with pytest.raises(TilewrightError, match="race: stmatrix writes"):
        store(1)


@pytest.mark.parametrize("check", ["none", "all"])
def test_a_predicate_that_nobody_sets_is_told_or_anything(check: str) -> None:
    text = Program("", "@p1 bra DONE; DONE:", (0,), (0,)).text

    if check == "none":
        tw.load_ptx(text)["k"].simulate(words(0), words(0), block=1, check=check)
    else:
        with pytest.raises(TilewrightError, match="uninitialised"):
            tw.load_ptx(text)["k"].simulate(words(0), words(0), block=1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("add.u32 d0, r1, r2;", "add.u32 does not fit into d0"),
        ("mov.u32 r1, 1; add.u64 d0, d1, r1;", "r1 has 32 bits"),
        ("mov.u32 r1, d0;", "r1"),
        ("setp.eq.u32 r0, r1, r2;", "setp.eq.u32 does not fit into r0"),
        ("add.u32 r0, r1;", "lacks its operand b"),
        ("ld.u32 r0;", "needs an address"),
        ("st.v2.u32 [ao], {r0, r1, r2};", "has 2 registers"),
        ("mov.u32 r0, %foo;", "%foo is declared nowhere"),
        ("vote.ballot.b32 r0, p0;", "needs .sync from sm_70 on"),
        ("min.f32 f0, f1, f2, f3;", "min.f32 is not there on sm_90a"),
        ("ld.global.v8.u32 {r0, r1, r2, r3, r4, r5, r6, r7}, [ai];", "is not there on sm_90a"),
        ("vadd.u32.u32.u32 r0, -r1, r2;", "takes no - before an operand"),
        ("add.f32 f0, f1, 1;", "add.f32: 1 is an integer"),
        ("mov.f64 d0, 1;", "mov.f64: 1 is an integer"),
        ("st.global.f32 [ao], 0;", "st.global.f32: 0 is an integer"),
        ("red.global.add.f32 [ao], 1;", "1 is an integer"),
        ("mov.u32 r0, 5/0;", "PTX expects a divisor other than 0"),
        ("ld.global r0, [ai];", "ld.global has no type"),
        ("bra NOWHERE;", "there is no label NOWHERE"),
        ("cp.async.ca.shared.global [r0], [ai];", "has other operands"),
    ],
)
def test_a_wrong_operand_is_an_error_with_its_line_before_anything_runs(body: str, said: str) -> None:
    text = Program("", body, (0,), (0,)).text
    line = 1 + text[: text.index(body)].count("\n")

    with pytest.raises(TilewrightError, match=said) as raised:
        tw.load_ptx(text)["k"].lowered(words(0), words(0), block=1)

    assert raised.value.at is not None
    assert raised.value.at.line == line
