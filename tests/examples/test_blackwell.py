"""The examples for a Blackwell: right, without a word from any check, short, and CUDA that assembles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from examples import blackwell_attention, blackwell_grouped, blackwell_matvec, blackwell_pairs, blackwell_scaled
from examples.blackwell import parts
from tests.examples.compute import EXAMPLES

RUN = (blackwell_attention, blackwell_grouped, blackwell_matvec, blackwell_pairs, blackwell_scaled)
NVFP4, MXFP8 = blackwell_scaled.FORMATS["nvfp4"], blackwell_scaled.FORMATS["mxfp8"]


@pytest.mark.parametrize("example", RUN, ids=lambda example: example.__name__)
def test_an_example_is_right_and_no_check_speaks(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()

    said = capsys.readouterr().out.splitlines()
    assert said
    assert all(line.endswith("; 0 warnings") for line in said)


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize(
    ("kernel", "mnemonic"),
    [
        (blackwell_pairs.blackwell_pairs, "tcgen05.mma.cta_group::2.kind::f16"),
        (blackwell_attention.blackwell_attention, "tcgen05.mma.cta_group::1.kind::f16"),
        (blackwell_scaled.scaled(MXFP8, 128, 128, 128), "kind::mxf8f6f4.block_scale"),
        (blackwell_scaled.scaled(NVFP4, 128, 8, 128, 2), "kind::mxf4nvf4.block_scale.block16"),
    ],
)
def test_its_text_assembles(kernel: Any, mnemonic: str, target: str) -> None:
    assert mnemonic in tw.compile(kernel, target).source("ptx")


def test_examples_have_fewer_than_120_lines() -> None:
    for path in (
        *EXAMPLES.glob("blackwell_*.py"),
        *EXAMPLES.glob("blackwell/*.py"),
        EXAMPLES / "convolution.py",
    ):
        assert len(path.read_text("utf-8").splitlines()) < 120, path.name


def test_exponentials_by_polynomial_are_as_exact_as_their_place_needs() -> None:
    x = np.linspace(-20, 0, 4001, dtype=np.float32)
    f = x - np.floor(x)
    value = sum(c * f.astype(np.float64) ** k for k, c in enumerate(parts.POLYNOMIAL))

    assert np.abs(value * 2 ** np.floor(x) / 2 ** x.astype(np.float64) - 1).max() < 2e-4  # of bfloat16 it is 4e-3
