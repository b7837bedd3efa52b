"""Kernels of one elementwise call, run on the simulator and judged by the declaration's meaning in NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from tests.tile.kernels import buffer, copy, extents, kernel, tile_call, whole_number
from tilewright import ir, isa
from tilewright.dtypes import dtype
from tilewright.errors import TilewrightWarning
from tilewright.ir import Argument, Evaluate, Expr, Region, Stmt
from tilewright.primitives import PRIMITIVES
from tilewright.tile import Entry

THREADS = {"thread": 1, "warp": 32, "warpgroup": 128, "cta": 64}


@dataclass(frozen=True)
class Operand:
    """A tile of a call: a region of a buffer. Its logical contents go through a global array of the buffer's shape."""

    region: Region
    data: NDArray[Any] | None = field(default=None, compare=False)

    @property
    def box(self) -> tuple[slice, ...]:
        return tuple(slice(whole_number(a), whole_number(a + n)) for a, n in self.region.box)


def numbers(kind: str, shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    """Numbers of small magnitude: no overflow hides an error."""
    random = np.random.default_rng(seed)
    element = dtype(kind)
    if element.is_float:
        return random.uniform(0.25, 3, shape).astype(element.numpy)
    return random.integers(0, 2 if kind == "bool" else 7, shape).astype(element.numpy)


def judged(
    name: str,
    dst: Operand,
    sources: Sequence[Operand | Expr],
    scope: str = "warp",
    threads: int | None = None,
    **config: Argument,
) -> Entry:
    """Run the call, compare dst with NumPy; returns the report's entry."""
    threads = threads or THREADS[scope]
    before: list[Stmt] = []
    arrays: dict[str, NDArray[Any]] = {}
    sync = Evaluate(isa.call("cuda.cta_sync"))
    every = "cta" if threads >= 32 else "thread"
    for operand in (dst, *sources):
        if not isinstance(operand, Operand):
            continue
        held = operand.region.buffer
        if held.name in arrays or f"{held.name}_in" in arrays:
            continue
        data = operand.data if operand.data is not None else numbers(str(held.dtype), extents(held), len(arrays))
        if held.space == "global":
            arrays[held.name] = data
        else:
            arrays[f"{held.name}_in"] = data
            outside = buffer(f"{held.name}_in", "global", held.shape, kind=str(held.dtype))
            before.append(copy(held, outside, scope=every))
    args = tuple(each.region if isinstance(each, Operand) else each for each in (dst, *sources))
    call = tile_call(name, scope, args, **config)
    after: list[Stmt] = []
    to = dst.region.buffer
    result = to.name
    if to.space != "global":
        result = f"{to.name}_back"
        arrays[result] = np.zeros(extents(to), to.dtype.numpy)
        after = [sync, copy(buffer(result, "global", to.shape, kind=str(to.dtype)), to, scope=every)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)
        made = kernel(*before, sync, call, *after, threads=threads, grid=1)
        exe = tw.compile(made, target="sm_90a")
        tiles = [f"{each.region.buffer.name}[" for each in (dst, *sources) if isinstance(each, Operand)]
        entries = (entry for entry in exe.report.entries if entry.primitive == name)
        said = next(entry for entry in entries if all(each in entry.call for each in tiles))

    def data_of(operand: Operand) -> NDArray[Any]:
        buffer_name = operand.region.buffer.name
        return arrays[buffer_name if buffer_name in arrays else f"{buffer_name}_in"]

    values = [
        data_of(each)[each.box] if isinstance(each, Operand) else each.value if isinstance(each, ir.Const) else each
        for each in sources
    ]
    expected = data_of(dst).copy()
    part = expected[dst.box].copy()
    PRIMITIVES[name].meaning(part, *values, **{k: v for k, v in config.items() if k not in ("vec_len", "dispatch")})
    expected[dst.box] = part
    exe.simulate(*[arrays[parameter.name] for parameter in made.buffers])
    assert_close(arrays[result], expected, f"{said}\n{exe.source('tile')}")
    return said


def assert_close(found: NDArray[Any], expected: NDArray[Any], note: str) -> None:
    kind = dtype(str(found.dtype))
    if not kind.is_float:
        assert np.array_equal(found, expected), note
        return
    exponent = {"float32": -22, "float64": -50, "float16": -9, "bfloat16": -6}.get(str(kind), -2)
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=2.0**exponent, atol=1e-7, err_msg=note
    )
