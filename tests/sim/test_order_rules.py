"""Rules of order beyond the rows of `tests.model.litmus`, in the same notation where it says them: what reports name,
m-barriers and CTAs that begin and end, and lanes of masks.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.model.litmus import row
from tests.model.printing import Printer, simulated
from tests.sim.build import Lowered, at, cta, lane, tid, warp
from tilewright.errors import SimulationError
from tilewright.ir import Expr
from tilewright.isa import call


def said(*warps: str, ends: str = "met") -> str:
    """The report on warps of CTAs of their own; "" where there is none. ends: "at once", without a meeting."""
    made = row("", "", "", " || ".join(warps)).program
    text = Printer(made).text()
    return simulated(made, text.removesuffix("    T.cuda.cluster_sync()\n") if ends == "at once" else text)[1]


def met(*steps: str, ends: str = "met") -> str:
    """The same of what both CTAs of a cluster do; ``b@other`` is the m-barrier of the other one."""
    return said(*("; ".join(steps).replace("other", str(other)) for other in (1, 0)), ends=ends)


INIT, SYNC, RELAXED, TELL, SEEN = "init b=1", "carr; cwait", "carr.rlx; cwait", "arr.cluster b@other", "wait b=0"


def told(*meeting: str) -> str:
    """A CTA makes an m-barrier and waits, the other one arrives there."""
    return said("; ".join([INIT, *meeting, SEEN]), "; ".join([*meeting, "arr.cluster b@0"]))


MEETINGS = ((SYNC,), ("initf", RELAXED), ("initf", SYNC))


@pytest.mark.parametrize("meeting", MEETINGS)
def test_a_cluster_meets_between_mbarrier_init_and_the_arrivals_of_others(meeting: tuple[str, ...]) -> None:
    assert told(*meeting) == ""
    assert "may not have initialised" in told()
    assert "may not have initialised" in told(RELAXED)


@pytest.mark.parametrize("meeting", MEETINGS[:2])
def test_a_cluster_meets_between_mbarrier_init_and_arrivals_of_the_same_warp(meeting: tuple[str, ...]) -> None:
    assert met(INIT, *meeting, "1:arr b", SEEN) == ""
    assert "may not have been initialised" in met(INIT, RELAXED, "1:arr b", SEEN)
    assert "may not have been initialised" in met(INIT, "1:arr b", SEEN)


def test_a_cta_ends_after_all_that_others_do_in_its_memory() -> None:
    assert "may have ended" in met(INIT, SYNC, TELL, ends="at once")
    assert met(INIT, SYNC, TELL, SYNC, ends="at once") == ""
    assert met(INIT, SYNC, TELL, RELAXED, ends="at once") == ""


def test_at_the_barrier_of_a_cluster_arrivals_and_waits_take_turns() -> None:
    assert "arrives again before it has waited" in met("carr", "carr", "cwait")
    assert "waits and has not arrived" in met("cwait")


def test_an_m_barrier_is_made_once() -> None:
    assert "is initialised again" in met(INIT, INIT)


@pytest.mark.parametrize("cluster", [1, 2])
def test_a_scope_of_the_cluster_holds_no_other_cluster(cluster: int) -> None:
    k = Lowered(threads=32, grid=2, cluster=cluster)
    x, f = k.array("x", "int32", 1), k.array("f", "int32", 1)
    with k.when(tid == 0):
        with k.when(cta == 0):
            k.store(x, 0, 1)
            k.do("ptx.st", at(f), 1, sem="release", scope="cluster")
        with k.when(cta == 1):
            with k.repeat(call("ptx.ld", at(f), sem="acquire", scope="cluster") != 1):
                pass
            k.store(x, 0, 2)
    arrays = {name: np.zeros(1, np.int32) for name in ("x", "f")}

    if cluster == 2:
        assert not k.run("races", **arrays).warnings
        return
    with pytest.raises(SimulationError, match="race"):
        k.run("races", **arrays)


def test_a_vector_is_as_many_accesses_as_it_has_elements() -> None:
    wide = Lowered(threads=32, grid=2)
    x = wide.array("x", "uint64", 1)
    assert x.data is not None
    half = wide.view("half", "uint32", 2, x.data, "global")
    for number, buffer in enumerate((x, half)):
        with wide.when(cta == number), wide.when(tid == 0):
            wide.do("ptx.st", at(buffer), 1, sem="relaxed", scope="gpu")

    with pytest.raises(SimulationError, match="race"):
        wide.run("races", x=np.zeros(1, np.uint64))


def told_by(issuer: int, *, meeting: bool) -> str:
    """A thread issues a bulk copy that signals the m-barrier which thread 0 of its CTA has made."""
    k = Lowered(threads=64)
    x, s, bar = k.array("x", "int32", 4), k.shared("s", "int32", 4), k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar), 1)
        k.do("ptx.mbarrier.arrive.expect_tx", at(bar), 16)
    if meeting:
        k.do("cuda.cta_sync")
    with k.when(tid == issuer):
        k.do("ptx.cp_async.bulk.g2s_cta", at(s), at(x), 16, at(bar))
    with k.when(tid == 0):
        k.do("ptx.mbarrier.try_wait", at(bar), 0)
    try:
        k.run("races", x=np.zeros(4, np.int32))
    except SimulationError as error:
        return error.what
    return ""


def test_an_operation_tells_an_m_barrier_of_its_cta_after_a_meeting_with_who_made_it() -> None:
    assert told_by(0, meeting=False) == ""
    assert told_by(32, meeting=True) == ""
    assert "tells bar[0], which may not have been initialised" in told_by(32, meeting=False)


def test_a_count_is_that_of_all_who_arrive() -> None:
    k = Lowered(threads=64)
    bar = k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar), 32)
    k.do("cuda.cta_sync")
    k.do("ptx.mbarrier.arrive", at(bar))

    with pytest.raises(SimulationError, match="for its next phase, and nobody has seen the last one over"):
        k.run("races")


def test_warps_of_a_barrier_that_is_over_leave_it_before_others_come() -> None:
    k = Lowered(threads=64)
    k.do("ptx.bar.sync", warp + 1, 32)
    k.run("races")
    late = Lowered(threads=64)
    for number in range(2):
        with late.when(warp == number):
            late.do("ptx.bar.sync", 1, 32)

    with pytest.raises(SimulationError, match="used again by a warp that cannot know that its last meeting is over"):
        late.run("races")


@pytest.mark.parametrize(
    ("mask", "source", "what"),
    [
        (0xFFFFFFFF, 1, ""),
        (0xFFFF, 1, "lanes that execute it, and that its mask does not name"),
        (lane * 0 + (0xFFFF << (lane // 16 * 16)), 1, ""),
        (lane * 0 + (0xFFFF << (lane // 16 * 16)), 16, "lanes that read from one outside the mask"),
        (0xFFFFFFFF - (lane // 31), 1, "masks that differ between the lanes that they name"),
    ],
)
def test_a_shuffle_names_all_who_execute_it_and_reads_from_those(mask: Expr | int, source: int, what: str) -> None:
    k = Lowered()
    k.bind("v", call("cuda.shfl_xor_sync", mask, lane, source))
    if not what:
        k.run()
        return
    with pytest.raises(SimulationError, match=what):
        k.run()
