"""Of the runs that make a verdict one is told as it is; the others do no more than what is asked of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.commands import ran
from tilewright.sim.run.execution import Execution

FUSED = """
__global__ void fused(const float* a, const float* b, float* out) {
    __shared__ float s[64];
    if (threadIdx.x < 32) s[threadIdx.x * 2] = b[threadIdx.x * 2];
    __syncthreads();
    float x = a[threadIdx.x], y = s[threadIdx.x / 2 * 2], product = out[threadIdx.x];
    out[threadIdx.x] = 1e9f * (x * y + product);
}
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Execution]:
    """The runs that are made."""
    begun, run = list[Execution](), Execution.run

    def noted(self: Execution, *args: object) -> None:
        begun.append(self)
        run(self, *args)  # type: ignore[arg-type]  # as it is called

    monkeypatch.setattr(Execution, "run", noted)
    return begun


def test_a_build_whose_values_alone_are_wanted_runs_without_checks(runs: list[Execution]) -> None:
    random = np.random.default_rng(0)
    a, b = random.random(64, np.float32), np.repeat(random.random(32, np.float32), 2)

    verdict = tw.check(tw.load_cu(FUSED)["fused"], a, b, -a * b, grid=1, block=64)

    assert verdict.status == "clean", verdict
    assert [bool(run.program.checks) for run in runs] == [True, True, False]  # optimised, as written, without fusing


def test_passes_of_shared_memory_are_counted_where_they_are_told(runs: list[Execution]) -> None:
    a, b = (np.ones(64, np.float32) for _ in range(2))

    verdict = tw.check(tw.load_cu(FUSED)["fused"], a, b, np.zeros(64, np.float32), grid=1, block=64)

    assert verdict.bank_conflicts
    assert [run.counts_passes for run in runs][:2] == [True, False]
    assert not any(site.line.wavefronts for run in runs[1:] for site in run.program.sites)


REDUCED = """
__global__ void sums(const float* x, float* out, int cols) {
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[blockIdx.x * cols + i];
    for (int o = 16; o; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
void host(const float* x, float* out, int rows, int cols) { sums<<<rows, 32>>>(x, out, cols); }
"""


def test_a_run_with_sizes_that_are_no_multiples_looks_for_no_races(tmp_path: Path, runs: list[Execution]) -> None:
    (tmp_path / "k.cu").write_text(REDUCED)

    code, out, _ = ran("check", tmp_path / "k.cu")

    assert code == 0, out
    assert "races" in next(run.program.checks for run in runs if len(run.program.checks) > 1)
    beside = runs[-1].program.checks  # with cols = 61
    assert "races" not in beside
    assert {"divergence", "poison"} <= beside
