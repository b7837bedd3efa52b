"""NVRTC takes every form on every architecture that the table claims, and refuses it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from tests.isa.assembling import every_form, translation_unit
from tilewright import isa
from tilewright.cuda.nvrtc import architectures, assemble
from tilewright.errors import InstructionError, ToolError
from tilewright.isa.table import Bound


@pytest.mark.parametrize("arch", isa.ARCHS)
def test_every_form_assembles_where_it_exists(arch: str) -> None:
    existing = [bound for bound in every_form() if bound.form.arch.admits(isa.arch(arch))]

    assert assemble(translation_unit(existing), arch).cubin


def str_of(value: Bound | str) -> str:
    if isinstance(value, str):
        return value
    return value.mnemonic if value.form.language == "ptx" else value.instruction.name


def gated() -> Iterator[tuple[Bound, str]]:
    """Each PTX form that some architecture lacks, with the last one before its first, and the last one of all."""
    seen: set[int] = set()
    for bound in every_form():
        form = bound.form
        lacking = [arch for arch in isa.ARCHS.values() if not form.arch.admits(arch)]
        if lacking and id(form) not in seen and (form.language == "ptx" or form.helper):
            seen.add(id(form))
            below = [arch for arch in lacking if arch.number < form.arch.archs()[0].number]
            yield from ((bound, str(arch)) for arch in dict.fromkeys([below[-1], lacking[-1]]))


@pytest.mark.parametrize(("bound", "arch"), list(gated()), ids=str_of)
def test_a_form_is_refused_where_it_does_not_exist(bound: Bound, arch: str) -> None:
    with pytest.raises(ToolError, match="does not assemble"):
        assemble(translation_unit([bound]), arch)


def test_the_table_of_architectures_is_known_to_the_assembler() -> None:
    assert set(isa.ARCHS) <= set(architectures())


@pytest.mark.parametrize(
    "mnemonic",
    ["ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"],
)
def test_the_assembler_takes_modifiers_in_any_order_and_so_does_the_table(mnemonic: str) -> None:
    row, form, mods = isa.spelled(mnemonic)
    opcode, sync, aligned, *rest = mnemonic.split(".")
    orders = [".".join([opcode, sync, aligned, *order]) for order in permutations(rest)]
    text = translation_unit([Bound(row, form, mods, {})])

    kernels = [text.replace(mnemonic, order).replace("k0", f"k{i}") for i, order in enumerate(orders)]

    assert assemble("\n".join(kernels), "sm_90").cubin
    assert all(isa.spelled(order) == (row, form, mods) for order in orders)


REFUSED = [
    "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%0, %1}, [%2]",
    "ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%0, %0, %0, %0, %1, %1, %1, %1}, [%2]",
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%0}, [%2]",
    "ldmatrix.sync.aligned.m8n16.x1.trans.shared.b8x16.b4x16_p64 {%0}, [%2]",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%0}, [%2]",
    "stmatrix.sync.aligned.m16n8.x1.shared.b8 [%2], {%0}",
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b16 [%2], {%0}",
]


@pytest.mark.parametrize("assembly", REFUSED)
def test_what_the_table_leaves_out_the_assembler_refuses(assembly: str) -> None:
    text = (
        'extern "C" __global__ void k(unsigned int p) { unsigned int r, s; '
        f'asm volatile("{assembly};" : "=r"(r), "=r"(s) : "r"(p)); }}'
    )

    with pytest.raises(ToolError, match="does not assemble"):
        assemble(text, "sm_100a")
    with pytest.raises(InstructionError, match="no instruction is spelled"):
        isa.spelled(assembly.split()[0])
