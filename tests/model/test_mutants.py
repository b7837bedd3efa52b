"""The loss of a needed step is found, and that of a needless one is not: mutants of small kernels, judged by an oracle.

`make test` asks the simulator about a tenth of them, `make test-long` about all.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.model.kernels import KERNELS
from tests.model.mutants import EVERY, UNDECIDED, Mutant, agrees, heard, judged, mutants, survivors, verdicts
from tests.model.oracle import Verdict, explore
from tests.model.program import Program

AGENTS = 4
SAMPLE = EVERY[3::10]


def named(mutant: Mutant) -> str:
    return mutant.program.name


@cache
def walked(name: str) -> Verdict:
    return explore(next(kernel for kernel in KERNELS if kernel.name == name))


def verdict(mutant: Mutant) -> str:
    """The letter in the repository."""
    position = [one.what for one in mutants(mutant.kernel)].index(mutant.what)
    return verdicts()[mutant.kernel.name][position]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_is_right_and_tiny(kernel: Program) -> None:
    found = walked(kernel.name)

    assert not found.kinds
    assert found.is_complete
    assert sum(len(kernel.lanes(warp)) for warp in kernel.warps) <= AGENTS
    assert heard(kernel) == "."


def test_there_is_a_verdict_for_each_of_many_mutants() -> None:
    assert {name: len(letters) for name, letters in verdicts().items()} == {
        kernel.name: len(mutants(kernel)) for kernel in KERNELS
    }
    assert len(KERNELS) >= 25
    assert len(EVERY) >= 500
    assert "".join(verdicts().values()).count(UNDECIDED) <= len(EVERY) // 20


@pytest.mark.parametrize("mutant", SAMPLE, ids=named)
def test_a_verdict_is_what_the_oracle_says(mutant: Mutant) -> None:
    assert judged(mutant, walked(mutant.kernel.name)) == verdict(mutant)


def check(mutant: Mutant) -> None:
    """Is a mutant reported exactly if it does harm? Survivors, and no others, are listed."""
    assert agrees(verdict(mutant), heard(mutant.program)) == (mutant.program.name not in survivors())


@pytest.mark.parametrize("mutant", SAMPLE, ids=named)
def test_the_simulator_finds_what_a_mutant_lacks(mutant: Mutant) -> None:
    check(mutant)


@pytest.mark.long
@pytest.mark.parametrize("mutant", EVERY, ids=named)
def test_the_simulator_finds_what_each_mutant_lacks(mutant: Mutant) -> None:
    check(mutant)


def test_survivors_are_mutants() -> None:
    assert set(survivors()) <= {mutant.program.name for mutant in EVERY}
