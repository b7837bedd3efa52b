"""Calls from a room up into one above it: by a check of arguments, or by a function that a lower room was given.

Arguments are checked where users call; inside of a compile nobody checks what the compiler itself has made.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from types import FrameType

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import LayoutError
from tilewright.layout import TileLayout
from tilewright.layout.iters import Iter
from tools.size import PACKAGE, ROOT

MOST_UPWARD = 150  # of the compile below: it only falls


@T.prim_func
def brought_by_tma(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
    T.cta_id([1])
    warp = T.warp_id([4])
    T.lane_id([32])
    tile = T.alloc_shared((64, 64), "float16", align=1024)
    bar = T.alloc_shared((1,), "uint64")
    if warp == 0 and T.ptx.elect_sync():
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64 * 64 * 2)
        Tx.copy_async(tile, A[:, :], mbar=bar.ptr_to([0]))
    T.cuda.cta_sync()
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    Tx.cta.copy(B[:, :], tile[:, :])


def heights() -> dict[str, int]:
    """The rooms, from the highest on, as pyproject.toml has them for the linter of imports."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    rows = re.findall(r'"([^"]+)"', text.split("[tool.importlinter]")[1].split("layers = [")[1].split("]")[0])
    return {room.strip(): -number for number, row in enumerate(rows) for room in row.split("|")}


def room_of(frame: FrameType | None) -> str:
    name = frame.f_code.co_filename if frame is not None else ""
    return name.removeprefix(f"{PACKAGE}/").split("/")[0].removesuffix(".py") if name.startswith(f"{PACKAGE}/") else ""


def upward_calls() -> Counter[tuple[str, str]]:
    """The calls of a compile from a room into one above it, by the two rooms."""
    height, calls = heights(), Counter[tuple[str, str]]()

    def watch(frame: FrameType, event: str, _: object) -> None:
        below, above = room_of(frame.f_back), room_of(frame)
        if event == "call" and below in height and above in height and height[above] > height[below]:
            calls[below, above] += 1

    tw.compile(brought_by_tma, target="sm_90a").source("cuda")  # so that all tables are filled
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        tw.compile(brought_by_tma, target="sm_90a").source("cuda")
    finally:
        sys.setprofile(before)
    return calls


def test_a_compile_calls_upward_seldom() -> None:
    calls = upward_calls()

    assert calls["lower", "tile"] == calls["layout", "tile"] == 0
    assert 0 < calls.total() <= MOST_UPWARD, calls.most_common()


def test_arguments_are_checked_where_users_call() -> None:
    with pytest.raises(LayoutError, match="offset_on"):
        TileLayout([Iter(8, 1)]).offset_on(np.float32(1))  # type: ignore[arg-type]


def test_arguments_in_a_kernel_are_checked_though_its_parser_calls() -> None:
    def kernel(A: T.Buffer((8,), "float32")):
        T.cta_id([1])
        T.thread_id([32])
        TileLayout([Iter(8, 1)]).offset_on(1.5)  # type: ignore[arg-type]

    with pytest.raises(tw.errors.TilewrightError, match="offset_on"):
        T.prim_func(kernel)
