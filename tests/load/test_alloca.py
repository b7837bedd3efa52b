"""alloca: each call has bytes of its own, which are free again once the function has returned."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError

TEXT = """
.version 7.8
.target sm_80
.address_size 64
.func (.param .b32 sum) total(.param .b32 count) {
    .reg .b32 %n, %i, %s, %v, %bytes; .reg .b64 %size, %p, %q, %mark; .reg .pred %c;
    ld.param.b32 %n, [count];
    mul.wide.u32 %size, %n, 4;
    stacksave.u64 %mark;
    alloca.u64 %q, %size;
    stackrestore.u64 %mark;
    alloca.u64 %p, %size, 16;
    mov.b32 %i, 0; mov.b64 %q, %p;
FILL:
    setp.ge.u32 %c, %i, %n; @%c bra ADD;
    st.local.b32 [%q], %i; add.s64 %q, %q, 4; add.u32 %i, %i, 1; bra FILL;
ADD:
    mov.b32 %s, 0; cvta.local.u64 %p, %p;
MORE:
    setp.eq.u32 %c, %i, 0; @%c bra DONE;
    ld.b32 %v, [%p]; add.s64 %p, %p, 4; add.u32 %s, %s, %v; sub.u32 %i, %i, 1; bra MORE;
DONE:
    st.param.b32 [sum], %s; ret;
}
.visible .entry k(.param .u64 in, .param .u64 out) {
    .reg .b64 %a, %b, %d; .reg .b32 %t, %n, %s, %r, %i; .reg .pred %c;
    ld.param.u64 %a, [in]; ld.param.u64 %b, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %d, %t, 4;
    add.s64 %a, %a, %d; add.s64 %b, %b, %d; ld.global.b32 %n, [%a]; mov.b32 %r, 0; mov.b32 %i, 0;
AGAIN:
    { .param .b32 x; .param .b32 y; st.param.b32 [x], %n; call (y), total, (x); ld.param.b32 %s, [y]; }
    add.u32 %r, %r, %s; add.u32 %i, %i, 1; setp.lt.u32 %c, %i, 24; @%c bra AGAIN;
    st.global.b32 [%b], %r; ret;
}
"""


def test_bytes_of_a_size_that_the_run_knows_are_freed_as_functions_return() -> None:
    given, out = np.array([200, 1, 7, 0], np.int32), np.zeros(4, np.int32)

    tw.load_ptx(TEXT)["k"].simulate(given, out, grid=1, block=4, check="all")

    assert out.tolist() == [24 * sum(range(n)) for n in given]


def test_more_than_a_thread_has_is_an_error_at_the_access() -> None:
    with pytest.raises(SimulationError, match="outside of alloca"):
        tw.load_ptx(TEXT)["k"].simulate(np.array([5000], np.int32), np.zeros(1, np.int32), grid=1, block=1)
