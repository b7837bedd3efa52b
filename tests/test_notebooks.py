"""What values that users print show: one line, and a page in a notebook."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.lang import T

PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"


@T.prim_func
def k(A: T.Buffer((32,), "float32")):
    t = T.thread_id([32])
    A[t] = A[t] + 1.0


def shown() -> list[object]:
    exe = tw.compile(k, target="sm_90")
    tuned = tw.autotune(lambda n: k, configs=[{"n": 1}, {"n": 2}])
    tuned.trials(np.zeros(32, "f4"), on="sim")
    return [tw.check(k), exe.advise(), exe.profile(), tuned, tw.load_ptx(PTX)]


@pytest.mark.parametrize(
    ("number", "word", "row"),
    [(0, "Verdict", "clean"), (1, "Advice", "no conflicts"), (2, "Profile", "HBM"), (3, "Tuned", "n=2"),
     (4, "LoadedModule", "k")],
)  # fmt: skip
def test_a_value_is_one_line_and_has_a_page_for_notebooks(number: int, word: str, row: str) -> None:
    value = shown()[number]

    assert repr(value).startswith(f"<{word}")
    assert "\n" not in repr(value)
    assert len(repr(value)) < 160
    assert row in value._repr_html_()  # type: ignore[attr-defined]
