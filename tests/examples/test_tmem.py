"""The examples that use tensor memory: right bytes in every quarter, no word from any check, CUDA that assembles."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.examples.compute import module
from tests.examples.test_examples import without
from tilewright.errors import SimulationError, TilewrightWarning
from tilewright.ir import Call, Evaluate, statements
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


# No step can be left out: the report of a run without it. The number distinguishes calls of one kind.

NEEDED = {
    ("alloc", 0): "tmem_addr[0] is uninitialised",
    ("init", 0): "[0] is uninitialised",
    ("cta_sync", 0): "race: load reads tmem_addr[0], which its warp has written",
    ("commit", 0): "T.ptx.tcgen05.commit(...) after the tcgen05.cp",
    ("try_wait", 0): "a wait for the phase (parity 0) of the m-barrier that the commit at",
    ("ld", 0): "is used while tcgen05.ld may not have filled it",
    ("cta_sync", 1): "tensor memory is given back that tcgen05.ld may still not have read",
    ("dealloc", 0): "the CTA ends with tensor memory that it has not given back",
}
A_WARNING = {
    ("proxy_async", 0): "reads A_smem, stored by warp 0 without a proxy fence",
    ("after_thread_sync", 1): "T.ptx.tcgen05.fence.after_thread_sync() after the wait or the barrier",
}
SPARED = {
    ("mbarrier_init", 0): "the proxy fence of all threads comes after it",
    ("before_thread_sync", 0): "nobody has used tensor memory yet",
    ("after_thread_sync", 0): "nobody has used tensor memory yet",
    ("before_thread_sync", 1): "dealloc keeps its order behind a barrier",
    ("after_thread_sync", 2): "dealloc keeps its order behind a barrier",
    ("relinquish_alloc_permit", 0): "no other CTA waits for tensor memory",
}


def steps(name: str) -> dict[tuple[str, int], Evaluate]:
    """The statements of an example that are calls, by the last word of their names and how often that came before."""
    found: dict[tuple[str, int], Evaluate] = {}
    for stmt in statements(getattr(module(name), name).body):
        if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call):
            word = stmt.value.op.rpartition(".")[2]
            found[word, sum(other == word for other, _ in found)] = stmt
    return found


def run_without(name: str, step: tuple[str, int]) -> list[str]:
    """The warnings of a run without a step; its bytes are right."""
    kernel = getattr(module(name), name)
    left_out = [stmt for stmt in statements(kernel.body) if str(stmt) == str(steps(name)[step])][step[1]]
    a = np.random.default_rng(0).integers(0, 256, SHAPES[name], np.uint8)
    b = np.zeros((4, *SHAPES[name]), np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)
        made = tw.compile(without(kernel, left_out), target="sm_100a")
    found = made.simulate(a, b, check="all").warnings
    assert all(np.array_equal(quarter, a) for quarter in b)
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_every_step_of_an_example_is_judged_below(name: str) -> None:
    assert steps(name).keys() == NEEDED.keys() | A_WARNING.keys() | SPARED.keys()


@pytest.mark.every(2)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("step", NEEDED)
def test_a_step_that_is_left_out_is_told(name: str, step: tuple[str, int]) -> None:
    with pytest.raises(SimulationError) as raised:
        run_without(name, step)

    assert NEEDED[step] in f"{raised.value.what}\n{raised.value.hint}"


@pytest.mark.every(2)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("step", [*A_WARNING, *SPARED])
def test_practice_gets_away_without_the_others(name: str, step: tuple[str, int]) -> None:
    found = run_without(name, step)

    assert len(found) == (step in A_WARNING)
    assert all(A_WARNING[step] in warning for warning in found)


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
