"""Names of CUDA, Triton and CuTe: the error gives tilewright's name."""

# ruff: noqa: F821  names that nobody defines
from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.texts import executed
from tilewright.dtypes import dtype
from tilewright.errors import KernelError, TilewrightError
from tilewright.lang import T, Tx, parse_script
from tilewright.lang.instructions import formula_for, hint_for, names, tables

NAMES, KEYWORDS = names(), tables()["keywords"]

PAGE = Path(__file__).parents[2] / "docs" / "coming_from.md"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (lambda: T.syncthreads, "T.cuda.cta_sync()"),  # type: ignore[attr-defined]  # a name elsewhere
        (lambda: T.cuda.syncwarp, "T.cuda.warp_sync()"),  # type: ignore[attr-defined]  # a name elsewhere
        (lambda: T.cuda.atomicAdd, "T.cuda.atomic_add(A.ptr_to([i]), value)"),  # type: ignore[attr-defined]  # a name elsewhere
        (lambda: T.ldg, "A[i]"),  # type: ignore[attr-defined]  # a name elsewhere
        (lambda: T.__clz, "T.clz"),  # type: ignore[attr-defined]  # a name elsewhere
        (lambda: T.elect_one_sync, "if T.ptx.elect_sync():"),  # type: ignore[attr-defined]  # a name elsewhere
        (lambda: T.warpgroup_wait, "T.ptx.wgmma.wait_group(n)"),  # type: ignore[attr-defined]  # a name elsewhere
    ],
)
def test_an_unknown_name_of_cuda_says_what_it_is_here(name, hint) -> None:
    with pytest.raises(TilewrightError) as refused:
        name()

    assert refused.value.hint == hint
    assert refused.value.allowed is None


def test_a_bare_name_of_another_language_says_what_it_is_here() -> None:
    with pytest.raises(KernelError, match="tl is not defined") as triton:

        @T.prim_func
        def k(A: T.Buffer((4,), "float32")):
            x = tl.load(A)  # type: ignore[name-defined]  # noqa: F841

    with pytest.raises(KernelError, match="__syncthreads is not defined") as cuda:

        @T.prim_func
        def other():
            __syncthreads()  # type: ignore[name-defined]  # CUDA's

    assert triton.value.hint == NAMES["tl.load"]
    assert cuda.value.hint == NAMES["syncthreads"]


def test_a_name_of_ours_that_is_misspelt_gets_the_nearest() -> None:
    with pytest.raises(TilewrightError) as refused:
        T.alloc_sharedd  # type: ignore[attr-defined]  # noqa: B018

    assert refused.value.hint is None
    assert "alloc_shared" in str(refused.value)


def test_the_page_has_every_name_and_no_other() -> None:
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]

    assert rows == list(NAMES)


@pytest.mark.parametrize("name", ["T.syncthreads", "T.cuda.__syncwarp", "__shfl_down_sync", "tl.dot", "T.dot",
                                  "cute.gemm", "T.cumsum", "tl.load", "T.cuda.memcpy_async"])  # fmt: skip
def test_a_name_is_found_with_and_without_what_stands_before_it(name: str) -> None:
    assert hint_for(name) is not None


def test_what_hints_name_is_in_the_language() -> None:
    named = {word for hint in (*NAMES.values(), *KEYWORDS.values()) for word in re.findall(r"\bTx?(?:\.\w+)+", hint)}

    for word in named:
        found = {"T": T, "Tx": Tx}[word.partition(".")[0]]
        for part in word.split(".")[1:]:
            found = getattr(found, part)

    assert len(named) > 60


def test_no_name_of_ours_is_explained_as_a_foreign_one() -> None:
    assert {name for name in NAMES if name in dir(T)} == set()


@pytest.mark.parametrize("name", ["mean", "cumsum", "softmax"])
def test_a_primitive_that_is_none_says_what_computes_it(name: str) -> None:
    with pytest.raises(TilewrightError, match="is not a tile primitive") as refused:
        getattr(Tx.cta, name)

    assert refused.value.hint == NAMES[name if name in NAMES else f"tl.{name}"]


@pytest.mark.parametrize("keyword", ["mask", "other", "boundary_check", "axis"])
def test_a_keyword_of_another_language_says_what_is_written_here(keyword: str) -> None:
    with pytest.raises(KernelError, match=f"Tx.copy has no keyword '{keyword}'") as refused:

        @T.prim_func
        def masked(A: T.Buffer((32,), "float32")):
            t = T.thread_id([32])
            shared = T.alloc_shared((32,), "float32")
            Tx.cta.copy(shared, A, **{keyword: t < 20})

    assert refused.value.hint == KEYWORDS[keyword]


X = np.linspace(-0.9, 1.9, 32, dtype=np.float32)


def evaluated(text: str) -> np.ndarray:
    """What a kernel stores for an expression of ``x``, a value between -0.9 and 1.9."""
    source = (
        "@T.prim_func\ndef k(A: T.Buffer((32,), 'float32')):\n    lane = T.lane_id([32])\n    x = A[lane]\n"
        f"    y, z = T.float32(0.25), T.float32(0.75)\n    A[lane] = T.cast({text}, 'float32')\n"
    )
    a = X.copy()
    tw.simulate(executed(source, f"<formula {text}>", T=T, np=np, math=math)["k"], a)
    return a


