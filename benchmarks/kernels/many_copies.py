"""A kernel with as many tile calls as one likes, each on a tile of its own."""

from tilewright.ir import Kernel
from tilewright.lang import parse_script

_TEXT = """\
@T.prim_func
def many(A_ptr: T.handle):
    A = T.match_buffer(A_ptr, (8, 16), "float16")
    T.device_entry()
    T.cta_id([1])
    T.lane_id([32])
    tiles = T.alloc_buffer(({rows}, 16), "float16", scope="shared", layout=S[({rows}, 16):(16, 1)])
    R = T.alloc_buffer((8, 16), "float16", scope="local", layout=S[(8, 2, 4, 2):(4@laneid, 2, 1@laneid, 1)])
"""


def many_copies(calls: int) -> Kernel:
    """``calls`` times an ldmatrix copy of 8x16 float16 elements, one call after the other."""
    copies = (f"    Tx.warp.copy(R[:, :], tiles[{8 * i}:{8 * i + 8}, :])" for i in range(calls))
    return parse_script("\n".join([_TEXT.format(rows=8 * calls), *copies]))
