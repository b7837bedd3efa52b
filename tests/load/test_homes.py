"""Compiled code's units stay in the variable of shared memory whose address their register was made from."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.shared .align 128 .b8 a[128];
.shared .align 128 .b8 b[128];
.visible .entry k(.param .u64 out, .param .u32 at) {
    .reg .b64 %o; .reg .b32 %t, %s, %v, %at; .reg .pred %p;
    ld.param.u64 %o, [out]; ld.param.u32 %at, [at]; mov.u32 %t, %tid.x;
    shl.b32 %t, %t, 2; mov.u32 %s, a; add.u32 %v, %s, %t; st.shared.b32 [%v], %t; mov.u32 %v, b; add.u32 %v, %v, %t;
    st.shared.b32 [%v], %t; fence.proxy.async.shared::cta; bar.sync 0;
    setp.ne.u32 %p, %t, 0; @%p bra END;
    add.u32 %s, %s, %at;
    cp.async.bulk.global.shared::cta.bulk_group [%o], [%s], 64;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: ret;
}
"""


def copy_from(at: int) -> None:
    tw.load_ptx(TEXT)["k"].simulate(np.zeros(32, np.float32), at, grid=1, block=32)


@pytest.mark.parametrize("at", [80, 128, 144])
def test_a_bulk_copy_out_of_the_next_variable_is_told(at: int) -> None:
    with pytest.raises(SimulationError, match=r"cp\.async\.bulk\.s2g reads outside of a"):
        copy_from(at)


@pytest.mark.parametrize("at", [0, 64])
def test_a_bulk_copy_within_its_variable_is_clean(at: int) -> None:
    copy_from(at)
