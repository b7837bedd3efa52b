"""Matrix products next to each other are done at once, with the same results, counts and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.recording import results_of
from tilewright import T
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError
from tilewright.isa.forms import ELEMENTS
from tilewright.isa.mma import MMA, float_product, widened
from tilewright.sim.fast.products import Fragments, ProductPlan, ProductRun
from tilewright.sim.machine.places import Place

WARPS, CTAS = 4, 3
THREADS = WARPS * 32 * CTAS
ROWS, COLUMNS, LINKS = 2, 3, 2  # fragments of A, of B, and products that are added up
A, B, D = 4 * ROWS * LINKS, 2 * COLUMNS * LINKS, 4 * ROWS * COLUMNS  # registers of a lane, in m16n8k16 of 16 bits
CHECKS = ["none", "all"]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Turn off products at once from this call on."""
    return lambda: monkeypatch.setattr(ProductRun, "__call__", lambda *_: False)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each run that was tried at once: was it done?"""
    return results_of(monkeypatch, ProductRun, "__call__")


def numbers(count: int, kind: str, seed: int) -> np.ndarray[Any, Any]:
    """Registers full of small integers, whose products any order of sums adds up exactly."""
    per_register = 32 // dtype(kind).bits
    values = np.random.default_rng(seed).integers(-3, 4, THREADS * count * per_register)
    return values.astype(dtype(kind).numpy).view(np.uint32)


def tile(types: str = "f32.f16.f16.f32", shape: str = "m16n8k16") -> Any:
    """A tile of products in nested loops, as a matrix product has it."""

    @T.prim_func
    def kernel(A_ptr: T.handle, B_ptr: T.handle, D_ptr: T.handle):
        A_all = T.match_buffer(A_ptr, (THREADS * A,), "uint32")
        B_all = T.match_buffer(B_ptr, (THREADS * B,), "uint32")
        D_all = T.match_buffer(D_ptr, (THREADS * D,), "float32")
        T.device_entry()
        bx = T.cta_id([CTAS])
        thread = T.thread_id([WARPS * 32])
        a = T.alloc_buffer((A,), "uint32", scope="local")
        b = T.alloc_buffer((B,), "uint32", scope="local")
        d = T.alloc_buffer((D,), "float32", scope="local")
        me: T.let = bx * (WARPS * 32) + thread
        for i in T.unroll(A):
            a[i] = A_all[me * A + i]
        for i in T.unroll(B):
            b[i] = B_all[me * B + i]
        for i in T.unroll(D):
            d[i] = D_all[me * D + i]
        for i, j, k in T.grid(ROWS, COLUMNS, LINKS):
            left = a[4 * (i * LINKS + k) : 4 * (i * LINKS + k) + 4]
            right = b[2 * (j * LINKS + k) : 2 * (j * LINKS + k) + 2]
            total = d[4 * (i * COLUMNS + j) : 4 * (i * COLUMNS + j) + 4]
            T.ptx.mma(shape, types, total, left, right, total)
        for i in T.unroll(D):
            D_all[me * D + i] = d[i]

    return kernel


def run(kernel: Any, arrays: tuple[np.ndarray[Any, Any], ...], check: str) -> tuple[np.ndarray[Any, Any], int]:
    """The last array after the kernel, and how many products were counted."""
    copies = [array.copy() for array in arrays]
    found = tw.compile(kernel, target="sm_90a").simulate(*copies, check=check)
    return copies[-1], found.counts.instructions["ptx.mma"]


def tile_arrays(types: str = "f32.f16.f16.f32") -> tuple[np.ndarray[Any, Any], ...]:
    _, left, right, _ = types.split(".")
    sums = numbers(D, "float32", 2).view(np.float32)
    return numbers(A, ELEMENTS[left], 0), numbers(B, ELEMENTS[right], 1), sums


FLOATS = [
    (str(mods["shape"]), str(mods["types"]))
    for form in MMA.forms
    for mods in form.all_mods()
    if form.meaning.product and form.meaning.product(mods) and form.registers_of("a", mods) == 4
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("shape", "types"), FLOATS)
def test_a_tile_at_once_is_the_tile_one_by_one(
    shape: str, types: str, check: str, done: list[bool], one_by_one: Callable[[], None]
) -> None:
    arrays = tile_arrays(types)
    at_once, products = run(tile(types, shape), arrays, check)
    assert set(done) == {True}

    one_by_one()
    expected, each = run(tile(types, shape), arrays, check)

    np.testing.assert_array_equal(at_once, expected)
    assert products == each == ROWS * COLUMNS * LINKS * WARPS * CTAS


def test_sums_that_round_in_each_instruction_are_left_alone(done: list[bool]) -> None:
    """Only float32 accumulators may be added to in any order: a float16 one is rounded every time."""
    for form in MMA.forms:
        for mods in form.all_mods():
            assert form.meaning.product is not None
            assert (form.meaning.product(mods) is not None) == str(mods["types"]).startswith("f32")


def test_an_infinity_stays_in_its_row_and_a_nan_in_its_column(one_by_one: Callable[[], None]) -> None:
    a, b, d = tile_arrays()
    a.view(np.float16)[7], b.view(np.float16)[5] = np.inf, np.nan
    at_once, _ = run(tile(), (a, b, d), "none")
    assert np.isnan(at_once).any()
    assert np.isfinite(at_once).any()

    one_by_one()
    expected, _ = run(tile(), (a, b, d), "none")

    np.testing.assert_array_equal(at_once, expected)


def halves(warps: int, initialised: int) -> Any:
    """One accumulator of some warps, looked at between two runs; A has ``initialised`` of 8 registers."""

    @T.prim_func
    def kernel(A_ptr: T.handle, D_ptr: T.handle):
        A_all = T.match_buffer(A_ptr, (THREADS * 8,), "uint32")
        D_all = T.match_buffer(D_ptr, (THREADS * 8,), "float32")
        T.device_entry()
        bx = T.cta_id([CTAS])
        warp = T.warp_id([WARPS])
        lane = T.lane_id([32])
        a = T.alloc_buffer((8,), "uint32", scope="local")
        d = T.alloc_buffer((4,), "float32", scope="local")
        me: T.let = (bx * WARPS + warp) * 32 + lane
        for i in T.unroll(initialised):
            a[i] = A_all[me * 8 + i]
        for i in T.unroll(4):
            d[i] = T.float32(0)
        if warp < warps:
            for half in range(2):
                for k in T.unroll(4):
                    T.ptx.mma(
                        "m16n8k16", "f32.f16.f16.f32", d[0:4], a[half : half + 4], a[4 + k % 2 : 6 + k % 2], d[0:4]
                    )
                for i in T.unroll(4):
                    D_all[me * 8 + 4 * half + i] = d[i]
                d[half] = T.float32(half + 1)

    return kernel


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("warps", [WARPS, 2])
def test_whoever_looks_at_a_sum_sees_it_and_may_change_it(
    warps: int, check: str, done: list[bool], one_by_one: Callable[[], None]
) -> None:
    arrays = numbers(8, "float16", 0), np.zeros(THREADS * 8, np.float32)
    at_once, _ = run(halves(warps, 8), arrays, check)
    assert set(done) == {True}

    one_by_one()
    expected, _ = run(halves(warps, 8), arrays, check)

    np.testing.assert_array_equal(at_once, expected)
    assert at_once.any()


def turning(turns: int) -> Any:
    """Warps in a grid: two of a row load the same A, two of a column the same B; warp 3 changes a sum in between."""

    @T.prim_func
    def kernel(A_ptr: T.handle, D_ptr: T.handle):
        A_all = T.match_buffer(A_ptr, (8, 32, 8), "float16")
        D_all = T.match_buffer(D_ptr, (4, 32, 4), "float32")
        T.device_entry()
        T.cta_id([1])
        warp = T.warp_id([4])
        lane = T.lane_id([32])
        s = T.alloc_shared((8, 32, 8), "float16")
        a, b = T.alloc_local((8,), "uint32"), T.alloc_local((8,), "uint32")
        d = T.alloc_local((4,), "float32")
        for i in T.unroll(8):
            s[warp, lane, i] = A_all[warp, lane, i]
            s[warp + 4, lane, i] = A_all[warp + 4, lane, i]
        for i in T.unroll(4):
            d[i] = T.cast(warp, "float32")
        T.cuda.cta_sync()
        for turn in range(turns):
            for i in range(2):
                T.ptx.ldmatrix(False, 4, ".b16", s.ptr_to([warp // 2 * 2 + i, lane, 0]), a[4 * i : 4 * i + 4])
            for i in range(2):
                T.ptx.ldmatrix(False, 4, ".b16", s.ptr_to([warp % 2 * 2 + 4 + i, lane, 0]), b[4 * i : 4 * i + 4])
            for i, half in T.grid(2, 2):
                right = b[4 * i + 2 * half : 4 * i + 2 * half + 2]
                T.ptx.mma("m16n8k16", "f32.f16.f16.f32", d[0:4], a[4 * i : 4 * i + 4], right, d[0:4])
            if turn == 20 and warp == 3:
                d[0] = d[0] + T.float32(1)
        for i in T.unroll(4):
            D_all[warp, lane, i] = d[i]

    return kernel


@pytest.mark.parametrize("turns", [1, 16, 40])
def test_products_of_many_turns_are_all_added_before_a_sum_is_read(turns: int, done: list[bool]) -> None:
    blocks = np.random.default_rng(0).integers(-2, 3, (8, 4, 8, 8)).astype(np.float16)

    found, _ = run(turning(turns), (blocks.reshape(8, 32, 8), np.zeros((4, 32, 4), np.float32)), "all")

    assert done == [True] * turns
    lane, register = np.ogrid[:32, :4]
    for warp in range(4):
        sums = np.full((16, 8), warp, np.float32)
        for i in range(2):
            top, bottom, more_top, more_bottom = blocks[warp // 2 * 2 + i].astype(np.float32)
            left = np.block([[top, more_top], [bottom, more_bottom]])
            b = blocks[warp % 2 * 2 + 4 + i].astype(np.float32)
            sums += turns * (left @ (np.hstack(b[:2]) + np.hstack(b[2:])).T)
        expected = sums[lane // 4 + 8 * (register // 2), lane % 4 * 2 + register % 2]
        expected[:, 0] += turns > 20 and warp == 3
        np.testing.assert_array_equal(found[warp], expected)


def test_an_uninitialised_operand_of_a_run_is_reported() -> None:
    arrays = numbers(8, "float16", 0), np.zeros(THREADS * 8, np.float32)

    with pytest.raises(SimulationError, match="uninitialised") as error:
        run(halves(WARPS, 6), arrays, "all")

    assert "an operand of ptx.mma" in str(error.value)
    assert run(halves(WARPS, 6), arrays, "none")[1] > 0


@pytest.mark.parametrize("check", CHECKS)
def test_a_product_that_reads_what_another_wrote_comes_after_it(
    check: str, done: list[bool], one_by_one: Callable[[], None]
) -> None:
    @T.prim_func
    def kernel(D_ptr: T.handle):
        D_all = T.match_buffer(D_ptr, (32 * 8,), "float32")
        T.device_entry()
        T.cta_id([1])
        lane = T.thread_id([32])
        d = T.alloc_buffer((8,), "float32", scope="local")
        for i in T.unroll(8):
            d[i] = T.cast(lane % (i + 2), "float32")
        for k in T.unroll(2):
            T.ptx.mma("m16n8k8", "f32.tf32.tf32.f32", d[4 * k : 4 * k + 4], d[0:4], d[4:6], d[4 * k : 4 * k + 4])
        for i in T.unroll(8):
            D_all[lane * 8 + i] = d[i]

    at_once, _ = run(kernel, (np.zeros(256, np.float32),), check)
    assert done == [False]

    one_by_one()
    expected, _ = run(kernel, (np.zeros(256, np.float32),), check)

    np.testing.assert_array_equal(at_once, expected)


# Runs of products

STARTS = tuple(
    (16 * (i * LINKS + k), 8 * (j * LINKS + k), 16 * (i * COLUMNS + j), 16 * (i * COLUMNS + j))
    for i in range(ROWS)
    for j in range(COLUMNS)
    for k in range(LINKS)
)


def planned(starts: tuple[tuple[int, int, int, int], ...]) -> ProductPlan | None:
    product = float_product("m16n8k16", "float16", "float16")
    left = Fragments(Place("a", "local", 1, 0, 4 * A), product.left, "float16")
    right = Fragments(Place("b", "local", 1, 0, 4 * B), product.right, "float16")
    total = Fragments(Place("d", "local", 1, 0, 4 * D), product.total, "float32")
    return ProductRun(left, right, total, with_shadows=False, tally=0).plan(starts)


def test_a_full_tile_is_one_product() -> None:
    plan = planned(STARTS)

    assert plan is not None
    assert plan.products == len(STARTS)
    (block,) = plan.blocks
    assert block.left.shape == (16 * ROWS, 16 * LINKS)
    assert block.right.shape == (8 * COLUMNS, 16 * LINKS)
    assert block.total.spots.shape == (16 * ROWS, 8 * COLUMNS)


def test_a_tile_with_a_gap_is_two_products() -> None:
    plan = planned(STARTS[:-LINKS])

    assert plan is not None
    assert sorted(block.total.spots.shape for block in plan.blocks) == [(16, 8 * COLUMNS - 8), (16, 8 * COLUMNS)]


@pytest.mark.parametrize(
    ("what", "start"),
    [
        ("C is another register than D", (0, 0, 0, 16)),
        ("accumulators share registers", (0, 0, 8, 8)),
        ("half a register", (2, 0, 16, 16)),
        ("outside of A", (4 * A - 12, 0, 16, 16)),
    ],
)
def test_what_cannot_be_done_at_once_is_left_alone(what: str, start: tuple[int, int, int, int]) -> None:
    assert planned(((0, 0, 0, 0),)) is not None
    assert planned(((0, 0, 0, 0), start)) is None, what


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8"])
def test_every_narrow_number_widens_to_its_value(kind: str) -> None:
    narrow = dtype(kind)
    patterns = np.arange(1 << narrow.bits).astype(f"u{narrow.bits // 8}")
    expected = patterns.view(narrow.numpy).astype(np.float32)

    for some in (patterns, patterns[np.isfinite(expected)]):
        exact = some.view(narrow.numpy).astype(np.float32)
        np.testing.assert_array_equal(widened(some, kind), exact)
        assert (np.signbit(widened(some, kind)) == np.signbit(exact)).all()
