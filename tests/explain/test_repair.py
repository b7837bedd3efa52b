"""Remedies mend kernels: a program applies them to seeded mistakes, and most of them come out clean and right."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
import pytest

import tilewright as tw
from tests.explain.seeded import PIPELINES, Seeded, harmful, of_model, reach
from tilewright.explain import (
    Finding,
    Remedy,
    at_once,
    between,
    insert,
    instruction,
    keyword,
    move,
    operand,
    other_parity,
)
from tools.repair import edited, mended

WANTED = 0.6  # of the seeded mistakes
SAMPLE = [*harmful()][5::97]
QUICK = (
    "ring, few bytes",
    "ring, no arrival",
    "storing, no proxy fence",
    "storing, written to the end",
    "product, stride",
)
KERNEL = """\
if warp == 0:
    T.ptx.mbarrier.init(bar.ptr_to([0]), 2)
    s[0] = 1
out[0] = s[0]
"""


FLIP = """\
__global__ void flip(float* y, const float* x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[63 - threadIdx.x];
}
"""


def without(number: int) -> Callable[[str], Sequence[Finding]]:
    """A judge that wants a barrier before a line, and names it."""

    def judge(text: str) -> Sequence[Finding]:
        right = text.splitlines()[number - 1] == "T.cuda.cta_sync()"
        ways = (between("T.cuda.cta_sync()", number - 1, number),)
        return () if right else (Finding("races", "a race", remedy=Remedy("barrier", "cta", ways=ways)),)

    return judge


def first(*way: object) -> str:
    return next(edited(KERNEL, way))  # type: ignore[arg-type]  # edits


def test_a_statement_is_inserted_as_deep_as_its_line() -> None:
    assert "    s[0] = 1\nT.cuda.cta_sync()\nout" in first(insert("T.cuda.cta_sync()", 3, 4))


def test_a_statement_that_moves_leaves_no_empty_block() -> None:
    changed = next(edited("if lane == 0:\n    a[0] = 1\nb[0] = 2\n", (move(2, 4, 4),)))

    assert changed == "if lane == 0:\n    pass\nb[0] = 2\na[0] = 1\n"


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (operand(2, "count", 3), "T.ptx.mbarrier.init(bar.ptr_to([0]), 3)"),
        (instruction(2, "ptx.mbarrier.arrive", 7), "T.ptx.mbarrier.arrive(bar.ptr_to([0]), 2, 7)"),
    ],
)
def test_an_instruction_changes_in_place(edit: object, line: str) -> None:
    assert line in first(edit)


def test_a_keyword_replaces_the_one_that_is_there() -> None:
    text = 'T.ptx.ld(p, sem="relaxed", scope="gpu")\n'

    assert next(edited(text, (keyword(1, "sem", "acquire"),))) == "T.ptx.ld(p, scope='gpu', sem='acquire')\n"


@pytest.mark.parametrize("line", ["x[i, 0] = x[i, 0] + y * 2", "x[i, 0] = y * 2 + x[i, 0]", "x[i, 0] += y * 2"])
def test_an_update_becomes_an_atomic(line: str) -> None:
    made = "if y:\n    T.cuda.atomic_add(x.ptr_to([i, 0]), y * 2)\n"

    assert next(edited(f"if y:\n    {line}\n", (at_once(2),))) == made
    assert not [*edited("x[0] = y[0] + 1\n", (at_once(1),))]


def test_a_wait_gets_the_other_parity() -> None:
    text = "T.ptx.mbarrier.try_wait(p, {})\n"

    assert next(edited(text.format("k % 2"), (other_parity(1),))) == text.format("1 - k % 2")
    assert next(edited(text.format(0), (other_parity(1),))) == text.format(1)


def test_a_remedy_is_applied_until_nothing_is_found() -> None:
    assert mended(KERNEL, without(4)) == KERNEL.replace("out", "T.cuda.cta_sync()\nout")


def test_what_no_remedy_mends_is_given_up() -> None:
    assert mended(KERNEL, lambda _: (Finding("races", "a race"),)) is None


def test_a_remedy_comes_back_from_json() -> None:
    remedy = Remedy("count", ways=((operand(2, "count", 3),), between("T.cuda.cta_sync()", 3, 4)))

    assert Remedy.from_dict(json.loads(json.dumps(asdict(remedy)))) == remedy


@pytest.mark.parametrize("seeded", [each for each in PIPELINES if each.name in QUICK], ids=lambda each: each.name)
def test_a_mistake_of_a_pipeline_is_mended(seeded: Seeded) -> None:
    assert mended(seeded.text, seeded.judge(), trials=10)


def test_a_cu_file_is_mended_in_its_own_words() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)

    def judge(text: str) -> Sequence[Finding]:
        verdict = tw.check(tw.load_cu(text)["flip"], y, x, block=64, both=False, explore=0)
        return verdict.findings

    found = mended(FLIP, judge, python=False)

    assert found == FLIP.replace("    y[", "    __syncthreads();\n    y[")


def test_most_of_a_sample_of_mutants_are_mended() -> None:
    assert reach("mutants", map(of_model, SAMPLE), trials=20) >= WANTED


@pytest.mark.long
def test_most_of_all_seeded_mistakes_are_mended() -> None:
    assert reach("all", [*PIPELINES, *map(of_model, harmful())]) >= WANTED
