"""The notebook among the examples, executed: each cell in order, its last expression shown as notebooks show it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.texts import readable

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
MOST_WORDS = 160  # of a repr


def execute(cells: list[str]) -> list[object]:
    """What the last expression of each cell is; the rules are IPython's. None for a cell without one."""
    names: dict[str, object] = {"__name__": "__main__"}
    shown = []
    for number, text in enumerate(cells):
        file = readable(text, f"<cell {number}>")
        tree = ast.parse(text)
        last = tree.body[-1]
        value = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
        exec(compile(ast.Module(tree.body[:-1] if value else tree.body, []), file, "exec"), names)
        shown.append(value and eval(compile(value, file, "eval"), names))
    return shown


@pytest.fixture(scope="module")
def shown() -> list[object]:
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return execute(["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"])


def test_every_cell_runs_and_what_it_shows_has_a_page_of_html(shown: list[object]) -> None:
    rich = [value for value in shown if value is not None and not isinstance(value, str)]

    assert [type(value).__name__ for value in rich] == [
        "Kernel",
        "Executable",
        "DispatchReport",
        "Run",
        "Counts",
        "TileLayout",
    ]
    for value in rich:
        html = value._repr_html_()  # type: ignore[attr-defined]  # all of ours have it
        assert html.startswith("<")
        assert "Span(" not in html


def test_what_is_shown_in_a_terminal_is_short_and_names_what_it_is(shown: list[object]) -> None:
    kernel, exe, _, plan, run, counts, *_ = [value for value in shown if value is not None]

    assert repr(kernel).startswith("<kernel double(X, Y): 3 tile calls, stage tile, <cell 1>:")
    assert repr(exe) == "<Executable double for sm_90a: 3 tile calls, 128 threads a CTA, 0 bytes of shared memory>"
    assert plan == "2 x 4 elements per thread, 2 at once, those inside of the buffers"
    assert repr(run).startswith("<Run: ")
    assert "global 4000 bytes read, 4000 written" in repr(counts)
    assert all(len(repr(value)) < MOST_WORDS for value in (kernel, exe, run, counts))


def test_the_counts_of_a_run_have_a_row_for_each_line(shown: list[object]) -> None:
    (run,) = [value for value in shown if type(value).__name__ == "Run"]

    html = run._repr_html_()  # type: ignore[attr-defined]  # it is a Run

    assert "beyond the ideal" in html
    assert all(word in html for word in ("X", "read", "Y", "write", "4000"))
