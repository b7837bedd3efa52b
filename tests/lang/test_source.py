"""Where the text of a kernel comes from."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lang.kernels import body, line_of
from tests.texts import executed
from tilewright.errors import KernelError
from tilewright.lang import T, parse_script
from tilewright.lang.parser import read


def test_a_function_deep_inside_keeps_its_lines_and_columns() -> None:
    def outer():
        for _ in range(1):

            @T.prim_func(
                private=True,
            )
            def k(
                A: T.Buffer((8,), "float32"),
            ):
                A[0] = 1  # marked

        return k

    at = outer().body[0].at
    code = Path(at.file).read_text().splitlines()[at.line - 1]
    assert code.endswith("# marked")
    assert code[at.column :].startswith("A[0] = 1")


def test_text_that_leaves_the_indentation_is_part_of_a_kernel() -> None:
    def outer():
        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            """A docstring
            that leaves the indentation."""
            # a comment
            # another comment
            A[0] = 1

        return k

    assert body(outer()) == "A[0] = 1.0"


def test_one_line_is_enough() -> None:
    # fmt: off
    @T.prim_func
    def k(A: T.Buffer((8,), "float32")): A[0] = 1; A[1] = 2  # noqa: E702  that is the point
    # fmt: on

    assert body(k) == "A[0] = 1.0\nA[1] = 2.0"


def test_a_notebook_cell_is_a_source() -> None:
    cell = textwrap.dedent("""
        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            A[0] = 1
    """)

    assert executed(cell, "<cell 7>", T=T)["k"].body[0].at.line == 4


def test_text_that_is_nowhere_is_an_error() -> None:
    with pytest.raises(KernelError, match="the source of k cannot be read") as raised:
        exec("@T.prim_func\ndef k(): pass\n", {"T": T})
    assert "parse_script" in str(raised.value.hint)


def test_a_file_that_changed_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("def k():\n    pass\n")
    space: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    file.write_text("# moved\n\n\ndef other():\n    pass\n")

    with pytest.raises(KernelError, match="the source of k is not where it was"):
        read(space["k"])


@pytest.mark.parametrize("value", [lambda: None, 3, len, type("C", (), {})])
def test_a_kernel_is_a_function(value: Any) -> None:
    with pytest.raises(KernelError, match="a kernel is a Python function"):
        T.prim_func(value)


def test_names_that_only_annotations_mention_are_found() -> None:
    rows, kind = 8, "float16"

    @T.prim_func
    def k(A: T.Buffer((rows, 4), kind)):
        pass

    assert k.buffers[0].shape == (8, 4)


height = 3  # of the module


def fill_rows(A: T.Buffer((8, 4), "float16")):
    T.cta_id([1])
    T.thread_id([1])
    for i in range(height):
        A[i, 0] = 1.0


def test_a_name_of_an_annotation_is_the_one_around_the_kernel_not_the_one_of_the_module() -> None:
    def made(height: int) -> Any:
        @T.prim_func
        def k(A: T.Buffer((height, 4), "float16")):
            pass

        return k

    assert made(8).buffers[0].shape == (8, 4)


def test_a_name_of_a_body_is_the_one_of_the_module_where_the_kernel_is_made_elsewhere() -> None:
    def made(function: Any, height: int) -> Any:
        return T.prim_func(function)

    a = np.zeros((8, 4), np.float16)
    tw.simulate(made(fill_rows, 8), a)
    assert a[:, 0].sum() == height


def test_a_script_that_is_not_python_is_an_error_at_its_line() -> None:
    with pytest.raises(KernelError, match="the script is not Python") as raised:
        parse_script("@T.prim_func\ndef k(:\n    pass\n")
    assert line_of(raised.value).line == 2


@pytest.mark.parametrize(
    ("script", "message"),
    [("x = 1\n", "the script has no function"), ("def k():\n    pass\n", "the script's function is no kernel")],
)
def test_a_script_has_a_kernel(script: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        parse_script(script)


def test_a_break_needs_a_loop() -> None:
    with pytest.raises(KernelError, match="`break` outside a loop"):
        parse_script("@T.prim_func\ndef k():\n    break\n")


def test_an_error_in_a_script_shows_its_line() -> None:
    with pytest.raises(KernelError, match="y is not defined") as raised:
        parse_script("@T.prim_func\ndef k():\n    x: T.int32 = y\n")
    assert "x: T.int32 = y" in str(raised.value)
