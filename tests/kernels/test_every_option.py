"""Every public kernel but the product, and every gradient, under all checks: over options, dtypes, lengths, layouts and
values. A sample has each pair of choices once; all of them are the long test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.kernels.test_kernels import (
    EPSILON,
    norm_slopes,
    normed,
    operator,
    silu,
    softmax,
    softmax_slope,
    spaced,
    wide,
)
from tilewright import kernels
from tilewright.dtypes import dtype

Array: TypeAlias = NDArray[Any]
EPS = 1e-3


class Case(NamedTuple):
    """One call: the name of a row of `CALLS`, and what its arrays are like."""

    name: str
    columns: int
    form: str
    kind: str
    rows: int
    values: str


class Inputs(NamedTuple):
    """Arrays of one shape, lines with one element for each column, and a target for each row."""

    x: Array
    y: Array
    z: Array
    v: Array
    w: Array
    target: Array


def loss(x: Array, target: Array, ignored: int) -> Array:
    at = np.where(target == ignored, 0, target).astype(np.int64)
    most = x.max(-1)
    mine = np.take_along_axis(x, at[..., None], -1)[..., 0]
    return np.asarray(np.where(target == ignored, 0, np.log(np.exp(x - most[..., None]).sum(-1)) + most - mine))


def loss_slope(x: Array, target: Array, arrived: Array, ignored: int) -> Array:
    hits = np.arange(x.shape[-1]) == target[..., None]
    return np.asarray((softmax(x) - hits) * np.where(target == ignored, 0, arrived)[..., None])


def rows_of(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def slopes_of_norm(*, centred: bool) -> Callable[[Inputs], tuple[Array, ...]]:
    def slopes(i: Inputs) -> tuple[Array, ...]:
        dx, *others = norm_slopes(rows_of(i.x), i.v, rows_of(i.y), centred=centred)
        return dx.reshape(i.x.shape), *others

    return slopes


def scales(largest: float) -> Callable[[Inputs], Array]:
    return lambda i: np.abs(i.x).max(-1) / largest


# The call, and its expected result from the same inputs in double precision.
CALLS: dict[str, tuple[Callable[[Inputs], Any], Callable[[Inputs], Any]]] = {
    "softmax": (lambda i: kernels.softmax(i.x), lambda i: softmax(i.x)),
    "softmax's gradient": (lambda i: operator("softmax")(i.x, i.y), lambda i: softmax_slope(i.x, i.y)),
    "rms_norm": (
        lambda i: kernels.rms_norm(i.x, i.v, eps=EPS),
        lambda i: normed(i.x, eps=EPS, centred=False)[0] * i.v,
    ),
    "rms_norm, weights of float32": (
        lambda i: kernels.rms_norm(i.x, i.v.astype(np.float32)),
        lambda i: normed(i.x, eps=1e-6, centred=False)[0] * i.v,
    ),
    "rms_norm's gradient": (lambda i: operator("rms_norm")(i.x, i.v, i.y, 1e-6), slopes_of_norm(centred=False)),
    "layer_norm": (
        lambda i: kernels.layer_norm(i.x, i.v, i.w, eps=EPS),
        lambda i: normed(i.x, eps=EPS, centred=True)[0] * i.v + i.w,
    ),
    "layer_norm, weights of float32": (
        lambda i: kernels.layer_norm(i.x, i.v.astype(np.float32), i.w.astype(np.float32), eps=EPS),
        lambda i: normed(i.x, eps=EPS, centred=True)[0] * i.v + i.w,
    ),
    "layer_norm's gradient": (lambda i: operator("layer_norm")(i.x, i.v, i.y, 1e-6), slopes_of_norm(centred=True)),
    "add_rms_norm": (
        lambda i: kernels.add_rms_norm(i.x, i.y, i.v),
        lambda i: (normed(i.x + i.y, eps=1e-6, centred=False)[0] * i.v, i.x + i.y),
    ),
    "cross_entropy": (lambda i: kernels.cross_entropy(i.x, i.target), lambda i: loss(i.x, i.target, -100)),
    "cross_entropy, int32, ignore_index=0": (
        lambda i: kernels.cross_entropy(i.x, np.asarray(np.maximum(i.target, 0), np.int32), ignore_index=0),
        lambda i: loss(i.x, np.maximum(i.target, 0), 0),
    ),
    "cross_entropy's gradient": (
        lambda i: operator("cross_entropy")(i.x, i.target, -100, i.z[..., 0].astype(np.float32)),
        lambda i: loss_slope(i.x, i.target, i.z[..., 0], -100),
    ),
    "silu_mul": (lambda i: kernels.silu_mul(i.x, i.y), lambda i: silu(i.x) * i.y),
    "silu_mul's gradient": (
        lambda i: operator("silu_mul")(i.x, i.y, i.z),
        lambda i: (i.z * i.y * (s := 1 / (1 + np.exp(-i.x))) * (1 + i.x * (1 - s)), i.z * silu(i.x)),
    ),
    "quantize": (lambda i: kernels.quantize(i.x)[1], scales(127)),
    "quantize, e4m3": (lambda i: kernels.quantize(i.x, "float8_e4m3fn")[1], scales(448)),
    "quantize, e5m2": (lambda i: kernels.quantize(i.x, dtype="float8_e5m2")[1], scales(57344)),
    "transpose": (lambda i: kernels.transpose(rows_of(i.x)), lambda i: rows_of(i.x).T),
    "row_sum": (lambda i: kernels.row_sum(i.x), lambda i: i.x.sum(-1)),
    "column_sum": (lambda i: kernels.column_sum(i.x), lambda i: rows_of(i.x).sum(0)),
    "column_sum, float32": (lambda i: kernels.column_sum(i.x, dtype="float32"), lambda i: rows_of(i.x).sum(0)),
    "row_argmax": (lambda i: kernels.row_argmax(i.x), lambda i: i.x.argmax(-1)),
}
ONLY_FINITE = ("gradient", "quantize")

FORMS: dict[str, Callable[[Callable[..., Array], int, int], Array]] = {
    "contiguous": lambda made, rows, columns: made(rows, columns, 0, 0),
    "pitch of any size": lambda made, rows, columns: made(rows, columns, 3, 0),
    "pitch of whole accesses": lambda made, rows, columns: made(rows, columns, -columns % 8 + 8, 0),
    "not the first columns": lambda made, rows, columns: made(rows, columns + 1, 0, 0)[:, 1:],
    "begins anywhere": lambda made, rows, columns: made(rows, columns, 0, 1),
    "transposed": lambda made, rows, columns: made(columns, rows, 0, 0).T,
    "every second column": lambda made, rows, columns: made(rows, 2 * columns, 0, 0)[:, ::2],
    "three dimensions": lambda made, rows, columns: made(rows, 2 * columns, 0, 0).reshape(rows, 2, columns),
    "one dimension": lambda made, rows, columns: made(1, columns, 0, 0)[0],
}
KINDS = ("float32", "float16", "bfloat16")
HUGE = {"float32": 1e15, "float16": 100, "bfloat16": 1e15}
VALUES: dict[str, Callable[[Array, str], object]] = {
    "plain": lambda x, kind: None,
    "huge": lambda x, kind: np.multiply(x, dtype(kind).numpy.type(HUGE[kind]), out=x),
    "minus infinity": lambda x, kind: x.put([0, x.size // 2], -np.inf),
    "infinity and NaN": lambda x, kind: x.put([0, x.size - 1], [np.inf, np.nan]),
}
COLUMNS = (1, 2, 3, 7, 151, 1000)
LONG_COLUMNS = (1, 2, 3, 5, 7, 151, 768, 1000, 1536)
VERY_LONG = (5120, 32003, 50257)
ROWS = (1, 3, 9)


def pairs(*axes: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Choices in which each two of two axes meet: greedily, the one with most new pairs among some drawn at random."""
    rng = np.random.default_rng(0)
    numbers = [range(len(axis)) for axis in axes]
    left = {(a, i, b, j) for a, b in combinations(range(len(axes)), 2) for i in numbers[a] for j in numbers[b]}
    while left:
        a, i, b, j = min(left)
        drawn = rng.integers(0, [len(axis) for axis in axes], (30, len(axes)))
        drawn[:, [a, b]] = i, j
        met = [{(p, row[p], q, row[q]) for p, q in combinations(range(len(axes)), 2)} & left for row in drawn.tolist()]
        best = max(range(len(met)), key=lambda k: len(met[k]))
        left -= met[best]
        yield tuple(axis[k] for axis, k in zip(axes, drawn[best], strict=True))


