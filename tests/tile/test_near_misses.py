"""Where a layout almost fits, the report names what would make it fit, and that does when it is tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tests.tile.test_bulk import call_of
from tilewright import T, Tx, layout
from tilewright.errors import DispatchError
from tilewright.layout import S, laneid
from tilewright.tile import DispatchReport


def reduced(*, rows: Any = None, align: int = 16) -> Any:
    """Sums of rows of shared memory by a CTA."""

    @T.prim_func
    def k(a: T.Buffer((32,), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        s = T.alloc_shared((32, 64), "float32", layout=rows, align=align)
        d = T.alloc_shared((32,), "float32")
        Tx.cta.sum(d, s, axes=1)

    return k


def loaded_from(*, of: Any) -> Any:
    """A copy of a box of an array."""

    @T.prim_func
    def k(a: T.handle):
        A = T.match_buffer(a, (16, 201), "float16", layout=of)
        tid = T.thread_id([32])
        tile = T.alloc_shared((16, 64), "float16", align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            Tx.copy_async(tile, A[:, 0:64], mbar=bar.ptr_to([0]))

    return k


def product(*, a: Any = S[(16, 16) : (1 @ laneid, 1)]) -> Any:
    """A product of a warp, whose A lies in registers."""

    @T.prim_func
    def k(x: T.Buffer((8,), "float32")):
        T.lane_id([32])
        A = T.alloc_buffer((16, 16), "float16", scope="local", layout=a)
        B = T.alloc_shared((16, 8), "float16")
        D = T.alloc_buffer((16, 8), "float32", scope="local",
                           layout=layout.mma_fragment_layout("D", (16, 8), "float32"))  # fmt: skip
        Tx.warp.gemm(D, A, B)

    return k


def warpgroup_product(*, A: Any = None) -> Any:
    @T.prim_func
    def k(x: T.Buffer((8,), "float32")):
        T.thread_id([128])
        left = T.alloc_shared((64, 64), "bfloat16", layout=A, align=1024)
        right = T.alloc_shared((64, 64), "bfloat16", align=1024,
                               layout=layout.mma_shared_layout("bfloat16", 3, (64, 64)))  # fmt: skip
        D = T.alloc_buffer((64, 64), "float32", scope="local", layout=layout.wgmma_fragment(64, 64))
        Tx.wg.gemm_async(D, left, right)

    return k


LAYOUT = re.compile(r"(?:layout=)?(S\[.+?\]|\w+\(.+?\)\)|\w+\(.+?\))(?:, align=(\d+))? for (\w+)")
ALIGN = re.compile(r"align=(\d+) on (\w+)")
MISSES: dict[str, tuple[Callable[..., Any], dict[str, Any], str, str]] = {
    # the kernel, what almost fits, the argument that the remedy sets, and the variant that takes the call then
    "rows of a bulk copy are no multiple of 16 bytes apart": (
        lambda **how: call_of("load", **how), {"layout": S[(16, 64) : (65, 1)]}, "layout", "bulk"
    ),
    "a copy to another CTA: rows likewise": (
        lambda **how: call_of("send", remote_cta_id=1, **how), {"layout": S[(16, 64) : (65, 1)]}, "layout", "dsmem"
    ),
    "a copy to another CTA: its memory begins anywhere": (
        lambda **how: call_of("send", remote_cta_id=1, **how), {"align": 4}, "align", "dsmem"
    ),
    "boxes of the copy engine: rows with gaps": (
        lambda **how: call_of("load", **how), {"layout": S[(16, 64) : (72, 1)]}, "layout", "tma"
    ),
    "boxes of the copy engine: rows of the array are no multiple of 16 bytes apart": (
        lambda **how: loaded_from(**how), {"of": S[(16, 201) : (201, 1)]}, "of", "tma"
    ),
    "boxes of the copy engine: alignment": (lambda **how: call_of("load", **how), {"align": 16}, "align", "tma"),
    "sums of rows that are no multiple of 16 bytes apart": (reduced, {"rows": S[(32, 64) : (65, 1)]}, "rows", "memory"),
    "sums of rows that begin anywhere": (reduced, {"align": 4}, "align", "memory"),
    "a product by mma.sync: A is dealt out otherwise": (product, {}, "a", "mma"),
    "a product by wgmma: A has no swizzle": (warpgroup_product, {}, "A", "wgmma"),
}  # fmt: skip


def told(kernel: Any) -> tuple[DispatchReport | None, str]:
    """The report and the remedy of a kernel, or what its error names."""
    try:
        report = tw.compile(kernel, "sm_90a").report
    except DispatchError as error:
        return None, str(error.hint)
    return report, "; ".join(report.entries[0].hints)


def remedy(hint: str, name: str) -> dict[str, Any]:
    """The arguments of a kernel that follow a hint."""
    if name == "align":
        found = ALIGN.search(hint)
        assert found, hint
        return {"align": int(found[1])}
    found = LAYOUT.search(hint)
    assert found, hint
    return {name: layout.parse_layout(found[1])} | ({"align": int(found[2])} if found[2] and name == "layout" else {})


@pytest.mark.parametrize("miss", MISSES)
def test_the_remedy_of_a_near_miss_makes_it_fit(miss: str) -> None:
    kernel, almost, name, variant = MISSES[miss]
    before, hint = told(kernel(**almost))

    after, _ = told(kernel(**almost | remedy(hint, name)))

    assert after is not None
    assert after.entries[0].variant == variant
    assert before is None or before.entries[0].variant != variant or before.entries[0].plan != after.entries[0].plan


def test_padded_rows_are_summed_by_16_bytes() -> None:
    narrow, hint = told(reduced(rows=S[(32, 64) : (65, 1)]))
    wide, none = told(reduced(rows=S[(32, 64) : (68, 1)]))

    assert narrow is not None
    assert wide is not None
    assert "by 4 bytes" in narrow.entries[0].plan
    assert "by 16 bytes" in wide.entries[0].plan
    assert (hint, none) == ("S[(32, 64):(68, 1)] for s, which makes its strides multiples of 16 bytes", "")
