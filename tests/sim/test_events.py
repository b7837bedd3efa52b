"""What checks hear of an access: one frozen event with its threads, its bytes, its time and what it writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.sim import Program
from tilewright.sim.machine import AccessEvent, Events, Site

CTAS, WARPS = 2, 2


class Heard(Events):
    """Keeps the events of shared memory."""

    def __init__(self) -> None:
        self.events: list[AccessEvent] = []

    def watch(self, site: Site) -> Any:
        return self.events.append if site.place is not None and site.place.space == "shared" else None


@pytest.fixture
def heard() -> list[AccessEvent]:
    """Those of a kernel in which the upper half of each CTA reads what its lower half has stored."""

    @T.prim_func
    def kernel(b: T.Buffer((CTAS, 32), "uint32")):
        cta = T.cta_id([CTAS])
        tid = T.thread_id([32 * WARPS])
        tile = T.alloc_shared((32,), "uint32")
        if tid < 32:
            tile[tid] = T.uint32(tid + 7)
        T.cuda.cta_sync()
        if tid >= 32:
            b[cta, tid - 32] = tile[tid - 32]

    exe = tw.compile(kernel, "sm_90a")
    program, check = Program(exe.lowered, frozenset()), Heard()
    program.compiled.subscribe(check)
    program.run({"b_ptr": np.zeros((CTAS, 32), np.uint32)}, {})
    return check.events


def test_an_event_says_who_touches_which_bytes_and_what_they_write(heard: list[AccessEvent]) -> None:
    store, load = heard

    assert (store.site.write, load.site.write) == (True, False)
    assert [set(event.team.threads[1].tolist()) for event in (store, load)] == [{0}, {1}]
    rows, offsets = store.places
    first = int(offsets[0])
    assert rows.tolist() == [row for row in range(CTAS) for _ in range(32)]
    assert offsets.tolist() == [first + 4 * lane for _ in range(CTAS) for lane in range(32)]
    written = store.to_write(store.at, slice(0, CTAS, 1))
    assert written is not None
    assert np.broadcast_to(written, store.team.shape)[1, 0].tolist() == list(range(7, 39))
    assert load.to_write(load.at, slice(0, CTAS, 1)) is None


def test_each_access_has_its_time_and_nobody_changes_an_event(heard: list[AccessEvent]) -> None:
    store, load = heard

    assert 0 < store.time < load.time
    with pytest.raises(AttributeError):
        store.time = 0  # type: ignore[misc]  # that is what is tested
