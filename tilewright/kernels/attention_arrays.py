"""The arrays of attention and what a query sees, as its calls say it."""

from __future__ import annotations

import math

import numpy as np

from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, choices
from tilewright.kernels.arrays import Array, contiguous, expect, info_of, kind_of

KINDS = ("bfloat16", "float16")
WIDTHS = (64, 96, 128, 192, 256)
ORDERS = {"bhsd": "'bhsd'", "bshd": "'bshd'", "packed": "(all lengths, heads, width)"}
LAYOUTS = {"bhsd": 4, "bshd": 4, "packed": 3}  # their dimensions; the last, of sequences one after the other
ALIGNMENTS = ("top-left", "bottom-right")
EITHER = "alike"  # the alignment of as many keys as queries
ALIGNED = 16  # bytes: rows begin at multiples
EVERYWHERE = -1  # of a window: no limit


def upright(array: Array, layout: str) -> Array:
    """An array as (batch, heads, length, width); a packed one is a batch of one."""
    if layout == "packed":
        return array.swapaxes(0, 1)[None]
    return array if layout == "bhsd" else array.swapaxes(1, 2)


def fallen(array: Array, layout: str) -> Array:
    """The way back from `upright`."""
    return array[0].swapaxes(0, 1) if layout == "packed" else upright(array, layout)


def laid_out(array: Array) -> Array:
    """The array itself where a tensor map takes its strides, or a copy."""
    info, nbytes = info_of(array), dtype(kind_of(array)).bits // 8
    *steps, last = (int(step) for step in info.steps)
    aligned = all(step * nbytes % ALIGNED == 0 and step > 0 for step in steps) and (info.address or 0) % ALIGNED == 0
    return array if aligned and last == 1 else contiguous(array)


def alignment_of(causal: bool | str) -> str:
    """``causal`` as operators take it: an alignment, `EITHER` where both are one, "" where a query sees all keys."""
    if isinstance(causal, str):
        if causal not in ALIGNMENTS:
            raise ArgumentError("no such alignment", given=f"causal={causal!r}", allowed=choices(causal, ALIGNMENTS))
        return causal
    return EITHER if causal else ""


def window_of(causal: str, left: int, right: int, *, alike: bool) -> tuple[int, int, bool]:
    """How many keys before and after a query's own it sees, and are the last query and the last key beside each other?

    causal: of `alignment_of`. alike: are there as many keys as queries?
    """
    if causal == EITHER and not alike:
        raise ArgumentError("queries and keys are not as many, and causal does not say which are beside each other",
                            given="causal=True", allowed=choices(None, ALIGNMENTS))  # fmt: skip
    if min(left, right) < EVERYWHERE:
        raise ArgumentError("no such window", given=f"({left}, {right})", allowed="two numbers of keys, -1 for all")
    return left, 0 if causal else right, causal != "top-left"


def check_dimensions(layout: str, kinds: tuple[str, ...], **arrays: Array) -> None:
    """Raises ArgumentError for what are no arrays of the layout's dimensions."""
    for name, array in arrays.items():
        if not hasattr(array, "shape") or len(array.shape) != LAYOUTS[layout]:
            expect(name, array, kinds)
            raise ArgumentError(f"the dimensions of {name} do not fit", given=f"shape {tuple(array.shape)}",
                                allowed=f"{LAYOUTS[layout]}, in the order {ORDERS[layout]}")  # fmt: skip


def check_widths_and_heads(layout: str, q: Array, k: Array, v: Array, *, paged: bool = False) -> None:
    """Raises ArgumentError for q, k and v that do not go together, or are of widths that have no kernel. paged: is the
    first dimension of k and v that of pages?
    """
    queries, keys, values = (tuple(upright(array, layout).shape) for array in (q, k, v))
    fits = keys[:3] == values[:3] and keys[3] == queries[3] and keys[1] > 0 and queries[1] % keys[1] == 0
    if not fits or (keys[0] != queries[0] and not paged):
        batch = "" if paged else "one batch, "
        raise ArgumentError("q, k and v do not fit", given=", ".join(f"{tuple(x.shape)}" for x in (q, k, v)),
                            allowed=f"{batch}as many keys as values, heads of q a multiple of those of k and v,"
                                    " one width of q and k")  # fmt: skip
    if keys[3] not in WIDTHS or values[3] not in WIDTHS or values[3] > keys[3]:
        raise ArgumentError("no kernel for this width", given=f"{keys[3]} of q and k, {values[3]} of v",
                            allowed=f"{choices(None, WIDTHS)}; that of v at most that of q and k")  # fmt: skip


