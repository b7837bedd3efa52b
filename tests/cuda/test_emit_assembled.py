"""The text as machine code: it assembles wherever its kernel exists, and registers stay registers."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from tests.cuda.kernels import CORPUS, ldmatrix_tile, register_copy, stmatrix_tile
from tests.cuda.together import together
from tilewright import isa
from tilewright.cuda import emit, entry_name
from tilewright.cuda.nvrtc import Assembly, assemble, sass
from tilewright.ir import Kernel

CLAIMED = {name: [str(arch) for arch in isa.since(first).archs()] for name, (first, _) in CORPUS.items()}


def assembled(kernel: Kernel, arch: str) -> Assembly:
    return assemble(emit(kernel, isa.arch(arch)), arch)


MATRICES = [(num, trans) for num in (1, 2, 4) for trans in (False, True)]
NBYTES = (4, 8, 16, 32)


@cache
def opcodes(arch: str) -> dict[str, list[str]]:
    """The opcodes of the machine code of kernels that load, store and copy, in order: disassembled at once."""
    kernels = {f"ldmatrix_{num}_{trans}": ldmatrix_tile(num, trans=trans) for num, trans in MATRICES}
    if isa.arch(arch).number >= 90:
        kernels |= {f"stmatrix_{num}": stmatrix_tile(num, trans=False) for num in (1, 2, 4)}
    kernels |= {f"copy_{n}": register_copy(n) for n in NBYTES if n <= 16 or isa.arch(arch).number >= 100}
    texts = [emit(replace(kernel, name=name), isa.arch(arch)) for name, kernel in kernels.items()]
    _, *parts = re.split(r"^\.text\.(\w+):$", sass(together(texts, arch).cubin), flags=re.MULTILINE)
    line = r"^\s*/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)"
    return {name: re.findall(line, text, re.MULTILINE) for name, text in zip(parts[::2], parts[1::2], strict=True)}


@cache
def texts_by_last_architecture() -> dict[str, dict[str, str]]:
    """Each text of a kernel with the last architecture that has it: by that, texts with the names of their entries."""
    found: dict[str, dict[str, str]] = {}
    for number, (name, archs) in enumerate(CLAIMED.items()):
        kernel = CORPUS[name][1]()
        kernel = replace(kernel, name=f"{kernel.name}_{number}")
        for text, arch in {emit(kernel, isa.arch(arch)).partition("\n")[2]: arch for arch in archs}.items():
            found.setdefault(arch, {})[text] = entry_name(kernel)  # without the line that names the architecture
    return found


@pytest.mark.parametrize("arch", texts_by_last_architecture())
def test_each_text_of_a_kernel_assembles_on_the_last_architecture_that_has_it(arch: str) -> None:
    texts = texts_by_last_architecture()[arch]

    made = together(list(texts), arch)

    assert [name for name in texts.values() if made.resources(name).spill_store_bytes] == []


@pytest.mark.long
@pytest.mark.parametrize(("name", "arch"), [(name, arch) for name, archs in CLAIMED.items() for arch in archs])
def test_a_kernel_assembles_on_each_architecture_that_has_it(name: str, arch: str) -> None:
    kernel = CORPUS[name][1]()

    assert assembled(kernel, arch).resources(entry_name(kernel)).spill_store_bytes == 0


@pytest.mark.parametrize("name", [name for name in CORPUS if name != "control"])  # printf's arguments need a stack
def test_registers_stay_registers(name: str) -> None:
    arch, make = CORPUS[name]
    kernel = make()

    resources = assembled(kernel, arch).resources(entry_name(kernel))

    assert (resources.local_bytes, resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0, 0)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a", "sm_120"])
@pytest.mark.parametrize(("num", "trans"), MATRICES)
def test_an_ldmatrix_is_one_instruction(num: int, trans: bool, arch: str) -> None:
    loads = [code for code in opcodes(arch)[f"ldmatrix_{num}_{trans}"] if code.startswith("LDSM")]

    assert len(loads) == 1
    assert (".MT88" in loads[0]) is trans
    assert loads[0].endswith(f".{num}") or num == 1


@pytest.mark.parametrize("num", [1, 2, 4])
def test_an_stmatrix_is_one_instruction(num: int) -> None:
    stores = [code for code in opcodes("sm_90a")[f"stmatrix_{num}"] if code.startswith("STSM")]

    assert len(stores) == 1
    assert stores[0].endswith(f".{num}") or num == 1


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("nbytes", "bits"), [(4, ""), (8, ".64"), (16, ".128")])
def test_a_copy_of_bytes_is_one_access_on_either_side(nbytes: int, bits: str, arch: str) -> None:
    moves = [
        code for code in opcodes(arch)[f"copy_{nbytes}"] if code.startswith(("LDG", "STG", "LDS", "STS", "LDL", "STL"))
    ]

    width = [f"{code.split('.')[0]}{re.sub(r'[^0-9.]|[.](?![0-9])', '', code[3:])}" for code in moves]
    assert sorted(width) == sorted(2 * [f"LDG{bits}", f"STG{bits}", f"LDS{bits}", f"STS{bits}"])


def test_a_copy_of_32_bytes_is_one_access_of_global_memory() -> None:
    moves = opcodes("sm_100a")["copy_32"]

    assert sum("256" in code for code in moves if code.startswith(("LDG", "STG"))) == 4
