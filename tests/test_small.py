"""The smallest launch that reaches what the given one reaches: fewer CTAs, smaller numbers, nothing that is lost."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tilewright as tw
from tilewright.cli.app import app
from tilewright.errors import ArgumentError
from tilewright.sim.codegen.compiled import Compiled
from tilewright.small import coverage_of

SUM = """
__global__ void k(const float* x, float* y, int n) {
    __shared__ float s[64];
    float a = 0;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) a += x[i];
    s[threadIdx.x] = a;
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 1; i < 64; i++) a += s[i];
    if (threadIdx.x == 0) y[blockIdx.x] = a;
    if (blockIdx.x == LAST) y[0] = 0;
    if (n == 7) y[0] = 7;
}
"""


def loaded(last: int = -1) -> tw.load.LoadedKernel:
    return tw.load_cu(SUM, defines={"LAST": last})["k"]


def arrays(n: int = 4096) -> tuple[np.ndarray, np.ndarray, int]:
    return np.ones(n, np.float32), np.zeros(64, np.float32), n


def test_two_ctas_are_as_good_as_sixteen_where_all_do_the_same() -> None:
    verdict = tw.check(loaded(), *arrays(), grid=16, block=64, small=True)

    assert verdict.coverage["chosen"] == {"grid": (2,)}
    assert verdict.coverage["given"] == {"grid": 16}
    assert 11 in verdict.coverage["lines_not_reached"]
    assert verdict


def test_a_branch_of_one_cta_keeps_that_cta() -> None:
    verdict = tw.check(loaded(5), *arrays(), grid=16, block=64, small=True, both=False)

    assert verdict.coverage["chosen"] == {"grid": (8,)}


def test_what_is_not_reached_has_its_line() -> None:
    kernel = loaded()

    seven = coverage_of((kernel, arrays(7), {"grid": 1, "block": 64}))
    eight = coverage_of((kernel, arrays(8), {"grid": 1, "block": 64}))

    assert 11 not in seven.as_data["lines_not_reached"]
    assert 11 in eight.as_data["lines_not_reached"]
    assert seven.blocks == eight.blocks


def test_launches_with_other_numbers_are_looked_at_with_what_the_first_was_compiled_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, begin = list[Compiled](), Compiled.__init__

    def noted(self: Compiled, *args: Any, **named: Any) -> None:
        made.append(self)
        begin(self, *args, **named)

    monkeypatch.setattr(Compiled, "__init__", noted)
    kernel, (x, y, _) = loaded(), arrays(64)

    seven, eight = (coverage_of((kernel, (x, y, n), {"grid": 1, "block": 64})) for n in (7, 8))
    coverage_of((kernel, (x, y, 8), {"grid": 2, "block": 64}))

    assert len(made) == 2
    assert (seven.ends["x"], eight.ends["x"]) == (7 * 4, 8 * 4)
    assert 11 in {*eight.as_data["lines_not_reached"]} - {*seven.as_data["lines_not_reached"]}


def test_kernels_of_ours_have_no_smaller_launch() -> None:
    with pytest.raises(ArgumentError, match="small=True is for kernels of load_cu"):
        tw.check(object(), small=True)


@pytest.mark.parametrize(("n", "chosen"), [(1 << 16, "n = 128"), (40008, "n = 80")])
def test_numbers_of_host_code_become_smaller(n: int, chosen: str, tmp_path: Path) -> None:
    file = tmp_path / "scale.cu"
    file.write_text(f"""
__global__ void scale(float* x, int n) {{ int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] *= 2; }}
int main() {{
    int n = {n};
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    scale<<<(n + 63) / 64, 64>>>(x, n);
}}
""")
    said = CliRunner().invoke(app, ["check", str(file), "--small", "--no-both"])

    assert said.exit_code == 0
    assert f"the smallest launch that does: {chosen} for n = {n}" in said.output


def test_a_kernel_that_was_looked_at_goes_with_its_module() -> None:
    kernel = loaded()
    coverage_of((kernel, [*arrays(64)], {"grid": 1, "block": 64}))
    gone = weakref.ref(kernel)

    del kernel
    gc.collect()
    assert gone() is None
