"""The reference pages of instructions: one for each family, and an index of them all, made from the table of `isa/`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tilewright.isa import CopyAtom, MmaAtom, WgmmaAtom, mma_atom, wgmma_atom
from tilewright.isa.atoms import ATOMS
from tilewright.isa.forms import Cuda, Form
from tilewright.isa.table import INSTRUCTIONS, REQUIRED, Instruction
from tilewright.lang.instructions import FORMS, instructions
from tilewright.view import Grid, atom_grids, mma_grids, plain, svg
from tools.size import ROOT

__all__ = ["FOLDER", "INDEX", "address_of", "family_of", "instruction_files", "instruction_names"]

INDEX = ROOT / "docs" / "instructions.md"
FOLDER = ROOT / "docs" / "instructions"
PICTURES = ROOT / "docs" / "pictures"


@dataclass(frozen=True, slots=True)
class Family:
    """Rows that stand on one page. words: patterns of the first word of their names, behind ``ptx.``; the first family
    that fits has a row.
    """

    file: str
    title: str
    words: str


FAMILIES = (
    Family("math", "Mathematics", r"math"),
    Family("cuda", "CUDA's functions", r"cuda printf"),
    Family("matrices", "Matrix copies: ldmatrix, stmatrix, movmatrix", r"\w+matrix"),
    Family("mma", "Products of a warp: mma", r"mma"),
    Family("wgmma", "Products of a warpgroup: wgmma", r"wgmma smem_\w+"),
    Family("tcgen05", "Tensor memory: tcgen05", r"tcgen05"),
    Family(
        "cp_async",
        "Asynchronous copies: cp.async, bulk copies, TMA",
        r"cp_\w+ prefetch_tensormap tensormap st_async red_async",
    ),
    Family("mbarrier", "M-barriers", r"mbarrier"),
    Family(
        "barriers",
        "Barriers, fences, clusters",
        r"bar barrier fence membar elect\w* getctarank mapa map_\w+ setmaxnreg griddepcontrol nanosleep "
        r"clusterlaunchcontrol",
    ),
    Family("memory", "Loads, stores, caches", r"ld ldu st tex prefetch\w* createpolicy cvta"),
    Family("atomics", "Atomic operations", r"atom red atom_scalar red_scalar"),
    Family("warp", "Between the lanes of a warp", r"shfl vote match redux activemask"),
    Family("convert", "Conversions, moves, choices", r"cvt mov selp slct prmt set setp testp"),
    Family(
        "bits",
        "Bits and logic",
        r"and_ or_ xor not_ cnot lop3 shl shr shf bfe bfi bfind brev popc clz bmsk szext fns",
    ),
    Family("video", "Video instructions", r"v\w+ dp4a dp2a"),
    Family("arithmetic", "Arithmetic", r"\w+"),
)

PRODUCTS = (
    mma_atom("SM80_16x8x16_F32F16F16F32_TN"),
    wgmma_atom("SM90_64x8x16_F32F16F16_SS"),
    wgmma_atom("SM90_64x8x16_F32F16F16_RS"),
)

_INDEX = """\
# Instructions

What `T.ptx`, `T.cuda` and the functions of `T` on numbers are, a page for each family: how each is called, what it
does, with which modifiers, on which architectures, and for those that deal out matrices a picture of which lane has
what. In Python, `help(T.ptx.ldmatrix)` shows how one is called. `make docs` makes these pages from the table that the
compiler and the simulator read, `tilewright/isa/`.
"""
_HEAD = """\
# {title}

