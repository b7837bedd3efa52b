"""Where an element lives: axes, layouts, their algebra and notation. Geometry only.

``S[extents : strides]`` writes a `TileLayout`; ``+ R[...]`` replicates it, ``+ 5 @ warpid`` moves it. A `SwizzleLayout`
permutes addresses, a `ComposeLayout` does so after a tile layout. Every operation that has to decide something about
symbolic values takes ``facts=``; `INTS` knows ints.
"""

from __future__ import annotations

from tilewright.layout import axes
from tilewright.layout.axes import *  # noqa: F403  every axis is public: a row of axes.py is all that one adds
from tilewright.layout.base import Layout, Region, Table
from tilewright.layout.compose import ComposeLayout
from tilewright.layout.facts import INTS, Facts, Value
from tilewright.layout.iters import Iter
from tilewright.layout.linear import LinearLayout
from tilewright.layout.notation import R, S, cute_shape, from_cute, parse_layout, to_cute
from tilewright.layout.placements import Partial, Placed, Replicate, Shard, placed
from tilewright.layout.ready import (
    SwizzleMode,
    mma_atom_layout,
    mma_fragment_layout,
    mma_shared_layout,
    sf_smem_layout,
    sf_tmem_layout,
    sp_meta_smem_layout,
    sp_meta_tmem_layout,
    tcgen05_atom_layout,
    tma_shared_layout,
    tmem_datapath_layout,
    wg_local_layout,
    wgmma_fragment,
)
from tilewright.layout.swizzle import SwizzleLayout
from tilewright.layout.tables import Collision
from tilewright.layout.thread_axes import threads
from tilewright.layout.tile import TileLayout

__all__ = [
    "INTS", "Collision", "ComposeLayout", "Facts", "Iter", "Layout", "LinearLayout", "Partial", "Placed", "R", "Region",
    "Replicate", "S", "Shard", "SwizzleLayout", "SwizzleMode", "Table", "TileLayout", "Value", "cute_shape",
    "from_cute", "mma_atom_layout", "mma_fragment_layout", "mma_shared_layout", "parse_layout", "placed",
    "sf_smem_layout", "sf_tmem_layout", "sp_meta_smem_layout", "sp_meta_tmem_layout", "tcgen05_atom_layout", "threads",
    "tma_shared_layout", "tmem_datapath_layout", "to_cute", "wg_local_layout", "wgmma_fragment",
]  # fmt: skip
__all__ += axes.__all__
