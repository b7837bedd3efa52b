"""The gallery of errors: each class as a user meets it, with its whole text in tests/golden/errors/.

To add one: a function that causes the error through the public code, under a name that becomes the golden file's.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tests.house import first_errors
from tests.tile.kernels import misaligned_fragment
from tilewright import T, errors
from tilewright.cuda.nvrtc import assemble
from tilewright.dtypes import dtype
from tilewright.errors import TilewrightError
from tilewright.isa.mma import mma_fragment
from tilewright.layout import S, TileLayout, laneid
from tilewright.tile import resolve


@T.prim_func
def reverse(A: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    row = T.alloc_shared((64,), "float32")
    row[tid] = A[tid]
    A[tid] = row[63 - tid]


@T.prim_func
def past_the_end(A: T.Buffer((4, 8), "float32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    tile = T.alloc_shared((4, 8), "float32")
    tile[lane // 4, lane % 8] = A[lane // 8, lane % 8]


SURFACE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 surface) {
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [surface];
    mov.u32 %r1, 0;
    suld.b.1d.b32.trap {%r1}, [%rd1, {%r1}];
    ret;
}
"""


GALLERY: dict[str, tuple[type[TilewrightError], Callable[[], object]]] = {
    "another_shape": (errors.ArgumentError, lambda: tw.compile(reverse)(np.zeros(32, np.float32))),
    "cuda_text_refused": (errors.ToolError, lambda: assemble("__global__ void k() { undeclared = 1; }", "sm_90a")),
    "forced_variant_declines": (errors.DispatchError, lambda: resolve(misaligned_fragment(), "sm_90a")),
    "out_of_bounds": (errors.SimulationError, lambda: tw.simulate(past_the_end, np.zeros((4, 8), np.float32))),
    "pack_cut": (errors.LayoutError, lambda: TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]).pack(4)),
    "a_surface": (errors.UnsupportedError, lambda: tw.load_ptx(SURFACE)["k"].simulate(0, grid=1, block=1)),
    "race": (errors.SimulationError, lambda: tw.simulate(reverse, np.zeros(64, np.float32))),
    "unknown_architecture": (errors.TargetError, lambda: assemble("", "sm_90b")),
    "unknown_dtype": (errors.KernelError, lambda: dtype("flaot16")),
    "unknown_fragment": (errors.InstructionError, lambda: mma_fragment("m16n8", "A", "float16")),
}
GALLERY |= {cause.__name__: (TilewrightError, cause) for cause in first_errors.PARSED}
GALLERY |= {name: (errors.SimulationError, cause) for name, cause in first_errors.RUN.items()}


@pytest.mark.parametrize("name", GALLERY)
def test_the_whole_text_of_an_error(name: str, golden: Callable[[str, str], None]) -> None:
    kind, cause = GALLERY[name]

    with pytest.raises(kind) as raised:  # the golden file matches the whole text
        cause()

    text = re.sub(r"<ptx \d+>", "<ptx 1>", str(raised.value))  # texts without a file are counted by the process
    golden(f"errors/{name}.txt", f"{text}\n")


def test_every_error_class_has_a_case() -> None:
    classes = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TilewrightError)}

    shown = {kind for kind, _ in GALLERY.values()} - {TilewrightError}

    assert shown == classes - {TilewrightError}
