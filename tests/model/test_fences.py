"""Random programs in which fences, barriers and flags hand data on: the simulator says of each what the oracle says."""

from __future__ import annotations

from random import Random

import pytest

from tests.model.mutants import CLEAN, heard
from tests.model.oracle import explore
from tests.model.program import Program, program

FENCES = ("F.sc.gpu", "F.sc.gpu", "F.sc.sys", "F.sc.cta", "F.gpu", "ws", "", "")
TELLS = ("W.rlx.gpu {0}", "add.rlx.gpu {0}", "W.rel.gpu {0}", "W.rlx.cta {0}", "W.vol {0}")
HEARS = ("R.rlx.gpu {0}=1", "R.rlx.gpu {0}=1", "R.acq.gpu {0}=1", "R.vol {0}=1", "R.rlx.cta {0}=1")
LANES = ("1:", "", "")


def joined(*ops: str) -> str:
    return "; ".join(filter(None, ops))


def handed_on(seed: int) -> Program:
    """CTA 0 stores x and tells, the last one hears and reads x, one in between may hand on; each by one warp or two."""
    random = Random(seed)
    some = random.choice
    flags = ["f", "g"][: some((1, 1, 2))]
    ctas: list[tuple[list[str], list[str]]] = [(["W x"], [some(TELLS).format("f")])]
    if len(flags) == 2:
        ctas.append(([some(HEARS).format("f")], [some(TELLS).format("g")]))
    ctas.append(([some(HEARS).format(flags[-1])], ["R x"]))
    warps = {}
    for cta, (first, last) in enumerate(ctas):
        if random.random() < 0.7:
            warps[f"{cta}.0"] = joined(*first, some(FENCES), "bar 1/2", some(FENCES))
            warps[f"{cta}.1"] = joined(some(FENCES), "bar 1/2", some(FENCES), *last)
        else:
            warps[f"{cta}.0"] = joined(*first, some(FENCES), some(LANES) + last[0])
    return program(f"handed on {seed}", warps)


def check(seed: int) -> None:
    made = handed_on(seed)
    found = explore(made)

    assert found.is_complete
    assert (found.kind == "") == (heard(made) == CLEAN), made


@pytest.mark.parametrize("seed", range(8))
def test_what_fences_order_is_what_the_definitions_order(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 400))
def test_what_fences_order_is_what_the_definitions_order_in_many_programs(seed: int) -> None:
    check(seed)
