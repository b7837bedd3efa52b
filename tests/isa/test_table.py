"""The table itself: no row without a meaning, a source, an oracle, and holes that fit."""

from __future__ import annotations

from string import Formatter

from tests.isa.oracles import ORACLES
from tests.isa.test_meanings import OWN_ORACLES, WITHOUT_VALUES
from tilewright import isa
from tilewright.isa.declared import check_row
from tilewright.isa.forms import Form, Meaning, Ptx, reads
from tilewright.isa.table import BY_MASK, LANES, Bound, Instruction


def holes(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def is_plain_copy(form: Form) -> bool:
    return form.meaning.moves and sorted(access.write for access in form.touched) == [False, True]


def faults(row: Instruction, form: Form) -> list[str]:
    """The faults of a form with which it cannot be emitted, simulated, tested or explained."""
    operands = {operand.name for operand in row.operands}
    modifiers = set(form.wording.modifiers)
    ptx = isinstance(form.wording, Ptx)
    meets = form.sync is not None and form.sync.scope != "poll"
    waits = form.concerns_operations and not form.issue
    by_itself = form.meaning.execute is not None and not (
        form.fence and row.lanes == BY_MASK
    )  # whose mask is looked at
    meanings = [by_itself, meets, waits, bool(form.fence or form.register_fence)]
    meant = sum(meanings) == 1 or (not any(meanings) and is_plain_copy(form))
    given = {one.name for one in Bound(row, form, next(form.all_mods()), {}).given if one.kind != "note"}
    pattern = holes(row.pattern_of(form)) - {"mnemonic", "result"} - (modifiers - given) if ptx else set()
    checks = {
        "one meaning: execute, sync, wait, fence, or a plain copy": meant,
        "a source": '"' in form.source,
        "a sentence": row.doc.endswith("."),
        "an architecture": bool(form.arch.archs()),
        "an oracle": form.meaning.execute is None or row.name in {*ORACLES, *WITHOUT_VALUES, *OWN_ORACLES},
        "holes in its text that are filled": holes(form.wording.template)
        <= (modifiers if ptx else modifiers | operands),
        "a pattern with every operand": not ptx or pattern == given,
        "operands and modifiers as its arguments": {p.lstrip("*") for p in (*row.params, *row.keywords)} - {"dtype"}
        == operands | (modifiers - {"dtype"}) | set(row.folds),
        "keywords of execute that are modifiers": set(form.meaning.passes) <= modifiers,
        "accesses through its operands": {access.operand for access in form.accesses} <= operands,
        "folded keywords that go into an operand": {target for target, _ in row.folds.values()} <= operands,
    }
    return [name for name, holds in checks.items() if not holds]


FORMS = [(row, form) for row in isa.INSTRUCTIONS.values() for form in row.forms]


def test_every_form_is_complete() -> None:
    assert [
        (row.name, str(form.wording.template), missing) for row, form in FORMS if (missing := faults(row, form))
    ] == []


def test_a_row_of_the_table_is_declared_well() -> None:
    for row in isa.INSTRUCTIONS.values():  # an error names the row
        check_row(row, LANES)


def test_a_row_without_a_meaning_is_found() -> None:
    form = Form(Ptx("nop.b32"), isa.since("sm_75"), 'PTX ISA, "nop"')

    assert faults(Instruction("ptx.nop", (), (), (form,), doc="Does nothing."), form) == [
        "one meaning: execute, sync, wait, fence, or a plain copy"
    ]


def test_a_row_without_an_oracle_is_found() -> None:
    form = Form(Ptx("neg"), isa.since("sm_75"), 'PTX ISA, "neg"', Meaning(lambda x: -x))

    found = faults(
        Instruction("ptx.made_up", ("x",), (reads("x", "b32"),), (form,), pattern="{x}", doc="Negates."), form
    )

    assert found == ["an oracle"]


def test_every_oracle_has_a_row() -> None:
    assert set(ORACLES) <= set(isa.INSTRUCTIONS)


def test_no_two_forms_of_a_row_take_the_same_modifiers() -> None:
    for row in isa.INSTRUCTIONS.values():
        taken = [tuple(sorted(map(repr, mods.items()))) for form in row.forms for mods in form.all_mods()]

        assert len(taken) == len(set(taken)), row.name


# Rows whose texts have an opcode in common, and what tells them apart.
SHARED_OPCODES = {
    frozenset({"ptx.wgmma.mma_async.ss", "ptx.wgmma.mma_async.rs"}): "where A is: in shared memory, in registers",
    frozenset({"ptx.wgmma.mma_async.sp.ss", "ptx.wgmma.mma_async.sp.rs"}): "likewise",
    frozenset({"ptx.mbarrier.try_wait", "ptx.mbarrier.try_wait_once"}): "whether the text tries again until it is true",
    frozenset({"ptx.mbarrier.try_wait.state", "ptx.mbarrier.try_wait_once.state"}): "likewise",
    frozenset({"ptx.mov", *(f"ptx.mov.{way}{parts}" for way in ("pack", "unpack") for parts in (2, 4))}): "vectors",
    frozenset({"cuda.cluster_sync", "ptx.barrier.cluster.arrive"}): "the wait in the same text",
    frozenset({"cuda.cast_smem_ptr_to_uint", "ptx.cvta.to.shared.u64"}): "the 32 bits that are left in the same text",
    frozenset({"cuda.warpgroup_sync", "ptx.bar.sync"}): "the number of threads, which is no operand",
}


def test_a_spelling_belongs_to_one_row() -> None:
    rows_of: dict[str, set[str]] = {}
    for row in isa.INSTRUCTIONS.values():
        for form in row.forms:
            if isinstance(form.wording, Ptx):
                for mods in form.all_mods():
                    rows_of.setdefault(form.mnemonic(mods), set()).add(row.name)

    assert {frozenset(names) for names in rows_of.values() if len(names) > 1} == {*SHARED_OPCODES}
