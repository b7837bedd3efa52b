"""gemm agrees with NumPy, over types, layouts, memories, transposes, scopes; calls that `mma` takes and declines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.texts import executed
from tests.tile.kernels import buffer, extents, kernel
from tests.tile.products import (
    NUMBERING,
    SHARES,
    SHORTEST,
    THREADS,
    TYPES,
    Call,
    Sizes,
    fragments,
    held,
    kinds_of,
    layout_of,
    run,
)
from tests.tile.strategies import memory_layouts
from tilewright import T, Tx, ir, tile
from tilewright.dtypes import dtype
from tilewright.errors import DispatchError, TilewrightError
from tilewright.ir import Buffer, Evaluate
from tilewright.ir import Call as Call_
from tilewright.isa import mma_shape
from tilewright.isa.mma import MMA
from tilewright.lang import parse_script
from tilewright.layout import (
    ComposeLayout,
    R,
    S,
    TileLayout,
    laneid,
    mma_fragment_layout,
    mma_shared_layout,
    warpid,
)
from tilewright.records import replace


@st.composite
def calls(draw: st.DrawFn) -> Call:
    types, scope = draw(st.sampled_from(TYPES)), draw(st.sampled_from(sorted(SHARES)))
    kinds, share = kinds_of(types), draw(st.sampled_from(SHARES[scope]))
    m, n = 16 * share[0] * draw(st.integers(1, 2)), 8 * share[1] * draw(st.integers(1, 3))
    sizes = Sizes(m, n, SHORTEST[types] * draw(st.integers(1, 4)), share, NUMBERING[scope])
    layouts = draw(fragments(sizes, kinds))
    turned = {"A": draw(st.booleans()), "B": draw(st.booleans())}
    made: dict[str, Buffer] = {}
    for name in "DABC":
        fragment, shape = layout_of(layouts[name], name, sizes, turned.get(name, False))
        space = draw(st.sampled_from(["local", "local", "shared", "global"]))
        memory = draw(memory_layouts(shape, dtype(kinds[name]).bits)) if space == "shared" else None
        made[name] = buffer(name, space, shape, fragment if space == "local" else memory, kinds[name])
    c = draw(st.sampled_from([made["C"], made["D"], None]))
    if made["D"].space != "local" or c is not made["C"]:
        made["C"] = buffer("C", "shared", (m, n), None, kinds["C"])  # registers are not known before
        c = made["C"] if c not in (made["D"], None) else c
    alpha, beta = draw(st.sampled_from([1, 2, -1])), draw(st.sampled_from([0, 1, 2]))
    return Call(made["D"], made["A"], made["B"], c, scope=scope, transpose_a=turned["A"], transpose_b=turned["B"],
                alpha=alpha, beta=beta)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_product_is_what_numpy_says(data: st.DataObject) -> None:
    said = held(data.draw(calls()), data.draw(st.integers(0, 99)))

    assert said.variant == "mma"


@settings(max_examples=6, deadline=None)
@given(st.sampled_from([types for types in TYPES if types[0] == "f"]), st.integers(0, 99), st.booleans())
def test_a_product_of_floats_is_within_its_bound(types: str, seed: int, scaled: bool) -> None:
    kinds, k = kinds_of(types), 4 * SHORTEST[types]
    made = (buffer(name, "shared", shape, None, kinds[name]) for name, shape in
            (("D", (16, 8)), ("A", (16, k)), ("B", (k, 8)), ("C", (16, 8))))  # fmt: skip
    d, a, b, c = made
    call = Call(d, a, b, c, alpha=0.3, beta=-1.7) if scaled else Call(d, a, b)
    rng = np.random.default_rng(seed)
    arrays = {name: rng.standard_normal(extents(each)).astype(each.dtype.numpy) for name, each in call.buffers.items()}
    if "tf32" in types:
        for name in "AB":
            arrays[name] = (arrays[name].view(np.uint32) & 0xFFFFE000).view(np.float32)
    left, right, other = (arrays.get(name, np.zeros(1)).astype(np.float64) for name in "ABC")

    got, _ = run(call, arrays)

    wanted = call.alpha * (left @ right) + call.beta * other
    size = abs(call.alpha) * (np.abs(left) @ np.abs(right)) + np.abs(call.beta * other)
    unit = 2.0**-21 if kinds["D"] == "float32" else 2.0**-10
    assert (np.abs(got.astype(np.float64) - wanted) <= (k + 4) * unit * size).all()


# Every form of the table, on every memory, assembles and is right


FORMS = [(str(shape), str(types)) for form in MMA.forms for shape in form.wording.modifiers["shape"]
         for types in form.wording.modifiers["types"]]  # fmt: skip


@pytest.mark.parametrize(("shape", "types"), FORMS)
def test_every_form_of_the_table_is_chosen_and_assembles(shape: str, types: str) -> None:
    m, n, k = mma_shape(shape)
    kinds = kinds_of(types)
    layouts = {name: mma_fragment_layout(name, extents, kinds[name]) for name, extents in
               (("D", (m, n)), ("A", (m, k)), ("B", (k, n)))}  # fmt: skip
    d, a, b = (buffer(name, "local", shape_of[name], layout, kinds[name]) for shape_of in
               [{"D": (m, n), "A": (m, k), "B": (k, n)}] for name, layout in layouts.items())  # fmt: skip
    call = Call(d, a, b)

    assert held(call).plan == f"1 x mma {shape} {types} per warp; A in registers; B in registers"
    assert "mma.sync" in tw.compile(call.kernel(), target="sm_90a").source("ptx")


SHARED = {"A": (32, 64), "B": (64, 32)}


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("major", ["K", "other"])
def test_operands_in_shared_memory_come_by_ldmatrix_whatever_is_contiguous(
    kind: str, turned: tuple[bool, bool], major: str
) -> None:
    made = []
    for name, flip in zip("AB", turned, strict=True):
        shape = SHARED[name][::-1] if flip else SHARED[name]
        rows = (("MK" if name == "A" else "KN")[:: -1 if flip else 1][1] == "K") == (major == "K")
        layout = mma_shared_layout(kind, 2, shape if rows else shape[::-1])
        assert isinstance(layout, ComposeLayout)
        made.append(buffer(name, "shared", shape, layout if rows else _columns_first(layout, shape), kind))
    d = buffer("D", "local", (32, 32), mma_fragment_layout("D", (32, 32), "float32"), "float32")

    said = held(Call(d, *made, transpose_a=turned[0], transpose_b=turned[1]))

    trans = "" if major == "K" else ", transposed"
    assert f"A by ldmatrix x4{trans}, 2 instructions per warp, 4 times along K" in said.plan
    assert f"B by ldmatrix x4{trans}, 2 instructions per warp, 4 times along K" in said.plan


def _columns_first(layout: ComposeLayout, shape: tuple[int, int]) -> ComposeLayout:
    grouped, separators = layout.tile.group(shape[::-1])
    return ComposeLayout(layout.swizzle, grouped.permute_by_groups(separators, (1, 0)))


def test_the_next_step_is_loaded_before_the_products_of_this_one() -> None:
    d = buffer("D", "local", (16, 8), mma_fragment_layout("D", (16, 8), "float32"), "float32")
    made = Call(d, buffer("A", "shared", (16, 64)), buffer("B", "shared", (64, 8)))

    done, _ = tile.resolve(made.kernel(), "sm_90a")

    calls = [stmt.value.op for stmt in ir.statements(done.body)
             if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call_)]  # fmt: skip
    kinds = [op.partition(".")[2] for op in calls if op in ("ptx.ldmatrix", "ptx.mma")]
    assert kinds == ["ldmatrix"] * 4 + ["mma", *["ldmatrix"] * 2] * 2 + ["mma"] * 2


# What it leaves


def fragments_of(m: int = 32, n: int = 16, k: int = 32, kind: str = "float16", sums: str = "float32") -> list[Buffer]:
    shapes = {"D": (m, n), "A": (m, k), "B": (k, n)}
    return [buffer(name, "local", shape, mma_fragment_layout(name, shape, sums if name == "D" else kind),
                   sums if name == "D" else kind) for name, shape in shapes.items()]  # fmt: skip


def refused(call: Call) -> DispatchError:
    with pytest.raises(DispatchError, match=r"no variant takes Tx\.(warp|wg|cta)?\.?gemm") as raised:
        tile.resolve(kernel(call.stmt, threads=call.threads or THREADS[call.scope]), call.arch)
    return raised.value


def test_a_wrong_register_layout_is_told_slot_by_slot_with_one_that_does() -> None:
    d, a, b = fragments_of()
    turned = replace(a, layout=S[(32, 32) : (1 @ laneid, 1)])

    error = refused(Call(d, turned, b))

    assert "slot 0 of A is element (1, 0) in lane 1; mma has (0, 0) there" in str(error.given)
    assert error.hint == 'mma_fragment_layout("A", (32, 32), "float16") for A'


def test_the_layout_of_a_hint_does() -> None:
    d, a, b = fragments_of()
    for name, bad in (("A", Call(d, replace(a, layout=S[32, 32]), b)), ("B", Call(d, a, replace(b, layout=S[32, 16])))):
        text, _, rest = str(refused(bad).hint).partition(" for ")
        layout = eval(text, {"mma_fragment_layout": mma_fragment_layout})
        fixed = {"A": a, "B": b} | {rest: replace({"A": a, "B": b}[name], layout=layout)}
        assert held(Call(d, fixed["A"], fixed["B"])).variant == "mma"


def test_new_layouts_for_all_are_named_where_d_is_no_fragment() -> None:
    d, a, b = fragments_of()

    hint = str(refused(Call(replace(d, layout=S[(32, 16) : (1 @ laneid, 1)]), a, b)).hint)

    assert [part.partition("(")[0] for part in hint.split("; ")] == ["mma_fragment_layout"] * 3


@pytest.mark.parametrize(("m", "n", "k", "why", "whole"), [
    (20, 16, 32, "M is 20, and D is in registers, which have whole pieces", "32 x 16 x 32"),
    (32, 12, 32, "N is 12, and D is in registers, which have whole pieces", "32 x 16 x 32"),
])  # fmt: skip
def test_registers_of_ragged_sizes_are_refused_with_whole_ones(m: int, n: int, k: int, why: str, whole: str) -> None:
    d = buffer("D", "local", (m, n), S[(m, n) : (1 @ laneid, 1)], "float32")
    a, b = buffer("A", "shared", (m, k), None, "float16"), buffer("B", "shared", (k, n), None, "float16")

    error = refused(Call(d, a, b))

    assert why in str(error.given)
    assert str(error.hint).startswith(f"M x N x K = {whole}, with zeros in what is added; mma_fragment_layout(")


RAGGED = [
    ("warp", 17, 9, 20, "float16", "float32", (False, False)),
    ("warp", 16, 4, 16, "float16", "float16", (True, True)),
    ("cta", 48, 48, 32, "bfloat16", "bfloat16", (False, True)),
    ("cta", 33, 13, 27, "int8", "int32", (True, False)),
    ("warp", 1 << 4, 24, 40, "float8_e4m3fn", "bfloat16", (False, False)),
]


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize(("scope", "m", "n", "k", "kind", "sums", "turned"), RAGGED)
def test_tiles_in_memory_have_any_sizes_and_sums_are_converted_to_narrow_results(
    scope: str, m: int, n: int, k: int, kind: str, sums: str, turned: tuple[bool, bool], space: str
) -> None:
    (m_a, k_a), (k_b, n_b) = ((m, k)[:: -1 if turned[0] else 1], (k, n)[:: -1 if turned[1] else 1])
    d, a, b = (buffer(name, space, shape, None, each) for name, shape, each in
               (("D", (m, n), sums), ("A", (m_a, k_a), kind), ("B", (k_b, n_b), kind)))  # fmt: skip

    call = Call(d, a, b, scope=scope, transpose_a=turned[0], transpose_b=turned[1], alpha=1, beta=1)

    assert held(call, 3).variant == "mma"


@pytest.mark.parametrize("space", ["shared", "local"])
def test_float64_is_multiplied_and_scaled_as_such(space: str) -> None:
    shapes = {"D": (16, 16), "A": (16, 24), "B": (24, 16)}
    d, a, b = (
        buffer(name, space, shape, mma_fragment_layout(name, shape, "float64") if space == "local" else None, "float64")
        for name, shape in shapes.items()
    )
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}

    found, said = run(Call(d, a, b, alpha=0.375, beta=1), arrays)

    assert said.plan.startswith("6 x mma m16n8k8 f64.f64.f64.f64 per warp")
    np.testing.assert_allclose(found, 0.375 * arrays["A"] @ arrays["B"] + arrays["D"], rtol=1e-13, atol=1e-13)


def narrow(sums: str, a: str, b: str) -> list[Buffer]:
    return [buffer("D", "shared", (17, 9), None, sums), buffer("A", "shared", (17, 32), None, a),
            buffer("B", "shared", (32, 9), None, b)]  # fmt: skip


def test_floats_of_six_bits_are_multiplied_where_the_target_can() -> None:
    operands = narrow("float16", "float6_e2m3fn", "float8_e4m3fn")

    assert held(Call(*operands, arch="sm_120a")).variant == "mma"
    assert refused(Call(*operands)).hint == 'target="sm_120a"'


@T.prim_func
def of_four_bits(D: T.Buffer((17, 9), "float32"), A: T.Buffer((17, 32), "float4_e2m1fn"),
                 B: T.Buffer((9, 32), "float4_e2m1fn"), C: T.Buffer((32, 9), "float8_e4m3fn")):  # fmt: skip
    T.cta_id([1])
    T.thread_id([64])
    Tx.cta.gemm(D[:, :], A[:, :], B[:, :], transpose_B=True)
    Tx.cta.gemm(D[:, :], A[:, :], C[:, :], beta=1.0)


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120a"])
def test_floats_of_four_bits_are_multiplied_as_float16(target: str) -> None:
    rng, kinds = np.random.default_rng(0), [side.dtype.numpy for side in of_four_bits.buffers]
    a, b, c = (rng.integers(-3, 4, shape) for shape in [(17, 32), (9, 32), (32, 9)])
    d, *factors = (x.astype(kind) for x, kind in zip((np.zeros((17, 9)), a, b, c), kinds, strict=True))
    made = tw.compile(of_four_bits, target=target)
    made.simulate(d, *factors, check="all")

    assert np.array_equal(d, a @ b.T + a @ c)
    assert [entry.variant for entry in made.report.entries] == ["widened"] * 2


@T.prim_func
def partly(D: T.Buffer((100, 90), "float32"), A: T.Buffer((100, 70), "float16"), B: T.Buffer((70, 90), "float16"),
           x: T.int32, y: T.int32, n: T.int32):  # fmt: skip
    T.cta_id([1])
    T.thread_id([128])
    Tx.cta.gemm(D[x : x + 64, y : y + 32], A[x : x + 64, 0:n], B[0:n, y : y + 32])


@pytest.mark.parametrize(("x", "y", "n"), [(0, 0, 70), (64, 64, 33), (99, 80, 16), (36, 58, 0)])
def test_tiles_leave_their_buffers_and_end_where_only_the_run_knows(x: int, y: int, n: int) -> None:
    a, b = (np.random.default_rng(seed).integers(-3, 4, shape) for seed, shape in enumerate([(100, 70), (70, 90)]))
    d, wanted = np.full((100, 90), 7, np.float32), np.full((100, 90), 7, np.float32)
    tw.compile(partly, target="sm_90a").simulate(d, a.astype(np.float16), b.astype(np.float16), x, y, n, check="all")
    wanted[x : x + 64, y : y + 32] = (a[:, :n] @ b[:n])[x : x + 64, y : y + 32]

    assert np.array_equal(d, wanted)


def test_an_extent_that_may_be_any_number_is_refused() -> None:
    @T.prim_func
    def unbounded(d: T.handle, a: T.handle, b: T.handle):
        n = T.int32()
        D, A = T.match_buffer(d, (n, 64), "float32"), T.match_buffer(a, (n, 64), "float16")
        B = T.match_buffer(b, (64, 64), "float16")
        T.cta_id([1])
        T.lane_id([32])
        Tx.warp.gemm(D, A, B)

    with pytest.raises(DispatchError, match="M may be 2147483647") as error:
        tw.compile(unbounded, target="sm_90a")

    assert "T.assume of a number up to 16384" in str(error.value.allowed)


@pytest.mark.parametrize(("sums", "kind", "hint"), [
    ("float32", "float32", 'dtype "tf32" for A and B: of float32 mma reads the 19 bits of that'),
    ("float32", "int8", 'dtype "int32" for D'),
])  # fmt: skip
def test_types_without_an_instruction_are_refused_with_some_that_have_one(sums: str, kind: str, hint: str) -> None:
    d, a, b = (buffer(name, "shared", shape, None, each) for name, shape, each in
               (("D", (16, 8), sums), ("A", (16, 32), kind), ("B", (32, 8), kind)))  # fmt: skip

    assert refused(Call(d, a, b)).hint == hint


def test_a_target_without_the_instruction_is_told_the_first_that_has_it() -> None:
    d, a, b = fragments_of(kind="float8_e4m3fn")

    assert refused(Call(d, a, b, arch="sm_80")).hint == 'target="sm_89"'


def test_a_target_with_the_shorter_instruction_alone_gets_that() -> None:
    d, a, b = fragments_of()
    _, said = tile.resolve(kernel(Call(d, a, b).stmt), "sm_75")

    assert said.entries[0].plan.startswith("16 x mma m16n8k8 f32.f16.f16.f32 per warp")


def test_k_shared_out_among_warps_is_refused() -> None:
    d, a, b = fragments_of()
    d = replace(d, layout=TileLayout(d.layout + R[2 : 1 @ warpid]))
    a = replace(a, layout=S[(2, 2, 8, 2, 2, 4, 2) : (8, 2, 4 @ laneid, 1 @ warpid, 4, 1 @ laneid, 1)])
    b = replace(b, layout=S[(2, 2, 4, 2, 2, 8) : (1 @ warpid, 2, 1 @ laneid, 1, 4, 4 @ laneid)])

    assert "a warp has 16 of the 32 steps along K of A" in str(refused(Call(d, a, b, scope="cta")).given)


def test_warps_that_hold_the_sums_and_no_operand_are_refused() -> None:
    d, a, b = fragments_of()
    d = replace(d, layout=mma_fragment_layout("D", (32, 16), "float32", warps=(2, 1)))
    a = replace(a, layout=mma_fragment_layout("A", (32, 32), "float16") + 1 @ warpid)

    assert "warp 0 has a part of D and nothing of A" in str(refused(Call(d, a, b, scope="cta")).given)


def test_a_thread_alone_is_refused() -> None:
    d, a, b = fragments_of()

    error = refused(Call(d, a, b, scope="thread", threads=32))
    assert "of the 32 lanes that must execute the instruction together" in str(error.given)
    assert error.hint == "Tx.cta.gemm(...): as it stands, each thread makes the call by itself"


def test_sums_that_lie_where_an_operand_is_read_are_refused() -> None:
    shared = buffer("D", "shared", (16, 16))

    assert "may lie where D[0:16, 0:16] is written" in str(
        refused(Call(shared, replace(shared), buffer("B", "shared", (16, 16)))).given
    )


def test_a_fraction_does_not_scale_integers() -> None:
    d, a, b = fragments_of(kind="int8", sums="int32")

    assert "alpha is 0.5, float32, and D is int32" in str(refused(Call(d, a, b, alpha=0.5)).given)


@pytest.mark.parametrize("position", range(3))
def test_an_operand_that_is_no_matrix_is_refused(position: int) -> None:
    operands = fragments_of()
    operands[position] = buffer("X", "shared", (8, 8, 8))

    with pytest.raises(DispatchError, match="X is no matrix"):
        tile.resolve(kernel(Call(*operands).stmt), "sm_90a")


def test_extents_that_do_not_meet_are_told_with_all_shapes() -> None:
    d, a, _ = fragments_of()

    with pytest.raises(DispatchError, match="the extents of K differ") as raised:
        tile.resolve(kernel(Call(d, a, buffer("B", "shared", (48, 16))).stmt), "sm_90a")
    assert raised.value.allowed == "D (M, N), A (M, K), B (K, N), C (M, N)"


# As kernels write it


def written() -> ir.Kernel:
    """A warp's part of a tile in shared memory; flags by position, factors of run time."""

    @T.prim_func
    def kernel(
        A: T.Buffer((64, 32), "float16"),
        B: T.Buffer((16, 32), "float16"),
        by: T.float32,
        more: T.Buffer((1,), "float32"),
        D: T.Buffer((64, 16), "float32"),
    ):
        T.cta_id([1])
        warp = T.warp_id([4])
        T.lane_id([32])
        a = T.alloc_shared((64, 32), "float16")
        d = T.alloc_buffer((16, 16), "float32", scope="local", layout=mma_fragment_layout("D", (16, 16), "float32"))
        Tx.cta.copy(a, A)
        T.cuda.cta_sync()
        Tx.warp.copy(d, D[16 * warp : 16 * warp + 16, :])
        Tx.warp.gemm(d, a[16 * warp : 16 * warp + 16, :], B, d, False, True, by, more[0])
        Tx.warp.copy(D[16 * warp : 16 * warp + 16, :], d)

    return kernel


