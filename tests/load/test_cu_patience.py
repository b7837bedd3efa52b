"""The scanner of .cu files ends soon on any text: no regular expression goes back over a long run again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import suppress
from time import process_time

import pytest

from tilewright.errors import ToolError
from tilewright.load import cu_headers, cu_launches, cu_tree
from tilewright.load.cu_structures import variables, with_fields
from tilewright.load.declared import Parameter

N = 600  # letters of a run
SECONDS = 0.25  # of CPU for one text; the worst takes a tenth of that
RUNS = {
    "blanks": " " * N, "lines": "\n" * N, "tabs": "\t " * (N // 2), "comment": f"/*{'word ' * (N // 5)}*/",
    "unclosed comment": "/*" * (N // 2), "name": "a" * N, "names": "a " * (N // 2), "scopes": "a::" * (N // 3),
    "angles": "<" * N, "pairs of angles": "<a>" * (N // 3), "nested angles": "a<" * (N // 2), "parens": "(" * N,
    "pairs of parens": "(a)" * (N // 3), "nested parens": "(" * (N // 2) + ")" * (N // 2),
    "brackets": "[1]" * (N // 3),
    "quotes": '"a" ' * (N // 4), "backslashes": "\\" * N, "continued lines": "\\\n" * (N // 2), "braces": "{" * N,
    "pairs of braces": "{}" * (N // 2), "nested braces": "{" * (N // 2) + "}" * (N // 2),
    "raw strings": 'R"(' * (N // 3),
    "attributes": "[[a]] " * (N // 6),
    "alignments": "alignas(4) " * (N // 11), "unclosed": "alignas( ( " * (N // 11),
    "commas": "a," * (N // 2), "templates": "template<class T> " * (N // 18), "const": "const " * (N // 6),
    "values": "=1 " * (N // 3), "directives": "# \n" * (N // 3), "digits": "1" * N, "colons": ":" * N,
    "labels": "public: " * (N // 8), "structures": "struct a " * (N // 9), "stars": "*" * N,
}  # fmt: skip
TEXTS = (
    "struct P { int x; @ V<int> y; };", "struct P { V<int> @ y; };", "struct P { V<int> y @; };",
    "struct @ P { int x; };",
    "struct P @ { int x; };",
    "typedef struct @ { int a; } P;", "struct P : @ { };", "struct P { P(@) : a(1) {} int a; };",
    "struct __align__(@) P { int a; };", "__global__ @ void k(P p);", "__global__ void @ k(P p) {}",
    "__global__ void k(P @ p) {}", "template <@> __global__ void k(P p) {}", "template @ __global__ void k<1>(P p);",
    "int main() { k<@><<<1, 1>>>(); }", "int main() { k @<<<1, 1>>>(); }", "__device__ @ int x = 5;",
    "__device__ int @ x[3] = {1, @2};", "__device__ int x @;", "#include @\n", "#define X @\n__device__ int y;",
    "using a = @;", "typedef @ a;", "namespace @ { __device__ int q; }", "@",
)  # fmt: skip
SCANNERS = (
    cu_tree.pieces, cu_tree.parameters, cu_launches.instances, lambda text: variables((text,)),
    lambda text: with_fields({"k": (Parameter("p", "P"),)}, (text,)),
    lambda text: list(cu_headers.includes(text)),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the tests before have left is not collected, and counted, here; nothing is kept on disk."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    gc.disable()
    yield
    gc.enable()


def test_a_comment_of_400_letters_before_a_field_of_a_templates_type_is_read_at_once() -> None:
    text = f"template <class T> struct V {{ T x; }};\nstruct P {{ int n; /* {'long words ' * 40} */ V<int> v; }};"
    began = process_time()

    (known,) = with_fields({"k": (Parameter("p", "P"),)}, (text,))["k"]

    assert "V<int> v" in known.problem
    assert process_time() - began < SECONDS


@pytest.mark.parametrize("run", RUNS)
def test_a_long_run_in_a_file_is_scanned_soon(run: str) -> None:
    """In each second text; the next run is in the others."""
    check_patience(run, TEXTS[list(RUNS).index(run) % 2 :: 2])


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS)
def test_a_long_run_anywhere_in_a_file_is_scanned_soon(run: str) -> None:
    check_patience(run, TEXTS)


def check_patience(run: str, texts: Iterable[str]) -> None:
    for text in texts:
        for scan in SCANNERS:
            began = process_time()
            with suppress(ToolError):  # an include without a name
                scan(text.replace("@", RUNS[run]))
            assert process_time() - began < SECONDS, text
