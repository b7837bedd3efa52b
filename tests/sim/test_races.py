"""The race check: a missing barrier hides while all warps run together; this finds it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tilewright.errors import SimulationError

BARRIERS = (1, 2, 3)


def staged(skip: int = 0, *, rounds: int = 2) -> Lowered:
    """Every round: write, barrier, read the neighbour's, barrier. ``skip`` leaves one out."""
    k = Lowered(threads=128, grid=3)
    out, s = k.array("out", "int32", 3 * 128), k.shared("s", "int32", 128)
    with k.loop("i", 0, rounds) as i:
        k.store(s, tid, tid + i)
        if skip != 1:
            k.do("cuda.cta_sync")
        k.store(out, cta * 128 + tid, get(s, (tid + 33) % 128))
        if skip != 2:
            k.do("cuda.cta_sync")
    return k


def test_barriers_between_writing_and_reading_are_enough() -> None:
    out = np.zeros(384, np.int32)

    run = staged().run(out=out)

    assert not run.warnings
    assert (out[:128] == (np.arange(128) + 33) % 128 + 1).all()


def test_reading_before_the_barrier_names_both_lines_and_what_is_missing() -> None:
    with pytest.raises(SimulationError, match="race: load reads s") as raised:
        staged(skip=1).run(out=np.zeros(384, np.int32))

    text = str(raised.value)
    assert "kernel.py:4: CTA (0, 0, 0), warp 0, lane 0" in text
    assert "written at kernel.py:3: CTA (0, 0, 0), warp 1, lane 1" in text
    assert "s[33]" in text
    assert "T.cuda.cta_sync() between line 3 and line 4" in text


@pytest.mark.parametrize(("last", "step"), [(31, "warp_sync"), (127, "cta_sync")])
def test_the_barrier_that_is_missing_is_wide_enough_for_all_that_race_at_the_lines(last: int, step: str) -> None:
    k = Lowered(threads=128, grid=1)
    out, s = k.array("out", "int32", 1), k.shared("s", "int32", 128)
    k.store(s, tid, tid)
    with k.when(tid == 0), k.loop("i", 1, last + 1) as i:  # first the other lanes of its warp, then those of others
        k.store(out, 0, get(s, i))

    with pytest.raises(SimulationError, match="race: load reads s") as raised:
        k.run(out=np.zeros(1, np.int32))

    assert "warp 0, lane 1" in str(raised.value.given)
    assert f"T.cuda.{step}()" in str(raised.value.hint)


def test_writing_again_before_everyone_has_read_is_a_race() -> None:
    with pytest.raises(SimulationError, match=r"race: store writes s.* which another thread has read"):
        staged(skip=2).run(out=np.zeros(384, np.int32))


def test_one_round_needs_no_second_barrier() -> None:
    staged(skip=2, rounds=1).run(out=np.zeros(384, np.int32))


def test_the_last_of_many_ctas_may_write_one_place_with_all_of_its_lanes() -> None:
    """The lanes write alike, what each CTA has of its own."""
    k = Lowered(threads=64, grid=3000)
    out = k.array("out", "int32", 1)
    x = k.bind("x", cta * 2)
    with k.when(cta == 2999):
        k.store(out, 0, x)
    array = np.zeros(1, np.int32)

    k.run(out=array)

    assert array[0] == 5998


@pytest.mark.parametrize("meets", [True, False])
def test_lanes_of_a_warp_are_ordered_by_warp_sync_only(meets: bool) -> None:
    k = Lowered(threads=32)
    out, s = k.array("out", "int32", 32), k.shared("s", "int32", 32)
    k.store(s, tid, tid)
    if meets:
        k.do("cuda.warp_sync")
    k.store(out, tid, get(s, 31 - tid))

    if meets:
        k.run(out=np.zeros(32, np.int32))
        return
    with pytest.raises(SimulationError, match="race") as raised:
        k.run(out=np.zeros(32, np.int32))
    assert "T.cuda.warp_sync() between line" in str(raised.value)


