"""Numba's kernels: its arguments for an array, and the error where it cannot compile."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentError, SimulationError, ToolError
from tilewright.load import numba

PARAMETERS = ", ".join(f".param .u64 p{k}" for k in range(14))
DOUBLED = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry _ZN6cudapy8__main__7doubledE({PARAMETERS})
{{
    .reg .b64 %rd<8>; .reg .f32 %f<2>; .reg .b32 %r<2>; .reg .pred p;
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd1, %r1;
    ld.param.u64 %rd2, [p5];
    setp.ge.u64 p, %rd1, %rd2;
@p  bra DONE;
    ld.param.u64 %rd3, [p4];
    ld.param.u64 %rd4, [p6];
    mad.lo.u64 %rd3, %rd1, %rd4, %rd3;
    ld.global.f32 %f1, [%rd3];
    add.f32 %f1, %f1, %f1;
    ld.param.u64 %rd5, [p11];
    ld.param.u64 %rd6, [p13];
    mad.lo.u64 %rd5, %rd1, %rd6, %rd5;
    st.global.f32 [%rd5], %f1;
DONE:
    ret;
}}
"""


def doubled(a, b):
    """A function for Numba."""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "_compiled", lambda function, args, target: DOUBLED)


@pytest.mark.usefixtures("compiled")
def test_an_array_is_seven_parameters_and_has_its_own_name() -> None:
    a, b = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)

    tw.check_numba(doubled, 1, 64, a[::2], b)

    assert (b[:20] == 2 * a[::2]).all()
    with pytest.raises(SimulationError, match="store writes outside of b"):
        tw.check_numba(doubled, 1, 64, a, b[:30].copy())


def test_a_call_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="doubled takes 2 arguments"):
        tw.check_numba(doubled, 1, 64, np.zeros(4))
    with pytest.raises(ArgumentError, match="no kernel of Numba"):
        tw.check_numba("doubled", 1, 64)


def test_without_numba_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)

    with pytest.raises(ToolError, match="pip install numba"):
        tw.check_numba(doubled, 1, 64, np.zeros(4), np.zeros(4))


def test_a_kernel_of_numba_is_told_of_in_its_words() -> None:
    jit = pytest.importorskip("numba.cuda", reason="needs Numba").jit
    cuda = sys.modules["numba.cuda"]

    @jit
    def mirrored(a, b):
        tile = cuda.shared.array(64, "float32")
        tile[cuda.threadIdx.x] = a[cuda.threadIdx.x]
        b[cuda.threadIdx.x] = tile[63 - cuda.threadIdx.x]

    with pytest.raises(SimulationError, match=r"cuda\.syncthreads\(\) between line"):
        tw.check_numba(mirrored, 1, 64, np.zeros(64, np.float32), np.zeros(64, np.float32))
