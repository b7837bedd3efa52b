"""`kernels.matmul`: the arrays that are multiplied, the layouts of operands, and the operator.

Rows of an operand are contiguous along K or, of 16-bit elements, along M or N, and begin at multiples of 16 bytes; any
other is copied first. A product with few rows is turned: the weights' rows are the M of the kernel. Where C has too few
tiles for all multiprocessors, the CTAs of a cluster share K. Where K is short, one tile is stored while the next one is
multiplied.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from numbers import Real
from typing import Any

from tilewright import host
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, TargetError, choices, described
from tilewright.isa import SECTOR_BYTES
from tilewright.kernels.arrays import Array, contiguous, expect, info_of, kind_of, like, multiprocessors, public
from tilewright.kernels.forms import ACTIVATIONS, ROW_BYTES, MatmulKind, Tiles
from tilewright.kernels.matmul import combine, product
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.product_tiles import Lies, chosen, clusters_at_once

HALVES, FLOAT8 = ("bfloat16", "float16"), ("float8_e4m3fn", "float8_e5m2")
KINDS = (*HALVES, "float32", *FLOAT8)
RESULTS = (*HALVES, "float32")
ALIGNED = 16  # bytes: rows begin at multiples
MOST_TRIED = 4  # tiles, where registers do not suffice


def laid_out(array: Array, *, may_turn: bool) -> tuple[Array, bool]:
    """An operand, (..., rows, K), as the kernel takes it: itself or a copy, or turned, (..., K, rows)."""
    nbytes = _bytes(array)
    if _fits(array, nbytes):
        return array, False
    turned = array.swapaxes(-1, -2)
    if may_turn and _fits(turned, nbytes):
        return turned, True
    return padded(array, nbytes), False


def _fits(array: Array, nbytes: int) -> bool:
    info = info_of(array)
    *steps, last = (int(step) for step in info.steps)
    aligned = all(step * nbytes % ALIGNED == 0 for step in steps) and (info.address or 0) % ALIGNED == 0
    return aligned and last == 1 and all(step > 0 for step in steps) and steps[-1] >= array.shape[-1]


def padded(array: Array, nbytes: int) -> Array:
    """A copy whose rows begin at multiples of 16 bytes."""
    if array.shape[-1] * nbytes % ALIGNED == 0:
        copy = contiguous(array)
        return copy if _fits(copy, nbytes) else copied(like(array), array)
    return copied(room(array, array.shape, kind_of(array)), array)


def room(array: Array, shape: Any, kind: str) -> Array:
    """A new array of that shape whose rows begin at multiples of 16 bytes."""
    run = ALIGNED * 8 // dtype(kind).bits
    *outer, columns = shape
    return like(array, (*outer, -(-columns // run) * run), kind)[..., :columns]


def zeros(array: Array, shape: Any, kind: str | None = None) -> Array:
    """A new array of zeros."""
    return filled(like(array, shape, kind), 0)


def filled(to: Array, number: float) -> Array:
    """The array, with this number in each place; torch by `fill_`, which remembered calls can do again."""
    if host.is_torch(to):
        to.fill_(number)
    else:
        to[...] = number
    return to


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
    return (c,)


def _check_epilogue(c: Array, bias: Array, residual: Array, scale_a: Array, scale_b: Array) -> None:
    if bias is not None:
        expect("bias", bias, RESULTS, shape=c.shape[-1:])
    if residual is not None:
        expect("residual", residual, RESULTS, shape=c.shape)
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
    """The arrays of an epilogue, or None. `Any`: arrays."""

    bias: Any = None
    residual: Any = None
    scale_a: Any = None
    scale_b: Any = None
    activation: str = ""

    @property
    def is_simple(self) -> bool:
        """Is there at most a bias?"""
        return self.residual is None and self.scale_a is None and not self.activation

    @property
    def kinds(self) -> dict[str, str]:
        """The fields of a `MatmulKind` for it."""
        kinds = {name: kind_of(array) for name in ("bias", "residual") if (array := getattr(self, name)) is not None}
        numbers = () if self.scale_a is None else (self.scale_a.shape[0], self.scale_b.shape[0])
        scales = {(): "", (1, 1): "tensor"}.get(numbers, "rows")
        return {**kinds, "activation": self.activation, "scales": scales}

    def arrays(self, *, turned: bool, batch: tuple[int, ...]) -> Arrays:
        """The arrays as the kernel takes them, 0 for a missing one. turned: the bias is one for each row."""
        bias, residual, scale_a, scale_b = self.bias, self.residual, self.scale_a, self.scale_b
        if bias is not None:
            bias = contiguous(bias).reshape((-1, 1) if turned else (1, -1))
        if residual is not None and not _fits(residual, _bytes(residual)):
            residual = padded(residual, _bytes(residual))
        if scale_a is not None:
            batch = batch if self.kinds["scales"] == "rows" else ()
            scale_a, scale_b = contiguous(scale_a), contiguous(scale_b)
            if turned:
                scale_a, scale_b = scale_b.reshape(-1, 1), scale_a.reshape(*batch, 1, -1)
            else:
                scale_a, scale_b = scale_a.reshape(*batch, -1, 1), scale_b.reshape(1, -1)
        return tuple(0 if array is None else array for array in (bias, residual, scale_a, scale_b))


def run(results: Arrays, *args: Any) -> Launches:
    a, b, bias, residual, scale_a, scale_b, activation, _ = args
    c = results[0]
    if a.shape[-1] == 0:  # what follows the product is that of zeros
        a, b = zeros(a, (*a.shape[:-1], ALIGNED)), zeros(b, (*b.shape[:-2], ALIGNED, b.shape[-1]))
    if len(b.shape) == 2:
        a, c, residual = (None if x is None else _matrix(x) for x in (a, c, residual))
    elif len(b.shape) > 3:
        a, b, c, residual = (None if x is None else x.reshape(-1, *x.shape[-2:]) for x in (a, b, c, residual))
    into = c if _fits(c, _bytes(c)) else room(c, c.shape, kind_of(c))
    yield from launches(into, a, b.swapaxes(-1, -2), After(bias, residual, scale_a, scale_b, activation))
    if into is not c:
        c[...] = into


def multiplied(
    c: Array, a: Array, b: Array, after: After = After(), plan: tuple[Tiles, bool] | None = None
) -> None:  # fmt: skip
    """C = A @ B.T and the epilogue, carried out; as `launches` says."""
    for compiled, arguments in launches(c, a, b, after, plan):
        compiled(*arguments)


def launches(
    c: Array, a: Array, b: Array, after: After = After(), plan: tuple[Tiles, bool] | None = None
) -> Launches:  # fmt: skip
    """C = A @ B.T and the epilogue, for one matrix each or equally many; C is as the kernel takes it.

    plan: the tiles, and are the weights' rows the M of the kernel? Chosen if left out.
    """
    sides = [laid_out(array, may_turn=kind_of(array) in HALVES) for array in (a, b)]
    tiles, turned = plan or _plan(c, a, b, sides, after)
    left, right = sides[::-1] if turned else sides
    down, across = (array.shape[-1 if lies_turned else -2] for array, lies_turned in (left, right))
    high, wide = tiles.m * tiles.cluster, tiles.n * tiles.beside
    work = tiles.apart * prod(c.shape[:-2]) * -(-down // high) * -(-across // wide)
    clusters = min(work, clusters_at_once(tiles, multiprocessors(a)))
    form = _form(c, sides, after, turned)
    kernel = product(*kernel_of(tiles, form))
    if tiles.apart == 1:
        yield kernel, (left[0], right[0], c, *after.arrays(turned=turned, batch=c.shape[:-2]), clusters)
        return
    sums = room(c, (tiles.apart, *c.shape), "float32")
    yield kernel, (left[0], right[0], sums, 0, 0, 0, 0, clusters)
    bias = 0 if after.bias is None else contiguous(after.bias)
    yield combine(tiles.apart, form.c, form.bias), (sums, bias, c)


def kernel_of(tiles: Tiles, form: MatmulKind) -> tuple[Tiles, MatmulKind]:
    """What the kernel is made of: where K is in parts anywhere, its results are their sums."""
    if tiles.apart == 1:
        return tiles, form
    return replace(tiles, apart=1), replace(form, c="float32", bias="", partial=True)


def _plan(c: Array, a: Array, b: Array, sides: Sequence[tuple[Array, bool]], after: After) -> tuple[Tiles, bool]:
    """The tiles that are estimated to be the fastest, of those that the GPU's compiler finds registers for."""
    steps = -(-a.shape[-1] * dtype(kind_of(a)).bits // (8 * ROW_BYTES))
    batched = len(c.shape) > 2
    best = chosen(
        a.shape[-2], b.shape[-2], steps, multiprocessors(a), c.shape[0] if batched else 1,
        lie=(_lies(*sides[0]), _lies(*sides[1])), simple=after.is_simple and not batched,
        most=MOST_TRIED,
    )  # fmt: skip
    if host.device_of(a) == "cpu":
        return best[0]
    return next((plan for plan in best if has_registers(plan[0], _form(c, sides, after, plan[1]))), best[-1])


@cache
def has_registers(tiles: Tiles, form: MatmulKind) -> bool:
    """Does the kernel assemble without spills? Some versions of the compiler need more registers than others."""
    try:
        return bool(product(*kernel_of(tiles, form)).assembly)
    except TargetError:
        return False


def _form(c: Array, sides: Sequence[tuple[Array, bool]], after: After, turned: bool) -> MatmulKind:
    (a, a_turned), (b, b_turned) = sides[::-1] if turned else sides
    kinds = [_multiplied_as(kind_of(array)) for array in (a, b)]
    lie = (a_turned, b_turned, turned)
    return MatmulKind(kinds[0], kinds[1], kind_of(c), lie, len(c.shape) > 2, partial=False, **after.kinds)


def _lies(array: Array, turned: bool) -> Lies:
    """How an operand lies. Memory moves 32 bytes at once."""
    info = info_of(array)
    starts = [int(step) * _bytes(array) for step in info.steps[:-1]]
    return Lies(all(start % SECTOR_BYTES == 0 for start in (*starts, info.address or 0)), turned)


def _bytes(array: Array) -> int:
    """Bytes of an element."""
    return dtype(kind_of(array)).bits // 8


def _multiplied_as(kind: str) -> str:
    return "tf32" if kind == "float32" else kind


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    torch = sys.modules["torch"]
    a, b, bias, residual, scale_a, _, activation, _ = args
    if scale_a is not None or kind_of(a) in FLOAT8:
        raise ArgumentError("a product with scales or of float8 has no gradient",
                            given=f"a of {kind_of(a)}{'' if scale_a is None else ' with scale_a'}",
                            allowed=f"no scales, and {', '.join((*HALVES, 'float32'))}")  # fmt: skip
    (slope,) = gradients
    inner = slope
    if activation:
        before = FORWARD(a, b, bias, None, None, None, "", "float32")
        inner = SLOPES[activation](torch, slope.float(), before)
    sums = None if bias is None else _matrix(inner).sum(0, dtype=torch.float32).to(bias.dtype)
    inner = inner.to(a.dtype)
    rows, columns = (_matrix(x) if len(b.shape) == 2 else x for x in (a, inner))
    da = FORWARD(inner, b.transpose(-1, -2), None, None, None, None, "", "")
    db = FORWARD(rows.transpose(-1, -2), columns, None, None, None, None, "", "")
    return (da, db, sums, None if residual is None else slope.to(residual.dtype), None, None, None, None)


def _matrix(array: Array) -> Array:
    """All rows below each other, also of an array without any element."""
    return array.reshape(prod(array.shape[:-1]), array.shape[-1])


# For each activation, its derivative times the slope after it, in operators of torch.
SLOPES: dict[str, Any] = {
    "relu": lambda torch, slope, x: torch.ops.aten.threshold_backward(slope, x, 0),
    "gelu": lambda torch, slope, x: torch.ops.aten.gelu_backward(slope, x),
    "silu": lambda torch, slope, x: torch.ops.aten.silu_backward(slope, x),
}
FORWARD = TorchOperator(
    "matmul",
    "(Tensor a, Tensor b, Tensor? bias, Tensor? residual, Tensor? scale_a, Tensor? scale_b, str activation, str result)"
    " -> Tensor",
    outputs,
    run,
    gradient,
    runs_on_nothing=True,
)


def _flat(name: str, scale: Any, a: Array) -> Array | None:
    """A scale as a line of numbers, where ``a`` is. Raises ArgumentError for what is neither."""
    if scale is None:
        return None
    if isinstance(scale, Real) and host.is_array(a):
        return filled(like(a, (1,), "float32"), float(scale))
    if not host.is_array(scale):
        raise ArgumentError(f"{name} is neither a number nor an array", given=described(scale),
                            allowed="a number, or an array of float32")  # fmt: skip
    return scale.reshape(-1)


def _scales(a: Array, b: Array, scale_a: Any, scale_b: Any) -> tuple[Array | None, Array | None]:
    """Both scales as lines of numbers: 1 for one that is left out, and one number for each row beside one for each
    column, or the other way round.
    """
    lines = [_flat(name, scale, a) for name, scale in (("scale_a", scale_a), ("scale_b", scale_b))]
    if all(line is None for line in lines) or not (host.is_array(a) and host.is_array(b)):
        return None, None
    of_a, of_b = (filled(like(a, (1,), "float32"), 1.0) if line is None else line for line in lines)
    if (of_a.shape[0] == 1) != (of_b.shape[0] == 1):
        if of_a.shape[0] == 1:
            of_a = copied(like(of_a, (prod(a.shape[:-1]),)), of_a)
        else:
            of_b = copied(like(of_b, b.shape[-1:]), of_b)
    return of_a, of_b


@public.names
def matmul(
    a: Array,
    b: Array,
    *,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    scale_a: Array | float | None = None,
    scale_b: Array | float | None = None,
    dtype: str | None = None,
) -> Array:
    """activation(a @ b * scale_a * scale_b + bias) + residual, in float32 sums; differentiable in torch without scales.

    a: (..., M, K). b: (K, N), or (..., K, N). Both float16, bfloat16, float32 (multiplied as tf32) or, in any mix,
    float8_e4m3fn and float8_e5m2. They may be transposed views: no copy is made of 16-bit ones, nor of a b with K
    contiguous. dtype: of the result, "float32", "float16", "bfloat16"; that of a if left out, of float8 bfloat16.
    bias: N numbers. residual: as large as the result. activation: "relu", "gelu", "silu". scale_a, scale_b: a number,
    or a float32 array of one number, or of one for each row of a, for each column of b; 1 where left out.
    """
    return FORWARD(a, b, bias, residual, *_scales(a, b, scale_a, scale_b), activation or "", dtype or "")