def test_a_shuffle_orders_no_memory() -> None:
    k = Lowered(threads=32)
    out, s = k.array("out", "int32", 32), k.shared("s", "int32", 32)
    k.store(s, tid, tid)
    k.do("cuda.shfl_xor_sync", 0xFFFFFFFF, lane, 1)
    k.store(out, tid, get(s, 31 - tid))

    with pytest.raises(SimulationError, match="race"):
        k.run(out=np.zeros(32, np.int32))


def test_a_thread_is_ordered_with_itself() -> None:
    k = Lowered(threads=64)
    s = k.shared("s", "int32", 64)
    k.store(s, tid, tid)
    k.store(s, tid, get(s, tid) + 1)

    k.run()


def test_a_matrix_load_reads_what_other_lanes_wrote() -> None:
    k = Lowered()
    s, r = k.shared("s", "float16", 256), k.local("r", "float16", 8)
    a = k.array("a", "float16", 256)
    k.do("cuda.copy_bytes", at(s, tid * 8), at(a, tid * 8), 16)
    k.do("ptx.ldmatrix", False, 4, ".b16", at(s, lane * 8), *(get(r, 2 * m) for m in range(4)))

    with pytest.raises(SimulationError, match=r"race: ptx\.ldmatrix reads s"):
        k.run(a=np.zeros(256, np.float16))


def producer_and_consumers(*, sync: bool) -> Lowered:
    """Warp 0 fills; warps 1 and 2 read behind named barrier 1; warp 3 does neither."""
    k = Lowered(threads=128)
    out, s = k.array("out", "int32", 64), k.shared("s", "int32", 64)
    with k.when(warp == 0):
        k.store(s, lane, lane)
        k.store(s, lane + 32, lane)
        k.do("ptx.bar.arrive", 1, 96)
    with k.when((warp - 1) * (warp - 2) == 0):
        if sync:
            k.do("ptx.bar.sync", 1, 96)
        k.store(out, (warp - 1) * 32 + lane, get(s, (warp - 1) * 32 + 31 - lane))
    return k


def test_a_named_barrier_orders_those_who_meet_there() -> None:
    out = np.zeros(64, np.int32)

    run = producer_and_consumers(sync=True).run(out=out)

    assert out.tolist() == [*range(31, -1, -1)] * 2
    assert not run.warnings


def test_without_the_named_barrier_it_is_a_race() -> None:
    with pytest.raises(SimulationError, match="race"):
        producer_and_consumers(sync=False).run(out=np.zeros(64, np.int32))


def test_several_readers_are_all_remembered() -> None:
    """Warps 0 and 1 read; warp 1 itself then writes: warp 0's read is not ordered before that."""
    k = Lowered(threads=64)
    s, r = k.shared("s", "int32", 1), k.local("r", "int32", 1)
    with k.when(tid == 0):
        k.store(s, 0, 5)
    k.do("cuda.cta_sync")
    k.store(r, 0, get(s, 0))
    with k.when(tid == 32):
        k.store(s, 0, 6)

    with pytest.raises(SimulationError, match=r"race: store writes s.*another thread has read"):
        k.run()


def test_lanes_that_store_different_values_to_one_place_race() -> None:
    k = Lowered()
    s = k.shared("s", "int32", 1)
    k.store(s, 0, tid)

    with pytest.raises(SimulationError, match="race: store writes s") as raised:
        k.run()
    assert str(raised.value.hint).startswith("different places for the lanes")  # no barrier comes between two lanes


def test_lanes_that_store_one_value_to_one_place_do_not() -> None:
    k = Lowered()
    s = k.shared("s", "int32", 1)
    k.store(s, 0, 3)

    assert not k.run().warnings


def test_ctas_that_store_equal_values_to_one_place_are_warned_of() -> None:
    k = Lowered(grid=4)
    out = k.array("out", "int32", 32)
    k.store(out, tid, tid)

    run = k.run(out=np.zeros(32, np.int32))

    assert len(run.warnings) == 1
    assert "with equal values; one of them is enough: if T.cta_id() == 0: ..." in run.warnings[0]


