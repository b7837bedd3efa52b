"""The arithmetic of each reduction: its identity, the partial result of an element, and the join of two partial
results.

A partial result is a tuple of registers: one number, or for `argmax` and `argmin` a number and its position. Joining is
symmetric in every bit, so that all lanes of a butterfly have the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import ml_dtypes
import numpy as np

from tilewright import isa
from tilewright.dtypes import INT32, INT64, DType, dtype
from tilewright.ir import Expr, as_expr, binary, cast, const, select
from tilewright.primitives.reduce import axes_of, joining_of
from tilewright.tile.call import TileCall
from tilewright.tile.elements import value_of
from tilewright.tile.walks import Ints

__all__ = ["KEYWORDS", "OPERATIONS", "Reduction", "limit_of", "numbered", "reduction_of", "wanted"]

Partial = tuple[Expr, ...]
KEYWORDS = ("axes", "accum", "nan", "thread_reduce", "formula", "identity")
"""What the variants of reductions read."""


def limit_of(kind: DType, *, largest: bool) -> float:
    """The largest or smallest value of a dtype: infinite where it has infinities."""
    if kind.kind == "bool":
        return float(largest)
    if not kind.is_float:
        lowest = -(1 << kind.bits - 1) if kind.kind == "int" else 0
        return lowest + (1 << kind.bits) - 1 if largest else lowest
    has_infinity = bool(np.isinf(np.array(inf).astype(kind.numpy).astype(np.float64)))
    bounds = ml_dtypes.finfo(kind.numpy)  # type: ignore[no-untyped-call]  # of a library without types
    limit = inf if has_infinity else float(bounds.max)
    return limit if largest else (-inf if has_infinity else float(bounds.min))


@dataclass(frozen=True, slots=True)
class Joining:
    """identity: for a dtype. join: the function of two numbers. warp: the instruction that a whole warp joins 32-bit
    integers by. of_numbers: the function of floats in which a NaN loses. finds: the result is a position.
    """

    identity: Callable[[DType], float]
    join: Callable[[Expr, Expr], Expr]
    warp: str = ""
    of_numbers: str = ""
    ordered: bool = False
    finds: bool = False
    truth: bool = False


def _joined(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: binary(op, a, b)


OPERATIONS = {
    "sum": Joining(lambda _: 0, _joined("+"), "cuda.reduce_add_sync"),
    "prod": Joining(lambda _: 1, _joined("*")),
    "max": Joining(
        lambda kind: limit_of(kind, largest=False), _joined("max"), "cuda.reduce_max_sync", "fmax", ordered=True
    ),
    "min": Joining(
        lambda kind: limit_of(kind, largest=True), _joined("min"), "cuda.reduce_min_sync", "fmin", ordered=True
    ),
    "any": Joining(lambda _: 0, _joined("|"), "cuda.reduce_or_sync", truth=True),
    "all": Joining(lambda _: 1, _joined("&"), "cuda.reduce_and_sync", truth=True),
    "argmax": Joining(lambda kind: limit_of(kind, largest=False), _joined(">"), finds=True),
    "argmin": Joining(lambda kind: limit_of(kind, largest=True), _joined("<"), finds=True),
    "reduce": Joining(lambda _: 0, _joined("+")),  # of a formula, see `_by_formula`
}


def _by_formula(formula: str, identity: float) -> Joining:
    """The reduction that a formula of ``a`` and ``b`` makes."""
    step = joining_of(formula)
    return Joining(lambda _: identity, lambda a, b: cast(value_of(step, {"a": a, "b": b}, a.dtype), a.dtype))


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of elements of one dtype into another. row: of `OPERATIONS`, or of a formula. kinds: the dtypes of a
    partial result. numbers: a number wins over a NaN.
    """

    row: Joining
    src: DType
    dst: DType
    kinds: tuple[DType, ...]
    numbers: bool = False

    @property
    def nothing(self) -> Partial:
        """The partial result of no elements."""
        first = const(
            self.row.identity(self.src if self.row.ordered or self.row.finds else self.kinds[0]), self.kinds[0]
        )
        return (first,) if not self.row.finds else (first, const(limit_of(self.kinds[1], largest=True), self.kinds[1]))

    @property
    def padding(self) -> Expr:
        """An element that changes nothing."""
        if self.row.truth:
            return cast(bool(self.row.identity(self.src)), self.src)
        return const(self.row.identity(self.src), self.src)

    def of_element(self, value: Expr, position: Expr | None = None) -> Partial:
        """The partial result of one element."""
        number = select(binary("!=", value, 0), as_expr(1), as_expr(0)) if self.row.truth else value
        first = cast(number, self.kinds[0])
        return (first,) if position is None else (first, cast(position, self.kinds[1]))

    def joined(self, one: Partial, other: Partial) -> Partial:
        """The partial result of the elements of both."""
        a, b = one[0], other[0]
        if self.row.finds:
            taken = self._is_before(one, other)
            return select(taken, a, b), select(taken, one[1], other[1])
        if self.numbers and a.dtype.is_float:
            return (isa.call(self.row.of_numbers, a, b),)
        return (self.row.join(a, b),)

    def _is_before(self, one: Partial, other: Partial) -> Expr:
        """Is the first of the two the result? A NaN wins over numbers, then a lower position wins."""
        (a, at), (b, there) = one, other
        better, same = self.row.join(a, b), binary("==", a, b)
        if a.dtype.is_float:
            a_is_nan, b_is_nan = binary("!=", a, a), binary("!=", b, b)
            better = binary("or", better, binary("and", a_is_nan, binary("==", b, b)))
            same = binary("or", same, binary("and", a_is_nan, b_is_nan))
        return binary("or", better, binary("and", same, binary("<", at, there)))

    def result(self, partial: Partial) -> Expr:
        """What the destination gets."""
        return cast(binary("!=", partial[0], 0) if self.row.truth else partial[-1], self.dst)

    def of_result(self, value: Expr) -> Partial:
        """What the destination has, as a partial result."""
        return (cast(value, self.kinds[0]),)


