"""Random programs in which threads and units share memory, with proxy fences here and there: the simulator says of each
what the oracle says.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.model.mutants import CLEAN, heard
from tests.model.oracle import explore
from tests.model.program import Program, program

SHARED, GLOBAL = ("fpa", "fpa", "fpag", "ws", "", ""), ("fpag", "fpag", "fpa", "ws", "", "")
LANES = ("1:", "", "")
TELLS = ("W.rel.gpu f", "F.gpu; W.rlx.gpu f", "add.rel.gpu f", "W.rlx.gpu f")
HEARS = ("R.acq.gpu f=1", "R.rlx.gpu f=1; F.gpu", "R.acq.gpu f=1")
SAID = {"": CLEAN, "P": "P", "R": "X"}


def joined(*ops: str) -> str:
    return "; ".join(filter(None, ops))


def fenced(random: Random, fences: tuple[str, ...]) -> str:
    fence = random.choice(fences)
    return random.choice(LANES) + fence if fence.startswith("fp") else fence


def shared_with_a_unit(seed: int) -> Program:
    """A thread touches a place, others may meet it or hear of that, and one has its unit touch the place."""
    random = Random(seed)
    is_global = random.random() < 0.6
    place, fences = ("x", GLOBAL) if is_global else ("s", SHARED)
    first = random.choice(LANES) + random.choice((f"W {place}", f"R {place}", f"W {place}", f"add.rlx.gpu {place}"))
    unit = random.choice((f"get {place} b", f"put {place} b", f"get {place} b")) + "; wait b=0"
    some = [fenced(random, fences) for _ in range(5)]
    meets = ("ws", "ws", "")
    shape = random.choice(("warp", "warps", "three", "ctas") if is_global else ("warp", "warps", "three"))
    if shape == "warp":
        warps = {"0.0": joined(first, some[0], random.choice(meets), some[1], random.choice(meets), unit)}
    elif shape == "warps":
        then = joined("bar 1/2", some[2], some[3], unit)
        warps = {"0.0": joined(first, some[0], random.choice(meets), some[1], "bar 1/2"), "0.1": then}
    elif shape == "three":
        between = joined("bar 1/2", some[1], some[2], random.choice(("bar 2/2", "bar 2/2")))
        warps = {"0.0": joined(first, some[0], "bar 1/2"), "0.1": between, "0.2": joined("bar 2/2", some[3], unit)}
    else:
        far = joined(random.choice(HEARS), some[2], random.choice(meets), some[3], unit)
        warps = {"0.0": joined(first, some[0], random.choice(meets), some[1], random.choice(TELLS)), "1.0": far}
    return program(f"shared with a unit {seed}", warps, b=1)


def check(seed: int) -> None:
    made = shared_with_a_unit(seed)
    found = explore(made, cut="R")

    assert found.is_complete
    assert heard(made) == SAID[found.kind], made


@pytest.mark.parametrize("seed", range(10))
def test_a_proxy_fence_counts_in_the_simulator_where_it_does_by_the_definitions(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 500))
def test_a_proxy_fence_counts_where_it_does_by_the_definitions_in_many_programs(seed: int) -> None:
    check(seed)
