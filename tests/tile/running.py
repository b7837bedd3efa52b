"""One tile call between copies from and to global memory, simulated with all checks, and its result by NumPy."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from tests.tile.kernels import buffer, copy, extents, kernel, tile_call, whole
from tilewright import ir
from tilewright.errors import TilewrightWarning
from tilewright.ir import Argument, Buffer, Evaluate, Region
from tilewright.isa import call as instruction
from tilewright.primitives import PRIMITIVES
from tilewright.tile import Entry

Array = NDArray[np.generic]
MEET = Evaluate(instruction("cuda.cta_sync"))


def run(
    primitive: str,
    dst: Region | Buffer,
    src: Region | Buffer,
    data: Array,
    scope: str = "warp",
    threads: int = 32,
    before: Array | None = None,
    arch: str = "sm_90a",
    **config: Argument,
) -> tuple[Array, Entry]:
    """The destination's buffer after the call, and the report's entry. data, before: of whole buffers."""
    into, source = whole(dst), whole(src)
    stmt = tile_call(primitive, scope, (into, source), **config)
    empty = np.zeros(extents(into.buffer), into.dtype.numpy)
    arrays = {"A": data.copy(), "B": before.copy() if before is not None else empty}
    given, taken = (_outside(name, part) for name, part in (("A", source), ("B", into)))
    body = [*_copied(source.buffer, given, scope), *_copied(into.buffer, taken, scope), stmt, MEET]
    body += _copied(taken, into.buffer, scope)
    made = kernel(*body, threads=threads, grid=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)
        exe = tw.compile(made, target=arch)
        named = {buffer.name: name for name, buffer in (("A", given), ("B", taken))}
        exe.simulate(*[arrays[named[buffer.name]] for buffer in made.buffers], check="all")
    names = [f"{part.buffer.name}[" for part in (into, source)]
    entry = next(each for each in exe.report.entries if all(name in each.call for name in names))
    return arrays["B"], entry


def _outside(name: str, region: Region) -> Buffer:
    """The argument that a buffer is filled from; itself if it is global."""
    if region.buffer.space == "global":
        return region.buffer
    return buffer(f"{name}_global", "global", region.buffer.shape, kind=str(region.dtype))


def _copied(into: Buffer, source: Buffer, scope: str) -> list[ir.Stmt]:
    if into == source:
        return []
    return [copy(into, source, scope=scope), MEET]


def meant(primitive: str, dst: Region, src: Region, data: Array, before: Array, **config: Argument) -> Array:
    """The destination's buffer by NumPy."""
    after = before.copy()
    into, source = (tuple(slice(a, a + n) for a, n in region.box) for region in (dst, src))
    part = np.ascontiguousarray(after[into])
    with np.errstate(all="ignore"):
        PRIMITIVES[primitive].meaning(part, data[source], **config)
    after[into] = part
    return after
