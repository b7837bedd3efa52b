"""Submissions in Triton: its compiler works behind walls, and the PTX that comes out is judged by what it does."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import tilewright.load.triton
from tests.load.triton_texts import text_of
from tilewright.cli.kernels import LOADS
from tilewright.load.triton import TritonText
from tilewright.serve import judge
from tilewright.serve.confine import Walls
from tilewright.serve.judge import answer, settle

NEEDS_TRITON = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
WALLS = Walls.here()
KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def twice(A, B, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(B + at, tl.load(A + at, mask=at < n) * 2, mask=at < n)
"""


def submission(source: str = KERNEL, **fields: Any) -> dict[str, Any]:
    """One that is judged on B = 2 A."""
    array = {"dtype": "float32", "shape": ["n"]}
    arguments = [{"name": "A", **array}, {"name": "B", **array, "role": "out"}, {"name": "n", "value": "n"}]
    return {"language": "triton", "source": source, "arguments": arguments, "sizes": {"n": {"from": 1, "to": 2000}},
            "constants": {"BLOCK": 256}, "launch": {"grid": ["(n + BLOCK - 1) // BLOCK"], "num_warps": 2},
            "reference": "def reference(A, n): return 2 * A", "cases": 4, **fields}  # fmt: skip


def judged(source: str = KERNEL, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer, and the first finding or nothing."""
    made = answer(submission(source, **fields), LOADS, WALLS)
    return made, next((each for verdict in made["verdicts"] for each in verdict["findings"]), {})


# With a text that Triton made once


PRODUCT: dict[str, Any] = {
    "sizes": {"n": 64}, "constants": {}, "launch": {"grid": ["n // 64", "n // 64"]},
    "arguments": [{"name": name, "dtype": "float16", "shape": ["n", "n"], "role": role}
                  for name, role in (("a", "in"), ("b", "in"), ("c", "out"))]
                 + [{"name": name, "value": "n"} for name in "MNK"],
    "rtol": 0.01, "atol": 0.05,
}  # fmt: skip
RIGHT = "def reference(a, b, M, N, K): return a.astype(np.float64) @ b.astype(np.float64)"


def stand_in(place: str, const: list[str]) -> Any:
    """What @triton.jit would have made of a product."""
    params = [SimpleNamespace(name=name, is_constexpr=False, annotation_type="", do_not_specialize=False,
                              has_default=False) for name in "abcMNK"]  # fmt: skip
    return SimpleNamespace(params=params, arg_names=list("abcMNK"), __name__="matmul")


@contextmanager
def replaced(holder: object, name: str, value: object) -> Iterator[None]:
    """A part of the judge, from before it starts: it takes that for its own. Triton is said to be there."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(judge, "is_at_hand", lambda: True)
        patched.setattr(holder, name, value)
        settle()
        yield
    settle()


@pytest.mark.parametrize(("reference", "status"), [(RIGHT, "clean"), (RIGHT.replace("@", "+"), "wrong")])
def test_ptx_that_is_handed_on_is_judged_by_what_it_does(reference: str, status: str) -> None:
    ptx, shared = text_of("matmul", "sm_80")
    with replaced(tilewright.load.triton, "_compiled", lambda *_: TritonText(ptx, "matmul", shared)):
        made = answer(submission(**PRODUCT, reference=reference), {"triton": stand_in}, WALLS)
    assert made["status"] == status, made["verdicts"][0]["findings"]


@pytest.mark.parametrize(
    "forged",
    [b"", b"{}", b"7", b'{"texts": [{"ptx": 1, "name": "k"}], "cases": [[0, [], {}]]}',
     b'{"texts": [{"ptx": "", "name": "k", "shared": -1}], "cases": [[0, [], {}]]}',
     b'{"texts": [{"ptx": "", "name": "k"}], "cases": []}', b'{"texts": [], "cases": [[0, [], {}]]}',
     b'{"texts": [{"ptx": "", "name": "k"}], "cases": [[0, ["Q"], {}]]}',
     b'{"texts": [{"ptx": "", "name": "k"}], "cases": [[0, [], {"Q": "text"}]]}'],
)  # fmt: skip
def test_what_is_handed_on_and_is_no_kernel_is_told(forged: bytes) -> None:
    with replaced(judge, "_texts", lambda *_: forged):
        made, finding = judged(cases=1)
    assert (made["status"], finding["kind"]) == ("refused", "tampering")
    assert "no kernel" in finding["given"]


def test_a_missing_triton_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "is_at_hand", lambda: False)
    made, finding = judged()
    assert (made["status"], finding["message"], finding["hint"]) == (
        "refused", "Triton is not installed", "pip install triton",
    )  # fmt: skip


