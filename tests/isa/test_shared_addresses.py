"""The three ways from a pointer to a shared address give the same one, and any integer of it works as an operand."""

from __future__ import annotations

import numpy as np

from tilewright import T, compile


def test_the_three_ways_agree() -> None:
    @T.prim_func
    def addresses(B_ptr: T.handle):
        B = T.match_buffer(B_ptr, (3, 32), "uint64")
        T.device_entry()
        T.cta_id([1])
        lane = T.lane_id([32])
        first = T.alloc_shared((64,), "uint16")
        second = T.alloc_shared((32,), "uint32")
        second[lane] = T.uint32(1)
        first[lane] = T.uint16(1)
        B[0, lane] = T.cuda.cvta_generic_to_shared(second.ptr_to([lane]))
        B[1, lane] = T.ptx.cvta.to.shared.u64(second.ptr_to([lane]))
        B[2, lane] = T.cast(T.cuda.cast_smem_ptr_to_uint(second.ptr_to([lane])), "uint64")

    b = np.zeros((3, 32), np.uint64)
    made = compile(addresses)
    made.simulate(b)

    assert (b == b[0]).all()
    assert (np.diff(b[0]) == 4).all()
    assert made.lowered.launch is not None
    assert b.max() < made.lowered.launch.shared_bytes  # an offset in the CTA's window
