"""NVRTC takes every form on every architecture that the table claims, and refuses it elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import permutations

import pytest

from tests.isa.assembling import accepted, every_form, refused, statement, translation_unit
from tilewright import isa
from tilewright.cuda.nvrtc import architectures, assemble
from tilewright.errors import InstructionError, ToolError
from tilewright.isa.forms import Ptx
from tilewright.isa.table import Bound

FORMS = every_form()
EXISTING = {arch: tuple(bound for bound in FORMS if bound.form.arch.admits(isa.arch(arch))) for arch in isa.ARCHS}


ONE_EACH = {id(bound.form): bound for bound in reversed(FORMS)}  # its first modifiers


def each_value(bounds: Iterable[Bound]) -> Iterator[Bound]:
    """Those with a form, or with a value of a modifier that none of their row before them has."""
    seen: set[object] = set()
    for bound in bounds:
        values = {id(bound.form), *((bound.instruction.name, *item) for item in bound.mods.items())}
        if not values <= seen:
            seen |= values
            yield bound


EACH_VALUE = {id(bound) for bound in each_value(FORMS)}


def at_the_end(bound: Bound, arch: str) -> bool:
    """Is it the first of the architectures that have the form, with each value of a modifier, or the last, with some?

    All pairs of values on all architectures are the long test.
    """
    archs = bound.form.arch.archs()
    if arch == str(archs[0]):
        return id(bound) in EACH_VALUE
    return arch == str(archs[-1]) and ONE_EACH[id(bound.form)] is bound


ENDS = {arch: tuple(bound for bound in EXISTING[arch] if at_the_end(bound, arch)) for arch in isa.ARCHS}


@pytest.mark.parametrize("arch", [arch for arch, bounds in ENDS.items() if bounds])
def test_every_form_assembles_on_the_first_and_the_last_architecture_that_have_it(arch: str) -> None:
    assert assemble(translation_unit(ENDS[arch]), arch).cubin


@pytest.mark.long
@pytest.mark.parametrize("arch", isa.ARCHS)
def test_every_form_assembles_where_it_exists(arch: str) -> None:
    assert assemble(translation_unit(EXISTING[arch]), arch).cubin


def gated() -> Iterator[tuple[Bound, str]]:
    """Each PTX form that some architecture lacks, with the last one before its first, and the last one of all."""
    seen: set[int] = set()
    for bound in FORMS:
        form = bound.form
        lacking = [arch for arch in isa.ARCHS.values() if not form.arch.admits(arch)]
        if lacking and id(form) not in seen and (isinstance(form.wording, Ptx) or form.wording.helper):
            seen.add(id(form))
            below = [arch for arch in lacking if arch.number < form.arch.archs()[0].number]
            yield from ((bound, str(arch)) for arch in dict.fromkeys([below[-1], lacking[-1]]))


LACKING: dict[str, list[Bound]] = {}
for lacking, without in gated():
    LACKING.setdefault(without, []).append(lacking)


@pytest.mark.parametrize("arch", LACKING)
def test_a_form_is_refused_where_it_does_not_exist(arch: str) -> None:
    assert [statement(bound) for bound in accepted(LACKING[arch], arch)] == []


def test_a_form_that_is_not_refused_is_told() -> None:
    ldmatrix, tcgen05 = (
        next(bound for bound in FORMS if bound.instruction.name == name) for name in ("ptx.ldmatrix", "ptx.tcgen05.ld")
    )

    assert accepted([tcgen05, ldmatrix, tcgen05], "sm_90a") == [ldmatrix]


def test_the_table_of_architectures_is_known_to_the_assembler() -> None:
    assert set(isa.ARCHS) <= set(architectures())


@pytest.mark.parametrize(
    "mnemonic",
    [
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13",
    ],
)
def test_the_assembler_takes_modifiers_in_any_order_and_so_does_the_table(mnemonic: str) -> None:
    row, form, mods = isa.spelled(mnemonic)
    *first, _, _ = mnemonic.split(".")[:5]  # ptxas 13 wants these where they are: sync and aligned, or cp
    orders = [".".join([*first, *order]) for order in permutations(mnemonic.split(".")[len(first) :])]
    text = translation_unit([Bound(row, form, mods, {})])

    kernels = [text.replace(mnemonic, order).replace("k0", f"k{i}") for i, order in enumerate(orders)]

    assert assemble("\n".join(kernels), "sm_100a").cubin
    assert all(isa.spelled(order) == (row, form, mods) for order in orders)


LEFT_OUT = {
    "mbarrier.expect_tx.shared.b64": "mbarrier.expect_tx.relaxed.cta.shared.b64",
    "mbarrier.complete_tx.shared::cluster.b64": "mbarrier.complete_tx.relaxed.cta.shared::cluster.b64",
    "st.async.mbarrier::complete_tx::bytes.v2.b32": "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32",
    "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u32": (
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
    ),
    "tcgen05.alloc.cta_group::1.sync.aligned.b32": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64": (
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
    ),
    "wgmma.fence.sync": "wgmma.fence.sync.aligned",
    "wgmma.mma_async.sp.sync.m64n8k32.f32.f16.f16": "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
}


def test_words_that_the_assembler_does_not_need_may_be_left_out() -> None:
    by_arch: dict[str, list[str]] = {}
    for short, whole in LEFT_OUT.items():
        row, form, mods = isa.spelled(whole)
        assert isa.spelled(short) == (row, form, mods)
        text = statement(Bound(row, form, mods, {}))
        by_arch.setdefault(str(form.arch.archs()[-1]), []).append(text.replace(whole, short))

    assert {arch: refused(texts, arch) for arch, texts in by_arch.items()} == {arch: set() for arch in by_arch}


# Not in the manual's grammar; and spelled by what is no row.
ODD = ("testp.f32", "testp.f64", "mapa.u32", "cvta.shared.u64")


@pytest.mark.long
def test_whatever_word_the_assembler_lets_one_leave_out_the_table_does_too() -> None:
    asked: dict[tuple[str, ...], tuple[Bound, str]] = {}
    for bound in FORMS:
        name, *words = bound.mnemonic.split(".") if isinstance(bound.form.wording, Ptx) else [""]
        for k, word in enumerate(words):
            short = ".".join([name, *words[:k], *words[k + 1 :]])
            shape = (bound.instruction.name, bound.form.wording.template, re.sub(r"\d+", "", word))
            try:
                isa.spelled(short)
            except InstructionError:
                asked.setdefault(shape, (bound, short))

    taken = [short for bound, short in asked.values() if short not in ODD and assembles(bound, short)]

    assert taken == []


def assembles(bound: Bound, short: str) -> bool:
    try:
        return bool(
            assemble(translation_unit([bound]).replace(bound.mnemonic, short), str(bound.form.arch.archs()[0])).cubin
        )
    except ToolError:
        return False


REFUSED = [
    "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%0, %1}, [%2]",
    "ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%0, %0, %0, %0, %1, %1, %1, %1}, [%2]",
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%0}, [%2]",
    "ldmatrix.sync.aligned.m8n16.x1.trans.shared.b8x16.b4x16_p64 {%0}, [%2]",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%0}, [%2]",
    "stmatrix.sync.aligned.m16n8.x1.shared.b8 [%2], {%0}",
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b16 [%2], {%0}",
    "tcgen05.cp.cta_group::1.32x128b [%2], %3",
    "tcgen05.cp.cta_group::1.64x128b [%2], %3",
    "tcgen05.cp.cta_group::1.128x128b.warpx4 [%2], %3",
    "tcgen05.cp.cta_group::1.32x128b.warpx4.b6x16_p32.b8x16 [%2], %3",
    "tcgen05.ld.sync.aligned.16x32bx2.x1.b16 {%0}, [%2], 1",
    "tcgen05.ld.sync.aligned.32x32b.x3.b32 {%0, %0, %1}, [%2]",
    "tcgen05.commit.cta_group::1.shared::cluster.b64 [%2]",
    "mbarrier.try_wait.parity.shared::cluster.b64 p, [%2], 0",
    "mbarrier.arrive.relaxed.shared.b64 _, [%2]",
]


def test_what_the_table_leaves_out_the_assembler_refuses() -> None:
    """With one form among them that it takes, so that lines are told apart."""
    texts = [*REFUSED, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%2]"]
    bodies = [
        f'unsigned r, s; asm volatile("{{ .reg .pred p; {text}; }}" : "=r"(r), "=r"(s) : "r"(word), "l"(0ull));'
        for text in texts
    ]

    assert refused(bodies, "sm_100a") == set(range(len(REFUSED)))
    for text in REFUSED:
        with pytest.raises(InstructionError, match="no instruction is spelled"):
            isa.spelled(text.split()[0])


def test_the_assembler_refuses_two_cta_groups_in_one_kernel() -> None:
    """Which is why `Instruction.agrees` is in the table."""
    mixed = [
        Bound(row, form, {**next(form.all_mods()), "cta_group": group}, {})
        for group, row in enumerate(map(isa.lookup, ("ptx.tcgen05.relinquish_alloc_permit", "ptx.tcgen05.shift")), 1)
        for form in row.forms
    ]
    text = "\n".join(statement(bound) for bound in mixed)

    with pytest.raises(ToolError, match="does not assemble"):
        assemble(f'extern "C" __global__ void k(unsigned int word) {{ {text} }}', "sm_100a")
    same = text.replace("cta_group::2", "cta_group::1")
    assert assemble(f'extern "C" __global__ void k(unsigned int word) {{ {same} }}', "sm_100a").cubin


SPACES = [
    ("tile::gather4", "", "shared::cta", "sm_100"),
    ("tile::gather4", "", "shared::cluster", "sm_100a"),
    ("im2col::w", ", {1, 2}", "shared::cta", "sm_100"),
    ("im2col::w", ", {1, 2}", "shared::cluster", "sm_100a"),
]


@pytest.mark.parametrize(("mode", "offsets", "space", "first"), SPACES)
def test_a_copy_without_a_mask_names_either_window_of_shared_memory(
    mode: str, offsets: str, space: str, first: str
) -> None:
    rank, coords = (2, "%0, %0, %0, %0, %0") if mode == "tile::gather4" else (4, "%0, %0, %0, %0")
    mnemonic = f"cp.async.bulk.tensor.{rank}d.{space}.global.{mode}.mbarrier::complete_tx::bytes"
    text = (
        'extern "C" __global__ void k(unsigned int p) { asm volatile("'
        f'{mnemonic} [%0], [%1, {{{coords}}}], [%0]{offsets};" :: "r"(p), "l"(0ull)); }}'
    )

    _, form, _ = isa.spelled(mnemonic)

    assert f".{space}." in form.wording.template
    assert form.arch.admits(isa.arch("sm_100")) == (first == "sm_100")
    assert assemble(text, first).cubin
    if first == "sm_100a":
        with pytest.raises(ToolError, match="does not assemble"):
            assemble(text, "sm_100")
