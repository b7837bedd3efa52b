"""The .cu files of this folder: right ones are clean with the right result, each mistake is reported at its line."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.load.programs import FOLDER, PROGRAMS, Case
from tilewright.errors import SimulationError
from tilewright.load import LoadedKernel, load_cu
from tilewright.load.cu_headers import wheel_folders

BY_FILE = pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.file)


def loaded(case: Case, **defines: object) -> LoadedKernel:
    if case.headers and not wheel_folders():
        pytest.skip("NVIDIA's headers are not installed: pip install tilewright[cu]")
    module = load_cu(FOLDER / f"{case.file}.cu", case.target, defines=defines)
    for name, values in case.globals.items():
        module.globals[name][:] = values
    return module[case.kernel]


@BY_FILE
def test_a_right_program_is_clean_and_gives_the_right_result(case: Case) -> None:
    args = case.args()

    run = loaded(case).simulate(*args, grid=case.grid, block=case.block, shared_bytes=case.shared_bytes)

    expected = np.asarray(case.result(args))
    found = np.asarray(args[case.out]).reshape(expected.shape)
    assert np.array_equal(found, expected) if case.exact else np.allclose(found, expected, rtol=1e-4)
    assert run.output == case.output
    assert run.warnings == []


@BY_FILE
def test_a_seeded_mistake_is_told_at_its_line(case: Case) -> None:
    words, line = case.bug

    with pytest.raises(SimulationError) as raised:
        loaded(case, BUG=1).simulate(*case.args(), grid=case.grid, block=case.block, shared_bytes=case.shared_bytes)

    error = raised.value
    assert re.search(words, error.what)
    assert error.at is not None
    assert line in error.at.excerpt()[0]
