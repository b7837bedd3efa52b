"""The text that a row of the table prints is read as that row: its operands stand where the pattern has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest

from tests.rows import in_row
from tilewright import isa
from tilewright.errors import InstructionError
from tilewright.ir import Argument
from tilewright.isa.forms import Form, Ptx
from tilewright.isa.table import Instruction
from tilewright.load import load_ptx
from tilewright.ptx.instructions import RESULT, text_of_pattern, written
from tilewright.ptx.text import operands
from tilewright.ptx.tree import Name

ROWS = [row for row in isa.INSTRUCTIONS.values() if not row.written and row.name.startswith("ptx.")]


def text_of(row: Instruction, form: Form, mods: Mapping[str, Argument]) -> str | None:
    """The operands that a form prints, registers named after them; None where it is more than one instruction."""
    whole = True

    def put(found: re.Match[str]) -> str:
        nonlocal whole
        hole, name = found[1], found[2]
        operand = row.operand(name)
        whole = whole and bool(hole)
        if operand is None:
            return "%r1" if name == RESULT else form.wording.modifiers[name][mods[name]] if hole else name
        if operand.many:
            return f"{{{', '.join(f'%{name}{k}' for k in range(form.registers_of(name, mods)))}}}"
        return f"%p_{name}" if operand.kind == "pred" else f"%{name}"

    text = re.sub(r"(%hole_)?\b(?!_\b)([A-Za-z_]\w*)", put, text_of_pattern(row.pattern_of(form)))
    return text if whole else None


def test_what_a_row_prints_is_read_as_that_row() -> None:
    for each in ROWS:
        with in_row(each.name):
            check_print(each)


def check_print(row: Instruction) -> None:
    for form in row.forms:
        for mods in list(form.all_mods())[:: max(1, len(list(form.all_mods())) // 4)]:
            text = text_of(row, form, mods) if isinstance(form.wording, Ptx) else None
            if text is None:
                continue
            found = written(
                form.mnemonic(mods), operands(text), lambda one: isinstance(one, Name) and one.text[:3] == "%p_"
            )

            assert found.form.mnemonic(cast("Mapping[str, Argument]", found.mods)) == form.mnemonic(mods)
            assert found.form.effects == form.effects
            assert (found.form.meaning.execute is form.meaning.execute) or found.row is not row
            assert set(found.operands) - {RESULT} == {
                one.name for one in row.operands if mods.get(one.name, one) is not None and one.kind != "note"
            }


@pytest.mark.parametrize(
    ("mnemonic", "also"),
    [
        ("mbarrier.init.shared.b64", "mbarrier.init.shared::cta.b64"),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
            "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes",
        ),
    ],
)
def test_words_that_mean_the_same_are_read_alike(mnemonic: str, also: str) -> None:
    assert isa.opcode(also).form is isa.opcode(mnemonic).form


def test_the_size_of_a_copy_is_no_operand_of_it() -> None:
    found = written("cp.async.cg.shared.global", operands("[%r1], [%rd1], 0x10, %r2"), lambda operand: False)

    assert (found.mods["n"], found.operands["src_size"]) == (16, Name("%r2"))


def test_other_operands_are_told_with_those_that_fit() -> None:
    with pytest.raises(InstructionError, match=r"wgmma.wait_group.sync.aligned has other operands") as raised:
        written("wgmma.wait_group.sync.aligned", operands("%r1, %r2"), lambda operand: False)

    assert raised.value.allowed == "wgmma.wait_group.sync.aligned n"


def test_an_order_that_is_left_out_is_the_default() -> None:
    assert (
        isa.opcode("barrier.cluster.arrive.aligned").form is isa.opcode("barrier.cluster.arrive.release.aligned").form
    )


def test_an_address_is_mapped_to_another_cta_by_its_low_half() -> None:
    """Of 64 bits the upper half stays; ``mapa.u32`` takes the low half of a generic address."""
    body = """.reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 16 .b8 sh[16];
    ld.param.u64 %rd0, [a]; cvta.to.global.u64 %rd0, %rd0; mov.u32 %r0, %cluster_ctarank;
    mul.wide.u32 %rd1, %r0, 48; add.u64 %rd0, %rd0, %rd1;
    mov.u32 %r1, sh; cvt.u64.u32 %rd2, %r1; or.b64 %rd2, %rd2, 0x700000000;
    mapa.shared::cluster.u32 %r2, %r1, 1; mapa.u32 %r3, %r1, 1; mapa.shared::cluster.u64 %rd3, %rd2, 1;
    cvt.u64.u32 %rd4, %r2; cvt.u64.u32 %rd5, %r3; getctarank.shared::cluster.u64 %r4, %rd3;
    cvt.u64.u32 %rd6, %r4; cvta.shared.u64 %rd7, %rd5; mapa.u64 %rd8, %rd7, 0; getctarank.u64 %r5, %rd8;
    st.global.u64 [%rd0], %rd4; st.global.u64 [%rd0+8], %rd5; st.global.u64 [%rd0+16], %rd3;
    st.global.u64 [%rd0+24], %rd6; st.global.u32 [%rd0+32], %r5; ret;"""
    text = f".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a)\n{{\n{body}\n}}\n"
    a = np.zeros((2, 6), np.uint64)

    load_ptx(text)["k"].simulate(a, grid=2, block=1, cluster=2)

    mapped = a[0, 0]
    assert mapped
    assert a[0, 1] == mapped
    assert a[0, 2] == mapped | (7 << 32)
    assert a[:, 3:5].tolist() == [[1, 0], [1, 0]]
    assert (a[0, :5] == a[1, :5]).all()
