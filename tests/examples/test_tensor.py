"""The examples that use tensor memory: right bytes in every quarter, no word from any check, CUDA that assembles."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.examples.test_examples import module
from tilewright.errors import TilewrightWarning
from tilewright.lang import parse_script

SHAPES = {"tensor_copy": (32, 16), "block_scales": (128, 16)}


def compiled(name: str) -> tw.Executable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)  # columns that are rounded up
        return tw.compile(getattr(module(name), name), target="sm_100a")


@pytest.mark.parametrize("name", SHAPES)
def test_every_warp_finds_the_tile_in_its_lanes(name: str) -> None:
    a = np.random.default_rng(0).integers(0, 256, SHAPES[name], np.uint8)
    b = np.zeros((4, *SHAPES[name]), np.uint8)

    run = compiled(name).simulate(a, b, check="all")

    assert all(np.array_equal(quarter, a) for quarter in b)
    assert run.warnings == []


@pytest.mark.parametrize("name", SHAPES)
def test_the_scripts_of_both_stages_parse_back(name: str) -> None:
    made = compiled(name)

    assert parse_script(made.source("tile")) == made.kernel
    assert parse_script(made.source("lowered")) == made.lowered


def test_the_lowered_copy_is_a_descriptor_behind_the_tile_and_one_instruction() -> None:
    lines = [line.strip() for line in compiled("tensor_copy").source("lowered").splitlines()]

    encoded = lines.index("T.ptx.tcgen05.encode_matrix_descriptor(cp_desc.data, T.address_of(A_smem[0]), 16, 8, 0)")
    assert lines[encoded - 3].startswith("A_smem = T.alloc_buffer(")
    assert (
        "T.ptx.tcgen05.cp(tmem_addr[0], T.smem_desc_add_16B_offset(cp_desc[0], 0), "
        'shape="32x128b", cta_group=1, multicast="warpx4")'
    ) in lines


def test_sixteen_columns_become_32_in_alloc_and_dealloc_with_one_warning_at_the_line() -> None:
    with pytest.warns(TilewrightWarning, match="16 columns of tensor memory are rounded up to 32") as told:
        made = tw.compile(module("tensor_copy").tensor_copy, target="sm_100a")

    text = Path(told[0].filename).read_text(encoding="utf-8").splitlines()[told[0].lineno - 1]
    assert len(told) == 1
    assert text.strip() == "T.ptx.tcgen05.alloc(T.address_of(tmem_addr), n_cols=16, cta_group=1)"
    assert "T.ptx.tcgen05.alloc(T.address_of(tmem_addr[0]), 32, cta_group=1, requested=16)" in made.source("lowered")
    assert "T.ptx.tcgen05.dealloc(tmem_addr[0], 32, cta_group=1)" in made.source("lowered")
    assert "requested" not in made.source("cuda")


@pytest.mark.parametrize("name", SHAPES)
def test_the_cuda_has_the_instructions_and_assembles(name: str) -> None:
    made = compiled(name)

    assert '"tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;"' in made.source("cuda")
    assert made.cubin
