"""Special registers: where a thread stands in the grid. One row each.

The lowered stage has only these; scope ids of a kernel become arithmetic on them. ``varies`` says over which level the
value differs, so that a value is born with the smallest shape: per lane, per warp, per CTA, or one for the grid.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.expr import Special

__all__ = ["ELEMENT", "SPECIALS", "SpecialRow", "special"]


@dataclass(frozen=True, slots=True)
class SpecialRow:
    """name: as in ``T.laneid``. cuda: the C++ expression, an int. varies: over lane, thread, warp, cta or grid."""

    name: str
    cuda: str
    varies: str
    meaning: str


SPECIALS = {
    row.name: row
    for row in (
        SpecialRow("laneid", "(int)(threadIdx.x % 32)", "lane", "lane of the warp, 0..31"),
        SpecialRow("warpid", "(int)(threadIdx.x / 32)", "warp", "warp of the CTA"),
        SpecialRow("tid", "(int)threadIdx.x", "thread", "thread of the CTA, 32 * warpid + laneid"),
        SpecialRow("ctaid.x", "(int)blockIdx.x", "cta", "CTA of the grid, first axis"),
        SpecialRow("ctaid.y", "(int)blockIdx.y", "cta", "CTA of the grid, second axis"),
        SpecialRow("ctaid.z", "(int)blockIdx.z", "cta", "CTA of the grid, third axis"),
        SpecialRow("nctaid.x", "(int)gridDim.x", "grid", "CTAs along the first axis"),
        SpecialRow("nctaid.y", "(int)gridDim.y", "grid", "CTAs along the second axis"),
        SpecialRow("nctaid.z", "(int)gridDim.z", "grid", "CTAs along the third axis"),
        SpecialRow("ntid", "(int)blockDim.x", "grid", "threads of a CTA"),
        SpecialRow("cluster_ctaid.x", "tw_cluster_ctaid_x()", "cta", "CTA in its cluster, first axis"),
        SpecialRow("cluster_ctaid.y", "tw_cluster_ctaid_y()", "cta", "CTA in its cluster, second axis"),
        SpecialRow("cluster_ctaid.z", "tw_cluster_ctaid_z()", "cta", "CTA in its cluster, third axis"),
        SpecialRow("cluster_ctarank", "tw_cluster_ctarank()", "cta", "rank of the CTA in its cluster"),
        SpecialRow("clusterid.x", "tw_clusterid_x()", "cta", "cluster of the grid, first axis"),
        SpecialRow("clusterid.y", "tw_clusterid_y()", "cta", "cluster of the grid, second axis"),
        SpecialRow("clusterid.z", "tw_clusterid_z()", "cta", "cluster of the grid, third axis"),
    )
}


ELEMENT = ("element.i", "element.j", "element.k", "element.l")
"""Where an element is in the region that a tile call writes, by dimension: only in the values of tile calls."""


def special(name: str) -> Special:
    """The special register ``name``, an int32."""
    return Special(name if name in ELEMENT else SPECIALS[name].name)
