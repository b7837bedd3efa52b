"""Products of a warpgroup: the report on each mistake names its cause, the right twins are silent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.sim.wgmma_kernels import MISTAKES, product
from tilewright.errors import SimulationError


def run(kernel: Any) -> tuple[list[str], bool]:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, (64, 128)).astype(np.float32) for _ in range(2))
    c: NDArray[np.float32] = np.zeros((64, 64), np.float32)
    warnings = tw.simulate(kernel, a.astype("bfloat16"), b.astype("bfloat16"), c, check="all").warnings
    return warnings, np.array_equal(c, a @ b.T)


@pytest.mark.parametrize("in_registers", [False, True])
def test_a_right_product_is_silent(in_registers: bool) -> None:
    assert run(product(in_registers=in_registers)) == ([], True)


@pytest.mark.parametrize(("mistake", "lacks_commit"), [("commit", True), ("wait", False)])
def test_a_missing_commit_is_not_told_as_a_missing_wait(mistake: str, lacks_commit: bool) -> None:
    with pytest.raises(SimulationError) as raised:
        run(product(mistake))

    assert str(raised.value.hint).startswith("T.ptx.wgmma.commit_group() after the wgmma.mma_async.ss") is lacks_commit
    assert "T.ptx.wgmma.wait_group(0)" in str(raised.value.hint)


def test_a_matrix_in_another_order_is_said_in_every_run() -> None:
    exe = tw.compile(product("stride"), target="sm_90a")
    said = []
    for _ in range(2):
        a, b = (np.ones((64, 128), "bfloat16") for _ in range(2))
        said.append(exe.simulate(a, b, np.zeros((64, 64), np.float32), check="all").warnings)

    assert said[0] == said[1] != []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_cause(mistake: str) -> None:
    what, keywords = MISTAKES[mistake]
    try:
        warnings, _ = run(product(mistake, **keywords))
    except SimulationError as error:
        warnings = [str(error)]

    assert any(what in warning for warning in warnings)


@pytest.mark.parametrize(
    "wrong", ["proxy fence", "proxy fence of one warp", "proxy fence of one warp after the barrier"]
)
def test_what_all_warps_have_copied_needs_a_proxy_fence_of_each(wrong: str) -> None:
    assert run(product(by_cp_async=True)) == ([], True)

    with pytest.raises(SimulationError, match="without a proxy fence"):
        run(product(wrong, by_cp_async=True))