`make docs` makes this page from `tilewright/isa/`; [all instructions](../instructions.md).
"""


def family_of(name: str) -> Family:
    """The family of a row."""
    room, _, rest = name.partition(".")
    word = rest.partition(".")[0] if room == "ptx" else room if room in ("cuda", "printf") else "math"
    if room.startswith("smem_"):
        word = room
    return next(family for family in FAMILIES if any(re.fullmatch(each, word) for each in family.words.split()))


def address_of(name: str) -> str:
    """Where the pages have a name, seen from the index."""
    in_table = name in INSTRUCTIONS and _is_simple(INSTRUCTIONS[name])
    return f"instructions/{family_of(name).file}.md" + ("" if in_table else f"#{_anchor(f'T.{name}')}")


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower())


def instruction_names() -> list[str]:
    """Every name that kernels call: rows, and forms that kernels call by a name of their own."""
    return sorted({*INSTRUCTIONS, *(name for name in FORMS if "." in name)})


def instruction_files() -> Mapping[Path, str]:
    """Every page and picture of instructions, with its text."""
    members = {family: [name for name in instruction_names() if family_of(name) is family] for family in FAMILIES}
    files = {INDEX: "\n".join([_INDEX, *(line for family in FAMILIES for line in _listed(family, members[family]))])}
    for family, names in members.items():
        files[FOLDER / f"{family.file}.md"] = "\n".join(_page(family, names))
    for row in INSTRUCTIONS.values():
        if (atom := _atom_of(row)) is not None:
            files[PICTURES / f"{atom.name}.svg"] = svg(*_grids(atom)) + "\n"
    return files


def _listed(family: Family, names: list[str]) -> Iterator[str]:
    """A family in the index: its names with the first sentence of each."""
    yield from (f"## {family.title}", "", "| instruction | what it does |", "| --- | --- |")
    for name in names:
        yield f"| [`T.{name}`]({address_of(name)}) | {_first_sentence(_said_of(name))} |"
    yield ""


def _said_of(name: str) -> str:
    """What it does: the row's word for it, or the first paragraph of the form's."""
    if name in INSTRUCTIONS:
        return INSTRUCTIONS[name].doc
    return " ".join((inspect.getdoc(FORMS[name]) or "").partition("\n\n")[0].split())


def _called(name: str) -> str:
    """How kernels call it, without types: what `help` shows."""
    known = instructions(name).__signature__.parameters.values()
    empty = inspect.Parameter.empty
    return f"T.{name}{inspect.Signature([each.replace(annotation=empty) for each in known])}"


def _first_sentence(text: str) -> str:
    return _cell(re.split(r"(?<=[.])\s", text, maxsplit=1)[0].rstrip("."))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# Rows


def _page(family: Family, names: list[str]) -> Iterator[str]:
    """The page of a family: functions of numbers in a table, all else in sections."""
    yield _HEAD.format(title=family.title)
    rows = [INSTRUCTIONS[name] for name in names if name in INSTRUCTIONS]
    simple = [row for row in rows if _is_simple(row)]
    if simple:
        yield from ("| call | value | dtypes |", "| --- | --- | --- |")
        for row in simple:
            kinds = dict.fromkeys(str(value) for form in row.forms for value in form.wording.modifiers.get("dtype", ()))
            yield f"| `T.{row.name}({', '.join(row.params)})` | {_cell(row.doc)} | {', '.join(kinds)} |"
        yield from ("", _SIMPLE, "")
    for name in names:
        if name not in INSTRUCTIONS:
            yield from (f"## T.{name}", "", f"`{_called(name)}`", "", _said_of(name), "")
        elif INSTRUCTIONS[name] not in simple:
            yield from _section(INSTRUCTIONS[name])


_SIMPLE = (
    "They exist on every architecture, from sm_75 on. Narrow floats are computed in float32 and rounded once. The "
    "simulator rounds correctly; CUDA is off by as many units in the last place (ulp) as said above."
)


def _is_simple(row: Instruction) -> bool:
    """Is it a function of numbers that CUDA has for some dtypes?"""
    return "." not in row.name and all(
        isinstance(form.wording, Cuda) and form.wording.modifiers.keys() <= {"dtype"} for form in row.forms
    )


def _section(row: Instruction) -> Iterator[str]:
    yield from (f"## T.{row.name}", "", f"`{_called(row.name)}`", "")
    if row.doc:
        yield from (row.doc, "")
    if row.lanes in _RUN_BY:
        yield from (_RUN_BY[row.lanes], "")
    for name, (target, shift) in row.folds.items():
        yield from (f"`{name}` is added to `{target}`" + (f", {shift} bits up." if shift else "."), "")
    groups = _groups(row)
    every = _all_values(groups)
    yield from _modifiers(row, every)
    yield from _forms(row, groups, every)
    yield from _atoms(row)
    yield from _drawn(row)


_RUN_BY = {"warp": "All 32 lanes of a warp execute it together.",
           "warpgroup": "All four warps of a warpgroup execute it together."}  # fmt: skip

Values = dict[str, dict[object, str]]  # of each modifier: what it means, and how it is spelled


@dataclass
class _Group:
    """Forms with one text, architecture, source and meaning, and all the values of each modifier that go together."""

    form: Form
    values: Values


def _groups(row: Instruction) -> list[_Group]:
    """The forms of a row, joined where they differ in one modifier only: first those that are alike in all else."""
    groups: list[_Group] = []
    for form in row.forms:
        found = _Group(form, {name: dict(spelled) for name, spelled in form.wording.modifiers.items()})
        groups.append(found)
    joined = True
    while joined:
        joined = False
        for later in reversed(range(len(groups))):
            for earlier in range(later):
                if _join(groups[earlier], groups[later]):
                    del groups[later]
                    joined = True
                    break
    return groups


def _join(one: _Group, other: _Group) -> bool:
    """Put what another group has into this one, where the two are a box of values together."""
    if _said(one.form) != _said(other.form) or one.values.keys() != other.values.keys():
        return False
    apart = [name for name, spelled in one.values.items() if spelled != other.values[name]]
    if len(apart) > 1 or any(not _agree(one.values[name], other.values[name]) for name in apart):
        return False
    for name in apart:
        one.values[name].update(other.values[name])
    return True


def _agree(one: Mapping[object, str], other: Mapping[object, str]) -> bool:
    return all(other.get(value, text) == text for value, text in one.items())


def _said(form: Form) -> tuple[str, str, str, str]:
    return form.wording.template, str(form.arch), form.source, _meaning(form)


def _meaning(form: Form) -> str:
    """Which lane has what, where the docstring of the form's meaning begins with that; the rest is for our eyes."""
    if not inspect.isfunction(form.meaning.execute):
        return ""
    first, *_ = (inspect.getdoc(form.meaning.execute) or "").split("\n\n")
    return " ".join(first.split()) if first.startswith("Lane ") else ""


