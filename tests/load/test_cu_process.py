"""The process in which NVRTC reads a .cu file: what it takes, what it answers, and how it ends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import ToolError
from tilewright.load import cu_compile, cu_process, load_cu


def test_the_process_answers_with_kernels_and_with_complaints_at_their_lines() -> None:
    assert load_cu("__global__ void k(int* p) { *p = 1; }")["k"]
    with pytest.raises(ToolError, match=r"kernel.cu:2: NVRTC refuses the device code") as raised:
        load_cu("__global__ void k(int* p) {\n    *p = unknown;\n}")
    assert raised.value.given == 'line 2: identifier "unknown" is undefined'


def test_the_process_that_asks_nvrtc_imports_nothing_of_the_package() -> None:
    imported = re.findall(r"^\s*(?:from|import) (\w+)", Path(cu_process.__file__).read_text("utf-8"), re.MULTILINE)

    assert set(imported) == {"__future__", "json", "sys", "runpy", "typing", "cuda"}


EIGHTFOLD = "".join(f"#define a{k} {f'a{k - 1} ' * 8}\n" for k in range(1, 8))  # a7: two million times a0


@pytest.mark.parametrize(
    ("limit", "most", "words"), [("SECONDS", 1, "NVRTC takes too long"), ("BYTES", 64 << 20, "NVRTC did not finish")]
)
def test_the_process_of_nvrtc_ends_at_its_limits(
    limit: str, most: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself: nobody waits for it that long."""
    monkeypatch.setattr(cu_compile, limit, most)
    monkeypatch.setattr(cu_compile, "WAITS", 600)

    with pytest.raises(ToolError, match=words):
        load_cu(f"#define a0 +1\n{EIGHTFOLD}__global__ void k(int* p) {{ *p = 0 {'a7' * (limit == 'SECONDS')}; }}\n")


COUNTED = """
template <int N> __global__ void k(int* p) { p[threadIdx.x] = N; }
int main(int argc, char** argv) {
    int* p = nullptr;
    k<1><<<1, 32>>>(p);
    k<3><<<1, 32>>>(p);
    k<5><<<1, 32>>>(p);
}
"""


def without_a_process(monkeypatch: pytest.MonkeyPatch, crashes: str) -> None:
    """The process of NVRTC ends by a signal where a request asks for an instance."""
    answered = cu_compile.answered

    def fallible(request: dict[str, Any]) -> dict[str, Any]:
        if crashes in request["names"]:
            raise cu_compile._Crash("NVRTC did not finish", given="signal 11")
        return answered(request)

    monkeypatch.setattr(cu_compile, "answered", fallible)
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")


def test_an_instance_at_which_nvrtc_crashes_is_refused_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_a_process(monkeypatch, "k<3>")

    module = load_cu(COUNTED)

    assert module.kernels == ["k<1>", "k<5>"]
    assert str(module.refused["k<3>"].given) == "signal 11"


def test_a_crash_at_the_only_instance_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    without_a_process(monkeypatch, "k<3>")
    text = "".join(line for line in COUNTED.splitlines(keepends=True) if "k<1>" not in line and "k<5>" not in line)

    with pytest.raises(ToolError, match="NVRTC did not finish"):
        load_cu(text)
