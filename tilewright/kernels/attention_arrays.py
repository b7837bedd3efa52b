"""The arrays of attention and what a query sees, as its calls say it."""

from __future__ import annotations

from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, choices
from tilewright.kernels.arrays import Array, contiguous, info_of, kind_of

__all__ = ["EVERYWHERE", "KINDS", "LAYOUTS", "WIDTHS", "laid_out", "upright", "window_of"]

KINDS = ("bfloat16", "float16")
WIDTHS = (64, 96, 128, 192, 256)
LAYOUTS = {"bhsd": 4, "bshd": 4, "packed": 3}  # their dimensions; the last, of sequences one after the other
ALIGNMENTS = ("top-left", "bottom-right")
ALIGNED = 16  # bytes: rows begin at multiples
EVERYWHERE = -1  # of a window: no limit


def upright(array: Array, layout: str) -> Array:
    """An array as (batch, heads, length, width); a packed one is a batch of one."""
    if layout == "packed":
        return array.swapaxes(0, 1)[None]
    return array if layout == "bhsd" else array.swapaxes(1, 2)


def laid_out(array: Array) -> Array:
    """The array itself where a tensor map takes its strides, or a copy."""
    info, each = info_of(array), dtype(kind_of(array)).bits // 8
    *steps, last = (int(step) for step in info.steps)
    aligned = all(step * each % ALIGNED == 0 and step > 0 for step in steps) and (info.address or 0) % ALIGNED == 0
    return array if aligned and last == 1 else contiguous(array)


def window_of(causal: bool | str, window: tuple[int, int] | None, *, alike: bool) -> tuple[int, int, bool]:
    """How many keys before and after a query's own it sees, and are the last query and the last key beside each other?

    alike: are there as many keys as queries?
    """
    if isinstance(causal, str) and causal not in ALIGNMENTS:
        raise ArgumentError("no such alignment", given=f"causal={causal!r}", allowed=choices(causal, ALIGNMENTS))
    if causal is True and not alike:
        raise ArgumentError("queries and keys are not as many, and causal does not say which are beside each other",
                            given="causal=True", allowed=choices(None, ALIGNMENTS))  # fmt: skip
    left, right = (EVERYWHERE, EVERYWHERE) if window is None else window
    if min(left, right) < EVERYWHERE:
        raise ArgumentError("no such window", given=str(window), allowed="two numbers of keys, -1 for all")
    return left, 0 if causal else right, causal != "top-left"
