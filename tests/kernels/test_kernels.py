"""Kernels that people call, on NumPy arrays: against float64, over random shapes, dtypes and pitches."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilewright import kernels
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError
from tilewright.kernels.meeting import for_shifts, shifted
from tilewright.kernels.rows import BIASED, MOST_KEPT, PLAIN, WEIGHTED, Rows, RowUse, blocks, chosen, dealt

Array: TypeAlias = NDArray[Any]
EPSILON = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}  # of results whose size is about one
COLUMNS = (1, 2, 7, 31, 64, 100, 257, 1000, 1030, 2056, 4095)


def wide(array: Array) -> Array:
    return array.astype(np.float64)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def softmax_slope(y: Array, dy: Array) -> Array:
    return np.asarray(y * (dy - (y * dy).sum(-1, keepdims=True)))


def normed(x: Array, *, eps: float, centred: bool) -> tuple[Array, Array]:
    """The rows scaled to a mean square of 1, and their factors."""
    less = x - x.mean(-1, keepdims=True) if centred else x
    scale = 1 / np.sqrt((less * less).mean(-1, keepdims=True) + eps)
    return less * scale, scale


def norm_slopes(x: Array, w: Array, dy: Array, *, centred: bool) -> tuple[Array, ...]:
    z, scale = normed(x, eps=1e-6, centred=centred)
    g = dy * w
    mean = g.mean(-1, keepdims=True) if centred else 0
    dx = scale * (g - (g * z).mean(-1, keepdims=True) * z - mean)
    return (dx, (dy * z).sum(0), dy.sum(0)) if centred else (dx, (dy * z).sum(0))


def loss_of(x: Array, target: Array) -> Array:
    inside = np.clip(target, 0, x.shape[-1] - 1).astype(np.int64)
    return np.asarray(np.log(np.exp(x).sum(-1)) - np.take_along_axis(x, inside[..., None], -1)[..., 0])


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


# By name: the call and its expected result, on the arrays x, y, z of one shape and v, w for the columns.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (lambda x, y, z, v, w: kernels.softmax(x), lambda x, y, z, v, w: softmax(x)),
    "softmax_backward": (
        lambda x, y, z, v, w: operator("softmax")(x, y),
        lambda x, y, z, v, w: softmax_slope(x, y),
    ),
    "rms_norm": (
        lambda x, y, z, v, w: kernels.rms_norm(x, v),
        lambda x, y, z, v, w: normed(x, eps=1e-6, centred=False)[0] * v,
    ),
    "rms_norm_backward": (
        lambda x, y, z, v, w: operator("rms_norm")(x, v, y, 1e-6),
        lambda x, y, z, v, w: norm_slopes(x, v, y, centred=False),
    ),
    "layer_norm": (
        lambda x, y, z, v, w: kernels.layer_norm(x, v, w, 1e-3),
        lambda x, y, z, v, w: normed(x, eps=1e-3, centred=True)[0] * v + w,
    ),
    "layer_norm_backward": (
        lambda x, y, z, v, w: operator("layer_norm")(x, v, y, 1e-6),
        lambda x, y, z, v, w: norm_slopes(x, v, y, centred=True),
    ),
    "add_rms_norm": (
        lambda x, y, z, v, w: kernels.add_rms_norm(x, y, v)[0],
        lambda x, y, z, v, w: normed(x + y, eps=1e-6, centred=False)[0] * v,
    ),
    "silu_mul": (lambda x, y, z, v, w: kernels.silu_mul(x, y), lambda x, y, z, v, w: silu(x) * y),
    "silu_mul_backward": (
        lambda x, y, z, v, w: operator("silu_mul")(x, y, z),
        lambda x, y, z, v, w: (z * y * (s := 1 / (1 + np.exp(-x))) * (1 + x * (1 - s)), z * silu(x)),
    ),
    "transpose": (lambda x, y, z, v, w: kernels.transpose(x), lambda x, y, z, v, w: x.T),
    "column_sum": (lambda x, y, z, v, w: kernels.column_sum(x), lambda x, y, z, v, w: x.sum(0)),
    "row_sum": (lambda x, y, z, v, w: kernels.row_sum(x), lambda x, y, z, v, w: x.sum(1)),
}


def shifted_lines(rows: Rows, *lines: Array) -> tuple[Array, ...]:
    """The arguments with one element for each column as a kernel of these rows takes them."""
    made = for_shifts(rows, *lines)
    for compiled, arguments in shifted(rows, lines, made):
        compiled(*arguments)
    return made


def operator(name: str) -> Any:
    return import_module(f"tilewright.kernels.{name}").BACKWARD


def spaced(rng: np.random.Generator, rows: int, columns: int, kind: str, gap: int, start: int) -> Array:
    """Rows with a gap behind each, of an array that begins anywhere."""
    flat = rng.uniform(-2, 2, start + rows * (columns + gap)).astype(dtype(kind).numpy)
    return flat[start:].reshape(rows, columns + gap)[:, :columns]


def close(found: Array, wanted: Array, kind: str) -> None:
    assert found.shape == wanted.shape
    size = max(1.0, float(np.abs(wanted).max(initial=0)))
    assert np.abs(wide(found) - wanted).max(initial=0) <= EPSILON[kind] * size


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=4, deadline=None)
@given(
    rows=st.integers(1, 5), columns=st.sampled_from(COLUMNS), kind=st.sampled_from(sorted(EPSILON)),
    gap=st.sampled_from((0, 0, 1, 8)), start=st.sampled_from((0, 0, 1, 4)), seed=st.integers(0, 99),
)  # fmt: skip
def test_a_kernel_computes_what_numpy_does(
    name: str, rows: int, columns: int, kind: str, gap: int, start: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arrays = [spaced(rng, rows, columns, kind, gap, start) for _ in range(3)]
    lines = [spaced(rng, 1, columns, kind, 0, start)[0] for _ in range(2)]
    call, meaning = CASES[name]

    found, wanted = call(*arrays, *lines), meaning(*map(wide, arrays), *map(wide, lines))

    for mine, theirs in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True):
        close(mine, theirs, kind)


@pytest.mark.parametrize("columns", [MOST_KEPT + 5, MOST_KEPT + 8])
@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm"])
def test_rows_that_no_registers_hold_are_gone_through_part_by_part(name: str, columns: int) -> None:
    rng = np.random.default_rng(0)
    x, (v, w) = spaced(rng, 1, columns, "float32", 0, 0), rng.uniform(-2, 2, (2, columns)).astype(np.float32)
    call, meaning = CASES[name]

    close(call(x, x, x, v, w), meaning(*map(wide, (x, x, x, v, w))), "float32")


@pytest.mark.parametrize("ignored", [-100, 7, -1])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_cross_entropy_and_its_gradient_leave_out_rows_to_ignore(kind: str, ignored: int) -> None:
    rng = np.random.default_rng(0)
    x, dy = spaced(rng, 6, 100, "float32", 4, 0), rng.uniform(-1, 1, 6).astype(np.float32)
    target = np.array([0, 99, ignored, 7, 64, ignored], kind)
    counts = target != ignored

    loss = kernels.cross_entropy(x, target, ignore_index=ignored)
    dx = operator("cross_entropy")(x, target, ignored, dy)

    close(loss, np.where(counts, loss_of(wide(x), target), 0), "float32")
    close(dx, (softmax(wide(x)) - (np.arange(100) == target[:, None])) * (dy * counts)[:, None], "float32")


def test_cross_entropy_of_rows_that_are_all_ignored_is_zero() -> None:
    x = np.full((3, 10), np.nan, np.float32)

    assert not kernels.cross_entropy(x, np.full(3, -100)).any()


@pytest.mark.parametrize("wrong", [10, -1, -101, 2**32 + 3, 2**63 - 1])
def test_a_target_outside_of_the_row_is_an_error(wrong: int) -> None:
    x, target = np.zeros((2, 2, 10), np.float32), np.array([[0, 9], [wrong, 5]])

    with pytest.raises(ArgumentError, match=r"target\[1, 0\] is no column of x") as caught:
        kernels.cross_entropy(x, target)
    with pytest.raises(ArgumentError, match=r"target\[1, 0\] is no column of x"):
        operator("cross_entropy")(x, target, -100, x[..., 0])
    assert f"ignore_index={wrong}" in str(caught.value), "what is to be tried"
    assert kernels.cross_entropy(x, target, ignore_index=wrong)[1, 0] == 0


@pytest.mark.parametrize("wrong", [10, -1, 2**32 + 3])
def test_the_kernel_marks_a_target_outside_of_the_row_as_nan(wrong: int) -> None:
    """As on a GPU, where nobody looks at the targets before the launch."""
    x, target = np.ones((3, 10), np.float32), np.array([wrong, 3, -100])
    loss, dx, ones = np.zeros(3, np.float32), np.zeros_like(x), np.ones(3, np.float32)
    module = import_module("tilewright.kernels.cross_entropy")

    module.forward(dealt(x), "float32", "int64").simulate(x, target, loss, -100)
    module.backward(dealt(x), "float32", "int64").simulate(x, target, ones, dx, -100)

    assert (np.isnan(loss) == [True, False, False]).all()
    assert (np.isnan(dx).any(1) == [True, False, False]).all()


def test_one_row_has_one_target() -> None:
    x = np.arange(5, dtype=np.float32)

    close(kernels.cross_entropy(x, np.array(3)), loss_of(wide(x[None]), np.array([3]))[0], "float32")


@pytest.mark.parametrize(("kind", "largest", "step"), [("int8", 127, 0.501), ("float8_e4m3fn", 448, 16.1)])
def test_quantized_rows_are_within_half_a_step(kind: str, largest: float, step: float) -> None:
    x = spaced(np.random.default_rng(0), 5, 300, "float32", 0, 0)
    x[3] = 0

    q, scales = kernels.quantize(x, kind)

    assert np.allclose(scales, np.abs(x).max(1) / largest)
    assert (np.abs(wide(q) * scales[:, None] - x) <= step * scales[:, None]).all()
    assert not wide(q)[3].any()


def test_row_argmax_finds_the_first_of_equals() -> None:
    x = np.tile(np.array([[1, 5, 2, 5]], np.float32), (3, 100))

    assert kernels.row_argmax(x).tolist() == [1, 1, 1]


def test_infinities_and_nans_come_out_as_in_numpy() -> None:
    x = np.array([[0, -np.inf, 1], [0, np.nan, 1], [np.inf, 0, 1], [-np.inf] * 3], np.float32)

    y = kernels.softmax(x)

    assert np.allclose(y[0], softmax(wide(x[:1]))[0])
    assert np.isnan(y[1:]).all()


def test_leading_dimensions_are_rows_and_strange_strides_are_copied() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 10), np.float32)

    close(kernels.softmax(x), softmax(wide(x)), "float32")
    close(kernels.softmax(x.transpose(0, 2, 1)), softmax(wide(x.transpose(0, 2, 1))), "float32")
    close(kernels.softmax(x[:, :, ::2]), softmax(wide(x[:, :, ::2])), "float32")
    close(kernels.softmax(x[0, 0]), softmax(wide(x[0, 0])), "float32")
    assert kernels.softmax(x[:0]).shape == (0, 3, 10)


def test_accesses_are_as_wide_as_addresses_and_pitches_allow() -> None:
    x = np.zeros(4 * 1000 + 8, np.float32)
    begin = x.ctypes.data % 16 // 4
    rows = x[(4 - begin) % 4 :][: 4 * 1000].reshape(4, 1000)

    assert dealt(rows).vector == 4
    assert dealt(rows[:, 2:]).vector == 2
    assert dealt(rows[:, :999]).vector == 4
    assert not dealt(rows[:, :999]).whole
    assert dealt(rows.reshape(-1)[:3996].reshape(4, 999)).vector == 1


def test_a_class_of_shapes_is_compiled_once() -> None:
    assert chosen(1000, 4) == chosen(1020, 4)
    assert chosen(1000, 4) != chosen(512, 4)
    assert chosen(1000, 4) != chosen(1024, 4), "rows that fill all accesses are asked nothing"
    made = import_module("tilewright.kernels.softmax").forward
    assert made(chosen(1000, 4), "float32") is made(chosen(1020, 4), "float32")


def test_nothing_is_asked_of_rows_that_fill_all_accesses() -> None:
    forward = import_module("tilewright.kernels.layer_norm").forward

    assert "if (" in forward(chosen(4000, 4), "float32", "float32").source("cuda").split("extern")[1].split("copy/")[1]
    assert " n" not in forward(chosen(4096, 4), "float32", "float32").source("cuda").split("copy/")[1].split("//")[1]


@pytest.mark.parametrize("columns", [8, 100, 1024, 4096, 16384])
def test_rows_are_checked_in_full_on_the_simulator(columns: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, columns), np.float32)
    y = np.zeros_like(x)

    import_module("tilewright.kernels.softmax").forward(dealt(x, y), "float32").simulate(x, y, check="all")

    close(y, softmax(wide(x)), "float32")


LONG: dict[str, tuple[str, Callable[..., Array]]] = {
    "softmax": ("", lambda x, _: softmax(x)),
    "rms_norm": ("w", lambda x, w: normed(x, eps=1e-6, centred=False)[0] * w),
    "layer_norm": ("ww", lambda x, w: normed(x, eps=1e-6, centred=True)[0] * w + w),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("columns", [16385, 20000, 40001, 65536])
@pytest.mark.parametrize("name", LONG)
def test_ctas_of_a_cluster_share_a_long_row(name: str, columns: int) -> None:
    weights, meaning = LONG[name]
    x = np.random.default_rng(0).standard_normal((2, columns), np.float32) + 10
    w, y = x[1].copy(), np.zeros_like(x)
    rows = dealt(x, y, clusters=True)
    made = import_module(f"tilewright.kernels.{name}").forward(rows, *["float32"] * min(2, 1 + len(weights)))

    lines = shifted_lines(rows, *[w for _ in weights])
    made.simulate(x, *lines, y, *[1e-6 for _ in weights[:1]], check="all")

    assert rows.cluster == 1 << (columns - 1).bit_length() - 13
    assert not rows.long
    np.testing.assert_allclose(y, meaning(wide(x), wide(w)), 2e-4, 5e-5 if weights else 1e-9)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (Rows(64, 2, 4, True, cluster=2, turns=3, ahead=1, exact=True), 1024),
        (Rows(64, 2, 4, True, cluster=2, turns=2, ahead=2, early=True), 1020),
        (Rows(64, 4, 1, False, cluster=4, turns=4, ahead=3), 999),
        (Rows(64, 4, 4, True, turns=5, ahead=2), 1000),
        (Rows(64, 4, 4, True, stays=1, ahead=2), 1000),
        (Rows(64, 2, 4, True, cluster=2, stays=1, ahead=1, early=True, near=True, exact=True), 1024),
        (Rows(32 * 3, 3, 4, True, turns=5, ahead=2, cluster=2, early=True), 2304),
    ],
)
@pytest.mark.parametrize("name", LONG)
def test_rows_that_a_cta_takes_next_are_on_their_way(name: str, rows: Rows, columns: int) -> None:
    weights, meaning = LONG[name]
    x = np.random.default_rng(0).standard_normal((5, columns), np.float32) - 5
    w, y = x[1].copy(), np.zeros_like(x)
    made = import_module(f"tilewright.kernels.{name}").forward(rows, *["float32"] * min(2, 1 + len(weights)))

    made.simulate(x, *[w for _ in weights], y, *[1e-6 for _ in weights[:1]], check="all")

    np.testing.assert_allclose(y, meaning(wide(x), wide(w)), 2e-4, 5e-5 if weights else 1e-9)


def test_many_long_rows_are_taken_in_turns_where_weights_are_long_too() -> None:
    def taken(use: RowUse, many: int, columns: int = 65536) -> tuple[int, int]:
        rows = chosen(columns, 8, 2, clusters=True, use=use, many=many)
        return rows.turns, rows.stays

    assert (taken(BIASED, 132), taken(BIASED, 0), taken(PLAIN, 132)) == ((4, 0), (1, 0), (1, 0))
    assert (taken(BIASED, 132, 262144), taken(WEIGHTED, 132, 200000)) == ((1, 15), (1, 15))  # of an H200
    assert (taken(BIASED, 132, 131072), taken(WEIGHTED, 132, 131072)) == ((1, 30), (1, 0))
    assert taken(BIASED, 132, 262136) == (4, 0)  # which would leave too few registers


@pytest.mark.parametrize("columns", [1, 3, 60, 1000, 40001])
def test_the_first_of_the_largest_elements_is_found(columns: int) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (5, columns)).astype(np.float32)
    x[1], x[2, columns // 2 :], x[3] = -np.inf, np.nan, np.inf

    assert (kernels.row_argmax(x) == x.argmax(1)).all()


@pytest.mark.parametrize("shape", [(2, 2048), (3, 700)])
def test_arrays_without_gaps_are_addressed_without_a_pitch(shape: tuple[int, int]) -> None:
    rows, _ = blocks(np.zeros(shape, np.float16))

    text = import_module("tilewright.kernels.silu_mul").forward(rows, "float16").source("cuda")

    assert "* (long long)gate_pitch" not in text
    assert "* (long long)up_pitch" not in text


def test_one_row_of_a_view_has_the_pitch_of_an_array_without_gaps() -> None:
    every_second = np.random.default_rng(0).standard_normal((4, 2048), np.float32)[::2]

    close(kernels.silu_mul(every_second[:1], every_second[1:]), silu(every_second[:1]) * every_second[1:], "float32")


@pytest.mark.parametrize("columns", [1, 5])
def test_a_single_row_that_is_broadcast_has_no_pitch_of_its_own(columns: int) -> None:
    row = np.arange(columns, dtype=np.float32)
    x = np.broadcast_to(row, (1, columns))

    assert kernels.row_sum(x) == row.sum()
    assert (kernels.column_sum(x) == row).all()
    assert kernels.row_argmax(x) == columns - 1
    close(kernels.cross_entropy(x, np.zeros(1, np.int32)), np.log(np.exp(row).sum())[None], "float32")


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", ["layer_norm", "cross_entropy"])
def test_many_bfloat16_rows_of_50257_elements_are_taken(name: str, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As GPT-2's vocabulary has: rows that no copy of 4 bytes takes begin at odd elements."""
    monkeypatch.setattr("tilewright.kernels.rows.MANY", 2)
    x = spaced(np.random.default_rng(0), 3, 50257, "bfloat16", 0, start)

    if name == "layer_norm":
        found, wanted = (
            kernels.layer_norm(x, x[1], x[2], 1e-3),
            CASES["layer_norm"][1](*map(wide, (x, x, x, x[1], x[2]))),
        )
        close(found, wanted, "bfloat16")
    else:
        target = np.array([0, 50256, 7])
        close(kernels.cross_entropy(x, target), loss_of(wide(x), target), "float32")


