"""PTX programs by hand, in old dialects and new ones: they store the values that the manual gives."""

from __future__ import annotations

import numpy as np
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


SHORT = """.version 6.5
.target sm_30
.address_size 32
.const .u32 c[4] = {10, 20, 30, 40}; .global .u32 v[2]; .extern .shared .u32 dyn[];
.func put(.param .u32 to) { .reg .u32 z; ld.param.u32 z, [to]; st.u32 [z], 77; ret; }
.visible .entry k(.param .u32 input, .param .u32 output) {
.reg .u32 a, b, r<6>; .reg .pred p; .local .u32 own[4];
ld.param.u32 a, [input]; ld.param.u32 b, [output];
"""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("ld.u32 r0, [a]; cvta.to.global.u32 r1, a; ld.global.u32 r2, [r1+4]; st.v2.u32 [b], {r0, r2};", (5, 6)),
        ("mov.u32 r0, c; ld.const.u32 r1, [r0+4]; cvta.const.u32 r0, r0; ld.u32 r2, [r0+8]; st.v2.u32 [b], {r1, r2};",
         (20, 30)),
        ("mov.u32 r0, dyn; cvta.shared.u32 r1, r0; st.u32 [r1], 7; ld.shared.u32 r2, [r0]; isspacep.shared p, r1;"
         "selp.u32 r3, 1, 0, p; cvta.to.shared.u32 r1, r1; sub.u32 r1, r1, r0; add.u32 r3, r3, r1;"
         "st.v2.u32 [b], {r2, r3};", (7, 1)),
        ("mov.u32 r0, v; st.global.u32 [r0+4], 9; ld.global.u32 r1, [v+4]; mov.u32 r2, own; st.local.u32 [r2+4], 3;"
         "ld.local.u32 r3, [own+4]; st.v2.u32 [b], {r1, r3};", (9, 3)),
        ("atom.global.add.u32 r0, [b], 2; red.add.u32 [b], 1; { .param .u32 x; add.u32 r1, b, 4; st.param.u32 [x], r1;"
         "call put, (x); }", (3, 77)),
    ],
)  # fmt: skip
def test_addresses_may_have_32_bits(body: str, wanted: tuple[int, int]) -> None:
    out = words(0, 0)

    tw.load_ptx(f"{SHORT}{body} ret; }}")["k"].simulate(words(5, 6), out, block=1, shared_bytes=16)

    assert tuple(out) == wanted


def test_an_access_by_an_address_of_32_bits_stays_inside_its_array() -> None:
    with pytest.raises(TilewrightError, match="outside of input") as raised:
        tw.load_ptx(f"{SHORT}ld.u32 r0, [a+8]; st.u32 [b], r0; ret; }}")["k"].simulate(words(5, 6), words(0), block=1)

    assert "element 2 of input" in str(raised.value.given)


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


def test_an_address_that_is_misaligned_and_outside_is_misaligned() -> None:
    body = "ld.s32 r1, [ai]; mov.u64 d0, x; cvt.s64.s32 d1, r1; add.u64 d0, d0, d1; st.u32 [d0], 1;"

    for offset, reason in ((1, "a misaligned address in x"), (4, "outside of x")):
        with pytest.raises(TilewrightError, match=reason):
            ran(Program("", body, (offset,), (0,), ".global .u32 x;"))


COPIED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k({param}, .param .u64 out) {{
.reg .b64 m, o, at; .reg .b32 r<9>; .reg .pred p;
.shared .align 128 .b32 tile[32]; .shared .align 8 .b64 bar;
{lead} ld.param.u64 o, [out]; mov.u32 r0, %tid.x; mov.u32 r1, tile; mov.u32 r2, bar;
setp.ne.u32 p, r0, 0; @p bra WAIT;
mbarrier.init.shared::cta.b64 [r2], 1; fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 at, [r2], 128;
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [r1], [m, {{4, 2}}], [r2];
WAIT: bar.sync 0;
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [r2], 0; @!p bra AGAIN;
mad.lo.u32 r3, r0, 4, r1; ld.shared.u32 r4, [r3]; mul.wide.u32 at, r0, 4; add.u64 at, at, o; st.u32 [at], r4;
ret; }}
"""


@pytest.mark.parametrize(
    ("param", "lead"),
    [(".param .align 64 .b8 map[128]", "mov.b64 m, map;"), (".param .u64 map", "ld.param.u64 m, [map];")],
    ids=["its_bytes", "a_pointer_to_it"],
)
def test_a_tensor_map_is_an_argument_as_its_bytes_or_as_a_pointer_to_it(param: str, lead: str) -> None:
    array, out = np.arange(256, dtype=np.uint32).reshape(8, 32), words(*[0] * 32)

    tw.load_ptx(COPIED.format(param=param, lead=lead))["k"].simulate(tw.TensorMap(array, (4, 8)), out, block=32)

    assert (out.reshape(4, 8) == array[2:6, 4:12]).all()
