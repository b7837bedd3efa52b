"""Mistakes as they ship: each is told, by the builds that have it, and each fix is clean in both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.load.shipped import ALL_LANES, MISTAKES, MOST, SUM, Shipped, floats, reduced
from tilewright.explain import IDIOMS
from tilewright.load.cu_headers import wheel_folders
from tilewright.verdict import Verdict

BY_NAME = pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.name)


def verdict(case: Shipped, *, right: bool, **options: Any) -> Verdict:
    if "#include" in case.text and not wheel_folders():
        pytest.skip("NVIDIA's headers are not installed: pip install tilewright[cu]")
    module = tw.load_cu(case.version(right=right))
    return tw.check(module[case.kernel], *case.args(), **case.launch, **options)


@BY_NAME
def test_a_mistake_is_told_by_the_builds_that_have_it(case: Shipped) -> None:
    found = verdict(case, right=False)

    told = [each for each in found.findings if re.search(case.told, each.message)]
    assert not found
    assert {build for each in told for build in each.builds} == {*case.builds}


@BY_NAME
def test_a_fix_is_clean_in_both_builds(case: Shipped) -> None:
    found = verdict(case, right=True)

    assert (found.status, found.findings) == ("clean", ())
    assert found.builds == ("optimised", "unoptimised")


@pytest.mark.parametrize("step", [SUM, MOST], ids=["sum", "most"])
def test_a_value_that_depends_by_shuffles_on_what_was_read_is_an_idiom(step: str) -> None:
    kernel = tw.load_cu(reduced(step, ALL_LANES))["k"]

    silent = tw.check(kernel, *floats(64, 64)(), grid=1, block=64)
    strict = tw.check(kernel, *floats(64, 64)(), grid=1, block=64, strict="shuffled")

    assert (silent.status, silent.findings) == ("clean", ())
    assert [each.idiom for each in strict.findings] == ["shuffled"]


def test_a_sum_of_some_lanes_excuses_none_of_the_others() -> None:
    kernel = tw.load_cu(reduced(SUM, ALL_LANES).replace("int o = 16; o;", "int o = 16; o == 16;"))["k"]

    assert not tw.check(kernel, *floats(64, 64)(), grid=1, block=64)


def test_without_the_other_build_the_optimised_one_alone_is_judged() -> None:
    case = next(each for each in MISTAKES if each.builds == ("unoptimised",))

    found = verdict(case, right=False, both=False)

    assert (found.status, found.builds) == ("clean", ())


def test_values_that_differ_between_the_builds_are_told() -> None:
    text = """
    __global__ void k(int* out) { int big = out[0] + 1; out[0] = big > out[0] ? 1 : 2; }
    """
    found = tw.check(tw.load_cu(text)["k"], np.array([2**31 - 1], np.int32), grid=1, block=1)

    assert [each.kind for each in found.findings] == ["results"]
    assert "differ between the builds" in found.findings[0].message


def test_padding_that_is_copied_is_no_finding() -> None:
    text = """
    struct P { char tag; int number; };
    __global__ void k(P* out) { P p; p.tag = 1; p.number = threadIdx.x; out[threadIdx.x] = p; }
    """
    pairs = np.zeros(32, np.dtype([("tag", np.int8), ("number", np.int32)], align=True))

    tw.check(tw.load_cu(text)["k"], pairs, grid=1, block=32).assert_clean()


def test_every_idiom_has_its_place_on_the_page() -> None:
    page = (Path(tw.__file__).parents[1] / "docs" / "idioms.md").read_text(encoding="utf-8")

    assert [name for name in IDIOMS if f"| `{name}` |" not in page] == []


ANY = """
struct Any { __device__ bool operator()(bool a, bool b) const { return a || b; } };
template <typename Op> __global__ void k(const int* x, bool* y, Op op) {
    __shared__ bool part[32];
    bool v = x[threadIdx.x] > 0;
    for (int o = 16; o; o >>= 1) v = op(v, __shfl_down_sync(0xffffffff, v, o));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    v = part[threadIdx.x];
    v = op(v, __shfl_down_sync(0xffffffff, v, 1));
    if (threadIdx.x < SEEN) y[threadIdx.x] = v;
}
void run(const int* x, bool* y) { k<Any><<<1, 64>>>(x, y, Any()); }
"""


def any_of(seen: str) -> Verdict:
    kernel = tw.load_cu(ANY.replace("SEEN", seen))["k<Any>"]
    return tw.check(kernel, np.zeros(64, np.int32), np.zeros(32, np.bool_), {}, grid=1, block=64)


def test_lanes_that_branch_on_what_nobody_sees_may_do_so() -> None:
    """As those beyond the partial results of a reduction, where the compiler only chooses."""
    found = any_of("1")

    assert (found.status, found.findings) == ("clean", ())
    assert any("branches on a value that nobody has written" in what for what in found.not_covered)


def test_lanes_that_branch_on_what_nobody_has_written_and_store_the_result_are_told() -> None:
    found = any_of("2")

    assert not found
    assert {each.kind for each in found.findings} == {"poison"}