# With Triton


@pytest.fixture
def settled() -> None:
    """As in a worker: what there is before a submission, Triton among it, is what none may replace."""
    importlib.import_module("triton.compiler")
    settle()


@NEEDS_TRITON
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_right_kernel_is_clean_on_shapes_that_are_drawn(target: str) -> None:
    made, finding = judged(target=target)
    assert (made["status"], finding) == ("clean", {})
    assert 1 in [case["n"] for case in made["cases"]], "a number that Triton makes a constant"


TRICKS = {
    "its mask lets one element too many through": (KERNEL.replace("mask=at < n) * 2", "mask=at <= n) * 2"), "wrong",
                                                   "bounds", "reads outside of A"),
    "it computes something else": (KERNEL.replace("* 2,", "* 3,"), "wrong", "results", "elements of B differ"),
    "it leaves its output as it is": (KERNEL.replace("tl.store(B + at, ", "(").replace(" * 2, mask=at < n)", ")"),
                                      "wrong", "results", "never written"),
    "it writes over its input": (KERNEL.replace("tl.store(B", "tl.store(A"), "wrong", "results", "changes its input A"),
    "a name is unknown": (KERNEL.replace("arange(0, BLOCK)", "arange(0, BLOC)"), "refused", "compile",
                          "Triton refuses"),
    "Triton's compiler is replaced": ("import triton\ntriton.compile = print\n" + KERNEL, "refused", "tampering",
                                      "harness"),
    "Triton's stages are replaced": (
        "from triton.backends.nvidia.compiler import CUDABackend\nCUDABackend.make_ptx = print\n" + KERNEL,
        "refused", "tampering", "harness"),
    "the interpreter is asked for": ("import os\nos.environ['TRITON_INTERPRET'] = '1'\n" + KERNEL, "refused",
                                     "tampering", "environment"),
    "its process is ended": (KERNEL + "import os\nos._exit(0)\n", "refused", "tampering", "harness"),
    "a value of compile time opens a socket": (
        KERNEL.replace("@triton.jit", "import socket\n@triton.constexpr_function\ndef f(x):\n"
                       "    socket.socket()\n    return x\n\n@triton.jit").replace("arange(0, BLOCK)",
                                                                                 "arange(0, f(BLOCK))"),
        "refused", "tampering", "network"),
}  # fmt: skip


@NEEDS_TRITON
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("trick", TRICKS)
def test_a_kernel_that_only_looks_right_is_told_by_name(trick: str) -> None:
    source, status, kind, words = TRICKS[trick]
    made, finding = judged(source, kernel="twice")
    findings = [each for verdict in made["verdicts"] for each in verdict["findings"]]
    assert (made["status"], finding["kind"]) == (status, kind), finding.get("given")
    assert any(words in each["message"] for each in findings)
    assert kind != "compile" or (finding["file"], finding["line"]) == ("submission.py", 7)


@NEEDS_TRITON
def test_a_configuration_of_an_autotuned_kernel_sets_what_the_grid_names() -> None:
    tuned = "@triton.autotune([triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128}, num_warps=1)], key=['n'])"
    source = KERNEL.replace("@triton.jit", f"{tuned}\n@triton.jit")
    grid = ["(n + BLOCK - 1) // BLOCK"]
    assert judged(source, constants={}, launch={"grid": grid, "config": 1})[0]["status"] == "clean"
    made, finding = judged(source, constants={}, launch={"grid": grid, "config": 2})
    assert (made["status"], finding["message"]) == ("refused", "config is the number of a configuration")


@NEEDS_TRITON
def test_one_of_several_kernels_is_named() -> None:
    several = KERNEL + KERNEL.partition("\n\n\n")[2].replace("def twice", "def other").replace("* 2", "* 3")
    assert judged(several)[1]["message"] == "name one of the kernels of submission.py"
    assert judged(several, kernel="twice")[0]["status"] == "clean"
    assert judged(several, kernel="third")[1]["message"] == "submission.py has no kernel 'third' of Triton"
