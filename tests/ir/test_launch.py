"""Geometry from scope ids: any subset that determines the rest, and no two that disagree."""

from __future__ import annotations

import pytest

from tilewright.errors import KernelError, Span
from tilewright.ir import Attr, Kernel, ScopeId, Var, special
from tilewright.ir.launch import launch_of, scope_id_exprs

N = Var("n")
AT = Span("k.py", 3)


def ids(*kinds: tuple[object, ...], attrs: tuple[tuple[str, int], ...] = ()) -> Kernel:
    """A kernel with these scope ids: (kind, extents...)."""
    body = tuple(
        ScopeId(str(kind), tuple(Var(f"{kind}_{i}_{at}") for at, _ in enumerate(extents)), extents, at=AT)  # type: ignore[arg-type]
        for i, (kind, *extents_) in enumerate(kinds)
        for extents in [tuple(extents_)]
    )
    return Kernel("k", (), (), (*body, Attr(attrs)) if attrs else body)


@pytest.mark.parametrize(
    ("kinds", "threads"),
    [
        ([("thread_id", 96)], 96),
        ([("warp_id", 3)], 96),
        ([("warpgroup_id", 2)], 256),
        ([("lane_id", 32)], 32),
        ([("lane_id", None)], 32),
        ([("warp_id_in_wg", 4), ("lane_id", 32)], 128),
        ([("thread_id_in_wg", 128)], 128),
        ([("warp_id", None), ("lane_id", 32), ("thread_id", 64)], 64),
        ([("thread_id", None), ("warpgroup_id", 1), ("thread_id_in_wg", 128)], 128),
        ([("thread_id", 48), ("lane_id", 32)], 48),
        ([("cta_id", 4)], 1),
    ],
)
def test_threads_follow_from_any_scope_id_that_determines_them(kinds: list[tuple[object, ...]], threads: int) -> None:
    assert launch_of(ids(*kinds)).threads == threads


@pytest.mark.parametrize(
    ("kinds", "grid", "cluster"),
    [
        ([], (1, 1, 1), (1, 1, 1)),
        ([("cta_id", 4)], (4, 1, 1), (1, 1, 1)),
        ([("cta_id", 4, N, 2)], (4, N, 2), (1, 1, 1)),
        ([("cluster_id", 3), ("cta_id_in_cluster", 2)], (6, 1, 1), (2, 1, 1)),
        ([("cta_id", None), ("cluster_id", 3), ("cta_id_in_cluster", 2)], (6, 1, 1), (2, 1, 1)),
        ([("cta_id", 8, 4), ("cta_id_in_cluster", 2, 2)], (8, 4, 1), (2, 2, 1)),
        ([("cta_id", 8), ("cluster_id", 4)], (8, 1, 1), (2, 1, 1)),
        ([("cta_id_in_cluster", 2)], (2, 1, 1), (2, 1, 1)),
    ],
)
def test_the_grid_counts_ctas_and_the_first_extent_is_x(
    kinds: list[tuple[object, ...]], grid: object, cluster: object
) -> None:
    launch = launch_of(ids(*kinds))

    assert (launch.grid, launch.cluster) == (grid, cluster)


@pytest.mark.parametrize(
    ("kinds", "part"),
    [
        ([("thread_id", 96), ("warp_id", 4)], "T.warp_id([4])"),
        ([("thread_id", 64), ("warpgroup_id", 1)], "T.warpgroup_id([1])"),
        ([("lane_id", 16)], "T.lane_id has 32 values"),
        ([("warp_id_in_wg", 2), ("thread_id_in_wg", 128)], "T.thread_id_in_wg has 64 values"),
        ([("warp_id_in_wg", 2), ("warp_id_in_wg", 4)], "4 warps of a warpgroup"),
        ([("warp_id_in_wg", 2), ("thread_id", 32)], "groups of 64 threads"),
        ([("thread_id", 16), ("lane_id", 32)], "groups of 32 threads"),
        ([("thread_id", 64), ("warp_id_in_wg", 4)], "groups of 128 threads"),
        ([("thread_id", 2048)], "a CTA of 2048 threads"),
        ([("thread_id", N)], "must be a constant"),
        ([("thread_id", None)], "does not follow"),
        ([("cta_id", None)], "does not follow"),
        ([("cta_id", 4), ("cta_id", 8)], "T.cta_id([8])"),
        ([("cta_id", 7), ("cta_id_in_cluster", 2)], "clusters of 2 CTAs"),
        ([("cta_id", 8), ("cluster_id", 3), ("cta_id_in_cluster", 2)], "clusters of 2 CTAs"),
        ([("cta_id_in_cluster", N)], "must be a constant"),
    ],
)
def test_scope_ids_that_disagree_are_an_error_at_their_line(kinds: list[tuple[object, ...]], part: str) -> None:
    with pytest.raises(KernelError, match=r".") as refused:
        launch_of(ids(*kinds))

    assert part in str(refused.value)
    assert refused.value.at == AT


def test_each_scope_id_is_arithmetic_on_special_registers() -> None:
    kinds = ["lane_id", "thread_id", "warp_id", "warpgroup_id", "warp_id_in_wg", "thread_id_in_wg"]
    exprs = scope_id_exprs(ids(*((kind, None) for kind in kinds)))

    assert [str(value) for value in exprs.values()] == [
        "T.laneid", "T.tid", "T.warpid", "T.warpid // 4", "T.warpid % 4", "T.tid % 128",
    ]  # fmt: skip


def test_block_ids_count_along_x_y_z() -> None:
    exprs = scope_id_exprs(ids(("cta_id", 2, 3, 4), ("cluster_id", 1), ("cta_id_in_cluster", 2)))

    names = ["ctaid.x", "ctaid.y", "ctaid.z", "clusterid.x", "cluster_ctarank"]
    assert list(exprs.values()) == [special(name) for name in names]


def test_launch_bounds_come_from_the_attribute() -> None:
    key = "tirx.launch_bounds_min_blocks_per_sm"

    assert launch_of(ids(("thread_id", 32), attrs=((key, 2),))).min_blocks_per_sm == 2
    assert launch_of(Kernel("k", (), (), (), attrs=((key, 3),))).min_blocks_per_sm == 3
