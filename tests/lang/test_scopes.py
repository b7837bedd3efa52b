"""Scope ids: names for where a thread stands."""

# ruff: noqa: F841, RUF059  the names of a kernel are read by its parser
from __future__ import annotations

import pytest

from tests.lang.kernels import body, statement, text
from tilewright.errors import KernelError
from tilewright.ir import ScopeId, Var
from tilewright.lang import T
from tilewright.lang.scopes import SCOPE_IDS


def test_every_scope_id_has_a_name_and_an_extent() -> None:
    @T.prim_func
    def k():
        T.device_entry()
        bx, by, bz = T.cta_id([4, 8, 2])
        wg = T.warpgroup_id([2])
        warp = T.warp_id([8])
        w = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        t = T.thread_id_in_wg([128])
        tid = T.thread_id([256])
        cluster = T.cluster_id([4])
        cx, cy = T.cta_id_in_cluster([2, 1])

    assert body(k) == text("""
        T.device_entry()
        bx, by, bz = T.cta_id([4, 8, 2])
        wg = T.warpgroup_id([2])
        warp = T.warp_id([8])
        w = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        t = T.thread_id_in_wg([128])
        tid = T.thread_id([256])
        cluster = T.cluster_id([4])
        cx, cy = T.cta_id_in_cluster([2, 1])
    """)


@pytest.mark.parametrize("row", SCOPE_IDS, ids=lambda row: row.name)
def test_an_extent_may_be_left_out(row) -> None:
    @T.prim_func
    def k():
        here = getattr(T, row.name)()

    assert k.body == (ScopeId(row.name, (Var("here"),), (None,)),)


def test_a_dropped_scope_id_gets_a_name_of_its_own() -> None:
    @T.prim_func
    def k():
        T.cta_id([1])
        T.lane_id([32])
        cta_id = T.warp_id([4])

    assert body(k) == "cta_id = T.cta_id([1])\nlane_id = T.lane_id([32])\ncta_id_1 = T.warp_id([4])"


def test_without_extents_the_targets_count() -> None:
    @T.prim_func
    def k():
        bx, by = T.cta_id()

    assert statement(k, 0, ScopeId).extents == (None, None)
    assert body(k) == "bx, by = T.cta_id([None, None])"


def test_several_ids_in_one_name_are_a_tuple() -> None:
    @T.prim_func
    def k(A: T.Buffer((8, 8), "float32")):
        place = T.cta_id([8, 8])
        A[place[0], place[1]] = 0

    assert body(k) == "place, cta_id = T.cta_id([8, 8])\nA[place, cta_id] = 0.0"


def test_ids_are_defined_where_an_expression_asks_for_them() -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32")):
        x = T.thread_id([64]) % 32
        A[T.thread_id()] = x

    assert body(k) == text("""
        thread_id = T.thread_id([64])
        x: T.int32 = thread_id % 32
        thread_id_1 = T.thread_id()
        A[thread_id_1] = T.cast(x, "float32")
    """)


def test_a_scope_id_under_another_name_is_a_scalar() -> None:
    @T.prim_func
    def k():
        tid = T.thread_id([32])
        x = tid
        x += 1

    assert body(k) == "tid = T.thread_id([32])\nx: T.int32 = tid\nx = x + 1"


def test_extents_may_be_expressions_and_a_preferred_cluster_is_kept() -> None:
    @T.prim_func
    def k(n: T.int32):
        bx = T.cta_id([(n + 63) // 64])
        c = T.cta_id_in_cluster([2], preferred=[4])

    assert body(k) == text("""
        bx = T.cta_id([(n + 63) // 64])
        c = T.cta_id_in_cluster([2])
        T.attr({"hint": "preferred_cluster=[4]"})
    """)


def test_hardware_has_its_own_extents() -> None:
    with pytest.raises(KernelError, match=r"T\.lane_id counts the lane of its warp") as raised:

        @T.prim_func
        def k():
            lane = T.lane_id([16])

    assert raised.value.allowed == "[32]"


def test_a_grid_has_up_to_three_axes() -> None:
    with pytest.raises(KernelError, match=r"T\.cta_id has too many extents"):

        @T.prim_func
        def k():
            T.cta_id([1, 2, 3, 4])


def test_statements_belong_in_a_kernel() -> None:
    with pytest.raises(KernelError, match=r"T\.lane_id belongs in a kernel"):
        T.lane_id([32])
