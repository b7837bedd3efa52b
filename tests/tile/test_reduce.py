"""Reductions agree with NumPy, over layouts, dtypes, scopes, axes and memories; calls that each variant takes."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.tile.kernels import buffer, extents, kernel, tile_call, whole
from tests.tile.running import Array, meant, run
from tests.tile.strategies import THREADS, memory_layouts, registers
from tilewright import T, Tx, ir, tile
from tilewright.errors import DispatchError, TilewrightError
from tilewright.ir import Argument, Buffer, Call, Evaluate, Kernel, Region
from tilewright.isa import call as instruction
from tilewright.layout import R, S, TileLayout, laneid, mma_fragment_layout, tid_in_wg, tx
from tilewright.lower import plan_shared
from tilewright.primitives import PRIMITIVES
from tilewright.tile import Entry

OPS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
KINDS = ("float32", "float16", "bfloat16", "int32", "int8", "uint16", "float64", "int64")
ROWS = TileLayout(S[(8, 2, 4, 2) : (4 @ laneid, 2, 1 @ laneid, 1)])  # an mma fragment of 16x8
SUMS = TileLayout(S[(8, 2) : (4 @ laneid, 1)] + R[4 : 1 @ laneid])  # one element a row, for all lanes of the row


def numbers(op: str, shape: tuple[int, ...], kind: np.dtype[np.generic], seed: int = 0) -> Array:
    """Small integers, whose sums and products no dtype rounds."""
    low, high = (0, 2) if op == "prod" else (-3, 4)
    drawn = np.random.default_rng(seed).integers(max(low, 0) if kind.kind == "u" else low, high, shape)
    return drawn.astype(kind)


def kind_of_result(op: str, kind: str) -> str:
    return "bool" if op in ("any", "all") else "int32" if op.startswith("arg") else kind


def held(
    op: str,
    dst: Buffer,
    src: Buffer,
    scope: str,
    threads: int,
    *,
    arch: str = "sm_90a",
    seed: int = 0,
    **config: Argument,
) -> Entry:
    """Run one call and compare with NumPy."""
    data = numbers(op, extents(src), src.dtype.numpy, seed)
    before = np.ones(extents(dst), dst.dtype.numpy)
    got, said = run(op, dst, src, data, scope, threads, before, arch, **config)
    config.pop("dispatch", None)
    wanted = meant(op, whole(dst), whole(src), data, before, **config)
    assert np.array_equal(got.astype(np.float64), wanted.astype(np.float64)), str(said)
    return said


@st.composite
def sources(draw: st.DrawFn, scope: str, kind: str) -> Buffer:
    if draw(st.booleans()):
        layout, shape = draw(registers(scope, 128))
        return buffer("S", "local", shape, layout, kind)
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5, 8, 16, 32]), min_size=1, max_size=3)))
    space = draw(st.sampled_from(["shared", "global"]))
    return buffer("S", space, shape, draw(memory_layouts(shape, 16)) if space == "shared" else None, kind)


@settings(max_examples=25)
@given(st.data())
def test_a_reduction_is_what_numpy_says(data: st.DataObject) -> None:
    scope, op, kind = (data.draw(st.sampled_from(list(each))) for each in (THREADS, OPS, KINDS))
    src = data.draw(sources(scope, kind))
    axes = tuple(data.draw(st.sets(st.integers(-len(src.shape), -1), min_size=1)))
    kept = {dim: extent for dim, extent in enumerate(extents(src)) if dim - len(src.shape) not in axes}
    shape = [kept.get(dim, 1) for dim in range(len(src.shape))] if data.draw(st.booleans()) else [*kept.values()] or [1]
    space, into = data.draw(st.sampled_from(["local", "shared", "global"])), kind_of_result(op, kind)
    layout = data.draw(memory_layouts(tuple(shape), 16)) if space == "shared" else None
    if space == "local" and prod(shape) == 32 and scope != "thread":
        layout = S[(32,) : (1 @ laneid,)].broadcast((32,), (32,)) if len(shape) == 1 else None
    dst = buffer("D", space, tuple(shape), layout, into)
    config: dict[str, Argument] = {"axes": axes}
    if not op.startswith("arg") and data.draw(st.booleans()):
        config["accum"] = True
    held(op, dst, src, scope, THREADS[scope], arch="sm_90a", seed=data.draw(st.integers(0, 99)), **config)


def test_lanes_of_a_fragments_row_join_by_shuffles_and_all_have_the_result() -> None:
    src, dst = buffer("S", "local", (16, 8), ROWS, "float32"), buffer("D", "local", (16,), SUMS, "float32")

    said = held("sum", dst, src, "warp", 32)

    assert (said.variant, said.plan) == ("registers", "2 x 2 elements per thread, 4 shuffles")


def test_several_elements_along_an_axis_all_get_the_result_where_the_call_says_so() -> None:
    dst = buffer("D", "local", (16, 4), S[(8, 2, 4) : (4 @ laneid, 1, 1 @ laneid)], "float32")

    said = held("sum", dst, buffer("S", "local", (16, 8), ROWS, "float32"), "warp", 32, thread_reduce=True)

    assert said.plan == "2 x 2 elements per thread, 4 shuffles"
    held("max", dst, buffer("S", "shared", (16, 8), None, "float32"), "warp", 32, thread_reduce=True)


def test_warps_of_a_cta_exchange_once_through_shared_memory() -> None:
    src = buffer("S", "local", (256, 4), S[(256, 4) : (1 @ tx, 1)], "float32")

    said = held("sum", buffer("D", "local", (1,), None, "float32"), src, "cta", 256, axes=(0, 1))

    assert said.plan == ("1 x 4 elements per thread, 5 shuffles, 1 x 8 pieces through shared memory, two barriers")


@pytest.mark.parametrize("op", ["sum", "max", "min", "any", "all"])
def test_a_warp_joins_integers_by_one_instruction(op: str) -> None:
    src = buffer("S", "local", (32,), S[(32,) : (1 @ laneid,)], "int32")
    dst = buffer("D", "local", (1,), None, kind_of_result(op, "int32"))

    assert held(op, dst, src, "warp", 32).plan.endswith("1 x redux")
    assert held(op, dst, src, "warp", 32, arch="sm_75").plan.endswith("5 shuffles")


@pytest.mark.parametrize("length", [1, 2, 3, 7, 32, 33, 100, 256, 257])
@pytest.mark.parametrize("scope", ["thread", "warp", "cta"])
def test_rows_of_any_length_are_reduced(scope: str, length: int) -> None:
    src = buffer("S", "global", (2, length), None, "int32")

    held("sum", buffer("D", "global", (2,), None, "int32"), src, scope, {"thread": 1, "warp": 32, "cta": 64}[scope])


@pytest.mark.parametrize(
    ("kind", "into", "columns", "threads", "stored"),
    [("float32", "float32", 512, 128, 4), ("bfloat16", "float32", 1024, 128, 4), ("float16", "float16", 1024, 64, 8),
     ("float32", "float32", 64, 32, 4), ("float32", "float64", 1000, 128, 2)],
)  # fmt: skip
def test_neighbouring_columns_are_stored_at_a_time(
    kind: str, into: str, columns: int, threads: int, stored: int
) -> None:
    src, dst = buffer("S", "global", (16, columns), None, kind), buffer("D", "global", (columns,), None, into)

    said = held("sum", dst, src, "cta", threads, axes=0)

    assert said.plan.endswith(f", {stored} results at a store")


def test_columns_that_lie_apart_or_accumulate_are_stored_one_by_one() -> None:
    src = buffer("S", "global", (16, 512), None, "float32")

    apart = held("sum", buffer("D", "shared", (512,), S[512:3], "float32"), src, "cta", 128, axes=0)
    more = held("sum", buffer("D", "global", (512,), None, "float32"), src, "cta", 128, axes=0, accum=True)

    assert "at a store" not in apart.plan + more.plan


@pytest.mark.every(2)
@pytest.mark.parametrize("threads", [16, 48, 96])
@pytest.mark.parametrize("axes", [0, 1, (0, 1)])
@pytest.mark.parametrize("space", ["local", "shared"])
def test_any_number_of_threads_reduces(threads: int, axes: int | tuple[int, ...], space: str) -> None:
    shape = {0: (22,), 1: (9,)}.get(axes, (1,)) if isinstance(axes, int) else (1,)
    src = buffer("S", "shared", (9, 22), None, "int32")

    held("sum", buffer("D", space, shape, None, "int32"), src, "cta", threads, axes=axes)
    held("argmax", buffer("D", space, shape, None, "int32"), src, "cta", threads, axes=axes)


def with_nan() -> Array:
    data = np.full((4, 64), -np.inf, np.float32)
    data[1, 3], data[1, 9], data[2, 5], data[2, 8] = np.nan, 7, 7, 7
    data[1, 12] = data[3, 40] = data[3, 8] = np.nan  # a second one in another lane, and in the same lane
    return data


@pytest.mark.parametrize("op", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("space", ["local", "shared"])
def test_the_first_nan_wins_and_the_lowest_of_nothing_is_infinite(op: str, space: str) -> None:
    layout = S[(4, 2, 32) : (2, 1, 1 @ laneid)] if space == "local" else None
    src, dst = (
        buffer("S", space, (4, 64), layout, "float32"),
        buffer("D", "shared", (4,), None, kind_of_result(op, "float32")),
    )
    before = np.zeros(4, dst.dtype.numpy)

    got, _ = run(op, dst, src, with_nan(), "warp", 32, before)

    assert np.array_equal(got, meant(op, whole(dst), whole(src), with_nan(), before), equal_nan=True)


def test_the_number_wins_where_the_call_says_so() -> None:
    src, dst = buffer("S", "shared", (4, 64), None, "float32"), buffer("D", "shared", (4,), None, "float32")

    got, _ = run("max", dst, src, with_nan(), "warp", 32, nan="number")

    assert got.tolist() == [-np.inf, 7, 7, -np.inf]


def test_narrow_floats_are_summed_in_float32() -> None:
    src, dst = buffer("S", "local", (4096,), S[(32, 128) : (1 @ laneid, 1)], "float16"), buffer("D", "local", (1,))
    data = np.full(4096, 1, np.float16)
    data[0] = 2048  # to which float16 adds 1 in vain

    got, _ = run("sum", dst, src, data, "warp", 32)

    assert got[0] == np.float16(2048 + 4095)


def test_a_result_that_lies_on_its_source_waits_until_all_is_read() -> None:
    memory = buffer("S", "shared", (8, 32), None, "int32")
    stmt = tile_call("sum", "cta", (Region(memory, ((0, 1), (0, 32))), memory), axes=0)

    _, report = tile.resolve(kernel(stmt, threads=64), "sm_90a")

    assert "through shared memory" in report.entries[-1].plan


def test_registers_without_a_pattern_go_through_shared_memory() -> None:
    src = buffer("S", "local", (8, 12), S[(3, 32) : (1, 1 @ laneid)], "float32")

    assert held("sum", buffer("D", "shared", (8,), None, "float32"), src, "warp", 64).variant == "staged"


PER_THREAD = buffer("S", "local", (128, 4), S[(128, 4) : (1 @ tid_in_wg, 1)], "float32")
FOUR = buffer("D", "local", (4,), None, "float32")


def beside_barriers(*used: int) -> Kernel:
    """A kernel of two warpgroups that uses these barriers, and sums in each."""
    others = [Evaluate(instruction("ptx.bar.sync", number, 256)) for number in used]
    total = tile_call("sum", "warpgroup", (FOUR, PER_THREAD), axes=0)
    return tile.resolve(kernel(*others, total, threads=256), "sm_90a")[0]


def test_warpgroups_meet_at_barriers_that_the_kernel_does_not_use() -> None:
    calls = [stmt.value for stmt in ir.statements(beside_barriers(15, 12).body) if isinstance(stmt, Evaluate)]

    ids = {str(made.args[0]) for made in calls if isinstance(made, Call) and made.op == "cuda.warpgroup_sync"}

    assert ids == {"T.warpid // 4 + 13"}
    held("sum", FOUR, PER_THREAD, "warpgroup", 256, axes=0)


def test_without_free_barriers_a_warpgroup_is_told_so() -> None:
    with pytest.raises(DispatchError, match="no barriers are left for the warpgroups"):
        beside_barriers(*range(2, 16, 2))


@pytest.mark.parametrize(
    ("dst", "axes", "why"),
    [
        (buffer("D", "local", (4,), None, "float32"), 1, "the extents differ"),
        (buffer("D", "local", (8,), None, "float32"), 2, "has 2 dimensions"),
        (buffer("D", "local", (8,), None, "float32"), (1, -1), "has 2 dimensions"),
        (buffer("D", "local", (8,), None, "int32"), 1, "the dtypes differ"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(dst: Buffer, axes: int | tuple[int, ...], why: str) -> None:
    src = buffer("S", "shared", (8, 16), None, "float32")

    with pytest.raises(DispatchError, match=why):
        tile.resolve(kernel(tile_call("sum", "warp", (dst, src), axes=axes)), "sm_90a")


@pytest.mark.parametrize(
    ("op", "kind", "why"), [("any", "int32", "the result is a bool"), ("argmax", "int16", "the result is an index")]
)
def test_a_result_of_another_kind_is_refused(op: str, kind: str, why: str) -> None:
    src, dst = buffer("S", "shared", (8, 16), None, "float32"), buffer("D", "local", (8,), None, kind)

    with pytest.raises(DispatchError, match=why):
        tile.resolve(kernel(tile_call(op, "warp", (dst, src))), "sm_90a")


def test_scratch_of_cta_calls_lies_in_one_place() -> None:
    src = buffer("S", "local", (256, 4), S[(256, 4) : (1 @ tx, 1)], "float32")
    one = buffer("D", "local", (1,), None, "float32")
    done, _ = tile.resolve(
        kernel(*(tile_call(op, "cta", (one, src), axes=(0, 1)) for op in ("sum", "max")), threads=256), "sm_90a"
    )

    offsets, size = plan_shared(done.body)

    assert len(offsets) == 2
    assert len(set(offsets.values())) == 1
    assert size == 32


@T.prim_func
def joined(A: T.Buffer((64, 24), "float32"), J: T.Buffer((64, 24), "int32"), R: T.Buffer((64,), "float32"),
           Q: T.Buffer((24,), "float32"), X: T.Buffer((64,), "int32"), n: T.int32):  # fmt: skip
    T.cta_id([1])
    T.thread_id([64])
    x = T.alloc_buffer((64, 24), "float32", scope="local", layout=S[(64, 24) : (1 @ tx, 1)])
    Tx.cta.copy(x, A)
    Tx.cta.reduce(R, x, formula="max(abs(a), abs(b))")
    Tx.cta.reduce(Q[0:1], x, formula="a if abs(a) > abs(b) else b", axes=(0, 1))
    Tx.cta.reduce(Q[1:24], A[:, 1:24], axes=0, formula="a * b", identity=1.0)
    Tx.cta.reduce(X, J, formula="a ^ b")
    Tx.cta.reduce(X[0:n], J[0:n, :], formula="a ^ b", accum=True)


def test_elements_are_joined_by_a_formula_of_the_callers() -> None:
    rng = np.random.default_rng(0)
    a, i = rng.uniform(-1, 1, (64, 24)).astype(np.float32), rng.integers(-99, 99, (64, 24)).astype(np.int32)
    r, q, x = np.zeros(64, np.float32), np.zeros(24, np.float32), np.zeros(64, np.int32)
    exe = tw.compile(joined, target="sm_90a")
    exe.simulate(a, i, r, q, x, 10, check="all")

    wanted = np.zeros(64, np.float32)
    PRIMITIVES["reduce"].meaning(wanted, a, formula="maximum(abs(a), abs(b))")
    assert np.array_equal(r, wanted)
    assert np.array_equal(r, abs(a).max(1))
    assert q[0] == a.flat[abs(a).argmax()]
    assert np.allclose(q[1:], a[:, 1:].prod(0), rtol=1e-4)
    assert np.array_equal(x, np.where(np.arange(64) < 10, 0, np.bitwise_xor.reduce(i, 1)))
    assert [each.variant for each in exe.report.entries[1:]] == ["registers", "registers", "memory", "memory", "memory"]


@pytest.mark.parametrize(
    ("formula", "why"), [("a + c", "reads a and b"), ("", "an expression over sources"), ("a ^ b", "is of integers")]
)
def test_a_formula_that_joins_no_two_elements_is_refused(formula: str, why: str) -> None:
    dst, src = (buffer(name, "shared", shape, None, "float32") for name, shape in (("D", (8,)), ("S", (8, 12))))
    with pytest.raises(TilewrightError, match=why):
        tile.resolve(kernel(tile_call("reduce", "warp", (dst, src), formula=formula)), "sm_90a")


def test_each_lane_keeps_the_sum_of_what_it_holds_in_a_view_that_tells_lanes_apart() -> None:
    @T.prim_func
    def partly(A: T.Buffer((16, 64), "float32"), B: T.Buffer((16, 4), "float32")):
        T.cta_id([1])
        T.lane_id([32])
        x = T.alloc_buffer((16, 64), "float32", scope="local", layout=mma_fragment_layout("D", (16, 64), "float32"))
        s = T.alloc_buffer((16, 4), "float32", scope="local", layout=S[(2, 8, 4) : (1, 4 @ laneid, 1 @ laneid)])
        Tx.warp.copy(x, A)
        Tx.warp.sum(s, x.view(16, 8, 4, 2), axes=(1, 3))
        Tx.warp.copy(B, s)

    a, b = numbers("sum", (16, 64), np.dtype(np.float32)), np.zeros((16, 4), np.float32)
    exe = tw.compile(partly, target="sm_90a")
    exe.simulate(a, b, check="all")

    assert np.array_equal(b, a.reshape(16, 8, 4, 2).sum((1, 3)))
    assert exe.report.entries[1].plan == "2 x 16 elements per thread", "no shuffles"