def test_what_has_no_columns_has_no_largest_element_and_no_loss() -> None:
    with pytest.raises(ArgumentError, match="x has no columns"):
        kernels.row_argmax(np.zeros((3, 0), np.float32))
    with pytest.raises(ArgumentError, match="x has no columns"):
        kernels.cross_entropy(np.zeros((3, 0), np.float32), np.zeros(3, np.int64))
    assert kernels.row_argmax(np.zeros((0, 5), np.float32)).shape == (0,)
    assert kernels.softmax(np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_the_loss_of_a_long_row_is_stored_once() -> None:
    x, target = np.random.default_rng(0).standard_normal((3, 20000), np.float32), np.array([3, 19999, -100])
    loss = np.zeros(3, np.float32)
    made = import_module("tilewright.kernels.cross_entropy").forward(dealt(x, clusters=True), "float32", "int64")

    made.simulate(x, target, loss, -100, check="all")

    close(loss, np.where(target < 0, 0, loss_of(wide(x), target)), "float32")


def test_a_share_that_a_row_does_not_reach_counts_nothing() -> None:
    x = np.full((1, 16392), 7, np.float32)
    y, ones = np.zeros_like(x), np.ones(16392, np.float32)
    rows = Rows(512, 8, 4, True, cluster=4)
    made = import_module("tilewright.kernels.layer_norm").forward(rows, "float32", "float32")

    made.simulate(x, ones, ones, y, 1e-6, check="all")

    assert (y == 1).all()


def test_accesses_of_whole_rows_are_vectors() -> None:
    forward = import_module("tilewright.kernels.softmax").forward

    text = forward(Rows(256, 2, 8, True), "bfloat16").source("cuda")

    assert "*(uint4*)(&X_run" in text
    assert "*(uint4*)(&Y[" in text


def test_sums_of_no_elements_are_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "empty", lambda shape, kind: np.full(shape, 7, kind))

    assert (kernels.column_sum(np.zeros((0, 9), np.float32)) == 0).all()
    assert (kernels.row_sum(np.zeros((9, 0), np.float32)) == 0).all()


