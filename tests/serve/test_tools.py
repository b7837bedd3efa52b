"""What an agent asks: each tool answers about a source that it was sent, without a GPU."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tests.forks import instead_of_processes
from tilewright.errors import ToolError
from tilewright.serve.mcp import ARGUMENTS, TOOLS, asked, search, server

KERNEL = """\
from tilewright import T, Tx

@T.prim_func
def swap(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    tile = T.alloc_shared((64,), "int32")
    tile[tid] = A[tid]
    SYNC
    B[tid] = tile[63 - tid]
"""
RIGHT, WRONG = KERNEL.replace("SYNC", "T.cuda.cta_sync()"), KERNEL.replace("SYNC", "pass")
CUDA = "__global__ void scale(float* a, int n) { int i = blockIdx.x * 32 + threadIdx.x; if (i LIMIT n) a[i] *= 2; }"


@pytest.fixture(autouse=True)
def _processes_are_forks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.function is not test_layouts_and_atoms_need_no_source:  # which starts them
        instead_of_processes(monkeypatch)


def call(tool: str, /, **arguments: Any) -> Any:
    """What the server's tool says, as an agent gets it."""
    answer: Any = asyncio.run(server().call_tool(tool, arguments))
    found = [each.text for each in answer.content]
    return found if tool == "search_docs" else found[0]


@pytest.mark.parametrize(("source", "status"), [(RIGHT, "clean"), (WRONG, "wrong")])
def test_a_kernel_is_checked_and_its_finding_has_a_line(source: str, status: str) -> None:
    report = json.loads(call("check", source=source, language="py"))

    found = [(each["kind"], each["line"]) for each in report["verdicts"][0]["findings"]]
    assert (report["status"], found) == (status, [] if status == "clean" else [("races", 10)])


@pytest.mark.parametrize(("limit", "status"), [("<", "clean"), ("<=", "wrong")])
def test_cuda_is_checked_with_the_launch_that_was_asked_for(limit: str, status: str) -> None:
    asked_for = {"grid": "2", "block": "32", "arguments": ["a:f32[40]=random", "n=40"]}
    report = json.loads(call("check", source=CUDA.replace("LIMIT", limit), language="cu", **asked_for))

    assert report["status"] == status


def test_a_source_that_hangs_is_stopped() -> None:
    spins = "__global__ void spin(volatile int* a) { while (!*a); }"
    report = json.loads(call("check", source=spins, language="cu", block="1", arguments=["a:i32[1]"], seconds=0.5))

    assert report["verdicts"][0]["findings"][0]["kind"] in ("limit", "livelock")


def test_explain_lower_and_profile_answer_with_what_the_commands_print() -> None:
    copied = RIGHT.replace("tile[tid] = A[tid]", "Tx.cta.copy(tile[:], A[:])")

    assert "kernel.py:8: Tx.cta.copy(tile[0:64], A[0:64])" in call("explain", source=copied)
    assert "__global__" in call("lower", source=RIGHT)
    assert "H200" in call("profile", source=RIGHT)
    assert "tile" in call("advise", source=RIGHT)


def test_layouts_and_atoms_need_no_source() -> None:
    assert "laneid" in call("layout", text="S[(8, 4):(4@laneid, 1@laneid)]")
    assert "ldmatrix.sync.aligned.m8n8.x4" in call("atom", name="SM75_U32x4_LDSM_N")


def test_what_is_asked_wrongly_is_answered_with_the_complaint() -> None:
    with pytest.raises(Exception, match="SM75_U32x4_LDSM_N"):
        call("atom", name="SM75_U32x4_LDSM_M")
    with pytest.raises(ToolError, match="no kernel"):
        asked("explain", source="x = 1")


def test_a_kernel_that_cannot_be_run_is_an_error_with_its_verdict() -> None:
    answer: Any = asyncio.run(server().call_tool("check", {"source": "x = 1", "language": "py"}))

    assert answer.is_error
    assert answer.structured_content["verdicts"][0]["findings"][0]["message"] == "kernel.py has no kernels"


def test_the_documentation_is_found_by_its_words() -> None:
    assert search("schema of a verdict as JSON")[0].page == "verdict.md"
    assert any("bank" in each.text for each in search("shared memory bank conflicts swizzle"))
    assert search("zzzz") == []
    assert json.loads(call("search_docs", query="CuTe notation of a layout", most=1)[0])["page"]


def test_every_tool_says_what_it_does_and_names_what_it_takes() -> None:
    tools = asyncio.run(server().list_tools())

    assert [each.name for each in tools] == [tool.__name__ for tool in TOOLS]
    for each in tools:
        assert each.description
        told = {name: field["description"] for name, field in each.input_schema["properties"].items()}
        assert told == {name: ARGUMENTS[name] for name in told}


def test_the_page_for_agents_names_every_tool_and_argument() -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "agents.md").read_text(encoding="utf-8")

    for tool in TOOLS:
        for name in (tool.__name__, *inspect.signature(tool).parameters):
            assert f"`{name}`" in page, name
