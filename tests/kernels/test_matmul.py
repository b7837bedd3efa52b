"""Matrix products against NumPy: types, majors, ragged sizes, batches, parts of K, what follows; and the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright import kernels
from tilewright.errors import ArgumentError
from tilewright.kernels import forms
from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.kernels.matmul import combine, product
from tilewright.kernels.product_tiles import FITTED_PARTS, candidates, chosen, fitted
from tilewright.kernels.products import After, multiplied

Array = NDArray[Any]
BF16 = MatmulKind("bfloat16", "bfloat16", "bfloat16")
RAGGED = (72, 40, 136)


def integers(*shape: int, kind: str = "bfloat16") -> Array:
    """Numbers whose sums of products are exact in any order."""
    rng = np.random.default_rng(sum(shape))
    return rng.integers(-2, 3, shape).astype(np.float32).astype(kind)


def wide(array: Array) -> Array:
    return array.astype(np.float32)


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("shape", [(128, 256, 64), RAGGED])
def test_products_of_every_type_are_numpys(shape: tuple[int, int, int], kind: str) -> None:
    m, n, k = shape
    a, b = integers(m, k, kind=kind), integers(n, k, kind=kind).T
    c = kernels.matmul(a, b)
    assert np.array_equal(wide(c), wide(wide(a) @ wide(b)).astype(c.dtype).astype(np.float32))


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_operands_of_16_bits_may_lie_either_way(turned: tuple[bool, bool]) -> None:
    m, n, k = RAGGED
    a = integers(k, m).T if turned[0] else integers(m, k)
    b = integers(k, n) if turned[1] else integers(n, k).T
    assert np.array_equal(kernels.matmul(a, b), (wide(a) @ wide(b)).astype(a.dtype))


@pytest.mark.parametrize("kind", ["bfloat16", "float32", "float8_e4m3fn"])
def test_rows_that_are_not_aligned_are_copied(kind: str) -> None:
    a, b = integers(70, 77, kind=kind), integers(77, 67, kind=kind)
    assert np.array_equal(kernels.matmul(a, b, dtype="float32"), wide(a) @ wide(b))


@pytest.mark.every(3)
@pytest.mark.parametrize(("m", "k"), [(1, 72), (3, 512), (16, 72), (40, 72), (64, 512)])
def test_few_rows_are_the_columns_of_the_weights_product(m: int, k: int) -> None:
    a, w, bias = integers(m, k), integers(136, k), integers(136)
    assert np.array_equal(kernels.matmul(a, w.T), (wide(a) @ wide(w).T).astype(a.dtype))
    assert np.array_equal(kernels.matmul(a, w.T, bias=bias), (wide(a) @ wide(w).T + wide(bias)).astype(a.dtype))


@pytest.mark.parametrize("flat", [False, True])
def test_batches_are_multiplied_one_by_one(flat: bool) -> None:
    a, b = integers(3, 72, 64), integers(64, 72) if flat else integers(3, 64, 72)
    assert np.array_equal(kernels.matmul(a, b), (wide(a) @ wide(b)).astype(a.dtype))
    few = integers(2, 2, 8, 64)
    b = integers(2, 2, 64, 72)
    assert np.array_equal(kernels.matmul(few, b), (wide(few) @ wide(b)).astype(a.dtype))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("activation", "result"),
    [(None, "float32"), ("relu", "bfloat16"), ("gelu", "bfloat16"), ("gelu", "float32"), ("silu", "float32")],
)
def test_bias_activation_and_residual_follow_the_product(activation: str | None, result: str) -> None:
    m, n, k = RAGGED
    a, b, bias, residual = integers(m, k) / 8, integers(n, k).T / 8, integers(n), integers(m, n)
    sums = wide(a) @ wide(b) + wide(bias)
    erf = np.vectorize(__import__("math").erf)
    wanted = {
        None: sums,
        "relu": np.maximum(sums, 0),
        "gelu": 0.5 * sums * (1 + erf(sums * 0.5**0.5)),
        "silu": sums / (1 + np.exp(-sums)),
    }[activation] + wide(residual)
    c = kernels.matmul(a, b, bias=bias, activation=activation, residual=residual, dtype=result)
    assert c.dtype == np.dtype(result)
    assert np.allclose(wide(c), wanted, rtol=1e-2 if result == "bfloat16" else 1e-5, atol=1e-4)


@pytest.mark.parametrize("m", [8, 72])
@pytest.mark.parametrize("rows", [False, True])
def test_scales_are_of_the_tensor_or_of_rows_and_columns(rows: bool, m: int) -> None:
    a, b = integers(m, 128, kind="float8_e4m3fn"), integers(136, 128, kind="float8_e5m2").T
    sizes = (m, 136) if rows else (1, 1)
    scale_a, scale_b = (2.0 ** integers(size, kind="float32") for size in sizes)
    c = kernels.matmul(a, b, scale_a=scale_a.reshape(-1, 1) if rows else scale_a, scale_b=scale_b)
    wanted = wide(a) @ wide(b) * scale_a[:, None] * scale_b[None, :]
    assert np.array_equal(wide(c), wide(wanted.astype(c.dtype)))


def test_the_ctas_of_a_cluster_share_k_where_tiles_are_few() -> None:
    assert chosen(128, 128, 128, 132)[0][0].parts > 1
    assert chosen(8192, 8192, 128, 132)[0][0].parts == 1


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("parts", "rows", "columns", "lies", "result"),
    [(2, 5, 72, "batched", "float32"), (2, 5, 72, "plain", "bfloat16"), (8, 20, 64, "plain", "float32"),
     (4, 40, 72, "turned", "bfloat16"), (3, 20, 72, "plain", "bfloat16")],
)  # fmt: skip
def test_shared_sums_are_added_up_before_what_follows_the_product(
    parts: int, rows: int, columns: int, lies: str, result: str
) -> None:
    tiles = Tiles(64, 96 if parts == 3 else 64, cluster=1, parts=parts)
    lead = (2,) if lies == "batched" else ()
    k = 64 * parts + 8
    a = integers(*lead, rows, k)
    b = integers(*lead, k, columns) if lies == "turned" else integers(*lead, columns, k)
    b = b.swapaxes(-1, -2) if lies == "turned" else b
    bias, residual = integers(columns), integers(*lead, rows, columns)
    sums = wide(a) @ wide(b).swapaxes(-1, -2) + wide(bias)
    c = np.zeros(residual.shape, result)
    multiplied(c, a, b, After(bias, residual, activation="relu"), (tiles, True))
    assert np.array_equal(c, (np.maximum(sums, 0) + wide(residual)).astype(result))


@pytest.mark.parametrize(
    ("tiles", "turned", "result", "bias"),
    [(Tiles(64, 32, stages=2, cluster=1, apart=3), False, "bfloat16", ""),
     (Tiles(64, 64, stages=2, cluster=2, apart=2), True, "float32", "float32"),
     (Tiles(64, 64, stages=2, cluster=1, beside=2, apart=2), False, "bfloat16", "bfloat16"),
     (Tiles(64, 32, stages=2, cluster=1, parts=2, apart=3), True, "float16", "")],
)  # fmt: skip
@pytest.mark.usefixtures("all_checks")
def test_parts_of_k_anywhere_are_added_up_by_a_kernel_of_their_own(
    tiles: Tiles, turned: bool, result: str, bias: str
) -> None:
    k = 64 * tiles.apart * tiles.parts + 8
    a, b, more = integers(28, k), integers(44, k), integers(44, kind=bias) if bias else None
    c = np.zeros((28, 48), result)[:, :44]
    multiplied(c, a, b, After(more), (tiles, turned))
    assert np.array_equal(c, (wide(a) @ wide(b).T + (0 if more is None else wide(more))).astype(result))


def test_parts_are_added_up_in_their_order() -> None:
    parts = np.array([1e8, 1, -1e8], np.float32).reshape(3, 1, 1) * np.ones((3, 2, 8), np.float32)
    c = np.zeros((2, 8), np.float32)
    combine(3, "float32").simulate(parts, 0, c, check="all")
    assert (c == np.float32(1e8) + np.float32(1) - np.float32(1e8)).all()
    combine(3, "float32").simulate(parts[[0, 2, 1]].copy(), 0, c, check="all")
    assert (c == 1).all()


def test_few_rows_and_a_long_k_are_multiplied_in_parts_anywhere() -> None:
    assert chosen(200, 4096, 224, 132)[0][0].apart > 1
    assert chosen(200, 4096, 224, 132, simple=False)[0][0].apart == 1
    assert chosen(4096, 4096, 64, 132)[0][0].apart == 1


def test_rows_stored_upright_may_be_shared_too() -> None:
    a, b = integers(8, 136), integers(72, 136)
    c = np.zeros((8, 72), a.dtype)
    multiplied(c, a, b, plan=(Tiles(m=64, n=128, stages=2, cluster=1, parts=2), False))
    assert np.array_equal(c, (wide(a) @ wide(b).T).astype(a.dtype))


def test_what_cannot_be_multiplied_is_refused() -> None:
    a, b = integers(8, 16), integers(16, 8)
    with pytest.raises(ArgumentError, match="a and b have no product"):
        kernels.matmul(a, a)
    with pytest.raises(ArgumentError, match="b has a dtype"):
        kernels.matmul(a, b.astype(np.float16))
    with pytest.raises(ArgumentError, match="no such activation"):
        kernels.matmul(a, b, activation="rely")
    with pytest.raises(ArgumentError, match="scale_a is neither a number nor an array"):
        kernels.matmul(a, b, scale_a="half", scale_b=0.5)
    with pytest.raises(ArgumentError, match="scale_b has a dtype"):
        kernels.matmul(a, b, scale_a=0.5, scale_b=np.ones(1, np.float64))
    with pytest.raises(ArgumentError, match="the scales do not fit"):
        kernels.matmul(a, b, scale_a=np.ones(7, np.float32), scale_b=np.ones(8, np.float32))
    with pytest.raises(ArgumentError, match="shape of bias"):
        kernels.matmul(a, b, bias=integers(9))


@pytest.mark.parametrize(
    "scales",
    [{"scale_a": 0.5}, {"scale_b": np.full(1, 0.25, np.float32)}, {"scale_a": np.arange(6, dtype=np.float32)},
     {"scale_a": 2, "scale_b": np.arange(8, dtype=np.float32)}],
    ids=["a number", "an array of one number", "one for each row", "a number and one for each column"],
)  # fmt: skip
def test_a_scale_that_is_left_out_is_one_and_a_number_scales_all_rows(scales: dict[str, Any]) -> None:
    a, b = integers(6, 16), integers(16, 8)
    by_rows, by_columns = scales.get("scale_a", 1), scales.get("scale_b", 1)
    by_rows = by_rows[:, None] if np.ndim(by_rows) else by_rows

    assert np.array_equal(kernels.matmul(a, b, **scales), (a @ b) * by_rows * by_columns)


def test_a_bias_of_float32_has_arrived_before_it_is_added() -> None:
    a, b, bias = np.ones((8, 16), np.float32), np.ones((16, 32), np.float32), np.full(32, 100, np.float32)
    assert (kernels.matmul(a, b, bias=bias) == 116).all()


@pytest.mark.parametrize("batch", [(), (2,)])
def test_of_an_empty_k_there_is_what_follows_the_sums(batch: tuple[int, ...]) -> None:
    a, b, bias = np.zeros((*batch, 8, 0), np.float16), np.zeros((0, 8), np.float16), integers(8, kind="float32")
    residual = integers(*batch, 8, 8, kind="float16")
    assert not kernels.matmul(a, b).any()
    c = kernels.matmul(a, b, bias=bias, residual=residual, activation="relu")
    assert np.array_equal(c, (np.maximum(bias, 0) + wide(residual)).astype(np.float16))


@pytest.mark.parametrize("shape", [(0, 16, 8), (8, 16, 0), (0, 0, 0), (0, 0, 8)])
def test_a_result_without_elements_is_empty(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    for lead in ((), (2,), (0,)):
        c = kernels.matmul(integers(*lead, m, k), integers(k, n), bias=integers(n), dtype="float32")
        assert (c.shape, c.dtype) == ((*lead, m, n), np.float32)


@pytest.mark.parametrize(("m", "n"), [(1, 24), (8, 1)])
def test_scales_may_be_those_of_a_single_row_or_column(m: int, n: int) -> None:
    a, b = integers(m, 32, kind="float8_e4m3fn"), integers(n, 32, kind="float8_e4m3fn").T
    left, right = (2.0 ** integers(size, kind="float32") for size in (m, n))
    c = kernels.matmul(a, b, scale_a=left, scale_b=right, dtype="float32")
    assert np.array_equal(c, wide(a) @ wide(b) * left[:, None] * right[None, :])


def test_scales_may_be_numbers() -> None:
    a, b = integers(8, 32, kind="float8_e4m3fn"), integers(24, 32, kind="float8_e4m3fn").T
    wanted = kernels.matmul(a, b, scale_a=np.full(1, 0.5, np.float32), scale_b=np.full(1, 3, np.float32))
    for numbers in ((0.5, 3), (np.float64(0.5), np.int32(3)), (np.array(0.5, np.float32), 3)):
        assert np.array_equal(kernels.matmul(a, b, scale_a=numbers[0], scale_b=numbers[1]), wanted)


@pytest.mark.parametrize("tiles", [Tiles(m=64, n=64, stages=2), Tiles(n=128, stages=2, cluster=1)])
def test_the_ring_passes_every_check(tiles: Tiles) -> None:
    a, b = integers(72, 72), integers(72, 72)
    c = np.zeros((72, 72), a.dtype)
    run = product(tiles, BF16).simulate(a, b, c, 0, 0, 0, 0, 1, check="all")
    assert run.warnings == []
    assert np.array_equal(c, (wide(a) @ wide(b).T).astype(a.dtype))


def test_ctas_that_store_different_numbers_of_tiles_pass_every_check() -> None:
    a, b = integers(8, 72), integers(200, 72)
    c = np.zeros((8, 200), a.dtype)
    run = product(Tiles(m=64, n=64, stages=2, cluster=1), BF16).simulate(a, b, c, 0, 0, 0, 0, 3, check="all")
    assert run.warnings == []
    assert np.array_equal(c, (wide(a) @ wide(b).T).astype(a.dtype))


def test_rows_of_batches_have_scales_of_their_own() -> None:
    a, b = integers(2, 9, 32, kind="float8_e4m3fn"), integers(2, 32, 24, kind="float8_e4m3fn")
    left, right = (2.0 ** integers(size, kind="float32") for size in (18, 24))
    c = kernels.matmul(a, b, scale_a=left, scale_b=right, dtype="float32")
    assert np.array_equal(c, wide(a) @ wide(b) * left.reshape(2, 9, 1) * right)


def test_a_bias_and_scales_fit_beside_the_largest_tiles() -> None:
    form = replace(BF16, a="float8_e4m3fn", b="float8_e4m3fn", bias="float32", scales="rows")
    assert product(Tiles(), form).lowered.launch is not None  # more shared memory than there is would be refused


def test_the_exchange_passes_every_check() -> None:
    a, b = integers(72, 264), integers(13, 264)
    c = np.zeros((13, 72), a.dtype)
    tiles = Tiles(m=64, n=16, stages=2, cluster=1, parts=4, resident=2)
    run = product(tiles, replace(BF16, turned=(False, False, True))).simulate(a, b, c, 0, 0, 0, 0, 1, check="all")
    assert run.warnings == []
    assert np.array_equal(c, (wide(b) @ wide(a).T).astype(a.dtype))


def test_sums_of_large_tiles_travel_through_the_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "MOST_BESIDE", 0)
    tiles, a, b = Tiles(m=64, n=16, stages=2, cluster=1, parts=4), integers(72, 264), integers(13, 264)
    c = np.zeros((13, 72), a.dtype)
    run = product.__wrapped__(tiles, replace(BF16, turned=(False, False, True))).simulate(
        a, b, c, 0, 0, 0, 0, 1, check="all"
    )
    assert run.warnings == []
    assert np.array_equal(c, (wide(b) @ wide(a).T).astype(a.dtype))


@pytest.mark.parametrize("turned", [(False, False, False), (True, False, True), (False, True, True)])
def test_four_ctas_in_a_square_share_both_operands(turned: tuple[bool, bool, bool]) -> None:
    tiles, a, b = Tiles(m=64, n=48, stages=2, cluster=2, beside=2), integers(136, 72), integers(104, 72)
    sides = [np.ascontiguousarray(x.T) if across else x for x, across in zip((a, b), turned, strict=False)]
    c = np.zeros((104, 136) if turned[2] else (136, 104), a.dtype)
    run = product(tiles, replace(BF16, turned=turned)).simulate(*sides, c, 0, 0, 0, 0, 2, check="all")
    assert run.warnings == []
    assert np.array_equal(c.T if turned[2] else c, (wide(a) @ wide(b).T).astype(a.dtype))


@pytest.mark.parametrize(
    ("tiles", "turned"),
    [(Tiles(64, 24, stages=3, cluster=1), (False, False, False)),
     (Tiles(64, 48, stages=2, cluster=2), (False, True, True)),
     (Tiles(64, 24, stages=2, cluster=1, beside=2), (False, False, True))],
)  # fmt: skip
def test_warpgroups_that_take_tiles_in_turns_wait_for_the_phases_of_each_other(
    tiles: Tiles, turned: tuple[bool, bool, bool]
) -> None:
    """A K of more steps than the ring has stages: whoever ran ahead would wait for a phase that is long over."""
    k = 64 * tiles.stages + 8
    a, b = integers(72, k), integers(3 * tiles.n, k)
    sides = (a, np.ascontiguousarray(b.T) if turned[1] else b)
    c = np.zeros((3 * tiles.n, 72) if turned[2] else (72, 3 * tiles.n), a.dtype)
    run = product(replace(tiles, pingpong=True), replace(BF16, turned=turned)).simulate(
        *sides, c, 0, 0, 0, 0, 1, check="all"
    )
    assert run.warnings == []
    assert np.array_equal(c.T if turned[2] else c, (wide(a) @ wide(b).T).astype(a.dtype))


@pytest.mark.parametrize(("columns", "result", "turned"), [(72, "bfloat16", 0), (40, "float32", 0), (56, "float16", 1)])
def test_slabs_may_have_rows_that_no_swizzle_has(columns: int, result: str, turned: int) -> None:
    tiles, form = Tiles(64, columns, stages=2, cluster=1), replace(BF16, c=result, turned=(False, False, turned > 0))
    assert form.unit(tiles) == {"bfloat16": 24, "float32": 8, "float16": 56}[result]
    a, b = integers(72, 72), integers(columns + 8, 72)
    c = np.zeros((columns + 8, 72) if turned else (72, columns + 8), result)
    run = product(tiles, form).simulate(a, b, c, 0, 0, 0, 0, 1, check="all")
    assert run.warnings == []
    assert np.array_equal(c.T if turned else c, (wide(a) @ wide(b).T).astype(c.dtype))


def test_short_sides_have_tiles_that_fit() -> None:
    for columns in (24, 72, 200, 331):
        assert all(-(-columns // tiles.n) * tiles.n - columns < 8 * FITTED_PARTS for tiles in fitted(columns))
    assert {tiles.n for tiles in fitted(200)} == {56, 72, 104, 200}
    assert chosen(200, 8192, 32, 132)[0][0].n in (104, 200)
    assert fitted(2000) == ()
    # of a B that CTAs share, each loads whole groups of the 8 rows that a swizzle repeats after
    assert all(tiles.n % (8 * tiles.cluster) == 0 for tiles in (*candidates(), *fitted(200), *fitted(72)))


def test_where_k_is_short_one_tile_is_stored_while_the_next_one_is_multiplied() -> None:
    assert chosen(4096, 8192, 4, 132)[0][0].pingpong
    assert not any(tiles.pingpong for tiles, _ in chosen(1024, 1024, 4, 132, most=20))  # no CTA has two


@pytest.mark.parametrize(
    "tiles", [*(pytest.param(tiles, marks=pytest.mark.long) for tiles in (Tiles(), Tiles(cluster=1))), Tiles(256, 192)]
)
def test_the_kernel_assembles_without_spills_or_complaints(tiles: Tiles) -> None:
    resources = product(tiles, BF16).resources
    assert (resources.registers, resources.spill_store_bytes, resources.local_bytes) == (168, 0, 0)


@pytest.mark.parametrize("tiles", [Tiles(64, 16, cluster=1, parts=2), Tiles(192, 160, cluster=1, parts=5)])
def test_products_of_few_rows_assemble_without_spills(tiles: Tiles) -> None:
    assert product(tiles, replace(BF16, turned=(False, False, True))).resources.local_bytes == 0