def test_what_does_not_fit_is_refused() -> None:
    x = np.zeros((2, 8), np.float32)
    with pytest.raises(ArgumentError, match="x has a dtype that this kernel does not take"):
        kernels.softmax(x.astype(np.int32))
    with pytest.raises(ArgumentError, match="x is no array"):
        kernels.softmax([1.0, 2.0])
    with pytest.raises(ArgumentError, match="x is no array"):
        kernels.column_sum([1.0, 2.0])
    with pytest.raises(ArgumentError, match="the shape of weight does not fit"):
        kernels.rms_norm(x, x[0, :4])
    with pytest.raises(ArgumentError, match="up and gate have different dtypes"):
        kernels.silu_mul(x, x.astype(np.float16))
    with pytest.raises(ArgumentError, match="x has no dimension"):
        kernels.softmax(np.array(1, np.float32))
    with pytest.raises(ArgumentError, match="there is no quantisation to 'int4'"):
        kernels.quantize(x, "int4")
    with pytest.raises(ArgumentError, match="x is no matrix"):
        kernels.transpose(x[0])


def test_rows_far_apart_are_addressed_in_64_bits_and_a_row_is_asked_once() -> None:
    forward = import_module("tilewright.kernels.softmax").forward

    text = forward(Rows(32, 8, 4, True), "float32").source("cuda")

    assert "(long long)row * (long long)x_pitch" in text
    assert text.count("row < m") == 1


def test_an_index_to_ignore_that_is_no_integer_is_refused_by_the_name_that_callers_know() -> None:
    with pytest.raises(ArgumentError, match="argument ignore_index of cross_entropy is an integer"):
        kernels.cross_entropy(np.zeros((2, 5), np.float32), np.zeros(2, np.int64), ignore_index=2.0)  # type: ignore[arg-type]


def test_an_array_of_a_callers_own_subclass_is_taken() -> None:
    x: Array = np.ones((2, 8), np.float32).view(type("Measured", (np.ndarray,), {"__module__": "elsewhere"}))

    assert np.allclose(kernels.softmax(x), 1 / 8)