ORACLES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x]),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "logsigmoid": lambda x: -np.log(1 + np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "sign": np.sign,
    "clip": lambda x: np.clip(x, 0.25, 0.75),
    "lerp": lambda x: x + 0.75 * (0.25 - x),
    "maximum": lambda x: np.maximum(x, 0.25),
    "arctan2": lambda x: np.arctan2(x, 0.25),
}


@pytest.mark.parametrize("name", ORACLES)
def test_what_a_hint_computes_is_what_the_function_means(name: str) -> None:
    args = ("x", "y", "z")[: 3 if name in ("clip", "lerp") else 2 if name in ("maximum", "arctan2") else 1]

    assert np.allclose(evaluated(str(formula_for(name, *args))), ORACLES[name](X.astype(np.float64)), atol=1e-5)


@pytest.mark.parametrize("name", [*tables()["formulas"], *tables()["methods"]])
def test_every_formula_is_in_the_language(name: str) -> None:
    evaluated(str(formula_for(name, "x", "y", "z")))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("T.softplus(x)", "T.log1p(T.exp(x))"),
        ("T.relu(x * 2.0)", "T.max((x * 2.0), 0.0)"),
        ("T.gelu(x)", "0.5 * x * (1.0 + T.erf(x * 0.70710678))"),
        ("T.nn.relu(x)", "T.max(x, 0.0)"),
        ("np.exp(x)", "T.exp(x)"),
        ("math.exp(-x)", "T.exp(-x)"),
        ("np.arctan2(x, y)", "T.atan2(x, y)"),
        ("np.maximum(x, 0.5)", "T.maximum(x, 0.5)"),
        ("math.floor(x)", "T.floor(x)"),
        ("x.exp()", "T.exp(x)"),
    ],
)
def test_the_hint_for_a_function_of_others_works_when_it_is_tried(text: str, hint: str) -> None:
    with pytest.raises(TilewrightError) as refused:
        evaluated(text)

    assert refused.value.hint == hint
    evaluated(hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("A[lane] ** 2", "T.pow(x, y); x * x for a square"),
        ("math.sqrt(A[lane])", "T.sqrt(A[lane])"),
        ("np.exp(A[lane])", "T.exp(A[lane])"),
        ("np.float32(lane)", "T.float32(lane)"),
        ("A[lane].exp()", "T.exp(A[lane])"),
        ("A[lane].astype('int32')", 'T.cast(A[lane], "float32")'),
        ("int(A[lane])", 'T.cast(x, "int32")'),
        ("divmod(lane, 8)[0]", "x // y and x % y"),
        ("sum(A)", "Tx.cta.sum(dst, src), or a loop over range(n)"),
        ("(y := A[lane]) + y", "y = A[lane] as a statement of its own"),
    ],
)
def test_what_python_cannot_do_with_values_of_a_run_names_what_can(text: str, hint: str) -> None:
    source = f"@T.prim_func\ndef k(A: T.Buffer((32,), 'float32')):\n    lane = T.lane_id([32])\n    A[lane] = {text}\n"

    with pytest.raises(KernelError) as raised:
        executed(source, f"<{text}>", T=T, math=math, np=np)

    assert raised.value.hint == hint


def test_every_name_of_theirs_asked_of_t_says_what_to_try() -> None:
    for name in {last for name in NAMES if not hasattr(T, last := name.rpartition(".")[2])}:
        with pytest.raises(TilewrightError) as refused:
            getattr(T, name)

        assert "try:" in str(refused.value), name
        assert len(str(refused.value)) < 400, name


@pytest.mark.parametrize("name", ["zqxv", "frobnicate_the_thing", "__qqq"])
def test_a_name_that_is_near_to_nothing_is_told_without_a_list_of_every_name(name: str) -> None:
    with pytest.raises(TilewrightError) as refused:
        getattr(T, name)

    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("A.T", "A.permute(1, 0)"), ("A.reshape(32)", "A.view(*shape)"), ("A[0:2].T", "A.permute(1, 0)"),
     ("A[0:2].view(16)", "A.view(*shape), and of that a region"), ("A.ndim", "len(A.shape)")],
)  # fmt: skip
def test_what_arrays_of_numpy_have_says_what_buffers_have(wrong: str, right: str) -> None:
    with pytest.raises(KernelError, match="has no") as refused:
        parse_script(f"@T.prim_func\ndef k(A: T.Buffer((4, 8), 'float32')):\n    x = {wrong}\n")

    assert refused.value.hint == right
    assert refused.value.allowed is None


@pytest.mark.parametrize(
    ("theirs", "ours"), [("fp16", "float16"), ("tl.bf16", "bfloat16"), ("torch.float32", "float32"), ("flaot16", None)]
)
def test_an_unknown_dtype_of_another_language_says_what_it_is_here(theirs: str, ours: str | None) -> None:
    with pytest.raises(KernelError, match="unknown dtype") as refused:
        dtype(theirs)

    assert refused.value.hint == ours


@pytest.mark.parametrize("namespace", [T, Tx], ids=["T", "Tx"])
def test_names_that_python_tools_ask_for_are_compared_with_none(
    namespace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest asks each name of a module for several: to look for a near one took milliseconds each."""
    asked: list[str] = []

    def nothing_near(word: str, *_: object, **__: object) -> list[str]:
        asked.append(word)
        return []

    monkeypatch.setattr("difflib.get_close_matches", nothing_near)

    assert not hasattr(namespace, "_pytestfixturefunction")
    assert asked == []
    assert not hasattr(namespace, "alloc_bufer")
    assert asked
