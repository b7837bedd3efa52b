"""Tx.im2col_async: generated convolutions against the primitive's meaning, and what it does not take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import DispatchError, SimulationError
from tilewright.lang import parse_script
from tilewright.layout import ComposeLayout, S, SwizzleLayout, mma_shared_layout
from tilewright.primitives import PRIMITIVES
from tilewright.primitives.copy import Window

SHAPE, TILE = (2, 6, 7, 64), (32, 64)
FLAT = S[TILE : (64, 1)]


def brought(
    shape: tuple[int, ...] = SHAPE, tile: tuple[int, int] = TILE, *, layout: Any = None, align: int = 1024,
    nbytes: int | None = None, threads: int = 1, scope: Any = Tx, part: int = 0, **settings: Any,
) -> Any:  # fmt: skip
    """A tile of pixels in shared memory, stored as it is."""
    layout = layout or mma_shared_layout("uint16", 3, tile)
    pixels, channels = tile
    count = 2 * pixels * channels if nbytes is None else nbytes

    @T.prim_func
    def kernel(x: T.Buffer(shape, "uint16"), y: T.Buffer(tile, "uint16"), first: T.int32):
        T.cta_id([1])
        tid = T.thread_id([32])
        held = T.alloc_shared(tile, "uint16", layout=layout, align=align)
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), count)
        T.cuda.cta_sync()
        if tid < threads:
            scope.im2col_async(held, x[part:] if part else x, mbar=bar.ptr_to([0]), **{
                key: value(first) if callable(value) else value for key, value in settings.items()
            })  # fmt: skip
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        for i in range(pixels):
            for j in range(channels // 32):
                y[i, j * 32 + tid] = held[i, j * 32 + tid]

    return kernel


@pytest.mark.parametrize("seed", range(9))
def test_pixels_are_those_that_the_tap_of_a_convolution_meets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spatial = 1 + seed % 3
    shape = (3, *(int(one) for one in rng.integers(4, 9, spatial)), 128)
    tile = (int(8 * rng.integers(1, 9)), int(rng.choice([64, 128])))
    taps, dilation, stride = (tuple(int(one) for one in rng.integers(1, high, spatial)) for high in (4, 3, 3))
    padding = tuple(int(rng.integers(0, (t - 1) * d + 1)) for t, d in zip(taps, dilation, strict=True))
    window: dict[str, Any] = {"taps": taps, "padding": padding, "stride": stride, "dilation": dilation}
    outputs = (3, *Window(spatial, window).outputs(shape[1:-1]))
    number, channel = int(rng.integers(0, max(1, int(np.prod(outputs))))), int(rng.choice([0, 64]))
    pixel = tuple(int(one) for one in np.unravel_index(number, outputs))
    tap = tuple(int(rng.integers(0, count)) for count in taps)
    x = rng.integers(1, 1 << 16, shape, dtype=np.uint16)
    wanted, y = np.zeros(tile, np.uint16), np.zeros(tile, np.uint16)
    PRIMITIVES["im2col_async"].meaning(wanted, x, pixel=pixel, channel=channel, tap=tap, **window)
    kernel = brought(shape, tile, channel=channel, tap=tap, pixel=lambda n: (n, *pixel[1:]), **window)

    run = tw.compile(kernel, "sm_90a").simulate(x, y, pixel[0], check="all")

    assert run.warnings == []
    assert np.array_equal(y, wanted)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stride": (1, 2, 1)}, r"(?s)stride=\(1, 2, 1\).*2 numbers, one for each dimension between N and C"),
        ({"pixel": (0, 0)}, r"(?s)pixel= has another number of entries.*3 numbers"),
        ({"tap": (0,)}, r"(?s)tap= has another number of entries.*2 numbers"),
        ({"padding": (1, 200)}, r"(?s)lower\[0\] is -200.*-128..127"),
        ({"layout": S[TILE : (128, 1)]}, r"(?s)pixels of held are 128 elements apart.*64 elements each"),
        ({"layout": FLAT, "align": 16}, r"(?s)held is aligned to 16 bytes.*multiple of 128"),
        ({"tile": (32, 32), "layout": ComposeLayout(SwizzleLayout(3, 3, 3), S[(32, 32) : (32, 1)])},
         "(?s)has 64 bytes side by side.*rows of 128 bytes"),
        ({"shape": (2, 64)}, r"(?s)x is no array of images.*\(N, H, W, C\)"),
        ({"part": 1}, r"(?s)is a part of x.*pixel= and channel= say where"),
        ({"threads": 2}, "(?s)2 threads get here"),
        ({"cta_mask": 0, "use_tma_reduce": "add"}, "use_tma_reduce"),
    ],
)  # fmt: skip
def test_a_call_that_does_not_fit_says_what_would(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DispatchError, match=message):
        tw.compile(brought(**settings), "sm_90a")


def test_pixels_go_from_global_to_shared_memory_alone() -> None:
    @T.prim_func
    def kernel(x: T.Buffer(SHAPE, "uint16"), y: T.Buffer(TILE, "uint16")):
        T.cta_id([1])
        tid = T.thread_id([32])
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            Tx.im2col_async(y, x, mbar=bar.ptr_to([0]))

    with pytest.raises(DispatchError, match="copies from global to global memory, not from global to shared"):
        tw.compile(kernel, "sm_90a")


def test_an_announcement_of_other_bytes_is_told() -> None:
    x, y = np.ones(SHAPE, np.uint16), np.zeros(TILE, np.uint16)

    with pytest.raises(SimulationError, match="wait"):
        tw.compile(brought(nbytes=8192), "sm_90a").simulate(x, y, 0)


def test_before_hopper_there_is_no_such_copy() -> None:
    with pytest.raises(DispatchError, match="exists on sm_90 and later, not on sm_80"):
        tw.compile(brought(), "sm_80")


def test_a_printed_kernel_parses_back() -> None:
    exe = tw.compile(brought(tap=(1, 1), taps=(3, 3), padding=(1, 1), stride=(2, 1)), "sm_90a")

    assert parse_script(exe.source("tile")) == exe.kernel
    assert parse_script(exe.source("lowered")) == exe.lowered
    assert ".im2col." in exe.source("ptx")