def _all_values(groups: list[_Group]) -> Values:
    """What each modifier may be, over all forms; a spelling where all forms agree on it."""
    every: Values = {}
    for group in groups:
        for name, spelled in group.values.items():
            known = every.setdefault(name, {})
            known.update({value: text if known.get(value, text) == text else "" for value, text in spelled.items()})
    return every


def _modifiers(row: Instruction, every: Values) -> Iterator[str]:
    """The modifiers that leave a choice, or must be named."""
    shown = {name: spelled for name, spelled in every.items() if not _by_default(row, name, spelled)}
    if shown:
        yield from ("| modifier | values |", "| --- | --- |")
        yield from (f"| `{name}` | {_cell(_listed_values(row, name, spelled))} |" for name, spelled in shown.items())
        yield ""


def _by_default(row: Instruction, name: str, spelled: Mapping[object, str]) -> bool:
    """Is the default its only value?"""
    return list(spelled) == [row.keywords.get(name, REQUIRED)]


def _listed_values(row: Instruction, name: str, spelled: Mapping[object, str]) -> str:
    """Values, each with its spelling where that is not plain from it; a long range by its ends."""
    if row.operand(name):
        return " or ".join("left out" if value is None else "given" for value in spelled)
    values = list(spelled)
    numbers = [value for value in values if type(value) is int]
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) == len(values) > 8 and len(steps) == 1:
        return f"{values[0]}, {values[1]}, ... to {values[-1]}"
    return ", ".join(_value(value, text) for value, text in spelled.items())