def test_equal_values_of_threads_of_several_ctas_say_which_thread_of_which_cta_is_enough() -> None:
    k = Lowered(grid=4)
    out = k.array("out", "int32", 1)
    k.store(out, 0, 7)

    (said,) = k.run(out=np.zeros(1, np.int32)).warnings

    assert "one of them is enough: if T.cta_id() == 0 and T.thread_id() == 0: ..." in said


def test_ctas_that_store_different_values_to_one_place_race() -> None:
    k = Lowered(grid=4)
    out = k.array("out", "int32", 32)
    k.store(out, tid, cta)

    with pytest.raises(SimulationError, match="race: store writes out") as raised:
        k.run(out=np.zeros(32, np.int32))

    assert "no barrier orders CTAs" in str(raised.value)


def test_a_cta_that_reads_what_another_wrote_races() -> None:
    k = Lowered(grid=2)
    a = k.array("a", "int32", 64)
    k.store(a, cta * 32 + tid, 1)
    k.bind("x", get(a, (1 - cta) * 32 + tid))

    with pytest.raises(SimulationError, match="race: load reads a"):
        k.run(a=np.zeros(64, np.int32))


@pytest.mark.parametrize("ctas", [4, 40])
def test_the_one_cta_that_races_is_named(ctas: int) -> None:
    k = Lowered(threads=32, grid=ctas)
    s, out = k.shared("s", "int32", 32), k.array("out", "int32", 32)
    k.store(s, tid, tid)
    with k.when(cta == ctas - 2):
        k.store(out, tid, get(s, (tid + 1) % 32))

    with pytest.raises(SimulationError, match="race: load reads s") as raised:
        k.run(out=np.zeros(32, np.int32))

    assert f"CTA ({ctas - 2}, 0, 0), warp 0, lane 0" in str(raised.value)
    assert f"written at kernel.py:2: CTA ({ctas - 2}, 0, 0), warp 0, lane 1" in str(raised.value)


def test_global_memory_inside_a_cta_is_ordered_by_its_barrier() -> None:
    k = Lowered(threads=64, grid=2)
    a, b = k.array("a", "int32", 128), k.array("b", "int32", 128)
    k.store(a, cta * 64 + tid, tid)
    k.do("cuda.cta_sync")
    k.store(b, cta * 64 + tid, get(a, cta * 64 + 63 - tid))
    out = np.zeros(128, np.int32)

    k.run(a=np.zeros(128, np.int32), b=out)

    assert out[:64].tolist() == list(range(63, -1, -1))


def test_atomics_do_not_race_among_themselves() -> None:
    k = Lowered(threads=64, grid=4)
    a = k.array("a", "int32", 1)
    k.do("cuda.atomic_add", at(a, 0), 1)
    total = np.zeros(1, np.int32)

    run = k.run(a=total)

    assert total[0] == 256
    assert not run.warnings


@pytest.mark.parametrize(("skip", "missing"), [(1, "line 2 and line 3"), (2, "line 4 and line 5"), (0, "")])
def test_a_barrier_is_missing_between_atomics_that_count_and_what_makes_or_reads_the_counter(
    skip: int, missing: str
) -> None:
    k = Lowered(threads=64)
    out, s = k.array("out", "int32", 64), k.shared("s", "int32", 64)
    k.store(s, tid, 0 * tid)
    if skip != 1:
        k.do("cuda.cta_sync")
    k.do("cuda.atomic_add", at(s, tid ^ 32), 1)
    if skip != 2:
        k.do("cuda.cta_sync")
    k.store(out, tid, get(s, tid))

    if skip == 0:
        assert not k.run(out=np.zeros(64, np.int32)).warnings
        return
    with pytest.raises(SimulationError, match="race") as raised:
        k.run(out=np.zeros(64, np.int32))
    assert raised.value.hint == f"T.cuda.cta_sync() between {missing}"


