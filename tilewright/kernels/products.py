"""`kernels.matmul`: which arrays are multiplied, by which tiles, and how operands lie that the kernel takes.

Rows of an operand are contiguous along K or, of 16-bit elements, along M or N, and begin at multiples of 16 bytes; any
other is copied first. Where C has too few tiles for all multiprocessors, K is split: the parts are products of a batch,
added up afterwards. Few rows are a product that is turned: the weights' rows are the M of the kernel.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, choices
from tilewright.kernels.arrays import Array, contiguous, expect, info_of, kind_of, like, multiprocessors
from tilewright.kernels.forms import ACTIVATIONS, ROW_BYTES, Form, Tiles
from tilewright.kernels.matmul import product
from tilewright.kernels.operators import Arrays, Operator
from tilewright.kernels.sums import run_columns

__all__ = ["chosen", "matmul"]

HALVES, FLOAT8 = ("bfloat16", "float16"), ("float8_e4m3fn", "float8_e5m2")
KINDS = (*HALVES, "float32", *FLOAT8)
RESULTS = (*HALVES, "float32")
ALIGNED = 16  # bytes: where rows begin
# What is chosen from, of C with many rows.
LARGE = (Tiles(), Tiles(cluster=1), Tiles(n=128, stages=6), Tiles(n=128, stages=6, cluster=1),
         Tiles(n=64, stages=8, cluster=1))  # fmt: skip
FEW_ROWS = 64  # rows that are multiplied turned
SPLITS = (1, 2, 3, 4, 6, 8)
# Cycles of a multiprocessor, for comparing: to begin and end a tile, to launch a cluster, to add up parts; bytes that
# it loads in one; what a CTA takes that loads alone. On an H200 clusters of 2 won 0.2 % of large products, and cost
# 0.6 % of one with a single tile for each CTA.
TILE_CYCLES, CLUSTER_CYCLES, SUM_CYCLES, LOADED, ALONE = 2500, 500, 5000, 64, 1.003


@cache
def chosen(m: int, n: int, k: int, processors: int, *, split: bool = True, few: bool = False) -> tuple[Tiles, int]:
    """The tiles that are estimated to be the fastest, and into how many parts K is split.

    k: in steps of the ring. split: may K be? few: are the weights' rows the M of the kernel?
    """
    if few:
        tiles = Tiles(
            m=64, n=next(each for each in (8, 16, 32, 64) if m <= each), groups=1, stages=8, cluster=1, resident=2
        )
        fit = [parts for parts in SPLITS if split and k % parts == 0 and -(-n // 64) * parts <= 2 * processors]
        return tiles, max(fit, default=1)
    every = [(tiles, parts) for tiles in LARGE for parts in (SPLITS if split else (1,)) if k % parts == 0]
    return min(every, key=lambda one: _cycles(one[0], one[1], m, n, k, processors))


def _cycles(tiles: Tiles, parts: int, m: int, n: int, k: int, processors: int) -> float:
    """About how long a product takes."""
    clusters = -(-m // (tiles.m * tiles.cluster)) * -(-n // tiles.n) * parts
    rounds = -(-clusters // max(1, processors // tiles.cluster))
    step = max(tiles.m * tiles.n / 32, (tiles.m + tiles.n / tiles.cluster) * ROW_BYTES / LOADED)
    step *= 1 if tiles.cluster > 1 else ALONE
    started = CLUSTER_CYCLES if tiles.cluster > 1 else 0
    added = SUM_CYCLES + 4 * m * n * parts / (processors * LOADED / 2) if parts > 1 else 0
    return started + rounds * (k / parts * step + TILE_CYCLES) + added


# Operands


def laid_out(array: Array, *, may_turn: bool) -> tuple[Array, bool]:
    """An operand, (..., rows, K), as the kernel takes it: itself or a copy, or turned, (..., K, rows)."""
    each = _bytes(array)
    if _fits(array, each):
        return array, False
    turned = array.swapaxes(-1, -2)
    if may_turn and _fits(turned, each):
        return turned, True
    return padded(array, each), False


def _fits(array: Array, each: int) -> bool:
    info = info_of(array)
    *steps, last = (int(step) for step in info.steps)
    aligned = all(step * each % ALIGNED == 0 for step in steps) and (info.address or 0) % ALIGNED == 0
    return aligned and last == 1 and all(step > 0 for step in steps) and steps[-1] >= array.shape[-1]


def padded(array: Array, each: int) -> Array:
    """A copy whose rows begin at multiples of 16 bytes."""
    if array.shape[-1] * each % ALIGNED == 0:
        copy = contiguous(array)
        return copy if _fits(copy, each) else copied(like(array), array)
    return copied(room(array, array.shape, kind_of(array)), array)


def room(array: Array, shape: Any, kind: str) -> Array:
    """A new array of that shape whose rows begin at multiples of 16 bytes."""
    run = ALIGNED * 8 // dtype(kind).bits
    *outer, columns = shape
    return like(array, (*outer, -(-columns // run) * run), kind)[..., :columns]


def copied(to: Array, array: Array) -> Array:
    to[...] = array
    return to


# The operator


def outputs(a: Array, b: Array, bias: Array, residual: Array, scale_a: Array, scale_b: Array, activation: str,
            result: str) -> Arrays:  # fmt: skip
    expect("a", a, KINDS)
    expect("b", b, FLOAT8 if kind_of(a) in FLOAT8 else (kind_of(a),))
    fits = len(a.shape) >= 2 and len(b.shape) in (2, len(a.shape)) and a.shape[-1] == b.shape[-2]
    if not fits or (len(b.shape) > 2 and tuple(a.shape[:-2]) != tuple(b.shape[:-2])):
        raise ArgumentError("a and b have no product", given=f"shapes {tuple(a.shape)} and {tuple(b.shape)}",
                            allowed="(..., M, K) and (K, N), or (..., K, N) with the same dimensions")  # fmt: skip
    kind = result or ("bfloat16" if kind_of(a) in FLOAT8 else kind_of(a))
    if kind not in RESULTS:
        raise ArgumentError(f"no result of {kind}", given=kind, allowed=choices(kind, RESULTS))
    if activation not in ACTIVATIONS:
        raise ArgumentError(
            "no such activation", given=repr(activation), allowed=choices(activation, tuple(filter(None, ACTIVATIONS)))
        )
    c = like(a, (*a.shape[:-1], b.shape[-1]), kind)
    _check_epilogue(c, bias, residual, scale_a, scale_b)
    if a.shape[-1] == 0:
        c[...] = 0
    return (c,)


def _check_epilogue(c: Array, bias: Array, residual: Array, scale_a: Array, scale_b: Array) -> None:
    if bias is not None:
        expect("bias", bias, RESULTS, shape=c.shape[-1:])
    if residual is not None:
        expect("residual", residual, RESULTS, shape=c.shape)
    if (scale_a is None) != (scale_b is None):
        raise ArgumentError("scale_a and scale_b come together", given="one of them", allowed="both or none")
    if scale_a is None:
        return
    rows, columns = prod(c.shape[:-1]), c.shape[-1]
    sizes = (tuple(scale_a.shape), tuple(scale_b.shape))
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        expect(name, scale, ("float32",))
    if sizes not in (((1,), (1,)), ((rows,), (columns,))):
        raise ArgumentError("the scales do not fit", given=f"shapes {sizes[0]} and {sizes[1]}",
                            allowed=f"one number each, or ({rows},) and ({columns},)")  # fmt: skip


@dataclass(frozen=True, slots=True)
class After:
    """What follows a product, arrays or None. `Any`: arrays."""

    bias: Any = None
    residual: Any = None
    scale_a: Any = None
    scale_b: Any = None
    activation: str = ""

    @property
    def is_nothing(self) -> bool:
        arrays = (self.bias, self.residual, self.scale_a, self.scale_b)
        return not self.activation and all(array is None for array in arrays)

    @property
    def kinds(self) -> dict[str, str]:
        """The fields of a `Form` that tell of it."""
        kinds = {name: kind_of(array) for name in ("bias", "residual") if (array := getattr(self, name)) is not None}
        scales = "" if self.scale_a is None else "tensor" if self.scale_a.shape[0] == 1 else "rows"
        return {**kinds, "activation": self.activation, "scales": scales}

    def arrays(self, *, turned: bool) -> Arrays:
        """As the kernel takes them, 0 for what there is not. turned: the bias is one for each row."""
        bias, residual, scale_a, scale_b = self.bias, self.residual, self.scale_a, self.scale_b
        if bias is not None:
            bias = contiguous(bias).reshape((-1, 1) if turned else (1, -1))
        if residual is not None and not _fits(residual, _bytes(residual)):
            residual = padded(residual, _bytes(residual))
        if scale_a is not None:
            scale_a, scale_b = contiguous(scale_a).reshape(-1, 1), contiguous(scale_b).reshape(1, -1)
        return tuple(0 if array is None else array for array in (bias, residual, scale_a, scale_b))


def run(results: Arrays, args: Arrays) -> None:
    a, b, bias, residual, scale_a, scale_b, activation, _ = args
    c = results[0]
    if len(b.shape) == 2:
        a, c, residual = (None if x is None else x.reshape(-1, x.shape[-1]) for x in (a, c, residual))
    elif len(b.shape) > 3:
        a, b, c, residual = (None if x is None else x.reshape(-1, *x.shape[-2:]) for x in (a, b, c, residual))
    into = c if _fits(c, _bytes(c)) else room(c, c.shape, kind_of(c))
    multiplied(into, a, b.swapaxes(-1, -2), After(bias, residual, scale_a, scale_b, activation))
    if into is not c:
        c[...] = into


def multiplied(
    c: Array, a: Array, b: Array, after: After = After(), plan: tuple[Tiles, int] | None = None
) -> None:  # fmt: skip
    """C = A @ B.T and what follows, of matrices or of equally many each; C is as the kernel takes it.

    plan: the tiles, and into how many parts K is split; chosen if left out.
    """
    m, k, kind = a.shape[-2], a.shape[-1], kind_of(a)
    steps = ROW_BYTES * 8 // dtype(kind).bits
    few = m <= FEW_ROWS and after.residual is None and after.scale_a is None
    whole = info_of(c).is_contiguous and b.shape[-2] % (ALIGNED // 4) == 0  # what adds the parts up takes no gaps
    split = after.is_nothing and len(a.shape) == 2 and k % steps == 0 and whole
    tiles, parts = plan or chosen(m, b.shape[-2], k // steps, multiprocessors(a), split=split, few=few)
    halves = kind in HALVES
    left, right = (b, a) if few else (a, b)
    sides = laid_out(left, may_turn=halves), laid_out(right, may_turn=halves and not few)
    if parts == 1:
        _launch(tiles, c, sides, few, after)
        return
    into = like(c, (parts, *c.shape), "float32")
    _launch(tiles, into, tuple((_split(side, parts, turned=turned), turned) for side, turned in sides), few, after)
    run_columns((c.reshape(-1),), (into.reshape(parts, -1), kind_of(c)))


def _launch(tiles: Tiles, c: Array, sides: tuple[tuple[Array, bool], ...], few: bool, after: After) -> None:
    """The kernel, with as many clusters as there is work and room for."""
    (a, a_turned), (b, b_turned) = sides
    batched = len(c.shape) > 2
    kinds = [_multiplied_as(kind_of(array)) for array in (a, b)]
    form = Form(kinds[0], kinds[1], kind_of(c), (a_turned, b_turned, few), batched, **after.kinds)
    down, across = a.shape[-1 if a_turned else -2], b.shape[-1 if b_turned else -2]
    work = (c.shape[0] if batched else 1) * -(-down // (tiles.m * tiles.cluster)) * -(-across // tiles.n)
    most = multiprocessors(a) * tiles.resident // tiles.cluster
    product(tiles, form)(a, b, c, *after.arrays(turned=few), min(work, most))


def _bytes(array: Array) -> int:
    """Bytes of an element."""
    return dtype(kind_of(array)).bits // 8


def _multiplied_as(kind: str) -> str:
    return "tf32" if kind == "float32" else kind


def _split(array: Array, parts: int, *, turned: bool) -> Array:
    """The same operand as so many along K, without a copy."""
    if turned:
        return array.reshape(parts, -1, array.shape[-1])
    return array.reshape(array.shape[0], parts, -1).swapaxes(0, 1)


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    torch = sys.modules["torch"]
    a, b, bias, residual, scale_a, _, activation, _ = args
    if scale_a is not None:
        raise ArgumentError("a product with scales has no gradient", given="scale_a", allowed="no scales")
    (slope,) = gradients
    inner = slope
    if activation:
        before = FORWARD(a, b, bias, None, None, None, "", "float32")
        inner = SLOPES[activation](torch, slope.float(), before)
    inner = inner.to(a.dtype)
    rows, columns = (x.reshape(-1, x.shape[-1]) if len(b.shape) == 2 else x for x in (a, inner))
    da = FORWARD(inner, b.transpose(-1, -2), None, None, None, None, "", "")
    db = FORWARD(rows.transpose(-1, -2), columns, None, None, None, None, "", "")
    return (da, db, None if bias is None else inner.reshape(-1, inner.shape[-1]).sum(0).to(bias.dtype),
            None if residual is None else slope.to(residual.dtype), None, None, None, None)  # fmt: skip


# Of each activation, its derivative times the slope behind it, in operators of torch.
SLOPES: dict[str, Any] = {
    "relu": lambda torch, slope, x: torch.ops.aten.threshold_backward(slope, x, 0),
    "gelu": lambda torch, slope, x: torch.ops.aten.gelu_backward(slope, x),
    "silu": lambda torch, slope, x: torch.ops.aten.silu_backward(slope, x),
}
FORWARD = Operator(
    "matmul",
    "(Tensor a, Tensor b, Tensor? bias, Tensor? residual, Tensor? scale_a, Tensor? scale_b, str activation, str result)"
    " -> Tensor",
    outputs,
    run,
    gradient,
)


def matmul(
    a: Array,
    b: Array,
    *,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    scale_a: Array | None = None,
    scale_b: Array | None = None,
    dtype: str | None = None,
) -> Array:
    """activation(a @ b * scale_a * scale_b + bias) + residual, in float32 sums; differentiable in torch without scales.

    a: (..., M, K). b: (K, N), or (..., K, N). Both float16, bfloat16, float32 (multiplied as tf32) or, in any mix,
    float8_e4m3fn and float8_e5m2. They may be transposed views: no copy is made of 16-bit ones, nor of a b with K
    contiguous. dtype: of the result, "float32", "float16", "bfloat16"; that of a if left out, of float8 bfloat16.
    bias: N numbers. residual: as large as the result. activation: "relu", "gelu", "silu". scale_a, scale_b: float32,
    one number each, or one for each row of a and for each column of b.
    """
    flat = [scale if scale is None else scale.reshape(-1) for scale in (scale_a, scale_b)]
    return FORWARD(a, b, bias, residual, *flat, activation or "", dtype or "")
