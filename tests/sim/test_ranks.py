"""Several GPUs in one run: protocols that are right pass without a word, and each mistake in them is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.sim.rank_protocols import PROTOCOLS, RANKS, Steps, arguments
from tilewright import T
from tilewright.sim.machine.places import Place

RIGHT = Steps()
GPU_TELL, GPU_HEAR = replace(RIGHT, tell=("release", "gpu")), replace(RIGHT, hear=("acquire", "gpu"))
WEAK_TELL, WEAK_HEAR = replace(RIGHT, tell=("relaxed", "sys")), replace(RIGHT, hear=("relaxed", "sys"))
FENCED = replace(RIGHT, tell=("relaxed", "sys"), hear=("relaxed", "sys"), fence="system")


def but(**more: object) -> Steps:
    """The right steps, with others of a protocol's own."""
    return replace(RIGHT, more=more)


def run(name: str, steps: Steps = RIGHT) -> tw.sim.Run:
    kernel = PROTOCOLS[name](steps)
    return tw.simulate(kernel, *arguments(kernel), ranks=RANKS)


ALSO_RIGHT = {
    "one_shot": (FENCED, replace(RIGHT, tell=("release", "sys"), hear=("relaxed", "sys"), fence="system")),
    "all_gather": (FENCED,),
    "signal_pads": (but(put=("acq_rel", "sys"), take=("acq_rel", "sys")),),
    "counter": (but(count="red"),),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_right_protocol_passes_without_a_word(name):
    assert not run(name).warnings
    for steps in ALSO_RIGHT.get(name, ()):
        assert not run(name, steps).warnings


KINDS = {"stuck": ("deadlock", "livelock")}
MISTAKES = [
    # a scope that holds one GPU, at either end
    ("one_shot", GPU_TELL, "races"),
    ("one_shot", GPU_HEAR, "races"),
    ("two_shot", GPU_TELL, "races"),
    ("all_gather", GPU_HEAR, "races"),
    ("all_to_all", GPU_TELL, "races"),
    ("ring", GPU_HEAR, "races"),
    ("bulk_to_peer", GPU_TELL, "races"),
    ("queue", but(credit=("release", "gpu")), "races"),
    ("packets", replace(RIGHT, tell=("relaxed", "gpu")), "races"),
    ("counter", but(scope="gpu"), "races"),
    ("counter", but(count="mixed"), "races"),
    ("signal_pads", but(put=("release", "gpu")), "races"),
    ("signal_pads", but(take=("acquire", "gpu")), "races"),
    ("one_shot", replace(FENCED, fence="device"), "races"),
    # an order that is missing
    ("one_shot", WEAK_TELL, "races"),
    ("one_shot", WEAK_HEAR, "races"),
    ("reduce_scatter", WEAK_TELL, "races"),
    ("ring", WEAK_TELL, "races"),
    ("queue", WEAK_HEAR, "races"),
    ("queue", but(credit=("relaxed", "sys")), "races"),
    ("signal_pads", but(put=("relaxed", "sys")), "races"),
    # threads that the signal, or the wait, does not speak for
    ("one_shot", replace(RIGHT, before=False), "races"),
    ("one_shot", replace(RIGHT, after=False), "races"),
    ("all_to_all", replace(RIGHT, before=False), "races"),
    ("counter", replace(RIGHT, after=False), "races"),
    ("elected", replace(RIGHT, before=False), "races"),
    ("elected", replace(RIGHT, after=False), "races"),
    # data outside of what the signal says
    ("all_gather", replace(RIGHT, late=True), "races"),
    ("all_gather", replace(RIGHT, early=True), "races"),
    ("packets", but(split=True), "races"),
    # places that are used again, or by two
    ("one_shot", but(end=False), "races"),
    ("two_shot", but(second=False), "races"),
    ("ring", but(acknowledges=False), "races"),
    ("queue", but(waits=False), "races"),
    ("reduce_scatter", but(apart=False), "races"),
    ("one_shot", but(reuses=True), "races"),
    # units
    ("bulk_to_peer", but(read=True), "races"),
    ("bulk_to_peer", but(proxy=False), "races"),
    ("bulk_from_peer", but(proxy=False), "warning"),
    # the switch
    ("multimem", but(scope="gpu"), "races"),
    ("multimem", WEAK_TELL, "races"),
    ("multimem", but(alone=True), "simulation"),
    ("multimem", but(plainly=True), "simulation"),
    # signals that never come
    ("one_shot", replace(RIGHT, leaves=1), "stuck"),
    ("two_shot", replace(RIGHT, leaves=2), "stuck"),
    ("signal_pads", replace(RIGHT, leaves=0), "stuck"),
    ("signal_pads", but(takes=False), "stuck"),
    ("counter", but(count="st"), "stuck"),
    # places that are not there
    ("all_gather", but(room=False), "bounds"),
]


@pytest.mark.parametrize(("name", "steps", "kind"), MISTAKES)
def test_a_mistake_is_told_with_its_ranks(name, steps, kind):
    if kind == "warning":
        assert run(name, steps).warnings
        return
    with pytest.raises(tw.TilewrightError, match=r" of rank |address") as caught:
        run(name, steps)
    found = [one for one in caught.value.findings if one.kind in KINDS.get(kind, (kind,))]
    assert found, str(caught.value)
    assert kind == "simulation" or found[0].threads[0].rank is not None


FENCES = {  # of the writer and of the reader, which GPU that is of, and are the two in order?
    "of the GPU": ("gpu", "gpu", 0, True),
    "of the GPU, then of the system": ("gpu", "sys", 0, True),
    "of the system, then of the GPU": ("sys", "gpu", 0, True),
    "of the system, between two GPUs": ("sys", "sys", 1, True),
    "of the GPU, before another one's": ("gpu", "sys", 1, False),
    "of the GPU, after another one's": ("sys", "gpu", 1, False),
    "of the CTA, before": ("cta", "gpu", 0, False),
    "of the CTA, after": ("gpu", "cta", 0, False),
}


@pytest.mark.parametrize(("before", "after", "reader", "is_right"), FENCES.values(), ids=FENCES)
def test_a_full_fence_orders_what_its_scope_holds_behind_a_flag_that_others_told_and_heard(
    before, after, reader, is_right
):

    @T.prim_func
    def handed_on(
        x: T.SymmetricBuffer((4,), "uint32", ranks=2),
        f: T.SymmetricBuffer((4,), "uint32", ranks=2),
        out: T.SymmetricBuffer((4,), "uint32", ranks=2),
    ):
        cta, warp, lane, rank = T.cta_id([2]), T.warp_id([2]), T.lane_id([32]), T.rank_id([2])
        if (cta == 0) & (rank == 0):
            if (warp == 0) & (lane == 0):
                x.peer(reader)[0] = 1
                T.ptx.fence("sc", before)
            T.ptx.bar.sync(1, 64)
            if (warp == 1) & (lane == 0):
                T.ptx.st(f.peer(reader).ptr_to([0]), T.uint32(1), sem="relaxed", scope="sys")
        if (cta == 1) & (rank == reader):
            if (warp == 0) & (lane == 0):
                while T.ptx.ld(f.ptr_to([0]), sem="relaxed", scope="sys") == T.uint32(0):
                    pass
            T.ptx.bar.sync(1, 64)
            if (warp == 1) & (lane == 0):
                T.ptx.fence("sc", after)
                out[0] = x[0]

    arrays = [[np.zeros(4, np.uint32) for _ in range(2)] for _ in range(3)]
    if is_right:
        assert not tw.simulate(handed_on, *arrays, ranks=2).warnings
        return
    with pytest.raises(tw.TilewrightError, match="race: load reads x"):
        tw.simulate(handed_on, *arrays, ranks=2)


def test_a_part_of_an_array_of_several_gpus_ends_with_its_last_byte() -> None:
    part = Place("a", "global", 1, nbytes=8, pitch=16)
    first_bytes = np.array([0, 4, 5, 8, 16, 20, 21])

    outside = part.outside(first_bytes, 4, np.zeros(7, np.int64))

    assert outside.tolist() == [False, False, True, True, False, False, True]
