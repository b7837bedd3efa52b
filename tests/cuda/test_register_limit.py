"""The registers of a thread, limited by the kernel."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import TargetError
from tilewright.ir import Kernel


def limited(**more: int) -> Kernel:
    @T.prim_func
    def kernel(A: T.Buffer((64,), "int32")):
        T.func_attr({"max_registers": 64, **more})
        T.cta_id([1])
        tid = T.thread_id([64])
        A[tid] = tid

    return kernel


def test_a_limit_of_registers_stands_in_the_text_and_assembles() -> None:
    made, a = tw.compile(limited(), "sm_90a"), np.zeros(64, np.int32)

    assert "__maxnreg__(64)" in made.source("cuda")
    assert "__launch_bounds__" not in made.source("cuda")
    assert ".maxnreg 64" in made.source("ptx")
    made.simulate(a, check="all")
    assert a.tolist() == list(range(64))


def test_registers_are_limited_in_one_way() -> None:
    with pytest.raises(TargetError, match="limits its registers twice"):
        tw.compile(limited(min_blocks=2), "sm_90a").source("cuda")


def test_clusters_of_16_run_and_assemble() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((16,), "int32")):
        T.func_attr({"non_portable_cluster": True})
        rank = T.cta_id_in_cluster([16])
        T.cta_id([16])
        tid = T.thread_id([32])
        T.cuda.cluster_sync()
        if tid == 0:
            A[rank] = rank

    made, a = tw.compile(kernel, "sm_100a"), np.zeros(16, np.int32)
    assert made.simulate(a, check="all").warnings == []
    assert a.tolist() == list(range(16))
    assert made.source("ptx")
