"""Completion of operations on tensor memory, and its order among threads.

Copies and products of a thread report to an m-barrier through a commit; loads and stores of a warp are waited for by
the warp. With the two fences, a barrier between threads orders operations on tensor memory, too.

Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model, tcgen05.commit, tcgen05.wait, tcgen05.fence".
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.mbarrier_state import arrived
from tilewright.isa.operations import in_ctas
from tilewright.isa.registers import constant
from tilewright.isa.table import (
    GIVEN,
    LEFT_OUT,
    WHOLE_WARP,
    AsyncMeaning,
    Commit,
    Form,
    ProxyFence,
    Ptx,
    Signal,
    Wait,
    counts,
    instruction,
    reads,
    single,
)
from tilewright.isa.tcgen05_alloc import CTA_GROUP, SOURCE, TMEM_ARCHS


def _everywhere(unit: Unit, ptr: Lanes, cta_mask: Lanes) -> Mapping[str, Addresses]:
    """The same place in each CTA of the cluster whose bit is set."""
    if (nowhere := cta_mask == 0).any():
        unit.fault("cta_mask has a bit for each CTA of the cluster that is told, and none is set", nowhere)
    return {"ptr": in_ctas(unit, ptr, cta_mask)}


instruction(
    "ptx.tcgen05.commit",
    keywords={"cta_group": 1, "cta_mask": None},
    operands=(reads("ptr", "shared"), counts("cta_mask", "b16")),
    agrees="cta_group",
    check=constant("cta_mask", lambda mask: 0 < mask < 1 << 16, "a bit for each CTA of the cluster: 1..0xffff"),
    doc="Arrives at an m-barrier once all copies and products that the thread issued before are complete.",
    forms=tuple(
        Form(
            Ptx(
                f"tcgen05.commit{{cta_group}}.mbarrier::arrive::one.shared::cluster{multicast}.b64",
                {"cta_group": CTA_GROUP, "cta_mask": presence},
                pattern=pattern,
            ),
            TMEM_ARCHS,
            SOURCE.format("tcgen05.commit"),
            AsyncMeaning(addresses=addresses),
            effects=(
                *read_and_written("ptr", "shared", 8, scope="cluster"),
                Signal("ptr", "arrive", "release", "cluster", arrived),
                Commit("tmem"),
            ),
        )
        for multicast, presence, addresses, pattern in (
            ("", LEFT_OUT, None, "[{ptr}]"),
            (".multicast::cluster", GIVEN, _everywhere, "[{ptr}], {cta_mask}"),
        )
    ),
)

for _name, _group, _doc in (
    ("ld", "tmem.load", "Waits until the warp's loads from tensor memory are in its registers."),
    ("st", "tmem.store", "Waits until the warp's stores to tensor memory are in its cells."),
):
    single(
        f"ptx.tcgen05.wait.{_name}",
        Ptx(f"tcgen05.wait::{_name}.sync.aligned"),
        TMEM_ARCHS,
        SOURCE.format("tcgen05.wait"),
        lanes=WHOLE_WARP,
        doc=_doc,
        effects=(Wait(_group),),
    )

for _name, _side, _doc in (
    (
        "before",
        "release",
        "What the thread did to tensor memory before comes before what others do after they meet it.",
    ),
    (
        "after",
        "acquire",
        "What the thread does to tensor memory from now on comes after what others did before it met them.",
    ),
):
    single(
        f"ptx.tcgen05.fence.{_name}_thread_sync",
        Ptx(f"tcgen05.fence::{_name}_thread_sync"),
        TMEM_ARCHS,
        SOURCE.format("tcgen05.fence"),
        doc=_doc,
        effects=(ProxyFence("tmem", side=_side),),
    )