AXES = (tuple(CALLS), COLUMNS, tuple(FORMS), KINDS, ROWS, tuple(VALUES))
SAMPLE = [Case(*each) for each in pairs(*AXES)]
CHOICES = product(tuple(CALLS), LONG_COLUMNS, tuple(FORMS), KINDS)
ALL = [Case(*each, ROWS[k % 3], tuple(VALUES)[k % 4]) for k, each in enumerate(CHOICES)]
FAR = [Case(*each, 2, "plain") for each in product(tuple(CALLS), VERY_LONG, ("contiguous", "begins anywhere"), KINDS)]


def inputs_of(case: Case) -> Inputs:
    rng = np.random.default_rng(len(case.name))

    def made(rows: int, columns: int, gap: int, start: int) -> Array:
        array = spaced(rng, rows, columns, case.kind, gap, start)
        if not any(word in case.name for word in ONLY_FINITE):
            VALUES[case.values](array, case.kind)
        return array

    x, y, z = (FORMS[case.form](made, case.rows, case.columns) for _ in range(3))
    v, w = (spaced(rng, 1, case.columns, case.kind, 0, 0)[0] for _ in range(2))
    target = rng.integers(0, case.columns, x.shape[:-1])
    return Inputs(x, y, z, v, w, np.where(rng.random(target.shape) < 0.3, -100, target))


def run_checked(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate = tw.Executable.simulate

    def checked(self: tw.Executable, *args: Any, **how: Any) -> Any:
        return simulate(self, *args, **{**how, "check": "all"})

    monkeypatch.setattr(tw.Executable, "simulate", checked)
    inputs = inputs_of(case)
    call, meaning = CALLS[case.name]
    with np.errstate(all="ignore"):
        x, y, z, v, w = map(wide, inputs[:-1])
        wanted = meaning(Inputs(x, y, z, v, w, inputs.target))
        found = call(inputs)
    for mine, theirs in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True):
        alike(mine, np.asarray(theirs), case)


def alike(found: Array, wanted: Array, case: Case) -> None:
    assert found.shape == wanted.shape
    with np.errstate(all="ignore"):
        rounded = wanted.astype(found.dtype)  # beyond the largest number of a dtype is infinity
    size = max(
        1.0, float(np.abs(wide(rounded), where=np.isfinite(wide(rounded)), out=np.zeros(rounded.shape)).max(initial=0))
    )
    np.testing.assert_allclose(wide(found), wide(rounded), 0, EPSILON[case.kind] * size)


@pytest.mark.every(8)
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: ", ".join(map(str, case)))
def test_each_pair_of_choices_is_right_under_all_checks(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    run_checked(case, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("case", [*ALL, *FAR], ids=lambda case: ", ".join(map(str, case)))
def test_all_choices_are_right_under_all_checks(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    run_checked(case, monkeypatch)
