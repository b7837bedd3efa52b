"""clusterlaunchcontrol: clusters take over the work of others, each of which is done once."""

# ruff: noqa: C901  # a kernel with a branch for each mistake, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.isa.assembling import every_form, translation_unit
from tests.sim.tmem_kernels import refusal
from tilewright import T, isa
from tilewright.cuda.nvrtc import assemble
from tilewright.errors import ToolError

TARGET = "sm_100a"
ROWS = [bound for bound in every_form() if bound.instruction.name.startswith("ptx.clusterlaunchcontrol")]


def stealing(ctas: int, cluster: int = 1, wrong: str = "") -> Any:
    """Each cluster counts its tile, then those that it takes: done[tile] += 1, and by[cta] counts tiles.

    wrong: "fence", "barrier" or "wait" is left out.
    """

    @T.prim_func
    def kernel(done: T.Buffer((ctas,), "int32"), by: T.Buffer((ctas,), "int32")):
        rank = T.cta_id_in_cluster([cluster])
        cta, tid = T.cta_id([ctas]), T.thread_id([64])
        answer, bar = T.alloc_shared((4,), "uint32", align=16), T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.cuda.cluster_sync()
        tile: T.int32 = cta
        turn: T.int32 = 0
        goes_on: T.int32 = 1
        while goes_on == 1:
            if tid == 0:
                done[tile] = done[tile] + 1
                by[cta] = by[cta] + 1
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 16)
            if cluster > 1:
                T.cuda.cluster_sync()  # every CTA of the cluster expects the bytes
            if tid == 0 and rank == 0:
                T.ptx.clusterlaunchcontrol.try_cancel(answer.ptr_to([0]), bar.ptr_to([0]), multicast=cluster > 1)
            if wrong != "wait":
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), turn % 2)
            turn = turn + 1
            if T.ptx.clusterlaunchcontrol.query_cancel.is_canceled(answer.ptr_to([0])):
                first = T.ptx.clusterlaunchcontrol.query_cancel.get_first_ctaid(answer.ptr_to([0]), dim="x")
                tile = T.cast(first, "int32") + rank
            else:
                goes_on = 0
            if wrong != "fence":
                T.ptx.fence.proxy_async("shared::cta")
            if wrong != "barrier":
                T.cuda.cluster_sync()

    return kernel


@pytest.mark.parametrize(("ctas", "cluster"), [(1, 1), (7, 1), (16, 1), (8, 2), (12, 4)])
def test_each_cluster_is_run_or_taken_once(ctas: int, cluster: int) -> None:
    done, by = np.zeros(ctas, np.int32), np.zeros(ctas, np.int32)

    run = tw.compile(stealing(ctas, cluster), TARGET).simulate(done, by, check="all")

    assert run.warnings == []
    assert done.tolist() == [1] * ctas
    assert by.sum() == ctas
    assert (by > 1).any() == (ctas > cluster)  # some are taken, where there are others


@pytest.mark.parametrize(("wrong", "said"), [("wait", "answer[0] is uninitialised"), ("barrier", "race: ")])
def test_an_answer_is_waited_for_and_read_before_the_next_request(wrong: str, said: str) -> None:
    done, by = np.zeros((2, 8), np.int32)

    assert said in refusal(stealing(8, 1, wrong), done, by).what


def test_without_a_proxy_fence_the_next_answer_may_come_too_early() -> None:
    done, by = np.zeros((2, 8), np.int32)

    warnings = tw.compile(stealing(8, 1, "fence"), TARGET).simulate(done, by, check="all").warnings

    assert any("without a proxy fence" in one for one in warnings)


@pytest.mark.parametrize("arch", ["sm_100", "sm_100a", "sm_103a", "sm_120a"])
def test_every_form_assembles_where_it_exists(arch: str) -> None:
    here = [bound for bound in ROWS if bound.form.arch.admits(isa.arch(arch))]

    assert assemble(translation_unit(here), arch).cubin
    for bound in ROWS:
        if bound not in here:
            with pytest.raises(ToolError):
                assemble(translation_unit([bound]), arch)