@pytest.mark.parametrize("ctas", [3, 40])
@pytest.mark.parametrize("fenced", ["both", "before", "after"])
def test_the_last_cta_may_read_all_results_between_fences_and_a_counter(fenced: str, ctas: int) -> None:
    from tilewright.isa import call

    k = Lowered(threads=32, grid=ctas)
    part, count, out = k.array("part", "int32", ctas), k.array("count", "int32", 1), k.array("out", "int32", 1)
    with k.when(tid == 0):
        k.store(part, cta, cta + 1)
        if fenced != "after":
            k.do("cuda.thread_fence")
        before = k.bind("before", call("cuda.atomic_add", at(count, 0), 1))
        with k.when(before == ctas - 1):
            if fenced != "before":
                k.do("cuda.thread_fence")
            k.store(out, 0, get(part, 0) + get(part, 1) + get(part, ctas - 1))
    arrays = {"part": np.zeros(ctas, np.int32), "count": np.zeros(1, np.int32), "out": np.zeros(1, np.int32)}

    if fenced == "both":
        k.run(**arrays)
        assert arrays["out"][0] == 3 + ctas
        return
    with pytest.raises(SimulationError, match="race: load reads part"):
        k.run(**arrays)


@pytest.mark.parametrize("name", ["ptx.bar.warp.sync", "cuda.warp_sync"])
@pytest.mark.parametrize(("mask", "reach", "said"), [(0xFFFF, 15, ""), (0xFFFF, 31, "race"), (0xFF, 15, "its mask")])
def test_a_meeting_by_mask_orders_the_lanes_that_it_names(name: str, mask: int, reach: int, said: str) -> None:
    k = Lowered()
    out, s = k.array("out", "int32", 32), k.shared("s", "int32", 32)
    k.store(s, lane, lane)
    with k.when(lane < 16):
        k.do(name, mask=mask)
        k.store(out, lane, get(s, reach - lane))
    arrays = {"out": np.zeros(32, np.int32)}

    if said:
        with pytest.raises(SimulationError, match=said):
            k.run(**arrays)
    else:
        k.run(**arrays)
        assert arrays["out"].tolist() == [*range(15, -1, -1), *[0] * 16]


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("orders", [True, False])
def test_an_atomic_does_not_hide_the_plain_store_that_its_thread_made_before(space: str, orders: bool) -> None:
    k = Lowered(threads=64)
    a = k.array("a", "int32", 32)
    to = k.shared("s", "int32", 32) if space == "shared" else a
    with k.when(warp == 0):
        k.store(to, lane, lane)
        k.do("ptx.red.add", at(to, lane), 1)
    if orders:
        k.do("cuda.cta_sync")
    with k.when(warp == 1):
        k.do("ptx.red.add", at(to, lane), 1)

    if orders:
        assert not k.run(a=np.zeros(32, np.int32)).warnings
        return
    with pytest.raises(SimulationError, match=r"race: ptx\.red\.add writes"):
        k.run(a=np.zeros(32, np.int32))


@pytest.mark.parametrize("meets", [True, False])
def test_one_lane_hands_on_what_its_warp_did_together_only_behind_a_meeting_of_its_lanes(meets: bool) -> None:
    k = Lowered(threads=64)
    out, s, bar = k.array("out", "uint32", 32), k.shared("s", "uint32", 32), k.shared("bar", "uint64", 1)
    word = k.local("word", "uint32", 1)
    k.store(word, 0, tid)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar), 1)
    k.do("cuda.cta_sync")
    with k.when(warp == 0):
        k.do("ptx.stmatrix", False, 1, ".b16", at(s, 4 * (lane % 8)), get(word, 0))
        if meets:
            k.do("cuda.warp_sync")
        with k.when(lane == 0):
            k.do("ptx.mbarrier.arrive", at(bar))
    with k.when(warp == 1):
        k.do("ptx.mbarrier.try_wait", at(bar), 0)
        k.store(out, lane, get(s, lane))
    found = np.zeros(32, np.uint32)

    if meets:
        assert not k.run(out=found).warnings
        assert found.tolist() == [*range(32)]
        return
    with pytest.raises(SimulationError, match="race: load reads s"):
        k.run(out=found)