def test_a_warp_multiplies_its_part_by_factors_of_run_time() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 32), (16, 32)))
    before = rng.integers(-3, 4, (64, 16)).astype(np.float32)
    d = before.copy()

    done = tw.simulate(written(), a, b, 2.0, np.array([-1], np.float32), d, check="all")

    assert np.array_equal(d, 2 * (a.astype(np.float32) @ b.T.astype(np.float32)) - before)
    assert done.warnings == []


def test_a_call_with_keywords_by_position_reads_back() -> None:
    made = written()

    assert "alpha=by, beta=more[0], transpose_B=True)" in str(made)
    assert parse_script(str(made)) == made


def test_sums_of_a_product_are_the_left_side_of_the_next_one() -> None:
    @T.prim_func
    def chain(Q: T.Buffer((16, 32), "float16"), K: T.Buffer((16, 32), "float16"), V: T.Buffer((16, 32), "float16"),
              O: T.Buffer((16, 32), "float32")):  # noqa: E741  # fmt: skip
        T.cta_id([1])
        T.lane_id([32])
        s = T.alloc_buffer((16, 16), "float16", scope="local", layout=mma_fragment_layout("D", (16, 16), "float16"))
        Tx.warp.gemm(s, Q, K, transpose_B=True)
        Tx.warp.gemm(O, s, V)

    q, k, v = (np.random.default_rng(n).integers(-2, 3, (16, 32)).astype(np.float16) for n in range(3))
    exe, o = tw.compile(chain, target="sm_90a"), np.zeros((16, 32), np.float32)
    exe.simulate(q, k, v, o, check="all")

    assert "A in registers" in exe.report.entries[1].plan
    assert np.array_equal(o, (q.astype(np.float32) @ k.T.astype(np.float32)) @ v.astype(np.float32))


@pytest.mark.parametrize(("text", "message"), [
    ("D, A", "Tx.gemm takes D and A and B"),
    ("D, A, B, alpha=A", "alpha is a number"),
    ("D, A, B, transpose_A=1", "unknown transpose_A"),
    ("D, A, B, transposed=True", "has no keyword 'transposed'"),
    ("D, A, B, D, False, False, 1, 0, 3", "Tx.gemm takes D and A and B"),
])  # fmt: skip
def test_arguments_that_it_does_not_have_are_refused(text: str, message: str) -> None:
    source = "\n".join([
        "@T.prim_func",
        'def k(A: T.Buffer((16, 16), "float16"), B: T.Buffer((16, 8), "float16"), D: T.Buffer((16, 8), "float32")):',
        "    T.cta_id([1])",
        "    T.lane_id([32])",
        f"    Tx.warp.gemm({text})",
        "",
    ])  # fmt: skip

    with pytest.raises(TilewrightError, match=message):
        lower(source)


def lower(source: str) -> str:
    return tw.compile(executed(source, "gemm.py", T=T, Tx=Tx)["k"], target="sm_90a").source("lowered")