def check_softcap(softcap: float) -> None:
    """Raises ArgumentError for what bends no scores."""
    if not 0.0 <= softcap < math.inf:
        raise ArgumentError("no such softcap", given=str(softcap), allowed="a number above 0; 0 for none")


def starts_of(cu_seqlens: Array, longest: int | None, layout: str = "bhsd") -> tuple[Array, Array]:
    """Where packed sequences begin in q and in k, None in k where these are the same. Raises ArgumentError for a tuple
    of more or fewer, for a longest sequence of arrays that are not packed, and for a layout of those that are.
    """
    if cu_seqlens is None and longest is not None:
        raise ArgumentError("longest= without cu_seqlens=", given=f"longest={longest}",
                            allowed="both, of packed sequences; or neither")  # fmt: skip
    if cu_seqlens is not None and layout != "bhsd":
        raise ArgumentError("layout= beside cu_seqlens=", given=f"layout={layout!r}",
                            allowed="one of them: packed arrays are (sum of lengths, heads, width)")  # fmt: skip
    if not isinstance(cu_seqlens, tuple):
        return cu_seqlens, None
    if len(cu_seqlens) != 2:
        raise ArgumentError("cu_seqlens is no pair", given=f"a tuple of {len(cu_seqlens)}",
                            allowed="an array of int32, or two: of q and of k")  # fmt: skip
    return cu_seqlens


def check_starts(starts_q: Array, starts_k: Array, bias: Array, rows: tuple[int, int], longest: int) -> None:
    """Raises ArgumentError for what do not say where sequences begin and the last one ends. rows: of q and of k. Only
    NumPy's arrays are read.
    """
    for name, array, count in (("cu_seqlens of q", starts_q, rows[0]), ("cu_seqlens of k", starts_k, rows[1])):
        if array is not None:
            expect(name, array, ("int32",))
            expect(name, array, ("int32",), shape=starts_q.shape[:1])
            _check_places(name, array, count)
    if isinstance(starts_q, np.ndarray) and len(starts_q) > 1 and (most := int(np.diff(starts_q).max())) > longest:
        raise ArgumentError("longest is not the most that a sequence has", given=str(longest),
                            allowed=f"{most}, the queries of the longest one, or more")  # fmt: skip
    if bias is not None or starts_q.shape[0] < 2:
        raise ArgumentError("these packed sequences do not fit", given="a bias" if bias is not None else "no sequence",
                            allowed="one sequence at least, without a bias")  # fmt: skip


def _check_places(name: str, array: Array, rows: int) -> None:
    if not isinstance(array, np.ndarray) or not len(array):
        return
    if array[0] != 0 or array[-1] != rows or (np.diff(array) < 0).any():
        raise ArgumentError(f"{name} are no places of {rows} rows", given=str(array.tolist()),
                            allowed=f"numbers from 0 to {rows}, none less than the one before")  # fmt: skip


def broadcast(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """Raises ArgumentError for an array that is not of this shape when its ones are repeated."""
    extents = tuple(array.shape)
    if len(extents) > len(shape) or any(a not in (1, b) for a, b in zip(extents[::-1], shape[::-1], strict=False)):
        raise ArgumentError(f"the shape of {name} does not fit", given=f"shape {extents}",
                            allowed=f"shape {tuple(shape)}, any of them 1")  # fmt: skip
    return array.expand(shape) if hasattr(array, "expand") else np.broadcast_to(array, shape)
