"""PTX text to its tree and back: both dialects of NVRTC, scopes, operands, and what errors say."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from tests.ptx.texts import IN_BODY, MODULE, module
from tilewright.errors import KernelError
from tilewright.ptx import parse, script
from tilewright.ptx.text import operands
from tilewright.ptx.tree import Address, Block, Immediate, Instruction, Label, Name, Not, Pair, Sum, Vector


def body(text: str) -> list[Any]:
    return list(parse(module(text)).entries[0].body or ())


@pytest.mark.parametrize("text", IN_BODY)
def test_what_is_printed_parses_to_the_same_tree(text: str) -> None:
    made = parse(module(text))

    assert parse(script(made)) == made


def test_a_module_of_every_declaration_is_printed_and_read_back() -> None:
    made = parse(MODULE)

    assert parse(script(made)) == made
    assert [one.name for one in made.entries] == ["k"]
    assert made.variable_of["table"].initial == "{0, 0, 128, 63}"
    assert made.function_of["f"].returns[0].name == "retval0"
    assert made.function_of["k"].numbers("reqntid") == (128, 1, 1)
    assert dict(made.strings)["$L__info_string0"] == b"_f\0"
    assert dict(made.files) == {1: "/tmp/k.cu"}


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_variable_may_be_a_vector(count: int) -> None:
    (variable,) = parse(module("ret;") + f".global .align 32 .v{count} .b32 g;\n").variables

    assert (variable.vector, variable.align, variable.attributes) == (count, 32, ())


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("%r1", Name("%r1")),
        ("%tid.x", Name("%tid.x")),
        ("-7", Immediate("-7", -7)),
        ("0x1FU", Immediate("0x1FU", 31)),
        ("010", Immediate("010", 8)),
        ("0f3F800000", Immediate("0f3F800000", 0x3F800000, 32)),
        ("1.5", Immediate("1.5", 0x3FF8000000000000, 64)),
        ("WARP_SZ", Immediate("WARP_SZ", 32)),
        ("(1 << 4) | 3", Immediate("(1 << 4) | 3", 19)),
        ("-5 / 2", Immediate("-5 / 2", -2)),
        ("[%rd1]", Address(Name("%rd1"))),
        ("[%rd1+-4]", Address(Name("%rd1"), -4)),
        ("[ sym + 0x10 ]", Address(Name("sym"), 16)),
        ("[64]", Address(None, 64)),
        ("[%rd1, {%r1, %r2}]", Address(Name("%rd1"), 0, (Vector((Name("%r1"), Name("%r2"))),))),
        ("%p1|%p2", Pair(Name("%p1"), Name("%p2"))),
        ("!%p1", Not(Name("%p1"))),
        ("sym+8", Sum(Name("sym"), 8)),
        ("{%f1, 0f00000000}", Vector((Name("%f1"), Immediate("0f00000000", 0, 32)))),
    ],
)
def test_an_operand_is_read_as_the_manual_has_it(text: str, operand: object) -> None:
    assert operands(text) == (operand,)


def test_instructions_share_lines_and_carry_their_own_place() -> None:
    first, second = body("add.s32 %r1, %r2, 1; @!%p1 bra L;\nL: ret;")[:2]

    assert (first.line, second.line) == (2, 2)
    assert second == Instruction("bra", (Name("L"),), "!%p1")


def test_scopes_nest_and_keep_their_labels() -> None:
    block, label = body("{ .reg .b32 t; waitLoop: bra waitLoop; }\nwaitLoop: ret;")[:2]

    assert isinstance(block, Block)
    assert Label("waitLoop") in block.body
    assert label == Label("waitLoop")


def test_comments_are_blanks_and_strings_are_not_comments() -> None:
    (pragma, *rest) = body('.pragma "a//b"; /* mov.u32 %r1, 1;\n */ ret; // add')

    assert pragma.text == '.pragma "a//b";'
    assert rest == [Instruction("ret")]


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("add.s32 %r1, %r2, 1\n    sub.s32 %r1, %r2, 2;", 2, 18, "`,` or `;`"),
        ("ld.global.u32 %r1, [%rd1;", 2, 24, "bracket"),
        ("mov.u32 %r1, ?;", 2, 13, "an operand"),
        (".reg .b33 %r<2>;", 2, 5, "the type of a register"),
        ("add.s32 %r1, %r2, 1", 2, 0, "an instruction"),
    ],
)
def test_an_error_names_the_line_the_column_and_what_was_expected(
    text: str, line: int, column: int, expected: str
) -> None:
    with pytest.raises(KernelError, match="PTX expects") as raised:
        parse(module(text))

    assert raised.value.at is not None
    assert (raised.value.at.line, raised.value.at.column) == (line, column)
    assert expected in str(raised.value.allowed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .u32 g[] = {1, {2};", "whose braces close"),
        (".global .u32 g[] = 1}, {2;", "whose braces close"),
        (".entry k() .maxntid ( { ret; }", "a whole number"),
        (".entry k() .reqntid 09 { ret; }", "a whole number"),
        (".func .attribute(.unified(1, 2) f() { ret; }", "`)`"),
    ],
)
def test_a_wrong_declaration_is_an_error_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(KernelError, match="PTX expects") as raised:
        parse(f".version 8.0\n.target sm_90\n.address_size 64\n{text}\n")

    assert expected in str(raised.value.allowed)
    assert raised.value.at is not None


def test_texture_references_and_other_addresses_are_refused_with_their_line() -> None:
    with pytest.raises(KernelError, match="texture references") as raised:
        parse(".version 8.0\n.target sm_90\n.global .texref t;\n")
    assert raised.value.at is not None
    assert raised.value.at.line == 3
    with pytest.raises(KernelError, match="addresses have 32 or 64 bits"):
        parse(".version 8.0\n.target sm_90\n.address_size 16\n")


@pytest.mark.parametrize(("text", "lacks"), [(".target sm_90\n", ".version"), (".version 8.0\n", ".target")])
def test_a_text_without_its_head_is_refused(text: str, lacks: str) -> None:
    with pytest.raises(KernelError, match="PTX expects") as raised:
        parse(f"{text}.address_size 64\n.entry k() {{ ret; }}\n")

    assert lacks in str(raised.value.allowed)


def test_ten_thousand_lines_are_parsed_in_half_a_second() -> None:
    lines = (f"add.s32 %r{n}, %r{n + 1}, %r{n + 2};\n.loc 1 {n} 5\nld.global.f32 %f{n}, [%rd{n}+{n}];"
             for n in range(1, 3400))  # fmt: skip
    text = module("\n".join(lines))

    def seconds() -> float:
        begin = time.process_time()
        parse(text)
        return time.process_time() - begin

    gc.freeze()  # what other tests have left is not gone through meanwhile
    try:
        assert min(seconds() for _ in range(3)) < 0.5
    finally:
        gc.unfreeze()