def reduction_of(call: TileCall, count: int | None) -> Reduction:
    """What a call computes, over ``count`` elements each; None where only the run knows how many."""
    name, src, dst = str(call.option("op", call.stmt.primitive)), call["src"].dtype, call["dst"].dtype
    name = "sum" if name == "scan" else name
    row = OPERATIONS[name]
    if name == "reduce":
        row = _by_formula(str(call.option("formula")), float(str(call.option("identity", 0))))
    numbers = str(call.option("nan", "propagate")) == "number"
    value = INT32 if row.truth else _computed_in(src, src if row.ordered or row.finds else dst)
    if not row.finds:
        return Reduction(row, src, dst, (value,), row.ordered and numbers)
    wide = dst.bits == 64 if count is None else count >= 1 << 31
    return Reduction(row, src, dst, (value, INT64 if wide else INT32))


def numbered(call: TileCall) -> tuple[Ints, Ints]:
    """For each element of the source, in row-major order: the number of its result, and its position in that."""
    extents = call["src"].shape
    axes = axes_of(dict(call.config), len(extents)) or ()
    kept = [dim for dim in range(len(extents)) if dim not in axes]
    coordinates = np.indices(extents).reshape(len(extents), -1)
    return _row_major(coordinates, extents, kept), _row_major(coordinates, extents, axes)


def wanted(call: TileCall) -> Ints:
    """For each element of the destination, in row-major order, the number of the result that it gets."""
    extents = call["dst"].shape
    rank = len(call["src"].extents)
    axes = axes_of(dict(call.config), rank) or ()
    shared = call.option("thread_reduce", False) and len(extents) == rank
    kept = [dim for dim in range(len(extents)) if not (shared and dim in axes)]
    return _row_major(np.indices(extents).reshape(len(extents), -1), extents, kept)


def _row_major(coordinates: Ints, extents: Sequence[int], dims: Sequence[int]) -> Ints:
    total = np.zeros(coordinates.shape[1], np.int64)
    for dim in dims:
        total = total * extents[dim] + coordinates[dim]
    return total


def _computed_in(src: DType, dst: DType) -> DType:
    """The dtype of partial results: at least 32 bits, float32 for narrow floats, int32 for bool."""
    bits = max(32, src.bits, dst.bits)
    return dtype(f"{'int' if src.kind == 'bool' else src.kind}{bits}")
