"""A spelling leads to its row, and a row to its spelling: the table is walked both ways."""

from __future__ import annotations

import random

import pytest

from tests.gpu.ptx_programs import cases, rows
from tests.isa.scalar_inputs import covering, is_scalar
from tests.rows import in_row
from tilewright import isa
from tilewright.errors import InstructionError
from tilewright.isa.table import Instruction

ROWS = [row for row in isa.INSTRUCTIONS.values() if is_scalar(row)]
BY_OPERANDS = ("ptx.mov.", "ptx.cvt.pair", "ptx.st.vec")  # rows that share their spelling with another


def test_what_a_scalar_row_prints_is_read_as_the_same_row() -> None:
    for each in ROWS:
        with in_row(each.name):
            check_print(each)


def check_print(row: Instruction) -> None:
    for form in row.forms:
        for mods in covering(form):
            every = {one.row.name: one for one in isa.opcodes(form.mnemonic(mods))}
            found = every.get(row.name, isa.opcode(form.mnemonic(mods)))
            again = found.form.mnemonic(found.mods)

            assert again == form.mnemonic(mods)
            if not row.name.startswith("ptx.mov."):
                assert found.row is row, again
                apart = (
                    "out",
                    "dtype",
                    *(each for each in mods if each.endswith(("_part", "_sign"))),
                    *(operand.name for operand in row.operands),
                )
                assert {**found.mods, **dict.fromkeys(apart)} == {**mods, **dict.fromkeys(apart)}


@pytest.mark.parametrize(
    "written",
    [
        "atom.add.u32.global",
        "atom.global.cta.add.u32",
        "atom.global.gpu.acq_rel.add.s32",
        "ld.global.L1::no_allocate.L2::128B.v4.b32",
        "st.wb.global.f32",
        "fma.ftz.rn.f32",
        "setp.and.ltu.f32",
        "cvt.sat.rzi.u8.f32",
        "red.global.add.f32",
        "add.sat.s32",
    ],
)
def test_modifiers_stand_in_any_order(written: str) -> None:
    name, *words = written.split(".")
    found = isa.opcode(written)

    random.Random(0).shuffle(words)
    ordered = [word for word in words if word[0] in "usbf" and word[1].isdigit()]
    if len(ordered) < 2:
        again = isa.opcode(".".join([name, *words]))
        assert (again.row, again.mods) == (found.row, found.mods)


@pytest.mark.parametrize(
    ("written", "row", "mods"),
    [
        ("ld.global.u32", "ptx.ld", {"space": "global", "type": "u32", "sem": "weak", "nc": False, "vec": 1}),
        ("ld.global.nc.v2.f32", "ptx.ld", {"nc": True, "vec": 2}),
        ("ld.relaxed.sys.global.s8", "ptx.ld", {"sem": "relaxed", "scope": "sys", "type": "s8"}),
        ("st.shared.v4.b32", "ptx.st.vec", {"vec": 4}),
        ("atom.global.add.u32", "ptx.atom.add", {"sem": "relaxed", "scope": "gpu", "dtype": "uint32"}),
        ("cvt.f32.s64", None, {}),
        ("cvt.rn.f32.s64", "ptx.cvt", {"type": "f32", "atype": "s64"}),
        ("cvt.rn.s64.f32", None, {}),
        ("set.eq.f32.s32", "ptx.set", {"type": "f32", "stype": "s32"}),
        ("mul.wide.u16", "ptx.mul", {"half": "wide", "type": "u16"}),
        ("mul.wide.u64", None, {}),
        ("shl.u32", None, {}),
    ],
)
def test_types_stand_in_their_order_and_what_is_no_instruction_is_refused(
    written: str, row: str | None, mods: dict[str, object]
) -> None:
    if row is None:
        with pytest.raises(InstructionError, match="no instruction is spelled"):
            isa.opcode(written)
        return
    found = isa.opcode(written)

    assert found.row.name == row
    assert mods.items() <= found.mods.items()


def test_two_results_are_listed_in_their_order() -> None:
    assert isa.opcode("setp.lt.s32").outs == ("p", "q")
    assert isa.opcode("setp.lt.f16").outs == ("p",)
    assert isa.opcode("add.u32").outs == ()


def test_hints_are_told_apart_from_modifiers() -> None:
    assert isa.opcode("ld.global.ca.L2::cache_hint.b32").hints == ("ca", "L2::cache_hint")


def test_there_are_programs_for_hardware_over_every_row() -> None:
    assert sum(len(cases(row)) for row in rows()) >= 500
    assert {row.name for row in rows()} >= {"ptx.add", "ptx.cvt", "ptx.setp", "ptx.prmt"}
