"""The text as machine code: it assembles wherever its kernel exists, and registers stay registers."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.cuda.kernels import CORPUS, ldmatrix_tile, register_copy, stmatrix_tile
from tilewright import isa
from tilewright.cuda import emit, entry_name
from tilewright.cuda.nvrtc import Assembly, assemble, sass
from tilewright.ir import Kernel

CLAIMED = {name: [str(arch) for arch in isa.since(first).archs()] for name, (first, _) in CORPUS.items()}


def assembled(kernel: Kernel, arch: str) -> Assembly:
    return assemble(emit(kernel, isa.arch(arch)), arch)


@cache
def opcodes(kind: str, arch: str, *args: object, **kwargs: object) -> tuple[str, ...]:
    """The opcodes of a kernel's machine code, in order."""
    make = {"ldmatrix": ldmatrix_tile, "stmatrix": stmatrix_tile, "copy": register_copy}[kind]
    text = sass(assembled(make(*args, **kwargs), arch).cubin)  # type: ignore[operator]
    return tuple(re.findall(r"^\s*/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)", text, re.MULTILINE))


@pytest.mark.parametrize("name", CORPUS)
def test_each_text_of_a_kernel_assembles_on_the_last_architecture_that_has_it(name: str) -> None:
    kernel = CORPUS[name][1]()
    last = {emit(kernel, isa.arch(arch)): arch for arch in CLAIMED[name]}

    for text, arch in last.items():
        assert assemble(text, arch).resources(entry_name(kernel)).spill_store_bytes == 0


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
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_an_ldmatrix_is_one_instruction(num: int, trans: bool, arch: str) -> None:
    loads = [code for code in opcodes("ldmatrix", arch, num, trans=trans) if code.startswith("LDSM")]

    assert len(loads) == 1
    assert (".MT88" in loads[0]) is trans
    assert loads[0].endswith(f".{num}") or num == 1


@pytest.mark.parametrize("num", [1, 2, 4])
def test_an_stmatrix_is_one_instruction(num: int) -> None:
    stores = [code for code in opcodes("stmatrix", "sm_90a", num, trans=False) if code.startswith("STSM")]

    assert len(stores) == 1
    assert stores[0].endswith(f".{num}") or num == 1


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("nbytes", "bits"), [(4, ""), (8, ".64"), (16, ".128")])
def test_a_copy_of_bytes_is_one_access_on_either_side(nbytes: int, bits: str, arch: str) -> None:
    moves = [
        code for code in opcodes("copy", arch, nbytes) if code.startswith(("LDG", "STG", "LDS", "STS", "LDL", "STL"))
    ]

    width = [f"{code.split('.')[0]}{re.sub(r'[^0-9.]|[.](?![0-9])', '', code[3:])}" for code in moves]
    assert sorted(width) == sorted(2 * [f"LDG{bits}", f"STG{bits}", f"LDS{bits}", f"STS{bits}"])


def test_a_copy_of_32_bytes_is_one_access_of_global_memory() -> None:
    moves = opcodes("copy", "sm_100a", 32)

    assert sum("256" in code for code in moves if code.startswith(("LDG", "STG"))) == 4
