"""clusterlaunchcontrol: a cluster takes over the work of another one, which has not begun and then never will.

A request writes 16 bytes to shared memory, as the asynchronous units do, and completes 16 bytes at an m-barrier: which
cluster was taken, or that none was. A cluster is given away once, and runs where it was not. A request may fail though
clusters are left, since the GPU may start them meanwhile. With ``multicast`` all CTAs of the cluster get the answer.

What the 16 bytes are is the hardware's own: here a word that says whether a cluster was taken, then the three numbers
of its first CTA.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.try_cancel,
clusterlaunchcontrol.query_cancel".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tilewright.dtypes import BOOL, dtype
from tilewright.isa.arch import since, suffixed
from tilewright.isa.machine import Addresses, Lanes, Memory, Unit
from tilewright.isa.mbarrier_state import completed
from tilewright.isa.operations import access_of_unit, in_ctas
from tilewright.isa.table import Access, AsyncMeaning, Form, Issue, Meaning, Ptx, Signal, instruction, reads

NBYTES = 16
SOURCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.{}"'


def requested(unit: Unit, addr: Lanes, bar: Lanes, *, multicast: bool) -> Mapping[str, Addresses]:
    """Where the answer goes, and the m-barrier that counts it; in every CTA of the cluster where all get it."""
    if (wrong := addr.astype(np.int64) % NBYTES != 0).any():
        unit.fault(f"addr is a multiple of {NBYTES}, not {int(addr[wrong][0]):#x}", wrong)
    answer = unit.take_clusters().astype(np.uint32)  # (n, 4)
    octets = np.ascontiguousarray(answer).view(np.uint8).reshape(len(addr), 1, NBYTES)
    if not multicast:
        into, told = Addresses(addr[:, None]), Addresses(bar, nbytes=np.full(len(addr), NBYTES))
    else:
        everyone = np.full(len(addr), (1 << unit.cluster_ctas) - 1)
        into, told = in_ctas(unit, addr[:, None], everyone), in_ctas(unit, bar, everyone)
        assert told.issuer is not None
        told = Addresses(told.at, issuer=told.issuer, rank=told.rank, nbytes=np.full(len(told.issuer), NBYTES))
        octets = octets[told.issuer]
    return {"addr": into, "bar": told, "answer": Addresses(octets)}


def answered(answer: Lanes, **mods: object) -> Lanes:
    """The bytes that are written."""
    return answer


def _requests() -> Iterator[Form]:
    for multicast, archs in ((False, since("sm_100")), (True, suffixed(100, 103, 110, 120, 121))):
        cast = ".multicast::cluster::all" if multicast else ""
        yield Form(
            Ptx(
                f"clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{cast}.b128",
                {"multicast": {multicast: ""}},
            ),
            archs,
            SOURCE.format("try_cancel"),
            AsyncMeaning(answered, addresses=requested, takes=("answer",), passes=("multicast",)),
            effects=(
                access_of_unit("addr", "shared", write=True),
                Signal("bar", "bytes", "release", "cluster", completed),
                Issue(takes_over=True),
            ),
        )


def _words(shared: Memory, addr: Lanes) -> Lanes:
    """(..., 4) words of an answer for each lane."""
    octets = shared.rows(addr, nbytes=NBYTES)
    words: Lanes = np.ascontiguousarray(octets).view(np.uint32)
    return words


def is_canceled(shared: Memory, addr: Lanes) -> Lanes:
    """Was a cluster taken?"""
    return np.asarray(_words(shared, addr)[..., 0] != 0)


def first_cta(shared: Memory, addr: Lanes, *, dim: str) -> Lanes:
    """The number of the first CTA of the cluster along a dimension, undefined where none was taken."""
    return np.asarray(_words(shared, addr)[..., 1 + "xyz".index(dim)])


ANSWER = Access("addr", "shared", NBYTES, write=False)
QUERY = "{{{{ .reg .b128 answer; .reg .pred p; ld.shared.b128 answer, [{{addr}}]; {} }}}}"
FAMILY = "ptx.clusterlaunchcontrol"

instruction(
    f"{FAMILY}.try_cancel",
    keywords={"multicast": False},
    operands=(reads("addr", "shared"), reads("bar", "shared")),
    doc="A thread asks for a cluster that has not begun; the answer comes to 16 bytes at ``addr``, counted by ``bar``.",
    forms=tuple(_requests()),
)
instruction(
    f"{FAMILY}.query_cancel.is_canceled",
    operands=(reads("addr", "shared"),),
    doc="True where a cluster was taken, by the answer at ``addr``.",
    forms=(
        Form(
            Ptx(
                "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
                pattern=QUERY.format("{mnemonic} p, answer; selp.b32 {result}, 1, 0, p;"),
            ),
            since("sm_100"),
            SOURCE.format("query_cancel"),
            Meaning(is_canceled, on="shared"),
            effects=(ANSWER,),
            result=BOOL,
        ),
    ),
)
instruction(
    f"{FAMILY}.query_cancel.get_first_ctaid",
    keywords={"dim": "x"},
    operands=(reads("addr", "shared"),),
    doc="The number of the first CTA of the cluster that was taken, along x, y or z; undefined where none was.",
    forms=(
        Form(
            Ptx(
                "clusterlaunchcontrol.query_cancel.get_first_ctaid{dim}.b32.b128",
                {"dim": {dim: f"::{dim}" for dim in "xyz"}},
                pattern=QUERY.format("{mnemonic} {result}, answer;"),
            ),
            since("sm_100"),
            SOURCE.format("query_cancel"),
            Meaning(first_cta, on="shared", passes=("dim",)),
            effects=(ANSWER,),
            result=dtype("uint32"),
        ),
    ),
)
