"""Boxes and reductions by the manual, element by element. Shares no code with the table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
WAYS = ("g2s_cta", "g2s_cluster", "s2c", "s2g")
COVERED = {
    *(f"ptx.cp_async.bulk.tensor.{name}" for name in ("g2c", "s2g", "s2g_reduce")),
    *(f"ptx.cp_async.bulk.{name}" for name in WAYS),
    *(f"ptx.cp_reduce_async.bulk.{name}" for name in ("s2g", "s2c")),
    *(f"ptx.cp_async.bulk.tensor.{name}" for name in ("g2c_tile_gather4", "s2g_tile_scatter4")),
    *(
        f"ptx.clusterlaunchcontrol.{name}"
        for name in ("try_cancel", "query_cancel.is_canceled", "query_cancel.get_first_ctaid")
    ),
    *(f"ptx.cp_async.bulk.tensor.{name}_im2col" for name in ("g2c", "s2g", "s2g_reduce")),
    *("ptx.st_async", "ptx.st_async.vec", "ptx.getctarank"),
    *(f"ptx.red_async.{op}" for op in (*REDUCTIONS[:5], "and_", "or_", "xor")),
}
COVERED |= {"ptx.tensormap.replace", "ptx.tensormap.replace_constant"}
CACHES = {
    "ptx.cp_async.bulk.tensor.g2c_prefetch",
    "ptx.cp_async.bulk.tensor.g2c_prefetch_im2col",
    "ptx.cp_async.bulk.prefetch",
    "ptx.prefetch_tensormap",
}
"""Rows that change no value."""


def swizzled(byte: int, mode: int) -> int:
    """Source: PTX ISA, "Swizzling Modes": bits 4, 4-5, 4-6 of the address are XORed with bits 7, 7-8, 7-9."""
    for bit in range(mode):
        if byte >> 7 + bit & 1:
            byte ^= 1 << 4 + bit
    return byte


def box(
    dims: Sequence[int], extents: Sequence[int], steps: Sequence[int], starts: Sequence[int]
) -> Iterator[tuple[int, tuple[int, ...] | None]]:
    """Number in the box and index in the array of each element, dimension 0 first; None for one outside of it."""
    counts = [extents[0], *(-(-extent // step) for extent, step in zip(extents[1:], steps[1:], strict=True))]
    for number, digits in enumerate(itertools.product(*(range(count) for count in reversed(counts)))):
        index = []
        for d, digit in enumerate(reversed(digits)):
            index.append(starts[d] + digit * (steps[d] if d else 1))
        inside = all(0 <= i < dim for i, dim in zip(index, dims, strict=True))
        yield number, tuple(index) if inside else None


def pixels(
    dims: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    steps: Sequence[int],
    start: Sequence[int],
    offsets: Sequence[int],
    count: int,
) -> Iterator[tuple[int, ...]]:
    """W, H, D, N of the pixels that a copy in im2col mode reads, one after the other: a cursor in the bounding box goes
    along W, then H, then D, then to the next image; the offsets are added where it is. They may be outside.
    """
    cursor = list(start)
    for _ in range(count):
        yield (*(at + offset for at, offset in zip(cursor, offsets, strict=False)), cursor[-1])
        for d in range(len(lower)):
            cursor[d] += steps[d]
            if cursor[d] <= dims[d] - 1 + upper[d]:
                break
            cursor[d] = lower[d]
        else:
            cursor[-1] += 1


def pixels_along_w(
    dims: Sequence[int], corners: tuple[int, int], step: int, start: Sequence[int], shift: int, count: int, halo: int,
    part: int,
) -> Iterator[tuple[int, ...]]:  # fmt: skip
    """The same for a walk along W alone: ``halo`` pixels more after each ``part``, from which the next part goes on as
    if there had been none.
    """
    lower, upper = corners
    for begin in range(0, count, part):
        w, rest, image = start[0], list(start[1:-1]), start[-1]
        for number in range(begin + part + halo):
            if number >= begin:
                yield (w + shift, *rest, image)
            w += step
            if w > dims[0] - 1 + upper:
                w, image = lower, image + 1


def reduced(op: str, old: int, new: int, bits: int, *, signed: bool) -> int:
    """Integers of so many bits."""
    if op == "inc":
        return 0 if old >= new else old + 1
    if op == "dec":
        return new if old == 0 or old > new else old - 1
    made = {"add": old + new, "min": min(old, new), "max": max(old, new), "and": old & new, "or": old | new,
            "xor": old ^ new}[op]  # fmt: skip
    made &= (1 << bits) - 1
    return made - (1 << bits) if signed and made >> bits - 1 else made
