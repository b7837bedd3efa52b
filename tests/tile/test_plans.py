"""Every kind of call is a vector plan, or has a reason that the page on plans names, and does what NumPy says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.tile.kernels import extents
from tests.tile.running import meant, run
from tilewright.ir import Region, TileCallStmt, statements
from tools.plans import CELLS, FORMS, PLANS_PAGE, Cell, Outcome, kernel_of, outcome, plans_page, reason

COPY = Cell("copy", ("shared", "global"), "cta", "static", "float32")


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_a_vector_plan_or_has_a_reason(form: str) -> None:
    cells = [cell for cell in CELLS if cell.form == form]
    for cell in random.Random(0).sample(cells, 40):
        found = outcome(cell)
        assert reason(cell, found), f"{cell} is {found}, and no reason accepts that"


def test_one_element_at_a_time_and_a_refusal_have_no_reason() -> None:
    assert reason(COPY, Outcome("gmem_smem", 16)) == "vector"
    assert not reason(COPY, Outcome("gmem_smem", 4))
    assert not reason(COPY, Outcome("fallback", 16))
    assert not reason(COPY, Outcome(refused="the dtypes differ"))


@pytest.mark.long
def test_the_page_on_plans_is_what_the_dispatcher_does() -> None:
    made = plans_page()
    assert PLANS_PAGE.read_text(encoding="utf-8") == made, "run make docs, and read what changed"
    assert "*open*" not in made


TWO_TILES = [
    cell for cell in CELLS if len(cell.memories) == 2 and cell.form != "run-time" and cell.primitive != "copy_async"
]
"""The calls that `run` can bring data to and from. Extents of the run have tests of their own, in `test_ends`."""
FEW = random.Random(1).sample(TWO_TILES, 16)


def agrees(cell: Cell) -> None:
    """The call of a cell, on small integers with all checks, leaves what NumPy leaves."""
    (call,) = (stmt for stmt in statements(kernel_of(cell).body) if isinstance(stmt, TileCallStmt))
    dst, src = (arg for arg in call.args if isinstance(arg, Region))
    rng = np.random.default_rng(len(str(cell)))
    data = rng.integers(0 if cell.kind == "bool" else -3, 2, extents(src.buffer)).astype(src.dtype.numpy)
    before = rng.integers(0, 2, extents(dst.buffer)).astype(dst.dtype.numpy)
    threads = {"thread": 1, "warp": 32, "cta": 128}[cell.scope]

    found, _ = run(cell.primitive, dst, src, data, cell.scope, threads, before)

    wanted = meant(cell.primitive, dst, src, data, before).astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-2 if cell.kind == "bfloat16" else 1e-6)


@pytest.mark.parametrize("cell", FEW, ids=str)
def test_a_cell_of_the_page_does_what_numpy_says(cell: Cell) -> None:
    agrees(cell)


@pytest.mark.long
@pytest.mark.parametrize("cell", [cell for cell in TWO_TILES if cell not in FEW], ids=str)
def test_every_cell_of_the_page_does_what_numpy_says(cell: Cell) -> None:
    agrees(cell)
