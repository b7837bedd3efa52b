"""Kernels of one elementwise call, run on the simulator and judged by the declaration's meaning in NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from tests.tile.kernels import AT, buffer, kernel
from tilewright import ir, isa
from tilewright.dtypes import dtype
from tilewright.errors import TilewrightWarning
from tilewright.ir import Buffer, Evaluate, Expr, Region, Stmt
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
        return tuple(slice(int(a), int(a) + int(n)) for a, n in self.region.box)  # type: ignore[arg-type]


def numbers(kind: str, shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    """Numbers of small magnitude: no overflow hides an error."""
    random = np.random.default_rng(seed)
    element = dtype(kind)
    if element.is_float:
        return random.uniform(0.25, 3, shape).astype(element.numpy) * element.numpy.type(1)
    return random.integers(0, 2 if kind == "bool" else 7, shape).astype(element.numpy)


def _moved(to: Buffer | Region, source: Buffer | Region, scope: str) -> ir.TileCallStmt:
    regions = tuple(one if isinstance(one, Region) else one.region() for one in (to, source))
    return ir.TileCallStmt("copy", scope, regions, None, at=AT)


def judged(
    name: str,
    dst: Operand,
    sources: Sequence[Operand | Expr],
    scope: str = "warp",
    threads: int | None = None,
    **config: object,
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
        data = operand.data if operand.data is not None else numbers(str(held.dtype), held.shape, len(arrays))  # type: ignore[arg-type]
        if held.space == "global":
            arrays[held.name] = data
        else:
            arrays[f"{held.name}_in"] = data
            before.append(_moved(held, buffer(f"{held.name}_in", "global", held.shape, kind=str(held.dtype)), every))
    args = tuple(each.region if isinstance(each, Operand) else each for each in (dst, *sources))
    dispatch = config.pop("dispatch", None)
    call = ir.TileCallStmt(name, scope, args, dispatch, tuple(config.items()), at=AT)  # type: ignore[arg-type]
    after: list[Stmt] = []
    to = dst.region.buffer
    result = to.name
    if to.space != "global":
        result = f"{to.name}_back"
        arrays[result] = np.zeros(to.shape, to.dtype.numpy)  # type: ignore[arg-type]
        after = [sync, _moved(buffer(result, "global", to.shape, kind=str(to.dtype)), to, every)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)
        exe = tw.compile(kernel(*before, sync, call, *after, threads=threads, grid=1), target="sm_90a")
        tiles = [f"{each.region.buffer.name}[" for each in (dst, *sources) if isinstance(each, Operand)]
        entries = (entry for entry in exe.report.entries if entry.primitive == name)
        said = next(entry for entry in entries if all(each in entry.call for each in tiles))
    expected = arrays.get(to.name, arrays.get(f"{to.name}_in")).copy()  # type: ignore[union-attr]
    given = [
        (arrays.get(each.region.buffer.name, arrays.get(f"{each.region.buffer.name}_in")))[each.box]  # type: ignore[index]
        if isinstance(each, Operand) else each.value if isinstance(each, ir.Const) else each
        for each in sources
    ]  # fmt: skip
    made = expected[dst.box].copy()
    PRIMITIVES[name].meaning(made, *given, **{k: v for k, v in config.items() if k != "vec_len"})
    expected[dst.box] = made
    exe.simulate(**arrays)
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
