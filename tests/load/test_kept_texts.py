"""What NVRTC makes of a .cu file is kept on disk, and made again where anything that decides it has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.cuda import cache
from tilewright.load import cu, cu_compile, cu_host, cu_structures, cu_tree
from tilewright.load.cu_headers import _mended, wheel_folders
from tilewright.load.cu_launches import launched
from tilewright.ptx import flow

KERNEL = '#include "scale.h"\n__global__ void k(float* x) { x[threadIdx.x] *= SCALE; }\n'
LAUNCH = "int main() { k<<<1, 32>>>(nullptr); }\n"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of its own, and the texts that NVRTC was asked for."""
    texts: list[str] = []
    original = cu_compile.answered

    def counted(request: dict[str, object]) -> dict[str, object]:
        texts.append(str(request["source"]))
        return original(request)

    monkeypatch.setattr(cu_compile, "answered", counted)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TILEWRIGHT_CACHE_BYTES", raising=False)
    return texts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "scale.h").write_text("#define SCALE 2.0f\n")
    (tmp_path / "k.cu").write_text(KERNEL)
    return tmp_path / "k.cu"


def test_a_file_is_compiled_once(file: Path, asked: list[str]) -> None:
    first, second = tw.load_cu(file), tw.load_cu(file)

    assert first.kernels == second.kernels == ["k"]
    assert first.module == second.module
    assert len(asked) == 1


def test_a_text_without_a_file_is_compiled_once(asked: list[str]) -> None:
    text = KERNEL.replace('#include "scale.h"', "#define SCALE 2")

    assert tw.load_cu(text).module == tw.load_cu(text).module
    assert tw.load_cu(f"{text} ").kernels == ["k"]
    assert len(asked) == 2


@pytest.mark.parametrize("change", ["header", "text", "define", "option", "target", "nvrtc", "headers of wheels"])
def test_what_decides_the_result_decides_the_entry(
    change: str, file: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.load_cu(file)
    given: Any = {"define": {"defines": {"N": 1}}, "option": {"options": ["--use_fast_math"]},
                                "target": {"target": "sm_80"}}.get(change, {})  # fmt: skip
    if change == "header":
        (file.parent / "scale.h").write_text("#define SCALE 3.0f\n")
    if change == "text":
        file.write_text(KERNEL + "\n")
    if change == "nvrtc":
        monkeypatch.setattr(cache, "_nvrtc_version", lambda: "99")
    if change == "headers of wheels":
        monkeypatch.setattr(cu_compile, "wheel_versions", lambda: ("nvidia_cuda_cccl-99.dist-info",))

    tw.load_cu(file, **given)

    assert len(asked) == 2


def test_a_text_with_launches_is_asked_for_without_them_at_once(file: Path, asked: list[str]) -> None:
    file.write_text(KERNEL + LAUNCH)

    assert tw.load_cu(file).kernels == ["k"]
    assert [LAUNCH in text for text in asked] == [False]


def test_an_unoptimised_text_that_is_too_long_is_left_out(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cu, "MOST_LINES", 10)

    verdict = tw.check(tw.load_cu(file)["k"], np.ones(32, np.float32), grid=1, block=32)

    assert verdict
    assert verdict.not_covered[0] == "unoptimised code: its text is too long to run"


def test_an_unoptimised_text_that_makes_too_many_calls_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "MOST_CALLS", 1)
    twice = "__device__ float f(float x) { return x + 1; }\n__global__ void k(float* x) { *x = f(f(*x)); }\n"

    verdict = tw.check(tw.load_cu(twice)["k"], np.ones(1, np.float32), grid=1, block=1)

    assert (verdict.status, verdict.findings) == ("clean", ())
    assert verdict.not_covered[0] == "unoptimised code: its text makes too many calls"


@pytest.mark.skipif(len(wheel_folders()) < 2, reason="NVIDIA's headers are not installed: pip install tilewright[cu]")
def test_headers_that_do_not_fit_cutlass_are_mended() -> None:
    text = dict(_mended())["cuda/std/__utility/integer_sequence.h"]

    assert "get_of_sequence(integer_sequence<" in text
    assert " get(integer_sequence<" not in text


def test_the_second_check_reads_no_syntax_of_headers(
    file: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "scale.h").write_text(
        "#pragma once\n#define SCALE 2.0f\n#define KERNEL __global__\nstruct Sizes { int rows, columns; };\n"
        "constexpr int ROWS = 3;\ninline int threads(int n) { return n * 32; }\n"
    )
    file.write_text(
        '#include "scale.h"\n__device__ unsigned many;\n'
        "KERNEL void k(float* x, Sizes s) { many = s.rows; x[threadIdx.x] *= SCALE; }\n"
        "int main() { k<<<ROWS, threads(2)>>>(x, s); }\n"
    )
    read, original = list[str](), cu_tree.parsed

    def parsed(text: str) -> object:
        read.append(text)
        return original(text)

    def facts() -> list[Any]:
        caches: list[Any] = [cu_tree.tree_of, cu_tree.pieces, cu_tree.parameters, cu_tree._kernels]
        caches += [cu_structures.variables, cu_structures._declared]
        for each in [*caches, cu_host.calls_of, cu_host.constants_of]:
            each.cache_clear()  # as in a new process
        read.clear()
        module = tw.load_cu(file)
        shapes = launched(module.texts[0], around=module.texts)
        return [module["k"].written, dict(module.types), [(each.grid, each.block) for each in shapes]]

    monkeypatch.setattr(cu_tree, "parsed", parsed)
    first = facts()
    assert any("struct Sizes" in text for text in read)
    assert first[1:] == [{"many": "uint32", "ROWS": "int32"}, [((3,), (64,))]]
    assert facts() == first
    assert not any("struct Sizes" in text for text in read)

    (file.parent / "scale.h").write_text((file.parent / "scale.h").read_text().replace("ROWS = 3", "ROWS = 4"))
    assert facts()[2] == [((4,), (64,))]
