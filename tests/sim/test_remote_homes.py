"""An access of a thread to another CTA's shared memory stays in the buffer whose address was mapped there."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError
from tilewright.lang import parse_script

KERNEL = """
@T.prim_func
def k(B: T.Buffer((64,), "float32")):
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    tid = T.thread_id([32])
    before = T.alloc_shared((32,), "float32")
    s = T.alloc_shared((32,), "float32")
    t = T.alloc_shared((32,), "float32")
    before[tid] = 0.0
    s[tid] = 0.0
    t[tid] = 0.0
    T.cuda.cluster_sync()
    {there}
    if tid == 0:
        {access}
    T.cuda.cluster_sync()
    B[rank * 32 + tid] = before[tid] + s[tid] + t[tid]
"""
THERE = {
    "generic": "there = T.ptx.map_shared_rank(s.ptr_to([0]), {rank})",
    "of the window": "there = T.ptx.mapa(s.ptr_to([0]), {rank})",
}
ACCESSES = {
    "generic": {
        "a store": "T.ptx.st(there {at}, T.float32(3))",
        "an atomic": "T.evaluate(T.ptx.atom.add(there {at}, T.float32(3)))",
        "a load": "B[0] = T.reinterpret('float32', T.ptx.ld(there {at}, type='b32'))",
    },
    "of the window": {
        "a store": "T.ptx.st(there {at}, T.float32(3), space='shared::cluster')",
        "a load": "B[0] = T.reinterpret('float32', T.ptx.ld(there {at}, type='b32', space='shared::cluster'))",
    },
}
STEPS = {-4: "- 4", 0: "+ 0", 124: "+ 124", 128: "+ 128"}
CASES = [(kind, access) for kind, accesses in ACCESSES.items() for access in accesses]


def run(kind: str, access: str, rank: str, at: int) -> None:
    text = KERNEL.format(there=THERE[kind].format(rank=rank), access=ACCESSES[kind][access].format(at=STEPS[at]))
    tw.simulate(parse_script(text), np.zeros(64, "float32"), target="sm_90a", check="bounds,alignment")


@pytest.mark.parametrize("at", [-4, 128])
@pytest.mark.parametrize("rank", ["1 - rank", "rank"])
@pytest.mark.parametrize(("kind", "access"), CASES)
def test_an_access_of_another_cta_that_leaves_its_buffer_is_told(kind: str, access: str, rank: str, at: int) -> None:
    with pytest.raises(SimulationError, match=rf"outside of s(?s:.)*given: *(s\[|byte|element ){at // 4}"):
        run(kind, access, rank, at)


@pytest.mark.parametrize("at", [0, 124])
@pytest.mark.parametrize("rank", ["1 - rank", "rank"])
@pytest.mark.parametrize(("kind", "access"), CASES)
def test_an_access_of_another_cta_within_its_buffer_is_clean(kind: str, access: str, rank: str, at: int) -> None:
    run(kind, access, rank, at)
