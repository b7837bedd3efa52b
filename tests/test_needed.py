"""Deleting a line: what follows is told, and a line that nothing follows from is redundant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.test_recording import TURNS, example, ring
from tests.view.test_look import racing
from tilewright import T
from tilewright.errors import SimulationError


@T.prim_func
def twice(a: T.handle):
    """The second barrier orders nothing that the first has not."""
    A = T.match_buffer(a, (64,), "float32")
    t = T.thread_id([64])
    shared = T.alloc_buffer((64,), "float32", scope="shared")
    shared[t] = A[t]
    T.cuda.cta_sync()
    T.cuda.cta_sync()  # once more
    A[t] = shared[63 - t]


@T.prim_func
def once(a: T.handle):
    A = T.match_buffer(a, (64,), "float32")
    t = T.thread_id([64])
    shared = T.alloc_buffer((64,), "float32", scope="shared")
    shared[t] = A[t]
    T.cuda.cta_sync()
    A[t] = shared[63 - t]
    T.cuda.cta_sync()  # nothing comes behind it


def test_of_two_barriers_in_a_row_each_one_is_redundant() -> None:
    rows = tw.needed(twice, np.zeros(64, np.float32))
    assert [one.needed for one in rows] == [False, False]
    assert rows[1].text == "T.cuda.cta_sync()  # once more"


def test_a_barrier_is_needed_for_the_race_that_it_prevents() -> None:
    first, last = tw.needed(once, np.zeros(64, np.float32))
    assert (first.needed, first.kind) == (True, "races")
    assert "race" in (first.finding or "")
    assert not last.needed
    assert "redundant" in str(last)


def test_every_line_of_a_ring_is_needed() -> None:
    a, b = np.ones((TURNS, 128), np.float32), np.zeros(128, np.float32)
    rows = tw.needed(ring, a, b)
    assert len(rows) == 5
    by_name = {one.instruction: one for one in rows}
    assert by_name["cuda.cta_sync"].needed
    assert by_name["ptx.fence.proxy_async"].kind in ("warning", "races")
    assert all(one.needed for one in rows if "try_wait" in one.instruction)
    assert (b == 0).all()  # the arguments are copied


def test_waits_for_groups_and_inlined_lines_are_tried() -> None:
    rows = tw.needed(example("matmul_ring").matmul, sizes={"m": 64, "n": 64, "k": 96})
    assert {one.instruction: one.needed for one in rows} == {"ptx.cp_async.wait_group": True, "cuda.cta_sync": True}


def test_a_kernel_that_is_wrong_with_all_its_lines_is_told_first() -> None:
    with pytest.raises(SimulationError, match="race"):
        tw.needed(racing, np.zeros(64, np.float32))


def test_a_kernel_of_ptx_is_tried_too(tmp_path: Any) -> None:
    text = """
    .version 8.0
    .target sm_80
    .address_size 64
    .visible .entry turn(.param .u64 p)
    {
      .reg .b32 %r<6>;
      .reg .b64 %rd<4>;
      .shared .align 4 .b8 s[256];
      ld.param.u64 %rd1, [p];
      mov.u32 %r1, %tid.x;
      mul.wide.u32 %rd2, %r1, 4;
      add.u64 %rd3, %rd1, %rd2;
      ld.global.u32 %r2, [%rd3];
      mov.u32 %r3, s;
      mad.lo.u32 %r4, %r1, 4, %r3;
      st.shared.u32 [%r4], %r2;
      bar.sync 0;
      sub.u32 %r5, 63, %r1;
      mad.lo.u32 %r4, %r5, 4, %r3;
      ld.shared.u32 %r2, [%r4];
      st.global.u32 [%rd3], %r2;
      ret;
    }
    """
    kernel = tw.load_ptx(text)["turn"]
    (row,) = tw.needed(kernel, np.arange(64, dtype=np.int32), grid=1, block=64)
    assert (row.needed, row.kind) == (True, "races")
