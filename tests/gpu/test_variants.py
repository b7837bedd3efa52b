"""Every dispatch variant over generated layouts, element types, scopes, regions and swizzles.

Each kernel runs on hardware and on the simulator, and NumPy says from the tables of the layouts what must come out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.gpu.copies import Call, made_copy, made_fill
from tests.gpu.hardware import Bench
from tests.tile.kernels import buffer
from tests.tile.oracle import placed
from tests.tile.strategies import KINDS, THREADS, regions, registers
from tests.tile.test_fill import memories
from tests.tile.test_ldstmatrix_bits_complete import fragments_of_bits
from tests.tile.test_ldstmatrix_complete import HALVES
from tilewright.dtypes import dtype
from tilewright.errors import DispatchError
from tilewright.ir import Region

pytestmark = pytest.mark.gpu

PARTS = 8  # of each generator: tests of their own, so that processes share them
EXAMPLES = 24  # of each part

Draw = Callable[[st.DataObject], tuple[Region, Region, str]]


def registers_and_memory(data: st.DataObject) -> tuple[Region, Region, str]:
    scope, kind = data.draw(st.sampled_from(list(THREADS))), data.draw(st.sampled_from(KINDS))
    layout, shape = data.draw(registers(scope))
    local = buffer("R", "local", shape, layout, kind).region()
    return local, data.draw(regions("A", data.draw(st.sampled_from(["shared", "global"])), shape, kind)), scope


def global_and_shared(data: st.DataObject) -> tuple[Region, Region, str]:
    scope, kind = data.draw(st.sampled_from(list(THREADS))), data.draw(st.sampled_from(KINDS))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 8, 16, 24]), min_size=1, max_size=3)))
    there, here = (data.draw(regions(name, space, shape, kind)) for name, space in (("G", "global"), ("A", "shared")))
    return there, here, scope


def matrices(data: st.DataObject) -> tuple[Region, Region, str]:
    scope, local, shared, shape = data.draw(HALVES)
    kind = data.draw(st.sampled_from(["float16", "bfloat16"]))
    return buffer("R", "local", shape, local, kind).region(), buffer("A", "shared", shape, shared, kind).region(), scope


def matrices_of_bits(data: st.DataObject) -> tuple[Region, Region, str]:
    kind = data.draw(st.sampled_from(["float32", "uint8", "float4_e2m1fn"]))
    scope, local, shared, shape = data.draw(fragments_of_bits(dtype(kind).bits))
    return buffer("R", "local", shape, local, kind).region(), buffer("A", "shared", shape, shared, kind).region(), scope


def one_memory(data: st.DataObject) -> tuple[Region, Region, str]:
    """Copies that only the fallback takes."""
    kind, scope = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(list(THREADS)))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 8]), min_size=1, max_size=3)))
    space = data.draw(st.sampled_from(["shared", "global"]))
    one, other = (data.draw(regions(name, space, shape, kind)) for name in "AB")
    return one, other, scope


GENERATORS: dict[str, Draw] = {
    made.__name__: made for made in (registers_and_memory, global_and_shared, matrices, matrices_of_bits, one_memory)
}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", GENERATORS)
def test_a_copy_moves_on_hardware_what_numpy_says(name: str, part: int, bench: Bench) -> None:
    @seed(part)
    @settings(max_examples=EXAMPLES, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        one, other, scope = GENERATORS[name](data)
        loads = data.draw(st.booleans())
        compare(*((one, other) if loads else (other, one)), scope, bench)

    run()


@pytest.mark.parametrize("part", range(PARTS))
def test_a_fill_stores_on_hardware_what_numpy_says(part: int, bench: Bench) -> None:
    @seed(part)
    @settings(max_examples=EXAMPLES, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        scope, kind = data.draw(st.sampled_from(list(THREADS))), data.draw(st.sampled_from(KINDS))
        layout, shape = data.draw(registers(scope))
        local = buffer("A", "local", shape, layout, kind).region()
        judge(made_fill(data.draw(st.one_of(st.just(local), memories(kind))), scope, THREADS[scope]), bench)

    run()


def compare(dst: Region, src: Region, scope: str, bench: Bench) -> None:
    try:
        made = made_copy(dst, src, scope, THREADS[scope])
    except DispatchError as refused:  # a store to several elements that share bytes
        if "share bytes" not in str(refused):
            raise
        return
    if not overlaps(dst):  # several elements at one place: whichever is stored last stays, and no rule says which
        judge(made, bench)


def judge(made: Call, bench: Bench) -> None:
    if any(one.dtype.bits < 8 and one.storage_size() % 2 for one in made.kernel.buffers):  # arrays have whole bytes
        return
    given_bytes = made.arrays(np.random.default_rng(0))

    found = bench.run(made.kernel, given_bytes)

    bench.tally[f"calls by {made.variant}"] += 1
    for array, expected in made.expected(given_bytes).items():
        ours = found[array][0].view(np.uint8)[: expected.size]
        assert np.array_equal(ours, expected), f"{array} is not what NumPy says"


def overlaps(dst: Region) -> bool:
    """Are two elements of the region kept in one place of a memory?"""
    slots = placed(dst)["m"]
    return dst.buffer.space != "local" and np.unique(slots).size < slots.size


def test_every_variant_of_the_target_is_drawn() -> None:
    """The variants that the generators above reach, counted on a few draws without running them."""
    taken = set()

    @seed(1)
    @settings(max_examples=60, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        dst, src, scope = GENERATORS[data.draw(st.sampled_from(list(GENERATORS)))](data)
        taken.add(made_copy(dst, src, scope, THREADS[scope]).variant)

    draw()

    assert taken >= {"ldstmatrix", "ldstmatrix_bits", "reg", "gmem_smem", "fallback"}
