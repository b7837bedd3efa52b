"""The choice among variants, and the report on it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from tests.tile.checking import resolved
from tests.tile.kernels import AT, BX, buffer, copy, copy_async, kernel, tile_call
from tilewright import T, Tx, ir, tile
from tilewright.errors import DispatchError, Span, TilewrightError
from tilewright.ir import (
    AllocBuffer,
    Assume,
    Attr,
    Bind,
    Buffer,
    Expr,
    For,
    If,
    Load,
    Region,
    Var,
    as_expr,
    statements,
)
from tilewright.ir.expr import Value
from tilewright.layout import ComposeLayout, S, SwizzleLayout, TileLayout, laneid
from tilewright.tile.dispatch import VARIANTS, Tried

FRAGMENT = S[(2, 8, 2, 4, 2) : (4, 4 @ laneid, 2, 1 @ laneid, 1)]
REGISTERS = buffer("R", "local", (16, 16), FRAGMENT)
N = Var("n")


def shared(pitch: int = 16, *, align: int = 0) -> Buffer:
    return buffer("A", "shared", (32, 16), S[(32, 16) : (pitch, 1)], align=align)


def top(memory: Buffer, start: Value = 0) -> Region:
    return Region(memory, ((start, 16), (0, 16)))


def refusal(*statements: ir.Stmt) -> TilewrightError:
    with pytest.raises(TilewrightError, match=r".") as refused:
        tile.resolve(kernel(*statements), "sm_90a")
    return refused.value


def test_candidates_are_tried_by_falling_priority_then_by_name() -> None:
    assert [(v.name, v.priority) for v in VARIANTS["copy"].variants] == [
        ("peer", 30), ("multimem", 20), ("replicas", 11), ("gmem_smem", 10), ("ldstmatrix", 10),
        ("ldstmatrix_bits", 10), ("reg", 10), ("rows", 4), ("clipped", 3), ("parts", 2), ("permuted", 1),
        ("converted", 1), ("permuted_and_converted", 1), ("fallback", 0),
    ]  # fmt: skip


def test_every_variant_explains_itself_in_one_line() -> None:
    for row in VARIANTS.values():
        for variant in row.variants:
            assert variant.doc.endswith("."), variant.name
            assert all(each.sentence for each in variant.when)


def test_the_report_has_the_keywords_of_a_call_as_the_kernel_has_them() -> None:
    @T.prim_func
    def turned(A: T.Buffer((16, 16), "float16"), B: T.Buffer((8, 16), "float16"), C: T.Buffer((16, 8), "float32")):
        T.cta_id([1])
        T.lane_id([32])
        a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((8, 16), "float16")
        of_lanes = TileLayout(S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)])
        acc = T.alloc_buffer((16, 8), "float32", scope="local", layout=of_lanes)
        Tx.warp.copy(a, A, vec_len=4)
        Tx.warp.copy(b, B)
        T.cuda.warp_sync()
        Tx.warp.zero(acc)
        Tx.warp.gemm(acc, a, b, transpose_B=True)
        Tx.warp.copy(C, acc)

    _, report = tile.resolve(turned, "sm_90a")

    assert "Tx.warp.copy(a[0:16, 0:16], A[0:16, 0:16], vec_len=4)" in str(report)
    assert "transpose_B=True)" in report.entries[3].call


def test_the_report_has_an_entry_for_each_call_with_every_reason() -> None:
    done, report = tile.resolve(kernel(copy(REGISTERS, top(shared(20))), copy(REGISTERS, top(shared(20)))), "sm_90a")

    first, second = report.entries
    assert (first.line, first.at, first.scope, first.variant) == (21, AT, "warp", "reg")
    assert [each.variant for each in first.tried] == ["gmem_smem", "ldstmatrix", "ldstmatrix_bits"]
    assert first.tried == second.tried
    title, *entries = str(report).splitlines()
    assert title == f"{report.kernel} for sm_90a"
    assert entries[:3] == [
        "stage.py:21: Tx.warp.copy(R[0:16, 0:16], A[0:16, 0:16])",
        "  copy/reg: 4 x 4 bytes (2 elements) per thread; "
        "not by 16 bytes, as 8 neighbours are not contiguous in A, only 2",
        "  not gmem_smem: A is in shared memory and R in local, not global and shared",
    ]
    assert not [stmt for stmt in statements(done.body) if isinstance(stmt, ir.TileCallStmt)]


@pytest.mark.parametrize(
    ("memory", "start", "hint"),
    [
        (shared(20), 0, "S[(32, 16):(24, 1)] for A, which makes its strides multiples of 16 bytes"),
        (shared(16, align=4), 0, "align=16 on A"),
    ],
)
def test_a_near_miss_names_the_smallest_change_that_was_tried(memory: Buffer, start: int, hint: str) -> None:
    _, said = resolved(copy(REGISTERS, top(memory, start)))

    assert (said.variant, said.hints) == ("reg", (hint,))


def test_a_near_miss_names_the_missing_fact() -> None:
    memory = buffer("A", "shared", (16, 64))
    region = Region(memory, ((0, 16), (N, 16)))

    _, said = resolved(copy(REGISTERS, region), symbols=(N,))
    _, with_fact = resolved(Assume(N % 8 == 0), copy(REGISTERS, region), symbols=(N,))

    assert (said.variant, said.hints) == ("reg", ("T.assume(n % 8 == 0)",))
    assert (with_fact.variant, with_fact.hints) == ("ldstmatrix", ())


M, LOADED = Var("m"), Var("loaded")
FROM_MEMORY = Bind(LOADED, Load(buffer("flag", "shared", (4,), None, "int32"), (as_expr(0),)), mutable=False)


@pytest.mark.parametrize(
    ("start", "before", "hint"),
    [
        (N + 4, (), "T.assume((n + 4) % 8 == 0)"),
        (N * 2, (), "T.assume(n % 4 == 0)"),
        (N + BX * 8, (), "T.assume(n % 8 == 0)"),
        (M, (Bind(M, N * 2, mutable=False),), "T.assume(n * 2 % 8 == 0)"),
        (BX * 4, (), "`if bx % 2 == 0:` around the call"),
        (LOADED, (FROM_MEMORY,), "`if loaded % 8 == 0:` around the call"),
        (BX * 8 + 4, (), None),
    ],
)
def test_a_fact_that_is_no_argument_of_the_call_is_hinted_as_a_condition(
    start: Expr, before: tuple[ir.Stmt, ...], hint: str | None
) -> None:
    load = copy(REGISTERS, Region(buffer("A", "shared", (16, 64)), ((0, 16), (start, 16))))

    _, said = resolved(*before, load, symbols=(N,))

    assert (said.variant, said.hints) == ("reg", (hint,) if hint else ())


def test_a_hinted_fact_lets_the_variant_take_the_call() -> None:
    for start, fact in ((N + 4, (N + 4) % 8 == 0), (N * 2, N % 4 == 0), (N + BX * 8, N % 8 == 0)):
        load = copy(REGISTERS, Region(buffer("A", "shared", (16, 64)), ((0, 16), (start, 16))))
        assert resolved(Assume(fact), load, symbols=(N,))[1].variant == "ldstmatrix"
    for start, fact in ((BX * 4, BX % 2 == 0), (LOADED, LOADED % 8 == 0)):
        load = copy(REGISTERS, Region(buffer("A", "shared", (16, 64)), ((0, 16), (start, 16))))
        assert resolved(FROM_MEMORY, If(fact, (load,)))[1].variant == "ldstmatrix"
    doubled = copy(REGISTERS, Region(buffer("A", "shared", (16, 64)), ((0, 16), (M, 16))))
    assert resolved(Assume(N * 2 % 8 == 0), Bind(M, N * 2, mutable=False), doubled)[1].variant == "ldstmatrix"


def test_a_near_miss_names_an_aligned_start() -> None:
    memory = buffer("A", "shared", (16, 64))

    _, said = resolved(copy(REGISTERS, Region(memory, ((0, 16), (4, 16)))))

    assert said.hints == ("A[0:16, 0:16], which begins at a multiple of 8",)
    (reason,) = [each.reason for each in said.tried if each.variant == "ldstmatrix"]
    assert reason == "accesses to A start 8 bytes behind a multiple of 16"


def test_no_hint_is_told_that_does_not_help() -> None:
    hopeless = buffer("A", "shared", (32, 16), S[(32, 16) : (20, 2)])

    assert resolved(copy(REGISTERS, top(hopeless)))[1].hints == ()


def test_dispatch_forces_a_variant() -> None:
    assert resolved(copy(REGISTERS, top(shared())))[1].variant == "ldstmatrix"
    assert resolved(copy(REGISTERS, top(shared()), dispatch="reg"))[1].variant == "reg"


def test_a_forced_variant_that_declines_is_an_error_with_its_reason_and_hint() -> None:
    error = refusal(copy(REGISTERS, top(shared(20)), dispatch="ldstmatrix"))

    assert isinstance(error, DispatchError)
    assert error.at == AT
    assert 'dispatch="ldstmatrix" does not fit' in error.what
    assert error.given == "accesses to A start 40 bytes apart, which is no multiple of 16"
    assert error.hint == "S[(32, 16):(24, 1)] for A, which makes its strides multiples of 16 bytes"


def test_a_forced_variant_whose_condition_fails_says_what_is_allowed() -> None:
    error = refusal(copy(REGISTERS, top(shared()), dispatch="gmem_smem"))

    assert error.given == "A is in shared memory and R in local, not global and shared"
    assert error.allowed == "one side is in global memory, the other in shared"


@pytest.mark.parametrize(
    ("call", "what", "part"),
    [
        (
            copy(REGISTERS, top(shared()), dispatch="ldmatrix"),
            "has no variant 'ldmatrix'",
            "did you mean 'ldstmatrix'?",
        ),
        (
            copy_async(REGISTERS, top(shared()), scope="warp"),
            "no variant takes Tx.warp.copy_async",
            "tcgen05_cp_4: copies from shared to local memory, not from shared to tmem",
        ),
        (
            tile_call("copi", "warp", (REGISTERS, top(shared()))),
            "Tx.warp.copi is no tile primitive",
            "did you mean 'copy'?",
        ),
        (copy(REGISTERS, top(shared()), vec_length=4), "has no keyword 'vec_length'", "did you mean 'vec_len'?"),
        (copy(REGISTERS, Region(shared(), ((0, 16), (0, 8)))), "the extents differ", "R (16, 16), A (16, 8)"),
        (copy(REGISTERS, top(shared(), 20)), "the region of A leaves the buffer", "from 20, 16 elements"),
        (
            copy(REGISTERS, buffer("T", "tmem", (16, 16), kind="float32")),
            "the dtypes differ",
            "R is float16, T is float32",
        ),
        (ir.TileCallStmt("copy", "warp", (REGISTERS.region(),), at=AT), "takes dst and src", "R[0:16, 0:16]"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_at_its_line(call: ir.TileCallStmt, what: str, part: str) -> None:
    error = refusal(call)

    assert what in error.what
    assert part in str(error)
    assert error.at == AT


def test_when_all_decline_the_error_lists_every_variant_with_its_reason() -> None:
    tensor = buffer("T", "tmem", (16, 16))

    error = refusal(copy(REGISTERS, tensor))

    assert [line.partition(":")[0] for line in str(error.given).splitlines()] == [
        "gmem_smem",
        "ldstmatrix, ldstmatrix_bits",
        "reg",
        "rows",
        "clipped",
        "parts",
        "permuted",
        "converted, permuted_and_converted",
        "fallback",
    ]


def test_a_reason_that_several_variants_share_is_told_once() -> None:
    _, said = resolved(copy(REGISTERS, top(shared(20))))
    late, far, near = Tried("one", "it is late"), Tried("two", "it is far"), Tried("three", "it is late")

    assert str(replace(said, tried=(late, far, near))).splitlines()[2:] == [
        "  not one, three: it is late",
        "  not two: it is far",
    ]
    assert "one, three" not in str(replace(said, tried=(late, far, replace(near, hint="sooner"))))


def test_the_error_says_what_the_nearest_variant_allows() -> None:
    spread = refusal(copy(REGISTERS, top(shared()), scope="cluster"))
    elsewhere = refusal(copy_async(REGISTERS, top(shared()), scope="warp"))

    assert str(spread.allowed).partition(": ")[::2] == (
        "ldstmatrix, ldstmatrix_bits, reg, rows, fallback",
        "the call is a thread's, a warp's, a warpgroup's or a CTA's",
    )
    assert [line.rpartition(": ")[2] for line in str(elsewhere.allowed).splitlines()] == [
        "the source is in global memory, the destination in shared",
        "one side is in global memory, the other in shared",
        "both sides are in shared memory",
        "the source is in shared memory, the destination in tmem",
        "one side is in local memory, the other in tmem",
    ]


def test_rows_that_no_matrix_has_are_told_what_would_fit() -> None:
    apart = buffer("A", "shared", (16, 16), S[(16, 16) : (64, 2)])

    error = refusal(copy(REGISTERS, apart, dispatch="ldstmatrix"))

    assert str(error.given).startswith("no 8 neighbours in A form a row")
    assert str(error.allowed).startswith("rows of 16 aligned bytes in shared memory; in registers each matrix of ")


def test_unit_extents_are_ignored() -> None:
    memory = buffer("A", "shared", (3, 16, 1, 16))

    assert resolved(copy(REGISTERS, Region(memory, ((1, 1), (0, 16), (0, 1), (0, 16)))))[1].variant == "ldstmatrix"


def test_names_are_new_to_the_kernel_and_to_each_call() -> None:
    taken = Bind(Var("smem_ptr"), as_expr(0))
    done, _ = resolved(taken, copy(REGISTERS, top(shared())), copy(REGISTERS, top(shared())))

    names = [stmt.var.name for stmt in statements(done.body) if isinstance(stmt, (Bind, For))]
    assert names == ["smem_ptr", "mm", "smem_ptr_1", "mm_1", "smem_ptr_2"]
    assert [str(s.settings[0][1]) for s in statements(done.body) if isinstance(s, Attr)] == [
        "copy/ldstmatrix (stage.py:21)"
    ] * 2


def test_a_kernel_without_tile_calls_stays_as_it_is() -> None:
    made = kernel(AllocBuffer(shared()))

    assert tile.resolve(made, "sm_90a") == (made, tile.DispatchReport((), made.name, "sm_90a"))
    assert str(tile.DispatchReport()) == "no tile calls"


def test_a_view_is_as_aligned_as_the_place_it_views() -> None:
    storage = buffer("S", "shared", (2048,), None)
    views = [
        replace(buffer("A", "shared", (32, 16)), data=storage.ptr_to([start]), elem_offset=more)
        for start, more in ((512, 0), (4, 0), (0, 4), (4, 4))
    ]

    said = [resolved(copy(REGISTERS, top(view)))[1].variant for view in views]

    assert said == ["ldstmatrix", "reg", "reg", "ldstmatrix"]


def test_calls_inside_loops_and_branches_are_resolved() -> None:
    inner = If(Var("warp_id") == 0, (copy(REGISTERS, top(shared())),), (copy(REGISTERS, top(shared())),))

    done, _ = resolved(For(Var("k"), as_expr(0), as_expr(2), (inner,)))

    assert not [stmt for stmt in statements(done.body) if isinstance(stmt, ir.TileCallStmt)]


def test_the_target_may_be_a_name_and_must_exist() -> None:
    with pytest.raises(TilewrightError, match="unknown architecture"):
        tile.resolve(kernel(copy(REGISTERS, top(shared()))), "sm_91")


def test_a_swizzle_alone_is_a_layout() -> None:
    plain = buffer("A", "shared", (16, 32), SwizzleLayout(3, 3, 3))
    composed = buffer("A", "shared", (16, 32), ComposeLayout(SwizzleLayout(3, 3, 3), S[16, 32]))
    part = ((0, 16), (16, 16))

    assert resolved(copy(REGISTERS, Region(plain, part)))[1] == resolved(copy(REGISTERS, Region(composed, part)))[1]


def test_no_warning_is_given_where_a_real_variant_fits() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tile.resolve(kernel(copy(REGISTERS, top(shared()))), "sm_90a")


def test_the_error_shows_the_line_of_the_kernel() -> None:
    call = ir.TileCallStmt("copy", "warp", (REGISTERS.region(), top(shared(20))), "ldstmatrix", at=Span("other.py", 7))

    assert str(refusal(call)).startswith("other.py:7: Tx.warp.copy(")
