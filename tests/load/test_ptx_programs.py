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
