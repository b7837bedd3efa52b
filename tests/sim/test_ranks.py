"""Several GPUs in one run: protocols that are right pass without a word, and each mistake in them is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilewright as tw
from tests.sim.rank_protocols import PROTOCOLS, RANKS, Steps, arguments

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