def _value(value: object, text: str) -> str:
    word = str(value).strip(".").lower()
    is_plain = not text or word in text.lower() or text.strip(".") in word
    return f"`{value!r}`" + ("" if is_plain else f" (`{text}`)")


MANY = 6  # forms that a reader sees at once; more are folded


def _forms(row: Instruction, groups: list[_Group], every: Values) -> Iterator[str]:
    """The texts, and where each exists; what the modifiers of one are where it does not take all."""
    if len(groups) > MANY:
        yield from (f"<details><summary>{len(groups)} forms</summary>", "")
    told: set[str] = set()
    for group in groups:
        yield f"- `{_text(group.form)}`: {group.form.arch}{_narrowed(row, group, every)}."
        if (meaning := _meaning(group.form)) and meaning not in told:
            told.add(meaning)
            yield f"    {meaning}"
    yield ""
    if len(groups) > MANY:
        yield from ("</details>", "")
    yield from (_sources(group.form.source for group in groups), "")


def _narrowed(row: Instruction, group: _Group, every: Values) -> str:
    """Which values of its modifiers a form is for."""
    apart = {name: spelled for name, spelled in group.values.items() if spelled.keys() != every[name].keys()}
    without = [f"`{name}`" for name, spelled in apart.items() if _by_default(row, name, spelled)]
    chosen = [f"`{name}` {_listed_values(row, name, spelled)}" for name, spelled in apart.items()
              if not _by_default(row, name, spelled)]  # fmt: skip
    return "".join(
        [f", with {'; '.join(chosen)}" if chosen else "", f", without {', '.join(without)}" if without else ""]
    )


def _sources(sources: Iterable[str]) -> str:
    """Where it is written down, and what none of it confirms."""
    parts = [source.partition("; unconfirmed: ") for source in sources]
    books = "; ".join(dict.fromkeys(book for book, _, _ in parts))
    doubts = "; ".join(dict.fromkeys(doubt for _, _, doubt in parts if doubt))
    return f"Source: {books}." + (f" Not confirmed on hardware: {doubts}." if doubts else "")


def _text(form: Form) -> str:
    return form.wording.template.replace("{{", "{").replace("}}", "}").replace("`", "")


# Pictures


def _atom_of(row: Instruction) -> CopyAtom | MmaAtom | WgmmaAtom | None:
    """The smallest form of a row that has a name in CuTe."""
    atoms: Iterable[CopyAtom | MmaAtom | WgmmaAtom] = (*ATOMS.values(), *PRODUCTS)
    return next((atom for atom in atoms if atom.instruction is row), None)


def _grids(atom: CopyAtom | MmaAtom | WgmmaAtom) -> list[Grid]:
    return atom_grids(atom) if isinstance(atom, CopyAtom) else mma_grids(atom)


def _atoms(row: Instruction) -> Iterator[str]:
    """The names that CuTe has for copies by this instruction."""
    atoms = [atom for atom in ATOMS.values() if atom.instruction is row]
    if atoms:
        yield from ("CuTe's names, and its layouts, (thread, value) to bit:", "")
        yield from ("| atom | PTX | source | destination |", "| --- | --- | --- | --- |")
        for atom in atoms:
            yield f"| `{atom.name}` | `{atom.mnemonic}` | `{atom.source_cute}` | `{atom.destination_cute}` |"
        yield ""


def _drawn(row: Instruction) -> Iterator[str]:
    """Which lane has what of the smallest form that has a name in CuTe; `tilewright atom` draws the others."""
    atom = _atom_of(row)
    if atom is None:
        return
    yield from (f"Which lane holds what, `tilewright atom {atom.name}`:", "")
    yield from (f"![which lane holds what of {atom.name}](../pictures/{atom.name}.svg)", "")
    text = "\n".join(plain(grid).rstrip() for grid in _grids(atom))
    yield from ("<details><summary>as text</summary>", "", "```text", text, "```", "", "</details>", "")
