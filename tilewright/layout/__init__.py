"""Where an element lives: axes, layouts, their algebra and notation. Geometry only.

``S[extents : strides]`` writes a `TileLayout`; ``+ R[...]`` replicates it, ``+ 5 @ warpid`` moves it. A `SwizzleLayout`
permutes addresses, a `ComposeLayout` does so after a tile layout. Every operation that has to decide something about
symbolic values takes ``facts=``; `INTS` knows ints.

In the order in which to read:

    axes              what a coordinate counts; what an operation may ask about numbers
    iters, tile       steps along an axis, and what they make: tile layouts
    base              what all layouts have in common
    products          tiling, regions, sums, packing, and finding a missing factor; axes of threads
    tables            every place of every element
    swizzle           address bits XORed into others, alone and after a tile layout; layouts as maps of bits
    notation          layouts as text: ours, and CuTe's
    ready             layouts that hardware asks for
    placements        arrays that are spread over several GPUs
"""

from __future__ import annotations

from tilewright.layout import axes, ready
from tilewright.layout.axes import *  # noqa: F403  every axis is public: a row of axes.py is all that one adds
from tilewright.layout.axes import INTS, Facts, Value
from tilewright.layout.base import Layout, Region, Table
from tilewright.layout.iters import Iter
from tilewright.layout.notation import R, S, cute_shape, from_cute, parse_layout, to_cute
from tilewright.layout.placements import Partial, Placed, Replicate, Shard, placed
from tilewright.layout.products import threads
from tilewright.layout.ready import *  # noqa: F403  likewise every layout that is ready
from tilewright.layout.swizzle import ComposeLayout, LinearLayout, SwizzleLayout
from tilewright.layout.tables import Collision
from tilewright.layout.tile import TileLayout

__all__ = [
    "INTS", "Collision", "ComposeLayout", "Facts", "Iter", "Layout", "LinearLayout", "Partial", "Placed", "R", "Region",
    "Replicate", "S", "Shard", "SwizzleLayout", "Table", "TileLayout", "Value", "cute_shape", "from_cute",
    "parse_layout", "placed", "threads", "to_cute",
]  # fmt: skip
__all__ += [*axes.__all__, *ready.__all__]
