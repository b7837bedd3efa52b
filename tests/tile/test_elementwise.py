"""The elementwise primitives over random layouts, dtypes, scopes, regions and broadcasts; what variants choose."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.tile.elementwise import Operand, judged, numbers
from tests.tile.kernels import buffer, extents
from tests.tile.strategies import THREADS, memory_layouts, registers
from tilewright import T, Tx
from tilewright.compiler import Executable
from tilewright.dtypes import dtype
from tilewright.errors import DispatchError
from tilewright.ir import Expr, as_expr
from tilewright.layout import Layout, R, S, TileLayout, laneid, tx
from tilewright.primitives import PRIMITIVES
from tilewright.primitives.elements import INTEGRAL
from tilewright.primitives.elementwise import ELEMENTWISE

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
BOOLS = ("eq", "ne", "lt", "le", "gt", "ge")


@st.composite
def calls(draw: st.DrawFn, name: str) -> tuple[str, Operand, list[Operand | Expr]]:
    """A scope, dst, and sources: tiles that broadcast, in any memory, or numbers."""
    row = PRIMITIVES[name]
    scope = draw(st.sampled_from(list(THREADS)))
    assert row.formula is not None
    of_floats = row.formula.takes == "float" or (row.formula.takes not in INTEGRAL and draw(st.booleans()))
    kinds = FLOATS if of_floats else INTEGERS
    layout, shape = draw(registers(scope, 256))
    in_registers = draw(st.booleans())

    def tile(which: str, extents: tuple[int, ...], held: Layout, kind: str) -> Operand:
        if in_registers and draw(st.booleans()) and extents == shape:
            return Operand(buffer(which, "local", shape, held, kind).region())
        space = draw(st.sampled_from(["shared", "global", "global"]))
        made = (
            draw(st.sampled_from([None, draw(memory_layouts(extents, dtype(kind).bits))]))
            if space == "shared"
            else None
        )
        return Operand(buffer(which, space, extents, made, kind).region())

    to = "bool" if name in BOOLS else draw(st.sampled_from(kinds))
    dst = tile("D", shape, layout, to)
    sources: list[Operand | Expr] = []
    for operand in row.operands[1:]:
        if operand.optional and draw(st.booleans()):
            break
        if sources and draw(st.integers(0, 3)) == 0:
            sources.append(as_expr(draw(st.integers(1, 5))))
            continue
        source_shape = (
            tuple(1 if draw(st.integers(0, 3)) == 0 else extent for extent in shape)[
                draw(st.integers(0, 1)) * (draw(st.integers(0, 2)) == 0) :
            ]
            or shape
        )
        kind = "bool" if operand.name == "pred" else draw(st.sampled_from(kinds))
        source = tile(f"S{len(sources)}", source_shape, layout, kind)
        shown = extents(source.region.buffer)
        divides = name in ("floordiv", "mod") and sources
        sources.append(Operand(source.region, numbers(kind, shown, 9) + 1) if divides else source)
    assume(any(isinstance(source, Operand) for source in sources) or not sources)
    return scope, dst, sources


def right_or_refused(name: str, data: st.DataObject) -> None:
    """Run a drawn call; only one that narrows is refused."""
    scope, dst, sources = data.draw(calls(name))
    try:
        judged(name, dst, sources, scope)
    except DispatchError as refused:
        assert "a conversion that is written" in str(refused)  # noqa: PT017  # whatever narrows is refused


@settings(max_examples=3)
@pytest.mark.parametrize("name", ELEMENTWISE)
@given(data=st.data())
def test_it_computes_what_numpy_says(name: str, data: st.DataObject) -> None:
    right_or_refused(name, data)


@pytest.mark.long
@settings(max_examples=300)
@pytest.mark.parametrize("name", ["add", "gelu", "fma", "select", "lt", "cast", "exp", "maximum"])
@given(data=st.data())
def test_it_computes_what_numpy_says_long(name: str, data: st.DataObject) -> None:
    right_or_refused(name, data)


# Regions that leave their buffers

WIDTHS = (1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 100, 127, 128, 129, 255, 256, 257, 8191, 8192, 8193)


@T.prim_func
def tiles(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float16")
    bx = T.cta_id([T.ceildiv(n, 512)])
    T.thread_id([64])
    Tx.cta.add(C[bx * 512 : bx * 512 + 512], A[bx * 512 : bx * 512 + 512], B[bx * 512 : bx * 512 + 512])


@T.prim_func
def rows(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (3, n), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (3, n), "float16")
    T.cta_id([1])
    T.thread_id([64])
    Tx.cta.add(C[:, 0:n], A[:, 0:n], B[0:n])


@T.prim_func
def one_row(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float16")
    T.cta_id([1])
    T.thread_id([64])
    Tx.cta.add(C[0:n], A[0:n], B[0:n])


HELD = TileLayout(S[(64, 4, 2) : (1 @ tx, 2, 1)])


@T.prim_func
def held(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float16")
    bx = T.cta_id([T.ceildiv(n, 512)])
    T.thread_id([64])
    X = T.alloc_buffer((512,), "float16", scope="local", layout=HELD)
    Y = T.alloc_buffer((512,), "float32", scope="local", layout=HELD)
    Tx.cta.copy(X, A[bx * 512 : bx * 512 + 512], fill=1)
    Tx.cta.copy(Y, B[bx * 512 : bx * 512 + 512], fill=2)
    Tx.cta.add(X, X, Y)
    Tx.cta.copy(C[bx * 512 : bx * 512 + 512], X, clip=True)


@T.prim_func
def staged(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float16")
    bx = T.cta_id([T.ceildiv(n, 512)])
    T.thread_id([64])
    X, Y = T.alloc_shared((512,), "float16"), T.alloc_shared((512,), "float32")
    Tx.cta.copy(X, A[bx * 512 : bx * 512 + 512], clip=True)
    Tx.cta.copy(Y, B[bx * 512 : bx * 512 + 512], clip=True)
    T.cuda.cta_sync()
    Tx.cta.add(C[bx * 512 : bx * 512 + 512], X, Y)


RAGGED = {"tiles": tiles, "rows": rows, "one_row": one_row, "held": held, "staged": staged}


def check_width(name: str, width: int) -> None:
    exe = compiled(name)
    random = np.random.default_rng(width)
    shape = (3, width) if name == "rows" else (width,)
    a, b = random.normal(size=shape).astype(np.float16), random.normal(size=width).astype(np.float32)
    c = np.zeros(shape, np.float16)
    exe.simulate(a, b, c)
    assert np.array_equal(c, (a.astype(np.float32) + b).astype(np.float16)), f"{name}, {width}"


@cache
def compiled(name: str) -> Executable:
    return tw.compile(RAGGED[name], target="sm_90a")


@pytest.mark.parametrize("name", RAGGED)
def test_some_widths_are_right(name: str) -> None:
    for width in WIDTHS:
        check_width(name, width)
    assert not any(entry.variant == "fallback" for entry in compiled(name).report.entries)


@pytest.mark.long
@pytest.mark.parametrize("name", RAGGED)
def test_every_width_is_right(name: str) -> None:
    for width in (*range(1, 258), 8191, 8192, 8193):
        check_width(name, width)


# What variants choose


def tile(name: str, space: str, shape: tuple[int, ...], kind: str = "float32", layout: Layout | None = None) -> Operand:
    return Operand(buffer(name, space, shape, layout, kind).region())


FRAGMENT = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]


def test_runs_of_all_sources_are_loaded_before_one_is_stored() -> None:
    said = judged(
        "add", tile("C", "global", (4096,)), [tile("A", "global", (4096,)), tile("B", "global", (4096,))], "cta", 128
    )

    assert (said.variant, said.plan) == ("turns", "8 x 4 elements for each of 128 threads, 4 at once")


def test_the_widest_dtype_decides_about_the_run() -> None:
    said = judged(
        "cast", tile("C", "global", (1024,), "float16"), [tile("A", "global", (1024,), "float64")], "cta", 128
    )

    assert said.plan == "4 x 2 elements for each of 128 threads, 4 at once, converted to float16"


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_halves_are_computed_in_pairs(kind: str) -> None:
    said = judged("mul", tile("C", "global", (512,), kind), [tile("A", "global", (512,), kind), as_expr(3)])

    assert said.plan == "2 x 8 elements for each of 32 threads, 2 at once, in pairs"


def test_registers_compute_where_they_are() -> None:
    said = judged("exp", tile("R", "local", (8, 8), layout=FRAGMENT), [])

    assert (said.variant, said.plan) == ("holders", "2 x 1 elements per thread")


def test_registers_lead_where_memory_takes_part() -> None:
    said = judged(
        "sub", tile("C", "global", (8, 8)), [tile("b", "shared", (8,)), tile("R", "local", (8, 8), layout=FRAGMENT)]
    )

    assert (said.variant, said.plan.partition(";")[0]) == ("holders", "1 x 2 elements per thread")


def test_a_row_that_all_lanes_of_a_group_hold_is_broadcast_across_threads() -> None:
    per_row = TileLayout(S[(8, 1) : (4 @ laneid, 1)] + R[4 : 1 @ laneid])

    held = tile("R", "local", (8, 8), layout=FRAGMENT)
    said = judged("fdiv", held, [held, tile("Q", "local", (8, 1), layout=per_row)])

    assert said.variant == "holders"


ELSEWHERE = S[(2, 4, 8) : (1, 8 @ laneid, 1 @ laneid)]
BY_ROWS = TileLayout(S[(8, 8) : (1 @ laneid, 1)])
STAGED: dict[str, tuple[Operand, str]] = {
    "a tile of the same size": (tile("Q", "local", (8, 8), layout=ELSEWHERE), "Q by permute_layout/"),
    "rows in a lane each": (tile("Q", "local", (8, 8), layout=BY_ROWS), "Q by permute_layout/"),
    "a row that lanes share": (tile("Q", "local", (8,), layout=S[(8,) : (1 @ laneid,)]), "Q by copy/reg"),
    "a column that lanes share": (tile("Q", "local", (8, 1), layout=S[(8, 1) : (1 @ laneid, 1)]), "Q by copy/reg"),
}


@pytest.mark.parametrize("name", STAGED)
@pytest.mark.parametrize("space", ["local", "global"])
@pytest.mark.parametrize("scope", ["warp", "cta"])
def test_what_other_threads_hold_is_brought_to_those_that_compute(scope: str, space: str, name: str) -> None:
    other, way = STAGED[name]
    held = tile("R", "local", (8, 8), layout=FRAGMENT)
    dst = held if space == "local" else tile("C", "global", (8, 8))

    said = judged("sub", dst, [held, other], scope)

    assert said.variant == "staged"
    assert way in said.plan
    assert "then holders" in said.plan


@st.composite
def elsewhere(draw: st.DrawFn) -> tuple[str, Operand, Operand]:
    scope = draw(st.sampled_from(["warp", "warpgroup", "cta"]))
    layout, shape = draw(registers(scope, 256))
    other = TileLayout(draw(st.permutations(list(layout.shard))))
    one, two = (tile(name, "local", shape, layout=made) for name, made in (("X", layout), ("Y", other)))
    return scope, one, two


@settings(max_examples=20)
@given(elsewhere())
def test_registers_of_any_two_layouts_are_added(made: tuple[str, Operand, Operand]) -> None:
    scope, one, two = made

    assert judged("add", one, [one, two], scope).variant in ("holders", "staged")


DECLINED: dict[str, tuple[list[Operand | Expr], str]] = {
    "no extents": ([tile("A", "global", (7, 8))], "the extents differ"),
    "integers": ([tile("A", "global", (8, 8), "int32")], "exp is of floats"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_cannot_be_is_refused_with_its_reason(name: str) -> None:
    sources, reason = DECLINED[name]

    with pytest.raises(DispatchError) as refused:
        judged("exp", tile("R", "local", (8, 8), layout=FRAGMENT), sources)
    assert reason in str(refused.value)


def test_two_values_are_a_fill() -> None:
    with pytest.raises(DispatchError, match="no source is a tile") as refused:
        judged("add", tile("C", "global", (8,)), [as_expr(1), as_expr(2)])
    assert refused.value.hint == "Tx.fill(C[0:8], value)"


def test_a_number_that_the_integers_of_a_call_cannot_hold_is_refused() -> None:
    with pytest.raises(DispatchError, match="src2 is computed in uint8"):
        judged("add", tile("C", "global", (8,), "uint8"), [tile("A", "global", (8,), "uint8"), as_expr(300)])


# Rounding, NaN, places


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_a_rounding_is_obeyed(mode: Literal["rz", "rm", "rp"]) -> None:
    @T.prim_func
    def third(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.cta_id([1])
        T.thread_id([32])
        Tx.cta.fdiv(B, A, 3, rounding_mode=mode)

    a, b = np.linspace(-4, 4, 64).astype(np.float32), np.zeros(64, np.float32)
    tw.compile(third, target="sm_90a").simulate(a, b)

    above = b.astype(np.float64) * 3 - a
    assert {"rm": (above <= 0), "rp": (above >= 0), "rz": (above * a <= 0)}[mode].all()


def test_a_rounding_that_does_not_exist_is_refused() -> None:
    half = [tile("A", "global", (8,), "float16"), tile("B", "global", (8,), "float16")]

    with pytest.raises(DispatchError, match="rounding_mode='rz' is a rounding of float32"):
        judged("add", tile("C", "global", (8,), "float16"), half, rounding_mode="rz")


@pytest.mark.parametrize("nan", ["propagate", "number"])
def test_nan_propagates_unless_the_number_is_asked_for(nan: Literal["propagate", "number"]) -> None:
    @T.prim_func
    def larger(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.cta_id([1])
        T.thread_id([32])
        Tx.cta.maximum(B, A, B, nan=nan)

    a, b = np.zeros(64, np.float32), np.ones(64, np.float32)
    a[::2] = b[::4] = np.nan
    expected = np.maximum(a, b) if nan == "propagate" else np.fmax(a, b)
    tw.compile(larger, target="sm_90a").simulate(a, b)

    assert np.array_equal(b, expected, equal_nan=True)


@pytest.mark.parametrize("space", ["local", "shared"])
def test_a_value_may_depend_on_the_place(space: str) -> None:
    layout = FRAGMENT if space == "local" else None

    @T.prim_func
    def causal(A: T.Buffer((8, 8), "float32")):
        T.cta_id([1])
        T.thread_id([32])
        X = T.alloc_buffer((8, 8), "float32", scope=space, layout=layout)
        Tx.cta.copy(X, A)
        T.cuda.cta_sync()
        Tx.cta.select(X, X, 0, lambda i, j: j <= i)
        T.cuda.cta_sync()
        Tx.cta.copy(A, X)

    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    expected = np.tril(a)
    tw.compile(causal, target="sm_90a").simulate(a)

    assert (a == expected).all()


@pytest.mark.parametrize(("target", "said"), [("sm_100a", "4 x 2 elements per thread, in pairs"),
                                              ("sm_90a", "8 x 1 elements per thread")])  # fmt: skip
def test_float32_is_multiplied_and_added_in_pairs_where_the_target_can(target: str, said: str) -> None:
    @T.prim_func
    def fused(A: T.Buffer((128, 8), "float32"), B: T.Buffer((128, 8), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        x, y = (T.alloc_buffer((128, 8), "float32", scope="local", layout=S[(128, 8) : (1 @ tx, 1)]) for _ in range(2))
        Tx.cta.copy(x, A)
        Tx.cta.copy(y, B)
        Tx.cta.fma(x, x, y, y)
        Tx.cta.fma(A, x, y, 1.5)

    a, b = (np.random.default_rng(seed).standard_normal((128, 8)).astype(np.float32) for seed in (0, 1))
    wanted = a.copy()
    for addend in (b, np.full_like(b, 1.5)):
        PRIMITIVES["fma"].meaning(wanted, wanted, b, addend)
    exe = tw.compile(fused, target=target)
    exe.simulate(a, b, check="all")

    assert np.array_equal(a, wanted)
    assert exe.report.entries[2].plan == said
